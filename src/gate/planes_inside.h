/*
 * What the files of the data planes share: planes.c (transfers by token), planes_open.c (rails),
 * planes_session.c (sessions) and planes_count.c (counters). Nobody else may include it.
 */
#ifndef RG_GATE_PLANES_INSIDE_H
#define RG_GATE_PLANES_INSIDE_H

#include "gate/histogram.h"
#include "gate/planes.h"

#include "rdma/session.h"

#include <pthread.h>
#include <stdatomic.h>

#define PLANES_MAX   16u
#define ACCOUNTS_MAX 256u
#define REASONS_MAX  32u

/* Completions that failed, by what the library says; further kinds are counted as one. */
#define PLANE_STATUSES_MAX 16u
struct rg_plane_status {
    int status;
    char text[64];
    uint64_t count;
};

struct rg_plane {
    enum rg_transport_kind kind;
    struct rg_slab *slab;
    struct rg_pool *pool;
    char path[RG_RAIL_PATH_MAX + 1];
    _Atomic uint64_t transfers[RG_PLANE_USE_COUNT][RG_DIALECT_COUNT];
    _Atomic uint64_t bytes[RG_PLANE_USE_COUNT][RG_DIALECT_COUNT];
    _Atomic uint64_t direct_bytes[RG_PLANE_USE_COUNT];
    _Atomic uint64_t failures[RG_CAUSE_COUNT];
    pthread_mutex_t lock; /* of these two */
    struct rg_plane_status statuses[PLANE_STATUSES_MAX];
    size_t status_count;
    struct rg_histogram waits;
    struct rg_histogram seconds;
    struct rg_histogram overlap;
};

/* Transfers under way of one account. */
struct rg_plane_usage {
    char account[129];
    unsigned count;
};

struct rg_planes {
    const struct rg_settings *settings;
    rg_planes_find *find;
    struct rg_plane *planes[PLANES_MAX];
    size_t count;
    uint64_t locked_bytes, pushed_bytes; /* that the rails need, and the sessions of all of them */
    atomic_size_t next;                  /* spreads transfers over rails of a kind */
    atomic_bool stopping;
    _Atomic uint64_t declines[REASONS_MAX];
    struct rg_sessions *sessions; /* NULL without a rail that has sessions */
    pthread_mutex_t lock;         /* of usage and of the ticker's end */
    pthread_cond_t end;
    struct rg_plane_usage usage[ACCOUNTS_MAX];
    pthread_t ticker;
    bool ticking;
};

/*
 * Opens what the settings ask for, rails and the table of sessions, and appends the line for
 * people. Errors of rg_planes_open.
 */
int rg_planes_open_rails(struct rg_planes *planes, struct rg_buf *summary, struct rg_error *err);
void rg_plane_free(struct rg_plane *plane);

/* What a transfer goes by; all borrowed. */
struct rg_plane_way {
    struct rg_lane *lane;
    struct rg_disk *disk;
    const atomic_bool *cancel;
    uint64_t deadline_ms; /* monotonic */
};

/* When a transfer must be over (rg_clock_ms), and how long it may wait for a lane or a session. */
uint64_t rg_plane_deadline(const struct rg_plane_transfer *transfer, int64_t budget_ms);
uint32_t rg_plane_wait(const struct rg_planes *planes, uint64_t deadline_ms);

/* Moves the bytes, no more: nothing is counted. Errors of rg_pipeline_get. */
int rg_plane_pump(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                  const struct rg_plane_transfer *transfer, struct rg_transfer_report *ret_report,
                  struct rg_error *err);

/* Counts a transfer that is over. */
void rg_plane_count(struct rg_plane *plane, const struct rg_plane_transfer *transfer,
                    const struct rg_transfer_report *report, bool succeeded);

/* Both, and ends it as rg_planes_move does: done, declined or failed. */
int rg_plane_run(struct rg_planes *planes, struct rg_plane *plane, const struct rg_plane_way *way,
                 const struct rg_plane_transfer *transfer, struct rg_plane_result *result,
                 struct rg_error *err);

/*
 * The rail for a client with the GID `peer` (NULL: not known) whose request came in by `arrival`
 * (NULL: not known), of those that `carries` says yes to. NULL: none. By the rule of rdma/choice.h.
 */
typedef bool rg_plane_carries(const struct rg_plane *plane, const void *context);
struct rg_plane *rg_planes_choose(struct rg_planes *planes, rg_plane_carries *carries,
                                  const void *context, const uint8_t *peer, const char *arrival);

/* Another transfer of this account; false at its ceiling. */
bool rg_planes_enter(struct rg_planes *planes, const char *account);
void rg_planes_leave(struct rg_planes *planes, const char *account);

/* Counts it, sets result->reason, returns RG_RDMA_NOT_SUPPORTED. */
int rg_planes_decline(struct rg_planes *planes, struct rg_plane_result *result, const char *reason,
                      struct rg_error *err);

/* rg_planes_move by the token of a session. */
int rg_planes_move_by_session(struct rg_planes *planes, const struct rg_plane_transfer *transfer,
                              struct rg_plane_result *result, struct rg_error *err);

#endif
