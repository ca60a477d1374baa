/*
 * Preloaded into a gateway, as its environment says:
 *
 *   SKIP_SYNC=file or directory   fsync of these does nothing, nor are the bytes of a file started
 *                                 on their way. It proves that the power cuts show a missing
 *                                 fsync.
 *   HOLD_SYNC=PATH                an fsync that finds a file PATH takes it away (it is PATH.taken
 *                                 then) and waits until that is gone, too.
 *   BLIND=1                       what tells that a file system died says that all is well. It
 *                                 proves that fsync does not tell.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

int fstat64(int fd, struct stat64 *st);

static void wait_while_held(void)
{
    const char *hold = getenv("HOLD_SYNC");
    char taken[PATH_MAX];
    if (!hold || snprintf(taken, sizeof taken, "%s.taken", hold) < 0 || rename(hold, taken) < 0) {
        return;
    }
    while (access(taken, F_OK) == 0) {
        usleep(10000);
    }
}

int fsync(int fd)
{
    const char *skipped = getenv("SKIP_SYNC");
    struct stat st;
    if (skipped && fstat(fd, &st) == 0 &&
        strcmp(skipped, S_ISDIR(st.st_mode) ? "directory" : "file") == 0) {
        return 0;
    }
    wait_while_held();
    return (int)syscall(SYS_fsync, fd);
}

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags)
{
    const char *skipped = getenv("SKIP_SYNC");
    if (skipped && strcmp(skipped, "file") == 0) {
        return 0;
    }
    return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

int fstat64(int fd, struct stat64 *st)
{
    int rc = (int)syscall(SYS_newfstatat, fd, "", st, 0x1000 /* AT_EMPTY_PATH */);
    if (rc < 0 && errno == EIO && getenv("BLIND")) {
        memset(st, 0, sizeof *st);
        rc = 0;
    }
    return rc;
}

int fremovexattr(int fd, const char *name)
{
    if (getenv("BLIND") && strcmp(name, "user.railgate.absent") == 0) {
        errno = ENODATA;
        return -1;
    }
    return (int)syscall(SYS_fremovexattr, fd, name);
}
