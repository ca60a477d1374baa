/*
 * Percent-decoding, AWS URI encoding and query strings. Must not guess: what does not decode is
 * refused.
 */
#include "s3/url.h"

#include "base/attr.h"
#include "base/encode.h"

#include <stdlib.h>
#include <string.h>

/* Decodes into `out`, which has room for raw.len bytes; the length, or -1. */
static ptrdiff_t decode(struct span raw, enum rg_url_part part, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == '%') {
            int high = raw.len - i > 2 ? rg_hex_digit(raw.ptr[i + 1]) : -1;
            int low = high >= 0 ? rg_hex_digit(raw.ptr[i + 2]) : -1;
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

/* 1: stands for itself; 2: does so where slashes are kept. */
static const unsigned char plain[256] = {
    ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1, ['0' ... '9'] = 1, ['-'] = 1,
    ['_'] = 1,         ['.'] = 1,         ['~'] = 1,         ['/'] = 2,
};

static unsigned kinds_kept(enum rg_url_slash slash)
{
    return slash == RG_URL_SLASH_KEPT ? 1 | 2 : 1;
}

static size_t encoded_length(struct span bytes, enum rg_url_slash slash)
{
    unsigned kept = kinds_kept(slash);
    size_t escapes = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        escapes += !(plain[(unsigned char)bytes.ptr[i]] & kept);
    }
    return bytes.len + 2 * escapes;
}

/* Every request passes here, with some hundreds of bytes: one look at the buffer for all of them.
 */
void rg_url_encode(struct span bytes, enum rg_url_slash slash, struct rg_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned kept = kinds_kept(slash);
    size_t len = encoded_length(bytes, slash);
    char *at = len ? rg_buf_reserve(out, len) : NULL;
    if (!at) {
        return;
    }
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];
        if (plain[c] & kept) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    rg_buf_grew(out, len);
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
    struct span wanted = rg_span_text(name);
    for (size_t i = 0; i < query->count; i++) {
        if (rg_span_eq(query->params[i].name, wanted)) {
            return &query->params[i];
        }
    }
    return NULL;
}

size_t rg_query_count(const struct rg_query *query, const char *name)
{
    struct span wanted = rg_span_text(name);
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        count += rg_span_eq(query->params[i].name, wanted);
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

/* Appends every parameter but `leave_out` in the order they came; returns how many. pairs get the
 * lengths. */
static size_t encode_pairs(const struct rg_query *query, const char *leave_out, struct rg_buf *out,
                           struct pair *pairs)
{
    struct span left_out = rg_span_text(leave_out);
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        const struct rg_query_param *param = &query->params[i];
        if (leave_out && rg_span_eq(param->name, left_out)) {
            continue;
        }
        if (count) {
            rg_buf_add_char(out, '&');
        }
        size_t start = out->len;
        rg_url_encode(param->name, RG_URL_SLASH_ENCODED, out);
        pairs[count].name.len = out->len - start;
        rg_buf_add_char(out, '=');
        start = out->len;
        rg_url_encode(param->value, RG_URL_SLASH_ENCODED, out);
        pairs[count].value.len = out->len - start;
        count++;
    }
    return count;
}

/* Sets the pointers, when the text no longer moves. True when all stand in their order. */
static bool place_pairs(const char *at, struct pair *pairs, size_t count)
{
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        pairs[i].name.ptr = at;
        at += pairs[i].name.len + 1;
        pairs[i].value.ptr = at;
        at += pairs[i].value.len + 1;
        sorted = sorted && (i == 0 || compare_pairs(&pairs[i - 1], &pairs[i]) <= 0);
    }
    return sorted;
}

/* Writes the pairs in their order over the text of out, from `start`, that they point into. */
static int sort_pairs(struct pair *pairs, size_t count, struct rg_buf *out, size_t start,
                      struct rg_error *err)
{
    RG_BUF(text, out->max);
    rg_buf_add(&text, out->data + start, out->len - start);
    if (!rg_buf_ok(&text)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    place_pairs(rg_buf_text(&text), pairs, count);
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    char *at = out->data + start;
    for (size_t i = 0; i < count; i++) {
        if (i) {
            *at++ = '&';
        }
        at = mempcpy(at, pairs[i].name.ptr, pairs[i].name.len);
        *at++ = '=';
        at = mempcpy(at, pairs[i].value.ptr, pairs[i].value.len);
    }
    return 0;
}

int rg_query_canonical(const struct rg_query *query, const char *leave_out, struct rg_buf *out,
                       struct rg_error *err)
{
    struct pair some[16];
    rg_autofree struct pair *many = NULL;
    struct pair *pairs = some;
    if (query->count > RG_ARRAY_LENGTH(some)) {
        pairs = many = calloc(query->count, sizeof *many);
    }
    if (!pairs) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    size_t start = out->len;
    size_t count = encode_pairs(query, leave_out, out, pairs);
    if (!rg_buf_ok(out)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    /* Clients send their parameters in order, as a rule. */
    return place_pairs(rg_buf_text(out) + start, pairs, count)
               ? 0
               : sort_pairs(pairs, count, out, start, err);
}
