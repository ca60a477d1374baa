/* See fake_s3.h. */
#include "fake_s3.h"

#include "fake_rail.h"

#include "base/assert.h"
#include "client/result.h"
#include "s3/checksum.h"
#include "s3/crc64.h"
#include "s3/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One request, taken apart. */
struct ask {
    struct fake_s3 *s3;
    const struct test_request *request;
    struct test_answer *answer;
    char path[1200]; /* "bucket/key", decoded */
    struct rg_query query;
    char token[1024];
    bool has_token;
};

static const char *param(const struct ask *ask, const char *name)
{
    static _Thread_local char value[2048];
    const struct rg_query_param *found = rg_query_find(&ask->query, name);
    if (!found) {
        return NULL;
    }
    snprintf(value, sizeof value, "%.*s", RG_SPAN_ARG(found->value));
    return value;
}

static bool header(const struct ask *ask, const char *name, char *value, size_t room)
{
    return test_request_header(ask->request, name, value, room);
}

static void set_error(struct ask *ask, int status, const char *code)
{
    rg_buf_clear(&ask->answer->body);
    ask->answer->status = status;
    rg_buf_addf(&ask->answer->body,
                "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>Words about it.</Message>"
                "<RequestId>REQ1</RequestId></Error>",
                code);
}

static void set_etag(struct ask *ask, const char *etag)
{
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    if (!ask->s3->no_etag) {
        test_answer_header(ask->answer, "ETag", quoted);
    }
}

/* ---- Objects ---- */

static void free_bytes(struct fake_bytes *bytes)
{
    free(bytes->data);
    memset(bytes, 0, sizeof *bytes);
}

static void fill_bytes(struct fake_bytes *bytes, const void *data, size_t len, bool with_crc)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    uint8_t md5[16];
    RG_MUST(rg_hasher_init(&hasher, RG_HASH_MD5, NULL));
    rg_hasher_update(&hasher, rg_span(data, len));
    RG_MUST(rg_hasher_final(&hasher, NULL));
    rg_hasher_md5(&hasher, md5);
    free_bytes(bytes);
    bytes->data = malloc(len + 1);
    RG_ASSERT(bytes->data);
    if (len) {
        memcpy(bytes->data, data, len);
    }
    bytes->len = len;
    rg_etag_md5(md5, bytes->etag);
    if (with_crc) {
        rg_crc64_text(rg_crc64nvme(0, data, len), bytes->crc);
    }
}

struct fake_object *fake_s3_find(struct fake_s3 *s3, const char *path)
{
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        if (s3->objects[i].used && strcmp(s3->objects[i].path, path) == 0) {
            return &s3->objects[i];
        }
    }
    return NULL;
}

static struct fake_object *make_object(struct fake_s3 *s3, const char *path)
{
    struct fake_object *object = fake_s3_find(s3, path);
    for (size_t i = 0; i < FAKE_OBJECTS_MAX && !object; i++) {
        object = s3->objects[i].used ? NULL : &s3->objects[i];
    }
    RG_ASSERT(object);
    object->used = true;
    snprintf(object->path, sizeof object->path, "%s", path);
    return object;
}

void fake_s3_add(struct fake_s3 *s3, const char *path, const void *bytes, size_t len)
{
    fill_bytes(&make_object(s3, path)->bytes, bytes, len, !s3->no_checksums);
}

static struct fake_upload *find_upload(struct fake_s3 *s3, const char *id)
{
    for (size_t i = 0; id && i < FAKE_OBJECTS_MAX; i++) {
        if (s3->uploads[i].used && strcmp(s3->uploads[i].id, id) == 0) {
            return &s3->uploads[i];
        }
    }
    return NULL;
}

static void free_upload(struct fake_upload *upload)
{
    for (size_t i = 0; i <= FAKE_PARTS_MAX; i++) {
        free_bytes(&upload->parts[i]);
    }
    memset(upload, 0, sizeof *upload);
}

unsigned fake_s3_open_uploads(struct fake_s3 *s3)
{
    unsigned count = 0;
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        count += s3->uploads[i].used;
    }
    return count;
}

/* ---- RDMA ---- */

/* A token of a session that this server does not know, because it was started again. */
static bool is_lost_session(const struct ask *ask)
{
    char session[RG_RC_SESSION_LENGTH + 1];
    if (!ask->has_token) {
        return false;
    }
    fake_rail_session(ask->token, session);
    return session[0] && strcmp(session, ask->s3->last_session) != 0;
}

