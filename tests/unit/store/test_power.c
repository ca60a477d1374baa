/*
 * What an acknowledgement promises after a power cut, on XFS in a loop file: right after the call
 * returned the file system is shut down without writing its log, mounted again, and looked at.
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#define SHUTDOWN    _IOR('X', 125, uint32_t) /* XFS_IOC_GOINGDOWN */
#define WITHOUT_LOG 2u                       /* XFS_FSOP_GOING_FLAGS_NOLOGFLUSH */

static void cut_power(struct tree *tree)
{
    int fd = open(tree->root, O_RDONLY | O_DIRECTORY);
    uint32_t how = WITHOUT_LOG;
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, SHUTDOWN, &how), 0);
    close(fd);
    tree_close(tree);
    assert_int_equal(umount2(tree->root, 0), 0);
    char command[1024];
    snprintf(command, sizeof command, "mount -o loop %s/image %s", tree->base, tree->root);
    assert_int_equal(system(command), 0);
    RG_BUF(summary, 4096);
    assert_int_equal(rg_store_posix_open(tree->root, &tree->settings, &tree->store, &summary, NULL),
                     0);
}

static void open_with(struct tree *tree, const char *durability, const char *mask)
{
    assert_true(tree_make(tree, "xfs", 320));
    tree_set(tree, RG_SETTING_durability, durability);
    tree_set(tree, RG_SETTING_mask, mask);
    tree_open(tree);
}

static void expect_durable(const char *mask)
{
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    open_with(&tree, "full", mask);
    put(&tree, "a/b/c", "first");
    cut_power(&tree);
    expect(&tree, "a/b/c", "first");
    struct rg_object_info info = info_of(&tree, "a/b/c");
    assert_false(info.is_foreign);
    rg_object_info_free(&info);

    put(&tree, "a/b/c", "second version");
    cut_power(&tree);
    expect(&tree, "a/b/c", "second version");

    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, text("k"), text("v"), &err), 0);
    assert_int_equal(rg_store_object_tags_set(tree.store, BUCKET, text("a/b/c"), &tags, &err), 0);
    cut_power(&tree);
    info = info_of(&tree, "a/b/c");
    assert_string_equal(rg_pairs_find(&info.meta.tags, text("k")), "v");
    rg_object_info_free(&info);
    assert_int_equal(rg_store_bucket_tags_set(tree.store, BUCKET, &tags, &err), 0);
    rg_pairs_free(&tags);
    cut_power(&tree);
    assert_int_equal(rg_store_bucket_tags_get(tree.store, BUCKET, &tags, &err), 0);
    rg_pairs_free(&tags);

    put(&tree, "d/e/", "");
    cut_power(&tree);
    expect(&tree, "d/e/", "");
    assert_int_equal(try_delete(&tree, "d/e/", &err), 0);
    assert_int_equal(try_delete(&tree, "a/b/c", &err), 0);
    cut_power(&tree);
    expect_absent(&tree, "d/e/");
    expect_absent(&tree, "a/b/c");

    char id[RG_UPLOAD_ID_LENGTH + 1];
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(rg_store_upload_create(tree.store, BUCKET, text("m"), &meta, RG_CHECKSUM_NONE,
                                            RG_CHECKSUM_FULL_OBJECT, id, &err),
                     0);
    cut_power(&tree);
    struct rg_complete_part wanted[2];
    for (uint32_t i = 1; i <= 2; i++) {
        struct rg_writer *writer = NULL;
        struct rg_written written;
        struct rg_part_info part = {.number = i};
        const char *words = i == 1 ? "one " : "two";
        meta_for(&meta, text(words));
        memcpy(part.etag, meta.etag, sizeof part.etag);
        wanted[i - 1] = (struct rg_complete_part){.number = i};
        memcpy(wanted[i - 1].etag, meta.etag, sizeof meta.etag);
        assert_int_equal(
            rg_store_part_begin(tree.store, BUCKET, text("m"), text(id), i, -1, &writer, &err), 0);
        assert_int_equal(rg_store_writer_write(tree.store, writer, words, strlen(words), &err), 0);
        assert_int_equal(rg_store_part_commit(tree.store, writer, &part, &written, &err), 0);
        cut_power(&tree);
    }
    struct rg_complete_request request = {
        .parts = wanted, .count = 2, .part_size_min = 1, .object_size_max = 1000};
    struct rg_completed completed;
    assert_int_equal(rg_store_upload_complete(tree.store, BUCKET, text("m"), text(id), &request,
                                              &completed, &err),
                     0);
    cut_power(&tree);
    expect(&tree, "m", "one two");
    assert_int_equal(rg_store_upload_complete(tree.store, BUCKET, text("m"), text(id), &request,
                                              &completed, &err),
                     0);

    assert_int_equal(rg_store_bucket_create(tree.store, text("second"), &err), 0);
    cut_power(&tree);
    struct rg_bucket_info bucket;
    assert_int_equal(rg_store_bucket_stat(tree.store, text("second"), &bucket, &err), 0);
    assert_int_equal(rg_store_bucket_delete(tree.store, text("second"), &err), 0);
    cut_power(&tree);
    assert_int_equal(rg_store_bucket_stat(tree.store, text("second"), &bucket, &err),
                     -RG_NO_SUCH_BUCKET);
    tree_remove(&tree);
}

static void test_what_was_acknowledged_survives(void **state)
{
    expect_durable("");
}

/* The step for mounts on which fsync of a directory does nothing. */
static void test_without_directory_fsync(void **state)
{
    expect_durable("dir-fsync,o-tmpfile,rename-flags");
}

static void test_with_sidecars(void **state)
{
    expect_durable("big-xattr");
}

/* The cut is a real one: what asked for no durability has none. */
static void test_durability_none_is_none(void **state)
{
    struct tree tree;
    open_with(&tree, "none", "");
    sync();
    put(&tree, "a", "first");
    cut_power(&tree);
    expect_absent(&tree, "a");
    tree_remove(&tree);
}

/* And never is half an object visible. */
static void test_durability_data_keeps_objects_whole(void **state)
{
    struct tree tree;
    open_with(&tree, "data", "");
    put(&tree, "a", "first");
    cut_power(&tree);
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(bytes, 100);
    int rc = try_get(&tree, "a", &bytes, NULL, &err);
    assert_true(rc == -RG_NO_SUCH_KEY || rc == -RG_NO_SUCH_BUCKET ||
                (rc == 0 && strcmp(rg_buf_text(&bytes), "first") == 0));
    tree_remove(&tree);
}

int main(void)
{
    struct tree tree;
    if (!tree_make(&tree, "xfs", 320)) {
        return 77; /* skipped */
    }
    tree_remove(&tree);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_acknowledged_survives),
        cmocka_unit_test(test_without_directory_fsync),
        cmocka_unit_test(test_with_sidecars),
        cmocka_unit_test(test_durability_none_is_none),
        cmocka_unit_test(test_durability_data_keeps_objects_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
