/*
 * What depends on the mount: full file systems, mounts inside a bucket, mounts that are refused.
 * Needs root; where loop files cannot be mounted the tests are skipped.
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static unsigned table_reads;

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
    table_reads += strcmp(path, "/proc/self/mountinfo") == 0;
    return __real_fopen64(path, mode);
}

/* Called once, before a mark of a gateway is locked. */
static void (*before_mark)(void);

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    char link[32];
    char path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (before_mark && len > 6 && strcmp(path + len - 6, "/owner") == 0) {
        void (*call)(void) = before_mark;
        before_mark = NULL;
        call();
    }
    return __real_flock(fd, operation);
}

/* Called once, in the middle of the probes of a mount. */
static void (*in_probe)(void);

int __real_futimens(int fd, const struct timespec times[2]);
int __wrap_futimens(int fd, const struct timespec times[2]);
int __wrap_futimens(int fd, const struct timespec times[2])
{
    if (in_probe) {
        void (*call)(void) = in_probe;
        in_probe = NULL;
        call();
    }
    return __real_futimens(fd, times);
}

static int try_open(struct tree *tree, struct rg_error *err)
{
    rg_buf_clear(&tree->summary);
    return rg_store_posix_open(tree->root, &tree->settings, &tree->store, &tree->summary, err);
}

static void make_small(struct tree *tree, const char *mask)
{
    assert_true(tree_make(tree, "ext4", 16));
    tree_set(tree, RG_SETTING_mask, mask);
    tree_open(tree);
}

static uint64_t free_bytes(struct tree *tree)
{
    struct statvfs fs;
    assert_int_equal(statvfs(tree->root, &fs), 0);
    return (uint64_t)fs.f_bfree * fs.f_frsize; /* root may use what is reserved */
}

static void check_full(const char *mask)
{
    struct tree tree;
    make_small(&tree, mask);
    struct rg_error err = RG_ERROR_INIT;
    put(&tree, "old", "precious");
    size_t size = free_bytes(&tree) + (4 << 20);
    char *bytes = calloc(1, size);

    /* Said before: refused before a byte is sent (where space can be reserved), or when it is full.
     */
    assert_int_equal(try_put(&tree, "old", rg_span(bytes, size), NULL, NULL, &err),
                     -RG_STORAGE_FULL);
    expect(&tree, "old", "precious");
    /* Not said before: the write fails. */
    struct rg_writer *writer = NULL;
    int rc = rg_store_put_begin(tree.store, BUCKET, text("old"), -1, &writer, &err);
    if (rc) {
        fail_msg("%s", err.message);
    }
    for (size_t at = 0; rc == 0 && at < size; at += 1 << 20) {
        size_t len = size - at < 1 << 20 ? size - at : 1 << 20;
        rc = rg_store_writer_write(tree.store, writer, bytes + at, len, &err);
    }
    assert_int_equal(rc, -RG_STORAGE_FULL);
    /* A failed writer cannot be committed by mistake. */
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text(""));
    struct rg_written written;
    assert_int_not_equal(rg_store_put_commit(tree.store, writer, &meta, NULL, &written, &err), 0);
    expect(&tree, "old", "precious");
    expect_no_leftovers(&tree, 0);
    assert_true(free_bytes(&tree) > 4 << 20); /* all of it was given back */

    /* Nearly full: metadata that needs a sidecar, uploads, and what frees space again. */
    size_t fillers = 0;
    for (size_t fill = 1 << 20; fill >= 32768; fill /= 2) {
        do {
            char key[32];
            snprintf(key, sizeof key, "filler/%zu", fillers++);
            rc = try_put(&tree, key, rg_span(bytes, fill), NULL, NULL, &err);
            assert_true(rc == 0 || rc == -RG_STORAGE_FULL);
        } while (rc == 0);
    }
    char id[RG_UPLOAD_ID_LENGTH + 1];
    int results[60] = {0};
    for (int i = 0; i < 60; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%d", i);
        char value[1501];
        memset(value, 'm', 1500);
        value[1500] = '\0';
        rg_meta_free(&meta);
        meta_for(&meta, text(key));
        assert_int_equal(rg_meta_add_user(&meta, text("long"), text(value), &err), 0);
        results[i] = try_put(&tree, key, text(key), &meta, NULL, &err);
        if (results[i]) {
            assert_int_equal(results[i], -RG_STORAGE_FULL);
            expect_absent(&tree, key);
        } else {
            expect(&tree, key, key);
        }
    }
    assert_int_equal(results[59], -RG_STORAGE_FULL);
    rc = rg_store_upload_create(tree.store, BUCKET, text("m"), &meta, RG_CHECKSUM_NONE,
                                RG_CHECKSUM_FULL_OBJECT, id, &err);
    assert_true(rc == 0 || rc == -RG_STORAGE_FULL);
    for (int i = 0; i < 60; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(try_delete(&tree, key, &err), 0);
    }
    for (size_t i = 0; i < fillers; i++) {
        char key[32];
        snprintf(key, sizeof key, "filler/%zu", i);
        assert_int_equal(try_delete(&tree, key, &err), 0);
    }
    put(&tree, "old", "and again");
    expect(&tree, "old", "and again");
    assert_int_equal(count_entries(&tree, ".railgate/tmp"), 0);
    assert_int_equal(count_entries(&tree, ".railgate/sidecar"), 0);
    free(bytes);
    tree_remove(&tree);
}

