/*
 * Judges of the group "memory" (checks_memory.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/text_remedy.h"
#include "host/words.h"

#include "base/attr.h"
#include "base/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MIB            ((uint64_t)1 << 20)
#define MEMLOCK_USUAL  (8 * MIB) /* systemd's and the kernel's default, or less */
#define HUGE_FROM      (1024 * MIB)
#define OBJECTS_LEAST  64
#define OBJECTS_ENOUGH 1024

uint64_t rg_host_pinned(const struct rg_host_facts *facts, const char **ret_origin)
{
    *ret_origin = "--memory";
    if (facts->plan.pinned_bytes) {
        return facts->plan.pinned_bytes;
    }
    if (facts->aistor.is_here && facts->aistor.pool_bytes &&
        facts->plan.profile != RG_PROFILE_GATEWAY) {
        *ret_origin = "AIStor's buffer pool";
        return facts->aistor.pool_bytes;
    }
    if (rg_host_has_gateway(facts) && facts->gateway.has_settings && !facts->gateway.rdma_off) {
        *ret_origin = "the gateway's rdma-memory";
        return facts->gateway.rdma_memory;
    }
    *ret_origin = "";
    return 0;
}

/* ---- MEMLOCK ---- */

/* What is planned concerns the service that the plan names, or the one whose settings said it. */
static uint64_t pinned_of(const struct rg_host_facts *facts, const struct rg_host_service *service)
{
    const char *origin;
    if (strcmp(service->unit, "minio.service") == 0 && !facts->plan.unit[0]) {
        return facts->aistor.pool_bytes;
    }
    if (strcmp(service->unit, RG_GATEWAY_UNIT) == 0 && !facts->plan.unit[0]) {
        return facts->gateway.rdma_off ? 0 : facts->gateway.rdma_memory;
    }
    return rg_host_pinned(facts, &origin);
}

static void tell_limit(struct rg_finding *finding, uint64_t limit, uint64_t need)
{
    char has[RG_BYTES_TEXT_MAX + 1], wants[RG_BYTES_TEXT_MAX + 1];
    rg_bytes_text(limit, has);
    rg_bytes_text(need, wants);
    if (need) {
        rg_find_value(finding, "limit %s, planned %s", has, wants);
    } else {
        rg_find_value(finding, "limit %s", has);
    }
}

static enum rg_verdict verdict_of(uint64_t limit, uint64_t need)
{
    if (limit == RG_WORDS_UNLIMITED) {
        return RG_VERDICT_OK;
    }
    return limit < need || limit <= MEMLOCK_USUAL ? RG_VERDICT_FAIL : RG_VERDICT_WARN;
}

static const char *sentence_of(enum rg_verdict verdict, uint64_t limit, uint64_t need)
{
    if (verdict == RG_VERDICT_OK) {
        return "may lock all memory";
    }
    if (limit < need) {
        return "may lock less memory than it is going to register";
    }
    return verdict == RG_VERDICT_FAIL ? "has the default locked-memory limit, too little for RDMA"
                                      : "has a locked-memory limit";
}

static void judge_running(const struct rg_host_service *service, uint64_t need,
                          struct rg_findings *findings)
{
    uint64_t unit_limit = service->parsed.has_memlock ? service->parsed.memlock_soft : 0;
    if (!service->has_limits) {
        (void)rg_find_unread(findings, service->unit, &service->limits_at);
        return;
    }
    if (service->may_lock) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, service->unit,
                    "The running service has CAP_IPC_LOCK: the limit does not hold for it.");
        tell_limit(finding, service->soft, need);
        rg_find_where(finding, &service->limits_at);
        return;
    }
    enum rg_verdict verdict = verdict_of(service->soft, need);
    bool restart = service->parsed.has_memlock && unit_limit > service->soft;
    struct rg_finding *finding =
        rg_find(findings, verdict, service->unit, "The running service %s%s.",
                sentence_of(verdict, service->soft, need),
                restart ? "; its unit says more, but it has not been restarted" : "");
    tell_limit(finding, service->soft, need);
    rg_find_where(finding, &service->limits_at);
    if (restart) {
        rg_find_remedy(finding, "systemctl daemon-reload && systemctl restart %s", service->unit);
    } else if (verdict != RG_VERDICT_OK) {
        rg_remedy_unit(finding, service->unit, "LimitMEMLOCK=infinity");
        rg_find_remedy(finding, "grep 'locked memory' /proc/$(systemctl show -P MainPID %s)/limits",
                       service->unit);
    }
}

