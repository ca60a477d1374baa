/*
 * Lines that are known to be missing: what the kernel, a syslog daemon or the journal say they
 * dropped, and rings whose beginning was overwritten. Absence of a line proves nothing there.
 */
#ifndef RG_DIAG_HOLES_H
#define RG_DIAG_HOLES_H

#include "base/error.h"

#include "diag/nodes.h"
#include "diag/record.h"

struct rg_holes;

int rg_holes_new(struct rg_holes **ret_holes, struct rg_error *err);
void rg_holes_free(struct rg_holes *holes);

/* For every record, in order. */
void rg_holes_note(struct rg_holes *holes, const struct rg_record *record);

/* One sentence a node and kind of hole, in the order in which nodes were met. */
void rg_holes_tell(const struct rg_holes *holes, const struct rg_interned *nodes,
                   void (*tell)(void *context, const char *sentence), void *context);

#endif
