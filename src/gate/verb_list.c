/*
 * ListObjects, ListObjectsV2 and ListObjectVersions: one page of the store's listing in three
 * dresses. Buckets have no versions: each object is its only one, "null".
 */
#include "gate/verbs.h"

#include "base/checked.h"

#include <stdlib.h>

#define PAGE_MAX         1000u
#define ANSWER_BYTES_MAX (16u << 20)
#define TOKEN_BYTES_MAX  8192u

struct listing {
    struct rg_list_query query;
    struct rg_list_page page;
    struct rg_xml_entry *entries;
    struct rg_xml_owner owner;
    struct rg_xml_listing document;
    struct rg_token token; /* what `query.after` may point into */
};

#define ABSENT ((struct span){NULL, 0})

static void free_listing(struct listing *listing)
{
    rg_list_page_free(&listing->page);
    rg_token_free(&listing->token);
    free(listing->entries);
}

/* What all three have in common. */
static int read_common(struct rg_call *call, struct listing *listing, struct rg_error *err)
{
    uint32_t most = PAGE_MAX;
    struct rg_list_query *query = &listing->query;
    *query = (struct rg_list_query){
        .prefix = RG_SPAN_EMPTY, .delimiter = RG_SPAN_EMPTY, .after = RG_SPAN_EMPTY};
    rg_call_param(call, "prefix", &query->prefix);
    rg_call_param(call, "delimiter", &query->delimiter);
    query->want_meta = true;
    int rc = rg_call_number(call, "max-keys", &most, err);
    if (rc < 0) {
        return rc;
    }
    query->max = RG_MIN(most, PAGE_MAX);
    listing->owner = rg_call_owner(call);
    listing->document = (struct rg_xml_listing){
        .bucket = call->bucket,
        .prefix = query->prefix,
        .delimiter = query->delimiter.len ? query->delimiter : ABSENT,
        .max_keys = query->max,
        .marker = ABSENT,
        .next_marker = ABSENT,
        .start_after = ABSENT,
        .token = ABSENT,
        .next_token = ABSENT,
        .version_id_marker = ABSENT,
    };
    return rg_call_encoding(call, &listing->document.url_encode, err);
}

/* Begins behind a marker that the client made itself. It may name a common prefix it has seen. */
static void begin_after(struct rg_list_query *query, struct span marker)
{
    query->after = marker;
    query->after_is_prefix =
        marker.len && rg_span_eq(rg_common_prefix(marker, query->prefix, query->delimiter), marker);
}

static int fetch(struct rg_call *call, struct listing *listing, struct rg_error *err)
{
    struct rg_bucket_info info;
    if (listing->query.max == 0) {
        int rc = rg_store_bucket_stat(call->store, call->bucket, &info, err);
        if (rc < 0) {
            return rc;
        }
    } else {
        int rc = rg_store_list(call->store, call->bucket, &listing->query, &listing->page, err);
        if (rc < 0) {
            return rc;
        }
    }
    size_t count = listing->page.count;
    listing->entries = calloc(count ? count : 1, sizeof *listing->entries);
    if (!listing->entries) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        const struct rg_list_entry *entry = &listing->page.entries[i];
        listing->entries[i] = (struct rg_xml_entry){
            .key = rg_span_text(entry->key),
            .is_prefix = entry->is_prefix,
            .size = entry->size,
            .modified = entry->modified,
            .etag = rg_span_text(entry->etag),
            .checksum_algorithm = entry->checksum.algorithm,
            .checksum_type = entry->checksum.type,
            .storage_class = RG_SPAN_EMPTY,
        };
    }
    listing->document.entries = listing->entries;
    listing->document.count = count;
    listing->document.truncated = listing->page.truncated && count;
    return 0;
}

static const struct rg_xml_entry *last_entry(const struct listing *listing)
{
    return listing->document.truncated ? &listing->entries[listing->document.count - 1] : NULL;
}

/* ---- Version 1 ---- */

