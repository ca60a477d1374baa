/*
 * Dates, from and to text. Days are counted with the proleptic Gregorian calendar in 400-year eras
 * that begin on 1 March, so that the leap day is the last of a year.
 */
#include "s3/date.h"

#include "base/attr.h"

#include <string.h>

#define SECONDS_MIN (-62135596800LL) /* 0001-01-01T00:00:00Z */
#define SECONDS_MAX 253402300799LL   /* 9999-12-31T23:59:59Z */

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const long_day_names[7] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct fields {
    int year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
    int hour;
    int minute;
    int second;
    int weekday; /* 0 is Sunday */
};

static bool is_leap_year(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in_month(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap_year(year) ? 29 : days[month - 1];
}

/* Days since 1970-01-01. */
static int64_t days_from_civil(int year, int month, int day)
{
    int64_t shifted = month <= 2 ? year - 1 : year;
    int64_t era = (shifted >= 0 ? shifted : shifted - 399) / 400;
    int64_t year_of_era = shifted - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int64_t clamp(int64_t seconds)
{
    return seconds < SECONDS_MIN ? SECONDS_MIN : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
}

static struct fields fields_of(int64_t seconds)
{
    int64_t days = seconds / 86400;
    int64_t rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_index = (5 * day_of_year + 2) / 153; /* 0 is March */
    int64_t month = month_index < 10 ? month_index + 3 : month_index - 9;
    return (struct fields){
        .year = (int)(year_of_era + era * 400 + (month <= 2)),
        .month = (int)month,
        .day = (int)(day_of_year - (153 * month_index + 2) / 5 + 1),
        .hour = (int)(rest / 3600),
        .minute = (int)(rest / 60 % 60),
        .second = (int)(rest % 60),
        .weekday = (int)(((days + 4) % 7 + 7) % 7),
    };
}

/* `second_max` is 60 where a leap second may stand. */
static bool seconds_of(const struct fields *f, int second_max, int64_t *ret_seconds)
{
    if (f->year < 1 || f->year > 9999 || f->month < 1 || f->month > 12 || f->day < 1 ||
        f->day > days_in_month(f->year, f->month) || f->hour > 23 || f->minute > 59 ||
        f->second > second_max) {
        return false;
    }
    *ret_seconds = days_from_civil(f->year, f->month, f->day) * 86400 + f->hour * 3600 +
                   f->minute * 60 + f->second;
    return true;
}

/*
 * Takes fixed text apart: each step eats from the front of *rest. Once a step failed, `ok` stays
 * false and the later ones do nothing.
 */
struct scan {
    struct span rest;
    bool ok;
};

static int digits(struct scan *scan, size_t count)
{
    int value = 0;
    if (scan->rest.len < count) {
        scan->ok = false;
    }
    for (size_t i = 0; scan->ok && i < count; i++) {
        char c = scan->rest.ptr[i];
        scan->ok = c >= '0' && c <= '9';
        value = value * 10 + (c - '0');
    }
    if (!scan->ok) {
        return -1;
    }
    scan->rest = rg_span_skip(scan->rest, count);
    return value;
}

static void literal(struct scan *scan, const char *text)
{
    struct span want = rg_span_text(text);
    if (scan->ok && rg_span_starts(scan->rest, want)) {
        scan->rest = rg_span_skip(scan->rest, want.len);
    } else {
        scan->ok = false;
    }
}

/* The index of the three-letter name at the front. */
static int short_name(struct scan *scan, const char names[][4], int count)
{
    for (int i = 0; scan->ok && i < count; i++) {
        if (rg_span_starts(scan->rest, rg_span(names[i], 3))) {
            scan->rest = rg_span_skip(scan->rest, 3);
            return i;
        }
    }
    scan->ok = false;
    return -1;
}

static void clock_fields(struct scan *scan, const char *colon, struct fields *f)
{
    f->hour = digits(scan, 2);
    literal(scan, colon);
    f->minute = digits(scan, 2);
    literal(scan, colon);
    f->second = digits(scan, 2);
}

static bool at_end(const struct scan *scan)
{
    return scan->ok && scan->rest.len == 0;
}

bool rg_date_parse_amz(struct span text, int64_t *ret_seconds)
{
    struct scan scan = {text, true};
    struct fields f = {0};
    f.year = digits(&scan, 4);
    f.month = digits(&scan, 2);
    f.day = digits(&scan, 2);
    literal(&scan, "T");
    clock_fields(&scan, "", &f);
    literal(&scan, "Z");
    return at_end(&scan) && seconds_of(&f, 59, ret_seconds);
}

/* An optional ".123", as nanoseconds. */
static long fraction(struct scan *scan)
{
    if (!scan->ok || !scan->rest.len || scan->rest.ptr[0] != '.') {
        return 0;
    }
    literal(scan, ".");
    long value = 0;
    int count = 0;
    while (scan->rest.len && scan->rest.ptr[0] >= '0' && scan->rest.ptr[0] <= '9' && count < 9) {
        value = value * 10 + digits(scan, 1);
        count++;
    }
    scan->ok = scan->ok && count > 0;
    for (; count < 9; count++) {
        value *= 10;
    }
    return value;
}

bool rg_date_parse_iso(struct span text, struct timespec *ret_time)
{
    struct scan scan = {text, true};
    struct fields f = {0};
    f.year = digits(&scan, 4);
    literal(&scan, "-");
    f.month = digits(&scan, 2);
    literal(&scan, "-");
    f.day = digits(&scan, 2);
    literal(&scan, "T");
    clock_fields(&scan, ":", &f);
    long nanoseconds = fraction(&scan);
    literal(&scan, "Z");
    int64_t seconds;
    if (!at_end(&scan) || !seconds_of(&f, 59, &seconds)) {
        return false;
    }
    *ret_time = (struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds};
    return true;
}

/* botocore, among others, writes the zone as mail does. */
static void zone(struct scan *scan)
{
    static const char *const spellings[] = {" +0000", " -0000"};
    for (size_t i = 0; scan->ok && i < RG_ARRAY_LENGTH(spellings); i++) {
        if (rg_span_is(scan->rest, spellings[i])) {
            literal(scan, spellings[i]);
            return;
        }
    }
    literal(scan, " GMT");
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool parse_imf(struct span text, int64_t *ret_seconds)
{
    struct scan scan = {text, true};
    struct fields f = {0};
    short_name(&scan, day_names, 7);
    literal(&scan, ", ");
    f.day = digits(&scan, 2);
    literal(&scan, " ");
    f.month = short_name(&scan, month_names, 12) + 1;
    literal(&scan, " ");
    f.year = digits(&scan, 4);
    literal(&scan, " ");
    clock_fields(&scan, ":", &f);
    zone(&scan);
    return at_end(&scan) && seconds_of(&f, 60, ret_seconds);
}

/* Two digits name the year at most 50 years after `now`, and the latest such year. */
static int full_year(int two_digits, int64_t now_seconds)
{
    int year_now = fields_of(clamp(now_seconds)).year;
    int year = year_now - year_now % 100 + two_digits;
    if (year > year_now + 50) {
        return year - 100;
    }
    return year + 100 <= year_now + 50 ? year + 100 : year;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT" */
static bool parse_rfc850(struct span text, int64_t now_seconds, int64_t *ret_seconds)
{
    struct scan scan = {text, true};
    struct fields f = {0};
    struct span rest = text;
    struct span day_name = rg_span_cut(&rest, ',');
    bool known = false;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(long_day_names); i++) {
        known = known || rg_span_is(day_name, long_day_names[i]);
    }
    scan.ok = known;
    scan.rest = rg_span_skip(text, day_name.len);
    literal(&scan, ", ");
    f.day = digits(&scan, 2);
    literal(&scan, "-");
    f.month = short_name(&scan, month_names, 12) + 1;
    literal(&scan, "-");
    int two_digits = digits(&scan, 2);
    literal(&scan, " ");
    clock_fields(&scan, ":", &f);
    literal(&scan, " GMT");
    if (!at_end(&scan)) {
        return false;
    }
    f.year = full_year(two_digits, now_seconds);
    return seconds_of(&f, 60, ret_seconds);
}

/* "Sun Nov  6 08:49:37 1994" */
static bool parse_asctime(struct span text, int64_t *ret_seconds)
{
    struct scan scan = {text, true};
    struct fields f = {0};
    short_name(&scan, day_names, 7);
    literal(&scan, " ");
    f.month = short_name(&scan, month_names, 12) + 1;
    literal(&scan, " ");
    if (scan.ok && scan.rest.len && scan.rest.ptr[0] == ' ') {
        literal(&scan, " ");
        f.day = digits(&scan, 1);
    } else {
        f.day = digits(&scan, 2);
    }
    literal(&scan, " ");
    clock_fields(&scan, ":", &f);
    literal(&scan, " ");
    f.year = digits(&scan, 4);
    return at_end(&scan) && seconds_of(&f, 60, ret_seconds);
}

bool rg_date_parse_http(struct span text, int64_t now_seconds, int64_t *ret_seconds)
{
    return parse_imf(text, ret_seconds) || parse_rfc850(text, now_seconds, ret_seconds) ||
           parse_asctime(text, ret_seconds);
}

/* `count` decimal digits of a number that has no more; snprintf would cost a listing dearly. */
static char *put(char *at, int value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        at[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return at + count;
}

static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len + 1);
    return at + len;
}

void rg_date_format_amz(int64_t seconds, char text[RG_DATE_AMZ_SIZE])
{
    struct fields f = fields_of(clamp(seconds));
    char *at = put(text, f.year, 4);
    at = put(at, f.month, 2);
    at = put(at, f.day, 2);
    at = put_text(at, "T");
    at = put(at, f.hour, 2);
    at = put(at, f.minute, 2);
    at = put(at, f.second, 2);
    put_text(at, "Z");
}

static char *put_clock(char *at, const struct fields *f)
{
    at = put(at, f->hour, 2);
    at = put_text(at, ":");
    at = put(at, f->minute, 2);
    at = put_text(at, ":");
    return put(at, f->second, 2);
}

void rg_date_format_iso(struct timespec time, char text[RG_DATE_ISO_SIZE])
{
    int64_t seconds = clamp(time.tv_sec);
    bool wild_nanoseconds = time.tv_nsec < 0 || time.tv_nsec > 999999999;
    int ms = seconds != time.tv_sec || wild_nanoseconds ? 0 : (int)(time.tv_nsec / 1000000);
    struct fields f = fields_of(seconds);
    char *at = put(text, f.year, 4);
    at = put_text(at, "-");
    at = put(at, f.month, 2);
    at = put_text(at, "-");
    at = put(at, f.day, 2);
    at = put_text(at, "T");
    at = put_clock(at, &f);
    at = put_text(at, ".");
    at = put(at, ms, 3);
    put_text(at, "Z");
}

void rg_date_format_http(int64_t seconds, char text[RG_DATE_HTTP_SIZE])
{
    struct fields f = fields_of(clamp(seconds));
    char *at = put_text(text, day_names[f.weekday]);
    at = put_text(at, ", ");
    at = put(at, f.day, 2);
    at = put_text(at, " ");
    at = put_text(at, month_names[f.month - 1]);
    at = put_text(at, " ");
    at = put(at, f.year, 4);
    at = put_text(at, " ");
    at = put_clock(at, &f);
    put_text(at, " GMT");
}
