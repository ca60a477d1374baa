/*
 * Memory of a GPU: exported as a dma-buf for registration, and copied where it has to go by HTTP.
 * libcuda or libamdhip64 is loaded at run time; no type of either leaves device.c.
 *
 * Tried so far with stand-ins for these libraries only (tests/unit/client, tests/unit/host): no GPU
 * was at hand.
 */
#ifndef RG_RDMA_DEVICE_H
#define RG_RDMA_DEVICE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rg_device;

enum rg_device_kind { RG_DEVICE_CUDA, RG_DEVICE_HIP };

/*
 * Loads the library and finds out about the memory at `address`. RG_RDMA_NOT_SUPPORTED with a
 * sentence: no library, too old, not memory of a device, out of the allocation's range.
 */
int rg_device_open(enum rg_device_kind kind, uint64_t address, uint64_t length,
                   struct rg_device **ret_device, struct rg_error *err);

/*
 * Allocates `length` bytes on the device `ordinal`, for programs that have no memory of their own
 * there; rg_device_close frees them. RG_RDMA_NOT_SUPPORTED: no library, no such device;
 * RG_OUT_OF_MEMORY: the device has not so much.
 */
int rg_device_allocate(enum rg_device_kind kind, int ordinal, uint64_t length,
                       struct rg_device **ret_device, uint64_t *ret_address, struct rg_error *err);

/* NULL is allowed. */
void rg_device_close(struct rg_device *device);

struct rg_device_export {
    int fd;             /* the caller closes it */
    uint64_t fd_offset; /* of `address` in the dma-buf */
};

/* RG_RDMA_NOT_SUPPORTED when the driver cannot. */
int rg_device_export(struct rg_device *device, uint64_t address, uint64_t length,
                     struct rg_device_export *ret_export, struct rg_error *err);

/* The module that lets verbs register device memory by its address is loaded (NVIDIA only). */
bool rg_device_has_peermem(const struct rg_device *device);

/* How much of the device may be reachable over PCI at once: half of its BAR, for others use it too.
 * UINT64_MAX when that is not known. */
uint64_t rg_device_window_max(const struct rg_device *device);

/* All of that BAR; 0 when it is not known. */
uint64_t rg_device_bar(const struct rg_device *device);

/* Blocking copies between the device and the host. RG_INTERNAL_ERROR with the library's words. */
int rg_device_read(struct rg_device *device, uint64_t from, void *to, size_t length,
                   struct rg_error *err);
int rg_device_write(struct rg_device *device, uint64_t to, const void *from, size_t length,
                    struct rg_error *err);

/*
 * For rg_device_open and its test: the size of PCI region `index` of the device `bus_id`
 * ("0000:3B:00.0"), as `directory`/BUS_ID/resource says; 0 when it does not.
 */
uint64_t rg_device_bar_bytes(const char *directory, const char *bus_id, unsigned index);

#endif
