/*
 * Every system call and every allocation of a change fails once, one after the other: the change
 * fails or succeeds as a whole, and leaves no descriptor, no memory and no file behind.
 *
 * The linker puts the functions below in the place of those of libc (--wrap).
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ROUNDS_MAX 2000

/* Counts down to the call that fails; 0: none does. */
static _Atomic int fuse;
static int fault_errno;
static const char *failed_call;
static const char *only_call; /* names; NULL: any may fail */
static bool fails_for_good;   /* also those after it */
static unsigned stop_after;   /* those are so many in all; 0: any number */
static const char *next_call; /* fails, too, after each call that failed */
static bool next_fails;

static bool blows(const char *call)
{
    int left = atomic_load(&fuse);
    if (next_fails && next_call && strcmp(next_call, call) == 0) {
        next_fails = false;
        errno = fault_errno;
        return true;
    }
    if (left == 0 || (only_call && !strstr(only_call, call))) {
        return false;
    }
    if (left == 1 && fails_for_good) {
        if (stop_after && --stop_after == 0) {
            atomic_store(&fuse, 0);
        }
        next_fails = next_call != NULL;
        errno = fault_errno;
        return true;
    }
    atomic_store(&fuse, left - 1);
    if (left > 1) {
        return false;
    }
    failed_call = call;
    errno = fault_errno;
    return true;
}

/* The names are those that the linker sees: _FILE_OFFSET_BITS=64 adds "64" to some. */
#define WRAP(type, name, parameters, arguments, failure)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return blows(#name) ? (failure) : __real_##name arguments;                                 \
    }

/*
 * An fsync that answers 0 although the journal died: counts down to the one that does. Then the
 * call named fails on what was synced.
 */
static unsigned lie_after;
static const char *lie_told_by;
static int lied_about = -1;

static bool tells(const char *call, int fd)
{
    if (fd != lied_about || !lie_told_by || strcmp(call, lie_told_by) != 0) {
        return false;
    }
    errno = EIO;
    return true;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    if (lie_after && --lie_after == 0) {
        lied_about = fd;
        return 0;
    }
    return blows("fsync") ? -1 : __real_fsync(fd);
}

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st)
{
    return tells("fstat64", fd) || blows("fstat64") ? -1 : __real_fstat64(fd, st);
}

int __real_fremovexattr(int fd, const char *name);
int __wrap_fremovexattr(int fd, const char *name);
int __wrap_fremovexattr(int fd, const char *name)
{
    return tells("fremovexattr", fd) || blows("fremovexattr") ? -1 : __real_fremovexattr(fd, name);
}

WRAP(int, fstatat64, (int fd, const char *name, struct stat *st, int flags), (fd, name, st, flags),
     -1)
WRAP(int, fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
     (fd, name, value, size, flags), -1)
WRAP(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t size),
     (fd, name, value, size), -1)
WRAP(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
     (path, name, value, size), -1)
WRAP(int, linkat, (int from, const char *old, int to, const char *name, int flags),
     (from, old, to, name, flags), -1)
WRAP(int, renameat, (int from, const char *old, int to, const char *name), (from, old, to, name),
     -1)
WRAP(int, renameat2, (int from, const char *old, int to, const char *name, unsigned flags),
     (from, old, to, name, flags), -1)
WRAP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags), -1)
WRAP(int, mkdirat, (int fd, const char *name, mode_t mode), (fd, name, mode), -1)
WRAP(int, faccessat, (int fd, const char *name, int mode, int flags), (fd, name, mode, flags), -1)
WRAP(int, futimens, (int fd, const struct timespec *times), (fd, times), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, ftruncate64, (int fd, off_t size), (fd, size), -1)
WRAP(ssize_t, pwrite64, (int fd, const void *bytes, size_t size, off_t offset),
     (fd, bytes, size, offset), -1)
WRAP(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size), -1)
static unsigned started; /* calls that begin the way of bytes to the disk */
int __real_sync_file_range(int fd, off_t offset, off_t size, unsigned flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t size, unsigned flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t size, unsigned flags)
{
    started++;
    return blows("sync_file_range") ? -1 : __real_sync_file_range(fd, offset, size, flags);
}

WRAP(ssize_t, pread64, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset),
     -1)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NULL)

