/*
 * The threads on which verbs run: made on demand up to a ceiling, kept for a while when idle, the
 * most recently used first (its stack is warm).
 */
#ifndef RG_GATE_WORKERS_H
#define RG_GATE_WORKERS_H

#include "base/error.h"

#include <stddef.h>

struct rg_workers;

struct rg_job {
    void (*run)(void *argument);
    /* Runs after the worker counts as idle again: whoever is told here that the job is over finds a
     * free worker for the next one. */
    void (*finished)(void *argument);
    void *argument;
};

/* Up to `max` threads with stacks of `stack_size` bytes, ended after `idle_ms` without work. */
int rg_workers_new(unsigned max, size_t stack_size, unsigned idle_ms,
                   struct rg_workers **ret_workers, struct rg_error *err);

/* Gives a job to a worker and returns. -RG_SLOW_DOWN when all are busy, -RG_LIMIT when the system
 * gives no further thread. */
int rg_workers_run(struct rg_workers *workers, struct rg_job job);

unsigned rg_workers_count(struct rg_workers *workers);

/* Ends the idle ones and gives the pool up; the last worker frees it. No job may be given any more.
 * Waits at most `timeout_ms` for workers to be gone, and returns how many are left. */
unsigned rg_workers_stop(struct rg_workers *workers, unsigned timeout_ms);

#endif
