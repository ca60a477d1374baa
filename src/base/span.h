/*
 * A span borrows bytes that somebody else owns. It is not NUL-terminated and may hold any byte.
 */
#ifndef RG_BASE_SPAN_H
#define RG_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *ptr;
    size_t len;
};

/* printf helper: printf("%.*s", RG_SPAN_ARG(s)) */
#define RG_SPAN_ARG(span) (int)(span).len, (span).ptr

#define RG_SPAN_LITERAL(literal) ((struct span){(literal), sizeof(literal) - 1})
#define RG_SPAN_EMPTY            ((struct span){"", 0})

static inline struct span rg_span(const void *ptr, size_t len)
{
    return (struct span){(const char *)ptr, len};
}

/* Borrows a C string; NULL gives the empty span. */
static inline struct span rg_span_text(const char *text)
{
    return text ? (struct span){text, strlen(text)} : RG_SPAN_EMPTY;
}

static inline bool rg_span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool rg_span_is(struct span a, const char *text)
{
    return rg_span_eq(a, rg_span_text(text));
}

/* ASCII case-insensitive comparison, as HTTP field names want it. */
static inline bool rg_span_is_nocase(struct span a, const char *text)
{
    size_t len = strlen(text);
    return a.len == len && strncasecmp(a.ptr, text, len) == 0;
}

static inline bool rg_span_starts(struct span a, struct span prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool rg_span_ends(struct span a, struct span suffix)
{
    return a.len >= suffix.len &&
           (suffix.len == 0 || memcmp(a.ptr + a.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

/* Byte order, shorter first: the order of keys in S3 listings. Returns <0, 0 or >0. */
int rg_span_compare(struct span a, struct span b);

/* Everything after the first `count` bytes (clamped). */
static inline struct span rg_span_skip(struct span a, size_t count)
{
    return count >= a.len ? rg_span(a.ptr + a.len, 0) : rg_span(a.ptr + count, a.len - count);
}

static inline struct span rg_span_head(struct span a, size_t count)
{
    return count >= a.len ? a : rg_span(a.ptr, count);
}

/* Without leading and trailing spaces and tabs (HTTP optional white space). */
struct span rg_span_trim(struct span a);

/*
 * Cuts *rest at the first `separator`: returns what stands before it and moves *rest behind it.
 * Without a separator returns all of *rest and leaves it empty with ptr NULL, so that
 * `while (rest.ptr)` visits every field, the empty ones included.
 */
struct span rg_span_cut(struct span *rest, char separator);

/* First position of `byte`, or -1. */
ptrdiff_t rg_span_find(struct span a, char byte);

/*
 * A decimal number of digits only, without sign, white space or overflow. Leading zeros are
 * accepted. Returns false and leaves *ret_value alone otherwise.
 */
bool rg_span_to_u64(struct span a, uint64_t *ret_value);

/*
 * A number of bytes: digits, then nothing or a unit of 1,024 and its powers up to E, as "4K", "4k"
 * or "4KiB". "4KB" is not taken: to some it is 4,000. Returns false and leaves *ret_bytes alone
 * where it is anything else, or overflows.
 */
bool rg_span_to_size(struct span a, uint64_t *ret_bytes);

/* A malloc'ed NUL-terminated copy; NULL when out of memory. The caller frees it. */
char *rg_span_dup(struct span a);

/* True when some byte is NUL. */
static inline bool rg_span_has_nul(struct span a)
{
    return a.len != 0 && memchr(a.ptr, 0, a.len) != NULL;
}

/* FNV-1a of 64 bits. Some of it lies on disk (store/posix/lock.c): it never changes. */
uint64_t rg_span_hash(struct span a);

/* Well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF). */
bool rg_span_is_utf8(struct span a);

#endif
