/*
 * aws-chunked: Amazon's published bodies, what real clients make of the format, every way to be
 * wrong, and the property that the way a body is cut into pieces never matters.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/encode.h"
#include "s3/chunked.h"

#include "test.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMESTAMP "20130524T000000Z"
#define SECRET    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define BODY_MAX  (1 << 18)

static void free_decoder(struct rg_chunked **decoder)
{
    rg_chunked_free(*decoder);
}

static struct rg_sigv4 auth_with_seed(const char *seed)
{
    struct rg_sigv4 auth = {
        .kind = RG_AUTH_HEADER,
        .scope = {.date = RG_SPAN_LITERAL("20130524"),
                  .region = RG_SPAN_LITERAL("us-east-1"),
                  .service = RG_SPAN_LITERAL("s3")},
        .timestamp = TIMESTAMP,
    };
    assert_true(rg_hex_decode(rg_span_text(seed), auth.signature, sizeof auth.signature));
    return auth;
}

static struct rg_sigv4_key key_of(const struct rg_sigv4 *auth)
{
    struct rg_sigv4_key key;
    assert_int_equal(rg_sigv4_key_derive(rg_span_text(SECRET), auth->scope, &key, NULL), 0);
    return key;
}

#define SEED         "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
#define TRAILER_SEED "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"

/* What came of decoding a body. */
struct outcome {
    enum rg_code code;
    char message[RG_ERROR_MESSAGE_MAX];
    struct rg_buf data;
    char trailers[RG_CHUNKED_TRAILER_BYTES_MAX + 64]; /* "name=value;" each */
};

static void free_outcome(struct outcome *outcome)
{
    rg_buf_free(&outcome->data);
}

static void keep_trailers(const struct rg_chunked *decoder, struct outcome *outcome)
{
    size_t count;
    const struct rg_header *trailers = rg_chunked_trailers(decoder, &count);
    outcome->trailers[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(outcome->trailers);
        snprintf(outcome->trailers + len, sizeof outcome->trailers - len, "%.*s=%.*s;",
                 RG_SPAN_ARG(trailers[i].name), RG_SPAN_ARG(trailers[i].value));
    }
}

/* Feeds one piece; true when all of it was taken without an error. */
static bool feed_piece(struct rg_chunked *decoder, struct span piece, struct rg_buf *data,
                       struct rg_error *err)
{
    while (piece.len) {
        size_t used = 0;
        struct span part;
        if (rg_chunked_feed(decoder, piece, &used, &part, err) != 0) {
            return false;
        }
        assert_in_range(used, 1, piece.len);
        assert_true(part.len <= used);
        rg_buf_add_span(data, part);
        piece = rg_span_skip(piece, used);
    }
    return true;
}

static struct outcome decode(const struct rg_chunked_setup *setup, struct span body,
                             size_t piece_len)
{
    struct outcome outcome = {.data = RG_BUF_INIT(BODY_MAX)};
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(free_decoder) struct rg_chunked *decoder = NULL;
    assert_int_equal(rg_chunked_new(setup, &decoder, &err), 0);
    bool ok = true;
    for (struct span rest = body; ok && rest.len; rest = rg_span_skip(rest, piece_len)) {
        ok = feed_piece(decoder, rg_span_head(rest, piece_len), &outcome.data, &err);
    }
    if (ok) {
        assert_int_equal(outcome.data.len, rg_chunked_decoded(decoder));
        int result = rg_chunked_finish(decoder, &err);
        assert_int_equal(result, -(int)err.code);
    } else {
        /* An error is final. */
        struct rg_error again = RG_ERROR_INIT;
        size_t used;
        struct span part;
        assert_int_equal(rg_chunked_feed(decoder, RG_SPAN_LITERAL("0"), &used, &part, &again),
                         -(int)err.code);
        assert_int_equal(rg_chunked_finish(decoder, &again), -(int)err.code);
        assert_string_equal(again.message, err.message);
    }
    outcome.code = err.code;
    snprintf(outcome.message, sizeof outcome.message, "%s", err.message);
    keep_trailers(decoder, &outcome);
    return outcome;
}

