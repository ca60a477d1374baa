/*
 * One HTTP header field as received: what the rooms pass around when they look at a request's
 * fields. Both spans borrow; the name keeps the case it arrived in.
 */
#ifndef RG_S3_HEADER_H
#define RG_S3_HEADER_H

#include "base/span.h"

#include <stddef.h>

struct rg_header {
    struct span name;
    struct span value;
};

/* The first field of that name (case-insensitive), or NULL. */
static inline const struct rg_header *rg_header_find(const struct rg_header *headers, size_t count,
                                                     const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (rg_span_is_nocase(headers[i].name, name)) {
            return &headers[i];
        }
    }
    return NULL;
}

#endif
