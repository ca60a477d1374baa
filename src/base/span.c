#include "base/span.h"

#include "base/checked.h"

#include <stdlib.h>

int rg_span_compare(struct span a, struct span b)
{
    size_t shared = RG_MIN(a.len, b.len);
    int order = shared ? memcmp(a.ptr, b.ptr, shared) : 0;
    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

uint64_t rg_span_hash(struct span a)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < a.len; i++) {
        hash = (hash ^ (unsigned char)a.ptr[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct span rg_span_trim(struct span a)
{
    while (a.len && is_blank(a.ptr[0])) {
        a.ptr++;
        a.len--;
    }
    while (a.len && is_blank(a.ptr[a.len - 1])) {
        a.len--;
    }
    return a;
}

struct span rg_span_cut(struct span *rest, char separator)
{
    const char *at = rest->len ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (!at) {
        struct span all = rest->ptr ? *rest : RG_SPAN_EMPTY;
        *rest = (struct span){NULL, 0};
        return all;
    }
    size_t len = (size_t)(at - rest->ptr);
    struct span head = rg_span(rest->ptr, len);
    *rest = rg_span(at + 1, rest->len - len - 1);
    return head;
}

ptrdiff_t rg_span_find(struct span a, char byte)
{
    const char *at = a.len ? memchr(a.ptr, byte, a.len) : NULL;
    return at ? at - a.ptr : -1;
}

bool rg_span_to_u64(struct span a, uint64_t *ret_value)
{
    if (a.len == 0) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < a.len; i++) {
        if (a.ptr[i] < '0' || a.ptr[i] > '9') {
            return false;
        }
        if (!rg_mul_checked(value, (uint64_t)10, &value) ||
            !rg_add_checked(value, (uint64_t)(a.ptr[i] - '0'), &value)) {
            return false;
        }
    }
    *ret_value = value;
    return true;
}

bool rg_span_to_size(struct span a, uint64_t *ret_bytes)
{
    static const char units[] = "kmgtpe";
    size_t digits = 0;
    while (digits < a.len && a.ptr[digits] >= '0' && a.ptr[digits] <= '9') {
        digits++;
    }
    struct span unit = rg_span_skip(a, digits);
    uint64_t factor = 1;
    if (unit.len) {
        const char *at = memchr(units, unit.ptr[0] | 0x20, sizeof units - 1);
        if (!at || (unit.len > 1 && !rg_span_is_nocase(rg_span_skip(unit, 1), "ib"))) {
            return false;
        }
        factor = (uint64_t)1 << (10 * (at - units + 1));
    }
    uint64_t number;
    if (!rg_span_to_u64(rg_span_head(a, digits), &number) ||
        !rg_mul_checked(number, factor, &number)) {
        return false;
    }
    *ret_bytes = number;
    return true;
}

char *rg_span_dup(struct span a)
{
    char *copy = malloc(a.len + 1);
    if (!copy) {
        return NULL;
    }
    if (a.len) {
        memcpy(copy, a.ptr, a.len);
    }
    copy[a.len] = '\0';
    return copy;
}

/* Bytes in the sequence that starts at `s`, or 0 when it is malformed. */
static size_t utf8_sequence(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80) {
        return 1;
    }
    size_t len;
    uint32_t point;
    uint32_t least;
    if ((s[0] & 0xe0) == 0xc0) {
        len = 2;
        point = s[0] & 0x1f;
        least = 0x80;
    } else if ((s[0] & 0xf0) == 0xe0) {
        len = 3;
        point = s[0] & 0x0f;
        least = 0x800;
    } else if ((s[0] & 0xf8) == 0xf0) {
        len = 4;
        point = s[0] & 0x07;
        least = 0x10000;
    } else {
        return 0;
    }
    if (len > left) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (s[i] & 0x3f);
    }
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
        return 0;
    }
    return len;
}

bool rg_span_is_utf8(struct span a)
{
    const unsigned char *s = (const unsigned char *)a.ptr;
    size_t at = 0;
    while (at < a.len) {
        size_t len = utf8_sequence(s + at, a.len - at);
        if (len == 0) {
            return false;
        }
        at += len;
    }
    return true;
}
