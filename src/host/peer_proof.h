/*
 * Proof of a path between two hosts: memory of the one side is written and read by the other over
 * a transport, in growing sizes, and compared. The serving side mints windows on a buffer that
 * holds nothing of value; the visiting side moves and measures.
 */
#ifndef RG_HOST_PEER_PROOF_H
#define RG_HOST_PEER_PROOF_H

#include "base/error.h"
#include "rdma/transport.h"

#include <jansson.h>

#define RG_PROOF_BYTES_MAX ((uint64_t)64 << 20)
#define RG_PROOF_SIZES     14

/* Which way to try: a transport, and for ofi its provider. */
struct rg_proof_way {
    enum rg_transport_kind kind;
    const char *provider; /* "" but for ofi */
};

struct rg_proof_result {
    char path[RG_RAIL_PATH_MAX + 1]; /* "rc", "ofi:tcp"; of the rail, else what was tried */
    char device[RG_RAIL_NAME_MAX + 1];
    bool tried; /* both sides have it */
    bool well;  /* everything moved and was the same */
    bool is_hardware;
    uint32_t mtu;                         /* bytes; 0: does not apply */
    uint64_t largest_write, largest_read; /* bytes that arrived whole; 0: none */
    uint64_t failed_size;                 /* of the first that did not */
    uint64_t registered;                  /* bytes that this side could register */
    double latency_us;                    /* median of small writes */
    double write_mbits, read_mbits;
    char message[RG_ERROR_MESSAGE_MAX]; /* why it was not tried, or what failed */
};

/* The visiting side. `address` is the connection's on this side; `fd` speaks peer_wire. An error
 * means that the connection itself is of no more use. */
int rg_proof_run(int fd, const struct rg_proof_way *way, const char *address, uint64_t bytes,
                 struct rg_proof_result *ret_result, struct rg_error *err);

/* ---- The serving side ---- */

struct rg_proof_host;

int rg_proof_host_open(const char *address, struct rg_proof_host **ret_host, struct rg_error *err);
/* Ends whatever is open. NULL is allowed. */
void rg_proof_host_close(struct rg_proof_host *host);

/* Answers one message ("open", "window", "revoke", "close"); the reply is the caller's, NULL when
 * memory is short. Whatever the message holds, it is answered. */
json_t *rg_proof_host_answer(struct rg_proof_host *host, const json_t *message);

#endif
