/*
 * Which lines are one line, collected twice.
 */
#include "test.h"

#include "collect.h"

#include "diag/seen.h"

#include <stdio.h>

static struct rg_seen *seen;

static int set_up(void **state)
{
    return rg_seen_new(&seen, NULL);
}

static int tear_down(void **state)
{
    rg_seen_free(seen);
    return 0;
}

static bool before(rg_source_id source, enum rg_stamp_kind kind, int64_t usec, bool computed,
                   const char *text)
{
    struct rg_log_record record = {.node = 1,
                                   .source = source,
                                   .stamp = {.kind = kind, .usec = usec, .computed = computed},
                                   .text = rg_span_text(text)};
    return rg_seen_before(seen, &record);
}

static bool at_boot(rg_source_id source, int64_t usec, const char *text)
{
    return before(source, RG_STAMP_BOOT, usec, false, text);
}

static bool at_utc(rg_source_id source, int64_t second, const char *text)
{
    return before(source, RG_STAMP_UTC, second * 1000000, false, text);
}

static bool at_local(rg_source_id source, int64_t second, const char *text)
{
    return before(source, RG_STAMP_LOCAL, second * 1000000, false, text);
}

static void the_same_seconds_since_boot(void **state)
{
    assert_false(at_boot(1, 533840297, "Lustre: text"));
    assert_true(at_boot(1, 533840297, "Lustre: text"));
    assert_true(at_boot(2, 533840297, "Lustre: text"));
    assert_false(at_boot(2, 533840298, "Lustre: text"));
    assert_false(at_boot(2, 533840297, "Lustre: texu"));
}

static void other_nodes_and_boots_are_others(void **state)
{
    struct rg_log_record record = {.node = 1,
                                   .source = 1,
                                   .stamp = {.kind = RG_STAMP_BOOT, .usec = 5},
                                   .text = rg_span_text("text")};
    assert_false(rg_seen_before(seen, &record));
    record.node = 2;
    assert_false(rg_seen_before(seen, &record));
    record.boot = 1;
    assert_false(rg_seen_before(seen, &record));
    assert_true(rg_seen_before(seen, &record));
}

static void a_source_repeats_itself_rightly(void **state)
{
    for (int i = 0; i < 5; i++) {
        assert_false(at_local(1, 1000, "Lustre: text"));
    }
    assert_true(at_local(2, 1001, "Lustre: text"));
    assert_false(at_local(2, 1010, "Lustre: text"));
}

static void zones_between_journal_and_messages(void **state)
{
    assert_false(at_utc(1, 1795962611, "Lustre: a"));
    assert_true(at_local(2, 1795962611 + 9 * 3600, "Lustre: a"));
    assert_false(at_local(2, 1795962611 + 9 * 3600 + 77, "Lustre: a"));
}

/* Zones are no further apart, and what was said on another day is another line. */
static void zones_are_within_fifteen_hours(void **state)
{
    for (int quarters = -70; quarters <= 70; quarters++) {
        for (int utc_first = 0; utc_first < 2; utc_first++) {
            char text[32];
            snprintf(text, sizeof(text), "Lustre: %d %d", quarters, utc_first);
            int64_t local = 1795962611 + quarters * 900;
            assert_false(utc_first ? at_utc(1, 1795962611, text) : at_local(2, local, text));
            assert_int_equal(utc_first ? at_local(2, local, text) : at_utc(1, 1795962611, text),
                             quarters >= -60 && quarters <= 60);
        }
    }
    /* What is of another day takes nothing from what is of this one. */
    assert_false(at_utc(1, 1795962611, "Lustre: a"));
    assert_false(at_local(2, 1795962611 - 9 * 86400, "Lustre: a"));
    assert_true(at_local(2, 1795962611 + 9 * 3600, "Lustre: a"));
    assert_false(at_local(2, 1795962611 + 9 * 86400, "Lustre: a"));
}

static void periodic_lines_of_rotated_files_stay(void **state)
{
    assert_false(at_local(1, 900, "Lustre: a"));
    assert_false(at_local(2, 1800, "Lustre: a"));
    assert_false(at_local(3, 2700, "Lustre: a"));
}

