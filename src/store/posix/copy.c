/*
 * Copying bytes between files: reflink, else copy_file_range, else reading and writing on several
 * threads. Knows nothing of objects.
 *
 * copy_file_range is asked of the kernel in bounded pieces on a thread of its own: on some network
 * file systems a server drops the request and the call never returns. A call that makes no progress
 * within the setting copy_timeout is left alone with its descriptors, and the caller told to begin
 * again with another target.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#define RANGE_PIECE   (16u << 20)
#define RANGE_LEN_MIN (1u << 20) /* below, a thread costs more than it saves */
#define PLAIN_BUFFER  (1u << 20)
#define PLAIN_CLAIM   (8u << 20)
#define PLAIN_THREADS 4  /* of one copy, the caller's included */
#define HELPERS_MAX   16 /* of all copies together */

rg_posix_range_call *_Atomic rg_posix_copy_file_range = copy_file_range;

/* One copy: what is still to do. */
struct range {
    int source_fd;
    uint64_t source_offset;
    int target_fd;
    uint64_t target_offset;
    uint64_t len;
};

static void advance(struct range *range, uint64_t len)
{
    range->source_offset += len;
    range->target_offset += len;
    range->len -= len;
}

/* The file system cannot, or will not, do it this way; another way may work. */
static bool is_refusal(int os_errno)
{
    switch (os_errno) {
    case EXDEV:
    case EOPNOTSUPP:
    case EINVAL:
    case ENOSYS:
    case EPERM:
    case EBADF:
    case ETXTBSY:
    case EISDIR:
        return true;
    default:
        return false;
    }
}

static void count(struct rg_posix *posix, enum rg_copy_used used, uint64_t bytes)
{
    atomic_fetch_add(&posix->copy_bytes[used], bytes);
    atomic_fetch_add(&posix->copy_count[used], 1);
}

/* ---- Reflink ---- */

/* Shares as much as block boundaries allow. Returns 0 or the negative errno. */
static int clone_blocks(struct range *range, uint64_t *ret_len)
{
    struct stat source;
    struct stat target;
    *ret_len = 0;
    if (fstat(range->source_fd, &source) < 0 || fstat(range->target_fd, &target) < 0) {
        return -errno;
    }
    uint64_t block = (uint64_t)RG_MAX(source.st_blksize, target.st_blksize);
    if (block == 0 || block > (1u << 20) || range->source_offset % block ||
        range->target_offset % block) {
        return -EINVAL;
    }
    bool to_end = range->source_offset + range->len == (uint64_t)source.st_size;
    uint64_t len = to_end ? range->len : range->len / block * block;
    if (len == 0) {
        return -EINVAL;
    }
    struct file_clone_range clone = {
        .src_fd = range->source_fd,
        .src_offset = range->source_offset,
        .src_length = len,
        .dest_offset = range->target_offset,
    };
    if (ioctl(range->target_fd, FICLONERANGE, &clone) < 0) {
        return -errno;
    }
    *ret_len = len;
    return 0;
}

/* ---- copy_file_range ---- */

struct range_job {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned references; /* the thread and the waiter */
    struct range range;  /* descriptors are its own */
    uint64_t done;
    bool finished;
    bool abandoned;
    int os_errno; /* 0 with bytes left: the call says that there are no more */
};

static void release_job(struct range_job *job)
{
    RG_MUST(pthread_mutex_lock(&job->mutex));
    bool last = --job->references == 0;
    RG_MUST(pthread_mutex_unlock(&job->mutex));
    if (!last) {
        return;
    }
    if (job->range.source_fd >= 0) {
        close(job->range.source_fd);
    }
    if (job->range.target_fd >= 0) {
        close(job->range.target_fd);
    }
    RG_MUST(pthread_cond_destroy(&job->changed));
    RG_MUST(pthread_mutex_destroy(&job->mutex));
    free(job);
}

