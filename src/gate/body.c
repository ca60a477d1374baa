/*
 * One reader over all kinds of request bodies, and the pool of buffers they are read into. It knows
 * nothing of stores: it hands out bytes, and says at the end whether they were the right ones.
 */
#include "gate/body.h"

#include "base/assert.h"
#include "base/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Work buffers ---- */

#define IDLE_MAX      16u
#define PAGE_BYTES    4096u
#define DOCUMENT_STEP 16384u

struct rg_buffers {
    pthread_mutex_t lock;
    unsigned max;
    unsigned out;
    unsigned idle_count;
    char *idle[IDLE_MAX];
};

int rg_buffers_new(unsigned max, struct rg_buffers **ret_buffers, struct rg_error *err)
{
    struct rg_buffers *buffers = calloc(1, sizeof *buffers);
    if (!buffers) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&buffers->lock, NULL));
    buffers->max = max;
    *ret_buffers = buffers;
    return 0;
}

void rg_buffers_free(struct rg_buffers *buffers)
{
    if (!buffers) {
        return;
    }
    RG_ASSERT(buffers->out == 0);
    for (unsigned i = 0; i < buffers->idle_count; i++) {
        free(buffers->idle[i]);
    }
    pthread_mutex_destroy(&buffers->lock);
    free(buffers);
}

int rg_buffer_take(struct rg_buffers *buffers, char **ret_buffer, struct rg_error *err)
{
    char *buffer = NULL;
    pthread_mutex_lock(&buffers->lock);
    bool allowed = buffers->out < buffers->max;
    if (allowed) {
        buffers->out++;
        if (buffers->idle_count) {
            buffer = buffers->idle[--buffers->idle_count];
        }
    }
    pthread_mutex_unlock(&buffers->lock);
    if (!allowed) {
        return rg_failf(err, RG_SLOW_DOWN, "all %u work buffers are in use", buffers->max);
    }
    if (!buffer) {
        buffer = aligned_alloc(PAGE_BYTES, RG_BUFFER_SIZE);
    }
    if (!buffer) {
        pthread_mutex_lock(&buffers->lock);
        buffers->out--;
        pthread_mutex_unlock(&buffers->lock);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_buffer = buffer;
    return 0;
}

void rg_buffer_give(struct rg_buffers *buffers, char *buffer)
{
    if (!buffer) {
        return;
    }
    pthread_mutex_lock(&buffers->lock);
    buffers->out--;
    if (buffers->idle_count < IDLE_MAX) {
        buffers->idle[buffers->idle_count++] = buffer;
        buffer = NULL;
    }
    pthread_mutex_unlock(&buffers->lock);
    free(buffer);
}

/* ---- What the fields promise ---- */

static int read_content_md5(struct rg_body *body, struct rg_error *err)
{
    struct span text;
    if (!rg_call_header(body->call, "content-md5", &text)) {
        return 0;
    }
    size_t len;
    if (!rg_base64_decode(text, body->md5, sizeof body->md5, &len) || len != sizeof body->md5) {
        rg_call_detail(body->call, "Content-MD5", text);
        return rg_failf(err, RG_INVALID_DIGEST, "The Content-MD5 you specified was invalid.");
    }
    body->has_md5 = true;
    return 0;
}

/* Of a field that is not the checksum of an algorithm we know: whether it is another's. */
static bool is_unknown_checksum(struct span name)
{
    struct span prefix = RG_SPAN_LITERAL("x-amz-checksum-");
    if (name.len <= prefix.len || !rg_span_is_nocase(rg_span_head(name, prefix.len), prefix.ptr)) {
        return false;
    }
    struct span rest = rg_span_skip(name, prefix.len);
    return !rg_span_is_nocase(rest, "algorithm") && !rg_span_is_nocase(rest, "type") &&
           !rg_span_is_nocase(rest, "mode");
}

int rg_body_stated_checksum(struct rg_call *call, struct rg_checksum *ret_checksum,
                            struct rg_error *err)
{
    struct rg_checksum found = RG_CHECKSUM_INIT;
    for (size_t i = 0; i < call->header_count; i++) {
        enum rg_checksum_algorithm algorithm;
        struct span name = call->headers[i].name;
        if (!rg_checksum_from_header(name, &algorithm)) {
            if (is_unknown_checksum(name)) {
                return rg_failf(err, RG_INVALID_REQUEST,
                                "%.*s is not supported: it could not be verified.",
                                RG_SPAN_ARG(name));
            }
            continue;
        }
        if (found.algorithm != RG_CHECKSUM_NONE) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "Expecting a single x-amz-checksum- header. Multiple checksum Types "
                            "are not allowed.");
        }
        int rc = rg_checksum_parse(algorithm, rg_span_trim(call->headers[i].value), &found, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_checksum = found;
    return 0;
}

static int not_full_object(enum rg_checksum_algorithm algorithm, struct rg_error *err)
{
    return rg_failf(err, RG_INVALID_REQUEST, "Value for %s header is invalid.",
                    rg_checksum_header(algorithm));
}

/* Which checksum the trailer will bring. Other trailers than one checksum are nothing we know. */
static int read_trailer_names(struct rg_body *body, struct span names, struct rg_error *err)
{
    while (names.ptr) {
        struct span name = rg_span_trim(rg_span_cut(&names, ','));
        enum rg_checksum_algorithm algorithm;
        if (name.len == 0) {
            continue;
        }
        if (!rg_checksum_from_header(name, &algorithm)) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "The value specified in the x-amz-trailer header is not supported.");
        }
        if (body->in_trailer) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "Expecting a single x-amz-checksum- header. Multiple checksum Types "
                            "are not allowed.");
        }
        body->in_trailer = true;
        body->algorithm = algorithm;
    }
    return 0;
}

