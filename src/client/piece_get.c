/*
 * GET of an object or a range. See piece.h for the rules.
 */
#include "client/piece.h"

#include "client/failure.h"
#include "client/push.h"
#include "client/request.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/token.h"
#include "s3/crc64.h"

#include <inttypes.h>
#include <string.h>

struct get {
    struct rg_client *client;
    const struct rg_piece *piece;
    struct rg_request call;
    size_t header_count;
    struct rg_piece_result result;
    char reason[RG_REASON_MAX + 1];
    enum rg_path_choice choice;
    bool is_stale;              /* the answer said so */
    bool may_renew;             /* a lost session is made anew, rather than the body taken */
    struct rg_attempt *attempt; /* whose window ends before a body is taken; NULL: none */
    /* What came by HTTP. */
    uint64_t received;
    uint64_t crc;
    struct rg_failure sink_failure; /* status OK: none */
};

static void free_get(struct get *get)
{
    rg_request_free(&get->call);
}

bool rg_content_range_read(struct span text, uint64_t *ret_first, uint64_t *ret_last,
                           uint64_t *ret_size)
{
    static const struct span unit = RG_SPAN_LITERAL("bytes ");
    if (!rg_span_starts(text, unit)) {
        return false;
    }
    struct span rest = rg_span_skip(text, unit.len);
    struct span range = rg_span_cut(&rest, '/');
    struct span first = rg_span_cut(&range, '-');
    uint64_t a;
    uint64_t b;
    uint64_t size;
    if (!rest.ptr || !range.ptr || !rg_span_to_u64(first, &a) || !rg_span_to_u64(range, &b) ||
        !rg_span_to_u64(rest, &size) || a > b || b >= size) {
        return false;
    }
    *ret_first = a;
    *ret_last = b;
    *ret_size = size;
    return true;
}

static void build(struct get *get)
{
    const struct rg_piece *piece = get->piece;
    struct rg_request *call = &get->call;
    call->method = "GET";
    call->bucket = piece->bucket;
    call->key = piece->key;
    call->cancel = piece->cancel;
    call->repeat = RG_REPEAT_ALWAYS;
    if (piece->is_range) {
        rg_request_headerf(call, "range", "bytes=%" PRIu64 "-%" PRIu64, piece->object_offset,
                           piece->object_offset + piece->length - 1);
    } else if (!piece->no_checksum) {
        rg_request_header(call, "x-amz-checksum-mode", "ENABLED");
    }
    if (piece->if_match) {
        rg_request_headerf(call, "if-match", "\"%s\"", piece->if_match);
    }
    get->header_count = call->header_count;
}

/* ---- A body by HTTP ---- */

static int refuse(struct get *get, enum rg_status status, const char *why)
{
    (void)rg_failure_set(&get->sink_failure, status, "GET s3://%.100s/%.200s: %s.",
                         get->piece->bucket, get->piece->key, why);
    return -1;
}

static bool is_declined(const struct rg_http_answer *answer)
{
    return rg_piece_reply(answer) == 501;
}

/* The fields of a 206 must be about the range that was asked for. */
static bool range_fits(const struct rg_piece *piece, const struct rg_http_answer *answer,
                       uint64_t bytes, uint64_t *ret_size)
{
    uint64_t first;
    uint64_t last;
    uint64_t size;
    if (answer->twice[RG_ANSWER_CONTENT_RANGE] ||
        !rg_content_range_read(rg_http_field(answer, RG_ANSWER_CONTENT_RANGE), &first, &last,
                               &size)) {
        return false;
    }
    *ret_size = size;
    return first == piece->object_offset && last - first + 1 == bytes && bytes <= piece->length &&
           (bytes == piece->length || last + 1 == size);
}

/* A server that does not heed If-Match may answer another version: parts of two must not meet. */
static bool is_version(const struct rg_piece *piece, const struct rg_http_answer *answer)
{
    char etag[160];
    rg_http_etag(answer, etag);
    return !piece->if_match || !etag[0] || strcmp(etag, piece->if_match) == 0;
}

