/*
 * Records: reading and writing what S3 knows of a file beyond its bytes.
 *
 * A record stands in one xattr. One that is too long for it stands in a sidecar file, and the xattr
 * then holds its short members (ETag, checksum, file identity, times) and the sidecar's id, so that
 * listings need no more than the xattr. Changing a record is one setxattr, hence atomic; the
 * sidecar it names is durable before.
 *
 * Nothing here takes locks: callers that read, change and write hold the key's lock.
 */
#include "store/posix/posix.h"

#include "base/encode.h"
#include "base/random.h"
#include "s3/names.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* How long a file that seems older than its record is looked at again (1.3 s in all), and how young
 * the record must be for that. */
#define LAG_PAUSE_US_MIN 5000u
#define LAG_PAUSE_US_MAX 640000u
#define LAG_RECORD_AGE_S 10

#define XATTR_BYTES_MAX (64u << 10)
/* How often a record is read again whose sidecar was exchanged in between. */
#define WHOLE_TRIES 64

/* ---- Reading ---- */

static bool is_absent(int os_errno)
{
    return os_errno == ENODATA || os_errno == EOPNOTSUPP || os_errno == EPERM;
}

/*
 * Reads an xattr of an open file, or of `path` when fd is -1. An absent one gives *ret_found false.
 * Lustre may announce more bytes than there are; a value may grow between two calls.
 */
static int read_xattr(int fd, const char *path, const char *name, struct rg_buf *out,
                      bool *ret_found, struct rg_error *err)
{
    size_t room = 2048;
    for (int i = 0; i < 4; i++) {
        char *to = rg_buf_reserve(out, room);
        if (!to) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        ssize_t len = fd >= 0 ? fgetxattr(fd, name, to, room) : lgetxattr(path, name, to, room);
        if (len >= 0) {
            rg_buf_grew(out, (size_t)len);
            *ret_found = true;
            return 0;
        }
        if (errno != ERANGE) {
            break;
        }
        room = XATTR_BYTES_MAX;
    }
    if (is_absent(errno)) {
        *ret_found = false;
        return 0;
    }
    if (errno == ENOENT && fd < 0) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    /* Of an open file it says what ESTALE says: the file was replaced, the key may well be there.
     */
    return rg_fail_storage(err, errno == ENOENT ? ESTALE : errno, "reading the xattr %s", name);
}

static void sidecar_name(const struct rg_record *record, char name[RG_POSIX_SIDECAR_ID + 1])
{
    rg_hex_encode(record->sidecar, sizeof record->sidecar, name);
}

static int read_file(int fd, struct rg_buf *out, struct rg_error *err)
{
    for (;;) {
        char *to = rg_buf_reserve(out, 16384);
        if (!to) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        ssize_t len = read(fd, to, 16384);
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return rg_fail_storage(err, errno, "reading a record");
        }
        if (len == 0) {
            return 0;
        }
        rg_buf_grew(out, (size_t)len);
    }
}

int rg_posix_record_file_read(int directory_fd, const char *name, struct rg_record *ret_record,
                              bool *ret_found, struct rg_error *err)
{
    *ret_found = false;
    rg_autoclose int fd =
        openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? 0 : rg_fail_storage(err, errno, "opening a record");
    }
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)RG_RECORD_BYTES_MAX) {
        return 0;
    }
    RG_BUF(bytes, RG_RECORD_BYTES_MAX + 16384);
    int rc = read_file(fd, &bytes, err);
    if (rc) {
        return rc;
    }
    rc = rg_record_decode(rg_buf_span(&bytes), ret_record, err);
    *ret_found = rc == 0;
    return rc == -RG_PARSE ? 0 : rc;
}

/* Puts the sidecar's metadata in the place of the pointer's; *ret_found is false when there is no
 * such sidecar. */
