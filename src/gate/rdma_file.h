/*
 * The file side of a transfer by RDMA: whether it goes around the page cache.
 */
#ifndef RG_GATE_RDMA_FILE_H
#define RG_GATE_RDMA_FILE_H

#include "gate/call.h"
#include "gate/planes.h"
#include "rdma/direct.h"

/*
 * The file behind `fd` (of the call's store; -1: none) for a transfer of [offset, offset + length),
 * with a descriptor for O_DIRECT beside it where the settings rdma-direct and rdma-direct-min, the
 * mount and the page cache speak for it. End with rg_direct_close; fd stays the caller's.
 */
struct rg_file rg_rdma_file(struct rg_call *call, int fd, enum rg_plane_use use, uint64_t offset,
                            uint64_t length);

#endif
