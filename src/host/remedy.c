#include "host/remedy.h"

void rg_remedy_install(struct rg_finding *finding, const struct rg_host_facts *facts,
                       const char *rhel, const char *debian)
{
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding, "dnf install %s", rhel);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding, "apt-get install %s", debian);
    }
}

void rg_remedy_load(struct rg_finding *finding, const char *module)
{
    rg_find_remedy(finding, "modprobe %s", module);
    rg_find_remedy(finding, "echo %s >/etc/modules-load.d/%s.conf", module, module);
}
