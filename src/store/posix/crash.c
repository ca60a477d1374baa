/* See crash.h. */
#include "store/posix/crash.h"

#ifdef RG_CRASH_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rg_posix_crash_point(const char *name)
{
    static _Atomic unsigned long passed;
    const char *wanted = getenv("CRASH_POINT");
    if (!wanted) {
        return;
    }
    unsigned long now = atomic_fetch_add(&passed, 1) + 1;
    bool hit = wanted[0] == '#' ? strtoul(wanted + 1, NULL, 10) == now : strcmp(wanted, name) == 0;
    const char *log = hit || wanted[0] == '?' ? getenv("CRASH_POINT_FD") : NULL;
    if (log && write(atoi(log), name, strlen(name) + 1) < 0) {
        _exit(125);
    }
    if (hit) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

#else

typedef int rg_posix_crash_points_are_off;

#endif
