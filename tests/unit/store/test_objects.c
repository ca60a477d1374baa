/*
 * Objects on one kind of tree: test-store-objects FILESYSTEM MASK
 */
#include "tree.h"

#include "s3/names.h"
#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_masked(const char *word)
{
    return strstr(tree_mask, word) != NULL;
}

static void test_put_get_overwrite_delete(void **state)
{
    struct tree *tree = *state;
    put(tree, "a", "one");
    expect(tree, "a", "one");
    put(tree, "a", "two and more");
    expect(tree, "a", "two and more");
    put(tree, "empty", "");
    expect(tree, "empty", "");
    put(tree, "d/e/f", "deep");
    expect(tree, "d/e/f", "deep");
    expect_absent(tree, "d");
    expect_absent(tree, "d/");
    expect_absent(tree, "d/e");
    expect_absent(tree, "b");
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(try_delete(tree, "a", &err), 0);
    assert_int_equal(try_delete(tree, "a", &err), 0);
    expect_absent(tree, "a");
    expect_no_leftovers(tree, 0);
}

static void test_info_says_what_was_put(void **state)
{
    struct tree *tree = *state;
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    meta_for(&meta, text("bytes"));
    assert_int_equal(rg_meta_set_header(&meta, RG_META_CONTENT_TYPE, text("text/plain"), &err), 0);
    assert_int_equal(rg_meta_add_user(&meta, text("Colour"), text("blue"), &err), 0);
    assert_int_equal(rg_tags_add(&meta.tags, RG_TAG_OBJECT, text("k"), text("v"), &err), 0);
    struct timespec before;
    clock_gettime(CLOCK_REALTIME, &before);
    assert_int_equal(try_put(tree, "a", text("bytes"), &meta, NULL, &err), 0);
    struct rg_object_info info = info_of(tree, "a");
    assert_int_equal(info.size, 5);
    assert_false(info.is_foreign);
    assert_false(info.is_directory);
    assert_true(rg_meta_equal(&info.meta, &meta));
    assert_true(info.modified.tv_sec >= before.tv_sec &&
                info.modified.tv_sec <= before.tv_sec + 60);
    rg_object_info_free(&info);

    struct stat st;
    assert_int_equal(stat(path_of(tree, "a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_nlink, 1);
}

static void test_modes_do_not_depend_on_the_umask(void **state)
{
    struct tree *tree = *state;
    mode_t old = umask(0777);
    put(tree, "x/y", "z");
    umask(old);
    struct stat st;
    assert_int_equal(stat(path_of(tree, "x"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0750);
    assert_int_equal(stat(path_of(tree, "x/y"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

/* Every way in which bytes can be cut into calls gives the same file. */
static void test_large_objects_in_all_kinds_of_pieces(void **state)
{
    struct tree *tree = *state;
    static const size_t pieces[] = {1000, 4096, 65536, 1 << 20, (1 << 20) + 1, 3 << 20, 5000011};
    const size_t size = 5000011;
    char *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)('a' + i * 2654435761u % 26);
    }
    bytes[size] = '\0';
    for (size_t p = 0; p < RG_ARRAY_LENGTH(pieces) * 2; p++) {
        size_t piece = pieces[p / 2];
        struct rg_error err = RG_ERROR_INIT;
        struct rg_writer *writer = NULL;
        assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("big"),
                                            p % 2 ? (int64_t)size : -1, &writer, &err),
                         0);
        for (size_t at = 0; at < size; at += piece) {
            size_t len = size - at < piece ? size - at : piece;
            assert_int_equal(rg_store_writer_write(tree->store, writer, bytes + at, len, &err), 0);
        }
        RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
        meta_for(&meta, rg_span(bytes, size));
        struct rg_written written;
        assert_int_equal(rg_store_put_commit(tree->store, writer, &meta, NULL, &written, &err), 0);
        assert_int_equal(written.size, size);
        assert_string_equal(written.etag, meta.etag);
        expect(tree, "big", bytes);
    }
    free(bytes);
}

static void test_writing_by_the_descriptor(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_writer *writer = NULL;
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("fd"), 4 << 20, &writer, &err),
                     0);
    int fd = rg_store_writer_fd(tree->store, writer);
    assert_int_equal(pwrite(fd, "0123456789", 10, 0), 10);
    assert_int_equal(rg_store_writer_written(tree->store, writer, 7, &err), 0);
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text("0123456"));
    struct rg_written written;
    assert_int_equal(rg_store_put_commit(tree->store, writer, &meta, NULL, &written, &err), 0);
    expect(tree, "fd", "0123456");
    struct stat st;
    assert_int_equal(stat(path_of(tree, "fd"), &st), 0);
    assert_true(st.st_blocks * 512 < 1 << 20); /* what was reserved too much is given back */

    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("fd"), -1, &writer, &err), 0);
    assert_int_equal(rg_store_writer_written(tree->store, writer, 7, &err), 0);
    assert_int_equal(rg_store_put_commit(tree->store, writer, &meta, NULL, &written, &err),
                     -RG_STORAGE_FAULT);
    expect(tree, "fd", "0123456");
}

static void test_an_aborted_writer_leaves_nothing(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_writer *writer = NULL;
    put(tree, "a", "old");
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("a"), 3, &writer, &err), 0);
    assert_int_equal(rg_store_writer_write(tree->store, writer, "new", 3, &err), 0);
    rg_store_writer_abort(tree->store, writer);
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("p/q/r"), 3, &writer, &err), 0);
    rg_store_writer_abort(tree->store, writer);
    expect(tree, "a", "old");
    assert_false(path_exists(tree, "p"));
    expect_no_leftovers(tree, 0);
}

static struct rg_conditions if_match(const char *etag)
{
    return (struct rg_conditions){.if_match = text(etag)};
}

