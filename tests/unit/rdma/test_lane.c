#include "test.h"

#include "base/clock.h"
#include "mock.h"
#include "rdma/lane.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct rg_pool_config make_config(size_t lanes)
{
    struct rg_pool_config config = RG_POOL_CONFIG_INIT;
    config.transport = &mock_transport;
    config.lanes_max = lanes;
    config.retry_ms_min = 20;
    config.retry_ms_max = 80;
    return config;
}

static struct rg_pool *open_pool(size_t lanes)
{
    struct rg_pool_config config = make_config(lanes);
    struct rg_pool *pool;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_pool_open(&config, &pool, &err), 0);
    return pool;
}

static int reset(void **state)
{
    mock_reset();
    return 0;
}

static int check_nothing_left(void **state)
{
    assert_int_equal(mock.rails_open, 0);
    assert_int_equal(mock.lanes_open, 0);
    assert_int_equal(mock.regions, 0);
    return 0;
}

static struct rg_pool_state state_of(struct rg_pool *pool)
{
    struct rg_pool_state now;
    rg_pool_state(pool, &now);
    return now;
}

static void refuses_bad_ceilings(void **state)
{
    struct rg_pool *pool = NULL;
    struct rg_pool_config config = make_config(0);
    assert_int_equal(rg_pool_open(&config, &pool, NULL), -RG_SETTING);
    config = make_config(RG_POOL_LANES_MAX + 1);
    assert_int_equal(rg_pool_open(&config, &pool, NULL), -RG_SETTING);
    config = make_config(1);
    config.retry_ms_max = 1;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), -RG_SETTING);
    config = make_config(1);
    config.rail.lane_depth = 0;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), -RG_SETTING);
    assert_null(pool);
}

static void lanes_are_kept(void **state)
{
    struct rg_pool *pool = open_pool(2);
    struct rg_lease a, b, c;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_pool_lease(pool, 0, &a, &err), 0);
    assert_int_equal(rg_pool_lease(pool, 0, &b, &err), 0);
    assert_non_null(a.disk);
    assert_ptr_not_equal(a.lane, b.lane);
    uint64_t start = rg_clock_ms();
    assert_int_equal(rg_pool_lease(pool, 30, &c, &err), -RG_LIMIT);
    assert_in_range(rg_clock_ms() - start, 25, 2000);
    struct rg_lane *kept = a.lane;
    rg_pool_return(&a);
    rg_pool_return(&a); /* an empty lease is allowed */
    assert_int_equal(rg_pool_lease(pool, 0, &a, &err), 0);
    assert_ptr_equal(a.lane, kept);
    assert_int_equal(state_of(pool).lanes_leased, 2);
    rg_pool_return(&a);
    rg_pool_return(&b);
    struct rg_pool_state now = state_of(pool);
    assert_true(now.up);
    assert_string_equal(now.path, "mock");
    assert_int_equal(now.lanes_leased, 0);
    assert_int_equal(now.lanes_open, 2);
    assert_int_equal(now.lanes_opened, 2);
    assert_int_equal(now.leases, 3);
    assert_int_equal(now.timeouts, 1);
    rg_pool_close(pool);
}

/* A lane that was used for a peer is kept for it while others are to be had. */
static void lanes_remember_peers(void **state)
{
    struct rg_pool *pool = open_pool(3);
    struct rg_rdma_window peers[3] = {{.endpoint = {1}, .endpoint_len = 2},
                                      {.endpoint = {2}, .endpoint_len = 2},
                                      {.endpoint = {3}, .endpoint_len = 2}};
    struct rg_lane *lanes[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            struct rg_lease lease;
            assert_int_equal(rg_pool_lease_for(pool, &peers[i], 0, &lease, NULL), 0);
            if (round == 0) {
                lanes[i] = lease.lane;
            }
            assert_ptr_equal(lease.lane, lanes[i]);
            rg_pool_return(&lease);
        }
    }
    assert_ptr_not_equal(lanes[0], lanes[1]);
    /* A stranger gets one all the same. */
    struct rg_rdma_window stranger = {.endpoint = {9}, .endpoint_len = 1};
    struct rg_lease lease;
    assert_int_equal(rg_pool_lease_for(pool, &stranger, 0, &lease, NULL), 0);
    rg_pool_return(&lease);
    assert_int_equal(state_of(pool).lanes_opened, 3);
    rg_pool_close(pool);
}

