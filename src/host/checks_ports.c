/*
 * Judges of the group "ports" (checks_ports.tbl). Pure.
 */
#include "base/attr.h"
#include "base/checked.h"
#include "host/check.h"
#include "host/facts.h"
#include "host/remedy.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>

#define NEIGHBOURS_ENOUGH 4096
#define ROCE_MTU_BYTES    4096
#define ROCE_NETDEV_MTU   4200
#define PKEY_FULL_MEMBER  0x8000

static const struct rg_rdma_device *device_of(const struct rg_host_facts *facts,
                                              const struct rg_host_port *port)
{
    return &facts->devices.rdma[port->device];
}

/* For commands. */
static const char *netdev_of(const struct rg_host_port *port)
{
    return port->netdev[0] ? port->netdev : "INTERFACE";
}

/* ---- PORT-STATE ---- */

/* Its interface has been switched off, and another port works. */
static bool is_unused(const struct rg_host_facts *facts, const struct rg_host_port *port)
{
    const struct rg_netdev *netdev = rg_host_netdev(&facts->devices, port->netdev);
    bool other = false;
    for (size_t i = 0; i < facts->ports.count; i++) {
        other |= rg_host_port_is_active(&facts->ports.list[i]);
    }
    return other && netdev && rg_reading_ok(&netdev->flags.at) && !(netdev->flags.value & 1);
}

static void judge_state(const struct rg_host_facts *facts, const struct rg_host_port *port,
                        struct rg_findings *findings)
{
    if (!rg_reading_ok(&port->state.at)) {
        (void)rg_find_unread(findings, port->subject, &port->state.at);
        return;
    }
    bool link_up = port->phys_state.text[0] == '5';
    bool ethernet = rg_host_port_is_ethernet(port);
    struct rg_finding *finding;
    switch (port->state.text[0]) {
    case '4':
        finding = rg_find(findings, RG_VERDICT_OK, port->subject, "Active.");
        break;
    case '2':
    case '3':
        finding = rg_find(findings, RG_VERDICT_WARN, port->subject, "%s",
                          ethernet ? "The port has not come up yet."
                                   : "The link is up, but no subnet manager has made the port "
                                     "active.");
        if (ethernet) {
            rg_find_remedy(finding, "ip link set %s up", netdev_of(port));
        } else {
            rg_find_remedy(finding, "sminfo -C %s -P %u   # is there a subnet manager?",
                           device_of(facts, port)->name, port->number);
            rg_find_remedy(finding, "systemctl enable --now opensm   # on one host, when no switch "
                                    "runs one");
        }
        break;
    default:
        finding = is_unused(facts, port)
                      ? rg_find(findings, RG_VERDICT_WARN, port->subject,
                                "The port is down, and so is its interface: is it unused?")
                      : rg_find(findings, RG_VERDICT_FAIL, port->subject, "The port is down%s.",
                                link_up ? " although the link is up" : "");
        if (port->netdev[0]) {
            rg_find_remedy(finding, "ip link set %s up", port->netdev);
        }
        if (ethernet && device_of(facts, port)->family != RG_NIC_RXE) {
            rg_find_remedy(finding, "ethtool -m %s   # transceiver; then the switch's port",
                           netdev_of(port));
        } else if (!ethernet) {
            rg_find_remedy(finding,
                           "ibportstate -C %s -P %u -D 0 %u   # then cable and switch port",
                           device_of(facts, port)->name, port->number, port->number);
        }
    }
    rg_find_value(finding, "%s, %s", port->state.text, port->phys_state.text);
    rg_find_where(finding, &port->state.at);
}

void judge_port_state(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        judge_state(facts, &facts->ports.list[i], findings);
    }
}

/* ---- PORT-LAYER ---- */

/* Each function of a ConnectX has one port, port 1, but its firmware counts those of the card. */
static unsigned port_of_card(const struct rg_rdma_device *device, const struct rg_host_port *port)
{
    const char *dot = strrchr(device->pci.text, '.');
    return port->number + (dot ? (unsigned)strtoul(dot + 1, NULL, 10) : 0);
}

static bool is_infiniband(const struct rg_host_port *port)
{
    return strcmp(port->link_layer.text, "InfiniBand") == 0;
}

/* A virtual function has the type of the port below it, and no setting of its own. */
static bool has_own_type(const struct rg_host_facts *facts, const struct rg_host_port *port)
{
    const struct rg_pci_function *function =
        rg_host_pci(&facts->devices, device_of(facts, port)->pci.text);
    return (rg_host_port_is_ethernet(port) || is_infiniband(port)) &&
           !(function && function->is_virtual);
}

/* The ports of one kind of board. */
struct siblings {
    size_t alike, unlike;
    const struct rg_host_port *first; /* of all */
    const struct rg_host_port *other; /* one of the other type; NULL */
};

static struct siblings find_siblings(const struct rg_host_facts *facts,
                                     const struct rg_host_port *port)
{
    struct siblings found = {0};
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *sibling = &facts->ports.list[i];
        if (!has_own_type(facts, sibling) ||
            !rg_host_same_board(&facts->devices, device_of(facts, sibling),
                                device_of(facts, port))) {
            continue;
        }
        found.first = found.first ? found.first : sibling;
        if (is_infiniband(sibling) == is_infiniband(port)) {
            found.alike++;
        } else {
            found.unlike++;
            found.other = sibling;
        }
    }
    return found;
}

