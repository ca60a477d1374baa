/*
 * One object, part or range in one request: by RDMA where both ends can, else by HTTP. Here stand
 * the rules of when a transfer counts as done, when it may be tried again and when HTTP may take
 * over (RDMA wire reference, section 9.4):
 *
 * - A PUT by RDMA is done when HTTP 200 or 204, reply 200 or 204, ETag and byte count all say so.
 *   Without a reply the object is looked at before it counts.
 * - A GET by RDMA is done when HTTP status and reply are the same, 200 or 206, and the byte count
 *   is there and fits.
 * - The window is revoked before the memory is used for anything else: for a body that comes by
 *   HTTP, for the next attempt, for the caller.
 * - A broken transfer is tried once more with a new window. HTTP takes over from a PUT only when
 *   nothing can have been stored.
 */
#ifndef RG_CLIENT_PIECE_H
#define RG_CLIENT_PIECE_H

#include "client/client.h"
#include "client/memory.h"
#include "client/rails.h"
#include "client/request.h"

#include <railgate/railgate.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rg_piece {
    const char *bucket;
    const char *key;
    struct rg_memory *memory;
    uint64_t offset;          /* in the memory */
    uint64_t length;          /* PUT: to store; GET: the range, or the room for a whole object */
    enum rg_path_choice path; /* RG_PATH_AUTO: the client's choice */
    const char *if_match;     /* NULL: none */
    bool no_checksum;
    const atomic_bool *cancel;
    void (*moved)(void *context, uint64_t bytes); /* of this piece so far; may be NULL */
    void *moved_context;

    /* PUT */
    const char *upload_id; /* NULL: a whole object */
    uint32_t part_number;
    const char *content_type;
    const char *const *metadata;
    bool if_none_match;

    /* GET */
    bool is_range; /* [object_offset, object_offset + length), else the whole object */
    uint64_t object_offset;
    bool knows_size; /* of the whole object: object_size */
    uint64_t object_size;
};

struct rg_piece_result {
    uint64_t bytes;
    uint64_t object_size;
    char etag[160];
    bool used_rdma;
    char path[96];
    char reason[RG_REASON_MAX + 1]; /* why not RDMA */
    time_t modified;
    bool has_crc; /* the client computed it over the bytes in memory */
    uint64_t crc;
    char crc64[32]; /* of the whole object or part, as the server says; "" when it does not */
};

int rg_piece_put(struct rg_client *client, const struct rg_piece *piece,
                 struct rg_piece_result *ret_result, struct rg_failure *failure);
int rg_piece_get(struct rg_client *client, const struct rg_piece *piece,
                 struct rg_piece_result *ret_result, struct rg_failure *failure);

/* The reason word of x-railgate-path ("http:rdma-off", "declined:rdma-off"), or "declined". */
void rg_piece_reason(const struct rg_http_answer *answer, char reason[RG_REASON_MAX + 1]);

/* "bytes 0-9/100". False when the field is anything else. */
bool rg_content_range_read(struct span text, uint64_t *ret_first, uint64_t *ret_last,
                           uint64_t *ret_size);

/* ---- What the files of pieces share ---- */

/* A window of one attempt. */
struct rg_attempt {
    struct rg_client_lane *lane;
    struct rg_memory_lease lease;
    struct rg_target *target;
    struct rg_progress *progress;
};

/*
 * Takes a lane, mints a window on the piece's memory, and lets the lane work. Appends the token to
 * *token. On failure nothing is held; `reason` is a word for it when the transfer may go on another
 * way (RG_STATUS_RDMA_DECLINED).
 */
int rg_attempt_begin(struct rg_client *client, const struct rg_piece *piece,
                     struct rg_client_rail *rail, enum rg_direction direction,
                     struct rg_attempt *ret_attempt, struct rg_buf *token,
                     char reason[RG_REASON_MAX + 1], struct rg_failure *failure);

/* Ends the window. After it no peer reaches the memory. May be called again, then does nothing. */
void rg_attempt_end(struct rg_attempt *attempt, bool settled);

/*
 * Whether a decline for this reason says that the lane's session is no more; then the lane forgets
 * it, and the next attempt on it makes another.
 */
bool rg_attempt_is_stale(struct rg_attempt *attempt, const char *reason);

/* What became of an attempt by RDMA. */
enum rg_verdict {
    RG_VERDICT_DONE,     /* by RDMA, or (GET) by HTTP in the answer */
    RG_VERDICT_DECLINED, /* nothing moved, nothing stored; `reason` is set */
    RG_VERDICT_BROKEN, /* the transfer broke: *failure is set, `uncertain` where it may be stored */
    RG_VERDICT_FAILED, /* an ordinary failure: *failure is set */
};

/* 0, or a failure: the way the server says the bytes went is not the one the client saw. */
int rg_piece_check_path(const struct rg_http_answer *answer, const struct rg_client_rail *rail,
                        struct rg_failure *failure);

enum rg_path_choice rg_piece_choice(const struct rg_client *client, const struct rg_piece *piece);

/* The number of x-amz-rdma-reply; 0 when there is none, or nothing that can be trusted. */
int rg_piece_reply(const struct rg_http_answer *answer);

/* What a refusal (no success, and no reply 501) means for the attempt: DECLINED, BROKEN or FAILED.
 */
enum rg_verdict rg_piece_judge_refusal(const struct rg_request *call,
                                       const struct rg_http_answer *answer,
                                       char reason[RG_REASON_MAX + 1], struct rg_failure *failure);

/*
 * Attempts on one rail after the other, until one does not decline. `attempt` sets `reason` when it
 * answers DECLINED. DECLINED of all: `reason` says why HTTP may do it; BROKEN: the same, where
 * HTTP may take over.
 */
typedef enum rg_verdict rg_piece_attempt(void *context, struct rg_client_rail *rail,
                                         struct rg_failure *failure);
enum rg_verdict rg_piece_try_rails(struct rg_client *client, const struct rg_piece *piece,
                                   rg_piece_attempt *attempt, void *context,
                                   char reason[RG_REASON_MAX + 1], struct rg_failure *failure);

/* For RG_PATH_RDMA_ONLY, when RDMA did not come about. */
int rg_piece_fail_declined(struct rg_client *client, const char *reason,
                           struct rg_failure *failure);

void rg_result_by_rdma(struct rg_piece_result *result, const struct rg_client_rail *rail);
void rg_result_by_http(struct rg_piece_result *result, const char *reason);

#endif
