#include "base/buf.h"

#include "base/assert.h"
#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rg_buf_free(struct rg_buf *buf)
{
    free(buf->data);
    *buf = (struct rg_buf){.max = buf->max};
}

void rg_buf_clear(struct rg_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data) {
        buf->data[0] = '\0';
    }
}

char *rg_buf_reserve(struct rg_buf *buf, size_t len)
{
    if (buf->failed) {
        return NULL;
    }
    size_t want;
    if (!rg_add_checked(buf->len, len, &want) || want > buf->max) {
        buf->failed = true;
        return NULL;
    }
    if (want + 1 > buf->room) {
        size_t room = RG_MAX(buf->room * 2, (size_t)128);
        room = RG_MAX(room, want + 1);
        char *data = realloc(buf->data, room);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->room = room;
    }
    return buf->data + buf->len;
}

void rg_buf_grew(struct rg_buf *buf, size_t len)
{
    RG_ASSERT(buf->len + len + 1 <= buf->room);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void rg_buf_add(struct rg_buf *buf, const void *bytes, size_t len)
{
    char *at = rg_buf_reserve(buf, len);
    if (at) {
        if (len) {
            memcpy(at, bytes, len);
        }
        rg_buf_grew(buf, len);
    }
}

void rg_buf_add_span(struct rg_buf *buf, struct span span)
{
    rg_buf_add(buf, span.ptr, span.len);
}

void rg_buf_add_text(struct rg_buf *buf, const char *text)
{
    rg_buf_add(buf, text, strlen(text));
}

void rg_buf_add_char(struct rg_buf *buf, char c)
{
    rg_buf_add(buf, &c, 1);
}

void rg_buf_add_html(struct rg_buf *buf, const char *text)
{
    for (const char *at = text; *at; at++) {
        switch (*at) {
        case '<':
            rg_buf_add_text(buf, "&lt;");
            break;
        case '>':
            rg_buf_add_text(buf, "&gt;");
            break;
        case '&':
            rg_buf_add_text(buf, "&amp;");
            break;
        case '"':
            rg_buf_add_text(buf, "&quot;");
            break;
        case '\'':
            rg_buf_add_text(buf, "&#39;");
            break;
        default:
            rg_buf_add_char(buf, *at);
        }
    }
}

void rg_buf_addv(struct rg_buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len < 0) {
        buf->failed = true;
    } else {
        char *at = rg_buf_reserve(buf, (size_t)len);
        if (at) {
            vsnprintf(at, (size_t)len + 1, format, again);
            rg_buf_grew(buf, (size_t)len);
        }
    }
    va_end(again);
}

void rg_buf_addf(struct rg_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rg_buf_addv(buf, format, args);
    va_end(args);
}

char *rg_buf_take(struct rg_buf *buf)
{
    char *data = NULL;
    if (!buf->failed && rg_buf_reserve(buf, 0)) {
        rg_buf_grew(buf, 0);
        data = buf->data;
        buf->data = NULL;
    }
    rg_buf_free(buf);
    return data;
}
