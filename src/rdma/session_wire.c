/*
 * Fields of the session routes. See session_wire.h for what is tolerated.
 */
#include "rdma/session_wire.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"

#include <inttypes.h>
#include <stdio.h>

#define FAMILY RG_SPAN_LITERAL("x-amz-rdma-")

static int bad(struct rg_error *err, const char *name, const char *why)
{
    return rg_failf(err, RG_INVALID_REQUEST, "The field x-amz-rdma-%s %s.", name, why);
}

static bool is_field(const struct rg_wire_field *field, const char *name)
{
    struct span family = rg_span_head(field->name, FAMILY.len);
    return rg_span_is_nocase(family, FAMILY.ptr) &&
           rg_span_is_nocase(rg_span_skip(field->name, FAMILY.len), name);
}

/* The value of x-amz-rdma-NAME without white space around it; ptr NULL when it is not there. */
static int find(const struct rg_wire_head *head, const char *name, struct span *ret_value,
                struct rg_error *err)
{
    struct span value = {NULL, 0};
    for (size_t i = 0; i < head->count; i++) {
        if (!is_field(&head->fields[i], name)) {
            continue;
        }
        if (value.ptr) {
            return bad(err, name, "is there twice");
        }
        value = rg_span_trim(head->fields[i].value);
        if (!value.ptr) {
            value = RG_SPAN_EMPTY;
        }
    }
    *ret_value = value;
    return 0;
}

static int need(const struct rg_wire_head *head, const char *name, struct span *ret_value,
                struct rg_error *err)
{
    int rc = find(head, name, ret_value, err);
    if (rc < 0) {
        return rc;
    }
    return ret_value->ptr ? 0 : bad(err, name, "is missing");
}

/*
 * Our own field, x-railgate-mtu: the path MTU of the peer's end, in bytes. Dialects know none, and
 * take it for granted that both ends have the same. Absent: 0.
 */
static int read_mtu(const struct rg_wire_head *head, uint32_t *ret_mtu, struct rg_error *err)
{
    uint32_t mtu = 0;
    for (size_t i = 0; i < head->count; i++) {
        if (!rg_span_is_nocase(head->fields[i].name, RG_SESSION_MTU_FIELD)) {
            continue;
        }
        if (mtu || !rg_session_mtu_parse(head->fields[i].value, &mtu)) {
            return rg_failf(err, RG_INVALID_REQUEST,
                            "The field " RG_SESSION_MTU_FIELD " is there twice, or is none of 256, "
                            "512, 1024, 2048, 4096.");
        }
    }
    *ret_mtu = mtu;
    return 0;
}

bool rg_session_mtu_parse(struct span text, uint32_t *ret_mtu)
{
    uint64_t mtu;
    if (!rg_span_to_u64(rg_span_trim(text), &mtu) || mtu < 256 || mtu > 4096 ||
        (mtu & (mtu - 1)) != 0) {
        return false;
    }
    *ret_mtu = (uint32_t)mtu;
    return true;
}

static int need_hex(const struct rg_wire_head *head, const char *name, uint64_t most,
                    uint64_t *ret_value, struct rg_error *err)
{
    struct span text;
    int rc = need(head, name, &text, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t value;
    if (!rg_hex_to_u64(text, &value)) {
        return bad(err, name, "is not a hexadecimal number of 1 to 16 digits");
    }
    if (value > most) {
        return bad(err, name, "is too large");
    }
    *ret_value = value;
    return 0;
}

/* ---- What several routes share ---- */

static int check_protocol(const struct rg_wire_head *head, struct rg_error *err)
{
    struct span protocol;
    int rc = find(head, "protocol", &protocol, err);
    if (rc < 0) {
        return rc;
    }
    if (!protocol.ptr || !rg_span_is(protocol, RG_PUSH_PROTOCOL)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "The RDMA protocol is not %s.",
                        RG_PUSH_PROTOCOL);
    }
    return 0;
}

static int need_psn(const struct rg_wire_head *head, uint32_t *ret_psn, struct rg_error *err)
{
    uint64_t psn;
    int rc = need_hex(head, "psn", 0xffffff, &psn, err);
    if (rc < 0) {
        return rc;
    }
    if (psn == 0) {
        return bad(err, "psn", "is zero");
    }
    *ret_psn = (uint32_t)psn;
    return 0;
}

