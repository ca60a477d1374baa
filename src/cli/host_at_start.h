/*
 * What `railgate serve` finds out about the machine before it starts: the table of `railgate
 * doctor`, for a gateway. It never stops a start.
 */
#ifndef RG_CLI_HOST_AT_START_H
#define RG_CLI_HOST_AT_START_H

#include "base/settings.h"

struct rg_host_at_start;

/* Before any thread is started. NULL when the machine could not be examined; that is logged later,
 * too. Release with rg_host_at_start_free. */
struct rg_host_at_start *rg_host_at_start_examine(const struct rg_settings *settings);
void rg_host_at_start_free(struct rg_host_at_start **host);

/* Logs what is not well, once the start is sure: one that fails says one thing only. */
void rg_host_at_start_log(const struct rg_host_at_start *host);

/* The verdict on what RDMA stands on, as JSON: for rg_gateway_set_host. malloc'ed; NULL: none. */
char *rg_host_at_start_json(const struct rg_host_at_start *host);

#endif
