/*
 * The process is killed at every named point of every change, one after the other: what was there
 * before is there, or what was to come, whole; never anything else. test-store-crash FILESYSTEM
 * MASK
 *
 * A point of the code at which nothing was killed fails the test, unless the mount has what makes
 * it needless; with everything masked there is none such.
 *
 * The store is compiled with its crash points (crash.h) for this program.
 */
#include "tree.h"

#include "store/posix/crash.h"
#include "store/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 200
#define POINTS_MAX 200

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

/* ---- Points ---- */

static const char *killed_at[POINTS_MAX];
static size_t killed_count;

/* The same name in the code, of which there may be several. */
static const char *find_point(const char *name)
{
    for (const char *const *point = rg_posix_crash_points_begin; point < rg_posix_crash_points_end;
         point++) {
        if (strcmp(*point, name) == 0) {
            return *point;
        }
    }
    fail_msg("killed at \"%s\", which is no point of the code", name);
    return NULL;
}

static bool was_killed_at(const char *name)
{
    for (size_t i = 0; i < killed_count; i++) {
        if (strcmp(killed_at[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void note_point(int from_fd)
{
    char name[64] = "";
    assert_true(read(from_fd, name, sizeof name - 1) > 0);
    if (!was_killed_at(name)) {
        assert_true(killed_count < POINTS_MAX);
        killed_at[killed_count++] = find_point(name);
    }
}

/* Points that are passed only where the mount lacks a feature. */
static const struct {
    const char *point;
    const char *mask;
} without[] = {
    {"names.file-made", "dir-fsync"},
    {"sidecar.written", "big-xattr"},
    {"place.linked", "rename-flags"},
};

static bool is_needless(const char *point)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(without); i++) {
        if (strcmp(without[i].point, point) == 0) {
            return !strstr(tree_mask, without[i].mask);
        }
    }
    return false;
}

static void test_every_point(void **state)
{
    (void)state;
    size_t missed = 0;
    assert_true(killed_count > 0);
    for (const char *const *point = rg_posix_crash_points_begin; point < rg_posix_crash_points_end;
         point++) {
        if (!was_killed_at(*point) && !is_needless(*point)) {
            print_error("nothing was killed at %s\n", *point);
            missed++;
        }
    }
    assert_int_equal(missed, 0);
    print_message("killed at %zu points of %td\n", killed_count,
                  rg_posix_crash_points_end - rg_posix_crash_points_begin);
}

/* ---- Dying ---- */

/* Runs the act in a child that dies at the n-th point. False: it came to its end. */
static bool run_and_die(struct tree *tree, const struct scenario *scenario, int n)
{
    int name_pipe[2];
    assert_int_equal(pipe(name_pipe), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char where[16];
        snprintf(where, sizeof where, "#%d", n);
        setenv("CRASH_POINT", where, 1);
        snprintf(where, sizeof where, "%d", name_pipe[1]);
        setenv("CRASH_POINT_FD", where, 1);
        _exit(scenario->act(tree) ? 1 : 0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    close(name_pipe[1]);
    bool died = WIFSIGNALED(status);
    if (died) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        note_point(name_pipe[0]);
    } else {
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    close(name_pipe[0]);
    return died;
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

/* Whatever the shell makes of a path below the bucket. */
static void remove_all(struct tree *tree, const char *relative)
{
    char command[2048];
    snprintf(command, sizeof command, "rm -rf %s", path_of(tree, relative));
    assert_int_equal(system(command), 0);
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

/* Alone in its directory, which goes with it. */
static void prepare_alone(struct tree *tree)
{
    remove_all(tree, "a");
    prepare_old(tree);
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

static int act_untag(struct tree *tree)
{
    return open_in_child(tree) ||
           rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), NULL, NULL);
}

static void check_untag(struct tree *tree, bool finished)
{
    assert_int_equal(version_of(tree, "a/b", "old", "old"), 1);
    struct rg_object_info info = info_of(tree, "a/b");
    const char *value = rg_pairs_find(&info.meta.tags, text("t"));
    assert_true(!value || (!finished && strcmp(value, "old") == 0));
    rg_object_info_free(&info);
}

/* New metadata for the same bytes: a copy of an object onto itself. */
static int act_describe(struct tree *tree)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_written written;
    meta_for(&meta, text("old"));
    return open_in_child(tree) ||
           rg_meta_add_user(&meta, text("version"), text("replaced"), NULL) ||
           rg_meta_add_user(&meta, text("longer"), text(long_value), NULL) ||
           rg_store_object_meta_set(tree->store, BUCKET, text("a/b"), meta.etag, &meta, &written,
                                    NULL);
}

static void check_describe(struct tree *tree, bool finished)
{
    expect(tree, "a/b", "old");
    struct rg_object_info info = info_of(tree, "a/b");
    assert_false(info.is_foreign);
    const char *version = rg_pairs_find(&info.meta.user, text("version"));
    assert_non_null(version);
    bool done = strcmp(version, "replaced") == 0;
    assert_true(done || (!finished && strcmp(version, "old") == 0));
    const char *value = rg_pairs_find(&info.meta.user, text(done ? "longer" : "long"));
    assert_non_null(value);
    assert_string_equal(value, long_value);
    assert_null(rg_pairs_find(&info.meta.user, text(done ? "long" : "longer")));
    rg_object_info_free(&info);
}

/* The bytes come by the descriptor, as those of an RDMA transfer do. */
static int fill_by_descriptor(struct tree *tree, struct rg_writer *writer, const char *words)
{
    int fd = rg_store_writer_fd(tree->store, writer);
    ssize_t len = (ssize_t)strlen(words);
    if (pwrite(fd, words, (size_t)len, 0) != len ||
        rg_store_writer_written(tree->store, writer, (uint64_t)len, NULL)) {
        rg_store_writer_abort(tree->store, writer);
        return 1;
    }
    return 0;
}

static int act_put_by_descriptor(struct tree *tree)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_writer *writer = NULL;
    struct rg_written written;
    meta_for(&meta, text("new"));
    return open_in_child(tree) || rg_meta_add_user(&meta, text("version"), text("new"), NULL) ||
           rg_meta_add_user(&meta, text("long"), text(long_value), NULL) ||
           rg_store_put_begin(tree->store, BUCKET, text("a/b"), 3, &writer, NULL) ||
           fill_by_descriptor(tree, writer, "new") ||
           rg_store_put_commit(tree->store, writer, &meta, NULL, &written, NULL);
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
    remove_all(tree, "d"); /* what crashes left there, so that each round passes the same points */
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

static int act_part_by_descriptor(struct tree *tree)
{
    struct rg_part_info part = {.number = 2};
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_writer *writer = NULL;
    struct rg_written written;
    meta_for(&meta, text("a new second part"));
    memcpy(part.etag, meta.etag, sizeof part.etag);
    return open_in_child(tree) ||
           rg_store_part_begin(tree->store, BUCKET, KEY, text(upload_id), 2, 17, &writer, NULL) ||
           fill_by_descriptor(tree, writer, "a new second part") ||
           rg_store_part_commit(tree->store, writer, &part, &written, NULL);
}

static void prepare_source(struct tree *tree)
{
    assert_int_equal(put_version(tree, "a/b", "a new second part", NULL), 0);
    prepare_upload(tree);
}

static int act_part_copy(struct tree *tree)
{
    struct rg_part_info part = {.number = 2};
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    struct rg_object *source = NULL;
    struct rg_writer *writer = NULL;
    enum rg_copy_used used;
    struct rg_written written;
    uint8_t md5[16];
    if (open_in_child(tree) || rg_hasher_init(&hasher, RG_HASH_MD5, NULL) ||
        rg_store_object_open(tree->store, BUCKET, text("a/b"), &source, NULL) ||
        rg_store_part_begin(tree->store, BUCKET, KEY, text(upload_id), 2, 17, &writer, NULL) ||
        rg_store_writer_copy(tree->store, writer, source, 0, 17, &hasher, &used, NULL) ||
        rg_hasher_final(&hasher, NULL)) {
        return 1;
    }
    rg_hasher_md5(&hasher, md5);
    rg_etag_md5(md5, part.etag);
    return rg_store_part_commit(tree->store, writer, &part, &written, NULL);
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

static void prepare_begin(struct tree *tree)
{
    prepare_nothing(tree);
    remove_all(tree, ".railgate/uploads"); /* the first one makes it */
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

static int set_bucket_tag(struct tree *tree, const char *value)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = rg_tags_add(&tags, RG_TAG_BUCKET, text("t"), text(value), NULL);
    rc = rc ? rc : rg_tags_add(&tags, RG_TAG_BUCKET, text("u"), text(value), NULL);
    rc = rc ? rc : rg_store_bucket_tags_set(tree->store, BUCKET, &tags, NULL);
    rg_pairs_free(&tags);
    return rc;
}

static void prepare_tagged_bucket(struct tree *tree)
{
    assert_int_equal(set_bucket_tag(tree, "old"), 0);
}

static int act_tag_bucket(struct tree *tree)
{
    return open_in_child(tree) || set_bucket_tag(tree, "new");
}

static void check_tag_bucket(struct tree *tree, bool finished)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_store_bucket_tags_get(tree->store, BUCKET, &tags, NULL), 0);
    const char *value = rg_pairs_find(&tags, text("t"));
    assert_non_null(value);
    assert_true(strcmp(value, "new") == 0 || (!finished && strcmp(value, "old") == 0));
    assert_string_equal(rg_pairs_find(&tags, text("u")), value);
    rg_pairs_free(&tags);
}

static int act_untag_bucket(struct tree *tree)
{
    return open_in_child(tree) || rg_store_bucket_tags_set(tree->store, BUCKET, NULL, NULL);
}

static void check_untag_bucket(struct tree *tree, bool finished)
{
    struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = rg_store_bucket_tags_get(tree->store, BUCKET, &tags, NULL);
    assert_true(rc == -RG_NO_SUCH_TAG_SET || (!finished && rc == 0));
    if (rc == 0) {
        assert_string_equal(rg_pairs_find(&tags, text("t")), "old");
        assert_string_equal(rg_pairs_find(&tags, text("u")), "old");
    }
    rg_pairs_free(&tags);
}

/* ---- Sweeping ---- */

#define ORPHAN "00112233445566778899aabbccddeeff"
#define KNOWN  "ffeeddccbbaa99887766554433221100"

/* Leftovers of each kind, old enough to go. */
static void prepare_leftovers(struct tree *tree)
{
    remove_all(tree, ".railgate/uploads/*"); /* of the round before */
    prepare_old(tree);
    assert_int_equal(put_version(tree, "m/p", "before", NULL), 0);
    assert_int_equal(begin_upload(tree), 0);
    assert_int_equal(send_part(tree, 1, "one "), 0);
    char record[128];
    snprintf(record, sizeof record, ".railgate/uploads/*/%s/record", upload_id);
    remove_all(tree, record);
    mkdir(path_of(tree, ".railgate/sidecar"), 0700);
    write_file(tree, ".railgate/tmp/.railgate-tmp-" ORPHAN, "half an object");
    write_file(tree, ".railgate/tmp/.railgate-tmp-" KNOWN, "another");
    write_file(tree, ".railgate/sidecar/" ORPHAN, ""); /* made, and no more */
    write_file(tree, ".railgate/sidecar/" KNOWN, "");
    const struct timespec epoch[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(tree, ".railgate/sidecar/" KNOWN), epoch, 0), 0);
    usleep(1100 * 1000);
}

static int act_sweep(struct tree *tree)
{
    return open_in_child(tree) || tree_sweep(tree, NULL);
}

static void check_sweep(struct tree *tree, bool finished)
{
    assert_int_equal(version_of(tree, "a/b", "old", "old"), 1);
    assert_int_equal(version_of(tree, "m/p", "before", "before"), 1);
    struct rg_upload_info upload;
    assert_int_equal(rg_store_upload_stat(tree->store, BUCKET, KEY, text(upload_id), &upload, NULL),
                     -RG_NO_SUCH_UPLOAD);
    if (finished) {
        assert_int_equal(count_entries(tree, ".railgate/uploads"), 0);
        assert_false(path_exists(tree, ".railgate/tmp/.railgate-tmp-" ORPHAN));
        assert_false(path_exists(tree, ".railgate/sidecar/" KNOWN));
    }
}

static void test_killed_while_sweeping(void **state)
{
    struct tree *tree = *state;
    static const struct scenario sweeping = {"sweep", prepare_leftovers, act_sweep, check_sweep};
    memset(long_value, 'm', sizeof long_value - 1);
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1s");
    tree_open(tree);
    run_scenario(tree, &sweeping);
}

static void test_killed_everywhere(void **state)
{
    struct tree *tree = *state;
    static const struct scenario scenarios[] = {
        {"overwrite", prepare_old, act_overwrite, check_overwrite},
        {"create", prepare_nothing, act_create, check_create},
        {"delete", prepare_alone, act_delete, check_delete},
        {"tags", prepare_tag, act_tag, check_tag},
        {"no tags", prepare_tag, act_untag, check_untag},
        {"metadata in place", prepare_old, act_describe, check_describe},
        {"overwrite by descriptor", prepare_old, act_put_by_descriptor, check_overwrite},
        {"copy", prepare_copy, act_copy, check_copy},
        {"make directory", prepare_no_directory, act_make_directory, check_make_directory},
        {"remove directory", prepare_directory, act_remove_directory, check_remove_directory},
        {"begin upload", prepare_begin, act_begin, check_begin},
        {"part", prepare_upload, act_part, check_part},
        {"part by descriptor", prepare_upload, act_part_by_descriptor, check_part},
        {"part copied", prepare_source, act_part_copy, check_part},
        {"complete", prepare_upload, act_complete, check_complete},
        {"complete of one part", prepare_single, act_complete, check_complete},
        {"abort", prepare_upload, act_abort, check_abort},
        {"make bucket", prepare_no_bucket, act_bucket, check_bucket},
        {"remove bucket", prepare_bucket, act_remove_bucket, check_remove_bucket},
        {"tags of a bucket", prepare_tagged_bucket, act_tag_bucket, check_tag_bucket},
        {"no tags of a bucket", prepare_tagged_bucket, act_untag_bucket, check_untag_bucket},
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
        assert_int_equal(tree_sweep(tree, NULL), 0);
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
        cmocka_unit_test_setup_teardown(test_killed_while_sweeping, tree_setup, tree_teardown),
        cmocka_unit_test(test_every_point), /* the last one: it looks back at the others */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
