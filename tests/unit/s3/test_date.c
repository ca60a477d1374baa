#include "base/attr.h"
#include "s3/date.h"

#include "test.h"

#define T0 1369353600LL /* 2013-05-24T00:00:00Z */

static void assert_amz(const char *text, int64_t expected)
{
    int64_t seconds;
    assert_true(rg_date_parse_amz(rg_span_text(text), &seconds));
    assert_int_equal(seconds, expected);
    char again[RG_DATE_AMZ_SIZE];
    rg_date_format_amz(seconds, again);
    assert_string_equal(again, text);
}

static void test_amz(void **state)
{
    assert_amz("20130524T000000Z", T0);
    assert_amz("19700101T000000Z", 0);
    assert_amz("19691231T235959Z", -1);
    assert_amz("20000229T120000Z", 951825600);
    assert_amz("00010101T000000Z", -62135596800LL);
    assert_amz("99991231T235959Z", 253402300799LL);
    assert_amz("20380119T031408Z", 2147483648LL);
}

static void test_amz_is_strict(void **state)
{
    static const char *const bad[] = {
        "",
        "20130524T000000",
        "20130524T000000ZZ",
        "20130524t000000Z",
        "20130524 000000Z",
        "2013-05-24T00:00:00Z",
        "20130024T000000Z",
        "20131324T000000Z",
        "20130500T000000Z",
        "20130532T000000Z",
        "20130431T000000Z",
        "20130229T000000Z",
        "19000229T000000Z",
        "20130524T240000Z",
        "20130524T006000Z",
        "20130524T000060Z",
        "00000524T000000Z",
        "+0130524T000000Z",
        "2013052\xc2T000000Z",
        " 20130524T000000Z",
        "20130524T000000+0",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        int64_t seconds = 42;
        assert_false(rg_date_parse_amz(rg_span_text(bad[i]), &seconds));
        assert_int_equal(seconds, 42);
    }
}

static void test_every_day_counts_once(void **state)
{
    /* Four centuries, day by day: the calendar never skips and never repeats. */
    char before[RG_DATE_AMZ_SIZE] = "";
    for (int64_t day = -146097; day <= 146097; day++) {
        char text[RG_DATE_AMZ_SIZE];
        int64_t seconds;
        rg_date_format_amz(day * 86400 + 86399, text);
        assert_true(rg_date_parse_amz(rg_span_text(text), &seconds));
        assert_int_equal(seconds, day * 86400 + 86399);
        assert_true(strcmp(before, text) < 0);
        memcpy(before, text, sizeof text);
    }
}

static void test_iso(void **state)
{
    struct timespec time;
    char text[RG_DATE_ISO_SIZE];
    assert_true(rg_date_parse_iso(rg_span_text("2026-11-29T16:40:01.000Z"), &time));
    assert_int_equal(time.tv_sec, 1795970401);
    assert_int_equal(time.tv_nsec, 0);
    assert_true(rg_date_parse_iso(rg_span_text("2026-11-29T16:40:01.123456789Z"), &time));
    assert_int_equal(time.tv_nsec, 123456789);
    rg_date_format_iso(time, text);
    assert_string_equal(text, "2026-11-29T16:40:01.123Z");
    assert_true(rg_date_parse_iso(rg_span_text("2026-11-29T16:40:01.5Z"), &time));
    assert_int_equal(time.tv_nsec, 500000000);
    assert_true(rg_date_parse_iso(rg_span_text("2026-11-29T16:40:01Z"), &time));
    assert_int_equal(time.tv_nsec, 0);
    static const char *const bad[] = {
        "2026-11-29T16:40:01.Z",     "2026-11-29T16:40:01.1234567890Z",
        "2026-11-29T16:40:01",       "2026-11-29 16:40:01Z",
        "2026-11-29T16:40:01+01:00", "2026-11-31T16:40:01Z",
        "2026-11-29T16:40:60Z",      "20261129T164001Z",
        "2026-11-29T16:40:01.12aZ",  "2026-11-29T16:40:01.1Z ",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        assert_false(rg_date_parse_iso(rg_span_text(bad[i]), &time));
    }
}

/* RFC 9110, section 5.6.7. */
static void test_http_forms(void **state)
{
    static const char *const forms[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",   "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 -0000",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(forms); i++) {
        int64_t seconds;
        assert_true(rg_date_parse_http(rg_span_text(forms[i]), T0, &seconds));
        assert_int_equal(seconds, 784111777);
        char text[RG_DATE_HTTP_SIZE];
        rg_date_format_http(seconds, text);
        assert_string_equal(text, forms[0]);
    }
}

static void test_http_is_strict(void **state)
{
    static const char *const bad[] = {
        "",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0100",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "06 Nov 1994 08:49:37 GMT",
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(bad); i++) {
        int64_t seconds;
        assert_false(rg_date_parse_http(rg_span_text(bad[i]), T0, &seconds));
    }
}

static int64_t parse_http(const char *text, const char *now)
{
    int64_t now_s;
    int64_t seconds;
    assert_true(rg_date_parse_amz(rg_span_text(now), &now_s));
    assert_true(rg_date_parse_http(rg_span_text(text), now_s, &seconds));
    return seconds;
}

static void test_two_digit_years(void **state)
{
    int64_t y1994 = 784111777;
    int64_t y2094 = 3939871777LL;
    assert_int_equal(parse_http("Sunday, 06-Nov-94 08:49:37 GMT", "20430101T000000Z"), y1994);
    assert_int_equal(parse_http("Sunday, 06-Nov-94 08:49:37 GMT", "20440101T000000Z"), y2094);
    assert_int_equal(parse_http("Sunday, 06-Nov-94 08:49:37 GMT", "20990101T000000Z"), y2094);
    /* From 1999 on, "49" is 2049. */
    assert_int_equal(parse_http("Sunday, 06-Nov-49 08:49:37 GMT", "19990101T000000Z"),
                     parse_http("Sat, 06 Nov 2049 08:49:37 GMT", "19990101T000000Z"));
    /* A leap day that exists in one century only. */
    int64_t seconds;
    assert_false(rg_date_parse_http(rg_span_text("Monday, 29-Feb-01 08:49:37 GMT"), T0, &seconds));
}

static void test_leap_second(void **state)
{
    assert_int_equal(parse_http("Sat, 31 Dec 2016 23:59:60 GMT", "20170101T000000Z"),
                     parse_http("Sun, 01 Jan 2017 00:00:00 GMT", "20170101T000000Z"));
}

static void test_wild_times_are_printed(void **state)
{
    char text[RG_DATE_ISO_SIZE];
    rg_date_format_iso((struct timespec){.tv_sec = INT64_MAX, .tv_nsec = 999999999}, text);
    assert_string_equal(text, "9999-12-31T23:59:59.000Z");
    rg_date_format_iso((struct timespec){.tv_sec = INT64_MIN}, text);
    assert_string_equal(text, "0001-01-01T00:00:00.000Z");
    rg_date_format_iso((struct timespec){.tv_sec = -1, .tv_nsec = 999999999}, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    rg_date_format_iso((struct timespec){.tv_sec = 0, .tv_nsec = -7}, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amz),
        cmocka_unit_test(test_amz_is_strict),
        cmocka_unit_test(test_every_day_counts_once),
        cmocka_unit_test(test_iso),
        cmocka_unit_test(test_http_forms),
        cmocka_unit_test(test_http_is_strict),
        cmocka_unit_test(test_two_digit_years),
        cmocka_unit_test(test_leap_second),
        cmocka_unit_test(test_wild_times_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
