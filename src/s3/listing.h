/*
 * The order of keys in listings, their grouping by delimiter, and continuation tokens. Pure: the
 * walk over directories is the store's.
 *
 * Order is byte order of the whole key. A directory's entries stand under its name followed by "/",
 * so that a directory "a" sorts behind the file "a.b" ('.' < '/') and before "a0".
 */
#ifndef RG_S3_LISTING_H
#define RG_S3_LISTING_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* <0, 0, >0: byte order of whole keys. */
static inline int rg_key_compare(struct span a, struct span b)
{
    return rg_span_compare(a, b);
}

/* The order of two names of one directory: as if the name of a directory ended in "/". */
int rg_name_compare(struct span a, bool a_is_directory, struct span b, bool b_is_directory);

/*
 * The common prefix that `key` belongs to: the key up to and including the first `delimiter` behind
 * `prefix`. Empty when there is none (the key is listed itself), the delimiter is empty, or the key
 * does not start with the prefix. Borrows from `key`.
 */
struct span rg_common_prefix(struct span key, struct span prefix, struct span delimiter);

/*
 * Where a listing goes on after `after`: true when `key` is listed, that is when it sorts behind
 * `after` and, when `after` is a common prefix already returned, does not lie below it.
 */
bool rg_key_follows(struct span key, struct span after, bool after_is_prefix);

/*
 * Can keys below the directory whose key is `directory` (it ends in "/"; empty: the bucket) belong
 * to a listing of `prefix`? False lets a walk skip the directory.
 */
bool rg_prefix_reaches(struct span directory, struct span prefix);

/*
 * The smallest text that sorts behind every key that starts with `prefix`, appended to *out; empty
 * when there is none (the prefix is empty or all bytes 0xff). To jump over a common prefix.
 */
void rg_prefix_end(struct span prefix, struct rg_buf *out);

/* ---- Continuation tokens ---- */

/* Key for the HMAC: any secret of this length that all gateways of a tree share. */
#define RG_TOKEN_KEY_BYTES 32

/* What a token was issued for: a token of another listing is refused. */
struct rg_token_scope {
    struct span bucket;
    struct span prefix;
    struct span delimiter;
};

struct rg_token {
    char *after; /* last key or common prefix returned */
    bool after_is_prefix;
};

void rg_token_free(struct rg_token *token);

/*
 * Appends the token: base64url, without padding, of
 *   version(1) flags(1) key, and 16 bytes of
 *   HMAC-SHA256(hmac_key, those and the scope, each with its length)
 * RG_LIMIT when a text of the scope exceeds 16 KiB; RG_OUT_OF_MEMORY, also when `out` reaches its
 * ceiling; RG_INTERNAL_ERROR when libcrypto fails, or when `after` is empty or longer than 4 KiB.
 */
int rg_token_make(const uint8_t hmac_key[RG_TOKEN_KEY_BYTES], const struct rg_token_scope *scope,
                  struct span after, bool after_is_prefix, struct rg_buf *out,
                  struct rg_error *err) RG_CHECK;

/* RG_INVALID_ARGUMENT ("The continuation token provided is incorrect") for anything that
 * rg_token_make did not give for this key and scope. *ret_token is set on success only. */
int rg_token_read(const uint8_t hmac_key[RG_TOKEN_KEY_BYTES], const struct rg_token_scope *scope,
                  struct span text, struct rg_token *ret_token, struct rg_error *err) RG_CHECK;

#endif