static void *run_range_job(void *argument)
{
    struct range_job *job = argument;
    struct range range = job->range;
    rg_posix_range_call *copy = atomic_load(&rg_posix_copy_file_range);
    /* Given up before it began, on a machine too busy to start it: not a byte is written late. */
    RG_MUST(pthread_mutex_lock(&job->mutex));
    bool go_on = !job->abandoned;
    RG_MUST(pthread_mutex_unlock(&job->mutex));
    while (go_on && range.len) {
        off64_t from = (off64_t)range.source_offset;
        off64_t to = (off64_t)range.target_offset;
        ssize_t len = copy(range.source_fd, &from, range.target_fd, &to,
                           RG_MIN(range.len, (uint64_t)RANGE_PIECE), 0);
        int os_errno = len < 0 ? errno : 0;
        if (len < 0 && os_errno == EINTR) {
            continue;
        }
        if (len > 0) {
            advance(&range, (uint64_t)len);
        }
        RG_MUST(pthread_mutex_lock(&job->mutex));
        job->done += len > 0 ? (uint64_t)len : 0;
        job->os_errno = os_errno;
        go_on = len > 0 && !job->abandoned;
        RG_MUST(pthread_cond_signal(&job->changed));
        RG_MUST(pthread_mutex_unlock(&job->mutex));
    }
    RG_MUST(pthread_mutex_lock(&job->mutex));
    job->finished = true;
    RG_MUST(pthread_cond_signal(&job->changed));
    RG_MUST(pthread_mutex_unlock(&job->mutex));
    release_job(job);
    return NULL;
}

static struct range_job *start_range_job(const struct range *range)
{
    struct range_job *job = calloc(1, sizeof *job);
    if (!job) {
        return NULL;
    }
    job->range = *range;
    job->range.source_fd = fcntl(range->source_fd, F_DUPFD_CLOEXEC, 0);
    job->range.target_fd = fcntl(range->target_fd, F_DUPFD_CLOEXEC, 0);
    RG_MUST(pthread_mutex_init(&job->mutex, NULL));
    RG_MUST(pthread_cond_init(&job->changed, NULL));
    job->references = 2;
    pthread_attr_t attributes;
    RG_MUST(pthread_attr_init(&attributes));
    RG_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    pthread_t thread;
    bool started = job->range.source_fd >= 0 && job->range.target_fd >= 0 &&
                   pthread_create(&thread, &attributes, run_range_job, job) == 0;
    RG_MUST(pthread_attr_destroy(&attributes));
    if (!started) {
        job->references = 1;
        release_job(job);
        return NULL;
    }
    return job;
}

/* *ret_hung: the call did not come back. Otherwise 0 or the negative errno, and *ret_len bytes are
 * in the target. */
static int copy_range(const struct range *range, uint64_t timeout_ms, uint64_t *ret_len,
                      bool *ret_hung)
{
    *ret_len = 0;
    *ret_hung = false;
    struct range_job *job = start_range_job(range);
    if (!job) {
        return -EOPNOTSUPP; /* no thread now: copy by hand */
    }
    RG_MUST(pthread_mutex_lock(&job->mutex));
    uint64_t seen = 0;
    struct timespec deadline = rg_clock_deadline(timeout_ms);
    while (!job->finished && !job->abandoned) {
        if (job->done != seen) {
            seen = job->done;
            deadline = rg_clock_deadline(timeout_ms);
        }
        int rc = pthread_cond_clockwait(&job->changed, &job->mutex, CLOCK_MONOTONIC, &deadline);
        job->abandoned = rc == ETIMEDOUT && job->done == seen && !job->finished;
    }
    *ret_len = job->done;
    *ret_hung = job->abandoned;
    int rc = -job->os_errno;
    RG_MUST(pthread_mutex_unlock(&job->mutex));
    release_job(job);
    return rc;
}

/* ---- Reading and writing ---- */

struct plain_copy {
    struct range range;
    _Atomic uint64_t claimed;
    _Atomic int os_errno; /* of whoever failed first; -1: the source was too short */
};

