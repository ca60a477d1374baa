/*
 * railgate diagnose: kernel and Lustre logs in, a verdict out. Reads words, prints what the room
 * diag found, and picks the exit status.
 */
#include "cli/cli.h"
#include "cli/remote.h"

#include "base/checked.h"
#include "base/clock.h"

#include "diag/anonymise.h"
#include "diag/pipeline.h"
#include "diag/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPORT_BYTES_MAX (256 << 20)
#define PROGRESS_FROM_MS 1000 /* shorter runs show none */
#define PROGRESS_MS      200
#define LIST_MAX         64 /* of --rules and --tz */
#define PROBLEMS_SHOWN   10 /* without -v */

/* Exit statuses; RG_EXIT_USAGE also stands for input that could not be read. */
enum { EXIT_NOTHING = 0, EXIT_INCIDENTS = 1 };

static struct {
    const char *node;
    const char *language;
    const char *html;
    const char *hosts;
    bool json;
    bool markdown;
    bool anonymise;
    bool live;
    bool verbose;
    uint64_t timeout_s;
    /* Options that may come often are taken out of the words first. */
    const char *rules[LIST_MAX];
    size_t rules_count;
    const char *zones[LIST_MAX];
    size_t zone_count;
} asked;

static const struct rg_cli_option options[] = {
    {"live", 0, RG_CLI_FLAG, &asked.live, NULL,
     "this host's kernel ring and the last day of its journal"},
    {"timeout", 0, RG_CLI_NUMBER, &asked.timeout_s, "SECONDS",
     "for --live: how long the journal may take; 60"},
    {"node", 0, RG_CLI_TEXT, &asked.node, "NAME", "the node of inputs that name none"},
    {"hosts", 0, RG_CLI_TEXT, &asked.hosts, "FILE",
     "a table of hosts: lines of NID HOST ROLE [RACK] (docs/diagnose.md)"},
    {"json", 0, RG_CLI_FLAG, &asked.json, NULL, "as JSON"},
    {"markdown", 0, RG_CLI_FLAG, &asked.markdown, NULL, "as a report to paste in a ticket"},
    {"html", 0, RG_CLI_TEXT, &asked.html, "FILE", "also as one self-contained page"},
    {"lang", 0, RG_CLI_TEXT, &asked.language, "en|ko", "language of the reports; en"},
    {"anonymise", 0, RG_CLI_FLAG, &asked.anonymise, NULL,
     "stable placeholders for hosts, addresses and users"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL,
     "what was read, on standard error; all problems with inputs"},
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_diagnose_help(struct rg_buf *out)
{
    rg_buf_add_text(
        out,
        "\nReads kernel and Lustre logs of one node or of a whole cluster and says which layer "
        "failed, where,\nand what to do next. INPUT is a file, a directory, an archive (tar, zip, "
        "compressed in any way),\na sos report, or - for standard input: dmesg, journalctl in any "
        "output format, syslog, lctl dk,\nall of them mixed, with the prefixes of pdsh, clush and "
        "ansible or without.\n\nThe node of a line is the one that the line or its prefix names, "
        "else that of the sos report, of\n--node, or of the file's name.\n\n"
        "Exit status: 0 nothing found, 1 incidents found, 2 wrong usage, or an input that could "
        "not be\nread (the others were).\n\n"
        "`railgate diagnose explain ID` tells about one kind of message.\n\n");
    rg_cli_help_options(options, out);
    rg_buf_add_text(
        out,
        "  --rules FILE               a site's own messages (docs/messages.md); may come often\n"
        "  --tz [NODE=]ZONE           zone of a wall clock (Asia/Seoul, +09:00); may come often\n");
}

/* ---- Words ---- */

/* Takes "--NAME VALUE" and "--NAME=VALUE" out of argv, wherever they stand before "--". */
static int take_list(const char *name, int *argc, const char **argv, const char **list,
                     size_t *count)
{
    size_t len = strlen(name);
    int kept = 0;
    bool open = true;
    for (int i = 0; i < *argc; i++) {
        const char *word = argv[i];
        open = open && strcmp(word, "--") != 0;
        bool ours = open && strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, len) == 0 &&
                    (word[2 + len] == '\0' || word[2 + len] == '=');
        if (!ours) {
            argv[kept++] = word;
            continue;
        }
        const char *value = word[2 + len] == '=' ? word + 3 + len : NULL;
        if (!value && i + 1 < *argc) {
            value = argv[++i];
        }
        if (!value || !value[0]) {
            return rg_cli_fail_usage("diagnose", "--%s wants a value", name);
        }
        if (*count == LIST_MAX) {
            return rg_cli_fail_usage("diagnose", "--%s may be given %d times", name, LIST_MAX);
        }
        list[(*count)++] = value;
    }
    *argc = kept;
    return RG_EXIT_OK;
}