/* Whom the limit will not hold for: CAP_IPC_LOCK is root's, or given by the unit, which may as well
 * take it from root. */
static bool is_exempt(const struct rg_host_service *service)
{
    const struct rg_unit *unit = &service->parsed;
    bool is_root = !unit->dynamic_user && (!unit->user[0] || strcmp(unit->user, "root") == 0);
    return (is_root || unit->may_lock) && (!unit->is_bounded || unit->bound_has_lock);
}

/* What systemd will set when it starts the service. */
static uint64_t limit_at_start(const struct rg_host_memory *memory,
                               const struct rg_host_service *service)
{
    uint64_t limit = MEMLOCK_USUAL;
    if (service->parsed.has_memlock) {
        return service->parsed.memlock_soft;
    }
    (void)rg_words_bytes(rg_span_text(memory->manager_memlock.text), &limit);
    return limit;
}

bool rg_host_service_lock_limit(const struct rg_host_facts *facts,
                                const struct rg_host_service *service, uint64_t *ret_bytes)
{
    if (!service) {
        return false;
    }
    if (service->pid) {
        *ret_bytes = service->may_lock ? RG_WORDS_UNLIMITED : service->soft;
        return service->has_limits;
    }
    *ret_bytes = is_exempt(service) ? RG_WORDS_UNLIMITED : limit_at_start(&facts->memory, service);
    return rg_reading_ok(&service->unit_at);
}

static void judge_installed(const struct rg_host_facts *facts,
                            const struct rg_host_service *service, uint64_t need,
                            struct rg_findings *findings)
{
    if (!rg_reading_ok(&service->unit_at)) {
        (void)rg_find_unread(findings, service->unit, &service->unit_at);
        return;
    }
    uint64_t limit = limit_at_start(&facts->memory, service);
    bool exempt = is_exempt(service);
    enum rg_verdict verdict = exempt ? RG_VERDICT_OK : verdict_of(limit, need);
    struct rg_finding *finding = rg_find(
        findings, verdict, service->unit, "The service (not running) %s%s.",
        !exempt                    ? sentence_of(verdict, limit, need)
        : service->parsed.may_lock ? "is given CAP_IPC_LOCK and is exempt from the limit"
                                   : "runs as root and is exempt from the limit",
        service->parsed.bad_memlock ? "; systemd ignores a LimitMEMLOCK= it cannot read" : "");
    tell_limit(finding, limit, need);
    rg_find_where(finding, &service->unit_at);
    if (verdict != RG_VERDICT_OK) {
        rg_remedy_unit(finding, service->unit, "LimitMEMLOCK=infinity");
    }
}

static void judge_self(const struct rg_host_facts *facts, uint64_t need,
                       struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    bool is_role = facts->plan.profile == RG_PROFILE_CLIENT ||
                   facts->plan.profile == RG_PROFILE_GPU_CLIENT || need;
    if (!memory->has_self) {
        (void)rg_find_unread(findings, "this process", &memory->self_at);
        return;
    }
    enum rg_verdict verdict =
        memory->self_may_lock ? RG_VERDICT_OK : verdict_of(memory->self_soft, need);
    if (verdict == RG_VERDICT_FAIL && !is_role) {
        verdict = RG_VERDICT_WARN;
    }
    struct rg_finding *finding =
        rg_find(findings, verdict, "this process", "This user's process %s.",
                memory->self_may_lock ? "has CAP_IPC_LOCK: the limit does not hold for it"
                                      : sentence_of(verdict, memory->self_soft, need));
    tell_limit(finding, memory->self_soft, need);
    rg_find_where(finding, &memory->self_at);
    if (verdict != RG_VERDICT_OK) {
        rg_find_remedy(finding, "printf '* - memlock unlimited\\n' "
                                ">/etc/security/limits.d/90-rdma.conf   # then log in again");
        rg_find_remedy(finding,
                       "# services and containers do not read that file: LimitMEMLOCK=infinity "
                       "in the unit, --ulimit memlock=-1 for containers");
    }
}