static void test_conditions(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_conditions create = {.if_none_match = text("*")};
    assert_int_equal(try_put(tree, "a", text("1"), NULL, &create, &err), 0);
    assert_int_equal(try_put(tree, "a", text("2"), NULL, &create, &err), -RG_PRECONDITION_FAILED);
    expect(tree, "a", "1");
    struct rg_object_info info = info_of(tree, "a");
    struct rg_conditions match = if_match(info.meta.etag);
    assert_int_equal(try_put(tree, "a", text("3"), NULL, &match, &err), 0);
    assert_int_equal(try_put(tree, "a", text("4"), NULL, &match, &err), -RG_PRECONDITION_FAILED);
    assert_int_equal(try_put(tree, "none", text("4"), NULL, &match, &err), -RG_NO_SUCH_KEY);
    expect(tree, "a", "3");
    assert_int_equal(rg_store_object_delete(tree->store, BUCKET, text("a"), &match, &err),
                     -RG_PRECONDITION_FAILED);
    expect(tree, "a", "3");
    assert_int_equal(rg_store_object_delete(tree->store, BUCKET, text("none"), &match, &err),
                     -RG_NO_SUCH_KEY);
    assert_int_equal(rg_store_object_delete(tree->store, BUCKET, text("no/ne"), &match, &err),
                     -RG_NO_SUCH_KEY);
    rg_object_info_free(&info);
    info = info_of(tree, "a");
    match = if_match(info.meta.etag);
    assert_int_equal(rg_store_object_delete(tree->store, BUCKET, text("a"), &match, &err), 0);
    expect_absent(tree, "a");
    rg_object_info_free(&info);
    assert_int_equal(try_put(tree, "a", text("5"), NULL, &create, &err), 0);
    /* What another program makes is an object too. */
    write_file(tree, "foreign", "x");
    assert_int_equal(try_put(tree, "foreign", text("y"), NULL, &create, &err),
                     -RG_PRECONDITION_FAILED);
    expect_no_leftovers(tree, 0);
}

