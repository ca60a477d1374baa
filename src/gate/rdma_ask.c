/*
 * Recognises RDMA tokens in requests and declines them. See the header for why.
 */
#include "gate/rdma_ask.h"

#include "rdma/token.h"

#include <ctype.h>
#include <string.h>

#define REPLY_FIELD "x-amz-rdma-reply"

#define NAME_MAX_BYTES 64u

#define HIPOBJ RG_SPAN_LITERAL("/.hipobj-rc/")
#define S3RDMA RG_SPAN_LITERAL("/.s3rdma-rc/")

/* Fields that hold a token, the first found counting: older families win over newer ones. */
static const char *const token_fields[] = {"x-cuobj-rdma-descr", "x-rdma-info", "x-amz-rdma-token"};

/* Any field of these families means that somebody wants RDMA. */
static const char *const families[] = {"x-amz-rdma-", "x-rdma-", "x-cuobj-"};

/* One draft puts the token among the user metadata. There it is a token only if it reads as one:
 * metadata may have any name. */
#define META_FIELD "x-amz-meta-rdma-token"

struct ask {
    const char *field; /* that holds the token; NULL: none does */
    struct span token;
    bool asked; /* some field of the families is there */
};

static bool is_of_family(struct span name, const char *family)
{
    size_t len = strlen(family);
    return name.len >= len && strncasecmp(name.ptr, family, len) == 0;
}

static bool is_rdma_field(struct span name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(families); i++) {
        if (is_of_family(name, families[i])) {
            return true;
        }
    }
    return false;
}

static bool reads_as_token(struct span text)
{
    struct rg_rdma_window window;
    return rg_token_parse(text, &window, NULL) == 0;
}

static struct ask find_ask(const struct rg_call *call)
{
    struct ask ask = {.field = NULL};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(token_fields) && !ask.field; i++) {
        if (rg_call_header(call, token_fields[i], &ask.token)) {
            ask.field = token_fields[i];
            ask.asked = true;
        }
    }
    if (!ask.field && rg_call_header(call, META_FIELD, &ask.token) && reads_as_token(ask.token)) {
        ask.field = META_FIELD;
        ask.asked = true;
    }
    for (size_t i = 0; i < call->header_count && !ask.asked; i++) {
        ask.asked = is_rdma_field(call->headers[i].name);
    }
    return ask;
}

/* x-amz-* fields must be signed in any case; this is for the others. */
static int check_signed(const struct rg_call *call, struct rg_error *err)
{
    for (size_t i = 0; i < call->header_count; i++) {
        struct span name = call->headers[i].name;
        if (!is_rdma_field(name)) {
            continue;
        }
        char lower[NAME_MAX_BYTES];
        size_t len = 0;
        while (len < name.len && len < sizeof lower - 1) {
            lower[len] = (char)tolower((unsigned char)name.ptr[len]);
            len++;
        }
        lower[len] = '\0';
        if (len < name.len || !rg_sigv4_is_signed(&call->auth, lower)) {
            return rg_failf(err, RG_ACCESS_DENIED,
                            "There were headers present in the request which were not signed: %s",
                            lower);
        }
    }
    return 0;
}

static int decline(struct rg_call *call, const char *reason, struct rg_error *err)
{
    rg_http_header_set(call->http, REPLY_FIELD, "501");
    rg_call_set_path(call, "declined", reason);
    return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
}

/* Why the token is not served. */
static int judge(const struct ask *ask, const char **ret_reason, struct rg_error *err)
{
    if (!ask->field) {
        *ret_reason = "token-missing";
        return 0;
    }
    struct rg_rdma_window window;
    int rc = rg_token_parse(ask->token, &window, err);
    if (rc < 0) {
        return rc;
    }
    *ret_reason = rg_dialect_is_served(window.dialect) ? "rdma-off" : "dialect-not-served";
    return 0;
}

/* Reads answer with the object by HTTP; what moves no object bytes ignores the token. */
static bool may_go_on(const struct rg_call *call)
{
    const char *method = call->info->method;
    return strcmp(method, "PUT") != 0 && strcmp(method, "POST") != 0;
}

int rg_rdma_look(struct rg_call *call, struct rg_error *err)
{
    struct ask ask = find_ask(call);
    if (!ask.asked || (may_go_on(call) && call->operation != RG_OP_GET_OBJECT)) {
        return 0;
    }
    int rc = check_signed(call, err);
    if (rc < 0) {
        return rc;
    }
    const char *reason;
    rc = judge(&ask, &reason, err);
    if (rc < 0) {
        return rc;
    }
    if (may_go_on(call)) {
        call->rdma_declined = reason;
        return 0;
    }
    if (rg_http_content_length(call->http) > 0) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "A request with an RDMA token must not have a body.");
    }
    return decline(call, reason, err);
}

void rg_rdma_answer_by_http(struct rg_call *call)
{
    if (call->rdma_declined) {
        rg_http_header_set(call->http, REPLY_FIELD, "501");
    }
    rg_call_set_path(call, "http", call->rdma_declined ? call->rdma_declined : "no-token");
}

bool rg_rdma_is_control(struct span path)
{
    return rg_span_starts(path, HIPOBJ) || rg_span_starts(path, S3RDMA);
}

int rg_rdma_decline_control(struct rg_call *call, struct rg_error *err)
{
    if (rg_span_starts(rg_http_path(call->http), HIPOBJ)) {
        rg_http_header_set(call->http, "X-Amz-Rdma-Protocol-Status", "unsupported");
        rg_call_set_path(call, "declined", "rdma-off");
        return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
    }
    return decline(call, "rdma-off", err);
}