static void test_a_full_file_system(void **state)
{
    check_full("");
}

static void test_a_full_file_system_without_anything(void **state)
{
    check_full("o-tmpfile,rename-flags,fallocate,reflink,copy-range,big-xattr");
}

static void test_free_space_is_kept(void **state)
{
    struct tree tree;
    make_small(&tree, "");
    struct rg_error err = RG_ERROR_INIT;
    tree_close(&tree);
    char least[32];
    snprintf(least, sizeof least, "%llu", (unsigned long long)free_bytes(&tree) - (3 << 20));
    tree_set(&tree, RG_SETTING_free_space_min, least);
    tree_open(&tree);
    char *bytes = calloc(1, 3 << 20);
    assert_int_equal(try_put(&tree, "a", rg_span(bytes, 3 << 20), NULL, NULL, &err),
                     -RG_STORAGE_FULL);
    assert_non_null(strstr(err.message, "free-space-min"));
    assert_int_equal(try_put(&tree, "a", rg_span(bytes, 1 << 20), NULL, NULL, &err), 0);
    free(bytes);
    tree_remove(&tree);
}

/* Another mount below a bucket: its files are made there, and swept there. */
static void check_mount_inside(const char *mask)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    assert_true(tree_make(&tree, "local", 0));
    tree_set(&tree, RG_SETTING_mask, mask);
    tree_set(&tree, RG_SETTING_temp_expiry, "1s");
    tree_open(&tree);
    put(&tree, "near", "near");
    assert_int_equal(mkdir(path_of(&tree, "mnt"), 0755), 0);
    char command[5000];
    snprintf(command, sizeof command,
             "truncate -s 320M %s/image2 && mkfs.xfs -q %s/image2 && mount -o loop %s/image2 %s",
             tree.base, tree.base, tree.base, path_of(&tree, "mnt"));
    assert_int_equal(system(command), 0);

    /* The table of mounts may hang with a file system that has nothing to do with this. */
    table_reads = 0;
    put(&tree, "mnt/a/b", "far");
    assert_int_equal(table_reads, 0);
    put(&tree, "mnt/a/b", "far, again");
    expect(&tree, "mnt/a/b", "far, again");
    struct rg_object_info info = info_of(&tree, "mnt/a/b");
    assert_false(info.is_foreign);
    rg_object_info_free(&info);
    put(&tree, "mnt/d/", "");
    expect(&tree, "mnt/d/", "");
    put(&tree, "near", "near, again");
    assert_int_equal(rg_store_object_tags_set(tree.store, BUCKET, text("mnt/a/b"), NULL, &err), 0);

    struct rg_object *source = NULL;
    struct rg_written written;
    assert_int_equal(rg_store_object_open(tree.store, BUCKET, text("near"), &source, &err), 0);
    assert_int_equal(rg_store_object_copy(tree.store, source, BUCKET, text("mnt/copy"),
                                          &rg_store_object_info(tree.store, source)->meta, NULL,
                                          &written, &err),
                     0);
    rg_store_object_close(tree.store, source);
    expect(&tree, "mnt/copy", "near, again");

    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    assert_int_equal(rg_store_upload_create(tree.store, BUCKET, text("mnt/m"), &meta,
                                            RG_CHECKSUM_NONE, RG_CHECKSUM_FULL_OBJECT, id, &err),
                     0);
    struct rg_writer *writer = NULL;
    struct rg_part_info part = {.number = 1};
    meta_for(&meta, text("part"));
    memcpy(part.etag, meta.etag, sizeof part.etag);
    assert_int_equal(
        rg_store_part_begin(tree.store, BUCKET, text("mnt/m"), text(id), 1, -1, &writer, &err), 0);
    assert_int_equal(rg_store_writer_write(tree.store, writer, "part", 4, &err), 0);
    assert_int_equal(rg_store_part_commit(tree.store, writer, &part, &written, &err), 0);
    struct rg_complete_part wanted = {.number = 1};
    memcpy(wanted.etag, meta.etag, sizeof meta.etag);
    struct rg_complete_request request = {.parts = &wanted, .count = 1, .object_size_max = 1000};
    struct rg_completed completed;
    assert_int_equal(rg_store_upload_complete(tree.store, BUCKET, text("mnt/m"), text(id), &request,
                                              &completed, &err),
                     0);
    assert_int_equal(completed.written.copy, RG_COPY_USED_PLAIN);
    expect(&tree, "mnt/m", "part");

    assert_int_equal(try_delete(&tree, "mnt/a/b", &err), 0);
    assert_false(path_exists(&tree, "mnt/a"));
    expect_no_leftovers(&tree, 0);
    if (mask[0]) {
        assert_true(count_entries(&tree, ".railgate/strays") > 0);
        write_file(&tree, "mnt/.railgate-tmp-left", "by a crash");
        sleep(2);
        assert_int_equal(tree_sweep(&tree, &err), 0);
        assert_false(path_exists(&tree, "mnt/.railgate-tmp-left"));
    }
    umount2(path_of(&tree, "mnt"), MNT_DETACH);
    tree_remove(&tree);
}