static void test_a_file_and_a_directory_of_one_name_conflict(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "a", "file");
    assert_int_equal(try_put(tree, "a/b", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_non_null(strstr(err.message, "\"a/b\""));
    assert_non_null(strstr(err.message, "\"a\""));
    assert_int_equal(try_put(tree, "a/b/c/d", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_int_equal(try_put(tree, "a/", text(""), NULL, NULL, &err), -RG_NAME_CONFLICT);
    expect_absent(tree, "a/");
    expect_absent(tree, "a/b");
    assert_int_equal(try_delete(tree, "a/b", &err), 0);
    assert_int_equal(try_delete(tree, "a/", &err), 0);
    expect(tree, "a", "file");
    put(tree, "d/e", "file");
    assert_int_equal(try_put(tree, "d", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_non_null(strstr(err.message, "\"d\""));
    assert_non_null(strstr(err.message, "\"d/\""));
    assert_int_equal(try_delete(tree, "d", &err), 0);
    expect(tree, "d/e", "file");
    /* An empty directory that is no object is no obstacle. */
    assert_int_equal(mkdir(path_of(tree, "left"), 0755), 0);
    put(tree, "left", "over");
    expect(tree, "left", "over");
    expect_no_leftovers(tree, 0);
}

static void test_directory_objects(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "d/", "");
    struct rg_object_info info = info_of(tree, "d/");
    assert_true(info.is_directory);
    assert_int_equal(info.size, 0);
    assert_string_equal(info.meta.etag, "d41d8cd98f00b204e9800998ecf8427e");
    rg_object_info_free(&info);
    expect_absent(tree, "d");
    assert_int_equal(try_put(tree, "d/", text("bytes"), NULL, NULL, &err), -RG_INVALID_OBJECT_NAME);
    put(tree, "d/x/y", "1");
    assert_int_equal(try_delete(tree, "d/x/y", &err), 0);
    assert_false(path_exists(tree, "d/x"));
    expect(tree, "d/", "");
    struct rg_conditions create = {.if_none_match = text("*")};
    assert_int_equal(try_put(tree, "d/", text(""), NULL, &create, &err), -RG_PRECONDITION_FAILED);
    assert_int_equal(try_put(tree, "e/f/", text(""), NULL, &create, &err), 0);
    put(tree, "d/z", "1");
    assert_int_equal(try_delete(tree, "d/", &err), 0);
    expect_absent(tree, "d/");
    expect(tree, "d/z", "1");
    assert_int_equal(try_delete(tree, "d/z", &err), 0);
    assert_false(path_exists(tree, "d"));
    assert_int_equal(try_delete(tree, "e/f/", &err), 0);
    assert_false(path_exists(tree, "e"));
}

static void test_deleting_takes_empty_parents_along(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "p/q/r/s", "1");
    put(tree, "p/t", "2");
    assert_int_equal(try_delete(tree, "p/q/r/s", &err), 0);
    assert_false(path_exists(tree, "p/q"));
    assert_true(path_exists(tree, "p/t"));
    assert_int_equal(try_delete(tree, "p/t", &err), 0);
    assert_false(path_exists(tree, "p"));
    assert_true(path_exists(tree, ""));
}

static void test_files_of_other_programs(void **state)
{
    struct tree *tree = *state;
    write_file(tree, "f", "foreign");
    struct rg_object_info info = info_of(tree, "f");
    assert_true(info.is_foreign);
    assert_int_equal(info.meta.checksum.algorithm, RG_CHECKSUM_NONE);
    assert_false(info.meta.etag_is_md5);
    assert_false(rg_etag_looks_md5(text(info.meta.etag)));
    struct rg_object_info again = info_of(tree, "f");
    assert_string_equal(info.meta.etag, again.meta.etag);
    rg_object_info_free(&again);
    expect(tree, "f", "foreign");

    /* Written by us, changed by another: metadata stays, what is known of the bytes does not. */
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    struct rg_error err = RG_ERROR_INIT;
    meta_for(&meta, text("ours"));
    assert_int_equal(rg_meta_add_user(&meta, text("colour"), text("blue"), &err), 0);
    assert_int_equal(try_put(tree, "g", text("ours"), &meta, NULL, &err), 0);
    write_file(tree, "g", "theirs!");
    again = info_of(tree, "g");
    assert_true(again.is_foreign);
    assert_string_not_equal(again.meta.etag, meta.etag);
    assert_int_equal(again.meta.checksum.algorithm, RG_CHECKSUM_NONE);
    assert_string_equal(rg_pairs_find(&again.meta.user, text("colour")), "blue");
    assert_int_equal(again.size, 7);
    rg_object_info_free(&again);

    /* The same size, another time. */
    assert_int_equal(try_put(tree, "h", text("ours"), &meta, NULL, &err), 0);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {1000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(tree, "h"), times, 0), 0);
    again = info_of(tree, "h");
    assert_true(again.is_foreign);
    rg_object_info_free(&again);

    struct rg_conditions match = if_match(info.meta.etag);
    assert_int_equal(try_put(tree, "f", text("new"), NULL, &match, &err), 0);
    expect(tree, "f", "new");
    rg_object_info_free(&info);
}

static void set(const char *path, const char *name, const char *value)
{
    assert_int_equal(setxattr(path, name, value, strlen(value), 0), 0);
}

static void test_trees_of_versitygw(void **state)
{
    struct tree *tree = *state;
    write_file(tree, "v", "hello");
    const char *v = path_of(tree, "v");
    set(v, "user.etag", "\"5d41402abc4b2a76b9719d911017c592\"");
    set(v, "user.metadata", "{\"colour\":\"blue\",\"bad\\u0001\":\"x\",\"n\":1}");
    set(v, "user.content-type", "text/plain");
    set(v, "user.X-Amz-Tagging", "{\"a\":\"b\"}");
    set(v, "user.checksums",
        "{\"Algorithm\":\"CRC32\",\"Type\":\"FULL_OBJECT\",\"CRC32\":\"NhCmhg==\"}");
    struct rg_object_info info = info_of(tree, "v");
    assert_false(info.is_foreign);
    assert_string_equal(info.meta.etag, "5d41402abc4b2a76b9719d911017c592");
    assert_true(info.meta.etag_is_md5);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("colour")), "blue");
    assert_int_equal(info.meta.user.count, 1);
    assert_string_equal(info.meta.header[RG_META_CONTENT_TYPE], "text/plain");
    assert_string_equal(rg_pairs_find(&info.meta.tags, text("a")), "b");
    assert_int_equal(info.meta.checksum.algorithm, RG_CHECKSUM_CRC32);
    assert_int_equal(info.meta.checksum.bytes[0], 0x36);
    rg_object_info_free(&info);

    /* The first change puts all of it into our record. */
    struct rg_error err = RG_ERROR_INIT;
    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, text("c"), text("d"), &err), 0);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("v"), &tags, &err), 0);
    rg_pairs_free(&tags);
    assert_true(getxattr(v, RG_POSIX_XATTR, NULL, 0) > 0);
    info = info_of(tree, "v");
    assert_false(info.is_foreign);
    assert_string_equal(info.meta.etag, "5d41402abc4b2a76b9719d911017c592");
    assert_string_equal(rg_pairs_find(&info.meta.user, text("colour")), "blue");
    assert_null(rg_pairs_find(&info.meta.tags, text("a")));
    assert_string_equal(rg_pairs_find(&info.meta.tags, text("c")), "d");
    rg_object_info_free(&info);

    /* An older tree, and one that is damaged. */
    write_file(tree, "old", "hello");
    const char *old = path_of(tree, "old");
    set(old, "user.etag", "\"5d41402abc4b2a76b9719d911017c592\"");
    set(old, "user.X-Amz-Meta.Shape", "round");
    info = info_of(tree, "old");
    assert_string_equal(rg_pairs_find(&info.meta.user, text("shape")), "round");
    rg_object_info_free(&info);
    write_file(tree, "bad", "hello");
    const char *bad = path_of(tree, "bad");
    set(bad, "user.etag", "\"\"");
    set(bad, "user.metadata", "{\"colour\":");
    set(bad, "user.X-Amz-Tagging", "[1,2]");
    set(bad, "user.checksums", "{\"Algorithm\":7}");
    info = info_of(tree, "bad");
    assert_true(info.is_foreign);
    rg_object_info_free(&info);

    assert_int_equal(mkdir(path_of(tree, "vd"), 0755), 0);
    expect_absent(tree, "vd/");
    set(path_of(tree, "vd"), "user.etag", "\"d41d8cd98f00b204e9800998ecf8427e\"");
    info = info_of(tree, "vd/");
    assert_true(info.is_directory);
    rg_object_info_free(&info);
    assert_int_equal(try_delete(tree, "vd/", &err), 0);
    assert_false(path_exists(tree, "vd"));
}

static void test_damaged_records_make_foreign_files(void **state)
{
    struct tree *tree = *state;
    put(tree, "a", "bytes");
    set(path_of(tree, "a"), RG_POSIX_XATTR, "R\x01\xff\xff\xff\xff\xff");
    struct rg_object_info info = info_of(tree, "a");
    assert_true(info.is_foreign);
    rg_object_info_free(&info);
    put(tree, "a", "again");
    info = info_of(tree, "a");
    assert_false(info.is_foreign);
    rg_object_info_free(&info);
}

