/*
 * Sweeping: what crashes, and clients that went away, leave behind. Expired uploads, temporary
 * files without an owner, sidecars that no object points to. Never touches an object.
 *
 * Several gateways may sweep one tree: each bucket is swept by whoever gets its lock file, and a
 * temporary file that is held by its writer, here or elsewhere, is left alone.
 */
#include "store/posix/posix.h"

#include "base/checked.h"
#include "base/encode.h"
#include "store/posix/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define PROBE_DEPTH    1
#define SUSPECTS_MAX   4096    /* sidecars looked for in one walk */
#define WALK_NAMES_MAX 4000000 /* names a walk looks at before it gives up */
#define WALK_DEPTH_MAX 1024

struct sweep {
    struct rg_posix *posix;
    struct rg_posix_bucket *bucket;
    struct timespec now;
    struct rg_error first; /* of what failed; the rest goes on */
    bool removed;          /* a temporary; set to false by who wants to know */
};

static void note_failure(struct sweep *sweep, int os_errno, const char *what)
{
    atomic_fetch_add(&sweep->posix->sweep_failures, 1);
    if (sweep->first.code == RG_OK) {
        rg_fail_storage(&sweep->first, os_errno, "sweeping %s: %s",
                        sweep->bucket ? sweep->bucket->name : "the root", what);
    }
}

static int64_t age_ms(const struct sweep *sweep, struct timespec then)
{
    return (sweep->now.tv_sec - then.tv_sec) * 1000 + (sweep->now.tv_nsec - then.tv_nsec) / 1000000;
}

static bool is_older(const struct sweep *sweep, const struct stat *st, int64_t limit_ms)
{
    return age_ms(sweep, st->st_mtim) > limit_ms && age_ms(sweep, st->st_ctim) > limit_ms;
}

/* Calls `visit` for each entry of a directory but . and ..; the descriptor is taken. */
static void each(struct sweep *sweep, int own_fd,
                 void (*visit)(struct sweep *sweep, int directory_fd, const char *name))
{
    rg_autoclosedir DIR *dir = rg_posix_directory_take(own_fd);
    if (!dir) {
        note_failure(sweep, errno, "reading a directory");
        return;
    }
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            visit(sweep, dirfd(dir), entry->d_name);
        }
    }
    if (errno) {
        note_failure(sweep, errno, "reading a directory");
    }
}

/* Opens .railgate/`name`; -1 when there is none or it cannot be opened. */
static int open_state(struct sweep *sweep, const char *name)
{
    int fd = openat(sweep->bucket->state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) {
        note_failure(sweep, errno, name);
    }
    return fd;
}

/* ---- Temporary files ---- */

int rg_posix_leftover_remove(struct rg_posix *posix, int directory_fd, const char *name)
{
    struct sweep sweep = {.posix = posix};
    clock_gettime(CLOCK_REALTIME, &sweep.now);
    struct stat st;
    if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    if (!is_older(&sweep, &st, posix->settings->temp_expiry)) {
        return -EBUSY;
    }
    rg_autoclose int fd = -1;
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
        fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)) {
            return -EBUSY; /* gone, or somebody writes to it, or probes a mount in it */
        }
    }
    if (S_ISREG(st.st_mode)) {
        if (unlinkat(directory_fd, name, 0) < 0) {
            return errno == ENOENT ? 0 : -errno;
        }
    } else {
        int rc = rg_posix_tree_remove(directory_fd, name, PROBE_DEPTH);
        if (rc) {
            return rc;
        }
    }
    RG_CRASH_POINT("sweep.temporary-removed");
    atomic_fetch_add(&posix->swept_temporaries, 1);
    return 0;
}

static void sweep_temporary(struct sweep *sweep, int directory_fd, const char *name)
{
    int rc = rg_posix_leftover_remove(sweep->posix, directory_fd, name);
    sweep->removed |= rc == 0;
    if (rc && rc != -EBUSY) {
        note_failure(sweep, -rc, "removing a temporary");
    }
}

static void sweep_hidden(struct sweep *sweep, int directory_fd, const char *name)
{
    if (rg_span_starts(rg_span_text(name), RG_SPAN_LITERAL(RG_POSIX_TEMP_PREFIX))) {
        sweep_temporary(sweep, directory_fd, name);
    }
}

/* What a crash left in a directory while names in it were made durable (path.c). */
static void sweep_hidden_of(struct sweep *sweep, int directory_fd)
{
    int fd = directory_fd < 0 ? -1 : openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        each(sweep, fd, sweep_hidden);
    }
}

