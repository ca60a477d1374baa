/*
 * S3's XML: documents we read (bodies of requests) and documents we write (answers).
 *
 * Readers take untrusted bytes: document type declarations and entities are refused when they are
 * seen, depth and sizes have ceilings, the S3 namespace may be there or not, unknown elements are
 * skipped. Writers take plain data and append text to a struct rg_buf; whether all went in is
 * rg_buf_ok's to say. Neither knows about HTTP.
 */
#ifndef RG_S3_XML_H
#define RG_S3_XML_H

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "s3/checksum.h"
#include "s3/meta.h"
#include "s3/route.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ======== Reading ======== */

/* Ceilings of every document read, beside the ceiling on its bytes that the caller keeps. */
#define RG_XML_DEPTH_MAX 16u
#define RG_XML_TEXT_MAX  8192u /* characters of one element, bytes */

/*
 * Every reader fails with RG_MALFORMED_XML (not well-formed, another root element, a required
 * element missing or twice, a value that cannot be one, over a ceiling), or RG_OUT_OF_MEMORY, and
 * sets its result on success only.
 */

struct rg_xml_create_bucket {
    char *location; /* LocationConstraint; NULL when not given */
    struct rg_pairs tags;
};

/* CreateBucketConfiguration. An empty body is an empty configuration. RG_INVALID_TAG too. */
int rg_xml_read_create_bucket(struct span body, struct rg_xml_create_bucket *ret_config,
                              struct rg_error *err) RG_CHECK;
void rg_xml_create_bucket_free(struct rg_xml_create_bucket *config);

#define RG_XML_DELETE_MAX 1000u

struct rg_xml_delete_key {
    char *key;
    char *version_id; /* NULL when not given */
    char *etag;       /* condition, without quotes; NULL when not given */
    bool has_size;    /* condition */
    uint64_t size;
    bool has_modified; /* condition */
    struct timespec modified;
};

struct rg_xml_delete {
    bool quiet;
    struct rg_xml_delete_key *keys; /* in the order of the document, duplicates kept */
    size_t count;                   /* 1 to RG_XML_DELETE_MAX */
};

/* Delete (DeleteObjects). Keys are not checked beyond being 1 to 1024 bytes: an overlong one is
 * RG_KEY_TOO_LONG. */
int rg_xml_read_delete(struct span body, struct rg_xml_delete *ret_delete,
                       struct rg_error *err) RG_CHECK;
void rg_xml_delete_free(struct rg_xml_delete *request);

struct rg_xml_complete_part {
    uint32_t number;
    char etag[RG_ETAG_MAX + 1];  /* without quotes */
    struct rg_checksum checksum; /* algorithm NONE when not given */
};

struct rg_xml_complete {
    struct rg_xml_complete_part
        *parts;   /* in the order of the document: order is not checked here */
    size_t count; /* at least 1 */
};

/*
 * CompleteMultipartUpload with at most `parts_max` parts, each numbered 1 to `parts_max`: more
 * parts are malformed, a number outside is RG_INVALID_ARGUMENT (as S3 answers). A checksum that is
 * not one is RG_INVALID_REQUEST; two of different algorithms in one part are malformed.
 */
int rg_xml_read_complete(struct span body, uint32_t parts_max, struct rg_xml_complete *ret_complete,
                         struct rg_error *err) RG_CHECK;
void rg_xml_complete_free(struct rg_xml_complete *complete);

/* Tagging (PutObjectTagging, PutBucketTagging). An empty TagSet is fine. RG_INVALID_TAG too. */
int rg_xml_read_tagging(struct span body, enum rg_tag_scope scope, struct rg_pairs *ret_tags,
                        struct rg_error *err) RG_CHECK;

/* ======== Writing ======== */

/* What every document below begins with. */
#define RG_XML_DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

/*
 * The document without its declaration: for an answer that sends the declaration at once, white
 * space while it works, and the rest at the end.
 */
struct span rg_xml_without_declaration(struct span document);

/*
 * Appends text with & < > " and ' escaped, control characters as &#xN; (XML 1.0 has no form for
 * most of them, but S3 answers them so and its clients read it); bytes that are not UTF-8 become
 * U+FFFD.
 */
void rg_xml_escape(struct rg_buf *out, struct span text);

struct rg_xml_owner {
    const char *id;
    const char *display_name;
};

struct rg_xml_error_extra {
    const char *name;
    struct span value;
};

struct rg_xml_error {
    const char *code;     /* "NoSuchKey" */
    const char *message;  /* never empty: some clients need it */
    struct span resource; /* empty: left out */
    const char *request_id;
    const char *host_id;
    const struct rg_xml_error_extra *extra; /* further elements: Region, Key, BucketName ... */
    size_t extra_count;
};

void rg_xml_error(struct rg_buf *out, const struct rg_xml_error *error);

struct rg_xml_bucket {
    struct span name;
    struct timespec created;
};

struct rg_xml_buckets {
    struct rg_xml_owner owner;
    const struct rg_xml_bucket *buckets;
    size_t count;
    struct span prefix;     /* empty: left out */
    struct span next_token; /* empty: the list is complete */
};

void rg_xml_list_buckets(struct rg_buf *out, const struct rg_xml_buckets *list);

/* A key or a common prefix; prefixes are written behind all keys, as S3 does. */
struct rg_xml_entry {
    struct span key;
    bool is_prefix;
    uint64_t size;
    struct timespec modified;
    struct span etag;                              /* without quotes; empty: left out */
    enum rg_checksum_algorithm checksum_algorithm; /* NONE: left out */
    enum rg_checksum_type checksum_type;
    struct span storage_class; /* empty: STANDARD */
};