int rg_verb_list_objects(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_listing) struct listing listing = {0};
    struct span marker = RG_SPAN_EMPTY;
    int rc = read_common(call, &listing, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_param(call, "marker", &marker);
    begin_after(&listing.query, marker);
    rc = fetch(call, &listing, err);
    if (rc < 0) {
        return rc;
    }
    listing.document.marker = marker;
    listing.document.owner = &listing.owner;
    /* Without a delimiter clients take the last key, as S3 says. */
    if (last_entry(&listing) && listing.query.delimiter.len) {
        listing.document.next_marker = last_entry(&listing)->key;
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rg_xml_list_objects(&document, &listing.document);
    return rg_call_answer_xml(call, 200, &document, err);
}

/* ---- Version 2 ---- */

static struct rg_token_scope token_scope(const struct rg_call *call, const struct listing *listing)
{
    return (struct rg_token_scope){
        .bucket = call->bucket,
        .prefix = listing->query.prefix,
        .delimiter = listing->query.delimiter,
    };
}

/* A token wins over start-after, as S3 says. */
static int read_start(struct rg_call *call, struct listing *listing, struct rg_error *err)
{
    struct span text;
    if (rg_call_param(call, "start-after", &text)) {
        listing->document.start_after = text;
        begin_after(&listing->query, text);
    }
    if (!rg_call_param(call, "continuation-token", &text)) {
        return 0;
    }
    struct rg_token_scope scope = token_scope(call, listing);
    int rc = rg_token_read(call->gate->token_key, &scope, text, &listing->token, err);
    if (rc == -RG_INVALID_ARGUMENT) {
        rg_call_detail(call, "ArgumentName", RG_SPAN_LITERAL("continuation-token"));
        rg_call_detail(call, "ArgumentValue", rg_span_head(text, 1024));
    }
    if (rc < 0) {
        return rc;
    }
    listing->document.token = text;
    listing->query.after = rg_span_text(listing->token.after);
    listing->query.after_is_prefix = listing->token.after_is_prefix;
    return 0;
}

int rg_verb_list_objects_v2(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_listing) struct listing listing = {0};
    struct span owner;
    int rc = read_common(call, &listing, err);
    if (rc == 0) {
        rc = read_start(call, &listing, err);
    }
    if (rc == 0) {
        rc = fetch(call, &listing, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (rg_call_param(call, "fetch-owner", &owner) && rg_span_is(owner, "true")) {
        listing.document.owner = &listing.owner;
    }
    RG_BUF(token, TOKEN_BYTES_MAX);
    const struct rg_xml_entry *last = last_entry(&listing);
    if (last) {
        struct rg_token_scope scope = token_scope(call, &listing);
        rc = rg_token_make(call->gate->token_key, &scope, last->key, last->is_prefix, &token, err);
        if (rc < 0) {
            return rc;
        }
        listing.document.next_token = rg_buf_span(&token);
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rg_xml_list_objects_v2(&document, &listing.document);
    return rg_call_answer_xml(call, 200, &document, err);
}

/* ---- Versions ---- */

int rg_verb_list_object_versions(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_listing) struct listing listing = {0};
    struct span marker = RG_SPAN_EMPTY;
    struct span version = RG_SPAN_EMPTY;
    int rc = read_common(call, &listing, err);
    if (rc < 0) {
        return rc;
    }
    rg_call_param(call, "key-marker", &marker);
    rg_call_param(call, "version-id-marker", &version);
    if (version.len && marker.len == 0) {
        return rg_call_invalid(call, "version-id-marker", version,
                               "A version-id marker cannot be specified without a key marker.",
                               err);
    }
    begin_after(&listing.query, marker);
    rc = fetch(call, &listing, err);
    if (rc < 0) {
        return rc;
    }
    listing.document.marker = marker;
    listing.document.version_id_marker = version;
    listing.document.owner = &listing.owner;
    if (last_entry(&listing)) {
        listing.document.next_marker = last_entry(&listing)->key;
    }
    RG_BUF(document, ANSWER_BYTES_MAX);
    rg_xml_list_versions(&document, &listing.document);
    return rg_call_answer_xml(call, 200, &document, err);
}
