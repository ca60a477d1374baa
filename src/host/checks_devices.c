/*
 * Judges of the group "devices" (checks_devices.tbl). Pure.
 */
#include "base/attr.h"
#include "host/check.h"
#include "host/facts.h"
#include "host/facts_access.h"
#include "host/filtered.h"
#include "host/remedy.h"
#include "host/text_remedy.h"

#include <errno.h>
#include <net/if_arp.h>
#include <string.h>

/* ---- DEV-PCI ---- */

static const char *rdma_driver(enum rg_nic_family family)
{
    static const char *const names[] = {
        [RG_NIC_OTHER] = "",       [RG_NIC_MLX5] = "mlx5_ib",     [RG_NIC_ICE] = "irdma",
        [RG_NIC_BNXT] = "bnxt_re", [RG_NIC_IONIC] = "ionic_rdma", [RG_NIC_EFA] = "efa",
        [RG_NIC_RXE] = "rdma_rxe",
    };
    return names[family];
}

static const char *base_driver(enum rg_nic_family family)
{
    static const char *const names[] = {
        [RG_NIC_OTHER] = "",       [RG_NIC_MLX5] = "mlx5_core", [RG_NIC_ICE] = "ice",
        [RG_NIC_BNXT] = "bnxt_en", [RG_NIC_IONIC] = "ionic",    [RG_NIC_EFA] = "efa",
        [RG_NIC_RXE] = "",
    };
    return names[family];
}

/* Another card works: this one may be meant for something else, such as management. Not so when it
 * is of the same kind as those that work, and its link is up. */
static bool is_spare(const struct rg_host_devices *devices, const struct rg_pci_function *function,
                     const struct rg_netdev *netdev)
{
    bool any = false;
    bool same = false;
    for (size_t i = 0; i < devices->rdma_count; i++) {
        enum rg_nic_family family = devices->rdma[i].family;
        any |= family != RG_NIC_RXE;
        same |= family == function->family;
    }
    bool is_up = netdev && netdev->carrier.value == 1;
    return any && !(same && is_up);
}

/* "1" of "0000:3b:00.1". */
static const char *function_number(const char *address)
{
    const char *dot = strrchr(address, '.');
    return dot && dot[1] ? dot + 1 : "0";
}

/* Taken from the kernel's own drivers on purpose: for a virtual machine, or a program that polls
 * it. */
static bool is_given_away(const char *driver)
{
    static const char *const names[] = {"uio_pci_generic", "igb_uio", "pci-stub", "pciback"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        if (strcmp(driver, names[i]) == 0) {
            return true;
        }
    }
    return strncmp(driver, "vfio", 4) == 0;
}

static void mend_rdma_driver(struct rg_finding *finding, const struct rg_host_facts *facts,
                             const struct rg_pci_function *function)
{
    const char *address = function->address;
    rg_find_remedy(finding, "modprobe %s", rdma_driver(function->family));
    switch (function->family) {
    case RG_NIC_MLX5:
        rg_find_remedy(finding, "devlink dev param show pci/%s name enable_rdma", address);
        rg_find_remedy(finding,
                       "devlink dev param set pci/%s name enable_rdma value true cmode "
                       "driverinit && devlink dev reload pci/%s",
                       address, address);
        break;
    case RG_NIC_ICE:
        rg_find_remedy(finding,
                       "devlink dev param set pci/%s name enable_roce value true cmode runtime",
                       address);
        if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
            rg_find_remedy(finding,
                           "dnf install kernel-modules-$(uname -r) kernel-modules-extra-$(uname "
                           "-r)   # when modprobe does not find irdma");
        }
        if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
            rg_find_remedy(finding,
                           "apt-get install linux-modules-extra-$(uname -r)   # Ubuntu, when "
                           "modprobe does not find irdma; Debian's kernel has it");
        }
        rg_find_remedy(finding, "dmesg | grep -E 'ice|irdma'   # safe mode (no DDP package) has no "
                                "RDMA");
        break;
    case RG_NIC_BNXT:
        rg_find_remedy(
            finding,
            "niccli --dev %s nvm --getoption support_rdma --scope %s   # Broadcom's tool: "
            "must be 1",
            address, function_number(address));
        rg_find_remedy(finding,
                       "niccli --dev %s nvm --setoption support_rdma --scope %s --value 1   # then "
                       "reboot",
                       address, function_number(address));
        break;
    case RG_NIC_IONIC:
        rg_find_remedy(finding,
                       "dmesg | grep ionic   # ionic_rdma needs Linux 6.18 or the vendor's "
                       "driver");
        break;
    default:
        break;
    }
}

