/*
 * The POSIX backend: opening and closing it, the table of its calls, counters. What the calls do
 * stands in the files beside this one; posix.h describes the tree they keep.
 */
#include "store/posix/posix.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define OWNER_BYTES_MAX 512
#define MARK_TRIES      16

static const struct rg_store_ops ops;

/* ---- A tree without shared locks belongs to one gateway ---- */

static struct span read_line(const char *path, char *text, size_t room)
{
    rg_autofclose FILE *file = fopen(path, "re");
    if (!file || !fgets(text, (int)room, file)) {
        text[0] = '\0';
    }
    text[strcspn(text, "\n")] = '\0';
    return rg_span_text(text);
}

/* Who we are: machine and host name. Processes are told apart by the lock on the file. */
static void describe_self(char text[OWNER_BYTES_MAX])
{
    char machine[64];
    char host[256] = "";
    read_line("/etc/machine-id", machine, sizeof machine);
    gethostname(host, sizeof host - 1);
    snprintf(text, OWNER_BYTES_MAX, "%s %s\n", machine[0] ? machine : "-", host);
}

static int refuse_second(const struct rg_posix *posix, const char *who, struct rg_error *err)
{
    return rg_failf(
        err, RG_STORAGE_UNSUPPORTED,
        "%s: this mount has no locks that gateways share, so only one may serve it, and "
        "%.*s already does. If that one is gone for good, remove " RG_POSIX_STATE_DIR
        "/owner there.",
        posix->root_path, (int)strcspn(who, "\n"), who[0] ? who : "another gateway");
}

