/*
 * A store in memory for tests of the verbs: one bucket, a handful of objects, and knobs that make
 * it slow or make it fail. It counts what begins, commits and aborts.
 */
#ifndef RG_TESTS_FAKE_STORE_H
#define RG_TESTS_FAKE_STORE_H

#include "store/store.h"

#include <stdatomic.h>

#define FAKE_BUCKET "bucket"

struct fake_knobs {
    int commit_errno; /* the commit fails with it */
    int open_errno;   /* opening fails with it */
    int passed_errno; /* bytes handed to a writer's descriptor are lost with it */
    enum rg_code copy_fails;
    _Atomic unsigned open_delay_ms;
    _Atomic unsigned copy_delay_ms;
};

struct fake_counts {
    _Atomic unsigned begun;
    _Atomic unsigned committed;
    _Atomic unsigned aborted;
};

struct rg_store *fake_store_new(void);
void fake_store_free(struct rg_store *store);
struct fake_knobs *fake_store_knobs(struct rg_store *store);
struct fake_counts *fake_store_counts(struct rg_store *store);

/* Puts an object there. */
void fake_store_add(struct rg_store *store, const char *key, const void *bytes, size_t len);

/* Whether an object is there and has these bytes. */
bool fake_store_is(struct rg_store *store, const char *key, const void *bytes, size_t len);

/* Whether an object is there. */
bool fake_store_has(struct rg_store *store, const char *key);

#endif