static void broken_lane_is_replaced(void **state)
{
    struct rg_pool *pool = open_pool(1);
    struct rg_lease lease;
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    (void)rg_lane_break(lease.lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE, NULL, NULL);
    rg_pool_return(&lease);
    struct rg_pool_state now = state_of(pool);
    assert_true(now.up); /* the peer's fault is not the rail's */
    assert_int_equal(now.rail_failures, 0);
    assert_int_equal(now.lanes_broken, 1);
    assert_int_equal(now.broken_by_cause[RG_CAUSE_PEER_GONE], 1);
    assert_int_equal(now.lanes_open, 0);
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    assert_int_equal(lease.lane->broke, RG_BROKE_NOTHING);
    rg_pool_discard(&lease);
    assert_int_equal(state_of(pool).lanes_broken, 1);
    assert_int_equal(mock.lanes_open, 0);
    rg_pool_close(pool);
}

static void failed_operation_keeps_the_lane(void **state)
{
    struct rg_pool *pool = open_pool(1);
    struct rg_lease lease;
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    struct rg_lane *lane = lease.lane;
    (void)rg_lane_break(lane, RG_BROKE_OPERATION, RG_CAUSE_REMOTE_ACCESS, NULL, NULL);
    rg_pool_return(&lease);
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    assert_ptr_equal(lease.lane, lane);
    assert_int_equal(lane->broke, RG_BROKE_NOTHING);
    assert_int_equal(lane->cause, RG_CAUSE_NONE);
    rg_pool_return(&lease);
    rg_pool_close(pool);
}

static void broken_device_takes_the_rail_out(void **state)
{
    struct rg_pool *pool = open_pool(2);
    struct rg_lease a, b;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_pool_lease(pool, 0, &a, &err), 0);
    assert_int_equal(rg_pool_lease(pool, 0, &b, &err), 0);
    (void)rg_lane_break(a.lane, RG_BROKE_DEVICE, RG_CAUSE_DEVICE_GONE, NULL, NULL);
    rg_pool_return(&a);
    struct rg_pool_state now = state_of(pool);
    assert_false(now.up);
    assert_int_equal(now.rail_failures, 1);
    assert_non_null(strstr(now.reason, "device"));
    assert_int_equal(rg_pool_lease(pool, 1000, &a, &err), -RG_SERVICE_UNAVAILABLE);
    /* The other lease keeps the rail from being closed. */
    assert_int_equal(mock.rails_open, 1);
    usleep(30000);
    assert_false(rg_pool_tick(pool));
    rg_pool_return(&b);
    assert_int_equal(mock.rails_open, 0);
    assert_int_equal(mock.lanes_open, 0);
    assert_true(rg_pool_tick(pool));
    assert_true(state_of(pool).up);
    assert_string_equal(state_of(pool).reason, "");
    assert_int_equal(rg_pool_lease(pool, 0, &a, &err), 0);
    rg_pool_return(&a);
    rg_pool_close(pool);
}

static void retries_back_off(void **state)
{
    struct rg_pool *pool = open_pool(1);
    struct rg_lease lease;
    mock.fail_rail_open = true;
    rg_pool_take_out(pool, "pulled");
    assert_int_equal(mock.rails_open, 0);
    assert_string_equal(state_of(pool).reason, "pulled");
    assert_in_range(state_of(pool).retry_in_ms, 0, 20);
    usleep(25000);
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), -RG_SERVICE_UNAVAILABLE);
    assert_in_range(state_of(pool).retry_in_ms, 21, 40);
    assert_non_null(strstr(state_of(pool).reason, "port is down"));
    usleep(45000);
    (void)rg_pool_tick(pool);
    assert_in_range(state_of(pool).retry_in_ms, 41, 80);
    usleep(85000);
    (void)rg_pool_tick(pool);
    assert_in_range(state_of(pool).retry_in_ms, 41, 80); /* the ceiling */
    mock.fail_rail_open = false;
    usleep(85000);
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    rg_pool_return(&lease);
    rg_pool_close(pool);
}

