/*
 * Clocks and the evidence about them. A clock is either the seconds since one boot of one node, or
 * the wall clock as one source of one node prints it; each collects samples "stamp minus time since
 * 1970", thinned evenly when there are many.
 *
 * Evidence comes in classes; better evidence drops what was worse.
 */
#include "diag/clock.h"

#include "base/attr.h"
#include "base/checked.h"

#include "diag/stamp.h"
#include "diag/zone.h"

#include <stdlib.h>
#include <string.h>

#define SEC             ((int64_t)RG_USEC_PER_SEC)
#define CLOCKS_MAX      65536u
#define CLOCKS_GENEROUS 4096u /* up to here a clock keeps more samples */
#define SAMPLES_MAX     32
#define SAMPLES_FEW     8
#define NEAREST         5
#define STEADY_USEC     (2 * SEC) /* samples that differ less are one constant offset */
#define ZONE_MAX_USEC   (16 * 3600 * SEC)
#define LATE_MAX_USEC   (30 * SEC) /* syslog writes a line that late without its clock being off */
#define EARLY_BOOT_USEC (30 * SEC) /* before, daemons stamp lines when they get to them */
#define COMPUTED_USEC   (60 * SEC) /* doubt about dmesg -T without evidence */
#define ZONES_MAX       64
#define REQUESTS        4096 /* a power of two */
#define EDGES_MAX       4096
#define EDGE_SAMPLES    15
#define SKEW_DOUBT_USEC (5 * SEC)
#define COLLECTED_MAX   1024
#define UPTIME_DOUBT    (45 * SEC) /* uptime prints minutes; the report takes a while */
#define SKEW_TOLD_USEC  (8 * SEC)

enum evidence {
    EVIDENCE_EXACT,  /* both stamps in one line; "now" in the line */
    EVIDENCE_EXPIRY, /* a deadline has just passed */
    EVIDENCE_RTC,    /* the hardware clock at boot; early lines of daemons */
    EVIDENCE_BOUND,  /* not before a time */
    EVIDENCE_UPTIME, /* `date` and `uptime` of a sos report */
    EVIDENCE_NONE,
};

enum clock_kind {
    CLOCK_BOOT = 1, /* boot stamp minus UTC; by node and boot */
    CLOCK_LINK,     /* boot stamp minus wall clock of `source`; by node and boot */
    CLOCK_WALL,     /* wall clock minus UTC; by node and source */
};

struct sample {
    int64_t stamp;
    int64_t offset;
};

