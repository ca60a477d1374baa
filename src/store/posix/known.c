/*
 * The mounts that have proved what they can do (probe.c), by their st_dev: for as long as it is
 * theirs. The kernel gives the number of a file system that is gone to the next one, which proves
 * itself anew. That one is gone is told by inotify, which keeps nothing mounted.
 */
#include "store/posix/posix.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define EVENTS_BYTES 4096

int rg_posix_known_watch(void)
{
    return inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

/* ---- What is gone; with the mutex held ---- */

/* When some were not told, it may be any; but what the store stands on is held by it. */
static void forget(struct rg_posix *posix, const struct inotify_event *event)
{
    bool any = event->mask & IN_Q_OVERFLOW;
    for (size_t i = 1; i < posix->mount_count; i++) {
        struct rg_posix_mount *mount = posix->mounts[i];
        if (any || (mount->watch == event->wd && (event->mask & IN_IGNORED))) {
            mount->is_gone = true;
        }
    }
}

static void forget_gone(struct rg_posix *posix)
{
    _Alignas(struct inotify_event) char events[EVENTS_BYTES];
    ssize_t len;
    while (posix->known_fd >= 0 && (len = read(posix->known_fd, events, sizeof events)) > 0) {
        for (const char *at = events; at < events + len;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            forget(posix, event);
            at += sizeof *event + event->len;
        }
    }
}

static struct rg_posix_mount *find(struct rg_posix *posix, dev_t device)
{
    if (posix->mount_count && posix->mounts[0]->device == device) {
        return posix->mounts[0];
    }
    forget_gone(posix);
    for (size_t i = 0; i < posix->mount_count; i++) {
        if (posix->mounts[i]->device == device && !posix->mounts[i]->is_gone) {
            return posix->mounts[i];
        }
    }
    return NULL;
}

static bool is_same(const struct rg_posix_mount *a, const struct rg_posix_mount *b)
{
    return a->device == b->device && a->magic == b->magic && strcmp(a->type, b->type) == 0 &&
           a->lustre == b->lustre && a->local == b->local && a->xattrs == b->xattrs &&
           a->xattr_max == b->xattr_max && a->tmpfile == b->tmpfile &&
           a->noreplace == b->noreplace && a->fallocate == b->fallocate &&
           a->direct_io == b->direct_io && a->dir_fsync == b->dir_fsync &&
           a->exact_times == b->exact_times && a->fine_times == b->fine_times &&
           a->stripes == b->stripes && a->locks == b->locks && a->shared_locks == b->shared_locks &&
           atomic_load(&a->reflink) == atomic_load(&b->reflink) &&
           atomic_load(&a->copy_range) == atomic_load(&b->copy_range);
}

/*
 * What is gone is not freed, since somebody may still be at it; but one that comes back as it was
 * takes its old place, so that there are no more of them than kinds of mounts. Takes `*proved`.
 */
static struct rg_posix_mount *add(struct rg_posix *posix, struct rg_posix_mount **proved)
{
    for (size_t i = 0; i < posix->mount_count; i++) {
        struct rg_posix_mount *old = posix->mounts[i];
        if (old->is_gone && is_same(old, *proved)) {
            old->is_gone = false;
            old->watch = (*proved)->watch;
            return old;
        }
    }
    if (posix->mount_count == RG_POSIX_MOUNTS_MAX) {
        return NULL;
    }
    return posix->mounts[posix->mount_count++] = RG_TAKE(*proved);
}

/* ---- Watching for the end ---- */

/* The uppermost directory of the mount, since that is never removed. */
static int open_top(int directory_fd)
{
    rg_autoclose int fd = fcntl(directory_fd, F_DUPFD_CLOEXEC, 0);
    struct stat st;
    struct stat above;
    bool is_top = fd < 0 || fstat(fd, &st) < 0;
    while (!is_top) {
        rg_autoclose int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        is_top = up < 0 || fstat(up, &above) < 0 || above.st_dev != st.st_dev ||
                 above.st_ino == st.st_ino;
        if (!is_top) {
            close(fd);
            fd = RG_TAKE_FD(up);
            st = above;
        }
    }
    return RG_TAKE_FD(fd);
}

static int add_watch(struct rg_posix *posix, int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : inotify_add_watch(posix->known_fd, path, IN_DELETE_SELF | IN_ONLYDIR);
}

/*
 * Of a directory that is open: nothing is missed until it is closed. Where the top is another
 * user's the directory itself does; when it is removed that only costs a probe. -1 where there can
 * be no watch: that mount is never forgotten.
 */
static int watch(struct rg_posix *posix, int directory_fd)
{
    if (posix->known_fd < 0) {
        return -1;
    }
    rg_autoclose int top = open_top(directory_fd);
    int made = add_watch(posix, top);
    return made >= 0 ? made : add_watch(posix, directory_fd);
}

/* ---- For everybody ---- */

struct rg_posix_mount *rg_posix_mount_known(struct rg_posix *posix, dev_t device)
{
    RG_MUST(pthread_mutex_lock(&posix->mounts_mutex));
    struct rg_posix_mount *mount = find(posix, device);
    RG_MUST(pthread_mutex_unlock(&posix->mounts_mutex));
    return mount;
}

bool rg_posix_fd_direct(struct rg_store *store, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return false;
    }
    const struct rg_posix_mount *mount = rg_posix_mount_known(rg_posix_of(store), st.st_dev);
    return mount && mount->direct_io;
}

int rg_posix_mount_get(struct rg_posix *posix, int directory_fd, struct rg_posix_mount **ret_mount,
                       struct rg_error *err)
{
    struct stat st;
    if (fstat(directory_fd, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at a directory");
    }
    struct rg_posix_mount *mount = rg_posix_mount_known(posix, st.st_dev);
    if (mount) {
        *ret_mount = mount;
        return 0;
    }
    /* Without the mutex: a mount that hangs must not hold up requests on others. */
    struct rg_posix_mount *proved = NULL;
    int rc = rg_posix_mount_prove(posix, directory_fd, &proved, err);
    if (rc) {
        return rc;
    }
    proved->device = st.st_dev;
    proved->watch = watch(posix, directory_fd);
    RG_MUST(pthread_mutex_lock(&posix->mounts_mutex));
    mount = find(posix, st.st_dev);
    mount = mount ? mount : add(posix, &proved);
    RG_MUST(pthread_mutex_unlock(&posix->mounts_mutex));
    free(proved);
    if (!mount) {
        return rg_failf(err, RG_STORAGE_UNSUPPORTED,
                        "There were more than %d mounts below the root since the start.",
                        RG_POSIX_MOUNTS_MAX);
    }
    *ret_mount = mount;
    return 0;
}

int rg_posix_mount_at(struct rg_posix_bucket *bucket, int directory_fd,
                      struct rg_posix_mount **ret_mount, struct rg_error *err)
{
    RG_ASSERT(atomic_load(&bucket->ready));
    struct stat st;
    if (fstat(directory_fd, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at a directory");
    }
    if (st.st_dev == bucket->mount->device) {
        *ret_mount = bucket->mount;
        return 0;
    }
    return rg_posix_mount_get(bucket->posix, directory_fd, ret_mount, err);
}
