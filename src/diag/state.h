/*
 * State that people paste beside logs, and that sos reports hold: `lctl get_param *.*.import`,
 * `lnetctl net|peer|route show`, `lctl list_nids`, `lfs df`. It is a snapshot of the moment it was
 * taken (which nothing in it tells), never an event.
 *
 * Of the YAML of lnetctl only what it prints is understood: "key: value" and "- key: value", a line
 * at a time.
 */
#ifndef RG_DIAG_STATE_H
#define RG_DIAG_STATE_H

#include "base/span.h"
#include "diag/record.h"

#include <stdbool.h>

#define RG_STATE_NIDS_MAX 8
#define RG_STATE_NAME_MAX 128

enum rg_state_kind {
    RG_STATE_IMPORT, /* target; nids; current: where it is served, else where it may be; or value:
                      * the state of the connection to it */
    RG_STATE_OWN,    /* nids[0] is the node's own; value: its status, or "" */
    RG_STATE_PEER,   /* nids[0] and nids[1] are of one host; value: of the second, or "" */
    RG_STATE_ROUTE,  /* nids[0] is a router to `target` (a network); value: its state, or "" */
    RG_STATE_SPACE,  /* `lfs df` of target; value: what is wrong with it */
    RG_STATE_KIND_COUNT,
};

/* Between lines. Zero-initialised. */
struct rg_state {
    rg_node_id node;
    rg_source_id source;
    int left; /* import: lines in which the connection may still come */
    enum {
        RG_DUMP_NONE,
        RG_DUMP_IMPORT,
        RG_DUMP_NET,
        RG_DUMP_PEER,
        RG_DUMP_ROUTE,
        RG_DUMP_NIDS,
        RG_DUMP_DF,
        RG_DUMP_OTHER, /* of lnetctl, and nothing in it is for us */
    } dump;
    char subject[RG_STATE_NAME_MAX]; /* import: target; net: NI; peer: primary; route: network */
    char second[RG_STATE_NAME_MAX];  /* peer: NI; route: gateway; df: file system */
    char value[32];
};

/* What one line says; borrowed from the record and the state, until the next line. */
struct rg_state_fact {
    enum rg_state_kind kind;
    struct span target;
    struct span nids[RG_STATE_NIDS_MAX];
    size_t nid_count;
    bool current;
    struct span value;
    bool bad; /* the value is not as it should be */
};

enum rg_state_line {
    RG_STATE_NO,   /* a line of something else */
    RG_STATE_PART, /* part of a dump, and says nothing to us */
    RG_STATE_FACT,
};

/* Whether a line opens what a tool prints of a node's state: a dump of those above, any parameter
 * of `lctl get_param`, `ibstat`. Strict enough to tell that what stands before it is a prefix. */
bool rg_state_opens(struct span line);

/* Reads a line of a record that has no stamp. `source_name` is looked at where a source begins. */
enum rg_state_line rg_state_read(struct rg_state *state, const struct rg_log_record *record,
                                 struct span source_name, struct rg_state_fact *ret_fact);

/* "net", "peer", …: for JSON. */
const char *rg_state_kind_name(enum rg_state_kind kind);

#endif
