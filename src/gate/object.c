/*
 * Metadata between request fields, the store and answer fields. See the header.
 */
#include "gate/object.h"

#include "base/clock.h"
#include "base/random.h"
#include "gate/body.h"
#include "gate/rdma_ask.h"
#include "s3/date.h"
#include "s3/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define USER_PREFIX RG_SPAN_LITERAL("x-amz-meta-")

#define COPY_SOURCE_MAX 8192u

/* ---- Requests ---- */

/*
 * "aws-chunked" says how the body was sent, not what the object is; a list without it is stored as
 * it came.
 */
static int set_encoding(struct rg_meta *meta, struct span value, struct rg_error *err)
{
    RG_BUF(kept, RG_META_HEADER_MAX + 1);
    struct span rest = value;
    bool has_chunked = false;
    while (rest.ptr) {
        struct span coding = rg_span_trim(rg_span_cut(&rest, ','));
        if (rg_span_is_nocase(coding, "aws-chunked")) {
            has_chunked = true;
        } else if (coding.len) {
            rg_buf_add_text(&kept, kept.len ? ", " : "");
            rg_buf_add_span(&kept, coding);
        }
    }
    if (has_chunked && !rg_buf_ok(&kept)) {
        return rg_fail(err, RG_METADATA_TOO_LARGE);
    }
    return rg_meta_set_header(meta, RG_META_CONTENT_ENCODING,
                              has_chunked ? rg_buf_span(&kept) : value, err);
}

static int read_field(struct rg_meta *meta, const struct rg_header *field, struct rg_error *err)
{
    struct span prefix = USER_PREFIX;
    struct span value = rg_span_trim(field->value);
    enum rg_meta_header header;
    if (field->name.len > prefix.len &&
        rg_span_is_nocase(rg_span_head(field->name, prefix.len), prefix.ptr)) {
        return rg_meta_add_user(meta, rg_span_skip(field->name, prefix.len), value, err);
    }
    if (!rg_meta_header_from_name(field->name, &header) || header == RG_META_STORAGE_CLASS) {
        return 0;
    }
    if (header == RG_META_CONTENT_ENCODING) {
        return set_encoding(meta, value, err);
    }
    return rg_meta_set_header(meta, header, value, err);
}

int rg_object_check_storage_class(struct rg_call *call, struct rg_error *err)
{
    struct span class;
    if (!rg_call_header(call, "x-amz-storage-class", &class) || rg_span_is(class, "STANDARD")) {
        return 0;
    }
    rg_call_detail(call, "StorageClassRequested", rg_span_head(class, 256));
    return rg_fail(err, RG_INVALID_STORAGE_CLASS);
}

static void explain_too_large(struct rg_call *call)
{
    char text[16];
    snprintf(text, sizeof text, "%u", RG_METADATA_BYTES_MAX);
    rg_call_detail(call, "MaxSizeAllowed", rg_span_text(text));
}

