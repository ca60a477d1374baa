/*
 * One walk over expat's events serves all documents: it keeps the path of the element it is in,
 * below the root, and hands the text of every leaf, and the end of every element, to the document.
 */
#include "client/answer.h"

#include "client/failure.h"

#include "base/attr.h"
#include "base/buf.h"
#include "s3/date.h"
#include "s3/url.h"

#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 64u
#define PATH_BYTES_MAX ((NAME_BYTES_MAX + 1) * RG_ANSWER_DEPTH_MAX)
#define SEPARATOR      '|'

struct walk {
    XML_Parser parser;
    const char *root;
    /* Called at the end of each element below the root; `text` is empty for one with children.
     * Less than 0 ends the walk. */
    int (*element)(struct walk *walk, const char *path, struct span text);
    void *target;
    char path[PATH_BYTES_MAX];
    size_t path_len[RG_ANSWER_DEPTH_MAX + 1];
    unsigned depth;
    bool is_leaf;
    struct rg_buf text;
    int rc;
    struct rg_error *err;
};

static void stop(struct walk *walk, int rc)
{
    if (walk->rc == 0) {
        walk->rc = rc;
    }
    XML_StopParser(walk->parser, XML_FALSE);
}

static int fail_parse(struct walk *walk, const char *why)
{
    return rg_failf(walk->err, RG_PARSE, "The server's answer is not understood: %s.", why);
}

static const char *local_name(const char *name)
{
    const char *separator = strrchr(name, SEPARATOR);
    return separator ? separator + 1 : name;
}

static bool push(struct walk *walk, const char *name)
{
    size_t at = walk->path_len[walk->depth];
    size_t len = strlen(name);
    if (walk->depth >= RG_ANSWER_DEPTH_MAX || len > NAME_BYTES_MAX) {
        return false;
    }
    if (walk->depth > 0) {
        if (at) {
            walk->path[at++] = '/';
        }
        memcpy(walk->path + at, name, len);
        at += len;
    }
    walk->path[at] = '\0';
    walk->path_len[++walk->depth] = at;
    return true;
}

static void XMLCALL on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *walk = context;
    (void)attributes;
    if (walk->rc) {
        return;
    }
    name = local_name(name);
    /* Some answers have one of several roots; NULL takes any. */
    if (walk->depth == 0 && walk->root && strcmp(name, walk->root) != 0) {
        stop(walk, rg_failf(walk->err, RG_PARSE,
                            "The server's answer is not understood: it is %.64s, not %s.", name,
                            walk->root));
        return;
    }
    if (!push(walk, name)) {
        stop(walk, fail_parse(walk, "it is nested too deeply, or a name is too long"));
        return;
    }
    rg_buf_clear(&walk->text);
    walk->is_leaf = true;
}

static void XMLCALL on_end(void *context, const XML_Char *name)
{
    struct walk *walk = context;
    (void)name;
    if (walk->rc) {
        return;
    }
    if (walk->depth > 1) {
        struct span text = walk->is_leaf ? rg_buf_span(&walk->text) : RG_SPAN_EMPTY;
        int rc = walk->element(walk, walk->path, text);
        if (rc < 0) {
            stop(walk, rc);
            return;
        }
    }
    walk->is_leaf = false;
    walk->depth--;
    walk->path[walk->path_len[walk->depth]] = '\0';
}

static void XMLCALL on_text(void *context, const XML_Char *text, int len)
{
    struct walk *walk = context;
    if (walk->rc || !walk->is_leaf) {
        return;
    }
    rg_buf_add(&walk->text, text, (size_t)len);
    if (!rg_buf_ok(&walk->text)) {
        stop(walk, fail_parse(walk, "a text is too long"));
    }
}

static void XMLCALL on_doctype(void *context, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal_subset)
{
    struct walk *walk = context;
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    stop(walk, fail_parse(walk, "it declares a document type"));
}

static int parse(struct walk *walk, struct span body)
{
    XML_SetUserData(walk->parser, walk);
    XML_SetElementHandler(walk->parser, on_start, on_end);
    XML_SetCharacterDataHandler(walk->parser, on_text);
    XML_SetStartDoctypeDeclHandler(walk->parser, on_doctype);
    bool is_fine = XML_Parse(walk->parser, body.ptr, (int)body.len, 1) == XML_STATUS_OK;
    if (is_fine || walk->rc) {
        return walk->rc;
    }
    enum XML_Error error = XML_GetErrorCode(walk->parser);
    return error == XML_ERROR_NO_MEMORY ? rg_fail(walk->err, RG_OUT_OF_MEMORY)
                                        : fail_parse(walk, XML_ErrorString(error));
}

