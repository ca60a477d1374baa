/*
 * What the gateway counts. Counting takes no lock; reading is a snapshot that may be torn between
 * values, never within one. The table is metrics.tbl.
 */
#ifndef RG_GATE_METRICS_H
#define RG_GATE_METRICS_H

#include "base/buf.h"
#include "base/error.h"
#include "gate/health.h"
#include "gate/http.h"
#include "gate/planes.h"
#include "store/store.h"

#include <stdint.h>

struct rg_metrics;

/* One request that is over. Strings are copied when first seen. */
struct rg_metrics_request {
    const char *operation;
    int status;              /* 0: broke off */
    enum rg_code failure;    /* RG_OK: none */
    uint64_t bytes_received; /* of bodies */
    uint64_t bytes_sent;
    uint64_t total_ns;
    bool sent_whole;
    uint64_t bytes_moved; /* of objects, by RDMA */
    const char *path; /* "http:no-token", "rdma:ofi:tcp"; empty: no object bytes were asked for */
};

/* What is read when the metrics are asked for. */
struct rg_metrics_sample {
    const char *version;
    bool ready;
    struct rg_http_counters http;
    struct rg_store_counters store;
    struct rg_health *health; /* NULL: mounts are not watched */
    struct rg_planes *planes; /* NULL: none */
    const char *host;         /* JSON of rg_gateway_set_host, borrowed; NULL: none */
    uint64_t sweeps;
    unsigned sweeps_left;
    uint64_t probe_failures;
    double probe_hang_seconds;
    bool table_well; /* the table of mounts can be read */
    uint64_t mounts_unwatched;
    uint64_t access_log_failures;
    double started_seconds;
    /* Filled in by rg_metrics_write. */
    double cpu_seconds;
    uint64_t resident_bytes;
    uint64_t open_files;
    uint64_t open_files_max;
    uint64_t threads;
};

int rg_metrics_new(struct rg_metrics **ret_metrics, struct rg_error *err);
void rg_metrics_free(struct rg_metrics *metrics);

void rg_metrics_count(struct rg_metrics *metrics, const struct rg_metrics_request *request);

/* Appends the text exposition format of Prometheus, version 0.0.4. */
void rg_metrics_write(struct rg_metrics *metrics, const struct rg_metrics_sample *sample,
                      struct rg_buf *out);

/* Appends the Markdown reference of all metrics. */
void rg_metrics_reference(struct rg_buf *out);

#endif
