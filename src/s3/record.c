/*
 * The stored form of metadata: struct rg_record to bytes and back. meta.h describes the outer form;
 * the bodies of the fields stand with their numbers below. What one side writes the other accepts:
 * both hold texts to the same rules, so that nothing read from a disk can break out of a header.
 */
#include "s3/meta.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/encode.h"
#include "s3/names.h"

#include <stdio.h>

#define MAGIC   'R'
#define VERSION 1

/* Field numbers: append only. A tag is number * 2 + 1 when the field is mandatory. */
enum field {
    FIELD_ETAG_MD5 = 1,         /* 16 bytes: the ETag in hex is them, and they are the MD5 */
    FIELD_ETAG_DIGEST = 2,      /* 16 bytes, parts (varint; 0: no suffix): not an MD5 */
    FIELD_ETAG_TEXT = 3,        /* 1 byte (1: it is the MD5), text: any other ETag */
    FIELD_FILE = 4,             /* size, mtime seconds (zigzag), nanoseconds: varints */
    FIELD_MODIFIED = 5,         /* seconds (zigzag), nanoseconds */
    FIELD_CHECKSUM = 6,         /* algorithm, type (1 byte each), parts, bytes */
    FIELD_SIDECAR = 7,          /* 16 bytes */
    FIELD_HEADERS = 8,          /* { number, length, value } ascending numbers */
    FIELD_USER = 9,             /* { length, name, length, value } */
    FIELD_TAGS = 10,            /* likewise */
    FIELD_PART_SIZES = 11,      /* { run, size } runs of parts of equal size */
    FIELD_PART_CHECKSUMS = 12,  /* { run, algorithm (1 byte), run * bytes } */
    FIELD_KEY = 13,             /* text */
    FIELD_UPLOAD_CHECKSUM = 14, /* algorithm, type (1 byte each) */
    FIELD_MD5 = 15,             /* 16 bytes */
    FIELD_UPLOAD_ID = 16,       /* 16 bytes; may be skipped */
    FIELD_COUNT
};

#define KEY_MAX 4096u

static uint64_t tag_of(enum field field)
{
    return (uint64_t)field * 2 + (field != FIELD_UPLOAD_ID);
}

void rg_record_free(struct rg_record *record)
{
    rg_meta_free(&record->meta);
    free(record->key);
    *record = (struct rg_record)RG_RECORD_INIT;
}

/* ---- Rules for texts, in both directions ---- */

static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool etag_is_sound(struct span etag)
{
    return etag.len <= RG_ETAG_MAX && is_plain(etag) && rg_span_find(etag, '"') < 0;
}

static bool user_is_sound(const struct rg_pairs *user)
{
    for (size_t i = 0; i < user->count; i++) {
        if (rg_metadata_name_check(rg_span_text(user->items[i].name), NULL) != 0 ||
            !is_plain(rg_span_text(user->items[i].value))) {
            return false;
        }
    }
    return true;
}

static bool checksum_is_sound(const struct rg_checksum *checksum)
{
    return (unsigned)checksum->algorithm < RG_CHECKSUM_ALGORITHM_COUNT &&
           (unsigned)checksum->type <= RG_CHECKSUM_COMPOSITE;
}

static bool parts_are_sound(const struct rg_meta *meta)
{
    uint64_t total = 0;
    if (meta->part_count > RG_META_PARTS_MAX) {
        return false;
    }
    for (size_t i = 0; i < meta->part_count; i++) {
        const struct rg_checksum *checksum = &meta->parts[i].checksum;
        if (!checksum_is_sound(checksum) || !rg_add_checked(total, meta->parts[i].size, &total)) {
            return false;
        }
        if (checksum->algorithm != RG_CHECKSUM_NONE &&
            (checksum->type != RG_CHECKSUM_FULL_OBJECT || checksum->parts)) {
            return false;
        }
    }
    return true;
}

