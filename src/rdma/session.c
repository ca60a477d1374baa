/*
 * The table of sessions. One lock guards the table and the states; opening, pairing and closing of
 * lanes happen outside it, with the session marked as taken by whoever does it.
 */
#include "rdma/session.h"

#include "base/assert.h"
#include "base/attr.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUCKETS  1024u /* a power of two */
#define SLICE_MS 20u   /* how soon a cancellation is seen */

/* Named after what the session waits for. */
enum state {
    FOR_USE,   /* D2 */
    FOR_READY, /* D4 */
    FOR_OWNER, /* somebody has taken it */
};

struct rg_session {
    struct rg_sessions *table;
    struct rg_session *next; /* in its bucket, or in a list of those that are to be closed */
    struct rg_session_id id;
    enum rg_session_kind kind;
    enum state state;
    char principal[RG_SESSION_PRINCIPAL_MAX + 1];
    uint64_t since_ms; /* of the state */
    atomic_bool cancel;
    bool leaves; /* it goes when its owner gives it back */

    struct rg_pool *pool;
    struct rg_rail *rail;
    struct rg_lane *lane;
    struct rg_lane_address own;
    struct rg_lane_address peer;

    /* D4 */
    enum rg_direction direction;
    uint32_t cookie;
    uint64_t size;
    unsigned rearms;
    void *order;
    void (*free_order)(void *order);
    struct rg_rdma_window window; /* the peer's; GET */
    void *staging;                /* PUT */
    uint64_t staging_bytes;       /* mapped */
    struct rg_region *region;
    struct rg_target *target;
};

struct rg_sessions {
    struct rg_sessions_config config;
    pthread_mutex_t lock;
    pthread_cond_t given; /* a session was given back, or all is to stop */
    bool stopped;
    struct rg_session *buckets[BUCKETS];
    size_t count;
    struct rg_sessions_state state;
};

const char *rg_session_event_name(enum rg_session_event event)
{
    static const char *const names[] = {
#define RG_SESSION_EVENT(identifier, name) name,
        RG_SESSION_EVENTS(RG_SESSION_EVENT)
#undef RG_SESSION_EVENT
    };
    return names[event];
}

static void lock_table(struct rg_sessions *sessions)
{
    RG_MUST(pthread_mutex_lock(&sessions->lock));
}

static void unlock_table(struct rg_sessions *sessions)
{
    RG_MUST(pthread_mutex_unlock(&sessions->lock));
}

/* ---- The table ---- */

int rg_sessions_new(const struct rg_sessions_config *config, struct rg_sessions **ret_sessions,
                    struct rg_error *err)
{
    if (config->sessions_max < 1 || config->sessions_max > RG_SESSIONS_MAX ||
        config->principal_max < 1) {
        return rg_failf(err, RG_SETTING, "The number of RDMA sessions must be between 1 and %u.",
                        RG_SESSIONS_MAX);
    }
    struct rg_sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    sessions->config = *config;
    RG_MUST(pthread_mutex_init(&sessions->lock, NULL));
    RG_MUST(pthread_cond_init(&sessions->given, NULL));
    *ret_sessions = sessions;
    return 0;
}

static struct rg_session **bucket_of(struct rg_sessions *sessions, const struct rg_session_id *id)
{
    size_t at = (size_t)id->bytes[0] << 8 | id->bytes[1];
    return &sessions->buckets[at % BUCKETS];
}

/* Names are secrets: nothing may be learnt from how long the comparison takes. */
static bool same_id(const struct rg_session_id *a, const struct rg_session_id *b)
{
    unsigned differ = 0;
    for (size_t i = 0; i < sizeof a->bytes; i++) {
        differ |= (unsigned)(a->bytes[i] ^ b->bytes[i]);
    }
    return differ == 0;
}

static void put_in(struct rg_session *session)
{
    struct rg_session **bucket = bucket_of(session->table, &session->id);
    session->next = *bucket;
    *bucket = session;
    session->table->count++;
    session->table->state.open[session->kind]++;
}

static void take_out(struct rg_session *session)
{
    struct rg_session **at = bucket_of(session->table, &session->id);
    while (*at != session) {
        RG_ASSERT(*at);
        at = &(*at)->next;
    }
    *at = session->next;
    session->next = NULL;
    session->table->count--;
    session->table->state.open[session->kind]--;
}

