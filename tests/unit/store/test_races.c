/*
 * Threads, and two gateways on one tree, that want the same: test-store-races FILESYSTEM MASK
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 8

/* Another gateway on the same tree: shares nothing with the first but the file system. Where there
 * are no shared locks there can be none: then it is the same store. */
static struct rg_store *other_gateway(struct tree *tree)
{
    RG_BUF(summary, 4096);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store *store = NULL;
    int rc = rg_store_posix_open(tree->root, &tree->settings, &store, &summary, &err);
    if (strstr(tree_mask, "locks")) {
        assert_int_equal(rc, -RG_STORAGE_UNSUPPORTED);
        assert_non_null(strstr(err.message, "only one may serve it"));
        return tree->store;
    }
    assert_int_equal(rc, 0);
    return store;
}

static void close_other(struct tree *tree, struct rg_store *other)
{
    if (other != tree->store) {
        rg_store_close(other);
    }
}

struct worker {
    struct tree tree; /* a copy, with the store this thread uses */
    int number;
    pthread_t thread;
    int result;
    _Atomic bool *stop;
};

static void run(struct tree *tree, struct rg_store *other, void *(*work)(void *), size_t count,
                struct worker *workers, _Atomic bool *stop)
{
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.tree = *tree, .number = (int)i, .stop = stop};
        workers[i].tree.store = i % 2 ? other : tree->store;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void join(struct worker *workers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
}

/* ---- One winner ---- */

static void *create_once(void *argument)
{
    struct worker *worker = argument;
    struct rg_conditions create = {.if_none_match = text("*")};
    struct rg_error err = RG_ERROR_INIT;
    char words[16];
    snprintf(words, sizeof words, "%d", worker->number);
    worker->result = try_put(&worker->tree, "dir/one", text(words), NULL, &create, &err);
    return NULL;
}

static void test_one_of_many_creates_wins(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    for (int round = 0; round < 20; round++) {
        struct worker workers[THREADS];
        run(tree, other, create_once, THREADS, workers, NULL);
        join(workers, THREADS);
        int winner = -1;
        for (int i = 0; i < THREADS; i++) {
            if (workers[i].result == 0) {
                assert_int_equal(winner, -1);
                winner = i;
            } else {
                assert_int_equal(workers[i].result, -RG_PRECONDITION_FAILED);
            }
        }
        assert_int_not_equal(winner, -1);
        char words[16];
        snprintf(words, sizeof words, "%d", winner);
        expect(tree, "dir/one", words);
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(try_delete(tree, "dir/one", &err), 0);
    }
    close_other(tree, other);
    expect_no_leftovers(tree, 0);
}

/* ---- A counter kept by If-Match: no update is lost ---- */

#define INCREMENTS 12

static void *count_up(void *argument)
{
    struct worker *worker = argument;
    for (int done = 0; done < INCREMENTS;) {
        RG_BUF(bytes, 100);
        struct rg_object_info info;
        struct rg_error err = RG_ERROR_INIT;
        if (try_get(&worker->tree, "counter", &bytes, &info, &err)) {
            worker->result = -(int)err.code;
            return NULL;
        }
        char words[32];
        snprintf(words, sizeof words, "%d", atoi(rg_buf_text(&bytes)) + 1);
        struct rg_conditions match = {.if_match = text(info.meta.etag)};
        int rc = try_put(&worker->tree, "counter", text(words), NULL, &match, &err);
        rg_object_info_free(&info);
        if (rc && rc != -RG_PRECONDITION_FAILED && rc != -RG_CONDITIONAL_REQUEST_CONFLICT) {
            worker->result = rc;
            return NULL;
        }
        done += rc == 0;
    }
    return NULL;
}

static void test_no_conditional_update_is_lost(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    put(tree, "counter", "0");
    struct worker workers[4];
    run(tree, other, count_up, 4, workers, NULL);
    join(workers, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(workers[i].result, 0);
    }
    char words[32];
    snprintf(words, sizeof words, "%d", 4 * INCREMENTS);
    expect(tree, "counter", words);
    close_other(tree, other);
}

