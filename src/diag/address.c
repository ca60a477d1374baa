/*
 * Addresses by their shape alone. A version with four numbers looks like an address too, and is
 * taken for one.
 */
#include "diag/address.h"

#include "base/attr.h"
#include "base/checked.h"

#include <ctype.h>
#include <string.h>

static bool is_name_byte(char byte)
{
    return isalnum((unsigned char)byte) != 0;
}

size_t rg_address_ipv4_length(struct span text)
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        size_t digits = 0;
        while (at < text.len && isdigit((unsigned char)text.ptr[at]) && digits < 4) {
            at++;
            digits++;
        }
        if (digits == 0 || digits > 3) {
            return 0;
        }
        if (part < 3 && (at == text.len || text.ptr[at++] != '.')) {
            return 0;
        }
    }
    bool more =
        at + 1 < text.len && text.ptr[at] == '.' && isdigit((unsigned char)text.ptr[at + 1]);
    return more ? 0 : at;
}

static size_t colon_length(struct span text)
{
    size_t at = 0;
    while (at < text.len && (isxdigit((unsigned char)text.ptr[at]) || text.ptr[at] == ':')) {
        at++;
    }
    while (at > 0 && text.ptr[at - 1] == ':' && !(at > 1 && text.ptr[at - 2] == ':')) {
        at--;
    }
    return at;
}

/* An IPv6 address, a GID or a MAC address; not a time, a file:line or a PCI address. */
bool rg_address_is_colon(struct span token)
{
    size_t colons = 0;
    bool doubled = false;
    bool pairs = true;
    bool fours = true;
    size_t digits = 0;
    for (size_t i = 0; i < token.len; i++) {
        if (token.ptr[i] == ':') {
            doubled |= i > 0 && token.ptr[i - 1] == ':';
            pairs &= digits == 2;
            fours &= digits == 4;
            colons++;
            digits = 0;
        } else if (++digits > 4) {
            return false;
        }
    }
    pairs &= digits == 2;
    fours &= digits == 4;
    return (doubled && colons >= 2 && colons <= 7 && token.len > 2) || colons == 7 ||
           (pairs && (colons == 5 || colons == 19)) || (fours && colons == 3);
}

/* The same with the last four bytes as in IPv4: ::ffff:192.0.2.1. */
static size_t with_ipv4(struct span text, size_t token)
{
    size_t last = token;
    while (last > 0 && text.ptr[last - 1] != ':') {
        last--;
    }
    size_t len = last ? rg_address_ipv4_length(rg_span_skip(text, last)) : 0;
    return len ? last + len : token;
}

size_t rg_address_hex_length(struct span text)
{
    size_t at = 0;
    while (at < text.len && isxdigit((unsigned char)text.ptr[at])) {
        at++;
    }
    return at;
}

/* A MAC address with hyphens. */
static size_t hyphen_length(struct span text)
{
    for (size_t at = 0; at + 2 <= text.len; at += 3) {
        if (rg_address_hex_length(rg_span_head(rg_span_skip(text, at), 3)) != 2) {
            return 0;
        }
        if (at == 15) {
            bool more = text.len > 17 && (is_name_byte(text.ptr[17]) || text.ptr[17] == '-');
            return more ? 0 : 17;
        }
        if (at + 2 == text.len || text.ptr[at + 2] != '-') {
            return 0;
        }
    }
    return 0;
}

/* A MAC address as switches write it: aabb.ccdd.eeff. */
static size_t dotted_length(struct span text)
{
    for (size_t at = 0; at + 4 <= text.len; at += 5) {
        if (rg_address_hex_length(rg_span_head(rg_span_skip(text, at), 5)) != 4) {
            return 0;
        }
        if (at == 10) {
            bool more = text.len > 15 && text.ptr[14] == '.' && is_name_byte(text.ptr[15]);
            return more ? 0 : 14;
        }
        if (at + 4 == text.len || text.ptr[at + 4] != '.') {
            return 0;
        }
    }
    return 0;
}

/* One of the words stands right before `at`, but for a few bytes. */
static bool is_behind(struct span text, size_t at, const char *const *words, size_t count)
{
    struct span before = rg_span_head(text, at);
    before = rg_span_skip(before, at - RG_MIN(at, (size_t)14));
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(words[i]);
        for (size_t k = 0; k + len <= before.len; k++) {
            if (strncasecmp(before.ptr + k, words[i], len) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A number of 16 digits that cannot be a GUID: a pointer, a count, a lock's or an export's handle
 * (which means nothing outside the server's memory). */
static bool is_no_guid(struct span text, size_t at, struct span digits)
{
    static const char *const handles[] = {"remote: ", "handle ", "handle: ", "cookie ",
                                          "cookie: ", "from 0x", "export "};
    bool letters = false;
    for (size_t i = 0; i < digits.len; i++) {
        letters |= isalpha((unsigned char)digits.ptr[i]) != 0;
    }
    return !letters || rg_span_starts(digits, RG_SPAN_LITERAL("ffff")) ||
           rg_span_starts(digits, RG_SPAN_LITERAL("00000000")) ||
           (at > 0 && strchr("/@", text.ptr[at - 1])) ||
           is_behind(text, at, handles, RG_ARRAY_LENGTH(handles));
}

/* A GUID in one piece: 16 digits, or 32 of a GID. */
static size_t guid_length(struct span text, size_t at)
{
    static const char *const names[] = {"guid"};
    struct span rest = rg_span_skip(text, at);
    size_t prefix = rg_span_starts(rest, RG_SPAN_LITERAL("0x")) ? 2 : 0;
    struct span digits = rg_span_skip(rest, prefix);
    size_t len = rg_address_hex_length(digits);
    if ((len != 16 && len != 32) || (len < digits.len && is_name_byte(digits.ptr[len]))) {
        return 0;
    }
    bool named = is_behind(text, at, names, RG_ARRAY_LENGTH(names));
    return named || !is_no_guid(text, at, rg_span_head(digits, len)) ? prefix + len : 0;
}

size_t rg_address_length(struct span text, size_t at)
{
    struct span rest = rg_span_skip(text, at);
    char before = at ? text.ptr[at - 1] : ' ';
    size_t len = before == '.' || isdigit((unsigned char)before) ? 0 : rg_address_ipv4_length(rest);
    if (!len && !is_name_byte(before) && before != ':') {
        size_t token = colon_length(rest);
        bool ends = token == rest.len || !is_name_byte(rest.ptr[token]);
        len = ends && rg_address_is_colon(rg_span_head(rest, token)) ? with_ipv4(rest, token) : 0;
    }
    if (!len && !is_name_byte(before)) {
        len = before == '-' ? 0 : hyphen_length(rest);
        len = len || before == '.' ? len : dotted_length(rest);
        len = len ? len : guid_length(text, at);
    }
    return len;
}