/* x-amz-sdk-checksum-algorithm says which checksum is to come, so it must come. */
static int check_announced(struct rg_body *body, struct rg_error *err)
{
    struct span text;
    enum rg_checksum_algorithm algorithm;
    if (!rg_call_header(body->call, "x-amz-sdk-checksum-algorithm", &text)) {
        return 0;
    }
    if (!rg_checksum_from_name(text, &algorithm)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Value for x-amz-sdk-checksum-algorithm header is invalid.");
    }
    if (body->algorithm == RG_CHECKSUM_NONE) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "x-amz-sdk-checksum-algorithm specified, but no corresponding "
                        "x-amz-checksum-* or x-amz-trailer headers were found.");
    }
    if (body->algorithm != algorithm) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Value for x-amz-sdk-checksum-algorithm header is invalid.");
    }
    return 0;
}

static int read_checksums(struct rg_body *body, struct rg_error *err)
{
    int rc = rg_body_stated_checksum(body->call, &body->stated, err);
    if (rc < 0) {
        return rc;
    }
    struct span names;
    if (rg_call_header(body->call, "x-amz-trailer", &names)) {
        rc = read_trailer_names(body, names, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (body->stated.algorithm != RG_CHECKSUM_NONE) {
        if (body->in_trailer) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "Expecting a single x-amz-checksum- header. Multiple checksum Types "
                            "are not allowed.");
        }
        if (body->stated.type != RG_CHECKSUM_FULL_OBJECT) {
            return not_full_object(body->stated.algorithm, err);
        }
        body->algorithm = body->stated.algorithm;
    }
    return check_announced(body, err);
}

/* What the caller, or a client that names an algorithm and gives no value, wants computed. */
static int add_wanted(struct rg_body *body, struct rg_error *err)
{
    enum rg_checksum_algorithm want = body->plan.want;
    if (body->algorithm == RG_CHECKSUM_NONE) {
        body->algorithm = want;
        return 0;
    }
    if (want != RG_CHECKSUM_NONE && want != body->algorithm) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Checksum Type mismatch occurred, expected checksum Type: %s, actual "
                        "checksum Type: %s",
                        rg_checksum_name(want), rg_checksum_name(body->algorithm));
    }
    return 0;
}

/* ---- How long it is, and in which form it comes ---- */

static int too_big(struct rg_body *body, uint64_t size, struct rg_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, size);
    rg_call_detail(body->call, "ProposedSize", rg_span_text(text));
    snprintf(text, sizeof text, "%" PRIu64, body->plan.max);
    rg_call_detail(body->call, "MaxSizeAllowed", rg_span_text(text));
    return rg_fail(err, body->plan.too_big == RG_OK ? RG_ENTITY_TOO_LARGE : body->plan.too_big);
}

