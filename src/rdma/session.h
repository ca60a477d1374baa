/*
 * Sessions of reliable connections: queue pairs that two HTTP requests or more share, kept in one
 * table with its ceilings. Two dialects:
 *
 *   D2 (rc: tokens)    connect ... { take, transfer, give } ... disconnect
 *   D4 (hipobj-rc-v2)  prepare ... { ready, pair, transfer, finish }    or cancel
 *
 * A session belongs to the principal that made it; to everybody else it does not exist. Whoever has
 * taken one is alone with its lane. What nobody uses is reaped: a D2 session that was idle for too
 * long, a D4 session whose READY does not come, every session of a rail that is out.
 *
 * It knows nothing of HTTP or S3. What a D4 session is about is an `order`, which is the caller's.
 *
 * All functions are safe from any thread; a taken session belongs to the thread that took it.
 */
#ifndef RG_RDMA_SESSION_H
#define RG_RDMA_SESSION_H

#include "base/error.h"
#include "base/span.h"
#include "rdma/lane.h"
#include "rdma/session_wire.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_SESSIONS_MAX          65536u
#define RG_SESSION_PRINCIPAL_MAX 128u /* bytes */
#define RG_SESSION_REARMS_MAX    8u   /* how often READY may be sent again */

struct rg_sessions;
struct rg_session;

enum rg_session_kind { RG_SESSION_RC, RG_SESSION_PUSH, RG_SESSION_KIND_COUNT };

/* What became of sessions, counted; the name is a metrics label. */
#define RG_SESSION_EVENTS(X)                                                                       \
    X(OPENED, "opened")     /* by connect or PREPARE */                                            \
    X(FINISHED, "finished") /* its transfer is over (D4), or disconnect (D2) */                    \
    X(CANCELLED, "cancelled")                                                                      \
    X(REAPED, "reaped")   /* idle, or READY did not come */                                        \
    X(EVICTED, "evicted") /* idle, to make room for another of the same principal */               \
    X(BROKEN, "broken")   /* its lane or its rail failed */                                        \
    X(REFUSED, "refused") /* a ceiling was reached: there never was one */

enum rg_session_event {
#define RG_SESSION_EVENT(identifier, name) RG_SESSION_EVENT_##identifier,
    RG_SESSION_EVENTS(RG_SESSION_EVENT)
#undef RG_SESSION_EVENT
        RG_SESSION_EVENT_COUNT
};

const char *rg_session_event_name(enum rg_session_event event);

struct rg_sessions_config {
    size_t sessions_max;  /* 1..RG_SESSIONS_MAX */
    size_t principal_max; /* of one principal */
    uint64_t staging_max; /* bytes that PUTs of D4 may occupy */
    uint64_t staging_principal_max;
    uint32_t idle_ms;    /* D2: without a transfer */
    uint32_t evict_ms;   /* D2: idle for so long, it may make room for another */
    uint32_t prepare_ms; /* D4: from PREPARE to READY */
};

struct rg_sessions_state {
    size_t open[RG_SESSION_KIND_COUNT];  /* those in use included */
    size_t taken[RG_SESSION_KIND_COUNT]; /* in use by a transfer */
    uint64_t events[RG_SESSION_KIND_COUNT][RG_SESSION_EVENT_COUNT];
    uint64_t staging_bytes;
};

/* RG_SETTING for a ceiling out of range, RG_OUT_OF_MEMORY. */
int rg_sessions_new(const struct rg_sessions_config *config, struct rg_sessions **ret_sessions,
                    struct rg_error *err);

/* Nobody gets in any more, waiters are woken (RG_CANCELLED), taken sessions are told. */
void rg_sessions_stop(struct rg_sessions *sessions);

/* Closes what is left; nothing may be taken. Before the pools. NULL is allowed. */
void rg_sessions_free(struct rg_sessions *sessions);

/* To be called every second or so: reaps. Returns how many sessions went. */
size_t rg_sessions_tick(struct rg_sessions *sessions);

void rg_sessions_state(struct rg_sessions *sessions, struct rg_sessions_state *ret_state);

/* What the peer is told. */
struct rg_session_opened {
    struct rg_session_id id;
    struct rg_lane_address own;
    bool has_staging; /* D4 PUT */
    struct rg_rdma_window staging;
};

/* ---- D2 ---- */

/*
 * Opens a lane on the pool's rail, pairs it with the peer and keeps it under a new name. Errors:
 * RG_SLOW_DOWN (a ceiling, or the device has no more queue pairs), RG_SERVICE_UNAVAILABLE (the rail
 * is out), RG_CANCELLED (stopped), RG_INVALID_RDMA_TOKEN and RG_RDMA_TRANSFER_FAILED (of pairing),
 * RG_OUT_OF_MEMORY.
 */
