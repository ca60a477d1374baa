/*
 * Stands for libcuda.so.1 in test_device.c and in tests/unit/host/test_proof.c. Device memory is a
 * file mapped twice: at the "device address", where touching it crashes as touching a GPU pointer
 * would, and at a shadow address that only this library and the fake rail use. A dma-buf is a file
 * that holds the shadow address of what it exports.
 *
 * The test steers it through environment variables: FAKE_CUDA_NO_EXPORT.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static char *device;
static char *shadow;
static size_t device_size;
static _Thread_local int pushed;

int cuInit(unsigned flags);
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer);
int cuPointerSetAttribute(const void *value, int attribute, uint64_t pointer);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t pointer);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuDeviceGetPCIBusId(char *text, int room, int ordinal);
int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t size, int type,
                                  unsigned long long flags);
int cuDeviceGet(int *ret_device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int of);
int cuDevicePrimaryCtxRelease_v2(int of);
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
int cuMemFree_v2(uint64_t pointer);
void *fake_cuda_alloc(size_t size);
void *fake_cuda_shadow(void);
void fake_cuda_free(void);

EXPORTED void *fake_cuda_alloc(size_t size)
{
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
        abort();
    }
    device = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
    shadow = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    device_size = size;
    close(fd);
    return device;
}

EXPORTED void *fake_cuda_shadow(void)
{
    return shadow;
}

EXPORTED void fake_cuda_free(void)
{
    munmap(device, device_size);
    munmap(shadow, device_size);
    device = shadow = NULL;
}

static int is_device(uint64_t pointer)
{
    return device && pointer >= (uintptr_t)device && pointer < (uintptr_t)device + device_size;
}

EXPORTED int cuInit(unsigned flags)
{
    return flags ? 1 : 0;
}

EXPORTED int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    if (!is_device(pointer)) {
        return 1;
    }
    switch (attribute) {
    case 1: /* context */
        *(void **)value = &device;
        return 0;
    case 2: /* memory type: device */
        *(unsigned *)value = 2;
        return 0;
    case 9: /* ordinal */
        *(int *)value = 0;
        return 0;
    default:
        return 1;
    }
}

EXPORTED int cuPointerSetAttribute(const void *value, int attribute, uint64_t pointer)
{
    return attribute == 6 && *(const unsigned *)value == 1 && is_device(pointer) ? 0 : 1;
}

EXPORTED int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t pointer)
{
    *base = (uintptr_t)device;
    *size = device_size;
    return is_device(pointer) ? 0 : 1;
}

EXPORTED int cuCtxPushCurrent_v2(void *context)
{
    pushed++;
    return context == &device ? 0 : 1;
}

EXPORTED int cuCtxPopCurrent_v2(void **context)
{
    pushed--;
    *context = &device;
    return 0;
}

EXPORTED int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    if (!pushed || !is_device(to)) {
        return 1; /* no context: what real threads forget */
    }
    memcpy(shadow + (to - (uintptr_t)device), from, bytes);
    return 0;
}

EXPORTED int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    if (!pushed || !is_device(from)) {
        return 1;
    }
    memcpy(to, shadow + (from - (uintptr_t)device), bytes);
    return 0;
}

EXPORTED int cuDeviceGet(int *ret_device, int ordinal)
{
    *ret_device = 7;
    return ordinal == 0 ? 0 : 101; /* invalid device */
}

EXPORTED int cuDevicePrimaryCtxRetain(void **context, int of)
{
    *context = &device;
    return of == 7 ? 0 : 101;
}

EXPORTED int cuDevicePrimaryCtxRelease_v2(int of)
{
    return of == 7 ? 0 : 101;
}

/* One at a time is all there is room for. */
EXPORTED int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    if (!pushed || device) {
        return 2; /* out of memory */
    }
    *pointer = (uintptr_t)fake_cuda_alloc(bytes);
    return 0;
}

EXPORTED int cuMemFree_v2(uint64_t pointer)
{
    if (!pushed || pointer != (uintptr_t)device) {
        return 1;
    }
    fake_cuda_free();
    return 0;
}

EXPORTED int cuDeviceGetPCIBusId(char *text, int room, int ordinal)
{
    snprintf(text, (size_t)room, "0000:FA:CE.0");
    return ordinal;
}

EXPORTED int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t size, int type,
                                           unsigned long long flags)
{
    if (getenv("FAKE_CUDA_NO_EXPORT") || !pushed || type != 1 || flags || !is_device(pointer) ||
        pointer % 4096 || size % 4096 ||
        size > device_size - (size_t)(pointer - (uintptr_t)device)) {
        return 801; /* not supported */
    }
    char *begin = shadow + (pointer - (uintptr_t)device);
    int fd = memfd_create("fake-dmabuf", MFD_CLOEXEC);
    if (write(fd, &begin, sizeof begin) != sizeof begin) {
        abort();
    }
    *(int *)handle = fd;
    return 0;
}
