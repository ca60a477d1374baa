/*
 * Which other file systems are mounted below the root, and whether each answers: for the health
 * page. The table of mounts is the kernel's own, but it asks file systems for some of it (btrfs for
 * the name of a subvolume), and may hang with one, as what is asked of a mount may.
 * What a mount can do is found out by probe.c.
 */
#include "store/posix/posix.h"

#include "base/checked.h"
#include "base/clock.h"
#include "s3/names.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define MOUNTINFO        "/proc/self/mountinfo"
#define MAGIC_EXT4       0xef53u
#define CHANGE_EVERY_NS  10000000000u
#define OPTIONS_EVERY_NS 10000000000u
#define NO_XATTR         "railgate.none" /* of no kind that a local file system keeps */
#define MOUNTINFO_LINES  (1u << 20) /* ten times what Linux lets there be unless it is told to */

/* ---- The table ---- */

bool rg_posix_list_has(struct span list, const char *word)
{
    while (list.ptr) {
        if (rg_span_is(rg_span_cut(&list, ','), word)) {
            return true;
        }
    }
    return false;
}

bool rg_posix_mount_line_read(struct span line, struct rg_posix_mount_line *ret_line)
{
    struct rg_posix_mount_line found = {.id = 0};
    struct span rest = line;
    bool right = rg_span_to_u64(rg_span_cut(&rest, ' '), &found.id);
    rg_span_cut(&rest, ' '); /* the parent's */
    found.device = rg_span_cut(&rest, ' ');
    rg_span_cut(&rest, ' '); /* which part of the file system is mounted */
    found.point = rg_span_cut(&rest, ' ');
    found.here = rg_span_cut(&rest, ' ');
    while (rest.ptr && !rg_span_is(rg_span_cut(&rest, ' '), "-")) {
    }
    if (!right || !rest.ptr) {
        return false;
    }
    found.type = rg_span_cut(&rest, ' ');
    rg_span_cut(&rest, ' '); /* the source */
    found.options = rest;
    *ret_line = found;
    return true;
}

int rg_posix_mount_lines(void (*visit)(const struct rg_posix_mount_line *line, void *context),
                         void *context)
{
    rg_autofclose FILE *file = fopen(MOUNTINFO, "re");
    rg_autofree char *text = NULL;
    size_t room = 0;
    ssize_t len;
    if (!file) {
        return -errno;
    }
    for (unsigned i = 0; (len = getline(&text, &room, file)) > 0; i++) {
        if (i == MOUNTINFO_LINES) {
            return -E2BIG;
        }
        struct rg_posix_mount_line line;
        struct span whole = rg_span(text, (size_t)len - (text[len - 1] == '\n'));
        if (rg_posix_mount_line_read(whole, &line)) {
            visit(&line, context);
        }
    }
    return ferror(file) ? -EIO : 0;
}

static bool is_octal(const char *digits)
{
    return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
           digits[2] >= '0' && digits[2] <= '7';
}

/* A path of the table, in which white space and backslashes stand as \ooo; NULL when out of
 * memory. */
static char *decode(struct span point)
{
    char *path = malloc(point.len + 1);
    size_t len = 0;
    for (size_t i = 0; path && i < point.len; i++) {
        const char *at = point.ptr + i;
        if (*at == '\\' && point.len - i > 3 && is_octal(at + 1)) {
            path[len++] = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            i += 3;
        } else {
            path[len++] = *at;
        }
    }
    if (path) {
        path[len] = '\0';
    }
    return path;
}

/* ---- Mounts below the root ---- */

struct found {
    struct rg_store_mount *mounts; /* RG_STORE_MOUNTS_MAX at most */
    size_t count;
};

struct search {
    const char *root;
    struct found mounts, triggers;
    size_t left_out;
    bool starved;
};

/* What stands below the root in a bucket, or is one; NULL for all else. */
static const char *below_root(const char *root, const char *path)
{
    size_t len = strlen(root);
    len -= len && root[len - 1] == '/'; /* the root of all */
    if (strncmp(path, root, len) != 0 || path[len] != '/') {
        return NULL;
    }
    const char *below = path + len + 1;
    struct span bucket = rg_span(below, strcspn(below, "/"));
    return rg_bucket_name_check(bucket, NULL) == 0 ? below : NULL;
}

