/*
 * The object store: what the gateway asks of a backend. Calls block; each is safe to make from any
 * thread. A backend never answers success before the durability that the settings promise.
 *
 * Names are validated by the caller with s3/names.h (bucket rules, key length, NUL) before they
 * come here; a backend still refuses what it cannot hold (RG_INVALID_OBJECT_NAME,
 * RG_NAME_CONFLICT). Spans are borrowed for the duration of the call. Everything returned is owned
 * by the caller and released by the named function, unless said otherwise.
 *
 * Spans of keys may hold any byte but NUL.
 *
 * Errors common to all calls: RG_NO_SUCH_BUCKET; RG_STORAGE_FULL, RG_QUOTA_EXCEEDED, RG_READ_ONLY,
 * RG_ACCESS_DENIED, RG_SERVICE_UNAVAILABLE, RG_STORAGE_FAULT, RG_STORAGE_UNSUPPORTED,
 * RG_OUT_OF_MEMORY, RG_SLOW_DOWN from what lies below. A failed write leaves nothing visible.
 */
#ifndef RG_STORE_STORE_H
#define RG_STORE_STORE_H

#include "base/error.h"
#include "base/settings.h"
#include "base/span.h"
#include "s3/checksum.h"
#include "s3/conditions.h"
#include "s3/meta.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define RG_UPLOAD_ID_LENGTH 32 /* lower-case hex digits */

struct rg_store;  /* an open backend */
struct rg_object; /* an object opened for reading */
struct rg_writer; /* an object or part being written, invisible until committed */

struct rg_bucket_info {
    char name[64];
    struct timespec created;
    bool hangs; /* in a list: where it is does not answer, or fails; `created` is the last known, or
                   zero */
};

struct rg_object_info {
    uint64_t size;
    struct timespec modified;
    bool is_directory; /* an explicit directory object, key ends in "/" */
    bool is_foreign;   /* written by another program: the ETag is synthetic, no checksums */
    struct rg_meta meta;
};

/* Release with rg_object_info_free. */
void rg_object_info_free(struct rg_object_info *info);

/* How bytes were moved by Copy and Complete, for counters. */
enum rg_copy_used {
    RG_COPY_USED_NONE,
    RG_COPY_USED_REFLINK,
    RG_COPY_USED_RANGE,
    RG_COPY_USED_PLAIN,
    RG_COPY_USED_COUNT
};

/* What a commit made. */
struct rg_written {
    char etag[RG_ETAG_MAX + 1]; /* without quotes */
    struct timespec modified;
    uint64_t size;
    enum rg_copy_used copy;
};

/* ---- Listing ---- */

struct rg_list_query {
    struct span prefix;
    struct span delimiter; /* empty: none */
    struct span after;    /* keys and common prefixes must sort after this; empty: from the start */
    bool after_is_prefix; /* `after` is a common prefix already returned: skip all below it */
    size_t max;           /* entries on the page, keys and common prefixes together */
    bool want_meta;       /* fill etag and checksum (one getxattr an entry) */
};

struct rg_list_entry {
    char *key; /* key, or common prefix ending in the delimiter; may hold any byte but NUL */
    bool is_prefix;
    uint64_t size;
    struct timespec modified;
    char etag[RG_ETAG_MAX + 1];
    struct rg_checksum checksum; /* algorithm NONE when unknown */
};

struct rg_list_page {
    struct rg_list_entry *entries;
    size_t count;
    bool truncated; /* more follows after the last entry */
};

void rg_list_page_free(struct rg_list_page *page);

/* ---- Multipart ---- */

struct rg_upload_info {
    char id[RG_UPLOAD_ID_LENGTH + 1];
    char *key;
    struct timespec initiated;
    enum rg_checksum_algorithm checksum_algorithm; /* as asked at creation; NONE when not */
    enum rg_checksum_type checksum_type;
    struct rg_meta meta; /* headers, user metadata and tags for the final object */
};

void rg_upload_info_free(struct rg_upload_info *info);

struct rg_part_info {
    uint32_t number;
    uint64_t size;
    struct timespec modified;
    char etag[RG_ETAG_MAX + 1];
    uint8_t md5[16];
    bool has_md5;
    struct rg_checksum checksum; /* algorithm NONE when the part has none */
};