static int begin_body(void *context, const struct rg_http_answer *answer, bool is_empty)
{
    struct get *get = context;
    const struct rg_piece *piece = get->piece;
    get->received = 0;
    get->crc = 0;
    if (is_empty) {
        return 0; /* a reply by RDMA, or an empty object: judged later */
    }
    uint64_t length = 0;
    bool has_length = rg_http_number(answer, RG_ANSWER_CONTENT_LENGTH, &length);
    if (get->choice == RG_PATH_RDMA_ONLY) {
        return refuse(get, RG_STATUS_RDMA_DECLINED, "the gateway answers by HTTP");
    }
    if (has_length && !piece->is_range && length > piece->length) {
        char why[128];
        snprintf(why, sizeof why,
                 "the object has %" PRIu64 " bytes, and there is room for %" PRIu64, length,
                 piece->length);
        return refuse(get, RG_STATUS_USAGE, why);
    }
    if (get->may_renew && is_declined(answer)) {
        char reason[RG_REASON_MAX + 1];
        rg_piece_reason(answer, reason);
        get->is_stale = rg_attempt_is_stale(get->attempt, reason);
        if (get->is_stale) {
            return refuse(get, RG_STATUS_RDMA_DECLINED, "the session is lost");
        }
    }
    if (answer->status != (piece->is_range ? 206 : 200)) {
        return refuse(get, RG_STATUS_SERVER,
                      "the gateway answers another range than was asked for");
    }
    if (get->attempt) {
        /* The memory now belongs to HTTP. */
        rg_attempt_end(get->attempt, is_declined(answer));
    }
    return 0;
}

static int take_body(void *context, const void *bytes, size_t length)
{
    struct get *get = context;
    const struct rg_piece *piece = get->piece;
    if (length > piece->length - get->received) {
        return refuse(get, RG_STATUS_USAGE, "there are more bytes than there is room for");
    }
    if (rg_memory_write(piece->memory, piece->offset + get->received, bytes, length,
                        &get->sink_failure) < 0) {
        return -1;
    }
    if (!piece->no_checksum) {
        get->crc = rg_crc64nvme(get->crc, bytes, length);
    }
    get->received += length;
    return 0;
}

/* ---- Results ---- */

static void fill_result(struct get *get, const struct rg_http_answer *answer, uint64_t bytes,
                        uint64_t object_size)
{
    struct rg_piece_result *result = &get->result;
    rg_http_etag(answer, result->etag);
    rg_http_crc64(answer, result->crc64);
    result->modified = rg_http_modified(answer);
    result->bytes = bytes;
    result->object_size = object_size;
}

static int fail_get(struct get *get, enum rg_status status, const char *why,
                    struct rg_failure *failure)
{
    return rg_failure_set(failure, status, "GET s3://%.100s/%.200s: %s.", get->piece->bucket,
                          get->piece->key, why);
}

/* An answer whose body came by HTTP, or had none. */
static int finish_http(struct get *get, const struct rg_http_answer *answer,
                       struct rg_failure *failure)
{
    const struct rg_piece *piece = get->piece;
    uint64_t size = get->received;
    if (piece->is_range &&
        (answer->status != 206 || !range_fits(piece, answer, get->received, &size))) {
        return fail_get(get, RG_STATUS_SERVER,
                        "the gateway answers another range than was asked for", failure);
    }
    if (piece->knows_size && size != piece->object_size) {
        return fail_get(get, RG_STATUS_INTEGRITY, "the object's size is not what it was", failure);
    }
    if (!is_version(piece, answer)) {
        return fail_get(get, RG_STATUS_PRECONDITION,
                        "the gateway answers another version than was asked for", failure);
    }
    int rc = rg_piece_check_path(answer, NULL, failure);
    if (rc < 0) {
        return rc;
    }
    fill_result(get, answer, get->received, size);
    get->result.has_crc = !piece->no_checksum;
    get->result.crc = get->crc;
    rg_result_by_http(&get->result, get->reason);
    return 0;
}

