/*
 * Arithmetic that says when it overflows. Each returns false, and leaves *ret_result unspecified,
 * when the true result does not fit.
 */
#ifndef RG_BASE_CHECKED_H
#define RG_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define rg_add_checked(a, b, ret_result) (!__builtin_add_overflow((a), (b), (ret_result)))
#define rg_sub_checked(a, b, ret_result) (!__builtin_sub_overflow((a), (b), (ret_result)))
#define rg_mul_checked(a, b, ret_result) (!__builtin_mul_overflow((a), (b), (ret_result)))

#define RG_MIN(a, b)                                                                               \
    __extension__({                                                                                \
        __typeof__(a) a_ = (a);                                                                    \
        __typeof__(b) b_ = (b);                                                                    \
        a_ < b_ ? a_ : b_;                                                                         \
    })
#define RG_MAX(a, b)                                                                               \
    __extension__({                                                                                \
        __typeof__(a) a_ = (a);                                                                    \
        __typeof__(b) b_ = (b);                                                                    \
        a_ > b_ ? a_ : b_;                                                                         \
    })

#endif
