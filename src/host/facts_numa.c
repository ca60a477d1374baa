/*
 * Reads NUMA nodes and interrupts. See facts_numa.h.
 */
#include "host/facts.h"

#include "host/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERRUPTS_BYTES RG_HOST_FILE_MAX    /* of the shortened table */
#define TABLE_BYTES_MAX  ((size_t)256 << 20) /* of the kernel's */
#define LINE_BYTES_MAX   ((size_t)256 << 10)
#define PROBE_MS         3000

/* Shortens the whole lines of what is in `bytes`; returns how much of it they were. */
static size_t shorten_lines(struct span bytes, bool *is_first, struct rg_buf *out)
{
    size_t used = 0;
    const char *end;
    while ((end = memchr(bytes.ptr + used, '\n', bytes.len - used))) {
        struct span line = rg_span(bytes.ptr + used, (size_t)(end - bytes.ptr) - used);
        if (*is_first && !rg_irq_shorten_head(line, out)) {
            return bytes.len; /* no such table */
        }
        if (!*is_first) {
            rg_irq_shorten(line, out);
        }
        *is_first = false;
        used += line.len + 1;
    }
    return used;
}

/* In a child, which does not keep the table. */
static int tell_interrupts(void *argument, int fd)
{
    static char bytes[LINE_BYTES_MAX];
    int table = *(const int *)argument;
    size_t have = 0, total = 0;
    bool is_first = true;
    RG_BUF(shortened, INTERRUPTS_BYTES);
    for (;;) {
        ssize_t got = read(table, bytes + have, sizeof bytes - have);
        if (got < 0) {
            return errno;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
        total += (size_t)got;
        size_t used = shorten_lines(rg_span(bytes, have), &is_first, &shortened);
        have -= used;
        memmove(bytes, bytes + used, have);
        if (have == sizeof bytes || total > TABLE_BYTES_MAX) {
            return E2BIG;
        }
    }
    if (!rg_buf_ok(&shortened)) {
        return E2BIG;
    }
    struct span all = rg_buf_span(&shortened);
    return rg_probe_write(fd, all.ptr, all.len);
}

void rg_host_read_numa(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_numa *numa = &facts->numa;
    const struct rg_host_devices *devices = &facts->devices;
    RG_BUF(interrupts, INTERRUPTS_BYTES);
    rg_source_text(source, &numa->online, "/sys/devices/system/node/online");
    rg_source_probe_file(source, "interrupts", "/proc/interrupts", tell_interrupts, PROBE_MS,
                         &interrupts, &numa->interrupts_at);
    for (size_t i = 0; i < devices->rdma_count && numa->count < RG_HOST_NUMA_MAX; i++) {
        const struct rg_rdma_device *device = &devices->rdma[i];
        if (!rg_reading_ok(&device->pci.at)) {
            continue;
        }
        const struct rg_netdev *netdev = rg_host_netdev_of_pci(devices, device->pci.text);
        struct rg_host_numa_nic *nic = &numa->nics[numa->count++];
        snprintf(nic->rdma, sizeof nic->rdma, "%s", device->name);
        rg_source_number(source, &nic->node, "/sys/bus/pci/devices/%s/numa_node", device->pci.text);
        rg_source_text(source, &nic->local_cpus, "/sys/bus/pci/devices/%s/local_cpulist",
                       device->pci.text);
        nic->has_spread = rg_reading_ok(&numa->interrupts_at) &&
                          rg_irq_parse(rg_buf_span(&interrupts), device->pci.text,
                                       netdev ? netdev->name : "", &nic->spread);
    }
}

/* "0-3" or "8". */
static bool next_range(struct span *rest, uint64_t *ret_first, uint64_t *ret_last)
{
    struct span first, last;
    if (!rest->ptr) {
        return false;
    }
    struct span part = rg_span_trim(rg_span_cut(rest, ','));
    if (!rg_words_pair(part, '-', &first, &last)) {
        first = last = part;
    }
    return rg_span_to_u64(first, ret_first) && rg_span_to_u64(last, ret_last);
}

bool rg_cpu_lists_meet(const char *a, const char *b)
{
    struct span left = rg_span_text(a);
    uint64_t first, last, begin, end;
    while (next_range(&left, &first, &last)) {
        struct span right = rg_span_text(b);
        while (next_range(&right, &begin, &end)) {
            if (first <= end && begin <= last) {
                return true;
            }
        }
    }
    return false;
}
