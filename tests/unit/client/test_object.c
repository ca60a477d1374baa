/* Objects in memory by HTTP: single and multipart, ranges, retries, what is uncertain. */
#include "common.h"

#include "client/config.h"

#include <unistd.h>

static int set_up(void **state)
{
    struct bench *bench = bench_new(32 * MEBI);
    struct rg_client_options options = bench_options(bench);
    options.path = RG_PATH_HTTP_ONLY;
    bench_open(bench, &options);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    bench_free(*state);
    return 0;
}

static int put(struct bench *bench, size_t size, const struct rg_put_options *options)
{
    return rg_put(bench->client, "b", "k", bench->memory, 0, size, options, &bench->result,
                  &bench->failure);
}

static int get(struct bench *bench, size_t size, const struct rg_get_options *options)
{
    memset(bench->buffer, 0, bench->size);
    return rg_get(bench->client, "b", "k", bench->memory, 0, size, options, &bench->result,
                  &bench->failure);
}

static void check_stored(struct bench *bench, size_t size)
{
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_non_null(object);
    assert_int_equal(object->bytes.len, size);
    assert_memory_equal(object->bytes.data, bench->buffer, size);
}

static void test_put_sizes(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {
        0, 1, 1000, 1 << 20, (5 << 20) - 1, 5 << 20, (5 << 20) + 1, 10 << 20, (17 << 20) + 123};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(bench, put(bench, sizes[i], NULL));
        check_stored(bench, sizes[i]);
        assert_int_equal(bench->result.bytes, sizes[i]);
        assert_int_equal(bench->result.object_size, sizes[i]);
        assert_true(bench->result.verified);
        assert_false(bench->result.used_rdma);
        assert_string_equal(bench->result.path, "http:http-only");
        assert_string_equal(bench->result.etag, fake_s3_find(bench->s3, "b/k")->bytes.etag);
        assert_string_equal(bench->result.checksum, fake_s3_find(bench->s3, "b/k")->bytes.crc);
    }
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
}

static void test_get_sizes(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {0, 1, 5 << 20, (5 << 20) + 1, (17 << 20) + 123, 32 << 20};
    char *bytes = malloc(32 * MEBI);
    fill(bytes, 32 * MEBI, 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fake_s3_add(bench->s3, "b/k", bytes, sizes[i]);
        /* With room for a part, and with room for more. */
        for (int large = sizes[i] > 5 * MEBI; large < 2; large++) {
            assert_ok(bench, get(bench, large ? 32 * MEBI : 5 * MEBI, NULL));
            assert_int_equal(bench->result.bytes, sizes[i]);
            assert_int_equal(bench->result.object_size, sizes[i]);
            assert_memory_equal(bench->buffer, bytes, sizes[i]);
            assert_true(bench->result.verified);
            assert_int_equal(bench->result.modified, 1795970401);
        }
    }
    free(bytes);
}

static void test_get_room(void **state)
{
    struct bench *bench = *state;
    fake_s3_add(bench->s3, "b/k", "0123456789", 10);
    assert_fails(bench, RG_STATUS_USAGE, get(bench, 9, NULL));
    assert_int_equal(bench->buffer[0], 0);
    assert_ok(bench, get(bench, 10, NULL));
    static char big[12 << 20];
    fake_s3_add(bench->s3, "b/k", big, sizeof big);
    assert_fails(bench, RG_STATUS_USAGE, get(bench, sizeof big - 1, NULL));
}

