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
 *   <root>/.railgate/                           the same for the root: tmp/ for probes, owner, and
 *                                               health, an empty file that probes open
 *
 * Symbolic links: reads follow them as long as they stay beneath the bucket. Nothing is created or
 * changed through one; a PUT or DELETE of a key that names a link replaces or removes the link.
 */
#ifndef RG_STORE_POSIX_POSIX_H
#define RG_STORE_POSIX_POSIX_H

#include "base/attr.h"
#include "base/span.h"
#include "store/store.h"

#include <dirent.h>
#include <limits.h>
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
#define RG_POSIX_SIDECAR_ID   32   /* hex digits */
#define RG_POSIX_MOUNTS_MAX   1024 /* known since the start, with those that are gone */
#define RG_POSIX_HEALTH_FILE  "health"
#define RG_POSIX_BUCKETS_KEPT 256
#define RG_POSIX_STRIPES      256

/*
 * What one mount can do, as proved by the probe (probe.c) and after the setting `mask`. Read-only
 * once published, but for the atomics, which are switched off when a method fails in service.
 */
struct rg_posix_mount {
    dev_t device;
    uint64_t magic; /* statfs f_type */
    char type[64];  /* its name, for people */
    bool lustre;
    bool local;       /* a file system of this kernel alone, with its own journal or none */
    bool xattrs;      /* user xattrs on files and directories */
    size_t xattr_max; /* bytes a record may take in the xattr; more goes to a sidecar */
    bool tmpfile;     /* O_TMPFILE, and linkat of it by /proc/self/fd */
    bool noreplace;   /* renameat2(RENAME_NOREPLACE) */
    bool fallocate;
    bool direct_io;   /* O_DIRECT write of aligned memory read back right */
    bool dir_fsync;   /* fsync of a directory makes its names durable */
    bool exact_times; /* nanoseconds of utimensat are kept */
    /*
     * A directory's ctime seen by fstat is certain to differ once a name is added or removed
     * afterwards, whoever does it: a snapshot may be validated by it alone.
     */
    bool fine_times;
    bool stripes;      /* Lustre: a new file takes the layout that is written to lustre.lov */
    bool locks;        /* OFD byte-range locks exclude between open file descriptions */
    bool shared_locks; /* ... and, as far as the mount options say, between machines */
    _Atomic bool reflink;
    _Atomic bool copy_range;

    /* Of known.c, under posix->mounts_mutex. */
    int watch;    /* that tells when the file system is gone; -1: there is none */
    bool is_gone; /* what has this st_dev now, if anything, is another */
};

/* What the setting `mask` can name; the words stand in probe.c. */
enum rg_posix_feature {
    RG_FEATURE_TMPFILE,
    RG_FEATURE_NOREPLACE,
    RG_FEATURE_DIR_FSYNC,
    RG_FEATURE_FINE_TIMES,
    RG_FEATURE_FALLOCATE,
    RG_FEATURE_REFLINK,
    RG_FEATURE_COPY_RANGE,
    RG_FEATURE_BIG_XATTR,
    RG_FEATURE_DIRECT_IO,
    RG_FEATURE_LOCKS,
    RG_FEATURE_COUNT
};

struct rg_posix_bucket;  /* below */
struct rg_posix_listing; /* list.c: the snapshot cache */
struct rg_posix_looks;   /* look.c: what is known of buckets that hang */

struct rg_posix {
    struct rg_store store; /* first */
    const struct rg_settings *settings;
    char *root_path; /* for messages */
    char *real_path; /* the same as the table of mounts has it */
    int root;        /* O_RDONLY | O_DIRECTORY */
    int mounts_fd;   /* of the table of mounts; -1: there is none */
    struct rg_posix_mount *root_mount;
    uint32_t masked; /* bits of enum rg_posix_feature */
    int owner_fd;    /* locked while the tree is ours alone, else -1 */
    bool marked;     /* <root>/.railgate/owner is ours: no shared locks, no second gateway */

    int known_fd; /* inotify, for the mounts below; -1: there is none */
    pthread_mutex_t mounts_mutex;
    struct rg_posix_mount *mounts[RG_POSIX_MOUNTS_MAX]; /* the root's first */
    size_t mount_count;

    pthread_mutex_t buckets_mutex;
    struct rg_posix_bucket *buckets; /* most recently used first */
    size_t bucket_count;

