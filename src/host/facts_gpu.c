/*
 * Reads GPUs. See facts_gpu.h.
 */
#include "host/facts.h"

#include "base/clock.h"
#include "host/words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES    65536
#define MODULES_BYTES ((size_t)1 << 18)
#define LOG_MS        1000
#define LOG_RECORDS   200000
#define RECORD_BYTES  8192
#define VENDOR_NVIDIA 0x10de

#define CUFILE_VARIABLE "CUFILE_ENV_PATH_JSON"
#define CUFILE_USUAL    "/etc/cufile.json"

static void read_gpu(struct rg_source *source, const struct rg_pci_function *function,
                     struct rg_host_gpu *gpu)
{
    RG_BUF(resource, 4096);
    RG_BUF(information, TEXT_BYTES);
    struct rg_reading at;
    snprintf(gpu->address, sizeof gpu->address, "%.15s", function->address);
    gpu->is_nvidia = function->vendor.value == VENDOR_NVIDIA;
    gpu->driver = function->driver;
    rg_source_read(source, &resource, &gpu->resource_at, "/sys/bus/pci/devices/%s/resource",
                   gpu->address);
    if (rg_reading_ok(&gpu->resource_at) &&
        !rg_pci_resource_parse(rg_buf_span(&resource), gpu->bars)) {
        gpu->resource_at.state = RG_READ_MALFORMED;
        memset(gpu->bars, 0, sizeof gpu->bars);
    }
    for (size_t i = 0; i < RG_PCI_BARS; i++) {
        gpu->window = gpu->bars[i] > gpu->window ? gpu->bars[i] : gpu->window;
    }
    if (gpu->is_nvidia) {
        rg_source_read(source, &information, &at, "/proc/driver/nvidia/gpus/%s/information",
                       gpu->address);
        (void)rg_nvidia_model_parse(rg_buf_span(&information), gpu->model);
    }
}

/* ---- Xid lines of the kernel log ---- */

bool rg_xid_is_grave(unsigned long number)
{
    /* Double-bit error, row remapping failed, fallen off the bus, uncontained error. */
    static const unsigned long grave[] = {48, 64, 79, 95};
    for (size_t i = 0; i < sizeof grave / sizeof grave[0]; i++) {
        if (grave[i] == number) {
            return true;
        }
    }
    return false;
}

int64_t rg_kmsg_seconds(const char *record, int64_t now_s, int64_t since_boot_s)
{
    const char *number = strchr(record, ',');
    number = number ? strchr(number + 1, ',') : NULL;
    const char *text = strchr(record, ';');
    char *end;
    if (!number || !text || text < number || number[1] < '0' || number[1] > '9') {
        return 0;
    }
    unsigned long long us = strtoull(number + 1, &end, 10);
    int64_t ago_s = since_boot_s - (int64_t)(us / 1000000);
    return (*end == ',' || *end == ';') && ago_s >= 0 && ago_s <= now_s ? now_s - ago_s : 0;
}

static int tell_xids(void *argument, int fd)
{
    (void)argument;
    char record[RECORD_BYTES], last[160] = "", line[256];
    struct timespec since_boot = {0}; /* on the clock of the log */
    int64_t now_s = rg_clock_wall().tv_sec, seconds = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &since_boot);
    unsigned long long count = 0;
    bool has_grave = false;
    int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (log < 0) {
        return errno;
    }
    for (unsigned i = 0; i < LOG_RECORDS; i++) {
        ssize_t len = read(log, record, sizeof record - 1);
        if (len < 0 && (errno == EPIPE || errno == EINTR)) {
            continue; /* overwritten meanwhile */
        }
        if (len <= 0) {
            break;
        }
        record[len] = '\0';
        const char *at = strstr(record, "NVRM: Xid");
        if (at) {
            /* A grave one stays the last: what follows it is mostly its consequence. */
            const char *end = strstr(at, "): ");
            bool grave = end && rg_xid_is_grave(strtoul(end + 3, NULL, 10));
            count++;
            if (grave || !has_grave) {
                rg_words_copy(last, sizeof last, rg_span(at, strcspn(at, "\n")));
                seconds = rg_kmsg_seconds(record, now_s, since_boot.tv_sec);
            }
            has_grave |= grave;
        }
    }
    close(log);
    int len = seconds ? snprintf(line, sizeof line, "%llu @%" PRId64 " %s\n", count, seconds, last)
                      : snprintf(line, sizeof line, "%llu %s\n", count, last);
    return rg_probe_write(fd, line, (size_t)len);
}

