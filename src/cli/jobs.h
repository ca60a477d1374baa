/*
 * Work for many objects at once: a bounded queue and a few threads. Whoever adds waits while the
 * queue is full, so that a listing of millions never piles up in memory.
 */
#ifndef RG_CLI_JOBS_H
#define RG_CLI_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#define RG_CLI_JOBS_MAX 256u

struct rg_cli_jobs;

/* Does one item, which it then owns; called from several threads. */
typedef void rg_cli_job(void *context, void *item);

/* NULL when not even one thread can be had. */
struct rg_cli_jobs *rg_cli_jobs_start(unsigned threads, rg_cli_job *job, void *context);

/* Takes the item. */
void rg_cli_jobs_add(struct rg_cli_jobs *jobs, void *item);

/* Waits until all is done, and ends the threads. */
void rg_cli_jobs_finish(struct rg_cli_jobs *jobs);

#endif
