/*
 * What is the same for every transport: checking arguments, keeping a lane's books, waiting. It
 * must not know any library.
 */
#include "rdma/transport.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A progress call looks at its stop flag at least this often. */
#define PROGRESS_SLICE_US (uint64_t)10000

const char *rg_cause_name(enum rg_cause cause)
{
    static const char *const names[] = {
#define RG_CAUSE(identifier, name, sentence) [RG_CAUSE_##identifier] = name,
        RG_CAUSES(RG_CAUSE)
#undef RG_CAUSE
    };
    RG_ASSERT((unsigned)cause < RG_CAUSE_COUNT);
    return names[cause];
}

const char *rg_cause_sentence(enum rg_cause cause)
{
    static const char *const sentences[] = {
#define RG_CAUSE(identifier, name, sentence) [RG_CAUSE_##identifier] = sentence,
        RG_CAUSES(RG_CAUSE)
#undef RG_CAUSE
    };
    RG_ASSERT((unsigned)cause < RG_CAUSE_COUNT);
    return sentences[cause];
}

enum rg_cause rg_cause_of(const struct rg_lane *lane, int rc, enum rg_cause otherwise)
{
    if (lane->cause != RG_CAUSE_NONE) {
        return lane->cause;
    }
    switch (-rc) {
    case RG_TIMED_OUT:
    case RG_RDMA_TIMED_OUT:
        return RG_CAUSE_TOO_SLOW;
    case RG_CANCELLED:
        return RG_CAUSE_CANCELLED;
    default:
        return otherwise;
    }
}

const char *rg_broke_name(enum rg_broke broke)
{
    static const char *const names[] = {"nothing", "operation", "connection", "device"};
    RG_ASSERT((unsigned)broke < RG_ARRAY_LENGTH(names));
    return names[broke];
}

/* ---- Rails ---- */

const struct rg_transport *rg_transport_find(enum rg_transport_kind kind)
{
    static const struct rg_transport *const transports[RG_TRANSPORT_COUNT] = {
#ifdef RG_HAVE_DC
        [RG_TRANSPORT_DC] = &rg_transport_dc,
#endif
#ifdef RG_HAVE_RC
        [RG_TRANSPORT_RC] = &rg_transport_rc,
#endif
#ifdef RG_HAVE_OFI
        [RG_TRANSPORT_OFI] = &rg_transport_ofi,
#endif
    };
    RG_ASSERT((unsigned)kind < RG_TRANSPORT_COUNT);
    return transports[kind];
}

int rg_transport_load(const struct rg_transport *transport, struct rg_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    RG_MUST(pthread_mutex_lock(&lock));
    int rc = transport->load(err);
    RG_MUST(pthread_mutex_unlock(&lock));
    return rc;
}

static int check_rail_config(const struct rg_rail_config *config, struct rg_error *err)
{
    if (config->lane_depth < 1 || config->lane_depth > RG_LANE_DEPTH_MAX) {
        return rg_failf(err, RG_SETTING, "The lane depth must be between 1 and %d.",
                        RG_LANE_DEPTH_MAX);
    }
    if (config->traffic_class < RG_RAIL_AUTO || config->traffic_class > 255) {
        return rg_failf(err, RG_SETTING, "The traffic class must be between 0 and 255.");
    }
    if (config->gid_index < RG_RAIL_AUTO || config->gid_index > 65535) {
        return rg_failf(err, RG_SETTING, "The GID index must be between 0 and 65535.");
    }
    if (config->service_level > 15) {
        return rg_failf(err, RG_SETTING, "The service level must be between 0 and 15.");
    }
    if (config->retry_count > 7 || config->rnr_retry > 7 || config->ack_timeout > 31) {
        return rg_failf(err, RG_SETTING,
                        "Retry counts go from 0 to 7, the acknowledgement time-out from 0 to 31.");
    }
    return 0;
}

