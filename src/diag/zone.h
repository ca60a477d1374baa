/*
 * Time zones by name, as tables of their offsets, made once; and which of the world's offsets is
 * meant by a measured one.
 */
#ifndef RG_DIAG_ZONE_H
#define RG_DIAG_ZONE_H

#include "base/error.h"

#include <stdint.h>

#define RG_ZONE_STEPS_MAX 256

struct rg_zone {
    struct {
        int64_t from_s; /* since 1970 UTC */
        int32_t east_s;
    } steps[RG_ZONE_STEPS_MAX];
    int count;
};

/*
 * "Asia/Seoul", "UTC", "KST", "+09:00", "+0900", "+9". Names are those of the system's zone
 * database, from 1990 to 2060. RG_SETTING when the name is unknown. Sets the environment's TZ for a
 * moment: not while other threads run.
 */
int rg_zone_read(const char *name, struct rg_zone *ret_zone, struct rg_error *err);

/* Seconds east of UTC at a wall-clock time of that zone (seconds, as if it were UTC). Of a time
 * that comes twice in autumn, the earlier. */
int32_t rg_zone_east_of_local(const struct rg_zone *zone, int64_t local_s);

/* The offset in use somewhere in the world (a multiple of 15 minutes) that is nearest. */
int32_t rg_zone_nearest(int64_t east_s);

#endif
