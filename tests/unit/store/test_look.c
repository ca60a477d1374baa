/*
 * A list of all buckets while many of them hang: it comes back with all of them, and with no more
 * threads left behind than there may be.
 */
#include "tree.h"

#include "base/clock.h"
#include "store/posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANGING 100u /* more than may be looked at */
#define LOOKS   64u
#define WELL    30u

static _Atomic bool hangs;
static _Atomic int fails; /* with this errno */
static _Atomic unsigned inside;
static _Atomic unsigned calls;

int __real_openat64(int directory, const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, mode_t mode);
int __wrap_openat64(int directory, const char *path, int flags, mode_t mode)
{
    if (strncmp(path, "hanging-", 8) == 0) {
        atomic_fetch_add(&calls, 1);
        atomic_fetch_add(&inside, 1);
        while (atomic_load(&hangs)) {
            usleep(1000);
        }
        atomic_fetch_sub(&inside, 1);
        int failure = atomic_load(&fails);
        if (failure) {
            errno = failure;
            return -1;
        }
    }
    return __real_openat64(directory, path, flags, mode);
}

static void make_buckets(struct tree *tree, const char *name, unsigned count)
{
    char path[64];
    for (unsigned i = 0; i < count; i++) {
        snprintf(path, sizeof path, "../%s-%u", name, i);
        assert_int_equal(mkdir(path_of(tree, path), 0755), 0);
    }
}

static void prepare(struct tree *tree, unsigned count)
{
    assert_true(tree_make(tree, "local", 0));
    tree_set(tree, RG_SETTING_storage_timeout, "12s");
    tree_open(tree);
    make_buckets(tree, "hanging", count);
    make_buckets(tree, "well", WELL);
    atomic_store(&calls, 0);
}

/* All are there in order; returns how many hang. */
static unsigned list(struct tree *tree, unsigned count)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_bucket_info *buckets = NULL;
    size_t found = 0;
    if (rg_store_bucket_list(tree->store, &buckets, &found, &err) < 0) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(found, count + WELL + 1);
    unsigned hanging = 0;
    for (size_t i = 0; i < found; i++) {
        assert_true(i == 0 || strcmp(buckets[i - 1].name, buckets[i].name) < 0);
        assert_int_equal(buckets[i].hangs, buckets[i].created.tv_sec == 0);
        hanging += buckets[i].hangs;
    }
    free(buckets);
    return hanging;
}

static void let_go(void)
{
    atomic_store(&hangs, false);
    for (int i = 0; i < 10000 && atomic_load(&inside) > 0; i++) {
        usleep(1000);
    }
    assert_int_equal(atomic_load(&inside), 0);
}

/* The threads are on their way back. */
static void list_until_none_hangs(struct tree *tree, unsigned count)
{
    unsigned hanging = 1;
    for (int i = 0; i < 100 && hanging; i++) {
        hanging = list(tree, count);
        usleep(10000);
    }
    assert_int_equal(hanging, 0);
}

struct lister {
    struct tree *tree;
    unsigned count;
    pthread_t thread;
};

static void *list_once(void *argument)
{
    const struct lister *lister = argument;
    return (void *)(uintptr_t)(list(lister->tree, lister->count) == lister->count);
}

/* So many lists at once: in each, all that may hang do. */
static void list_at_once(struct tree *tree, unsigned count, size_t lists)
{
    struct lister listers[LOOKS + 6];
    assert_in_range(lists, 1, RG_ARRAY_LENGTH(listers));
    for (size_t i = 0; i < lists; i++) {
        listers[i] = (struct lister){.tree = tree, .count = count};
        assert_int_equal(pthread_create(&listers[i].thread, NULL, list_once, &listers[i]), 0);
    }
    for (size_t i = 0; i < lists; i++) {
        void *right;
        assert_int_equal(pthread_join(listers[i].thread, &right), 0);
        assert_non_null(right);
    }
}

static void test_many_buckets_hang(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, 40);
    atomic_store(&hangs, true);
    uint64_t begun_ms = rg_clock_ms();
    assert_int_equal(list(&tree, 40), 40);
    assert_true(rg_clock_ms() - begun_ms < 20000);
    /* Nobody looks again, and those that answer are looked at. */
    assert_int_equal(list(&tree, 40), 40);
    assert_int_equal(atomic_load(&calls), 40);
    /* Nor does who sweeps. */
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(tree_sweep(&tree, &err), 0);
    assert_int_equal(atomic_load(&calls), 40);
    let_go();
    list_until_none_hangs(&tree, 40);
    tree_remove(&tree);
}

/* The rest is not looked at then. */
static void test_more_buckets_hang_than_may_be_looked_at(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, HANGING);
    atomic_store(&hangs, true);
    assert_true(list(&tree, HANGING) >= HANGING);
    assert_int_equal(atomic_load(&calls), LOOKS);
    assert_true(list(&tree, HANGING) >= HANGING);
    assert_int_equal(atomic_load(&calls), LOOKS);
    /* What they use outlives the store. */
    tree_close(&tree);
    let_go();
    tree_remove(&tree);
}