static int walk_document(struct span body, const char *root,
                         int (*element)(struct walk *, const char *, struct span), void *target,
                         struct rg_error *err)
{
    struct walk walk = {
        .root = root,
        .element = element,
        .target = target,
        .text = RG_BUF_INIT(RG_ANSWER_TEXT_MAX),
        .err = err,
    };
    if (body.len > INT_MAX) {
        return fail_parse(&walk, "it is too long");
    }
    walk.parser = XML_ParserCreateNS(NULL, SEPARATOR);
    if (!walk.parser) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = parse(&walk, body);
    XML_ParserFree(walk.parser);
    rg_buf_free(&walk.text);
    return rc;
}

/* ---- Values ---- */

static struct span trim(struct span text)
{
    while (text.len && strchr(" \t\r\n", text.ptr[0]) && text.ptr[0]) {
        text = rg_span_skip(text, 1);
    }
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1]) && text.ptr[text.len - 1]) {
        text.len--;
    }
    return text;
}

static struct span unquoted(struct span text)
{
    text = trim(text);
    bool is_quoted = text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"';
    return is_quoted ? rg_span(text.ptr + 1, text.len - 2) : text;
}

static int keep_number(struct walk *walk, struct span text, uint64_t *ret_number)
{
    return rg_span_to_u64(trim(text), ret_number) ? 0 : fail_parse(walk, "a number is none");
}

static int keep_time(struct walk *walk, struct span text, time_t *ret_time)
{
    struct timespec time;
    if (!rg_date_parse_iso(trim(text), &time)) {
        return fail_parse(walk, "a date is none");
    }
    *ret_time = time.tv_sec;
    return 0;
}

/* A copy; an element that comes again replaces it. */
static int keep_text(struct walk *walk, struct span text, char **field)
{
    char *copy = rg_span_dup(text);
    if (!copy) {
        return rg_fail(walk->err, RG_OUT_OF_MEMORY);
    }
    free(*field);
    *field = copy;
    return 0;
}

/* Whether the document says that its names are in the encoding of encoding-type=url. Servers that
 * know nothing of that parameter answer names as they are. */
static bool says_encoded(const char *path, struct span text)
{
    return strcmp(path, "EncodingType") == 0 && rg_span_is(trim(text), "url");
}

/* In place: a name never becomes longer. */
static int decode_name(char *name, struct rg_error *err)
{
    RG_BUF(decoded, RG_ANSWER_TEXT_MAX);
    struct rg_error own = RG_ERROR_INIT;
    if (!name) {
        return 0;
    }
    if (rg_url_decode(rg_span_text(name), RG_URL_QUERY, &decoded, &own) < 0) {
        return own.code == RG_OUT_OF_MEMORY
                   ? rg_fail(err, RG_OUT_OF_MEMORY)
                   : rg_failf(err, RG_PARSE,
                              "The server's answer is not understood: a key is not encoded as "
                              "asked.");
    }
    memcpy(name, rg_buf_text(&decoded), decoded.len + 1);
    return 0;
}

/* Makes room for one more; array and count are the target's. NULL: *rc says why. */
static void *grow(struct walk *walk, void *array, size_t count, size_t size, int *rc)
{
    if (count >= RG_ANSWER_ENTRIES_MAX) {
        *rc = fail_parse(walk, "it has too many entries");
        return NULL;
    }
    if (count & (count - 1)) { /* room grows at powers of two */
        return array;
    }
    void *grown = reallocarray(array, count ? 2 * count : 1, size);
    if (!grown) {
        *rc = rg_fail(walk->err, RG_OUT_OF_MEMORY);
    }
    return grown;
}

/* ---- Errors ---- */

static int error_element(struct walk *walk, const char *path, struct span text)
{
    struct rg_answer_error *error = walk->target;
    if (strcmp(path, "Code") == 0) {
        rg_failure_copy(error->code, sizeof error->code, trim(text));
    } else if (strcmp(path, "Message") == 0) {
        rg_failure_copy(error->message, sizeof error->message, trim(text));
    } else if (strcmp(path, "RequestId") == 0) {
        rg_failure_copy(error->request_id, sizeof error->request_id, trim(text));
    }
    return 0;
}

