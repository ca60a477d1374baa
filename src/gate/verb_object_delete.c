/* DeleteObject and DeleteObjects. */
#include "gate/verbs.h"

#include "gate/body.h"
#include "gate/object.h"
#include "gate/patience.h"
#include "s3/names.h"

#include <stdlib.h>

/* Keys of 1024 bytes, each byte escaped to six, a thousand of them, twice over. */
#define RESULT_BYTES_MAX (16u << 20)

static int delete_key(struct rg_call *call, struct span key, const struct rg_conditions *conditions,
                      struct rg_error *err)
{
    if (rg_key_storable(key, NULL) < 0) {
        /* It cannot be there; and what is not there is deleted already. */
        struct rg_bucket_info info;
        int rc = rg_store_bucket_stat(call->store, call->bucket, &info, err);
        return rc < 0 ? rc : rg_conditions_check_delete(conditions, false, RG_SPAN_EMPTY, err);
    }
    return rg_store_object_delete(call->store, call->bucket, key, conditions, err);
}

int rg_verb_delete_object(struct rg_call *call, struct rg_error *err)
{
    struct rg_conditions conditions;
    int rc = rg_object_read_conditions(call, &conditions, err);
    if (rc == 0 && conditions.if_none_match.ptr) {
        rc = rg_fail(err, RG_NOT_IMPLEMENTED);
    }
    if (rc == 0) {
        rc = rg_call_check_version(call, err);
    }
    if (rc == 0) {
        rc = delete_key(call, call->key, &conditions, err);
    }
    rg_object_explain_condition(call, &conditions, rc);
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

/* ---- DeleteObjects ---- */

struct batch {
    struct rg_xml_delete request;
    struct rg_xml_deleted *results;
    char (*messages)[RG_ERROR_MESSAGE_MAX];
};

static void free_batch(struct batch *batch)
{
    rg_xml_delete_free(&batch->request);
    free(batch->results);
    free(batch->messages);
}

static int delete_one(struct rg_call *call, const struct rg_xml_delete_key *wanted,
                      struct rg_error *err)
{
    if (wanted->version_id && strcmp(wanted->version_id, "null") != 0) {
        return rg_fail(err, RG_NO_SUCH_VERSION);
    }
    if (wanted->has_size || wanted->has_modified) {
        return rg_fail(err, RG_NOT_IMPLEMENTED);
    }
    struct span key = rg_span_text(wanted->key);
    int rc = rg_key_check(key, err);
    if (rc < 0) {
        return rc;
    }
    struct rg_conditions conditions = RG_CONDITIONS_INIT;
    if (wanted->etag) {
        conditions.if_match = rg_span_text(wanted->etag);
    }
    return delete_key(call, key, &conditions, err);
}

/* One key's failure is that key's; one of ours is noted for the log. */
static void delete_all(struct rg_call *call, struct batch *batch)
{
    struct rg_error failure = RG_ERROR_INIT;
    for (size_t i = 0; i < batch->request.count; i++) {
        const struct rg_xml_delete_key *wanted = &batch->request.keys[i];
        struct rg_xml_deleted *result = &batch->results[i];
        struct rg_error err = RG_ERROR_INIT;
        result->key = rg_span_text(wanted->key);
        result->version_id = rg_span_text(wanted->version_id);
        if (delete_one(call, wanted, &err) < 0) {
            result->failure = err.code;
            if (err.explained && err.os_errno == 0) {
                memcpy(batch->messages[i], err.message, sizeof err.message);
                result->message = batch->messages[i];
            }
            if (rg_code_http_status(err.code) >= 500) {
                failure = err;
            }
        }
    }
    if (failure.code != RG_OK) {
        rg_call_note_failure(call, &failure);
    }
}

static int read_batch(struct rg_call *call, struct batch *batch, struct rg_error *err)
{
    if (!rg_body_is_protected(call)) {
        return rg_failf(err, RG_INVALID_REQUEST,
                        "Missing required header for this request: Content-MD5 OR "
                        "x-amz-checksum-*");
    }
    RG_DOCUMENT(text, call);
    int rc = rg_body_read_document(call, RG_DOCUMENT_REQUIRED, &text, err);
    if (rc == 0) {
        rc = rg_xml_read_delete(rg_buf_span(&text), &batch->request, err);
    }
    if (rc < 0) {
        return rc;
    }
    batch->results = calloc(batch->request.count, sizeof *batch->results);
    batch->messages = calloc(batch->request.count, sizeof *batch->messages);
    return batch->results && batch->messages ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

int rg_verb_delete_objects(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(free_batch) struct batch batch = {0};
    struct rg_bucket_info info;
    int rc = rg_store_bucket_stat(call->store, call->bucket, &info, err);
    if (rc == 0) {
        rc = read_batch(call, &batch, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct rg_wait wait;
    rg_patience_begin(call->gate->patience, &wait, call->http);
    delete_all(call, &batch);
    bool begun = rg_patience_end(call->gate->patience, &wait);

    RG_BUF(document, RESULT_BYTES_MAX);
    rg_xml_delete_result(&document, batch.results, batch.request.count, batch.request.quiet);
    return rg_call_finish_long(call, begun, 0, &document, err);
}
