#include "test.h"

#include "base/clock.h"
#include "mock.h"
#include "rdma/transport.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bench {
    struct rg_rail *rail;
    struct rg_lane *lane;
    struct rg_region *region;
    char local[256];
    char peer[128];
    struct rg_rdma_window window;
    struct rg_error err;
};

static int open_bench(void **state)
{
    mock_reset();
    struct bench *bench = calloc(1, sizeof *bench);
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    config.lane_depth = 4;
    assert_int_equal(rg_rail_open(&mock_transport, &config, &bench->rail, NULL), 0);
    assert_int_equal(rg_lane_open(bench->rail, &bench->lane, NULL), 0);
    assert_int_equal(rg_region_register(bench->rail, bench->local, sizeof bench->local,
                                        RG_ACCESS_LOCAL, &bench->region, NULL),
                     0);
    bench->window = mock_window(bench->peer, sizeof bench->peer);
    assert_int_equal(rg_lane_bind(bench->lane, &bench->window, NULL), 0);
    *state = bench;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    rg_lane_close(bench->lane);
    rg_region_deregister(bench->region);
    rg_rail_close(bench->rail);
    free(bench);
    assert_int_equal(mock.rails_open + mock.lanes_open + mock.regions, 0);
    return 0;
}

static void every_cause_has_words(void **state)
{
    for (int i = 0; i < RG_CAUSE_COUNT; i++) {
        assert_true(strlen(rg_cause_name(i)) > 0);
        assert_true(strlen(rg_cause_sentence(i)) > 0);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(rg_cause_name(i), rg_cause_name(j));
        }
    }
    assert_string_equal(rg_broke_name(RG_BROKE_DEVICE), "device");
}

static void checks_the_rail_config(void **state)
{
    struct rg_rail *rail = NULL;
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct rg_rail_config bad = config;                                                        \
        bad.change;                                                                                \
        assert_int_equal(rg_rail_open(&mock_transport, &bad, &rail, NULL), -RG_SETTING);           \
    } while (0)
    REFUSED(lane_depth = 0);
    REFUSED(lane_depth = RG_LANE_DEPTH_MAX + 1);
    REFUSED(traffic_class = 256);
    REFUSED(traffic_class = -2);
    REFUSED(gid_index = -2);
    REFUSED(service_level = 16);
    REFUSED(retry_count = 8);
    REFUSED(rnr_retry = 8);
    REFUSED(ack_timeout = 32);
    assert_null(rail);
}

static void refuses_what_lies_outside(void **state)
{
    struct bench *bench = *state;
    struct rg_region *region = bench->region;
    static const uint64_t bad[][3] = {
        {0, 0, 129},        {1, 0, 256},        {0, 128, 1},    {256, 0, 1}, {UINT64_MAX, 0, 2},
        {0, UINT64_MAX, 2}, {0, 0, UINT64_MAX}, {200, 100, 57}, {0, 127, 2}, {255, 0, 2},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_int_equal(
            rg_lane_write(bench->lane, region, bad[i][0], bad[i][1], bad[i][2], 1, &bench->err),
            -RG_INVALID_ARGUMENT);
        assert_int_equal(
            rg_lane_read(bench->lane, region, bad[i][0], bad[i][1], bad[i][2], 1, &bench->err),
            -RG_INVALID_ARGUMENT);
    }
    assert_int_equal(bench->lane->broke, RG_BROKE_NOTHING);
    assert_int_equal(mock.posts, 0);
    rg_lane_unbind(bench->lane);
    assert_int_equal(rg_lane_write(bench->lane, region, 0, 0, 1, 1, NULL), -RG_INVALID_ARGUMENT);
    struct rg_region *remote;
    assert_int_equal(
        rg_region_register(bench->rail, bench->local, 10, RG_ACCESS_REMOTE_READ, &remote, NULL), 0);
    assert_int_equal(rg_lane_bind(bench->lane, &bench->window, NULL), 0);
    assert_int_equal(rg_lane_write(bench->lane, remote, 0, 0, 1, 1, NULL), -RG_INVALID_ARGUMENT);
    rg_region_deregister(remote);
    assert_int_equal(
        rg_region_register(bench->rail, bench->local, 0, RG_ACCESS_LOCAL, &remote, NULL),
        -RG_INVALID_ARGUMENT);
    assert_int_equal(
        rg_region_register(bench->rail, (void *)8, UINT64_MAX, RG_ACCESS_LOCAL, &remote, NULL),
        -RG_INVALID_ARGUMENT);
}

