#include "test.h"

#include "base/clock.h"
#include "mock.h"
#include "rdma/slab.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLOT RG_SLOT_BYTES_MIN

static struct rg_slab *open_slab(size_t slots)
{
    struct rg_slab_config config = {.slot_bytes = SLOT, .slot_count = slots};
    struct rg_slab *slab;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_slab_open(&config, &slab, &err), 0);
    return slab;
}

static void refuses_bad_sizes(void **state)
{
    static const struct rg_slab_config bad[] = {
        {.slot_bytes = SLOT - 1, .slot_count = 1},
        {.slot_bytes = SLOT + 512, .slot_count = 1},
        {.slot_bytes = RG_SLOT_BYTES_MAX + 4096, .slot_count = 1},
        {.slot_bytes = SLOT, .slot_count = 0},
        {.slot_bytes = SLOT, .slot_count = RG_SLOT_COUNT_MAX + 1},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        struct rg_slab *slab = NULL;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_slab_open(&bad[i], &slab, &err), -RG_SETTING);
        assert_null(slab);
    }
}

static void leases_and_returns(void **state)
{
    struct rg_slab *slab = open_slab(3);
    struct rg_slot slots[3];
    struct rg_slab_state now;
    struct rg_error err = RG_ERROR_INIT;
    size_t count;
    assert_int_equal(rg_slab_lease(slab, 1, 3, 0, slots, &count, &err), 0);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal((uintptr_t)slots[i].address % 4096, 0);
        assert_int_equal(slots[i].bytes, SLOT);
        memset(slots[i].address, (int)i, SLOT);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(((uint8_t *)slots[i].address)[SLOT - 1], i);
    }
    rg_slab_state(slab, &now);
    assert_int_equal(now.slots_total, 3);
    assert_int_equal(now.slots_in_use, 3);
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, slots, &count, &err), -RG_LIMIT);
    rg_slab_return(slab, slots, 2);
    assert_int_equal(rg_slab_lease(slab, 1, 3, 0, slots, &count, &err), 0);
    assert_int_equal(count, 2);
    rg_slab_return(slab, slots, 2);
    rg_slab_return(slab, slots + 2, 1);
    rg_slab_state(slab, &now);
    assert_int_equal(now.slots_in_use, 0);
    assert_int_equal(now.leases, 2);
    assert_int_equal(now.timeouts, 1);
    rg_slab_close(slab);
}

/* Memory comes with the first use of a slot, and stays. */
static void tells_what_it_holds(void **state)
{
    struct rg_slab_config config = {.slot_bytes = 65536, .slot_count = 64};
    struct rg_error err = RG_ERROR_INIT;
    struct rg_slab *slab;
    struct rg_slab_state now;
    struct rg_slot slots[3];
    size_t count;
    assert_int_equal(rg_slab_open(&config, &slab, &err), 0);
    rg_slab_state(slab, &now);
    assert_int_equal(now.mapped_bytes, 64 * 65536);
    assert_int_equal(now.locked_bytes, 0);
    assert_int_equal(rg_slab_resident_bytes(slab), 0);
    assert_int_equal(rg_slab_lease(slab, 3, 3, 0, slots, &count, &err), 0);
    memset(slots[0].address, 1, slots[0].bytes);
    memset(slots[2].address, 1, 4096);
    assert_int_equal(rg_slab_resident_bytes(slab), 65536 + 4096);
    rg_slab_return(slab, slots, count);
    assert_int_equal(rg_slab_resident_bytes(slab), 65536 + 4096);
    rg_slab_close(slab);
}

static void wait_is_bounded(void **state)
{
    struct rg_slab *slab = open_slab(1);
    struct rg_slot slot, other;
    size_t count;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, &err), 0);
    uint64_t start = rg_clock_ms();
    assert_int_equal(rg_slab_lease(slab, 1, 1, 60, &other, &count, &err), -RG_LIMIT);
    uint64_t took = rg_clock_ms() - start;
    assert_in_range(took, 55, 2000);
    /* More than there will ever be: no wait. */
    start = rg_clock_ms();
    assert_int_equal(rg_slab_lease(slab, 2, 2, 5000, &other, &count, &err), -RG_LIMIT);
    assert_in_range(rg_clock_ms() - start, 0, 1000);
    rg_slab_return(slab, &slot, 1);
    rg_slab_close(slab);
}

struct waiter {
    struct rg_slab *slab;
    size_t least;
    pthread_t thread;
    atomic_int *order;
    int got;
    int rc;
};

