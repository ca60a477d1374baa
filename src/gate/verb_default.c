/*
 * Operations without a verb of their own: what S3 says of a bucket that was never configured, the
 * error it has for that, or NotImplemented. Never silence.
 */
#include "gate/verbs.h"

#include "gate/object.h"

#define DOCUMENT_BYTES_MAX 65536u

/* The answers below are about something that exists. */
static int check_subject(struct rg_call *call, struct rg_error *err)
{
    if (call->address.level == RG_LEVEL_OBJECT) {
        rg_autoopened opened = {0};
        int rc = rg_call_check_version(call, err);
        return rc < 0 ? rc : rg_object_open(call, call->bucket, call->key, &opened, err);
    }
    struct rg_bucket_info info;
    return rg_store_bucket_stat(call->store, call->bucket, &info, err);
}

int rg_verb_default(struct rg_call *call, struct rg_error *err)
{
    const struct rg_operation_info *info = call->info;
    if (info->answer == RG_ANSWER_FAILURE && info->failure == RG_NOT_IMPLEMENTED) {
        return rg_fail(err, RG_NOT_IMPLEMENTED);
    }
    int rc = check_subject(call, err);
    if (rc < 0) {
        return rc;
    }
    if (info->answer == RG_ANSWER_FAILURE) {
        return rg_fail(err, info->failure);
    }
    if (info->answer == RG_ANSWER_EMPTY) {
        return rg_call_answer_empty(call, 204);
    }
    RG_BUF(document, DOCUMENT_BYTES_MAX);
    struct rg_xml_owner owner = rg_call_owner(call);
    rg_xml_default(&document, call->operation, &owner);
    return rg_call_answer_xml(call, 200, &document, err);
}
