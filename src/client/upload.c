/*
 * CreateMultipartUpload, ListMultipartUploads, ListParts, Complete and Abort. See upload.h.
 */
#include "client/upload.h"

#include "client/failure.h"
#include "client/request.h"
#include "client/result.h"

#include "base/attr.h"
#include "base/checked.h"
#include "s3/checksum.h"

#include <stdlib.h>
#include <string.h>

#define QUERY_BYTES_MAX 16384u
#define XML_BYTES_MAX   (4u << 20) /* 10000 parts */
#define FIND_PAGES_MAX  100u       /* of a thousand uploads of one key */
#define PART_PAGES_MAX  1000u      /* of ten parts and more */

void rg_upload_free(struct rg_upload *upload)
{
    free(RG_TAKE(upload->id));
}

static void begin_call(const struct rg_upload *upload, struct rg_request *call, const char *method,
                       const char *what, const struct rg_buf *query)
{
    call->method = method;
    call->what = what;
    call->bucket = upload->bucket;
    call->key = upload->key;
    call->query = rg_buf_text(query);
    call->cancel = upload->cancel;
    call->failed = !rg_buf_ok(query);
}

/* Borrows the names: the traits outlive the request. */
static void add_traits(struct rg_request *call, struct span traits)
{
    while (traits.len) {
        const char *name = traits.ptr;
        const char *value = name + strlen(name) + 1;
        rg_request_header(call, name, value);
        traits = rg_span_skip(traits, (size_t)(value - name) + strlen(value) + 1);
    }
}

