/*
 * Shell lines out of formats. See shell_words.h.
 */
#include "host/shell_words.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

#define PIECE_MAX 64 /* of a number */

enum quotes { QUOTES_NONE, QUOTES_SINGLE, QUOTES_DOUBLE, QUOTES_COMMENT };

static bool is_plain(const char *word, size_t len)
{
    static const char others[] = "@%+=:,./_-";
    for (size_t i = 0; i < len; i++) {
        char c = word[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !strchr(others, c)) {
            return false;
        }
    }
    return true;
}

/* A line feed would end a comment, and what follows would be a command. */
static char visible(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

static void add_char(struct rg_buf *out, enum quotes quotes, char c)
{
    if (quotes == QUOTES_SINGLE && c == '\'') {
        rg_buf_add_text(out, "'\\''");
        return;
    }
    if (quotes == QUOTES_DOUBLE && strchr("\"$`\\", c)) {
        rg_buf_add_char(out, '\\');
    }
    rg_buf_add_char(out, visible(c));
}

static void add_word(struct rg_buf *out, enum quotes quotes, const char *word, size_t len)
{
    bool wraps = quotes == QUOTES_NONE && !is_plain(word, len);
    if (wraps) {
        rg_buf_add_char(out, '\'');
        quotes = QUOTES_SINGLE;
    }
    for (size_t i = 0; i < len; i++) {
        add_char(out, quotes, word[i]);
    }
    if (wraps) {
        rg_buf_add_char(out, '\'');
    }
}

static enum quotes follow(enum quotes quotes, const char *format, const char *at)
{
    bool begins_word = at == format || at[-1] == ' ' || at[-1] == '\n';
    switch (quotes) {
    case QUOTES_NONE:
        return *at == '\''                 ? QUOTES_SINGLE
               : *at == '"'                ? QUOTES_DOUBLE
               : *at == '#' && begins_word ? QUOTES_COMMENT
                                           : QUOTES_NONE;
    case QUOTES_SINGLE:
        return *at == '\'' ? QUOTES_NONE : quotes;
    case QUOTES_DOUBLE:
        return *at == '"' ? QUOTES_NONE : quotes;
    case QUOTES_COMMENT:
        return *at == '\n' ? QUOTES_NONE : quotes;
    }
    return quotes;
}

/* A conversion of a number, which needs no quotes. */
static void add_number(struct rg_buf *out, const char *spec, size_t len, va_list *args)
{
    char one[PIECE_MAX], text[PIECE_MAX];
    snprintf(one, sizeof one, "%.*s", (int)len, spec);
    bool is_size = memchr(spec, 'z', len) != NULL;
    bool is_long = memchr(spec, 'l', len) != NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (is_size) {
        snprintf(text, sizeof text, one, va_arg(*args, size_t));
    } else if (len > 2 && spec[len - 2] == 'l' && spec[len - 3] == 'l') {
        snprintf(text, sizeof text, one, va_arg(*args, long long));
    } else if (is_long) {
        snprintf(text, sizeof text, one, va_arg(*args, long));
    } else {
        snprintf(text, sizeof text, one, va_arg(*args, int));
    }
#pragma GCC diagnostic pop
    rg_buf_add_text(out, text);
}

void rg_shell_compose(struct rg_buf *out, const char *format, va_list args)
{
    enum quotes quotes = QUOTES_NONE;
    va_list rest;
    va_copy(rest, args);
    for (const char *at = format; *at; at++) {
        if (*at != '%') {
            quotes = follow(quotes, format, at);
            rg_buf_add_char(out, *at);
            continue;
        }
        size_t len = 1 + strcspn(at + 1, "sduxXc%") + 1;
        char kind = at[len - 1];
        if (kind == '%') {
            rg_buf_add_char(out, '%');
        } else if (kind == 's') {
            int most = len == 4 && at[1] == '.' && at[2] == '*' ? va_arg(rest, int) : -1;
            const char *word = va_arg(rest, const char *);
            add_word(out, quotes, word, most < 0 ? strlen(word) : strnlen(word, (size_t)most));
        } else {
            add_number(out, at, len, &rest);
        }
        at += len - 1;
    }
    va_end(rest);
}