struct clock {
    enum clock_kind kind; /* 0: free */
    rg_node_id node;
    uint32_t which;      /* boot or source */
    rg_source_id source; /* of a link */
    enum evidence evidence;
    bool computed;
    struct sample *samples;
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

struct zone_of_node {
    rg_node_id node;
    struct rg_zone zone;
};

/* The same request on two nodes. */
struct request {
    uint64_t xid;
    rg_node_id node;
    int64_t deadline;
};

struct edge {
    rg_node_id a;
    rg_node_id b;
    uint32_t seen;
    uint32_t count;
    int64_t samples[EDGE_SAMPLES]; /* b's clock minus a's, seconds */
};

struct skew {
    rg_node_id node;
    int64_t usec;
    bool known;
};

/* The sos report of a node. */
struct taken {
    rg_node_id node;
    struct rg_collected collected;
    bool has_ring;
    uint32_t ring_boot;
};

struct rg_clocks {
    struct clock *clocks;
    uint32_t count;
    uint32_t room; /* a power of two */
    struct zone_of_node *zones;
    size_t zone_count;
    struct request *requests;
    struct edge *edges;
    size_t edge_count;
    size_t edge_room;
    struct skew *skews; /* sorted by node */
    size_t skew_count;
    int *reader_shifts; /* by source */
    size_t reader_shift_count;
    struct taken *taken;
    size_t taken_count;
    bool consensus_zone;
    int32_t zone_s; /* of all nodes whose zone is proven, when they agree */
    bool consensus_shift;
    int year_shift;
    bool settled;
};

/* ---- Making and freeing ---- */

void rg_clocks_free(struct rg_clocks *clocks)
{
    if (!clocks) {
        return;
    }
    for (uint32_t i = 0; clocks->clocks && i < clocks->room; i++) {
        free(clocks->clocks[i].samples);
    }
    free(clocks->clocks);
    free(clocks->zones);
    free(clocks->requests);
    free(clocks->edges);
    free(clocks->skews);
    free(clocks->reader_shifts);
    free(clocks->taken);
    free(clocks);
}

int rg_clocks_new(struct rg_clocks **ret_clocks, struct rg_error *err)
{
    struct rg_clocks *clocks = calloc(1, sizeof(*clocks));
    if (!clocks) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    clocks->room = 64;
    clocks->clocks = calloc(clocks->room, sizeof(*clocks->clocks));
    clocks->requests = calloc(REQUESTS, sizeof(*clocks->requests));
    if (!clocks->clocks || !clocks->requests) {
        rg_clocks_free(clocks);
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *ret_clocks = clocks;
    return 0;
}

int rg_clocks_set_zone(struct rg_clocks *clocks, rg_node_id node, const char *zone,
                       struct rg_error *err)
{
    if (clocks->zone_count >= ZONES_MAX) {
        return rg_failf(err, RG_SETTING, "more than %d time zones", ZONES_MAX);
    }
    struct zone_of_node *grown = realloc(clocks->zones, (clocks->zone_count + 1) * sizeof(*grown));
    if (!grown) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    clocks->zones = grown;
    int rc = rg_zone_read(zone, &grown[clocks->zone_count].zone, err);
    if (rc == 0) {
        grown[clocks->zone_count++].node = node;
    }
    return rc;
}

static const struct rg_zone *given_zone(const struct rg_clocks *clocks, rg_node_id node)
{
    const struct rg_zone *common = NULL;
    for (size_t i = 0; i < clocks->zone_count; i++) {
        if (clocks->zones[i].node == node && node != 0) {
            return &clocks->zones[i].zone;
        }
        common = clocks->zones[i].node == 0 ? &clocks->zones[i].zone : common;
    }
    return common;
}

/* ---- The table of clocks ---- */

static uint32_t slot_of(const struct clock *clocks, uint32_t room, enum clock_kind kind,
                        rg_node_id node, uint32_t which)
{
    uint64_t hash = ((uint64_t)kind << 60) ^ ((uint64_t)node << 32) ^ which;
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    uint32_t slot = (uint32_t)(hash >> 32) & (room - 1);
    while (clocks[slot].kind != 0 && (clocks[slot].kind != kind || clocks[slot].node != node ||
                                      clocks[slot].which != which)) {
        slot = (slot + 1) & (room - 1);
    }
    return slot;
}

static const struct clock *find_clock(const struct rg_clocks *clocks, enum clock_kind kind,
                                      rg_node_id node, uint32_t which)
{
    const struct clock *clock =
        &clocks->clocks[slot_of(clocks->clocks, clocks->room, kind, node, which)];
    return clock->kind != 0 && clock->count > 0 ? clock : NULL;
}

static bool grow_table(struct rg_clocks *clocks)
{
    uint32_t room = clocks->room * 2;
    struct clock *grown = calloc(room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    for (uint32_t i = 0; i < clocks->room; i++) {
        const struct clock *old = &clocks->clocks[i];
        if (old->kind != 0) {
            grown[slot_of(grown, room, old->kind, old->node, old->which)] = *old;
        }
    }
    free(clocks->clocks);
    clocks->clocks = grown;
    clocks->room = room;
    return true;
}

/* NULL at the ceiling and without memory: that evidence is lost, and no more. */
static struct clock *get_clock(struct rg_clocks *clocks, enum clock_kind kind, rg_node_id node,
                               uint32_t which)
{
    uint32_t slot = slot_of(clocks->clocks, clocks->room, kind, node, which);
    if (clocks->clocks[slot].kind != 0) {
        return &clocks->clocks[slot];
    }
    if (clocks->count >= CLOCKS_MAX ||
        ((clocks->count + 1) * 2 > clocks->room && !grow_table(clocks))) {
        return NULL;
    }
    slot = slot_of(clocks->clocks, clocks->room, kind, node, which);
    clocks->count++;
    clocks->clocks[slot] = (struct clock){
        .kind = kind, .node = node, .which = which, .evidence = EVIDENCE_NONE, .stride = 1};
    return &clocks->clocks[slot];
}

static bool make_room(const struct rg_clocks *clocks, struct clock *clock)
{
    if (clock->count < clock->room) {
        return true;
    }
    uint16_t most = clocks->count > CLOCKS_GENEROUS ? SAMPLES_FEW : SAMPLES_MAX;
    if (clock->room >= most) {
        /* Full: every second one goes, and from now on fewer are taken. */
        for (uint16_t i = 0; i < clock->count / 2; i++) {
            clock->samples[i] = clock->samples[2 * i];
        }
        clock->count /= 2;
        clock->stride *= 2;
        return true;
    }
    uint16_t room = clock->room == 0 ? 4 : (uint16_t)(clock->room * 2);
    struct sample *grown = realloc(clock->samples, room * sizeof(*grown));
    if (!grown) {
        return clock->count > 0 && (clock->count--, true);
    }
    clock->samples = grown;
    clock->room = room;
    return true;
}

static void add_sample(struct rg_clocks *clocks, struct clock *clock, enum evidence evidence,
                       int64_t stamp, int64_t offset)
{
    if (!clock || evidence > clock->evidence) {
        return;
    }
    if (evidence < clock->evidence) {
        clock->evidence = evidence;
        clock->count = 0;
        clock->seen = 0;
        clock->stride = 1;
    }
    if (clock->seen++ % clock->stride == 0 && make_room(clocks, clock)) {
        clock->samples[clock->count++] = (struct sample){stamp, offset};
    }
}

/* ---- Evidence ---- */

static void note_link(struct rg_clocks *clocks, const struct rg_record *record)
{
    struct clock *clock = get_clock(clocks, CLOCK_LINK, record->node, record->boot);
    if (clock && (clock->source == record->source || clock->count == 0)) {
        clock->source = record->source;
        add_sample(clocks, clock,
                   record->second.usec < EARLY_BOOT_USEC ? EVIDENCE_RTC : EVIDENCE_EXACT,
                   record->second.usec, record->second.usec - record->stamp.usec);
    }
}

static void note_epoch(struct rg_clocks *clocks, const struct rg_record *record,
                       enum evidence evidence, int64_t epoch_s);

/* "rtc_cmos 00:00: setting system clock to 2026-11-29T14:30:11 UTC (1795962611)", early in a boot.
 */
static void note_clock_chip(struct rg_clocks *clocks, const struct rg_record *record)
{
    static const char words[] = "setting system clock to ";
    struct span text = record->text;
    if (!text.ptr || text.len < sizeof(words) || text.ptr[text.len - 1] != ')' ||
        !memmem(text.ptr, text.len, words, sizeof(words) - 1)) {
        return;
    }
    const char *open = memrchr(text.ptr, '(', text.len);
    uint64_t epoch;
    if (open &&
        rg_span_to_u64(rg_span(open + 1, (size_t)(text.ptr + text.len - 1 - (open + 1))), &epoch) &&
        epoch < INT64_MAX / SEC) {
        note_epoch(clocks, record, EVIDENCE_RTC, (int64_t)epoch);
    }
}

void rg_clocks_note_record(struct rg_clocks *clocks, const struct rg_record *record)
{
    const struct rg_stamp *boot =
        record->stamp.kind == RG_STAMP_BOOT ? &record->stamp : &record->second;
    if (boot->kind == RG_STAMP_BOOT && boot->usec < EARLY_BOOT_USEC) {
        note_clock_chip(clocks, record);
    }
    if (record->second.kind != RG_STAMP_BOOT) {
        return;
    }
    if (record->stamp.kind == RG_STAMP_UTC) {
        add_sample(clocks, get_clock(clocks, CLOCK_BOOT, record->node, record->boot),
                   record->second.usec < EARLY_BOOT_USEC ? EVIDENCE_RTC : EVIDENCE_EXACT,
                   record->second.usec, record->second.usec - record->stamp.usec);
    } else if (record->stamp.kind == RG_STAMP_LOCAL) {
        note_link(clocks, record);
    }
}

/* A vote of majority (Boyer and Moore): what most pieces of evidence say remains. */
static void vote_year(struct clock *clock, int shift)
{
    if (clock->year_votes == 0 || !clock->year_known) {
        clock->year_shift = shift;
        clock->year_known = true;
    }
    clock->year_votes += clock->year_shift == shift ? 1 : -1;
}

/* The wall clock read `stamp` when it was `epoch_usec`. */
static void note_wall(struct rg_clocks *clocks, struct clock *clock, const struct rg_stamp *stamp,
                      enum evidence evidence, int64_t epoch_usec)
{
    if (!clock) {
        return;
    }
    int64_t usec = stamp->usec;
    if (stamp->year_guessed) {
        int epoch_year = rg_stamp_year(epoch_usec);
        int64_t best = INT64_MAX;
        for (int year = epoch_year - 1; year <= epoch_year + 1; year++) {
            int64_t moved = rg_stamp_set_year(stamp->usec, year);
            if (best == INT64_MAX || llabs(moved - epoch_usec) < llabs(best - epoch_usec)) {
                best = moved;
            }
        }
        usec = best;
    }
    if (llabs(usec - epoch_usec) > ZONE_MAX_USEC) {
        return; /* no zone explains that */
    }
    if (stamp->year_guessed) {
        vote_year(clock, rg_stamp_year(usec) - rg_stamp_year(stamp->usec));
    }
    clock->computed = stamp->computed;
    add_sample(clocks, clock, evidence, stamp->usec, usec - epoch_usec);
}

static void note_epoch(struct rg_clocks *clocks, const struct rg_record *record,
                       enum evidence evidence, int64_t epoch_s)
{
    if (epoch_s < 946684800 || epoch_s > 4102444800) {
        return; /* not of this century: garbage */
    }
    int64_t epoch_usec = epoch_s * SEC;
    const struct rg_stamp *stamps[] = {&record->stamp, &record->second};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(stamps); i++) {
        const struct rg_stamp *stamp = stamps[i];
        if (stamp->kind == RG_STAMP_BOOT) {
            add_sample(clocks, get_clock(clocks, CLOCK_BOOT, record->node, record->boot), evidence,
                       stamp->usec, stamp->usec - epoch_usec);
        } else if (stamp->kind == RG_STAMP_LOCAL ||
                   (stamp->kind == RG_STAMP_UTC && stamp->computed)) {
            note_wall(clocks, get_clock(clocks, CLOCK_WALL, record->node, record->source), stamp,
                      evidence, epoch_usec);
        }
    }
}

static struct edge *get_edge(struct rg_clocks *clocks, rg_node_id a, rg_node_id b)
{
    for (size_t i = 0; i < clocks->edge_count; i++) {
        if (clocks->edges[i].a == a && clocks->edges[i].b == b) {
            return &clocks->edges[i];
        }
    }
    if (clocks->edge_count == clocks->edge_room) {
        size_t room = clocks->edge_room == 0 ? 16 : clocks->edge_room * 2;
        struct edge *grown =
            room > EDGES_MAX ? NULL : realloc(clocks->edges, room * sizeof(*grown));
        if (!grown) {
            return NULL;
        }
        clocks->edges = grown;
        clocks->edge_room = room;
    }
    struct edge *edge = &clocks->edges[clocks->edge_count++];
    *edge = (struct edge){.a = a, .b = b};
    return edge;
}

/* The node that sent a request and the node that served it both print when it is due. */
static void note_request(struct rg_clocks *clocks, const struct rg_event *event)
{
    const struct rg_request_tail *tail = &event->request;
    rg_node_id node = event->record->node;
    struct request *there =
        &clocks->requests[(tail->xid * 0x9e3779b97f4a7c15u >> 40) & (REQUESTS - 1)];
    if (there->xid != tail->xid || there->node == node || there->node == 0) {
        *there = (struct request){.xid = tail->xid, .node = node, .deadline = tail->deadline};
        return;
    }
    int64_t later = tail->deadline - there->deadline;
    bool ordered = there->node < node;
    struct edge *edge =
        get_edge(clocks, ordered ? there->node : node, ordered ? node : there->node);
    if (edge && llabs(later) < 86400) {
        edge->samples[edge->seen++ % EDGE_SAMPLES] = ordered ? later : -later;
        edge->count = RG_MIN(edge->count + 1, (uint32_t)EDGE_SAMPLES);
    }
}

static bool contains(struct span text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

void rg_clocks_note_event(struct rg_clocks *clocks, const struct rg_event *event)
{
    const struct rg_record *record = event->record;
    const struct rg_request_tail *tail = &event->request;
    if (record->recalled) {
        return; /* the times are of another line */
    }
    if (tail->present && tail->xid != 0 && tail->deadline > 0 && record->node != 0) {
        note_request(clocks, event);
    }
    /* The words stand behind the line's site. */
    if (tail->present && contains(rg_span_head(record->text, 200), "Request sent has ")) {
        if (contains(record->text, "timed out") && tail->deadline > 0) {
            note_epoch(clocks, record, EVIDENCE_EXPIRY, tail->deadline);
        } else if (contains(record->text, "network error")) {
            note_epoch(clocks, record, EVIDENCE_BOUND, RG_MAX(tail->sent, tail->real));
        }
    }
    if (event->epoch > 0) {
        bool boot = record->stamp.kind == RG_STAMP_BOOT && record->stamp.usec < 2 * EARLY_BOOT_USEC;
        note_epoch(clocks, record, boot ? EVIDENCE_RTC : EVIDENCE_EXACT, event->epoch);
    }
}

static struct taken *find_taken(const struct rg_clocks *clocks, rg_node_id node)
{
    for (size_t i = 0; i < clocks->taken_count; i++) {
        if (clocks->taken[i].node == node) {
            return &clocks->taken[i];
        }
    }
    return NULL;
}

static struct taken *get_taken(struct rg_clocks *clocks, rg_node_id node)
{
    struct taken *taken = find_taken(clocks, node);
    if (taken || clocks->taken_count == COLLECTED_MAX) {
        return taken;
    }
    struct taken *grown =
        realloc(clocks->taken, (clocks->taken_count + 1) * sizeof(*clocks->taken));
    if (!grown) {
        return NULL;
    }
    clocks->taken = grown;
    grown[clocks->taken_count] = (struct taken){.node = node};
    return &grown[clocks->taken_count++];
}

void rg_clocks_note_collected(struct rg_clocks *clocks, rg_node_id node,
                              const struct rg_collected *collected)
{
    struct taken *taken = get_taken(clocks, node);
    if (!taken) {
        return;
    }
    struct rg_collected *all = &taken->collected;
    if (collected->has_local &&
        (!all->has_local || !collected->has_utc || collected->local_usec != collected->utc_usec)) {
        all->has_local = true;
        all->local_usec = collected->local_usec;
    }
    if (collected->has_utc && !all->has_utc) {
        all->has_utc = true;
        all->utc_usec = collected->utc_usec;
    }
    if (collected->has_uptime) {
        all->has_uptime = true;
        all->clock_s = collected->clock_s;
        all->up_s = collected->up_s;
    }
}

void rg_clocks_note_ring(struct rg_clocks *clocks, rg_node_id node, uint32_t boot)
{
    struct taken *taken = get_taken(clocks, node);
    if (taken) {
        taken->has_ring = true;
        taken->ring_boot = boot;
    }
}

void rg_clocks_shift_years(struct rg_clocks *clocks, rg_source_id source, int years)
{
    if (source >= clocks->reader_shift_count) {
        int *grown = realloc(clocks->reader_shifts, ((size_t)source + 1) * sizeof(*grown));
        if (!grown) {
            return;
        }
        memset(grown + clocks->reader_shift_count, 0,
               ((size_t)source + 1 - clocks->reader_shift_count) * sizeof(*grown));
        clocks->reader_shifts = grown;
        clocks->reader_shift_count = (size_t)source + 1;
    }
    clocks->reader_shifts[source] = years;
}

/* ---- Settling ---- */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t median_of(int64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_numbers);
    return values[count / 2];
}

static void settle_clock(struct clock *clock)
{
    int64_t offsets[SAMPLES_MAX];
    for (uint16_t i = 0; i < clock->count; i++) {
        offsets[i] = clock->samples[i].offset;
    }
    clock->median = median_of(offsets, clock->count);
    clock->least = offsets[0];
    clock->most = offsets[clock->count - 1];
    if (clock->kind == CLOCK_WALL) {
        clock->zone_s = rg_zone_nearest(clock->median / SEC);
        clock->drift = clock->median - clock->zone_s * SEC;
    }
}

/* The offset that was in force around a stamp. */
static int64_t offset_at(const struct clock *clock, int64_t stamp)
{
    if (clock->most - clock->least <= STEADY_USEC || clock->count <= NEAREST) {
        return clock->median;
    }
    struct {
        int64_t distance;
        int64_t offset;
    } near[NEAREST];
    size_t count = 0;
    for (uint16_t i = 0; i < clock->count; i++) {
        int64_t distance = llabs(clock->samples[i].stamp - stamp);
        size_t at = count < NEAREST ? count++ : NEAREST - 1;
        if (at == NEAREST - 1 && count == NEAREST && i >= NEAREST &&
            near[at].distance <= distance) {
            continue;
        }
        while (at > 0 && near[at - 1].distance > distance) {
            near[at] = near[at - 1];
            at--;
        }
        near[at].distance = distance;
        near[at].offset = clock->samples[i].offset;
    }
    int64_t offsets[NEAREST];
    for (size_t i = 0; i < count; i++) {
        offsets[i] = near[i].offset;
    }
    return median_of(offsets, count);
}

/* A wall clock without evidence of its own, whose lines also carry seconds since a boot that is
 * known, is as good as known. */
static void settle_links(struct rg_clocks *clocks)
{
    for (uint32_t i = 0; i < clocks->room; i++) {
        struct clock *link = &clocks->clocks[i];
        const struct clock *boot = link->kind == CLOCK_LINK && link->count > 0
                                       ? find_clock(clocks, CLOCK_BOOT, link->node, link->which)
                                       : NULL;
        if (!boot || find_clock(clocks, CLOCK_WALL, link->node, link->source)) {
            continue;
        }
        /* (boot - utc) - (boot - wall) = wall - utc. Years of the wall are settled apart. */
        struct rg_stamp stamp = {.kind = RG_STAMP_LOCAL,
                                 .usec = link->samples[0].stamp - link->median,
                                 .year_guessed = true};
        int64_t epoch_usec = link->samples[0].stamp - boot->median;
        uint32_t before = clocks->room;
        struct clock *wall = get_clock(clocks, CLOCK_WALL, link->node, link->source);
        note_wall(clocks, wall, &stamp, boot->evidence, epoch_usec);
        if (wall && wall->count > 0) {
            settle_clock(wall);
        }
        if (clocks->room != before) {
            i = 0; /* the table has moved: once more, what is done is skipped */
        }
    }
}

static void settle_consensus(struct rg_clocks *clocks)
{
    bool zones = false, zones_agree = true, shifts = false, shifts_agree = true;
    for (uint32_t i = 0; i < clocks->room; i++) {
        const struct clock *clock = &clocks->clocks[i];
        if (clock->kind != CLOCK_WALL || clock->count == 0) {
            continue;
        }
        zones_agree = zones_agree && (!zones || clocks->zone_s == clock->zone_s);
        clocks->zone_s = clock->zone_s;
        zones = true;
        if (clock->year_known) {
            shifts_agree = shifts_agree && (!shifts || clocks->year_shift == clock->year_shift);
            clocks->year_shift = clock->year_shift;
            shifts = true;
        }
    }
    clocks->consensus_zone = zones && zones_agree;
    clocks->consensus_shift = shifts && shifts_agree;
}

static struct skew *find_skew(const struct rg_clocks *clocks, rg_node_id node)
{
    size_t low = 0, high = clocks->skew_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (clocks->skews[middle].node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < clocks->skew_count && clocks->skews[low].node == node ? &clocks->skews[low] : NULL;
}

static int compare_skews(const void *a, const void *b)
{
    const struct skew *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* One entry for every node that an edge names. */
static bool list_skews(struct rg_clocks *clocks)
{
    clocks->skews = calloc(clocks->edge_count * 2, sizeof(*clocks->skews));
    if (!clocks->skews) {
        return false;
    }
    for (size_t i = 0; i < clocks->edge_count; i++) {
        clocks->skews[2 * i].node = clocks->edges[i].a;
        clocks->skews[2 * i + 1].node = clocks->edges[i].b;
    }
    size_t count = clocks->edge_count * 2;
    qsort(clocks->skews, count, sizeof(*clocks->skews), compare_skews);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || clocks->skews[i].node != clocks->skews[i - 1].node) {
            clocks->skews[clocks->skew_count++] = clocks->skews[i];
        }
    }
    return true;
}

/* Spreads from the node with the most edges over all that it reaches, then from the next. */
static void settle_skews(struct rg_clocks *clocks)
{
    if (clocks->edge_count == 0 || !list_skews(clocks)) {
        return;
    }
    for (size_t start = 0; start < clocks->skew_count; start++) {
        if (clocks->skews[start].known) {
            continue;
        }
        clocks->skews[start].known = true;
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t i = 0; i < clocks->edge_count; i++) {
                struct edge *edge = &clocks->edges[i];
                struct skew *a = find_skew(clocks, edge->a);
                struct skew *b = find_skew(clocks, edge->b);
                if (edge->count == 0 || a->known == b->known) {
                    continue;
                }
                int64_t later = median_of(edge->samples, edge->count) * SEC;
                if (a->known) {
                    b->usec = a->usec + later;
                } else {
                    a->usec = b->usec - later;
                }
                a->known = b->known = true;
                moved = true;
            }
        }
    }
}

