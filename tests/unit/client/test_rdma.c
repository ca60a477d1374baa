/* Transfers by RDMA: what counts as done, what is declined, what broke, and who may take over. */
#include "common.h"

#include "client/rails.h"

#include <pthread.h>
#include <unistd.h>

#define SIZE (17 * MEBI)

static int set_up(void **state)
{
    struct bench *bench = bench_new(SIZE);
    struct rg_client_options options = bench_options(bench);
    fake_rail.needs_progress = true;
    bench->s3->rdma = FAKE_RDMA_SERVE;
    bench_open(bench, &options);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    bench_free(*state);
    return 0;
}

static int put_as(struct bench *bench, size_t size, enum rg_path_choice path)
{
    struct rg_put_options options = {.path = path};
    return rg_put(bench->client, "b", "k", bench->memory, 0, size, &options, &bench->result,
                  &bench->failure);
}

static int get_as(struct bench *bench, size_t size, enum rg_path_choice path)
{
    struct rg_get_options options = {.path = path};
    memset(bench->buffer, 0, bench->size);
    return rg_get(bench->client, "b", "k", bench->memory, 0, size, &options, &bench->result,
                  &bench->failure);
}

static void check_stored(struct bench *bench, size_t size)
{
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_non_null(object);
    assert_int_equal(object->bytes.len, size);
    assert_memory_equal(object->bytes.data, bench->buffer, size);
}

/* An object of `size` bytes to fetch; fill(check, size, 5) gives its bytes. */
static void add_object(struct bench *bench, size_t size)
{
    char *bytes = malloc(size);
    fill(bytes, size, 5);
    fake_s3_add(bench->s3, "b/k", bytes, size);
    free(bytes);
}

static void check_fetched(struct bench *bench, size_t size)
{
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_int_equal(bench->result.bytes, size);
    assert_memory_equal(bench->buffer, object->bytes.data, size);
}

/* ---- Done ---- */

static void test_put(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {1, 4095, 5 << 20, (5 << 20) + 1, SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(bench, put_as(bench, sizes[i], RG_PATH_RDMA_ONLY));
        check_stored(bench, sizes[i]);
        assert_true(bench->result.used_rdma);
        assert_true(bench->result.verified);
        assert_int_equal(bench->result.rdma_bytes, sizes[i]);
        assert_string_equal(bench->result.path, "rdma:ofi:fake");
        assert_string_equal(bench->result.reason, "");
    }
    assert_int_equal(fake_rail.unsettled, 0);
    assert_int_equal(fake_rail.settled, 9); /* one window a request */
    assert_int_equal(fake_rail.mints, 9);
    assert_true(fake_rail.lanes <= 4);
}

static void test_get(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {1, 4095, 5 << 20, (5 << 20) + 1, SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        add_object(bench, sizes[i]);
        assert_ok(bench, get_as(bench, SIZE, RG_PATH_RDMA_ONLY));
        check_fetched(bench, sizes[i]);
        assert_true(bench->result.used_rdma);
        assert_true(bench->result.verified);
        assert_string_equal(bench->result.path, "rdma:ofi:fake");
    }
    assert_ok(bench, rg_get_range(bench->client, "b", "k", 1000, 50, bench->memory, 7, NULL,
                                  &bench->result, &bench->failure));
    assert_true(bench->result.used_rdma);
    assert_int_equal(bench->result.object_size, SIZE);
    assert_string_equal(bench->s3->last_range, "bytes=1000-1049");
    assert_memory_equal(bench->buffer + 7, fake_s3_find(bench->s3, "b/k")->bytes.data + 1000, 50);
    assert_int_equal(fake_rail.unsettled, 0);
}

static void test_progress_thread(void **state)
{
    struct bench *bench = *state;
    /* The peer of this test is quick: the thread may come too late for one request. */
    for (int i = 0; i < 1000 && fake_rail.progress_rounds == 0; i++) {
        assert_ok(bench, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    }
    assert_true(fake_rail.progress_rounds > 0);
}

static void test_empty(void **state)
{
    struct bench *bench = *state;
    assert_ok(bench, put_as(bench, 0, RG_PATH_RDMA_ONLY));
    assert_string_equal(bench->result.path, "http:empty");
    assert_ok(bench, get_as(bench, 10, RG_PATH_AUTO));
    assert_int_equal(bench->result.bytes, 0);
    assert_string_equal(bench->result.path, "http:empty");
}

static void test_larger_than_room(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 100);
    bench->s3->rdma = FAKE_RDMA_OFF; /* a gateway declines: the window is too small */
    bench->s3->reason = "window-too-small";
    assert_fails(bench, RG_STATUS_USAGE, get_as(bench, 99, RG_PATH_AUTO));
    assert_int_equal(bench->buffer[0], 0);
}

/* ---- Declined ---- */

static void test_declined(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_OFF;
    for (int as_200 = 0; as_200 < 2; as_200++) {
        bench->s3->decline_as_200 = as_200;
        assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 10, RG_PATH_RDMA_ONLY));
        assert_non_null(strstr(bench->failure.message, "rdma-off"));
        assert_false(bench->failure.uncertain);
        assert_null(fake_s3_find(bench->s3, "b/k"));
    }
    assert_int_equal(bench->s3->tokens, 2); /* those who insist ask every time */
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "http:rdma-off");
    assert_string_equal(bench->result.reason, "rdma-off");
    assert_int_equal(bench->s3->tokens, 2); /* remembered */
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, get_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->buffer[0], 0);
    assert_int_equal(fake_rail.unsettled, 0);
}

