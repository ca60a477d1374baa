/*
 * Locks of keys. Every writer, deleter and tagger of a key holds its lock while it looks and
 * changes, so that conditional requests are atomic, in this process and between gateways on one
 * tree.
 *
 * Two layers, always taken in this order: a mutex of this process (one of a fixed number, by the
 * byte), then one byte of <bucket>/.railgate/locks by an open-file-description lock. The byte is a
 * 40-bit hash of the key: a range lock needs one file for all keys, where a lock file each would
 * need a thousand. The descriptor is shared by all threads, which works because the mutex is a
 * function of the byte, so that two threads are never at one byte (the first to leave would take
 * the lock from both), and because such locks belong to the description.
 *
 * Waiting for another gateway is polling (these locks know no time-out), with growing pauses.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>

#define PAUSE_US_MAX    20000u
#define LOCK_BYTES_BITS 40

unsigned rg_posix_lock_wait_ms = 10000;

/*
 * GCC's ThreadSanitizer does not see locks that are taken against a named clock: under it waiting
 * goes by the wall clock.
 */
#ifdef __SANITIZE_THREAD__
static struct timespec wait_deadline(void)
{
    struct timespec at = rg_clock_wall();
    at.tv_sec += rg_posix_lock_wait_ms / 1000 + 1;
    return at;
}
#define lock_mutex_until(mutex, at) pthread_mutex_timedlock((mutex), (at))
#define lock_shared_until(lock, at) pthread_rwlock_timedrdlock((lock), (at))
#define lock_alone_until(lock, at)  pthread_rwlock_timedwrlock((lock), (at))
#else
static struct timespec wait_deadline(void)
{
    return rg_clock_deadline(rg_posix_lock_wait_ms);
}
#define lock_mutex_until(mutex, at) pthread_mutex_clocklock((mutex), CLOCK_MONOTONIC, (at))
#define lock_shared_until(lock, at) pthread_rwlock_clockrdlock((lock), CLOCK_MONOTONIC, (at))
#define lock_alone_until(lock, at)  pthread_rwlock_clockwrlock((lock), CLOCK_MONOTONIC, (at))
#endif

/* With a final mix. Part of the tree's format: all gateways on a tree must agree. */
static uint64_t hash_key(struct span key)
{
    uint64_t hash = rg_span_hash(key);
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static int fail_busy(enum rg_code busy, struct rg_error *err)
{
    return rg_failf(err, busy, "Another request held this key for longer than %u ms. Try again.",
                    rg_posix_lock_wait_ms);
}

/* Locks bytes of the file, 0 meaning all that can follow. Returns 0, -EAGAIN after the time-out, or
 * the negative errno. */
static int lock_bytes(int fd, int64_t first, int64_t count)
{
    uint64_t deadline = rg_clock_ms() + rg_posix_lock_wait_ms;
    useconds_t pause_us = 200;
    for (;;) {
        struct flock range = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
        if (fcntl(fd, F_OFD_SETLK, &range) == 0) {
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            return -errno;
        }
        if (rg_clock_ms() >= deadline) {
            return -EAGAIN;
        }
        usleep(pause_us);
        pause_us = pause_us * 2 > PAUSE_US_MAX ? PAUSE_US_MAX : pause_us * 2;
    }
}

/* False when the file system refuses. */
static bool unlock_bytes(int fd, int64_t first, int64_t count)
{
    struct flock range = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &range);
    } while (rc < 0 && errno == EINTR);
    return rc == 0;
}

/*
 * The lock counts only while the locks file is the one that others find: a bucket deleted, or a
 * .railgate removed by hand, leaves us with a file that nobody else will look at.
 */
static int check_alive(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    if (!rg_posix_is_removed(bucket->locks_fd >= 0 ? bucket->locks_fd : bucket->state_fd)) {
        return 0;
    }
    rg_posix_bucket_forget(bucket);
    if (rg_posix_bucket_is_gone(bucket)) {
        return rg_fail(err, RG_NO_SUCH_BUCKET);
    }
    return rg_failf(err, RG_SLOW_DOWN,
                    "The bucket's directory .railgate was removed while in use. Try again.");
}

