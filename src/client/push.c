/*
 * hipobj-rc-v2 from the client's side. See push.h.
 */
#include "client/push.h"

#include "client/failure.h"
#include "client/pairing.h"
#include "client/session.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "rdma/session_wire.h"
#include "rdma/token.h"
#include "s3/url.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define ROUTE_BUCKET ".hipobj-rc"
#define TARGET_MAX   (4 * RG_PUSH_TARGET_MAX)

/* The gateway can take a push when it has read READY: before that the first packet is lost, which
 * costs more than this. */
#define GRACE_MS 10
#define SLICE_MS 20

/* How often READY is sent again when the gateway says that nothing moved and that it may be, and
 * how long before: that doubles each time. */
#define AGAIN_MAX 3
#define AGAIN_MS  50

/* After the answer the immediate is there, or nearly. */
#define IMMEDIATE_MS 5000

/* One transfer. */
struct run {
    const struct rg_push *push;
    struct rg_attempt attempt;
    struct rg_lane_address own;
    struct rg_lane_address peer;
    uint32_t cookie;
    char session[RG_RC_SESSION_LENGTH + 1];
    bool is_published; /* the session exists */
    bool is_hot;       /* the peer may reach the memory as long as the lane is open */
    struct rg_rdma_window staging;

    /* PUT: the thread that writes */
    pthread_t thread;
    bool has_thread;
    atomic_bool stop;
    enum rg_cause cause;
};

bool rg_push_is_wanted(const struct rg_client *client, const struct rg_client_rail *rail)
{
    return client->config.pushes && rail->transport->kind == RG_TRANSPORT_RC;
}

/* ---- Requests ---- */

static void begin_call(const struct run *run, struct rg_request *call, const char *route)
{
    call->method = "POST";
    call->bucket = ROUTE_BUCKET;
    call->key = route;
    call->has_body = true;
    call->payload = RG_SPAN_EMPTY;
    call->repeat = RG_REPEAT_REFUSED;
    call->cancel = run->push->piece->cancel;
    rg_request_header(call, "x-amz-rdma-protocol", RG_PUSH_PROTOCOL);
}

static void print_target(const struct rg_push *push, struct rg_buf *target)
{
    rg_buf_add_char(target, '/');
    rg_url_encode(rg_span_text(push->piece->bucket), RG_URL_SLASH_ENCODED, target);
    rg_buf_add_char(target, '/');
    rg_url_encode(rg_span_text(push->piece->key), RG_URL_SLASH_KEPT, target);
    if (push->fields->query) {
        rg_buf_addf(target, "?%s", push->fields->query);
    }
}

static void build_prepare(const struct run *run, struct rg_request *call)
{
    const struct rg_push *push = run->push;
    struct rg_rdma_window window = rg_client_session_window(&run->own);
    RG_BUF(token, RG_TOKEN_MAX);
    RG_BUF(target, TARGET_MAX);
    begin_call(run, call, "prepare");
    rg_token_print_hipobj(&window, &token);
    print_target(push, &target);
    rg_request_header(call, "x-amz-rdma-token", rg_buf_text(&token));
    rg_request_headerf(call, "x-amz-rdma-psn", "%06" PRIx32, run->own.psn);
    rg_client_session_mtu(call, &run->own);
    rg_request_headerf(call, "x-amz-rdma-cookie", "%08" PRIx32, run->cookie);
    rg_request_header(call, "x-amz-rdma-op", push->direction == RG_DIRECTION_GET ? "GET" : "PUT");
    rg_request_header(call, "x-amz-rdma-target", rg_buf_text(&target));
    rg_request_headerf(call, "x-amz-rdma-size", "%" PRIu64, push->length);
    rg_request_headerf(call, "x-amz-rdma-offset", "%" PRIu64, push->object_offset);
    /* A Range is said by offset and size instead. */
    rg_request_headers_copy(call, push->fields, push->field_count, "range");
    call->failed = call->failed || !rg_buf_ok(&target) || !rg_buf_ok(&token);
}

static enum rg_verdict decline(const struct run *run, const char *reason,
                               struct rg_failure *failure)
{
    failure->status = RG_STATUS_RDMA_DECLINED;
    snprintf(run->push->reason, RG_REASON_MAX + 1, "%s", reason);
    return RG_VERDICT_DECLINED;
}

/* What a failed PREPARE means for the object: nothing has been done. */
static enum rg_verdict judge_prepare(const struct run *run, struct rg_failure *failure)
{
    const struct rg_http_answer *answer = run->push->answer;
    char reason[RG_REASON_MAX + 1] = "push-refused";
    failure->uncertain = false;
    if (answer->has[RG_ANSWER_PATH]) {
        rg_piece_reason(answer, reason);
    }
    switch (answer->status) {
    case 501:
        return decline(run, answer->has[RG_ANSWER_PATH] ? reason : "no-transport", failure);
    case 503:
        return decline(run, answer->has[RG_ANSWER_PATH] ? reason : "session-limit", failure);
    case 413:
        return decline(run, "push-too-large", failure);
    default:
        break;
    }
    if (strcmp(failure->s3_code, "InvalidRDMAToken") == 0) {
        return decline(run, "invalid-token", failure);
    }
    /* One that knows the routes says so with every answer. */
    if (!answer->has[RG_ANSWER_RDMA_PROTOCOL]) {
        return decline(run, "server-unaware", failure);
    }
    return RG_VERDICT_FAILED;
}

static bool read_prepared(struct run *run)
{
    const struct rg_push *push = run->push;
    struct rg_pairing pairing;
    uint64_t pushed = push->direction == RG_DIRECTION_PUT ? push->length : 0;
    if (!rg_pairing_read_prepare(push->answer, pushed, &pairing)) {
        return false;
    }
    run->peer = pairing.peer;
    memcpy(run->session, pairing.session, sizeof run->session);
    run->is_published = true;
    run->staging = (struct rg_rdma_window){
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .address = pairing.staging_address,
        .length = pushed,
        .rkey = pairing.staging_rkey,
    };
    return true;
}

static enum rg_verdict prepare(struct run *run, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    build_prepare(run, &call);
    int rc = rg_request_run(run->push->client, &call, run->push->answer, failure);
    if (rc < 0) {
        return run->push->answer->status ? judge_prepare(run, failure) : RG_VERDICT_FAILED;
    }
    if (!read_prepared(run)) {
        (void)rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                             "The gateway's answer to PREPARE does not say where to connect.");
        return decline(run, "session-refused", failure);
    }
    return RG_VERDICT_DONE;
}

/* Best effort: a gateway that does not hear it finds out by itself. */
static void cancel(const struct run *run)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_failure ignored;
    memset(&ignored, 0, sizeof ignored);
    begin_call(run, &call, "cancel");
    call.cancel = NULL; /* also what was cancelled by the caller is to be told */
    rg_request_header(&call, "x-amz-rdma-session", run->session);
    (void)rg_request_send(run->push->client, &call, &answer, &ignored);
}

/* ---- PUT: the thread that writes while READY is being answered ---- */

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

/* RG_CAUSE_NONE: all is there. */
static enum rg_cause write_once(struct run *run, uint64_t deadline_ms)
{
    struct rg_lane *lane = run->attempt.lane->lane;
    const struct rg_memory_lease *lease = &run->attempt.lease;
    int rc = rg_lane_bind(lane, &run->staging, NULL);
    if (rc == 0) {
        rc = rg_lane_write_immediate(lane, lease->region, lease->region_offset, 0,
                                     run->push->length, run->cookie, 0, NULL);
    }
    while (rc == 0) {
        struct rg_completion completion;
        size_t count = 0;
        rc = rg_lane_wait(lane, &completion, 1, -1, SLICE_MS, &count, NULL);
        if (rc == 0 && count == 1) {
            return completion.cause;
        }
        if (rc == -RG_TIMED_OUT && !atomic_load(&run->stop) && rg_clock_ms() < deadline_ms) {
            rc = 0;
        }
    }
    return lane->cause == RG_CAUSE_NONE ? RG_CAUSE_OTHER : lane->cause;
}

