/*
 * Counts below bounds. See histogram.h.
 */
#include "gate/histogram.h"

#include "base/assert.h"

#include <inttypes.h>

void rg_histogram_init(struct rg_histogram *histogram, const double *bounds, size_t bound_count)
{
    RG_ASSERT(bound_count <= RG_HISTOGRAM_BOUNDS_MAX);
    histogram->bounds = bounds;
    histogram->bound_count = bound_count;
}

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_relaxed);
}

void rg_histogram_observe(struct rg_histogram *histogram, double value)
{
    size_t bucket = 0;
    while (bucket < histogram->bound_count && value > histogram->bounds[bucket]) {
        bucket++;
    }
    add(&histogram->buckets[bucket], 1);
    add(&histogram->sum_nano, (uint64_t)(value * 1e9));
}

uint64_t rg_histogram_count(const struct rg_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= histogram->bound_count; i++) {
        count += get(&histogram->buckets[i]);
    }
    return count;
}

/* All of it from one reading of the buckets: the last of them and the count are then the same. */
void rg_histogram_write(const struct rg_histogram *histogram, const char *name, const char *labels,
                        struct rg_buf *out)
{
    uint64_t below = 0;
    for (size_t i = 0; i < histogram->bound_count; i++) {
        below += get(&histogram->buckets[i]);
        rg_buf_addf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels,
                    histogram->bounds[i], below);
    }
    below += get(&histogram->buckets[histogram->bound_count]);
    rg_buf_addf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, below);
    rg_buf_addf(out, "%s_sum{%s} %.6f\n", name, labels, (double)get(&histogram->sum_nano) / 1e9);
    rg_buf_addf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, below);
}
