/*
 * The walk: a stack of levels, one a directory, from the directory that the prefix names down to
 * the one being read. See walk.h for what it finds. It must not read records, nor trust that
 * anything a snapshot names still is what it was.
 */
#include "store/posix/walk.h"

#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"
#include "s3/names.h"
#include "store/posix/names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Deeper down, the upper levels' descriptors are closed, and opened again on the way back up. */
#define LEVELS_OPEN 16u

/* Names selected at once in directories without a snapshot, shared out over the levels. */
#define PARTIAL_NAMES 2048u

struct level {
    int fd; /* -1: closed to save descriptors */
    dev_t device;
    ino_t inode;
    struct rg_snapshot *names; /* NULL: to be fetched, beginning at `from` */
    size_t next;
    char from[RG_NAME_TEXT_MAX + 1];
    size_t from_len;
    size_t path_len; /* of the directory's key within the walk's path */
    bool linked;     /* a symbolic link to a directory stands on the way here */
    bool inside;     /* its own key is still to be found */
};

struct rg_walk {
    struct rg_posix_bucket *bucket;
    struct rg_snapshots *snapshots;
    uint64_t since_ns;
    bool stop_at_directories;
    uint64_t too_long;
    struct rg_buf prefix;
    struct rg_buf from;
    /* The key of the innermost directory, and behind it the name being looked at. */
    char path[RG_KEY_BYTES_MAX + RG_NAME_TEXT_MAX + 1];
    struct level *levels; /* at most 513: each but the first adds two bytes to the key */
    size_t depth;
    size_t room;
    /* What the change times of the last device are worth. */
    bool times_known;
    dev_t times_device;
    enum rg_directory_times times;
};

/* ---- Small things ---- */

/* Errors that say: what the name stood for is not there, or not that, or out of reach for reads as
 * well. */
static bool means_absent(int os_errno)
{
    return os_errno == ENOENT || os_errno == ENOTDIR || os_errno == ELOOP || os_errno == EXDEV ||
           os_errno == ENAMETOOLONG;
}

static struct level *top(struct rg_walk *walk)
{
    return &walk->levels[walk->depth - 1];
}

static void close_level(struct level *level)
{
    rg_cleanup_close(&level->fd);
    level->fd = -1;
    rg_snapshot_put(level->names);
    level->names = NULL;
}

static void pop(struct rg_walk *walk)
{
    close_level(top(walk));
    walk->depth--;
}

static struct span without_slash(struct span path)
{
    return path.len > 0 && path.ptr[path.len - 1] == '/' ? rg_span_head(path, path.len - 1) : path;
}

static int fail_directory(struct span path, int os_errno, struct rg_error *err)
{
    return rg_fail_storage(err, os_errno, "cannot open the directory \"%.*s\" to list it",
                           RG_SPAN_ARG(path));
}

/* File systems that stamp files with this machine's clock. */
static bool stamps_locally(uint64_t magic)
{
    switch (magic) {
    case 0xef53:     /* ext2, ext3, ext4 */
    case 0x58465342: /* xfs */
    case 0x9123683e: /* btrfs */
    case 0x01021994: /* tmpfs */
    case 0xf2f52010: /* f2fs */
    case 0x2fc12fc1: /* zfs */
    case 0xca451a4e: /* bcachefs */
        return true;
    default:
        return false;
    }
}

/* A mount that was not probed is taken for the worst. */
static enum rg_directory_times times_of(struct rg_walk *walk, dev_t device)
{
    if (!walk->times_known || walk->times_device != device) {
        const struct rg_posix_bucket *bucket = walk->bucket;
        const struct rg_posix_mount *mount =
            atomic_load(&bucket->ready) && bucket->mount->device == device
                ? bucket->mount
                : rg_posix_mount_known(bucket->posix, device);
        walk->times_known = true;
        walk->times_device = device;
        walk->times = !mount || !mount->fine_times   ? RG_TIMES_COARSE
                      : stamps_locally(mount->magic) ? RG_TIMES_LOCAL
                                                     : RG_TIMES_REMOTE;
    }
    return walk->times;
}

/* ---- Where a level begins ---- */

/*
 * Sets where a level's names begin, given that its directory's key is the first path_len bytes of
 * the path: at the walk's `from` if that lies inside, else at the start. The first segment of
 * `from` with its "/" does not sort behind the directory it names.
 */
