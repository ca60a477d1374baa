/*
 * Puts the gateway together: two listeners, the verbs between them and the store, and the threads
 * that look after things. What becomes of each request is counted and logged here, once.
 */
#include "gate/gateway.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "gate/access_log.h"
#include "gate/account.h"
#include "gate/admin.h"
#include "gate/dispatch.h"
#include "gate/health.h"
#include "gate/http.h"
#include "gate/metrics.h"
#include "gate/planes.h"
#include "gate/sweeper.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How often the mount is asked whether it lives, and when it is said to hang. */
#define PROBE_MS 1000
#define HANG_MS  3000

/* How long the first answer of the mount may take at start. */
#define FIRST_PROBE_MS 15000

#define SUMMARY_BYTES_MAX 16384

/* How long threads that should be idle are waited for at the end. */
#define END_MS 2000

struct rg_gateway {
    const struct rg_settings *settings;
    struct rg_store *store;
    struct rg_accounts *accounts;
    struct rg_gate *gate;
    struct rg_metrics *metrics;
    struct rg_access_log *access_log; /* NULL: off */
    struct rg_health *health;
    struct rg_sweeper *sweeper; /* NULL: off */
    struct rg_planes *planes;
    struct rg_http_server *server;
    struct rg_admin *admin;
    struct timespec started;
    _Atomic(char *) host; /* NULL until rg_gateway_set_host */
};

/* ---- Requests that are over ---- */

static struct timespec wall_before(uint64_t elapsed_ns)
{
    struct timespec now = rg_clock_wall();
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)elapsed_ns;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static void count(struct rg_gateway *gateway, const struct rg_outcome *outcome,
                  const struct rg_http_done *done)
{
    struct rg_metrics_request request = {
        .operation = outcome->operation,
        .status = done->status,
        .failure = outcome->failure,
        .bytes_received = done->bytes_received,
        .bytes_sent = done->bytes_sent,
        .total_ns = done->total_ns,
        .sent_whole = done->sent_whole,
        .bytes_moved = outcome->moved_bytes,
        .path = outcome->path,
    };
    rg_metrics_count(gateway->metrics, &request);
}

static struct span field(const struct rg_http_request *request, const char *name)
{
    struct span value = RG_SPAN_EMPTY;
    rg_http_header(request, name, &value);
    return value;
}

static void log_access(struct rg_gateway *gateway, const struct rg_http_request *request,
                       const struct rg_outcome *outcome, const struct rg_http_done *done)
{
    bool failed = outcome->failure != RG_OK;
    bool is_signed = outcome->requester[0] != '\0';
    struct rg_access_record record = {
        .owner = rg_accounts_owner(gateway->accounts)->canonical_id,
        .bucket = outcome->bucket,
        .time = wall_before(done->total_ns),
        .remote_ip = rg_http_peer(request),
        .requester = outcome->requester,
        .request_id = rg_http_request_id(request),
        .operation = outcome->log_operation,
        .key = outcome->key,
        .method = rg_http_method(request),
        .path = rg_http_path(request),
        .query = rg_http_query(request),
        .version = rg_http_version(request),
        .status = done->status,
        .error_code = failed ? rg_code_s3_name(outcome->failure) : "",
        .bytes_sent = done->bytes_sent ? (int64_t)done->bytes_sent : -1,
        .object_size = outcome->object_size,
        .total_ms = (int64_t)(done->total_ns / 1000000u),
        .turnaround_ms = done->handler_ns ? (int64_t)(done->handler_ns / 1000000u) : -1,
        .referer = field(request, "referer"),
        .user_agent = field(request, "user-agent"),
        .host_id = rg_gate_host_id(gateway->gate),
        .signature_version = is_signed ? "SigV4" : "",
        .cipher_suite = rg_http_tls_cipher(request),
        .auth_type = is_signed ? outcome->auth_type : "",
        .host = field(request, "host"),
        .tls_version = rg_http_tls_version(request),
    };
    rg_access_log_write(gateway->access_log, &record);
}

/* Requests that fail for no fault of the client's are the operator's business. SlowDown is not
 * logged: it comes by the thousand, and is counted. */
