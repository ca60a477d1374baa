#include "gate/health.h"

#include "base/assert.h"
#include "base/log.h"
#include "gate/event.h"
#include "gate/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rg_mount {
    struct rg_health *health;
    struct rg_mount *next; /* in one of the lists below */
    char *path;            /* below what the store stands on; NULL: that itself */
    char *place;           /* the same for messages */
    uint64_t id;
    bool running; /* its thread was started; of the thread that watches */
    bool over;    /* and has ended; likewise */
    _Atomic bool stopping;
    struct rg_event stop;
    struct rg_event ended;
    /* Together they keep it from being freed: the one is raised before the other is lowered. */
    _Atomic unsigned requests;
    _Atomic unsigned given_up;

    /* Under the lock of health. */
    enum rg_mount_state state;
    uint64_t since_ns;
    struct timespec since;
    uint64_t probe_begun_ns; /* 0: none under way */
    struct timespec probe_begun;
    struct timespec given_up_since; /* since when requests were given up */
    struct rg_error error;
};

struct rg_health {
    struct rg_store *store;
    struct rg_health_config config;
    struct rg_event stop_watch;
    struct rg_event watch_ended;
    struct rg_event answered; /* a probe of the first mount is over */
    bool watch_over;
    bool stale;            /* the table of mounts is to be read again; of the thread that watches */
    struct rg_mount *gone; /* not mounted any more, and in use; likewise */

    _Atomic bool has_others; /* than the first */
    pthread_mutex_t lock;    /* guards all below */
    struct rg_mount *mounts; /* what the store stands on; then what is mounted there */
    enum rg_gateway_state gateway;
    uint64_t failures;
};

/* ---- Mounts ---- */

static void free_mounts(struct rg_mount *list)
{
    while (list) {
        struct rg_mount *mount = list;
        list = mount->next;
        free(mount->path);
        free(mount->place);
        free(mount);
    }
}

static void cleanup_mount(struct rg_mount **mount)
{
    free_mounts(*mount);
}

static char *name_place(const struct rg_store *store, const char *path)
{
    const char *place = store->place ? store->place : "the store";
    char *text = NULL;
    bool closed = place[0] && place[strlen(place) - 1] == '/';
    return asprintf(&text, "%s%s%s", place, path && !closed ? "/" : "", path ? path : "") < 0
               ? NULL
               : text;
}

/* NULL when out of memory. */
static struct rg_mount *new_mount(struct rg_health *health, const char *path, uint64_t id)
{
    RG_CLEANUP(cleanup_mount) struct rg_mount *mount = calloc(1, sizeof *mount);
    if (!mount) {
        return NULL;
    }
    mount->health = health;
    mount->id = id;
    mount->since_ns = rg_clock_ns();
    mount->since = rg_clock_wall();
    mount->path = path ? strdup(path) : NULL;
    mount->place = name_place(health->store, path);
    return mount->place && (mount->path || !path) ? RG_TAKE(mount) : NULL;
}

static void log_change(const struct rg_mount *mount, enum rg_mount_state from,
                       enum rg_mount_state to, const char *message)
{
    if (to == RG_MOUNT_HANGS) {
        rg_log_error("mount.hangs", "the mount does not answer",
                     RG_FIELD_TEXT("mount", mount->place));
    } else if (to == RG_MOUNT_FAILS) {
        rg_log_error("mount.fails", message, RG_FIELD_TEXT("mount", mount->place));
    } else if (from != RG_MOUNT_UNKNOWN) {
        rg_log_info("mount.well", "the mount answers again", RG_FIELD_TEXT("mount", mount->place));
    }
}

/* With the lock held; true when it is a change. */
static bool enter(struct rg_mount *mount, enum rg_mount_state state, uint64_t since_ns,
                  struct timespec since)
{
    if (mount->state == state) {
        return false;
    }
    mount->state = state;
    mount->since_ns = since_ns;
    mount->since = since;
    mount->health->failures += state == RG_MOUNT_FAILS || state == RG_MOUNT_HANGS;
    return true;
}

