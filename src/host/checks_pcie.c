/*
 * Judges of the group "pcie" (checks_pcie.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/remedy.h"
#include "host/text_remedy.h"

#include <inttypes.h>
#include <string.h>

/* True, with a SKIP, when the bus cannot be looked at. */
static bool no_paths(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (!rg_reading_ok(&facts->pcie.buses_at) && facts->pcie.path_count == 0 &&
        facts->pcie.buses_at.state != RG_READ_MISSING) {
        (void)rg_find_unread(findings, "", &facts->pcie.buses_at);
        return true;
    }
    return facts->pcie.path_count == 0;
}

/* ---- PCIE-LINK ---- */

static bool link_mbits(const struct rg_text *speed, const struct rg_number *width,
                       uint64_t *ret_mbits)
{
    unsigned tenths;
    if (!rg_reading_ok(&speed->at) || !rg_reading_ok(&width->at) || width->value <= 0 ||
        width->value > 32 || !rg_pci_speed_parse(rg_span_text(speed->text), &tenths)) {
        return false;
    }
    *ret_mbits = rg_pci_link_mbits(tenths, (unsigned)width->value);
    return true;
}

static void judge_link(const struct rg_pci_path *path, size_t index, bool *ret_bad,
                       struct rg_findings *findings)
{
    const struct rg_pci_hop *hop = &path->hops[index];
    uint64_t now, most, need = path->port_mbits + path->port_mbits / 10;
    if (!link_mbits(&hop->speed, &hop->width, &now)) {
        return;
    }
    bool is_slow = link_mbits(&hop->speed_max, &hop->width_max, &most) && now < most;
    bool is_own = index == 0;
    bool is_half = need && now * 2 <= need;
    if (!is_half && !(is_own && is_slow) && !(need && now < need)) {
        return;
    }
    *ret_bad = true;
    struct rg_finding *finding =
        rg_find(findings, is_half ? RG_VERDICT_FAIL : RG_VERDICT_WARN, path->label,
                "The link of %s %s carries %.1f Gbit/s%s.",
                is_own ? "the card" : "the bridge above it,", hop->address, (double)now / 1000,
                need && now < need ? ", less than the ports" : ", less than the card could");
    rg_find_value(finding, "%s x%" PRId64 ", at most %s x%" PRId64 "; ports %.1f Gbit/s",
                  hop->speed.text, hop->width.value, hop->speed_max.text, hop->width_max.value,
                  (double)path->port_mbits / 1000);
    rg_find_where(finding, &hop->speed.at);
    rg_find_remedy(finding, "lspci -vv -s %s | grep -E 'LnkCap|LnkSta'", hop->address);
    rg_find_remedy(finding, "# reseat the card, try another slot of full width, look for a slot or "
                            "link speed limit in the firmware setup; then:");
    rg_find_remedy(finding, "dmesg | grep -i 'limited by'   # names the bridge that limits");
}

void judge_pcie_link(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (no_paths(facts, findings)) {
        return;
    }
    for (size_t i = 0; i < facts->pcie.path_count; i++) {
        const struct rg_pci_path *path = &facts->pcie.paths[i];
        bool bad = false;
        uint64_t now;
        if (path->is_gpu || path->hop_count == 0) {
            continue;
        }
        if (!link_mbits(&path->hops[0].speed, &path->hops[0].width, &now)) {
            struct rg_finding *finding =
                rg_find(findings, RG_VERDICT_SKIP, path->label,
                        "The link's speed is not told (a virtual function, or no PCI Express).");
            rg_find_where(finding, &path->hops[0].speed.at);
            continue;
        }
        for (size_t k = 0; k < path->hop_count; k++) {
            judge_link(path, k, &bad, findings);
        }
        if (!bad) {
            struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, path->label,
                                                 "%.1f Gbit/s up to the root.", (double)now / 1000);
            rg_find_value(finding, "%s x%" PRId64, path->hops[0].speed.text,
                          path->hops[0].width.value);
            rg_find_where(finding, &path->hops[0].speed.at);
        }
    }
}

/* ---- Configuration space ---- */

