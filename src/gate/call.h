/*
 * One S3 request while it is being answered: what every verb is given. A verb is straight-line
 * blocking code,
 *
 *   int rg_verb_x(struct rg_call *call, struct rg_error *err)
 *
 * that either answers through call->http and returns 0, or answers nothing and returns an error,
 * which dispatch.c turns into S3's XML. A verb that has begun to answer may not fail any more.
 *
 * The verbs know nothing of each other; what several need is in object.h and body.h.
 */
#ifndef RG_GATE_CALL_H
#define RG_GATE_CALL_H

#include "base/buf.h"
#include "base/error.h"
#include "base/settings.h"
#include "base/span.h"
#include "gate/account.h"
#include "gate/dispatch.h"
#include "gate/http.h"
#include "rdma/token.h"
#include "s3/checksum.h"
#include "s3/header.h"
#include "s3/listing.h"
#include "s3/route.h"
#include "s3/sigv4.h"
#include "s3/url.h"
#include "s3/xml.h"
#include "store/store.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_buffers;
struct rg_health;
struct rg_mount;
struct rg_patience;
struct rg_planes;
struct rg_session;

#define RG_GATE_SHARES 1024u

struct rg_gate {
    _Atomic unsigned in_progress;            /* verbs that run */
    _Atomic unsigned shares[RG_GATE_SHARES]; /* the same by the hash of the bucket's name */
    const struct rg_settings *settings;
    struct rg_store *store;
    struct rg_accounts *accounts;
    struct rg_buffers *buffers;
    struct rg_patience *patience;
    struct rg_health *health;              /* borrowed; NULL: mounts are not watched */
    struct rg_planes *planes;              /* borrowed; NULL: none, as with rdma off */
    uint8_t token_key[RG_TOKEN_KEY_BYTES]; /* of continuation tokens, the same on every gateway */
    char host_id[64];                      /* x-amz-id-2 */
};

/* LOOKS: PREPARE, only the checks are wanted. MOVES: READY. */
enum rg_push_phase { RG_PUSH_NONE, RG_PUSH_LOOKS, RG_PUSH_MOVES };

/* A request for RDMA: filled by rg_rdma_look, then by the verb that moves the bytes. */
struct rg_rdma_ask {
    bool wanted;                        /* the bytes should go by RDMA: the window is set */
    struct rg_rdma_window window;       /* the client's memory */
    const char *declined;               /* why they do not although a token came; NULL: no reason */
    uint64_t moved;                     /* bytes that went; 0: none */
    char path[RG_OFI_PROVIDER_MAX + 8]; /* by which they went */

    /* hipobj-rc-v2 (rdma_session.h): the request is about a session, and its target is the call's
     * object. */
    enum rg_push_phase push;
    struct rg_session *session; /* until the bytes move, or the call ends */
    void *order;                /* what PREPARE said, owned */
    uint64_t push_offset;
    uint32_t push_cookie;
    enum rg_checksum_algorithm push_checksum; /* asked for, over what moves */
    struct rg_checksum push_digest;
};

/* Further elements of an error document, and its size. */
#define RG_CALL_DETAILS_MAX     10u
#define RG_CALL_MOUNTS_MAX      2u /* that a request is counted on: its own, its source's */
#define RG_CALL_ERROR_BYTES_MAX (1u << 20)

struct rg_call {
    struct rg_gate *gate;
    const struct rg_settings *settings;
    struct rg_store *store;
    struct rg_http_request *http;
    bool is_head;

    struct rg_header *headers; /* as received */
    size_t header_count;
    struct rg_query query;
    struct rg_buf path; /* decoded */
    struct rg_address address;
    struct span bucket; /* of address; both checked by s3/names.h before a verb sees them */
    struct span key;
    enum rg_operation operation;
    const struct rg_operation_info *info;

    struct rg_sigv4 auth;
    struct rg_sigv4_key signing_key;
    struct rg_account account; /* empty while anonymous */
    struct rg_rdma_ask rdma;   /* what was asked of the data planes, and what came of it */

    struct rg_xml_error_extra details[RG_CALL_DETAILS_MAX];
    char *detail_texts[RG_CALL_DETAILS_MAX];
    size_t detail_count;

