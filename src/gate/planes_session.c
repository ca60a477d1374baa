/*
 * The data planes' side of sessions: which rail a peer gets, transfers on a session's lane, and the
 * two ways in which a hipobj-rc-v2 object moves. The table itself is rdma/session.c.
 */
#include "gate/planes_inside.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/deposit.h"

#include <inttypes.h>
#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20)

static struct rg_plane *plane_of(const struct rg_planes *planes, const struct rg_session *session)
{
    for (size_t i = 0; i < planes->count; i++) {
        if (planes->planes[i]->pool == rg_session_pool(session)) {
            return planes->planes[i];
        }
    }
    RG_UNREACHABLE();
}

/* ---- Choosing a rail ---- */

const char *rg_planes_session_objection(const struct rg_planes *planes)
{
    if (planes->settings->rdma == RG_RDMA_OFF) {
        return "rdma-off";
    }
    if (planes->stopping) {
        return "stopping";
    }
    if (!planes->sessions) {
        return "no-transport";
    }
    for (size_t i = 0; i < planes->count; i++) {
        if (planes->planes[i]->kind == RG_TRANSPORT_RC && rg_pool_is_up(planes->planes[i]->pool)) {
            return NULL;
        }
    }
    return "rail-down";
}

static bool has_sessions(const struct rg_plane *plane, const void *context)
{
    (void)context;
    return plane->kind == RG_TRANSPORT_RC && rg_pool_is_up(plane->pool);
}

static struct rg_plane *choose(struct rg_planes *planes, const struct rg_lane_address *peer,
                               const char *arrival)
{
    return rg_planes_choose(planes, has_sessions, NULL, peer->has_gid ? peer->gid : NULL, arrival);
}

static int fail_down(struct rg_error *err)
{
    return rg_failf(err, RG_SERVICE_UNAVAILABLE, "All RDMA rails are out.");
}

int rg_planes_connect(struct rg_planes *planes, const char *account, const char *arrival,
                      const struct rg_lane_address *peer, struct rg_session_opened *ret_opened,
                      struct rg_error *err)
{
    struct rg_plane *plane = choose(planes, peer, arrival);
    return plane
               ? rg_sessions_connect(planes->sessions, plane->pool, account, peer, ret_opened, err)
               : fail_down(err);
}

int rg_planes_disconnect(struct rg_planes *planes, const char *account,
                         const struct rg_session_id *id, struct rg_error *err)
{
    return rg_sessions_disconnect(planes->sessions, account, id, err);
}

int rg_planes_prepare(struct rg_planes *planes, const char *account, const char *arrival,
                      const struct rg_push_prepare *prepare, void *order,
                      void (*free_order)(void *order), struct rg_session_opened *ret_opened,
                      struct rg_error *err)
{
    struct rg_plane *plane = choose(planes, &prepare->peer, arrival);
    return plane ? rg_sessions_prepare(planes->sessions, plane->pool, account, prepare, order,
                                       free_order, ret_opened, err)
                 : fail_down(err);
}

int rg_planes_ready(struct rg_planes *planes, const char *account,
                    const struct rg_push_ready *ready, struct rg_session **ret_session,
                    struct rg_error *err)
{
    return rg_sessions_ready(planes->sessions, account, ready, ret_session, err);
}

int rg_planes_cancel(struct rg_planes *planes, const char *account, const struct rg_session_id *id,
                     struct rg_error *err)
{
    return rg_sessions_cancel(planes->sessions, account, id, err);
}

/* ---- Transfers by the token of a session (D2) ---- */

static const char *reason_of(int rc)
{
    switch (-rc) {
    case RG_LIMIT:
        return "no-lane";
    case RG_CANCELLED:
        return "stopping";
    case RG_RDMA_NO_SUCH_SESSION:
        return "no-session";
    default:
        return "rail-down";
    }
}

static int move_on(struct rg_planes *planes, struct rg_session *session,
                   const struct rg_plane_transfer *transfer, uint64_t deadline_ms,
                   struct rg_plane_result *result, struct rg_error *err)
{
    struct rg_plane *plane = plane_of(planes, session);
    struct rg_lease place = {0};
    int rc = rg_pool_lease(plane->pool, rg_plane_wait(planes, deadline_ms), &place, err);
    if (rc < 0) {
        return rg_planes_decline(planes, result, reason_of(rc), err);
    }
    memcpy(result->path, plane->path, sizeof result->path);
    const struct rg_plane_way way = {
        .lane = rg_session_lane(session),
        .disk = place.disk,
        .cancel = &planes->stopping,
        .deadline_ms = deadline_ms,
    };
    rc = rg_plane_run(planes, plane, &way, transfer, result, err);
    rg_pool_return(&place);
    return rc;
}

