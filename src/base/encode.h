/*
 * Hexadecimal and base64 (RFC 4648, section 4, with padding).
 */
#ifndef RG_BASE_ENCODE_H
#define RG_BASE_ENCODE_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of one digit of either case; -1 when it is none. */
int rg_hex_digit(char c);

/* The number of 1 to 16 digits of either case, and nothing else; false leaves *ret_value alone. */
bool rg_hex_to_u64(struct span digits, uint64_t *ret_value);

/* Whether the text has a digit wherever `shape` has an 'x', and is the same elsewhere: "xx:xx". */
bool rg_hex_has_shape(struct span text, const char *shape);

/* Lower-case hex of `len` bytes and a NUL: text must have room for 2 * len + 1. */
void rg_hex_encode(const void *bytes, size_t len, char *text);

/* Both cases accepted. False unless hex.len == 2 * len and all digits are valid. */
bool rg_hex_decode(struct span hex, void *bytes, size_t len);

#define RG_BASE64_LENGTH(bytes) (((bytes) + 2) / 3 * 4)

/* Text must have room for RG_BASE64_LENGTH(len) + 1. */
void rg_base64_encode(const void *bytes, size_t len, char *text);

/*
 * Strict: canonical alphabet, padding required, no white space, unused bits zero.
 * False when malformed or longer than `room`; *ret_len is set on success.
 */
bool rg_base64_decode(struct span text, void *bytes, size_t room, size_t *ret_len);

/* Comparison whose time does not depend on where the bytes differ. */
bool rg_equal_constant_time(const void *a, const void *b, size_t len);

#endif
