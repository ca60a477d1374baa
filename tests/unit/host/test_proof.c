/*
 * Proofs of a path with memory of a GPU on either end: the rc transport over a verbs library made
 * of memory copies, and a stand-in for libcuda whose device memory crashes who touches it. That a
 * real card and a real driver agree is not shown by this.
 */
#include "test.h"

#include "fake_verbs.h"
#include "host/json.h"
#include "host/peer_proof.h"
#include "host/peer_wire.h"

#include "base/attr.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static const struct rg_proof_way rc_way = {RG_TRANSPORT_RC, ""};
static int fds[2];
static pthread_t thread;
static struct rg_proof_gpu lent;
static struct rg_error error;

static void *serve(void *argument)
{
    (void)argument;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_proof_host *host = NULL;
    assert_int_equal(rg_proof_host_open("127.0.0.1", &lent, &host, &err), 0);
    for (;;) {
        RG_CLEANUP(rg_host_json_free) json_t *message = NULL;
        if (rg_peer_receive(fds[1], 10000, &message, &err) < 0 ||
            rg_peer_send(fds[1], rg_proof_host_answer(host, message), 10000, &err) < 0) {
            break;
        }
    }
    rg_proof_host_close(host);
    return NULL;
}

static int start(void **state)
{
    (void)state;
    fake_reset();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fake_expect_empty();
    rg_verbs_replace(NULL, NULL);
    unsetenv("FAKE_CUDA_NO_EXPORT");
    return 0;
}

/* `own` and `other` name what each side has, "" for none. */
static struct rg_proof_result prove(const char *own, const char *other, uint64_t bytes)
{
    struct rg_proof_gpu gpu;
    struct rg_proof_result result;
    struct rg_proof_ask asked = {
        .way = &rc_way, .address = "127.0.0.1", .bytes = bytes, .gpu = &gpu};
    assert_int_equal(rg_proof_gpu_parse(own, &gpu, &error), 0);
    assert_int_equal(rg_proof_gpu_parse(other, &lent, &error), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    if (rg_proof_run(fds[0], &asked, &result, &error) < 0) {
        fail_msg("%s", error.message);
    }
    close(fds[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(fds[1]);
    return result;
}

static void expect_moved(const struct rg_proof_result *result, uint64_t bytes)
{
    if (!result->well) {
        fail_msg("%s", result->message);
    }
    assert_true(result->tried);
    assert_int_equal(result->largest_write, bytes);
    assert_int_equal(result->largest_read, bytes);
    assert_true(result->write_mbits > 0 && result->read_mbits > 0 && result->latency_us > 0);
}

static void test_hosts(void **state)
{
    (void)state;
    struct rg_proof_result result = prove("", "", 4 * MIB);
    expect_moved(&result, 4 * MIB);
    assert_string_equal(result.own.name, "host");
    assert_string_equal(result.other.name, "host");
    assert_int_equal(result.other.registered, 4 * MIB);
}

static void test_own_gpu(void **state)
{
    (void)state;
    struct rg_proof_result result = prove("cuda:0", "", 4 * MIB);
    expect_moved(&result, 4 * MIB);
    assert_string_equal(result.own.name, "cuda:0");
    assert_string_equal(result.own.how, "dma-buf");
    assert_int_equal(result.own.registered, 4 * MIB);
    assert_string_equal(result.other.name, "host");
}

static void test_other_gpu(void **state)
{
    (void)state;
    struct rg_proof_result result = prove("", "cuda:0", 4 * MIB);
    expect_moved(&result, 4 * MIB);
    assert_string_equal(result.own.name, "host");
    assert_string_equal(result.other.name, "cuda:0");
    assert_string_equal(result.other.how, "dma-buf");
    assert_int_equal(result.other.registered, 4 * MIB);
}

/* The largest piece that fits is found, and what fits is moved. */
static void test_narrow_window(void **state)
{
    (void)state;
    fake.dmabuf_max = 5 * MIB + 4096;
    struct rg_proof_result result = prove("", "cuda:0", 8 * MIB);
    expect_moved(&result, 4 * MIB);
    assert_int_equal(result.other.registered, 5 * MIB);
}

static void test_damage_is_seen(void **state)
{
    (void)state;
    fake.corrupts = true;
    struct rg_proof_result result = prove("cuda:0", "", 4 * MIB);
    assert_true(result.tried && !result.well);
    assert_non_null(strstr(result.message, "not what"));
}

static void test_cannot_be_registered(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_NO_EXPORT", "1", 1);
    struct rg_proof_result result = prove("cuda:0", "", 4 * MIB);
    assert_false(result.tried || result.well);
    assert_non_null(strstr(result.message, "dma-buf"));
}

static void test_other_cannot_register(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_NO_EXPORT", "1", 1);
    struct rg_proof_result result = prove("", "cuda:0", 4 * MIB);
    assert_false(result.well);
    assert_non_null(strstr(result.message, "the other host: Exporting"));
}

static void test_no_such_gpu(void **state)
{
    (void)state;
    struct rg_proof_result result = prove("cuda:1", "", 4 * MIB);
    assert_false(result.tried);
    assert_non_null(strstr(result.message, "Finding the CUDA device failed with error 101"));
}

static void test_no_library(void **state)
{
    (void)state;
    struct rg_proof_result result = prove("hip:0", "", 4 * MIB);
    assert_false(result.tried);
    assert_non_null(strstr(result.message, "libamdhip64"));
}

static void test_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"cuda", "cuda:", "cuda:-1",  "cuda:256", "rocm:0",
                                        "0",    ":0",    "cuda:0x1", "cuda:0 "};
    struct rg_proof_gpu gpu;
    assert_int_equal(rg_proof_gpu_parse("hip:3", &gpu, &error), 0);
    assert_true(gpu.is_named && gpu.kind == RG_DEVICE_HIP && gpu.ordinal == 3);
    assert_string_equal(gpu.name, "hip:3");
    assert_int_equal(rg_proof_gpu_parse("", &gpu, &error), 0);
    assert_false(gpu.is_named);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(wrong); i++) {
        assert_int_equal(rg_proof_gpu_parse(wrong[i], &gpu, &error), -RG_SETTING);
        assert_false(gpu.is_named);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hosts),
        TEST(own_gpu),
        TEST(other_gpu),
        TEST(narrow_window),
        TEST(damage_is_seen),
        TEST(cannot_be_registered),
        TEST(other_cannot_register),
        TEST(no_such_gpu),
        TEST(no_library),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
