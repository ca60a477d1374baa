/*
 * PUT of an object or a part. See piece.h for the rules.
 */
#include "client/piece.h"

#include "client/answer.h"
#include "client/failure.h"
#include "client/push.h"
#include "client/request.h"
#include "client/result.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/token.h"
#include "s3/checksum.h"
#include "s3/crc64.h"

#include <string.h>

#define QUERY_BYTES_MAX 8192u

struct put {
    struct rg_client *client;
    const struct rg_piece *piece;
    struct rg_request call;
    struct rg_buf query;
    size_t header_count; /* of those that every attempt sends */
    struct rg_piece_result result;
    char reason[RG_REASON_MAX + 1];
    bool maybe_stored; /* by an earlier attempt */
};

static void free_put(struct put *put)
{
    rg_request_free(&put->call);
    rg_buf_free(&put->query);
}

static bool is_conditional(const struct rg_piece *piece)
{
    return piece->if_match || piece->if_none_match;
}

/* ---- The request ---- */

static void add_checksum(struct put *put)
{
    const struct rg_piece *piece = put->piece;
    const char *bytes = rg_memory_bytes(piece->memory, piece->offset);
    if (piece->no_checksum || (piece->length && !bytes)) {
        return;
    }
    put->result.crc = rg_crc64nvme(0, bytes ? bytes : "", piece->length);
    put->result.has_crc = true;
    char text[32];
    rg_crc64_text(put->result.crc, text);
    rg_request_header(&put->call, "x-amz-checksum-crc64nvme", text);
}

static void build(struct put *put)
{
    const struct rg_piece *piece = put->piece;
    struct rg_request *call = &put->call;
    call->method = "PUT";
    call->bucket = piece->bucket;
    call->key = piece->key;
    call->is_write = true;
    call->has_body = true;
    call->cancel = piece->cancel;
    call->repeat = is_conditional(piece) ? RG_REPEAT_REFUSED : RG_REPEAT_ALWAYS;
    if (piece->upload_id) {
        char number[16];
        snprintf(number, sizeof number, "%u", piece->part_number);
        rg_query_add(&put->query, "partNumber", number);
        rg_query_add(&put->query, "uploadId", piece->upload_id);
        call->query = rg_buf_text(&put->query);
    }
    if (piece->content_type) {
        rg_request_header(call, "content-type", piece->content_type);
    }
    rg_request_metadata(call, piece->metadata);
    if (piece->if_match) {
        rg_request_headerf(call, "if-match", "\"%s\"", piece->if_match);
    }
    if (piece->if_none_match) {
        rg_request_header(call, "if-none-match", "*");
    }
    add_checksum(put);
    call->failed = call->failed || !rg_buf_ok(&put->query);
    put->header_count = call->header_count;
}

static int fill_result(struct put *put, const struct rg_http_answer *answer)
{
    struct rg_piece_result *result = &put->result;
    rg_http_etag(answer, result->etag);
    rg_http_crc64(answer, result->crc64);
    result->bytes = put->piece->length;
    result->object_size = put->piece->length;
    return result->etag[0] ? 0 : -1;
}

/* ---- HTTP ---- */

struct copy_context {
    struct rg_memory *memory;
    uint64_t offset;
    struct rg_failure failure;
};

static int copy_body(void *context, uint64_t offset, void *to, size_t length)
{
    struct copy_context *copy = context;
    return rg_memory_read(copy->memory, copy->offset + offset, to, length, &copy->failure);
}

static int put_by_http(struct put *put, struct rg_failure *failure)
{
    const struct rg_piece *piece = put->piece;
    struct copy_context copy = {.memory = piece->memory, .offset = piece->offset};
    struct rg_http_source source = {
        .length = piece->length,
        .bytes = rg_memory_bytes(piece->memory, piece->offset),
        .copy = copy_body,
        .context = &copy,
    };
    rg_request_headers_cut(&put->call, put->header_count);
    put->call.once = false;
    put->call.source = piece->length ? &source : NULL;
    put->call.moved = piece->moved;
    put->call.moved_context = piece->moved_context;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    int rc = rg_request_run(put->client, &put->call, &answer, failure);
    put->call.source = NULL;
    put->call.moved = NULL;
    if (rc < 0) {
        if (copy.failure.status) {
            *failure = copy.failure;
            return -(int)failure->status;
        }
        return rc;
    }
    if (fill_result(put, &answer) < 0) {
        failure->uncertain = true;
        return rg_failure_set(failure, RG_STATUS_SERVER,
                              "The gateway answered 200 to a PUT without an ETag.");
    }
    failure->uncertain = true;
    rc = rg_piece_check_path(&answer, NULL, failure);
    if (rc < 0) {
        return rc;
    }
    failure->uncertain = false;
    rg_result_by_http(&put->result, put->reason);
    return 0;
}

