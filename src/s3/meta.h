/*
 * The metadata of an object, in memory and as the compact record that is stored beside it (the
 * xattr user.railgate, or a sidecar file).
 *
 * Everything here owns its memory. It does not know where records are kept, and does not look at
 * object bytes.
 */
#ifndef RG_S3_META_H
#define RG_S3_META_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "s3/checksum.h"
#include "s3/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- Lists of names and values: user metadata, tags ---- */

struct rg_pair {
    char *name;
    char *value; /* never NULL */
};

/* In order of insertion; names are unique. */
struct rg_pairs {
    struct rg_pair *items;
    size_t count;
    size_t room;
    size_t bytes; /* names and values, without terminators */
};

/* Ceilings; reaching one is RG_LIMIT. Fifty bucket tags of 4-byte characters fit. */
#define RG_PAIRS_COUNT_MAX 2048u
#define RG_PAIRS_BYTES_MAX (128u << 10)

#define RG_PAIRS_INIT                                                                              \
    {                                                                                              \
        .items = NULL                                                                              \
    }

/* Copies both. RG_INVALID_ARGUMENT for a name that is there already or a NUL inside either;
 * RG_LIMIT; RG_OUT_OF_MEMORY. On failure the list is unchanged. */
int rg_pairs_add(struct rg_pairs *pairs, struct span name, struct span value,
                 struct rg_error *err) RG_CHECK;

/* The value, borrowed, or NULL. Names compare byte by byte. */
const char *rg_pairs_find(const struct rg_pairs *pairs, struct span name);

/* *ret_copy is overwritten: free it first. */
int rg_pairs_copy(const struct rg_pairs *pairs, struct rg_pairs *ret_copy,
                  struct rg_error *err) RG_CHECK;

/* Leaves an empty list behind. */
void rg_pairs_free(struct rg_pairs *pairs);

bool rg_pairs_equal(const struct rg_pairs *a, const struct rg_pairs *b); /* order counts */

/* ---- System headers ---- */

/* The numbers are stored: append only. */
enum rg_meta_header {
    RG_META_CONTENT_TYPE = 0,
    RG_META_CONTENT_ENCODING = 1,
    RG_META_CONTENT_LANGUAGE = 2,
    RG_META_CONTENT_DISPOSITION = 3,
    RG_META_CACHE_CONTROL = 4,
    RG_META_EXPIRES = 5,
    RG_META_WEBSITE_REDIRECT = 6, /* x-amz-website-redirect-location */
    RG_META_STORAGE_CLASS = 7,    /* x-amz-storage-class; NULL means STANDARD */
    RG_META_HEADER_COUNT
};

/* "Content-Type": the name as answered. */
const char *rg_meta_header_name(enum rg_meta_header header);

/* Any case; false when it is none of the table. */
bool rg_meta_header_from_name(struct span name, enum rg_meta_header *ret_header);

/* Longest value of one system header, bytes. */
#define RG_META_HEADER_MAX 2048u

/* What S3 calls an object's type when nobody said one. */
#define RG_META_DEFAULT_TYPE "binary/octet-stream"

/* ---- Metadata of an object ---- */

/* Parts of one object (also the ceiling of the setting part_count_max). */
#define RG_META_PARTS_MAX 100000u

struct rg_meta {
    char *header[RG_META_HEADER_COUNT]; /* values as sent; NULL when not set */
    struct rg_pairs user;               /* names without "x-amz-meta-", lower case */
    struct rg_pairs tags;
    char etag[RG_ETAG_MAX + 1]; /* without quotes; "" when there is none yet */
    bool etag_is_md5;           /* the ETag is the MD5 of the bytes */
    struct rg_checksum checksum;
    struct rg_part *parts; /* multipart objects: in part order, numbered 1.. as stored */
    size_t part_count;     /* 0: written by a single PUT or Copy */
};

#define RG_META_INIT                                                                               \
    {                                                                                              \
        .header = { NULL }                                                                         \
    }

void rg_meta_free(struct rg_meta *meta); /* leaves RG_META_INIT behind */

/* Deep copy. *ret_copy is overwritten: free it first. */
int rg_meta_copy(const struct rg_meta *meta, struct rg_meta *ret_copy,
                 struct rg_error *err) RG_CHECK;

bool rg_meta_equal(const struct rg_meta *a, const struct rg_meta *b);

/* Sets or replaces (an empty value removes). RG_METADATA_TOO_LARGE over RG_META_HEADER_MAX,
 * RG_INVALID_ARGUMENT for control characters, RG_OUT_OF_MEMORY. */
int rg_meta_set_header(struct rg_meta *meta, enum rg_meta_header header, struct span value,
                       struct rg_error *err) RG_CHECK;