static void test_tags(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "a", "bytes");
    struct rg_object_info before = info_of(tree, "a");
    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_tags_add(&tags, RG_TAG_OBJECT, text("k"), text("v"), &err), 0);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("a"), &tags, &err), 0);
    struct rg_object_info after = info_of(tree, "a");
    assert_false(after.is_foreign);
    assert_string_equal(after.meta.etag, before.meta.etag);
    assert_int_equal(after.modified.tv_sec, before.modified.tv_sec);
    assert_int_equal(after.modified.tv_nsec, before.modified.tv_nsec);
    assert_string_equal(rg_pairs_find(&after.meta.tags, text("k")), "v");
    rg_object_info_free(&after);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("a"), NULL, &err), 0);
    after = info_of(tree, "a");
    assert_int_equal(after.meta.tags.count, 0);
    assert_true(rg_meta_equal(&after.meta, &before.meta));
    rg_object_info_free(&after);
    rg_object_info_free(&before);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("none"), &tags, &err),
                     -RG_NO_SUCH_KEY);
    /* A foreign file keeps its ETag. */
    write_file(tree, "f", "foreign");
    before = info_of(tree, "f");
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("f"), &tags, &err), 0);
    after = info_of(tree, "f");
    assert_string_equal(after.meta.etag, before.meta.etag);
    assert_string_equal(rg_pairs_find(&after.meta.tags, text("k")), "v");
    rg_object_info_free(&after);
    rg_object_info_free(&before);
    put(tree, "d/", "");
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("d/"), &tags, &err), 0);
    after = info_of(tree, "d/");
    assert_string_equal(rg_pairs_find(&after.meta.tags, text("k")), "v");
    rg_object_info_free(&after);
    rg_pairs_free(&tags);
}

static void test_copy_onto_itself(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "a", "bytes");
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0}};
    (void)times;
    struct rg_object_info before = info_of(tree, "a");
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(rg_meta_copy(&before.meta, &meta, &err), 0);
    assert_int_equal(rg_meta_add_user(&meta, text("new"), text("1"), &err), 0);
    struct rg_written written;
    assert_int_equal(
        rg_store_object_meta_set(tree->store, BUCKET, text("a"), "other", &meta, &written, &err),
        -RG_PRECONDITION_FAILED);
    usleep(20000);
    assert_int_equal(rg_store_object_meta_set(tree->store, BUCKET, text("a"), before.meta.etag,
                                              &meta, &written, &err),
                     0);
    assert_string_equal(written.etag, before.meta.etag);
    assert_int_equal(written.size, 5);
    struct rg_object_info after = info_of(tree, "a");
    assert_false(after.is_foreign);
    assert_true(rg_meta_equal(&after.meta, &meta));
    assert_int_equal(after.modified.tv_sec, written.modified.tv_sec);
    assert_int_equal(after.modified.tv_nsec, written.modified.tv_nsec);
    assert_true(after.modified.tv_sec > before.modified.tv_sec ||
                after.modified.tv_nsec > before.modified.tv_nsec);
    rg_object_info_free(&after);
    rg_object_info_free(&before);
    expect(tree, "a", "bytes");
    /* Tags set afterwards leave that time alone. */
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("a"), NULL, &err), 0);
    after = info_of(tree, "a");
    assert_int_equal(after.modified.tv_nsec, written.modified.tv_nsec);
    rg_object_info_free(&after);
}

static void test_copy(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    const size_t size = (3 << 20) + 777;
    char *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)('a' + i * 40503u % 23);
    }
    bytes[size] = '\0';
    assert_int_equal(try_put(tree, "from", rg_span(bytes, size), NULL, NULL, &err), 0);
    struct rg_object *source = NULL;
    assert_int_equal(rg_store_object_open(tree->store, BUCKET, text("from"), &source, &err), 0);
    const struct rg_object_info *info = rg_store_object_info(tree->store, source);
    struct rg_written written;
    assert_int_equal(rg_store_object_copy(tree->store, source, BUCKET, text("to/here"), &info->meta,
                                          NULL, &written, &err),
                     0);
    assert_string_equal(written.etag, info->meta.etag);
    expect(tree, "to/here", bytes);
    struct rg_object_info copied = info_of(tree, "to/here");
    assert_true(rg_meta_equal(&copied.meta, &info->meta));
    rg_object_info_free(&copied);
    struct rg_posix_mount *mount = rg_posix_of(tree->store)->root_mount;
    enum rg_copy_used expected = atomic_load(&mount->reflink)      ? RG_COPY_USED_REFLINK
                                 : atomic_load(&mount->copy_range) ? RG_COPY_USED_RANGE
                                                                   : RG_COPY_USED_PLAIN;
    assert_int_equal(written.copy, expected);
    struct rg_store_counters counters;
    rg_store_counters(tree->store, &counters);
    assert_int_equal(counters.copy_bytes[expected], size);
    struct rg_conditions create = {.if_none_match = text("*")};
    assert_int_equal(rg_store_object_copy(tree->store, source, BUCKET, text("to/here"), &info->meta,
                                          &create, &written, &err),
                     -RG_PRECONDITION_FAILED);
    /* The source stays what it was when it was opened. */
    put(tree, "from", "other");
    assert_int_equal(rg_store_object_copy(tree->store, source, BUCKET, text("third"), &info->meta,
                                          NULL, &written, &err),
                     0);
    expect(tree, "third", bytes);
    rg_store_object_close(tree->store, source);
    free(bytes);
    expect_no_leftovers(tree, 0);
}

