/*
 * This host's own logs as streams: the kernel ring, and the journal through journalctl, a child
 * that is stopped when it takes too long.
 */
#ifndef RG_DIAG_LIVE_H
#define RG_DIAG_LIVE_H

#include "base/error.h"

#include "diag/line.h"

struct rg_live;

/* The kernel ring, as it is now, through /dev/kmsg or else syslog(2). */
int rg_live_open_ring(struct rg_live **ret_live, struct rg_error *err);

/* The last day of the journal in the export format. */
int rg_live_open_journal(unsigned timeout_s, struct rg_live **ret_live, struct rg_error *err);

struct rg_stream rg_live_stream(struct rg_live *live);

/* Closes, stops the child, and frees. 0, or a negative code when the child did not end well. */
int rg_live_close(struct rg_live *live, struct rg_error *err);

#endif