int rg_object_read_meta(struct rg_call *call, struct rg_meta *ret_meta, struct rg_error *err)
{
    for (size_t i = 0; i < call->header_count; i++) {
        int rc = read_field(ret_meta, &call->headers[i], err);
        if (rc == -RG_METADATA_TOO_LARGE) {
            explain_too_large(call);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return rg_object_check_storage_class(call, err);
}

int rg_object_read_tags(struct rg_call *call, struct rg_meta *meta, struct rg_error *err)
{
    struct span text;
    if (!rg_call_header(call, "x-amz-tagging", &text)) {
        return 0;
    }
    rg_pairs_free(&meta->tags);
    return rg_tags_parse_header(text, &meta->tags, err);
}

static int refuse_algorithm(struct rg_error *err)
{
    RG_BUF(names, 256);
    for (int i = RG_CHECKSUM_NONE + 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        rg_buf_addf(&names, "%s%s", names.len ? ", " : "",
                    rg_checksum_name((enum rg_checksum_algorithm)i));
    }
    return rg_failf(err, RG_INVALID_REQUEST,
                    "Checksum algorithm provided is unsupported. Please try again with any of the "
                    "valid types: [%s]",
                    rg_buf_text(&names));
}

int rg_object_read_algorithm(struct rg_call *call, enum rg_checksum_algorithm *ret_algorithm,
                             struct rg_error *err)
{
    struct span text;
    *ret_algorithm = RG_CHECKSUM_NONE;
    if (!rg_call_header(call, "x-amz-checksum-algorithm", &text)) {
        return 0;
    }
    if (!rg_checksum_from_name(text, ret_algorithm)) {
        return refuse_algorithm(err);
    }
    return 0;
}

void rg_object_explain_condition(struct rg_call *call, const struct rg_conditions *conditions,
                                 int rc)
{
    if (rc != -RG_PRECONDITION_FAILED) {
        return;
    }
    const char *name = conditions->if_match.ptr           ? "If-Match"
                       : conditions->if_none_match.ptr    ? "If-None-Match"
                       : conditions->has_unmodified_since ? "If-Unmodified-Since"
                                                          : "If-Modified-Since";
    rg_call_detail(call, "Condition", rg_span_text(name));
}

/* How the conditions stand now. A missing object is an answer here, not a failure. */
static int try_conditions(struct rg_call *call, const struct rg_conditions *conditions,
                          struct rg_error *err)
{
    rg_autoopened opened = {.store = call->store};
    int rc = rg_store_object_open(call->store, call->bucket, call->key, &opened.object, err);
    if (rc == -RG_NO_SUCH_KEY) {
        return rg_conditions_check_write(conditions, false, RG_SPAN_EMPTY, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct span etag = rg_span_text(rg_opened_info(&opened)->meta.etag);
    return rg_conditions_check_write(conditions, true, etag, err);
}

int rg_object_read_conditions(struct rg_call *call, struct rg_conditions *ret_conditions,
                              struct rg_error *err)
{
    rg_conditions_read(call->headers, call->header_count, RG_CONDITIONS_REQUEST,
                       rg_clock_wall().tv_sec, ret_conditions);
    return rg_conditions_check_supported(ret_conditions, err);
}

int rg_object_try_conditions(struct rg_call *call, struct rg_conditions *ret_conditions,
                             struct rg_error *err)
{
    int rc = rg_object_read_conditions(call, ret_conditions, err);
    if (rc < 0 || rg_conditions_empty(ret_conditions)) {
        return rc;
    }
    rc = try_conditions(call, ret_conditions, err);
    rg_object_explain_condition(call, ret_conditions, rc);
    return rc;
}

int rg_object_check_storable(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_key_storable(call->key, err);
    if (rc < 0) {
        rg_call_detail(call, "Key", call->key);
    }
    return rc;
}

int rg_object_check_reachable(struct rg_call *call, struct span bucket, struct span key,
                              struct rg_error *err)
{
    if (rg_key_storable(key, NULL) == 0) {
        return 0;
    }
    struct rg_bucket_info info;
    int rc = rg_store_bucket_stat(call->store, bucket, &info, err);
    return rc < 0 ? rc : rg_fail(err, RG_NO_SUCH_KEY);
}

void rg_object_make_etag(const struct rg_call *call, const uint8_t md5[16],
                         char etag[RG_ETAG_MAX + 1], bool *ret_is_md5)
{
    *ret_is_md5 = call->settings->etag == RG_ETAG_MD5;
    if (*ret_is_md5) {
        rg_etag_md5(md5, etag);
        return;
    }
    uint8_t random[16];
    rg_random_bytes(random, sizeof random);
    rg_etag_fast(random, etag);
}

/* ---- Objects and writers ---- */

void rg_opened_close(struct rg_opened *opened)
{
    if (opened->object) {
        rg_store_object_close(opened->store, opened->object);
        opened->object = NULL;
    }
}

int rg_object_open(struct rg_call *call, struct span bucket, struct span key,
                   struct rg_opened *ret_opened, struct rg_error *err)
{
    ret_opened->store = call->store;
    int rc = rg_object_check_reachable(call, bucket, key, err);
    if (rc < 0) {
        return rc;
    }
    return rg_store_object_open(call->store, bucket, key, &ret_opened->object, err);
}

void rg_writing_abort(struct rg_writing *writing)
{
    if (writing->writer) {
        rg_store_writer_abort(writing->store, writing->writer);
        writing->writer = NULL;
    }
}

int rg_writing_saw(struct rg_writing *writing, size_t len, struct rg_error *err)
{
    uint64_t before = writing->seen;
    writing->seen += len;
    return rg_store_writer_passed(writing->store, writing->writer, before, err);
}

static int receive(struct rg_body *body, struct rg_writing *writing, char *buffer,
                   struct rg_error *err)
{
    for (;;) {
        size_t len;
        int rc = rg_body_fill(body, buffer, RG_BUFFER_SIZE, &len, err);
        if (rc < 0) {
            return rc;
        }
        if (len == 0) {
            return rg_body_end(body, err);
        }
        rc = rg_store_writer_write(writing->store, writing->writer, buffer, len, err);
        if (rc < 0) {
            return rc;
        }
    }
}

/* No buffer, and no copy: they are digested and written where the connection put them. */
static int receive_blocks(struct rg_body *body, struct rg_writing *writing, struct rg_error *err)
{
    for (;;) {
        struct span bytes;
        int rc = rg_body_block(body, &bytes, err);
        if (rc < 0) {
            return rc;
        }
        if (bytes.len == 0) {
            return rg_body_end(body, err);
        }
        rc = rg_store_writer_write(writing->store, writing->writer, bytes.ptr, bytes.len, err);
        if (rc < 0) {
            return rc;
        }
    }
}

int rg_object_receive(struct rg_call *call, struct rg_body *body, struct rg_writing *writing,
                      struct rg_error *err)
{
    if (body->plan.staged) {
        return rg_rdma_receive(call, body, writing, err);
    }
    if (rg_body_in_blocks(body)) {
        return receive_blocks(body, writing, err);
    }
    char *buffer;
    int rc = rg_buffer_take(call->gate->buffers, &buffer, err);
    if (rc < 0) {
        return rc;
    }
    rc = receive(body, writing, buffer, err);
    rg_buffer_give(call->gate->buffers, buffer);
    return rc;
}

/* ---- Sources of copies ---- */

void rg_copy_source_free(struct rg_copy_source *source)
{
    rg_buf_free(&source->text);
}

static int invalid_source(struct rg_call *call, struct span text, struct rg_error *err)
{
    return rg_call_invalid(call, "x-amz-copy-source", text,
                           "Copy Source must mention the source bucket and key: "
                           "sourcebucket/sourcekey",
                           err);
}

/* What stands behind the last bare "?": a "?" of the key is encoded. */
static int cut_version(struct rg_call *call, struct span *text, struct rg_error *err)
{
    static const char name[] = "?versionId=";
    const char *at = memmem(text->ptr, text->len, name, sizeof name - 1);
    if (!at) {
        return 0;
    }
    struct span version = rg_span_skip(*text, (size_t)(at - text->ptr) + sizeof name - 1);
    *text = rg_span_head(*text, (size_t)(at - text->ptr));
    if (!rg_span_is(version, "null")) {
        rg_call_detail(call, "VersionId", rg_span_head(version, 1024));
        return rg_fail(err, RG_NO_SUCH_VERSION);
    }
    return 0;
}

int rg_copy_source_read(struct rg_call *call, struct rg_copy_source *ret_source,
                        struct rg_error *err)
{
    struct span field = RG_SPAN_EMPTY;
    rg_call_header(call, "x-amz-copy-source", &field);
    struct span text = field;
    int rc = cut_version(call, &text, err);
    if (rc < 0) {
        return rc;
    }
    if (text.len > COPY_SOURCE_MAX) {
        return invalid_source(call, field, err);
    }
    ret_source->text = (struct rg_buf)RG_BUF_INIT(COPY_SOURCE_MAX);
    rc = rg_url_decode(text, RG_URL_PATH, &ret_source->text, NULL);
    if (rc == -RG_OUT_OF_MEMORY) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (rc < 0) {
        return invalid_source(call, field, err);
    }
    struct span rest = rg_buf_span(&ret_source->text);
    if (rg_span_starts(rest, RG_SPAN_LITERAL("arn:"))) {
        return rg_failf(err, RG_NOT_IMPLEMENTED, "Access points are not implemented.");
    }
    if (rg_span_starts(rest, RG_SPAN_LITERAL("/"))) {
        rest = rg_span_skip(rest, 1);
    }
    ret_source->bucket = rg_span_cut(&rest, '/');
    ret_source->key = rest.ptr ? rest : RG_SPAN_EMPTY;
    if (ret_source->bucket.len == 0 || ret_source->key.len == 0) {
        return invalid_source(call, field, err);
    }
    rc = rg_bucket_name_check(ret_source->bucket, err);
    if (rc < 0) {
        return rc;
    }
    return rg_key_check(ret_source->key, err);
}

int rg_copy_source_open(struct rg_call *call, const struct rg_copy_source *source,
                        struct rg_opened *ret_opened, struct rg_error *err)
{
    struct rg_conditions conditions;
    rg_conditions_read(call->headers, call->header_count, RG_CONDITIONS_COPY_SOURCE,
                       rg_clock_wall().tv_sec, &conditions);
    rg_call_enter_mount(call, source->bucket, source->key);
    int rc = rg_object_open(call, source->bucket, source->key, ret_opened, err);
    if (rc == -RG_NO_SUCH_KEY) {
        rg_call_detail(call, "Key", source->key);
    } else if (rc == -RG_NO_SUCH_BUCKET) {
        rg_call_detail(call, "BucketName", source->bucket);
    }
    if (rc < 0) {
        return rc;
    }
    const struct rg_object_info *info = rg_opened_info(ret_opened);
    rc = rg_conditions_check_copy_source(&conditions, rg_span_text(info->meta.etag),
                                         info->modified.tv_sec, err);
    if (rc == -RG_PRECONDITION_FAILED) {
        rg_call_detail(call, "Condition",
                       conditions.if_match.ptr ? RG_SPAN_LITERAL("x-amz-copy-source-If-Match")
                       : conditions.if_none_match.ptr
                           ? RG_SPAN_LITERAL("x-amz-copy-source-If-None-Match")
                       : conditions.has_unmodified_since
                           ? RG_SPAN_LITERAL("x-amz-copy-source-If-Unmodified-Since")
                           : RG_SPAN_LITERAL("x-amz-copy-source-If-Modified-Since"));
    }
    return rc;
}

/* ---- Answers ---- */

void rg_object_answer_etag(struct rg_call *call, const char *etag)
{
    rg_http_header_setf(call->http, "ETag", "\"%s\"", etag);
    if (call->rdma.push) {
        rg_http_header_setf(call->http, "X-Amz-Rdma-Etag", "\"%s\"", etag);
    }
}

void rg_object_answer_checksum(struct rg_call *call, const struct rg_checksum *checksum)
{
    if (checksum->algorithm == RG_CHECKSUM_NONE) {
        return;
    }
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    rg_checksum_format(checksum, text);
    rg_http_header_set(call->http, rg_checksum_header(checksum->algorithm), text);
    rg_http_header_set(call->http, "x-amz-checksum-type", rg_checksum_type_name(checksum->type));
}

void rg_object_answer_modified(struct rg_call *call, const struct rg_object_info *info)
{
    char text[RG_DATE_HTTP_SIZE];
    rg_date_format_http(info->modified.tv_sec, text);
    rg_http_header_set(call->http, "Last-Modified", text);
}

/* Metadata of foreign trees may hold what no field can: it is counted, as S3 does. */
static void answer_user_metadata(struct rg_call *call, const struct rg_pairs *user)
{
    unsigned missing = 0;
    for (size_t i = 0; i < user->count; i++) {
        char name[RG_METADATA_BYTES_MAX + sizeof "x-amz-meta-"];
        struct span bare = rg_span_text(user->items[i].name);
        if (rg_metadata_name_check(bare, NULL) < 0) {
            missing++;
            continue;
        }
        snprintf(name, sizeof name, "x-amz-meta-%s", user->items[i].name);
        const char *value = user->items[i].value;
        /* libmicrohttpd sends no empty value; blanks around one are no part of it (RFC 9110 5.5).
         */
        if (!rg_http_header_set(call->http, name, value[0] ? value : " ")) {
            missing++;
        }
    }
    if (missing) {
        rg_http_header_setf(call->http, "x-amz-missing-meta", "%u", missing);
    }
}

/* What response-* parameters put in place of a stored header. */
static const struct {
    enum rg_meta_header header;
    const char *parameter;
} overrides[] = {
    {RG_META_CONTENT_TYPE, "response-content-type"},
    {RG_META_CONTENT_ENCODING, "response-content-encoding"},
    {RG_META_CONTENT_LANGUAGE, "response-content-language"},
    {RG_META_CONTENT_DISPOSITION, "response-content-disposition"},
    {RG_META_CACHE_CONTROL, "response-cache-control"},
    {RG_META_EXPIRES, "response-expires"},
};

int rg_object_check_overrides(struct rg_call *call, struct rg_error *err)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(overrides); i++) {
        struct span value;
        if (!rg_call_param(call, overrides[i].parameter, &value)) {
            continue;
        }
        for (size_t b = 0; b < value.len; b++) {
            if ((unsigned char)value.ptr[b] < 0x20 || value.ptr[b] == 0x7f) {
                return rg_call_invalid(call, overrides[i].parameter, value,
                                       "Header value cannot be represented.", err);
            }
        }
    }
    return 0;
}

static bool find_override(const struct rg_call *call, enum rg_meta_header header,
                          struct span *ret_value)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(overrides); i++) {
        if (overrides[i].header == header) {
            return rg_call_param(call, overrides[i].parameter, ret_value);
        }
    }
    return false;
}