static void test_get_declined(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 10);
    bench->s3->rdma = FAKE_RDMA_OFF;
    assert_ok(bench, get_as(bench, 10, RG_PATH_AUTO)); /* the object came with the decline */
    check_fetched(bench, 10);
    assert_string_equal(bench->result.path, "http:rdma-off");
    assert_int_equal(bench->s3->gets, 1);
    assert_int_equal(fake_rail.settled, 1);
    assert_ok(bench, get_as(bench, 10, RG_PATH_AUTO));
    assert_int_equal(bench->s3->tokens, 1);
}

static void test_get_declined_with_error(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 10);
    bench->s3->rdma = FAKE_RDMA_OFF;
    bench->s3->decline_as_error = true;
    assert_ok(bench, get_as(bench, 10, RG_PATH_AUTO)); /* asked again without the token */
    check_fetched(bench, 10);
    assert_int_equal(bench->s3->gets, 2);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, get_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->tokens, 2);
}

static void test_declines_of_one_request(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_OFF;
    bench->s3->reason = "below-minimum";
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "http:below-minimum");
    bench->s3->rdma = FAKE_RDMA_SERVE;
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "rdma:ofi:fake");
}

static void test_unreadable_reason(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_OFF;
    bench->s3->says_path = "declined:<b>\x1b[1m";
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    bench->s3->says_path = NULL;
    bench->s3->reason = "";
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "http:declined");
}

static void test_parts_mix(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT",
                                                 .part = "partNumber=2",
                                                 .times = 2,
                                                 .status = 500,
                                                 .code = "RDMATransferFailed"});
    assert_ok(bench, put_as(bench, SIZE, RG_PATH_AUTO));
    check_stored(bench, SIZE);
    assert_string_equal(bench->result.path, "mixed");
    assert_string_equal(bench->result.reason, "rdma-failed");
    assert_false(bench->result.used_rdma);
    assert_int_equal(bench->result.rdma_bytes, SIZE - 5 * MEBI);
}

/* ---- Servers that know no tokens ---- */

static void test_unaware(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_UNAWARE;
    /* The checksum of an empty body is another one: refused, and sent by HTTP. */
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "http:server-unaware");
    assert_int_equal(bench->s3->puts, 2);
    assert_int_equal(bench->s3->tokens, 1);
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_int_equal(bench->s3->tokens, 1);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 11, RG_PATH_RDMA_ONLY));
    check_stored(bench, 10);
}

static void test_unaware_without_checksums(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_UNAWARE;
    bench->s3->no_checksums = true;
    /* It takes the request for an empty object; that is found out and mended. */
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "http:server-unaware");
    assert_int_equal(bench->s3->heads, 1);
    assert_ok(bench, put_as(bench, SIZE, RG_PATH_AUTO));
    check_stored(bench, SIZE);
}

static void test_unaware_and_create(void **state)
{
    struct bench *bench = *state;
    struct rg_put_options options = {.if_none_match = true};
    bench->s3->rdma = FAKE_RDMA_UNAWARE;
    bench->s3->no_checksums = true;
    assert_fails(
        bench, RG_STATUS_RDMA_FAILED,
        rg_put(bench->client, "b", "k", bench->memory, 0, 10, &options, NULL, &bench->failure));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->puts, 1);
}

static void test_unproven(void **state)
{
    struct bench *bench = *state;
    struct rg_put_options options = {.no_checksum = true};
    bench->s3->rdma = FAKE_RDMA_UNAWARE;
    /* Without a checksum no token is sent to a server that nobody knows. */
    assert_ok(bench, rg_put(bench->client, "b", "k", bench->memory, 0, 10, &options, &bench->result,
                            &bench->failure));
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "http:server-unproven");
    assert_int_equal(bench->s3->tokens, 0);
    bench->s3->rdma = FAKE_RDMA_SERVE;
    assert_ok(bench, rg_put(bench->client, "b", "k", bench->memory, 0, 10, &options, &bench->result,
                            &bench->failure));
    assert_string_equal(bench->result.path, "rdma:ofi:fake");
}

static void test_unaware_get(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 100);
    bench->s3->rdma = FAKE_RDMA_UNAWARE;
    assert_ok(bench, get_as(bench, 100, RG_PATH_AUTO));
    check_fetched(bench, 100);
    assert_string_equal(bench->result.path, "http:server-unaware");
    assert_int_equal(fake_rail.unsettled, 1); /* gone before the body was put into the memory */
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(fake_rail.unsettled, 2);
}

/* ---- Servers of an older dialect: no reply ---- */

static void test_silent_put(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_SILENT;
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    check_stored(bench, 100);
    assert_true(bench->result.used_rdma);
    assert_int_equal(bench->s3->heads, 1); /* looked at before it counted */
    assert_ok(bench, put_as(bench, SIZE, RG_PATH_RDMA_ONLY));
    check_stored(bench, SIZE);
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "HEAD", .times = 99, .status = 500});
    assert_fails(bench, RG_STATUS_SERVER, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_true(bench->failure.uncertain);
}