static void judge_function(const struct rg_host_facts *facts,
                           const struct rg_pci_function *function, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    const struct rg_netdev *netdev = rg_host_netdev_of_pci(devices, function->address);
    const char *kind = rg_nic_family_name(function->family);
    if (function->driver.at.state == RG_READ_MISSING && function->is_virtual) {
        (void)rg_find(findings, RG_VERDICT_OK, function->address,
                      "This virtual function waits for a virtual machine.");
        return;
    }
    if (function->driver.at.state == RG_READ_MISSING) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, function->address,
                                             "No driver is bound to this %s function.", kind);
        rg_find_value(finding, "%04x:%04x, no driver", (unsigned)function->vendor.value,
                      (unsigned)function->device.value);
        rg_find_where(finding, &function->driver.at);
        rg_find_remedy(finding, "modprobe %s", base_driver(function->family));
        rg_find_remedy(finding, "dmesg | grep %s", function->address);
        return;
    }
    if (!rg_reading_ok(&function->driver.at)) {
        (void)rg_find_unread(findings, function->address, &function->driver.at);
        return;
    }
    if (is_given_away(function->driver.text)) {
        (void)rg_find(findings, RG_VERDICT_OK, function->address,
                      "This %s function is handed to a virtual machine or a program (%s).", kind,
                      function->driver.text);
        return;
    }
    const struct rg_rdma_device *device = rg_host_rdma_of_pci(devices, function->address);
    if (device) {
        struct rg_finding *finding = rg_find(
            findings, RG_VERDICT_OK, function->address, "%s, %s, %s%s%s.", kind,
            function->driver.text, device->name, netdev ? " on " : "", netdev ? netdev->name : "");
        rg_find_where(finding, &device->pci.at);
        return;
    }
    if (netdev && rg_reading_ok(&netdev->master.at)) {
        /* DEV-BOND tells what a bond does to it. */
        return;
    }
    bool spare = is_spare(devices, function, netdev);
    struct rg_finding *finding =
        rg_find(findings, spare ? RG_VERDICT_WARN : RG_VERDICT_FAIL, function->address,
                "This %s function (%s%s%s) has no RDMA device.", kind, function->driver.text,
                netdev ? ", interface " : "", netdev ? netdev->name : "");
    rg_find_value(finding, "driver %s, no entry in /sys/class/infiniband", function->driver.text);
    rg_find_where(finding, &function->driver.at);
    mend_rdma_driver(finding, facts, function);
}

void judge_dev_pci(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    if (!rg_reading_ok(&devices->pci_at)) {
        (void)rg_find_unread(findings, "", &devices->pci_at);
        return;
    }
    for (size_t i = 0; i < devices->pci_count; i++) {
        if (devices->pci[i].family != RG_NIC_OTHER) {
            judge_function(facts, &devices->pci[i], findings);
        }
    }
}

/* ---- DEV-RDMA ---- */

static void judge_no_device(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    bool has_card = false;
    for (size_t i = 0; i < devices->pci_count; i++) {
        has_card |= devices->pci[i].family != RG_NIC_OTHER;
    }
    struct rg_finding *finding = rg_find(
        findings, RG_VERDICT_FAIL, "", "This machine has no RDMA device%s.",
        has_card ? ", although it has a card that could be one" : ", nor a card that could be one");
    rg_find_value(finding, "%zu PCI functions, %zu interfaces, no RDMA device", devices->pci_count,
                  devices->netdev_count);
    rg_find_where(finding, &devices->rdma_at);
    if (has_card) {
        rg_find_remedy(finding, "railgate doctor explain DEV-PCI   # and see DEV-PCI and DEV-BOND");
    } else {
        rg_find_remedy(finding, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE "
                                "  # soft-RoCE: works without hardware, slowly");
    }
}

static const struct rg_rdma_device *sibling_that_differs(const struct rg_host_devices *devices,
                                                         const struct rg_rdma_device *device)
{
    for (size_t i = 0; i < devices->rdma_count; i++) {
        const struct rg_rdma_device *other = &devices->rdma[i];
        if (rg_host_same_board(devices, device, other) && rg_reading_ok(&other->firmware.at) &&
            rg_reading_ok(&device->firmware.at) &&
            strcmp(other->firmware.text, device->firmware.text) != 0) {
            return other;
        }
    }
    return NULL;
}

static void judge_changed_firmware(const struct rg_rdma_device *device, const char *then,
                                   struct rg_findings *findings)
{
    struct rg_finding *finding = rg_find(
        findings, RG_VERDICT_WARN, device->name,
        "The firmware is another than in the baseline: %s, then %s.", device->firmware.text, then);
    rg_find_value(finding, "%s", device->firmware.text);
    rg_find_where(finding, &device->firmware.at);
    rg_find_remedy(finding,
                   "# when the update was meant, write a new baseline: railgate doctor --json "
                   ">BASELINE");
    rg_find_remedy(finding, "devlink dev info pci/%s   # running and stored versions",
                   device->pci.text);
}

void judge_dev_rdma(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    if (devices->rdma_at.state == RG_READ_UNREADABLE) {
        (void)rg_find_unread(findings, "", &devices->rdma_at);
        return;
    }
    if (devices->rdma_count == 0 && !rg_reading_ok(&devices->netdevs_at) &&
        !rg_reading_ok(&devices->pci_at)) {
        /* Every kernel has these: sysfs itself is not there to be read. */
        (void)rg_find_unread(findings, "", &devices->netdevs_at);
        return;
    }
    if (devices->rdma_count == 0) {
        judge_no_device(facts, findings);
        return;
    }
    for (size_t i = 0; i < devices->rdma_count; i++) {
        const struct rg_rdma_device *device = &devices->rdma[i];
        const struct rg_rdma_device *other = sibling_that_differs(devices, device);
        const char *then = facts->counters.firmware_then[i];
        if (!other && then[0] && device->firmware.text[0] &&
            strcmp(then, device->firmware.text) != 0) {
            judge_changed_firmware(device, then, findings);
            continue;
        }
        struct rg_finding *finding =
            other ? rg_find(findings, RG_VERDICT_WARN, device->name,
                            "Firmware %s, but %s on the same kind of board has %s.",
                            device->firmware.text, other->name, other->firmware.text)
                  : rg_find(findings, RG_VERDICT_OK, device->name, "%s, firmware %s.",
                            rg_nic_family_name(device->family),
                            device->firmware.text[0] ? device->firmware.text : "not told");
        rg_find_value(finding, "%s %s", device->board.text, device->firmware.text);
        rg_find_where(finding, rg_reading_ok(&device->firmware.at) ? &device->firmware.at
                                                                   : &devices->rdma_at);
        if (other && device->family == RG_NIC_MLX5) {
            rg_find_remedy(finding, "mstflint -d %s query; mstflint -d %s -i FIRMWARE.bin burn",
                           device->pci.text, device->pci.text);
        } else if (other) {
            rg_find_remedy(finding,
                           "devlink dev flash pci/%s file FIRMWARE   # a file below /lib/firmware",
                           device->pci.text);
        }
    }
}

