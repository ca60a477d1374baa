/*
 * Opening rails, choosing one for a window, moving bytes, counting. One thread ticks the pools, so
 * that a rail that failed comes back and an operator reads about both.
 */
#include "gate/planes.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdma/dc_key.h"
#include "rdma/ofi_address.h"
#include "gate/planes_inside.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TICK_MS           1000u
#define SESSION_EVICT_MS  2000u
#define ALIGNMENT         4096
#define FILES_PER_REQUEST 4 /* as the start-up check of the command counts */
#define FILES_OWN         64
#define KEY_BYTES_MAX     256u
#define NAME_BYTES_MAX    64u

/* Why a request is declined, in the order of the table below. */
static const char *const reasons[] = {
    "rdma-off",      "token-missing", "dialect-not-served", "no-transport", "rail-down",
    "no-lane",       "no-slot",       "window-too-small",   "empty-object", "below-minimum",
    "account-limit", "unreachable",   "too-slow",           "stopping",     "agent-unknown",
    "control-route", "no-session",    "session-limit",
};
#define REASON_COUNT RG_ARRAY_LENGTH(reasons)
_Static_assert(REASON_COUNT <= REASONS_MAX, "each reason has a counter");

static const double second_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                       0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
static const double ratio_bounds[] = {1.0, 1.05, 1.1, 1.15, 1.25, 1.5, 1.75, 2.0, 3.0};
/* ---- Counting ---- */

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_relaxed);
}

static void observe_wait(void *context, uint64_t wait_ns, bool granted)
{
    (void)granted;
    struct rg_plane *plane = context;
    rg_histogram_observe(&plane->waits, (double)wait_ns / 1e9);
}

void rg_planes_count_decline(struct rg_planes *planes, const char *reason)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (strcmp(reasons[i], reason) == 0) {
            add(&planes->declines[i], 1);
            return;
        }
    }
    RG_UNREACHABLE();
}

/* ---- Settings ---- */

/* "auto" or a number up to `most`. */
static int read_auto(const char *name, const char *text, uint64_t most, int *ret_value,
                     struct rg_error *err)
{
    uint64_t value;
    if (strcmp(text, "auto") == 0) {
        *ret_value = RG_RAIL_AUTO;
        return 0;
    }
    if (!rg_span_to_u64(rg_span_text(text), &value) || value > most) {
        return rg_failf(err, RG_SETTING,
                        "setting %s is \"%s\", but must be auto or a number up to %" PRIu64, name,
                        text, most);
    }
    *ret_value = (int)value;
    return 0;
}

static int read_rail(const struct rg_settings *settings, struct rg_rail_config *rail,
                     struct rg_error *err)
{
    int rc = read_auto("rdma-gid-index", settings->rdma_gid_index, 255, &rail->gid_index, err);
    if (rc == 0) {
        rc = read_auto("rdma-traffic-class", settings->rdma_traffic_class, 255,
                       &rail->traffic_class, err);
    }
    if (rc == 0 && settings->rdma_dc_key_file[0]) {
        rc = rg_dc_key_read(settings->rdma_dc_key_file, "setting rdma-dc-key-file", &rail->dc_key,
                            err);
    }
    if (rc == 0 && settings->rdma_slot_size % ALIGNMENT != 0) {
        rc = rg_failf(err, RG_SETTING, "setting rdma-slot-size is not a multiple of %d", ALIGNMENT);
    }
    if (rc == 0 && settings->rdma_memory < settings->rdma_slot_size) {
        rc = rg_failf(err, RG_SETTING, "setting rdma-memory is smaller than rdma-slot-size");
    }
    rail->service_level = (uint8_t)settings->rdma_service_level;
    rail->hop_limit = (uint8_t)settings->rdma_hop_limit;
    rail->mtu = settings->rdma_mtu == RG_MTU_AUTO ? 0 : 128u << settings->rdma_mtu;
    return rc;
}

/* Is `name` one of the transports there are? */
static int find_kind(struct span name, enum rg_transport_kind *ret_kind, struct rg_error *err)
{
    for (int kind = 0; kind < RG_TRANSPORT_COUNT; kind++) {
        if (rg_span_is(name, rg_transport_kind_name((enum rg_transport_kind)kind))) {
            *ret_kind = (enum rg_transport_kind)kind;
            return 0;
        }
    }
    return rg_failf(err, RG_SETTING,
                    "setting rdma-transports: \"%.*s\" is none of dc, rc, ofi (lower case)",
                    RG_SPAN_ARG(rg_span_head(name, NAME_BYTES_MAX)));
}

/* ---- Opening ---- */

static void free_plane(struct rg_plane *plane)
{
    rg_pool_close(plane->pool);
    rg_slab_close(plane->slab);
    RG_MUST(pthread_mutex_destroy(&plane->lock));
    free(plane);
}