/* Only where most ports say so is it known which of them is wrong. */
static void mend_layer(struct rg_finding *finding, const struct rg_rdma_device *device,
                       const struct rg_host_port *port, const struct siblings *siblings)
{
    if (device->family != RG_NIC_MLX5) {
        rg_find_remedy(finding, "dmesg | grep -iE 'infiniband|%s'   # why its driver set it so",
                       device->name);
    } else if (siblings->alike < siblings->unlike) {
        rg_find_remedy(
            finding,
            "mstconfig -d %s set LINK_TYPE_P%u=%u   # unless it is meant so: %s, as most "
            "ports of this kind of board (1 InfiniBand, 2 Ethernet); then reboot",
            device->pci.text, port_of_card(device, port),
            rg_host_port_is_ethernet(siblings->other) ? 2u : 1u, siblings->other->link_layer.text);
    } else {
        rg_find_remedy_line(finding,
                            "# both types on one kind of board may be meant so: the decision is "
                            "the operator's, and LINK_TYPE_Pn of mstconfig is what a port is (1 "
                            "InfiniBand, 2 Ethernet)");
    }
}

/* NULL when another port's finding tells what there is to tell. */
static struct rg_finding *judge_layer(const struct rg_host_facts *facts,
                                      const struct rg_host_port *port, struct rg_findings *findings)
{
    const struct rg_rdma_device *device = device_of(facts, port);
    struct rg_finding *finding;
    if (!rg_host_port_is_ethernet(port) && !is_infiniband(port) && device->family != RG_NIC_EFA) {
        finding = rg_find(findings, RG_VERDICT_FAIL, port->subject,
                          "The port has no link layer: its driver could not set it up.");
        rg_find_remedy(finding, "dmesg | grep -iE 'infiniband|%s'   # then load the driver again",
                       device->name);
        return finding;
    }
    struct siblings siblings =
        has_own_type(facts, port) ? find_siblings(facts, port) : (struct siblings){0};
    if (!siblings.other || siblings.alike > siblings.unlike) {
        return rg_find(findings, RG_VERDICT_OK, port->subject, "%s.", port->link_layer.text);
    }
    if (siblings.alike == siblings.unlike && siblings.first != port) {
        return NULL;
    }
    finding = rg_find(findings, RG_VERDICT_WARN, port->subject,
                      "%s, but %s on the same kind of board is %s.", port->link_layer.text,
                      siblings.other->subject, siblings.other->link_layer.text);
    mend_layer(finding, device, port, &siblings);
    return finding;
}

void judge_port_layer(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        if (!rg_reading_ok(&port->link_layer.at)) {
            (void)rg_find_unread(findings, port->subject, &port->link_layer.at);
            continue;
        }
        struct rg_finding *finding = judge_layer(facts, port, findings);
        if (finding) {
            rg_find_value(finding, "%s", port->link_layer.text);
            rg_find_where(finding, &port->link_layer.at);
        }
    }
}

/* ---- PORT-RATE ---- */

/* "200 Gb/sec (4X HDR)" → 200; 0 when it is not so. */
static double rate_of(const struct rg_host_port *port)
{
    return rg_reading_ok(&port->rate.at) ? strtod(port->rate.text, NULL) : 0;
}

/* Siblings: of the same driver and link layer. Different boards may differ; half says something. */
static const struct rg_host_port *fastest_sibling(const struct rg_host_facts *facts,
                                                  const struct rg_host_port *port)
{
    const struct rg_rdma_device *device = device_of(facts, port);
    const struct rg_host_port *best = port;
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *other = &facts->ports.list[i];
        if (rg_host_port_is_active(other) &&
            rg_host_same_board(&facts->devices, device_of(facts, other), device) &&
            rate_of(other) > rate_of(best)) {
            best = other;
        }
    }
    return best;
}

void judge_port_rate(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        if (!rg_reading_ok(&port->rate.at)) {
            (void)rg_find_unread(findings, port->subject, &port->rate.at);
            continue;
        }
        if (!rg_host_port_is_active(port)) {
            continue;
        }
        const struct rg_host_port *best = fastest_sibling(facts, port);
        bool narrow = !rg_host_port_is_ethernet(port) && strstr(port->rate.text, "(1X") != NULL;
        double rate = rate_of(port);
        struct rg_finding *finding;
        if (rate < rate_of(best) / 2 || narrow) {
            finding =
                rg_find(findings, RG_VERDICT_FAIL, port->subject, "%s%s%s.",
                        narrow ? "Only one lane is up" : "Less than half the rate of its sibling ",
                        narrow ? "" : best->subject, "");
        } else if (rate < rate_of(best)) {
            finding = rg_find(findings, RG_VERDICT_WARN, port->subject,
                              "Slower than %s on the same kind of board.", best->subject);
        } else {
            finding = rg_find(findings, RG_VERDICT_OK, port->subject, "%s.", port->rate.text);
        }
        rg_find_value(finding, "%s", port->rate.text);
        rg_find_where(finding, &port->rate.at);
        if (finding->verdict == RG_VERDICT_OK) {
            continue;
        }
        if (rg_host_port_is_ethernet(port)) {
            rg_find_remedy(finding,
                           "ethtool %s; ethtool -m %s   # speeds offered by both ends, "
                           "transceiver",
                           netdev_of(port), netdev_of(port));
            rg_find_remedy(finding, "ethtool -s %s autoneg on", netdev_of(port));
        } else {
            rg_find_remedy(finding,
                           "iblinkinfo -C %s -P %u -D 0 -n 1   # width and speed of both ends; "
                           "reseat or replace the cable",
                           device_of(facts, port)->name, port->number);
        }
    }
}

