/*
 * Judges of the group "aistor" (checks_aistor.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/filtered.h"
#include "host/remedy.h"
#include "host/text_remedy.h"
#include "host/words.h"

#include <inttypes.h>
#include <string.h>

#define RESTART "systemctl restart minio"

/* True when there is no such node; a role that needs one is told. */
static bool not_here(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (facts->aistor.is_here) {
        return false;
    }
    if (facts->plan.profile == RG_PROFILE_AISTOR) {
        (void)rg_find(findings, RG_VERDICT_SKIP, "",
                      "AIStor is not installed here (see AI-BUILD).");
    }
    return true;
}

/* ---- AI-BUILD ---- */

static void tell_missing(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    for (size_t i = 0; i < aistor->build.missing_count; i++) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, aistor->build.missing[i],
                    "A library that %s needs is nowhere.", aistor->program);
        rg_find_value(finding, "not found, run path %s",
                      aistor->build.elf.run_path[0] ? aistor->build.elf.run_path : "-");
        rg_find_where(finding, &aistor->build.at);
        rg_remedy_install(finding, facts, "libibverbs rdma-core numactl-libs",
                          "libibverbs1 rdma-core libnuma1");
        rg_find_remedy(finding, "ldd %s | grep 'not found'", aistor->program);
    }
}

void judge_ai_build(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    if (!aistor->is_here && facts->plan.profile == RG_PROFILE_AISTOR) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, "", "AIStor is not installed here.");
        rg_find_value(finding, "no unit, no program, no settings");
        rg_find_where_text(finding, "%s, /usr/local/bin, %s", RG_AISTOR_UNIT, RG_AISTOR_EARLY);
        rg_find_remedy(finding, "# install the RDMA build of AIStor (the package with .rdma)");
        return;
    }
    if (!aistor->is_here || !aistor->program[0]) {
        return;
    }
    if (!rg_reading_ok(&aistor->build.at)) {
        (void)rg_find_unread(findings, aistor->program, &aistor->build.at);
        return;
    }
    if (!aistor->is_rdma_build) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, aistor->program,
                    "This is the standard build: it needs no verbs library and ignores "
                    "MINIO_RDMA_ settings.");
        rg_find_value(finding, "%s, %zu libraries",
                      aistor->build.elf.is_static ? "static" : "dynamic", aistor->build.elf.count);
        rg_find_where(finding, &aistor->build.at);
        rg_find_remedy(finding, "# install the RDMA build, then:");
        rg_find_remedy(finding, "ldd /usr/local/bin/minio.rdma | grep -E "
                                "'s3rdma|p2p_rdma|ibverbs|rdmacm'");
        rg_find_remedy(finding, "systemctl edit minio   # ExecStart= the RDMA build");
        rg_find_remedy(finding, RESTART);
        return;
    }
    if (aistor->build.missing_count) {
        tell_missing(facts, findings);
        return;
    }
    struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, aistor->program,
                                         "The RDMA build, and its libraries are there.");
    rg_find_where(finding, &aistor->build.at);
}

/* ---- AI-ENV ---- */

static size_t judge_form(const struct rg_host_aistor *aistor, struct rg_findings *findings)
{
    size_t bad = 0;
    for (size_t i = 0; i < aistor->early.count; i++) {
        bool exported = aistor->early.entries[i].exported, spaced = aistor->early.entries[i].spaced;
        if (!exported && !spaced) {
            continue;
        }
        bad++;
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, aistor->early.entries[i].name,
                    exported ? "systemd does not know `export`: the line is ignored."
                             : "systemd takes no blanks around `=`: the line is ignored.");
        rg_find_value(finding, "%s", aistor->early.entries[i].value);
        rg_find_where(finding, &aistor->early_at);
        rg_find_remedy(
            finding,
            exported
                ? "sed -i -E 's/^[[:space:]]*export[[:space:]]+(%s)/\\1/' " RG_AISTOR_EARLY
                : "sed -i -E 's/^[[:space:]]*(%s)[[:space:]]*=[[:space:]]*/\\1=/' " RG_AISTOR_EARLY,
            aistor->early.entries[i].name);
        rg_find_remedy(finding, RESTART);
    }
    return bad;
}

static size_t judge_late(const struct rg_host_aistor *aistor, struct rg_findings *findings)
{
    for (size_t i = 0; i < aistor->late.count; i++) {
        const char *name = aistor->late.entries[i].name;
        const char *early = rg_environment_get(&aistor->early, name);
        bool same = early && strcmp(early, aistor->late.entries[i].value) == 0;
        struct rg_finding *finding =
            rg_find(findings, same ? RG_VERDICT_WARN : RG_VERDICT_FAIL, name,
                    same ? "It stands in both files; config.env is read too late and misleads."
                         : "It stands in config.env, which is read too late: it has no effect.");
        rg_find_value(finding, "%s", aistor->late.entries[i].value);
        rg_find_where(finding, &aistor->late_at);
        rg_find_remedy(finding, "sed -i '/^%s=/d' " RG_AISTOR_LATE, name);
        if (!same) {
            rg_find_remedy(finding, "echo '%s=%s' >>" RG_AISTOR_EARLY, name,
                           aistor->late.entries[i].value);
        }
        rg_find_remedy(finding, RESTART);
    }
    return aistor->late.count;
}