/* ---- Is it there? ---- */

/* 1: an object of that size and ETag is there; 0: it is not. */
static int look_at_object(struct put *put, const char *etag, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    call.method = "HEAD";
    call.bucket = put->piece->bucket;
    call.key = put->piece->key;
    call.cancel = put->piece->cancel;
    int rc = rg_request_run(put->client, &call, &answer, failure);
    if (rc < 0) {
        return rc == -RG_STATUS_NOT_FOUND ? 0 : rc;
    }
    char found[160];
    uint64_t size = 0;
    rg_http_etag(&answer, found);
    return rg_http_number(&answer, RG_ANSWER_CONTENT_LENGTH, &size) && size == put->piece->length &&
           strcmp(found, etag) == 0;
}

static int look_at_part(struct put *put, const char *etag, struct rg_failure *failure)
{
    const struct rg_piece *piece = put->piece;
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    char marker[16];
    snprintf(marker, sizeof marker, "%u", piece->part_number - 1);
    rg_query_add(&query, "uploadId", piece->upload_id);
    rg_query_add(&query, "part-number-marker", marker);
    rg_query_add(&query, "max-parts", "1");
    call.method = "GET";
    call.bucket = piece->bucket;
    call.key = piece->key;
    call.query = rg_buf_text(&query);
    call.cancel = piece->cancel;
    call.failed = !rg_buf_ok(&query);
    int rc = rg_request_run(put->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_answer_parts_free) struct rg_answer_parts parts = {.parts = NULL};
    if (rg_answer_parts_read(rg_buf_span(&answer.body), &parts, &err) < 0) {
        return rg_failure_take(failure, RG_STATUS_SERVER, &err);
    }
    return parts.count == 1 && parts.parts[0].number == piece->part_number &&
           parts.parts[0].size == piece->length && strcmp(parts.parts[0].etag, etag) == 0;
}

/*
 * HTTP 200 and an ETag, but no word on RDMA: a server of an older dialect that moved the bytes, or
 * one that knows no tokens and stored nothing under our name. What is there tells them apart.
 */
static enum rg_verdict resolve_silence(struct put *put, struct rg_client_rail *rail,
                                       struct rg_failure *failure)
{
    failure->uncertain = true;
    const char *etag = put->result.etag;
    int rc = put->piece->upload_id ? look_at_part(put, etag, failure)
                                   : look_at_object(put, etag, failure);
    failure->uncertain = true; /* looking clears it */
    if (rc < 0) {
        (void)rg_failure_context(failure, "The gateway did not say whether it took the bytes");
        return RG_VERDICT_FAILED;
    }
    if (rc == 1) {
        failure->uncertain = false;
        rg_result_by_rdma(&put->result, rail);
        return RG_VERDICT_DONE;
    }
    if (is_conditional(put->piece)) {
        (void)rg_failure_set(failure, RG_STATUS_RDMA_FAILED,
                             "The server ignored the RDMA token and stored an object without the "
                             "bytes; the condition forbids to replace it.");
        return RG_VERDICT_FAILED;
    }
    failure->uncertain = false;
    snprintf(put->reason, sizeof put->reason, "server-unaware");
    return RG_VERDICT_DECLINED;
}

/* ---- RDMA ---- */

static enum rg_verdict broken(struct rg_failure *failure, bool maybe_stored, const char *why)
{
    failure->uncertain = failure->uncertain || maybe_stored;
    (void)rg_failure_set(failure, RG_STATUS_RDMA_FAILED, "The RDMA transfer failed: %s.", why);
    return RG_VERDICT_BROKEN;
}

/* The object is stored; what is left to ask is which way its bytes went. */
static enum rg_verdict judge_path(struct put *put, struct rg_client_rail *rail,
                                  const struct rg_http_answer *answer, struct rg_failure *failure)
{
    failure->uncertain = true;
    if (rg_piece_check_path(answer, rail, failure) < 0) {
        return RG_VERDICT_FAILED;
    }
    failure->uncertain = false;
    rg_result_by_rdma(&put->result, rail);
    return RG_VERDICT_DONE;
}

static enum rg_verdict judge_success(struct put *put, struct rg_client_rail *rail, int reply,
                                     const struct rg_http_answer *answer,
                                     struct rg_failure *failure)
{
    uint64_t bytes = 0;
    bool has_etag = fill_result(put, answer) == 0;
    if (!answer->has[RG_ANSWER_REPLY] && has_etag) {
        return resolve_silence(put, rail, failure);
    }
    if (reply != 200 && reply != 204) {
        return broken(failure, true, "the gateway's reply is not one of success");
    }
    if (!has_etag) {
        return broken(failure, true, "the gateway gave no ETag");
    }
    if (answer->has[RG_ANSWER_RDMA_BYTES] &&
        (!rg_http_number(answer, RG_ANSWER_RDMA_BYTES, &bytes) || bytes != put->piece->length)) {
        return broken(failure, true, "the gateway moved another number of bytes");
    }
    return judge_path(put, rail, answer, failure);
}

