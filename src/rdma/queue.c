/*
 * The order of what was posted, and what became of it. See queue.h.
 */
#include "rdma/queue.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct rg_verbs *verbs_of(const struct rg_queue *queue)
{
    return queue->port->verbs;
}

int rg_queue_to_state(struct rg_queue *queue, enum ibv_qp_state state)
{
    struct ibv_qp_attr attributes = {.qp_state = state};
    return verbs_of(queue)->modify_qp(queue->qp, &attributes, IBV_QP_STATE);
}

/* ---- Opening ---- */

int rg_queue_fail(struct rg_error *err, const char *things)
{
    int os_errno = rg_verbs_errno(-1);
    bool is_full = os_errno == ENOMEM || os_errno == ENOSPC || os_errno == EMFILE ||
                   os_errno == ENFILE || os_errno == EAGAIN;
    return rg_fail_errno(err, is_full ? RG_LIMIT : RG_SERVICE_UNAVAILABLE, os_errno,
                         "The RDMA device gives no more %s", things);
}

int rg_queue_open(struct rg_queue *queue, struct rg_port *port, struct rg_lane *lane,
                  uint32_t completions, struct rg_error *err)
{
    queue->port = port;
    queue->lane = lane;
    atomic_init(&queue->condemned, -1);
    errno = 0;
    queue->channel = verbs_of(queue)->create_channel(port->context);
    if (!queue->channel) {
        return rg_queue_fail(err, "completion channels");
    }
    queue->cq =
        verbs_of(queue)->create_cq(port->context, (int)completions, queue, queue->channel, 0);
    return queue->cq ? 0 : rg_queue_fail(err, "completion queues");
}

void rg_queue_close(struct rg_queue *queue)
{
    /* Failures here mean a device that is gone; there is nothing left to do about it. */
    if (queue->qp) {
        (void)verbs_of(queue)->destroy_qp(queue->qp);
    }
    if (queue->cq) {
        (void)verbs_of(queue)->destroy_cq(queue->cq);
    }
    if (queue->channel) {
        (void)verbs_of(queue)->destroy_channel(queue->channel);
    }
}

/* ---- Posting ---- */

uint64_t rg_queue_remember(struct rg_queue *queue, enum rg_queue_kind kind, uint64_t cookie,
                           uint64_t length, uint64_t requests)
{
    RG_ASSERT(queue->operation_count < RG_ARRAY_LENGTH(queue->operations));
    size_t at =
        (queue->operation_head + queue->operation_count++) % RG_ARRAY_LENGTH(queue->operations);
    uint64_t number = queue->next;
    queue->next += requests;
    queue->operations[at] = (struct rg_queue_operation){.kind = kind,
                                                        .cookie = cookie,
                                                        .length = length,
                                                        .last = queue->next - 1,
                                                        .status = IBV_WC_SUCCESS};
    return number;
}

uint64_t rg_queue_remember_receive(struct rg_queue *queue, uint64_t cookie)
{
    RG_ASSERT(queue->receive_count < RG_ARRAY_LENGTH(queue->receive_cookies));
    size_t at =
        (queue->receive_head + queue->receive_count++) % RG_ARRAY_LENGTH(queue->receive_cookies);
    queue->receive_cookies[at] = cookie;
    return RG_QUEUE_RECEIVE_BIT | queue->receive_next++;
}

uint64_t rg_queue_depth(const struct rg_queue *queue)
{
    return queue->next - queue->done;
}

/* Receives that were completed and not yet returned count too. */
size_t rg_queue_receives(const struct rg_queue *queue)
{
    size_t held = queue->receive_count;
    for (size_t i = 0; i < queue->ready_count; i++) {
        size_t at = (queue->ready_head + i) % RG_ARRAY_LENGTH(queue->ready);
        held += queue->ready[at].operation == RG_OPERATION_RECEIVE;
    }
    return held;
}

/* ---- Completions ---- */