static size_t judge_class(const struct rg_host_aistor *aistor, struct rg_findings *findings)
{
    const char *value = rg_environment_get(&aistor->early, "MINIO_RDMA_TRAFFIC_CLASS");
    if (!value) {
        return 0;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_WARN, "MINIO_RDMA_TRAFFIC_CLASS",
                "The traffic class is set by hand; MINIO_RDMA_INTERNODE_TRAFFIC_CLASS=0 finds the "
                "lossless one.");
    rg_find_value(finding, "%s", value);
    rg_find_where(finding, &aistor->early_at);
    rg_find_remedy(finding,
                   "# DSCP 26 is traffic class 104 (26 * 4): be sure which of the two it is, "
                   "or leave it out");
    return 1;
}

static bool cannot_read(const struct rg_host_aistor *aistor, struct rg_findings *findings)
{
    if (rg_reading_ok(&aistor->early_at) || rg_reading_is_absent(&aistor->early_at)) {
        return false;
    }
    (void)rg_find_unread(findings, "", &aistor->early_at);
    return true;
}

void judge_ai_env(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    if (not_here(facts, findings) || cannot_read(aistor, findings)) {
        return;
    }
    size_t told = judge_form(aistor, findings);
    told += judge_late(aistor, findings);
    told += judge_class(aistor, findings);
    if (!rg_reading_ok(&aistor->late_at) && !rg_reading_is_absent(&aistor->late_at)) {
        (void)rg_find_unread(findings, "", &aistor->late_at);
    } else if (told == 0) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, "",
                                             "RDMA settings stand where they are read in time.");
        rg_find_value(finding, "%zu settings", aistor->early.count);
        rg_find_where(finding, &aistor->early_at);
    }
}

/* ---- AI-INTERNODE ---- */

void judge_ai_internode(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    if (not_here(facts, findings) || cannot_read(aistor, findings)) {
        return;
    }
    const char *set = rg_environment_get(&aistor->early, "MINIO_RDMA_INTERNODE");
    const char *running = rg_environment_get(&aistor->running, "MINIO_RDMA_INTERNODE");
    bool knows_running = rg_reading_ok(&aistor->running_at);
    bool stale = aistor->internode && knows_running && !(running && strcmp(running, set) == 0);
    struct rg_finding *finding =
        rg_find(findings,
                !aistor->internode ? RG_VERDICT_FAIL
                : stale            ? RG_VERDICT_WARN
                                   : RG_VERDICT_OK,
                "",
                !aistor->internode ? "MINIO_RDMA_INTERNODE is not on: nodes talk TCP."
                : stale ? "MINIO_RDMA_INTERNODE is on in the file, and the running process "
                          "was started without it."
                        : "MINIO_RDMA_INTERNODE is on.");
    rg_find_value(finding, "file %s, process %s", set ? set : "not set",
                  running         ? running
                  : knows_running ? "not set"
                                  : "not known");
    rg_find_where(finding, &aistor->early_at);
    if (!aistor->internode) {
        rg_find_remedy(finding,
                       "echo MINIO_RDMA_INTERNODE=on >>" RG_AISTOR_EARLY "   # on every node");
    }
    if (!aistor->internode || stale) {
        rg_find_remedy(finding, RESTART);
    }
}

/* ---- AI-PORT ---- */

void judge_ai_port(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    const struct rg_host_service *service = rg_host_service(facts, RG_AISTOR_UNIT);
    const struct rg_listeners *listeners = &facts->gateway.listeners;
    bool listens = false, only_local = true;
    if (not_here(facts, findings) || !service || !service->pid || cannot_read(aistor, findings)) {
        return;
    }
    if (!rg_reading_ok(&facts->gateway.sockets_at)) {
        (void)rg_find_unread(findings, "", &facts->gateway.sockets_at);
        return;
    }
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->sockets[i].port == aistor->peer_port) {
            listens = true;
            only_local &= listeners->sockets[i].loopback;
        }
    }
    bool bad = !listens || only_local;
    struct rg_finding *finding =
        rg_find(findings, bad ? RG_VERDICT_FAIL : RG_VERDICT_OK, "",
                !listens ? "Nothing listens on the peer port %" PRId64 ": RDMA between nodes is "
                           "not running."
                : only_local ? "Port %" PRId64 " listens for this machine only."
                             : "The peer port %" PRId64 " listens.",
                aistor->peer_port);
    rg_find_value(finding, "%zu sockets listen; port %" PRId64 ": %s", listeners->count,
                  aistor->peer_port,
                  !listens     ? "none"
                  : only_local ? "loopback only"
                               : "open");
    rg_find_where(finding, &facts->gateway.sockets_at);
    if (bad) {
        rg_find_remedy(finding, "journalctl -u minio | grep -i rdma");
        rg_find_remedy(finding, "ss -tlnp 'sport = :%" PRId64 "'", aistor->peer_port);
        rg_remedy_let_nodes_in(finding, facts, (unsigned)aistor->peer_port);
    }
}

