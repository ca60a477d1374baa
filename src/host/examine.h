/*
 * The whole examination in a child that is watched: a file that hangs when it is read (a dead
 * firmware, a dead mount) is left out at the next attempt, and reported. The caller never hangs.
 */
#ifndef RG_HOST_EXAMINE_H
#define RG_HOST_EXAMINE_H

#include "host/report.h"

struct rg_examination {
    const struct rg_host_plan *plan;
    const char *sysroot; /* "": this machine */
    const char *capture; /* directory to write what was read to; NULL: none */
    unsigned stall_ms;   /* without progress, something hangs; 0: what is usual */
};

/* The report, owned by the caller. RG_SETTING for a tree, a directory or a baseline that cannot be
 * used; RG_SERVICE_UNAVAILABLE when nothing could be examined. No other thread may run. */
int rg_host_examine(const struct rg_examination *what, json_t **ret_report, struct rg_error *err);

#endif
