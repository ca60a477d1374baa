#include "test.h"

#include "base/attr.h"
#include "base/checked.h"
#include "rdma/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 20)

static uint8_t pattern(uint64_t offset)
{
    return (uint8_t)(offset * 131 + (offset >> 12) * 7);
}

/* A file in the build directory's file system, which usually knows O_DIRECT. */
static int make_file(size_t length, char *ret_name)
{
    strcpy(ret_name, "disk-test-XXXXXX");
    int fd = mkstemp(ret_name);
    assert_true(fd >= 0);
    rg_autofree uint8_t *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = pattern(i);
    }
    assert_int_equal(write(fd, bytes, length), length);
    return fd;
}

static void *memory(void)
{
    void *address = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(address, MAP_FAILED);
    return address;
}

static struct rg_disk_done finish_one(struct rg_disk *disk)
{
    struct rg_disk_done done;
    rg_disk_submit(disk);
    while (rg_disk_reap(disk, &done, 1) == 0) {
        rg_disk_wait(disk, 1000);
    }
    return done;
}

static struct rg_disk *open_disk(bool async)
{
    struct rg_disk *disk;
    assert_int_equal(rg_disk_open(8, async, &disk, NULL), 0);
    if (async && !rg_disk_is_async(disk)) {
        rg_disk_close(disk);
        print_message("[  SKIPPED ] no io_uring here\n");
        skip();
    }
    return disk;
}

static void reads(bool async, bool direct)
{
    char name[32];
    size_t length = 300000;
    rg_autoclose int fd = make_file(length, name);
    rg_autoclose int direct_fd = direct ? open(name, O_RDONLY | O_DIRECT) : -1;
    unlink(name);
    struct rg_disk *disk = open_disk(async);
    uint8_t *bytes = memory();
    static const struct {
        uint64_t offset;
        size_t length;
    } cases[] = {{0, 1},      {0, 300000}, {0, 4096},       {4096, 8192},    {4096, 8193},
                 {512, 1000}, {299999, 1}, {262144, 37856}, {12288, 262144}, {1, 299999}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        struct rg_file file = {.fd = fd, .direct_fd = direct_fd, .direct_align = 4096};
        memset(bytes, 0xee, ROOM);
        rg_disk_read(disk, &file, cases[i].offset, bytes, cases[i].length, ROOM, i);
        struct rg_disk_done done = finish_one(disk);
        assert_int_equal(done.cookie, i);
        assert_int_equal(done.os_errno, 0);
        assert_int_equal(done.bytes, cases[i].length);
        for (size_t j = 0; j < cases[i].length; j++) {
            assert_int_equal(bytes[j], pattern(cases[i].offset + j));
        }
    }
    /* Across and behind the end. */
    struct rg_file file = {.fd = fd, .direct_fd = direct_fd, .direct_align = 4096};
    rg_disk_read(disk, &file, 299008, bytes, 4096, ROOM, 1);
    struct rg_disk_done done = finish_one(disk);
    assert_int_equal(done.os_errno, 0);
    assert_int_equal(done.bytes, 992);
    rg_disk_read(disk, &file, 400000, bytes, 4096, ROOM, 2);
    assert_int_equal(finish_one(disk).bytes, 0);
    assert_int_equal(rg_disk_in_flight(disk), 0);
    munmap(bytes, ROOM);
    rg_disk_close(disk);
}

static void writes(bool async, bool direct)
{
    static const size_t lengths[] = {1, 511, 4096, 4097, 65536, 65537, 262144, 300001};
    struct rg_disk *disk = open_disk(async);
    uint8_t *bytes = memory();
    uint8_t *back = memory();
    for (size_t i = 0; i < ROOM; i++) {
        bytes[i] = pattern(i);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lengths); i++) {
        char name[32];
        rg_autoclose int fd = make_file(0, name);
        rg_autoclose int direct_fd = direct ? open(name, O_RDWR | O_DIRECT) : -1;
        unlink(name);
        struct rg_file file = {.fd = fd, .direct_fd = direct_fd, .direct_align = 4096};
        rg_disk_write(disk, &file, 0, bytes, lengths[i], 9);
        struct rg_disk_done done = finish_one(disk);
        assert_int_equal(done.os_errno, 0);
        assert_int_equal(done.bytes, lengths[i]);
        assert_int_equal(lseek(fd, 0, SEEK_END), lengths[i]);
        assert_int_equal(pread(fd, back, ROOM, 0), lengths[i]);
        assert_memory_equal(back, bytes, lengths[i]);
    }
    munmap(bytes, ROOM);
    munmap(back, ROOM);
    rg_disk_close(disk);
}

static bool has_direct(void)
{
    char name[32];
    rg_autoclose int fd = make_file(4096, name);
    rg_autoclose int direct_fd = open(name, O_RDONLY | O_DIRECT);
    unlink(name);
    return direct_fd >= 0;
}