static struct rg_completion *next_ready(struct rg_queue *queue)
{
    /* Operations count until they are returned, and so do receives. */
    RG_ASSERT(queue->ready_count < RG_ARRAY_LENGTH(queue->ready));
    size_t at = (queue->ready_head + queue->ready_count++) % RG_ARRAY_LENGTH(queue->ready);
    struct rg_completion *completion = &queue->ready[at];
    memset(completion, 0, sizeof *completion);
    return completion;
}

static void judge(struct rg_queue *queue, struct rg_completion *completion,
                  enum ibv_wc_status status)
{
    completion->provider_status = (int)status;
    rg_port_classify(status, &completion->broke, &completion->cause);
    if (status == IBV_WC_SUCCESS) {
        return;
    }
    snprintf(completion->provider_text, sizeof completion->provider_text, "%s",
             verbs_of(queue)->wc_status_text(status));
    queue->is_over = true;
    /* That our own port is down is no news about the peer. */
    if (completion->cause == RG_CAUSE_PEER_GONE || completion->cause == RG_CAUSE_LOCAL) {
        enum rg_cause own = rg_port_ask(queue->port);
        completion->broke = own != RG_CAUSE_NONE ? RG_BROKE_DEVICE : completion->broke;
        completion->cause = own != RG_CAUSE_NONE ? own : completion->cause;
    }
}

int rg_queue_break(struct rg_queue *queue, const char *what, struct rg_error *err)
{
    atomic_store(&queue->port->is_broken, true);
    queue->is_over = true;
    return rg_lane_break(queue->lane, RG_BROKE_DEVICE, RG_CAUSE_DEVICE_GONE, what, err);
}

static void finish_operation(struct rg_queue *queue, const struct rg_queue_operation *operation)
{
    if (operation->kind == RG_QUEUE_LOCAL) {
        queue->local_status = operation->status;
        if (operation->status != IBV_WC_SUCCESS) {
            queue->is_over = true;
        }
        return;
    }
    struct rg_completion *completion = next_ready(queue);
    completion->cookie = operation->cookie;
    completion->operation =
        operation->kind == RG_QUEUE_WRITE ? RG_OPERATION_WRITE : RG_OPERATION_READ;
    completion->length = operation->length;
    judge(queue, completion, operation->status);
}

static int take_send(struct rg_queue *queue, const struct ibv_wc *wc, struct rg_error *err)
{
    uint64_t number = wc->wr_id;
    if (number < queue->first) {
        return 0; /* of a connection before the last reset */
    }
    struct rg_queue_operation *operation = &queue->operations[queue->operation_head];
    if (queue->operation_count == 0 || number < queue->done || number > operation->last) {
        return rg_queue_break(queue, "a completion came out of order", err);
    }
    if (wc->status != IBV_WC_SUCCESS && operation->status == IBV_WC_SUCCESS) {
        operation->status = wc->status;
    }
    queue->done = number + 1;
    if (number == operation->last) {
        struct rg_queue_operation finished = *operation;
        queue->operation_head = (queue->operation_head + 1) % RG_ARRAY_LENGTH(queue->operations);
        queue->operation_count--;
        finish_operation(queue, &finished);
    }
    return 0;
}

static int take_receive(struct rg_queue *queue, const struct ibv_wc *wc, struct rg_error *err)
{
    uint64_t number = wc->wr_id & ~RG_QUEUE_RECEIVE_BIT;
    if (number < queue->receive_first) {
        return 0;
    }
    if (queue->receive_count == 0 || number != queue->receive_next - queue->receive_count) {
        return rg_queue_break(queue, "a receive came out of order", err);
    }
    struct rg_completion *completion = next_ready(queue);
    completion->cookie = queue->receive_cookies[queue->receive_head];
    completion->operation = RG_OPERATION_RECEIVE;
    queue->receive_head = (queue->receive_head + 1) % RG_ARRAY_LENGTH(queue->receive_cookies);
    queue->receive_count--;
    if (wc->status == IBV_WC_SUCCESS) {
        completion->length = wc->byte_len;
        completion->has_immediate =
            wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc->wc_flags & IBV_WC_WITH_IMM);
        completion->immediate = completion->has_immediate ? ntohl(wc->imm_data) : 0;
    }
    judge(queue, completion, wc->status);
    return 0;
}