static enum rg_verdict judge(struct put *put, struct rg_client_rail *rail,
                             const struct rg_http_answer *answer, struct rg_failure *failure)
{
    int reply = rg_piece_reply(answer);
    bool is_success = answer->status / 100 == 2;
    if (reply == 501) {
        rg_piece_reason(answer, put->reason);
        if (is_success && rg_http_field(answer, RG_ANSWER_ETAG).len) {
            return broken(failure, true, "the gateway declined it and gave an ETag all the same");
        }
        (void)rg_request_judge(&put->call, answer, failure);
        failure->status = RG_STATUS_RDMA_DECLINED;
        return RG_VERDICT_DECLINED;
    }
    if (is_success) {
        return judge_success(put, rail, reply, answer, failure);
    }
    enum rg_verdict verdict = rg_piece_judge_refusal(&put->call, answer, put->reason, failure);
    if (verdict == RG_VERDICT_BROKEN) {
        /* Said by a server that has ended the transfer and stored nothing. */
        failure->uncertain = put->maybe_stored;
    }
    bool is_aware = atomic_load_explicit(&put->client->server_is_aware, memory_order_relaxed);
    if (verdict == RG_VERDICT_FAILED && failure->status == RG_STATUS_INTEGRITY && !is_aware) {
        /* It computed the checksum of an empty body. */
        snprintf(put->reason, sizeof put->reason, "server-unaware");
        return RG_VERDICT_DECLINED;
    }
    return verdict;
}

/* Nothing the peer does after these can concern the window. */
static bool is_settled(enum rg_verdict verdict, const struct rg_http_answer *answer)
{
    return verdict == RG_VERDICT_DONE || verdict == RG_VERDICT_DECLINED ||
           (answer->status >= 400 && answer->status < 500);
}

static enum rg_verdict attempt_push(struct put *put, struct rg_client_rail *rail,
                                    struct rg_http_answer *answer, struct rg_failure *failure)
{
    const struct rg_push push = {
        .client = put->client,
        .piece = put->piece,
        .rail = rail,
        .direction = RG_DIRECTION_PUT,
        .length = put->piece->length,
        .fields = &put->call,
        .field_count = put->header_count,
        .answer = answer,
        .reason = put->reason,
    };
    enum rg_verdict verdict = rg_push_run(&push, failure);
    if (verdict != RG_VERDICT_DONE) {
        return verdict;
    }
    if (fill_result(put, answer) < 0) {
        return broken(failure, true, "the gateway gave no ETag");
    }
    return judge_path(put, rail, answer, failure);
}

static enum rg_verdict attempt_rdma(struct put *put, struct rg_client_rail *rail,
                                    struct rg_http_answer *answer, bool *ret_stale,
                                    struct rg_failure *failure)
{
    struct rg_attempt attempt = {.lane = NULL};
    RG_BUF(token, RG_TOKEN_MAX);
    rg_http_answer_clear(answer);
    int rc = rg_attempt_begin(put->client, put->piece, rail, RG_DIRECTION_PUT, &attempt, &token,
                              put->reason, failure);
    if (rc < 0) {
        return rc == -RG_STATUS_RDMA_DECLINED ? RG_VERDICT_DECLINED : RG_VERDICT_FAILED;
    }
    rg_request_headers_cut(&put->call, put->header_count);
    rg_request_header(&put->call, "x-amz-rdma-token", rg_buf_text(&token));
    put->call.once = true;
    rc = rg_request_send(put->client, &put->call, answer, failure);
    enum rg_verdict verdict;
    if (rc == 0) {
        verdict = judge(put, rail, answer, failure);
    } else {
        verdict =
            answer->sent && rc != -RG_STATUS_CANCELLED ? RG_VERDICT_BROKEN : RG_VERDICT_FAILED;
    }
    *ret_stale = verdict == RG_VERDICT_DECLINED && rg_attempt_is_stale(&attempt, put->reason);
    rg_attempt_end(&attempt, rc == 0 && is_settled(verdict, answer));
    return verdict;
}

/*
 * Attempts on one rail: ordinary failures are repeated as for any request, a broken transfer once.
 * DECLINED: another way may be tried. BROKEN: HTTP may take over. FAILED: neither.
 */