/* ---- DEV-PROTO ---- */

void judge_dev_proto(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    for (size_t i = 0; i < devices->rdma_count; i++) {
        const struct rg_rdma_device *device = &devices->rdma[i];
        if (!rg_reading_ok(&device->node_type.at)) {
            (void)rg_find_unread(findings, device->name, &device->node_type.at);
            continue;
        }
        /* "1: CA"; 4 is a NIC that speaks iWARP, 6 one with its own transport (EFA). */
        bool is_iwarp = device->node_type.text[0] == '4';
        struct rg_finding *finding =
            is_iwarp ? rg_find(findings, RG_VERDICT_FAIL, device->name,
                               "The device runs iWARP, which cannot talk to RoCEv2.")
                     : rg_find(findings, RG_VERDICT_OK, device->name, "Not iWARP.");
        rg_find_value(finding, "%s", device->node_type.text);
        rg_find_where(finding, &device->node_type.at);
        if (is_iwarp && device->family == RG_NIC_ICE) {
            rg_find_remedy(
                finding, "devlink dev param set pci/%s name enable_iwarp value false cmode runtime",
                device->pci.text);
            rg_find_remedy(finding,
                           "devlink dev param set pci/%s name enable_roce value true cmode runtime",
                           device->pci.text);
        } else if (is_iwarp) {
            rg_find_remedy(finding, "# this card needs a RoCE mode in its driver or firmware");
        }
    }
}

/* ---- DEV-BOND and DEV-IBBOND ---- */

static const struct rg_netdev *bond_of(const struct rg_host_devices *devices,
                                       const struct rg_netdev *netdev)
{
    const struct rg_netdev *master = rg_host_netdev(devices, netdev->master.text);
    return master && master->is_bond ? master : NULL;
}

static void judge_ice_slave(const struct rg_host_facts *facts, const struct rg_netdev *netdev,
                            const struct rg_netdev *bond, struct rg_findings *findings)
{
    const struct rg_rdma_device *device = rg_host_rdma_of_pci(&facts->devices, netdev->pci.text);
    if (device) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_OK, netdev->name,
                                             "In %s, and this driver has kept the RDMA device %s.",
                                             bond->name, device->name);
        rg_find_where(finding, &netdev->master.at);
        return;
    }
    struct rg_finding *finding = rg_find(
        findings, RG_VERDICT_FAIL, netdev->name,
        "This E810 port is in %s, and the ice driver has no RDMA on a port of a bond.", bond->name);
    rg_find_value(finding, "master %s (%s), no RDMA device", bond->name, bond->bond_mode.text);
    rg_find_where(finding, &netdev->master.at);
    rg_find_remedy(finding, "# use the ports one by one, each with an address in a subnet of its "
                            "own (multi-rail):");
    rg_find_remedy(finding, "ip link set %s nomaster && ip link set %s up", netdev->name,
                   netdev->name);
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "nmcli connection modify %s connection.master '' "
                       "connection.slave-type ''   # to keep it so",
                       netdev->name);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "# to keep it so: take %s out of the bond in "
                       "/etc/network/interfaces or /etc/netplan",
                       netdev->name);
    }
    rg_find_remedy(finding, "modprobe -r irdma && modprobe irdma; rdma link show");
}

static bool has_prefix(const struct rg_text *text, const char *prefix)
{
    return strncmp(text->text, prefix, strlen(prefix)) == 0;
}

/* How many ports of ConnectX are in the bond, and how many RDMA devices they have. RoCE LAG makes
 * one of all. */
static void count_lag(const struct rg_host_devices *devices, const struct rg_netdev *bond,
                      size_t *ret_ports, size_t *ret_devices)
{
    *ret_ports = *ret_devices = 0;
    for (size_t i = 0; i < devices->netdev_count; i++) {
        const struct rg_netdev *netdev = &devices->netdevs[i];
        if (netdev->family == RG_NIC_MLX5 && strcmp(netdev->master.text, bond->name) == 0) {
            (*ret_ports)++;
            *ret_devices += rg_host_rdma_of_pci(devices, netdev->pci.text) != NULL;
        }
    }
}

/* What keeps the ports of a bond from being one RDMA device; NULL when nothing does. */
static struct rg_finding *judge_lag(const struct rg_host_facts *facts,
                                    const struct rg_netdev *netdev, const struct rg_netdev *bond,
                                    struct rg_findings *findings)
{
    size_t ports, devices;
    count_lag(&facts->devices, bond, &ports, &devices);
    if (ports >= 2 && devices == 1) {
        return NULL;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_WARN, netdev->name,
                ports < 2 ? "It is the only ConnectX port in %s: there is no RoCE LAG with one."
                          : "The ports of %s have an RDMA device each: they have not become one "
                            "(RoCE LAG takes two ports of one card).",
                bond->name);
    rg_find_remedy(finding, "rdma link; dmesg | grep -iE 'mlx5.*lag'   # which ports, and why not");
    return finding;
}

/* 802.3ad without a partner: the switch does not aggregate, and one port carries all. */
static bool lacks_partner(const struct rg_netdev *bond)
{
    return has_prefix(&bond->bond_mode, "802.3ad") && rg_reading_ok(&bond->bond_partner.at) &&
           strcmp(bond->bond_partner.text, "00:00:00:00:00:00") == 0;
}

