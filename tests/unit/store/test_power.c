/*
 * What an acknowledgement promises after a power cut, on XFS in a loop file: right after the call
 * returned the file system is shut down without writing its log, mounted again, and looked at.
 * And what it promises when the file system shuts itself down under a call, and another's fsync is
 * the one to be told: the linker puts the function below in the place of fsync (--wrap).
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHUTDOWN    _IOR('X', 125, uint32_t) /* XFS_IOC_GOINGDOWN */
#define WITHOUT_LOG 2u                       /* XFS_FSOP_GOING_FLAGS_NOLOGFLUSH */

static void shut_down(const char *root)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    uint32_t how = WITHOUT_LOG;
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, SHUTDOWN, &how), 0);
    close(fd);
}

/* Before the n-th fsync from now on (0: none) the log dies, and an fsync of something else is told.
 */
static unsigned syncs_left;

/* As on Lustre: fsync of a directory answers 0 and does nothing. */
static bool directories_ignored;
static const char *dying_root;
static bool hidden; /* that fsync itself was told nothing */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;
    if (directories_ignored && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        return 0;
    }
    if (syncs_left == 0 || --syncs_left > 0) {
        return __real_fsync(fd);
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/other", dying_root);
    int other = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(other >= 0);
    assert_int_equal(fchmod(other, 0644), 0);
    shut_down(dying_root);
    assert_int_equal(__real_fsync(other), -1);
    assert_int_equal(errno, EIO);
    close(other);
    int rc = __real_fsync(fd);
    hidden = hidden || rc == 0;
    return rc;
}

/* Of this file system alone: the others may be busy. */
static void write_back(const char *root)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(syncfs(fd), 0);
    close(fd);
}

static void mount_again(struct tree *tree)
{
    tree_close(tree);
    assert_int_equal(umount2(tree->root, 0), 0);
    char command[1024];
    snprintf(command, sizeof command, "mount -o loop %s/image %s", tree->base, tree->root);
    assert_int_equal(system(command), 0);
    RG_BUF(summary, 4096);
    assert_int_equal(rg_store_posix_open(tree->root, &tree->settings, &tree->store, &summary, NULL),
                     0);
}

static void cut_power(struct tree *tree)
{
    shut_down(tree->root);
    mount_again(tree);
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
    directories_ignored = true;
    expect_durable("dir-fsync,o-tmpfile,rename-flags");
    directories_ignored = false;
}

/* That step is needed there. */
static void test_directory_fsync_that_does_nothing(void **state)
{
    struct tree tree;
    open_with(&tree, "full", "o-tmpfile,rename-flags");
    put(&tree, "a", "first");
    write_back(tree.root);
    directories_ignored = true;
    assert_int_equal(try_delete(&tree, "a", NULL), 0);
    cut_power(&tree);
    directories_ignored = false;
    expect(&tree, "a", "first");
    tree_remove(&tree);
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
    write_back(tree.root);
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

/* ---- A log that dies ---- */

static char upload_id[RG_UPLOAD_ID_LENGTH + 1];
static struct rg_complete_part wanted_part;

static void prepare_nothing(struct tree *tree)
{
    assert_int_equal(try_delete(tree, "n/e/w", NULL), 0);
    assert_int_equal(try_delete(tree, "f/o/", NULL), 0);
}

static void prepare_old(struct tree *tree)
{
    put(tree, "a/b", "old");
    put(tree, "f/o/", "");
}

static int act_create(struct tree *tree)
{
    return try_put(tree, "n/e/w", text("new"), NULL, NULL, NULL);
}

static void check_create(struct tree *tree)
{
    expect(tree, "n/e/w", "new");
}

static int act_overwrite(struct tree *tree)
{
    return try_put(tree, "a/b", text("new"), NULL, NULL, NULL);
}

static void check_overwrite(struct tree *tree)
{
    expect(tree, "a/b", "new");
}

static int act_delete(struct tree *tree)
{
    return try_delete(tree, "a/b", NULL);
}

static void check_delete(struct tree *tree)
{
    expect_absent(tree, "a/b");
}

/* By somebody else, who did not sync: what is then told of it must be true as well. */
static int act_delete_absent(struct tree *tree)
{
    assert_int_equal(unlink(path_of(tree, "a/b")), 0);
    return try_delete(tree, "a/b", NULL);
}

static int act_folder(struct tree *tree)
{
    return try_put(tree, "f/o/", text(""), NULL, NULL, NULL);
}

static void check_folder(struct tree *tree)
{
    expect(tree, "f/o/", "");
}

static int act_remove_folder(struct tree *tree)
{
    return try_delete(tree, "f/o/", NULL);
}

static void check_remove_folder(struct tree *tree)
{
    expect_absent(tree, "f/o/");
}

static int act_tag(struct tree *tree)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, text("k"), text("v"), NULL), 0);
    int rc = rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), &tags, NULL);
    rg_pairs_free(&tags);
    return rc;
}

