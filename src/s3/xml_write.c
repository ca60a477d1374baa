/*
 * The XML documents that answers carry: plain data in, text out. Element names and their order
 * follow the responses in the Amazon S3 API Reference.
 */
#include "s3/xml.h"

#include "base/assert.h"
#include "s3/date.h"

#include <inttypes.h>

#define NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"

/* ---- Pieces ---- */

static void open_root(struct rg_buf *out, const char *name)
{
    rg_buf_addf(out, RG_XML_DECLARATION "<%s xmlns=\"" NAMESPACE "\">", name);
}

static void empty_root(struct rg_buf *out, const char *name)
{
    rg_buf_addf(out, RG_XML_DECLARATION "<%s xmlns=\"" NAMESPACE "\"/>", name);
}

static void open_element(struct rg_buf *out, const char *name)
{
    rg_buf_addf(out, "<%s>", name);
}

static void close_element(struct rg_buf *out, const char *name)
{
    rg_buf_addf(out, "</%s>", name);
}

static bool needs_escape(unsigned char c)
{
    return c < 0x20 || c >= 0x7f || c == '&' || c == '<' || c == '>' || c == '"' || c == '\'';
}

/* Escapes the first character of `text` and returns how many bytes it had. */
static size_t escape_one(struct rg_buf *out, struct span text)
{
    unsigned char c = (unsigned char)text.ptr[0];
    switch (c) {
    case '&':
        rg_buf_add_text(out, "&amp;");
        return 1;
    case '<':
        rg_buf_add_text(out, "&lt;");
        return 1;
    case '>':
        rg_buf_add_text(out, "&gt;");
        return 1;
    case '"':
        rg_buf_add_text(out, "&quot;");
        return 1;
    case '\'':
        rg_buf_add_text(out, "&#39;");
        return 1;
    }
    if (c < 0x80) {
        rg_buf_addf(out, "&#x%X;", c);
        return 1;
    }
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    struct span character = rg_span_head(text, len);
    if (character.len == len && rg_span_is_utf8(character)) {
        rg_buf_add_span(out, character);
        return len;
    }
    rg_buf_add_text(out, "\xef\xbf\xbd");
    return 1;
}

void rg_xml_escape(struct rg_buf *out, struct span text)
{
    while (text.len) {
        size_t plain = 0;
        while (plain < text.len && !needs_escape((unsigned char)text.ptr[plain])) {
            plain++;
        }
        rg_buf_add(out, text.ptr, plain);
        text = rg_span_skip(text, plain);
        if (text.len) {
            text = rg_span_skip(text, escape_one(out, text));
        }
    }
}

static void add_text(struct rg_buf *out, const char *name, struct span text)
{
    open_element(out, name);
    rg_xml_escape(out, text);
    close_element(out, name);
}

static void add_word(struct rg_buf *out, const char *name, const char *text)
{
    add_text(out, name, rg_span_text(text));
}

static void add_given(struct rg_buf *out, const char *name, struct span text)
{
    if (text.ptr) {
        add_text(out, name, text);
    }
}

/* A key, prefix, delimiter or marker under encoding-type. */
static void add_name(struct rg_buf *out, const char *name, struct span text, bool url_encode)
{
    open_element(out, name);
    if (url_encode) {
        rg_url_encode(text, RG_URL_SLASH_KEPT, out);
    } else {
        rg_xml_escape(out, text);
    }
    close_element(out, name);
}

static void add_name_given(struct rg_buf *out, const char *name, struct span text, bool url_encode)
{
    if (text.ptr) {
        add_name(out, name, text, url_encode);
    }
}

static void add_number(struct rg_buf *out, const char *name, uint64_t value)
{
    rg_buf_addf(out, "<%s>%" PRIu64 "</%s>", name, value, name);
}

static void add_bool(struct rg_buf *out, const char *name, bool value)
{
    add_word(out, name, value ? "true" : "false");
}

static void add_time(struct rg_buf *out, const char *name, struct timespec time)
{
    char text[RG_DATE_ISO_SIZE];
    rg_date_format_iso(time, text);
    add_word(out, name, text);
}

static void add_etag(struct rg_buf *out, struct span etag)
{
    rg_buf_add_text(out, "<ETag>&quot;");
    rg_xml_escape(out, etag);
    rg_buf_add_text(out, "&quot;</ETag>");
}

