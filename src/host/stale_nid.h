/*
 * Addresses of the past on Lustre servers: what is true now, what is stale, and the whole procedure
 * that mends it, in the order that works.
 */
#ifndef RG_HOST_STALE_NID_H
#define RG_HOST_STALE_NID_H

#include "host/check.h"
#include "host/facts.h"

enum rg_mgs_truth {
    RG_MGS_UNKNOWN,
    RG_MGS_HERE,      /* this machine is the MGS: its own addresses */
    RG_MGS_CONNECTED, /* an import to it is FULL: the address it answers at */
};

/* The addresses that the MGS has now, as far as this machine can know. */
enum rg_mgs_truth rg_stale_mgs(const struct rg_host_facts *facts, struct rg_nid_list *ret_nids);

/* Adds the addresses of servers that this machine is connected to. */
void rg_stale_add_servers(const struct rg_host_facts *facts, struct rg_nid_list *nids);

/* Whether some address is in both lists. */
bool rg_stale_meet(const struct rg_nid_list *a, const struct rg_nid_list *b);

/*
 * The first of `named` that is not among `present`; with `same_net` only of networks that
 * `present` has, where the others cannot be judged. False when there is none.
 */
bool rg_stale_find(const struct rg_nid_list *named, const struct rg_nid_list *present,
                   bool same_net, char ret_nid[RG_NID_TEXT_MAX + 1]);

/* Colons between. */
void rg_stale_add_list(struct rg_buf *out, const struct rg_nid_list *list);

/* The commands, in order: stop, properties, logs, MGS and MDT first, OSTs, recovery, clients. */
void rg_stale_mend(struct rg_finding *finding, const struct rg_host_facts *facts,
                   const struct rg_nid_list *present);

#endif