int rg_planes_move_by_session(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                              struct rg_plane_result *result, struct rg_error *err)
{
    uint64_t deadline_ms = rg_plane_deadline(transfer, planes->settings->rdma_budget);
    struct rg_session_id id;
    struct rg_session *session;
    if (!rg_session_id_parse(rg_span_text(transfer->window->session), &id)) {
        return rg_planes_decline(planes, result, "no-session", err);
    }
    int rc = rg_sessions_take(planes->sessions, transfer->account, &id,
                              rg_plane_wait(planes, deadline_ms), &session, err);
    if (rc < 0) {
        return rg_planes_decline(planes, result, reason_of(rc), err);
    }
    rc = move_on(planes, session, transfer, deadline_ms, result, err);
    rg_sessions_give(session);
    return rc;
}

/* ---- hipobj-rc-v2: GET ---- */

static uint32_t left_until(uint64_t deadline_ms)
{
    uint64_t now_ms = rg_clock_ms();
    return (uint32_t)(deadline_ms > now_ms ? deadline_ms - now_ms : 0);
}

/* The client has not paired its end yet, as far as it looks. */
static bool is_peer_absent(const struct rg_transfer_report *report)
{
    return report->bytes == 0 &&
           (report->cause == RG_CAUSE_PEER_GONE || report->cause == RG_CAUSE_PEER_NOT_READY);
}

static int busy(struct rg_error *err)
{
    return rg_failf(err, RG_SLOW_DOWN, "Too many RDMA transfers are under way. Send READY again.");
}

static int pump_push(struct rg_planes *planes, struct rg_plane *plane,
                     const struct rg_plane_way *way, struct rg_session *session,
                     const struct rg_plane_transfer *transfer, struct rg_error *err)
{
    struct rg_transfer_report report;
    int rc = rg_plane_pump(planes, plane, way, transfer, &report, err);
    if (rc == 0) {
        rc = rg_session_notify(session, rg_slab_region(plane->slab), left_until(way->deadline_ms),
                               err);
    } else if (rc == -RG_LIMIT) {
        return busy(err);
    } else if (rc == -RG_RDMA_TRANSFER_FAILED && is_peer_absent(&report)) {
        rc = rg_fail(err, RG_RDMA_PEER_BUSY);
    } else if (rc == -RG_TIMED_OUT) {
        rc = rg_fail(err, RG_RDMA_TIMED_OUT);
    }
    if (rc < 0 && report.cause == RG_CAUSE_NONE) {
        report.cause = rg_cause_of(rg_session_lane(session), rc, RG_CAUSE_OTHER);
    }
    rg_plane_count(plane, transfer, &report, rc == 0);
    return rc;
}

static int send_push(struct rg_planes *planes, struct rg_session *session,
                     const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                     struct rg_error *err)
{
    struct rg_plane *plane = plane_of(planes, session);
    struct rg_lease place = {0};
    uint64_t deadline_ms = rg_plane_deadline(transfer, planes->settings->rdma_push_budget);
    memcpy(result->path, plane->path, sizeof result->path);
    int rc = rg_pool_lease(plane->pool, rg_plane_wait(planes, deadline_ms), &place, err);
    if (rc < 0) {
        return rc == -RG_LIMIT ? busy(err) : rc;
    }
    const struct rg_plane_way way = {
        .lane = rg_session_lane(session),
        .disk = place.disk,
        .cancel = rg_session_cancel(session),
        .deadline_ms = deadline_ms,
    };
    rc = pump_push(planes, plane, &way, session, transfer, err);
    rg_pool_return(&place);
    return rc;
}

/* The client may send READY again after these, if the lane can be brought back. */
static int end_push(struct rg_session *session, int rc, struct rg_error *err)
{
    if (rc != -RG_RDMA_PEER_BUSY && rc != -RG_SLOW_DOWN) {
        rg_sessions_finish(session);
        return rc;
    }
    return rg_sessions_rearm(session, NULL) < 0 ? rg_fail(err, RG_RDMA_TRANSFER_FAILED) : rc;
}

typedef int move_push(struct rg_planes *planes, struct rg_session *session,
                      const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                      struct rg_error *err);

static int run_push(struct rg_planes *planes, struct rg_session *session,
                    const struct rg_plane_transfer *transfer, move_push *move_bytes,
                    struct rg_plane_result *ret_result, struct rg_error *err)
{
    struct rg_plane_transfer own = *transfer;
    own.window = rg_session_window(session);
    *ret_result = (struct rg_plane_result){0};
    int rc = busy(err);
    if (rg_planes_enter(planes, own.account)) {
        rc = move_bytes(planes, session, &own, ret_result, err);
        rg_planes_leave(planes, own.account);
    }
    return end_push(session, rc, err);
}

int rg_planes_push_send(struct rg_planes *planes, struct rg_session *session,
                        const struct rg_plane_transfer *transfer,
                        struct rg_plane_result *ret_result, struct rg_error *err)
{
    return run_push(planes, session, transfer, send_push, ret_result, err);
}