static enum rg_verdict put_by_rdma(void *context, struct rg_client_rail *rail,
                                   struct rg_failure *failure)
{
    struct put *put = context;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    bool may_repeat_broken = true;
    bool may_be_stale = rail->transport->kind == RG_TRANSPORT_RC;
    for (unsigned attempt = 0;; attempt++) {
        bool is_stale = false;
        enum rg_verdict verdict = rg_push_is_wanted(put->client, rail)
                                      ? attempt_push(put, rail, &answer, failure)
                                      : attempt_rdma(put, rail, &answer, &is_stale, failure);
        put->maybe_stored = put->maybe_stored || failure->uncertain;
        if (verdict == RG_VERDICT_DONE) {
            failure->uncertain = false;
            return verdict;
        }
        bool may_go_on = !(is_conditional(put->piece) && put->maybe_stored);
        if (verdict == RG_VERDICT_DECLINED && is_stale && may_be_stale) {
            may_be_stale = false; /* the session may have been lost: once with a new one */
            continue;
        }
        if (verdict == RG_VERDICT_BROKEN && may_repeat_broken && may_go_on) {
            may_repeat_broken = false;
            continue;
        }
        if (verdict == RG_VERDICT_FAILED && may_go_on && attempt < put->client->config.retries &&
            rg_request_may_repeat(&put->call, &answer, failure) &&
            rg_request_back_off(&put->call, &answer, attempt + 1)) {
            continue;
        }
        if (verdict == RG_VERDICT_DECLINED && put->maybe_stored) {
            (void)rg_failure_set(failure, RG_STATUS_RDMA_FAILED,
                                 "The RDMA transfer broke, and the gateway declined to repeat it "
                                 "(%s).",
                                 put->reason);
        }
        return put->maybe_stored ? RG_VERDICT_FAILED : verdict;
    }
}

/* A server that has not shown that it knows tokens would store an empty object; a checksum stops
 * it, and where there is none, one cheap question asks who it is. */
static bool is_safe_to_ask(struct put *put)
{
    struct rg_client *client = put->client;
    if (put->result.has_crc ||
        atomic_load_explicit(&client->server_is_aware, memory_order_relaxed)) {
        return true;
    }
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_failure ignored;
    memset(&ignored, 0, sizeof ignored);
    call.method = "HEAD";
    call.bucket = put->piece->bucket;
    call.cancel = put->piece->cancel;
    (void)rg_request_send(client, &call, &answer, &ignored);
    return atomic_load_explicit(&client->server_is_aware, memory_order_relaxed);
}

/* DONE, DECLINED (put->reason says why, HTTP may do it), FAILED. */
static enum rg_verdict try_rails(struct put *put, enum rg_path_choice choice,
                                 struct rg_failure *failure)
{
    const struct rg_piece *piece = put->piece;
    bool is_auto = choice == RG_PATH_AUTO;
    if (choice == RG_PATH_HTTP_ONLY || piece->length == 0) {
        snprintf(put->reason, sizeof put->reason, "%s",
                 choice == RG_PATH_HTTP_ONLY ? "http-only" : "empty");
        return RG_VERDICT_DECLINED;
    }
    if (put->client->rails->count && is_auto && !is_safe_to_ask(put)) {
        snprintf(put->reason, sizeof put->reason, "server-unproven");
        return RG_VERDICT_DECLINED;
    }
    return rg_piece_try_rails(put->client, piece, put_by_rdma, put, put->reason, failure);
}

int rg_piece_put(struct rg_client *client, const struct rg_piece *piece,
                 struct rg_piece_result *ret_result, struct rg_failure *failure)
{
    RG_CLEANUP(free_put)
    struct put put = {
        .client = client,
        .piece = piece,
        .call = RG_REQUEST_INIT,
        .query = RG_BUF_INIT(QUERY_BYTES_MAX),
    };
    build(&put);
    enum rg_path_choice choice = rg_piece_choice(client, piece);
    enum rg_verdict verdict = try_rails(&put, choice, failure);
    int rc = 0;
    if (verdict == RG_VERDICT_FAILED) {
        rc = -(int)failure->status;
    } else if (verdict != RG_VERDICT_DONE && choice == RG_PATH_RDMA_ONLY && piece->length > 0) {
        rc = verdict == RG_VERDICT_BROKEN ? -(int)failure->status
                                          : rg_piece_fail_declined(client, put.reason, failure);
    } else if (verdict != RG_VERDICT_DONE) {
        rc = put_by_http(&put, failure);
    }
    if (rc < 0) {
        return rc;
    }
    if (piece->moved) {
        piece->moved(piece->moved_context, piece->length);
    }
    *ret_result = put.result;
    return 0;
}
