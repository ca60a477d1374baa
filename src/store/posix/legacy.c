/*
 * Metadata that versitygw left on files, read into a record. Its xattrs: user.etag (quoted),
 * user.metadata (a JSON map of user metadata; older trees: one xattr user.X-Amz-Meta.<name> each),
 * user.content-type and the like (plain), user.X-Amz-Tagging (a JSON map), user.checksums (JSON
 * with Algorithm, Type and one member an algorithm). Read only; the next write of the object puts
 * all of it into our own record, and the old xattrs stay where they are.
 *
 * They come from the disk, hence from anybody: what is malformed or too long is passed over.
 */
#include "store/posix/posix.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/xattr.h>

#define VALUE_BYTES_MAX (64u << 10)
#define OLD_META_PREFIX "user.X-Amz-Meta."

/* False when absent or unreadable. */
static bool read_value(int fd, const char *name, struct rg_buf *out)
{
    rg_buf_clear(out);
    char *to = rg_buf_reserve(out, VALUE_BYTES_MAX);
    if (!to) {
        return false;
    }
    ssize_t len = fgetxattr(fd, name, to, VALUE_BYTES_MAX);
    if (len < 0) {
        return false;
    }
    rg_buf_grew(out, (size_t)len);
    return true;
}

static struct span unquote(struct span text)
{
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"') {
        return rg_span(text.ptr + 1, text.len - 2);
    }
    return text;
}

static void read_etag(struct span text, struct rg_meta *meta)
{
    struct span etag = unquote(text);
    if (etag.len == 0 || etag.len > RG_ETAG_MAX || rg_span_has_nul(etag)) {
        return;
    }
    memcpy(meta->etag, etag.ptr, etag.len);
    meta->etag[etag.len] = '\0';
    meta->etag_is_md5 = rg_etag_looks_md5(etag);
}

static json_t *parse(const struct rg_buf *value)
{
    json_error_t error;
    return value->data ? json_loadb(value->data, value->len, JSON_REJECT_DUPLICATES, &error) : NULL;
}

static void read_pairs(const struct rg_buf *value, struct rg_meta *meta, bool tags)
{
    json_t *map = parse(value);
    const char *name;
    json_t *item;
    json_object_foreach(map, name, item)
    {
        const char *text = json_string_value(item);
        if (!text) {
            continue;
        }
        struct rg_error ignored;
        int rc = tags ? rg_tags_add(&meta->tags, RG_TAG_BUCKET, rg_span_text(name),
                                    rg_span_text(text), &ignored)
                      : rg_meta_add_user(meta, rg_span_text(name), rg_span_text(text), &ignored);
        (void)rc; /* passed over */
    }
    json_decref(map);
}

static void read_checksum(const struct rg_buf *value, struct rg_meta *meta)
{
    json_t *map = parse(value);
    const char *name = json_string_value(json_object_get(map, "Algorithm"));
    const char *type_name = json_string_value(json_object_get(map, "Type"));
    enum rg_checksum_algorithm algorithm;
    enum rg_checksum_type type = RG_CHECKSUM_FULL_OBJECT;
    struct rg_error ignored;
    struct rg_checksum checksum;
    if (name && rg_checksum_from_name(rg_span_text(name), &algorithm) &&
        (!type_name || rg_checksum_type_from_name(rg_span_text(type_name), &type))) {
        const char *text = json_string_value(json_object_get(map, rg_checksum_name(algorithm)));
        if (text && rg_checksum_parse(algorithm, rg_span_text(text), &checksum, &ignored) == 0 &&
            checksum.type == type) {
            meta->checksum = checksum;
        }
    }
    json_decref(map);
}

/* Older trees: one xattr a name. */
static void read_old_user(int fd, struct rg_buf *value, struct rg_meta *meta)
{
    RG_BUF(names, VALUE_BYTES_MAX);
    char *to = rg_buf_reserve(&names, VALUE_BYTES_MAX);
    ssize_t len = to ? flistxattr(fd, to, VALUE_BYTES_MAX) : -1;
    if (len <= 0) {
        return;
    }
    rg_buf_grew(&names, (size_t)len);
    struct span rest = rg_buf_span(&names);
    while (rest.ptr && rest.len) {
        struct span name = rg_span_cut(&rest, '\0');
        if (!rg_span_starts(name, RG_SPAN_LITERAL(OLD_META_PREFIX)) ||
            !read_value(fd, name.ptr, value)) {
            continue;
        }
        struct rg_error ignored;
        int rc = rg_meta_add_user(meta, rg_span_skip(name, sizeof OLD_META_PREFIX - 1),
                                  rg_buf_span(value), &ignored);
        (void)rc; /* passed over */
    }
}

int rg_posix_legacy_read(int fd, struct rg_record *ret_record, bool *ret_found,
                         struct rg_error *err)
{
    static const struct {
        const char *xattr;
        enum rg_meta_header header;
    } headers[] = {
        {"user.content-type", RG_META_CONTENT_TYPE},
        {"user.content-encoding", RG_META_CONTENT_ENCODING},
        {"user.content-language", RG_META_CONTENT_LANGUAGE},
        {"user.content-disposition", RG_META_CONTENT_DISPOSITION},
        {"user.cache-control", RG_META_CACHE_CONTROL},
        {"user.expires", RG_META_EXPIRES},
        {"user.website-redirect-location", RG_META_WEBSITE_REDIRECT},
    };
    /* One question decides for the many files that have none of these. */
    *ret_found = false;
    char none;
    if (flistxattr(fd, &none, 0) <= 0) {
        return 0;
    }
    RG_BUF(value, 2 * VALUE_BYTES_MAX);
    if (!rg_buf_reserve(&value, 1)) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct rg_record record = RG_RECORD_INIT;
    bool found = false;
    if (read_value(fd, "user.etag", &value)) {
        read_etag(rg_buf_span(&value), &record.meta);
        found = true;
    }
    if (read_value(fd, "user.X-Amz-Tagging", &value)) {
        read_pairs(&value, &record.meta, true);
        found = true;
    }
    if (read_value(fd, "user.metadata", &value)) {
        read_pairs(&value, &record.meta, false);
        found = true;
    } else if (found) {
        read_old_user(fd, &value, &record.meta);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(headers); i++) {
        if (read_value(fd, headers[i].xattr, &value)) {
            struct rg_error ignored;
            int rc =
                rg_meta_set_header(&record.meta, headers[i].header, rg_buf_span(&value), &ignored);
            found = rc == 0 || found;
        }
    }
    if (found && read_value(fd, "user.checksums", &value)) {
        read_checksum(&value, &record.meta);
    }
    *ret_record = record;
    *ret_found = found;
    return 0;
}