static void say_path(struct ask *ask, bool by_rdma, const char *way)
{
    struct fake_s3 *s3 = ask->s3;
    char text[160];
    const char *reason = s3->lost_is_declined && is_lost_session(ask) ? "no-session" : s3->reason;
    snprintf(text, sizeof text, "%s:%s", way, by_rdma ? s3->rail_path : reason);
    test_answer_header(ask->answer, "x-railgate-path", s3->says_path ? s3->says_path : text);
}

static void say_moved(struct ask *ask, int status, uint64_t bytes)
{
    struct fake_s3 *s3 = ask->s3;
    char number[32];
    if (s3->rdma == FAKE_RDMA_SILENT) {
        return;
    }
    snprintf(number, sizeof number, "%d", status);
    test_answer_header(ask->answer, "x-amz-rdma-reply", s3->reply ? s3->reply : number);
    snprintf(number, sizeof number, "%" PRIu64, (uint64_t)((int64_t)bytes + s3->bytes_off));
    if (!s3->no_byte_count) {
        test_answer_header(ask->answer, "x-amz-rdma-bytes-transferred", number);
    }
    say_path(ask, true, "rdma");
}

static bool is_declined(const struct ask *ask)
{
    return ask->has_token &&
           ((ask->s3->lost_is_declined && is_lost_session(ask)) || ask->s3->rdma == FAKE_RDMA_OFF ||
            (ask->s3->only_ofi && !strstr(ask->token, ":ofi1:")));
}

static bool is_served(const struct ask *ask)
{
    return ask->has_token && !is_declined(ask) &&
           (ask->s3->rdma == FAKE_RDMA_SERVE || ask->s3->rdma == FAKE_RDMA_SILENT);
}

/* ---- PUT ---- */

/* The bytes of the request: its body, or its window's. False: the answer is set. */
static bool take_bytes(struct ask *ask, char **ret_data, size_t *ret_len)
{
    struct fake_s3 *s3 = ask->s3;
    const struct test_request *request = ask->request;
    if (is_declined(ask)) {
        test_answer_header(ask->answer, "x-amz-rdma-reply", "501");
        say_path(ask, false, "declined");
        if (s3->decline_as_200) {
            ask->answer->status = 200;
        } else {
            set_error(ask, 501, "RDMANotSupported");
        }
        return false;
    }
    if (ask->has_token && s3->rdma == FAKE_RDMA_FAIL) {
        set_error(ask, 500, "RDMATransferFailed");
        return false;
    }
    size_t len = is_served(ask) ? fake_rail_length(ask->token) : request->body_len;
    char *data = malloc(len + 1);
    RG_ASSERT(data);
    if (!is_served(ask)) {
        memcpy(data, request->body ? request->body : "", len);
    } else if (!fake_rail_read(ask->token, 0, data, len)) {
        free(data);
        set_error(ask, 500, "RDMATransferFailed");
        return false;
    }
    char asked[64];
    char own[32];
    rg_crc64_text(rg_crc64nvme(0, data, len), own);
    if (!s3->no_checksums && header(ask, "x-amz-checksum-crc64nvme", asked, sizeof asked) &&
        strcmp(asked, own) != 0) {
        free(data);
        set_error(ask, 400, "BadDigest");
        return false;
    }
    *ret_data = data;
    *ret_len = len;
    return true;
}

static bool holds(struct ask *ask, const struct fake_object *object)
{
    char value[128];
    if (header(ask, "If-None-Match", value, sizeof value) && object) {
        return false;
    }
    if (header(ask, "If-Match", value, sizeof value)) {
        char quoted[128];
        snprintf(quoted, sizeof quoted, "\"%s\"", object ? object->bytes.etag : "");
        return object && strcmp(value, quoted) == 0;
    }
    return true;
}

static void answer_stored(struct ask *ask, const struct fake_bytes *bytes)
{
    set_etag(ask, bytes->etag);
    if (bytes->crc[0]) {
        test_answer_header(ask->answer, "x-amz-checksum-crc64nvme", bytes->crc);
    }
    if (is_served(ask)) {
        say_moved(ask, 200, bytes->len);
    } else if (ask->s3->rdma != FAKE_RDMA_UNAWARE && !ask->has_token) {
        test_answer_header(ask->answer, "x-railgate-path",
                           ask->s3->says_path ? ask->s3->says_path : "http:no-token");
    }
}

