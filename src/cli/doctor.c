/*
 * railgate doctor: is this host ready for RDMA? Reads words, has the host examined, prints.
 */
#include "cli/cli.h"
#include "cli/doctor_peer.h"
#include "cli/doctor_transport.h"
#include "cli/remote.h"

#include "host/check.h"
#include "host/examine.h"
#include "host/report.h"
#include "host/unjudged.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)16 << 20)

static struct {
    const char *profile;
    const char *html;
    const char *sysroot;
    const char *baseline;
    const char *unit;
    const char *root;
    const char *config;
    const char *binary;
    const char *transport;
    const char *device;
    uint64_t memory;
    uint64_t priority;
    uint64_t dscp;
    uint64_t interval_ms;
    bool json;
    bool verbose;
    bool active;
    bool list;
} asked;

static const struct rg_cli_option options[] = {
    {"for", 0, RG_CLI_TEXT, &asked.profile, "ROLE",
     "gateway, client, gpu-client, lustre-client, lustre-server or aistor: only what that "
     "role needs"},
    {"json", 0, RG_CLI_FLAG, &asked.json, NULL, "print the report as JSON"},
    {"html", 0, RG_CLI_TEXT, &asked.html, "FILE", "also write it as a page of HTML"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL,
     "every finding: value, where it was read, the commands that mend it"},
    {"sysroot", 0, RG_CLI_TEXT, &asked.sysroot, "DIR", "judge a tree that `doctor capture` wrote"},
    {"baseline", 0, RG_CLI_TEXT, &asked.baseline, "FILE",
     "earlier report (--json): counters are compared with it"},
    {"active", 0, RG_CLI_FLAG, &asked.active, NULL,
     "allow probes that leave traces: LNet pings, files that are made and removed, large "
     "registrations"},
    {"unit", 0, RG_CLI_TEXT, &asked.unit, "UNIT", "systemd unit of the service whose limits count"},
    {"root", 0, RG_CLI_TEXT, &asked.root, "DIR", "directory that the gateway serves"},
    {"config", 0, RG_CLI_TEXT, &asked.config, "FILE", "settings file of the gateway"},
    {"binary", 0, RG_CLI_TEXT, &asked.binary, "FILE",
     "a program whose libraries have to be there; it is not started"},
    {"memory", 0, RG_CLI_SIZE, &asked.memory, "SIZE", "memory that the service pins"},
    {"priority", 0, RG_CLI_NUMBER, &asked.priority, "N", "priority that is to be lossless; 3"},
    {"dscp", 0, RG_CLI_NUMBER, &asked.dscp, "N", "DSCP that is to lead to it; 26"},
    {"interval", 0, RG_CLI_NUMBER, &asked.interval_ms, "MS",
     "time between two readings of counters; 1000, 0 for one reading"},
    {"transport", 0, RG_CLI_TEXT, &asked.transport, "dc",
     "move bytes through a NIC of this host and back instead: does it do what the transport "
     "needs?"},
    {"device", 0, RG_CLI_TEXT, &asked.device, "DEVICE", "the NIC for that; the first that fits"},
    {"list", 0, RG_CLI_FLAG, &asked.list, NULL, "list the checks"},
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_doctor_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out, "\n  railgate doctor [options]       examine this host, or a captured tree\n"
             "  railgate doctor explain CHECK   what a check looks at, and why\n"
             "  railgate doctor capture DIR     write what the checks read below DIR\n"
             "  railgate doctor serve --listen ADDRESS   answer another host's doctor\n"
             "  railgate doctor peer HOST       compare with it, and move bytes to prove it\n"
             "  railgate doctor --list          all checks\n"
             "  railgate doctor --transport dc  test the dc transport on a ConnectX\n\n"
             "Nothing is changed, and what hangs is left behind and reported. Without root "
             "some facts\ncannot be read: those checks are skipped and say so.\n\nExit "
             "status: 0 all is well, 1 warnings, 2 failures (or a wrong word).\n\n");
    rg_cli_help_options(options, out);
    rg_cli_doctor_peer_help(out);
}

