/*
 * Where logs come from: files, directories, archives (tar, zip, cpio; any compression; nested),
 * compressed files, sos reports, standard input, and this host's own kernel ring and journal.
 *
 * What cannot be read is noted as a problem and the rest is read all the same. Memory does not grow
 * with the size of the input.
 */
#ifndef RG_DIAG_SOURCE_H
#define RG_DIAG_SOURCE_H

#include "base/error.h"

#include "diag/catalogue.h"
#include "diag/reading.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_PROBLEMS_MAX 200 /* further ones are counted */

enum rg_problem_kind {
    RG_PROBLEM_UNREADABLE, /* an input the user named gave nothing */
    RG_PROBLEM_PARTIAL,    /* read up to where it broke off */
    RG_PROBLEM_SKIPPED,    /* something found on the way that is no log (binary) */
};

struct rg_problem {
    enum rg_problem_kind kind;
    char *source;
    char *sentence[RG_LANGUAGE_COUNT];
};

struct rg_inputs_options {
    const char *node; /* the node of inputs that name none (--node), or NULL */
    /* Now and then while reading: bytes read so far, of `total` (0: not known). May be NULL. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    unsigned live_timeout_s; /* for journalctl; 0: 60 */
};

struct rg_inputs;

/* The desk is borrowed; so are the strings of the options. */
int rg_inputs_new(struct rg_desk *desk, const struct rg_inputs_options *options,
                  struct rg_inputs **ret_inputs, struct rg_error *err);
void rg_inputs_free(struct rg_inputs *inputs);

/* A file, a directory, an archive, or "-" for standard input. What cannot be opened becomes a
 * problem when it is read. Fails only without memory or with RG_LIMIT at RG_SOURCES_MAX files. */
int rg_inputs_add(struct rg_inputs *inputs, const char *path, struct rg_error *err);

/* This host: its kernel ring, and the last day of its journal. */
int rg_inputs_add_live(struct rg_inputs *inputs, struct rg_error *err);

/* Reads all that was added, rotated files oldest first. Problems are noted, not returned. */
int rg_inputs_read(struct rg_inputs *inputs, struct rg_error *err);

/* What went wrong; the array lives until the inputs are freed. */
const struct rg_problem *rg_inputs_problems(const struct rg_inputs *inputs, size_t *ret_count,
                                            uint64_t *ret_left_out);

/* True when some input that the user named gave nothing. */
bool rg_inputs_unreadable(const struct rg_inputs *inputs);

/* How many sources were read. */
uint64_t rg_inputs_read_count(const struct rg_inputs *inputs);

#endif
