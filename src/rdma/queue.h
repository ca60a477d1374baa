/*
 * A queue pair's send side and its completion queue: what the lanes of rc and dc have in common.
 * Keeps the order of what was posted, turns the library's completions into the interface's, sleeps
 * on the completion channel, and ends what was posted.
 *
 * What is relied on: a send queue completes in order, and every work request ends in a completion
 * when the queue pair is in the error state. An operation may be several work requests, of which
 * only the last is signaled: its completion is the operation's. A queue pair that was brought to
 * RESET neither sends nor receives.
 *
 * Only rc.c, dc.c and their tests may include this (it shows types of the verbs library).
 */
#ifndef RG_RDMA_QUEUE_H
#define RG_RDMA_QUEUE_H

#include "base/error.h"
#include "rdma/port.h"
#include "rdma/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operations that stay on this side (binding and withdrawing a window) share the queue. */
#define RG_QUEUE_LOCAL_OPERATIONS 2

/* Work requests handed to the device at a time. */
#define RG_QUEUE_BATCH 16

/* wr_id of a receive has this bit, that of a send has not. */
#define RG_QUEUE_RECEIVE_BIT (UINT64_C(1) << 63)

enum rg_queue_kind { RG_QUEUE_WRITE, RG_QUEUE_READ, RG_QUEUE_LOCAL };

struct rg_queue_operation {
    enum rg_queue_kind kind;
    uint64_t cookie;
    uint64_t length;
    uint64_t last;             /* number of its last work request */
    enum ibv_wc_status status; /* the first that went wrong */
};

struct rg_queue {
    struct rg_lane *lane; /* whose books are kept */
    struct rg_port *port;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp; /* made by the owner, with this as qp_context; destroyed by rg_queue_close */
    bool is_over;      /* something broke or was ended: nothing can be posted before a restart */
    bool armed;        /* the channel will say when something arrives */
    atomic_int condemned; /* kind of the event that did, or -1 */

    /* Work requests are numbered through the lane's life; what is below `first` was dropped. */
    uint64_t first, next, done;
    struct rg_queue_operation
        operations[RG_LANE_DEPTH_MAX + RG_QUEUE_LOCAL_OPERATIONS]; /* a ring */
    size_t operation_head, operation_count;
    enum ibv_wc_status local_status; /* of the last RG_QUEUE_LOCAL */

    uint64_t receive_first, receive_next;
    uint64_t receive_cookies[RG_LANE_DEPTH_MAX]; /* a ring, in order */
    size_t receive_head, receive_count;

    /* Completions that were polled and not yet returned. */
    struct rg_completion ready[2 * RG_LANE_DEPTH_MAX];
    size_t ready_head, ready_count;
};

/*
 * Opens channel and completion queue with room for `completions`; *queue must be zero. RG_LIMIT
 * when the device has no more. After an error rg_queue_close is still due.
 */
int rg_queue_open(struct rg_queue *queue, struct rg_port *port, struct rg_lane *lane,
                  uint32_t completions, struct rg_error *err);

/* Destroys what there is, the queue pair too. */
void rg_queue_close(struct rg_queue *queue);

/* The error for a thing that the device does not give, from errno: RG_LIMIT when it has no more. */
int rg_queue_fail(struct rg_error *err, const char *things);

/* Reports that the device or its library is broken, for the lane and for the port. */
int rg_queue_break(struct rg_queue *queue, const char *what, struct rg_error *err);

/* ---- Posting ---- */

/* Enters an operation of so many work requests, before they are posted: their numbers start with
 * the one returned. There must be a place for it. */
uint64_t rg_queue_remember(struct rg_queue *queue, enum rg_queue_kind kind, uint64_t cookie,
                           uint64_t length, uint64_t requests);

/* The same for a receive: its wr_id. */
uint64_t rg_queue_remember_receive(struct rg_queue *queue, uint64_t cookie);

/* Work requests that were posted and have not completed. */
uint64_t rg_queue_depth(const struct rg_queue *queue);

/* Receives that were posted and not yet returned. */
size_t rg_queue_receives(const struct rg_queue *queue);

/* A post failed with `result`: the queue is stopped, because what was posted of the operation
 * cannot be taken back, and the lane is broken. Returns the error. */
int rg_queue_fail_post(struct rg_queue *queue, int result, struct rg_error *err);

/* ---- Completing ---- */

/* Moves what the device has finished to `ready`. */
int rg_queue_pump(struct rg_queue *queue, struct rg_error *err);

/* lane_poll and lane_sleep of the interface. */
int rg_queue_poll(struct rg_queue *queue, struct rg_completion *completions, size_t room,
                  size_t *ret_count, struct rg_error *err);
int rg_queue_sleep(struct rg_queue *queue, int wake_fd, uint64_t timeout_us, struct rg_error *err);

/* For rg_port_take_events: qp_context and cq_context are the queue. */
void rg_queue_condemn(void *queue_context, enum ibv_event_type kind);

/* ---- Ending ---- */

/* Error state, then drained; or reset when it does not drain. After it the device touches no memory
 * for what was posted here any more. */
int rg_queue_quiesce(struct rg_queue *queue, struct rg_error *err);

/* The harder way, which stops peers too: in the error state a packet may still be on its way into
 * memory. */
int rg_queue_stop(struct rg_queue *queue, struct rg_error *err);

/* Back to RESET and empty, after a look at the port; the owner then brings the queue pair up. */
int rg_queue_restart(struct rg_queue *queue, struct rg_error *err);

/* modify_qp to RESET or ERR. */
int rg_queue_to_state(struct rg_queue *queue, enum ibv_qp_state state);

#endif