struct rg_part_page {
    struct rg_part_info *parts; /* ascending numbers */
    size_t count;
    bool truncated;
};

void rg_part_page_free(struct rg_part_page *page);

struct rg_upload_query {
    struct span prefix;
    struct span delimiter;
    struct span key_marker;
    struct span upload_id_marker; /* only with key_marker */
    size_t max;
};

struct rg_upload_entry {
    char *key; /* or common prefix */
    bool is_prefix;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    struct timespec initiated;
    enum rg_checksum_algorithm checksum_algorithm;
    enum rg_checksum_type checksum_type;
};

struct rg_upload_page {
    struct rg_upload_entry *entries; /* by key, then by time of initiation */
    size_t count;
    bool truncated;
};

void rg_upload_page_free(struct rg_upload_page *page);

/* What Complete is asked to assemble; the gateway has checked order and duplicates of numbers. */
struct rg_complete_part {
    uint32_t number;
    char etag[RG_ETAG_MAX + 1];  /* without quotes; must match the stored part: RG_INVALID_PART */
    struct rg_checksum checksum; /* algorithm NONE: not given; else must match: RG_INVALID_PART */
};

struct rg_complete_request {
    const struct rg_complete_part *parts;
    size_t count;
    uint64_t part_size_min;      /* every part but the last: RG_ENTITY_TOO_SMALL */
    uint64_t object_size_max;    /* RG_ENTITY_TOO_LARGE */
    struct rg_checksum expected; /* full-object checksum the client states; NONE: not given.
                                    RG_BAD_DIGEST when it does not match */
    const struct rg_conditions *conditions; /* NULL: none */
};

struct rg_completed {
    struct rg_written written;
    struct rg_checksum checksum; /* of the object; NONE when the upload had none */
};

/* ---- Health and counters ---- */

/* Another file system that is mounted below what the store serves: a bucket, or in one. */
struct rg_store_mount {
    char *path;  /* "bucket", "bucket/deeper": as bucket and key would name it */
    uint64_t id; /* not the same for what is mounted there afterwards */
};

/* At most so many are known; of further ones only their number is. */
#define RG_STORE_MOUNTS_MAX 64

void rg_store_mounts_free(struct rg_store_mount *mounts, size_t count);

/* What a backend remembers of a mount from one probe to the next; all zero before the first. */
struct rg_store_memory {
    uint64_t mount; /* which one it was, and on what */
    uint64_t device;
    uint64_t magic;      /* the kind of its file system; 0: not known */
    uint64_t changed_ns; /* when a change was tried last; 0: never */
    int change_errno;    /* what that failed with; 0: it did not */
    uint64_t options_ns; /* when its options were read last; 0: never */
    bool read_only;      /* and whether they forbid writing to it, whatever others may do */
};

struct rg_store_counters {
    uint64_t copy_bytes[RG_COPY_USED_COUNT];
    uint64_t copy_count[RG_COPY_USED_COUNT];
    uint64_t copy_fallbacks; /* a faster method was tried and gave up */
    uint64_t swept_temporaries;
    uint64_t swept_uploads;
    uint64_t sweep_failures;
    uint64_t listing_bytes; /* snapshots held now */
    uint64_t listing_hits;
    uint64_t listing_misses;
    uint64_t listing_evictions;
    uint64_t listing_too_long; /* entries left out because their key would exceed 1024 bytes */
};

/* ---- The interface ---- */

struct rg_store_ops {
    void (*close)(struct rg_store *store);

    int (*bucket_create)(struct rg_store *store, struct span bucket, struct rg_error *err);
    int (*bucket_stat)(struct rg_store *store, struct span bucket, struct rg_bucket_info *ret_info,
                       struct rg_error *err);
    int (*bucket_delete)(struct rg_store *store, struct span bucket, struct rg_error *err);
    int (*bucket_list)(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                       size_t *ret_count, struct rg_error *err);
    int (*bucket_tags_get)(struct rg_store *store, struct span bucket, struct rg_pairs *ret_tags,
                           struct rg_error *err);
    int (*bucket_tags_set)(struct rg_store *store, struct span bucket, const struct rg_pairs *tags,
                           struct rg_error *err);

