#include "gate/health.h"

#include "base/assert.h"
#include "base/log.h"
#include "gate/event.h"
#include "gate/thread.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table of mounts is asked like one: for what stands in it, the kernel asks file systems, and
 * one of them may hang (btrfs looks on its disk for the name of a subvolume). */
struct rg_mount {
    struct rg_health *health;
    struct rg_mount *next; /* in one of the lists below */
    bool is_table;
    char *path;  /* below what the store stands on; NULL: that itself, or the table */
    char *place; /* the same for messages */
    uint64_t id;
    bool running; /* its thread was started; of the thread that watches */
    bool over;    /* and has ended; likewise */
    _Atomic bool stopping;
    struct rg_store_memory memory; /* of its thread */
    struct rg_event wake;          /* to stop; the table also to be read */
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
    struct rg_event wake; /* of the thread that watches: to begin, to stop, or the table was read */
    struct rg_event watch_ended;
    struct rg_event answered; /* a probe of the first mount is over */
    _Atomic bool stopping;
    bool watch_runs;
    struct rg_mount *table;

    /* Of the thread that watches. */
    bool stale;            /* the table is to be read again */
    bool asked;            /* it is being read */
    size_t left_out;       /* mounts that the table has besides those found */
    struct rg_mount *gone; /* not mounted any more, and in use */