    _Atomic uint64_t copy_bytes[RG_COPY_USED_COUNT];
    _Atomic uint64_t copy_count[RG_COPY_USED_COUNT];
    _Atomic uint64_t copy_fallbacks;
    _Atomic int copy_helpers; /* threads of plain copies now */
    _Atomic uint64_t swept_temporaries;
    _Atomic uint64_t swept_uploads;
    _Atomic uint64_t sweep_failures;

    struct rg_posix_listing *listing; /* made by rg_posix_listing_new at open */
    struct rg_posix_looks *looks;     /* by rg_posix_looks_new */
};

static inline struct rg_posix *rg_posix_of(struct rg_store *store)
{
    return (struct rg_posix *)store;
}

/* ---- Mounts (probe.c, known.c) ---- */

/* Reads the setting `mask`. RG_SETTING for an unknown word. */
int rg_posix_mask_read(const char *text, uint32_t *ret_masked, struct rg_error *err) RG_CHECK;

/* Finds out what a mount can do, in a hidden directory made (and removed) below `directory_fd`.
 * Fails when it cannot keep the store's promises, with the remedy. The caller frees it. */
int rg_posix_mount_prove(struct rg_posix *posix, int directory_fd,
                         struct rg_posix_mount **ret_mount, struct rg_error *err) RG_CHECK;

/* What tells when a known mount is gone; -1 where there is none: then none is forgotten. */
int rg_posix_known_watch(void);

/*
 * What is known of the mount with this st_dev; NULL when nothing was written there yet by this
 * process. Borrowed until close.
 */
struct rg_posix_mount *rg_posix_mount_known(struct rg_posix *posix, dev_t device);

/* rg_store_fd_direct. A mount that nothing was written to yet has proved nothing. */
bool rg_posix_fd_direct(struct rg_store *store, int fd);

/* The same, and lets a mount that is met for the first time prove itself. */
int rg_posix_mount_get(struct rg_posix *posix, int directory_fd, struct rg_posix_mount **ret_mount,
                       struct rg_error *err) RG_CHECK;

/* The mount of a directory in a bucket that is ready. */
int rg_posix_mount_at(struct rg_posix_bucket *bucket, int directory_fd,
                      struct rg_posix_mount **ret_mount, struct rg_error *err) RG_CHECK;

/* Appends one line about a mount: what was found, what is on. */
void rg_posix_mount_describe(const struct rg_posix *posix, const struct rg_posix_mount *mount,
                             struct rg_buf *out);

/* ---- Which mounts there are (mounts.c) ---- */

/* One line of /proc/self/mountinfo (proc(5)); the spans are the line's. */
struct rg_posix_mount_line {
    uint64_t id;
    struct span device; /* "8:1" */
    struct span point;  /* where it is mounted, still with \ooo for white space */
    struct span here;   /* options of this mount alone, by commas */
    struct span type;
    struct span options; /* of the file system, by commas */
};

/* Whether a word stands in a list by commas. */
bool rg_posix_list_has(struct span list, const char *word);

bool rg_posix_mount_line_read(struct span line, struct rg_posix_mount_line *ret_line);

/* Calls `visit` for each line. Returns 0 or the negative errno. */
int rg_posix_mount_lines(void (*visit)(const struct rg_posix_mount_line *line, void *context),
                         void *context);

/* What tells when the table changes, for rg_posix_mounts_changed; -1 where there is none. */
int rg_posix_mounts_watch(void);

int rg_posix_mounts(struct rg_store *store, struct rg_store_mount **ret_mounts, size_t *ret_count,
                    size_t *ret_left_out, struct rg_error *err);
bool rg_posix_mounts_changed(struct rg_store *store);
int rg_posix_probe(struct rg_store *store, struct rg_store_memory *memory, struct rg_error *err);
int rg_posix_probe_mount(struct rg_store *store, const char *path, struct rg_store_memory *memory,
                         struct rg_error *err);

/* ---- Stripes on Lustre (stripe.c) ---- */

/* RG_SETTING unless the settings lustre-stripe-* go together. */
int rg_posix_stripes_check(const struct rg_settings *settings, struct rg_error *err) RG_CHECK;

/* Makes and removes a file in `dir`. */
bool rg_posix_stripes_probe(int dir);

/* Whether a new file of that size (-1: not known) gets a layout of its own. Then it must be made
 * with these open flags besides, and be given the layout before the first byte. */
bool rg_posix_stripes_wanted(const struct rg_posix *posix, const struct rg_posix_mount *mount,
                             int64_t expected_size);
