#include "gate/sweeper.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/random.h"
#include "gate/event.h"
#include "gate/thread.h"
#include "s3/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MS 60000u
#define HANDS_MAX                                                                                  \
    8u /* threads in the store; when all of them were left there, the rest must wait */

/* A thread that sweeps one bucket at a time. While it is busy, what follows is its own. */
struct hand {
    struct rg_sweeper *sweeper;
    struct rg_event wake; /* something to do, or the end */
    struct rg_event ended;
    _Atomic bool busy;
    char bucket[RG_BUCKET_NAME_MAX + 1]; /* empty: what stands beside them */
    int rc;
    struct rg_error err;

    /* Of the thread that leads. */
    bool is_left; /* it did not come back in time */
    uint64_t begun_ms;
};

struct rg_sweeper {
    struct rg_store *store;
    struct rg_sweeper_config config;
    _Atomic bool stopping;
    _Atomic uint64_t passes;
    _Atomic uint64_t failures;
    _Atomic unsigned left;
    struct rg_event wake; /* of the thread that leads: to stop, or a hand is free */
    struct rg_event ended;

    /* Of the thread that leads. */
    struct hand hands[HANDS_MAX];
    size_t hand_count;
    struct rg_error first; /* of this pass */
    unsigned skipped;      /* likewise */
};

/* ---- Hands ---- */

static void *run_hand(void *argument)
{
    struct hand *hand = argument;
    struct rg_sweeper *sweeper = hand->sweeper;
    while (rg_event_wait(&hand->wake, UINT64_MAX), !atomic_load(&sweeper->stopping)) {
        hand->err = (struct rg_error)RG_ERROR_INIT;
        hand->rc = rg_store_sweep(sweeper->store, rg_span_text(hand->bucket), &hand->err);
        atomic_store(&hand->busy, false);
        rg_event_raise(&sweeper->wake);
    }
    rg_event_raise(&hand->ended);
    return NULL;
}

static uint64_t seconds_of(const struct hand *hand)
{
    return (rg_clock_ms() - hand->begun_ms) / 1000;
}

/* Those that were left and have come back; what they failed at belongs to no pass any more. */
static void take_back(struct rg_sweeper *sweeper)
{
    for (size_t i = 0; i < sweeper->hand_count; i++) {
        struct hand *hand = &sweeper->hands[i];
        if (hand->is_left && !atomic_load(&hand->busy)) {
            hand->is_left = false;
            atomic_fetch_sub(&sweeper->left, 1);
            if (hand->rc < 0) {
                rg_log_warn("sweep.failed", "leftovers could not be removed",
                            RG_FIELD_TEXT("bucket", hand->bucket),
                            RG_FIELD_TEXT("error", hand->err.message));
            }
            rg_log_info("sweep.back", "the sweep of a bucket that was left has come to its end",
                        RG_FIELD_TEXT("bucket", hand->bucket),
                        RG_FIELD_INT("seconds", seconds_of(hand)));
        }
    }
}