static void set_start(struct rg_walk *walk, struct level *level)
{
    struct span from = rg_buf_span(&walk->from);
    struct span path = rg_span(walk->path, level->path_len);
    struct span rest = RG_SPAN_EMPTY;
    if (rg_span_starts(from, path)) {
        rest = rg_span_skip(from, path.len);
        ptrdiff_t slash = rg_span_find(rest, '/');
        rest = slash < 0 ? rest : rg_span_head(rest, (size_t)slash + 1);
    }
    /* No name is as long as the room, so what is cut off decides nothing. */
    level->from_len = RG_MIN(rest.len, sizeof(level->from));
    if (level->from_len > 0) {
        memcpy(level->from, rest.ptr, level->from_len);
    }
}

/* The name that was looked at last is behind us: whatever is fetched next begins after it. */
static void start_after_last(struct level *level)
{
    if (level->names && level->next > 0) {
        struct span last = rg_snapshot_name(level->names, level->next - 1).text;
        memcpy(level->from, last.ptr, last.len);
        level->from[last.len] = '\0';
        level->from_len = last.len + 1;
    }
    rg_snapshot_put(level->names);
    level->names = NULL;
}

/* ---- Opening directories ---- */

/* Opens a level again whose descriptor was given up. 1, 0 when the directory is gone, or a negative
 * code. */
static int ensure_open(struct rg_walk *walk, struct level *level, struct rg_error *err)
{
    if (level->fd >= 0) {
        return 1;
    }
    struct span path = without_slash(rg_span(walk->path, level->path_len));
    rg_autoclose int fd =
        rg_posix_open_beneath(walk->bucket->fd, path, O_RDONLY | O_DIRECTORY, level->linked);
    if (fd < 0) {
        return means_absent(-fd) ? 0 : fail_directory(path, -fd, err);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_directory(path, errno, err);
    }
    if (st.st_dev != level->device || st.st_ino != level->inode) {
        start_after_last(level); /* another directory stands there now */
        level->device = st.st_dev;
        level->inode = st.st_ino;
    }
    level->fd = RG_TAKE_FD(fd);
    return 1;
}

/* Is `st` the directory of one of the keys above `path`, the bucket included? */
static int leads_back(struct rg_walk *walk, struct span path, const struct stat *st, bool *ret_back,
                      struct rg_error *err)
{
    *ret_back = false;
    for (size_t len = 0; len < path.len; len++) {
        if (len > 0 && path.ptr[len] != '/') {
            continue;
        }
        struct span above = rg_span_head(path, len);
        rg_autoclose int fd =
            rg_posix_open_beneath(walk->bucket->fd, above, O_PATH | O_DIRECTORY, false);
        struct stat there;
        if (fd < 0 && means_absent(-fd)) {
            continue; /* moved meanwhile */
        }
        if (fd < 0 || fstat(fd, &there) < 0) {
            return fail_directory(above, fd < 0 ? -fd : errno, err);
        }
        if (there.st_dev == st->st_dev && there.st_ino == st->st_ino) {
            *ret_back = true;
            return 0;
        }
    }
    return 0;
}

/* Opens the directory behind the symbolic link `path`, on the way to which there is no other. 1, 0
 * when it leads to none that is walked, or a negative code. */
static int open_link(struct rg_walk *walk, struct span path, int *ret_fd, struct rg_error *err)
{
    rg_autoclose int fd =
        rg_posix_open_beneath(walk->bucket->fd, path, O_RDONLY | O_DIRECTORY, true);
    if (fd < 0) {
        return means_absent(-fd) ? 0 : fail_directory(path, -fd, err);
    }
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return fail_directory(path, errno, err);
    }
    bool back;
    int rc = leads_back(walk, path, &st, &back, err);
    if (rc < 0 || back) {
        return rc;
    }
    *ret_fd = RG_TAKE_FD(fd);
    return 1;
}

/*
 * Opens the directory `name` of the top level (its key is the first key_len bytes of the path). 1,
 * 0 when it is none, or a negative code.
 */
