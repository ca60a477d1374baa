/*
 * S3 requests over http.c. See request.h.
 */
#include "client/request.h"

#include "client/answer.h"
#include "client/failure.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/random.h"
#include "s3/checksum.h"
#include "s3/date.h"
#include "s3/names.h"
#include "s3/sigv4.h"
#include "s3/url.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define URL_BYTES_MAX      16384u
#define AUTHORIZATION_MAX  8192u
#define BACK_OFF_FIRST_MS  100u
#define BACK_OFF_MS_MAX    5000u
#define RETRY_AFTER_MS_MAX 20000u
#define SLEEP_SLICE_MS     20u

/* ---- Building ---- */

void rg_request_free(struct rg_request *call)
{
    rg_buf_free(&call->text);
    for (size_t i = 0; i < call->name_count; i++) {
        free(call->names[i]);
    }
    call->name_count = 0;
}

static bool is_field_value(struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/*
 * The text buffer may move when it grows, so a header keeps the offset of its value in `ptr` until
 * the call is sent.
 */
static void add_header(struct rg_request *call, const char *name, struct span value)
{
    if (call->header_count == RG_REQUEST_HEADERS_MAX || !is_field_value(value)) {
        call->failed = true;
        return;
    }
    size_t offset = call->text.len;
    rg_buf_add_span(&call->text, value);
    call->headers[call->header_count++] = (struct rg_header){
        .name = rg_span_text(name),
        .value = {(const char *)(uintptr_t)offset, value.len}, // NOLINT(performance-no-int-to-ptr)
    };
}

void rg_request_header(struct rg_request *call, const char *name, const char *value)
{
    add_header(call, name, rg_span_text(value));
}

void rg_request_headerf(struct rg_request *call, const char *name, const char *format, ...)
{
    RG_BUF(value, RG_REQUEST_TEXT_MAX);
    va_list args;
    va_start(args, format);
    rg_buf_addv(&value, format, args);
    va_end(args);
    call->failed = call->failed || !rg_buf_ok(&value);
    add_header(call, name, rg_buf_span(&value));
}

void rg_request_metadata(struct rg_request *call, const char *const *metadata)
{
    static const char prefix[] = "x-amz-meta-";
    for (; metadata && metadata[0] && metadata[1]; metadata += 2) {
        size_t len = strlen(metadata[0]);
        char *name = malloc(sizeof prefix + len);
        bool is_fine = name && call->name_count < RG_REQUEST_HEADERS_MAX &&
                       rg_metadata_name_check(rg_span(metadata[0], len), NULL) == 0;
        if (!is_fine) {
            free(name);
            call->failed = true;
            return;
        }
        memcpy(name, prefix, sizeof prefix - 1);
        for (size_t i = 0; i <= len; i++) {
            name[sizeof prefix - 1 + i] = (char)tolower((unsigned char)metadata[0][i]);
        }
        call->names[call->name_count++] = name;
        rg_request_header(call, name, metadata[1]);
    }
}

void rg_request_headers_copy(struct rg_request *to, const struct rg_request *from, size_t count,
                             const char *but)
{
    to->failed = to->failed || from->failed || !rg_buf_ok(&from->text);
    for (size_t i = 0; i < count && !to->failed; i++) {
        struct rg_header field = from->headers[i];
        if (!rg_span_is_nocase(field.name, but)) {
            size_t offset = (size_t)(uintptr_t)field.value.ptr;
            struct span value = rg_span_skip(rg_buf_span(&from->text), offset);
            add_header(to, field.name.ptr, rg_span_head(value, field.value.len));
        }
    }
}

void rg_request_headers_cut(struct rg_request *call, size_t count)
{
    if (count < call->header_count) {
        call->text.len = (size_t)(uintptr_t)call->headers[count].value.ptr;
        call->header_count = count;
    }
}

void rg_query_add(struct rg_buf *query, const char *name, const char *value)
{
    if (query->len) {
        rg_buf_add_char(query, '&');
    }
    rg_url_encode(rg_span_text(name), RG_URL_SLASH_ENCODED, query);
    if (value) {
        rg_buf_add_char(query, '=');
        rg_url_encode(rg_span_text(value), RG_URL_SLASH_ENCODED, query);
    }
}

void rg_request_name(const struct rg_request *call, char *text, size_t room)
{
    snprintf(text, room, "%s%s%.100s%s%.200s", call->what ? call->what : call->method,
             call->bucket ? " s3://" : "", call->bucket ? call->bucket : "", call->key ? "/" : "",
             call->key ? call->key : "");
}

/* ---- Sending ---- */

struct signed_request {
    struct rg_header headers[RG_REQUEST_HEADERS_MAX + 4];
    size_t count;
    struct rg_buf host;
    struct rg_buf path;
    struct rg_buf url;
    struct rg_buf authorization;
    char date[RG_DATE_AMZ_SIZE];
    char payload[65];
};

static void free_signed(struct signed_request *request)
{
    rg_buf_free(&request->host);
    rg_buf_free(&request->path);
    rg_buf_free(&request->url);
    rg_buf_free(&request->authorization);
}

/* Path style puts the bucket into the path, virtual-host style in front of the host. */
static void build_url(const struct rg_config *config, const struct rg_request *call,
                      struct signed_request *request)
{
    bool in_host = config->virtual_host && call->bucket;
    if (in_host) {
        rg_buf_addf(&request->host, "%s.", call->bucket);
    }
    rg_buf_add_text(&request->host, config->host);
    rg_buf_add_char(&request->path, '/');
    if (call->bucket && !in_host) {
        rg_url_encode(rg_span_text(call->bucket), RG_URL_SLASH_ENCODED, &request->path);
        if (call->key) {
            rg_buf_add_char(&request->path, '/');
        }
    }
    if (call->key) {
        rg_url_encode(rg_span_text(call->key), RG_URL_SLASH_KEPT, &request->path);
    }
    rg_buf_addf(&request->url, "%s://", config->https ? "https" : "http");
    rg_buf_add_span(&request->url, rg_buf_span(&request->host));
    rg_buf_add_span(&request->url, rg_buf_span(&request->path));
    if (call->query && call->query[0]) {
        rg_buf_addf(&request->url, "?%s", call->query);
    }
}

static int hash_payload(const struct rg_request *call, struct signed_request *request,
                        struct rg_error *err)
{
    if (!call->payload.ptr) {
        snprintf(request->payload, sizeof request->payload, "UNSIGNED-PAYLOAD");
        return 0;
    }
    struct rg_checksum sha256;
    int rc = rg_checksum_of(RG_CHECKSUM_SHA256, call->payload, &sha256, err);
    if (rc == 0) {
        rg_hex_encode(sha256.bytes, 32, request->payload);
    }
    return rc;
}

static void add_signed(struct signed_request *request, const char *name, struct span value)
{
    request->headers[request->count++] = (struct rg_header){rg_span_text(name), value};
}

static int sign(const struct rg_config *config, const struct rg_request *call,
                struct signed_request *request, struct rg_error *err)
{
    int rc = hash_payload(call, request, err);
    if (rc < 0) {
        return rc;
    }
    rg_date_format_amz(rg_clock_wall().tv_sec, request->date);
    add_signed(request, "host", rg_buf_span(&request->host));
    add_signed(request, "x-amz-content-sha256", rg_span_text(request->payload));
    add_signed(request, "x-amz-date", rg_span_text(request->date));
    for (size_t i = 0; i < call->header_count; i++) {
        struct span value = call->headers[i].value;
        value.ptr = rg_buf_text(&call->text) + (uintptr_t)value.ptr;
        request->headers[request->count++] = (struct rg_header){call->headers[i].name, value};
    }
    struct rg_sigv4_signer signer = {
        .access_key = rg_span_text(config->access_key),
        .secret = rg_span_text(config->secret_key),
        .region = rg_span_text(config->region),
        .service = RG_SPAN_LITERAL("s3"),
    };
    struct rg_sigv4_request to_sign = {
        .method = rg_span_text(call->method),
        .path = rg_buf_span(&request->path),
        .query = rg_span_text(call->query),
        .headers = request->headers,
        .header_count = request->count,
        .host = {NULL, 0},
    };
    rc = rg_sigv4_sign(&signer, &to_sign, &request->authorization, NULL, err);
    if (rc == 0) {
        add_signed(request, "authorization", rg_buf_span(&request->authorization));
    }
    return rc;
}

static int prepare(struct rg_client *client, const struct rg_request *call,
                   struct signed_request *request, struct rg_failure *failure)
{
    if (call->failed) {
        return rg_failure_set(failure, RG_STATUS_USAGE,
                              "A header is not valid: a name that is none, control characters in a "
                              "value, or too many.");
    }
    build_url(&client->config, call, request);
    if (!rg_buf_ok(&request->url) || !rg_buf_ok(&request->path) || !rg_buf_ok(&request->host) ||
        !rg_buf_ok(&call->text)) {
        bool is_long = request->path.len + request->url.len > URL_BYTES_MAX / 2;
        return is_long ? rg_failure_set(failure, RG_STATUS_USAGE, "The request is too long.")
                       : rg_failure_memory(failure);
    }
    struct rg_error err = RG_ERROR_INIT;
    return sign(&client->config, call, request, &err) < 0
               ? rg_failure_take(failure, RG_STATUS_USAGE, &err)
               : 0;
}

static void learn_of_server(struct rg_client *client, const struct rg_http_answer *answer)
{
    bool is_aware = answer->has[RG_ANSWER_PATH] || answer->has[RG_ANSWER_REPLY] ||
                    rg_span_is_nocase(rg_http_field(answer, RG_ANSWER_SERVER), "railgate");
    if (is_aware) {
        atomic_store_explicit(&client->server_is_aware, true, memory_order_relaxed);
    }
}

int rg_request_send(struct rg_client *client, const struct rg_request *call,
                    struct rg_http_answer *answer, struct rg_failure *failure)
{
    RG_CLEANUP(free_signed)
    struct signed_request request = {
        .host = RG_BUF_INIT(1024),
        .path = RG_BUF_INIT(URL_BYTES_MAX),
        .url = RG_BUF_INIT(URL_BYTES_MAX),
        .authorization = RG_BUF_INIT(AUTHORIZATION_MAX),
    };
    rg_http_answer_clear(answer);
    int rc = prepare(client, call, &request, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_http_request http = {
        .method = call->method,
        .url = rg_buf_text(&request.url),
        .headers = request.headers,
        .header_count = request.count,
        .has_body = call->has_body,
        .source = call->source,
        .sink = call->sink,
        .once = call->once || call->repeat != RG_REPEAT_ALWAYS,
        .cancel = call->cancel,
        .moved = call->moved,
        .moved_context = call->moved_context,
    };
    rc = rg_http_exchange(client->http, &http, answer, failure);
    learn_of_server(client, answer);
    if (rc == -RG_STATUS_CONNECT && answer->status >= 400) {
        return 0; /* refused while the body was on its way: the answer counts, not the hang-up */
    }
    if (rc < 0) {
        if (call->is_write && answer->sent) {
            failure->uncertain = true;
        }
        char name[512];
        rg_request_name(call, name, sizeof name);
        return rg_failure_context(failure, "%s", name);
    }
    return 0;
}

/* ---- Judging ---- */

static const struct {
    const char *code;
    enum rg_status status;
} code_statuses[] = {
    {"InvalidAccessKeyId", RG_STATUS_CREDENTIALS},
    {"SignatureDoesNotMatch", RG_STATUS_CREDENTIALS},
    {"ExpiredToken", RG_STATUS_CREDENTIALS},
    {"InvalidToken", RG_STATUS_CREDENTIALS},
    {"RequestTimeTooSkewed", RG_STATUS_CREDENTIALS},
    {"AuthorizationHeaderMalformed", RG_STATUS_CREDENTIALS},
    {"BadDigest", RG_STATUS_INTEGRITY},
    {"XAmzContentSHA256Mismatch", RG_STATUS_INTEGRITY},
    {"IncompleteBody", RG_STATUS_INTEGRITY},
};

static enum rg_status status_of(int http_status, const char *code)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(code_statuses); i++) {
        if (strcmp(code, code_statuses[i].code) == 0) {
            return code_statuses[i].status;
        }
    }
    switch (http_status) {
    case 404:
        return RG_STATUS_NOT_FOUND;
    case 304:
    case 412:
        return RG_STATUS_PRECONDITION;
    default:
        return http_status >= 500 ? RG_STATUS_SERVER : RG_STATUS_REFUSED;
    }
}