static void set_state(struct rg_session *session, enum state state)
{
    size_t *taken = &session->table->state.taken[session->kind];
    *taken += state == FOR_OWNER && session->state != FOR_OWNER;
    *taken -= state != FOR_OWNER && session->state == FOR_OWNER;
    session->state = state;
    session->since_ms = rg_clock_ms();
}

static void count_event(struct rg_session *session, enum rg_session_event event)
{
    session->table->state.events[session->kind][event]++;
}

static struct rg_session *find(struct rg_sessions *sessions, enum rg_session_kind kind,
                               const char *principal, const struct rg_session_id *id)
{
    for (struct rg_session *at = *bucket_of(sessions, id); at; at = at->next) {
        if (same_id(&at->id, id) && at->kind == kind && strcmp(at->principal, principal) == 0 &&
            !at->leaves) {
            return at;
        }
    }
    return NULL;
}

static int fail_unknown(struct rg_error *err)
{
    return rg_fail(err, RG_RDMA_NO_SUCH_SESSION);
}

/* ---- The end of a session ---- */

/*
 * Without the lock; nobody else knows the session any more. The queue pair first: after it nothing
 * reaches the staging memory, whatever its key.
 */
static void close_session(struct rg_session *session)
{
    if (session->target) {
        (void)rg_window_revoke(RG_TAKE(session->target), false, NULL);
    }
    rg_lane_close(session->lane);
    rg_region_deregister(session->region);
    if (session->staging) {
        munmap(session->staging, session->staging_bytes);
    }
    rg_pool_rail_put(session->pool, session->rail);
    if (session->order) {
        session->free_order(session->order);
    }
    struct rg_sessions *sessions = session->table;
    lock_table(sessions);
    sessions->state.staging_bytes -= session->staging_bytes;
    unlock_table(sessions);
    free(session);
}

static void close_list(struct rg_session *list)
{
    while (list) {
        struct rg_session *session = list;
        list = session->next;
        session->next = NULL;
        close_session(session);
    }
}

/* With the lock held: out of the table, onto a list for close_list. */
static void leave(struct rg_session *session, enum rg_session_event event, struct rg_session **list)
{
    set_state(session, FOR_USE);
    take_out(session);
    count_event(session, event);
    session->next = *list;
    *list = session;
}

static void end(struct rg_session *session, enum rg_session_event event)
{
    struct rg_sessions *sessions = session->table;
    struct rg_session *list = NULL;
    lock_table(sessions);
    leave(session, event, &list);
    pthread_cond_broadcast(&sessions->given);
    unlock_table(sessions);
    close_list(list);
}

static bool is_overdue(const struct rg_session *session, uint64_t now_ms)
{
    const struct rg_sessions_config *config = &session->table->config;
    uint32_t most = session->kind == RG_SESSION_RC ? config->idle_ms : config->prepare_ms;
    return now_ms - session->since_ms >= most;
}

size_t rg_sessions_tick(struct rg_sessions *sessions)
{
    struct rg_session *list = NULL;
    size_t count = 0;
    lock_table(sessions);
    uint64_t now_ms = rg_clock_ms();
    for (size_t i = 0; i < BUCKETS; i++) {
        struct rg_session *next;
        for (struct rg_session *at = sessions->buckets[i]; at; at = next) {
            next = at->next;
            if (at->state == FOR_OWNER) {
                continue;
            }
            bool is_late = now_ms >= at->since_ms && is_overdue(at, now_ms);
            if (is_late || !rg_pool_is_up(at->pool)) {
                leave(at, is_late ? RG_SESSION_EVENT_REAPED : RG_SESSION_EVENT_BROKEN, &list);
                count++;
            }
        }
    }
    unlock_table(sessions);
    close_list(list);
    return count;
}

void rg_sessions_stop(struct rg_sessions *sessions)
{
    lock_table(sessions);
    sessions->stopped = true;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct rg_session *at = sessions->buckets[i]; at; at = at->next) {
            atomic_store(&at->cancel, true);
        }
    }
    pthread_cond_broadcast(&sessions->given);
    unlock_table(sessions);
}

void rg_sessions_free(struct rg_sessions *sessions)
{
    if (!sessions) {
        return;
    }
    struct rg_session *list = NULL;
    lock_table(sessions);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (sessions->buckets[i]) {
            RG_ASSERT(sessions->buckets[i]->state != FOR_OWNER);
            leave(sessions->buckets[i], RG_SESSION_EVENT_FINISHED, &list);
        }
    }
    unlock_table(sessions);
    close_list(list);
    pthread_cond_destroy(&sessions->given);
    RG_MUST(pthread_mutex_destroy(&sessions->lock));
    free(sessions);
}