/*
 * A note says which directory to look into. A delete may have left it alone because of what goes
 * now, so it goes too if nothing else is there. The note goes when the directory is gone: while it
 * is there, somebody may be about to make a temporary in it.
 */
static void sweep_stray(struct sweep *sweep, int strays_fd, const char *name)
{
    char path[PATH_MAX];
    sweep_hidden(sweep, strays_fd, name);
    ssize_t len = readlinkat(strays_fd, name, path, sizeof path);
    if (len <= 0 || len == (ssize_t)sizeof path) {
        return;
    }
    int fd = rg_posix_open_beneath(sweep->bucket->fd, rg_span(path, (size_t)len),
                                   O_RDONLY | O_DIRECTORY, false);
    if (fd >= 0) {
        sweep->removed = false;
        each(sweep, fd, sweep_hidden);
        if (sweep->removed && strcmp(path, ".") != 0) {
            rg_posix_empty_directories_remove(sweep->bucket, rg_span(path, (size_t)len));
        }
    } else if (fd == -ENOENT) {
        unlinkat(strays_fd, name, 0);
    }
}

/* ---- Uploads ---- */

static bool upload_is_over(struct sweep *sweep, const struct rg_upload_info *info)
{
    if (age_ms(sweep, info->initiated) > sweep->posix->settings->upload_expiry) {
        return true;
    }
    struct rg_posix_key split;
    return rg_posix_key_split(rg_span_text(info->key), &split, NULL) == 0 &&
           rg_posix_upload_is_done(sweep->bucket, &split, info->id);
}

static void remove_upload(struct sweep *sweep, int uploads_fd, const char *hash, const char *id,
                          struct span key)
{
    rg_autounlock lock = RG_POSIX_LOCK_INIT;
    if (key.len && rg_posix_lock_key(sweep->bucket, key, RG_SLOW_DOWN, &lock, NULL)) {
        return; /* busy: next time */
    }
    int rc = rg_posix_upload_remove(uploads_fd, hash, id);
    if (rc) {
        note_failure(sweep, -rc, "removing an upload");
        return;
    }
    atomic_fetch_add(&sweep->posix->swept_uploads, 1);
}