static int copy_piece(const struct range *range, char *buffer, uint64_t offset, uint64_t len)
{
    while (len) {
        ssize_t got = pread(range->source_fd, buffer, RG_MIN(len, (uint64_t)PLAIN_BUFFER),
                            (off_t)(range->source_offset + offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got ? errno : -1;
        }
        for (ssize_t put = 0; put < got;) {
            ssize_t n = pwrite(range->target_fd, buffer + put, (size_t)(got - put),
                               (off_t)(range->target_offset + offset) + put);
            if (n < 0 && errno != EINTR) {
                return errno;
            }
            put += n > 0 ? n : 0;
        }
        offset += (uint64_t)got;
        len -= (uint64_t)got;
    }
    return 0;
}

static void *run_plain_copy(void *argument)
{
    struct plain_copy *copy = argument;
    int none = 0;
    rg_autofree char *buffer = NULL;
    if (posix_memalign((void **)&buffer, 4096, PLAIN_BUFFER)) {
        buffer = NULL;
        atomic_compare_exchange_strong(&copy->os_errno, &none, ENOMEM);
        return NULL;
    }
    for (;;) {
        uint64_t offset = atomic_fetch_add(&copy->claimed, PLAIN_CLAIM);
        if (offset >= copy->range.len || atomic_load(&copy->os_errno)) {
            return NULL;
        }
        uint64_t len = RG_MIN(copy->range.len - offset, (uint64_t)PLAIN_CLAIM);
        int rc = copy_piece(&copy->range, buffer, offset, len);
        if (rc) {
            none = 0;
            atomic_compare_exchange_strong(&copy->os_errno, &none, rc);
            return NULL;
        }
    }
}

static bool take_helper(struct rg_posix *posix)
{
    if (atomic_fetch_add(&posix->copy_helpers, 1) < HELPERS_MAX) {
        return true;
    }
    atomic_fetch_sub(&posix->copy_helpers, 1);
    return false;
}

static int copy_plain(struct rg_posix *posix, const struct range *range, struct rg_error *err)
{
    struct plain_copy copy = {.range = *range};
    pthread_t threads[PLAIN_THREADS - 1];
    size_t started = 0;
    for (uint64_t left = range->len; left > PLAIN_CLAIM && started < RG_ARRAY_LENGTH(threads);
         left -= PLAIN_CLAIM) {
        if (!take_helper(posix)) {
            break;
        }
        if (pthread_create(&threads[started], NULL, run_plain_copy, &copy)) {
            atomic_fetch_sub(&posix->copy_helpers, 1);
            break;
        }
        started++;
    }
    run_plain_copy(&copy);
    for (size_t i = 0; i < started; i++) {
        RG_MUST(pthread_join(threads[i], NULL));
        atomic_fetch_sub(&posix->copy_helpers, 1);
    }
    int os_errno = atomic_load(&copy.os_errno);
    if (os_errno < 0) {
        return rg_failf(
            err, RG_STORAGE_FAULT,
            "The source became shorter while it was copied: another program changed it.");
    }
    if (os_errno == ENOMEM) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    return os_errno ? rg_fail_storage(err, os_errno, "copying bytes") : 0;
}

/* ---- The choice ---- */

static bool may_use(const struct rg_posix *posix, enum rg_copy_method method)
{
    int64_t wanted = posix->settings->copy_method;
    return wanted == RG_COPY_AUTO || wanted == (int64_t)method;
}

int rg_posix_copy(struct rg_posix *posix, struct rg_posix_mount *mount, int source_fd,
                  uint64_t source_offset, int target_fd, uint64_t target_offset, uint64_t len,
                  enum rg_copy_used *ret_used, struct rg_error *err)
{
    struct range left = {
        .source_fd = source_fd,
        .source_offset = source_offset,
        .target_fd = target_fd,
        .target_offset = target_offset,
        .len = len,
    };
    *ret_used = RG_COPY_USED_NONE;

    if (left.len && may_use(posix, RG_COPY_REFLINK) && atomic_load(&mount->reflink)) {
        uint64_t done = 0;
        int rc = clone_blocks(&left, &done);
        if (rc && !is_refusal(-rc)) {
            return rg_fail_storage(err, -rc, "sharing blocks (FICLONERANGE)");
        }
        if (done) {
            advance(&left, done);
            count(posix, RG_COPY_USED_REFLINK, done);
            *ret_used = RG_COPY_USED_REFLINK;
        }
        if (rc) {
            atomic_fetch_add(&posix->copy_fallbacks, 1);
        }
    }
    if (left.len >= RANGE_LEN_MIN && may_use(posix, RG_COPY_RANGE) &&
        atomic_load(&mount->copy_range)) {
        uint64_t done = 0;
        bool hung = false;
        int rc = copy_range(&left, (uint64_t)posix->settings->copy_timeout, &done, &hung);
        if (hung) {
            atomic_fetch_add(&posix->copy_fallbacks, 1);
            atomic_store(&mount->copy_range, false);
            return rg_failf(err, RG_TIMED_OUT,
                            "copy_file_range made no progress for %lld ms and was given up.",
                            (long long)posix->settings->copy_timeout);
        }
        if (rc && !is_refusal(-rc)) {
            return rg_fail_storage(err, -rc, "copying bytes (copy_file_range)");
        }
        if (done) {
            advance(&left, done);
            count(posix, RG_COPY_USED_RANGE, done);
            *ret_used = RG_COPY_USED_RANGE;
        }
        if (left.len) {
            atomic_fetch_add(&posix->copy_fallbacks, 1);
        }
    }
    if (left.len) {
        int rc = copy_plain(posix, &left, err);
        if (rc) {
            return rc;
        }
        count(posix, RG_COPY_USED_PLAIN, left.len);
        *ret_used = RG_COPY_USED_PLAIN;
    }
    return 0;
}
