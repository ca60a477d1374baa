#include "test.h"

#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "mock.h"
#include "rdma/pipeline.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOT      RG_SLOT_BYTES_MIN
#define WINDOW    (SLOT * 12)
#define HEAD_ROOM 64 /* guard bytes around the window */

/* What every test needs: a rail of four slots, a file and a peer's memory. */
struct bench {
    struct rg_slab *slab;
    struct rg_pool *pool;
    struct rg_lease lease;
    uint8_t *peer_memory;
    uint8_t *peer;
    struct rg_rdma_window window;
    char name[32];
    int fd;
    struct rg_transfer transfer;
    struct rg_transfer_report report;
    struct rg_error err;
};

static uint8_t pattern(uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 13) * 5 + 1);
}

static void open_bench(struct bench *bench, bool allow_uring, size_t slots)
{
    *bench = (struct bench){.fd = -1};
    struct rg_slab_config slab_config = {.slot_bytes = SLOT, .slot_count = slots};
    struct rg_pool_config pool_config = RG_POOL_CONFIG_INIT;
    assert_int_equal(rg_slab_open(&slab_config, &bench->slab, NULL), 0);
    pool_config.transport = &mock_transport;
    pool_config.slab = bench->slab;
    pool_config.lanes_max = 1;
    pool_config.allow_uring = allow_uring;
    assert_int_equal(rg_pool_open(&pool_config, &bench->pool, NULL), 0);
    assert_int_equal(rg_pool_lease(bench->pool, 0, &bench->lease, NULL), 0);
    bench->peer_memory = calloc(1, WINDOW + 2 * HEAD_ROOM);
    bench->peer = bench->peer_memory + HEAD_ROOM;
    bench->window = mock_window(bench->peer, WINDOW);
    strcpy(bench->name, "pipe-test-XXXXXX");
    bench->fd = mkstemp(bench->name);
    assert_true(bench->fd >= 0);
    unlink(bench->name);
    struct rg_transfer transfer = RG_TRANSFER_INIT;
    transfer.lane = bench->lease.lane;
    transfer.disk = bench->lease.disk;
    transfer.slab = bench->slab;
    transfer.window = &bench->window;
    transfer.file.fd = bench->fd;
    bench->transfer = transfer;
}

static void close_bench(struct bench *bench)
{
    struct rg_slab_state slab;
    rg_slab_state(bench->slab, &slab);
    assert_int_equal(slab.slots_in_use, 0);
    rg_pool_return(&bench->lease);
    rg_pool_close(bench->pool);
    rg_slab_close(bench->slab);
    free(bench->peer_memory);
    close(bench->fd);
    assert_int_equal(mock.rails_open, 0);
    assert_int_equal(mock.regions, 0);
}

static void fill_file(struct bench *bench, uint64_t offset, size_t length)
{
    rg_autofree uint8_t *bytes = malloc(length);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = pattern(i);
    }
    assert_int_equal(ftruncate(bench->fd, 0), 0);
    assert_int_equal(pwrite(bench->fd, bytes, length, (off_t)offset), length);
}

static void check_guards(const struct bench *bench)
{
    for (size_t i = 0; i < HEAD_ROOM; i++) {
        assert_int_equal(bench->peer_memory[i], 0);
        assert_int_equal(bench->peer[WINDOW + i], 0);
    }
}

static int get(struct bench *bench, size_t length)
{
    bench->transfer.length = length;
    rg_error_clear(&bench->err);
    return rg_pipeline_get(&bench->transfer, &bench->report, &bench->err);
}

static int put(struct bench *bench, size_t length)
{
    bench->transfer.length = length;
    rg_error_clear(&bench->err);
    return rg_pipeline_put(&bench->transfer, &bench->report, &bench->err);
}

struct sum {
    uint64_t bytes, calls;
    uint64_t mismatches;
    uint64_t fail_at; /* call */
};

static int check_order(void *context, struct span bytes, struct rg_error *err)
{
    struct sum *sum = context;
    for (size_t i = 0; i < bytes.len; i++) {
        sum->mismatches += (uint8_t)bytes.ptr[i] != pattern(sum->bytes + i);
    }
    sum->bytes += bytes.len;
    if (++sum->calls == sum->fail_at) {
        return rg_failf(err, RG_BAD_DIGEST, "told to fail");
    }
    return 0;
}

