/*
 * The other side of SigV4: signs requests, for our client and for tests. It builds the same record
 * that the parser reads and lets sigv4.c do the arithmetic.
 */
#include "s3/sigv4.h"

#include "base/encode.h"

#include <openssl/crypto.h>

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    return rg_span_compare(*(const struct span *)a, *(const struct span *)b);
}

static void add_lower(struct span text, struct rg_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        rg_buf_add_char(out, c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c);
    }
}

/* "a;b;c": every header's name in lower case, sorted, once. */
static int name_headers(const struct rg_sigv4_request *request, struct rg_buf *out,
                        struct rg_error *err)
{
    size_t count = request->header_count;
    if (count > RG_SIGV4_SIGNED_HEADERS_MAX) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "More than %u headers to sign.",
                        RG_SIGV4_SIGNED_HEADERS_MAX);
    }
    RG_BUF(text, RG_SIGV4_CANONICAL_MAX);
    struct span names[RG_SIGV4_SIGNED_HEADERS_MAX];
    for (size_t i = 0; i < count; i++) {
        add_lower(request->headers[i].name, &text);
    }
    if (!rg_buf_ok(&text)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    const char *at = rg_buf_text(&text);
    for (size_t i = 0; i < count; i++) {
        names[i] = rg_span(at, request->headers[i].name.len);
        at += names[i].len;
    }
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++) {
        if (i && rg_span_eq(names[i], names[i - 1])) {
            continue;
        }
        if (i) {
            rg_buf_add_char(out, ';');
        }
        rg_buf_add_span(out, names[i]);
    }
    return rg_buf_ok(out) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static const struct rg_header *header(const struct rg_sigv4_request *request, const char *name)
{
    return rg_header_find(request->headers, request->header_count, name);
}

static void fill_signer(struct rg_sigv4 *auth, const struct rg_sigv4_signer *signer)
{
    auth->access_key = signer->access_key;
    auth->scope = (struct rg_sigv4_scope){
        .date = rg_span(auth->timestamp, 8),
        .region = signer->region,
        .service = signer->service,
    };
}

/* Everything of `auth` stands but the signature. */
static int compute(const struct rg_sigv4_signer *signer, struct rg_sigv4 *auth,
                   const struct rg_sigv4_request *request, struct rg_error *err)
{
    RG_CLEANUP(rg_sigv4_key_wipe) struct rg_sigv4_key key;
    RG_BUF(text, 1024);
    int result = rg_sigv4_string_to_sign(auth, request, &text, err);
    if (result == 0) {
        result = rg_sigv4_key_derive(signer->secret, auth->scope, &key, err);
    }
    return result == 0 ? rg_sigv4_sign_text(&key, rg_buf_span(&text), auth->signature, err)
                       : result;
}

/* The request with the Host it carries: an override is for verifying only. */
static struct rg_sigv4_request as_sent(const struct rg_sigv4_request *request)
{
    struct rg_sigv4_request sent = *request;
    sent.host = (struct span){NULL, 0};
    return sent;
}

int rg_sigv4_sign(const struct rg_sigv4_signer *signer, const struct rg_sigv4_request *request,
                  struct rg_buf *out, unsigned char *ret_signature, struct rg_error *err)
{
    const struct rg_header *date = header(request, "x-amz-date");
    const struct rg_header *payload = header(request, "x-amz-content-sha256");
    RG_CLEANUP(rg_sigv4_free) struct rg_sigv4 auth = {.kind = RG_AUTH_HEADER};
    if (!header(request, "host") || !payload || !date ||
        !rg_date_parse_amz(rg_span_trim(date->value), &auth.time_s)) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "Signing needs the headers host, x-amz-date and x-amz-content-sha256.");
    }
    rg_date_format_amz(auth.time_s, auth.timestamp);
    auth.payload_text = rg_span_trim(payload->value);
    fill_signer(&auth, signer);
    RG_BUF(names, RG_SIGV4_CANONICAL_MAX);
    int result = name_headers(request, &names, err);
    if (result == 0) {
        auth.signed_headers = rg_buf_span(&names);
        result = rg_query_parse(request->query, &auth.query, err);
    }
    struct rg_sigv4_request sent = as_sent(request);
    if (result == 0) {
        result = compute(signer, &auth, &sent, err);
    }
    if (result != 0) {
        return result;
    }
    char hex[2 * RG_SIGV4_SIGNATURE_BYTES + 1];
    rg_hex_encode(auth.signature, sizeof auth.signature, hex);
    rg_buf_addf(out,
                "AWS4-HMAC-SHA256 Credential=%.*s/%.*s/%.*s/%.*s/aws4_request, "
                "SignedHeaders=%.*s, Signature=%s",
                RG_SPAN_ARG(auth.access_key), RG_SPAN_ARG(auth.scope.date),
                RG_SPAN_ARG(auth.scope.region), RG_SPAN_ARG(auth.scope.service),
                RG_SPAN_ARG(auth.signed_headers), hex);
    if (!rg_buf_ok(out)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (ret_signature) {
        memcpy(ret_signature, auth.signature, sizeof auth.signature);
    }
    return 0;
}

