#include "gate/admin.h"

#include "base/buf.h"
#include "base/clock.h"
#include "gate/http.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX   64
#define WORKERS_MAX       8
#define CONNECTION_MEMORY 16384
#define FIELDS_MAX        100
#define IDLE_MS           60000
#define HANDLER_MS        10000
#define DRAIN_BYTES       65536
#define STOP_MS           1000
#define METRICS_BYTES_MAX (16u << 20)
#define SETTING_BYTES_MAX 8192

struct rg_admin {
    struct rg_admin_config config;
    struct rg_http_server *server;
};

/* ---- Answers ---- */

/* Takes the document's reference. */
static void answer_json(struct rg_http_request *request, int status, json_t *document)
{
    char *text = document ? json_dumps(document, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(document);
    if (!text) {
        rg_http_answer(request, 500, NULL, 0);
        return;
    }
    RG_BUF(line, strlen(text) + 1);
    rg_buf_addf(&line, "%s\n", text);
    free(text);
    rg_http_header_set(request, "Content-Type", "application/json");
    rg_http_header_set(request, "Cache-Control", "no-store");
    rg_http_answer(request, status, line.data, rg_buf_ok(&line) ? line.len : 0);
}

static void answer_error(struct rg_http_request *request, int status, const char *error)
{
    answer_json(request, status, json_pack("{s:s}", "error", error));
}

static void format_time(struct timespec time, char *text, size_t room)
{
    struct tm utc;
    gmtime_r(&time.tv_sec, &utc);
    strftime(text, room, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* ---- Health ---- */

static const char *const gateway_words[] = {
    [RG_GATEWAY_STARTING] = "starting",
    [RG_GATEWAY_SERVING] = "serving",
    [RG_GATEWAY_DRAINING] = "draining",
};

static const char *const mount_words[] = {
    [RG_MOUNT_UNKNOWN] = "unknown",
    [RG_MOUNT_WELL] = "well",
    [RG_MOUNT_FAILS] = "fails",
    [RG_MOUNT_HANGS] = "hangs",
};

/* Paths, and what the system says, may be no UTF-8. */
static json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string("(not UTF-8)");
}

/* `context` is the array it goes into. */
static void describe_mount(void *context, const struct rg_mount_view *view)
{
    char since[32];
    format_time(view->since, since, sizeof since);
    json_t *mount = json_pack("{s:o, s:s, s:s, s:f, s:I, s:I}", "mount", json_text(view->place),
                              "state", mount_words[view->state], "since", since, "seconds",
                              view->seconds, "requests_waiting", (json_int_t)view->requests,
                              "workers_stuck", (json_int_t)view->given_up);
    if (mount && view->message[0]) {
        json_object_set_new(mount, "error", json_text(view->message));
    }
    if (mount && view->given_up) {
        format_time(view->given_up_since, since, sizeof since);
        json_object_set_new(mount, "stuck_since", json_string(since));
    }
    json_array_append_new(context, mount);
}

/* What is mounted: whether that can be seen, and how much of it is not asked. */
static json_t *describe_table(const struct rg_admin *admin, const struct rg_health_view *view)
{
    struct rg_mount_view table_view;
    char since[32];
    rg_health_table(admin->config.health, &table_view);
    format_time(table_view.since, since, sizeof since);
    json_t *table =
        json_pack("{s:s, s:s, s:f, s:I}", "state", mount_words[table_view.state], "since", since,
                  "seconds", table_view.seconds, "unwatched", (json_int_t)view->unwatched);
    if (table && table_view.message[0]) {
        json_object_set_new(table, "error", json_text(table_view.message));
    }
    return table;
}

static json_t *describe_rail(const struct rg_plane_state *state)
{
    json_t *rail = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I}", "path", state->pool.path, "device",
        state->pool.device, "address", state->pool.address, "up", state->pool.up, "hardware",
        state->pool.is_hardware, "lanes_leased", (json_int_t)state->pool.lanes_leased,
        "slots_in_use", (json_int_t)state->slab.slots_in_use, "slots",
        (json_int_t)state->slab.slots_total, "pinned_bytes", (json_int_t)state->slab.locked_bytes);
    if (rail && !state->pool.up) {
        json_object_set_new(rail, "reason", json_text(state->pool.reason));
    }
    return rail;
}

