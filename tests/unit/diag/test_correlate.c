/*
 * Correlation over events made by hand: counts, ceilings, quiet times, clocks that cannot be
 * compared.
 */
#include "diag/correlate.h"

#include "test.h"

#include <stdio.h>

static const struct rg_catalogue_row lost_row = {
    .id = "IM-LOST-WAIT",
    .family = "IM-LOST-WAIT",
    .title = {"lost", "lost"},
    .layer = RG_LAYER_IMPORT,
    .accused = RG_ACCUSED_CONSEQUENCE,
    .effect = RG_EFFECT_LOST,
    .cause = {"", ""},
    .remedy = {"", ""},
    .avoid = {"", ""},
};

static const struct rg_catalogue_row link_row = {
    .id = "NET-LINK",
    .family = "NET-LINK",
    .title = {"down", "down"},
    .layer = RG_LAYER_LINK,
    .accused = RG_ACCUSED_SELF,
    .effect = RG_EFFECT_FAULT,
    .cause = {"", ""},
    .remedy = {"", ""},
    .avoid = {"", ""},
};

static const char *node_name(void *context, rg_node_id node)
{
    static char name[16];
    snprintf(name, sizeof(name), "node%u", node);
    return name;
}

/* Stamps are what they say; boot times of node 9 are known to nobody. */
static struct rg_when when(void *context, const struct rg_stamp *stamp, rg_node_id node,
                           uint32_t boot, rg_source_id source)
{
    struct rg_when told = {.usec = stamp->usec};
    told.kind = stamp->kind == RG_STAMP_NONE    ? RG_WHEN_UNKNOWN
                : stamp->kind == RG_STAMP_BOOT  ? RG_WHEN_BOOT
                : stamp->kind == RG_STAMP_LOCAL ? RG_WHEN_LOCAL
                                                : RG_WHEN_UTC;
    return told;
}

static struct rg_correlation *open_one(void)
{
    struct rg_correlation_sources sources = {.node_name = node_name, .when = when};
    struct rg_correlation *made = NULL;
    assert_int_equal(0, rg_correlation_open(NULL, &sources, &made, NULL));
    return made;
}

static struct rg_diagnosis *finish(struct rg_correlation *correlation)
{
    struct rg_diagnosis *diagnosis = NULL;
    assert_int_equal(0, rg_correlation_finish(correlation, NULL, &diagnosis, NULL));
    rg_correlation_close(correlation);
    return diagnosis;
}

static void add(struct rg_correlation *correlation, const struct rg_catalogue_row *row,
                rg_node_id node, struct rg_stamp stamp, const char *target, const char *nid,
                uint64_t repeats)
{
    struct rg_log_record record = {
        .node = node,
        .stamp = stamp,
        .text = RG_SPAN_LITERAL("a line"),
        .repeats = repeats,
        .priority = -1,
    };
    struct rg_event event = {
        .record = &record,
        .row = row,
        .accused = row->accused,
        .effect = row->effect,
        .speaker_role = RG_ROLE_CLIENT,
        .target_kind = target ? RG_TARGET_OST : RG_TARGET_NONE,
        .target_index = -1,
        .target = rg_span_text(target),
        .nid = rg_span_text(nid),
        .wc_status = -1,
    };
    rg_correlation_saw(correlation, &record);
    rg_correlation_add(correlation, &event);
}

static struct rg_stamp at(int64_t seconds)
{
    return (struct rg_stamp){.kind = RG_STAMP_UTC, .usec = seconds * 1000000};
}

static void counts_repeats(void **state)
{
    struct rg_correlation *correlation = open_one();
    add(correlation, &lost_row, 1, at(10), "fs-OST0001", "192.0.2.1@tcp", 0);
    add(correlation, &lost_row, 1, at(11), "fs-OST0001", "12345-192.0.2.1@tcp0", 24);
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(1, diagnosis->finding_count);
    assert_int_equal(26, diagnosis->findings[0].count);
    assert_int_equal(2, diagnosis->coverage.lines);
    assert_int_equal(1, diagnosis->incident_count);
    assert_int_equal(RG_DATA_UNKNOWN, diagnosis->incidents[0].data);
    rg_diagnosis_free(diagnosis);
}

