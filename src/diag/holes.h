/*
 * Lines that are known to be missing: what the kernel, a syslog daemon or the journal say they
 * dropped, and rings whose beginning was overwritten. Absence of a line proves nothing there.
 */
#ifndef RG_DIAG_HOLES_H
#define RG_DIAG_HOLES_H

#include "base/error.h"

#include "diag/diagnosis.h"
#include "diag/nodes.h"
#include "diag/record.h"

struct rg_holes;

int rg_holes_new(struct rg_holes **ret_holes, struct rg_error *err);
void rg_holes_free(struct rg_holes *holes);

/* For every record, in order. */
void rg_holes_note(struct rg_holes *holes, const struct rg_log_record *record);

/* One sentence of a name and a count. The name may be a word of ours (labels.h). */
typedef void (*rg_hole_teller)(void *context, enum rg_phrase_id sentence, struct span name,
                               uint64_t count);

/* Tells once a node and kind of hole, in the order in which nodes were met. */
void rg_holes_tell(const struct rg_holes *holes, const struct rg_interned *nodes,
                   rg_hole_teller tell, void *context);

#endif
