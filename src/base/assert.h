/*
 * Assertions for programmer errors. They are never compiled out, and nothing that arrives from
 * the network, the disk, a NIC or a person may reach one.
 */
#ifndef RG_BASE_ASSERT_H
#define RG_BASE_ASSERT_H

#include "base/attr.h"

/* Prints what was expected and where, then aborts. */
RG_NORETURN void rg_assert_failed(const char *file, int line, const char *function,
                                  const char *what);

/* A condition that only a bug in Railgate can break. */
#define RG_ASSERT(condition)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            rg_assert_failed(__FILE__, __LINE__, __func__, "assertion failed: " #condition);       \
        }                                                                                          \
    } while (0)

/* A call that cannot fail unless used wrongly (pthread_mutex_lock and the like): expects 0. */
#define RG_MUST(call)                                                                              \
    do {                                                                                           \
        if (__builtin_expect((call) != 0, 0)) {                                                    \
            rg_assert_failed(__FILE__, __LINE__, __func__, "must succeed: " #call);                \
        }                                                                                          \
    } while (0)

#define RG_UNREACHABLE() rg_assert_failed(__FILE__, __LINE__, __func__, "unreachable")

#endif