/* The staging memory is locked only where the NIC would pin it anyhow. */
static int open_slab(struct rg_planes *planes, struct rg_plane *plane, struct rg_error *err)
{
    const struct rg_settings *settings = planes->settings;
    bool hardware = plane->kind != RG_TRANSPORT_OFI;
    struct rg_slab_config config = {
        .slot_bytes = (size_t)settings->rdma_slot_size,
        .slot_count = (size_t)RG_MIN(settings->rdma_memory / settings->rdma_slot_size,
                                     (int64_t)RG_SLOT_COUNT_MAX),
        .lock = hardware,
        .huge_pages = hardware,
        .observe_wait = observe_wait,
        .observe_context = plane,
    };
    if (hardware) {
        uint64_t pushed = plane->kind == RG_TRANSPORT_RC ? (uint64_t)settings->rdma_staging_max : 0;
        planes->locked_bytes += rg_slab_locked_bytes(&config);
        planes->pushed_bytes = RG_MAX(planes->pushed_bytes, pushed); /* all rails share it */
        int rc = rg_memlock_check(planes->locked_bytes + planes->pushed_bytes, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rg_slab_open(&config, &plane->slab, err);
}

/*
 * Whether there is a device at all, before any memory is asked for: a machine without one needs no
 * locked memory. One whose port is down counts; it is tried again later.
 */
static int look_at_device(const struct rg_transport *transport, const struct rg_rail_config *config,
                          bool *ret_is_down, struct rg_error *err)
{
    struct rg_rail *rail;
    int rc = rg_rail_open(transport, config, &rail, err);
    if (rc == 0) {
        rg_rail_close(rail);
    }
    *ret_is_down = rc == -RG_SERVICE_UNAVAILABLE;
    return *ret_is_down ? 0 : rc;
}

static int open_plane(struct rg_planes *planes, enum rg_transport_kind kind,
                      const struct rg_rail_config *rail, struct rg_error *err)
{
    const struct rg_settings *settings = planes->settings;
    const struct rg_transport *transport = planes->find(kind);
    if (!transport) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "this build has no such transport");
    }
    int rc = rg_transport_load(transport, err);
    if (rc < 0) {
        return rc;
    }
    bool is_down = false;
    if (kind != RG_TRANSPORT_OFI) {
        rc = look_at_device(transport, rail, &is_down, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_plane *plane = calloc(1, sizeof *plane);
    if (!plane) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    plane->kind = kind;
    RG_MUST(pthread_mutex_init(&plane->lock, NULL));
    rg_histogram_init(&plane->waits, second_bounds, RG_ARRAY_LENGTH(second_bounds));
    rg_histogram_init(&plane->seconds, second_bounds, RG_ARRAY_LENGTH(second_bounds));
    rg_histogram_init(&plane->overlap, ratio_bounds, RG_ARRAY_LENGTH(ratio_bounds));
    rc = open_slab(planes, plane, err);
    if (rc == 0) {
        struct rg_pool_config config = RG_POOL_CONFIG_INIT;
        config.transport = transport;
        config.rail = *rail;
        config.slab = plane->slab;
        config.lanes_max = (size_t)settings->rdma_lanes;
        config.tolerate_down = is_down;
        config.sessions_only = kind == RG_TRANSPORT_RC;
        config.observe_wait = observe_wait;
        config.observe_context = plane;
        rc = rg_pool_open(&config, &plane->pool, err);
    }
    if (rc < 0) {
        free_plane(plane);
        return rc;
    }
    struct rg_pool_state state;
    rg_pool_state(plane->pool, &state);
    memcpy(plane->path, state.path[0] ? state.path : transport->name, sizeof plane->path);
    planes->planes[planes->count++] = plane;
    return 0;
}

static int bad_device(struct span name, struct rg_error *err)
{
    return rg_failf(err, RG_SETTING,
                    "setting rdma-devices: \"%.*s\" is no device, device:port or address",
                    RG_SPAN_ARG(rg_span_head(name, NAME_BYTES_MAX)));
}

static bool is_address(const char *text)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* "mlx5_0", "mlx5_0:2" (a port), "10.9.0.1" (the port that has the address), "" (whichever). */
static int read_device(struct span name, struct rg_rail_config *rail, struct rg_error *err)
{
    char text[RG_RAIL_ADDRESS_MAX + 1];
    if (name.len >= sizeof text) {
        return bad_device(name, err);
    }
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    if (is_address(text)) {
        memcpy(rail->address, text, name.len + 1);
        return 0;
    }
    struct span port = name;
    struct span device = rg_span_cut(&port, ':');
    uint64_t number = 0;
    bool has_port = port.ptr != NULL;
    if (device.len > RG_RAIL_NAME_MAX || (has_port && device.len == 0) ||
        (has_port && (!rg_span_to_u64(port, &number) || number < 1 || number > 255))) {
        return bad_device(name, err);
    }
    memcpy(rail->device, device.ptr, device.len);
    rail->device[device.len] = '\0';
    rail->port = (uint8_t)number;
    return 0;
}

static int read_provider(struct span name, struct rg_rail_config *rail, struct rg_error *err)
{
    if (name.len > RG_RAIL_NAME_MAX) {
        return rg_failf(err, RG_SETTING, "setting rdma-providers: a name is too long");
    }
    memcpy(rail->device, name.ptr, name.len);
    rail->device[name.len] = '\0';
    return 0;
}

/* What an operator should know of the access key. */
static const char *key_note(const struct rg_planes *planes, enum rg_transport_kind kind)
{
    bool is_known = kind == RG_TRANSPORT_DC && !planes->settings->rdma_dc_key_file[0];
    return is_known ? " (with the access key that everybody knows: set rdma-dc-key-file)" : "";
}

/* One rail of a list; that it cannot be opened is said in the summary, and is no failure. */
static int open_one(struct rg_planes *planes, enum rg_transport_kind kind, struct span name,
                    const struct rg_rail_config *rail, struct rg_buf *summary, struct rg_error *err)
{
    if (planes->count == PLANES_MAX) {
        return rg_failf(err, RG_SETTING, "more than %u rails are asked for", PLANES_MAX);
    }
    int rc = open_plane(planes, kind, rail, err);
    if (rc == -RG_SETTING || rc == -RG_OUT_OF_MEMORY) {
        return rc;
    }
    const char *label = rg_transport_kind_name(kind);
    if (rc < 0) {
        rg_buf_addf(summary, "; not %s%s%.*s: %s", label, name.len ? ":" : "", RG_SPAN_ARG(name),
                    err->message);
        return 0;
    }
    struct rg_pool_state state;
    rg_pool_state(planes->planes[planes->count - 1]->pool, &state);
    if (state.up) {
        rg_buf_addf(summary, "; %s on %s %s%s%s", state.path, state.device, state.address,
                    state.is_hardware ? "" : " (software)", key_note(planes, kind));
    } else {
        rg_buf_addf(summary, "; %s%s%.*s is down and will be tried again: %s", label,
                    name.len ? ":" : "", RG_SPAN_ARG(name), state.reason);
    }
    return 0;
}

/* Names in a list that is empty mean: whichever there is. */
static int open_listed(struct rg_planes *planes, enum rg_transport_kind kind,
                       const struct rg_rail_config *base, struct rg_buf *summary,
                       struct rg_error *err)
{
    const char *list = planes->settings->rdma_devices;
    struct span rest = rg_span_text(list);
    while (rest.ptr) {
        struct span name = rg_span_trim(rg_span_cut(&rest, ','));
        if (name.len == 0 && list[0]) {
            return rg_failf(err, RG_SETTING, "setting rdma-devices: a name is empty");
        }
        struct rg_rail_config rail = *base;
        int rc = read_device(name, &rail, err);
        if (rc == 0) {
            rc = open_one(planes, kind, name, &rail, summary, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* The next of the addresses in `rest`; `all` is the whole list. */
static int read_address(const char *all, struct span *rest, struct rg_rail_config *rail,
                        struct rg_error *err)
{
    struct span name = rg_span_trim(rg_span_cut(rest, ','));
    struct span before = rg_span_text(all);
    if (name.len == 0 || name.len > RG_RAIL_ADDRESS_MAX) {
        return rg_failf(err, RG_SETTING, "setting rdma-address: an address is empty or too long");
    }
    while (before.ptr) {
        struct span other = rg_span_trim(rg_span_cut(&before, ','));
        if (other.ptr == name.ptr) {
            break;
        }
        if (rg_span_eq(other, name)) {
            return rg_failf(err, RG_SETTING, "setting rdma-address: %.*s stands there twice",
                            RG_SPAN_ARG(name));
        }
    }
    memcpy(rail->address, name.ptr, name.len);
    rail->address[name.len] = '\0';
    return 0;
}

/* Where ofi over IP listens when nobody has said so; "" is the loopback. */
static const char *default_address(const struct rg_settings *settings)
{
    bool is_any = strcmp(settings->address, "0.0.0.0") == 0 || strcmp(settings->address, "::") == 0;
    return is_any ? "" : settings->address;
}

/* A provider over IP has a rail for each address, others have one. */
static int open_provider(struct rg_planes *planes, struct span name,
                         const struct rg_rail_config *base, struct rg_buf *summary,
                         struct rg_error *err)
{
    const struct rg_settings *settings = planes->settings;
    struct rg_rail_config rail = *base;
    int rc = read_provider(name, &rail, err);
    if (rc < 0) {
        return rc;
    }
    if (!rg_ofi_is_over_ip(rail.device) || !settings->rdma_address[0]) {
        const char *own = rg_ofi_is_over_ip(rail.device) ? default_address(settings) : "";
        if (strlen(own) > RG_RAIL_ADDRESS_MAX) {
            return rg_failf(err, RG_SETTING, "setting address is too long for the ofi transport");
        }
        memcpy(rail.address, own, strlen(own) + 1);
        return open_one(planes, RG_TRANSPORT_OFI, name, &rail, summary, err);
    }
    struct span rest = rg_span_text(settings->rdma_address);
    while (rest.ptr) {
        rc = read_address(settings->rdma_address, &rest, &rail, err);
        if (rc == 0) {
            rc = open_one(planes, RG_TRANSPORT_OFI, name, &rail, summary, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int open_providers(struct rg_planes *planes, const struct rg_rail_config *base,
                          struct rg_buf *summary, struct rg_error *err)
{
    struct span rest = rg_span_text(planes->settings->rdma_providers);
    while (rest.ptr) {
        struct span name = rg_span_trim(rg_span_cut(&rest, ','));
        if (name.len == 0 && planes->settings->rdma_providers[0]) {
            return rg_failf(err, RG_SETTING, "setting rdma-providers: a name is empty");
        }
        int rc = open_provider(planes, name, base, summary, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

void rg_planes_preload(const struct rg_settings *settings)
{
    struct rg_error ignored = RG_ERROR_INIT;
    struct span rest = rg_span_text(settings->rdma_transports);
    while (rest.ptr && settings->rdma != RG_RDMA_OFF) {
        enum rg_transport_kind kind;
        struct span name = rg_span_trim(rg_span_cut(&rest, ','));
        const struct rg_transport *transport =
            find_kind(name, &kind, &ignored) == 0 ? rg_transport_find(kind) : NULL;
        if (transport) {
            (void)rg_transport_load(transport, &ignored);
        }
    }
}

static int open_all(struct rg_planes *planes, struct rg_buf *summary, struct rg_error *err)
{
    struct rg_rail_config rail = RG_RAIL_CONFIG_INIT;
    int rc = read_rail(planes->settings, &rail, err);
    if (rc < 0) {
        return rc;
    }
    RG_BUF(found, 16384);
    struct span rest = rg_span_text(planes->settings->rdma_transports);
    while (rest.ptr) {
        enum rg_transport_kind kind = RG_TRANSPORT_COUNT;
        rc = find_kind(rg_span_trim(rg_span_cut(&rest, ',')), &kind, err);
        if (rc == 0 && planes->settings->rdma != RG_RDMA_OFF) {
            rc = kind == RG_TRANSPORT_OFI ? open_providers(planes, &rail, &found, err)
                                          : open_listed(planes, kind, &rail, &found, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    if (planes->settings->rdma == RG_RDMA_OFF) {
        rg_buf_add_text(summary, "off: requests with a token are declined");
        return 0;
    }
    if (planes->count == 0 && planes->settings->rdma == RG_RDMA_ON) {
        return rg_failf(err, RG_SETTING, "setting rdma is on, but no rail can be opened%s",
                        rg_buf_text(&found));
    }
    rg_buf_addf(summary, "%zu rail%s%s", planes->count, planes->count == 1 ? "" : "s",
                rg_buf_text(&found));
    return 0;
}

/* Each session has a completion channel, a descriptor: too few would starve the listener. */
static int check_file_limit(const struct rg_settings *settings, struct rg_error *err)
{
    struct rlimit limit;
    int64_t need = settings->connections_max + FILES_PER_REQUEST * settings->requests_max +
                   settings->rdma_sessions_max + settings->rdma_lanes + FILES_OWN;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max == RLIM_INFINITY ||
        (int64_t)limit.rlim_max >= need) {
        return 0;
    }
    return rg_failf(err, RG_SETTING,
                    "setting rdma-sessions-max is %" PRId64 ", which with connections-max %" PRId64
                    " and requests-max %" PRId64 " needs %" PRId64
                    " open files, but the limit (ulimit -Hn) is %llu; raise it (LimitNOFILE=) or "
                    "lower one of them",
                    settings->rdma_sessions_max, settings->connections_max, settings->requests_max,
                    need, (unsigned long long)limit.rlim_max);
}

/* Only reliable connections have sessions. */
static int open_sessions(struct rg_planes *planes, struct rg_error *err)
{
    const struct rg_settings *settings = planes->settings;
    const struct rg_sessions_config config = {
        .sessions_max = (size_t)settings->rdma_sessions_max,
        .principal_max = (size_t)settings->rdma_sessions_account_max,
        .staging_max = (uint64_t)settings->rdma_staging_max,
        .staging_principal_max = (uint64_t)settings->rdma_staging_account_max,
        .idle_ms = (uint32_t)settings->rdma_session_idle,
        .evict_ms = SESSION_EVICT_MS,
        .prepare_ms = (uint32_t)settings->rdma_prepare_timeout,
    };
    for (size_t i = 0; i < planes->count; i++) {
        if (planes->planes[i]->kind == RG_TRANSPORT_RC) {
            int rc = check_file_limit(settings, err);
            return rc < 0 ? rc : rg_sessions_new(&config, &planes->sessions, err);
        }
    }
    return 0;
}

/* ---- The ticker ---- */

static void log_rail(const struct rg_plane *plane)
{
    struct rg_pool_state state;
    rg_pool_state(plane->pool, &state);
    if (state.up) {
        rg_log_info("rdma.rail.up", "the rail carries transfers again",
                    RG_FIELD_TEXT("path", state.path), RG_FIELD_TEXT("device", state.device));
    } else {
        rg_log_warn("rdma.rail.down", state.reason, RG_FIELD_TEXT("path", state.path),
                    RG_FIELD_TEXT("device", state.device),
                    RG_FIELD_INT("retry_ms", state.retry_in_ms));
    }
}

static void *tick(void *context)
{
    struct rg_planes *planes = context;
    pthread_mutex_lock(&planes->lock);
    while (!planes->stopping) {
        struct timespec until = rg_clock_deadline(TICK_MS);
        pthread_cond_clockwait(&planes->end, &planes->lock, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&planes->lock);
        if (planes->sessions && !planes->stopping) {
            rg_sessions_tick(planes->sessions);
        }
        for (size_t i = 0; i < planes->count && !planes->stopping; i++) {
            if (rg_pool_tick(planes->planes[i]->pool)) {
                log_rail(planes->planes[i]);
            }
        }
        pthread_mutex_lock(&planes->lock);
    }
    pthread_mutex_unlock(&planes->lock);
    return NULL;
}

int rg_planes_open_with(const struct rg_settings *settings, rg_planes_find *find,
                        struct rg_planes **ret_planes, struct rg_buf *ret_summary,
                        struct rg_error *err)
{
    struct rg_planes *planes = calloc(1, sizeof *planes);
    if (!planes) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    planes->settings = settings;
    planes->find = find;
    RG_MUST(pthread_mutex_init(&planes->lock, NULL));
    RG_MUST(pthread_cond_init(&planes->end, NULL));
    int rc = open_all(planes, ret_summary, err);
    if (rc == 0) {
        rc = open_sessions(planes, err);
    }
    if (rc == 0 && planes->count) {
        planes->ticking = pthread_create(&planes->ticker, NULL, tick, planes) == 0;
        rc = planes->ticking ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (rc < 0) {
        rg_planes_close(planes);
        return rc;
    }
    *ret_planes = planes;
    return 0;
}

int rg_planes_open(const struct rg_settings *settings, struct rg_planes **ret_planes,
                   struct rg_buf *ret_summary, struct rg_error *err)
{
    return rg_planes_open_with(settings, rg_transport_find, ret_planes, ret_summary, err);
}

void rg_planes_stop(struct rg_planes *planes)
{
    pthread_mutex_lock(&planes->lock);
    planes->stopping = true;
    pthread_cond_broadcast(&planes->end);
    pthread_mutex_unlock(&planes->lock);
    if (planes->sessions) {
        rg_sessions_stop(planes->sessions);
    }
    for (size_t i = 0; i < planes->count; i++) {
        rg_pool_stop(planes->planes[i]->pool);
        rg_slab_stop(planes->planes[i]->slab);
    }
}

void rg_planes_close(struct rg_planes *planes)
{
    if (!planes) {
        return;
    }
    rg_planes_stop(planes);
    if (planes->ticking) {
        RG_MUST(pthread_join(planes->ticker, NULL));
    }
    rg_sessions_free(planes->sessions);
    for (size_t i = 0; i < planes->count; i++) {
        free_plane(planes->planes[i]);
    }
    pthread_cond_destroy(&planes->end);
    pthread_mutex_destroy(&planes->lock);
    free(planes);
}

/* ---- Choosing ---- */

/* "tcp;ofi_rxm" in a token is the provider of the path "ofi:tcp". */
static bool same_provider(const char *path, const char *provider)
{
    struct span rest = rg_span_text(provider);
    struct span first = rg_span_cut(&rest, ';');
    struct span own = rg_span_skip(rg_span_text(path), strlen("ofi:"));
    return rg_span_eq(first, own);
}

static bool carries(const struct rg_plane *plane, const void *context)
{
    const struct rg_rdma_window *window = context;
    return plane->kind == window->transport &&
           (plane->kind != RG_TRANSPORT_OFI || same_provider(plane->path, window->provider));
}

struct rg_plane *rg_planes_choose(struct rg_planes *planes, rg_plane_carries *carries_it,
                                  const void *context, const uint8_t *peer, const char *arrival)
{
    struct rg_plane *fit[PLANES_MAX];
    struct rg_rail_facts facts[PLANES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < planes->count; i++) {
        if (carries_it(planes->planes[i], context)) {
            fit[count] = planes->planes[i];
            rg_pool_facts(fit[count]->pool, &facts[count]);
            count++;
        }
    }
    size_t turn = atomic_fetch_add(&planes->next, 1);
    size_t chosen = rg_rail_choose(facts, count, peer, arrival, turn);
    return chosen < count ? fit[chosen] : NULL;
}

const char *rg_planes_objection(const struct rg_planes *planes, const struct rg_rdma_window *window,
                                uint64_t length)
{
    if (planes->settings->rdma == RG_RDMA_OFF) {
        return "rdma-off";
    }
    if (!rg_dialect_is_served(window->dialect)) {
        return "dialect-not-served";
    }
    bool carried = false;
    for (size_t i = 0; i < planes->count && !carried; i++) {
        carried = carries(planes->planes[i], window);
    }
    if (!carried) {
        return "no-transport";
    }
    if (length == 0) {
        return "empty-object";
    }
    if (length > window->length) {
        return "window-too-small";
    }
    return length < (uint64_t)planes->settings->rdma_size_min ? "below-minimum" : NULL;
}

/* ---- Ceilings of one account ---- */

bool rg_planes_enter(struct rg_planes *planes, const char *account)
{
    bool allowed = false;
    struct rg_plane_usage *place = NULL;
    pthread_mutex_lock(&planes->lock);
    for (size_t i = 0; i < ACCOUNTS_MAX; i++) {
        struct rg_plane_usage *usage = &planes->usage[i];
        if (usage->count && strcmp(usage->account, account) == 0) {
            place = usage;
            break;
        }
        if (!usage->count && !place) {
            place = usage;
        }
    }
    if (place && place->count < (unsigned)planes->settings->rdma_account_max) {
        if (place->count == 0) {
            snprintf(place->account, sizeof place->account, "%s", account);
        }
        place->count++;
        allowed = true;
    }
    pthread_mutex_unlock(&planes->lock);
    return allowed;
}

void rg_planes_leave(struct rg_planes *planes, const char *account)
{
    pthread_mutex_lock(&planes->lock);
    for (size_t i = 0; i < ACCOUNTS_MAX; i++) {
        struct rg_plane_usage *usage = &planes->usage[i];
        if (usage->count && strcmp(usage->account, account) == 0) {
            usage->count--;
            break;
        }
    }
    pthread_mutex_unlock(&planes->lock);
}

/* ---- Moving ---- */

int rg_planes_decline(struct rg_planes *planes, struct rg_plane_result *result, const char *reason,
                      struct rg_error *err)
{
    rg_planes_count_decline(planes, reason);
    result->reason = reason;
    return rg_fail(err, RG_RDMA_NOT_SUPPORTED);
}

/* Why nothing was moved; NULL when it is not a matter of declining. */
static const char *untouched_reason(int rc)
{
    switch (-rc) {
    case RG_LIMIT:
        return "no-slot";
    case RG_RDMA_NOT_SUPPORTED:
        return "no-transport";
    case RG_RDMA_TRANSFER_FAILED:
        return "unreachable";
    case RG_TIMED_OUT:
        return "too-slow";
    case RG_CANCELLED:
        return "stopping";
    default:
        return NULL;
    }
}

static void count_success(struct rg_plane *plane, const struct rg_plane_transfer *transfer,
                          const struct rg_transfer_report *report)
{
    enum rg_dialect dialect = transfer->window->dialect;
    add(&plane->transfers[transfer->use][dialect], 1);
    add(&plane->bytes[transfer->use][dialect], report->bytes);
    add(&plane->direct_bytes[transfer->use], report->direct_bytes);
    rg_histogram_observe(&plane->seconds, (double)report->wall_ns / 1e9);
    uint64_t longer = RG_MAX(report->disk_ns, report->wire_ns);
    if (longer) {
        rg_histogram_observe(&plane->overlap, (double)report->wall_ns / (double)longer);
    }
}

/* The library's words as a label's value. */
static void copy_label(char *to, size_t room, const char *text)
{
    size_t len = 0;
    for (; text[len] && len + 1 < room; len++) {
        bool is_plain =
            text[len] >= ' ' && text[len] < 127 && text[len] != '"' && text[len] != '\\';
        to[len] = is_plain ? text[len] : '_';
    }
    to[len] = '\0';
}

static void count_status(struct rg_plane *plane, const struct rg_transfer_report *report)
{
    size_t i = 0;
    RG_MUST(pthread_mutex_lock(&plane->lock));
    while (i < plane->status_count && plane->statuses[i].status != report->provider_status) {
        i++;
    }
    if (i == PLANE_STATUSES_MAX) {
        i--; /* the last is that of all others */
        plane->statuses[i].status = -1;
        snprintf(plane->statuses[i].text, sizeof plane->statuses[i].text, "others");
    } else if (i == plane->status_count) {
        plane->statuses[i].status = report->provider_status;
        copy_label(plane->statuses[i].text, sizeof plane->statuses[i].text, report->provider_text);
        plane->status_count++;
    }
    plane->statuses[i].count++;
    RG_MUST(pthread_mutex_unlock(&plane->lock));
}

void rg_plane_count(struct rg_plane *plane, const struct rg_plane_transfer *transfer,
                    const struct rg_transfer_report *report, bool succeeded)
{
    if (succeeded) {
        count_success(plane, transfer, report);
    } else {
        add(&plane->failures[report->cause], 1);
        if (report->provider_text[0]) {
            count_status(plane, report);
        }
    }
}

int rg_plane_pump(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                  const struct rg_plane_transfer *transfer, struct rg_transfer_report *ret_report,
                  struct rg_error *err)
{
    uint64_t now_ms = rg_clock_ms();
    struct rg_transfer pipeline = RG_TRANSFER_INIT;
    pipeline.lane = way->lane;
    pipeline.disk = way->disk;
    pipeline.slab = plane->slab;
    pipeline.window = transfer->window;
    pipeline.file = transfer->file;
    pipeline.file_offset = transfer->file_offset;
    pipeline.length = transfer->length;
    pipeline.queue_ms = (uint32_t)planes->settings->rdma_queue_wait;
    pipeline.budget_ms = (uint32_t)(way->deadline_ms > now_ms ? way->deadline_ms - now_ms : 1);
    pipeline.cancel = way->cancel;
    pipeline.consume = transfer->consume;
    pipeline.consume_context = transfer->consume_context;
    *ret_report = (struct rg_transfer_report){0};
    return transfer->use == RG_PLANE_GET ? rg_pipeline_get(&pipeline, ret_report, err)
                                         : rg_pipeline_put(&pipeline, ret_report, err);
}

int rg_plane_run(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                 const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                 struct rg_error *err)
{
    struct rg_transfer_report report;
    int rc = rg_plane_pump(planes, plane, way, transfer, &report, err);
    if (rc == 0) {
        rg_plane_count(plane, transfer, &report, true);
        return 0;
    }
    const char *reason = report.touched ? NULL : untouched_reason(rc);
    if (reason) {
        return rg_planes_decline(planes, result, reason, err);
    }
    rg_plane_count(plane, transfer, &report, false);
    if (rc == -RG_TIMED_OUT || rc == -RG_CANCELLED) {
        err->code = RG_RDMA_TRANSFER_FAILED;
        return -RG_RDMA_TRANSFER_FAILED;
    }
    return rc;
}

static int move(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                struct rg_plane_result *result, struct rg_error *err)
{
    uint64_t deadline_ms = rg_clock_ms() + (uint64_t)planes->settings->rdma_budget;
    const struct rg_rdma_window *window = transfer->window;
    uint8_t peer[16];
    bool is_known = rg_window_peer(window, peer);
    struct rg_plane *plane =
        rg_planes_choose(planes, carries, window, is_known ? peer : NULL, transfer->arrival);
    RG_ASSERT(plane);
    struct rg_lease lease = {0};
    int rc = rg_pool_lease_for(plane->pool, transfer->window,
                               (uint32_t)planes->settings->rdma_queue_wait, &lease, err);
    if (rc < 0) {
        const char *reason = rc == -RG_LIMIT       ? "no-lane"
                             : rc == -RG_CANCELLED ? "stopping"
                                                   : "rail-down";
        return rg_planes_decline(planes, result, reason, err);
    }
    memcpy(result->path, plane->path, sizeof result->path);
    const struct rg_plane_way way = {
        .lane = lease.lane,
        .disk = lease.disk,
        .cancel = &planes->stopping,
        .deadline_ms = deadline_ms,
    };
    rc = rg_plane_run(planes, plane, &way, transfer, result, err);
    rg_pool_return(&lease);
    return rc;
}

int rg_planes_move(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                   struct rg_plane_result *ret_result, struct rg_error *err)
{
    *ret_result = (struct rg_plane_result){0};
    const char *reason = rg_planes_objection(planes, transfer->window, transfer->length);
    if (reason) {
        return rg_planes_decline(planes, ret_result, reason, err);
    }
    if (!rg_planes_enter(planes, transfer->account)) {
        return rg_planes_decline(planes, ret_result, "account-limit", err);
    }
    int rc = transfer->window->session[0]
                 ? rg_planes_move_by_session(planes, transfer, ret_result, err)
                 : move(planes, transfer, ret_result, err);
    rg_planes_leave(planes, transfer->account);
    return rc;
}

/* ---- What operators see ---- */

bool rg_planes_enabled(const struct rg_planes *planes)
{
    return planes->settings->rdma != RG_RDMA_OFF;
}

size_t rg_planes_count(const struct rg_planes *planes)
{
    return planes->count;
}

void rg_planes_state(const struct rg_planes *planes, size_t i, struct rg_plane_state *ret_state)
{
    RG_ASSERT(i < planes->count);
    ret_state->kind = planes->planes[i]->kind;
    rg_pool_state(planes->planes[i]->pool, &ret_state->pool);
    rg_slab_state(planes->planes[i]->slab, &ret_state->slab);
    /* libfabric pins what it registers with a NIC, whether we have locked it or not. */
    if (ret_state->pool.up && ret_state->pool.is_hardware) {
        ret_state->slab.locked_bytes = ret_state->slab.mapped_bytes;
    }
}

static const char *const use_names[RG_PLANE_USE_COUNT] = {
    [RG_PLANE_GET] = "GetObject",
    [RG_PLANE_PUT] = "PutObject",
    [RG_PLANE_PART] = "UploadPart",
};

static void write_moved(struct rg_planes *planes, bool bytes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        for (int use = 0; use < RG_PLANE_USE_COUNT; use++) {
            for (int dialect = 0; dialect < RG_DIALECT_COUNT; dialect++) {
                if (!get(&plane->transfers[use][dialect])) {
                    continue;
                }
                rg_buf_addf(
                    out,
                    "%s{operation=\"%s\",dialect=\"%s\",path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n",
                    name, use_names[use], rg_dialect_name((enum rg_dialect)dialect), plane->path, i,
                    get(bytes ? &plane->bytes[use][dialect] : &plane->transfers[use][dialect]));
            }
        }
    }
}

void rg_planes_write_transfers(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    write_moved(planes, false, name, out);
}

void rg_planes_write_bytes(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    write_moved(planes, true, name, out);
}

void rg_planes_write_direct(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        for (int use = 0; use < RG_PLANE_USE_COUNT; use++) {
            rg_buf_addf(out, "%s{operation=\"%s\",path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n", name,
                        use_names[use], plane->path, i, get(&plane->direct_bytes[use]));
        }
    }
}

void rg_planes_write_declines(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (get(&planes->declines[i])) {
            rg_buf_addf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name, reasons[i],
                        get(&planes->declines[i]));
        }
    }
}

void rg_planes_write_failures(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        for (int cause = 0; cause < RG_CAUSE_COUNT; cause++) {
            uint64_t count = get(&planes->planes[i]->failures[cause]);
            if (count) {
                rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",cause=\"%s\"} %" PRIu64 "\n", name,
                            planes->planes[i]->path, i, rg_cause_name((enum rg_cause)cause), count);
            }
        }
    }
}

void rg_planes_write_statuses(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane *plane = planes->planes[i];
        RG_MUST(pthread_mutex_lock(&plane->lock));
        for (size_t j = 0; j < plane->status_count; j++) {
            const struct rg_plane_status *status = &plane->statuses[j];
            rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",status=\"%d\",text=\"%s\"} %" PRIu64 "\n",
                        name, plane->path, i, status->status, status->text, status->count);
        }
        RG_MUST(pthread_mutex_unlock(&plane->lock));
    }
}

static void write_histogram(const struct rg_histogram *histogram, const char *path, size_t rail,
                            const char *name, struct rg_buf *out)
{
    char labels[128];
    snprintf(labels, sizeof labels, "path=\"%s\",rail=\"%zu\"", path, rail);
    rg_histogram_write(histogram, name, labels, out);
}

void rg_planes_write_waits(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->waits, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_seconds(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->seconds, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_overlap(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        write_histogram(&planes->planes[i]->overlap, planes->planes[i]->path, i, name, out);
    }
}

void rg_planes_write_rails(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        rg_buf_addf(out,
                    "%s{path=\"%s\",rail=\"%zu\",device=\"%s\",address=\"%s\",hardware=\"%s\"} "
                    "%d\n",
                    name, planes->planes[i]->path, i, state.pool.device, state.pool.address,
                    state.pool.is_hardware ? "yes" : "no", state.pool.up);
    }
}

/* One row of a gauge that has a label "state". */
static void write_state(const struct rg_planes *planes, size_t index, const char *name,
                        const char *state, size_t value, struct rg_buf *out)
{
    rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",state=\"%s\"} %zu\n", name,
                planes->planes[index]->path, index, state, value);
}

void rg_planes_write_lanes(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        write_state(planes, i, name, "leased", state.pool.lanes_leased, out);
        write_state(planes, i, name, "open", state.pool.lanes_open, out);
        write_state(planes, i, name, "allowed", state.pool.lanes_max, out);
    }
}

void rg_planes_write_slots(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        write_state(planes, i, name, "in-use", state.slab.slots_in_use, out);
        write_state(planes, i, name, "condemned", state.slab.slots_condemned, out);
        write_state(planes, i, name, "all", state.slab.slots_total, out);
    }
}

void rg_planes_write_pinned(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        struct rg_plane_state state;
        rg_planes_state(planes, i, &state);
        rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\"} %" PRIu64 "\n", name,
                    planes->planes[i]->path, i, state.slab.locked_bytes);
    }
}

void rg_planes_write_slabs(struct rg_planes *planes, const char *name, struct rg_buf *out)
{
    for (size_t i = 0; i < planes->count; i++) {
        const struct rg_plane *plane = planes->planes[i];
        struct rg_slab_state state;
        rg_slab_state(plane->slab, &state);
        rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",state=\"mapped\"} %" PRIu64 "\n", name,
                    plane->path, i, state.mapped_bytes);
        rg_buf_addf(out, "%s{path=\"%s\",rail=\"%zu\",state=\"resident\"} %" PRIu64 "\n", name,
                    plane->path, i, rg_slab_resident_bytes(plane->slab));
    }
}
