/*
 * The admin listener over a store that does as it is told: answers, fails, hangs.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "gate/admin.h"
#include "gate/sweeper.h"
#include "test.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The system gives so many threads and then, once, none. */
static _Atomic int threads_given = -1;

typedef void *thread_body(void *argument);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_body *run,
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_body *run,
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_body *run,
                          void *argument)
{
    return atomic_fetch_sub(&threads_given, 1) == 0
               ? EAGAIN
               : __real_pthread_create(thread, attributes, run, argument);
}

enum { WELL, FAILS, HANGS };

static _Atomic int behaviour;
static _Atomic unsigned calls; /* of the store, for health */
static _Atomic unsigned sweeps;

static int probe(struct rg_store *store, struct rg_store_memory *memory, struct rg_error *err)
{
    (void)store;
    (void)memory;
    atomic_fetch_add(&calls, 1);
    while (atomic_load(&behaviour) == HANGS) {
        usleep(1000);
    }
    return atomic_load(&behaviour) == FAILS
               ? rg_failf(err, RG_STORAGE_FAULT, "looking at /mnt/test: Input/output error")
               : 0;
}

/* Of the buckets one may hang, and is swept as often as it is counted here. */
#define BUCKETS 12u

static _Atomic bool sweep_hangs;
static _Atomic unsigned hanging_from; /* of the buckets by number, */
static _Atomic unsigned hanging_to;   /* before this one */
static _Atomic unsigned swept[BUCKETS];
static _Atomic bool hanging_fails; /* the next that hung, when it comes back */
static _Atomic bool list_fails;

static int sweep(struct rg_store *store, struct span bucket, struct rg_error *err)
{
    (void)store;
    atomic_fetch_add(&sweeps, 1);
    if (bucket.len == 0) {
        return 0;
    }
    uint64_t number;
    assert_true(rg_span_starts(bucket, RG_SPAN_LITERAL("bucket-")));
    assert_true(rg_span_to_u64(rg_span_skip(bucket, 7), &number));
    atomic_fetch_add(&swept[number], 1);
    bool hung = false;
    while (atomic_load(&sweep_hangs) && number >= atomic_load(&hanging_from) &&
           number < atomic_load(&hanging_to)) {
        hung = true;
        usleep(1000);
    }
    return hung && atomic_exchange(&hanging_fails, false) ? rg_fail(err, RG_STORAGE_FAULT) : 0;
}

static int list_buckets(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                        size_t *ret_count, struct rg_error *err)
{
    (void)store;
    if (atomic_load(&list_fails)) {
        return rg_fail(err, RG_STORAGE_FAULT);
    }
    struct rg_bucket_info *buckets = calloc(BUCKETS, sizeof *buckets);
    assert_non_null(buckets);
    for (unsigned i = 0; i < BUCKETS; i++) {
        snprintf(buckets[i].name, sizeof buckets[i].name, "bucket-%u", i);
    }
    *ret_buckets = buckets;
    *ret_count = BUCKETS;
    return 0;
}

/* What is mounted below: a change is seen once. */
static _Atomic bool is_mounted;
static _Atomic bool changed;
static _Atomic int behaviour_below;
static _Atomic int behaviour_of_table;
static _Atomic unsigned left_out;

static int mounts(struct rg_store *store, struct rg_store_mount **ret_mounts, size_t *ret_count,
                  size_t *ret_left_out, struct rg_error *err)
{
    (void)store;
    atomic_fetch_add(&calls, 1);
    while (atomic_load(&behaviour_of_table) == HANGS) {
        usleep(1000);
    }
    if (atomic_load(&behaviour_of_table) == FAILS) {
        return rg_failf(err, RG_STORAGE_FAULT, "reading the table: Input/output error");
    }
    bool there = atomic_load(&is_mounted);
    struct rg_store_mount *found = calloc(2, sizeof *found);
    assert_non_null(found);
    if (there) {
        found[0] = (struct rg_store_mount){.path = strdup("bucket"), .id = 1};
        found[1] = (struct rg_store_mount){.path = strdup("bucket/deep"), .id = 2};
    }
    *ret_mounts = found;
    *ret_count = there ? 2 : 0;
    *ret_left_out = atomic_load(&left_out);
    return 0;
}

