/*
 * A client's queue pairs as a program that does as it is told, line by line: for tests that speak
 * HTTP themselves and want to see, or spoil, each step of a session. Its memory is a file that the
 * test maps too.
 *
 *   rxe-endpoint FILE [DEVICE]
 *
 *   lane                              -> ok LANE QPN PSN TOKEN
 *   pair LANE REPLY-TOKEN PSN         -> ok                         (token of the other end, 88
 * digits) receive LANE                      -> ok wait LANE MS                      -> ok IMMEDIATE
 * LENGTH CAUSE  (IMMEDIATE - when there is none) mint LANE OFFSET LENGTH get|put   -> ok TARGET
 * ADDRESS RKEY revoke TARGET                     -> ok push LANE ADDRESS RKEY OFFSET LENGTH
 * IMMEDIATE MS -> ok CAUSE reset LANE | close LANE           -> ok
 *
 * Numbers are hex but for LANE, TARGET and MS. Failures: "error CODE sentence".
 */
#include "base/attr.h"
#include "base/buf.h"
#include "rdma/token.h"
#include "rdma/transport.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define THINGS_MAX 512
#define WORDS_MAX  8

static struct rg_rail *rail;
static struct rg_region *region;
static struct rg_lane *lanes[THINGS_MAX];
static struct rg_target *targets[THINGS_MAX];
static size_t lane_count, target_count;
static struct rg_error error;

static int say(const char *format, ...) RG_PRINTF(1, 2);
static int say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    return 0;
}

static uint64_t hex(const char *word)
{
    return strtoull(word, NULL, 16);
}

static struct rg_lane *lane_of(const char *word)
{
    size_t at = strtoul(word, NULL, 10);
    if (at >= lane_count || !lanes[at]) {
        fprintf(stderr, "no lane %s\n", word);
        exit(2);
    }
    return lanes[at];
}

/* ---- Commands: 0 when they have answered ---- */