/* The source of a copy; NULL: the request is none, or (an answer is set) it cannot be made. */
static struct fake_object *copy_source(struct ask *ask, bool *ret_is_copy)
{
    char path[1200];
    char etag[128];
    *ret_is_copy = header(ask, "x-amz-copy-source", path, sizeof path);
    if (!*ret_is_copy) {
        return NULL;
    }
    struct fake_object *object = fake_s3_find(ask->s3, path + 1);
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"%s\"", object ? object->bytes.etag : "");
    if (!object || !header(ask, "x-amz-copy-source-if-match", etag, sizeof etag) ||
        strcmp(etag, quoted) != 0) {
        set_error(ask, 412, "PreconditionFailed");
        return NULL;
    }
    return object;
}

static void put_object(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    char *data;
    size_t len;
    s3->puts++;
    if (!holds(ask, fake_s3_find(s3, ask->path))) {
        set_error(ask, 412, "PreconditionFailed");
        return;
    }
    if (!take_bytes(ask, &data, &len)) {
        return;
    }
    struct fake_object *object = make_object(s3, ask->path);
    fill_bytes(&object->bytes, data, len, !s3->no_checksums);
    free(data);
    (void)header(ask, "Content-Type", object->type, sizeof object->type);
    (void)header(ask, "x-amz-meta-colour", object->meta, sizeof object->meta);
    answer_stored(ask, &object->bytes);
}

static void put_part(struct ask *ask)
{
    struct fake_upload *upload = find_upload(ask->s3, param(ask, "uploadId"));
    unsigned number = (unsigned)atoi(param(ask, "partNumber"));
    char *data;
    size_t len;
    ask->s3->parts++;
    if (!upload || number < 1 || number > FAKE_PARTS_MAX) {
        set_error(ask, 404, "NoSuchUpload");
        return;
    }
    bool is_copy;
    struct fake_object *source = copy_source(ask, &is_copy);
    if (is_copy) {
        char range[64];
        uint64_t first;
        uint64_t last;
        if (source) {
            RG_ASSERT(header(ask, "x-amz-copy-source-range", range, sizeof range) &&
                      sscanf(range, "bytes=%" SCNu64 "-%" SCNu64, &first, &last) == 2 &&
                      last < source->bytes.len);
            fill_bytes(&upload->parts[number], source->bytes.data + first, last - first + 1, false);
            rg_buf_addf(&ask->answer->body,
                        "<CopyPartResult><ETag>&quot;%s&quot;</ETag></CopyPartResult>",
                        upload->parts[number].etag);
        }
        return;
    }
    if (!take_bytes(ask, &data, &len)) {
        return;
    }
    fill_bytes(&upload->parts[number], data, len, !ask->s3->no_checksums);
    free(data);
    answer_stored(ask, &upload->parts[number]);
}

/* ---- GET and HEAD ---- */

static void describe_object(struct ask *ask, const struct fake_object *object)
{
    char mode[16];
    set_etag(ask, object->bytes.etag);
    test_answer_header(ask->answer, "Last-Modified", "Sun, 29 Nov 2026 16:40:01 GMT");
    test_answer_header(ask->answer, "Content-Type", object->type[0] ? object->type : "a/b");
    if (object->meta[0]) {
        test_answer_header(ask->answer, "X-Amz-Meta-Colour", object->meta);
    }
    if (object->cache[0]) {
        test_answer_header(ask->answer, "Cache-Control", object->cache);
    }
    if (object->tags[0]) {
        test_answer_header(ask->answer, "x-amz-tagging-count", "1");
    }
    if (header(ask, "x-amz-checksum-mode", mode, sizeof mode) && object->bytes.crc[0]) {
        test_answer_header(ask->answer, "x-amz-checksum-crc64nvme", object->bytes.crc);
        test_answer_header(ask->answer, "x-amz-checksum-type", "FULL_OBJECT");
    }
}

static bool find_range(struct ask *ask, const struct fake_object *object, size_t *ret_at,
                       size_t *ret_len)
{
    char text[128];
    uint64_t first;
    uint64_t last;
    *ret_at = 0;
    *ret_len = object->bytes.len;
    if (!header(ask, "Range", text, sizeof text)) {
        return true;
    }
    snprintf(ask->s3->last_range, sizeof ask->s3->last_range, "%.60s", text);
    RG_ASSERT(sscanf(text, "bytes=%" SCNu64 "-%" SCNu64, &first, &last) == 2);
    if (first >= object->bytes.len) {
        set_error(ask, 416, "InvalidRange");
        return false;
    }
    last = last >= object->bytes.len ? object->bytes.len - 1 : last;
    *ret_at = first;
    *ret_len = last - first + 1;
    snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%zu", first, last,
             object->bytes.len);
    test_answer_header(ask->answer, "Content-Range", text);
    ask->answer->status = 206;
    return true;
}

