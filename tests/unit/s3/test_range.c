/*
 * Ranges of GET, of UploadPartCopy, and parts as ranges.
 */
#include "test.h"

#include "base/attr.h"
#include "s3/range.h"

#include <stdlib.h>

#define REFUSED -1

static const struct {
    const char *text;
    uint64_t size;
    int64_t offset; /* REFUSED: RG_INVALID_RANGE */
    uint64_t length;
    bool partial;
} rows[] = {
    {"bytes=0-9", 100, 0, 10, true},
    {"bytes=0-0", 100, 0, 1, true},
    {"bytes=99-99", 100, 99, 1, true},
    {"bytes=90-200", 100, 90, 10, true},
    {"bytes=0-99", 100, 0, 100, true},
    {"bytes=10-", 100, 10, 90, true},
    {"bytes=-10", 100, 90, 10, true},
    {"bytes=-1000", 100, 0, 100, true},
    {"Bytes=0-9", 100, 0, 10, true},
    {" bytes=0-9 ", 100, 0, 10, true},
    {"bytes=0-18446744073709551615", 100, 0, 100, true},
    {"bytes=0-99999999999999999999999", 100, 0, 100, true},
    {"bytes=-99999999999999999999999", 100, 0, 100, true},
    {"bytes=9223372036854775806-", UINT64_C(9223372036854775807), INT64_C(9223372036854775806), 1,
     true},
    /* Not satisfiable. */
    {"bytes=100-", 100, REFUSED, 0, false},
    {"bytes=100-200", 100, REFUSED, 0, false},
    {"bytes=99999999999999999999999-", 100, REFUSED, 0, false},
    {"bytes=-0", 100, REFUSED, 0, false},
    {"bytes=0-", 0, REFUSED, 0, false},
    {"bytes=0-0", 0, REFUSED, 0, false},
    {"bytes=-5", 0, REFUSED, 0, false},
    /* Ignored. */
    {"", 100, 0, 100, false},
    {"bytes", 100, 0, 100, false},
    {"bytes=", 100, 0, 100, false},
    {"bytes=-", 100, 0, 100, false},
    {"bytes=5", 100, 0, 100, false},
    {"bytes=9-5", 100, 0, 100, false},
    {"bytes=a-b", 100, 0, 100, false},
    {"bytes=0-1,3-4", 100, 0, 100, false},
    {"bytes=0-1, -4", 100, 0, 100, false},
    {"bytes=--5", 100, 0, 100, false},
    {"bytes=+1-5", 100, 0, 100, false},
    {"bytes=1-5x", 100, 0, 100, false},
    {"bytes=99999999999999999999999x-", 100, 0, 100, false},
    {"items=0-9", 100, 0, 100, false},
    {"0-9", 100, 0, 100, false},
    {"bytes:0-9", 100, 0, 100, false},
    {"bytes=", 0, 0, 0, false},
};

static void table(void **state)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(rows); i++) {
        struct rg_range range = {77, 77, false};
        struct rg_error err = RG_ERROR_INIT;
        int rc = rg_range_parse(rg_span_text(rows[i].text), rows[i].size, &range, &err);
        if (rows[i].offset == REFUSED) {
            assert_int_equal(rc, -RG_INVALID_RANGE);
            assert_int_equal(range.offset, 77);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(range.offset, rows[i].offset);
        assert_int_equal(range.length, rows[i].length);
        assert_int_equal(range.partial, rows[i].partial);
    }
    struct rg_range range;
    assert_int_equal(rg_range_parse(rg_span(NULL, 0), 5, &range, NULL), 0);
    assert_int_equal(range.length, 5);
    assert_false(range.partial);
}

