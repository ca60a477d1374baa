/*
 * The measuring of railgate bench: threads that put or get for a while, and what both ends spent
 * on it. Counts of the gateway are read before the threads begin and after they have ended.
 */
#include "cli/bench.h"

#include "cli/cli.h"
#include "cli/remote.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "client/http.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SAMPLES_MAX      200000u /* latencies of one thread; later ones are counted, not kept */
#define KEY_BYTES_MAX    1200u
#define ADMIN_TIMEOUT_MS 10000u
#define WITNESS_METRIC   "railgate_rdma_bytes_total"

struct worker {
    const struct rg_cli_bench *bench;
    const struct rg_cli_bench_cell *cell;
    unsigned number;
    pthread_t thread;
    bool is_started;
    char *bytes;
    struct rg_memory *memory;
    uint64_t *samples_ns;
    size_t sample_count;
    atomic_uint_least64_t *left; /* operations; shared */
    uint64_t end_ns;
    uint64_t operations;
    uint64_t failures;
    uint64_t byte_count;
    uint64_t rdma_bytes;
    char went[96];
    struct rg_failure failure; /* the first */
};

/* ---- What the ends spend ---- */

static double own_cpu(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) < 0) {
        return 0;
    }
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Fields 14 and 15 of /proc/PID/stat, behind the name in parentheses. */
static bool process_cpu(uint64_t pid, double *ret_seconds)
{
    char path[64];
    char text[1024];
    unsigned long long user;
    unsigned long long kernel;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    rg_autofclose FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[len] = '\0';
    const char *rest = strrchr(text, ')');
    if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                        &kernel) != 2) {
        return false;
    }
    *ret_seconds = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/* The sum of all samples of a metric in Prometheus' text. */
static bool sum_metric(struct span text, const char *name, double *ret_sum)
{
    bool is_seen = false;
    double sum = 0;
    while (text.ptr) {
        struct span line = rg_span_cut(&text, '\n');
        size_t len = strlen(name);
        if (line.len <= len || memcmp(line.ptr, name, len) != 0 ||
            (line.ptr[len] != ' ' && line.ptr[len] != '{')) {
            continue;
        }
        char number[64];
        struct span value = line;
        while (rg_span_find(value, ' ') >= 0) {
            value = rg_span_skip(value, (size_t)rg_span_find(value, ' ') + 1);
        }
        snprintf(number, sizeof number, "%.*s", RG_SPAN_ARG(value));
        sum += strtod(number, NULL);
        is_seen = true;
    }
    *ret_sum = sum;
    return is_seen;
}

static bool fetch_metrics(const struct rg_cli_bench *bench, struct rg_http_answer *answer)
{
    struct rg_failure failure;
    struct rg_http_pool *pool;
    const struct rg_http_options options = {.connect_timeout_ms = ADMIN_TIMEOUT_MS,
                                            .idle_timeout_ms = ADMIN_TIMEOUT_MS};
    char url[1024];
    memset(&failure, 0, sizeof failure);
    snprintf(url, sizeof url, "%s/-/metrics", bench->admin);
    struct rg_http_request request = {.method = "GET", .url = url};
    if (rg_http_pool_open(&options, &pool, &failure) < 0) {
        (void)rg_cli_fail_remote(&failure);
        return false;
    }
    int rc = rg_http_exchange(pool, &request, answer, &failure);
    rg_http_pool_close(pool);
    if (rc < 0 || answer->status != 200) {
        fprintf(stderr, "railgate: no metrics from %s: %s\n", url,
                rc < 0 ? failure.message : "the answer is not 200");
        return false;
    }
    return true;
}

/* What the gateway has counted and spent so far. */
struct ledger {
    bool has_bytes;
    double rdma_bytes;
    bool has_cpu;
    double cpu_s;
};

static int read_ledger(const struct rg_cli_bench *bench, struct ledger *ret_ledger)
{
    memset(ret_ledger, 0, sizeof *ret_ledger);
    if (bench->admin) {
        RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
        if (!fetch_metrics(bench, &answer)) {
            return RG_EXIT_FAILED;
        }
        struct span text = rg_buf_span(&answer.body);
        /* A gateway that has moved nothing yet has no sample. */
        (void)sum_metric(text, WITNESS_METRIC, &ret_ledger->rdma_bytes);
        ret_ledger->has_bytes = true;
        ret_ledger->has_cpu = sum_metric(text, "process_cpu_seconds_total", &ret_ledger->cpu_s);
    }
    if (bench->server_pid) {
        ret_ledger->has_cpu = process_cpu(bench->server_pid, &ret_ledger->cpu_s);
        if (!ret_ledger->has_cpu) {
            fprintf(stderr, "railgate: there is no process %" PRIu64 "\n", bench->server_pid);
            return RG_EXIT_FAILED;
        }
    }
    return RG_EXIT_OK;
}

