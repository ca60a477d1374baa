/*
 * What railgate bench measures and how it is shown. Measuring is bench_run.c, showing is
 * bench_show.c; bench.c reads the words.
 */
#ifndef RG_CLI_BENCH_H
#define RG_CLI_BENCH_H

#include "base/buf.h"

#include <railgate/railgate.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_CLI_BENCH_LIST_MAX    16u
#define RG_CLI_BENCH_CELLS_MAX   (2u * 3u * RG_CLI_BENCH_LIST_MAX * RG_CLI_BENCH_LIST_MAX)
#define RG_CLI_BENCH_THREADS_MAX 1024u

enum rg_cli_bench_op { RG_CLI_BENCH_PUT, RG_CLI_BENCH_GET };

struct rg_cli_bench {
    struct rg_client *client;
    const char *bucket;
    const char *prefix;     /* of the keys; ends in '/' or is empty */
    char run[17];           /* a directory of this run's own: others may run at the same time */
    const char *admin;      /* "http://host:port" of the gateway's admin listener; NULL: none */
    uint64_t server_pid;    /* 0: none */
    uint64_t duration_ms;   /* of each cell */
    uint64_t operation_max; /* of each cell; 0: no limit */
    bool no_checksum;
    const atomic_bool *is_stopped; /* set: no operation is begun any more */
};

/* One combination, measured. */
struct rg_cli_bench_cell {
    enum rg_cli_bench_op op;
    enum rg_path_choice path;
    uint64_t size;
    uint32_t concurrency;

    uint64_t operations;
    uint64_t failures;
    char failure[256]; /* the first one's words */
    uint64_t bytes;
    uint64_t rdma_bytes; /* that the client saw go by RDMA */
    char went[96];       /* the path of results; "mixed" */
    double seconds;
    double p50_ms, p90_ms, p99_ms, max_ms;
    double client_cpu_s;
    bool has_server_cpu;
    double server_cpu_s;
    bool has_witness;
    uint64_t witness_bytes; /* that the gateway counted as moved by RDMA */
};

/*
 * Measures one cell: op, path, size and concurrency are given. RG_EXIT_OK, also when operations
 * failed (they are counted); else a line has been printed.
 */
int rg_cli_bench_run(const struct rg_cli_bench *bench, struct rg_cli_bench_cell *cell);

/* Puts what GET cells of this size and concurrency read, less when it is stopped: see
 * bench->is_stopped. And takes away all that was put. */
int rg_cli_bench_prepare(const struct rg_cli_bench *bench, uint64_t size, uint32_t concurrency);
void rg_cli_bench_clean(const struct rg_cli_bench *bench);

/* The least of `count` (1 or more) sorted latencies that `percent` of them do not exceed. */
double rg_cli_bench_percentile_ms(const uint64_t *sorted_ns, size_t count, unsigned percent);

void rg_cli_bench_table_head(struct rg_buf *out);
void rg_cli_bench_table_row(const struct rg_cli_bench_cell *cell, struct rg_buf *out);
void rg_cli_bench_json(const struct rg_cli_bench_cell *cells, size_t count, struct rg_buf *out);

/* Throughput over size, one line for each operation, path and concurrency. */
void rg_cli_bench_svg(const struct rg_cli_bench_cell *cells, size_t count, struct rg_buf *out);

/* Bytes that the client saw go, or expected to go, by RDMA in this cell; the witness ratio is the
 * gateway's count over this. */
double rg_cli_bench_witness(const struct rg_cli_bench_cell *cell);

#endif