/* What breaks the rules, or NULL. */
static const char *find_fault(const struct rg_record *record)
{
    const struct rg_meta *meta = &record->meta;
    if (!memchr(meta->etag, 0, sizeof(meta->etag)) || !etag_is_sound(rg_span_text(meta->etag))) {
        return "the ETag";
    }
    for (int i = 0; i < RG_META_HEADER_COUNT; i++) {
        struct span value = rg_span_text(meta->header[i]);
        if (value.len > RG_META_HEADER_MAX || !is_plain(value)) {
            return "a system header";
        }
    }
    if (!user_is_sound(&meta->user)) {
        return "the user metadata";
    }
    if (!checksum_is_sound(&meta->checksum)) {
        return "the checksum";
    }
    if (!parts_are_sound(meta)) {
        return "the part table";
    }
    if (record->mtime_ns > 999999999 || record->modified.tv_nsec < 0 ||
        record->modified.tv_nsec > 999999999) {
        return "a time";
    }
    if ((unsigned)record->upload_algorithm >= RG_CHECKSUM_ALGORITHM_COUNT ||
        (unsigned)record->upload_type > RG_CHECKSUM_COMPOSITE) {
        return "the upload's checksum";
    }
    if (record->key && strlen(record->key) > KEY_MAX) {
        return "the key";
    }
    return NULL;
}

/* ---- Writing ---- */

static void put_varint(struct rg_buf *out, uint64_t value)
{
    while (value >= 0x80) {
        rg_buf_add_char(out, (char)(0x80 | (value & 0x7f)));
        value >>= 7;
    }
    rg_buf_add_char(out, (char)value);
}