/* x-amz-decoded-content-length, when it is there. */
static int read_decoded_length(struct rg_body *body, bool *ret_given, uint64_t *ret_length,
                               struct rg_error *err)
{
    struct span text;
    *ret_given = rg_call_header(body->call, "x-amz-decoded-content-length", &text);
    if (*ret_given && !rg_span_to_u64(text, ret_length)) {
        return rg_call_invalid(body->call, "x-amz-decoded-content-length", text,
                               "The x-amz-decoded-content-length header is not a number.", err);
    }
    return 0;
}

static int begin_chunked(struct rg_body *body, struct rg_error *err)
{
    struct rg_call *call = body->call;
    struct rg_chunked_setup setup = {
        .kind = call->auth.payload,
        .decoded_max = body->plan.max,
        .trailer_names = RG_SPAN_EMPTY,
        .auth = &call->auth,
        .key = &call->signing_key,
    };
    int rc = read_decoded_length(body, &setup.has_decoded_length, &setup.decoded_length, err);
    if (rc < 0) {
        return rc;
    }
    /* A stream of unknown length comes in chunked transfer coding (the JavaScript SDK); one that
     * knows its encoded length knows the other too. */
    if (!setup.has_decoded_length && rg_http_content_length(call->http) >= 0) {
        return rg_fail(err, RG_MISSING_CONTENT_LENGTH);
    }
    if (setup.has_decoded_length) {
        if (setup.decoded_length > body->plan.max) {
            return too_big(body, setup.decoded_length, err);
        }
        body->length = (int64_t)setup.decoded_length;
    }
    rg_call_header(call, "x-amz-trailer", &setup.trailer_names);
    return rg_chunked_new(&setup, &body->chunked, err);
}

static int begin_plain(struct rg_body *body, struct rg_error *err)
{
    struct rg_call *call = body->call;
    if (body->in_trailer) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "x-amz-trailer needs one of the STREAMING-...-TRAILER values of "
                        "x-amz-content-sha256.");
    }
    body->has_sha256 = call->auth.payload == RG_PAYLOAD_SHA256;
    body->length = rg_http_content_length(call->http);
    if (body->length > 0 && (uint64_t)body->length > body->plan.max) {
        return too_big(body, (uint64_t)body->length, err);
    }
    return 0;
}

/* The request itself is empty; that it is, the caller has checked. */
static int begin_staged(struct rg_body *body, struct rg_error *err)
{
    if (body->in_trailer) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "A request whose body moves by RDMA cannot have trailers.");
    }
    body->length = (int64_t)body->plan.staged_length;
    return body->plan.staged_length > body->plan.max ? too_big(body, body->plan.staged_length, err)
                                                     : 0;
}

int rg_body_begin(struct rg_call *call, const struct rg_body_plan *plan, struct rg_body *ret_body,
                  struct rg_error *err)
{
    struct rg_body *body = ret_body;
    body->call = call;
    body->plan = *plan;
    body->length = -1;
    body->stated.algorithm = RG_CHECKSUM_NONE;

    if (plan->length_required && !plan->staged && !rg_http_has_body(call->http) &&
        rg_http_content_length(call->http) < 0) {
        return rg_fail(err, RG_MISSING_CONTENT_LENGTH);
    }
    int rc = read_content_md5(body, err);
    if (rc == 0 && !plan->checksums_are_others) {
        rc = read_checksums(body, err);
    }
    if (rc == 0) {
        rc = add_wanted(body, err);
    }
    if (rc < 0) {
        return rc;
    }
    rc = plan->staged                                  ? begin_staged(body, err)
         : rg_payload_is_streaming(call->auth.payload) ? begin_chunked(body, err)
                                                       : begin_plain(body, err);
    if (rc < 0) {
        return rc;
    }

    unsigned set = 0;
    if (plan->want_md5 || body->has_md5) {
        set |= RG_HASH_MD5;
    }
    if (body->has_sha256) {
        set |= RG_HASH_SHA256;
    }
    if (body->algorithm != RG_CHECKSUM_NONE) {
        set |= RG_HASH_BIT(body->algorithm);
    }
    return rg_hasher_init(&body->hasher, set, err);
}

void rg_body_free(struct rg_body *body)
{
    rg_hasher_free(&body->hasher);
    rg_chunked_free(body->chunked);
    body->chunked = NULL;
}

