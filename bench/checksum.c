/*
 * How fast are the digests, beside a copy of the same bytes? All in one run, interleaved, the best
 * of several rounds: read the ratios, not the rates.
 *
 *   bench-checksum [megabytes of the buffer, default 64; under the cache size it stays in cache]
 */
#include "base/clock.h"
#include "base/span.h"
#include "s3/checksum.h"
#include "s3/crc64.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 5

struct work {
    uint8_t *bytes;
    uint8_t *copy;
    size_t len;
};

static volatile uint64_t sink;

static void copy_bytes(const struct work *work, int unused)
{
    (void)unused;
    memcpy(work->copy, work->bytes, work->len);
    sink += work->copy[work->len / 2];
}

static void run_crc64(const struct work *work, int way)
{
    sink += rg_crc64nvme_by((enum rg_crc64_way)way, 0, work->bytes, work->len);
}

static void run_hasher(const struct work *work, int set)
{
    struct rg_hasher hasher = RG_HASHER_INIT;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_hasher_init(&hasher, (unsigned)set, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    rg_hasher_update(&hasher, rg_span(work->bytes, work->len));
    if (rg_hasher_final(&hasher, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    sink += hasher.total;
    rg_hasher_free(&hasher);
}

struct contender {
    const char *name;
    void (*run)(const struct work *work, int argument);
    int argument;
    uint64_t best_ns;
};

static struct contender contenders[] = {
    {"memcpy", copy_bytes, 0, UINT64_MAX},
    {"CRC64NVME tables", run_crc64, RG_CRC64_TABLES, UINT64_MAX},
    {"CRC64NVME pclmul", run_crc64, RG_CRC64_PCLMUL, UINT64_MAX},
    {"CRC64NVME vpclmul", run_crc64, RG_CRC64_VPCLMUL, UINT64_MAX},
    {"CRC64NVME (hasher)", run_hasher, RG_HASH_CRC64NVME, UINT64_MAX},
    {"CRC32 (hasher)", run_hasher, RG_HASH_CRC32, UINT64_MAX},
    {"CRC32C (hasher)", run_hasher, RG_HASH_CRC32C, UINT64_MAX},
    {"MD5 (hasher)", run_hasher, RG_HASH_MD5, UINT64_MAX},
    {"SHA1 (hasher)", run_hasher, RG_HASH_SHA1, UINT64_MAX},
    {"SHA256 (hasher)", run_hasher, RG_HASH_SHA256, UINT64_MAX},
    {"MD5+CRC64NVME+SHA256", run_hasher, RG_HASH_MD5 | RG_HASH_CRC64NVME | RG_HASH_SHA256,
     UINT64_MAX},
};

static bool can_run(const struct contender *contender)
{
    return contender->run != run_crc64 || rg_crc64nvme_has((enum rg_crc64_way)contender->argument);
}

static void race(const struct work *work)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < RG_ARRAY_LENGTH(contenders); i++) {
            if (!can_run(&contenders[i])) {
                continue;
            }
            uint64_t start = rg_clock_ns();
            contenders[i].run(work, contenders[i].argument);
            uint64_t taken = rg_clock_ns() - start;
            if (taken < contenders[i].best_ns) {
                contenders[i].best_ns = taken;
            }
        }
    }
}

static const struct contender *find(const char *name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(contenders); i++) {
        if (strcmp(contenders[i].name, name) == 0) {
            return &contenders[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t megabytes = 64;
    if (argc > 2 || (argc == 2 && (!rg_span_to_u64(rg_span_text(argv[1]), &megabytes) ||
                                   megabytes < 1 || megabytes > 4096))) {
        fprintf(stderr, "usage: bench-checksum [1..4096 megabytes]\n");
        return 2;
    }
    struct work work = {.len = (size_t)megabytes << 20};
    work.bytes = malloc(work.len);
    work.copy = malloc(work.len);
    if (!work.bytes || !work.copy) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < work.len; i++) {
        work.bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    memset(work.copy, 0, work.len);
    race(&work);

    double copy_ns = (double)find("memcpy")->best_ns;
    double md5_ns = (double)find("MD5 (hasher)")->best_ns;
    printf("%-22s %8s %10s %8s\n", "", "GB/s", "of memcpy", "x MD5");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(contenders); i++) {
        if (can_run(&contenders[i])) {
            double ns = (double)contenders[i].best_ns;
            printf("%-22s %8.2f %9.0f%% %8.1f\n", contenders[i].name, (double)work.len / ns,
                   100 * copy_ns / ns, md5_ns / ns);
        }
    }
    free(work.bytes);
    free(work.copy);
    return 0;
}