static void find_below(const struct rg_posix_mount_line *line, void *context)
{
    struct search *search = context;
    if (search->starved) {
        return;
    }
    rg_autofree char *path = decode(line->point);
    const char *below = path ? below_root(search->root, path) : NULL;
    if (!below) {
        search->starved = !path;
        return;
    }
    /* What autofs stands for is mounted over it, or not wanted now. */
    struct found *found = rg_span_is(line->type, "autofs") ? &search->triggers : &search->mounts;
    for (size_t i = 0; i < found->count; i++) {
        if (strcmp(found->mounts[i].path, below) == 0) {
            found->mounts[i].id = line->id; /* mounted over the other */
            return;
        }
    }
    if (found->count == RG_STORE_MOUNTS_MAX) {
        search->left_out++;
        return;
    }
    char *copy = strdup(below);
    if (!copy) {
        search->starved = true;
        return;
    }
    found->mounts[found->count++] = (struct rg_store_mount){.path = copy, .id = line->id};
}

static void free_found(struct found *found)
{
    rg_store_mounts_free(found->mounts, found->count);
    *found = (struct found){.mounts = NULL};
}

static void free_search(struct search *search)
{
    free_found(&search->mounts);
    free_found(&search->triggers);
}

static int find_all_below(struct search *search, struct rg_error *err)
{
    search->mounts.mounts = calloc(RG_STORE_MOUNTS_MAX, sizeof *search->mounts.mounts);
    search->triggers.mounts = calloc(RG_STORE_MOUNTS_MAX, sizeof *search->triggers.mounts);
    if (!search->mounts.mounts || !search->triggers.mounts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = rg_posix_mount_lines(find_below, search);
    if (rc == -E2BIG) {
        return rg_failf(err, RG_LIMIT, MOUNTINFO " has more than %u lines", MOUNTINFO_LINES);
    }
    if (rc) {
        return rg_fail_storage(err, -rc, "reading " MOUNTINFO);
    }
    return search->starved ? rg_fail(err, RG_OUT_OF_MEMORY) : 0;
}

int rg_posix_mounts(struct rg_store *store, struct rg_store_mount **ret_mounts, size_t *ret_count,
                    size_t *ret_left_out, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    RG_CLEANUP(free_search) struct search search = {.root = posix->real_path};
    int rc = find_all_below(&search, err);
    if (rc) {
        return rc;
    }
    rg_posix_looks_learn(posix->looks, &(struct rg_posix_mount_table){
                                           .mounts = search.mounts.mounts,
                                           .count = search.mounts.count,
                                           .triggers = search.triggers.mounts,
                                           .trigger_count = search.triggers.count,
                                           .left_out = search.left_out,
                                       });
    *ret_mounts = RG_TAKE(search.mounts.mounts);
    *ret_count = search.mounts.count;
    *ret_left_out = search.left_out;
    search.mounts.count = 0;
    return 0;
}

int rg_posix_mounts_watch(void)
{
    return open(MOUNTINFO, O_RDONLY | O_CLOEXEC);
}

bool rg_posix_mounts_changed(struct rg_store *store)
{
    const struct rg_posix *posix = rg_posix_of(store);
    struct pollfd watched = {.fd = posix->mounts_fd, .events = POLLPRI};
    return posix->mounts_fd >= 0 && poll(&watched, 1, 0) == 1 && (watched.revents & POLLPRI);
}

/* ---- Does it answer? ---- */

/*
 * Linux 6.1's ext4, once its journal is aborted, still opens files for writing and refuses only the
 * changes. Taking away an attribute that is not there begins one and changes nothing; as an idle
 * journal commits all the same, it is done now and then, and what it said holds until the next
 * time.
 */
static int try_change(struct rg_store_memory *memory, int fd)
{
    uint64_t now_ns = rg_clock_ns();
    if (memory->changed_ns == 0 || now_ns - memory->changed_ns >= CHANGE_EVERY_NS) {
        bool refused = fremovexattr(fd, RG_POSIX_XATTR ".none") < 0 && errno != ENODATA;
        memory->change_errno = refused && (errno == EROFS || errno == EIO) ? errno : 0;
        memory->changed_ns = now_ns;
    }
    return -memory->change_errno;
}

/*
 * Of a local file system: whether changes are let through to it, which the kernel decides before it
 * finds that it keeps no such attribute. It waits there while the file system is frozen, and
 * nothing reaches the disk.
 */
static int try_way(int fd)
{
    return fremovexattr(fd, NO_XATTR) < 0 && errno == EROFS ? -EROFS : 0;
}

/* Not there, no file, not ours: nothing was learned about the file system. */
static bool is_idle(int os_errno)
{
    static const int idle[] = {ENOENT, ENOTDIR, ELOOP,  EISDIR, EACCES, EPERM,
                               ENXIO,  EMFILE,  ENFILE, ENOMEM, EINTR};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(idle); i++) {
        if (os_errno == idle[i]) {
            return true;
        }
    }
    return false;
}

