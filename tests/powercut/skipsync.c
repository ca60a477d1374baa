/*
 * Preloaded into a gateway whose promises are to fail: fsync does nothing for files, or nothing for
 * directories (SKIP_SYNC=file or directory). It proves that the power cuts show a missing fsync.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
    const char *skipped = getenv("SKIP_SYNC");
    struct stat st;
    if (skipped && fstat(fd, &st) == 0 &&
        strcmp(skipped, S_ISDIR(st.st_mode) ? "directory" : "file") == 0) {
        return 0;
    }
    return (int)syscall(SYS_fsync, fd);
}