static void log_failure(const struct rg_http_request *request, const struct rg_outcome *outcome,
                        const struct rg_http_done *done)
{
    bool ours = rg_code_http_status(outcome->failure) >= 500 && outcome->failure != RG_SLOW_DOWN &&
                outcome->failure != RG_NOT_IMPLEMENTED && outcome->failure != RG_RDMA_NOT_SUPPORTED;
    enum rg_log_level level = ours ? RG_LOG_WARN : RG_LOG_DEBUG;
    rg_log(
        level, "request.failed", outcome->message, RG_FIELD_TEXT("operation", outcome->operation),
        RG_FIELD_TEXT("bucket", outcome->bucket), RG_FIELD_TEXT("key", outcome->key),
        RG_FIELD_TEXT("code", rg_code_name(outcome->failure)), RG_FIELD_INT("status", done->status),
        RG_FIELD_INT("errno", outcome->os_errno), RG_FIELD_TEXT("peer", rg_http_peer(request)));
}

/* Bytes that should have gone by RDMA and did not are worth a line. */
static void log_decline(const struct rg_http_request *request, const struct rg_outcome *outcome)
{
    struct span path = rg_span_text(outcome->path);
    bool declined = rg_span_starts(path, RG_SPAN_LITERAL("declined:"));
    if (!declined &&
        (!rg_span_starts(path, RG_SPAN_LITERAL("http:")) || rg_span_is(path, "http:no-token"))) {
        return;
    }
    rg_log_info("rdma.declined", "a request with a token was not served by RDMA",
                RG_FIELD_TEXT("operation", outcome->operation),
                RG_FIELD_TEXT("path", outcome->path), RG_FIELD_TEXT("bucket", outcome->bucket),
                RG_FIELD_TEXT("key", outcome->key), RG_FIELD_TEXT("peer", rg_http_peer(request)));
}

static void handle_done(struct rg_http_request *request, const struct rg_http_done *done,
                        void *context)
{
    struct rg_gateway *gateway = context;
    struct rg_outcome outcome;
    if (rg_http_given_up(request)) {
        rg_dispatch_given_up(request);
    }
    rg_dispatch_outcome(request, &outcome);
    count(gateway, &outcome, done);
    if (gateway->access_log) {
        log_access(gateway, request, &outcome, done);
    }
    log_decline(request, &outcome);
    if (outcome.failure != RG_OK) {
        log_failure(request, &outcome, done);
    }
}

/* The verbs know the gate, not the gateway. */
static void handle(struct rg_http_request *request, void *context)
{
    rg_dispatch(request, ((struct rg_gateway *)context)->gate);
}

static void handle_busy(struct rg_http_request *request, void *context)
{
    rg_dispatch_busy(request, ((struct rg_gateway *)context)->gate);
}

static void handle_hung(struct rg_http_request *request, void *context)
{
    rg_dispatch_hung(request, ((struct rg_gateway *)context)->gate);
}

static void handle_refused(struct rg_http_request *request, void *context)
{
    rg_dispatch_refused(request, ((struct rg_gateway *)context)->gate);
}

/* ---- Start ---- */

static void sample(void *context, struct rg_metrics_sample *ret_sample)
{
    struct rg_gateway *gateway = context;
    rg_http_counters(gateway->server, &ret_sample->http);
    rg_store_counters(gateway->store, &ret_sample->store);
    ret_sample->planes = gateway->planes;
    ret_sample->host = atomic_load(&gateway->host);
    ret_sample->version = RG_VERSION;
    struct rg_sweeper_counters sweeper;
    rg_sweeper_count(gateway->sweeper, &sweeper);
    ret_sample->sweeps = sweeper.passes;
    ret_sample->sweeps_left = sweeper.left;
    ret_sample->store.sweep_failures += sweeper.failures;
    ret_sample->access_log_failures =
        gateway->access_log ? rg_access_log_failures(gateway->access_log) : 0;
    ret_sample->started_seconds =
        (double)gateway->started.tv_sec + (double)gateway->started.tv_nsec / 1e9;
}

