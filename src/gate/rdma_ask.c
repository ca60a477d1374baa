/*
 * Recognises RDMA tokens in requests and serves or declines them. See the header for why.
 */
#include "gate/rdma_ask.h"

#include "base/checked.h"
#include "base/clock.h"
#include "gate/planes.h"
#include "gate/rdma_file.h"
#include "gate/rdma_session.h"
#include "rdma/token.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define REPLY_FIELD "x-amz-rdma-reply"
#define BYTES_FIELD "x-amz-rdma-bytes-transferred"

#define NAME_MAX_BYTES 64u

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

/* ---- Looking ---- */

/* Without data planes there is nothing to count with, and nothing to serve by. */
static void count_decline(struct rg_call *call, const char *reason)
{
    if (call->gate->planes) {
        rg_planes_count_decline(call->gate->planes, reason);
    }
}

/* The fields of a decline that has been counted. */
static int answer_decline(struct rg_call *call, const char *reason, struct rg_error *err)
{
    rg_http_header_set(call->http, REPLY_FIELD, "501");
    rg_call_set_path(call, "declined", reason);
    return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
}

static int decline(struct rg_call *call, const char *reason, struct rg_error *err)
{
    count_decline(call, reason);
    return answer_decline(call, reason, err);
}

/* A field of the three-header spelling: decimal, and required. */
static int read_cuobj_number(struct rg_call *call, const char *name, uint64_t *ret_value,
                             struct rg_error *err)
{
    struct span text;
    if (!rg_call_header(call, name, &text) || !rg_span_to_u64(text, ret_value)) {
        return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The field %s is missing or not a number.",
                        name);
    }
    return 0;
}

