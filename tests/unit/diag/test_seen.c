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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_same_seconds_since_boot),
        TEST(other_nodes_and_boots_are_others),
        TEST(a_source_repeats_itself_rightly),
        TEST(zones_between_journal_and_messages),
        TEST(periodic_lines_of_rotated_files_stay),
        TEST(ring_and_messages),
        TEST(ring_printed_twice),
        TEST(thousands_of_lines_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
