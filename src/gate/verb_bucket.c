/* Buckets: list, create, head, delete, location; and access control lists, of which there is one.
 */
#include "gate/verbs.h"

#include "base/log.h"
#include "gate/body.h"
#include "gate/object.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BYTES_MAX     (16u << 20)
#define LIST_BUCKETS_MAX   10000u
#define TOKEN_BYTES_MAX    8192u
#define LOCATION_BYTES_MAX 4096u

/* ---- ListBuckets ---- */

struct bucket_page {
    struct rg_bucket_info *all;
    size_t all_count;
    struct rg_xml_bucket *shown;
    size_t shown_count;
    bool truncated;
};

/* The operator is told: a client cannot be, but by the date of such a bucket. */
static void log_hanging(const struct bucket_page *page)
{
    const char *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < page->all_count; i++) {
        if (page->all[i].hangs) {
            first = first ? first : page->all[i].name;
            count++;
        }
    }
    if (count) {
        rg_log_warn("buckets.hang", "buckets were listed that could not be looked at",
                    RG_FIELD_TEXT("bucket", first), RG_FIELD_INT("buckets", count));
    }
}

static void free_page(struct bucket_page *page)
{
    free(page->all);
    free(page->shown);
}

static int read_start(struct rg_call *call, struct span prefix, struct rg_token *ret_token,
                      struct rg_error *err)
{
    struct span text;
    if (!rg_call_param(call, "continuation-token", &text) || text.len == 0) {
        return 0;
    }
    struct rg_token_scope scope = {RG_SPAN_EMPTY, prefix, RG_SPAN_EMPTY};
    return rg_token_read(call->gate->token_key, &scope, text, ret_token, err);
}

/* All buckets have our region; asked for another one, the list is empty. */
static bool region_matches(const struct rg_call *call)
{
    struct span region;
    return !rg_call_param(call, "bucket-region", &region) || region.len == 0 ||
           rg_span_is(region, call->settings->region);
}

static void select_buckets(struct bucket_page *page, struct span prefix, const char *after,
                           size_t most)
{
    for (size_t i = 0; i < page->all_count; i++) {
        struct span name = rg_span_text(page->all[i].name);
        if (!rg_span_starts(name, prefix) ||
            (after && rg_span_compare(name, rg_span_text(after)) <= 0)) {
            continue;
        }
        if (page->shown_count == most) {
            page->truncated = true;
            return;
        }
        page->shown[page->shown_count++] =
            (struct rg_xml_bucket){.name = name, .created = page->all[i].created};
    }
}

static int read_max_buckets(struct rg_call *call, uint32_t *ret_most, struct rg_error *err)
{
    struct span text;
    *ret_most = LIST_BUCKETS_MAX;
    int rc = rg_call_number(call, "max-buckets", ret_most, err);
    if (rc == 0 && (*ret_most < 1 || *ret_most > LIST_BUCKETS_MAX)) {
        rg_call_param(call, "max-buckets", &text);
        return rg_call_invalid(call, "max-buckets", text,
                               "Argument max-buckets must be an integer between 1 and 10000.", err);
    }
    return rc;
}

int rg_verb_list_buckets(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_page) struct bucket_page page = {0};
    RG_CLEANUP(rg_token_free) struct rg_token start = {0};
    struct span prefix = RG_SPAN_EMPTY;
    uint32_t most;
    rg_call_param(call, "prefix", &prefix);
    int rc = read_max_buckets(call, &most, err);
    if (rc == 0) {
        rc = read_start(call, prefix, &start, err);
    }
    if (rc == 0) {
        rc = rg_store_bucket_list(call->store, &page.all, &page.all_count, err);
    }
    if (rc < 0) {
        return rc;
    }
    log_hanging(&page);
    page.shown = calloc(page.all_count ? page.all_count : 1, sizeof *page.shown);
    if (!page.shown) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    if (region_matches(call)) {
        select_buckets(&page, prefix, start.after, most);
    }

    RG_BUF(token, TOKEN_BYTES_MAX);
    if (page.truncated) {
        struct rg_token_scope scope = {RG_SPAN_EMPTY, prefix, RG_SPAN_EMPTY};
        rc = rg_token_make(call->gate->token_key, &scope, page.shown[page.shown_count - 1].name,
                           false, &token, err);
        if (rc < 0) {
            return rc;
        }
    }
    struct rg_xml_buckets list = {
        .owner = rg_call_owner(call),
        .buckets = page.shown,
        .count = page.shown_count,
        .prefix = prefix,
        .next_token = rg_buf_span(&token),
    };
    RG_BUF(document, LIST_BYTES_MAX);
    rg_xml_list_buckets(&document, &list);
    return rg_call_answer_xml(call, 200, &document, err);
}