static void test_a_mount_inside_a_bucket(void **state)
{
    check_mount_inside("");
}

static void test_a_mount_inside_a_bucket_with_named_files(void **state)
{
    check_mount_inside("o-tmpfile,rename-flags");
}

/* Quota projects: rename into a directory of another project is refused by the kernel. */
static void check_projects(const char *mask)
{
    struct tree tree;
    assert_true(tree_make(&tree, "xfs", 320));
    tree_set(&tree, RG_SETTING_mask, mask);
    tree_open(&tree);
    put(&tree, "p/a", "one");
    char command[5000];
    snprintf(command, sizeof command,
             "xfs_io -c 'chproj 42' -c 'chattr +P' %s && xfs_io -c 'chproj 42' %s",
             path_of(&tree, "p"), path_of(&tree, "p/a"));
    tree_close(&tree);
    assert_int_equal(system(command), 0);
    tree_open(&tree);
    put(&tree, "p/a", "two");
    put(&tree, "p/b", "three");
    put(&tree, "p/q/c", "four");
    put(&tree, "p/b", "five");
    expect(&tree, "p/a", "two");
    expect(&tree, "p/b", "five");
    expect(&tree, "p/q/c", "four");
    expect_no_leftovers(&tree, 0);
    tree_remove(&tree);
}