static void assert_decodes(const struct rg_chunked_setup *setup, struct span body, struct span data,
                           const char *trailers)
{
    static const size_t pieces[] = {1, 2, 3, 7, 64, 1000, 65536, BODY_MAX};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pieces); i++) {
        RG_CLEANUP(free_outcome) struct outcome outcome = decode(setup, body, pieces[i]);
        if (outcome.code != RG_OK) {
            fail_msg("pieces of %zu: %s", pieces[i], outcome.message);
        }
        assert_true(rg_span_eq(rg_buf_span(&outcome.data), data));
        assert_string_equal(outcome.trailers, trailers);
    }
}

static void assert_refused(const struct rg_chunked_setup *setup, struct span body,
                           enum rg_code code)
{
    static const size_t pieces[] = {1, 5, BODY_MAX};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pieces); i++) {
        RG_CLEANUP(free_outcome) struct outcome outcome = decode(setup, body, pieces[i]);
        if (outcome.code != code) {
            fail_msg("%.60s: %s (%s), expected %s", body.ptr, rg_code_name(outcome.code),
                     outcome.message, rg_code_name(code));
        }
        assert_string_equal(outcome.trailers, "");
    }
}

/* -- Published bodies -------------------------------------------------------------------------- */

static char letters[66560];

static int fill_letters(void **state)
{
    memset(letters, 'a', sizeof letters);
    return 0;
}

static void add_published(struct rg_buf *body, const char *first, const char *second,
                          const char *last)
{
    rg_buf_addf(body, "10000;chunk-signature=%s\r\n", first);
    rg_buf_add(body, letters, 65536);
    rg_buf_addf(body, "\r\n400;chunk-signature=%s\r\n", second);
    rg_buf_add(body, letters, 1024);
    rg_buf_addf(body, "\r\n0;chunk-signature=%s\r\n", last);
}

static void add_signed_example(struct rg_buf *body)
{
    add_published(body, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                  "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                  "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
    rg_buf_add_text(body, "\r\n");
}

static struct rg_chunked_setup signed_setup(const struct rg_sigv4 *auth,
                                            const struct rg_sigv4_key *key)
{
    return (struct rg_chunked_setup){
        .kind = RG_PAYLOAD_STREAMING_SIGNED,
        .has_decoded_length = true,
        .decoded_length = sizeof letters,
        .auth = auth,
        .key = key,
    };
}

/* Amazon S3 API Reference, "Transferring Payload in Multiple Chunks", example. */
static void test_published_body(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    RG_BUF(body, BODY_MAX);
    add_signed_example(&body);
    assert_int_equal(body.len, 66824);
    assert_decodes(&setup, rg_buf_span(&body), rg_span(letters, sizeof letters), "");
}

#define PUBLISHED_TRAILER_SIGNATURE                                                                \
    "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"

static void add_trailer_example(struct rg_buf *body)
{
    add_published(body, "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                  "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                  "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992");
}

/*
 * "Signature calculations for trailing headers", example. The page does not show every line end;
 * clients have read it in several ways.
 */
static void test_published_trailer(void **state)
{
    static const char *const ends[] = {
        /* AWS SDKs */
        "x-amz-checksum-crc32c:sOO8/Q==\r\n"
        "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n",
        /* a line end behind the empty chunk's data; nothing behind the signature */
        "\r\nx-amz-checksum-crc32c:sOO8/Q==\r\n"
        "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n",
        /* minio-go */
        "\r\nx-amz-checksum-crc32c:sOO8/Q==\n\r\n"
        "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n",
        "X-Amz-Checksum-Crc32c:  sOO8/Q== \r\n"
        "X-Amz-Trailer-Signature: " PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n\r\n",
    };
    struct rg_sigv4 auth = auth_with_seed(TRAILER_SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.kind = RG_PAYLOAD_STREAMING_SIGNED_TRAILER;
    setup.trailer_names = RG_SPAN_LITERAL("x-amz-checksum-crc32c");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ends); i++) {
        RG_BUF(body, BODY_MAX);
        add_trailer_example(&body);
        rg_buf_add_text(&body, ends[i]);
        assert_decodes(&setup, rg_buf_span(&body), rg_span(letters, sizeof letters),
                       "x-amz-checksum-crc32c=sOO8/Q==;");
    }
}

