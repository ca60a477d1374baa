/*
 * Multipart uploads. An upload is a directory .railgate/uploads/<sha256hex(key)>/<id> with a file
 * `record` (key, metadata, checksum choice) and one file a part. It exists for as long as `record`
 * does: what ends an upload removes that first, under the key's lock.
 *
 * Complete assembles a new file and publishes it like a PUT. Killed at any point, either the upload
 * is still whole, or the object is there; the object's record names the upload, so that a repeated
 * Complete is recognised and leftovers are known as such.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"
#include "base/random.h"
#include "store/posix/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#define CREATE_TRIES   16
#define PART_XATTR_MAX 4096
#define STALE_TRIES    15
#define STALE_PAUSE_US 100000u
#define HASH_HEX       64
/* Depth of what stands below an upload's directory: files only. */
#define UPLOAD_DEPTH 1

/* ---- Finding ---- */

/* An upload found: open until closed. */
struct upload {
    struct rg_posix_bucket *bucket;
    struct rg_posix_key split;
    int uploads_fd;
    int fd; /* its own directory */
    char hash[HASH_HEX + 1];
    char id[RG_UPLOAD_ID_LENGTH + 1];
    struct rg_upload_info info;
};

static void close_upload(struct upload *upload)
{
    if (upload->fd >= 0) {
        close(upload->fd);
    }
    if (upload->uploads_fd >= 0) {
        close(upload->uploads_fd);
    }
    rg_upload_info_free(&upload->info);
    if (upload->bucket) {
        rg_posix_bucket_put(upload->bucket);
    }
}

#define UPLOAD_INIT                                                                                \
    {                                                                                              \
        .uploads_fd = -1, .fd = -1                                                                 \
    }
#define autoupload RG_CLEANUP(close_upload) struct upload

static int hash_of(struct span key, char hash[HASH_HEX + 1], struct rg_error *err)
{
    struct rg_checksum digest;
    int rc = rg_checksum_of(RG_CHECKSUM_SHA256, key, &digest, err);
    if (rc == 0) {
        rg_hex_encode(digest.bytes, HASH_HEX / 2, hash);
    }
    return rc;
}

static bool is_id(struct span id)
{
    uint8_t bytes[RG_UPLOAD_ID_LENGTH / 2];
    if (!rg_hex_decode(id, bytes, sizeof bytes)) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        if (id.ptr[i] >= 'A' && id.ptr[i] <= 'F') {
            return false;
        }
    }
    return true;
}

int rg_posix_uploads_open(struct rg_posix_bucket *bucket, int *ret_fd, struct rg_error *err)
{
    return rg_posix_state_open(bucket, "uploads", false, ret_fd, err);
}

int rg_posix_upload_read(int upload_fd, struct span id, struct rg_upload_info *ret_info,
                         struct rg_error *err)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    int rc = rg_posix_record_file_read(upload_fd, RG_POSIX_UPLOAD_FILE, &record, &found, err);
    if (rc) {
        return rc;
    }
    if (!found || !record.key || !record.has_modified || !is_id(id)) {
        return rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    struct rg_upload_info info = {
        .key = record.key,
        .initiated = record.modified,
        .checksum_algorithm = record.upload_algorithm,
        .checksum_type = record.upload_type,
        .meta = record.meta,
    };
    memcpy(info.id, id.ptr, RG_UPLOAD_ID_LENGTH);
    record.key = NULL;
    record.meta = (struct rg_meta)RG_META_INIT;
    *ret_info = info;
    return 0;
}

