/*
 * Compiler attributes and scope-exit cleanup.
 *
 * A variable declared with one of the rg_auto* words is released when its scope ends, on every
 * path. To hand the value on, use RG_TAKE, which leaves the empty value behind.
 */
#ifndef RG_BASE_ATTR_H
#define RG_BASE_ATTR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RG_NORETURN          __attribute__((noreturn))
#define RG_CHECK             __attribute__((warn_unused_result))
#define RG_UNUSED            __attribute__((unused))

#define RG_CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void rg_cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void rg_cleanup_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

static inline void rg_cleanup_fclose(FILE **file)
{
    if (*file) {
        fclose(*file);
    }
}

static inline void rg_cleanup_closedir(DIR **dir)
{
    if (*dir) {
        closedir(*dir);
    }
}

#define rg_autofree     RG_CLEANUP(rg_cleanup_free)
#define rg_autoclose    RG_CLEANUP(rg_cleanup_close)
#define rg_autofclose   RG_CLEANUP(rg_cleanup_fclose)
#define rg_autoclosedir RG_CLEANUP(rg_cleanup_closedir)

/* Moves a pointer out of an owning variable: the variable becomes NULL. */
#define RG_TAKE(pointer)                                                                           \
    __extension__({                                                                                \
        __typeof__(pointer) taken_ = (pointer);                                                    \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })

/* Moves a descriptor out of an owning variable: the variable becomes -1. */
#define RG_TAKE_FD(fd)                                                                             \
    __extension__({                                                                                \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

#define RG_ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif
