/*
 * The window of one attempt: lane, registration, key, and the thread that drives the lane where the
 * provider needs one. See piece.h.
 */
#include "client/piece.h"

#include "client/failure.h"
#include "client/session.h"

#include "base/assert.h"
#include "base/attr.h"
#include "rdma/token.h"

#include <ctype.h>
#include <string.h>

void rg_attempt_end(struct rg_attempt *attempt, bool settled)
{
    if (!attempt->lane) {
        return;
    }
    /* What the thread has to say is in the lane's own state. */
    (void)rg_progress_stop(RG_TAKE(attempt->progress), NULL);
    struct rg_target *target = RG_TAKE(attempt->target);
    bool is_quiet = !target || rg_window_revoke(target, settled, NULL) == 0;
    struct rg_client_lane *lane = RG_TAKE(attempt->lane);
    if (is_quiet) {
        rg_memory_unlease(&attempt->lease);
        rg_rail_give_lane(lane);
    } else {
        /* The promise holds once the lane is closed. */
        rg_rail_drop_lane(lane);
        rg_memory_unlease(&attempt->lease);
    }
}

static void print_token(const struct rg_client_lane *lane, struct rg_target *target,
                        struct rg_buf *token)
{
    struct rg_rdma_window *window = &target->window;
    switch (lane->rail->transport->kind) {
    case RG_TRANSPORT_DC:
        rg_token_print_d1(window, token);
        break;
    case RG_TRANSPORT_RC:
        snprintf(window->session, sizeof window->session, "%s", lane->session);
        rg_token_print_rc_session(window, token);
        break;
    case RG_TRANSPORT_OFI:
        rg_token_print_ofi(window, token);
        break;
    case RG_TRANSPORT_COUNT:
        RG_UNREACHABLE();
    }
}

static int mint(const struct rg_piece *piece, enum rg_direction direction,
                struct rg_attempt *attempt, struct rg_buf *token, struct rg_error *err)
{
    int rc = rg_memory_lease(piece->memory, attempt->lane, piece->offset, piece->length,
                             &attempt->lease, err);
    if (rc == 0) {
        rc =
            rg_window_mint(attempt->lane->lane, attempt->lease.region, attempt->lease.region_offset,
                           piece->length, direction, &attempt->target, err);
    }
    if (rc == 0) {
        print_token(attempt->lane, attempt->target, token);
        rc = rg_buf_ok(token) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    }
    return rc == 0 ? rg_progress_start(attempt->lane->lane, &attempt->progress, err) : rc;
}

int rg_attempt_begin(struct rg_client *client, const struct rg_piece *piece,
                     struct rg_client_rail *rail, enum rg_direction direction,
                     struct rg_attempt *ret_attempt, struct rg_buf *token,
                     char reason[RG_REASON_MAX + 1], struct rg_failure *failure)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_attempt attempt = {.lane = rg_rail_take_lane(rail, &err)};
    if (!attempt.lane) {
        snprintf(reason, RG_REASON_MAX + 1, "no-lane");
        return rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
    }
    if (rail->transport->kind == RG_TRANSPORT_RC) {
        int rc = rg_client_session_connect(client, attempt.lane, reason, failure);
        if (rc < 0) {
            /* What a half-made pairing left behind is nobody's to find. */
            rg_rail_drop_lane(attempt.lane);
            return rc;
        }
    }
    if (mint(piece, direction, &attempt, token, &err) < 0) {
        rg_attempt_end(&attempt, true);
        snprintf(reason, RG_REASON_MAX + 1, "no-window");
        return rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
    }
    *ret_attempt = attempt;
    return 0;
}

bool rg_attempt_is_stale(struct rg_attempt *attempt, const char *reason)
{
    if (!attempt || !attempt->lane || !attempt->lane->has_session ||
        (strcmp(reason, "no-session") != 0 && strcmp(reason, "invalid-token") != 0)) {
        return false;
    }
    attempt->lane->has_session = false;
    return true;
}

/* ---- What the server says about the way ---- */

void rg_piece_reason(const struct rg_http_answer *answer, char reason[RG_REASON_MAX + 1])
{
    struct span rest = rg_http_field(answer, RG_ANSWER_PATH);
    struct span way = rg_span_cut(&rest, ':');
    bool is_word = rest.ptr && rest.len > 0 && rest.len <= RG_REASON_MAX &&
                   (rg_span_is(way, "http") || rg_span_is(way, "declined"));
    for (size_t i = 0; is_word && i < rest.len; i++) {
        char c = rest.ptr[i];
        is_word = islower((unsigned char)c) || isdigit((unsigned char)c) || c == '-';
    }
    if (is_word) {
        snprintf(reason, RG_REASON_MAX + 1, "%.*s", RG_SPAN_ARG(rest));
    } else {
        snprintf(reason, RG_REASON_MAX + 1, "declined");
    }
}

