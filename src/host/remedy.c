#include "host/remedy.h"

#include <stdio.h>

void rg_remedy_install(struct rg_finding *finding, const struct rg_host_facts *facts,
                       const char *rhel, const char *debian)
{
    char line[512];
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        snprintf(line, sizeof line, "dnf install %s", rhel);
        rg_find_remedy_line(finding, line);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        snprintf(line, sizeof line, "apt-get install %s", debian);
        rg_find_remedy_line(finding, line);
    }
}

void rg_remedy_let_nodes_in(struct rg_finding *finding, const struct rg_host_facts *facts,
                            unsigned port)
{
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "firewall-cmd --permanent --add-rich-rule='rule family=ipv4 source "
                       "address=NODE port port=%u protocol=tcp accept' && firewall-cmd --reload   "
                       "# one for the address of every other node",
                       port);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "nft insert rule inet filter input ip saddr '{ NODE, NODE }' tcp dport %u "
                       "accept   # the addresses of the other nodes; and into /etc/nftables.conf",
                       port);
    }
}

void rg_remedy_load(struct rg_finding *finding, const char *module)
{
    rg_find_remedy(finding, "modprobe %s", module);
    rg_find_remedy(finding, "echo %s >/etc/modules-load.d/%s.conf", module, module);
}
