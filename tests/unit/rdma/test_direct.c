/* Descriptors around the page cache, and what happens where they are refused. */
#include "test.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/deposit.h"
#include "rdma/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM ((size_t)4 << 20)

static _Alignas(65536) uint8_t bytes[ROOM];
static _Alignas(65536) uint8_t back[ROOM];

static uint8_t pattern(uint64_t offset)
{
    return (uint8_t)(offset * 131 + (offset >> 12) * 7);
}

static int make_file(void)
{
    char name[] = "direct-test-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

static void fill(size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = pattern(i);
    }
}

static void expect_file(int fd, size_t length)
{
    assert_int_equal(lseek(fd, 0, SEEK_END), length);
    assert_int_equal(pread(fd, back, ROOM, 0), length);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(back[i], pattern(i));
    }
}

/* The build directory's file system usually knows O_DIRECT. */
static void open_or_skip(struct rg_file *file, bool is_write)
{
    if (!rg_direct_open(file, is_write)) {
        close(file->fd);
        print_message("[  SKIPPED ] no O_DIRECT here\n");
        skip();
    }
}

static void opens_a_second_descriptor(void **state)
{
    (void)state;
    struct rg_file file = {.fd = make_file(), .direct_fd = -1};
    open_or_skip(&file, true);
    assert_true(file.direct_fd >= 0 && file.direct_fd != file.fd);
    assert_true(fcntl(file.direct_fd, F_GETFL) & O_DIRECT);
    assert_true(fcntl(file.direct_fd, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(file.fd, F_GETFL) & O_DIRECT);
    assert_true(file.direct_align >= (uint32_t)sysconf(_SC_PAGESIZE));
    assert_true(file.direct_align <= RG_DIRECT_ALIGN_MAX);
    assert_int_equal(file.direct_align & (file.direct_align - 1), 0);
    int old = file.direct_fd;
    rg_direct_close(&file);
    assert_int_equal(file.direct_fd, -1);
    assert_int_equal(fcntl(old, F_GETFD), -1);
    rg_direct_close(&file); /* no harm */
    close(file.fd);
}

static void refused_is_no_error(void **state)
{
    (void)state;
    /* A file system without it, something that is no file, and a descriptor that is none. */
    struct rg_file file = {.fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC), .direct_fd = 7};
    assert_false(rg_direct_open(&file, false));
    assert_int_equal(file.direct_fd, -1);
    close(file.fd);
    file = (struct rg_file){.fd = -1, .direct_fd = 7};
    assert_false(rg_direct_open(&file, false));
    assert_int_equal(file.direct_fd, -1);
}

static int count_bytes(void *context, struct span piece, struct rg_error *err)
{
    (void)err;
    *(uint64_t *)context += piece.len;
    return 0;
}

/* Sizes with and without a tail: whole units around the page cache, the rest through it. */
static void deposits(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,       511,           4095,    4096,    4097,
                                   1 << 20, (1 << 20) + 1, 3 << 20, 3333333, ROOM};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(sizes); i++) {
        struct rg_file file = {.fd = make_file(), .direct_fd = -1};
        open_or_skip(&file, true);
        fill(sizes[i]);
        uint64_t seen = 0;
        struct rg_deposit deposit = {
            .bytes = rg_span((char *)bytes, sizes[i]),
            .file = file,
            .allow_uring = true,
            .consume = count_bytes,
            .consume_context = &seen,
        };
        struct rg_deposit_report report;
        assert_int_equal(rg_deposit_run(&deposit, &report, NULL), 0);
        assert_int_equal(report.direct_bytes, sizes[i] / file.direct_align * file.direct_align);
        assert_int_equal(seen, sizes[i]);
        expect_file(file.fd, sizes[i]);
        rg_direct_close(&file);
        close(file.fd);
    }
}

/* What the kernel refuses in the middle goes through the page cache, on the ring and without it:
 * offsets that this file system does not take, and a descriptor that takes nothing. */
