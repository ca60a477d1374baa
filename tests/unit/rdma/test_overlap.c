/*
 * How much of a transfer's two halves happens at the same time. File and wire are simulated: each
 * takes a fixed time for a piece, one piece after another, on a clock that moves only when somebody
 * waits or works. So the figures are exact, whatever else the machine does.
 *
 * What is defined here of rdma/disk.h takes the place of rdma/disk.c.
 */
#include "test.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "rdma/disk.h"
#include "rdma/pipeline.h"
#include "rdma/slab.h"
#include "rdma/transport.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SLOT   RG_SLOT_BYTES_MIN
#define PIECES 64u
#define NEVER  UINT64_MAX

/* All times in microseconds of the simulated clock. */
static struct {
    uint64_t file_us, wire_us, consume_us; /* of one piece */
    bool is_inline;                        /* the file's work is done by the thread that asks */
    uint32_t depth;                        /* of the lane */
    uint64_t now, file_free, wire_free;    /* free: when what was begun is over */
    uint64_t first_post;                   /* when the wire got something to do */
    size_t file_most, wire_most;           /* in flight at a time */
} world;

struct event {
    bool used;
    uint64_t due, cookie, length;
};

static struct event *add_event(struct event *events, size_t room, size_t *ret_used)
{
    size_t used = 0;
    struct event *unused = NULL;
    for (size_t i = 0; i < room; i++) {
        used += events[i].used;
        unused = events[i].used ? unused : &events[i];
    }
    RG_ASSERT(unused);
    *ret_used = used + 1;
    return unused;
}

static struct event *earliest(struct event *events, size_t room)
{
    struct event *best = NULL;
    for (size_t i = 0; i < room; i++) {
        if (events[i].used && (!best || events[i].due < best->due)) {
            best = &events[i];
        }
    }
    return best;
}

static uint64_t due(struct event *events, size_t room)
{
    struct event *event = earliest(events, room);
    return event ? event->due : NEVER;
}

/* ---- The file ---- */

struct rg_disk {
    int fd; /* stands for the ring's; never readable */
    struct event events[RG_DISK_DEPTH_MAX];
};

static struct rg_disk file;

bool rg_disk_is_async(const struct rg_disk *disk)
{
    return !world.is_inline;
}

int rg_disk_fd(const struct rg_disk *disk)
{
    return world.is_inline ? -1 : disk->fd;
}

size_t rg_disk_in_flight(const struct rg_disk *disk)
{
    size_t used = 0;
    for (size_t i = 0; i < RG_DISK_DEPTH_MAX; i++) {
        used += disk->events[i].used;
    }
    return used;
}

uint64_t rg_disk_fallbacks(const struct rg_disk *disk)
{
    return 0;
}

uint64_t rg_disk_direct_bytes(const struct rg_disk *disk)
{
    return 0;
}

static void start(struct rg_disk *disk, size_t length, uint64_t cookie)
{
    size_t used;
    struct event *event = add_event(disk->events, RG_DISK_DEPTH_MAX, &used);
    world.file_free = RG_MAX(world.now, world.file_free) + world.file_us;
    world.file_most = RG_MAX(world.file_most, used);
    *event = (struct event){true, world.file_free, cookie, length};
    if (world.is_inline) {
        world.now = world.file_free;
    }
}

void rg_disk_read(struct rg_disk *disk, const struct rg_file *unused, uint64_t offset, void *memory,
                  size_t length, size_t room, uint64_t cookie)
{
    start(disk, length, cookie);
}

void rg_disk_write(struct rg_disk *disk, const struct rg_file *unused, uint64_t offset,
                   const void *memory, size_t length, uint64_t cookie)
{
    start(disk, length, cookie);
}

void rg_disk_submit(struct rg_disk *disk)
{
}

size_t rg_disk_reap(struct rg_disk *disk, struct rg_disk_done *done, size_t room)
{
    size_t count = 0;
    while (count < room && due(disk->events, RG_DISK_DEPTH_MAX) <= world.now) {
        struct event *event = earliest(disk->events, RG_DISK_DEPTH_MAX);
        event->used = false;
        done[count++] = (struct rg_disk_done){.cookie = event->cookie, .bytes = event->length};
    }
    return count;
}

void rg_disk_wait(struct rg_disk *disk, uint32_t timeout_ms)
{
    uint64_t next = due(disk->events, RG_DISK_DEPTH_MAX);
    assert_true(next != NEVER); /* nothing to wait for: it would be for ever */
    world.now = RG_MAX(world.now, next);
}

void rg_disk_drain(struct rg_disk *disk)
{
    memset(disk->events, 0, sizeof disk->events);
}

/* ---- The wire ---- */

struct wire_lane {
    struct rg_lane lane;
    struct event events[RG_LANE_DEPTH_MAX];
};

static int load(struct rg_error *err)
{
    return 0;
}

