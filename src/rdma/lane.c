/*
 * The pool of a rail's lanes. One lock guards the books; opening and closing lanes and rails, which
 * may take long, happen outside it, with the place marked as taken.
 */
#include "rdma/lane.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/gid.h"
#include "rdma/turn.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    struct rg_lane *lane; /* NULL: opened when it is next leased */
    struct rg_disk *disk; /* survives its lane */
    bool leased;
    uint64_t peer; /* whom the lane was last leased for; 0: nobody in particular */
};

struct rg_pool {
    struct rg_pool_config config;
    pthread_mutex_t lock;
    struct place *places;
    uint32_t *free; /* stack of places nobody has leased */
    size_t free_count;
    struct rg_turn line;
    bool stopped;

    struct rg_rail *rail; /* also while it is out and still in use */
    size_t rail_users;    /* leases and rg_pool_rail_get */
    bool up;
    bool working; /* a thread is opening or closing the rail, without the lock */
    uint64_t down_since_ms;
    uint64_t retry_at_ms;
    uint32_t retry_delay_ms;
    char reason[RG_ERROR_MESSAGE_MAX];
    char path[RG_RAIL_PATH_MAX + 1];
    char device[RG_RAIL_NAME_MAX + 1];
    char address[RG_RAIL_ADDRESS_MAX + 1];
    bool has_gid;
    uint8_t gid[16];
    unsigned subnet_bits;
    bool is_hardware;

    uint64_t leases, timeouts, wait_ns;
    uint64_t lanes_opened, lanes_broken, rail_failures;
    uint64_t broken_by_cause[RG_CAUSE_COUNT];
};

static void lock_pool(struct rg_pool *pool)
{
    RG_MUST(pthread_mutex_lock(&pool->lock));
}

static void unlock_pool(struct rg_pool *pool)
{
    RG_MUST(pthread_mutex_unlock(&pool->lock));
}

/* ---- The rail: out, closed, back. All with the lock held; some let go of it meanwhile. ---- */

static void take_out_locked(struct rg_pool *pool, const char *reason)
{
    if (!pool->up) {
        return;
    }
    pool->up = false;
    pool->rail_failures++;
    pool->down_since_ms = rg_clock_ms();
    pool->retry_delay_ms = pool->config.retry_ms_min;
    pool->retry_at_ms = pool->down_since_ms + pool->retry_delay_ms;
    snprintf(pool->reason, sizeof pool->reason, "%s", reason);
    rg_turn_wake_all(&pool->line);
}

/* A lane that lies in a free place, taken out of it; NULL when there is none. */
static struct rg_lane *take_idle_lane(struct rg_pool *pool)
{
    for (size_t i = 0; i < pool->free_count; i++) {
        struct place *place = &pool->places[pool->free[i]];
        if (place->lane) {
            place->peer = 0;
            return RG_TAKE(place->lane);
        }
    }
    return NULL;
}

/* Closes what is left of a rail that is out, as soon as nobody uses it. */
static void settle_locked(struct rg_pool *pool)
{
    if (pool->up || pool->working || !pool->rail) {
        return;
    }
    pool->working = true;
    struct rg_lane *lane;
    while ((lane = take_idle_lane(pool))) {
        unlock_pool(pool);
        rg_lane_close(lane);
        lock_pool(pool);
    }
    if (pool->rail_users == 0) {
        struct rg_rail *rail = RG_TAKE(pool->rail);
        unlock_pool(pool);
        if (pool->config.slab) {
            rg_slab_detach(pool->config.slab);
        }
        rg_rail_close(rail);
        lock_pool(pool);
    }
    pool->working = false;
}

static void note_rail(struct rg_pool *pool, const struct rg_rail *rail)
{
    snprintf(pool->path, sizeof pool->path, "%s", rail->path);
    snprintf(pool->device, sizeof pool->device, "%s", rail->device);
    snprintf(pool->address, sizeof pool->address, "%s", rail->address);
    pool->is_hardware = rail->is_hardware;
    pool->has_gid = rg_gid_scope(rail->gid) != RG_GID_ZERO;
    pool->subnet_bits = rail->subnet_bits;
    memcpy(pool->gid, rail->gid, sizeof pool->gid);
}

