/*
 * The XML documents that S3 servers answer with, read. Everything in them is untrusted: document
 * type declarations are refused, depth and sizes have ceilings, unknown elements are skipped.
 */
#ifndef RG_CLIENT_ANSWER_H
#define RG_CLIENT_ANSWER_H

#include "base/error.h"
#include "base/span.h"
#include "s3/checksum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define RG_ANSWER_DEPTH_MAX   16u
#define RG_ANSWER_TEXT_MAX    16384u  /* bytes of one element */
#define RG_ANSWER_ENTRIES_MAX 100000u /* of one page */

/* Every reader fails with RG_PARSE (not well-formed, another root element, a value that is none, a
 * ceiling reached) or RG_OUT_OF_MEMORY, and sets its result on success only. */

struct rg_answer_error {
    char code[64]; /* "" when the document has none */
    char message[256];
    char request_id[64];
};

/* False when `body` is not an Error document; *ret_error is set in any case. */
bool rg_answer_error_read(struct span body, struct rg_answer_error *ret_error);

struct rg_answer_entry {
    char *key; /* decoded; or a common prefix, or a bucket's name */
    bool is_prefix;
    uint64_t size;
    time_t modified;
    char etag[160]; /* without quotes */
};

struct rg_answer_page {
    struct rg_answer_entry *entries; /* in byte order of the keys */
    size_t count;
    char *next; /* continuation token; NULL: this was the last page */
};

void rg_answer_page_free(struct rg_answer_page *page);

/* ListObjectsV2, asked with encoding-type=url: names are decoded when the document has
 * EncodingType. */
int rg_answer_objects_read(struct span body, struct rg_answer_page *ret_page, struct rg_error *err);
int rg_answer_buckets_read(struct span body, struct rg_answer_page *ret_page, struct rg_error *err);

/* CreateMultipartUpload. The caller frees the text. */
int rg_answer_upload_id_read(struct span body, char **ret_id, struct rg_error *err);

/* CompleteMultipartUpload, CopyObject and UploadPartCopy: the ETag without quotes, and CRC64NVME in
 * base64, "" when there is none. */
struct rg_answer_stored {
    char etag[160];
    char crc64[32];
};

int rg_answer_stored_read(struct span body, struct rg_answer_stored *ret_stored,
                          struct rg_error *err);

struct rg_answer_part {
    uint32_t number;
    uint64_t size;
    char etag[160];
    char crc64[32];
};

struct rg_answer_parts {
    struct rg_answer_part *parts; /* in the order of the document */
    size_t count;
    bool truncated;
    uint32_t next; /* part-number-marker of the next page */
};

void rg_answer_parts_free(struct rg_answer_parts *parts);
int rg_answer_parts_read(struct span body, struct rg_answer_parts *ret_parts, struct rg_error *err);

struct rg_answer_upload {
    char *key; /* decoded */
    char *id;
    time_t initiated;
};

struct rg_answer_uploads {
    struct rg_answer_upload *uploads;
    size_t count;
    bool truncated;
    char *next_key; /* decoded */
    char *next_id;
};

void rg_answer_uploads_free(struct rg_answer_uploads *uploads);

/* ListMultipartUploads, asked with encoding-type=url. */
int rg_answer_uploads_read(struct span body, struct rg_answer_uploads *ret_uploads,
                           struct rg_error *err);

#endif
