/*
 * POST /.s3rdma-rc/connect: our queue pair's numbers for the server's. See session.h.
 */
#include "client/session.h"

#include "client/failure.h"
#include "client/pairing.h"
#include "client/piece.h"
#include "client/request.h"

#include "base/attr.h"
#include "rdma/session_wire.h"
#include "rdma/token.h"

#include <stdlib.h>
#include <string.h>

/* Bucket names cannot begin with a dot: the route is no object. */
#define ROUTE_BUCKET ".s3rdma-rc"
#define ROUTE_KEY    "connect"

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

void rg_client_session_mtu(struct rg_request *call, const struct rg_lane_address *address)
{
    if (address->mtu) {
        rg_request_headerf(call, RG_SESSION_MTU_FIELD, "%u", (unsigned)address->mtu);
    }
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
    rg_client_session_mtu(&call, address);
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
    struct rg_pairing pairing;
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
    if (!rg_pairing_read_connect(&answer, &pairing)) {
        return rg_failure_set(failure, RG_STATUS_RDMA_DECLINED,
                              "The gateway's answer names no queue pair to connect to.");
    }
    lane->was_paired = true;
    if (rg_lane_pair(lane->lane, &pairing.peer, &err) < 0) {
        return rg_failure_take(failure, RG_STATUS_RDMA_DECLINED, &err);
    }
    memcpy(lane->session, pairing.session, sizeof lane->session);
    lane->has_session = true;
    return 0;
}
