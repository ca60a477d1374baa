/*
 * The start of a gateway on a tree that may not answer: frozen, or on servers that are away.
 * Whoever waits for the start is told so, it ends at a limit, and a signal ends it.
 *
 * A thread that the kernel holds in such a file system is beyond every signal, SIGKILL included,
 * and its process ends only with it. So a child looks first, by opening the tree and closing it
 * again; this process follows when that worked.
 */
#ifndef RG_CLI_START_H
#define RG_CLI_START_H

#include "base/attr.h"
#include "base/error.h"
#include "base/settings.h"

struct rg_start;

/*
 * Returns when the tree has answered, with whatever; that it never does ends the process, as does
 * SIGTERM or SIGINT (which must be blocked). Until rg_start_end it likewise ends at these when it
 * does not get on. Borrows all until then.
 */
int rg_start_begin(const char *root, const struct rg_settings *settings,
                   struct rg_start **ret_start, struct rg_error *err) RG_CHECK;

/* The tree is open; what follows has a limit of its own. */
void rg_start_goes_on(struct rg_start *start);

/* The signal that was caught meanwhile and asks for a stop, or 0. NULL is fine. */
int rg_start_end(struct rg_start *start);

#endif
