/*
 * Errors carry their story. A function that can fail takes `struct rg_error *err` last and returns
 * 0, or the negative of an enum rg_code. `err` then holds the code, the errno (or ibv_wc status)
 * behind it and one sentence; callers may add context on the way up. Whoever handles the error
 * reports it, once: libraries never print.
 */
#ifndef RG_BASE_ERROR_H
#define RG_BASE_ERROR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

enum rg_code {
    RG_OK = 0,
#define RG_ERROR(identifier, s3, http, retry, sentence) RG_##identifier,
#include "base/errors.tbl"
#undef RG_ERROR
    RG_CODE_COUNT
};

enum rg_retry { RG_RETRY_NEVER, RG_RETRY_LATER, RG_RETRY_CHANGED, RG_RETRY_GONE };

#define RG_ERROR_MESSAGE_MAX 512

struct rg_error {
    enum rg_code code;
    int os_errno;                       /* errno, or 0 */
    bool explained;                     /* message says more than the table's sentence */
    char message[RG_ERROR_MESSAGE_MAX]; /* one sentence, UTF-8, cut when too long */
};

#define RG_ERROR_INIT                                                                              \
    {                                                                                              \
        .code = RG_OK                                                                              \
    }

/* Static facts of a code; the strings live for ever. */
const char *rg_code_name(enum rg_code code);    /* identifier, for example NO_SUCH_KEY */
const char *rg_code_s3_name(enum rg_code code); /* for example NoSuchKey */
int rg_code_http_status(enum rg_code code);
enum rg_retry rg_code_retry(enum rg_code code);
const char *rg_code_sentence(enum rg_code code);

/*
 * Each sets *err (which may be NULL: then only the return value tells) and returns -code, so that
 * `return rg_fail(err, RG_NO_SUCH_KEY);` is the usual ending of a failed step.
 */
int rg_fail(struct rg_error *err, enum rg_code code);
int rg_failf(struct rg_error *err, enum rg_code code, const char *format, ...) RG_PRINTF(3, 4);
int rg_fail_errno(struct rg_error *err, enum rg_code code, int os_errno, const char *format, ...)
    RG_PRINTF(4, 5);

/*
 * For a failed system call on the storage side: picks the code from the errno (ENOSPC, EDQUOT,
 * EROFS, EIO, ESTALE, EACCES, ENAMETOOLONG, ENOMEM, EMFILE ... see error.c); anything unlisted is
 * RG_STORAGE_FAULT. ENOENT and ENOTDIR are the caller's to interpret and map to RG_STORAGE_FAULT
 * here.
 */
int rg_fail_storage(struct rg_error *err, int os_errno, const char *format, ...) RG_PRINTF(3, 4);

/*
 * That none of these returns 0 is a promise the compiler can use, but not see: told so, it knows
 * that what a step sets on success is set where the step did not fail.
 */
static inline int rg_is_failure(int result)
{
    if (result >= 0) {
        __builtin_unreachable();
    }
    return result;
}
#define rg_fail(err, code)   rg_is_failure((rg_fail)((err), (code)))
#define rg_failf(...)        rg_is_failure((rg_failf)(__VA_ARGS__))
#define rg_fail_errno(...)   rg_is_failure((rg_fail_errno)(__VA_ARGS__))
#define rg_fail_storage(...) rg_is_failure((rg_fail_storage)(__VA_ARGS__))

/* Puts "context: " in front of the sentence and returns -code again. */
int rg_error_context(struct rg_error *err, const char *format, ...) RG_PRINTF(2, 3);

void rg_error_clear(struct rg_error *err);

#endif