/* The reference is the middle of all: nodes that agree have no skew. */
static void centre_skews(struct rg_clocks *clocks)
{
    if (clocks->skew_count == 0) {
        return;
    }
    rg_autofree int64_t *values = calloc(clocks->skew_count, sizeof(*values));
    if (!values) {
        return;
    }
    for (size_t i = 0; i < clocks->skew_count; i++) {
        values[i] = clocks->skews[i].usec;
    }
    int64_t middle = median_of(values, clocks->skew_count);
    for (size_t i = 0; i < clocks->skew_count; i++) {
        clocks->skews[i].usec -= middle;
    }
}

/* The zone of the node's wall clock as the report's `date` shows it. */
static bool taken_zone(const struct taken *taken, int32_t *ret_zone_s)
{
    const struct rg_collected *collected = &taken->collected;
    int64_t east = collected->local_usec - collected->utc_usec;
    if (!collected->has_local || !collected->has_utc || llabs(east) > ZONE_MAX_USEC) {
        return false;
    }
    *ret_zone_s = rg_zone_nearest(east / SEC);
    return true;
}

/* When the node booted: the moment of `date`, moved to that of `uptime`, minus the uptime. */
static void settle_taken(struct rg_clocks *clocks)
{
    for (size_t i = 0; i < clocks->taken_count; i++) {
        const struct taken *taken = &clocks->taken[i];
        const struct rg_collected *collected = &taken->collected;
        if (!taken->has_ring || !collected->has_uptime || !collected->has_utc ||
            !collected->has_local) {
            continue;
        }
        const int64_t day = 86400;
        int64_t clock_s = (collected->local_usec / SEC % day + day) % day;
        int64_t later = collected->clock_s - clock_s;
        later += later > day / 2 ? -day : later < -day / 2 ? day : 0;
        later = llabs(later) > 3600 ? 0 : later;
        int64_t stamp = (collected->up_s + 30) * SEC;
        add_sample(clocks, get_clock(clocks, CLOCK_BOOT, taken->node, taken->ring_boot),
                   EVIDENCE_UPTIME, stamp, stamp - collected->utc_usec - later * SEC);
    }
}