static void test_silent_get(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 100);
    bench->s3->rdma = FAKE_RDMA_SILENT;
    assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_ok(bench, get_as(bench, 100, RG_PATH_AUTO));
    check_fetched(bench, 100);
    assert_string_equal(bench->result.path, "http:rdma-failed");
}

/* ---- Broken ---- */

static void test_transfer_failed(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_FAIL;
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_false(bench->failure.uncertain);
    assert_int_equal(bench->s3->tokens, 2); /* once more, with a new window */
    assert_int_equal(fake_rail.unsettled, 2);
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO)); /* nothing was stored: HTTP may */
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "http:rdma-failed");
    assert_ok(bench, get_as(bench, 10, RG_PATH_AUTO));
    check_fetched(bench, 10);
    assert_string_equal(bench->result.path, "http:rdma-failed");
}

static void test_answer_lost_once(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 1, .after = true, .how = TEST_HANG_UP});
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_false(bench->failure.uncertain);
    assert_string_equal(bench->result.path, "rdma:ofi:fake");
    assert_int_equal(bench->s3->tokens, 2);
    assert_int_equal(fake_rail.unsettled, 1);
    assert_int_equal(fake_rail.settled, 1);
}

static void test_answer_lost_twice(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 2, .after = true, .how = TEST_HANG_UP});
    assert_fails(bench, RG_STATUS_CONNECT, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->puts, 2); /* never by HTTP: it may be stored */
    assert_int_equal(bench->s3->tokens, 2);
}

static void test_answer_lost_then_declined(void **state)
{
    struct bench *bench = *state;
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 1, .after = true, .how = TEST_HANG_UP});
    fake_s3_fault(bench->s3,
                  (struct fake_fault){
                      .method = "PUT", .times = 1, .status = 400, .code = "InvalidRDMAToken"});
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->tokens, 2);
}

static void test_answer_to_create_lost(void **state)
{
    struct bench *bench = *state;
    struct rg_put_options options = {.if_none_match = true};
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 1, .after = true, .how = TEST_HANG_UP});
    assert_fails(
        bench, RG_STATUS_CONNECT,
        rg_put(bench->client, "b", "k", bench->memory, 0, 10, &options, NULL, &bench->failure));
    assert_true(bench->failure.uncertain);
    assert_int_equal(bench->s3->tokens, 1);
}

static void test_get_answer_lost(void **state)
{
    struct bench *bench = *state;
    add_object(bench, 100);
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "GET", .times = 2, .after = true, .how = TEST_HANG_UP});
    assert_ok(bench, get_as(bench, 100, RG_PATH_AUTO)); /* reading is always safe */
    check_fetched(bench, 100);
    assert_string_equal(bench->result.path, "http:rdma-failed");
    assert_int_equal(fake_rail.unsettled, 2);
}

static void test_late_peer(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.request_timeout_ms = 200;
    options.path = RG_PATH_RDMA_ONLY;
    bench_reopen(bench, &options);
    add_object(bench, 100);
    fake_s3_fault(bench->s3, (struct fake_fault){.times = 4, .how = TEST_SILENCE});
    assert_fails(bench, RG_STATUS_TIMEOUT, get_as(bench, 100, RG_PATH_AUTO));
    assert_false(bench->failure.uncertain);
    /* The buffer is the caller's again: what comes now must not reach it. */
    assert_false(fake_rail_write(bench->s3->last_token, 0, "late", 4));
    assert_int_equal(bench->buffer[0], 0);
    assert_fails(bench, RG_STATUS_TIMEOUT, put_as(bench, 100, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    char late[4];
    assert_false(fake_rail_read(bench->s3->last_token, 0, late, 4));
    assert_int_equal(fake_rail.unsettled, 4);
    assert_true(fake_rail.resets > 0);
}

/* ---- Strictness ---- */

static void test_put_replies(void **state)
{
    struct bench *bench = *state;
    static const char *const bad[] = {"",    "0",      "99",   "600",  "206",   "500",
                                      "2e2", "200xyz", "+200", "0200", "200:x", "20 0"};
    static const char *const good[] = {"200", "204"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bench->s3->reply = bad[i];
        assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
        assert_true(bench->failure.uncertain);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bench->s3->reply = good[i];
        assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
        assert_true(bench->result.used_rdma);
    }
    bench->s3->reply = "501"; /* declined, and stored all the same? */
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
}

static void test_put_facts(void **state)
{
    struct bench *bench = *state;
    bench->s3->bytes_off = -1;
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    bench->s3->bytes_off = 0;
    bench->s3->no_byte_count = true; /* optional for PUT */
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    bench->s3->no_etag = true;
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    bench->s3->no_etag = false;
    bench->s3->says_path = "rdma:rc";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
    assert_true(bench->failure.uncertain);
    bench->s3->says_path = "http:no-token";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 10, RG_PATH_AUTO));
}

