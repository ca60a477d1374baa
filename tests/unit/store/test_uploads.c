/*
 * Multipart uploads and sweeping on one kind of tree: test-store-uploads FILESYSTEM MASK
 */
#include "tree.h"

#include "base/encode.h"
#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define KEY RG_SPAN_LITERAL("some/key")

struct part {
    uint32_t number;
    char *bytes;
    size_t len;
    struct rg_part_info info;
};

static void begin(struct tree *tree, char id[RG_UPLOAD_ID_LENGTH + 1])
{
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    assert_int_equal(rg_meta_add_user(&meta, text("colour"), text("blue"), &err), 0);
    assert_int_equal(rg_tags_add(&meta.tags, RG_TAG_OBJECT, text("k"), text("v"), &err), 0);
    assert_int_equal(rg_store_upload_create(tree->store, BUCKET, KEY, &meta, RG_CHECKSUM_CRC64NVME,
                                            RG_CHECKSUM_FULL_OBJECT, id, &err),
                     0);
}

static struct part make_part(uint32_t number, size_t len, unsigned seed)
{
    struct part part = {.number = number, .bytes = malloc(len + 1), .len = len};
    for (size_t i = 0; i < len; i++) {
        part.bytes[i] = (char)('A' + (i + seed) * 40503u % 53);
    }
    part.bytes[len] = '\0';
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    assert_int_equal(rg_hasher_init(&hasher, RG_HASH_MD5 | RG_HASH_CRC64NVME, NULL), 0);
    rg_hasher_update(&hasher, rg_span(part.bytes, len));
    assert_int_equal(rg_hasher_final(&hasher, NULL), 0);
    rg_hasher_md5(&hasher, part.info.md5);
    part.info.has_md5 = true;
    rg_etag_md5(part.info.md5, part.info.etag);
    rg_hasher_checksum(&hasher, RG_CHECKSUM_CRC64NVME, &part.info.checksum);
    return part;
}

static int try_part(struct tree *tree, const char *id, const struct part *part,
                    struct rg_error *err)
{
    struct rg_writer *writer = NULL;
    int rc = rg_store_part_begin(tree->store, BUCKET, KEY, text(id), part->number,
                                 (int64_t)part->len, &writer, err);
    if (rc) {
        return rc;
    }
    rc = rg_store_writer_write(tree->store, writer, part->bytes, part->len, err);
    if (rc) {
        rg_store_writer_abort(tree->store, writer);
        return rc;
    }
    struct rg_written written;
    rc = rg_store_part_commit(tree->store, writer, &part->info, &written, err);
    if (rc == 0) {
        assert_string_equal(written.etag, part->info.etag);
        assert_int_equal(written.size, part->len);
    }
    return rc;
}

static void upload(struct tree *tree, const char *id, const struct part *part)
{
    struct rg_error err = RG_ERROR_INIT;
    if (try_part(tree, id, part, &err)) {
        fail_msg("part %u: %s", part->number, err.message);
    }
}

static int try_complete(struct tree *tree, const char *id, const struct part *parts, size_t count,
                        const struct rg_conditions *conditions, struct rg_completed *completed,
                        struct rg_error *err)
{
    struct rg_complete_part wanted[8];
    for (size_t i = 0; i < count; i++) {
        wanted[i] = (struct rg_complete_part){.number = parts[i].number,
                                              .checksum = parts[i].info.checksum};
        memcpy(wanted[i].etag, parts[i].info.etag, sizeof wanted[i].etag);
    }
    struct rg_complete_request request = {
        .parts = wanted,
        .count = count,
        .part_size_min = 1 << 20,
        .object_size_max = 1 << 30,
        .conditions = conditions,
    };
    return rg_store_upload_complete(tree->store, BUCKET, KEY, text(id), &request, completed, err);
}

