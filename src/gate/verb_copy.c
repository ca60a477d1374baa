/*
 * CopyObject and UploadPartCopy. Bytes move inside the store, by the fastest way it has; only a
 * digest that nobody has yet makes it read them.
 */
#include "gate/verbs.h"

#include "gate/object.h"
#include "gate/patience.h"
#include "s3/range.h"

#include <inttypes.h>
#include <stdio.h>

#define RESULT_BYTES_MAX 4096u

/* ---- CopyObject: the metadata of the copy ---- */

struct directives {
    bool replace_meta;
    bool replace_tags;
    enum rg_checksum_algorithm algorithm; /* asked for; NONE: the source's */
};

static int read_directive(struct rg_call *call, const char *field, const char *sentence,
                          bool *ret_replace, struct rg_error *err)
{
    struct span text;
    *ret_replace = false;
    if (!rg_call_header(call, field, &text) || rg_span_is(text, "COPY")) {
        return 0;
    }
    if (!rg_span_is(text, "REPLACE")) {
        return rg_call_invalid(call, field, text, sentence, err);
    }
    *ret_replace = true;
    return 0;
}

static int read_directives(struct rg_call *call, struct directives *ret_directives,
                           struct rg_error *err)
{
    int rc = read_directive(call, "x-amz-metadata-directive", "Unknown metadata directive.",
                            &ret_directives->replace_meta, err);
    if (rc == 0) {
        rc = read_directive(call, "x-amz-tagging-directive", "Unknown tagging directive.",
                            &ret_directives->replace_tags, err);
    }
    if (rc == 0) {
        rc = rg_object_read_algorithm(call, &ret_directives->algorithm, err);
    }
    return rc;
}

/* Headers and user metadata come from the request, all the rest stays as the source has it. */
static int replace_headers(struct rg_call *call, struct rg_meta *meta, struct rg_error *err)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta fresh = RG_META_INIT;
    int rc = rg_object_read_meta(call, &fresh, err);
    if (rc < 0) {
        return rc;
    }
    for (unsigned i = 0; i < RG_META_HEADER_COUNT; i++) {
        char *stored = meta->header[i];
        meta->header[i] = fresh.header[i];
        fresh.header[i] = stored;
    }
    struct rg_pairs user = meta->user;
    meta->user = fresh.user;
    fresh.user = user;
    return 0;
}

/* S3 does not copy these two. */
static int drop_own_headers(struct rg_call *call, struct rg_meta *meta, struct rg_error *err)
{
    int rc = rg_meta_set_header(meta, RG_META_STORAGE_CLASS, RG_SPAN_EMPTY, err);
    if (rc == 0) {
        rc = rg_meta_set_header(meta, RG_META_WEBSITE_REDIRECT, RG_SPAN_EMPTY, err);
    }
    return rc < 0 ? rc : rg_object_check_storage_class(call, err);
}

static int make_meta(struct rg_call *call, const struct rg_meta *source,
                     const struct directives *directives, struct rg_meta *ret_meta,
                     struct rg_error *err)
{
    int rc = rg_meta_copy(source, ret_meta, err);
    if (rc == 0) {
        rc = directives->replace_meta ? replace_headers(call, ret_meta, err)
                                      : drop_own_headers(call, ret_meta, err);
    }
    if (rc == 0 && directives->replace_tags) {
        rg_pairs_free(&ret_meta->tags);
        rc = rg_object_read_tags(call, ret_meta, err);
    }
    return rc;
}

/* ---- CopyObject: the bytes ---- */

struct copy {
    struct rg_opened source;
    const struct rg_object_info *info;
    struct rg_meta meta;
    struct rg_conditions conditions;
    bool onto_itself;
    bool rehash; /* a checksum is wanted that the source does not have */
};

static void free_copy(struct copy *copy)
{
    rg_opened_close(&copy->source);
    rg_meta_free(&copy->meta);
}

/* A self-copy must change something, or it is a mistake. */
static int check_self_copy(struct rg_call *call, const struct directives *directives,
                           const struct copy *copy, struct rg_error *err)
{
    struct span value;
    if (!copy->onto_itself || directives->replace_meta || directives->replace_tags ||
        copy->rehash || rg_call_header(call, "x-amz-storage-class", &value)) {
        return 0;
    }
    return rg_failf(err, RG_INVALID_REQUEST,
                    "This copy request is illegal because it is trying to copy an object to itself "
                    "without changing the object's metadata, storage class, website redirect "
                    "location or encryption attributes.");
}