static void long_quiet_splits(void **state)
{
    struct rg_correlation *correlation = open_one();
    add(correlation, &link_row, 1, at(10), NULL, NULL, 0);
    add(correlation, &link_row, 1, at(100000), NULL, NULL, 0);
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(2, diagnosis->finding_count);
    assert_int_equal(2, diagnosis->incident_count);
    assert_true(diagnosis->incidents[0].first.usec < diagnosis->incidents[1].first.usec);
    rg_diagnosis_free(diagnosis);
}

/* What comes every hour for days is kept in a few parts, and all of it counted. */
static void a_message_has_so_many_parts_at_most(void **state)
{
    struct rg_correlation *correlation = open_one();
    for (int i = 0; i < 50; i++) {
        add(correlation, &link_row, 1, at(3600 * i), NULL, NULL, 0);
        add(correlation, &lost_row, 1, at(3600 * i), "fs-OST0001", NULL, i < 24 ? 0 : 1);
    }
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(48, diagnosis->finding_count);
    uint64_t count = 0;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        count += diagnosis->findings[i].count;
    }
    assert_int_equal(50 + 24 + 2 * 26, count);
    assert_int_equal(0, diagnosis->coverage.folded);
    rg_diagnosis_free(diagnosis);
}

static void ceilings_are_counted(void **state)
{
    struct rg_correlation *correlation = open_one();
    for (unsigned i = 0; i < 70000; i++) {
        char target[32];
        char nid[32];
        snprintf(target, sizeof(target), "fs%u-OST0001", i);
        snprintf(nid, sizeof(nid), "10.%u.%u.%u@tcp", i >> 16, (i >> 8) & 255, i & 255);
        add(correlation, &lost_row, 1 + i % 40000, at(i % 1000), target, nid, 0);
    }
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(70000, diagnosis->coverage.matched);
    assert_int_equal(70000, diagnosis->coverage.folded + diagnosis->finding_count);
    assert_true(diagnosis->finding_count >= 10000 && diagnosis->finding_count < 20000);
    assert_true(diagnosis->incident_count > 0);
    assert_true(diagnosis->holes.count > 0);
    rg_diagnosis_free(diagnosis);
}

static void hostile_times(void **state)
{
    struct rg_correlation *correlation = open_one();
    static const int64_t times[] = {0, -1, INT64_MAX, INT64_MIN, 1};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(times); i++) {
        struct rg_stamp stamp = {.kind = RG_STAMP_UTC, .usec = times[i]};
        add(correlation, &lost_row, 1, stamp, "fs-OST0001", "192.0.2.1@tcp", 0);
        stamp.kind = RG_STAMP_BOOT;
        add(correlation, &lost_row, 2, stamp, "fs-OST0001", "192.0.2.1@tcp", UINT32_MAX);
        stamp.kind = RG_STAMP_NONE;
        add(correlation, &link_row, 3, stamp, NULL, NULL, 0);
    }
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_true(diagnosis->incident_count > 0);
    rg_diagnosis_free(diagnosis);
}

