/*
 * What the samples of each clock amount to: its offset, zone and drift; what clocks without samples
 * take over from others; and when a node booted by its sos report.
 */
#include "diag/clocks.h"

#include "base/checked.h"

#include <stdlib.h>

#define NEAREST     5
#define STEADY_USEC (2 * RG_SECOND) /* samples that differ less are one constant offset */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t rg_clocks_median(int64_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_numbers);
    return values[count / 2];
}

static void settle_clock(struct rg_clock *clock)
{
    int64_t offsets[RG_CLOCK_SAMPLES_MAX];
    for (uint16_t i = 0; i < clock->count; i++) {
        offsets[i] = clock->samples[i].offset;
    }
    clock->median = rg_clocks_median(offsets, clock->count);
    clock->least = offsets[0];
    clock->most = offsets[clock->count - 1];
    if (clock->kind == RG_CLOCK_WALL) {
        clock->zone_s = rg_zone_nearest(clock->median / RG_SECOND);
        clock->drift = clock->median - clock->zone_s * RG_SECOND;
    }
}

int64_t rg_clocks_offset_at(const struct rg_clock *clock, int64_t stamp)
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
    return rg_clocks_median(offsets, count);
}

/* A wall clock without evidence of its own, whose lines also carry seconds since a boot that is
 * known, is as good as known. */
static void settle_links(struct rg_clocks *clocks)
{
    for (uint32_t i = 0; i < clocks->room; i++) {
        struct rg_clock *link = &clocks->clocks[i];
        const struct rg_clock *boot =
            link->kind == RG_CLOCK_LINK && link->count > 0
                ? rg_clocks_find(clocks, RG_CLOCK_BOOT, link->node, link->which)
                : NULL;
        if (!boot || rg_clocks_find(clocks, RG_CLOCK_WALL, link->node, link->source)) {
            continue;
        }
        /* (boot - utc) - (boot - wall) = wall - utc. Years of the wall are settled apart. */
        struct rg_stamp stamp = {.kind = RG_STAMP_LOCAL,
                                 .usec = link->samples[0].stamp - link->median,
                                 .year_guessed = true};
        int64_t epoch_usec = link->samples[0].stamp - boot->median;
        uint32_t before = clocks->room;
        struct rg_clock *wall = rg_clocks_get(clocks, RG_CLOCK_WALL, link->node, link->source);
        rg_clocks_note_wall(clocks, wall, &stamp, boot->evidence, epoch_usec);
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
        const struct rg_clock *clock = &clocks->clocks[i];
        if (clock->kind != RG_CLOCK_WALL || clock->count == 0) {
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

/* When the node booted: the moment of `date`, moved to that of `uptime`, minus the uptime. */
static void settle_reports(struct rg_clocks *clocks)
{
    for (size_t i = 0; i < clocks->report_count; i++) {
        const struct rg_clock_report *report = &clocks->reports[i];
        const struct rg_collected *collected = &report->collected;
        if (!report->has_ring || !collected->has_uptime || !collected->has_utc ||
            !collected->has_local) {
            continue;
        }
        const int64_t day = 86400;
        int64_t clock_s = (collected->local_usec / RG_SECOND % day + day) % day;
        int64_t later = collected->clock_s - clock_s;
        later += later > day / 2 ? -day : later < -day / 2 ? day : 0;
        later = llabs(later) > 3600 ? 0 : later;
        int64_t stamp = (collected->up_s + 30) * RG_SECOND;
        rg_clocks_add_sample(
            clocks, rg_clocks_get(clocks, RG_CLOCK_BOOT, report->node, report->ring_boot),
            RG_EVIDENCE_UPTIME, stamp, stamp - collected->utc_usec - later * RG_SECOND);
    }
}

void rg_clocks_settle(struct rg_clocks *clocks)
{
    if (clocks->settled) {
        return;
    }
    clocks->settled = true;
    settle_reports(clocks);
    for (uint32_t i = 0; i < clocks->room; i++) {
        if (clocks->clocks[i].kind != 0 && clocks->clocks[i].count > 0) {
            settle_clock(&clocks->clocks[i]);
        }
    }
    settle_links(clocks);
    settle_consensus(clocks);
    rg_clocks_settle_skews(clocks);
}
