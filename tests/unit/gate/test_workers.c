/*
 * Workers, rings and events: what requests are handed over with.
 */
#include "base/clock.h"
#include "gate/event.h"
#include "gate/ring.h"
#include "gate/workers.h"
#include "test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t go;
static _Atomic unsigned ran;
static _Atomic unsigned finished;

static void wait_for_go(void *argument)
{
    (void)argument;
    sem_wait(&go);
    atomic_fetch_add(&ran, 1);
}

static void run_at_once(void *argument)
{
    (void)argument;
    atomic_fetch_add(&ran, 1);
}

static void finish(void *argument)
{
    (void)argument;
    atomic_fetch_add(&finished, 1);
}

static void wait_until(_Atomic unsigned *counter, unsigned value)
{
    for (int i = 0; i < 10000 && atomic_load(counter) != value; i++) {
        usleep(1000);
    }
    assert_int_equal(atomic_load(counter), value);
}

static void test_ceiling(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_workers *workers;
    assert_int_equal(sem_init(&go, 0, 0), 0);
    atomic_store(&ran, 0);
    atomic_store(&finished, 0);
    assert_int_equal(rg_workers_new(2, 1 << 20, 10000, &workers, &err), 0);
    struct rg_job job = {wait_for_go, finish, NULL};
    assert_int_equal(rg_workers_run(workers, job), 0);
    assert_int_equal(rg_workers_run(workers, job), 0);
    assert_int_equal(rg_workers_run(workers, job), -RG_SLOW_DOWN);
    assert_int_equal(rg_workers_count(workers), 2);
    assert_int_equal(rg_workers_stop(workers, 10), 2);
    /* They outlive the pool's owner, and free it. */
    sem_post(&go);
    sem_post(&go);
    wait_until(&finished, 2);
    usleep(20000);
    sem_destroy(&go);
}

/* Whoever is told that a job is over finds a free worker. */
static void test_no_false_ceiling(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_workers *workers;
    atomic_store(&ran, 0);
    atomic_store(&finished, 0);
    assert_int_equal(rg_workers_new(1, 1 << 20, 10000, &workers, &err), 0);
    for (unsigned i = 1; i <= 2000; i++) {
        struct rg_job job = {run_at_once, finish, NULL};
        assert_int_equal(rg_workers_run(workers, job), 0);
        while (atomic_load(&finished) != i) {
            sched_yield();
        }
    }
    assert_int_equal(rg_workers_count(workers), 1);
    assert_int_equal(rg_workers_stop(workers, 5000), 0);
}

static void test_idle_workers_end(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_workers *workers;
    atomic_store(&finished, 0);
    assert_int_equal(rg_workers_new(4, 1 << 20, 20, &workers, &err), 0);
    for (unsigned round = 1; round <= 3; round++) {
        struct rg_job job = {run_at_once, finish, NULL};
        assert_int_equal(rg_workers_run(workers, job), 0);
        wait_until(&finished, round);
        for (int i = 0; i < 10000 && rg_workers_count(workers) > 0; i++) {
            usleep(1000);
        }
        assert_int_equal(rg_workers_count(workers), 0);
    }
    assert_int_equal(rg_workers_stop(workers, 1000), 0);
}

static void test_ring(void **state)
{
    (void)state;
    struct rg_ring ring = {0};
    unsigned put = 0;
    unsigned took = 0;
    unsigned seed = 1;
    rg_ring_setup(&ring, 100, 3);
    for (int i = 0; i < 10000; i++) {
        size_t room;
        char *space = rg_ring_space(&ring, &room);
        size_t len = space ? (size_t)rand_r(&seed) % (room + 1) : 0;
        for (size_t k = 0; k < len; k++) {
            space[k] = (char)put++;
        }
        rg_ring_put(&ring, len);
        assert_int_equal(rg_ring_used(&ring), put - took);
        assert_int_equal(rg_ring_left(&ring), 300 - (put - took));
        struct span piece = rg_span_head(rg_ring_peek(&ring), (size_t)rand_r(&seed) % 150);
        for (size_t k = 0; k < piece.len; k++) {
            assert_int_equal(piece.ptr[k], (char)took++);
        }
        rg_ring_took(&ring, piece.len);
    }
    assert_true(took > 100000);
    rg_ring_free(&ring);
    /* Full and empty. */
    size_t room;
    rg_ring_setup(&ring, 10, 1);
    assert_non_null(rg_ring_space(&ring, &room));
    assert_int_equal(room, 10);
    rg_ring_put(&ring, 10);
    assert_null(rg_ring_space(&ring, &room));
    assert_int_equal(room, 0);
    rg_ring_took(&ring, 10);
    assert_int_equal(rg_ring_peek(&ring).len, 0);
    rg_ring_free(&ring);
}

static struct rg_event ping;
static struct rg_event pong;

static void *answer_pings(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20000; i++) {
        rg_event_wait(&ping, UINT64_MAX);
        rg_event_raise(&pong);
    }
    return NULL;
}

/* No wake-up is lost, and none is counted twice. */
static void test_event(void **state)
{
    (void)state;
    pthread_t thread;
    assert_false(rg_event_wait(&ping, rg_clock_ns() + 1000000));
    rg_event_raise(&ping);
    rg_event_raise(&ping);
    assert_true(rg_event_wait(&ping, 0));
    assert_false(rg_event_wait(&ping, 0));
    assert_int_equal(pthread_create(&thread, NULL, answer_pings, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        rg_event_raise(&ping);
        assert_true(rg_event_wait(&pong, rg_clock_ns() + 10000000000u));
    }
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_no_false_ceiling),
        cmocka_unit_test(test_idle_workers_end),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
