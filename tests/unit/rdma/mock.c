/* The "wire" is a list a lane; lane_poll copies what is due and reports it. */
#include "mock.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct mock_knobs mock;

struct flight {
    bool used;
    enum rg_lane_operation kind;
    char *local;
    uint64_t remote, length, cookie, due_ns, sequence;
};

struct mock_lane {
    struct rg_lane lane;
    struct flight flights[RG_LANE_DEPTH_MAX];
    uint64_t sequence;
    char *peer;
};

void mock_reset(void)
{
    memset(&mock, 0, sizeof mock);
    mock.flush_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
}

struct rg_rdma_window mock_window(void *memory, uint64_t length)
{
    struct rg_rdma_window window = {
        .dialect = RG_DIALECT_OFI1,
        .transport = RG_TRANSPORT_OFI,
        .address = (uintptr_t)memory,
        .length = length,
        .rkey = 1,
        .provider = "mock",
    };
    return window;
}

static int mock_load(struct rg_error *err)
{
    return 0;
}

static int mock_rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                          struct rg_error *err)
{
    if (mock.fail_rail_open) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The mock port is down.");
    }
    struct rg_rail *rail = calloc(1, sizeof *rail);
    RG_ASSERT(rail);
    snprintf(rail->path, sizeof rail->path, "mock");
    rail->operation_bytes_max = 1 << 30;
    rail->pins_memory = mock.pins_memory;
    mock.rails_open++;
    *ret_rail = rail;
    return 0;
}

static void mock_rail_close(struct rg_rail *rail)
{
    mock.rails_open--;
    free(rail);
}

static int mock_rail_check(struct rg_rail *rail, struct rg_error *err)
{
    return mock.fail_rail_check
               ? rg_failf(err, RG_SERVICE_UNAVAILABLE, "The mock port has gone down.")
               : 0;
}

static int mock_register(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                         struct rg_region **ret_region, struct rg_error *err)
{
    struct rg_region *region = calloc(1, sizeof *region);
    RG_ASSERT(region);
    mock.regions++;
    *ret_region = region;
    return 0;
}

static void mock_deregister(struct rg_region *region)
{
    mock.regions--;
    free(region);
}

static int mock_lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    if (mock.fail_lane_open) {
        return rg_failf(err, RG_LIMIT, "The mock has no more lanes.");
    }
    struct mock_lane *lane = calloc(1, sizeof *lane);
    RG_ASSERT(lane);
    lane->lane.depth = mock.depth ? mock.depth : rail->config.lane_depth;
    mock.lanes_open++;
    *ret_lane = &lane->lane;
    return 0;
}

static void mock_lane_close(struct rg_lane *lane)
{
    mock.lanes_open--;
    free(lane);
}

static int mock_lane_reset(struct rg_lane *lane, struct rg_error *err)
{
    return 0;
}

static int mock_bind(struct rg_lane *lane, const struct rg_rdma_window *window,
                     struct rg_error *err)
{
    if (strcmp(window->provider, "mock") != 0) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Not the mock's window.");
    }
    ((struct mock_lane *)lane)->peer = (char *)(uintptr_t)window->address; /* NOLINT */
    return 0;
}

static void mock_unbind(struct rg_lane *lane)
{
    ((struct mock_lane *)lane)->peer = NULL;
}

static int mock_post(struct rg_lane *public, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, enum rg_lane_operation kind,
                     uint64_t cookie, struct rg_error *err)
{
    struct mock_lane *lane = (struct mock_lane *)public;
    unsigned refusals = mock.refuse_posts;
    if (refusals > 0) {
        mock.refuse_posts = refusals - 1;
        return rg_fail(err, RG_LIMIT);
    }
    if (++mock.posts == mock.fail_post) {
        return rg_lane_break(public, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE, "mock", err);
    }
    struct flight *flight = lane->flights;
    while (flight->used) {
        flight++;
    }
    *flight = (struct flight){
        .used = true,
        .kind = kind,
        .local = (char *)region->address + region_offset,
        .remote = window_offset,
        .length = length,
        .cookie = cookie,
        .due_ns = rg_clock_ns() + (uint64_t)mock.delay_us * 1000,
        .sequence = ++lane->sequence,
    };
    return 0;
}