static int need_cookie(const struct rg_wire_head *head, bool strict, uint32_t *ret_cookie,
                       struct rg_error *err)
{
    uint64_t cookie;
    int rc = need_hex(head, "cookie", UINT32_MAX, &cookie, err);
    if (rc < 0) {
        return rc;
    }
    if (cookie == 0 && strict) {
        return bad(err, "cookie", "is zero");
    }
    *ret_cookie = (uint32_t)cookie;
    return 0;
}

static int need_session(const struct rg_wire_head *head, struct rg_session_id *ret_session,
                        struct rg_error *err)
{
    struct span text;
    int rc = need(head, "session", &text, err);
    if (rc < 0) {
        return rc;
    }
    return rg_session_id_parse(text, ret_session) ? 0 : bad(err, "session", "is not 32 hex digits");
}

bool rg_session_id_parse(struct span text, struct rg_session_id *ret_session)
{
    struct rg_session_id id;
    if (!rg_hex_decode(text, id.bytes, sizeof id.bytes)) {
        return false;
    }
    *ret_session = id;
    return true;
}

/* ---- Tokens ---- */

static int bad_token(struct rg_error *err, const char *why)
{
    return rg_failf(err, RG_INVALID_RDMA_TOKEN, "The RDMA token is not valid: %s.", why);
}

static bool is_zeros(struct span token)
{
    struct span digits = rg_span_head(token, RG_HIPOBJ_TOKEN_LENGTH);
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] != '0') {
            return false;
        }
    }
    return digits.len == RG_HIPOBJ_TOKEN_LENGTH;
}

/* Only who the peer is counts: transport, queue pair, GID, port and LID. */
static int need_token(const struct rg_wire_head *head, struct span *ret_token,
                      struct rg_lane_address *ret_peer, struct rg_error *err)
{
    struct span token;
    struct rg_rdma_window window;
    int rc = need(head, "token", &token, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_token_parse(token, &window, err);
    if (rc < 0) {
        return rc;
    }
    if (window.dialect != RG_DIALECT_HIPOBJ_V1) {
        return bad_token(err, "it is not one of a queue pair");
    }
    *ret_token = token;
    memset(ret_peer, 0, sizeof *ret_peer);
    ret_peer->qpn = window.qpn;
    ret_peer->lid = window.lid;
    ret_peer->port = window.port;
    ret_peer->has_gid = window.has_gid;
    memcpy(ret_peer->gid, window.gid, sizeof ret_peer->gid);
    if (window.transport == RG_TRANSPORT_RC && window.has_gid) {
        return 0;
    }
    if (is_zeros(token)) {
        return 0;
    }
    return bad_token(err, window.has_gid ? "its transport is not RC" : "its GID is zero");
}

/* ---- PREPARE ---- */

static int read_direction(struct span op, enum rg_direction *ret_direction, struct rg_error *err)
{
    if (rg_span_is_nocase(op, "GET")) {
        *ret_direction = RG_DIRECTION_GET;
        return 0;
    }
    if (rg_span_is_nocase(op, "PUT")) {
        *ret_direction = RG_DIRECTION_PUT;
        return 0;
    }
    return bad(err, "op", "is neither GET nor PUT");
}

static bool is_encoded(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7f) {
            return false;
        }
        if (c == '%' && (text.len - i < 3 || rg_hex_digit(text.ptr[i + 1]) < 0 ||
                         rg_hex_digit(text.ptr[i + 2]) < 0)) {
            return false;
        }
    }
    return true;
}

static int read_target(struct span target, struct rg_push_prepare *prepare, struct rg_error *err)
{
    if (target.len > RG_PUSH_TARGET_MAX) {
        return bad(err, "target", "is too long");
    }
    if (!is_encoded(target)) {
        return bad(err, "target", "is not percent-encoded");
    }
    struct span rest = target;
    prepare->path = rg_span_cut(&rest, '?');
    prepare->query = rest.ptr ? rest : RG_SPAN_EMPTY;
    struct span key = rg_span_skip(prepare->path, 1);
    struct span bucket = rg_span_cut(&key, '/');
    if (prepare->path.len == 0 || prepare->path.ptr[0] != '/' || bucket.len == 0 || !key.ptr ||
        key.len == 0) {
        return bad(err, "target", "is not /bucket/key");
    }
    return 0;
}

