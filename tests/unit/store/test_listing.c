/*
 * Listing as part of the whole store: objects, directory objects and uploads made through it, files
 * and links made behind its back. What pages hold in detail is tested in test_list.c.
 */
#include "tree.h"

#include "store/posix/posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

static struct rg_list_page list(struct tree *tree, const char *prefix, const char *delimiter,
                                size_t max)
{
    struct rg_list_query query = {
        .prefix = rg_span_text(prefix),
        .delimiter = rg_span_text(delimiter),
        .max = max,
        .want_meta = true,
    };
    struct rg_list_page page;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_store_list(tree->store, BUCKET, &query, &page, &err)) {
        fail_msg("%s", err.message);
    }
    return page;
}

/* The keys of a page of a hundred, joined; a common prefix once more ends in "/". */
static const char *keys_text(struct tree *tree, const char *prefix, const char *delimiter)
{
    static char joined[4096];
    struct rg_list_page page = list(tree, prefix, delimiter, 100);
    assert_false(page.truncated);
    joined[0] = '\0';
    for (size_t i = 0; i < page.count; i++) {
        strcat(strcat(joined, i > 0 ? " " : ""), page.entries[i].key);
        strcat(joined, page.entries[i].is_prefix ? "/" : "");
    }
    rg_list_page_free(&page);
    return joined;
}

static void test_what_was_put_is_listed(void **state)
{
    struct tree *tree = *state;
    put(tree, "a/b", "one");
    put(tree, "a-b", "three");
    put(tree, "d/", "");
    put(tree, "d/x", "");
    write_file(tree, "a/foreign", "12345");
    assert_int_equal(symlink("b", path_of(tree, "a/link")), 0);
    assert_int_equal(symlink("a", path_of(tree, "linked")), 0);
    assert_int_equal(symlink("/etc", path_of(tree, "outside")), 0);

    struct rg_list_page page = list(tree, "", "", 100);
    const char *const keys[] = {"a-b", "a/b",      "a/foreign",      "a/link",     "d/",
                                "d/x", "linked/b", "linked/foreign", "linked/link"};
    const size_t sizes[] = {5, 3, 5, 3, 0, 0, 3, 5, 3};
    assert_int_equal(page.count, RG_ARRAY_LENGTH(keys));
    assert_false(page.truncated);
    for (size_t i = 0; i < page.count; i++) {
        const struct rg_list_entry *entry = &page.entries[i];
        assert_string_equal(entry->key, keys[i]);
        assert_int_equal(entry->size, sizes[i]);
        assert_false(entry->is_prefix);
        /* What a HEAD says, a listing says. */
        struct rg_object_info info = info_of(tree, keys[i]);
        assert_string_equal(entry->etag, info.meta.etag);
        assert_true(rg_checksum_equal(&entry->checksum, &info.meta.checksum));
        assert_int_equal(entry->modified.tv_sec, info.modified.tv_sec);
        assert_int_equal(entry->modified.tv_nsec, info.modified.tv_nsec);
        rg_object_info_free(&info);
    }
    rg_list_page_free(&page);

    page = list(tree, "", "/", 2);
    assert_int_equal(page.count, 2);
    assert_true(page.truncated);
    assert_string_equal(page.entries[1].key, "a/");
    assert_true(page.entries[1].is_prefix);
    rg_list_page_free(&page);

    assert_string_equal(keys_text(tree, "", "/"), "a-b a// d// linked//");
    assert_string_equal(keys_text(tree, "d/", "/"), "d/ d/x");
    assert_string_equal(keys_text(tree, "outside/", "/"), "");
    assert_string_equal(keys_text(tree, ".railgate", ""), "");
}

static void test_changes_show_at_once(void **state)
{
    struct tree *tree = *state;
    put(tree, "kept", "1");
    for (size_t i = 0; i < 30; i++) {
        put(tree, "a/b/c", "2");
        assert_string_equal(keys_text(tree, "", ""), "a/b/c kept");
        put(tree, "a/b/c", "3");
        assert_string_equal(keys_text(tree, "a/", ""), "a/b/c");
        assert_int_equal(try_delete(tree, "a/b/c", NULL), 0);
        assert_string_equal(keys_text(tree, "", "/"), "kept");
        write_file(tree, "foreign", "4");
        assert_string_equal(keys_text(tree, "", ""), "foreign kept");
        assert_int_equal(unlink(path_of(tree, "foreign")), 0);
    }
    struct rg_store_counters counters;
    rg_store_counters(tree->store, &counters);
    assert_true(counters.listing_misses > 0);
    assert_true(counters.listing_bytes > 0);
}

static void test_a_mount_inside_a_bucket(void **state)
{
    struct tree *tree = *state;
    put(tree, "a", "1");
    put(tree, "z", "2");
    assert_int_equal(mkdir(path_of(tree, "mounted"), 0755), 0);
    if (mount("railgate-test", path_of(tree, "mounted"), "tmpfs", 0, "size=1m") < 0) {
        skip();
    }
    write_file(tree, "mounted/file", "3");
    assert_string_equal(keys_text(tree, "", ""), "a mounted/file z");
    write_file(tree, "mounted/more", "4");
    assert_string_equal(keys_text(tree, "mounted/", ""), "mounted/file mounted/more");
    assert_int_equal(umount(path_of(tree, "mounted")), 0);
    assert_string_equal(keys_text(tree, "", ""), "a z");
}

