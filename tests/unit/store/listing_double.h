/*
 * Stands in for the rest of the POSIX store, so that listing is tested alone: a bucket is a
 * directory, a file is an object, a directory is one when its mode has the sticky bit. Whether the
 * mount's times are to be trusted, how coarse they are, and which allocation fails is for the test
 * to say.
 */
#ifndef RG_TESTS_LISTING_DOUBLE_H
#define RG_TESTS_LISTING_DOUBLE_H

#include "store/posix/posix.h"
#include "store/posix/snapshot.h"

enum double_times { DOUBLE_COARSE, DOUBLE_LOCAL, DOUBLE_REMOTE };

/* Prepares *posix to list `root` (one bucket, of any name). */
void double_open(struct rg_posix *posix, const char *root, size_t memory_max,
                 enum double_times times);
void double_close(struct rg_posix *posix);

/* fstat shows times rounded down to this; 0: as they are. */
extern _Atomic int64_t double_tick_ns;

/* The allocation that fails, counted from 1; 0: none. Counts down. */
extern _Atomic long double_failing_allocation;

#endif
