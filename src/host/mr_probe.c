/*
 * Registration for real. See mr_probe.h.
 */
#include "host/mr_probe.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>

#ifdef RG_HAVE_RC

#include "rdma/verbs.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#define MIB ((uint64_t)1 << 20)

/* A gigabyte takes a good tenth of a second to pin. When so much time has gone, only the small
 * sizes are tried on the cards that are left. */
#define BUDGET_MS 1000

/* What is registered, with one card after the other: its pages become real only once. */
struct bench {
    const struct rg_verbs *verbs;
    uint64_t planned;
    uint64_t until_ms;
    void *memory; /* NULL when there is none */
    uint64_t bytes;
};

static uint64_t bytes_allowed(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (uint64_t)info.freeram * info.mem_unit / 2 : 64 * MIB;
}

/* 0, or why there is no memory of that size; -1: it may not be taken. */
static int map_memory(struct bench *bench, uint64_t bytes)
{
    if (bytes <= bench->bytes) {
        return 0;
    }
    if (bench->memory) {
        munmap(bench->memory, bench->bytes);
    }
    bench->memory = NULL;
    bench->bytes = 0;
    if (bytes > bytes_allowed()) {
        return -1;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return errno;
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    bench->memory = memory;
    bench->bytes = bytes;
    return 0;
}

/* The NIC's driver makes the pages real. */
static int try_register(struct bench *bench, struct ibv_pd *pd, uint64_t bytes)
{
    int result = map_memory(bench, bytes);
    if (result != 0) {
        return result;
    }
    errno = 0;
    struct ibv_mr *mr = bench->verbs->reg_mr(pd, bench->memory, bytes,
                                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                 IBV_ACCESS_REMOTE_READ);
    result = mr ? 0 : errno ? errno : EIO;
    if (mr) {
        bench->verbs->dereg_mr(mr);
    }
    return result;
}

/* A bad descriptor tells the two apart: EBADF when the device looks at it, EOPNOTSUPP when not. */
static int try_dmabuf(const struct rg_verbs *verbs, struct ibv_pd *pd)
{
    if (!verbs->reg_dmabuf_mr) {
        return EOPNOTSUPP;
    }
    errno = 0;
    struct ibv_mr *mr = verbs->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
    if (mr) {
        verbs->dereg_mr(mr);
        return 0;
    }
    return errno ? errno : EIO;
}

static void tell_device(struct bench *bench, struct ibv_device *device, struct rg_buf *out)
{
    const struct rg_verbs *verbs = bench->verbs;
    errno = 0;
    struct ibv_context *context = verbs->open_device(device);
    int open_errno = context ? 0 : errno ? errno : EIO;
    struct ibv_pd *pd = context ? verbs->alloc_pd(context) : NULL;
    if (context && !pd) {
        open_errno = errno ? errno : EIO;
    }
    rg_buf_addf(out, "mr %s %d %d", device->name, open_errno, pd ? try_dmabuf(verbs, pd) : -1);
    const uint64_t sizes[] = {MIB, 64 * MIB, bench->planned};
    for (size_t i = 0; pd && i < RG_ARRAY_LENGTH(sizes); i++) {
        bool is_late = sizes[i] > 64 * MIB && rg_clock_ms() >= bench->until_ms;
        if (sizes[i]) {
            rg_buf_addf(out, " %" PRIu64 " %d", sizes[i],
                        is_late ? -1 : try_register(bench, pd, sizes[i]));
        }
    }
    rg_buf_add_char(out, '\n');
    if (pd) {
        verbs->dealloc_pd(pd);
    }
    if (context) {
        verbs->close_device(context);
    }
}

int rg_mr_probe(void *argument, int fd)
{
    const struct rg_verbs *verbs;
    struct rg_error err = RG_ERROR_INIT;
    struct bench bench = {.planned = *(const uint64_t *)argument,
                          .until_ms = rg_clock_ms() + BUDGET_MS};
    int count = 0;
    if (rg_verbs_load(&verbs, &err) < 0) {
        return ENOPKG;
    }
    bench.verbs = verbs;
    struct ibv_device **list = verbs->get_device_list(&count);
    RG_BUF(text, 8192);
    for (int i = 0; list && i < count; i++) {
        tell_device(&bench, list[i], &text);
        struct span all = rg_buf_span(&text);
        int result = rg_probe_write(fd, all.ptr, all.len);
        rg_buf_clear(&text);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

#else

int rg_mr_probe(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    return ENOPKG; /* built without verbs */
}

#endif