int rg_rail_open(const struct rg_transport *transport, const struct rg_rail_config *config,
                 struct rg_rail **ret_rail, struct rg_error *err)
{
    RG_ASSERT(memchr(config->device, 0, sizeof config->device));
    RG_ASSERT(memchr(config->address, 0, sizeof config->address));
    int rc = check_rail_config(config, err);
    if (rc < 0) {
        return rc;
    }
    rc = rg_transport_load(transport, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_rail *rail;
    rc = transport->rail_open(config, &rail, err);
    if (rc < 0) {
        return rc;
    }
    rail->transport = transport;
    rail->config = *config;
    RG_ASSERT(rail->path[0] && rail->operation_bytes_max);
    *ret_rail = rail;
    return 0;
}

void rg_rail_close(struct rg_rail *rail)
{
    if (rail) {
        rail->transport->rail_close(rail);
    }
}

int rg_rail_check(struct rg_rail *rail, struct rg_error *err)
{
    return rail->transport->rail_check(rail, err);
}

const char *rg_rail_path(const struct rg_rail *rail)
{
    return rail->path;
}

/* ---- Memory ---- */

static int check_range(uint64_t address, uint64_t length, struct rg_error *err)
{
    uint64_t end;
    if (length == 0 || !rg_add_checked(address, length, &end)) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "The memory to register is empty or wraps around the address space.");
    }
    return 0;
}

int rg_region_register(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                       struct rg_region **ret_region, struct rg_error *err)
{
    RG_ASSERT(access && access <= 7);
    int rc = check_range((uintptr_t)address, length, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_region *region;
    rc = rail->transport->region_register(rail, address, length, access, &region, err);
    if (rc < 0) {
        return rc;
    }
    region->rail = rail;
    region->address = address;
    region->length = length;
    region->access = access;
    *ret_region = region;
    return 0;
}

int rg_region_register_dmabuf(struct rg_rail *rail, int dmabuf_fd, uint64_t fd_offset,
                              uint64_t address, uint64_t length, unsigned access,
                              struct rg_region **ret_region, struct rg_error *err)
{
    RG_ASSERT(access && access <= 7);
    int rc = check_range(address, length, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_region *region;
    rc = rail->transport->region_register_dmabuf(rail, dmabuf_fd, fd_offset, address, length,
                                                 access, &region, err);
    if (rc < 0) {
        return rc;
    }
    region->rail = rail;
    region->address = NULL;
    region->length = length;
    region->access = access;
    *ret_region = region;
    return 0;
}

void rg_region_deregister(struct rg_region *region)
{
    if (region) {
        region->rail->transport->region_deregister(region);
    }
}

/* ---- Lanes ---- */

static const struct rg_transport *transport_of(const struct rg_lane *lane)
{
    return lane->rail->transport;
}

int rg_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct rg_lane *lane;
    int rc = rail->transport->lane_open(rail, &lane, err);
    if (rc < 0) {
        return rc;
    }
    lane->rail = rail;
    RG_ASSERT(lane->depth >= 1 && lane->depth <= rail->config.lane_depth);
    *ret_lane = lane;
    return 0;
}

static void end_progress(struct rg_progress *progress);

void rg_lane_close(struct rg_lane *lane)
{
    if (!lane) {
        return;
    }
    end_progress(RG_TAKE(lane->progress));
    unsigned quiet;
    (void)rg_lane_flush(lane, &quiet, NULL);
    transport_of(lane)->lane_close(lane);
}

int rg_lane_reset(struct rg_lane *lane, struct rg_error *err)
{
    unsigned quiet;
    int rc = rg_lane_flush(lane, &quiet, err);
    if (rc < 0) {
        return rc;
    }
    rc = transport_of(lane)->lane_reset(lane, err);
    if (rc < 0) {
        return rc;
    }
    lane->broke = RG_BROKE_NOTHING;
    lane->cause = RG_CAUSE_NONE;
    lane->bound = false;
    return 0;
}

int rg_lane_address(struct rg_lane *lane, struct rg_lane_address *ret_address, struct rg_error *err)
{
    return rg_lane_address_toward(lane, NULL, ret_address, err);
}

int rg_lane_address_toward(struct rg_lane *lane, const struct rg_lane_address *peer,
                           struct rg_lane_address *ret_address, struct rg_error *err)
{
    return transport_of(lane)->lane_address(lane, peer, ret_address, err);
}

int rg_lane_pair(struct rg_lane *lane, const struct rg_lane_address *peer, struct rg_error *err)
{
    return rg_lane_pair_as(lane, NULL, peer, err);
}

int rg_lane_pair_as(struct rg_lane *lane, const struct rg_lane_address *own,
                    const struct rg_lane_address *peer, struct rg_error *err)
{
    return transport_of(lane)->lane_pair(lane, own, peer, err);
}

int rg_lane_break(struct rg_lane *lane, enum rg_broke broke, enum rg_cause cause,
                  const char *detail, struct rg_error *err)
{
    if (lane->cause == RG_CAUSE_NONE) {
        lane->cause = cause;
    }
    if (broke > lane->broke) {
        lane->broke = broke;
    }
    return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The RDMA transfer failed: %s%s%s%s.",
                    rg_cause_sentence(cause), detail && *detail ? " (" : "", detail ? detail : "",
                    detail && *detail ? ")" : "");
}