static int take_sink_failure(struct get *get, int rc, struct rg_failure *failure)
{
    if (rc < 0 && get->sink_failure.status) {
        *failure = get->sink_failure;
        return -(int)failure->status;
    }
    return rc;
}

static int get_by_http(struct get *get, struct rg_failure *failure)
{
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_http_sink sink = {.begin = begin_body, .take = take_body, .context = get};
    rg_request_headers_cut(&get->call, get->header_count);
    get->call.once = false;
    get->call.sink = &sink;
    get->call.moved = get->piece->moved;
    get->call.moved_context = get->piece->moved_context;
    get->attempt = NULL;
    int rc = rg_request_run(get->client, &get->call, &answer, failure);
    rc = take_sink_failure(get, rc, failure);
    return rc < 0 ? rc : finish_http(get, &answer, failure);
}

/* ---- RDMA ---- */

static enum rg_verdict broken(struct get *get, const char *why, struct rg_failure *failure)
{
    (void)rg_failure_set(failure, RG_STATUS_RDMA_FAILED,
                         "GET s3://%.100s/%.200s: the RDMA transfer failed: %s.",
                         get->piece->bucket, get->piece->key, why);
    return RG_VERDICT_BROKEN;
}

/*
 * HTTP status and reply say the same, and what was asked for. Some servers say of a range 206 and
 * 200, or 200 and 206; where that is allowed, Content-Range says what came, and it must fit.
 */
static bool is_pair(const struct get *get, int reply, int status)
{
    if (!get->piece->is_range) {
        return reply == 200 && status == 200;
    }
    bool is_mixed = (status == 206 && reply == 200) || (status == 200 && reply == 206);
    return (status == 206 && reply == 206) || (is_mixed && get->client->config.mixed_range_replies);
}

static enum rg_verdict judge_success(struct get *get, struct rg_client_rail *rail, int reply,
                                     const struct rg_http_answer *answer,
                                     struct rg_failure *failure)
{
    const struct rg_piece *piece = get->piece;
    uint64_t bytes = 0;
    uint64_t size = 0;
    if (!is_pair(get, reply, answer->status)) {
        return broken(get, "reply and HTTP status do not belong together", failure);
    }
    if (!rg_http_number(answer, RG_ANSWER_RDMA_BYTES, &bytes) || bytes == 0 ||
        bytes > piece->length) {
        return broken(get, "the gateway's byte count is missing or does not fit", failure);
    }
    size = bytes;
    if (piece->is_range && !range_fits(piece, answer, bytes, &size)) {
        return broken(get, "the gateway moved another range than was asked for", failure);
    }
    if (piece->knows_size && size != piece->object_size) {
        return broken(get, "the object's size is not what it was", failure);
    }
    if (!is_version(piece, answer)) {
        return broken(get, "the gateway moved another version than was asked for", failure);
    }
    if (get->received) {
        return broken(get, "the gateway says RDMA and sends a body", failure);
    }
    if (rg_piece_check_path(answer, rail, failure) < 0) {
        return RG_VERDICT_FAILED;
    }
    fill_result(get, answer, bytes, size);
    rg_result_by_rdma(&get->result, rail);
    return RG_VERDICT_DONE;
}

/* Why an answer came by HTTP, as far as it says. */
static void name_http_reason(struct get *get, const struct rg_http_answer *answer)
{
    if (answer->has[RG_ANSWER_PATH] || answer->has[RG_ANSWER_REPLY]) {
        rg_piece_reason(answer, get->reason);
    } else {
        snprintf(get->reason, sizeof get->reason, "server-unaware");
    }
}