/* As if for the first time: the gateway has taken nothing, or this would not be needed. */
static bool start_again(struct run *run)
{
    struct rg_lane *lane = run->attempt.lane->lane;
    return rg_lane_reset(lane, NULL) == 0 &&
           rg_lane_pair_as(lane, &run->own, &run->peer, NULL) == 0;
}

static void *write_bytes(void *context)
{
    struct run *run = context;
    unsigned quiet;
    uint64_t deadline_ms = rg_clock_ms() + run->push->client->config.request_timeout_ms;
    run->cause = RG_CAUSE_NONE;
    do {
        nap(GRACE_MS);
        if (atomic_load(&run->stop)) {
            break; /* READY was answered: refused, or it does not need the bytes */
        }
        run->cause = write_once(run, deadline_ms);
    } while ((run->cause == RG_CAUSE_PEER_GONE || run->cause == RG_CAUSE_PEER_NOT_READY) &&
             !atomic_load(&run->stop) && rg_clock_ms() < deadline_ms && start_again(run));
    (void)rg_lane_flush(run->attempt.lane->lane, &quiet, NULL);
    if (run->cause != RG_CAUSE_NONE && !atomic_load(&run->stop)) {
        cancel(run); /* so that READY is answered soon */
    }
    return NULL;
}

static void end_thread(struct run *run)
{
    if (run->has_thread) {
        atomic_store(&run->stop, true);
        RG_MUST(pthread_join(run->thread, NULL));
        run->has_thread = false;
    }
}

/* ---- READY ---- */

static enum rg_verdict broken(bool uncertain, const char *why, struct rg_failure *failure)
{
    failure->uncertain = uncertain;
    (void)rg_failure_set(failure, RG_STATUS_RDMA_FAILED, "The RDMA transfer failed: %s.", why);
    return RG_VERDICT_BROKEN;
}

static bool has_immediate(struct run *run)
{
    struct rg_completion completion;
    size_t count = 0;
    int rc = rg_lane_wait(run->attempt.lane->lane, &completion, 1, -1, IMMEDIATE_MS, &count, NULL);
    return rc == 0 && count == 1 && completion.broke == RG_BROKE_NOTHING &&
           completion.has_immediate && completion.immediate == run->cookie;
}

/* Of a GET into memory that the processor sees; when the gateway tells none, nothing is known. */
static bool is_what_was_sent(const struct run *run, const struct rg_checksum *sent)
{
    const struct rg_piece *piece = run->push->piece;
    const char *bytes = rg_memory_bytes(piece->memory, piece->offset);
    struct rg_checksum found;
    if (sent->algorithm == RG_CHECKSUM_NONE || !bytes || piece->no_checksum) {
        return true;
    }
    return rg_checksum_of(sent->algorithm, rg_span(bytes, run->push->length), &found, NULL) == 0 &&
           rg_checksum_equal(&found, sent);
}

static enum rg_verdict judge_success(struct run *run, struct rg_failure *failure)
{
    const struct rg_http_answer *answer = run->push->answer;
    bool is_put = run->push->direction == RG_DIRECTION_PUT;
    uint64_t bytes = 0;
    if (!rg_pairing_is_about(answer, run->cookie)) {
        return broken(is_put, "the gateway's answer to READY is not about this session", failure);
    }
    if (!rg_http_number(answer, RG_ANSWER_RDMA_BYTES, &bytes) || bytes != run->push->length) {
        return broken(is_put, "the gateway moved another number of bytes", failure);
    }
    if (!is_put && !has_immediate(run)) {
        return broken(false, "the gateway did not tell that the bytes are there", failure);
    }
    struct rg_checksum sent;
    if (!rg_pairing_read_checksum(answer, &sent)) {
        return broken(is_put, "the checksum in the gateway's answer cannot be read", failure);
    }
    if (!is_put && !is_what_was_sent(run, &sent)) {
        return broken(false, "the bytes that arrived are not those that the gateway sent", failure);
    }
    return RG_VERDICT_DONE;
}

