/*
 * railgate bench: load from this machine's side, for every combination of operation, path, size and
 * concurrency that is asked for.
 */
#include "cli/bench.h"

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/remote.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/encode.h"
#include "base/random.h"
#include "base/span.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES_MAX (4u << 20)
#define DURATION_S       5
#define SIZE_MAX_BYTES   ((uint64_t)64 << 30)

static struct {
    struct rg_cli_remote remote;
    const char *operations;
    const char *paths;
    const char *sizes;
    const char *concurrency;
    uint64_t duration_s;
    uint64_t count;
    const char *admin;
    uint64_t server_pid;
    bool json;
    const char *svg;
    bool keep;
    bool no_checksum;
    bool strict;
} asked;

static const struct rg_cli_option options[] = {
    {"op", 0, RG_CLI_TEXT, &asked.operations, "LIST", "of put, get; put,get"},
    {"paths", 0, RG_CLI_TEXT, &asked.paths, "LIST", "of auto, rdma, http; what --path says"},
    {"sizes", 0, RG_CLI_TEXT, &asked.sizes, "LIST", "of objects; 1M,16M"},
    {"concurrency", 'c', RG_CLI_TEXT, &asked.concurrency, "LIST", "operations at once; 1,8"},
    {"duration", 'd', RG_CLI_COUNT, &asked.duration_s, "SECONDS", "of each combination; 5"},
    {"count", 0, RG_CLI_COUNT, &asked.count, "N", "operations of each combination at the most"},
    {"admin", 0, RG_CLI_TEXT, &asked.admin, "URL",
     "the gateway's admin listener: its counts are the witness, its processor time the server's"},
    {"server-pid", 0, RG_CLI_COUNT, &asked.server_pid, "PID",
     "of a gateway on this machine, for its processor time"},
    {"json", 0, RG_CLI_FLAG, &asked.json, NULL, "JSON instead of the table"},
    {"svg", 0, RG_CLI_TEXT, &asked.svg, "FILE", "also draw throughput over size"},
    {"no-checksum", 0, RG_CLI_FLAG, &asked.no_checksum, NULL, "neither send nor verify CRC64NVME"},
    {"strict", 0, RG_CLI_FLAG, &asked.strict, NULL,
     "exit status 1 unless every witness ratio is 1 where RDMA was asked for"},
    {"keep", 0, RG_CLI_FLAG, &asked.keep, NULL, "leave the objects there"},
    RG_CLI_REMOTE_OPTIONS(asked.remote),
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_bench_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out,
        "\nPuts and gets objects below URL/railgate-bench/RUN/ from registered memory and prints a "
        "row for each\ncombination: throughput, latency percentiles, processor seconds for a GiB "
        "at both ends, and the\nwitness ratio: bytes that the gateway says it moved by RDMA over "
        "bytes that were moved. Where RDMA\nis asked for, less than 1.000 means that bytes went "
        "another way, and more that other clients were\nat work: the gateway counts them all. Runs "
        "at the same time do not touch each other's objects; one\nthat is interrupted deletes its "
        "own.\n\n");
    rg_cli_help_options(options, out);
}

struct plan {
    enum rg_cli_bench_op operations[2];
    size_t operation_count;
    enum rg_path_choice paths[3];
    size_t path_count;
    uint64_t sizes[RG_CLI_BENCH_LIST_MAX];
    size_t size_count;
    uint64_t concurrency[RG_CLI_BENCH_LIST_MAX];
    size_t concurrency_count;
};

/* ---- Words ---- */

/* The index of one of `words` (NULL ends them) for each name in a list. */
static bool read_words(const char *list, const char *const *words, int *ret_indexes, size_t room,
                       size_t *ret_count)
{
    struct span rest = rg_span_text(list);
    size_t count = 0;
    while (rest.ptr) {
        struct span word = rg_span_cut(&rest, ',');
        int found = -1;
        for (int i = 0; words[i]; i++) {
            found = rg_span_is(word, words[i]) ? i : found;
        }
        if (found < 0 || count == room) {
            return false;
        }
        ret_indexes[count++] = found;
    }
    *ret_count = count;
    return true;
}

