/*
 * Work on a lane: posting, completions, sleeping until there are some, ending what is under way,
 * and the round that moves a target's bytes.
 */
#include "rdma/ofi_inside.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

/* A peer that has not let the first operation through after this long is taken for gone. */
#define CONNECT_MS 3000

/* When and how often to look whether a peer that does not connect is there at all. */
#define KNOCK_AFTER_MS 100
#define KNOCK_AGAIN_MS 1000

/* Sleeps where there is no descriptor to sleep on. */
#define NAP_FIRST_US 10
#define NAP_MAX_US   400
#define USUAL_MAX_US 2000

/* ---- Posting ---- */

static struct rg_ofi_operation *free_operation(struct rg_ofi_lane *lane)
{
    for (size_t i = 0; i < lane->lane.depth; i++) {
        if (!lane->operations[i].busy) {
            return &lane->operations[i];
        }
    }
    return NULL;
}

/*
 * EAGAIN: full queues, or no connection: not yet, or, when a peer died between two operations, not
 * any more. A peer that takes nothing although nothing is in flight is given up after a while.
 */
static int refused(struct rg_ofi_lane *lane, struct rg_error *err)
{
    if (lane->lane.outstanding > 0) {
        return rg_fail(err, RG_LIMIT);
    }
    uint64_t now = rg_clock_ms();
    if (lane->refused_at == 0) {
        lane->refused_at = now;
        lane->knock_at = now + KNOCK_AFTER_MS;
    }
    bool gone = now - lane->refused_at >= CONNECT_MS;
    if (!gone && lane->rail->provider == RG_OFI_TCP && now >= lane->knock_at) {
        lane->knock_at = now + KNOCK_AGAIN_MS;
        gone = rg_ofi_peer_is_port_closed(lane->peer);
    }
    if (!gone) {
        return rg_fail(err, RG_LIMIT);
    }
    return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                         "no connection to the token's endpoint", err);
}

static int post(struct rg_ofi_lane *lane, struct rg_region *region, uint64_t region_offset,
                uint64_t window_offset, uint64_t length, enum rg_lane_operation kind,
                uint64_t cookie, struct rg_error *err)
{
    struct rg_ofi_rail *rail = lane->rail;
    struct rg_ofi_operation *operation = free_operation(lane);
    if (!operation) {
        return rg_fail(err, RG_LIMIT);
    }
    if (!rg_ofi_peer_is_alive(lane->peer)) {
        return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                             "its process has ended", err);
    }
    const struct rg_rdma_window *window = &lane->lane.window;
    struct fid_mr *mr = ((struct rg_ofi_region *)region)->mr;
    void *descriptor = mr ? fi_mr_desc(mr) : NULL;
    struct iovec local = {(char *)region->address + region_offset, length};
    struct fi_rma_iov remote = {
        .addr = (rail->virtual_addresses ? window->address : 0) + window_offset,
        .len = length,
        .key = window->rkey,
    };
    struct fi_msg_rma message = {
        .msg_iov = &local,
        .desc = &descriptor,
        .iov_count = 1,
        .addr = lane->peer->address,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &operation->context,
    };
    operation->cookie = cookie;
    operation->length = length;
    operation->kind = kind;
    uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    ssize_t rc = kind == RG_OPERATION_WRITE ? fi_writemsg(lane->ep, &message, flags)
                                            : fi_readmsg(lane->ep, &message, flags);
    if (rc == -FI_EAGAIN) {
        return refused(lane, err);
    }
    if (rc) {
        return rg_lane_break(&lane->lane, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, rg_ofi_explain(rc),
                             err);
    }
    operation->busy = true;
    lane->begun_ns = rg_clock_ns();
    lane->refused_at = 0;
    lane->nap_us = 0;
    return 0;
}

int rg_ofi_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err)
{
    if (immediate) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Transport ofi has no writes with immediate.");
    }
    return post(rg_ofi_lane_of(lane), region, region_offset, window_offset, length,
                RG_OPERATION_WRITE, cookie, err);
}

int rg_ofi_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err)
{
    return post(rg_ofi_lane_of(lane), region, region_offset, window_offset, length,
                RG_OPERATION_READ, cookie, err);
}

/* ---- Completions ---- */

static enum rg_cause classify(int code)
{
    switch (code) {
    case FI_EACCES:
    case FI_EKEYREJECTED:
    case FI_EPERM:
    case FI_EFAULT:
    case FI_EINVAL:
        return RG_CAUSE_REMOTE_ACCESS;
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ENOTCONN:
    case EPIPE:
    case FI_ESHUTDOWN:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT:
    case FI_ECANCELED:
    case ESRCH:
        return RG_CAUSE_PEER_GONE;
    case FI_ETRUNC:
        return RG_CAUSE_SHORT;
    default:
        return RG_CAUSE_OTHER;
    }
}

static void complete(struct rg_ofi_operation *operation, struct rg_completion *ret_completion)
{
    *ret_completion = (struct rg_completion){
        .cookie = operation->cookie,
        .operation = operation->kind,
        .length = operation->length,
    };
    operation->busy = false;
}

/* Takes one error; its operation may be nobody's (a peer's). Returns the completions made: 0 or 1.
 */
