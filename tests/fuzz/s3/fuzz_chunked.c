/*
 * aws-chunked bodies. The first byte chooses the kind and what was announced, the second seeds the
 * cuts; the rest is the body. Decoding it whole and decoding it in pieces must come to the same
 * data, trailers, and error.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "base/encode.h"
#include "s3/chunked.h"

#include <stdint.h>

struct outcome {
    int result;
    enum rg_code code;
    uint64_t decoded;
    struct rg_buf data;
    struct rg_buf trailers;
};

static void free_outcome(struct outcome *outcome)
{
    rg_buf_free(&outcome->data);
    rg_buf_free(&outcome->trailers);
}

static void free_decoder(struct rg_chunked **decoder)
{
    rg_chunked_free(*decoder);
}

static int feed_piece(struct rg_chunked *decoder, struct span piece, struct rg_buf *data,
                      struct rg_error *err)
{
    while (piece.len) {
        size_t used = 0;
        struct span part = RG_SPAN_EMPTY;
        int result = rg_chunked_feed(decoder, piece, &used, &part, err);
        if (result != 0) {
            return result;
        }
        RG_ASSERT(used >= 1 && used <= piece.len && part.len <= used);
        RG_ASSERT(part.len == 0 ||
                  (part.ptr >= piece.ptr && part.ptr + part.len <= piece.ptr + used));
        rg_buf_add_span(data, part);
        piece = rg_span_skip(piece, used);
    }
    return 0;
}

/* `seed` 0 feeds the body whole. */
static void decode(const struct rg_chunked_setup *setup, struct span body, uint32_t seed,
                   struct outcome *outcome)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(free_decoder) struct rg_chunked *decoder = NULL;
    outcome->result = rg_chunked_new(setup, &decoder, &err);
    outcome->code = err.code;
    if (outcome->result != 0) {
        return;
    }
    uint32_t random = seed;
    while (outcome->result == 0 && body.len) {
        random = random * 1664525 + 1013904223;
        size_t len = seed ? 1 + (random >> 16) % (seed % 2 ? 3 : 200) : body.len;
        outcome->result = feed_piece(decoder, rg_span_head(body, len), &outcome->data, &err);
        body = rg_span_skip(body, len);
    }
    if (outcome->result == 0) {
        outcome->result = rg_chunked_finish(decoder, &err);
    }
    outcome->code = err.code;
    outcome->decoded = rg_chunked_decoded(decoder);
    size_t count;
    const struct rg_header *trailers = rg_chunked_trailers(decoder, &count);
    RG_ASSERT(count == 0 || outcome->result == 0);
    for (size_t i = 0; i < count; i++) {
        rg_buf_add_span(&outcome->trailers, trailers[i].name);
        rg_buf_add_char(&outcome->trailers, '\n');
        rg_buf_add_span(&outcome->trailers, trailers[i].value);
        rg_buf_add_char(&outcome->trailers, '\n');
    }
}

static void compare(const struct rg_chunked_setup *setup, struct span body, uint32_t seed)
{
    RG_CLEANUP(free_outcome)
    struct outcome whole = {.data = RG_BUF_INIT(1 << 24), .trailers = RG_BUF_INIT(1 << 16)};
    RG_CLEANUP(free_outcome)
    struct outcome pieces = {.data = RG_BUF_INIT(1 << 24), .trailers = RG_BUF_INIT(1 << 16)};
    decode(setup, body, 0, &whole);
    decode(setup, body, seed, &pieces);
    RG_ASSERT(whole.result == pieces.result && whole.code == pieces.code);
    RG_ASSERT(rg_span_eq(rg_buf_span(&whole.trailers), rg_buf_span(&pieces.trailers)));
    /* After an error the tail of the data may not have been handed out whole. */
    if (whole.result == 0) {
        RG_ASSERT(whole.decoded == pieces.decoded && whole.decoded == whole.data.len);
        RG_ASSERT(rg_span_eq(rg_buf_span(&whole.data), rg_buf_span(&pieces.data)));
        RG_ASSERT(!setup->has_decoded_length || whole.decoded == setup->decoded_length);
        RG_ASSERT(!setup->decoded_max || whole.decoded <= setup->decoded_max);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum rg_payload_kind kinds[] = {
        RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER, RG_PAYLOAD_STREAMING_SIGNED,
        RG_PAYLOAD_STREAMING_SIGNED_TRAILER, RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER};
    if (size < 2) {
        return 0;
    }
    struct rg_sigv4 auth = {
        .kind = RG_AUTH_HEADER,
        .scope = {.date = RG_SPAN_LITERAL("20130524"),
                  .region = RG_SPAN_LITERAL("us-east-1"),
                  .service = RG_SPAN_LITERAL("s3")},
        .timestamp = "20130524T000000Z",
    };
    struct rg_sigv4_key key;
    RG_ASSERT(rg_sigv4_key_derive(RG_SPAN_LITERAL("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
                                  auth.scope, &key, NULL) == 0);
    const char *seed = data[0] & 2
                           ? "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
                           : "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
    RG_ASSERT(rg_hex_decode(rg_span_text(seed), auth.signature, sizeof auth.signature));
    struct rg_chunked_setup setup = {
        .kind = kinds[data[0] & 3],
        .has_decoded_length = data[0] & 4,
        .decoded_length = 11,
        .decoded_max = data[0] & 8 ? 11 : 0,
        .trailer_names = data[0] & 16   ? RG_SPAN_LITERAL("x-amz-checksum-crc32c")
                         : data[0] & 32 ? RG_SPAN_LITERAL("x-a, x-b")
                                        : RG_SPAN_EMPTY,
        .auth = &auth,
        .key = &key,
    };
    compare(&setup, rg_span(data + 2, size - 2), 1u + data[1]);
    return 0;
}
