/* What the client commands reckon and read: figures of bench, options, words, names. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/places.h"
#include "cli/remote.h"

#include "base/span.h"

#include "test.h"

#include <stdarg.h>
#include <stdlib.h>

/* ---- What main.c has ---- */

static char complaint[4096];

int rg_cli_fail_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(complaint, sizeof complaint, format, args);
    va_end(args);
    return RG_EXIT_USAGE;
}

int rg_cli_print(const struct rg_buf *text)
{
    return RG_EXIT_OK;
}

/* ---- Percentiles ---- */

/* The definition, by counting: the least latency that at least that share does not exceed. */
static uint64_t by_counting(const uint64_t *sorted, size_t count, unsigned percent)
{
    for (size_t i = 0; i < count; i++) {
        size_t below = 0;
        for (size_t j = 0; j < count; j++) {
            below += sorted[j] <= sorted[i];
        }
        if (below * 100 >= (size_t)percent * count) {
            return sorted[i];
        }
    }
    return 0;
}

static double percentile(const uint64_t *sorted, size_t count, unsigned percent)
{
    return rg_cli_bench_percentile_ms(sorted, count, percent);
}

static void test_percentiles(void **state)
{
    static const unsigned percents[] = {50, 90, 99, 100};
    uint64_t ladder[1000];
    for (size_t i = 0; i < 1000; i++) {
        ladder[i] = (i + 1) * 1000000; /* 1 ms, 2 ms ... */
    }
    /* 1 to 100 ms: the 50th, 90th and 99th are what anybody would say. */
    assert_true(percentile(ladder, 100, 50) == 50);
    assert_true(percentile(ladder, 100, 90) == 90);
    assert_true(percentile(ladder, 100, 99) == 99);
    assert_true(percentile(ladder, 10, 99) == 10);
    assert_true(percentile(ladder, 1, 50) == 1);
    assert_true(percentile(ladder, 2, 50) == 1);
    for (size_t count = 1; count <= 1000; count += count < 120 ? 1 : 97) {
        for (size_t i = 0; i < RG_ARRAY_LENGTH(percents); i++) {
            assert_true(percentile(ladder, count, percents[i]) ==
                        (double)by_counting(ladder, count, percents[i]) / 1e6);
        }
    }
    /* Two peaks: one operation in twenty is slow. */
    for (size_t i = 0; i < 1000; i++) {
        ladder[i] = i < 950 ? 2000000 : 800000000;
    }
    assert_true(percentile(ladder, 1000, 50) == 2 && percentile(ladder, 1000, 90) == 2);
    assert_true(percentile(ladder, 1000, 99) == 800);
}

/* ---- What bench shows ---- */

static struct rg_cli_bench_cell cell_of(enum rg_path_choice path, uint64_t witness_bytes)
{
    return (struct rg_cli_bench_cell){
        .path = path,
        .size = 1 << 20,
        .concurrency = 4,
        .operations = 512,
        .bytes = (uint64_t)512 << 20,
        .seconds = 2,
        .client_cpu_s = 0.25,
        .has_server_cpu = true,
        .server_cpu_s = 1.5,
        .has_witness = true,
        .witness_bytes = witness_bytes,
        .went = "rdma:rc",
    };
}

static void test_witness(void **state)
{
    struct rg_cli_bench_cell cell = cell_of(RG_PATH_RDMA_ONLY, (uint64_t)512 << 20);
    assert_true(rg_cli_bench_witness(&cell) == 1);
    cell.witness_bytes /= 2;
    assert_true(rg_cli_bench_witness(&cell) == 0.5);
    cell.witness_bytes = 0;
    assert_true(rg_cli_bench_witness(&cell) == 0);
    cell.bytes = 0;
    assert_true(rg_cli_bench_witness(&cell) == 0);
    cell = cell_of(RG_PATH_HTTP_ONLY, 0);
    assert_true(rg_cli_bench_witness(&cell) == 0);
    cell.witness_bytes = 1; /* nothing may go by RDMA there */
    assert_true(rg_cli_bench_witness(&cell) > 1e300);
}

static void test_figures(void **state)
{
    struct rg_cli_bench_cell cell = cell_of(RG_PATH_RDMA_ONLY, (uint64_t)256 << 20);
    RG_BUF(row, 4096);
    RG_BUF(json, 4096);
    rg_cli_bench_table_row(&cell, &row);
    rg_cli_bench_json(&cell, 1, &json);
    const char *text = rg_buf_text(&row);
    assert_non_null(strstr(text, " 256.0 "));   /* MiB/s: 512 MiB in 2 s */
    assert_non_null(strstr(text, "    0.50 ")); /* of the client's processor for a GiB */
    assert_non_null(strstr(text, "    3.00 ")); /* of the server's */
    assert_non_null(strstr(text, "  0.500  rdma:rc"));
    text = rg_buf_text(&json);
    assert_non_null(strstr(text, "\"mib_per_s\":256.000,"));
    assert_non_null(strstr(text, "\"client_cpu_s\":0.2500"));
    assert_non_null(strstr(text, "\"witness_ratio\":0.500000"));
    /* What was not measured is not shown as a number. */
    cell.has_witness = cell.has_server_cpu = false;
    rg_buf_clear(&json);
    rg_cli_bench_json(&cell, 1, &json);
    assert_null(strstr(rg_buf_text(&json), "witness"));
    assert_null(strstr(rg_buf_text(&json), "server_cpu"));
    /* Words from outside are no JSON. */
    cell.failures = 1;
    snprintf(cell.failure, sizeof cell.failure, "a \"b\" \\ \n c");
    rg_buf_clear(&json);
    rg_cli_bench_json(&cell, 1, &json);
    assert_non_null(
        strstr(rg_buf_text(&json), "\"failure\":\"a \\u0022b\\u0022 \\u005c \\u000a c\""));
}