void judge_memlock(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const char *origin;
    size_t judged = 0;
    for (size_t i = 0; i < facts->memory.service_count; i++) {
        const struct rg_host_service *service = &facts->memory.services[i];
        uint64_t need = pinned_of(facts, service);
        bool asked = facts->plan.unit[0] && rg_host_service(facts, facts->plan.unit) == service;
        if (service->pid) {
            judge_running(service, need, findings);
        } else if (asked || service->unit_at.state != RG_READ_MISSING) {
            judge_installed(facts, service, need, findings);
        } else {
            continue;
        }
        judged++;
    }
    if (judged == 0) {
        judge_self(facts, rg_host_pinned(facts, &origin), findings);
    }
}

/* ---- MR-PROBE ---- */

static void judge_registration(const struct rg_host_facts *facts,
                               const struct rg_host_mr_probe *probe, struct rg_findings *findings)
{
    char good[RG_BYTES_TEXT_MAX + 1] = "nothing", bad[RG_BYTES_TEXT_MAX + 1];
    size_t failed = RG_HOST_MR_SIZES;
    bool tried = false;
    if (probe->open_errno != 0) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_SKIP, probe->device,
                                             "The device cannot be opened here (see UVERBS): %s.",
                                             strerror(probe->open_errno));
        rg_find_where(finding, &facts->memory.mr_at);
        return;
    }
    for (size_t i = 0; i < RG_HOST_MR_SIZES && failed == RG_HOST_MR_SIZES; i++) {
        tried |= probe->result[i] >= 0;
        if (probe->result[i] > 0) {
            failed = i;
        } else if (probe->result[i] == 0) {
            rg_bytes_text(probe->bytes[i], good);
        }
    }
    if (!tried) {
        (void)rg_find(findings, RG_VERDICT_SKIP, probe->device,
                      "Too little memory is free to try.");
        return;
    }
    if (failed == RG_HOST_MR_SIZES) {
        const uint64_t most = probe->bytes[RG_HOST_MR_SIZES - 1];
        bool is_short = most && probe->result[RG_HOST_MR_SIZES - 1] < 0;
        rg_bytes_text(most, bad);
        struct rg_finding *finding =
            is_short ? rg_find(findings, RG_VERDICT_OK, probe->device,
                               "%s were registered; %s were not tried, for want of time or of free "
                               "memory.",
                               good, bad)
                     : rg_find(findings, RG_VERDICT_OK, probe->device, "%s were registered.", good);
        rg_find_where(finding, &facts->memory.mr_at);
        return;
    }
    rg_bytes_text(probe->bytes[failed], bad);
    int number = probe->result[failed];
    struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, probe->device,
                                         "Registering %s fails: %s (the largest that worked: %s).",
                                         bad, strerror(number), good);
    rg_find_value(finding, "ibv_reg_mr: errno %d", number);
    rg_find_where(finding, &facts->memory.mr_at);
    if (number == ENOMEM || number == EAGAIN) {
        rg_find_remedy(finding, "ulimit -l   # of this user; see MEMLOCK for the service's");
        rg_find_remedy(finding,
                       "cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/rdma.max   # see "
                       "RDMA-CG");
    } else {
        rg_find_remedy(finding, "dmesg | tail -n 50   # the driver says why");
    }
}

void judge_mr_probe(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    if (facts->devices.rdma_count == 0) {
        return;
    }
    if (!rg_reading_ok(&memory->mr_at)) {
        (void)rg_find_unread(findings, "", &memory->mr_at);
        return;
    }
    for (size_t i = 0; i < memory->mr_count; i++) {
        judge_registration(facts, &memory->mr[i], findings);
    }
}

/* ---- HUGE ---- */

void judge_huge(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    const struct rg_meminfo *info = &memory->meminfo;
    const char *origin;
    uint64_t need = rg_host_pinned(facts, &origin), free_bytes;
    if (!rg_reading_ok(&memory->meminfo_at)) {
        (void)rg_find_unread(findings, "", &memory->meminfo_at);
        return;
    }
    if (!rg_mul_checked(info->huge_free, info->huge_page_bytes, &free_bytes)) {
        free_bytes = UINT64_MAX;
    }
    bool transparent =
        rg_reading_ok(&memory->transparent.at) && !strstr(memory->transparent.text, "[never]");
    bool bad = need >= HUGE_FROM && free_bytes < need && !transparent;
    if (bad && !rg_reading_ok(&memory->transparent.at) &&
        memory->transparent.at.state != RG_READ_MISSING) {
        (void)rg_find_unread(findings, "", &memory->transparent.at);
        return;
    }
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, "",
                bad ? "A large pool, and neither reserved nor transparent huge pages."
                : free_bytes >= need && free_bytes ? "Reserved huge pages are free."
                : transparent ? "No reserved huge pages are free; transparent ones are on."
                              : "No huge pages; nothing planned needs them.");
    rg_find_value(finding,
                  "HugePages_Free %" PRIu64 " of %" PRIu64 " x %" PRIu64 " KiB; transparent %s",
                  info->huge_free, info->huge_total, info->huge_page_bytes / 1024,
                  rg_reading_ok(&memory->transparent.at) ? memory->transparent.text : "unknown");
    rg_find_where(finding, &memory->meminfo_at);
    if (bad && info->huge_page_bytes) {
        rg_find_remedy(finding, "sysctl -w vm.nr_hugepages=%" PRIu64 "   # and into /etc/sysctl.d",
                       (need + info->huge_page_bytes - 1) / info->huge_page_bytes);
        rg_find_remedy(finding,
                       "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled   # or this");
    }
}