static void probe(struct rg_mount *mount)
{
    struct rg_health *health = mount->health;
    struct rg_error err = RG_ERROR_INIT;
    RG_MUST(pthread_mutex_lock(&health->lock));
    mount->probe_begun_ns = rg_clock_ns();
    mount->probe_begun = rg_clock_wall();
    RG_MUST(pthread_mutex_unlock(&health->lock));

    int rc = mount->path ? rg_store_probe_mount(health->store, mount->path, &err)
                         : rg_store_probe(health->store, &err);

    RG_MUST(pthread_mutex_lock(&health->lock));
    enum rg_mount_state before = mount->state;
    enum rg_mount_state now = rc < 0 ? RG_MOUNT_FAILS : RG_MOUNT_WELL;
    mount->probe_begun_ns = 0;
    mount->error = err;
    bool changed = enter(mount, now, rg_clock_ns(), rg_clock_wall());
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (changed && !atomic_load(&mount->stopping)) {
        log_change(mount, before, now, err.message);
    }
    if (!mount->path) {
        rg_event_raise(&health->answered);
    }
}

static void *run_probe(void *argument)
{
    struct rg_mount *mount = argument;
    uint64_t pause_ns = (uint64_t)mount->health->config.probe_ms * 1000000u;
    while (!atomic_load(&mount->stopping)) {
        probe(mount);
        rg_event_wait(&mount->stop, rg_clock_ns() + pause_ns);
    }
    rg_event_raise(&mount->ended);
    return NULL;
}

static int start_probe(struct rg_mount *mount, struct rg_error *err)
{
    int rc = rg_thread_start("rg-probe", run_probe, mount, err);
    mount->running = rc == 0;
    return rc;
}

static void stop_probe(struct rg_mount *mount)
{
    atomic_store(&mount->stopping, true);
    rg_event_raise(&mount->stop);
}

/* ---- What is mounted ---- */

static bool has_ended(struct rg_mount *mount, uint64_t deadline_ns)
{
    if (mount->running && !mount->over) {
        mount->over = rg_event_wait(&mount->ended, deadline_ns);
    }
    return mount->over || !mount->running;
}

static bool is_used(struct rg_mount *mount)
{
    /* In this order: rg_mount_give_up raises the second before it lowers the first. */
    unsigned requests = (unsigned)atomic_load(&mount->requests);
    return requests > 0 || atomic_load(&mount->given_up) > 0;
}

static bool is_mounted(const struct rg_mount *mount, const struct rg_store_mount *found,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (found[i].id == mount->id && strcmp(found[i].path, mount->path) == 0) {
            return true;
        }
    }
    return false;
}

/* What is not mounted any more is found by no further request. */
static void drop_unmounted(struct rg_health *health, const struct rg_store_mount *found,
                           size_t count)
{
    struct rg_mount **at = &health->mounts->next;
    while (*at) {
        struct rg_mount *mount = *at;
        if (is_mounted(mount, found, count)) {
            at = &mount->next;
            continue;
        }
        RG_MUST(pthread_mutex_lock(&health->lock));
        *at = mount->next;
        bool was_well = mount->state == RG_MOUNT_WELL || mount->state == RG_MOUNT_UNKNOWN;
        RG_MUST(pthread_mutex_unlock(&health->lock));
        stop_probe(mount);
        if (!was_well) {
            rg_log_info("mount.gone", "the mount is there no more",
                        RG_FIELD_TEXT("mount", mount->place));
        }
        mount->next = health->gone;
        health->gone = mount;
    }
}

static bool is_known(const struct rg_health *health, const struct rg_store_mount *wanted)
{
    for (struct rg_mount *mount = health->mounts->next; mount; mount = mount->next) {
        if (is_mounted(mount, wanted, 1)) {
            return true;
        }
    }
    return false;
}

static void add_mounted(struct rg_health *health, const struct rg_store_mount *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rg_mount *mount =
            is_known(health, &found[i]) ? NULL : new_mount(health, found[i].path, found[i].id);
        if (!mount) {
            health->stale |= !is_known(health, &found[i]);
            continue;
        }
        RG_MUST(pthread_mutex_lock(&health->lock));
        mount->next = health->mounts->next;
        health->mounts->next = mount;
        RG_MUST(pthread_mutex_unlock(&health->lock));
    }
    atomic_store(&health->has_others, health->mounts->next != NULL);
}