/* What some servers say of a range, taken for success only by a client that was told so. */
static void test_mixed_range_replies(void **state)
{
    static const struct {
        const char *reply;
        bool range_as_200;
        bool is_pair;
    } cases[] = {{"200", false, true}, {"206", true, true}, {"200", true, false}};
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    struct rg_get_options only = {.path = RG_PATH_RDMA_ONLY};
    fake_s3_add(bench->s3, "b/k", bench->buffer, 1000);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(cases); i++) {
        for (int allowed = 0; allowed < 2; allowed++) {
            options.mixed_range_replies = allowed;
            bench_reopen(bench, &options);
            bench->s3->reply = cases[i].reply;
            bench->s3->range_as_200 = cases[i].range_as_200;
            int rc = rg_get_range(bench->client, "b", "k", 100, 50, bench->memory, 0, &only,
                                  &bench->result, &bench->failure);
            if (allowed && cases[i].is_pair) {
                assert_ok(bench, rc);
                assert_int_equal(bench->result.bytes, 50);
                assert_string_equal(bench->result.path, "rdma:ofi:fake");
            } else {
                assert_fails(bench, RG_STATUS_RDMA_FAILED, rc);
            }
        }
    }
    /* Of a whole object nobody says that. */
    bench->s3->reply = "206";
    assert_fails(
        bench, RG_STATUS_RDMA_FAILED,
        rg_get(bench->client, "b", "k", bench->memory, 0, 1000, &only, NULL, &bench->failure));
}

static void test_get_facts(void **state)
{
    struct bench *bench = *state;
    static const char *const bad[] = {"", "206", "204", "500", "200xyz"};
    add_object(bench, 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bench->s3->reply = bad[i];
        assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    }
    bench->s3->reply = "200"; /* of a 206 */
    struct rg_get_options only = {.path = RG_PATH_RDMA_ONLY};
    assert_fails(bench, RG_STATUS_RDMA_FAILED,
                 rg_get_range(bench->client, "b", "k", 0, 10, bench->memory, 0, &only, NULL,
                              &bench->failure));
    bench->s3->reply = NULL;
    bench->s3->no_byte_count = true; /* needed for GET */
    assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    bench->s3->no_byte_count = false;
    static const int64_t offs[] = {1, -100, 1000};
    for (size_t i = 0; i < sizeof offs / sizeof *offs; i++) {
        bench->s3->bytes_off = offs[i];
        assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    }
    bench->s3->bytes_off = -1; /* fewer: the checksum tells */
    assert_fails(bench, RG_STATUS_INTEGRITY, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    bench->s3->bytes_off = 0;
    bench->s3->says_path = "rdma:rc";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    bench->s3->says_path = NULL;
    assert_ok(bench, get_as(bench, 100, RG_PATH_RDMA_ONLY));
}

static void test_ordinary_failures(void **state)
{
    struct bench *bench = *state;
    assert_fails(bench, RG_STATUS_NOT_FOUND, get_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_string_equal(bench->failure.s3_code, "NoSuchKey");
    assert_int_equal(bench->s3->tokens, 1);
    assert_int_equal(fake_rail.settled, 1);
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 2, .status = 503, .code = "SlowDown"});
    assert_ok(bench, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->tokens, 4); /* each attempt has a token of its own */
    assert_int_equal(fake_rail.mints, 4);
}

/* ---- Rails ---- */

static void test_no_window(void **state)
{
    struct bench *bench = *state;
    fake_rail.fail_mint = true;
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "http:no-window");
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_non_null(strstr(bench->failure.message, "no keys left"));
    assert_int_equal(bench->s3->tokens, 0);
}

static void test_no_registration(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    bench_close(bench);
    fake_rail.fail_register = true;
    bench_open(bench, &options);
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "http:memory-not-registered");
}

static void test_no_rail(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    bench_close(bench);
    fake_rail.fail_open = true;
    bench_open(bench, &options);
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, "http:no-transport");
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 10, RG_PATH_RDMA_ONLY));
    assert_non_null(strstr(bench->failure.message, "The fake rail is not there."));
    char *text = rg_client_describe(bench->client);
    assert_non_null(strstr(text, "no ofi tcp: The fake rail is not there."));
    free(text);
}

static void test_second_rail(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.transports = "dc,ofi";
    bench_reopen(bench, &options);
    bench->s3->only_ofi = true;
    bench->s3->reason = "dialect-not-served";
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO));
    check_stored(bench, 10);
    assert_string_equal(bench->result.path, "rdma:ofi:fake");
    assert_int_equal(bench->s3->tokens, 2);
    assert_ok(bench, put_as(bench, 10, RG_PATH_AUTO)); /* remembered for that rail only */
    assert_int_equal(bench->s3->tokens, 3);
    char *text = rg_client_describe(bench->client);
    assert_non_null(strstr(text, "dc fake"));
    assert_non_null(strstr(text, "dialect-not-served"));
    free(text);
}

/* ---- Sessions of the rc transport ---- */

static void open_rc(struct bench *bench)
{
    struct rg_client_options options = bench_options(bench);
    options.transports = "rc";
    bench_reopen(bench, &options);
    bench->s3->rail_path = "rc";
    bench->s3->sessions = true;
}

static void test_session(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    for (int i = 0; i < 3; i++) {
        assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
        assert_string_equal(bench->result.path, "rdma:rc");
    }
    assert_int_equal(bench->s3->connects, 1);
    assert_int_equal(fake_rail.pairings, 1);
    assert_ok(bench, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->connects, 1);
}

static void test_session_lost(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    snprintf(bench->s3->last_session, sizeof bench->s3->last_session, "gone");
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->connects, 2);
    assert_false(bench->failure.uncertain);
    snprintf(bench->s3->last_session, sizeof bench->s3->last_session, "gone");
    assert_ok(bench, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->connects, 3);
}