void rg_sessions_state(struct rg_sessions *sessions, struct rg_sessions_state *ret_state)
{
    lock_table(sessions);
    *ret_state = sessions->state;
    unlock_table(sessions);
}

/* ---- A new session ---- */

static void count_principal(struct rg_sessions *sessions, const char *principal, size_t *ret_count,
                            uint64_t *ret_staging)
{
    *ret_count = 0;
    *ret_staging = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct rg_session *at = sessions->buckets[i]; at; at = at->next) {
            if (strcmp(at->principal, principal) == 0) {
                (*ret_count)++;
                *ret_staging += at->staging_bytes;
            }
        }
    }
}

/* The D2 session of this principal that was idle the longest, if that was long. */
static struct rg_session *find_idle(struct rg_sessions *sessions, const char *principal)
{
    struct rg_session *best = NULL;
    uint64_t now_ms = rg_clock_ms();
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct rg_session *at = sessions->buckets[i]; at; at = at->next) {
            if (at->state == FOR_USE && strcmp(at->principal, principal) == 0 &&
                now_ms - at->since_ms >= sessions->config.evict_ms &&
                (!best || at->since_ms < best->since_ms)) {
                best = at;
            }
        }
    }
    return best;
}

static int refuse(struct rg_session *session, struct rg_error *err)
{
    count_event(session, RG_SESSION_EVENT_REFUSED);
    return rg_failf(err, RG_SLOW_DOWN, "Too many RDMA sessions are open. Try again.");
}

/* With the lock held. What has to go to make room is on *list. */
static int check_room(struct rg_session *session, struct rg_session **list, struct rg_error *err)
{
    struct rg_sessions *sessions = session->table;
    const struct rg_sessions_config *config = &sessions->config;
    size_t own;
    uint64_t staged;
    if (sessions->stopped) {
        return rg_fail(err, RG_CANCELLED);
    }
    count_principal(sessions, session->principal, &own, &staged);
    if (sessions->count >= config->sessions_max || own >= config->principal_max) {
        struct rg_session *idle = find_idle(sessions, session->principal);
        if (!idle) {
            return refuse(session, err);
        }
        leave(idle, RG_SESSION_EVENT_EVICTED, list);
    }
    uint64_t bytes = session->staging_bytes;
    uint64_t most = RG_MIN(config->staging_max, config->staging_principal_max);
    if (bytes > most) {
        count_event(session, RG_SESSION_EVENT_REFUSED);
        return rg_failf(err, RG_RDMA_TOO_LARGE,
                        "An object that is pushed may have %" PRIu64 " bytes here, as there is "
                        "memory for. Send it in parts.",
                        most);
    }
    if (bytes > config->staging_max - sessions->state.staging_bytes ||
        bytes > config->staging_principal_max - RG_MIN(staged, config->staging_principal_max)) {
        return refuse(session, err);
    }
    return 0;
}

static void draw_id(struct rg_session *session)
{
    do {
        rg_random_bytes(session->id.bytes, sizeof session->id.bytes);
        for (struct rg_session *at = *bucket_of(session->table, &session->id); at; at = at->next) {
            if (same_id(&at->id, &session->id)) {
                session->id.bytes[0] = 0; /* once in an age of the universe */
            }
        }
    } while (session->id.bytes[0] == 0);
}

/* A place in the table, taken by the caller, before anything that costs. */
static int enter(struct rg_session *session, struct rg_error *err)
{
    struct rg_sessions *sessions = session->table;
    struct rg_session *list = NULL;
    lock_table(sessions);
    int rc = check_room(session, &list, err);
    if (rc == 0) {
        draw_id(session);
        put_in(session);
        set_state(session, FOR_OWNER);
        sessions->state.staging_bytes += session->staging_bytes;
    }
    unlock_table(sessions);
    close_list(list);
    return rc;
}

/* Takes back what enter did; the lane never came to anything. */
static void retreat(struct rg_session *session)
{
    lock_table(session->table);
    set_state(session, FOR_USE);
    take_out(session);
    unlock_table(session->table);
    close_session(session);
}