static void add_owner(struct rg_buf *out, const char *name, const struct rg_xml_owner *owner)
{
    open_element(out, name);
    add_word(out, "ID", owner->id);
    add_word(out, "DisplayName", owner->display_name);
    close_element(out, name);
}

static void add_storage_class(struct rg_buf *out, struct span storage_class)
{
    add_text(out, "StorageClass", storage_class.len ? storage_class : RG_SPAN_LITERAL("STANDARD"));
}

static void add_checksum_value(struct rg_buf *out, const struct rg_checksum *checksum)
{
    char text[RG_CHECKSUM_TEXT_MAX + 1];
    if (checksum->algorithm != RG_CHECKSUM_NONE) {
        rg_checksum_format(checksum, text);
        add_word(out, rg_checksum_element(checksum->algorithm), text);
    }
}

static void add_checksum(struct rg_buf *out, const struct rg_checksum *checksum)
{
    if (checksum && checksum->algorithm != RG_CHECKSUM_NONE) {
        add_checksum_value(out, checksum);
        add_word(out, "ChecksumType", rg_checksum_type_name(checksum->type));
    }
}

static void add_checksum_kind(struct rg_buf *out, enum rg_checksum_algorithm algorithm,
                              enum rg_checksum_type type)
{
    if (algorithm != RG_CHECKSUM_NONE) {
        add_word(out, "ChecksumAlgorithm", rg_checksum_name(algorithm));
        add_word(out, "ChecksumType", rg_checksum_type_name(type));
    }
}

struct span rg_xml_without_declaration(struct span document)
{
    struct span declaration = RG_SPAN_LITERAL(RG_XML_DECLARATION);
    return rg_span_starts(document, declaration) ? rg_span_skip(document, declaration.len)
                                                 : document;
}

/* ---- Error ---- */

void rg_xml_error(struct rg_buf *out, const struct rg_xml_error *error)
{
    rg_buf_add_text(out, RG_XML_DECLARATION "<Error>");
    add_word(out, "Code", error->code);
    add_word(out, "Message", error->message);
    if (error->resource.len) {
        add_text(out, "Resource", error->resource);
    }
    for (size_t i = 0; i < error->extra_count; i++) {
        add_text(out, error->extra[i].name, error->extra[i].value);
    }
    add_word(out, "RequestId", error->request_id);
    add_word(out, "HostId", error->host_id);
    close_element(out, "Error");
}

/* ---- Listings ---- */

void rg_xml_list_buckets(struct rg_buf *out, const struct rg_xml_buckets *list)
{
    open_root(out, "ListAllMyBucketsResult");
    add_owner(out, "Owner", &list->owner);
    open_element(out, "Buckets");
    for (size_t i = 0; i < list->count; i++) {
        open_element(out, "Bucket");
        add_text(out, "Name", list->buckets[i].name);
        add_time(out, "CreationDate", list->buckets[i].created);
        close_element(out, "Bucket");
    }
    close_element(out, "Buckets");
    if (list->prefix.len) {
        add_text(out, "Prefix", list->prefix);
    }
    if (list->next_token.len) {
        add_text(out, "ContinuationToken", list->next_token);
    }
    close_element(out, "ListAllMyBucketsResult");
}

static void add_common_prefix(struct rg_buf *out, struct span prefix, bool url_encode)
{
    open_element(out, "CommonPrefixes");
    add_name(out, "Prefix", prefix, url_encode);
    close_element(out, "CommonPrefixes");
}

static void add_entries(struct rg_buf *out, const char *name, const struct rg_xml_listing *list,
                        bool versions)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct rg_xml_entry *entry = &list->entries[i];
        if (entry->is_prefix) {
            continue;
        }
        open_element(out, name);
        add_name(out, "Key", entry->key, list->url_encode);
        if (versions) {
            rg_buf_add_text(out, "<VersionId>null</VersionId><IsLatest>true</IsLatest>");
        }
        add_time(out, "LastModified", entry->modified);
        if (entry->etag.len) {
            add_etag(out, entry->etag);
        }
        add_checksum_kind(out, entry->checksum_algorithm, entry->checksum_type);
        add_number(out, "Size", entry->size);
        if (list->owner) {
            add_owner(out, "Owner", list->owner);
        }
        add_storage_class(out, entry->storage_class);
        close_element(out, name);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].is_prefix) {
            add_common_prefix(out, list->entries[i].key, list->url_encode);
        }
    }
}