void rg_clocks_settle(struct rg_clocks *clocks)
{
    if (clocks->settled) {
        return;
    }
    clocks->settled = true;
    settle_taken(clocks);
    for (uint32_t i = 0; i < clocks->room; i++) {
        if (clocks->clocks[i].kind != 0 && clocks->clocks[i].count > 0) {
            settle_clock(&clocks->clocks[i]);
        }
    }
    settle_links(clocks);
    settle_consensus(clocks);
    settle_skews(clocks);
    centre_skews(clocks);
}

/* ---- Resolving ---- */

static int64_t doubt(const struct clock *clock)
{
    static const int64_t least[] = {
        [EVIDENCE_EXACT] = SEC,           [EVIDENCE_EXPIRY] = 2 * SEC,
        [EVIDENCE_RTC] = 5 * SEC,         [EVIDENCE_BOUND] = 5 * SEC,
        [EVIDENCE_UPTIME] = UPTIME_DOUBT, [EVIDENCE_NONE] = COMPUTED_USEC,
    };
    return least[clock->evidence] + (clock->most - clock->least) / 2;
}

static int year_shift_of(const struct rg_clocks *clocks, const struct clock *wall,
                         rg_source_id source)
{
    if (wall && wall->year_known) {
        return wall->year_shift;
    }
    if (source < clocks->reader_shift_count && clocks->reader_shifts[source] != 0) {
        return clocks->reader_shifts[source];
    }
    return clocks->consensus_shift ? clocks->year_shift : 0;
}

