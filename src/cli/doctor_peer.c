/*
 * railgate doctor serve, railgate doctor peer: the two ends of a path.
 */
#include "cli/doctor_peer.h"

#include "cli/cli.h"
#include "cli/remote.h"

#include "host/peer.h"
#include "host/peer_wire.h"
#include "host/plan.h"

#include "base/log.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)4 << 20)
#define BYTES_LEAST    ((uint64_t)1 << 20)
#define BYTES_MOST     ((uint64_t)64 << 20)
#define BYTES_USUAL    ((uint64_t)16 << 20)

static struct {
    const char *listen;
    const char *only;
    const char *gpu;
    uint64_t port;
    uint64_t visits;
    uint64_t memory;
    uint64_t priority;
    bool json;
    bool verbose;
} asked;

static const struct rg_cli_option serve_options[] = {
    {"listen", 0, RG_CLI_TEXT, &asked.listen, "ADDRESS", "numeric address to listen on; required"},
    {"port", 0, RG_CLI_NUMBER, &asked.port, "N", "TCP and UDP port; 9002, 0: any"},
    {"visits", 0, RG_CLI_NUMBER, &asked.visits, "N", "end after so many visits of another doctor"},
    {"gpu", 0, RG_CLI_TEXT, &asked.gpu, "GPU", "lend memory of it to who asks: cuda:0, hip:0 ..."},
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

static const struct rg_cli_option peer_options[] = {
    {"port", 0, RG_CLI_NUMBER, &asked.port, "N", "port of the other doctor; 9002"},
    {"transports", 0, RG_CLI_TEXT, &asked.only, "LIST",
     "only these: dc, rc, ofi, ofi:tcp, ofi:shm, ofi:efa ..."},
    {"memory", 0, RG_CLI_SIZE, &asked.memory, "SIZE", "largest transfer, 1M to 64M; 16M"},
    {"gpu", 0, RG_CLI_TEXT, &asked.gpu, "GPU", "move memory of it too: cuda:0, hip:0 ..."},
    {"priority", 0, RG_CLI_NUMBER, &asked.priority, "N", "priority that is to be lossless; 3"},
    {"json", 0, RG_CLI_FLAG, &asked.json, NULL, "print the report as JSON"},
    {"verbose", 'v', RG_CLI_FLAG, &asked.verbose, NULL, "values, and the commands that mend"},
    {NULL, 0, RG_CLI_FLAG, NULL, NULL, NULL},
};

void rg_cli_doctor_peer_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nOptions of `doctor serve`, which answers until it is interrupted:\n");
    rg_cli_help_options(serve_options, out);
    rg_buf_add_text(out,
                    "\nOptions of `doctor peer HOST`, which compares both hosts and moves bytes "
                    "between them:\n");
    rg_cli_help_options(peer_options, out);
}

static bool has_port(bool may_be_any)
{
    return asked.port <= 65535 && (asked.port || may_be_any);
}

/* ---- serve ---- */

static atomic_bool stop;

static void note_signal(int number)
{
    (void)number;
    atomic_store(&stop, true);
}

static void print_ready(const char *address, uint16_t port, void *context)
{
    (void)context;
    printf("listening on %s port %u (TCP and UDP); nothing on this host is changed\n", address,
           port);
    (void)fflush(stdout);
}

static void note_trouble(int os_errno, void *context)
{
    (void)context;
    if (os_errno) {
        rg_log_warn("doctor.serve.shortage", "visitors have to wait",
                    RG_FIELD_TEXT("error", strerror(os_errno)));
    } else {
        rg_log_info("doctor.serve.open", "visitors are let in again");
    }
}