static void check_tag(struct tree *tree)
{
    struct rg_object_info info = info_of(tree, "a/b");
    const char *value = rg_pairs_find(&info.meta.tags, text("k"));
    assert_non_null(value);
    assert_string_equal(value, "v");
    rg_object_info_free(&info);
}

static void prepare_no_bucket(struct tree *tree)
{
    int rc = rg_store_bucket_delete(tree->store, text("second"), NULL);
    assert_true(rc == 0 || rc == -RG_NO_SUCH_BUCKET);
}

static void prepare_bucket(struct tree *tree)
{
    int rc = rg_store_bucket_create(tree->store, text("second"), NULL);
    assert_true(rc == 0 || rc == -RG_BUCKET_ALREADY_OWNED);
}

static int act_bucket(struct tree *tree)
{
    return rg_store_bucket_create(tree->store, text("second"), NULL);
}

static void check_bucket(struct tree *tree)
{
    struct rg_bucket_info info;
    assert_int_equal(rg_store_bucket_stat(tree->store, text("second"), &info, NULL), 0);
}

static int act_remove_bucket(struct tree *tree)
{
    return rg_store_bucket_delete(tree->store, text("second"), NULL);
}

static void check_remove_bucket(struct tree *tree)
{
    struct rg_bucket_info info;
    assert_int_equal(rg_store_bucket_stat(tree->store, text("second"), &info, NULL),
                     -RG_NO_SUCH_BUCKET);
}

static int act_begin(struct tree *tree)
{
    struct rg_meta meta = RG_META_INIT;
    return rg_store_upload_create(tree->store, BUCKET, text("m/p"), &meta, RG_CHECKSUM_NONE,
                                  RG_CHECKSUM_FULL_OBJECT, upload_id, NULL);
}

static void check_begin(struct tree *tree)
{
    struct rg_upload_info info;
    assert_int_equal(
        rg_store_upload_stat(tree->store, BUCKET, text("m/p"), text(upload_id), &info, NULL), 0);
    rg_upload_info_free(&info);
}

static void prepare_upload(struct tree *tree)
{
    put(tree, "m/p", "before");
    assert_int_equal(act_begin(tree), 0);
}

static int act_part(struct tree *tree)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_writer *writer = NULL;
    struct rg_written written;
    struct rg_part_info part = {.number = 1};
    meta_for(&meta, text("part"));
    memcpy(part.etag, meta.etag, sizeof part.etag);
    wanted_part = (struct rg_complete_part){.number = 1};
    memcpy(wanted_part.etag, meta.etag, sizeof meta.etag);
    int rc = rg_store_part_begin(tree->store, BUCKET, text("m/p"), text(upload_id), 1, -1, &writer,
                                 NULL);
    if (rc) {
        return rc;
    }
    rc = rg_store_writer_write(tree->store, writer, "part", 4, NULL);
    if (rc) {
        rg_store_writer_abort(tree->store, writer);
        return rc;
    }
    return rg_store_part_commit(tree->store, writer, &part, &written, NULL);
}

static void check_part(struct tree *tree)
{
    struct rg_part_page page;
    assert_int_equal(
        rg_store_part_list(tree->store, BUCKET, text("m/p"), text(upload_id), 0, 9, &page, NULL),
        0);
    assert_int_equal(page.count, 1);
    rg_part_page_free(&page);
}

static void prepare_parts(struct tree *tree)
{
    prepare_upload(tree);
    assert_int_equal(act_part(tree), 0);
}

static int act_complete(struct tree *tree)
{
    struct rg_complete_request request = {
        .parts = &wanted_part, .count = 1, .part_size_min = 1, .object_size_max = 1000};
    struct rg_completed completed;
    return rg_store_upload_complete(tree->store, BUCKET, text("m/p"), text(upload_id), &request,
                                    &completed, NULL);
}