static void *run_waiter(void *argument)
{
    struct waiter *waiter = argument;
    struct rg_slot slots[RG_LEASE_SLOTS_MAX];
    size_t count = 0;
    waiter->rc =
        rg_slab_lease(waiter->slab, waiter->least, waiter->least, 5000, slots, &count, NULL);
    if (waiter->rc == 0) {
        waiter->got = ++*waiter->order;
        rg_slab_return(waiter->slab, slots, count);
    }
    return NULL;
}

static void wait_for_waiters(struct rg_slab *slab, size_t count)
{
    struct rg_slab_state now;
    do {
        usleep(1000);
        rg_slab_state(slab, &now);
    } while (now.waiters != count);
}

/* The first wants all slots: those behind it, who want one, must not starve it. */
static void first_come_first_served(void **state)
{
    struct rg_slab *slab = open_slab(2);
    struct rg_slot slots[2];
    size_t count;
    atomic_int order = 0;
    assert_int_equal(rg_slab_lease(slab, 2, 2, 0, slots, &count, NULL), 0);
    struct waiter waiters[5];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(waiters); i++) {
        waiters[i] = (struct waiter){.slab = slab, .least = i == 0 ? 2 : 1, .order = &order};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, run_waiter, &waiters[i]), 0);
        wait_for_waiters(slab, i + 1);
    }
    rg_slab_return(slab, slots, 1);
    usleep(20000);
    assert_int_equal(order, 0);
    rg_slab_return(slab, slots + 1, 1);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(waiters); i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].rc, 0);
    }
    assert_int_equal(waiters[0].got, 1);
    rg_slab_close(slab);
}

static void stop_wakes_all(void **state)
{
    struct rg_slab *slab = open_slab(1);
    struct rg_slot slot;
    size_t count;
    atomic_int order = 0;
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, NULL), 0);
    struct waiter waiters[3];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(waiters); i++) {
        waiters[i] = (struct waiter){.slab = slab, .least = 1, .order = &order};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, run_waiter, &waiters[i]), 0);
        wait_for_waiters(slab, i + 1);
    }
    rg_slab_stop(slab);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(waiters); i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].rc, -RG_CANCELLED);
    }
    rg_slab_return(slab, &slot, 1);
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, NULL), -RG_CANCELLED);
    rg_slab_close(slab);
}

static bool is_readable_memory(const void *address)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    bool readable = write(pipe_fds[1], address, 1) == 1;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return readable;
}

static void condemned_slots_move(void **state)
{
    struct rg_slab *slab = open_slab(2);
    struct rg_slot slots[2];
    struct rg_slab_state now;
    size_t count;
    /* Four times the slots can be replaced, then they are lost. */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rg_slab_lease(slab, 2, 2, 0, slots, &count, NULL), 0);
        void *before[2] = {slots[0].address, slots[1].address};
        rg_slab_condemn(slab, slots, 2);
        assert_int_equal(rg_slab_lease(slab, 2, 2, 0, slots, &count, NULL), 0);
        for (int j = 0; j < 2; j++) {
            assert_false(is_readable_memory(before[j]));
            assert_ptr_not_equal(slots[j].address, before[0]);
            assert_ptr_not_equal(slots[j].address, before[1]);
            memset(slots[j].address, 7, SLOT);
        }
        rg_slab_return(slab, slots, 2);
    }
    rg_slab_state(slab, &now);
    assert_int_equal(now.slots_condemned, 0);
    assert_int_equal(now.condemnations, 8);
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, slots, &count, NULL), 0);
    rg_slab_condemn(slab, slots, 1);
    rg_slab_state(slab, &now);
    assert_int_equal(now.slots_condemned, 1);
    assert_int_equal(now.slots_in_use, 0);
    assert_int_equal(rg_slab_lease(slab, 2, 2, 1000, slots, &count, NULL), -RG_LIMIT);
    rg_slab_close(slab);
}

static void pinned_slots_are_lost(void **state)
{
    mock_reset();
    mock.pins_memory = true;
    struct rg_slab_config config = {.slot_bytes = SLOT, .slot_count = 2, .lock = true};
    struct rg_slab *slab;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_slab_locked_bytes(&config), 2 * SLOT);
    assert_int_equal(rg_slab_open(&config, &slab, &err), 0);
    struct rg_rail_config rail_config = RG_RAIL_CONFIG_INIT;
    struct rg_rail *rail;
    assert_int_equal(rg_rail_open(&mock_transport, &rail_config, &rail, &err), 0);
    assert_int_equal(rg_slab_attach(slab, rail, RG_ACCESS_LOCAL, &err), 0);
    assert_int_equal(rg_slab_region(slab)->length, 2 * SLOT);
    struct rg_slot slot;
    size_t count;
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, &err), 0);
    rg_slab_condemn(slab, &slot, 1);
    struct rg_slab_state now;
    rg_slab_state(slab, &now);
    assert_int_equal(now.slots_condemned, 1);
    assert_int_equal(now.locked_bytes, 2 * SLOT);
    rg_slab_detach(slab);
    rg_rail_close(rail);
    rg_slab_close(slab);
    assert_int_equal(mock.regions, 0);
}

