/*
 * Reads what container this is. See facts_container.h.
 */
#include "host/facts.h"

#include "base/attr.h"

#include <stdio.h>

void rg_host_read_container(struct rg_source *source, struct rg_host_facts *facts)
{
    static const char *const signs[] = {"/.dockerenv", "/run/.containerenv",
                                        "/run/systemd/container", "/run/secrets/kubernetes.io",
                                        "/var/run/secrets/kubernetes.io"};
    struct rg_host_container *container = &facts->container;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(signs); i++) {
        if (!rg_source_exists(source, "%s", signs[i])) {
            continue;
        }
        if (!container->is_here) {
            snprintf(container->sign, sizeof container->sign, "%s", signs[i]);
        }
        container->is_here = true;
        container->is_kubernetes |= i >= 3;
    }
    rg_source_list(source, &container->nodes, "/dev/infiniband");
    rg_source_list(source, &container->netdevs, "/sys/class/net");
}

void rg_host_free_container(struct rg_host_container *container)
{
    rg_names_free(&container->nodes);
    rg_names_free(&container->netdevs);
}