/* ---- Puts and deletes that make and remove the same directories ---- */

static void *put_and_delete(void *argument)
{
    struct worker *worker = argument;
    char key[64];
    snprintf(key, sizeof key, "p/q/%d/r/%d", worker->number % 2, worker->number);
    for (int i = 0; i < 60; i++) {
        struct rg_error err = RG_ERROR_INIT;
        worker->result = try_put(&worker->tree, key, text(key), NULL, NULL, &err);
        if (worker->result == 0) {
            RG_BUF(bytes, 100);
            worker->result = try_get(&worker->tree, key, &bytes, NULL, &err);
            if (worker->result == 0 && strcmp(rg_buf_text(&bytes), key) != 0) {
                worker->result = 1;
            }
        }
        if (worker->result == 0) {
            worker->result = try_delete(&worker->tree, key, &err);
        }
        if (worker->result) {
            fprintf(stderr, "%s: %s\n", key, err.message);
            return NULL;
        }
    }
    return NULL;
}

static void test_directories_come_and_go(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    struct worker workers[THREADS];
    run(tree, other, put_and_delete, THREADS, workers, NULL);
    join(workers, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].result, 0);
    }
    assert_false(path_exists(tree, "p"));
    close_other(tree, other);
    expect_no_leftovers(tree, 0);
}

/* A directory object that was acknowledged is there, whatever goes on below it. */
static void *flicker(void *argument)
{
    struct worker *worker = argument;
    while (!atomic_load(worker->stop)) {
        struct rg_error err = RG_ERROR_INIT;
        int rc = try_put(&worker->tree, "d/e/x", text("x"), NULL, NULL, &err);
        rc = rc ? rc : try_delete(&worker->tree, "d/e/x", &err);
        if (rc) {
            worker->result = rc;
            fprintf(stderr, "%s\n", err.message);
            return NULL;
        }
    }
    return NULL;
}

static void test_directory_objects_are_not_lost(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    _Atomic bool stop = false;
    struct worker workers[2];
    run(tree, other, flicker, 2, workers, &stop);
    for (int i = 0; i < 60; i++) {
        put(tree, "d/e/", "");
        expect(tree, "d/e/", "");
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(try_delete(tree, "d/e/", &err), 0);
    }
    atomic_store(&stop, true);
    join(workers, 2);
    assert_int_equal(workers[0].result, 0);
    assert_int_equal(workers[1].result, 0);
    close_other(tree, other);
}

/* ---- Readers see one version, whole ---- */

#define VERSION_BYTES 100000

static void make_version(char *bytes, int number)
{
    memset(bytes, 'a' + number % 26, VERSION_BYTES);
}

static void *overwrite(void *argument)
{
    struct worker *worker = argument;
    rg_autofree char *bytes = malloc(VERSION_BYTES);
    for (int i = 0; !atomic_load(worker->stop); i++) {
        struct rg_error err = RG_ERROR_INIT;
        make_version(bytes, i * 7 + worker->number);
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, rg_span(bytes, VERSION_BYTES));
        worker->result =
            try_put(&worker->tree, "v", rg_span(bytes, VERSION_BYTES), &meta, NULL, &err);
        if (worker->result) {
            fprintf(stderr, "%s\n", err.message);
            return NULL;
        }
    }
    return NULL;
}

