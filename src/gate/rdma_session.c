/*
 * Requests of the session routes, from the signature to the answer. See the header.
 */
#include "gate/rdma_session.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "gate/authenticate.h"
#include "gate/dispatch.h"
#include "gate/planes.h"
#include "gate/rdma_ask.h"
#include "gate/rdma_file.h"
#include "gate/verbs.h"
#include "rdma/session_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIPOBJ RG_SPAN_LITERAL("/.hipobj-rc/")
#define S3RDMA RG_SPAN_LITERAL("/.s3rdma-rc/")

#define STATUS_FIELD   "X-Amz-Rdma-Protocol-Status"
#define PROTOCOL_FIELD "X-Amz-Rdma-Protocol"

/* What PREPARE may say about its object: kept for as long as the session. */
#define ORDER_BYTES_MAX  16384u
#define ORDER_FIELDS_MAX 256u

/* ---- What a session is about ---- */

/* Target path, target query, then names and values of fields, each ended by a NUL. */
struct order {
    uint64_t offset;
    size_t length; /* of text */
    size_t fields;
    char text[];
};

void rg_push_order_free(void *order)
{
    free(order);
}

/* Fields that belong to the one request, not to the object. */
static bool is_of_request(struct span name, struct span value)
{
    static const char *const names[] = {
        "host",
        "authorization",
        "x-amz-date",
        "x-amz-content-sha256",
        "x-amz-security-token",
        "date",
        "connection",
        "content-length",
        "transfer-encoding",
        "expect",
        "accept",
        "user-agent",
        "accept-encoding",
        "amz-sdk-request",
        "amz-sdk-invocation-id",
        "te",
        "keep-alive",
    };
    static const struct span family = RG_SPAN_LITERAL("x-amz-rdma-");
    if (rg_span_is_nocase(rg_span_head(name, family.len), family.ptr)) {
        return true;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is_nocase(name, names[i])) {
            return true;
        }
    }
    /* What HTTP libraries put on a POST without a body says nothing about the object. */
    return rg_span_is_nocase(name, "content-type") &&
           rg_span_is_nocase(rg_span_trim(value), "application/x-www-form-urlencoded");
}

static void add_text(struct rg_buf *text, struct span value)
{
    rg_buf_add_span(text, value);
    rg_buf_add_char(text, '\0');
}

static int make_order(const struct rg_call *call, const struct rg_push_prepare *prepare,
                      struct order **ret_order, struct rg_error *err)
{
    RG_BUF(text, ORDER_BYTES_MAX);
    size_t fields = 0;
    add_text(&text, prepare->path);
    add_text(&text, prepare->query);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct rg_header *field = &call->headers[i];
        if (!is_of_request(field->name, field->value)) {
            add_text(&text, field->name);
            add_text(&text, field->value);
            fields++;
        }
    }
    if (fields > ORDER_FIELDS_MAX || !rg_buf_ok(&text)) {
        return rg_fail(err, RG_REQUEST_HEADER_TOO_LARGE);
    }
    struct order *order = malloc(sizeof *order + text.len);
    if (!order) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    order->offset = prepare->offset;
    order->length = text.len;
    order->fields = fields;
    memcpy(order->text, text.data, text.len);
    *ret_order = order;
    return 0;
}

/* The next text of an order. */
static struct span next_text(const struct order *order, size_t *at)
{
    struct span text = rg_span_text(order->text + *at);
    *at += text.len + 1;
    return text;
}

static bool has_name(const struct rg_header *fields, size_t count, const struct rg_header *field)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name.len == field->name.len &&
            strncasecmp(fields[i].name.ptr, field->name.ptr, field->name.len) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * The call's fields become those of the order, and then those of its own that speak of the object
 * and that the order does not have.
 */
static int read_fields(struct rg_call *call, const struct order *order, size_t at,
                       struct rg_error *err)
{
    size_t room = order->fields + call->header_count;
    rg_autofree struct rg_header *fields = calloc(room ? room : 1, sizeof *fields);
    size_t count = 0;
    if (!fields) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (; count < order->fields; count++) {
        fields[count].name = next_text(order, &at);
        fields[count].value = next_text(order, &at);
    }
    for (size_t i = 0; i < call->header_count; i++) {
        const struct rg_header *field = &call->headers[i];
        if (!is_of_request(field->name, field->value) && !has_name(fields, order->fields, field)) {
            fields[count++] = *field;
        }
    }
    free(call->headers);
    call->headers = RG_TAKE(fields);
    call->header_count = count;
    return 0;
}

