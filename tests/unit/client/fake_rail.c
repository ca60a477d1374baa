/* See fake_rail.h. */
#include "fake_rail.h"

#include "base/assert.h"
#include "base/buf.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_rail_knobs fake_rail;

#define WINDOWS_MAX 65536

struct fake_region {
    struct rg_region region;
    char *bytes; /* where the peer finds them */
};

struct fake_target {
    struct rg_target target;
    uint32_t key;
};

/* What a lane of the rc transport has to tell. */
#define COMPLETIONS_MAX 8u
struct fake_lane {
    struct rg_lane lane;
    struct rg_completion completions[COMPLETIONS_MAX];
    size_t count;
    bool has_receive;
};

/* Where pushes arrive: memory of the peer, with its one key. */
#define STAGE_KEY 0x5e11u
static struct {
    char *bytes;
    uint64_t length;
    bool is_pushed;
    uint32_t immediate;
} stage;

static struct window {
    bool alive;
    struct fake_lane *lane;
    char *bytes;
    uint64_t length;
    enum rg_direction direction;
} windows[WINDOWS_MAX];
static uint32_t next_key = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Not by calloc: the test that lets allocations fail means the client's. */
static void *make(size_t size)
{
    void *made = aligned_alloc(16, (size + 15) / 16 * 16);
    RG_ASSERT(made);
    return memset(made, 0, size);
}

void fake_rail_reset(void)
{
    memset(&fake_rail, 0, sizeof fake_rail);
    memset(&stage, 0, sizeof stage);
}

static int fake_load(struct rg_error *err)
{
    return 0;
}

static int open_rail(const struct rg_rail_config *config, const char *path,
                     struct rg_rail **ret_rail, struct rg_error *err)
{
    if (fake_rail.fail_open) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "The fake rail is not there.");
    }
    /* The client tries several providers; one is enough. */
    bool is_named = strcmp(config->device, "fake_0") == 0;
    if (is_named && fake_rail.is_missing) {
        return rg_failf(err, RG_SETTING, "There is no RDMA device named fake_0.");
    }
    if (config->device[0] && !is_named && strcmp(config->device, "tcp") != 0) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "No device \"%s\".", config->device);
    }
    if (fake_rail.is_down) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The fake port is down.");
    }
    fake_rail.config = *config;
    struct rg_rail *rail = make(sizeof *rail);
    RG_ASSERT(rail);
    snprintf(rail->path, sizeof rail->path, "%s", path);
    snprintf(rail->device, sizeof rail->device, "fake");
    rail->operation_bytes_max = 1 << 30;
    rail->mtu = fake_rail.gone;
    rail->target_needs_progress = fake_rail.needs_progress;
    fake_rail.rails++;
    *ret_rail = rail;
    return 0;
}

static int open_ofi(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                    struct rg_error *err)
{
    return open_rail(config, "ofi:fake", ret_rail, err);
}

static int open_rc(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                   struct rg_error *err)
{
    return open_rail(config, "rc", ret_rail, err);
}

static int open_dc(const struct rg_rail_config *config, struct rg_rail **ret_rail,
                   struct rg_error *err)
{
    return open_rail(config, "dc", ret_rail, err);
}

static void close_rail(struct rg_rail *rail)
{
    fake_rail.rails--;
    free(rail);
}

/* The generation of devices that a rail was opened on is kept where the fake has no use for it. */
static int check_rail(struct rg_rail *rail, struct rg_error *err)
{
    if (rail->mtu != fake_rail.gone) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The fake device is gone.");
    }
    return fake_rail.is_down ? rg_failf(err, RG_SERVICE_UNAVAILABLE, "The fake port is down.") : 0;
}

static int register_memory(struct rg_rail *rail, void *address, uint64_t length, unsigned access,
                           struct rg_region **ret_region, struct rg_error *err)
{
    if (rail->mtu != fake_rail.gone) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The fake device is gone.");
    }
    if (fake_rail.fail_register) {
        return rg_failf(err, RG_LIMIT, "The fake rail pins nothing.");
    }
    struct fake_region *region = make(sizeof *region);
    RG_ASSERT(region);
    region->bytes = address;
    fake_rail.regions++;
    *ret_region = &region->region;
    return 0;
}