static int64_t with_year(const struct rg_clocks *clocks, const struct clock *wall,
                         rg_source_id source, const struct rg_stamp *stamp)
{
    int shift = stamp->year_guessed ? year_shift_of(clocks, wall, source) : 0;
    return shift == 0 ? stamp->usec
                      : rg_stamp_set_year(stamp->usec, rg_stamp_year(stamp->usec) + shift);
}

/* Another wall clock of the node, for its zone. */
static const struct clock *sibling_wall(const struct rg_clocks *clocks, rg_node_id node)
{
    const struct clock *best = NULL;
    for (uint32_t i = 0; i < clocks->room; i++) {
        const struct clock *clock = &clocks->clocks[i];
        if (clock->kind == CLOCK_WALL && clock->node == node && clock->count > 0 &&
            (!best || clock->evidence < best->evidence ||
             (clock->evidence == best->evidence && clock->which < best->which))) {
            best = clock;
        }
    }
    return best;
}

/* What evidence says about a wall clock that the node itself keeps: its zone is exact, and a little
 * lateness is the logger's; dmesg -T and relays are as far off as measured. */
static int64_t proven_offset(const struct clock *wall, int64_t stamp)
{
    int64_t offset = offset_at(wall, stamp);
    int64_t zone = (int64_t)rg_zone_nearest(offset / SEC) * SEC;
    bool exact = !wall->computed && llabs(offset - zone) <= LATE_MAX_USEC;
    return exact ? zone : offset;
}

