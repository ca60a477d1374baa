/*
 * CUDA and HIP behind one small interface. The numbers and signatures below are those of the
 * drivers' stable ABIs (cuda.h, hip_runtime_api.h, hsa_ext_amd.h): their headers are not needed to
 * build.
 */
#include "rdma/device.h"

#include "base/attr.h"
#include "base/checked.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PCI_DIRECTORY     "/sys/bus/pci/devices"
#define PEERMEM_DIRECTORY "/sys/module/nvidia_peermem"
#define PAGE_BYTES        ((uint64_t)64 << 10)
#define BUS_ID_BYTES      32
#define WINDOW_UNIT       ((uint64_t)2 << 20)

/* cuda.h */
#define CU_ATTRIBUTE_CONTEXT     1
#define CU_ATTRIBUTE_MEMORY_TYPE 2
#define CU_ATTRIBUTE_SYNC_MEMOPS 6
#define CU_ATTRIBUTE_ORDINAL     9
#define CU_MEMORY_DEVICE         2
#define RANGE_DMABUF_FD          1

/* hip_runtime_api.h */
#define HIP_ATTRIBUTE_ORDINAL 9
#define HIP_HOST_TO_DEVICE    1
#define HIP_DEVICE_TO_HOST    2
#define HIP_DMABUF_FD         1

struct cuda {
    int (*init)(unsigned flags);
    int (*pointer_get)(void *value, int attribute, uint64_t pointer);
    int (*pointer_set)(const void *value, int attribute, uint64_t pointer);
    int (*range)(uint64_t *base, size_t *size, uint64_t pointer);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*copy_in)(uint64_t to, const void *from, size_t bytes);
    int (*copy_out)(void *to, uint64_t from, size_t bytes);
    int (*bus_id)(char *text, int room, int ordinal);
    int (*export)(void *handle, uint64_t pointer, size_t size, int type, unsigned long long flags);
    int (*get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*allocate)(uint64_t *pointer, size_t bytes);
    int (*free)(uint64_t pointer);
    void *context;
    int device; /* whose primary context is `retained` */
};

struct hip {
    int (*pointer_get)(void *value, int attribute, void *pointer);
    int (*range)(void **base, size_t *size, void *pointer);
    int (*get_device)(int *ordinal);
    int (*set_device)(int ordinal);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*bus_id)(char *text, int room, int ordinal);
    int (*export)(void *handle, void *pointer, size_t size, int type, unsigned long long flags);
    int (*allocate)(void **pointer, size_t bytes);
    int (*free)(void *pointer);
    int (*hsa_export)(const void *pointer, size_t size, int *fd, uint64_t *offset);
    void *hsa;
};

struct rg_device {
    enum rg_device_kind kind;
    void *library;
    struct cuda cuda;
    struct hip hip;
    uint64_t base; /* of the allocation */
    uint64_t size;
    int ordinal;
    uint64_t bar; /* 0: not known */
    uint64_t window_max;
    bool has_peermem;
    uint64_t own; /* the address that was allocated here; 0: none */
    bool retained;
};

static bool find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

static int fail_call(struct rg_error *err, enum rg_code code, const char *what, int result)
{
    return rg_failf(err, code, "%s failed with error %d of the driver.", what, result);
}

static void *load(const char *name, struct rg_error *err)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)rg_failf(err, RG_RDMA_NOT_SUPPORTED, "%s cannot be loaded: %s", name, dlerror());
    }
    return library;
}

/* ---- PCI ---- */

uint64_t rg_device_bar_bytes(const char *directory, const char *bus_id, unsigned index)
{
    char path[512];
    char lower[BUS_ID_BYTES];
    size_t len = 0;
    while (bus_id[len] && len < sizeof lower - 1) {
        lower[len] = (char)tolower((unsigned char)bus_id[len]);
        len++;
    }
    lower[len] = '\0';
    snprintf(path, sizeof path, "%s/%s/resource", directory, lower);
    rg_autofclose FILE *file = fopen(path, "re");
    char line[128];
    for (unsigned at = 0; file && fgets(line, sizeof line, file); at++) {
        char *rest = line;
        uint64_t first = strtoull(rest, &rest, 16);
        uint64_t last = strtoull(rest, &rest, 16);
        if (at == index) {
            return last > first ? last - first + 1 : 0;
        }
    }
    return 0;
}

static void learn_window(struct rg_device *device, const char *bus_id, unsigned bar)
{
    uint64_t bytes = rg_device_bar_bytes(PCI_DIRECTORY, bus_id, bar);
    device->bar = bytes;
    device->window_max =
        bytes ? RG_MAX(bytes / 2 / WINDOW_UNIT, (uint64_t)1) * WINDOW_UNIT : UINT64_MAX;
}

/* ---- CUDA ---- */

