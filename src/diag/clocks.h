/*
 * What the files of clocks share: the table of clocks with their samples (clock_table.c), what
 * lines and reports say of them (clock_evidence.c), what nodes say of each other's (clock_skew.c),
 * what all that amounts to (clock_settle.c), and the answers (clock.c).
 * Not for other parts of the room.
 *
 * A clock is either the seconds since one boot of one node, or the wall clock as one source of one
 * node prints it; each collects samples "stamp minus time since 1970", thinned evenly when there
 * are many. Evidence comes in classes; better evidence drops what was worse.
 */
#ifndef RG_DIAG_CLOCKS_H
#define RG_DIAG_CLOCKS_H

#include "diag/clock.h"

#include "diag/stamp.h"
#include "diag/zone.h"

#define RG_SECOND            ((int64_t)RG_USEC_PER_SEC)
#define RG_CLOCK_SAMPLES_MAX 32
#define RG_ZONE_MAX_USEC     (16 * 3600 * RG_SECOND)
#define RG_CLOCK_REQUESTS    4096 /* a power of two */
#define RG_EDGE_SAMPLES      15

enum rg_clock_evidence {
    RG_EVIDENCE_EXACT,  /* both stamps in one line; "now" in the line */
    RG_EVIDENCE_EXPIRY, /* a deadline has just passed */
    RG_EVIDENCE_RTC,    /* the hardware clock at boot; early lines of daemons */
    RG_EVIDENCE_BOUND,  /* not before a time */
    RG_EVIDENCE_UPTIME, /* `date` and `uptime` of a sos report */
    RG_EVIDENCE_NONE,
};

enum rg_clock_kind {
    RG_CLOCK_BOOT = 1, /* boot stamp minus UTC; by node and boot */
    RG_CLOCK_LINK,     /* boot stamp minus wall clock of `source`; by node and boot */
    RG_CLOCK_WALL,     /* wall clock minus UTC; by node and source */
};

struct rg_clock_sample {
    int64_t stamp;
    int64_t offset;
};

struct rg_clock {
    enum rg_clock_kind kind; /* 0: free */
    rg_node_id node;
    uint32_t which;      /* boot or source */
    rg_source_id source; /* of a link */
    enum rg_clock_evidence evidence;
    bool computed;
    struct rg_clock_sample *samples;
    uint16_t count;
    uint16_t room;
    uint32_t stride;
    uint32_t seen;  /* of this evidence */
    int year_shift; /* of a wall clock whose lines have no year: by majority of the evidence */
    int32_t year_votes;
    bool year_known;
    /* Settled. */
    int64_t median;
    int64_t least;
    int64_t most;
    int32_t zone_s;
    int64_t drift;
};

struct rg_zone_of_node {
    rg_node_id node;
    struct rg_zone zone;
};

/* The same request on two nodes. */
struct rg_clock_request {
    uint64_t xid;
    rg_node_id node;
    int64_t deadline;
};

struct rg_clock_edge {
    rg_node_id a;
    rg_node_id b;
    uint32_t seen;
    uint32_t count;
    int64_t samples[RG_EDGE_SAMPLES]; /* b's clock minus a's, seconds */
};

struct rg_clock_skew {
    rg_node_id node;
    int64_t usec;
    bool known;
};

/* The sos report of a node. */
struct rg_clock_report {
    rg_node_id node;
    struct rg_collected collected;
    bool has_ring;
    uint32_t ring_boot;
};

struct rg_clocks {
    struct rg_clock *clocks;
    uint32_t count;
    uint32_t room; /* a power of two */
    struct rg_zone_of_node *zones;
    size_t zone_count;
    struct rg_clock_request *requests;
    struct rg_clock_edge *edges;
    size_t edge_count;
    size_t edge_room;
    struct rg_clock_skew *skews; /* sorted by node */
    size_t skew_count;
    int *reader_shifts; /* by source */
    size_t reader_shift_count;
    struct rg_clock_report *reports;
    size_t report_count;
    bool consensus_zone;
    int32_t zone_s; /* of all nodes whose zone is proven, when they agree */
    bool consensus_shift;
    int year_shift;
    bool settled;
};

/* ---- clock_table.c ---- */

/* NULL when there is none, or none with samples. `which` is a boot or a source. */
const struct rg_clock *rg_clocks_find(const struct rg_clocks *clocks, enum rg_clock_kind kind,
                                      rg_node_id node, uint32_t which);

/* Made when there is none. NULL at the ceiling and without memory: that evidence is lost, and no
 * more. May move the table. */
struct rg_clock *rg_clocks_get(struct rg_clocks *clocks, enum rg_clock_kind kind, rg_node_id node,
                               uint32_t which);

/* `offset`: the stamp minus the time since 1970, or minus the wall clock for a link. `clock` may be
 * NULL. */
void rg_clocks_add_sample(struct rg_clocks *clocks, struct rg_clock *clock,
                          enum rg_clock_evidence evidence, int64_t stamp, int64_t offset);

/* ---- clock_evidence.c ---- */

/* The wall clock read `stamp` when it was `epoch_usec` (since 1970). `clock` may be NULL. */
void rg_clocks_note_wall(struct rg_clocks *clocks, struct rg_clock *clock,
                         const struct rg_stamp *stamp, enum rg_clock_evidence evidence,
                         int64_t epoch_usec);

/* Of the node's sos report; NULL when there is none. */
struct rg_clock_report *rg_clocks_find_report(const struct rg_clocks *clocks, rg_node_id node);

/* The zone of the node's wall clock as the report's `date` shows it. */
bool rg_clocks_report_zone(const struct rg_clock_report *report, int32_t *ret_zone_s);

/* ---- clock_skew.c ---- */

/* The node that sent a request and the node that served it both print when it is due. */
void rg_clocks_note_request(struct rg_clocks *clocks, const struct rg_event *event);

/* NULL when no other node saw a request of that node. */
struct rg_clock_skew *rg_clocks_find_skew(const struct rg_clocks *clocks, rg_node_id node);

/* After all requests. */
void rg_clocks_settle_skews(struct rg_clocks *clocks);

/* ---- clock_settle.c ---- */

/* Sorts them. */
int64_t rg_clocks_median(int64_t *values, size_t count);

/* The offset that was in force around a stamp; of a settled clock. */
int64_t rg_clocks_offset_at(const struct rg_clock *clock, int64_t stamp);

#endif
