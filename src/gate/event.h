/*
 * An event that one thread waits for and any thread raises: a raised event wakes the waiter once,
 * at once or at its next wait. It carries no data; what it announces is read under the owner's
 * lock.
 *
 * One futex word instead of a mutex and a condition variable: raising is one atomic exchange, and a
 * system call only when the other side really sleeps.
 */
#ifndef RG_GATE_EVENT_H
#define RG_GATE_EVENT_H

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RG_EVENT_QUIET, RG_EVENT_RAISED, RG_EVENT_AWAITED };

struct rg_event {
    _Atomic uint32_t state;
};

static inline void rg_event_raise(struct rg_event *event)
{
    if (atomic_exchange(&event->state, RG_EVENT_RAISED) == RG_EVENT_AWAITED) {
        syscall(SYS_futex, &event->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* Sleeps until raised (true, and quiet again) or until the clock shows `deadline_ns` (rg_clock_ns;
 * UINT64_MAX for never): false. */
static inline bool rg_event_wait(struct rg_event *event, uint64_t deadline_ns)
{
    struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                          .tv_nsec = (long)(deadline_ns % 1000000000u)};
    for (;;) {
        uint32_t state = RG_EVENT_RAISED;
        if (atomic_compare_exchange_strong(&event->state, &state, RG_EVENT_QUIET)) {
            return true;
        }
        state = RG_EVENT_QUIET;
        if (!atomic_compare_exchange_strong(&event->state, &state, RG_EVENT_AWAITED) &&
            state == RG_EVENT_RAISED) {
            continue;
        }
        long failed = syscall(SYS_futex, &event->state, FUTEX_WAIT_BITSET_PRIVATE, RG_EVENT_AWAITED,
                              deadline_ns == UINT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
        state = RG_EVENT_AWAITED;
        if (failed && errno == ETIMEDOUT &&
            atomic_compare_exchange_strong(&event->state, &state, RG_EVENT_QUIET)) {
            return false;
        }
    }
}

#endif
