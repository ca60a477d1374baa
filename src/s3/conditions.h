/*
 * Conditional requests: If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since and their
 * x-amz-copy-source-if-* twins. Evaluation only: a store that must hold a condition at the moment
 * of its commit calls these under its own lock.
 */
#ifndef RG_S3_CONDITIONS_H
#define RG_S3_CONDITIONS_H

#include "base/error.h"
#include "base/span.h"
#include "s3/header.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Spans borrow the request's fields; ptr NULL means that the field is absent. */
struct rg_conditions {
    struct span if_match;
    struct span if_none_match;
    bool has_modified_since;
    int64_t modified_since; /* seconds since 1970 */
    bool has_unmodified_since;
    int64_t unmodified_since;
};

#define RG_CONDITIONS_INIT                                                                         \
    {                                                                                              \
        .if_match = { NULL, 0 }                                                                    \
    }

enum rg_conditions_source {
    RG_CONDITIONS_REQUEST,     /* If-Match ... */
    RG_CONDITIONS_COPY_SOURCE, /* x-amz-copy-source-if-match ... */
};

/*
 * Picks the fields out of a request's. A date that cannot be parsed (RFC 9110, 13.1.3) is ignored,
 * and so are If-Modified-Since dates in the future of `now_seconds`. For writes call
 * rg_conditions_check_supported too.
 */
void rg_conditions_read(const struct rg_header *headers, size_t count,
                        enum rg_conditions_source source, int64_t now_seconds,
                        struct rg_conditions *ret_conditions);

/* No field is present. */
bool rg_conditions_empty(const struct rg_conditions *conditions);

/*
 * Does the list of a If-(None-)Match field name this ETag? `list` is "*" or ETags separated by
 * commas, each quoted, or bare as S3 accepts; a W/ prefix is not compared. "*" matches everything.
 */
bool rg_etag_list_matches(struct span list, struct span etag);

/*
 * For GET and HEAD of an object that exists, with its ETag (no quotes) and time (whole seconds), in
 * the order of RFC 9110, 13.2.2: If-Match, else If-Unmodified-Since (RG_PRECONDITION_FAILED); then
 * If-None-Match, else If-Modified-Since (RG_NOT_MODIFIED). 0 when the request goes on.
 */
int rg_conditions_check_read(const struct rg_conditions *conditions, struct span etag,
                             int64_t modified_s, struct rg_error *err) RG_CHECK;

/* For the source of CopyObject and UploadPartCopy: the same, but every failure is
 * RG_PRECONDITION_FAILED, as S3 answers. */
int rg_conditions_check_copy_source(const struct rg_conditions *conditions, struct span etag,
                                    int64_t modified_s, struct rg_error *err) RG_CHECK;

/*
 * Which conditions PutObject, CopyObject and CompleteMultipartUpload can carry: If-None-Match with
 * "*" only, or If-Match; no dates. RG_NOT_IMPLEMENTED otherwise, as S3
 * answers. Call it early, before the body is read.
 */
int rg_conditions_check_supported(const struct rg_conditions *conditions,
                                  struct rg_error *err) RG_CHECK;

/*
 * For a write, at the moment of its commit: `exists` and `etag` are those of the object in the way.
 * If-None-Match: * on an object is RG_PRECONDITION_FAILED; If-Match on none is RG_NO_SUCH_KEY, on
 * another ETag RG_PRECONDITION_FAILED. NULL conditions hold.
 */
int rg_conditions_check_write(const struct rg_conditions *conditions, bool exists, struct span etag,
                              struct rg_error *err) RG_CHECK;

/* For DeleteObject: If-Match only. On a missing object it is RG_NO_SUCH_KEY; without If-Match
 * deleting nothing succeeds. NULL conditions hold. */
int rg_conditions_check_delete(const struct rg_conditions *conditions, bool exists,
                               struct span etag, struct rg_error *err) RG_CHECK;

#endif
