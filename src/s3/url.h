/*
 * URLs as S3 reads them: percent-decoding, the AWS form of encoding, and query strings.
 *
 * Decoding is strict: a malformed escape or an encoded NUL is RG_INVALID_URI, never passed through.
 * In a query '+' is a space, in a path it is itself. Nothing here knows what a parameter means.
 */
#ifndef RG_S3_URL_H
#define RG_S3_URL_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* Ceilings of a query string; one byte or parameter more is RG_INVALID_URI. */
#define RG_QUERY_BYTES_MAX  16384u
#define RG_QUERY_PARAMS_MAX 128u

enum rg_url_part { RG_URL_PATH, RG_URL_QUERY };

/*
 * Appends the decoded bytes of `raw` to *out. `part` decides what '+' is. Fails with RG_INVALID_URI
 * ("%", "%4", "%zz", "%00", a raw NUL) or RG_OUT_OF_MEMORY (also when `out` reaches its ceiling);
 * *out then holds an unspecified part. The result may be any bytes but NUL: UTF-8 is checked where
 * it is demanded (rg_key_check).
 */
int rg_url_decode(struct span raw, enum rg_url_part part, struct rg_buf *out,
                  struct rg_error *err) RG_CHECK;

enum rg_url_slash { RG_URL_SLASH_KEPT, RG_URL_SLASH_ENCODED };

/*
 * Appends `bytes` in the encoding of SigV4's UriEncode: A-Z a-z 0-9 - _ . ~ stand for themselves,
 * everything else becomes %XX with upper-case digits; '/' as told. Failure marks the buffer.
 */
void rg_url_encode(struct span bytes, enum rg_url_slash slash, struct rg_buf *out);

struct rg_query_param {
    struct span name;  /* decoded; never holds a NUL */
    struct span value; /* decoded; empty without '=' */
    bool has_value;    /* an '=' was there, as in "acl=" but not in "acl" */
};

/* Parameters in the order they came, duplicates kept. Owns what its spans point at. */
struct rg_query {
    struct rg_query_param *params;
    size_t count;
    char *text;
};

#define RG_QUERY_INIT                                                                              \
    {                                                                                              \
        .params = NULL                                                                             \
    }

/*
 * Parses what stood behind '?' (without it). Empty pieces, as in "a&&b", are skipped. Fails with
 * RG_INVALID_URI (bad escape, too long, too many) or RG_OUT_OF_MEMORY; *ret_query is set only on
 * success and then released with rg_query_free.
 */
int rg_query_parse(struct span raw, struct rg_query *ret_query, struct rg_error *err) RG_CHECK;
void rg_query_free(struct rg_query *query);

/* The first parameter of exactly that name, or NULL. */
const struct rg_query_param *rg_query_find(const struct rg_query *query, const char *name);

/* How many parameters have exactly that name: security parameters must not come twice. */
size_t rg_query_count(const struct rg_query *query, const char *name);

/*
 * Appends the canonical query string of SigV4: every name and value encoded, "name=value" sorted by
 * encoded name, then encoded value, joined by '&'. Parameters named `leave_out` (NULL: none) are
 * omitted: X-Amz-Signature, when a presigned URL is verified. RG_OUT_OF_MEMORY on failure.
 */
int rg_query_canonical(const struct rg_query *query, const char *leave_out, struct rg_buf *out,
                       struct rg_error *err) RG_CHECK;

#endif
