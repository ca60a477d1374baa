/*
 * Objects that exist: opening and reading them, changing their metadata in place, copying them.
 */
#include "store/posix/posix.h"

#include "base/checked.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* How often an object is opened again that was replaced before its metadata was read. */
#define OPEN_TRIES 50

/* The pauses between them where a mount's cache lags behind: GlusterFS believes an entry for a
 * second by default, and an overwrite by another client is ESTALE for as long; the next one may
 * come meanwhile. All together: 3.9 s.
 */
#define OPEN_PAUSE_US_MIN 100u
#define OPEN_PAUSE_US_MAX 100000u

/* ---- Reading ---- */

/* What it means that a key could not be opened: mostly, that no object has it. */
static int fail_open(int os_errno, struct rg_error *err)
{
    switch (os_errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP: /* links in a circle */
    case EXDEV: /* a link that leaves the bucket */
    case ENAMETOOLONG:
    case ENXIO: /* a socket, a device without a driver */
    case ENODEV:
        return rg_fail(err, RG_NO_SUCH_KEY);
    default:
        return rg_fail_storage(err, os_errno, "opening the object");
    }
}

static int open_once(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                     struct rg_object **ret_object, struct rg_error *err)
{
    int flags = O_RDONLY | (split->is_directory ? O_DIRECTORY : 0);
    rg_autoclose int fd = rg_posix_open_beneath(bucket->fd, split->key, flags, true);
    if (fd < 0) {
        return fail_open(-fd, err);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at the object");
    }
    if (split->is_directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    struct rg_object *object = calloc(1, sizeof *object);
    if (!object) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_posix_info_read(bucket, fd, &st, &object->info, err);
    if (rc) {
        free(object);
        return rc;
    }
    object->mtime = st.st_mtim;
    object->fd = RG_TAKE_FD(fd);
    *ret_object = object;
    return 0;
}

/* An overwrite took the file from under us; network file systems then may say ESTALE at any step.
 */
static bool was_replaced(int rc, const struct rg_error *err)
{
    return rc == -RG_OPERATION_ABORTED ||
           (rc == -RG_SERVICE_UNAVAILABLE && err->os_errno == ESTALE);
}

int rg_posix_object_open_in(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                            struct rg_object **ret_object, struct rg_error *err)
{
    struct rg_error inner = RG_ERROR_INIT;
    int rc = open_once(bucket, split, ret_object, &inner);
    for (int i = 1; i < OPEN_TRIES && was_replaced(rc, &inner); i++) {
        if (rc != -RG_OPERATION_ABORTED) {
            usleep(i > 10 ? OPEN_PAUSE_US_MAX : OPEN_PAUSE_US_MIN << (i - 1));
        }
        rc = open_once(bucket, split, ret_object, &inner);
    }
    if (rc && err) {
        *err = inner;
    }
    return rg_posix_bucket_blame(bucket, rc, err);
}

int rg_posix_object_open(struct rg_store *store, struct span name, struct span key,
                         struct rg_object **ret_object, struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(rg_posix_of(store), name, &bucket, err);
    if (rc) {
        return rc;
    }
    struct rg_posix_key split;
    if (rg_posix_key_split(key, &split, NULL)) {
        return rg_fail(err, RG_NO_SUCH_KEY); /* no tree can hold it, so none does */
    }
    return rg_posix_object_open_in(bucket, &split, ret_object, err);
}

const struct rg_object_info *rg_posix_object_info(const struct rg_object *object)
{
    return &object->info;
}

int rg_posix_object_fd(const struct rg_object *object)
{
    if (object->info.is_directory) {
        return -1;
    }
    /* O_NONBLOCK was for what is no file; with io_uring it would make reads fail with EAGAIN. */
    (void)fcntl(object->fd, F_SETFL, 0);
    return object->fd;
}

int rg_posix_object_read(struct rg_object *object, uint64_t offset, void *buffer, size_t len,
                         size_t *ret_len, struct rg_error *err)
{
    size_t done = 0;
    while (!object->info.is_directory && done < len) {
        ssize_t n = pread(object->fd, (char *)buffer + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return rg_fail_storage(err, errno, "reading the object");
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *ret_len = done;
    return 0;
}

void rg_posix_object_close(struct rg_object *object)
{
    rg_object_info_free(&object->info);
    close(object->fd);
    free(object);
}

int rg_posix_object_check_unchanged(const struct rg_object *object, struct rg_error *err)
{
    struct stat st;
    if (object->info.is_directory) {
        return 0;
    }
    if (fstat(object->fd, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at the source");
    }
    if ((uint64_t)st.st_size != object->info.size || st.st_mtim.tv_sec != object->mtime.tv_sec ||
        st.st_mtim.tv_nsec != object->mtime.tv_nsec) {
        return rg_failf(err, RG_OPERATION_ABORTED,
                        "Another program wrote to the source while it was copied. Try again.");
    }
    return 0;
}

/* ---- Changing metadata ---- */

/* An object opened to have its record replaced, under its lock. */
struct edit {
    struct rg_posix_bucket *bucket;
    struct rg_posix_mount *mount;
    int fd;
    struct stat st;
    struct rg_object_info info; /* its meta is moved into the record */
    struct rg_record record;    /* as it stands; change meta and times, then save */
    struct rg_record old;       /* for its sidecar */
};

static void close_edit(struct edit *edit)
{
    if (edit->fd >= 0) {
        close(edit->fd);
    }
    rg_object_info_free(&edit->info);
    rg_record_free(&edit->record);
}

static int open_for_edit(struct edit *edit, const struct rg_posix_key *split, struct rg_error *err)
{
    rg_autoclose int parent_fd = -1;
    int rc = rg_posix_parent_open(edit->bucket, split, false, &parent_fd, err);
    if (rc) {
        return rc;
    }
    edit->fd =
        openat(parent_fd, split->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (edit->fd < 0 && errno == ELOOP) {
        return rg_failf(err, RG_ACCESS_DENIED,
                        "\"%.*s\" is a symbolic link, and nothing is changed through one.",
                        RG_SPAN_ARG(split->key));
    }
    if (edit->fd < 0) {
        return fail_open(errno, err);
    }
    if (fstat(edit->fd, &edit->st) < 0) {
        return rg_fail_storage(err, errno, "looking at the object");
    }
    if (split->is_directory ? !S_ISDIR(edit->st.st_mode) : !S_ISREG(edit->st.st_mode)) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    return rg_posix_mount_at(edit->bucket, parent_fd, &edit->mount, err);
}

/* Puts into edit->record what is true of the object now, whoever wrote it. */
static int load(struct edit *edit, const struct rg_posix_key *split, struct rg_error *err)
{
    int rc = open_for_edit(edit, split, err);
    rc = rc ? rc : rg_posix_info_read(edit->bucket, edit->fd, &edit->st, &edit->info, err);
    if (rc) {
        return rc;
    }
    bool found = false;
    rc = rg_posix_record_read(edit->bucket, edit->fd, false, &edit->record, &found, err);
    if (rc) {
        return rc;
    }
    struct rg_record *record = &edit->record;
    edit->old.has_sidecar = record->has_sidecar;
    memcpy(edit->old.sidecar, record->sidecar, sizeof edit->old.sidecar);
    rg_meta_free(&record->meta);
    record->meta = edit->info.meta;
    edit->info.meta = (struct rg_meta)RG_META_INIT;
    record->has_upload_id = record->has_upload_id && !edit->info.is_foreign;
    record->has_file = !edit->info.is_directory;
    record->size = (uint64_t)edit->st.st_size;
    record->mtime_s = edit->st.st_mtim.tv_sec;
    record->mtime_ns = (uint32_t)edit->st.st_mtim.tv_nsec;
    record->modified = edit->info.modified;
    record->has_modified = edit->info.is_directory ||
                           edit->info.modified.tv_sec != edit->st.st_mtim.tv_sec ||
                           edit->info.modified.tv_nsec != edit->st.st_mtim.tv_nsec;
    free(record->key);
    record->key = rg_span_dup(split->key);
    return record->key ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static int save(struct edit *edit, struct rg_error *err)
{
    struct rg_posix *posix = edit->bucket->posix;
    RG_CRASH_POINT("edit.before-write");
    int rc = rg_posix_record_write(edit->bucket, edit->mount, edit->fd, &edit->record, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("edit.written");
    rc = edit->info.is_directory ? rg_posix_names_sync(posix, edit->mount, edit->fd, -1, err)
                                 : rg_posix_data_sync(posix, edit->mount, edit->fd, err);
    if (rc) {
        return rc;
    }
    rg_posix_sidecar_retire(edit->bucket, rg_span_text(edit->record.key), &edit->old);
    return 0;
}

static int begin_edit(struct rg_posix *posix, struct span name, struct span key,
                      struct rg_posix_bucket **ret_bucket, struct rg_posix_key *ret_split,
                      struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(posix, name, &bucket, err);
    if (rc) {
        return rc;
    }
    if (rg_posix_key_split(key, ret_split, NULL)) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    rc = rg_posix_bucket_ready(bucket, err);
    if (rc) {
        return rc;
    }
    *ret_bucket = RG_TAKE(bucket);
    return 0;
}

int rg_posix_object_tags_set(struct rg_store *store, struct span name, struct span key,
                             const struct rg_pairs *tags, struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    struct rg_posix_key split;
    int rc = begin_edit(rg_posix_of(store), name, key, &bucket, &split, err);
    if (rc) {
        return rc;
    }
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_key(bucket, key, RG_SLOW_DOWN, &lock, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(close_edit) struct edit edit = {.bucket = bucket, .fd = -1};
    rc = load(&edit, &split, err);
    if (rc) {
        return rg_posix_bucket_blame(bucket, rc, err);
    }
    struct rg_pairs copy = RG_PAIRS_INIT;
    if (tags) {
        rc = rg_pairs_copy(tags, &copy, err);
        if (rc) {
            return rc;
        }
    }
    rg_pairs_free(&edit.record.meta.tags);
    edit.record.meta.tags = copy;
    return rg_posix_bucket_blame(bucket, save(&edit, err), err);
}

int rg_posix_object_meta_set(struct rg_store *store, struct span name, struct span key,
                             const char *expected_etag, const struct rg_meta *meta,
                             struct rg_written *ret_written, struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    struct rg_posix_key split;
    int rc = begin_edit(rg_posix_of(store), name, key, &bucket, &split, err);
    if (rc) {
        return rc;
    }
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_key(bucket, key, RG_CONDITIONAL_REQUEST_CONFLICT, &lock, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(close_edit) struct edit edit = {.bucket = bucket, .fd = -1};
    rc = load(&edit, &split, err);
    if (rc) {
        return rg_posix_bucket_blame(bucket, rc, err);
    }
    if (strcmp(edit.record.meta.etag, expected_etag) != 0) {
        return rg_fail(err, RG_PRECONDITION_FAILED);
    }
    struct rg_meta copy = RG_META_INIT;
    rc = rg_meta_copy(meta, &copy, err);
    if (rc) {
        return rc;
    }
    /* The bytes are the same, so what is known of them stays. */
    memcpy(copy.etag, edit.record.meta.etag, sizeof copy.etag);
    copy.etag_is_md5 = edit.record.meta.etag_is_md5;
    rg_meta_free(&edit.record.meta);
    edit.record.meta = copy;
    edit.record.has_modified = true;
    clock_gettime(CLOCK_REALTIME, &edit.record.modified);
    rc = save(&edit, err);
    if (rc) {
        return rg_posix_bucket_blame(bucket, rc, err);
    }
    *ret_written = (struct rg_written){.modified = edit.record.modified, .size = edit.info.size};
    memcpy(ret_written->etag, copy.etag, sizeof copy.etag);
    return 0;
}

/* ---- Copy ---- */

int rg_posix_object_copy(struct rg_store *store, struct rg_object *source, struct span bucket,
                         struct span key, const struct rg_meta *meta,
                         const struct rg_conditions *conditions, struct rg_written *ret_written,
                         struct rg_error *err)
{
    rg_autowriter writer = NULL;
    int rc = rg_posix_put_begin(store, bucket, key, (int64_t)source->info.size, &writer, err);
    if (rc) {
        return rc;
    }
    enum rg_copy_used used = RG_COPY_USED_NONE;
    rc = rg_posix_writer_copy(writer, source, 0, source->info.size, NULL, &used, err);
    if (rc) {
        return rc;
    }
    struct rg_written written;
    rc = rg_posix_put_commit(RG_TAKE(writer), meta, conditions, &written, err);
    if (rc) {
        return rc;
    }
    written.copy = used;
    *ret_written = written;
    return 0;
}