static int read_sidecar(struct rg_posix_bucket *bucket, struct rg_record *record, bool *ret_found,
                        struct rg_error *err)
{
    *ret_found = false;
    rg_autoclose int sidecar_fd = -1;
    int rc = rg_posix_state_open(bucket, "sidecar", false, &sidecar_fd, err);
    if (rc || sidecar_fd < 0) {
        return rc;
    }
    char name[RG_POSIX_SIDECAR_ID + 1];
    sidecar_name(record, name);
    RG_CLEANUP(rg_record_free) struct rg_record rest = RG_RECORD_INIT;
    rc = rg_posix_record_file_read(sidecar_fd, name, &rest, ret_found, err);
    if (rc || !*ret_found) {
        return rc;
    }
    struct rg_meta meta = record->meta;
    record->meta = rest.meta;
    rest.meta = meta;
    return 0;
}

static int read_pointer(int fd, const char *path, struct rg_record *ret_record, bool *ret_found,
                        struct rg_error *err)
{
    *ret_found = false;
    RG_BUF(bytes, 2 * XATTR_BYTES_MAX);
    bool there = false;
    int rc = read_xattr(fd, path, RG_POSIX_XATTR, &bytes, &there, err);
    if (rc || !there) {
        return rc;
    }
    struct rg_record record = RG_RECORD_INIT;
    rc = rg_record_decode(rg_buf_span(&bytes), &record, err);
    if (rc) {
        return rc == -RG_PARSE ? 0 : rc;
    }
    *ret_record = record;
    *ret_found = true;
    return 0;
}

static bool same_sidecar(const struct rg_record *a, const struct rg_record *b)
{
    return b->has_sidecar && memcmp(a->sidecar, b->sidecar, sizeof a->sidecar) == 0;
}

/*
 * Who replaces a record, or a file, removes the old sidecar without asking who reads: a sidecar
 * that is not there is looked for again by what the xattr says afterwards. A file that has no name
 * left was replaced itself: RG_OPERATION_ABORTED, the caller opens what stands there now. Only a
 * sidecar that a living file still points to is lost: then the pointer stands, its ETag and
 * checksum are true.
 */
static int read_whole(struct rg_posix_bucket *bucket, int fd, struct rg_record *ret_record,
                      bool *ret_found, struct rg_error *err)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool missing = false;
    for (int i = 0; i < WHOLE_TRIES; i++) {
        RG_CLEANUP(rg_record_free) struct rg_record before = record;
        record = (struct rg_record)RG_RECORD_INIT;
        int rc = read_pointer(fd, NULL, &record, ret_found, err);
        if (rc || !*ret_found) {
            return rc;
        }
        bool there = !record.has_sidecar;
        if (missing && same_sidecar(&before, &record)) {
            struct stat st;
            if (fstat(fd, &st) < 0) {
                return rg_fail_storage(err, errno, "looking at the object");
            }
            if (st.st_nlink == 0) {
                break;
            }
            there = true; /* as good as it gets */
        } else if (!there) {
            rc = read_sidecar(bucket, &record, &there, err);
            if (rc) {
                return rc;
            }
        }
        if (there) {
            *ret_record = record;
            record = (struct rg_record)RG_RECORD_INIT;
            return 0;
        }
        missing = true;
    }
    *ret_found = false;
    return rg_failf(err, RG_OPERATION_ABORTED,
                    "The object changes faster than its metadata can be read. Try again.");
}

int rg_posix_record_read(struct rg_posix_bucket *bucket, int fd, bool whole,
                         struct rg_record *ret_record, bool *ret_found, struct rg_error *err)
{
    *ret_found = false;
    return whole ? read_whole(bucket, fd, ret_record, ret_found, err)
                 : read_pointer(fd, NULL, ret_record, ret_found, err);
}

int rg_posix_record_read_at(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                            struct rg_record *ret_record, bool *ret_found, struct rg_error *err)
{
    char path[32 + NAME_MAX + 1];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", directory_fd, name);
    return read_pointer(-1, path, ret_record, ret_found, err);
}

int rg_posix_record_read_last(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                              struct rg_record *ret_record, bool *ret_found, struct rg_error *err)
{
    int rc = rg_posix_record_read_at(bucket, directory_fd, name, ret_record, ret_found, err);
    struct stat st;
    if (rc == 0 && *ret_found && ret_record->has_sidecar &&
        (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink > 1)) {
        ret_record->has_sidecar = false;
    }
    return rc;
}