/* The fake driver's dma-buf is a file that begins with the address at which the bytes can be
 * reached. */
static int register_dmabuf(struct rg_rail *rail, int fd, uint64_t fd_offset, uint64_t address,
                           uint64_t length, unsigned access, struct rg_region **ret_region,
                           struct rg_error *err)
{
    char *bytes = NULL;
    if (fake_rail.dmabuf_max && length > fake_rail.dmabuf_max) {
        return rg_failf(err, RG_LIMIT, "The fake BAR is too small.");
    }
    if (pread(fd, &bytes, sizeof bytes, 0) != sizeof bytes) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "Not a dma-buf of the fake driver.");
    }
    struct fake_region *region = make(sizeof *region);
    RG_ASSERT(region);
    region->bytes = bytes + fd_offset;
    fake_rail.regions++;
    fake_rail.dmabufs++;
    *ret_region = &region->region;
    return 0;
}

static void deregister(struct rg_region *region)
{
    fake_rail.regions--;
    free(region);
}

static int open_lane(struct rg_rail *rail, struct rg_lane **ret_lane, struct rg_error *err)
{
    struct fake_lane *lane = make(sizeof *lane);
    lane->lane.depth = 16;
    fake_rail.lanes++;
    *ret_lane = &lane->lane;
    return 0;
}

static void close_lane(struct rg_lane *lane)
{
    fake_rail.lanes--;
    free(lane);
}

static int reset_lane(struct rg_lane *lane, struct rg_error *err)
{
    struct fake_lane *fake = (struct fake_lane *)lane;
    RG_MUST(pthread_mutex_lock(&mutex));
    fake->count = 0;
    fake->has_receive = false;
    stage.is_pushed = false; /* the peer's queue pair begins anew too */
    RG_MUST(pthread_mutex_unlock(&mutex));
    fake_rail.resets++;
    return 0;
}

static int lane_address(struct rg_lane *lane, const struct rg_lane_address *peer,
                        struct rg_lane_address *ret_address, struct rg_error *err)
{
    *ret_address = (struct rg_lane_address){
        .qpn = 0x123456, .psn = 0xabcdef, .has_gid = true, .gid = {[15] = 1}, .port = 1};
    return 0;
}

static int pair_lane(struct rg_lane *lane, const struct rg_lane_address *own,
                     const struct rg_lane_address *peer, struct rg_error *err)
{
    RG_ASSERT(peer->qpn == 0x654321 && peer->psn == 0x010203);
    fake_rail.pairings++;
    return 0;
}

static int bind_stage(struct rg_lane *lane, const struct rg_rdma_window *window,
                      struct rg_error *err)
{
    bool is_there = window->transport == RG_TRANSPORT_RC && window->rkey == STAGE_KEY &&
                    window->address == (uintptr_t)stage.bytes;
    return is_there ? 0 : rg_failf(err, RG_RDMA_NOT_SUPPORTED, "fake");
}

static void unbind(struct rg_lane *lane)
{
}

/* With the mutex held. */
static void complete(struct fake_lane *lane, const struct rg_completion *completion)
{
    RG_ASSERT(lane->count < COMPLETIONS_MAX);
    lane->completions[lane->count++] = *completion;
}

static int write_stage(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                       uint64_t window_offset, uint64_t length, const uint32_t *immediate,
                       uint64_t cookie, struct rg_error *err)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    if (window_offset + length > stage.length) {
        RG_MUST(pthread_mutex_unlock(&mutex));
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The fake peer is gone.");
    }
    memcpy(stage.bytes + window_offset, ((struct fake_region *)region)->bytes + region_offset,
           length);
    stage.is_pushed = immediate != NULL;
    stage.immediate = immediate ? *immediate : 0;
    complete((struct fake_lane *)lane, &(struct rg_completion){.cookie = cookie,
                                                               .operation = RG_OPERATION_WRITE,
                                                               .length = length});
    RG_MUST(pthread_mutex_unlock(&mutex));
    return 0;
}

static int receive(struct rg_lane *lane, uint64_t cookie, struct rg_error *err)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    ((struct fake_lane *)lane)->has_receive = true;
    RG_MUST(pthread_mutex_unlock(&mutex));
    return 0;
}

