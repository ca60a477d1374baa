/*
 * Object metadata in memory: pairs, system headers, user metadata, tags. The stored form is
 * record.c.
 */
#include "s3/meta.h"

#include "base/checked.h"
#include "s3/names.h"
#include "s3/url.h"

#include <ctype.h>

/* ---- Pairs ---- */

static int find_index(const struct rg_pairs *pairs, struct span name)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (rg_span_is(name, pairs->items[i].name)) {
            return (int)i;
        }
    }
    return -1;
}

static int make_room(struct rg_pairs *pairs, struct rg_error *err)
{
    if (pairs->count < pairs->room) {
        return 0;
    }
    size_t room = pairs->room ? pairs->room * 2 : 8;
    struct rg_pair *items = realloc(pairs->items, room * sizeof(*items));
    if (!items) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    pairs->items = items;
    pairs->room = room;
    return 0;
}

int rg_pairs_add(struct rg_pairs *pairs, struct span name, struct span value, struct rg_error *err)
{
    if (rg_span_has_nul(name) || rg_span_has_nul(value)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "A name or value holds a NUL.");
    }
    if (find_index(pairs, name) >= 0) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The name %.*s is there twice.",
                        RG_SPAN_ARG(name));
    }
    size_t bytes = pairs->bytes;
    if (pairs->count >= RG_PAIRS_COUNT_MAX || !rg_add_checked(bytes, name.len, &bytes) ||
        !rg_add_checked(bytes, value.len, &bytes) || bytes > RG_PAIRS_BYTES_MAX) {
        return rg_failf(err, RG_LIMIT, "more than %u names, or %u bytes of names and values",
                        RG_PAIRS_COUNT_MAX, RG_PAIRS_BYTES_MAX);
    }
    int rc = make_room(pairs, err);
    if (rc) {
        return rc;
    }
    rg_autofree char *name_copy = rg_span_dup(name);
    rg_autofree char *value_copy = rg_span_dup(value);
    if (!name_copy || !value_copy) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    pairs->items[pairs->count++] =
        (struct rg_pair){.name = RG_TAKE(name_copy), .value = RG_TAKE(value_copy)};
    pairs->bytes = bytes;
    return 0;
}

const char *rg_pairs_find(const struct rg_pairs *pairs, struct span name)
{
    int i = find_index(pairs, name);
    return i < 0 ? NULL : pairs->items[i].value;
}

int rg_pairs_copy(const struct rg_pairs *pairs, struct rg_pairs *ret_copy, struct rg_error *err)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs copy = RG_PAIRS_INIT;
    for (size_t i = 0; i < pairs->count; i++) {
        int rc = rg_pairs_add(&copy, rg_span_text(pairs->items[i].name),
                              rg_span_text(pairs->items[i].value), err);
        if (rc) {
            return rc;
        }
    }
    *ret_copy = copy;
    copy = (struct rg_pairs)RG_PAIRS_INIT;
    return 0;
}

void rg_pairs_free(struct rg_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->items[i].name);
        free(pairs->items[i].value);
    }
    free(pairs->items);
    *pairs = (struct rg_pairs)RG_PAIRS_INIT;
}

bool rg_pairs_equal(const struct rg_pairs *a, const struct rg_pairs *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i].name, b->items[i].name) != 0 ||
            strcmp(a->items[i].value, b->items[i].value) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- System headers ---- */

static const char *const header_names[RG_META_HEADER_COUNT] = {
    [RG_META_CONTENT_TYPE] = "Content-Type",
    [RG_META_CONTENT_ENCODING] = "Content-Encoding",
    [RG_META_CONTENT_LANGUAGE] = "Content-Language",
    [RG_META_CONTENT_DISPOSITION] = "Content-Disposition",
    [RG_META_CACHE_CONTROL] = "Cache-Control",
    [RG_META_EXPIRES] = "Expires",
    [RG_META_WEBSITE_REDIRECT] = "x-amz-website-redirect-location",
    [RG_META_STORAGE_CLASS] = "x-amz-storage-class",
};

const char *rg_meta_header_name(enum rg_meta_header header)
{
    return (unsigned)header < RG_META_HEADER_COUNT ? header_names[header] : NULL;
}