/* Reads the source once through a hasher: the copy gets the checksum and a plain ETag. */
static int copy_hashed(struct rg_call *call, struct copy *copy,
                       enum rg_checksum_algorithm algorithm, struct rg_written *ret_written,
                       struct rg_error *err)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    rg_autowriting writing = {.store = call->store};
    enum rg_copy_used used = RG_COPY_USED_NONE;
    uint8_t md5[16] = {0};
    unsigned set = RG_HASH_BIT(algorithm);
    if (call->settings->etag == RG_ETAG_MD5) {
        set |= RG_HASH_MD5;
    }
    int rc = rg_hasher_init(&hasher, set, err);
    if (rc == 0) {
        rc = rg_store_put_begin(call->store, call->bucket, call->key, (int64_t)copy->info->size,
                                &writing.writer, err);
    }
    if (rc == 0 && copy->info->size) {
        rc = rg_store_writer_copy(call->store, writing.writer, copy->source.object, 0,
                                  copy->info->size, &hasher, &used, err);
    }
    if (rc == 0) {
        rc = rg_hasher_final(&hasher, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (call->settings->etag == RG_ETAG_MD5) {
        rg_hasher_md5(&hasher, md5);
    }
    rg_object_make_etag(call, md5, copy->meta.etag, &copy->meta.etag_is_md5);
    rg_hasher_checksum(&hasher, algorithm, &copy->meta.checksum);
    free(RG_TAKE(copy->meta.parts));
    copy->meta.part_count = 0;
    return rg_store_put_commit(call->store, RG_TAKE(writing.writer), &copy->meta, &copy->conditions,
                               ret_written, err);
}

static int copy_bytes(struct rg_call *call, struct copy *copy, enum rg_checksum_algorithm algorithm,
                      struct rg_written *ret_written, struct rg_error *err)
{
    if (copy->rehash) {
        return copy_hashed(call, copy, algorithm, ret_written, err);
    }
    if (copy->onto_itself) {
        return rg_store_object_meta_set(call->store, call->bucket, call->key, copy->info->meta.etag,
                                        &copy->meta, ret_written, err);
    }
    return rg_store_object_copy(call->store, copy->source.object, call->bucket, call->key,
                                &copy->meta, &copy->conditions, ret_written, err);
}

/* Reads and checks everything that can be, before the first byte moves. */
static int prepare_copy(struct rg_call *call, struct directives *directives, struct copy *copy,
                        struct rg_error *err)
{
    RG_CLEANUP(rg_copy_source_free) struct rg_copy_source source = {.text = {0}};
    int rc = rg_object_check_storable(call, err);
    if (rc == 0) {
        rc = read_directives(call, directives, err);
    }
    if (rc == 0) {
        rc = rg_copy_source_read(call, &source, err);
    }
    if (rc == 0) {
        rc = rg_copy_source_open(call, &source, &copy->source, err);
    }
    if (rc < 0) {
        return rc;
    }
    copy->info = rg_opened_info(&copy->source);
    copy->onto_itself =
        rg_span_eq(source.bucket, call->bucket) && rg_span_eq(source.key, call->key);
    copy->rehash = directives->algorithm != RG_CHECKSUM_NONE &&
                   (copy->info->meta.checksum.algorithm != directives->algorithm ||
                    copy->info->meta.checksum.type != RG_CHECKSUM_FULL_OBJECT);
    rc = check_self_copy(call, directives, copy, err);
    if (rc == 0) {
        rc = rg_object_try_conditions(call, &copy->conditions, err);
    }
    if (rc == 0) {
        rc = make_meta(call, &copy->info->meta, directives, &copy->meta, err);
    }
    return rc;
}

int rg_verb_copy_object(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_copy) struct copy copy = {.meta = RG_META_INIT};
    struct directives directives;
    struct rg_written written = {.size = 0};
    struct rg_wait wait;
    int rc = prepare_copy(call, &directives, &copy, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_set_object_size(call, copy.info->size);

    rg_patience_begin(call->gate->patience, &wait, call->http);
    rc = copy_bytes(call, &copy, directives.algorithm, &written, err);
    bool begun = rg_patience_end(call->gate->patience, &wait);

    RG_BUF(document, RESULT_BYTES_MAX);
    if (rc == 0) {
        rg_call_add_copied(call, copy.onto_itself && !copy.rehash ? 0 : written.size);
        rg_xml_copy_object(&document, rg_span_text(written.etag), written.modified,
                           &copy.meta.checksum);
    }
    rg_object_explain_condition(call, &copy.conditions, rc);
    return rg_call_finish_long(call, begun, rc, &document, err);
}

/* ---- UploadPartCopy ---- */

struct part_copy {
    struct rg_opened source;
    struct rg_upload_info upload;
    struct rg_range range;
    uint32_t number;
    struct rg_part_info part;
};

static void free_part_copy(struct part_copy *copy)
{
    rg_opened_close(&copy->source);
    rg_upload_info_free(&copy->upload);
}

static int select_range(struct rg_call *call, uint64_t size, struct rg_range *ret_range,
                        struct rg_error *err)
{
    struct span text;
    *ret_range = (struct rg_range){.length = size};
    if (rg_call_header(call, "x-amz-copy-source-range", &text)) {
        int rc = rg_range_copy_source(text, size, ret_range, err);
        if (rc == -RG_INVALID_RANGE) {
            rc = rg_failf(err, RG_INVALID_ARGUMENT,
                          "Range specified is not valid for source object of size: %" PRIu64, size);
        }
        if (rc < 0) {
            rg_call_detail(call, "ArgumentName", RG_SPAN_LITERAL("x-amz-copy-source-range"));
            rg_call_detail(call, "ArgumentValue", rg_span_head(text, 256));
            return rc;
        }
    }
    if (ret_range->length > (uint64_t)call->settings->put_size_max) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The specified copy source is larger than the maximum allowable size for a "
                        "copy source: %" PRId64,
                        call->settings->put_size_max);
    }
    return 0;
}