static int read_words(int *argc, const char **argv, enum rg_language *ret_language)
{
    int status = take_list("rules", argc, argv, asked.rules, &asked.rules_count);
    if (status == RG_EXIT_OK) {
        status = take_list("tz", argc, argv, asked.zones, &asked.zone_count);
    }
    if (status == RG_EXIT_OK) {
        status = rg_cli_read_options("diagnose", options, *argc, argv, argc);
    }
    if (status != RG_EXIT_OK) {
        return status;
    }
    *ret_language = RG_ENGLISH;
    if (asked.language && strcmp(asked.language, "ko") == 0) {
        *ret_language = RG_KOREAN;
    } else if (asked.language && strcmp(asked.language, "en") != 0) {
        return rg_cli_fail_usage("diagnose", "--lang knows en and ko");
    }
    if (asked.json && asked.markdown) {
        return rg_cli_fail_usage("diagnose", "--json and --markdown exclude each other");
    }
    if (*argc == 0 && !asked.live) {
        return rg_cli_fail_usage("diagnose", "name an input, - for standard input, or --live");
    }
    return RG_EXIT_OK;
}

/* ---- Progress, on a terminal, of runs that take a while ---- */

struct meter {
    uint64_t started_ms;
    uint64_t shown_ms;
    bool shown;
};

static void show_progress(void *context, uint64_t done, uint64_t total)
{
    struct meter *meter = context;
    uint64_t now = rg_clock_ms();
    if (now - meter->started_ms < PROGRESS_FROM_MS || now - meter->shown_ms < PROGRESS_MS) {
        return;
    }
    double seconds = (double)(now - meter->started_ms) / 1000;
    fprintf(stderr, "\r\x1b[Kread %" PRIu64 " MiB", done >> 20);
    if (total > 0) {
        fprintf(stderr, " of %" PRIu64 " MiB, %.0f %%", total >> 20,
                100.0 * (double)done / (double)total);
    }
    fprintf(stderr, ", %.0f MiB/s ", (double)(done >> 20) / seconds);
    meter->shown_ms = now;
    meter->shown = true;
}

static void clear_progress(const struct meter *meter)
{
    if (meter->shown) {
        fputs("\r\x1b[K", stderr);
    }
}

/* ---- What could not be read ---- */

/* The problems with inputs as they are shown: names of inputs, and what is said of each. */
struct complaints {
    char *texts[2 * RG_PROBLEMS_MAX];
    size_t count;
};

static void free_complaints(struct complaints *complaints)
{
    for (size_t i = 0; i < complaints->count; i++) {
        free(complaints->texts[i]);
    }
}

static int collect_complaints(const struct rg_inputs *inputs, struct complaints *complaints,
                              struct rg_error *err)
{
    size_t count;
    uint64_t left_out;
    const struct rg_problem *problems = rg_inputs_problems(inputs, &count, &left_out);
    for (size_t i = 0; i < 2 * count; i++) {
        const struct rg_problem *problem = &problems[i / 2];
        char *copy = strdup(i % 2 ? problem->sentence[RG_ENGLISH] : problem->source);
        if (!copy) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        complaints->texts[complaints->count++] = copy;
    }
    return 0;
}

