/*
 * When a sos report was taken: what its `date` and `uptime` printed. Together they tell when the
 * node booted, which dates its kernel ring, and the zone of its wall clock.
 *
 * Pure; clock.h weighs it.
 */
#ifndef RG_DIAG_COLLECTED_H
#define RG_DIAG_COLLECTED_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_collected {
    bool has_local;
    int64_t local_usec; /* the wall clock, as if it were UTC */
    bool has_utc;
    int64_t utc_usec;
    bool has_uptime;
    int32_t clock_s; /* of the day, as uptime printed it */
    int64_t up_s;    /* whole minutes */
};

/* "Sun Nov 29 23:30:11 KST 2026", "Sun 29 Nov 2026 11:30:11 PM KST", zones by the few names that
 * mean one thing, or "+09". Of other zones only the wall clock is taken. False: it is no date. */
bool rg_collected_read_date(struct span text, struct rg_collected *collected);

/* " 23:30:11 up 12 days,  3:44,  2 users,  load average: …". */
bool rg_collected_read_uptime(struct span text, struct rg_collected *collected);

#endif
