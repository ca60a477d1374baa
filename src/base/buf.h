/*
 * A growable byte buffer with a ceiling. Appending past the ceiling, or running out of memory,
 * marks the buffer as failed; later appends do nothing. Check once, with rg_buf_ok, at the end.
 *
 *   RG_BUF(xml, 1 << 20);              // declared, freed at scope exit
 *   rg_buf_add_text(&xml, "<Error>");
 *   if (!rg_buf_ok(&xml)) ...
 */
#ifndef RG_BASE_BUF_H
#define RG_BASE_BUF_H

#include "base/attr.h"
#include "base/span.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct rg_buf {
    char *data; /* NUL-terminated when not NULL */
    size_t len;
    size_t room;
    size_t max; /* bytes, without the terminator */
    bool failed;
};

#define RG_BUF_INIT(max_bytes)                                                                     \
    {                                                                                              \
        .max = (max_bytes)                                                                         \
    }
#define RG_BUF(name, max_bytes) RG_CLEANUP(rg_buf_free) struct rg_buf name = RG_BUF_INIT(max_bytes)

void rg_buf_free(struct rg_buf *buf);

/* Forgets the content and a failure, keeps the memory. */
void rg_buf_clear(struct rg_buf *buf);

void rg_buf_add(struct rg_buf *buf, const void *bytes, size_t len);
void rg_buf_add_span(struct rg_buf *buf, struct span span);
void rg_buf_add_text(struct rg_buf *buf, const char *text);
void rg_buf_add_char(struct rg_buf *buf, char c);
/* As text of an HTML page, or as an attribute in quotes. Other bytes stay as they are. */
void rg_buf_add_html(struct rg_buf *buf, const char *text);
void rg_buf_addf(struct rg_buf *buf, const char *format, ...) RG_PRINTF(2, 3);
void rg_buf_addv(struct rg_buf *buf, const char *format, va_list args) RG_PRINTF(2, 0);

/* Makes room for `len` more bytes and returns where they go; NULL when that fails. The caller
 * writes there and then calls rg_buf_grew. */
char *rg_buf_reserve(struct rg_buf *buf, size_t len);
void rg_buf_grew(struct rg_buf *buf, size_t len);

static inline bool rg_buf_ok(const struct rg_buf *buf)
{
    return !buf->failed;
}

static inline struct span rg_buf_span(const struct rg_buf *buf)
{
    return buf->data ? rg_span(buf->data, buf->len) : RG_SPAN_EMPTY;
}

/* The content as a C string: never NULL, owned by the buffer, valid until the next call on it. */
static inline const char *rg_buf_text(const struct rg_buf *buf)
{
    return buf->data ? buf->data : "";
}

/* Moves the malloc'ed content out (NUL-terminated); NULL if the buffer failed or out of memory. */
char *rg_buf_take(struct rg_buf *buf);

#endif
