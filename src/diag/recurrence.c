/*
 * Incidents that come back at the same time of day: a maintenance window, a backup, a job of cron.
 */
#include "diag/recurrence.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>

#define USEC       INT64_C(1000000)
#define DAY_USEC   (86400 * USEC)
#define SLACK_USEC (1800 * USEC) /* of the time of day */
#define TIMES_MIN  3

static rg_word subject_of(const struct rg_incident *incident)
{
    return incident->element         ? incident->element
           : incident->targets.count ? incident->targets.items[0]
                                     : 0;
}

/* Days between the two when they began at the same time of day, else 0. */
static int64_t days_between(const struct rg_incident *a, const struct rg_incident *b)
{
    if (a->first.kind != RG_WHEN_UTC || b->first.kind != RG_WHEN_UTC || a->first.usec < 0) {
        return 0;
    }
    int64_t apart = llabs(a->first.usec - b->first.usec);
    int64_t days = (apart + DAY_USEC / 2) / DAY_USEC;
    return llabs(apart - days * DAY_USEC) <= SLACK_USEC ? days : 0;
}

static bool is_same_story(const struct rg_incident *a, const struct rg_incident *b)
{
    return a->headline.id == b->headline.id && a->scope == b->scope &&
           subject_of(a) == subject_of(b) && subject_of(a) != 0;
}

bool rg_recurrence_say(struct rg_correlation *correlation, struct rg_incident *incidents,
                       size_t count)
{
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        size_t times = 1;
        for (size_t k = 0; k < count; k++) {
            times += k != i && is_same_story(&incidents[i], &incidents[k]) &&
                     days_between(&incidents[i], &incidents[k]) > 0;
        }
        if (times < TIMES_MIN) {
            continue;
        }
        int64_t minutes = incidents[i].first.usec % DAY_USEC / (60 * USEC);
        ok &= rg_phrases_add(&incidents[i].evidence, RG_PHRASE_EV_RECURS,
                             rg_pool_addf(&correlation->pool, "%zu", times),
                             rg_pool_addf(&correlation->pool, "%02" PRId64 ":%02" PRId64 " UTC",
                                          minutes / 60, minutes % 60),
                             0, 0);
    }
    return ok;
}
