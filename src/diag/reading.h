/*
 * Reads one source (a file, a member of an archive, standard input) line by line and hands on
 * records: shapes mixed freely, blocks of dshbak, clush and ansible, journal exports, wrapped
 * lines, repeats, boots, years.
 *
 * It decides who spoke and when; never what a line means.
 */
#ifndef RG_DIAG_READING_H
#define RG_DIAG_READING_H

#include "base/error.h"

#include "diag/boots.h"
#include "diag/clock.h"
#include "diag/line.h"
#include "diag/nodes.h"
#include "diag/record.h"
#include "diag/repeats.h"
#include "diag/shape.h"

/* What is shared by all sources of one run; all borrowed but `counts`. */
struct rg_desk {
    struct rg_interned *nodes;
    struct rg_interned *sources;
    struct rg_boots *boots;
    struct rg_repeats *repeats;
    struct rg_clocks *clocks; /* may be NULL: year corrections are dropped then */
    void (*take)(void *context, const struct rg_log_record *record);
    void *context;
    struct {
        uint64_t lines;
        uint64_t records;
        uint64_t truncated;              /* lines beyond the ceiling */
        uint64_t shapes[RG_SHAPE_COUNT]; /* records by shape */
    } counts;
};

struct rg_source_facts {
    rg_source_id source;
    uint32_t family;        /* boots.h: a file and its rotated predecessors are one */
    rg_node_id node;        /* for lines that name none; 0: not known */
    int64_t reference_usec; /* when the source ended, for stamps without a year: 1970 UTC */
};

/*
 * Reads all of `lines`. 0, or the negative code with which the stream failed (everything before was
 * handed on).
 */
int rg_reading_run(struct rg_desk *desk, const struct rg_source_facts *facts,
                   struct rg_lines *lines, struct rg_error *err);

#endif
