/*
 * What needs no bytes of objects: looking, deleting, listing, buckets, copies within the server.
 */
#include "client/answer.h"
#include "client/client.h"
#include "client/failure.h"
#include "client/parallel.h"
#include "client/plan.h"
#include "client/request.h"
#include "client/result.h"
#include "client/transfer.h"
#include "client/upload.h"

#include "base/attr.h"
#include "s3/meta.h"
#include "s3/url.h"
#include "s3/xml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define QUERY_BYTES_MAX 16384u

#define COPY_PART_SIZE ((uint64_t)1 << 30)
#define COPY_PART_MAX  ((uint64_t)5 << 30)

/* Of an object's metadata S3 allows 2 KB, and a few other fields of as much. */
#define TRAITS_BYTES_MAX (64u << 10)
#define TAGS_BYTES_MAX   (16u << 10)

/* Pages without an entry, one behind the other, until a listing counts as one that never ends. */
#define EMPTY_PAGES_MAX 1000u

static int check_bucket(const struct rg_client *client, const char *bucket,
                        struct rg_failure *failure)
{
    return rg_transfer_check(client, bucket, "key", failure);
}

static void begin_call(struct rg_request *call, const char *method, const char *bucket,
                       const char *key)
{
    call->method = method;
    call->bucket = bucket;
    call->key = key;
}

/* ---- Objects ---- */

static int look(struct rg_client *client, const char *bucket, const char *key,
                struct rg_http_answer *answer, struct rg_stat *ret_stat, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    begin_call(&call, "HEAD", bucket, key);
    rg_request_header(&call, "x-amz-checksum-mode", "ENABLED");
    int rc = rg_request_run(client, &call, answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_stat stat;
    memset(&stat, 0, sizeof stat);
    if (!rg_http_number(answer, RG_ANSWER_CONTENT_LENGTH, &stat.size)) {
        return rg_failure_set(failure, RG_STATUS_SERVER,
                              "HEAD s3://%.100s/%.200s: the gateway gave no size.", bucket, key);
    }
    rg_http_etag(answer, stat.etag);
    rg_http_crc64(answer, stat.checksum);
    stat.modified = rg_http_modified(answer);
    rg_failure_copy(stat.content_type, sizeof stat.content_type,
                    rg_http_field(answer, RG_ANSWER_CONTENT_TYPE));
    *ret_stat = stat;
    return 0;
}

int rg_stat_object(struct rg_client *client, const char *bucket, const char *key,
                   struct rg_stat *ret_stat, struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    struct rg_stat stat;
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc == 0) {
        rc = look(client, bucket, key, &answer, &stat, failure);
    }
    if (rc == 0 && ret_stat) {
        *ret_stat = stat;
    }
    return rc;
}

/* A request without a body whose answer says nothing. */
static int run_simple(struct rg_client *client, struct rg_request *call, struct rg_failure *failure)
{
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    call->is_write = true;
    return rg_request_run(client, call, &answer, failure);
}

int rg_delete_object(struct rg_client *client, const char *bucket, const char *key,
                     struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    begin_call(&call, "DELETE", bucket, key);
    return run_simple(client, &call, failure);
}

/* ---- Buckets ---- */

int rg_make_bucket(struct rg_client *client, const char *bucket, struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    int rc = check_bucket(client, bucket, failure);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_BUF(xml, 1024);
    begin_call(&call, "PUT", bucket, NULL);
    call.has_body = true;
    call.repeat = RG_REPEAT_REFUSED; /* made twice, the second answer would be an error */
    if (strcmp(client->config.region, "us-east-1") != 0) {
        rg_buf_addf(&xml,
                    "<CreateBucketConfiguration "
                    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>%s"
                    "</LocationConstraint></CreateBucketConfiguration>",
                    client->config.region);
        call.payload = rg_buf_span(&xml);
    }
    struct rg_http_source source = {.length = xml.len, .bytes = xml.data};
    call.source = xml.len ? &source : NULL;
    call.failed = !rg_buf_ok(&xml);
    return run_simple(client, &call, failure);
}

int rg_remove_bucket(struct rg_client *client, const char *bucket, struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    int rc = check_bucket(client, bucket, failure);
    if (rc < 0) {
        return rc;
    }
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    begin_call(&call, "DELETE", bucket, NULL);
    call.repeat = RG_REPEAT_REFUSED;
    return run_simple(client, &call, failure);
}

/* ---- Listings ---- */

typedef int read_page(struct span body, struct rg_answer_page *ret_page, struct rg_error *err);