/* ---- Reading ---- */

/*
 * Decodes what stands at `raw` in place: object bytes are never more than what they came in, so
 * they move down to `raw` itself. *ret_len of them are left.
 */
static int decode_in_place(struct rg_body *body, char *raw, size_t len, size_t *ret_len,
                           struct rg_error *err)
{
    struct span rest = rg_span(raw, len);
    size_t kept = 0;
    while (rest.len) {
        size_t used;
        struct span data;
        int rc = rg_chunked_feed(body->chunked, rest, &used, &data, err);
        if (rc < 0) {
            return rc;
        }
        memmove(raw + kept, data.ptr, data.len);
        kept += data.len;
        rest = rg_span_skip(rest, used);
    }
    *ret_len = kept;
    return 0;
}

static int take(struct rg_body *body, struct span bytes, struct rg_error *err)
{
    body->got += bytes.len;
    if (body->got > body->plan.max) {
        return too_big(body, body->got, err);
    }
    rg_hasher_update(&body->hasher, bytes);
    return 0;
}

int rg_body_fill(struct rg_body *body, char *buffer, size_t room, size_t *ret_len,
                 struct rg_error *err)
{
    size_t filled = 0;
    while (filled < room && !body->ended) {
        size_t len;
        int rc = rg_http_body_read(body->call->http, buffer + filled, room - filled, &len, err);
        if (rc < 0) {
            return rc;
        }
        if (len == 0) {
            body->ended = true;
            break;
        }
        if (body->chunked) {
            rc = decode_in_place(body, buffer + filled, len, &len, err);
            if (rc < 0) {
                return rc;
            }
        }
        filled += len;
    }
    *ret_len = filled;
    return take(body, rg_span(buffer, filled), err);
}

bool rg_body_in_blocks(const struct rg_body *body)
{
    return !body->plan.staged && !body->chunked && rg_http_body_in_blocks(body->call->http);
}

int rg_body_block(struct rg_body *body, struct span *ret_bytes, struct rg_error *err)
{
    RG_ASSERT(rg_body_in_blocks(body));
    int rc = rg_http_body_block(body->call->http, ret_bytes, err);
    if (rc < 0) {
        return rc;
    }
    body->ended = ret_bytes->len == 0;
    return take(body, *ret_bytes, err);
}

void rg_body_see(struct rg_body *body, struct span bytes)
{
    RG_ASSERT(body->plan.staged);
    body->got += bytes.len;
    body->ended = body->got >= body->plan.staged_length;
    rg_hasher_update(&body->hasher, bytes);
}

/* ---- The end ---- */

static int take_trailer(struct rg_body *body, struct rg_error *err)
{
    size_t count;
    const struct rg_header *trailers = rg_chunked_trailers(body->chunked, &count);
    const struct rg_header *found =
        rg_header_find(trailers, count, rg_checksum_header(body->algorithm));
    if (!found) {
        return rg_fail(err, RG_MALFORMED_TRAILER);
    }
    int rc = rg_checksum_parse(body->algorithm, found->value, &body->stated, err);
    if (rc < 0) {
        return rc;
    }
    if (body->stated.type != RG_CHECKSUM_FULL_OBJECT) {
        return not_full_object(body->algorithm, err);
    }
    return 0;
}

static int compare_sha256(const struct rg_body *body, struct rg_error *err)
{
    uint8_t computed[32];
    rg_hasher_sha256(&body->hasher, computed);
    if (memcmp(computed, body->call->auth.payload_sha256, sizeof computed) == 0) {
        return 0;
    }
    char text[65];
    rg_call_detail(body->call, "ClientComputedContentSHA256", body->call->auth.payload_text);
    rg_hex_encode(computed, sizeof computed, text);
    rg_call_detail(body->call, "S3ComputedContentSHA256", rg_span_text(text));
    return rg_fail(err, RG_X_AMZ_CONTENT_SHA256_MISMATCH);
}