/* With ports in it a bond refuses another mode: it has to be made anew. */
static void mend_mode(struct rg_finding *finding, const struct rg_host_facts *facts,
                      const char *bond, const char *mode, const char *options)
{
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding,
                       "nmcli connection modify %s bond.options mode=%s,%s && nmcli connection "
                       "down %s && nmcli connection up %s",
                       bond, mode, options, bond, bond);
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       "# set bond-mode %s for %s in /etc/network/interfaces, then: ifdown %s && "
                       "ifup %s",
                       mode, bond, bond, bond);
    }
}

static void judge_mlx5_slave(const struct rg_host_facts *facts, const struct rg_netdev *netdev,
                             const struct rg_netdev *bond, struct rg_findings *findings)
{
    bool can_lag = has_prefix(&bond->bond_mode, "802.3ad") ||
                   has_prefix(&bond->bond_mode, "active-backup") ||
                   has_prefix(&bond->bond_mode, "balance-xor");
    bool spreads =
        has_prefix(&bond->bond_mode, "active-backup") || has_prefix(&bond->bond_hash, "layer3+4");
    size_t ports, devices;
    struct rg_finding *finding;
    count_lag(&facts->devices, bond, &ports, &devices);
    if (devices == 0) {
        finding = rg_find(findings, RG_VERDICT_FAIL, netdev->name,
                          "In %s, and no port of that bond has an RDMA device.", bond->name);
        rg_find_remedy(finding, "modprobe mlx5_ib; rdma link");
        rg_find_remedy(finding, "dmesg | grep -iE 'mlx5.*lag'   # why there is none");
    } else if (!can_lag) {
        finding = rg_find(findings, RG_VERDICT_WARN, netdev->name,
                          "Bond %s has a mode in which ConnectX has no RoCE LAG.", bond->name);
        mend_mode(finding, facts, bond->name, "802.3ad", "miimon=100,xmit_hash_policy=layer3+4");
    } else if (!spreads) {
        finding =
            rg_find(findings, RG_VERDICT_WARN, netdev->name,
                    "Bond %s does not hash on ports: RoCE then uses one link only.", bond->name);
        rg_find_remedy(finding, "echo layer3+4 >/sys/class/net/%s/bonding/xmit_hash_policy",
                       bond->name);
    } else if (lacks_partner(bond)) {
        finding = rg_find(findings, RG_VERDICT_WARN, netdev->name,
                          "Bond %s has no LACP partner: the switch does not aggregate its ports.",
                          bond->name);
        rg_find_remedy(finding,
                       "cat /proc/net/bonding/%s   # then LACP on the switch's ports, as one "
                       "aggregate",
                       bond->name);
    } else {
        finding = judge_lag(facts, netdev, bond, findings);
        if (!finding) {
            finding =
                rg_find(findings, RG_VERDICT_OK, netdev->name, "RoCE LAG over %s.", bond->name);
        }
    }
    rg_find_value(finding, "mode %s, hash %s, partner %s", bond->bond_mode.text,
                  bond->bond_hash.text,
                  rg_reading_ok(&bond->bond_partner.at) ? bond->bond_partner.text : "-");
    rg_find_where(finding, &bond->bond_mode.at);
}

void judge_dev_bond(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    for (size_t i = 0; i < devices->netdev_count; i++) {
        const struct rg_netdev *netdev = &devices->netdevs[i];
        const struct rg_netdev *bond = bond_of(devices, netdev);
        bool is_mlx5 = netdev->family == RG_NIC_MLX5 && netdev->type.value != ARPHRD_INFINIBAND;
        if (!bond || (netdev->family != RG_NIC_ICE && !is_mlx5)) {
            continue;
        }
        if (devices->rdma_at.state == RG_READ_UNREADABLE) {
            (void)rg_find_unread(findings, netdev->name, &devices->rdma_at);
        } else if (!is_mlx5) {
            judge_ice_slave(facts, netdev, bond, findings);
        } else if (!rg_reading_ok(&bond->bond_mode.at)) {
            (void)rg_find_unread(findings, netdev->name, &bond->bond_mode.at);
        } else {
            judge_mlx5_slave(facts, netdev, bond, findings);
        }
    }
}

void judge_dev_ibbond(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    for (size_t i = 0; i < devices->netdev_count; i++) {
        const struct rg_netdev *netdev = &devices->netdevs[i];
        const struct rg_netdev *bond = bond_of(devices, netdev);
        if (!bond || netdev->type.value != ARPHRD_INFINIBAND) {
            continue;
        }
        if (!rg_reading_ok(&bond->bond_mode.at)) {
            (void)rg_find_unread(findings, netdev->name, &bond->bond_mode.at);
            continue;
        }
        bool right = has_prefix(&bond->bond_mode, "active-backup");
        struct rg_finding *finding =
            right
                ? rg_find(findings, RG_VERDICT_OK, netdev->name, "%s is active-backup.", bond->name)
                : rg_find(findings, RG_VERDICT_FAIL, netdev->name,
                          "IPoIB is in %s, which is not active-backup.", bond->name);
        rg_find_value(finding, "%s", bond->bond_mode.text);
        rg_find_where(finding, &bond->bond_mode.at);
        if (!right) {
            mend_mode(finding, facts, bond->name, "active-backup", "miimon=100");
        }
    }
}

/* ---- KMOD ---- */

static bool has_infiniband(const struct rg_host_facts *facts)
{
    for (size_t i = 0; i < facts->devices.netdev_count; i++) {
        if (facts->devices.netdevs[i].type.value == ARPHRD_INFINIBAND) {
            return true;
        }
    }
    for (size_t i = 0; i < facts->ports.count; i++) {
        if (strcmp(facts->ports.list[i].link_layer.text, "InfiniBand") == 0) {
            return true;
        }
    }
    return false;
}

