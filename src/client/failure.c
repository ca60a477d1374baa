/*
 * Failures as callers see them. See failure.h.
 */
#include "client/failure.h"

#include <stdarg.h>
#include <string.h>

static const char *const status_names[] = {
    [RG_STATUS_OK] = "RG_STATUS_OK",
    [RG_STATUS_USAGE] = "RG_STATUS_USAGE",
    [RG_STATUS_CREDENTIALS] = "RG_STATUS_CREDENTIALS",
    [RG_STATUS_CONNECT] = "RG_STATUS_CONNECT",
    [RG_STATUS_NOT_FOUND] = "RG_STATUS_NOT_FOUND",
    [RG_STATUS_REFUSED] = "RG_STATUS_REFUSED",
    [RG_STATUS_PRECONDITION] = "RG_STATUS_PRECONDITION",
    [RG_STATUS_SERVER] = "RG_STATUS_SERVER",
    [RG_STATUS_TIMEOUT] = "RG_STATUS_TIMEOUT",
    [RG_STATUS_INTEGRITY] = "RG_STATUS_INTEGRITY",
    [RG_STATUS_RDMA_DECLINED] = "RG_STATUS_RDMA_DECLINED",
    [RG_STATUS_RDMA_FAILED] = "RG_STATUS_RDMA_FAILED",
    [RG_STATUS_FILE] = "RG_STATUS_FILE",
    [RG_STATUS_MEMORY] = "RG_STATUS_MEMORY",
    [RG_STATUS_CANCELLED] = "RG_STATUS_CANCELLED",
};

const char *rg_status_name(enum rg_status status)
{
    size_t index = (size_t)status;
    return index < RG_ARRAY_LENGTH(status_names) ? status_names[index] : "RG_STATUS_UNKNOWN";
}

/* Length of the UTF-8 character at `at`, 0 when there is none. */
static size_t character_length(const char *at, size_t left)
{
    for (size_t len = 1; len <= 4 && len <= left; len++) {
        if (rg_span_is_utf8(rg_span(at, len))) {
            return len;
        }
    }
    return 0;
}

void rg_failure_copy(char *field, size_t room, struct span text)
{
    size_t used = 0;
    while (text.len) {
        size_t len = character_length(text.ptr, text.len);
        unsigned char first = (unsigned char)text.ptr[0];
        bool is_safe = len > 1 || (len == 1 && first >= 0x20 && first != 0x7f);
        if (used + (is_safe ? len : 1) >= room) {
            break;
        }
        if (is_safe) {
            memcpy(field + used, text.ptr, len);
            used += len;
        } else {
            field[used++] = '?';
        }
        text = rg_span_skip(text, len ? len : 1);
    }
    field[used] = '\0';
}

static void begin(struct rg_failure *failure, enum rg_status status)
{
    bool uncertain = failure->uncertain;
    memset(failure, 0, sizeof *failure);
    failure->uncertain = uncertain;
    failure->status = status;
}

int rg_failure_set(struct rg_failure *failure, enum rg_status status, const char *format, ...)
{
    char text[2 * sizeof failure->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    begin(failure, status);
    rg_failure_copy(failure->message, sizeof failure->message, rg_span_text(text));
    return -(int)status;
}

int rg_failure_errno(struct rg_failure *failure, enum rg_status status, int os_errno,
                     const char *format, ...)
{
    char text[2 * sizeof failure->message];
    char reason[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)rg_failure_set(failure, status, "%s: %s", text,
                         strerror_r(os_errno, reason, sizeof reason));
    failure->os_errno = os_errno;
    return -(int)status;
}

int rg_failure_take(struct rg_failure *failure, enum rg_status status, const struct rg_error *err)
{
    if (err->code == RG_OUT_OF_MEMORY) {
        return rg_failure_memory(failure);
    }
    (void)rg_failure_set(failure, status, "%s", err->message);
    failure->os_errno = err->os_errno;
    return -(int)status;
}

int rg_failure_memory(struct rg_failure *failure)
{
    return rg_failure_set(failure, RG_STATUS_MEMORY, "Out of memory.");
}

int rg_failure_context(struct rg_failure *failure, const char *format, ...)
{
    char text[sizeof failure->message];
    char whole[2 * sizeof failure->message + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s: %s", text, failure->message);
    rg_failure_copy(failure->message, sizeof failure->message, rg_span_text(whole));
    return -(int)failure->status;
}