/* Reads the table of mounts. When that fails what is known stays, and the next time is soon. */
static void read_mounts(struct rg_health *health)
{
    struct rg_store_mount *found = NULL;
    size_t count = 0;
    health->stale = rg_store_mounts(health->store, &found, &count, NULL) < 0;
    if (!health->stale) {
        drop_unmounted(health, found, count);
        add_mounted(health, found, count);
        rg_store_mounts_free(found, count);
    }
}

static void free_gone(struct rg_health *health)
{
    struct rg_mount **at = &health->gone;
    while (*at) {
        struct rg_mount *mount = *at;
        if (!has_ended(mount, 0) || is_used(mount)) {
            at = &mount->next;
            continue;
        }
        *at = mount->next;
        mount->next = NULL;
        free_mounts(mount);
    }
}

/* Threads that hang in what was unmounted by force keep their place among those that may be. */
static void start_probes(struct rg_health *health)
{
    size_t hanging = 0;
    for (struct rg_mount *mount = health->gone; mount; mount = mount->next) {
        hanging += mount->running && !mount->over;
    }
    for (struct rg_mount *mount = health->mounts->next; mount; mount = mount->next) {
        if (!mount->running && hanging < RG_STORE_MOUNTS_MAX) {
            start_probe(mount, NULL); /* tried again at the next round */
        }
    }
}

/* ---- The thread that watches ---- */

static void watch(struct rg_mount *mount)
{
    struct rg_health *health = mount->health;
    uint64_t most_ns = (uint64_t)health->config.hang_ms * 1000000u;
    RG_MUST(pthread_mutex_lock(&health->lock));
    enum rg_mount_state before = mount->state;
    bool hangs = mount->probe_begun_ns != 0 && rg_clock_ns() - mount->probe_begun_ns > most_ns;
    bool changed = hangs && enter(mount, RG_MOUNT_HANGS, mount->probe_begun_ns, mount->probe_begun);
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (changed) {
        log_change(mount, before, RG_MOUNT_HANGS, "");
    }
}

static void *run_watch(void *argument)
{
    struct rg_health *health = argument;
    uint64_t tick_ns = (uint64_t)health->config.hang_ms * 1000000u / 4 + 1;
    health->stale = true;
    do {
        if (rg_store_mounts_changed(health->store) || health->stale) {
            read_mounts(health);
        }
        free_gone(health);
        start_probes(health);
        for (struct rg_mount *mount = health->mounts; mount; mount = mount->next) {
            watch(mount);
        }
    } while (!rg_event_wait(&health->stop_watch, rg_clock_ns() + tick_ns));
    rg_event_raise(&health->watch_ended);
    return NULL;
}

/* ---- Start, looks, stop ---- */

