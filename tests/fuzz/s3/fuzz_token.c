/*
 * Continuation tokens. Arbitrary text is refused; a token made of the input is read back; and the
 * same token with the input's first bytes changed into it is refused unless nothing changed.
 */
#include "base/assert.h"
#include "s3/listing.h"

static const uint8_t hmac_key[RG_TOKEN_KEY_BYTES] = {7, 1, 3};
static const struct rg_token_scope scope = {RG_SPAN_LITERAL("bucket"), RG_SPAN_LITERAL("p"),
                                            RG_SPAN_LITERAL("/")};

static void round_trip(struct span after, bool is_prefix, struct rg_buf *text)
{
    struct rg_token token;
    RG_ASSERT(rg_token_make(hmac_key, &scope, after, is_prefix, text, NULL) == 0);
    RG_ASSERT(rg_token_read(hmac_key, &scope, rg_buf_span(text), &token, NULL) == 0);
    RG_ASSERT(rg_span_is(after, token.after) && token.after_is_prefix == is_prefix);
    rg_token_free(&token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rg_token token = {NULL, false};
    RG_ASSERT(rg_token_read(hmac_key, &scope, rg_span(data, size), &token, NULL) ==
              -RG_INVALID_ARGUMENT);
    if (size < 4 || size > 2000) {
        return 0;
    }
    struct span after = rg_span(data + 3, size - 3);
    if (rg_span_has_nul(after)) {
        return 0;
    }
    RG_BUF(text, 16384);
    round_trip(after, data[0] & 1, &text);
    size_t at = (data[0] >> 1 | (size_t)data[1] << 7) % text.len;
    char before = text.data[at];
    text.data[at] = (char)data[2];
    int rc = rg_token_read(hmac_key, &scope, rg_buf_span(&text), &token, NULL);
    RG_ASSERT((rc == 0) == (before == (char)data[2]));
    rg_token_free(&token);
    return 0;
}