/* ---- PORT-MTU ---- */

static void judge_mtu(const struct rg_host_facts *facts, const struct rg_host_port *port,
                      struct rg_findings *findings)
{
    const struct rg_survey_port *survey = rg_host_port_survey(&facts->devices, port);
    const struct rg_netdev *netdev = rg_host_netdev(&facts->devices, port->netdev);
    if (!survey || survey->active_mtu == 0) {
        (void)rg_find(findings, RG_VERDICT_SKIP, port->subject,
                      "The library does not tell the MTU of this port.");
        return;
    }
    unsigned best = survey->max_mtu < ROCE_MTU_BYTES ? survey->max_mtu : ROCE_MTU_BYTES;
    bool low = survey->active_mtu < best;
    struct rg_finding *finding =
        low ? rg_find(findings, RG_VERDICT_WARN, port->subject,
                      "The RDMA MTU is %u bytes, of %u that the port can do.", survey->active_mtu,
                      best)
            : rg_find(findings, RG_VERDICT_OK, port->subject, "%u bytes.", survey->active_mtu);
    if (netdev && rg_reading_ok(&netdev->mtu.at)) {
        rg_find_value(finding, "active_mtu %u, max_mtu %u, %s mtu %d", survey->active_mtu,
                      survey->max_mtu, netdev->name, (int)netdev->mtu.value);
    } else {
        rg_find_value(finding, "active_mtu %u, max_mtu %u", survey->active_mtu, survey->max_mtu);
    }
    rg_find_where_text(finding, "ibv_query_port");
    if (!low) {
        return;
    }
    if (!rg_host_port_is_ethernet(port)) {
        rg_find_remedy(finding,
                       "smpquery -C %s -P %u -D portinfo 0 %u | grep -i mtu   # MtuCap, and "
                       "NeighborMTU: the smaller one of both ends",
                       device_of(facts, port)->name, port->number, port->number);
        rg_find_remedy(finding, "# the other end is a switch port that is limited: 4096 there "
                                "(NVIDIA's: interface ib 1/N mtu 4K), then the port down and up");
        return;
    }
    rg_find_remedy(finding,
                   "ip link set %s mtu 9000   # %d at least; the switches must allow it "
                   "first",
                   netdev_of(port), ROCE_NETDEV_MTU);
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding, "nmcli connection modify %s 802-3-ethernet.mtu 9000   # to keep it",
                       netdev_of(port));
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "# to keep it: \"mtu 9000\" for %s in /etc/network/interfaces or "
                       "netplan",
                       netdev_of(port));
    }
}

void judge_port_mtu(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (rg_host_port_is_active(&facts->ports.list[i])) {
            judge_mtu(facts, &facts->ports.list[i], findings);
        }
    }
}

/* ---- GID-TABLE, GID-CHOICE, GID-MAC ---- */

static bool is_own_address(const struct rg_host_ports *ports, const struct rg_gid_entry *gid)
{
    for (size_t i = 0; i < ports->address_count; i++) {
        if (rg_gid_is_address(gid->gid, ports->addresses[i].text)) {
            return true;
        }
    }
    return false;
}

static void mend_address(const struct rg_host_facts *facts, const struct rg_host_port *port,
                         struct rg_finding *finding)
{
    const char *netdev = netdev_of(port);
    rg_find_remedy(finding, "ip address add ADDRESS/PREFIX dev %s   # the GID appears by itself",
                   netdev);
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "nmcli connection modify %s ipv4.method manual ipv4.addresses "
                       "ADDRESS/PREFIX   # to keep it",
                       netdev);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "# to keep it: an address for %s in /etc/network/interfaces or "
                       "netplan",
                       netdev);
    }
}

/* A port that works has one whatever its addresses are. */
static void mend_no_gid(const struct rg_host_facts *facts, const struct rg_host_port *port,
                        struct rg_finding *finding)
{
    const struct rg_rdma_device *device = device_of(facts, port);
    if (!rg_host_port_is_ethernet(port)) {
        rg_find_remedy(finding, "dmesg | grep -iE 'infiniband|%s'   # why its driver gave it none",
                       device->name);
        return;
    }
    if (device->family == RG_NIC_MLX5) {
        rg_find_remedy(finding,
                       "devlink dev param show pci/%s name enable_roce   # without it there is no "
                       "table; then:",
                       device->pci.text);
        rg_find_remedy(finding,
                       "devlink dev param set pci/%s name enable_roce value true cmode driverinit "
                       "&& devlink dev reload pci/%s",
                       device->pci.text, device->pci.text);
    }
    rg_find_remedy(finding, "ip link set %s up", netdev_of(port));
    mend_address(facts, port, finding);
}

/* RoCE v2 GIDs that route, of how many interfaces (VLANs, a bond): more than one, and which is
 * meant only a person knows. Their names are listed. */
static size_t list_candidates(const struct rg_host_port *port, struct rg_buf *out)
{
    size_t count = 0;
    for (size_t i = 0; i < port->gid_count; i++) {
        const struct rg_gid_entry *gid = &port->gids[i];
        bool first = true;
        if (gid->type != RG_GID_ROCE_V2 || rg_gid_scope(gid->gid) == RG_GID_LINK_LOCAL ||
            !gid->netdev[0]) {
            continue;
        }
        for (size_t k = 0; k < i; k++) {
            const struct rg_gid_entry *other = &port->gids[k];
            first &= other->type != RG_GID_ROCE_V2 ||
                     rg_gid_scope(other->gid) == RG_GID_LINK_LOCAL ||
                     strcmp(other->netdev, gid->netdev) != 0;
        }
        if (first) {
            rg_buf_addf(out, "%s%s index %d", count++ ? ", " : "", gid->netdev, gid->index);
        }
    }
    return count;
}