static void test_lists_at_once(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, 5);
    atomic_store(&hangs, true);
    list_at_once(&tree, 5, 8);
    unsigned before = atomic_load(&calls);
    assert_int_equal(list(&tree, 5), 5);
    assert_int_equal(atomic_load(&calls), before);
    let_go();
    tree_remove(&tree);
}

static _Atomic bool listed;

static void *list_patiently(void *argument)
{
    unsigned hanging = list(argument, 5);
    atomic_store(&listed, true);
    return (void *)(uintptr_t)(hanging == 0);
}

/* What is known to be on the root's own mount has no date but its own. */
static void test_the_root_is_waited_for(void **state)
{
    (void)state;
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_store_mount *mounts;
    size_t count;
    size_t left_out;
    pthread_t thread;
    void *right;
    prepare(&tree, 5);
    assert_int_equal(rg_store_mounts(tree.store, &mounts, &count, &left_out, &err), 0);
    rg_store_mounts_free(mounts, count);
    assert_int_equal(count, 0);
    atomic_store(&hangs, true);
    atomic_store(&listed, false);
    assert_int_equal(pthread_create(&thread, NULL, list_patiently, &tree), 0);
    usleep(2500000); /* longer than a look may take elsewhere */
    assert_false(atomic_load(&listed));
    let_go();
    assert_int_equal(pthread_join(thread, &right), 0);
    assert_non_null(right);
    tree_remove(&tree);
}

/* As the table of mounts has it: so many buckets that may hang are mounts, the others are not. */
static void learn(struct tree *tree, unsigned count, uint64_t first_id)
{
    static char names[HANGING][16];
    static struct rg_store_mount mounts[HANGING];
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "hanging-%u", i);
        mounts[i] = (struct rg_store_mount){.path = names[i], .id = first_id + i};
    }
    rg_posix_looks_learn(rg_posix_of(tree->store)->looks,
                         &(struct rg_posix_mount_table){.mounts = mounts, .count = count});
}

/* Whatever hangs elsewhere, what is on the root's own mount is looked at. */
static void test_the_others_are_looked_at(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, HANGING);
    learn(&tree, HANGING, 1);
    atomic_store(&hangs, true);
    assert_int_equal(list(&tree, HANGING), HANGING);
    assert_int_equal(list(&tree, HANGING), HANGING);
    assert_in_range(atomic_load(&calls), 1, LOOKS);
    let_go();
    tree_remove(&tree);
}

static void test_many_lists_meet_one_that_hangs(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, 1);
    learn(&tree, 1, 1);
    atomic_store(&hangs, true);
    list_at_once(&tree, 1, LOOKS + 6);
    assert_int_equal(list(&tree, 1), 1);
    let_go();
    tree_remove(&tree);
}

/* What is mounted there instead is another matter, and an automount trigger is one like a mount. */
static void test_mounted_anew(void **state)
{
    (void)state;
    struct tree tree;
    prepare(&tree, 1);
    learn(&tree, 1, 1);
    atomic_store(&hangs, true);
    assert_int_equal(list(&tree, 1), 1);
    assert_int_equal(list(&tree, 1), 1);
    assert_int_equal(atomic_load(&calls), 1);
    learn(&tree, 1, 2);
    assert_int_equal(list(&tree, 1), 1);
    assert_int_equal(atomic_load(&calls), 2);
    struct rg_store_mount trigger = {.path = (char[]){"hanging-0"}, .id = 3};
    rg_posix_looks_learn(rg_posix_of(tree.store)->looks,
                         &(struct rg_posix_mount_table){.triggers = &trigger, .trigger_count = 1});
    assert_int_equal(list(&tree, 1), 1);
    assert_int_equal(atomic_load(&calls), 3);
    let_go();
    list_until_none_hangs(&tree, 1);
    unsigned before = atomic_load(&calls);
    assert_int_equal(list(&tree, 1), 0);
    assert_int_equal(atomic_load(&calls), before + 1);
    tree_remove(&tree);
}

/* A dead mount takes no other bucket with it; what is wrong with us is told. */
static void test_buckets_that_fail(void **state)
{
    static const int failures[] = {EIO, ENOTCONN, ESTALE, ETIMEDOUT};
    (void)state;
    struct tree tree;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_bucket_info *buckets = NULL;
    size_t count = 0;
    prepare(&tree, 5);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(failures); i++) {
        atomic_store(&fails, failures[i]);
        assert_int_equal(list(&tree, 5), 5);
    }
    atomic_store(&fails, EMFILE);
    assert_true(rg_store_bucket_list(tree.store, &buckets, &count, &err) < 0);
    atomic_store(&fails, 0);
    assert_int_equal(list(&tree, 5), 0);
    tree_remove(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_buckets_hang),
        cmocka_unit_test(test_more_buckets_hang_than_may_be_looked_at),
        cmocka_unit_test(test_lists_at_once),
        cmocka_unit_test(test_the_root_is_waited_for),
        cmocka_unit_test(test_the_others_are_looked_at),
        cmocka_unit_test(test_many_lists_meet_one_that_hangs),
        cmocka_unit_test(test_mounted_anew),
        cmocka_unit_test(test_buckets_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