int rg_sessions_connect(struct rg_sessions *sessions, struct rg_pool *pool, const char *principal,
                        const struct rg_lane_address *peer, struct rg_session_opened *ret_opened,
                        struct rg_error *err);

/* RG_RDMA_NO_SUCH_SESSION. One that is in use ends with its transfer. */
int rg_sessions_disconnect(struct rg_sessions *sessions, const char *principal,
                           const struct rg_session_id *id, struct rg_error *err);

/*
 * Takes a session for one transfer, waiting at most `wait_ms` for another one on it to end. Errors:
 * RG_RDMA_NO_SUCH_SESSION (also when its rail is out), RG_LIMIT (the time is over), RG_CANCELLED.
 */
int rg_sessions_take(struct rg_sessions *sessions, const char *principal,
                     const struct rg_session_id *id, uint32_t wait_ms,
                     struct rg_session **ret_session, struct rg_error *err);

/* After the transfer. One whose lane broke is closed: the peer must connect again. */
void rg_sessions_give(struct rg_session *session);

/* ---- D4 ---- */

/*
 * PREPARE: opens a lane, posts its receive, and for a PUT registers memory of the object's size
 * that the peer may write to. `order` and its destructor become the session's, on success only.
 * Errors as of rg_sessions_connect, and RG_RDMA_TOO_LARGE: more bytes than staging may have.
 */
int rg_sessions_prepare(struct rg_sessions *sessions, struct rg_pool *pool, const char *principal,
                        const struct rg_push_prepare *prepare, void *order,
                        void (*free_order)(void *order), struct rg_session_opened *ret_opened,
                        struct rg_error *err);

/*
 * READY: takes the session and pairs its lane, so that the peer may begin. Errors:
 * RG_RDMA_NO_SUCH_SESSION (unknown, of another principal, or the cookie is not its own),
 * RG_RDMA_IN_PROGRESS, RG_INVALID_REQUEST (a GET without the peer's window). After these the
 * session is as it was. RG_INVALID_RDMA_TOKEN, RG_RDMA_TRANSFER_FAILED: it cannot be paired, and is
 * gone.
 */
int rg_sessions_ready(struct rg_sessions *sessions, const char *principal,
                      const struct rg_push_ready *ready, struct rg_session **ret_session,
                      struct rg_error *err);

/* RG_RDMA_NO_SUCH_SESSION. One that is in use is told to stop, and ends soon. */
int rg_sessions_cancel(struct rg_sessions *sessions, const char *principal,
                       const struct rg_session_id *id, struct rg_error *err);

/*
 * PUT: waits until the peer has written all and said so, at most `budget_ms`; then takes its key
 * away. *ret_bytes, the session's, do not change any more. Errors: RG_RDMA_TIMED_OUT, RG_CANCELLED
 * (by the peer, or stopped), RG_INVALID_REQUEST (another cookie or length than was announced),
 * RG_RDMA_TRANSFER_FAILED.
 */
int rg_session_await_push(struct rg_session *session, uint32_t budget_ms, struct span *ret_bytes,
                          struct rg_error *err);

/*
 * GET: tells the peer, by an empty write with the cookie as immediate, that all bytes written
 * before are there; `region` is any of the lane's rail. Errors: RG_RDMA_PEER_BUSY (the peer does
 * not answer, or has posted no receive), RG_RDMA_TRANSFER_FAILED.
 */
int rg_session_notify(struct rg_session *session, struct rg_region *region, uint32_t budget_ms,
                      struct rg_error *err);

/*
 * Gives a taken session back to wait for another READY: nothing has reached the peer. Fails (and
 * then the session is finished) when it cannot be brought back, was brought back too often, or was
 * cancelled meanwhile (RG_RDMA_NO_SUCH_SESSION).
 */
int rg_sessions_rearm(struct rg_session *session, struct rg_error *err);

/* Ends a taken session. */
void rg_sessions_finish(struct rg_session *session);

/* ---- What a taken session has ---- */

struct rg_lane *rg_session_lane(const struct rg_session *session);
struct rg_pool *rg_session_pool(const struct rg_session *session);
const atomic_bool *rg_session_cancel(const struct rg_session *session); /* to be looked at */
void *rg_session_order(const struct rg_session *session);
uint64_t rg_session_size(const struct rg_session *session);
enum rg_direction rg_session_direction(const struct rg_session *session);
uint32_t rg_session_cookie(const struct rg_session *session);
/* GET: where the bytes go; of the last READY. */
const struct rg_rdma_window *rg_session_window(const struct rg_session *session);

#endif