static struct rg_time resolve_wall(const struct rg_clocks *clocks, rg_node_id node,
                                   rg_source_id source, const struct rg_stamp *stamp)
{
    const struct clock *wall = find_clock(clocks, CLOCK_WALL, node, source);
    const struct rg_zone *given = given_zone(clocks, node);
    int64_t usec = with_year(clocks, wall, source, stamp);
    if (given) {
        int64_t drift = wall && wall->computed ? wall->drift : 0;
        int64_t east = rg_zone_east_of_local(given, usec / SEC);
        return (struct rg_time){usec - east * SEC - drift,
                                stamp->computed && !wall ? COMPUTED_USEC : SEC, RG_TIME_GIVEN};
    }
    if (wall) {
        return (struct rg_time){usec - proven_offset(wall, stamp->usec), doubt(wall),
                                RG_TIME_PROVEN};
    }
    int64_t uncertain = stamp->computed ? COMPUTED_USEC : 2 * SEC;
    const struct clock *sibling = sibling_wall(clocks, node);
    const struct taken *taken = sibling ? NULL : find_taken(clocks, node);
    int32_t zone_s;
    if (taken && taken_zone(taken, &zone_s)) {
        return (struct rg_time){usec - zone_s * SEC, uncertain, RG_TIME_ASSUMED};
    }
    if (sibling || clocks->consensus_zone) {
        int64_t zone = (sibling ? sibling->zone_s : clocks->zone_s) * SEC;
        return (struct rg_time){usec - zone, uncertain, RG_TIME_ASSUMED};
    }
    return (struct rg_time){usec, -1, RG_TIME_UNSTATED};
}