static int open_rail(const struct rg_pool_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err)
{
    struct rg_rail *rail;
    int rc = rg_rail_open(config->transport, &config->rail, &rail, err);
    if (rc < 0) {
        return rc;
    }
    if (config->slab) {
        rc = rg_slab_attach(config->slab, rail, config->slab_access, err);
        if (rc < 0) {
            rg_rail_close(rail);
            return rc;
        }
    }
    *ret_rail = rail;
    return 0;
}

static bool is_retry_due(const struct rg_pool *pool)
{
    return !pool->up && !pool->rail && !pool->working && !pool->stopped &&
           rg_clock_ms() >= pool->retry_at_ms;
}

/* Tries to bring the rail back, when its time has come. */
static void retry_locked(struct rg_pool *pool)
{
    if (!is_retry_due(pool)) {
        return;
    }
    pool->working = true;
    unlock_pool(pool);
    struct rg_error error = RG_ERROR_INIT;
    struct rg_rail *rail = NULL;
    int rc = open_rail(&pool->config, &rail, &error);
    lock_pool(pool);
    pool->working = false;
    if (rc == 0) {
        pool->rail = rail;
        pool->up = true;
        pool->reason[0] = 0;
        note_rail(pool, rail);
        return;
    }
    snprintf(pool->reason, sizeof pool->reason, "%s", error.message);
    pool->retry_delay_ms = RG_MIN(pool->retry_delay_ms * 2, pool->config.retry_ms_max);
    pool->retry_at_ms = rg_clock_ms() + pool->retry_delay_ms;
}

/* ---- Open and close ---- */

static int check_config(const struct rg_pool_config *config, struct rg_error *err)
{
    if (config->lanes_max < 1 || config->lanes_max > RG_POOL_LANES_MAX) {
        return rg_failf(err, RG_SETTING, "The number of lanes must be between 1 and %d.",
                        RG_POOL_LANES_MAX);
    }
    if (config->disk_depth > RG_DISK_DEPTH_MAX) {
        return rg_failf(err, RG_SETTING, "A lane's file ring has at most %d places.",
                        RG_DISK_DEPTH_MAX);
    }
    if (config->retry_ms_min < 1 || config->retry_ms_max < config->retry_ms_min ||
        config->retry_ms_max > 3600000) {
        return rg_failf(err, RG_SETTING,
                        "A rail's retry delays must be between 1 ms and 1 h, the least first.");
    }
    return 0;
}

static void free_pool(struct rg_pool *pool)
{
    free(pool->places);
    free(pool->free);
    free(pool);
}

static struct rg_pool *new_pool(const struct rg_pool_config *config)
{
    struct rg_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    pool->config = *config;
    pool->retry_delay_ms = config->retry_ms_min;
    pool->places = calloc(config->lanes_max, sizeof *pool->places);
    pool->free = calloc(config->lanes_max, sizeof *pool->free);
    if (!pool->places || !pool->free) {
        free_pool(pool);
        return NULL;
    }
    for (size_t i = 0; i < config->lanes_max; i++) {
        pool->free[i] = (uint32_t)(config->lanes_max - 1 - i);
    }
    pool->free_count = config->lanes_max;
    return pool;
}