static size_t take_error(struct rg_ofi_lane *lane, struct rg_completion *ret_completion)
{
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(lane->cq, &error, 0) <= 0 || !error.op_context) {
        return 0;
    }
    struct rg_ofi_operation *operation = error.op_context;
    if (operation < lane->operations ||
        operation >= lane->operations + RG_ARRAY_LENGTH(lane->operations) || !operation->busy) {
        return 0;
    }
    complete(operation, ret_completion);
    ret_completion->broke = RG_BROKE_CONNECTION;
    ret_completion->cause =
        rg_ofi_peer_is_alive(lane->peer) ? classify(error.err) : RG_CAUSE_PEER_GONE;
    ret_completion->provider_status = error.err;
    snprintf(ret_completion->provider_text, sizeof ret_completion->provider_text, "%s",
             rg_ofi_explain(error.err));
    return 1;
}

/* Learns how long one has to wait. */
static void note_move(struct rg_ofi_lane *lane)
{
    uint64_t took_us = RG_MIN((rg_clock_ns() - lane->begun_ns) / 1000, (uint64_t)USUAL_MAX_US);
    lane->usual_us = (3 * lane->usual_us + took_us) / 4;
    lane->nap_us = 0;
}

int rg_ofi_lane_poll(struct rg_lane *public, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    size_t count = 0;
    while (lane->cq && count < room) {
        struct fi_cq_entry entry;
        ssize_t rc = fi_cq_read(lane->cq, &entry, 1);
        if (rc == -FI_EAGAIN) {
            break;
        }
        if (rc == -FI_EAVAIL) {
            count += take_error(lane, &completions[count]);
            continue;
        }
        if (rc < 0) {
            return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, rg_ofi_explain(rc),
                                 err);
        }
        struct rg_ofi_operation *operation = entry.op_context;
        if (rc == 1 && operation && operation->busy) {
            complete(operation, &completions[count++]);
        }
    }
    if (count > 0) {
        note_move(lane);
    }
    *ret_count = count;
    return 0;
}

/* Sleeps on up to two descriptors; 1 when the second is readable. */
static int sleep_on(int fd, int wake_fd, uint64_t timeout_us)
{
    struct pollfd items[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    struct timespec time = {
        .tv_sec = (time_t)(timeout_us / 1000000),
        .tv_nsec = (long)(timeout_us % 1000000 * 1000),
    };
    int rc = ppoll(items, 2, &time, NULL);
    return rc > 0 && items[1].revents ? 1 : 0;
}

/*
 * Sleeping without a descriptor: first for half of what an operation usually takes, then in short
 * naps that grow.
 */
static uint64_t next_nap_us(struct rg_ofi_lane *lane)
{
    static _Thread_local bool is_exact;
    if (!is_exact) {
        /* A thread's sleeps are 50 us too long by default. */
        is_exact = prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL) == 0;
    }
    bool is_expecting = lane->lane.outstanding > 0 || lane->is_awaited;
    if (lane->nap_us == 0 && is_expecting && lane->usual_us / 2 > NAP_FIRST_US) {
        lane->nap_us = NAP_FIRST_US;
        return lane->usual_us / 2;
    }
    lane->nap_us = lane->nap_us ? RG_MIN(lane->nap_us * 2, (uint64_t)NAP_MAX_US) : NAP_FIRST_US;
    return lane->nap_us;
}

int rg_ofi_lane_sleep(struct rg_lane *public, int wake_fd, uint64_t timeout_us,
                      struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    if (lane->wait_fd >= 0) {
        struct fid *waited[] = {&lane->cq->fid};
        int rc = fi_trywait(lane->rail->fabric, waited, 1);
        if (rc == -FI_EAGAIN) {
            return 0;
        }
        if (rc == 0) {
            return sleep_on(lane->wait_fd, wake_fd, timeout_us);
        }
    }
    if (public->outstanding > 0 && lane->peer && !rg_ofi_peer_is_alive(lane->peer)) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE,
                             "its process has ended", err);
    }
    return sleep_on(-1, wake_fd, RG_MIN(next_nap_us(lane), timeout_us));
}

int rg_ofi_lane_flush(struct rg_lane *public, unsigned *ret_quiet, struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    bool alive = lane->peer && rg_ofi_peer_is_alive(lane->peer);
    rg_ofi_endpoint_close(lane);
    switch (lane->rail->provider) {
    case RG_OFI_SHM:
        *ret_quiet = alive ? 0 : RG_QUIET_LOCAL | RG_QUIET_REMOTE;
        break;
    case RG_OFI_TCP:
    case RG_OFI_OTHER:
        *ret_quiet = RG_QUIET_LOCAL;
        break;
    }
    return 0;
}

/* ---- The target's side ---- */

int rg_ofi_lane_progress(struct rg_lane *public, struct rg_error *err)
{
    struct rg_ofi_lane *lane = rg_ofi_lane_of(public);
    if (!lane->cq) {
        return 0;
    }
    struct fi_cq_entry entry;
    ssize_t rc = fi_cq_read(lane->cq, &entry, 1);
    if (rc == -FI_EAVAIL) {
        /* A peer's mistake, or a peer that left: its problem, and the provider has dealt with it.
         */
        struct fi_cq_err_entry error = {0};
        (void)fi_cq_readerr(lane->cq, &error, 0);
        return 1;
    }
    if (rc < 0 && rc != -FI_EAGAIN) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_OTHER, rg_ofi_explain(rc), err);
    }
    bool moved = rc > 0;
    if (lane->moved) {
        uint64_t count = fi_cntr_read(lane->moved);
        moved = moved || count != lane->moved_seen;
        lane->moved_seen = count;
    }
    if (moved && lane->is_awaited) {
        note_move(lane);
        lane->is_awaited = false;
    } else if (moved) {
        lane->nap_us = 0;
    }
    return moved;
}
