/*
 * Writers: bytes on their way into a file that is not visible yet. Small pieces are gathered into
 * large aligned writes; large ones pass through. How the file becomes visible is publish.c's.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

#define UNIT       (1u << 20) /* bytes of one write, and its alignment in the file */
#define ALIGNMENT  4096u
#define WRITEBACK  (2u << 20) /* bytes whose way to the disk is begun together */
#define OPEN_TRIES 16
#define RESERVE_MIN                                                                                \
    (1u << 20) /* below, an allocation ahead costs more than an early ENOSPC saves */

/* ---- Beginning ---- */

static int check_space(struct rg_posix *posix, int directory_fd, int64_t expected,
                       struct rg_error *err)
{
    uint64_t least = (uint64_t)posix->settings->free_space_min;
    struct statvfs fs;
    if (least == 0) {
        return 0;
    }
    if (fstatvfs(directory_fd, &fs) < 0) {
        return rg_fail_storage(err, errno, "asking for the free space");
    }
    uint64_t available;
    uint64_t needed = least + (uint64_t)RG_MAX(expected, (int64_t)0);
    if (rg_mul_checked((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &available) &&
        available < needed) {
        return rg_failf(err, RG_STORAGE_FULL,
                        "Only %llu bytes are free on the file system, and the setting "
                        "free-space-min keeps %llu.",
                        (unsigned long long)available, (unsigned long long)least);
    }
    return 0;
}

/* An early word on what publish would refuse after all bytes have come. `near_fd` is the deepest
 * directory of the key that exists. */
static int check_target(struct rg_writer *writer, int near_fd, struct span near_path,
                        struct rg_error *err)
{
    struct stat st;
    if (near_path.len != writer->split.parent.len ||
        fstatat(near_fd, writer->split.name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    if (S_ISDIR(st.st_mode) && !writer->split.is_directory &&
        rg_posix_empty_directory_remove(writer->bucket, writer->split.key)) {
        return 0;
    }
    return rg_posix_target_check(&writer->split, &st, err);
}

static int check_directory(struct rg_writer *writer, struct rg_error *err)
{
    rg_autoclose int near_fd = -1;
    struct span near_path;
    int rc = rg_posix_nearest_open(writer->bucket, &writer->split, &near_path, &near_fd, err);
    return rc ? rc : check_target(writer, near_fd, near_path, err);
}

/* Opens the file, for a part in the upload's directory, else as near to the key as can be. */
static int open_file_once(struct rg_writer *writer, struct rg_error *err)
{
    rg_autoclose int near_fd = -1;
    struct span near_path = RG_SPAN_LITERAL(RG_POSIX_STATE_DIR "/uploads");
    int rc;
    if (writer->part) {
        near_fd = fcntl(writer->upload_fd, F_DUPFD_CLOEXEC, 0);
        rc = near_fd < 0 ? rg_fail_storage(err, errno, "opening the upload") : 0;
    } else {
        rc = rg_posix_nearest_open(writer->bucket, &writer->split, &near_path, &near_fd, err);
        rc = rc ? rc : check_target(writer, near_fd, near_path, err);
    }
    rc = rc ? rc : check_space(writer->posix, near_fd, writer->expected, err);
    return rc ? rc
              : rg_posix_temp_open(writer->bucket, near_fd, near_path, writer->expected,
                                   &writer->temp, err);
}

/* A delete may take the nearest directory away before the file is in it. */
static int open_file(struct rg_writer *writer, struct rg_error *err)
{
    int rc = open_file_once(writer, err);
    for (int i = 0; rc == -RG_SLOW_DOWN && !writer->part && i < OPEN_TRIES; i++) {
        rc = open_file_once(writer, err);
    }
    return rc;
}

static int reserve(struct rg_writer *writer, struct rg_error *err)
{
    if (writer->expected < (int64_t)RESERVE_MIN || !writer->temp.mount->fallocate) {
        return 0;
    }
    if (fallocate(writer->temp.fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)writer->expected) == 0) {
        writer->reserved = (uint64_t)writer->expected;
        return 0;
    }
    switch (errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return rg_fail_storage(err, errno, "reserving space for %lld bytes",
                               (long long)writer->expected);
    default:
        return 0; /* a mere lack of the feature */
    }
}

int rg_posix_writer_open(struct rg_writer *writer, struct rg_error *err)
{
    int rc = open_file(writer, err);
    if (rc) {
        return rc;
    }
    int64_t direct_min = writer->posix->settings->direct_io_min;
    writer->direct =
        direct_min > 0 && writer->expected >= direct_min && writer->temp.mount->direct_io;
    return reserve(writer, err);
}

int rg_posix_writer_new(struct rg_posix *posix, struct span bucket, struct span key,
                        int64_t expected_size, struct rg_writer **ret_writer, struct rg_error *err)
{
    rg_autowriter writer = calloc(1, sizeof *writer);
    if (!writer) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *writer = (struct rg_writer){
        .posix = posix,
        .temp = RG_POSIX_TEMP_INIT,
        .expected = expected_size,
        .upload_fd = -1,
    };
    writer->key = rg_span_dup(key);
    if (!writer->key) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_posix_key_split(rg_span(writer->key, key.len), &writer->split, err);
    rc = rc ? rc : rg_posix_bucket_get(posix, bucket, &writer->bucket, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_bucket_ready(writer->bucket, err);
    if (rc) {
        return rg_posix_bucket_blame(writer->bucket, rc, err);
    }
    *ret_writer = RG_TAKE(writer);
    return 0;
}

int rg_posix_put_begin(struct rg_store *store, struct span bucket, struct span key,
                       int64_t expected_size, struct rg_writer **ret_writer, struct rg_error *err)
{
    rg_autowriter writer = NULL;
    int rc = rg_posix_writer_new(rg_posix_of(store), bucket, key, expected_size, &writer, err);
    if (rc) {
        return rc;
    }
    if (writer->split.is_directory && expected_size > 0) {
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "A key that ends in \"/\" is a directory and cannot hold bytes.");
    }
    rc = writer->split.is_directory ? check_directory(writer, err)
                                    : rg_posix_writer_open(writer, err);
    if (rc) {
        return rg_posix_bucket_blame(writer->bucket, rc, err);
    }
    *ret_writer = RG_TAKE(writer);
    return 0;
}

/* ---- Bytes ---- */

static int fail_writer(struct rg_writer *writer, int rc)
{
    writer->failed = true;
    return rc;
}

static int write_at(int fd, const char *bytes, size_t len, uint64_t offset, struct rg_error *err)
{
    while (len) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return rg_fail_storage(err, n < 0 ? errno : EIO, "writing");
        }
        bytes += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Turns O_DIRECT on or off, so that aligned units bypass the page cache and the tail does not. */
static int set_direct(struct rg_writer *writer, bool on, struct rg_error *err)
{
    if (!writer->direct || writer->direct_now == on) {
        return 0;
    }
    int flags = fcntl(writer->temp.fd, F_GETFL);
    if (flags < 0 ||
        fcntl(writer->temp.fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) < 0) {
        return rg_fail_storage(err, errno, "switching O_DIRECT");
    }
    writer->direct_now = on;
    return 0;
}

/*
 * Begins the way to the disk of what has been written, so that the fsync at the end finds little
 * left to do: the disk works while digests of later bytes run. Where it cannot be begun, fsync does
 * all.
 */
static int start_writeback(struct rg_writer *writer, uint64_t end, struct rg_error *err)
{
    if (writer->posix->settings->durability == RG_DURABILITY_NONE ||
        end < writer->started + WRITEBACK) {
        return 0;
    }
    uint64_t begin = writer->started;
    writer->started = end;
    if (sync_file_range(writer->temp.fd, (off_t)begin, (off_t)(end - begin),
                        SYNC_FILE_RANGE_WRITE) == 0) {
        return 0;
    }
    switch (errno) {
    case EIO:
    case ENOSPC:
    case EDQUOT:
        return rg_fail_storage(err, errno, "writing to the disk");
    default:
        return 0;
    }
}

static int write_unit(struct rg_writer *writer, const char *bytes, size_t len, uint64_t offset,
                      struct rg_error *err)
{
    bool aligned =
        (uintptr_t)bytes % ALIGNMENT == 0 && len % ALIGNMENT == 0 && offset % ALIGNMENT == 0;
    int rc = set_direct(writer, aligned, err);
    rc = rc ? rc : write_at(writer->temp.fd, bytes, len, offset, err);
    return rc || writer->direct ? rc : start_writeback(writer, offset + len, err);
}

static int flush(struct rg_writer *writer, struct rg_error *err)
{
    if (writer->buffered == 0) {
        return 0;
    }
    int rc =
        write_unit(writer, writer->buffer, writer->buffered, writer->size - writer->buffered, err);
    writer->buffered = 0;
    return rc;
}

static int buffer_bytes(struct rg_writer *writer, const char *bytes, size_t len,
                        struct rg_error *err)
{
    if (!writer->buffer && posix_memalign((void **)&writer->buffer, ALIGNMENT, UNIT)) {
        writer->buffer = NULL;
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memcpy(writer->buffer + writer->buffered, bytes, len);
    writer->buffered += len;
    writer->size += len;
    /* Full up to the next unit boundary of the file. */
    return writer->size % UNIT == 0 ? flush(writer, err) : 0;
}

/* Could these bytes go to the file without being gathered? */
static bool passes_through(const struct rg_writer *writer, const char *bytes, size_t len)
{
    if (writer->buffered || (writer->direct && (uintptr_t)bytes % ALIGNMENT)) {
        return false;
    }
    bool is_last = writer->expected >= 0 && writer->size + len == (uint64_t)writer->expected;
    return is_last || (writer->size % UNIT == 0 && len >= UNIT);
}

static int take_bytes(struct rg_writer *writer, const char *bytes, size_t len, struct rg_error *err)
{
    while (len) {
        size_t piece;
        int rc;
        if (passes_through(writer, bytes, len)) {
            piece = len >= UNIT ? len / UNIT * UNIT : len;
            if (writer->size % UNIT) {
                piece = len; /* the last ones */
            }
            rc = write_unit(writer, bytes, piece, writer->size, err);
            writer->size += piece;
        } else {
            piece = RG_MIN(len, (size_t)(UNIT - writer->size % UNIT));
            rc = buffer_bytes(writer, bytes, piece, err);
        }
        if (rc) {
            return rc;
        }
        bytes += piece;
        len -= piece;
    }
    return 0;
}

int rg_posix_writer_write(struct rg_writer *writer, const void *bytes, size_t len,
                          struct rg_error *err)
{
    if (writer->failed) {
        return rg_failf(err, RG_INTERNAL_ERROR, "writing after a failed write");
    }
    if (len == 0) {
        return 0;
    }
    if (writer->split.is_directory && !writer->part) {
        return fail_writer(writer,
                           rg_failf(err, RG_INVALID_OBJECT_NAME,
                                    "A key that ends in \"/\" is a directory and cannot hold "
                                    "bytes."));
    }
    int rc = take_bytes(writer, bytes, len, err);
    return rc ? fail_writer(writer, rg_posix_bucket_blame(writer->bucket, rc, err)) : 0;
}

int rg_posix_writer_fd(const struct rg_writer *writer)
{
    return writer->temp.fd;
}

int rg_posix_writer_passed(struct rg_writer *writer, uint64_t size, struct rg_error *err)
{
    int rc = writer->temp.fd < 0 ? 0 : start_writeback(writer, size, err);
    return rc ? fail_writer(writer, rg_posix_bucket_blame(writer->bucket, rc, err)) : 0;
}

int rg_posix_writer_written(struct rg_writer *writer, uint64_t size, struct rg_error *err)
{
    if (writer->failed || writer->buffered || writer->temp.fd < 0) {
        return rg_failf(err, RG_INTERNAL_ERROR,
                        "a writer's size set after bytes went through its buffer");
    }
    writer->size = size;
    return 0;
}

/* ---- Copies ---- */

static int copy_hashed(struct rg_writer *writer, struct rg_object *source, uint64_t offset,
                       uint64_t len, struct rg_hasher *hasher, struct rg_error *err)
{
    rg_autofree char *buffer = NULL;
    if (posix_memalign((void **)&buffer, ALIGNMENT, UNIT)) {
        buffer = NULL;
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    while (len) {
        size_t got = 0;
        int rc = rg_posix_object_read(source, offset, buffer, (size_t)RG_MIN(len, (uint64_t)UNIT),
                                      &got, err);
        if (rc) {
            return rc;
        }
        if (got == 0) {
            return rg_failf(err, RG_STORAGE_FAULT,
                            "The source became shorter while it was copied: another program "
                            "changed it.");
        }
        rg_hasher_update(hasher, rg_span(buffer, got));
        rc = take_bytes(writer, buffer, got, err);
        if (rc) {
            return rc;
        }
        offset += got;
        len -= got;
    }
    return 0;
}

/* The copy call hangs with the file in its hands: goes on with a new file and the bytes so far. */
static int begin_again(struct rg_writer *writer, struct rg_error *err)
{
    rg_autotemp old = writer->temp;
    writer->temp = (struct rg_posix_temp)RG_POSIX_TEMP_INIT;
    writer->reserved = 0;
    writer->started = 0;
    writer->direct_now = false;
    int rc = rg_posix_writer_open(writer, err);
    if (rc) {
        return rc;
    }
    enum rg_copy_used used;
    return rg_posix_copy(writer->posix, writer->temp.mount, old.fd, 0, writer->temp.fd, 0,
                         writer->size, &used, err);
}

int rg_posix_writer_append(struct rg_writer *writer, int source_fd, uint64_t offset, uint64_t len,
                           enum rg_copy_used *ret_copy, struct rg_error *err)
{
    int rc = flush(writer, err);
    rc = rc ? rc : set_direct(writer, false, err);
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = rg_posix_copy(writer->posix, writer->temp.mount, source_fd, offset, writer->temp.fd,
                           writer->size, len, ret_copy, err);
        if (rc != -RG_TIMED_OUT) {
            break;
        }
        rc = begin_again(writer, err);
    }
    if (rc) {
        return fail_writer(writer, rc);
    }
    writer->size += len;
    return 0;
}

int rg_posix_writer_copy(struct rg_writer *writer, struct rg_object *source, uint64_t offset,
                         uint64_t len, struct rg_hasher *hasher, enum rg_copy_used *ret_copy,
                         struct rg_error *err)
{
    if (ret_copy) {
        *ret_copy = RG_COPY_USED_NONE;
    }
    if (len == 0) {
        return 0;
    }
    if (writer->failed || writer->temp.fd < 0) {
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "A key that ends in \"/\" is a directory and cannot hold bytes.");
    }
    if (offset > source->info.size || len > source->info.size - offset) {
        return rg_fail(err, RG_INVALID_RANGE);
    }
    enum rg_copy_used used = RG_COPY_USED_PLAIN;
    int rc = hasher ? copy_hashed(writer, source, offset, len, hasher, err)
                    : rg_posix_writer_append(writer, source->fd, offset, len, &used, err);
    if (rc) {
        return fail_writer(writer, rc);
    }
    rc = rg_posix_object_check_unchanged(source, err);
    if (rc) {
        return fail_writer(writer, rc);
    }
    if (ret_copy) {
        *ret_copy = used;
    }
    return 0;
}

/* ---- Ending ---- */

int rg_posix_writer_finish(struct rg_writer *writer, struct rg_error *err)
{
    if (writer->failed) {
        return rg_failf(err, RG_INTERNAL_ERROR, "commit after a failed write");
    }
    int rc = flush(writer, err);
    rc = rc ? rc : set_direct(writer, false, err);
    if (rc || writer->temp.fd < 0) {
        return rc;
    }
    struct stat st;
    if (fstat(writer->temp.fd, &st) < 0) {
        return rg_fail_storage(err, errno, "looking at the file written");
    }
    if ((uint64_t)st.st_size < writer->size) {
        return rg_failf(err, RG_STORAGE_FAULT,
                        "The file holds %llu of the %llu bytes that were written.",
                        (unsigned long long)st.st_size, (unsigned long long)writer->size);
    }
    bool longer = (uint64_t)st.st_size > writer->size || writer->reserved > writer->size;
    if (longer && ftruncate(writer->temp.fd, (off_t)writer->size) < 0) {
        return rg_fail_storage(err, errno, "cutting the file to its size");
    }
    return 0;
}

static int commit(struct rg_writer *writer, const struct rg_meta *meta,
                  const struct rg_conditions *conditions, struct rg_written *ret_written,
                  struct rg_error *err)
{
    int rc = rg_posix_writer_finish(writer, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    rc = rg_meta_copy(meta, &record.meta, err);
    if (rc) {
        return rc;
    }
    record.key = rg_span_dup(writer->split.key);
    if (!record.key) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_written written = {.size = writer->size};
    memcpy(written.etag, meta->etag, sizeof written.etag);
    if (writer->split.is_directory) {
        rc = rg_posix_publish_directory(writer->bucket, &writer->split, &record, conditions,
                                        &written.modified, err);
    } else {
        rc = rg_posix_seal(writer->bucket, &writer->temp, &record, &written.modified, err);
        if (rc) {
            return rc;
        }
        RG_CRASH_POINT("put.sealed");
        rc = rg_posix_publish(writer->bucket, &writer->split, &writer->temp, conditions, NULL, err);
        if (rc && !writer->temp.placed) {
            rg_posix_sidecar_remove(writer->bucket, &record);
        }
    }
    if (rc) {
        return rc;
    }
    *ret_written = written;
    return 0;
}

int rg_posix_put_commit(struct rg_writer *own_writer, const struct rg_meta *meta,
                        const struct rg_conditions *conditions, struct rg_written *ret_written,
                        struct rg_error *err)
{
    rg_autowriter writer = own_writer;
    int rc = commit(writer, meta, conditions, ret_written, err);
    return rg_posix_bucket_blame(writer->bucket, rc, err);
}

void rg_posix_writer_abort(struct rg_writer *writer)
{
    rg_posix_temp_discard(&writer->temp);
    if (writer->bucket) {
        rg_posix_bucket_put(writer->bucket);
    }
    if (writer->upload_fd >= 0) {
        close(writer->upload_fd);
    }
    free(writer->buffer);
    free(writer->key);
    free(writer);
}