static bool mounts_changed(struct rg_store *store)
{
    (void)store;
    return atomic_exchange(&changed, false);
}

static int probe_mount(struct rg_store *store, const char *path, struct rg_store_memory *memory,
                       struct rg_error *err)
{
    (void)store;
    (void)memory;
    if (strcmp(path, "bucket/deep") != 0) {
        return 0;
    }
    while (atomic_load(&behaviour_below) == HANGS) {
        usleep(1000);
    }
    return atomic_load(&behaviour_below) == FAILS
               ? rg_failf(err, RG_READ_ONLY, "the file system has become read-only")
               : 0;
}

static const struct rg_store_ops ops = {.probe = probe,
                                        .sweep = sweep,
                                        .bucket_list = list_buckets,
                                        .mounts = mounts,
                                        .mounts_changed = mounts_changed,
                                        .probe_mount = probe_mount};
static struct rg_store store = {.ops = &ops, .place = "/mnt/test"};

static struct rg_settings settings;
static struct rg_health *health;
static struct rg_metrics *metrics;
static struct rg_admin *admin;

static void sample(void *context, struct rg_metrics_sample *ret_sample)
{
    assert_ptr_equal(context, &settings);
    ret_sample->version = "test";
    ret_sample->http.stuck = 2;
}

static int start(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_health_config probing = {.probe_ms = 10, .hang_ms = 100};
    atomic_store(&behaviour, WELL);
    atomic_store(&behaviour_below, WELL);
    atomic_store(&behaviour_of_table, WELL);
    atomic_store(&is_mounted, false);
    atomic_store(&left_out, 0);
    assert_int_equal(rg_settings_init(&settings, &err), 0);
    assert_int_equal(rg_settings_set(&settings, RG_SETTING_admin_port, "0", RG_FROM_OPTION,
                                     "--admin-port", &err),
                     0);
    assert_int_equal(rg_settings_set(&settings, RG_SETTING_admin_address, "127.0.0.1", RG_FROM_FILE,
                                     "f:1", &err),
                     0);
    assert_int_equal(rg_settings_set(&settings, RG_SETTING_root_secret_key, "very-secret",
                                     RG_FROM_ENVIRONMENT, "RAILGATE_ROOT_SECRET_KEY", &err),
                     0);
    assert_int_equal(rg_metrics_new(&metrics, &err), 0);
    assert_int_equal(rg_health_start(&store, &probing, &health, &err), 0);
    assert_int_equal(rg_health_wait(health, 5000, &err), 0);
    rg_health_set(health, RG_GATEWAY_SERVING);
    struct rg_admin_config config = {.settings = &settings,
                                     .health = health,
                                     .metrics = metrics,
                                     .sample = sample,
                                     .context = &settings};
    if (rg_admin_open(&config, &admin, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    atomic_store(&behaviour, WELL);
    atomic_store(&behaviour_below, WELL);
    atomic_store(&behaviour_of_table, WELL);
    assert_true(rg_admin_close(admin));
    assert_true(rg_health_stop(health, 5000));
    rg_health_free(health);
    rg_metrics_free(metrics);
    rg_settings_free(&settings);
    return 0;
}

static int ask(const char *method, const char *path, struct wire_answer *answer)
{
    char request[256];
    int fd = wire_connect(rg_admin_port(admin));
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: a\r\n\r\n", method, path);
    wire_send(fd, request);
    wire_read(fd, answer, strcmp(method, "HEAD") == 0);
    close(fd);
    return answer->status;
}

/* Asks until the answer has that status. */
static void ask_until(const char *path, int status, struct wire_answer *answer)
{
    uint64_t begun_ms = rg_clock_ms();
    while (ask("GET", path, answer) != status && rg_clock_ms() - begun_ms < 10000) {
        usleep(5000);
    }
    assert_int_equal(answer->status, status);
}

static json_t *parse(const struct wire_answer *answer)
{
    json_error_t error;
    json_t *document = json_loads(rg_buf_text((struct rg_buf *)&answer->body), 0, &error);
    assert_non_null(document);
    return document;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "(none)";
}

static void test_pages(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    assert_int_equal(ask("GET", "/-/live", &answer), 200);
    assert_string_equal(wire_field(&answer, "Content-Type"), "application/json");
    assert_int_equal(ask("HEAD", "/-/live", &answer), 200);
    assert_int_equal(answer.body.len, 0);
    assert_int_equal(ask("GET", "/-/ready", &answer), 200);
    assert_int_equal(ask("HEAD", "/-/ready", &answer), 200);
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_ready 1\n"));
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_workers_stuck 2\n"));
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nprocess_open_fds "));
    assert_int_equal(ask("POST", "/-/live", &answer), 405);
    assert_string_equal(wire_field(&answer, "Allow"), "GET, HEAD");
    assert_int_equal(ask("GET", "/", &answer), 404);
    assert_int_equal(ask("GET", "/-/ready/", &answer), 404);
    assert_int_equal(ask("GET", "/-/ready?x=y", &answer), 200);
}

static void test_config(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    assert_int_equal(ask("GET", "/-/config", &answer), 200);
    assert_null(strstr(rg_buf_text(&answer.body), "very-secret"));
    json_t *document = parse(&answer);
    assert_int_equal(json_object_size(document), RG_SETTING_COUNT);
    const json_t *port = json_object_get(document, "admin-port");
    assert_string_equal(text_of(port, "value"), "0");
    assert_string_equal(text_of(port, "source"), "option");
    const json_t *secret = json_object_get(document, "root-secret-key");
    assert_string_equal(text_of(secret, "value"), "(set)");
    assert_string_equal(text_of(secret, "source"), "environment");
    json_decref(document);
}

static void test_failing_mount(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    atomic_store(&behaviour, FAILS);
    ask_until("/-/ready", 503, &answer);
    json_t *document = parse(&answer);
    const json_t *mount = json_array_get(json_object_get(document, "mounts"), 0);
    assert_string_equal(text_of(document, "status"), "not ready");
    assert_string_equal(text_of(mount, "state"), "fails");
    assert_string_equal(text_of(mount, "error"), "looking at /mnt/test: Input/output error");
    json_decref(document);
    atomic_store(&behaviour, WELL);
    ask_until("/-/ready", 200, &answer);
}

/* The health page answers at once although the mount does not. */
static void test_hanging_mount(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    struct rg_mount *uses[3];
    for (size_t i = 0; i < RG_ARRAY_LENGTH(uses); i++) {
        uses[i] = rg_health_enter(health, rg_span_text("bucket"), rg_span_text("k"));
        assert_false(rg_mount_hangs(uses[i]));
    }
    atomic_store(&behaviour, HANGS);
    ask_until("/-/ready", 503, &answer);
    assert_true(rg_mount_hangs(uses[0]));
    rg_mount_give_up(uses[2]);
    usleep(200000);
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(ask("GET", "/-/ready", &answer), 503);
    assert_true(rg_clock_ms() - begun_ms < 2000);
    json_t *document = parse(&answer);
    const json_t *mount = json_array_get(json_object_get(document, "mounts"), 0);
    assert_string_equal(text_of(mount, "mount"), "/mnt/test");
    assert_string_equal(text_of(mount, "state"), "hangs");
    assert_int_equal(strlen(text_of(mount, "since")), 20);
    double seconds = json_real_value(json_object_get(mount, "seconds"));
    assert_true(seconds > 0.25 && seconds < 60);
    assert_int_equal(json_integer_value(json_object_get(mount, "requests_waiting")), 2);
    assert_int_equal(json_integer_value(json_object_get(mount, "workers_stuck")), 1);
    assert_int_equal(strlen(text_of(mount, "stuck_since")), 20);
    json_decref(document);
    assert_int_equal(ask("GET", "/-/live", &answer), 200);
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_ready 0\n"));
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_probe_failures_total 1\n"));
    assert_null(strstr(rg_buf_text(&answer.body), "\nrailgate_probe_hang_seconds 0\n"));
    atomic_store(&behaviour, WELL);
    ask_until("/-/ready", 200, &answer);
    rg_mount_leave(uses[0], false);
    rg_mount_leave(uses[1], false);
    rg_mount_leave(uses[2], true);
    assert_int_equal(ask("GET", "/-/ready", &answer), 200);
    document = parse(&answer);
    mount = json_array_get(json_object_get(document, "mounts"), 0);
    assert_int_equal(json_integer_value(json_object_get(mount, "requests_waiting")), 0);
    assert_int_equal(json_integer_value(json_object_get(mount, "workers_stuck")), 0);
    assert_string_equal(text_of(mount, "stuck_since"), "(none)");
    json_decref(document);
}

/* Asks /-/ready until the mount has that state; NULL: until it is not listed. The caller drops the
 * document. */
static json_t *mount_until(const char *place, const char *state, json_t **ret_document)
{
    uint64_t begun_ms = rg_clock_ms();
    for (;;) {
        WIRE_ANSWER(answer);
        assert_int_equal(ask("GET", "/-/ready", &answer), 200);
        json_t *document = parse(&answer);
        json_t *list = json_object_get(document, "mounts");
        json_t *found = NULL;
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_t *mount = json_array_get(list, i);
            found = strcmp(text_of(mount, "mount"), place) == 0 ? mount : found;
        }
        if (state ? found && strcmp(text_of(found, "state"), state) == 0 : !found) {
            *ret_document = document;
            return found;
        }
        json_decref(document);
        if (rg_clock_ms() - begun_ms > 10000) {
            fail_msg("%s is not \"%s\"", place, state ? state : "gone");
        }
        usleep(5000);
    }
}

static void mount_below(bool there)
{
    atomic_store(&is_mounted, there);
    atomic_store(&changed, true);
}

/* What hangs below is named, with what it holds up; the rest is served, and so is it afterwards. */
static void test_mounts_below(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    json_t *document;
    mount_below(true);
    mount_until("/mnt/test/bucket", "well", &document);
    json_decref(document);
    mount_until("/mnt/test/bucket/deep", "well", &document);
    json_decref(document);

    /* A request is where its key is, and nowhere else. */
    struct rg_mount *root = rg_health_enter(health, rg_span_text("bucke"), rg_span_text("deep/k"));
    struct rg_mount *bucket = rg_health_enter(health, rg_span_text("bucket"), RG_SPAN_EMPTY);
    assert_ptr_equal(rg_health_enter(health, rg_span_text("bucket"), rg_span_text("deeper")),
                     bucket);
    assert_ptr_equal(rg_health_enter(health, rg_span_text("bucket"), rg_span_text("other/deep/k")),
                     bucket);
    struct rg_mount *deep = rg_health_enter(health, rg_span_text("bucket"), rg_span_text("deep/k"));
    assert_ptr_equal(rg_health_enter(health, rg_span_text("bucket"), rg_span_text("deep")), deep);
    assert_ptr_equal(rg_health_enter(health, RG_SPAN_EMPTY, RG_SPAN_EMPTY), root);
    assert_true(root != bucket && bucket != deep && root != deep);

    atomic_store(&behaviour_below, HANGS);
    json_t *mount = mount_until("/mnt/test/bucket/deep", "hangs", &document);
    assert_string_equal(text_of(document, "status"), "ready");
    assert_int_equal(strlen(text_of(mount, "since")), 20);
    assert_true(json_real_value(json_object_get(mount, "seconds")) >= 0.1);
    assert_int_equal(json_integer_value(json_object_get(mount, "requests_waiting")), 2);
    assert_int_equal(json_integer_value(json_object_get(mount, "workers_stuck")), 0);
    json_decref(document);
    assert_true(rg_mount_hangs(deep));
    assert_false(rg_mount_hangs(bucket));
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    const char *metrics_text = rg_buf_text(&answer.body);
    assert_non_null(strstr(metrics_text, "\nrailgate_ready 1\n"));
    assert_non_null(strstr(metrics_text, "\nrailgate_mount_well{mount=\"/mnt/test\"} 1\n"));
    assert_non_null(
        strstr(metrics_text, "\nrailgate_mount_well{mount=\"/mnt/test/bucket/deep\"} 0\n"));
    assert_null(
        strstr(metrics_text, "\nrailgate_mount_hang_seconds{mount=\"/mnt/test/bucket/deep\"} 0\n"));
    assert_non_null(
        strstr(metrics_text,
               "\nrailgate_mount_requests{mount=\"/mnt/test/bucket\",state=\"in_progress\"} 3\n"));

    /* Unmounted while it hangs and a request is on it: not shown any more, and not freed either. */
    mount_below(false);
    mount_until("/mnt/test/bucket/deep", NULL, &document);
    json_decref(document);
    assert_ptr_equal(rg_health_enter(health, rg_span_text("bucket"), rg_span_text("deep/k")), root);
    rg_mount_give_up(deep);
    atomic_store(&behaviour_below, FAILS);
    mount_below(true);
    mount = mount_until("/mnt/test/bucket/deep", "fails", &document);
    assert_string_equal(text_of(mount, "error"), "the file system has become read-only");
    assert_int_equal(json_integer_value(json_object_get(mount, "requests_waiting")), 0);
    json_decref(document);

    for (int i = 0; i < 3; i++) {
        rg_mount_leave(root, false);
        rg_mount_leave(bucket, false);
    }
    rg_mount_leave(deep, true);
    assert_false(rg_health_stop(health, 0)); /* somebody is on it */
    rg_mount_leave(deep, false);
}

static void test_draining(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    rg_health_set(health, RG_GATEWAY_DRAINING);
    assert_int_equal(ask("GET", "/-/ready", &answer), 503);
    json_t *document = parse(&answer);
    assert_string_equal(text_of(document, "gateway"), "draining");
    json_decref(document);
    assert_int_equal(ask("GET", "/-/live", &answer), 200);
}

/* A probe that hangs does not keep anybody from stopping. */
static void test_stop_while_hanging(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_health_config probing = {.probe_ms = 10, .hang_ms = 20};
    struct rg_health *own;
    atomic_store(&behaviour, HANGS);
    assert_int_equal(rg_health_start(&store, &probing, &own, &err), 0);
    assert_int_equal(rg_health_wait(own, 100, &err), -RG_STORAGE_HUNG);
    assert_non_null(strstr(err.message, "/mnt/test"));
    assert_false(rg_health_stop(own, 50));
    atomic_store(&behaviour, WELL);
    assert_true(rg_health_stop(own, 5000));
    rg_health_free(own);
}

static const json_t *table_until(const char *state, json_t **ret_document)
{
    WIRE_ANSWER(answer);
    for (int i = 0; i < 2000; i++) {
        ask("GET", "/-/ready", &answer);
        json_t *document = parse(&answer);
        const json_t *table = json_object_get(document, "mount_table");
        if (strcmp(text_of(table, "state"), state) == 0) {
            *ret_document = document;
            return table;
        }
        json_decref(document);
        usleep(5000);
    }
    fail_msg("the table of mounts is never said to be %s", state);
    return NULL;
}

/* When it cannot be started nobody is left in the store, or on the way there. */
static void test_threads_are_refused(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    WIRE_ANSWER(answer);
    const struct rg_health_config probing = {.probe_ms = 10, .hang_ms = 20};
    struct rg_health *own;
    json_t *document;
    int given = 0;
    /* Of the other one there is no call meanwhile. */
    table_until("well", &document);
    json_decref(document);
    for (; given < 10; given++) {
        atomic_store(&behaviour, HANGS);
        ask_until("/-/ready", 503, &answer);
        atomic_store(&calls, 0);
        atomic_store(&threads_given, given);
        int rc = rg_health_start(&store, &probing, &own, &err);
        atomic_store(&threads_given, -1);
        if (rc == 0) {
            break;
        }
        assert_non_null(strstr(err.message, "cannot start the thread"));
        usleep(50000);
        assert_int_equal(atomic_load(&calls), 0);
    }
    assert_in_range(given, 2, 9);
    atomic_store(&behaviour, WELL);
    assert_true(rg_health_stop(own, 5000));
    rg_health_free(own);
}

/* File systems are asked for their lines in the table: one that hangs there stops nothing else. */
static void test_the_table_of_mounts_hangs(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    json_t *document;
    table_until("well", &document);
    json_decref(document);
    atomic_store(&behaviour_of_table, HANGS);
    mount_below(true);
    const json_t *table = table_until("hangs", &document);
    assert_string_equal(text_of(document, "status"), "ready");
    assert_int_equal(strlen(text_of(table, "since")), 20);
    assert_true(json_real_value(json_object_get(table, "seconds")) >= 0.1);
    json_decref(document);
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_mount_table_well 0\n"));
    /* Mounts that are known are watched as before. */
    atomic_store(&behaviour, HANGS);
    ask_until("/-/ready", 503, &answer);
    atomic_store(&behaviour, WELL);
    ask_until("/-/ready", 200, &answer);
    assert_false(rg_health_stop(health, 50));

    atomic_store(&behaviour_of_table, WELL);
    assert_true(rg_health_stop(health, 5000));
}

static void test_the_table_of_mounts_fails(void **state)
{
    (void)state;
    json_t *document;
    table_until("well", &document);
    json_decref(document);
    atomic_store(&behaviour_of_table, FAILS);
    mount_below(true);
    const json_t *table = table_until("fails", &document);
    assert_string_equal(text_of(document, "status"), "ready");
    assert_string_equal(text_of(table, "error"), "reading the table: Input/output error");
    json_decref(document);
    atomic_store(&behaviour_of_table, WELL);
    table_until("well", &document);
    json_decref(document);
    mount_until("/mnt/test/bucket/deep", "well", &document);
    json_decref(document);
}

/* A ceiling that is met is told. */
static void test_more_mounts_than_are_watched(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    json_t *document;
    mount_below(true);
    mount_until("/mnt/test/bucket/deep", "well", &document);
    const json_t *table = json_object_get(document, "mount_table");
    assert_int_equal(json_integer_value(json_object_get(table, "unwatched")), 0);
    json_decref(document);
    atomic_store(&left_out, 7);
    atomic_store(&changed, true);
    json_int_t unwatched = 0;
    for (int i = 0; i < 2000 && unwatched != 7; i++) {
        usleep(5000);
        table = table_until("well", &document);
        unwatched = json_integer_value(json_object_get(table, "unwatched"));
        json_decref(document);
    }
    assert_int_equal(unwatched, 7);
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_mounts_unwatched 7\n"));
}

static struct rg_sweeper *_Atomic left_sweepers[2]; /* where leak checkers find them */

static struct rg_sweeper_counters counters_of(struct rg_sweeper *sweeper)
{
    struct rg_sweeper_counters counters;
    rg_sweeper_count(sweeper, &counters);
    return counters;
}

static struct rg_sweeper *begin_sweeping(uint64_t interval_ms, uint64_t patience_ms)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_sweeper *sweeper;
    const struct rg_sweeper_config config = {.interval_ms = interval_ms,
                                             .patience_ms = patience_ms};
    atomic_store(&behaviour, WELL);
    atomic_store(&sweeps, 0);
    for (unsigned i = 0; i < BUCKETS; i++) {
        atomic_store(&swept[i], 0);
    }
    assert_int_equal(rg_sweeper_start(&store, &config, &sweeper, &err), 0);
    return sweeper;
}