static int mock_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err)
{
    return mock_post(lane, region, region_offset, window_offset, length, RG_OPERATION_WRITE, cookie,
                     err);
}

static int mock_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err)
{
    return mock_post(lane, region, region_offset, window_offset, length, RG_OPERATION_READ, cookie,
                     err);
}

static struct flight *next_due(struct mock_lane *lane)
{
    struct flight *best = NULL;
    uint64_t now = rg_clock_ns();
    for (size_t i = 0; i < RG_LANE_DEPTH_MAX; i++) {
        struct flight *flight = &lane->flights[i];
        if (!flight->used || flight->due_ns > now) {
            continue;
        }
        bool earlier = best && flight->sequence < best->sequence;
        if (!best || earlier != mock.reverse_order) {
            best = flight;
        }
    }
    return best;
}

static void copy(struct mock_lane *lane, const struct flight *flight, uint64_t length)
{
    if (flight->kind == RG_OPERATION_WRITE) {
        memcpy(lane->peer + flight->remote, flight->local, length);
    } else {
        memcpy(flight->local, lane->peer + flight->remote, length);
    }
}

static int mock_poll(struct rg_lane *public, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    struct mock_lane *lane = (struct mock_lane *)public;
    struct flight *flight;
    size_t count = 0;
    while (count < room && !mock.stuck && (flight = next_due(lane))) {
        if (mock.stuck_after && mock.operations >= mock.stuck_after) {
            break;
        }
        unsigned number = ++mock.operations;
        struct rg_completion *completion = &completions[count++];
        *completion = (struct rg_completion){
            .cookie = flight->cookie,
            .operation = flight->kind,
            .length = flight->length,
        };
        flight->used = false;
        if (number == mock.fail_operation) {
            completion->broke = mock.fail_broke;
            completion->cause = mock.fail_cause;
            completion->provider_status = 42;
            snprintf(completion->provider_text, sizeof completion->provider_text, "mock failure");
            continue;
        }
        if (number == mock.short_operation) {
            completion->length = flight->length / 2;
        }
        copy(lane, flight, completion->length);
    }
    *ret_count = count;
    return 0;
}

static int mock_sleep(struct rg_lane *lane, int wake_fd, uint64_t timeout_us, struct rg_error *err)
{
    struct pollfd item = {.fd = wake_fd, .events = POLLIN};
    uint64_t nap_us = RG_MIN(timeout_us, (uint64_t)50);
    struct timespec time = {.tv_nsec = (long)nap_us * 1000};
    return ppoll(&item, 1, &time, NULL) > 0;
}

static int mock_flush(struct rg_lane *public, unsigned *ret_quiet, struct rg_error *err)
{
    struct mock_lane *lane = (struct mock_lane *)public;
    mock.flushes++;
    memset(lane->flights, 0, sizeof lane->flights);
    *ret_quiet = mock.flush_quiet;
    return mock.fail_flush ? rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The mock cannot flush.") : 0;
}

const struct rg_transport mock_transport = {
    .name = "mock",
    .kind = RG_TRANSPORT_OFI,
    .load = mock_load,
    .rail_open = mock_rail_open,
    .rail_close = mock_rail_close,
    .rail_check = mock_rail_check,
    .region_register = mock_register,
    .region_register_dmabuf = rg_unsupported_register_dmabuf,
    .region_deregister = mock_deregister,
    .lane_open = mock_lane_open,
    .lane_close = mock_lane_close,
    .lane_reset = mock_lane_reset,
    .lane_address = rg_unsupported_address,
    .lane_pair = rg_unsupported_pair,
    .lane_bind = mock_bind,
    .lane_unbind = mock_unbind,
    .lane_write = mock_write,
    .lane_read = mock_read,
    .lane_receive = rg_unsupported_receive,
    .lane_poll = mock_poll,
    .lane_sleep = mock_sleep,
    .lane_flush = mock_flush,
    .lane_progress = rg_unneeded_progress,
    .window_mint = rg_unsupported_mint,
    .window_revoke = rg_unsupported_revoke,
};
