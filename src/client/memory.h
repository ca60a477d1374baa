/*
 * Registered memory, of the host or of a device.
 */
#ifndef RG_CLIENT_MEMORY_H
#define RG_CLIENT_MEMORY_H

#include "client/client.h"
#include "rdma/device.h"
#include "client/rails.h"

#include <railgate/railgate.h>

struct rg_memory {
    struct rg_client *client;
    enum rg_memory_kind kind;
    char *address; /* of the device, for device memory */
    uint64_t size;
    struct rg_device *device; /* NULL for host memory */
    unsigned usable;          /* bit n: rail n can move it, or could when it is back */
    unsigned windowed;        /* bit n: registered piece by piece on rail n */
    uint64_t piece_max;       /* bytes of one piece where it is windowed; else UINT64_MAX */

    pthread_mutex_t mutex; /* guards what follows */
    struct rg_memory_region {
        struct rg_region *region; /* of the whole memory; NULL: none on that rail */
        struct rg_rail_life *life;
        size_t leases;
    } regions[RG_RAILS_MAX];
};

/* A registration for one request. */
struct rg_memory_lease {
    struct rg_region *region;
    uint64_t region_offset; /* of the piece */
    bool own;               /* made for this lease */
    struct rg_memory *memory;
    struct rg_client_rail *rail;
    struct rg_rail_life *life; /* of an own registration */
};

/*
 * The registration of [offset, offset + length) for a window on this lane, whose rail is one of
 * memory->usable. Memory that was registered in an earlier life of the rail is registered anew:
 * RG_SERVICE_UNAVAILABLE while transfers of that one are still under way, or when it is the lane
 * that is of an earlier life.
 */
int rg_memory_lease(struct rg_memory *memory, struct rg_client_lane *lane, uint64_t offset,
                    uint64_t length, struct rg_memory_lease *ret_lease, struct rg_error *err);
void rg_memory_unlease(struct rg_memory_lease *lease);

/* The memory as bytes that the CPU can read; NULL for device memory. */
char *rg_memory_bytes(const struct rg_memory *memory, uint64_t offset);

/* Copies to or from the memory, wherever it is. RG_STATUS_MEMORY when the device refuses. */
int rg_memory_read(struct rg_memory *memory, uint64_t offset, void *to, size_t length,
                   struct rg_failure *failure);
int rg_memory_write(struct rg_memory *memory, uint64_t offset, const void *from, size_t length,
                    struct rg_failure *failure);

/* RG_STATUS_USAGE unless [offset, offset + size) lies within the memory, which may be NULL for
 * no bytes at all. */
int rg_memory_check(const struct rg_client *client, const struct rg_memory *memory, uint64_t offset,
                    uint64_t size, struct rg_failure *failure);

#endif