static void copy_source(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
        int rc;
    } strict[] = {
        {"bytes=0-9", 10, 0},
        {"bytes=9-9", 10, 0},
        {"bytes=0-10", 10, -RG_INVALID_RANGE},
        {"bytes=0-0", 0, -RG_INVALID_RANGE},
        {"bytes=10-11", 10, -RG_INVALID_RANGE},
        {"bytes=0-", 10, -RG_INVALID_ARGUMENT},
        {"bytes=-5", 10, -RG_INVALID_ARGUMENT},
        {"bytes=5-4", 10, -RG_INVALID_ARGUMENT},
        {"bytes=0-1,2-3", 10, -RG_INVALID_ARGUMENT},
        {"0-9", 10, -RG_INVALID_ARGUMENT},
        {"", 10, -RG_INVALID_ARGUMENT},
        {"bytes=a-b", 10, -RG_INVALID_ARGUMENT},
        {"bytes=0-18446744073709551616", 10, -RG_INVALID_RANGE},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(strict); i++) {
        struct rg_range range;
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(
            rg_range_copy_source(rg_span_text(strict[i].text), strict[i].size, &range, &err),
            strict[i].rc);
    }
    struct rg_range range;
    assert_int_equal(rg_range_copy_source(RG_SPAN_LITERAL("bytes=2-5"), 10, &range, NULL), 0);
    assert_int_equal(range.offset, 2);
    assert_int_equal(range.length, 4);
}

static void parts(void **state)
{
    const struct rg_part table_of[] = {{.size = 5}, {.size = 0}, {.size = 7}};
    struct rg_range range;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_range_of_part(table_of, 3, 12, 1, &range, &err), 0);
    assert_int_equal(range.offset, 0);
    assert_int_equal(range.length, 5);
    assert_true(range.partial);
    assert_int_equal(rg_range_of_part(table_of, 3, 12, 2, &range, &err), 0);
    assert_int_equal(range.offset, 5);
    assert_int_equal(range.length, 0);
    assert_false(range.partial);
    assert_int_equal(rg_range_of_part(table_of, 3, 12, 3, &range, &err), 0);
    assert_int_equal(range.offset, 5);
    assert_int_equal(range.length, 7);
    assert_int_equal(rg_range_of_part(table_of, 3, 12, 4, &range, &err), -RG_INVALID_PART_NUMBER);
    assert_int_equal(rg_range_of_part(table_of, 3, 12, 0, &range, &err), -RG_INVALID_PART_NUMBER);
    assert_int_equal(rg_range_of_part(table_of, 3, 13, 1, &range, &err), -RG_INTERNAL_ERROR);

    assert_int_equal(rg_range_of_part(NULL, 0, 12, 1, &range, &err), 0);
    assert_int_equal(range.length, 12);
    assert_true(range.partial);
    assert_int_equal(rg_range_of_part(NULL, 0, 12, 2, &range, &err), -RG_INVALID_PART_NUMBER);
    assert_int_equal(rg_range_of_part(NULL, 0, 0, 1, &range, &err), 0);
    assert_false(range.partial);

    const struct rg_part huge[] = {{.size = UINT64_MAX}, {.size = 2}};
    assert_int_equal(rg_range_of_part(huge, 2, 1, 1, &range, &err), -RG_INTERNAL_ERROR);
}

static void part_numbers(void **state)
{
    uint32_t number = 0;
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_part_number_parse(RG_SPAN_LITERAL("1"), 10000, &number, &err), 0);
    assert_int_equal(number, 1);
    assert_int_equal(rg_part_number_parse(RG_SPAN_LITERAL("10000"), 10000, &number, &err), 0);
    assert_int_equal(number, 10000);
    static const char *const bad[] = {"", "0", "-1", "10001", "1.5", "x", " 1", "4294967297"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_int_equal(rg_part_number_parse(rg_span_text(bad[i]), 10000, &number, &err),
                         -RG_INVALID_ARGUMENT);
    }
    assert_string_equal(err.message,
                        "Part number must be an integer between 1 and 10000, inclusive");
}

static void printed(void **state)
{
    char text[RG_CONTENT_RANGE_SIZE];
    const struct rg_range range = {5, 10, true};
    rg_range_format(&range, 100, text);
    assert_string_equal(text, "bytes 5-14/100");
    const struct rg_range last = {UINT64_MAX - 1, 1, true};
    rg_range_format(&last, UINT64_MAX, text);
    assert_string_equal(text,
                        "bytes 18446744073709551614-18446744073709551614/18446744073709551615");
    rg_range_format_refused(100, text);
    assert_string_equal(text, "bytes */100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),        cmocka_unit_test(copy_source), cmocka_unit_test(parts),
        cmocka_unit_test(part_numbers), cmocka_unit_test(printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