/* The call keeps a copy: the session, and the order with it, may end before the verb does. */
static int take_order(struct rg_call *call, const struct order *order, struct rg_error *err)
{
    size_t bytes = sizeof *order + order->length;
    struct order *copy = malloc(bytes);
    if (!copy) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memcpy(copy, order, bytes);
    call->rdma.order = copy;
    return 0;
}

/* ---- Declining ---- */

bool rg_rdma_is_control(struct span path)
{
    return rg_span_starts(path, HIPOBJ) || rg_span_starts(path, S3RDMA);
}

/*
 * The queue pairs of hipobj-rc-v2 never get a plain x-amz-rdma-reply: its reference client would
 * not see the status any more.
 */
static int decline(struct rg_call *call, const char *reason, struct rg_error *err)
{
    if (call->gate->planes) {
        rg_planes_count_decline(call->gate->planes, reason);
    }
    if (rg_span_starts(rg_http_path(call->http), S3RDMA)) {
        rg_http_header_set(call->http, "x-amz-rdma-reply", "501");
    }
    rg_call_set_path(call, "declined", reason);
    return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
}

static const char *objection(const struct rg_call *call)
{
    return call->gate->planes ? rg_planes_session_objection(call->gate->planes) : "rdma-off";
}

/* ---- What all routes ask ---- */

static int check_bare(struct rg_call *call, struct rg_error *err)
{
    if (rg_http_content_length(call->http) > 0 ||
        (rg_http_content_length(call->http) < 0 && rg_http_has_body(call->http))) {
        return rg_failf(err, RG_INVALID_REQUEST, "A request about an RDMA session has no body.");
    }
    return 0;
}

/* rg_sigv4_parse has seen to it that every x-amz-* field is signed. */
static int check_sender(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_authenticate_control(call, err);
    if (rc == 0 && call->auth.kind == RG_AUTH_ANONYMOUS) {
        rc = rg_fail(err, RG_ACCESS_DENIED);
    }
    if (rc == 0) {
        rc = rg_dispatch_authorise(call, err);
    }
    return rc < 0 ? rc : check_bare(call, err);
}

/* The request's fields for the parsers of session_wire.h. */
static int read_head(const struct rg_call *call, struct rg_wire_field **ret_fields,
                     struct rg_wire_head *ret_head, struct rg_error *err)
{
    struct rg_wire_field *fields = calloc(call->header_count + 1, sizeof *fields);
    if (!fields) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < call->header_count; i++) {
        fields[i].name = call->headers[i].name;
        fields[i].value = call->headers[i].value;
    }
    *ret_fields = fields;
    *ret_head = (struct rg_wire_head){.fields = fields, .count = call->header_count};
    return 0;
}

/* What the table says when there can be no session now. */
static int fail_opening(struct rg_call *call, int rc, struct rg_error *err)
{
    switch (-rc) {
    case RG_SERVICE_UNAVAILABLE:
        return decline(call, "rail-down", err);
    case RG_CANCELLED:
        return decline(call, "stopping", err);
    case RG_RDMA_TRANSFER_FAILED:
        return decline(call, "unreachable", err);
    case RG_SLOW_DOWN:
        rg_planes_count_decline(call->gate->planes, "session-limit");
        rg_call_set_path(call, "declined", "session-limit");
        return rc;
    default:
        return rc;
    }
}

static int print_answer(const struct rg_session_opened *opened,
                        struct rg_session_answer *ret_answer, struct rg_error *err)
{
    return rg_session_answer_print(&opened->id, &opened->own,
                                   opened->has_staging ? &opened->staging : NULL, ret_answer, err);
}

static void say_mtu(struct rg_call *call, const struct rg_session_answer *answer)
{
    if (answer->mtu[0]) {
        rg_http_header_set(call->http, RG_SESSION_MTU_FIELD, answer->mtu);
    }
}

/* ---- D2 ---- */

