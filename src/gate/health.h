/*
 * Whether the gateway can serve: its own state, and whether the file systems below answer: the one
 * that the store stands on, and those that are mounted in it. Each is asked every second by a
 * thread of its own, which may hang with it; another thread watches all of these, so that whoever
 * wants to know is answered at once. It also counts which requests are on which file system, so
 * that one that hangs shows in what it holds up.
 */
#ifndef RG_GATE_HEALTH_H
#define RG_GATE_HEALTH_H

#include "base/error.h"
#include "base/span.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct rg_health;
struct rg_mount; /* a file system that is asked */

enum rg_gateway_state { RG_GATEWAY_STARTING, RG_GATEWAY_SERVING, RG_GATEWAY_DRAINING };

enum rg_mount_state {
    RG_MOUNT_UNKNOWN, /* not asked yet */
    RG_MOUNT_WELL,
    RG_MOUNT_FAILS, /* it answers with an error */
    RG_MOUNT_HANGS, /* it does not answer */
};

struct rg_health_config {
    unsigned probe_ms; /* between probes */
    unsigned hang_ms;  /* a probe that takes longer hangs */
};

struct rg_health_view {
    bool ready; /* serving, and the mount that the store stands on is well */
    enum rg_gateway_state gateway;
    enum rg_mount_state mount; /* of that one */
    double seconds;            /* for how long it has been in this state */
    uint64_t failures;         /* times that a probe failed or hung, of all mounts and the table */
    size_t unwatched;          /* mounts below it that are not asked, for a ceiling */
};

struct rg_mount_view {
    const char *place; /* the directory, as messages name it */
    enum rg_mount_state state;
    struct timespec since;              /* when it came into this state, wall clock */
    double seconds;                     /* how long ago that was */
    unsigned requests;                  /* in progress on it, those given up not among them */
    unsigned given_up;                  /* answered without the thread that is still on it */
    struct timespec given_up_since;     /* given_up > 0: since when there have been such */
    char message[RG_ERROR_MESSAGE_MAX]; /* FAILS: with what */
};

/* Starts to probe. The store is borrowed until rg_health_stop returned true. When it fails nobody
 * is left in the store. */
int rg_health_start(struct rg_store *store, const struct rg_health_config *config,
                    struct rg_health **ret_health, struct rg_error *err);

void rg_health_set(struct rg_health *health, enum rg_gateway_state state);
void rg_health_look(struct rg_health *health, struct rg_health_view *ret_view);

/* Shows each mount, the one that the store stands on first. `show` must not call back, nor keep the
 * view. */
void rg_health_mounts(struct rg_health *health,
                      void (*show)(void *context, const struct rg_mount_view *view), void *context);

/* How the table of mounts answers: what is mounted or unmounted while it does not is not seen. The
 * view is one of a mount without requests. */
void rg_health_table(struct rg_health *health, struct rg_mount_view *ret_view);

/* Waits until the mount that the store stands on has answered once: RG_STORAGE_HUNG, or what the
 * probe failed with. */
int rg_health_wait(struct rg_health *health, unsigned timeout_ms, struct rg_error *err);

/* Ends the probes. False when one is inside the store and does not end within `timeout_ms`, or a
 * request is; it may be called again then. All but the probes goes on as before: whoever is left at
 * the end still finds it. NULL is fine. */
bool rg_health_stop(struct rg_health *health, unsigned timeout_ms);

/* After rg_health_stop returned true, and when nobody is left who might ask. NULL is fine. */
void rg_health_free(struct rg_health *health);

/* ---- Requests ---- */

/* Counts a request on the mount where that key is (an empty one: the bucket), until
 * rg_mount_leave. */
struct rg_mount *rg_health_enter(struct rg_health *health, struct span bucket, struct span key);

/* The request has been answered without the thread that is on the mount. */
void rg_mount_give_up(struct rg_mount *mount);
void rg_mount_leave(struct rg_mount *mount, bool given_up);

/* Whether that mount hangs, or the one that all stands on. Answers at once. */
bool rg_mount_hangs(struct rg_mount *mount);

#endif