    pthread_mutex_t lock;
    struct rg_outcome outcome; /* under the lock: a connection's thread may read it any time */
    bool settled;              /* the outcome is final */
    struct rg_mount *mounts[RG_CALL_MOUNTS_MAX]; /* under the lock, too */
    size_t mount_count;
    bool given_up; /* the answer was given without this thread */
};

typedef int rg_verb(struct rg_call *call, struct rg_error *err);

/* The first field, or query parameter, of that name. Values of fields come without white space
 * around them. */
bool rg_call_header(const struct rg_call *call, const char *name, struct span *ret_value);
bool rg_call_param(const struct rg_call *call, const char *name, struct span *ret_value);

/* Adds an element to the error document, should there be one: "Key", "BucketName" ... Copies. */
void rg_call_detail(struct rg_call *call, const char *name, struct span value);

/* RG_INVALID_ARGUMENT that names the argument in the document, as S3 does. */
int rg_call_invalid(struct rg_call *call, const char *name, struct span value, const char *sentence,
                    struct rg_error *err);

/* RG_NO_SUCH_VERSION unless versionId is absent or "null": buckets have no versions. */
int rg_call_check_version(struct rg_call *call, struct rg_error *err);

/* A parameter that is a number from 0 to INT32_MAX; absent or empty: *ret_value is left alone. */
int rg_call_number(struct rg_call *call, const char *name, uint32_t *ret_value,
                   struct rg_error *err);

/* The encoding-type parameter of listings: "url" or nothing. */
int rg_call_encoding(struct rg_call *call, bool *ret_url, struct rg_error *err);

/* The owner of everything, for documents. */
struct rg_xml_owner rg_call_owner(const struct rg_call *call);

/* The request goes on to where that key is: counts it there, until the verb has ended. */
void rg_call_enter_mount(struct rg_call *call, struct span bucket, struct span key);

/* Answers with a document; RG_OUT_OF_MEMORY when it did not fit into its buffer. */
int rg_call_answer_xml(struct rg_call *call, int status, const struct rg_buf *document,
                       struct rg_error *err);
/* Answers without a body. */
int rg_call_answer_empty(struct rg_call *call, int status);

/* How object bytes went, or would have gone: "http:no-token". Also the header x-railgate-path. */
void rg_call_set_path(struct rg_call *call, const char *transport, const char *reason);
/* What the request is in metrics and logs, for one that is no operation of S3. A static string. */
void rg_call_set_operation(struct rg_call *call, const char *name);
void rg_call_set_object_size(struct rg_call *call, uint64_t size);
void rg_call_add_copied(struct rg_call *call, uint64_t bytes);
void rg_call_add_moved(struct rg_call *call, uint64_t bytes);

/* The error document of `err` with the call's details, as it is sent. */
void rg_call_error_document(struct rg_call *call, const struct rg_error *err,
                            struct rg_buf *ret_document);

/* The HTTP status of a failure. */
int rg_call_error_status(const struct rg_error *err);

/*
 * The end of work done under rg_patience: answers with `document`, or with the error when rc < 0.
 * `begun` is what rg_patience_end said. Returns rc (and answers nothing) when the failure may still
 * have its own status.
 */
int rg_call_finish_long(struct rg_call *call, bool begun, int rc, const struct rg_buf *document,
                        struct rg_error *err);

/*
 * For requests whose object a field names instead of the path (rdma_session.c); all in dispatch.c.
 * rg_dispatch_route makes bucket, key, query and operation those of `path` and `query`, both still
 * encoded, path style; rg_dispatch_admit asks what every operation is asked; rg_dispatch_run runs
 * the operation's verb.
 */
int rg_dispatch_authorise(struct rg_call *call, struct rg_error *err);
int rg_dispatch_route(struct rg_call *call, struct span method, struct span path, struct span query,
                      struct rg_error *err);
int rg_dispatch_admit(struct rg_call *call, struct rg_error *err);
int rg_dispatch_run(struct rg_call *call, struct rg_error *err);

/* Notes a failure that is told inside an answer already begun (Copy, Complete, DeleteObjects). */
void rg_call_note_failure(struct rg_call *call, const struct rg_error *err);

#endif
