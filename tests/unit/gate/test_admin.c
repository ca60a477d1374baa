/*
 * The admin listener over a store that does as it is told: answers, fails, hangs.
 */
#include "base/clock.h"
#include "base/log.h"
#include "gate/admin.h"
#include "gate/sweeper.h"
#include "test.h"
#include "wire.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { WELL, FAILS, HANGS };

static _Atomic int behaviour;
static _Atomic unsigned sweeps;

static int probe(struct rg_store *store, struct rg_error *err)
{
    (void)store;
    while (atomic_load(&behaviour) == HANGS) {
        usleep(1000);
    }
    return atomic_load(&behaviour) == FAILS
               ? rg_failf(err, RG_STORAGE_FAULT, "looking at /mnt/test: Input/output error")
               : 0;
}

static int sweep(struct rg_store *store, struct rg_error *err)
{
    (void)store;
    atomic_fetch_add(&sweeps, 1);
    return atomic_load(&behaviour) == FAILS ? rg_fail(err, RG_STORAGE_FAULT) : 0;
}

static const struct rg_store_ops ops = {.probe = probe, .sweep = sweep};
static struct rg_store store = {.ops = &ops, .place = "/mnt/test"};

static struct rg_settings settings;
static struct rg_health *health;
static struct rg_metrics *metrics;
static struct rg_admin *admin;

static void sample(void *context, struct rg_metrics_sample *ret_sample)
{
    assert_ptr_equal(context, &settings);
    ret_sample->version = "test";
    ret_sample->http.requests = 3;
    ret_sample->http.stuck = 2;
}

static int start(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    const struct rg_health_config probing = {.probe_ms = 10, .hang_ms = 100};
    atomic_store(&behaviour, WELL);
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
                                     .store = &store,
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
    assert_true(rg_admin_close(admin));
    assert_true(rg_health_stop(health, 5000));
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
    atomic_store(&behaviour, HANGS);
    ask_until("/-/ready", 503, &answer);
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
    assert_int_equal(json_integer_value(json_object_get(mount, "requests_waiting")), 3);
    assert_int_equal(json_integer_value(json_object_get(mount, "workers_stuck")), 2);
    json_decref(document);
    assert_int_equal(ask("GET", "/-/live", &answer), 200);
    assert_int_equal(ask("GET", "/-/metrics", &answer), 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_ready 0\n"));
    assert_non_null(strstr(rg_buf_text(&answer.body), "\nrailgate_probe_failures_total 1\n"));
    assert_null(strstr(rg_buf_text(&answer.body), "\nrailgate_probe_hang_seconds 0\n"));
    atomic_store(&behaviour, WELL);
    ask_until("/-/ready", 200, &answer);
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
}

static void test_sweeper(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_sweeper *sweeper;
    atomic_store(&behaviour, WELL);
    atomic_store(&sweeps, 0);
    assert_int_equal(rg_sweeper_start(&store, 20, &sweeper, &err), 0);
    for (int i = 0; i < 5000 && rg_sweeper_passes(sweeper) < 3; i++) {
        usleep(1000);
    }
    assert_in_range(rg_sweeper_passes(sweeper), 3, 100);
    assert_true(atomic_load(&sweeps) >= 3);
    assert_true(rg_sweeper_stop(sweeper, 5000));
    unsigned before = atomic_load(&sweeps);
    usleep(60000);
    assert_int_equal(atomic_load(&sweeps), before);
    assert_true(rg_sweeper_stop(NULL, 0));
}

int main(void)
{
    rg_log_setup(open("/dev/null", O_WRONLY | O_CLOEXEC), RG_LOG_HUMAN, RG_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages, start, stop),
        cmocka_unit_test_setup_teardown(test_config, start, stop),
        cmocka_unit_test_setup_teardown(test_failing_mount, start, stop),
        cmocka_unit_test_setup_teardown(test_hanging_mount, start, stop),
        cmocka_unit_test_setup_teardown(test_draining, start, stop),
        cmocka_unit_test(test_stop_while_hanging),
        cmocka_unit_test(test_sweeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