static void test_quota_projects(void **state)
{
    check_projects("");
    check_projects("o-tmpfile,rename-flags");
}

static void test_refused_mounts(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    assert_true(tree_make(&tree, "local", 0));
    tree_set(&tree, RG_SETTING_mask, "o-tmpfile,nonsense");
    assert_int_equal(try_open(&tree, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, "nonsense"));
    tree_set(&tree, RG_SETTING_mask, "");

    /* proc keeps no xattrs, and nothing else either. */
    char *root = tree.root;
    tree.root = strdup("/proc/self");
    assert_int_not_equal(try_open(&tree, &err), 0);
    free(tree.root);
    tree.root = strdup("/nowhere/at/all");
    assert_int_not_equal(try_open(&tree, &err), 0);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    free(tree.root);
    tree.root = root;
    tree_remove(&tree);

    /* ramfs keeps files, but no user xattrs. */
    assert_true(tree_make(&tree, "local", 0));
    if (mount("none", tree.root, "ramfs", 0, NULL) == 0) {
        tree.mounted = true;
        assert_int_equal(try_open(&tree, &err), -RG_STORAGE_UNSUPPORTED);
        assert_non_null(strstr(err.message, "user xattrs"));
        assert_non_null(strstr(err.message, "ramfs"));
    }
    tree_remove(&tree);

    assert_true(tree_make(&tree, "ext4", 16));
    assert_int_equal(mount(NULL, tree.root, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(try_open(&tree, &err), -RG_READ_ONLY);
    tree_remove(&tree);
}

/* Without shared locks a tree has one gateway, and a mark that a crash leaves is no obstacle on the
 * machine that left it. */
static void test_one_gateway_without_locks(void **state)
{
    struct tree tree;
    struct tree second;
    struct rg_error err = RG_ERROR_INIT;
    assert_true(tree_make(&tree, "local", 0));
    tree_set(&tree, RG_SETTING_mask, "locks");
    tree_open(&tree);
    second = tree;
    second.store = NULL;
    assert_int_equal(try_open(&second, &err), -RG_STORAGE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "owner"));
    tree_close(&tree);
    assert_false(path_exists(&tree, "../.railgate/owner"));
    tree_open(&tree);
    /* As after a crash here. */
    char mark[600];
    int fd = open(path_of(&tree, "../.railgate/owner"), O_RDONLY);
    ssize_t len = read(fd, mark, sizeof mark - 1);
    assert_true(len > 0);
    mark[len] = '\0';
    close(fd);
    tree_close(&tree);
    write_file(&tree, "../.railgate/owner", mark);
    tree_open(&tree);
    tree_close(&tree);
    write_file(&tree, "../.railgate/owner", "0123456789abcdef elsewhere\n");
    assert_int_equal(try_open(&tree, &err), -RG_STORAGE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "elsewhere"));
    assert_true(path_exists(&tree, "../.railgate/owner"));
    tree_remove(&tree);
}

static struct tree going;
static struct tree coming;

static void stop_gateway(void)
{
    tree_close(&going);
}

static void replace_gateway(void)
{
    tree_close(&going);
    tree_open(&coming);
}

/* A gateway that has the mark of one open that stops is not alone if another comes meanwhile. */
static void test_one_gateway_while_another_stops(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_true(tree_make(&going, "local", 0));
    tree_set(&going, RG_SETTING_mask, "locks");
    tree_open(&going);
    struct tree third = going;
    coming = going;
    third.store = coming.store = NULL;
    before_mark = replace_gateway;
    assert_int_equal(try_open(&third, &err), -RG_STORAGE_UNSUPPORTED);
    assert_null(before_mark);
    assert_true(path_exists(&coming, "../.railgate/owner"));
    tree_close(&coming);
    /* And if none does it goes on. */
    tree_open(&going);
    before_mark = stop_gateway;
    assert_int_equal(try_open(&third, &err), 0);
    assert_true(path_exists(&third, "../.railgate/owner"));
    tree_close(&third);
    tree_remove(&going);
}