static void judge_module(const struct rg_host_facts *facts, const char *name, enum rg_verdict lack,
                         const char *use, struct rg_findings *findings)
{
    bool loaded = rg_host_module_loaded(&facts->devices, name);
    struct rg_finding *finding = loaded ? rg_find(findings, RG_VERDICT_OK, name, "Loaded.")
                                        : rg_find(findings, lack, name, "Not loaded: %s.", use);
    rg_find_value(finding, "%s, of %zu modules", loaded ? "loaded" : "not loaded",
                  facts->devices.module_count);
    rg_find_where(finding, &facts->devices.modules_at);
    if (!loaded) {
        rg_remedy_load(finding, name);
        rg_remedy_install(finding, facts, "rdma-core   # its rules load it at every boot",
                          "rdma-core   # its rules load it at every boot");
    }
}

void judge_kmod(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    if (!rg_reading_ok(&devices->modules_at)) {
        (void)rg_find_unread(findings, "", &devices->modules_at);
        return;
    }
    if (devices->rdma_count == 0) {
        return;
    }
    /* Lustre is in the kernel: it needs no node that a program opens. */
    if (!(RG_FOR_LUSTRE & 1u << facts->plan.profile)) {
        judge_module(facts, "ib_uverbs", RG_VERDICT_FAIL, "no program can open an RDMA device",
                     findings);
        judge_module(facts, "rdma_ucm", RG_VERDICT_FAIL, "librdmacm cannot connect", findings);
    }
    if (has_infiniband(facts)) {
        judge_module(facts, "ib_umad", RG_VERDICT_WARN,
                     "ibstat, perfquery and the like cannot work", findings);
        judge_module(facts, "ib_ipoib", RG_VERDICT_WARN, "there is no IP over InfiniBand",
                     findings);
    }
}

/* ---- KMOD-SRC ---- */

static bool uses(const struct rg_module *provider, const char *user)
{
    struct span rest = rg_span_text(provider->users);
    while (rest.ptr) {
        if (rg_span_is(rg_span_cut(&rest, ','), user)) {
            return true;
        }
    }
    return false;
}

/* Below kernel/ are the distribution's own; updates/, extra/, weak-updates/ came from elsewhere. */
static bool is_own(const char *path)
{
    return strncmp(path, "kernel/", strlen("kernel/")) == 0;
}

/* LNet's driver calls ib_core: both have to be of one make, or its symbols do not fit. */
static struct rg_finding *judge_o2iblnd(const struct rg_host_facts *facts,
                                        struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    const struct rg_module *compat = rg_host_module(devices, "mlx_compat");
    const char *core = devices->ib_core_path, *lnd = devices->o2iblnd_path;
    bool for_ofed = devices->o2iblnd_needs_ofed || (compat && uses(compat, "ko2iblnd"));
    bool own_on_ofed = !is_own(core) && is_own(lnd);
    bool ofed_on_own = is_own(core) && for_ofed;
    if (!core[0] || !lnd[0] || (!own_on_ofed && !ofed_on_own)) {
        return NULL;
    }
    struct rg_finding *finding = rg_find(
        findings, RG_VERDICT_WARN, "ko2iblnd", "%s",
        own_on_ofed ? "ib_core comes from OFED, and ko2iblnd was built for the kernel's own."
                    : "ko2iblnd was built for OFED, and ib_core is the kernel's own.");
    rg_find_value(finding, "%s, %s", core, lnd);
    rg_find_where(finding, &devices->modules_dep);
    rg_find_remedy(finding, "modinfo -n ib_core ko2iblnd; dmesg | grep ko2iblnd");
    rg_find_remedy(finding, "# build Lustre for the ib_core that is loaded: ./configure "
                            "--with-o2ib=/usr/src/ofa_kernel/default (OFED) or --with-o2ib=yes");
    return finding;
}

void judge_kmod_src(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    static const char *const parts[] = {"ib_core", "ib_uverbs", "rdma_cm", "mlx5_core", "mlx5_ib"};
    const struct rg_host_devices *devices = &facts->devices;
    const struct rg_module *compat = rg_host_module(devices, "mlx_compat");
    if (!rg_reading_ok(&devices->modules_at)) {
        (void)rg_find_unread(findings, "", &devices->modules_at);
        return;
    }
    if (devices->rdma_count == 0) {
        return;
    }
    struct rg_finding *finding = judge_o2iblnd(facts, findings);
    for (size_t i = 0; compat && i < RG_ARRAY_LENGTH(parts); i++) {
        if (!rg_host_module_loaded(devices, parts[i]) || uses(compat, parts[i])) {
            continue;
        }
        finding = rg_find(findings, RG_VERDICT_WARN, parts[i],
                          "OFED is installed (mlx_compat), but this module is the kernel's own.");
        rg_find_value(finding, "mlx_compat is used by %s", compat->users);
        rg_find_where(finding, &devices->modules_at);
        rg_find_remedy(finding, "modinfo -n %s   # must be below updates/, extra/ or weak-updates/",
                       parts[i]);
        rg_find_remedy(finding, "/etc/init.d/openibd restart   # stops all RDMA while it runs");
        rg_find_remedy(finding, facts->system.distribution == RG_DISTRIBUTION_DEBIAN
                                    ? "update-initramfs -u   # an old module may be in the initrd"
                                    : "dracut -f   # an old module may be in the initrd");
    }
    if (!finding) {
        finding = rg_find(findings, RG_VERDICT_OK, "",
                          compat ? "All from OFED." : "All the kernel's own.");
        rg_find_value(finding, "mlx_compat %s", compat ? "is loaded" : "is not loaded");
        rg_find_where(finding, &devices->modules_at);
    }
}

/* ---- KMOD-FILE ---- */

