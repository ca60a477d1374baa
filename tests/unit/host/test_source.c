/* Reading trees and the machine: bounds, links, errors, capturing; probes that hang. */
#include "test.h"
#include "tree.h"

#include "host/examine.h"
#include "host/source.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char *root;
static struct rg_source *source;

static void open_tree(const char *changes)
{
    struct rg_host_plan plan;
    struct rg_error err;
    root = tree_make("none", changes, &plan);
    assert_int_equal(rg_source_open(root, &source, &err), 0);
}

static int close_tree(void **state)
{
    (void)state;
    rg_source_close(source);
    source = NULL;
    if (root) {
        tree_remove(root);
    }
    root = NULL;
    return 0;
}

/* ---- Reading ---- */

static void test_three_ways_to_fail(void **state)
{
    (void)state;
    struct rg_text text;
    struct rg_number number;
    open_tree("/a = 17\n/b = seventeen\n/c !EACCES\n/d = a\\nb\n/e =\n/f /");
    rg_source_number(source, &number, "/a");
    assert_int_equal(number.at.state, RG_READ_OK);
    assert_int_equal(number.value, 17);
    assert_string_equal(number.at.path, "/a");
    rg_source_number(source, &number, "/b");
    assert_int_equal(number.at.state, RG_READ_MALFORMED);
    rg_source_number(source, &number, "/%s", "c");
    assert_int_equal(number.at.state, RG_READ_UNREADABLE);
    assert_int_equal(number.at.os_errno, EACCES);
    rg_source_number(source, &number, "/nothing");
    assert_int_equal(number.at.state, RG_READ_MISSING);
    rg_source_number(source, &number, "/e");
    assert_int_equal(number.at.state, RG_READ_MALFORMED);
    rg_source_text(source, &text, "/d");
    assert_string_equal(text.text, "a");
    rg_source_text(source, &text, "/f");
    assert_int_equal(text.at.state, RG_READ_MALFORMED);
    rg_source_text(source, &text, "/a/b");
    assert_int_equal(text.at.state, RG_READ_MISSING);
}

static void expect_number(const char *text, bool valid, int64_t value)
{
    int64_t got = -99;
    assert_int_equal(rg_host_parse_number(text, &got), valid);
    if (valid) {
        assert_int_equal(got, value);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    expect_number("0", true, 0);
    expect_number("-1", true, -1);
    expect_number("+5", true, 5);
    expect_number("0x1F", true, 31);
    expect_number("18446744073709551615", true, INT64_MAX);
    expect_number("18446744073709551616", false, 0);
    expect_number("", false, 0);
    expect_number("-", false, 0);
    expect_number("0x", false, 0);
    expect_number("12 ", false, 0);
    expect_number("1a", false, 0);
}

static void test_links_stay_inside(void **state)
{
    (void)state;
    struct rg_text text;
    char outside[512];
    char changes[2048];
    snprintf(outside, sizeof outside, "%s/rg-outside-%d", "/tmp", (int)getpid());
    FILE *file = fopen(outside, "we");
    assert_non_null(file);
    fputs("secret\n", file);
    fclose(file);
    snprintf(changes, sizeof changes,
             "/etc/passwd = inside\n/absolute -> /etc/passwd\n/up -> ../../../../../../etc/passwd\n"
             "/out -> %s\n/loop -> /loop\n/deep/x -> ../etc",
             outside);
    open_tree(changes);
    rg_source_text(source, &text, "/absolute");
    assert_string_equal(text.text, "inside");
    rg_source_text(source, &text, "/up");
    assert_string_equal(text.text, "inside");
    rg_source_text(source, &text, "/deep/x/passwd");
    assert_string_equal(text.text, "inside");
    rg_source_text(source, &text, "/out");
    assert_int_equal(text.at.state, RG_READ_MISSING);
    rg_source_text(source, &text, "%s", outside);
    assert_int_equal(text.at.state, RG_READ_MISSING);
    rg_source_text(source, &text, "/../../..%s", outside);
    assert_int_equal(text.at.state, RG_READ_MISSING);
    rg_source_text(source, &text, "/loop");
    assert_int_equal(text.at.state, RG_READ_UNREADABLE);
    rg_source_link(source, &text, "/absolute");
    assert_string_equal(text.text, "passwd");
    rg_source_link(source, &text, "/etc/passwd");
    assert_int_equal(text.at.state, RG_READ_MISSING);
    unlink(outside);
}

static void test_strange_files(void **state)
{
    (void)state;
    char path[1024];
    struct rg_text text;
    RG_BUF(buf, 4096);
    struct rg_reading at;
    open_tree("/binary = a\x01\x02");
    snprintf(path, sizeof path, "%s/fifo", root);
    assert_int_equal(mkfifo(path, 0644), 0);
    rg_source_text(source, &text, "/fifo");
    assert_int_equal(text.at.state, RG_READ_MALFORMED);
    rg_source_text(source, &text, "/binary");
    assert_int_equal(text.at.state, RG_READ_MALFORMED);
    snprintf(path, sizeof path, "%s/huge", root);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)1 << 40), 0);
    fclose(file);
    rg_source_read(source, &buf, &at, "/huge");
    assert_int_equal(at.state, RG_READ_OK);
    assert_true(at.truncated);
    assert_int_equal(buf.len, 4096);
    rg_source_text(source, &text, "/huge");
    assert_int_equal(text.at.state, RG_READ_MALFORMED);
    rg_source_text(source, &text, "/%0500d", 1);
    assert_int_equal(text.at.state, RG_READ_UNREADABLE);
    assert_int_equal(text.at.os_errno, ENAMETOOLONG);
}