    _Atomic bool has_others; /* than the first */
    pthread_mutex_t lock;    /* guards all below */
    struct rg_mount *mounts; /* what the store stands on; then what is mounted there */
    enum rg_gateway_state gateway;
    uint64_t failures;
    size_t unwatched;
    struct tidings {
        bool is_new;
        int rc;
        struct rg_store_mount *mounts;
        size_t count;
        size_t left_out;
    } tidings; /* what the table said last */
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

static void log_table(enum rg_mount_state from, enum rg_mount_state to, const char *message)
{
    if (to == RG_MOUNT_HANGS) {
        rg_log_error("mounts.hang",
                     "the table of mounts cannot be read to its end: some file system of this "
                     "machine hangs. What is mounted or unmounted now is not seen");
    } else if (to == RG_MOUNT_FAILS) {
        rg_log_error("mounts.fail", message);
    } else if (from != RG_MOUNT_UNKNOWN) {
        rg_log_info("mounts.well", "the table of mounts can be read again");
    }
}

static void log_change(const struct rg_mount *mount, enum rg_mount_state from,
                       enum rg_mount_state to, const char *message)
{
    if (mount->is_table) {
        log_table(from, to, message);
    } else if (to == RG_MOUNT_HANGS) {
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

static int read_table(struct rg_health *health, struct rg_error *err)
{
    struct tidings tidings = {.is_new = true};
    tidings.rc =
        rg_store_mounts(health->store, &tidings.mounts, &tidings.count, &tidings.left_out, err);
    RG_MUST(pthread_mutex_lock(&health->lock));
    struct tidings unseen = health->tidings;
    health->tidings = tidings;
    RG_MUST(pthread_mutex_unlock(&health->lock));
    rg_store_mounts_free(unseen.mounts, unseen.count);
    return tidings.rc;
}

static int ask(struct rg_mount *mount, struct rg_error *err)
{
    struct rg_store *store = mount->health->store;
    if (mount->is_table) {
        return read_table(mount->health, err);
    }
    return mount->path ? rg_store_probe_mount(store, mount->path, &mount->memory, err)
                       : rg_store_probe(store, &mount->memory, err);
}

/* True when it went well. */
static bool probe(struct rg_mount *mount)
{
    struct rg_health *health = mount->health;
    struct rg_error err = RG_ERROR_INIT;
    RG_MUST(pthread_mutex_lock(&health->lock));
    mount->probe_begun_ns = rg_clock_ns();
    mount->probe_begun = rg_clock_wall();
    RG_MUST(pthread_mutex_unlock(&health->lock));

    int rc = ask(mount, &err);

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
    if (mount == health->mounts) {
        rg_event_raise(&health->answered);
    }
    return rc >= 0;
}

static void *run_probe(void *argument)
{
    struct rg_mount *mount = argument;
    uint64_t pause_ns = (uint64_t)mount->health->config.probe_ms * 1000000u;
    while (!atomic_load(&mount->stopping)) {
        probe(mount);
        rg_event_wait(&mount->wake, rg_clock_ns() + pause_ns);
    }
    rg_event_raise(&mount->ended);
    return NULL;
}

/* Of a table that could not be read the watch learns when it wakes next: so it is not tried again
 * at once. */
static void *run_table(void *argument)
{
    struct rg_mount *table = argument;
    while (rg_event_wait(&table->wake, UINT64_MAX), !atomic_load(&table->stopping)) {
        if (probe(table)) {
            rg_event_raise(&table->health->wake);
        }
    }
    rg_event_raise(&table->ended);
    return NULL;
}

static int start_probe(struct rg_mount *mount, struct rg_error *err)
{
    int rc = rg_thread_start(mount->is_table ? "rg-mounts" : "rg-probe",
                             mount->is_table ? run_table : run_probe, mount, err);
    mount->running = rc == 0;
    return rc;
}

static void stop_probe(struct rg_mount *mount)
{
    atomic_store(&mount->stopping, true);
    rg_event_raise(&mount->wake);
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

/* What the table said since the last time. When it could not be read, what is known stays. */
static void take_tidings(struct rg_health *health)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    struct tidings tidings = health->tidings;
    health->tidings = (struct tidings){.is_new = false};
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (!tidings.is_new) {
        return;
    }
    health->asked = false;
    if (tidings.rc < 0) {
        health->stale = true;
        return;
    }
    health->left_out = tidings.left_out;
    drop_unmounted(health, tidings.mounts, tidings.count);
    add_mounted(health, tidings.mounts, tidings.count);
    rg_store_mounts_free(tidings.mounts, tidings.count);
}

static void follow_table(struct rg_health *health)
{
    health->stale = rg_store_mounts_changed(health->store) || health->stale;
    if (health->stale && !health->asked) {
        health->stale = false;
        health->asked = true;
        rg_event_raise(&health->table->wake);
    }
    take_tidings(health);
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

/* That a ceiling was met is told, at its beginning and at its end. */
static void tell_unwatched(struct rg_health *health, size_t unwatched)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    size_t before = health->unwatched;
    health->unwatched = unwatched;
    RG_MUST(pthread_mutex_unlock(&health->lock));
    if (unwatched && !before) {
        rg_log_warn("mounts.unwatched",
                    "there are mounts of which nobody says how they are: more than are watched",
                    RG_FIELD_INT("unwatched", unwatched),
                    RG_FIELD_INT("watched_max", RG_STORE_MOUNTS_MAX));
    } else if (before && !unwatched) {
        rg_log_info("mounts.watched", "all mounts are watched again");
    }
}

/* Threads that hang in what was unmounted by force keep their place among those that may be. */
static void start_probes(struct rg_health *health)
{
    size_t hanging = 0;
    size_t unwatched = health->left_out;
    for (struct rg_mount *mount = health->gone; mount; mount = mount->next) {
        hanging += mount->running && !mount->over;
    }
    for (struct rg_mount *mount = health->mounts->next; mount; mount = mount->next) {
        if (!mount->running && hanging < RG_STORE_MOUNTS_MAX) {
            start_probe(mount, NULL); /* tried again at the next round */
        }
        unwatched += !mount->running;
    }
    tell_unwatched(health, unwatched);
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

/* It is never inside the store: only what it starts is. */
static void *run_watch(void *argument)
{
    struct rg_health *health = argument;
    uint64_t tick_ns = (uint64_t)health->config.hang_ms * 1000000u / 4 + 1;
    health->stale = true;
    rg_event_wait(&health->wake, UINT64_MAX);
    while (!atomic_load(&health->stopping)) {
        follow_table(health);
        free_gone(health);
        start_probes(health);
        for (struct rg_mount *mount = health->mounts; mount; mount = mount->next) {
            watch(mount);
        }
        watch(health->table);
        rg_event_wait(&health->wake, rg_clock_ns() + tick_ns);
    }
    rg_event_raise(&health->watch_ended);
    return NULL;
}

static void end_watch(struct rg_health *health)
{
    atomic_store(&health->stopping, true);
    rg_event_raise(&health->wake);
    if (health->watch_runs) {
        rg_event_wait(&health->watch_ended, UINT64_MAX);
        health->watch_runs = false;
    }
}

/* ---- Start, looks, stop ---- */

void rg_health_free(struct rg_health *health)
{
    if (!health) {
        return;
    }
    free_mounts(health->table);
    free_mounts(health->mounts);
    free_mounts(health->gone);
    rg_store_mounts_free(health->tidings.mounts, health->tidings.count);
    RG_MUST(pthread_mutex_destroy(&health->lock));
    free(health);
}

static int start_watch(struct rg_health *health, struct rg_error *err)
{
    int rc = rg_thread_start("rg-health", run_watch, health, err);
    health->watch_runs = rc == 0;
    return rc;
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
    health->table = new_mount(health, NULL, 0);
    int rc = health->mounts && health->table ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
    if (rc == 0) {
        health->table->is_table = true;
        rc = start_watch(health, err);
    }
    rc = rc < 0 ? rc : start_probe(health->table, err);
    /* The others wait for their sign: only this one goes into the store, so that a start that fails
     * leaves nobody there. */
    rc = rc < 0 ? rc : start_probe(health->mounts, err);
    if (rc < 0) {
        rg_health_stop(health, UINT_MAX);
        rg_health_free(health);
        return rc;
    }
    rg_event_raise(&health->wake);
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
        .unwatched = health->unwatched,
        .ready = health->gateway == RG_GATEWAY_SERVING && first->state == RG_MOUNT_WELL,
    };
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

/* With the lock held. */
static void look_at(const struct rg_mount *mount, struct rg_mount_view *ret_view)
{
    *ret_view = (struct rg_mount_view){
        .place = mount->place,
        .state = mount->state,
        .since = mount->since,
        .seconds = seconds_in_state(mount),
        .requests = atomic_load(&mount->requests),
        .given_up = atomic_load(&mount->given_up),
        .given_up_since = mount->given_up_since,
    };
    if (mount->state == RG_MOUNT_FAILS) {
        snprintf(ret_view->message, sizeof ret_view->message, "%s", mount->error.message);
    }
}

void rg_health_mounts(struct rg_health *health,
                      void (*show)(void *context, const struct rg_mount_view *view), void *context)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    for (struct rg_mount *mount = health->mounts; mount; mount = mount->next) {
        struct rg_mount_view view;
        look_at(mount, &view);
        show(context, &view);
    }
    RG_MUST(pthread_mutex_unlock(&health->lock));
}

void rg_health_table(struct rg_health *health, struct rg_mount_view *ret_view)
{
    RG_MUST(pthread_mutex_lock(&health->lock));
    look_at(health->table, ret_view);
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
    end_watch(health);
    struct rg_mount *lists[] = {health->table, health->mounts, health->gone};
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