/* The time may have lost digits on its way to the disk (mounts keep 1 ns, 100 ns, 1 us or 1 s). */
static bool is_same_time(const struct rg_record *record, const struct timespec *mtime)
{
    static const long steps[] = {1, 100, 1000, 1000000, 1000000000};
    if (record->mtime_s != mtime->tv_sec) {
        return false;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(steps); i++) {
        if ((long)record->mtime_ns / steps[i] * steps[i] == mtime->tv_nsec) {
            return true;
        }
    }
    return false;
}

bool rg_posix_record_is_current(const struct rg_record *record, const struct stat *st)
{
    return record->has_file && record->size == (uint64_t)st->st_size &&
           is_same_time(record, &st->st_mtim);
}

/* What is true of a file: the record's word for as long as the file is as it says. */
struct truth {
    bool is_object;
    bool is_foreign;
    struct timespec modified;
};

static struct truth judge(const struct rg_record *record, bool found, bool legacy,
                          const struct stat *st)
{
    struct truth truth = {.is_object = true, .modified = st->st_mtim};
    if (S_ISDIR(st->st_mode)) {
        truth.is_object = found && record->meta.etag[0];
        if (found && record->has_modified) {
            truth.modified = record->modified;
        }
        return truth;
    }
    bool trusted =
        found && record->meta.etag[0] && (legacy || rg_posix_record_is_current(record, st));
    truth.is_foreign = !trusted;
    if (trusted && record->has_modified) {
        truth.modified = record->modified;
    }
    return truth;
}

static void synthesize(const struct stat *st, char etag[RG_ETAG_MAX + 1])
{
    rg_etag_synthetic(st->st_ino, st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec,
                      (uint64_t)st->st_size, etag);
}

/*
 * Whether a client of a network file system shows us the file as it was before it was finished: no
 * file is older than its record, which is the last thing written. GlusterFS believes a time for a
 * second by default, also of a file that another client has just renamed into place. A file that
 * somebody gave an older time on purpose looks the same; so only young records are waited for.
 */
static bool lags_behind(int fd, const struct rg_record *record, const struct stat *st)
{
    struct timespec now;
    struct statfs fs;
    clock_gettime(CLOCK_REALTIME, &now);
    bool is_older =
        st->st_mtim.tv_sec < record->mtime_s ||
        (st->st_mtim.tv_sec == record->mtime_s && st->st_mtim.tv_nsec < (long)record->mtime_ns);
    return S_ISREG(st->st_mode) && record->has_file && is_older &&
           llabs((long long)now.tv_sec - (long long)record->mtime_s) <= LAG_RECORD_AGE_S &&
           fstatfs(fd, &fs) == 0 && !rg_posix_is_local((uint64_t)fs.f_type & 0xffffffffu);
}

/* Looks at the file until it is as its record says; it may never be. */
static void wait_for_the_time(int fd, const struct rg_record *record, struct stat *st)
{
    for (useconds_t pause = LAG_PAUSE_US_MIN; pause <= LAG_PAUSE_US_MAX; pause *= 2) {
        struct statx seen;
        usleep(pause);
        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_MTIME | STATX_SIZE, &seen) <
            0) {
            return;
        }
        st->st_size = (off_t)seen.stx_size;
        st->st_mtim = (struct timespec){seen.stx_mtime.tv_sec, (long)seen.stx_mtime.tv_nsec};
        if (rg_posix_record_is_current(record, st)) {
            return;
        }
    }
}

int rg_posix_info_read(struct rg_posix_bucket *bucket, int fd, struct stat *st,
                       struct rg_object_info *ret_info, struct rg_error *err)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    bool legacy = false;
    int rc = rg_posix_record_read(bucket, fd, true, &record, &found, err);
    if (rc == 0 && !found) {
        rc = rg_posix_legacy_read(fd, &record, &found, err);
        legacy = found;
    }
    if (rc) {
        return rc;
    }
    struct truth truth = judge(&record, found, legacy, st);
    if (truth.is_foreign && found && lags_behind(fd, &record, st)) {
        wait_for_the_time(fd, &record, st);
        truth = judge(&record, found, legacy, st);
    }
    if (!truth.is_object) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    if (truth.is_foreign) {
        synthesize(st, record.meta.etag);
        record.meta.etag_is_md5 = false;
        record.meta.checksum = (struct rg_checksum)RG_CHECKSUM_INIT;
        free(RG_TAKE(record.meta.parts));
        record.meta.part_count = 0;
    }
    *ret_info = (struct rg_object_info){
        .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
        .modified = truth.modified,
        .is_directory = S_ISDIR(st->st_mode),
        .is_foreign = truth.is_foreign,
        .meta = record.meta,
    };
    record.meta = (struct rg_meta)RG_META_INIT;
    return 0;
}

