/*
 * A FUSE file system that shows a directory, and on command hangs or fails in the operations named.
 *
 *   troubled CONTROL BELOW POINT       (in the foreground)
 *
 * CONTROL is a file that the test maps, too (tests/clients/trouble.py has the layout). It is for
 * tests only: nothing is cached, and who may do what is not looked at.
 */
#define FUSE_USE_VERSION 312

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

struct control {
    _Atomic uint64_t operations; /* in trouble: bits, in the order of enum operation */
    _Atomic int32_t error;       /* what they fail with; 0: they hang until it is over */
    _Atomic uint32_t waiting;    /* now */
    _Atomic uint64_t met;        /* operations that came while they were in trouble */
};

/* trouble.py knows the order. */
enum operation {
    GETATTR,
    OPEN,
    CREATE,
    READ,
    WRITE,
    TRUNCATE,
    FSYNC,
    FSYNCDIR,
    MKDIR,
    UNLINK,
    RMDIR,
    LINK,
    RENAME,
    SETXATTR,
    GETXATTR,
    REMOVEXATTR,
    OPENDIR,
    READDIR,
    STATFS,
    CHMOD,
    UTIMENS,
    FALLOCATE,
};

static struct control *control;
static int below = -1;

static int meet(enum operation operation)
{
    uint64_t bit = UINT64_C(1) << operation;
    if ((atomic_load(&control->operations) & bit) == 0) {
        return 0;
    }
    atomic_fetch_or(&control->met, bit);
    int error = atomic_load(&control->error);
    if (error) {
        return -error;
    }
    atomic_fetch_add(&control->waiting, 1);
    while (atomic_load(&control->operations) & bit) {
        usleep(2000);
    }
    atomic_fetch_sub(&control->waiting, 1);
    return 0;
}

#define MEET(operation)                                                                            \
    do {                                                                                           \
        int met = meet(operation);                                                                 \
        if (met) {                                                                                 \
            return met;                                                                            \
        }                                                                                          \
    } while (0)

static const char *inside(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int answer(int rc)
{
    return rc < 0 ? -errno : 0;
}

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *file)
{
    MEET(GETATTR);
    return answer(file ? fstat((int)file->fh, st)
                       : fstatat(below, inside(path), st, AT_SYMLINK_NOFOLLOW));
}

static int do_open(const char *path, struct fuse_file_info *file)
{
    MEET(OPEN);
    int fd = openat(below, inside(path), file->flags & ~O_DIRECT);
    file->fh = (uint64_t)fd;
    return answer(fd);
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
    MEET(CREATE);
    int fd = openat(below, inside(path), (file->flags & ~O_DIRECT) | O_CREAT, mode);
    file->fh = (uint64_t)fd;
    return answer(fd);
}

static int do_release(const char *path, struct fuse_file_info *file)
{
    (void)path;
    close((int)file->fh);
    return 0;
}

static int do_read(const char *path, char *bytes, size_t size, off_t offset,
                   struct fuse_file_info *file)
{
    (void)path;
    MEET(READ);
    ssize_t got = pread((int)file->fh, bytes, size, offset);
    return got < 0 ? -errno : (int)got;
}

static int do_write(const char *path, const char *bytes, size_t size, off_t offset,
                    struct fuse_file_info *file)
{
    (void)path;
    MEET(WRITE);
    ssize_t put = pwrite((int)file->fh, bytes, size, offset);
    return put < 0 ? -errno : (int)put;
}

static int do_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
    MEET(TRUNCATE);
    if (file) {
        return answer(ftruncate((int)file->fh, size));
    }
    int fd = openat(below, inside(path), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rc = answer(ftruncate(fd, size));
    close(fd);
    return rc;
}

static int do_fallocate(const char *path, int mode, off_t offset, off_t size,
                        struct fuse_file_info *file)
{
    (void)path;
    MEET(FALLOCATE);
    return answer(fallocate((int)file->fh, mode, offset, size));
}

static int do_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
    (void)path;
    (void)data_only;
    MEET(FSYNC);
    return answer(fsync((int)file->fh));
}

static int do_fsyncdir(const char *path, int data_only, struct fuse_file_info *file)
{
    (void)path;
    (void)data_only;
    (void)file;
    MEET(FSYNCDIR);
    return 0;
}

static int do_mkdir(const char *path, mode_t mode)
{
    MEET(MKDIR);
    return answer(mkdirat(below, inside(path), mode));
}

static int do_unlink(const char *path)
{
    MEET(UNLINK);
    return answer(unlinkat(below, inside(path), 0));
}

