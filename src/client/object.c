/*
 * rg_put, rg_get and rg_get_range: objects in registered memory.
 */
#include "client/client.h"
#include "client/failure.h"
#include "client/memory.h"
#include "client/parallel.h"
#include "client/piece.h"
#include "client/plan.h"
#include "client/result.h"
#include "client/transfer.h"
#include "client/upload.h"

#include "base/attr.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* Parts of device memory that is registered piece by piece may be no larger than a piece. */
static uint64_t part_size_for(const struct rg_client *client, const struct rg_memory *memory)
{
    return memory ? RG_MIN(client->config.part_size, memory->piece_max) : client->config.part_size;
}

static int plan_for(const struct rg_client *client, const struct rg_memory *memory, uint64_t size,
                    struct rg_plan *ret_plan, struct rg_failure *failure)
{
    uint64_t most = memory ? RG_MIN(RG_PART_SIZE_MAX, memory->piece_max) : RG_PART_SIZE_MAX;
    return rg_plan_make(size, part_size_for(client, memory), most, ret_plan, failure);
}

/* ---- PUT ---- */

struct put_parts {
    struct rg_client *client;
    struct rg_piece common;
    struct rg_plan plan;
    struct rg_piece_result *results;
};

static int put_part(void *context, uint32_t index, struct rg_failure *failure)
{
    struct put_parts *put = context;
    struct rg_piece piece = put->common;
    piece.part_number = index + 1;
    piece.offset += rg_plan_offset(&put->plan, index);
    piece.length = rg_plan_length(&put->plan, index);
    return rg_piece_put(put->client, &piece, &put->results[index], failure);
}

