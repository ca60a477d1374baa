/*
 * Something that may hang, in a child process with a deadline: what it writes comes back over a
 * pipe. A child that does not even die is left behind and reported, never waited for.
 */
#ifndef RG_HOST_PROBE_H
#define RG_HOST_PROBE_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum rg_probe_end {
    RG_PROBE_DONE,    /* it ended with exit status 0 */
    RG_PROBE_FAILED,  /* `status` is its exit status */
    RG_PROBE_CRASHED, /* `status` is the signal */
    RG_PROBE_KILLED,  /* it was not done in time */
    RG_PROBE_STUCK,   /* nor did it die: it waits inside the kernel */
};

struct rg_probe_result {
    enum rg_probe_end end;
    int status;
    bool truncated; /* it had more to say than out->max */
};

/* Runs in the child; writes to `fd` and returns the exit status, an errno value by custom. */
typedef int rg_probe_function(void *argument, int fd);

/* The exit status of a command that is not installed. */
#define RG_PROBE_NO_COMMAND 127

/*
 * Runs `function` and appends what it writes to `out`. Fails only when there is no child:
 * RG_SERVICE_UNAVAILABLE. Call it where fork is safe: no other thread may hold a lock that the
 * function takes.
 */
int rg_probe_run(rg_probe_function *function, void *argument, unsigned timeout_ms,
                 struct rg_buf *out, struct rg_probe_result *ret_result, struct rg_error *err);

/* What a child that is watched shares with its parent: it changes `progress` as long as it gets on.
 */
struct rg_probe_watch {
    _Atomic unsigned progress;
    unsigned stall_ms; /* without a change it counts as hanging */
};

/* The same, ending early when the child makes no progress. `watch` is in shared memory. */
int rg_probe_run_watched(rg_probe_function *function, void *argument, unsigned timeout_ms,
                         const struct rg_probe_watch *watch, struct rg_buf *out,
                         struct rg_probe_result *ret_result, struct rg_error *err);

/* A command from the system's directories, in the C locale, without input; its standard error is
 * dropped. argv ends with NULL. */
int rg_probe_command(const char *const *argv, unsigned timeout_ms, struct rg_buf *out,
                     struct rg_probe_result *ret_result, struct rg_error *err);

/* For probes: writes all of it; 0 or an errno value. */
int rg_probe_write(int fd, const char *text, size_t len);

#endif