/* 3 KB of metadata and tags in records that only have a little room. */
static void test_long_metadata(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    bool small = rg_posix_of(tree->store)->root_mount->xattr_max < 8000;
    size_t sidecars = small ? 1 : 0;
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text("bytes"));
    char long_value[2001];
    memset(long_value, 'm', 2000);
    long_value[2000] = '\0';
    assert_int_equal(rg_meta_add_user(&meta, text("long"), text(long_value), &err), 0);
    for (int i = 0; i < 10; i++) {
        char name[130];
        snprintf(name, sizeof name, "tag-%d-%0100d", i, i);
        assert_int_equal(
            rg_tags_add(&meta.tags, RG_TAG_OBJECT, text(name), rg_span(long_value, 250), &err), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_put(tree, "a/b", text("bytes"), &meta, NULL, &err), 0);
        struct rg_object_info info = info_of(tree, "a/b");
        assert_true(rg_meta_equal(&info.meta, &meta));
        rg_object_info_free(&info);
        expect_no_leftovers(tree, sidecars);
    }
    struct stat st;
    struct rg_posix_brief brief;
    struct rg_posix_bucket *bucket = NULL;
    assert_int_equal(rg_posix_bucket_get(rg_posix_of(tree->store), BUCKET, &bucket, &err), 0);
    int dir = open(path_of(tree, "a"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(fstatat(dir, "b", &st, 0), 0);
    assert_int_equal(rg_posix_brief_read(bucket, dir, "b", &st, &brief, &err), 0);
    assert_string_equal(brief.etag, meta.etag);
    assert_true(rg_checksum_equal(&brief.checksum, &meta.checksum));
    assert_false(brief.is_foreign);
    close(dir);
    rg_posix_bucket_put(bucket);

    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), NULL, &err), 0);
    struct rg_object_info info = info_of(tree, "a/b");
    assert_int_equal(info.meta.tags.count, 0);
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), long_value);
    rg_object_info_free(&info);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("a/b"), &meta.tags, &err),
                     0);
    info = info_of(tree, "a/b");
    assert_true(rg_meta_equal(&info.meta, &meta));
    rg_object_info_free(&info);
    expect_no_leftovers(tree, sidecars);

    put(tree, "a/b", "short");
    expect_no_leftovers(tree, 0);
    assert_int_equal(try_put(tree, "a/b", text("bytes"), &meta, NULL, &err), 0);
    assert_int_equal(try_delete(tree, "a/b", &err), 0);
    expect_no_leftovers(tree, 0);
    struct rg_conditions match = if_match("nothing");
    assert_int_equal(try_put(tree, "a/b", text("bytes"), &meta, &match, &err), -RG_NO_SUCH_KEY);
    expect_no_leftovers(tree, 0);
    assert_int_equal(try_put(tree, "dir/", text(""), &meta, NULL, &err), 0);
    expect_no_leftovers(tree, sidecars);
    assert_int_equal(try_delete(tree, "dir/", &err), 0);
    expect_no_leftovers(tree, 0);
}