static void expect_parts(struct tree *tree, const struct part *parts, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].len;
    }
    char *whole = malloc(total + 1);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(whole + at, parts[i].bytes, parts[i].len);
        at += parts[i].len;
    }
    whole[total] = '\0';
    expect(tree, "some/key", whole);

    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, rg_span(whole, total));
    struct rg_object_info info = info_of(tree, "some/key");
    assert_true(rg_checksum_equal(&info.meta.checksum, &meta.checksum));
    assert_string_equal(rg_pairs_find(&info.meta.user, text("colour")), "blue");
    assert_string_equal(rg_pairs_find(&info.meta.tags, text("k")), "v");
    assert_int_equal(info.meta.part_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(info.meta.parts[i].size, parts[i].len);
    }
    assert_false(info.is_foreign);
    assert_false(info.meta.etag_is_md5);
    char suffix[16];
    snprintf(suffix, sizeof suffix, "-%zu", count);
    assert_non_null(strstr(info.meta.etag, suffix));
    rg_object_info_free(&info);
    free(whole);
}

static void free_parts(struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(parts[i].bytes);
    }
}

static void test_a_whole_life(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, id);
    assert_int_equal(strlen(id), 32);
    expect_absent(tree, "some/key");

    struct rg_upload_info upload_info;
    assert_int_equal(rg_store_upload_stat(tree->store, BUCKET, KEY, text(id), &upload_info, &err),
                     0);
    assert_string_equal(upload_info.key, "some/key");
    assert_string_equal(upload_info.id, id);
    assert_int_equal(upload_info.checksum_algorithm, RG_CHECKSUM_CRC64NVME);
    assert_string_equal(rg_pairs_find(&upload_info.meta.user, text("colour")), "blue");
    assert_true(upload_info.initiated.tv_sec > 1700000000);
    rg_upload_info_free(&upload_info);
    assert_int_equal(
        rg_store_upload_stat(tree->store, BUCKET, text("other"), text(id), &upload_info, &err),
        -RG_NO_SUCH_UPLOAD);
    assert_int_equal(
        rg_store_upload_stat(tree->store, BUCKET, KEY, text("../../../x"), &upload_info, &err),
        -RG_NO_SUCH_UPLOAD);

    /* Gaps in the numbers, sizes that are and are not whole blocks, one part sent twice. */
    struct part parts[] = {make_part(2, 2 << 20, 1), make_part(5, (1 << 20) + 13, 2),
                           make_part(9, 1 << 20, 3), make_part(100000, 77, 4)};
    struct part first = make_part(5, 500, 9);
    upload(tree, id, &first);
    for (size_t i = 4; i-- > 0;) {
        upload(tree, id, &parts[i]);
    }
    struct rg_part_page page;
    assert_int_equal(rg_store_part_list(tree->store, BUCKET, KEY, text(id), 2, 2, &page, &err), 0);
    assert_int_equal(page.count, 2);
    assert_true(page.truncated);
    assert_int_equal(page.parts[0].number, 5);
    assert_int_equal(page.parts[0].size, parts[1].len);
    assert_string_equal(page.parts[0].etag, parts[1].info.etag);
    assert_memory_equal(page.parts[0].md5, parts[1].info.md5, 16);
    assert_true(rg_checksum_equal(&page.parts[0].checksum, &parts[1].info.checksum));
    assert_int_equal(page.parts[1].number, 9);
    rg_part_page_free(&page);
    assert_int_equal(rg_store_part_list(tree->store, BUCKET, KEY, text(id), 9, 2, &page, &err), 0);
    assert_int_equal(page.count, 1);
    assert_false(page.truncated);
    rg_part_page_free(&page);

    struct rg_completed completed;
    assert_int_equal(try_complete(tree, id, parts, 4, NULL, &completed, &err), 0);
    expect_parts(tree, parts, 4);
    struct rg_object_info info = info_of(tree, "some/key");
    assert_string_equal(completed.written.etag, info.meta.etag);
    assert_true(rg_checksum_equal(&completed.checksum, &info.meta.checksum));
    assert_int_equal(completed.written.size, info.size);
    assert_int_equal(completed.written.modified.tv_sec, info.modified.tv_sec);
    rg_object_info_free(&info);
    assert_int_equal(count_entries(tree, ".railgate/uploads"), 0);
    assert_int_equal(rg_store_upload_stat(tree->store, BUCKET, KEY, text(id), &upload_info, &err),
                     -RG_NO_SUCH_UPLOAD);
    assert_int_equal(try_part(tree, id, &first, &err), -RG_NO_SUCH_UPLOAD);

    /* Once more gives the same answer, with other parts it does not, and not for ever. */
    struct rg_completed again;
    assert_int_equal(try_complete(tree, id, parts, 4, NULL, &again, &err), 0);
    assert_string_equal(again.written.etag, completed.written.etag);
    assert_true(rg_checksum_equal(&again.checksum, &completed.checksum));
    assert_int_equal(again.written.modified.tv_nsec, completed.written.modified.tv_nsec);
    assert_int_equal(try_complete(tree, id, parts, 3, NULL, &again, &err), -RG_NO_SUCH_UPLOAD);
    assert_int_equal(rg_store_object_tags_set(tree->store, BUCKET, KEY, NULL, &err), 0);
    assert_int_equal(try_complete(tree, id, parts, 4, NULL, &again, &err), 0);
    put(tree, "some/key", "new");
    assert_int_equal(try_complete(tree, id, parts, 4, NULL, &again, &err), -RG_NO_SUCH_UPLOAD);
    expect(tree, "some/key", "new");
    free_parts(parts, 4);
    free_parts(&first, 1);
    expect_no_leftovers(tree, 0);
}