static void reads_through_the_ring(void **state)
{
    reads(true, false);
}

static void reads_without_the_ring(void **state)
{
    reads(false, false);
}

static void reads_direct(void **state)
{
    if (!has_direct()) {
        print_message("[  SKIPPED ] this file system has no O_DIRECT\n");
        skip();
    }
    reads(false, true);
    reads(true, true);
}

static void writes_through_the_ring(void **state)
{
    writes(true, false);
}

static void writes_without_the_ring(void **state)
{
    writes(false, false);
}

static void writes_direct(void **state)
{
    if (!has_direct()) {
        print_message("[  SKIPPED ] this file system has no O_DIRECT\n");
        skip();
    }
    writes(false, true);
    writes(true, true);
}

static void reports_errors(void **state)
{
    uint8_t *bytes = memory();
    for (int async = 0; async < 2; async++) {
        struct rg_disk *disk;
        assert_int_equal(rg_disk_open(4, async, &disk, NULL), 0);
        struct rg_file file = {.fd = 9999, .direct_fd = -1};
        rg_disk_read(disk, &file, 0, bytes, 10, 10, 1);
        assert_int_equal(finish_one(disk).os_errno, EBADF);
        rg_autoclose int read_only = open("/proc/self/exe", O_RDONLY);
        file.fd = read_only;
        rg_disk_write(disk, &file, 0, bytes, 10, 2);
        assert_int_equal(finish_one(disk).os_errno, EBADF);
        rg_autoclose int full = open("/dev/full", O_RDWR);
        file.fd = full;
        rg_disk_write(disk, &file, 0, bytes, 10, 3);
        assert_int_equal(finish_one(disk).os_errno, ENOSPC);
        rg_disk_close(disk);
    }
    munmap(bytes, ROOM);
}

/* What the ring refuses is tried by pread; what that refuses too is an error, not a loop. */
static void refused_operations_end(void **state)
{
    rg_autoclose int fd = eventfd(1, 0);
    struct rg_disk *disk = open_disk(true);
    char bytes[4];
    struct rg_file file = {.fd = fd, .direct_fd = -1};
    rg_disk_read(disk, &file, 0, bytes, 4, 4, 1);
    assert_int_not_equal(finish_one(disk).os_errno, 0);
    assert_int_equal(rg_disk_fallbacks(disk), 1);
    rg_disk_close(disk);
}

/* A read that would wait for ever (an empty pipe) is cancelled. */
static void drain_cancels(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct rg_disk *disk = open_disk(true);
    char bytes[2][8];
    struct rg_file file = {.fd = fds[0], .direct_fd = -1};
    rg_disk_read(disk, &file, UINT64_MAX, bytes[0], 8, 8, 1);
    rg_disk_read(disk, &file, UINT64_MAX, bytes[1], 8, 8, 2);
    rg_disk_submit(disk);
    assert_int_equal(rg_disk_in_flight(disk), 2);
    rg_disk_drain(disk);
    assert_int_equal(rg_disk_in_flight(disk), 0);
    struct rg_disk_done done;
    assert_int_equal(rg_disk_reap(disk, &done, 1), 0);
    close(fds[0]);
    close(fds[1]);
    rg_disk_close(disk);
}

static void many_in_flight(void **state)
{
    char name[32];
    rg_autoclose int fd = make_file(1 << 18, name);
    unlink(name);
    struct rg_disk *disk = open_disk(true);
    uint8_t *bytes = memory();
    struct rg_file file = {.fd = fd, .direct_fd = -1};
    unsigned seen = 0;
    for (uint64_t i = 0; i < 8; i++) {
        rg_disk_read(disk, &file, i << 15, bytes + (i << 15), 1 << 15, 1 << 15, i);
    }
    rg_disk_submit(disk);
    while (rg_disk_in_flight(disk) > 0) {
        struct rg_disk_done done[3];
        size_t count = rg_disk_reap(disk, done, 3);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(done[i].bytes, 1 << 15);
            seen |= 1u << done[i].cookie;
        }
        if (count == 0) {
            rg_disk_wait(disk, 100);
        }
    }
    assert_int_equal(seen, 0xff);
    for (size_t i = 0; i < 1 << 18; i++) {
        assert_int_equal(bytes[i], pattern(i));
    }
    munmap(bytes, ROOM);
    rg_disk_close(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_through_the_ring),
        cmocka_unit_test(reads_without_the_ring),
        cmocka_unit_test(reads_direct),
        cmocka_unit_test(writes_through_the_ring),
        cmocka_unit_test(writes_without_the_ring),
        cmocka_unit_test(writes_direct),
        cmocka_unit_test(reports_errors),
        cmocka_unit_test(refused_operations_end),
        cmocka_unit_test(drain_cancels),
        cmocka_unit_test(many_in_flight),
    };
    return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
