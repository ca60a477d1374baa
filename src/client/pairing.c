/* Answers of the session routes. See pairing.h. */
#include "client/pairing.h"

#include "base/checked.h"
#include "base/encode.h"
#include "rdma/session_wire.h"

#include <string.h>

#define PSN_DIGITS 6

/* A field that came once, and was not too long; empty otherwise. */
static struct span single(const struct rg_http_answer *answer, enum rg_answer_field field)
{
    return answer->twice[field] ? RG_SPAN_EMPTY : rg_http_field(answer, field);
}

/* 1 to 16 hex digits and nothing else. */
static bool read_hex(struct span text, uint64_t *ret_value)
{
    char padded[16];
    unsigned char bytes[sizeof padded / 2];
    if (text.len == 0 || text.len > sizeof padded) {
        return false;
    }
    memset(padded, '0', sizeof padded);
    memcpy(padded + sizeof padded - text.len, text.ptr, text.len);
    if (!rg_hex_decode(rg_span(padded, sizeof padded), bytes, sizeof bytes)) {
        return false;
    }
    *ret_value = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        *ret_value = *ret_value << 8 | bytes[i];
    }
    return true;
}

static bool read_session(const struct rg_http_answer *answer, struct rg_pairing *pairing)
{
    unsigned char bytes[RG_RC_SESSION_LENGTH / 2];
    struct span text = single(answer, RG_ANSWER_RDMA_SESSION);
    if (text.len != RG_RC_SESSION_LENGTH || !rg_hex_decode(text, bytes, sizeof bytes)) {
        return false;
    }
    memcpy(pairing->session, text.ptr, text.len);
    pairing->session[text.len] = '\0';
    return true;
}

static bool read_numbers(const struct rg_http_answer *answer, struct rg_lane_address *peer)
{
    struct span psn = single(answer, RG_ANSWER_RDMA_PSN);
    uint64_t value;
    if (psn.len != PSN_DIGITS || !read_hex(psn, &value)) {
        return false;
    }
    peer->psn = (uint32_t)value;
    return !answer->has[RG_ANSWER_RDMA_MTU] ||
           rg_session_mtu_parse(single(answer, RG_ANSWER_RDMA_MTU), &peer->mtu);
}

bool rg_pairing_read_connect(const struct rg_http_answer *answer, struct rg_pairing *ret_pairing)
{
    struct rg_pairing pairing;
    struct rg_rdma_window window;
    struct span reply = single(answer, RG_ANSWER_REPLY);
    memset(&pairing, 0, sizeof pairing);
    memset(&window, 0, sizeof window);
    if (!rg_span_starts(reply, RG_SPAN_LITERAL("200:")) ||
        rg_rdma_reply_parse(reply, true, &window) != 200 || window.qpn == 0 ||
        !read_numbers(answer, &pairing.peer) || !read_session(answer, &pairing)) {
        return false;
    }
    pairing.peer.qpn = window.qpn;
    pairing.peer.lid = window.lid;
    pairing.peer.port = window.port;
    pairing.peer.has_gid = window.has_gid;
    memcpy(pairing.peer.gid, window.gid, sizeof pairing.peer.gid);
    *ret_pairing = pairing;
    return true;
}

static bool is_protocol(const struct rg_http_answer *answer)
{
    return rg_span_is(single(answer, RG_ANSWER_RDMA_PROTOCOL), RG_PUSH_PROTOCOL);
}

bool rg_pairing_read_prepare(const struct rg_http_answer *answer, uint64_t length,
                             struct rg_pairing *ret_pairing)
{
    struct rg_pairing pairing;
    uint64_t rkey = 0;
    uint64_t end;
    if (!is_protocol(answer) || !rg_pairing_read_connect(answer, &pairing)) {
        return false;
    }
    if (length > 0) {
        if (!read_hex(single(answer, RG_ANSWER_RDMA_MR_ADDR), &pairing.staging_address) ||
            !read_hex(single(answer, RG_ANSWER_RDMA_MR_RKEY), &rkey) || rkey > UINT32_MAX ||
            pairing.staging_address == 0 ||
            !rg_add_checked(pairing.staging_address, length, &end)) {
            return false;
        }
        pairing.has_staging = true;
        pairing.staging_rkey = (uint32_t)rkey;
    }
    *ret_pairing = pairing;
    return true;
}

bool rg_pairing_is_about(const struct rg_http_answer *answer, uint32_t cookie)
{
    char text[8 + 1];
    rg_push_cookie_print(cookie, text);
    return is_protocol(answer) && rg_span_is_nocase(single(answer, RG_ANSWER_RDMA_COOKIE), text);
}

static bool read_crc(struct span text, struct rg_checksum *ret_checksum)
{
    return rg_checksum_parse(RG_CHECKSUM_CRC64NVME, text, ret_checksum, NULL) == 0 &&
           ret_checksum->type == RG_CHECKSUM_FULL_OBJECT;
}

bool rg_pairing_read_checksum(const struct rg_http_answer *answer, struct rg_checksum *ret_checksum)
{
    struct rg_checksum named = RG_CHECKSUM_INIT;
    struct rg_checksum plain = RG_CHECKSUM_INIT;
    struct span rest = single(answer, RG_ANSWER_RDMA_CHECKSUM);
    if (answer->has[RG_ANSWER_RDMA_CHECKSUM]) {
        struct span name = rg_span_cut(&rest, ' ');
        if (!rg_span_is(name, "CRC64NVME") || !rest.ptr || !read_crc(rest, &named)) {
            return false;
        }
    }
    if (answer->has[RG_ANSWER_RDMA_CRC64] &&
        !read_crc(single(answer, RG_ANSWER_RDMA_CRC64), &plain)) {
        return false;
    }
    bool has_both = named.algorithm != RG_CHECKSUM_NONE && plain.algorithm != RG_CHECKSUM_NONE;
    if (has_both && !rg_checksum_equal(&named, &plain)) {
        return false;
    }
    *ret_checksum = named.algorithm != RG_CHECKSUM_NONE ? named : plain;
    return true;
}
