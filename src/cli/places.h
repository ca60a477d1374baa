/*
 * The two ends of a copy: a directory or a prefix of a bucket, what is in them, and how names below
 * a directory are reached without leaving it.
 */
#ifndef RG_CLI_PLACES_H
#define RG_CLI_PLACES_H

#include "cli/jobs.h"
#include "cli/remote.h"
#include "cli/tally.h"

#include <railgate/railgate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define RG_CLI_ENTRIES_MAX 10000000u
#define RG_CLI_PATH_MAX    4096u

/* One file or object; `name` is relative to the place, with '/' between directories. */
struct rg_cli_entry {
    char *name;
    uint64_t size;
    struct timespec modified;
};

/* Sorted by name, byte by byte. */
struct rg_cli_list {
    struct rg_cli_entry *entries;
    size_t count;
    size_t room;
    uint64_t bytes; /* of all */
};

void rg_cli_list_free(struct rg_cli_list *list);

/*
 * The regular files below the directory. Links are left out (and said so) unless `follow`; files of
 * other kinds always. A directory that cannot be read counts as a failure in *tally; with a NULL
 * tally nothing is said or counted. Returns an exit status; a line is printed when it is not
 * RG_EXIT_OK.
 */
int rg_cli_list_files(const char *directory, bool follow, struct rg_cli_tally *tally,
                      struct rg_cli_list *ret_list);

/* The objects whose keys start with `prefix`, named by the rest of their keys. */
int rg_cli_list_objects(struct rg_client *client, const char *bucket, const char *prefix,
                        struct rg_cli_list *ret_list);

/* Does the job for each entry, several at once. Returns an exit status; a line is printed when it
 * is not RG_EXIT_OK. */
int rg_cli_list_do(const struct rg_cli_list *list, unsigned threads, rg_cli_job *job,
                   void *context);

/* Why a name must not become a path below a directory; NULL when it may. */
const char *rg_cli_name_danger(const char *name);

/*
 * Opens the directory that `name` stands in, below `base_fd`, one step at a time and without ever
 * following a link; with `make` missing ones are made. -1 and errno on failure (ELOOP or ENOTDIR:
 * there is a link or a file where a directory should be). *ret_last points into `name`.
 */
int rg_cli_open_parent(int base_fd, const char *name, bool make, const char **ret_last);

#endif