/* Answers without a body (HEAD) still have a name that people know. */
static const char *usual_code(const struct rg_request *call, int http_status)
{
    switch (http_status) {
    case 404:
        return call->key ? "NoSuchKey" : call->bucket ? "NoSuchBucket" : "";
    case 304:
        return "NotModified";
    case 412:
        return "PreconditionFailed";
    case 403:
        return "AccessDenied";
    default:
        return "";
    }
}

int rg_request_judge(const struct rg_request *call, const struct rg_http_answer *answer,
                     struct rg_failure *failure)
{
    if (answer->status / 100 == 2) {
        return 0;
    }
    struct rg_answer_error error;
    if (!rg_answer_error_read(rg_buf_span(&answer->body), &error)) {
        const char *code = usual_code(call, answer->status);
        snprintf(error.code, sizeof error.code, "%s", code);
    }
    char name[512];
    rg_request_name(call, name, sizeof name);
    enum rg_status status = status_of(answer->status, error.code);
    (void)rg_failure_set(failure, status, "%s: the gateway answered %d%s%s%s%s%s", name,
                         answer->status, error.code[0] ? " " : "", error.code,
                         error.message[0] ? ": " : "", error.message, error.message[0] ? "" : ".");
    if (answer->status / 100 == 3 && answer->status != 304) {
        char said[sizeof failure->message];
        snprintf(said, sizeof said, "%s", failure->message);
        (void)rg_failure_set(failure, status,
                             "%s It points to \"%.150s\", and no redirection is followed: the "
                             "endpoint must be the server itself.",
                             said, answer->value[RG_ANSWER_LOCATION]);
    }
    failure->http_status = answer->status;
    rg_failure_copy(failure->s3_code, sizeof failure->s3_code, rg_span_text(error.code));
    struct span id = rg_http_field(answer, RG_ANSWER_REQUEST_ID);
    rg_failure_copy(failure->request_id, sizeof failure->request_id,
                    id.len ? id : rg_span_text(error.request_id));
    /* 501 and 503 refuse before anything is done; any other 5xx may have come after. */
    if (call->is_write && answer->status >= 500 && answer->status != 501 && answer->status != 503) {
        failure->uncertain = true;
    }
    return -(int)status;
}