/* As cp -a does, within the bucket. */
static void copy_as_others_do(struct tree *tree, const char *from, const char *to)
{
    char record[8192];
    char bytes[256];
    struct stat st;
    int source = open(path_of(tree, from), O_RDONLY);
    int target = open(path_of(tree, to), O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(source >= 0 && target >= 0);
    assert_int_equal(fstat(source, &st), 0);
    ssize_t len = read(source, bytes, sizeof bytes);
    assert_int_equal(write(target, bytes, (size_t)len), len);
    len = fgetxattr(source, RG_POSIX_XATTR, record, sizeof record);
    assert_true(len > 0);
    assert_int_equal(fsetxattr(target, RG_POSIX_XATTR, record, (size_t)len, 0), 0);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(futimens(target, times), 0);
    close(source);
    close(target);
}

static void expect_long(struct tree *tree, const char *key)
{
    struct rg_object_info info = info_of(tree, key);
    const char *value = rg_pairs_find(&info.meta.user, text("long"));
    assert_non_null(value);
    assert_int_equal(strlen(value), 2000);
    rg_object_info_free(&info);
}

/* A record too long for the xattr, which several files point to because another program made them:
 * what becomes of one of them is not felt by the others. */
static void test_long_metadata_that_is_shared(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    RG_CLEANUP(rg_meta_free) struct rg_meta tagged = RG_META_INIT;
    meta_for(&meta, text("bytes"));
    char long_value[2001];
    memset(long_value, 'm', 2000);
    long_value[2000] = '\0';
    assert_int_equal(rg_meta_add_user(&meta, text("long"), text(long_value), &err), 0);
    assert_int_equal(rg_tags_add(&tagged.tags, RG_TAG_OBJECT, text("a"), text("b"), &err), 0);

    assert_int_equal(try_put(tree, "own", text("bytes"), &meta, NULL, &err), 0);
    copy_as_others_do(tree, "own", "deleted");
    copy_as_others_do(tree, "own", "replaced");
    copy_as_others_do(tree, "own", "tagged");
    expect_long(tree, "tagged");
    assert_int_equal(try_delete(tree, "deleted", &err), 0);
    expect_long(tree, "own");
    put(tree, "replaced", "short");
    expect_long(tree, "own");
    assert_int_equal(
        rg_store_object_tags_set(tree->store, BUCKET, text("tagged"), &tagged.tags, &err), 0);
    expect_long(tree, "tagged");
    expect_long(tree, "own");

    assert_int_equal(link(path_of(tree, "own"), path_of(tree, "other")), 0);
    put(tree, "own", "short");
    expect_long(tree, "other");
    assert_int_equal(try_put(tree, "own", text("bytes"), &meta, NULL, &err), 0);
    assert_int_equal(link(path_of(tree, "own"), path_of(tree, "third")), 0);
    assert_int_equal(try_delete(tree, "own", &err), 0);
    expect_long(tree, "third");
}

static void test_links_do_not_lead_out(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "in/file", "inside");
    assert_int_equal(symlink("/etc/passwd", path_of(tree, "abs")), 0);
    assert_int_equal(symlink("../../../../../../etc", path_of(tree, "in/up")), 0);
    assert_int_equal(symlink("in/file", path_of(tree, "good")), 0);
    assert_int_equal(symlink("in", path_of(tree, "dir")), 0);
    assert_int_equal(symlink("nowhere", path_of(tree, "void")), 0);
    assert_int_equal(symlink("loop", path_of(tree, "loop")), 0);
    expect_absent(tree, "abs");
    expect_absent(tree, "in/up/passwd");
    expect_absent(tree, "void");
    expect_absent(tree, "loop");
    expect(tree, "good", "inside");
    expect(tree, "dir/file", "inside");
    assert_int_equal(try_put(tree, "dir/new", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_non_null(strstr(err.message, "symbolic link"));
    assert_int_equal(try_put(tree, "in/up/x", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_false(path_exists(tree, "in/new"));
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("good"), NULL, &err),
                     -RG_ACCESS_DENIED);
    /* The link is replaced, what it pointed to stays. */
    put(tree, "good", "mine now");
    expect(tree, "good", "mine now");
    expect(tree, "in/file", "inside");
    put(tree, "abs", "mine now");
    put(tree, "void", "mine now");
    expect(tree, "void", "mine now");
    assert_false(path_exists(tree, "nowhere"));
    assert_int_equal(symlink("in/file", path_of(tree, "gone")), 0);
    assert_int_equal(try_delete(tree, "gone", &err), 0);
    assert_false(path_exists(tree, "gone"));
    expect(tree, "in/file", "inside");
    assert_int_equal(symlink(tree->root, path_of(tree, "../link-bucket")), 0);
    struct rg_bucket_info info;
    assert_int_equal(rg_store_bucket_stat(tree->store, text("link-bucket"), &info, &err),
                     -RG_NO_SUCH_BUCKET);
}

static void test_what_is_no_file(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(mkfifo(path_of(tree, "fifo"), 0644), 0);
    expect_absent(tree, "fifo"); /* and does not hang */
    assert_int_equal(try_put(tree, "fifo", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_int_equal(try_put(tree, "fifo/x", text("x"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, text("fifo"), NULL, &err),
                     -RG_NO_SUCH_KEY);
    assert_int_equal(try_delete(tree, "fifo", &err), 0);
    assert_true(path_exists(tree, "fifo"));
}

static void test_awkward_names(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    const char *const good[] = {
        " ",   "a b",    "new\nline", "tab\t",    "\xff\xfe bytes",  "...",        "..a/..b", "-rf",
        "*?[", "%2e%2e", "\"'\\",     "\x01\x7f", "a/b\xe2\x80\xae", ".hidden/.x", longest,
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        put(tree, good[i], good[i]);
        expect(tree, good[i], good[i]);
    }
    const char *const bad[] = {
        "/a",
        "a//b",
        ".",
        "..",
        "a/../b",
        "./a",
        "a/.",
        "//",
        "/",
        ".railgate/x",
        ".railgate",
        ".railgate-tmp-1",
        "a/.railgate-tmp-1/b",
        ".sgwtmp/x",
        ".lustre/fid",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_int_equal(try_put(tree, bad[i], text("x"), NULL, NULL, &err),
                         -RG_INVALID_OBJECT_NAME);
        expect_absent(tree, bad[i]);
        assert_int_equal(try_delete(tree, bad[i], &err), 0);
    }
    char too_long[300];
    memset(too_long, 'n', 256);
    too_long[256] = '\0';
    assert_int_equal(try_put(tree, too_long, text("x"), NULL, NULL, &err), -RG_INVALID_OBJECT_NAME);
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, rg_span("a\0b", 3), 1,
                                        &(struct rg_writer *){NULL}, &err),
                     -RG_INVALID_OBJECT_NAME);
    char deep[1025];
    for (size_t i = 0; i < 1024; i++) {
        deep[i] = i % 2 ? '/' : 'd';
    }
    deep[1023] = 'd';
    deep[1024] = '\0';
    put(tree, deep, "deep");
    expect(tree, deep, "deep");
    assert_int_equal(try_delete(tree, deep, &err), 0);
    assert_false(path_exists(tree, "d"));
}

static void test_an_open_object_is_one_version(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "a", "first");
    struct rg_object *object = NULL;
    assert_int_equal(rg_store_object_open(tree->store, BUCKET, text("a"), &object, &err), 0);
    put(tree, "a", "second");
    assert_int_equal(try_delete(tree, "a", &err), 0);
    char buffer[16];
    size_t len = 0;
    assert_int_equal(
        rg_store_object_read(tree->store, object, 1, buffer, sizeof buffer, &len, &err), 0);
    assert_int_equal(len, 4);
    assert_memory_equal(buffer, "irst", 4);
    assert_int_equal(rg_store_object_read(tree->store, object, 99, buffer, 3, &len, &err), 0);
    assert_int_equal(len, 0);
    assert_true(rg_store_object_fd(tree->store, object) >= 0);
    assert_int_equal(fcntl(rg_store_object_fd(tree->store, object), F_GETFL) & O_NONBLOCK, 0);
    rg_store_object_close(tree->store, object);
}

static void test_buckets(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_store_bucket_create(tree->store, BUCKET, &err), -RG_BUCKET_ALREADY_OWNED);
    assert_int_equal(rg_store_bucket_create(tree->store, text("abc"), &err), 0);
    assert_int_equal(rg_store_bucket_create(tree->store, text("Abc"), &err),
                     -RG_INVALID_BUCKET_NAME);
    write_file(tree, "../a-file", "x");
    assert_int_equal(mkdir(path_of(tree, "../foreign"), 0755), 0);
    assert_int_equal(mkdir(path_of(tree, "../No_Bucket"), 0755), 0);
    assert_int_equal(rg_store_bucket_create(tree->store, text("a-file"), &err),
                     -RG_BUCKET_ALREADY_EXISTS);
    rg_autofree struct rg_bucket_info *buckets = NULL;
    size_t count = 0;
    assert_int_equal(rg_store_bucket_list(tree->store, &buckets, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_string_equal(buckets[0].name, "abc");
    assert_string_equal(buckets[1].name, "bucket");
    assert_string_equal(buckets[2].name, "foreign");
    struct rg_bucket_info info;
    assert_int_equal(rg_store_bucket_stat(tree->store, BUCKET, &info, &err), 0);
    assert_int_equal(info.created.tv_sec, buckets[1].created.tv_sec);
    assert_true(info.created.tv_sec > 1700000000);
    assert_int_equal(rg_store_bucket_stat(tree->store, text("none"), &info, &err),
                     -RG_NO_SUCH_BUCKET);
    assert_int_equal(rg_store_bucket_stat(tree->store, text(".."), &info, &err),
                     -RG_NO_SUCH_BUCKET);

    struct rg_pairs tags = RG_PAIRS_INIT;
    assert_int_equal(rg_store_bucket_tags_get(tree->store, BUCKET, &tags, &err),
                     -RG_NO_SUCH_TAG_SET);
    for (int i = 0; i < 50; i++) {
        char name[120];
        snprintf(name, sizeof name, "key %d %0100d", i, i);
        assert_int_equal(rg_tags_add(&tags, RG_TAG_BUCKET, text(name), text("v"), &err), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rg_store_bucket_tags_set(tree->store, BUCKET, &tags, &err), 0);
        struct rg_pairs back = RG_PAIRS_INIT;
        assert_int_equal(rg_store_bucket_tags_get(tree->store, BUCKET, &back, &err), 0);
        assert_true(rg_pairs_equal(&tags, &back));
        rg_pairs_free(&back);
    }
    rg_pairs_free(&tags);
    struct rg_bucket_info later;
    assert_int_equal(rg_store_bucket_stat(tree->store, BUCKET, &later, &err), 0);
    assert_memory_equal(&later.created, &info.created, sizeof info.created);
    assert_int_equal(rg_store_bucket_tags_set(tree->store, BUCKET, NULL, &err), 0);
    assert_int_equal(rg_store_bucket_tags_get(tree->store, BUCKET, &tags, &err),
                     -RG_NO_SUCH_TAG_SET);
    expect_no_leftovers(tree, 0);

    set(path_of(tree, "../foreign"), "user.X-Amz-Tagging", "{\"of\":\"versitygw\"}");
    assert_int_equal(rg_store_bucket_tags_get(tree->store, text("foreign"), &tags, &err), 0);
    assert_string_equal(rg_pairs_find(&tags, text("of")), "versitygw");
    rg_pairs_free(&tags);

    /* More buckets than are kept open. */
    if (strcmp(tree_filesystem, "memory") == 0) {
        for (int i = 0; i < RG_POSIX_BUCKETS_KEPT + 20; i++) {
            char name[32];
            snprintf(name, sizeof name, "bucket-%d", i);
            assert_int_equal(rg_store_bucket_create(tree->store, text(name), &err), 0);
        }
        assert_true(rg_posix_of(tree->store)->bucket_count <= RG_POSIX_BUCKETS_KEPT);
        assert_int_equal(rg_store_bucket_stat(tree->store, text("bucket-0"), &info, &err), 0);
        put(tree, "still", "works");
        expect(tree, "still", "works");
    }
}

static void test_deleting_buckets(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    /* A bucket that stays keeps its empty directories, which somebody may have prepared. */
    put(tree, "a/b/c", "x");
    for (char name[] = "empty/0"; name[6] <= '9'; name[6]++) {
        (void)mkdir(path_of(tree, "empty"), 0755);
        assert_int_equal(mkdir(path_of(tree, name), 0755), 0);
        assert_int_equal(mkdir(path_of(tree, name + 5), 0755), 0);
    }
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), -RG_BUCKET_NOT_EMPTY);
    expect(tree, "a/b/c", "x");
    for (char name[] = "empty/0"; name[6] <= '9'; name[6]++) {
        assert_true(path_exists(tree, name));
        assert_true(path_exists(tree, name + 5));
    }
    assert_int_equal(try_delete(tree, "a/b/c", &err), 0);
    put(tree, "d/", "");
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), -RG_BUCKET_NOT_EMPTY);
    assert_int_equal(try_delete(tree, "d/", &err), 0);
    /* Empty directories and unfinished uploads are no objects. */
    assert_int_equal(mkdir(path_of(tree, "x"), 0755), 0);
    assert_int_equal(mkdir(path_of(tree, "x/y"), 0755), 0);
    assert_int_equal(mkdir(path_of(tree, "x/z"), 0755), 0);
    write_file(tree, "x/z/.railgate-tmp-0", "left");
    write_file(tree, ".railgate-tmp-0", "left");
    assert_int_equal(mkdir(path_of(tree, ".sgwtmp"), 0755), 0);
    write_file(tree, ".sgwtmp/x", "left");
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    assert_int_equal(rg_store_upload_create(tree->store, BUCKET, text("u"), &meta, RG_CHECKSUM_NONE,
                                            RG_CHECKSUM_FULL_OBJECT, id, &err),
                     0);
    struct rg_writer *writer = NULL;
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("late"), -1, &writer, &err), 0);
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), 0);
    assert_false(path_exists(tree, ""));
    meta_for(&meta, text(""));
    struct rg_written written;
    if (rg_store_put_commit(tree->store, writer, &meta, NULL, &written, &err) !=
        -RG_NO_SUCH_BUCKET) {
        fail_msg("%s", err.message);
    }
    assert_false(path_exists(tree, ""));
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), -RG_NO_SUCH_BUCKET);
    assert_int_equal(try_put(tree, "a", text("x"), NULL, NULL, &err), -RG_NO_SUCH_BUCKET);
    assert_int_equal(try_get(tree, "a", NULL, NULL, &err), -RG_NO_SUCH_BUCKET);
    assert_int_equal(rg_store_bucket_create(tree->store, BUCKET, &err), 0);
    put(tree, "a", "again");
    expect(tree, "a", "again");
}