static void put_zigzag(struct rg_buf *out, int64_t value)
{
    put_varint(out, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

/* Empties `body` for the next field. Clearing forgets a failure, so it is handed to `out` first. */
static void begin_body(struct rg_buf *out, struct rg_buf *body)
{
    out->failed = out->failed || !rg_buf_ok(body);
    rg_buf_clear(body);
}

static void put_counted(struct rg_buf *out, struct span bytes)
{
    put_varint(out, bytes.len);
    rg_buf_add_span(out, bytes);
}

static void put_field(struct rg_buf *out, enum field field, struct span body)
{
    put_varint(out, tag_of(field));
    put_counted(out, body);
}

/* 32 digits, or 32 digits "-N" exactly as it is printed again. */
static bool split_etag(const char *etag, uint8_t digest[16], uint32_t *ret_parts)
{
    struct span text = rg_span_text(etag);
    uint64_t parts = 0;
    if (!rg_etag_digest(text, digest)) {
        return false;
    }
    if (text.len > 32) {
        struct span suffix = rg_span_skip(text, 33);
        if (suffix.ptr[0] == '0' || !rg_span_to_u64(suffix, &parts) || parts > UINT32_MAX) {
            return false;
        }
    }
    *ret_parts = (uint32_t)parts;
    return true;
}

static void put_etag(struct rg_buf *out, const struct rg_meta *meta, struct rg_buf *body)
{
    uint8_t digest[16];
    uint32_t parts;
    if (!meta->etag[0] && !meta->etag_is_md5) {
        return;
    }
    begin_body(out, body);
    if (!split_etag(meta->etag, digest, &parts) || (meta->etag_is_md5 && parts)) {
        rg_buf_add_char(body, meta->etag_is_md5);
        rg_buf_add_text(body, meta->etag);
        put_field(out, FIELD_ETAG_TEXT, rg_buf_span(body));
        return;
    }
    rg_buf_add(body, digest, sizeof(digest));
    if (!meta->etag_is_md5) {
        put_varint(body, parts);
    }
    put_field(out, meta->etag_is_md5 ? FIELD_ETAG_MD5 : FIELD_ETAG_DIGEST, rg_buf_span(body));
}

static void put_times(struct rg_buf *out, const struct rg_record *record, struct rg_buf *body)
{
    if (record->has_file) {
        begin_body(out, body);
        put_varint(body, record->size);
        put_zigzag(body, record->mtime_s);
        put_varint(body, record->mtime_ns);
        put_field(out, FIELD_FILE, rg_buf_span(body));
    }
    if (record->has_modified) {
        begin_body(out, body);
        put_zigzag(body, record->modified.tv_sec);
        put_varint(body, (uint64_t)record->modified.tv_nsec);
        put_field(out, FIELD_MODIFIED, rg_buf_span(body));
    }
}

static void put_checksum(struct rg_buf *out, const struct rg_checksum *checksum,
                         struct rg_buf *body)
{
    if (checksum->algorithm == RG_CHECKSUM_NONE) {
        return;
    }
    begin_body(out, body);
    rg_buf_add_char(body, (char)checksum->algorithm);
    rg_buf_add_char(body, (char)checksum->type);
    put_varint(body, checksum->parts);
    rg_buf_add(body, checksum->bytes, rg_checksum_length(checksum->algorithm));
    put_field(out, FIELD_CHECKSUM, rg_buf_span(body));
}

static void put_headers(struct rg_buf *out, const struct rg_meta *meta, struct rg_buf *body)
{
    begin_body(out, body);
    for (unsigned i = 0; i < RG_META_HEADER_COUNT; i++) {
        if (meta->header[i]) {
            put_varint(body, i);
            put_counted(body, rg_span_text(meta->header[i]));
        }
    }
    if (body->len) {
        put_field(out, FIELD_HEADERS, rg_buf_span(body));
    }
}

static void put_pairs(struct rg_buf *out, enum field field, const struct rg_pairs *pairs,
                      struct rg_buf *body)
{
    if (pairs->count == 0) {
        return;
    }
    begin_body(out, body);
    for (size_t i = 0; i < pairs->count; i++) {
        put_counted(body, rg_span_text(pairs->items[i].name));
        put_counted(body, rg_span_text(pairs->items[i].value));
    }
    put_field(out, field, rg_buf_span(body));
}

static void put_part_sizes(struct rg_buf *out, const struct rg_meta *meta, struct rg_buf *body)
{
    begin_body(out, body);
    for (size_t i = 0, run; i < meta->part_count; i += run) {
        for (run = 1;
             i + run < meta->part_count && meta->parts[i + run].size == meta->parts[i].size;
             run++) {
        }
        put_varint(body, run);
        put_varint(body, meta->parts[i].size);
    }
    put_field(out, FIELD_PART_SIZES, rg_buf_span(body));
}

static void put_part_checksums(struct rg_buf *out, const struct rg_meta *meta, struct rg_buf *body)
{
    bool any = false;
    begin_body(out, body);
    for (size_t i = 0, run; i < meta->part_count; i += run) {
        enum rg_checksum_algorithm algorithm = meta->parts[i].checksum.algorithm;
        for (run = 1;
             i + run < meta->part_count && meta->parts[i + run].checksum.algorithm == algorithm;
             run++) {
        }
        put_varint(body, run);
        rg_buf_add_char(body, (char)algorithm);
        for (size_t j = i; j < i + run; j++) {
            rg_buf_add(body, meta->parts[j].checksum.bytes, rg_checksum_length(algorithm));
        }
        any = any || algorithm != RG_CHECKSUM_NONE;
    }
    if (any) {
        put_field(out, FIELD_PART_CHECKSUMS, rg_buf_span(body));
    }
}

static void put_upload(struct rg_buf *out, const struct rg_record *record)
{
    if (record->key) {
        put_field(out, FIELD_KEY, rg_span_text(record->key));
    }
    if (record->upload_algorithm != RG_CHECKSUM_NONE) {
        const char bytes[] = {(char)record->upload_algorithm, (char)record->upload_type};
        put_field(out, FIELD_UPLOAD_CHECKSUM, rg_span(bytes, sizeof(bytes)));
    }
    if (record->has_md5) {
        put_field(out, FIELD_MD5, rg_span(record->md5, sizeof(record->md5)));
    }
    if (record->has_upload_id) {
        put_field(out, FIELD_UPLOAD_ID, rg_span(record->upload_id, sizeof(record->upload_id)));
    }
}

int rg_record_encode(const struct rg_record *record, struct rg_buf *out, struct rg_error *err)
{
    const struct rg_meta *meta = &record->meta;
    const char *fault = find_fault(record);
    if (fault) {
        return rg_failf(err, RG_INVALID_ARGUMENT, "%s of an object cannot be stored", fault);
    }
    size_t start = out->len;
    RG_BUF(body, RG_RECORD_BYTES_MAX);
    rg_buf_add_char(out, MAGIC);
    rg_buf_add_char(out, VERSION);
    put_etag(out, meta, &body);
    put_times(out, record, &body);
    put_checksum(out, &meta->checksum, &body);
    if (record->has_sidecar) {
        put_field(out, FIELD_SIDECAR, rg_span(record->sidecar, sizeof(record->sidecar)));
    }
    put_headers(out, meta, &body);
    put_pairs(out, FIELD_USER, &meta->user, &body);
    put_pairs(out, FIELD_TAGS, &meta->tags, &body);
    if (meta->part_count) {
        put_part_sizes(out, meta, &body);
        put_part_checksums(out, meta, &body);
    }
    put_upload(out, record);
    if (out->len - start > RG_RECORD_BYTES_MAX) {
        return rg_failf(err, RG_LIMIT, "a metadata record exceeds %u bytes", RG_RECORD_BYTES_MAX);
    }
    return rg_buf_ok(out) && rg_buf_ok(&body) ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

/* ---- Reading ---- */

/* A cursor; the first thing that does not fit marks it, and everything read after that is 0. */
struct reader {
    struct span rest;
    bool failed;
};

static bool more(const struct reader *reader)
{
    return !reader->failed && reader->rest.len;
}

static struct span get_bytes(struct reader *reader, uint64_t len)
{
    if (reader->failed || len > reader->rest.len) {
        reader->failed = true;
        return RG_SPAN_EMPTY;
    }
    struct span bytes = rg_span_head(reader->rest, (size_t)len);
    reader->rest = rg_span_skip(reader->rest, (size_t)len);
    return bytes;
}

static uint8_t get_byte(struct reader *reader)
{
    struct span byte = get_bytes(reader, 1);
    return byte.len ? (uint8_t)byte.ptr[0] : 0;
}

static uint64_t get_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(reader);
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            return value;
        }
    }
    reader->failed = true;
    return 0;
}