static int open_lane(struct rg_session *session, struct rg_error *err)
{
    session->rail = rg_pool_rail_get(session->pool);
    if (!session->rail) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE, "The RDMA rail is out.");
    }
    int rc = rg_lane_open(session->rail, &session->lane, err);
    if (rc == -RG_LIMIT) {
        lock_table(session->table);
        count_event(session, RG_SESSION_EVENT_REFUSED);
        unlock_table(session->table);
        err->code = RG_SLOW_DOWN;
        return -RG_SLOW_DOWN;
    }
    if (rc == 0) {
        rc = rg_lane_address_toward(session->lane, &session->peer, &session->own, err);
    }
    return rc;
}

static struct rg_session *new_session(struct rg_sessions *sessions, enum rg_session_kind kind,
                                      struct rg_pool *pool, const char *principal,
                                      const struct rg_lane_address *peer)
{
    struct rg_session *session = calloc(1, sizeof *session);
    if (!session) {
        return NULL;
    }
    session->table = sessions;
    session->kind = kind;
    session->pool = pool;
    session->peer = *peer;
    /* What does not fit would be bound to another principal: the callers' keys are shorter. */
    RG_ASSERT(strlen(principal) <= RG_SESSION_PRINCIPAL_MAX);
    memcpy(session->principal, principal, strlen(principal) + 1);
    return session;
}

/* The session is complete: let others have it. False when all is to stop. */
static bool publish(struct rg_session *session, enum state state,
                    struct rg_session_opened *ret_opened)
{
    struct rg_sessions *sessions = session->table;
    *ret_opened = (struct rg_session_opened){.id = session->id, .own = session->own};
    if (session->target) {
        ret_opened->has_staging = true;
        ret_opened->staging = session->target->window;
    }
    lock_table(sessions);
    bool may = !sessions->stopped;
    if (may) {
        count_event(session, RG_SESSION_EVENT_OPENED);
        set_state(session, state);
    }
    unlock_table(sessions);
    return may;
}

/* A peer in the same process or on the same port: its GID is ours. */
static void settle_peer(struct rg_session *session)
{
    if (!session->peer.has_gid) {
        session->peer.has_gid = session->own.has_gid;
        memcpy(session->peer.gid, session->own.gid, sizeof session->peer.gid);
        if (session->peer.lid == 0) {
            session->peer.lid = session->own.lid;
        }
    }
}

int rg_sessions_connect(struct rg_sessions *sessions, struct rg_pool *pool, const char *principal,
                        const struct rg_lane_address *peer, struct rg_session_opened *ret_opened,
                        struct rg_error *err)
{
    struct rg_error own_error = RG_ERROR_INIT;
    err = err ? err : &own_error;
    struct rg_session *session = new_session(sessions, RG_SESSION_RC, pool, principal, peer);
    if (!session) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = enter(session, err);
    if (rc < 0) {
        free(session);
        return rc;
    }
    rc = open_lane(session, err);
    if (rc == 0) {
        settle_peer(session);
        rc = rg_lane_pair_as(session->lane, &session->own, &session->peer, err);
    }
    if (rc == 0 && !publish(session, FOR_USE, ret_opened)) {
        rc = rg_fail(err, RG_CANCELLED);
    }
    if (rc < 0) {
        retreat(session);
    }
    return rc;
}

/* ---- D2 ---- */

int rg_sessions_disconnect(struct rg_sessions *sessions, const char *principal,
                           const struct rg_session_id *id, struct rg_error *err)
{
    struct rg_session *list = NULL;
    lock_table(sessions);
    struct rg_session *session = find(sessions, RG_SESSION_RC, principal, id);
    if (session && session->state == FOR_OWNER) {
        session->leaves = true;
    } else if (session) {
        leave(session, RG_SESSION_EVENT_FINISHED, &list);
    }
    unlock_table(sessions);
    close_list(list);
    return session ? 0 : fail_unknown(err);
}