bool rg_answer_error_read(struct span body, struct rg_answer_error *ret_error)
{
    memset(ret_error, 0, sizeof *ret_error);
    return walk_document(body, "Error", error_element, ret_error, NULL) == 0 && ret_error->code[0];
}

/* ---- Listings ---- */

static void free_entry(struct rg_answer_entry *entry)
{
    free(entry->key);
}

void rg_answer_page_free(struct rg_answer_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        free_entry(&page->entries[i]);
    }
    free(page->entries);
    free(page->next);
    memset(page, 0, sizeof *page);
}

struct page_reader {
    struct rg_answer_page page;
    struct rg_answer_entry entry; /* being read */
    bool truncated;
    bool encoded;
};

static int add_entry(struct walk *walk, struct page_reader *reader, bool is_prefix)
{
    struct rg_answer_page *page = &reader->page;
    if (!reader->entry.key) {
        return fail_parse(walk, "an entry has no name");
    }
    int rc = 0;
    struct rg_answer_entry *grown =
        grow(walk, page->entries, page->count, sizeof *page->entries, &rc);
    if (!grown) {
        return rc;
    }
    page->entries = grown;
    reader->entry.is_prefix = is_prefix;
    grown[page->count++] = reader->entry;
    memset(&reader->entry, 0, sizeof reader->entry);
    return 0;
}

static int object_element(struct walk *walk, const char *path, struct span text)
{
    struct page_reader *reader = walk->target;
    if (strcmp(path, "Contents/Key") == 0 || strcmp(path, "CommonPrefixes/Prefix") == 0) {
        return keep_text(walk, text, &reader->entry.key);
    }
    if (strcmp(path, "Contents/Size") == 0) {
        return keep_number(walk, text, &reader->entry.size);
    }
    if (strcmp(path, "Contents/LastModified") == 0) {
        return keep_time(walk, text, &reader->entry.modified);
    }
    if (strcmp(path, "Contents/ETag") == 0) {
        rg_failure_copy(reader->entry.etag, sizeof reader->entry.etag, unquoted(text));
    } else if (strcmp(path, "Contents") == 0) {
        return add_entry(walk, reader, false);
    } else if (strcmp(path, "CommonPrefixes") == 0) {
        return add_entry(walk, reader, true);
    } else if (strcmp(path, "NextContinuationToken") == 0) {
        return keep_text(walk, text, &reader->page.next);
    } else if (strcmp(path, "IsTruncated") == 0) {
        reader->truncated = rg_span_is(trim(text), "true");
    }
    reader->encoded = reader->encoded || says_encoded(path, text);
    return 0;
}

static int bucket_element(struct walk *walk, const char *path, struct span text)
{
    struct page_reader *reader = walk->target;
    if (strcmp(path, "Buckets/Bucket/Name") == 0) {
        return keep_text(walk, trim(text), &reader->entry.key);
    }
    if (strcmp(path, "Buckets/Bucket/CreationDate") == 0) {
        return keep_time(walk, text, &reader->entry.modified);
    }
    if (strcmp(path, "Buckets/Bucket") == 0) {
        return add_entry(walk, reader, false);
    }
    if (strcmp(path, "ContinuationToken") == 0 && trim(text).len) {
        reader->truncated = true;
        return keep_text(walk, text, &reader->page.next);
    }
    return 0;
}

/* Keys and common prefixes stand in two groups; callers want one order. */
static int compare_entries(const void *a, const void *b)
{
    const struct rg_answer_entry *one = a;
    const struct rg_answer_entry *other = b;
    return rg_span_compare(rg_span_text(one->key), rg_span_text(other->key));
}

