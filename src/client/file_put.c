/*
 * rg_put_file: a file becomes an object, part by part through staging. An unfinished upload of the
 * same key is gone on with when asked: of its parts those are kept that are byte for byte those of
 * the file, by size and digest.
 */
#include "client/failure.h"
#include "client/parallel.h"
#include "client/piece.h"
#include "client/plan.h"
#include "client/result.h"
#include "client/staging.h"
#include "client/transfer.h"
#include "client/upload.h"

#include "base/attr.h"
#include "s3/checksum.h"
#include "s3/crc64.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_put {
    struct rg_client *client;
    const char *file;
    int fd;
    struct stat facts; /* when it was opened */
    struct rg_piece common;
    struct rg_plan plan;
    struct rg_piece_result *results;          /* plan.count */
    const struct rg_answer_part *const *kept; /* of an earlier upload, by index; NULL: none */
    struct rg_transfer_progress progress;
    atomic_bool cancel;
};

static int open_file(struct file_put *put, struct rg_failure *failure)
{
    put->fd = open(put->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (put->fd < 0 || fstat(put->fd, &put->facts) < 0) {
        return rg_failure_errno(failure, RG_STATUS_FILE, errno, "%.300s", put->file);
    }
    if (!S_ISREG(put->facts.st_mode)) {
        return rg_failure_set(failure, RG_STATUS_FILE, "%.300s is not a regular file.", put->file);
    }
    return 0;
}

static int fail_changed(const struct file_put *put, struct rg_failure *failure)
{
    return rg_failure_set(failure, RG_STATUS_FILE, "%.300s changed while it was read.", put->file);
}

static int read_part(const struct file_put *put, uint32_t index, struct rg_staging_buffer *buffer,
                     struct rg_failure *failure)
{
    uint64_t at = rg_plan_offset(&put->plan, index);
    uint64_t length = rg_plan_length(&put->plan, index);
    uint64_t done = 0;
    while (done < length) {
        ssize_t got = pread(put->fd, buffer->bytes + done, length - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return rg_failure_errno(failure, RG_STATUS_FILE, errno, "%.300s cannot be read",
                                    put->file);
        }
        if (got == 0) {
            return fail_changed(put, failure);
        }
        done += (uint64_t)got;
    }
    return 0;
}

static int check_unchanged(const struct file_put *put, struct rg_failure *failure)
{
    struct stat now;
    if (fstat(put->fd, &now) < 0) {
        return rg_failure_errno(failure, RG_STATUS_FILE, errno, "%.300s", put->file);
    }
    bool is_same = now.st_size == put->facts.st_size &&
                   now.st_mtim.tv_sec == put->facts.st_mtim.tv_sec &&
                   now.st_mtim.tv_nsec == put->facts.st_mtim.tv_nsec;
    return is_same ? 0 : fail_changed(put, failure);
}

/* ---- Parts of an earlier upload ---- */

static bool has_md5(const char *etag, struct span bytes)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    uint8_t md5[16];
    char own[RG_ETAG_MAX + 1];
    if (!rg_etag_looks_md5(rg_span_text(etag)) || rg_hasher_init(&hasher, RG_HASH_MD5, NULL) < 0) {
        return false;
    }
    rg_hasher_update(&hasher, bytes);
    if (rg_hasher_final(&hasher, NULL) < 0) {
        return false;
    }
    rg_hasher_md5(&hasher, md5);
    rg_etag_md5(md5, own);
    return strcmp(own, etag) == 0;
}

/* Whether the server's part is these bytes; then *result is as if they had been sent. */
static bool is_kept(const struct file_put *put, uint32_t index, struct span bytes,
                    struct rg_piece_result *result)
{
    const struct rg_answer_part *part = put->kept ? put->kept[index] : NULL;
    if (!part || part->size != bytes.len) {
        return false;
    }
    uint64_t crc = rg_crc64nvme(0, bytes.ptr, bytes.len);
    char text[32];
    rg_crc64_text(crc, text);
    bool is_same = part->crc64[0] ? strcmp(part->crc64, text) == 0 : has_md5(part->etag, bytes);
    if (!is_same) {
        return false;
    }
    memset(result, 0, sizeof *result);
    snprintf(result->etag, sizeof result->etag, "%s", part->etag);
    result->has_crc = true;
    result->crc = crc;
    return true;
}

static int put_part_from(void *context, uint32_t index, struct rg_staging_buffer *buffer,
                         struct rg_failure *failure)
{
    struct file_put *put = context;
    struct rg_transfer_share share = {.progress = &put->progress};
    uint64_t length = rg_plan_length(&put->plan, index);
    int rc = read_part(put, index, buffer, failure);
    if (rc < 0) {
        return rc;
    }
    if (is_kept(put, index, rg_span(buffer->bytes, length), &put->results[index])) {
        rg_transfer_progress_add(&put->progress, length);
        return 0;
    }
    struct rg_piece piece = put->common;
    piece.memory = buffer->memory;
    piece.length = length;
    piece.part_number = index + 1;
    piece.moved = rg_transfer_moved;
    piece.moved_context = &share;
    return rg_piece_put(put->client, &piece, &put->results[index], failure);
}

static int put_part(void *context, uint32_t index, struct rg_failure *failure)
{
    struct file_put *put = context;
    int rc = rg_staging_with(put->client, rg_plan_length(&put->plan, index), &put->cancel,
                             put_part_from, put, index, failure);
    return rc == 0 ? rg_transfer_stopped(&put->progress, failure) : rc;
}

