/*
 * Bringing clocks together: each kind of evidence, zones, years, drift, skew, and what is said when
 * there is no evidence.
 */
#include "test.h"

#include "collect.h"

#include "diag/boots.h"
#include "diag/clock.h"
#include "diag/stamp.h"
#include "diag/zone.h"

#define SEC  INT64_C(1000000)
#define HOUR 3600

static struct rg_clocks *clocks;

static int set_up(void **state)
{
    return rg_clocks_new(&clocks, NULL);
}

static int tear_down(void **state)
{
    rg_clocks_free(clocks);
    return 0;
}

static struct rg_stamp boot(double seconds)
{
    return (struct rg_stamp){.kind = RG_STAMP_BOOT, .usec = (int64_t)(seconds * 1e6)};
}

static struct rg_stamp local(int64_t second)
{
    return (struct rg_stamp){.kind = RG_STAMP_LOCAL, .usec = second * SEC};
}

static struct rg_stamp computed(int64_t second)
{
    return (struct rg_stamp){.kind = RG_STAMP_LOCAL, .usec = second * SEC, .computed = true};
}

static struct rg_stamp yearless(int64_t second)
{
    return (struct rg_stamp){.kind = RG_STAMP_LOCAL, .usec = second * SEC, .year_guessed = true};
}

static struct rg_stamp utc(int64_t second)
{
    return (struct rg_stamp){.kind = RG_STAMP_UTC, .usec = second * SEC};
}

static struct rg_log_record record(rg_node_id node, rg_source_id source, struct rg_stamp stamp)
{
    return (struct rg_log_record){
        .node = node, .source = source, .stamp = stamp, .text = RG_SPAN_EMPTY};
}

/* A request of Lustre's that expired, printed at `stamp`. */
static void expire_at(rg_node_id node, rg_source_id source, struct rg_stamp stamp, const char *text,
                      int64_t sent, int64_t deadline)
{
    static uint64_t xid = 1000;
    struct rg_log_record line = record(node, source, stamp);
    line.text = rg_span_text(text);
    struct rg_event event = {
        .record = &line,
        .wc_status = -1,
        .request = {
            .present = true, .xid = xid++, .sent = sent, .real = sent, .deadline = deadline}};
    rg_clocks_note_event(clocks, &event);
}

static void expire(rg_node_id node, rg_source_id source, struct rg_stamp stamp, int64_t deadline)
{
    expire_at(node, source, stamp, "@@@ Request sent has timed out for slow reply: [sent 1/real 1]",
              deadline - 7, deadline);
}

static struct rg_time resolve(rg_node_id node, rg_source_id source, struct rg_stamp stamp)
{
    rg_clocks_settle(clocks);
    struct rg_moment moment = {.node = node, .source = source, .stamp = stamp};
    return rg_clocks_resolve(clocks, &moment);
}

static void resolves_to(struct rg_time time, enum rg_time_basis basis, int64_t second)
{
    assert_int_equal(time.basis, basis);
    assert_int_equal(time.usec / SEC, second);
}

/* ---- Without evidence ---- */

static void without_evidence_nothing_is_made_up(void **state)
{
    resolves_to(resolve(1, 1, utc(1795962611)), RG_TIME_STATED, 1795962611);
    resolves_to(resolve(1, 1, local(1795962611)), RG_TIME_UNSTATED, 1795962611);
    struct rg_time time = resolve(1, 1, boot(533.84));
    resolves_to(time, RG_TIME_RELATIVE, 533);
    assert_int_equal(time.uncertainty_usec, -1);
    assert_int_equal(resolve(1, 1, (struct rg_stamp){0}).basis, RG_TIME_NONE);
    struct rg_node_clock clock;
    assert_false(rg_clocks_describe(clocks, 1, &clock));
}

/* ---- Seconds since boot ---- */

static void both_stamps_in_one_line(void **state)
{
    struct rg_log_record line = record(1, 1, utc(1795962611));
    line.second = boot(1000);
    rg_clocks_note_record(clocks, &line);
    resolves_to(resolve(1, 2, boot(1060)), RG_TIME_PROVEN, 1795962671);
    /* Another boot is another matter. */
    struct rg_moment other = {.node = 1, .boot = 1, .stamp = boot(1060)};
    assert_int_equal(rg_clocks_resolve(clocks, &other).basis, RG_TIME_RELATIVE);
}