static int check_usable(struct rg_lane *lane, struct rg_error *err)
{
    if (lane->broke >= RG_BROKE_CONNECTION) {
        return rg_lane_break(lane, lane->broke, lane->cause, "the lane broke earlier", err);
    }
    return 0;
}

int rg_lane_bind(struct rg_lane *lane, const struct rg_rdma_window *window, struct rg_error *err)
{
    RG_ASSERT(lane->outstanding == 0);
    int rc = check_usable(lane, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t end;
    if (window->transport != transport_of(lane)->kind) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "The token is for transport %s, not %s.",
                        rg_transport_kind_name(window->transport), transport_of(lane)->name);
    }
    if (window->length == 0 || !rg_add_checked(window->address, window->length, &end)) {
        return rg_failf(err, RG_INVALID_RDMA_TOKEN,
                        "The window is empty or wraps around the address space.");
    }
    lane->bound = false;
    rc = transport_of(lane)->lane_bind(lane, window, err);
    if (rc < 0) {
        return rc;
    }
    lane->window = *window;
    lane->bound = true;
    return 0;
}

void rg_lane_unbind(struct rg_lane *lane)
{
    RG_ASSERT(lane->outstanding == 0);
    if (lane->bound) {
        lane->bound = false;
        transport_of(lane)->lane_unbind(lane);
    }
}

static bool inside(uint64_t offset, uint64_t length, uint64_t whole)
{
    return length <= whole && offset <= whole - length;
}

/* Everything that must hold before a post; RG_LIMIT when the lane is full. */
static int check_post(struct rg_lane *lane, const struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, struct rg_error *err)
{
    int rc = check_usable(lane, err);
    if (rc < 0) {
        return rc;
    }
    if (!lane->bound) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The lane has no window to post to.");
    }
    if (region->rail != lane->rail || !(region->access & RG_ACCESS_LOCAL)) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "The memory is not registered for posts on this rail.");
    }
    if (!inside(region_offset, length, region->length) ||
        !inside(window_offset, length, lane->window.length)) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "The operation reaches outside the memory or the window.");
    }
    if (length > lane->rail->operation_bytes_max) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "One operation moves at most %" PRIu64 " bytes.",
                        lane->rail->operation_bytes_max);
    }
    if (lane->outstanding >= lane->depth) {
        return rg_fail(err, RG_LIMIT);
    }
    return 0;
}

static int post_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err)
{
    int rc = check_post(lane, region, region_offset, window_offset, length, err);
    if (rc < 0) {
        return rc;
    }
    rc = transport_of(lane)->lane_write(lane, region, region_offset, window_offset, length,
                                        immediate, cookie, err);
    if (rc < 0) {
        return rc;
    }
    lane->outstanding++;
    return 0;
}

int rg_lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                  uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err)
{
    RG_ASSERT(length);
    return post_write(lane, region, region_offset, window_offset, length, NULL, cookie, err);
}

