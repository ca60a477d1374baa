/*
 * Deleting objects, and the directories that are empty because of it.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "s3/names.h"
#include "store/posix/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

/* ---- Empty directories ---- */

/*
 * Temporaries that a crash left here hold nothing either: they go. Where they are all that there is
 * and too young to, the sweeper is told: nobody may come by again.
 */
static bool is_empty(struct rg_posix_bucket *bucket, struct span path, int directory_fd)
{
    bool holds_leftovers = false;
    int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    if (!dir) {
        return false;
    }
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        struct span name = rg_span_text(entry->d_name);
        if (rg_span_is(name, ".") || rg_span_is(name, "..")) {
            continue;
        }
        if (!rg_span_starts(name, RG_SPAN_LITERAL(RG_POSIX_TEMP_PREFIX))) {
            return false;
        }
        if (rg_posix_leftover_remove(bucket->posix, directory_fd, entry->d_name)) {
            holds_leftovers = true;
        }
    }
    if (errno == 0 && holds_leftovers) {
        (void)rg_posix_stray_note(bucket, path, NULL);
        return false;
    }
    return errno == 0;
}

static bool is_explicit(struct rg_posix_bucket *bucket, int fd)
{
    struct stat st;
    struct rg_object_info info;
    if (fstat(fd, &st) < 0) {
        return true; /* not known: leave it alone */
    }
    int rc = rg_posix_info_read(bucket, fd, &st, &info, NULL);
    if (rc == 0) {
        rg_object_info_free(&info);
    }
    return rc != -RG_NO_SUCH_KEY;
}

/*
 * The lock of the directory object is held while the mark is looked at and the directory removed: a
 * PUT of that directory object must not be lost between the two.
 */