static void sweep_upload(struct sweep *sweep, int uploads_fd, const char *hash, int hash_fd,
                         const char *id)
{
    int fd = openat(hash_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    struct rg_upload_info info = {.id = ""};
    int rc = rg_posix_upload_read(fd, rg_span_text(id), &info, NULL);
    if (rc == 0 && upload_is_over(sweep, &info)) {
        remove_upload(sweep, uploads_fd, hash, id, rg_span_text(info.key));
    } else if (rc == -RG_NO_SUCH_UPLOAD &&
               is_older(sweep, &st, sweep->posix->settings->temp_expiry)) {
        /* Begun or ended half-way. */
        remove_upload(sweep, uploads_fd, hash, id, RG_SPAN_EMPTY);
    }
    rg_upload_info_free(&info);
    each(sweep, fd, sweep_hidden);
}

static void sweep_uploads(struct sweep *sweep)
{
    rg_autoclose int uploads_fd = open_state(sweep, "uploads");
    sweep_hidden_of(sweep, uploads_fd);
    int fd = uploads_fd < 0 ? -1 : openat(uploads_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autoclosedir DIR *dir = rg_posix_directory_take(fd);
    struct dirent *hash;
    while (dir && (hash = readdir(dir))) {
        if (hash->d_name[0] == '.') {
            continue;
        }
        int hash_fd =
            openat(uploads_fd, hash->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        sweep_hidden_of(sweep, hash_fd);
        rg_autoclosedir DIR *ids = rg_posix_directory_take(hash_fd);
        struct dirent *id;
        while (ids && (id = readdir(ids))) {
            if (id->d_name[0] != '.') {
                sweep_upload(sweep, uploads_fd, hash->d_name, hash_fd, id->d_name);
            }
        }
        /* Empty, if an upload was begun or ended half-way; whoever begins one makes it again. */
        unlinkat(uploads_fd, hash->d_name, AT_REMOVEDIR);
    }
}

/* ---- Sidecars ---- */

/*
 * A sidecar knows the key of its object. If the object there does not point back, it was deleted,
 * or moved by another program. Which, only a walk over the bucket can tell: a sidecar that none of
 * its files points to is marked (its mtime becomes 0), and removed when the next sweep finds the
 * same.
 */
struct suspects {
    struct {
        uint8_t id[RG_POSIX_SIDECAR_ID / 2];
        bool alive;
    } * items;
    size_t count;
};

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, RG_POSIX_SIDECAR_ID / 2);
}

static bool points_to(const struct rg_record *record, const uint8_t id[RG_POSIX_SIDECAR_ID / 2])
{
    return record->has_sidecar && memcmp(record->sidecar, id, RG_POSIX_SIDECAR_ID / 2) == 0;
}

/* Does what the sidecar says is its owner point to it? Unknown counts as yes. */
static bool owner_points_back(struct sweep *sweep, int sidecar_fd, const char *name,
                              const uint8_t id[RG_POSIX_SIDECAR_ID / 2])
{
    struct rg_posix_bucket *bucket = sweep->bucket;
    RG_CLEANUP(rg_record_free) struct rg_record sidecar = RG_RECORD_INIT;
    RG_CLEANUP(rg_record_free) struct rg_record owner = RG_RECORD_INIT;
    bool found = false;
    if (rg_posix_record_file_read(sidecar_fd, name, &sidecar, &found, NULL)) {
        return true;
    }
    if (!found) {
        return false; /* written half-way: nothing can point to it */
    }
    rg_autoclose int fd = -1;
    int rc;
    if (sidecar.key) {
        fd = rg_posix_open_beneath(bucket->fd, rg_span_text(sidecar.key), O_RDONLY, false);
        if (fd < 0) {
            return fd != -ENOENT && fd != -ENOTDIR;
        }
        rc = rg_posix_record_read(bucket, fd, false, &owner, &found, NULL);
    } else {
        rc = rg_posix_record_read(bucket, bucket->fd, false, &owner, &found, NULL);
    }
    return rc || (found && points_to(&owner, id));
}

static void check_sidecar(struct sweep *sweep, int sidecar_fd, const char *name,
                          struct suspects *suspects)
{
    struct stat st;
    uint8_t id[RG_POSIX_SIDECAR_ID / 2];
    if (fstatat(sidecar_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        suspects->count == SUSPECTS_MAX || !rg_hex_decode(rg_span_text(name), id, sizeof id) ||
        age_ms(sweep, st.st_ctim) <= sweep->posix->settings->temp_expiry ||
        owner_points_back(sweep, sidecar_fd, name, id)) {
        return;
    }
    memcpy(suspects->items[suspects->count].id, id, sizeof id);
    suspects->items[suspects->count].alive = false;
    suspects->count++;
}

/* Looks at one file or directory of the walk. */
static void acquit(struct sweep *sweep, int directory_fd, const char *name,
                   struct suspects *suspects)
{
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    if (rg_posix_record_read_at(sweep->bucket, directory_fd, name, &record, &found, NULL) ||
        !found || !record.has_sidecar) {
        return;
    }
    char *item = bsearch(record.sidecar, suspects->items, suspects->count, sizeof *suspects->items,
                         compare_ids);
    if (item) {
        suspects->items[(size_t)(item - (char *)suspects->items) / sizeof *suspects->items].alive =
            true;
    }
}

/* False when the walk could not see everything: then nothing is proved. */
static bool walk(struct sweep *sweep, int own_fd, int depth, size_t *names_left,
                 struct suspects *suspects)
{
    rg_autoclosedir DIR *dir = rg_posix_directory_take(own_fd);
    if (!dir || depth == WALK_DEPTH_MAX) {
        return false;
    }
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        struct span name = rg_span_text(entry->d_name);
        if (rg_span_is(name, ".") || rg_span_is(name, "..") ||
            (depth == 0 && rg_posix_name_hidden(name, true))) {
            continue;
        }
        if ((*names_left)-- == 0) {
            *names_left = 0;
            return false;
        }
        acquit(sweep, dirfd(dir), entry->d_name, suspects);
        if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) {
            continue;
        }
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {
            return false;
        }
        if (fd >= 0 && !walk(sweep, fd, depth + 1, names_left, suspects)) {
            return false;
        }
    }
    return errno == 0;
}

