/*
 * Requests signed by botocore (make_sigv4_vectors.py): each must verify as sent, verify when its
 * URL is spelt otherwise, fail when a byte of it changes, and get the same signature from our
 * signer.
 */
#include "base/attr.h"
#include "base/encode.h"
#include "s3/sigv4.h"

#include "test.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#define SECRET "vectors/are+made+with+This=Secret0123456"
#define NOW    1795970401LL /* 2026-11-29T16:40:01Z */

#define HEADERS_MAX 24

struct vector {
    bool presigned;
    struct span method, path, query, other_path, other_query, authorization, canonical_sha256,
        signature;
    struct rg_header headers[HEADERS_MAX];
    size_t header_count;
};

static struct span file;

static int load_file(void **state)
{
    rg_autofclose FILE *stream = fopen(RG_TEST_DATA "/sigv4_vectors.txt", "rb");
    if (!stream) {
        return -1;
    }
    static char bytes[2 << 20];
    size_t len = fread(bytes, 1, sizeof bytes, stream);
    file = rg_span(bytes, len);
    return len > 0 && len < sizeof bytes ? 0 : -1;
}

static void take_field(struct vector *vector, struct span word, struct span rest)
{
    const struct {
        const char *word;
        struct span *field;
    } fields[] = {
        {"method", &vector->method},
        {"path", &vector->path},
        {"query", &vector->query},
        {"other-path", &vector->other_path},
        {"other-query", &vector->other_query},
        {"authorization", &vector->authorization},
        {"canonical-sha256", &vector->canonical_sha256},
        {"signature", &vector->signature},
    };
    if (rg_span_is(word, "form")) {
        vector->presigned = rg_span_is(rest, "presigned");
        return;
    }
    if (rg_span_is(word, "header")) {
        assert_true(vector->header_count < HEADERS_MAX - 1);
        struct span name = rg_span_cut(&rest, ':');
        vector->headers[vector->header_count++] = (struct rg_header){name, rest};
        return;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fields); i++) {
        if (rg_span_is(word, fields[i].word)) {
            *fields[i].field = rest;
            return;
        }
    }
    fail_msg("unknown word %.*s", RG_SPAN_ARG(word));
}

/* The next record; false at the end of the file. */
static bool next_vector(struct span *rest, struct vector *vector)
{
    *vector = (struct vector){.presigned = false};
    while (rest->ptr && rest->len) {
        struct span line = rg_span_cut(rest, '\n');
        if (line.len == 0) {
            return true;
        }
        struct span word = rg_span_cut(&line, ' ');
        take_field(vector, word, line);
    }
    return false;
}

static struct rg_sigv4_request request_of(const struct vector *vector, struct rg_header *headers,
                                          bool with_authorization)
{
    size_t count = vector->header_count;
    memcpy(headers, vector->headers, count * sizeof *headers);
    if (!vector->presigned && with_authorization) {
        headers[count++] =
            (struct rg_header){RG_SPAN_LITERAL("authorization"), vector->authorization};
    }
    return (struct rg_sigv4_request){
        .method = vector->method,
        .path = vector->path,
        .query = vector->query,
        .headers = headers,
        .header_count = count,
        .host = {NULL, 0},
    };
}

static const struct rg_sigv4_rules rules = {
    .region = RG_SPAN_LITERAL("eu-test-7"), .now_s = NOW, .clock_skew_ms = 1000};

static int check(const struct rg_sigv4_request *request, struct rg_error *err)
{
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    struct rg_sigv4_key key;
    int result = rg_sigv4_parse(request, &rules, &auth, err);
    if (result == 0) {
        assert_int_equal(rg_sigv4_key_derive(rg_span_text(SECRET), auth.scope, &key, err), 0);
        result = rg_sigv4_verify(&auth, request, &key, err);
    }
    return result;
}

static void assert_verifies(const struct rg_sigv4_request *request)
{
    struct rg_error err = RG_ERROR_INIT;
    if (check(request, &err) != 0) {
        fail_msg("%.*s?%.*s: %s", RG_SPAN_ARG(request->path), RG_SPAN_ARG(request->query),
                 err.message);
    }
}

static void test_verify(void **state)
{
    struct span rest = file;
    struct vector vector;
    size_t count = 0;
    while (next_vector(&rest, &vector)) {
        struct rg_header headers[HEADERS_MAX];
        struct rg_sigv4_request request = request_of(&vector, headers, true);
        assert_verifies(&request);
        request.path = vector.other_path;
        request.query = vector.other_query;
        assert_verifies(&request);
        count++;
    }
    assert_int_equal(count, 350);
}

