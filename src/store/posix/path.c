/*
 * Names: which are hidden, how keys become paths, opening beneath a bucket, making directories and
 * making names durable. Nothing here looks at records or takes locks.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/encode.h"
#include "base/random.h"
#include "s3/names.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <sys/syscall.h>

/* openat2 answers EAGAIN when a rename elsewhere made it lose its way. */
#define OPEN_TRIES 64

bool rg_posix_name_hidden(struct span name, bool top)
{
    if (rg_span_starts(name, RG_SPAN_LITERAL(RG_RESERVED_PREFIX))) {
        return true;
    }
    return top && (rg_span_is(name, RG_POSIX_STATE_DIR) || rg_span_is(name, ".sgwtmp") ||
                   rg_span_is(name, ".lustre"));
}

static int open_beneath(int directory_fd, struct span path, int flags, uint64_t resolve)
{
    char text[PATH_MAX];
    if (path.len >= sizeof text) {
        return -ENAMETOOLONG;
    }
    if (path.len == 0) {
        path = RG_SPAN_LITERAL(".");
    }
    memcpy(text, path.ptr, path.len);
    text[path.len] = '\0';

    struct open_how how = {
        .flags =
            (uint64_t)(unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK)),
        .resolve = resolve,
    };
    for (int i = 0; i < OPEN_TRIES; i++) {
        long fd = syscall(SYS_openat2, directory_fd, text, &how, sizeof how);
        if (fd >= 0) {
            return (int)fd;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
    }
    return -EAGAIN;
}

int rg_posix_open_beneath(int bucket_fd, struct span path, int flags, bool follow)
{
    uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    return open_beneath(bucket_fd, path, flags, resolve | (follow ? 0 : RESOLVE_NO_SYMLINKS));
}

bool rg_posix_is_removed(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return errno == ESTALE || errno == ENOENT;
    }
    return st.st_nlink == 0;
}

DIR *rg_posix_directory_take(int own_fd)
{
    DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
    if (!dir && own_fd >= 0) {
        int os_errno = errno;
        close(own_fd);
        errno = os_errno;
    }
    return dir;
}

int rg_posix_key_split(struct span key, struct rg_posix_key *ret_split, struct rg_error *err)
{
    int rc = rg_key_storable(key, err);
    if (rc) {
        return rc;
    }
    struct rg_posix_key split = {.key = key, .parent = RG_SPAN_EMPTY};
    struct span rest = key;
    if (rg_span_ends(rest, RG_SPAN_LITERAL("/"))) {
        split.is_directory = true;
        rest.len--;
    }
    struct span name = rest;
    const char *slash = memrchr(rest.ptr, '/', rest.len);
    if (slash) {
        split.parent = rg_span(rest.ptr, (size_t)(slash - rest.ptr));
        name = rg_span_skip(rest, split.parent.len + 1);
    }
    struct span first = key;
    first = rg_span_cut(&first, '/');
    if (name.len == 0 || name.len >= sizeof split.name || rg_posix_name_hidden(first, true)) {
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "The key lies below a name that this store keeps to itself.");
    }
    memcpy(split.name, name.ptr, name.len);
    *ret_split = split;
    return 0;
}

/* Sentence for a key whose way down meets something that is no directory. */
static int fail_blocked(int bucket_fd, struct span key, struct rg_error *err)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] != '/') {
            continue;
        }
        struct span above = rg_span_head(key, i);
        rg_autoclose int fd = rg_posix_open_beneath(bucket_fd, above, O_PATH | O_NOFOLLOW, false);
        struct stat st;
        if (fd == -ELOOP || (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode))) {
            return rg_failf(err, RG_NAME_CONFLICT,
                            "\"%.*s\" cannot be changed: \"%.*s\" is a symbolic link, and nothing "
                            "is written through one.",
                            RG_SPAN_ARG(key), RG_SPAN_ARG(above));
        }
        if (fd >= 0 && !S_ISDIR(st.st_mode)) {
            return rg_failf(err, RG_NAME_CONFLICT,
                            "\"%.*s\" cannot be stored while the object \"%.*s\" exists: a file "
                            "system cannot hold a file and a directory of one name.",
                            RG_SPAN_ARG(key), RG_SPAN_ARG(above));
        }
    }
    return rg_fail(err, RG_NAME_CONFLICT);
}

static int fail_way(struct rg_posix_bucket *bucket, struct span key, int os_errno,
                    struct rg_error *err)
{
    switch (os_errno) {
    case ENOTDIR:
    case ELOOP:
        return fail_blocked(bucket->fd, key, err);
    case ENAMETOOLONG:
        return rg_failf(err, RG_INVALID_OBJECT_NAME,
                        "The file system cannot hold a name as long as one in this key.");
    case EXDEV:
        return rg_failf(err, RG_ACCESS_DENIED, "The key leads out of the bucket.");
    default:
        return rg_fail_storage(err, os_errno, "opening a directory of the key");
    }
}