static int open_planes(struct rg_gateway *gateway, struct rg_buf *summary, struct rg_error *err)
{
    int rc = rg_planes_open(gateway->settings, &gateway->planes, summary, err);
    if (rc == 0) {
        rg_gate_set_planes(gateway->gate, gateway->planes);
    }
    return rc;
}

static int open_parts(struct rg_gateway *gateway, struct rg_buf *summary, struct rg_error *err)
{
    const struct rg_settings *settings = gateway->settings;
    int rc = rg_accounts_new(settings, &gateway->accounts, err);
    rc = rc < 0 ? rc : rg_gate_new(settings, gateway->store, &gateway->gate, err);
    rc = rc < 0 ? rc : rg_metrics_new(&gateway->metrics, err);
    rc = rc < 0 ? rc : open_planes(gateway, summary, err);
    if (rc == 0 && settings->access_log[0]) {
        rc = rg_access_log_open(settings->access_log, &gateway->access_log, err);
    }
    return rc;
}

static int open_listener(struct rg_gateway *gateway, struct rg_error *err)
{
    const struct rg_settings *settings = gateway->settings;
    struct rg_http_config config = {
        .address = settings->address,
        .port = (uint16_t)settings->port,
        .tls_cert = settings->tls_cert,
        .tls_key = settings->tls_key,
        .connections_max = (unsigned)settings->connections_max,
        .workers_max = (unsigned)settings->requests_max,
        .connection_memory = (size_t)settings->connection_memory,
        .header_count_max = (unsigned)settings->header_count_max,
        .idle_timeout_ms = (unsigned)settings->idle_timeout,
        .handler_timeout_ms = (unsigned)settings->storage_timeout,
        .drain_max = (uint64_t)settings->drain_max,
        .reads_here = true,
        .handler = handle,
        .busy = handle_busy,
        .hung = handle_hung,
        .refused = handle_refused,
        .done = handle_done,
        .context = gateway,
    };
    int rc = rg_http_start(&config, &gateway->server, err);
    return rc < 0 ? rg_error_context(err, "S3 listener") : 0;
}

static int open_admin(struct rg_gateway *gateway, struct rg_error *err)
{
    struct rg_admin_config config = {
        .settings = gateway->settings,
        .health = gateway->health,
        .metrics = gateway->metrics,
        .sample = sample,
        .context = gateway,
    };
    return rg_admin_open(&config, &gateway->admin, err);
}

static int open_all(struct rg_gateway *gateway, struct rg_error *err)
{
    const struct rg_settings *settings = gateway->settings;
    const struct rg_health_config health = {.probe_ms = PROBE_MS, .hang_ms = HANG_MS};
    RG_BUF(summary, SUMMARY_BYTES_MAX);
    int rc = open_parts(gateway, &summary, err);
    rc = rc < 0 ? rc : rg_health_start(gateway->store, &health, &gateway->health, err);
    rc = rc < 0 ? rc : rg_health_wait(gateway->health, FIRST_PROBE_MS, err);
    if (rc == 0) {
        rg_gate_watch(gateway->gate, gateway->health);
    }
    rc = rc < 0 ? rc : open_listener(gateway, err);
    rc = rc < 0 ? rc : open_admin(gateway, err);
    if (rc == 0 && settings->sweep_interval > 0) {
        const struct rg_sweeper_config sweeper = {
            .interval_ms = (uint64_t)settings->sweep_interval,
            .patience_ms = (uint64_t)settings->storage_timeout,
        };
        rc = rg_sweeper_start(gateway->store, &sweeper, &gateway->sweeper, err);
    }
    if (rc == 0) {
        /* One line tells what the machine has, so that nobody need guess why bytes go by HTTP. Not
         * before the start is sure: one that fails says one thing only. */
        rg_log_info("rdma.open", rg_buf_text(&summary));
        rg_health_set(gateway->health, RG_GATEWAY_SERVING);
    }
    return rc;
}

/* Where leak checkers find it. */
static struct rg_gateway *_Atomic left_behind;