static void test_readers_see_whole_versions(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    rg_autofree char *bytes = malloc(VERSION_BYTES);
    struct rg_error err = RG_ERROR_INIT;
    make_version(bytes, 0);
    assert_int_equal(try_put(tree, "v", rg_span(bytes, VERSION_BYTES), NULL, NULL, &err), 0);
    _Atomic bool stop = false;
    struct worker workers[3];
    run(tree, other, overwrite, 3, workers, &stop);
    for (int i = 0; i < 300; i++) {
        RG_BUF(read, 2 * VERSION_BYTES);
        struct rg_object_info info;
        int rc = try_get(tree, "v", &read, &info, &err);
        if (rc) {
            fprintf(stderr, "%s\n", err.message);
        }
        assert_int_equal(rc, 0);
        assert_int_equal(read.len, VERSION_BYTES);
        assert_false(info.is_foreign);
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, rg_buf_span(&read));
        assert_string_equal(meta.etag, info.meta.etag); /* bytes and metadata of one version */
        rg_object_info_free(&info);
    }
    atomic_store(&stop, true);
    join(workers, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(workers[i].result, 0);
    }
    close_other(tree, other);
    expect_no_leftovers(tree, 0);
}

/* ---- Tags set by many are all set in turn ---- */

static void *set_tags(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 20; i++) {
        struct rg_error err = RG_ERROR_INIT;
        struct rg_pairs tags = RG_PAIRS_INIT;
        char value[300];
        memset(value, 'a' + worker->number, 250);
        value[250] = '\0';
        for (char name[2] = "0"; name[0] <= '5'; name[0]++) {
            worker->result = rg_tags_add(&tags, RG_TAG_OBJECT, text(name), text(value), &err);
        }
        worker->result =
            rg_store_object_tags_set(worker->tree.store, BUCKET, text("tagged"), &tags, &err);
        rg_pairs_free(&tags);
        if (worker->result) {
            fprintf(stderr, "%s\n", err.message);
            return NULL;
        }
    }
    return NULL;
}

static void test_tags_are_never_mixed(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    put(tree, "tagged", "x");
    struct worker workers[4];
    run(tree, other, set_tags, 4, workers, NULL);
    for (int i = 0; i < 200; i++) {
        struct rg_object_info info = info_of(tree, "tagged");
        for (size_t t = 1; t < info.meta.tags.count; t++) {
            assert_string_equal(info.meta.tags.items[0].value, info.meta.tags.items[t].value);
        }
        rg_object_info_free(&info);
    }
    join(workers, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(workers[i].result, 0);
    }
    struct rg_object_info info = info_of(tree, "tagged");
    assert_int_equal(info.meta.tags.count, 6);
    rg_object_info_free(&info);
    close_other(tree, other);
    assert_true(count_entries(tree, ".railgate/sidecar") <= 1);
}

/* ---- Metadata too long for the xattr goes with its version ---- */

static void *put_with_tags(void *argument)
{
    struct worker *worker = argument;
    char value[251];
    memset(value, 'a' + worker->number, 250);
    value[250] = '\0';
    while (!atomic_load(worker->stop)) {
        struct rg_error err = RG_ERROR_INIT;
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, text(value));
        for (char name[2] = "0"; name[0] <= '5'; name[0]++) {
            worker->result = rg_tags_add(&meta.tags, RG_TAG_OBJECT, text(name), text(value), &err);
        }
        worker->result = try_put(&worker->tree, "tags", text(value), &meta, NULL, &err);
        if (worker->result == 0 && worker->number == 0) {
            worker->result = rg_store_object_tags_set(worker->tree.store, BUCKET, text("tags"),
                                                      &meta.tags, &err);
        }
        if (worker->result) {
            fprintf(stderr, "%s\n", err.message);
            return NULL;
        }
    }
    return NULL;
}

static void test_no_version_is_seen_without_its_metadata(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    _Atomic bool stop = false;
    struct worker workers[2];
    put(tree, "tags", "x");
    run(tree, other, put_with_tags, 2, workers, &stop);
    size_t seen = 0;
    for (int i = 0; i < 20000 && seen < 2000; i++) {
        struct rg_object_info info = info_of(tree, "tags");
        bool begun = seen || info.meta.tags.count;
        seen += begun;
        assert_int_equal(info.meta.tags.count, begun ? 6 : 0);
        rg_object_info_free(&info);
    }
    atomic_store(&stop, true);
    join(workers, 2);
    assert_int_equal(workers[0].result, 0);
    assert_int_equal(workers[1].result, 0);
    assert_int_not_equal(seen, 0);
    close_other(tree, other);
    assert_true(count_entries(tree, ".railgate/sidecar") <= 1);
}