/* No word on RDMA: the body is the object. None at all is right for an empty object only. */
static enum rg_verdict judge_silence(struct get *get, const struct rg_http_answer *answer,
                                     struct rg_failure *failure)
{
    uint64_t size = 0;
    if (get->received == 0) {
        bool is_known = get->piece->knows_size;
        RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
        RG_CLEANUP(rg_http_answer_free) struct rg_http_answer head = RG_HTTP_ANSWER_INIT;
        call.method = "HEAD";
        call.bucket = get->piece->bucket;
        call.key = get->piece->key;
        call.cancel = get->piece->cancel;
        if (!is_known && rg_request_run(get->client, &call, &head, failure) < 0) {
            return RG_VERDICT_FAILED;
        }
        bool is_empty = is_known
                            ? get->piece->object_size == 0
                            : rg_http_number(&head, RG_ANSWER_CONTENT_LENGTH, &size) && size == 0;
        if (!is_empty) {
            return broken(get, "the gateway answered with neither bytes nor a reply", failure);
        }
    }
    name_http_reason(get, answer);
    if (!answer->has[RG_ANSWER_PATH] && !get->received) {
        snprintf(get->reason, sizeof get->reason, "empty");
    }
    return finish_http(get, answer, failure) < 0 ? RG_VERDICT_FAILED : RG_VERDICT_DONE;
}

static enum rg_verdict judge(struct get *get, struct rg_client_rail *rail,
                             const struct rg_http_answer *answer, struct rg_failure *failure)
{
    int reply = rg_piece_reply(answer);
    bool is_success = answer->status / 100 == 2;
    if (reply == 501) {
        rg_piece_reason(answer, get->reason);
        if (is_success && get->choice != RG_PATH_RDMA_ONLY) {
            return finish_http(get, answer, failure) < 0 ? RG_VERDICT_FAILED : RG_VERDICT_DONE;
        }
        if (!is_success) {
            (void)rg_request_judge(&get->call, answer, failure);
            failure->status = RG_STATUS_RDMA_DECLINED;
        }
        return RG_VERDICT_DECLINED;
    }
    if (is_success) {
        return answer->has[RG_ANSWER_REPLY] ? judge_success(get, rail, reply, answer, failure)
                                            : judge_silence(get, answer, failure);
    }
    return rg_piece_judge_refusal(&get->call, answer, get->reason, failure);
}

/* Nothing the peer does after these can concern the window. A whole answer is not needed where its
 * fields say it: a body that is not wanted is not read. */
static bool is_settled(enum rg_verdict verdict, int rc, const struct rg_http_answer *answer)
{
    if (rc < 0) {
        return is_declined(answer);
    }
    return (verdict == RG_VERDICT_DONE && answer->has[RG_ANSWER_REPLY]) ||
           verdict == RG_VERDICT_DECLINED || (answer->status >= 400 && answer->status < 500);
}

static enum rg_verdict judge_exchange(struct get *get, struct rg_client_rail *rail, int rc,
                                      const struct rg_http_answer *answer,
                                      struct rg_failure *failure)
{
    if (rc == 0) {
        return judge(get, rail, answer, failure);
    }
    if (get->sink_failure.status == RG_STATUS_RDMA_DECLINED) {
        name_http_reason(get, answer);
        *failure = get->sink_failure;
        return RG_VERDICT_DECLINED;
    }
    if (take_sink_failure(get, rc, failure) == -RG_STATUS_CANCELLED || get->sink_failure.status) {
        return RG_VERDICT_FAILED;
    }
    return answer->sent ? RG_VERDICT_BROKEN : RG_VERDICT_FAILED;
}

