/*
 * The life of the data planes, choosing a rail for a window, moving bytes. One thread ticks the
 * pools, so that a rail that failed comes back and an operator reads about both. Rails are opened
 * in planes_open.c, counters kept and shown in planes_count.c.
 */
#include "gate/planes_inside.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/choice.h"
#include "rdma/ofi_address.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 1000u

/* ---- The ticker ---- */

static void log_rail(const struct rg_plane *plane)
{
    struct rg_pool_state state;
    rg_pool_state(plane->pool, &state);
    if (state.up) {
        rg_log_info("rdma.rail.up", "the rail carries transfers again",
                    RG_FIELD_TEXT("path", state.path), RG_FIELD_TEXT("device", state.device));
    } else {
        rg_log_warn("rdma.rail.down", state.reason, RG_FIELD_TEXT("path", state.path),
                    RG_FIELD_TEXT("device", state.device),
                    RG_FIELD_INT("retry_ms", state.retry_in_ms));
    }
}

static void *tick(void *context)
{
    struct rg_planes *planes = context;
    pthread_mutex_lock(&planes->lock);
    while (!planes->stopping) {
        struct timespec until = rg_clock_deadline(TICK_MS);
        pthread_cond_clockwait(&planes->end, &planes->lock, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&planes->lock);
        if (planes->sessions && !planes->stopping) {
            rg_sessions_tick(planes->sessions);
        }
        for (size_t i = 0; i < planes->count && !planes->stopping; i++) {
            if (rg_pool_tick(planes->planes[i]->pool)) {
                log_rail(planes->planes[i]);
            }
        }
        pthread_mutex_lock(&planes->lock);
    }
    pthread_mutex_unlock(&planes->lock);
    return NULL;
}