static void test_a_single_part(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, id);
    struct part part = make_part(3, 123456, 5);
    upload(tree, id, &part);
    struct rg_completed completed;
    struct rg_conditions match = {.if_match = text("x")};
    assert_int_equal(try_complete(tree, id, &part, 1, &match, &completed, &err), -RG_NO_SUCH_KEY);
    /* Nothing is lost by that. */
    struct rg_part_page page;
    assert_int_equal(rg_store_part_list(tree->store, BUCKET, KEY, text(id), 0, 10, &page, &err), 0);
    assert_int_equal(page.count, 1);
    rg_part_page_free(&page);
    put(tree, "some/key", "old");
    assert_int_equal(try_complete(tree, id, &part, 1, NULL, &completed, &err), 0);
    assert_int_equal(completed.written.copy, RG_COPY_USED_NONE); /* the part itself */
    expect_parts(tree, &part, 1);
    assert_true(getxattr(path_of(tree, "some/key"), RG_POSIX_PART_XATTR, NULL, 0) < 0);
    struct rg_completed again;
    assert_int_equal(try_complete(tree, id, &part, 1, NULL, &again, &err), 0);
    assert_string_equal(again.written.etag, completed.written.etag);
    free_parts(&part, 1);
    expect_no_leftovers(tree, 0);
}

static void test_what_complete_refuses(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, id);
    struct part parts[] = {make_part(1, 1 << 20, 1), make_part(2, 100, 2), make_part(3, 100, 3)};
    for (size_t i = 0; i < 3; i++) {
        upload(tree, id, &parts[i]);
    }
    struct rg_completed completed;
    assert_int_equal(try_complete(tree, id, parts, 3, NULL, &completed, &err),
                     -RG_ENTITY_TOO_SMALL);
    struct part wrong = parts[1];
    wrong.number = 4;
    assert_int_equal(try_complete(tree, id, &wrong, 1, NULL, &completed, &err), -RG_INVALID_PART);
    wrong = parts[1];
    wrong.info.etag[0] ^= 1;
    assert_int_equal(try_complete(tree, id, &wrong, 1, NULL, &completed, &err), -RG_INVALID_PART);
    wrong = parts[1];
    wrong.info.checksum.bytes[0] ^= 1;
    assert_int_equal(try_complete(tree, id, &wrong, 1, NULL, &completed, &err), -RG_INVALID_PART);
    put(tree, "some/key", "there");
    struct rg_conditions create = {.if_none_match = text("*")};
    assert_int_equal(try_complete(tree, id, parts, 2, &create, &completed, &err),
                     -RG_PRECONDITION_FAILED);
    struct rg_complete_part one = {.number = 1};
    memcpy(one.etag, parts[0].info.etag, sizeof one.etag);
    struct rg_complete_request request = {
        .parts = &one, .count = 1, .object_size_max = 1000, .conditions = NULL};
    assert_int_equal(
        rg_store_upload_complete(tree->store, BUCKET, KEY, text(id), &request, &completed, &err),
        -RG_ENTITY_TOO_LARGE);
    request.object_size_max = 1 << 30;
    request.expected = parts[1].info.checksum;
    assert_int_equal(
        rg_store_upload_complete(tree->store, BUCKET, KEY, text(id), &request, &completed, &err),
        -RG_BAD_DIGEST);
    expect(tree, "some/key", "there");
    /* After all that the upload still works. */
    assert_int_equal(try_complete(tree, id, parts, 2, NULL, &completed, &err), 0);
    expect_parts(tree, parts, 2);
    free_parts(parts, 3);
    expect_no_leftovers(tree, 0);
}