/* A listing under way: `fixed` is the part of the query that stays. */
struct listing {
    struct rg_client *client;
    const char *bucket;
    const char *prefix; /* "" for none */
    const struct rg_buf *fixed;
    read_page *read;
    rg_listed_handler *handler;
    void *context;
    uint64_t pages;
    unsigned empty_pages;
    char *token; /* of the next page */
    char *mark;  /* a token that came before, against listings that go round in circles */
};

static void free_listing(struct listing *listing)
{
    free(listing->token);
    free(listing->mark);
}

/* Callers cut the prefix off: a key without it would become the name of another object. */
static int check_page(const struct listing *listing, const struct rg_answer_page *page,
                      struct rg_failure *failure)
{
    for (size_t i = 0; i < page->count; i++) {
        if (!rg_span_starts(rg_span_text(page->entries[i].key), rg_span_text(listing->prefix))) {
            return rg_failure_set(failure, RG_STATUS_SERVER,
                                  "The gateway lists \"%.100s\", which does not begin with "
                                  "\"%.100s\" as was asked.",
                                  page->entries[i].key, listing->prefix);
        }
    }
    return 0;
}

/* False: the handler has seen enough. */
static bool hand_over(const struct rg_answer_page *page, rg_listed_handler *handler, void *context)
{
    for (size_t i = 0; i < page->count; i++) {
        const struct rg_answer_entry *entry = &page->entries[i];
        struct rg_listed listed = {
            .key = entry->key,
            .is_prefix = entry->is_prefix,
            .size = entry->size,
            .modified = entry->modified,
            .etag = entry->etag,
        };
        if (!handler(context, &listed)) {
            return false;
        }
    }
    return true;
}

