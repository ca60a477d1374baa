#include "gate/health.h"

#include "base/assert.h"
#include "base/log.h"
#include "gate/event.h"
#include "gate/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct rg_health {
    struct rg_store *store;
    struct rg_health_config config;
    _Atomic bool stopping;
    struct rg_event stop_probe;
    struct rg_event stop_watch;
    struct rg_event probe_ended;
    struct rg_event watch_ended;
    struct rg_event answered; /* a probe is over */
    bool watch_over;

    pthread_mutex_t lock; /* guards all below */
    enum rg_gateway_state gateway;
    enum rg_mount_state mount;
    uint64_t since_ns;
    struct timespec since;
    uint64_t probe_begun_ns; /* 0: none under way */
    struct timespec probe_begun;
    uint64_t failures;
    struct rg_error error;
};

static const char *place_of(const struct rg_health *health)
{
    return health->store->place ? health->store->place : "the store";
}

static void log_change(const struct rg_health *health, enum rg_mount_state from,
                       enum rg_mount_state to, const char *message)
{
    if (to == RG_MOUNT_HANGS) {
        rg_log_error("mount.hangs", "the mount does not answer",
                     RG_FIELD_TEXT("mount", place_of(health)));
    } else if (to == RG_MOUNT_FAILS) {
        rg_log_error("mount.fails", message, RG_FIELD_TEXT("mount", place_of(health)));
    } else if (from != RG_MOUNT_UNKNOWN) {
        rg_log_info("mount.well", "the mount answers again",
                    RG_FIELD_TEXT("mount", place_of(health)));
    }
}

/* With the lock held; true when it is a change. */
static bool enter(struct rg_health *health, enum rg_mount_state state, uint64_t since_ns,
                  struct timespec since)
{
    if (health->mount == state) {
        return false;
    }
    health->mount = state;
    health->since_ns = since_ns;
    health->since = since;
    health->failures += state == RG_MOUNT_FAILS || state == RG_MOUNT_HANGS;
    return true;
}

static void probe(struct rg_health *health)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_MUST(pthread_mutex_lock(&health->lock));
    health->probe_begun_ns = rg_clock_ns();
    health->probe_begun = rg_clock_wall();
    RG_MUST(pthread_mutex_unlock(&health->lock));

    int rc = rg_store_probe(health->store, &err);

    RG_MUST(pthread_mutex_lock(&health->lock));
    enum rg_mount_state before = health->mount;
    enum rg_mount_state now = rc < 0 ? RG_MOUNT_FAILS : RG_MOUNT_WELL;
    health->probe_begun_ns = 0;
    health->error = err;
    bool changed = enter(health, now, rg_clock_ns(), rg_clock_wall());
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (changed) {
        log_change(health, before, now, err.message);
    }
    rg_event_raise(&health->answered);
}

static void *run_probe(void *argument)
{
    struct rg_health *health = argument;
    while (!atomic_load(&health->stopping)) {
        probe(health);
        rg_event_wait(&health->stop_probe,
                      rg_clock_ns() + (uint64_t)health->config.probe_ms * 1000000u);
    }
    rg_event_raise(&health->probe_ended);
    return NULL;
}

static void watch(struct rg_health *health)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    enum rg_mount_state before = health->mount;
    bool hangs = health->probe_begun_ns != 0 && rg_clock_ns() - health->probe_begun_ns >
                                                    (uint64_t)health->config.hang_ms * 1000000u;
    bool changed =
        hangs && enter(health, RG_MOUNT_HANGS, health->probe_begun_ns, health->probe_begun);
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (changed) {
        log_change(health, before, RG_MOUNT_HANGS, "");
    }
}

static void *run_watch(void *argument)
{
    struct rg_health *health = argument;
    uint64_t tick_ns = (uint64_t)health->config.hang_ms * 1000000u / 4 + 1;
    while (!rg_event_wait(&health->stop_watch, rg_clock_ns() + tick_ns)) {
        watch(health);
    }
    rg_event_raise(&health->watch_ended);
    return NULL;
}

static void free_health(struct rg_health *health)
{
    RG_MUST(pthread_mutex_destroy(&health->lock));
    free(health);
}

int rg_health_start(struct rg_store *store, const struct rg_health_config *config,
                    struct rg_health **ret_health, struct rg_error *err)
{
    struct rg_health *health = calloc(1, sizeof *health);
    if (!health) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&health->lock, NULL));
    health->store = store;
    health->config = *config;
    health->since_ns = rg_clock_ns();
    health->since = rg_clock_wall();
    int rc = rg_thread_start("rg-health", run_watch, health, err);
    if (rc < 0) {
        free_health(health);
        return rc;
    }
    rc = rg_thread_start("rg-probe", run_probe, health, err);
    if (rc < 0) {
        rg_event_raise(&health->stop_watch);
        rg_event_wait(&health->watch_ended, UINT64_MAX);
        free_health(health);
        return rc;
    }
    *ret_health = health;
    return 0;
}

void rg_health_set(struct rg_health *health, enum rg_gateway_state state)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    health->gateway = state;
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

void rg_health_look(struct rg_health *health, struct rg_health_view *ret_view)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    *ret_view = (struct rg_health_view){
        .gateway = health->gateway,
        .mount = health->mount,
        .since = health->since,
        .seconds = (double)(rg_clock_ns() - health->since_ns) / 1e9,
        .failures = health->failures,
        .ready = health->gateway == RG_GATEWAY_SERVING && health->mount == RG_MOUNT_WELL,
    };
    if (health->mount == RG_MOUNT_FAILS) {
        snprintf(ret_view->message, sizeof ret_view->message, "%s", health->error.message);
    }
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

int rg_health_wait(struct rg_health *health, unsigned timeout_ms, struct rg_error *err)
{
    struct rg_health_view view;
    rg_event_wait(&health->answered, rg_clock_ns() + (uint64_t)timeout_ms * 1000000u);
    rg_health_look(health, &view);
    if (view.mount == RG_MOUNT_WELL) {
        return 0;
    }
    if (view.mount == RG_MOUNT_FAILS) {
        return rg_failf(err, RG_STORAGE_FAULT, "%s: %s", place_of(health), view.message);
    }
    return rg_failf(err, RG_STORAGE_HUNG, "%s does not answer", place_of(health));
}

bool rg_health_stop(struct rg_health *health, unsigned timeout_ms)
{
    if (!health) {
        return true;
    }
    atomic_store(&health->stopping, true);
    rg_event_raise(&health->stop_watch);
    rg_event_raise(&health->stop_probe);
    if (!health->watch_over) {
        rg_event_wait(&health->watch_ended, UINT64_MAX);
        health->watch_over = true;
    }
    if (!rg_event_wait(&health->probe_ended, rg_clock_ns() + (uint64_t)timeout_ms * 1000000u)) {
        return false;
    }
    free_health(health);
    return true;
}