static void test_abort(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    char ids[2][RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, ids[0]);
    begin(tree, ids[1]);
    struct part part = make_part(1, 1000, 1);
    upload(tree, ids[0], &part);
    upload(tree, ids[1], &part);
    struct rg_writer *writer = NULL;
    assert_int_equal(
        rg_store_part_begin(tree->store, BUCKET, KEY, text(ids[0]), 2, -1, &writer, &err), 0);
    assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(ids[0]), &err), 0);
    struct rg_written written;
    assert_int_equal(rg_store_part_commit(tree->store, writer, &part.info, &written, &err),
                     -RG_NO_SUCH_UPLOAD);
    assert_int_equal(rg_store_upload_abort(tree->store, BUCKET, KEY, text(ids[0]), &err),
                     -RG_NO_SUCH_UPLOAD);
    struct rg_completed completed;
    assert_int_equal(try_complete(tree, ids[0], &part, 1, NULL, &completed, &err),
                     -RG_NO_SUCH_UPLOAD);
    assert_int_equal(try_complete(tree, ids[1], &part, 1, NULL, &completed, &err), 0);
    expect_parts(tree, &part, 1);
    free_parts(&part, 1);
    expect_no_leftovers(tree, 0);
}

static void test_part_by_copy(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    struct part part = make_part(1, (4 << 20) + 99, 1);
    assert_int_equal(try_put(tree, "source", rg_span(part.bytes, part.len), NULL, NULL, &err), 0);
    struct rg_object *source = NULL;
    assert_int_equal(rg_store_object_open(tree->store, BUCKET, text("source"), &source, &err), 0);
    for (int hashed = 0; hashed < 2; hashed++) {
        char id[RG_UPLOAD_ID_LENGTH + 1];
        begin(tree, id);
        struct rg_writer *writer = NULL;
        assert_int_equal(
            rg_store_part_begin(tree->store, BUCKET, KEY, text(id), 1, -1, &writer, &err), 0);
        RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
        assert_int_equal(rg_hasher_init(&hasher, RG_HASH_MD5, &err), 0);
        enum rg_copy_used used;
        uint64_t cut = (1 << 20) + 7;
        assert_int_equal(rg_store_writer_copy(tree->store, writer, source, 0, cut,
                                              hashed ? &hasher : NULL, &used, &err),
                         0);
        assert_int_equal(rg_store_writer_copy(tree->store, writer, source, cut, part.len - cut,
                                              hashed ? &hasher : NULL, &used, &err),
                         0);
        if (hashed) {
            uint8_t md5[16];
            assert_int_equal(rg_hasher_final(&hasher, &err), 0);
            rg_hasher_md5(&hasher, md5);
            assert_memory_equal(md5, part.info.md5, 16);
        }
        struct rg_written written;
        assert_int_equal(rg_store_part_commit(tree->store, writer, &part.info, &written, &err), 0);
        struct rg_completed completed;
        assert_int_equal(try_complete(tree, id, &part, 1, NULL, &completed, &err), 0);
        expect_parts(tree, &part, 1);
    }
    struct rg_writer *writer = NULL;
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("x"), -1, &writer, &err), 0);
    enum rg_copy_used used;
    assert_int_equal(
        rg_store_writer_copy(tree->store, writer, source, 1, part.len, NULL, &used, &err),
        -RG_INVALID_RANGE);
    rg_store_writer_abort(tree->store, writer);
    rg_store_object_close(tree->store, source);
    free_parts(&part, 1);
    expect_no_leftovers(tree, 0);
}