static void judge_gids(const struct rg_host_facts *facts, const struct rg_host_port *port,
                       struct rg_findings *findings)
{
    const struct rg_gid_entry *gid = rg_host_port_gid(port);
    const struct rg_rdma_device *device = device_of(facts, port);
    char text[RG_GID_TEXT_MAX + 1] = "none";
    if (!rg_reading_ok(&port->gids_at)) {
        (void)rg_find_unread(findings, port->subject, &port->gids_at);
        return;
    }
    if (gid) {
        rg_gid_text(gid->gid, text);
    }
    bool ethernet = rg_host_port_is_ethernet(port) && device->family != RG_NIC_EFA;
    enum rg_gid_scope scope = gid ? rg_gid_scope(gid->gid) : RG_GID_ZERO;
    RG_BUF(candidates, 1024);
    size_t interfaces = ethernet ? list_candidates(port, &candidates) : 0;
    struct rg_finding *finding;
    if (!gid) {
        finding = rg_find(findings, RG_VERDICT_FAIL, port->subject, "The port has no GID.");
        mend_no_gid(facts, port, finding);
    } else if (!ethernet) {
        finding = rg_find(findings, RG_VERDICT_OK, port->subject, "Use index %d.", gid->index);
    } else if (gid->type != RG_GID_ROCE_V2) {
        finding = rg_find(findings, RG_VERDICT_FAIL, port->subject,
                          "There is no RoCE v2 GID, only v1, which does not route.");
        rg_find_remedy(finding,
                       "dmesg | grep -iE 'infiniband|%s'   # no address brings one: the card, its "
                       "firmware or its driver has v1 only",
                       device->name);
    } else if (scope == RG_GID_LINK_LOCAL) {
        finding = rg_find(findings, RG_VERDICT_WARN, port->subject,
                          "There is only a link-local GID: the interface has no address.");
        mend_address(facts, port, finding);
    } else if (rg_reading_ok(&facts->ports.addresses_at) && !is_own_address(&facts->ports, gid)) {
        finding =
            rg_find(findings, RG_VERDICT_FAIL, port->subject,
                    "GID %s at index %d is the address of no interface here.", text, gid->index);
        rg_find_remedy(finding,
                       "ip address show   # in a container: the interface %s must be in "
                       "its network namespace",
                       gid->netdev);
    } else if (interfaces > 1) {
        finding = rg_find(findings, RG_VERDICT_WARN, port->subject,
                          "%zu interfaces of this port have RoCE v2 GIDs; by rule index %d (%s) is "
                          "used.",
                          interfaces, gid->index, gid->netdev);
        rg_find_remedy(finding, "# when another one is meant, say so to each program: %s",
                       rg_buf_text(&candidates));
        rg_find_remedy(finding, "railgate serve --rdma-gid-index INDEX   # NCCL_IB_GID_INDEX, "
                                "UCX_IB_GID_INDEX and the like for others");
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, port->subject, "Use index %d: %s, RoCE v2, %s.",
                          gid->index, text, gid->netdev);
    }
    rg_find_value(finding, "index %d, %s, %zu GIDs in use", gid ? gid->index : -1, text,
                  port->gid_count);
    rg_find_where(finding, &port->gids_at);
}

void judge_gid_table(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        judge_gids(facts, &facts->ports.list[i], findings);
    }
}

/* Right if it is the choice of one port at least. */
static bool is_chosen(const struct rg_host_ports *ports, int64_t index)
{
    for (size_t i = 0; i < ports->count; i++) {
        const struct rg_gid_entry *gid = rg_host_port_gid(&ports->list[i]);
        if (gid && gid->index == index) {
            return true;
        }
    }
    return false;
}

void judge_gid_choice(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_ports *ports = &facts->ports;
    RG_BUF(choices, 2048);
    for (size_t i = 0; i < ports->count; i++) {
        const struct rg_gid_entry *gid = rg_host_port_gid(&ports->list[i]);
        if (gid) {
            rg_buf_addf(&choices, "%s%s index %d", choices.len ? ", " : "", ports->list[i].subject,
                        gid->index);
        }
    }
    if (choices.len == 0) {
        return;
    }
    if (ports->setting_count == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "", "No file fixes a GID index.");
        rg_find_value(finding, "to use: %s", rg_buf_text(&choices));
        rg_find_where_text(finding,
                           "/sys/class/infiniband/*/ports/*/gids; files of NCCL, UCX, MinIO");
    }
    for (size_t i = 0; i < ports->setting_count; i++) {
        const struct rg_gid_setting *setting = &ports->settings[i];
        bool right = is_chosen(ports, setting->index);
        struct rg_finding *finding =
            right ? rg_find(findings, RG_VERDICT_OK, setting->name, "Index %d is the one to use.",
                            (int)setting->index)
                  : rg_find(findings, RG_VERDICT_WARN, setting->name,
                            "Fixed to index %d, which is not the one to use on any port.",
                            (int)setting->index);
        rg_find_value(finding, "%s=%d; to use: %s", setting->name, (int)setting->index,
                      rg_buf_text(&choices));
        rg_find_where(finding, &setting->at);
        if (!right) {
            rg_find_remedy(finding, "sed -i '/%s/d' %s   # programs then choose by rule",
                           setting->name, setting->at.path);
        }
    }
}

