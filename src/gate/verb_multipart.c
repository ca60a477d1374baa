/* Multipart uploads: create, upload a part, complete, abort, list parts, list uploads. */
#include "gate/verbs.h"

#include "base/checked.h"
#include "gate/body.h"
#include "gate/object.h"
#include "gate/patience.h"
#include "gate/rdma_ask.h"
#include "gate/rdma_session.h"
#include "s3/range.h"

#include <inttypes.h>
#include <stdlib.h>

#define PAGE_MAX         1000u
#define ANSWER_BYTES_MAX (16u << 20)

static struct span upload_id(const struct rg_call *call)
{
    struct span id = RG_SPAN_EMPTY;
    rg_call_param(call, "uploadId", &id);
    return id;
}

/* ---- CreateMultipartUpload ---- */

static int read_checksum_choice(struct rg_call *call, enum rg_checksum_algorithm *ret_algorithm,
                                enum rg_checksum_type *ret_type, struct rg_error *err)
{
    struct span text;
    int rc = rg_object_read_algorithm(call, ret_algorithm, err);
    if (rc < 0) {
        return rc;
    }
    *ret_type = rg_checksum_type_default(*ret_algorithm);
    if (!rg_call_header(call, "x-amz-checksum-type", &text)) {
        return 0;
    }
    if (!rg_checksum_type_from_name(text, ret_type)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Value for x-amz-checksum-type header is invalid.");
    }
    if (*ret_algorithm == RG_CHECKSUM_NONE) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The x-amz-checksum-type header can only be used with the "
                        "x-amz-checksum-algorithm header.");
    }
    if (!rg_checksum_type_allowed(*ret_algorithm, *ret_type)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The %s checksum type cannot be used with the %s checksum algorithm.",
                        rg_checksum_type_name(*ret_type), rg_checksum_name(*ret_algorithm));
    }
    return 0;
}