static void sweep_late(void)
{
    struct rg_error err = RG_ERROR_INIT;
    sleep(2); /* longer than temp-expiry */
    assert_int_equal(rg_store_sweep(going.store, RG_SPAN_EMPTY, &err), 0);
}

/* A start that takes longer than temp-expiry finds the same as any, although another gateway
 * sweeps. */
static void test_a_slow_start_beside_a_sweeper(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_counters counters;
    assert_true(tree_make(&going, "local", 0));
    tree_set(&going, RG_SETTING_temp_expiry, "1s");
    tree_open(&going);
    char before[4096];
    snprintf(before, sizeof before, "%s", rg_buf_text(&going.summary));
    coming = going;
    coming.store = NULL;
    in_probe = sweep_late;
    assert_int_equal(try_open(&coming, &err), 0);
    assert_null(in_probe);
    assert_string_equal(rg_buf_text(&coming.summary), before);
    tree_close(&coming);
    rg_store_counters(going.store, &counters);
    assert_int_equal(counters.swept_temporaries, 0);
    tree_remove(&going);
}

static void test_direct_io(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    assert_true(tree_make(&tree, "xfs", 320));
    tree_set(&tree, RG_SETTING_direct_io_min, "1M");
    tree_open(&tree);
    assert_true(rg_posix_of(tree.store)->root_mount->direct_io);
    const size_t size = (5 << 20) + 12345;
    char *bytes = malloc(size + 2);
    for (size_t i = 0; i < size; i++) {
        bytes[i + 1] = (char)('a' + i * 2654435761u % 26);
    }
    bytes[size + 1] = '\0';
    static const size_t pieces[] = {1 << 20, 3 << 20, 70001, 8 << 20};
    for (size_t p = 0; p < RG_ARRAY_LENGTH(pieces); p++) {
        struct rg_writer *writer = NULL;
        assert_int_equal(
            rg_store_put_begin(tree.store, BUCKET, text("big"), (int64_t)size, &writer, &err), 0);
        for (size_t at = 0; at < size; at += pieces[p]) {
            size_t len = size - at < pieces[p] ? size - at : pieces[p];
            assert_int_equal(rg_store_writer_write(tree.store, writer, bytes + 1 + at, len, &err),
                             0);
        }
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        struct rg_written written;
        meta_for(&meta, rg_span(bytes + 1, size));
        assert_int_equal(rg_store_put_commit(tree.store, writer, &meta, NULL, &written, &err), 0);
        expect(&tree, "big", bytes + 1);
    }
    free(bytes);
    tree_remove(&tree);
}

/* Where a mount stands, among those that the store knows; -1: it is not one of them. */
static int64_t mount_id_of(struct tree *tree, const char *path, size_t *ret_count,
                           size_t *ret_left_out)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_mount *mounts = NULL;
    int64_t id = -1;
    assert_int_equal(rg_store_mounts(tree->store, &mounts, ret_count, ret_left_out, &err), 0);
    for (size_t i = 0; i < *ret_count; i++) {
        id = strcmp(mounts[i].path, path) == 0 ? (int64_t)mounts[i].id : id;
    }
    rg_store_mounts_free(mounts, *ret_count);
    return id;
}

static int64_t mount_id(struct tree *tree, const char *path, size_t *ret_count)
{
    size_t left_out;
    int64_t id = mount_id_of(tree, path, ret_count, &left_out);
    assert_int_equal(left_out, 0);
    return id;
}

static void mount_memory(const char *point)
{
    assert_int_equal(mount("none", point, "tmpfs", 0, NULL), 0);
}