static bool remove_locked(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          int parent_fd)
{
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    if (rg_posix_lock_key(bucket, split->key, RG_SLOW_DOWN, &lock, NULL)) {
        return false;
    }
    rg_autoclose int fd =
        openat(parent_fd, split->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || is_explicit(bucket, fd)) {
        return fd < 0 && errno == ENOENT;
    }
    RG_CRASH_POINT("directory.before-remove");
    return unlinkat(parent_fd, split->name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool rg_posix_empty_directory_remove(struct rg_posix_bucket *bucket, struct span path)
{
    char key[RG_KEY_BYTES_MAX + 2];
    int len = snprintf(key, sizeof key, "%.*s/", RG_SPAN_ARG(path));
    struct rg_posix_key split;
    if (len < 0 || (size_t)len >= sizeof key ||
        rg_posix_key_split(rg_span(key, (size_t)len), &split, NULL)) {
        return false;
    }
    rg_autoclose int parent_fd = -1;
    if (rg_posix_parent_open(bucket, &split, false, &parent_fd, NULL)) {
        return false;
    }
    /* Most directories are not empty: see that before taking a lock. */
    rg_autoclose int fd =
        openat(parent_fd, split.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || !is_empty(bucket, path, fd) || !remove_locked(bucket, &split, parent_fd)) {
        return false;
    }
    struct rg_posix_mount *mount = NULL;
    if (rg_posix_mount_at(bucket, parent_fd, &mount, NULL)) {
        return true;
    }
    return rg_posix_names_sync(bucket->posix, mount, parent_fd, -1, NULL) == 0;
}

void rg_posix_empty_directories_remove(struct rg_posix_bucket *bucket, struct span path)
{
    while (path.len && rg_posix_empty_directory_remove(bucket, path)) {
        const char *slash = memrchr(path.ptr, '/', path.len);
        path.len = slash ? (size_t)(slash - path.ptr) : 0;
    }
}

/* ---- Objects ---- */

struct removal {
    struct rg_posix_bucket *bucket;
    struct rg_posix_mount *mount;
    const struct rg_posix_key *split;
    int parent_fd;
    struct rg_record removed; /* for its sidecar */
    bool did;                 /* something was removed */
};

static int remove_file(struct removal *removal, struct rg_error *err)
{
    bool found = false;
    int rc = rg_posix_record_read_last(removal->bucket, removal->parent_fd, removal->split->name,
                                       &removal->removed, &found, err);
    if (rc && rc != -RG_NO_SUCH_KEY) {
        return rc;
    }
    RG_CRASH_POINT("delete.before-unlink");
    if (unlinkat(removal->parent_fd, removal->split->name, 0) < 0 && errno != ENOENT) {
        return rg_fail_storage(err, errno, "deleting the object");
    }
    removal->did = true;
    return 0;
}

/* Takes the mark off a directory, and the directory away if it holds nothing. */
static int remove_directory(struct removal *removal, struct rg_error *err)
{
    rg_autoclose int fd = openat(removal->parent_fd, removal->split->name,
                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : rg_fail_storage(err, errno, "opening the directory");
    }
    bool found = false;
    int rc = rg_posix_record_read(removal->bucket, fd, false, &removal->removed, &found, err);
    if (rc) {
        return rc;
    }
    static const char *const marks[] = {RG_POSIX_XATTR, "user.etag"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(marks); i++) {
        if (fremovexattr(fd, marks[i]) < 0 && errno != ENODATA) {
            return rg_fail_storage(err, errno, "removing the mark of a directory object");
        }
    }
    RG_CRASH_POINT("delete.unmarked");
    removal->did = true;
    if (unlinkat(removal->parent_fd, removal->split->name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
        return rg_fail_storage(err, errno, "removing the directory");
    }
    struct span path = rg_span(removal->split->key.ptr, removal->split->key.len - 1);
    if (is_empty(removal->bucket, path, fd) &&
        unlinkat(removal->parent_fd, removal->split->name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    return rg_posix_names_sync(removal->bucket->posix, removal->mount, fd, -1, err);
}

static int remove_object(struct removal *removal, const struct rg_conditions *conditions,
                         struct rg_error *err)
{
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    bool conditional = conditions && !rg_conditions_empty(conditions);
    int rc =
        rg_posix_lock_key(removal->bucket, removal->split->key,
                          conditional ? RG_CONDITIONAL_REQUEST_CONFLICT : RG_SLOW_DOWN, &lock, err);
    if (rc) {
        return rc;
    }
    bool exists = false;
    char etag[RG_ETAG_MAX + 1];
    rc = rg_posix_current_etag(removal->bucket, removal->split, &exists, etag, err);
    rc = rc ? rc : rg_conditions_check_delete(conditions, exists, rg_span_text(etag), err);
    if (rc || !exists) {
        return rc;
    }
    return removal->split->is_directory ? remove_directory(removal, err)
                                        : remove_file(removal, err);
}

int rg_posix_object_delete(struct rg_store *store, struct span name, struct span key,
                           const struct rg_conditions *conditions, struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(rg_posix_of(store), name, &bucket, err);
    if (rc) {
        return rc;
    }
    struct rg_posix_key split;
    if (rg_posix_key_split(key, &split, NULL)) {
        return rg_conditions_check_delete(conditions, false, RG_SPAN_EMPTY, err);
    }
    rg_autoclose int parent_fd = -1;
    rc = rg_posix_parent_open(bucket, &split, false, &parent_fd, err);
    if (rc == -RG_NO_SUCH_KEY) {
        return rg_conditions_check_delete(conditions, false, RG_SPAN_EMPTY, err);
    }
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record none = RG_RECORD_INIT;
    struct removal removal = {
        .bucket = bucket, .split = &split, .parent_fd = parent_fd, .removed = RG_RECORD_INIT};
    rc = rg_posix_bucket_ready(bucket, err);
    rc = rc ? rc : rg_posix_mount_at(bucket, parent_fd, &removal.mount, err);
    rc = rc ? rc : remove_object(&removal, conditions, err);
    none = removal.removed;
    if (rc) {
        return rc;
    }
    /* Also where nothing was there: whoever removed it may still be making that durable, or have
     * failed at it, and this is acknowledged as well. */
    RG_CRASH_POINT("delete.done");
    rc = rg_posix_names_sync(bucket->posix, removal.mount, parent_fd, -1, err);
    if (rc) {
        return rc;
    }
    if (!removal.did) {
        if (!removal.mount->dir_fsync) {
            (void)is_empty(bucket, split.parent, parent_fd); /* whoever did may have died at it */
        }
        return 0;
    }
    RG_CRASH_POINT("delete.durable");
    rg_posix_sidecar_retire(bucket, key, &removal.removed);
    rg_posix_empty_directories_remove(bucket, split.parent);
    return 0;
}
