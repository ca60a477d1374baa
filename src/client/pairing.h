/*
 * What a gateway's answers to connect (rc: sessions), PREPARE and READY (hipobj-rc-v2) say. Pure:
 * the answer in, numbers that are in range out. The server is not trusted: fields that are there
 * twice, too long, signed, padded or out of range are no answer.
 */
#ifndef RG_CLIENT_PAIRING_H
#define RG_CLIENT_PAIRING_H

#include "client/http.h"

#include "rdma/token.h"
#include "rdma/transport.h"
#include "s3/checksum.h"

#include <stdbool.h>
#include <stdint.h>

struct rg_pairing {
    struct rg_lane_address peer; /* qpn, psn: 24 bits, not zero; mtu: 0 when not said */
    char session[RG_RC_SESSION_LENGTH + 1];
    bool has_staging;         /* PREPARE of a PUT: where to write */
    uint64_t staging_address; /* not zero; the whole length fits behind it */
    uint32_t staging_rkey;
};

/* POST /.s3rdma-rc/connect: x-amz-rdma-reply, -psn, -session. */
bool rg_pairing_read_connect(const struct rg_http_answer *answer, struct rg_pairing *ret_pairing);

/* PREPARE: the same, -protocol and, with `length` (bytes to push) of more than 0, -mr-addr and
 * -mr-rkey. */
bool rg_pairing_read_prepare(const struct rg_http_answer *answer, uint64_t length,
                             struct rg_pairing *ret_pairing);

/* READY: whether the answer is about the transfer with this cookie. */
bool rg_pairing_is_about(const struct rg_http_answer *answer, uint32_t cookie);

/*
 * READY: the CRC64NVME of what moved, in both of its forms ("CRC64NVME rosUhgp5mIg=" and the value
 * in a field of its own); algorithm NONE when the answer has none. False: it has one that cannot be
 * read, or two that differ.
 */
bool rg_pairing_read_checksum(const struct rg_http_answer *answer,
                              struct rg_checksum *ret_checksum);

#endif
