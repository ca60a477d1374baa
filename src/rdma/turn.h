/*
 * Waiting in line under a mutex: first come, first served, each with a time limit. Used for slots
 * and for lanes; not part of the room's interface.
 */
#ifndef RG_RDMA_TURN_H
#define RG_RDMA_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_turn_waiter;

/* Zero is an empty line. */
struct rg_turn {
    struct rg_turn_waiter *first, *last;
    size_t count;
};

/* What a waiter waits for; asked with the mutex held. GIVE_UP ends the wait without success. */
enum rg_turn_answer { RG_TURN_WAIT, RG_TURN_GO, RG_TURN_GIVE_UP };
typedef enum rg_turn_answer (*rg_turn_question)(const void *context, size_t want);

/*
 * With `lock` held: waits at the end of the line until this caller is the first and the answer is
 * GO, at most `wait_ms`. The lock is held again on return. False: time over, or given up.
 */
bool rg_turn_wait(struct rg_turn *turn, pthread_mutex_t *lock, rg_turn_question question,
                  const void *context, size_t want, uint32_t wait_ms);

/* With the lock held, after every change that may let the first one go. */
void rg_turn_wake(struct rg_turn *turn);

/* With the lock held, after a change that makes all give up. */
void rg_turn_wake_all(struct rg_turn *turn);

#endif