/* ---- Work ---- */

static void name_key(const struct rg_cli_bench *bench, enum rg_cli_bench_op op, uint64_t size,
                     unsigned number, char key[KEY_BYTES_MAX])
{
    snprintf(key, KEY_BYTES_MAX, "%srailgate-bench/%s/%s-%" PRIu64 "-%u", bench->prefix, bench->run,
             op == RG_CLI_BENCH_PUT ? "put" : "get", size, number);
}

static int do_one(struct worker *worker, struct rg_result *result, struct rg_failure *failure)
{
    const struct rg_cli_bench *bench = worker->bench;
    const struct rg_cli_bench_cell *cell = worker->cell;
    char key[KEY_BYTES_MAX];
    name_key(bench, cell->op, cell->size, worker->number, key);
    if (cell->op == RG_CLI_BENCH_PUT) {
        struct rg_put_options options = {.path = cell->path, .no_checksum = bench->no_checksum};
        return rg_put(bench->client, bench->bucket, key, worker->memory, 0, cell->size, &options,
                      result, failure);
    }
    struct rg_get_options options = {.path = cell->path, .no_checksum = bench->no_checksum};
    return rg_get(bench->client, bench->bucket, key, worker->memory, 0, cell->size, &options,
                  result, failure);
}

static void keep_result(struct worker *worker, const struct rg_result *result, uint64_t spent_ns)
{
    worker->operations++;
    worker->byte_count += result->bytes;
    worker->rdma_bytes += result->rdma_bytes;
    if (!worker->went[0]) {
        snprintf(worker->went, sizeof worker->went, "%s", result->path);
    } else if (strcmp(worker->went, result->path) != 0) {
        snprintf(worker->went, sizeof worker->went, "mixed");
    }
    if (worker->sample_count < SAMPLES_MAX) {
        worker->samples_ns[worker->sample_count++] = spent_ns;
    }
}

static bool take_turn(struct worker *worker)
{
    if (rg_clock_ns() >= worker->end_ns || atomic_load(worker->bench->is_stopped)) {
        return false;
    }
    uint64_t left = atomic_load(worker->left);
    while (left > 0 && !atomic_compare_exchange_weak(worker->left, &left, left - 1)) {
    }
    return left > 0;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    while (take_turn(worker)) {
        struct rg_result result;
        struct rg_failure failure;
        uint64_t start = rg_clock_ns();
        if (do_one(worker, &result, &failure) == 0) {
            keep_result(worker, &result, rg_clock_ns() - start);
        } else if (worker->failures++ == 0) {
            worker->failure = failure;
        }
    }
    return NULL;
}

static void free_worker(struct worker *worker)
{
    rg_memory_release(worker->memory);
    if (worker->bytes) {
        RG_MUST(munmap(worker->bytes, worker->cell->size));
    }
    free(worker->samples_ns);
}

static int prepare_worker(struct worker *worker)
{
    struct rg_failure failure;
    uint64_t size = worker->cell->size;
    worker->samples_ns = calloc(SAMPLES_MAX, sizeof *worker->samples_ns);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    worker->bytes = bytes == MAP_FAILED ? NULL : bytes;
    if (!worker->samples_ns || !worker->bytes) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    /* Bytes that nothing on the way can compress, and pages that are there. */
    rg_random_bytes(worker->bytes, RG_MIN(size, (uint64_t)4096));
    for (uint64_t at = 4096; at < size; at += 4096) {
        memcpy(worker->bytes + at, worker->bytes, RG_MIN(size - at, (uint64_t)4096));
        memcpy(worker->bytes + at, &at, RG_MIN(size - at, sizeof at));
    }
    if (rg_memory_register(worker->bench->client, worker->bytes, size, &worker->memory, &failure) <
        0) {
        return rg_cli_fail_remote(&failure);
    }
    return RG_EXIT_OK;
}

/* ---- One cell ---- */

static int compare_samples(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

static int summarise_latency(const struct worker *workers, struct rg_cli_bench_cell *cell)
{
    size_t count = 0;
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        count += workers[i].sample_count;
    }
    if (count == 0) {
        return RG_EXIT_OK;
    }
    rg_autofree uint64_t *all = calloc(count, sizeof *all);
    if (!all) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        memcpy(all + at, workers[i].samples_ns, workers[i].sample_count * sizeof *all);
        at += workers[i].sample_count;
    }
    qsort(all, count, sizeof *all, compare_samples);
    cell->p50_ms = rg_cli_bench_percentile_ms(all, count, 50);
    cell->p90_ms = rg_cli_bench_percentile_ms(all, count, 90);
    cell->p99_ms = rg_cli_bench_percentile_ms(all, count, 99);
    cell->max_ms = (double)all[count - 1] / 1e6;
    return RG_EXIT_OK;
}