static int64_t get_zigzag(struct reader *reader)
{
    uint64_t value = get_varint(reader);
    return (int64_t)(value >> 1 ^ (value & 1 ? UINT64_MAX : 0));
}

static struct span get_counted(struct reader *reader)
{
    return get_bytes(reader, get_varint(reader));
}

static void get_array(struct reader *reader, uint8_t *bytes, size_t len)
{
    struct span span = get_bytes(reader, len);
    if (span.len) {
        memcpy(bytes, span.ptr, span.len);
    }
}

/* A malloc'ed text without NUL. */
static int get_text(struct reader *reader, struct span span, char **ret_text, struct rg_error *err)
{
    if (reader->failed || rg_span_has_nul(span)) {
        reader->failed = true;
        return 0;
    }
    char *text = rg_span_dup(span);
    if (!text) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    free(*ret_text);
    *ret_text = text;
    return 0;
}

static enum rg_checksum_algorithm get_algorithm(struct reader *reader)
{
    uint8_t byte = get_byte(reader);
    if (byte >= RG_CHECKSUM_ALGORITHM_COUNT) {
        reader->failed = true;
        return RG_CHECKSUM_NONE;
    }
    return (enum rg_checksum_algorithm)byte;
}

static enum rg_checksum_type get_type(struct reader *reader)
{
    uint8_t byte = get_byte(reader);
    if (byte > RG_CHECKSUM_COMPOSITE) {
        reader->failed = true;
        return RG_CHECKSUM_FULL_OBJECT;
    }
    return (enum rg_checksum_type)byte;
}

static void get_etag_digest(struct reader *reader, struct rg_meta *meta, bool is_md5)
{
    uint8_t digest[16] = {0};
    get_array(reader, digest, sizeof(digest));
    rg_etag_md5(digest, meta->etag);
    meta->etag_is_md5 = is_md5;
    if (is_md5) {
        return;
    }
    uint64_t parts = get_varint(reader);
    if (parts > UINT32_MAX) {
        reader->failed = true;
    } else if (parts) {
        snprintf(meta->etag + 32, sizeof(meta->etag) - 32, "-%u", (unsigned)parts);
    }
}

static void get_etag_text(struct reader *reader, struct rg_meta *meta)
{
    uint8_t is_md5 = get_byte(reader);
    struct span text = get_bytes(reader, reader->rest.len);
    if (reader->failed || is_md5 > 1 || text.len > RG_ETAG_MAX || rg_span_has_nul(text)) {
        reader->failed = true;
        return;
    }
    memcpy(meta->etag, text.ptr, text.len);
    meta->etag[text.len] = '\0';
    meta->etag_is_md5 = is_md5;
}

static void get_file(struct reader *reader, struct rg_record *record)
{
    record->has_file = true;
    record->size = get_varint(reader);
    record->mtime_s = get_zigzag(reader);
    uint64_t ns = get_varint(reader);
    reader->failed = reader->failed || ns > 999999999;
    record->mtime_ns = reader->failed ? 0 : (uint32_t)ns;
}