    int (*object_open)(struct rg_store *store, struct span bucket, struct span key,
                       struct rg_object **ret_object, struct rg_error *err);
    const struct rg_object_info *(*object_info)(const struct rg_object *object);
    int (*object_fd)(const struct rg_object *object);
    int (*object_read)(struct rg_object *object, uint64_t offset, void *buffer, size_t len,
                       size_t *ret_len, struct rg_error *err);
    void (*object_close)(struct rg_object *object);
    int (*object_delete)(struct rg_store *store, struct span bucket, struct span key,
                         const struct rg_conditions *conditions, struct rg_error *err);
    int (*object_tags_set)(struct rg_store *store, struct span bucket, struct span key,
                           const struct rg_pairs *tags, struct rg_error *err);
    int (*object_copy)(struct rg_store *store, struct rg_object *source, struct span bucket,
                       struct span key, const struct rg_meta *meta,
                       const struct rg_conditions *conditions, struct rg_written *ret_written,
                       struct rg_error *err);
    int (*object_meta_set)(struct rg_store *store, struct span bucket, struct span key,
                           const char *expected_etag, const struct rg_meta *meta,
                           struct rg_written *ret_written, struct rg_error *err);

    bool (*fd_direct)(struct rg_store *store, int fd);

    int (*put_begin)(struct rg_store *store, struct span bucket, struct span key,
                     int64_t expected_size, struct rg_writer **ret_writer, struct rg_error *err);
    int (*writer_write)(struct rg_writer *writer, const void *bytes, size_t len,
                        struct rg_error *err);
    int (*writer_fd)(const struct rg_writer *writer);
    int (*writer_passed)(struct rg_writer *writer, uint64_t size, struct rg_error *err);
    int (*writer_written)(struct rg_writer *writer, uint64_t size, struct rg_error *err);
    int (*writer_copy)(struct rg_writer *writer, struct rg_object *source, uint64_t offset,
                       uint64_t len, struct rg_hasher *hasher, enum rg_copy_used *ret_copy,
                       struct rg_error *err);
    int (*put_commit)(struct rg_writer *writer, const struct rg_meta *meta,
                      const struct rg_conditions *conditions, struct rg_written *ret_written,
                      struct rg_error *err);
    void (*writer_abort)(struct rg_writer *writer);

    int (*list)(struct rg_store *store, struct span bucket, const struct rg_list_query *query,
                struct rg_list_page *ret_page, struct rg_error *err);

    int (*upload_create)(struct rg_store *store, struct span bucket, struct span key,
                         const struct rg_meta *meta, enum rg_checksum_algorithm algorithm,
                         enum rg_checksum_type type, char ret_id[RG_UPLOAD_ID_LENGTH + 1],
                         struct rg_error *err);
    int (*upload_stat)(struct rg_store *store, struct span bucket, struct span key, struct span id,
                       struct rg_upload_info *ret_info, struct rg_error *err);
    int (*part_begin)(struct rg_store *store, struct span bucket, struct span key, struct span id,
                      uint32_t number, int64_t expected_size, struct rg_writer **ret_writer,
                      struct rg_error *err);
    int (*part_commit)(struct rg_writer *writer, const struct rg_part_info *part,
                       struct rg_written *ret_written, struct rg_error *err);
    int (*part_list)(struct rg_store *store, struct span bucket, struct span key, struct span id,
                     uint32_t after, size_t max, struct rg_part_page *ret_page,
                     struct rg_error *err);
    int (*upload_complete)(struct rg_store *store, struct span bucket, struct span key,
                           struct span id, const struct rg_complete_request *request,
                           struct rg_completed *ret_completed, struct rg_error *err);
    int (*upload_abort)(struct rg_store *store, struct span bucket, struct span key, struct span id,
                        struct rg_error *err);
    int (*upload_list)(struct rg_store *store, struct span bucket,
                       const struct rg_upload_query *query, struct rg_upload_page *ret_page,
                       struct rg_error *err);

