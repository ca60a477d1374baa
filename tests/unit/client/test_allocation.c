/*
 * Lets the n-th allocation fail, for every n of a transfer: each call must come back with a failure
 * or the right result, and nothing may be lost. The linker hands the allocations of the client room
 * and the rooms below it to the functions here (--wrap); libcurl and libcrypto keep their own.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);

static atomic_bool armed;
static _Thread_local bool counts; /* only the thread that calls the client, and those it starts */
static atomic_long left;
static atomic_bool has_failed;

static bool fails(void)
{
    if (!armed || !counts || atomic_fetch_sub(&left, 1) != 0) {
        return false;
    }
    has_failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return fails() ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* Two parts: a third would bring no new allocation, and half as much time again. */
static char buffer[(5 << 20) + 100000];
static char file[] = "/tmp/rg-allocation-XXXXXX";

static bool see(void *context, const struct rg_listed *entry)
{
    return true;
}

/* Everything once; a failure stops it. `bench` has no client yet. */
static int do_all(struct bench *bench, const struct rg_client_options *options)
{
    const struct rg_client_seams seams = {.environment = no_environment,
                                          .find_transport = fake_rail_find};
    struct rg_failure *failure = &bench->failure;
    const char *const metadata[] = {"colour", "blue", NULL};
    const struct rg_put_options with = {.content_type = "a/b", .metadata = metadata};
    const struct rg_file_options resume = {.resume = true};
    memset(failure, 0, sizeof *failure);
    int rc = rg_client_open_with(options, &seams, &bench->client, failure);
    if (rc == 0) {
        rc = rg_memory_register(bench->client, buffer, sizeof buffer, &bench->memory, failure);
    }
    if (rc == 0) {
        rc = rg_put(bench->client, "b", "k", bench->memory, 0, 100, &with, NULL, failure);
    }
    if (rc == 0) {
        rc = rg_get(bench->client, "b", "k", bench->memory, 0, 100, NULL, NULL, failure);
    }
    if (rc == 0) {
        rc = rg_put(bench->client, "b", "big", bench->memory, 0, sizeof buffer, &with, NULL,
                    failure);
    }
    if (rc == 0) {
        rc =
            rg_get(bench->client, "b", "big", bench->memory, 0, sizeof buffer, NULL, NULL, failure);
    }
    if (rc == 0) {
        rc = rg_get_file(bench->client, "b", "big", file, &resume, NULL, failure);
    }
    if (rc == 0) {
        rc = rg_put_file(bench->client, "b", "file", file, &resume, NULL, failure);
    }
    if (rc == 0) {
        rc = rg_list_objects(bench->client, "b", NULL, NULL, see, NULL, failure);
    }
    return rc;
}

static void release(struct bench *bench)
{
    rg_memory_release(bench->memory);
    bench->memory = NULL;
    rg_client_close(bench->client);
    bench->client = NULL;
    assert_int_equal(fake_rail.windows + fake_rail.lanes + fake_rail.regions + fake_rail.rails, 0);
}

static void run_all(struct bench *bench, const struct rg_client_options *options)
{
    long count = 0;
    unsigned failures = 0;
    for (;; count++) {
        left = count;
        has_failed = false;
        counts = true;
        armed = true;
        int rc = do_all(bench, options);
        armed = false;
        counts = false;
        release(bench);
        if (rc < 0) {
            failures++;
            if (!has_failed) {
                fail_msg("%s", bench->failure.message);
            }
            assert_int_equal(bench->failure.status, -rc);
            assert_true(bench->failure.message[0] != '\0');
        }
        if (!has_failed) {
            assert_int_equal(rc, 0);
            break;
        }
    }
    assert_true(count > 50 && failures > 20);
    print_message("%ld allocations, %u of them ended the call\n", count, failures);
}

static int set_up(void **state)
{
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    fill(buffer, sizeof buffer, 4);
    *state = bench_new(0);
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    unlink(file);
    snprintf(file, sizeof file, "/tmp/rg-allocation-XXXXXX");
    fake_s3_stop(bench->s3);
    free(bench);
    return 0;
}

/* One thread does all parts, so that the n-th allocation is the same one every time. */
static struct rg_client_options one_thread(struct bench *bench)
{
    struct rg_client_options options = bench_options(bench);
    options.parallel = 1;
    options.retries = RG_NO_RETRIES;
    /* On a busy machine, too, where a thread may be without a processor for seconds. */
    options.connect_timeout_ms = 100000;
    options.request_timeout_ms = 600000;
    return options;
}

static void test_http(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = one_thread(bench);
    options.path = RG_PATH_HTTP_ONLY;
    run_all(bench, &options);
}

static void test_rdma(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = one_thread(bench);
    bench->s3->rdma = FAKE_RDMA_SERVE;
    run_all(bench, &options);
}

static void test_sessions(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = one_thread(bench);
    options.transports = "rc";
    bench->s3->rdma = FAKE_RDMA_SERVE;
    bench->s3->rail_path = "rc";
    bench->s3->sessions = true;
    run_all(bench, &options);
}

/* Each takes minutes: a word names the one that is to be run. */
int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_http), TEST(test_rdma), TEST(test_sessions)};
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