int rg_queue_pump(struct rg_queue *queue, struct rg_error *err)
{
    struct ibv_wc completions[RG_QUEUE_BATCH];
    int count;
    do {
        count = verbs_of(queue)->poll_cq(queue->cq, RG_QUEUE_BATCH, completions);
        if (count < 0) {
            return rg_queue_break(queue, "the completion queue cannot be read", err);
        }
        for (int i = 0; i < count; i++) {
            int rc = completions[i].wr_id & RG_QUEUE_RECEIVE_BIT
                         ? take_receive(queue, &completions[i], err)
                         : take_send(queue, &completions[i], err);
            if (rc < 0) {
                return rc;
            }
        }
    } while (count == RG_QUEUE_BATCH);
    return 0;
}

/* What events say about this lane. */
static int check_events(struct rg_queue *queue, struct rg_error *err)
{
    enum rg_cause cause = rg_port_cause(queue->port);
    if (cause != RG_CAUSE_NONE) {
        return rg_lane_break(queue->lane, RG_BROKE_DEVICE, cause, NULL, err);
    }
    int kind = atomic_load_explicit(&queue->condemned, memory_order_relaxed);
    if (kind < 0) {
        return 0;
    }
    queue->is_over = true;
    cause = kind == IBV_EVENT_QP_ACCESS_ERR ? RG_CAUSE_REMOTE_ACCESS : RG_CAUSE_OTHER;
    return rg_lane_break(queue->lane, RG_BROKE_CONNECTION, cause,
                         "the device reported it for the queue", err);
}

