#include "base/settings.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct rg_settings settings;
static struct rg_error err;

static int setup(void **state)
{
    rg_error_clear(&err);
    return rg_settings_init(&settings, NULL);
}

static int teardown(void **state)
{
    rg_settings_free(&settings);
    return 0;
}

static int load(const char **argv, const char **environment, int *ret_count)
{
    int argc = 0;
    while (argv[argc]) {
        argc++;
    }
    return rg_settings_load(&settings, argv, argc, environment, ret_count, &err);
}

static const char *none[] = {NULL};

/* Every default is inside its own range, and its text form is accepted again. */
static void test_defaults_round_trip(void **state)
{
    for (int i = 0; i < RG_SETTING_COUNT; i++) {
        RG_BUF(value, 8192);
        rg_settings_value(&settings, i, &value);
        if (strcmp(rg_setting_name(i), "root-secret-key") == 0) {
            continue;
        }
        assert_int_equal(
            rg_settings_set(&settings, i, rg_buf_text(&value), RG_FROM_OPTION, "test", &err), 0);
        RG_BUF(again, 8192);
        rg_settings_value(&settings, i, &again);
        assert_string_equal(rg_buf_text(&value), rg_buf_text(&again));
    }
    assert_int_equal(settings.port, 9000);
    assert_int_equal(settings.admin_port, 9001);
    assert_string_equal(settings.region, "us-east-1");
}

static void test_rank_of_sources(void **state)
{
    char path[] = "/tmp/railgate-settings-XXXXXX";
    int fd = mkstemp(path);
    dprintf(fd, "# comment\r\n\n port = 7001\nregion=file-1 \r\nadmin-port = 7002\n");
    close(fd);
    char option[64];
    snprintf(option, sizeof option, "--config=%s", path);
    const char *argv[] = {"posix", option, "--port", "7003", "DIR", "--", "--x", NULL};
    const char *environment[] = {"PATH=/bin", "RAILGATE_PORT=7004", "RAILGATE_REGION=env-1", NULL};
    int count;
    int rc = load(argv, environment, &count);
    unlink(path);
    assert_int_equal(rc, 0);
    assert_int_equal(settings.port, 7003);
    assert_int_equal(settings.admin_port, 7002);
    assert_string_equal(settings.region, "env-1");
    assert_int_equal(settings.source[RG_SETTING_port], RG_FROM_OPTION);
    assert_int_equal(settings.source[RG_SETTING_region], RG_FROM_ENVIRONMENT);
    assert_int_equal(settings.source[RG_SETTING_admin_port], RG_FROM_FILE);
    assert_int_equal(settings.source[RG_SETTING_durability], RG_FROM_DEFAULT);
    assert_int_equal(count, 3);
    assert_string_equal(argv[0], "posix");
    assert_string_equal(argv[1], "DIR");
    assert_string_equal(argv[2], "--x");
}

static void refuse(const char **argv, const char **environment, const char *named)
{
    int count;
    assert_int_equal(load(argv, environment, &count), -RG_SETTING);
    assert_non_null(strstr(err.message, named));
    assert_null(strchr(err.message, '\n'));
}

static void test_bad_settings_stop(void **state)
{
    refuse((const char *[]){"--ports", "1", NULL}, none, "ports");
    refuse((const char *[]){"--port", NULL}, none, "port");
    refuse((const char *[]){"--port", "65536", NULL}, none, "port");
    refuse((const char *[]){"--port", "-1", NULL}, none, "port");
    refuse((const char *[]){"--port", "80x", NULL}, none, "port");
    refuse((const char *[]){"--port", "", NULL}, none, "port");
    refuse((const char *[]){"--Port", "80", NULL}, none, "port");
    refuse((const char *[]){"-p", "80", NULL}, none, "-p");
    refuse((const char *[]){"--durability", "Full", NULL}, none, "durability");
    refuse((const char *[]){"--root-secret-key", "x", NULL}, none, "root-secret-key");
    refuse((const char *[]){"--put-size-max", "1X", NULL}, none, "put-size-max");
    refuse((const char *[]){"--put-size-max", "99999999999999999999T", NULL}, none, "put-size-max");
    refuse((const char *[]){"--file-mode", "0999", NULL}, none, "file-mode");
    refuse((const char *[]){"--idle-timeout", "1ms", NULL}, none, "idle-timeout");
    refuse(none, (const char *[]){"RAILGATE_PROT=1", NULL}, "RAILGATE_PROT");
    refuse(none, (const char *[]){"RAILGATE_port=1", NULL}, "RAILGATE_port");
    refuse(none, (const char *[]){"RAILGATE_PORT=eighty", NULL}, "RAILGATE_PORT");
    refuse((const char *[]){"--config", "/nonexistent", NULL}, none, "config");
}

static void test_bad_file_names_the_line(void **state)
{
    static const char *const files[][2] = {
        {"port = 1\nprot = 2\n", ":2"},        {"port\n", ":1"},
        {"PORT = 1\n", "spelt port"},          {"config = /x\n", "config"},
        {"durability = weak\n", "durability"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[] = "/tmp/railgate-settings-XXXXXX";
        int fd = mkstemp(path);
        dprintf(fd, "%s", files[i][0]);
        close(fd);
        refuse((const char *[]){"--config", path, NULL}, none, files[i][1]);
        unlink(path);
    }
}

static void test_scales(void **state)
{
    const char *argv[] = {
        "--put-size-max", "2G",          "--idle-timeout", "90", "--drain-timeout",
        "1500ms",         "--file-mode", "0600",           NULL};
    int count;
    assert_int_equal(load(argv, none, &count), 0);
    assert_int_equal(settings.put_size_max, INT64_C(2) << 30);
    assert_int_equal(settings.idle_timeout, 90000);
    assert_int_equal(settings.drain_timeout, 1500);
    assert_int_equal(settings.file_mode, 0600);
}

static void test_secrets_are_not_shown(void **state)
{
    int count;
    assert_int_equal(load(none, (const char *[]){"RAILGATE_ROOT_SECRET_KEY=hush", NULL}, &count),
                     0);
    assert_string_equal(settings.root_secret_key, "hush");
    RG_BUF(out, 1 << 20);
    rg_settings_show(&settings, &out);
    rg_settings_help(&out);
    rg_settings_reference(&out);
    assert_true(rg_buf_ok(&out));
    assert_null(strstr(rg_buf_text(&out), "hush"));
    assert_null(strstr(rg_buf_text(&out), "| ;")); /* every number has a unit */
    for (int i = 0; i < RG_SETTING_COUNT; i++) {
        assert_non_null(strstr(rg_buf_text(&out), rg_setting_name(i)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rank_of_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_settings_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_file_names_the_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scales, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secrets_are_not_shown, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