static void send_bytes(struct ask *ask, const char *data, size_t len)
{
    struct fake_s3 *s3 = ask->s3;
    int status = ask->answer->status;
    if (ask->has_token && s3->rdma == FAKE_RDMA_FAIL) {
        set_error(ask, 500, "RDMATransferFailed");
        return;
    }
    if (is_served(ask) && len > 0) {
        if (!fake_rail_write(ask->token, 0, data, len)) {
            set_error(ask, 500, "RDMATransferFailed");
            return;
        }
        say_moved(ask, status, len);
        ask->answer->status = s3->range_as_200 ? 200 : status;
        return;
    }
    if (is_declined(ask)) {
        test_answer_header(ask->answer, "x-amz-rdma-reply", "501");
        if (s3->decline_as_error) {
            set_error(ask, 501, "RDMANotSupported");
            return;
        }
        say_path(ask, false, "http");
    }
    rg_buf_add(&ask->answer->body, data, len);
}

static void get_object(struct ask *ask, bool is_head)
{
    struct fake_s3 *s3 = ask->s3;
    struct fake_object *object = fake_s3_find(s3, ask->path);
    size_t at;
    size_t len;
    s3->gets += !is_head;
    s3->heads += is_head;
    if (!object) {
        set_error(ask, 404, "NoSuchKey");
        return;
    }
    if (!holds(ask, object)) {
        set_error(ask, 412, "PreconditionFailed");
        return;
    }
    describe_object(ask, object);
    if (is_head) {
        ask->answer->head_length = object->bytes.len;
    } else if (find_range(ask, object, &at, &len)) {
        send_bytes(ask, object->bytes.data + at, len);
    }
}

/* ---- Multipart ---- */

static void create_upload(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    char value[32];
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_upload *upload = &s3->uploads[i];
        if (upload->used) {
            continue;
        }
        upload->used = true;
        snprintf(upload->id, sizeof upload->id, "upload+%u", ++s3->upload_count);
        snprintf(upload->path, sizeof upload->path, "%s", ask->path);
        upload->with_crc = header(ask, "x-amz-checksum-algorithm", value, sizeof value) &&
                           strcmp(value, "CRC64NVME") == 0;
        (void)header(ask, "Content-Type", upload->type, sizeof upload->type);
        (void)header(ask, "x-amz-meta-colour", upload->meta, sizeof upload->meta);
        (void)header(ask, "Cache-Control", upload->cache, sizeof upload->cache);
        (void)header(ask, "x-amz-tagging", upload->tags, sizeof upload->tags);
        rg_buf_addf(&ask->answer->body,
                    "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/"
                    "\"><UploadId>%s</UploadId></InitiateMultipartUploadResult>",
                    upload->id);
        return;
    }
    set_error(ask, 503, "SlowDown");
}

static void complete_upload(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    struct fake_upload *upload = find_upload(s3, param(ask, "uploadId"));
    RG_BUF(whole, 256u << 20);
    uint8_t digests[16 * FAKE_PARTS_MAX];
    unsigned number = 1;
    s3->completes++;
    if (!upload) {
        set_error(ask, 404, "NoSuchUpload");
        return;
    }
    if (!holds(ask, fake_s3_find(s3, ask->path))) {
        set_error(ask, 412, "PreconditionFailed");
        return;
    }
    for (;; number++) {
        char tag[128];
        snprintf(tag, sizeof tag, "<PartNumber>%u</PartNumber><ETag>&quot;%s&quot;</ETag>", number,
                 number <= FAKE_PARTS_MAX ? upload->parts[number].etag : "");
        if (number > FAKE_PARTS_MAX || !strstr(ask->request->body, tag)) {
            break;
        }
        rg_buf_add(&whole, upload->parts[number].data, upload->parts[number].len);
        RG_ASSERT(
            rg_etag_digest(rg_span_text(upload->parts[number].etag), digests + 16 * (number - 1)));
    }
    if (number == 1 || !rg_buf_ok(&whole)) {
        set_error(ask, 400, "InvalidPart");
        return;
    }
    struct fake_object *object = make_object(s3, ask->path);
    fill_bytes(&object->bytes, whole.data, whole.len, upload->with_crc && !s3->no_checksums);
    RG_MUST(rg_etag_multipart(digests, number - 1, object->bytes.etag, NULL));
    snprintf(object->type, sizeof object->type, "%s", upload->type);
    snprintf(object->meta, sizeof object->meta, "%s", upload->meta);
    snprintf(object->cache, sizeof object->cache, "%s", upload->cache);
    snprintf(object->tags, sizeof object->tags, "%s", upload->tags);
    free_upload(upload);
    rg_buf_addf(&ask->answer->body,
                "<?xml version=\"1.0\"?>\n   <CompleteMultipartUploadResult><ETag>&quot;%s&quot;</"
                "ETag>%s%s%s</CompleteMultipartUploadResult>",
                object->bytes.etag, object->bytes.crc[0] ? "<ChecksumCRC64NVME>" : "",
                object->bytes.crc, object->bytes.crc[0] ? "</ChecksumCRC64NVME>" : "");
}

