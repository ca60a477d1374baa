/*
 * Threads of the gateway itself. They may end up inside a file system that hangs, so nobody joins
 * them: whoever started one waits for its event, with a deadline.
 */
#ifndef RG_GATE_THREAD_H
#define RG_GATE_THREAD_H

#include "base/error.h"

/* Starts a detached thread with all signals blocked. `name` has at most 15 bytes and is static. */
int rg_thread_start(const char *name, void *(*run)(void *argument), void *argument,
                    struct rg_error *err);

#endif
