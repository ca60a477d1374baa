/*
 * The process is killed at every named point of every change, one after the other: what was there
 * before is there, or what was to come, whole; never anything else. test-store-crash FILESYSTEM
 * MASK
 *
 * The store is compiled with its crash points (crash.h) for this program.
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 200

static char long_value[1501];

/* An object whose bytes, ETag and metadata all say which version it is. */
static int put_version(struct tree *tree, const char *key, const char *words,
                       const struct rg_conditions *conditions)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    meta_for(&meta, text(words));
    int rc = rg_meta_add_user(&meta, text("version"), text(words), &err);
    rc = rc ? rc : rg_meta_add_user(&meta, text("long"), text(long_value), &err);
    return rc ? rc : try_put(tree, key, text(words), &meta, conditions, &err);
}

/* Which of the two versions is there: 0, 1, or -1 for nothing. Anything else fails the test. */
static int version_of(struct tree *tree, const char *key, const char *first, const char *second)
{
    RG_BUF(bytes, 1 << 20);
    struct rg_object_info info;
    struct rg_error err = RG_ERROR_INIT;
    int rc = try_get(tree, key, &bytes, &info, &err);
    if (rc == -RG_NO_SUCH_KEY) {
        return -1;
    }
    if (rc) {
        fail_msg("%s", err.message);
    }
    const char *words = rg_buf_text(&bytes);
    assert_true(strcmp(words, first) == 0 || strcmp(words, second) == 0);
    assert_false(info.is_foreign);
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text(words));
    assert_string_equal(info.meta.etag, meta.etag);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("version")), words);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), long_value);
    rg_object_info_free(&info);
    return strcmp(words, second) == 0;
}

struct scenario {
    const char *name;
    void (*prepare)(struct tree *tree); /* makes the state before; may be repeated */
    int (*act)(struct tree *tree);      /* what is killed */
    void (*check)(struct tree *tree, bool finished);
};

/* Runs the act in a child that dies at the n-th point. False: it came to its end. */
static bool run_and_die(struct tree *tree, const struct scenario *scenario, int n)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char where[16];
        snprintf(where, sizeof where, "#%d", n);
        setenv("CRASH_POINT", where, 1);
        _exit(scenario->act(tree) ? 1 : 0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static void reopen(struct tree *tree)
{
    tree_close(tree);
    RG_BUF(summary, 4096);
    struct rg_error err = RG_ERROR_INIT;
    if (rg_store_posix_open(tree->root, &tree->settings, &tree->store, &summary, &err)) {
        fail_msg("%s", err.message);
    }
}

static void run_scenario(struct tree *tree, const struct scenario *scenario)
{
    int n = 1;
    for (bool died = true; died; n++) {
        assert_true(n < ROUNDS_MAX);
        scenario->prepare(tree);
        /* The child must not share descriptors, and with them locks, with the parent. */
        tree_close(tree);
        died = run_and_die(tree, scenario, n);
        reopen(tree);
        scenario->check(tree, !died);
    }
    print_message("%s: killed at %d points\n", scenario->name, n - 2);
    assert_true(n > 2);
}

static int open_in_child(struct tree *tree)
{
    RG_BUF(summary, 4096);
    return rg_store_posix_open(tree->root, &tree->settings, &tree->store, &summary, NULL);
}

/* ---- Objects ---- */

static void prepare_old(struct tree *tree)
{
    assert_int_equal(put_version(tree, "a/b", "old", NULL), 0);
}

static int act_overwrite(struct tree *tree)
{
    return open_in_child(tree) || put_version(tree, "a/b", "new", NULL);
}

static void check_overwrite(struct tree *tree, bool finished)
{
    int version = version_of(tree, "a/b", "old", "new");
    assert_true(version == 1 || (!finished && version == 0));
}

static void prepare_nothing(struct tree *tree)
{
    assert_int_equal(try_delete(tree, "p/q/r/s", NULL), 0);
    assert_false(path_exists(tree, "p/q/r/s"));
}

static int act_create(struct tree *tree)
{
    struct rg_conditions create = {.if_none_match = text("*")};
    return open_in_child(tree) || put_version(tree, "p/q/r/s", "new", &create);
}

static void check_create(struct tree *tree, bool finished)
{
    int version = version_of(tree, "p/q/r/s", "new", "new");
    assert_true(version == 1 || (!finished && version == -1));
    /* What a crash leaves is in nobody's way. */
    assert_int_equal(put_version(tree, "p/q/r/s", "new", NULL), 0);
    assert_int_equal(version_of(tree, "p/q/r/s", "new", "new"), 1);
}

static int act_delete(struct tree *tree)
{
    return open_in_child(tree) || try_delete(tree, "a/b", NULL);
}

/* Does the directory hold only what a crash left there, too young to be taken away? */
static bool holds_leftovers(struct tree *tree, const char *directory)
{
    rg_autoclosedir DIR *dir = opendir(path_of(tree, directory));
    size_t count = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, ".railgate-tmp-", 14) == 0) {
            count++;
        } else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return false;
        }
    }
    return count > 0;
}