int __real_posix_memalign(void **to, size_t alignment, size_t size);
int __wrap_posix_memalign(void **to, size_t alignment, size_t size);
int __wrap_posix_memalign(void **to, size_t alignment, size_t size)
{
    return blows("posix_memalign") ? ENOMEM : __real_posix_memalign(to, alignment, size);
}

/* With a mode as third argument, or none: passing it on does no harm. */
int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, mode_t mode);
int __wrap_openat64(int fd, const char *path, int flags, mode_t mode)
{
    return blows("openat64") ? -1 : __real_openat64(fd, path, flags, mode);
}

/* openat2, the only one called by number. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d);
long __wrap_syscall(long number, long a, long b, long c, long d)
{
    return blows("openat2") ? -1 : __real_syscall(number, a, b, c, d);
}

static size_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static char long_value[1501];

static int put_version(struct tree *tree, const char *key, const char *words)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    int left = atomic_exchange(&fuse, 0);
    meta_for(&meta, text(words));
    assert_int_equal(rg_meta_add_user(&meta, text("version"), text(words), &err), 0);
    assert_int_equal(rg_meta_add_user(&meta, text("long"), text(long_value), &err), 0);
    atomic_store(&fuse, left);
    return try_put(tree, key, text(words), &meta, NULL, &err);
}

/* 0, 1, or -1 for nothing; whole in any case. */
static int version_of(struct tree *tree, const char *key, const char *first, const char *second)
{
    RG_BUF(bytes, 1 << 20);
    struct rg_object_info info;
    struct rg_error err = RG_ERROR_INIT;
    int rc = try_get(tree, key, &bytes, &info, &err);
    if (rc == -RG_NO_SUCH_KEY) {
        return -1;
    }
    assert_int_equal(rc, 0);
    const char *words = rg_buf_text(&bytes);
    assert_true(strcmp(words, first) == 0 || strcmp(words, second) == 0);
    assert_false(info.is_foreign);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("version")), words);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), long_value);
    rg_object_info_free(&info);
    return strcmp(words, second) == 0;
}

struct scenario {
    const char *name;
    void (*prepare)(struct tree *tree);
    int (*act)(struct tree *tree);
    void (*check)(struct tree *tree, int rc);
};

static void run_scenario(struct tree *tree, const struct scenario *scenario, int os_errno)
{
    fault_errno = os_errno;
    int n = 0;
    bool failed = true;
    size_t refused = 0;
    while (failed) {
        assert_true(++n < ROUNDS_MAX);
        scenario->prepare(tree);
        size_t before = count_descriptors();
        failed_call = "nothing";
        atomic_store(&fuse, n);
        int rc = scenario->act(tree);
        failed = atomic_exchange(&fuse, 0) == 0;
        if (count_descriptors() != before) {
            fail_msg("%s: descriptors left after %s failed", scenario->name, failed_call);
        }
        assert_true(failed || rc == 0);
        refused += rc != 0;
        scenario->check(tree, rc);
    }
    print_message("%s: %d calls failed, %zu changes with them\n", scenario->name, n - 1, refused);
    assert_true(refused > 3);
}

/* ---- The changes ---- */

static void prepare_old(struct tree *tree)
{
    assert_int_equal(put_version(tree, "a/b", "old"), 0);
}

static int act_overwrite(struct tree *tree)
{
    return put_version(tree, "a/b", "new");
}

static void check_overwrite(struct tree *tree, int rc)
{
    int version = version_of(tree, "a/b", "old", "new");
    assert_true(version == 1 || (rc && version == 0));
}

static void prepare_nothing(struct tree *tree)
{
    assert_int_equal(try_delete(tree, "p/q/r", NULL), 0);
}

static int act_create(struct tree *tree)
{
    return put_version(tree, "p/q/r", "new");
}

static void check_create(struct tree *tree, int rc)
{
    int version = version_of(tree, "p/q/r", "new", "new");
    assert_true(version == 1 || (rc && version == -1));
}

static int act_delete(struct tree *tree)
{
    return try_delete(tree, "a/b", NULL);
}

static void check_delete(struct tree *tree, int rc)
{
    int version = version_of(tree, "a/b", "old", "old");
    assert_true(version == -1 || (rc && version == 1));
}