static bool is_left(const struct rg_sweeper *sweeper, const char *bucket)
{
    for (size_t i = 0; i < sweeper->hand_count; i++) {
        if (sweeper->hands[i].is_left && strcmp(sweeper->hands[i].bucket, bucket) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL: all of them were left, or there is no thread. */
static struct hand *free_hand(struct rg_sweeper *sweeper)
{
    for (size_t i = 0; i < sweeper->hand_count; i++) {
        if (!sweeper->hands[i].is_left) {
            return &sweeper->hands[i];
        }
    }
    if (sweeper->hand_count == HANDS_MAX) {
        return NULL;
    }
    struct hand *hand = &sweeper->hands[sweeper->hand_count];
    hand->sweeper = sweeper;
    if (rg_thread_start("rg-sweep", run_hand, hand, NULL) < 0) {
        return NULL;
    }
    sweeper->hand_count++;
    return hand;
}

/* ---- A pass ---- */

/* One that does not come back in time is left, for the others' sake: it is in a mount that hangs,
 * or has very much to do. */
static void await(struct rg_sweeper *sweeper, struct hand *hand)
{
    uint64_t deadline_ns = rg_clock_ns() + sweeper->config.patience_ms * 1000000u;
    while (atomic_load(&hand->busy) && !atomic_load(&sweeper->stopping) &&
           rg_clock_ns() < deadline_ns) {
        rg_event_wait(&sweeper->wake, deadline_ns);
    }
    if (!atomic_load(&hand->busy)) {
        if (hand->rc < 0 && sweeper->first.code == RG_OK) {
            sweeper->first = hand->err;
        }
    } else if (!atomic_load(&sweeper->stopping)) {
        hand->is_left = true;
        atomic_fetch_add(&sweeper->left, 1);
        rg_log_warn("sweep.left",
                    "the sweep of a bucket does not come to its end: the others go on without it",
                    RG_FIELD_TEXT("bucket", hand->bucket),
                    RG_FIELD_INT("seconds", seconds_of(hand)));
    }
}

/* Not while an earlier pass is still at it. */
static void sweep_bucket(struct rg_sweeper *sweeper, const char *bucket)
{
    take_back(sweeper);
    struct hand *hand = is_left(sweeper, bucket) ? NULL : free_hand(sweeper);
    if (!hand) {
        sweeper->skipped++;
        return;
    }
    snprintf(hand->bucket, sizeof hand->bucket, "%s", bucket);
    hand->begun_ms = rg_clock_ms();
    atomic_store(&hand->busy, true);
    rg_event_raise(&hand->wake);
    await(sweeper, hand);
}

static void sweep_all(struct rg_sweeper *sweeper)
{
    struct rg_bucket_info *buckets = NULL;
    size_t count = 0;
    if (rg_store_bucket_list(sweeper->store, &buckets, &count, &sweeper->first) < 0) {
        atomic_fetch_add(&sweeper->failures, 1);
        return;
    }
    sweep_bucket(sweeper, "");
    for (size_t i = 0; i < count && !atomic_load(&sweeper->stopping); i++) {
        if (!buckets[i].hangs) {
            sweep_bucket(sweeper, buckets[i].name);
        }
    }
    free(buckets);
}

static void sweep(struct rg_sweeper *sweeper)
{
    uint64_t begun_ms = rg_clock_ms();
    sweeper->first = (struct rg_error)RG_ERROR_INIT;
    sweeper->skipped = 0;
    sweep_all(sweeper);
    if (sweeper->first.code != RG_OK) {
        rg_log_warn("sweep.failed", "leftovers could not be removed",
                    RG_FIELD_TEXT("error", sweeper->first.message));
    }
    rg_log_debug("sweep.done", "looked for leftovers", RG_FIELD_INT("ms", rg_clock_ms() - begun_ms),
                 RG_FIELD_INT("skipped", sweeper->skipped));
    atomic_fetch_add(&sweeper->passes, 1);
}

/* True when it is time, false when it is time to stop. */
static bool wait_for_turn(struct rg_sweeper *sweeper, uint64_t wait_ms)
{
    uint64_t turn_ns = rg_clock_ns() + wait_ms * 1000000u;
    while (!atomic_load(&sweeper->stopping) && rg_clock_ns() < turn_ns) {
        rg_event_wait(&sweeper->wake, turn_ns);
        take_back(sweeper);
    }
    return !atomic_load(&sweeper->stopping);
}

static void *sweep_until_stopped(void *argument)
{
    struct rg_sweeper *sweeper = argument;
    uint64_t interval_ms = sweeper->config.interval_ms;
    uint64_t first_ms = RG_MIN(interval_ms, FIRST_MS);
    uint64_t wait_ms = rg_random_u64() % (first_ms + 1);
    while (wait_for_turn(sweeper, wait_ms)) {
        sweep(sweeper);
        uint64_t tenth = interval_ms / 10;
        wait_ms = interval_ms - tenth + rg_random_u64() % (2 * tenth + 1);
    }
    rg_event_raise(&sweeper->ended);
    return NULL;
}

/* ---- Start and stop ---- */

int rg_sweeper_start(struct rg_store *store, const struct rg_sweeper_config *config,
                     struct rg_sweeper **ret_sweeper, struct rg_error *err)
{
    struct rg_sweeper *sweeper = calloc(1, sizeof *sweeper);
    if (!sweeper) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    sweeper->store = store;
    sweeper->config = *config;
    int rc = rg_thread_start("rg-sweeper", sweep_until_stopped, sweeper, err);
    if (rc < 0) {
        free(sweeper);
        return rc;
    }
    *ret_sweeper = sweeper;
    return 0;
}

void rg_sweeper_count(struct rg_sweeper *sweeper, struct rg_sweeper_counters *ret_counters)
{
    *ret_counters = (struct rg_sweeper_counters){.passes = 0};
    if (sweeper) {
        ret_counters->passes = atomic_load(&sweeper->passes);
        ret_counters->failures = atomic_load(&sweeper->failures);
        ret_counters->left = atomic_load(&sweeper->left);
    }
}

bool rg_sweeper_stop(struct rg_sweeper *sweeper, unsigned timeout_ms)
{
    if (!sweeper) {
        return true;
    }
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    atomic_store(&sweeper->stopping, true);
    rg_event_raise(&sweeper->wake);
    if (!rg_event_wait(&sweeper->ended, deadline_ns)) {
        return false;
    }
    unsigned left = 0;
    for (size_t i = 0; i < sweeper->hand_count; i++) {
        rg_event_raise(&sweeper->hands[i].wake);
        left += !rg_event_wait(&sweeper->hands[i].ended, deadline_ns);
    }
    atomic_store(&sweeper->left, left);
    return left == 0;
}

void rg_sweeper_free(struct rg_sweeper *sweeper)
{
    free(sweeper);
}