static void test_lists(void **state)
{
    (void)state;
    struct rg_names names;
    open_tree("/list/b10 = x\n/list/b9 = x\n/list/a /");
    rg_source_list(source, &names, "/list");
    assert_int_equal(names.count, 3);
    assert_string_equal(names.name[1], "b9");
    assert_string_equal(names.name[2], "b10");
    rg_names_free(&names);
    rg_source_list(source, &names, "/list/b9");
    assert_int_equal(names.at.state, RG_READ_MISSING);
    rg_names_free(&names);
    for (int i = 0; i < RG_HOST_NAMES_MAX + 10; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/list/a/%d", root, i);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    rg_source_list(source, &names, "/list/a");
    assert_int_equal(names.count, RG_HOST_NAMES_MAX);
    assert_true(names.at.truncated);
    rg_names_free(&names);
}

static void test_avoided(void **state)
{
    (void)state;
    struct rg_number number;
    open_tree("/sys/x/y = 1\n/sys/xx = 2");
    rg_source_avoid(source, "/sys/x");
    rg_source_number(source, &number, "/sys/x/y");
    assert_int_equal(number.at.state, RG_READ_UNREADABLE);
    assert_int_equal(number.at.os_errno, ETIMEDOUT);
    rg_source_number(source, &number, "/sys/xx");
    assert_int_equal(number.value, 2);
}

/* ---- Probes ---- */

static int say(void *argument, int fd)
{
    return rg_probe_write(fd, argument, strlen(argument));
}

static int hang(void *argument, int fd)
{
    (void)argument;
    (void)rg_probe_write(fd, "begun", 5);
    /* Neither a signal that can be ignored nor a child of its own helps it to stay. */
    (void)signal(SIGTERM, SIG_IGN);
    if (fork() == 0) {
        pause();
    }
    while (getpid() > 0) {
        pause();
    }
    return 0;
}

static int crash(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    (void)signal(SIGABRT, SIG_DFL);
    (void)raise(SIGKILL);
    return 0;
}

static int flood(void *argument, int fd)
{
    (void)argument;
    char piece[1000];
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < 500; i++) {
        if (rg_probe_write(fd, piece, sizeof piece)) {
            return 1;
        }
    }
    return 7;
}

