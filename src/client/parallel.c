/*
 * Threads inside a call. See parallel.h.
 */
#include "client/parallel.h"

#include "client/config.h"

#include "base/assert.h"
#include "base/checked.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

struct run {
    uint32_t count;
    atomic_uint next;
    rg_parallel_item *item;
    void *context;
    atomic_bool *cancel;
    pthread_mutex_t mutex; /* guards what follows */
    int rc;
    bool uncertain;
    struct rg_failure failure;
};

static void keep_failure(struct run *run, int rc, const struct rg_failure *failure)
{
    RG_MUST(pthread_mutex_lock(&run->mutex));
    run->uncertain = run->uncertain || failure->uncertain;
    if (run->rc == 0) {
        run->rc = rc;
        run->failure = *failure;
    }
    RG_MUST(pthread_mutex_unlock(&run->mutex));
    atomic_store(run->cancel, true);
}

static void *work(void *argument)
{
    struct run *run = argument;
    while (!atomic_load(run->cancel)) {
        uint32_t index = atomic_fetch_add(&run->next, 1);
        if (index >= run->count) {
            break;
        }
        struct rg_failure failure;
        memset(&failure, 0, sizeof failure);
        int rc = run->item(run->context, index, &failure);
        if (rc < 0) {
            keep_failure(run, rc, &failure);
        }
    }
    return NULL;
}

/* Signals are for the program's own threads. */
static size_t start_threads(struct run *run, pthread_t *threads, size_t count)
{
    sigset_t all;
    sigset_t saved;
    size_t started = 0;
    sigfillset(&all);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &all, &saved));
    while (started < count && pthread_create(&threads[started], NULL, work, run) == 0) {
        started++;
    }
    RG_MUST(pthread_sigmask(SIG_SETMASK, &saved, NULL));
    return started;
}

int rg_parallel_run(uint32_t count, uint32_t threads, rg_parallel_item *item, void *context,
                    atomic_bool *cancel, struct rg_failure *failure)
{
    pthread_t others[RG_PARALLEL_MAX];
    struct run run = {.count = count, .item = item, .context = context, .cancel = cancel};
    RG_MUST(pthread_mutex_init(&run.mutex, NULL));
    uint32_t wanted = RG_MIN(threads, count);
    wanted = RG_MIN(wanted, RG_PARALLEL_MAX);
    size_t started = wanted > 1 ? start_threads(&run, others, wanted - 1) : 0;
    (void)work(&run);
    for (size_t i = 0; i < started; i++) {
        RG_MUST(pthread_join(others[i], NULL));
    }
    RG_MUST(pthread_mutex_destroy(&run.mutex));
    if (run.rc < 0) {
        bool was_uncertain = failure->uncertain;
        *failure = run.failure;
        failure->uncertain = was_uncertain || run.uncertain;
    }
    return run.rc;
}
