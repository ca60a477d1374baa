/*
 * Rails and lanes of a client. See rails.h.
 */
#include "client/rails.h"

#include "client/failure.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "rdma/ofi_address.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOTES_BYTES_MAX 8192u

/* When a rail that is out is looked at again: after the first, and then twice as long each time. */
#define RETRY_MS_MIN 1000u
#define RETRY_MS_MAX 60000u

/* Providers that drive NICs of their own, tried before the one that works everywhere. */
static const char *const ofi_providers[] = {"efa", "cxi", "psm2", "tcp"};

/* ---- Lives ---- */

static int open_life(const struct rg_client_rail *rail, struct rg_rail_life **ret_life,
                     struct rg_error *err)
{
    struct rg_rail_life *life = calloc(1, sizeof *life);
    if (!life) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_rail_open(rail->transport, &rail->config, &life->rail, err);
    if (rc < 0) {
        free(life);
        return rc;
    }
    life->users = 1;
    *ret_life = life;
    return 0;
}

struct rg_rail_life *rg_rail_enter_life(struct rg_client_rail *rail)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    struct rg_rail_life *life = rail->life;
    if (life) {
        life->users++;
    }
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    return life;
}

void rg_rail_leave_life(struct rg_client_rail *rail, struct rg_rail_life *life)
{
    if (!life) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    bool is_last = --life->users == 0;
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    if (is_last) {
        rg_rail_close(life->rail);
        free(life);
    }
}

/* ---- Opening ---- */

/* The local address from which the endpoint is reached: where a provider over IP must listen. */
static bool find_local_address(const struct rg_config *config, char *text, size_t room)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(config->name, config->port, &hints, &found) != 0) {
        return false;
    }
    bool is_found = false;
    for (struct addrinfo *at = found; at && !is_found; at = at->ai_next) {
        struct sockaddr_storage local;
        socklen_t len = sizeof local;
        rg_autoclose int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        /* Sends nothing: a datagram socket only looks up the route. */
        is_found = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                   getsockname(fd, (struct sockaddr *)&local, &len) == 0 &&
                   getnameinfo((struct sockaddr *)&local, len, text, (socklen_t)room, NULL, 0,
                               NI_NUMERICHOST) == 0;
    }
    freeaddrinfo(found);
    return is_found;
}

/* Providers have no place in a list of devices, and no device has their names. */
static bool is_provider(const char *name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ofi_providers); i++) {
        if (strcmp(name, ofi_providers[i]) == 0) {
            return true;
        }
    }
    return rg_ofi_is_over_ip(name) || strcmp(name, "shm") == 0 || strchr(name, ';');
}

/*
 * Whether a rail that cannot be opened now may be there later: its port is down, or the device
 * that the caller named, or a device for the transport that he named, is missing.
 */
static bool may_come(const struct rg_config *asked, const struct rg_transport *transport, int rc)
{
    if (rc == -RG_SERVICE_UNAVAILABLE) {
        return true;
    }
    if (transport->kind == RG_TRANSPORT_OFI) {
        return false;
    }
    return asked->device ? rc == -RG_SETTING && !is_provider(asked->device)
                         : rc == -RG_RDMA_NOT_SUPPORTED && asked->names_transports;
}

static void begin_out(struct rg_client_rail *rail, const char *fault)
{
    rail->is_out = true;
    rail->retry_delay_ms = RETRY_MS_MIN;
    rail->retry_at_ms = rg_clock_ms() + RETRY_MS_MIN;
    snprintf(rail->fault, sizeof rail->fault, "%s", fault);
}