int rg_sessions_take(struct rg_sessions *sessions, const char *principal,
                     const struct rg_session_id *id, uint32_t wait_ms,
                     struct rg_session **ret_session, struct rg_error *err)
{
    struct timespec until = rg_clock_deadline(wait_ms);
    bool in_time = true;
    int rc = 0;
    lock_table(sessions);
    struct rg_session *session;
    for (;;) {
        /* Looked up anew each time: while we waited it may have gone. */
        session = find(sessions, RG_SESSION_RC, principal, id);
        if (sessions->stopped) {
            rc = rg_fail(err, RG_CANCELLED);
        } else if (!session || !rg_pool_is_up(session->pool)) {
            rc = fail_unknown(err);
        } else if (session->state == FOR_OWNER && !in_time) {
            rc = rg_failf(err, RG_LIMIT, "The RDMA session is in use by another transfer.");
        }
        if (rc < 0 || session->state != FOR_OWNER) {
            break;
        }
        in_time =
            pthread_cond_clockwait(&sessions->given, &sessions->lock, CLOCK_MONOTONIC, &until) == 0;
    }
    if (rc == 0) {
        set_state(session, FOR_OWNER);
        *ret_session = session;
    }
    unlock_table(sessions);
    return rc;
}

void rg_sessions_give(struct rg_session *session)
{
    struct rg_sessions *sessions = session->table;
    struct rg_session *list = NULL;
    unsigned quiet;
    bool is_sound = rg_lane_flush(session->lane, &quiet, NULL) == 0 &&
                    session->lane->broke < RG_BROKE_CONNECTION;
    if (is_sound) {
        rg_lane_unbind(session->lane);
        session->lane->broke = RG_BROKE_NOTHING;
        session->lane->cause = RG_CAUSE_NONE;
    } else {
        rg_pool_report(session->pool, session->lane);
    }
    bool rail_is_up = rg_pool_is_up(session->pool);
    lock_table(sessions);
    if (!is_sound || !rail_is_up) {
        leave(session, RG_SESSION_EVENT_BROKEN, &list);
    } else if (session->leaves) {
        leave(session, RG_SESSION_EVENT_FINISHED, &list);
    } else {
        set_state(session, FOR_USE);
    }
    pthread_cond_broadcast(&sessions->given);
    unlock_table(sessions);
    close_list(list);
}

/* ---- D4: PREPARE ---- */

static int map_staging(struct rg_session *session, struct rg_error *err)
{
    if (session->staging_bytes == 0) {
        return 0;
    }
    void *memory = mmap(NULL, session->staging_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    session->staging = memory;
    int rc = rg_region_register(session->rail, memory, session->size, RG_ACCESS_REMOTE_WRITE,
                                &session->region, err);
    if (rc == -RG_LIMIT) {
        err->code = RG_SLOW_DOWN;
        return -RG_SLOW_DOWN;
    }
    if (rc == 0) {
        /* The peer writes, as into the window of a GET. */
        rc = rg_window_mint(session->lane, session->region, 0, session->size, RG_DIRECTION_GET,
                            &session->target, err);
    }
    return rc;
}

static int open_push(struct rg_session *session, struct rg_error *err)
{
    int rc = open_lane(session, err);
    if (rc == 0) {
        settle_peer(session);
        rc = map_staging(session, err);
    }
    /* Before the peer can know of us, so that it need not wait for us. */
    if (rc == 0 && session->direction == RG_DIRECTION_PUT) {
        rc = rg_lane_receive(session->lane, session->cookie, err);
    }
    return rc;
}

int rg_sessions_prepare(struct rg_sessions *sessions, struct rg_pool *pool, const char *principal,
                        const struct rg_push_prepare *prepare, void *order,
                        void (*free_order)(void *order), struct rg_session_opened *ret_opened,
                        struct rg_error *err)
{
    struct rg_error own_error = RG_ERROR_INIT;
    err = err ? err : &own_error;
    struct rg_session *session =
        new_session(sessions, RG_SESSION_PUSH, pool, principal, &prepare->peer);
    if (!session) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    session->direction = prepare->direction;
    session->cookie = prepare->cookie;
    session->size = prepare->size;
    session->staging_bytes = prepare->direction == RG_DIRECTION_PUT ? prepare->size : 0;
    int rc = enter(session, err);
    if (rc < 0) {
        free(session);
        return rc;
    }
    rc = open_push(session, err);
    session->order = order;
    session->free_order = free_order;
    if (rc == 0 && !publish(session, FOR_READY, ret_opened)) {
        rc = rg_fail(err, RG_CANCELLED);
    }
    if (rc < 0) {
        session->order = NULL; /* still the caller's */
        retreat(session);
    }
    return rc;
}

/* ---- D4: READY ---- */

static int take_ready(struct rg_sessions *sessions, const char *principal,
                      const struct rg_push_ready *ready, struct rg_session **ret_session,
                      struct rg_error *err)
{
    if (sessions->stopped) {
        return rg_fail(err, RG_CANCELLED);
    }
    struct rg_session *session = find(sessions, RG_SESSION_PUSH, principal, &ready->session);
    if (!session || session->cookie != ready->cookie) {
        return fail_unknown(err);
    }
    if (session->state == FOR_OWNER) {
        return rg_fail(err, RG_RDMA_IN_PROGRESS);
    }
    if (is_overdue(session, rg_clock_ms()) || !rg_pool_is_up(session->pool)) {
        return fail_unknown(err);
    }
    if (session->direction == RG_DIRECTION_GET && !ready->has_window) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "READY for a GET must say where the bytes go: x-amz-rdma-mr-addr, "
                        "x-amz-rdma-mr-rkey.");
    }
    uint64_t end;
    if (!rg_add_checked(ready->address, session->size, &end)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The client's window wraps around the address space.");
    }
    set_state(session, FOR_OWNER);
    *ret_session = session;
    return 0;
}