int rg_posix_stripes_open_flags(void);
int rg_posix_stripes_set(const struct rg_posix *posix, int fd, struct rg_error *err) RG_CHECK;

/* ---- Buckets (bucket.c) ---- */

/* An open bucket, counted; kept open between calls (least recently used ones are closed). */
struct rg_posix_bucket {
    struct rg_posix *posix;
    struct rg_posix_bucket *next;
    unsigned references; /* under posix->buckets_mutex */
    char name[64];
    bool stale; /* under the same: not to be found again, closed with the last reference */
    dev_t device;
    ino_t inode;
    int fd;                   /* the directory, O_RDONLY */
    pthread_rwlock_t commits; /* read: something is made visible; write: the bucket goes */
    bool gone;                /* under commits: it goes, and locks_fd is closed */
    pthread_mutex_t mutex;    /* over the making of what follows; see rg_posix_bucket_ready */
    _Atomic bool ready;
    struct rg_posix_mount *mount; /* of .railgate */
    int state_fd;                 /* .railgate */
    int temp_fd;                  /* .railgate/tmp */
    int locks_fd;                 /* .railgate/locks; -1 where the mount has no locks */
    /* Keys within this process, taken before the file lock. Of each bucket its own: what hangs with
     * one mount must not hold up another. */
    pthread_mutex_t stripes[RG_POSIX_STRIPES];
};

/*
 * Finds a bucket: a directory (not a link to one) of that name now. Its `fd` is what everything in
 * the bucket is opened beneath. RG_NO_SUCH_BUCKET. Give back with rg_posix_bucket_put.
 */
int rg_posix_bucket_get(struct rg_posix *posix, struct span name,
                        struct rg_posix_bucket **ret_bucket, struct rg_error *err) RG_CHECK;
void rg_posix_bucket_put(struct rg_posix_bucket *bucket);

/*
 * Before the first write to a bucket: makes .railgate and what it needs, probes its mount, and
 * fills in mount, state_fd, temp_fd and locks_fd, which then stay for as long as the bucket is
 * held.
 */
int rg_posix_bucket_ready(struct rg_posix_bucket *bucket, struct rg_error *err) RG_CHECK;

/* The bucket's own things are gone from under us: the next rg_posix_bucket_get opens it anew. */
void rg_posix_bucket_forget(struct rg_posix_bucket *bucket);

/* Has the bucket's directory been removed, or another been put in its place? A client is told that
 * there is no such bucket only when that is sure: that it is stale is not enough. */
bool rg_posix_bucket_is_gone(const struct rg_posix_bucket *bucket);

/*
 * What a step in a bucket failed with (0 and *err included), or RG_NO_SUCH_BUCKET when it failed
 * because the bucket was deleted meanwhile: of what is gone with its bucket, network file systems
 * say ESTALE wherever we touch it, which for itself would be RG_SERVICE_UNAVAILABLE.
 */
int rg_posix_bucket_blame(struct rg_posix_bucket *bucket, int rc, struct rg_error *err) RG_CHECK;

/*
 * Opens the directory .railgate/`name` of a bucket; *ret_fd is -1 when it does not exist and
 * `create` is false. The caller closes it.
 */
int rg_posix_state_open(struct rg_posix_bucket *bucket, const char *name, bool create, int *ret_fd,
                        struct rg_error *err) RG_CHECK;

/* When the bucket whose directory is open was made: what its record says, else the directory's
 * birth, else its change. */
int rg_posix_bucket_created(int fd, struct timespec *ret_created, struct rg_error *err) RG_CHECK;

/* Closes what is cached; no reference may be left. */
void rg_posix_buckets_free(struct rg_posix *posix);

int rg_posix_bucket_create(struct rg_store *store, struct span bucket, struct rg_error *err);
int rg_posix_bucket_stat(struct rg_store *store, struct span bucket,
                         struct rg_bucket_info *ret_info, struct rg_error *err);
int rg_posix_bucket_delete(struct rg_store *store, struct span bucket, struct rg_error *err);
int rg_posix_bucket_tags_get(struct rg_store *store, struct span bucket, struct rg_pairs *ret_tags,
                             struct rg_error *err);
int rg_posix_bucket_tags_set(struct rg_store *store, struct span bucket,
                             const struct rg_pairs *tags, struct rg_error *err);