static void check_delete(struct tree *tree, bool finished)
{
    int version = version_of(tree, "a/b", "old", "old");
    assert_true(version == -1 || (!finished && version == 1));
    assert_true(!finished || !path_exists(tree, "a") || holds_leftovers(tree, "a"));
}

static int set_tag(struct tree *tree, const char *value)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = rg_tags_add(&tags, RG_TAG_OBJECT, text("t"), text(value), NULL);
    rc = rc ? rc : rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), &tags, NULL);
    rg_pairs_free(&tags);
    return rc;
}

static void prepare_tag(struct tree *tree)
{
    prepare_old(tree);
    assert_int_equal(set_tag(tree, "old"), 0);
}

static int act_tag(struct tree *tree)
{
    return open_in_child(tree) || set_tag(tree, "new");
}

static void check_tag(struct tree *tree, bool finished)
{
    assert_int_equal(version_of(tree, "a/b", "old", "old"), 1);
    struct rg_object_info info = info_of(tree, "a/b");
    const char *value = rg_pairs_find(&info.meta.tags, text("t"));
    assert_non_null(value);
    assert_true(strcmp(value, "new") == 0 || (!finished && strcmp(value, "old") == 0));
    rg_object_info_free(&info);
}

static void prepare_copy(struct tree *tree)
{
    prepare_old(tree);
    assert_int_equal(put_version(tree, "target", "before", NULL), 0);
}

static int act_copy(struct tree *tree)
{
    struct rg_object *source = NULL;
    struct rg_written written;
    if (open_in_child(tree) ||
        rg_store_object_open(tree->store, BUCKET, text("a/b"), &source, NULL)) {
        return 1;
    }
    return rg_store_object_copy(tree->store, source, BUCKET, text("target"),
                                &rg_store_object_info(tree->store, source)->meta, NULL, &written,
                                NULL);
}

static void check_copy(struct tree *tree, bool finished)
{
    int version = version_of(tree, "target", "before", "old");
    assert_true(version == 1 || (!finished && version == 0));
    assert_int_equal(version_of(tree, "a/b", "old", "old"), 1);
}

/* ---- Directory objects ---- */

static void prepare_no_directory(struct tree *tree)
{
    assert_int_equal(try_delete(tree, "d/e/", NULL), 0);
    expect_absent(tree, "d/e/");
}

static int act_make_directory(struct tree *tree)
{
    return open_in_child(tree) || put_version(tree, "d/e/", "", NULL);
}

static void check_make_directory(struct tree *tree, bool finished)
{
    int version = version_of(tree, "d/e/", "", "");
    assert_true(version == 1 || (!finished && version == -1));
}

static void prepare_directory(struct tree *tree)
{
    assert_int_equal(put_version(tree, "d/e/", "", NULL), 0);
}

static int act_remove_directory(struct tree *tree)
{
    return open_in_child(tree) || try_delete(tree, "d/e/", NULL);
}

static void check_remove_directory(struct tree *tree, bool finished)
{
    int version = version_of(tree, "d/e/", "", "");
    assert_true(version == -1 || (!finished && version == 1));
    assert_true(!finished || !path_exists(tree, "d") || holds_leftovers(tree, "d") ||
                holds_leftovers(tree, "d/e"));
}

/* ---- Uploads ---- */

