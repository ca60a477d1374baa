/*
 * The gateway as `railgate serve` uses it, over a store that only answers probes: that its parts
 * are put together, and taken apart, rightly. What the verbs do is tested elsewhere.
 */
#include "gate/gateway.h"

#include "base/clock.h"
#include "base/log.h"
#include "test.h"
#include "wire.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic bool hangs;
static _Atomic bool table_hangs;
static _Atomic unsigned table_calls;
static _Atomic bool counters_hang;
static _Atomic unsigned counter_calls;
static _Atomic unsigned sweeps;

static int probe(struct rg_store *store, struct rg_store_memory *memory, struct rg_error *err)
{
    (void)store;
    (void)memory;
    (void)err;
    while (atomic_load(&hangs) || (atomic_load(&table_hangs) && atomic_load(&table_calls) == 0)) {
        usleep(1000);
    }
    return 0;
}

static int sweep(struct rg_store *store, struct span bucket, struct rg_error *err)
{
    (void)store;
    (void)bucket;
    (void)err;
    atomic_fetch_add(&sweeps, 1);
    return 0;
}

static int list_buckets(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                        size_t *ret_count, struct rg_error *err)
{
    (void)store;
    (void)err;
    *ret_buckets = NULL;
    *ret_count = 0;
    return 0;
}

static void counters(struct rg_store *store, struct rg_store_counters *ret_counters)
{
    (void)store;
    atomic_fetch_add(&counter_calls, 1);
    while (atomic_load(&counters_hang)) {
        usleep(1000);
    }
    *ret_counters = (struct rg_store_counters){.swept_temporaries = 42};
}

static int mounts(struct rg_store *store, struct rg_store_mount **ret_mounts, size_t *ret_count,
                  size_t *ret_left_out, struct rg_error *err)
{
    (void)store;
    (void)err;
    atomic_fetch_add(&table_calls, 1);
    while (atomic_load(&table_hangs)) {
        usleep(1000);
    }
    *ret_mounts = NULL;
    *ret_count = *ret_left_out = 0;
    return 0;
}

static const struct rg_store_ops ops = {.bucket_list = list_buckets,
                                        .probe = probe,
                                        .sweep = sweep,
                                        .counters = counters,
                                        .mounts = mounts};
static struct rg_store store = {.ops = &ops, .place = "/mnt/test"};

static struct rg_settings settings;
static struct rg_gateway *gateway;
static struct rg_gateway *left[8]; /* what a hang kept, where leak checkers find it */
static bool in_use;
static char dir[64];

static void set(enum rg_setting_id id, const char *value)
{
    struct rg_error err = RG_ERROR_INIT;
    if (rg_settings_set(&settings, id, value, RG_FROM_OPTION, "test", &err) < 0) {
        fail_msg("%s", err.message);
    }
}

static void path_in_dir(const char *name, char *path, size_t room)
{
    snprintf(path, room, "%s/%s", dir, name);
}

static int prepare(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    char path[128];
    atomic_store(&hangs, false);
    atomic_store(&table_hangs, false);
    atomic_store(&table_calls, 0);
    atomic_store(&counters_hang, false);
    atomic_store(&counter_calls, 0);
    atomic_store(&sweeps, 0);
    snprintf(dir, sizeof dir, "/tmp/rg-test-gateway-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(rg_settings_init(&settings, &err), 0);
    set(RG_SETTING_address, "127.0.0.1");
    set(RG_SETTING_port, "0");
    set(RG_SETTING_admin_port, "0");
    set(RG_SETTING_root_access_key, "TESTACCESSKEY0000001");
    set(RG_SETTING_root_secret_key, "testSecretKey/0123456789abcdefghijklmnop");
    set(RG_SETTING_sweep_interval, "10ms");
    set(RG_SETTING_drain_timeout, "5s");
    path_in_dir("access.log", path, sizeof path);
    set(RG_SETTING_access_log, path);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    rg_settings_free(&settings);
    return 0;
}

static void open_gateway(void)
{
    struct rg_error err = RG_ERROR_INIT;
    if (rg_gateway_open(&settings, &store, &gateway, &in_use, &err) < 0) {
        fail_msg("%s", err.message);
    }
}

static void ask(uint16_t port, const char *path, struct wire_answer *answer)
{
    char request[256];
    int fd = wire_connect(port);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n",
             path);
    wire_send(fd, request);
    wire_read(fd, answer, false);
    close(fd);
}