/* A call that never comes back, as from a server that dropped the request. */
static int hang_pipe[2];
static sem_t hang_over;

static ssize_t hang(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t len,
                    unsigned flags)
{
    char byte;
    if (len > 1000) {
        len = 1000;
    }
    ssize_t done = copy_file_range(from, from_offset, to, to_offset, len, flags);
    while (read(hang_pipe[0], &byte, 1) < 0 && errno == EINTR) {
    }
    assert_int_equal(sem_post(&hang_over), 0);
    return done < 0 ? done : 0;
}

static void test_a_copy_that_hangs_is_given_up(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    if (!atomic_load(&rg_posix_of(tree->store)->root_mount->copy_range)) {
        return;
    }
    tree_close(tree);
    /* Long enough for a busy machine to start the thread that is to hang. */
    tree_set(tree, RG_SETTING_copy_timeout, "3s");
    tree_set(tree, RG_SETTING_copy_method, "copy-range");
    tree_open(tree);
    assert_int_equal(pipe(hang_pipe), 0);
    assert_int_equal(sem_init(&hang_over, 0, 0), 0);
    char id[RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, id);
    struct part parts[] = {make_part(1, (1 << 20) + 5, 1), make_part(2, 2 << 20, 2),
                           make_part(3, 1 << 20, 3)};
    for (size_t i = 0; i < 3; i++) {
        upload(tree, id, &parts[i]);
    }
    rg_posix_copy_file_range = hang;
    struct rg_completed completed;
    int rc = try_complete(tree, id, parts, 3, NULL, &completed, &err);
    rg_posix_copy_file_range = copy_file_range;
    assert_int_equal(rc, 0);
    assert_int_equal(completed.written.copy, RG_COPY_USED_PLAIN);
    expect_parts(tree, parts, 3);
    struct rg_store_counters counters;
    rg_store_counters(tree->store, &counters);
    assert_int_equal(counters.copy_fallbacks, 1); /* tried once, not for each part */
    assert_int_equal(write(hang_pipe[1], "x", 1), 1);
    assert_int_equal(sem_wait(&hang_over), 0);
    usleep(100000); /* the thread that was left alone ends */
    close(hang_pipe[0]);
    close(hang_pipe[1]);
    expect_parts(tree, parts, 3);
    free_parts(parts, 3);
    expect_no_leftovers(tree, 0);
}

static void sweep(struct tree *tree)
{
    struct rg_error err = RG_ERROR_INIT;
    if (tree_sweep(tree, &err)) {
        fail_msg("%s", err.message);
    }
}

