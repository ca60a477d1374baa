/*
 * Sessions of reliable connections (dialect D2): before a lane of the rc transport can be named in
 * a token, both ends' queue pairs are paired by one signed request.
 */
#ifndef RG_CLIENT_SESSION_H
#define RG_CLIENT_SESSION_H

#include "client/client.h"
#include "client/rails.h"
#include "client/request.h"

#include "rdma/token.h"

/*
 * Pairs the lane unless it is paired already. Failures as those of any request; a server that has
 * no such route, or declines, is RG_STATUS_RDMA_DECLINED with its reason in `reason`.
 */
int rg_client_session_connect(struct rg_client *client, struct rg_client_lane *lane,
                              char reason[RG_REASON_MAX + 1], struct rg_failure *failure);

/* Tells the server that the sessions of idle lanes are over: it would keep them for minutes. For
 * the end of the client; what cannot be told is left to time. */
void rg_client_sessions_end(struct rg_client *client);

/* ---- What both dialects of the rc transport say ---- */

/* Our end, for the printer of its token. */
struct rg_rdma_window rg_client_session_window(const struct rg_lane_address *address);

/* Says our path MTU, where it is known, so that both ends take the smaller. */
void rg_client_session_mtu(struct rg_request *call, const struct rg_lane_address *address);

#endif
