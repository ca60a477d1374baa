/*
 * The arithmetic of SigV4: canonical request, string to sign, signing key, comparison. Works on a
 * struct rg_sigv4 however it came about: read from a request (sigv4_parse.c) or made by the signer
 * (sigv4_sign.c).
 */
#include "s3/sigv4.h"

#include "base/assert.h"
#include "base/encode.h"
#include "s3/sha256.h"

#include <openssl/crypto.h>

#include <string.h>

/* Longer secrets than AWS's 40 characters are fine; an end has to be somewhere. */
#define SECRET_MAX 512u

/* Bytes of most canonical requests, so that the buffer grows once. */
#define CANONICAL_USUAL 1000u

void rg_sigv4_free(struct rg_sigv4 *auth)
{
    if (!auth->query_is_borrowed) {
        rg_query_free(&auth->query);
    }
    *auth = (struct rg_sigv4){.kind = RG_AUTH_ANONYMOUS};
}

static int hmac(const void *key, size_t key_len, struct span text, unsigned char out[32],
                struct rg_error *err)
{
    if (!rg_hmac_sha256(key, key_len, text, out)) {
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto could not compute an HMAC.");
    }
    return 0;
}

int rg_sigv4_sign_text(const struct rg_sigv4_key *key, struct span text,
                       unsigned char ret_signature[RG_SIGV4_SIGNATURE_BYTES], struct rg_error *err)
{
    unsigned char signature[RG_SIGV4_SIGNATURE_BYTES];
    int result = hmac(key->bytes, sizeof key->bytes, text, signature, err);
    if (result == 0) {
        memcpy(ret_signature, signature, sizeof signature);
    }
    return result;
}

void rg_sigv4_key_wipe(struct rg_sigv4_key *key)
{
    OPENSSL_cleanse(key->bytes, sizeof key->bytes);
}

/* Replaces the key by the HMAC of `text` under it. */
static int extend_key(struct rg_sigv4_key *key, struct span text, struct rg_error *err)
{
    return hmac(key->bytes, sizeof key->bytes, text, key->bytes, err);
}

static int derive(const char *start, size_t len, struct rg_sigv4_scope scope,
                  struct rg_sigv4_key *key, struct rg_error *err)
{
    const struct span steps[] = {scope.region, scope.service, RG_SPAN_LITERAL("aws4_request")};
    int result = hmac(start, len, scope.date, key->bytes, err);
    for (size_t i = 0; result == 0 && i < RG_ARRAY_LENGTH(steps); i++) {
        result = extend_key(key, steps[i], err);
    }
    return result;
}

int rg_sigv4_key_derive(struct span secret, struct rg_sigv4_scope scope,
                        struct rg_sigv4_key *ret_key, struct rg_error *err)
{
    if (secret.len > SECRET_MAX) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The secret key is longer than %u bytes.",
                        SECRET_MAX);
    }
    char start[4 + SECRET_MAX] = "AWS4";
    if (secret.len) {
        memcpy(start + 4, secret.ptr, secret.len);
    }
    RG_CLEANUP(rg_sigv4_key_wipe) struct rg_sigv4_key key;
    int result = derive(start, 4 + secret.len, scope, &key, err);
    OPENSSL_cleanse(start, sizeof start);
    if (result == 0) {
        *ret_key = key;
    }
    return result;
}

bool rg_sigv4_is_signed(const struct rg_sigv4 *auth, const char *header_name)
{
    struct span rest = auth->signed_headers;
    while (rest.ptr) {
        struct span name = rg_span_cut(&rest, ';');
        if (name.len && rg_span_is(name, header_name)) {
            return true;
        }
    }
    return false;
}

/* S3 encodes the decoded path once and leaves dot segments and double slashes as they are. */
static int add_path(struct span path, struct rg_buf *out, struct rg_error *err)
{
    RG_BUF(decoded, RG_SIGV4_CANONICAL_MAX);
    int result = rg_url_decode(path.len ? path : RG_SPAN_LITERAL("/"), RG_URL_PATH, &decoded, err);
    if (result == 0) {
        rg_url_encode(rg_buf_span(&decoded), RG_URL_SLASH_KEPT, out);
    }
    return result;
}

/* Trimmed, and every run of spaces made one. */
static void add_header_value(struct span value, struct rg_buf *out)
{
    struct span rest = rg_span_trim(value);
    char *at = rg_buf_reserve(out, rest.len);
    size_t len = 0;
    for (size_t i = 0; at && i < rest.len; i++) {
        if (i && rest.ptr[i] == ' ' && rest.ptr[i - 1] == ' ') {
            continue;
        }
        at[len++] = rest.ptr[i];
    }
    if (at) {
        rg_buf_grew(out, len);
    }
}

static bool same_name(struct span lower, struct span name)
{
    return lower.len == name.len && strncasecmp(lower.ptr, name.ptr, name.len) == 0;
}