static enum rg_verdict attempt_rdma(struct get *get, struct rg_client_rail *rail,
                                    struct rg_http_answer *answer, bool *ret_stale,
                                    struct rg_failure *failure)
{
    struct rg_attempt attempt = {.lane = NULL};
    RG_BUF(token, RG_TOKEN_MAX);
    rg_http_answer_clear(answer);
    int rc = rg_attempt_begin(get->client, get->piece, rail, RG_DIRECTION_GET, &attempt, &token,
                              get->reason, failure);
    if (rc < 0) {
        return rc == -RG_STATUS_RDMA_DECLINED ? RG_VERDICT_DECLINED : RG_VERDICT_FAILED;
    }
    struct rg_http_sink sink = {.begin = begin_body, .take = take_body, .context = get};
    rg_request_headers_cut(&get->call, get->header_count);
    rg_request_header(&get->call, "x-amz-rdma-token", rg_buf_text(&token));
    get->call.once = true;
    get->call.sink = &sink;
    get->call.moved = get->piece->moved;
    get->call.moved_context = get->piece->moved_context;
    get->attempt = &attempt;
    get->received = 0;
    get->sink_failure.status = RG_STATUS_OK;
    get->is_stale = false;
    rc = rg_request_send(get->client, &get->call, answer, failure);
    enum rg_verdict verdict = judge_exchange(get, rail, rc, answer, failure);
    get->attempt = NULL;
    *ret_stale = verdict == RG_VERDICT_DECLINED &&
                 (get->is_stale || rg_attempt_is_stale(&attempt, get->reason));
    rg_attempt_end(&attempt, is_settled(verdict, rc, answer));
    return verdict;
}

/*
 * hipobj-rc-v2 must ask for exactly the bytes that are there: DONE says how many. Their version is
 * held fast, too.
 */
static enum rg_verdict look_ahead(struct get *get, uint64_t *ret_length, uint64_t *ret_size,
                                  struct rg_failure *failure)
{
    const struct rg_piece *piece = get->piece;
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer head = RG_HTTP_ANSWER_INIT;
    *ret_size = piece->object_size;
    if (!piece->knows_size) {
        call.method = "HEAD";
        call.bucket = piece->bucket;
        call.key = piece->key;
        call.cancel = piece->cancel;
        if (piece->if_match) {
            rg_request_headerf(&call, "if-match", "\"%s\"", piece->if_match);
        }
        char etag[160];
        if (rg_request_run(get->client, &call, &head, failure) < 0) {
            return RG_VERDICT_FAILED;
        }
        if (!rg_http_number(&head, RG_ANSWER_CONTENT_LENGTH, ret_size)) {
            (void)fail_get(get, RG_STATUS_SERVER, "the gateway does not say how long it is",
                           failure);
            return RG_VERDICT_FAILED;
        }
        rg_http_etag(&head, etag);
        if (!piece->if_match && etag[0]) {
            rg_request_headerf(&get->call, "if-match", "\"%s\"", etag);
        }
    }
    if (!piece->is_range && *ret_size > piece->length) {
        (void)fail_get(get, RG_STATUS_USAGE, "there are more bytes than there is room for",
                       failure);
        return RG_VERDICT_FAILED;
    }
    uint64_t first = piece->is_range ? piece->object_offset : 0;
    if (first >= *ret_size) {
        snprintf(get->reason, sizeof get->reason, "empty-object");
        return RG_VERDICT_DECLINED;
    }
    *ret_length = RG_MIN(piece->length, *ret_size - first);
    return RG_VERDICT_DONE;
}

static enum rg_verdict attempt_push(struct get *get, struct rg_client_rail *rail,
                                    struct rg_http_answer *answer, struct rg_failure *failure)
{
    uint64_t size;
    struct rg_push push = {
        .client = get->client,
        .piece = get->piece,
        .rail = rail,
        .direction = RG_DIRECTION_GET,
        .object_offset = get->piece->is_range ? get->piece->object_offset : 0,
        .fields = &get->call,
        .answer = answer,
        .reason = get->reason,
    };
    rg_request_headers_cut(&get->call, get->header_count);
    rg_http_answer_clear(answer);
    enum rg_verdict verdict = look_ahead(get, &push.length, &size, failure);
    if (verdict != RG_VERDICT_DONE) {
        return verdict;
    }
    push.field_count = get->call.header_count;
    verdict = rg_push_run(&push, failure);
    if (verdict != RG_VERDICT_DONE) {
        return verdict;
    }
    if (!is_version(get->piece, answer)) {
        return broken(get, "the gateway moved another version than was asked for", failure);
    }
    if (rg_piece_check_path(answer, rail, failure) < 0) {
        return RG_VERDICT_FAILED;
    }
    fill_result(get, answer, push.length, size);
    rg_result_by_rdma(&get->result, rail);
    return RG_VERDICT_DONE;
}