static void judge_suspects(struct sweep *sweep, int sidecar_fd, const struct suspects *suspects)
{
    for (size_t i = 0; i < suspects->count; i++) {
        char name[RG_POSIX_SIDECAR_ID + 1];
        rg_hex_encode(suspects->items[i].id, sizeof suspects->items[i].id, name);
        struct stat st;
        if (fstatat(sidecar_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        bool marked = st.st_mtim.tv_sec == 0;
        struct timespec epoch[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0}};
        struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        if (suspects->items[i].alive) {
            /* Moved: its change time keeps it out of suspicion for a while. */
            utimensat(sidecar_fd, name, now, AT_SYMLINK_NOFOLLOW);
        } else if (!marked) {
            utimensat(sidecar_fd, name, epoch, AT_SYMLINK_NOFOLLOW);
            RG_CRASH_POINT("sweep.sidecar-marked");
        } else if (unlinkat(sidecar_fd, name, 0) == 0) {
            RG_CRASH_POINT("sweep.sidecar-removed");
            atomic_fetch_add(&sweep->posix->swept_temporaries, 1);
        }
    }
}

static void sweep_sidecars(struct sweep *sweep)
{
    rg_autoclose int sidecar_fd = open_state(sweep, "sidecar");
    if (sidecar_fd < 0) {
        return;
    }
    sweep_hidden_of(sweep, sidecar_fd);
    struct suspects suspects = {.items = calloc(SUSPECTS_MAX, sizeof *suspects.items)};
    int fd = suspects.items ? openat(sidecar_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = rg_posix_directory_take(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        check_sidecar(sweep, sidecar_fd, entry->d_name, &suspects);
    }
    if (dir) {
        closedir(dir);
    }
    if (suspects.count) {
        qsort(suspects.items, suspects.count, sizeof *suspects.items, compare_ids);
        size_t names_left = WALK_NAMES_MAX;
        int root = openat(sweep->bucket->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root >= 0 && walk(sweep, root, 0, &names_left, &suspects)) {
            judge_suspects(sweep, sidecar_fd, &suspects);
        }
    }
    free(suspects.items);
}

/* ---- A pass ---- */

static void sweep_state(struct sweep *sweep)
{
    /* One sweeper a bucket; without such locks each does it, which is wasteful but not wrong. */
    rg_autoclose int lock_fd =
        openat(sweep->bucket->state_fd, "sweep", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock_fd < 0 || (flock(lock_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)) {
        return;
    }
    if (!sweep->bucket->mount->dir_fsync) {
        sweep_hidden_of(sweep, sweep->bucket->state_fd);
        sweep_hidden_of(sweep, sweep->bucket->fd);
    }
    int temp_fd = open_state(sweep, "tmp");
    if (temp_fd >= 0) {
        each(sweep, temp_fd, sweep_temporary);
    }
    int strays_fd = open_state(sweep, "strays");
    if (strays_fd >= 0) {
        sweep_hidden_of(sweep, strays_fd);
        each(sweep, strays_fd, sweep_stray);
    }
    sweep_uploads(sweep);
    sweep_sidecars(sweep);
}

/* A bucket that nothing was ever written to by a gateway has nothing to sweep, and gets no
 * .railgate for the asking. */
static bool has_state(struct rg_posix_bucket *bucket)
{
    return faccessat(bucket->fd, RG_POSIX_STATE_DIR, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void sweep_bucket(struct rg_posix *posix, struct span name, struct rg_error *ret_first)
{
    rg_autobucket bucket = NULL;
    if (rg_posix_bucket_get(posix, name, &bucket, NULL) || !has_state(bucket)) {
        return; /* deleted meanwhile */
    }
    struct sweep sweep = {.posix = posix, .bucket = bucket, .first = RG_ERROR_INIT};
    int rc = rg_posix_bucket_ready(bucket, &sweep.first);
    if (rc == 0) {
        clock_gettime(CLOCK_REALTIME, &sweep.now);
        sweep_state(&sweep);
    } else {
        atomic_fetch_add(&posix->sweep_failures, 1);
    }
    *ret_first = sweep.first;
}

/* What a crash left there while names of buckets were made durable, or the mount was probed. */
static void sweep_root(struct rg_posix *posix, struct rg_error *ret_first)
{
    struct sweep sweep = {.posix = posix, .first = RG_ERROR_INIT};
    clock_gettime(CLOCK_REALTIME, &sweep.now);
    if (!posix->root_mount->dir_fsync) {
        sweep_hidden_of(&sweep, posix->root);
    }
    int fd = openat(posix->root, RG_POSIX_STATE_DIR "/tmp",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        each(&sweep, fd, sweep_hidden);
    }
    *ret_first = sweep.first;
}

int rg_posix_sweep(struct rg_store *store, struct span bucket, struct rg_error *err)
{
    struct rg_error first = RG_ERROR_INIT;
    if (bucket.len == 0) {
        sweep_root(rg_posix_of(store), &first);
    } else {
        sweep_bucket(rg_posix_of(store), bucket, &first);
    }
    if (first.code == RG_OK) {
        return 0;
    }
    if (err) {
        *err = first;
    }
    return -(int)first.code;
}