static void test_bad_signed_trailers(void **state)
{
    static const struct {
        const char *end;
        enum rg_code code;
    } cases[] = {
        {"x-amz-checksum-crc32c:sOO8/R==\r\n"
         "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n",
         RG_SIGNATURE_DOES_NOT_MATCH},
        {"x-amz-checksum-crc32:sOO8/Q==\r\n"
         "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n",
         RG_MALFORMED_TRAILER},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n", RG_SIGNATURE_DOES_NOT_MATCH},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\n", RG_INCOMPLETE_BODY},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:\r\n\r\n",
         RG_SIGNATURE_DOES_NOT_MATCH},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82\r\n\r\n",
         RG_SIGNATURE_DOES_NOT_MATCH},
        {"x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n"
         "x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n",
         RG_MALFORMED_TRAILER},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\n"
         "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n"
         "x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n",
         RG_MALFORMED_TRAILER},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\n"
         "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE,
         RG_INCOMPLETE_BODY},
        {"x-amz-checksum-crc32c:sOO8/Q==\r\n"
         "x-amz-trailer-signature:" PUBLISHED_TRAILER_SIGNATURE "\r\n\r\n\r\n\r\n",
         RG_INCOMPLETE_BODY},
        {"\r\n", RG_MALFORMED_TRAILER},
        {"\r\n\r\n\r\n", RG_MALFORMED_TRAILER},
        {"", RG_INCOMPLETE_BODY},
    };
    struct rg_sigv4 auth = auth_with_seed(TRAILER_SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.kind = RG_PAYLOAD_STREAMING_SIGNED_TRAILER;
    setup.trailer_names = RG_SPAN_LITERAL("x-amz-checksum-crc32c");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        RG_BUF(body, BODY_MAX);
        add_trailer_example(&body);
        rg_buf_add_text(&body, cases[i].end);
        assert_refused(&setup, rg_buf_span(&body), cases[i].code);
    }
}

/* -- Signed chunks that went wrong ------------------------------------------------------------- */

/* The small signed body "hello world" in two chunks, so that every byte of it can be changed. */
static void add_small_signed(struct rg_buf *body, const struct rg_sigv4 *auth,
                             const struct rg_sigv4_key *key)
{
    static const char *const chunks[] = {"hello ", "world", ""};
    unsigned char signature[32];
    memcpy(signature, auth->signature, sizeof signature);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(chunks); i++) {
        unsigned char sha256[32];
        char hex[65];
        SHA256((const unsigned char *)chunks[i], strlen(chunks[i]), sha256);
        assert_int_equal(
            rg_chunked_sign_chunk(key, TIMESTAMP, auth->scope, signature, sha256, signature, NULL),
            0);
        rg_hex_encode(signature, sizeof signature, hex);
        rg_buf_addf(body, "%zx;chunk-signature=%s\r\n%s\r\n", strlen(chunks[i]), hex, chunks[i]);
    }
}

static void test_no_byte_of_a_signed_body_is_free(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    RG_BUF(body, BODY_MAX);
    add_small_signed(&body, &auth, &key);
    assert_decodes(&setup, rg_buf_span(&body), RG_SPAN_LITERAL("hello world"), "");
    for (size_t i = 0; i < body.len; i++) {
        char original = body.data[i];
        body.data[i] ^= 1;
        RG_CLEANUP(free_outcome)
        struct outcome outcome = decode(&setup, rg_buf_span(&body), BODY_MAX);
        assert_true(outcome.code == RG_SIGNATURE_DOES_NOT_MATCH ||
                    outcome.code == RG_INCOMPLETE_BODY);
        body.data[i] = original;
    }
}

