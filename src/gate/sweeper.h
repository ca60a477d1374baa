/*
 * The thread that has the store remove leftovers from time to time.
 */
#ifndef RG_GATE_SWEEPER_H
#define RG_GATE_SWEEPER_H

#include "base/error.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_sweeper;

/* A pass every `interval_ms`, give or take a tenth, so that gateways on one tree do not all come at
 * once; the first within the first minute. */
int rg_sweeper_start(struct rg_store *store, uint64_t interval_ms, struct rg_sweeper **ret_sweeper,
                     struct rg_error *err);

/* Passes so far. */
uint64_t rg_sweeper_passes(struct rg_sweeper *sweeper);

/* False when a pass is inside the store and does not end within `timeout_ms`: then the store must
 * not be closed. NULL is fine. */
bool rg_sweeper_stop(struct rg_sweeper *sweeper, unsigned timeout_ms);

/* After rg_sweeper_stop returned true. NULL is fine. */
void rg_sweeper_free(struct rg_sweeper *sweeper);

#endif