/* Answers that say that the transfer is dead, and nothing stored. */
static bool is_dead(const struct rg_failure *failure)
{
    static const char *const codes[] = {"RDMATransferFailed", "RdmaTransferTimeout", "RdmaPeerBusy",
                                        "NoSuchRdmaSession",  "RDMANotSupported",    "SlowDown"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(codes); i++) {
        if (strcmp(failure->s3_code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static enum rg_verdict judge_ready(struct run *run, const struct rg_request *call, int rc,
                                   struct rg_failure *failure)
{
    const struct rg_http_answer *answer = run->push->answer;
    if (rc < 0) {
        return answer->sent && rc != -RG_STATUS_CANCELLED ? RG_VERDICT_BROKEN : RG_VERDICT_FAILED;
    }
    if (answer->status == 200 || answer->status == 204) {
        return judge_success(run, failure);
    }
    (void)rg_request_judge(call, answer, failure);
    if (is_dead(failure)) {
        failure->status = RG_STATUS_RDMA_FAILED;
        failure->uncertain = false;
        return RG_VERDICT_BROKEN;
    }
    return RG_VERDICT_FAILED;
}

static void build_ready(const struct run *run, struct rg_request *call)
{
    const struct rg_rdma_window *window =
        run->attempt.target ? &run->attempt.target->window : &run->staging;
    begin_call(run, call, "ready");
    call->once = true;
    call->is_write = run->push->direction == RG_DIRECTION_PUT;
    rg_request_header(call, "x-amz-rdma-session", run->session);
    rg_request_headerf(call, "x-amz-rdma-cookie", "%08" PRIx32, run->cookie);
    rg_request_headerf(call, "x-amz-rdma-qpn", "%" PRIx32, run->own.qpn);
    rg_request_headerf(call, "x-amz-rdma-mr-addr", "%" PRIx64, window->address);
    rg_request_headerf(call, "x-amz-rdma-mr-rkey", "%" PRIx64, window->rkey);
}

static enum rg_verdict send_ready(struct run *run, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    build_ready(run, &call);
    rg_http_answer_clear(run->push->answer);
    if (run->push->direction == RG_DIRECTION_PUT) {
        atomic_store(&run->stop, false);
        run->has_thread = pthread_create(&run->thread, NULL, write_bytes, run) == 0;
        if (!run->has_thread) {
            (void)rg_failure_memory(failure);
            return RG_VERDICT_FAILED;
        }
    }
    int rc = rg_request_send(run->push->client, &call, run->push->answer, failure);
    end_thread(run);
    return judge_ready(run, &call, rc, failure);
}

/* The answers after which READY may be sent again: the gateway did not reach our queue pair, or
 * had no room. Nothing has moved, and the session lives. */
static bool may_send_again(const struct run *run, const struct rg_failure *failure)
{
    int status = run->push->answer->status;
    return (status == 409 && strcmp(failure->s3_code, "RdmaPeerBusy") == 0) ||
           (status == 503 && strcmp(failure->s3_code, "SlowDown") == 0);
}

static bool is_cancelled(const struct run *run)
{
    const atomic_bool *cancel = run->push->piece->cancel;
    return cancel && atomic_load(cancel);
}

static void pause_for(const struct run *run, unsigned ms)
{
    for (unsigned passed = 0; passed < ms && !is_cancelled(run); passed += SLICE_MS) {
        nap(RG_MIN(ms - passed, (unsigned)SLICE_MS));
    }
}

/* ---- One transfer ---- */

/* The lane paired, with all that READY needs on it. */
static int arm_lane(struct run *run, struct rg_error *err)
{
    struct rg_lane *lane = run->attempt.lane->lane;
    const struct rg_memory_lease *lease = &run->attempt.lease;
    int rc = rg_lane_pair_as(lane, &run->own, &run->peer, err);
    if (rc < 0 || run->push->direction == RG_DIRECTION_PUT) {
        return rc;
    }
    rc = rg_lane_receive(lane, 0, err);
    if (rc == 0) {
        rc = rg_window_mint(lane, lease->region, lease->region_offset, run->push->length,
                            RG_DIRECTION_GET, &run->attempt.target, err);
    }
    return rc;
}

static int connect_lane(struct run *run, struct rg_error *err)
{
    const struct rg_piece *piece = run->push->piece;
    run->attempt.lane->was_paired = true;
    int rc = rg_memory_lease(piece->memory, run->attempt.lane, piece->offset, run->push->length,
                             &run->attempt.lease, err);
    return rc < 0 ? rc : arm_lane(run, err);
}

/* The gateway's end begins anew with the next READY, so must ours: the numbers stay, the window has
 * another key. */
static bool arm_again(struct run *run)
{
    struct rg_target *target = RG_TAKE(run->attempt.target);
    if (target && rg_window_revoke(target, false, NULL) < 0) {
        run->is_hot = true;
        return false;
    }
    return rg_lane_reset(run->attempt.lane->lane, NULL) == 0 && arm_lane(run, NULL) == 0;
}

static enum rg_verdict ready(struct run *run, struct rg_failure *failure)
{
    for (unsigned again = 0;; again++) {
        enum rg_verdict verdict = send_ready(run, failure);
        if (verdict == RG_VERDICT_DONE || again == AGAIN_MAX || !may_send_again(run, failure)) {
            return verdict;
        }
        pause_for(run, AGAIN_MS << again);
        if (is_cancelled(run) || !arm_again(run)) {
            return verdict;
        }
        memset(failure, 0, sizeof *failure);
    }
}

static enum rg_verdict transfer(struct run *run, struct rg_failure *failure)
{
    struct rg_error err = RG_ERROR_INIT;
    if (rg_lane_address(run->attempt.lane->lane, &run->own, &err) < 0) {
        (void)rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
        return decline(run, "no-lane", failure);
    }
    enum rg_verdict verdict = prepare(run, failure);
    if (verdict != RG_VERDICT_DONE) {
        return verdict;
    }
    if (connect_lane(run, &err) < 0) {
        (void)rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
        return decline(run, "no-window", failure);
    }
    return ready(run, failure);
}

enum rg_verdict rg_push_run(const struct rg_push *push, struct rg_failure *failure)
{
    struct run run = {.push = push};
    struct rg_error err = RG_ERROR_INIT;
    rg_http_answer_clear(push->answer);
    if (push->length > RG_PUSH_SIZE_MAX) {
        (void)rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                             "hipobj-rc-v2 moves less than 2 GiB at a time.");
        return decline(&run, "push-too-large", failure);
    }
    run.attempt.lane = rg_rail_take_lane(push->rail, &err);
    if (!run.attempt.lane) {
        (void)rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
        return decline(&run, "no-lane", failure);
    }
    do {
        rg_random_bytes(&run.cookie, sizeof run.cookie);
    } while (run.cookie == 0);
    enum rg_verdict verdict = transfer(&run, failure);
    if (run.is_published && verdict != RG_VERDICT_DONE) {
        cancel(&run);
    }
    if (run.is_hot) {
        rg_rail_drop_lane(RG_TAKE(run.attempt.lane));
        rg_memory_unlease(&run.attempt.lease);
        return verdict;
    }
    int status = push->answer->status;
    rg_attempt_end(&run.attempt, verdict == RG_VERDICT_DONE || (status >= 400 && status < 500));
    return verdict;
}