/* What the three listings have in common, in front of the entries. */
static void add_listing_head(struct rg_buf *out, const struct rg_xml_listing *list)
{
    add_text(out, "Name", list->bucket);
    add_name(out, "Prefix", list->prefix, list->url_encode);
    add_number(out, "MaxKeys", list->max_keys);
    add_name_given(out, "Delimiter", list->delimiter, list->url_encode);
    if (list->url_encode) {
        add_word(out, "EncodingType", "url");
    }
    add_bool(out, "IsTruncated", list->truncated);
}

void rg_xml_list_objects(struct rg_buf *out, const struct rg_xml_listing *list)
{
    open_root(out, "ListBucketResult");
    add_listing_head(out, list);
    add_name(out, "Marker", list->marker, list->url_encode);
    add_name_given(out, "NextMarker", list->next_marker, list->url_encode);
    add_entries(out, "Contents", list, false);
    close_element(out, "ListBucketResult");
}

void rg_xml_list_objects_v2(struct rg_buf *out, const struct rg_xml_listing *list)
{
    open_root(out, "ListBucketResult");
    add_listing_head(out, list);
    add_number(out, "KeyCount", list->count);
    add_name_given(out, "StartAfter", list->start_after, list->url_encode);
    add_given(out, "ContinuationToken", list->token);
    add_given(out, "NextContinuationToken", list->next_token);
    add_entries(out, "Contents", list, false);
    close_element(out, "ListBucketResult");
}

void rg_xml_list_versions(struct rg_buf *out, const struct rg_xml_listing *list)
{
    open_root(out, "ListVersionsResult");
    add_listing_head(out, list);
    add_name(out, "KeyMarker", list->marker, list->url_encode);
    add_text(out, "VersionIdMarker", list->version_id_marker);
    if (list->next_marker.ptr) {
        add_name(out, "NextKeyMarker", list->next_marker, list->url_encode);
        add_word(out, "NextVersionIdMarker", "null");
    }
    add_entries(out, "Version", list, true);
    close_element(out, "ListVersionsResult");
}

/* ---- Multipart ---- */

static void add_upload(struct rg_buf *out, const struct rg_xml_uploads *list,
                       const struct rg_xml_upload *upload)
{
    open_element(out, "Upload");
    add_name(out, "Key", upload->key, list->url_encode);
    add_text(out, "UploadId", upload->id);
    add_owner(out, "Initiator", &list->owner);
    add_owner(out, "Owner", &list->owner);
    add_storage_class(out, RG_SPAN_EMPTY);
    add_time(out, "Initiated", upload->initiated);
    add_checksum_kind(out, upload->checksum_algorithm, upload->checksum_type);
    close_element(out, "Upload");
}

void rg_xml_list_uploads(struct rg_buf *out, const struct rg_xml_uploads *list)
{
    open_root(out, "ListMultipartUploadsResult");
    add_text(out, "Bucket", list->bucket);
    add_name(out, "KeyMarker", list->key_marker, list->url_encode);
    add_text(out, "UploadIdMarker", list->upload_id_marker);
    add_name_given(out, "NextKeyMarker", list->next_key_marker, list->url_encode);
    add_given(out, "NextUploadIdMarker", list->next_upload_id_marker);
    add_name(out, "Prefix", list->prefix, list->url_encode);
    add_name_given(out, "Delimiter", list->delimiter, list->url_encode);
    if (list->url_encode) {
        add_word(out, "EncodingType", "url");
    }
    add_number(out, "MaxUploads", list->max_uploads);
    add_bool(out, "IsTruncated", list->truncated);
    for (size_t i = 0; i < list->count; i++) {
        if (!list->uploads[i].is_prefix) {
            add_upload(out, list, &list->uploads[i]);
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->uploads[i].is_prefix) {
            add_common_prefix(out, list->uploads[i].key, list->url_encode);
        }
    }
    close_element(out, "ListMultipartUploadsResult");
}