/* As our gateway says it: a GET, too, makes a new session rather than taking the body. */
static void test_session_lost_is_renewed(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    bench->s3->lost_is_declined = true;
    for (unsigned i = 1; i < 4; i++) {
        assert_ok(bench, put_as(bench, 100, RG_PATH_AUTO));
        assert_true(bench->result.used_rdma);
        assert_int_equal(bench->s3->connects, 2 * i - 1);
        snprintf(bench->s3->last_session, sizeof bench->s3->last_session, "gone");
        assert_ok(bench, get_as(bench, 100, i % 2 ? RG_PATH_AUTO : RG_PATH_RDMA_ONLY));
        assert_true(bench->result.used_rdma);
        assert_int_equal(bench->s3->connects, 2 * i);
        snprintf(bench->s3->last_session, sizeof bench->s3->last_session, "gone");
    }
    assert_int_equal(fake_rail.pairings, 6);
}

static void test_session_is_ended(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->disconnects, 0);
    open_rc(bench);
    assert_int_equal(bench->s3->disconnects, 1);
}

/* hipobj-rc-v2 at a server that knows nothing of it: nothing is stored under a strange name, and
 * only RDMA is a failure. */
static void test_push_at_unaware_server(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.transports = "hipobj-rc-v2";
    bench_reopen(bench, &options);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->s3->puts, 0);
    assert_ok(bench, put_as(bench, 100, RG_PATH_AUTO));
    assert_false(bench->result.used_rdma);
    assert_ok(bench, get_as(bench, 100, RG_PATH_AUTO));
    assert_false(bench->result.used_rdma);
    assert_int_equal(bench->s3->connects, 0);
    assert_int_equal(bench->s3->tokens, 1); /* once: that is remembered */
    options.transports = "rc,hipobj-rc-v2";
    assert_int_equal(rg_client_open(&options, &(struct rg_client *){NULL}, &bench->failure),
                     -RG_STATUS_USAGE);
}

/* ---- A rail that fails under a transfer ---- */

static void fail_a_transfer(struct bench *bench)
{
    bench->s3->rdma = FAKE_RDMA_FAIL;
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    bench->s3->rdma = FAKE_RDMA_SERVE;
}

static void expect_path(struct bench *bench, const char *path)
{
    assert_ok(bench, put_as(bench, 100, RG_PATH_AUTO));
    assert_string_equal(bench->result.path, path);
    check_stored(bench, 100);
}

static void expect_description(struct bench *bench, const char *words, bool is_there)
{
    char *text = rg_client_describe(bench->client);
    assert_non_null(text);
    if ((strstr(text, words) != NULL) != is_there) {
        fail_msg("\"%s\" in: %s", words, text);
    }
    free(text);
}

/* One transfer that broke says nothing about the rail as long as the rail is fine. */
static void test_rail_stays(void **state)
{
    struct bench *bench = *state;
    fail_a_transfer(bench);
    expect_path(bench, "rdma:ofi:fake");
    expect_description(bench, "out, and tried again", false);
}

static void test_rail_goes_and_comes_back(void **state)
{
    struct bench *bench = *state;
    fake_rail.is_down = true;
    fail_a_transfer(bench);
    expect_path(bench, "http:rail-down");
    expect_description(bench, "out, and tried again: The fake port is down.", true);
    unsigned lanes = fake_rail.lanes;
    assert_int_equal(lanes, 0); /* none is kept for what comes after */
    fake_rail.is_down = false;
    expect_path(bench, "http:rail-down"); /* its time has not come */
    usleep(1100000);
    expect_path(bench, "rdma:ofi:fake");
    expect_description(bench, "out, and tried again", false);
    assert_int_equal(fake_rail.rails, 1); /* as it was */
}

/* Who wants nothing but RDMA does not wait for the time. */
static void test_rail_is_looked_at_when_needed(void **state)
{
    struct bench *bench = *state;
    fake_rail.is_down = true;
    fail_a_transfer(bench);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_non_null(strstr(bench->failure.message, "rail-down"));
    fake_rail.is_down = false;
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    expect_path(bench, "rdma:ofi:fake");
}

static void test_rail_waits_longer_each_time(void **state)
{
    struct bench *bench = *state;
    fake_rail.is_down = true;
    fail_a_transfer(bench);
    usleep(1100000);
    expect_path(bench, "http:rail-down"); /* looked at: the next time is in 2 s */
    fake_rail.is_down = false;
    usleep(1100000);
    expect_path(bench, "http:rail-down");
    usleep(1100000);
    expect_path(bench, "rdma:ofi:fake");
}

/* A device that was pulled out and put back: rail and registrations are made anew. */
static void test_rail_is_opened_anew(void **state)
{
    struct bench *bench = *state;
    struct rg_memory *memory = NULL;
    expect_path(bench, "rdma:ofi:fake");
    fake_rail.gone++;
    fake_rail.fail_open = true;
    fail_a_transfer(bench);
    expect_path(bench, "http:rail-down");
    /* Memory that is registered now is for later, too. */
    assert_ok(bench,
              rg_memory_register(bench->client, bench->buffer, 100, &memory, &bench->failure));
    unsigned regions = fake_rail.regions;
    fake_rail.fail_open = false;
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    check_stored(bench, 100);
    assert_ok(bench, rg_put(bench->client, "b", "other", memory, 0, 100, NULL, &bench->result,
                            &bench->failure));
    assert_true(bench->result.used_rdma);
    assert_int_equal(fake_rail.regions, regions + 1);
    assert_ok(bench, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    rg_memory_release(memory);
    /* The old rail goes when the last that is registered on it does. */
    assert_true(fake_rail.rails <= 2);
}

static void test_rail_is_opened_anew_again(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < 5; i++) {
        fake_rail.gone++;
        fail_a_transfer(bench);
        assert_ok(bench, put_as(bench, SIZE, RG_PATH_RDMA_ONLY)); /* several pieces at once */
        check_stored(bench, SIZE);
        assert_ok(bench, get_as(bench, SIZE, RG_PATH_RDMA_ONLY));
        check_fetched(bench, SIZE);
    }
    assert_true(fake_rail.rails <= 2);
}