static bool shares_mac(const struct rg_host_facts *facts, const struct rg_netdev *netdev,
                       const struct rg_netdev **ret_other)
{
    for (size_t i = 0; i < facts->devices.netdev_count; i++) {
        const struct rg_netdev *other = &facts->devices.netdevs[i];
        /* Ports of a bond have its address; VLANs that of what they stand on. */
        if (other != netdev && rg_reading_ok(&other->pci.at) && !rg_reading_ok(&other->master.at) &&
            rg_reading_ok(&other->mac.at) && strcmp(other->mac.text, netdev->mac.text) == 0) {
            *ret_other = other;
            return true;
        }
    }
    return false;
}

static void judge_mac(const struct rg_host_facts *facts, const struct rg_netdev *netdev,
                      struct rg_findings *findings)
{
    const struct rg_netdev *other;
    unsigned long first = strtoul(netdev->mac.text, NULL, 16);
    struct rg_finding *finding;
    if (first & 1) {
        finding = rg_find(findings, RG_VERDICT_FAIL, netdev->name,
                          "The hardware address has the multicast bit.");
    } else if (rg_reading_ok(&netdev->pci.at) && !rg_reading_ok(&netdev->master.at) &&
               shares_mac(facts, netdev, &other)) {
        finding = rg_find(findings, RG_VERDICT_FAIL, netdev->name,
                          "%s has the same hardware address.", other->name);
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, netdev->name, "Sane.");
    }
    rg_find_value(finding, "%s", netdev->mac.text);
    rg_find_where(finding, &netdev->mac.at);
    if (finding->verdict == RG_VERDICT_FAIL) {
        rg_find_remedy(finding, "ethtool -P %s   # the permanent address", netdev->name);
        rg_find_remedy(finding, "ip link set %s address $(ethtool -P %s | cut -d' ' -f3)",
                       netdev->name, netdev->name);
    }
}

void judge_gid_mac(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        const struct rg_netdev *netdev = rg_host_netdev(&facts->devices, port->netdev);
        if (netdev && rg_host_port_is_ethernet(port) && rg_reading_ok(&netdev->mac.at)) {
            judge_mac(facts, netdev, findings);
        }
    }
}

/* ---- CMA-MODE ---- */

void judge_cma_mode(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    int planned = facts->plan.roce_dscp << 2;
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        const char *device = device_of(facts, port)->name;
        if (port->cma_mode.at.state == RG_READ_MISSING || !rg_host_port_is_ethernet(port)) {
            continue;
        }
        if (!rg_reading_ok(&port->cma_mode.at)) {
            (void)rg_find_unread(findings, port->subject, &port->cma_mode.at);
            continue;
        }
        struct rg_finding *finding;
        if (strcmp(port->cma_mode.text, "RoCE v2") != 0) {
            finding = rg_find(findings, RG_VERDICT_WARN, port->subject, "librdmacm makes %s.",
                              port->cma_mode.text);
            rg_find_remedy(
                finding, "echo 'RoCE v2' >/sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_mode",
                device, port->number);
        } else if (rg_reading_ok(&port->cma_tos.at) &&
                   port->cma_tos.value >> 2 != facts->plan.roce_dscp) {
            finding = rg_find(findings, RG_VERDICT_WARN, port->subject,
                              "librdmacm marks with DSCP %d, and %d is planned.",
                              (int)(port->cma_tos.value >> 2), facts->plan.roce_dscp);
            rg_find_remedy(finding,
                           "echo %d >/sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_tos",
                           planned, device, port->number);
        } else {
            finding = rg_find(findings, RG_VERDICT_OK, port->subject, "RoCE v2.");
        }
        rg_find_value(finding, "%s, tos %d", port->cma_mode.text, (int)port->cma_tos.value);
        rg_find_where(finding, &port->cma_mode.at);
    }
}

/* ---- ADDR ---- */

static bool same_subnet(const struct rg_address *a, const struct rg_address *b)
{
    struct in_addr first;
    struct in_addr second;
    if (a->prefix != b->prefix || inet_pton(AF_INET, a->text, &first) != 1 ||
        inet_pton(AF_INET, b->text, &second) != 1) {
        return false;
    }
    uint32_t mask = a->prefix == 0 ? 0 : UINT32_MAX << (32 - a->prefix);
    return ((ntohl(first.s_addr) ^ ntohl(second.s_addr)) & mask) == 0;
}

static bool carries_rdma(const struct rg_host_facts *facts, const char *netdev)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (strcmp(facts->ports.list[i].netdev, netdev) == 0) {
            return true;
        }
    }
    return false;
}

/* An IPv4 address of another RDMA interface in the subnet of this one's. */
static const struct rg_address *neighbour_of(const struct rg_host_facts *facts,
                                             const struct rg_address *address)
{
    for (size_t i = 0; i < facts->ports.address_count; i++) {
        const struct rg_address *other = &facts->ports.addresses[i];
        if (other->is_ipv4 && strcmp(other->netdev, address->netdev) != 0 &&
            carries_rdma(facts, other->netdev) && same_subnet(address, other)) {
            return other;
        }
    }
    return NULL;
}

static const struct rg_arp_settings *arp_of(const struct rg_host_facts *facts, const char *netdev)
{
    const struct rg_netdev *found = rg_host_netdev(&facts->devices, netdev);
    return found ? &facts->ports.arp[found - facts->devices.netdevs] : &facts->ports.arp_all;
}