static const size_t lengths[] = {1,        2,        4095,         4096,         SLOT - 1,
                                 SLOT,     SLOT + 1, 2 * SLOT - 1, 2 * SLOT,     2 * SLOT + 1,
                                 4 * SLOT, 5 * SLOT, 5 * SLOT + 1, 9 * SLOT + 7, WINDOW};

static void moves(bool allow_uring, size_t slots, uint64_t file_offset)
{
    struct bench bench;
    open_bench(&bench, allow_uring, slots);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths); i++) {
        size_t length = lengths[i];
        struct sum sum = {0};
        bench.transfer.file_offset = file_offset;
        bench.transfer.consume = check_order;
        bench.transfer.consume_context = &sum;
        fill_file(&bench, file_offset, length);
        memset(bench.peer, 0, WINDOW);
        assert_int_equal(get(&bench, length), 0);
        assert_int_equal(bench.report.bytes, length);
        assert_int_equal(bench.err.code, RG_OK);
        assert_int_equal(sum.bytes, length);
        assert_int_equal(sum.mismatches, 0);
        assert_true(bench.report.touched);
        for (size_t j = 0; j < length; j++) {
            assert_int_equal(bench.peer[j], pattern(j));
        }
        if (length < WINDOW) {
            assert_int_equal(bench.peer[length], 0);
        }
        check_guards(&bench);

        sum = (struct sum){0};
        assert_int_equal(ftruncate(bench.fd, 0), 0);
        assert_int_equal(put(&bench, length), 0);
        assert_int_equal(bench.report.bytes, length);
        assert_int_equal(sum.bytes, length);
        assert_int_equal(sum.mismatches, 0);
        assert_int_equal(lseek(bench.fd, 0, SEEK_END), file_offset + length);
        rg_autofree uint8_t *back = malloc(length);
        assert_int_equal(pread(bench.fd, back, length, (off_t)file_offset), length);
        assert_memory_equal(back, bench.peer, length);
    }
    close_bench(&bench);
}

static void moves_every_length(void **state)
{
    mock_reset();
    moves(true, 4, 0);
    moves(false, 4, 0);
}

static void moves_with_one_slot(void **state)
{
    mock_reset();
    moves(true, 1, 0);
}

static void moves_at_an_offset(void **state)
{
    mock_reset();
    moves(true, 4, 1234567);
}

static void moves_out_of_order(void **state)
{
    mock_reset();
    mock.delay_us = 300;
    mock.reverse_order = true;
    moves(true, 4, 0);
}

static void moves_one_operation_at_a_time(void **state)
{
    mock_reset();
    mock.depth = 1;
    moves(true, 4, 0);
}

static void moves_when_posts_are_refused(void **state)
{
    mock_reset();
    mock.refuse_posts = 40;
    moves(true, 4, 0);
    assert_int_equal(mock.refuse_posts, 0);
}

static void moves_past_the_page_cache(void **state)
{
    mock_reset();
    static const uint64_t offsets[] = {0, 4096, 512, 4095, 123456};
    for (size_t k = 0; k < RG_ARRAY_LENGTH(offsets); k++) {
        struct bench bench;
        open_bench(&bench, true, 4);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", bench.fd);
        rg_autoclose int direct = open(path, O_RDWR | O_DIRECT);
        if (direct < 0) {
            close_bench(&bench);
            print_message("[  SKIPPED ] this file system has no O_DIRECT\n");
            skip();
        }
        bench.transfer.file.direct_fd = direct;
        bench.transfer.file.direct_align = 4096;
        bench.transfer.file_offset = offsets[k];
        for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths); i++) {
            size_t length = lengths[i];
            fill_file(&bench, offsets[k], length);
            memset(bench.peer, 0, WINDOW);
            assert_int_equal(get(&bench, length), 0);
            for (size_t j = 0; j < length; j++) {
                assert_int_equal(bench.peer[j], pattern(j));
            }
            check_guards(&bench);
            assert_int_equal(ftruncate(bench.fd, 0), 0);
            assert_int_equal(put(&bench, length), 0);
            assert_int_equal(lseek(bench.fd, 0, SEEK_END), offsets[k] + length);
            rg_autofree uint8_t *back = malloc(length);
            assert_int_equal(pread(bench.fd, back, length, (off_t)offsets[k]), length);
            assert_memory_equal(back, bench.peer, length);
        }
        close_bench(&bench);
    }
}