static void refuses_strange_windows(void **state)
{
    struct bench *bench = *state;
    struct rg_rdma_window window = bench->window;
    window.length = 0;
    assert_int_equal(rg_lane_bind(bench->lane, &window, NULL), -RG_INVALID_RDMA_TOKEN);
    window = bench->window;
    window.address = UINT64_MAX;
    assert_int_equal(rg_lane_bind(bench->lane, &window, NULL), -RG_INVALID_RDMA_TOKEN);
    window = bench->window;
    window.transport = RG_TRANSPORT_RC;
    assert_int_equal(rg_lane_bind(bench->lane, &window, NULL), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(bench->lane->broke, RG_BROKE_NOTHING);
}

static void full_lane_asks_to_wait(void **state)
{
    struct bench *bench = *state;
    struct rg_completion done[8];
    size_t count;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(rg_lane_write(bench->lane, bench->region, i, i, 1, i, NULL), 0);
    }
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 9, 9, 1, 9, NULL), -RG_LIMIT);
    assert_int_equal(bench->lane->outstanding, 4);
    assert_int_equal(rg_lane_wait(bench->lane, done, 1, -1, 100, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 9, 9, 1, 9, NULL), 0);
    unsigned seen = 1u << done[0].cookie;
    while (bench->lane->outstanding > 0) {
        assert_int_equal(rg_lane_wait(bench->lane, done, 8, -1, 100, &count, NULL), 0);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(done[i].broke, RG_BROKE_NOTHING);
            assert_int_equal(done[i].length, 1);
            seen |= 1u << done[i].cookie;
        }
    }
    assert_int_equal(seen, 0x20f);
}

static void waits_end_in_time(void **state)
{
    struct bench *bench = *state;
    struct rg_completion done;
    size_t count;
    mock.stuck = true;
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 1, NULL), 0);
    uint64_t start = rg_clock_ms();
    assert_int_equal(rg_lane_wait(bench->lane, &done, 1, -1, 0, &count, NULL), -RG_TIMED_OUT);
    assert_int_equal(rg_lane_wait(bench->lane, &done, 1, -1, 40, &count, NULL), -RG_TIMED_OUT);
    assert_in_range(rg_clock_ms() - start, 38, 2000);
    int fd = eventfd(1, 0);
    start = rg_clock_ms();
    assert_int_equal(rg_lane_wait(bench->lane, &done, 1, fd, 5000, &count, NULL), 0);
    assert_int_equal(count, 0);
    assert_int_equal(rg_lane_wait(bench->lane, &done, 1, fd, 0, &count, NULL), 0);
    assert_int_equal(count, 0);
    assert_in_range(rg_clock_ms() - start, 0, 1000);
    close(fd);
}