static int load_cuda(struct rg_device *device, struct rg_error *err)
{
    struct cuda *cuda = &device->cuda;
    device->library = load("libcuda.so.1", err);
    if (!device->library) {
        return -RG_RDMA_NOT_SUPPORTED;
    }
    void *library = device->library;
    bool is_complete = find(library, "cuInit", &cuda->init) &&
                       find(library, "cuPointerGetAttribute", &cuda->pointer_get) &&
                       find(library, "cuPointerSetAttribute", &cuda->pointer_set) &&
                       find(library, "cuMemGetAddressRange_v2", &cuda->range) &&
                       find(library, "cuCtxPushCurrent_v2", &cuda->push) &&
                       find(library, "cuCtxPopCurrent_v2", &cuda->pop) &&
                       find(library, "cuMemcpyHtoD_v2", &cuda->copy_in) &&
                       find(library, "cuMemcpyDtoH_v2", &cuda->copy_out) &&
                       find(library, "cuDeviceGetPCIBusId", &cuda->bus_id);
    if (!is_complete) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libcuda.so.1 is too old: %s", dlerror());
    }
    /* Since CUDA 11.7; without it there is still the peer-memory module. */
    (void)find(library, "cuMemGetHandleForAddressRange", &cuda->export);
    int result = cuda->init(0);
    return result ? fail_call(err, RG_RDMA_NOT_SUPPORTED, "cuInit", result) : 0;
}

static int look_at_cuda(struct rg_device *device, uint64_t address, struct rg_error *err)
{
    struct cuda *cuda = &device->cuda;
    unsigned type = 0;
    size_t size = 0;
    int result = cuda->pointer_get(&type, CU_ATTRIBUTE_MEMORY_TYPE, address);
    if (result || type != CU_MEMORY_DEVICE) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The address is not memory of a CUDA device (error %d, type %u).", result,
                        type);
    }
    result = cuda->pointer_get(&cuda->context, CU_ATTRIBUTE_CONTEXT, address);
    if (!result) {
        result = cuda->pointer_get(&device->ordinal, CU_ATTRIBUTE_ORDINAL, address);
    }
    if (!result) {
        result = cuda->range(&device->base, &size, address);
    }
    if (result) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Asking CUDA about the memory", result);
    }
    device->size = size;
    /* Copies that were begun before a transfer must be over when the NIC reads. */
    unsigned on = 1;
    (void)cuda->pointer_set(&on, CU_ATTRIBUTE_SYNC_MEMOPS, address);
    char bus_id[BUS_ID_BYTES] = "";
    if (cuda->bus_id(bus_id, (int)sizeof bus_id, device->ordinal) == 0) {
        learn_window(device, bus_id, 1);
    }
    device->has_peermem = access(PEERMEM_DIRECTORY, F_OK) == 0;
    return 0;
}

static int export_cuda(struct rg_device *device, uint64_t base, uint64_t length, int *ret_fd,
                       struct rg_error *err)
{
    struct cuda *cuda = &device->cuda;
    if (!cuda->export) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "This libcuda.so.1 cannot export memory as a dma-buf.");
    }
    int fd = -1;
    (void)cuda->push(cuda->context);
    int result = cuda->export(&fd, base, length, RANGE_DMABUF_FD, 0);
    (void)cuda->pop(&(void *){NULL});
    if (result || fd < 0) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Exporting CUDA memory as a dma-buf", result);
    }
    *ret_fd = fd;
    return 0;
}

/* ---- HIP ---- */

static int load_hip(struct rg_device *device, struct rg_error *err)
{
    struct hip *hip = &device->hip;
    device->library = load("libamdhip64.so", err);
    if (!device->library) {
        /* Without the development package only the versioned names are there. */
        device->library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_LOCAL);
    }
    if (!device->library) {
        return -RG_RDMA_NOT_SUPPORTED;
    }
    void *library = device->library;
    bool is_complete = find(library, "hipPointerGetAttribute", &hip->pointer_get) &&
                       find(library, "hipMemGetAddressRange", &hip->range) &&
                       find(library, "hipGetDevice", &hip->get_device) &&
                       find(library, "hipSetDevice", &hip->set_device) &&
                       find(library, "hipMemcpy", &hip->copy) &&
                       find(library, "hipDeviceGetPCIBusId", &hip->bus_id);
    if (!is_complete) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libamdhip64 is too old: %s", dlerror());
    }
    (void)find(library, "hipMemGetHandleForAddressRange", &hip->export);
    if (!hip->export) {
        hip->hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);
        if (hip->hsa) {
            (void)find(hip->hsa, "hsa_amd_portable_export_dmabuf", &hip->hsa_export);
        }
    }
    return 0;
}

static void *pointer_of(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): an address of a device
}