static int cannot_read(struct rg_lane *lane, struct rg_region *region, uint64_t region_offset,
                       uint64_t window_offset, uint64_t length, uint64_t cookie,
                       struct rg_error *err)
{
    return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "fake");
}

static int poll_lane(struct rg_lane *lane, struct rg_completion *completions, size_t room,
                     size_t *ret_count, struct rg_error *err)
{
    struct fake_lane *fake = (struct fake_lane *)lane;
    RG_MUST(pthread_mutex_lock(&mutex));
    *ret_count = fake->count < room ? fake->count : room;
    memcpy(completions, fake->completions, *ret_count * sizeof *completions);
    fake->count -= *ret_count;
    memmove(fake->completions, fake->completions + *ret_count,
            fake->count * sizeof *fake->completions);
    RG_MUST(pthread_mutex_unlock(&mutex));
    return 0;
}

static int sleep_lane(struct rg_lane *lane, int wake_fd, uint64_t timeout_us, struct rg_error *err)
{
    usleep(timeout_us < 1000 ? (unsigned)timeout_us : 1000);
    return 0;
}

static int flush_lane(struct rg_lane *lane, unsigned *ret_quiet, struct rg_error *err)
{
    *ret_quiet = RG_QUIET_LOCAL | RG_QUIET_REMOTE;
    return 0;
}

static int progress(struct rg_lane *lane, struct rg_error *err)
{
    fake_rail.progress_rounds++;
    return 0;
}

static int mint(struct rg_lane *lane, struct rg_region *region, uint64_t offset, uint64_t length,
                enum rg_direction direction, struct rg_target **ret_target, struct rg_error *err)
{
    if (fake_rail.fail_mint) {
        return rg_failf(err, RG_LIMIT, "The fake rail has no keys left.");
    }
    struct fake_target *target = make(sizeof *target);
    RG_ASSERT(target);
    struct rg_rdma_window *window = &target->target.window;
    char *bytes = ((struct fake_region *)region)->bytes + offset;
    RG_MUST(pthread_mutex_lock(&mutex));
    target->key = next_key++;
    RG_ASSERT(target->key < WINDOWS_MAX);
    windows[target->key] = (struct window){.alive = true,
                                           .lane = (struct fake_lane *)lane,
                                           .bytes = bytes,
                                           .length = length,
                                           .direction = direction};
    RG_MUST(pthread_mutex_unlock(&mutex));
    window->address = (uintptr_t)bytes;
    window->length = length;
    window->rkey = target->key;
    window->transport = lane->rail->transport->kind;
    switch (window->transport) {
    case RG_TRANSPORT_OFI:
        window->dialect = RG_DIALECT_OFI1;
        snprintf(window->provider, sizeof window->provider, "fake");
        window->endpoint[0] = 1;
        window->endpoint_len = 1;
        break;
    case RG_TRANSPORT_DC:
        window->dialect = RG_DIALECT_D1;
        window->qpn = 0x1234;
        window->has_gid = true;
        window->gid[15] = 1;
        break;
    default:
        window->dialect = RG_DIALECT_RC_SESSION;
        break;
    }
    fake_rail.windows++;
    fake_rail.mints++;
    *ret_target = &target->target;
    return 0;
}

static int revoke_window(struct rg_target *target, bool settled, struct rg_error *err)
{
    uint32_t key = ((struct fake_target *)target)->key;
    RG_MUST(pthread_mutex_lock(&mutex));
    windows[key].alive = false;
    RG_MUST(pthread_mutex_unlock(&mutex));
    fake_rail.windows--;
    if (settled) {
        fake_rail.settled++;
    } else {
        fake_rail.unsettled++;
        (void)rg_lane_break(target->lane, RG_BROKE_CONNECTION, RG_CAUSE_FLUSHED, NULL, NULL);
    }
    free(target);
    return 0;
}