static void print_problems(const struct rg_inputs *inputs, const struct complaints *complaints)
{
    size_t count;
    uint64_t left_out;
    const struct rg_problem *problems = rg_inputs_problems(inputs, &count, &left_out);
    uint64_t skipped = 0;
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        bool show =
            asked.verbose || problems[i].kind == RG_PROBLEM_UNREADABLE || shown < PROBLEMS_SHOWN;
        if (!show) {
            skipped++;
            continue;
        }
        RG_BUF(line, 16384);
        rg_cli_add_name(&line, complaints->texts[2 * i]);
        fprintf(stderr, "railgate diagnose: %s: %s\n", rg_buf_text(&line),
                complaints->texts[2 * i + 1]);
        shown++;
    }
    if (skipped + left_out > 0) {
        fprintf(stderr, "railgate diagnose: %" PRIu64 " more inputs were not or not fully read%s\n",
                skipped + left_out, asked.verbose ? "" : " (-v names them)");
    }
}

/* A site's pattern that tries too long is cut off; whoever wrote it must hear of it. */
static void print_cut_off(const struct rg_pipeline *pipeline)
{
    uint64_t count = rg_pipeline_counts(pipeline).gave_up;
    if (count > 0) {
        fprintf(stderr,
                "railgate diagnose: %" PRIu64 " times a pattern took too long on a line and was "
                "given up\n",
                count);
    }
}

static void print_counts(const struct rg_pipeline *pipeline)
{
    static const char *const names[RG_SHAPE_COUNT] = {
        [RG_SHAPE_BARE] = "without stamp",
        [RG_SHAPE_DMESG] = "dmesg",
        [RG_SHAPE_DMESG_TIME] = "dmesg -T",
        [RG_SHAPE_DMESG_ISO] = "dmesg iso",
        [RG_SHAPE_KMSG] = "/dev/kmsg",
        [RG_SHAPE_SYSLOG] = "syslog",
        [RG_SHAPE_ISO] = "syslog with ISO stamps",
        [RG_SHAPE_RFC5424] = "RFC 5424",
        [RG_SHAPE_EPOCH] = "syslog with seconds since 1970",
        [RG_SHAPE_LCTL] = "lctl dk",
        [RG_SHAPE_JSON] = "journal export or JSON",
    };
    struct rg_pipeline_counts counts = rg_pipeline_counts(pipeline);
    fprintf(stderr,
            "read %" PRIu64 " sources, %" PRIu64 " lines (%" PRIu64 " cut): %" PRIu64
            " known messages, %" PRIu64 " collected twice, %" PRIu64 " look like errors and are "
            "not known\n",
            counts.sources, counts.lines, counts.truncated, counts.events, counts.twice,
            counts.suspect);
    for (size_t i = 0; i < RG_SHAPE_COUNT; i++) {
        if (counts.shapes[i] > 0) {
            fprintf(stderr, "  %12" PRIu64 " %s\n", counts.shapes[i], names[i]);
        }
    }
}

/* ---- Reports ---- */

static int write_page(const char *path, const struct rg_buf *page)
{
    if (!rg_buf_ok(page)) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_USAGE;
    }
    FILE *file = fopen(path, "we");
    struct span whole = rg_buf_span(page);
    bool wrote = file && fwrite(whole.ptr, 1, whole.len, file) == whole.len;
    int failed = wrote ? 0 : errno;
    if (file && fclose(file) != 0 && wrote) {
        failed = errno;
    }
    if (failed != 0 || !file) {
        fprintf(stderr, "railgate diagnose: cannot write %s: %s\n",
                asked.anonymise ? "the page" : path, strerror(failed));
        return RG_EXIT_USAGE;
    }
    return RG_EXIT_OK;
}