static void test_truncation(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    RG_BUF(body, BODY_MAX);
    add_small_signed(&body, &auth, &key);
    for (size_t len = 0; len < body.len; len++) {
        RG_CLEANUP(free_outcome)
        struct outcome outcome = decode(&setup, rg_span_head(rg_buf_span(&body), len), BODY_MAX);
        assert_int_equal(outcome.code, RG_INCOMPLETE_BODY);
    }
}

static void test_chain_order(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    RG_BUF(body, BODY_MAX);
    add_small_signed(&body, &auth, &key);
    struct span all = rg_buf_span(&body);
    size_t first = 1 + 17 + 64 + 2 + 6 + 2;
    size_t second = first - 1;
    RG_BUF(swapped, BODY_MAX);
    rg_buf_add_span(&swapped, rg_span_head(rg_span_skip(all, first), second));
    rg_buf_add_span(&swapped, rg_span_head(all, first));
    rg_buf_add_span(&swapped, rg_span_skip(all, first + second));
    assert_refused(&setup, rg_buf_span(&swapped), RG_SIGNATURE_DOES_NOT_MATCH);
    RG_BUF(dropped, BODY_MAX);
    rg_buf_add_span(&dropped, rg_span_head(all, first));
    rg_buf_add_span(&dropped, rg_span_skip(all, first + second));
    assert_refused(&setup, rg_buf_span(&dropped), RG_SIGNATURE_DOES_NOT_MATCH);
    RG_BUF(repeated, BODY_MAX);
    rg_buf_add_span(&repeated, rg_span_head(all, first));
    rg_buf_add_span(&repeated, all);
    assert_refused(&setup, rg_buf_span(&repeated), RG_SIGNATURE_DOES_NOT_MATCH);
}

static void test_bad_signed_headers(void **state)
{
    static const char *const unsigned_ones[] = {
        "5\r\nhello\r\n0\r\n\r\n",
        "5;chunk-signature=\r\nhello\r\n",
        "5;chunk-signature=ab\r\nhello\r\n",
        "5;other=1;chunk-signature="
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\nhello\r\n",
        "0;chunk-signature="
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n\r\n",
        "0;chunk-signature="
        "AD80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n\r\n",
    };
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(unsigned_ones); i++) {
        assert_refused(&setup, rg_span_text(unsigned_ones[i]), RG_SIGNATURE_DOES_NOT_MATCH);
    }
}

/* The decoder keeps its own copies of what it was set up with. */
static void test_setup_is_copied(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    RG_BUF(body, BODY_MAX);
    add_small_signed(&body, &auth, &key);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    RG_CLEANUP(free_decoder) struct rg_chunked *decoder = NULL;
    char region[] = "us-east-1";
    auth.scope.region = rg_span_text(region);
    assert_int_equal(rg_chunked_new(&setup, &decoder, &err), 0);
    memset(region, 'x', sizeof region);
    memset(&auth, 0, sizeof auth);
    rg_sigv4_key_wipe(&key);
    RG_BUF(data, 100);
    assert_true(feed_piece(decoder, rg_buf_span(&body), &data, &err));
    assert_int_equal(rg_chunked_finish(decoder, &err), 0);
    assert_string_equal(rg_buf_text(&data), "hello world");
}

/* -- Unsigned chunks with trailers ------------------------------------------------------------- */

static const struct rg_chunked_setup plain = {
    .kind = RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER,
    .trailer_names = RG_SPAN_LITERAL("x-amz-checksum-crc32"),
};

static void test_unsigned(void **state)
{
    static const char *const bodies[] = {
        /* AWS SDKs and aws-cli */
        "5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n",
        /* other sizes of chunks, spelt otherwise */
        "B\r\nhello world\r\n00\r\nX-Amz-Checksum-CRC32: DUoRhQ== \r\n\r\n",
        "00000000000000b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n",
        /* minio-go */
        "b\r\nhello world\r\n0\r\n\r\nx-amz-checksum-crc32:DUoRhQ==\n\r\n",
        "b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\n\r\n\r\n",
        /* extensions that mean nothing without signatures */
        "b;x=y\r\nhello world\r\n0;chunk-signature=no\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n",
    };
    struct rg_chunked_setup setup = plain;
    setup.has_decoded_length = true;
    setup.decoded_length = 11;
    setup.decoded_max = 11;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bodies); i++) {
        assert_decodes(&setup, rg_span_text(bodies[i]), RG_SPAN_LITERAL("hello world"),
                       "x-amz-checksum-crc32=DUoRhQ==;");
    }
}