    void (*counters)(struct rg_store *store, struct rg_store_counters *ret_counters);
    /* These three may be NULL: everything is on one file system. */
    int (*mounts)(struct rg_store *store, struct rg_store_mount **ret_mounts, size_t *ret_count,
                  size_t *ret_left_out, struct rg_error *err);
    bool (*mounts_changed)(struct rg_store *store);
    int (*probe_mount)(struct rg_store *store, const char *path, struct rg_store_memory *memory,
                       struct rg_error *err);
    int (*probe)(struct rg_store *store, struct rg_store_memory *memory, struct rg_error *err);
    int (*sweep)(struct rg_store *store, struct span bucket, struct rg_error *err);
};

struct rg_store {
    const struct rg_store_ops *ops;
    const char *place; /* what it serves, for messages (a directory); the backend's; may be NULL */
};

/*
 * Opens the POSIX backend on a directory: each directory below `root` with a valid bucket name is a
 * bucket. Probes the mount (user xattrs, O_TMPFILE, rename flags, fallocate, reflink,
 * copy_file_range, durability of names, fine-grained times, lock behaviour) and proves each fast
 * path before using it; *ret_summary (appended) gets one line that says what was found and what is
 * on. Refuses a mount that cannot keep the promises, with the remedy in the sentence.
 * Reads these settings: durability, etag, copy_method, copy_timeout, direct_io_min, file_mode,
 * directory_mode, upload_expiry, temp_expiry, free_space_min, listing_memory, mask. `settings` is
 * borrowed until close.
 */
int rg_store_posix_open(const char *root, const struct rg_settings *settings,
                        struct rg_store **ret_store, struct rg_buf *ret_summary,
                        struct rg_error *err);

/* Closes a backend; no call may be under way. */
static inline void rg_store_close(struct rg_store *store)
{
    store->ops->close(store);
}

/* Creates a bucket. RG_BUCKET_ALREADY_OWNED when it exists. Durable on return. */
static inline int rg_store_bucket_create(struct rg_store *store, struct span bucket,
                                         struct rg_error *err)
{
    return store->ops->bucket_create(store, bucket, err);
}

static inline int rg_store_bucket_stat(struct rg_store *store, struct span bucket,
                                       struct rg_bucket_info *ret_info, struct rg_error *err)
{
    return store->ops->bucket_stat(store, bucket, ret_info, err);
}

/*
 * Deletes a bucket without objects; directories that hold no object and unfinished uploads go with
 * it. RG_BUCKET_NOT_EMPTY otherwise.
 */
static inline int rg_store_bucket_delete(struct rg_store *store, struct span bucket,
                                         struct rg_error *err)
{
    return store->ops->bucket_delete(store, bucket, err);
}

/* All buckets in byte order of their names; free(*ret_buckets). One that hangs is not waited for,
 * and one that fails is listed as such a one. */
static inline int rg_store_bucket_list(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                                       size_t *ret_count, struct rg_error *err)
{
    return store->ops->bucket_list(store, ret_buckets, ret_count, err);
}

/* Tags of a bucket. RG_NO_SUCH_TAG_SET when there are none. */
static inline int rg_store_bucket_tags_get(struct rg_store *store, struct span bucket,
                                           struct rg_pairs *ret_tags, struct rg_error *err)
{
    return store->ops->bucket_tags_get(store, bucket, ret_tags, err);
}

/* Replaces a bucket's tags; NULL or an empty list removes them. */
static inline int rg_store_bucket_tags_set(struct rg_store *store, struct span bucket,
                                           const struct rg_pairs *tags, struct rg_error *err)
{
    return store->ops->bucket_tags_set(store, bucket, tags, err);
}

/*
 * Opens an object for reading: from here on its bytes and metadata are those of one version, also
 * when the name is overwritten or deleted meanwhile. RG_NO_SUCH_KEY when there is none (an implicit
 * directory is none). Close with rg_store_object_close.
 */
static inline int rg_store_object_open(struct rg_store *store, struct span bucket, struct span key,
                                       struct rg_object **ret_object, struct rg_error *err)
{
    return store->ops->object_open(store, bucket, key, ret_object, err);
}