/* Until so many more passes are over. */
static void await_passes(struct rg_sweeper *sweeper, unsigned more)
{
    uint64_t wanted = counters_of(sweeper).passes + more;
    for (int i = 0; i < 60000 && counters_of(sweeper).passes < wanted; i++) {
        usleep(1000);
    }
    assert_true(counters_of(sweeper).passes >= wanted);
}

static void await_sweeps(unsigned bucket, unsigned wanted)
{
    for (int i = 0; i < 60000 && atomic_load(&swept[bucket]) < wanted; i++) {
        usleep(1000);
    }
    assert_true(atomic_load(&swept[bucket]) >= wanted);
}

static void await_left(struct rg_sweeper *sweeper, unsigned wanted)
{
    unsigned left;
    for (int i = 0; (left = counters_of(sweeper).left) != wanted && i < 60000; i++) {
        usleep(1000);
    }
    assert_int_equal(left, wanted);
}

static void test_sweeper(void **state)
{
    (void)state;
    struct rg_sweeper *sweeper = begin_sweeping(20, 60000);
    await_passes(sweeper, 3);
    assert_true(atomic_load(&sweeps) >= 3);
    for (unsigned i = 0; i < BUCKETS; i++) {
        await_sweeps(i, 3);
    }
    assert_int_equal(counters_of(sweeper).failures, 0);
    atomic_store(&list_fails, true);
    await_passes(sweeper, 2);
    assert_true(counters_of(sweeper).failures >= 1);
    atomic_store(&list_fails, false);
    assert_true(rg_sweeper_stop(sweeper, 60000));
    rg_sweeper_free(sweeper);
    unsigned before = atomic_load(&sweeps);
    usleep(60000);
    assert_int_equal(atomic_load(&sweeps), before);
    assert_true(rg_sweeper_stop(NULL, 0));
}

