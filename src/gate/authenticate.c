/*
 * SigV4 against the accounts. The arithmetic is in s3/sigv4.c; here requests meet settings,
 * accounts and the clock.
 */
#include "gate/authenticate.h"

#include "base/clock.h"
#include "base/encode.h"
#include "s3/date.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DETAIL_BYTES_MAX 65536u
#define HOST_BYTES_MAX   320u

/* Requests of the session routes are not parsed yet, and later become others. */
static struct rg_sigv4_request signed_request(const struct rg_call *call, bool is_control)
{
    return (struct rg_sigv4_request){
        .method = rg_span_text(rg_http_method(call->http)),
        .path = rg_http_path(call->http),
        .query = rg_http_query(call->http),
        .parsed = is_control ? NULL : &call->query,
        .headers = call->headers,
        .header_count = call->header_count,
    };
}

static void note_access_key(struct rg_call *call)
{
    struct span key = rg_span_head(call->auth.access_key, sizeof call->outcome.access_key - 1);
    pthread_mutex_lock(&call->lock);
    memcpy(call->outcome.access_key, key.ptr, key.len);
    call->outcome.access_key[key.len] = '\0';
    call->outcome.auth_type = call->auth.kind == RG_AUTH_PRESIGNED ? "QueryString" : "AuthHeader";
    pthread_mutex_unlock(&call->lock);
}

/* What S3 tells about a signature that it could not even look at. */
static void explain_parse(struct rg_call *call, enum rg_code code, int64_t now_s)
{
    if (code == RG_AUTHORIZATION_HEADER_MALFORMED || code == RG_AUTHORIZATION_QUERY_PARAMETERS) {
        rg_call_detail(call, "Region", rg_span_text(call->settings->region));
    } else if (code == RG_REQUEST_TIME_TOO_SKEWED) {
        char text[RG_DATE_ISO_SIZE];
        struct span sent;
        if (rg_call_header(call, "x-amz-date", &sent)) {
            rg_call_detail(call, "RequestTime", sent);
        }
        rg_date_format_iso((struct timespec){.tv_sec = now_s}, text);
        rg_call_detail(call, "ServerTime", rg_span_text(text));
        snprintf(text, sizeof text, "%" PRId64, call->settings->clock_skew);
        rg_call_detail(call, "MaxAllowedSkewMilliseconds", rg_span_text(text));
    }
}

/* S3 answers a wrong signature with what it computed over: the only way to find out why. */
static void explain_mismatch(struct rg_call *call, const struct rg_sigv4_request *request)
{
    char provided[2 * RG_SIGV4_SIGNATURE_BYTES + 1];
    rg_hex_encode(call->auth.signature, sizeof call->auth.signature, provided);
    rg_call_detail(call, "AWSAccessKeyId", call->auth.access_key);
    rg_call_detail(call, "SignatureProvided", rg_span_text(provided));

    RG_BUF(text, DETAIL_BYTES_MAX);
    if (rg_sigv4_string_to_sign(&call->auth, request, &text, NULL) == 0) {
        rg_call_detail(call, "StringToSign", rg_buf_span(&text));
    }
    rg_buf_clear(&text);
    if (rg_sigv4_canonical_request(&call->auth, request, &text, NULL) == 0) {
        rg_call_detail(call, "CanonicalRequest", rg_buf_span(&text));
    }
}

/* The Host field without its port, or with the one that clients leave out. */
static struct span other_host(const struct rg_call *call, char *text, size_t room)
{
    struct span host;
    if (!rg_call_header(call, "host", &host)) {
        return (struct span){NULL, 0};
    }
    const char *colon = memrchr(host.ptr, ':', host.len);
    const char *bracket = memrchr(host.ptr, ']', host.len);
    if (colon && (!bracket || colon > bracket)) {
        return rg_span_head(host, (size_t)(colon - host.ptr));
    }
    int len = snprintf(text, room, "%.*s:%" PRId64, RG_SPAN_ARG(host), call->settings->port);
    return len > 0 && (size_t)len < room ? rg_span(text, (size_t)len) : (struct span){NULL, 0};
}

/* Clients of the session routes sign the host as they like to write it, not as they send it. */
static int verify_other_host(struct rg_call *call, const struct rg_sigv4_request *request)
{
    char text[HOST_BYTES_MAX];
    struct rg_sigv4_request other = *request;
    other.host = other_host(call, text, sizeof text);
    return other.host.ptr ? rg_sigv4_verify(&call->auth, &other, &call->signing_key, NULL)
                          : -RG_SIGNATURE_DOES_NOT_MATCH;
}

static int verify(struct rg_call *call, const struct rg_sigv4_request *request, bool is_control,
                  struct rg_error *err)
{
    int rc = rg_accounts_find(call->gate->accounts, call->auth.access_key, &call->account, err);
    if (rc < 0) {
        rg_call_detail(call, "AWSAccessKeyId", call->auth.access_key);
        return rc;
    }
    rc = rg_accounts_signing_key(call->gate->accounts, &call->account, call->auth.scope,
                                 &call->signing_key, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_sigv4_verify(&call->auth, request, &call->signing_key, err);
    if (rc == -RG_SIGNATURE_DOES_NOT_MATCH && is_control && verify_other_host(call, request) == 0) {
        rg_error_clear(err);
        return 0;
    }
    if (rc == -RG_SIGNATURE_DOES_NOT_MATCH) {
        explain_mismatch(call, request);
    }
    return rc;
}

static int authenticate(struct rg_call *call, bool is_control, struct rg_error *err)
{
    struct rg_sigv4_request request = signed_request(call, is_control);
    struct rg_sigv4_rules rules = {
        .region = rg_span_text(call->settings->region),
        .now_s = rg_clock_wall().tv_sec,
        .clock_skew_ms = call->settings->clock_skew,
    };
    if (is_control) {
        rules.other_service = RG_SPAN_LITERAL("hipobj");
        rules.payload_hash_optional = true;
    }
    int rc = rg_sigv4_parse(&request, &rules, &call->auth, err);
    if (rc < 0) {
        explain_parse(call, (enum rg_code)(-rc), rules.now_s);
        return rc;
    }
    if (call->auth.kind == RG_AUTH_ANONYMOUS) {
        return 0;
    }
    note_access_key(call);

    rc = verify(call, &request, is_control, err);
    if (rc < 0) {
        /* Nothing may take the account for a verified one. */
        memset(&call->account, 0, sizeof call->account);
        return rc;
    }
    pthread_mutex_lock(&call->lock);
    memcpy(call->outcome.requester, call->account.canonical_id, sizeof call->outcome.requester);
    pthread_mutex_unlock(&call->lock);
    return 0;
}

int rg_authenticate(struct rg_call *call, struct rg_error *err)
{
    return authenticate(call, false, err);
}

int rg_authenticate_control(struct rg_call *call, struct rg_error *err)
{
    return authenticate(call, true, err);
}