static void test_ranges(void **state)
{
    struct bench *bench = *state;
    char *bytes = malloc(20 * MEBI);
    fill(bytes, 20 * MEBI, 3);
    fake_s3_add(bench->s3, "b/k", bytes, 20 * MEBI);
    static const struct {
        uint64_t at, length, expect;
    } ranges[] = {{0, 1, 1},
                  {5, 100, 100},
                  {20 * MEBI - 5, 5, 5},
                  {20 * MEBI - 5, 100, 5},
                  {1 * MEBI, 12 * MEBI, 12 * MEBI},
                  {12 * MEBI + 1, 12 * MEBI, 8 * MEBI - 1},
                  {7, 0, 0}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        memset(bench->buffer, 0, bench->size);
        assert_ok(bench, rg_get_range(bench->client, "b", "k", ranges[i].at, ranges[i].length,
                                      bench->memory, 3, NULL, &bench->result, &bench->failure));
        assert_int_equal(bench->result.bytes, ranges[i].expect);
        assert_int_equal(bench->result.object_size, 20 * MEBI);
        assert_memory_equal(bench->buffer + 3, bytes + ranges[i].at, ranges[i].expect);
        assert_int_equal(bench->buffer[2], 0);
        assert_int_equal(bench->buffer[3 + ranges[i].expect], 0);
    }
    assert_fails(bench, RG_STATUS_REFUSED,
                 rg_get_range(bench->client, "b", "k", 20 * MEBI, 5, bench->memory, 0, NULL, NULL,
                              &bench->failure));
    assert_string_equal(bench->failure.s3_code, "InvalidRange");
    assert_fails(bench, RG_STATUS_REFUSED,
                 rg_get_range(bench->client, "b", "k", 20 * MEBI, 6 * MEBI, bench->memory, 0, NULL,
                              NULL, &bench->failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_get_range(bench->client, "b", "k", UINT64_MAX, 6, bench->memory, 0, NULL, NULL,
                              &bench->failure));
    free(bytes);
}

static void test_one_version(void **state)
{
    struct bench *bench = *state;
    fake_s3_add(bench->s3, "b/k", "old", 3);
    struct rg_get_options options = {.if_match = "another"};
    assert_fails(bench, RG_STATUS_PRECONDITION, get(bench, 3, &options));
    assert_fails(bench, RG_STATUS_PRECONDITION, get(bench, 32 * MEBI, &options));
    options.if_match = fake_s3_find(bench->s3, "b/k")->bytes.etag;
    assert_ok(bench, get(bench, 3, &options));
}

static void test_conditions_and_metadata(void **state)
{
    struct bench *bench = *state;
    const char *const metadata[] = {"Colour", "dark blue", NULL};
    struct rg_put_options options = {
        .content_type = "text/plain", .metadata = metadata, .if_none_match = true};
    assert_ok(bench, put(bench, 5, &options));
    assert_string_equal(fake_s3_find(bench->s3, "b/k")->type, "text/plain");
    assert_string_equal(fake_s3_find(bench->s3, "b/k")->meta, "dark blue");
    assert_fails(bench, RG_STATUS_PRECONDITION, put(bench, 6, &options));
    assert_int_equal(bench->failure.http_status, 412);
    assert_string_equal(bench->failure.s3_code, "PreconditionFailed");
    assert_string_equal(bench->failure.request_id, "REQ0");
    assert_false(bench->failure.uncertain);
    assert_fails(bench, RG_STATUS_PRECONDITION, put(bench, 12 * MEBI, &options)); /* at Complete */
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
    check_stored(bench, 5);
    options = (struct rg_put_options){.content_type = "a\r\nx-evil: 1"};
    assert_fails(bench, RG_STATUS_USAGE, put(bench, 5, &options));
    const char *const bad_name[] = {"a b", "x", NULL};
    options = (struct rg_put_options){.metadata = bad_name};
    assert_fails(bench, RG_STATUS_USAGE, put(bench, 5, &options));
}

static void test_usage(void **state)
{
    struct bench *bench = *state;
    struct rg_failure *failure = &bench->failure;
    struct rg_memory *memory = bench->memory;
    assert_fails(bench, RG_STATUS_USAGE, rg_put(NULL, "b", "k", memory, 0, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "", "k", memory, 0, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "a/b", "k", memory, 0, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "b", "", memory, 0, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "b", "k", NULL, 0, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "b", "k", memory, 32 * MEBI, 1, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "b", "k", memory, UINT64_MAX, 2, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_memory_register(bench->client, bench->buffer, 0, &memory, failure));
    char key[1026];
    memset(key, 'k', sizeof key);
    key[1025] = '\0';
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_put(bench->client, "b", key, memory, 0, 1, NULL, NULL, failure));
    /* Failures may be thrown away, results too. */
    assert_int_equal(rg_put(bench->client, "b", "k", bench->memory, 0, 1, NULL, NULL, NULL), 0);
    assert_int_equal(rg_get(bench->client, "b", "none", bench->memory, 0, 1, NULL, NULL, NULL),
                     -RG_STATUS_NOT_FOUND);
}

static void test_names_are_encoded(void **state)
{
    struct bench *bench = *state;
    static const char *const keys[] = {"a b+c%d", "../x", "./.", "a//b", "\xc3\xa4?x=1&y#f", "a/"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char path[64];
        snprintf(path, sizeof path, "b/%s", keys[i]);
        assert_ok(bench, rg_put(bench->client, "b", keys[i], bench->memory, 0, 10, NULL, NULL,
                                &bench->failure));
        assert_non_null(fake_s3_find(bench->s3, path));
    }
}

/* ---- Retries ---- */

static void test_retries(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 2, .status = 503, .code = "SlowDown"});
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT", .times = 1, .how = TEST_HANG_UP});
    assert_ok(bench, put(bench, 100, NULL));
    check_stored(bench, 100);
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "GET", .times = 1, .how = TEST_HANG_UP});
    fake_s3_fault(bench->s3,
                  (struct fake_fault){.method = "GET", .times = 1, .how = TEST_CUT_BODY});
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "GET", .times = 1, .status = 500});
    fill(bench->buffer, 100, 1);
    fake_s3_add(bench->s3, "b/k", bench->buffer, 100);
    assert_ok(bench, get(bench, 100, NULL));
    check_stored(bench, 100);
}

