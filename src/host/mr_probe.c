/*
 * Registration for real. See mr_probe.h.
 */
#include "host/mr_probe.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/error.h"
#include "host/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>

#if __has_include(<infiniband/verbs.h>)

#include "rdma/verbs.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#define MIB ((uint64_t)1 << 20)

static uint64_t bytes_allowed(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? (uint64_t)info.freeram * info.mem_unit / 2 : 64 * MIB;
}

/* One page written makes all of them real: the NIC's driver faults the rest in. */
static int try_register(const struct rg_verbs *verbs, struct ibv_pd *pd, uint64_t bytes)
{
    if (bytes > bytes_allowed()) {
        return -1;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return errno;
    }
    errno = 0;
    struct ibv_mr *mr =
        verbs->reg_mr(pd, memory, bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    int result = mr ? 0 : errno ? errno : EIO;
    if (mr) {
        verbs->dereg_mr(mr);
    }
    munmap(memory, bytes);
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

static void tell_device(const struct rg_verbs *verbs, struct ibv_device *device, uint64_t planned,
                        struct rg_buf *out)
{
    errno = 0;
    struct ibv_context *context = verbs->open_device(device);
    int open_errno = context ? 0 : errno ? errno : EIO;
    struct ibv_pd *pd = context ? verbs->alloc_pd(context) : NULL;
    if (context && !pd) {
        open_errno = errno ? errno : EIO;
    }
    rg_buf_addf(out, "mr %s %d %d", device->name, open_errno, pd ? try_dmabuf(verbs, pd) : -1);
    const uint64_t sizes[] = {MIB, 64 * MIB, planned};
    for (size_t i = 0; pd && i < RG_ARRAY_LENGTH(sizes); i++) {
        if (sizes[i]) {
            rg_buf_addf(out, " %" PRIu64 " %d", sizes[i], try_register(verbs, pd, sizes[i]));
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
    const uint64_t *planned = argument;
    int count = 0;
    if (rg_verbs_load(&verbs, &err) < 0) {
        return ENOPKG;
    }
    struct ibv_device **list = verbs->get_device_list(&count);
    RG_BUF(text, 8192);
    for (int i = 0; list && i < count; i++) {
        tell_device(verbs, list[i], *planned, &text);
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
    return ENOPKG; /* built without the headers of libibverbs */
}

#endif