/* ---- Options ---- */

static struct {
    bool all;
    bool quick;
    const char *name;
    uint64_t number;
    uint64_t count;
    uint64_t size;
    uint64_t retries;
    enum rg_path_choice path;
} got;

static const struct rg_cli_option table[] = {
    {"all", 'a', RG_CLI_FLAG, &got.all, NULL, ""},
    {"quick", 'q', RG_CLI_FLAG, &got.quick, NULL, ""},
    {"name", 'n', RG_CLI_TEXT, &got.name, "NAME", ""},
    {"number", 0, RG_CLI_NUMBER, &got.number, "N", ""},
    {"count", 'c', RG_CLI_COUNT, &got.count, "N", ""},
    {"size", 0, RG_CLI_SIZE, &got.size, "SIZE", ""},
    {"retries", 0, RG_CLI_RETRIES, &got.retries, "N", ""},
    {"path", 0, RG_CLI_PATH, &got.path, "PATH", ""},
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

/* Reads the words of a line; their number without options, or -1 when they are refused. */
static int read_line(const char *line)
{
    static char text[256];
    const char *words[16];
    int argc = 0;
    int count = -1;
    memset(&got, 0, sizeof got);
    complaint[0] = '\0';
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        words[argc++] = word;
    }
    int status = rg_cli_read_options("x", table, argc, words, &count);
    assert_int_equal(status, complaint[0] ? RG_EXIT_USAGE : RG_EXIT_OK);
    return status == RG_EXIT_OK ? count : -1;
}

static void test_options(void **state)
{
    assert_int_equal(read_line("one -aq two"), 2);
    assert_true(got.all && got.quick);
    assert_int_equal(read_line("-c8 -a"), 0);
    assert_true(got.all && got.count == 8);
    assert_int_equal(read_line("-ac 7 x"), 1);
    assert_true(got.all && got.count == 7);
    assert_int_equal(read_line("--name=-x --size 3K - -- -a --all"), 3);
    assert_true(!got.all && got.size == 3072 && strcmp(got.name, "-x") == 0);
    assert_int_equal(read_line("--number 0 --retries 0 --path http"), 0);
    assert_true(got.retries == RG_CLI_NO_RETRIES && got.path == RG_PATH_HTTP_ONLY);
    assert_int_equal(read_line("--retries 5"), 0);
    assert_true(got.retries == 5);
}

static void test_options_refused(void **state)
{
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"-x", "-x"},
        {"-ax", "-x"},
        {"-all", "--all"},
        {"--al", "--al"},
        {"--all=1", "takes no value"},
        {"--name", "lacks its value"},
        {"-c", "lacks its value"},
        {"--count 0", "--count"},
        {"-c0", "--count"},
        {"--size 0", "--size"},
        {"--size 5X", "--size"},
        {"--size 99999999999999999999", "--size"},
        {"--size 99999999999T", "--size"},
        {"--number -1", "--number"},
        {"--retries x", "--retries"},
        {"--path RDMA", "--path"},
        {"--name=", "--name"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        assert_int_equal(read_line(rows[i].line), -1);
        assert_non_null(strstr(complaint, rows[i].said));
    }
}

/* ---- Words ---- */

static void test_urls(void **state)
{
    struct rg_cli_url url;
    assert_true(rg_cli_read_url("s3://b/a%20b+c/", &url));
    assert_string_equal(url.bucket, "b");
    assert_string_equal(url.key, "a%20b+c/");
    assert_true(rg_cli_read_url("s3://", &url) && !url.bucket[0]);
    static const struct {
        const char *text, *said;
        bool misspelt;
    } rows[] = {
        {"s3:/b/k", "two slashes", true},
        {"S3://b/k", "small letters", true},
        {"s3:b", "two slashes", true},
        {"http://host/b/k", "--endpoint", true},
        {"HTTPS://host/b/k", "--endpoint", true},
        {"s3:///k", "names no bucket", false},
        {"b/k", "FORM", false},
        {"s3", "FORM", false},
        {"./s3:/b", "FORM", false},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        assert_false(rg_cli_read_url(rows[i].text, &url));
        assert_int_equal(rg_cli_is_misspelt(rows[i].text), rows[i].misspelt);
        assert_int_equal(rg_cli_fail_url("x", rows[i].text, "FORM"), RG_EXIT_USAGE);
        assert_non_null(strstr(complaint, rows[i].said));
        assert_non_null(strstr(complaint, rows[i].text));
    }
    (void)rg_cli_fail_url("x", "\033[2J", "FORM");
    assert_null(strchr(complaint, 033));
}

static void test_names(void **state)
{
    static const char *const dangerous[] = {"",    "..",  "../x", "a/../b", "a//b", "/a",  ".",
                                            "./a", "a/.", "a/..", "//",     "/",    "a//", "a/../"};
    static const char *const fine[] = {"a",    "a/b", "a/", "...", "..a", "a..",
                                       ".a/b", "-rf", "\n", "a b", "~",   "a\\..\\b"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(dangerous); i++) {
        assert_non_null(rg_cli_name_danger(dangerous[i]));
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fine); i++) {
        assert_null(rg_cli_name_danger(fine[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),     cmocka_unit_test(test_witness),
        cmocka_unit_test(test_figures),         cmocka_unit_test(test_options),
        cmocka_unit_test(test_options_refused), cmocka_unit_test(test_urls),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
