/*
 * The steps of a multipart upload, but for the parts themselves (piece.h).
 */
#ifndef RG_CLIENT_UPLOAD_H
#define RG_CLIENT_UPLOAD_H

#include "client/answer.h"
#include "client/client.h"
#include "client/piece.h"
#include "client/plan.h"

#include <railgate/railgate.h>

struct rg_upload {
    struct rg_client *client;
    const char *bucket;
    const char *key;
    const char *content_type;    /* may be NULL */
    const char *const *metadata; /* may be NULL */
    struct span traits;   /* of an object that is copied (http.h), instead of both; or empty */
    const char *tags;     /* x-amz-tagging; may be NULL */
    const char *if_match; /* of Complete; may be NULL */
    bool if_none_match;
    bool with_checksum; /* CRC64NVME of every part */
    const atomic_bool *cancel;
    char *id; /* owned; NULL before create or find */
};

void rg_upload_free(struct rg_upload *upload);

int rg_upload_create(struct rg_upload *upload, struct rg_failure *failure);

/* The newest unfinished upload of exactly this key becomes upload->id; NULL when there is none. */
int rg_upload_find(struct rg_upload *upload, struct rg_failure *failure);

/* All parts that the server has. Release with rg_answer_parts_free. */
int rg_upload_list(struct rg_upload *upload, struct rg_answer_parts *ret_parts,
                   struct rg_failure *failure);

/* Makes the object of parts 1 to plan->count. Sets ETag, checksum and `verified` of *result.
 * Where an earlier try may have worked, the object is looked at before this one counts as failed.
 */
int rg_upload_complete(struct rg_upload *upload, const struct rg_plan *plan,
                       const struct rg_piece_result *parts, struct rg_result *result,
                       struct rg_failure *failure);

/* Best effort; what is left is swept by the server. */
void rg_upload_abort(struct rg_upload *upload);

#endif
