/*
 * Memory of a GPU, with a stand-in for libcuda (fake_cuda.c): registration through dma-buf, pieces
 * that fit, and the copies of HTTP. What a real driver does is not shown by this.
 */
#include "common.h"

#include "client/memory.h"
#include "rdma/device.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (12 * MEBI)

static void *library;
static char *device;
static char *shadow;

static void call(const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    assert_non_null(address);
    memcpy(ret_function, &address, sizeof address);
}

static int set_up(void **state)
{
    void *(*alloc)(size_t size);
    void *(*find_shadow)(void);
    struct bench *bench = bench_new(0);
    struct rg_client_options options = bench_options(bench);
    bench->s3->rdma = FAKE_RDMA_SERVE;
    bench_open(bench, &options);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    call("fake_cuda_alloc", &alloc);
    call("fake_cuda_shadow", &find_shadow);
    device = alloc(SIZE);
    shadow = find_shadow();
    fill(shadow, SIZE, 21);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    void (*release)(void);
    bench_free(*state);
    call("fake_cuda_free", &release);
    release();
    dlclose(library);
    unsetenv("FAKE_CUDA_NO_EXPORT");
    return 0;
}

static int add(struct bench *bench, void *address, uint64_t size)
{
    return rg_memory_register_device(bench->client, RG_MEMORY_CUDA, address, size, &bench->memory,
                                     &bench->failure);
}

static int put(struct bench *bench, uint64_t offset, uint64_t size, enum rg_path_choice path)
{
    struct rg_put_options options = {.path = path};
    return rg_put(bench->client, "b", "k", bench->memory, offset, size, &options, &bench->result,
                  &bench->failure);
}

static int get(struct bench *bench, uint64_t offset, uint64_t size, enum rg_path_choice path)
{
    struct rg_get_options options = {.path = path};
    return rg_get(bench->client, "b", "k", bench->memory, offset, size, &options, &bench->result,
                  &bench->failure);
}

static void check_stored(struct bench *bench, uint64_t offset, uint64_t size)
{
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_non_null(object);
    assert_int_equal(object->bytes.len, size);
    assert_memory_equal(object->bytes.data, shadow + offset, size);
}

static void test_by_rdma(void **state)
{
    struct bench *bench = *state;
    assert_ok(bench, add(bench, device, SIZE));
    assert_int_equal(fake_rail.dmabufs, 1); /* as a whole: its size is within the BAR */
    assert_ok(bench, put(bench, 0, SIZE, RG_PATH_RDMA_ONLY));
    check_stored(bench, 0, SIZE);
    assert_true(bench->result.used_rdma);
    assert_false(bench->result.verified); /* the CPU does not see these bytes */
    assert_ok(bench, put(bench, 12345, 1000, RG_PATH_RDMA_ONLY));
    check_stored(bench, 12345, 1000);
    memset(shadow, 0, SIZE);
    assert_ok(bench, get(bench, 777, SIZE - 777, RG_PATH_RDMA_ONLY));
    assert_int_equal(bench->result.bytes, 1000);
    assert_memory_equal(shadow + 777, fake_s3_find(bench->s3, "b/k")->bytes.data, 1000);
    assert_int_equal(shadow[776], 0);
    assert_int_equal(shadow[1777], 0);
}

static void test_by_http(void **state)
{
    struct bench *bench = *state;
    assert_ok(bench, add(bench, device, SIZE));
    assert_ok(bench, put(bench, 5, SIZE - 5, RG_PATH_HTTP_ONLY));
    check_stored(bench, 5, SIZE - 5);
    fake_s3_add(bench->s3, "b/k", shadow + 5, SIZE - 5);
    memset(shadow, 0, SIZE);
    assert_ok(bench, get(bench, 0, SIZE, RG_PATH_HTTP_ONLY));
    assert_int_equal(bench->result.bytes, SIZE - 5);
    assert_true(bench->result.verified); /* checked on its way through the host */
    check_stored(bench, 0, SIZE - 5);
}

static void test_falls_back(void **state)
{
    struct bench *bench = *state;
    bench->s3->rdma = FAKE_RDMA_OFF;
    assert_ok(bench, add(bench, device, SIZE));
    assert_ok(bench, put(bench, 0, 100, RG_PATH_AUTO));
    check_stored(bench, 0, 100);
    assert_string_equal(bench->result.path, "http:rdma-off");
}