static int read_size(struct span text, uint64_t *ret_size, struct rg_error *err)
{
    /* One that does not fit 64 bits is still nothing but too large. */
    uint64_t size = UINT64_MAX;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return bad(err, "size", "is not a decimal number");
        }
    }
    if (text.len == 0) {
        return bad(err, "size", "is empty");
    }
    (void)rg_span_to_u64(text, &size);
    if (size == 0) {
        return bad(err, "size", "is zero");
    }
    if (size > RG_PUSH_SIZE_MAX) {
        return rg_fail(err, RG_RDMA_TOO_LARGE);
    }
    *ret_size = size;
    return 0;
}

static int read_offset(const struct rg_wire_head *head, struct rg_push_prepare *prepare,
                       struct rg_error *err)
{
    struct span text;
    uint64_t end;
    prepare->offset = 0;
    int rc = find(head, "offset", &text, err);
    if (rc < 0 || !text.ptr) {
        return rc;
    }
    if (!rg_span_to_u64(text, &prepare->offset) ||
        !rg_add_checked(prepare->offset, prepare->size, &end) || end > INT64_MAX) {
        return bad(err, "offset", "is not a decimal number in range");
    }
    if (prepare->direction == RG_DIRECTION_PUT && prepare->offset != 0) {
        return bad(err, "offset", "must be 0 for PUT");
    }
    return 0;
}

/* What is to be moved. */
static int read_order(const struct rg_wire_head *head, struct rg_push_prepare *prepare,
                      struct rg_error *err)
{
    struct span op;
    struct span target;
    struct span size;
    int rc = need(head, "op", &op, err);
    if (rc == 0) {
        rc = read_direction(op, &prepare->direction, err);
    }
    if (rc == 0) {
        rc = need(head, "target", &target, err);
    }
    if (rc == 0) {
        rc = read_target(target, prepare, err);
    }
    if (rc == 0) {
        rc = need(head, "size", &size, err);
    }
    if (rc == 0) {
        rc = read_size(size, &prepare->size, err);
    }
    return rc < 0 ? rc : read_offset(head, prepare, err);
}

int rg_push_prepare_parse(const struct rg_wire_head *head, bool strict,
                          struct rg_push_prepare *ret_prepare, struct rg_error *err)
{
    struct rg_push_prepare prepare;
    struct span token;
    int rc = check_protocol(head, err);
    if (rc < 0) {
        return rc;
    }
    rc = need_token(head, &token, &prepare.peer, err);
    if (rc < 0) {
        return rc;
    }
    prepare.is_loopback = is_zeros(token);
    rc = need_psn(head, &prepare.peer.psn, err);
    if (rc < 0) {
        return rc;
    }
    rc = read_mtu(head, &prepare.peer.mtu, err);
    if (rc < 0) {
        return rc;
    }
    rc = need_cookie(head, strict, &prepare.cookie, err);
    if (rc < 0) {
        return rc;
    }
    rc = read_order(head, &prepare, err);
    if (rc < 0) {
        return rc;
    }
    *ret_prepare = prepare;
    return 0;
}

/* ---- READY and CANCEL ---- */

static int read_window(const struct rg_wire_head *head, struct rg_push_ready *ready,
                       struct rg_error *err)
{
    struct span address;
    struct span rkey;
    int rc = find(head, "mr-addr", &address, err);
    if (rc == 0) {
        rc = find(head, "mr-rkey", &rkey, err);
    }
    if (rc < 0) {
        return rc;
    }
    ready->address = 0;
    ready->rkey = 0;
    ready->has_window = address.ptr || rkey.ptr;
    if (!ready->has_window) {
        return 0;
    }
    uint64_t key;
    rc = need_hex(head, "mr-addr", UINT64_MAX, &ready->address, err);
    if (rc == 0) {
        rc = need_hex(head, "mr-rkey", UINT32_MAX, &key, err);
    }
    if (rc < 0) {
        return rc;
    }
    ready->rkey = (uint32_t)key;
    return 0;
}