static void test_mounts_below_the_root(void **state)
{
    struct tree tree;
    size_t count = 1;
    /* Where nobody else mounts meanwhile. */
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_true(tree_make(&tree, "local", 0));
    tree_open(&tree);
    assert_int_equal(mount_id(&tree, "bucket/a b\\c", &count), -1);
    assert_int_equal(count, 0);
    assert_false(rg_store_mounts_changed(tree.store));

    assert_int_equal(mkdir(path_of(&tree, "a b\\c"), 0755), 0);
    assert_int_equal(mkdir(path_of(&tree, "../other-bucket"), 0755), 0);
    assert_int_equal(mkdir(path_of(&tree, "../No_Bucket"), 0755), 0);
    mount_memory(path_of(&tree, "a b\\c"));
    mount_memory(path_of(&tree, "../other-bucket"));
    mount_memory(path_of(&tree, "../No_Bucket"));
    assert_true(rg_store_mounts_changed(tree.store));
    assert_false(rg_store_mounts_changed(tree.store));
    int64_t first = mount_id(&tree, "bucket/a b\\c", &count);
    assert_true(first >= 0);
    assert_true(mount_id(&tree, "other-bucket", &count) >= 0);
    assert_int_equal(count, 2);

    /* Another in its place is another. */
    mount_memory(path_of(&tree, "a b\\c"));
    assert_true(rg_store_mounts_changed(tree.store));
    assert_int_not_equal(mount_id(&tree, "bucket/a b\\c", &count), first);
    assert_int_equal(count, 2);
    assert_int_equal(umount(path_of(&tree, "a b\\c")), 0);
    assert_int_equal(mount_id(&tree, "bucket/a b\\c", &count), first);
    assert_int_equal(umount(path_of(&tree, "a b\\c")), 0);
    assert_int_equal(umount(path_of(&tree, "../other-bucket")), 0);
    assert_int_equal(umount(path_of(&tree, "../No_Bucket")), 0);
    assert_true(rg_store_mounts_changed(tree.store));
    assert_int_equal(mount_id(&tree, "other-bucket", &count), -1);
    assert_int_equal(count, 0);

    /* One cannot know all; how many are not known is. */
    char name[16];
    size_t left_out;
    for (unsigned i = 0; i < RG_STORE_MOUNTS_MAX + 3; i++) {
        snprintf(name, sizeof name, "m%u", i);
        assert_int_equal(mkdir(path_of(&tree, name), 0755), 0);
        mount_memory(path_of(&tree, name));
    }
    assert_true(mount_id_of(&tree, "bucket/m0", &count, &left_out) >= 0);
    assert_int_equal(count, RG_STORE_MOUNTS_MAX);
    assert_int_equal(left_out, 3);
    for (unsigned i = 0; i < RG_STORE_MOUNTS_MAX + 3; i++) {
        snprintf(name, sizeof name, "m%u", i);
        assert_int_equal(umount(path_of(&tree, name)), 0);
    }
    assert_int_equal(mount_id(&tree, "bucket/m0", &count), -1);
    tree_remove(&tree);
}

/* A small file system of its own, in a directory that is made for it. */
static void mount_ext4(const struct tree *tree, const char *point)
{
    char command[24000];
    snprintf(command, sizeof command,
             "mkdir %s && truncate -s 16M %s/image2 && mkfs.ext4 -q %s/image2 && "
             "mount -o loop %s/image2 %s",
             point, tree->base, tree->base, tree->base, point);
    assert_int_equal(system(command), 0);
}

/* As after an error of the disk. */
static void give_up(const char *point)
{
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT, "abort"), 0);
}

/* As if as much time had passed as lies between two looks at what is seldom looked at. */
static int probe_later(struct tree *tree, const char *path, struct rg_store_memory *memory,
                       struct rg_error *err)
{
    memory->changed_ns = memory->options_ns = 0;
    return path ? rg_store_probe_mount(tree->store, path, memory, err)
                : rg_store_probe(tree->store, memory, err);
}

