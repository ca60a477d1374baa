/*
 * Requests that ask for their bytes to be moved by RDMA: recognises every spelling of a token, so
 * that none is ever taken for an ordinary request without a body. So far nothing moves bytes, and
 * each is declined: PUT with an error and x-amz-rdma-reply: 501, GET with the same field beside the
 * object.
 */
#ifndef RG_GATE_RDMA_ASK_H
#define RG_GATE_RDMA_ASK_H

#include "gate/call.h"

/* The control routes of RDMA sessions ("/.hipobj-rc/prepare", "/.s3rdma-rc/connect"): bucket names
 * cannot begin with a dot, so they are nothing else. */
bool rg_rdma_is_control(struct span path);

/* Sets the fields of the decline and returns RG_RDMA_NOT_SUPPORTED. */
int rg_rdma_decline_control(struct rg_call *call, struct rg_error *err);

/*
 * To be called once the request is authenticated and authorised. 0 when the verb may go on: there
 * is no token, or the operation is one that may answer by HTTP; call->rdma_declined then says why
 * it does (NULL: nobody asked). Errors: RG_INVALID_RDMA_TOKEN, RG_ACCESS_DENIED (a token outside
 * the signature), RG_INVALID_REQUEST (a token and a body), RG_RDMA_NOT_SUPPORTED (declined).
 */
int rg_rdma_look(struct rg_call *call, struct rg_error *err);

/* For a verb that answers with object bytes by HTTP: x-railgate-path, and the decline if there is
 * one. */
void rg_rdma_answer_by_http(struct rg_call *call);

#endif