/* True when the function's own registers are known; a SKIP says why not. */
static bool has_registers(const struct rg_pci_path *path, struct rg_findings *findings)
{
    const struct rg_pci_hop *hop = &path->hops[0];
    if (path->hop_count == 0 || !rg_reading_ok(&hop->config_at)) {
        if (path->hop_count) {
            (void)rg_find_unread(findings, path->label, &hop->config_at);
        }
        return false;
    }
    if (hop->config.short_read) {
        struct rg_finding *finding = rg_find(
            findings, RG_VERDICT_SKIP, path->label,
            "Only root may read more than the first 64 bytes of configuration space: run as root.");
        rg_find_where(finding, &hop->config_at);
        return false;
    }
    if (!hop->config.has_express) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_SKIP, path->label,
                                             "The function has no PCI Express capability.");
        rg_find_where(finding, &hop->config_at);
        return false;
    }
    return true;
}

#define READ_REQUEST_LEAST 512
#define PAYLOAD_USUAL      128

static bool payload_is_small(const struct rg_pci_path *path)
{
    const struct rg_pci_config *own = &path->hops[0].config;
    const struct rg_pci_config *up = path->hop_count > 1 ? &path->hops[1].config : NULL;
    if (!up || !up->has_express) {
        return false;
    }
    bool both_can = own->payload_able > PAYLOAD_USUAL && up->payload_able > PAYLOAD_USUAL;
    return own->payload != up->payload || (own->payload == PAYLOAD_USUAL && both_can);
}

void judge_pcie_mrrs(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (no_paths(facts, findings)) {
        return;
    }
    for (size_t i = 0; i < facts->pcie.path_count; i++) {
        const struct rg_pci_path *path = &facts->pcie.paths[i];
        if (path->is_gpu || !has_registers(path, findings)) {
            continue;
        }
        const struct rg_pci_hop *hop = &path->hops[0];
        bool small_read = hop->config.read_request < READ_REQUEST_LEAST;
        bool small_payload = payload_is_small(path);
        struct rg_finding *finding = rg_find(
            findings, small_read || small_payload ? RG_VERDICT_WARN : RG_VERDICT_OK, path->label,
            small_read ? "Read requests are limited to %u bytes, payloads to %u."
            : small_payload
                ? "Read requests of %u bytes are fine, payloads of %u are small or differ "
                  "from the bridge's."
                : "Read requests up to %u bytes, payloads up to %u.",
            hop->config.read_request, hop->config.payload);
        rg_find_value(finding, "MaxReadReq %u, MaxPayload %u (able %u), bridge's MaxPayload %u",
                      hop->config.read_request, hop->config.payload, hop->config.payload_able,
                      path->hop_count > 1 ? path->hops[1].config.payload : 0);
        rg_find_where(finding, &hop->config_at);
        if (small_read) {
            rg_find_remedy(finding,
                           "setpci -s %s CAP_EXP+08.w=5000:7000   # 4096 bytes, until the "
                           "next boot",
                           hop->address);
        }
        if (small_payload) {
            rg_find_remedy(finding, "# set MaxPayload to 256 or 512 in the firmware setup, or boot "
                                    "with pci=pcie_bus_perf:");
            rg_remedy_kernel_argument(finding, facts, "pci=pcie_bus_perf");
        }
    }
}

void judge_pcie_ro(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (no_paths(facts, findings)) {
        return;
    }
    bool matters = facts->pcie.is_amd || facts->pcie.has_gpu;
    for (size_t i = 0; i < facts->pcie.path_count; i++) {
        const struct rg_pci_path *path = &facts->pcie.paths[i];
        if (path->is_gpu || !has_registers(path, findings)) {
            continue;
        }
        const struct rg_pci_hop *hop = &path->hops[0];
        bool bad = matters && !hop->config.relaxed_ordering;
        struct rg_finding *finding =
            rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, path->label,
                    bad ? "Relaxed ordering is off, on a host with %s." : "Relaxed ordering is %s.",
                    bad ? facts->pcie.has_gpu ? "GPUs" : "an AMD processor"
                    : hop->config.relaxed_ordering ? "on"
                                                   : "off, and matters little here");
        rg_find_value(finding, "DevCtl RlxdOrd%c", hop->config.relaxed_ordering ? '+' : '-');
        rg_find_where(finding, &hop->config_at);
        if (bad) {
            rg_find_remedy(finding, "setpci -s %s CAP_EXP+08.w=0010:0010   # until the next boot",
                           hop->address);
            rg_find_remedy(finding,
                           "# for good: the firmware setup's option for PCI Express relaxed "
                           "ordering");
        }
    }
}

