/*
 * Judges of the group "numa" (checks_numa.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/text_remedy.h"

#include <inttypes.h>
#include <string.h>

/* ---- NUMA ---- */

/* True when some service is bound to CPUs of which none is near the card; it is named. */
static const struct rg_host_service *service_far_away(const struct rg_host_facts *facts,
                                                      const struct rg_host_numa_nic *nic)
{
    for (size_t i = 0; i < facts->memory.service_count; i++) {
        const struct rg_host_service *service = &facts->memory.services[i];
        if (service->cpus_allowed[0] && rg_reading_ok(&nic->local_cpus.at) &&
            !rg_cpu_lists_meet(service->cpus_allowed, nic->local_cpus.text)) {
            return service;
        }
    }
    return NULL;
}

static void judge_nic(const struct rg_host_facts *facts, const struct rg_host_numa_nic *nic,
                      bool many_nodes, struct rg_findings *findings)
{
    if (!rg_reading_ok(&nic->node.at)) {
        (void)rg_find_unread(findings, nic->rdma, &nic->node.at);
        return;
    }
    if (nic->node.value < 0 && !rg_reading_ok(&facts->numa.online.at)) {
        (void)rg_find_unread(findings, nic->rdma, &facts->numa.online.at);
        return;
    }
    const struct rg_host_service *far = service_far_away(facts, nic);
    bool unknown = nic->node.value < 0 && many_nodes;
    struct rg_finding *finding =
        rg_find(findings, unknown || far ? RG_VERDICT_WARN : RG_VERDICT_OK, nic->rdma,
                unknown ? "The firmware does not say which socket the card belongs to."
                : far   ? "%s runs on CPUs of another socket only."
                        : "Node %s.",
                far                   ? far->unit
                : nic->node.value < 0 ? "0, the only one"
                                      : "as below");
    rg_find_value(finding, "numa_node %" PRId64 ", nodes online %s, local CPUs %s", nic->node.value,
                  facts->numa.online.text,
                  rg_reading_ok(&nic->local_cpus.at) ? nic->local_cpus.text : "unknown");
    rg_find_where(finding, &nic->node.at);
    if (unknown) {
        rg_find_remedy(finding,
                       "# update the firmware, or set the slot's NUMA affinity in its setup; "
                       "until then bind by hand:");
        rg_find_remedy(finding, "numactl --cpunodebind=N --membind=N COMMAND");
    } else if (far) {
        char assignment[192];
        snprintf(assignment, sizeof assignment, "CPUAffinity=%s", nic->local_cpus.text);
        rg_remedy_unit(finding, far->unit, assignment);
    }
}

void judge_numa(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_numa *numa = &facts->numa;
    bool many = rg_reading_ok(&numa->online.at) && strcmp(numa->online.text, "0") != 0;
    for (size_t i = 0; i < numa->count; i++) {
        judge_nic(facts, &numa->nics[i], many, findings);
    }
}

/* ---- IRQ ---- */

#define BUSY_ENOUGH 4
#define SEEN_ENOUGH 1000
#define CPUS_ENOUGH 4

void judge_irq(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_numa *numa = &facts->numa;
    if (numa->count && !rg_reading_ok(&numa->interrupts_at)) {
        (void)rg_find_unread(findings, "", &numa->interrupts_at);
        return;
    }
    for (size_t i = 0; i < numa->count; i++) {
        const struct rg_host_numa_nic *nic = &numa->nics[i];
        const struct rg_irq_spread *spread = &nic->spread;
        if (!nic->has_spread || spread->vectors == 0) {
            struct rg_finding *finding = rg_find(findings, RG_VERDICT_SKIP, nic->rdma,
                                                 "No interrupt is named after this card.");
            rg_find_where(finding, &numa->interrupts_at);
            continue;
        }
        bool bad = spread->busy >= BUSY_ENOUGH && spread->cpus == 1 &&
                   spread->online >= CPUS_ENOUGH && spread->total >= SEEN_ENOUGH;
        struct rg_finding *finding =
            rg_find(findings, bad ? RG_VERDICT_WARN : RG_VERDICT_OK, nic->rdma,
                    bad ? "All %zu busy vectors interrupt one CPU." : "%zu vectors have been busy.",
                    spread->busy);
        rg_find_value(finding, "%zu vectors, %zu busy on %zu CPUs of %zu", spread->vectors,
                      spread->busy, spread->cpus, spread->online);
        rg_find_where(finding, &numa->interrupts_at);
        if (bad) {
            rg_find_value(finding, "%zu vectors, %zu busy, all on CPU %u of %zu", spread->vectors,
                          spread->busy, spread->first_cpu, spread->online);
            rg_find_remedy(finding,
                           "systemctl enable --now irqbalance && systemctl restart irqbalance");
            rg_find_remedy(finding,
                           "# or by hand: echo CPU >/proc/irq/%u/smp_affinity_list, and so on",
                           spread->numbers[0]);
        }
    }
}
