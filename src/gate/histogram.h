/*
 * A histogram for the metrics page: counts below fixed bounds, and a sum. Observing takes no lock.
 */
#ifndef RG_GATE_HISTOGRAM_H
#define RG_GATE_HISTOGRAM_H

#include "base/buf.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define RG_HISTOGRAM_BOUNDS_MAX 16u

/* All zero, then rg_histogram_init. */
struct rg_histogram {
    const double *bounds; /* rising; borrowed for ever */
    size_t bound_count;
    _Atomic uint64_t buckets[RG_HISTOGRAM_BOUNDS_MAX + 1];
    _Atomic uint64_t sum_nano; /* in billionths of the unit */
};

/* At most RG_HISTOGRAM_BOUNDS_MAX bounds. */
void rg_histogram_init(struct rg_histogram *histogram, const double *bounds, size_t bound_count);

/* `value`: in the unit of the bounds, not negative. */
void rg_histogram_observe(struct rg_histogram *histogram, double value);

uint64_t rg_histogram_count(const struct rg_histogram *histogram);

/* Appends the lines NAME_bucket, NAME_sum and NAME_count. `labels`: "a=\"b\",c=\"d\"", escaped. */
void rg_histogram_write(const struct rg_histogram *histogram, const char *name, const char *labels,
                        struct rg_buf *out);

#endif