static int prepare_part_copy(struct rg_call *call, struct part_copy *copy, struct rg_error *err)
{
    RG_CLEANUP(rg_copy_source_free) struct rg_copy_source source = {.text = {0}};
    struct span number = RG_SPAN_EMPTY;
    struct span id = RG_SPAN_EMPTY;
    rg_call_param(call, "partNumber", &number);
    rg_call_param(call, "uploadId", &id);
    int rc =
        rg_part_number_parse(number, (uint32_t)call->settings->part_count_max, &copy->number, err);
    if (rc == 0) {
        rc = rg_copy_source_read(call, &source, err);
    }
    if (rc == 0) {
        rc = rg_store_upload_stat(call->store, call->bucket, call->key, id, &copy->upload, err);
    }
    if (rc == 0) {
        rc = rg_copy_source_open(call, &source, &copy->source, err);
    }
    if (rc == 0) {
        rc = select_range(call, rg_opened_info(&copy->source)->size, &copy->range, err);
    }
    return rc;
}

/* The part's digests; with the setting etag = fast and no checksum there are none to compute. */
static int finish_part(struct rg_call *call, struct part_copy *copy, struct rg_hasher *hasher,
                       struct rg_error *err)
{
    int rc = rg_hasher_final(hasher, err);
    if (rc < 0) {
        return rc;
    }
    if (call->settings->etag == RG_ETAG_MD5) {
        rg_hasher_md5(hasher, copy->part.md5);
    }
    rg_object_make_etag(call, copy->part.md5, copy->part.etag, &copy->part.has_md5);
    if (copy->upload.checksum_algorithm != RG_CHECKSUM_NONE) {
        rg_hasher_checksum(hasher, copy->upload.checksum_algorithm, &copy->part.checksum);
    }
    return 0;
}

static int copy_part(struct rg_call *call, struct part_copy *copy, struct rg_written *ret_written,
                     struct rg_error *err)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    rg_autowriting writing = {.store = call->store};
    enum rg_copy_used used = RG_COPY_USED_NONE;
    unsigned set = 0;
    if (call->settings->etag == RG_ETAG_MD5) {
        set |= RG_HASH_MD5;
    }
    if (copy->upload.checksum_algorithm != RG_CHECKSUM_NONE) {
        set |= RG_HASH_BIT(copy->upload.checksum_algorithm);
    }
    int rc = rg_hasher_init(&hasher, set, err);
    if (rc == 0) {
        rc =
            rg_store_part_begin(call->store, call->bucket, call->key, rg_span_text(copy->upload.id),
                                copy->number, (int64_t)copy->range.length, &writing.writer, err);
    }
    if (rc == 0 && copy->range.length) {
        rc = rg_store_writer_copy(call->store, writing.writer, copy->source.object,
                                  copy->range.offset, copy->range.length, set ? &hasher : NULL,
                                  &used, err);
    }
    if (rc == 0) {
        rc = finish_part(call, copy, &hasher, err);
    }
    if (rc < 0) {
        return rc;
    }
    return rg_store_part_commit(call->store, RG_TAKE(writing.writer), &copy->part, ret_written,
                                err);
}

int rg_verb_upload_part_copy(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_part_copy) struct part_copy copy = {0};
    struct rg_written written = {.size = 0};
    struct rg_wait wait;
    int rc = prepare_part_copy(call, &copy, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_set_object_size(call, copy.range.length);

    rg_patience_begin(call->gate->patience, &wait, call->http);
    rc = copy_part(call, &copy, &written, err);
    bool begun = rg_patience_end(call->gate->patience, &wait);

    RG_BUF(document, RESULT_BYTES_MAX);
    if (rc == 0) {
        rg_call_add_copied(call, copy.range.length);
        rg_xml_copy_part(&document, rg_span_text(written.etag), written.modified,
                         &copy.part.checksum);
    }
    return rg_call_finish_long(call, begun, rc, &document, err);
}
