/*
 * The parts of one call, done by a few threads that live as long as the call. The calling thread is
 * one of them.
 */
#ifndef RG_CLIENT_PARALLEL_H
#define RG_CLIENT_PARALLEL_H

#include <railgate/railgate.h>

#include <stdatomic.h>
#include <stdint.h>

/*
 * Does item `index`. Returns 0, or a negative status with *failure filled; then no further item is
 * begun and *cancel becomes true for those under way.
 */
typedef int rg_parallel_item(void *context, uint32_t index, struct rg_failure *failure);

/*
 * Does items 0 to count - 1 on at most `threads` threads. Where no further thread can be had, fewer
 * do. Returns the first failure; failures that come from *cancel do not replace it.
 * failure->uncertain is raised when it is in any of them. `cancel` must be false at the start.
 */
int rg_parallel_run(uint32_t count, uint32_t threads, rg_parallel_item *item, void *context,
                    atomic_bool *cancel, struct rg_failure *failure);

#endif