/* ---- Explaining ---- */

static void add_profiles(unsigned profiles, struct rg_buf *out)
{
    bool all = true;
    for (int profile = RG_PROFILE_ANY + 1; profile < RG_PROFILE_COUNT; profile++) {
        all &= (profiles >> profile & 1) != 0;
    }
    if (all) {
        rg_buf_add_text(out, "every role");
        return;
    }
    const char *separator = "";
    for (int profile = RG_PROFILE_ANY + 1; profile < RG_PROFILE_COUNT; profile++) {
        if (profiles >> profile & 1) {
            rg_buf_addf(out, "%s%s", separator, rg_profile_name((enum rg_profile)profile));
            separator = ", ";
        }
    }
}

static int list_checks(void)
{
    RG_BUF(text, TEXT_BYTES_MAX);
    int group = -1;
    for (size_t i = 0; i < rg_check_count(); i++) {
        const struct rg_check *check = rg_check_at(i);
        if ((int)check->group != group) {
            group = (int)check->group;
            rg_buf_addf(&text, "%s\n", rg_group_title(check->group));
        }
        rg_buf_addf(&text, "  %-13s %s\n", check->id, check->title);
    }
    return rg_cli_print(&text);
}

static void add_wrapped(const char *words, struct rg_buf *out)
{
    size_t column = 0;
    struct span rest = rg_span_text(words);
    while (rest.ptr) {
        struct span word = rg_span_cut(&rest, ' ');
        if (column && column + 1 + word.len > 78) {
            rg_buf_add_char(out, '\n');
            column = 0;
        }
        rg_buf_addf(out, "%s%.*s", column ? " " : "", RG_SPAN_ARG(word));
        column += word.len + (column ? 1 : 0);
    }
    rg_buf_add_char(out, '\n');
}

static int explain(const char *id)
{
    const struct rg_check *check = rg_check_find(id);
    if (!check) {
        return rg_cli_fail_usage("doctor", "no check is called \"%.60s\"; --list lists them", id);
    }
    RG_BUF(text, TEXT_BYTES_MAX);
    rg_buf_addf(&text, "%s: %s\nGroup: %s. Needed by: ", check->id, check->title,
                rg_group_title(check->group));
    add_profiles(check->profiles, &text);
    rg_buf_add_text(&text, ".\n");
    unsigned standing = rg_unjudged_profiles(check);
    if (standing) {
        rg_buf_add_text(&text, "Not well where it cannot be judged: ");
        add_profiles(standing, &text);
        rg_buf_add_text(&text, standing & RG_FOR(ANY) ? "; and where no role is named.\n" : ".\n");
    }
    rg_buf_add_char(&text, '\n');
    add_wrapped(check->why, &text);
    return rg_cli_print(&text);
}

/* ---- Examining ---- */

static bool copy_word(const char *word, char ret_text[RG_PLAN_TEXT_MAX + 1])
{
    if (!word) {
        return true;
    }
    if (strlen(word) > RG_PLAN_TEXT_MAX) {
        return false;
    }
    memcpy(ret_text, word, strlen(word) + 1);
    return true;
}

static int make_plan(struct rg_host_plan *plan)
{
    rg_host_plan_init(plan);
    if (asked.profile &&
        (!rg_profile_parse(asked.profile, &plan->profile) || plan->profile == RG_PROFILE_ANY)) {
        return rg_cli_fail_usage("doctor", "no role is called \"%.60s\"", asked.profile);
    }
    if (asked.priority > 7 || asked.dscp > 63 || asked.interval_ms > 60000) {
        return rg_cli_fail_usage("doctor", "--priority is 0 to 7, --dscp 0 to 63, --interval at "
                                           "most 60000");
    }
    plan->roce_priority = (uint8_t)asked.priority;
    plan->roce_dscp = (uint8_t)asked.dscp;
    plan->interval_ms = (unsigned)asked.interval_ms;
    plan->has_interval = asked.interval_ms > 0;
    plan->pinned_bytes = asked.memory;
    plan->active = asked.active;
    if (!copy_word(asked.unit, plan->unit) || !copy_word(asked.root, plan->root) ||
        !copy_word(asked.config, plan->config) || !copy_word(asked.binary, plan->binary) ||
        !copy_word(asked.baseline, plan->baseline)) {
        return rg_cli_fail_usage("doctor", "a name is longer than %d bytes", RG_PLAN_TEXT_MAX);
    }
    return RG_EXIT_OK;
}

