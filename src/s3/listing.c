/*
 * The order of keys, grouping by delimiter, and continuation tokens.
 */
#include "s3/listing.h"

#include "base/checked.h"
#include "base/encode.h"
#include "s3/sha256.h"

/* ---- Order and grouping ---- */

/* The name as its key continues: "/" behind a directory. -1 behind the end sorts before any byte.
 */
static int byte_at(struct span name, bool is_directory, size_t i)
{
    if (i < name.len) {
        return (unsigned char)name.ptr[i];
    }
    return i == name.len && is_directory ? '/' : -1;
}

int rg_name_compare(struct span a, bool a_is_directory, struct span b, bool b_is_directory)
{
    size_t common = RG_MIN(a.len, b.len);
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    for (size_t i = common; order == 0 && i <= common + 1; i++) {
        order = byte_at(a, a_is_directory, i) - byte_at(b, b_is_directory, i);
    }
    return order;
}

struct span rg_common_prefix(struct span key, struct span prefix, struct span delimiter)
{
    if (delimiter.len == 0 || !rg_span_starts(key, prefix)) {
        return RG_SPAN_EMPTY;
    }
    struct span rest = rg_span_skip(key, prefix.len);
    const char *found = rest.len ? memmem(rest.ptr, rest.len, delimiter.ptr, delimiter.len) : NULL;
    if (!found) {
        return RG_SPAN_EMPTY;
    }
    return rg_span_head(key, (size_t)(found - key.ptr) + delimiter.len);
}

bool rg_key_follows(struct span key, struct span after, bool after_is_prefix)
{
    return rg_key_compare(key, after) > 0 && !(after_is_prefix && rg_span_starts(key, after));
}

bool rg_prefix_reaches(struct span directory, struct span prefix)
{
    return rg_span_starts(directory, prefix) || rg_span_starts(prefix, directory);
}

void rg_prefix_end(struct span prefix, struct rg_buf *out)
{
    while (prefix.len && (unsigned char)prefix.ptr[prefix.len - 1] == 0xff) {
        prefix.len--;
    }
    if (prefix.len == 0) {
        return;
    }
    rg_buf_add(out, prefix.ptr, prefix.len - 1);
    rg_buf_add_char(out, (char)((unsigned char)prefix.ptr[prefix.len - 1] + 1));
}

/* ---- Tokens ---- */

#define TOKEN_VERSION   1
#define TOKEN_IS_PREFIX 0x01u
#define TOKEN_HEAD      2 /* version and flags */
#define TOKEN_MAC       16
#define TOKEN_KEY_MAX   4096u /* far above the longest key */
#define TOKEN_BYTES_MAX (TOKEN_HEAD + TOKEN_MAC + TOKEN_KEY_MAX)
#define SCOPE_TEXT_MAX  (16u << 10) /* of each: as long as a whole query string may be */

void rg_token_free(struct rg_token *token)
{
    free(token->after);
    *token = (struct rg_token){NULL, false};
}

static void add_counted(struct rg_buf *out, struct span bytes)
{
    uint64_t len = bytes.len;
    for (unsigned i = 0; i < 8; i++) {
        rg_buf_add_char(out, (char)(len >> (8 * i)));
    }
    rg_buf_add_span(out, bytes);
}