static bool read_numbers(const char *list, uint64_t most, uint64_t *ret_numbers, size_t *ret_count)
{
    struct span rest = rg_span_text(list);
    size_t count = 0;
    while (rest.ptr) {
        struct span word = rg_span_cut(&rest, ',');
        if (count == RG_CLI_BENCH_LIST_MAX || !rg_span_to_size(word, &ret_numbers[count]) ||
            ret_numbers[count] == 0 || ret_numbers[count] > most) {
            return false;
        }
        count++;
    }
    *ret_count = count;
    return true;
}

static int read_plan(struct plan *plan)
{
    static const char *const operations[] = {"put", "get", NULL};
    static const char *const paths[] = {"auto", "rdma", "http", NULL};
    int found[3];
    if (!read_words(asked.operations ? asked.operations : "put,get", operations, found, 2,
                    &plan->operation_count)) {
        return rg_cli_fail_usage("bench", "--op is a list of put and get");
    }
    for (size_t i = 0; i < plan->operation_count; i++) {
        plan->operations[i] = (enum rg_cli_bench_op)found[i];
    }
    if (asked.paths) {
        if (!read_words(asked.paths, paths, found, 3, &plan->path_count)) {
            return rg_cli_fail_usage("bench", "--paths is a list of auto, rdma and http");
        }
        for (size_t i = 0; i < plan->path_count; i++) {
            plan->paths[i] = (enum rg_path_choice)found[i];
        }
    } else {
        plan->paths[0] = asked.remote.path;
        plan->path_count = 1;
    }
    /* A cell's own path decides; the client itself must be able to go any way. */
    asked.remote.path = RG_PATH_AUTO;
    if (!read_numbers(asked.sizes ? asked.sizes : "1M,16M", SIZE_MAX_BYTES, plan->sizes,
                      &plan->size_count)) {
        return rg_cli_fail_usage("bench", "--sizes is a list of at most 16 sizes up to 64G");
    }
    if (!read_numbers(asked.concurrency ? asked.concurrency : "1,8", RG_CLI_BENCH_THREADS_MAX,
                      plan->concurrency, &plan->concurrency_count)) {
        return rg_cli_fail_usage("bench", "--concurrency is a list of at most 16 numbers to 1024");
    }
    return RG_EXIT_OK;
}

/* ---- Running ---- */

static atomic_bool is_stopped;

/* Once: a second signal ends the program where it stands. */
static void on_signal(int number)
{
    (void)number;
    atomic_store(&is_stopped, true);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    RG_MUST(sigaction(SIGINT, &action, NULL));
    RG_MUST(sigaction(SIGTERM, &action, NULL));
}

struct cells {
    struct rg_cli_bench_cell *cells;
    size_t count;
};

static int print_row(const struct rg_cli_bench_cell *cell)
{
    RG_BUF(row, 16384);
    if (asked.json) {
        return RG_EXIT_OK;
    }
    rg_cli_bench_table_row(cell, &row);
    return rg_cli_print(&row);
}

/* Reads go by what the client's choice is: AUTO of the client is overridden by cell->path. */
static int run_size(const struct rg_cli_bench *bench, const struct plan *plan, size_t size,
                    size_t operation, size_t path, struct cells *cells)
{
    int status = RG_EXIT_OK;
    for (size_t i = 0; i < plan->concurrency_count && status == RG_EXIT_OK && !is_stopped; i++) {
        struct rg_cli_bench_cell *cell = &cells->cells[cells->count];
        memset(cell, 0, sizeof *cell);
        cell->op = plan->operations[operation];
        cell->path = plan->paths[path];
        cell->size = plan->sizes[size];
        cell->concurrency = (uint32_t)plan->concurrency[i];
        if (cell->op == RG_CLI_BENCH_GET) {
            status = rg_cli_bench_prepare(bench, cell->size, cell->concurrency);
        }
        if (status == RG_EXIT_OK && !is_stopped) {
            status = rg_cli_bench_run(bench, cell);
        }
        if (is_stopped && !cell->operations && !cell->failures) {
            break; /* nothing was measured: no row */
        }
        if (status == RG_EXIT_OK) {
            cells->count++;
            status = print_row(cell);
        }
    }
    return status;
}

static int run_plan(const struct rg_cli_bench *bench, const struct plan *plan, struct cells *cells)
{
    int status = RG_EXIT_OK;
    for (size_t op = 0; op < plan->operation_count; op++) {
        for (size_t path = 0; path < plan->path_count; path++) {
            for (size_t size = 0; size < plan->size_count && status == RG_EXIT_OK; size++) {
                status = run_size(bench, plan, size, op, path, cells);
            }
        }
    }
    return status;
}