static void test_sweeping(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1s");
    tree_set(tree, RG_SETTING_upload_expiry, "1m");
    tree_open(tree);
    put(tree, "a/b", "object");
    char id[RG_UPLOAD_ID_LENGTH + 1];
    begin(tree, id);
    struct part part = make_part(1, 1000, 1);
    upload(tree, id, &part);
    struct rg_writer *writer = NULL;
    assert_int_equal(rg_store_put_begin(tree->store, BUCKET, text("w"), -1, &writer, &err), 0);

    write_file(tree, ".railgate/tmp/.railgate-tmp-old", "left by a crash");
    write_file(tree, ".railgate/tmp/.railgate-tmp-held", "of another gateway");
    assert_int_equal(mkdir(path_of(tree, "../.railgate/tmp/.railgate-tmp-probe"), 0755), 0);
    write_file(tree, "../.railgate/tmp/.railgate-tmp-probe/x", "left by a start that was killed");
    assert_int_equal(mkdir(path_of(tree, ".railgate/tmp/.railgate-tmp-probe"), 0755), 0);
    write_file(tree, ".railgate/tmp/.railgate-tmp-probe/x", "left by a crash");
    assert_int_equal(mkdir(path_of(tree, ".railgate/strays"), 0755), 0);
    assert_int_equal(symlink("a", path_of(tree, ".railgate/strays/note")), 0);
    assert_int_equal(symlink("gone", path_of(tree, ".railgate/strays/note2")), 0);
    assert_int_equal(symlink("../..", path_of(tree, ".railgate/strays/note3")), 0);
    write_file(tree, "a/.railgate-tmp-old", "left by a crash");
    write_file(tree, ".railgate/uploads/.railgate-tmp-old", "left by a crash");
    int held = open(path_of(tree, ".railgate/tmp/.railgate-tmp-held"), O_RDWR);
    assert_int_equal(flock(held, LOCK_EX), 0);
    sleep(2);
    write_file(tree, ".railgate/tmp/.railgate-tmp-new", "just made");
    sweep(tree);
    assert_false(path_exists(tree, "../.railgate/tmp/.railgate-tmp-probe"));
    assert_false(path_exists(tree, ".railgate/tmp/.railgate-tmp-old"));
    assert_false(path_exists(tree, ".railgate/uploads/.railgate-tmp-old"));
    assert_false(path_exists(tree, ".railgate/tmp/.railgate-tmp-probe"));
    assert_false(path_exists(tree, "a/.railgate-tmp-old"));
    assert_true(path_exists(tree, ".railgate/tmp/.railgate-tmp-held"));
    assert_true(path_exists(tree, ".railgate/tmp/.railgate-tmp-new"));
    assert_true(path_exists(tree, ".railgate/strays/note"));
    assert_false(path_exists(tree, ".railgate/strays/note2"));
    close(held);
    struct rg_store_counters counters;
    rg_store_counters(tree->store, &counters);
    assert_int_equal(counters.swept_temporaries, 5);
    assert_int_equal(counters.swept_uploads, 0);
    assert_int_equal(counters.sweep_failures, 0);

    /* A writer that is alive keeps its file. */
    assert_int_equal(rg_store_writer_write(tree->store, writer, "w", 1, &err), 0);
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text("w"));
    struct rg_written written;
    assert_int_equal(rg_store_put_commit(tree->store, writer, &meta, NULL, &written, &err), 0);
    expect(tree, "w", "w");
    expect(tree, "a/b", "object");

    /* The upload is young; one whose record says otherwise is not. */
    struct rg_upload_info info;
    assert_int_equal(rg_store_upload_stat(tree->store, BUCKET, KEY, text(id), &info, &err), 0);
    struct rg_record record = {.meta = info.meta,
                               .key = info.key,
                               .has_modified = true,
                               .modified = {.tv_sec = info.initiated.tv_sec - 100}};
    struct rg_checksum digest;
    assert_int_equal(rg_checksum_of(RG_CHECKSUM_SHA256, KEY, &digest, &err), 0);
    char hash[65];
    rg_hex_encode(digest.bytes, 32, hash);
    char directory[200];
    snprintf(directory, sizeof directory, ".railgate/uploads/%s/%s", hash, id);
    int dir = open(path_of(tree, directory), O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0);
    assert_int_equal(unlinkat(dir, "record", 0), 0);
    assert_int_equal(rg_posix_record_file_write(rg_posix_of(tree->store),
                                                rg_posix_of(tree->store)->root_mount, dir, "record",
                                                &record, &err),
                     0);
    close(dir);
    rg_upload_info_free(&info);
    sweep(tree);
    assert_int_equal(count_entries(tree, ".railgate/uploads"), 0);
    rg_store_counters(tree->store, &counters);
    assert_int_equal(counters.swept_uploads, 1);
    expect(tree, "a/b", "object");
    free_parts(&part, 1);
}