/* Bucket and key; then the upload, RG_NO_SUCH_UPLOAD when there is none of that id and key. */
static int find_key(struct upload *upload, struct rg_posix *posix, struct span bucket,
                    struct span key, struct span id, struct rg_error *err)
{
    int rc = rg_posix_bucket_get(posix, bucket, &upload->bucket, err);
    if (rc) {
        return rc;
    }
    if (!is_id(id) || rg_posix_key_split(key, &upload->split, NULL)) {
        return rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    memcpy(upload->id, id.ptr, RG_UPLOAD_ID_LENGTH);
    return hash_of(key, upload->hash, err);
}

static int find_directory(struct upload *upload, struct rg_error *err)
{
    int rc = rg_posix_uploads_open(upload->bucket, &upload->uploads_fd, err);
    if (rc) {
        return rc;
    }
    if (upload->uploads_fd < 0) {
        return rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    char path[HASH_HEX + 1 + RG_UPLOAD_ID_LENGTH + 1];
    snprintf(path, sizeof path, "%s/%s", upload->hash, upload->id);
    upload->fd = rg_posix_open_beneath(upload->uploads_fd, rg_span_text(path),
                                       O_RDONLY | O_DIRECTORY, false);
    if (upload->fd < 0) {
        int os_errno = -upload->fd;
        upload->fd = -1;
        return os_errno == ENOENT ? rg_fail(err, RG_NO_SUCH_UPLOAD)
                                  : rg_fail_storage(err, os_errno, "opening the upload");
    }
    rc = rg_posix_upload_read(upload->fd, rg_span_text(upload->id), &upload->info, err);
    if (rc) {
        return rc;
    }
    return rg_span_is(upload->split.key, upload->info.key) ? 0 : rg_fail(err, RG_NO_SUCH_UPLOAD);
}

static int find_upload(struct upload *upload, struct rg_store *store, struct span bucket,
                       struct span key, struct span id, struct rg_error *err)
{
    int rc = find_key(upload, rg_posix_of(store), bucket, key, id, err);
    return rc ? rc : find_directory(upload, err);
}

/*
 * RG_NO_SUCH_UPLOAD when it has ended meanwhile. ESTALE where the directory is gone: it ended at
 * another client. That it is gone may be known late (GlusterFS: after a second); where it is not, a
 * server that has just come back may say ESTALE of what is still there, directory included.
 */
static int check_there(int upload_fd, struct rg_error *err)
{
    struct stat st = {0};
    bool is_known = false;
    for (int i = 0; i < STALE_TRIES; i++) {
        if (faccessat(upload_fd, RG_POSIX_UPLOAD_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            return 0;
        }
        if (errno == ENOENT) {
            return rg_fail(err, RG_NO_SUCH_UPLOAD);
        }
        if (errno != ESTALE) {
            return rg_fail_storage(err, errno, "finding the upload");
        }
        is_known = fstat(upload_fd, &st) == 0;
        if (is_known && st.st_nlink == 0) {
            return rg_fail(err, RG_NO_SUCH_UPLOAD);
        }
        usleep(STALE_PAUSE_US);
    }
    return is_known ? rg_fail_storage(err, ESTALE, "finding the upload")
                    : rg_fail(err, RG_NO_SUCH_UPLOAD);
}

/* ---- Beginning ---- */

/* Makes uploads/<hash>/<id>. The directory of the hash may be removed by whoever ends the last
 * upload of the key: then again. */
static int make_directory(struct rg_posix_bucket *bucket, int uploads_fd, const char *hash,
                          const char *id, int *ret_hash_fd, int *ret_fd, struct rg_error *err)
{
    for (int i = 0; i < CREATE_TRIES; i++) {
        bool made = mkdirat(uploads_fd, hash, 0700) == 0;
        if (!made && errno != EEXIST) {
            return rg_fail_storage(err, errno, "making an upload's directory");
        }
        rg_autoclose int hash_fd =
            openat(uploads_fd, hash, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (hash_fd < 0 || mkdirat(hash_fd, id, 0700) < 0) {
            if (errno == ENOENT) {
                continue;
            }
            return rg_fail_storage(err, errno, "making an upload's directory");
        }
        int fd = openat(hash_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return rg_fail_storage(err, errno, "opening an upload's directory");
        }
        *ret_fd = fd;
        *ret_hash_fd = RG_TAKE_FD(hash_fd);
        return 0;
    }
    return rg_failf(err, RG_SLOW_DOWN, "The upload's directory is removed as fast as it is made.");
}

static int fill_record(struct rg_record *record, struct span key, const struct rg_meta *meta,
                       enum rg_checksum_algorithm algorithm, enum rg_checksum_type type,
                       struct rg_error *err)
{
    int rc = rg_meta_copy(meta, &record->meta, err);
    if (rc) {
        return rc;
    }
    record->key = rg_span_dup(key);
    record->has_modified = true;
    clock_gettime(CLOCK_REALTIME, &record->modified);
    record->upload_algorithm = algorithm;
    record->upload_type = type;
    return record->key ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

int rg_posix_upload_create(struct rg_store *store, struct span name, struct span key,
                           const struct rg_meta *meta, enum rg_checksum_algorithm algorithm,
                           enum rg_checksum_type type, char ret_id[RG_UPLOAD_ID_LENGTH + 1],
                           struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    struct rg_posix_key split;
    int rc = rg_posix_key_split(key, &split, err);
    if (rc) {
        return rc;
    }
    if (split.is_directory) {
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "A key that ends in \"/\" is a directory and cannot hold bytes.");
    }
    rg_autobucket bucket = NULL;
    rc = rg_posix_bucket_get(posix, name, &bucket, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    rc = fill_record(&record, key, meta, algorithm, type, err);
    char hash[HASH_HEX + 1];
    rc = rc ? rc : hash_of(key, hash, err);
    rg_autoclose int uploads_fd = -1;
    rc = rc ? rc : rg_posix_state_open(bucket, "uploads", true, &uploads_fd, err);
    if (rc) {
        return rc;
    }
    uint8_t random[RG_UPLOAD_ID_LENGTH / 2];
    char id[RG_UPLOAD_ID_LENGTH + 1];
    rg_random_bytes(random, sizeof random);
    rg_hex_encode(random, sizeof random, id);
    rg_autoclose int hash_fd = -1;
    rg_autoclose int fd = -1;
    rc = make_directory(bucket, uploads_fd, hash, id, &hash_fd, &fd, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("upload.made");
    rc = rg_posix_record_file_write(posix, bucket->mount, fd, RG_POSIX_UPLOAD_FILE, &record, err);
    RG_CRASH_POINT("upload.recorded");
    rc = rc ? rc : rg_posix_names_sync(posix, bucket->mount, fd, -1, err);
    rc = rc ? rc : rg_posix_names_sync(posix, bucket->mount, hash_fd, -1, err);
    rc = rc ? rc : rg_posix_names_sync(posix, bucket->mount, uploads_fd, -1, err);
    if (rc) {
        rg_posix_upload_remove(uploads_fd, hash, id);
        return rc;
    }
    memcpy(ret_id, id, sizeof id);
    return 0;
}

int rg_posix_upload_stat(struct rg_store *store, struct span bucket, struct span key,
                         struct span id, struct rg_upload_info *ret_info, struct rg_error *err)
{
    autoupload upload = UPLOAD_INIT;
    int rc = find_upload(&upload, store, bucket, key, id, err);
    if (rc) {
        return rc;
    }
    *ret_info = upload.info;
    upload.info = (struct rg_upload_info){.id = ""};
    return 0;
}

/* ---- Parts ---- */

static void part_name(uint32_t number, char name[16])
{
    snprintf(name, 16, RG_POSIX_PART_FORMAT, number);
}

/* 0 when the name is no part's. */
static uint32_t part_number(const char *name)
{
    uint64_t number = 0;
    char canonical[16];
    if (!rg_span_to_u64(rg_span_text(name), &number) || number == 0 || number > RG_META_PARTS_MAX) {
        return 0;
    }
    part_name((uint32_t)number, canonical);
    return strcmp(name, canonical) == 0 ? (uint32_t)number : 0;
}

int rg_posix_part_begin(struct rg_store *store, struct span bucket, struct span key, struct span id,
                        uint32_t number, int64_t expected_size, struct rg_writer **ret_writer,
                        struct rg_error *err)
{
    if (number == 0 || number > RG_META_PARTS_MAX) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "Part number must be between 1 and %u.",
                        RG_META_PARTS_MAX);
    }
    autoupload upload = UPLOAD_INIT;
    int rc = find_upload(&upload, store, bucket, key, id, err);
    if (rc) {
        return rc;
    }
    rg_autowriter writer = NULL;
    rc = rg_posix_writer_new(rg_posix_of(store), bucket, key, expected_size, &writer, err);
    if (rc) {
        return rc;
    }
    writer->part = number;
    writer->upload_fd = RG_TAKE_FD(upload.fd);
    memcpy(writer->upload_id, upload.id, sizeof upload.id);
    rc = rg_posix_writer_open(writer, err);
    if (rc) {
        return rg_posix_bucket_blame(writer->bucket, rc, err);
    }
    *ret_writer = RG_TAKE(writer);
    return 0;
}

static int write_part_record(struct rg_writer *writer, const struct rg_part_info *part,
                             struct stat *ret_st, struct rg_error *err)
{
    if (fstat(writer->temp.fd, ret_st) < 0) {
        return rg_fail_storage(err, errno, "looking at the part written");
    }
    struct rg_record record = {
        .has_file = true,
        .size = (uint64_t)ret_st->st_size,
        .mtime_s = ret_st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)ret_st->st_mtim.tv_nsec,
        .has_md5 = part->has_md5,
    };
    memcpy(record.meta.etag, part->etag, sizeof record.meta.etag);
    record.meta.checksum = part->checksum;
    memcpy(record.md5, part->md5, sizeof record.md5);
    RG_BUF(bytes, PART_XATTR_MAX);
    int rc = rg_record_encode(&record, &bytes, err);
    if (rc) {
        return rc;
    }
    if (fsetxattr(writer->temp.fd, RG_POSIX_PART_XATTR, bytes.data, bytes.len, 0) < 0) {
        return rg_fail_storage(err, errno, "writing the xattr " RG_POSIX_PART_XATTR);
    }
    return 0;
}

/* Under the key's lock, so that nothing ends the upload, or takes the part away, in between. */
static int place_part(struct rg_writer *writer, struct rg_error *err)
{
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    int rc = rg_posix_lock_key(writer->bucket, writer->split.key, RG_SLOW_DOWN, &lock, err);
    rc = rc ? rc : check_there(writer->upload_fd, err);
    if (rc) {
        return rc;
    }
    char name[16];
    part_name(writer->part, name);
    struct span path = RG_SPAN_LITERAL(RG_POSIX_STATE_DIR "/uploads");
    bool replace = writer->temp.name[0];
    rc = rg_posix_temp_place(writer->bucket, &writer->temp, writer->upload_fd, path, name, replace);
    if (rc == -EEXIST) {
        rc =
            rg_posix_temp_place(writer->bucket, &writer->temp, writer->upload_fd, path, name, true);
    }
    if (rc == -ENOENT) {
        return rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    return rc ? rg_fail_storage(err, -rc, "giving the part its name") : 0;
}

static int commit_part(struct rg_writer *writer, const struct rg_part_info *part,
                       struct rg_written *ret_written, struct rg_error *err)
{
    struct stat st;
    int rc = rg_posix_writer_finish(writer, err);
    rc = rc ? rc : write_part_record(writer, part, &st, err);
    rc = rc ? rc : rg_posix_data_sync(writer->posix, writer->temp.mount, writer->temp.fd, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("part.sealed");
    rc = place_part(writer, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("part.placed");
    rc = rg_posix_names_sync(writer->posix, writer->temp.mount, writer->upload_fd, writer->temp.fd,
                             err);
    if (rc) {
        return rc;
    }
    *ret_written = (struct rg_written){.modified = st.st_mtim, .size = writer->size};
    memcpy(ret_written->etag, part->etag, sizeof ret_written->etag);
    return 0;
}

int rg_posix_part_commit(struct rg_writer *own_writer, const struct rg_part_info *part,
                         struct rg_written *ret_written, struct rg_error *err)
{
    rg_autowriter writer = own_writer;
    RG_ASSERT(writer->part);
    int rc = commit_part(writer, part, ret_written, err);
    return rg_posix_bucket_blame(writer->bucket, rc, err);
}

/* Opens a part and reads its record. RG_INVALID_PART when there is none, or another program changed
 * it. */
static int open_part(int upload_fd, uint32_t number, struct rg_part_info *ret_part, int *ret_fd,
                     struct rg_error *err)
{
    char name[16];
    part_name(number, name);
    rg_autoclose int fd = openat(upload_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? rg_fail(err, RG_INVALID_PART)
                               : rg_fail_storage(err, errno, "opening a part");
    }
    uint8_t bytes[PART_XATTR_MAX];
    ssize_t len = fgetxattr(fd, RG_POSIX_PART_XATTR, bytes, sizeof bytes);
    if (len < 0) {
        return errno == ENODATA || errno == ERANGE
                   ? rg_fail(err, RG_INVALID_PART)
                   : rg_fail_storage(err, errno, "reading a part's record");
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    int rc = rg_record_decode(rg_span(bytes, (size_t)len), &record, err);
    if (rc || !record.has_file || record.size != (uint64_t)st.st_size) {
        return rc && rc != -RG_PARSE ? rc : rg_fail(err, RG_INVALID_PART);
    }
    struct rg_part_info part = {
        .number = number,
        .size = record.size,
        .modified = {record.mtime_s, record.mtime_ns},
        .has_md5 = record.has_md5,
        .checksum = record.meta.checksum,
    };
    memcpy(part.etag, record.meta.etag, sizeof part.etag);
    memcpy(part.md5, record.md5, sizeof part.md5);
    *ret_part = part;
    *ret_fd = RG_TAKE_FD(fd);
    return 0;
}

static int read_part(int upload_fd, uint32_t number, struct rg_part_info *ret_part,
                     struct rg_error *err)
{
    rg_autoclose int fd = -1;
    return open_part(upload_fd, number, ret_part, &fd, err);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Numbers of all parts, sorted; free(*ret_numbers). */
static int list_numbers(int upload_fd, uint32_t **ret_numbers, size_t *ret_count,
                        struct rg_error *err)
{
    int fd = openat(upload_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    if (!dir) {
        return rg_fail_storage(err, errno, "reading the upload's directory");
    }
    rg_autofree uint32_t *numbers = NULL;
    size_t count = 0;
    size_t room = 0;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        uint32_t number = part_number(entry->d_name);
        if (number == 0) {
            continue;
        }
        if (count == room) {
            room = room ? room * 2 : 64;
            uint32_t *more = realloc(numbers, room * sizeof *numbers);
            if (!more) {
                return rg_fail(err, RG_OUT_OF_MEMORY);
            }
            numbers = more;
        }
        numbers[count++] = number;
    }
    if (errno) {
        return rg_fail_storage(err, errno, "reading the upload's directory");
    }
    if (count) {
        qsort(numbers, count, sizeof *numbers, compare_numbers);
    }
    *ret_numbers = RG_TAKE(numbers);
    *ret_count = count;
    return 0;
}

int rg_posix_part_list(struct rg_store *store, struct span bucket, struct span key, struct span id,
                       uint32_t after, size_t max, struct rg_part_page *ret_page,
                       struct rg_error *err)
{
    autoupload upload = UPLOAD_INIT;
    int rc = find_upload(&upload, store, bucket, key, id, err);
    if (rc) {
        return rc;
    }
    rg_autofree uint32_t *numbers = NULL;
    size_t count = 0;
    rc = list_numbers(upload.fd, &numbers, &count, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_part_page_free) struct rg_part_page page = {.parts = NULL};
    max = RG_MIN(max, count);
    if (max) {
        page.parts = calloc(max, sizeof *page.parts);
        if (!page.parts) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    for (size_t i = 0; i < count && !page.truncated; i++) {
        if (numbers[i] <= after) {
            continue;
        }
        if (page.count == max) {
            page.truncated = true;
            break;
        }
        rc = read_part(upload.fd, numbers[i], &page.parts[page.count], err);
        if (rc && rc != -RG_INVALID_PART) {
            return rc;
        }
        page.count += rc == 0;
    }
    *ret_page = page;
    page = (struct rg_part_page){.parts = NULL};
    return 0;
}

/* ---- Ending ---- */

int rg_posix_upload_remove(int uploads_fd, const char *hash, const char *id)
{
    rg_autoclose int hash_fd =
        openat(uploads_fd, hash, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (hash_fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    char record[RG_UPLOAD_ID_LENGTH + sizeof "/" RG_POSIX_UPLOAD_FILE];
    snprintf(record, sizeof record, "%s/%s", id, RG_POSIX_UPLOAD_FILE);
    if (unlinkat(hash_fd, record, 0) < 0 && errno != ENOENT) {
        return -errno;
    }
    RG_CRASH_POINT("upload.record-removed");
    int rc = rg_posix_tree_remove(hash_fd, id, UPLOAD_DEPTH);
    if (rc) {
        return rc;
    }
    return unlinkat(uploads_fd, hash, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != EEXIST &&
                   errno != ENOENT
               ? -errno
               : 0;
}

int rg_posix_upload_abort(struct rg_store *store, struct span bucket, struct span key,
                          struct span id, struct rg_error *err)
{
    autoupload upload = UPLOAD_INIT;
    int rc = find_upload(&upload, store, bucket, key, id, err);
    rc = rc ? rc : rg_posix_bucket_ready(upload.bucket, err);
    if (rc) {
        return rc;
    }
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_key(upload.bucket, key, RG_SLOW_DOWN, &lock, err);
    if (rc) {
        return rc;
    }
    if (unlinkat(upload.fd, RG_POSIX_UPLOAD_FILE, 0) < 0) {
        return errno == ENOENT ? rg_fail(err, RG_NO_SUCH_UPLOAD)
                               : rg_fail_storage(err, errno, "ending the upload");
    }
    rg_posix_unlock(&lock);
    RG_CRASH_POINT("abort.record-removed");
    rc = rg_posix_names_sync(rg_posix_of(store), upload.bucket->mount, upload.fd, -1, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_upload_remove(upload.uploads_fd, upload.hash, upload.id);
    return rc ? rg_fail_storage(err, -rc, "removing the parts") : 0;
}

static bool made_by(const struct rg_record *record, const char *id)
{
    uint8_t bytes[RG_UPLOAD_ID_LENGTH / 2];
    return record->has_upload_id && rg_hex_decode(rg_span_text(id), bytes, sizeof bytes) &&
           memcmp(bytes, record->upload_id, sizeof bytes) == 0;
}

/* The object at the key, if this upload made it and nobody changed it since. */
static int read_done(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                     const char *id, struct rg_object **ret_object, struct rg_error *err)
{
    struct rg_object *object = NULL;
    int rc = rg_posix_object_open_in(bucket, split, &object, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    rc = rg_posix_record_read(bucket, object->fd, false, &record, &found, err);
    if (rc == 0 && (!found || object->info.is_foreign || !made_by(&record, id))) {
        rc = rg_fail(err, RG_NO_SUCH_KEY);
    }
    if (rc) {
        rg_posix_object_close(object);
        return rc;
    }
    *ret_object = object;
    return 0;
}

bool rg_posix_upload_is_done(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                             const char *id)
{
    struct rg_object *object = NULL;
    if (read_done(bucket, split, id, &object, NULL)) {
        return false;
    }
    rg_posix_object_close(object);
    return true;
}

/* ---- Complete ---- */

struct completion {
    struct upload *upload;
    const struct rg_complete_request *request;
    struct rg_record record; /* of the object */
    uint64_t size;
    struct rg_posix_temp *moved; /* a single part that becomes the object itself */
    struct timespec modified;    /* once sealed */
};

/* The ETag is a function of the parts' ETags alone, so that a repeated request can be compared. */
static int etag_of_request(const struct rg_complete_request *request, char etag[RG_ETAG_MAX + 1],
                           struct rg_error *err)
{
    rg_autofree uint8_t *digests = calloc(request->count, 16);
    if (!digests) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < request->count; i++) {
        if (!rg_etag_digest(rg_span_text(request->parts[i].etag), digests + 16 * i)) {
            return rg_fail(err, RG_INVALID_PART);
        }
    }
    return rg_etag_multipart(digests, request->count, etag, err);
}

/* Who made the object visible may still be making it durable, or have failed at that. */
static int sync_done(struct upload *upload, struct rg_object *object, struct rg_error *err)
{
    rg_autoclose int parent_fd = -1;
    struct rg_posix_mount *mount = NULL;
    int rc = rg_posix_parent_open(upload->bucket, &upload->split, false, &parent_fd, err);
    rc = rc ? rc : rg_posix_mount_at(upload->bucket, parent_fd, &mount, err);
    return rc ? rc : rg_posix_names_sync(upload->bucket->posix, mount, parent_fd, object->fd, err);
}

/* The upload is no more: the same request may have succeeded before. */
static int answer_again(struct upload *upload, const struct rg_complete_request *request,
                        struct rg_completed *ret_completed, struct rg_error *err)
{
    struct rg_object *object = NULL;
    int rc = read_done(upload->bucket, &upload->split, upload->id, &object, err);
    if (rc) {
        return rc == -RG_NO_SUCH_KEY ? rg_fail(err, RG_NO_SUCH_UPLOAD) : rc;
    }
    char etag[RG_ETAG_MAX + 1];
    rc = etag_of_request(request, etag, err);
    rc = rc ? rc : sync_done(upload, object, err);
    if (rc == 0 && strcmp(etag, object->info.meta.etag) == 0) {
        struct rg_completed completed = {
            .written = {.modified = object->info.modified, .size = object->info.size},
            .checksum = object->info.meta.checksum,
        };
        memcpy(completed.written.etag, etag, sizeof etag);
        *ret_completed = completed;
    } else if (rc == 0) {
        rc = rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    rg_posix_object_close(object);
    return rc;
}

/* A part must be there, and be the one that the client means. */
static int check_part(const struct rg_upload_info *upload, const struct rg_complete_part *wanted,
                      const struct rg_part_info *part, struct rg_error *err)
{
    if (upload->checksum_algorithm != RG_CHECKSUM_NONE &&
        upload->checksum_type == RG_CHECKSUM_COMPOSITE &&
        wanted->checksum.algorithm == RG_CHECKSUM_NONE) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The upload was created using a %s checksum. The complete request must "
                        "include the checksum for each part. It was missing for part %u in the "
                        "request.",
                        rg_checksum_name(upload->checksum_algorithm), wanted->number);
    }
    if (strcmp(wanted->etag, part->etag) != 0) {
        return rg_fail(err, RG_INVALID_PART);
    }
    if (wanted->checksum.algorithm != RG_CHECKSUM_NONE &&
        !rg_checksum_equal(&wanted->checksum, &part->checksum)) {
        return rg_fail(err, RG_INVALID_PART);
    }
    return 0;
}

static int gather_parts(struct completion *completion, struct rg_error *err)
{
    const struct rg_complete_request *request = completion->request;
    struct rg_meta *meta = &completion->record.meta;
    meta->parts = calloc(request->count, sizeof *meta->parts);
    if (!meta->parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    meta->part_count = request->count;
    for (size_t i = 0; i < request->count; i++) {
        struct rg_part_info part;
        int rc = read_part(completion->upload->fd, request->parts[i].number, &part, err);
        rc = rc ? rc : check_part(&completion->upload->info, &request->parts[i], &part, err);
        if (rc) {
            return rc;
        }
        if (i + 1 < request->count && part.size < request->part_size_min) {
            return rg_fail(err, RG_ENTITY_TOO_SMALL);
        }
        if (!rg_add_checked(completion->size, part.size, &completion->size) ||
            completion->size > request->object_size_max) {
            return rg_fail(err, RG_ENTITY_TOO_LARGE);
        }
        meta->parts[i] = (struct rg_part){.size = part.size, .checksum = part.checksum};
    }
    return 0;
}

static int combine_checksums(struct completion *completion, struct rg_error *err)
{
    const struct rg_checksum *expected = &completion->request->expected;
    struct rg_meta *meta = &completion->record.meta;
    enum rg_checksum_algorithm algorithm = completion->upload->info.checksum_algorithm;
    enum rg_checksum_type type = completion->upload->info.checksum_type;
    if (algorithm == RG_CHECKSUM_NONE) {
        algorithm = expected->algorithm;
        type = expected->type;
    }
    if (algorithm == RG_CHECKSUM_NONE) {
        return 0;
    }
    int rc =
        rg_checksum_of_parts(algorithm, type, meta->parts, meta->part_count, &meta->checksum, err);
    if (rc) {
        return rc;
    }
    if (expected->algorithm != RG_CHECKSUM_NONE && !rg_checksum_equal(expected, &meta->checksum)) {
        return rg_fail(err, RG_BAD_DIGEST);
    }
    return 0;
}

/* Everything that is known before a byte is moved. */
static int plan(struct completion *completion, struct rg_error *err)
{
    struct upload *upload = completion->upload;
    struct rg_record *record = &completion->record;
    record->meta = upload->info.meta;
    upload->info.meta = (struct rg_meta)RG_META_INIT;
    int rc = gather_parts(completion, err);
    rc = rc ? rc : etag_of_request(completion->request, record->meta.etag, err);
    rc = rc ? rc : combine_checksums(completion, err);
    if (rc) {
        return rc;
    }
    record->meta.etag_is_md5 = false;
    record->has_upload_id = true;
    RG_ASSERT(rg_hex_decode(rg_span_text(upload->id), record->upload_id, sizeof record->upload_id));
    record->key = rg_span_dup(upload->split.key);
    return record->key ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static int seal(struct completion *completion, const struct rg_posix_temp *temp,
                struct rg_error *err)
{
    int rc = rg_posix_seal(completion->upload->bucket, temp, &completion->record,
                           &completion->modified, err);
    if (rc == 0) {
        RG_CRASH_POINT("complete.sealed");
    }
    return rc;
}

/*
 * Under the key's lock: does the upload still exist, and is its object not there already? A part
 * that becomes the object is sealed here: another Complete may have it open, too, and whoever comes
 * second must not touch what is the object by then.
 */
static int before_publish(void *context, struct rg_error *err)
{
    struct completion *completion = context;
    struct upload *upload = completion->upload;
    int rc = check_there(upload->fd, err);
    if (rc) {
        return rc;
    }
    if (rg_posix_upload_is_done(upload->bucket, &upload->split, upload->id)) {
        return rg_fail(err, RG_NO_SUCH_UPLOAD);
    }
    if (!completion->moved || !completion->moved->name[0]) {
        return 0;
    }
    /* The part may have been uploaded again since it was opened. */
    struct stat own;
    struct stat named;
    if (fstat(completion->moved->fd, &own) < 0 ||
        fstatat(upload->fd, completion->moved->name, &named, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? rg_fail(err, RG_INVALID_PART)
                               : rg_fail_storage(err, errno, "finding a part");
    }
    return own.st_ino == named.st_ino ? seal(completion, completion->moved, err)
                                      : rg_fail(err, RG_INVALID_PART);
}

static void after_publish(void *context)
{
    struct completion *completion = context;
    unlinkat(completion->upload->fd, RG_POSIX_UPLOAD_FILE, 0);
    RG_CRASH_POINT("complete.record-removed");
}

static int publish(struct completion *completion, struct rg_posix_temp *temp, struct rg_error *err)
{
    struct upload *upload = completion->upload;
    const struct rg_posix_hooks hooks = {before_publish, after_publish, completion};
    int rc = rg_posix_publish(upload->bucket, &upload->split, temp, completion->request->conditions,
                              &hooks, err);
    if (rc && !temp->placed) {
        rg_posix_sidecar_remove(upload->bucket, &completion->record);
    }
    return rc;
}

static int append_part(struct completion *completion, struct rg_writer *writer, size_t i,
                       enum rg_copy_used *ret_used, struct rg_error *err)
{
    const struct rg_complete_part *wanted = &completion->request->parts[i];
    struct rg_part_info part;
    rg_autoclose int fd = -1;
    int rc = open_part(completion->upload->fd, wanted->number, &part, &fd, err);
    rc = rc ? rc : check_part(&completion->upload->info, wanted, &part, err);
    if (rc) {
        return rc;
    }
    if (part.size != completion->record.meta.parts[i].size) {
        return rg_fail(err, RG_INVALID_PART);
    }
    return rg_posix_writer_append(writer, fd, 0, part.size, ret_used, err);
}

static int assemble(struct completion *completion, struct rg_store *store,
                    struct rg_written *written, struct rg_error *err)
{
    rg_autowriter writer = NULL;
    int rc = rg_posix_writer_new(rg_posix_of(store), rg_span_text(completion->upload->bucket->name),
                                 completion->upload->split.key, -1, &writer, err);
    rc = rc ? rc : rg_posix_writer_open(writer, err);
    for (size_t i = 0; rc == 0 && i < completion->request->count; i++) {
        enum rg_copy_used used = RG_COPY_USED_NONE;
        rc = append_part(completion, writer, i, &used, err);
        written->copy = RG_MAX(written->copy, used);
        RG_CRASH_POINT("complete.part-copied");
    }
    rc = rc ? rc : rg_posix_writer_finish(writer, err);
    rc = rc ? rc : seal(completion, &writer->temp, err);
    return rc ? rc : publish(completion, &writer->temp, err);
}

/*
 * A single part can become the object itself. Until the rename it stays a part: its own xattr is
 * beside the object's. *ret_done false: it cannot move, copy it.
 */
static int move_part(struct completion *completion, bool *ret_done, struct rg_error *err)
{
    struct upload *upload = completion->upload;
    *ret_done = false;
    rg_autoclose int near_fd = -1;
    struct span near_path;
    int rc = rg_posix_nearest_open(upload->bucket, &upload->split, &near_path, &near_fd, err);
    if (rc || !rg_posix_temp_is_home(upload->bucket, near_fd)) {
        return rc;
    }
    struct rg_part_info part;
    struct rg_posix_temp temp = {.fd = -1, .directory_fd = -1, .mount = upload->bucket->mount};
    rc = open_part(upload->fd, completion->request->parts[0].number, &part, &temp.fd, err);
    rc =
        rc ? rc : check_part(&completion->upload->info, &completion->request->parts[0], &part, err);
    if (rc == 0) {
        part_name(part.number, temp.name);
        temp.directory_fd = fcntl(upload->fd, F_DUPFD_CLOEXEC, 0);
        rc = temp.directory_fd < 0 ? rg_fail_storage(err, errno, "opening the upload") : 0;
    }
    if (rc == 0) {
        completion->moved = &temp;
        rc = publish(completion, &temp, err);
        completion->moved = NULL;
        if (temp.placed) {
            fremovexattr(temp.fd, RG_POSIX_PART_XATTR);
        }
        *ret_done = rc == 0;
    }
    if (temp.directory_fd >= 0) {
        close(temp.directory_fd);
    }
    if (temp.fd >= 0) {
        close(temp.fd);
    }
    return rc;
}

/*
 * A part that is not there may have become the object, or gone with the upload. Who does either
 * removes the upload's record with the key's lock held.
 */
static int judge_missing_part(struct upload *upload, struct rg_error *err)
{
    struct rg_error inner = RG_ERROR_INIT;
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    int rc = rg_posix_lock_key(upload->bucket, upload->split.key, RG_SLOW_DOWN, &lock, &inner);
    rc = rc ? rc : check_there(upload->fd, &inner);
    if (rc && err) {
        *err = inner;
    }
    return rc ? rc : -RG_INVALID_PART;
}

static void free_completion(struct completion *completion)
{
    rg_record_free(&completion->record);
}

static int complete(struct upload *upload, struct rg_store *store,
                    const struct rg_complete_request *request, struct rg_completed *ret_completed,
                    struct rg_error *err)
{
    RG_CLEANUP(free_completion)
    struct completion completion = {.upload = upload, .request = request, .record = RG_RECORD_INIT};
    struct rg_completed completed = {.written = {.copy = RG_COPY_USED_NONE}};
    bool done = false;
    int rc = plan(&completion, err);
    if (rc == 0 && request->count == 1) {
        rc = move_part(&completion, &done, err);
    }
    if (rc == 0 && !done) {
        rc = assemble(&completion, store, &completed.written, err);
    }
    if (rc) {
        return rc == -RG_INVALID_PART ? judge_missing_part(upload, err) : rc;
    }
    completed.written.modified = completion.modified;
    completed.written.size = completion.size;
    memcpy(completed.written.etag, completion.record.meta.etag, sizeof completed.written.etag);
    completed.checksum = completion.record.meta.checksum;
    *ret_completed = completed;
    return 0;
}

int rg_posix_upload_complete(struct rg_store *store, struct span bucket, struct span key,
                             struct span id, const struct rg_complete_request *request,
                             struct rg_completed *ret_completed, struct rg_error *err)
{
    if (request->count == 0 || request->count > RG_META_PARTS_MAX) {
        return rg_failf(err, RG_MALFORMED_XML, "A multipart upload is made of 1 to %u parts.",
                        RG_META_PARTS_MAX);
    }
    autoupload upload = UPLOAD_INIT;
    int rc = find_key(&upload, rg_posix_of(store), bucket, key, id, err);
    rc = rc ? rc : rg_posix_bucket_ready(upload.bucket, err);
    if (rc) {
        return rc;
    }
    rc = find_directory(&upload, err);
    if (rc == -RG_NO_SUCH_UPLOAD) {
        return answer_again(&upload, request, ret_completed, err);
    }
    if (rc) {
        return rc;
    }
    /* A crash between the two may have left both the object and the upload. */
    if (rg_posix_upload_is_done(upload.bucket, &upload.split, upload.id)) {
        rc = answer_again(&upload, request, ret_completed, err);
    } else {
        rc = complete(&upload, store, request, ret_completed, err);
        if (rc == -RG_NO_SUCH_UPLOAD) {
            return answer_again(&upload, request, ret_completed, err); /* another was faster */
        }
    }
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("complete.visible");
    /* What cannot be removed now is left to the sweeper: the object is there. */
    rg_posix_upload_remove(upload.uploads_fd, upload.hash, upload.id);
    return 0;
}