static int write_svg(const struct cells *cells)
{
    RG_BUF(svg, OUTPUT_BYTES_MAX);
    rg_cli_bench_svg(cells->cells, cells->count, &svg);
    rg_autofclose FILE *file = fopen(asked.svg, "we");
    if (!file || fwrite(svg.data, 1, svg.len, file) != svg.len || fflush(file) != 0) {
        fprintf(stderr, "railgate: %s cannot be written: %s\n", asked.svg, strerror(errno));
        return RG_EXIT_FAILED;
    }
    return RG_EXIT_OK;
}

static int show(const struct cells *cells)
{
    int status = RG_EXIT_OK;
    if (asked.json) {
        RG_BUF(json, OUTPUT_BYTES_MAX);
        rg_cli_bench_json(cells->cells, cells->count, &json);
        status = rg_cli_print(&json);
    }
    if (asked.svg && cells->count) {
        int written = write_svg(cells);
        status = status == RG_EXIT_OK ? written : status;
    }
    return status;
}

static int judge(const struct cells *cells)
{
    for (size_t i = 0; i < cells->count; i++) {
        const struct rg_cli_bench_cell *cell = &cells->cells[i];
        if (cell->failures || cell->operations == 0) {
            return RG_EXIT_FAILED;
        }
        if (asked.strict && cell->path == RG_PATH_RDMA_ONLY &&
            (!cell->has_witness || cell->witness_bytes != cell->bytes)) {
            fputs("railgate: the gateway's count of bytes moved by RDMA is not the client's\n",
                  stderr);
            return RG_EXIT_FAILED;
        }
    }
    return RG_EXIT_OK;
}

static int run(struct rg_cli_bench *bench, const struct plan *plan)
{
    struct cells cells = {.count = 0};
    rg_autofree struct rg_cli_bench_cell *room =
        calloc(RG_CLI_BENCH_CELLS_MAX, sizeof *cells.cells);
    if (!room) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    cells.cells = room;
    RG_BUF(head, 1024);
    rg_cli_bench_table_head(&head);
    int status = asked.json ? RG_EXIT_OK : rg_cli_print(&head);
    if (status == RG_EXIT_OK) {
        status = run_plan(bench, plan, &cells);
    }
    if (!asked.keep) {
        rg_cli_bench_clean(bench);
    }
    int shown = show(&cells);
    status = status == RG_EXIT_OK ? shown : status;
    if (is_stopped) {
        fputs(cells.count ? "railgate: interrupted: the last figures are of a part of the time\n"
                          : "railgate: interrupted before anything was measured\n",
              stderr);
        return RG_EXIT_FAILED;
    }
    return status == RG_EXIT_OK ? judge(&cells) : status;
}

int rg_cli_bench(int argc, const char **argv)
{
    int count;
    struct plan plan = {.operation_count = 0};
    struct rg_cli_place place;
    int status = rg_cli_read_options("bench", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 1 || !rg_cli_is_url(argv[0])) {
        return count == 1
                   ? rg_cli_fail_url("bench", argv[0], "s3://BUCKET or s3://BUCKET/PREFIX")
                   : rg_cli_fail_usage("bench", "expects one s3://BUCKET or s3://BUCKET/PREFIX");
    }
    status = rg_cli_read_place("bench", argv[0], &place);
    if (status == RG_EXIT_OK && asked.strict && !asked.admin) {
        return rg_cli_fail_usage("bench", "--strict needs --admin, which has the gateway's count");
    }
    if (status == RG_EXIT_OK) {
        status = read_plan(&plan);
    }
    RG_CLEANUP(rg_cli_close) struct rg_client *client = NULL;
    if (status == RG_EXIT_OK) {
        status = rg_cli_open(&asked.remote, &client);
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    struct rg_cli_bench bench = {
        .client = client,
        .bucket = place.url.bucket,
        .prefix = place.url.key,
        .admin = asked.admin,
        .server_pid = asked.server_pid,
        .duration_ms =
            (asked.duration_s ? RG_MIN(asked.duration_s, (uint64_t)86400) : DURATION_S) * 1000,
        .operation_max = asked.count,
        .no_checksum = asked.no_checksum,
        .is_stopped = &is_stopped,
    };
    uint64_t number = rg_random_u64();
    rg_hex_encode(&number, sizeof number, bench.run);
    catch_signals();
    return run(&bench, &plan);
}