static int put_many(struct rg_client *client, const struct rg_piece *piece,
                    const struct rg_put_options *options, const struct rg_plan *plan,
                    struct rg_result *result, struct rg_failure *failure)
{
    atomic_bool cancel = false;
    RG_CLEANUP(rg_upload_free)
    struct rg_upload upload = {
        .client = client,
        .bucket = piece->bucket,
        .key = piece->key,
        .content_type = options->content_type,
        .metadata = options->metadata,
        .if_match = options->if_match,
        .if_none_match = options->if_none_match,
        .with_checksum = !options->no_checksum && rg_memory_bytes(piece->memory, 0),
    };
    rg_autofree struct rg_piece_result *results = calloc(plan->count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    int rc = rg_upload_create(&upload, failure);
    if (rc < 0) {
        return rc;
    }
    struct put_parts put = {.client = client, .common = *piece, .plan = *plan, .results = results};
    put.common.upload_id = upload.id;
    put.common.cancel = &cancel;
    put.common.no_checksum = !upload.with_checksum;
    rc = rg_parallel_run(plan->count, client->config.parallel, put_part, &put, &cancel, failure);
    /* Parts alone make no object visible. */
    failure->uncertain = false;
    for (uint32_t i = 0; rc == 0 && i < plan->count; i++) {
        rg_result_add(result, &results[i]);
    }
    if (rc == 0) {
        rc = rg_upload_complete(&upload, plan, results, result, failure);
    }
    if (rc < 0 && !failure->uncertain) {
        rg_upload_abort(&upload);
    }
    return rc;
}

static int put_one(struct rg_client *client, struct rg_piece *piece,
                   const struct rg_put_options *options, struct rg_result *result,
                   struct rg_failure *failure)
{
    struct rg_piece_result one;
    memset(&one, 0, sizeof one);
    piece->content_type = options->content_type;
    piece->metadata = options->metadata;
    piece->if_match = options->if_match;
    piece->if_none_match = options->if_none_match;
    int rc = rg_piece_put(client, piece, &one, failure);
    if (rc < 0) {
        return rc;
    }
    rg_result_add(result, &one);
    snprintf(result->etag, sizeof result->etag, "%s", one.etag);
    result->object_size = piece->length;
    rc = rg_result_verify(result, one.crc64, one.has_crc, one.crc, failure);
    failure->uncertain = failure->uncertain || rc < 0;
    return rc;
}

int rg_put(struct rg_client *client, const char *bucket, const char *key, struct rg_memory *memory,
           uint64_t offset, uint64_t size, const struct rg_put_options *options,
           struct rg_result *ret_result, struct rg_failure *ret_failure)
{
    static const struct rg_put_options none;
    RG_FAILURE_OR_OWN(ret_failure);
    options = options ? options : &none;
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc == 0) {
        rc = rg_memory_check(client, memory, offset, size, failure);
    }
    struct rg_plan plan;
    if (rc == 0) {
        rc = plan_for(client, memory, size, &plan, failure);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_piece piece = {
        .bucket = bucket,
        .key = key,
        .memory = memory,
        .offset = offset,
        .length = size,
        .path = options->path,
        .no_checksum = options->no_checksum,
    };
    struct rg_result result;
    memset(&result, 0, sizeof result);
    rc = plan.count > 1 ? put_many(client, &piece, options, &plan, &result, failure)
                        : put_one(client, &piece, options, &result, failure);
    if (rc == 0 && ret_result) {
        *ret_result = result;
    }
    return rc;
}

/* ---- GET ---- */

struct get_parts {
    struct rg_client *client;
    struct rg_piece common;
    struct rg_plan plan;
    struct rg_piece_result *results;
};

static int get_part(void *context, uint32_t index, struct rg_failure *failure)
{
    struct get_parts *get = context;
    struct rg_piece piece = get->common;
    uint64_t at = rg_plan_offset(&get->plan, index);
    piece.is_range = true;
    piece.object_offset += at;
    piece.offset += at;
    piece.length = rg_plan_length(&get->plan, index);
    int rc = rg_piece_get(get->client, &piece, &get->results[index], failure);
    if (rc == 0 && get->results[index].bytes != piece.length) {
        return rg_failure_set(failure, RG_STATUS_INTEGRITY,
                              "GET s3://%.100s/%.200s: fewer bytes came than the object has.",
                              piece.bucket, piece.key);
    }
    return rc;
}

/* The range that `piece` names, as ranges side by side. `results` has plan->count elements. */
static int get_many(struct rg_client *client, const struct rg_piece *piece,
                    const struct rg_plan *plan, struct rg_piece_result *results,
                    struct rg_result *result, struct rg_failure *failure)
{
    atomic_bool cancel = false;
    struct get_parts get = {.client = client, .common = *piece, .plan = *plan, .results = results};
    get.common.cancel = &cancel;
    int rc =
        rg_parallel_run(plan->count, client->config.parallel, get_part, &get, &cancel, failure);
    for (uint32_t i = 0; rc == 0 && i < plan->count; i++) {
        rg_result_add(result, &results[i]);
    }
    return rc;
}

static void take_stat(struct rg_result *result, const struct rg_stat *stat)
{
    result->object_size = stat->size;
    result->modified = stat->modified;
    snprintf(result->etag, sizeof result->etag, "%s", stat->etag);
}

static int fail_room(const char *bucket, const char *key, uint64_t size, uint64_t room,
                     struct rg_failure *failure)
{
    return rg_failure_set(failure, RG_STATUS_USAGE,
                          "s3://%.100s/%.200s has %llu bytes, and there is room for %llu.", bucket,
                          key, (unsigned long long)size, (unsigned long long)room);
}

static int check_etag(const struct rg_piece *piece, const struct rg_stat *stat,
                      struct rg_failure *failure)
{
    if (!piece->if_match || strcmp(piece->if_match, stat->etag) == 0) {
        return 0;
    }
    return rg_failure_set(failure, RG_STATUS_PRECONDITION,
                          "s3://%.100s/%.200s is another version: its ETag is %.100s.",
                          piece->bucket, piece->key, stat->etag);
}

static int get_whole(struct rg_client *client, struct rg_piece *piece, struct rg_result *result,
                     struct rg_failure *failure)
{
    struct rg_piece_result one;
    memset(&one, 0, sizeof one);
    int rc = rg_piece_get(client, piece, &one, failure);
    if (rc < 0) {
        return rc;
    }
    rg_result_add(result, &one);
    snprintf(result->etag, sizeof result->etag, "%s", one.etag);
    result->object_size = one.object_size;
    result->modified = one.modified;
    return rg_result_verify(result, one.crc64, one.has_crc, one.crc, failure);
}

/* There is room for more than a part: the size decides how it is fetched. */
static int get_sized(struct rg_client *client, struct rg_piece *piece, struct rg_result *result,
                     struct rg_failure *failure)
{
    struct rg_stat stat;
    struct rg_plan plan;
    int rc = rg_stat_object(client, piece->bucket, piece->key, &stat, failure);
    if (rc == 0) {
        rc = check_etag(piece, &stat, failure);
    }
    if (rc == 0 && stat.size > piece->length) {
        rc = fail_room(piece->bucket, piece->key, stat.size, piece->length, failure);
    }
    if (rc == 0) {
        rc = plan_for(client, piece->memory, stat.size, &plan, failure);
    }
    if (rc < 0) {
        return rc;
    }
    piece->if_match = stat.etag; /* all from this version */
    piece->length = stat.size;
    piece->knows_size = true;
    piece->object_size = stat.size;
    if (plan.count == 1) {
        return get_whole(client, piece, result, failure);
    }
    rg_autofree struct rg_piece_result *results = calloc(plan.count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    rc = get_many(client, piece, &plan, results, result, failure);
    if (rc < 0) {
        return rc;
    }
    uint64_t crc = 0;
    bool has_crc = rg_result_combine(&plan, results, &crc);
    take_stat(result, &stat);
    return rg_result_verify(result, piece->no_checksum ? "" : stat.checksum, has_crc, crc, failure);
}

int rg_get(struct rg_client *client, const char *bucket, const char *key, struct rg_memory *memory,
           uint64_t offset, uint64_t size, const struct rg_get_options *options,
           struct rg_result *ret_result, struct rg_failure *ret_failure)
{
    static const struct rg_get_options none;
    RG_FAILURE_OR_OWN(ret_failure);
    options = options ? options : &none;
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc == 0) {
        rc = rg_memory_check(client, memory, offset, size, failure);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_piece piece = {
        .bucket = bucket,
        .key = key,
        .memory = memory,
        .offset = offset,
        .length = size,
        .path = options->path,
        .if_match = options->if_match,
        .no_checksum = options->no_checksum,
    };
    struct rg_result result;
    memset(&result, 0, sizeof result);
    rc = size > part_size_for(client, memory) ? get_sized(client, &piece, &result, failure)
                                              : get_whole(client, &piece, &result, failure);
    if (rc == 0 && ret_result) {
        *ret_result = result;
    }
    return rc;
}

/* ---- Ranges ---- */

static int get_one_range(struct rg_client *client, struct rg_piece *piece, struct rg_result *result,
                         struct rg_failure *failure)
{
    struct rg_piece_result one;
    memset(&one, 0, sizeof one);
    piece->is_range = true;
    int rc = rg_piece_get(client, piece, &one, failure);
    if (rc < 0) {
        return rc;
    }
    rg_result_add(result, &one);
    snprintf(result->etag, sizeof result->etag, "%s", one.etag);
    result->object_size = one.object_size;
    result->modified = one.modified;
    return 0;
}

static int get_large_range(struct rg_client *client, struct rg_piece *piece,
                           struct rg_result *result, struct rg_failure *failure)
{
    struct rg_stat stat;
    struct rg_plan plan;
    int rc = rg_stat_object(client, piece->bucket, piece->key, &stat, failure);
    if (rc == 0) {
        rc = check_etag(piece, &stat, failure);
    }
    if (rc < 0) {
        return rc;
    }
    piece->if_match = stat.etag;
    piece->knows_size = true;
    piece->object_size = stat.size;
    if (piece->object_offset >= stat.size) {
        return get_one_range(client, piece, result, failure); /* the server's own words */
    }
    piece->length = RG_MIN(piece->length, stat.size - piece->object_offset);
    rc = plan_for(client, piece->memory, piece->length, &plan, failure);
    if (rc < 0) {
        return rc;
    }
    rg_autofree struct rg_piece_result *results = calloc(plan.count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    rc = get_many(client, piece, &plan, results, result, failure);
    take_stat(result, &stat);
    return rc;
}

static int get_nothing(struct rg_client *client, const struct rg_piece *piece,
                       struct rg_result *result, struct rg_failure *failure)
{
    struct rg_stat stat;
    int rc = rg_stat_object(client, piece->bucket, piece->key, &stat, failure);
    if (rc == 0) {
        rc = check_etag(piece, &stat, failure);
    }
    if (rc == 0) {
        take_stat(result, &stat);
        snprintf(result->path, sizeof result->path, "http:empty");
        snprintf(result->reason, sizeof result->reason, "empty");
    }
    return rc;
}

int rg_get_range(struct rg_client *client, const char *bucket, const char *key,
                 uint64_t object_offset, uint64_t length, struct rg_memory *memory, uint64_t offset,
                 const struct rg_get_options *options, struct rg_result *ret_result,
                 struct rg_failure *ret_failure)
{
    static const struct rg_get_options none;
    RG_FAILURE_OR_OWN(ret_failure);
    options = options ? options : &none;
    uint64_t end;
    int rc = rg_transfer_check(client, bucket, key, failure);
    if (rc == 0) {
        rc = rg_memory_check(client, memory, offset, length, failure);
    }
    if (rc == 0 && (!rg_add_checked(object_offset, length, &end) || end > INT64_MAX)) {
        rc = rg_failure_set(failure, RG_STATUS_USAGE, "The range ends behind the largest number.");
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_piece piece = {
        .bucket = bucket,
        .key = key,
        .memory = memory,
        .offset = offset,
        .length = length,
        .object_offset = object_offset,
        .path = options->path,
        .if_match = options->if_match,
        .no_checksum = true, /* there is none of a range */
    };
    struct rg_result result;
    memset(&result, 0, sizeof result);
    if (length == 0) {
        rc = get_nothing(client, &piece, &result, failure);
    } else if (length > part_size_for(client, memory)) {
        rc = get_large_range(client, &piece, &result, failure);
    } else {
        rc = get_one_range(client, &piece, &result, failure);
    }
    if (rc == 0 && ret_result) {
        *ret_result = result;
    }
    return rc;
}