static int report(const struct rg_diagnosis *diagnosis, enum rg_language language)
{
    if (asked.html) {
        RG_BUF(page, REPORT_BYTES_MAX);
        rg_diagnosis_html(diagnosis, language, &page);
        int status = write_page(asked.html, &page);
        if (status != RG_EXIT_OK) {
            return status;
        }
    }
    RG_BUF(text, REPORT_BYTES_MAX);
    if (asked.json) {
        rg_diagnosis_json(diagnosis, &text);
    } else if (asked.markdown) {
        rg_diagnosis_markdown(diagnosis, language, &text);
    } else {
        rg_diagnosis_text(diagnosis, language, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"), &text);
    }
    return rg_cli_print(&text) == RG_EXIT_OK ? RG_EXIT_OK : RG_EXIT_USAGE;
}

static void free_diagnosis(struct rg_diagnosis **diagnosis)
{
    rg_diagnosis_free(*diagnosis);
}

static void close_pipeline(struct rg_pipeline **pipeline)
{
    rg_pipeline_close(*pipeline);
}

/* Without a diagnosis there are no known hosts; addresses, users and the host in a path go. */
static void hide_names(struct rg_error *err)
{
    struct rg_diagnosis none = {0};
    char *text = strdup(err->message);
    bool hidden = text && rg_diagnosis_anonymise(&none, &text, 1, NULL) == 0;
    snprintf(err->message, sizeof(err->message), "%s",
             hidden ? text : "failed (the reason cannot be shown without names)");
    free(text);
}

/* Failures of any kind are status 2: 1 says that incidents were found. */
static int fail(struct rg_error *err)
{
    if (asked.anonymise) {
        hide_names(err);
    }
    rg_cli_fail(err);
    return RG_EXIT_USAGE;
}

static int add_inputs(struct rg_pipeline *pipeline, int argc, const char **argv,
                      struct rg_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < asked.zone_count; i++) {
        rc = rg_pipeline_set_zone(pipeline, asked.zones[i], err);
    }
    for (int i = 0; rc == 0 && i < argc; i++) {
        rc = rg_pipeline_add(pipeline, argv[i], err);
    }
    return rc == 0 && asked.live ? rg_pipeline_add_live(pipeline, err) : rc;
}

static int diagnose(int argc, const char **argv, enum rg_language language)
{
    struct meter meter = {.started_ms = rg_clock_ms()};
    struct rg_pipeline_options pipeline_options = {
        .rules_files = asked.rules,
        .rules_count = asked.rules_count,
        .hosts_file = asked.hosts,
        .inputs = {.node = asked.node,
                   .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
                   .context = &meter,
                   .live_timeout_s = (unsigned)RG_MIN(asked.timeout_s, (uint64_t)86400)},
    };
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(close_pipeline) struct rg_pipeline *pipeline = NULL;
    RG_CLEANUP(free_diagnosis) struct rg_diagnosis *diagnosis = NULL;
    RG_CLEANUP(free_complaints) struct complaints complaints = {.count = 0};
    int rc = rg_pipeline_open(&pipeline_options, &pipeline, &err);
    rc = rc < 0 ? rc : add_inputs(pipeline, argc, argv, &err);
    rc = rc < 0 ? rc : rg_pipeline_run(pipeline, &diagnosis, &err);
    clear_progress(&meter);
    rc = rc < 0 ? rc : collect_complaints(rg_pipeline_inputs(pipeline), &complaints, &err);
    if (rc == 0 && asked.anonymise) {
        rc = rg_diagnosis_anonymise(diagnosis, complaints.texts, complaints.count, &err);
    }
    if (rc < 0) {
        return fail(&err);
    }
    print_problems(rg_pipeline_inputs(pipeline), &complaints);
    print_cut_off(pipeline);
    if (asked.verbose) {
        print_counts(pipeline);
    }
    if (report(diagnosis, language) != RG_EXIT_OK ||
        rg_inputs_unreadable(rg_pipeline_inputs(pipeline))) {
        return RG_EXIT_USAGE;
    }
    return diagnosis->incident_count > 0 ? EXIT_INCIDENTS : EXIT_NOTHING;
}

/* railgate diagnose explain ID */
static int explain(const char *id, enum rg_language language)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_catalogue *catalogue;
    if (rg_catalogue_open(asked.rules, asked.rules_count, &catalogue, &err) < 0) {
        return fail(&err);
    }
    int status = RG_EXIT_USAGE;
    const struct rg_catalogue_row *row = rg_catalogue_row_by_id(catalogue, id);
    if (row) {
        RG_BUF(text, 1 << 20);
        rg_catalogue_explain(row, language, &text);
        status = rg_cli_print(&text);
    } else {
        rg_cli_fail_usage("diagnose", "no message is called \"%.100s\"", id);
    }
    rg_catalogue_free(catalogue);
    return status;
}

int rg_cli_diagnose(int argc, const char **argv)
{
    enum rg_language language;
    int status = read_words(&argc, argv, &language);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (argc == 2 && strcmp(argv[0], "explain") == 0 && access("explain", F_OK) != 0) {
        return explain(argv[1], language);
    }
    return diagnose(argc, argv, language);
}