/* The kernel takes the larger of "all" and the interface's. */
static int64_t larger(const struct rg_number *a, const struct rg_number *b)
{
    return a->value > b->value ? a->value : b->value;
}

static void judge_shared_subnet(const struct rg_host_facts *facts, const struct rg_address *address,
                                const struct rg_address *other, struct rg_findings *findings)
{
    const struct rg_arp_settings *all = &facts->ports.arp_all;
    const struct rg_arp_settings *own = arp_of(facts, address->netdev);
    const struct rg_number *const needed[] = {&own->arp_ignore, &own->arp_announce,
                                              &own->rp_filter};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(needed); i++) {
        if (!rg_reading_ok(&needed[i]->at)) {
            (void)rg_find_unread(findings, address->netdev, &needed[i]->at);
            return;
        }
    }
    int ignore = (int)larger(&all->arp_ignore, &own->arp_ignore);
    int announce = (int)larger(&all->arp_announce, &own->arp_announce);
    int filter = (int)larger(&all->rp_filter, &own->rp_filter);
    bool right = ignore >= 1 && announce == 2 && filter != 1;
    struct rg_finding *finding =
        right ? rg_find(findings, RG_VERDICT_OK, address->netdev,
                        "In one subnet with %s, with ARP kept apart.", other->netdev)
              : rg_find(findings, RG_VERDICT_WARN, address->netdev,
                        "In one subnet with %s, and either port answers ARP for both.",
                        other->netdev);
    rg_find_value(finding, "%s/%u and %s/%u; arp_ignore %d, arp_announce %d, rp_filter %d",
                  address->text, address->prefix, other->text, other->prefix, ignore, announce,
                  filter);
    rg_find_where(finding, &own->arp_ignore.at);
    if (!right) {
        rg_find_remedy(finding, "# best: a subnet of its own for each port; otherwise:");
        rg_find_remedy(
            finding, "printf 'net.ipv4.conf.all.arp_ignore = 1\\nnet.ipv4.conf.all.arp_announce = "
                     "2\\nnet.ipv4.conf.all.rp_filter = 2\\n' >/etc/sysctl.d/90-rdma-arp.conf && "
                     "sysctl --system");
    }
}

void judge_addr(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_ports *ports = &facts->ports;
    if (!rg_reading_ok(&ports->addresses_at)) {
        (void)rg_find_unread(findings, "", &ports->addresses_at);
        return;
    }
    for (size_t i = 0; i < ports->address_count; i++) {
        const struct rg_address *address = &ports->addresses[i];
        if (!address->is_ipv4 || !carries_rdma(facts, address->netdev)) {
            continue;
        }
        const struct rg_address *other = neighbour_of(facts, address);
        if (other) {
            judge_shared_subnet(facts, address, other, findings);
            continue;
        }
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, address->netdev, "%s/%u.",
                                             address->text, address->prefix);
        rg_find_where(finding, &ports->addresses_at);
    }
}

/* ---- NEIGH ---- */

/* Twice what it is, at least: a remedy must not take any away. */
static void mend_neighbours(struct rg_finding *finding, int64_t limit)
{
    int64_t twice = 2 * RG_MIN(limit, INT64_C(0x3fffffff));
    int64_t most = RG_MAX(twice, INT64_C(16384));
    rg_find_remedy(finding,
                   "printf 'net.ipv4.neigh.default.gc_thresh1 = %" PRId64 "\\n"
                   "net.ipv4.neigh.default.gc_thresh2 = %" PRId64 "\\n"
                   "net.ipv4.neigh.default.gc_thresh3 = %" PRId64 "\\n' "
                   ">/etc/sysctl.d/90-rdma-neigh.conf && sysctl --system",
                   most / 4, most / 2, most);
}

void judge_neigh(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_number *limit = &facts->ports.gc_thresh3;
    if (facts->devices.rdma_count == 0) {
        return;
    }
    if (!rg_reading_ok(&limit->at)) {
        (void)rg_find_unread(findings, "", &limit->at);
        return;
    }
    const struct rg_neighbours *table = &facts->ports.neighbours;
    bool is_large = limit->value >= NEIGHBOURS_ENOUGH;
    bool knows = rg_reading_ok(&facts->ports.neighbours_at);
    if (!knows && !is_large) {
        (void)rg_find_unread(findings, "", &facts->ports.neighbours_at);
        return;
    }
    /* That it was full is history, and mended where the limit has been raised since. */
    bool crowded = (int64_t)table->entries > limit->value / 2;
    bool was_full = table->overflows > 0 && !is_large;
    bool low = crowded || was_full;
    struct rg_finding *finding =
        low ? rg_find(findings, RG_VERDICT_WARN, "",
                      crowded ? "The neighbour table holds %d entries, and more than half is taken."
                              : "The neighbour table holds %d entries, and has been full.",
                      (int)limit->value)
            : rg_find(findings, RG_VERDICT_OK, "",
                      knows ? "There is room: it holds %d entries."
                            : "It holds %d entries, enough for a large fabric.",
                      (int)limit->value);
    if (knows) {
        rg_find_value(finding, "gc_thresh3 %d, entries %llu, refused since the boot %llu",
                      (int)limit->value, (unsigned long long)table->entries,
                      (unsigned long long)table->overflows);
    } else {
        rg_find_value(finding, "gc_thresh3 %d, entries not known", (int)limit->value);
    }
    rg_find_where(finding, &limit->at);
    if (low) {
        mend_neighbours(finding, limit->value);
    }
}

