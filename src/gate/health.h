/*
 * Whether the gateway can serve: its own state, and whether the mount below answers. One thread
 * asks the store every second and may hang with it; another watches the first, so that whoever
 * wants to know is answered at once.
 */
#ifndef RG_GATE_HEALTH_H
#define RG_GATE_HEALTH_H

#include "base/error.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct rg_health;

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
    bool ready; /* serving, and the mount is well */
    enum rg_gateway_state gateway;
    enum rg_mount_state mount;
    struct timespec since;              /* when the mount came into this state, wall clock */
    double seconds;                     /* how long ago that was */
    uint64_t failures;                  /* times that a probe failed or hung */
    char message[RG_ERROR_MESSAGE_MAX]; /* FAILS: with what */
};

/* Starts to probe. The store is borrowed until rg_health_stop returned true. */
int rg_health_start(struct rg_store *store, const struct rg_health_config *config,
                    struct rg_health **ret_health, struct rg_error *err);

void rg_health_set(struct rg_health *health, enum rg_gateway_state state);
void rg_health_look(struct rg_health *health, struct rg_health_view *ret_view);

/* Waits until the mount has answered once: RG_STORAGE_HUNG, or what the probe failed with. */
int rg_health_wait(struct rg_health *health, unsigned timeout_ms, struct rg_error *err);

/* False when a probe is inside the store and does not end within `timeout_ms`; it may be called
 * again then. NULL is fine. */
bool rg_health_stop(struct rg_health *health, unsigned timeout_ms);

#endif
