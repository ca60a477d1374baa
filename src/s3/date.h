/*
 * The three spellings of time that S3 uses, parsed and printed without libc's locale or time zone.
 *
 * Times are UTC. Parsers are strict: exact lengths, digits only, every field in range, existing
 * days only; they accept years 0001 to 9999. They return false, and leave the result alone, for
 * anything else: what a bad date means (AccessDenied, a header to ignore) is the caller's to say.
 */
#ifndef RG_S3_DATE_H
#define RG_S3_DATE_H

#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Buffer sizes, the terminator included. */
#define RG_DATE_AMZ_SIZE  17 /* 20130524T000000Z */
#define RG_DATE_ISO_SIZE  25 /* 2026-11-29T16:40:01.000Z */
#define RG_DATE_HTTP_SIZE 30 /* Sun, 06 Nov 1994 08:49:37 GMT */

/* x-amz-date, ISO 8601 basic: "20130524T000000Z". Seconds since 1970. */
bool rg_date_parse_amz(struct span text, int64_t *ret_seconds);

/*
 * ISO 8601 extended: "2026-11-29T16:40:01Z", with an optional fraction of 1 to 9 digits. tv_nsec
 * is never negative, also before 1970.
 */
bool rg_date_parse_iso(struct span text, struct timespec *ret_time);

/*
 * RFC 9110, section 5.6.7 (RFC 7231, 7.1.1.1): IMF-fixdate, RFC 850 and asctime. `now_seconds`
 * resolves the two-digit year of RFC 850: at most 50 years ahead, else a century earlier. The name
 * of the day must be one, but need not fit the date; second 60 counts as the following second. In
 * IMF-fixdate the zone may also be +0000 or -0000, as RFC 5322 has it: some clients send that.
 */
bool rg_date_parse_http(struct span text, int64_t now_seconds, int64_t *ret_seconds);

/*
 * Each prints a NUL-terminated text of exactly the size above. A time outside years 0001 to 9999
 * (a file can carry any) is printed as the nearest time inside.
 */
void rg_date_format_amz(int64_t seconds, char text[RG_DATE_AMZ_SIZE]);
void rg_date_format_iso(struct timespec time, char text[RG_DATE_ISO_SIZE]); /* ms, rounded down */
void rg_date_format_http(int64_t seconds, char text[RG_DATE_HTTP_SIZE]);    /* IMF-fixdate */

#endif