/* ---- A bucket is deleted while objects are put into it ---- */

static void *put_until_gone(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 100000; i++) { /* who deletes may be unlucky for a thousand rounds */
        struct rg_error err = RG_ERROR_INIT;
        worker->result = try_put(&worker->tree, "x/y", text("acknowledged"), NULL, NULL, &err);
        if (worker->result == -RG_SLOW_DOWN || worker->result == -RG_OPERATION_ABORTED) {
            continue; /* in the middle of the deletion: an honest "try again" */
        }
        if (worker->result == 0) {
            /* Acknowledged and not deleted by us: it must be there. */
            RG_BUF(bytes, 100);
            worker->result = try_get(&worker->tree, "x/y", &bytes, NULL, &err);
        }
        worker->result = worker->result ? worker->result : try_delete(&worker->tree, "x/y", &err);
        if (worker->result == -RG_SLOW_DOWN) {
            continue;
        }
        if (worker->result) {
            if (worker->result != -RG_NO_SUCH_BUCKET) {
                fprintf(stderr, "%s\n", err.message);
            }
            return NULL;
        }
    }
    return NULL;
}

static void test_deleting_a_bucket_in_use(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    for (int round = 0; round < 5; round++) {
        struct worker worker;
        run(tree, tree->store, put_until_gone, 1, &worker, NULL);
        struct rg_error err = RG_ERROR_INIT;
        int rc;
        do {
            rc = rg_store_bucket_delete(other, BUCKET, &err);
            if (rc && rc != -RG_BUCKET_NOT_EMPTY) {
                fprintf(stderr, "%s: %s\n", rg_code_name((enum rg_code) - rc), err.message);
            }
            assert_true(rc == 0 || rc == -RG_BUCKET_NOT_EMPTY);
        } while (rc);
        join(&worker, 1);
        assert_int_equal(worker.result, -RG_NO_SUCH_BUCKET);
        assert_false(path_exists(tree, ""));
        assert_int_equal(rg_store_bucket_create(tree->store, BUCKET, &err), 0);
    }
    close_other(tree, other);
}

/* ---- One upload, completed by many at once: all are told the same, nothing is taken away ---- */

static char upload_id[RG_UPLOAD_ID_LENGTH + 1];

static struct rg_complete_part send_part(struct tree *tree, uint32_t number)
{
    struct span bytes = text("a part");
    struct rg_part_info part = {.number = number};
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_writer *writer = NULL;
    struct rg_written written;
    struct rg_error err = RG_ERROR_INIT;
    meta_for(&meta, bytes);
    memcpy(part.etag, meta.etag, sizeof part.etag);
    assert_int_equal(rg_store_part_begin(tree->store, BUCKET, text("m/p"), text(upload_id), number,
                                         -1, &writer, &err),
                     0);
    assert_int_equal(rg_store_writer_write(tree->store, writer, bytes.ptr, bytes.len, &err), 0);
    assert_int_equal(rg_store_part_commit(tree->store, writer, &part, &written, &err), 0);
    struct rg_complete_part wanted = {.number = number};
    memcpy(wanted.etag, part.etag, sizeof wanted.etag);
    return wanted;
}

static struct rg_complete_request complete_request;

static void *complete_once(void *argument)
{
    struct worker *worker = argument;
    struct rg_completed completed;
    struct rg_error err = RG_ERROR_INIT;
    worker->result = rg_store_upload_complete(worker->tree.store, BUCKET, text("m/p"),
                                              text(upload_id), &complete_request, &completed, &err);
    if (worker->result) {
        fprintf(stderr, "%s: %s\n", rg_code_name(err.code), err.message);
    }
    return NULL;
}