/* NULL where no rail has sessions. */
static json_t *describe_sessions(const struct rg_planes *planes)
{
    struct rg_sessions_state state;
    if (!rg_planes_session_state(planes, &state)) {
        return NULL;
    }
    return json_pack("{s:I, s:I, s:I, s:I}", "rc_session", (json_int_t)state.open[RG_SESSION_RC],
                     "hipobj_rc_v2", (json_int_t)state.open[RG_SESSION_PUSH], "in_use",
                     (json_int_t)(state.taken[RG_SESSION_RC] + state.taken[RG_SESSION_PUSH]),
                     "staging_bytes", (json_int_t)state.staging_bytes);
}

/* NULL when nobody has looked at the machine. */
static json_t *describe_host(const char *host)
{
    return host ? json_loads(host, 0, NULL) : NULL;
}

/* RDMA is a part of its own: without it the gateway is ready all the same, and says so here. */
static json_t *describe_rdma(const struct rg_admin *admin)
{
    struct rg_metrics_sample sample = {0};
    admin->config.sample(admin->config.context, &sample);
    if (!sample.planes || !rg_planes_enabled(sample.planes)) {
        return json_pack("{s:s, s:[], s:o*}", "state", "off", "rails", "host",
                         describe_host(sample.host));
    }
    json_t *rails = json_array();
    size_t up = 0;
    for (size_t i = 0; i < rg_planes_count(sample.planes); i++) {
        struct rg_plane_state state;
        rg_planes_state(sample.planes, i, &state);
        up += state.pool.up;
        json_array_append_new(rails, describe_rail(&state));
    }
    return json_pack("{s:s, s:o, s:o*, s:o*}", "state", up ? "up" : "down", "rails", rails,
                     "sessions", describe_sessions(sample.planes), "host",
                     describe_host(sample.host));
}

static void answer_ready(struct rg_http_request *request, const struct rg_admin *admin)
{
    struct rg_health_view view;
    rg_health_look(admin->config.health, &view);
    json_t *mounts = json_array();
    rg_health_mounts(admin->config.health, describe_mount, mounts);
    json_t *document =
        json_pack("{s:s, s:s, s:o?, s:o?, s:o?}", "status", view.ready ? "ready" : "not ready",
                  "gateway", gateway_words[view.gateway], "mounts", mounts, "mount_table",
                  describe_table(admin, &view), "rdma", describe_rdma(admin));
    answer_json(request, view.ready ? 200 : 503, document);
}

static void answer_live(struct rg_http_request *request, const struct rg_admin *admin)
{
    (void)admin;
    answer_json(request, 200, json_pack("{s:s}", "status", "live"));
}

/* ---- Metrics ---- */