static void test_probes(void **state)
{
    (void)state;
    struct rg_probe_result result;
    RG_BUF(out, 100000);
    assert_int_equal(rg_probe_run(say, (char[]){"hello"}, 5000, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_DONE);
    assert_string_equal(rg_buf_text(&out), "hello");

    uint64_t before = rg_clock_ms();
    rg_buf_clear(&out);
    assert_int_equal(rg_probe_run(hang, NULL, 200, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_KILLED);
    assert_string_equal(rg_buf_text(&out), "begun");
    assert_true(rg_clock_ms() - before < 5000);

    rg_buf_clear(&out);
    assert_int_equal(rg_probe_run(crash, NULL, 5000, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_CRASHED);
    assert_int_equal(result.status, SIGKILL);

    rg_buf_clear(&out);
    assert_int_equal(rg_probe_run(flood, NULL, 10000, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_FAILED);
    assert_int_equal(result.status, 7);
    assert_true(result.truncated);
    assert_int_equal(out.len, 100000);
    assert_true(rg_buf_ok(&out));
}

/* Makes progress for a while, longer than it may stand still; then it stands still or ends. */
static int get_on(void *argument, int fd)
{
    struct rg_probe_watch *watch = argument;
    bool ends = watch->stall_ms > 300;
    (void)fd;
    for (int i = 0; i < 20; i++) {
        atomic_fetch_add(&watch->progress, 1);
        usleep(50000);
    }
    if (!ends) {
        pause();
    }
    return 0;
}

static void test_watched(void **state)
{
    (void)state;
    struct rg_probe_result result;
    RG_BUF(out, 1000);
    struct rg_probe_watch *watch =
        mmap(NULL, sizeof *watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(watch != MAP_FAILED);
    watch->stall_ms = 900;
    assert_int_equal(rg_probe_run_watched(get_on, watch, 60000, watch, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_DONE);
    watch->stall_ms = 300;
    uint64_t before = rg_clock_ms();
    assert_int_equal(rg_probe_run_watched(get_on, watch, 60000, watch, &out, &result, NULL), 0);
    assert_int_equal(result.end, RG_PROBE_KILLED);
    assert_true(rg_clock_ms() - before < 20000);
    munmap(watch, sizeof *watch);
}

static void test_commands(void **state)
{
    (void)state;
    static const char *const echo[] = {"echo", "one", "two", NULL};
    static const char *const none[] = {"rg-no-such-command", NULL};
    static const char *const fails[] = {"false", NULL};
    static const char *const hangs[] = {"sleep", "600", NULL};
    struct rg_reading at;
    RG_BUF(out, 1000);
    assert_int_equal(rg_source_open("", &source, NULL), 0);
    rg_source_command(source, "cmd/echo", echo, 5000, &out, &at);
    assert_int_equal(at.state, RG_READ_OK);
    assert_string_equal(rg_buf_text(&out), "one two\n");
    assert_string_equal(at.path, "echo one two");
    rg_source_command(source, "cmd/none", none, 5000, &out, &at);
    assert_int_equal(at.state, RG_READ_MISSING);
    rg_source_command(source, "cmd/false", fails, 5000, &out, &at);
    assert_int_equal(at.state, RG_READ_UNREADABLE);
    rg_source_command(source, "cmd/sleep", hangs, 100, &out, &at);
    assert_int_equal(at.state, RG_READ_UNREADABLE);
    assert_int_equal(at.os_errno, ETIMEDOUT);
}

/* ---- Capturing ---- */

/* What was captured reads the same, whatever it was: a file behind links, an absence, a refusal, a
 * document. */
static void test_capture(void **state)
{
    (void)state;
    static const char *const echo[] = {"echo", "said", NULL};
    struct rg_error err;
    struct rg_text live;
    struct rg_text copied;
    struct rg_reading at;
    RG_BUF(out, 1000);
    char directory[64];
    snprintf(directory, sizeof directory, "/tmp/rg-capture-%d", (int)getpid());
    root = strdup(directory);
    assert_int_equal(rg_source_open("", &source, &err), 0);
    assert_int_equal(rg_source_capture(source, directory, &err), 0);
    rg_source_text(source, &live, "/proc/self/comm");
    rg_source_text(source, &copied, "/proc/self/no-such-file");
    rg_source_link(source, &copied, "/proc/self/exe");
    rg_source_text(source, &copied, "/proc/self/mem");
    int mem_errno = copied.at.os_errno;
    rg_source_command(source, "cmd/echo", echo, 5000, &out, &at);
    (void)rg_source_again(source, true);
    rg_source_text(source, &copied, "/proc/self/comm");
    (void)rg_source_again(source, false);
    assert_int_equal(rg_source_capture_result(source, &err), 0);
    rg_source_close(source);
    source = NULL;

    assert_int_equal(rg_source_open(directory, &source, &err), 0);
    rg_source_text(source, &copied, "/proc/self/comm");
    assert_string_equal(copied.text, live.text);
    assert_true(live.text[0] != 0);
    rg_source_text(source, &copied, "/proc/self/no-such-file");
    assert_int_equal(copied.at.state, RG_READ_MISSING);
    rg_source_link(source, &copied, "/proc/self/exe");
    assert_string_equal(copied.text, "test-host-source");
    rg_source_text(source, &copied, "/proc/self/mem");
    assert_int_equal(copied.at.state, RG_READ_UNREADABLE);
    assert_int_equal(copied.at.os_errno, mem_errno);
    rg_buf_clear(&out);
    rg_source_command(source, "cmd/echo", echo, 5000, &out, &at);
    assert_string_equal(rg_buf_text(&out), "said\n");
    assert_true(rg_source_again(source, true));
    rg_source_text(source, &copied, "/proc/self/comm");
    assert_string_equal(copied.text, live.text);

    struct rg_source *full;
    assert_int_equal(rg_source_open("", &full, &err), 0);
    assert_true(rg_source_capture(full, directory, &err) < 0);
    assert_int_equal(err.code, RG_SETTING);
    rg_source_close(full);
}

static void test_bad_trees(void **state)
{
    (void)state;
    struct rg_error err;
    assert_true(rg_source_open("/no/such/tree", &source, &err) < 0);
    assert_int_equal(err.code, RG_SETTING);
    assert_true(rg_source_open("/etc/passwd", &source, &err) < 0);
    source = NULL;
}

/* ---- The whole ---- */

/* Nothing that a file can hold may crash a reader or a judge. */
static void test_strange_machines(void **state)
{
    (void)state;
    static const char *const trees[] = {"cx-ib",    "cx-roce", "e810", "e810-bond",
                                        "broadcom", "rxe",     "efa"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(trees); i++) {
        for (unsigned seed = 0; seed < 12; seed++) {
            struct rg_host_plan plan;
            struct rg_error err;
            RG_CLEANUP(rg_host_facts_cleanup) struct rg_host_facts *facts = NULL;
            RG_CLEANUP(rg_findings_free) struct rg_findings findings = {0};
            root = tree_make(trees[i], NULL, &plan);
            tree_spoil(root, seed);
            assert_int_equal(rg_source_open(root, &source, &err), 0);
            assert_int_equal(rg_host_read(source, &plan, &facts, &err), 0);
            assert_int_equal(rg_host_judge(facts, &findings, &err), 0);
            (void)close_tree(NULL);
        }
    }
}

static void test_report(void **state)
{
    (void)state;
    struct rg_host_plan plan;
    struct rg_error err;
    json_t *report = NULL;
    root = tree_make("e810-bond", "/proc/sys/kernel/hostname = <b>&\"x\"", &plan);
    struct rg_examination what = {.plan = &plan, .sysroot = root};
    assert_int_equal(rg_host_examine(&what, &report, &err), 0);
    assert_int_equal(rg_report_verdict(report), RG_VERDICT_FAIL);
    assert_int_equal(rg_report_group_verdict(report, RG_GROUP_devices), RG_VERDICT_FAIL);
    assert_int_equal(json_integer_value(json_object_get(report, "railgate_doctor")), 1);
    RG_BUF(text, 1 << 20);
    struct rg_report_style style = {.colour = false, .verbose = true};
    rg_report_text(report, &style, &text);
    assert_non_null(strstr(rg_buf_text(&text), "nmcli") ? "" : strstr(rg_buf_text(&text), "mend"));
    assert_non_null(strstr(rg_buf_text(&text), "ip link set ens2f0 nomaster"));
    RG_BUF(page, 1 << 20);
    rg_report_html(report, &page);
    assert_null(strstr(rg_buf_text(&page), "<b>&"));
    assert_non_null(strstr(rg_buf_text(&page), "&lt;b&gt;&amp;"));
    assert_null(strstr(rg_buf_text(&page), "<script"));
    assert_null(strstr(rg_buf_text(&page), "http"));
    rg_report_add_hang(report, "/sys/x");
    rg_buf_clear(&text);
    rg_report_text(report, &style, &text);
    assert_non_null(strstr(rg_buf_text(&text), "reading /sys/x hangs"));
    json_decref(report);
}

/* An earlier report, of this boot or another. */
static const char *verdict_of(const json_t *report, const char *id)
{
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (strcmp(json_string_value(json_object_get(check, "id")), id) == 0) {
            return json_string_value(json_object_get(check, "verdict"));
        }
    }
    return "";
}

static void test_baseline(void **state)
{
    (void)state;
    struct rg_host_plan plan;
    struct rg_error err;
    json_t *report = NULL;
    char file[64];
    snprintf(file, sizeof file, "/tmp/rg-baseline-%d", (int)getpid());
    root =
        tree_make("cx-ib", "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed = 2", &plan);
    struct rg_examination what = {.plan = &plan, .sysroot = root};
    assert_int_equal(rg_host_examine(&what, &report, &err), 0);
    json_t *counters = json_object_get(report, "counters");
    assert_int_equal(json_integer_value(json_object_get(counters, "mlx5_0/1 symbol_error")), 7);
    json_object_set_new(counters, "mlx5_0/1 link_downed", json_integer(1));
    assert_int_equal(json_dump_file(report, file, 0), 0);
    json_decref(report);
    snprintf(plan.baseline, sizeof plan.baseline, "%s", file);
    assert_int_equal(rg_host_examine(&what, &report, &err), 0);
    assert_int_equal(rg_report_group_verdict(report, RG_GROUP_counters), RG_VERDICT_FAIL);
    json_object_set_new(report, "boot_id", json_string("another"));
    assert_int_equal(json_dump_file(report, file, 0), 0);
    json_decref(report);
    assert_int_equal(rg_host_examine(&what, &report, &err), 0);
    assert_int_equal(rg_report_group_verdict(report, RG_GROUP_counters), RG_VERDICT_SKIP);
    assert_true(strcmp(verdict_of(report, "DEV-RDMA"), "ok") == 0);
    json_t *firmware = json_object_get(report, "firmware");
    assert_string_equal(json_string_value(json_object_get(firmware, "mlx5_0")), "20.35.2000");
    json_object_set_new(firmware, "mlx5_0", json_string("20.31.1014"));
    assert_int_equal(json_dump_file(report, file, 0), 0);
    json_decref(report);
    assert_int_equal(rg_host_examine(&what, &report, &err), 0);
    assert_true(strcmp(verdict_of(report, "DEV-RDMA"), "warn") == 0);
    assert_true(strcmp(verdict_of(report, "DEV-PCI"), "ok") == 0);
    json_decref(report);
    FILE *bad = fopen(file, "we");
    assert_non_null(bad);
    fputs("{}", bad);
    fclose(bad);
    assert_true(rg_host_examine(&what, &report, &err) < 0);
    assert_int_equal(err.code, RG_SETTING);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_three_ways_to_fail, close_tree),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test_teardown(test_links_stay_inside, close_tree),
        cmocka_unit_test_teardown(test_strange_files, close_tree),
        cmocka_unit_test_teardown(test_lists, close_tree),
        cmocka_unit_test_teardown(test_avoided, close_tree),
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_watched),
        cmocka_unit_test_teardown(test_commands, close_tree),
        cmocka_unit_test_teardown(test_capture, close_tree),
        cmocka_unit_test(test_bad_trees),
        cmocka_unit_test_teardown(test_strange_machines, close_tree),
        cmocka_unit_test_teardown(test_report, close_tree),
        cmocka_unit_test_teardown(test_baseline, close_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
