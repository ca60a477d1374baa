/* Configuration: precedence, files of profiles, and everything that is refused with a sentence. */
#include "client/config.h"
#include "client/failure.h"
#include "rdma/transport.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const char *name;
    const char *value;
} variables[16];
static char directory[64];

static const char *environment(const char *name)
{
    for (size_t i = 0; i < 16 && variables[i].name; i++) {
        if (strcmp(variables[i].name, name) == 0) {
            return variables[i].value;
        }
    }
    return NULL;
}

static void set(const char *name, const char *value)
{
    size_t i = 0;
    while (variables[i].name && strcmp(variables[i].name, name) != 0) {
        i++;
    }
    variables[i].name = name;
    variables[i].value = value;
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    memset(variables, 0, sizeof variables);
    snprintf(directory, sizeof directory, "/tmp/rg-config-XXXXXX");
    assert_non_null(mkdtemp(directory));
    char path[128];
    snprintf(path, sizeof path, "%s/.aws", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    set("HOME", directory);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void set_keys(void)
{
    set("AWS_ACCESS_KEY_ID", "AK");
    set("AWS_SECRET_ACCESS_KEY", "SK");
}

static struct rg_failure failure;

static int read_config(const struct rg_client_options *options, struct rg_config *config)
{
    memset(&failure, 0, sizeof failure);
    return rg_config_read(options, environment, config, &failure);
}

/* Expects success; the caller frees. */
static struct rg_config expect(const struct rg_client_options *options)
{
    struct rg_config config;
    if (read_config(options, &config) < 0) {
        fail_msg("%s", failure.message);
    }
    return config;
}

static void expect_failure(const struct rg_client_options *options, enum rg_status status,
                           const char *word)
{
    struct rg_config config;
    assert_int_equal(read_config(options, &config), -(int)status);
    assert_int_equal(failure.status, status);
    if (!strstr(failure.message, word)) {
        fail_msg("\"%s\" does not mention \"%s\"", failure.message, word);
    }
}

static void test_defaults(void **state)
{
    set_keys();
    struct rg_config config = expect(NULL);
    assert_string_equal(config.origin, "http://127.0.0.1:9000");
    assert_string_equal(config.host, "127.0.0.1:9000");
    assert_string_equal(config.region, "us-east-1");
    assert_string_equal(config.access_key, "AK");
    assert_string_equal(config.secret_key, "SK");
    assert_null(config.ca_file);
    assert_int_equal(config.kind_count, 3);
    assert_int_equal(config.kinds[0], RG_TRANSPORT_DC);
    assert_int_equal(config.kinds[2], RG_TRANSPORT_OFI);
    assert_int_equal(config.part_size, 64 << 20);
    assert_int_equal(config.parallel, 8);
    assert_int_equal(config.retries, 3);
    assert_int_equal(config.connect_timeout_ms, 5000);
    assert_int_equal(config.request_timeout_ms, 30000);
    rg_config_free(&config);
}

static void test_endpoints(void **state)
{
    static const struct {
        const char *text, *origin, *host, *name, *port;
    } good[] = {
        {"http://h", "http://h", "h", "h", "80"},
        {"http://h/", "http://h", "h", "h", "80"},
        {"HTTP://h:80", "http://h", "h", "h", "80"},
        {"https://s3.example.com", "https://s3.example.com", "s3.example.com", "s3.example.com",
         "443"},
        {"https://h:9000", "https://h:9000", "h:9000", "h", "9000"},
        {"http://[::1]:9000/", "http://[::1]:9000", "[::1]:9000", "::1", "9000"},
        {"http://[fe80::1]", "http://[fe80::1]", "[fe80::1]", "fe80::1", "80"},
    };
    static const char *const bad[] = {
        "h:9000",      "ftp://h",      "http://",        "http://h/path", "http://u@h",
        "http://h:0",  "http://h:",    "http://h:65536", "http://h:9x",   "http://h?a",
        "http://[::1", "http://[x]:1", "http://a b:1",   "http://h:80:"};
    set_keys();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rg_client_options options = {.endpoint = good[i].text};
        struct rg_config config = expect(&options);
        assert_string_equal(config.origin, good[i].origin);
        assert_string_equal(config.host, good[i].host);
        assert_string_equal(config.name, good[i].name);
        assert_string_equal(config.port, good[i].port);
        rg_config_free(&config);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rg_client_options options = {.endpoint = bad[i]};
        expect_failure(&options, RG_STATUS_USAGE, "endpoint");
    }
}

static void test_endpoint_ranks(void **state)
{
    set_keys();
    write_file(".aws/config", "[default]\nendpoint_url = http://profile\nservices = mine\n"
                              "[services mine]\ns3 =\n  endpoint_url = http://services\n"
                              "ec2 =\n  endpoint_url = http://ec2\n");
    struct rg_client_options options = {.endpoint = "http://option"};
    static const char *const order[] = {"http://option", "http://url-s3", "http://url",
                                        "http://services", "http://127.0.0.1:9000"};
    set("AWS_ENDPOINT_URL_S3", "http://url-s3");
    set("AWS_ENDPOINT_URL", "http://url");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct rg_config config = expect(&options);
        assert_string_equal(config.origin, order[i]);
        rg_config_free(&config);
        options.endpoint = NULL;
        if (i == 1) {
            set("AWS_ENDPOINT_URL_S3", "");
        } else if (i == 2) {
            set("AWS_ENDPOINT_URL", NULL);
        } else if (i == 3) {
            set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
        }
    }
}

