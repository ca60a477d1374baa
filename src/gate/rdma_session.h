/*
 * The routes of RDMA sessions: /.s3rdma-rc/connect and disconnect, after which ordinary requests
 * carry rc: tokens, and /.hipobj-rc/prepare, ready and cancel, whose requests name an object in a
 * field and move it themselves. Bucket names cannot begin with a dot, so the paths are nothing
 * else.
 *
 * The object of hipobj-rc-v2 is checked twice, at PREPARE and at READY, by the verb that GETs and
 * PUTs it in any other way: signature, rights, names, conditions. What PREPARE's fields say about
 * the object (metadata, conditions, checksums) is kept for READY, whose own are added.
 */
#ifndef RG_GATE_RDMA_SESSION_H
#define RG_GATE_RDMA_SESSION_H

#include "gate/body.h"
#include "gate/call.h"
#include "gate/object.h"
#include "s3/range.h"

bool rg_rdma_is_control(struct span path);

/* Answers such a request, from its signature on. A verb, for dispatch.c. */
int rg_rdma_control(struct rg_call *call, struct rg_error *err);

/* Frees what a call keeps of its order. NULL is allowed. */
void rg_push_order_free(void *order);

/* ---- For the verbs, when call->rdma.push says so ---- */

/* Only the checks are wanted: the verb returns before it moves or changes anything. */
bool rg_push_only_looks(const struct rg_call *call);

/* Narrows the bytes of an object, or of its part, to those that were asked for. RG_INVALID_RANGE
 * unless all of them are there, RG_INVALID_REQUEST for a Range field. */
int rg_push_select(struct rg_call *call, const struct rg_object_info *info, struct rg_range *range,
                   struct rg_error *err);

/* Moves the bytes; the session is over, or waits for another READY. */
int rg_push_send(struct rg_call *call, int fd, const struct rg_range *range, struct rg_error *err);
int rg_push_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                    struct rg_error *err);

/* The fields of a success. */
void rg_push_answer(struct rg_call *call);

#endif