static void judge_other_file(const struct rg_host_facts *facts, const struct rg_module_file *file,
                             struct rg_findings *findings)
{
    bool debian = facts->system.distribution == RG_DISTRIBUTION_DEBIAN;
    bool ofed = strcmp(file->name, "mlx_compat") == 0 ||
                (rg_host_module_loaded(&facts->devices, "mlx_compat") &&
                 (strncmp(file->name, "ib_", 3) == 0 || strncmp(file->name, "mlx", 3) == 0 ||
                  strncmp(file->name, "rdma_", 5) == 0));
    struct rg_finding *finding = rg_find(findings, RG_VERDICT_WARN, file->name,
                                         "The module that is loaded is not the one on disk.");
    rg_find_value(finding, "loaded %s; %s has %s", file->loaded.text, file->info.path,
                  file->info.srcversion);
    rg_find_where_text(finding, "%s, modinfo %s", file->loaded.at.path, file->name);
    rg_find_remedy(finding,
                   debian
                       ? "modinfo -n %s; lsinitramfs /boot/initrd.img-$(uname -r) | grep %s.ko   # "
                         "the initrd may hold another"
                       : "modinfo -n %s; lsinitrd | grep %s.ko   # the initrd may hold another",
                   file->name, file->name);
    rg_find_remedy(finding, debian ? "depmod -a && update-initramfs -u" : "depmod -a && dracut -f");
    if (ofed) {
        rg_find_remedy(finding, "/etc/init.d/openibd restart   # stops all RDMA while it runs");
    }
    rg_find_remedy(finding, "reboot   # when it suits");
}

void judge_kmod_file(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    size_t same = 0, unknown = 0;
    const struct rg_reading *why = NULL;
    for (size_t i = 0; i < devices->file_count; i++) {
        const struct rg_module_file *file = &devices->files[i];
        if (!rg_reading_ok(&file->loaded.at) || !rg_reading_ok(&file->info_at)) {
            why = !rg_reading_ok(&file->loaded.at) ? &file->loaded.at : &file->info_at;
            unknown++;
        } else if (strcmp(file->loaded.text, file->info.srcversion) != 0) {
            judge_other_file(facts, file, findings);
        } else {
            same++;
        }
    }
    if (same) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, "", "%zu loaded modules are those on disk.", same);
        rg_find_where_text(finding, "/sys/module/*/srcversion, modinfo");
    }
    if (unknown) {
        struct rg_finding *finding = rg_find_unread(findings, "", why);
        rg_find_value(finding, "%zu loaded modules whose file is not known", unknown);
    }
}

/* ---- KMOD-LUSTRE ---- */

void judge_kmod_lustre(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    bool wanted = (RG_FOR_LUSTRE & 1u << facts->plan.profile) != 0 || devices->has_lustre ||
                  rg_host_module_loaded(devices, "lustre");
    if (!wanted) {
        return;
    }
    if (!rg_reading_ok(&devices->modules_dep)) {
        (void)rg_find_unread(findings, "", &devices->modules_dep);
        return;
    }
    const char *running = facts->system.kernel.text;
    bool now = devices->has_lustre || rg_host_module_loaded(devices, "lustre");
    struct rg_finding *finding;
    if (!now) {
        finding = rg_find(findings, RG_VERDICT_FAIL, running,
                          "The running kernel has no Lustre modules.");
    } else if (devices->next_kernel[0] && rg_reading_ok(&devices->next_modules_dep) &&
               !devices->next_has_lustre) {
        finding = rg_find(findings, RG_VERDICT_WARN, devices->next_kernel,
                          "The kernel of the next boot has no Lustre modules.");
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, running, "Lustre modules are installed.");
    }
    rg_find_value(finding, "running %s: %s; next %s: %s", running, now ? "has them" : "has none",
                  devices->next_kernel[0] ? devices->next_kernel : "not known",
                  !devices->next_kernel[0]   ? "not known"
                  : devices->next_has_lustre ? "has them"
                                             : "has none");
    rg_find_where(finding, now && devices->next_kernel[0] ? &devices->next_modules_dep
                                                          : &devices->modules_dep);
    if (finding->verdict == RG_VERDICT_OK) {
        return;
    }
    bool serves =
        facts->plan.profile == RG_PROFILE_LUSTRE_SERVER || rg_host_is_lustre_server(facts);
    if (facts->system.distribution != RG_DISTRIBUTION_DEBIAN) {
        rg_find_remedy(finding, serves
                                    ? "dnf install kmod-lustre   # built for that kernel, with "
                                      "kmod-lustre-osd-ldiskfs or kmod-lustre-osd-zfs"
                                    : "dnf install kmod-lustre-client   # built for that kernel, "
                                      "or lustre-client-dkms");
        rg_find_remedy(finding, "grubby --set-default /boot/vmlinuz-KERNEL_WITH_LUSTRE   # or boot "
                                "the older kernel");
    }
    if (facts->system.distribution != RG_DISTRIBUTION_RHEL) {
        rg_find_remedy(finding,
                       serves
                           ? "apt-get install lustre-server-modules-dkms && dkms autoinstall -k %s"
                           : "apt-get install lustre-client-modules-dkms && dkms autoinstall -k %s",
                       now ? devices->next_kernel : running);
    }
}

/* ---- UVERBS ---- */

static void mend_provider(struct rg_finding *finding, const struct rg_host_facts *facts)
{
    rg_remedy_install(finding, facts, "libibverbs rdma-core", "ibverbs-providers rdma-core");
    rg_find_remedy(finding, "ibv_devices   # must list it then");
}