/* What a crash left in a directory that is emptied before it is old enough to go with it. */
static void test_sweeping_what_stayed(void **state)
{
    struct tree *tree = *state;
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1h");
    tree_open(tree);
    bool by_new_files = !rg_posix_of(tree->store)->root_mount->dir_fsync;
    put(tree, "a/b", "object");
    put(tree, "d/e/", "");
    put(tree, "kept/b", "object");
    put(tree, "kept/c", "object");
    assert_int_equal(mkdir(path_of(tree, "x"), 0755), 0);
    static const char *const left[] = {"a/.railgate-tmp-left", "d/e/.railgate-tmp-left",
                                       "x/.railgate-tmp-left", "../.railgate-tmp-left",
                                       "kept/.railgate-tmp-left"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(left); i++) {
        write_file(tree, left[i], "");
    }
    assert_int_equal(try_delete(tree, "a/b", NULL), 0);
    assert_int_equal(try_delete(tree, "d/e/", NULL), 0);
    assert_int_equal(try_delete(tree, "kept/c", NULL), 0);
    assert_int_equal(try_delete(tree, "x/deleted-by-who-died", NULL), 0);
    sweep(tree);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(left); i++) {
        assert_true(path_exists(tree, left[i])); /* young */
    }
    tree->settings.temp_expiry = 1000;
    sleep(2);
    sweep(tree);
    assert_false(path_exists(tree, "a")); /* nor what it was left alone for */
    assert_false(path_exists(tree, "d"));
    assert_int_equal(path_exists(tree, "x/.railgate-tmp-left"), !by_new_files);
    assert_int_equal(path_exists(tree, "../.railgate-tmp-left"), !by_new_files);
    /* This one goes with the directory. */
    assert_int_equal(try_delete(tree, "kept/b", NULL), 0);
    assert_false(path_exists(tree, "kept"));
    expect_absent(tree, "a/b");
    expect_absent(tree, "d/e/");
}

/* Sidecars are only made where xattrs are small. */
static void test_sweeping_sidecars(void **state)
{
    struct tree *tree = *state;
    struct rg_error err = RG_ERROR_INIT;
    tree_close(tree);
    tree_set(tree, RG_SETTING_temp_expiry, "1s");
    tree_open(tree);
    if (rg_posix_of(tree->store)->root_mount->xattr_max > 1000) {
        return;
    }
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    meta_for(&meta, text("bytes"));
    char value[1001];
    memset(value, 'm', 1000);
    value[1000] = '\0';
    assert_int_equal(rg_meta_add_user(&meta, text("long"), text(value), &err), 0);
    assert_int_equal(try_put(tree, "stays", text("bytes"), &meta, NULL, &err), 0);
    assert_int_equal(try_put(tree, "d/moves", text("bytes"), &meta, NULL, &err), 0);
    assert_int_equal(try_put(tree, "goes", text("bytes"), &meta, NULL, &err), 0);
    assert_int_equal(rename(path_of(tree, "d/moves"), path_of(tree, "moved")), 0);
    assert_int_equal(unlink(path_of(tree, "goes")), 0);
    expect_no_leftovers(tree, 3);
    sleep(2);
    sweep(tree);
    expect_no_leftovers(tree, 3); /* marked */
    sleep(2);
    sweep(tree);
    expect_no_leftovers(tree, 2);
    struct rg_object_info info = info_of(tree, "moved");
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), value);
    rg_object_info_free(&info);
    info = info_of(tree, "stays");
    assert_string_equal(rg_pairs_find(&info.meta.user, text("long")), value);
    rg_object_info_free(&info);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

int main(int argc, char **argv)
{
    int rc = tree_main(argc, argv);
    if (rc) {
        return rc;
    }
    const struct CMUnitTest tests[] = {
        ON_TREE(test_a_whole_life),
        ON_TREE(test_a_single_part),
        ON_TREE(test_what_complete_refuses),
        ON_TREE(test_abort),
        ON_TREE(test_part_by_copy),
        ON_TREE(test_a_copy_that_hangs_is_given_up),
        ON_TREE(test_sweeping),
        ON_TREE(test_sweeping_what_stayed),
        ON_TREE(test_sweeping_sidecars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