bool rg_meta_header_from_name(struct span name, enum rg_meta_header *ret_header)
{
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        if (rg_span_is_nocase(name, header_names[i])) {
            *ret_header = (enum rg_meta_header)i;
            return true;
        }
    }
    return false;
}

/* ---- Metadata ---- */

void rg_meta_free(struct rg_meta *meta)
{
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        free(meta->header[i]);
    }
    rg_pairs_free(&meta->user);
    rg_pairs_free(&meta->tags);
    free(meta->parts);
    *meta = (struct rg_meta)RG_META_INIT;
}

static int copy_headers(const struct rg_meta *meta, struct rg_meta *copy, struct rg_error *err)
{
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        if (meta->header[i] && !(copy->header[i] = rg_span_dup(rg_span_text(meta->header[i])))) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    return 0;
}

static int copy_parts(const struct rg_meta *meta, struct rg_meta *copy, struct rg_error *err)
{
    if (meta->part_count == 0) {
        return 0;
    }
    copy->parts = calloc(meta->part_count, sizeof(*copy->parts));
    if (!copy->parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memcpy(copy->parts, meta->parts, meta->part_count * sizeof(*copy->parts));
    copy->part_count = meta->part_count;
    return 0;
}

int rg_meta_copy(const struct rg_meta *meta, struct rg_meta *ret_copy, struct rg_error *err)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta copy = RG_META_INIT;
    int rc = copy_headers(meta, &copy, err);
    rc = rc ? rc : rg_pairs_copy(&meta->user, &copy.user, err);
    rc = rc ? rc : rg_pairs_copy(&meta->tags, &copy.tags, err);
    rc = rc ? rc : copy_parts(meta, &copy, err);
    if (rc) {
        return rc;
    }
    memcpy(copy.etag, meta->etag, sizeof(copy.etag));
    copy.etag_is_md5 = meta->etag_is_md5;
    copy.checksum = meta->checksum;
    *ret_copy = copy;
    copy = (struct rg_meta)RG_META_INIT;
    return 0;
}

static bool text_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool rg_meta_equal(const struct rg_meta *a, const struct rg_meta *b)
{
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        if (!text_equal(a->header[i], b->header[i])) {
            return false;
        }
    }
    if (!rg_pairs_equal(&a->user, &b->user) || !rg_pairs_equal(&a->tags, &b->tags) ||
        strcmp(a->etag, b->etag) != 0 || a->etag_is_md5 != b->etag_is_md5 ||
        !rg_checksum_equal(&a->checksum, &b->checksum) || a->part_count != b->part_count) {
        return false;
    }
    for (size_t i = 0; i < a->part_count; i++) {
        if (a->parts[i].size != b->parts[i].size ||
            !rg_checksum_equal(&a->parts[i].checksum, &b->parts[i].checksum)) {
            return false;
        }
    }
    return true;
}

/* A value that goes back into an HTTP field: no control character but the tab. */
static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return true;
        }
    }
    return false;
}

int rg_meta_set_header(struct rg_meta *meta, enum rg_meta_header header, struct span value,
                       struct rg_error *err)
{
    if (value.len > RG_META_HEADER_MAX) {
        return rg_failf(err, RG_METADATA_TOO_LARGE, "The value of %s exceeds %u bytes.",
                        rg_meta_header_name(header), RG_META_HEADER_MAX);
    }
    if (has_control(value)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "The value of %s holds a control character.",
                        rg_meta_header_name(header));
    }
    char *copy = NULL;
    if (value.len && !(copy = rg_span_dup(value))) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    free(meta->header[header]);
    meta->header[header] = copy;
    return 0;
}

static int append_value(struct rg_pairs *pairs, int index, struct span value, struct rg_error *err)
{
    struct rg_pair *pair = &pairs->items[index];
    size_t old_len = strlen(pair->value);
    char *joined = malloc(old_len + 1 + value.len + 1);
    if (!joined) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    memcpy(joined, pair->value, old_len);
    joined[old_len] = ',';
    if (value.len) {
        memcpy(joined + old_len + 1, value.ptr, value.len);
    }
    joined[old_len + 1 + value.len] = '\0';
    free(pair->value);
    pair->value = joined;
    pairs->bytes += 1 + value.len;
    return 0;
}