int rg_push_ready_parse(const struct rg_wire_head *head, bool strict,
                        struct rg_push_ready *ret_ready, struct rg_error *err)
{
    struct rg_push_ready ready;
    uint64_t qpn = 0;
    int rc = check_protocol(head, err);
    if (rc == 0) {
        rc = need_session(head, &ready.session, err);
    }
    if (rc == 0) {
        rc = need_cookie(head, strict, &ready.cookie, err);
    }
    if (rc == 0) {
        rc = need_hex(head, "qpn", 0xffffff, &qpn, err);
    }
    if (rc == 0 && qpn == 0) {
        rc = bad(err, "qpn", "is zero");
    }
    if (rc == 0) {
        rc = read_window(head, &ready, err);
    }
    if (rc < 0) {
        return rc;
    }
    ready.qpn = (uint32_t)qpn;
    *ret_ready = ready;
    return 0;
}

int rg_push_cancel_parse(const struct rg_wire_head *head, struct rg_session_id *ret_session,
                         struct rg_error *err)
{
    int rc = check_protocol(head, err);
    return rc < 0 ? rc : need_session(head, ret_session, err);
}

/* ---- D2 ---- */

int rg_session_connect_parse(const struct rg_wire_head *head, struct rg_lane_address *ret_peer,
                             struct rg_error *err)
{
    struct span token;
    struct rg_lane_address peer;
    int rc = need_token(head, &token, &peer, err);
    if (rc < 0) {
        return rc;
    }
    if (peer.qpn == 0) {
        return bad_token(err, "its queue pair number is zero");
    }
    rc = need_psn(head, &peer.psn, err);
    if (rc < 0) {
        return rc;
    }
    rc = read_mtu(head, &peer.mtu, err);
    if (rc < 0) {
        return rc;
    }
    *ret_peer = peer;
    return 0;
}

int rg_session_disconnect_parse(const struct rg_wire_head *head, struct rg_session_id *ret_session,
                                struct rg_error *err)
{
    return need_session(head, ret_session, err);
}

/* ---- Answers ---- */

int rg_session_answer_print(const struct rg_session_id *session, const struct rg_lane_address *own,
                            const struct rg_rdma_window *window,
                            struct rg_session_answer *ret_answer, struct rg_error *err)
{
    struct rg_rdma_window token = {
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .address = window ? window->address : 0,
        .length = window ? window->length : 0,
        .rkey = window ? window->rkey : 0,
        .qpn = own->qpn,
        .lid = own->lid,
        .port = own->port,
        .has_gid = own->has_gid,
    };
    RG_BUF(reply, RG_SESSION_REPLY_BYTES);
    memcpy(token.gid, own->gid, sizeof token.gid);
    memset(ret_answer, 0, sizeof *ret_answer);
    rg_buf_add_text(&reply, "200:");
    rg_token_print_hipobj(&token, &reply);
    if (!rg_buf_ok(&reply)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_ASSERT(reply.len == RG_SESSION_REPLY_BYTES);
    memcpy(ret_answer->reply, reply.data, reply.len);
    rg_hex_encode(session->bytes, sizeof session->bytes, ret_answer->session);
    snprintf(ret_answer->psn, sizeof ret_answer->psn, "%06" PRIx32, own->psn & 0xffffff);
    snprintf(ret_answer->qpn, sizeof ret_answer->qpn, "%" PRIx32, own->qpn & 0xffffff);
    if (own->mtu) {
        snprintf(ret_answer->mtu, sizeof ret_answer->mtu, "%" PRIu32, own->mtu);
    }
    if (window) {
        snprintf(ret_answer->mr_addr, sizeof ret_answer->mr_addr, "%" PRIx64, window->address);
        snprintf(ret_answer->mr_rkey, sizeof ret_answer->mr_rkey, "%" PRIx32,
                 (uint32_t)window->rkey);
    }
    return 0;
}

void rg_push_cookie_print(uint32_t cookie, char ret_text[8 + 1])
{
    snprintf(ret_text, 8 + 1, "%08" PRIx32, cookie);
}