int rg_posix_mkdir(struct rg_posix *posix, int directory_fd, const char *name)
{
    mode_t mode = (mode_t)posix->settings->directory_mode;
    if (mkdirat(directory_fd, name, mode) < 0) {
        return -errno;
    }
    /* The umask may have taken bits away; a set-group-id bit inherited from above stays. */
    struct stat st;
    if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    if ((st.st_mode & 0777) != mode &&
        fchmodat(directory_fd, name, mode | (st.st_mode & 07000), 0) < 0 && errno != ENOENT) {
        return -errno;
    }
    return 0;
}

/*
 * One step down, making the directory if it is missing. 0, or the negative errno: -ENOENT when
 * `directory_fd` itself was removed, -EIO with err set when the new name could not be made durable.
 */
static int step_down(struct rg_posix_bucket *bucket, const struct rg_posix_mount *mount,
                     int directory_fd, struct span name, struct rg_error *err, int *ret_fd)
{
    char text[NAME_MAX + 1];
    if (name.len >= sizeof text) {
        return -ENAMETOOLONG;
    }
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';

    int fd = rg_posix_open_beneath(directory_fd, name, O_RDONLY | O_DIRECTORY, false);
    if (fd == -ENOENT) {
        int rc = rg_posix_mkdir(bucket->posix, directory_fd, text);
        if (rc < 0 && rc != -EEXIST) {
            return rc;
        }
        RG_CRASH_POINT("parent.made");
        if (rc == 0 && rg_posix_names_sync(bucket->posix, mount, directory_fd, -1, err)) {
            return -EIO;
        }
        fd = rg_posix_open_beneath(directory_fd, name, O_RDONLY | O_DIRECTORY, false);
    }
    if (fd < 0) {
        return fd;
    }
    *ret_fd = fd;
    return 0;
}

/* Makes the whole way down; returns as step_down does. */
static int make_way(struct rg_posix_bucket *bucket, struct span path, int *ret_fd,
                    struct rg_error *err)
{
    rg_autoclose int fd =
        rg_posix_open_beneath(bucket->fd, RG_SPAN_EMPTY, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0) {
        return fd;
    }
    struct span rest = path;
    while (rest.ptr) {
        struct span name = rg_span_cut(&rest, '/');
        /* The step that makes a new name durable differs between mounts only where one is entered;
         * an unprobed mount is treated like the bucket's. */
        struct stat st;
        struct rg_posix_mount *mount = bucket->mount;
        if (fstat(fd, &st) == 0 && st.st_dev != mount->device) {
            struct rg_posix_mount *known = rg_posix_mount_known(bucket->posix, st.st_dev);
            mount = known ? known : mount;
        }
        int below = -1;
        int rc = step_down(bucket, mount, fd, name, err, &below);
        if (rc) {
            return rc;
        }
        close(fd);
        fd = below;
    }
    *ret_fd = RG_TAKE_FD(fd);
    return 0;
}

int rg_posix_parent_open(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                         bool create, int *ret_fd, struct rg_error *err)
{
    int fd = rg_posix_open_beneath(bucket->fd, split->parent, O_RDONLY | O_DIRECTORY, false);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    if (!create) {
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ENAMETOOLONG) {
            return rg_fail(err, RG_NO_SUCH_KEY);
        }
        return fail_way(bucket, split->key, -fd, err);
    }
    /* A concurrent delete may take a directory away that was just made: try again, not for ever. */
    struct rg_error inner = RG_ERROR_INIT;
    for (int i = 0; fd == -ENOENT && i < OPEN_TRIES; i++) {
        if (rg_posix_bucket_is_gone(bucket)) {
            return rg_fail(err, RG_NO_SUCH_BUCKET);
        }
        fd = make_way(bucket, split->parent, ret_fd, &inner);
        if (fd == 0) {
            return 0;
        }
    }
    if (inner.code != RG_OK) {
        if (err) {
            *err = inner;
        }
        return -(int)inner.code;
    }
    if (fd == -ENOENT) {
        return rg_failf(err, RG_OPERATION_ABORTED,
                        "Directories of the key are removed as fast as they are made.");
    }
    return fail_way(bucket, split->key, -fd, err);
}

