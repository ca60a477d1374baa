/*
 * O_DIRECT for large transfers: object bytes are then not copied by the processor, and do not drive
 * everything else out of the page cache. What is in the page cache already is read from there: a
 * copy costs less than the disk. Writing waits for the disk sooner or later, because what is
 * acknowledged is durable; the page cache lets the network go ahead of it, and Complete read parts
 * from memory, so that O_DIRECT has to be asked for (docs/performance.md has the figures).
 */
#include "gate/rdma_file.h"

static bool pays(const struct rg_call *call, int fd, enum rg_plane_use use, uint64_t offset,
                 uint64_t length)
{
    const struct rg_settings *settings = call->settings;
    if (settings->rdma_direct == RG_DIRECT_OFF || length < (uint64_t)settings->rdma_direct_min ||
        !rg_store_fd_direct(call->store, fd)) {
        return false;
    }
    return settings->rdma_direct == RG_DIRECT_ON ||
           (use == RG_PLANE_GET && !rg_file_is_cached(fd, offset, length));
}

struct rg_file rg_rdma_file(struct rg_call *call, int fd, enum rg_plane_use use, uint64_t offset,
                            uint64_t length)
{
    struct rg_file file = {.fd = fd, .direct_fd = -1};
    if (fd >= 0 && pays(call, fd, use, offset, length)) {
        (void)rg_direct_open(&file, use != RG_PLANE_GET);
    }
    return file;
}
