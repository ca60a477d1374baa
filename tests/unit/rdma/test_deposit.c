/* Memory to file with a consumer beside: every size around the pieces, and everything that ends it
 * early. */
#include "test.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/deposit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE RG_DEPOSIT_PIECE_BYTES
#define MOST  (9 * PIECE)

static struct {
    char *bytes; /* MOST */
    int fd;
    struct rg_error err;
    struct rg_deposit_report report;
    /* The consumer */
    size_t seen, fail_at;
    bool differs;
    atomic_bool cancel;
    size_t cancel_at;
} world;

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.bytes = malloc(MOST);
    world.fd = memfd_create("object", MFD_CLOEXEC);
    assert_true(world.bytes && world.fd >= 0);
    world.fail_at = world.cancel_at = SIZE_MAX;
    for (size_t i = 0; i < MOST; i++) {
        world.bytes[i] = (char)(i * 131 + (i >> 12) * 7);
    }
    return 0;
}

static int end(void **state)
{
    close(world.fd);
    free(world.bytes);
    return 0;
}

static int see(void *context, struct span bytes, struct rg_error *err)
{
    world.differs = world.differs || bytes.ptr != world.bytes + world.seen;
    world.seen += bytes.len;
    if (world.seen >= world.cancel_at) {
        atomic_store(&world.cancel, true);
    }
    return world.seen >= world.fail_at ? rg_fail(err, RG_BAD_DIGEST) : 0;
}

static int run(size_t length, uint64_t offset, bool allow_uring)
{
    const struct rg_deposit deposit = {
        .bytes = rg_span(world.bytes, length),
        .file = {.fd = world.fd, .direct_fd = -1},
        .file_offset = offset,
        .allow_uring = allow_uring,
        .cancel = &world.cancel,
        .consume = see,
    };
    world.seen = 0;
    assert_int_equal(ftruncate(world.fd, 0), 0);
    return rg_deposit_run(&deposit, &world.report, &world.err);
}

static void expect_stored(size_t length, uint64_t offset)
{
    rg_autofree char *stored = malloc(length + 1);
    assert_int_equal(world.seen, length);
    assert_false(world.differs);
    assert_int_equal(lseek(world.fd, 0, SEEK_END), length ? offset + length : 0);
    assert_int_equal(pread(world.fd, stored, length, (off_t)offset), length);
    assert_memory_equal(stored, world.bytes, length);
}

static void stores_every_size(void **state)
{
    static const size_t sizes[] = {0,
                                   1,
                                   4095,
                                   4096,
                                   PIECE - 1,
                                   PIECE,
                                   PIECE + 1,
                                   2 * PIECE - 1,
                                   2 * PIECE,
                                   2 * PIECE + 1,
                                   RG_DEPOSIT_DEPTH * PIECE - 1,
                                   RG_DEPOSIT_DEPTH * PIECE,
                                   RG_DEPOSIT_DEPTH * PIECE + 1,
                                   MOST - 1,
                                   MOST};
    static const uint64_t offsets[] = {0, 1, 5000000};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(sizes); i++) {
        for (size_t j = 0; j < RG_ARRAY_LENGTH(offsets); j++) {
            for (int uring = 0; uring < 2; uring++) {
                if (run(sizes[i], offsets[j], uring) < 0) {
                    fail_msg("%zu at %" PRIu64 ": %s", sizes[i], offsets[j], world.err.message);
                }
                expect_stored(sizes[i], offsets[j]);
                assert_true(sizes[i] == 0 || world.report.disk_ns > 0);
            }
        }
    }
}

static void stores_without_a_consumer(void **state)
{
    const struct rg_deposit deposit = {
        .bytes = rg_span(world.bytes, MOST),
        .file = {.fd = world.fd, .direct_fd = -1},
        .allow_uring = true,
    };
    assert_int_equal(rg_deposit_run(&deposit, &world.report, &world.err), 0);
    world.seen = MOST;
    expect_stored(MOST, 0);
}

static void ends_when_the_consumer_says_so(void **state)
{
    for (int uring = 0; uring < 2; uring++) {
        world.fail_at = 3 * PIECE;
        assert_int_equal(run(MOST, 0, uring), -RG_BAD_DIGEST);
        assert_int_equal(world.seen, 3 * PIECE);
        world.fail_at = MOST; /* with the last piece: what is being written is waited for */
        assert_int_equal(run(MOST, 0, uring), -RG_BAD_DIGEST);
    }
}

static void ends_when_it_is_cancelled(void **state)
{
    world.cancel_at = 2 * PIECE;
    assert_int_equal(run(MOST, 0, true), -RG_CANCELLED);
    assert_int_equal(world.seen, 2 * PIECE);
    world.seen = 0;
    assert_int_equal(run(MOST, 0, true), -RG_CANCELLED); /* before it began */
    assert_int_equal(world.seen, 0);
}

static void tells_what_the_file_says(void **state)
{
    int fd = world.fd;
    for (int uring = 0; uring < 2; uring++) {
        struct rg_deposit deposit = {
            .bytes = rg_span(world.bytes, MOST),
            .file = {.fd = open("/dev/full", O_RDWR | O_CLOEXEC), .direct_fd = -1},
            .allow_uring = uring,
            .consume = see,
        };
        int rc = rg_deposit_run(&deposit, &world.report, &world.err);
        assert_true(rc < 0);
        assert_int_equal(world.err.os_errno, ENOSPC);
        close(deposit.file.fd);
        deposit.file.fd = -1;
        assert_int_equal(rg_deposit_run(&deposit, &world.report, &world.err), -RG_STORAGE_FAULT);
        deposit.file.fd = fd;
        deposit.file_offset = INT64_MAX - 100;
        assert_int_equal(rg_deposit_run(&deposit, &world.report, &world.err), -RG_INVALID_REQUEST);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stores_every_size),
        TEST(stores_without_a_consumer),
        TEST(ends_when_the_consumer_says_so),
        TEST(ends_when_it_is_cancelled),
        TEST(tells_what_the_file_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
