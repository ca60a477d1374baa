/*
 * Walking text. See words.h.
 */
#include "host/words.h"

#include "base/checked.h"

#include <stdio.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool rg_words_line(struct span *rest, struct span *ret_line)
{
    if (!rest->ptr || rest->len == 0) {
        return false;
    }
    *ret_line = rg_span_cut(rest, '\n');
    if (!rest->ptr) {
        *rest = RG_SPAN_EMPTY;
    }
    if (ret_line->len && ret_line->ptr[ret_line->len - 1] == '\r') {
        ret_line->len--;
    }
    return true;
}

bool rg_words_next(struct span *rest, struct span *ret_word)
{
    size_t begin = 0;
    while (begin < rest->len && is_blank(rest->ptr[begin])) {
        begin++;
    }
    size_t end = begin;
    while (end < rest->len && !is_blank(rest->ptr[end])) {
        end++;
    }
    if (begin == end) {
        return false;
    }
    *ret_word = rg_span(rest->ptr + begin, end - begin);
    *rest = rg_span_skip(*rest, end);
    return true;
}

static struct span trim(struct span text)
{
    while (text.len && (is_blank(text.ptr[0]) || text.ptr[0] == '\n' || text.ptr[0] == '\r')) {
        text = rg_span_skip(text, 1);
    }
    while (text.len && (is_blank(text.ptr[text.len - 1]) || text.ptr[text.len - 1] == '\n' ||
                        text.ptr[text.len - 1] == '\r')) {
        text.len--;
    }
    return text;
}

struct span rg_words_bare(struct span text)
{
    text = trim(text);
    if (text.len >= 2 && (text.ptr[0] == '"' || text.ptr[0] == '\'') &&
        text.ptr[text.len - 1] == text.ptr[0]) {
        text = rg_span(text.ptr + 1, text.len - 2);
    }
    return text;
}

bool rg_words_copy(char *text, size_t room, struct span from)
{
    size_t len = RG_MIN(from.len, room - 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)from.ptr[i];
        text[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    text[len] = '\0';
    return len == from.len;
}

bool rg_words_pair(struct span line, char separator, struct span *ret_name, struct span *ret_value)
{
    ptrdiff_t at = rg_span_find(line, separator);
    if (at < 0) {
        return false;
    }
    *ret_name = trim(rg_span_head(line, (size_t)at));
    *ret_value = trim(rg_span_skip(line, (size_t)at + 1));
    return true;
}

bool rg_words_has(struct span list, char separator, const char *part)
{
    struct span rest = list;
    while (rest.ptr) {
        if (rg_span_is(trim(rg_span_cut(&rest, separator)), part)) {
            return true;
        }
    }
    return false;
}

static bool hex_number(struct span digits, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (digits.len == 0 || digits.len > 16) {
        return false;
    }
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (unsigned)(c - 'A') + 10;
        } else {
            return false;
        }
        number = number << 4 | digit;
    }
    *ret_number = number;
    return true;
}

bool rg_words_number(struct span text, uint64_t *ret_number)
{
    text = trim(text);
    if (text.len > 2 && text.ptr[0] == '0' && (text.ptr[1] == 'x' || text.ptr[1] == 'X')) {
        return hex_number(rg_span_skip(text, 2), ret_number);
    }
    return rg_span_to_u64(text, ret_number);
}

bool rg_words_signed(struct span text, int64_t *ret_number)
{
    text = trim(text);
    bool negative = text.len && text.ptr[0] == '-';
    uint64_t number;
    if (!rg_span_to_u64(negative ? rg_span_skip(text, 1) : text, &number) || number > INT64_MAX) {
        return false;
    }
    *ret_number = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

bool rg_words_bytes(struct span text, uint64_t *ret_bytes)
{
    text = trim(text);
    if (rg_span_is(text, "infinity") || rg_span_is(text, "unlimited") || rg_span_is(text, "max")) {
        *ret_bytes = RG_WORDS_UNLIMITED;
        return true;
    }
    /* "64 MB" is written too, where settings have "64m" or "64MiB". */
    char plain[32];
    struct span unit = text;
    while (unit.len && unit.ptr[0] >= '0' && unit.ptr[0] <= '9') {
        unit = rg_span_skip(unit, 1);
    }
    struct span digits = rg_span_head(text, text.len - unit.len);
    unit = trim(unit);
    if (unit.len && unit.len <= 2 && (unit.ptr[unit.len - 1] | 0x20) == 'b') {
        unit.len--;
    }
    int len = snprintf(plain, sizeof plain, "%.*s%.*s", RG_SPAN_ARG(digits), RG_SPAN_ARG(unit));
    return digits.len && (size_t)len < sizeof plain &&
           rg_span_to_size(rg_span_text(plain), ret_bytes);
}