static int open_lane(char **words)
{
    struct rg_lane *lane;
    struct rg_lane_address own;
    RG_BUF(token, 256);
    if (lane_count == THINGS_MAX) {
        return rg_fail(&error, RG_LIMIT);
    }
    int rc = rg_lane_open(rail, &lane, &error);
    if (rc == 0) {
        rc = rg_lane_address(lane, &own, &error);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_rdma_window window = {
        .transport = RG_TRANSPORT_RC,
        .qpn = own.qpn,
        .lid = own.lid,
        .port = own.port,
        .has_gid = own.has_gid,
    };
    memcpy(window.gid, own.gid, sizeof window.gid);
    rg_token_print_hipobj(&window, &token);
    lanes[lane_count] = lane;
    return say("ok %zu %" PRIx32 " %06" PRIx32 " %s", lane_count++, own.qpn, own.psn,
               rg_buf_text(&token));
}

static int pair(char **words)
{
    struct rg_rdma_window window;
    int rc = rg_token_parse(rg_span_text(words[1]), &window, &error);
    if (rc < 0) {
        return rc;
    }
    struct rg_lane_address peer = {
        .qpn = window.qpn,
        .psn = (uint32_t)hex(words[2]),
        .lid = window.lid,
        .has_gid = window.has_gid,
        .port = window.port,
    };
    memcpy(peer.gid, window.gid, sizeof peer.gid);
    rc = rg_lane_pair(lane_of(words[0]), &peer, &error);
    return rc < 0 ? rc : say("ok");
}

static int receive(char **words)
{
    int rc = rg_lane_receive(lane_of(words[0]), 0, &error);
    return rc < 0 ? rc : say("ok");
}

static int await(struct rg_lane *lane, uint32_t ms, struct rg_completion *completion)
{
    size_t count = 0;
    return rg_lane_wait(lane, completion, 1, -1, ms, &count, &error);
}

static int wait_for(char **words)
{
    struct rg_completion completion;
    int rc = await(lane_of(words[0]), (uint32_t)strtoul(words[1], NULL, 10), &completion);
    if (rc < 0) {
        return rc;
    }
    char immediate[16] = "-";
    if (completion.has_immediate) {
        snprintf(immediate, sizeof immediate, "%08" PRIx32, completion.immediate);
    }
    return say("ok %s %" PRIx64 " %s", immediate, completion.length,
               rg_cause_name(completion.cause));
}

static int mint(char **words)
{
    enum rg_direction direction =
        strcmp(words[3], "get") == 0 ? RG_DIRECTION_GET : RG_DIRECTION_PUT;
    if (target_count == THINGS_MAX) {
        return rg_fail(&error, RG_LIMIT);
    }
    int rc = rg_window_mint(lane_of(words[0]), region, hex(words[1]), hex(words[2]), direction,
                            &targets[target_count], &error);
    if (rc < 0) {
        return rc;
    }
    const struct rg_rdma_window *window = &targets[target_count]->window;
    return say("ok %zu %016" PRIx64 " %08" PRIx64, target_count++, window->address, window->rkey);
}

static int revoke_target(char **words)
{
    size_t at = strtoul(words[0], NULL, 10);
    if (at >= target_count || !targets[at]) {
        return rg_fail(&error, RG_NOT_FOUND);
    }
    int rc = rg_window_revoke(RG_TAKE(targets[at]), true, &error);
    return rc < 0 ? rc : say("ok");
}

static int push(char **words)
{
    struct rg_lane *lane = lane_of(words[0]);
    struct rg_completion completion;
    struct rg_rdma_window window = {
        .dialect = RG_DIALECT_HIPOBJ_V2,
        .transport = RG_TRANSPORT_RC,
        .address = hex(words[1]),
        .rkey = hex(words[2]),
        .length = hex(words[4]),
    };
    int rc = rg_lane_bind(lane, &window, &error);
    if (rc == 0) {
        rc = rg_lane_write_immediate(lane, region, hex(words[3]), 0, hex(words[4]),
                                     (uint32_t)hex(words[5]), 1, &error);
    }
    if (rc == 0) {
        rc = await(lane, (uint32_t)strtoul(words[6], NULL, 10), &completion);
    }
    return rc < 0 ? rc : say("ok %s", rg_cause_name(completion.cause));
}

static int reset(char **words)
{
    int rc = rg_lane_reset(lane_of(words[0]), &error);
    return rc < 0 ? rc : say("ok");
}

static int close_lane(char **words)
{
    rg_lane_close(lane_of(words[0]));
    lanes[strtoul(words[0], NULL, 10)] = NULL;
    return say("ok");
}

static const struct {
    const char *name;
    size_t words;
    int (*run)(char **words);
} commands[] = {
    {"lane", 0, open_lane}, {"pair", 3, pair},        {"receive", 1, receive},
    {"wait", 2, wait_for},  {"mint", 4, mint},        {"push", 7, push},
    {"reset", 1, reset},    {"close", 1, close_lane}, {"revoke", 1, revoke_target},
};

static void obey(char *line)
{
    char *words[WORDS_MAX + 1] = {0};
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \n", &rest); word && count <= WORDS_MAX;
         word = strtok_r(NULL, " \n", &rest)) {
        words[count++] = word;
    }
    for (size_t i = 0; count && i < RG_ARRAY_LENGTH(commands); i++) {
        if (strcmp(words[0], commands[i].name) == 0 && count == commands[i].words + 1) {
            int rc = commands[i].run(words + 1);
            if (rc < 0) {
                say("error %s %s", rg_code_name((enum rg_code)(-rc)), error.message);
            }
            return;
        }
    }
    say("error command");
}

/* ---- */

static int open_all(const char *file, const char *device)
{
    struct rg_rail_config config = RG_RAIL_CONFIG_INIT;
    const struct rg_transport *rc = rg_transport_find(RG_TRANSPORT_RC);
    struct stat info;
    rg_autoclose int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0 || !rc) {
        perror(file);
        return -1;
    }
    size_t bytes = (size_t)info.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return -1;
    }
    config.ack_timeout = 14;
    snprintf(config.device, sizeof config.device, "%s", device);
    int failed = rg_rail_open(rc, &config, &rail, &error);
    if (failed == 0) {
        failed = rg_region_register(
            rail, memory, bytes, RG_ACCESS_LOCAL | RG_ACCESS_REMOTE_READ | RG_ACCESS_REMOTE_WRITE,
            &region, &error);
    }
    if (failed < 0) {
        fprintf(stderr, "%s\n", error.message);
    }
    return failed;
}

static void close_all(void)
{
    for (size_t i = 0; i < target_count; i++) {
        (void)rg_window_revoke(targets[i], false, NULL);
    }
    for (size_t i = 0; i < lane_count; i++) {
        rg_lane_close(lanes[i]);
    }
    rg_region_deregister(region);
    rg_rail_close(rail);
}

int main(int argc, char **argv)
{
    char line[1024];
    if (argc < 2 || open_all(argv[1], argc > 2 ? argv[2] : "rxe0") < 0) {
        return 2;
    }
    say("ok");
    while (fgets(line, sizeof line, stdin)) {
        obey(line);
    }
    close_all();
    return 0;
}
