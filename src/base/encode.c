#include "base/encode.h"

#include <string.h>

int rg_hex_digit(char c)
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

bool rg_hex_to_u64(struct span digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (digits.len == 0 || digits.len > 16) {
        return false;
    }
    for (size_t i = 0; i < digits.len; i++) {
        int digit = rg_hex_digit(digits.ptr[i]);
        if (digit < 0) {
            return false;
        }
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}

bool rg_hex_has_shape(struct span text, const char *shape)
{
    if (text.len != strlen(shape)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (shape[i] == 'x' ? rg_hex_digit(text.ptr[i]) < 0 : text.ptr[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

void rg_hex_encode(const void *bytes, size_t len, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;
    for (size_t i = 0; i < len; i++) {
        text[2 * i] = digits[in[i] >> 4];
        text[2 * i + 1] = digits[in[i] & 15];
    }
    text[2 * len] = '\0';
}

bool rg_hex_decode(struct span hex, void *bytes, size_t len)
{
    uint8_t *out = bytes;
    if (hex.len != 2 * len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int high = rg_hex_digit(hex.ptr[2 * i]);
        int low = rg_hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void rg_base64_encode(const void *bytes, size_t len, char *text)
{
    const uint8_t *in = bytes;
    size_t at = 0;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t group = (uint32_t)in[i] << 16;
        if (left > 1) {
            group |= (uint32_t)in[i + 1] << 8;
        }
        if (left > 2) {
            group |= in[i + 2];
        }
        text[at++] = base64_alphabet[group >> 18];
        text[at++] = base64_alphabet[group >> 12 & 63];
        text[at++] = left > 1 ? base64_alphabet[group >> 6 & 63] : '=';
        text[at++] = left > 2 ? base64_alphabet[group & 63] : '=';
    }
    text[at] = '\0';
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool rg_base64_decode(struct span text, void *bytes, size_t room, size_t *ret_len)
{
    uint8_t *out = bytes;
    if (text.len % 4 != 0) {
        return false;
    }
    size_t padding = 0;
    if (text.len && text.ptr[text.len - 1] == '=') {
        padding = text.ptr[text.len - 2] == '=' ? 2 : 1;
    }
    size_t len = text.len / 4 * 3 - padding;
    if (len > room) {
        return false;
    }
    size_t at = 0;
    for (size_t i = 0; i < text.len; i += 4) {
        size_t digits = i + 4 == text.len ? 4 - padding : 4;
        uint32_t group = 0;
        for (size_t j = 0; j < 4; j++) {
            int digit = j < digits ? base64_digit(text.ptr[i + j]) : 0;
            if (digit < 0) {
                return false;
            }
            group = group << 6 | (uint32_t)digit;
        }
        if ((digits == 2 && (group & 0xffff)) || (digits == 3 && (group & 0xff))) {
            return false;
        }
        for (size_t j = 0; j + 1 < digits; j++) {
            out[at++] = (uint8_t)(group >> (16 - 8 * j));
        }
    }
    *ret_len = len;
    return true;
}

bool rg_equal_constant_time(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    uint8_t difference = 0;
    for (size_t i = 0; i < len; i++) {
        difference |= x[i] ^ y[i];
    }
    return difference == 0;
}