static inline void rg_posix_cleanup_bucket(struct rg_posix_bucket **bucket)
{
    if (*bucket) {
        rg_posix_bucket_put(*bucket);
    }
}
#define rg_autobucket RG_CLEANUP(rg_posix_cleanup_bucket) struct rg_posix_bucket *

/* ---- The list of buckets (look.c) ---- */

/* `root` is borrowed for the call. A thread that hangs in a bucket's mount keeps them alive. */
int rg_posix_looks_new(int root, struct rg_posix_looks **ret_looks, struct rg_error *err) RG_CHECK;
void rg_posix_looks_release(struct rg_posix_looks *looks);

/* What is mounted below the root. Borrowed. */
struct rg_posix_mount_table {
    const struct rg_store_mount *mounts; /* as rg_store_mounts has them */
    size_t count;
    const struct rg_store_mount
        *triggers; /* of autofs, which mounts when something is opened there */
    size_t trigger_count;
    size_t left_out; /* that are in neither */
};

/* A bucket that is no mount is waited for. Before this is told none is. */
void rg_posix_looks_learn(struct rg_posix_looks *looks, const struct rg_posix_mount_table *table);

int rg_posix_bucket_list(struct rg_store *store, struct rg_bucket_info **ret_buckets,
                         size_t *ret_count, struct rg_error *err);

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

/* Has what the descriptor refers to lost its name? (Network file systems may say ESTALE.) */
bool rg_posix_is_removed(int fd);

/* Of a statfs f_type: times are given by this kernel alone, and nobody else writes there. */
bool rg_posix_is_local(uint64_t magic);

/* A stream over an open directory: takes the descriptor, also when it fails (NULL, with errno). -1
 * is passed on as a failure, its errno kept. */
DIR *rg_posix_directory_take(int own_fd);

/* A key taken apart: "a/b/c" is "c" in "a/b"; "a/b/" is the directory object "b" in "a". */
struct rg_posix_key {
    struct span key;
    struct span parent; /* without the last "/"; empty: the bucket itself */
    char name[NAME_MAX + 1];
    bool is_directory;
};

/* RG_INVALID_OBJECT_NAME for a key that no tree can hold (rg_key_storable). */
int rg_posix_key_split(struct span key, struct rg_posix_key *ret_split,
                       struct rg_error *err) RG_CHECK;

/*
 * Opens the directory a key stands in, O_RDONLY, not through links. When it is missing: with
 * `create` it is made, and made durable; without, RG_NO_SUCH_KEY. RG_NAME_CONFLICT when an object
 * stands where a directory is needed (only with `create`; else RG_NO_SUCH_KEY).
 */
int rg_posix_parent_open(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                         bool create, int *ret_fd, struct rg_error *err) RG_CHECK;

/* The deepest directory on the way to the key that exists now, and its path. Same errors as with
 * `create`. */
int rg_posix_nearest_open(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          struct span *ret_path, int *ret_fd, struct rg_error *err) RG_CHECK;

/* Makes a directory with the permission bits of the setting directory_mode, whatever the umask.
 * Returns 0 or the negative errno. */
int rg_posix_mkdir(struct rg_posix *posix, int directory_fd, const char *name);

/*
 * Makes what was just linked, renamed or removed in a directory durable, by the step that works on
 * this mount. `file_fd` is a file that was given a name there, or -1. Nothing at durability `data`
 * and `none`.
 */
int rg_posix_names_sync(struct rg_posix *posix, const struct rg_posix_mount *mount,
                        int directory_fd, int file_fd, struct rg_error *err) RG_CHECK;

/* fsync of a file, nothing at durability `none`. This and the one above are the only ways to make
 * anything durable: they do not take fsync's word for it. */
int rg_posix_data_sync(struct rg_posix *posix, const struct rg_posix_mount *mount, int fd,
                       struct rg_error *err) RG_CHECK;

/* Appends a random hidden name: ".railgate-tmp-" and 32 hex digits. */
#define RG_POSIX_TEMP_NAME (sizeof RG_POSIX_TEMP_PREFIX + 32)
void rg_posix_temp_name(char name[RG_POSIX_TEMP_NAME]);

/* ---- Locks (lock.c) ---- */

/* How long a lock is waited for; tests shorten it. */
extern unsigned rg_posix_lock_wait_ms;

struct rg_posix_lock {
    struct rg_posix_bucket *bucket; /* NULL: not held */
    pthread_mutex_t *stripe;        /* NULL: all keys */
    int64_t byte;                   /* in the locks file; -1: none held there */
};