bool rg_request_may_repeat(const struct rg_request *call, const struct rg_http_answer *answer,
                           const struct rg_failure *failure)
{
    bool is_refused = !answer->sent || answer->status == 503 || answer->status == 429;
    switch (failure->status) {
    case RG_STATUS_CONNECT:
    case RG_STATUS_TIMEOUT:
        return call->repeat == RG_REPEAT_ALWAYS || is_refused;
    case RG_STATUS_SERVER:
        if (answer->status == 501 || answer->status == 505 || answer->status == 507) {
            return false;
        }
        return call->repeat == RG_REPEAT_ALWAYS || is_refused;
    case RG_STATUS_REFUSED:
        return answer->status == 429 || strcmp(failure->s3_code, "OperationAborted") == 0 ||
               strcmp(failure->s3_code, "ConditionalRequestConflict") == 0 ||
               (strcmp(failure->s3_code, "RequestTimeout") == 0 &&
                call->repeat == RG_REPEAT_ALWAYS);
    case RG_STATUS_INTEGRITY:
        /* A body that was cut on its way. */
        return strcmp(failure->s3_code, "IncompleteBody") == 0 && call->repeat == RG_REPEAT_ALWAYS;
    default:
        return false;
    }
}

static uint64_t back_off_ms(const struct rg_http_answer *answer, unsigned attempt)
{
    uint64_t seconds;
    if (answer->status && rg_http_number(answer, RG_ANSWER_RETRY_AFTER, &seconds)) {
        return RG_MIN(seconds, (uint64_t)RETRY_AFTER_MS_MAX / 1000) * 1000;
    }
    uint64_t most = BACK_OFF_FIRST_MS;
    for (unsigned i = 1; i < attempt && most < BACK_OFF_MS_MAX; i++) {
        most *= 2;
    }
    most = RG_MIN(most, (uint64_t)BACK_OFF_MS_MAX);
    /* Many clients that failed together must not come back together. */
    return most / 2 + rg_random_u64() % (most / 2 + 1);
}