int rg_verb_create_multipart_upload(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    enum rg_checksum_algorithm algorithm;
    enum rg_checksum_type type;
    char id[RG_UPLOAD_ID_LENGTH + 1];
    int rc = rg_object_check_storable(call, err);
    if (rc == 0) {
        rc = rg_object_read_meta(call, &meta, err);
    }
    if (rc == 0) {
        rc = rg_object_read_tags(call, &meta, err);
    }
    if (rc == 0) {
        rc = read_checksum_choice(call, &algorithm, &type, err);
    }
    if (rc == 0) {
        rc = rg_store_upload_create(call->store, call->bucket, call->key, &meta, algorithm, type,
                                    id, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (algorithm != RG_CHECKSUM_NONE) {
        rg_http_header_set(call->http, "x-amz-checksum-algorithm", rg_checksum_name(algorithm));
        rg_http_header_set(call->http, "x-amz-checksum-type", rg_checksum_type_name(type));
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rg_xml_initiate_upload(&document, call->bucket, call->key, rg_span_text(id));
    return rg_call_answer_xml(call, 200, &document, err);
}

/* ---- UploadPart ---- */

/* A COMPOSITE upload is made of the checksums its client computed; of a full-object one we can
 * compute the parts' ourselves. */
static int check_part_checksum(const struct rg_upload_info *upload, const struct rg_body *body,
                               struct rg_error *err)
{
    if (upload->checksum_algorithm == RG_CHECKSUM_NONE ||
        upload->checksum_type != RG_CHECKSUM_COMPOSITE || body->in_trailer ||
        body->stated.algorithm != RG_CHECKSUM_NONE) {
        return 0;
    }
    return rg_failf(err, RG_INVALID_REQUEST,
                    "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum "
                    "Type: null",
                    rg_checksum_name(upload->checksum_algorithm));
}

static int begin_part(struct rg_call *call, const struct rg_upload_info *upload,
                      struct rg_body *body, struct rg_error *err)
{
    struct rg_body_plan plan = {
        .max = (uint64_t)call->settings->put_size_max,
        .length_required = true,
        .staged = call->rdma.wanted,
        .staged_length = call->rdma.window.length,
        .want_md5 = call->settings->etag == RG_ETAG_MD5,
        .want = upload->checksum_algorithm,
    };
    int rc = rg_body_begin(call, &plan, body, err);
    return rc < 0 ? rc : check_part_checksum(upload, body, err);
}

int rg_verb_upload_part(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_upload_info_free) struct rg_upload_info upload = {0};
    RG_CLEANUP(rg_body_free) struct rg_body body = RG_BODY_INIT;
    rg_autowriting writing = {.store = call->store};
    struct rg_part_info part = {0};
    struct rg_written written;
    struct span number = RG_SPAN_EMPTY;
    rg_call_param(call, "partNumber", &number);

    int rc =
        rg_part_number_parse(number, (uint32_t)call->settings->part_count_max, &part.number, err);
    if (rc == 0) {
        rc = rg_store_upload_stat(call->store, call->bucket, call->key, upload_id(call), &upload,
                                  err);
    }
    if (rc == 0) {
        rc = begin_part(call, &upload, &body, err);
    }
    if (rg_push_only_looks(call)) {
        return rc;
    }
    if (rc == 0) {
        rc = rg_store_part_begin(call->store, call->bucket, call->key, upload_id(call), part.number,
                                 body.length, &writing.writer, err);
    }
    if (rc == 0) {
        rc = rg_object_receive(call, &body, &writing, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (call->settings->etag == RG_ETAG_MD5) {
        rg_body_md5(&body, part.md5);
    }
    rg_object_make_etag(call, part.md5, part.etag, &part.has_md5);
    part.checksum = rg_body_checksum(&body);
    rc = rg_store_part_commit(call->store, RG_TAKE(writing.writer), &part, &written, err);
    if (rc < 0) {
        return rc;
    }

    rg_call_set_object_size(call, written.size);
    rg_object_answer_etag(call, written.etag);
    rg_object_answer_checksum(call, &part.checksum);
    rg_rdma_answer(call, 200);
    return rg_call_answer_empty(call, 200);
}

/* ---- CompleteMultipartUpload ---- */

struct completion {
    struct rg_xml_complete document;
    struct rg_complete_part *parts;
    struct rg_complete_request request;
    struct rg_conditions conditions;
};

static void free_completion(struct completion *completion)
{
    rg_xml_complete_free(&completion->document);
    free(completion->parts);
}

static int read_parts(struct rg_call *call, struct completion *completion, struct rg_error *err)
{
    RG_DOCUMENT(text, call);
    int rc = rg_body_read_document(call, RG_DOCUMENT_OF_OBJECT, &text, err);
    if (rc == 0) {
        rc = rg_xml_read_complete(rg_buf_span(&text), (uint32_t)call->settings->part_count_max,
                                  &completion->document, err);
    }
    if (rc < 0) {
        return rc;
    }
    size_t count = completion->document.count;
    completion->parts = calloc(count, sizeof *completion->parts);
    if (!completion->parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        const struct rg_xml_complete_part *given = &completion->document.parts[i];
        if (i > 0 && given->number <= given[-1].number) {
            return rg_fail(err, RG_INVALID_PART_ORDER);
        }
        completion->parts[i].number = given->number;
        completion->parts[i].checksum = given->checksum;
        memcpy(completion->parts[i].etag, given->etag, sizeof given->etag);
    }
    completion->request.parts = completion->parts;
    completion->request.count = count;
    return 0;
}

/* What the client says the object's checksum will be. */
static int read_expected(struct rg_call *call, struct completion *completion, struct rg_error *err)
{
    struct span text;
    struct rg_checksum *expected = &completion->request.expected;
    enum rg_checksum_type type;
    bool has_type = rg_call_header(call, "x-amz-checksum-type", &text);
    if (has_type && !rg_checksum_type_from_name(text, &type)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Value for x-amz-checksum-type header is invalid.");
    }

    RG_CLEANUP(rg_upload_info_free) struct rg_upload_info upload = {0};
    bool stated = expected->algorithm != RG_CHECKSUM_NONE;
    if (!has_type && !stated) {
        return 0;
    }
    int rc =
        rg_store_upload_stat(call->store, call->bucket, call->key, upload_id(call), &upload, err);
    if (rc == -RG_NO_SUCH_UPLOAD) {
        rg_error_clear(err);
        return 0; /* a repeated Complete, perhaps: the store knows */
    }
    if (rc < 0) {
        return rc;
    }
    if (stated && upload.checksum_algorithm != expected->algorithm) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Checksum Type mismatch occurred, expected checksum Type: %s, actual "
                        "checksum Type: %s",
                        rg_checksum_name(upload.checksum_algorithm),
                        rg_checksum_name(expected->algorithm));
    }
    if (has_type &&
        (upload.checksum_algorithm == RG_CHECKSUM_NONE || upload.checksum_type != type)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The upload was created using the %s checksum mode. The complete request "
                        "must use the same checksum mode.",
                        upload.checksum_algorithm == RG_CHECKSUM_NONE
                            ? "null"
                            : rg_checksum_type_name(upload.checksum_type));
    }
    if (stated && upload.checksum_type == RG_CHECKSUM_COMPOSITE) {
        expected->type = RG_CHECKSUM_COMPOSITE;
        if (expected->parts == 0) {
            expected->parts = (uint32_t)completion->request.count;
        }
    }
    return 0;
}

/* x-amz-mp-object-size: what the parts add up to, or somebody is mistaken. */
static int check_object_size(struct rg_call *call, const struct completion *completion,
                             struct rg_error *err)
{
    struct span text;
    uint64_t wanted;
    uint64_t sum = 0;
    uint32_t after = 0;
    size_t next = 0;
    if (!rg_call_header(call, "x-amz-mp-object-size", &text)) {
        return 0;
    }
    if (!rg_span_to_u64(text, &wanted)) {
        return rg_call_invalid(call, "x-amz-mp-object-size", text,
                               "The x-amz-mp-object-size header is not a number.", err);
    }
    for (bool more = true; more && next < completion->request.count;) {
        RG_CLEANUP(rg_part_page_free) struct rg_part_page page = {0};
        int rc = rg_store_part_list(call->store, call->bucket, call->key, upload_id(call), after,
                                    PAGE_MAX, &page, err);
        if (rc == -RG_NO_SUCH_UPLOAD) {
            rg_error_clear(err);
            return 0; /* a repeated Complete, perhaps */
        }
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < page.count; i++) {
            after = page.parts[i].number;
            while (next < completion->request.count && completion->parts[next].number < after) {
                next++;
            }
            if (next < completion->request.count && completion->parts[next].number == after) {
                sum += page.parts[i].size;
            }
        }
        more = page.truncated && page.count;
    }
    if (sum != wanted) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "The provided 'x-amz-mp-object-size' header value does not match what was "
                        "computed.");
    }
    return 0;
}