static void rail_is_asked(void **state)
{
    struct rg_pool *pool = open_pool(1);
    struct rg_lease lease;
    mock.fail_rail_check = true;
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    rg_pool_return(&lease); /* a sound lane: nobody asks */
    assert_true(state_of(pool).up);
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    (void)rg_lane_break(lease.lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE, NULL, NULL);
    rg_pool_return(&lease); /* the connection broke because our port is down */
    assert_false(state_of(pool).up);
    assert_non_null(strstr(state_of(pool).reason, "gone down"));
    rg_pool_close(pool);
    pool = open_pool(1);
    assert_true(rg_pool_tick(pool)); /* found by the tick alone */
    assert_false(state_of(pool).up);
    rg_pool_close(pool);
}

static void lane_that_cannot_open(void **state)
{
    struct rg_pool *pool = open_pool(1);
    struct rg_lease lease;
    mock.fail_lane_open = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), -RG_LIMIT);
    }
    assert_true(state_of(pool).up);
    assert_int_equal(state_of(pool).lanes_leased, 0);
    mock.fail_lane_open = false;
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    rg_pool_return(&lease);
    rg_pool_close(pool);
}

static void starts_down_when_told(void **state)
{
    mock.fail_rail_open = true;
    struct rg_pool_config config = make_config(1);
    struct rg_pool *pool;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), -RG_SERVICE_UNAVAILABLE);
    config.tolerate_down = true;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), 0);
    assert_false(state_of(pool).up);
    assert_null(rg_pool_rail_get(pool));
    mock.fail_rail_open = false;
    usleep(25000);
    assert_true(rg_pool_tick(pool));
    struct rg_rail *rail = rg_pool_rail_get(pool);
    assert_non_null(rail);
    rg_pool_take_out(pool, "test");
    assert_int_equal(mock.rails_open, 1);
    rg_pool_rail_put(pool, rail);
    assert_int_equal(mock.rails_open, 0);
    rg_pool_close(pool);
}

static void slab_follows_the_rail(void **state)
{
    struct rg_slab_config slab_config = {.slot_bytes = RG_SLOT_BYTES_MIN, .slot_count = 2};
    struct rg_slab *slab;
    assert_int_equal(rg_slab_open(&slab_config, &slab, NULL), 0);
    struct rg_pool_config config = make_config(1);
    config.slab = slab;
    struct rg_pool *pool;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), 0);
    assert_non_null(rg_slab_region(slab));
    rg_pool_take_out(pool, "test");
    assert_null(rg_slab_region(slab));
    usleep(25000);
    assert_true(rg_pool_tick(pool));
    assert_non_null(rg_slab_region(slab));
    rg_pool_close(pool);
    assert_null(rg_slab_region(slab));
    rg_slab_close(slab);
}

static void returns_flush(void **state)
{
    struct rg_slab_config slab_config = {.slot_bytes = RG_SLOT_BYTES_MIN, .slot_count = 1};
    struct rg_slab *slab;
    assert_int_equal(rg_slab_open(&slab_config, &slab, NULL), 0);
    struct rg_pool_config config = make_config(1);
    config.slab = slab;
    struct rg_pool *pool;
    assert_int_equal(rg_pool_open(&config, &pool, NULL), 0);
    struct rg_lease lease;
    assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
    char peer[64];
    struct rg_rdma_window window = mock_window(peer, sizeof peer);
    assert_int_equal(rg_lane_bind(lease.lane, &window, NULL), 0);
    mock.stuck = true;
    assert_int_equal(rg_lane_write(lease.lane, rg_slab_region(slab), 0, 0, 64, 1, NULL), 0);
    rg_pool_return(&lease);
    assert_int_equal(mock.flushes, 1);
    assert_int_equal(state_of(pool).lanes_open, 0);
    rg_pool_close(pool);
    rg_slab_close(slab);
}