/* The log's lines appear after the answers. */
static void wait_for_line(const char *name, const char *wanted)
{
    char path[128];
    char text[8192] = "";
    path_in_dir(name, path, sizeof path);
    for (int i = 0; i < 5000 && !strstr(text, wanted); i++) {
        rg_autofclose FILE *file = fopen(path, "r");
        size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
        text[len] = '\0';
        usleep(1000);
    }
    if (!strstr(text, wanted)) {
        fail_msg("%s is not in %s: %s", wanted, path, text);
    }
}

static void test_serves_and_tells(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    open_gateway();
    ask(rg_gateway_admin_port(gateway), "/-/ready", &answer);
    assert_int_equal(answer.status, 200);
    assert_null(strstr(rg_buf_text(&answer.body), "\"host\""));
    assert_int_equal(rg_gateway_set_host(gateway, "{\"verdict\":\"warn\"}", NULL), 0);
    ask(rg_gateway_admin_port(gateway), "/-/ready", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\"verdict\": \"warn\""));
    ask(rg_gateway_port(gateway), "/bucket/some%20key?x-id=GetObject", &answer);
    assert_int_equal(answer.status, 403);
    char id[32];
    snprintf(id, sizeof id, "%s", wire_field(&answer, "x-amz-request-id"));
    assert_int_equal(strlen(id), 16);
    char line[256];
    snprintf(line, sizeof line,
             " 127.0.0.1 - %s REST.GET.OBJECT some%%20key "
             "\"GET /bucket/some%%20key?x-id=GetObject HTTP/1.1\" 403 AccessDenied ",
             id);
    wait_for_line("access.log", line);
    wait_for_line("access.log", " \"-\" \"test\" - ");
    snprintf(line, sizeof line, " %s - - - a - - -\n", wire_field(&answer, "x-amz-id-2"));
    wait_for_line("access.log", line);
    ask(rg_gateway_admin_port(gateway), "/-/metrics", &answer);
    const char *text = rg_buf_text(&answer.body);
    assert_non_null(
        strstr(text, "\nrailgate_requests_total{operation=\"GetObject\",status=\"403\"} 1\n"));
    assert_non_null(strstr(text, "\nrailgate_swept_temporaries_total 42\n"));
    assert_non_null(
        strstr(text, "\nrailgate_errors_total{code=\"AccessDenied\",cause=\"ACCESS_DENIED\"} 1\n"));
    for (int i = 0; i < 5000 && atomic_load(&sweeps) < 2; i++) {
        usleep(1000);
    }
    assert_true(atomic_load(&sweeps) >= 2);
    /* A request that HTTP itself refuses is answered in S3's words, and counted. */
    int fd = wire_connect(rg_gateway_port(gateway));
    wire_send(fd, "GET / HTTP/1.1\r\n\r\n");
    wire_read(fd, &answer, false);
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(rg_buf_text(&answer.body), "<Code>BadRequest</Code>"));
    close(fd);
    wait_for_line("access.log", " 400 BadRequest ");
    assert_int_equal(rg_gateway_close(gateway), 0);
}

static void test_reload(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    char from[128];
    char to[128];
    open_gateway();
    path_in_dir("access.log", from, sizeof from);
    path_in_dir("access.log.1", to, sizeof to);
    assert_int_equal(rename(from, to), 0);
    ask(rg_gateway_port(gateway), "/one", &answer);
    wait_for_line("access.log.1", "\"GET /one HTTP/1.1\"");
    rg_gateway_reload(gateway);
    ask(rg_gateway_port(gateway), "/two", &answer);
    wait_for_line("access.log", "\"GET /two HTTP/1.1\"");
    assert_int_equal(rg_gateway_close(gateway), 0);
}

static void assert_refused(enum rg_code code, const char *words)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_gateway *none = NULL;
    assert_int_equal(rg_gateway_open(&settings, &store, &none, &in_use, &err), -(int)code);
    if (!strstr(err.message, words)) {
        fail_msg("%s is not in: %s", words, err.message);
    }
}

static void test_bad_settings(void **state)
{
    (void)state;
    char number[16];
    open_gateway();
    snprintf(number, sizeof number, "%u", rg_gateway_port(gateway));
    set(RG_SETTING_port, number);
    assert_refused(RG_SERVICE_UNAVAILABLE, "S3 listener");
    set(RG_SETTING_port, "0");
    set(RG_SETTING_admin_port, number);
    assert_refused(RG_SERVICE_UNAVAILABLE, "admin listener");
    set(RG_SETTING_admin_port, "0");
    set(RG_SETTING_access_log, "/nonexistent/log");
    assert_refused(RG_SETTING, "/nonexistent/log");
    set(RG_SETTING_access_log, "");
    set(RG_SETTING_tls_cert, "/nonexistent/cert");
    assert_refused(RG_SETTING, "tls-key");
    set(RG_SETTING_tls_cert, "");
    set(RG_SETTING_root_secret_key, "");
    assert_refused(RG_SETTING, "root-secret-key");
    assert_int_equal(rg_gateway_close(gateway), 0);
}