void rg_xml_list_parts(struct rg_buf *out, const struct rg_xml_parts *list)
{
    open_root(out, "ListPartsResult");
    add_text(out, "Bucket", list->bucket);
    add_text(out, "Key", list->key);
    add_text(out, "UploadId", list->upload_id);
    add_owner(out, "Initiator", &list->owner);
    add_owner(out, "Owner", &list->owner);
    add_storage_class(out, RG_SPAN_EMPTY);
    add_number(out, "PartNumberMarker", list->marker);
    add_number(out, "NextPartNumberMarker", list->next_marker);
    add_number(out, "MaxParts", list->max_parts);
    add_bool(out, "IsTruncated", list->truncated);
    add_checksum_kind(out, list->checksum_algorithm, list->checksum_type);
    for (size_t i = 0; i < list->count; i++) {
        const struct rg_xml_part *part = &list->parts[i];
        open_element(out, "Part");
        add_number(out, "PartNumber", part->number);
        add_time(out, "LastModified", part->modified);
        add_etag(out, part->etag);
        add_number(out, "Size", part->size);
        add_checksum_value(out, &part->checksum);
        close_element(out, "Part");
    }
    close_element(out, "ListPartsResult");
}

void rg_xml_initiate_upload(struct rg_buf *out, struct span bucket, struct span key,
                            struct span upload_id)
{
    open_root(out, "InitiateMultipartUploadResult");
    add_text(out, "Bucket", bucket);
    add_text(out, "Key", key);
    add_text(out, "UploadId", upload_id);
    close_element(out, "InitiateMultipartUploadResult");
}

void rg_xml_complete_upload(struct rg_buf *out, struct span location, struct span bucket,
                            struct span key, struct span etag, const struct rg_checksum *checksum)
{
    open_root(out, "CompleteMultipartUploadResult");
    add_text(out, "Location", location);
    add_text(out, "Bucket", bucket);
    add_text(out, "Key", key);
    add_etag(out, etag);
    add_checksum(out, checksum);
    close_element(out, "CompleteMultipartUploadResult");
}

/* ---- Copy, delete ---- */

void rg_xml_copy_object(struct rg_buf *out, struct span etag, struct timespec modified,
                        const struct rg_checksum *checksum)
{
    open_root(out, "CopyObjectResult");
    add_time(out, "LastModified", modified);
    add_etag(out, etag);
    add_checksum(out, checksum);
    close_element(out, "CopyObjectResult");
}

void rg_xml_copy_part(struct rg_buf *out, struct span etag, struct timespec modified,
                      const struct rg_checksum *checksum)
{
    open_root(out, "CopyPartResult");
    add_time(out, "LastModified", modified);
    add_etag(out, etag);
    if (checksum) {
        add_checksum_value(out, checksum);
    }
    close_element(out, "CopyPartResult");
}

static void add_deleted(struct rg_buf *out, const struct rg_xml_deleted *key, bool quiet)
{
    bool failed = key->failure != RG_OK;
    if (quiet && !failed) {
        return;
    }
    const char *name = failed ? "Error" : "Deleted";
    open_element(out, name);
    add_text(out, "Key", key->key);
    if (key->version_id.len) {
        add_text(out, "VersionId", key->version_id);
    }
    if (failed) {
        add_word(out, "Code", rg_code_s3_name(key->failure));
        add_word(out, "Message", key->message ? key->message : rg_code_sentence(key->failure));
    }
    close_element(out, name);
}

void rg_xml_delete_result(struct rg_buf *out, const struct rg_xml_deleted *keys, size_t count,
                          bool quiet)
{
    open_root(out, "DeleteResult");
    for (size_t i = 0; i < count; i++) {
        add_deleted(out, &keys[i], quiet);
    }
    close_element(out, "DeleteResult");
}

/* ---- Buckets and objects ---- */

void rg_xml_location(struct rg_buf *out, struct span region)
{
    if (region.len == 0 || rg_span_is(region, "us-east-1")) {
        empty_root(out, "LocationConstraint");
        return;
    }
    open_root(out, "LocationConstraint");
    rg_xml_escape(out, region);
    close_element(out, "LocationConstraint");
}