static int act_tag(struct tree *tree)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    int left = atomic_exchange(&fuse, 0);
    assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, text("t"), text("new"), NULL), 0);
    atomic_store(&fuse, left);
    int rc = rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), &tags, NULL);
    rg_pairs_free(&tags);
    return rc;
}

static void check_tag(struct tree *tree, int rc)
{
    assert_int_equal(version_of(tree, "a/b", "old", "old"), 1);
    struct rg_object_info info = info_of(tree, "a/b");
    const char *value = rg_pairs_find(&info.meta.tags, text("t"));
    assert_true(rc || (value && strcmp(value, "new") == 0));
    rg_object_info_free(&info);
}

static void prepare_no_directory(struct tree *tree)
{
    assert_int_equal(try_delete(tree, "d/e/", NULL), 0);
}

static int act_make_directory(struct tree *tree)
{
    return put_version(tree, "d/e/", "");
}

static void check_make_directory(struct tree *tree, int rc)
{
    int version = version_of(tree, "d/e/", "", "");
    assert_true(version == 1 || (rc && version == -1));
}

/* ---- An upload ---- */

#define KEY RG_SPAN_LITERAL("m/p")
static char upload_id[RG_UPLOAD_ID_LENGTH + 1];
static struct rg_part_info part_infos[2];
static const char *const part_words[] = {"one ", "two"};

static int send_part(struct tree *tree, uint32_t number)
{
    struct rg_writer *writer = NULL;
    struct rg_written written;
    const char *words = part_words[number - 1];
    int rc =
        rg_store_part_begin(tree->store, BUCKET, KEY, text(upload_id), number, -1, &writer, NULL);
    if (rc) {
        return rc;
    }
    rc = rg_store_writer_write(tree->store, writer, words, strlen(words), NULL);
    if (rc) {
        rg_store_writer_abort(tree->store, writer);
        return rc;
    }
    return rg_store_part_commit(tree->store, writer, &part_infos[number - 1], &written, NULL);
}

static int begin_upload(struct tree *tree)
{
    struct rg_meta meta = RG_META_INIT;
    return rg_store_upload_create(tree->store, BUCKET, KEY, &meta, RG_CHECKSUM_CRC64NVME,
                                  RG_CHECKSUM_FULL_OBJECT, upload_id, NULL);
}

static int complete_upload(struct tree *tree)
{
    struct rg_complete_part wanted[2] = {{.number = 1}, {.number = 2}};
    for (size_t i = 0; i < 2; i++) {
        memcpy(wanted[i].etag, part_infos[i].etag, sizeof wanted[i].etag);
    }
    struct rg_complete_request request = {
        .parts = wanted, .count = 2, .part_size_min = 1, .object_size_max = 1 << 20};
    struct rg_completed completed;
    return rg_store_upload_complete(tree->store, BUCKET, KEY, text(upload_id), &request, &completed,
                                    NULL);
}

static void prepare_upload(struct tree *tree)
{
    for (size_t i = 0; i < 2; i++) {
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, text(part_words[i]));
        memcpy(part_infos[i].etag, meta.etag, sizeof meta.etag);
        part_infos[i].checksum = meta.checksum;
    }
    put(tree, "m/p", "before");
    assert_int_equal(begin_upload(tree), 0);
    assert_int_equal(send_part(tree, 1), 0);
    assert_int_equal(send_part(tree, 2), 0);
}

static void check_complete(struct tree *tree, int rc)
{
    RG_BUF(bytes, 100);
    assert_int_equal(try_get(tree, "m/p", &bytes, NULL, NULL), 0);
    bool done = strcmp(rg_buf_text(&bytes), "one two") == 0;
    assert_true(done || (rc && strcmp(rg_buf_text(&bytes), "before") == 0));
    assert_int_equal(complete_upload(tree), 0);
    expect(tree, "m/p", "one two");
}

static int act_part(struct tree *tree)
{
    return send_part(tree, 2);
}

static void check_part(struct tree *tree, int rc)
{
    (void)rc;
    struct rg_part_page page;
    assert_int_equal(
        rg_store_part_list(tree->store, BUCKET, KEY, text(upload_id), 0, 9, &page, NULL), 0);
    assert_int_equal(page.count, 2);
    rg_part_page_free(&page);
    assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(upload_id), NULL), 0);
}

static void check_begin(struct tree *tree, int rc)
{
    if (rc == 0) {
        assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(upload_id), NULL), 0);
    }
}