static int lock_file(struct rg_posix_bucket *bucket, int64_t first, int64_t count,
                     enum rg_code busy, struct rg_error *err)
{
    int rc = lock_bytes(bucket->locks_fd, first, count);
    if (rc == -EAGAIN) {
        return fail_busy(busy, err);
    }
    return rc ? rg_fail_storage(err, -rc, "locking a key (fcntl of .railgate/locks)") : 0;
}

/* With `commits` held, which is given back when the bucket is going. */
static int check_not_gone(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    if (!bucket->gone) {
        return 0;
    }
    RG_MUST(pthread_rwlock_unlock(&bucket->commits));
    return rg_failf(err, RG_SLOW_DOWN, "The bucket is being deleted. Try again.");
}

int rg_posix_lock_key(struct rg_posix_bucket *bucket, struct span key, enum rg_code busy,
                      struct rg_posix_lock *ret_lock, struct rg_error *err)
{
    RG_ASSERT(atomic_load(&bucket->ready));
    int64_t byte = (int64_t)(hash_key(key) >> (64 - LOCK_BYTES_BITS));
    struct timespec deadline = wait_deadline();
    if (lock_shared_until(&bucket->commits, &deadline)) {
        return fail_busy(busy, err);
    }
    int rc = check_not_gone(bucket, err);
    if (rc) {
        return rc;
    }
    pthread_mutex_t *stripe = &bucket->stripes[byte % RG_POSIX_STRIPES];
    if (lock_mutex_until(stripe, &deadline)) {
        RG_MUST(pthread_rwlock_unlock(&bucket->commits));
        return fail_busy(busy, err);
    }
    struct rg_posix_lock lock = {.bucket = bucket, .stripe = stripe, .byte = -1};
    if (bucket->locks_fd >= 0) {
        rc = lock_file(bucket, byte, 1, busy, err);
        lock.byte = rc ? -1 : byte;
    }
    rc = rc ? rc : check_alive(bucket, err);
    if (rc) {
        rg_posix_unlock(&lock);
        return rc;
    }
    *ret_lock = lock;
    return 0;
}

int rg_posix_lock_bucket(struct rg_posix_bucket *bucket, struct rg_posix_lock *ret_lock,
                         struct rg_error *err)
{
    RG_ASSERT(atomic_load(&bucket->ready));
    struct timespec deadline = wait_deadline();
    if (lock_alone_until(&bucket->commits, &deadline)) {
        return fail_busy(RG_OPERATION_ABORTED, err);
    }
    int rc = check_not_gone(bucket, err);
    if (rc) {
        return rc;
    }
    struct rg_posix_lock lock = {.bucket = bucket, .stripe = NULL, .byte = -1};
    if (bucket->locks_fd >= 0) {
        rc = lock_file(bucket, 0, 0, RG_OPERATION_ABORTED, err);
        lock.byte = rc ? -1 : 0;
    }
    rc = rc ? rc : check_alive(bucket, err);
    if (rc) {
        rg_posix_unlock(&lock);
        return rc;
    }
    *ret_lock = lock;
    return 0;
}

void rg_posix_unlock(struct rg_posix_lock *lock)
{
    struct rg_posix_bucket *bucket = lock->bucket;
    if (!bucket) {
        return;
    }
    if (lock->byte >= 0 && !unlock_bytes(bucket->locks_fd, lock->byte, lock->stripe ? 1 : 0)) {
        /* The lock goes with the descriptor, when the last request that uses it ends. */
        rg_posix_bucket_forget(bucket);
    }
    if (lock->stripe) {
        RG_MUST(pthread_mutex_unlock(lock->stripe));
    }
    RG_MUST(pthread_rwlock_unlock(&bucket->commits));
    *lock = (struct rg_posix_lock)RG_POSIX_LOCK_INIT;
}