/* ---- IPOIB ---- */

static bool is_up(const struct rg_netdev *netdev)
{
    return (netdev->flags.value & 1) != 0;
}

void judge_ipoib(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->devices.netdev_count; i++) {
        const struct rg_netdev *netdev = &facts->devices.netdevs[i];
        if (netdev->type.value != ARPHRD_INFINIBAND) {
            continue;
        }
        const struct rg_netdev *parent = rg_host_netdev(&facts->devices, netdev->ipoib_parent.text);
        struct rg_finding *finding;
        if (!rg_reading_ok(&netdev->flags.at)) {
            (void)rg_find_unread(findings, netdev->name, &netdev->flags.at);
            continue;
        }
        if (!rg_reading_ok(&netdev->ipoib_pkey.at)) {
            (void)rg_find_unread(findings, netdev->name, &netdev->ipoib_pkey.at);
            continue;
        }
        if (parent && is_up(netdev) && rg_reading_ok(&parent->flags.at) && !is_up(parent)) {
            finding = rg_find(findings, RG_VERDICT_FAIL, netdev->name,
                              "Up, but its parent %s is down: nothing gets through.", parent->name);
            rg_find_remedy(finding, "ip link set %s up", parent->name);
        } else if (!(netdev->ipoib_pkey.value & PKEY_FULL_MEMBER)) {
            finding = rg_find(findings, RG_VERDICT_WARN, netdev->name,
                              "A limited member of its partition.");
            rg_find_remedy(finding, "# in the subnet manager's partitions.conf: this port's GUID "
                                    "with =full");
        } else if (!is_up(netdev)) {
            finding = rg_find(findings, RG_VERDICT_WARN, netdev->name, "The interface is down.");
            rg_find_remedy(finding, "ip link set %s up", netdev->name);
        } else {
            finding = rg_find(findings, RG_VERDICT_OK, netdev->name, "Up, %s mode.",
                              netdev->ipoib_mode.text[0] ? netdev->ipoib_mode.text : "unknown");
        }
        rg_find_value(finding, "mode %s, pkey 0x%04x, mtu %d", netdev->ipoib_mode.text,
                      (unsigned)netdev->ipoib_pkey.value, (int)netdev->mtu.value);
        rg_find_where(finding, &netdev->flags.at);
    }
}

/* ---- SM, NETNS, FW ---- */

void judge_sm(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    for (size_t i = 0; i < facts->ports.count; i++) {
        const struct rg_host_port *port = &facts->ports.list[i];
        if (strcmp(port->link_layer.text, "InfiniBand") != 0 ||
            (port->phys_state.text[0] != '5' && rg_reading_ok(&port->phys_state.at))) {
            continue;
        }
        if (!rg_reading_ok(&port->sm_lid.at)) {
            (void)rg_find_unread(findings, port->subject, &port->sm_lid.at);
            continue;
        }
        if (!rg_reading_ok(&port->lid.at)) {
            (void)rg_find_unread(findings, port->subject, &port->lid.at);
            continue;
        }
        bool lost = port->sm_lid.value == 0 || port->lid.value == 0;
        struct rg_finding *finding = lost ? rg_find(findings, RG_VERDICT_FAIL, port->subject,
                                                    "No subnet manager has given this port a LID.")
                                          : rg_find(findings, RG_VERDICT_OK, port->subject,
                                                    "At LID %d.", (int)port->sm_lid.value);
        rg_find_value(finding, "sm_lid 0x%x, lid 0x%x", (unsigned)port->sm_lid.value,
                      (unsigned)port->lid.value);
        rg_find_where(finding, &port->sm_lid.at);
        if (lost) {
            rg_find_remedy(finding, "sminfo -C %s -P %u", device_of(facts, port)->name,
                           port->number);
            rg_remedy_install(finding, facts,
                              "opensm && systemctl enable --now opensm   # on one host, when no "
                              "switch runs one",
                              "opensm && systemctl enable --now opensm   # on one host, when no "
                              "switch runs one");
        }
    }
}

/* Device nodes of this user, and the devices behind them. */
struct behind {
    size_t nodes;
    const struct rg_node *elsewhere; /* its device is not in this network namespace; NULL */
    const struct rg_node *unknown;   /* what its device is could not be read; NULL */
};

static struct behind look_behind(const struct rg_host_devices *devices)
{
    struct behind found = {0};
    for (size_t i = 0; i < devices->node_count; i++) {
        const struct rg_node *node = &devices->nodes[i];
        if (strncmp(node->name, "uverbs", 6) != 0) {
            continue;
        }
        found.nodes++;
        if (!rg_reading_ok(&node->device.at)) {
            found.unknown = found.unknown ? found.unknown : node;
        } else if (!rg_host_rdma(devices, node->device.text)) {
            found.elsewhere = found.elsewhere ? found.elsewhere : node;
        }
    }
    return found;
}

static void mend_netns(struct rg_finding *finding, const struct rg_node *node)
{
    rg_find_remedy(finding,
                   "rdma dev set %s netns NAMESPACE   # where the device is now: give it to the "
                   "namespace that has its node; or:",
                   node ? node->device.text : "DEVICE");
    rg_find_remedy(finding, "rdma system set netns shared   # no namespace but the first may "
                            "exist then");
}

