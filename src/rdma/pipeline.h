/*
 * One transfer between a file and a peer's window, piece by piece through a few slots, so that the
 * file system and the network work at the same time. Blocking, straight-line, run by the thread
 * that leased the lane. It knows nothing of S3: no headers, no checksums, no replies.
 *
 * When it returns, the lane is quiet and the slots are back in the slab (or condemned): nothing of
 * this transfer can happen later, on success and on failure.
 */
#ifndef RG_RDMA_PIPELINE_H
#define RG_RDMA_PIPELINE_H

#include "base/error.h"
#include "rdma/disk.h"
#include "rdma/lane.h"
#include "rdma/slab.h"
#include "rdma/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Sees the object's bytes, every one once, in order, in the staging memory, while they are also
 * being written to the file (PUT) or to the peer (GET). They do not change meanwhile: what is
 * hashed is what is stored. Less than 0 (with *err) ends the transfer with that error.
 */
typedef int (*rg_pipeline_consumer)(void *context, struct span bytes, struct rg_error *err);

#define RG_TRANSFER_BUDGET_MS_DEFAULT 8000 /* under the 10 s that clients allow */
#define RG_TRANSFER_QUEUE_MS_DEFAULT  1000
#define RG_TRANSFER_SLOTS_DEFAULT     4

struct rg_transfer {
    struct rg_lane *lane; /* sound, nothing outstanding; rc: paired. Bound here. */
    struct rg_disk *disk;
    struct rg_slab *slab; /* attached to the lane's rail */
    const struct rg_rdma_window *window;
    uint64_t window_offset; /* where in the window the first byte goes or comes from */
    struct rg_file file;
    uint64_t file_offset;
    uint64_t length;              /* bytes; at least 1, window_offset + length within the window */
    size_t slots;                 /* 2 or more for overlap; at most RG_LEASE_SLOTS_MAX. Fewer are
                                     leased when the object is short or the slab is busy. */
    uint32_t queue_ms;            /* wait for slots */
    uint32_t budget_ms;           /* for everything, the wait included; 0: no limit */
    const atomic_bool *cancel;    /* may be NULL; looked at at least every 10 ms */
    rg_pipeline_consumer consume; /* may be NULL */
    void *consume_context;
};

#define RG_TRANSFER_INIT                                                                           \
    {                                                                                              \
        .file = {.fd = -1, .direct_fd = -1}, .slots = RG_TRANSFER_SLOTS_DEFAULT,                   \
        .queue_ms = RG_TRANSFER_QUEUE_MS_DEFAULT, .budget_ms = RG_TRANSFER_BUDGET_MS_DEFAULT       \
    }

/* Set on success and on failure. */
struct rg_transfer_report {
    uint64_t
        bytes; /* GET: delivered into the window; PUT: written to the file; on success = length */
    bool touched;   /* something was posted: the peer's memory may have been written or read. While
                       false the request can still be declined or served by HTTP. */
    unsigned quiet; /* RG_QUIET_*, what the flush after a failure could promise; both on success */
    enum rg_broke broke;
    enum rg_cause cause;
    int provider_status; /* of the completion that failed: ibv_wc_status, or fi_errno; else 0 */
    char provider_text[RG_CAUSE_TEXT_MAX + 1]; /* what the library calls it; "" when none failed */
    size_t slots;                              /* leased */
    uint64_t slot_wait_ns;
    uint64_t wall_ns;        /* from the first read or post to the last completion */
    uint64_t disk_ns;        /* time with a file operation in flight */
    uint64_t wire_ns;        /* time with a network operation in flight */
    uint64_t consume_ns;     /* spent in the consumer */
    uint64_t disk_fallbacks; /* file operations that the ring refused */
    uint64_t direct_bytes;   /* of the file's, that went around the page cache */
};

/*
 * rg_pipeline_get: file -> the peer's window (RDMA WRITE).
 * rg_pipeline_put: the peer's window -> file (RDMA READ). The file is written from file_offset on,
 * not truncated, not synced: that is the store's.
 *
 * Errors, all with the lane flushed first:
 *   RG_LIMIT                 no slot within queue_ms. Nothing was touched: decline.
 *   RG_RDMA_NOT_SUPPORTED, RG_INVALID_RDMA_TOKEN   from binding the window. Nothing was touched.
 *   RG_INVALID_REQUEST       the length does not fit the window. Nothing was touched.
 *   RG_RDMA_TRANSFER_FAILED  the network failed; report->broke and ->cause.
 *   RG_TIMED_OUT             the budget is over.
 *   RG_CANCELLED             *cancel became true.
 *   RG_STORAGE_FAULT and the other codes of rg_fail_storage   the file failed; a file that ends
 *                            early is RG_STORAGE_FAULT, never a short success.
 *   what the consumer returned.
 * A hung file system holds this thread past the budget (see rg_disk_drain), but the lane was
 * flushed before that, so the peer's memory is safe while it hangs.
 */
int rg_pipeline_get(const struct rg_transfer *transfer, struct rg_transfer_report *report,
                    struct rg_error *err);
int rg_pipeline_put(const struct rg_transfer *transfer, struct rg_transfer_report *report,
                    struct rg_error *err);

#endif