static void test_canonical_request(void **state)
{
    struct span rest = file;
    struct vector vector;
    while (next_vector(&rest, &vector)) {
        struct rg_header headers[HEADERS_MAX];
        struct rg_sigv4_request request = request_of(&vector, headers, true);
        RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
        struct rg_error err = RG_ERROR_INIT;
        RG_BUF(canonical, 1 << 20);
        unsigned char digest[32];
        char hex[65];
        assert_int_equal(rg_sigv4_parse(&request, &rules, &auth, &err), 0);
        assert_int_equal(rg_sigv4_canonical_request(&auth, &request, &canonical, &err), 0);
        SHA256((const unsigned char *)canonical.data, canonical.len, digest);
        rg_hex_encode(digest, sizeof digest, hex);
        assert_true(rg_span_is(vector.canonical_sha256, hex));
    }
}

/* Every byte of the path, and of each signed value, counts. */
static void test_changed_bytes(void **state)
{
    struct span rest = file;
    struct vector vector;
    while (next_vector(&rest, &vector)) {
        struct rg_header headers[HEADERS_MAX];
        struct rg_sigv4_request request = request_of(&vector, headers, true);
        struct rg_error err = RG_ERROR_INIT;
        RG_BUF(longer, 1 << 16);
        rg_buf_add_span(&longer, vector.path);
        rg_buf_add_char(&longer, 'x');
        request.path = rg_buf_span(&longer);
        assert_int_equal(check(&request, &err), -RG_SIGNATURE_DOES_NOT_MATCH);
        request.path = vector.path;

        RG_BUF(query, 1 << 16);
        rg_buf_addf(&query, "%.*s&zz", RG_SPAN_ARG(vector.query));
        request.query = rg_buf_span(&query);
        assert_int_equal(check(&request, &err), -RG_SIGNATURE_DOES_NOT_MATCH);
        request.query = vector.query;

        /* The first header is always a signed one. */
        RG_BUF(value, 1 << 16);
        rg_buf_addf(&value, "%.*s!", RG_SPAN_ARG(headers[0].value));
        headers[0].value = rg_buf_span(&value);
        int result = check(&request, &err);
        assert_true(result == -RG_SIGNATURE_DOES_NOT_MATCH || result == -RG_INVALID_ARGUMENT);
    }
}

static const struct rg_sigv4_signer signer = {
    .access_key = RG_SPAN_LITERAL("RAILGATETESTKEY00001"),
    .secret = RG_SPAN_LITERAL(SECRET),
    .region = RG_SPAN_LITERAL("eu-test-7"),
    .service = RG_SPAN_LITERAL("s3"),
};

static void drop_user_agent(struct rg_sigv4_request *request)
{
    assert_true(rg_span_is(request->headers[request->header_count - 1].name, "User-Agent"));
    request->header_count--;
}

static void test_signer_agrees(void **state)
{
    struct span rest = file;
    struct vector vector;
    size_t compared = 0;
    while (next_vector(&rest, &vector)) {
        struct rg_header headers[HEADERS_MAX];
        struct rg_sigv4_request request = request_of(&vector, headers, false);
        drop_user_agent(&request);
        if (vector.presigned || !rg_header_find(headers, request.header_count, "x-amz-date")) {
            continue;
        }
        struct rg_error err = RG_ERROR_INIT;
        RG_BUF(out, 1 << 16);
        assert_int_equal(rg_sigv4_sign(&signer, &request, &out, NULL, &err), 0);
        assert_true(rg_span_eq(rg_buf_span(&out), vector.authorization));
        compared++;
    }
    assert_true(compared > 150);
}

static void test_presigner_agrees(void **state)
{
    struct span rest = file;
    struct vector vector;
    size_t compared = 0;
    while (next_vector(&rest, &vector)) {
        struct rg_header headers[HEADERS_MAX];
        struct rg_sigv4_request request = request_of(&vector, headers, false);
        drop_user_agent(&request);
        if (!vector.presigned) {
            continue;
        }
        RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
        struct rg_error err = RG_ERROR_INIT;
        uint64_t expires_s;
        assert_int_equal(rg_query_parse(vector.query, &query, &err), 0);
        assert_true(rg_span_to_u64(rg_query_find(&query, "X-Amz-Expires")->value, &expires_s));
        const char *added = strstr(vector.query.ptr, "X-Amz-Algorithm=");
        size_t own = (size_t)(added - vector.query.ptr);
        request.query = rg_span_head(vector.query, own ? own - 1 : 0);
        RG_BUF(out, 1 << 16);
        assert_int_equal(rg_sigv4_presign(&signer, &request, NOW, (int64_t)expires_s, &out, &err),
                         0);
        assert_true(rg_span_eq(rg_buf_span(&out), vector.query));
        compared++;
    }
    assert_int_equal(compared, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify),           cmocka_unit_test(test_canonical_request),
        cmocka_unit_test(test_changed_bytes),    cmocka_unit_test(test_signer_agrees),
        cmocka_unit_test(test_presigner_agrees),
    };
    return cmocka_run_group_tests(tests, load_file, NULL);
}