/* One page of ListObjects, ListObjectsV2 or ListObjectVersions. A span with ptr NULL is a parameter
 * that was not given, and is left out. */
struct rg_xml_listing {
    struct span bucket;
    struct span prefix;
    struct span delimiter;
    bool url_encode; /* encoding-type=url: keys, prefixes, delimiter and markers are encoded */
    uint64_t max_keys;
    bool truncated;
    const struct rg_xml_entry *entries;
    size_t count;
    const struct rg_xml_owner *owner; /* NULL: without Owner elements */
    struct span marker;               /* V1: marker; versions: key-marker */
    struct span next_marker;          /* V1: NextMarker; versions: NextKeyMarker */
    struct span start_after;          /* V2 */
    struct span token;                /* V2: continuation-token as given */
    struct span next_token;           /* V2 */
    struct span version_id_marker;    /* versions */
};

void rg_xml_list_objects(struct rg_buf *out, const struct rg_xml_listing *list);
void rg_xml_list_objects_v2(struct rg_buf *out, const struct rg_xml_listing *list);

/* Every object is written as its only version, "null" (an unversioned bucket). */
void rg_xml_list_versions(struct rg_buf *out, const struct rg_xml_listing *list);

struct rg_xml_upload {
    struct span key; /* or common prefix */
    bool is_prefix;
    struct span id;
    struct timespec initiated;
    enum rg_checksum_algorithm checksum_algorithm; /* NONE: left out */
    enum rg_checksum_type checksum_type;
};

struct rg_xml_uploads {
    struct span bucket;
    struct span prefix; /* as in rg_xml_listing: ptr NULL leaves out */
    struct span delimiter;
    struct span key_marker;
    struct span upload_id_marker;
    struct span next_key_marker;
    struct span next_upload_id_marker;
    bool url_encode;
    uint64_t max_uploads;
    bool truncated;
    struct rg_xml_owner owner;
    const struct rg_xml_upload *uploads;
    size_t count;
};

void rg_xml_list_uploads(struct rg_buf *out, const struct rg_xml_uploads *list);

struct rg_xml_part {
    uint32_t number;
    uint64_t size;
    struct timespec modified; /* ListParts only */
    struct span etag;         /* ListParts only; without quotes */
    struct rg_checksum checksum;
};

struct rg_xml_parts {
    struct span bucket;
    struct span key;
    struct span upload_id;
    struct rg_xml_owner owner;
    uint32_t marker;
    uint32_t next_marker; /* the last part's number; 0 on an empty page */
    uint64_t max_parts;
    bool truncated;
    enum rg_checksum_algorithm checksum_algorithm; /* of the upload; NONE: left out */
    enum rg_checksum_type checksum_type;
    const struct rg_xml_part *parts;
    size_t count;
};

void rg_xml_list_parts(struct rg_buf *out, const struct rg_xml_parts *list);

void rg_xml_initiate_upload(struct rg_buf *out, struct span bucket, struct span key,
                            struct span upload_id);

/* `location` is the URL of the object; `checksum` may be NULL or NONE. ETags without quotes. */
void rg_xml_complete_upload(struct rg_buf *out, struct span location, struct span bucket,
                            struct span key, struct span etag, const struct rg_checksum *checksum);
void rg_xml_copy_object(struct rg_buf *out, struct span etag, struct timespec modified,
                        const struct rg_checksum *checksum);
void rg_xml_copy_part(struct rg_buf *out, struct span etag, struct timespec modified,
                      const struct rg_checksum *checksum);

struct rg_xml_deleted {
    struct span key;
    struct span version_id; /* as asked; empty: left out */
    enum rg_code failure;   /* RG_OK: deleted */
    const char *message;    /* of a failure; NULL: the table's sentence */
};

/* With `quiet` only failures are written. */
void rg_xml_delete_result(struct rg_buf *out, const struct rg_xml_deleted *keys, size_t count,
                          bool quiet);

/* us-east-1 is written as an empty element, as S3 does. */
void rg_xml_location(struct rg_buf *out, struct span region);
void rg_xml_tagging(struct rg_buf *out, const struct rg_pairs *tags);

/* The answer to GetObjectAttributes: only what x-amz-object-attributes asked for. */
struct rg_xml_attributes {
    bool want_etag;
    bool want_checksum;
    bool want_parts;
    bool want_storage_class;
    bool want_size;
    struct span etag; /* written without quotes here, as S3 does */
    struct rg_checksum checksum;
    struct span storage_class; /* empty: STANDARD */
    uint64_t size;
    uint64_t part_total; /* 0: not a multipart object, no ObjectParts element */
    uint32_t part_marker;
    uint32_t next_part_marker;
    uint64_t max_parts;
    bool parts_truncated;
    const struct rg_xml_part *parts; /* of this page; written only with checksums, as S3 does */
    size_t part_count;
};

void rg_xml_object_attributes(struct rg_buf *out, const struct rg_xml_attributes *attributes);

/*
 * The fixed document of an operation whose answer is RG_ANSWER_DEFAULT (GetBucketVersioning,
 * GetBucketAcl, GetBucketLogging ...): what S3 says of a bucket that was never configured, and of
 * an object that its owner alone may reach. Any other operation is an assertion.
 */
void rg_xml_default(struct rg_buf *out, enum rg_operation operation,
                    const struct rg_xml_owner *owner);

#endif
