/* What other programs print of rules: nft and iptables-save, nicctl show qos. */
#include "host/firewall_text.h"
#include "host/nicctl_text.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_firewall *firewall = malloc(sizeof *firewall);
    struct rg_nicctl *nicctl = malloc(sizeof *nicctl);
    rg_firewall_parse(text, firewall);
    assert(firewall->count <= RG_FIREWALL_RANGES_MAX);
    for (size_t i = 0; i < firewall->count; i++) {
        (void)rg_firewall_blocks(firewall, firewall->ranges[i].tcp, firewall->ranges[i].first);
    }
    (void)rg_firewall_blocks(firewall, false, 4791);
    bool is_on;
    (void)rg_nicctl_dcqcn(text, "ionic_0", &is_on);
    bool known = rg_nicctl_parse(text, nicctl);
    assert(nicctl->count <= RG_NICCTL_PORTS_MAX && (nicctl->count || !known));
    for (size_t i = 0; i < nicctl->count; i++) {
        const struct rg_dcb *dcb = rg_nicctl_find(nicctl, nicctl->ports[i].address);
        assert(!dcb || dcb->known);
        for (size_t k = 0; dcb && k < RG_DCB_DSCPS; k++) {
            assert(dcb->priority_of_dscp[k] < RG_DCB_PRIORITIES);
        }
    }
    free(firewall);
    free(nicctl);
    return 0;
}