static int look_at_hip(struct rg_device *device, uint64_t address, struct rg_error *err)
{
    struct hip *hip = &device->hip;
    void *base = NULL;
    size_t size = 0;
    int result = hip->pointer_get(&device->ordinal, HIP_ATTRIBUTE_ORDINAL, pointer_of(address));
    if (!result) {
        result = hip->range(&base, &size, pointer_of(address));
    }
    if (result) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The address is not memory of a HIP device (error %d).", result);
    }
    device->base = (uint64_t)(uintptr_t)base;
    device->size = size;
    char bus_id[BUS_ID_BYTES] = "";
    if (hip->bus_id(bus_id, (int)sizeof bus_id, device->ordinal) == 0) {
        learn_window(device, bus_id, 0);
    }
    return 0;
}

static int export_hip(struct rg_device *device, uint64_t base, uint64_t length, int *ret_fd,
                      uint64_t *ret_offset, struct rg_error *err)
{
    struct hip *hip = &device->hip;
    int fd = -1;
    int result;
    *ret_offset = 0;
    if (hip->export) {
        result = hip->export(&fd, pointer_of(base), length, HIP_DMABUF_FD, 0);
    } else if (hip->hsa_export) {
        result = hip->hsa_export(pointer_of(base), length, &fd, ret_offset);
    } else {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "This ROCm cannot export memory as a dma-buf.");
    }
    if (result || fd < 0) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Exporting HIP memory as a dma-buf", result);
    }
    *ret_fd = fd;
    return 0;
}

static int copy_hip(struct rg_device *device, void *to, const void *from, size_t length, int kind,
                    struct rg_error *err)
{
    struct hip *hip = &device->hip;
    int current = device->ordinal;
    (void)hip->get_device(&current);
    (void)hip->set_device(device->ordinal);
    int result = hip->copy(to, from, length, kind);
    (void)hip->set_device(current);
    return result ? fail_call(err, RG_INTERNAL_ERROR, "Copying HIP memory", result) : 0;
}

/* ---- Memory of our own ---- */

/* cuda.h: CUDA_ERROR_OUT_OF_MEMORY; hip_runtime_api.h has the same number. */
#define OUT_OF_MEMORY 2

static int fail_allocation(uint64_t length, int result, struct rg_error *err)
{
    return rg_failf(err, result == OUT_OF_MEMORY ? RG_OUT_OF_MEMORY : RG_RDMA_NOT_SUPPORTED,
                    "Allocating %" PRIu64
                    " bytes on the device failed with error %d of the driver.",
                    length, result);
}

static int allocate_cuda(struct rg_device *device, int ordinal, uint64_t length,
                         struct rg_error *err)
{
    struct cuda *cuda = &device->cuda;
    void *library = device->library;
    if (!find(library, "cuDeviceGet", &cuda->get) ||
        !find(library, "cuDevicePrimaryCtxRetain", &cuda->retain) ||
        !find(library, "cuDevicePrimaryCtxRelease_v2", &cuda->release) ||
        !find(library, "cuMemAlloc_v2", &cuda->allocate) ||
        !find(library, "cuMemFree_v2", &cuda->free)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libcuda.so.1 is too old: %s", dlerror());
    }
    int result = cuda->get(&cuda->device, ordinal);
    if (result) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Finding the CUDA device", result);
    }
    result = cuda->retain(&cuda->context, cuda->device);
    if (result) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Opening the CUDA device", result);
    }
    device->retained = true;
    (void)cuda->push(cuda->context);
    result = cuda->allocate(&device->own, length);
    (void)cuda->pop(&(void *){NULL});
    return result ? fail_allocation(length, result, err) : 0;
}

static int allocate_hip(struct rg_device *device, int ordinal, uint64_t length,
                        struct rg_error *err)
{
    struct hip *hip = &device->hip;
    void *pointer = NULL;
    int current = 0;
    if (!find(device->library, "hipMalloc", &hip->allocate) ||
        !find(device->library, "hipFree", &hip->free)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED, "libamdhip64 is too old: %s", dlerror());
    }
    (void)hip->get_device(&current);
    int result = hip->set_device(ordinal);
    if (result) {
        return fail_call(err, RG_RDMA_NOT_SUPPORTED, "Finding the HIP device", result);
    }
    result = hip->allocate(&pointer, length);
    (void)hip->set_device(current);
    device->own = (uint64_t)(uintptr_t)pointer;
    return result ? fail_allocation(length, result, err) : 0;
}

static void free_own(struct rg_device *device)
{
    struct cuda *cuda = &device->cuda;
    if (device->kind == RG_DEVICE_HIP && device->own) {
        (void)device->hip.free(pointer_of(device->own));
    } else if (device->own) {
        (void)cuda->push(cuda->context);
        (void)cuda->free(device->own);
        (void)cuda->pop(&(void *){NULL});
    }
    if (device->retained) {
        (void)cuda->release(cuda->device);
    }
}