static struct rg_time resolve_boot(const struct rg_clocks *clocks, const struct rg_moment *moment)
{
    const struct clock *boot = find_clock(clocks, CLOCK_BOOT, moment->node, moment->boot);
    if (boot) {
        return (struct rg_time){moment->stamp.usec - offset_at(boot, moment->stamp.usec),
                                doubt(boot), RG_TIME_PROVEN};
    }
    const struct clock *link = find_clock(clocks, CLOCK_LINK, moment->node, moment->boot);
    if (!link) {
        return (struct rg_time){moment->stamp.usec, -1, RG_TIME_RELATIVE};
    }
    /* Years of the reader's choice are in the link; their correction is the source's. */
    struct rg_stamp stamp = {.kind = RG_STAMP_LOCAL,
                             .usec = moment->stamp.usec - offset_at(link, moment->stamp.usec),
                             .year_guessed = true};
    struct rg_time time = resolve_wall(clocks, moment->node, link->source, &stamp);
    if (time.uncertainty_usec >= 0) {
        time.uncertainty_usec = RG_MAX(time.uncertainty_usec, doubt(link));
    }
    return time;
}

static struct rg_time resolve_utc(const struct rg_clocks *clocks, const struct rg_moment *moment)
{
    const struct rg_stamp *stamp = &moment->stamp;
    const struct clock *wall = find_clock(clocks, CLOCK_WALL, moment->node, moment->source);
    if (!stamp->computed) {
        return (struct rg_time){stamp->usec, 0, RG_TIME_STATED};
    }
    if (wall && wall->computed) {
        return (struct rg_time){stamp->usec - offset_at(wall, stamp->usec), doubt(wall),
                                RG_TIME_PROVEN};
    }
    return (struct rg_time){stamp->usec, COMPUTED_USEC, RG_TIME_STATED};
}

