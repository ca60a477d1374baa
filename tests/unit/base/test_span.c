#include "base/span.h"

#include "test.h"

#include <stdlib.h>

static void test_compare_is_byte_order(void **state)
{
    assert_true(rg_span_compare(rg_span_text("a"), rg_span_text("b")) < 0);
    assert_true(rg_span_compare(rg_span_text("a"), rg_span_text("a/")) < 0);
    assert_true(rg_span_compare(rg_span_text("a-"), rg_span_text("a/")) < 0);
    assert_true(rg_span_compare(rg_span_text("\xff"), rg_span_text("z")) > 0);
    assert_int_equal(rg_span_compare(rg_span_text("a"), rg_span_text("a")), 0);
    assert_int_equal(rg_span_compare(RG_SPAN_EMPTY, RG_SPAN_EMPTY), 0);
}

static void test_cut_visits_every_field(void **state)
{
    struct span rest = rg_span_text("a,,b,");
    const char *want[] = {"a", "", "b", ""};
    size_t i = 0;
    while (rest.ptr) {
        assert_true(i < 4);
        assert_true(rg_span_is(rg_span_cut(&rest, ','), want[i++]));
    }
    assert_int_equal(i, 4);
}

static void test_trim(void **state)
{
    assert_true(rg_span_is(rg_span_trim(rg_span_text(" \t a b \t")), "a b"));
    assert_true(rg_span_is(rg_span_trim(rg_span_text("  ")), ""));
}

/* The vectors that FNV's authors publish. */
static void test_hash(void **state)
{
    assert_true(rg_span_hash(RG_SPAN_EMPTY) == UINT64_C(0xcbf29ce484222325));
    assert_true(rg_span_hash(rg_span_text("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(rg_span_hash(rg_span_text("foobar")) == UINT64_C(0x85944171f73967e8));
}

static void test_numbers(void **state)
{
    uint64_t value = 7;
    assert_true(rg_span_to_u64(rg_span_text("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    const char *bad[] = {"", "-1", "+1", " 1", "1 ", "18446744073709551616", "0x1", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(rg_span_to_u64(rg_span_text(bad[i]), &value));
    }
    assert_true(value == UINT64_MAX);
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"4K", 4096},
                {"4k", 4096},
                {"4KiB", 4096},
                {"64mib", UINT64_C(64) << 20},
                {"5G", UINT64_C(5) << 30},
                {"1T", UINT64_C(1) << 40},
                {"3P", UINT64_C(3) << 50},
                {"15E", UINT64_C(15) << 60}};
    static const char *const bad[] = {"",      "K",     "4KB", "4B",    "4 K", " 4K", "-4K", "1.5G",
                                      "4Kib4", "4KiBs", "4X",  "4\x0b", "16E", "4Ki", "4KK"};
    uint64_t bytes = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(rg_span_to_size(rg_span_text(bad[i]), &bytes));
    }
    assert_true(bytes == 7);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(rg_span_to_size(rg_span_text(good[i].text), &bytes));
        assert_true(bytes == good[i].bytes);
    }
}

static void test_utf8(void **state)
{
    const char *good[] = {
        "", "plain", "\xc3\xa9", "\xed\x95\x9c", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    const char *bad[] = {"\x80",         "\xc0\xaf",         "\xc3", "\xe0\x80\xaf",
                         "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(rg_span_is_utf8(rg_span_text(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(rg_span_is_utf8(rg_span_text(bad[i])));
    }
}

static void test_dup(void **state)
{
    char *copy = rg_span_dup(rg_span("abcd", 2));
    assert_string_equal(copy, "ab");
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_is_byte_order),
        cmocka_unit_test(test_cut_visits_every_field),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_dup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