static void list_parts(struct ask *ask)
{
    struct fake_upload *upload = find_upload(ask->s3, param(ask, "uploadId"));
    const char *marker = param(ask, "part-number-marker");
    unsigned after = marker ? (unsigned)atoi(marker) : 0;
    const char *most = param(ask, "max-parts");
    unsigned room = most ? (unsigned)atoi(most) : 2;
    struct rg_buf *xml = &ask->answer->body;
    if (!upload) {
        set_error(ask, 404, "NoSuchUpload");
        return;
    }
    /* Pages of two, so that there are several. */
    rg_buf_add_text(xml, "<ListPartsResult>");
    unsigned given = 0;
    unsigned number = after + 1;
    for (; number <= FAKE_PARTS_MAX && given < room; number++) {
        struct fake_bytes *part = &upload->parts[number];
        if (part->data) {
            rg_buf_addf(xml,
                        "<Part><PartNumber>%u</PartNumber><Size>%zu</Size><ETag>&quot;%s&quot;</"
                        "ETag>%s%s%s</Part>",
                        number, part->len, part->etag, part->crc[0] ? "<ChecksumCRC64NVME>" : "",
                        part->crc, part->crc[0] ? "</ChecksumCRC64NVME>" : "");
            given++;
        }
    }
    rg_buf_addf(xml,
                "<IsTruncated>%s</IsTruncated><NextPartNumberMarker>%u</NextPartNumberMarker></"
                "ListPartsResult>",
                given == room ? "true" : "false", number - 1);
}

static void list_uploads(struct ask *ask)
{
    struct rg_buf *xml = &ask->answer->body;
    char start[4096];
    snprintf(start, sizeof start, "%s/%s", ask->path, param(ask, "prefix"));
    rg_buf_add_text(xml, "<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                         "<IsTruncated>false</IsTruncated>");
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        struct fake_upload *upload = &ask->s3->uploads[i];
        if (upload->used && strncmp(upload->path, start, strlen(start)) == 0) {
            rg_buf_add_text(xml, "<Upload><Key>");
            rg_url_encode(rg_span_text(strchr(upload->path, '/') + 1), RG_URL_SLASH_KEPT, xml);
            rg_buf_addf(xml,
                        "</Key><UploadId>%s</UploadId><Initiated>2026-11-29T16:40:%02zu.000Z</"
                        "Initiated></Upload>",
                        upload->id, i);
        }
    }
    rg_buf_add_text(xml, "</ListMultipartUploadsResult>");
}

