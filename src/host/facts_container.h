/*
 * Whether this is a container, and what of RDMA it was given.
 */
#ifndef RG_HOST_FACTS_CONTAINER_H
#define RG_HOST_FACTS_CONTAINER_H

#include "host/source.h"

struct rg_host_facts;

struct rg_host_container {
    bool is_here;  /* this is a container */
    char sign[64]; /* by which this is known: a path */
    bool is_kubernetes;
    struct rg_names nodes;   /* /dev/infiniband; owned */
    struct rg_names netdevs; /* all interfaces of this network namespace; owned */
};

void rg_host_read_container(struct rg_source *source, struct rg_host_facts *facts);
void rg_host_free_container(struct rg_host_container *container);

#endif