static int read_page(struct span body, const char *root,
                     int (*element)(struct walk *, const char *, struct span),
                     struct rg_answer_page *ret_page, struct rg_error *err)
{
    struct page_reader reader = {.truncated = false};
    int rc = walk_document(body, root, element, &reader, err);
    free_entry(&reader.entry);
    for (size_t i = 0; rc == 0 && reader.encoded && i < reader.page.count; i++) {
        rc = decode_name(reader.page.entries[i].key, err);
    }
    if (rc == 0 && reader.truncated && !reader.page.next) {
        rc = rg_failf(err, RG_PARSE,
                      "The server's answer is not understood: a listing ends without saying how "
                      "it goes on.");
    }
    if (rc < 0) {
        rg_answer_page_free(&reader.page);
        return rc;
    }
    if (!reader.truncated) {
        free(RG_TAKE(reader.page.next));
    }
    if (reader.page.count > 1) {
        qsort(reader.page.entries, reader.page.count, sizeof *reader.page.entries, compare_entries);
    }
    *ret_page = reader.page;
    return 0;
}

int rg_answer_objects_read(struct span body, struct rg_answer_page *ret_page, struct rg_error *err)
{
    return read_page(body, "ListBucketResult", object_element, ret_page, err);
}

int rg_answer_buckets_read(struct span body, struct rg_answer_page *ret_page, struct rg_error *err)
{
    return read_page(body, "ListAllMyBucketsResult", bucket_element, ret_page, err);
}

/* ---- Multipart ---- */

static int upload_id_element(struct walk *walk, const char *path, struct span text)
{
    char **id = walk->target;
    return strcmp(path, "UploadId") == 0 ? keep_text(walk, trim(text), id) : 0;
}

int rg_answer_upload_id_read(struct span body, char **ret_id, struct rg_error *err)
{
    char *id = NULL;
    int rc = walk_document(body, "InitiateMultipartUploadResult", upload_id_element, &id, err);
    if (rc == 0 && (!id || !id[0])) {
        rc = rg_failf(err, RG_PARSE, "The server's answer is not understood: no upload id.");
    }
    if (rc < 0) {
        free(id);
        return rc;
    }
    *ret_id = id;
    return 0;
}

static int stored_element(struct walk *walk, const char *path, struct span text)
{
    struct rg_answer_stored *stored = walk->target;
    if (strcmp(path, "ETag") == 0) {
        rg_failure_copy(stored->etag, sizeof stored->etag, unquoted(text));
    } else if (strcmp(path, "ChecksumCRC64NVME") == 0) {
        rg_failure_copy(stored->crc64, sizeof stored->crc64, trim(text));
    }
    return 0;
}

int rg_answer_stored_read(struct span body, struct rg_answer_stored *ret_stored,
                          struct rg_error *err)
{
    struct rg_answer_stored stored = {.etag = ""};
    int rc = walk_document(body, NULL, stored_element, &stored, err);
    if (rc == 0 && !stored.etag[0]) {
        rc = rg_failf(err, RG_PARSE, "The server's answer is not understood: no ETag.");
    }
    if (rc == 0) {
        *ret_stored = stored;
    }
    return rc;
}

struct parts_reader {
    struct rg_answer_parts parts;
    struct rg_answer_part part;
};

void rg_answer_parts_free(struct rg_answer_parts *parts)
{
    free(parts->parts);
    memset(parts, 0, sizeof *parts);
}

static int add_part(struct walk *walk, struct parts_reader *reader)
{
    struct rg_answer_parts *parts = &reader->parts;
    if (reader->part.number == 0) {
        return fail_parse(walk, "a part has no number");
    }
    int rc = 0;
    struct rg_answer_part *grown =
        grow(walk, parts->parts, parts->count, sizeof *parts->parts, &rc);
    if (!grown) {
        return rc;
    }
    parts->parts = grown;
    grown[parts->count++] = reader->part;
    memset(&reader->part, 0, sizeof reader->part);
    return 0;
}

static int keep_part_number(struct walk *walk, struct span text, uint32_t *ret_number)
{
    uint64_t number;
    int rc = keep_number(walk, text, &number);
    if (rc == 0 && number > RG_ANSWER_ENTRIES_MAX) {
        rc = fail_parse(walk, "a part's number is too large");
    }
    if (rc == 0) {
        *ret_number = (uint32_t)number;
    }
    return rc;
}

