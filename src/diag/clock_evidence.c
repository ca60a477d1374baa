/*
 * What tells about a clock: lines with two stamps, absolute times inside lines, the kernel's line
 * about the hardware clock, and what a sos report says of when it was taken.
 */
#include "diag/clocks.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Before, daemons stamp lines when they get to them. */
#define EARLY_BOOT_USEC (30 * RG_SECOND)

#define COLLECTED_MAX 1024

static void note_link(struct rg_clocks *clocks, const struct rg_log_record *record)
{
    struct rg_clock *clock = rg_clocks_get(clocks, RG_CLOCK_LINK, record->node, record->boot);
    if (clock && (clock->source == record->source || clock->count == 0)) {
        clock->source = record->source;
        rg_clocks_add_sample(clocks, clock,
                             record->second.usec < EARLY_BOOT_USEC ? RG_EVIDENCE_RTC
                                                                   : RG_EVIDENCE_EXACT,
                             record->second.usec, record->second.usec - record->stamp.usec);
    }
}

/* A vote of majority (Boyer and Moore): what most pieces of evidence say remains. */
static void vote_year(struct rg_clock *clock, int shift)
{
    if (clock->year_votes == 0 || !clock->year_known) {
        clock->year_shift = shift;
        clock->year_known = true;
    }
    clock->year_votes += clock->year_shift == shift ? 1 : -1;
}

void rg_clocks_note_wall(struct rg_clocks *clocks, struct rg_clock *clock,
                         const struct rg_stamp *stamp, enum rg_clock_evidence evidence,
                         int64_t epoch_usec)
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
    if (llabs(usec - epoch_usec) > RG_ZONE_MAX_USEC) {
        return; /* no zone explains that */
    }
    if (stamp->year_guessed) {
        vote_year(clock, rg_stamp_year(usec) - rg_stamp_year(stamp->usec));
    }
    clock->computed = stamp->computed;
    rg_clocks_add_sample(clocks, clock, evidence, stamp->usec, usec - epoch_usec);
}

static void note_epoch(struct rg_clocks *clocks, const struct rg_log_record *record,
                       enum rg_clock_evidence evidence, int64_t epoch_s)
{
    if (epoch_s < 946684800 || epoch_s > 4102444800) {
        return; /* not of this century: garbage */
    }
    int64_t epoch_usec = epoch_s * RG_SECOND;
    const struct rg_stamp *stamps[] = {&record->stamp, &record->second};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(stamps); i++) {
        const struct rg_stamp *stamp = stamps[i];
        if (stamp->kind == RG_STAMP_BOOT) {
            rg_clocks_add_sample(clocks,
                                 rg_clocks_get(clocks, RG_CLOCK_BOOT, record->node, record->boot),
                                 evidence, stamp->usec, stamp->usec - epoch_usec);
        } else if (stamp->kind == RG_STAMP_LOCAL ||
                   (stamp->kind == RG_STAMP_UTC && stamp->computed)) {
            rg_clocks_note_wall(clocks,
                                rg_clocks_get(clocks, RG_CLOCK_WALL, record->node, record->source),
                                stamp, evidence, epoch_usec);
        }
    }
}

/* "rtc_cmos 00:00: setting system clock to 2026-11-29T14:30:11 UTC (1795962611)", early in a boot.
 */
static void note_clock_chip(struct rg_clocks *clocks, const struct rg_log_record *record)
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
        epoch < INT64_MAX / RG_SECOND) {
        note_epoch(clocks, record, RG_EVIDENCE_RTC, (int64_t)epoch);
    }
}

void rg_clocks_note_record(struct rg_clocks *clocks, const struct rg_log_record *record)
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
        rg_clocks_add_sample(
            clocks, rg_clocks_get(clocks, RG_CLOCK_BOOT, record->node, record->boot),
            record->second.usec < EARLY_BOOT_USEC ? RG_EVIDENCE_RTC : RG_EVIDENCE_EXACT,
            record->second.usec, record->second.usec - record->stamp.usec);
    } else if (record->stamp.kind == RG_STAMP_LOCAL) {
        note_link(clocks, record);
    }
}

static bool contains(struct span text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

void rg_clocks_note_event(struct rg_clocks *clocks, const struct rg_event *event)
{
    const struct rg_log_record *record = event->record;
    const struct rg_request_tail *tail = &event->request;
    if (record->recalled) {
        return; /* the times are of another line */
    }
    if (tail->present && tail->xid != 0 && tail->deadline > 0 && record->node != 0) {
        rg_clocks_note_request(clocks, event);
    }
    /* The words stand behind the line's site. */
    if (tail->present && contains(rg_span_head(record->text, 200), "Request sent has ")) {
        if (contains(record->text, "timed out") && tail->deadline > 0) {
            note_epoch(clocks, record, RG_EVIDENCE_EXPIRY, tail->deadline);
        } else if (contains(record->text, "network error")) {
            note_epoch(clocks, record, RG_EVIDENCE_BOUND, RG_MAX(tail->sent, tail->real));
        }
    }
    if (event->epoch > 0) {
        bool boot = record->stamp.kind == RG_STAMP_BOOT && record->stamp.usec < 2 * EARLY_BOOT_USEC;
        note_epoch(clocks, record, boot ? RG_EVIDENCE_RTC : RG_EVIDENCE_EXACT, event->epoch);
    }
}

struct rg_clock_report *rg_clocks_find_report(const struct rg_clocks *clocks, rg_node_id node)
{
    for (size_t i = 0; i < clocks->report_count; i++) {
        if (clocks->reports[i].node == node) {
            return &clocks->reports[i];
        }
    }
    return NULL;
}

static struct rg_clock_report *get_report(struct rg_clocks *clocks, rg_node_id node)
{
    struct rg_clock_report *report = rg_clocks_find_report(clocks, node);
    if (report || clocks->report_count == COLLECTED_MAX) {
        return report;
    }
    struct rg_clock_report *grown =
        realloc(clocks->reports, (clocks->report_count + 1) * sizeof(*clocks->reports));
    if (!grown) {
        return NULL;
    }
    clocks->reports = grown;
    grown[clocks->report_count] = (struct rg_clock_report){.node = node};
    return &grown[clocks->report_count++];
}

void rg_clocks_note_collected(struct rg_clocks *clocks, rg_node_id node,
                              const struct rg_collected *collected)
{
    struct rg_clock_report *report = get_report(clocks, node);
    if (!report) {
        return;
    }
    struct rg_collected *all = &report->collected;
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
    struct rg_clock_report *report = get_report(clocks, node);
    if (report) {
        report->has_ring = true;
        report->ring_boot = boot;
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

bool rg_clocks_report_zone(const struct rg_clock_report *report, int32_t *ret_zone_s)
{
    const struct rg_collected *collected = &report->collected;
    int64_t east = collected->local_usec - collected->utc_usec;
    if (!collected->has_local || !collected->has_utc || llabs(east) > RG_ZONE_MAX_USEC) {
        return false;
    }
    *ret_zone_s = rg_zone_nearest(east / RG_SECOND);
    return true;
}