static int read_legacy_by_name(int directory_fd, const char *name, struct rg_record *ret_record,
                               bool *ret_found, struct rg_error *err)
{
    rg_autoclose int fd =
        openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        *ret_found = false;
        return errno == ENOENT ? rg_fail(err, RG_NO_SUCH_KEY)
               : errno == EACCES || errno == ELOOP
                   ? 0
                   : rg_fail_storage(err, errno, "opening a file for its metadata");
    }
    return rg_posix_legacy_read(fd, ret_record, ret_found, err);
}

int rg_posix_brief_read(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                        const struct stat *st, struct rg_posix_brief *ret_brief,
                        struct rg_error *err)
{
    char path[32 + NAME_MAX + 1];
    if (snprintf(path, sizeof path, "/proc/self/fd/%d/%s", directory_fd, name) >=
        (int)sizeof path) {
        return rg_fail(err, RG_NO_SUCH_KEY);
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    bool legacy = false;
    int rc = read_pointer(-1, path, &record, &found, err);
    if (rc == 0 && !found) {
        /* Files of other programs are common in a tree; opening each for versitygw's xattrs is not
         * needed when it has none. */
        char none;
        if (lgetxattr(path, "user.etag", &none, 0) > 0) {
            rc = read_legacy_by_name(directory_fd, name, &record, &found, err);
            legacy = found;
        }
    }
    if (rc) {
        return rc;
    }
    struct truth truth = judge(&record, found, legacy, st);
    struct rg_posix_brief brief = {
        .modified = truth.modified,
        .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
        .is_foreign = truth.is_foreign,
        .is_object = truth.is_object,
    };
    if (truth.is_foreign) {
        synthesize(st, brief.etag);
    } else if (truth.is_object) {
        memcpy(brief.etag, record.meta.etag, sizeof brief.etag);
        brief.checksum = record.meta.checksum;
    }
    *ret_brief = brief;
    return 0;
}

/* ---- Writing ---- */

/* Could a shorter value have gone in? */
static bool is_too_long(int os_errno)
{
    return os_errno == E2BIG || os_errno == ENOSPC || os_errno == ERANGE;
}

static int write_all(int fd, struct span bytes, struct rg_error *err)
{
    while (bytes.len) {
        ssize_t len = write(fd, bytes.ptr, bytes.len);
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return rg_fail_storage(err, errno, "writing a record");
        }
        bytes = rg_span_skip(bytes, (size_t)len);
    }
    return 0;
}

int rg_posix_record_file_write(struct rg_posix *posix, const struct rg_posix_mount *mount,
                               int directory_fd, const char *name, const struct rg_record *record,
                               struct rg_error *err)
{
    RG_BUF(bytes, RG_RECORD_BYTES_MAX);
    int rc = rg_record_encode(record, &bytes, err);
    if (rc) {
        return rc;
    }
    rg_autoclose int fd =
        openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return rg_fail_storage(err, errno, "making a record's file");
    }
    rc = write_all(fd, rg_buf_span(&bytes), err);
    rc = rc ? rc : rg_posix_data_sync(posix, mount, fd, err);
    if (close(RG_TAKE_FD(fd)) < 0 && rc == 0) {
        rc = rg_fail_storage(err, errno, "closing a record's file");
    }
    if (rc) {
        unlinkat(directory_fd, name, 0);
    }
    return rc;
}

