/*
 * The header fields with which the two ends of a reliable connection find each other: the
 * hipobj-rc-v2 routes (PREPARE, READY, CANCEL: dialect D4) and the rc: session routes (connect,
 * disconnect: D2). Pure: no I/O, no device, no session. What stands in the fields is untrusted.
 *
 * Numbers are accepted in any width from 1 to 16 hex digits and either case, and checked by value;
 * fields that a route does not use are ignored. A field of the family given twice is refused.
 */
#ifndef RG_RDMA_SESSION_WIRE_H
#define RG_RDMA_SESSION_WIRE_H

#include "base/error.h"
#include "base/span.h"
#include "rdma/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_PUSH_PROTOCOL       "hipobj-rc-v2"
#define RG_PUSH_TARGET_MAX     2047 /* bytes */
#define RG_PUSH_SIZE_MAX       INT32_MAX
#define RG_SESSION_ID_BYTES    16
#define RG_SESSION_MTU_FIELD   "x-railgate-mtu" /* of connect and PREPARE, and of their answers */
#define RG_SESSION_REPLY_BYTES (4 + RG_HIPOBJ_TOKEN_LENGTH) /* "200:" and a token */

/* The header of a request; other fields may be among them. Names in any case. */
struct rg_wire_field {
    struct span name;
    struct span value;
};

struct rg_wire_head {
    const struct rg_wire_field *fields;
    size_t count;
};

struct rg_session_id {
    uint8_t bytes[RG_SESSION_ID_BYTES];
};

/* PREPARE. The spans point into the request. */
struct rg_push_prepare {
    struct rg_lane_address peer; /* qpn: what the token said, 0 when it did not; READY decides */
    bool is_loopback;            /* token of zeros: the peer shares our port, its GID is ours */
    uint32_t cookie;
    enum rg_direction direction;
    struct span path;  /* "/bucket/key", percent-encoded; neither is empty */
    struct span query; /* what follows '?', percent-encoded; empty without */
    uint64_t size;     /* bytes, 1..RG_PUSH_SIZE_MAX */
    uint64_t offset;   /* of the first byte in the object; 0 for PUT */
};

/* READY. */
struct rg_push_ready {
    struct rg_session_id session;
    uint32_t cookie;
    uint32_t qpn;
    bool has_window; /* both address and key were there; GET needs them */
    uint64_t address;
    uint32_t rkey;
};

/*
 * x-amz-rdma-protocol, -token, -psn, -cookie, -op, -target, -size and, optional, -offset. With
 * `strict` a cookie of 0 is refused. A suffix of the token, and its window, are ignored.
 *
 * Errors: RG_RDMA_NOT_SUPPORTED (no or another protocol), RG_INVALID_RDMA_TOKEN, RG_RDMA_TOO_LARGE
 * (the size), RG_INVALID_REQUEST (everything else; the sentence names the field).
 */
int rg_push_prepare_parse(const struct rg_wire_head *head, bool strict,
                          struct rg_push_prepare *ret_prepare, struct rg_error *err);

/* x-amz-rdma-protocol, -session, -cookie, -qpn, -mr-addr, -mr-rkey. Errors as above. */
int rg_push_ready_parse(const struct rg_wire_head *head, bool strict,
                        struct rg_push_ready *ret_ready, struct rg_error *err);

/* x-amz-rdma-protocol and -session. Errors as above. */
int rg_push_cancel_parse(const struct rg_wire_head *head, struct rg_session_id *ret_session,
                         struct rg_error *err);

/* POST /.s3rdma-rc/connect: x-amz-rdma-token, -psn. RG_INVALID_RDMA_TOKEN, RG_INVALID_REQUEST. */
int rg_session_connect_parse(const struct rg_wire_head *head, struct rg_lane_address *ret_peer,
                             struct rg_error *err);

/* POST /.s3rdma-rc/disconnect: x-amz-rdma-session. RG_INVALID_REQUEST. */
int rg_session_disconnect_parse(const struct rg_wire_head *head, struct rg_session_id *ret_session,
                                struct rg_error *err);

/* 32 hex digits, as in the token of a session (struct rg_rdma_window). */
bool rg_session_id_parse(struct span text, struct rg_session_id *ret_session);

/* The value of RG_SESSION_MTU_FIELD: bytes, one of the five that there are. */
bool rg_session_mtu_parse(struct span text, uint32_t *ret_mtu);

/* Values of the answer to PREPARE or connect, ready to be sent. */
struct rg_session_answer {
    char reply[RG_SESSION_REPLY_BYTES + 1]; /* x-amz-rdma-reply */
    char session[RG_RC_SESSION_LENGTH + 1]; /* x-amz-rdma-session */
    char psn[6 + 1];                        /* x-amz-rdma-psn */
    char qpn[6 + 1];                        /* x-amz-rdma-qpn; PREPARE only */
    char mr_addr[16 + 1];                   /* x-amz-rdma-mr-addr; PREPARE of a PUT, else empty */
    char mr_rkey[8 + 1];                    /* x-amz-rdma-mr-rkey; likewise */
    char mtu[10 + 1];                       /* RG_SESSION_MTU_FIELD; "": not known */
};

/* `window`: where the peer shall write, or NULL. RG_OUT_OF_MEMORY. */
int rg_session_answer_print(const struct rg_session_id *session, const struct rg_lane_address *own,
                            const struct rg_rdma_window *window,
                            struct rg_session_answer *ret_answer, struct rg_error *err);

/* The echo of the cookie in the answer to READY: exactly 8 digits. */
void rg_push_cookie_print(uint32_t cookie, char ret_text[8 + 1]);

#endif
