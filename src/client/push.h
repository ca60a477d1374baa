/*
 * Transfers by hipobj-rc-v2 (dialect D4), for gateways that speak it over reliable connections:
 * PREPARE names the object and pairs two queue pairs, READY moves the bytes while it is being
 * answered. A PUT is written by this side into the gateway's memory; a GET is written by the
 * gateway into a window of ours, and told by an immediate.
 *
 * A queue pair serves one transfer. After READY has been sent nothing falls back to HTTP unless the
 * gateway has said that the transfer is dead.
 */
#ifndef RG_CLIENT_PUSH_H
#define RG_CLIENT_PUSH_H

#include "client/client.h"
#include "client/piece.h"
#include "client/rails.h"
#include "client/request.h"

struct rg_push {
    struct rg_client *client;
    const struct rg_piece *piece;
    struct rg_client_rail *rail;
    enum rg_direction direction;
    uint64_t length;        /* bytes to move; at least 1 */
    uint64_t object_offset; /* GET */

    /* What an ordinary request for the object would carry: the first `field_count` of its fields,
     * and its query. Sent with PREPARE. */
    const struct rg_request *fields;
    size_t field_count;

    struct rg_http_answer *answer; /* of READY, or of a PREPARE that failed */
    char *reason;                  /* RG_REASON_MAX + 1 bytes; set when DECLINED */
};

/* Whether a rail is to be used this way. */
bool rg_push_is_wanted(const struct rg_client *client, const struct rg_client_rail *rail);

/*
 * One transfer. DONE: the bytes are there, and *answer says what READY said. DECLINED: before
 * READY; nothing moved. BROKEN, FAILED: *failure, for a PUT with `uncertain`.
 */
enum rg_verdict rg_push_run(const struct rg_push *push, struct rg_failure *failure);

#endif