int rg_pool_open(const struct rg_pool_config *config, struct rg_pool **ret_pool,
                 struct rg_error *err)
{
    int rc = check_config(config, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_pool *pool = new_pool(config);
    if (!pool) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_error error = RG_ERROR_INIT;
    rc = open_rail(config, &pool->rail, &error);
    if (rc < 0 && !(config->tolerate_down && rc == -RG_SERVICE_UNAVAILABLE)) {
        free_pool(pool);
        if (err) {
            *err = error;
        }
        return rc;
    }
    pool->up = rc == 0;
    if (pool->up) {
        note_rail(pool, pool->rail);
    } else {
        snprintf(pool->reason, sizeof pool->reason, "%s", error.message);
        pool->down_since_ms = rg_clock_ms();
        pool->retry_at_ms = pool->down_since_ms + pool->retry_delay_ms;
    }
    RG_MUST(pthread_mutex_init(&pool->lock, NULL));
    *ret_pool = pool;
    return 0;
}

void rg_pool_close(struct rg_pool *pool)
{
    if (!pool) {
        return;
    }
    RG_ASSERT(pool->free_count == pool->config.lanes_max && pool->rail_users == 0);
    RG_ASSERT(!pool->working && pool->line.count == 0);
    for (size_t i = 0; i < pool->config.lanes_max; i++) {
        rg_lane_close(pool->places[i].lane);
        rg_disk_close(pool->places[i].disk);
    }
    if (pool->rail) {
        if (pool->config.slab) {
            rg_slab_detach(pool->config.slab);
        }
        rg_rail_close(pool->rail);
    }
    RG_MUST(pthread_mutex_destroy(&pool->lock));
    free_pool(pool);
}

/* ---- Leases ---- */

static enum rg_turn_answer has_lane(const void *context, size_t want)
{
    const struct rg_pool *pool = context;
    if (pool->stopped || !pool->up) {
        return RG_TURN_GIVE_UP;
    }
    return pool->free_count > 0 ? RG_TURN_GO : RG_TURN_WAIT;
}

static int fail_down(struct rg_pool *pool, struct rg_error *err)
{
    uint64_t now = rg_clock_ms();
    return rg_failf(err, RG_SERVICE_UNAVAILABLE,
                    "The RDMA rail is out and will be tried again in %" PRIu64 " ms: %.300s",
                    pool->retry_at_ms > now ? pool->retry_at_ms - now : 0, pool->reason);
}

/* A peer that lanes connect to, as a number; 0 where they do not. */
static uint64_t peer_of(const struct rg_rdma_window *window)
{
    if (!window || window->endpoint_len == 0) {
        return 0;
    }
    uint64_t sum = rg_span_hash(rg_span((const char *)window->endpoint, window->endpoint_len));
    return sum ? sum : 1;
}

/*
 * Which of the free places suits: one that knows the peer, else one that is bound to nobody, else
 * the one used last.
 */
static size_t choose_free(const struct rg_pool *pool, uint64_t peer)
{
    size_t best = pool->free_count - 1;
    bool is_fresh = false;
    for (size_t i = pool->free_count; peer && i > 0; i--) {
        const struct place *place = &pool->places[pool->free[i - 1]];
        if (place->peer == peer) {
            return i - 1;
        }
        if (!is_fresh && place->peer == 0) {
            best = i - 1;
            is_fresh = true;
        }
    }
    return best;
}

/* With the lock held: a place, and the rail kept for it. */
static int take_place(struct rg_pool *pool, uint64_t peer, uint32_t wait_ms, uint64_t *ret_waited,
                      uint32_t *ret_index, struct rg_error *err)
{
    uint64_t start = rg_clock_ns();
    enum rg_turn_answer answer = has_lane(pool, 1);
    bool granted = answer == RG_TURN_GO && pool->line.count == 0;
    if (!granted && answer != RG_TURN_GIVE_UP && wait_ms > 0) {
        granted = rg_turn_wait(&pool->line, &pool->lock, has_lane, pool, 1, wait_ms);
        *ret_waited = rg_clock_ns() - start;
    }
    pool->wait_ns += *ret_waited;
    if (granted) {
        size_t chosen = choose_free(pool, peer);
        *ret_index = pool->free[chosen];
        pool->free_count--;
        memmove(&pool->free[chosen], &pool->free[chosen + 1],
                (pool->free_count - chosen) * sizeof *pool->free);
        pool->places[*ret_index].leased = true;
        pool->places[*ret_index].peer = peer;
        pool->rail_users++;
        pool->leases++;
        rg_turn_wake(&pool->line);
        return 0;
    }
    if (pool->stopped) {
        return rg_fail(err, RG_CANCELLED);
    }
    if (!pool->up) {
        return fail_down(pool, err);
    }
    pool->timeouts++;
    return rg_failf(err, RG_LIMIT, "No RDMA lane became free within %" PRIu32 " ms.", wait_ms);
}

static void give_place_locked(struct rg_pool *pool, uint32_t index)
{
    RG_ASSERT(pool->places[index].leased && pool->rail_users > 0);
    pool->places[index].leased = false;
    pool->free[pool->free_count++] = index;
    pool->rail_users--;
    rg_turn_wake(&pool->line);
    settle_locked(pool);
}

/* Without the lock; the place is ours. */
static int fill_place(struct rg_pool *pool, struct place *place, struct rg_rail *rail,
                      bool *ret_opened, struct rg_error *err)
{
    if (!place->disk && pool->config.disk_depth > 0) {
        int rc = rg_disk_open(pool->config.disk_depth, pool->config.allow_uring, &place->disk, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_opened = !place->lane && !pool->config.sessions_only;
    return !*ret_opened ? 0 : rg_lane_open(rail, &place->lane, err);
}

int rg_pool_lease(struct rg_pool *pool, uint32_t wait_ms, struct rg_lease *ret_lease,
                  struct rg_error *err)
{
    return rg_pool_lease_for(pool, NULL, wait_ms, ret_lease, err);
}

int rg_pool_lease_for(struct rg_pool *pool, const struct rg_rdma_window *window, uint32_t wait_ms,
                      struct rg_lease *ret_lease, struct rg_error *err)
{
    uint64_t waited = 0;
    uint32_t index = 0;
    lock_pool(pool);
    retry_locked(pool);
    int rc = take_place(pool, peer_of(window), wait_ms, &waited, &index, err);
    struct rg_rail *rail = pool->rail;
    unlock_pool(pool);
    if (pool->config.observe_wait) {
        pool->config.observe_wait(pool->config.observe_context, waited, rc == 0);
    }
    if (rc < 0) {
        return rc;
    }
    struct place *place = &pool->places[index];
    bool opened = false;
    rc = fill_place(pool, place, rail, &opened, err);
    lock_pool(pool);
    pool->lanes_opened += rc == 0 && opened;
    if (rc == -RG_SERVICE_UNAVAILABLE) {
        take_out_locked(pool, err ? err->message : "a lane could not be opened");
    }
    if (rc < 0) {
        give_place_locked(pool, index);
    }
    unlock_pool(pool);
    if (rc < 0) {
        return rc;
    }
    *ret_lease = (struct rg_lease){
        .lane = place->lane,
        .disk = place->disk,
        .pool = pool,
        .index = index,
    };
    return 0;
}

/* Whether the rail itself is at fault for a lane's damage; *ret_error says how. */
static bool is_rail_broken(struct rg_lane *lane, struct rg_error *ret_error)
{
    if (lane->broke == RG_BROKE_DEVICE) {
        (void)rg_failf(ret_error, RG_SERVICE_UNAVAILABLE, "A lane reported: %s.",
                       rg_cause_sentence(lane->cause));
        return true;
    }
    return lane->broke == RG_BROKE_CONNECTION && rg_rail_check(lane->rail, ret_error) < 0;
}

/* Makes a broken lane as new where that is the cheaper way; false: it has to be closed. */
static bool mend_lane(struct rg_lane *lane)
{
    return lane->rail->transport->resets_lanes && rg_lane_reset(lane, NULL) == 0;
}

static void end_lease(struct rg_lease *lease, bool discard)
{
    struct rg_pool *pool = lease->pool;
    if (!pool) {
        return;
    }
    struct place *place = &pool->places[lease->index];
    struct rg_lane *lane = place->lane;
    RG_ASSERT(lane == lease->lane && place->leased);
    if (!lane) {
        lock_pool(pool);
        give_place_locked(pool, lease->index);
        unlock_pool(pool);
        *lease = (struct rg_lease){0};
        return;
    }
    unsigned quiet;
    int rc = rg_lane_flush(lane, &quiet, NULL);
    enum rg_broke broke = lane->broke;
    enum rg_cause cause = lane->cause;
    struct rg_error error = RG_ERROR_INIT;
    bool rail_broken = is_rail_broken(lane, &error);
    bool broken = rc < 0 || broke >= RG_BROKE_CONNECTION;
    bool mended = broken && !discard && !rail_broken && rc == 0 && mend_lane(lane);
    if (discard || (broken && !mended)) {
        place->lane = NULL;
        rg_lane_close(lane);
    } else {
        rg_lane_unbind(lane);
        lane->broke = RG_BROKE_NOTHING;
        lane->cause = RG_CAUSE_NONE;
    }
    lock_pool(pool);
    if (broken) {
        pool->lanes_broken++;
        pool->broken_by_cause[cause]++;
    }
    if (rail_broken) {
        take_out_locked(pool, error.message);
    }
    give_place_locked(pool, lease->index);
    unlock_pool(pool);
    *lease = (struct rg_lease){0};
}

void rg_pool_return(struct rg_lease *lease)
{
    end_lease(lease, false);
}

void rg_pool_discard(struct rg_lease *lease)
{
    end_lease(lease, true);
}

/* ---- Health ---- */

void rg_pool_report(struct rg_pool *pool, struct rg_lane *lane)
{
    struct rg_error error = RG_ERROR_INIT;
    if (lane->broke < RG_BROKE_CONNECTION) {
        return;
    }
    bool rail_broken = is_rail_broken(lane, &error);
    lock_pool(pool);
    pool->lanes_broken++;
    pool->broken_by_cause[lane->cause]++;
    if (rail_broken) {
        take_out_locked(pool, error.message);
    }
    unlock_pool(pool);
}

bool rg_pool_is_up(struct rg_pool *pool)
{
    lock_pool(pool);
    bool up = pool->up;
    unlock_pool(pool);
    return up;
}

void rg_pool_take_out(struct rg_pool *pool, const char *reason)
{
    lock_pool(pool);
    take_out_locked(pool, reason);
    settle_locked(pool);
    unlock_pool(pool);
}

bool rg_pool_tick(struct rg_pool *pool)
{
    lock_pool(pool);
    bool was_up = pool->up;
    struct rg_rail *rail = was_up ? pool->rail : NULL;
    if (rail) {
        pool->rail_users++;
        unlock_pool(pool);
        struct rg_error error = RG_ERROR_INIT;
        int rc = rg_rail_check(rail, &error);
        lock_pool(pool);
        pool->rail_users--;
        if (rc < 0) {
            take_out_locked(pool, error.message);
        }
    }
    settle_locked(pool);
    retry_locked(pool);
    bool changed = pool->up != was_up;
    unlock_pool(pool);
    return changed;
}

void rg_pool_stop(struct rg_pool *pool)
{
    lock_pool(pool);
    pool->stopped = true;
    rg_turn_wake_all(&pool->line);
    unlock_pool(pool);
}

struct rg_rail *rg_pool_rail_get(struct rg_pool *pool)
{
    lock_pool(pool);
    struct rg_rail *rail = pool->up && !pool->stopped ? pool->rail : NULL;
    if (rail) {
        pool->rail_users++;
    }
    unlock_pool(pool);
    return rail;
}

void rg_pool_rail_put(struct rg_pool *pool, struct rg_rail *rail)
{
    if (!rail) {
        return;
    }
    lock_pool(pool);
    RG_ASSERT(pool->rail == rail && pool->rail_users > 0);
    pool->rail_users--;
    settle_locked(pool);
    unlock_pool(pool);
}

void rg_pool_facts(struct rg_pool *pool, struct rg_rail_facts *ret_facts)
{
    lock_pool(pool);
    const char *asked = pool->config.rail.address;
    *ret_facts = (struct rg_rail_facts){
        .is_up = pool->up, .has_gid = pool->has_gid, .subnet_bits = pool->subnet_bits};
    memcpy(ret_facts->gid, pool->gid, sizeof pool->gid);
    snprintf(ret_facts->address, sizeof ret_facts->address, "%s", asked[0] ? asked : pool->address);
    unlock_pool(pool);
}

void rg_pool_state(struct rg_pool *pool, struct rg_pool_state *ret_state)
{
    *ret_state = (struct rg_pool_state){.lanes_max = pool->config.lanes_max};
    lock_pool(pool);
    uint64_t now = rg_clock_ms();
    ret_state->up = pool->up;
    ret_state->is_hardware = pool->is_hardware;
    memcpy(ret_state->path, pool->path, sizeof pool->path);
    memcpy(ret_state->device, pool->device, sizeof pool->device);
    memcpy(ret_state->address, pool->address, sizeof pool->address);
    memcpy(ret_state->reason, pool->reason, sizeof pool->reason);
    ret_state->down_ms = pool->up ? 0 : now - pool->down_since_ms;
    ret_state->retry_in_ms = !pool->up && pool->retry_at_ms > now ? pool->retry_at_ms - now : 0;
    ret_state->lanes_leased = pool->config.lanes_max - pool->free_count;
    for (size_t i = 0; i < pool->config.lanes_max; i++) {
        ret_state->lanes_open += pool->places[i].leased || pool->places[i].lane;
    }
    ret_state->waiters = pool->line.count;
    ret_state->leases = pool->leases;
    ret_state->timeouts = pool->timeouts;
    ret_state->wait_ns = pool->wait_ns;
    ret_state->lanes_opened = pool->lanes_opened;
    ret_state->lanes_broken = pool->lanes_broken;
    ret_state->rail_failures = pool->rail_failures;
    memcpy(ret_state->broken_by_cause, pool->broken_by_cause, sizeof pool->broken_by_cause);
    unlock_pool(pool);
}