static void close_with_threads_left(void)
{
    size_t i = 0;
    while (left[i]) {
        i++;
    }
    left[i] = gateway;
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(rg_gateway_close(gateway), 1);
    assert_true(rg_clock_ms() - begun_ms < 10000);
}

/* A mount that hangs does not keep the gateway from closing; the caller learns of it. */
static void test_close_while_hanging(void **state)
{
    (void)state;
    WIRE_ANSWER(answer);
    open_gateway();
    atomic_store(&hangs, true);
    uint64_t begun_ms = rg_clock_ms();
    do {
        ask(rg_gateway_admin_port(gateway), "/-/ready", &answer);
        usleep(10000);
    } while (answer.status == 200 && rg_clock_ms() - begun_ms < 10000);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(rg_buf_text(&answer.body), "\"/mnt/test\""));
    close_with_threads_left();
    /* As the process would end now, what its thread uses is not freed. */
    atomic_store(&hangs, false);
}

/* Nor does a table of mounts that hangs; and a start that fails then says what is in use. */
static void test_close_while_the_table_hangs(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_gateway *none = NULL;
    char number[16];
    open_gateway();
    for (int i = 0; i < 5000 && atomic_load(&table_calls) == 0; i++) {
        usleep(1000);
    }
    snprintf(number, sizeof number, "%u", rg_gateway_port(gateway));
    set(RG_SETTING_port, number);
    assert_int_equal(rg_gateway_open(&settings, &store, &none, &in_use, &err),
                     -RG_SERVICE_UNAVAILABLE);
    assert_false(in_use);
    atomic_store(&table_calls, 0);
    atomic_store(&table_hangs, true); /* and no probe answers before somebody hangs in it */
    assert_int_equal(rg_gateway_open(&settings, &store, &none, &in_use, &err),
                     -RG_SERVICE_UNAVAILABLE);
    assert_true(in_use);
    assert_int_equal(rg_gateway_close(gateway), 0);
    set(RG_SETTING_port, "0");
    atomic_store(&table_calls, 0);
    open_gateway();
    close_with_threads_left();
    atomic_store(&table_hangs, false);
}

static void *ask_for_metrics(void *argument)
{
    (void)argument;
    int fd = wire_connect(rg_gateway_admin_port(gateway));
    wire_send(fd, "GET /-/metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    return (void *)(intptr_t)fd;
}

static bool has_thread(const char *name)
{
    char command[128];
    snprintf(command, sizeof command, "grep -qx %s /proc/%d/task/*/comm 2>/dev/null", name,
             getpid());
    return system(command) == 0;
}

/* A handler that is left at the end still finds all that it looks at. */
static void test_close_cuts_a_handler_off(void **state)
{
    (void)state;
    open_gateway();
    atomic_store(&counters_hang, true);
    pthread_t client;
    void *fd;
    assert_int_equal(pthread_create(&client, NULL, ask_for_metrics, NULL), 0);
    for (int i = 0; i < 5000 && atomic_load(&counter_calls) == 0; i++) {
        usleep(1000);
    }
    assert_int_equal(pthread_join(client, &fd), 0);
    assert_int_equal(atomic_load(&counter_calls), 1);
    close_with_threads_left();
    assert_true(has_thread("rg-worker"));
    atomic_store(&counters_hang, false);
    for (int i = 0; i < 1000 && has_thread("rg-worker"); i++) {
        usleep(5000);
    }
    assert_false(has_thread("rg-worker"));
    close((int)(intptr_t)fd);
}

int main(void)
{
    rg_log_setup(open("/dev/null", O_WRONLY | O_CLOEXEC), RG_LOG_HUMAN, RG_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_serves_and_tells, prepare, clean),
        cmocka_unit_test_setup_teardown(test_reload, prepare, clean),
        cmocka_unit_test_setup_teardown(test_bad_settings, prepare, clean),
        cmocka_unit_test_setup_teardown(test_close_while_hanging, prepare, clean),
        cmocka_unit_test_setup_teardown(test_close_while_the_table_hangs, prepare, clean),
        cmocka_unit_test_setup_teardown(test_close_cuts_a_handler_off, prepare, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