/* ---- hipobj-rc-v2: PUT ---- */

static int consume(const struct rg_plane_transfer *transfer, struct span bytes,
                   const atomic_bool *cancel, struct rg_error *err)
{
    while (bytes.len) {
        struct span piece = rg_span_head(bytes, PIECE_BYTES);
        bytes = rg_span_skip(bytes, piece.len);
        if (atomic_load(cancel)) {
            return rg_fail(err, RG_CANCELLED);
        }
        int rc = transfer->consume(transfer->consume_context, piece, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* To the transfer's file, or, where it has none, to its consumer alone. */
static int store_push(struct rg_session *session, const struct rg_plane_transfer *transfer,
                      struct span bytes, struct rg_transfer_report *report, struct rg_error *err)
{
    const atomic_bool *cancel = rg_session_cancel(session);
    if (transfer->file.fd < 0) {
        return consume(transfer, bytes, cancel, err);
    }
    const struct rg_deposit deposit = {
        .bytes = bytes,
        .file = transfer->file,
        .file_offset = transfer->file_offset,
        .allow_uring = true,
        .cancel = cancel,
        .consume = transfer->consume,
        .consume_context = transfer->consume_context,
    };
    struct rg_deposit_report written;
    int rc = rg_deposit_run(&deposit, &written, err);
    report->disk_ns = written.disk_ns;
    report->direct_bytes = written.direct_bytes;
    return rc;
}

static int take_push(struct rg_planes *planes, struct rg_session *session,
                     const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                     struct rg_error *err)
{
    struct rg_plane *plane = plane_of(planes, session);
    struct rg_transfer_report report = {0};
    struct span bytes = RG_SPAN_EMPTY;
    memcpy(result->path, plane->path, sizeof result->path);
    uint64_t deadline_ms = rg_plane_deadline(transfer, planes->settings->rdma_push_budget);
    uint64_t start_ns = rg_clock_ns();
    int rc = rg_session_await_push(session, left_until(deadline_ms), &bytes, err);
    report.wire_ns = rg_clock_ns() - start_ns;
    enum rg_cause otherwise = RG_CAUSE_OTHER;
    if (rc == 0) {
        rc = store_push(session, transfer, bytes, &report, err);
        otherwise = RG_CAUSE_STORAGE;
    }
    report.wall_ns = rg_clock_ns() - start_ns;
    report.bytes = bytes.len;
    report.cause = rc < 0 ? rg_cause_of(rg_session_lane(session), rc, otherwise) : RG_CAUSE_NONE;
    rg_plane_count(plane, transfer, &report, rc == 0);
    return rc;
}

int rg_planes_push_take(struct rg_planes *planes, struct rg_session *session,
                        const struct rg_plane_transfer *transfer,
                        struct rg_plane_result *ret_result, struct rg_error *err)
{
    return run_push(planes, session, transfer, take_push, ret_result, err);
}

void rg_planes_push_drop(struct rg_planes *planes, struct rg_session *session)
{
    (void)planes;
    rg_sessions_finish(session);
}

/* ---- What operators see ---- */

bool rg_planes_session_state(const struct rg_planes *planes, struct rg_sessions_state *ret_state)
{
    if (!planes->sessions) {
        return false;
    }
    rg_sessions_state(planes->sessions, ret_state);
    return true;
}

static const char *dialect_of(int kind)
{
    return rg_dialect_name(kind == RG_SESSION_RC ? RG_DIALECT_RC_SESSION : RG_DIALECT_HIPOBJ_V2);
}

void rg_planes_write_sessions(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    struct rg_sessions_state state;
    for (int kind = 0; rg_planes_session_state(planes, &state) && kind < RG_SESSION_KIND_COUNT;
         kind++) {
        rg_buf_addf(out, "%s{dialect=\"%s\",state=\"open\"} %zu\n", name, dialect_of(kind),
                    state.open[kind]);
        rg_buf_addf(out, "%s{dialect=\"%s\",state=\"in-use\"} %zu\n", name, dialect_of(kind),
                    state.taken[kind]);
    }
}

void rg_planes_write_session_events(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    struct rg_sessions_state state;
    if (!rg_planes_session_state(planes, &state)) {
        return;
    }
    for (int kind = 0; kind < RG_SESSION_KIND_COUNT; kind++) {
        for (int event = 0; event < RG_SESSION_EVENT_COUNT; event++) {
            if (state.events[kind][event]) {
                rg_buf_addf(out, "%s{dialect=\"%s\",event=\"%s\"} %" PRIu64 "\n", name,
                            dialect_of(kind), rg_session_event_name((enum rg_session_event)event),
                            state.events[kind][event]);
            }
        }
    }
}

void rg_planes_write_staging(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    struct rg_sessions_state state;
    if (rg_planes_session_state(planes, &state)) {
        rg_buf_addf(out, "%s %" PRIu64 "\n", name, state.staging_bytes);
    }
}