static void ring_and_messages(void **state)
{
    static const char *const texts[] = {"Lustre: a", "Lustre: b", "Lustre: c", "Lustre: d"};
    for (int i = 0; i < 4; i++) {
        assert_false(at_boot(1, (100 + 10 * i) * INT64_C(1000000) + 77, texts[i]));
    }
    /* The first common line shows the difference, the second proves it. */
    assert_false(at_local(2, 5100, "Lustre: a"));
    assert_true(at_local(2, 5110, "Lustre: b"));
    assert_true(at_local(2, 5120, "Lustre: c"));
    /* Another time with the same text is another line. */
    assert_false(at_local(2, 9000, "Lustre: d"));
}

static void ring_printed_twice(void **state)
{
    assert_false(at_boot(1, 100000000, "Lustre: a"));
    assert_false(at_boot(1, 200000000, "Lustre: a"));
    assert_true(before(2, RG_STAMP_LOCAL, INT64_C(5100000000), true, "Lustre: a"));
    assert_true(before(2, RG_STAMP_LOCAL, INT64_C(5200000000), true, "Lustre: a"));
    assert_false(before(2, RG_STAMP_LOCAL, INT64_C(5300000000), true, "Lustre: a"));
}

static void thousands_of_lines_are_remembered(void **state)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 10000; i++) {
            char text[32];
            snprintf(text, sizeof(text), "Lustre: line %d", i);
            assert_int_equal(at_boot(1 + (rg_source_id)round, i * INT64_C(1000000), text), round);
        }
    }
}

/* What does not fit pushes out something else, not itself. */
static void the_latest_of_more_lines_than_fit_are_remembered(void **state)
{
    for (int i = 0; i < 400000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "Lustre: line %d", i);
        assert_false(at_boot(1, i * INT64_C(1000000), text));
        assert_true(at_boot(2, i * INT64_C(1000000), text));
    }
}

static void wall_clocks_of_one_kind_agree_to_the_second(void **state)
{
    for (int apart = -2; apart <= 2; apart++) {
        char text[32];
        snprintf(text, sizeof(text), "Lustre: %d", apart);
        assert_false(at_local(1, 1795962611, text));
        assert_int_equal(at_local(2, 1795962611 + apart, text), apart >= -1 && apart <= 1);
    }
}

/* Also where a quarter of an hour begins. */
static void wall_clocks_of_two_kinds_agree_to_the_second_but_for_the_zone(void **state)
{
    for (int at = 0; at < 900; at += 450) {
        for (int apart = -2; apart <= 2; apart++) {
            char text[32];
            snprintf(text, sizeof(text), "Lustre: %d %d", at, apart);
            assert_false(at_utc(1, 1795962600 + at, text));
            assert_int_equal(at_local(2, 1795962600 + 9 * 3600 + at + apart, text),
                             apart >= -1 && apart <= 1);
        }
    }
}

/* dmesg -T, which does not say its zone. */
static bool computed(rg_source_id source, int64_t second, const char *text)
{
    return before(source, RG_STAMP_LOCAL, second * 1000000, true, text);
}

static bool in_seoul(rg_source_id source, int64_t second, const char *text)
{
    struct rg_log_record record = {
        .node = 1,
        .source = source,
        .stamp = {.kind = RG_STAMP_UTC, .usec = second * 1000000, .zoned = true, .east_min = 540},
        .text = rg_span_text(text)};
    return rg_seen_before(seen, &record);
}

static void a_zone_that_no_line_states_is_not_guessed_for_a_computed_clock(void **state)
{
    assert_false(at_utc(1, 1795962611, "Lustre: a"));
    assert_false(computed(2, 1795962611 + 9 * 3600, "Lustre: a"));
    /* Two lines tell it. */
    assert_false(at_utc(1, 1795962621, "Lustre: b"));
    assert_true(computed(2, 1795962621 + 9 * 3600, "Lustre: b"));
}

