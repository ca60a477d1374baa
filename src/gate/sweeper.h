/*
 * Has the store remove leftovers from time to time, bucket by bucket. A bucket whose mount hangs,
 * if only for writes, does not hold up the others: it is left to the thread that is in it, of which
 * there may be a few.
 */
#ifndef RG_GATE_SWEEPER_H
#define RG_GATE_SWEEPER_H

#include "base/error.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_sweeper;

struct rg_sweeper_config {
    uint64_t interval_ms; /* between passes */
    uint64_t patience_ms; /* how long the others wait for one bucket */
};

struct rg_sweeper_counters {
    uint64_t passes;
    uint64_t failures; /* passes that did not begin: the buckets could not be listed */
    unsigned left;     /* buckets whose sweep is not over, and that nobody waits for, now */
};

/* A pass every `interval_ms`, give or take a tenth, so that gateways on one tree do not all come at
 * once; the first within the first minute. */
int rg_sweeper_start(struct rg_store *store, const struct rg_sweeper_config *config,
                     struct rg_sweeper **ret_sweeper, struct rg_error *err);

/* NULL is fine. */
void rg_sweeper_count(struct rg_sweeper *sweeper, struct rg_sweeper_counters *ret_counters);

/* False when a thread is inside the store and does not come back within `timeout_ms`: then the
 * store must not be closed, and all sweeps that are not over count as left. Once. NULL is fine. */
bool rg_sweeper_stop(struct rg_sweeper *sweeper, unsigned timeout_ms);

/* After rg_sweeper_stop returned true. NULL is fine. */
void rg_sweeper_free(struct rg_sweeper *sweeper);

#endif