int rg_queue_poll(struct rg_queue *queue, struct rg_completion *completions, size_t room,
                  size_t *ret_count, struct rg_error *err)
{
    int rc = rg_queue_pump(queue, err);
    if (rc < 0) {
        return rc;
    }
    size_t count = 0;
    while (count < room && queue->ready_count > 0) {
        completions[count++] = queue->ready[queue->ready_head];
        queue->ready_head = (queue->ready_head + 1) % RG_ARRAY_LENGTH(queue->ready);
        queue->ready_count--;
    }
    if (count == 0) {
        rc = check_events(queue, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_count = count;
    return 0;
}

/* ---- Sleeping ---- */

void rg_queue_condemn(void *queue_context, enum ibv_event_type kind)
{
    struct rg_queue *queue = queue_context;
    atomic_store(&queue->condemned, (int)kind);
}

static void take_channel_event(struct rg_queue *queue)
{
    struct ibv_cq *cq;
    void *context;
    if (verbs_of(queue)->get_cq_event(queue->channel, &cq, &context) == 0) {
        verbs_of(queue)->ack_cq_events(cq, 1);
        queue->armed = false;
    }
}

/*
 * A completion that arrives before the queue is armed makes no noise. So the first call only arms
 * it, and the caller polls once more before it comes back to sleep.
 */
int rg_queue_sleep(struct rg_queue *queue, int wake_fd, uint64_t timeout_us, struct rg_error *err)
{
    if (!queue->armed) {
        if (verbs_of(queue)->arm_cq(queue->cq) != 0) {
            return rg_queue_break(queue, "the completion queue cannot be armed", err);
        }
        queue->armed = true;
        return 0;
    }
    struct pollfd items[] = {
        {.fd = queue->channel->fd, .events = POLLIN},
        {.fd = queue->port->context->async_fd, .events = POLLIN},
        {.fd = wake_fd, .events = POLLIN}, /* ignored when negative */
    };
    struct timespec timeout = {.tv_sec = (time_t)(timeout_us / 1000000),
                               .tv_nsec = (long)(timeout_us % 1000000) * 1000};
    int count = ppoll(items, RG_ARRAY_LENGTH(items), &timeout, NULL);
    if (count < 0) {
        return errno == EINTR ? 0 : rg_queue_break(queue, "the lane cannot sleep", err);
    }
    if (items[0].revents) {
        take_channel_event(queue);
    }
    if (items[1].revents) {
        rg_port_take_events(queue->port, rg_queue_condemn);
    }
    return items[2].revents != 0;
}

/* ---- Ending what was posted ---- */

static void drop_operations(struct rg_queue *queue)
{
    queue->first = queue->next;
    queue->done = queue->next;
    queue->operation_count = 0;
    queue->receive_first = queue->receive_next;
    queue->receive_count = 0;
    queue->ready_count = 0;
}

/* True when every work request has completed. */
static bool drain_queue(struct rg_queue *queue)
{
    uint64_t deadline = rg_clock_ms() + RG_FLUSH_DRAIN_MS;
    while (queue->done < queue->next) {
        if (rg_queue_pump(queue, NULL) < 0) {
            return false;
        }
        uint64_t now = rg_clock_ms();
        if (queue->done == queue->next) {
            break;
        }
        if (now >= deadline) {
            return false;
        }
        if (rg_queue_sleep(queue, -1, (deadline - now) * 1000, NULL) < 0) {
            return false;
        }
    }
    return true;
}

int rg_queue_quiesce(struct rg_queue *queue, struct rg_error *err)
{
    queue->is_over = true;
    bool is_quiet = rg_queue_to_state(queue, IBV_QPS_ERR) == 0 && drain_queue(queue);
    if (!is_quiet) {
        int failed = rg_queue_to_state(queue, IBV_QPS_RESET);
        if (failed) {
            return rg_queue_break(queue, "the queue pair cannot be stopped", err);
        }
    }
    drop_operations(queue);
    return 0;
}

int rg_queue_stop(struct rg_queue *queue, struct rg_error *err)
{
    queue->is_over = true;
    (void)rg_queue_to_state(queue, IBV_QPS_ERR);
    if (rg_queue_to_state(queue, IBV_QPS_RESET) != 0) {
        return rg_queue_break(queue, "the queue pair cannot be stopped", err);
    }
    drop_operations(queue);
    return 0;
}

/* What the queue pair left behind; numbers below `first` are not looked at. */
static int empty_queue(struct rg_queue *queue)
{
    struct ibv_wc completions[RG_QUEUE_BATCH];
    int count;
    do {
        count = verbs_of(queue)->poll_cq(queue->cq, RG_QUEUE_BATCH, completions);
    } while (count > 0);
    return count;
}

int rg_queue_restart(struct rg_queue *queue, struct rg_error *err)
{
    rg_port_take_events(queue->port, rg_queue_condemn);
    enum rg_cause cause = rg_port_cause(queue->port);
    if (cause != RG_CAUSE_NONE) {
        return rg_lane_break(queue->lane, RG_BROKE_DEVICE, cause, NULL, err);
    }
    queue->is_over = true;
    if (rg_queue_to_state(queue, IBV_QPS_RESET) != 0) {
        return rg_queue_break(queue, "the queue pair cannot be reset", err);
    }
    drop_operations(queue);
    if (empty_queue(queue) < 0) {
        return rg_queue_break(queue, "the completion queue cannot be read", err);
    }
    atomic_store(&queue->condemned, -1);
    queue->is_over = false;
    return 0;
}

/* Some of it may have been posted all the same: the numbers are used up, the queue is stopped. */
int rg_queue_fail_post(struct rg_queue *queue, int result, struct rg_error *err)
{
    int os_errno = rg_verbs_errno(result);
    int rc = rg_queue_stop(queue, err);
    if (rc < 0) {
        return rc;
    }
    if (os_errno == EACCES || os_errno == EPERM) {
        return rg_lane_break(queue->lane, RG_BROKE_DEVICE, RG_CAUSE_LOCAL,
                             "the kernel refuses posts since this process changed its credentials; "
                             "the device must be opened again",
                             err);
    }
    enum rg_broke broke =
        os_errno == EIO || os_errno == ENODEV ? RG_BROKE_DEVICE : RG_BROKE_CONNECTION;
    return rg_lane_break(queue->lane, broke, RG_CAUSE_LOCAL, strerrordesc_np(os_errno), err);
}