/* It is off by what the host slept and by what its clock was set. */
static void a_computed_clock_is_near_the_wall_clock(void **state)
{
    for (int off = -200; off <= 200; off += 10) {
        for (int first = 0; first < 2; first++) {
            char text[32];
            snprintf(text, sizeof(text), "Lustre: %d %d", off, first);
            rg_source_id log = (rg_source_id)(1000 + 2 * (200 + off) + first);
            int64_t second = INT64_C(1795962611) + 100000 * (off + first);
            assert_false(first ? computed(log + 1, second + off, text)
                               : at_local(log, second, text));
            bool near = off >= -180 && off <= 180;
            assert_int_equal(
                first ? at_local(log, second, text) : computed(log + 1, second + off, text), near);
        }
    }
}

static void a_computed_clock_is_of_the_zone_that_a_log_states(void **state)
{
    assert_false(in_seoul(1, 1795962611, "Lustre: a"));
    assert_true(computed(2, 1795962611 + 9 * 3600 + 20, "Lustre: a"));
    assert_false(computed(2, 1795962621, "Lustre: b"));
    assert_false(in_seoul(1, 1795962621, "Lustre: b"));
    assert_false(computed(2, 1795963611 + 9 * 3600, "Lustre: c"));
    assert_true(in_seoul(1, 1795963611, "Lustre: c"));
}

/* As over months: slowly, until it is right when it is printed; and once by what a clock is set. */
static void what_a_computed_clock_is_off_by_changes(void **state)
{
    static const int off[] = {500, 500, 470, 440, 400, 350, 300, 250, 200, 150, 100, 50, 20, 0, 0};
    unsigned twice = 0;
    for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++) {
        char text[32];
        snprintf(text, sizeof(text), "Lustre: %zu", i);
        assert_false(at_local(1, 1795000000 + (int64_t)i * 86400, text));
        twice += computed(2, 1795000000 + (int64_t)i * 86400 - off[i], text);
    }
    assert_int_equal(twice, 14); /* the first is too far off, until the second agrees */
}

static bool say(unsigned clock, rg_source_id source, int64_t second, const char *text)
{
    static int64_t usec; /* no two lines of a ring are of the same */
    usec = (usec + 1) % 1000000;
    return clock == 0   ? at_boot(source, second * 1000000 + usec, text)
           : clock == 1 ? computed(source, second, text)
           : clock == 2 ? at_local(source, second, text)
           : clock == 3 ? in_seoul(source, second - 9 * 3600, text)
                        : at_utc(source, second - 9 * 3600, text);
}

/* A text that one file has n times and another m times was said as often as in the one that has it
 * more often: for each two clocks that are known to be near each other. */
static void of_two_files_the_one_that_says_more_counts(void **state)
{
    static const unsigned pairs[][2] = {{1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}, {2, 3},
                                        {3, 2}, {2, 4}, {4, 2}, {3, 4}, {1, 1}, {0, 1}};
    static const int spaces[] = {0, 1, 7, 30, 1000};
    rg_source_id source = 1;
    for (size_t pair = 0; pair < sizeof(pairs) / sizeof(*pairs); pair++) {
        for (unsigned n = 0; n <= 5; n++) {
            for (unsigned m = 0; m <= 5; m++) {
                for (size_t space = 0; space < sizeof(spaces) / sizeof(*spaces); space++) {
                    bool near = (pairs[pair][0] == 1) != (pairs[pair][1] == 1) && pairs[pair][0];
                    char text[64];
                    snprintf(text, sizeof(text), "Lustre: %zu %u %u %d", pair, n, m, spaces[space]);
                    unsigned count = 0;
                    for (unsigned i = 0; i < n; i++) {
                        count += !say(pairs[pair][0], source, 1795000000 + i * spaces[space], text);
                    }
                    for (unsigned i = 0; i < m; i++) {
                        count += !say(pairs[pair][1], source + 1,
                                      1795000000 + i * spaces[space] + near * 17, text);
                    }
                    assert_int_equal(count, n > m ? n : m);
                    source += 2;
                }
            }
        }
    }
}