static void test_credential_ranks(void **state)
{
    write_file(
        ".aws/credentials",
        "# comment\n[default]\naws_access_key_id = FILE\naws_secret_access_key = FS # not it\n"
        "; comment\n[other]\r\naws_access_key_id=OTHER\r\naws_secret_access_key=a=b#c\r\n");
    write_file(".aws/config", "[default]\nregion = eu-west-1\n[profile other]\nregion = eu-west-2\n"
                              "s3 =\n    addressing_style = virtual\n    max_queue_size = 10\n");
    struct rg_config config = expect(NULL);
    assert_string_equal(config.access_key, "FILE");
    assert_string_equal(config.secret_key, "FS");
    assert_string_equal(config.region, "eu-west-1");
    assert_false(config.virtual_host);
    rg_config_free(&config);

    set("AWS_PROFILE", "other");
    config = expect(NULL);
    assert_string_equal(config.access_key, "OTHER");
    assert_string_equal(config.secret_key, "a=b#c");
    assert_string_equal(config.region, "eu-west-2");
    assert_true(config.virtual_host);
    rg_config_free(&config);

    set_keys(); /* keys in the environment outrank a profile named there */
    set("AWS_REGION", "here");
    config = expect(NULL);
    assert_string_equal(config.access_key, "AK");
    assert_string_equal(config.region, "here");
    rg_config_free(&config);

    struct rg_client_options options = {.profile = "other"}; /* but not one that is asked for */
    config = expect(&options);
    assert_string_equal(config.access_key, "OTHER");
    rg_config_free(&config);

    options.access_key = "OPT";
    options.secret_key = "OPTS";
    options.region = "r";
    config = expect(&options);
    assert_string_equal(config.access_key, "OPT");
    assert_string_equal(config.region, "r");
    rg_config_free(&config);
}

static void test_named_files(void **state)
{
    char path[128];
    write_file("mine", "[default]\naws_access_key_id = M\naws_secret_access_key = S\n");
    snprintf(path, sizeof path, "%s/mine", directory);
    set("AWS_SHARED_CREDENTIALS_FILE", path);
    struct rg_config config = expect(NULL);
    assert_string_equal(config.access_key, "M");
    rg_config_free(&config);
    set("AWS_SHARED_CREDENTIALS_FILE", "~/mine");
    config = expect(NULL);
    assert_string_equal(config.access_key, "M");
    rg_config_free(&config);
}

static void test_credentials_refused(void **state)
{
    expect_failure(NULL, RG_STATUS_CREDENTIALS, "No credentials");
    set("AWS_ACCESS_KEY_ID", "AK");
    expect_failure(NULL, RG_STATUS_CREDENTIALS, "secret key is missing");
    set_keys();
    set("AWS_SESSION_TOKEN", "T");
    expect_failure(NULL, RG_STATUS_CREDENTIALS, "AWS_SESSION_TOKEN");
    struct rg_client_options options = {.access_key = "AK"};
    expect_failure(&options, RG_STATUS_CREDENTIALS, "The options");
    options = (struct rg_client_options){.profile = "none"};
    expect_failure(&options, RG_STATUS_USAGE, "\"none\"");
    write_file(".aws/config", "[profile sso]\nsso_start_url = https://x\n"
                              "[profile temp]\naws_access_key_id = a\naws_secret_access_key = b\n"
                              "aws_session_token = c\n");
    options.profile = "sso";
    expect_failure(&options, RG_STATUS_CREDENTIALS, "sso_start_url");
    options.profile = "temp";
    expect_failure(&options, RG_STATUS_CREDENTIALS, "session token");
}

static void test_files_refused(void **state)
{
    set_keys();
    write_file(".aws/config", "[default]\nregion = x\nnonsense\n");
    expect_failure(NULL, RG_STATUS_USAGE, "line 3");
    write_file(".aws/config", "[default\n");
    expect_failure(NULL, RG_STATUS_USAGE, "line 1");
    write_file(".aws/config", "= x\n");
    expect_failure(NULL, RG_STATUS_USAGE, "line 1");
    char path[128];
    snprintf(path, sizeof path, "%s/.aws/config", directory);
    assert_int_equal(truncate(path, RG_PROFILE_FILE_MAX + 1), 0);
    expect_failure(NULL, RG_STATUS_USAGE, "larger");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_failure(NULL, RG_STATUS_USAGE, "config");
}