static int prepare_completion(struct rg_call *call, struct completion *completion,
                              struct rg_error *err)
{
    /* Here the checksum fields speak of the object, not of this document. */
    int rc = rg_object_check_storable(call, err);
    if (rc == 0) {
        rc = rg_body_stated_checksum(call, &completion->request.expected, err);
    }
    if (rc == 0) {
        rc = read_parts(call, completion, err);
    }
    if (rc == 0) {
        rc = read_expected(call, completion, err);
    }
    if (rc == 0) {
        rc = check_object_size(call, completion, err);
    }
    if (rc == 0) {
        rc = rg_object_read_conditions(call, &completion->conditions, err);
    }
    completion->request.part_size_min = (uint64_t)call->settings->part_size_min;
    completion->request.object_size_max = (uint64_t)call->settings->object_size_max;
    completion->request.conditions = &completion->conditions;
    return rc;
}

/* The URL of the object, as the client addressed us. */
static void write_location(const struct rg_call *call, struct rg_buf *out)
{
    struct span host = RG_SPAN_EMPTY;
    rg_call_header(call, "host", &host);
    rg_buf_add_text(out, rg_http_is_tls(call->http) ? "https://" : "http://");
    rg_buf_add_span(out, host);
    rg_buf_add_char(out, '/');
    if (!call->address.virtual_host) {
        rg_buf_add_span(out, call->bucket);
        rg_buf_add_char(out, '/');
    }
    rg_url_encode(call->key, RG_URL_SLASH_KEPT, out);
}

int rg_verb_complete_multipart_upload(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_completion) struct completion completion = {0};
    struct rg_completed completed = {.checksum = RG_CHECKSUM_INIT};
    struct rg_wait wait;
    int rc = prepare_completion(call, &completion, err);
    if (rc < 0) {
        return rc;
    }

    rg_patience_begin(call->gate->patience, &wait, call->http);
    rc = rg_store_upload_complete(call->store, call->bucket, call->key, upload_id(call),
                                  &completion.request, &completed, err);
    bool begun = rg_patience_end(call->gate->patience, &wait);

    RG_BUF(document, ANSWER_BYTES_MAX);
    if (rc == 0) {
        RG_BUF(location, ANSWER_BYTES_MAX);
        write_location(call, &location);
        rg_call_set_object_size(call, completed.written.size);
        rg_call_add_copied(call, completed.written.size);
        rg_xml_complete_upload(&document, rg_buf_span(&location), call->bucket, call->key,
                               rg_span_text(completed.written.etag), &completed.checksum);
    }
    rg_object_explain_condition(call, &completion.conditions, rc);
    return rg_call_finish_long(call, begun, rc, &document, err);
}

/* ---- AbortMultipartUpload ---- */