/* Those before and behind are swept, time and again; what hangs is not begun a second time. */
static void test_sweeper_leaves_what_hangs(void **state)
{
    (void)state;
    atomic_store(&hanging_from, 4);
    atomic_store(&hanging_to, 7);
    atomic_store(&sweep_hangs, true);
    struct rg_sweeper *sweeper = begin_sweeping(20, 50);
    for (unsigned i = 0; i < BUCKETS; i++) {
        await_sweeps(i, i >= 4 && i < 7 ? 1 : 3);
    }
    await_left(sweeper, 3); /* on a busy machine another may be, too, for a while */
    for (unsigned i = 4; i < 7; i++) {
        assert_int_equal(atomic_load(&swept[i]), 1);
    }
    atomic_store(&sweep_hangs, false);
    await_left(sweeper, 0);
    await_sweeps(5, 2);
    assert_true(rg_sweeper_stop(sweeper, 60000));
    rg_sweeper_free(sweeper);
}

/* One that comes back between two passes says what it failed at all the same. */
static void test_what_a_sweep_that_was_left_failed_at(void **state)
{
    (void)state;
    char said[4096] = "";
    char path[] = "/tmp/rg-test-sweep-XXXXXX";
    int log = mkstemp(path);
    assert_true(log >= 0);
    unlink(path);
    rg_log_setup(log, RG_LOG_HUMAN, RG_LOG_WARN);
    atomic_store(&hanging_from, 5);
    atomic_store(&hanging_to, 6);
    atomic_store(&hanging_fails, true);
    atomic_store(&sweep_hangs, true);
    struct rg_sweeper *sweeper = begin_sweeping(3000, 50);
    await_sweeps(BUCKETS - 1, 1);
    await_passes(sweeper, counters_of(sweeper).passes == 0);
    atomic_store(&sweep_hangs, false);
    for (int i = 0; i < 60000 && !strstr(said, "sweep.failed"); i++) {
        usleep(1000);
        ssize_t len = pread(log, said, sizeof said - 1, 0);
        said[RG_MAX(len, 0)] = '\0';
    }
    assert_true(rg_sweeper_stop(sweeper, 60000));
    rg_sweeper_free(sweeper);
    rg_log_setup(open("/dev/null", O_WRONLY | O_CLOEXEC), RG_LOG_HUMAN, RG_LOG_ERROR);
    close(log);
    const char *failed = strstr(said, "sweep.failed");
    assert_non_null(failed);
    assert_non_null(strstr(failed, "bucket=bucket-5"));
}