/* "name:value,value\n"; false if no such header came. */
static bool add_header(const struct rg_sigv4_request *request, struct span name, struct rg_buf *out)
{
    bool found = false;
    rg_buf_add_span(out, name);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct rg_header *header = &request->headers[i];
        if (!same_name(name, header->name)) {
            continue;
        }
        rg_buf_add_char(out, found ? ',' : ':');
        bool replaced = request->host.ptr && rg_span_is(name, "host");
        add_header_value(replaced ? request->host : header->value, out);
        found = true;
    }
    rg_buf_add_char(out, '\n');
    return found;
}

static int add_headers(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                       struct rg_buf *out, struct rg_error *err)
{
    struct span rest = auth->signed_headers;
    while (rest.ptr) {
        struct span name = rg_span_cut(&rest, ';');
        if (!add_header(request, name, out)) {
            return rg_failf(err, RG_SIGNATURE_DOES_NOT_MATCH,
                            "The header %.*s is named in SignedHeaders but did not arrive.",
                            RG_SPAN_ARG(rg_span_head(name, 64)));
        }
    }
    return 0;
}

/* Told apart from a lack of memory before anything is built. An escape takes three bytes. */
static bool fits(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request)
{
    size_t most = RG_SIGV4_CANONICAL_MAX;
    size_t len = 0;
    if (request->path.len > most || auth->signed_headers.len > most || request->method.len > most ||
        request->host.len > most) {
        return false;
    }
    len = 3 * request->path.len + 2 * auth->signed_headers.len + request->method.len +
          request->host.len + 3 * RG_QUERY_BYTES_MAX + auth->payload_text.len + 64;
    for (size_t i = 0; i < request->header_count; i++) {
        if (len > most || request->headers[i].value.len > most) {
            return false;
        }
        len += request->headers[i].name.len + request->headers[i].value.len + 2;
    }
    return len <= most;
}

int rg_sigv4_canonical_request(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                               struct rg_buf *out, struct rg_error *err)
{
    RG_ASSERT(auth->kind != RG_AUTH_ANONYMOUS);
    if (!fits(auth, request)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The request line and headers are too long to be signed.");
    }
    rg_buf_add_span(out, request->method);
    rg_buf_add_char(out, '\n');
    int result = add_path(request->path, out, err);
    if (result != 0) {
        return result;
    }
    rg_buf_add_char(out, '\n');
    const char *leave_out = auth->kind == RG_AUTH_PRESIGNED ? "X-Amz-Signature" : NULL;
    result = rg_query_canonical(&auth->query, leave_out, out, err);
    if (result != 0) {
        return result;
    }
    rg_buf_add_char(out, '\n');
    result = add_headers(auth, request, out, err);
    if (result != 0) {
        return result;
    }
    rg_buf_add_char(out, '\n');
    rg_buf_add_span(out, auth->signed_headers);
    rg_buf_add_char(out, '\n');
    rg_buf_add_span(out, auth->payload_text);
    return rg_buf_ok(out) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

int rg_sigv4_string_to_sign(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                            struct rg_buf *out, struct rg_error *err)
{
    RG_BUF(canonical, RG_SIGV4_CANONICAL_MAX);
    rg_buf_reserve(&canonical, CANONICAL_USUAL);
    int result = rg_sigv4_canonical_request(auth, request, &canonical, err);
    if (result != 0) {
        return result;
    }
    unsigned char digest[32];
    char hex[65];
    if (!rg_sha256(rg_buf_span(&canonical), digest)) {
        return rg_failf(err, RG_INTERNAL_ERROR, "libcrypto could not compute a SHA-256.");
    }
    rg_hex_encode(digest, sizeof digest, hex);
    const struct span words[] = {
        RG_SPAN_LITERAL("AWS4-HMAC-SHA256\n"),
        rg_span_text(auth->timestamp),
        RG_SPAN_LITERAL("\n"),
        auth->scope.date,
        RG_SPAN_LITERAL("/"),
        auth->scope.region,
        RG_SPAN_LITERAL("/"),
        auth->scope.service,
        RG_SPAN_LITERAL("/aws4_request\n"),
        rg_span(hex, 64),
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        rg_buf_add_span(out, words[i]);
    }
    return rg_buf_ok(out) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

int rg_sigv4_verify(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                    const struct rg_sigv4_key *key, struct rg_error *err)
{
    if (auth->kind == RG_AUTH_ANONYMOUS) {
        return rg_fail(err, RG_ACCESS_DENIED);
    }
    RG_BUF(text, 1024);
    int result = rg_sigv4_string_to_sign(auth, request, &text, err);
    if (result != 0) {
        return result;
    }
    unsigned char signature[RG_SIGV4_SIGNATURE_BYTES];
    result = rg_sigv4_sign_text(key, rg_buf_span(&text), signature, err);
    if (result != 0) {
        return result;
    }
    if (!rg_equal_constant_time(signature, auth->signature, sizeof signature)) {
        return rg_fail(err, RG_SIGNATURE_DOES_NOT_MATCH);
    }
    return 0;
}