static int do_rmdir(const char *path)
{
    MEET(RMDIR);
    return answer(unlinkat(below, inside(path), AT_REMOVEDIR));
}

static int do_link(const char *from, const char *to)
{
    MEET(LINK);
    return answer(linkat(below, inside(from), below, inside(to), 0));
}

static int do_rename(const char *from, const char *to, unsigned flags)
{
    MEET(RENAME);
    return answer(renameat2(below, inside(from), below, inside(to), flags));
}

/* The attributes of a name, through a descriptor: there are no calls on names below a descriptor.
 */
static int open_named(const char *path)
{
    return openat(below, inside(path), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static int do_setxattr(const char *path, const char *name, const char *value, size_t size,
                       int flags)
{
    MEET(SETXATTR);
    int fd = open_named(path);
    int rc = fd < 0 ? -errno : answer(fsetxattr(fd, name, value, size, flags));
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int do_getxattr(const char *path, const char *name, char *value, size_t size)
{
    MEET(GETXATTR);
    int fd = open_named(path);
    ssize_t got = fd < 0 ? -1 : fgetxattr(fd, name, value, size);
    int rc = got < 0 ? -errno : (int)got;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int do_listxattr(const char *path, char *names, size_t size)
{
    MEET(GETXATTR);
    int fd = open_named(path);
    ssize_t got = fd < 0 ? -1 : flistxattr(fd, names, size);
    int rc = got < 0 ? -errno : (int)got;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int do_removexattr(const char *path, const char *name)
{
    MEET(REMOVEXATTR);
    int fd = open_named(path);
    int rc = fd < 0 ? -errno : answer(fremovexattr(fd, name));
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int do_opendir(const char *path, struct fuse_file_info *file)
{
    MEET(OPENDIR);
    int fd = openat(below, inside(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file->fh = (uint64_t)fd;
    return answer(fd);
}

static int do_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)path;
    (void)offset;
    (void)flags;
    MEET(READDIR);
    int fd = openat((int)file->fh, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        return -errno;
    }
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        struct stat st = {.st_ino = entry->d_ino, .st_mode = (mode_t)(entry->d_type << 12)};
        fill(buffer, entry->d_name, &st, 0, 0);
    }
    closedir(dir);
    return 0;
}

static int do_statfs(const char *path, struct statvfs *st)
{
    (void)path;
    MEET(STATFS);
    return answer(fstatvfs(below, st));
}

static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *file)
{
    MEET(CHMOD);
    return answer(file ? fchmod((int)file->fh, mode) : fchmodat(below, inside(path), mode, 0));
}

static int do_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *file)
{
    MEET(UTIMENS);
    return answer(file ? futimens((int)file->fh, times)
                       : utimensat(below, inside(path), times, AT_SYMLINK_NOFOLLOW));
}

static int do_readlink(const char *path, char *target, size_t size)
{
    ssize_t got = readlinkat(below, inside(path), target, size - 1);
    if (got < 0) {
        return -errno;
    }
    target[got] = '\0';
    return 0;
}

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
    config->hard_remove = 1;
    config->nullpath_ok = 1; /* read, write and the like go by the descriptor */
    return NULL;
}

static const struct fuse_operations operations = {
    .init = begin,
    .getattr = do_getattr,
    .open = do_open,
    .create = do_create,
    .release = do_release,
    .read = do_read,
    .write = do_write,
    .truncate = do_truncate,
    .fallocate = do_fallocate,
    .fsync = do_fsync,
    .fsyncdir = do_fsyncdir,
    .mkdir = do_mkdir,
    .unlink = do_unlink,
    .rmdir = do_rmdir,
    .link = do_link,
    .rename = do_rename,
    .setxattr = do_setxattr,
    .getxattr = do_getxattr,
    .listxattr = do_listxattr,
    .removexattr = do_removexattr,
    .opendir = do_opendir,
    .readdir = do_readdir,
    .releasedir = do_release,
    .statfs = do_statfs,
    .chmod = do_chmod,
    .utimens = do_utimens,
    .readlink = do_readlink,
};

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: troubled CONTROL BELOW POINT\n");
        return 2;
    }
    int fd = open(words[1], O_RDWR | O_CLOEXEC);
    below = open(words[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    control = fd < 0 ? MAP_FAILED
                     : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (below < 0 || control == MAP_FAILED) {
        perror("troubled");
        return 1;
    }
    /* A hanging operation keeps a thread. */
    char *arguments[] = {words[0], (char *)"-f", (char *)"-o", (char *)"max_threads=200",
                         words[3], NULL};
    return fuse_main(5, arguments, &operations, NULL);
}