static unsigned count_swept(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        count += atomic_load(&swept[i]);
    }
    return count;
}

/* No more threads than there may be, and whoever stops learns that some are left. */
static void test_sweeper_where_all_hang(void **state)
{
    (void)state;
    atomic_store(&hanging_from, 0);
    atomic_store(&hanging_to, BUCKETS);
    atomic_store(&sweep_hangs, true);
    struct rg_sweeper *sweeper = begin_sweeping(20, 10);
    for (int i = 0; i < 60000 && count_swept() < 8; i++) {
        usleep(1000);
    }
    await_passes(sweeper, 3);
    assert_int_equal(count_swept(), 8);
    assert_false(rg_sweeper_stop(sweeper, 10));
    assert_int_equal(counters_of(sweeper).left, 8);
    atomic_store(&left_sweepers[0], sweeper); /* its threads end with the test */
    atomic_store(&sweep_hangs, false);
}

/* Also of one that it waited for still. */
static void test_a_sweeper_that_is_stopped_in_a_bucket(void **state)
{
    (void)state;
    atomic_store(&hanging_from, 3);
    atomic_store(&hanging_to, 4);
    atomic_store(&sweep_hangs, true);
    struct rg_sweeper *sweeper = begin_sweeping(20, 3600000);
    await_sweeps(3, 1);
    assert_int_equal(counters_of(sweeper).left, 0);
    assert_false(rg_sweeper_stop(sweeper, 10000));
    assert_int_equal(counters_of(sweeper).left, 1);
    atomic_store(&left_sweepers[1], sweeper);
    atomic_store(&sweep_hangs, false);
}

