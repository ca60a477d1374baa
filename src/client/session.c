/*
 * POST /.s3rdma-rc/connect: our queue pair's numbers for the server's. See session.h.
 */
#include "client/session.h"

#include "client/failure.h"
#include "client/piece.h"
#include "client/request.h"

#include "base/attr.h"
#include "base/encode.h"
#include "rdma/token.h"

#include <stdlib.h>
#include <string.h>

/* Bucket names cannot begin with a dot: the route is no object. */
#define ROUTE_BUCKET ".s3rdma-rc"
#define ROUTE_KEY    "connect"
#define PSN_DIGITS   6

struct rg_rdma_window rg_client_session_window(const struct rg_lane_address *address)
{
    struct rg_rdma_window window = {
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .qpn = address->qpn,
        .lid = address->lid,
        .port = address->port,
        .has_gid = address->has_gid,
    };
    memcpy(window.gid, address->gid, sizeof window.gid);
    return window;
}

static bool read_psn(struct span text, uint32_t *ret_psn)
{
    unsigned char bytes[PSN_DIGITS / 2];
    if (!rg_hex_decode(text, bytes, sizeof bytes)) {
        return false;
    }
    *ret_psn = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    return true;
}

static bool is_session(struct span text)
{
    unsigned char bytes[RG_RC_SESSION_LENGTH / 2];
    return text.len == RG_RC_SESSION_LENGTH && rg_hex_decode(text, bytes, sizeof bytes);
}

bool rg_client_session_peer(const struct rg_http_answer *answer, struct rg_lane_address *ret_peer)
{
    struct rg_rdma_window window;
    memset(&window, 0, sizeof window);
    struct span reply = rg_http_field(answer, RG_ANSWER_REPLY);
    if (answer->twice[RG_ANSWER_REPLY] || !rg_span_starts(reply, RG_SPAN_LITERAL("200:")) ||
        rg_rdma_reply_parse(reply, true, &window) != 200 ||
        !read_psn(rg_http_field(answer, RG_ANSWER_RDMA_PSN), &ret_peer->psn) ||
        !is_session(rg_http_field(answer, RG_ANSWER_RDMA_SESSION))) {
        return false;
    }
    ret_peer->qpn = window.qpn;
    ret_peer->lid = window.lid;
    ret_peer->port = window.port;
    ret_peer->has_gid = window.has_gid;
    memcpy(ret_peer->gid, window.gid, sizeof ret_peer->gid);
    return true;
}

static int ask(struct rg_client *client, const struct rg_lane_address *address,
               struct rg_http_answer *answer, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    struct rg_rdma_window window = rg_client_session_window(address);
    RG_BUF(token, RG_TOKEN_MAX);
    rg_token_print_hipobj(&window, &token);
    call.method = "POST";
    call.bucket = ROUTE_BUCKET;
    call.key = ROUTE_KEY;
    call.what = "RDMA session";
    call.repeat = RG_REPEAT_REFUSED;
    call.has_body = true;
    rg_request_header(&call, "x-amz-rdma-token", rg_buf_text(&token));
    rg_request_headerf(&call, "x-amz-rdma-psn", "%06x", (unsigned)address->psn);
    return rg_request_run(client, &call, answer, failure);
}

static int decline(struct rg_failure *failure)
{
    failure->status = RG_STATUS_RDMA_DECLINED;
    return -RG_STATUS_RDMA_DECLINED;
}

static int disconnect(struct rg_client *client, const struct rg_client_lane *lane)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_failure ignored;
    memset(&ignored, 0, sizeof ignored);
    call.method = "POST";
    call.bucket = ROUTE_BUCKET;
    call.key = "disconnect";
    call.has_body = true;
    rg_request_header(&call, "x-amz-rdma-session", lane->session);
    return rg_request_send(client, &call, &answer, &ignored);
}

void rg_client_sessions_end(struct rg_client *client)
{
    for (size_t i = 0; i < client->rails->count; i++) {
        struct rg_client_lane *lane = client->rails->rails[i].idle;
        for (; lane; lane = lane->next) {
            /* Whom one request does not reach, the others do not either. */
            if (lane->has_session && disconnect(client, lane) < 0) {
                return;
            }
        }
    }
}

int rg_client_session_connect(struct rg_client *client, struct rg_client_lane *lane,
                              char reason[RG_REASON_MAX + 1], struct rg_failure *failure)
{
    if (lane->has_session) {
        return 0;
    }
    struct rg_error err = RG_ERROR_INIT;
    struct rg_lane_address own = {.qpn = 0};
    struct rg_lane_address peer = {.qpn = 0};
    snprintf(reason, RG_REASON_MAX + 1, "session-refused");
    if (rg_lane_address(lane->lane, &own, &err) < 0) {
        return rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
    }
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    int rc = ask(client, &own, &answer, failure);
    if (rc < 0) {
        bool is_answer = failure->http_status >= 400 && failure->status != RG_STATUS_CREDENTIALS;
        if (answer.has[RG_ANSWER_REPLY] || answer.has[RG_ANSWER_PATH]) {
            rg_piece_reason(&answer, reason);
        }
        return is_answer ? decline(failure) : rc;
    }
    if (!rg_client_session_peer(&answer, &peer)) {
        return rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                              "The gateway's answer names no queue pair to connect to.");
    }
    lane->was_paired = true;
    if (rg_lane_pair(lane->lane, &peer, &err) < 0) {
        return rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
    }
    snprintf(lane->session, sizeof lane->session, "%s",
             rg_http_field(&answer, RG_ANSWER_RDMA_SESSION).ptr);
    lane->has_session = true;
    return 0;
}