static int connect_session(struct rg_call *call, const struct rg_wire_head *head,
                           struct rg_error *err)
{
    struct rg_lane_address peer;
    struct rg_session_opened opened;
    struct rg_session_answer answer;
    int rc = rg_session_connect_parse(head, &peer, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_planes_connect(call->gate->planes, call->account.access_key, rg_http_local(call->http),
                           &peer, &opened, err);
    if (rc < 0) {
        return fail_opening(call, rc, err);
    }
    rc = print_answer(&opened, &answer, err);
    if (rc < 0) {
        (void)rg_planes_disconnect(call->gate->planes, call->account.access_key, &opened.id, NULL);
        return rc;
    }
    rg_http_header_set(call->http, "x-amz-rdma-session", answer.session);
    rg_http_header_set(call->http, "x-amz-rdma-reply", answer.reply);
    rg_http_header_set(call->http, "x-amz-rdma-psn", answer.psn);
    say_mtu(call, &answer);
    return rg_call_answer_empty(call, 200);
}

static int disconnect_session(struct rg_call *call, const struct rg_wire_head *head,
                              struct rg_error *err)
{
    struct rg_session_id id;
    int rc = rg_session_disconnect_parse(head, &id, err);
    if (rc == 0) {
        rc = rg_planes_disconnect(call->gate->planes, call->account.access_key, &id, err);
    }
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

/* ---- hipobj-rc-v2: the object ---- */

/* From here on the call is about the object that the target names. */
static int name_object(struct rg_call *call, struct span path, struct span query,
                       enum rg_direction direction, struct rg_error *err)
{
    struct span method =
        direction == RG_DIRECTION_GET ? RG_SPAN_LITERAL("GET") : RG_SPAN_LITERAL("PUT");
    int rc = rg_dispatch_route(call, method, path, query, err);
    if (rc == 0 && call->operation != RG_OP_GET_OBJECT && call->operation != RG_OP_PUT_OBJECT &&
        call->operation != RG_OP_UPLOAD_PART) {
        rc = rg_fail(err, RG_NOT_IMPLEMENTED);
    }
    return rc;
}

/* The verb of the object, which finds the rest in call->rdma. */
static int run(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_dispatch_admit(call, err);
    return rc < 0 ? rc : rg_dispatch_run(call, err);
}

static void set_push(struct rg_call *call, enum rg_push_phase phase, const struct order *order,
                     uint64_t size, uint32_t cookie)
{
    call->rdma.push = phase;
    call->rdma.push_offset = order->offset;
    call->rdma.push_cookie = cookie;
    call->rdma.wanted = true;
    call->rdma.window = (struct rg_rdma_window){
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .length = size,
    };
}

/* Everything that can be said against the transfer before anything is set up for it. */
static int look(struct rg_call *call, const struct rg_push_prepare *prepare,
                const struct order *order, struct rg_error *err)
{
    int rc = take_order(call, order, err);
    const struct order *own = call->rdma.order;
    size_t at = 0;
    if (rc < 0) {
        return rc;
    }
    set_push(call, RG_PUSH_LOOKS, own, prepare->size, prepare->cookie);
    struct span path = next_text(own, &at);
    struct span query = next_text(own, &at);
    rc = read_fields(call, own, at, err);
    if (rc == 0) {
        rc = name_object(call, path, query, prepare->direction, err);
    }
    if (rc == 0 && prepare->size < (uint64_t)call->settings->rdma_size_min) {
        rc = decline(call, "below-minimum", err);
    }
    return rc < 0 ? rc : run(call, err);
}

static void answer_prepare(struct rg_call *call, const struct rg_session_opened *opened,
                           const struct rg_session_answer *answer)
{
    rg_http_header_set(call->http, PROTOCOL_FIELD, RG_PUSH_PROTOCOL);
    rg_http_header_set(call->http, "X-Amz-Rdma-Reply", answer->reply);
    rg_http_header_set(call->http, "X-Amz-Rdma-Session", answer->session);
    rg_http_header_set(call->http, "X-Amz-Rdma-Psn", answer->psn);
    rg_http_header_set(call->http, "X-Amz-Rdma-Qpn", answer->qpn);
    say_mtu(call, answer);
    if (opened->has_staging) {
        rg_http_header_set(call->http, "X-Amz-Rdma-Mr-Addr", answer->mr_addr);
        rg_http_header_set(call->http, "X-Amz-Rdma-Mr-Rkey", answer->mr_rkey);
    }
    rg_call_answer_empty(call, 200);
}

static int prepare_push(struct rg_call *call, const struct rg_wire_head *head, struct rg_error *err)
{
    struct rg_push_prepare prepare;
    struct rg_session_opened opened;
    struct rg_session_answer answer;
    rg_autofree struct order *order = NULL;
    int rc = rg_push_prepare_parse(head, false, &prepare, err);
    if (rc == 0) {
        rc = make_order(call, &prepare, &order, err);
    }
    if (rc == 0) {
        rc = look(call, &prepare, order, err);
    }
    if (rc < 0) {
        return rc;
    }
    rc = rg_planes_prepare(call->gate->planes, call->account.access_key, rg_http_local(call->http),
                           &prepare, order, rg_push_order_free, &opened, err);
    if (rc < 0) {
        return fail_opening(call, rc, err);
    }
    order = NULL; /* the session's */
    rc = print_answer(&opened, &answer, err);
    if (rc < 0) {
        (void)rg_planes_cancel(call->gate->planes, call->account.access_key, &opened.id, NULL);
        return rc;
    }
    answer_prepare(call, &opened, &answer);
    return 0;
}

/* What is asked about the bytes that move: as a client of ordinary requests would ask it. */
static int read_algorithm(struct rg_call *call, struct rg_error *err)
{
    struct span text;
    if (!rg_call_header(call, "x-amz-rdma-checksum-algorithm", &text)) {
        return 0;
    }
    enum rg_checksum_algorithm *algorithm = &call->rdma.push_checksum;
    if (!rg_checksum_from_name(text, algorithm) ||
        (*algorithm != RG_CHECKSUM_CRC64NVME && *algorithm != RG_CHECKSUM_CRC32C)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "x-amz-rdma-checksum-algorithm is neither CRC64NVME nor CRC32C.");
    }
    return 0;
}

static int move(struct rg_call *call, struct rg_error *err)
{
    struct rg_session *session = call->rdma.session;
    int rc = read_algorithm(call, err);
    if (rc == 0) {
        rc = take_order(call, rg_session_order(session), err);
    }
    if (rc < 0) {
        return rc;
    }
    const struct order *order = call->rdma.order;
    size_t at = 0;
    set_push(call, RG_PUSH_MOVES, order, rg_session_size(session), rg_session_cookie(session));
    struct span path = next_text(order, &at);
    struct span query = next_text(order, &at);
    rc = read_fields(call, order, at, err);
    if (rc == 0) {
        rc = name_object(call, path, query, rg_session_direction(session), err);
    }
    return rc < 0 ? rc : run(call, err);
}

static int ready_push(struct rg_call *call, const struct rg_wire_head *head, struct rg_error *err)
{
    struct rg_push_ready ready;
    int rc = rg_push_ready_parse(head, false, &ready, err);
    if (rc == 0) {
        rc = rg_planes_ready(call->gate->planes, call->account.access_key, &ready,
                             &call->rdma.session, err);
    }
    if (rc == -RG_CANCELLED) {
        return decline(call, "stopping", err);
    }
    if (rc < 0) {
        return rc;
    }
    rc = move(call, err);
    if (call->rdma.session) {
        rg_planes_push_drop(call->gate->planes, RG_TAKE(call->rdma.session));
    }
    return rc;
}

/* The client does not look at what comes of it; one that is not there has the same end. */
static int cancel_push(struct rg_call *call, const struct rg_wire_head *head, struct rg_error *err)
{
    struct rg_session_id id;
    int rc = rg_push_cancel_parse(head, &id, err);
    if (rc < 0) {
        return rc;
    }
    (void)rg_planes_cancel(call->gate->planes, call->account.access_key, &id, NULL);
    rg_http_header_set(call->http, PROTOCOL_FIELD, RG_PUSH_PROTOCOL);
    return rg_call_answer_empty(call, 204);
}

/* ---- Routes ---- */

static const struct route {
    const char *path;
    const char *name; /* in metrics and logs, while no object is known */
    int (*answer)(struct rg_call *call, const struct rg_wire_head *head, struct rg_error *err);
} routes[] = {
    {"/.s3rdma-rc/connect", "RdmaConnect", connect_session},
    {"/.s3rdma-rc/disconnect", "RdmaDisconnect", disconnect_session},
    {"/.hipobj-rc/prepare", "RdmaPrepare", prepare_push},
    {"/.hipobj-rc/ready", "RdmaReady", ready_push},
    {"/.hipobj-rc/cancel", "RdmaCancel", cancel_push},
};

static const struct route *find_route(struct span path)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(routes); i++) {
        if (rg_span_is(path, routes[i].path)) {
            return &routes[i];
        }
    }
    return NULL;
}