int rg_planes_open_with(const struct rg_settings *settings, rg_planes_find *find,
                        struct rg_planes **ret_planes, struct rg_buf *ret_summary,
                        struct rg_error *err)
{
    struct rg_planes *planes = calloc(1, sizeof *planes);
    if (!planes) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    planes->settings = settings;
    planes->find = find;
    RG_MUST(pthread_mutex_init(&planes->lock, NULL));
    RG_MUST(pthread_cond_init(&planes->end, NULL));
    int rc = rg_planes_open_rails(planes, ret_summary, err);
    if (rc == 0 && planes->count) {
        planes->ticking = pthread_create(&planes->ticker, NULL, tick, planes) == 0;
        rc = planes->ticking ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (rc < 0) {
        rg_planes_close(planes);
        return rc;
    }
    *ret_planes = planes;
    return 0;
}

int rg_planes_open(const struct rg_settings *settings, struct rg_planes **ret_planes,
                   struct rg_buf *ret_summary, struct rg_error *err)
{
    return rg_planes_open_with(settings, rg_transport_find, ret_planes, ret_summary, err);
}

void rg_planes_stop(struct rg_planes *planes)
{
    pthread_mutex_lock(&planes->lock);
    planes->stopping = true;
    pthread_cond_broadcast(&planes->end);
    pthread_mutex_unlock(&planes->lock);
    if (planes->sessions) {
        rg_sessions_stop(planes->sessions);
    }
    for (size_t i = 0; i < planes->count; i++) {
        rg_pool_stop(planes->planes[i]->pool);
        rg_slab_stop(planes->planes[i]->slab);
    }
}

void rg_planes_close(struct rg_planes *planes)
{
    if (!planes) {
        return;
    }
    rg_planes_stop(planes);
    if (planes->ticking) {
        RG_MUST(pthread_join(planes->ticker, NULL));
    }
    rg_sessions_free(planes->sessions);
    for (size_t i = 0; i < planes->count; i++) {
        rg_plane_free(planes->planes[i]);
    }
    pthread_cond_destroy(&planes->end);
    pthread_mutex_destroy(&planes->lock);
    free(planes);
}

/* ---- Choosing ---- */

/* "tcp;ofi_rxm" in a token is the provider of the path "ofi:tcp". */
static bool same_provider(const char *path, const char *provider)
{
    struct span rest = rg_span_text(provider);
    struct span first = rg_span_cut(&rest, ';');
    struct span own = rg_span_skip(rg_span_text(path), strlen("ofi:"));
    return rg_span_eq(first, own);
}

static bool carries(const struct rg_plane *plane, const void *context)
{
    const struct rg_rdma_window *window = context;
    return plane->kind == window->transport &&
           (plane->kind != RG_TRANSPORT_OFI || same_provider(plane->path, window->provider));
}

struct rg_plane *rg_planes_choose(struct rg_planes *planes, rg_plane_carries *carries_it,
                                  const void *context, const uint8_t *peer, const char *arrival)
{
    struct rg_plane *fit[PLANES_MAX];
    struct rg_rail_facts facts[PLANES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < planes->count; i++) {
        if (carries_it(planes->planes[i], context)) {
            fit[count] = planes->planes[i];
            rg_pool_facts(fit[count]->pool, &facts[count]);
            count++;
        }
    }
    size_t turn = atomic_fetch_add(&planes->next, 1);
    size_t chosen = rg_rail_choose(facts, count, peer, arrival, turn);
    return chosen < count ? fit[chosen] : NULL;
}

const char *rg_planes_objection(const struct rg_planes *planes, const struct rg_rdma_window *window,
                                uint64_t length)
{
    if (planes->settings->rdma == RG_RDMA_OFF) {
        return "rdma-off";
    }
    if (!rg_dialect_is_served(window->dialect)) {
        return "dialect-not-served";
    }
    bool carried = false;
    for (size_t i = 0; i < planes->count && !carried; i++) {
        carried = carries(planes->planes[i], window);
    }
    if (!carried) {
        return "no-transport";
    }
    if (length == 0) {
        return "empty-object";
    }
    if (length > window->length) {
        return "window-too-small";
    }
    return length < (uint64_t)planes->settings->rdma_size_min ? "below-minimum" : NULL;
}

/* ---- Ceilings of one account ---- */

bool rg_planes_enter(struct rg_planes *planes, const char *account)
{
    bool allowed = false;
    struct rg_plane_usage *place = NULL;
    pthread_mutex_lock(&planes->lock);
    for (size_t i = 0; i < ACCOUNTS_MAX; i++) {
        struct rg_plane_usage *usage = &planes->usage[i];
        if (usage->count && strcmp(usage->account, account) == 0) {
            place = usage;
            break;
        }
        if (!usage->count && !place) {
            place = usage;
        }
    }
    if (place && place->count < (unsigned)planes->settings->rdma_account_max) {
        if (place->count == 0) {
            snprintf(place->account, sizeof place->account, "%s", account);
        }
        place->count++;
        allowed = true;
    }
    pthread_mutex_unlock(&planes->lock);
    return allowed;
}

void rg_planes_leave(struct rg_planes *planes, const char *account)
{
    pthread_mutex_lock(&planes->lock);
    for (size_t i = 0; i < ACCOUNTS_MAX; i++) {
        struct rg_plane_usage *usage = &planes->usage[i];
        if (usage->count && strcmp(usage->account, account) == 0) {
            usage->count--;
            break;
        }
    }
    pthread_mutex_unlock(&planes->lock);
}

/* ---- Moving ---- */

int rg_planes_decline(struct rg_planes *planes, struct rg_plane_result *result, const char *reason,
                      struct rg_error *err)
{
    rg_planes_count_decline(planes, reason);
    result->reason = reason;
    return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
}

/* Why nothing was moved; NULL when it is not a matter of declining. */
static const char *untouched_reason(int rc)
{
    switch (-rc) {
    case RG_LIMIT:
        return "no-slot";
    case RG_RDMA_NOT_SUPPORTED:
        return "no-transport";
    case RG_RDMA_TRANSFER_FAILED:
        return "unreachable";
    case RG_TIMED_OUT:
        return "too-slow";
    case RG_CANCELLED:
        return "stopping";
    default:
        return NULL;
    }
}

uint64_t rg_plane_deadline(const struct rg_plane_transfer *transfer, int64_t budget_ms)
{
    uint64_t begun_ms = transfer->begun_ms ? transfer->begun_ms : rg_clock_ms();
    return begun_ms + (uint64_t)budget_ms;
}

uint32_t rg_plane_wait(const struct rg_planes *planes, uint64_t deadline_ms)
{
    uint64_t now_ms = rg_clock_ms();
    uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
    return (uint32_t)RG_MIN(left_ms, (uint64_t)planes->settings->rdma_queue_wait);
}

int rg_plane_pump(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                  const struct rg_plane_transfer *transfer, struct rg_transfer_report *ret_report,
                  struct rg_error *err)
{
    uint64_t now_ms = rg_clock_ms();
    *ret_report = (struct rg_transfer_report){0};
    if (now_ms >= way->deadline_ms) {
        return rg_failf(err, RG_TIMED_OUT, "the transfer's time was over before it began");
    }
    struct rg_transfer pipeline = RG_TRANSFER_INIT;
    pipeline.lane = way->lane;
    pipeline.disk = way->disk;
    pipeline.slab = plane->slab;
    pipeline.window = transfer->window;
    pipeline.file = transfer->file;
    pipeline.file_offset = transfer->file_offset;
    pipeline.length = transfer->length;
    pipeline.queue_ms = (uint32_t)planes->settings->rdma_queue_wait;
    pipeline.budget_ms = (uint32_t)(way->deadline_ms - now_ms);
    pipeline.cancel = way->cancel;
    pipeline.consume = transfer->consume;
    pipeline.consume_context = transfer->consume_context;
    return transfer->use == RG_PLANE_GET ? rg_pipeline_get(&pipeline, ret_report, err)
                                         : rg_pipeline_put(&pipeline, ret_report, err);
}

int rg_plane_run(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                 const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                 struct rg_error *err)
{
    struct rg_transfer_report report;
    int rc = rg_plane_pump(planes, plane, way, transfer, &report, err);
    if (rc == 0) {
        rg_plane_count(plane, transfer, &report, true);
        return 0;
    }
    const char *reason = report.touched ? NULL : untouched_reason(rc);
    if (reason) {
        return rg_planes_decline(planes, result, reason, err);
    }
    rg_plane_count(plane, transfer, &report, false);
    if (rc == -RG_TIMED_OUT || rc == -RG_CANCELLED) {
        err->code = RG_RDMA_TRANSFER_FAILED;
        return -RG_RDMA_TRANSFER_FAILED;
    }
    return rc;
}

static int move(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                struct rg_plane_result *result, struct rg_error *err)
{
    uint64_t deadline_ms = rg_plane_deadline(transfer, planes->settings->rdma_budget);
    const struct rg_rdma_window *window = transfer->window;
    uint8_t peer[16];
    bool is_known = rg_window_peer(window, peer);
    struct rg_plane *plane =
        rg_planes_choose(planes, carries, window, is_known ? peer : NULL, transfer->arrival);
    RG_ASSERT(plane);
    struct rg_lease lease = {0};
    int rc = rg_pool_lease_for(plane->pool, transfer->window, rg_plane_wait(planes, deadline_ms),
                               &lease, err);
    if (rc < 0) {
        const char *reason = rc == -RG_LIMIT       ? "no-lane"
                             : rc == -RG_CANCELLED ? "stopping"
                                                   : "rail-down";
        return rg_planes_decline(planes, result, reason, err);
    }
    memcpy(result->path, plane->path, sizeof result->path);
    const struct rg_plane_way way = {
        .lane = lease.lane,
        .disk = lease.disk,
        .cancel = &planes->stopping,
        .deadline_ms = deadline_ms,
    };
    rc = rg_plane_run(planes, plane, &way, transfer, result, err);
    rg_pool_return(&lease);
    return rc;
}

int rg_planes_move(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                   struct rg_plane_result *ret_result, struct rg_error *err)
{
    *ret_result = (struct rg_plane_result){0};
    const char *reason = rg_planes_objection(planes, transfer->window, transfer->length);
    if (reason) {
        return rg_planes_decline(planes, ret_result, reason, err);
    }
    if (rg_clock_ms() >= rg_plane_deadline(transfer, planes->settings->rdma_budget)) {
        return rg_planes_decline(planes, ret_result, "too-slow", err);
    }
    if (!rg_planes_enter(planes, transfer->account)) {
        return rg_planes_decline(planes, ret_result, "account-limit", err);
    }
    int rc = transfer->window->session[0]
                 ? rg_planes_move_by_session(planes, transfer, ret_result, err)
                 : move(planes, transfer, ret_result, err);
    rg_planes_leave(planes, transfer->account);
    return rc;
}
