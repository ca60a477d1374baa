/*
 * What the verbs on objects share: metadata out of request fields and back into answer fields, the
 * source of a copy, ETags and checksums as fields.
 */
#ifndef RG_GATE_OBJECT_H
#define RG_GATE_OBJECT_H

#include "base/buf.h"
#include "base/error.h"
#include "gate/call.h"
#include "s3/checksum.h"
#include "s3/conditions.h"
#include "s3/meta.h"
#include "store/store.h"

#include <stdbool.h>

/* ---- Requests ---- */

/*
 * System headers, user metadata and storage class of a new object. *ret_meta (RG_META_INIT) is
 * filled; the caller frees it, also on failure. aws-chunked is taken out of Content-Encoding.
 * RG_METADATA_TOO_LARGE, RG_INVALID_ARGUMENT, RG_INVALID_STORAGE_CLASS, RG_OUT_OF_MEMORY.
 */
int rg_object_read_meta(struct rg_call *call, struct rg_meta *ret_meta, struct rg_error *err);

/* RG_INVALID_STORAGE_CLASS unless x-amz-storage-class is absent or STANDARD. */
int rg_object_check_storage_class(struct rg_call *call, struct rg_error *err);

/* The x-amz-tagging field into meta->tags. */
int rg_object_read_tags(struct rg_call *call, struct rg_meta *meta, struct rg_error *err);

/* x-amz-checksum-algorithm: NONE when absent, RG_INVALID_REQUEST when unknown. */
int rg_object_read_algorithm(struct rg_call *call, enum rg_checksum_algorithm *ret_algorithm,
                             struct rg_error *err);

/* The conditions of a write. RG_NOT_IMPLEMENTED for those that S3 does not have there. */
int rg_object_read_conditions(struct rg_call *call, struct rg_conditions *ret_conditions,
                              struct rg_error *err);

/* Also evaluates them against the object there is now, so that no body is sent, and nothing copied,
 * in vain; the commit decides. RG_PRECONDITION_FAILED, RG_NO_SUCH_KEY; what the store answers. */
int rg_object_try_conditions(struct rg_call *call, struct rg_conditions *ret_conditions,
                             struct rg_error *err);

/* Adds the condition that failed to the error document. */
void rg_object_explain_condition(struct rg_call *call, const struct rg_conditions *conditions,
                                 int rc);

/* rg_key_storable for a write: the error; for a read such a key is one that is not there. */
int rg_object_check_storable(struct rg_call *call, struct rg_error *err);
int rg_object_check_reachable(struct rg_call *call, struct span bucket, struct span key,
                              struct rg_error *err);

/* The ETag of new bytes: the MD5, or with the setting etag = fast a random one. */
void rg_object_make_etag(const struct rg_call *call, const uint8_t md5[16],
                         char etag[RG_ETAG_MAX + 1], bool *ret_is_md5);

/* ---- The store's objects and writers as variables that clean up after themselves ---- */

struct rg_opened {
    struct rg_store *store;
    struct rg_object *object; /* NULL: none */
};
void rg_opened_close(struct rg_opened *opened);
#define rg_autoopened RG_CLEANUP(rg_opened_close) struct rg_opened

/* Opens an object that passes rg_object_check_reachable. */
int rg_object_open(struct rg_call *call, struct span bucket, struct span key,
                   struct rg_opened *ret_opened, struct rg_error *err);

static inline const struct rg_object_info *rg_opened_info(const struct rg_opened *opened)
{
    return rg_store_object_info(opened->store, opened->object);
}

struct rg_writing {
    struct rg_store *store;
    struct rg_writer *writer; /* NULL: none, or committed */
    uint64_t seen;            /* bytes told to rg_writing_saw */
};
void rg_writing_abort(struct rg_writing *writing);

/*
 * For bytes that go to the writer's descriptor: `len` more were seen, so those before them are in
 * the file or on their way there, and their way to the disk may begin. Errors as
 * rg_store_writer_passed.
 */
int rg_writing_saw(struct rg_writing *writing, size_t len, struct rg_error *err);
#define rg_autowriting RG_CLEANUP(rg_writing_abort) struct rg_writing

/* Takes the request's body into the writer, up to the end and verified. */
struct rg_body;
int rg_object_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                      struct rg_error *err);

/* ---- Sources of copies ---- */

struct rg_copy_source {
    struct rg_buf text; /* what the spans point at */
    struct span bucket;
    struct span key;
};
void rg_copy_source_free(struct rg_copy_source *source);

/* x-amz-copy-source, decoded once. RG_INVALID_ARGUMENT, RG_NO_SUCH_VERSION, RG_INVALID_BUCKET_NAME.
 */
int rg_copy_source_read(struct rg_call *call, struct rg_copy_source *ret_source,
                        struct rg_error *err);

/* Opens the source if the x-amz-copy-source-if-* conditions hold. */
int rg_copy_source_open(struct rg_call *call, const struct rg_copy_source *source,
                        struct rg_opened *ret_opened, struct rg_error *err);

/* ---- Answers ---- */

void rg_object_answer_etag(struct rg_call *call, const char *etag);
/* x-amz-checksum-ALGORITHM and x-amz-checksum-type; nothing for NONE. */
void rg_object_answer_checksum(struct rg_call *call, const struct rg_checksum *checksum);
void rg_object_answer_modified(struct rg_call *call, const struct rg_object_info *info);

/* RG_INVALID_ARGUMENT for a response-* parameter that no field can carry. */
int rg_object_check_overrides(struct rg_call *call, struct rg_error *err);

/* Everything that GET and HEAD say about an object, but its length and range. */
void rg_object_answer_info(struct rg_call *call, const struct rg_object_info *info);

#endif
