#include "base/clock.h"

#include "base/assert.h"

uint64_t rg_clock_ns(void)
{
    struct timespec now;
    RG_MUST(clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t rg_clock_ms(void)
{
    return rg_clock_ns() / 1000000u;
}

struct timespec rg_clock_wall(void)
{
    struct timespec now;
    RG_MUST(clock_gettime(CLOCK_REALTIME, &now));
    return now;
}

struct timespec rg_clock_deadline(uint64_t timeout_ms)
{
    uint64_t at = rg_clock_ns() + timeout_ms * 1000000u;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000000u),
                             .tv_nsec = (long)(at % 1000000000u)};
}