int rg_piece_check_path(const struct rg_http_answer *answer, const struct rg_client_rail *rail,
                        struct rg_failure *failure)
{
    struct span says = rg_http_field(answer, RG_ANSWER_PATH);
    char seen[RG_RAIL_PATH_MAX + 16];
    snprintf(seen, sizeof seen, "%s", "http:");
    if (rail) {
        snprintf(seen, sizeof seen, "rdma:%s", rail->path);
    }
    bool agrees = rail ? rg_span_is(says, seen) : rg_span_starts(says, rg_span_text(seen));
    if (!answer->has[RG_ANSWER_PATH] || (agrees && !answer->twice[RG_ANSWER_PATH])) {
        return 0;
    }
    return rg_failure_set(failure, RG_STATUS_RDMA_FAILED,
                          "The gateway says that the bytes went by \"%.*s\", and the client saw "
                          "them go by %s.",
                          RG_SPAN_ARG(says), rail ? seen : "HTTP");
}

enum rg_path_choice rg_piece_choice(const struct rg_client *client, const struct rg_piece *piece)
{
    return piece->path == RG_PATH_AUTO ? client->config.path : piece->path;
}

int rg_piece_reply(const struct rg_http_answer *answer)
{
    if (!answer->has[RG_ANSWER_REPLY] || answer->twice[RG_ANSWER_REPLY]) {
        return 0;
    }
    return rg_rdma_reply_parse(rg_http_field(answer, RG_ANSWER_REPLY), false, NULL);
}

enum rg_verdict rg_piece_judge_refusal(const struct rg_request *call,
                                       const struct rg_http_answer *answer,
                                       char reason[RG_REASON_MAX + 1], struct rg_failure *failure)
{
    (void)rg_request_judge(call, answer, failure);
    if (strcmp(failure->s3_code, "InvalidRDMAToken") == 0) {
        snprintf(reason, RG_REASON_MAX + 1, "invalid-token");
        failure->status = RG_STATUS_RDMA_DECLINED;
        return RG_VERDICT_DECLINED;
    }
    if (strcmp(failure->s3_code, "RDMATransferFailed") == 0) {
        failure->status = RG_STATUS_RDMA_FAILED;
        return RG_VERDICT_BROKEN;
    }
    return RG_VERDICT_FAILED;
}

enum rg_verdict rg_piece_try_rails(struct rg_client *client, const struct rg_piece *piece,
                                   rg_piece_attempt *attempt, void *context,
                                   char reason[RG_REASON_MAX + 1], struct rg_failure *failure)
{
    bool is_auto = rg_piece_choice(client, piece) == RG_PATH_AUTO;
    unsigned usable = piece->memory->usable;
    char none[RG_REASON_MAX + 1];
    struct rg_client_rail *rail;
    bool was_asked = false;
    while ((rail = rg_rails_choose(client->rails, usable, is_auto, none))) {
        was_asked = true;
        usable &= ~(1u << rail->index);
        enum rg_verdict verdict = attempt(context, rail, failure);
        if (verdict == RG_VERDICT_BROKEN) {
            snprintf(reason, RG_REASON_MAX + 1, "rdma-failed");
            rg_rail_suspect(rail);
        }
        if (verdict != RG_VERDICT_DECLINED) {
            return verdict;
        }
        rg_rail_decline(rail, reason);
        if (strcmp(reason, "unreachable") == 0) {
            rg_rail_suspect(rail); /* the gateway could not reach us: is it our end? */
        }
    }
    if (!was_asked) {
        snprintf(reason, RG_REASON_MAX + 1, "%s", none);
    }
    return RG_VERDICT_DECLINED;
}

int rg_piece_fail_declined(struct rg_client *client, const char *reason, struct rg_failure *failure)
{
    if (client->rails->count == 0) {
        struct span notes = rg_span_text(client->rails->notes);
        struct span first = rg_span_cut(&notes, '\n');
        return rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                              "The transfer cannot be made by RDMA: no transport could be opened "
                              "(%.*s).",
                              RG_SPAN_ARG(first));
    }
    /* The words of the last refusal are better than its label. */
    if (failure->status == RG_STATUS_RDMA_DECLINED && failure->message[0]) {
        return rg_failure_context(failure, "The transfer cannot be made by RDMA (%s)", reason);
    }
    char fault[RG_ERROR_MESSAGE_MAX];
    if (strcmp(reason, "rail-down") == 0 && rg_rails_fault(client->rails, fault)) {
        return rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                              "The transfer cannot be made by RDMA: rail-down (%s).", fault);
    }
    return rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                          "The transfer cannot be made by RDMA: %s.", reason);
}

void rg_result_by_rdma(struct rg_piece_result *result, const struct rg_client_rail *rail)
{
    result->used_rdma = true;
    result->reason[0] = '\0';
    snprintf(result->path, sizeof result->path, "rdma:%s", rail->path);
}

void rg_result_by_http(struct rg_piece_result *result, const char *reason)
{
    result->used_rdma = false;
    snprintf(result->reason, sizeof result->reason, "%s", reason);
    snprintf(result->path, sizeof result->path, "http:%.88s", reason);
}
