#include "host/facts.h"

#include "base/attr.h"

typedef void reader(struct rg_source *source, struct rg_host_facts *facts);

/* In this order: the later ones look at what the earlier ones have found. */
static reader *const readers[] = {
    rg_host_read_system,        rg_host_read_devices,   rg_host_read_ports,   rg_host_read_lossless,
    rg_host_read_counters,      rg_host_read_pcie,      rg_host_read_memory,  rg_host_read_numa,
    rg_host_read_gpu,           rg_host_read_container, rg_host_read_gateway, rg_host_read_aistor,
    rg_host_read_registrations, rg_host_read_lustre,    rg_host_read_lnet,
};

void rg_host_facts_free(struct rg_host_facts *facts)
{
    if (facts) {
        rg_host_free_memory(&facts->memory);
        rg_host_free_gpu(&facts->gpu);
        rg_host_free_container(&facts->container);
    }
    free(facts);
}

void rg_host_facts_cleanup(struct rg_host_facts **facts)
{
    rg_host_facts_free(*facts);
}

int rg_host_read(struct rg_source *source, const struct rg_host_plan *plan,
                 struct rg_host_facts **ret_facts, struct rg_error *err)
{
    struct rg_host_facts *facts = calloc(1, sizeof *facts);
    if (!facts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    facts->plan = *plan;
    facts->is_live = rg_source_is_live(source);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(readers); i++) {
        readers[i](source, facts);
    }
    *ret_facts = facts;
    return 0;
}