/* ---- Listings ---- */

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_objects(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    struct rg_buf *xml = &ask->answer->body;
    const char *paths[FAKE_OBJECTS_MAX];
    size_t count = 0;
    char bucket[1300];
    char prefix[2048];
    char after[2048];
    snprintf(bucket, sizeof bucket, "%s/", ask->path);
    snprintf(prefix, sizeof prefix, "%s", param(ask, "prefix") ? param(ask, "prefix") : "");
    RG_BUF(decoded, 4096);
    RG_MUST(
        rg_url_decode(rg_span_text(param(ask, "continuation-token")), RG_URL_PATH, &decoded, NULL));
    snprintf(after, sizeof after, "%s", rg_buf_text(&decoded));
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        if (s3->objects[i].used && strncmp(s3->objects[i].path, bucket, strlen(bucket)) == 0) {
            paths[count++] = s3->objects[i].path + strlen(bucket);
        }
    }
    qsort(paths, count, sizeof *paths, compare_paths);
    unsigned room = s3->page_size ? s3->page_size : 1000;
    const char *last = NULL;
    bool truncated = false;
    rg_buf_add_text(xml, "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                         "<EncodingType>url</EncodingType>");
    for (size_t i = 0; i < count; i++) {
        if (strncmp(paths[i], prefix, strlen(prefix)) != 0 || strcmp(paths[i], after) <= 0) {
            continue;
        }
        if (room == 0) {
            truncated = true;
            break;
        }
        room--;
        last = paths[i];
        rg_buf_add_text(xml, "<Contents><Key>");
        rg_url_encode(rg_span_text(last), RG_URL_SLASH_KEPT, xml);
        rg_buf_addf(xml,
                    "</Key><LastModified>2026-11-29T16:40:01.000Z</LastModified><ETag>&quot;x&quot;"
                    "</ETag><Size>%zu</Size></Contents>",
                    strlen(last));
    }
    rg_buf_addf(xml, "<IsTruncated>%s</IsTruncated>", truncated ? "true" : "false");
    if (truncated) {
        rg_buf_add_text(xml, "<NextContinuationToken>");
        rg_url_encode(rg_span_text(last), RG_URL_SLASH_ENCODED, xml);
        rg_buf_add_text(xml, "</NextContinuationToken>");
    }
    rg_buf_add_text(xml, "</ListBucketResult>");
}

/* ---- Sessions ---- */

static void connect_session(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    char token[128];
    char psn[16];
    s3->connects++;
    if (!s3->sessions || !header(ask, "x-amz-rdma-token", token, sizeof token) ||
        strlen(token) != RG_HIPOBJ_TOKEN_LENGTH ||
        !header(ask, "x-amz-rdma-psn", psn, sizeof psn) || strcmp(psn, "abcdef") != 0) {
        test_answer_header(ask->answer, "x-amz-rdma-reply", "501");
        set_error(ask, 501, "RDMANotSupported");
        return;
    }
    struct rg_rdma_window own = {.transport = RG_TRANSPORT_RC, .qpn = 0x654321, .has_gid = true};
    own.gid[15] = 2;
    RG_BUF(reply, 256);
    rg_buf_add_text(&reply, "200:");
    rg_token_print_hipobj(&own, &reply);
    snprintf(s3->last_session, sizeof s3->last_session, "%032x", s3->connects);
    test_answer_header(ask->answer, "x-amz-rdma-reply", rg_buf_text(&reply));
    test_answer_header(ask->answer, "x-amz-rdma-session", s3->last_session);
    test_answer_header(ask->answer, "x-amz-rdma-psn", "010203");
}

/* ---- Pushes: one at a time ---- */

#define PUSH_SESSION "00112233445566778899aabbccddeeff"

static void end_push(struct fake_s3 *s3)
{
    (void)fake_rail_stage(NULL, 0);
    free(s3->push.staging);
    memset(&s3->push, 0, sizeof s3->push);
}

static uint64_t number_of(const struct ask *ask, const char *name, int base)
{
    char text[64];
    return header(ask, name, text, sizeof text) ? strtoull(text, NULL, base) : 0;
}

static void prepare_push(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    struct fake_push *push = &s3->push;
    char text[1200];
    s3->prepares++;
    end_push(s3);
    RG_ASSERT(header(ask, "x-amz-rdma-op", text, sizeof text));
    push->is_put = strcmp(text, "PUT") == 0;
    RG_ASSERT(header(ask, "x-amz-rdma-target", text, sizeof text) && text[0] == '/');
    snprintf(push->path, sizeof push->path, "%s", text + 1);
    push->size = number_of(ask, "x-amz-rdma-size", 10);
    push->offset = number_of(ask, "x-amz-rdma-offset", 10);
    push->cookie = (uint32_t)number_of(ask, "x-amz-rdma-cookie", 16);
    push->is_open = true;
    struct rg_rdma_window own = {.transport = RG_TRANSPORT_RC, .qpn = 0x654321, .has_gid = true};
    own.gid[15] = 2;
    RG_BUF(reply, 256);
    rg_buf_add_text(&reply, "200:");
    rg_token_print_hipobj(&own, &reply);
    test_answer_header(ask->answer, "x-amz-rdma-reply", rg_buf_text(&reply));
    test_answer_header(ask->answer, "x-amz-rdma-session", PUSH_SESSION);
    test_answer_header(ask->answer, "x-amz-rdma-psn", "010203");
    if (push->is_put) {
        push->staging = malloc(push->size);
        RG_ASSERT(push->staging);
        uint32_t key = fake_rail_stage(push->staging, push->size);
        snprintf(text, sizeof text, "%" PRIxPTR, (uintptr_t)push->staging);
        test_answer_header(ask->answer, "x-amz-rdma-mr-addr", text);
        snprintf(text, sizeof text, "%" PRIx32, key);
        test_answer_header(ask->answer, "x-amz-rdma-mr-rkey", text);
    }
}