/* Registered before the rail could be opened. */
static void test_rail_comes_later(void **state)
{
    struct bench *bench = *state;
    struct rg_client_options options = bench_options(bench);
    rg_client_close(RG_TAKE(bench->client));
    fake_rail.is_down = true;
    bench_open(bench, &options);
    assert_ok(bench, add(bench, device, SIZE));
    assert_int_equal(fake_rail.dmabufs, 0);
    assert_ok(bench, put(bench, 0, SIZE, RG_PATH_AUTO));
    assert_string_equal(bench->result.reason, "rail-down");
    fake_rail.is_down = false;
    assert_ok(bench, put(bench, 100, SIZE - 100, RG_PATH_RDMA_ONLY));
    check_stored(bench, 100, SIZE - 100);
    assert_true(bench->result.used_rdma);
    assert_int_equal(fake_rail.dmabufs, 1);
}

static void test_piece_by_piece(void **state)
{
    struct bench *bench = *state;
    fake_rail.dmabuf_max = 5 * MEBI; /* the whole does not fit */
    assert_ok(bench, add(bench, device, SIZE));
    assert_true(bench->memory->piece_max >= 5 * MEBI);
    assert_ok(bench, put(bench, 100, SIZE - 100, RG_PATH_RDMA_ONLY));
    check_stored(bench, 100, SIZE - 100);
    assert_true(bench->result.used_rdma);
    assert_int_equal(fake_rail.regions, 0); /* none is kept between requests */
    memset(shadow, 0, SIZE);
    assert_ok(bench, get(bench, 100, SIZE - 100, RG_PATH_RDMA_ONLY));
    check_stored(bench, 100, SIZE - 100);
}

static void test_no_export(void **state)
{
    struct bench *bench = *state;
    setenv("FAKE_CUDA_NO_EXPORT", "1", 1);
    assert_fails(bench, RG_STATUS_MEMORY, add(bench, device, SIZE));
    assert_non_null(strstr(bench->failure.message, "dma-buf"));
}

static void test_not_a_device(void **state)
{
    struct bench *bench = *state;
    char host[16];
    assert_fails(bench, RG_STATUS_MEMORY, add(bench, host, sizeof host));
    assert_non_null(strstr(bench->failure.message, "not memory of a CUDA device"));
    assert_fails(bench, RG_STATUS_MEMORY, add(bench, device, SIZE + 1));
    assert_non_null(strstr(bench->failure.message, "has allocated only"));
    assert_fails(bench, RG_STATUS_MEMORY, add(bench, device + 1, SIZE));
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_memory_register_device(bench->client, (enum rg_memory_kind)9, device, 1,
                                           &bench->memory, &bench->failure));
}

static void test_no_library(void **state)
{
    struct bench *bench = *state;
    assert_fails(bench, RG_STATUS_MEMORY,
                 rg_memory_register_device(bench->client, RG_MEMORY_HIP, device, SIZE,
                                           &bench->memory, &bench->failure));
    assert_non_null(strstr(bench->failure.message, "libamdhip64"));
}

static void test_bar(void **state)
{
    char directory[] = "/tmp/rg-pci-XXXXXX";
    char path[128];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/0000:3b:00.0", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/0000:3b:00.0/resource", directory);
    FILE *file = fopen(path, "w");
    fputs("0x00000000ac000000 0x00000000acffffff 0x0000000000040200\n"
          "0x0000382000000000 0x0000382fffffffff 0x000000000014220c\n"
          "0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
          file);
    fclose(file);
    assert_true(rg_device_bar_bytes(directory, "0000:3B:00.0", 0) == 16 * MEBI);
    assert_true(rg_device_bar_bytes(directory, "0000:3B:00.0", 1) == (uint64_t)64 << 30);
    assert_true(rg_device_bar_bytes(directory, "0000:3B:00.0", 2) == 0);
    assert_true(rg_device_bar_bytes(directory, "0000:3B:00.0", 7) == 0);
    assert_true(rg_device_bar_bytes(directory, "0000:00:00.0", 1) == 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/0000:3b:00.0", directory);
    rmdir(path);
    rmdir(directory);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_by_rdma),          TEST(test_by_http),    TEST(test_falls_back),
        TEST(test_piece_by_piece),   TEST(test_no_export),  TEST(test_not_a_device),
        TEST(test_rail_comes_later), TEST(test_no_library), cmocka_unit_test(test_bar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