#define KEY RG_SPAN_LITERAL("m/p")
static char upload_id[RG_UPLOAD_ID_LENGTH + 1];
static size_t upload_parts;

static int send_part(struct tree *tree, uint32_t number, const char *words)
{
    struct rg_part_info part = {.number = number};
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_writer *writer = NULL;
    struct rg_written written;
    meta_for(&meta, text(words));
    memcpy(part.etag, meta.etag, sizeof part.etag);
    part.checksum = meta.checksum;
    int rc =
        rg_store_part_begin(tree->store, BUCKET, KEY, text(upload_id), number, -1, &writer, NULL);
    if (rc) {
        return rc;
    }
    rc = rg_store_writer_write(tree->store, writer, words, strlen(words), NULL);
    assert_int_equal(rc, 0);
    return rg_store_part_commit(tree->store, writer, &part, &written, NULL);
}

static int begin_upload(struct tree *tree)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    int rc = rg_meta_add_user(&meta, text("long"), text(long_value), NULL);
    return rc ? rc
              : rg_store_upload_create(tree->store, BUCKET, KEY, &meta, RG_CHECKSUM_CRC64NVME,
                                       RG_CHECKSUM_FULL_OBJECT, upload_id, NULL);
}

static int complete_upload(struct tree *tree)
{
    static const char *const words[] = {"one ", "two"};
    struct rg_complete_part wanted[2] = {{.number = 1}, {.number = 2}};
    for (size_t i = 0; i < 2; i++) {
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, text(words[i]));
        memcpy(wanted[i].etag, meta.etag, sizeof meta.etag);
    }
    struct rg_complete_request request = {
        .parts = wanted, .count = upload_parts, .part_size_min = 1, .object_size_max = 1 << 20};
    struct rg_completed completed;
    return rg_store_upload_complete(tree->store, BUCKET, KEY, text(upload_id), &request, &completed,
                                    NULL);
}

static void prepare_upload(struct tree *tree)
{
    assert_int_equal(put_version(tree, "m/p", "before", NULL), 0);
    assert_int_equal(begin_upload(tree), 0);
    assert_int_equal(send_part(tree, 1, "one "), 0);
    assert_int_equal(send_part(tree, 2, "two"), 0);
    upload_parts = 2;
}

static void prepare_single(struct tree *tree)
{
    prepare_upload(tree);
    upload_parts = 1;
}

static int act_complete(struct tree *tree)
{
    return open_in_child(tree) || complete_upload(tree);
}

static void check_complete(struct tree *tree, bool finished)
{
    RG_BUF(bytes, 1000);
    assert_int_equal(try_get(tree, "m/p", &bytes, NULL, NULL), 0);
    const char *whole = upload_parts == 2 ? "one two" : "one ";
    bool done = strcmp(rg_buf_text(&bytes), whole) == 0;
    assert_true(done || (!finished && strcmp(rg_buf_text(&bytes), "before") == 0));
    /* Either way the client's second try succeeds, and leaves nothing. */
    assert_int_equal(complete_upload(tree), 0);
    expect(tree, "m/p", whole);
    struct rg_object_info info = info_of(tree, "m/p");
    assert_false(info.is_foreign);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), long_value);
    assert_int_equal(info.meta.part_count, upload_parts);
    rg_object_info_free(&info);
    struct rg_upload_info upload;
    assert_int_equal(rg_store_upload_stat(tree->store, BUCKET, KEY, text(upload_id), &upload, NULL),
                     -RG_NO_SUCH_UPLOAD);
}

static int act_part(struct tree *tree)
{
    return open_in_child(tree) || send_part(tree, 2, "a new second part");
}

static void check_part(struct tree *tree, bool finished)
{
    struct rg_part_page page;
    assert_int_equal(
        rg_store_part_list(tree->store, BUCKET, KEY, text(upload_id), 0, 10, &page, NULL), 0);
    assert_int_equal(page.count, 2);
    assert_true(page.parts[1].size == 17 || (!finished && page.parts[1].size == 3));
    rg_part_page_free(&page);
    assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(upload_id), NULL), 0);
}

static int act_abort(struct tree *tree)
{
    return open_in_child(tree) ||
           rg_store_upload_abort(tree->store, BUCKET, KEY, text(upload_id), NULL);
}