static int answer(struct rg_call *call, const struct route *route, struct rg_error *err)
{
    rg_autofree struct rg_wire_field *fields = NULL;
    struct rg_wire_head head;
    int rc = check_sender(call, err);
    if (rc == 0) {
        rc = read_head(call, &fields, &head, err);
    }
    return rc < 0 ? rc : route->answer(call, &head, err);
}

/* What a failure's answer says about the protocol. */
static void mark_failure(struct rg_call *call, const struct rg_error *err)
{
    if (!rg_span_starts(rg_http_path(call->http), HIPOBJ)) {
        return;
    }
    if (rg_call_error_status(err) == 501) {
        rg_http_header_set(call->http, STATUS_FIELD, "unsupported");
    } else {
        rg_http_header_set(call->http, PROTOCOL_FIELD, RG_PUSH_PROTOCOL);
    }
}

int rg_rdma_control(struct rg_call *call, struct rg_error *err)
{
    const struct route *route = find_route(rg_http_path(call->http));
    int rc;
    if (route) {
        rg_call_set_operation(call, route->name);
    }
    /* Without sessions nothing is looked at, not even who asks. */
    const char *reason = route ? objection(call) : "control-route";
    if (reason) {
        rc = decline(call, reason, err);
    } else if (strcmp(rg_http_method(call->http), "POST") != 0) {
        rc = rg_fail(err, RG_METHOD_NOT_ALLOWED);
    } else {
        rc = answer(call, route, err);
    }
    if (rc < 0) {
        mark_failure(call, err);
    }
    return rc;
}