static bool is_cancelled(const struct rg_request *call)
{
    return call->cancel && atomic_load_explicit(call->cancel, memory_order_relaxed);
}

bool rg_request_back_off(const struct rg_request *call, const struct rg_http_answer *answer,
                         unsigned attempt)
{
    uint64_t until = rg_clock_ms() + back_off_ms(answer, attempt);
    while (!is_cancelled(call)) {
        uint64_t now = rg_clock_ms();
        if (now >= until) {
            return true;
        }
        uint64_t slice = RG_MIN(until - now, (uint64_t)SLEEP_SLICE_MS);
        struct timespec nap = {.tv_nsec = (long)(slice * 1000000)};
        (void)nanosleep(&nap, NULL);
    }
    return false;
}

int rg_request_run(struct rg_client *client, const struct rg_request *call,
                   struct rg_http_answer *answer, struct rg_failure *failure)
{
    for (unsigned attempt = 0;; attempt++) {
        int rc = rg_request_send(client, call, answer, failure);
        if (rc == 0) {
            rc = rg_request_judge(call, answer, failure);
        }
        if (rc == 0) {
            failure->uncertain = false;
            return 0;
        }
        if (attempt == client->config.retries || !rg_request_may_repeat(call, answer, failure) ||
            !rg_request_back_off(call, answer, attempt + 1)) {
            return rc;
        }
    }
}

