/* Tags of objects and buckets. */
#include "gate/verbs.h"

#include "gate/body.h"
#include "gate/object.h"

/* Fifty tags of 128 and 256 characters, four bytes each, escaped. */
#define ANSWER_BYTES_MAX (1u << 20)

static int answer_tags(struct rg_call *call, const struct rg_pairs *tags, struct rg_error *err)
{
    RG_BUF(document, ANSWER_BYTES_MAX);
    rg_xml_tagging(&document, tags);
    return rg_call_answer_xml(call, 200, &document, err);
}

static int read_tags(struct rg_call *call, enum rg_tag_scope scope, struct rg_pairs *ret_tags,
                     struct rg_error *err)
{
    RG_DOCUMENT(text, call);
    int rc = rg_body_read_document(call, RG_DOCUMENT_REQUIRED, &text, err);
    return rc < 0 ? rc : rg_xml_read_tagging(rg_buf_span(&text), scope, ret_tags, err);
}

int rg_verb_get_object_tagging(struct rg_call *call, struct rg_error *err)
{
    rg_autoopened opened = {0};
    int rc = rg_call_check_version(call, err);
    if (rc == 0) {
        rc = rg_object_open(call, call->bucket, call->key, &opened, err);
    }
    return rc < 0 ? rc : answer_tags(call, &rg_opened_info(&opened)->meta.tags, err);
}

static int set_object_tags(struct rg_call *call, const struct rg_pairs *tags, struct rg_error *err)
{
    int rc = rg_call_check_version(call, err);
    if (rc == 0) {
        rc = rg_object_check_reachable(call, call->bucket, call->key, err);
    }
    if (rc == 0) {
        rc = rg_store_object_tags_set(call->store, call->bucket, call->key, tags, err);
    }
    return rc;
}

int rg_verb_put_object_tagging(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = read_tags(call, RG_TAG_OBJECT, &tags, err);
    if (rc == 0) {
        rc = set_object_tags(call, &tags, err);
    }
    return rc < 0 ? rc : rg_call_answer_empty(call, 200);
}

int rg_verb_delete_object_tagging(struct rg_call *call, struct rg_error *err)
{
    int rc = set_object_tags(call, NULL, err);
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

int rg_verb_get_bucket_tagging(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = rg_store_bucket_tags_get(call->store, call->bucket, &tags, err);
    if (rc == -RG_NO_SUCH_TAG_SET) {
        rg_call_detail(call, "BucketName", call->bucket);
    }
    return rc < 0 ? rc : answer_tags(call, &tags, err);
}

int rg_verb_put_bucket_tagging(struct rg_call *call, struct rg_error *err)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    int rc = read_tags(call, RG_TAG_BUCKET, &tags, err);
    if (rc == 0) {
        rc = rg_store_bucket_tags_set(call->store, call->bucket, &tags, err);
    }
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}

int rg_verb_delete_bucket_tagging(struct rg_call *call, struct rg_error *err)
{
    int rc = rg_store_bucket_tags_set(call->store, call->bucket, NULL, err);
    return rc < 0 ? rc : rg_call_answer_empty(call, 204);
}