/* The gateway could not reach the client because the client's own port is down: for as long as that
 * lasts, not for as long as a gateway's word counts. */
static void test_rail_that_is_unreachable(void **state)
{
    struct bench *bench = *state;
    fake_rail.is_down = true;
    bench->s3->rdma = FAKE_RDMA_OFF;
    bench->s3->reason = "unreachable";
    expect_path(bench, "http:unreachable");
    bench->s3->rdma = FAKE_RDMA_SERVE;
    fake_rail.is_down = false;
    usleep(1100000);
    expect_path(bench, "rdma:ofi:fake");
}

/* ---- Rails that are not there yet ---- */

static void open_rc_as(struct bench *bench, struct rg_client_options *options)
{
    options->transports = "rc";
    bench->s3->rail_path = "rc";
    bench->s3->sessions = true;
    bench_reopen(bench, options);
}

/* What is out when the client is opened is tried like what went out later; memory that was
 * registered before is registered there when it is used. */
static void expect_it_comes(struct bench *bench, atomic_bool *what, const char *why)
{
    unsigned regions = fake_rail.regions;
    expect_path(bench, "http:rail-down");
    expect_description(bench, "out, and tried again", true);
    expect_description(bench, why, true);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_non_null(strstr(bench->failure.message, why));
    *what = false;
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_string_equal(bench->result.path, "rdma:rc");
    check_stored(bench, 100);
    assert_ok(bench, get_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_int_equal(fake_rail.regions, regions + 1);
    expect_description(bench, "rc fake", true);
    expect_description(bench, "out, and tried again", false);
}

static void test_rail_down_at_first(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    fake_rail.is_down = true;
    open_rc_as(bench, &options);
    expect_it_comes(bench, &fake_rail.is_down, "The fake port is down.");
}

static void test_device_missing_at_first(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    options.device = "fake_0";
    fake_rail.is_missing = true;
    open_rc_as(bench, &options);
    expect_it_comes(bench, &fake_rail.is_missing, "There is no RDMA device named fake_0.");
}

static void test_transport_missing_at_first(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    fake_rail.fail_open = true;
    open_rc_as(bench, &options);
    expect_it_comes(bench, &fake_rail.fail_open, "The fake rail is not there.");
}

/* Its time comes by itself, too. */
static void test_rail_down_at_first_waits(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    fake_rail.is_down = true;
    open_rc_as(bench, &options);
    fake_rail.is_down = false;
    expect_path(bench, "http:rail-down");
    usleep(1100000);
    expect_path(bench, "rdma:rc");
}

/* Nobody asked for dc and rc by name, and "tcp" is none of their devices: that they are not here
 * is no fault. The client closes without ever having had a rail. */
static void test_nobody_asked(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    fake_rail.fail_open = true;
    options.transports = NULL;
    bench_reopen(bench, &options);
    expect_path(bench, "http:no-transport");
    expect_description(bench, "out, and tried again", false);
    options.device = "tcp";
    options.transports = "dc,rc";
    bench_reopen(bench, &options);
    expect_path(bench, "http:no-transport");
    fake_rail.fail_open = false;
    fake_rail.is_down = true;
    options.device = NULL;
    bench_reopen(bench, &options);
    expect_description(bench, "out, and tried again", true);
}

/* What the options and the environment say of packets reaches the rails. */
static void test_packets(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    bench_reopen(bench, &options);
    assert_int_equal(fake_rail.config.mtu, 0);
    assert_int_equal(fake_rail.config.hop_limit, 64);
    assert_int_equal(fake_rail.config.service_level, 0);
    assert_int_equal(fake_rail.config.traffic_class, RG_RAIL_AUTO);
    assert_int_equal(fake_rail.config.gid_index, RG_RAIL_AUTO);
    options.mtu = 1024;
    options.hop_limit = 3;
    options.service_level = 5;
    options.traffic_class = "104";
    options.gid_index = "7";
    bench_reopen(bench, &options);
    assert_int_equal(fake_rail.config.mtu, 1024);
    assert_int_equal(fake_rail.config.hop_limit, 3);
    assert_int_equal(fake_rail.config.service_level, 5);
    assert_int_equal(fake_rail.config.traffic_class, 104);
    assert_int_equal(fake_rail.config.gid_index, 7);
}

/* ---- hipobj-rc-v2 ---- */

static void open_push(struct bench *bench)
{
    struct rg_client_options options = bench_options(bench);
    options.transports = "hipobj-rc-v2";
    bench->s3->pushes = true;
    bench->s3->rail_path = "rc";
    bench_reopen(bench, &options);
}

static void be_busy(struct bench *bench, unsigned times, int status, const char *code)
{
    bench->s3->busy_times = times;
    bench->s3->busy_status = status;
    bench->s3->busy_code = code;
    bench->s3->prepares = bench->s3->readies = bench->s3->cancels = 0;
}

static void expect_calls(struct bench *bench, unsigned prepares, unsigned readies, unsigned cancels)
{
    assert_int_equal(bench->s3->prepares, prepares);
    assert_int_equal(bench->s3->readies, readies);
    assert_int_equal(bench->s3->cancels, cancels);
    assert_int_equal(fake_rail.windows, 0);
}

static void test_push_both_ways(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {1, 4097, MEBI};
    open_push(bench);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        be_busy(bench, 0, 0, NULL);
        assert_ok(bench, put_as(bench, sizes[i], RG_PATH_RDMA_ONLY));
        check_stored(bench, sizes[i]);
        assert_ok(bench, get_as(bench, sizes[i], RG_PATH_RDMA_ONLY));
        check_fetched(bench, sizes[i]);
        assert_string_equal(bench->result.path, "rdma:rc");
        expect_calls(bench, 2, 2, 0);
    }
}

