/*
 * The command line: main.c finds the subcommand in commands.tbl, answers --help and --version, and
 * hands the remaining words over. Each subcommand is one file. What a command computes lives in the
 * room it belongs to; here it only reads words, prints, and picks an exit status.
 */
#ifndef RG_CLI_CLI_H
#define RG_CLI_CLI_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/error.h"

/* Exit statuses of every subcommand. */
enum rg_exit {
    RG_EXIT_OK = 0,
    RG_EXIT_FAILED = 1, /* it was asked rightly and could not be done */
    RG_EXIT_USAGE = 2,  /* a setting, option or word that is not valid */
};

/* `argv` holds the `argc` words after the subcommand; the function may reorder them. Returns the
 * exit status. The help function appends what follows the usage line and the summary. */
#define RG_COMMAND(name, usage, summary)                                                           \
    int rg_cli_##name(int argc, const char **argv);                                                \
    void rg_cli_##name##_help(struct rg_buf *out);
#include "cli/commands.tbl"
#undef RG_COMMAND

/* Prints the error as one line on standard error and returns the exit status that goes with it:
 * RG_EXIT_USAGE for a setting, else RG_EXIT_FAILED. */
int rg_cli_fail(const struct rg_error *err);

/* Prints "railgate COMMAND: ..." and a pointer to its help on standard error, as one line; returns
 * RG_EXIT_USAGE. */
int rg_cli_fail_usage(const char *command, const char *format, ...) RG_PRINTF(2, 3);

/* Writes the buffer to standard output; RG_EXIT_OK, or RG_EXIT_FAILED (and a line on standard
 * error) when it cannot be written or was never complete. */
int rg_cli_print(const struct rg_buf *text);

/* The line that --version prints. */
const char *rg_cli_version(void);

#endif
