/*
 * Readers of stamps. They run on every line of every log, so they look at each byte once and call
 * nothing that knows of locales.
 */
#include "diag/stamp.h"

#include "base/attr.h"

#define USEC ((int64_t)RG_USEC_PER_SEC)
#define DAY  ((int64_t)RG_SEC_PER_DAY)

/* Where a reader stands. Reading past the end gives NUL, which no stamp has. */
struct cursor {
    const char *at;
    const char *end;
};

static char peek(const struct cursor *cursor)
{
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

static bool take(struct cursor *cursor, char c)
{
    if (peek(cursor) != c) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Between `least` and `most` digits, and as many as there are. */
static bool take_number(struct cursor *cursor, int least, int most, int64_t *ret_value)
{
    int64_t value = 0;
    int count = 0;
    while (count < most && is_digit(peek(cursor))) {
        value = value * 10 + (*cursor->at++ - '0');
        count++;
    }
    *ret_value = value;
    return count >= least && !is_digit(peek(cursor));
}

static bool take_digits(struct cursor *cursor, int count, int64_t *ret_value)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit(peek(cursor))) {
            return false;
        }
        value = value * 10 + (*cursor->at++ - '0');
    }
    *ret_value = value;
    return true;
}

/* A fraction of one to nine digits (more are dropped), in microseconds. */
static bool take_fraction(struct cursor *cursor, int64_t *ret_usec)
{
    int64_t usec = 0;
    int count = 0;
    while (is_digit(peek(cursor))) {
        if (count < 6) {
            usec = usec * 10 + (*cursor->at - '0');
        }
        cursor->at++;
        count++;
    }
    for (int i = count; i < 6; i++) {
        usec *= 10;
    }
    *ret_usec = usec;
    return count > 0;
}

/* Algorithm of the proleptic Gregorian calendar by eras of 400 years from March 1 on. */
int64_t rg_days_from_date(int year, int month, int day)
{
    int64_t y = month <= 2 ? (int64_t)year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

void rg_date_from_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    *ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = (int)(year_of_era + era * 400 + (*ret_month <= 2));
}

static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int rg_stamp_year(int64_t usec)
{
    int year, month, day;
    rg_date_from_days(divide_down(usec, DAY * USEC), &year, &month, &day);
    return year;
}

int64_t rg_stamp_set_year(int64_t usec, int year)
{
    int64_t days = divide_down(usec, DAY * USEC);
    int64_t rest = usec - days * DAY * USEC;
    int old_year, month, day;
    rg_date_from_days(days, &old_year, &month, &day);
    return rg_days_from_date(year, month, day) * DAY * USEC + rest;
}

/* The caller field that CONFIG_PRINTK_CALLER adds: "[ T1645]", "[    C2]". */
static void skip_caller(struct cursor *cursor)
{
    struct cursor ahead = *cursor;
    if (!take(&ahead, '[')) {
        return;
    }
    while (take(&ahead, ' ')) {
    }
    int64_t number;
    if ((take(&ahead, 'T') || take(&ahead, 'C')) && take_number(&ahead, 1, 10, &number) &&
        take(&ahead, ']')) {
        *cursor = ahead;
    }
}

static size_t finish(struct cursor *cursor, struct span text)
{
    take(cursor, ' ');
    return (size_t)(cursor->at - text.ptr);
}

/* "[ddddd.dddddd] ", up to twelve bytes of seconds padded with spaces, as the kernel prints it: the
 * bytes are there, so none is looked for beyond the end. 0: it is something else. */
static size_t read_usual_boot(struct span text, struct rg_stamp *ret_stamp)
{
    if (text.len < 24 || text.ptr[0] != '[') {
        return 0;
    }
    const char *at = text.ptr + 1;
    while (*at == ' ' && at < text.ptr + 12) {
        at++;
    }
    const char *number = at;
    int64_t seconds = 0;
    while (is_digit(*at) && at < text.ptr + 12) {
        seconds = seconds * 10 + (*at++ - '0');
    }
    if (at == number || *at != '.') {
        return 0;
    }
    int64_t usec = 0;
    for (int i = 0; i < 6; i++) {
        if (!is_digit(*++at)) {
            return 0;
        }
        usec = usec * 10 + (*at - '0');
    }
    if (at[1] != ']' || at[2] != ' ') {
        return 0;
    }
    *ret_stamp = (struct rg_stamp){.kind = RG_STAMP_BOOT, .usec = seconds * USEC + usec};
    return (size_t)(at + 3 - text.ptr);
}