int rg_sessions_ready(struct rg_sessions *sessions, const char *principal,
                      const struct rg_push_ready *ready, struct rg_session **ret_session,
                      struct rg_error *err)
{
    struct rg_session *session = NULL;
    lock_table(sessions);
    int rc = take_ready(sessions, principal, ready, &session, err);
    unlock_table(sessions);
    if (rc < 0) {
        return rc;
    }
    session->peer.qpn = ready->qpn;
    session->window = (struct rg_rdma_window){
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .address = ready->address,
        .length = session->size,
        .rkey = ready->rkey,
    };
    rc = rg_lane_pair_as(session->lane, &session->own, &session->peer, err);
    if (rc < 0) {
        end(session, RG_SESSION_EVENT_BROKEN);
        return rc == -RG_INVALID_ARGUMENT ? rg_fail(err, RG_RDMA_TRANSFER_FAILED) : rc;
    }
    *ret_session = session;
    return 0;
}

int rg_sessions_cancel(struct rg_sessions *sessions, const char *principal,
                       const struct rg_session_id *id, struct rg_error *err)
{
    struct rg_session *list = NULL;
    lock_table(sessions);
    struct rg_session *session = find(sessions, RG_SESSION_PUSH, principal, id);
    if (session && session->state == FOR_OWNER) {
        atomic_store(&session->cancel, true);
    } else if (session) {
        leave(session, RG_SESSION_EVENT_CANCELLED, &list);
    }
    unlock_table(sessions);
    close_list(list);
    return session ? 0 : fail_unknown(err);
}

/* ---- D4: the transfer ---- */

/* One completion, looking for a cancellation meanwhile. */
static int await(struct rg_session *session, uint32_t budget_ms, struct rg_completion *completion,
                 struct rg_error *err)
{
    uint64_t deadline_ms = rg_clock_ms() + budget_ms;
    for (;;) {
        size_t count = 0;
        uint64_t now_ms = rg_clock_ms();
        if (atomic_load(&session->cancel)) {
            return rg_fail(err, RG_CANCELLED);
        }
        if (now_ms >= deadline_ms) {
            return rg_fail(err, RG_RDMA_TIMED_OUT);
        }
        uint32_t slice_ms = (uint32_t)RG_MIN(deadline_ms - now_ms, (uint64_t)SLICE_MS);
        int rc = rg_lane_wait(session->lane, completion, 1, -1, slice_ms, &count, err);
        if (rc == 0 && count == 1) {
            return 0;
        }
        if (rc < 0 && rc != -RG_TIMED_OUT) {
            return rc;
        }
    }
}

/* A push that the peer's NIC had to cut says the length of its last piece. */
static bool is_length_right(const struct rg_session *session, uint64_t length)
{
    uint64_t most = session->rail->message_bytes_max;
    return length == session->size ||
           (most && session->size > most && length == (session->size - 1) % most + 1);
}

static int judge_push(const struct rg_session *session, const struct rg_completion *completion,
                      struct rg_error *err)
{
    if (completion->broke != RG_BROKE_NOTHING) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The client's push failed: %s (%s).",
                        rg_cause_sentence(completion->cause), completion->provider_text);
    }
    if (!completion->has_immediate || completion->immediate != session->cookie) {
        return rg_failf(err, RG_INVALID_REQUEST, "The client's push carries another cookie.");
    }
    if (!is_length_right(session, completion->length)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The client pushed %" PRIu64 " bytes and had announced %" PRIu64 ".",
                        completion->length, session->size);
    }
    return 0;
}