/* Borrowed from the object. */
static inline const struct rg_object_info *rg_store_object_info(struct rg_store *store,
                                                                const struct rg_object *object)
{
    return store->ops->object_info(object);
}

/* The object's descriptor for sendfile, pread or io_uring; owned by the object. -1 for a directory
 * object, which has no bytes. */
static inline int rg_store_object_fd(struct rg_store *store, const struct rg_object *object)
{
    return store->ops->object_fd(object);
}

/*
 * Whether O_DIRECT has proved itself on the mount of a descriptor that this store gave: only then
 * may its file be opened a second time to read or write around the page cache.
 */
static inline bool rg_store_fd_direct(struct rg_store *store, int fd)
{
    return store->ops->fd_direct(store, fd);
}

/* Reads up to `len` bytes at `offset`; *ret_len less than len only at the end of the object. */
static inline int rg_store_object_read(struct rg_store *store, struct rg_object *object,
                                       uint64_t offset, void *buffer, size_t len, size_t *ret_len,
                                       struct rg_error *err)
{
    return store->ops->object_read(object, offset, buffer, len, ret_len, err);
}

static inline void rg_store_object_close(struct rg_store *store, struct rg_object *object)
{
    store->ops->object_close(object);
}

/*
 * Deletes an object and the directories that are empty because of it (explicit directory objects
 * stay). Deleting what is not there succeeds, as S3 says, unless `conditions` (may be NULL) ask for
 * a match. Durable on return.
 */
static inline int rg_store_object_delete(struct rg_store *store, struct span bucket,
                                         struct span key, const struct rg_conditions *conditions,
                                         struct rg_error *err)
{
    return store->ops->object_delete(store, bucket, key, conditions, err);
}

/* Replaces an object's tags in one step (NULL or empty: removes them); the rest, the modification
 * time included, stays. RG_NO_SUCH_KEY. */
static inline int rg_store_object_tags_set(struct rg_store *store, struct span bucket,
                                           struct span key, const struct rg_pairs *tags,
                                           struct rg_error *err)
{
    return store->ops->object_tags_set(store, bucket, key, tags, err);
}

/*
 * Makes bucket/key a copy of an open object with the given metadata (its etag, checksum and part
 * table included: the bytes are the same). Atomic like a PUT.
 */
static inline int rg_store_object_copy(struct rg_store *store, struct rg_object *source,
                                       struct span bucket, struct span key,
                                       const struct rg_meta *meta,
                                       const struct rg_conditions *conditions,
                                       struct rg_written *ret_written, struct rg_error *err)
{
    return store->ops->object_copy(store, source, bucket, key, meta, conditions, ret_written, err);
}

/*
 * Copy of an object onto itself: replaces its metadata in one step and moves its modification time
 * to now. RG_PRECONDITION_FAILED when the object's etag is not `expected_etag` any more.
 */
static inline int rg_store_object_meta_set(struct rg_store *store, struct span bucket,
                                           struct span key, const char *expected_etag,
                                           const struct rg_meta *meta,
                                           struct rg_written *ret_written, struct rg_error *err)
{
    return store->ops->object_meta_set(store, bucket, key, expected_etag, meta, ret_written, err);
}

/*
 * Begins an object. expected_size (bytes, -1 unknown) lets the backend reserve space and fail
 * early. A key that ends in "/" is a directory object and must have no bytes
 * (RG_INVALID_OBJECT_NAME at write). End with rg_store_put_commit or rg_store_writer_abort.
 */
static inline int rg_store_put_begin(struct rg_store *store, struct span bucket, struct span key,
                                     int64_t expected_size, struct rg_writer **ret_writer,
                                     struct rg_error *err)
{
    return store->ops->put_begin(store, bucket, key, expected_size, ret_writer, err);
}

/* Appends bytes. After a failure only abort is left. */
static inline int rg_store_writer_write(struct rg_store *store, struct rg_writer *writer,
                                        const void *bytes, size_t len, struct rg_error *err)
{
    return store->ops->writer_write(writer, bytes, len, err);
}

