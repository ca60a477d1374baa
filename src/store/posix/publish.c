/*
 * Making things visible: a finished file gets its key, at once and with its metadata, or nothing
 * changes. The order is the promise:
 *
 *   bytes, times and record on the file, fsync            (rg_posix_seal; no lock held)
 *   lock of the key; conditions; link or rename           (rg_posix_publish)
 *   the name made durable, the lock already given back
 *   the sidecar of what was replaced removed
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define SEAL_TRIES  4
#define PLACE_TRIES 16

/* ---- Sealing ---- */

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

int rg_posix_seal(struct rg_posix_bucket *bucket, const struct rg_posix_temp *temp,
                  struct rg_record *record, struct timespec *ret_modified, struct rg_error *err)
{
    for (int i = 0; i < SEAL_TRIES; i++) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
        clock_gettime(CLOCK_REALTIME, &times[1]);
        if (!temp->mount->exact_times) {
            times[1].tv_nsec = 0;
        }
        struct stat st;
        if (futimens(temp->fd, times) < 0 || fstat(temp->fd, &st) < 0) {
            return rg_fail_storage(err, errno, "setting the file's time");
        }
        record->has_file = true;
        record->size = (uint64_t)st.st_size;
        record->mtime_s = st.st_mtim.tv_sec;
        record->mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
        struct rg_record before = {.has_sidecar = record->has_sidecar};
        memcpy(before.sidecar, record->sidecar, sizeof before.sidecar);
        int rc = rg_posix_record_write(bucket, temp->mount, temp->fd, record, err);
        rg_posix_sidecar_remove(bucket, &before);
        if (rc) {
            return rc;
        }
        RG_CRASH_POINT("seal.recorded");
        rc = rg_posix_data_sync(bucket->posix, temp->mount, temp->fd, err);
        /* A file system that writes back late may set the time again while it does. */
        if (rc == 0 && fstat(temp->fd, &st) < 0) {
            rc = rg_fail_storage(err, errno, "looking at the file written");
        }
        if (rc) {
            rg_posix_sidecar_remove(bucket, record);
            return rc;
        }
        struct timespec recorded = {record->mtime_s, record->mtime_ns};
        if (same_time(recorded, st.st_mtim)) {
            *ret_modified = st.st_mtim;
            return 0;
        }
    }
    rg_posix_sidecar_remove(bucket, record);
    return rg_failf(err, RG_STORAGE_FAULT, "The file system does not keep the time set on a file.");
}

/* ---- What stands at a key ---- */

int rg_posix_target_check(const struct rg_posix_key *split, const struct stat *st,
                          struct rg_error *err)
{
    if (split->is_directory) {
        if (S_ISDIR(st->st_mode)) {
            return 0;
        }
        return rg_failf(err, RG_NAME_CONFLICT,
                        "\"%.*s\" cannot be stored while the object \"%.*s\" exists: a file system "
                        "cannot hold a file and a directory of one name.",
                        RG_SPAN_ARG(split->key), (int)split->key.len - 1, split->key.ptr);
    }
    if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode)) {
        return 0;
    }
    if (S_ISDIR(st->st_mode)) {
        return rg_failf(err, RG_NAME_CONFLICT,
                        "\"%.*s\" cannot be stored while objects below \"%.*s/\" exist: a file "
                        "system cannot hold a file and a directory of one name.",
                        RG_SPAN_ARG(split->key), RG_SPAN_ARG(split->key));
    }
    return rg_failf(err, RG_NAME_CONFLICT,
                    "\"%.*s\" cannot be stored: the name belongs to something that is neither a "
                    "file nor a directory.",
                    RG_SPAN_ARG(split->key));
}

int rg_posix_current_etag(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          bool *ret_exists, char ret_etag[RG_ETAG_MAX + 1], struct rg_error *err)
{
    struct rg_object *object = NULL;
    int rc = rg_posix_object_open_in(bucket, split, &object, err);
    if (rc == -RG_NO_SUCH_KEY) {
        *ret_exists = false;
        ret_etag[0] = '\0';
        return 0;
    }
    if (rc) {
        return rc;
    }
    *ret_exists = true;
    memcpy(ret_etag, object->info.meta.etag, RG_ETAG_MAX + 1);
    rg_posix_object_close(object);
    return 0;
}

static int check_conditions(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                            const struct rg_conditions *conditions, struct rg_error *err)
{
    if (!conditions || rg_conditions_empty(conditions)) {
        return 0;
    }
    bool exists = false;
    char etag[RG_ETAG_MAX + 1];
    int rc = rg_posix_current_etag(bucket, split, &exists, etag, err);
    if (rc) {
        return rc;
    }
    return rg_conditions_check_write(conditions, exists, rg_span_text(etag), err);
}