static void get_modified(struct reader *reader, struct rg_record *record)
{
    record->has_modified = true;
    record->modified.tv_sec = get_zigzag(reader);
    uint64_t ns = get_varint(reader);
    reader->failed = reader->failed || ns > 999999999;
    record->modified.tv_nsec = reader->failed ? 0 : (long)ns;
}

static void get_checksum(struct reader *reader, struct rg_checksum *checksum)
{
    checksum->algorithm = get_algorithm(reader);
    checksum->type = get_type(reader);
    uint64_t parts = get_varint(reader);
    get_array(reader, checksum->bytes, rg_checksum_length(checksum->algorithm));
    if (checksum->algorithm == RG_CHECKSUM_NONE || parts > UINT32_MAX) {
        reader->failed = true;
    }
    checksum->parts = (uint32_t)parts;
}

static int get_headers(struct reader *reader, struct rg_meta *meta, struct rg_error *err)
{
    uint64_t least = 0;
    while (more(reader)) {
        uint64_t number = get_varint(reader);
        struct span value = get_counted(reader);
        if (number < least || number >= RG_META_HEADER_COUNT) {
            reader->failed = true;
            return 0;
        }
        least = number + 1;
        int rc = get_text(reader, value, &meta->header[number], err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int get_pairs(struct reader *reader, struct rg_pairs *pairs, struct rg_error *err)
{
    while (more(reader)) {
        struct span name = get_counted(reader);
        struct span value = get_counted(reader);
        if (reader->failed) {
            return 0;
        }
        int rc = rg_pairs_add(pairs, name, value, err);
        if (rc == -RG_OUT_OF_MEMORY) {
            return rc;
        }
        reader->failed = rc != 0;
    }
    return 0;
}

/* Counts before it allocates, so that the table is made once and of the right length. */
static int get_part_sizes(struct reader *reader, struct rg_meta *meta, struct rg_error *err)
{
    struct reader counting = *reader;
    uint64_t count = 0;
    while (more(&counting)) {
        uint64_t run = get_varint(&counting);
        (void)get_varint(&counting);
        if (run == 0 || !rg_add_checked(count, run, &count) || count > RG_META_PARTS_MAX) {
            counting.failed = true;
        }
    }
    if (counting.failed || count == 0) {
        reader->failed = true;
        return 0;
    }
    meta->parts = calloc(count, sizeof(*meta->parts));
    if (!meta->parts) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    while (more(reader)) {
        uint64_t run = get_varint(reader);
        uint64_t size = get_varint(reader);
        for (; run; run--) {
            meta->parts[meta->part_count++].size = size;
        }
    }
    return 0;
}

/* Only behind the sizes: the writer's order, which this one field is held to. */
static void get_part_checksums(struct reader *reader, struct rg_meta *meta)
{
    size_t at = 0;
    while (more(reader)) {
        uint64_t run = get_varint(reader);
        enum rg_checksum_algorithm algorithm = get_algorithm(reader);
        if (run == 0 || run > meta->part_count - at) {
            reader->failed = true;
        }
        for (; run && !reader->failed; run--, at++) {
            struct rg_checksum *checksum = &meta->parts[at].checksum;
            checksum->algorithm = algorithm;
            get_array(reader, checksum->bytes, rg_checksum_length(algorithm));
        }
    }
    reader->failed = reader->failed || at != meta->part_count;
}

static int get_body(struct reader *reader, enum field field, struct rg_record *record,
                    struct rg_error *err)
{
    struct rg_meta *meta = &record->meta;
    switch (field) {
    case FIELD_ETAG_MD5:
        get_etag_digest(reader, meta, true);
        return 0;
    case FIELD_ETAG_DIGEST:
        get_etag_digest(reader, meta, false);
        return 0;
    case FIELD_ETAG_TEXT:
        get_etag_text(reader, meta);
        return 0;
    case FIELD_FILE:
        get_file(reader, record);
        return 0;
    case FIELD_MODIFIED:
        get_modified(reader, record);
        return 0;
    case FIELD_CHECKSUM:
        get_checksum(reader, &meta->checksum);
        return 0;
    case FIELD_SIDECAR:
        record->has_sidecar = true;
        get_array(reader, record->sidecar, sizeof(record->sidecar));
        return 0;
    case FIELD_HEADERS:
        return get_headers(reader, meta, err);
    case FIELD_USER:
        return get_pairs(reader, &meta->user, err);
    case FIELD_TAGS:
        return get_pairs(reader, &meta->tags, err);
    case FIELD_PART_SIZES:
        return get_part_sizes(reader, meta, err);
    case FIELD_PART_CHECKSUMS:
        get_part_checksums(reader, meta);
        return 0;
    case FIELD_KEY:
        return get_text(reader, get_bytes(reader, reader->rest.len), &record->key, err);
    case FIELD_UPLOAD_CHECKSUM:
        record->upload_algorithm = get_algorithm(reader);
        record->upload_type = get_type(reader);
        return 0;
    case FIELD_MD5:
        record->has_md5 = true;
        get_array(reader, record->md5, sizeof(record->md5));
        return 0;
    case FIELD_UPLOAD_ID:
        record->has_upload_id = true;
        get_array(reader, record->upload_id, sizeof(record->upload_id));
        return 0;
    case FIELD_COUNT:
        break;
    }
    RG_UNREACHABLE();
}

static int malformed(const char *what, struct rg_error *err)
{
    return rg_failf(err, RG_PARSE, "the metadata record is malformed: %s", what);
}

static int get_field(struct reader *reader, uint32_t *seen, struct rg_record *record,
                     struct rg_error *err)
{
    uint64_t tag = get_varint(reader);
    struct reader body = {.rest = get_counted(reader)};
    if (reader->failed) {
        return malformed("cut short", err);
    }
    uint64_t number = tag / 2;
    if (number == 0 || number >= FIELD_COUNT) {
        return tag & 1 ? malformed("a mandatory field is not known to this version", err) : 0;
    }
    uint32_t bit = UINT32_C(1) << number;
    if (*seen & bit) {
        return malformed("a field comes twice", err);
    }
    *seen |= bit;
    int rc = get_body(&body, (enum field)number, record, err);
    if (rc) {
        return rc;
    }
    return body.failed || body.rest.len ? malformed("a field's body", err) : 0;
}

int rg_record_decode(struct span bytes, struct rg_record *ret_record, struct rg_error *err)
{
    struct reader reader = {.rest = bytes};
    if (bytes.len > RG_RECORD_BYTES_MAX || get_byte(&reader) != MAGIC) {
        return malformed("not a record", err);
    }
    if (get_byte(&reader) != VERSION) {
        return malformed("not of a known version", err);
    }
    RG_CLEANUP(rg_record_free) struct rg_record record = RG_RECORD_INIT;
    uint32_t seen = 0;
    while (more(&reader)) {
        int rc = get_field(&reader, &seen, &record, err);
        if (rc) {
            return rc;
        }
    }
    const char *fault = find_fault(&record);
    if (fault) {
        return malformed(fault, err);
    }
    *ret_record = record;
    record = (struct rg_record)RG_RECORD_INIT;
    return 0;
}

bool rg_record_equal(const struct rg_record *a, const struct rg_record *b)
{
    bool file = a->has_file == b->has_file &&
                (!a->has_file ||
                 (a->size == b->size && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns));
    bool modified = a->has_modified == b->has_modified &&
                    (!a->has_modified || (a->modified.tv_sec == b->modified.tv_sec &&
                                          a->modified.tv_nsec == b->modified.tv_nsec));
    bool sidecar = a->has_sidecar == b->has_sidecar &&
                   (!a->has_sidecar || memcmp(a->sidecar, b->sidecar, sizeof(a->sidecar)) == 0);
    bool key = a->key && b->key ? strcmp(a->key, b->key) == 0 : a->key == b->key;
    bool upload = a->upload_algorithm == b->upload_algorithm &&
                  (a->upload_algorithm == RG_CHECKSUM_NONE || a->upload_type == b->upload_type);
    bool md5 =
        a->has_md5 == b->has_md5 && (!a->has_md5 || memcmp(a->md5, b->md5, sizeof(a->md5)) == 0);
    bool id = a->has_upload_id == b->has_upload_id &&
              (!a->has_upload_id || memcmp(a->upload_id, b->upload_id, sizeof(a->upload_id)) == 0);
    return file && modified && sidecar && key && upload && md5 && id &&
           rg_meta_equal(&a->meta, &b->meta);
}