/* The part size of the earlier upload, when its first part shows it and the file can be cut so. */
static void adopt_plan(struct file_put *put, const struct rg_answer_parts *parts)
{
    struct rg_failure ignored;
    struct rg_plan plan;
    memset(&ignored, 0, sizeof ignored);
    for (size_t i = 0; i < parts->count; i++) {
        uint64_t size = parts->parts[i].size;
        if (parts->parts[i].number == 1 && size >= RG_PART_SIZE_MIN && size <= RG_PART_SIZE_MAX &&
            rg_plan_make(put->plan.size, size, RG_PART_SIZE_MAX, &plan, &ignored) == 0 &&
            plan.part_size == size && plan.count > 1) {
            put->plan = plan;
        }
    }
}

static int index_parts(const struct file_put *put, const struct rg_answer_parts *parts,
                       const struct rg_answer_part ***ret_kept, struct rg_failure *failure)
{
    const struct rg_answer_part **kept = calloc(put->plan.count, sizeof(*kept));
    if (!kept) {
        return rg_failure_memory(failure);
    }
    for (size_t i = 0; i < parts->count; i++) {
        uint32_t number = parts->parts[i].number;
        if (number >= 1 && number <= put->plan.count) {
            kept[number - 1] = &parts->parts[i];
        }
    }
    *ret_kept = kept;
    return 0;
}

/* An upload that cannot be found or listed is begun anew: going on is a favour. */
static void find_upload(struct rg_upload *upload, struct rg_answer_parts *ret_parts)
{
    struct rg_failure ignored;
    memset(&ignored, 0, sizeof ignored);
    if (rg_upload_find(upload, &ignored) < 0 ||
        (upload->id && rg_upload_list(upload, ret_parts, &ignored) < 0)) {
        rg_upload_free(upload);
    }
}

static int put_parts(struct file_put *put, struct rg_upload *upload, struct rg_result *result,
                     struct rg_failure *failure)
{
    rg_autofree struct rg_piece_result *results = calloc(put->plan.count, sizeof *results);
    if (!results) {
        return rg_failure_memory(failure);
    }
    put->results = results;
    put->common.upload_id = upload->id;
    int rc = rg_parallel_run(put->plan.count, put->client->config.parallel, put_part, put,
                             &put->cancel, failure);
    failure->uncertain = false;
    if (rc == 0) {
        rc = check_unchanged(put, failure);
    }
    if (rc < 0) {
        return rc;
    }
    rg_result_add_parts(result, &put->plan, results);
    return rg_upload_complete(upload, &put->plan, results, result, failure);
}

static int put_many(struct file_put *put, const struct rg_file_options *options,
                    struct rg_result *result, struct rg_failure *failure)
{
    RG_CLEANUP(rg_answer_parts_free) struct rg_answer_parts parts = {.parts = NULL};
    RG_CLEANUP(rg_upload_free)
    struct rg_upload upload = {
        .client = put->client,
        .bucket = put->common.bucket,
        .key = put->common.key,
        .content_type = options->content_type,
        .with_checksum = true,
    };
    if (options->resume) {
        find_upload(&upload, &parts);
    }
    int rc = 0;
    rg_autofree const struct rg_answer_part **kept = NULL;
    if (upload.id) {
        adopt_plan(put, &parts);
        rc = index_parts(put, &parts, &kept, failure);
        put->kept = kept;
    } else {
        rc = rg_upload_create(&upload, failure);
    }
    if (rc < 0) {
        return rc;
    }
    rc = put_parts(put, &upload, result, failure);
    if (rc < 0 && !options->resume && !failure->uncertain) {
        rg_upload_abort(&upload);
    }
    return rc;
}

static int put_one(struct file_put *put, const struct rg_file_options *options,
                   struct rg_result *result, struct rg_failure *failure)
{
    struct rg_piece_result one;
    memset(&one, 0, sizeof one);
    put->results = &one;
    put->common.content_type = options->content_type;
    int rc = put_part(put, 0, failure);
    if (rc == 0) {
        rc = check_unchanged(put, failure);
        failure->uncertain = failure->uncertain || rc < 0;
    }
    if (rc < 0) {
        return rc;
    }
    rg_result_add(result, &one);
    snprintf(result->etag, sizeof result->etag, "%s", one.etag);
    result->object_size = put->plan.size;
    rc = rg_result_verify(result, one.crc64, one.has_crc, one.crc, failure);
    failure->uncertain = failure->uncertain || rc < 0;
    return rc;
}

int rg_put_file(struct rg_client *client, const char *bucket, const char *key, const char *file,
                const struct rg_file_options *options, struct rg_result *ret_result,
                struct rg_failure *ret_failure)
{
    static const struct rg_file_options none;
    RG_FAILURE_OR_OWN(ret_failure);
    options = options ? options : &none;
    int rc = rg_transfer_check_file(client, bucket, key, file, failure);
    if (rc < 0) {
        return rc;
    }
    struct file_put put = {.client = client, .file = file, .fd = -1};
    rc = open_file(&put, failure);
    if (rc == 0) {
        rc = rg_plan_make((uint64_t)put.facts.st_size, client->config.part_size, RG_PART_SIZE_MAX,
                          &put.plan, failure);
    }
    struct rg_result result;
    memset(&result, 0, sizeof result);
    if (rc == 0) {
        put.common = (struct rg_piece){
            .bucket = bucket, .key = key, .path = options->path, .cancel = &put.cancel};
        rg_transfer_progress_init(&put.progress, options->progress, options->context, put.plan.size,
                                  &put.cancel);
        rc = put.plan.count > 1 ? put_many(&put, options, &result, failure)
                                : put_one(&put, options, &result, failure);
        rg_transfer_progress_destroy(&put.progress);
    }
    rg_cleanup_close(&put.fd);
    if (rc == 0 && ret_result) {
        *ret_result = result;
    }
    return rc;
}
