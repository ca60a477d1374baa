/*
 * Puts the results of pieces together into what the caller gets.
 */
#ifndef RG_CLIENT_RESULT_H
#define RG_CLIENT_RESULT_H

#include "client/piece.h"
#include "client/plan.h"

#include <railgate/railgate.h>

/* Adds bytes, path and reason; the first piece begins with *result all zero. */
void rg_result_add(struct rg_result *result, const struct rg_piece_result *piece);

/* The same with all parts of a file; those an earlier call had moved (path "") add nothing, and
 * when it had moved all, the path is "resumed". */
void rg_result_add_parts(struct rg_result *result, const struct rg_plan *plan,
                         const struct rg_piece_result *pieces);

/* A CRC64NVME as S3 writes it: base64 of its big-endian bytes. */
void rg_crc64_text(uint64_t crc, char text[32]);

/*
 * Compares the checksum that the server states (in base64, "" for none) with the one computed here
 * and sets result->checksum and ->verified. RG_STATUS_INTEGRITY when they differ.
 */
int rg_result_verify(struct rg_result *result, const char *stated, bool has_crc, uint64_t crc,
                     struct rg_failure *failure);

/* The CRC64NVME of all parts, from those of each; false when one has none. */
bool rg_result_combine(const struct rg_plan *plan, const struct rg_piece_result *pieces,
                       uint64_t *ret_crc);

#endif