static void open_rail(struct rg_rails *rails, const struct rg_config *asked,
                      const struct rg_transport *transport, const char *device, const char *address,
                      struct rg_buf *notes)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    config.dc_key = asked->has_dc_key ? asked->dc_key : config.dc_key;
    config.mtu = asked->mtu;
    config.hop_limit = asked->hop_limit;
    config.traffic_class = asked->traffic_class;
    config.gid_index = asked->gid_index;
    config.service_level = asked->service_level;
    struct rg_error err = RG_ERROR_INIT;
    snprintf(config.device, sizeof config.device, "%s", device);
    snprintf(config.address, sizeof config.address, "%s", address);
    struct rg_client_rail *rail = &rails->rails[rails->count];
    *rail = (struct rg_client_rail){.transport = transport, .config = config};
    int rc = open_life(rail, &rail->life, &err);
    if (rc < 0 && !may_come(asked, transport, rc)) {
        rg_buf_addf(notes, "no %s%s%s: %s\n", transport->name, device[0] ? " " : "", device,
                    err.message);
        return;
    }
    if (rc < 0) {
        begin_out(rail, err.message);
    } else {
        snprintf(rail->path, sizeof rail->path, "%s", rg_rail_path(rail->life->rail));
    }
    rail->index = rails->count++;
    RG_MUST(pthread_mutex_init(&rail->mutex, NULL));
    RG_MUST(pthread_cond_init(&rail->looked, NULL));
}

static void open_ofi(struct rg_rails *rails, const struct rg_config *config,
                     const struct rg_transport *transport, struct rg_buf *notes)
{
    char local[RG_RAIL_ADDRESS_MAX + 1] = "";
    bool has_local = find_local_address(config, local, sizeof local);
    struct rg_error err = RG_ERROR_INIT;
    if (rg_transport_load(transport, &err) < 0) {
        rg_buf_addf(notes, "no %s: %s\n", transport->name, err.message);
        return;
    }
    if (config->device) {
        open_rail(rails, config, transport, config->device,
                  rg_ofi_is_over_ip(config->device) && has_local ? local : "", notes);
        return;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(ofi_providers) && rails->count < RG_RAILS_MAX; i++) {
        const char *provider = ofi_providers[i];
        if (rg_ofi_is_over_ip(provider) && !has_local) {
            rg_buf_addf(notes, "no ofi tcp: \"%s\" cannot be resolved\n", config->name);
            continue;
        }
        open_rail(rails, config, transport, provider, rg_ofi_is_over_ip(provider) ? local : "",
                  notes);
    }
}

static void open_kind(struct rg_rails *rails, const struct rg_config *config,
                      const struct rg_transport *transport, struct rg_buf *notes)
{
    if (transport->kind == RG_TRANSPORT_OFI) {
        open_ofi(rails, config, transport, notes);
    } else if (rails->count < RG_RAILS_MAX) {
        open_rail(rails, config, transport, config->device ? config->device : "", "", notes);
    }
}

int rg_rails_open(const struct rg_config *config,
                  const struct rg_transport *(*find)(enum rg_transport_kind kind),
                  struct rg_rails **ret_rails, struct rg_failure *failure)
{
    struct rg_rails *rails = calloc(1, sizeof *rails);
    if (!rails) {
        return rg_failure_memory(failure);
    }
    RG_BUF(notes, NOTES_BYTES_MAX);
    for (size_t i = 0; i < config->kind_count && config->path != RG_PATH_HTTP_ONLY; i++) {
        const struct rg_transport *transport = find(config->kinds[i]);
        if (transport) {
            open_kind(rails, config, transport, &notes);
        } else {
            rg_buf_addf(&notes, "no %s: this build has no such transport\n",
                        rg_transport_kind_name(config->kinds[i]));
        }
    }
    rails->notes = strdup(rg_buf_text(&notes));
    if (!rails->notes) {
        rg_rails_close(rails);
        return rg_failure_memory(failure);
    }
    *ret_rails = rails;
    return 0;
}

void rg_rails_close(struct rg_rails *rails)
{
    if (!rails) {
        return;
    }
    for (size_t i = 0; i < rails->count; i++) {
        struct rg_client_rail *rail = &rails->rails[i];
        while (rail->idle) {
            struct rg_client_lane *lane = rail->idle;
            rail->idle = lane->next;
            rg_rail_drop_lane(lane);
        }
        RG_ASSERT(rail->lane_count == 0 && (!rail->life || rail->life->users == 1));
        rg_rail_leave_life(rail, RG_TAKE(rail->life));
        RG_MUST(pthread_cond_destroy(&rail->looked));
        RG_MUST(pthread_mutex_destroy(&rail->mutex));
    }
    free(rails->notes);
    free(rails);
}

