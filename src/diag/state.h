/*
 * State that people paste beside logs: `lctl get_param *.*.import`. It is a snapshot of where
 * targets were served when it was taken, never an event.
 */
#ifndef RG_DIAG_STATE_H
#define RG_DIAG_STATE_H

#include "base/span.h"
#include "diag/record.h"

#include <stdbool.h>

#define RG_STATE_NIDS_MAX 8

/* Between lines. Zero-initialised. */
struct rg_state {
    rg_node_id node;
    rg_source_id source;
    uint64_t line;    /* of the last line of the block that is read */
    char target[128]; /* of the import that is read; "" when none is */
};

/* What one line says; borrowed from the record and the state, until the next line. */
struct rg_state_fact {
    struct span target;
    struct span nids[RG_STATE_NIDS_MAX];
    size_t nid_count;
    bool current; /* where it was served; else where it may be */
};

/* Reads a line of a record that has no stamp. True when it says where a target is. */
bool rg_state_read(struct rg_state *state, const struct rg_record *record,
                   struct rg_state_fact *ret_fact);

#endif