int rg_lane_write_immediate(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                            uint64_t window_offset, uint64_t length, uint32_t immediate,
                            uint64_t cookie, struct rg_error *err)
{
    return post_write(lane, region, region_offset, window_offset, length, &immediate, cookie, err);
}

int rg_lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                 uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err)
{
    RG_ASSERT(length);
    int rc = check_post(lane, region, region_offset, window_offset, length, err);
    if (rc < 0) {
        return rc;
    }
    rc = transport_of(lane)->lane_read(lane, region, region_offset, window_offset, length, cookie,
                                       err);
    if (rc < 0) {
        return rc;
    }
    lane->outstanding++;
    return 0;
}

int rg_lane_receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err)
{
    int rc = check_usable(lane, err);
    return rc < 0 ? rc : transport_of(lane)->lane_receive(lane, cookie, err);
}

/* Enters completions into the lane's books. */
static void account(struct rg_lane *lane, const struct rg_completion *completions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rg_completion *completion = &completions[i];
        if (completion->operation != RG_OPERATION_RECEIVE) {
            RG_ASSERT(lane->outstanding > 0);
            lane->outstanding--;
        }
        if (completion->broke != RG_BROKE_NOTHING) {
            (void)rg_lane_break(lane, completion->broke, completion->cause, NULL, NULL);
        }
    }
}

static int poll_once(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    size_t count = 0;
    int rc = transport_of(lane)->lane_poll(lane, completions, room, &count, err);
    if (rc < 0) {
        return rc;
    }
    account(lane, completions, count);
    if (count == 0 && lane->broke >= RG_BROKE_CONNECTION && lane->outstanding > 0) {
        return rg_lane_break(lane, lane->broke, lane->cause, NULL, err);
    }
    *ret_count = count;
    return 0;
}

static bool is_readable(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&item, 1, 0) > 0;
}

static void relax(const struct rg_lane *lane)
{
    if (lane->rail->is_hardware) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        return;
    }
    /* The peer's processor time is what we are waiting for. */
    (void)sched_yield();
}

int rg_lane_wait(struct rg_lane *lane, struct rg_completion *completions, size_t room, int wake_fd,
                 uint32_t timeout_ms, size_t *ret_count, struct rg_error *err)
{
    RG_ASSERT(room > 0);
    uint64_t start = rg_clock_ns();
    uint64_t deadline = start + (uint64_t)timeout_ms * 1000000;
    uint64_t spin_end = start + (uint64_t)lane->rail->config.spin_us * 1000;
    for (;;) {
        size_t count = 0;
        int rc = poll_once(lane, completions, room, &count, err);
        if (rc < 0) {
            return rc;
        }
        if (count > 0) {
            *ret_count = count;
            return 0;
        }
        uint64_t now = rg_clock_ns();
        if (now >= deadline) {
            break;
        }
        if (now < spin_end) {
            relax(lane);
            continue;
        }
        rc = transport_of(lane)->lane_sleep(lane, wake_fd, (deadline - now) / 1000 + 1, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            *ret_count = 0;
            return 0;
        }
    }
    if (is_readable(wake_fd)) {
        *ret_count = 0;
        return 0;
    }
    return rg_fail(err, RG_TIMED_OUT);
}

/* True when everything outstanding ended by itself in time. */
static bool drain(struct rg_lane *lane)
{
    uint64_t deadline = rg_clock_ms() + RG_FLUSH_GRACE_MS;
    while (lane->outstanding > 0 && lane->broke < RG_BROKE_CONNECTION) {
        uint64_t now = rg_clock_ms();
        if (now >= deadline) {
            return false;
        }
        struct rg_completion ended[8];
        size_t count = 0;
        int rc = rg_lane_wait(lane, ended, RG_ARRAY_LENGTH(ended), -1, (uint32_t)(deadline - now),
                              &count, NULL);
        if (rc < 0 && rc != -RG_TIMED_OUT) {
            return false;
        }
    }
    return lane->outstanding == 0;
}

