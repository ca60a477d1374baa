/*
 * Reads limits, services, control groups and registrations. See facts_memory.h.
 */
#include "host/facts.h"

#include "base/attr.h"
#include "base/checked.h"
#include "host/facts_access.h"
#include "host/filtered.h"
#include "host/mr_probe.h"
#include "host/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES     65536
#define RESOURCE_BYTES ((size_t)1 << 20)
#define PROBE_MS       2500

/* More than this takes seconds to pin: only with --active. */
#define REGISTRATION_MAX ((uint64_t)1 << 30)

static const char *const unit_directories[] = {
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/system",
    "/etc/systemd/system",
};

/* ---- Units ---- */

static bool keep_unit_line(struct span line)
{
    static const char *const names[] = {"LimitMEMLOCK",
                                        "User",
                                        "Group",
                                        "SupplementaryGroups",
                                        "AmbientCapabilities",
                                        "CapabilityBoundingSet",
                                        "DynamicUser",
                                        "ExecStart",
                                        "EnvironmentFile",
                                        "PrivateDevices",
                                        "DevicePolicy",
                                        "DeviceAllow",
                                        "After",
                                        "Requires",
                                        "Wants",
                                        "BindsTo",
                                        "DefaultLimitMEMLOCK"};
    struct span name, value;
    line = rg_span_trim(line);
    if (line.len && line.ptr[0] == '[') {
        return true;
    }
    if (!rg_words_pair(line, '=', &name, &value)) {
        return false;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (rg_span_is(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* A document's name from a path: "/etc/x.service" is "units/etc/x.service". */
static void read_unit_file(struct rg_source *source, const char *path, struct rg_buf *out,
                           struct rg_reading *ret_at)
{
    char name[RG_HOST_PATH_MAX + 8];
    snprintf(name, sizeof name, "units%s", path);
    rg_filtered_read(source, name, path, keep_unit_line, out, ret_at);
}

static void read_drop_ins(struct rg_source *source, struct rg_host_service *service)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(unit_directories); i++) {
        RG_CLEANUP(rg_names_free) struct rg_names names = {0};
        char directory[200];
        snprintf(directory, sizeof directory, "%s/%s.d", unit_directories[i], service->unit);
        if (i == 1 || !rg_source_exists(source, "%s", directory)) {
            continue; /* /lib is /usr/lib, or it has been merged */
        }
        rg_source_list(source, &names, "%s", directory);
        for (size_t k = 0; k < names.count; k++) {
            char path[RG_HOST_PATH_MAX + 1];
            struct rg_reading at;
            RG_BUF(text, TEXT_BYTES);
            size_t len = strlen(names.name[k]);
            if (len < 5 || strcmp(names.name[k] + len - 5, ".conf") != 0 ||
                snprintf(path, sizeof path, "%s/%s", directory, names.name[k]) >=
                    (int)sizeof path) {
                continue;
            }
            read_unit_file(source, path, &text, &at);
            rg_unit_parse(rg_buf_span(&text), &service->parsed);
        }
    }
}

static void read_unit(struct rg_source *source, struct rg_host_service *service)
{
    for (size_t i = RG_ARRAY_LENGTH(unit_directories); i > 0; i--) {
        char path[RG_HOST_PATH_MAX + 1];
        RG_BUF(text, TEXT_BYTES);
        snprintf(path, sizeof path, "%s/%s", unit_directories[i - 1], service->unit);
        read_unit_file(source, path, &text, &service->unit_at);
        if (!rg_reading_is_absent(&service->unit_at)) {
            rg_unit_parse(rg_buf_span(&text), &service->parsed);
            read_drop_ins(source, service);
            return;
        }
    }
    service->unit_at.state = RG_READ_MISSING;
}

/* ---- The running process ---- */

static void read_group_limits(struct rg_source *source, const char *directory,
                              struct rg_reading *ret_memory_at, uint64_t *ret_memory,
                              struct rg_reading *ret_rdma_at, char *rdma, size_t room)
{
    struct rg_text memory;
    RG_BUF(text, 4096);
    rg_source_text(source, &memory, "%s/memory.max", directory);
    *ret_memory_at = memory.at;
    if (rg_reading_ok(&memory.at) && !rg_words_bytes(rg_span_text(memory.text), ret_memory)) {
        ret_memory_at->state = RG_READ_MALFORMED;
    }
    rg_source_read(source, &text, ret_rdma_at, "%s/rdma.max", directory);
    snprintf(rdma, room, "%s", rg_buf_text(&text));
}

/* The first process of the service's control group is its main one. */
static void read_pid(struct rg_source *source, struct rg_host_service *service)
{
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/systemd",
                                        "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(roots) && service->pid == 0; i++) {
        struct rg_text line;
        uint64_t pid;
        rg_source_text(source, &line, "%s/system.slice/%s/cgroup.procs", roots[i], service->unit);
        if (rg_reading_ok(&line.at) && rg_span_to_u64(rg_span_text(line.text), &pid) &&
            pid <= INT32_MAX) {
            service->pid = (uint32_t)pid;
        }
    }
}

/* The kernel asks for the capability in the first user namespace: that of a rootless container's
 * root does not count. */
static bool is_in_user_namespace(struct rg_source *source, const char *process)
{
    RG_BUF(text, 4096);
    struct rg_reading at;
    uint64_t first, outside, count;
    struct span line, words[3];
    rg_source_read(source, &text, &at, "/proc/%s/uid_map", process);
    struct span rest = rg_buf_span(&text);
    if (!rg_reading_ok(&at) || !rg_words_line(&rest, &line)) {
        return false;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (!rg_words_next(&line, &words[i])) {
            return false;
        }
    }
    return !(rg_span_to_u64(words[0], &first) && rg_span_to_u64(words[1], &outside) &&
             rg_span_to_u64(words[2], &count) && first == 0 && outside == 0 && count == UINT32_MAX);
}

static void read_status(struct rg_source *source, const char *process, bool *ret_known,
                        bool *ret_may_lock, char *cpus, size_t cpus_room)
{
    RG_BUF(text, TEXT_BYTES);
    struct rg_reading at;
    uint64_t effective;
    struct span rest, line, name, value;
    rg_source_read(source, &text, &at, "/proc/%s/status", process);
    *ret_known = rg_capabilities_parse(rg_buf_span(&text), &effective);
    *ret_may_lock = *ret_known && (effective >> RG_CAPABILITY_IPC_LOCK & 1) &&
                    !is_in_user_namespace(source, process);
    rest = rg_buf_span(&text);
    while (cpus && rg_words_line(&rest, &line)) {
        if (rg_words_pair(line, ':', &name, &value) && rg_span_is(name, "Cpus_allowed_list")) {
            rg_words_copy(cpus, cpus_room, value);
        }
    }
}

static void read_process(struct rg_source *source, struct rg_host_service *service)
{
    char process[16], directory[160];
    RG_BUF(text, TEXT_BYTES);
    read_pid(source, service);
    if (service->pid == 0) {
        return;
    }
    snprintf(process, sizeof process, "%u", service->pid);
    rg_source_read(source, &text, &service->limits_at, "/proc/%s/limits", process);
    service->has_limits = rg_reading_ok(&service->limits_at) &&
                          rg_limit_locked_parse(rg_buf_span(&text), &service->soft, &service->hard);
    if (rg_reading_ok(&service->limits_at) && !service->has_limits) {
        service->limits_at.state = RG_READ_MALFORMED;
    }
    read_status(source, process, &service->has_capabilities, &service->may_lock,
                service->cpus_allowed, sizeof service->cpus_allowed);
    snprintf(directory, sizeof directory, "/sys/fs/cgroup/system.slice/%s", service->unit);
    read_group_limits(source, directory, &service->memory_max_at, &service->memory_max,
                      &service->rdma_max_at, service->rdma_max, sizeof service->rdma_max);
}

static void add_service(struct rg_source *source, struct rg_host_facts *facts, const char *unit)
{
    struct rg_host_memory *memory = &facts->memory;
    if (unit[0] == '\0' || strchr(unit, '/') || rg_host_service(facts, unit) ||
        memory->service_count == RG_HOST_SERVICES_MAX) {
        return;
    }
    struct rg_host_service *service = &memory->services[memory->service_count++];
    snprintf(service->unit, sizeof service->unit, "%.70s%s", unit,
             strchr(unit, '.') ? "" : ".service");
    read_unit(source, service);
    read_process(source, service);
    rg_host_read_user(source, service);
}

const struct rg_host_service *rg_host_service(const struct rg_host_facts *facts, const char *unit)
{
    size_t len = strlen(unit);
    for (size_t i = 0; i < facts->memory.service_count; i++) {
        const char *known = facts->memory.services[i].unit;
        if (strcmp(known, unit) == 0 ||
            (strncmp(known, unit, len) == 0 && strcmp(known + len, ".service") == 0)) {
            return &facts->memory.services[i];
        }
    }
    return NULL;
}

/* ---- This process ---- */

static void read_self(struct rg_source *source, struct rg_host_memory *memory)
{
    RG_BUF(limits, TEXT_BYTES);
    RG_BUF(cgroup, TEXT_BYTES);
    struct rg_reading at;
    bool known;
    rg_source_read(source, &limits, &memory->self_at, "/proc/self/limits");
    memory->has_self =
        rg_reading_ok(&memory->self_at) &&
        rg_limit_locked_parse(rg_buf_span(&limits), &memory->self_soft, &memory->self_hard);
    if (rg_reading_ok(&memory->self_at) && !memory->has_self) {
        memory->self_at.state = RG_READ_MALFORMED;
    }
    read_status(source, "self", &known, &memory->self_may_lock, NULL, 0);
    rg_source_read(source, &cgroup, &at, "/proc/self/cgroup");
    if (rg_cgroup_path_parse(rg_buf_span(&cgroup), NULL, memory->own_cgroup,
                             sizeof memory->own_cgroup)) {
        char directory[300];
        snprintf(directory, sizeof directory, "/sys/fs/cgroup%s",
                 strcmp(memory->own_cgroup, "/") == 0 ? "" : memory->own_cgroup);
        read_group_limits(source, directory, &memory->own_memory_max_at, &memory->own_memory_max,
                          &memory->own_rdma_max_at, memory->own_rdma_max,
                          sizeof memory->own_rdma_max);
    }
}

/* ---- Registration and resources ---- */

bool rg_host_parse_mr(struct span lines, struct rg_host_memory *memory)
{
    struct span line, word;
    while (rg_words_line(&lines, &line)) {
        struct rg_host_mr_probe probe = {.dmabuf = -1};
        int64_t number;
        if (!rg_words_next(&line, &word) || !rg_span_is(word, "mr") ||
            !rg_words_next(&line, &word)) {
            return false;
        }
        rg_words_copy(probe.device, sizeof probe.device, word);
        if (!rg_words_next(&line, &word) || !rg_words_signed(word, &number)) {
            return false;
        }
        probe.open_errno = (int)number;
        if (!rg_words_next(&line, &word) || !rg_words_signed(word, &number)) {
            return false;
        }
        probe.dmabuf = (int)number;
        for (size_t i = 0; i < RG_HOST_MR_SIZES; i++) {
            probe.result[i] = -1;
        }
        for (size_t i = 0; i < RG_HOST_MR_SIZES && rg_words_next(&line, &word); i++) {
            if (!rg_span_to_u64(word, &probe.bytes[i]) || !rg_words_next(&line, &word) ||
                !rg_words_signed(word, &number)) {
                return false;
            }
            probe.result[i] = (int)number;
        }
        if (memory->mr_count < RG_HOST_MR_PROBES_MAX) {
            memory->mr[memory->mr_count++] = probe;
        }
    }
    return true;
}

static int tell_resources(void *argument, int fd)
{
    (void)argument;
    RG_BUF(text, RESOURCE_BYTES);
    struct rg_error err = RG_ERROR_INIT;
    if (rg_nldev_tell(&text, &err) < 0) {
        return err.os_errno ? err.os_errno : EPROTO;
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

static void read_resources(struct rg_source *source, struct rg_host_memory *memory)
{
    RG_BUF(text, RESOURCE_BYTES);
    rg_source_probe(source, "netlink/rdma-resources", "rdma resource show; rdma resource show qp",
                    tell_resources, NULL, PROBE_MS, &text, &memory->resources_at);
    memory->resources = rg_reading_ok(&memory->resources_at) ? rg_buf_take(&text) : NULL;
}

static int tell_system(void *argument, int fd)
{
    (void)argument;
    RG_BUF(text, 256);
    struct rg_error err = RG_ERROR_INIT;
    if (rg_nldev_tell_system(&text, &err) < 0) {
        return err.os_errno ? err.os_errno : EPROTO;
    }
    struct span all = rg_buf_span(&text);
    return rg_probe_write(fd, all.ptr, all.len);
}

static void read_system(struct rg_source *source, struct rg_host_memory *memory)
{
    RG_BUF(text, 256);
    struct span line, name, value;
    uint64_t number;
    rg_source_probe(source, "netlink/rdma-system", "rdma system show", tell_system, NULL, PROBE_MS,
                    &text, &memory->system_at);
    struct span rest = rg_buf_span(&text);
    if (!rg_reading_ok(&memory->system_at)) {
        return;
    }
    if (!rg_words_line(&rest, &line) || !rg_words_next(&line, &name) ||
        !rg_span_is(name, "copy_on_fork") || !rg_words_next(&line, &value) ||
        !rg_span_to_u64(value, &number)) {
        memory->system_at.state = RG_READ_MALFORMED;
        return;
    }
    memory->copies_on_fork = number != 0;
}

void rg_host_free_memory(struct rg_host_memory *memory)
{
    free(memory->resources);
    memory->resources = NULL;
}

static void read_manager(struct rg_source *source, struct rg_host_memory *memory)
{
    RG_BUF(text, TEXT_BYTES);
    struct span rest, line, name, value;
    read_unit_file(source, "/etc/systemd/system.conf", &text, &memory->manager_memlock.at);
    rest = rg_buf_span(&text);
    while (rg_words_line(&rest, &line)) {
        if (rg_words_pair(line, '=', &name, &value) && rg_span_is(name, "DefaultLimitMEMLOCK")) {
            rg_words_copy(memory->manager_memlock.text, sizeof memory->manager_memlock.text, value);
        }
    }
}

void rg_host_read_memory(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_memory *memory = &facts->memory;
    RG_BUF(meminfo, TEXT_BYTES);
    RG_BUF(devices, TEXT_BYTES);
    read_self(source, memory);
    add_service(source, facts, facts->plan.unit);
    add_service(source, facts, RG_GATEWAY_UNIT);
    add_service(source, facts, "minio.service");
    rg_host_read_modes(source, memory);
    rg_source_read(source, &devices, &memory->char_devices_at, "/proc/devices");
    if (rg_reading_ok(&memory->char_devices_at) &&
        !rg_char_devices_parse(rg_buf_span(&devices), &memory->char_devices)) {
        memory->char_devices_at.state = RG_READ_MALFORMED;
    }
    read_manager(source, memory);
    rg_source_read(source, &meminfo, &memory->meminfo_at, "/proc/meminfo");
    rg_meminfo_parse(rg_buf_span(&meminfo), &memory->meminfo);
    if (rg_reading_ok(&memory->meminfo_at) && !memory->meminfo.known) {
        memory->meminfo_at.state = RG_READ_MALFORMED;
    }
    rg_source_text(source, &memory->transparent, "/sys/kernel/mm/transparent_hugepage/enabled");
    read_resources(source, memory);
    read_system(source, memory);
}

void rg_host_read_registrations(struct rg_source *source, struct rg_host_facts *facts)
{
    struct rg_host_memory *memory = &facts->memory;
    const char *origin;
    uint64_t planned = rg_host_pinned(facts, &origin);
    if (!facts->plan.active) {
        planned = RG_MIN(planned, REGISTRATION_MAX);
    }
    RG_BUF(text, 8192);
    if (facts->devices.rdma_count == 0) {
        return;
    }
    rg_source_probe(source, "verbs/registration", "ibv_reg_mr in a child", rg_mr_probe, &planned,
                    PROBE_MS, &text, &memory->mr_at);
    if (rg_reading_ok(&memory->mr_at) && !rg_host_parse_mr(rg_buf_span(&text), memory)) {
        memory->mr_at.state = RG_READ_MALFORMED;
    }
}