static void judge_opening(const struct rg_host_facts *facts, const struct rg_rdma_device *device,
                          struct rg_findings *findings)
{
    struct rg_finding *finding;
    if (!device->surveyed) {
        finding =
            rg_find(findings, RG_VERDICT_FAIL, device->name,
                    "The kernel has this device, but libibverbs does not list it: its node is "
                    "missing or there is no userspace driver for it.");
        rg_find_value(finding, "in /sys/class/infiniband, not in ibv_get_device_list");
        mend_provider(finding, facts);
        rg_find_remedy(finding, "# in a container: docker run --device=/dev/infiniband "
                                "--cap-add=IPC_LOCK …; on Kubernetes an RDMA device plugin");
    } else if (device->open_errno) {
        finding = rg_find(findings, RG_VERDICT_FAIL, device->name, "It cannot be opened: %s.",
                          strerror(device->open_errno));
        rg_find_value(finding, "errno %d", device->open_errno);
        rg_find_remedy(finding, "chmod 0666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm   # "
                                "rdma-core's udev rules do this at boot");
        rg_find_remedy(finding, "udevadm trigger --subsystem-match=infiniband_verbs");
    } else {
        finding = rg_find(findings, RG_VERDICT_OK, device->name, "It can be opened by this user.");
    }
    rg_find_where(finding, &facts->devices.survey_at);
}

static void judge_node(const struct rg_host_facts *facts, const struct rg_node *node,
                       struct rg_findings *findings)
{
    if (node->os_errno == 0) {
        return;
    }
    struct rg_finding *finding =
        rg_find(findings, RG_VERDICT_FAIL, node->name, "/dev/infiniband/%s cannot be opened: %s.",
                node->name, strerror(node->os_errno));
    rg_find_value(finding, "errno %d", node->os_errno);
    rg_find_where(finding, &facts->devices.nodes_at);
    if (node->os_errno == EPERM) {
        rg_find_remedy(finding,
                       "# the device cgroup forbids it: pass the node into the container "
                       "with --device=/dev/infiniband/%s",
                       node->name);
        return;
    }
    rg_find_remedy(finding, "chmod 0666 /dev/infiniband/%s", node->name);
    rg_find_remedy(finding, "udevadm trigger   # rdma-core's rules set the mode at boot");
}

/* The group of uverbs nodes has that name in /proc/devices; rdma_cm is one of many "misc". */
#define ALLOW_NODES                                                                                \
    "PrivateDevices=no\\nDeviceAllow=char-infiniband_verbs rw\\n"                                  \
    "DeviceAllow=/dev/infiniband/rdma_cm rw"

/* What the unit forbids, it forbids root too. True when it forbids something. */
static bool judge_service_devices(const struct rg_host_facts *facts,
                                  const struct rg_host_service *service,
                                  struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    const struct rg_unit *unit = &service->parsed;
    bool forbids = false;
    if (!rg_reading_ok(&service->unit_at) || !rg_unit_limits_devices(unit)) {
        return false;
    }
    for (size_t i = 0; i < memory->mode_count; i++) {
        char path[80];
        snprintf(path, sizeof path, "/dev/infiniband/%.63s", memory->modes[i].name);
        enum rg_device_answer answer =
            rg_unit_device(unit, &memory->char_devices, path, memory->modes[i].major);
        if (answer == RG_DEVICE_ALLOWED) {
            continue;
        }
        bool is_known = answer != RG_DEVICE_UNKNOWN;
        forbids |= is_known;
        struct rg_finding *finding = rg_find(
            findings, is_known ? RG_VERDICT_FAIL : RG_VERDICT_SKIP, service->unit,
            answer == RG_DEVICE_HIDDEN ? "Its unit hides %s from it."
            : is_known
                ? "Its unit forbids it to open %s, whoever its user is."
                : "Whether its unit lets it open %s cannot be told: DeviceAllow= names it in "
                  "a way that is not understood here.",
            path);
        rg_find_value(finding, "PrivateDevices=%s DevicePolicy=%s, %zu DeviceAllow=",
                      unit->private_devices ? "yes" : "no",
                      unit->device_policy == RG_UNIT_DEVICES_AUTO     ? "auto"
                      : unit->device_policy == RG_UNIT_DEVICES_CLOSED ? "closed"
                                                                      : "strict",
                      unit->device_count);
        rg_find_where(finding, &service->unit_at);
        if (is_known) {
            rg_remedy_unit(finding, service->unit, ALLOW_NODES);
        } else {
            rg_find_remedy(finding, "systemctl show -p DevicePolicy -p DeviceAllow %s",
                           service->unit);
        }
    }
    return forbids;
}