static void test_a_railgate_directory_removed_by_hand(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "a", "one");
    char command[5000];
    snprintf(command, sizeof command, "rm -rf '%s'", path_of(tree, ".railgate"));
    assert_int_equal(system(command), 0);
    /* At most one request notices; what follows works. */
    int rc = try_put(tree, "a", text("two"), NULL, NULL, &err);
    assert_true(rc == 0 || rc == -RG_SLOW_DOWN);
    put(tree, "a", "three");
    expect(tree, "a", "three");
    expect_no_leftovers(tree, 0);
}

static void test_the_summary_tells(void **state)
{
    struct tree *tree = *state;
    const char *line = rg_buf_text(&tree->summary);
    assert_null(strchr(line, '\n'));
    assert_non_null(strstr(line, tree->root));
    const char *off = strstr(line, "off:");
    assert_non_null(off);
    if (is_masked("o-tmpfile")) {
        assert_non_null(strstr(off, "O_TMPFILE"));
    }
    if (is_masked("reflink")) {
        assert_non_null(strstr(off, "reflink"));
    }
    if (is_masked("locks")) {
        assert_non_null(strstr(line, "no second gateway"));
    }
    if (tree_mask[0]) {
        assert_non_null(strstr(line, tree_mask));
    }
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_memory memory = {0};
    assert_int_equal(rg_store_probe(tree->store, &memory, &err), 0);
    struct rg_posix_mount *mount = rg_posix_of(tree->store)->root_mount;
    bool known = mount->magic == 0x58465342 || mount->magic == 0xef53 || mount->magic == 0x01021994;
    if (!known) {
        return; /* what this one must have is not ours to say */
    }
    assert_true(is_masked("locks") || mount->locks);
    assert_true(is_masked("dir-fsync") || mount->dir_fsync);
    assert_true(is_masked("o-tmpfile") || mount->tmpfile);
    assert_true(is_masked("rename-flags") || mount->noreplace);
    if (strcmp(tree_filesystem, "xfs") == 0) {
        assert_true(is_masked("reflink") || atomic_load(&mount->reflink));
        assert_true(is_masked("big-xattr") || mount->xattr_max == 65536);
    }
}

