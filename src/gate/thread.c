#include "gate/thread.h"

#include "base/assert.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct start {
    const char *name;
    void *(*run)(void *argument);
    void *argument;
};

static void *run_named(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), start.name);
    return start.run(start.argument);
}

int rg_thread_start(const char *name, void *(*run)(void *argument), void *argument,
                    struct rg_error *err)
{
    struct start *start = malloc(sizeof *start);
    if (!start) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *start = (struct start){name, run, argument};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    RG_MUST(pthread_attr_init(&attributes));
    RG_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    sigfillset(&all);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
    int failed = pthread_create(&thread, &attributes, run_named, start);
    RG_MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
    RG_MUST(pthread_attr_destroy(&attributes));
    if (failed) {
        free(start);
        return rg_fail_errno(err, RG_INTERNAL_ERROR, failed, "cannot start the thread %s", name);
    }
    return 0;
}