#define RG_POSIX_LOCK_INIT                                                                         \
    {                                                                                              \
        .bucket = NULL                                                                             \
    }

/*
 * Takes the lock of a key, against this process and other gateways on the tree. Waits a bounded
 * time, then fails with `busy` (RG_CONDITIONAL_REQUEST_CONFLICT or RG_SLOW_DOWN). One lock at a
 * time a thread. The bucket must be ready. RG_NO_SUCH_BUCKET when it was deleted meanwhile.
 */
int rg_posix_lock_key(struct rg_posix_bucket *bucket, struct span key, enum rg_code busy,
                      struct rg_posix_lock *ret_lock, struct rg_error *err) RG_CHECK;

/* All keys of a bucket at once. */
int rg_posix_lock_bucket(struct rg_posix_bucket *bucket, struct rg_posix_lock *ret_lock,
                         struct rg_error *err) RG_CHECK;

void rg_posix_unlock(struct rg_posix_lock *lock);
#define rg_autounlock RG_CLEANUP(rg_posix_unlock) struct rg_posix_lock

/* ---- Temporary files (temp.c) ---- */

/* A file that is not visible yet; with a name, it holds an flock on it while it lives. */
struct rg_posix_temp {
    int fd;                        /* -1: none */
    int directory_fd;              /* of the name; -1: anonymous (O_TMPFILE) */
    char name[RG_POSIX_TEMP_NAME]; /* "" : anonymous */
    bool placed;                   /* it stands at its key: what it refers to must stay */
    struct rg_posix_mount *mount;
};

#define RG_POSIX_TEMP_INIT                                                                         \
    {                                                                                              \
        .fd = -1, .directory_fd = -1                                                               \
    }

/*
 * Makes a temporary file that can become a name in `near_fd` (a directory of the bucket), with the
 * bits of file_mode, open for reading and writing. `near_path` is that directory's bucket-relative
 * path, `expected_size` in bytes or -1. Throw away with rg_posix_temp_discard.
 */
int rg_posix_temp_open(struct rg_posix_bucket *bucket, int near_fd, struct span near_path,
                       int64_t expected_size, struct rg_posix_temp *ret_temp,
                       struct rg_error *err) RG_CHECK;
void rg_posix_temp_discard(struct rg_posix_temp *temp);
/* Notes a directory (bucket-relative path) for the sweeper, as one that may hold temporaries.
 * Durable. The bucket must be ready. */
int rg_posix_stray_note(struct rg_posix_bucket *bucket, struct span path, struct rg_error *err);
#define rg_autotemp RG_CLEANUP(rg_posix_temp_discard) struct rg_posix_temp

/* May a file made in .railgate be renamed into this directory, and be what one made there would be
 * (mount, quota project, Lustre layout)? The bucket must be ready. */
bool rg_posix_temp_is_home(struct rg_posix_bucket *bucket, int directory_fd);

/*
 * Gives the file its name, where nothing may have it (`replace` false: -EEXIST), or over what has
 * it (a file or a link). On success the temporary name is gone; the descriptor stays. Returns 0 or
 * the negative errno (-ENOENT: the directory went away).
 */
int rg_posix_temp_place(struct rg_posix_bucket *bucket, struct rg_posix_temp *temp,
                        int directory_fd, struct span directory_path, const char *name,
                        bool replace);

/* ---- Copying bytes (copy.c) ---- */

/*
 * Copies `len` bytes between files by the fastest method that the setting copy_method and the mount
 * of the target allow, falling back to the next and counting that. RG_TIMED_OUT: the kernel call
 * hung; it was left alone in its thread and may still write to the target, which must be thrown
 * away: begin again with a new file; the method is not tried on this mount again.
 */
int rg_posix_copy(struct rg_posix *posix, struct rg_posix_mount *mount, int source_fd,
                  uint64_t source_offset, int target_fd, uint64_t target_offset, uint64_t len,
                  enum rg_copy_used *ret_used, struct rg_error *err) RG_CHECK;

/* copy_file_range(2); tests put one that hangs here. Atomic for the thread that is given up. */
typedef ssize_t rg_posix_range_call(int, off64_t *, int, off64_t *, size_t, unsigned);
extern rg_posix_range_call *_Atomic rg_posix_copy_file_range;

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
 * RG_NO_SUCH_KEY. For a file replaced by another, and its metadata gone with it, returns
 * RG_OPERATION_ABORTED: open again. Size and time in `st` are corrected where the mount's view of
 * them lagged behind, which takes up to 1.3 s. Release with rg_object_info_free.
 */
