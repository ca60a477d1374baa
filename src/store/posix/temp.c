/*
 * Files that are not visible yet: where they are made, how they get their name.
 *
 * Where the mount has O_TMPFILE the file is made in (near) the directory it will stand in: nothing
 * is left after a crash, and it inherits what new files there inherit. Elsewhere it gets a hidden
 * name: in .railgate/tmp, or in the destination directory itself when that is on another mount, has
 * another quota project (rename would answer EXDEV), or, on Lustre, another default layout. Such a
 * directory is noted in .railgate/strays first, so that the sweeper finds what a crash leaves
 * there.
 */
#include "store/posix/posix.h"

#include "base/assert.h"
#include "base/encode.h"
#include "s3/checksum.h"
#include "store/posix/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#define LAYOUT_BYTES_MAX 4096
#define NAME_TRIES       8

static void fd_path(int fd, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static uint32_t project_of(int fd)
{
    struct fsxattr attributes;
    return ioctl(fd, FS_IOC_FSGETXATTR, &attributes) == 0 ? attributes.fsx_projid : 0;
}

/* Do new files in both directories get the same Lustre layout? */
static bool same_layout(int a, int b)
{
    char layout[2][LAYOUT_BYTES_MAX];
    ssize_t len[2] = {fgetxattr(a, "lustre.lov", layout[0], LAYOUT_BYTES_MAX),
                      fgetxattr(b, "lustre.lov", layout[1], LAYOUT_BYTES_MAX)};
    if (len[0] <= 0 && len[1] <= 0) {
        return true;
    }
    return len[0] == len[1] && memcmp(layout[0], layout[1], (size_t)len[0]) == 0;
}

bool rg_posix_temp_is_home(struct rg_posix_bucket *bucket, int directory_fd)
{
    struct stat st;
    if (fstat(directory_fd, &st) < 0 || st.st_dev != bucket->mount->device) {
        return false;
    }
    if (project_of(bucket->temp_fd) != project_of(directory_fd)) {
        return false;
    }
    return !bucket->mount->lustre || same_layout(bucket->temp_fd, directory_fd);
}

int rg_posix_stray_note(struct rg_posix_bucket *bucket, struct span path, struct rg_error *err)
{
    struct rg_checksum digest;
    int rc = rg_checksum_of(RG_CHECKSUM_SHA256, path, &digest, err);
    if (rc) {
        return rc;
    }
    char name[65];
    rg_hex_encode(digest.bytes, 32, name);
    rg_autoclose int strays_fd = -1;
    rc = rg_posix_state_open(bucket, "strays", true, &strays_fd, err);
    if (rc) {
        return rc;
    }
    char target[PATH_MAX];
    snprintf(target, sizeof target, "%.*s", path.len ? (int)path.len : 1,
             path.len ? path.ptr : ".");
    if (symlinkat(target, strays_fd, name) == 0) {
        return rg_posix_names_sync(bucket->posix, bucket->mount, strays_fd, -1, err);
    }
    return errno == EEXIST ? 0
                           : rg_fail_storage(err, errno, "noting a directory in .railgate/strays");
}

static int open_named(struct rg_posix_bucket *bucket, int directory_fd, int64_t expected_size,
                      struct rg_posix_temp *temp, struct rg_error *err)
{
    bool striped = rg_posix_stripes_wanted(bucket->posix, temp->mount, expected_size);
    int flags = striped ? rg_posix_stripes_open_flags() : 0;
    rg_posix_temp_name(temp->name);
    int fd = openat(directory_fd, temp->name,
                    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    if (fd < 0) {
        if (errno == ENOENT) {
            rg_posix_bucket_forget(bucket);
            return rg_failf(err, RG_SLOW_DOWN,
                            "A directory was removed while a file was made in it. Try again.");
        }
        return rg_fail_storage(err, errno, "making a temporary file");
    }
    temp->fd = fd;
    /* Tells the sweepers of all gateways that the file has an owner; where there are no such locks
     * they go by its age alone. */
    flock(fd, LOCK_EX | LOCK_NB);
    temp->directory_fd = fcntl(directory_fd, F_DUPFD_CLOEXEC, 0);
    if (temp->directory_fd < 0) {
        int os_errno = errno;
        unlinkat(directory_fd, temp->name, 0);
        return rg_fail_storage(err, os_errno, "making a temporary file");
    }
    return striped ? rg_posix_stripes_set(bucket->posix, fd, err) : 0;
}

int rg_posix_temp_open(struct rg_posix_bucket *bucket, int near_fd, struct span near_path,
                       int64_t expected_size, struct rg_posix_temp *ret_temp, struct rg_error *err)
{
    RG_ASSERT(atomic_load(&bucket->ready));
    rg_autotemp temp = RG_POSIX_TEMP_INIT;
    int rc = rg_posix_mount_at(bucket, near_fd, &temp.mount, err);
    if (rc) {
        return rc;
    }
    if (temp.mount->tmpfile) {
        temp.fd = openat(near_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        /* In a directory that was removed, ext4 answers EPERM. */
        if (temp.fd < 0 && (errno == ENOENT || (errno == EPERM && rg_posix_is_removed(near_fd)))) {
            return rg_failf(err, RG_SLOW_DOWN,
                            "A directory was removed while a file was made in it. Try again.");
        }
        rc = temp.fd < 0 ? rg_fail_storage(err, errno, "making a temporary file") : 0;
    } else if (rg_posix_temp_is_home(bucket, near_fd)) {
        rc = open_named(bucket, bucket->temp_fd, expected_size, &temp, err);
    } else {
        rc = rg_posix_stray_note(bucket, near_path, err);
        rc = rc ? rc : open_named(bucket, near_fd, expected_size, &temp, err);
    }
    if (rc) {
        return rc;
    }
    if (fchmod(temp.fd, (mode_t)bucket->posix->settings->file_mode) < 0) {
        return rg_fail_storage(err, errno, "setting the mode of a new file");
    }
    RG_CRASH_POINT("temp.made");
    *ret_temp = temp;
    temp = (struct rg_posix_temp)RG_POSIX_TEMP_INIT;
    return 0;
}

void rg_posix_temp_discard(struct rg_posix_temp *temp)
{
    if (temp->directory_fd >= 0) {
        if (temp->name[0]) {
            unlinkat(temp->directory_fd, temp->name, 0); /* a failure leaves it to the sweeper */
        }
        close(temp->directory_fd);
    }
    if (temp->fd >= 0) {
        close(temp->fd);
    }
    *temp = (struct rg_posix_temp)RG_POSIX_TEMP_INIT;
}

/* Links an anonymous file into a directory. 0 or the negative errno. */
static int link_anonymous(const struct rg_posix_temp *temp, int directory_fd, const char *name)
{
    char path[32];
    fd_path(temp->fd, path);
    return linkat(AT_FDCWD, path, directory_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Gives an anonymous file a hidden name, from which it can be renamed over another. */
static int name_anonymous(struct rg_posix_bucket *bucket, struct rg_posix_temp *temp,
                          int directory_fd, struct span directory_path)
{
    int into = bucket->temp_fd;
    for (int i = 0; i < NAME_TRIES; i++) {
        rg_posix_temp_name(temp->name);
        int rc = link_anonymous(temp, into, temp->name);
        if (rc == 0) {
            temp->directory_fd = fcntl(into, F_DUPFD_CLOEXEC, 0);
            if (temp->directory_fd < 0) {
                rc = -errno;
                unlinkat(into, temp->name, 0);
                temp->name[0] = '\0';
            }
            return rc;
        }
        temp->name[0] = '\0';
        if (rc == -ENOENT && rg_posix_is_removed(into)) {
            /* Not the object's directory: ours. It is made anew for the next request. */
            rg_posix_bucket_forget(bucket);
            return -ESTALE;
        }
        if (rc == -EXDEV && into == bucket->temp_fd) {
            struct rg_error err = RG_ERROR_INIT;
            if (rg_posix_stray_note(bucket, directory_path, &err)) {
                return err.os_errno ? -err.os_errno : -EIO;
            }
            into = directory_fd;
        } else if (rc != -EEXIST) {
            return rc;
        }
    }
    return -EEXIST;
}

/* The temporary name no longer belongs to us (renamed away), the descriptor stays. */
static void drop_name(struct rg_posix_temp *temp)
{
    close(temp->directory_fd);
    temp->directory_fd = -1;
    temp->name[0] = '\0';
}

static int place_new(struct rg_posix_temp *temp, int directory_fd, const char *name)
{
    if (!temp->name[0]) {
        return link_anonymous(temp, directory_fd, name);
    }
    if (temp->mount->noreplace) {
        if (renameat2(temp->directory_fd, temp->name, directory_fd, name, RENAME_NOREPLACE) < 0) {
            return -errno;
        }
        drop_name(temp);
        return 0;
    }
    if (linkat(temp->directory_fd, temp->name, directory_fd, name, 0) < 0) {
        return -errno;
    }
    RG_CRASH_POINT("place.linked");
    unlinkat(temp->directory_fd, temp->name, 0); /* left to the sweeper when this fails */
    drop_name(temp);
    return 0;
}

int rg_posix_temp_place(struct rg_posix_bucket *bucket, struct rg_posix_temp *temp,
                        int directory_fd, struct span directory_path, const char *name,
                        bool replace)
{
    if (!replace) {
        int rc = place_new(temp, directory_fd, name);
        temp->placed = rc == 0;
        return rc;
    }
    if (!temp->name[0]) {
        int rc = name_anonymous(bucket, temp, directory_fd, directory_path);
        if (rc) {
            return rc;
        }
    }
    RG_CRASH_POINT("place.named");
    if (renameat(temp->directory_fd, temp->name, directory_fd, name) < 0) {
        return -errno;
    }
    drop_name(temp);
    temp->placed = true;
    return 0;
}