/* Of a third file, too. */
static void of_three_files_the_one_that_says_most_counts(void **state)
{
    static const unsigned said[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 2, 2}, {1, 3, 2}, {0, 1, 4}};
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        for (unsigned order = 0; order < 6; order++) {
            static const unsigned orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
            char text[32];
            snprintf(text, sizeof(text), "Lustre: %zu %u", i, order);
            unsigned count = 0, most = 0;
            for (unsigned k = 0; k < 3; k++) {
                unsigned which = orders[order][k];
                for (unsigned j = 0; j < said[i][which]; j++) {
                    count += !say(1 + which, which + 1, 1795000000 + j, text);
                }
                most = said[i][which] > most ? said[i][which] : most;
            }
            assert_int_equal(count, most);
        }
    }
}

static bool in_journal(uint32_t boot, int64_t booted, int64_t usec, const char *text)
{
    struct rg_log_record record = {.node = 1,
                                   .source = 2,
                                   .boot = boot,
                                   .stamp = {.kind = RG_STAMP_UTC, .usec = booted * 1000000 + usec},
                                   .second = {.kind = RG_STAMP_BOOT, .usec = usec},
                                   .text = rg_span_text(text)};
    return rg_seen_before(seen, &record);
}

/* A ring, and a journal of its boot and of the one before, which went the same way. */
static void boots_that_say_the_same_are_others(void **state)
{
    static const char *const texts[] = {"Lustre: a", "Lustre: b", "Lustre: c", "Lustre: d"};
    for (int i = 0; i < 4; i++) {
        assert_false(at_boot(1, (100 + 10 * i) * INT64_C(1000000) + 77, texts[i]));
    }
    for (int i = 0; i < 4; i++) {
        assert_false(in_journal(1, 1795000000, (100 + 10 * i) * INT64_C(1000000) + 99, texts[i]));
    }
    for (int i = 0; i < 4; i++) {
        assert_true(in_journal(0, 1795900000, (100 + 10 * i) * INT64_C(1000000) + 77, texts[i]));
    }
}

/* A boot that has another number until something tells which it is: but for its first second, in
 * which every boot says the same. */
static void the_same_microsecond_of_a_boot_that_is_not_yet_known(void **state)
{
    assert_false(at_boot(1, 999999, "Linux version"));
    assert_false(at_boot(1, 1000000, "mlx5_core: Link down"));
    assert_false(in_journal(7, 1795000000, 999999, "Linux version"));
    assert_true(in_journal(7, 1795000000, 1000000, "mlx5_core: Link down"));
    /* If the journal has it of two boots, it was said by two. */
    assert_false(in_journal(8, 1795900000, 1000000, "mlx5_core: Link down"));
}

static void messages_and_then_the_ring(void **state)
{
    static const char *const texts[] = {"Lustre: a", "Lustre: b", "Lustre: c"};
    for (int i = 0; i < 3; i++) {
        assert_false(at_local(2, 5100 + 10 * i, texts[i]));
    }
    assert_false(at_boot(1, 100 * INT64_C(1000000) + 77, texts[0]));
    assert_true(at_boot(1, 110 * INT64_C(1000000) + 77, texts[1]));
    assert_true(at_boot(1, 120 * INT64_C(1000000) + 77, texts[2]));
}

/* The line of a ring at that second, and of messages at another. */
static bool said_by_both(int second, int apart)
{
    char text[32];
    snprintf(text, sizeof(text), "Lustre: at %d", second);
    assert_false(at_boot(1, second * INT64_C(1000000), text));
    return at_local(2, 5000 + second + apart, text);
}

static void clocks_may_be_off_by_two_seconds(void **state)
{
    assert_false(said_by_both(100, 0));
    assert_true(said_by_both(200, 0));
    assert_true(said_by_both(300, 2));
    assert_true(said_by_both(400, -2));
    assert_false(said_by_both(500, 3));
    assert_false(said_by_both(600, -3));
}