static void free_health(struct rg_health *health)
{
    free_mounts(health->mounts);
    free_mounts(health->gone);
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
    health->mounts = new_mount(health, NULL, 0);
    int rc = health->mounts ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    rc = rc < 0 ? rc : rg_thread_start("rg-health", run_watch, health, err);
    if (rc < 0) {
        free_health(health);
        return rc;
    }
    rc = start_probe(health->mounts, err);
    if (rc < 0) {
        /* Those of other mounts may have begun: what they are in may hang, and keeps all this. */
        rg_health_stop(health, config->hang_ms);
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

static double seconds_in_state(const struct rg_mount *mount)
{
    return (double)(rg_clock_ns() - mount->since_ns) / 1e9;
}

void rg_health_look(struct rg_health *health, struct rg_health_view *ret_view)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    const struct rg_mount *first = health->mounts;
    *ret_view = (struct rg_health_view){
        .gateway = health->gateway,
        .mount = first->state,
        .seconds = seconds_in_state(first),
        .failures = health->failures,
        .ready = health->gateway == RG_GATEWAY_SERVING && first->state == RG_MOUNT_WELL,
    };
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

void rg_health_mounts(struct rg_health *health,
                      void (*show)(void *context, const struct rg_mount_view *view), void *context)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    for (struct rg_mount *mount = health->mounts; mount; mount = mount->next) {
        struct rg_mount_view view = {
            .place = mount->place,
            .state = mount->state,
            .since = mount->since,
            .seconds = seconds_in_state(mount),
            .requests = atomic_load(&mount->requests),
            .given_up = atomic_load(&mount->given_up),
            .given_up_since = mount->given_up_since,
        };
        if (mount->state == RG_MOUNT_FAILS) {
            snprintf(view.message, sizeof view.message, "%s", mount->error.message);
        }
        show(context, &view);
    }
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

int rg_health_wait(struct rg_health *health, unsigned timeout_ms, struct rg_error *err)
{
    rg_event_wait(&health->answered, rg_clock_ns() + (uint64_t)timeout_ms * 1000000u);
    RG_MUST(pthread_mutex_lock(&health->lock));
    const struct rg_mount *first = health->mounts;
    enum rg_mount_state state = first->state;
    struct rg_error error = first->error;
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (state == RG_MOUNT_WELL) {
        return 0;
    }
    if (state == RG_MOUNT_FAILS) {
        return rg_failf(err, RG_STORAGE_FAULT, "%s: %s", first->place, error.message);
    }
    return rg_failf(err, RG_STORAGE_HUNG, "%s does not answer", first->place);
}

bool rg_health_stop(struct rg_health *health, unsigned timeout_ms)
{
    if (!health) {
        return true;
    }
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    rg_event_raise(&health->stop_watch);
    if (!health->watch_over) {
        rg_event_wait(&health->watch_ended, UINT64_MAX);
        health->watch_over = true;
    }
    struct rg_mount *lists[] = {health->mounts, health->gone};
    bool idle = true;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lists); i++) {
        for (struct rg_mount *mount = lists[i]; mount; mount = mount->next) {
            stop_probe(mount);
        }
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(lists); i++) {
        for (struct rg_mount *mount = lists[i]; mount; mount = mount->next) {
            idle = has_ended(mount, deadline_ns) && !is_used(mount) && idle;
        }
    }
    if (idle) {
        free_health(health);
    }
    return idle;
}

/* ---- Requests ---- */

/* How many bytes of "bucket/key" the mount's path takes; 0 when the key is elsewhere. */
static size_t covers(const char *path, struct span bucket, struct span key)
{
    struct span rest = rg_span_text(path);
    if (bucket.len == 0 || !rg_span_starts(rest, bucket)) {
        return 0;
    }
    rest = rg_span_skip(rest, bucket.len);
    if (rest.len == 0) {
        return bucket.len;
    }
    if (rest.ptr[0] != '/') {
        return 0;
    }
    rest = rg_span_skip(rest, 1);
    bool inside = rg_span_starts(key, rest) && (key.len == rest.len || key.ptr[rest.len] == '/');
    return inside ? bucket.len + 1 + rest.len : 0;
}

struct rg_mount *rg_health_enter(struct rg_health *health, struct span bucket, struct span key)
{
    struct rg_mount *best = health->mounts;
    if (!atomic_load(&health->has_others)) {
        atomic_fetch_add(&best->requests, 1);
        return best;
    }
    size_t most = 0;
    RG_MUST(pthread_mutex_lock(&health->lock));
    for (struct rg_mount *mount = best->next; mount; mount = mount->next) {
        size_t covered = covers(mount->path, bucket, key);
        if (covered > most) {
            most = covered;
            best = mount;
        }
    }
    atomic_fetch_add(&best->requests, 1);
    RG_MUST(pthread_mutex_unlock(&health->lock));
    return best;
}

void rg_mount_give_up(struct rg_mount *mount)
{
    RG_MUST(pthread_mutex_lock(&mount->health->lock));
    if (atomic_fetch_add(&mount->given_up, 1) == 0) {
        mount->given_up_since = rg_clock_wall();
    }
    RG_MUST(pthread_mutex_unlock(&mount->health->lock));
    atomic_fetch_sub(&mount->requests, 1);
}

void rg_mount_leave(struct rg_mount *mount, bool given_up)
{
    atomic_fetch_sub(given_up ? &mount->given_up : &mount->requests, 1);
}

bool rg_mount_hangs(struct rg_mount *mount)
{
    struct rg_health *health = mount->health;
    RG_MUST(pthread_mutex_lock(&health->lock));
    bool hangs = mount->state == RG_MOUNT_HANGS || health->mounts->state == RG_MOUNT_HANGS;
    RG_MUST(pthread_mutex_unlock(&health->lock));
    return hangs;
}
