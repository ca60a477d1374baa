/*
 * Brings the clocks of many logs together (docs/diagnose.md, "Times").
 *
 * While the input streams by, what tells about a clock is noted: lines with two stamps, the
 * absolute times inside ptlrpc's request lines, the kernel's line about the hardware clock, the
 * `cur` of an eviction, the same request seen by two nodes. Correlation keeps moments as they were
 * printed, in struct rg_moment, and asks for times since 1970 when all input has been read.
 *
 * Nothing here decides what happened; a time that cannot be told is said to be unknown.
 */
#ifndef RG_DIAG_CLOCK_H
#define RG_DIAG_CLOCK_H

#include "base/buf.h"
#include "base/error.h"

#include "diag/collected.h"
#include "diag/event.h"
#include "diag/nodes.h"
#include "diag/record.h"

#include <stdbool.h>
#include <stdint.h>

/* A moment as some node printed it. Small, to be copied; borrows nothing. */
struct rg_moment {
    rg_node_id node;
    uint32_t boot;
    rg_source_id source;
    struct rg_stamp stamp;
};

static inline struct rg_moment rg_moment_of(const struct rg_log_record *record)
{
    return (struct rg_moment){record->node, record->boot, record->source, record->stamp};
}

/* What a resolved time rests on, best first. */
enum rg_time_basis {
    RG_TIME_STATED,   /* the line itself said it, with its zone */
    RG_TIME_PROVEN,   /* absolute times in lines of the same clock */
    RG_TIME_GIVEN,    /* --tz */
    RG_TIME_ASSUMED,  /* zone or boot time taken over from other logs of the input */
    RG_TIME_UNSTATED, /* wall clock of an unknown zone, as printed (as if it were UTC) */
    RG_TIME_RELATIVE, /* seconds since an unknown boot: comparable only within node and boot */
    RG_TIME_NONE,     /* no stamp at all */
};

struct rg_time {
    int64_t usec;             /* since 1970 UTC; for UNSTATED in the unknown zone; for RELATIVE
                               * since boot; 0 for NONE */
    int64_t uncertainty_usec; /* plus or minus; -1: not known (UNSTATED, RELATIVE, NONE) */
    enum rg_time_basis basis;
};

/* True when the times of several nodes may be compared. */
static inline bool rg_time_is_absolute(const struct rg_time *time)
{
    return time->basis <= RG_TIME_ASSUMED;
}

struct rg_clocks;
struct rg_boots;

int rg_clocks_new(struct rg_clocks **ret_clocks, struct rg_error *err);
void rg_clocks_free(struct rg_clocks *clocks);

/*
 * The zone of a node's wall clock, as the user states it: "Asia/Seoul", "UTC", "+09:00". `node` 0
 * is for all nodes that have none of their own. RG_SETTING when no such zone is known here.
 */
int rg_clocks_set_zone(struct rg_clocks *clocks, rg_node_id node, const char *zone,
                       struct rg_error *err);

/* For every record (cheap: returns at once when the record tells nothing about clocks). */
void rg_clocks_note_record(struct rg_clocks *clocks, const struct rg_log_record *record);

/* For every event, after its record. */
void rg_clocks_note_event(struct rg_clocks *clocks, const struct rg_event *event);

/* What the sos report of a node says of when it was taken; pieces that come one by one are put
 * together. Of at most 1024 nodes. */
void rg_clocks_note_collected(struct rg_clocks *clocks, rg_node_id node,
                              const struct rg_collected *collected);

/* That boot is the one whose ring the node's sos report holds. */
void rg_clocks_note_ring(struct rg_clocks *clocks, rg_node_id node, uint32_t boot);

/* The reader chose the years of this source's stamps and saw later that they are off: `years` is
 * added to them. */
void rg_clocks_shift_years(struct rg_clocks *clocks, rg_source_id source, int years);

/* After the last record, before rg_clocks_settle: what is known of each boot, under whichever of
 * its numbers it was noted, is of the number by which it will be asked for (rg_boots_same). */
void rg_clocks_join_boots(struct rg_clocks *clocks, struct rg_boots *boots);

/* What the stamp of a wall clock says in the year it is of, as far as is known: the source, read to
 * its end, has told its years (but for those that rg_clocks_settle takes over from others). */
int64_t rg_clocks_in_year(const struct rg_clocks *clocks, const struct rg_moment *moment);

/* After the last record and event, before rg_clocks_resolve: weighs the evidence. */
void rg_clocks_settle(struct rg_clocks *clocks);

/* The time of a moment, by the evidence settled on. */
struct rg_time rg_clocks_resolve(const struct rg_clocks *clocks, const struct rg_moment *moment);

/* What is known of one node's clock, for the report. */
struct rg_node_clock {
    bool zone_known;      /* of its wall-clock stamps */
    int32_t zone_s;       /* seconds east of UTC, a multiple of 900 */
    bool zone_given;      /* by the user */
    bool zone_by_date;    /* by the `date` of its sos report alone */
    int64_t drift_usec;   /* wall-clock stamps minus true time, beyond the zone; 0 if unknown */
    bool skew_known;      /* the same requests were seen on other nodes */
    int64_t skew_usec;    /* this node's clock minus the reference node's; resolve removes it */
    bool years_corrected; /* the years the reader chose were moved */
    uint32_t evidence;    /* pieces the above rests on */
};

/* False when nothing is known of the node's clock. */
bool rg_clocks_describe(const struct rg_clocks *clocks, rg_node_id node,
                        struct rg_node_clock *ret_clock);

/* "2026-11-29 14:30:11Z", "… (zone unstated)" and so on: `time` as people read it, without
 * fractions. With `zone_s` other than 0 in that zone, "+09:00" behind it. */
void rg_time_add_text(struct rg_buf *out, const struct rg_time *time, int32_t zone_s);

#endif