/* ---- What an operator does ---- */

static void test_the_directory_of_temporaries_is_removed(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    put(tree, "k", "old");
    assert_int_equal(rmdir(path_of(tree, ".railgate/tmp")), 0);
    int rc = try_put(tree, "k", text("new"), NULL, NULL, &err);
    assert_true(rc == 0 || rc == -RG_SERVICE_UNAVAILABLE || rc == -RG_SLOW_DOWN);
    expect(tree, "k", rc ? "old" : "new");
    put(tree, "k", "newer");
    expect(tree, "k", "newer");
}

static void test_the_root_is_exchanged(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_memory memory = {0};
    assert_int_equal(rg_store_probe(tree->store, &memory, &err), 0);
    char aside[4096];
    snprintf(aside, sizeof aside, "%s-aside", tree->root);
    if (rename(tree->root, aside) < 0) {
        assert_int_equal(errno, EBUSY); /* the root is where a file system is mounted */
        skip();
    }
    assert_int_equal(mkdir(tree->root, 0755), 0);
    assert_int_equal(rg_store_probe(tree->store, &memory, &err), -RG_SERVICE_UNAVAILABLE);
    assert_non_null(strstr(err.message, tree->root));
    assert_int_equal(rmdir(tree->root), 0);
    assert_int_equal(rename(aside, tree->root), 0);
    assert_int_equal(rg_store_probe(tree->store, &memory, &err), 0);
}

/* ---- What a crash left ---- */

static void test_leftovers_hold_no_directory(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1s");
    tree_open(tree);
    put(tree, "old/x", "object");
    write_file(tree, "old/.railgate-tmp-a", "");
    sleep(2);
    put(tree, "new/x", "object");
    write_file(tree, "new/.railgate-tmp-b", "");
    assert_int_equal(try_delete(tree, "old/x", &err), 0);
    assert_int_equal(try_delete(tree, "new/x", &err), 0);
    assert_false(path_exists(tree, "old"));
    assert_true(path_exists(tree, "new/.railgate-tmp-b")); /* it may have an owner */
    assert_int_equal(try_put(tree, "new", text("file"), NULL, NULL, &err), -RG_NAME_CONFLICT);
    sleep(2);
    put(tree, "new", "file");
    assert_int_equal(try_delete(tree, "new", &err), 0);
    write_file(tree, ".railgate-tmp-c", "");
    assert_int_equal(rg_store_bucket_delete(tree->store, BUCKET, &err), 0);
    assert_int_equal(rg_store_bucket_create(tree->store, BUCKET, &err), 0);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

int main(int argc, char **argv)
{
    int rc = tree_main(argc, argv);
    if (rc) {
        return rc;
    }
    const struct CMUnitTest tests[] = {
        ON_TREE(test_leftovers_hold_no_directory),
        ON_TREE(test_the_directory_of_temporaries_is_removed),
        ON_TREE(test_the_root_is_exchanged),
        ON_TREE(test_put_get_overwrite_delete),
        ON_TREE(test_info_says_what_was_put),
        ON_TREE(test_modes_do_not_depend_on_the_umask),
        ON_TREE(test_large_objects_in_all_kinds_of_pieces),
        ON_TREE(test_writing_by_the_descriptor),
        ON_TREE(test_an_aborted_writer_leaves_nothing),
        ON_TREE(test_conditions),
        ON_TREE(test_a_file_and_a_directory_of_one_name_conflict),
        ON_TREE(test_directory_objects),
        ON_TREE(test_deleting_takes_empty_parents_along),
        ON_TREE(test_files_of_other_programs),
        ON_TREE(test_trees_of_versitygw),
        ON_TREE(test_damaged_records_make_foreign_files),
        ON_TREE(test_tags),
        ON_TREE(test_copy_onto_itself),
        ON_TREE(test_copy),
        ON_TREE(test_long_metadata),
        ON_TREE(test_long_metadata_that_is_shared),
        ON_TREE(test_links_do_not_lead_out),
        ON_TREE(test_what_is_no_file),
        ON_TREE(test_awkward_names),
        ON_TREE(test_an_open_object_is_one_version),
        ON_TREE(test_buckets),
        ON_TREE(test_deleting_buckets),
        ON_TREE(test_a_railgate_directory_removed_by_hand),
        ON_TREE(test_the_summary_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