static enum rg_code busy_code(const struct rg_conditions *conditions)
{
    return conditions && !rg_conditions_empty(conditions) ? RG_CONDITIONAL_REQUEST_CONFLICT
                                                          : RG_SLOW_DOWN;
}

/* The record of a file about to be replaced, for its sidecar. Costs a call only in buckets that
 * have sidecars at all. */
static int read_replaced(struct rg_posix_bucket *bucket, int parent_fd, const char *name,
                         struct rg_record *ret_record, struct rg_error *err)
{
    struct stat st;
    if (fstatat(bucket->state_fd, "sidecar", &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    bool found = false;
    int rc = rg_posix_record_read_last(bucket, parent_fd, name, ret_record, &found, err);
    return rc == -RG_NO_SUCH_KEY ? 0 : rc;
}

/* ---- Files ---- */

struct placing {
    struct rg_posix_bucket *bucket;
    const struct rg_posix_key *split;
    struct rg_posix_temp *temp;
    const struct rg_conditions *conditions;
    const struct rg_posix_hooks *hooks;
    int parent_fd;
    struct rg_record replaced; /* for its sidecar */
};

enum outcome { PLACED, AGAIN, BLOCKED };

static int fail_place(struct placing *placing, int os_errno, struct rg_error *err)
{
    if (os_errno == EXDEV) {
        return rg_failf(err, RG_STORAGE_FAULT,
                        "A new file cannot be moved into the directory of \"%.*s\": another mount "
                        "or quota project begins there.",
                        RG_SPAN_ARG(placing->split->key));
    }
    if (os_errno == ENAMETOOLONG) {
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "The file system cannot hold a name as long as the key's last segment.");
    }
    return rg_fail_storage(err, os_errno, "giving the object its name");
}

/* With the key's lock held. BLOCKED: a directory stands there. */
static int place_locked(struct placing *placing, enum outcome *ret_outcome, struct rg_error *err)
{
    const char *name = placing->split->name;
    *ret_outcome = PLACED;
    const struct rg_posix_hooks *hooks = placing->hooks;
    int rc = hooks && hooks->before ? hooks->before(hooks->context, err) : 0;
    rc = rc ? rc : check_conditions(placing->bucket, placing->split, placing->conditions, err);
    if (rc) {
        return rc;
    }
    bool must_be_new = placing->conditions && placing->conditions->if_none_match.ptr;
    struct stat st;
    bool exists = fstatat(placing->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!exists && errno != ENOENT) {
        return fail_place(placing, errno, err);
    }
    if (exists && S_ISDIR(st.st_mode)) {
        *ret_outcome = BLOCKED;
        return 0;
    }
    if (exists && must_be_new && S_ISREG(st.st_mode)) {
        return rg_fail(err, RG_PRECONDITION_FAILED); /* another program made it just now */
    }
    if (exists) {
        rc = rg_posix_target_check(placing->split, &st, err);
        rc = rc ? rc
                : read_replaced(placing->bucket, placing->parent_fd, name, &placing->replaced, err);
        if (rc) {
            return rc;
        }
    }
    /* A name that refers to nothing (a link into the void) counts as absent, but must be replaced.
     * A file with a name of its own needs no link to become new: rename does both. */
    bool replace = exists || (placing->temp->name[0] && !must_be_new);
    RG_CRASH_POINT("put.before-place");
    rc = rg_posix_temp_place(placing->bucket, placing->temp, placing->parent_fd,
                             placing->split->parent, name, replace);
    switch (-rc) {
    case 0:
        RG_CRASH_POINT("put.placed");
        if (hooks && hooks->after) {
            hooks->after(hooks->context);
        }
        return 0;
    case EEXIST: /* another program was faster */
        if (must_be_new) {
            return rg_fail(err, RG_PRECONDITION_FAILED);
        }
        *ret_outcome = AGAIN;
        return 0;
    case ENOENT: /* the directory was removed by a delete */
        *ret_outcome = AGAIN;
        return 0;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
        *ret_outcome = BLOCKED;
        return 0;
    default:
        return fail_place(placing, -rc, err);
    }
}

static int place_once(struct placing *placing, enum outcome *ret_outcome, struct rg_error *err)
{
    int rc = rg_posix_parent_open(placing->bucket, placing->split, true, &placing->parent_fd, err);
    if (rc) {
        return rc;
    }
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_key(placing->bucket, placing->split->key, busy_code(placing->conditions),
                           &lock, err);
    return rc ? rc : place_locked(placing, ret_outcome, err);
}

int rg_posix_publish(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                     struct rg_posix_temp *temp, const struct rg_conditions *conditions,
                     const struct rg_posix_hooks *hooks, struct rg_error *err)
{
    struct placing placing = {
        .bucket = bucket,
        .split = split,
        .temp = temp,
        .conditions = conditions,
        .hooks = hooks,
        .parent_fd = -1,
        .replaced = RG_RECORD_INIT,
    };
    enum outcome outcome = AGAIN;
    bool cleared = false;
    int rc = 0;
    for (int i = 0; rc == 0 && outcome != PLACED && i < PLACE_TRIES; i++) {
        if (placing.parent_fd >= 0) {
            close(RG_TAKE_FD(placing.parent_fd));
        }
        rg_record_free(&placing.replaced);
        rc = place_once(&placing, &outcome, err);
        if (rc == 0 && outcome == BLOCKED) {
            if (cleared) {
                struct stat directory = {.st_mode = S_IFDIR};
                rc = rg_posix_target_check(split, &directory, err);
            } else {
                /* An empty directory that is nobody's object may go. */
                cleared = true;
                rg_posix_empty_directory_remove(bucket, split->key);
            }
        }
    }
    if (rc == 0 && outcome != PLACED) {
        rc = rg_failf(err, RG_OPERATION_ABORTED,
                      "The directory of \"%.*s\" changes faster than the object can be stored.",
                      RG_SPAN_ARG(split->key));
    }
    if (rc == 0) {
        RG_CRASH_POINT("put.visible");
        rc = rg_posix_names_sync(bucket->posix, temp->mount, placing.parent_fd, temp->fd, err);
        RG_CRASH_POINT("put.durable");
    }
    if (rc == 0) {
        rg_posix_sidecar_retire(bucket, split->key, &placing.replaced);
    }
    rg_record_free(&placing.replaced);
    if (placing.parent_fd >= 0) {
        close(placing.parent_fd);
    }
    return rc;
}

/* ---- Directory objects ---- */

/* With the lock held: makes the directory if need be and marks it. *ret_again: it went away. */
static int mark_directory(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          int parent_fd, struct rg_record *record, bool *ret_again,
                          struct rg_error *err)
{
    struct rg_posix_mount *mount = NULL;
    int rc = rg_posix_mount_at(bucket, parent_fd, &mount, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_mkdir(bucket->posix, parent_fd, split->name);
    if (rc && rc != -EEXIST) {
        *ret_again = rc == -ENOENT;
        return *ret_again ? 0 : rg_fail_storage(err, -rc, "making the directory");
    }
    RG_CRASH_POINT("directory.made");
    rg_autoclose int fd =
        openat(parent_fd, split->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *ret_again = true;
        return 0;
    }
    if (fd < 0) {
        struct stat other = {.st_mode = S_IFREG};
        return errno == ENOTDIR || errno == ELOOP
                   ? rg_posix_target_check(split, &other, err)
                   : rg_fail_storage(err, errno, "opening the directory");
    }
    RG_CLEANUP(rg_record_free) struct rg_record old = RG_RECORD_INIT;
    bool found = false;
    rc = rg_posix_record_read(bucket, fd, false, &old, &found, err);
    rc = rc ? rc : rg_posix_record_write(bucket, mount, fd, record, err);
    RG_CRASH_POINT("directory.marked");
    rc = rc ? rc : rg_posix_names_sync(bucket->posix, mount, fd, -1, err);
    rc = rc ? rc : rg_posix_names_sync(bucket->posix, mount, parent_fd, -1, err);
    if (rc == 0) {
        rg_posix_sidecar_retire(bucket, split->key, &old);
    }
    return rc;
}

int rg_posix_publish_directory(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                               struct rg_record *record, const struct rg_conditions *conditions,
                               struct timespec *ret_modified, struct rg_error *err)
{
    record->has_modified = true;
    clock_gettime(CLOCK_REALTIME, &record->modified);
    for (int i = 0; i < PLACE_TRIES; i++) {
        rg_autoclose int parent_fd = -1;
        int rc = rg_posix_parent_open(bucket, split, true, &parent_fd, err);
        if (rc) {
            return rc;
        }
        rg_autounlock lock = RG_POSIX_LOCK_INIT;
        rc = rg_posix_lock_key(bucket, split->key, busy_code(conditions), &lock, err);
        rc = rc ? rc : check_conditions(bucket, split, conditions, err);
        if (rc) {
            return rc;
        }
        bool again = false;
        rc = mark_directory(bucket, split, parent_fd, record, &again, err);
        if (rc || !again) {
            *ret_modified = record->modified;
            return rc;
        }
    }
    return rg_failf(err, RG_OPERATION_ABORTED,
                    "The directory of \"%.*s\" changes faster than the object can be stored.",
                    RG_SPAN_ARG(split->key));
}
