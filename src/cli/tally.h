/*
 * What a copying command did so far: objects and bytes by the path they took, failures, and the
 * progress line on a terminal. All functions are safe from any thread.
 */
#ifndef RG_CLI_TALLY_H
#define RG_CLI_TALLY_H

#include <railgate/railgate.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RG_CLI_PATHS_MAX 16

struct rg_cli_tally {
    pthread_mutex_t mutex;
    bool verbose;
    bool on_terminal;
    bool knows_total;
    uint64_t total; /* bytes */
    uint64_t started_ns;
    uint64_t told_ns;
    uint64_t moving; /* bytes of objects under way and done, for the progress line */
    uint64_t objects;
    uint64_t bytes;
    uint64_t failed;
    uint64_t skipped;
    uint64_t deleted;
    struct {
        char path[96];
        uint64_t objects;
        uint64_t bytes;
    } paths[RG_CLI_PATHS_MAX];
    size_t path_count;
};

void rg_cli_tally_begin(struct rg_cli_tally *tally, bool verbose);

/* For rg_file_options of one object: &share, zeroed, as context. */
struct rg_cli_share {
    struct rg_cli_tally *tally;
    uint64_t counted;
};

bool rg_cli_tally_progress(void *share, uint64_t done, uint64_t total);

/* One object is copied: `from` and `to` as shown with -v. */
void rg_cli_tally_done(struct rg_cli_tally *tally, const char *from, const char *to,
                       const struct rg_result *result);
void rg_cli_tally_failed(struct rg_cli_tally *tally, const struct rg_failure *failure);

/* Something is left out, and why; printed on standard error. */
void rg_cli_tally_skipped(struct rg_cli_tally *tally, const char *name, const char *why);
void rg_cli_tally_deleted(struct rg_cli_tally *tally, const char *name);

/* Prints the summary line; the exit status: RG_EXIT_FAILED when anything failed or was skipped. */
int rg_cli_tally_end(struct rg_cli_tally *tally, const char *verb);

#endif
