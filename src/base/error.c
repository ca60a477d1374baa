#include "base/error.h"

#include "base/assert.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *s3_name;
    int http_status;
    enum rg_retry retry;
    const char *sentence;
} table[RG_CODE_COUNT] = {
    [RG_OK] = {"OK", "OK", 200, RG_RETRY_NEVER, "No error."},
#define RG_ERROR(identifier, s3, http, retry_class, text)                                          \
    [RG_##identifier] = {#identifier, s3, http, RG_RETRY_##retry_class, text},
#include "base/errors.tbl"
#undef RG_ERROR
};

static bool is_code(enum rg_code code)
{
    return (unsigned)code < RG_CODE_COUNT;
}

const char *rg_code_name(enum rg_code code)
{
    RG_ASSERT(is_code(code));
    return table[code].name;
}

const char *rg_code_s3_name(enum rg_code code)
{
    RG_ASSERT(is_code(code));
    return table[code].s3_name;
}

int rg_code_http_status(enum rg_code code)
{
    RG_ASSERT(is_code(code));
    return table[code].http_status;
}

enum rg_retry rg_code_retry(enum rg_code code)
{
    RG_ASSERT(is_code(code));
    return table[code].retry;
}

const char *rg_code_sentence(enum rg_code code)
{
    RG_ASSERT(is_code(code));
    return table[code].sentence;
}

/* Formats into the message; a cut UTF-8 sequence at the end is dropped. */
RG_PRINTF(2, 0)
static void set_message(struct rg_error *err, const char *format, va_list args)
{
    int len = vsnprintf(err->message, sizeof err->message, format, args);
    if (len >= (int)sizeof err->message) {
        size_t end = sizeof err->message - 1;
        while (end && ((unsigned char)err->message[end - 1] & 0xc0) == 0x80) {
            end--;
        }
        if (end && ((unsigned char)err->message[end - 1] & 0xc0) == 0xc0) {
            end--;
        }
        err->message[end] = '\0';
    }
}

int(rg_fail)(struct rg_error *err, enum rg_code code)
{
    RG_ASSERT(is_code(code) && code != RG_OK);
    if (err) {
        err->code = code;
        err->os_errno = 0;
        err->explained = false;
        snprintf(err->message, sizeof err->message, "%s", table[code].sentence);
    }
    return -(int)code;
}

int(rg_failf)(struct rg_error *err, enum rg_code code, const char *format, ...)
{
    RG_ASSERT(is_code(code) && code != RG_OK);
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        err->os_errno = 0;
        err->explained = true;
        set_message(err, format, args);
        va_end(args);
    }
    return -(int)code;
}

static void append_errno(struct rg_error *err)
{
    char text[128];
    size_t len = strlen(err->message);
    const char *name = strerrorname_np(err->os_errno);
    snprintf(err->message + len, sizeof err->message - len, ": %s (%s)",
             strerror_r(err->os_errno, text, sizeof text), name ? name : "unknown errno");
}

RG_PRINTF(4, 0)
static void explain_errno(struct rg_error *err, enum rg_code code, int os_errno, const char *format,
                          va_list args)
{
    err->code = code;
    err->os_errno = os_errno;
    err->explained = true;
    set_message(err, format, args);
    append_errno(err);
}

int(rg_fail_errno)(struct rg_error *err, enum rg_code code, int os_errno, const char *format, ...)
{
    RG_ASSERT(is_code(code) && code != RG_OK);
    if (err) {
        va_list args;
        va_start(args, format);
        explain_errno(err, code, os_errno, format, args);
        va_end(args);
    }
    return -(int)code;
}

static enum rg_code storage_code(int os_errno)
{
    switch (os_errno) {
    case ENOSPC:
        return RG_STORAGE_FULL;
    case EDQUOT:
        return RG_QUOTA_EXCEEDED;
    case EROFS:
        return RG_READ_ONLY;
    case EACCES:
    case EPERM:
        return RG_ACCESS_DENIED;
    case ENAMETOOLONG:
        return RG_KEY_TOO_LONG;
    case EFBIG:
        return RG_ENTITY_TOO_LARGE;
    case ENOMEM:
        return RG_OUT_OF_MEMORY;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case EBUSY:
        return RG_SLOW_DOWN;
    case ETIMEDOUT:
        return RG_STORAGE_HUNG;
    case EOPNOTSUPP:
        return RG_STORAGE_UNSUPPORTED;
    case ESTALE:
    case ESHUTDOWN:
    case ENOTCONN:
        return RG_SERVICE_UNAVAILABLE;
    default:
        return RG_STORAGE_FAULT;
    }
}

int(rg_fail_storage)(struct rg_error *err, int os_errno, const char *format, ...)
{
    enum rg_code code = storage_code(os_errno);
    if (err) {
        va_list args;
        va_start(args, format);
        explain_errno(err, code, os_errno, format, args);
        va_end(args);
    }
    return -(int)code;
}

int rg_error_context(struct rg_error *err, const char *format, ...)
{
    RG_ASSERT(err && err->code != RG_OK);
    char before[RG_ERROR_MESSAGE_MAX];
    memcpy(before, err->message, sizeof before);
    va_list args;
    va_start(args, format);
    set_message(err, format, args);
    va_end(args);
    size_t len = strlen(err->message);
    snprintf(err->message + len, sizeof err->message - len, ": %s", before);
    err->explained = true;
    return -(int)err->code;
}

void rg_error_clear(struct rg_error *err)
{
    *err = (struct rg_error)RG_ERROR_INIT;
}
