/* A client of a fake store, for the tests of transfers. */
#ifndef RG_TESTS_CLIENT_COMMON_H
#define RG_TESTS_CLIENT_COMMON_H

#include "fake_rail.h"
#include "fake_s3.h"

#include "client/client.h"

#include "test.h"

#include <stdlib.h>

struct bench {
    struct fake_s3 *s3;
    struct rg_client *client;
    struct rg_failure failure;
    struct rg_result result;
    char *buffer;
    size_t size;
    struct rg_memory *memory;
    uint64_t copy_at_once_max; /* before bench_open */
};

static const char *no_environment(const char *name)
{
    return NULL;
}

/* Options for the fake store; fields may be changed before bench_open. */
static struct rg_client_options bench_options(const struct bench *bench)
{
    return (struct rg_client_options){
        .endpoint = test_server_url(bench->s3->server),
        .access_key = "AK",
        .secret_key = "SK",
        .transports = "ofi",
        .part_size = 5 << 20,
        .parallel = 4,
        .request_timeout_ms = 10000,
    };
}

static RG_UNUSED void bench_open(struct bench *bench, const struct rg_client_options *options)
{
    const struct rg_client_seams seams = {.environment = no_environment,
                                          .find_transport = fake_rail_find,
                                          .copy_at_once_max = bench->copy_at_once_max};
    memset(&bench->failure, 0, sizeof bench->failure);
    if (rg_client_open_with(options, &seams, &bench->client, &bench->failure) < 0) {
        fail_msg("%s", bench->failure.message);
    }
    if (bench->size) {
        assert_int_equal(rg_memory_register(bench->client, bench->buffer, bench->size,
                                            &bench->memory, &bench->failure),
                         0);
    }
}

static RG_UNUSED void bench_close(struct bench *bench)
{
    rg_memory_release(bench->memory);
    bench->memory = NULL;
    rg_client_close(bench->client);
    bench->client = NULL;
    /* Whatever happened, nothing is left over. */
    assert_int_equal(fake_rail.windows, 0);
    assert_int_equal(fake_rail.lanes, 0);
    assert_int_equal(fake_rail.regions, 0);
    assert_int_equal(fake_rail.rails, 0);
}

static RG_UNUSED void bench_reopen(struct bench *bench, const struct rg_client_options *options)
{
    bench_close(bench);
    bench_open(bench, options);
}

/* Bytes that differ everywhere. */
static RG_UNUSED void fill(char *bytes, size_t size, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        bytes[i] = (char)x;
    }
}

static struct bench *bench_new(size_t size)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    fake_rail_reset();
    bench->s3 = fake_s3_start();
    bench->size = size;
    bench->buffer = size ? malloc(size) : NULL;
    if (size) {
        fill(bench->buffer, size, 1);
    }
    return bench;
}

static RG_UNUSED void bench_free(struct bench *bench)
{
    bench_close(bench);
    fake_s3_stop(bench->s3);
    free(bench->buffer);
    free(bench);
}

#define MEBI ((size_t)1 << 20)

/*
 * After a call the tests look into the fake store, whose threads wrote there under its mutex before
 * they answered. The answer came by a socket, which orders nothing as far as ThreadSanitizer knows:
 * taking the mutex once does.
 */
static RG_UNUSED int settled(struct bench *bench, int result)
{
    pthread_mutex_lock(&bench->s3->mutex);
    pthread_mutex_unlock(&bench->s3->mutex);
    return result;
}

#define assert_ok(bench, call)                                                                     \
    do {                                                                                           \
        if (settled((bench), (call)) < 0) {                                                        \
            fail_msg("%s", (bench)->failure.message);                                              \
        }                                                                                          \
    } while (0)

#define assert_fails(bench, expected, call)                                                        \
    do {                                                                                           \
        assert_int_equal(settled((bench), (call)), -(int)(expected));                              \
        assert_int_equal((bench)->failure.status, (expected));                                     \
        assert_true((bench)->failure.message[0] != '\0');                                          \
    } while (0)

#endif
