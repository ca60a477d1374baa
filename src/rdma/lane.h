/*
 * The lanes of one rail, and the rail's health. A request leases a lane (with the file ring that
 * goes with it), uses it from its own thread and returns it; a broken lane is closed on return and
 * opened again when it is next needed. Waiting is first come, first served and has a limit.
 *
 * The rail is taken out only for what the device did: a lane that broke because of a peer, a bad
 * token or a wrong argument says nothing about the rail. A rail that is out is tried again after a
 * delay that doubles, by the next lease after the delay or by rg_pool_tick.
 *
 * The pool owns the rail and keeps the slab attached to it across a rail's death and return.
 */
#ifndef RG_RDMA_LANE_H
#define RG_RDMA_LANE_H

#include "base/error.h"
#include "rdma/choice.h"
#include "rdma/disk.h"
#include "rdma/slab.h"
#include "rdma/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_POOL_LANES_MAX 1024

struct rg_pool_config {
    const struct rg_transport *transport; /* borrowed */
    struct rg_rail_config rail;
    struct rg_slab *slab; /* borrowed; NULL: none. Attached by the pool. */
    unsigned slab_access; /* RG_ACCESS_LOCAL, or more */
    size_t lanes_max;     /* 1..RG_POOL_LANES_MAX, also while session lanes are out */
    unsigned disk_depth;  /* of each lane's ring; 0: no ring */
    bool allow_uring;
    bool tolerate_down;    /* a rail that cannot be opened now begins taken out, and is retried */
    bool sessions_only;    /* no lanes of its own: a lease is a place among lanes_max, with its file
                              ring, for a transfer on a session's lane (session.h) */
    uint32_t retry_ms_min; /* first delay before a rail that is out is tried again */
    uint32_t retry_ms_max; /* the delay doubles up to this */
    rg_wait_observer observe_wait; /* NULL: none */
    void *observe_context;
};

#define RG_POOL_CONFIG_INIT                                                                        \
    {                                                                                              \
        .rail = RG_RAIL_CONFIG_INIT, .slab_access = RG_ACCESS_LOCAL, .lanes_max = 64,              \
        .disk_depth = RG_LEASE_SLOTS_MAX, .allow_uring = true, .retry_ms_min = 1000,               \
        .retry_ms_max = 60000                                                                      \
    }

struct rg_pool;

/* A leased lane. Hand it to one thread at a time. */
struct rg_lease {
    struct rg_lane *lane; /* NULL with sessions_only */
    struct rg_disk *disk; /* NULL when disk_depth is 0 */
    struct rg_pool *pool;
    uint32_t index;
};

/* A snapshot for /-/ready and metrics. */
struct rg_pool_state {
    bool up;
    char path[RG_RAIL_PATH_MAX + 1]; /* as of the last time it was up */
    char device[RG_RAIL_NAME_MAX + 1];
    char address[RG_RAIL_ADDRESS_MAX + 1];
    bool is_hardware;
    char reason[RG_ERROR_MESSAGE_MAX]; /* why it is out; "" when up */
    uint64_t down_ms;                  /* for how long */
    uint64_t retry_in_ms;
    size_t lanes_max;
    size_t lanes_open;
    size_t lanes_leased;
    size_t waiters;
    uint64_t leases;
    uint64_t timeouts;
    uint64_t wait_ns;
    uint64_t lanes_opened;
    uint64_t lanes_broken;  /* closed because something broke */
    uint64_t rail_failures; /* times taken out */
    uint64_t broken_by_cause[RG_CAUSE_COUNT];
};

/*
 * Opens the rail and attaches the slab. Errors of rg_rail_open and rg_slab_attach, unless
 * `tolerate_down` and the error is one that may pass (RG_SERVICE_UNAVAILABLE). RG_SETTING for a
 * ceiling out of range.
 */
int rg_pool_open(const struct rg_pool_config *config, struct rg_pool **ret_pool,
                 struct rg_error *err);

/* All leases must be back (an assertion). The slab is detached, not closed. NULL is allowed. */
void rg_pool_close(struct rg_pool *pool);

/*
 * Leases a lane; waits at most `wait_ms` (0: not at all). RG_LIMIT: no lane in time;
 * RG_SERVICE_UNAVAILABLE: the rail is out (the sentence says why and until when);
 * RG_CANCELLED: rg_pool_stop was called. A lane comes unbound.
 */
int rg_pool_lease(struct rg_pool *pool, uint32_t wait_ms, struct rg_lease *ret_lease,
                  struct rg_error *err);

/*
 * The same, and where lanes keep connections (ofi), a lane that was last used for this window's
 * peer is preferred. `window` is only looked at during the call.
 */
int rg_pool_lease_for(struct rg_pool *pool, const struct rg_rdma_window *window, uint32_t wait_ms,
                      struct rg_lease *ret_lease, struct rg_error *err);

/*
 * Gives the lane back. What it did decides: a sound lane with nothing outstanding is kept; a broken
 * one (RG_BROKE_CONNECTION) is reset where the transport likes that better, else closed, and
 * RG_BROKE_DEVICE also takes the rail out. After a broken connection the rail is asked
 * (rg_rail_check) whether it is its own fault. Flush before you return a lane with operations
 * outstanding: this call flushes too, but cannot tell you whether the memory was quiet. *lease is
 * emptied; an empty one is allowed.
 */
void rg_pool_return(struct rg_lease *lease);

/* Gives it back to be closed, whatever its state. */
void rg_pool_discard(struct rg_lease *lease);

/*
 * For a lane that is not the pool's (a session's), flushed and about to be closed: counts what
 * broke it, and takes the rail out when that is the rail's own fault.
 */
void rg_pool_report(struct rg_pool *pool, struct rg_lane *lane);

/* Takes the rail out by hand (an operator, a link event); RG_POOL rules of retry apply. */
void rg_pool_take_out(struct rg_pool *pool, const char *reason);

/*
 * To be called every second or so: brings a rail that is out back when its time has come, and takes
 * out one whose port has gone down. Returns true when the state changed, for one log line.
 */
bool rg_pool_tick(struct rg_pool *pool);

/* Wakes all waiters and lets nobody in any more: for shutdown. */
void rg_pool_stop(struct rg_pool *pool);

/*
 * The rail, for registering other memory (session staging) and opening session lanes; NULL while
 * it is out. It stays valid until rg_pool_rail_put, which every successful get needs: a rail that
 * fails is not closed before its last user has let go.
 */
struct rg_rail *rg_pool_rail_get(struct rg_pool *pool);
void rg_pool_rail_put(struct rg_pool *pool, struct rg_rail *rail);

/* What rg_rail_choose wants to know; addresses as of the last time it was up. */
void rg_pool_facts(struct rg_pool *pool, struct rg_rail_facts *ret_facts);

/* Whether the rail is in; what holds it while it is out should let go of it soon. */
bool rg_pool_is_up(struct rg_pool *pool);

void rg_pool_state(struct rg_pool *pool, struct rg_pool_state *ret_state);

#endif
