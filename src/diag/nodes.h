/*
 * Names, each kept once and known by a small number: the nodes that speak in the logs, and the
 * sources (files, members of archives) they were read from. Number 0 is "not known" and has the
 * empty name.
 *
 * Every table has a ceiling. A name that no longer fits gets number 0 and is counted, so that the
 * report can say so.
 */
#ifndef RG_DIAG_NODES_H
#define RG_DIAG_NODES_H

#include "base/error.h"
#include "base/span.h"

#include "diag/record.h"

#include <stdint.h>

#define RG_NODES_MAX      65536
#define RG_SOURCES_MAX    65536
#define RG_NAME_BYTES_MAX 1024 /* longer names are cut */

struct rg_interned;

/* `count_max` names at most, numbers 1 to count_max. The caller frees *ret_names. */
int rg_interned_new(uint32_t count_max, struct rg_interned **ret_names, struct rg_error *err);
void rg_interned_free(struct rg_interned *names);

/* The number of the name, which is added when it is new. 0 for the empty name, at the ceiling and
 * when memory is short. */
uint32_t rg_interned_add(struct rg_interned *names, struct span name);

/* The number of a name, or 0 when it is not there. */
uint32_t rg_interned_find(const struct rg_interned *names, struct span name);

/* The name behind a number: NUL-terminated, borrowed from the table; "" for 0 and unknown numbers.
 */
struct span rg_interned_text(const struct rg_interned *names, uint32_t number);

/* Numbers 1 to this are in use. */
uint32_t rg_interned_count(const struct rg_interned *names);

/* How many times a name was refused. */
uint64_t rg_interned_refused(const struct rg_interned *names);

/*
 * The node of that name. A host's short name and the same name with a domain are one node
 * ("oss1", "oss1.example.org"), but two domains below one short name are two nodes. Addresses are
 * taken whole. The name shown is the one met first.
 */
rg_node_id rg_nodes_add(struct rg_interned *nodes, struct span name);

#endif