static void deadlines_in_requests(void **state)
{
    /* M-IBPORT's numbers, had it been dmesg. */
    expire(1, 1, boot(5000.2), 1403733444);
    expire(1, 1, boot(5050.1), 1403733494);
    struct rg_time time = resolve(1, 1, boot(5100));
    resolves_to(time, RG_TIME_PROVEN, 1403733543);
    assert_in_range(time.uncertainty_usec, SEC, 4 * SEC);
}

static void a_network_error_is_weaker_than_a_deadline(void **state)
{
    expire_at(1, 1, boot(100), "@@@ Request sent has failed due to network error: [sent 1/real 1]",
              1403733000, 1403733060);
    resolves_to(resolve(1, 1, boot(100)), RG_TIME_PROVEN, 1403733000);
    rg_clocks_free(clocks);
    assert_int_equal(rg_clocks_new(&clocks, NULL), 0);
    expire_at(1, 1, boot(100), "@@@ Request sent has failed due to network error: [sent 1/real 1]",
              1403733000, 1403733060);
    expire(1, 1, boot(200), 1403733107);
    expire_at(1, 1, boot(300), "@@@ Request sent has failed due to network error: [sent 1/real 1]",
              1403733100, 1403733260);
    resolves_to(resolve(1, 1, boot(100)), RG_TIME_PROVEN, 1403733007);
}

static void the_clock_chip_and_evictions(void **state)
{
    struct rg_log_record line = record(1, 1, boot(1.5));
    line.text = rg_span_text(
        "rtc_cmos 00:00: setting system clock to 2026-11-29T14:30:11 UTC (1795962611)");
    rg_clocks_note_record(clocks, &line);
    resolves_to(resolve(1, 1, boot(101.5)), RG_TIME_PROVEN, 1795962711);

    struct rg_log_record eviction = record(2, 1, boot(5000));
    struct rg_event event = {.record = &eviction, .epoch = 1795962611};
    rg_clocks_free(clocks);
    assert_int_equal(rg_clocks_new(&clocks, NULL), 0);
    rg_clocks_note_event(clocks, &event);
    resolves_to(resolve(2, 1, boot(4990)), RG_TIME_PROVEN, 1795962601);
}

static void recalled_lines_are_no_evidence(void **state)
{
    struct rg_log_record line = record(1, 1, boot(5000));
    line.text = rg_span_text("@@@ Request sent has timed out for slow reply: [sent 1/real 1]");
    line.recalled = true;
    struct rg_event event = {.record = &line, .request = {.present = true, .deadline = 1403733444}};
    rg_clocks_note_event(clocks, &event);
    assert_int_equal(resolve(1, 1, boot(5000)).basis, RG_TIME_RELATIVE);
}

static void garbage_is_no_evidence(void **state)
{
    expire(1, 1, boot(5000), 17);
    expire(1, 1, boot(5000), INT64_MAX / SEC);
    expire(1, 1, local(1403733444), 1703733444);
    assert_int_equal(resolve(1, 1, boot(5000)).basis, RG_TIME_RELATIVE);
    assert_int_equal(resolve(1, 1, local(1403733444)).basis, RG_TIME_UNSTATED);
}

/* ---- Wall clocks ---- */

static void zones_by_deadlines(void **state)
{
    expire(1, 1, local(1403733444 + 2 * HOUR), 1403733444);
    struct rg_time time = resolve(1, 1, local(1403733444 + 2 * HOUR + 60));
    resolves_to(time, RG_TIME_PROVEN, 1403733504);
    struct rg_node_clock clock;
    assert_true(rg_clocks_describe(clocks, 1, &clock));
    assert_int_equal(clock.zone_s, 2 * HOUR);
    assert_int_equal(clock.drift_usec, 0);
}

static void zones_of_quarters(void **state)
{
    expire(1, 1, local(1403733444 + 5 * HOUR + 45 * 60 + 1), 1403733444);
    struct rg_node_clock clock;
    rg_clocks_settle(clocks);
    assert_true(rg_clocks_describe(clocks, 1, &clock));
    assert_int_equal(clock.zone_s, 5 * HOUR + 45 * 60);
}

/* M-SLOWCASC: 17:59:06 on the wall, 10:08:07 UTC by the deadline: eight hours, and nine minutes of
 * dmesg -T's drift. */
static void drift_of_dmesg(void **state)
{
    int64_t wall = INT64_C(1762365546);
    expire(1, 1, computed(wall), 1762337287);
    resolves_to(resolve(1, 1, computed(wall + 980)), RG_TIME_PROVEN, 1762338267);
    struct rg_node_clock clock;
    assert_true(rg_clocks_describe(clocks, 1, &clock));
    assert_int_equal(clock.zone_s, 8 * HOUR);
    assert_int_equal(clock.drift_usec / SEC, -541);
}

