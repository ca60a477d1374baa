/*
 * Cuts transfers into parts. See plan.h.
 */
#include "client/plan.h"

#include "client/failure.h"

#include "base/assert.h"
#include "base/checked.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t parts_of(uint64_t size, uint64_t part_size)
{
    return size == 0 ? 1 : (size - 1) / part_size + 1;
}

int rg_plan_make(uint64_t size, uint64_t part_size, uint64_t part_size_max,
                 struct rg_plan *ret_plan, struct rg_failure *failure)
{
    RG_ASSERT(part_size > 0 && part_size <= part_size_max);
    uint64_t count = parts_of(size, part_size);
    if (count > RG_PART_COUNT_MAX) {
        part_size = (parts_of(size, RG_PART_COUNT_MAX) + MIB - 1) / MIB * MIB;
        count = parts_of(size, part_size);
    }
    if (part_size > part_size_max) {
        return rg_failure_set(
            failure, RG_STATUS_USAGE, "%llu bytes are more than %u parts of %llu bytes can hold.",
            (unsigned long long)size, RG_PART_COUNT_MAX, (unsigned long long)part_size_max);
    }
    *ret_plan = (struct rg_plan){.size = size, .part_size = part_size, .count = (uint32_t)count};
    return 0;
}

uint64_t rg_plan_offset(const struct rg_plan *plan, uint32_t index)
{
    RG_ASSERT(index < plan->count);
    return (uint64_t)index * plan->part_size;
}

uint64_t rg_plan_length(const struct rg_plan *plan, uint32_t index)
{
    uint64_t left = plan->size - rg_plan_offset(plan, index);
    return RG_MIN(left, plan->part_size);
}