static void test_an_upload_completed_by_many(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(rg_meta_add_user(&meta, text("kept"), text("yes"), &err), 0);
    for (uint32_t round = 0; round < 30; round++) {
        struct rg_complete_part parts[2];
        uint32_t count = 1 + round % 2;
        assert_int_equal(rg_store_upload_create(tree->store, BUCKET, text("m/p"), &meta,
                                                RG_CHECKSUM_NONE, RG_CHECKSUM_FULL_OBJECT,
                                                upload_id, &err),
                         0);
        for (uint32_t i = 0; i < count; i++) {
            parts[i] = send_part(tree, i + 1);
        }
        complete_request = (struct rg_complete_request){
            .parts = parts, .count = count, .part_size_min = 1, .object_size_max = 1000};
        struct worker workers[THREADS];
        run(tree, other, complete_once, THREADS, workers, NULL);
        join(workers, THREADS);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(workers[i].result, 0);
        }
        struct rg_object_info info = info_of(tree, "m/p");
        assert_false(info.is_foreign);
        assert_int_equal(info.meta.user.count, 1);
        rg_object_info_free(&info);
        expect(tree, "m/p", count == 1 ? "a part" : "a parta part");
    }
    close_other(tree, other);
    assert_int_equal(count_entries(tree, ".railgate/uploads"), 0);
}

/* ---- A lock that is held too long ---- */

static void test_waiting_for_a_lock_ends(void **state)
{
    struct tree *tree = *state;
    struct rg_store *other = other_gateway(tree);
    struct rg_error err = RG_ERROR_INIT;
    struct rg_posix_bucket *bucket = NULL;
    put(tree, "held", "old");
    assert_int_equal(rg_posix_bucket_get(rg_posix_of(other), BUCKET, &bucket, &err), 0);
    assert_int_equal(rg_posix_bucket_ready(bucket, &err), 0);
    struct rg_posix_lock lock;
    rg_posix_lock_wait_ms = 300;
    assert_int_equal(rg_posix_lock_key(bucket, text("held"), RG_SLOW_DOWN, &lock, &err), 0);
    struct rg_conditions match = {.if_match = text("*")};
    assert_int_equal(try_put(tree, "held", text("new"), NULL, NULL, &err), -RG_SLOW_DOWN);
    assert_int_equal(try_put(tree, "held", text("new"), NULL, &match, &err),
                     -RG_CONDITIONAL_REQUEST_CONFLICT);
    assert_int_equal(try_delete(tree, "held", &err), -RG_SLOW_DOWN);
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), -RG_BUCKET_NOT_EMPTY);
    put(tree, "another", "key");
    expect(tree, "held", "old");
    rg_posix_unlock(&lock);
    assert_int_equal(try_put(tree, "held", text("new"), NULL, &match, &err), 0);
    rg_posix_lock_wait_ms = 10000;
    rg_posix_bucket_put(bucket);
    close_other(tree, other);
    expect_no_leftovers(tree, 0);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

int main(int argc, char **argv)
{
    int rc = tree_main(argc, argv);
    if (rc) {
        return rc;
    }
    const struct CMUnitTest tests[] = {
        ON_TREE(test_one_of_many_creates_wins),
        ON_TREE(test_no_conditional_update_is_lost),
        ON_TREE(test_directories_come_and_go),
        ON_TREE(test_directory_objects_are_not_lost),
        ON_TREE(test_readers_see_whole_versions),
        ON_TREE(test_tags_are_never_mixed),
        ON_TREE(test_no_version_is_seen_without_its_metadata),
        ON_TREE(test_deleting_a_bucket_in_use),
        ON_TREE(test_an_upload_completed_by_many),
        ON_TREE(test_waiting_for_a_lock_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