static int open_below(struct rg_walk *walk, size_t key_len, bool unsure, int *ret_fd,
                      bool *ret_linked, struct rg_error *err)
{
    struct level *level = top(walk);
    int rc = ensure_open(walk, level, err);
    if (rc <= 0) {
        return rc;
    }
    struct span path = rg_span(walk->path, key_len - 1);
    walk->path[path.len] = '\0';
    int fd = openat(level->fd, walk->path + level->path_len,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int os_errno = errno;
    walk->path[path.len] = '/';
    if (fd >= 0) {
        *ret_fd = fd;
        *ret_linked = level->linked;
        return 1;
    }
    if (!means_absent(os_errno)) {
        return fail_directory(path, os_errno, err);
    }
    if (os_errno == ENOENT || !unsure || level->linked) {
        return 0;
    }
    *ret_linked = true;
    return open_link(walk, path, ret_fd, err);
}

/* Enters a directory whose key is the first key_len bytes of the path. Takes the descriptor. */
static int push(struct rg_walk *walk, size_t key_len, int *fd, bool linked, struct rg_error *err)
{
    if (walk->depth == walk->room) {
        size_t room = walk->room > 0 ? walk->room * 2 : 4;
        struct level *levels = reallocarray(walk->levels, room, sizeof(*walk->levels));
        if (!levels) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        walk->levels = levels;
        walk->room = room;
    }
    struct stat st;
    struct span path = rg_span(walk->path, key_len);
    if (fstat(*fd, &st) < 0) {
        return fail_directory(path, errno, err);
    }
    struct level *level = &walk->levels[walk->depth++];
    *level = (struct level){
        .fd = RG_TAKE_FD(*fd),
        .device = st.st_dev,
        .inode = st.st_ino,
        .path_len = key_len,
        .linked = linked,
        .inside = key_len > 0 && key_len >= walk->prefix.len &&
                  rg_span_compare(path, rg_buf_span(&walk->from)) >= 0,
    };
    set_start(walk, level);
    if (walk->depth > LEVELS_OPEN) {
        struct level *upper = &walk->levels[walk->depth - 1 - LEVELS_OPEN];
        rg_cleanup_close(&upper->fd);
        upper->fd = -1;
    }
    return 0;
}

/* ---- The base: the directory that the prefix names ---- */

/* Could this be the key of a directory? Such as openat2 would tidy up are not. */
static bool is_plain_path(struct span path)
{
    if (path.len > RG_KEY_BYTES_MAX || rg_span_has_nul(path)) {
        return false;
    }
    struct span rest = rg_span_head(path, path.len - 1);
    for (bool first = true; rest.ptr; first = false) {
        struct span segment = rg_span_cut(&rest, '/');
        if (segment.len == 0 || segment.len >= RG_NAME_TEXT_MAX || rg_span_is(segment, ".") ||
            rg_span_is(segment, "..") || rg_posix_name_hidden(segment, first)) {
            return false;
        }
    }
    return true;
}

/* Opens a path on which a symbolic link stands: that link is followed, no second one. */
static int open_base_by_link(struct rg_walk *walk, struct span path, int *ret_fd,
                             struct rg_error *err)
{
    for (size_t len = 1; len <= path.len; len++) {
        if (len < path.len && path.ptr[len] != '/') {
            continue;
        }
        struct span upto = rg_span_head(path, len);
        rg_autoclose int plain =
            rg_posix_open_beneath(walk->bucket->fd, upto, O_PATH | O_DIRECTORY, false);
        if (plain >= 0) {
            continue;
        }
        if (plain != -ELOOP && plain != -ENOTDIR) {
            return means_absent(-plain) ? 0 : fail_directory(upto, -plain, err);
        }
        rg_autoclose int linked = -1;
        int rc = open_link(walk, upto, &linked, err);
        if (rc <= 0) {
            return rc;
        }
        struct span rest = rg_span_skip(path, len + 1);
        int fd = rg_posix_open_beneath(linked, rest, O_RDONLY | O_DIRECTORY, false);
        if (fd < 0) {
            return means_absent(-fd) ? 0 : fail_directory(path, -fd, err);
        }
        *ret_fd = fd;
        return 1;
    }
    return 0; /* the link went away */
}

static int enter_base(struct rg_walk *walk, struct rg_error *err)
{
    struct span prefix = rg_buf_span(&walk->prefix);
    const char *slash = prefix.len > 0 ? memrchr(prefix.ptr, '/', prefix.len) : NULL;
    struct span base = rg_span_head(prefix, slash ? (size_t)(slash - prefix.ptr) + 1 : 0);
    if (base.len > 0 && !is_plain_path(base)) {
        return 0;
    }
    if (!rg_span_starts(rg_buf_span(&walk->from), prefix)) {
        return 0; /* it lies behind all keys with the prefix */
    }
    if (base.len > 0) {
        memcpy(walk->path, base.ptr, base.len);
    }
    struct span path = without_slash(base);
    bool linked = false;
    rg_autoclose int fd =
        rg_posix_open_beneath(walk->bucket->fd, path, O_RDONLY | O_DIRECTORY, false);
    if (fd == -ELOOP || fd == -ENOTDIR) {
        linked = true;
        int rc = open_base_by_link(walk, path, &fd, err);
        if (rc <= 0) {
            return rc;
        }
    }
    if (fd < 0) {
        return means_absent(-fd) ? 0 : fail_directory(path, -fd, err);
    }
    return push(walk, base.len, &fd, linked, err);
}

int rg_walk_new(struct rg_posix_bucket *bucket, struct rg_snapshots *snapshots,
                const struct rg_walk_query *query, struct rg_walk **ret_walk, struct rg_error *err)
{
    rg_autowalk walk = calloc(1, sizeof(*walk));
    if (!walk) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    walk->bucket = bucket;
    walk->snapshots = snapshots;
    walk->since_ns = rg_clock_ns();
    walk->stop_at_directories = query->stop_at_directories;
    walk->prefix = (struct rg_buf)RG_BUF_INIT(query->prefix.len);
    walk->from = (struct rg_buf)RG_BUF_INIT(SIZE_MAX / 4);
    rg_buf_add_span(&walk->prefix, query->prefix);
    struct span from = query->from;
    rg_buf_add_span(&walk->from, rg_span_compare(from, query->prefix) < 0 ? query->prefix : from);
    if (!rg_buf_ok(&walk->prefix) || !rg_buf_ok(&walk->from)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = enter_base(walk, err);
    if (rc < 0) {
        return rc;
    }
    *ret_walk = RG_TAKE(walk);
    return 0;
}

void rg_walk_free(struct rg_walk *walk)
{
    if (!walk) {
        return;
    }
    while (walk->depth > 0) {
        pop(walk);
    }
    free(walk->levels);
    rg_buf_free(&walk->prefix);
    rg_buf_free(&walk->from);
    free(walk);
}

uint64_t rg_walk_too_long(const struct rg_walk *walk)
{
    return walk->too_long;
}

/* ---- Going on ---- */

/* Fetches the top level's names. 1, 0 when the directory is gone, or a negative code. */
static int fetch_names(struct rg_walk *walk, size_t wanted, struct rg_error *err)
{
    struct level *level = top(walk);
    int rc = ensure_open(walk, level, err);
    if (rc <= 0) {
        return rc;
    }
    struct rg_snapshot_request request = {
        .fd = level->fd,
        .times = times_of(walk, level->device),
        .since_ns = walk->since_ns,
        .from = rg_span(level->from, level->from_len),
        .partial_names = RG_MIN(wanted, PARTIAL_NAMES / walk->depth),
    };
    rc = rg_snapshot_get(walk->snapshots, &request, &level->names, err);
    if (rc < 0) {
        return rg_error_context(err, "listing \"%.*s\"", (int)level->path_len, walk->path);
    }
    level->next = rg_snapshot_seek(level->names, request.from);
    return 1;
}

/* The next name of the top level: 1, 0 when there is none, or a negative code. */
static int next_name(struct rg_walk *walk, size_t wanted, struct rg_snapshot_name *ret_name,
                     struct rg_error *err)
{
    struct level *level = top(walk);
    for (;;) {
        if (!level->names) {
            int rc = fetch_names(walk, wanted, err);
            if (rc <= 0) {
                return rc;
            }
        }
        if (level->next < rg_snapshot_count(level->names)) {
            *ret_name = rg_snapshot_name(level->names, level->next++);
            return 1;
        }
        if (!rg_snapshot_has_more(level->names)) {
            return 0;
        }
        start_after_last(level);
    }
}

/* Looks at the file behind a symbolic link. 1, 0 when there is none to be read, or a negative
 * code. */
static int stat_link(struct rg_walk *walk, struct span key, struct stat *ret_st,
                     struct rg_error *err)
{
    rg_autoclose int fd = rg_posix_open_beneath(walk->bucket->fd, key, O_PATH, true);
    if (fd < 0) {
        return means_absent(-fd) || fd == -EACCES
                   ? 0
                   : rg_fail_storage(err, -fd, "cannot follow the link \"%.*s\"", RG_SPAN_ARG(key));
    }
    if (fstat(fd, ret_st) < 0) {
        return rg_fail_storage(err, errno, "cannot stat \"%.*s\"", RG_SPAN_ARG(key));
    }
    return S_ISREG(ret_st->st_mode);
}

/* 1 and *ret_found, 0 when the file is none (any more), or a negative code. */
static int find_file(struct rg_walk *walk, size_t key_len, struct rg_walk_found *ret_found,
                     struct rg_error *err)
{
    struct level *level = top(walk);
    int rc = ensure_open(walk, level, err);
    if (rc <= 0) {
        return rc;
    }
    walk->path[key_len] = '\0';
    *ret_found = (struct rg_walk_found){
        .kind = RG_WALK_FILE,
        .key = rg_span(walk->path, key_len),
        .directory_fd = level->fd,
        .name = walk->path + level->path_len,
    };
    if (fstatat(level->fd, ret_found->name, &ret_found->st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0
                               : rg_fail_storage(err, errno, "cannot stat \"%.*s\"",
                                                 RG_SPAN_ARG(ret_found->key));
    }
    if (S_ISLNK(ret_found->st.st_mode)) {
        ret_found->is_link = true;
        return stat_link(walk, ret_found->key, &ret_found->st, err);
    }
    return S_ISREG(ret_found->st.st_mode);
}

/* A directory's name: 1 when it is found itself; 0 when it was entered, or is none; or a negative
 * code. */
static int find_directory(struct rg_walk *walk, size_t key_len, bool unsure,
                          struct rg_walk_found *ret_found, struct rg_error *err)
{
    rg_autoclose int fd = -1;
    bool linked = false;
    if (!walk->stop_at_directories || unsure) {
        int rc = open_below(walk, key_len, unsure, &fd, &linked, err);
        if (rc <= 0) {
            return rc;
        }
    }
    if (!walk->stop_at_directories) {
        return push(walk, key_len, &fd, linked, err);
    }
    *ret_found = (struct rg_walk_found){
        .kind = RG_WALK_DIRECTORY, .key = rg_span(walk->path, key_len), .directory_fd = -1};
    return 1;
}

/* The directory at the top of the stack, itself. 1, or a negative code. */
static int find_inside(struct rg_walk *walk, struct rg_walk_found *ret_found, struct rg_error *err)
{
    struct level *level = top(walk);
    level->inside = false;
    *ret_found = (struct rg_walk_found){
        .kind = RG_WALK_INSIDE,
        .key = rg_span(walk->path, level->path_len),
        .directory_fd = level->fd,
        .name = ".",
    };
    if (fstat(level->fd, &ret_found->st) < 0) {
        return fail_directory(ret_found->key, errno, err);
    }
    return 1;
}

/* One step. 1: found; 0: go on; or a negative code. */
static int step(struct rg_walk *walk, size_t wanted, struct rg_walk_found *ret_found,
                struct rg_error *err)
{
    struct level *level = top(walk);
    if (level->inside) {
        return find_inside(walk, ret_found, err);
    }
    struct rg_snapshot_name name;
    int rc = next_name(walk, wanted, &name, err);
    if (rc <= 0) {
        if (rc == 0) {
            pop(walk);
        }
        return rc;
    }
    bool is_top = level->path_len == 0;
    if (is_top && rg_posix_name_hidden(without_slash(name.text), true)) {
        return 0;
    }
    memcpy(walk->path + level->path_len, name.text.ptr, name.text.len);
    struct span key = rg_span(walk->path, level->path_len + name.text.len);
    if (!rg_span_starts(key, rg_buf_span(&walk->prefix))) {
        pop(walk); /* behind the prefix, and so is all that follows */
        return 0;
    }
    if (key.len > RG_KEY_BYTES_MAX) {
        walk->too_long++;
        return 0;
    }
    return key.ptr[key.len - 1] == '/' ? find_directory(walk, key.len, name.unsure, ret_found, err)
                                       : find_file(walk, key.len, ret_found, err);
}

int rg_walk_next(struct rg_walk *walk, size_t wanted, struct rg_walk_found *ret_found,
                 struct rg_error *err)
{
    while (walk->depth > 0) {
        int rc = step(walk, wanted, ret_found, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int rg_walk_seek(struct rg_walk *walk, struct span from, struct rg_error *err)
{
    if (rg_span_compare(from, rg_buf_span(&walk->from)) <= 0) {
        return 0;
    }
    rg_buf_clear(&walk->from);
    rg_buf_add_span(&walk->from, from);
    if (!rg_buf_ok(&walk->from)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    /* Levels that lie before the point as a whole are done with. */
    while (walk->depth > 0) {
        struct span path = rg_span(walk->path, top(walk)->path_len);
        if (rg_span_starts(from, path) || rg_span_compare(path, from) > 0) {
            break;
        }
        pop(walk);
    }
    if (walk->depth == 0 || !rg_span_starts(from, rg_span(walk->path, top(walk)->path_len))) {
        return 0;
    }
    struct level *level = top(walk);
    level->inside = level->inside && from.len == level->path_len;
    if (!level->names) {
        set_start(walk, level);
        return 0;
    }
    set_start(walk, level);
    size_t at = rg_snapshot_seek(level->names, rg_span(level->from, level->from_len));
    if (at == rg_snapshot_count(level->names) && rg_snapshot_has_more(level->names)) {
        rg_snapshot_put(level->names);
        level->names = NULL;
        return 0;
    }
    level->next = RG_MAX(level->next, at);
    return 0;
}
