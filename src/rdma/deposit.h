/*
 * Bytes that have arrived in memory as a whole go to a file, piece by piece: while some pieces are
 * being written, the next are shown to a consumer (for their checksums). For transfers whose peer
 * tells nothing before all is there (hipobj-rc-v2), so that at least file and checksum overlap.
 */
#ifndef RG_RDMA_DEPOSIT_H
#define RG_RDMA_DEPOSIT_H

#include "base/error.h"
#include "base/span.h"
#include "rdma/pipeline.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RG_DEPOSIT_PIECE_BYTES ((size_t)1 << 20)
#define RG_DEPOSIT_DEPTH       4u /* pieces being written at a time */

struct rg_deposit {
    struct span bytes; /* unchanged until it returns */
    struct rg_file file;
    uint64_t file_offset;
    bool allow_uring;
    const atomic_bool *cancel;    /* may be NULL; looked at before each piece */
    rg_pipeline_consumer consume; /* may be NULL; each byte once, in order */
    void *consume_context;
};

/* Set on success and on failure. */
struct rg_deposit_report {
    uint64_t disk_ns;      /* time with a write in flight */
    uint64_t direct_bytes; /* that went around the page cache */
};

/*
 * When it returns nothing reads the memory any more, on success and on failure. The file is neither
 * truncated nor synced. Errors: RG_CANCELLED, RG_STORAGE_FAULT and the other codes of
 * rg_fail_storage, RG_OUT_OF_MEMORY, RG_INVALID_REQUEST (beyond any file), what the consumer
 * returned. A hung file system holds this thread (rg_disk_drain).
 */
int rg_deposit_run(const struct rg_deposit *deposit, struct rg_deposit_report *ret_report,
                   struct rg_error *err);

#endif
