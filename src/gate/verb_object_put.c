/* PutObject. */
#include "gate/verbs.h"

#include "gate/body.h"
#include "gate/object.h"
#include "gate/rdma_ask.h"
#include "gate/rdma_session.h"

static int begin_body(struct rg_call *call, struct rg_body *body, struct rg_error *err)
{
    struct rg_body_plan plan = {
        .max = (uint64_t)call->settings->put_size_max,
        .length_required = true,
        .staged = call->rdma.wanted,
        .staged_length = call->rdma.window.length,
        .want_md5 = call->settings->etag == RG_ETAG_MD5,
    };
    /* Clients that cannot compute over device memory name the algorithm and take our value. */
    int rc = rg_object_read_algorithm(call, &plan.want, err);
    return rc < 0 ? rc : rg_body_begin(call, &plan, body, err);
}

static int check_headers(struct rg_call *call, struct rg_meta *meta, struct rg_error *err)
{
    int rc = rg_object_check_storable(call, err);
    if (rc == 0) {
        rc = rg_object_read_meta(call, meta, err);
    }
    if (rc == 0) {
        rc = rg_object_read_tags(call, meta, err);
    }
    return rc;
}

static void finish_meta(struct rg_call *call, const struct rg_body *body, struct rg_meta *meta)
{
    uint8_t md5[16] = {0};
    if (call->settings->etag == RG_ETAG_MD5) {
        rg_body_md5(body, md5);
    }
    rg_object_make_etag(call, md5, meta->etag, &meta->etag_is_md5);
    meta->checksum = rg_body_checksum(body);
}

int rg_verb_put_object(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta meta = RG_META_INIT;
    RG_CLEANUP(rg_body_free) struct rg_body body = RG_BODY_INIT;
    rg_autowriting writing = {.store = call->store};
    struct rg_conditions conditions;
    struct rg_written written;
    struct rg_bucket_info bucket;

    int rc = check_headers(call, &meta, err);
    if (rc == 0) {
        rc = begin_body(call, &body, err);
    }
    if (rc == 0) {
        rc = rg_object_try_conditions(call, &conditions, err);
    }
    if (rc == 0 && rg_push_only_looks(call)) {
        return rg_store_bucket_stat(call->store, call->bucket, &bucket, err);
    }
    if (rc == 0) {
        rc = rg_store_put_begin(call->store, call->bucket, call->key, body.length, &writing.writer,
                                err);
    }
    if (rc == 0) {
        rc = rg_object_receive(call, &body, &writing, err);
    }
    if (rc < 0) {
        return rc;
    }
    finish_meta(call, &body, &meta);
    rc = rg_store_put_commit(call->store, RG_TAKE(writing.writer), &meta, &conditions, &written,
                             err);
    rg_object_explain_condition(call, &conditions, rc);
    if (rc < 0) {
        return rc;
    }

    rg_call_set_object_size(call, written.size);
    rg_object_answer_etag(call, written.etag);
    rg_object_answer_checksum(call, &meta.checksum);
    rg_rdma_answer(call, 200);
    return rg_call_answer_empty(call, 200);
}