int rg_session_await_push(struct rg_session *session, uint32_t budget_ms, struct span *ret_bytes,
                          struct rg_error *err)
{
    struct rg_completion completion = {0};
    RG_ASSERT(session->direction == RG_DIRECTION_PUT);
    int rc = await(session, budget_ms, &completion, err);
    if (rc == 0) {
        rc = judge_push(session, &completion, err);
    }
    if (rc < 0) {
        return rc;
    }
    /* From here on the bytes are what was hashed: the peer must not change them any more. */
    rc = rg_window_revoke(RG_TAKE(session->target), true, err);
    if (rc < 0) {
        return rc;
    }
    rg_region_deregister(RG_TAKE(session->region));
    *ret_bytes = rg_span(session->staging, session->size);
    return 0;
}

/* Whether a failed write says no more than that nobody was there to take it. */
static bool is_peer_absent(enum rg_cause cause)
{
    return cause == RG_CAUSE_PEER_GONE || cause == RG_CAUSE_PEER_NOT_READY;
}

int rg_session_notify(struct rg_session *session, struct rg_region *region, uint32_t budget_ms,
                      struct rg_error *err)
{
    struct rg_completion completion = {0};
    RG_ASSERT(session->direction == RG_DIRECTION_GET);
    int rc = rg_lane_write_immediate(session->lane, region, 0, 0, 0, session->cookie, 0, err);
    if (rc == 0) {
        rc = await(session, budget_ms, &completion, err);
    }
    if (rc == -RG_RDMA_TIMED_OUT || (rc == 0 && is_peer_absent(completion.cause))) {
        return rg_fail(err, RG_RDMA_PEER_BUSY);
    }
    if (rc == 0 && completion.broke != RG_BROKE_NOTHING) {
        return rg_failf(err, RG_RDMA_TRANSFER_FAILED, "The client could not be told: %s (%s).",
                        rg_cause_sentence(completion.cause), completion.provider_text);
    }
    return rc;
}

int rg_sessions_rearm(struct rg_session *session, struct rg_error *err)
{
    struct rg_sessions *sessions = session->table;
    int rc = rg_lane_reset(session->lane, err);
    if (rc == 0 && session->rearms >= RG_SESSION_REARMS_MAX) {
        rc = rg_failf(err, RG_LIMIT, "READY came too often.");
    }
    if (rc == 0 && session->direction == RG_DIRECTION_PUT) {
        rc = rg_lane_receive(session->lane, session->cookie, err);
    }
    if (rc < 0) {
        rg_sessions_finish(session);
        return rc;
    }
    session->rearms++;
    lock_table(sessions);
    bool cancelled = atomic_load(&session->cancel);
    if (!cancelled) {
        set_state(session, FOR_READY);
    }
    unlock_table(sessions);
    if (cancelled) {
        rg_sessions_finish(session);
        return rg_fail(err, RG_RDMA_NO_SUCH_SESSION);
    }
    return 0;
}

void rg_sessions_finish(struct rg_session *session)
{
    unsigned quiet;
    enum rg_session_event event = RG_SESSION_EVENT_FINISHED;
    (void)rg_lane_flush(session->lane, &quiet, NULL);
    if (atomic_load(&session->cancel)) {
        event = RG_SESSION_EVENT_CANCELLED;
    } else if (session->lane->broke >= RG_BROKE_CONNECTION) {
        rg_pool_report(session->pool, session->lane);
        event = RG_SESSION_EVENT_BROKEN;
    }
    end(session, event);
}

/* ---- What a taken session has ---- */

struct rg_lane *rg_session_lane(const struct rg_session *session)
{
    return session->lane;
}

struct rg_pool *rg_session_pool(const struct rg_session *session)
{
    return session->pool;
}

const atomic_bool *rg_session_cancel(const struct rg_session *session)
{
    return &session->cancel;
}

void *rg_session_order(const struct rg_session *session)
{
    return session->order;
}

uint64_t rg_session_size(const struct rg_session *session)
{
    return session->size;
}

enum rg_direction rg_session_direction(const struct rg_session *session)
{
    return session->direction;
}

uint32_t rg_session_cookie(const struct rg_session *session)
{
    return session->cookie;
}

const struct rg_rdma_window *rg_session_window(const struct rg_session *session)
{
    return &session->window;
}