static bool take_push(struct ask *ask)
{
    struct fake_push *push = &ask->s3->push;
    uint32_t immediate = 0;
    for (int i = 0; i < 2000 && !fake_rail_is_pushed(&immediate); i++) {
        usleep(1000);
    }
    if (immediate != push->cookie) {
        return false;
    }
    struct fake_bytes *bytes = &make_object(ask->s3, push->path)->bytes;
    fill_bytes(bytes, push->staging, push->size, true);
    set_etag(ask, bytes->etag);
    return true;
}

static bool give_push(struct ask *ask)
{
    struct fake_push *push = &ask->s3->push;
    struct fake_object *object = fake_s3_find(ask->s3, push->path);
    uint32_t key = (uint32_t)number_of(ask, "x-amz-rdma-mr-rkey", 16);
    return object && push->offset + push->size <= object->bytes.len &&
           fake_rail_push(key, object->bytes.data + push->offset, push->size, push->cookie);
}

static void ready_push(struct ask *ask)
{
    struct fake_s3 *s3 = ask->s3;
    struct fake_push *push = &s3->push;
    char text[32];
    s3->readies++;
    if (!push->is_open || number_of(ask, "x-amz-rdma-cookie", 16) != push->cookie) {
        set_error(ask, 404, "NoSuchRdmaSession");
        return;
    }
    if (s3->busy_times) {
        s3->busy_times--;
        set_error(ask, s3->busy_status, s3->busy_code);
        return;
    }
    if (!(push->is_put ? take_push(ask) : give_push(ask))) {
        end_push(s3);
        set_error(ask, 500, "RDMATransferFailed");
        return;
    }
    snprintf(text, sizeof text, "%08" PRIx32, push->cookie);
    test_answer_header(ask->answer, "x-amz-rdma-cookie", text);
    snprintf(text, sizeof text, "%" PRIu64, push->size);
    test_answer_header(ask->answer, "x-amz-rdma-bytes-transferred", text);
    test_answer_header(ask->answer, "x-railgate-path", "rdma:rc");
    if (s3->push_checksum) {
        test_answer_header(ask->answer, "x-amz-rdma-checksum", s3->push_checksum);
    }
    if (s3->push_crc64) {
        test_answer_header(ask->answer, "x-amz-rdma-checksum-crc64nvme", s3->push_crc64);
    }
    end_push(s3);
}

static void route_push(struct ask *ask, const char *what)
{
    test_answer_header(ask->answer, "x-amz-rdma-protocol", "hipobj-rc-v2");
    if (strcmp(what, "prepare") == 0) {
        prepare_push(ask);
    } else if (strcmp(what, "ready") == 0) {
        ready_push(ask);
    } else {
        ask->s3->cancels++;
        end_push(ask->s3);
        ask->answer->status = 204;
    }
}

/* ---- All ---- */

static void route(struct ask *ask)
{
    const char *method = ask->request->method;
    bool has_key = strchr(ask->path, '/') != NULL;
    bool is_upload = rg_query_find(&ask->query, "uploadId") != NULL;
    if (strcmp(ask->path, ".s3rdma-rc/connect") == 0) {
        connect_session(ask);
    } else if (strcmp(ask->path, ".s3rdma-rc/disconnect") == 0) {
        ask->s3->disconnects++;
        ask->answer->status = 204;
    } else if (ask->s3->pushes && strncmp(ask->path, ".hipobj-rc/", 11) == 0) {
        route_push(ask, ask->path + 11);
    } else if (!ask->s3->lost_is_declined && is_lost_session(ask)) {
        set_error(ask, 400, "InvalidRDMAToken");
    } else if (strcmp(method, "PUT") == 0 && has_key) {
        (is_upload ? put_part : put_object)(ask);
    } else if (strcmp(method, "HEAD") == 0) {
        if (has_key) {
            get_object(ask, true);
        }
    } else if (strcmp(method, "GET") == 0 && has_key) {
        if (is_upload) {
            list_parts(ask);
        } else if (rg_query_find(&ask->query, "tagging")) {
            rg_buf_add_text(&ask->answer->body,
                            "<Tagging><TagSet><Tag><Key>a key</Key><Value>b c+d</Value></Tag>"
                            "</TagSet></Tagging>");
        } else {
            get_object(ask, false);
        }
    } else if (strcmp(method, "GET") == 0) {
        (rg_query_find(&ask->query, "uploads") ? list_uploads : list_objects)(ask);
    } else if (strcmp(method, "POST") == 0) {
        (is_upload ? complete_upload : create_upload)(ask);
    } else if (strcmp(method, "DELETE") == 0 && is_upload) {
        struct fake_upload *upload = find_upload(ask->s3, param(ask, "uploadId"));
        ask->s3->aborts++;
        ask->answer->status = 204;
        if (upload) {
            free_upload(upload);
        }
    } else if (strcmp(method, "DELETE") == 0 && has_key) {
        struct fake_object *object = fake_s3_find(ask->s3, ask->path);
        ask->answer->status = 204;
        if (object) {
            free_bytes(&object->bytes);
            memset(object, 0, sizeof *object);
        }
    }
}

