/*
 * Named points at which a test kills the process, to see what a crash there leaves behind. They
 * exist only in code compiled with RG_CRASH_POINTS; elsewhere they are nothing.
 *
 * The environment variable CRASH_POINT chooses: a name ("put.before-place") kills at the first
 * passing of that point, "#7" at the seventh passing of any point, "?" at none. The name of the
 * point is written, with its NUL, to the descriptor that CRASH_POINT_FD names, if it does; with "?"
 * that of every point passed.
 *
 * The linker gathers all names of the program, so that a test can tell which points it never met:
 * from rg_posix_crash_points_begin to rg_posix_crash_points_end.
 */
#ifndef RG_STORE_POSIX_CRASH_H
#define RG_STORE_POSIX_CRASH_H

#ifdef RG_CRASH_POINTS
extern const char *const rg_posix_crash_points_begin[] __asm__("__start_rg_crash_points");
extern const char *const rg_posix_crash_points_end[] __asm__("__stop_rg_crash_points");

void rg_posix_crash_point(const char *name);
#define RG_CRASH_POINT(name)                                                                       \
    do {                                                                                           \
        static const char *const point __attribute__((used, section("rg_crash_points"))) = name;   \
        rg_posix_crash_point(point);                                                               \
    } while (0)
#else
#define RG_CRASH_POINT(name)                                                                       \
    do {                                                                                           \
    } while (0)
#endif

#endif