int rg_cli_doctor_serve(int argc, const char **argv)
{
    int count;
    struct rg_error err = RG_ERROR_INIT;
    asked.port = RG_PEER_PORT;
    int status = rg_cli_read_options("doctor", serve_options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 0 || !asked.listen || !has_port(true) || asked.visits > UINT32_MAX) {
        return rg_cli_fail_usage("doctor", "serve needs --listen ADDRESS, and takes a port up to "
                                           "65535");
    }
    (void)signal(SIGTERM, note_signal);
    (void)signal(SIGINT, note_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    struct rg_peer_serve serve = {.address = asked.listen,
                                  .port = (uint16_t)asked.port,
                                  .visits = (unsigned)asked.visits,
                                  .gpu = asked.gpu,
                                  .stop = &stop,
                                  .ready = print_ready,
                                  .trouble = note_trouble};
    return rg_peer_serve(&serve, &err) < 0 ? rg_cli_fail(&err) : RG_EXIT_OK;
}

/* ---- peer ---- */

static void add_finding(const json_t *finding, struct rg_buf *out)
{
    const char *subject = rg_peer_text(finding, "subject");
    rg_buf_addf(out, "  %-5s %-14s %s%s%s\n", rg_peer_text(finding, "verdict"),
                rg_peer_text(finding, "id"), subject, subject[0] ? ": " : "",
                rg_peer_text(finding, "summary"));
    const char *value = rg_peer_text(finding, "value");
    const char *remedy = rg_peer_text(finding, "remedy");
    bool is_bad = strcmp(rg_peer_text(finding, "verdict"), "fail") == 0 ||
                  strcmp(rg_peer_text(finding, "verdict"), "warn") == 0;
    if (value[0] && (asked.verbose || is_bad)) {
        rg_buf_addf(out, "        %s\n", value);
    }
    struct span rest = rg_span_text(remedy);
    while ((asked.verbose || is_bad) && remedy[0] && rest.ptr) {
        struct span line = rg_span_cut(&rest, '\n');
        rg_buf_addf(out, "        $ %.*s\n", RG_SPAN_ARG(line));
    }
}

static void add_host(const char *title, const json_t *facts, struct rg_buf *out)
{
    rg_buf_addf(out, "%s: %.80s, %.40s on %.20s, MTU %" PRId64 ", %zu RDMA ports\n", title,
                rg_peer_text(facts, "host"), rg_peer_text(facts, "address"),
                rg_peer_text(facts, "netdev"), rg_peer_number(facts, "netdev_mtu", 0, 1 << 20, 0),
                json_array_size(json_object_get(facts, "ports")));
}

/* What the other host has told may hold anything: a terminal gets printable text only. */
static void clean(struct rg_buf *text)
{
    for (size_t i = 0; text->data && i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        text->data[i] = (c < 0x20 && c != '\n') || c == 0x7f ? '?' : text->data[i];
    }
}

static int print_report(const json_t *report)
{
    RG_BUF(text, TEXT_BYTES_MAX);
    if (asked.json) {
        rg_autofree char *json = json_dumps(report, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        rg_buf_addf(&text, "%s\n", json ? json : "");
        return rg_cli_print(&text);
    }
    size_t index;
    const json_t *finding;
    add_host("here ", json_object_get(report, "own"), &text);
    if (json_is_object(json_object_get(report, "other"))) {
        add_host("there", json_object_get(report, "other"), &text);
    }
    json_array_foreach(json_object_get(report, "findings"), index, finding)
    {
        add_finding(finding, &text);
    }
    rg_buf_addf(&text, "verdict: %s\n", rg_peer_text(report, "verdict"));
    clean(&text);
    return rg_cli_print(&text);
}

static void free_report(json_t **report)
{
    json_decref(*report);
}

int rg_cli_doctor_peer(int argc, const char **argv)
{
    int count;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(free_report) json_t *report = NULL;
    asked.port = RG_PEER_PORT;
    asked.memory = BYTES_USUAL;
    struct rg_host_plan usual;
    rg_host_plan_init(&usual);
    asked.priority = usual.roce_priority;
    int status = rg_cli_read_options("doctor", peer_options, argc, argv, &count);
    if (status != RG_EXIT_OK) {
        return status;
    }
    if (count != 1 || !has_port(false) || asked.memory < BYTES_LEAST || asked.memory > BYTES_MOST ||
        asked.priority > 7) {
        return rg_cli_fail_usage("doctor",
                                 "peer needs a HOST; --port is 1 to 65535, --memory 1M to "
                                 "64M, --priority 0 to 7");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct rg_peer_visit visit = {.host = argv[0],
                                  .port = (uint16_t)asked.port,
                                  .bytes = asked.memory,
                                  .only = asked.only ? asked.only : "",
                                  .gpu = asked.gpu,
                                  .priority = (unsigned)asked.priority};
    if (rg_peer_visit(&visit, &report, &err) < 0) {
        (void)rg_cli_fail(&err);
        return 2;
    }
    if (print_report(report) != RG_EXIT_OK) {
        return 2;
    }
    const char *verdict = rg_peer_text(report, "verdict");
    return strcmp(verdict, "fail") == 0 ? 2 : strcmp(verdict, "warn") == 0 ? 1 : 0;
}
