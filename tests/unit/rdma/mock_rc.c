/* What reliable connections add to the mock is kept in a table beside its lanes. */
#include "mock_rc.h"

#include "base/assert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES_MAX 4096u

struct mock_rc_knobs mock_rc;

static struct extra {
    struct rg_lane *lane;
    unsigned receives;
    bool is_paired;
} extras[LANES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void mock_rc_reset(void)
{
    mock_reset();
    memset(&mock_rc, 0, sizeof mock_rc);
    memset(extras, 0, sizeof extras);
}

void mock_rc_push(uint32_t immediate, uint64_t length)
{
    mock_rc.push_immediate = immediate;
    mock_rc.push_length = length;
    mock_rc.pushed = true;
}

static struct extra *find_extra(const struct rg_lane *lane)
{
    for (size_t i = 0; i < LANES_MAX; i++) {
        if (extras[i].lane == lane) {
            return &extras[i];
        }
    }
    RG_UNREACHABLE();
}

static int open_rail(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err)
{
    int rc = mock_transport.rail_open(config, ret_rail, err);
    if (rc == 0) {
        snprintf((*ret_rail)->path, sizeof(*ret_rail)->path, "rc");
        snprintf((*ret_rail)->device, sizeof(*ret_rail)->device, "mock0");
        (*ret_rail)->gid[15] = 1;
    }
    return rc;
}

static int open_lane(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    int rc = mock_transport.lane_open(rail, ret_lane, err);
    if (rc == 0) {
        pthread_mutex_lock(&lock);
        struct extra *extra = find_extra(NULL);
        *extra = (struct extra){.lane = *ret_lane};
        pthread_mutex_unlock(&lock);
    }
    return rc;
}

static void close_lane(struct rg_lane *lane)
{
    pthread_mutex_lock(&lock);
    *find_extra(lane) = (struct extra){.lane = NULL};
    pthread_mutex_unlock(&lock);
    mock_transport.lane_close(lane);
}

static int reset_lane(struct rg_lane *lane, struct rg_error *err)
{
    pthread_mutex_lock(&lock);
    *find_extra(lane) = (struct extra){.lane = lane};
    pthread_mutex_unlock(&lock);
    return mock_transport.lane_reset(lane, err);
}

static int address(struct rg_lane *lane, const struct rg_lane_address *peer,
                   struct rg_lane_address *ret_address, struct rg_error *err)
{
    pthread_mutex_lock(&lock);
    *ret_address = (struct rg_lane_address){
        .qpn = MOCK_RC_QPN + (uint32_t)(find_extra(lane) - extras),
        .psn = 0xbeef,
        .has_gid = true,
        .gid = {[15] = 1},
        .port = 1,
    };
    pthread_mutex_unlock(&lock);
    return 0;
}

static int pair(struct rg_lane *lane, const struct rg_lane_address *own,
                const struct rg_lane_address *peer, struct rg_error *err)
{
    if (mock_rc.fail_pair) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The mock peer cannot be reached.");
    }
    pthread_mutex_lock(&lock);
    bool was_paired = find_extra(lane)->is_paired;
    find_extra(lane)->is_paired = true;
    pthread_mutex_unlock(&lock);
    if (was_paired) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The mock lane is paired already.");
    }
    mock_rc.pairings++;
    mock_rc.last_peer_qpn = peer->qpn;
    return 0;
}

static int bind_window(struct rg_lane *lane, const struct rg_rdma_window *window,
                       struct rg_error *err)
{
    struct rg_rdma_window own = *window;
    snprintf(own.provider, sizeof own.provider, "mock");
    return mock_transport.lane_bind(lane, &own, err);
}

static int write_bytes(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                       uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                       uint64_t cookie, struct rg_error *err)
{
    if (immediate) {
        mock_rc.last_immediate = *immediate;
        mock_rc.immediates++;
    }
    return mock_transport.lane_write(lane, region, region_offset, window_offset, length, NULL,
                                     cookie, err);
}