int rg_gateway_open(const struct rg_settings *settings, struct rg_store *store,
                    struct rg_gateway **ret_gateway, bool *ret_in_use, struct rg_error *err)
{
    *ret_in_use = false;
    struct rg_gateway *gateway = calloc(1, sizeof *gateway);
    if (!gateway) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    gateway->settings = settings;
    gateway->store = store;
    gateway->started = rg_clock_wall();
    int rc = open_all(gateway, err);
    if (rc < 0) {
        *ret_in_use = rg_gateway_close(gateway) != 0;
        atomic_store(&left_behind, *ret_in_use ? gateway : NULL);
        return rc;
    }
    *ret_gateway = gateway;
    return 0;
}

int rg_gateway_set_host(struct rg_gateway *gateway, const char *json, struct rg_error *err)
{
    char *copy = strdup(json);
    if (!copy) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_ASSERT(!atomic_load(&gateway->host));
    atomic_store(&gateway->host, copy);
    return 0;
}

uint16_t rg_gateway_port(const struct rg_gateway *gateway)
{
    return rg_http_port(gateway->server);
}

uint16_t rg_gateway_admin_port(const struct rg_gateway *gateway)
{
    return rg_admin_port(gateway->admin);
}

void rg_gateway_reload(struct rg_gateway *gateway)
{
    struct rg_error err = RG_ERROR_INIT;
    if (gateway->access_log && rg_access_log_reopen(gateway->access_log, &err) < 0) {
        rg_log_error("gateway.reload", err.message);
    }
    if (rg_http_reload_tls(gateway->server, &err) < 0) {
        rg_log_error("gateway.reload", err.message);
    }
}

/* ---- Close ---- */

static void free_parts(struct rg_gateway *gateway)
{
    rg_sweeper_free(gateway->sweeper);
    rg_health_free(gateway->health);
    free(atomic_load(&gateway->host));
    rg_access_log_close(gateway->access_log);
    rg_metrics_free(gateway->metrics);
    rg_gate_free(gateway->gate);
    rg_planes_close(gateway->planes);
    if (gateway->accounts) {
        rg_accounts_free(gateway->accounts);
    }
    free(gateway);
}

static void tell_mount(void *context, const struct rg_mount_view *view)
{
    unsigned requests = view->requests + view->given_up;
    (void)context;
    if (requests > 0 || view->state == RG_MOUNT_HANGS) {
        rg_log_warn("gateway.left",
                    "threads are left in a mount that does not answer: the process may be gone "
                    "only when it lets go of them",
                    RG_FIELD_TEXT("mount", view->place), RG_FIELD_INT("requests", requests));
    }
}

/* What keeps a process that has ended is worth knowing to who waits for it. */
static void tell_left(struct rg_gateway *gateway)
{
    struct rg_sweeper_counters sweeper;
    rg_sweeper_count(gateway->sweeper, &sweeper);
    if (gateway->health) {
        rg_health_mounts(gateway->health, tell_mount, NULL);
    }
    if (sweeper.left > 0) {
        rg_log_warn("gateway.left", "sweeps are left in buckets that do not answer",
                    RG_FIELD_INT("sweeps", sweeper.left));
    }
}

/* The admin listener answers, that the gateway drains, until the requests are over. */
unsigned rg_gateway_close(struct rg_gateway *gateway)
{
    if (gateway->health) {
        rg_health_set(gateway->health, RG_GATEWAY_DRAINING);
    }
    if (gateway->server) {
        rg_http_drain(gateway->server, (unsigned)gateway->settings->drain_timeout);
    }
    if (gateway->planes) {
        rg_planes_stop(gateway->planes);
    }
    bool ended = rg_admin_close(gateway->admin);
    unsigned cut_off = gateway->server ? rg_http_stop(gateway->server, 0) : 0;
    ended = rg_sweeper_stop(gateway->sweeper, END_MS) && ended;
    ended = rg_health_stop(gateway->health, END_MS) && ended;
    if (cut_off == 0 && ended) {
        free_parts(gateway);
        return 0;
    }
    /* Threads inside the store, and handlers that were left, still use all of it. */
    tell_left(gateway);
    return RG_MAX(cut_off, 1u);
}