/* That spelling says where the bytes lie beside the descriptor, not in it. */
static int narrow_window(struct rg_call *call, struct rg_rdma_window *window, struct rg_error *err)
{
    uint64_t start, length, end;
    struct span ignored;
    if (!rg_call_header(call, "x-cuobj-remote-buf-start", &ignored) &&
        !rg_call_header(call, "x-cuobj-content-length", &ignored)) {
        return 0;
    }
    int rc = read_cuobj_number(call, "x-cuobj-remote-buf-start", &start, err);
    if (rc == 0) {
        rc = read_cuobj_number(call, "x-cuobj-content-length", &length, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (length == 0 || start < window->address || !rg_add_checked(start, length, &end) ||
        end > window->address + window->length) {
        return rg_failf(err, RG_INVALID_RDMA_TOKEN,
                        "The X-CuObj fields name bytes outside the descriptor's window.");
    }
    window->address = start;
    window->length = length;
    return 0;
}

/* Why the token is not served, as far as its form tells; NULL: nothing speaks against it. */
static int judge(struct rg_call *call, const struct ask *ask, const char **ret_reason,
                 struct rg_error *err)
{
    struct span agent;
    if (!ask->field) {
        *ret_reason = "token-missing";
        return 0;
    }
    int rc = rg_token_parse(ask->token, &call->rdma.window, err);
    if (rc == 0 && strcmp(ask->field, token_fields[0]) == 0) {
        rc = narrow_window(call, &call->rdma.window, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (rg_call_header(call, "x-amz-rdma-agent", &agent) && !rg_span_is(agent, "cuobj")) {
        *ret_reason = "agent-unknown";
        return 0;
    }
    if (!call->gate->planes) {
        *ret_reason =
            rg_dialect_is_served(call->rdma.window.dialect) ? "rdma-off" : "dialect-not-served";
        return 0;
    }
    /* How long a GET is, is not known yet: it is asked again when it is. */
    uint64_t length = RG_MAX(call->rdma.window.length, (uint64_t)1);
    bool is_get = call->operation == RG_OP_GET_OBJECT;
    *ret_reason = rg_planes_objection(call->gate->planes, &call->rdma.window, length);
    if (is_get && *ret_reason && strcmp(*ret_reason, "below-minimum") == 0) {
        *ret_reason = NULL;
    }
    return 0;
}

/* Reads answer with the object by HTTP; what moves no object bytes ignores the token. */
static bool may_go_on(const struct rg_call *call)
{
    const char *method = call->info->method;
    return strcmp(method, "PUT") != 0 && strcmp(method, "POST") != 0;
}

/* The token says how long the object is, so nothing else may. */
static int check_no_body(const struct rg_call *call, struct rg_error *err)
{
    if (rg_http_content_length(call->http) > 0 ||
        (rg_http_content_length(call->http) < 0 && rg_http_has_body(call->http))) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "A request with an RDMA token must not have a body.");
    }
    return 0;
}

/*
 * Signers of URLs may lift fields into the query. A token there moves nothing, and the body that it
 * stands for is not there: to pass over it would store an empty object.
 */
static int check_query(const struct rg_call *call, struct rg_error *err)
{
    for (size_t i = 0; i < call->query.count; i++) {
        const struct rg_query_param *param = &call->query.params[i];
        bool is_meta = rg_span_is_nocase(param->name, META_FIELD) && reads_as_token(param->value);
        if (is_meta || is_rdma_field(param->name)) {
            return rg_failf(err, RG_INVALID_RDMA_TOKEN,
                            "%.*s must be a header field, not a query parameter.",
                            RG_SPAN_ARG(param->name));
        }
    }
    return 0;
}

int rg_rdma_look(struct rg_call *call, struct rg_error *err)
{
    if (call->rdma.push) {
        return 0; /* its fields have been read, and are no token */
    }
    if (!may_go_on(call)) {
        int refused = check_query(call, err);
        if (refused) {
            return refused;
        }
    }
    struct ask ask = find_ask(call);
    if (!ask.asked || (may_go_on(call) && call->operation != RG_OP_GET_OBJECT)) {
        return 0;
    }
    int rc = check_signed(call, err);
    if (rc < 0) {
        return rc;
    }
    const char *reason;
    rc = judge(call, &ask, &reason, err);
    if (rc < 0) {
        return rc;
    }
    if (may_go_on(call)) {
        call->rdma.wanted = !reason;
        call->rdma.declined = reason;
        if (reason) {
            count_decline(call, reason);
        }
        return 0;
    }
    rc = check_no_body(call, err);
    if (rc < 0) {
        return rc;
    }
    bool movable = call->operation == RG_OP_PUT_OBJECT || call->operation == RG_OP_UPLOAD_PART;
    if (reason || !movable) {
        return decline(call, reason ? reason : "token-missing", err);
    }
    call->rdma.wanted = true;
    return 0;
}

/* ---- Moving ---- */

/* What may pass once the budget is over: the look at the clock, and the lane's flush. */
#define FLUSH_MS 2000u
_Static_assert(FLUSH_MS >= RG_FLUSH_GRACE_MS + RG_FLUSH_DRAIN_MS + 500,
               "nobody answers a request whose lane is being flushed");

int rg_rdma_hold(struct rg_call *call, int64_t budget_ms, struct rg_error *err)
{
    uint64_t until_ms = rg_http_started_ms(call->http) + (uint64_t)budget_ms;
    until_ms = RG_MAX(until_ms, rg_clock_ms()) + FLUSH_MS;
    return rg_http_hold(call->http, until_ms) ? 0 : rg_fail(err, RG_CANCELLED);
}

static void note_moved(struct rg_call *call, uint64_t bytes, const char *path)
{
    call->rdma.moved = bytes;
    snprintf(call->rdma.path, sizeof call->rdma.path, "%s", path);
    rg_call_add_moved(call, bytes);
}

static int move(struct rg_call *call, const struct rg_plane_transfer *transfer,
                struct rg_plane_result *ret_result, struct rg_error *err)
{
    *ret_result = (struct rg_plane_result){0};
    int rc = rg_rdma_hold(call, call->settings->rdma_budget, err);
    if (rc == 0) {
        rc = rg_planes_move(call->gate->planes, transfer, ret_result, err);
        rg_http_release(call->http);
    }
    return rc;
}

int rg_rdma_send(struct rg_call *call, int fd, const struct rg_range *range, struct rg_error *err)
{
    if (call->rdma.push) {
        return rg_push_send(call, fd, range, err);
    }
    if (!call->rdma.wanted) {
        return call->rdma.declined && call->settings->rdma_decline_get == RG_DECLINE_WITH_ERROR
                   ? answer_decline(call, call->rdma.declined, err)
                   : 0;
    }
    RG_CLEANUP(rg_direct_close)
    struct rg_file file = rg_rdma_file(call, fd, RG_PLANE_GET, range->offset, range->length);
    struct rg_plane_transfer transfer = {
        .use = RG_PLANE_GET,
        .window = &call->rdma.window,
        .length = range->length,
        .file = file,
        .file_offset = range->offset,
        .begun_ms = rg_http_started_ms(call->http),
        .arrival = rg_http_local(call->http),
        .account = call->account.access_key,
    };
    struct rg_plane_result result;
    int rc = move(call, &transfer, &result, err);
    if (rc == 0) {
        note_moved(call, range->length, result.path);
        return 0;
    }
    if (rc != -RG_RDMA_NOT_SUPPORTED) {
        rg_call_set_path(call, "failed", result.path);
        return rc;
    }
    call->rdma.declined = result.reason;
    return call->settings->rdma_decline_get == RG_DECLINE_WITH_ERROR
               ? answer_decline(call, result.reason, err)
               : 0;
}

struct arriving {
    struct rg_body *body;
    struct rg_writing *writing;
};

static int see_bytes(void *context, struct span bytes, struct rg_error *err)
{
    struct arriving *arriving = context;
    rg_body_see(arriving->body, bytes);
    return rg_writing_saw(arriving->writing, bytes.len, err);
}

int rg_rdma_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                    struct rg_error *err)
{
    if (call->rdma.push) {
        return rg_push_receive(call, body, writing, err);
    }
    uint64_t length = call->rdma.window.length;
    int fd = rg_store_writer_fd(writing->store, writing->writer);
    struct arriving arriving = {.body = body, .writing = writing};
    RG_CLEANUP(rg_direct_close)
    struct rg_file file = rg_rdma_file(call, fd, RG_PLANE_PUT, 0, length);
    struct rg_plane_transfer transfer = {
        .use = call->operation == RG_OP_UPLOAD_PART ? RG_PLANE_PART : RG_PLANE_PUT,
        .window = &call->rdma.window,
        .length = length,
        .file = file,
        .begun_ms = rg_http_started_ms(call->http),
        .arrival = rg_http_local(call->http),
        .account = call->account.access_key,
        .consume = see_bytes,
        .consume_context = &arriving,
    };
    struct rg_plane_result result;
    int rc = move(call, &transfer, &result, err);
    if (rc == -RG_RDMA_NOT_SUPPORTED) {
        return answer_decline(call, result.reason, err);
    }
    if (rc < 0) {
        rg_call_set_path(call, "failed", result.path);
        return rc;
    }
    note_moved(call, transfer.length, result.path);
    rc = rg_store_writer_written(writing->store, writing->writer, transfer.length, err);
    return rc < 0 ? rc : rg_body_end(body, err);
}

/* ---- Answering ---- */

void rg_rdma_answer(struct rg_call *call, int status)
{
    if (call->rdma.push) {
        rg_push_answer(call);
        return;
    }
    if (call->rdma.moved) {
        rg_http_header_setf(call->http, REPLY_FIELD, "%d", status);
        rg_http_header_setf(call->http, BYTES_FIELD, "%llu", (unsigned long long)call->rdma.moved);
        rg_call_set_path(call, "rdma", call->rdma.path);
        return;
    }
    if (call->rdma.declined) {
        rg_http_header_set(call->http, REPLY_FIELD, "501");
    }
    rg_call_set_path(call, "http", call->rdma.declined ? call->rdma.declined : "no-token");
}