/* ---- Declines ---- */

enum { REQUEST_MS = 0, BUSY_MS = 1000, UNKNOWN_MS = 10000, LASTING_MS = 60000 };

static const struct {
    const char *reason;
    uint64_t ms;
} lasting[] = {
    /* About the server, this rail or this network. */
    {"rdma-off", LASTING_MS},
    {"no-transport", LASTING_MS},
    {"dialect-not-served", LASTING_MS},
    {"agent-unknown", LASTING_MS},
    {"control-route", LASTING_MS},
    {"unreachable", LASTING_MS},
    {"invalid-token", LASTING_MS},
    {"server-unaware", LASTING_MS},
    {"session-refused", LASTING_MS},
    {"push-refused", LASTING_MS},
    /* What passes by itself, and cost a wait to find out. */
    {"rail-down", BUSY_MS},
    {"no-lane", BUSY_MS},
    {"no-slot", BUSY_MS},
    {"stopping", BUSY_MS},
    {"session-limit", BUSY_MS},
    {"no-window", BUSY_MS},
    /* About the one request: its size, its window, how many there are now. */
    {"no-session", REQUEST_MS},
    {"account-limit", REQUEST_MS},
    {"below-minimum", REQUEST_MS},
    {"empty-object", REQUEST_MS},
    {"window-too-small", REQUEST_MS},
    {"push-too-large", REQUEST_MS},
};

static uint64_t lasts_ms(const char *reason)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lasting); i++) {
        if (strcmp(reason, lasting[i].reason) == 0) {
            return lasting[i].ms;
        }
    }
    return UNKNOWN_MS;
}

void rg_rail_decline(struct rg_client_rail *rail, const char *reason)
{
    uint64_t ms = lasts_ms(reason);
    if (ms == 0) {
        return;
    }
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    rail->declined_until_ms = rg_clock_ms() + ms;
    snprintf(rail->reason, sizeof rail->reason, "%s", reason);
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
}

static bool is_declined(struct rg_client_rail *rail, char reason[RG_REASON_MAX + 1])
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    bool is_now = rg_clock_ms() < rail->declined_until_ms;
    if (is_now && !reason[0]) {
        snprintf(reason, RG_REASON_MAX + 1, "%s", rail->reason);
    }
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    return is_now;
}

/* ---- Out, and back ---- */

static void drop_lanes(struct rg_client_lane *lane)
{
    while (lane) {
        struct rg_client_lane *next = lane->next;
        rg_rail_drop_lane(lane);
        lane = next;
    }
}

static void take_out(struct rg_client_rail *rail, const char *fault)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    struct rg_client_lane *idle = NULL;
    if (!rail->is_out) {
        begin_out(rail, fault);
        /* What their queue pairs were paired with will be gone by then. */
        idle = RG_TAKE(rail->idle);
        rail->idle_count = 0;
    }
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    drop_lanes(idle);
}

void rg_rail_suspect(struct rg_client_rail *rail)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rail_life *life = rg_rail_enter_life(rail);
    if (rg_rail_check(life->rail, &err) < 0) {
        take_out(rail, err.message);
    }
    rg_rail_leave_life(rail, life);
}

bool rg_rail_is_out(struct rg_client_rail *rail)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    bool is_out = rail->is_out;
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    return is_out;
}

bool rg_rails_fault(struct rg_rails *rails, char fault[RG_ERROR_MESSAGE_MAX])
{
    bool is_out = false;
    for (size_t i = 0; i < rails->count && !is_out; i++) {
        struct rg_client_rail *rail = &rails->rails[i];
        RG_MUST(pthread_mutex_lock(&rail->mutex));
        is_out = rail->is_out;
        if (is_out) {
            snprintf(fault, RG_ERROR_MESSAGE_MAX, "%s", rail->fault);
        }
        RG_MUST(pthread_mutex_unlock(&rail->mutex));
    }
    return is_out;
}

