/*
 * Requests that ask for their bytes to be moved by RDMA: recognises every spelling of a token, so
 * that none is ever taken for an ordinary request without a body, has the bytes moved by the data
 * planes, and says in the answer which way they went.
 *
 * A token is served, declined (nothing was touched: PUT with an error and x-amz-rdma-reply: 501,
 * GET with the same field beside the object), or refused. It is never ignored on a PUT.
 */
#ifndef RG_GATE_RDMA_ASK_H
#define RG_GATE_RDMA_ASK_H

#include "gate/body.h"
#include "gate/call.h"
#include "gate/object.h"
#include "s3/range.h"

/*
 * To be called once the request is authenticated and authorised. Fills call->rdma. 0 when the verb
 * may go on: there is no token, or the bytes will go by RDMA (rdma.wanted), or the operation is one
 * that may answer by HTTP (rdma.declined then says why). Errors: RG_INVALID_RDMA_TOKEN,
 * RG_ACCESS_DENIED (a token outside the signature), RG_INVALID_REQUEST (a token and a body),
 * RG_RDMA_NOT_SUPPORTED (declined).
 */
int rg_rdma_look(struct rg_call *call, struct rg_error *err);

/*
 * Sends a range of an open file into the client's window, if that is wanted. 0 with rdma.moved set:
 * the bytes are there. 0 without: answer by HTTP, rdma.declined says why. Errors: the transfer
 * broke (RG_RDMA_TRANSFER_FAILED), or declined GETs are to be errors.
 */
int rg_rdma_send(struct rg_call *call, int fd, const struct rg_range *range, struct rg_error *err);

/*
 * Takes a staged body out of the client's window into the writer, up to the end and verified.
 * RG_RDMA_NOT_SUPPORTED (declined, with its fields set), RG_RDMA_TRANSFER_FAILED, errors of
 * rg_body_end and of the store.
 */
int rg_rdma_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                    struct rg_error *err);

/*
 * To be called before bytes are moved for at most `budget_ms` from the request's arrival on: from
 * here to rg_http_release the request is not answered by anybody else, so that nothing is written
 * to the client's memory after an answer. RG_CANCELLED: it has been answered, and nothing may move.
 */
int rg_rdma_hold(struct rg_call *call, int64_t budget_ms, struct rg_error *err);

/* For a verb that answers with `status` and object bytes, whichever way they went:
 * x-railgate-path, x-amz-rdma-reply and the count of bytes. */
void rg_rdma_answer(struct rg_call *call, int status);

#endif
