/*
 * AWS Signature Version 4 as S3 uses it: who claims to have signed a request, whether that is true,
 * and how to sign one ourselves. Pure: the caller brings the request, the clock and the secret.
 *
 *   struct rg_sigv4 auth;
 *   rg_sigv4_parse(&request, &rules, &auth, err)        syntax, scope, coverage, time
 *   if (auth.kind == RG_AUTH_ANONYMOUS) ...
 *   secret = look up auth.access_key                    RG_INVALID_ACCESS_KEY_ID if unknown
 *   rg_sigv4_key_derive(secret, auth.scope, &key)       or from a cache, see there
 *   rg_sigv4_verify(&auth, &request, &key, err)         the signature itself
 *   ... then the body: auth.payload says how its bytes are covered (chunked.h for
 * RG_PAYLOAD_STREAMING_*)
 *
 * Specification: Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)":
 * authorization header, query parameters, chunked upload, trailing headers.
 */
#ifndef RG_S3_SIGV4_H
#define RG_S3_SIGV4_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "s3/date.h"
#include "s3/header.h"
#include "s3/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The SHA-256 of nothing, as text. */
#define RG_SHA256_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define RG_SIGV4_SIGNATURE_BYTES 32u

/* Ceilings; beyond them a request is malformed. */
#define RG_SIGV4_SIGNED_HEADERS_MAX 100u
#define RG_SIGV4_CANONICAL_MAX      (256u * 1024u) /* bytes of a canonical request */
#define RG_SIGV4_ACCESS_KEY_MAX     128u
#define RG_SIGV4_EXPIRES_MAX_S      604800

/* The request as received. Everything borrows. */
struct rg_sigv4_request {
    struct span method;              /* case kept: "GET" */
    struct span path;                /* still percent-encoded, without the query; empty means "/" */
    struct span query;               /* still percent-encoded, without '?' */
    const struct rg_header *headers; /* in order, duplicates as they came */
    size_t header_count;
    /* NULL ptr: the Host header counts. Else the value to use in its place, for clients that sign
     * another spelling (with or without the port) than they send; the header must be there still.
     */
    struct span host;
    /* `query`, parsed, where it has been: it must outlive what is made of it. NULL: it is parsed
     * here. */
    const struct rg_query *parsed;
};

/* How the body is covered by the signature: the value of x-amz-content-sha256. */
enum rg_payload_kind {
    RG_PAYLOAD_SHA256,                     /* its SHA-256 in hex */
    RG_PAYLOAD_UNSIGNED,                   /* UNSIGNED-PAYLOAD */
    RG_PAYLOAD_STREAMING_SIGNED,           /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
    RG_PAYLOAD_STREAMING_SIGNED_TRAILER,   /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER */
    RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER, /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
    RG_PAYLOAD_NOT_STATED,                 /* no header, where the rules allow that: no body */
};

static inline bool rg_payload_is_streaming(enum rg_payload_kind kind)
{
    return kind == RG_PAYLOAD_STREAMING_SIGNED || kind == RG_PAYLOAD_STREAMING_SIGNED_TRAILER ||
           kind == RG_PAYLOAD_STREAMING_UNSIGNED_TRAILER;
}

/*
 * Reads a value of x-amz-content-sha256. For RG_PAYLOAD_SHA256 the 32 bytes go to `ret_sha256`
 * (which may be NULL). Fails with RG_NOT_IMPLEMENTED for STREAMING-AWS4-ECDSA-* and
 * RG_INVALID_ARGUMENT for anything unknown. For requests without a signature, too: an anonymous
 * PUT may carry the header.
 */
int rg_payload_parse(struct span value, enum rg_payload_kind *ret_kind, unsigned char *ret_sha256,
                     struct rg_error *err) RG_CHECK;

/* What this server demands. */
struct rg_sigv4_rules {
    struct span region;
    int64_t now_s;         /* wall clock, seconds since 1970 */
    int64_t clock_skew_ms; /* largest accepted |request time - now| */