/* The checksum of what moved, where the gateway tells one: it must be right, and readable. */
static void test_push_checksums(void **state)
{
    struct bench *bench = *state;
    struct rg_get_options unchecked = {.path = RG_PATH_RDMA_ONLY, .no_checksum = true};
    char *bytes = malloc(65536);
    for (size_t i = 0; i < 65536; i++) {
        bytes[i] = (char)(131 * i);
    }
    open_push(bench);
    fake_s3_add(bench->s3, "b/k", bytes, 65536);
    bench->s3->push_checksum = "CRC64NVME 1ccJM7X6eYY=";
    assert_ok(bench, get_as(bench, 65536, RG_PATH_RDMA_ONLY));
    bench->s3->push_crc64 = "1ccJM7X6eYY=";
    assert_ok(bench, get_as(bench, 65536, RG_PATH_RDMA_ONLY));
    bench->s3->push_checksum = NULL;
    assert_ok(bench, get_as(bench, 65536, RG_PATH_RDMA_ONLY));
    check_fetched(bench, 65536);

    static const char *const bad[] = {
        "CRC64NVME 1ccJM7X6eYY",
        "CRC64NVME 1ccJM7X6eYY=A",
        "crc64nvme 1ccJM7X6eYY=",
        "CRC64NVME 1ccJM7X6eYZ=",
        "CRC64NVME",
        "CRC64NVME ",
        "CRC64NVME 1ccJM7X6eYY=-1",
        "CRC64NVME  1ccJM7X6eYY=",
        "1ccJM7X6eYY=",
        "CRC64NVME lc0RfFsF3ME=" /* of other bytes, and not what the other field says */};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bench->s3->push_checksum = bad[i];
        assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 65536, RG_PATH_RDMA_ONLY));
    }
    bench->s3->push_crc64 = NULL;
    bench->s3->push_checksum = "CRC64NVME lc0RfFsF3ME=";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 65536, RG_PATH_RDMA_ONLY));
    assert_non_null(strstr(bench->failure.message, "not those that the gateway sent"));
    assert_ok(bench, rg_get(bench->client, "b", "k", bench->memory, 0, 65536, &unchecked,
                            &bench->result, &bench->failure));
    bench->s3->push_checksum = "nonsense";
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
    assert_true(bench->failure.uncertain); /* the object may be there */
    free(bytes);
}

/* READY is sent again after the answers that say that it may be. */
static void test_push_ready_again(void **state)
{
    struct bench *bench = *state;
    static const struct {
        int status;
        const char *code;
    } rows[] = {{409, "RdmaPeerBusy"}, {503, "SlowDown"}};
    open_push(bench);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned times = 1; times <= 3; times++) {
            be_busy(bench, times, rows[i].status, rows[i].code);
            assert_ok(bench, put_as(bench, 5000, RG_PATH_RDMA_ONLY));
            check_stored(bench, 5000);
            expect_calls(bench, 1, 1 + times, 0);
            be_busy(bench, times, rows[i].status, rows[i].code);
            assert_ok(bench, get_as(bench, 5000, RG_PATH_RDMA_ONLY));
            check_fetched(bench, 5000);
            expect_calls(bench, 1, 1 + times, 0);
        }
    }
}

/* Not for ever: after that the whole transfer is tried once more, and then it has failed. */
static void test_push_ready_is_bounded(void **state)
{
    struct bench *bench = *state;
    open_push(bench);
    add_object(bench, 5000);
    be_busy(bench, 1000, 409, "RdmaPeerBusy");
    assert_fails(bench, RG_STATUS_RDMA_FAILED, get_as(bench, 5000, RG_PATH_RDMA_ONLY));
    expect_calls(bench, 2, 8, 2);
    be_busy(bench, 1000, 409, "RdmaPeerBusy");
    assert_fails(bench, RG_STATUS_RDMA_FAILED, put_as(bench, 5000, RG_PATH_RDMA_ONLY));
    assert_false(bench->failure.uncertain);
    expect_calls(bench, 2, 8, 2);
    be_busy(bench, 5, 409, "RdmaPeerBusy"); /* the second attempt comes through */
    assert_ok(bench, put_as(bench, 4000, RG_PATH_RDMA_ONLY));
    check_stored(bench, 4000);
    expect_calls(bench, 2, 6, 1);
}