/* `body`: version, flags and key. */
static int authenticate(const uint8_t *hmac_key, const struct rg_token_scope *scope,
                        struct span body, uint8_t mac[TOKEN_MAC], struct rg_error *err)
{
    if (scope->bucket.len > SCOPE_TEXT_MAX || scope->prefix.len > SCOPE_TEXT_MAX ||
        scope->delimiter.len > SCOPE_TEXT_MAX) {
        return rg_failf(err, RG_LIMIT, "a listing's bucket, prefix or delimiter is too long");
    }
    RG_BUF(text, 4 * (8 + SCOPE_TEXT_MAX));
    add_counted(&text, body);
    add_counted(&text, scope->bucket);
    add_counted(&text, scope->prefix);
    add_counted(&text, scope->delimiter);
    if (!rg_buf_ok(&text)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    uint8_t full[RG_SHA256_BYTES];
    if (!rg_hmac_sha256(hmac_key, RG_TOKEN_KEY_BYTES, rg_buf_span(&text), full)) {
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto failed to compute an HMAC");
    }
    memcpy(mac, full, TOKEN_MAC);
    return 0;
}

static void to_url_alphabet(char *text)
{
    for (; *text; text++) {
        if (*text == '+') {
            *text = '-';
        } else if (*text == '/') {
            *text = '_';
        } else if (*text == '=') {
            *text = '\0';
            return;
        }
    }
}

int rg_token_make(const uint8_t hmac_key[RG_TOKEN_KEY_BYTES], const struct rg_token_scope *scope,
                  struct span after, bool after_is_prefix, struct rg_buf *out, struct rg_error *err)
{
    if (after.len == 0 || after.len > TOKEN_KEY_MAX) {
        return rg_failf(err, RG_INTERNAL_ERROR, "a continuation token needs a key of 1 to %u bytes",
                        TOKEN_KEY_MAX);
    }
    RG_BUF(bytes, TOKEN_BYTES_MAX);
    rg_buf_add_char(&bytes, TOKEN_VERSION);
    rg_buf_add_char(&bytes, after_is_prefix ? TOKEN_IS_PREFIX : 0);
    rg_buf_add_span(&bytes, after);
    uint8_t mac[TOKEN_MAC];
    int rc = rg_buf_ok(&bytes) ? authenticate(hmac_key, scope, rg_buf_span(&bytes), mac, err)
                               : rg_fail(err, RG_OUT_OF_MEMORY);
    if (rc) {
        return rc;
    }
    rg_buf_add(&bytes, mac, sizeof(mac));
    char *text = rg_buf_reserve(out, RG_BASE64_LENGTH(TOKEN_BYTES_MAX) + 1);
    if (!rg_buf_ok(&bytes) || !text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    rg_base64_encode(bytes.data, bytes.len, text);
    to_url_alphabet(text);
    rg_buf_grew(out, strlen(text));
    return 0;
}

/* base64url without padding; false when malformed. */
static bool decode(struct span text, uint8_t *bytes, size_t room, size_t *ret_len)
{
    char standard[RG_BASE64_LENGTH(TOKEN_BYTES_MAX) + 4];
    if (text.len + 3 >= sizeof(standard)) {
        return false;
    }
    size_t len = 0;
    for (; len < text.len; len++) {
        char c = text.ptr[len];
        if (c == '+' || c == '/' || c == '=') {
            return false;
        }
        standard[len] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    while (len % 4) {
        standard[len++] = '=';
    }
    return rg_base64_decode(rg_span(standard, len), bytes, room, ret_len);
}

int rg_token_read(const uint8_t hmac_key[RG_TOKEN_KEY_BYTES], const struct rg_token_scope *scope,
                  struct span text, struct rg_token *ret_token, struct rg_error *err)
{
    static const char incorrect[] = "The continuation token provided is incorrect";
    uint8_t bytes[TOKEN_BYTES_MAX + 3];
    size_t len;
    if (!decode(text, bytes, sizeof(bytes), &len) || len <= TOKEN_HEAD + TOKEN_MAC) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "%s", incorrect);
    }
    struct span body = rg_span(bytes, len - TOKEN_MAC);
    uint8_t mac[TOKEN_MAC];
    int rc = authenticate(hmac_key, scope, body, mac, err);
    if (rc) {
        return rc;
    }
    if (!rg_equal_constant_time(mac, bytes + len - TOKEN_MAC, TOKEN_MAC) ||
        bytes[0] != TOKEN_VERSION) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "%s", incorrect);
    }
    char *after = rg_span_dup(rg_span_skip(body, TOKEN_HEAD));
    if (!after) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_token = (struct rg_token){.after = after, .after_is_prefix = bytes[1] & TOKEN_IS_PREFIX};
    return 0;
}
