/*
 * Making, and the answers: the time of a moment, and what is known of a node's clock. How the
 * evidence is gathered and weighed is the other files' (diag/clocks.h).
 */
#include "diag/clocks.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>

#define LATE_MAX_USEC                                                                              \
    (30 * RG_SECOND) /* syslog writes a line that late without its clock being off */
#define COMPUTED_USEC   (60 * RG_SECOND) /* doubt about dmesg -T without evidence */
#define ZONES_MAX       64
#define SKEW_DOUBT_USEC (5 * RG_SECOND)
#define UPTIME_DOUBT    (45 * RG_SECOND) /* uptime prints minutes; the report takes a while */
#define SKEW_TOLD_USEC  (8 * RG_SECOND)

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
    free(clocks->reports);
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
    clocks->requests = calloc(RG_CLOCK_REQUESTS, sizeof(*clocks->requests));
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
    struct rg_zone_of_node *grown =
        realloc(clocks->zones, (clocks->zone_count + 1) * sizeof(*grown));
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

/* ---- Resolving ---- */

static int64_t doubt(const struct rg_clock *clock)
{
    static const int64_t least[] = {
        [RG_EVIDENCE_EXACT] = RG_SECOND,     [RG_EVIDENCE_EXPIRY] = 2 * RG_SECOND,
        [RG_EVIDENCE_RTC] = 5 * RG_SECOND,   [RG_EVIDENCE_BOUND] = 5 * RG_SECOND,
        [RG_EVIDENCE_UPTIME] = UPTIME_DOUBT, [RG_EVIDENCE_NONE] = COMPUTED_USEC,
    };
    return least[clock->evidence] + (clock->most - clock->least) / 2;
}