int rg_lane_flush(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err)
{
    if (drain(lane)) {
        *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
        return 0;
    }
    return rg_lane_cut(lane, ret_quiet, err);
}

int rg_lane_cut(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err)
{
    if (lane->outstanding == 0) {
        *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
        return 0;
    }
    unsigned quiet = 0;
    int rc = transport_of(lane)->lane_flush(lane, &quiet, err);
    if (lane->broke < RG_BROKE_CONNECTION) {
        lane->broke = RG_BROKE_CONNECTION;
    }
    if (lane->cause == RG_CAUSE_NONE) {
        lane->cause = RG_CAUSE_FLUSHED;
    }
    if (rc < 0) {
        return rc;
    }
    lane->outstanding = 0;
    lane->bound = false;
    *ret_quiet = quiet;
    return 0;
}

/* ---- The target's side ---- */

int rg_window_mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset, uint64_t length,
                   enum rg_direction direction, struct rg_target **ret_target, struct rg_error *err)
{
    int rc = check_usable(lane, err);
    if (rc < 0) {
        return rc;
    }
    unsigned needed =
        direction == RG_DIRECTION_GET ? RG_ACCESS_REMOTE_WRITE : RG_ACCESS_REMOTE_READ;
    if (region->rail != lane->rail || !(region->access & needed)) {
        return rg_failf(err, RG_INVALID_ARGUMENT,
                        "The memory is not registered for this direction on this rail.");
    }
    if (length == 0 || !inside(offset, length, region->length)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The window is empty or outside the memory.");
    }
    struct rg_target *target;
    rc = transport_of(lane)->window_mint(lane, region, offset, length, direction, &target, err);
    if (rc < 0) {
        return rc;
    }
    target->lane = lane;
    target->region = region;
    target->direction = direction;
    *ret_target = target;
    return 0;
}

int rg_window_revoke(struct rg_target *target, bool settled, struct rg_error *err)
{
    return target ? transport_of(target->lane)->window_revoke(target, settled, err) : 0;
}

