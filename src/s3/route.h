/*
 * Which operation a request asks for, and on which bucket and key. The table is routes.tbl; nothing
 * here authenticates, or knows whether the bucket exists.
 */
#ifndef RG_S3_ROUTE_H
#define RG_S3_ROUTE_H

#include "base/error.h"
#include "base/span.h"
#include "s3/url.h"

#include <stdbool.h>

enum rg_operation {
    RG_OP_UNKNOWN = 0,
#define RG_ROUTE(identifier, method, level, subresource, by, name, log_name, action, answer,       \
                 failure)                                                                          \
    RG_OP_##identifier,
#include "s3/routes.tbl"
#undef RG_ROUTE
    RG_OPERATION_COUNT
};

enum rg_route_level { RG_LEVEL_SERVICE, RG_LEVEL_BUCKET, RG_LEVEL_OBJECT };

/* What answers an operation, once the request is authenticated and authorised. */
enum rg_answer {
    RG_ANSWER_VERB,    /* a function of the gateway */
    RG_ANSWER_DEFAULT, /* 200 and rg_xml_default, if the bucket (and object) exists */
    RG_ANSWER_EMPTY,   /* 204, if the bucket exists */
    RG_ANSWER_FAILURE, /* rg_fail(err, info->failure); NOT_IMPLEMENTED at once, others if the bucket
                          (and object) exists */
};

/* Static facts of an operation. */
struct rg_operation_info {
    const char *name;     /* "PutObject": metrics label; "Unknown" for RG_OP_UNKNOWN */
    const char *log_name; /* "REST.PUT.OBJECT": access log */
    const char *action;   /* "s3:PutObject": policy action, more than one operation may need it */
    const char *method;   /* "PUT" */
    enum rg_route_level level;
    const char *subresource; /* "" for none */
    bool by_copy_source;
    enum rg_answer answer;
    enum rg_code failure; /* RG_ANSWER_FAILURE only */
};

/* Never NULL; lives for ever. */
const struct rg_operation_info *rg_operation_info(enum rg_operation operation);

/* ---- Addressing ---- */

/* Borrows from the path and the host it was made of. */
struct rg_address {
    enum rg_route_level level;
    struct span bucket; /* empty at service level; not checked against the rules for names */
    struct span key;    /* object level only; may end in "/", may hold any byte but NUL */
    bool virtual_host;  /* the bucket stood in the Host field */
};

/*
 * Finds bucket and key. `path` is the request path already percent-decoded (once), beginning with
 * "/". `host` is the Host field, with or without a port (may be empty); `domain` is the setting of
 * that name (empty: path style only).
 *
 *   Host            path        domain       bucket  key
 *   any             /           -            -       -       service
 *   any             /b, /b/     -            b       -       bucket
 *   any             /b/k/l      -            b       k/l     object
 *   b.c.s3.test:80  /           s3.test      b.c     -       bucket, virtual host
 *   B.s3.test       /k          s3.test      B       k       object, virtual host
 *   s3.test         /b/k        s3.test      b       k       path style
 *
 * Hosts compare without regard to case, and a dot at the end of the host is ignored. RG_INVALID_URI
 * for a path without "/" in front, or with nothing between its first two slashes.
 */
int rg_address_parse(struct span host, struct span domain, struct span path,
                     struct rg_address *ret_address, struct rg_error *err) RG_CHECK;

/* ---- Routing ---- */

/*
 * Finds the operation. `has_copy_source` tells whether x-amz-copy-source is among the fields.
 * Parameters that are no known subresource (x-id, partNumber on GET, response-*, X-Amz-*) are left
 * to the verb.
 *
 *   RG_METHOD_NOT_ALLOWED  no such method at this level, or for this subresource
 *   RG_NOT_IMPLEMENTED     a subresource that S3 knows at another level only
 *   RG_INVALID_ARGUMENT    two subresources at once; list-type other than 2; PUT with one of
 *                          uploadId and partNumber but not the other
 *
 * A known operation that is not implemented is a success here: see rg_operation_info()->answer.
 * On failure *ret_operation is RG_OP_UNKNOWN.
 */
int rg_route(struct span method, const struct rg_address *address, const struct rg_query *query,
             bool has_copy_source, enum rg_operation *ret_operation, struct rg_error *err) RG_CHECK;

#endif
