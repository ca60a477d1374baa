#include "gate/workers.h"

#include "base/assert.h"
#include "gate/event.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct worker {
    struct rg_workers *pool;
    struct rg_event wake;
    struct rg_job job; /* run is NULL: none */
    struct worker *next;
    struct worker *previous;
};

struct rg_workers {
    pthread_mutex_t lock;
    struct worker *idle;  /* most recently used first */
    struct worker *spare; /* of threads that ended. Kept: a late raise may still touch them */
    unsigned count;
    unsigned max;
    size_t stack_size;
    unsigned idle_ms;
    bool stopping;
    bool abandoned; /* rg_workers_stop has returned: the last worker frees the pool */
    struct rg_event gone;
};

int rg_workers_new(unsigned max, size_t stack_size, unsigned idle_ms,
                   struct rg_workers **ret_workers, struct rg_error *err)
{
    struct rg_workers *workers = calloc(1, sizeof *workers);
    if (!workers) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    RG_MUST(pthread_mutex_init(&workers->lock, NULL));
    workers->max = max;
    workers->stack_size = stack_size;
    workers->idle_ms = idle_ms;
    *ret_workers = workers;
    return 0;
}

static void free_pool(struct rg_workers *pool)
{
    while (pool->spare) {
        struct worker *spare = pool->spare;
        pool->spare = spare->next;
        free(spare);
    }
    RG_MUST(pthread_mutex_destroy(&pool->lock));
    free(pool);
}

static void park(struct worker *self)
{
    struct rg_workers *pool = self->pool;
    RG_MUST(pthread_mutex_lock(&pool->lock));
    self->job.run = NULL;
    self->previous = NULL;
    self->next = pool->idle;
    if (pool->idle) {
        pool->idle->previous = self;
    }
    pool->idle = self;
    RG_MUST(pthread_mutex_unlock(&pool->lock));
}

/* With the lock held. */
static void unpark(struct worker *self)
{
    if (self->previous) {
        self->previous->next = self->next;
    } else {
        self->pool->idle = self->next;
    }
    if (self->next) {
        self->next->previous = self->previous;
    }
}

/* Waits for a job; false when the worker is to end (it has left the list of idle ones then). */
static bool next_job(struct worker *self, struct rg_job *ret_job)
{
    struct rg_workers *pool = self->pool;
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)pool->idle_ms * 1000000u;
    for (;;) {
        RG_MUST(pthread_mutex_lock(&pool->lock));
        bool given = self->job.run != NULL;
        bool end = !given && (pool->stopping || rg_clock_ns() >= deadline_ns);
        if (given) {
            *ret_job = self->job;
        } else if (end) {
            unpark(self);
        }
        RG_MUST(pthread_mutex_unlock(&pool->lock));
        if (given || end) {
            return given;
        }
        rg_event_wait(&self->wake, deadline_ns);
    }
}

static void leave(struct worker *self)
{
    struct rg_workers *pool = self->pool;
    RG_MUST(pthread_mutex_lock(&pool->lock));
    pool->count--;
    self->next = pool->spare;
    pool->spare = self;
    bool last = pool->count == 0 && pool->abandoned;
    if (pool->stopping && !pool->abandoned) {
        rg_event_raise(&pool->gone);
    }
    RG_MUST(pthread_mutex_unlock(&pool->lock));
    if (last) {
        free_pool(pool);
    }
}

static void *work(void *argument)
{
    struct worker *self = argument;
    pthread_setname_np(pthread_self(), "rg-worker");
    struct rg_job job = self->job;
    do {
        job.run(job.argument);
        park(self);
        job.finished(job.argument);
    } while (next_job(self, &job));
    leave(self);
    return NULL;
}

/* Signals are for the main thread: workers start with all of them blocked. */
static int start_thread(const struct rg_workers *pool, struct worker *worker)
{
    pthread_attr_t attributes;
    RG_MUST(pthread_attr_init(&attributes));
    RG_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    RG_MUST(pthread_attr_setstacksize(&attributes, pool->stack_size));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
    pthread_t thread;
    int failed = pthread_create(&thread, &attributes, work, worker);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
    RG_MUST(pthread_attr_destroy(&attributes));
    return failed;
}

/* With the lock held. */
static struct worker *new_worker(struct rg_workers *pool)
{
    struct worker *worker = pool->spare;
    if (worker) {
        pool->spare = worker->next;
        worker->next = NULL;
        return worker;
    }
    worker = calloc(1, sizeof *worker);
    if (worker) {
        worker->pool = pool;
    }
    return worker;
}

/* The caller has counted the worker already. */
static int start_worker(struct worker *worker, struct rg_job job)
{
    worker->job = job;
    if (!start_thread(worker->pool, worker)) {
        return 0;
    }
    worker->job.run = NULL;
    leave(worker);
    return -RG_LIMIT;
}

int rg_workers_run(struct rg_workers *workers, struct rg_job job)
{
    RG_MUST(pthread_mutex_lock(&workers->lock));
    struct worker *idle = workers->idle;
    struct worker *made = NULL;
    bool full = !idle && workers->count >= workers->max;
    if (idle) {
        unpark(idle);
        idle->job = job;
    } else if (!full) {
        made = new_worker(workers);
        workers->count += made != NULL;
    }
    RG_MUST(pthread_mutex_unlock(&workers->lock));
    if (idle) {
        rg_event_raise(&idle->wake);
        return 0;
    }
    if (full) {
        return -RG_SLOW_DOWN;
    }
    return made ? start_worker(made, job) : -RG_LIMIT;
}

unsigned rg_workers_count(struct rg_workers *workers)
{
    RG_MUST(pthread_mutex_lock(&workers->lock));
    unsigned count = workers->count;
    RG_MUST(pthread_mutex_unlock(&workers->lock));
    return count;
}

unsigned rg_workers_stop(struct rg_workers *workers, unsigned timeout_ms)
{
    uint64_t deadline_ns = rg_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    RG_MUST(pthread_mutex_lock(&workers->lock));
    workers->stopping = true;
    for (struct worker *worker = workers->idle; worker; worker = worker->next) {
        rg_event_raise(&worker->wake);
    }
    while (workers->count > 0 && rg_clock_ns() < deadline_ns) {
        RG_MUST(pthread_mutex_unlock(&workers->lock));
        rg_event_wait(&workers->gone, deadline_ns);
        RG_MUST(pthread_mutex_lock(&workers->lock));
    }
    unsigned left = workers->count;
    workers->abandoned = true;
    RG_MUST(pthread_mutex_unlock(&workers->lock));
    if (left == 0) {
        free_pool(workers);
    }
    return left;
}