static void summarise(const struct worker *workers, struct rg_cli_bench_cell *cell)
{
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        const struct worker *worker = &workers[i];
        cell->operations += worker->operations;
        cell->bytes += worker->byte_count;
        cell->rdma_bytes += worker->rdma_bytes;
        if (worker->failures && !cell->failures) {
            snprintf(cell->failure, sizeof cell->failure, "%.255s", worker->failure.message);
        }
        cell->failures += worker->failures;
        if (!cell->went[0]) {
            snprintf(cell->went, sizeof cell->went, "%s", worker->went);
        } else if (worker->went[0] && strcmp(cell->went, worker->went) != 0) {
            snprintf(cell->went, sizeof cell->went, "mixed");
        }
    }
}

static int run_workers(const struct rg_cli_bench *bench, struct worker *workers,
                       struct rg_cli_bench_cell *cell)
{
    struct ledger before;
    struct ledger after;
    int status = read_ledger(bench, &before);
    if (status != RG_EXIT_OK) {
        return status;
    }
    double cpu = own_cpu();
    uint64_t start = rg_clock_ns();
    uint32_t started = 0;
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        workers[i].end_ns = start + bench->duration_ms * 1000000;
        workers[i].is_started = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
        started += workers[i].is_started;
    }
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        if (workers[i].is_started) {
            RG_MUST(pthread_join(workers[i].thread, NULL));
        }
    }
    cell->seconds = (double)(rg_clock_ns() - start) / 1e9;
    cell->client_cpu_s = own_cpu() - cpu;
    if (started < cell->concurrency) {
        fprintf(stderr, "railgate: only %u threads can be started\n", started);
        return RG_EXIT_FAILED;
    }
    status = read_ledger(bench, &after);
    cell->has_server_cpu = before.has_cpu && after.has_cpu;
    cell->server_cpu_s = after.cpu_s - before.cpu_s;
    cell->has_witness = before.has_bytes && after.has_bytes;
    cell->witness_bytes = (uint64_t)RG_MAX(after.rdma_bytes - before.rdma_bytes, 0.0);
    return status;
}

int rg_cli_bench_run(const struct rg_cli_bench *bench, struct rg_cli_bench_cell *cell)
{
    rg_autofree struct worker *workers = calloc(cell->concurrency, sizeof *workers);
    if (!workers) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    atomic_uint_least64_t left = bench->operation_max ? bench->operation_max : UINT64_MAX;
    int status = RG_EXIT_OK;
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        workers[i].bench = bench;
        workers[i].cell = cell;
        workers[i].number = i;
        workers[i].left = &left;
        status = status == RG_EXIT_OK ? prepare_worker(&workers[i]) : status;
    }
    if (status == RG_EXIT_OK) {
        status = run_workers(bench, workers, cell);
    }
    if (status == RG_EXIT_OK) {
        summarise(workers, cell);
        status = summarise_latency(workers, cell);
    }
    for (uint32_t i = 0; i < cell->concurrency; i++) {
        free_worker(&workers[i]);
    }
    return status;
}

int rg_cli_bench_prepare(const struct rg_cli_bench *bench, uint64_t size, uint32_t concurrency)
{
    struct rg_cli_bench_cell cell = {.size = size};
    struct worker worker = {.bench = bench, .cell = &cell};
    struct rg_failure failure;
    int status = prepare_worker(&worker);
    for (uint32_t i = 0; i < concurrency && status == RG_EXIT_OK && !atomic_load(bench->is_stopped);
         i++) {
        char key[KEY_BYTES_MAX];
        name_key(bench, RG_CLI_BENCH_GET, size, i, key);
        if (rg_put(bench->client, bench->bucket, key, worker.memory, 0, size, NULL, NULL,
                   &failure) < 0) {
            status = rg_cli_fail_remote(&failure);
        }
    }
    free_worker(&worker);
    return status;
}

static bool delete_listed(void *context, const struct rg_listed *entry)
{
    const struct rg_cli_bench *bench = context;
    struct rg_failure failure;
    if (rg_delete_object(bench->client, bench->bucket, entry->key, &failure) < 0) {
        (void)rg_cli_fail_remote(&failure);
    }
    return true;
}

void rg_cli_bench_clean(const struct rg_cli_bench *bench)
{
    char prefix[KEY_BYTES_MAX];
    struct rg_failure failure;
    snprintf(prefix, sizeof prefix, "%srailgate-bench/%s/", bench->prefix, bench->run);
    struct rg_cli_bench copy = *bench;
    if (rg_list_objects(bench->client, bench->bucket, prefix, NULL, delete_listed, &copy,
                        &failure) < 0) {
        (void)rg_cli_fail_remote(&failure);
    }
}