static const struct scenario scenarios[] = {
    {"overwrite", prepare_old, act_overwrite, check_overwrite},
    {"create", prepare_nothing, act_create, check_create},
    {"delete", prepare_old, act_delete, check_delete},
    {"tags", prepare_old, act_tag, check_tag},
    {"make directory", prepare_no_directory, act_make_directory, check_make_directory},
    {"begin upload", prepare_nothing, begin_upload, check_begin},
    {"part", prepare_upload, act_part, check_part},
    {"complete", prepare_upload, complete_upload, check_complete},
};

static void check_all(const char *mask, int os_errno)
{
    memset(long_value, 'm', sizeof long_value - 1);
    struct tree tree;
    assert_true(tree_make(&tree, "memory", 0));
    tree_set(&tree, RG_SETTING_mask, mask);
    tree_set(&tree, RG_SETTING_temp_expiry, "1s");
    tree_open(&tree);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(scenarios); i++) {
        run_scenario(&tree, &scenarios[i], os_errno);
    }
    static const char *const keys[] = {"a/b", "p/q/r", "d/e/", "m/p"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(keys); i++) {
        assert_int_equal(try_delete(&tree, keys[i], NULL), 0);
    }
    /* Where even the cleaning up failed, the sweeper does it. */
    for (int i = 0; i < 2; i++) {
        sleep(2);
        assert_int_equal(tree_sweep(&tree, NULL), 0);
    }
    expect_no_leftovers(&tree, 0);
    tree_remove(&tree);
}

static void test_io_errors(void **state)
{
    check_all("", EIO);
}

static void test_io_errors_bare(void **state)
{
    check_all("o-tmpfile,rename-flags,dir-fsync,fine-times,fallocate,reflink,copy-range,big-xattr",
              EIO);
}

static void test_no_space(void **state)
{
    check_all("big-xattr", ENOSPC);
}

/* ---- An fsync that lies ---- */

/* One change, with a lie told by each fsync in turn. */
static void run_lies(struct tree *tree, const struct scenario *scenario, const char *told_by)
{
    bool lied = true;
    unsigned n = 0;
    while (lied) {
        assert_true(++n < ROUNDS_MAX);
        scenario->prepare(tree);
        size_t before = count_descriptors();
        lie_told_by = told_by;
        lie_after = n;
        int rc = scenario->act(tree);
        lied = lie_after == 0;
        lie_after = 0;
        lied_about = -1;
        assert_int_equal(count_descriptors(), before);
        /* What follows the sync of the deleted name removes empty directories: no promise. */
        bool promised = strcmp(scenario->name, "delete") != 0 || n == 1;
        if (lied && promised && rc == 0) {
            fail_msg("%s: acknowledged although %s failed after fsync %u", scenario->name, told_by,
                     n);
        }
        assert_true(lied || rc == 0);
        scenario->check(tree, rc);
    }
    assert_true(n > 1);
    print_message("%s: %u times fsync lied, told by %s\n", scenario->name, n - 1, told_by);
}

static void check_lies(const char *mask)
{
    memset(long_value, 'm', sizeof long_value - 1);
    struct tree tree;
    assert_true(tree_make(&tree, "memory", 0));
    tree_set(&tree, RG_SETTING_mask, mask);
    tree_open(&tree);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(scenarios); i++) {
        run_lies(&tree, &scenarios[i], "fstat64");
        run_lies(&tree, &scenarios[i], "fremovexattr");
    }
    tree_remove(&tree);
}

static void test_lying_fsync(void **state)
{
    check_lies("");
}

static void test_lying_fsync_of_files(void **state)
{
    check_lies("o-tmpfile,rename-flags,dir-fsync,big-xattr");
}

/* ---- What network file systems say of files that were replaced ---- */

static void arm(const char *call, int os_errno, int n, bool for_good)
{
    only_call = call;
    fault_errno = os_errno;
    fails_for_good = for_good;
    atomic_store(&fuse, n);
}

static bool disarm(void)
{
    bool was_hit = fails_for_good || atomic_load(&fuse) == 0;
    arm(NULL, 0, 0, false);
    return was_hit;
}

static void open_tree(struct tree *tree, const char *mask)
{
    assert_true(tree_make(tree, "memory", 0));
    tree_set(tree, RG_SETTING_mask, mask);
    tree_open(tree);
}