static void add_param(struct rg_buf *query, const char *name, struct span value)
{
    rg_buf_addf(query, "%s%s=", query->len ? "&" : "", name);
    rg_url_encode(value, RG_URL_SLASH_ENCODED, query);
}

/* The query to sign: the caller's parameters, as they are, and the X-Amz-* ones. */
static int add_presign_params(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                              struct rg_buf *query, struct rg_error *err)
{
    RG_BUF(credential, 1024);
    RG_BUF(expires, 32);
    rg_buf_addf(&credential, "%.*s/%.*s/%.*s/%.*s/aws4_request", RG_SPAN_ARG(auth->access_key),
                RG_SPAN_ARG(auth->scope.date), RG_SPAN_ARG(auth->scope.region),
                RG_SPAN_ARG(auth->scope.service));
    rg_buf_addf(&expires, "%lld", (long long)auth->expires_s);
    rg_buf_add_span(query, request->query);
    add_param(query, "X-Amz-Algorithm", RG_SPAN_LITERAL("AWS4-HMAC-SHA256"));
    add_param(query, "X-Amz-Credential", rg_buf_span(&credential));
    add_param(query, "X-Amz-Date", rg_span_text(auth->timestamp));
    add_param(query, "X-Amz-Expires", rg_buf_span(&expires));
    add_param(query, "X-Amz-SignedHeaders", auth->signed_headers);
    bool ok = rg_buf_ok(&credential) && rg_buf_ok(&expires) && rg_buf_ok(query);
    return ok ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static bool has_authentication(const struct rg_query *query)
{
    static const char *const names[] = {"X-Amz-Algorithm",     "X-Amz-Credential",
                                        "X-Amz-Date",          "X-Amz-Expires",
                                        "X-Amz-SignedHeaders", "X-Amz-Signature"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_query_find(query, names[i])) {
            return true;
        }
    }
    return false;
}

static int check_presign(const struct rg_sigv4_request *request, int64_t expires_s,
                         struct rg_error *err)
{
    if (!header(request, "host") || expires_s < 1 || expires_s > RG_SIGV4_EXPIRES_MAX_S) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "Presigning needs the header host and 1 to %d seconds of validity.",
                        RG_SIGV4_EXPIRES_MAX_S);
    }
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    int result = rg_query_parse(request->query, &query, err);
    if (result == 0 && has_authentication(&query)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The query is presigned already.");
    }
    return result;
}

/* As the parser reads it: the header, else the parameter, else nothing is promised. */
static struct span presigned_payload(const struct rg_sigv4 *auth,
                                     const struct rg_sigv4_request *request)
{
    const struct rg_header *field = header(request, "x-amz-content-sha256");
    if (field) {
        return rg_span_trim(field->value);
    }
    const struct rg_query_param *param = rg_query_find(&auth->query, "X-Amz-Content-Sha256");
    return param ? param->value : RG_SPAN_LITERAL("UNSIGNED-PAYLOAD");
}

int rg_sigv4_presign(const struct rg_sigv4_signer *signer, const struct rg_sigv4_request *request,
                     int64_t time_s, int64_t expires_s, struct rg_buf *out, struct rg_error *err)
{
    int result = check_presign(request, expires_s, err);
    if (result != 0) {
        return result;
    }
    RG_CLEANUP(rg_sigv4_free)
    struct rg_sigv4 auth = {.kind = RG_AUTH_PRESIGNED, .time_s = time_s, .expires_s = expires_s};
    rg_date_format_amz(time_s, auth.timestamp);
    fill_signer(&auth, signer);
    RG_BUF(names, RG_SIGV4_CANONICAL_MAX);
    RG_BUF(query, RG_QUERY_BYTES_MAX);
    result = name_headers(request, &names, err);
    if (result == 0) {
        auth.signed_headers = rg_buf_span(&names);
        result = add_presign_params(&auth, request, &query, err);
    }
    if (result == 0) {
        result = rg_query_parse(rg_buf_span(&query), &auth.query, err);
    }
    auth.payload_text = presigned_payload(&auth, request);
    struct rg_sigv4_request sent = as_sent(request);
    sent.query = rg_buf_span(&query);
    if (result == 0) {
        result = compute(signer, &auth, &sent, err);
    }
    if (result != 0) {
        return result;
    }
    char hex[2 * RG_SIGV4_SIGNATURE_BYTES + 1];
    rg_hex_encode(auth.signature, sizeof auth.signature, hex);
    rg_buf_add_span(out, rg_buf_span(&query));
    rg_buf_addf(out, "&X-Amz-Signature=%s", hex);
    return rg_buf_ok(out) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}