/* Other conflicts are answers: a first READY that is under way, an object in the way. */
static void test_push_ready_is_not_sent_again(void **state)
{
    struct bench *bench = *state;
    static const char *const codes[] = {"RdmaTransferInProgress", "ObjectParentIsFile"};
    open_push(bench);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        be_busy(bench, 1000, 409, codes[i]);
        assert_true(put_as(bench, 5000, RG_PATH_RDMA_ONLY) < 0);
        assert_int_equal(bench->s3->readies, bench->s3->prepares);
        assert_null(fake_s3_find(bench->s3, "b/k"));
    }
}

static void test_session_after_failure(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    fake_s3_fault(bench->s3, (struct fake_fault){
                                 .method = "PUT", .times = 1, .after = true, .how = TEST_HANG_UP});
    assert_ok(bench, put_as(bench, 100, RG_PATH_RDMA_ONLY)); /* its lane was broken: paired anew */
    assert_int_equal(bench->s3->connects, 2);
}

static void test_session_declined(void **state)
{
    struct bench *bench = *state;
    open_rc(bench);
    bench->s3->sessions = false;
    assert_ok(bench, put_as(bench, 100, RG_PATH_AUTO));
    assert_false(bench->result.used_rdma);
    assert_ok(bench, put_as(bench, 100, RG_PATH_AUTO));
    assert_int_equal(bench->s3->connects, 1);
    assert_fails(bench, RG_STATUS_RDMA_DECLINED, put_as(bench, 100, RG_PATH_RDMA_ONLY));
}

/* ---- Threads ---- */

struct worker {
    struct bench *bench;
    unsigned number;
    unsigned failures;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct rg_client *client = worker->bench->client;
    char key[16];
    size_t size = 20000 + worker->number * 1000;
    char *bytes = malloc(size);
    char *copy = malloc(size);
    struct rg_memory *from;
    struct rg_memory *to;
    snprintf(key, sizeof key, "k%u", worker->number);
    fill(bytes, size, worker->number + 10);
    worker->failures += rg_memory_register(client, bytes, size, &from, NULL) < 0;
    worker->failures += rg_memory_register(client, copy, size, &to, NULL) < 0;
    for (int i = 0; i < 20; i++) {
        struct rg_result result;
        memset(copy, 0, size);
        worker->failures += rg_put(client, "b", key, from, 0, size, NULL, &result, NULL) < 0;
        worker->failures += !result.used_rdma;
        worker->failures += rg_get(client, "b", key, to, 0, size, NULL, &result, NULL) < 0;
        worker->failures += memcmp(bytes, copy, size) != 0;
    }
    rg_memory_release(from);
    rg_memory_release(to);
    free(bytes);
    free(copy);
    return NULL;
}

static void test_threads(void **state)
{
    struct bench *bench = *state;
    pthread_t threads[12];
    struct worker workers[12];
    for (unsigned i = 0; i < 12; i++) {
        workers[i] = (struct worker){.bench = bench, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 12; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_put),
        TEST(test_get),
        TEST(test_progress_thread),
        TEST(test_empty),
        TEST(test_larger_than_room),
        TEST(test_declined),
        TEST(test_get_declined),
        TEST(test_get_declined_with_error),
        TEST(test_declines_of_one_request),
        TEST(test_unreadable_reason),
        TEST(test_parts_mix),
        TEST(test_unaware),
        TEST(test_unaware_without_checksums),
        TEST(test_unaware_and_create),
        TEST(test_unproven),
        TEST(test_unaware_get),
        TEST(test_silent_put),
        TEST(test_silent_get),
        TEST(test_transfer_failed),
        TEST(test_answer_lost_once),
        TEST(test_answer_lost_twice),
        TEST(test_answer_lost_then_declined),
        TEST(test_answer_to_create_lost),
        TEST(test_get_answer_lost),
        TEST(test_late_peer),
        TEST(test_put_replies),
        TEST(test_put_facts),
        TEST(test_get_facts),
        TEST(test_mixed_range_replies),
        TEST(test_ordinary_failures),
        TEST(test_no_window),
        TEST(test_no_registration),
        TEST(test_no_rail),
        TEST(test_second_rail),
        TEST(test_session),
        TEST(test_session_lost),
        TEST(test_session_lost_is_renewed),
        TEST(test_session_is_ended),
        TEST(test_push_at_unaware_server),
        TEST(test_rail_stays),
        TEST(test_rail_goes_and_comes_back),
        TEST(test_rail_is_looked_at_when_needed),
        TEST(test_rail_waits_longer_each_time),
        TEST(test_rail_is_opened_anew),
        TEST(test_rail_is_opened_anew_again),
        TEST(test_rail_that_is_unreachable),
        TEST(test_rail_down_at_first),
        TEST(test_device_missing_at_first),
        TEST(test_transport_missing_at_first),
        TEST(test_rail_down_at_first_waits),
        TEST(test_nobody_asked),
        TEST(test_packets),
        TEST(test_push_both_ways),
        TEST(test_push_checksums),
        TEST(test_push_ready_again),
        TEST(test_push_ready_is_bounded),
        TEST(test_push_ready_is_not_sent_again),
        TEST(test_session_after_failure),
        TEST(test_session_declined),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