/* ---- Control groups ---- */

static void judge_memory_max(const char *subject, const struct rg_reading *at, uint64_t most,
                             uint64_t need, const char *unit, struct rg_findings *findings)
{
    char has[RG_BYTES_TEXT_MAX + 1], wants[RG_BYTES_TEXT_MAX + 1];
    if (!rg_reading_ok(at)) {
        if (at->state != RG_READ_MISSING && at->state != RG_READ_NOT_ASKED) {
            (void)rg_find_unread(findings, subject, at);
        }
        return;
    }
    rg_bytes_text(most, has);
    rg_bytes_text(need, wants);
    bool bad = need && most < need;
    bool tight = need && !bad && most / 5 * 4 < need;
    struct rg_finding *finding =
        rg_find(findings, bad || tight ? RG_VERDICT_WARN : RG_VERDICT_OK, subject,
                bad     ? "The group's memory is less than what is going to be pinned."
                : tight ? "Pinned memory is going to take more than four fifths of the group's."
                        : "The group's memory leaves room.");
    rg_find_value(finding, need ? "memory.max %s, planned %s" : "memory.max %s", has, wants);
    rg_find_where(finding, at);
    if ((bad || tight) && unit) {
        rg_remedy_unit(finding, unit, "MemoryMax=infinity");
    } else if (bad || tight) {
        rg_find_remedy(finding,
                       "# raise the container's memory limit (resources.limits.memory, or "
                       "--memory) above %s",
                       wants);
    }
}

void judge_memcg(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    const char *origin;
    for (size_t i = 0; i < memory->service_count; i++) {
        const struct rg_host_service *service = &memory->services[i];
        if (service->pid) {
            judge_memory_max(service->unit, &service->memory_max_at, service->memory_max,
                             pinned_of(facts, service), service->unit, findings);
        }
    }
    judge_memory_max("this process", &memory->own_memory_max_at, memory->own_memory_max,
                     rg_host_pinned(facts, &origin), NULL, findings);
}

static void judge_rdma_max(const struct rg_host_facts *facts, const char *subject,
                           const struct rg_reading *at, const char *text,
                           struct rg_findings *findings)
{
    if (!rg_reading_ok(at)) {
        if (at->state != RG_READ_MISSING && at->state != RG_READ_NOT_ASKED) {
            (void)rg_find_unread(findings, subject, at);
        }
        return;
    }
    for (size_t i = 0; i < facts->devices.rdma_count; i++) {
        const char *device = facts->devices.rdma[i].name;
        char both[RG_SUBJECT_MAX + 1];
        uint64_t handles, objects;
        if (!rg_rdma_cgroup_parse(rg_span_text(text), device, &handles, &objects)) {
            continue;
        }
        snprintf(both, sizeof both, "%.60s, %.30s", subject, device);
        bool bad = handles == 0 || objects < OBJECTS_LEAST;
        bool few = !bad && objects < OBJECTS_ENOUGH;
        struct rg_finding *finding = rg_find(findings,
                                             bad   ? RG_VERDICT_FAIL
                                             : few ? RG_VERDICT_WARN
                                                   : RG_VERDICT_OK,
                                             both,
                                             bad   ? "The group may make next to no RDMA objects."
                                             : few ? "The group may make few RDMA objects."
                                                   : "The group may make enough RDMA objects.");
        rg_find_value(finding, "%.400s", text);
        rg_find_where(finding, at);
        if (bad || few) {
            rg_find_remedy(finding, "echo '%s hca_handle=max hca_object=max' >%s", device,
                           at->path);
            rg_find_remedy(finding, "# on the host: a container's own groups are set from outside");
        }
    }
}