static void the_difference_of_most_lines_is_believed(void **state)
{
    assert_false(said_by_both(100, 0));
    assert_true(said_by_both(200, 0));
    assert_false(said_by_both(300, 1000)); /* a text that came twice */
    assert_true(said_by_both(400, 0));
    assert_false(said_by_both(500, 1000));
    assert_false(said_by_both(600, 1000));
    assert_false(said_by_both(700, 1000)); /* here the first difference is given up */
    assert_true(said_by_both(800, 1000));
    assert_true(said_by_both(900, 1000));
}

static void two_wall_clocks_say_nothing_of_a_ring(void **state)
{
    assert_false(at_local(1, 100, "Lustre: a"));
    assert_false(at_local(2, 5100, "Lustre: a"));
    assert_false(at_local(1, 200, "Lustre: b"));
    assert_false(at_local(2, 5200, "Lustre: b"));
    assert_false(at_local(2, 5300, "Lustre: b"));
}

static void messages_and_then_a_text_that_comes_often(void **state)
{
    assert_false(before(2, RG_STAMP_LOCAL, INT64_C(5100000000), true, "Lustre: a"));
    assert_false(before(2, RG_STAMP_LOCAL, INT64_C(5200000000), true, "Lustre: a"));
    assert_true(at_boot(1, 100000000, "Lustre: a"));
    assert_true(at_boot(1, 200000000, "Lustre: a"));
    assert_false(at_boot(1, 300000000, "Lustre: a"));
}

/* More than there are places for: what was learned of two is not believed of two others. */
static void each_two_sources_have_their_own_difference(void **state)
{
    for (unsigned i = 0; i < 1000; i++) {
        for (unsigned k = 0; k < 2; k++) {
            char text[32];
            snprintf(text, sizeof(text), "Lustre: %u %u", i, k);
            assert_false(at_boot(1, INT64_C(1000000) * (100 + k), text));
            assert_int_equal(at_local(2 + i, INT64_C(5000) * (1 + i) + k, text), k);
        }
    }
}

static void lines_without_a_stamp_are_never_the_same(void **state)
{
    for (rg_source_id source = 1; source < 4; source++) {
        assert_false(before(source, RG_STAMP_NONE, 0, false, "Lustre: a"));
    }
}

/* Other lines of one and the same source are other lines, whichever of its clocks they show. */
static void a_source_of_two_clocks(void **state)
{
    for (int i = 0; i < 4; i++) {
        char text[32];
        snprintf(text, sizeof(text), "Lustre: %d", i);
        assert_false(at_boot(1, (100 + i) * INT64_C(1000000), text));
        assert_false(at_local(1, 5100 + i, text));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_same_seconds_since_boot),
        TEST(other_nodes_and_boots_are_others),
        TEST(a_source_repeats_itself_rightly),
        TEST(zones_between_journal_and_messages),
        TEST(zones_are_within_fifteen_hours),
        TEST(periodic_lines_of_rotated_files_stay),
        TEST(ring_and_messages),
        TEST(ring_printed_twice),
        TEST(thousands_of_lines_are_remembered),
        TEST(the_latest_of_more_lines_than_fit_are_remembered),
        TEST(wall_clocks_of_one_kind_agree_to_the_second),
        TEST(wall_clocks_of_two_kinds_agree_to_the_second_but_for_the_zone),
        TEST(a_zone_that_no_line_states_is_not_guessed_for_a_computed_clock),
        TEST(a_computed_clock_is_near_the_wall_clock),
        TEST(a_computed_clock_is_of_the_zone_that_a_log_states),
        TEST(what_a_computed_clock_is_off_by_changes),
        TEST(of_two_files_the_one_that_says_more_counts),
        TEST(of_three_files_the_one_that_says_most_counts),
        TEST(boots_that_say_the_same_are_others),
        TEST(the_same_microsecond_of_a_boot_that_is_not_yet_known),
        TEST(messages_and_then_the_ring),
        TEST(clocks_may_be_off_by_two_seconds),
        TEST(the_difference_of_most_lines_is_believed),
        TEST(two_wall_clocks_say_nothing_of_a_ring),
        TEST(messages_and_then_a_text_that_comes_often),
        TEST(each_two_sources_have_their_own_difference),
        TEST(lines_without_a_stamp_are_never_the_same),
        TEST(a_source_of_two_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
