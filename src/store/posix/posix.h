/*
 * Private to store/posix: what its files share. Nothing outside src/store/posix includes this.
 *
 * A tree:
 *   <root>/<bucket>/<key>                       objects; a "/" in a key is a directory
 *   <root>/<bucket>/.railgate/                  the bucket's own things, never listed:
 *       locks                                   byte-range locks, one byte a key (lock.c)
 *       sweep                                   held by the gateway that sweeps the bucket
 *       tmp/<random>                            files not visible yet (mounts without O_TMPFILE),
 *                                               and the second name an overwrite needs
 *       strays/<sha256hex(directory)>           symbolic links whose text names a directory that
 *                                               may hold temporaries of its own (below)
 *       sidecar/<random>                        records that did not fit into the xattr
 *       uploads/<sha256hex(key)>/<upload id>/   one multipart upload (upload.c):
 *           record                              key, metadata, checksum choice, time of initiation
 *           00001 ...                           parts, RG_POSIX_PART_NAME; their own xattr
 *           .railgate-tmp-<random>              a part being written
 *   <root>/<bucket>/<directories>/.railgate-tmp-<random>
 *                                               a file not visible yet, where the directory is on
 *                                               another mount (or has another quota project or
 *                                               layout) than the bucket's .railgate
 *   <root>/.railgate/                           the same for the root: tmp/ for probes, owner
 *
 * Symbolic links: reads follow them as long as they stay beneath the bucket. Nothing is created or
 * changed through one; a PUT or DELETE of a key that names a link replaces or removes the link.
 */
#ifndef RG_STORE_POSIX_POSIX_H
#define RG_STORE_POSIX_POSIX_H

#include "base/attr.h"
#include "base/span.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define RG_POSIX_XATTR        "user.railgate"      /* packed rg_record of an object */
#define RG_POSIX_PART_XATTR   "user.railgate.part" /* packed rg_record of a part */
#define RG_POSIX_STATE_DIR    ".railgate"
#define RG_POSIX_TEMP_PREFIX  ".railgate-tmp-"
#define RG_POSIX_PART_FORMAT  "%05u" /* name of a part's file */
#define RG_POSIX_UPLOAD_FILE  "record"
#define RG_POSIX_SIDECAR_ID   32 /* hex digits */
#define RG_POSIX_MOUNTS_MAX   64
#define RG_POSIX_BUCKETS_KEPT 256
#define RG_POSIX_STRIPES      1024

/*
 * What one mount can do, as proved by the probe (probe.c) and after the setting `mask`. Read-only
 * once published, but for the atomics, which are switched off when a method fails in service.
 */
struct rg_posix_mount {
    dev_t device;
    uint64_t magic; /* statfs f_type */
    bool lustre;
    bool xattrs;      /* user xattrs on files and directories */
    size_t xattr_max; /* bytes a record may take in the xattr; more goes to a sidecar */
    bool tmpfile;     /* O_TMPFILE, and linkat of it by /proc/self/fd */
    bool noreplace;   /* renameat2(RENAME_NOREPLACE) */
    bool fallocate;
    bool direct_io;   /* O_DIRECT write of aligned memory read back right */
    bool dir_fsync;   /* fsync of a directory makes its names durable */
    bool exact_times; /* utimensat nanoseconds are kept: mtimes are compared whole; else seconds */
    /*
     * A directory's ctime seen by fstat is certain to differ once a name is added or removed
     * afterwards, whoever does it: a snapshot may be validated by it alone.
     */
    bool fine_times;
    bool locks;        /* OFD byte-range locks exclude between open file descriptions */
    bool shared_locks; /* ... and, as far as the mount options say, between machines */
    _Atomic bool reflink;
    _Atomic bool copy_range;
};

struct rg_posix_bucket;  /* below */
struct rg_posix_listing; /* list.c: the snapshot cache */

struct rg_posix {
    struct rg_store store; /* first */
    const struct rg_settings *settings;
    char *root_path; /* for messages */
    int root;        /* O_RDONLY | O_DIRECTORY */
    struct rg_posix_mount *root_mount;
    uint32_t masked; /* enum rg_posix_feature bits */

    pthread_mutex_t mounts_mutex;
    struct rg_posix_mount *mounts[RG_POSIX_MOUNTS_MAX];
    size_t mount_count;

    pthread_mutex_t buckets_mutex;
    struct rg_posix_bucket *buckets; /* most recently used first */
    size_t bucket_count;

    pthread_mutex_t stripes[RG_POSIX_STRIPES]; /* keys within this process, before the file lock */

    _Atomic uint64_t copy_bytes[RG_COPY_USED_COUNT];
    _Atomic uint64_t copy_count[RG_COPY_USED_COUNT];
    _Atomic uint64_t copy_fallbacks;
    _Atomic uint64_t swept_temporaries;
    _Atomic uint64_t swept_uploads;
    _Atomic uint64_t sweep_failures;

    struct rg_posix_listing *listing; /* made by rg_posix_listing_new at open */
};

static inline struct rg_posix *rg_posix_of(struct rg_store *store)
{
    return (struct rg_posix *)store;
}

/* ---- Buckets (bucket.c) ---- */