static void test_numbers_refused(void **state)
{
    set_keys();
    struct rg_client_options options = {.part_size = RG_PART_SIZE_MIN - 1};
    expect_failure(&options, RG_STATUS_USAGE, "part_size");
    options.part_size = RG_PART_SIZE_MAX + 1;
    expect_failure(&options, RG_STATUS_USAGE, "part_size");
    options = (struct rg_client_options){.parallel = RG_PARALLEL_MAX + 1};
    expect_failure(&options, RG_STATUS_USAGE, "parallel");
    options = (struct rg_client_options){.retries = RG_RETRIES_MAX + 1};
    expect_failure(&options, RG_STATUS_USAGE, "retries");
    options = (struct rg_client_options){.request_timeout_ms = RG_TIMEOUT_MS_MAX + 1};
    expect_failure(&options, RG_STATUS_USAGE, "request_timeout_ms");
    options = (struct rg_client_options){.retries = RG_NO_RETRIES};
    struct rg_config config = expect(&options);
    assert_int_equal(config.retries, 0);
    rg_config_free(&config);
}

static void test_transports(void **state)
{
    set_keys();
    struct rg_client_options options = {.transports = "ofi, rc"};
    struct rg_config config = expect(&options);
    assert_int_equal(config.kind_count, 2);
    assert_int_equal(config.kinds[0], RG_TRANSPORT_OFI);
    assert_int_equal(config.kinds[1], RG_TRANSPORT_RC);
    rg_config_free(&config);
    static const char *const bad[] = {"tcp", "ofi,", "ofi,ofi", "OFI", ",", "dc,rc,ofi,dc"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.transports = bad[i];
        expect_failure(&options, RG_STATUS_USAGE, "transport");
    }
    options = (struct rg_client_options){.path = (enum rg_path_choice)7};
    expect_failure(&options, RG_STATUS_USAGE, "path");
}

static void test_dc_key(void **state)
{
    char good[128];
    char bad[128];
    set_keys();
    struct rg_client_options options = {0};
    struct rg_config config = expect(&options);
    assert_false(config.has_dc_key);
    rg_config_free(&config);
    write_file("dc-key", "0x1234567890abcdef\n");
    write_file("no-key", "secret words\n");
    snprintf(good, sizeof good, "%s/dc-key", directory);
    snprintf(bad, sizeof bad, "%s/no-key", directory);
    set("RAILGATE_RDMA_DC_KEY_FILE", good);
    config = expect(&options);
    assert_true(config.has_dc_key && config.dc_key == 0x1234567890abcdef);
    rg_config_free(&config);
    options.dc_key_file = bad; /* outranks it */
    expect_failure(&options, RG_STATUS_USAGE, "hex");
    options.dc_key_file = "/nonexistent/key";
    expect_failure(&options, RG_STATUS_USAGE, "/nonexistent/key");
}

static void test_packets(void **state)
{
    set_keys();
    struct rg_client_options options = {0};
    set("RAILGATE_RDMA_MTU", "2048");
    set("RAILGATE_RDMA_HOP_LIMIT", "9");
    set("RAILGATE_RDMA_SERVICE_LEVEL", "15");
    set("RAILGATE_RDMA_TRAFFIC_CLASS", "0");
    set("RAILGATE_RDMA_GID_INDEX", "auto");
    struct rg_config config = expect(&options);
    assert_int_equal(config.mtu, 2048);
    assert_int_equal(config.hop_limit, 9);
    assert_int_equal(config.service_level, 15);
    assert_int_equal(config.traffic_class, 0);
    assert_int_equal(config.gid_index, RG_RAIL_AUTO);
    rg_config_free(&config);
    options = (struct rg_client_options){
        .mtu = 256, .hop_limit = 255, .traffic_class = "auto", .gid_index = "255"};
    config = expect(&options); /* they outrank it */
    assert_int_equal(config.mtu, 256);
    assert_int_equal(config.hop_limit, 255);
    assert_int_equal(config.traffic_class, RG_RAIL_AUTO);
    assert_int_equal(config.gid_index, 255);
    rg_config_free(&config);
    static const struct {
        struct rg_client_options options;
        const char *name;
    } bad[] = {
        {{.mtu = 1500}, "mtu"},
        {{.mtu = 8192}, "mtu"},
        {{.hop_limit = 256}, "hop_limit"},
        {{.service_level = 16}, "service_level"},
        {{.traffic_class = "256"}, "traffic_class"},
        {{.traffic_class = "-1"}, "traffic_class"},
        {{.gid_index = "first"}, "gid_index"},
        {{.gid_index = "256"}, "gid_index"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_failure(&bad[i].options, RG_STATUS_USAGE, bad[i].name);
    }
    options = (struct rg_client_options){0};
    set("RAILGATE_RDMA_HOP_LIMIT", "0");
    expect_failure(&options, RG_STATUS_USAGE, "hop_limit");
    set("RAILGATE_RDMA_HOP_LIMIT", "1 ");
    expect_failure(&options, RG_STATUS_USAGE, "hop_limit");
}

static void test_messages_are_safe(void **state)
{
    set_keys();
    struct rg_client_options options = {.endpoint = "http://\x1b[31m\xff\xc3\xa4/x"};
    expect_failure(&options, RG_STATUS_USAGE, "http://?[31m?\xc3\xa4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dc_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endpoints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endpoint_ranks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_credential_ranks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_named_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_credentials_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_transports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_are_safe, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
