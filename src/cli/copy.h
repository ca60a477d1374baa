/*
 * Copies between places, for cp and sync.
 */
#ifndef RG_CLI_COPY_H
#define RG_CLI_COPY_H

#include "cli/places.h"
#include "cli/remote.h"
#include "cli/tally.h"

#include <railgate/railgate.h>

#include <stdbool.h>

/* A directory, or a prefix of a bucket (which ends in '/' or is empty). */
struct rg_cli_place {
    bool is_url;
    struct rg_cli_url url; /* key: the prefix */
    char path[RG_CLI_PATH_MAX];
    int fd; /* of a directory that is written to; -1: not open */
};

struct rg_cli_copy {
    struct rg_client *client;
    struct rg_cli_place from;
    struct rg_cli_place to;
    bool resume;
    const char *content_type;
    struct rg_cli_tally tally;
};

/* Copies one object or file; names are relative to the places. Counts what became of it. */
void rg_cli_copy_one(struct rg_cli_copy *copy, const char *from, const char *to);

/* Removes what is called `name` at the destination. */
void rg_cli_copy_delete(struct rg_cli_copy *copy, const char *name);

/* Opens, and with `make` makes, the directory that is copied to. Prints a line on failure. */
int rg_cli_copy_open_target(struct rg_cli_copy *copy, bool make);

/* Reads "s3://..." or a path as a place: with '/' behind the key when there is none. */
int rg_cli_read_place(const char *command, const char *text, struct rg_cli_place *ret_place);

/* "s3://bucket/prefix" and `name`, or the path and `name`. */
void rg_cli_add_place(struct rg_buf *out, const struct rg_cli_place *place, const char *name);

/* What is there; `tally` as in rg_cli_list_files. */
int rg_cli_list_place(struct rg_cli_copy *copy, const struct rg_cli_place *place, bool follow,
                      struct rg_cli_tally *tally, struct rg_cli_list *ret_list);

#endif