/* ---- CreateBucket ---- */

static int check_create_headers(struct rg_call *call, struct rg_error *err)
{
    struct span value;
    if (rg_call_header(call, "x-amz-bucket-object-lock-enabled", &value) &&
        !rg_span_is_nocase(value, "false")) {
        return rg_failf(err, RG_NOT_IMPLEMENTED, "Object Lock is not implemented.");
    }
    if (rg_call_header(call, "x-amz-object-ownership", &value) &&
        !rg_span_is(value, "BucketOwnerEnforced")) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "Object ownership other than BucketOwnerEnforced is not implemented.");
    }
    return 0;
}

static int check_location(struct rg_call *call, const char *location, struct rg_error *err)
{
    if (!location || !*location || strcmp(location, call->settings->region) == 0) {
        return 0;
    }
    rg_call_detail(call, "LocationConstraint", rg_span_text(location));
    return rg_failf(err, RG_ILLEGAL_LOCATION_CONSTRAINT,
                    "The %.64s location constraint is incompatible for the region specific "
                    "endpoint this request was sent to.",
                    location);
}

int rg_verb_create_bucket(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_xml_create_bucket_free) struct rg_xml_create_bucket config = {0};
    RG_DOCUMENT(text, call);
    int rc = check_create_headers(call, err);
    if (rc == 0) {
        rc = rg_body_read_document(call, RG_DOCUMENT_OPTIONAL, &text, err);
    }
    if (rc == 0) {
        rc = rg_xml_read_create_bucket(rg_buf_span(&text), &config, err);
    }
    if (rc == 0) {
        rc = check_location(call, config.location, err);
    }
    if (rc == 0) {
        rc = rg_store_bucket_create(call->store, call->bucket, err);
    }
    if (rc == 0 && config.tags.count) {
        rc = rg_store_bucket_tags_set(call->store, call->bucket, &config.tags, err);
    }
    if (rc < 0) {
        return rc;
    }
    rg_http_header_setf(call->http, "Location", "/%.*s", RG_SPAN_ARG(call->bucket));
    return rg_call_answer_empty(call, 200);
}

/* ---- The others ---- */

static int stat_bucket(struct rg_call *call, struct rg_error *err)
{
    struct rg_bucket_info info;
    return rg_store_bucket_stat(call->store, call->bucket, &info, err);
}

int rg_verb_head_bucket(struct rg_call *call, struct rg_error *err)
{
    int rc = stat_bucket(call, err);
    if (rc < 0) {
        return rc;
    }
    rg_http_header_set(call->http, "x-amz-bucket-region", call->settings->region);
    rg_http_header_set(call->http, "Content-Type", "application/xml");
    rg_http_answer_head(call->http, 200, 0);
    return 0;
}

int rg_verb_delete_bucket(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_store_bucket_delete(call->store, call->bucket, err);
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

int rg_verb_get_bucket_location(struct rg_call *call, struct rg_error *err)
{
    int rc = stat_bucket(call, err);
    if (rc < 0) {
        return rc;
    }
    RG_BUF(document, LOCATION_BYTES_MAX);
    rg_xml_location(&document, rg_span_text(call->settings->region));
    return rg_call_answer_xml(call, 200, &document, err);
}

/*
 * The only access control list is "private", and it is always in force: setting it is a success
 * that changes nothing. Canned lists were checked before this (dispatch.c); grants are not
 * implemented.
 */
int rg_verb_put_acl(struct rg_call *call, struct rg_error *err)
{
    struct span canned;
    int rc = rg_call_check_version(call, err);
    if (rc < 0) {
        return rc;
    }
    if (call->address.level == RG_LEVEL_OBJECT) {
        rg_autoopened opened = {0};
        rc = rg_object_open(call, call->bucket, call->key, &opened, err);
    } else {
        rc = stat_bucket(call, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!rg_call_header(call, "x-amz-acl", &canned)) {
        return rg_failf(err, RG_NOT_IMPLEMENTED,
                        "Access control lists other than private are not implemented.");
    }
    return rg_call_answer_empty(call, 200);
}