static int receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err)
{
    if (mock_rc.fail_receive) {
        return rg_lane_break(lane, RG_BROKE_CONNECTION, RG_CAUSE_LOCAL, "mock", err);
    }
    pthread_mutex_lock(&lock);
    find_extra(lane)->receives++;
    pthread_mutex_unlock(&lock);
    mock_rc.receives++;
    return 0;
}

/* A receive ends only on a lane that is paired: before that nothing of the peer arrives. */
static bool take_push(struct rg_lane *lane)
{
    pthread_mutex_lock(&lock);
    struct extra *extra = find_extra(lane);
    bool is_there =
        extra->receives > 0 && extra->is_paired && atomic_exchange(&mock_rc.pushed, false);
    extra->receives -= is_there;
    pthread_mutex_unlock(&lock);
    return is_there;
}

static int poll_lane(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    if (!take_push(lane)) {
        return mock_transport.lane_poll(lane, completions, room, ret_count, err);
    }
    *completions = (struct rg_completion){
        .operation = RG_OPERATION_RECEIVE,
        .length = mock_rc.push_length,
        .has_immediate = true,
        .immediate = mock_rc.push_immediate,
        .broke = mock_rc.push_broke,
        .cause = mock_rc.push_broke ? RG_CAUSE_PEER_GONE : RG_CAUSE_NONE,
    };
    *ret_count = 1;
    return 0;
}

static int mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset, uint64_t length,
                enum rg_direction direction, struct rg_target **ret_target, struct rg_error *err)
{
    struct rg_target *target = calloc(1, sizeof *target);
    RG_ASSERT(target);
    target->window = (struct rg_rdma_window){
        .dialect = RG_DIALECT_RC_SESSION,
        .transport = RG_TRANSPORT_RC,
        .address = (uintptr_t)region->address + offset,
        .length = length,
        .rkey = 0x77,
    };
    mock_rc.windows++;
    *ret_target = target;
    return 0;
}

static int revoke_window(struct rg_target *target, bool settled, struct rg_error *err)
{
    mock_rc.windows--;
    free(target);
    return 0;
}

static int load(struct rg_error *err)
{
    return 0;
}

static void close_rail(struct rg_rail *rail)
{
    mock_transport.rail_close(rail);
}

static int check_rail(struct rg_rail *rail, struct rg_error *err)
{
    return mock_transport.rail_check(rail, err);
}

static int register_region(struct rg_rail *rail, void *memory, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err)
{
    return mock_transport.region_register(rail, memory, length, access, ret_region, err);
}

static void deregister_region(struct rg_region *region)
{
    mock_transport.region_deregister(region);
}

static void unbind(struct rg_lane *lane)
{
    mock_transport.lane_unbind(lane);
}

static int read_bytes(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, uint64_t cookie,
                      struct rg_error *err)
{
    return mock_transport.lane_read(lane, region, region_offset, window_offset, length, cookie,
                                    err);
}

static int sleep_lane(struct rg_lane *lane, int wake_fd, uint64_t timeout_us, struct rg_error *err)
{
    return mock_transport.lane_sleep(lane, wake_fd, timeout_us, err);
}

static int flush(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err)
{
    return mock_transport.lane_flush(lane, ret_quiet, err);
}

const struct rg_transport mock_rc_transport = {
    .name = "mock-rc",
    .kind = RG_TRANSPORT_RC,
    .load = load,
    .rail_open = open_rail,
    .rail_close = close_rail,
    .rail_check = check_rail,
    .region_register = register_region,
    .region_register_dmabuf = rg_unsupported_register_dmabuf,
    .region_deregister = deregister_region,
    .lane_open = open_lane,
    .lane_close = close_lane,
    .lane_reset = reset_lane,
    .lane_address = address,
    .lane_pair = pair,
    .lane_bind = bind_window,
    .lane_unbind = unbind,
    .lane_write = write_bytes,
    .lane_read = read_bytes,
    .lane_receive = receive,
    .lane_poll = poll_lane,
    .lane_sleep = sleep_lane,
    .lane_flush = flush,
    .lane_progress = rg_unneeded_progress,
    .window_mint = mint,
    .window_revoke = revoke_window,
};