static int try_writing(struct rg_store_memory *memory, int fd, bool is_opened_for_it)
{
    struct statfs fs;
    if (memory->magic == 0 && fstatfs(fd, &fs) == 0) {
        memory->magic = (uint64_t)fs.f_type & 0xffffffffu;
    }
    if (!rg_posix_is_local(memory->magic)) {
        return is_opened_for_it ? 0 : try_change(memory, fd);
    }
    int rc = try_way(fd);
    return rc == 0 && memory->magic == MAGIC_EXT4 ? try_change(memory, fd) : rc;
}

/*
 * Asks the file system itself, not what is remembered of it, and whether it takes changes: one that
 * gave up after an error answers all else as before. That is asked of a file that is there to be
 * opened for writing, or else of the directory (or file) `path` itself. Returns 0 or the negative
 * errno; *ret_st is set unless looking itself failed.
 */
static int look(struct rg_posix *posix, const char *path, const char *written,
                struct rg_store_memory *memory, struct statx *ret_st)
{
    if (statx(posix->root, path, AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
              STATX_TYPE | STATX_INO | STATX_MNT_ID, ret_st) < 0) {
        return -errno;
    }
    uint64_t device = makedev(ret_st->stx_dev_major, ret_st->stx_dev_minor);
    if (memory->mount != ret_st->stx_mnt_id || memory->device != device) {
        *memory = (struct rg_store_memory){.mount = ret_st->stx_mnt_id, .device = device};
    }
    rg_autoclose int fd =
        openat(posix->root, written, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        return try_writing(memory, fd, true);
    }
    if (!is_idle(errno)) {
        return -errno;
    }
    if (!S_ISDIR(ret_st->stx_mode) && !S_ISREG(ret_st->stx_mode)) {
        return 0;
    }
    fd = openat(posix->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        return try_writing(memory, fd, false);
    }
    return is_idle(errno) ? 0 : -errno;
}

int rg_posix_probe(struct rg_store *store, struct rg_store_memory *memory, struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    struct statx stx;
    int rc =
        look(posix, RG_POSIX_STATE_DIR, RG_POSIX_STATE_DIR "/" RG_POSIX_HEALTH_FILE, memory, &stx);
    if (rc == -EROFS) {
        return rg_failf(err, RG_READ_ONLY, "%s: the file system has become read-only",
                        posix->root_path);
    }
    if (rc) {
        return rg_fail_storage(err, -rc, "looking at %s/" RG_POSIX_STATE_DIR, posix->root_path);
    }
    /* Unmounted and mounted again, or moved away: what is served is not what stands there. */
    struct stat st;
    struct stat held;
    if (stat(posix->root_path, &st) == 0 && fstat(posix->root, &held) == 0 &&
        (st.st_dev != held.st_dev || st.st_ino != held.st_ino)) {
        return rg_failf(err, RG_SERVICE_UNAVAILABLE,
                        "%s is not the directory any more that was opened at the start. Start the "
                        "gateway again.",
                        posix->root_path);
    }
    return 0;
}

struct options_search {
    uint64_t mount;
    bool read_only;
};

static void find_options(const struct rg_posix_mount_line *line, void *context)
{
    struct options_search *search = context;
    if (line->id == search->mount) {
        search->read_only =
            rg_posix_list_has(line->here, "ro") && !rg_posix_list_has(line->options, "ro");
    }
}

/* Was this mount made read-only, while others of its file system may be written to? */
static bool is_read_only_here(struct rg_store_memory *memory)
{
    uint64_t now_ns = rg_clock_ns();
    if (memory->options_ns == 0 || now_ns - memory->options_ns >= OPTIONS_EVERY_NS) {
        struct options_search search = {.mount = memory->mount};
        rg_posix_mount_lines(find_options, &search);
        memory->read_only = search.read_only;
        memory->options_ns = now_ns;
    }
    return memory->read_only;
}

int rg_posix_probe_mount(struct rg_store *store, const char *path, struct rg_store_memory *memory,
                         struct rg_error *err)
{
    struct rg_posix *posix = rg_posix_of(store);
    char written[PATH_MAX];
    struct statx stx;
    int len = snprintf(written, sizeof written, "%s/" RG_POSIX_STATE_DIR "/locks", path);
    if (len < 0 || (size_t)len >= sizeof written) {
        return 0; /* no key is that long */
    }
    int rc = look(posix, path, written, memory, &stx);
    if (rc == 0 || rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES) {
        return 0; /* gone, or not for us */
    }
    if (rc == -EROFS) {
        /* It was meant to be so where nothing was ever written, or where it is so by itself. */
        return !rg_posix_mount_known(posix, (dev_t)memory->device) || is_read_only_here(memory)
                   ? 0
                   : rg_failf(err, RG_READ_ONLY, "%s/%s: the file system has become read-only",
                              posix->root_path, path);
    }
    return rg_fail_storage(err, -rc, "looking at %s/%s", posix->root_path, path);
}