/* ---- For the verbs ---- */

bool rg_push_only_looks(const struct rg_call *call)
{
    return call->rdma.push == RG_PUSH_LOOKS;
}

int rg_push_select(struct rg_call *call, const struct rg_object_info *info, struct rg_range *range,
                   struct rg_error *err)
{
    uint64_t size = call->rdma.window.length;
    uint64_t offset = call->rdma.push_offset;
    struct span ignored;
    if (rg_call_header(call, "range", &ignored)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "x-amz-rdma-offset and x-amz-rdma-size say which bytes are wanted, not "
                        "Range.");
    }
    if (offset > range->length || size > range->length - offset) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, info->size);
        rg_call_detail(call, "ActualObjectSize", rg_span_text(text));
        return rg_fail(err, RG_INVALID_RANGE);
    }
    range->partial = size != info->size;
    range->offset += offset;
    range->length = size;
    return 0;
}

static void note_moved(struct rg_call *call, uint64_t bytes, const char *path)
{
    call->rdma.moved = bytes;
    snprintf(call->rdma.path, sizeof call->rdma.path, "%s", path);
    rg_call_add_moved(call, bytes);
}

static int end_move(struct rg_call *call, int rc, uint64_t bytes,
                    const struct rg_plane_result *result, struct rg_error *err)
{
    if (rc == 0) {
        note_moved(call, bytes, result->path);
        return 0;
    }
    rg_call_set_path(call, "failed", result->path);
    /* What the peer or we ended on the way is no internal error, and no answer that others read. */
    return rc == -RG_CANCELLED
               ? rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The RDMA transfer was cancelled.")
               : rc;
}

static int hash_bytes(void *context, struct span bytes, struct rg_error *err)
{
    (void)err;
    rg_hasher_update(context, bytes);
    return 0;
}

static int finish_hash(struct rg_call *call, struct rg_hasher *hasher, struct rg_error *err)
{
    if (call->rdma.push_checksum == RG_CHECKSUM_NONE) {
        return 0;
    }
    int rc = rg_hasher_final(hasher, err);
    if (rc == 0) {
        rg_hasher_checksum(hasher, call->rdma.push_checksum, &call->rdma.push_digest);
    }
    return rc;
}

int rg_push_send(struct rg_call *call, int fd, const struct rg_range *range, struct rg_error *err)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    enum rg_checksum_algorithm algorithm = call->rdma.push_checksum;
    bool hashes = algorithm != RG_CHECKSUM_NONE;
    int rc = rg_hasher_init(&hasher, hashes ? RG_HASH_BIT(algorithm) : 0, err);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_direct_close)
    struct rg_file file = rg_rdma_file(call, fd, RG_PLANE_GET, range->offset, range->length);
    struct rg_plane_transfer transfer = {
        .use = RG_PLANE_GET,
        .length = range->length,
        .file = file,
        .file_offset = range->offset,
        .begun_ms = rg_http_started_ms(call->http),
        .account = call->account.access_key,
        .consume = hashes ? hash_bytes : NULL,
        .consume_context = &hasher,
    };
    struct rg_plane_result result;
    rc = rg_rdma_hold(call, call->settings->rdma_push_budget, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_planes_push_send(call->gate->planes, RG_TAKE(call->rdma.session), &transfer, &result,
                             err);
    rg_http_release(call->http);
    rc = end_move(call, rc, range->length, &result, err);
    return rc < 0 ? rc : finish_hash(call, &hasher, err);
}