/*
 * For writers that bypass rg_store_writer_write (io_uring from a registered slot): the descriptor
 * (owned by the writer, readable and writable, without O_DIRECT), and then, before commit, how many
 * bytes now stand in the file. Not to be mixed with rg_store_writer_write. -1 for a directory
 * object. Meanwhile rg_store_writer_passed may be told how many bytes were handed to the descriptor
 * so far: their way to the disk begins, and the commit has less to wait for. Errors:
 * RG_STORAGE_FAULT, RG_STORAGE_FULL, RG_QUOTA_EXCEEDED: bytes are lost, the writer cannot be used.
 */
static inline int rg_store_writer_fd(struct rg_store *store, const struct rg_writer *writer)
{
    return store->ops->writer_fd(writer);
}

static inline int rg_store_writer_passed(struct rg_store *store, struct rg_writer *writer,
                                         uint64_t size, struct rg_error *err)
{
    return store->ops->writer_passed(writer, size, err);
}

static inline int rg_store_writer_written(struct rg_store *store, struct rg_writer *writer,
                                          uint64_t size, struct rg_error *err)
{
    return store->ops->writer_written(writer, size, err);
}

/*
 * Appends `len` bytes of an open object from `offset`, by the fastest method allowed, or by reading
 * through `hasher` when that is not NULL (UploadPartCopy needs the digest of the part).
 */
static inline int rg_store_writer_copy(struct rg_store *store, struct rg_writer *writer,
                                       struct rg_object *source, uint64_t offset, uint64_t len,
                                       struct rg_hasher *hasher, enum rg_copy_used *ret_copy,
                                       struct rg_error *err)
{
    return store->ops->writer_copy(writer, source, offset, len, hasher, ret_copy, err);
}

/*
 * Makes the object visible with its metadata, atomically and durably, if `conditions` (may be NULL)
 * hold at that moment: RG_PRECONDITION_FAILED, or RG_NO_SUCH_KEY for If-Match on nothing.
 * meta->etag must be set. Consumes the writer, also on failure; nothing is visible then (only when
 * the name itself cannot be made durable after it was given, a failure is answered for a visible
 * object). RG_NAME_CONFLICT: a directory stands where the file must go, or a file where a directory
 * must.
 */
static inline int rg_store_put_commit(struct rg_store *store, struct rg_writer *writer,
                                      const struct rg_meta *meta,
                                      const struct rg_conditions *conditions,
                                      struct rg_written *ret_written, struct rg_error *err)
{
    return store->ops->put_commit(writer, meta, conditions, ret_written, err);
}

/* Throws away what was written. */
static inline void rg_store_writer_abort(struct rg_store *store, struct rg_writer *writer)
{
    store->ops->writer_abort(writer);
}

/* One page in byte order of the whole key. Release with rg_list_page_free. */
static inline int rg_store_list(struct rg_store *store, struct span bucket,
                                const struct rg_list_query *query, struct rg_list_page *ret_page,
                                struct rg_error *err)
{
    return store->ops->list(store, bucket, query, ret_page, err);
}

/* Begins a multipart upload; `meta` holds headers, user metadata and tags of the final object. */
static inline int rg_store_upload_create(struct rg_store *store, struct span bucket,
                                         struct span key, const struct rg_meta *meta,
                                         enum rg_checksum_algorithm algorithm,
                                         enum rg_checksum_type type,
                                         char ret_id[RG_UPLOAD_ID_LENGTH + 1], struct rg_error *err)
{
    return store->ops->upload_create(store, bucket, key, meta, algorithm, type, ret_id, err);
}

/* RG_NO_SUCH_UPLOAD when the id is unknown, malformed, or belongs to another key. */
static inline int rg_store_upload_stat(struct rg_store *store, struct span bucket, struct span key,
                                       struct span id, struct rg_upload_info *ret_info,
                                       struct rg_error *err)
{
    return store->ops->upload_stat(store, bucket, key, id, ret_info, err);
}

/* Begins a part; the writer is used as for an object and ended by rg_store_part_commit or abort. */
static inline int rg_store_part_begin(struct rg_store *store, struct span bucket, struct span key,
                                      struct span id, uint32_t number, int64_t expected_size,
                                      struct rg_writer **ret_writer, struct rg_error *err)
{
    return store->ops->part_begin(store, bucket, key, id, number, expected_size, ret_writer, err);
}