/* ---- Fields of answers ---- */

bool rg_http_number(const struct rg_http_answer *answer, enum rg_answer_field field,
                    uint64_t *ret_number)
{
    return answer->has[field] && !answer->twice[field] &&
           rg_span_to_u64(rg_http_field(answer, field), ret_number);
}

void rg_http_etag(const struct rg_http_answer *answer, char etag[160])
{
    struct span text = rg_http_field(answer, RG_ANSWER_ETAG);
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"') {
        text = rg_span(text.ptr + 1, text.len - 2);
    }
    rg_failure_copy(etag, 160, text);
}

time_t rg_http_modified(const struct rg_http_answer *answer)
{
    int64_t seconds = 0;
    struct span text = rg_http_field(answer, RG_ANSWER_LAST_MODIFIED);
    (void)rg_date_parse_http(text, rg_clock_wall().tv_sec, &seconds);
    return seconds;
}

void rg_http_crc64(const struct rg_http_answer *answer, char text[32])
{
    struct span type = rg_http_field(answer, RG_ANSWER_CHECKSUM_TYPE);
    struct rg_checksum checksum;
    text[0] = '\0';
    if (answer->twice[RG_ANSWER_CRC64] || (type.len && !rg_span_is(type, "FULL_OBJECT"))) {
        return;
    }
    struct span value = rg_http_field(answer, RG_ANSWER_CRC64);
    if (value.len && rg_checksum_parse(RG_CHECKSUM_CRC64NVME, value, &checksum, NULL) == 0 &&
        checksum.type == RG_CHECKSUM_FULL_OBJECT) {
        rg_failure_copy(text, 32, value);
    }
}