static void computes_locked_memory(void **state)
{
    struct rg_slab_config config = {.slot_bytes = 1 << 20, .slot_count = 3};
    assert_int_equal(rg_slab_locked_bytes(&config), 0);
    config.lock = true;
    assert_int_equal(rg_slab_locked_bytes(&config), 3 << 20);
    config.huge_pages = true;
    assert_int_equal(rg_slab_locked_bytes(&config), 4 << 20);
    assert_int_equal(rg_memlock_check(0, NULL), 0);
}

static void huge_pages_are_tried(void **state)
{
    struct rg_slab_config config = {.slot_bytes = 2 << 20, .slot_count = 2, .huge_pages = true};
    struct rg_slab *slab;
    assert_int_equal(rg_slab_open(&config, &slab, NULL), 0);
    struct rg_slot slot;
    size_t count;
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, NULL), 0);
    assert_int_equal((uintptr_t)slot.address % (2 << 20), 0);
    memset(slot.address, 1, slot.bytes);
    rg_slab_return(slab, &slot, 1);
    rg_slab_close(slab);
}

struct crowd {
    struct rg_slab *slab;
    atomic_int owners[4];
    atomic_bool trouble;
};

static void *run_crowd(void *argument)
{
    struct crowd *crowd = argument;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 400; i++) {
        struct rg_slot slots[4];
        size_t count;
        size_t want = 1 + (size_t)rand_r(&seed) % 4;
        if (rg_slab_lease(crowd->slab, 1, want, 10000, slots, &count, NULL) < 0) {
            crowd->trouble = true;
            return NULL;
        }
        for (size_t j = 0; j < count; j++) {
            if (crowd->owners[slots[j].index]++ != 0) {
                crowd->trouble = true;
            }
            memset(slots[j].address, i, 64);
        }
        for (size_t j = 0; j < count; j++) {
            crowd->owners[slots[j].index]--;
        }
        rg_slab_return(crowd->slab, slots, count);
    }
    return NULL;
}

static void crowd_shares_few_slots(void **state)
{
    struct crowd crowd = {.slab = open_slab(4)};
    pthread_t threads[12];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_crowd, &crowd), 0);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(crowd.trouble);
    struct rg_slab_state now;
    rg_slab_state(crowd.slab, &now);
    assert_int_equal(now.slots_in_use, 0);
    assert_int_equal(now.waiters, 0);
    assert_int_equal(now.leases, 12 * 400);
    rg_slab_close(crowd.slab);
}

static void count_wait(void *context, uint64_t wait_ns, bool granted)
{
    unsigned *seen = context;
    seen[granted]++;
}

static void observer_sees_every_wait(void **state)
{
    unsigned seen[2] = {0};
    struct rg_slab_config config = {
        .slot_bytes = SLOT, .slot_count = 1, .observe_wait = count_wait, .observe_context = seen};
    struct rg_slab *slab;
    struct rg_slot slot, other;
    size_t count;
    assert_int_equal(rg_slab_open(&config, &slab, NULL), 0);
    assert_int_equal(rg_slab_lease(slab, 1, 1, 0, &slot, &count, NULL), 0);
    assert_int_equal(rg_slab_lease(slab, 1, 1, 5, &other, &count, NULL), -RG_LIMIT);
    rg_slab_return(slab, &slot, 1);
    assert_int_equal(seen[true], 1);
    assert_int_equal(seen[false], 1);
    rg_slab_close(slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_sizes),       cmocka_unit_test(leases_and_returns),
        cmocka_unit_test(tells_what_it_holds),     cmocka_unit_test(wait_is_bounded),
        cmocka_unit_test(first_come_first_served), cmocka_unit_test(stop_wakes_all),
        cmocka_unit_test(condemned_slots_move),    cmocka_unit_test(pinned_slots_are_lost),
        cmocka_unit_test(computes_locked_memory),  cmocka_unit_test(huge_pages_are_tried),
        cmocka_unit_test(crowd_shares_few_slots),  cmocka_unit_test(observer_sees_every_wait),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
