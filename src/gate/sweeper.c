#include "gate/sweeper.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/random.h"
#include "gate/event.h"
#include "gate/thread.h"

#include <stdlib.h>

#define FIRST_MS 60000u

struct rg_sweeper {
    struct rg_store *store;
    uint64_t interval_ms;
    _Atomic bool stopping;
    _Atomic uint64_t passes;
    struct rg_event stop;
    struct rg_event ended;
};

/* True when it is time, false when it is time to stop. */
static bool wait_for_turn(struct rg_sweeper *sweeper, uint64_t wait_ms)
{
    rg_event_wait(&sweeper->stop, rg_clock_ns() + wait_ms * 1000000u);
    return !atomic_load(&sweeper->stopping);
}

static void sweep(struct rg_sweeper *sweeper)
{
    struct rg_error err = RG_ERROR_INIT;
    uint64_t begun_ms = rg_clock_ms();
    if (rg_store_sweep(sweeper->store, &err) < 0) {
        rg_log_warn("sweep.failed", "leftovers could not be removed",
                    RG_FIELD_TEXT("error", err.message));
    } else {
        rg_log_debug("sweep.done", "looked for leftovers",
                     RG_FIELD_INT("ms", rg_clock_ms() - begun_ms));
    }
    atomic_fetch_add(&sweeper->passes, 1);
}

static void *sweep_until_stopped(void *argument)
{
    struct rg_sweeper *sweeper = argument;
    uint64_t first_ms = RG_MIN(sweeper->interval_ms, FIRST_MS);
    uint64_t wait_ms = rg_random_u64() % (first_ms + 1);
    while (wait_for_turn(sweeper, wait_ms)) {
        sweep(sweeper);
        uint64_t tenth = sweeper->interval_ms / 10;
        wait_ms = sweeper->interval_ms - tenth + rg_random_u64() % (2 * tenth + 1);
    }
    rg_event_raise(&sweeper->ended);
    return NULL;
}

int rg_sweeper_start(struct rg_store *store, uint64_t interval_ms, struct rg_sweeper **ret_sweeper,
                     struct rg_error *err)
{
    struct rg_sweeper *sweeper = calloc(1, sizeof *sweeper);
    if (!sweeper) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    sweeper->store = store;
    sweeper->interval_ms = interval_ms;
    int rc = rg_thread_start("rg-sweeper", sweep_until_stopped, sweeper, err);
    if (rc < 0) {
        free(sweeper);
        return rc;
    }
    *ret_sweeper = sweeper;
    return 0;
}

uint64_t rg_sweeper_passes(struct rg_sweeper *sweeper)
{
    return sweeper ? atomic_load(&sweeper->passes) : 0;
}

bool rg_sweeper_stop(struct rg_sweeper *sweeper, unsigned timeout_ms)
{
    if (!sweeper) {
        return true;
    }
    atomic_store(&sweeper->stopping, true);
    rg_event_raise(&sweeper->stop);
    return rg_event_wait(&sweeper->ended, rg_clock_ns() + (uint64_t)timeout_ms * 1000000u);
}

void rg_sweeper_free(struct rg_sweeper *sweeper)
{
    free(sweeper);
}