size_t rg_stamp_read_boot(struct span text, struct rg_stamp *ret_stamp)
{
    size_t taken = read_usual_boot(text, ret_stamp);
    if (taken > 0) {
        return taken;
    }
    struct cursor cursor = {text.ptr, text.ptr + text.len};
    int64_t seconds, usec;
    if (!take(&cursor, '[')) {
        return 0;
    }
    while (take(&cursor, ' ')) {
    }
    if (!take_number(&cursor, 1, 11, &seconds) || !take(&cursor, '.') ||
        !take_fraction(&cursor, &usec) || !take(&cursor, ']')) {
        return 0;
    }
    skip_caller(&cursor);
    *ret_stamp = (struct rg_stamp){.kind = RG_STAMP_BOOT, .usec = seconds * USEC + usec};
    return finish(&cursor, text);
}

static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char weekday_names[] = "SunMonTueWedThuFriSat";

/* 1 to 12, or 0. */
static int take_month(struct cursor *cursor)
{
    if (cursor->end - cursor->at < 3) {
        return 0;
    }
    for (int i = 0; i < 12; i++) {
        if (memcmp(month_names + (ptrdiff_t)3 * i, cursor->at, 3) == 0) {
            cursor->at += 3;
            return i + 1;
        }
    }
    return 0;
}

static bool take_weekday(struct cursor *cursor)
{
    if (cursor->end - cursor->at < 3) {
        return false;
    }
    for (int i = 0; i < 7; i++) {
        if (memcmp(weekday_names + (ptrdiff_t)3 * i, cursor->at, 3) == 0) {
            cursor->at += 3;
            return true;
        }
    }
    return false;
}

/* hh:mm:ss; second 60 is a leap second. */
static bool take_time(struct cursor *cursor, int64_t *ret_seconds)
{
    int64_t hours, minutes, seconds;
    if (!take_digits(cursor, 2, &hours) || !take(cursor, ':') ||
        !take_digits(cursor, 2, &minutes) || !take(cursor, ':') ||
        !take_digits(cursor, 2, &seconds) || hours > 23 || minutes > 59 || seconds > 60) {
        return false;
    }
    *ret_seconds = (hours * 60 + minutes) * 60 + seconds;
    return true;
}

/* One digit may stand behind a second space. */
static bool take_day(struct cursor *cursor, int64_t *ret_day)
{
    take(cursor, ' ');
    return take_number(cursor, 1, 2, ret_day) && *ret_day >= 1 && *ret_day <= 31;
}

/* "11월", " 1월", "11月": locales that number their months. */
static int take_numbered_month(struct cursor *cursor)
{
    int64_t month;
    take(cursor, ' ');
    if (!take_number(cursor, 1, 2, &month) || month < 1 || month > 12 ||
        cursor->end - cursor->at < 3 ||
        (memcmp(cursor->at, "\xec\x9b\x94", 3) != 0 &&
         memcmp(cursor->at, "\xe6\x9c\x88", 3) != 0)) {
        return 0;
    }
    cursor->at += 3;
    return (int)month;
}

/* A weekday of one character of three bytes in UTF-8, as those locales have. */
static bool take_foreign_weekday(struct cursor *cursor)
{
    if (cursor->end - cursor->at < 3 || ((unsigned char)cursor->at[0] & 0xf0) != 0xe0) {
        return false;
    }
    cursor->at += 3;
    return true;
}

size_t rg_stamp_read_ctime(struct span text, struct rg_stamp *ret_stamp)
{
    struct cursor cursor = {text.ptr, text.ptr + text.len};
    if (!take(&cursor, '[')) {
        return 0;
    }
    bool foreign = !take_weekday(&cursor);
    if ((foreign && !take_foreign_weekday(&cursor)) || !take(&cursor, ' ')) {
        return 0;
    }
    int month = foreign ? take_numbered_month(&cursor) : take_month(&cursor);
    int64_t day, seconds, year;
    if (month == 0 || !take(&cursor, ' ') || !take_day(&cursor, &day) || !take(&cursor, ' ') ||
        !take_time(&cursor, &seconds) || !take(&cursor, ' ') || !take_digits(&cursor, 4, &year) ||
        !take(&cursor, ']')) {
        return 0;
    }
    skip_caller(&cursor);
    *ret_stamp = (struct rg_stamp){
        .kind = RG_STAMP_LOCAL,
        .usec = (rg_days_from_date((int)year, month, (int)day) * DAY + seconds) * USEC,
        .computed = true};
    return finish(&cursor, text);
}

