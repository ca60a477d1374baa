/*
 * Lets the n-th allocation fail, for every n that a whole request makes: each must come back as
 * RG_OUT_OF_MEMORY, with nothing leaked. The linker hands our libraries' allocations to the
 * functions below (--wrap).
 */
#include "base/attr.h"
#include "s3/chunked.h"
#include "s3/sigv4.h"

#include "test.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long left = -1; /* allocations until the one that fails; negative: none does */
static bool failed;

static bool fails(void)
{
    failed = failed || left == 0;
    return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static const struct rg_sigv4_signer signer = {
    .access_key = RG_SPAN_LITERAL("AK"),
    .secret = RG_SPAN_LITERAL("secret"),
    .region = RG_SPAN_LITERAL("us-east-1"),
    .service = RG_SPAN_LITERAL("s3"),
};

static const struct rg_sigv4_rules rules = {
    .region = RG_SPAN_LITERAL("us-east-1"), .now_s = 1369353600, .clock_skew_ms = 1000};

static int check(const struct rg_sigv4_request *request, struct rg_sigv4 *auth,
                 struct rg_sigv4_key *key, struct rg_error *err)
{
    int result = rg_sigv4_parse(request, &rules, auth, err);
    if (result == 0) {
        result = rg_sigv4_key_derive(signer.secret, auth->scope, key, err);
    }
    return result == 0 ? rg_sigv4_verify(auth, request, key, err) : result;
}

static void free_decoder(struct rg_chunked **decoder)
{
    rg_chunked_free(*decoder);
}

/* Up to the first bad signature: by then everything has been allocated that ever is. */
static int decode(enum rg_payload_kind kind, const struct rg_sigv4 *auth,
                  const struct rg_sigv4_key *key, const char *body, struct rg_error *err)
{
    const struct rg_chunked_setup setup = {
        .kind = kind, .trailer_names = RG_SPAN_LITERAL("x-a"), .auth = auth, .key = key};
    RG_CLEANUP(free_decoder) struct rg_chunked *decoder = NULL;
    int result = rg_chunked_new(&setup, &decoder, err);
    struct span rest = rg_span_text(body);
    while (result == 0 && rest.len) {
        size_t used = 0;
        struct span data;
        result = rg_chunked_feed(decoder, rest, &used, &data, err);
        rest = rg_span_skip(rest, used);
    }
    return result == 0 ? rg_chunked_finish(decoder, err) : result;
}

static int handle_request(struct rg_error *err)
{
    struct rg_header headers[5] = {
        {RG_SPAN_LITERAL("Host"), RG_SPAN_LITERAL("h")},
        {RG_SPAN_LITERAL("x-amz-date"), RG_SPAN_LITERAL("20130524T000000Z")},
        {RG_SPAN_LITERAL("x-amz-content-sha256"), RG_SPAN_LITERAL("UNSIGNED-PAYLOAD")},
    };
    struct rg_sigv4_request request = {.method = RG_SPAN_LITERAL("PUT"),
                                       .path = RG_SPAN_LITERAL("/b/k%20"),
                                       .query = RG_SPAN_LITERAL("a=1&b=%20"),
                                       .headers = headers,
                                       .header_count = 3,
                                       .host = {NULL, 0}};
    RG_BUF(authorization, 4096);
    RG_BUF(query, 4096);
    int result = rg_sigv4_presign(&signer, &request, rules.now_s, 60, &query, err);
    if (result == 0) {
        result = rg_sigv4_sign(&signer, &request, &authorization, NULL, err);
    }
    if (result != 0) {
        return result;
    }
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_ANONYMOUS};
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 presigned = {.kind = RG_AUTH_ANONYMOUS};
    struct rg_sigv4_key key;
    headers[3] = (struct rg_header){RG_SPAN_LITERAL("Authorization"), rg_buf_span(&authorization)};
    request.header_count = 4;
    result = check(&request, &auth, &key, err);
    if (result != 0) {
        return result;
    }
    request.header_count = 3;
    request.query = rg_buf_span(&query);
    result = check(&request, &presigned, &key, err);
    if (result != 0) {
        return result;
    }
    result = decode(RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER, NULL, NULL,
                    "1\r\nx\r\n0\r\nx-a:1\r\n\r\n", err);
    if (result != 0) {
        return result;
    }
    result = decode(RG_PAYLOAD_STREAMING_SIGNED_TRAILER, &auth, &key,
                    "1;chunk-signature="
                    "0000000000000000000000000000000000000000000000000000000000000000\r\nx",
                    err);
    return result == -RG_SIGNATURE_DOES_NOT_MATCH ? 0 : result;
}

static void test_every_allocation_may_fail(void **state)
{
    long count = 0;
    do {
        struct rg_error err = RG_ERROR_INIT;
        left = count++;
        failed = false;
        int result = handle_request(&err);
        left = -1;
        assert_int_equal(result, failed ? -RG_OUT_OF_MEMORY : 0);
        assert_true(count < 10000);
    } while (failed);
    /* The scenario allocates: otherwise nothing was tested. */
    assert_true(count > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
