/*
 * The map (diagnosis.md 3.1): which host has which NIDs, which target was served at which NID, who
 * is a server. Learnt from messages only, while the input streams by; bounded.
 *
 * It knows nothing of incidents.
 */
#ifndef RG_DIAG_MAP_H
#define RG_DIAG_MAP_H

#include "diag/hosts.h"
#include "diag/words.h"

#define RG_MAP_HOSTS_MAX   16384
#define RG_MAP_TARGETS_MAX 8192
#define RG_MAP_NIDS_MAX    8 /* of one host, or of one target over time */

typedef uint32_t rg_host_id; /* 0: not known */

struct rg_map_host {
    rg_node_id node; /* its own log is in the input; else 0 */
    rg_word name;    /* the node's name, or the NID when only that is known */
    rg_word nids[RG_MAP_NIDS_MAX];
    size_t nid_count;
    bool server; /* serves targets, or said so */
    bool client;
    bool lustre; /* its log speaks of Lustre, LNet or storage */
    bool mgs;
    bool router;        /* so the table of hosts says */
    rg_word rack;       /* so the table of hosts says; else 0 */
    rg_host_id seen_by; /* a host that spoke of this one as of a peer */
    bool inferred;      /* the NID was given to the host by elimination, not by a message */
    rg_host_id merged;  /* this entry has become part of another */
};

/* A NID at which a target was reached, or tried. */
struct rg_map_served {
    rg_word nid;
    uint64_t last; /* order in the input */
    bool timed;
    int64_t from; /* on the clock that all times are brought to */
    int64_t to;
};

struct rg_map_target {
    rg_word name;
    enum rg_target_kind kind;
    int index;
    struct rg_map_served served[RG_MAP_NIDS_MAX];
    size_t served_count;
    rg_host_id speaker; /* the host whose own log speaks as this target's server; 0 */
    unsigned speakers;  /* how many different hosts did */
};

struct rg_map {
    struct rg_pool *pool;
    struct rg_map_host *hosts; /* from 1 */
    uint32_t host_count;
    struct rg_map_target *targets; /* from 1 */
    uint32_t target_count;
    uint32_t *host_of_word;   /* by word of a NID or address */
    uint32_t *target_of_word; /* by word of a target */
    uint32_t *host_of_node;
    bool full;
};

bool rg_map_init(struct rg_map *map, struct rg_pool *pool);
void rg_map_free(struct rg_map *map);

/* The NID as one word: without "12345-", "@o2ib0" as "@o2ib". 0 for "", "0@lo" and non-NIDs. */
rg_word rg_map_nid(struct rg_map *map, struct span nid);

rg_host_id rg_map_host_of_node(struct rg_map *map, rg_node_id node, const char *name);
rg_host_id rg_map_host_of_nid(struct rg_map *map, rg_word nid);

#define RG_MAP_LATEST INT64_MAX

/* The host of the NID at which a target was served at that time, as far as messages with times
 * tell, else as the latest of them tells; else the host that speaks as its server; else 0. */
rg_host_id rg_map_host_of_target(struct rg_map *map, rg_word target, int64_t at);

/* Follows mergers. */
rg_host_id rg_map_resolve(const struct rg_map *map, rg_host_id host);
const struct rg_map_host *rg_map_host(const struct rg_map *map, rg_host_id host);

struct rg_map_target *rg_map_target(struct rg_map *map, rg_word name);

/* `by` reached (or tried) the target at this NID. */
void rg_map_served(struct rg_map *map, rg_word target, enum rg_target_kind kind, int index,
                   rg_word nid, rg_host_id by, uint64_t order);

/* What rg_map_served was told was so from one time to another; when all times are known. */
void rg_map_served_during(struct rg_map *map, rg_word target, rg_word nid, int64_t from,
                          int64_t to);

/* The host spoke as the server of the target. */
void rg_map_speaks(struct rg_map *map, rg_word target, enum rg_target_kind kind, int index,
                   rg_host_id host);

/* The NID is the host's own. */
void rg_map_owns(struct rg_map *map, rg_host_id host, rg_word nid, bool inferred);

/* Both NIDs are of one host. */
void rg_map_same(struct rg_map *map, rg_word nid, rg_word other);

/* What the table of hosts says: after the last event, before settling. */
void rg_map_tell(struct rg_map *map, const struct rg_told_host *told);

/* Whether the log of `host` speaks of `peer` as of another host. */
typedef bool rg_map_speaks_of(void *context, rg_host_id host, rg_host_id peer);

/* After the last event: gives NIDs to hosts where only one host can have them. `client_nids` are
 * those that servers named as clients'. */
void rg_map_settle(struct rg_map *map, const rg_word *client_nids, size_t count,
                   rg_map_speaks_of *speaks_of, void *context);

#endif