#define FAKE_TRANSPORT(transport_name, transport_kind, open)                                       \
    {                                                                                              \
        .name = (transport_name), .kind = (transport_kind), .load = fake_load,                     \
        .rail_open = (open), .rail_close = close_rail, .rail_check = check_rail,                   \
        .region_register = register_memory, .region_register_dmabuf = register_dmabuf,             \
        .region_deregister = deregister, .lane_open = open_lane, .lane_close = close_lane,         \
        .lane_reset = reset_lane, .lane_address = lane_address, .lane_pair = pair_lane,            \
        .lane_bind = bind_stage, .lane_unbind = unbind, .lane_write = write_stage,                 \
        .lane_read = cannot_read, .lane_receive = receive, .lane_poll = poll_lane,                 \
        .lane_sleep = sleep_lane, .lane_flush = flush_lane, .lane_progress = progress,             \
        .window_mint = mint, .window_revoke = revoke_window,                                       \
    }

static const struct rg_transport transports[] = {
    [RG_TRANSPORT_DC] = FAKE_TRANSPORT("dc", RG_TRANSPORT_DC, open_dc),
    [RG_TRANSPORT_RC] = FAKE_TRANSPORT("rc", RG_TRANSPORT_RC, open_rc),
    [RG_TRANSPORT_OFI] = FAKE_TRANSPORT("ofi", RG_TRANSPORT_OFI, open_ofi),
};

const struct rg_transport *fake_rail_find(enum rg_transport_kind kind)
{
    return &transports[kind];
}

/* ---- The peer ---- */

static struct window *find_window(const char *token, uint64_t offset, uint64_t length,
                                  enum rg_direction direction)
{
    struct rg_rdma_window parsed;
    if (rg_token_parse(rg_span_text(token), &parsed, NULL) < 0 || parsed.rkey == 0 ||
        parsed.rkey >= next_key) {
        return NULL;
    }
    struct window *window = &windows[parsed.rkey];
    bool is_inside = offset <= window->length && length <= window->length - offset;
    return window->alive && is_inside && window->direction == direction ? window : NULL;
}

bool fake_rail_write(const char *token, uint64_t offset, const void *from, uint64_t length)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    struct window *window = find_window(token, offset, length, RG_DIRECTION_GET);
    if (window) {
        memcpy(window->bytes + offset, from, length);
    }
    RG_MUST(pthread_mutex_unlock(&mutex));
    return window != NULL;
}

bool fake_rail_read(const char *token, uint64_t offset, void *to, uint64_t length)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    struct window *window = find_window(token, offset, length, RG_DIRECTION_PUT);
    if (window) {
        memcpy(to, window->bytes + offset, length);
    }
    RG_MUST(pthread_mutex_unlock(&mutex));
    return window != NULL;
}

uint64_t fake_rail_length(const char *token)
{
    struct rg_rdma_window parsed;
    return rg_token_parse(rg_span_text(token), &parsed, NULL) == 0 ? parsed.length : 0;
}

void fake_rail_session(const char *token, char session[RG_RC_SESSION_LENGTH + 1])
{
    struct rg_rdma_window parsed;
    session[0] = '\0';
    if (rg_token_parse(rg_span_text(token), &parsed, NULL) == 0) {
        snprintf(session, RG_RC_SESSION_LENGTH + 1, "%s", parsed.session);
    }
}

/* ---- The peer of pushes ---- */

uint32_t fake_rail_stage(void *bytes, uint64_t length)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    stage.bytes = bytes;
    stage.length = length;
    stage.is_pushed = false;
    RG_MUST(pthread_mutex_unlock(&mutex));
    return STAGE_KEY;
}

bool fake_rail_is_pushed(uint32_t *ret_immediate)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    bool is_pushed = stage.is_pushed;
    *ret_immediate = stage.immediate;
    RG_MUST(pthread_mutex_unlock(&mutex));
    return is_pushed;
}

bool fake_rail_push(uint32_t key, const void *from, uint64_t length, uint32_t immediate)
{
    RG_MUST(pthread_mutex_lock(&mutex));
    struct window *window = key && key < next_key ? &windows[key] : NULL;
    bool is_there = window && window->alive && length <= window->length &&
                    window->direction == RG_DIRECTION_GET && window->lane->has_receive;
    if (is_there) {
        memcpy(window->bytes, from, length);
        window->lane->has_receive = false;
        complete(window->lane, &(struct rg_completion){.operation = RG_OPERATION_RECEIVE,
                                                       .length = length,
                                                       .has_immediate = true,
                                                       .immediate = immediate});
    }
    RG_MUST(pthread_mutex_unlock(&mutex));
    return is_there;
}