void judge_netns(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_text *mode = &facts->devices.ib_core_netns_mode;
    struct behind behind = look_behind(&facts->devices);
    size_t here = facts->devices.rdma_count;
    struct rg_finding *finding;
    if (here == 0 && behind.nodes == 0) {
        return;
    }
    if (!rg_reading_ok(&mode->at)) {
        (void)rg_find_unread(findings, "", &mode->at);
        return;
    }
    if (mode->text[0] == 'Y' || mode->text[0] == '1') {
        finding = rg_find(findings, RG_VERDICT_OK, "", "Shared.");
    } else if (behind.elsewhere) {
        finding = rg_find(findings, RG_VERDICT_WARN, "",
                          "Exclusive: %s, the device of the node %s, is not in this network "
                          "namespace.",
                          behind.elsewhere->device.text, behind.elsewhere->name);
    } else if (behind.nodes > here) {
        finding = rg_find(findings, RG_VERDICT_WARN, "",
                          "Exclusive: %zu device nodes, and %zu devices in this network namespace.",
                          behind.nodes, here);
    } else if (behind.unknown) {
        (void)rg_find_unread(findings, "", &behind.unknown->device.at);
        return;
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, "",
                          "Exclusive, and the devices are in this network namespace (%zu).", here);
    }
    rg_find_value(finding, "netns_mode %s, %zu uverbs nodes, %zu devices", mode->text, behind.nodes,
                  here);
    rg_find_where(finding, &mode->at);
    if (finding->verdict == RG_VERDICT_WARN) {
        mend_netns(finding, behind.elsewhere);
    }
}

/* ---- FW ---- */

#define ROCE_UDP_PORT 4791
#define LNET_TCP_PORT 988
#define WANTED_MAX    4

struct wanted_port {
    const char *what;
    bool is_tcp;
    uint16_t port;
    bool by_nodes; /* only nodes of the same cluster have to reach it */
};

static bool has_soft_roce(const struct rg_host_devices *devices)
{
    for (size_t i = 0; i < devices->rdma_count; i++) {
        if (devices->rdma[i].family == RG_NIC_RXE) {
            return true;
        }
    }
    return false;
}

static bool serves_gateway(const struct rg_host_facts *facts)
{
    return rg_host_has_gateway(facts) && facts->gateway.has_settings && facts->gateway.port > 0 &&
           facts->gateway.port <= UINT16_MAX;
}

static bool has_lnet_over_tcp(const struct rg_host_lnet *lnet)
{
    for (size_t i = 0; i < lnet->own.count; i++) {
        if (strncmp(lnet->own.nids[i].net, "tcp", 3) == 0) {
            return true;
        }
    }
    return false;
}

/* What a card's hardware receives never meets the host's filter, but soft-RoCE and TCP do. */
static size_t find_wanted(const struct rg_host_facts *facts, struct wanted_port wanted[WANTED_MAX])
{
    size_t count = 0;
    if (has_soft_roce(&facts->devices)) {
        wanted[count++] = (struct wanted_port){"soft-RoCE", false, ROCE_UDP_PORT, false};
    }
    if (serves_gateway(facts)) {
        wanted[count++] =
            (struct wanted_port){"the gateway", true, (uint16_t)facts->gateway.port, false};
    }
    if (has_lnet_over_tcp(&facts->lnet)) {
        wanted[count++] = (struct wanted_port){"LNet over TCP", true, LNET_TCP_PORT, false};
    }
    if (facts->aistor.is_here && facts->aistor.internode) {
        wanted[count++] =
            (struct wanted_port){"AIStor's peers", true, (uint16_t)facts->aistor.peer_port, true};
    }
    return count;
}

static void judge_port(const struct rg_host_facts *facts, const struct wanted_port *wanted,
                       struct rg_findings *findings)
{
    const struct rg_host_ports *ports = &facts->ports;
    const char *kind = wanted->is_tcp ? "tcp" : "udp";
    bool shut = rg_firewall_blocks(&ports->firewall, wanted->is_tcp, wanted->port);
    struct rg_finding *finding =
        rg_find(findings, shut ? RG_VERDICT_FAIL : RG_VERDICT_OK, wanted->what,
                shut ? "The firewall of this host does not let %s port %u in."
                     : "Nothing here shuts %s port %u.",
                kind, wanted->port);
    rg_find_value(finding, "input drops by default: %s; %zu rules with ports",
                  ports->firewall.drops ? "yes" : "no", ports->firewall.count);
    rg_find_where(finding, &ports->firewall_at);
    if (shut && wanted->by_nodes) {
        rg_remedy_let_nodes_in(finding, facts, wanted->port);
        return;
    }
    if (shut && facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "firewall-cmd --permanent --add-port=%u/%s && firewall-cmd --reload",
                       wanted->port, kind);
    }
    if (shut && facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "nft insert rule inet filter input %s dport %u accept   # and into "
                       "/etc/nftables.conf",
                       kind, wanted->port);
    }
}

void judge_fw(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_ports *ports = &facts->ports;
    struct wanted_port wanted[WANTED_MAX];
    size_t count = find_wanted(facts, wanted);
    if (count == 0) {
        return;
    }
    if (!rg_reading_ok(&ports->firewall_at)) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_SKIP, "", "%s",
                    ports->firewall_at.state == RG_READ_MISSING
                        ? "There is neither nft nor iptables-save to list the rules with."
                        : "The firewall's rules could not be listed (root could).");
        rg_find_where(finding, &ports->firewall_at);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        judge_port(facts, &wanted[i], findings);
    }
}