struct receiving {
    struct rg_body *body;
    struct rg_writing *writing;
    struct rg_hasher *hasher;
};

static void hash_received(struct receiving *receiving, struct span bytes)
{
    rg_body_see(receiving->body, bytes);
    rg_hasher_update(receiving->hasher, bytes);
}

static int see_bytes(void *context, struct span bytes, struct rg_error *err)
{
    struct receiving *receiving = context;
    hash_received(receiving, bytes);
    return rg_writing_saw(receiving->writing, bytes.len, err);
}

/* Where there is no file to write to: the store finds its own words for that. */
static int store_bytes(void *context, struct span bytes, struct rg_error *err)
{
    struct receiving *receiving = context;
    struct rg_writing *writing = receiving->writing;
    hash_received(receiving, bytes);
    return rg_store_writer_write(writing->store, writing->writer, bytes.ptr, bytes.len, err);
}

int rg_push_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                    struct rg_error *err)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    enum rg_checksum_algorithm algorithm = call->rdma.push_checksum;
    int rc =
        rg_hasher_init(&hasher, algorithm == RG_CHECKSUM_NONE ? 0 : RG_HASH_BIT(algorithm), err);
    if (rc < 0) {
        return rc;
    }
    struct receiving receiving = {.body = body, .writing = writing, .hasher = &hasher};
    int fd = rg_store_writer_fd(writing->store, writing->writer);
    uint64_t length = call->rdma.window.length;
    RG_CLEANUP(rg_direct_close)
    struct rg_file file = rg_rdma_file(call, fd, RG_PLANE_PUT, 0, length);
    struct rg_plane_transfer transfer = {
        .use = call->operation == RG_OP_UPLOAD_PART ? RG_PLANE_PART : RG_PLANE_PUT,
        .length = length,
        .file = file,
        .begun_ms = rg_http_started_ms(call->http),
        .account = call->account.access_key,
        .consume = fd < 0 ? store_bytes : see_bytes,
        .consume_context = &receiving,
    };
    struct rg_plane_result result;
    rc = rg_rdma_hold(call, call->settings->rdma_push_budget, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_planes_push_take(call->gate->planes, RG_TAKE(call->rdma.session), &transfer, &result,
                             err);
    rg_http_release(call->http);
    rc = end_move(call, rc, transfer.length, &result, err);
    if (rc == 0 && fd >= 0) {
        rc = rg_store_writer_written(writing->store, writing->writer, transfer.length, err);
    }
    if (rc == 0) {
        rc = finish_hash(call, &hasher, err);
    }
    return rc < 0 ? rc : rg_body_end(body, err);
}

/* Both forms of the checksum that the field's readers know. */
static void answer_digest(struct rg_call *call)
{
    const struct rg_checksum *digest = &call->rdma.push_digest;
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    if (digest->algorithm == RG_CHECKSUM_NONE) {
        return;
    }
    rg_checksum_format(digest, text);
    if (digest->algorithm == RG_CHECKSUM_CRC64NVME) {
        rg_http_header_setf(call->http, "X-Amz-Rdma-Checksum", "CRC64NVME %s", text);
        rg_http_header_set(call->http, "x-amz-rdma-checksum-crc64nvme", text);
    } else {
        rg_http_header_set(call->http, "x-amz-rdma-checksum-crc32c", text);
    }
}

void rg_push_answer(struct rg_call *call)
{
    char cookie[8 + 1];
    rg_push_cookie_print(call->rdma.push_cookie, cookie);
    rg_http_header_set(call->http, PROTOCOL_FIELD, RG_PUSH_PROTOCOL);
    rg_http_header_set(call->http, "X-Amz-Rdma-Cookie", cookie);
    rg_http_header_setf(call->http, "X-Amz-Rdma-Bytes-Transferred", "%" PRIu64, call->rdma.moved);
    rg_call_set_path(call, "rdma", call->rdma.path);
    answer_digest(call);
}