static int part_element(struct walk *walk, const char *path, struct span text)
{
    struct parts_reader *reader = walk->target;
    struct rg_answer_part *part = &reader->part;
    if (strcmp(path, "Part/PartNumber") == 0) {
        return keep_part_number(walk, text, &part->number);
    }
    if (strcmp(path, "Part/Size") == 0) {
        return keep_number(walk, text, &part->size);
    }
    if (strcmp(path, "Part/ETag") == 0) {
        rg_failure_copy(part->etag, sizeof part->etag, unquoted(text));
    } else if (strcmp(path, "Part/ChecksumCRC64NVME") == 0) {
        rg_failure_copy(part->crc64, sizeof part->crc64, trim(text));
    } else if (strcmp(path, "Part") == 0) {
        return add_part(walk, reader);
    } else if (strcmp(path, "NextPartNumberMarker") == 0 && trim(text).len) {
        return keep_part_number(walk, text, &reader->parts.next);
    } else if (strcmp(path, "IsTruncated") == 0) {
        reader->parts.truncated = rg_span_is(trim(text), "true");
    }
    return 0;
}

int rg_answer_parts_read(struct span body, struct rg_answer_parts *ret_parts, struct rg_error *err)
{
    struct parts_reader reader = {.part.number = 0};
    int rc = walk_document(body, "ListPartsResult", part_element, &reader, err);
    if (rc < 0) {
        rg_answer_parts_free(&reader.parts);
        return rc;
    }
    *ret_parts = reader.parts;
    return 0;
}

struct uploads_reader {
    struct rg_answer_uploads uploads;
    struct rg_answer_upload upload;
    bool encoded;
};

static void free_upload(struct rg_answer_upload *upload)
{
    free(upload->key);
    free(upload->id);
}

void rg_answer_uploads_free(struct rg_answer_uploads *uploads)
{
    for (size_t i = 0; i < uploads->count; i++) {
        free_upload(&uploads->uploads[i]);
    }
    free(uploads->uploads);
    free(uploads->next_key);
    free(uploads->next_id);
    memset(uploads, 0, sizeof *uploads);
}

static int add_upload(struct walk *walk, struct uploads_reader *reader)
{
    struct rg_answer_uploads *uploads = &reader->uploads;
    if (!reader->upload.key || !reader->upload.id) {
        return fail_parse(walk, "an upload has no key or no id");
    }
    int rc = 0;
    struct rg_answer_upload *grown =
        grow(walk, uploads->uploads, uploads->count, sizeof *uploads->uploads, &rc);
    if (!grown) {
        return rc;
    }
    uploads->uploads = grown;
    grown[uploads->count++] = reader->upload;
    memset(&reader->upload, 0, sizeof reader->upload);
    return 0;
}

static int upload_element(struct walk *walk, const char *path, struct span text)
{
    struct uploads_reader *reader = walk->target;
    if (strcmp(path, "Upload/Key") == 0) {
        return keep_text(walk, text, &reader->upload.key);
    }
    if (strcmp(path, "Upload/UploadId") == 0) {
        return keep_text(walk, trim(text), &reader->upload.id);
    }
    if (strcmp(path, "Upload/Initiated") == 0) {
        return keep_time(walk, text, &reader->upload.initiated);
    }
    if (strcmp(path, "Upload") == 0) {
        return add_upload(walk, reader);
    }
    if (strcmp(path, "NextKeyMarker") == 0) {
        return keep_text(walk, text, &reader->uploads.next_key);
    }
    if (strcmp(path, "NextUploadIdMarker") == 0) {
        return keep_text(walk, trim(text), &reader->uploads.next_id);
    }
    if (strcmp(path, "IsTruncated") == 0) {
        reader->uploads.truncated = rg_span_is(trim(text), "true");
    }
    reader->encoded = reader->encoded || says_encoded(path, text);
    return 0;
}

int rg_answer_uploads_read(struct span body, struct rg_answer_uploads *ret_uploads,
                           struct rg_error *err)
{
    struct uploads_reader reader = {.upload.key = NULL};
    int rc = walk_document(body, "ListMultipartUploadsResult", upload_element, &reader, err);
    free_upload(&reader.upload);
    for (size_t i = 0; rc == 0 && reader.encoded && i < reader.uploads.count; i++) {
        rc = decode_name(reader.uploads.uploads[i].key, err);
    }
    if (rc == 0 && reader.encoded) {
        rc = decode_name(reader.uploads.next_key, err);
    }
    if (rc < 0) {
        rg_answer_uploads_free(&reader.uploads);
        return rc;
    }
    *ret_uploads = reader.uploads;
    return 0;
}