/* Z, +hh, +hhmm, +hh:mm or " UTC"; *ret_east in seconds. False: none there. */
static bool take_zone(struct cursor *cursor, int64_t *ret_east)
{
    *ret_east = 0;
    if (take(cursor, 'Z')) {
        return true;
    }
    if (cursor->end - cursor->at >= 4 && memcmp(cursor->at, " UTC", 4) == 0) {
        cursor->at += 4;
        return true;
    }
    char sign = peek(cursor);
    struct cursor ahead = *cursor;
    ahead.at += ahead.at < ahead.end;
    int64_t hours, minutes = 0;
    if ((sign != '+' && sign != '-') || !take_digits(&ahead, 2, &hours) || hours > 18) {
        return false;
    }
    struct cursor behind_hours = ahead;
    take(&ahead, ':');
    if (!take_digits(&ahead, 2, &minutes) || minutes > 59) {
        ahead = behind_hours;
        minutes = 0;
    }
    *cursor = ahead;
    *ret_east = (hours * 60 + minutes) * 60 * (sign == '-' ? -1 : 1);
    return true;
}

size_t rg_stamp_read_iso(struct span text, struct rg_stamp *ret_stamp)
{
    struct cursor cursor = {text.ptr, text.ptr + text.len};
    int64_t year, month, day, seconds, usec = 0, east;
    if (!take_digits(&cursor, 4, &year) || !take(&cursor, '-') ||
        !take_digits(&cursor, 2, &month) || !take(&cursor, '-') || !take_digits(&cursor, 2, &day) ||
        month < 1 || month > 12 || day < 1 || day > 31 ||
        !(take(&cursor, 'T') || take(&cursor, ' ')) || !take_time(&cursor, &seconds)) {
        return 0;
    }
    bool comma = peek(&cursor) == ',';
    if (comma || peek(&cursor) == '.') {
        cursor.at++;
        if (!take_fraction(&cursor, &usec)) {
            return 0;
        }
    }
    bool zoned = take_zone(&cursor, &east);
    char next = peek(&cursor);
    if (next != ' ' && next != '\0' && next != '\t' && next != ':' && next != '"') {
        return 0;
    }
    *ret_stamp = (struct rg_stamp){
        .kind = zoned ? RG_STAMP_UTC : RG_STAMP_LOCAL,
        .usec = (rg_days_from_date((int)year, (int)month, (int)day) * DAY + seconds - east) * USEC +
                usec,
        .computed = comma,
        .zoned = zoned,
        .east_min = (int16_t)(east / 60)};
    return finish(&cursor, text);
}

size_t rg_stamp_read_bsd(struct span text, struct rg_stamp *ret_stamp)
{
    struct cursor cursor = {text.ptr, text.ptr + text.len};
    int month = take_month(&cursor);
    int64_t day, seconds, usec = 0, year = 1972;
    if (month == 0 || !take(&cursor, ' ') || !take_day(&cursor, &day) || !take(&cursor, ' ')) {
        return 0;
    }
    struct cursor before_year = cursor;
    bool has_year = take_digits(&cursor, 4, &year) && take(&cursor, ' ');
    if (!has_year) {
        cursor = before_year;
        year = 1972;
    }
    if (!take_time(&cursor, &seconds)) {
        return 0;
    }
    if (take(&cursor, '.') && !take_fraction(&cursor, &usec)) {
        return 0;
    }
    if (peek(&cursor) != ' ' && peek(&cursor) != '\0') {
        return 0;
    }
    *ret_stamp = (struct rg_stamp){
        .kind = RG_STAMP_LOCAL,
        .usec = (rg_days_from_date((int)year, month, (int)day) * DAY + seconds) * USEC + usec,
        .year_guessed = !has_year};
    return finish(&cursor, text);
}

size_t rg_stamp_read_epoch(struct span text, struct rg_stamp *ret_stamp)
{
    struct cursor cursor = {text.ptr, text.ptr + text.len};
    int64_t seconds, usec;
    if (!take_number(&cursor, 9, 10, &seconds) || !take(&cursor, '.') ||
        !take_fraction(&cursor, &usec) || seconds < 946684800 || seconds >= 4102444800) {
        return 0;
    }
    *ret_stamp = (struct rg_stamp){.kind = RG_STAMP_UTC, .usec = seconds * USEC + usec};
    return finish(&cursor, text);
}