int main(void)
{
    rg_log_setup(open("/dev/null", O_WRONLY | O_CLOEXEC), RG_LOG_HUMAN, RG_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages, start, stop),
        cmocka_unit_test_setup_teardown(test_config, start, stop),
        cmocka_unit_test_setup_teardown(test_failing_mount, start, stop),
        cmocka_unit_test_setup_teardown(test_hanging_mount, start, stop),
        cmocka_unit_test_setup_teardown(test_mounts_below, start, stop),
        cmocka_unit_test_setup_teardown(test_threads_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(test_the_table_of_mounts_hangs, start, stop),
        cmocka_unit_test_setup_teardown(test_the_table_of_mounts_fails, start, stop),
        cmocka_unit_test_setup_teardown(test_more_mounts_than_are_watched, start, stop),
        cmocka_unit_test_setup_teardown(test_draining, start, stop),
        cmocka_unit_test(test_stop_while_hanging),
        cmocka_unit_test(test_sweeper),
        cmocka_unit_test(test_sweeper_leaves_what_hangs),
        cmocka_unit_test(test_what_a_sweep_that_was_left_failed_at),
        cmocka_unit_test(test_sweeper_where_all_hang),
        cmocka_unit_test(test_a_sweeper_that_is_stopped_in_a_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