    /* All zero for S3. For the control paths of RDMA sessions, whose clients sign otherwise: */
    struct span other_service;  /* accepted beside "s3" */
    bool payload_hash_optional; /* a missing x-amz-content-sha256 stands for no body */
    /* Lower-case names of x-amz-* headers that may stand unsigned (a setting for old clients). */
    const char *const *unsigned_allowed;
    size_t unsigned_allowed_count;
};

enum rg_auth_kind {
    RG_AUTH_ANONYMOUS, /* no credentials of any sort: all other fields but `payload` are empty */
    RG_AUTH_HEADER,
    RG_AUTH_PRESIGNED,
};

struct rg_sigv4_scope {
    struct span date; /* YYYYMMDD */
    struct span region;
    struct span service;
};

/* What a request claims. Spans borrow from the request or from `query`, so both must outlive use.
 */
struct rg_sigv4 {
    enum rg_auth_kind kind;
    struct span access_key;
    struct rg_sigv4_scope scope;
    struct span signed_headers; /* "host;x-amz-date", lower case */
    unsigned char signature[RG_SIGV4_SIGNATURE_BYTES];
    char timestamp[RG_DATE_AMZ_SIZE]; /* the one signed, "20130524T000000Z" */
    int64_t time_s;
    int64_t expires_s; /* presigned: seconds from time_s; else 0 */
    enum rg_payload_kind payload;
    unsigned char payload_sha256[32]; /* RG_PAYLOAD_SHA256: what the body must hash to */
    struct span payload_text;         /* as signed */
    struct rg_query query;            /* the parsed query */
    bool query_is_borrowed;           /* it belongs to whoever gave `parsed` */
};

/*
 * Reads and checks everything that needs no secret. On success *ret_auth is set and later released
 * with rg_sigv4_free. A request without any credentials succeeds with RG_AUTH_ANONYMOUS.
 *
 * Errors:
 *   RG_INVALID_URI                     query or path does not decode
 *   RG_INVALID_ARGUMENT                header and query both authenticate; unknown scheme; bad
 *                                      x-amz-content-sha256
 *   RG_SIGNATURE_V2                    "Authorization: AWS ..." or ?AWSAccessKeyId / ?Signature
 *   RG_NOT_IMPLEMENTED                 SigV4A (AWS4-ECDSA-P256-SHA256), session tokens
 *   RG_AUTHORIZATION_HEADER_MALFORMED  syntax, scope date, region (the sentence names the expected
 *                                      one), service, terminator
 *   RG_AUTHORIZATION_QUERY_PARAMETERS  the same for presigned URLs; missing, repeated or
 *                                      out-of-range X-Amz-* parameters
 *   RG_ACCESS_DENIED                   no valid date; presigned and not valid yet; host or an
 *                                      x-amz-* header is not signed (the sentence names it)
 *   RG_REQUEST_EXPIRED                 presigned, and over
 *   RG_REQUEST_TIME_TOO_SKEWED         header form
 *   RG_MISSING_SECURITY_HEADER         header form without x-amz-content-sha256
 *   RG_OUT_OF_MEMORY
 */
int rg_sigv4_parse(const struct rg_sigv4_request *request, const struct rg_sigv4_rules *rules,
                   struct rg_sigv4 *ret_auth, struct rg_error *err) RG_CHECK;
void rg_sigv4_free(struct rg_sigv4 *auth);

/* Whether the header (lower case) is covered by the signature. False for anonymous requests. */
bool rg_sigv4_is_signed(const struct rg_sigv4 *auth, const char *header_name);

/*
 * A signing key: HMAC chain over "AWS4" + secret, date, region, service, "aws4_request". It depends
 * on nothing else, so a cache may keep it under (access key, date, region, service) until that
 * access key's secret changes; entries of past dates are of no more use than the clock skew
 * allows, and for presigned URLs seven days. Deriving costs four HMACs (about 8 µs). Treat it as
 * a secret: erase it with rg_sigv4_key_wipe.
 */
