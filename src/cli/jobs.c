/*
 * A bounded queue and its threads. See jobs.h.
 */
#include "cli/jobs.h"

#include "base/assert.h"
#include "base/checked.h"

#include <pthread.h>
#include <stdlib.h>

#define QUEUE_LENGTH 1024u

struct rg_cli_jobs {
    rg_cli_job *job;
    void *context;
    pthread_t threads[RG_CLI_JOBS_MAX];
    size_t thread_count;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    void *queue[QUEUE_LENGTH];
    size_t first;
    size_t count;
    bool is_over; /* nothing is added any more */
};

static void *work(void *argument)
{
    struct rg_cli_jobs *jobs = argument;
    RG_MUST(pthread_mutex_lock(&jobs->mutex));
    for (;;) {
        while (jobs->count == 0 && !jobs->is_over) {
            RG_MUST(pthread_cond_wait(&jobs->changed, &jobs->mutex));
        }
        if (jobs->count == 0) {
            break;
        }
        void *item = jobs->queue[jobs->first];
        jobs->first = (jobs->first + 1) % QUEUE_LENGTH;
        jobs->count--;
        RG_MUST(pthread_cond_broadcast(&jobs->changed));
        RG_MUST(pthread_mutex_unlock(&jobs->mutex));
        jobs->job(jobs->context, item);
        RG_MUST(pthread_mutex_lock(&jobs->mutex));
    }
    RG_MUST(pthread_mutex_unlock(&jobs->mutex));
    return NULL;
}

struct rg_cli_jobs *rg_cli_jobs_start(unsigned threads, rg_cli_job *job, void *context)
{
    struct rg_cli_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) {
        return NULL;
    }
    jobs->job = job;
    jobs->context = context;
    RG_MUST(pthread_mutex_init(&jobs->mutex, NULL));
    RG_MUST(pthread_cond_init(&jobs->changed, NULL));
    unsigned wanted = RG_MIN(threads, RG_CLI_JOBS_MAX);
    while (jobs->thread_count < wanted &&
           pthread_create(&jobs->threads[jobs->thread_count], NULL, work, jobs) == 0) {
        jobs->thread_count++;
    }
    if (jobs->thread_count == 0) {
        rg_cli_jobs_finish(jobs);
        return NULL;
    }
    return jobs;
}

void rg_cli_jobs_add(struct rg_cli_jobs *jobs, void *item)
{
    RG_MUST(pthread_mutex_lock(&jobs->mutex));
    while (jobs->count == QUEUE_LENGTH) {
        RG_MUST(pthread_cond_wait(&jobs->changed, &jobs->mutex));
    }
    jobs->queue[(jobs->first + jobs->count) % QUEUE_LENGTH] = item;
    jobs->count++;
    RG_MUST(pthread_cond_broadcast(&jobs->changed));
    RG_MUST(pthread_mutex_unlock(&jobs->mutex));
}

void rg_cli_jobs_finish(struct rg_cli_jobs *jobs)
{
    RG_MUST(pthread_mutex_lock(&jobs->mutex));
    jobs->is_over = true;
    RG_MUST(pthread_cond_broadcast(&jobs->changed));
    RG_MUST(pthread_mutex_unlock(&jobs->mutex));
    for (size_t i = 0; i < jobs->thread_count; i++) {
        RG_MUST(pthread_join(jobs->threads[i], NULL));
    }
    RG_MUST(pthread_cond_destroy(&jobs->changed));
    RG_MUST(pthread_mutex_destroy(&jobs->mutex));
    free(jobs);
}
