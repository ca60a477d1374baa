/*
 * Results of pieces, put together. See result.h.
 */
#include "client/result.h"

#include "client/failure.h"

#include "base/encode.h"
#include "s3/checksum.h"

#include <string.h>

void rg_crc64_text(uint64_t crc, char text[32])
{
    unsigned char big_endian[8];
    for (size_t i = 0; i < sizeof big_endian; i++) {
        big_endian[i] = (unsigned char)(crc >> (56 - 8 * i));
    }
    rg_base64_encode(big_endian, sizeof big_endian, text);
}

void rg_result_add(struct rg_result *result, const struct rg_piece_result *piece)
{
    bool is_first = result->path[0] == '\0';
    result->bytes += piece->bytes;
    result->rdma_bytes += piece->used_rdma ? piece->bytes : 0;
    result->used_rdma = piece->used_rdma && (is_first || result->used_rdma);
    if (is_first) {
        snprintf(result->path, sizeof result->path, "%s", piece->path);
    } else if (strcmp(result->path, piece->path) != 0) {
        snprintf(result->path, sizeof result->path, "mixed");
    }
    if (!result->reason[0]) {
        snprintf(result->reason, sizeof result->reason, "%s", piece->reason);
    }
}

void rg_result_add_parts(struct rg_result *result, const struct rg_plan *plan,
                         const struct rg_piece_result *pieces)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (pieces[i].path[0]) {
            rg_result_add(result, &pieces[i]);
        }
    }
    if (!result->path[0]) {
        snprintf(result->path, sizeof result->path, "resumed");
        snprintf(result->reason, sizeof result->reason, "all parts were there");
    }
}

int rg_result_verify(struct rg_result *result, const char *stated, bool has_crc, uint64_t crc,
                     struct rg_failure *failure)
{
    char own[32];
    snprintf(result->checksum, sizeof result->checksum, "%s", stated);
    if (!stated[0] || !has_crc) {
        return 0;
    }
    rg_crc64_text(crc, own);
    if (strcmp(own, stated) == 0) {
        result->verified = true;
        return 0;
    }
    return rg_failure_set(failure, RG_STATUS_INTEGRITY,
                          "The checksum of the bytes is %s, and the gateway says that it is %s.",
                          own, stated);
}

bool rg_result_combine(const struct rg_plan *plan, const struct rg_piece_result *pieces,
                       uint64_t *ret_crc)
{
    uint64_t crc = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        if (!pieces[i].has_crc) {
            return false;
        }
        crc = i == 0 ? pieces[0].crc
                     : rg_crc_combine(RG_CHECKSUM_CRC64NVME, crc, pieces[i].crc,
                                      rg_plan_length(plan, i));
    }
    *ret_crc = crc;
    return true;
}