/*
 * Whether this thread is to look at the rail; then nobody else does until it has. Who has no other
 * way waits for what another thread sees.
 */
static bool begin_look(struct rg_client_rail *rail, bool at_once)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    while (at_once && rail->is_out && rail->is_working) {
        RG_MUST(pthread_cond_wait(&rail->looked, &rail->mutex));
    }
    bool is_due =
        rail->is_out && !rail->is_working && (at_once || rg_clock_ms() >= rail->retry_at_ms);
    rail->is_working = rail->is_working || is_due;
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    return is_due;
}

/* `renewed`: NULL when the old life goes on, or nothing does. The old one is returned to be left.
 */
static struct rg_rail_life *end_look(struct rg_client_rail *rail, int rc,
                                     struct rg_rail_life *renewed, const char *fault)
{
    struct rg_rail_life *old = NULL;
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    rail->is_working = false;
    RG_MUST(pthread_cond_broadcast(&rail->looked));
    rail->is_out = rc < 0;
    if (renewed) {
        old = rail->life;
        rail->life = renewed;
        if (!old) {
            snprintf(rail->path, sizeof rail->path, "%s", rg_rail_path(renewed->rail));
        }
    }
    if (rc < 0) {
        rail->retry_delay_ms = RG_MIN(rail->retry_delay_ms * 2, (uint64_t)RETRY_MS_MAX);
        rail->retry_at_ms = rg_clock_ms() + rail->retry_delay_ms;
        snprintf(rail->fault, sizeof rail->fault, "%s", fault);
    } else {
        rail->declined_until_ms = 0; /* said of what is over */
    }
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    return old;
}

/* A port that came back is as it was; a device that was gone has to be opened anew. */
static void look_again(struct rg_client_rail *rail)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_rail_life *renewed = NULL;
    struct rg_rail_life *life = rg_rail_enter_life(rail);
    int rc = life ? rg_rail_check(life->rail, &err) : -RG_SERVICE_UNAVAILABLE;
    rg_rail_leave_life(rail, life);
    if (rc < 0) {
        rc = open_life(rail, &renewed, &err);
    }
    rg_rail_leave_life(rail, end_look(rail, rc, renewed, err.message));
}

static bool is_usable(struct rg_client_rail *rail, bool at_once, char reason[RG_REASON_MAX + 1])
{
    if (begin_look(rail, at_once)) {
        look_again(rail);
    }
    bool is_out = rg_rail_is_out(rail);
    if (is_out && !reason[0]) {
        snprintf(reason, RG_REASON_MAX + 1, "rail-down");
    }
    return !is_out;
}

struct rg_client_rail *rg_rails_choose(struct rg_rails *rails, unsigned usable, bool heed_declines,
                                       char reason[RG_REASON_MAX + 1])
{
    reason[0] = '\0';
    for (size_t i = 0; i < rails->count; i++) {
        struct rg_client_rail *rail = &rails->rails[i];
        if ((usable & (1u << i)) && is_usable(rail, !heed_declines, reason) &&
            !(heed_declines && is_declined(rail, reason))) {
            return rail;
        }
    }
    if (!reason[0]) {
        snprintf(reason, RG_REASON_MAX + 1, "%s",
                 rails->count ? "memory-not-registered" : "no-transport");
    }
    return NULL;
}

/* ---- Lanes ---- */

static struct rg_client_lane *open_lane(struct rg_client_rail *rail, struct rg_error *err)
{
    struct rg_client_lane *lane = calloc(1, sizeof *lane);
    if (!lane) {
        (void)rg_fail(err, RG_OUT_OF_MEMORY);
        return NULL;
    }
    lane->rail = rail;
    lane->life = rg_rail_enter_life(rail);
    if (rg_lane_open(lane->life->rail, &lane->lane, err) < 0) {
        rg_rail_leave_life(rail, lane->life);
        free(lane);
        return NULL;
    }
    return lane;
}