static void test_retries_end(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 4, .status = 503, .code = "SlowDown"});
    unsigned before = test_server_requests(bench->s3->server);
    assert_fails(bench, RG_STATUS_SERVER, put(bench, 100, NULL));
    assert_int_equal(test_server_requests(bench->s3->server) - before, 4);
    assert_string_equal(bench->failure.s3_code, "SlowDown");
    assert_false(bench->failure.uncertain);
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT", .times = 4, .status = 500});
    assert_fails(bench, RG_STATUS_SERVER, put(bench, 100, NULL));
    assert_true(bench->failure.uncertain);
    assert_ok(bench, put(bench, 100, NULL));
    assert_false(bench->failure.uncertain);
}

static void test_never_repeated(void **state)
{
    struct bench *bench = *state;
    struct rg_put_options create = {.if_none_match = true};
    /* Done, and the answer lost: a repetition would say that somebody else was first. */
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 1, .after = true, .how = TEST_HANG_UP});
    assert_fails(bench, RG_STATUS_CONNECT, put(bench, 100, &create));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->puts, 1);
    /* Refused for now: nothing was done. */
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_non_null(object);
    assert_ok(bench, rg_delete_object(bench->client, "b", "k", &bench->failure));
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT", .times = 1, .status = 503});
    assert_ok(bench, put(bench, 100, &create));
    /* Refusals that no repetition changes. */
    unsigned before = test_server_requests(bench->s3->server);
    fake_s3_fault(bench->s3,
                  (struct fake_fault){
                      .method = "PUT", .times = 1, .status = 403, .code = "SignatureDoesNotMatch"});
    assert_fails(bench, RG_STATUS_CREDENTIALS, put(bench, 100, NULL));
    fake_s3_fault(bench->s3,
                  (struct fake_fault){.method = "PUT", .times = 1, .status = 507, .code = "Full"});
    assert_fails(bench, RG_STATUS_SERVER, put(bench, 100, NULL));
    fake_s3_fault(bench->s3,
                  (struct fake_fault){.method = "PUT", .times = 1, .status = 409, .code = "X"});
    assert_fails(bench, RG_STATUS_REFUSED, put(bench, 100, NULL));
    assert_int_equal(test_server_requests(bench->s3->server) - before, 3);
}

/* A kept connection that the server has closed: a request that must not be sent twice is not. */
static void test_dead_connection(void **state)
{
    struct bench *bench = *state;
    struct rg_put_options create = {.if_none_match = true};
    assert_ok(bench, put(bench, 1, NULL));
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT", .times = 1, .how = TEST_HANG_UP});
    unsigned before = bench->s3->puts;
    assert_fails(bench, RG_STATUS_CONNECT, put(bench, 10, &create));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->puts, before);
}

static void test_no_server(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.endpoint = "http://127.0.0.1:1";
    options.retries = RG_NO_RETRIES;
    bench_reopen(bench, &options);
    assert_fails(bench, RG_STATUS_CONNECT, put(bench, 10, NULL));
    assert_false(bench->failure.uncertain);
    assert_non_null(strstr(bench->failure.message, "cannot be reached"));
    options.endpoint = "http://no-such-host.invalid";
    bench_reopen(bench, &options);
    assert_fails(bench, RG_STATUS_CONNECT, put(bench, 10, NULL));
}

