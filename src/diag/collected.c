/*
 * Word by word, as these programs print in the C locale, which sos sets.
 */
#include "diag/collected.h"

#include "base/attr.h"
#include "base/checked.h"

#include "diag/stamp.h"

#include <string.h>

#define USEC      INT64_C(1000000)
#define WORDS_MAX 16

static struct span first_line(struct span text)
{
    text = rg_span_trim(text);
    ptrdiff_t end = rg_span_find(text, '\n');
    return end < 0 ? text : rg_span_trim(rg_span_head(text, (size_t)end));
}

static size_t cut_words(struct span text, struct span *words)
{
    size_t count = 0;
    while (text.len > 0 && count < WORDS_MAX) {
        struct span word = rg_span_trim(rg_span_cut(&text, ' '));
        if (word.len > 0) {
            words[count++] = word;
        }
    }
    return count;
}

/* "23:30:11" or "3:44": seconds; -1: it is none. */
static int64_t read_clock(struct span word, bool *ret_seconds)
{
    uint64_t parts[3] = {0, 0, 0};
    size_t count = 0;
    while (word.ptr && count < 3) {
        struct span part = rg_span_cut(&word, ':');
        if (part.len == 0 || part.len > 3 || !rg_span_to_u64(part, &parts[count++])) {
            return -1;
        }
    }
    if (count < 2 || word.ptr || parts[1] > 59 || parts[2] > 60) {
        return -1;
    }
    *ret_seconds = count == 3;
    return (int64_t)(parts[0] * 3600 + parts[1] * 60 + parts[2]);
}

static int month_of(struct span word)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is(word, names[i])) {
            return (int)i + 1;
        }
    }
    return 0;
}

/* Names that mean one zone everywhere (CST and IST do not); "+09", "+0530". */
static bool read_zone(struct span word, int64_t *ret_east_s)
{
    static const struct {
        const char *name;
        int east_min;
    } zones[] = {{"UTC", 0},    {"GMT", 0},    {"KST", 540},  {"JST", 540},
                 {"CET", 60},   {"CEST", 120}, {"EST", -300}, {"EDT", -240},
                 {"CDT", -300}, {"MST", -420}, {"MDT", -360}, {"PST", -480},
                 {"PDT", -420}, {"MSK", 180},  {"AEST", 600}, {"AEDT", 660}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(zones); i++) {
        if (rg_span_is(word, zones[i].name)) {
            *ret_east_s = zones[i].east_min * 60;
            return true;
        }
    }
    uint64_t number;
    bool signed_number = word.len > 1 && (word.ptr[0] == '+' || word.ptr[0] == '-');
    if (!signed_number || (word.len != 3 && word.len != 5) ||
        !rg_span_to_u64(rg_span_skip(word, 1), &number)) {
        return false;
    }
    int64_t east =
        (int64_t)(word.len == 3 ? number * 3600 : number / 100 * 3600 + number % 100 * 60);
    *ret_east_s = word.ptr[0] == '-' ? -east : east;
    return east <= 14 * 3600;
}

bool rg_collected_read_date(struct span text, struct rg_collected *collected)
{
    struct span words[WORDS_MAX];
    size_t count = cut_words(first_line(text), words);
    int month = 0;
    uint64_t day = 0, year = 0;
    int64_t seconds = -1, east_s = 0;
    bool zone = false;
    for (size_t i = 0; i < count && i < 8; i++) {
        uint64_t number;
        bool whole = false;
        int64_t clock = read_clock(words[i], &whole);
        if (clock >= 0 && whole && seconds < 0) {
            seconds = clock;
        } else if (month_of(words[i]) && !month) {
            month = month_of(words[i]);
        } else if (rg_span_to_u64(words[i], &number) && words[i].len == 4 && !year) {
            year = number;
        } else if (rg_span_to_u64(words[i], &number) && words[i].len <= 2 && !day) {
            day = number;
        } else if (rg_span_is(words[i], "PM") && seconds >= 0 && seconds < 12 * 3600) {
            seconds += 12 * 3600;
        } else if (rg_span_is(words[i], "AM") && seconds >= 12 * 3600) {
            seconds -= 12 * 3600;
        } else if (!zone) {
            zone = read_zone(words[i], &east_s);
        }
    }
    if (!month || day < 1 || day > 31 || year < 2000 || year > 2100 || seconds < 0 ||
        seconds > 86400) {
        return false;
    }
    int64_t local = (rg_days_from_date((int)year, month, (int)day) * 86400 + seconds) * USEC;
    if (zone && !collected->has_utc) {
        collected->has_utc = true;
        collected->utc_usec = local - east_s * USEC;
    }
    /* `date --utc` beside `date`: only what is elsewhere than UTC tells the zone. */
    if (!collected->has_local || !zone || east_s != 0) {
        collected->has_local = true;
        collected->local_usec = local;
    }
    return true;
}

bool rg_collected_read_uptime(struct span text, struct rg_collected *collected)
{
    struct span words[WORDS_MAX];
    size_t count = cut_words(first_line(text), words);
    bool whole = false;
    int64_t clock = count > 2 ? read_clock(words[0], &whole) : -1;
    if (clock < 0 || clock > 86400 || !whole || !rg_span_is(words[1], "up")) {
        return false;
    }
    int64_t up = -1;
    for (size_t i = 2; i < count && i < 8; i++) {
        struct span word = words[i];
        word.len -= word.len > 0 && word.ptr[word.len - 1] == ',';
        struct span unit = i + 1 < count ? words[i + 1] : RG_SPAN_EMPTY;
        bool seconds;
        int64_t hours = read_clock(word, &seconds);
        uint64_t number;
        if (hours >= 0) {
            up = RG_MAX(up, INT64_C(0)) + hours;
        } else if (!rg_span_to_u64(word, &number) || number > 100000) {
            continue;
        } else if (rg_span_starts(unit, RG_SPAN_LITERAL("day"))) {
            up = RG_MAX(up, INT64_C(0)) + (int64_t)number * 86400;
        } else if (rg_span_starts(unit, RG_SPAN_LITERAL("min"))) {
            up = RG_MAX(up, INT64_C(0)) + (int64_t)number * 60;
        }
    }
    if (up < 0) {
        return false;
    }
    collected->has_uptime = true;
    collected->clock_s = (int32_t)clock;
    collected->up_s = up;
    return true;
}