int rg_lane_progress(struct rg_lane *lane, uint32_t timeout_ms, const atomic_bool *stop,
                     int wake_fd, struct rg_error *err)
{
    if (!lane->rail->target_needs_progress) {
        return 0;
    }
    uint64_t start = rg_clock_ns();
    uint64_t deadline = start + (uint64_t)timeout_ms * 1000000;
    uint64_t spin_ns = (uint64_t)lane->rail->config.spin_us * 1000;
    uint64_t spin_end = start; /* nothing is on its way yet */
    while (!atomic_load_explicit(stop, memory_order_acquire)) {
        int rc = transport_of(lane)->lane_progress(lane, err);
        if (rc < 0) {
            return rc;
        }
        uint64_t now = rg_clock_ns();
        if (rc > 0) {
            spin_end = now + spin_ns;
        }
        if (now >= deadline) {
            return 0;
        }
        if (now < spin_end) {
            relax(lane);
            continue;
        }
        uint64_t left_us = (deadline - now) / 1000 + 1;
        rc = transport_of(lane)->lane_sleep(lane, wake_fd, RG_MIN(left_us, PROGRESS_SLICE_US), err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* The thread of a lane; it sleeps between transfers, for a new thread costs as much as one. */
struct rg_progress {
    struct rg_lane *lane;
    pthread_t thread;
    pthread_mutex_t mutex; /* whoever has it has the lane */
    pthread_cond_t wanted;
    atomic_bool stop; /* nothing is outstanding */
    bool ends;
    int wake_fd;
    int rc;
    struct rg_error error;
};

static void *run_progress(void *argument)
{
    struct rg_progress *progress = argument;
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    while (!progress->ends) {
        if (progress->rc < 0 || atomic_load(&progress->stop)) {
            RG_MUST(pthread_cond_wait(&progress->wanted, &progress->mutex));
            continue;
        }
        progress->rc = rg_lane_progress(progress->lane, 1000, &progress->stop, progress->wake_fd,
                                        &progress->error);
    }
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
    return NULL;
}

static void free_progress(struct rg_progress *progress)
{
    if (progress->wake_fd >= 0) {
        close(progress->wake_fd);
    }
    RG_MUST(pthread_cond_destroy(&progress->wanted));
    RG_MUST(pthread_mutex_destroy(&progress->mutex));
    free(progress);
}

static int make_progress(struct rg_lane *lane, struct rg_error *err)
{
    struct rg_progress *progress = calloc(1, sizeof *progress);
    if (!progress) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    progress->lane = lane;
    progress->stop = true;
    RG_MUST(pthread_mutex_init(&progress->mutex, NULL));
    RG_MUST(pthread_cond_init(&progress->wanted, NULL));
    progress->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = progress->wake_fd < 0
                     ? errno
                     : pthread_create(&progress->thread, NULL, run_progress, progress);
    if (failed) {
        free_progress(progress);
        return rg_fail_errno(err, RG_OUT_OF_MEMORY, failed, "No thread to drive the transfer");
    }
    lane->progress = progress;
    return 0;
}

static void end_progress(struct rg_progress *progress)
{
    if (!progress) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    progress->ends = true;
    RG_MUST(pthread_cond_signal(&progress->wanted));
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
    RG_MUST(pthread_join(progress->thread, NULL));
    free_progress(progress);
}

int rg_progress_start(struct rg_lane *lane, struct rg_progress **ret_progress, struct rg_error *err)
{
    if (!lane->rail->target_needs_progress) {
        *ret_progress = NULL;
        return 0;
    }
    int rc = lane->progress ? 0 : make_progress(lane, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_progress *progress = lane->progress;
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    progress->rc = 0;
    atomic_store(&progress->stop, false);
    RG_MUST(pthread_cond_signal(&progress->wanted));
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
    *ret_progress = progress;
    return 0;
}

int rg_progress_stop(struct rg_progress *progress, struct rg_error *err)
{
    if (!progress) {
        return 0;
    }
    atomic_store_explicit(&progress->stop, true, memory_order_release);
    RG_MUST(eventfd_write(progress->wake_fd, 1));
    RG_MUST(pthread_mutex_lock(&progress->mutex));
    eventfd_t seen;
    (void)eventfd_read(progress->wake_fd, &seen);
    int rc = progress->rc;
    if (rc < 0 && err) {
        *err = progress->error;
    }
    RG_MUST(pthread_mutex_unlock(&progress->mutex));
    return rc;
}

/* ---- Slots that a transport cannot serve ---- */

static int unsupported(struct rg_error *err, const char *transport, const char *what)
{
    return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Transport %s has no %s.", transport, what);
}

int rg_unsupported_register_dmabuf(struct rg_rail *rail, int dmabuf_fd, uint64_t fd_offset,
                                   uint64_t address, uint64_t length, unsigned access,
                                   struct rg_region **ret_region, struct rg_error *err)
{
    return unsupported(err, rail->transport->name, "registration of dma-buf memory");
}

int rg_unsupported_address(struct rg_lane *lane, const struct rg_lane_address *peer,
                           struct rg_lane_address *ret_address, struct rg_error *err)
{
    return unsupported(err, transport_of(lane)->name, "paired lanes");
}

int rg_unsupported_pair(struct rg_lane *lane, const struct rg_lane_address *own,
                        const struct rg_lane_address *peer, struct rg_error *err)
{
    return unsupported(err, transport_of(lane)->name, "paired lanes");
}

int rg_unsupported_receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err)
{
    return unsupported(err, transport_of(lane)->name, "receives");
}

int rg_unsupported_mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset,
                        uint64_t length, enum rg_direction direction, struct rg_target **ret_target,
                        struct rg_error *err)
{
    return unsupported(err, transport_of(lane)->name, "windows of its own");
}

int rg_unsupported_revoke(struct rg_target *target, bool settled, struct rg_error *err)
{
    return unsupported(err, transport_of(target->lane)->name, "windows of its own");
}

int rg_unneeded_progress(struct rg_lane *lane, struct rg_error *err)
{
    return 0;
}