/*
 * Adds one x-amz-meta- field: `name` is what stands behind the prefix, of any case, and is stored
 * in lower case; the value is kept as received (RFC 2047 words included), without surrounding white
 * space. A name that comes again has its value appended after "," as HTTP joins fields.
 * RG_METADATA_TOO_LARGE when all of them exceed RG_METADATA_BYTES_MAX; RG_INVALID_ARGUMENT for a
 * malformed name (s3/names.h) or control characters; RG_OUT_OF_MEMORY.
 */
int rg_meta_add_user(struct rg_meta *meta, struct span name, struct span value,
                     struct rg_error *err) RG_CHECK;

/* ---- Tags ---- */

enum rg_tag_scope { RG_TAG_OBJECT, RG_TAG_BUCKET };
#define RG_TAG_OBJECT_MAX 10u
#define RG_TAG_BUCKET_MAX 50u
#define RG_TAG_KEY_MAX    128u /* Unicode characters */
#define RG_TAG_VALUE_MAX  256u

/*
 * Adds one tag under S3's rules: key of 1 to 128 and value of 0 to 256 characters, UTF-8 letters,
 * digits, space and + - = . _ : / @ (every character above U+007F but control characters is taken
 * for a letter), no key twice, no prefix "aws:", at most 10 (object) or 50 (bucket) tags.
 * RG_INVALID_TAG with the broken rule in the sentence; RG_OUT_OF_MEMORY.
 */
int rg_tags_add(struct rg_pairs *tags, enum rg_tag_scope scope, struct span key, struct span value,
                struct rg_error *err) RG_CHECK;

/*
 * The x-amz-tagging header: "k1=v1&k2=v2", encoded as a query string. An empty text gives no tags;
 * a key without "=" has an empty value. RG_INVALID_TAG as above, RG_INVALID_ARGUMENT when the
 * encoding is broken. *ret_tags is overwritten, on success only.
 */
int rg_tags_parse_header(struct span text, struct rg_pairs *ret_tags,
                         struct rg_error *err) RG_CHECK;

/* ---- The stored record ---- */

/*
 * Everything a record can hold. `size` and the mtime are those the file had when the record was
 * written: a file that differs was changed by another program since, and its ETag, checksum and
 * part table are stale.
 */
struct rg_record {
    struct rg_meta meta;

    bool has_file; /* size and mtime below are set */
    uint64_t size;
    int64_t mtime_s;
    uint32_t mtime_ns;

    bool has_modified; /* Last-Modified to answer instead of the file's mtime */
    struct timespec modified;

    bool has_sidecar; /* the rest of the record stands in the sidecar of this id */
    uint8_t sidecar[16];

    /* Multipart uploads in progress, and parts. */
    char *key; /* of the upload; NULL: none */
    enum rg_checksum_algorithm upload_algorithm;
    enum rg_checksum_type upload_type;
    bool has_md5; /* of a part whose ETag is not its MD5 */
    uint8_t md5[16];

    /* Which upload made the object, so that a repeated Complete is recognised. */
    bool has_upload_id;
    uint8_t upload_id[16];
};

#define RG_RECORD_INIT                                                                             \
    {                                                                                              \
        .meta = RG_META_INIT                                                                       \
    }

void rg_record_free(struct rg_record *record); /* leaves RG_RECORD_INIT behind */

/* Largest encoded record: what is longer is RG_LIMIT when written, and malformed when read. */
#define RG_RECORD_BYTES_MAX (8u << 20)

/*
 * The binary form, version 1. Deterministic: equal records give equal bytes.
 *
 *   'R' version(1 byte) { field }
 *   field: tag(varint) length(varint) body
 *
 * All integers little-endian or LEB128 varints; a tag's lowest bit set means that a reader which
 * does not know the field must refuse the record, clear that it may skip it. Fields may come in any
 * order (but part checksums behind part sizes), each at most once. Part sizes are stored as runs of
 * equal size, part checksums bare, one behind the other.
 *
 * Appends to *out. RG_INVALID_ARGUMENT for what no reader would accept (control characters in the
 * ETag, a header or user metadata; names that are no HTTP token; a part whose checksum is not
 * FULL_OBJECT; a nanosecond count that is none), RG_LIMIT (too long), RG_OUT_OF_MEMORY; *out then
 * holds an unspecified part.
 */
int rg_record_encode(const struct rg_record *record, struct rg_buf *out,
                     struct rg_error *err) RG_CHECK;

/*
 * Reads any bytes safely. RG_PARSE when they are not a record of a version and with mandatory
 * fields that this reader knows; RG_OUT_OF_MEMORY. *ret_record is overwritten, on success only;
 * release with rg_record_free.
 */
int rg_record_decode(struct span bytes, struct rg_record *ret_record,
                     struct rg_error *err) RG_CHECK;

bool rg_record_equal(const struct rg_record *a, const struct rg_record *b);

#endif