/* An open bucket, counted; kept open between calls (least recently used ones are closed). */
struct rg_posix_bucket {
    struct rg_posix *posix;
    struct rg_posix_bucket *next;
    unsigned references; /* under posix->buckets_mutex */
    char name[64];
    dev_t device;
    ino_t inode;
    int fd;                       /* the directory, O_RDONLY */
    struct rg_posix_mount *mount; /* of fd */
    pthread_rwlock_t commits;     /* read: something is made visible; write: the bucket goes */
    pthread_mutex_t mutex;        /* over what follows */
    int state_fd;                 /* .railgate, -1 until needed */
    int locks_fd;
};

/*
 * Finds a bucket: a directory (not a link to one) of that name now. Its `fd` is what everything in
 * the bucket is opened beneath. RG_NO_SUCH_BUCKET. Give back with rg_posix_bucket_put.
 */
int rg_posix_bucket_get(struct rg_posix *posix, struct span name,
                        struct rg_posix_bucket **ret_bucket, struct rg_error *err) RG_CHECK;
void rg_posix_bucket_put(struct rg_posix_bucket *bucket);

static inline void rg_posix_cleanup_bucket(struct rg_posix_bucket **bucket)
{
    if (*bucket) {
        rg_posix_bucket_put(*bucket);
    }
}
#define rg_autobucket RG_CLEANUP(rg_posix_cleanup_bucket) struct rg_posix_bucket *

/* ---- Names (path.c) ---- */

/*
 * True for a name that a listing never shows: at the top of a bucket ".railgate", anywhere names
 * that begin with ".railgate-", and at the top versitygw's ".sgwtmp" and Lustre's ".lustre".
 */
bool rg_posix_name_hidden(struct span name, bool top);

/*
 * openat2 of `path` (bucket-relative, "" or "." is the bucket itself) beneath the bucket directory
 * `bucket_fd`: never leaves it, follows links only when `follow`, never a magic link. O_CLOEXEC,
 * O_NONBLOCK and O_NOCTTY are added. Returns a descriptor, or the negative errno (ELOOP: a link
 * where none may be; EXDEV: a link that leaves the bucket).
 */
int rg_posix_open_beneath(int bucket_fd, struct span path, int flags, bool follow);

/* ---- Records (record.c) ---- */

/* The part of an object's record that listings need. */
struct rg_posix_brief {
    char etag[RG_ETAG_MAX + 1];
    struct rg_checksum checksum; /* algorithm NONE: unknown */
    struct timespec modified;
    uint64_t size;
    bool is_foreign;
    bool is_object; /* false: a directory that is no explicit directory object */
};

/*
 * Reads what S3 shows of the open file or directory `fd`, whose fstat is `st`: its record, or,
 * where that is absent, versitygw's xattrs; a file that another program wrote or changed gets a
 * synthetic ETag and keeps its user metadata. For a directory that is no object returns
 * RG_NO_SUCH_KEY. Release with rg_object_info_free.
 */
int rg_posix_info_read(struct rg_posix_bucket *bucket, int fd, const struct stat *st,
                       struct rg_object_info *ret_info, struct rg_error *err) RG_CHECK;

/*
 * The same in brief, by name and without opening the file: one lgetxattr in the usual case. `name`
 * is one entry (no "/") of the directory `directory_fd`, `st` what fstatat(AT_SYMLINK_NOFOLLOW)
 * said of it; it must be a regular file or a directory. A file that vanished meanwhile:
 * RG_NO_SUCH_KEY.
 */
int rg_posix_brief_read(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                        const struct stat *st, struct rg_posix_brief *ret_brief,
                        struct rg_error *err) RG_CHECK;

/* ---- Uploads (upload.c) ---- */

/*
 * Reads `record` of an upload whose directory (.railgate/uploads/<hash>/<id>) is open. `id` is the
 * directory's name. RG_NO_SUCH_UPLOAD when there is none or it is damaged. Release with
 * rg_upload_info_free.
 */
int rg_posix_upload_read(int upload_fd, struct span id, struct rg_upload_info *ret_info,
                         struct rg_error *err) RG_CHECK;

/*
 * Opens .railgate/uploads of a bucket for reading: *ret_fd is -1 when there is none (no upload was
 * ever begun); the caller closes it.
 */
int rg_posix_uploads_open(struct rg_posix_bucket *bucket, int *ret_fd,
                          struct rg_error *err) RG_CHECK;

/* ---- Listing (list.c) ---- */

/* The snapshot cache; `memory_max` in bytes. NULL: out of memory. */
struct rg_posix_listing *rg_posix_listing_new(size_t memory_max);
void rg_posix_listing_free(struct rg_posix_listing *listing);

/* Fills the listing_* members. */
void rg_posix_listing_counters(struct rg_posix_listing *listing,
                               struct rg_store_counters *counters);

int rg_posix_list(struct rg_store *store, struct span bucket, const struct rg_list_query *query,
                  struct rg_list_page *ret_page, struct rg_error *err);
int rg_posix_upload_list(struct rg_store *store, struct span bucket,
                         const struct rg_upload_query *query, struct rg_upload_page *ret_page,
                         struct rg_error *err);

#endif
