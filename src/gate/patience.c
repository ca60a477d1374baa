/*
 * The thread that begins late answers and keeps them alive. It holds the lock while it writes a few
 * bytes into a stream's ring, which never blocks: a ring holds more spaces than a wait can last.
 */
#include "gate/patience.h"

#include "base/assert.h"
#include "base/clock.h"
#include "s3/xml.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_MS 1000000u

struct rg_patience {
    struct rg_patience_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rg_wait waits; /* head of a ring list, ordered by nothing: few wait at a time */
    bool stopping;
    rg_patience_hopeless *hopeless; /* NULL: never */
};

static void begin_answer(struct rg_patience *patience, struct rg_wait *wait)
{
    struct span declaration = RG_SPAN_LITERAL(RG_XML_DECLARATION);
    rg_http_header_set(wait->request, "Content-Type", "application/xml");
    if (rg_http_stream_begin(wait->request, 200, 0, NULL) == 0) {
        wait->begun = true;
        rg_http_stream_write(wait->request, declaration.ptr, declaration.len, NULL);
    }
}

/* Says something to the client of a wait that is due. A client that has gone is the verb's to find
 * out. */
static void speak(struct rg_patience *patience, struct rg_wait *wait, uint64_t now_ns)
{
    bool hopeless = now_ns - wait->started_ns >= patience->config.most_ms * NS_PER_MS ||
                    (patience->hopeless && patience->hopeless(wait->request));
    if (hopeless) {
        /* Silence: the server gives the request up when its time-out has passed. */
    } else if (!wait->begun) {
        begin_answer(patience, wait);
    } else {
        rg_http_stream_write(wait->request, " ", 1, NULL);
    }
    wait->due_ns = now_ns + (uint64_t)patience->config.next_ms * NS_PER_MS;
}

/* Serves what is due and returns when the next will be. */
static uint64_t serve_due(struct rg_patience *patience)
{
    uint64_t now_ns = rg_clock_ns();
    uint64_t next_ns = UINT64_MAX;
    for (struct rg_wait *wait = patience->waits.next; wait != &patience->waits; wait = wait->next) {
        if (wait->due_ns <= now_ns) {
            speak(patience, wait, now_ns);
        }
        if (wait->due_ns < next_ns) {
            next_ns = wait->due_ns;
        }
    }
    return next_ns;
}

static void *run(void *argument)
{
    struct rg_patience *patience = argument;
    pthread_mutex_lock(&patience->lock);
    while (!patience->stopping) {
        uint64_t next_ns = serve_due(patience);
        if (next_ns == UINT64_MAX) {
            pthread_cond_wait(&patience->changed, &patience->lock);
            continue;
        }
        struct timespec at = {.tv_sec = (time_t)(next_ns / 1000000000u),
                              .tv_nsec = (long)(next_ns % 1000000000u)};
        pthread_cond_clockwait(&patience->changed, &patience->lock, CLOCK_MONOTONIC, &at);
    }
    pthread_mutex_unlock(&patience->lock);
    return NULL;
}

int rg_patience_new(const struct rg_patience_config *config, struct rg_patience **ret_patience,
                    struct rg_error *err)
{
    struct rg_patience *patience = calloc(1, sizeof *patience);
    if (!patience) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    patience->config = *config;
    patience->waits.next = patience->waits.previous = &patience->waits;
    RG_MUST(pthread_mutex_init(&patience->lock, NULL));
    RG_MUST(pthread_cond_init(&patience->changed, NULL));
    int failed = pthread_create(&patience->thread, NULL, run, patience);
    if (failed) {
        pthread_cond_destroy(&patience->changed);
        pthread_mutex_destroy(&patience->lock);
        free(patience);
        return rg_fail_errno(err, RG_LIMIT, failed, "cannot start a thread");
    }
    *ret_patience = patience;
    return 0;
}

void rg_patience_watch(struct rg_patience *patience, rg_patience_hopeless *hopeless)
{
    pthread_mutex_lock(&patience->lock);
    patience->hopeless = hopeless;
    pthread_mutex_unlock(&patience->lock);
}

void rg_patience_free(struct rg_patience *patience)
{
    if (!patience) {
        return;
    }
    pthread_mutex_lock(&patience->lock);
    RG_ASSERT(patience->waits.next == &patience->waits);
    patience->stopping = true;
    pthread_cond_signal(&patience->changed);
    pthread_mutex_unlock(&patience->lock);
    RG_MUST(pthread_join(patience->thread, NULL));
    pthread_cond_destroy(&patience->changed);
    pthread_mutex_destroy(&patience->lock);
    free(patience);
}

void rg_patience_begin(struct rg_patience *patience, struct rg_wait *wait,
                       struct rg_http_request *request)
{
    uint64_t now_ns = rg_clock_ns();
    *wait = (struct rg_wait){
        .request = request,
        .started_ns = now_ns,
        .due_ns = now_ns + (uint64_t)patience->config.first_ms * NS_PER_MS,
    };
    pthread_mutex_lock(&patience->lock);
    wait->next = patience->waits.next;
    wait->previous = &patience->waits;
    wait->next->previous = wait;
    patience->waits.next = wait;
    pthread_cond_signal(&patience->changed);
    pthread_mutex_unlock(&patience->lock);
}

bool rg_patience_end(struct rg_patience *patience, struct rg_wait *wait)
{
    pthread_mutex_lock(&patience->lock);
    wait->previous->next = wait->next;
    wait->next->previous = wait->previous;
    pthread_mutex_unlock(&patience->lock);
    return wait->begun;
}