/* A read that an overwrite meets begins again, and finds what stands there now. */
static void test_stale_reads_are_repeated(void **state)
{
    static const struct {
        const char *call;
        int os_errno;
    } faults[] = {
        {"openat2", ESTALE}, {"fstat64", ESTALE}, {"fgetxattr", ESTALE}, {"fgetxattr", ENOENT}};
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    memset(long_value, 'm', sizeof long_value - 1);
    open_tree(&tree, "");
    prepare_old(&tree);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(faults); i++) {
        for (int n = 1; n <= 2; n++) {
            RG_BUF(bytes, 1000);
            arm(faults[i].call, faults[i].os_errno, n, false);
            int rc = try_get(&tree, "a/b", &bytes, NULL, &err);
            assert_true(disarm() || n > 1);
            assert_int_equal(rc, 0);
            assert_string_equal(rg_buf_text(&bytes), "old");
        }
        /* Not for ever. */
        size_t before = count_descriptors();
        arm(faults[i].call, faults[i].os_errno, 1, true);
        int rc = try_get(&tree, "a/b", NULL, NULL, &err);
        disarm();
        assert_int_equal(rc, -RG_SERVICE_UNAVAILABLE); /* and the bucket is still there */
        assert_true(count_descriptors() <= before);    /* a forgotten bucket is closed */
    }
    expect(&tree, "a/b", "old");
    tree_remove(&tree);
}

/* Everything of a bucket that was deleted meanwhile is stale: that is the bucket's fault. */
static void test_stale_buckets_are_gone(void **state)
{
    static const char *const calls[] = {"futimens", "fsetxattr", "fsync", "fstat64", "pwrite64"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(calls); i++) {
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        struct tree tree;
        struct rg_writer *writer = NULL;
        struct rg_written written;
        struct rg_error err = RG_ERROR_INIT;
        char command[PATH_MAX + 16];
        open_tree(&tree, i % 2 ? "o-tmpfile" : "");
        meta_for(&meta, text("words"));
        assert_int_equal(rg_store_put_begin(tree.store, BUCKET, text("k"), -1, &writer, &err), 0);
        snprintf(command, sizeof command, "rm -rf '%s'", path_of(&tree, ""));
        assert_int_equal(system(command), 0);
        arm(calls[i], ESTALE, 1, true);
        int rc = rg_store_writer_write(tree.store, writer, "words", 5, &err);
        if (rc == 0) {
            rc = rg_store_put_commit(tree.store, writer, &meta, NULL, &written, &err);
        } else {
            rg_store_writer_abort(tree.store, writer);
        }
        disarm();
        assert_int_equal(rc, -RG_NO_SUCH_BUCKET);
        assert_int_equal(err.code, RG_NO_SUCH_BUCKET);
        tree_remove(&tree);
    }
}

/* Where the root is stale, too, nothing is known of the bucket. */
static void test_a_stale_root_ends_no_bucket(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    open_tree(&tree, "");
    for (int n = 1; n <= 12; n++) {
        prepare_old(&tree);
        arm("fstat64 fstatat64", ESTALE, n, true);
        int rc = try_delete(&tree, "a/b", &err);
        disarm();
        assert_true(rc == 0 || rc == -RG_SERVICE_UNAVAILABLE || rc == -RG_SLOW_DOWN);
    }
    tree_remove(&tree);
}

/* A bucket that is still there is not blamed. */
static void test_stale_storage_is_unavailable(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    open_tree(&tree, "");
    arm("futimens", ESTALE, 1, true);
    int rc = try_put(&tree, "k", text("words"), NULL, NULL, &err);
    disarm();
    assert_int_equal(rc, -RG_SERVICE_UNAVAILABLE);
    expect_absent(&tree, "k");
    /* Whichever fstat says so, once or from then on. */
    for (int n = 1; n < 40; n++) {
        for (int for_good = 0; for_good <= 1; for_good++) {
            arm("fstat64", ESTALE, n, for_good);
            rc = try_put(&tree, "deep/er/k", text("words"), NULL, NULL, &err);
            disarm();
            assert_true(rc == 0 || rc == -RG_SERVICE_UNAVAILABLE || rc == -RG_SLOW_DOWN);
            assert_int_equal(try_delete(&tree, "deep/er/k", &err), 0);
        }
    }
    tree_remove(&tree);
}

