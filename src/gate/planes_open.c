/*
 * From settings to rails: what they ask for is read and checked, and what this machine has of it is
 * opened. Nothing is moved here.
 */
#include "gate/planes_inside.h"

#include "base/assert.h"
#include "base/checked.h"
#include "rdma/dc_key.h"
#include "rdma/ofi_address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SESSION_EVICT_MS  2000u
#define ALIGNMENT         4096
#define FILES_PER_REQUEST 4 /* as the start-up check of the command counts */
#define FILES_OWN         64
#define NAME_BYTES_MAX    64u

static const double second_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                       0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
static const double ratio_bounds[] = {1.0, 1.05, 1.1, 1.15, 1.25, 1.5, 1.75, 2.0, 3.0};

static void observe_wait(void *context, uint64_t wait_ns, bool granted)
{
    (void)granted;
    struct rg_plane *plane = context;
    rg_histogram_observe(&plane->waits, (double)wait_ns / 1e9);
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

void rg_plane_free(struct rg_plane *plane)
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
        rg_plane_free(plane);
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
        rc = open_one(planes, RG_TRANSPORT_OFI, name, &rail, summary, err);
        return rc < 0 && own[0]
                   ? rg_error_context(err,
                                      "setting address, which is that of ofi without rdma-address")
                   : rc;
    }
    struct span rest = rg_span_text(settings->rdma_address);
    while (rest.ptr) {
        rc = read_address(settings->rdma_address, &rest, &rail, err);
        if (rc == 0) {
            rc = open_one(planes, RG_TRANSPORT_OFI, name, &rail, summary, err);
            rc = rc < 0 ? rg_error_context(err, "setting rdma-address") : 0;
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

int rg_planes_open_rails(struct rg_planes *planes, struct rg_buf *summary, struct rg_error *err)
{
    int rc = open_all(planes, summary, err);
    return rc < 0 ? rc : open_sessions(planes, err);
}