static void window_offset_counts(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    fill_file(&bench, 0, 3 * SLOT);
    bench.transfer.window_offset = 5 * SLOT + 3;
    assert_int_equal(get(&bench, 3 * SLOT), 0);
    assert_int_equal(bench.peer[5 * SLOT + 2], 0);
    assert_int_equal(bench.peer[5 * SLOT + 3], pattern(0));
    assert_int_equal(bench.peer[8 * SLOT + 2], pattern(3 * SLOT - 1));
    assert_int_equal(bench.peer[8 * SLOT + 3], 0);
    close_bench(&bench);
}

/* Whatever does not fit is refused before anything moves. */
static void refuses_what_does_not_fit(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    fill_file(&bench, 0, SLOT);
    assert_int_equal(get(&bench, WINDOW + 1), -RG_INVALID_REQUEST);
    assert_int_equal(get(&bench, 0), -RG_INVALID_REQUEST);
    bench.transfer.window_offset = WINDOW;
    assert_int_equal(put(&bench, 1), -RG_INVALID_REQUEST);
    bench.transfer.window_offset = UINT64_MAX;
    assert_int_equal(put(&bench, 2), -RG_INVALID_REQUEST);
    bench.transfer.window_offset = 0;
    bench.transfer.file_offset = INT64_MAX;
    assert_int_equal(get(&bench, 1), -RG_INVALID_REQUEST);
    bench.transfer.file_offset = 0;
    strcpy(bench.window.provider, "other");
    assert_int_equal(get(&bench, 1), -RG_RDMA_NOT_SUPPORTED);
    strcpy(bench.window.provider, "mock");
    bench.window.transport = RG_TRANSPORT_DC;
    assert_int_equal(get(&bench, 1), -RG_RDMA_NOT_SUPPORTED);
    assert_false(bench.report.touched);
    assert_int_equal(mock.posts, 0);
    close_bench(&bench);
}

static void full_slab_declines(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 1);
    struct rg_slot slot;
    size_t count;
    assert_int_equal(rg_slab_lease(bench.slab, 1, 1, 0, &slot, &count, NULL), 0);
    bench.transfer.queue_ms = 30;
    assert_int_equal(get(&bench, 1), -RG_LIMIT);
    assert_false(bench.report.touched);
    assert_true(bench.report.slot_wait_ns > 20000000);
    assert_int_equal(bench.report.quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
    rg_slab_return(bench.slab, &slot, 1);
    fill_file(&bench, 0, 1);
    assert_int_equal(get(&bench, 1), 0);
    close_bench(&bench);
}

static void short_file_is_a_failure(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    static const size_t present[] = {0, 1, SLOT - 1, SLOT, 3 * SLOT, 5 * SLOT - 1};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(present); i++) {
        fill_file(&bench, 0, present[i]);
        assert_int_equal(get(&bench, 5 * SLOT), -RG_STORAGE_FAULT);
        assert_non_null(strstr(bench.err.message, "ended early"));
        assert_true(bench.report.bytes < 5 * SLOT);
        assert_int_equal(bench.lease.lane->outstanding, 0);
    }
    close_bench(&bench);
}

static void full_file_system_fails(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    rg_autoclose int full = open("/dev/full", O_RDWR);
    bench.transfer.file.fd = full;
    assert_int_equal(put(&bench, 6 * SLOT), -RG_STORAGE_FULL);
    assert_int_equal(bench.report.bytes, 0);
    close_bench(&bench);
}

/* Each operation in turn fails, in both directions: an error, nothing left over, lane usable or
 * not. */