static void test_timeout(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.path = RG_PATH_HTTP_ONLY;
    options.request_timeout_ms = 300;
    options.retries = RG_NO_RETRIES;
    bench_reopen(bench, &options);
    fake_s3_fault(bench->s3, (struct fake_fault){.times = 1, .how = TEST_SILENCE});
    assert_fails(bench, RG_STATUS_TIMEOUT, put(bench, 10, NULL));
    assert_true(bench->failure.uncertain);
}

/* ---- Multipart ---- */

static void test_part_retries(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3,
                  (struct fake_fault){
                      .method = "PUT", .part = "partNumber=2", .times = 1, .how = TEST_HANG_UP});
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){.method = "PUT", .part = "partNumber=3", .times = 2, .status = 500});
    assert_ok(bench, put(bench, 17 * MEBI, NULL));
    check_stored(bench, 17 * MEBI);
    assert_int_equal(bench->s3->parts, 4);
}

static void test_multipart_fails(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT",
                                                 .part = "partNumber=2",
                                                 .times = 99,
                                                 .status = 403,
                                                 .code = "AccessDenied"});
    assert_fails(bench, RG_STATUS_REFUSED, put(bench, 17 * MEBI, NULL));
    assert_false(bench->failure.uncertain);
    assert_null(fake_s3_find(bench->s3, "b/k"));
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
    assert_int_equal(bench->s3->aborts, 1);
}

static void test_complete_lost(void **state)
{
    struct bench *bench = *state;
    /* The answer is lost, and the upload is gone: the object itself tells. */
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){
            .method = "POST", .part = "uploadId=", .times = 1, .after = true, .how = TEST_HANG_UP});
    assert_ok(bench, put(bench, 12 * MEBI, NULL));
    check_stored(bench, 12 * MEBI);
    assert_true(bench->result.verified);
    assert_false(bench->failure.uncertain);
    /* It was not done: it is done again. */
    fake_s3_fault(bench->s3,
                  (struct fake_fault){
                      .method = "POST", .part = "uploadId=", .times = 1, .how = TEST_HANG_UP});
    fill(bench->buffer, bench->size, 9);
    assert_ok(bench, put(bench, 12 * MEBI, NULL));
    check_stored(bench, 12 * MEBI);
    /* An error within a 200. */
    fill(bench->buffer, bench->size, 10);
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "POST",
                                                 .part = "uploadId=",
                                                 .times = 99,
                                                 .status = 200,
                                                 .code = "InternalError"});
    assert_fails(bench, RG_STATUS_SERVER, put(bench, 12 * MEBI, NULL));
    assert_string_equal(bench->failure.s3_code, "InternalError");
}

static void test_without_checksums(void **state)
{
    struct bench *bench = *state;
    bench->s3->no_checksums = true;
    assert_ok(bench, put(bench, 12 * MEBI, NULL));
    check_stored(bench, 12 * MEBI);
    assert_false(bench->result.verified);
    assert_string_equal(bench->result.checksum, "");
    struct rg_put_options options = {.no_checksum = true};
    bench->s3->no_checksums = false;
    assert_ok(bench, put(bench, 12 * MEBI, &options));
    assert_false(bench->result.verified);
    assert_ok(bench, put(bench, 10, &options));
    assert_false(bench->result.verified);
}

static void test_integrity(void **state)
{
    struct bench *bench = *state;
    fake_s3_add(bench->s3, "b/k", bench->buffer, 12 * MEBI);
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    object->bytes.data[11 * MEBI] ^= 1; /* rots behind its checksum */
    assert_fails(bench, RG_STATUS_INTEGRITY, get(bench, 32 * MEBI, NULL));
    object->bytes.len = 100;
    assert_fails(bench, RG_STATUS_INTEGRITY, get(bench, 100, NULL));
    struct rg_get_options options = {.no_checksum = true};
    assert_ok(bench, get(bench, 100, &options));
}

static void test_path_disagrees(void **state)
{
    struct bench *bench = *state;
    bench->s3->says_path = "rdma:ofi:fake";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put(bench, 10, NULL));
    assert_true(bench->failure.uncertain);
}

/* ---- The rest of the store ---- */

struct seen {
    unsigned count;
    unsigned stop_after;
    char last[64];
};

static bool see(void *context, const struct rg_listed *entry)
{
    struct seen *seen = context;
    assert_true(strcmp(seen->last, entry->key) < 0);
    snprintf(seen->last, sizeof seen->last, "%s", entry->key);
    return ++seen->count != seen->stop_after;
}

