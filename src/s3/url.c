/*
 * Percent-decoding, AWS URI encoding and query strings. Must not guess: what does not decode is
 * refused.
 */
#include "s3/url.h"

#include "base/attr.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Decodes into `out`, which has room for raw.len bytes; the length, or -1. */
static ptrdiff_t decode(struct span raw, enum rg_url_part part, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == '%') {
            int high = raw.len - i > 2 ? hex_digit(raw.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(raw.ptr[i + 2]) : -1;
            if (low < 0) {
                return -1;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && part == RG_URL_QUERY) {
            c = ' ';
        }
        if (c == '\0') {
            return -1;
        }
        out[len++] = c;
    }
    return (ptrdiff_t)len;
}

int rg_url_decode(struct span raw, enum rg_url_part part, struct rg_buf *out, struct rg_error *err)
{
    char *at = rg_buf_reserve(out, raw.len);
    if (!at) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    ptrdiff_t len = decode(raw, part, at);
    if (len < 0) {
        *at = '\0';
        return rg_fail(err, RG_INVALID_URI);
    }
    rg_buf_grew(out, (size_t)len);
    return 0;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

void rg_url_encode(struct span bytes, enum rg_url_slash slash, struct rg_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    if (bytes.len == 0) {
        return;
    }
    size_t start = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.ptr[i];
        if (is_unreserved(c) || (c == '/' && slash == RG_URL_SLASH_KEPT)) {
            continue;
        }
        const char escape[3] = {'%', digits[(unsigned char)c >> 4], digits[(unsigned char)c & 15]};
        rg_buf_add(out, bytes.ptr + start, i - start);
        rg_buf_add(out, escape, sizeof escape);
        start = i + 1;
    }
    rg_buf_add(out, bytes.ptr + start, bytes.len - start);
}

static size_t count_params(struct span raw)
{
    size_t count = 0;
    struct span rest = raw;
    while (rest.ptr) {
        count += rg_span_cut(&rest, '&').len != 0;
    }
    return count;
}

/* Decodes one "name=value" at *text, which advances. */
static int parse_param(struct span piece, char **text, struct rg_query_param *ret_param,
                       struct rg_error *err)
{
    struct span value = piece;
    struct span name = rg_span_cut(&value, '=');
    bool has_value = value.ptr != NULL;
    ptrdiff_t name_len = decode(name, RG_URL_QUERY, *text);
    if (name_len < 0) {
        return rg_fail(err, RG_INVALID_URI);
    }
    char *value_at = *text + name_len;
    ptrdiff_t value_len = has_value ? decode(value, RG_URL_QUERY, value_at) : 0;
    if (value_len < 0) {
        return rg_fail(err, RG_INVALID_URI);
    }
    *ret_param = (struct rg_query_param){
        .name = rg_span(*text, (size_t)name_len),
        .value = rg_span(value_at, (size_t)value_len),
        .has_value = has_value,
    };
    *text = value_at + value_len;
    return 0;
}

int rg_query_parse(struct span raw, struct rg_query *ret_query, struct rg_error *err)
{
    if (raw.len > RG_QUERY_BYTES_MAX) {
        return rg_failf(err, RG_INVALID_URI, "The query string is longer than %u bytes.",
                        RG_QUERY_BYTES_MAX);
    }
    size_t count = count_params(raw);
    if (count > RG_QUERY_PARAMS_MAX) {
        return rg_failf(err, RG_INVALID_URI, "The query string has more than %u parameters.",
                        RG_QUERY_PARAMS_MAX);
    }
    /* Decoding never lengthens; one byte more so that malloc(0) cannot return NULL. */
    rg_autofree char *text = malloc(raw.len + 1);
    rg_autofree struct rg_query_param *params = calloc(count + 1, sizeof *params);
    if (!text || !params) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    char *at = text;
    size_t filled = 0;
    struct span rest = raw;
    while (rest.ptr) {
        struct span piece = rg_span_cut(&rest, '&');
        if (piece.len == 0) {
            continue;
        }
        int result = parse_param(piece, &at, &params[filled++], err);
        if (result != 0) {
            return result;
        }
    }
    *ret_query = (struct rg_query){
        .params = RG_TAKE(params),
        .count = count,
        .text = RG_TAKE(text),
    };
    return 0;
}

void rg_query_free(struct rg_query *query)
{
    free(query->params);
    free(query->text);
    *query = (struct rg_query)RG_QUERY_INIT;
}

const struct rg_query_param *rg_query_find(const struct rg_query *query, const char *name)
{
    for (size_t i = 0; i < query->count; i++) {
        if (rg_span_is(query->params[i].name, name)) {
            return &query->params[i];
        }
    }
    return NULL;
}

size_t rg_query_count(const struct rg_query *query, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        count += rg_span_is(query->params[i].name, name);
    }
    return count;
}

/* A parameter in its encoded form. */
struct pair {
    struct span name;
    struct span value;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    int order = rg_span_compare(x->name, y->name);
    return order != 0 ? order : rg_span_compare(x->value, y->value);
}

/* Encodes every parameter but `leave_out`; pairs get the lengths, and pointers in a second pass,
 * when `encoded` no longer moves. */
static size_t encode_pairs(const struct rg_query *query, const char *leave_out,
                           struct rg_buf *encoded, struct pair *pairs)
{
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        const struct rg_query_param *param = &query->params[i];
        if (leave_out && rg_span_is(param->name, leave_out)) {
            continue;
        }
        size_t start = encoded->len;
        rg_url_encode(param->name, RG_URL_SLASH_ENCODED, encoded);
        size_t middle = encoded->len;
        rg_url_encode(param->value, RG_URL_SLASH_ENCODED, encoded);
        pairs[count].name.len = middle - start;
        pairs[count].value.len = encoded->len - middle;
        count++;
    }
    const char *at = rg_buf_text(encoded);
    for (size_t i = 0; i < count; i++) {
        pairs[i].name.ptr = at;
        at += pairs[i].name.len;
        pairs[i].value.ptr = at;
        at += pairs[i].value.len;
    }
    return count;
}

int rg_query_canonical(const struct rg_query *query, const char *leave_out, struct rg_buf *out,
                       struct rg_error *err)
{
    RG_BUF(encoded, 3 * RG_QUERY_BYTES_MAX);
    rg_autofree struct pair *pairs = calloc(query->count + 1, sizeof *pairs);
    if (!pairs) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    size_t count = encode_pairs(query, leave_out, &encoded, pairs);
    if (!rg_buf_ok(&encoded)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    for (size_t i = 0; i < count; i++) {
        if (i) {
            rg_buf_add_char(out, '&');
        }
        rg_buf_add_span(out, pairs[i].name);
        rg_buf_add_char(out, '=');
        rg_buf_add_span(out, pairs[i].value);
    }
    return rg_buf_ok(out) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}