static void flush_forgets(void **state)
{
    struct bench *bench = *state;
    unsigned quiet = 0;
    assert_int_equal(rg_lane_flush(bench->lane, &quiet, NULL), 0); /* nothing outstanding */
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    assert_int_equal(mock.flushes, 0);
    assert_true(bench->lane->bound);

    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 1, NULL), 0);
    mock.delay_us = 1000; /* a sound lane is given time to finish by itself */
    assert_int_equal(rg_lane_flush(bench->lane, &quiet, NULL), 0);
    assert_int_equal(mock.flushes, 0);
    assert_int_equal(quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);

    mock.stuck = true;
    mock.flush_quiet = RG_QUIET_LOCAL;
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 1, NULL), 0);
    assert_int_equal(rg_lane_flush(bench->lane, &quiet, NULL), 0);
    assert_int_equal(mock.flushes, 1);
    assert_int_equal(quiet, RG_QUIET_LOCAL);
    assert_int_equal(bench->lane->outstanding, 0);
    assert_int_equal(bench->lane->broke, RG_BROKE_CONNECTION);
    assert_int_equal(bench->lane->cause, RG_CAUSE_FLUSHED);
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 1, NULL),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(rg_lane_bind(bench->lane, &bench->window, NULL), -RG_RDMA_TRANSFER_FAILED);
    assert_int_equal(rg_lane_reset(bench->lane, NULL), 0);
    assert_int_equal(bench->lane->broke, RG_BROKE_NOTHING);
    assert_int_equal(rg_lane_bind(bench->lane, &bench->window, NULL), 0);
}

/* A broken connection with operations that never complete: the wait says so instead of waiting. */
static void broken_lane_does_not_wait(void **state)
{
    struct bench *bench = *state;
    struct rg_completion done[4];
    size_t count;
    mock.fail_operation = 1;
    mock.fail_broke = RG_BROKE_CONNECTION;
    mock.fail_cause = RG_CAUSE_PEER_GONE;
    mock.stuck_after = 1;
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 1, NULL), 0);
    assert_int_equal(rg_lane_write(bench->lane, bench->region, 0, 0, 1, 2, NULL), 0);
    assert_int_equal(rg_lane_wait(bench->lane, done, 4, -1, 1000, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(done[0].broke, RG_BROKE_CONNECTION);
    uint64_t start = rg_clock_ms();
    assert_int_equal(rg_lane_wait(bench->lane, done, 4, -1, 5000, &count, &bench->err),
                     -RG_RDMA_TRANSFER_FAILED);
    assert_in_range(rg_clock_ms() - start, 0, 1000);
    assert_int_equal(bench->lane->cause, RG_CAUSE_PEER_GONE);
    assert_non_null(strstr(bench->err.message, "does not answer"));
}

static void missing_abilities_say_so(void **state)
{
    struct bench *bench = *state;
    struct rg_lane_address address = {0};
    struct rg_region *region;
    struct rg_target *target;
    assert_int_equal(rg_lane_address(bench->lane, &address, &bench->err), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_lane_pair(bench->lane, &address, &bench->err), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_lane_receive(bench->lane, 1, &bench->err), -RG_RDMA_NOT_SUPPORTED);
    assert_int_equal(rg_region_register_dmabuf(bench->rail, 0, 0, 4096, 4096, RG_ACCESS_LOCAL,
                                               &region, &bench->err),
                     -RG_RDMA_NOT_SUPPORTED);
    assert_non_null(strstr(bench->err.message, "mock"));
    assert_int_equal(
        rg_window_mint(bench->lane, bench->region, 0, 10, RG_DIRECTION_GET, &target, NULL),
        -RG_INVALID_ARGUMENT); /* registered for posts only */
    assert_int_equal(rg_window_revoke(NULL, true, NULL), 0);
    struct rg_progress *progress = (void *)bench;
    assert_int_equal(rg_progress_start(bench->lane, &progress, NULL), 0);
    assert_null(progress); /* this rail needs none */
    assert_int_equal(rg_progress_stop(progress, NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cause_has_words),
        cmocka_unit_test(checks_the_rail_config),
        TEST(refuses_what_lies_outside),
        TEST(refuses_strange_windows),
        TEST(full_lane_asks_to_wait),
        TEST(waits_end_in_time),
        TEST(flush_forgets),
        TEST(broken_lane_does_not_wait),
        TEST(missing_abilities_say_so),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