int rg_meta_add_user(struct rg_meta *meta, struct span name, struct span value,
                     struct rg_error *err)
{
    value = rg_span_trim(value);
    int rc = rg_metadata_name_check(name, err);
    if (rc) {
        return rc;
    }
    if (has_control(value)) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "x-amz-meta-%.*s holds a control character.",
                        RG_SPAN_ARG(name));
    }
    char lower[RG_METADATA_BYTES_MAX];
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name.ptr = lower;
    int index = find_index(&meta->user, name);
    size_t added = value.len + (index < 0 ? name.len : 1);
    if (value.len > RG_METADATA_BYTES_MAX || meta->user.bytes + added > RG_METADATA_BYTES_MAX) {
        return rg_failf(err, RG_METADATA_TOO_LARGE,
                        "Your metadata headers exceed the maximum allowed metadata size of %u "
                        "bytes.",
                        RG_METADATA_BYTES_MAX);
    }
    if (index >= 0) {
        return append_value(&meta->user, index, value, err);
    }
    return rg_pairs_add(&meta->user, name, value, err);
}

/* ---- Tags ---- */

/* UTF-8 characters, or -1 when a character is not allowed in a tag. The text is UTF-8. */
static int count_tag_characters(struct span text)
{
    int count = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x80 && !isalnum(c) && (c == 0 || !strchr(" +-=._:/@", c))) {
            return -1;
        }
        if (c == 0xc2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xa0) {
            return -1; /* U+0080 to U+009F */
        }
        count += (c & 0xc0) != 0x80;
    }
    return count;
}

static int check_tag_text(struct span text, const char *what, unsigned least, unsigned most,
                          struct rg_error *err)
{
    /* Four bytes a character: bounds the work before the bytes are looked at. */
    int count =
        text.len <= (size_t)most * 4 && rg_span_is_utf8(text) ? count_tag_characters(text) : -1;
    if (count < (int)least || count > (int)most) {
        return rg_failf(err, RG_INVALID_TAG,
                        "The Tag%s you have provided is invalid: %u to %u letters, digits, spaces "
                        "and + - = . _ : / @ are allowed.",
                        what, least, most);
    }
    return 0;
}

int rg_tags_add(struct rg_pairs *tags, enum rg_tag_scope scope, struct span key, struct span value,
                struct rg_error *err)
{
    unsigned most = scope == RG_TAG_BUCKET ? RG_TAG_BUCKET_MAX : RG_TAG_OBJECT_MAX;
    int rc = check_tag_text(key, "Key", 1, RG_TAG_KEY_MAX, err);
    rc = rc ? rc : check_tag_text(value, "Value", 0, RG_TAG_VALUE_MAX, err);
    if (rc) {
        return rc;
    }
    if (key.len >= 4 && rg_span_is_nocase(rg_span_head(key, 4), "aws:")) {
        return rg_failf(err, RG_INVALID_TAG, "System tags cannot be added/updated by requester");
    }
    if (find_index(tags, key) >= 0) {
        return rg_failf(err, RG_INVALID_TAG, "Cannot provide multiple Tags with the same key");
    }
    if (tags->count >= most) {
        return rg_failf(err, RG_INVALID_TAG, "%s tags cannot be greater than %u",
                        scope == RG_TAG_BUCKET ? "Bucket" : "Object", most);
    }
    return rg_pairs_add(tags, key, value, err);
}

int rg_tags_parse_header(struct span text, struct rg_pairs *ret_tags, struct rg_error *err)
{
    static const char malformed[] =
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters "
        "without tag name duplicates.";
    RG_CLEANUP(rg_query_free) struct rg_query query = RG_QUERY_INIT;
    struct rg_error inner = RG_ERROR_INIT;
    int rc = rg_query_parse(text, &query, &inner);
    if (rc == -RG_INVALID_URI) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "%s", malformed);
    }
    if (rc) {
        return rg_failf(err, inner.code, "%s", inner.message);
    }
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    for (size_t i = 0; i < query.count; i++) {
        rc = rg_tags_add(&tags, RG_TAG_OBJECT, query.params[i].name, query.params[i].value, err);
        if (rc) {
            return rc;
        }
    }
    *ret_tags = tags;
    tags = (struct rg_pairs)RG_PAIRS_INIT;
    return 0;
}
