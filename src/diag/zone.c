/*
 * Zones. The C library knows them; it is asked once for every day, so that no state of it is needed
 * later.
 */
#include "diag/zone.h"

#include "base/attr.h"
#include "base/span.h"

#include "diag/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_YEAR 1990
#define LAST_YEAR  2060
#define DAY_S      RG_SEC_PER_DAY

static void set_fixed(struct rg_zone *zone, int32_t east_s)
{
    zone->count = 1;
    zone->steps[0].from_s = INT64_MIN;
    zone->steps[0].east_s = east_s;
}

/* "+09:00", "+0900", "+9", "-03:30". */
static bool read_offset(const char *text, int32_t *ret_east_s)
{
    if (*text != '+' && *text != '-') {
        return false;
    }
    int sign = *text++ == '-' ? -1 : 1;
    int digits[4] = {0};
    int count = 0;
    bool colon = false;
    for (; *text; text++) {
        if (*text == ':' && !colon && (count == 1 || count == 2)) {
            colon = true;
            if (count == 1) {
                digits[1] = digits[0];
                digits[0] = 0;
                count = 2;
            }
        } else if (*text >= '0' && *text <= '9' && count < 4) {
            digits[count++] = *text - '0';
        } else {
            return false;
        }
    }
    int hours = count == 1 ? digits[0] : digits[0] * 10 + digits[1];
    int minutes = digits[2] * 10 + digits[3];
    if ((count != 1 && count != 2 && count != 4) || (colon && count != 4) || hours > 14 ||
        minutes > 59) {
        return false;
    }
    *ret_east_s = sign * (hours * 60 + minutes) * 60;
    return true;
}

static bool is_zone_file(const char *name)
{
    if (name[0] == '/' || name[0] == '\0' || strstr(name, "..") || strlen(name) > 64) {
        return false;
    }
    char path[128];
    snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", name);
    return access(path, R_OK) == 0;
}

static int32_t east_at(int64_t seconds)
{
    time_t moment = (time_t)seconds;
    struct tm local;
    return localtime_r(&moment, &local) ? (int32_t)local.tm_gmtoff : 0;
}

/* The first second of the later offset, between two days with different ones. */
static int64_t find_step(int64_t before, int64_t after)
{
    int32_t east = east_at(before);
    while (after - before > 1) {
        int64_t middle = before + (after - before) / 2;
        if (east_at(middle) == east) {
            before = middle;
        } else {
            after = middle;
        }
    }
    return after;
}

static void tabulate(struct rg_zone *zone)
{
    int64_t day = rg_days_from_date(FIRST_YEAR, 1, 1) * DAY_S;
    int64_t last = rg_days_from_date(LAST_YEAR, 1, 1) * DAY_S;
    set_fixed(zone, east_at(day));
    for (; day < last && zone->count < RG_ZONE_STEPS_MAX; day += DAY_S) {
        if (east_at(day + DAY_S) != east_at(day)) {
            int64_t step = find_step(day, day + DAY_S);
            zone->steps[zone->count].from_s = step;
            zone->steps[zone->count++].east_s = east_at(step);
        }
    }
}

int rg_zone_read(const char *name, struct rg_zone *ret_zone, struct rg_error *err)
{
    int32_t east_s;
    if (read_offset(name, &east_s)) {
        set_fixed(ret_zone, east_s);
        return 0;
    }
    if (strcmp(name, "UTC") == 0 || strcmp(name, "GMT") == 0 || strcmp(name, "Z") == 0) {
        set_fixed(ret_zone, 0);
        return 0;
    }
    if (strcmp(name, "KST") == 0 || strcmp(name, "JST") == 0) {
        set_fixed(ret_zone, 9 * 3600);
        return 0;
    }
    if (!is_zone_file(name)) {
        return rg_failf(err, RG_SETTING,
                        "no time zone is called \"%.64s\" here (names are like Asia/Seoul, or "
                        "+09:00)",
                        name);
    }
    const char *old = getenv("TZ");
    rg_autofree char *saved = old ? strdup(old) : NULL;
    setenv("TZ", name, 1);
    tzset();
    tabulate(ret_zone);
    if (saved) {
        setenv("TZ", saved, 1);
    } else {
        unsetenv("TZ");
    }
    tzset();
    return 0;
}

static int32_t east_of_utc(const struct rg_zone *zone, int64_t utc_s)
{
    int i = zone->count - 1;
    while (i > 0 && utc_s < zone->steps[i].from_s) {
        i--;
    }
    return zone->steps[i].east_s;
}

int32_t rg_zone_east_of_local(const struct rg_zone *zone, int64_t local_s)
{
    /* The offset a day before is tried first: it is the one that was in force. */
    int32_t before = east_of_utc(zone, local_s - DAY_S);
    if (east_of_utc(zone, local_s - before) == before) {
        return before;
    }
    int32_t after = east_of_utc(zone, local_s + DAY_S);
    return after;
}

int32_t rg_zone_nearest(int64_t east_s)
{
    /* Offsets in use that are no whole hours, in minutes. */
    static const int odd[] = {-570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765};
    int64_t hours = (east_s + (east_s >= 0 ? 1800 : -1800)) / 3600;
    hours = hours < -12 ? -12 : hours > 14 ? 14 : hours;
    int64_t best = hours * 3600;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(odd); i++) {
        int64_t candidate = (int64_t)odd[i] * 60;
        if (llabs(east_s - candidate) < llabs(east_s - best)) {
            best = candidate;
        }
    }
    return (int32_t)best;
}