static void read_xids(struct rg_source *source, struct rg_host_gpus *gpus)
{
    RG_BUF(text, 1024);
    struct span line, number;
    rg_source_probe(source, "gpu/xid", "the kernel log (/dev/kmsg)", tell_xids, NULL, LOG_MS, &text,
                    &gpus->xid_at);
    struct span rest = rg_buf_span(&text);
    if (!rg_reading_ok(&gpus->xid_at)) {
        return;
    }
    if (!rg_words_line(&rest, &line) || !rg_words_next(&line, &number) ||
        !rg_span_to_u64(number, &gpus->xid_lines)) {
        gpus->xid_at.state = RG_READ_MALFORMED;
        return;
    }
    line = rg_span_trim(line);
    if (rg_span_starts(line, RG_SPAN_LITERAL("@"))) {
        uint64_t seconds;
        struct span when = rg_span_cut(&line, ' ');
        if (rg_span_to_u64(rg_span_skip(when, 1), &seconds) && seconds <= INT32_MAX * 8ull) {
            gpus->xid_seconds = (int64_t)seconds;
        }
    }
    rg_words_copy(gpus->xid_last, sizeof gpus->xid_last, rg_span_trim(line));
}

/* ---- cuFile ---- */

static int tell_cufile_path(void *argument, int fd)
{
    (void)argument;
    const char *path = getenv(CUFILE_VARIABLE);
    return path && path[0] ? rg_probe_write(fd, path, strlen(path)) : ENOENT;
}

static void read_cufile(struct rg_source *source, struct rg_host_gpus *gpus)
{
    RG_BUF(path, RG_HOST_PATH_MAX);
    RG_BUF(text, RG_HOST_FILE_MAX);
    struct rg_reading at;
    struct span named;
    rg_source_probe(source, "gpu/cufile-path", CUFILE_VARIABLE, tell_cufile_path, NULL, LOG_MS,
                    &path, &at);
    named = rg_words_bare(rg_buf_span(&path));
    if (!rg_reading_ok(&at) || at.truncated || named.len == 0 || named.ptr[0] != '/' ||
        !rg_words_copy(gpus->cufile_path, sizeof gpus->cufile_path, named)) {
        snprintf(gpus->cufile_path, sizeof gpus->cufile_path, "%s", CUFILE_USUAL);
    }
    rg_source_read(source, &text, &gpus->cufile_at, "%s", gpus->cufile_path);
    if (rg_reading_ok(&gpus->cufile_at) && !rg_cufile_parse(rg_buf_span(&text), &gpus->cufile)) {
        gpus->cufile_at.state = RG_READ_MALFORMED;
    }
}

static void read_modules(struct rg_source *source, struct rg_host_gpus *gpus)
{
    RG_BUF(modules, MODULES_BYTES);
    rg_source_read(source, &modules, &gpus->modules_at, "/proc/modules");
    rg_module_parse(rg_buf_span(&modules), "nvidia_peermem", &gpus->peermem);
    rg_module_parse(rg_buf_span(&modules), "nv_peer_mem", &gpus->nv_peer_mem);
    rg_module_parse(rg_buf_span(&modules), "ib_core", &gpus->ib_core);
    rg_module_parse(rg_buf_span(&modules), "amdgpu", &gpus->amdgpu);
}

void rg_host_read_gpu(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_gpus *gpus = &facts->gpu;
    const struct rg_host_devices *devices = &facts->devices;
    bool has_nvidia = false;
    for (size_t i = 0; i < devices->pci_count && gpus->count < RG_HOST_GPUS_MAX; i++) {
        const struct rg_pci_function *function = &devices->pci[i];
        if (rg_reading_ok(&function->vendor.at) && rg_reading_ok(&function->class.at) &&
            rg_host_is_gpu(function->vendor.value, function->class.value)) {
            read_gpu(source, function, &gpus->gpus[gpus->count]);
            has_nvidia |= gpus->gpus[gpus->count++].is_nvidia;
        }
    }
    if (gpus->count == 0) {
        return;
    }
    RG_BUF(version, TEXT_BYTES);
    rg_source_read(source, &version, &gpus->version_at, "/proc/driver/nvidia/version");
    gpus->has_version =
        rg_nvidia_version_parse(rg_buf_span(&version), gpus->version, &gpus->is_open);
    if (rg_reading_ok(&gpus->version_at) && !gpus->has_version) {
        gpus->version_at.state = RG_READ_MALFORMED;
    }
    read_modules(source, gpus);
    rg_source_list(source, &gpus->memory_peers, "/sys/kernel/mm/memory_peers");
    rg_source_text(source, &gpus->peermem_version, "/sys/module/nvidia_peermem/version");
    rg_source_text(source, &gpus->fs_version, "/proc/driver/nvidia-fs/version");
    if (has_nvidia) {
        read_cufile(source, gpus);
        read_xids(source, gpus);
    }
}

void rg_host_free_gpu(struct rg_host_gpus *gpus)
{
    rg_names_free(&gpus->memory_peers);
}