static void test_unsigned_without_trailers(void **state)
{
    struct rg_chunked_setup setup = plain;
    setup.trailer_names = RG_SPAN_EMPTY;
    assert_decodes(&setup, RG_SPAN_LITERAL("2\r\nhi\r\n0\r\n\r\n"), RG_SPAN_LITERAL("hi"), "");
    assert_decodes(&setup, RG_SPAN_LITERAL("0\r\n\r\n"), RG_SPAN_EMPTY, "");
    assert_refused(&setup, RG_SPAN_LITERAL("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"),
                   RG_MALFORMED_TRAILER);
}

static void test_several_trailers(void **state)
{
    struct rg_chunked_setup setup = plain;
    setup.trailer_names = RG_SPAN_LITERAL(" X-A , x-b,x-c");
    assert_decodes(&setup, RG_SPAN_LITERAL("0\r\nx-b:2\r\nx-c:\r\nX-a:1:1 1\r\n\r\n"),
                   RG_SPAN_EMPTY, "x-b=2;x-c=;x-a=1:1 1;");
    assert_refused(&setup, RG_SPAN_LITERAL("0\r\nx-b:2\r\nx-c:\r\n\r\n"), RG_MALFORMED_TRAILER);
}

static void test_signed_without_trailers(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.has_decoded_length = false;
    setup.kind = RG_PAYLOAD_STREAMING_SIGNED_TRAILER;
    RG_BUF(body, BODY_MAX);
    add_small_signed(&body, &auth, &key);
    assert_decodes(&setup, rg_buf_span(&body), RG_SPAN_LITERAL("hello world"), "");
}

static void test_malformed(void **state)
{
    static const struct {
        const char *body;
        enum rg_code code;
    } cases[] = {
        {"", RG_INCOMPLETE_BODY},
        {"\r\n", RG_INCOMPLETE_BODY},
        {"g\r\n", RG_INCOMPLETE_BODY},
        {"-1\r\n", RG_INCOMPLETE_BODY},
        {"+1\r\nx\r\n", RG_INCOMPLETE_BODY},
        {" 1\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"0x1\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"1 \r\nx\r\n", RG_INCOMPLETE_BODY},
        {"1;\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"1;\x01\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"1\nx\r\n", RG_INCOMPLETE_BODY},
        {"1\r\nx\n", RG_INCOMPLETE_BODY},
        {"1\r\nxy\r\n", RG_INCOMPLETE_BODY},
        {"2\r\nx\r\n0\r\n", RG_INCOMPLETE_BODY},
        {"1\r\nx\r\r\n", RG_INCOMPLETE_BODY},
        {"1\r\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"00000000000000001\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"ffffffffffffffff\r\nx\r\n", RG_ENTITY_TOO_LARGE},
        {"8000000000000000\r\nx\r\n", RG_ENTITY_TOO_LARGE},
        {"1\r\nx\r\n7fffffffffffffff\r\n", RG_ENTITY_TOO_LARGE},
        {"7fffffffffffffff\r\nx", RG_INCOMPLETE_BODY},
        {"1\r\nx\r\n", RG_INCOMPLETE_BODY},
        {"1\r\nx\r\n0", RG_INCOMPLETE_BODY},
        {"0\r\n", RG_INCOMPLETE_BODY},
        {"0\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==", RG_INCOMPLETE_BODY},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n", RG_INCOMPLETE_BODY},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
         RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\nx-amz-meta-a:b\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\nx-amz-trailer-signature:00\r\n\r\n",
         RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32 :AAAAAA==\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\n:AAAAAA==\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\n x-amz-checksum-crc32:AAAAAA==\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAA\x01\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAA\xff\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:A\rA\r\n\r\n", RG_MALFORMED_TRAILER},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\nx", RG_INCOMPLETE_BODY},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n\r", RG_INCOMPLETE_BODY},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n\n", RG_INCOMPLETE_BODY},
        {"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n\r\n\r\n", RG_INCOMPLETE_BODY},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        assert_refused(&plain, rg_span_text(cases[i].body), cases[i].code);
    }
    assert_refused(&plain, rg_span("1\0\r\nx\r\n", 7), RG_INCOMPLETE_BODY);
    assert_refused(&plain, rg_span("0\r\nx-amz-checksum-crc32:A\0\r\n\r\n", 30),
                   RG_MALFORMED_TRAILER);
}