static int year_shift_of(const struct rg_clocks *clocks, const struct rg_clock *wall,
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

static int64_t with_year(const struct rg_clocks *clocks, const struct rg_clock *wall,
                         rg_source_id source, const struct rg_stamp *stamp)
{
    int shift = stamp->year_guessed ? year_shift_of(clocks, wall, source) : 0;
    return shift == 0 ? stamp->usec
                      : rg_stamp_set_year(stamp->usec, rg_stamp_year(stamp->usec) + shift);
}

int64_t rg_clocks_in_year(const struct rg_clocks *clocks, const struct rg_moment *moment)
{
    const struct rg_clock *wall =
        rg_clocks_find(clocks, RG_CLOCK_WALL, moment->node, moment->source);
    return with_year(clocks, wall, moment->source, &moment->stamp);
}

/* Another wall clock of the node, for its zone. */
static const struct rg_clock *sibling_wall(const struct rg_clocks *clocks, rg_node_id node)
{
    const struct rg_clock *best = NULL;
    for (uint32_t i = 0; i < clocks->room; i++) {
        const struct rg_clock *clock = &clocks->clocks[i];
        if (clock->kind == RG_CLOCK_WALL && clock->node == node && clock->count > 0 &&
            (!best || clock->evidence < best->evidence ||
             (clock->evidence == best->evidence && clock->which < best->which))) {
            best = clock;
        }
    }
    return best;
}

/* What evidence says about a wall clock that the node itself keeps: its zone is exact, and a little
 * lateness is the logger's; dmesg -T and relays are as far off as measured. */
static int64_t proven_offset(const struct rg_clock *wall, int64_t stamp)
{
    int64_t offset = rg_clocks_offset_at(wall, stamp);
    int64_t zone = (int64_t)rg_zone_nearest(offset / RG_SECOND) * RG_SECOND;
    bool exact = !wall->computed && llabs(offset - zone) <= LATE_MAX_USEC;
    return exact ? zone : offset;
}

static struct rg_time resolve_wall(const struct rg_clocks *clocks, rg_node_id node,
                                   rg_source_id source, const struct rg_stamp *stamp)
{
    const struct rg_clock *wall = rg_clocks_find(clocks, RG_CLOCK_WALL, node, source);
    const struct rg_zone *given = given_zone(clocks, node);
    int64_t usec = with_year(clocks, wall, source, stamp);
    if (given) {
        int64_t drift = wall && wall->computed ? wall->drift : 0;
        int64_t east = rg_zone_east_of_local(given, usec / RG_SECOND);
        return (struct rg_time){usec - east * RG_SECOND - drift,
                                stamp->computed && !wall ? COMPUTED_USEC : RG_SECOND,
                                RG_TIME_GIVEN};
    }
    if (wall) {
        return (struct rg_time){usec - proven_offset(wall, stamp->usec), doubt(wall),
                                RG_TIME_PROVEN};
    }
    int64_t uncertain = stamp->computed ? COMPUTED_USEC : 2 * RG_SECOND;
    const struct rg_clock *sibling = sibling_wall(clocks, node);
    const struct rg_clock_report *report = sibling ? NULL : rg_clocks_find_report(clocks, node);
    int32_t zone_s;
    if (report && rg_clocks_report_zone(report, &zone_s)) {
        return (struct rg_time){usec - zone_s * RG_SECOND, uncertain, RG_TIME_ASSUMED};
    }
    if (sibling || clocks->consensus_zone) {
        int64_t zone = (sibling ? sibling->zone_s : clocks->zone_s) * RG_SECOND;
        return (struct rg_time){usec - zone, uncertain, RG_TIME_ASSUMED};
    }
    return (struct rg_time){usec, -1, RG_TIME_UNSTATED};
}

static struct rg_time resolve_boot(const struct rg_clocks *clocks, const struct rg_moment *moment)
{
    const struct rg_clock *boot = rg_clocks_find(clocks, RG_CLOCK_BOOT, moment->node, moment->boot);
    if (boot) {
        return (struct rg_time){moment->stamp.usec - rg_clocks_offset_at(boot, moment->stamp.usec),
                                doubt(boot), RG_TIME_PROVEN};
    }
    const struct rg_clock *link = rg_clocks_find(clocks, RG_CLOCK_LINK, moment->node, moment->boot);
    if (!link) {
        return (struct rg_time){moment->stamp.usec, -1, RG_TIME_RELATIVE};
    }
    /* Years of the reader's choice are in the link; their correction is the source's. */
    struct rg_stamp stamp = {.kind = RG_STAMP_LOCAL,
                             .usec =
                                 moment->stamp.usec - rg_clocks_offset_at(link, moment->stamp.usec),
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
    const struct rg_clock *wall =
        rg_clocks_find(clocks, RG_CLOCK_WALL, moment->node, moment->source);
    if (!stamp->computed) {
        return (struct rg_time){stamp->usec, 0, RG_TIME_STATED};
    }
    if (wall && wall->computed) {
        return (struct rg_time){stamp->usec - rg_clocks_offset_at(wall, stamp->usec), doubt(wall),
                                RG_TIME_PROVEN};
    }
    return (struct rg_time){stamp->usec, COMPUTED_USEC, RG_TIME_STATED};
}

/* Takes off what the node's clock is ahead of the others. */
static struct rg_time without_skew(const struct rg_clocks *clocks, rg_node_id node,
                                   struct rg_time time)
{
    const struct rg_clock_skew *skew = rg_clocks_find_skew(clocks, node);
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
    const struct rg_clock *wall = sibling_wall(clocks, node);
    const struct rg_zone *given = given_zone(clocks, node);
    const struct rg_clock_skew *skew = rg_clocks_find_skew(clocks, node);
    if (wall) {
        told.zone_known = true;
        told.zone_s = wall->zone_s;
        told.drift_usec = wall->computed || llabs(wall->drift) > LATE_MAX_USEC ? wall->drift : 0;
        told.years_corrected = wall->year_known && wall->year_shift != 0;
        told.evidence = wall->seen;
    }
    const struct rg_clock_report *report =
        wall || given ? NULL : rg_clocks_find_report(clocks, node);
    if (report && rg_clocks_report_zone(report, &told.zone_s)) {
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
        rg_buf_addf(out, "+%lld.%03d s after boot", (long long)(time->usec / RG_SECOND),
                    (int)(time->usec % RG_SECOND / 1000));
        return;
    }
    int64_t seconds = time->usec / RG_SECOND - (time->usec % RG_SECOND < 0);
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