static int write_page(const json_t *report)
{
    RG_BUF(page, TEXT_BYTES_MAX);
    rg_report_html(report, &page);
    rg_autofclose FILE *file = fopen(asked.html, "we");
    bool written = file && rg_buf_ok(&page) &&
                   fwrite(rg_buf_text(&page), 1, page.len, file) == page.len && fflush(file) == 0;
    if (!written) {
        fprintf(stderr, "railgate: %s cannot be written: %s\n", asked.html, strerror(errno));
        return RG_EXIT_USAGE;
    }
    return RG_EXIT_OK;
}

static int print_json(const json_t *report)
{
    rg_autofree char *text = json_dumps(report, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    RG_BUF(out, TEXT_BYTES_MAX);
    if (text) {
        rg_buf_addf(&out, "%s\n", text);
    }
    return rg_cli_print(&out);
}

static int print_report(const json_t *report)
{
    if (asked.json) {
        return print_json(report);
    }
    RG_BUF(text, TEXT_BYTES_MAX);
    struct rg_report_style style = {.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR"),
                                    .verbose = asked.verbose};
    rg_report_text(report, &style, &text);
    return rg_cli_print(&text);
}

static int status_of(const json_t *report)
{
    enum rg_verdict verdict = rg_report_verdict(report);
    return verdict == RG_VERDICT_FAIL ? 2 : verdict == RG_VERDICT_WARN ? 1 : 0;
}

static void free_report(json_t **report)
{
    json_decref(*report);
}

static int examine(const char *capture)
{
    struct rg_host_plan plan;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(free_report) json_t *report = NULL;
    int status = make_plan(&plan);
    if (status != RG_EXIT_OK) {
        return status;
    }
    struct rg_examination what = {
        .plan = &plan, .sysroot = asked.sysroot ? asked.sysroot : "", .capture = capture};
    if (rg_host_examine(&what, &report, &err) < 0) {
        (void)rg_cli_fail(&err);
        return 2;
    }
    if (capture) {
        return RG_EXIT_OK;
    }
    status = print_report(report);
    if (status == RG_EXIT_OK && asked.html) {
        status = write_page(report);
    }
    return status == RG_EXIT_OK ? status_of(report) : 2;
}

int rg_cli_doctor(int argc, const char **argv)
{
    int count;
    if (argc > 0 && strcmp(argv[0], "serve") == 0) {
        return rg_cli_doctor_serve(argc - 1, argv + 1);
    }
    if (argc > 0 && strcmp(argv[0], "peer") == 0) {
        return rg_cli_doctor_peer(argc - 1, argv + 1);
    }
    struct rg_host_plan usual;
    rg_host_plan_init(&usual);
    asked.priority = usual.roce_priority;
    asked.dscp = usual.roce_dscp;
    asked.interval_ms = usual.interval_ms;
    int status = rg_cli_read_options("doctor", options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (asked.list && count == 0) {
        return list_checks();
    }
    if (count == 2 && strcmp(argv[0], "explain") == 0) {
        return explain(argv[1]);
    }
    if (count == 2 && strcmp(argv[0], "capture") == 0 && !asked.sysroot) {
        return examine(argv[1]);
    }
    if (count != 0) {
        return rg_cli_fail_usage("doctor",
                                 "expects no word, or: explain CHECK, capture DIR, or as the first "
                                 "word: serve, peer HOST");
    }
    if (asked.transport) {
        return rg_cli_doctor_transport(asked.transport, asked.device);
    }
    return examine(NULL);
}
