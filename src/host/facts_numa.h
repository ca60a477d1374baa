/*
 * Where RDMA devices sit among the sockets, and which CPUs take their interrupts.
 */
#ifndef RG_HOST_FACTS_NUMA_H
#define RG_HOST_FACTS_NUMA_H

#include "host/irq_text.h"
#include "host/source.h"

struct rg_host_facts;

#define RG_HOST_NUMA_MAX 64

struct rg_host_numa_nic {
    char rdma[64];
    struct rg_number node;     /* -1: the firmware does not say */
    struct rg_text local_cpus; /* "0-31,64-95" */
    bool has_spread;
    struct rg_irq_spread spread;
};

struct rg_host_numa {
    struct rg_text online; /* "0-1" */
    struct rg_reading interrupts_at;
    struct rg_host_numa_nic nics[RG_HOST_NUMA_MAX];
    size_t count;
};

void rg_host_read_numa(struct rg_source *source, struct rg_host_facts *facts);

/* Whether two CPU lists ("0-3,8") have a CPU in common; false for text that is none. */
bool rg_cpu_lists_meet(const char *a, const char *b);

#endif
