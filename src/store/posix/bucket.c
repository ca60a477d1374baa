/*
 * Buckets: the cache of open ones, the directory .railgate of each, and the bucket calls of the
 * store. An object is never looked at here, except to see that a bucket holds none.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/checked.h"
#include "s3/names.h"
#include "store/posix/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LOOK_BYTES_MAX (16u << 20) /* of paths, before a bucket is deleted */
#define GONE_TRIES     15
#define GONE_PAUSE_US  100000u

#define REMOVE_DEPTH_MAX 8
#define REMOVE_TRIES     64
/* What names the bucket itself among the locks of its keys: no key is a single slash. */
#define BUCKET_LOCK_KEY RG_SPAN_LITERAL("/")

/* ---- The cache ---- */

static void close_buckets(struct rg_posix_bucket *list)
{
    while (list) {
        struct rg_posix_bucket *bucket = list;
        list = bucket->next;
        int fds[] = {bucket->fd, bucket->state_fd, bucket->temp_fd, bucket->locks_fd};
        for (size_t i = 0; i < RG_ARRAY_LENGTH(fds); i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
        for (size_t i = 0; i < RG_POSIX_STRIPES; i++) {
            RG_MUST(pthread_mutex_destroy(&bucket->stripes[i]));
        }
        RG_MUST(pthread_rwlock_destroy(&bucket->commits));
        RG_MUST(pthread_mutex_destroy(&bucket->mutex));
        free(bucket);
    }
}

/* All below: with buckets_mutex held. Nothing is closed then, which could hang with a mount: what
 * has had its day goes to a list that is closed afterwards. */
static void unlink_bucket(struct rg_posix *posix, struct rg_posix_bucket *bucket)
{
    struct rg_posix_bucket **at = &posix->buckets;
    while (*at != bucket) {
        at = &(*at)->next;
    }
    *at = bucket->next;
    posix->bucket_count--;
}

static void doom_bucket(struct rg_posix *posix, struct rg_posix_bucket *bucket,
                        struct rg_posix_bucket **doomed)
{
    unlink_bucket(posix, bucket);
    bucket->next = *doomed;
    *doomed = bucket;
}

static struct rg_posix_bucket *find_bucket(struct rg_posix *posix, struct span name,
                                           const struct stat *st, struct rg_posix_bucket **doomed)
{
    struct rg_posix_bucket *next;
    for (struct rg_posix_bucket *bucket = posix->buckets; bucket; bucket = next) {
        next = bucket->next;
        if (bucket->stale || !rg_span_is(name, bucket->name)) {
            continue;
        }
        if (bucket->device == st->st_dev && bucket->inode == st->st_ino) {
            return bucket;
        }
        bucket->stale = true; /* another directory has the name now */
        if (bucket->references == 0) {
            doom_bucket(posix, bucket, doomed);
        }
    }
    return NULL;
}

static void use_bucket(struct rg_posix *posix, struct rg_posix_bucket *bucket)
{
    bucket->references++;
    if (posix->buckets != bucket) {
        unlink_bucket(posix, bucket);
        bucket->next = posix->buckets;
        posix->buckets = bucket;
        posix->bucket_count++;
    }
}

static void evict_buckets(struct rg_posix *posix, struct rg_posix_bucket **doomed)
{
    while (posix->bucket_count > RG_POSIX_BUCKETS_KEPT) {
        struct rg_posix_bucket *oldest = NULL;
        for (struct rg_posix_bucket *bucket = posix->buckets; bucket; bucket = bucket->next) {
            oldest = bucket->references == 0 ? bucket : oldest;
        }
        if (!oldest) {
            return; /* all in use: as many as there are requests, which have a ceiling */
        }
        doom_bucket(posix, oldest, doomed);
    }
}

static int open_bucket(struct rg_posix *posix, struct span name,
                       struct rg_posix_bucket **ret_bucket, struct rg_error *err)
{
    char text[sizeof((struct rg_posix_bucket *)NULL)->name];
    snprintf(text, sizeof text, "%.*s", RG_SPAN_ARG(name));
    rg_autoclose int fd =
        openat(posix->root, text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
            return rg_fail(err, RG_NO_SUCH_BUCKET);
        }
        return rg_fail_storage(err, errno, "opening the bucket");
    }
    struct rg_posix_bucket *bucket = calloc(1, sizeof *bucket);
    if (!bucket) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    *bucket = (struct rg_posix_bucket){
        .posix = posix,
        .device = st.st_dev,
        .inode = st.st_ino,
        .fd = RG_TAKE_FD(fd),
        .state_fd = -1,
        .temp_fd = -1,
        .locks_fd = -1,
    };
    memcpy(bucket->name, text, sizeof text);
    RG_MUST(pthread_rwlock_init(&bucket->commits, NULL));
    RG_MUST(pthread_mutex_init(&bucket->mutex, NULL));
    for (size_t i = 0; i < RG_POSIX_STRIPES; i++) {
        RG_MUST(pthread_mutex_init(&bucket->stripes[i], NULL));
    }
    *ret_bucket = bucket;
    return 0;
}