static void test_listing(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < 25; i++) {
        char path[32];
        snprintf(path, sizeof path, "b/k%02d &\x01", i);
        fake_s3_add(bench->s3, path, "x", 1);
    }
    bench->s3->page_size = 10;
    struct seen seen = {.count = 0};
    assert_ok(bench, rg_list_objects(bench->client, "b", "k", NULL, see, &seen, &bench->failure));
    assert_int_equal(seen.count, 25);
    assert_string_equal(seen.last, "k24 &\x01");
    seen = (struct seen){.stop_after = 12};
    assert_ok(bench, rg_list_objects(bench->client, "b", NULL, NULL, see, &seen, &bench->failure));
    assert_int_equal(seen.count, 12);
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){.method = "GET", .times = 1, .status = 404, .code = "NoSuchBucket"});
    assert_fails(bench, RG_STATUS_NOT_FOUND,
                 rg_list_objects(bench->client, "b", NULL, NULL, see, &seen, &bench->failure));
    assert_string_equal(bench->failure.s3_code, "NoSuchBucket");
}

/* Above what one request may copy, the parts know nothing of the object they are of. */
static void test_copy_in_parts_keeps_all(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    bench->copy_at_once_max = 4;
    bench_reopen(bench, &options);
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    struct fake_object *source = fake_s3_find(bench->s3, "b/k");
    strcpy(source->type, "text/plain; charset=utf-8; a-parameter-that-makes-it-long");
    strcpy(source->meta, "dark  blue");
    strcpy(source->cache, "max-age=5");
    strcpy(source->tags, "set");
    assert_ok(bench, rg_copy_object(bench->client, "b", "k", "b", "copy", &bench->result,
                                    &bench->failure));
    struct fake_object *copy = fake_s3_find(bench->s3, "b/copy");
    assert_non_null(copy);
    assert_int_equal(copy->bytes.len, 5);
    assert_memory_equal(copy->bytes.data, "hello", 5);
    assert_string_equal(copy->type, source->type);
    assert_string_equal(copy->meta, source->meta);
    assert_string_equal(copy->cache, source->cache);
    assert_string_equal(copy->tags, "a%20key=b%20c%2Bd");
    assert_string_equal(bench->result.path, "server");
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
    /* Tags that cannot be read are not left out in silence. */
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){
            .method = "GET", .part = "tagging", .times = 1, .status = 403, .code = "AccessDenied"});
    assert_fails(bench, RG_STATUS_REFUSED,
                 rg_copy_object(bench->client, "b", "k", "b", "other", NULL, &bench->failure));
    assert_null(fake_s3_find(bench->s3, "b/other"));
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
}

static void test_stat(void **state)
{
    struct bench *bench = *state;
    struct rg_stat stat;
    assert_fails(bench, RG_STATUS_NOT_FOUND,
                 rg_stat_object(bench->client, "b", "k", &stat, &bench->failure));
    assert_string_equal(bench->failure.s3_code, "NoSuchKey");
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    assert_ok(bench, rg_stat_object(bench->client, "b", "k", &stat, &bench->failure));
    assert_int_equal(stat.size, 5);
    assert_int_equal(stat.modified, 1795970401);
    assert_string_equal(stat.etag, "5d41402abc4b2a76b9719d911017c592");
    assert_string_equal(stat.content_type, "a/b");
    assert_string_not_equal(stat.checksum, "");
    assert_ok(bench, rg_delete_object(bench->client, "b", "k", &bench->failure));
    assert_null(fake_s3_find(bench->s3, "b/k"));
}

static void test_keep_alive(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < 50; i++) {
        assert_ok(bench, put(bench, 10, NULL));
    }
    assert_int_equal(test_server_connections(bench->s3->server), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_put_sizes),      TEST(test_get_sizes),
        TEST(test_get_room),       TEST(test_ranges),
        TEST(test_one_version),    TEST(test_conditions_and_metadata),
        TEST(test_usage),          TEST(test_names_are_encoded),
        TEST(test_retries),        TEST(test_retries_end),
        TEST(test_never_repeated), TEST(test_dead_connection),
        TEST(test_no_server),      TEST(test_timeout),
        TEST(test_part_retries),   TEST(test_multipart_fails),
        TEST(test_complete_lost),  TEST(test_without_checksums),
        TEST(test_integrity),      TEST(test_path_disagrees),
        TEST(test_listing),        TEST(test_copy_in_parts_keeps_all),
        TEST(test_stat),           TEST(test_keep_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