int rg_upload_create(struct rg_upload *upload, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    rg_query_add(&query, "uploads", NULL);
    begin_call(upload, &call, "POST", "CreateMultipartUpload", &query);
    call.has_body = true;
    call.repeat = RG_REPEAT_ALWAYS; /* an upload more is swept, and stores nothing */
    if (upload->content_type) {
        rg_request_header(&call, "content-type", upload->content_type);
    }
    rg_request_metadata(&call, upload->metadata);
    add_traits(&call, upload->traits);
    if (upload->tags && upload->tags[0]) {
        rg_request_header(&call, "x-amz-tagging", upload->tags);
    }
    if (upload->with_checksum) {
        rg_request_header(&call, "x-amz-checksum-algorithm", "CRC64NVME");
        rg_request_header(&call, "x-amz-checksum-type", "FULL_OBJECT");
    }
    int rc = rg_request_run(upload->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_answer_upload_id_read(rg_buf_span(&answer.body), &upload->id, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_SERVER, &err) : 0;
}

/* ---- What is there ---- */

static int read_uploads(struct rg_upload *upload, const char *key_marker, const char *id_marker,
                        struct rg_answer_uploads *ret_uploads, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    rg_query_add(&query, "uploads", NULL);
    rg_query_add(&query, "encoding-type", "url");
    rg_query_add(&query, "prefix", upload->key);
    if (key_marker) {
        rg_query_add(&query, "key-marker", key_marker);
        rg_query_add(&query, "upload-id-marker", id_marker ? id_marker : "");
    }
    begin_call(upload, &call, "GET", "ListMultipartUploads", &query);
    call.key = NULL;
    int rc = rg_request_run(upload->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_answer_uploads_read(rg_buf_span(&answer.body), ret_uploads, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_SERVER, &err) : 0;
}

static int keep_newest(struct rg_upload *upload, const struct rg_answer_uploads *uploads,
                       time_t *newest, struct rg_failure *failure)
{
    for (size_t i = 0; i < uploads->count; i++) {
        const struct rg_answer_upload *one = &uploads->uploads[i];
        if (strcmp(one->key, upload->key) != 0 || (upload->id && one->initiated < *newest)) {
            continue;
        }
        char *id = strdup(one->id);
        if (!id) {
            return rg_failure_memory(failure);
        }
        free(upload->id);
        upload->id = id;
        *newest = one->initiated;
    }
    return 0;
}

/* Uploads of this very key come first among those with the prefix. */
static bool may_follow(const struct rg_upload *upload, const struct rg_answer_uploads *uploads)
{
    return uploads->truncated && uploads->next_key && strcmp(uploads->next_key, upload->key) == 0;
}

int rg_upload_find(struct rg_upload *upload, struct rg_failure *failure)
{
    time_t newest = 0;
    RG_CLEANUP(rg_answer_uploads_free) struct rg_answer_uploads page = {.uploads = NULL};
    int rc = read_uploads(upload, NULL, NULL, &page, failure);
    for (unsigned pages = 1; rc == 0; pages++) {
        rc = keep_newest(upload, &page, &newest, failure);
        if (rc < 0 || !may_follow(upload, &page) || pages == FIND_PAGES_MAX) {
            break;
        }
        struct rg_answer_uploads next = {.uploads = NULL};
        rc = read_uploads(upload, page.next_key, page.next_id, &next, failure);
        rg_answer_uploads_free(&page);
        page = next;
    }
    return rc;
}

static int read_parts(struct rg_upload *upload, uint32_t marker, struct rg_answer_parts *ret_parts,
                      struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    char number[16];
    snprintf(number, sizeof number, "%u", marker);
    rg_query_add(&query, "uploadId", upload->id);
    rg_query_add(&query, "part-number-marker", number);
    begin_call(upload, &call, "GET", "ListParts", &query);
    int rc = rg_request_run(upload->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_answer_parts_read(rg_buf_span(&answer.body), ret_parts, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_SERVER, &err) : 0;
}

static int append_parts(struct rg_answer_parts *all, const struct rg_answer_parts *page,
                        struct rg_failure *failure)
{
    size_t count = all->count + page->count;
    if (page->count == 0) {
        return 0;
    }
    if (count > RG_ANSWER_ENTRIES_MAX) {
        return rg_failure_set(failure, RG_STATUS_SERVER, "The gateway lists too many parts.");
    }
    struct rg_answer_part *grown = reallocarray(all->parts, count, sizeof *grown);
    if (!grown) {
        return rg_failure_memory(failure);
    }
    memcpy(grown + all->count, page->parts, page->count * sizeof *grown);
    all->parts = grown;
    all->count = count;
    return 0;
}

int rg_upload_list(struct rg_upload *upload, struct rg_answer_parts *ret_parts,
                   struct rg_failure *failure)
{
    RG_CLEANUP(rg_answer_parts_free) struct rg_answer_parts all = {.parts = NULL};
    uint32_t marker = 0;
    for (unsigned pages = 1;; pages++) {
        RG_CLEANUP(rg_answer_parts_free) struct rg_answer_parts page = {.parts = NULL};
        int rc = read_parts(upload, marker, &page, failure);
        if (rc == 0 && pages > PART_PAGES_MAX) {
            rc = rg_failure_set(failure, RG_STATUS_SERVER, "The gateway's parts have no end.");
        }
        if (rc == 0) {
            rc = append_parts(&all, &page, failure);
        }
        if (rc < 0) {
            return rc;
        }
        if (!page.truncated || page.next <= marker) {
            break;
        }
        marker = page.next;
    }
    *ret_parts = all;
    memset(&all, 0, sizeof all);
    return 0;
}

/* ---- Complete ---- */

static void add_part(struct rg_buf *xml, uint32_t number, const struct rg_piece_result *part,
                     bool with_checksum)
{
    rg_buf_addf(xml, "<Part><PartNumber>%u</PartNumber><ETag>&quot;", number);
    /* ETags are echoed: what the server once said may hold any character. */
    for (const char *c = part->etag; *c; c++) {
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"') {
            rg_buf_addf(xml, "&#%d;", *c);
        } else {
            rg_buf_add_char(xml, *c);
        }
    }
    rg_buf_add_text(xml, "&quot;</ETag>");
    if (with_checksum) {
        char text[32];
        rg_crc64_text(part->crc, text);
        rg_buf_addf(xml, "<ChecksumCRC64NVME>%s</ChecksumCRC64NVME>", text);
    }
    rg_buf_add_text(xml, "</Part>");
}

struct completion {
    struct rg_upload *upload;
    const struct rg_plan *plan;
    const struct rg_piece_result *parts;
    bool has_crc;
    uint64_t crc;
};

static int send_complete(const struct completion *completion, struct rg_answer_stored *ret_stored,
                         struct rg_http_answer *answer, struct rg_failure *failure)
{
    struct rg_upload *upload = completion->upload;
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    RG_BUF(xml, XML_BYTES_MAX);
    rg_query_add(&query, "uploadId", upload->id);
    rg_buf_add_text(&xml, "<CompleteMultipartUpload "
                          "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (uint32_t i = 0; i < completion->plan->count; i++) {
        add_part(&xml, i + 1, &completion->parts[i], completion->has_crc);
    }
    rg_buf_add_text(&xml, "</CompleteMultipartUpload>");
    if (!rg_buf_ok(&xml)) {
        return rg_failure_memory(failure);
    }
    struct rg_http_source source = {.length = xml.len, .bytes = xml.data};
    begin_call(upload, &call, "POST", "CompleteMultipartUpload", &query);
    call.has_body = true;
    call.is_write = true;
    call.repeat = RG_REPEAT_REFUSED;
    call.source = &source;
    call.payload = rg_buf_span(&xml);
    rg_request_header(&call, "content-type", "application/xml");
    if (completion->has_crc) {
        char text[32];
        rg_crc64_text(completion->crc, text);
        rg_request_header(&call, "x-amz-checksum-crc64nvme", text);
        rg_request_header(&call, "x-amz-checksum-type", "FULL_OBJECT");
    }
    if (upload->if_match) {
        rg_request_headerf(&call, "if-match", "\"%s\"", upload->if_match);
    }
    if (upload->if_none_match) {
        rg_request_header(&call, "if-none-match", "*");
    }
    int rc = rg_request_run(upload->client, &call, answer, failure);
    if (rc < 0) {
        return rc;
    }
    /* 200 goes out before the work is done: the document says how it ended. */
    struct rg_answer_error error;
    if (rg_answer_error_read(rg_buf_span(&answer->body), &error)) {
        answer->status = 500;
        return rg_request_judge(&call, answer, failure);
    }
    struct rg_error err = RG_ERROR_INIT;
    if (rg_answer_stored_read(rg_buf_span(&answer->body), ret_stored, &err) < 0) {
        failure->uncertain = true;
        return rg_failure_take(failure, RG_STATUS_SERVER, &err);
    }
    return 0;
}

/* Whether the object is the one that these parts make: by ETag, or by size and checksum. */
static bool is_there(const struct completion *completion, struct rg_answer_stored *ret_stored)
{
    struct rg_upload *upload = completion->upload;
    const struct rg_plan *plan = completion->plan;
    struct rg_stat stat;
    struct rg_failure ignored;
    if (rg_stat_object(upload->client, upload->bucket, upload->key, &stat, &ignored) < 0 ||
        stat.size != plan->size) {
        return false;
    }
    rg_autofree uint8_t *digests = calloc(plan->count, 16);
    char etag[RG_ETAG_MAX + 1] = "";
    bool has_digests = digests != NULL;
    for (uint32_t i = 0; i < plan->count && has_digests; i++) {
        has_digests = rg_etag_digest(rg_span_text(completion->parts[i].etag), digests + 16 * i);
    }
    char crc[32];
    rg_crc64_text(completion->crc, crc);
    bool same_etag = has_digests && rg_etag_multipart(digests, plan->count, etag, NULL) == 0 &&
                     strcmp(etag, stat.etag) == 0;
    bool same_crc = completion->has_crc && strcmp(stat.checksum, crc) == 0;
    if (!same_etag && !same_crc) {
        return false;
    }
    snprintf(ret_stored->etag, sizeof ret_stored->etag, "%s", stat.etag);
    snprintf(ret_stored->crc64, sizeof ret_stored->crc64, "%s", stat.checksum);
    return true;
}

static bool may_send_again(const struct rg_failure *failure)
{
    return failure->status == RG_STATUS_CONNECT || failure->status == RG_STATUS_TIMEOUT ||
           failure->status == RG_STATUS_SERVER;
}

int rg_upload_complete(struct rg_upload *upload, const struct rg_plan *plan,
                       const struct rg_piece_result *parts, struct rg_result *result,
                       struct rg_failure *failure)
{
    struct completion completion = {.upload = upload, .plan = plan, .parts = parts};
    completion.has_crc = upload->with_checksum && rg_result_combine(plan, parts, &completion.crc);
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_request pause = RG_REQUEST_INIT;
    pause.cancel = upload->cancel;
    struct rg_answer_stored stored = {.etag = ""};
    int rc;
    for (unsigned attempt = 0;; attempt++) {
        rc = send_complete(&completion, &stored, &answer, failure);
        if (rc < 0 && failure->uncertain && is_there(&completion, &stored)) {
            rc = 0;
        }
        if (rc == 0 || !failure->uncertain || !may_send_again(failure) ||
            attempt == upload->client->config.retries ||
            !rg_request_back_off(&pause, &answer, attempt + 1)) {
            break;
        }
    }
    if (rc < 0) {
        return rc;
    }
    failure->uncertain = false;
    snprintf(result->etag, sizeof result->etag, "%s", stored.etag);
    result->object_size = plan->size;
    return rg_result_verify(result, stored.crc64, completion.has_crc, completion.crc, failure);
}

void rg_upload_abort(struct rg_upload *upload)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    struct rg_failure ignored;
    memset(&ignored, 0, sizeof ignored);
    rg_query_add(&query, "uploadId", upload->id);
    begin_call(upload, &call, "DELETE", "AbortMultipartUpload", &query);
    call.cancel = NULL; /* this is what follows a cancellation */
    (void)rg_request_run(upload->client, &call, &answer, &ignored);
}