static void count_lane(struct rg_client_rail *rail, int change)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    rail->lane_count = (size_t)((ptrdiff_t)rail->lane_count + change);
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
}

struct rg_client_lane *rg_rail_take_lane(struct rg_client_rail *rail, struct rg_error *err)
{
    RG_MUST(pthread_mutex_lock(&rail->mutex));
    struct rg_client_lane *lane = rail->idle;
    bool may_open = !lane && rail->lane_count < RG_RAIL_LANES_MAX;
    if (lane) {
        rail->idle = lane->next;
        rail->idle_count--;
    } else if (may_open) {
        rail->lane_count++;
    }
    RG_MUST(pthread_mutex_unlock(&rail->mutex));
    if (lane) {
        return lane;
    }
    if (!may_open) {
        (void)rg_failf(err, RG_LIMIT, "All %u lanes of the rail are in use.", RG_RAIL_LANES_MAX);
        return NULL;
    }
    lane = open_lane(rail, err);
    if (!lane) {
        count_lane(rail, -1);
    }
    return lane;
}

void rg_rail_drop_lane(struct rg_client_lane *lane)
{
    rg_lane_close(lane->lane);
    rg_rail_leave_life(lane->rail, lane->life);
    count_lane(lane->rail, -1);
    free(lane);
}

/* One that was paired and has no session any more can be paired again only from the start. */
static bool make_whole(struct rg_client_lane *lane)
{
    bool is_orphan = lane->was_paired && !lane->has_session;
    if (lane->lane->broke < RG_BROKE_CONNECTION && !is_orphan) {
        return true;
    }
    lane->was_paired = false;
    lane->has_session = false;
    return rg_lane_reset(lane->lane, NULL) == 0;
}

void rg_rail_give_lane(struct rg_client_lane *lane)
{
    if (!lane) {
        return;
    }
    struct rg_client_rail *rail = lane->rail;
    if (lane->lane->broke == RG_BROKE_DEVICE) {
        take_out(rail, rg_cause_sentence(lane->lane->cause));
    }
    bool is_kept = make_whole(lane);
    if (is_kept) {
        RG_MUST(pthread_mutex_lock(&rail->mutex));
        is_kept =
            rail->idle_count < RG_RAIL_LANES_IDLE_MAX && !rail->is_out && lane->life == rail->life;
        if (is_kept) {
            lane->next = rail->idle;
            rail->idle = lane;
            rail->idle_count++;
        }
        RG_MUST(pthread_mutex_unlock(&rail->mutex));
    }
    if (!is_kept) {
        rg_rail_drop_lane(lane);
    }
}

void rg_rails_describe(struct rg_rails *rails, struct rg_buf *out)
{
    for (size_t i = 0; i < rails->count; i++) {
        struct rg_client_rail *rail = &rails->rails[i];
        char reason[RG_REASON_MAX + 1] = "";
        bool is_declined_now = is_declined(rail, reason);
        struct rg_rail_life *life = rg_rail_enter_life(rail);
        if (life) {
            rg_buf_addf(out, "%s %s %s%s%s%s", rail->path, life->rail->device, life->rail->address,
                        life->rail->is_hardware ? "" : " (not RDMA hardware)",
                        is_declined_now ? "; declined by the gateway: " : "", reason);
        } else {
            rg_buf_addf(out, "%s %s", rail->transport->name, rail->config.device);
        }
        rg_rail_leave_life(rail, life);
        RG_MUST(pthread_mutex_lock(&rail->mutex));
        rg_buf_addf(out, "%s%s\n", rail->is_out ? "; out, and tried again: " : "",
                    rail->is_out ? rail->fault : "");
        RG_MUST(pthread_mutex_unlock(&rail->mutex));
    }
    rg_buf_add_text(out, rails->notes);
}