/* ---- PCIE-ACS ---- */

#define ACS_HARMFUL                                                                                \
    (RG_PCI_ACS_SOURCE_VALIDATION | RG_PCI_ACS_REQUEST_REDIRECT | RG_PCI_ACS_COMPLETION_REDIRECT)

static bool seen_before(const struct rg_host_pcie *pcie, size_t path, size_t hop)
{
    const char *address = pcie->paths[path].hops[hop].address;
    for (size_t i = 0; i <= path; i++) {
        size_t end = i == path ? hop : pcie->paths[i].hop_count;
        for (size_t k = 1; k < end; k++) {
            if (strcmp(pcie->paths[i].hops[k].address, address) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void judge_bridge(const struct rg_host_facts *facts, const struct rg_pci_hop *hop,
                         unsigned *known, unsigned *bad, struct rg_findings *findings)
{
    if (!rg_reading_ok(&hop->config_at) || hop->config.short_read || !hop->config.has_extended) {
        return;
    }
    (*known)++;
    if (!hop->config.has_acs || !(hop->config.acs_control & ACS_HARMFUL)) {
        return;
    }
    (*bad)++;
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_WARN, hop->address,
                "This bridge redirects traffic between devices to the root complex.");
    rg_find_value(finding, "ACSCtl 0x%04x", hop->config.acs_control);
    rg_find_where(finding, &hop->config_at);
    rg_find_remedy(finding,
                   "setpci -s %s ECAP_ACS+06.w=0000   # until the next boot: put it into a "
                   "boot script",
                   hop->address);
    rg_find_remedy(finding,
                   "# for good: disable ACS (or VT-d / AMD-Vi) in the firmware setup; keep it "
                   "where devices are passed to virtual machines");
}

void judge_pcie_acs(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_pcie *pcie = &facts->pcie;
    unsigned known = 0, bad = 0, bridges = 0;
    if (no_paths(facts, findings) || !pcie->has_gpu) {
        return;
    }
    if (pcie->is_virtual) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "This is a virtual machine: its host decides about redirection.");
        return;
    }
    for (size_t i = 0; i < pcie->path_count; i++) {
        for (size_t k = 1; k < pcie->paths[i].hop_count; k++) {
            if (!seen_before(pcie, i, k)) {
                bridges++;
                judge_bridge(facts, &pcie->paths[i].hops[k], &known, &bad, findings);
            }
        }
    }
    if (bridges && known == 0) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "Only root may read the bridges' extended configuration space: run as root.");
    } else if (known && bad == 0) {
        (void)rg_find(findings, RG_VERDICT_OK, "", "None of %u bridges redirects.", known);
    }
}

/* ---- IOMMU ---- */

void judge_iommu(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_pcie *pcie = &facts->pcie;
    if (no_paths(facts, findings)) {
        return;
    }
    for (size_t i = 0; i < pcie->path_count; i++) {
        const struct rg_pci_path *path = &pcie->paths[i];
        if (path->iommu_group.at.state == RG_READ_MISSING) {
            struct rg_finding *finding =
                rg_find(findings, RG_VERDICT_OK, path->label, "No IOMMU stands before it.");
            rg_find_where(finding, &path->iommu_group.at);
            continue;
        }
        if (!rg_reading_ok(&path->iommu_group.at) || !rg_reading_ok(&path->iommu_type.at)) {
            (void)rg_find_unread(findings, path->label,
                                 rg_reading_ok(&path->iommu_group.at) ? &path->iommu_type.at
                                                                      : &path->iommu_group.at);
            continue;
        }
        bool translates = strcmp(path->iommu_type.text, "identity") != 0;
        bool bad = translates && (pcie->has_gpu || pcie->is_amd);
        struct rg_finding *finding =
            rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, path->label,
                    !translates ? "The IOMMU passes its addresses through."
                    : bad       ? "The IOMMU translates its addresses, on a host with %s."
                          : "The IOMMU translates its addresses; without %s that costs little.",
                    pcie->has_gpu ? "GPUs"
                    : bad         ? "an AMD processor"
                                  : "GPUs");
        rg_find_value(finding, "%s", path->iommu_type.text);
        rg_find_where(finding, &path->iommu_type.at);
        if (bad) {
            rg_remedy_kernel_argument(finding, facts, "iommu=pt");
        }
    }
}