static enum rg_verdict get_by_rdma(void *context, struct rg_client_rail *rail,
                                   struct rg_failure *failure)
{
    struct get *get = context;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    bool may_repeat_broken = true;
    get->may_renew = rail->transport->kind == RG_TRANSPORT_RC;
    for (unsigned attempt = 0;; attempt++) {
        bool is_stale = false;
        enum rg_verdict verdict = rg_push_is_wanted(get->client, rail)
                                      ? attempt_push(get, rail, &answer, failure)
                                      : attempt_rdma(get, rail, &answer, &is_stale, failure);
        if (verdict == RG_VERDICT_DECLINED && is_stale && get->may_renew) {
            get->may_renew = false; /* once */
            continue;
        }
        if (verdict == RG_VERDICT_BROKEN && may_repeat_broken) {
            may_repeat_broken = false;
            continue;
        }
        if (verdict == RG_VERDICT_FAILED && !get->sink_failure.status &&
            attempt < get->client->config.retries &&
            rg_request_may_repeat(&get->call, &answer, failure) &&
            rg_request_back_off(&get->call, &answer, attempt + 1)) {
            continue;
        }
        if (verdict == RG_VERDICT_DONE && !get->result.used_rdma) {
            rg_rail_decline(rail, get->reason); /* with the object in the answer */
        }
        return verdict;
    }
}

static enum rg_verdict try_rails(struct get *get, struct rg_failure *failure)
{
    const struct rg_piece *piece = get->piece;
    if (get->choice == RG_PATH_HTTP_ONLY || piece->length == 0 || !piece->memory) {
        snprintf(get->reason, sizeof get->reason, "%s",
                 get->choice == RG_PATH_HTTP_ONLY ? "http-only" : "empty");
        return RG_VERDICT_DECLINED;
    }
    return rg_piece_try_rails(get->client, piece, get_by_rdma, get, get->reason, failure);
}

static void checksum_memory(struct get *get)
{
    const struct rg_piece *piece = get->piece;
    const char *bytes = rg_memory_bytes(piece->memory, piece->offset);
    if (get->result.has_crc || piece->no_checksum || !bytes) {
        return;
    }
    get->result.crc = rg_crc64nvme(0, bytes, get->result.bytes);
    get->result.has_crc = true;
}

int rg_piece_get(struct rg_client *client, const struct rg_piece *piece,
                 struct rg_piece_result *ret_result, struct rg_failure *failure)
{
    RG_CLEANUP(free_get)
    struct get get = {
        .client = client,
        .piece = piece,
        .call = RG_REQUEST_INIT,
        .choice = rg_piece_choice(client, piece),
    };
    build(&get);
    enum rg_verdict verdict = try_rails(&get, failure);
    bool is_rdma_only = get.choice == RG_PATH_RDMA_ONLY && piece->length > 0;
    int rc = 0;
    if (verdict == RG_VERDICT_FAILED || (verdict == RG_VERDICT_BROKEN && is_rdma_only)) {
        rc = -(int)failure->status;
    } else if (verdict == RG_VERDICT_DECLINED && is_rdma_only) {
        rc = rg_piece_fail_declined(client, get.reason, failure);
    } else if (verdict != RG_VERDICT_DONE) {
        get.sink_failure.status = RG_STATUS_OK;
        rc = get_by_http(&get, failure);
    }
    failure->uncertain = false; /* nothing is changed by reading */
    if (rc < 0) {
        return rc;
    }
    checksum_memory(&get);
    if (piece->moved) {
        piece->moved(piece->moved_context, get.result.bytes);
    }
    *ret_result = get.result;
    return 0;
}