static struct fake_fault *find_fault(struct fake_s3 *s3, const struct test_request *request)
{
    for (size_t i = 0; i < FAKE_FAULTS_MAX; i++) {
        struct fake_fault *fault = &s3->faults[i];
        if (fault->times && (!fault->method || strcmp(fault->method, request->method) == 0) &&
            (!fault->part || strstr(request->target, fault->part))) {
            fault->times--;
            return fault;
        }
    }
    return NULL;
}

static void take_apart(struct ask *ask)
{
    struct span target = rg_span_text(ask->request->target);
    struct span path = rg_span_cut(&target, '?');
    RG_BUF(decoded, sizeof ask->path - 1);
    RG_MUST(rg_url_decode(rg_span_skip(path, 1), RG_URL_PATH, &decoded, NULL));
    snprintf(ask->path, sizeof ask->path, "%s", rg_buf_text(&decoded));
    RG_MUST(rg_query_parse(target.ptr ? target : RG_SPAN_EMPTY, &ask->query, NULL));
    ask->has_token = header(ask, "x-amz-rdma-token", ask->token, sizeof ask->token);
    if (ask->has_token) {
        ask->s3->tokens++;
        snprintf(ask->s3->last_token, sizeof ask->s3->last_token, "%s", ask->token);
    }
}

static void handle(void *context, const struct test_request *request, struct test_answer *answer)
{
    struct fake_s3 *s3 = context;
    struct ask ask = {.s3 = s3, .request = request, .answer = answer};
    RG_MUST(pthread_mutex_lock(&s3->mutex));
    struct fake_fault *fault = find_fault(s3, request);
    take_apart(&ask);
    if (s3->rdma != FAKE_RDMA_UNAWARE && s3->rdma != FAKE_RDMA_SILENT) {
        test_answer_header(answer, "Server", "Railgate");
    }
    test_answer_header(answer, "x-amz-request-id", "REQ0");
    if (!fault || fault->after || fault->how == TEST_CUT_BODY) {
        route(&ask);
    }
    if (fault) {
        answer->how = fault->how;
        if (fault->status) {
            rg_buf_clear(&answer->head);
            set_error(&ask, fault->status, fault->code ? fault->code : "Fault");
        }
    }
    rg_query_free(&ask.query);
    RG_MUST(pthread_mutex_unlock(&s3->mutex));
}

void fake_s3_fault(struct fake_s3 *s3, struct fake_fault fault)
{
    RG_MUST(pthread_mutex_lock(&s3->mutex));
    size_t i = 0;
    while (s3->faults[i].times) {
        i++;
        RG_ASSERT(i < FAKE_FAULTS_MAX);
    }
    s3->faults[i] = fault;
    RG_MUST(pthread_mutex_unlock(&s3->mutex));
}

struct fake_s3 *fake_s3_start(void)
{
    struct fake_s3 *s3 = calloc(1, sizeof *s3);
    RG_ASSERT(s3);
    RG_MUST(pthread_mutex_init(&s3->mutex, NULL));
    s3->rail_path = "ofi:fake";
    s3->reason = "rdma-off";
    s3->server = test_server_start(handle, s3);
    return s3;
}

void fake_s3_stop(struct fake_s3 *s3)
{
    test_server_stop(s3->server);
    for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
        free_bytes(&s3->objects[i].bytes);
        free_upload(&s3->uploads[i]);
    }
    RG_MUST(pthread_mutex_destroy(&s3->mutex));
    free(s3);
}