static void answer_metrics(struct rg_http_request *request, const struct rg_admin *admin)
{
    RG_BUF(text, METRICS_BYTES_MAX);
    struct rg_metrics_sample sample = {0};
    struct rg_health_view view;
    rg_health_look(admin->config.health, &view);
    admin->config.sample(admin->config.context, &sample);
    sample.health = admin->config.health;
    sample.ready = view.ready;
    sample.probe_failures = view.failures;
    struct rg_mount_view table;
    rg_health_table(admin->config.health, &table);
    sample.table_well = table.state == RG_MOUNT_WELL;
    sample.mounts_unwatched = view.unwatched;
    sample.probe_hang_seconds = view.mount == RG_MOUNT_HANGS ? view.seconds : 0;
    rg_metrics_write(admin->config.metrics, &sample, &text);
    if (!rg_buf_ok(&text)) {
        answer_error(request, 500, "the metrics do not fit into memory");
        return;
    }
    rg_http_header_set(request, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    rg_http_answer(request, 200, text.data, text.len);
}

/* ---- Settings ---- */

static void answer_config(struct rg_http_request *request, const struct rg_admin *admin)
{
    static const char *const sources[] = {
        [RG_FROM_DEFAULT] = "default",
        [RG_FROM_FILE] = "file",
        [RG_FROM_ENVIRONMENT] = "environment",
        [RG_FROM_OPTION] = "option",
    };
    const struct rg_settings *settings = admin->config.settings;
    json_t *document = json_object();
    for (int i = 0; document && i < RG_SETTING_COUNT; i++) {
        RG_BUF(value, SETTING_BYTES_MAX);
        rg_settings_value(settings, (enum rg_setting_id)i, &value);
        json_t *text = json_stringn(rg_buf_text(&value), value.len);
        json_t *entry = json_pack("{s:o, s:s}", "value", text ? text : json_string("(not UTF-8)"),
                                  "source", sources[settings->source[i]]);
        json_object_set_new(document, rg_setting_name((enum rg_setting_id)i), entry);
    }
    answer_json(request, 200, document);
}

/* ---- Requests ---- */

static const struct {
    const char *path;
    void (*answer)(struct rg_http_request *request, const struct rg_admin *admin);
} pages[] = {
    {"/-/live", answer_live},
    {"/-/ready", answer_ready},
    {"/-/metrics", answer_metrics},
    {"/-/config", answer_config},
};

static void handle(struct rg_http_request *request, void *context)
{
    const char *method = rg_http_method(request);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pages); i++) {
        if (!rg_span_is(rg_http_path(request), pages[i].path)) {
            continue;
        }
        if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
            rg_http_header_set(request, "Allow", "GET, HEAD");
            answer_error(request, 405, "only GET and HEAD");
            return;
        }
        pages[i].answer(request, context);
        return;
    }
    answer_error(request, 404, "there are /-/live, /-/ready, /-/metrics and /-/config");
}

static void handle_busy(struct rg_http_request *request, void *context)
{
    (void)context;
    answer_error(request, 503, "too many requests at once");
}

static void handle_hung(struct rg_http_request *request, void *context)
{
    (void)context;
    answer_error(request, 503, "the answer takes too long");
}

static void handle_refused(struct rg_http_request *request, void *context)
{
    (void)context;
    answer_error(request, rg_code_http_status(rg_http_refusal(request)),
                 rg_http_refusal_reason(request));
}

int rg_admin_open(const struct rg_admin_config *config, struct rg_admin **ret_admin,
                  struct rg_error *err)
{
    const struct rg_settings *settings = config->settings;
    bool is_one_address =
        !settings->admin_address[0] || strcmp(settings->admin_address, settings->address) == 0;
    if (is_one_address && settings->port != 0 && settings->port == settings->admin_port) {
        return rg_failf(err, RG_SETTING, "settings port and admin-port are both %" PRIu64,
                        (uint64_t)settings->port);
    }
    struct rg_admin *admin = calloc(1, sizeof *admin);
    if (!admin) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    admin->config = *config;
    struct rg_http_config http = {
        .address = settings->admin_address[0] ? settings->admin_address : settings->address,
        .port = (uint16_t)settings->admin_port,
        .connections_max = CONNECTIONS_MAX,
        .workers_max = WORKERS_MAX,
        .connection_memory = CONNECTION_MEMORY,
        .header_count_max = FIELDS_MAX,
        .idle_timeout_ms = IDLE_MS,
        .handler_timeout_ms = HANDLER_MS,
        .drain_max = DRAIN_BYTES,
        .handler = handle,
        .busy = handle_busy,
        .hung = handle_hung,
        .refused = handle_refused,
        .context = admin,
    };
    int rc = rg_http_start(&http, &admin->server, err);
    if (rc < 0) {
        free(admin);
        return rg_error_context(err, "admin listener");
    }
    *ret_admin = admin;
    return 0;
}

uint16_t rg_admin_port(const struct rg_admin *admin)
{
    return rg_http_port(admin->server);
}

bool rg_admin_close(struct rg_admin *admin)
{
    if (!admin) {
        return true;
    }
    if (rg_http_stop(admin->server, STOP_MS) > 0) {
        return false;
    }
    free(admin);
    return true;
}