void judge_rdma_cg(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    for (size_t i = 0; i < memory->service_count; i++) {
        const struct rg_host_service *service = &memory->services[i];
        judge_rdma_max(facts, service->unit, &service->rdma_max_at, service->rdma_max, findings);
    }
    judge_rdma_max(facts, "this process", &memory->own_rdma_max_at, memory->own_rdma_max, findings);
}

/* ---- DEVRES ---- */

struct resource {
    const char *kind; /* as the kernel counts it, and the rdma tool names it */
    const char *name;
    uint64_t used, most;
};

static bool is_short(const struct resource *resource)
{
    return resource->used > resource->most / 5 * 4;
}

static void judge_resources(const struct rg_rdma_device *device, const struct resource *list,
                            size_t count, const struct rg_reading *at, struct rg_findings *findings)
{
    const struct resource *worst = NULL;
    RG_BUF(value, 512);
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(&value, "%s%s %" PRIu64 " of %" PRIu64, i ? ", " : "", list[i].kind,
                    list[i].used, list[i].most);
        worst = !worst && is_short(&list[i]) ? &list[i] : worst;
    }
    struct rg_finding *finding =
        worst ? rg_find(findings, RG_VERDICT_WARN, device->name,
                        "More than four fifths of the %s are taken.", worst->name)
              : rg_find(findings, RG_VERDICT_OK, device->name, "Objects of the device are left.");
    rg_find_value(finding, "%s", rg_buf_text(&value));
    rg_find_where(finding, at);
    if (worst) {
        /* Queue pairs belong to a port, the others to the device. */
        bool of_port = strcmp(worst->kind, "qp") == 0;
        rg_find_remedy(finding,
                       of_port ? "rdma resource show %s link %s   # who owns them"
                               : "rdma resource show %s dev %s   # who owns them",
                       worst->kind, device->name);
    }
}

void judge_devres(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    if (facts->devices.rdma_count == 0) {
        return;
    }
    if (!memory->resources) {
        (void)rg_find_unread(findings, "", &memory->resources_at);
        return;
    }
    for (size_t i = 0; i < facts->devices.rdma_count; i++) {
        const struct rg_rdma_device *device = &facts->devices.rdma[i];
        const struct resource all[] = {{"qp", "queue pairs", 0, device->qp_max},
                                       {"cq", "completion queues", 0, device->cq_max},
                                       {"mr", "memory regions", 0, device->mr_max}};
        struct resource known[RG_ARRAY_LENGTH(all)];
        size_t count = 0;
        for (size_t k = 0; k < RG_ARRAY_LENGTH(all); k++) {
            known[count] = all[k];
            count += device->surveyed && all[k].most &&
                     rg_nldev_count_parse(rg_span_text(memory->resources), device->name,
                                          all[k].kind, &known[count].used);
        }
        if (count) {
            judge_resources(device, known, count, &memory->resources_at, findings);
        }
    }
}

/* ---- FORK ---- */

static void mend_fork(struct rg_finding *finding, const struct rg_host_memory *memory)
{
    bool told = false;
    for (size_t i = 0; i < memory->service_count; i++) {
        if (rg_reading_ok(&memory->services[i].unit_at)) {
            rg_remedy_unit(finding, memory->services[i].unit, "Environment=RDMAV_FORK_SAFE=1");
            told = true;
        }
    }
    rg_find_remedy(finding, told ? "# for services that start programs; costs memory maps"
                                 : "export RDMAV_FORK_SAFE=1   # before the program starts; costs "
                                   "memory maps");
    rg_find_remedy(finding, "# or a kernel from 5.12 on");
}

void judge_fork(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    if (facts->devices.rdma_count == 0) {
        return;
    }
    if (!rg_reading_ok(&memory->system_at)) {
        (void)rg_find_unread(findings, "", &memory->system_at);
        return;
    }
    bool copies = memory->copies_on_fork;
    struct rg_finding *finding =
        rg_find(findings, copies ? RG_VERDICT_OK : RG_VERDICT_WARN, "",
                copies ? "The kernel copies pinned pages when a program forks."
                       : "The kernel does not copy pinned pages when a program forks.");
    rg_find_value(finding, "copy_on_fork %d, Linux %s", copies, facts->system.kernel.text);
    rg_find_where(finding, &memory->system_at);
    if (!copies) {
        mend_fork(finding, memory);
    }
}
