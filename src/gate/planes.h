/*
 * The gateway's data planes: the rails it opened, with their staging memory and lanes, and the one
 * call by which a verb moves an object's bytes to or from a client's window. It knows nothing of
 * HTTP; what a verb answers is the verb's.
 */
#ifndef RG_GATE_PLANES_H
#define RG_GATE_PLANES_H

#include "base/buf.h"
#include "base/error.h"
#include "base/settings.h"
#include "rdma/lane.h"
#include "rdma/pipeline.h"
#include "rdma/session.h"
#include "rdma/slab.h"
#include "rdma/token.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_planes;

/*
 * Loads the libraries of the transports that the settings ask for, while the process still has one
 * thread (rg_transport_load says why). What cannot be loaded, or is not asked for in words that
 * rg_planes_open would take, is left to that one to tell.
 */
void rg_planes_preload(const struct rg_settings *settings);

/*
 * Opens what the settings ask for and this machine has. *ret_summary (appended) gets one line for
 * people: each rail with its path, device and address, and why the others are not there. With
 * `rdma` off nothing is opened and *ret_planes declines everything. RG_SETTING: a setting is not
 * valid, nothing could be opened with `rdma` on, or the locked-memory limit is too low.
 */
int rg_planes_open(const struct rg_settings *settings, struct rg_planes **ret_planes,
                   struct rg_buf *ret_summary, struct rg_error *err);

/* The same with other transports than those of this build: a seam for tests. */
typedef const struct rg_transport *rg_planes_find(enum rg_transport_kind kind);
int rg_planes_open_with(const struct rg_settings *settings, rg_planes_find *find,
                        struct rg_planes **ret_planes, struct rg_buf *ret_summary,
                        struct rg_error *err);

/* Wakes all who wait for a lane or a slot, and lets nobody in any more. */
void rg_planes_stop(struct rg_planes *planes);

/* No transfer may be under way. NULL is allowed. */
void rg_planes_close(struct rg_planes *planes);

enum rg_plane_use { RG_PLANE_GET, RG_PLANE_PUT, RG_PLANE_PART, RG_PLANE_USE_COUNT };

struct rg_plane_transfer {
    enum rg_plane_use use;
    const struct rg_rdma_window *window;
    uint64_t length;     /* bytes, from the start of the window */
    struct rg_file file; /* read for GET, written otherwise */
    uint64_t file_offset;
    /* When the request came, as rg_clock_ms: the budget counts from there. 0: now. */
    uint64_t begun_ms;
    const char *arrival; /* address of ours by which the request came in; NULL: not known */
    const char *account; /* access key, for the ceiling of one account */
    rg_pipeline_consumer consume; /* may be NULL */
    void *consume_context;
};

struct rg_plane_result {
    char path[RG_RAIL_PATH_MAX + 1]; /* "ofi:tcp"; set when a rail was used */
    const char *reason;              /* why it was declined, a metrics label; NULL: it was not */
};

/*
 * Moves the bytes. 0: all are there. RG_RDMA_NOT_SUPPORTED: declined with result->reason; nothing
 * was touched, neither the client's memory nor (PUT) the file. Other errors: the transfer broke;
 * the lane is quiet, the file may hold some of the bytes.
 */
int rg_planes_move(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                   struct rg_plane_result *ret_result, struct rg_error *err);

/*
 * What rg_planes_move would say without waiting: NULL, or the reason for declining a transfer of
 * that length into that window. For PUT, before anything is opened.
 */
const char *rg_planes_objection(const struct rg_planes *planes, const struct rg_rdma_window *window,
                                uint64_t length);

/* ---- Sessions of reliable connections (planes_session.c) ---- */

/* The reason why there can be none now, a metrics label; NULL: nothing speaks against it. */
const char *rg_planes_session_objection(const struct rg_planes *planes);

/*
 * Connect and disconnect of D2, on the rail that is nearest to the peer. Errors of
 * rg_sessions_connect and rg_sessions_disconnect.
 */
int rg_planes_connect(struct rg_planes *planes, const char *account, const char *arrival,
                      const struct rg_lane_address *peer, struct rg_session_opened *ret_opened,
                      struct rg_error *err);
int rg_planes_disconnect(struct rg_planes *planes, const char *account,
                         const struct rg_session_id *id, struct rg_error *err);

/*
 * D4. PREPARE, READY and CANCEL: errors of rg_sessions_prepare, _ready and _cancel. After READY has
 * given a session, exactly one of rg_planes_push_send, rg_planes_push_take and rg_planes_push_drop
 * is called, and takes it.
 */
int rg_planes_prepare(struct rg_planes *planes, const char *account, const char *arrival,
                      const struct rg_push_prepare *prepare, void *order,
                      void (*free_order)(void *order), struct rg_session_opened *ret_opened,
                      struct rg_error *err);
int rg_planes_ready(struct rg_planes *planes, const char *account,
                    const struct rg_push_ready *ready, struct rg_session **ret_session,
                    struct rg_error *err);
int rg_planes_cancel(struct rg_planes *planes, const char *account, const struct rg_session_id *id,
                     struct rg_error *err);

/*
 * GET: sends the bytes and tells the client. The session is over, or, after RG_RDMA_PEER_BUSY and
 * RG_SLOW_DOWN, waits for another READY. Other errors: RG_RDMA_TIMED_OUT, RG_RDMA_TRANSFER_FAILED,
 * RG_CANCELLED, those of the file. transfer->window is ignored.
 */
int rg_planes_push_send(struct rg_planes *planes, struct rg_session *session,
                        const struct rg_plane_transfer *transfer,
                        struct rg_plane_result *ret_result, struct rg_error *err);

/*
 * PUT: waits for the client's bytes and hands them to transfer->consume, in pieces, and to the
 * file, where there is one. The session is over afterwards. Errors as above, RG_INVALID_REQUEST,
 * those of consume.
 */
int rg_planes_push_take(struct rg_planes *planes, struct rg_session *session,
                        const struct rg_plane_transfer *transfer,
                        struct rg_plane_result *ret_result, struct rg_error *err);

/* Ends a session that was made ready and will not be used. */
void rg_planes_push_drop(struct rg_planes *planes, struct rg_session *session);

/* ---- What operators see ---- */

struct rg_plane_state {
    enum rg_transport_kind kind;
    struct rg_pool_state pool;
    struct rg_slab_state slab;
};

bool rg_planes_enabled(const struct rg_planes *planes);
size_t rg_planes_count(const struct rg_planes *planes);
void rg_planes_state(const struct rg_planes *planes, size_t i, struct rg_plane_state *ret_state);

/* False when there is no rail that has sessions. */
bool rg_planes_session_state(const struct rg_planes *planes, struct rg_sessions_state *ret_state);

/* Counts a request that was declined before it came here (no token, dialect not served ...). */
void rg_planes_count_decline(struct rg_planes *planes, const char *reason);

/* Appends the samples of a family of metrics.tbl, the name given. */
void rg_planes_write_transfers(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_bytes(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_direct(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_declines(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_failures(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_waits(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_seconds(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_overlap(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_rails(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_lanes(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_slots(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_sessions(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_session_events(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_staging(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_pinned(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_statuses(struct rg_planes *planes, const char *name, struct rg_buf *out);
void rg_planes_write_slabs(struct rg_planes *planes, const char *name, struct rg_buf *out);

#endif