/* ---- AI-QP ---- */

void judge_ai_qp(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    const struct rg_host_service *service = rg_host_service(facts, RG_AISTOR_UNIT);
    struct rg_nldev_use use;
    if (not_here(facts, findings) || !service || !service->pid) {
        return;
    }
    if (!memory->resources) {
        (void)rg_find_unread(findings, "", &memory->resources_at);
        return;
    }
    rg_nldev_use_parse(rg_span_text(memory->resources), service->pid, &use);
    struct rg_finding *finding = rg_find(
        findings, use.owned ? RG_VERDICT_OK : RG_VERDICT_FAIL, "",
        use.owned ? "The process owns %zu connected queue pairs."
                  : "The process owns no connected queue pair (%zu): it moves everything by "
                    "TCP.",
        use.owned);
    rg_find_value(finding, "process %u: %zu; others %zu, kernel %zu", service->pid, use.owned,
                  use.other, use.kernel);
    rg_find_where(finding, &memory->resources_at);
    if (!use.owned) {
        rg_find_remedy(finding, "rdma resource show qp   # who owns queue pairs");
        rg_find_remedy(finding,
                       "journalctl -u minio | grep -i rdma   # why it fell back; see AI-BUILD, "
                       "AI-INTERNODE, MEMLOCK");
    }
}

/* ---- AI-POOL ---- */

void judge_ai_pool(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_aistor *aistor = &facts->aistor;
    const struct rg_host_service *service = rg_host_service(facts, RG_AISTOR_UNIT);
    const struct rg_meminfo *info = &facts->memory.meminfo;
    char pool[RG_BYTES_TEXT_MAX + 1], total[RG_BYTES_TEXT_MAX + 1], limit[RG_BYTES_TEXT_MAX + 1];
    if (not_here(facts, findings) || cannot_read(aistor, findings)) {
        return;
    }
    if (aistor->pool_malformed) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, "",
                                             "MINIO_RDMA_POOL_COUNT or _BUF_SIZE is no number.");
        const char *count = rg_environment_get(&aistor->early, "MINIO_RDMA_POOL_COUNT");
        const char *size = rg_environment_get(&aistor->early, "MINIO_RDMA_POOL_BUF_SIZE");
        rg_find_value(finding, "count %s, size %s", count ? count : "not set",
                      size ? size : "not set");
        rg_find_where(finding, &aistor->early_at);
        rg_find_remedy(finding, "# in " RG_AISTOR_EARLY
                                ": MINIO_RDMA_POOL_COUNT=256 and MINIO_RDMA_POOL_BUF_SIZE=64MiB");
        return;
    }
    if (!info->known) {
        (void)rg_find_unread(findings, "", &facts->memory.meminfo_at);
        return;
    }
    uint64_t most = RG_WORDS_UNLIMITED;
    bool knows = rg_host_service_lock_limit(facts, service, &most);
    bool over = knows && aistor->pool_bytes > most,
         much = aistor->pool_bytes > info->total_bytes / 2;
    rg_bytes_text(aistor->pool_bytes, pool);
    rg_bytes_text(info->total_bytes, total);
    rg_bytes_text(most, limit);
    struct rg_finding *finding =
        rg_find(findings,
                over   ? RG_VERDICT_FAIL
                : much ? RG_VERDICT_WARN
                       : RG_VERDICT_OK,
                "",
                over   ? "The buffer pool is larger than what the service may lock."
                : much ? "The buffer pool takes more than half of the machine's memory."
                       : "The buffer pool fits.");
    rg_find_value(finding, "%s; memory %s, limit %s", pool, total, knows ? limit : "not known");
    rg_find_where(finding, &aistor->early_at);
    if (over) {
        rg_remedy_unit(finding, RG_AISTOR_UNIT, "LimitMEMLOCK=infinity");
    }
    if (over || much) {
        rg_find_remedy(finding, "# or a smaller MINIO_RDMA_POOL_COUNT in " RG_AISTOR_EARLY);
    }
}