void rg_xml_tagging(struct rg_buf *out, const struct rg_pairs *tags)
{
    open_root(out, "Tagging");
    open_element(out, "TagSet");
    for (size_t i = 0; i < tags->count; i++) {
        open_element(out, "Tag");
        add_word(out, "Key", tags->items[i].name);
        add_word(out, "Value", tags->items[i].value);
        close_element(out, "Tag");
    }
    close_element(out, "TagSet");
    close_element(out, "Tagging");
}

static void add_object_parts(struct rg_buf *out, const struct rg_xml_attributes *attributes)
{
    open_element(out, "ObjectParts");
    add_number(out, "PartsCount", attributes->part_total);
    if (attributes->parts) {
        add_number(out, "PartNumberMarker", attributes->part_marker);
        add_number(out, "NextPartNumberMarker", attributes->next_part_marker);
        add_number(out, "MaxParts", attributes->max_parts);
        add_bool(out, "IsTruncated", attributes->parts_truncated);
        for (size_t i = 0; i < attributes->part_count; i++) {
            open_element(out, "Part");
            add_number(out, "PartNumber", attributes->parts[i].number);
            add_number(out, "Size", attributes->parts[i].size);
            add_checksum_value(out, &attributes->parts[i].checksum);
            close_element(out, "Part");
        }
    }
    close_element(out, "ObjectParts");
}

void rg_xml_object_attributes(struct rg_buf *out, const struct rg_xml_attributes *attributes)
{
    open_root(out, "GetObjectAttributesResponse");
    if (attributes->want_etag) {
        add_text(out, "ETag", attributes->etag);
    }
    if (attributes->want_checksum && attributes->checksum.algorithm != RG_CHECKSUM_NONE) {
        /* Here alone S3 writes a composite checksum without its "-N". */
        struct rg_checksum bare = attributes->checksum;
        bare.parts = 0;
        open_element(out, "Checksum");
        add_checksum(out, &bare);
        close_element(out, "Checksum");
    }
    if (attributes->want_parts && attributes->part_total) {
        add_object_parts(out, attributes);
    }
    if (attributes->want_storage_class) {
        add_storage_class(out, attributes->storage_class);
    }
    if (attributes->want_size) {
        add_number(out, "ObjectSize", attributes->size);
    }
    close_element(out, "GetObjectAttributesResponse");
}

/* ---- Fixed documents ---- */

static void write_acl(struct rg_buf *out, const struct rg_xml_owner *owner)
{
    open_root(out, "AccessControlPolicy");
    add_owner(out, "Owner", owner);
    rg_buf_add_text(out, "<AccessControlList><Grant><Grantee "
                         "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                         "xsi:type=\"CanonicalUser\">");
    add_word(out, "ID", owner->id);
    add_word(out, "DisplayName", owner->display_name);
    rg_buf_add_text(out, "</Grantee><Permission>FULL_CONTROL</Permission></Grant>"
                         "</AccessControlList></AccessControlPolicy>");
}

void rg_xml_default(struct rg_buf *out, enum rg_operation operation,
                    const struct rg_xml_owner *owner)
{
    switch (operation) {
    case RG_OP_GET_BUCKET_ACL:
    case RG_OP_GET_OBJECT_ACL:
        write_acl(out, owner);
        return;
    case RG_OP_GET_BUCKET_ACCELERATE:
        empty_root(out, "AccelerateConfiguration");
        return;
    case RG_OP_GET_BUCKET_LOGGING:
        empty_root(out, "BucketLoggingStatus");
        return;
    case RG_OP_GET_BUCKET_NOTIFICATION:
        empty_root(out, "NotificationConfiguration");
        return;
    case RG_OP_GET_BUCKET_POLICY_STATUS:
        open_root(out, "PolicyStatus");
        add_bool(out, "IsPublic", false);
        close_element(out, "PolicyStatus");
        return;
    case RG_OP_GET_BUCKET_PAYMENT:
        open_root(out, "RequestPaymentConfiguration");
        add_word(out, "Payer", "BucketOwner");
        close_element(out, "RequestPaymentConfiguration");
        return;
    case RG_OP_GET_BUCKET_VERSIONING:
        empty_root(out, "VersioningConfiguration");
        return;
    default:
        RG_UNREACHABLE();
    }
}