int rg_posix_bucket_get(struct rg_posix *posix, struct span name,
                        struct rg_posix_bucket **ret_bucket, struct rg_error *err)
{
    if (rg_bucket_name_check(name, NULL)) {
        return rg_fail(err, RG_NO_SUCH_BUCKET);
    }
    char text[RG_BUCKET_NAME_MAX + 1];
    snprintf(text, sizeof text, "%.*s", RG_SPAN_ARG(name));
    struct stat st;
    if (fstatat(posix->root, text, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? rg_fail(err, RG_NO_SUCH_BUCKET)
                               : rg_fail_storage(err, errno, "looking up the bucket");
    }
    if (!S_ISDIR(st.st_mode)) {
        return rg_fail(err, RG_NO_SUCH_BUCKET);
    }

    struct rg_posix_bucket *doomed = NULL;
    RG_MUST(pthread_mutex_lock(&posix->buckets_mutex));
    struct rg_posix_bucket *bucket = find_bucket(posix, name, &st, &doomed);
    if (bucket) {
        use_bucket(posix, bucket);
    }
    RG_MUST(pthread_mutex_unlock(&posix->buckets_mutex));
    close_buckets(RG_TAKE(doomed));
    if (bucket) {
        *ret_bucket = bucket;
        return 0;
    }

    struct rg_posix_bucket *opened = NULL;
    int rc = open_bucket(posix, name, &opened, err);
    if (rc) {
        return rc;
    }
    st.st_dev = opened->device;
    st.st_ino = opened->inode;
    RG_MUST(pthread_mutex_lock(&posix->buckets_mutex));
    bucket = find_bucket(posix, name, &st, &doomed);
    if (bucket) { /* another thread was faster */
        use_bucket(posix, bucket);
        opened->next = doomed;
        doomed = opened;
    } else {
        bucket = opened;
        bucket->references = 1;
        bucket->next = posix->buckets;
        posix->buckets = bucket;
        posix->bucket_count++;
        evict_buckets(posix, &doomed);
    }
    RG_MUST(pthread_mutex_unlock(&posix->buckets_mutex));
    close_buckets(doomed);
    *ret_bucket = bucket;
    return 0;
}

void rg_posix_bucket_put(struct rg_posix_bucket *bucket)
{
    struct rg_posix *posix = bucket->posix;
    RG_MUST(pthread_mutex_lock(&posix->buckets_mutex));
    bool last = --bucket->references == 0 && bucket->stale;
    if (last) {
        unlink_bucket(posix, bucket);
    }
    RG_MUST(pthread_mutex_unlock(&posix->buckets_mutex));
    if (last) {
        bucket->next = NULL;
        close_buckets(bucket);
    }
}

void rg_posix_bucket_forget(struct rg_posix_bucket *bucket)
{
    RG_MUST(pthread_mutex_lock(&bucket->posix->buckets_mutex));
    bucket->stale = true;
    RG_MUST(pthread_mutex_unlock(&bucket->posix->buckets_mutex));
}

bool rg_posix_bucket_is_gone(const struct rg_posix_bucket *bucket)
{
    struct stat held;
    struct stat named;
    if (fstat(bucket->fd, &held) == 0) {
        return held.st_nlink == 0;
    }
    if (errno != ESTALE && errno != ENOENT) {
        return false;
    }
    /* A server that has just come back may say so of what is still there. */
    if (fstatat(bucket->posix->root, bucket->name, &named, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT;
    }
    return named.st_dev != bucket->device || named.st_ino != bucket->inode;
}

/*
 * The attributes of a directory that another client removed may come from a cache (GlusterFS: for a
 * second). As this is asked only when something is stale already, there is time to wait for it.
 */
static bool is_gone(const struct rg_posix_bucket *bucket, bool is_stale)
{
    for (int i = 0; is_stale && i < GONE_TRIES && !rg_posix_bucket_is_gone(bucket); i++) {
        usleep(GONE_PAUSE_US);
    }
    return rg_posix_bucket_is_gone(bucket);
}

int rg_posix_bucket_blame(struct rg_posix_bucket *bucket, int rc, struct rg_error *err)
{
    if (rc != -RG_SERVICE_UNAVAILABLE || !is_gone(bucket, err && err->os_errno == ESTALE)) {
        return rc;
    }
    rg_posix_bucket_forget(bucket);
    return rg_fail(err, RG_NO_SUCH_BUCKET);
}

void rg_posix_buckets_free(struct rg_posix *posix)
{
    for (struct rg_posix_bucket *bucket = posix->buckets; bucket; bucket = bucket->next) {
        RG_ASSERT(bucket->references == 0);
    }
    close_buckets(RG_TAKE(posix->buckets));
}

/* ---- .railgate ---- */

/* Opens a directory of ours, making it if missing; *ret_made says whether. */
static int open_own(int directory_fd, const char *name, bool create, int *ret_fd, bool *ret_made,
                    struct rg_error *err)
{
    *ret_made = false;
    for (int i = 0; i < 4; i++) {
        int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (errno != ENOENT) {
            return rg_fail_storage(err, errno, "opening \"%s\" in %s", name, RG_POSIX_STATE_DIR);
        }
        if (!create) {
            *ret_fd = -1;
            return 0;
        }
        if (mkdirat(directory_fd, name, 0700) == 0) {
            *ret_made = true;
        } else if (errno != EEXIST) {
            return errno == ENOENT ? rg_fail(err, RG_NO_SUCH_BUCKET)
                                   : rg_fail_storage(err, errno, "making \"%s\"", name);
        }
    }
    return rg_failf(err, RG_SLOW_DOWN, "\"%s\" is removed as fast as it is made.", name);
}

static int make_ready(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    rg_autoclose int state_fd = -1;
    rg_autoclose int temp_fd = -1;
    bool state_made = false;
    bool temp_made = false;
    int rc = open_own(bucket->fd, RG_POSIX_STATE_DIR, true, &state_fd, &state_made, err);
    if (rc) {
        return rc;
    }
    rc = open_own(state_fd, "tmp", true, &temp_fd, &temp_made, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("state.made");
    struct rg_posix_mount *mount = NULL;
    rc = rg_posix_mount_get(bucket->posix, temp_fd, &mount, err);
    if (rc) {
        return rc;
    }
    if (temp_made) {
        rc = rg_posix_names_sync(bucket->posix, mount, state_fd, -1, err);
        if (rc) {
            return rc;
        }
    }
    if (state_made) {
        rc = rg_posix_names_sync(bucket->posix, mount, bucket->fd, -1, err);
        if (rc) {
            return rc;
        }
    }
    if (mount->locks) {
        int fd = openat(state_fd, "locks", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) {
            return rg_fail_storage(err, errno, "opening .railgate/locks");
        }
        bucket->locks_fd = fd;
    }
    bucket->mount = mount;
    bucket->state_fd = RG_TAKE_FD(state_fd);
    bucket->temp_fd = RG_TAKE_FD(temp_fd);
    atomic_store(&bucket->ready, true);
    return 0;
}

int rg_posix_bucket_ready(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    if (atomic_load(&bucket->ready)) {
        return 0;
    }
    RG_MUST(pthread_mutex_lock(&bucket->mutex));
    int rc = atomic_load(&bucket->ready) ? 0 : make_ready(bucket, err);
    RG_MUST(pthread_mutex_unlock(&bucket->mutex));
    return rc;
}

int rg_posix_state_open(struct rg_posix_bucket *bucket, const char *name, bool create, int *ret_fd,
                        struct rg_error *err)
{
    rg_autoclose int state_fd = -1;
    bool made = false;
    if (create) {
        int rc = rg_posix_bucket_ready(bucket, err);
        if (rc) {
            return rc;
        }
    } else {
        int rc = open_own(bucket->fd, RG_POSIX_STATE_DIR, false, &state_fd, &made, err);
        if (rc) {
            return rc;
        }
        if (state_fd < 0) {
            *ret_fd = -1;
            return 0;
        }
    }
    int rc = open_own(create ? bucket->state_fd : state_fd, name, create, ret_fd, &made, err);
    if (rc || !made) {
        return rc;
    }
    rc = rg_posix_names_sync(bucket->posix, bucket->mount, bucket->state_fd, -1, err);
    if (rc) {
        close(*ret_fd);
        *ret_fd = -1;
    }
    return rc;
}

/* ---- Calls ---- */

int rg_posix_bucket_create(struct rg_store *store, struct span bucket, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    int rc = rg_bucket_name_check_new(bucket, err);
    if (rc) {
        return rc;
    }
    char name[RG_BUCKET_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s", RG_SPAN_ARG(bucket));
    rc = rg_posix_mkdir(posix, posix->root, name);
    if (rc == -EEXIST) {
        rg_autobucket existing = NULL;
        rc = rg_posix_bucket_get(posix, bucket, &existing, err);
        if (rc == -RG_NO_SUCH_BUCKET) {
            return rg_failf(err, RG_BUCKET_ALREADY_EXISTS,
                            "Something that is not a directory has the name \"%s\".", name);
        }
        return rc ? rc : rg_fail(err, RG_BUCKET_ALREADY_OWNED);
    }
    if (rc) {
        return rg_fail_storage(err, -rc, "making the bucket's directory");
    }
    RG_CRASH_POINT("bucket.made");

    rg_autobucket made = NULL;
    rc = rg_posix_bucket_get(posix, bucket, &made, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_bucket_ready(made, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    record.has_modified = true;
    clock_gettime(CLOCK_REALTIME, &record.modified);
    rc = rg_posix_record_write(made, made->mount, made->fd, &record, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_names_sync(posix, made->mount, made->fd, -1, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("bucket.before-root-sync");
    return rg_posix_names_sync(posix, posix->root_mount, posix->root, -1, err);
}

int rg_posix_bucket_created(int fd, struct timespec *ret_created, struct rg_error *err)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    int rc = rg_posix_record_read(NULL, fd, false, &record, &found, err);
    if (rc) {
        return rc;
    }
    if (found && record.has_modified) {
        *ret_created = record.modified;
        return 0;
    }
    struct statx stx;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME | STATX_CTIME, &stx) < 0) {
        return rg_fail_storage(err, errno, "looking at the bucket");
    }
    struct statx_timestamp when = stx.stx_mask & STATX_BTIME ? stx.stx_btime : stx.stx_ctime;
    *ret_created = (struct timespec){.tv_sec = when.tv_sec, .tv_nsec = when.tv_nsec};
    return 0;
}

int rg_posix_bucket_stat(struct rg_store *store, struct span name, struct rg_bucket_info *ret_info,
                         struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(rg_posix_of(store), name, &bucket, err);
    if (rc) {
        return rc;
    }
    struct rg_bucket_info info = {.name = ""};
    rc = rg_posix_bucket_created(bucket->fd, &info.created, err);
    if (rc) {
        return rc;
    }
    memcpy(info.name, bucket->name, sizeof info.name);
    *ret_info = info;
    return 0;
}

/* ---- Tags ---- */

static int read_bucket_record(struct rg_posix_bucket *bucket, struct rg_record *ret_record,
                              struct rg_error *err)
{
    bool found = false;
    int rc = rg_posix_record_read(bucket, bucket->fd, true, ret_record, &found, err);
    if (rc || found) {
        return rc;
    }
    return rg_posix_legacy_read(bucket->fd, ret_record, &found, err);
}

int rg_posix_bucket_tags_get(struct rg_store *store, struct span name, struct rg_pairs *ret_tags,
                             struct rg_error *err)
{
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(rg_posix_of(store), name, &bucket, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    rc = read_bucket_record(bucket, &record, err);
    if (rc) {
        return rc;
    }
    if (record.meta.tags.count == 0) {
        return rg_fail(err, RG_NO_SUCH_TAG_SET);
    }
    *ret_tags = record.meta.tags;
    record.meta.tags = (struct rg_pairs)RG_PAIRS_INIT;
    return 0;
}

int rg_posix_bucket_tags_set(struct rg_store *store, struct span name, const struct rg_pairs *tags,
                             struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(posix, name, &bucket, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_bucket_ready(bucket, err);
    if (rc) {
        return rc;
    }
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_key(bucket, BUCKET_LOCK_KEY, RG_OPERATION_ABORTED, &lock, err);
    if (rc) {
        return rc;
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    rc = read_bucket_record(bucket, &record, err);
    if (rc) {
        return rc;
    }
    if (!record.has_modified) {
        rc = rg_posix_bucket_created(bucket->fd, &record.modified, err);
        if (rc) {
            return rc;
        }
        record.has_modified = true;
    }
    struct rg_record old = {.has_sidecar = record.has_sidecar};
    memcpy(old.sidecar, record.sidecar, sizeof old.sidecar);
    struct rg_pairs copy = RG_PAIRS_INIT;
    if (tags) {
        rc = rg_pairs_copy(tags, &copy, err);
        if (rc) {
            return rc;
        }
    }
    rg_pairs_free(&record.meta.tags);
    record.meta.tags = copy;
    rc = rg_posix_record_write(bucket, bucket->mount, bucket->fd, &record, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("bucket.tagged");
    rc = rg_posix_names_sync(posix, bucket->mount, bucket->fd, -1, err);
    if (rc) {
        return rc;
    }
    rg_posix_sidecar_remove(bucket, &old);
    return 0;
}

/* ---- Deletion ---- */

int rg_posix_tree_remove(int directory_fd, const char *name, int depth)
{
    if (unlinkat(directory_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -errno;
    }
    if (depth == 0) {
        return -ENOTEMPTY;
    }
    int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    if (!dir) {
        return -errno;
    }
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int rc = rg_posix_tree_remove(fd, entry->d_name, depth - 1);
        if (rc) {
            return rc;
        }
    }
    return unlinkat(directory_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* What stands first in a directory. Temporary files are removed on the way; what else is hidden at
 * the top is passed over. */
enum found { FOUND_NOTHING, FOUND_DIRECTORY, FOUND_OTHER };

static int look_into(int bucket_fd, struct span path, enum found *ret_found,
                     char ret_name[NAME_MAX + 1])
{
    int fd = rg_posix_open_beneath(bucket_fd, path, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0) {
        return fd;
    }
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    if (!dir) {
        return -errno;
    }
    bool top = path.len == 0;
    *ret_found = FOUND_NOTHING;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        struct span name = rg_span_text(entry->d_name);
        if (rg_span_is(name, ".") || rg_span_is(name, "..")) {
            continue;
        }
        if (rg_posix_name_hidden(name, top)) {
            if (!top || rg_span_starts(name, RG_SPAN_LITERAL(RG_POSIX_TEMP_PREFIX))) {
                rg_posix_tree_remove(fd, entry->d_name, 2);
            }
            continue;
        }
        struct stat st;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT) {
                continue;
            }
            return -errno;
        }
        if (!S_ISDIR(st.st_mode)) {
            *ret_found = FOUND_OTHER;
            return 0;
        }
        *ret_found = FOUND_DIRECTORY;
        snprintf(ret_name, NAME_MAX + 1, "%s", entry->d_name);
    }
    return -errno;
}

static int is_directory_object(struct rg_posix_bucket *bucket, struct span path,
                               struct rg_error *err)
{
    rg_autoclose int fd = rg_posix_open_beneath(bucket->fd, path, O_RDONLY | O_DIRECTORY, false);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return fd == -ENOENT ? 0 : rg_fail_storage(err, fd < 0 ? -fd : errno, "emptying a bucket");
    }
    struct rg_object_info info = {.size = 0};
    int rc = rg_posix_info_read(bucket, fd, &st, &info, err);
    if (rc == -RG_NO_SUCH_KEY) {
        return 0;
    }
    rg_object_info_free(&info);
    if (rc == -RG_SERVICE_UNAVAILABLE && rg_posix_is_removed(fd)) {
        return 0; /* somebody else removed it */
    }
    return rc ? rc : rg_fail(err, RG_BUCKET_NOT_EMPTY);
}

/* Adds the directories that stand in one to `paths`, each with a NUL behind it. What cannot be read
 * is left to prune. */
static int gather_directories(struct rg_posix_bucket *bucket, struct span path,
                              struct rg_buf *paths, struct rg_error *err)
{
    rg_autoclosedir DIR *dir = rg_posix_directory_take(
        rg_posix_open_beneath(bucket->fd, path, O_RDONLY | O_DIRECTORY, false));
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        struct span name = rg_span_text(entry->d_name);
        struct stat st;
        if (rg_span_is(name, ".") || rg_span_is(name, "..") ||
            rg_posix_name_hidden(name, path.len == 0) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (!S_ISDIR(st.st_mode)) {
            return rg_fail(err, RG_BUCKET_NOT_EMPTY);
        }
        rg_buf_add_span(paths, path);
        rg_buf_add_text(paths, path.len ? "/" : "");
        rg_buf_add_span(paths, name);
        rg_buf_add_char(paths, '\0');
    }
    return 0;
}

/* RG_BUCKET_NOT_EMPTY when an object is found. Changes nothing: a bucket that stays keeps its empty
 * directories. Gives up, with 0, where too many directories are known and not looked into. */
static int look_for_objects(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    RG_BUF(paths, LOOK_BYTES_MAX);
    int rc = gather_directories(bucket, RG_SPAN_EMPTY, &paths, err);
    while (rc == 0 && rg_buf_ok(&paths) && paths.len) {
        const char *before = memrchr(paths.data, '\0', paths.len - 1);
        size_t begin = before ? (size_t)(before + 1 - paths.data) : 0;
        char path[PATH_MAX];
        int len = snprintf(path, sizeof path, "%s", paths.data + begin);
        paths.len = begin;
        if (len >= (int)sizeof path) {
            continue;
        }
        rc = is_directory_object(bucket, rg_span_text(path), err);
        rc = rc ? rc : gather_directories(bucket, rg_span_text(path), &paths, err);
    }
    return rc;
}

/*
 * Removes the directories of a bucket that hold no object. RG_BUCKET_NOT_EMPTY at the first object.
 * Goes down to the first directory and up again when one is empty, so that no descriptor is held on
 * the way, however deep the tree.
 */
static int prune(struct rg_posix_bucket *bucket, struct rg_error *err)
{
    RG_BUF(path, PATH_MAX - 1);
    for (;;) {
        enum found found = FOUND_NOTHING;
        char name[NAME_MAX + 1];
        int rc = look_into(bucket->fd, rg_buf_span(&path), &found, name);
        if (rc && rc != -ENOENT) {
            return rg_fail_storage(err, -rc, "looking for objects in the bucket");
        }
        if (found == FOUND_OTHER) {
            return rg_fail(err, RG_BUCKET_NOT_EMPTY);
        }
        if (found == FOUND_DIRECTORY) {
            if (path.len) {
                rg_buf_add_char(&path, '/');
            }
            rg_buf_add_text(&path, name);
            if (!rg_buf_ok(&path)) {
                return rg_failf(err, RG_BUCKET_NOT_EMPTY,
                                "The bucket holds directories too deep to look into.");
            }
            rc = is_directory_object(bucket, rg_buf_span(&path), err);
            if (rc) {
                return rc;
            }
            continue;
        }
        if (path.len == 0) {
            return 0;
        }
        const char *slash = memrchr(path.data, '/', path.len);
        size_t above = slash ? (size_t)(slash - path.data) : 0;
        rg_autoclose int fd = rg_posix_open_beneath(bucket->fd, rg_span(path.data, above),
                                                    O_RDONLY | O_DIRECTORY, false);
        const char *last = path.data + above + (slash ? 1 : 0);
        if (fd >= 0 && unlinkat(fd, last, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            return errno == ENOTEMPTY || errno == EEXIST
                       ? rg_fail(err, RG_BUCKET_NOT_EMPTY)
                       : rg_fail_storage(err, errno, "removing an empty directory");
        }
        path.len = above;
        path.data[above] = '\0';
    }
}

/* What is not an object. 0 or the negative errno. */
static int remove_own(struct rg_posix_bucket *bucket)
{
    int rc = rg_posix_tree_remove(bucket->fd, ".sgwtmp", REMOVE_DEPTH_MAX);
    return rc ? rc : rg_posix_tree_remove(bucket->fd, RG_POSIX_STATE_DIR, REMOVE_DEPTH_MAX);
}

/*
 * NFS, and file systems on libfuse, keep a removed file that is still open under another name in
 * its directory, which then cannot be removed. So the locks file is closed first; what waits for
 * the bucket's lock finds it gone.
 */
static void close_locks(struct rg_posix_bucket *bucket)
{
    if (bucket->locks_fd >= 0) {
        close(bucket->locks_fd);
        bucket->locks_fd = -1;
    }
    bucket->gone = true;
}

int rg_posix_bucket_delete(struct rg_store *store, struct span name, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    rg_autobucket bucket = NULL;
    int rc = rg_posix_bucket_get(posix, name, &bucket, err);
    if (rc) {
        return rc;
    }
    rc = rg_posix_bucket_ready(bucket, err);
    if (rc) {
        return rc;
    }
    rc = look_for_objects(bucket, err);
    rc = rc ? rc : prune(bucket, err);
    if (rc) {
        return rc;
    }
    /* Nothing can become visible while the whole bucket is locked: what waits for a lock finds the
     * locks file gone afterwards. */
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    rc = rg_posix_lock_bucket(bucket, &lock, err);
    if (rc) {
        return rc;
    }
    rc = prune(bucket, err);
    if (rc) {
        return rc;
    }
    RG_CRASH_POINT("bucket.before-remove");
    rg_posix_bucket_forget(bucket);
    /* A request of another gateway that comes just now makes .railgate anew, with a locks file that
     * we do not hold: what it stores keeps the bucket, what it only began does not. */
    for (int i = 0; i < REMOVE_TRIES; i++) {
        rc = remove_own(bucket);
        RG_CRASH_POINT("bucket.state-removed");
        if (rc == 0 && unlinkat(posix->root, bucket->name, AT_REMOVEDIR) < 0) {
            rc = -errno;
        }
        if (rc == 0 || rc == -ENOENT) {
            return rg_posix_names_sync(posix, posix->root_mount, posix->root, -1, err);
        }
        if (rc != -ENOTEMPTY && rc != -EEXIST) {
            return rg_fail_storage(err, -rc, "removing the bucket's directory");
        }
        close_locks(bucket);
        usleep(i < 10 ? 1000U << i : 0); /* closing takes effect later there */
        rc = prune(bucket, err);
        if (rc) {
            return rc;
        }
    }
    return rg_failf(err, RG_OPERATION_ABORTED, "The bucket is in use. Try again.");
}