int rg_verb_abort_multipart_upload(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_store_upload_abort(call->store, call->bucket, call->key, upload_id(call), err);
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

/* ---- ListParts ---- */

static int write_parts(struct rg_call *call, const struct rg_upload_info *upload,
                       const struct rg_part_page *page, uint32_t marker, uint32_t most,
                       struct rg_buf *out, struct rg_error *err)
{
    rg_autofree struct rg_xml_part *parts = calloc(page->count ? page->count : 1, sizeof *parts);
    if (!parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < page->count; i++) {
        parts[i] = (struct rg_xml_part){
            .number = page->parts[i].number,
            .size = page->parts[i].size,
            .modified = page->parts[i].modified,
            .etag = rg_span_text(page->parts[i].etag),
            .checksum = page->parts[i].checksum,
        };
    }
    struct rg_xml_parts list = {
        .bucket = call->bucket,
        .key = call->key,
        .upload_id = upload_id(call),
        .owner = rg_call_owner(call),
        .marker = marker,
        .next_marker = page->count ? parts[page->count - 1].number : 0,
        .max_parts = most,
        .truncated = page->truncated,
        .checksum_algorithm = upload->checksum_algorithm,
        .checksum_type = upload->checksum_type,
        .parts = parts,
        .count = page->count,
    };
    rg_xml_list_parts(out, &list);
    return 0;
}

int rg_verb_list_parts(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_upload_info_free) struct rg_upload_info upload = {0};
    RG_CLEANUP(rg_part_page_free) struct rg_part_page page = {0};
    uint32_t marker = 0;
    uint32_t most = PAGE_MAX;
    int rc = rg_call_number(call, "part-number-marker", &marker, err);
    if (rc == 0) {
        rc = rg_call_number(call, "max-parts", &most, err);
    }
    if (rc == 0) {
        rc = rg_store_upload_stat(call->store, call->bucket, call->key, upload_id(call), &upload,
                                  err);
    }
    most = RG_MIN(most, PAGE_MAX);
    if (rc == 0 && most) {
        rc = rg_store_part_list(call->store, call->bucket, call->key, upload_id(call), marker, most,
                                &page, err);
    }
    if (rc < 0) {
        return rc;
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rc = write_parts(call, &upload, &page, marker, most, &document, err);
    return rc < 0 ? rc : rg_call_answer_xml(call, 200, &document, err);
}

/* ---- ListMultipartUploads ---- */

static int read_upload_query(struct rg_call *call, struct rg_upload_query *ret_query,
                             struct rg_error *err)
{
    uint32_t most = PAGE_MAX;
    rg_call_param(call, "prefix", &ret_query->prefix);
    rg_call_param(call, "delimiter", &ret_query->delimiter);
    rg_call_param(call, "key-marker", &ret_query->key_marker);
    if (ret_query->key_marker.len) {
        rg_call_param(call, "upload-id-marker", &ret_query->upload_id_marker);
    }
    int rc = rg_call_number(call, "max-uploads", &most, err);
    ret_query->max = RG_MIN(most, PAGE_MAX);
    return rc;
}

static int write_uploads(struct rg_call *call, const struct rg_upload_query *query,
                         const struct rg_upload_page *page, bool url_encode, struct rg_buf *out,
                         struct rg_error *err)
{
    rg_autofree struct rg_xml_upload *uploads =
        calloc(page->count ? page->count : 1, sizeof *uploads);
    if (!uploads) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < page->count; i++) {
        const struct rg_upload_entry *entry = &page->entries[i];
        uploads[i] = (struct rg_xml_upload){
            .key = rg_span_text(entry->key),
            .is_prefix = entry->is_prefix,
            .id = rg_span_text(entry->id),
            .initiated = entry->initiated,
            .checksum_algorithm = entry->checksum_algorithm,
            .checksum_type = entry->checksum_type,
        };
    }
    struct rg_xml_uploads list = {
        .bucket = call->bucket,
        .prefix = query->prefix,
        .delimiter = query->delimiter.len ? query->delimiter : (struct span){NULL, 0},
        .key_marker = query->key_marker,
        .upload_id_marker = query->upload_id_marker,
        .url_encode = url_encode,
        .max_uploads = query->max,
        .truncated = page->truncated,
        .owner = rg_call_owner(call),
        .uploads = uploads,
        .count = page->count,
    };
    if (page->truncated && page->count) {
        list.next_key_marker = uploads[page->count - 1].key;
        list.next_upload_id_marker = uploads[page->count - 1].id;
    }
    rg_xml_list_uploads(out, &list);
    return 0;
}

int rg_verb_list_multipart_uploads(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_upload_page_free) struct rg_upload_page page = {0};
    struct rg_upload_query query = {
        .prefix = RG_SPAN_EMPTY,
        .delimiter = RG_SPAN_EMPTY,
        .key_marker = RG_SPAN_EMPTY,
        .upload_id_marker = RG_SPAN_EMPTY,
    };
    bool url_encode;
    struct rg_bucket_info info;
    int rc = rg_call_encoding(call, &url_encode, err);
    if (rc == 0) {
        rc = read_upload_query(call, &query, err);
    }
    if (rc == 0) {
        rc = query.max ? rg_store_upload_list(call->store, call->bucket, &query, &page, err)
                       : rg_store_bucket_stat(call->store, call->bucket, &info, err);
    }
    if (rc < 0) {
        return rc;
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rc = write_uploads(call, &query, &page, url_encode, &document, err);
    return rc < 0 ? rc : rg_call_answer_xml(call, 200, &document, err);
}