/*
 * Makes the part durable, replacing an earlier part of the same number. Of `part`, etag, md5 and
 * checksum are read. Consumes the writer, also on failure. RG_NO_SUCH_UPLOAD when the upload was
 * completed or aborted meanwhile.
 */
static inline int rg_store_part_commit(struct rg_store *store, struct rg_writer *writer,
                                       const struct rg_part_info *part,
                                       struct rg_written *ret_written, struct rg_error *err)
{
    return store->ops->part_commit(writer, part, ret_written, err);
}

/* Parts with numbers above `after`. Release with rg_part_page_free. */
static inline int rg_store_part_list(struct rg_store *store, struct span bucket, struct span key,
                                     struct span id, uint32_t after, size_t max,
                                     struct rg_part_page *ret_page, struct rg_error *err)
{
    return store->ops->part_list(store, bucket, key, id, after, max, ret_page, err);
}

/*
 * Assembles the parts into the object, atomically and durably; the ETag is the multipart MD5 form
 * (or the fast one), CRC checksums are combined, never re-read. A repeated Complete with the same
 * parts, after success, answers the same result for as long as the object still is that upload's.
 */
static inline int rg_store_upload_complete(struct rg_store *store, struct span bucket,
                                           struct span key, struct span id,
                                           const struct rg_complete_request *request,
                                           struct rg_completed *ret_completed, struct rg_error *err)
{
    return store->ops->upload_complete(store, bucket, key, id, request, ret_completed, err);
}

static inline int rg_store_upload_abort(struct rg_store *store, struct span bucket, struct span key,
                                        struct span id, struct rg_error *err)
{
    return store->ops->upload_abort(store, bucket, key, id, err);
}

static inline int rg_store_upload_list(struct rg_store *store, struct span bucket,
                                       const struct rg_upload_query *query,
                                       struct rg_upload_page *ret_page, struct rg_error *err)
{
    return store->ops->upload_list(store, bucket, query, ret_page, err);
}

static inline void rg_store_counters(struct rg_store *store, struct rg_store_counters *ret_counters)
{
    store->ops->counters(store, ret_counters);
}

/*
 * Whether the file system that the store stands on answers, and takes writes as it did at the
 * start, for readiness. Cheap; changes nothing; may hang when the mount does.
 */
static inline int rg_store_probe(struct rg_store *store, struct rg_store_memory *memory,
                                 struct rg_error *err)
{
    return store->ops->probe(store, memory, err);
}

/*
 * The mounts below, in no order, and how many there are besides. None of them is touched for it,
 * but it may hang with any file system of the machine that the kernel asks for its line in the
 * table. rg_store_mounts_free(*ret_mounts, *ret_count).
 */
static inline int rg_store_mounts(struct rg_store *store, struct rg_store_mount **ret_mounts,
                                  size_t *ret_count, size_t *ret_left_out, struct rg_error *err)
{
    if (!store->ops->mounts) {
        *ret_mounts = NULL;
        *ret_count = *ret_left_out = 0;
        return 0;
    }
    return store->ops->mounts(store, ret_mounts, ret_count, ret_left_out, err);
}

/* Whether they may be others than at the last call (by one thread at a time). Never hangs. */
static inline bool rg_store_mounts_changed(struct rg_store *store)
{
    return store->ops->mounts_changed && store->ops->mounts_changed(store);
}

/* rg_store_probe for one of rg_store_mounts. One that is gone answers. */
static inline int rg_store_probe_mount(struct rg_store *store, const char *path,
                                       struct rg_store_memory *memory, struct rg_error *err)
{
    return store->ops->probe_mount(store, path, memory, err);
}

/*
 * One pass over the leftovers in a bucket: expired uploads, temporaries and sidecars without an
 * owner. An empty name: what was left beside the buckets. It takes as long as there is much to look
 * at. One that was deleted meanwhile has none.
 */
static inline int rg_store_sweep(struct rg_store *store, struct span bucket, struct rg_error *err)
{
    return store->ops->sweep(store, bucket, err);
}

#endif