static void check_complete(struct tree *tree)
{
    expect(tree, "m/p", "part");
}

static void prepare_done(struct tree *tree)
{
    prepare_parts(tree);
    assert_int_equal(act_complete(tree), 0);
}

static int act_abort(struct tree *tree)
{
    return rg_store_upload_abort(tree->store, BUCKET, text("m/p"), text(upload_id), NULL);
}

static void check_abort(struct tree *tree)
{
    assert_int_equal(act_abort(tree), -RG_NO_SUCH_UPLOAD);
}

static const struct change {
    const char *name;
    void (*prepare)(struct tree *tree);
    int (*act)(struct tree *tree);
    void (*check)(struct tree *tree); /* that it happened */
} changes[] = {
    {"create", prepare_nothing, act_create, check_create},
    {"overwrite", prepare_old, act_overwrite, check_overwrite},
    {"delete", prepare_old, act_delete, check_delete},
    {"delete what is gone", prepare_old, act_delete_absent, check_delete},
    {"tag", prepare_old, act_tag, check_tag},
    {"make a folder", prepare_nothing, act_folder, check_folder},
    {"remove a folder", prepare_old, act_remove_folder, check_remove_folder},
    {"make a bucket", prepare_no_bucket, act_bucket, check_bucket},
    {"remove a bucket", prepare_bucket, act_remove_bucket, check_remove_bucket},
    {"begin an upload", prepare_nothing, act_begin, check_begin},
    {"part", prepare_upload, act_part, check_part},
    {"complete", prepare_parts, act_complete, check_complete},
    {"complete again", prepare_done, act_complete, check_complete},
    {"abort", prepare_parts, act_abort, check_abort},
};

#define SYNCS_MAX 20

/* The log dies before each fsync of the change in turn. */
static void break_each_sync(struct tree *tree, const struct change *change)
{
    for (unsigned n = 1; n < SYNCS_MAX; n++) {
        change->prepare(tree);
        write_back(tree->root);
        dying_root = tree->root;
        syncs_left = n;
        int rc = change->act(tree);
        bool died = syncs_left == 0;
        syncs_left = 0;
        assert_true(died || rc == 0);
        if (died) {
            mount_again(tree);
        } else {
            cut_power(tree);
        }
        if (rc == 0) {
            change->check(tree);
        }
        if (!died) {
            assert_true(n > 1);
            return;
        }
    }
    fail_msg("%s: more than %d calls of fsync", change->name, SYNCS_MAX);
}

static void expect_deaths_noticed(const char *durability, const char *mask, bool must_hide)
{
    struct tree tree;
    open_with(&tree, durability, mask);
    hidden = false;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(changes); i++) {
        break_each_sync(&tree, &changes[i]);
    }
    if (must_hide && !hidden) { /* a later kernel */
        print_message("this kernel's fsync tells the truth: nothing was proved\n");
    }
    tree_remove(&tree);
}

static void test_a_dead_log_is_noticed(void **state)
{
    expect_deaths_noticed("full", "", true);
}

static void test_a_dead_log_is_noticed_without_directory_fsync(void **state)
{
    expect_deaths_noticed("full", "dir-fsync,o-tmpfile,rename-flags", false);
}

static void test_a_dead_log_is_noticed_with_sidecars(void **state)
{
    expect_deaths_noticed("full", "big-xattr", true);
}

/*
 * A mount namespace of its own, of which nothing spreads: a namespace that another test makes
 * meanwhile would copy the mount, the file system that was shut down would outlive umount, and be
 * found again.
 */
static bool mounts_apart(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int main(void)
{
    struct tree tree;
    if (!mounts_apart()) {
        return 77; /* skipped */
    }
    if (!tree_make(&tree, "xfs", 320)) {
        return 77; /* skipped */
    }
    tree_remove(&tree);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_acknowledged_survives),
        cmocka_unit_test(test_without_directory_fsync),
        cmocka_unit_test(test_directory_fsync_that_does_nothing),
        cmocka_unit_test(test_with_sidecars),
        cmocka_unit_test(test_durability_none_is_none),
        cmocka_unit_test(test_durability_data_keeps_objects_whole),
        cmocka_unit_test(test_a_dead_log_is_noticed),
        cmocka_unit_test(test_a_dead_log_is_noticed_without_directory_fsync),
        cmocka_unit_test(test_a_dead_log_is_noticed_with_sidecars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
