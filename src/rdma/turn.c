/*
 * A list of waiters on their own stacks, each with its own condition: a shared condition would wake
 * all for one, and in no order.
 */
#include "rdma/turn.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>

struct rg_turn_waiter {
    struct rg_turn_waiter *next;
    pthread_cond_t wake;
};

static void enqueue(struct rg_turn *turn, struct rg_turn_waiter *waiter)
{
    if (turn->last) {
        turn->last->next = waiter;
    } else {
        turn->first = waiter;
    }
    turn->last = waiter;
    turn->count++;
}

static void dequeue(struct rg_turn *turn, struct rg_turn_waiter *waiter)
{
    struct rg_turn_waiter *before = NULL;
    struct rg_turn_waiter **link = &turn->first;
    while (*link != waiter) {
        before = *link;
        link = &(*link)->next;
    }
    *link = waiter->next;
    if (turn->last == waiter) {
        turn->last = before;
    }
    turn->count--;
}

bool rg_turn_wait(struct rg_turn *turn, pthread_mutex_t *lock, rg_turn_question question,
                  const void *context, size_t want, uint32_t wait_ms)
{
    struct rg_turn_waiter self = {0};
    struct timespec deadline = rg_clock_deadline(wait_ms);
    RG_MUST(pthread_cond_init(&self.wake, NULL));
    enqueue(turn, &self);
    enum rg_turn_answer answer = RG_TURN_WAIT;
    bool in_time = true;
    for (;;) {
        answer = question(context, want);
        bool is_first = turn->first == &self;
        if (answer == RG_TURN_GIVE_UP || (answer == RG_TURN_GO && is_first) || !in_time) {
            answer = is_first || answer == RG_TURN_GIVE_UP ? answer : RG_TURN_WAIT;
            break;
        }
        in_time = pthread_cond_clockwait(&self.wake, lock, CLOCK_MONOTONIC, &deadline) != ETIMEDOUT;
    }
    bool was_first = turn->first == &self;
    dequeue(turn, &self);
    RG_MUST(pthread_cond_destroy(&self.wake));
    if (was_first && answer != RG_TURN_GO) {
        rg_turn_wake(turn);
    }
    return answer == RG_TURN_GO;
}

void rg_turn_wake(struct rg_turn *turn)
{
    if (turn->first) {
        RG_MUST(pthread_cond_signal(&turn->first->wake));
    }
}

void rg_turn_wake_all(struct rg_turn *turn)
{
    for (struct rg_turn_waiter *waiter = turn->first; waiter; waiter = waiter->next) {
        RG_MUST(pthread_cond_signal(&waiter->wake));
    }
}