/* What was written to and takes no more writes is not well; what never was may be meant so. */
static void test_a_mount_becomes_read_only(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_memory memory = {0};
    assert_true(tree_make(&tree, "ext4", 16));
    tree_open(&tree);
    assert_int_equal(rg_store_probe(tree.store, &memory, &err), 0);
    give_up(tree.root);
    assert_int_equal(probe_later(&tree, NULL, &memory, &err), -RG_READ_ONLY);
    assert_non_null(strstr(err.message, tree.root));
    tree_remove(&tree);

    assert_true(tree_make(&tree, "local", 0));
    tree_open(&tree);
    memory = (struct rg_store_memory){0};
    struct rg_store_memory of_root = {0};
    char *point = path_of(&tree, "../other-bucket");
    mount_ext4(&tree, point);
    char command[9000];
    snprintf(command, sizeof command, "mkdir %s/.railgate && touch %s/.railgate/locks", point,
             point);
    assert_int_equal(system(command), 0);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), 0);
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), 0);
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT, NULL), 0);
    assert_int_equal(
        rg_store_bucket_tags_set(tree.store, RG_SPAN_LITERAL("other-bucket"), NULL, &err), 0);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), 0);
    give_up(point);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), -RG_READ_ONLY);
    assert_non_null(strstr(err.message, "other-bucket"));
    assert_int_equal(probe_later(&tree, NULL, &of_root, &err), 0);
    tree_close(&tree);
    assert_int_equal(umount2(point, MNT_DETACH), 0);
    tree_remove(&tree);
}

/* A mount in a bucket has none of the bucket's own files: it is asked all the same. */
static void test_a_mount_inside_a_bucket_becomes_read_only(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_memory memory = {0};
    assert_true(tree_make(&tree, "local", 0));
    tree_open(&tree);
    char point[4096];
    snprintf(point, sizeof point, "%s", path_of(&tree, "mnt"));
    mount_ext4(&tree, point);
    put(&tree, "mnt/k", "far");
    assert_false(path_exists(&tree, "mnt/.railgate"));
    assert_int_equal(rg_store_probe_mount(tree.store, "bucket/mnt", &memory, &err), 0);
    give_up(point);
    assert_int_equal(probe_later(&tree, "bucket/mnt", &memory, &err), -RG_READ_ONLY);
    assert_non_null(strstr(err.message, "bucket/mnt"));
    tree_close(&tree);
    assert_int_equal(umount2(point, MNT_DETACH), 0);
    tree_remove(&tree);
}

/* Mounts one file system after another at `point` until one has the number that the last one had;
 * `use` does what is to be done with the first. */
static void mount_with_number_of_another(const char *point, const char *type, unsigned long flags,
                                         void (*use)(void *context), void *context)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct stat before;
        struct stat after;
        mount_memory(point);
        assert_int_equal(stat(point, &before), 0);
        use(context);
        assert_int_equal(umount(point), 0);
        assert_int_equal(mount("none", point, type, flags, NULL), 0);
        assert_int_equal(stat(point, &after), 0);
        if (before.st_dev == after.st_dev) {
            return;
        }
        assert_int_equal(umount(point), 0); /* somebody else had it first */
    }
    fail_msg("no number was given twice");
}

struct writes {
    struct tree *tree;
    struct rg_store_memory memory;
};

static void write_and_probe(void *context)
{
    struct writes *writes = context;
    struct rg_error err = RG_ERROR_INIT;
    put(writes->tree, "mnt/a/b/k", "far");
    assert_int_equal(probe_later(writes->tree, "bucket/mnt", &writes->memory, &err), 0);
}

/* The kernel gives the number of a file system that is gone to the next one: what the one could do
 * says nothing of the other, nor does that it was written to. */