int rg_posix_info_read(struct rg_posix_bucket *bucket, int fd, struct stat *st,
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

/*
 * The record itself, as stored: decoded xattr with, when `whole`, the sidecar's content in its
 * place (has_sidecar and the id stay set). *ret_found is false when there is no record, or one that
 * cannot be read: then *ret_record is empty. A whole record whose sidecar went away with the file
 * gives RG_OPERATION_ABORTED. `bucket` may be NULL unless `whole`. Release with rg_record_free.
 */
int rg_posix_record_read(struct rg_posix_bucket *bucket, int fd, bool whole,
                         struct rg_record *ret_record, bool *ret_found,
                         struct rg_error *err) RG_CHECK;

/* The same, not whole, of the entry `name` (no "/") of a directory, links not followed. */
int rg_posix_record_read_at(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                            struct rg_record *ret_record, bool *ret_found,
                            struct rg_error *err) RG_CHECK;

/*
 * Writes a record to an open file or directory: into the xattr, or, when it does not fit, to a new
 * sidecar (durable first) that the xattr then points to. Sets record->has_sidecar and the id to
 * what was done. The change is one setxattr, hence atomic. A sidecar that the old record pointed to
 * is the caller's to remove, after the change is durable.
 */
int rg_posix_record_write(struct rg_posix_bucket *bucket, const struct rg_posix_mount *mount,
                          int fd, struct rg_record *record, struct rg_error *err) RG_CHECK;

/*
 * Records that stand in a file of their own (uploads, sidecars). Reading one that is absent or
 * damaged gives *ret_found false. Writing makes a new file, its bytes durable, its name not yet.
 */
int rg_posix_record_file_read(int directory_fd, const char *name, struct rg_record *ret_record,
                              bool *ret_found, struct rg_error *err) RG_CHECK;
int rg_posix_record_file_write(struct rg_posix *posix, const struct rg_posix_mount *mount,
                               int directory_fd, const char *name, const struct rg_record *record,
                               struct rg_error *err) RG_CHECK;

/*
 * The record of a file that is about to lose this name, for its sidecar: that is kept out of it
 * where the file has other names.
 */
int rg_posix_record_read_last(struct rg_posix_bucket *bucket, int directory_fd, const char *name,
                              struct rg_record *ret_record, bool *ret_found,
                              struct rg_error *err) RG_CHECK;

/* Removes the sidecar a record points to, if any; a failure leaves it to the sweeper. */
void rg_posix_sidecar_remove(struct rg_posix_bucket *bucket, const struct rg_record *record);

/*
 * The same for a record that stood at `key`. A file that another program copied or moved there has
 * a sidecar that was written for another key, and may share it with the file there: then the
 * sweeper finds out whether anybody needs it.
 */
void rg_posix_sidecar_retire(struct rg_posix_bucket *bucket, struct span key,
                             const struct rg_record *record);

/* True when the file still is as its record says. */
bool rg_posix_record_is_current(const struct rg_record *record, const struct stat *st);

/* ---- Foreign metadata (legacy.c) ---- */

/*
 * Fills a record from versitygw's xattrs of an open file or directory; *ret_found is false when
 * there are none. Malformed ones are passed over, as if absent.
 */
int rg_posix_legacy_read(int fd, struct rg_record *ret_record, bool *ret_found,
                         struct rg_error *err) RG_CHECK;

/* ---- Objects (object.c, delete.c) ---- */

struct rg_object {
    int fd;                /* a directory for directory objects */
    struct timespec mtime; /* of the file, when it was opened */
    struct rg_object_info info;
};

int rg_posix_object_open(struct rg_store *store, struct span bucket, struct span key,
                         struct rg_object **ret_object, struct rg_error *err);
const struct rg_object_info *rg_posix_object_info(const struct rg_object *object);
int rg_posix_object_fd(const struct rg_object *object);
int rg_posix_object_read(struct rg_object *object, uint64_t offset, void *buffer, size_t len,
                         size_t *ret_len, struct rg_error *err);
void rg_posix_object_close(struct rg_object *object);
int rg_posix_object_tags_set(struct rg_store *store, struct span bucket, struct span key,
                             const struct rg_pairs *tags, struct rg_error *err);
int rg_posix_object_copy(struct rg_store *store, struct rg_object *source, struct span bucket,
                         struct span key, const struct rg_meta *meta,
                         const struct rg_conditions *conditions, struct rg_written *ret_written,
                         struct rg_error *err);
int rg_posix_object_meta_set(struct rg_store *store, struct span bucket, struct span key,
                             const char *expected_etag, const struct rg_meta *meta,
                             struct rg_written *ret_written, struct rg_error *err);
/* Opens an object of a bucket already found. */
int rg_posix_object_open_in(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                            struct rg_object **ret_object, struct rg_error *err) RG_CHECK;

/* RG_OPERATION_ABORTED when another program wrote to the file since it was opened. */
int rg_posix_object_check_unchanged(const struct rg_object *object, struct rg_error *err) RG_CHECK;

int rg_posix_object_delete(struct rg_store *store, struct span bucket, struct span key,
                           const struct rg_conditions *conditions, struct rg_error *err);

/*
 * Removes the directory `path` of a bucket and those above it, as long as they are empty and no
 * explicit directory objects. Durable. Failing to is no error.
 */
void rg_posix_empty_directories_remove(struct rg_posix_bucket *bucket, struct span path);

/* The same for that directory alone. True when it is gone. */
bool rg_posix_empty_directory_remove(struct rg_posix_bucket *bucket, struct span path);

/* ---- Writers (writer.c) and making things visible (publish.c) ---- */

struct rg_writer {
    struct rg_posix *posix;
    struct rg_posix_bucket *bucket;
    struct rg_posix_key split; /* spans point into `key` */
    char *key;
    struct rg_posix_temp temp; /* no file for a directory object */
    int64_t expected;          /* bytes, -1 unknown */
    uint64_t size;             /* bytes taken, those in the buffer included */
    uint64_t reserved;         /* bytes allocated ahead by fallocate */
    uint64_t started;          /* bytes whose way to the disk was begun */
    char *buffer;
    size_t buffered;
    bool direct;     /* whole units go by O_DIRECT */
    bool direct_now; /* the descriptor has it at the moment */
    bool failed;
    uint32_t part;                           /* 0: an object */
    int upload_fd;                           /* -1: an object */
    char upload_id[RG_UPLOAD_ID_LENGTH + 1]; /* parts only */
};

int rg_posix_put_begin(struct rg_store *store, struct span bucket, struct span key,
                       int64_t expected_size, struct rg_writer **ret_writer, struct rg_error *err);
int rg_posix_writer_write(struct rg_writer *writer, const void *bytes, size_t len,
                          struct rg_error *err);
int rg_posix_writer_fd(const struct rg_writer *writer);
int rg_posix_writer_passed(struct rg_writer *writer, uint64_t size, struct rg_error *err);
int rg_posix_writer_written(struct rg_writer *writer, uint64_t size, struct rg_error *err);
int rg_posix_writer_copy(struct rg_writer *writer, struct rg_object *source, uint64_t offset,
                         uint64_t len, struct rg_hasher *hasher, enum rg_copy_used *ret_copy,
                         struct rg_error *err);
int rg_posix_put_commit(struct rg_writer *writer, const struct rg_meta *meta,
                        const struct rg_conditions *conditions, struct rg_written *ret_written,
                        struct rg_error *err);
void rg_posix_writer_abort(struct rg_writer *writer);

/* A writer for bucket/key without a file yet, its bucket ready; and its file, for a part (`part`
 * and `upload_fd` set before) in the upload's directory. */
int rg_posix_writer_new(struct rg_posix *posix, struct span bucket, struct span key,
                        int64_t expected_size, struct rg_writer **ret_writer,
                        struct rg_error *err) RG_CHECK;
int rg_posix_writer_open(struct rg_writer *writer, struct rg_error *err) RG_CHECK;

/* Appends bytes of an open file by rg_posix_copy. */
int rg_posix_writer_append(struct rg_writer *writer, int source_fd, uint64_t offset, uint64_t len,
                           enum rg_copy_used *ret_copy, struct rg_error *err) RG_CHECK;

/* Writes out the buffer and gives back what was allocated too much: the file holds its bytes. */
int rg_posix_writer_finish(struct rg_writer *writer, struct rg_error *err) RG_CHECK;

static inline void rg_posix_cleanup_writer(struct rg_writer **writer)
{
    if (*writer) {
        rg_posix_writer_abort(*writer);
    }
}
#define rg_autowriter RG_CLEANUP(rg_posix_cleanup_writer) struct rg_writer *

/* Sets the file's time to now, writes the record with it and the size, and makes both and the bytes
 * durable. `meta` is copied into the record by the caller; *ret_modified is what stands there now.
 */
int rg_posix_seal(struct rg_posix_bucket *bucket, const struct rg_posix_temp *temp,
                  struct rg_record *record, struct timespec *ret_modified,
                  struct rg_error *err) RG_CHECK;

/* Called by rg_posix_publish with the key's lock held; both may be NULL. */
struct rg_posix_hooks {
    /* Before the conditions are looked at. A failure ends the publication. */
    int (*before)(void *context, struct rg_error *err);
    /* After the object stands at its key. */
    void (*after)(void *context);
    void *context;
};

/*
 * Gives a sealed file its key under the key's lock, if the conditions hold; makes the name durable;
 * removes the sidecar of what was replaced. `hooks` may be NULL. After a failure temp->placed tells
 * whether the object is visible all the same (its name could not be made durable).
 */
int rg_posix_publish(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                     struct rg_posix_temp *temp, const struct rg_conditions *conditions,
                     const struct rg_posix_hooks *hooks, struct rg_error *err) RG_CHECK;

/* The same for a directory object: marks the directory with the record, making it if need be. */
int rg_posix_publish_directory(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                               struct rg_record *record, const struct rg_conditions *conditions,
                               struct timespec *ret_modified, struct rg_error *err) RG_CHECK;

/* RG_NAME_CONFLICT, with a sentence, when what `st` describes stands in the way of the key. */
int rg_posix_target_check(const struct rg_posix_key *split, const struct stat *st,
                          struct rg_error *err) RG_CHECK;

/* What a key names now, as a read sees it. *ret_exists false: nothing. */
int rg_posix_current_etag(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          bool *ret_exists, char ret_etag[RG_ETAG_MAX + 1],
                          struct rg_error *err) RG_CHECK;

/* ---- Sweeping (sweep.c) ---- */

int rg_posix_sweep(struct rg_store *store, struct span bucket, struct rg_error *err);

/* ---- Uploads (upload.c) ---- */

int rg_posix_upload_create(struct rg_store *store, struct span bucket, struct span key,
                           const struct rg_meta *meta, enum rg_checksum_algorithm algorithm,
                           enum rg_checksum_type type, char ret_id[RG_UPLOAD_ID_LENGTH + 1],
                           struct rg_error *err);
int rg_posix_upload_stat(struct rg_store *store, struct span bucket, struct span key,
                         struct span id, struct rg_upload_info *ret_info, struct rg_error *err);
int rg_posix_part_begin(struct rg_store *store, struct span bucket, struct span key, struct span id,
                        uint32_t number, int64_t expected_size, struct rg_writer **ret_writer,
                        struct rg_error *err);
int rg_posix_part_commit(struct rg_writer *writer, const struct rg_part_info *part,
                         struct rg_written *ret_written, struct rg_error *err);
int rg_posix_part_list(struct rg_store *store, struct span bucket, struct span key, struct span id,
                       uint32_t after, size_t max, struct rg_part_page *ret_page,
                       struct rg_error *err);
int rg_posix_upload_complete(struct rg_store *store, struct span bucket, struct span key,
                             struct span id, const struct rg_complete_request *request,
                             struct rg_completed *ret_completed, struct rg_error *err);
int rg_posix_upload_abort(struct rg_store *store, struct span bucket, struct span key,
                          struct span id, struct rg_error *err);

/* True when the object at the key was made by this upload. */
bool rg_posix_upload_is_done(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                             const char *id);

/*
 * Removes what is left of an upload (its record first: it is gone at once), and the directory of
 * its key's hash if that is empty then. Not durable. 0 or the negative errno.
 */
int rg_posix_upload_remove(int uploads_fd, const char *hash, const char *id);

/*
 * Removes a temporary (a hidden name of ours) that is older than the setting temp_expiry and has no
 * owner. 0, -EBUSY when it must stay, or the negative errno (sweep.c).
 */
int rg_posix_leftover_remove(struct rg_posix *posix, int directory_fd, const char *name);

/* Removes `name` and all below it, not through links, no deeper than `depth` directories. 0 or the
 * negative errno (bucket.c). */
int rg_posix_tree_remove(int directory_fd, const char *name, int depth);

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
