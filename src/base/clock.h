/*
 * Time: a monotonic clock for deadlines, the wall clock for what people and clients read.
 */
#ifndef RG_BASE_CLOCK_H
#define RG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic, from an arbitrary start. */
uint64_t rg_clock_ns(void);
uint64_t rg_clock_ms(void);

/* Wall clock, UTC. */
struct timespec rg_clock_wall(void);

/* CLOCK_MONOTONIC as a timespec `timeout_ms` from now, for pthread_cond_clockwait. */
struct timespec rg_clock_deadline(uint64_t timeout_ms);

#endif