/* Takes off what the node's clock is ahead of the others. */
static struct rg_time without_skew(const struct rg_clocks *clocks, rg_node_id node,
                                   struct rg_time time)
{
    const struct skew *skew = find_skew(clocks, node);
    if (skew && llabs(skew->usec) > SKEW_TOLD_USEC && rg_time_is_absolute(&time)) {
        time.usec -= skew->usec;
        time.uncertainty_usec = RG_MAX(time.uncertainty_usec, SKEW_DOUBT_USEC);
    }
    return time;
}

struct rg_time rg_clocks_resolve(const struct rg_clocks *clocks, const struct rg_moment *moment)
{
    struct rg_time time = {.uncertainty_usec = -1, .basis = RG_TIME_NONE};
    switch (moment->stamp.kind) {
    case RG_STAMP_NONE:
        return time;
    case RG_STAMP_BOOT:
        time = resolve_boot(clocks, moment);
        break;
    case RG_STAMP_LOCAL:
        time = resolve_wall(clocks, moment->node, moment->source, &moment->stamp);
        break;
    case RG_STAMP_UTC:
        time = resolve_utc(clocks, moment);
        break;
    }
    return without_skew(clocks, moment->node, time);
}

/* ---- Telling ---- */

bool rg_clocks_describe(const struct rg_clocks *clocks, rg_node_id node,
                        struct rg_node_clock *ret_clock)
{
    struct rg_node_clock told = {0};
    const struct clock *wall = sibling_wall(clocks, node);
    const struct rg_zone *given = given_zone(clocks, node);
    const struct skew *skew = find_skew(clocks, node);
    if (wall) {
        told.zone_known = true;
        told.zone_s = wall->zone_s;
        told.drift_usec = wall->computed || llabs(wall->drift) > LATE_MAX_USEC ? wall->drift : 0;
        told.years_corrected = wall->year_known && wall->year_shift != 0;
        told.evidence = wall->seen;
    }
    const struct taken *taken = wall || given ? NULL : find_taken(clocks, node);
    if (taken && taken_zone(taken, &told.zone_s)) {
        told.zone_known = told.zone_by_date = true;
    }
    if (given) {
        told.zone_known = told.zone_given = true;
        told.zone_s = given->steps[given->count - 1].east_s;
    }
    if (skew && llabs(skew->usec) > SKEW_TOLD_USEC) {
        told.skew_known = true;
        told.skew_usec = skew->usec;
    }
    *ret_clock = told;
    return wall || given || skew || told.zone_by_date;
}

void rg_time_add_text(struct rg_buf *out, const struct rg_time *time, int32_t zone_s)
{
    if (time->basis == RG_TIME_NONE) {
        rg_buf_add_text(out, "no time");
        return;
    }
    if (time->basis == RG_TIME_RELATIVE) {
        rg_buf_addf(out, "+%lld.%03d s after boot", (long long)(time->usec / SEC),
                    (int)(time->usec % SEC / 1000));
        return;
    }
    int64_t seconds = time->usec / SEC - (time->usec % SEC < 0);
    seconds += time->basis == RG_TIME_UNSTATED ? 0 : zone_s;
    int64_t days = seconds / RG_SEC_PER_DAY - (seconds % RG_SEC_PER_DAY < 0);
    int rest = (int)(seconds - days * RG_SEC_PER_DAY);
    int year, month, day;
    rg_date_from_days(days, &year, &month, &day);
    rg_buf_addf(out, "%04d-%02d-%02d %02d:%02d:%02d", year, month, day, rest / 3600, rest / 60 % 60,
                rest % 60);
    if (time->basis == RG_TIME_UNSTATED) {
        rg_buf_add_text(out, " (zone unstated)");
    } else if (zone_s == 0) {
        rg_buf_add_char(out, 'Z');
    } else {
        int east = zone_s < 0 ? -zone_s : zone_s;
        rg_buf_addf(out, "%c%02d:%02d", zone_s < 0 ? '-' : '+', east / 3600, east / 60 % 60);
    }
}
