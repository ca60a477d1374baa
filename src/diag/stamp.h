/*
 * The stamps that log lines begin with. Each reader takes a text that begins with a stamp, fills
 * the stamp, and returns how many bytes it took; 0 when the text does not begin with one. Pure.
 */
#ifndef RG_DIAG_STAMP_H
#define RG_DIAG_STAMP_H

#include "base/span.h"

#include "diag/record.h"

#define RG_USEC_PER_SEC 1000000
#define RG_SEC_PER_DAY  86400

/* Days since 1970-01-01 of a date of the Gregorian calendar, and back. */
int64_t rg_days_from_date(int year, int month, int day);
void rg_date_from_days(int64_t days, int *ret_year, int *ret_month, int *ret_day);

/* "[  533.840297]", "[12345.678901][ T1645]", with the space behind it: since boot. */
size_t rg_stamp_read_boot(struct span text, struct rg_stamp *ret_stamp);

/* "[Sun Nov 29 19:46:55 2026]", also as Korean, Japanese and Chinese locales write it: what
 * dmesg -T computes; LOCAL. */
size_t rg_stamp_read_ctime(struct span text, struct rg_stamp *ret_stamp);

/*
 * "2026-11-29T14:30:11.123456+09:00", with a space for the T, a comma before the fraction, the zone
 * as Z, +hh, +hhmm, +hh:mm, " UTC" or missing (then LOCAL). `computed` when the fraction has a
 * comma, as only dmesg writes it.
 */
size_t rg_stamp_read_iso(struct span text, struct rg_stamp *ret_stamp);

/*
 * "Nov 29 19:46:55", "Nov 29 19:46:55.123456", "Nov 29 2026 19:46:55": LOCAL. Without a year the
 * stamp is of the year 1972, year_guessed is set, and the caller moves it (rg_stamp_set_year).
 */
size_t rg_stamp_read_bsd(struct span text, struct rg_stamp *ret_stamp);

/* The same month, day and time in another year; February 29 becomes March 1 where there is none. */
int64_t rg_stamp_set_year(int64_t usec, int year);

/* The year of a stamp. */
int rg_stamp_year(int64_t usec);

/* "1508144508.123456": since 1970 UTC, between 2000 and 2100. */
size_t rg_stamp_read_epoch(struct span text, struct rg_stamp *ret_stamp);

#endif