static void every_operation_fails_once(void **state)
{
    static const struct {
        enum rg_broke broke;
        enum rg_cause cause;
    } kinds[] = {{RG_BROKE_OPERATION, RG_CAUSE_REMOTE_ACCESS},
                 {RG_BROKE_CONNECTION, RG_CAUSE_PEER_GONE},
                 {RG_BROKE_DEVICE, RG_CAUSE_DEVICE_GONE}};
    for (size_t k = 0; k < RG_ARRAY_LENGTH(kinds); k++) {
        for (unsigned n = 1; n <= 6; n++) {
            for (int is_put = 0; is_put < 2; is_put++) {
                mock_reset();
                struct bench bench;
                open_bench(&bench, true, 4);
                fill_file(&bench, 0, 6 * SLOT);
                mock.delay_us = 100;
                mock.fail_operation = n;
                mock.fail_broke = kinds[k].broke;
                mock.fail_cause = kinds[k].cause;
                int rc = is_put ? put(&bench, 6 * SLOT) : get(&bench, 6 * SLOT);
                assert_int_equal(rc, -RG_RDMA_TRANSFER_FAILED);
                assert_int_equal(bench.report.broke, kinds[k].broke);
                assert_int_equal(bench.report.cause, kinds[k].cause);
                assert_non_null(strstr(bench.err.message, "mock failure"));
                assert_true(bench.report.touched);
                assert_true(bench.report.bytes < 6 * SLOT);
                assert_int_equal(bench.lease.lane->outstanding, 0);
                close_bench(&bench);
            }
        }
    }
}

static void every_post_fails_once(void **state)
{
    for (unsigned n = 1; n <= 6; n++) {
        for (int is_put = 0; is_put < 2; is_put++) {
            mock_reset();
            struct bench bench;
            open_bench(&bench, true, 4);
            fill_file(&bench, 0, 6 * SLOT);
            mock.fail_post = n;
            int rc = is_put ? put(&bench, 6 * SLOT) : get(&bench, 6 * SLOT);
            assert_int_equal(rc, -RG_RDMA_TRANSFER_FAILED);
            assert_int_equal(bench.report.touched, n > 1);
            assert_int_equal(bench.report.broke, RG_BROKE_CONNECTION);
            close_bench(&bench);
        }
    }
}

static void short_operation_is_a_failure(void **state)
{
    for (int is_put = 0; is_put < 2; is_put++) {
        mock_reset();
        struct bench bench;
        open_bench(&bench, true, 4);
        fill_file(&bench, 0, 6 * SLOT);
        mock.short_operation = 3;
        int rc = is_put ? put(&bench, 6 * SLOT) : get(&bench, 6 * SLOT);
        assert_int_equal(rc, -RG_RDMA_TRANSFER_FAILED);
        assert_int_equal(bench.report.cause, RG_CAUSE_SHORT);
        close_bench(&bench);
    }
}

static void budget_ends_a_stuck_transfer(void **state)
{
    for (int is_put = 0; is_put < 2; is_put++) {
        mock_reset();
        struct bench bench;
        open_bench(&bench, true, 4);
        fill_file(&bench, 0, 6 * SLOT);
        mock.stuck_after = 2;
        bench.transfer.budget_ms = 80;
        uint64_t start = rg_clock_ms();
        int rc = is_put ? put(&bench, 6 * SLOT) : get(&bench, 6 * SLOT);
        assert_int_equal(rc, -RG_TIMED_OUT);
        assert_in_range(rg_clock_ms() - start, 75, 2000);
        assert_int_equal(mock.flushes, 1);
        assert_int_equal(bench.report.quiet, RG_QUIET_LOCAL | RG_QUIET_REMOTE);
        struct rg_slab_state slab;
        rg_slab_state(bench.slab, &slab);
        assert_int_equal(slab.condemnations, 0);
        close_bench(&bench);
    }
}

static int hang_for_a_while(void *context, struct span bytes, struct rg_error *err)
{
    (void)context;
    (void)bytes;
    (void)err;
    usleep(1300000);
    return 0;
}

/* The thread was kept, by a file operation made at once or by the consumer, until long after the
 * time was over: what is on its way then is not helped on. */
static void nothing_moves_long_after_the_budget(void **state)
{
    struct bench bench;
    mock_reset();
    mock.delay_us = 1350000; /* due within the grace of a flush */
    open_bench(&bench, false, 4);
    fill_file(&bench, 0, SLOT);
    bench.transfer.budget_ms = 1000;
    bench.transfer.consume = hang_for_a_while;
    assert_int_equal(get(&bench, SLOT), -RG_TIMED_OUT);
    assert_int_equal(bench.report.cause, RG_CAUSE_TOO_SLOW);
    assert_true(bench.report.touched);
    for (size_t i = 0; i < SLOT; i++) {
        assert_int_equal(bench.peer[i], 0);
    }
    assert_int_equal(mock.flushes, 1);
    close_bench(&bench);
}

