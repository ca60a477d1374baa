/*
 * Counts and progress of copying commands. See tally.h.
 */
#include "cli/tally.h"

#include "cli/cli.h"
#include "cli/remote.h"

#include "base/assert.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES_MAX 16384
#define TELL_PERIOD_NS UINT64_C(100000000)
#define BAR_CELLS      20
#define CLEAR_LINE     "\r\033[K"

void rg_cli_tally_begin(struct rg_cli_tally *tally, bool verbose)
{
    memset(tally, 0, sizeof *tally);
    RG_MUST(pthread_mutex_init(&tally->mutex, NULL));
    tally->verbose = verbose;
    tally->on_terminal = isatty(STDERR_FILENO) == 1;
    tally->started_ns = rg_clock_ns();
}

/* The functions below run under the lock, unless they are public. */

static double seconds_since(uint64_t start_ns)
{
    return (double)(rg_clock_ns() - start_ns) / 1e9;
}

static void add_rate(struct rg_buf *line, uint64_t bytes, double seconds)
{
    rg_cli_add_bytes(line, seconds > 0 ? (uint64_t)((double)bytes / seconds) : 0);
    rg_buf_add_text(line, "/s");
}

static void add_bar(struct rg_buf *line, uint64_t done, uint64_t total)
{
    uint64_t full = total ? done * BAR_CELLS / total : 0;
    rg_buf_add_char(line, '[');
    for (uint64_t i = 0; i < BAR_CELLS; i++) {
        rg_buf_add_char(line, i < full ? '#' : '.');
    }
    rg_buf_addf(line, "] %3" PRIu64 "%% ", total ? done * 100 / total : 0);
}

static void tell(struct rg_cli_tally *tally)
{
    uint64_t now = rg_clock_ns();
    if (!tally->on_terminal || now - tally->told_ns < TELL_PERIOD_NS) {
        return;
    }
    tally->told_ns = now;
    RG_BUF(line, LINE_BYTES_MAX);
    rg_buf_add_text(&line, CLEAR_LINE);
    if (tally->knows_total && tally->moving <= tally->total) {
        add_bar(&line, tally->moving, tally->total);
    }
    rg_cli_add_bytes(&line, tally->moving);
    rg_buf_addf(&line, ", %" PRIu64 " done, ", tally->objects);
    add_rate(&line, tally->moving, seconds_since(tally->started_ns));
    fputs(rg_buf_text(&line), stderr);
    fflush(stderr);
}

static void clear(const struct rg_cli_tally *tally)
{
    if (tally->on_terminal && tally->told_ns) {
        fputs(CLEAR_LINE, stderr);
    }
}

static void count_path(struct rg_cli_tally *tally, const char *path, uint64_t bytes)
{
    size_t i = 0;
    while (i < tally->path_count && strcmp(tally->paths[i].path, path) != 0) {
        i++;
    }
    if (i == RG_CLI_PATHS_MAX) {
        i--; /* one name more than there can be; it counts, and its name is the last one's */
    } else if (i == tally->path_count) {
        snprintf(tally->paths[i].path, sizeof tally->paths[i].path, "%s", path);
        tally->path_count++;
    }
    tally->paths[i].objects++;
    tally->paths[i].bytes += bytes;
}

bool rg_cli_tally_progress(void *context, uint64_t done, uint64_t total)
{
    struct rg_cli_share *share = context;
    struct rg_cli_tally *tally = share->tally;
    (void)total;
    RG_MUST(pthread_mutex_lock(&tally->mutex));
    tally->moving = tally->moving - share->counted + done;
    share->counted = done;
    tell(tally);
    RG_MUST(pthread_mutex_unlock(&tally->mutex));
    return true;
}

void rg_cli_tally_done(struct rg_cli_tally *tally, const char *from, const char *to,
                       const struct rg_result *result)
{
    RG_BUF(line, LINE_BYTES_MAX);
    rg_cli_add_name(&line, from);
    rg_buf_add_text(&line, " -> ");
    rg_cli_add_name(&line, to);
    rg_buf_addf(&line, "  %" PRIu64 " bytes  %s", result->object_size, result->path);
    if (result->reason[0] && !strstr(result->path, result->reason)) {
        rg_buf_addf(&line, " (%s)", result->reason);
    }
    rg_buf_add_text(&line, result->verified ? "  verified\n" : "\n");
    RG_MUST(pthread_mutex_lock(&tally->mutex));
    tally->objects++;
    tally->bytes += result->object_size;
    count_path(tally, result->path, result->object_size);
    if (tally->verbose) {
        clear(tally);
        fputs(rg_buf_text(&line), stdout);
        fflush(stdout);
    }
    tell(tally);
    RG_MUST(pthread_mutex_unlock(&tally->mutex));
}

void rg_cli_tally_failed(struct rg_cli_tally *tally, const struct rg_failure *failure)
{
    RG_MUST(pthread_mutex_lock(&tally->mutex));
    tally->failed++;
    clear(tally);
    (void)rg_cli_fail_remote(failure);
    RG_MUST(pthread_mutex_unlock(&tally->mutex));
}

void rg_cli_tally_skipped(struct rg_cli_tally *tally, const char *name, const char *why)
{
    RG_BUF(line, LINE_BYTES_MAX);
    rg_buf_add_text(&line, "railgate: left out: ");
    rg_cli_add_name(&line, name);
    rg_buf_addf(&line, ": %s\n", why);
    RG_MUST(pthread_mutex_lock(&tally->mutex));
    tally->skipped++;
    clear(tally);
    fputs(rg_buf_text(&line), stderr);
    RG_MUST(pthread_mutex_unlock(&tally->mutex));
}

void rg_cli_tally_deleted(struct rg_cli_tally *tally, const char *name)
{
    RG_BUF(line, LINE_BYTES_MAX);
    rg_buf_add_text(&line, "deleted ");
    rg_cli_add_name(&line, name);
    rg_buf_add_char(&line, '\n');
    RG_MUST(pthread_mutex_lock(&tally->mutex));
    tally->deleted++;
    if (tally->verbose) {
        clear(tally);
        fputs(rg_buf_text(&line), stdout);
    }
    RG_MUST(pthread_mutex_unlock(&tally->mutex));
}

int rg_cli_tally_end(struct rg_cli_tally *tally, const char *verb)
{
    RG_BUF(line, LINE_BYTES_MAX);
    double seconds = seconds_since(tally->started_ns);
    clear(tally);
    rg_buf_addf(&line, "%s %" PRIu64 " object%s, ", verb, tally->objects,
                tally->objects == 1 ? "" : "s");
    rg_cli_add_bytes(&line, tally->bytes);
    rg_buf_addf(&line, " in %.1f s (", seconds);
    add_rate(&line, tally->bytes, seconds);
    rg_buf_add_char(&line, ')');
    for (size_t i = 0; i < tally->path_count; i++) {
        rg_buf_addf(&line, "%s%" PRIu64 " by %s", i ? ", " : ": ", tally->paths[i].objects,
                    tally->paths[i].path);
    }
    if (tally->deleted) {
        rg_buf_addf(&line, "; %" PRIu64 " deleted", tally->deleted);
    }
    if (tally->skipped) {
        rg_buf_addf(&line, "; %" PRIu64 " left out", tally->skipped);
    }
    if (tally->failed) {
        rg_buf_addf(&line, "; %" PRIu64 " FAILED", tally->failed);
    }
    rg_buf_add_char(&line, '\n');
    int status = rg_cli_print(&line);
    RG_MUST(pthread_mutex_destroy(&tally->mutex));
    return tally->failed || tally->skipped ? RG_EXIT_FAILED : status;
}
