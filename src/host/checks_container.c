/*
 * Judges of the group "container" (checks_container.tbl). Pure.
 */
#include "host/check.h"
#include "host/facts.h"
#include "host/text_remedy.h"
#include "host/words.h"

#include <stdio.h>
#include <string.h>

#define MEMLOCK_USUAL ((uint64_t)8 << 20)

static void mend_pod(struct rg_finding *finding, const struct rg_host_facts *facts, const char *pod,
                     const char *option)
{
    if (facts->container.is_kubernetes) {
        rg_find_remedy(finding, "# in the pod: %s", pod);
    } else {
        char line[256];
        snprintf(line, sizeof line, "podman run %s IMAGE   # docker takes the same", option);
        rg_find_remedy_line(finding, line);
    }
}

/* ---- CTR-DEV ---- */

void judge_ctr_dev(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_container *container = &facts->container;
    size_t uverbs = 0;
    bool has_cm = false;
    if (!container->is_here || facts->devices.rdma_count == 0) {
        return;
    }
    if (container->nodes.at.state == RG_READ_UNREADABLE) {
        (void)rg_find_unread(findings, "", &container->nodes.at);
        return;
    }
    for (size_t i = 0; i < container->nodes.count; i++) {
        uverbs += strncmp(container->nodes.name[i], "uverbs", 6) == 0;
        has_cm |= strcmp(container->nodes.name[i], "rdma_cm") == 0;
    }
    bool partial = uverbs && !has_cm;
    struct rg_finding *finding =
        rg_find(findings,
                !uverbs   ? RG_VERDICT_FAIL
                : partial ? RG_VERDICT_WARN
                          : RG_VERDICT_OK,
                "",
                !uverbs   ? "The host has RDMA devices, and this container was given none of their "
                            "nodes."
                : partial ? "rdma_cm is missing: programs that use the connection manager fail."
                          : "The device nodes are here.");
    rg_find_value(finding, "%zu uverbs nodes, rdma_cm %s; %zu devices in sysfs; container by %s",
                  uverbs, has_cm ? "yes" : "no", facts->devices.rdma_count, container->sign);
    rg_find_where(finding, &container->nodes.at);
    if (!uverbs || partial) {
        mend_pod(
            finding, facts,
            "resources.limits {\"rdma/hca_shared_devices_a\": 1} (the resource name of your RDMA "
            "device plugin)",
            "--device=/dev/infiniband/uverbs0 --device=/dev/infiniband/rdma_cm");
    }
}

/* ---- CTR-LOCK ---- */

void judge_ctr_lock(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    char limit[RG_BYTES_TEXT_MAX + 1];
    if (!facts->container.is_here) {
        return;
    }
    if (!memory->has_self) {
        (void)rg_find_unread(findings, "", &memory->self_at);
        return;
    }
    bool well = memory->self_may_lock || memory->self_soft == RG_WORDS_UNLIMITED;
    bool bad = !well && memory->self_soft <= MEMLOCK_USUAL;
    rg_bytes_text(memory->self_soft, limit);
    struct rg_finding *finding =
        rg_find(findings,
                well  ? RG_VERDICT_OK
                : bad ? RG_VERDICT_FAIL
                      : RG_VERDICT_WARN,
                "",
                well  ? "The container may lock memory."
                : bad ? "The container has the runtime's default locked-memory limit."
                      : "The container has a locked-memory limit.");
    rg_find_value(finding, "limit %s, CAP_IPC_LOCK %s", limit,
                  memory->self_may_lock ? "yes" : "no");
    rg_find_where(finding, &memory->self_at);
    if (!well) {
        mend_pod(finding, facts, "securityContext.capabilities.add [IPC_LOCK]",
                 "--cap-add=IPC_LOCK --ulimit memlock=-1");
    }
}

/* ---- CTR-GID ---- */

static bool interface_is_here(const struct rg_host_facts *facts, const char *name)
{
    const struct rg_names *netdevs = &facts->container.netdevs;
    for (size_t i = 0; name[0] && i < netdevs->count; i++) {
        if (strcmp(netdevs->name[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void judge_ctr_gid(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    if (!facts->container.is_here) {
        return;
    }
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        size_t usable = 0;
        if (!rg_host_port_is_ethernet(port) || !rg_reading_ok(&port->gids_at)) {
            continue;
        }
        for (size_t k = 0; k < port->gid_count; k++) {
            usable += interface_is_here(facts, port->gids[k].netdev);
        }
        struct rg_finding *finding =
            rg_find(findings, usable ? RG_VERDICT_OK : RG_VERDICT_FAIL, port->subject,
                    usable ? "%zu GIDs belong to interfaces of this container."
                           : "No GID belongs to an interface of this container (%zu).",
                    usable);
        rg_find_value(finding, "%zu GIDs, %zu usable", port->gid_count, usable);
        rg_find_where(finding, &port->gids_at);
        if (!usable) {
            mend_pod(finding, facts,
                     "hostNetwork: true, or a second interface on the card (Multus with macvlan, "
                     "ipvlan or SR-IOV)",
                     "--network=host");
        }
    }
}