struct rg_sigv4_key {
    unsigned char bytes[32];
};

/* Fails with RG_INTERNAL_ERROR only if libcrypto does. */
int rg_sigv4_key_derive(struct span secret, struct rg_sigv4_scope scope,
                        struct rg_sigv4_key *ret_key, struct rg_error *err) RG_CHECK;
void rg_sigv4_key_wipe(struct rg_sigv4_key *key);

/*
 * Recomputes the signature of `request`, which must be the one that was parsed (its `host` may
 * differ), and compares in constant time. RG_SIGNATURE_DOES_NOT_MATCH when it differs or when a
 * header named in SignedHeaders is absent; RG_INVALID_REQUEST when the canonical request exceeds
 * its ceiling. Not for anonymous requests (RG_ACCESS_DENIED).
 */
int rg_sigv4_verify(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                    const struct rg_sigv4_key *key, struct rg_error *err) RG_CHECK;

/*
 * Appends the canonical request, or the string to sign, that rg_sigv4_verify works with: AWS puts
 * both into the body of a SignatureDoesNotMatch answer, and people debug clients with them. They
 * hold no secret.
 */
int rg_sigv4_canonical_request(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                               struct rg_buf *out, struct rg_error *err) RG_CHECK;
int rg_sigv4_string_to_sign(const struct rg_sigv4 *auth, const struct rg_sigv4_request *request,
                            struct rg_buf *out, struct rg_error *err) RG_CHECK;

/*
 * "<access key>/<date>/<region>/<service>/aws4_request", also the x-amz-credential field of a
 * browser upload's policy. Checks the shape (eight digits, nothing empty, access key of printable
 * ASCII, which may itself hold '/'), not the values. The spans borrow. Fails with
 * RG_AUTHORIZATION_HEADER_MALFORMED.
 */
int rg_sigv4_credential_parse(struct span credential, struct span *ret_access_key,
                              struct rg_sigv4_scope *ret_scope, struct rg_error *err) RG_CHECK;

/*
 * HMAC-SHA256 of a text under a signing key: the signature of a string to sign, and of a browser
 * upload's base64 policy.
 */
int rg_sigv4_sign_text(const struct rg_sigv4_key *key, struct span text,
                       unsigned char ret_signature[RG_SIGV4_SIGNATURE_BYTES],
                       struct rg_error *err) RG_CHECK;

/* Who signs. Borrowed. */
struct rg_sigv4_signer {
    struct span access_key;
    struct span secret;
    struct span region;
    struct span service; /* "s3" */
};

/*
 * Signs with the Authorization header. Every header in `request` is signed: pass those that will be
 * sent unchanged, host, x-amz-date and x-amz-content-sha256 among them (`request->host` is not
 * looked at). Appends the value of the Authorization header to *out and, unless NULL, stores the
 * signature (the seed of a chunked upload). RG_INVALID_ARGUMENT when a needed header is missing or
 * not valid.
 */
int rg_sigv4_sign(const struct rg_sigv4_signer *signer, const struct rg_sigv4_request *request,
                  struct rg_buf *out, unsigned char *ret_signature, struct rg_error *err) RG_CHECK;

/*
 * Presigns: appends to *out the whole query string to send, request->query first, X-Amz-Signature
 * last. Every header in `request` is signed and must be sent by whoever uses the URL; host must be
 * there. The payload is UNSIGNED-PAYLOAD unless x-amz-content-sha256 is among the headers or
 * parameters. `expires_s` is 1 to 604800. RG_INVALID_ARGUMENT otherwise, or when the query already
 * holds X-Amz-* authentication.
 */
int rg_sigv4_presign(const struct rg_sigv4_signer *signer, const struct rg_sigv4_request *request,
                     int64_t time_s, int64_t expires_s, struct rg_buf *out,
                     struct rg_error *err) RG_CHECK;

#endif
