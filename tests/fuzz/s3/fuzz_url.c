/*
 * Decoding and canonical queries. What decodes must encode to something that decodes to the same
 * bytes, and a canonical query must be its own canonical form.
 */
#include "base/assert.h"
#include "s3/url.h"

#include <stdint.h>

static void check_round_trip(struct span raw, enum rg_url_part part)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(decoded, 1 << 20);
    RG_BUF(encoded, 1 << 20);
    RG_BUF(again, 1 << 20);
    if (rg_url_decode(raw, part, &decoded, &err) != 0) {
        RG_ASSERT(err.code == RG_INVALID_URI);
        return;
    }
    RG_ASSERT(!rg_span_has_nul(rg_buf_span(&decoded)));
    rg_url_encode(rg_buf_span(&decoded), RG_URL_SLASH_KEPT, &encoded);
    RG_ASSERT(rg_buf_ok(&encoded));
    RG_ASSERT(rg_url_decode(rg_buf_span(&encoded), part, &again, &err) == 0);
    RG_ASSERT(rg_span_eq(rg_buf_span(&decoded), rg_buf_span(&again)));
}

/* True, and the canonical form in *out, if the query parses. */
static bool canonical(struct span raw, struct rg_buf *out)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    if (rg_query_parse(raw, &query, &err) != 0) {
        RG_ASSERT(err.code == RG_INVALID_URI);
        return false;
    }
    RG_ASSERT(query.count <= RG_QUERY_PARAMS_MAX);
    for (size_t i = 0; i < query.count; i++) {
        RG_ASSERT(query.params[i].has_value || query.params[i].value.len == 0);
    }
    RG_ASSERT(rg_query_canonical(&query, NULL, out, &err) == 0);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span raw = rg_span(data, size);
    check_round_trip(raw, RG_URL_PATH);
    check_round_trip(raw, RG_URL_QUERY);
    RG_BUF(first, 1 << 20);
    RG_BUF(second, 1 << 20);
    if (canonical(raw, &first) && first.len <= RG_QUERY_BYTES_MAX) {
        RG_ASSERT(canonical(rg_buf_span(&first), &second));
        RG_ASSERT(rg_span_eq(rg_buf_span(&first), rg_buf_span(&second)));
    }
    return 0;
}