static void clocks_laid_by_what_both_say(void **state)
{
    struct rg_correlation *correlation = open_one();
    add(correlation, &lost_row, 1, at(1000000), "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_stamp boot = {.kind = RG_STAMP_BOOT, .usec = 50 * 1000000};
    add(correlation, &lost_row, 9, boot, "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(1, diagnosis->incident_count);
    assert_int_equal(2, diagnosis->incidents[0].nodes.count);
    assert_int_equal(RG_SCOPE_SERVER, diagnosis->incidents[0].scope);
    assert_true(diagnosis->clocks.count > 0);
    rg_diagnosis_free(diagnosis);
}

/* A loss at 1000000 by the clock of UTC and one of another node's wall clock, so much later. */
static void assert_laid(int64_t apart, bool laid)
{
    struct rg_correlation *correlation = open_one();
    add(correlation, &lost_row, 1, at(1000000), "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_stamp local = {.kind = RG_STAMP_LOCAL, .usec = (1000000 + apart) * 1000000};
    add(correlation, &lost_row, 2, local, "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_diagnosis *diagnosis = finish(correlation);
    const struct rg_finding *utc = &diagnosis->findings[0];
    const struct rg_finding *wall = &diagnosis->findings[1];
    assert_int_equal(laid, diagnosis->clocks.count > 0);
    assert_int_equal(laid, utc->clock == wall->clock);
    assert_int_equal(laid ? utc->axis_first : local.usec, wall->axis_first);
    rg_diagnosis_free(diagnosis);
}

/* Those of a zone, a multiple of 15 minutes, and what dmesg -T is off. */
static void wall_clocks_are_laid_by_zones_only(void **state)
{
    assert_laid(9 * 3600, true);
    assert_laid(-8 * 3600, true);
    assert_laid(5 * 3600 + 2700 + 180, true);
    assert_laid(5 * 3600 + 2700 - 180, true);
    assert_laid(5 * 3600 + 2700 + 181, false);
    assert_laid(5 * 3600 + 2700 - 181, false);
    assert_laid(450, false);
    assert_laid(15 * 3600, true);
    assert_laid(16 * 3600, false);
    assert_laid(-16 * 3600, false);
}

/* Seconds since an unknown boot are laid where most pairs say, and never on another target. */
static void boot_clocks_are_laid_where_most_say(void **state)
{
    struct rg_correlation *correlation = open_one();
    for (int i = 0; i < 3; i++) {
        char target[16];
        snprintf(target, sizeof(target), "fs-OST000%d", i);
        struct rg_stamp boot = {.kind = RG_STAMP_BOOT, .usec = INT64_C(1000000) * (50 + 200 * i)};
        add(correlation, &lost_row, 1, at(5000 + 200 * i), target, "192.0.2.1@tcp", 0);
        add(correlation, &lost_row, 9, boot, target, "192.0.2.1@tcp", 0);
    }
    add(correlation, &lost_row, 1, at(9000), "fs-OST0002", "192.0.2.9@tcp", 0);
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(7, diagnosis->finding_count);
    for (size_t i = 0; i < 6; i += 2) {
        assert_int_equal(diagnosis->findings[i].axis_first, diagnosis->findings[i + 1].axis_first);
    }
    rg_diagnosis_free(diagnosis);

    correlation = open_one();
    add(correlation, &lost_row, 1, at(5000), "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_stamp boot = {.kind = RG_STAMP_BOOT, .usec = 50 * 1000000};
    add(correlation, &lost_row, 1, boot, "fs-OST0001", "192.0.2.1@tcp", 0);
    add(correlation, &lost_row, 9, boot, "fs-OST0002", "192.0.2.1@tcp", 0);
    diagnosis = finish(correlation);
    assert_int_equal(0, diagnosis->clocks.count);
    assert_int_not_equal(diagnosis->findings[0].clock, diagnosis->findings[1].clock);
    assert_int_not_equal(diagnosis->findings[0].clock, diagnosis->findings[2].clock);
    rg_diagnosis_free(diagnosis);
}

/* Whichever is met first, the clock with a date is the one that others are laid beside. */
static void the_clock_with_a_date_is_the_base(void **state)
{
    struct rg_correlation *correlation = open_one();
    struct rg_stamp boot = {.kind = RG_STAMP_BOOT, .usec = 50 * 1000000};
    add(correlation, &lost_row, 9, boot, "fs-OST0001", "192.0.2.1@tcp", 0);
    add(correlation, &lost_row, 1, at(1000000), "fs-OST0001", "192.0.2.1@tcp", 0);
    struct rg_diagnosis *diagnosis = finish(correlation);
    assert_int_equal(at(1000000).usec, diagnosis->findings[0].axis_first);
    assert_int_equal(at(1000000).usec, diagnosis->findings[1].axis_first);
    rg_diagnosis_free(diagnosis);
}

/* Source 2 turned out to be of the year before. */
static int64_t in_year(void *context, const struct rg_stamp *stamp, rg_node_id node,
                       rg_source_id source)
{
    return stamp->usec - (source == 2 ? INT64_C(365) * 86400 * 1000000 : 0);
}

static struct rg_when when_in_year(void *context, const struct rg_stamp *stamp, rg_node_id node,
                                   uint32_t boot, rg_source_id source)
{
    struct rg_when told = when(context, stamp, node, boot, source);
    told.usec = in_year(context, stamp, node, source);
    return told;
}

static void sources_are_laid_in_the_years_they_are_of(void **state)
{
    const int64_t day = 86400;
    const struct {
        rg_source_id source;
        enum rg_stamp_kind kind;
        int64_t usec;
    } lines[] = {
        {1, RG_STAMP_LOCAL, 400 * day * 1000000},
        {2, RG_STAMP_LOCAL, 500 * day * 1000000},
        {2, RG_STAMP_LOCAL, 450 * day * 1000000},
        {2, RG_STAMP_LOCAL, 760 * day * 1000000},
        {3, RG_STAMP_LOCAL, 390 * day * 1000000},
        {4, RG_STAMP_UTC, 391 * day * 1000000},
        {4, RG_STAMP_BOOT, 1000000},
    };
    const size_t count = RG_ARRAY_LENGTH(lines);
    for (size_t begin = 0; begin < count; begin++) {
        struct rg_correlation_sources sources = {.when = when_in_year, .in_year = in_year};
        struct rg_correlation *correlation = NULL;
        assert_int_equal(0, rg_correlation_open(NULL, &sources, &correlation, NULL));
        for (size_t i = 0; i < count; i++) {
            size_t line = (begin + i) % count;
            struct rg_log_record record = {
                .node = 1,
                .source = lines[line].source,
                .stamp = {.kind = lines[line].kind, .usec = lines[line].usec},
            };
            rg_correlation_saw(correlation, &record);
        }
        struct rg_diagnosis *diagnosis = finish(correlation);
        assert_int_equal(1, diagnosis->node_count);
        assert_int_equal(RG_WHEN_LOCAL, diagnosis->nodes[0].first.kind);
        assert_int_equal(85 * day * 1000000, diagnosis->nodes[0].first.usec);
        assert_int_equal(400 * day * 1000000, diagnosis->nodes[0].last.usec);
        assert_int_equal(85 * day * 1000000, diagnosis->first.usec);
        rg_diagnosis_free(diagnosis);
    }
}

static void nothing_gives_nothing(void **state)
{
    struct rg_diagnosis *diagnosis = finish(open_one());
    assert_int_equal(0, diagnosis->incident_count);
    assert_int_equal(0, diagnosis->node_count);
    rg_diagnosis_free(diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_repeats),
        cmocka_unit_test(long_quiet_splits),
        cmocka_unit_test(a_message_has_so_many_parts_at_most),
        cmocka_unit_test(ceilings_are_counted),
        cmocka_unit_test(hostile_times),
        cmocka_unit_test(clocks_laid_by_what_both_say),
        cmocka_unit_test(wall_clocks_are_laid_by_zones_only),
        cmocka_unit_test(boot_clocks_are_laid_where_most_say),
        cmocka_unit_test(the_clock_with_a_date_is_the_base),
        cmocka_unit_test(sources_are_laid_in_the_years_they_are_of),
        cmocka_unit_test(nothing_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