static int write_sidecar(struct rg_posix_bucket *bucket, struct rg_record *record,
                         struct rg_error *err)
{
    rg_autoclose int sidecar_fd = -1;
    int rc = rg_posix_state_open(bucket, "sidecar", true, &sidecar_fd, err);
    if (rc) {
        return rc;
    }
    rg_random_bytes(record->sidecar, sizeof record->sidecar);
    char name[RG_POSIX_SIDECAR_ID + 1];
    sidecar_name(record, name);
    rc = rg_posix_record_file_write(bucket->posix, bucket->mount, sidecar_fd, name, record, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("sidecar.written");
    rc = rg_posix_names_sync(bucket->posix, bucket->mount, sidecar_fd, -1, err);
    if (rc) {
        unlinkat(sidecar_fd, name, 0);
        return rc;
    }
    record->has_sidecar = true;
    return 0;
}

/* Sets the xattr. *ret_fits is false when the value is too long for this file. */
static int set_xattr(const struct rg_posix_mount *mount, int fd, const struct rg_record *record,
                     bool *ret_fits, struct rg_error *err)
{
    RG_BUF(bytes, RG_RECORD_BYTES_MAX);
    int rc = rg_record_encode(record, &bytes, err);
    if (rc) {
        return rc;
    }
    *ret_fits = bytes.len <= mount->xattr_max;
    if (!*ret_fits) {
        return 0;
    }
    if (fsetxattr(fd, RG_POSIX_XATTR, bytes.data, bytes.len, 0) == 0) {
        return 0;
    }
    if (is_too_long(errno)) {
        *ret_fits = false;
        return 0;
    }
    return rg_fail_storage(err, errno, "writing the xattr " RG_POSIX_XATTR);
}

int rg_posix_record_write(struct rg_posix_bucket *bucket, const struct rg_posix_mount *mount,
                          int fd, struct rg_record *record, struct rg_error *err)
{
    /* The key is kept in sidecars only: it tells the sweeper where to look for their owner. */
    record->has_sidecar = false;
    char *key = RG_TAKE(record->key);
    bool fits = false;
    int rc = set_xattr(mount, fd, record, &fits, err);
    record->key = key;
    if (rc || fits) {
        return rc;
    }

    rc = write_sidecar(bucket, record, err);
    if (rc) {
        return rc;
    }
    struct rg_record pointer = *record;
    pointer.key = NULL;
    pointer.meta = (struct rg_meta)RG_META_INIT;
    memcpy(pointer.meta.etag, record->meta.etag, sizeof pointer.meta.etag);
    pointer.meta.etag_is_md5 = record->meta.etag_is_md5;
    pointer.meta.checksum = record->meta.checksum;
    rc = set_xattr(mount, fd, &pointer, &fits, err);
    if (rc == 0 && !fits) {
        rc = rg_fail_storage(err, ENOSPC, "writing even a short xattr " RG_POSIX_XATTR);
    }
    if (rc) {
        rg_posix_sidecar_remove(bucket, record);
        record->has_sidecar = false;
    }
    return rc;
}

/* The directory of sidecars and the record's own name in it. False: it has none that can be
 * reached. */
static bool find_sidecar(struct rg_posix_bucket *bucket, const struct rg_record *record,
                         int *ret_fd, char name[RG_POSIX_SIDECAR_ID + 1])
{
    if (!record->has_sidecar || rg_posix_state_open(bucket, "sidecar", false, ret_fd, NULL) ||
        *ret_fd < 0) {
        return false;
    }
    sidecar_name(record, name);
    return true;
}

void rg_posix_sidecar_remove(struct rg_posix_bucket *bucket, const struct rg_record *record)
{
    rg_autoclose int sidecar_fd = -1;
    char name[RG_POSIX_SIDECAR_ID + 1];
    if (find_sidecar(bucket, record, &sidecar_fd, name)) {
        unlinkat(sidecar_fd, name, 0);
    }
}

void rg_posix_sidecar_retire(struct rg_posix_bucket *bucket, struct span key,
                             const struct rg_record *record)
{
    rg_autoclose int sidecar_fd = -1;
    char name[RG_POSIX_SIDECAR_ID + 1];
    RG_CLEANUP(rg_record_free) struct rg_record sidecar = RG_RECORD_INIT;
    bool found = false;
    if (find_sidecar(bucket, record, &sidecar_fd, name) &&
        rg_posix_record_file_read(sidecar_fd, name, &sidecar, &found, NULL) == 0 && found &&
        sidecar.key && rg_span_is(key, sidecar.key)) {
        unlinkat(sidecar_fd, name, 0);
    }
}
