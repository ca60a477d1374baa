/*
 * Deleting everything below a prefix, for rm and rb.
 */
#ifndef RG_CLI_REMOVE_H
#define RG_CLI_REMOVE_H

#include <railgate/railgate.h>

#include <stdbool.h>

/* Prints a summary line; returns an exit status. */
int rg_cli_remove_all(struct rg_client *client, const char *bucket, const char *prefix,
                      bool verbose);

#endif