static void *wait_for_lane(void *argument)
{
    struct rg_pool *pool = argument;
    struct rg_lease lease;
    int rc = rg_pool_lease(pool, 5000, &lease, NULL);
    if (rc == 0) {
        rg_pool_return(&lease);
    }
    return (void *)(intptr_t)rc;
}

static void waiters_learn_of_the_end(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct rg_pool *pool = open_pool(1);
        struct rg_lease lease;
        pthread_t thread;
        void *result;
        assert_int_equal(rg_pool_lease(pool, 0, &lease, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_lane, pool), 0);
        while (state_of(pool).waiters == 0) {
            usleep(1000);
        }
        static const int expected[] = {0, -RG_CANCELLED, -RG_SERVICE_UNAVAILABLE};
        if (how == 1) {
            rg_pool_stop(pool);
        } else if (how == 2) {
            rg_pool_take_out(pool, "test");
        } else {
            rg_pool_return(&lease);
        }
        pthread_join(thread, &result);
        assert_int_equal((intptr_t)result, expected[how]);
        rg_pool_return(&lease);
        rg_pool_close(pool);
    }
}

struct crowd {
    struct rg_pool *pool;
    atomic_uint leased, failed;
};

/* Leases, now and then breaks the lane or the device, while a ticker repairs. */
static void *run_crowd(void *argument)
{
    struct crowd *crowd = argument;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 300; i++) {
        struct rg_lease lease;
        int rc = rg_pool_lease(crowd->pool, 1000, &lease, NULL);
        if (rc < 0) {
            crowd->failed++;
            usleep(500);
            continue;
        }
        crowd->leased++;
        unsigned dice = (unsigned)rand_r(&seed) % 100;
        if (dice == 0) {
            (void)rg_lane_break(lease.lane, RG_BROKE_DEVICE, RG_CAUSE_DEVICE_GONE, NULL, NULL);
        } else if (dice < 10) {
            (void)rg_lane_break(lease.lane, RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE, NULL, NULL);
        }
        if (dice % 2) {
            rg_pool_return(&lease);
        } else {
            rg_pool_discard(&lease);
        }
        if (dice == 50) {
            (void)rg_pool_tick(crowd->pool);
            (void)state_of(crowd->pool);
        }
    }
    return NULL;
}

static void crowd_breaks_things(void **state)
{
    struct rg_pool_config config = make_config(3);
    config.retry_ms_min = 1;
    config.retry_ms_max = 4;
    struct crowd crowd = {0};
    assert_int_equal(rg_pool_open(&config, &crowd.pool, NULL), 0);
    pthread_t threads[8];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_crowd, &crowd), 0);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(crowd.leased + crowd.failed, 8 * 300);
    assert_true(crowd.leased > 100);
    struct rg_pool_state now = state_of(crowd.pool);
    assert_int_equal(now.lanes_leased, 0);
    assert_int_equal(now.waiters, 0);
    rg_pool_close(crowd.pool);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, check_nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(refuses_bad_ceilings),
        TEST(lanes_are_kept),
        TEST(lanes_remember_peers),
        TEST(broken_lane_is_replaced),
        TEST(failed_operation_keeps_the_lane),
        TEST(broken_device_takes_the_rail_out),
        TEST(retries_back_off),
        TEST(rail_is_asked),
        TEST(lane_that_cannot_open),
        TEST(starts_down_when_told),
        TEST(slab_follows_the_rail),
        TEST(returns_flush),
        TEST(waiters_learn_of_the_end),
        TEST(crowd_breaks_things),
    };
    return cmocka_run_group_tests_name("lane", tests, NULL, NULL);
}