static void check_abort(struct tree *tree, bool finished)
{
    struct rg_part_page page;
    int rc = rg_store_part_list(tree->store, BUCKET, KEY, text(upload_id), 0, 10, &page, NULL);
    if (rc == 0) {
        assert_false(finished);
        assert_int_equal(page.count, 2);
        rg_part_page_free(&page);
        assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(upload_id), NULL), 0);
    } else {
        assert_int_equal(rc, -RG_NO_SUCH_UPLOAD);
    }
}

static int act_begin(struct tree *tree)
{
    return open_in_child(tree) || begin_upload(tree);
}

static void check_begin(struct tree *tree, bool finished)
{
    (void)finished; /* its id is not known here: half an upload is the sweeper's, see the end */
    assert_int_equal(put_version(tree, "m/p", "before", NULL), 0);
}

/* ---- Buckets ---- */

static void prepare_no_bucket(struct tree *tree)
{
    int rc = rg_store_bucket_delete(tree->store, text("second"), NULL);
    assert_true(rc == 0 || rc == -RG_NO_SUCH_BUCKET);
}

static int act_bucket(struct tree *tree)
{
    return open_in_child(tree) || rg_store_bucket_create(tree->store, text("second"), NULL);
}

static void check_bucket(struct tree *tree, bool finished)
{
    int rc = rg_store_bucket_create(tree->store, text("second"), NULL);
    assert_true(rc == -RG_BUCKET_ALREADY_OWNED || (!finished && rc == 0));
}

static void prepare_bucket(struct tree *tree)
{
    int rc = rg_store_bucket_create(tree->store, text("second"), NULL);
    assert_true(rc == 0 || rc == -RG_BUCKET_ALREADY_OWNED);
}

static int act_remove_bucket(struct tree *tree)
{
    return open_in_child(tree) || rg_store_bucket_delete(tree->store, text("second"), NULL);
}

static void check_remove_bucket(struct tree *tree, bool finished)
{
    int rc = rg_store_bucket_delete(tree->store, text("second"), NULL);
    assert_true(rc == -RG_NO_SUCH_BUCKET || (!finished && rc == 0));
}

static void test_killed_everywhere(void **state)
{
    struct tree *tree = *state;
    static const struct scenario scenarios[] = {
        {"overwrite", prepare_old, act_overwrite, check_overwrite},
        {"create", prepare_nothing, act_create, check_create},
        {"delete", prepare_old, act_delete, check_delete},
        {"tags", prepare_tag, act_tag, check_tag},
        {"copy", prepare_copy, act_copy, check_copy},
        {"make directory", prepare_no_directory, act_make_directory, check_make_directory},
        {"remove directory", prepare_directory, act_remove_directory, check_remove_directory},
        {"begin upload", prepare_nothing, act_begin, check_begin},
        {"part", prepare_upload, act_part, check_part},
        {"complete", prepare_upload, act_complete, check_complete},
        {"complete of one part", prepare_single, act_complete, check_complete},
        {"abort", prepare_upload, act_abort, check_abort},
        {"make bucket", prepare_no_bucket, act_bucket, check_bucket},
        {"remove bucket", prepare_bucket, act_remove_bucket, check_remove_bucket},
    };
    memset(long_value, 'm', sizeof long_value - 1);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(scenarios); i++) {
        run_scenario(tree, &scenarios[i]);
    }

    /* All that is left is found by sweeping. */
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1s");
    tree_open(tree);
    static const char *const keys[] = {"a/b", "p/q/r/s", "target", "d/e/", "m/p"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(keys); i++) {
        assert_int_equal(try_delete(tree, keys[i], NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        sleep(2);
        assert_int_equal(rg_store_sweep(tree->store, NULL), 0);
    }
    assert_int_equal(count_entries(tree, ".railgate/tmp"), 0);
    assert_int_equal(count_entries(tree, ".railgate/sidecar"), 0);
    /* Uploads that were begun, whole, before their client died are not half: they expire. */
    assert_true(count_entries(tree, ".railgate/uploads") <= 1);
}

int main(int argc, char **argv)
{
    int rc = tree_main(argc, argv);
    if (rc) {
        return rc;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_everywhere, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