static void syslog_is_late_and_not_off(void **state)
{
    expire(1, 1, local(1403733444 + 9 * HOUR + 4), 1403733444);
    resolves_to(resolve(1, 1, local(1403733444 + 9 * HOUR + 4)), RG_TIME_PROVEN, 1403733448);
}

static void years_by_deadlines(void **state)
{
    /* Read as 2026, said in 2014. */
    int64_t in_2026 = rg_stamp_set_year((INT64_C(1403733444) + 2 * HOUR) * SEC, 2026) / SEC;
    expire(1, 1, yearless(in_2026), 1403733444);
    resolves_to(resolve(1, 1, yearless(in_2026)), RG_TIME_PROVEN, 1403733444);
    struct rg_node_clock clock;
    assert_true(rg_clocks_describe(clocks, 1, &clock));
    assert_true(clock.years_corrected);
    /* Other sources of the input have the same fault. */
    resolves_to(resolve(2, 2, yearless(in_2026)), RG_TIME_ASSUMED, 1403733444);
}

static void a_zone_across_new_year(void **state)
{
    /* 2025-12-31 18:00 UTC is 2026-01-01 03:00 in Seoul. */
    int64_t epoch = rg_days_from_date(2025, 12, 31) * 86400 + 18 * HOUR;
    expire(1, 1, yearless(epoch + 9 * HOUR), epoch);
    resolves_to(resolve(1, 1, yearless(epoch + 9 * HOUR)), RG_TIME_PROVEN, epoch);
}

static void zones_are_taken_over_when_all_agree(void **state)
{
    expire(1, 1, local(1403733444 + 9 * HOUR), 1403733444);
    resolves_to(resolve(1, 7, local(1403733444 + 9 * HOUR)), RG_TIME_ASSUMED, 1403733444);
    resolves_to(resolve(2, 8, local(1403733444 + 9 * HOUR)), RG_TIME_ASSUMED, 1403733444);
}

static void zones_that_differ_are_not_taken_over(void **state)
{
    expire(1, 1, local(1403733444 + 9 * HOUR), 1403733444);
    expire(2, 2, local(1403733444 + 1 * HOUR), 1403733444);
    assert_int_equal(resolve(3, 3, local(1403733444)).basis, RG_TIME_UNSTATED);
}

static void boot_seconds_through_a_wall_clock(void **state)
{
    /* messages has both stamps; dmesg of the same boot has one; a deadline gives the zone. */
    struct rg_log_record line = record(1, 1, local(1403733444 + 9 * HOUR));
    line.second = boot(5000);
    rg_clocks_note_record(clocks, &line);
    expire(1, 1, local(1403733544 + 9 * HOUR), 1403733544);
    resolves_to(resolve(1, 2, boot(5010)), RG_TIME_PROVEN, 1403733454);
}

static void a_wall_clock_through_boot_seconds(void **state)
{
    struct rg_log_record line = record(1, 1, local(1403733444 + 9 * HOUR));
    line.second = boot(5000);
    rg_clocks_note_record(clocks, &line);
    struct rg_log_record journal = record(1, 2, utc(1403733454));
    journal.second = boot(5010);
    rg_clocks_note_record(clocks, &journal);
    resolves_to(resolve(1, 1, local(1403733450 + 9 * HOUR)), RG_TIME_PROVEN, 1403733450);
}

static void a_clock_that_was_set_meanwhile(void **state)
{
    /* Half way, the wall clock jumps by 100 s against the seconds since boot. */
    for (int i = 0; i < 40; i++) {
        struct rg_log_record line = record(1, 1, utc(1000000000 + 10 * i + (i < 20 ? 0 : 100)));
        line.second = boot(1000 + 10 * i);
        rg_clocks_note_record(clocks, &line);
    }
    resolves_to(resolve(1, 1, boot(1050)), RG_TIME_PROVEN, 1000000050);
    resolves_to(resolve(1, 1, boot(1350)), RG_TIME_PROVEN, 1000000450);
    assert_true(resolve(1, 1, boot(1050)).uncertainty_usec >= 50 * SEC);
}

/* ---- What the user says ---- */

static uint32_t assign(struct rg_boots *boots, uint32_t family, rg_node_id node, double seconds)
{
    struct rg_log_record line = record(node, family, boot(seconds));
    line.text = rg_span_text("a line");
    rg_boots_assign(boots, family, RG_SPAN_EMPTY, &line);
    return line.boot;
}