static void answer_system_headers(struct rg_call *call, const struct rg_meta *meta)
{
    for (unsigned i = 0; i < RG_META_HEADER_COUNT; i++) {
        struct span value;
        const char *stored = meta->header[i];
        if (find_override(call, (enum rg_meta_header)i, &value)) {
            rg_http_header_setf(call->http, rg_meta_header_name((enum rg_meta_header)i), "%.*s",
                                RG_SPAN_ARG(value));
        } else if (stored) {
            rg_http_header_set(call->http, rg_meta_header_name((enum rg_meta_header)i), stored);
        } else if (i == RG_META_CONTENT_TYPE) {
            rg_http_header_set(call->http, "Content-Type", RG_META_DEFAULT_TYPE);
        }
    }
}

void rg_object_answer_info(struct rg_call *call, const struct rg_object_info *info)
{
    rg_object_answer_etag(call, info->meta.etag);
    rg_object_answer_modified(call, info);
    rg_http_header_set(call->http, "Accept-Ranges", "bytes");
    if (info->is_foreign) {
        rg_http_header_set(call->http, "x-railgate-etag", "synthetic");
    }
    answer_system_headers(call, &info->meta);
    answer_user_metadata(call, &info->meta.user);
    if (info->meta.tags.count) {
        rg_http_header_setf(call->http, "x-amz-tagging-count", "%zu", info->meta.tags.count);
    }
}
