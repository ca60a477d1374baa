/*
 * Fills struct rg_failure, the error that callers of the library see. Messages are one sentence,
 * safe to print: control characters and bytes that are not UTF-8 become '?', because parts of them
 * come from servers and file names.
 */
#ifndef RG_CLIENT_FAILURE_H
#define RG_CLIENT_FAILURE_H

#include "base/attr.h"
#include "base/error.h"
#include "base/span.h"

#include <railgate/railgate.h>

/* Each sets *failure and returns -status. The first keeps `uncertain`, which is only ever raised
 * within a call, and clears everything else. */
int rg_failure_set(struct rg_failure *failure, enum rg_status status, const char *format, ...)
    RG_PRINTF(3, 4);

/* The same with ": " and the words of `os_errno` behind it. */
int rg_failure_errno(struct rg_failure *failure, enum rg_status status, int os_errno,
                     const char *format, ...) RG_PRINTF(4, 5);

/* Takes the sentence of an error of another room. RG_OUT_OF_MEMORY is always RG_STATUS_MEMORY. */
int rg_failure_take(struct rg_failure *failure, enum rg_status status, const struct rg_error *err);

int rg_failure_memory(struct rg_failure *failure);

/* Puts "context: " in front and returns -failure->status again. */
int rg_failure_context(struct rg_failure *failure, const char *format, ...) RG_PRINTF(2, 3);

/* Copies text from outside into a fixed field: cut to fit, made safe as messages are. */
void rg_failure_copy(char *field, size_t room, struct span text);

#endif