static void test_announced_length(void **state)
{
    struct rg_chunked_setup setup = plain;
    setup.trailer_names = RG_SPAN_EMPTY;
    setup.has_decoded_length = true;
    setup.decoded_length = 4;
    assert_refused(&setup, RG_SPAN_LITERAL("5\r\nhello\r\n0\r\n\r\n"), RG_INCOMPLETE_BODY);
    assert_refused(&setup, RG_SPAN_LITERAL("3\r\nhel\r\n0\r\n\r\n"), RG_INCOMPLETE_BODY);
    assert_refused(&setup, RG_SPAN_LITERAL("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), RG_INCOMPLETE_BODY);
    assert_decodes(&setup, RG_SPAN_LITERAL("3\r\nhel\r\n1\r\nl\r\n0\r\n\r\n"),
                   RG_SPAN_LITERAL("hell"), "");
    setup.decoded_length = 0;
    assert_decodes(&setup, RG_SPAN_LITERAL("0\r\n\r\n"), RG_SPAN_EMPTY, "");
    assert_refused(&setup, RG_SPAN_LITERAL("1\r\nx\r\n0\r\n\r\n"), RG_INCOMPLETE_BODY);
}

/* Not a byte beyond the limits is handed out. */
static void test_data_beyond_the_limit_is_not_handed_out(void **state)
{
    struct rg_chunked_setup setup = plain;
    setup.decoded_max = 4;
    RG_CLEANUP(free_outcome)
    struct outcome outcome =
        decode(&setup, RG_SPAN_LITERAL("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), BODY_MAX);
    assert_int_equal(outcome.code, RG_ENTITY_TOO_LARGE);
    assert_string_equal(rg_buf_text(&outcome.data), "hel");
}

static void test_line_ceilings(void **state)
{
    RG_BUF(header, BODY_MAX);
    rg_buf_add_text(&header, "1;");
    while (header.len < RG_CHUNKED_LINE_MAX - 2) {
        rg_buf_add_char(&header, 'x');
    }
    RG_BUF(body, BODY_MAX);
    rg_buf_addf(&body, "%s\r\ny\r\n0\r\nx-amz-checksum-crc32:A\r\n\r\n", rg_buf_text(&header));
    assert_decodes(&plain, rg_buf_span(&body), RG_SPAN_LITERAL("y"), "x-amz-checksum-crc32=A;");
    rg_buf_clear(&body);
    rg_buf_addf(&body, "%sx\r\ny\r\n", rg_buf_text(&header));
    assert_refused(&plain, rg_buf_span(&body), RG_INCOMPLETE_BODY);
    /* Without any line end: refused as soon as the line is too long, not kept. */
    rg_buf_clear(&body);
    rg_buf_addf(&body, "%s%s%s", rg_buf_text(&header), rg_buf_text(&header), rg_buf_text(&header));
    assert_refused(&plain, rg_buf_span(&body), RG_INCOMPLETE_BODY);
    rg_buf_clear(&body);
    rg_buf_addf(&body, "0\r\nx-amz-checksum-crc32:%s%s", rg_buf_text(&header),
                rg_buf_text(&header));
    assert_refused(&plain, rg_buf_span(&body), RG_MALFORMED_TRAILER);
}

static void test_trailer_ceilings(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_chunked *decoder = NULL;
    RG_BUF(names, BODY_MAX);
    RG_BUF(body, BODY_MAX);
    rg_buf_add_text(&body, "0\r\n");
    for (int i = 0; i < 16; i++) {
        rg_buf_addf(&names, "%sx-%d", i ? "," : "", i);
        rg_buf_addf(&body, "x-%d:%0300d\r\n", i, i);
    }
    rg_buf_add_text(&body, "\r\n");
    struct rg_chunked_setup setup = plain;
    setup.trailer_names = rg_buf_span(&names);
    assert_refused(&setup, rg_buf_span(&body), RG_MALFORMED_TRAILER);
    rg_buf_add_text(&names, ",x-16");
    setup.trailer_names = rg_buf_span(&names);
    assert_int_equal(rg_chunked_new(&setup, &decoder, &err), -RG_INVALID_REQUEST);
}

static void test_bad_setups(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_chunked *decoder = NULL;
    static const char *const names[] = {"a,,b", "a b", "a,", ",", "a,A", "x:y"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        struct rg_chunked_setup setup = plain;
        setup.trailer_names = rg_span_text(names[i]);
        assert_int_equal(rg_chunked_new(&setup, &decoder, &err), -RG_INVALID_REQUEST);
    }
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    setup.trailer_names = RG_SPAN_LITERAL("x-amz-checksum-crc32");
    assert_int_equal(rg_chunked_new(&setup, &decoder, &err), -RG_INVALID_REQUEST);
    setup.trailer_names = RG_SPAN_EMPTY;
    setup.decoded_max = 66559;
    assert_int_equal(rg_chunked_new(&setup, &decoder, &err), -RG_ENTITY_TOO_LARGE);
    assert_null(decoder);
    rg_chunked_free(NULL);
}

/* Cuts at random places: the same data and the same end each time. */
static void test_random_pieces(void **state)
{
    struct rg_sigv4 auth = auth_with_seed(SEED);
    struct rg_sigv4_key key = key_of(&auth);
    struct rg_chunked_setup setup = signed_setup(&auth, &key);
    RG_BUF(body, BODY_MAX);
    add_signed_example(&body);
    uint64_t random = 88172645463325252ULL;
    for (int round = 0; round < 50; round++) {
        RG_CLEANUP(free_decoder) struct rg_chunked *decoder = NULL;
        struct rg_error err = RG_ERROR_INIT;
        RG_BUF(data, BODY_MAX);
        assert_int_equal(rg_chunked_new(&setup, &decoder, &err), 0);
        struct span rest = rg_buf_span(&body);
        while (rest.len) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t len = 1 + random % (round % 2 ? 100 : 20000);
            assert_true(feed_piece(decoder, rg_span_head(rest, len), &data, &err));
            rest = rg_span_skip(rest, len);
        }
        assert_int_equal(rg_chunked_finish(decoder, &err), 0);
        assert_int_equal(data.len, sizeof letters);
        assert_memory_equal(data.data, letters, sizeof letters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_body),
        cmocka_unit_test(test_published_trailer),
        cmocka_unit_test(test_bad_signed_trailers),
        cmocka_unit_test(test_no_byte_of_a_signed_body_is_free),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_chain_order),
        cmocka_unit_test(test_bad_signed_headers),
        cmocka_unit_test(test_setup_is_copied),
        cmocka_unit_test(test_unsigned),
        cmocka_unit_test(test_unsigned_without_trailers),
        cmocka_unit_test(test_several_trailers),
        cmocka_unit_test(test_signed_without_trailers),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_announced_length),
        cmocka_unit_test(test_data_beyond_the_limit_is_not_handed_out),
        cmocka_unit_test(test_line_ceilings),
        cmocka_unit_test(test_trailer_ceilings),
        cmocka_unit_test(test_bad_setups),
        cmocka_unit_test(test_random_pieces),
    };
    return cmocka_run_group_tests(tests, fill_letters, NULL);
}