static int rail_open(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                     struct rg_error *err)
{
    *ret_rail = calloc(1, sizeof **ret_rail);
    strcpy((*ret_rail)->path, "simulated");
    (*ret_rail)->operation_bytes_max = 1 << 30;
    return 0;
}

static void rail_close(struct rg_rail *rail)
{
    free(rail);
}

static int rail_check(struct rg_rail *rail, struct rg_error *err)
{
    return 0;
}

static int region_register(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err)
{
    *ret_region = calloc(1, sizeof **ret_region);
    return 0;
}

static void region_deregister(struct rg_region *region)
{
    free(region);
}

static int lane_open(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct wire_lane *lane = calloc(1, sizeof *lane);
    lane->lane.depth = world.depth;
    *ret_lane = &lane->lane;
    return 0;
}

static void lane_close(struct rg_lane *lane)
{
    free(lane);
}

static int lane_reset(struct rg_lane *lane, struct rg_error *err)
{
    return 0;
}

static int lane_bind(struct rg_lane *lane, const struct rg_rdma_window *window,
                     struct rg_error *err)
{
    return 0;
}

static void lane_unbind(struct rg_lane *lane)
{
}

static int post(struct rg_lane *public, uint64_t length, uint64_t cookie)
{
    struct wire_lane *lane = (struct wire_lane *)public;
    size_t used;
    struct event *event = add_event(lane->events, RG_LANE_DEPTH_MAX, &used);
    world.first_post = RG_MIN(world.first_post, world.now);
    world.wire_free = RG_MAX(world.now, world.wire_free) + world.wire_us;
    world.wire_most = RG_MAX(world.wire_most, used);
    *event = (struct event){true, world.wire_free, cookie, length};
    return 0;
}

static int lane_write(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                      uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                      uint64_t cookie, struct rg_error *err)
{
    return post(lane, length, cookie);
}

static int lane_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                     uint64_t window_offset, uint64_t length, uint64_t cookie, struct rg_error *err)
{
    return post(lane, length, cookie);
}

static int lane_poll(struct rg_lane *public, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    struct wire_lane *lane = (struct wire_lane *)public;
    size_t count = 0;
    while (count < room && due(lane->events, RG_LANE_DEPTH_MAX) <= world.now) {
        struct event *event = earliest(lane->events, RG_LANE_DEPTH_MAX);
        event->used = false;
        completions[count++] =
            (struct rg_completion){.cookie = event->cookie, .length = event->length};
    }
    *ret_count = count;
    return 0;
}

/* The clock goes to the next thing that happens; 1 when that is the file's. */
static int lane_sleep(struct rg_lane *public, int wake_fd, uint64_t timeout_us,
                      struct rg_error *err)
{
    struct wire_lane *lane = (struct wire_lane *)public;
    uint64_t of_wire = due(lane->events, RG_LANE_DEPTH_MAX);
    uint64_t of_file = wake_fd >= 0 ? due(file.events, RG_DISK_DEPTH_MAX) : NEVER;
    uint64_t next = RG_MIN(of_wire, of_file);
    assert_true(next != NEVER);
    world.now = RG_MAX(world.now, next);
    return of_file <= world.now;
}

static int lane_flush(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err)
{
    *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
    return 0;
}

static const struct rg_transport simulated = {
    .name = "simulated",
    .kind = RG_TRANSPORT_OFI,
    .load = load,
    .rail_open = rail_open,
    .rail_close = rail_close,
    .rail_check = rail_check,
    .region_register = region_register,
    .region_register_dmabuf = rg_unsupported_register_dmabuf,
    .region_deregister = region_deregister,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .lane_reset = lane_reset,
    .lane_address = rg_unsupported_address,
    .lane_pair = rg_unsupported_pair,
    .lane_bind = lane_bind,
    .lane_unbind = lane_unbind,
    .lane_write = lane_write,
    .lane_read = lane_read,
    .lane_receive = rg_unsupported_receive,
    .lane_poll = lane_poll,
    .lane_sleep = lane_sleep,
    .lane_flush = lane_flush,
    .lane_progress = rg_unneeded_progress,
    .window_mint = rg_unsupported_mint,
    .window_revoke = rg_unsupported_revoke,
};

/* ---- One transfer ---- */

static int consume(void *context, struct span bytes, struct rg_error *err)
{
    world.now += world.consume_us;
    return 0;
}