static void test_another_mount_with_the_same_number(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(unshare(CLONE_NEWNS), 0); /* where nothing is kept by who copies it */
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_true(tree_make(&tree, "local", 0));
    tree_open(&tree);
    struct writes writes = {.tree = &tree};
    char point[4096];
    snprintf(point, sizeof point, "%s", path_of(&tree, "mnt"));
    assert_int_equal(mkdir(point, 0755), 0);

    mount_with_number_of_another(point, "ramfs", 0, write_and_probe, &writes);
    assert_int_equal(try_put(&tree, "mnt/k", text("far"), NULL, NULL, &err),
                     -RG_STORAGE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "user xattrs"));
    assert_int_equal(umount(point), 0);

    mount_with_number_of_another(point, "tmpfs", MS_RDONLY, write_and_probe, &writes);
    assert_int_equal(probe_later(&tree, "bucket/mnt", &writes.memory, &err), 0);
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT, NULL), 0);
    put(&tree, "mnt/k", "far");
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(probe_later(&tree, "bucket/mnt", &writes.memory, &err), -RG_READ_ONLY);
    assert_int_equal(umount(point), 0);

    /* Those that are gone do not add up. */
    dev_t numbers[30];
    size_t different = 0;
    size_t before = rg_posix_of(tree.store)->mount_count;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(numbers); i++) {
        struct stat st;
        mount_memory(point);
        put(&tree, "mnt/k", "far");
        assert_int_equal(stat(point, &st), 0);
        size_t at = 0;
        while (at < different && numbers[at] != st.st_dev) {
            at++;
        }
        numbers[at] = st.st_dev;
        different += at == different;
        assert_int_equal(umount(point), 0);
    }
    assert_in_range(rg_posix_of(tree.store)->mount_count, before, before + different);
    tree_remove(&tree);
}

/* What is read-only by its own mount was meant to be, although its file system is written to. */
static void test_a_read_only_mount_of_what_is_written_to(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_memory memory = {0};
    assert_true(tree_make(&tree, "ext4", 16));
    tree_open(&tree);
    put(&tree, "k", "old");
    char point[4096];
    snprintf(point, sizeof point, "%s", path_of(&tree, "../other-bucket"));
    assert_int_equal(mkdir(point, 0755), 0);
    assert_int_equal(mount(path_of(&tree, ""), point, NULL, MS_BIND, NULL), 0);
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
    assert_int_equal(rg_store_probe_mount(tree.store, "other-bucket", &memory, &err), 0);
    assert_int_equal(rg_store_probe_mount(tree.store, "other-bucket", &memory, &err), 0);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), 0);
    /* Not so any more. */
    assert_int_equal(mount(NULL, point, NULL, MS_REMOUNT | MS_BIND, NULL), 0);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), 0);
    give_up(tree.root);
    assert_int_equal(probe_later(&tree, "other-bucket", &memory, &err), -RG_READ_ONLY);
    tree_close(&tree);
    assert_int_equal(umount2(point, MNT_DETACH), 0);
    tree_remove(&tree);
}

int main(void)
{
    struct tree tree;
    if (!tree_make(&tree, "ext4", 16)) {
        return 77; /* skipped */
    }
    tree_remove(&tree);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_file_system),
        cmocka_unit_test(test_a_full_file_system_without_anything),
        cmocka_unit_test(test_free_space_is_kept),
        cmocka_unit_test(test_a_mount_inside_a_bucket),
        cmocka_unit_test(test_a_mount_inside_a_bucket_with_named_files),
        cmocka_unit_test(test_quota_projects),
        cmocka_unit_test(test_refused_mounts),
        cmocka_unit_test(test_one_gateway_without_locks),
        cmocka_unit_test(test_one_gateway_while_another_stops),
        cmocka_unit_test(test_a_slow_start_beside_a_sweeper),
        cmocka_unit_test(test_direct_io),
        cmocka_unit_test(test_mounts_below_the_root),
        cmocka_unit_test(test_a_mount_becomes_read_only),
        cmocka_unit_test(test_a_mount_inside_a_bucket_becomes_read_only),
        cmocka_unit_test(test_another_mount_with_the_same_number),
        cmocka_unit_test(test_a_read_only_mount_of_what_is_written_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
