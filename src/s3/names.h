/*
 * Which names are allowed: buckets, keys and user metadata as S3 defines them, and, separately,
 * which keys a file system can hold. Checks only: nothing here is ever rewritten to fit.
 */
#ifndef RG_S3_NAMES_H
#define RG_S3_NAMES_H

#include "base/error.h"
#include "base/span.h"

#define RG_BUCKET_NAME_MIN    3u
#define RG_BUCKET_NAME_MAX    63u
#define RG_KEY_BYTES_MAX      1024u
#define RG_SEGMENT_BYTES_MAX  255u  /* NAME_MAX */
#define RG_METADATA_BYTES_MAX 2048u /* names (without x-amz-meta-) and values of one object */

/* The directory, at the top of a bucket and of the tree, and the prefix that Railgate keeps to
 * itself. */
#define RG_RESERVED_DIRECTORY ".railgate"
#define RG_RESERVED_PREFIX    ".railgate-"

/*
 * Rules for general purpose buckets: 3 to 63 bytes of a-z 0-9 . -; starts and ends with a letter or
 * digit; no ".."; not shaped like an IPv4 address; no prefix "xn--"; no suffix "-s3alias" or
 * "--ol-s3". Fails with RG_INVALID_BUCKET_NAME and the rule in the sentence.
 */
int rg_bucket_name_check(struct span name, struct rg_error *err) RG_CHECK;

/* The same for a bucket to be made, whose labels also begin and end with a letter or digit: no
 * ".-" and no "-.". Directories that have such names are served all the same. */
int rg_bucket_name_check_new(struct span name, struct rg_error *err) RG_CHECK;

/*
 * What S3 demands of a (decoded) key: 1 to 1024 bytes of UTF-8 without NUL. Fails with
 * RG_KEY_TOO_LONG, or RG_INVALID_URI (empty, not UTF-8, NUL).
 */
int rg_key_check(struct span key, struct rg_error *err) RG_CHECK;

/*
 * What a POSIX tree demands of a key that passed rg_key_check: no leading '/', no empty segment, no
 * "." or ".." segment, no segment over 255 bytes, first segment not ".railgate", no segment
 * beginning with ".railgate-". One trailing '/' (a directory object) is fine. Fails with
 * RG_INVALID_OBJECT_NAME and the rule in the sentence. A reader may treat such a key as one that
 * does not exist; a writer answers the error.
 */
int rg_key_storable(struct span key, struct rg_error *err) RG_CHECK;

/*
 * The part of a user metadata name behind "x-amz-meta-": an RFC 9110 token. S3 has no other ceiling
 * for it than that of all metadata. Fails with RG_INVALID_ARGUMENT or RG_METADATA_TOO_LARGE.
 */
int rg_metadata_name_check(struct span name, struct rg_error *err) RG_CHECK;

#endif