/* Nor is an upload, for one answer that is not about it. */
static void test_a_stale_answer_ends_no_upload(void **state)
{
    struct tree tree;
    open_tree(&tree, "");
    prepare_upload(&tree);
    arm("faccessat", ESTALE, 1, false);
    assert_int_equal(send_part(&tree, 2), 0);
    assert_true(disarm());
    arm("faccessat", ESTALE, 1, true);
    assert_int_equal(send_part(&tree, 2), -RG_SERVICE_UNAVAILABLE);
    disarm();
    /* The directory, too. */
    arm("faccessat", ESTALE, 1, true);
    next_call = "fstat64";
    stop_after = 2;
    assert_int_equal(send_part(&tree, 2), 0);
    assert_true(stop_after == 0 && !next_fails);
    next_call = NULL;
    disarm();
    assert_int_equal(complete_upload(&tree), 0);
    expect(&tree, "m/p", "one two");
    assert_int_equal(send_part(&tree, 2), -RG_NO_SUCH_UPLOAD);
    tree_remove(&tree);
}

/* ---- The way to the disk is begun before the end ---- */

static char large[5 << 20];

static int put_large(struct tree *tree, const char *key)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    started = 0;
    meta_for(&meta, rg_span(large, sizeof large));
    return try_put(tree, key, rg_span(large, sizeof large), &meta, NULL, &err);
}

static void test_bytes_are_started(void **state)
{
    static const struct {
        int os_errno;
        int rc;
    } faults[] = {{EIO, -RG_STORAGE_FAULT},
                  {ENOSPC, -RG_STORAGE_FULL},
                  {EDQUOT, -RG_QUOTA_EXCEEDED},
                  {ENOSYS, 0},
                  {EINVAL, 0},
                  {EPERM, 0}};
    struct tree tree;
    open_tree(&tree, "");
    assert_int_equal(put_large(&tree, "k"), 0);
    assert_true(started >= 1);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(faults); i++) {
        arm("sync_file_range", faults[i].os_errno, 1, true);
        int rc = put_large(&tree, "failed");
        disarm();
        assert_int_equal(rc, faults[i].rc);
        if (rc) {
            expect_absent(&tree, "failed");
        }
    }
    tree.settings.durability = RG_DURABILITY_NONE;
    assert_int_equal(put_large(&tree, "k"), 0);
    assert_int_equal(started, 0);
    tree_remove(&tree);
}

/* Those that go by the descriptor, too. */
static void test_passed_bytes_are_started(void **state)
{
    struct tree tree;
    struct rg_writer *writer = NULL;
    struct rg_error err = RG_ERROR_INIT;
    open_tree(&tree, "");
    assert_int_equal(rg_store_put_begin(tree.store, BUCKET, text("k"), -1, &writer, &err), 0);
    started = 0;
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 100, &err), 0);
    assert_int_equal(started, 0); /* too few */
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 2 << 20, &err), 0);
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 3 << 20, &err), 0);
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 4 << 20, &err), 0);
    assert_int_equal(started, 2);
    arm("sync_file_range", EIO, 1, true);
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 6 << 20, &err), -RG_STORAGE_FAULT);
    disarm();
    assert_true(rg_store_writer_written(tree.store, writer, 6 << 20, &err) < 0);
    rg_store_writer_abort(tree.store, writer);
    assert_int_equal(rg_store_put_begin(tree.store, BUCKET, text("d/"), 0, &writer, &err), 0);
    assert_int_equal(rg_store_writer_passed(tree.store, writer, 8 << 20, &err), 0);
    assert_int_equal(started, 3); /* a directory object has no file */
    rg_store_writer_abort(tree.store, writer);
    tree_remove(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_started),
        cmocka_unit_test(test_passed_bytes_are_started),
        cmocka_unit_test(test_io_errors),
        cmocka_unit_test(test_io_errors_bare),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_lying_fsync),
        cmocka_unit_test(test_lying_fsync_of_files),
        cmocka_unit_test(test_stale_reads_are_repeated),
        cmocka_unit_test(test_stale_buckets_are_gone),
        cmocka_unit_test(test_stale_storage_is_unavailable),
        cmocka_unit_test(test_a_stale_root_ends_no_bucket),
        cmocka_unit_test(test_a_stale_answer_ends_no_upload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