static void refused_in_the_middle(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        struct rg_disk *disk;
        assert_int_equal(rg_disk_open(4, async, &disk, NULL), 0);
        struct rg_file file = {.fd = make_file(), .direct_fd = -1};
        open_or_skip(&file, true);
        file.direct_align = 1;
        fill(ROOM);
        static const size_t ends[] = {0, 100, 4099, 70001, 1 << 20};
        for (size_t i = 0; i + 1 < RG_ARRAY_LENGTH(ends); i++) {
            struct rg_disk_done done;
            rg_disk_write(disk, &file, ends[i], bytes + ends[i], ends[i + 1] - ends[i], i);
            rg_disk_submit(disk);
            while (rg_disk_reap(disk, &done, 1) == 0) {
                rg_disk_wait(disk, 1000);
            }
            assert_int_equal(done.os_errno, 0);
            assert_int_equal(done.bytes, ends[i + 1] - ends[i]);
        }
        expect_file(file.fd, 1 << 20);
        memset(bytes, 0, ROOM);
        for (size_t i = 0; i + 1 < RG_ARRAY_LENGTH(ends); i++) {
            struct rg_disk_done done;
            size_t length = ends[i + 1] - ends[i];
            rg_disk_read(disk, &file, ends[i], bytes + ends[i], length, length, i);
            rg_disk_submit(disk);
            while (rg_disk_reap(disk, &done, 1) == 0) {
                rg_disk_wait(disk, 1000);
            }
            assert_int_equal(done.os_errno, 0);
            assert_int_equal(done.bytes, length);
        }
        for (size_t i = 0; i < 1 << 20; i++) {
            assert_int_equal(bytes[i], pattern(i));
        }
        assert_true(rg_disk_direct_bytes(disk) < 2u << 20);
        rg_direct_close(&file);
        close(file.fd);
        rg_disk_close(disk);
    }
}

/* Who reads through the page cache sees what was written around it, and the other way. */
static void both_ways_see_the_same(void **state)
{
    (void)state;
    struct rg_file file = {.fd = make_file(), .direct_fd = -1};
    open_or_skip(&file, true);
    memset(bytes, 1, ROOM);
    assert_int_equal(pwrite(file.fd, bytes, ROOM, 0), ROOM); /* dirty pages, not on the disk */
    assert_int_equal(pread(file.direct_fd, back, ROOM, 0), ROOM);
    assert_memory_equal(bytes, back, ROOM);
    memset(bytes, 2, ROOM);
    assert_int_equal(pwrite(file.direct_fd, bytes, ROOM, 0), ROOM); /* beneath cached pages */
    assert_int_equal(pread(file.fd, back, ROOM, 0), ROOM);
    assert_memory_equal(bytes, back, ROOM);
    rg_direct_close(&file);
    close(file.fd);
}

static void tells_what_is_cached(void **state)
{
    (void)state;
    struct rg_file file = {.fd = make_file(), .direct_fd = -1};
    open_or_skip(&file, false);
    fill(ROOM);
    assert_int_equal(pwrite(file.fd, bytes, ROOM, 0), ROOM);
    assert_true(rg_file_is_cached(file.fd, 0, ROOM));
    assert_true(rg_file_is_cached(file.fd, 12345, 1));
    assert_int_equal(fsync(file.fd), 0);
    assert_int_equal(posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    assert_int_equal(posix_fadvise(file.fd, 0, 0, POSIX_FADV_RANDOM), 0); /* no reading ahead */
    assert_false(rg_file_is_cached(file.fd, 0, ROOM));
    assert_false(rg_file_is_cached(file.fd, 12345, ROOM - 20000));
    assert_false(rg_file_is_cached(file.fd, 0, 1));
    /* To look brings nothing in; to read does. */
    assert_false(rg_file_is_cached(file.fd, 0, ROOM));
    assert_int_equal(pread(file.fd, bytes, ROOM / 4, 0), ROOM / 4);
    assert_true(rg_file_is_cached(file.fd, 0, ROOM / 4));
    assert_false(rg_file_is_cached(file.fd, 0, ROOM));
    /* What cannot be told. */
    assert_true(rg_file_is_cached(-1, 0, ROOM));
    rg_direct_close(&file);
    close(file.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_second_descriptor),
        cmocka_unit_test(refused_is_no_error),
        cmocka_unit_test(deposits),
        cmocka_unit_test(refused_in_the_middle),
        cmocka_unit_test(both_ways_see_the_same),
        cmocka_unit_test(tells_what_is_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