int rg_posix_nearest_open(struct rg_posix_bucket *bucket, const struct rg_posix_key *split,
                          struct span *ret_path, int *ret_fd, struct rg_error *err)
{
    struct span path = split->parent;
    for (;;) {
        int fd = rg_posix_open_beneath(bucket->fd, path, O_RDONLY | O_DIRECTORY, false);
        if (fd >= 0) {
            *ret_path = path;
            *ret_fd = fd;
            return 0;
        }
        if (fd != -ENOENT || path.len == 0) {
            return fail_way(bucket, split->key, -fd, err);
        }
        const char *slash = memrchr(path.ptr, '/', path.len);
        path.len = slash ? (size_t)(slash - path.ptr) : 0;
    }
}

void rg_posix_temp_name(char name[RG_POSIX_TEMP_NAME])
{
    uint8_t random[16];
    rg_random_bytes(random, sizeof random);
    memcpy(name, RG_POSIX_TEMP_PREFIX, sizeof RG_POSIX_TEMP_PREFIX - 1);
    rg_hex_encode(random, sizeof random, name + sizeof RG_POSIX_TEMP_PREFIX - 1);
}

/*
 * On a local file system a journal that cannot be written any more refuses every new change of
 * metadata; taking an attribute away that is not there asks for one, and changes nothing. Other
 * answers than these mean that the journal is gone.
 */
static bool takes_changes(int fd)
{
    return fremovexattr(fd, "user.railgate.absent") == 0 || errno == ENODATA ||
           errno == EOPNOTSUPP || errno == EPERM || errno == EACCES || errno == ENOSPC ||
           errno == EDQUOT;
}

/*
 * fsync, and a look whether it told the truth: when the writing of a journal failed in another
 * thread's fsync, that thread alone is told so. The changes that went down with it count as done,
 * and fsync of what they changed answers 0: for directories on XFS (shut down, it refuses fstat),
 * for directories and for files without new bytes on ext4 (it refuses changes). Measured on
 * Linux 6.1 and 6.18; tests/powercut keeps the proof. Returns 0 or the negative errno.
 */
static int sync_for_certain(const struct rg_posix_mount *mount, int fd)
{
    struct stat st;
    if (fsync(fd) < 0 || fstat(fd, &st) < 0 || (mount->local && !takes_changes(fd))) {
        return -errno;
    }
    return 0;
}

int rg_posix_data_sync(struct rg_posix *posix, const struct rg_posix_mount *mount, int fd,
                       struct rg_error *err)
{
    if (posix->settings->durability == RG_DURABILITY_NONE) {
        return 0;
    }
    int rc = sync_for_certain(mount, fd);
    return rc ? rg_fail_storage(err, -rc, "making the data durable (fsync)") : 0;
}

/*
 * Lustre, and whatever else ignores fsync of a directory: creating a file and syncing it commits
 * the journal of the metadata server that the directory lives on, and with it every earlier change
 * of names there. What a crash leaves here goes with the directory (delete.c), or is swept.
 */
static int sync_by_new_file(const struct rg_posix_mount *mount, int directory_fd,
                            struct rg_error *err)
{
    char name[RG_POSIX_TEMP_NAME];
    rg_posix_temp_name(name);
    rg_autoclose int fd =
        openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        if (errno == ENOENT) {
            return 0; /* the directory is gone, and with it every name in it */
        }
        return rg_fail_storage(err, errno, "making names durable (creating a file)");
    }
    RG_CRASH_POINT("names.file-made");
    int rc = sync_for_certain(mount, fd);
    if (unlinkat(directory_fd, name, 0) < 0 && errno != ENOENT && rc == 0) {
        rc = -errno;
    }
    return rc ? rg_fail_storage(err, -rc, "making names durable (fsync of a new file)") : 0;
}

/* Rename or link, then a metadata change on the descriptor, then fsync of the file: see above. */
static int sync_by_file(const struct rg_posix_mount *mount, int file_fd, struct rg_error *err)
{
    struct stat st;
    int rc = 0;
    if (fstat(file_fd, &st) < 0 || fchmod(file_fd, st.st_mode & 07777) < 0) {
        rc = -errno;
    }
    rc = rc ? rc : sync_for_certain(mount, file_fd);
    return rc ? rg_fail_storage(err, -rc, "making the name durable (fchmod and fsync)") : 0;
}

int rg_posix_names_sync(struct rg_posix *posix, const struct rg_posix_mount *mount,
                        int directory_fd, int file_fd, struct rg_error *err)
{
    if (posix->settings->durability != RG_DURABILITY_FULL) {
        return 0;
    }
    if (!mount->dir_fsync) {
        return file_fd >= 0 ? sync_by_file(mount, file_fd, err)
                            : sync_by_new_file(mount, directory_fd, err);
    }
    int rc = sync_for_certain(mount, directory_fd);
    return rc ? rg_fail_storage(err, -rc, "making the name durable (fsync of the directory)") : 0;
}