static bool is_mark(int state_fd, int fd)
{
    struct stat own;
    struct stat named;
    return fstat(fd, &own) == 0 && fstatat(state_fd, "owner", &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/* Whoever stops takes the mark away: a lock on one that has no name any more keeps nobody out. */
static int lock_mark(struct rg_posix *posix, int state_fd, bool *ret_held, struct rg_error *err)
{
    for (int i = 0; i < MARK_TRIES; i++) {
        rg_autoclose int fd =
            openat(state_fd, "owner", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) {
            return rg_fail_storage(err, errno, "%s: making .railgate/owner", posix->root_path);
        }
        bool held = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (held || is_mark(state_fd, fd)) {
            posix->owner_fd = RG_TAKE_FD(fd);
            *ret_held = held;
            return 0;
        }
    }
    return refuse_second(posix, "", err);
}

/*
 * Leaves a mark in <root>/.railgate/owner, and holds an flock on it (which works among the
 * processes of one machine even where it does not work between machines). A mark of ours without a
 * holder is left from a crash; one of another machine can only be judged by a person.
 */
static int mark_tree(struct rg_posix *posix, int state_fd, struct rg_error *err)
{
    char self[OWNER_BYTES_MAX];
    char other[OWNER_BYTES_MAX] = "";
    describe_self(self);
    bool held = false;
    int rc = lock_mark(posix, state_fd, &held, err);
    if (rc) {
        return rc;
    }
    int fd = posix->owner_fd;
    ssize_t len = pread(fd, other, sizeof other - 1, 0);
    if (len < 0) {
        return rg_fail_storage(err, errno, "%s: reading .railgate/owner", posix->root_path);
    }
    other[len] = '\0';
    if (held || (len && strcmp(self, other) != 0)) {
        return refuse_second(posix, other, err);
    }
    if (pwrite(fd, self, strlen(self), 0) != (ssize_t)strlen(self) || fsync(fd) < 0) {
        return rg_fail_storage(err, errno, "%s: writing .railgate/owner", posix->root_path);
    }
    posix->marked = true;
    return 0;
}

static void unmark_tree(struct rg_posix *posix)
{
    if (posix->marked) {
        unlinkat(posix->root, RG_POSIX_STATE_DIR "/owner", 0);
    }
    if (posix->owner_fd >= 0) {
        close(posix->owner_fd);
    }
}

/* ---- Opening and closing ---- */

static void close_posix(struct rg_store *store)
{
    struct rg_posix *posix = rg_posix_of(store);
    rg_posix_buckets_free(posix);
    if (posix->listing) {
        rg_posix_listing_free(posix->listing);
    }
    if (posix->looks) {
        rg_posix_looks_release(posix->looks);
    }
    for (size_t i = 0; i < posix->mount_count; i++) {
        free(posix->mounts[i]);
    }
    unmark_tree(posix);
    if (posix->root >= 0) {
        close(posix->root);
    }
    rg_cleanup_close(&posix->mounts_fd);
    rg_cleanup_close(&posix->known_fd);
    RG_MUST(pthread_mutex_destroy(&posix->mounts_mutex));
    RG_MUST(pthread_mutex_destroy(&posix->buckets_mutex));
    free(posix->root_path);
    free(posix->real_path);
    free(posix);
}

static void cleanup_posix(struct rg_posix **posix)
{
    if (*posix) {
        close_posix(&(*posix)->store);
    }
}

static struct rg_posix *new_posix(const struct rg_settings *settings)
{
    struct rg_posix *posix = calloc(1, sizeof *posix);
    if (!posix) {
        return NULL;
    }
    posix->store.ops = &ops;
    posix->settings = settings;
    posix->root = -1;
    posix->owner_fd = -1;
    posix->mounts_fd = -1;
    posix->known_fd = -1;
    RG_MUST(pthread_mutex_init(&posix->mounts_mutex, NULL));
    RG_MUST(pthread_mutex_init(&posix->buckets_mutex, NULL));
    return posix;
}

static int open_directory(int directory_fd, const char *name, int *ret_fd)
{
    if (mkdirat(directory_fd, name, 0700) < 0 && errno != EEXIST) {
        return -errno;
    }
    *ret_fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

/* Whoever starts a service is not always who it runs as. */
static const char *who_must(int os_errno)
{
    return os_errno == EACCES
               ? " (the user that the gateway runs as must be able to read and write there)"
               : "";
}

static int probe_root(struct rg_posix *posix, struct rg_error *err)
{
    /* Without openat2 nothing here could promise to stay below the root. */
    rg_autoclose int beneath = rg_posix_open_beneath(posix->root, RG_SPAN_EMPTY, O_PATH, false);
    if (beneath < 0) {
        return rg_fail_errno(err, RG_STORAGE_UNSUPPORTED, -beneath,
                             "%s: openat2 (Linux 5.6 and later) does not work here",
                             posix->root_path);
    }
    rg_autoclose int state_fd = -1;
    rg_autoclose int temp_fd = -1;
    int rc = open_directory(posix->root, RG_POSIX_STATE_DIR, &state_fd);
    rc = rc ? rc : open_directory(state_fd, "tmp", &temp_fd);
    if (rc) {
        return rg_fail_storage(err, -rc,
                               "%s: making " RG_POSIX_STATE_DIR "/tmp to probe the mount%s",
                               posix->root_path, who_must(-rc));
    }
    rc = rg_posix_mount_get(posix, temp_fd, &posix->root_mount, err);
    if (rc) {
        return rc;
    }
    /* Health goes without it where there is no room. */
    rg_autoclose int health_fd =
        openat(state_fd, RG_POSIX_HEALTH_FILE,
               O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (posix->root_mount->shared_locks) {
        return 0;
    }
    return mark_tree(posix, state_fd, err);
}

int rg_store_posix_open(const char *root, const struct rg_settings *settings,
                        struct rg_store **ret_store, struct rg_buf *ret_summary,
                        struct rg_error *err)
{
    RG_CLEANUP(cleanup_posix) struct rg_posix *posix = new_posix(settings);
    if (!posix) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    posix->root_path = strdup(root);
    posix->listing = rg_posix_listing_new((size_t)settings->listing_memory);
    posix->store.place = posix->root_path;
    if (!posix->root_path || !posix->listing) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_posix_mask_read(settings->mask, &posix->masked, err);
    rc = rc ? rc : rg_posix_stripes_check(settings, err);
    if (rc) {
        return rc;
    }
    posix->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (posix->root < 0) {
        int failed = errno;
        return rg_fail_storage(err, failed, "opening the root directory %s%s", root,
                               failed == ENOENT ? " (which has to be there)" : who_must(failed));
    }
    posix->real_path = realpath(root, NULL);
    if (!posix->real_path) {
        return rg_fail_storage(err, errno, "looking up the root directory %s", root);
    }
    posix->mounts_fd = rg_posix_mounts_watch();
    posix->known_fd = rg_posix_known_watch();
    rc = rg_posix_looks_new(posix->root, &posix->looks, err);
    rc = rc ? rc : probe_root(posix, err);
    if (rc) {
        return rc;
    }
    rg_posix_mount_describe(posix, posix->root_mount, ret_summary);
    *ret_store = &RG_TAKE(posix)->store;
    return 0;
}

/* ---- Counters ---- */

static void read_counters(struct rg_store *store, struct rg_store_counters *ret_counters)
{
    struct rg_posix *posix = rg_posix_of(store);
    struct rg_store_counters counters = {
        .copy_fallbacks = atomic_load(&posix->copy_fallbacks),
        .swept_temporaries = atomic_load(&posix->swept_temporaries),
        .swept_uploads = atomic_load(&posix->swept_uploads),
        .sweep_failures = atomic_load(&posix->sweep_failures),
    };
    for (size_t i = 0; i < RG_COPY_USED_COUNT; i++) {
        counters.copy_bytes[i] = atomic_load(&posix->copy_bytes[i]);
        counters.copy_count[i] = atomic_load(&posix->copy_count[i]);
    }
    rg_posix_listing_counters(posix->listing, &counters);
    *ret_counters = counters;
}

static const struct rg_store_ops ops = {
    .close = close_posix,
    .bucket_create = rg_posix_bucket_create,
    .bucket_stat = rg_posix_bucket_stat,
    .bucket_delete = rg_posix_bucket_delete,
    .bucket_list = rg_posix_bucket_list,
    .bucket_tags_get = rg_posix_bucket_tags_get,
    .bucket_tags_set = rg_posix_bucket_tags_set,
    .object_open = rg_posix_object_open,
    .object_info = rg_posix_object_info,
    .object_fd = rg_posix_object_fd,
    .object_read = rg_posix_object_read,
    .object_close = rg_posix_object_close,
    .object_delete = rg_posix_object_delete,
    .object_tags_set = rg_posix_object_tags_set,
    .object_copy = rg_posix_object_copy,
    .object_meta_set = rg_posix_object_meta_set,
    .put_begin = rg_posix_put_begin,
    .writer_write = rg_posix_writer_write,
    .writer_fd = rg_posix_writer_fd,
    .fd_direct = rg_posix_fd_direct,
    .writer_passed = rg_posix_writer_passed,
    .writer_written = rg_posix_writer_written,
    .writer_copy = rg_posix_writer_copy,
    .put_commit = rg_posix_put_commit,
    .writer_abort = rg_posix_writer_abort,
    .list = rg_posix_list,
    .upload_create = rg_posix_upload_create,
    .upload_stat = rg_posix_upload_stat,
    .part_begin = rg_posix_part_begin,
    .part_commit = rg_posix_part_commit,
    .part_list = rg_posix_part_list,
    .upload_complete = rg_posix_upload_complete,
    .upload_abort = rg_posix_upload_abort,
    .upload_list = rg_posix_upload_list,
    .counters = read_counters,
    .mounts = rg_posix_mounts,
    .mounts_changed = rg_posix_mounts_changed,
    .probe = rg_posix_probe,
    .probe_mount = rg_posix_probe_mount,
    .sweep = rg_posix_sweep,
};