/* ---- Both ---- */

static int open_device(struct rg_device *device, uint64_t address, uint64_t length,
                       struct rg_error *err)
{
    device->window_max = UINT64_MAX;
    int rc = device->kind == RG_DEVICE_CUDA ? look_at_cuda(device, address, err)
                                            : look_at_hip(device, address, err);
    if (rc < 0) {
        return rc;
    }
    if (address < device->base || address - device->base > device->size ||
        length > device->size - (address - device->base)) {
        return rg_failf(err, RG_RDMA_NOT_SUPPORTED,
                        "The device has allocated only %" PRIu64 " bytes at this address.",
                        device->size);
    }
    return 0;
}

static int load_library(struct rg_device *device, struct rg_error *err)
{
    return device->kind == RG_DEVICE_CUDA ? load_cuda(device, err) : load_hip(device, err);
}

int rg_device_open(enum rg_device_kind kind, uint64_t address, uint64_t length,
                   struct rg_device **ret_device, struct rg_error *err)
{
    struct rg_device *device = calloc(1, sizeof *device);
    if (!device) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    device->kind = kind;
    int rc = load_library(device, err);
    rc = rc < 0 ? rc : open_device(device, address, length, err);
    if (rc < 0) {
        rg_device_close(device);
        return rc;
    }
    *ret_device = device;
    return 0;
}

int rg_device_allocate(enum rg_device_kind kind, int ordinal, uint64_t length,
                       struct rg_device **ret_device, uint64_t *ret_address, struct rg_error *err)
{
    struct rg_device *device = calloc(1, sizeof *device);
    if (!device) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    device->kind = kind;
    int rc = load_library(device, err);
    if (rc == 0) {
        rc = kind == RG_DEVICE_CUDA ? allocate_cuda(device, ordinal, length, err)
                                    : allocate_hip(device, ordinal, length, err);
    }
    rc = rc < 0 ? rc : open_device(device, device->own, length, err);
    if (rc < 0) {
        rg_device_close(device);
        return rc;
    }
    *ret_address = device->own;
    *ret_device = device;
    return 0;
}

void rg_device_close(struct rg_device *device)
{
    if (!device) {
        return;
    }
    free_own(device);
    /* The program has its own reference where it uses the library. */
    if (device->hip.hsa) {
        dlclose(device->hip.hsa);
    }
    if (device->library) {
        dlclose(device->library);
    }
    free(device);
}

int rg_device_export(struct rg_device *device, uint64_t address, uint64_t length,
                     struct rg_device_export *ret_export, struct rg_error *err)
{
    /* Whole pages, within the allocation. */
    uint64_t begin = address / PAGE_BYTES * PAGE_BYTES;
    begin = RG_MAX(begin, device->base);
    uint64_t end = (address + length + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    end = RG_MIN(end, device->base + device->size);
    int fd = -1;
    uint64_t offset = 0;
    int rc = device->kind == RG_DEVICE_CUDA
                 ? export_cuda(device, begin, end - begin, &fd, err)
                 : export_hip(device, begin, end - begin, &fd, &offset, err);
    if (rc == 0) {
        *ret_export = (struct rg_device_export){.fd = fd, .fd_offset = offset + address - begin};
    }
    return rc;
}

bool rg_device_has_peermem(const struct rg_device *device)
{
    return device->has_peermem;
}

uint64_t rg_device_bar(const struct rg_device *device)
{
    return device->bar;
}

uint64_t rg_device_window_max(const struct rg_device *device)
{
    return device->window_max;
}

int rg_device_read(struct rg_device *device, uint64_t from, void *to, size_t length,
                   struct rg_error *err)
{
    if (device->kind == RG_DEVICE_HIP) {
        return copy_hip(device, to, pointer_of(from), length, HIP_DEVICE_TO_HOST, err);
    }
    (void)device->cuda.push(device->cuda.context);
    int result = device->cuda.copy_out(to, from, length);
    (void)device->cuda.pop(&(void *){NULL});
    return result ? fail_call(err, RG_INTERNAL_ERROR, "Copying CUDA memory", result) : 0;
}

int rg_device_write(struct rg_device *device, uint64_t to, const void *from, size_t length,
                    struct rg_error *err)
{
    if (device->kind == RG_DEVICE_HIP) {
        return copy_hip(device, pointer_of(to), from, length, HIP_HOST_TO_DEVICE, err);
    }
    (void)device->cuda.push(device->cuda.context);
    int result = device->cuda.copy_in(to, from, length);
    (void)device->cuda.pop(&(void *){NULL});
    return result ? fail_call(err, RG_INTERNAL_ERROR, "Copying CUDA memory", result) : 0;
}
