/*
 * The x-amz-tagging header. Accepted tags obey the rules, and encoded again they are read alike.
 */
#include "base/assert.h"
#include "s3/meta.h"
#include "s3/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    if (rg_tags_parse_header(rg_span(data, size), &tags, NULL) != 0) {
        return 0;
    }
    RG_ASSERT(tags.count <= RG_TAG_OBJECT_MAX);
    RG_BUF(text, 1u << 20);
    for (size_t i = 0; i < tags.count; i++) {
        struct span name = rg_span_text(tags.items[i].name);
        RG_ASSERT(name.len >= 1 && rg_span_is_utf8(name));
        rg_buf_add_text(&text, i ? "&" : "");
        rg_url_encode(name, RG_URL_SLASH_ENCODED, &text);
        rg_buf_add_char(&text, '=');
        rg_url_encode(rg_span_text(tags.items[i].value), RG_URL_SLASH_ENCODED, &text);
    }
    if (text.len > RG_QUERY_BYTES_MAX) {
        return 0;
    }
    RG_CLEANUP(rg_pairs_free) struct rg_pairs again = RG_PAIRS_INIT;
    RG_ASSERT(rg_tags_parse_header(rg_buf_span(&text), &again, NULL) == 0);
    RG_ASSERT(rg_pairs_equal(&tags, &again));
    return 0;
}