/* Slots that the network may still touch do not go back. */
static void unquiet_slots_are_condemned(void **state)
{
    for (int how = 0; how < 2; how++) {
        mock_reset();
        struct bench bench;
        open_bench(&bench, true, 4);
        fill_file(&bench, 0, 6 * SLOT);
        mock.stuck_after = 2;
        mock.flush_quiet = how == 0 ? RG_QUIET_REMOTE : RG_QUIET_LOCAL | RG_QUIET_REMOTE;
        mock.fail_flush = how == 1;
        bench.transfer.budget_ms = 50;
        assert_int_equal(get(&bench, 6 * SLOT), -RG_TIMED_OUT);
        assert_false(bench.report.quiet & RG_QUIET_LOCAL);
        struct rg_slab_state slab;
        rg_slab_state(bench.slab, &slab);
        assert_int_equal(slab.condemnations, 4);
        assert_int_equal(slab.slots_in_use, 0);
        mock.fail_flush = false;
        close_bench(&bench);
    }
}

static void *cancel_soon(void *argument)
{
    usleep(30000);
    atomic_store((atomic_bool *)argument, true);
    return NULL;
}

static void cancel_ends_a_transfer(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    atomic_bool cancel = false;
    mock.stuck = true;
    bench.transfer.cancel = &cancel;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
    assert_int_equal(put(&bench, 6 * SLOT), -RG_CANCELLED);
    pthread_join(thread, NULL);
    close_bench(&bench);
}

static void consumer_ends_a_transfer(void **state)
{
    for (uint64_t n = 1; n <= 6; n++) {
        for (int is_put = 0; is_put < 2; is_put++) {
            mock_reset();
            struct bench bench;
            open_bench(&bench, true, 4);
            struct sum sum = {.fail_at = n};
            fill_file(&bench, 0, 6 * SLOT);
            bench.transfer.consume = check_order;
            bench.transfer.consume_context = &sum;
            int rc = is_put ? put(&bench, 6 * SLOT) : get(&bench, 6 * SLOT);
            assert_int_equal(rc, -RG_BAD_DIGEST);
            assert_string_equal(bench.err.message, "told to fail");
            assert_int_equal(sum.calls, n);
            close_bench(&bench);
        }
    }
}

/* With a slow wire, pieces wait for each other, not for the disk: all slots are in flight at once.
 */
static void slots_are_in_flight_together(void **state)
{
    mock_reset();
    struct bench bench;
    open_bench(&bench, true, 4);
    mock.delay_us = 20000;
    fill_file(&bench, 0, 8 * SLOT);
    assert_int_equal(get(&bench, 8 * SLOT), 0);
    assert_int_equal(bench.report.slots, 4);
    uint64_t one_by_one_ns = 8ull * 20000000;
    assert_true(bench.report.wall_ns < one_by_one_ns * 3 / 4);
    assert_true(bench.report.wire_ns <= bench.report.wall_ns);
    assert_true(bench.report.disk_ns <= bench.report.wall_ns);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_every_length),
        cmocka_unit_test(moves_with_one_slot),
        cmocka_unit_test(moves_at_an_offset),
        cmocka_unit_test(moves_out_of_order),
        cmocka_unit_test(moves_one_operation_at_a_time),
        cmocka_unit_test(moves_when_posts_are_refused),
        cmocka_unit_test(moves_past_the_page_cache),
        cmocka_unit_test(window_offset_counts),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(full_slab_declines),
        cmocka_unit_test(short_file_is_a_failure),
        cmocka_unit_test(full_file_system_fails),
        cmocka_unit_test(every_operation_fails_once),
        cmocka_unit_test(every_post_fails_once),
        cmocka_unit_test(short_operation_is_a_failure),
        cmocka_unit_test(budget_ends_a_stuck_transfer),
        cmocka_unit_test(nothing_moves_long_after_the_budget),
        cmocka_unit_test(unquiet_slots_are_condemned),
        cmocka_unit_test(cancel_ends_a_transfer),
        cmocka_unit_test(consumer_ends_a_transfer),
        cmocka_unit_test(slots_are_in_flight_together),
    };
    return cmocka_run_group_tests_name("pipeline", tests, NULL, NULL);
}