static void what_dates_one_number_of_a_boot_dates_all(void **state)
{
    const rg_node_id nodes = 200; /* the table grows */
    struct rg_boots *boots;
    assert_int_equal(rg_boots_new(&boots, NULL), 0);
    for (rg_node_id node = 1; node <= nodes; node++) {
        /* A ring without its beginning, and a file with it: the same boot. */
        assert_int_equal(assign(boots, 1, node, 100), 0);
        assert_int_equal(assign(boots, 2, node, 40), 1);
        assert_int_equal(assign(boots, 2, node, 100), 0);
        struct rg_log_record line = record(node, node, boot(40));
        line.boot = 1;
        if (node == 1) {
            struct rg_collected report = {.has_local = true,
                                          .local_usec = 1795962611 * SEC,
                                          .has_utc = true,
                                          .utc_usec = 1795962611 * SEC,
                                          .has_uptime = true,
                                          .clock_s = 1795962611 % 86400,
                                          .up_s = 600};
            rg_clocks_note_collected(clocks, node, &report);
            rg_clocks_note_ring(clocks, node, 1);
            continue;
        }
        line.stamp = node % 2 ? local(1795962611 + node) : utc(1795962611 + node);
        line.second = boot(40);
        rg_clocks_note_record(clocks, &line);
    }
    /* Another boot keeps what is its own. */
    struct rg_log_record line = record(2, 9, utc(1700000000));
    line.second = boot(40);
    line.boot = assign(boots, 3, 2, 50);
    assert_int_equal(line.boot, 2);
    rg_clocks_note_record(clocks, &line);

    rg_clocks_join_boots(clocks, boots);
    resolves_to(resolve(1, 1, boot(1000)), RG_TIME_PROVEN, 1795962611 - 630 + 1000);
    for (rg_node_id node = 2; node <= nodes; node++) {
        resolves_to(resolve(node, 1, boot(1000)), node % 2 ? RG_TIME_UNSTATED : RG_TIME_PROVEN,
                    1795962611 + node + 960);
    }
    struct rg_moment moment = {.node = 2, .boot = 2, .stamp = boot(1000)};
    resolves_to(rg_clocks_resolve(clocks, &moment), RG_TIME_PROVEN, 1700000960);
    rg_boots_free(boots);
}

static void zones_that_are_given(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_clocks_set_zone(clocks, 0, "UTC", &err), 0);
    assert_int_equal(rg_clocks_set_zone(clocks, 1, "+09:00", &err), 0);
    assert_int_equal(rg_clocks_set_zone(clocks, 2, "Mars/Olympus", &err), -RG_SETTING);
    assert_int_equal(rg_clocks_set_zone(clocks, 2, "../../etc/passwd", &err), -RG_SETTING);
    resolves_to(resolve(1, 1, local(1403733444 + 9 * HOUR)), RG_TIME_GIVEN, 1403733444);
    resolves_to(resolve(2, 1, local(1403733444)), RG_TIME_GIVEN, 1403733444);
}

static void zones_with_summer_time(void **state)
{
    struct rg_zone zone;
    struct rg_error err = RG_ERROR_INIT;
    if (rg_zone_read("Europe/Berlin", &zone, &err) < 0) {
        skip(); /* no zone database here */
    }
    /* 2026-03-29 02:00 CET becomes 03:00 CEST. */
    int64_t change = rg_days_from_date(2026, 3, 29) * 86400 + 2 * HOUR;
    assert_int_equal(rg_zone_east_of_local(&zone, change - 1), HOUR);
    assert_int_equal(rg_zone_east_of_local(&zone, change + HOUR), 2 * HOUR);
    assert_int_equal(rg_zone_east_of_local(&zone, rg_days_from_date(2026, 7, 1) * 86400), 2 * HOUR);
    assert_int_equal(rg_zone_east_of_local(&zone, rg_days_from_date(2026, 12, 1) * 86400), HOUR);
    assert_int_equal(rg_zone_read("Asia/Seoul", &zone, &err), 0);
    assert_int_equal(rg_zone_east_of_local(&zone, 1403733444), 9 * HOUR);
}

static void zones_as_offsets(void **state)
{
    static const struct {
        const char *text;
        int32_t east_s;
    } good[] = {{"+9", 32400},      {"+09", 32400},   {"+0930", 34200},
                {"-03:30", -12600}, {"+5:45", 20700}, {"KST", 32400}};
    static const char *const bad[] = {"+", "+999", "+09:", "9", "", "+09:00:00", "+15", "+09:75"};
    struct rg_zone zone;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(good); i++) {
        assert_int_equal(rg_zone_read(good[i].text, &zone, NULL), 0);
        assert_int_equal(rg_zone_east_of_local(&zone, 0), good[i].east_s);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_int_equal(rg_zone_read(bad[i], &zone, NULL), -RG_SETTING);
    }
}

