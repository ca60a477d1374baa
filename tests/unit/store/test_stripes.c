/*
 * Stripes on a Lustre that the linker plays (--wrap): a file keeps the layout that is written to
 * lustre.lov when it was opened without its objects, and else ignores it, answering success. What a
 * real Lustre makes of it has not been seen.
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define LUSTRE_MAGIC 0x0bd00bd0
#define FILES_MAX    64

static bool takes_layouts;
static bool fails_to_set;

static struct file {
    ino_t inode;
    bool has_objects;
    unsigned char layout[56];
    size_t len;
} files[FILES_MAX];
static size_t file_count;

static struct file *file_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    for (size_t i = 0; i < file_count; i++) {
        if (files[i].inode == st.st_ino) {
            return &files[i];
        }
    }
    return NULL;
}

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, mode_t mode);
int __wrap_openat64(int directory, const char *path, int flags, mode_t mode)
{
    int fd = __real_openat64(directory, path, flags, mode);
    if (fd >= 0 && (flags & O_EXCL)) {
        struct file *file = file_of(fd); /* an inode used again */
        if (!file) {
            assert_true(file_count < FILES_MAX);
            file = &files[file_count++];
        }
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        *file =
            (struct file){.inode = st.st_ino,
                          .has_objects = (flags & (O_NOCTTY | O_ASYNC)) != (O_NOCTTY | O_ASYNC)};
    }
    return fd;
}

int __real_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);
int __wrap_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);
int __wrap_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    if (strcmp(name, "lustre.lov") != 0) {
        return __real_fsetxattr(fd, name, value, size, flags);
    }
    struct file *file = file_of(fd);
    assert_non_null(file);
    assert_in_range(size, 1, sizeof file->layout);
    if (fails_to_set) {
        errno = EIO;
        return -1;
    }
    if (takes_layouts && !file->has_objects) {
        memcpy(file->layout, value, size);
        file->len = size;
    }
    return 0;
}

ssize_t __real_fgetxattr(int fd, const char *name, void *value, size_t size);
ssize_t __wrap_fgetxattr(int fd, const char *name, void *value, size_t size);
ssize_t __wrap_fgetxattr(int fd, const char *name, void *value, size_t size)
{
    if (strcmp(name, "lustre.lov") != 0) {
        return __real_fgetxattr(fd, name, value, size);
    }
    struct file *file = file_of(fd);
    if (!file || !file->len) {
        errno = ENODATA;
        return -1;
    }
    memcpy(value, file->layout, file->len);
    return (ssize_t)file->len;
}

int __real_fstatfs64(int fd, struct statfs *facts);
int __wrap_fstatfs64(int fd, struct statfs *facts);
int __wrap_fstatfs64(int fd, struct statfs *facts)
{
    int rc = __real_fstatfs64(fd, facts);
    facts->f_type = LUSTRE_MAGIC;
    return rc;
}

static void open_tree(struct tree *tree, const char *count)
{
    file_count = 0;
    assert_true(tree_make(tree, "memory", 0));
    tree_set(tree, RG_SETTING_mask, "o-tmpfile,rename-flags");
    tree_set(tree, RG_SETTING_lustre_stripe_count, count);
    tree_set(tree, RG_SETTING_lustre_stripe_size, "8M");
    tree_set(tree, RG_SETTING_lustre_stripe_min, "1000");
    tree_open(tree);
}

static const struct file *layout_of(struct tree *tree, const char *key)
{
    rg_autoclose int fd = open(path_of(tree, key), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return file_of(fd);
}

static void put_bytes(struct tree *tree, const char *key, size_t len)
{
    static const char bytes[2000];
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(try_put(tree, key, rg_span(bytes, len), NULL, NULL, &err), 0);
}

static void test_large_objects_are_striped(void **state)
{
    static const unsigned char expected[32] = {
        0xd0, 0x0b, 0xd1, 0x0b, 1, [26] = 0x80, [28] = 7, [30] = 0xff, [31] = 0xff};
    struct tree tree;
    takes_layouts = true;
    open_tree(&tree, "7");
    assert_non_null(strstr(rg_buf_text(&tree.summary), "large objects in 7 stripes: on"));
    put_bytes(&tree, "large", 1000);
    put_bytes(&tree, "small", 999);
    const struct file *large = layout_of(&tree, "large");
    assert_int_equal(large->len, sizeof expected);
    assert_memory_equal(large->layout, expected, sizeof expected);
    const struct file *small = layout_of(&tree, "small");
    assert_true(small->has_objects);
    assert_int_equal(small->len, 0);
    tree_remove(&tree);
}

static void test_nothing_is_set_unless_asked_for(void **state)
{
    struct tree tree;
    takes_layouts = true;
    open_tree(&tree, "0");
    assert_null(strstr(rg_buf_text(&tree.summary), "stripes"));
    put_bytes(&tree, "large", 1000);
    assert_true(layout_of(&tree, "large")->has_objects);
    tree_remove(&tree);
}

/* A mount that does not do as it is told is left alone, and the first line says so. */
static void test_a_mount_that_ignores_layouts(void **state)
{
    struct tree tree;
    takes_layouts = false;
    open_tree(&tree, "7");
    assert_non_null(strstr(rg_buf_text(&tree.summary), "off, this mount does not take layouts"));
    put_bytes(&tree, "large", 1000);
    assert_true(layout_of(&tree, "large")->has_objects);
    tree_remove(&tree);
}

static void test_a_layout_that_cannot_be_set_fails_the_put(void **state)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    static const char bytes[1000];
    takes_layouts = true;
    open_tree(&tree, "7");
    fails_to_set = true;
    assert_int_equal(try_put(&tree, "k", rg_span(bytes, 1000), NULL, NULL, &err),
                     -RG_STORAGE_FAULT);
    fails_to_set = false;
    expect_absent(&tree, "k");
    expect_no_leftovers(&tree, 0);
    tree_remove(&tree);
}

static void test_a_crooked_size_stops_the_start(void **state)
{
    struct tree tree;
    struct rg_store *store;
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(summary, 4096);
    assert_true(tree_make(&tree, "memory", 0));
    tree_set(&tree, RG_SETTING_lustre_stripe_size, "100000");
    assert_int_equal(rg_store_posix_open(tree.root, &tree.settings, &store, &summary, &err),
                     -RG_SETTING);
    assert_non_null(strstr(err.message, "lustre-stripe-size"));
    tree_set(&tree, RG_SETTING_lustre_stripe_size, "64K");
    tree_open(&tree);
    tree_remove(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_objects_are_striped),
        cmocka_unit_test(test_nothing_is_set_unless_asked_for),
        cmocka_unit_test(test_a_mount_that_ignores_layouts),
        cmocka_unit_test(test_a_layout_that_cannot_be_set_fails_the_put),
        cmocka_unit_test(test_a_crooked_size_stops_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