/* A shell that can open the nodes proves nothing about the service. */
static void judge_service_user(const struct rg_host_facts *facts,
                               const struct rg_host_service *service, struct rg_findings *findings)
{
    const struct rg_host_memory *memory = &facts->memory;
    size_t shut = 0;
    const char *user = service->parsed.dynamic_user ? "a dynamic one"
                       : service->parsed.user[0]    ? service->parsed.user
                                                    : "root";
    if (service->unit_at.state == RG_READ_UNREADABLE && !rg_reading_is_absent(&service->unit_at)) {
        (void)rg_find_unread(findings, service->unit, &service->unit_at);
        return;
    }
    if (!rg_reading_ok(&service->unit_at) || service->user_at.state == RG_READ_NOT_ASKED) {
        return; /* not installed, or root, whom modes do not stop */
    }
    if (!rg_reading_ok(&service->user_at)) {
        struct rg_finding *finding = rg_find_unread(findings, service->unit, &service->user_at);
        rg_find_value(finding, "User=%s Group=%s SupplementaryGroups=%s", service->parsed.user,
                      service->parsed.group, service->parsed.groups);
        return;
    }
    if (!rg_reading_ok(&memory->modes_at)) {
        if (facts->devices.rdma_count || memory->modes_at.state != RG_READ_MISSING) {
            (void)rg_find_unread(findings, service->unit, &memory->modes_at);
        }
        return;
    }
    for (size_t i = 0; i < memory->mode_count; i++) {
        const struct rg_host_mode *node = &memory->modes[i];
        if (rg_host_service_may_open(service, node)) {
            continue;
        }
        shut++;
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_FAIL, service->unit,
                    "Its user %s may not open /dev/infiniband/%s.", user, node->name);
        RG_BUF(value, 1024);
        rg_buf_addf(&value, "mode %04o%s, owner %u, group %u; the user is ", node->mode,
                    node->list_count ? " and an access list" : "", node->uid, node->gid);
        if (service->uid == UINT32_MAX) {
            rg_buf_add_text(&value, "a dynamic one, groups");
        } else {
            rg_buf_addf(&value, "%u, groups", service->uid);
        }
        for (size_t k = 0; k < service->gid_count; k++) {
            rg_buf_addf(&value, " %u", service->gids[k]);
        }
        rg_find_value(finding, "%s, by %s", rg_buf_text(&value), service->user_at.path);
        rg_find_where(finding, &memory->modes_at);
        rg_find_remedy(finding, "chmod 0666 /dev/infiniband/%s   # as rdma-core's udev rules do",
                       node->name);
        if (node->gid != 0 && (node->mode & 0060) == 0060 && node->list_count == 0) {
            char assignment[64];
            snprintf(assignment, sizeof assignment, "SupplementaryGroups=%u", node->gid);
            rg_find_remedy(finding, "# or put the service into the group of the node:");
            rg_remedy_unit(finding, service->unit, assignment);
        } else {
            rg_remedy_install(finding, facts, "rdma-core   # its rules set the mode at every boot",
                              "rdma-core   # its rules set the mode at every boot");
        }
    }
    if (memory->mode_count && shut == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, service->unit,
                    service->overrides ? "Its user %s may open the nodes: it has CAP_DAC_OVERRIDE."
                                       : "Its user %s may open the nodes.",
                    user);
        rg_find_where(finding, &memory->modes_at);
    }
}

void judge_uverbs(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    for (size_t i = 0; i < facts->memory.service_count; i++) {
        const struct rg_host_service *service = &facts->memory.services[i];
        if (!judge_service_devices(facts, service, findings)) {
            judge_service_user(facts, service, findings);
        }
    }
    for (size_t i = 0; i < devices->node_count; i++) {
        judge_node(facts, &devices->nodes[i], findings);
    }
    if (devices->rdma_count == 0) {
        return;
    }
    if (!rg_reading_ok(&devices->survey_at)) {
        struct rg_finding *finding = rg_find_unread(findings, "", &devices->survey_at);
        if (devices->survey_at.os_errno == ETIMEDOUT) {
            finding->verdict = RG_VERDICT_FAIL;
            rg_find_remedy(finding, "dmesg | tail -50   # opening the devices hangs in the kernel");
        }
        return;
    }
    if (devices->libibverbs[0]) {
        /* LIBDEP tells. */
        return;
    }
    for (size_t i = 0; i < devices->rdma_count; i++) {
        judge_opening(facts, &devices->rdma[i], findings);
    }
}

/* ---- LIBDEP ---- */

static void judge_library(const struct rg_host_facts *facts, const char *name, const char *words,
                          const char *rhel, const char *debian, struct rg_findings *findings)
{
    struct rg_finding *finding =
        words[0] ? rg_find(findings, RG_VERDICT_FAIL, name, "It cannot be loaded: %s.", words)
                 : rg_find(findings, RG_VERDICT_OK, name, "It loads.");
    rg_find_value(finding, "%s", words[0] ? words : "loaded");
    rg_find_where_text(finding, "dlopen(\"%s\")", name);
    if (words[0]) {
        rg_remedy_install(finding, facts, rhel, debian);
        rg_find_remedy(finding, "ldconfig && ldconfig -p | grep %s", name);
    }
}

static void judge_program(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_program *program = &facts->devices.program;
    const char *path = facts->plan.binary;
    if (!rg_reading_ok(&program->at)) {
        (void)rg_find_unread(findings, path, &program->at);
        return;
    }
    for (size_t i = 0; i < program->missing_count; i++) {
        struct rg_finding *finding = rg_find(findings, RG_VERDICT_FAIL, program->missing[i],
                                             "%s needs this library, and it is not found.", path);
        rg_find_value(finding, "%zu libraries needed, run path %s", program->elf.count,
                      program->elf.run_path[0] ? program->elf.run_path : "-");
        rg_find_where_text(finding, "DT_NEEDED of %s", path);
        rg_find_remedy(finding,
                       facts->system.distribution == RG_DISTRIBUTION_DEBIAN
                           ? "apt-file search %s   # then apt-get install that package"
                           : "dnf provides '*/%s'   # then dnf install that package",
                       program->missing[i]);
        rg_find_remedy(finding, "ldconfig -p | grep %s", program->missing[i]);
    }
    if (program->missing_count == 0) {
        struct rg_finding *finding =
            rg_find(findings, RG_VERDICT_OK, path, "All %zu libraries it needs are there.",
                    program->elf.count);
        rg_find_where_text(finding, "DT_NEEDED of %s", path);
    }
}

void judge_libdep(const struct rg_host_facts *facts, struct rg_findings *findings)
{
    const struct rg_host_devices *devices = &facts->devices;
    if (facts->plan.binary[0]) {
        judge_program(facts, findings);
    }
    if (!rg_reading_ok(&devices->survey_at)) {
        (void)rg_find_unread(findings, "", &devices->survey_at);
        return;
    }
    judge_library(facts, "libibverbs.so.1", devices->libibverbs, "libibverbs",
                  "libibverbs1 ibverbs-providers", findings);
    judge_library(facts, "librdmacm.so.1", devices->librdmacm, "librdmacm", "librdmacm1", findings);
}