/* ---- Nodes against each other ---- */

static void see_request(rg_node_id node, uint64_t xid, int64_t deadline)
{
    struct rg_log_record line = record(node, node, utc(deadline));
    line.text = rg_span_text("@@@ something about it");
    struct rg_event event = {.record = &line,
                             .request = {.present = true, .xid = xid, .deadline = deadline}};
    rg_clocks_note_event(clocks, &event);
}

static void skew_by_requests_seen_on_both_sides(void **state)
{
    for (uint64_t i = 0; i < 5; i++) {
        see_request(1, 100 + i, 1403733000 + (int64_t)i);
        see_request(2, 100 + i, 1403733001 + (int64_t)i); /* a second of network: no skew */
        see_request(1, 200 + i, 1403734000 + (int64_t)i);
        see_request(3, 200 + i, 1403734090 + (int64_t)i); /* a minute and a half ahead */
    }
    struct rg_node_clock clock;
    resolves_to(resolve(1, 1, utc(1403733000)), RG_TIME_STATED, 1403733000);
    resolves_to(resolve(2, 2, utc(1403733000)), RG_TIME_STATED, 1403733000);
    struct rg_time time = resolve(3, 3, utc(1403733090));
    assert_in_range(time.usec, INT64_C(1403732998) * SEC, INT64_C(1403733002) * SEC);
    assert_true(rg_clocks_describe(clocks, 3, &clock));
    assert_true(clock.skew_known);
    assert_in_range(clock.skew_usec, 85 * SEC, 92 * SEC);
}

static void times_as_text(void **state)
{
    RG_BUF(text, 256);
    struct rg_time time = {.usec = INT64_C(1795962611) * SEC, .basis = RG_TIME_PROVEN};
    rg_time_add_text(&text, &time, 0);
    rg_buf_add_char(&text, ' ');
    rg_time_add_text(&text, &time, 9 * HOUR);
    rg_buf_add_char(&text, ' ');
    time.basis = RG_TIME_UNSTATED;
    rg_time_add_text(&text, &time, 9 * HOUR);
    rg_buf_add_char(&text, ' ');
    time = (struct rg_time){.usec = 533840297, .basis = RG_TIME_RELATIVE};
    rg_time_add_text(&text, &time, 0);
    assert_string_equal(rg_buf_text(&text),
                        "2026-11-29 14:30:11Z 2026-11-29 23:30:11+09:00 2026-11-29 14:30:11 (zone "
                        "unstated) +533.840 s after boot");
}

static void many_clocks_stay_bounded(void **state)
{
    for (uint32_t i = 1; i < 100000; i++) {
        expire(i, i, local(1403733444 + 9 * HOUR), 1403733444);
    }
    resolves_to(resolve(1, 1, local(1403733444 + 9 * HOUR)), RG_TIME_PROVEN, 1403733444);
    /* Beyond the ceiling the zone of all others is assumed. */
    resolves_to(resolve(99999, 99999, local(1403733444 + 9 * HOUR)), RG_TIME_ASSUMED, 1403733444);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(without_evidence_nothing_is_made_up),
        TEST(both_stamps_in_one_line),
        TEST(deadlines_in_requests),
        TEST(a_network_error_is_weaker_than_a_deadline),
        TEST(the_clock_chip_and_evictions),
        TEST(recalled_lines_are_no_evidence),
        TEST(garbage_is_no_evidence),
        TEST(zones_by_deadlines),
        TEST(zones_of_quarters),
        TEST(drift_of_dmesg),
        TEST(syslog_is_late_and_not_off),
        TEST(years_by_deadlines),
        TEST(a_zone_across_new_year),
        TEST(zones_are_taken_over_when_all_agree),
        TEST(zones_that_differ_are_not_taken_over),
        TEST(boot_seconds_through_a_wall_clock),
        TEST(a_wall_clock_through_boot_seconds),
        TEST(a_clock_that_was_set_meanwhile),
        TEST(what_dates_one_number_of_a_boot_dates_all),
        TEST(zones_that_are_given),
        TEST(zones_with_summer_time),
        TEST(zones_as_offsets),
        TEST(skew_by_requests_seen_on_both_sides),
        TEST(times_as_text),
        TEST(many_clocks_stay_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