static int compare_md5(const struct rg_body *body, struct rg_error *err)
{
    uint8_t computed[16];
    rg_hasher_md5(&body->hasher, computed);
    if (memcmp(computed, body->md5, sizeof computed) == 0) {
        return 0;
    }
    char text[RG_BASE64_LENGTH(16) + 1];
    rg_base64_encode(body->md5, sizeof computed, text);
    rg_call_detail(body->call, "ExpectedDigest", rg_span_text(text));
    rg_base64_encode(computed, sizeof computed, text);
    rg_call_detail(body->call, "CalculatedDigest", rg_span_text(text));
    return rg_failf(err, RG_BAD_DIGEST,
                    "The Content-MD5 you specified did not match what we received.");
}

static int compare_checksum(const struct rg_body *body, struct rg_error *err)
{
    struct rg_checksum computed;
    rg_hasher_checksum(&body->hasher, body->algorithm, &computed);
    if (rg_checksum_equal(&computed, &body->stated)) {
        return 0;
    }
    return rg_failf(err, RG_BAD_DIGEST,
                    "The %s you specified did not match the calculated checksum.",
                    rg_checksum_name(body->algorithm));
}

int rg_body_end(struct rg_body *body, struct rg_error *err)
{
    RG_ASSERT(body->ended);
    int rc = 0;
    if (body->chunked) {
        rc = rg_chunked_finish(body->chunked, err);
    } else if (body->length >= 0 && body->got != (uint64_t)body->length) {
        rc = rg_fail(err, RG_INCOMPLETE_BODY);
    }
    if (rc == 0) {
        rc = rg_hasher_final(&body->hasher, err);
    }
    if (rc == 0 && body->in_trailer) {
        rc = take_trailer(body, err);
    }
    if (rc == 0 && body->has_sha256) {
        rc = compare_sha256(body, err);
    }
    if (rc == 0 && body->has_md5) {
        rc = compare_md5(body, err);
    }
    if (rc == 0 && body->stated.algorithm != RG_CHECKSUM_NONE) {
        rc = compare_checksum(body, err);
    }
    return rc;
}

void rg_body_md5(const struct rg_body *body, uint8_t md5[16])
{
    rg_hasher_md5(&body->hasher, md5);
}

struct rg_checksum rg_body_checksum(const struct rg_body *body)
{
    struct rg_checksum checksum = RG_CHECKSUM_INIT;
    if (body->algorithm != RG_CHECKSUM_NONE) {
        rg_hasher_checksum(&body->hasher, body->algorithm, &checksum);
    }
    return checksum;
}

/* ---- Documents ---- */

bool rg_body_is_protected(const struct rg_call *call)
{
    struct span value;
    bool is_signed = call->auth.payload != RG_PAYLOAD_UNSIGNED &&
                     call->auth.payload != RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER;
    if (is_signed || rg_call_header(call, "content-md5", &value) ||
        rg_call_header(call, "x-amz-trailer", &value)) {
        return true;
    }
    for (size_t i = 0; i < call->header_count; i++) {
        enum rg_checksum_algorithm algorithm;
        if (rg_checksum_from_header(call->headers[i].name, &algorithm)) {
            return true;
        }
    }
    return false;
}

static int read_all(struct rg_body *body, struct rg_buf *ret_document, struct rg_error *err)
{
    for (;;) {
        size_t len;
        char *space = rg_buf_reserve(ret_document, DOCUMENT_STEP);
        if (!space) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        int rc = rg_body_fill(body, space, DOCUMENT_STEP, &len, err);
        if (rc < 0) {
            return rc;
        }
        rg_buf_grew(ret_document, len);
        if (len == 0) {
            return rg_body_end(body, err);
        }
    }
}

int rg_body_read_document(struct rg_call *call, enum rg_document kind, struct rg_buf *ret_document,
                          struct rg_error *err)
{
    RG_CLEANUP(rg_body_free) struct rg_body body = RG_BODY_INIT;
    struct rg_body_plan plan = {
        .max = (uint64_t)call->settings->xml_body_max,
        .too_big = RG_MAX_MESSAGE_LENGTH,
        .checksums_are_others = kind == RG_DOCUMENT_OF_OBJECT,
    };
    int rc = rg_body_begin(call, &plan, &body, err);
    if (rc == 0) {
        rc = read_all(&body, ret_document, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (ret_document->len == 0 && kind != RG_DOCUMENT_OPTIONAL) {
        return rg_fail(err,
                       kind == RG_DOCUMENT_OF_OBJECT ? RG_MALFORMED_XML : RG_MISSING_REQUEST_BODY);
    }
    return 0;
}