static void test_a_bucket_that_is_not_there(void **state)
{
    struct tree *tree = *state;
    struct rg_list_query query = {.max = 1};
    struct rg_list_page page;
    assert_int_equal(rg_store_list(tree->store, text("nowhere"), &query, &page, NULL),
                     -RG_NO_SUCH_BUCKET);
    struct rg_upload_query uploads = {.max = 1};
    struct rg_upload_page upload_page;
    assert_int_equal(
        rg_store_upload_list(tree->store, text("nowhere"), &uploads, &upload_page, NULL),
        -RG_NO_SUCH_BUCKET);
}

/* ---- Uploads ---- */

static void begin_upload(struct tree *tree, const char *key, char ret_id[RG_UPLOAD_ID_LENGTH + 1])
{
    struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_store_upload_create(tree->store, BUCKET, rg_span_text(key), &meta, RG_CHECKSUM_CRC64NVME,
                               RG_CHECKSUM_FULL_OBJECT, ret_id, &err)) {
        fail_msg("%s", err.message);
    }
}

static struct rg_upload_page list_uploads(struct tree *tree, struct rg_upload_query query)
{
    struct rg_upload_page page;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_store_upload_list(tree->store, BUCKET, &query, &page, &err)) {
        fail_msg("%s", err.message);
    }
    return page;
}

/* All uploads, by pages of `max`: keys and common prefixes, joined. */
static const char *upload_text(struct tree *tree, const char *prefix, const char *delimiter,
                               size_t max)
{
    static char joined[1024];
    char key_marker[64] = "";
    char id_marker[RG_UPLOAD_ID_LENGTH + 1] = "";
    joined[0] = '\0';
    for (bool more = true; more;) {
        struct rg_upload_page page =
            list_uploads(tree, (struct rg_upload_query){
                                   .prefix = rg_span_text(prefix),
                                   .delimiter = rg_span_text(delimiter),
                                   .key_marker = rg_span_text(key_marker),
                                   .upload_id_marker = rg_span_text(id_marker),
                                   .max = max,
                               });
        assert_true(page.count <= max);
        for (size_t i = 0; i < page.count; i++) {
            strcat(strcat(joined, *joined ? " " : ""), page.entries[i].key);
            strcpy(key_marker, page.entries[i].key);
            strcpy(id_marker, page.entries[i].id);
        }
        more = page.truncated;
        assert_true(!more || page.count == max);
        rg_upload_page_free(&page);
    }
    return joined;
}

static void test_uploads(void **state)
{
    struct tree *tree = *state;
    assert_string_equal(upload_text(tree, "", "", 10), "");
    char ids[5][RG_UPLOAD_ID_LENGTH + 1];
    begin_upload(tree, "b/2", ids[0]);
    begin_upload(tree, "a", ids[1]);
    begin_upload(tree, "b/1", ids[2]);
    begin_upload(tree, "a", ids[3]);
    begin_upload(tree, "c", ids[4]);
    for (size_t max = 1; max < 7; max++) {
        assert_string_equal(upload_text(tree, "", "", max), "a a b/1 b/2 c");
        assert_string_equal(upload_text(tree, "", "/", max), "a a b/ c");
        assert_string_equal(upload_text(tree, "b", "", max), "b/1 b/2");
        assert_string_equal(upload_text(tree, "b/", "/", max), "b/1 b/2");
        assert_string_equal(upload_text(tree, "x", "", max), "");
    }
    struct rg_upload_page page = list_uploads(tree, (struct rg_upload_query){.max = 3});
    assert_int_equal(page.count, 3);
    assert_true(page.truncated);
    assert_string_equal(page.entries[0].id, ids[1]);
    assert_string_equal(page.entries[1].id, ids[3]);
    assert_int_equal(page.entries[0].checksum_algorithm, RG_CHECKSUM_CRC64NVME);
    rg_upload_page_free(&page);

    page = list_uploads(tree, (struct rg_upload_query){.max = 0});
    assert_int_equal(page.count, 0);
    assert_false(page.truncated);

    /* The upload that the marker names went away: its key is told again, nothing is lost. */
    struct rg_upload_query gone = {
        .key_marker = rg_span_text("a"), .upload_id_marker = rg_span_text(ids[1]), .max = 10};
    assert_int_equal(
        rg_store_upload_abort(tree->store, BUCKET, rg_span_text("a"), rg_span_text(ids[1]), NULL),
        0);
    page = list_uploads(tree, gone);
    assert_int_equal(page.count, 4);
    assert_string_equal(page.entries[0].id, ids[3]);
    rg_upload_page_free(&page);

    /* Without an id, everything of the key is behind. */
    page = list_uploads(tree,
                        (struct rg_upload_query){.key_marker = RG_SPAN_LITERAL("b/1"), .max = 10});
    assert_int_equal(page.count, 2);
    assert_string_equal(page.entries[0].id, ids[0]);
    rg_upload_page_free(&page);

    /* Uploads are no keys. */
    struct rg_list_page keys = list(tree, "", "", 10);
    assert_int_equal(keys.count, 0);
    rg_list_page_free(&keys);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

int main(int argc, char **argv)
{
    int rc = tree_main(argc, argv);
    if (rc) {
        return rc;
    }
    const struct CMUnitTest tests[] = {
        ON_TREE(test_what_was_put_is_listed),
        ON_TREE(test_changes_show_at_once),
        ON_TREE(test_a_mount_inside_a_bucket),
        ON_TREE(test_a_bucket_that_is_not_there),
        ON_TREE(test_uploads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
