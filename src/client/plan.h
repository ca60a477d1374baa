/*
 * How a transfer is cut into parts. Pure.
 */
#ifndef RG_CLIENT_PLAN_H
#define RG_CLIENT_PLAN_H

#include <railgate/railgate.h>

#include <stdint.h>

#define RG_PART_COUNT_MAX 10000u

struct rg_plan {
    uint64_t size;
    uint64_t part_size;
    uint32_t count; /* 1 for an object that is not cut */
};

/*
 * Parts of `part_size`, the last one shorter. Parts grow, in whole MiB, when there would be more
 * than RG_PART_COUNT_MAX, but never over `part_size_max`: then RG_STATUS_USAGE. A size of 0 is one
 * part of no bytes.
 */
int rg_plan_make(uint64_t size, uint64_t part_size, uint64_t part_size_max,
                 struct rg_plan *ret_plan, struct rg_failure *failure);

uint64_t rg_plan_offset(const struct rg_plan *plan, uint32_t index);
uint64_t rg_plan_length(const struct rg_plan *plan, uint32_t index);

#endif