/* Returns how long it took. */
static uint64_t move(bool is_put, size_t slots)
{
    struct rg_slab_config slab_config = {.slot_bytes = SLOT, .slot_count = slots};
    struct rg_rail_config rail_config = RG_RAIL_CONFIG_INIT;
    struct rg_rdma_window window = {.transport = RG_TRANSPORT_OFI, .length = PIECES * SLOT};
    struct rg_transfer transfer = RG_TRANSFER_INIT;
    struct rg_transfer_report report;
    struct rg_rail *rail;
    rail_config.spin_us = 0; /* spinning is real time */
    world.now = world.file_free = world.wire_free = 0;
    world.file_most = world.wire_most = 0;
    world.first_post = NEVER;
    memset(file.events, 0, sizeof file.events);
    assert_int_equal(rg_slab_open(&slab_config, &transfer.slab, NULL), 0);
    assert_int_equal(rg_rail_open(&simulated, &rail_config, &rail, NULL), 0);
    assert_int_equal(rg_slab_attach(transfer.slab, rail, RG_ACCESS_LOCAL, NULL), 0);
    assert_int_equal(rg_lane_open(rail, &transfer.lane, NULL), 0);
    transfer.disk = &file;
    transfer.window = &window;
    transfer.length = window.length;
    transfer.slots = slots;
    transfer.budget_ms = 0;
    transfer.consume = world.consume_us ? consume : NULL;
    int rc = is_put ? rg_pipeline_put(&transfer, &report, NULL)
                    : rg_pipeline_get(&transfer, &report, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(report.bytes, PIECES * SLOT);
    assert_int_equal(report.slots, slots);
    rg_lane_close(transfer.lane);
    rg_slab_detach(transfer.slab);
    rg_rail_close(rail);
    rg_slab_close(transfer.slab);
    return world.now;
}

/*
 * The slower half sets the pace; beside it there is only the time until the first piece has reached
 * it and the last one has left it.
 */
static void check(bool is_put)
{
    uint64_t thread_us = (world.is_inline ? world.file_us : 0) + world.consume_us;
    uint64_t halves_us = RG_MAX(world.wire_us, world.file_us);
    uint64_t pace_us = RG_MAX(halves_us, thread_us);
    uint64_t ends_us = world.file_us + world.wire_us + world.consume_us;
    uint64_t took_us = move(is_put, RG_TRANSFER_SLOTS_DEFAULT);
    print_message("%s, file %u%s, wire %u (%u at a time), consumer %u: %u a piece\n",
                  is_put ? "PUT" : "GET", (unsigned)world.file_us,
                  world.is_inline ? " by the thread" : "", (unsigned)world.wire_us, world.depth,
                  (unsigned)world.consume_us, (unsigned)(took_us / PIECES));
    assert_in_range(took_us, PIECES * pace_us, PIECES * pace_us + ends_us);
}

static void overlaps(uint32_t depth, bool is_inline, uint64_t consume_us)
{
    static const uint64_t times[][2] = {{100, 100}, {70, 150}, {150, 70}, {10, 300}, {300, 10}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(times); i++) {
        world.file_us = times[i][0];
        world.wire_us = times[i][1];
        world.depth = depth;
        world.is_inline = is_inline;
        world.consume_us = consume_us;
        check(false);
        check(true);
    }
}

static void file_and_wire_overlap(void **state)
{
    overlaps(16, false, 0);
    assert_int_equal(world.file_most, RG_TRANSFER_SLOTS_DEFAULT);
}

static void with_one_operation_at_a_time(void **state)
{
    overlaps(1, false, 0);
    assert_int_equal(world.wire_most, 1);
}

/* What is in the page cache is copied by the thread that asks for it. */
static void with_a_file_that_takes_the_thread(void **state)
{
    overlaps(16, true, 0);
    overlaps(1, true, 0);
}

static void with_a_consumer(void **state)
{
    overlaps(16, false, 60);
    overlaps(1, false, 60);
    overlaps(1, true, 60);
}

/* The first piece leaves as soon as it is there, not when all slots are full. */
static void the_wire_begins_with_the_first_piece(void **state)
{
    world.file_us = 100;
    world.wire_us = 100;
    world.consume_us = 0;
    world.depth = 16;
    for (int is_inline = 0; is_inline < 2; is_inline++) {
        world.is_inline = is_inline;
        (void)move(false, RG_TRANSFER_SLOTS_DEFAULT);
        assert_int_equal(world.first_post, 100);
        (void)move(true, RG_TRANSFER_SLOTS_DEFAULT);
        assert_int_equal(world.first_post, 0);
    }
}

/* With a single slot there is nothing to overlap with: the simulation does not flatter. */
static void one_slot_is_the_sum(void **state)
{
    world.file_us = 100;
    world.wire_us = 100;
    world.consume_us = 0;
    world.depth = 16;
    world.is_inline = false;
    assert_int_equal(move(false, 1), PIECES * 200);
    assert_int_equal(move(true, 1), PIECES * 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_and_wire_overlap),
        cmocka_unit_test(with_one_operation_at_a_time),
        cmocka_unit_test(with_a_file_that_takes_the_thread),
        cmocka_unit_test(with_a_consumer),
        cmocka_unit_test(the_wire_begins_with_the_first_piece),
        cmocka_unit_test(one_slot_is_the_sum),
    };
    file.fd = eventfd(0, EFD_CLOEXEC);
    RG_ASSERT(file.fd >= 0);
    int failed = cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
    close(file.fd);
    return failed;
}
