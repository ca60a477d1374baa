/*
 * The staging memory of a rail: one mapping, registered once, cut into slots of equal size. A
 * transfer leases a few slots, moves a piece of the object through each in turn, and returns them.
 * Waiting for a slot is first come, first served and has a limit; reaching it is RG_LIMIT, which
 * the gateway turns into a decline.
 *
 * A slot goes back only when no completion, of the network or of the file system, can touch it.
 * Where that cannot be known it is condemned instead: its address is never used again.
 *
 * All functions are safe from any thread, except open, attach, detach and close.
 */
#ifndef RG_RDMA_SLAB_H
#define RG_RDMA_SLAB_H

#include "base/error.h"
#include "rdma/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_SLOT_BYTES_MIN     ((size_t)64 << 10)
#define RG_SLOT_BYTES_MAX     ((size_t)16 << 20)
#define RG_SLOT_BYTES_DEFAULT ((size_t)1 << 20)
#define RG_SLOT_COUNT_MAX     65536
#define RG_LEASE_SLOTS_MAX    16 /* slots of one transfer */

/*
 * Called, without a lock held, after every wait for a slot or a lane: how long it took (0: none)
 * and how it ended. For histograms; must not block.
 */
typedef void (*rg_wait_observer)(void *context, uint64_t wait_ns, bool granted);

struct rg_slab_config {
    size_t slot_bytes;             /* a multiple of 4096 between RG_SLOT_BYTES_MIN and _MAX */
    size_t slot_count;             /* 1..RG_SLOT_COUNT_MAX */
    bool lock;                     /* the memory will be pinned: rails with pins_memory need it */
    bool huge_pages;               /* try MAP_HUGETLB, else advise transparent huge pages */
    rg_wait_observer observe_wait; /* NULL: none */
    void *observe_context;
};

/* How the memory was got, for the start-up line. */
enum rg_slab_pages { RG_SLAB_PAGES_PLAIN, RG_SLAB_PAGES_ADVISED, RG_SLAB_PAGES_HUGETLB };

struct rg_slab_state {
    size_t slots_total;
    size_t slots_in_use;
    size_t slots_condemned; /* lost: the address may still be written by a peer, and nothing could
                               replace it */
    uint64_t condemnations; /* slots ever condemned, replaced ones included */
    size_t waiters;
    uint64_t leases;   /* granted */
    uint64_t timeouts; /* ended in RG_LIMIT */
    uint64_t wait_ns;  /* sum over all */
    size_t slot_bytes;
    uint64_t locked_bytes; /* that count against RLIMIT_MEMLOCK; 0 when not locked */
    uint64_t mapped_bytes; /* of all slots, whether there is memory behind them yet or not */
    enum rg_slab_pages pages;
};

struct rg_slab;

/* A leased slot; `address` is aligned to 4096. */
struct rg_slot {
    void *address;
    size_t bytes;
    uint64_t region_offset; /* of address in rg_slab_region */
    uint32_t index;
};

/* Bytes that a slab of this configuration locks: the mapping rounded to its page size, or 0. */
uint64_t rg_slab_locked_bytes(const struct rg_slab_config *config);

/*
 * Start-up check: may this process lock `bytes` more (all slabs and session staging together)?
 * RG_SETTING when RLIMIT_MEMLOCK is lower and CAP_IPC_LOCK is missing; the sentence gives both
 * figures and the line to change.
 */
int rg_memlock_check(uint64_t bytes, struct rg_error *err);

/*
 * Maps, and with `lock` locks, the memory. RG_SETTING (a size out of range), RG_LIMIT (the
 * locked-memory limit), RG_OUT_OF_MEMORY.
 */
int rg_slab_open(const struct rg_slab_config *config, struct rg_slab **ret_slab,
                 struct rg_error *err);

/* All slots must be back and the rail detached (an assertion). NULL is allowed. */
void rg_slab_close(struct rg_slab *slab);

/*
 * Registers the memory on a rail, for posts by this process (and, with RG_ACCESS_REMOTE_WRITE in
 * `access`, for staging that a peer writes to). One rail at a time; detach before it closes.
 */
int rg_slab_attach(struct rg_slab *slab, struct rg_rail *rail, unsigned access,
                   struct rg_error *err);
void rg_slab_detach(struct rg_slab *slab);

/* The registration, or NULL when detached. */
struct rg_region *rg_slab_region(const struct rg_slab *slab);

size_t rg_slab_slot_bytes(const struct rg_slab *slab);

/*
 * Leases between `least` and `want` slots (1 <= least <= want <= RG_LEASE_SLOTS_MAX) at once,
 * waiting at most `wait_ms` (0: not at all) behind those who came earlier. Gives `want` when nobody
 * waits and they are free, else what there is, down to `least`. RG_LIMIT when the time is over, or
 * at once when the slab has fewer than `least` slots; RG_CANCELLED after rg_slab_stop.
 * slots[0..*ret_count) is set on success.
 */
int rg_slab_lease(struct rg_slab *slab, size_t least, size_t want, uint32_t wait_ms,
                  struct rg_slot *slots, size_t *ret_count, struct rg_error *err);

/* Gives slots back; nothing may touch them any more. */
void rg_slab_return(struct rg_slab *slab, const struct rg_slot *slots, size_t count);

/*
 * Gives back slots that a peer might still touch (a flush without RG_QUIET_LOCAL). The pages behind
 * the address are taken away, so that a late access faults at the peer, and the slot continues at a
 * spare address; where the memory is pinned, or no spare is left, the slot is lost and counted.
 */
void rg_slab_condemn(struct rg_slab *slab, const struct rg_slot *slots, size_t count);

/* Wakes all waiters and lets nobody in any more: for shutdown. */
void rg_slab_stop(struct rg_slab *slab);

void rg_slab_state(struct rg_slab *slab, struct rg_slab_state *ret_state);

/* Memory that the slots hold now: where they are not locked, pages come with their first use, and
 * stay. Asks the kernel for each page; for whoever reads metrics, not for transfers. */
uint64_t rg_slab_resident_bytes(const struct rg_slab *slab);

#endif
