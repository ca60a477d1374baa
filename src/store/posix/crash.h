/*
 * Named points at which a test kills the process, to see what a crash there leaves behind. They
 * exist only in code compiled with RG_CRASH_POINTS; elsewhere they are nothing.
 *
 * The environment variable CRASH_POINT chooses: a name ("put.before-rename") kills at the first
 * passing of that point, "#7" at the seventh passing of any point.
 */
#ifndef RG_STORE_POSIX_CRASH_H
#define RG_STORE_POSIX_CRASH_H

#ifdef RG_CRASH_POINTS
void rg_posix_crash_point(const char *name);
#define RG_CRASH_POINT(name) rg_posix_crash_point(name)
#else
#define RG_CRASH_POINT(name)                                                                       \
    do {                                                                                           \
    } while (0)
#endif

#endif