static int fetch_page(const struct listing *listing, struct rg_answer_page *ret_page,
                      struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    rg_buf_add_span(&query, rg_buf_span(listing->fixed));
    if (listing->token) {
        rg_query_add(&query, "continuation-token", listing->token);
    }
    begin_call(&call, "GET", listing->bucket, NULL);
    call.query = rg_buf_text(&query);
    call.failed = !rg_buf_ok(&query);
    call.what = "List";
    int rc = rg_request_run(listing->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = listing->read(rg_buf_span(&answer.body), ret_page, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_SERVER, &err) : 0;
}

/*
 * Goes on to the page that `next` (taken) stands for. The mark moves at page 1, 2, 4, 8 ..., so
 * that a circle of any length is met while the mark lies on it.
 */
static int turn_page(struct listing *listing, bool was_empty, char *next,
                     struct rg_failure *failure)
{
    free(listing->token);
    listing->token = next;
    listing->empty_pages = was_empty ? listing->empty_pages + 1 : 0;
    if ((listing->mark && strcmp(listing->mark, next) == 0) ||
        listing->empty_pages > EMPTY_PAGES_MAX) {
        return rg_failure_set(failure, RG_STATUS_SERVER,
                              "The gateway's listing goes round in circles.");
    }
    listing->pages++;
    if ((listing->pages & (listing->pages - 1)) == 0) {
        free(listing->mark);
        listing->mark = strdup(next);
        if (!listing->mark) {
            return rg_failure_memory(failure);
        }
    }
    return 0;
}

static int list_pages(struct listing *listing, struct rg_failure *failure)
{
    for (;;) {
        RG_CLEANUP(rg_answer_page_free) struct rg_answer_page page = {.entries = NULL};
        int rc = fetch_page(listing, &page, failure);
        if (rc == 0) {
            rc = check_page(listing, &page, failure);
        }
        if (rc < 0) {
            return rc;
        }
        if (!hand_over(&page, listing->handler, listing->context) || !page.next) {
            return 0;
        }
        rc = turn_page(listing, page.count == 0, RG_TAKE(page.next), failure);
        if (rc < 0) {
            return rc;
        }
    }
}

int rg_list_objects(struct rg_client *client, const char *bucket, const char *prefix,
                    const char *delimiter, rg_listed_handler *handler, void *context,
                    struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    int rc = check_bucket(client, bucket, failure);
    if (rc == 0 && !handler) {
        rc = rg_failure_set(failure, RG_STATUS_USAGE, "A listing needs a handler.");
    }
    if (rc < 0) {
        return rc;
    }
    RG_BUF(query, QUERY_BYTES_MAX);
    rg_query_add(&query, "list-type", "2");
    rg_query_add(&query, "encoding-type", "url");
    if (prefix && prefix[0]) {
        rg_query_add(&query, "prefix", prefix);
    }
    if (delimiter && delimiter[0]) {
        rg_query_add(&query, "delimiter", delimiter);
    }
    RG_CLEANUP(free_listing)
    struct listing listing = {
        .client = client,
        .bucket = bucket,
        .prefix = prefix ? prefix : "",
        .fixed = &query,
        .read = rg_answer_objects_read,
        .handler = handler,
        .context = context,
    };
    return list_pages(&listing, failure);
}

int rg_list_buckets(struct rg_client *client, rg_listed_handler *handler, void *context,
                    struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    if (!client || !handler) {
        return rg_failure_set(failure, RG_STATUS_USAGE, "A listing needs a client and a handler.");
    }
    RG_BUF(query, QUERY_BYTES_MAX);
    RG_CLEANUP(free_listing)
    struct listing listing = {
        .client = client,
        .prefix = "",
        .fixed = &query,
        .read = rg_answer_buckets_read,
        .handler = handler,
        .context = context,
    };
    return list_pages(&listing, failure);
}

/* ---- Copies ---- */

struct copy {
    struct rg_client *client;
    const char *from_bucket;
    const char *from_key;
    struct rg_stat stat;
    struct rg_upload upload;
    struct rg_plan plan;
    struct rg_piece_result *results;
};

static void add_source(struct rg_request *call, const struct copy *copy)
{
    RG_BUF(source, QUERY_BYTES_MAX);
    rg_buf_add_char(&source, '/');
    rg_url_encode(rg_span_text(copy->from_bucket), RG_URL_SLASH_ENCODED, &source);
    rg_buf_add_char(&source, '/');
    rg_url_encode(rg_span_text(copy->from_key), RG_URL_SLASH_KEPT, &source);
    call->failed = call->failed || !rg_buf_ok(&source);
    rg_request_header(call, "x-amz-copy-source", rg_buf_text(&source));
    rg_request_headerf(call, "x-amz-copy-source-if-match", "\"%s\"", copy->stat.etag);
}

/* The answer goes out before the work is done: the document may be an error. */
static int run_copy(struct copy *copy, struct rg_request *call, struct rg_answer_stored *ret_stored,
                    struct rg_failure *failure)
{
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    call->has_body = true;
    call->is_write = true;
    add_source(call, copy);
    int rc = rg_request_run(copy->client, call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    struct rg_answer_error error;
    if (rg_answer_error_read(rg_buf_span(&answer.body), &error)) {
        answer.status = 500;
        return rg_request_judge(call, &answer, failure);
    }
    struct rg_error err = RG_ERROR_INIT;
    rc = rg_answer_stored_read(rg_buf_span(&answer.body), ret_stored, &err);
    return rc < 0 ? rg_failure_take(failure, RG_STATUS_SERVER, &err) : 0;
}

static int copy_at_once(struct copy *copy, struct rg_result *result, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    struct rg_answer_stored stored;
    begin_call(&call, "PUT", copy->upload.bucket, copy->upload.key);
    call.what = "Copy to";
    int rc = run_copy(copy, &call, &stored, failure);
    if (rc == 0) {
        snprintf(result->etag, sizeof result->etag, "%s", stored.etag);
        snprintf(result->checksum, sizeof result->checksum, "%s", stored.crc64);
    }
    return rc;
}

static int copy_part(void *context, uint32_t index, struct rg_failure *failure)
{
    struct copy *copy = context;
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_BUF(query, QUERY_BYTES_MAX);
    struct rg_answer_stored stored;
    char number[16];
    uint64_t first = rg_plan_offset(&copy->plan, index);
    snprintf(number, sizeof number, "%u", index + 1);
    rg_query_add(&query, "partNumber", number);
    rg_query_add(&query, "uploadId", copy->upload.id);
    begin_call(&call, "PUT", copy->upload.bucket, copy->upload.key);
    call.what = "Copy to";
    call.query = rg_buf_text(&query);
    call.failed = !rg_buf_ok(&query);
    call.cancel = copy->upload.cancel;
    rg_request_headerf(&call, "x-amz-copy-source-range", "bytes=%" PRIu64 "-%" PRIu64, first,
                       first + rg_plan_length(&copy->plan, index) - 1);
    int rc = run_copy(copy, &call, &stored, failure);
    if (rc == 0) {
        snprintf(copy->results[index].etag, sizeof copy->results[index].etag, "%s", stored.etag);
    }
    return rc;
}

/* "k1=v1&k2=v2", as CreateMultipartUpload takes them. */
static int read_tags(struct copy *copy, struct rg_buf *tags, struct rg_failure *failure)
{
    RG_CLEANUP(rg_request_free) struct rg_request call = RG_REQUEST_INIT;
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer answer = RG_HTTP_ANSWER_INIT;
    RG_CLEANUP(rg_pairs_free) struct rg_pairs found = RG_PAIRS_INIT;
    struct rg_error err = RG_ERROR_INIT;
    begin_call(&call, "GET", copy->from_bucket, copy->from_key);
    call.query = "tagging=";
    call.what = "GetObjectTagging";
    int rc = rg_request_run(copy->client, &call, &answer, failure);
    if (rc < 0) {
        return rc;
    }
    if (rg_xml_read_tagging(rg_buf_span(&answer.body), RG_TAG_OBJECT, &found, &err) < 0) {
        return rg_failure_take(failure, RG_STATUS_SERVER, &err);
    }
    for (size_t i = 0; i < found.count; i++) {
        rg_query_add(tags, found.items[i].name, found.items[i].value);
    }
    return 0;
}

/* What CopyObject does by itself: an upload must be told all that its object shall say of itself.
 */
static int take_traits(struct copy *copy, const struct rg_http_answer *answer, struct rg_buf *tags,
                       struct rg_failure *failure)
{
    uint64_t missing = 0;
    uint64_t tag_count = 0;
    if (rg_http_number(answer, RG_ANSWER_MISSING_META, &missing) && missing) {
        return rg_failure_set(
            failure, RG_STATUS_SERVER,
            "s3://%.100s/%.200s has metadata that no header can carry, and is too "
            "large to be copied without naming it.",
            copy->from_bucket, copy->from_key);
    }
    int rc = 0;
    if (rg_http_number(answer, RG_ANSWER_TAG_COUNT, &tag_count) && tag_count) {
        rc = read_tags(copy, tags, failure);
    }
    if (rc == 0 && (!rg_buf_ok(tags) || !rg_buf_ok(answer->traits))) {
        rc = rg_failure_memory(failure);
    }
    copy->upload.traits = rg_buf_span(answer->traits);
    copy->upload.tags = rg_buf_text(tags);
    return rc;
}

static int copy_in_parts(struct copy *copy, const struct rg_http_answer *looked,
                         struct rg_result *result, struct rg_failure *failure)
{
    RG_BUF(tags, TAGS_BYTES_MAX);
    atomic_bool cancel = false;
    int rc = rg_plan_make(copy->stat.size, COPY_PART_SIZE, COPY_PART_MAX, &copy->plan, failure);
    if (rc == 0) {
        rc = take_traits(copy, looked, &tags, failure);
    }
    if (rc < 0) {
        return rc;
    }
    rg_autofree struct rg_piece_result *results = calloc(copy->plan.count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    copy->results = results;
    rc = rg_upload_create(&copy->upload, failure);
    if (rc < 0) {
        return rc;
    }
    copy->upload.cancel = &cancel;
    rc = rg_parallel_run(copy->plan.count, copy->client->config.parallel, copy_part, copy, &cancel,
                         failure);
    copy->upload.cancel = NULL;
    failure->uncertain = false;
    if (rc == 0) {
        rc = rg_upload_complete(&copy->upload, &copy->plan, results, result, failure);
    }
    if (rc < 0 && !failure->uncertain) {
        rg_upload_abort(&copy->upload);
    }
    return rc;
}

int rg_copy_object(struct rg_client *client, const char *from_bucket, const char *from_key,
                   const char *bucket, const char *key, struct rg_result *ret_result,
                   struct rg_failure *ret_failure)
{
    RG_FAILURE_OR_OWN(ret_failure);
    int rc = rg_transfer_check(client, from_bucket, from_key, failure);
    if (rc == 0) {
        rc = rg_transfer_check(client, bucket, key, failure);
    }
    if (rc < 0) {
        return rc;
    }
    struct copy copy = {
        .client = client,
        .from_bucket = from_bucket,
        .from_key = from_key,
        .upload = {.client = client, .bucket = bucket, .key = key},
    };
    struct rg_result result;
    memset(&result, 0, sizeof result);
    RG_BUF(traits, TRAITS_BYTES_MAX);
    RG_CLEANUP(rg_http_answer_free) struct rg_http_answer looked = RG_HTTP_ANSWER_INIT;
    looked.traits = &traits;
    rc = look(client, from_bucket, from_key, &looked, &copy.stat, failure);
    if (rc == 0) {
        rc = copy.stat.size > client->copy_at_once_max
                 ? copy_in_parts(&copy, &looked, &result, failure)
                 : copy_at_once(&copy, &result, failure);
    }
    rg_upload_free(&copy.upload);
    if (rc < 0) {
        return rc;
    }
    result.bytes = copy.stat.size;
    result.object_size = copy.stat.size;
    snprintf(result.path, sizeof result.path, "server");
    snprintf(result.reason, sizeof result.reason, "copied within the gateway");
    if (ret_result) {
        *ret_result = result;
    }
    return 0;
}
