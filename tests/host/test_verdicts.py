"""Verdicts that a person who runs such hosts would not take for wrong: what is not known is neither
well nor bad, what is usual is no warning, and each role is judged for what it uses."""

import json
import re

import pytest

import forest
import test_machine
import test_storage
from forest import NIC, PCI, limits, listening, mutate, status
from test_machine import judge_machine

BOND = ["[/sys/class/net/bond0]", "type = 1", "ifindex = 9", "mtu = 9000", "carrier = 1", "flags = 0x1403",
        "bonding/xmit_hash_policy = layer3+4 1", "/sys/class/net/{}/master -> /sys/class/net/bond0"]


def bond(netdev, mode):
    return [x.format(netdev) for x in BOND] + ["/sys/class/net/bond0/bonding/mode " + mode]


# ---- What cannot be read is skipped, with the reason ----

UNREADABLE = [
    ("cx-ib", "DEV-IBBOND", bond("ib0", "!EACCES")),
    ("cx-roce", "DEV-BOND", bond("ens1f0np0", "!EACCES")),
    ("cx-ib", "ADDR", ['/.railgate/netlink/addresses.json = [{"netdev": "ib0", "address": "10.20.0.5", "prefix": 24}, '
                       '{"netdev": "ib1", "address": "10.20.0.6", "prefix": 24}]',
                       "/proc/sys/net/ipv4/conf/ib0/arp_ignore !EACCES",
                       "/proc/sys/net/ipv4/conf/ib1/rp_filter !EACCES"]),
    ("cx-roce", "NEIGH", ["/proc/net/stat/arp_cache !EACCES"]),
    ("cx-roce", "NEIGH", ["/proc/net/stat/arp_cache = entries\\nxyz"]),
    ("cx-roce", "NEIGH", ["/proc/net/stat/arp_cache = entries table_fulls\\n00000001"]),
    ("cx-roce", "NEIGH", ["/proc/net/stat/arp_cache = entries table_fulls"]),
    ("e810", "ICE-TC", ["/.railgate/netlink/dcb/ens2f0.json !EIO", "/.railgate/netlink/dcb/ens2f1.json !EIO"]),
    ("broadcom", "GPAUSE", ["/.railgate/netlink/dcb/enp59s0f0np0.json !EIO",
                            "/.railgate/netlink/dcb/enp59s0f1np1.json !EIO"]
     + ['/.railgate/ioctl/ethtool/enp59s0f%d.json = {"pause": {"rx": true, "tx": true}, "flags": {}}'.replace("%d", x)
        for x in ("0np0", "1np1")]),
]


@pytest.mark.parametrize("machine, check, changes", UNREADABLE, ids=[f"{u[1]}-{i}" for i, u in enumerate(UNREADABLE)])
def test_unreadable_is_skipped(tmp_path, machine, check, changes):
    report = judge_machine(tmp_path, machine, changes)
    assert forest.verdicts(report)[check] == "skip", forest.findings(report, check)
    assert all(f.get("where") for f in forest.findings(report, check)), forest.findings(report, check)


def denied(*paths):
    return {**{p: None for p in paths}, "/.railgate/errors": "".join(f"13 {p}\n" for p in paths)}


THP = "/sys/kernel/mm/transparent_hugepage/enabled"
EARLY, LATE = "/etc/default/minio", "/etc/minio/config.env"

HIDDEN = [
    ("client", "LN-CFG", denied("/etc/lnet.conf")),
    ("client", "LN-CFG", denied("/etc/modprobe.d")),
    ("client", "LN-CFG", {**denied("/etc/modprobe.d/b.conf"), "/etc/modprobe.d/b.conf": ""}),
    ("client", "LN-CONF-IF", denied("/etc/lnet.conf")),
    ("client", "LN-SVC", denied("/etc/lnet.conf")),
    ("client", "LN-SPELL", denied("/etc/rc.d/rc.local")),
    ("service", "HUGE", denied(THP)),
    ("service", "MEMLOCK", {"/proc/4242/limits": "nothing of the kind"}),
    ("service", "NUMA", {f"{PCI}/{NIC}/numa_node": "-1", **denied("/sys/devices/system/node/online")}),
    ("aistor", "AI-ENV", denied(LATE)),
    ("aistor", "AI-POOL", denied(EARLY)),
    ("aistor", "AI-PORT", {**denied(EARLY), "/proc/net/tcp": listening(9000)}),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    return {"client": (test_storage.lustre_client(), test_storage.CLIENT),
            "server": (test_storage.lustre_server(), test_storage.SERVER),
            "gateway": (test_storage.gateway(), test_storage.GATEWAY),
            "service": (test_machine.service_host(), ["--unit", "app", "--memory", "16G"]),
            "gpu": (test_machine.gpu_host(), ["--for", "gpu-client"]),
            "container": (test_machine.container(), []),
            "aistor": (test_storage.aistor_node(tmp_path_factory), test_storage.AISTOR)}


@pytest.mark.parametrize("host, check, changes", HIDDEN, ids=[f"{h[1]}-{i}" for i, h in enumerate(HIDDEN)])
def test_hidden_is_skipped(tmp_path, hosts, host, check, changes):
    tree, options = hosts[host]
    report = forest.judge(mutate(tree, changes), tmp_path, *options)
    assert forest.verdicts(report)[check] == "skip", forest.findings(report, check)
    assert all(f.get("where") for f in forest.findings(report, check)), forest.findings(report, check)


# ---- What is usual, and what is another's ----

WELL = [
    # Two file systems with one target each: there is nothing to spread over.
    ("client", "LAYOUT", {"/.railgate/lustre/layout-lmcfs": test_storage.layout(1), "/.railgate/lustre/space":
                          "lmcfs-OST0000 1000000 900000\nscratch-OST0000 1000000 900000\n"}),
    # lnet.conf has credits of its own: the module's option does not hold for that interface.
    ("client", "LN-TUN", {"/.railgate/lnet/net": test_storage.net_show(credits=32), "/etc/lnet.conf":
                          test_storage.CONF + "          tunables:\n              peer_credits: 32\n"}),
    ("client", "LN-IP", {"/.railgate/lnet/net": test_storage.net_show().replace("@o2ib", "@kfi")
                         .replace("type: o2ib", "type: kfi").replace("172.16.44.41", "77")}),
    ("client", "VERSION", {"/sys/fs/lustre/version": "2.12.9"}),
    ("client", "VERSION", {"/sys/fs/lustre/version": "2.17.0"}),
    ("client", "VERSION", {"/sys/fs/lustre/version": "2.16.57"}),
    ("service", "MEMLOCK", {"/sys/fs/cgroup/system.slice/app.service/cgroup.procs": None,
                            "/usr/lib/systemd/system/app.service":
                            "[Service]\nUser=app\nAmbientCapabilities=CAP_NET_ADMIN CAP_IPC_LOCK\n"}),
    ("service", "MEMLOCK", {"/sys/fs/cgroup/system.slice/app.service/cgroup.procs": None,
                            "/usr/lib/systemd/system/app.service": "[Service]\nLimitMEMLOCK=64K\n"}),
    *[("service", "MEMLOCK", {"/sys/fs/cgroup/system.slice/app.service/cgroup.procs": None,
                              "/usr/lib/systemd/system/app.service": f"[Service]\n{bounds}"}) for bounds in (
        "CapabilityBoundingSet=CAP_IPC_LOCK CAP_NET_RAW\n", "CapabilityBoundingSet=~CAP_SYS_ADMIN\n",
        "CapabilityBoundingSet=\nCapabilityBoundingSet=CAP_IPC_LOCK\n", "CapabilityBoundingSet=\nCapabilityBoundingSet=~\n",
        "CapabilityBoundingSet=CAP_NET_RAW\nCapabilityBoundingSet=CAP_IPC_LOCK\nCapabilityBoundingSet=~CAP_NET_RAW\n")],
    ("container", "CTR-LOCK", {"/proc/self/limits": limits("65536"), "/proc/self/uid_map":
                               "         0          0 4294967295\n"}),
    # An FPGA is no GPU.
    ("service", "GPU-DRV", {f"{PCI}/0000:81:00.0/vendor": "0x10ee", f"{PCI}/0000:81:00.0/device": "0x5020",
                            f"{PCI}/0000:81:00.0/class": "0x120000"}),
]


@pytest.mark.parametrize("host, check, changes", WELL, ids=[f"{w[1]}-{i}" for i, w in enumerate(WELL)])
def test_usual_is_no_warning(tmp_path, hosts, host, check, changes):
    tree, options = hosts[host]
    report = forest.judge(mutate(tree, changes), tmp_path, *options)
    assert forest.verdicts(report)[check] in ("ok", "skip"), forest.findings(report, check)


APP = "/usr/lib/systemd/system/app.service"
PROCS = "/sys/fs/cgroup/system.slice/app.service/cgroup.procs"

UNWELL = [
    ("client", "LN-TUN", "warn", {"/.railgate/lnet/net": test_storage.net_show(credits=8), "/etc/lnet.conf":
                                  test_storage.CONF + "          tunables:\n              peer_credits: 32\n"}, "lnet.conf"),
    ("client", "VERSION", "warn", {"/sys/fs/lustre/version": "2.15.50",
                                   "/proc/fs/lustre/osc/lmcfs-OST0000-osc-ffff8f/import":
                                   test_storage.import_text("lmcfs-OST0000", version="2.14.0.0")}, "far apart"),
    ("client", "VERSION", "warn", {"/sys/fs/lustre/version": "3.0.0"}, "far apart"),
    ("service", "MEMLOCK", "fail", {PROCS: None, APP: "[Service]\nDynamicUser=yes\n"}, "less memory"),
    ("service", "MEMLOCK", "fail", {PROCS: None, APP: "[Service]\nUser=app\nAmbientCapabilities=CAP_IPC_LOCK\n"
                                    "AmbientCapabilities=\n"}, "less memory"),
    *[("service", "MEMLOCK", "fail", {PROCS: None, APP: f"[Service]\n{bounds}"}, "less memory") for bounds in (
        "CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW\n", "CapabilityBoundingSet=~CAP_SYS_ADMIN CAP_IPC_LOCK\n",
        "CapabilityBoundingSet=\n", "CapabilityBoundingSet=CAP_IPC_LOCK\nCapabilityBoundingSet=\n",
        "CapabilityBoundingSet=CAP_IPC_LOCK\nCapabilityBoundingSet=~CAP_IPC_LOCK\n",
        "User=app\nAmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_NET_RAW\n")],
    ("service", "MEMLOCK", "fail", {"/proc/4242/limits": limits("65536"), "/proc/4242/status": status(),
                                    "/proc/4242/uid_map": "         0       1000          1\n"}, "less memory"),
    ("container", "CTR-LOCK", "fail", {"/proc/self/limits": limits("65536"), "/proc/self/uid_map":
                                       "         0     100000      65536\n"}, "default"),
    # Not running, and nothing said: systemd's default is what it will get.
    ("aistor", "AI-POOL", "fail", {"/sys/fs/cgroup/system.slice/minio.service/cgroup.procs": None,
                                   "/usr/lib/systemd/system/minio.service":
                                   "[Service]\nUser=minio\nExecStart=/usr/local/bin/minio.rdma server\n"}, "may lock"),
    ("gateway", "GW-PIN", "fail", {"/sys/fs/cgroup/system.slice/railgate.service/cgroup.procs": None,
                                   "/usr/lib/systemd/system/railgate.service": "[Service]\nUser=railgate\n"}, "may lock"),
]


@pytest.mark.parametrize("host, check, verdict, changes, words", UNWELL,
                         ids=[f"{u[1]}-{i}" for i, u in enumerate(UNWELL)])
def test_what_counts_is_told(tmp_path, hosts, host, check, verdict, changes, words):
    tree, options = hosts[host]
    found = forest.worst(forest.judge(mutate(tree, changes), tmp_path, *options), check)
    assert found["verdict"] == verdict and words in found["summary"], found
    assert found["value"] and found["where"] and found["remedy"], found


def test_a_limit_that_is_not_known_is_not_unlimited(tmp_path, hosts):
    tree, options = hosts["aistor"]
    found = forest.worst(forest.judge(mutate(tree, {"/proc/700/limits": None}), tmp_path, *options), "AI-POOL")
    assert found["verdict"] == "ok" and "limit not known" in found["value"], found


def test_a_kernel_that_is_not_known_is_not_the_newest(tmp_path):
    """Only root may read what GRUB has saved."""
    newer = ["/lib/modules/5.14.0-503.11.1.el9_5.x86_64/modules.dep = kernel/fs/ext4/ext4.ko.xz:"]
    report = judge_machine(tmp_path, "lustre-installed", newer + ["/boot/grub2/grubenv !EACCES"])
    found = forest.worst(report, "KMOD-LUSTRE")
    assert found["verdict"] == "ok" and "next not known: not known" in found["value"], found


@pytest.mark.parametrize("driver", ["vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub", "pciback"])
def test_a_card_that_was_given_away(tmp_path, driver):
    card = f"{PCI}/0000:5e:00.0"
    report = judge_machine(tmp_path, "cx-roce", [f"{card}/vendor = 0x15b3", f"{card}/device = 0x101d",
                                                 f"{card}/class = 0x020000", f"{card}/driver -> /sys/bus/pci/drivers/{driver}"])
    assert forest.verdicts(report)["DEV-PCI"] == "ok", forest.findings(report, "DEV-PCI")


# ---- Roles ----

PROGRAMS = {"UVERBS", "LIBDEP", "MEMLOCK", "MR-PROBE", "MEMCG", "RDMA-CG", "FORK", "CTR-DEV", "CTR-LOCK", "GID-CHOICE"}


@pytest.mark.parametrize("role, judged", [("lustre-client", False), ("lustre-server", False), ("gateway", True),
                                          ("client", True), ("gpu-client", True), ("aistor", True)])
def test_lustre_is_no_program(tmp_path, role, judged):
    """It registers memory in the kernel: neither limits nor device nodes concern it."""
    tree = mutate(test_storage.lustre_client(), {
        "/proc/modules": "ib_core 1 1 rdma_cm, Live 0x0\nrdma_cm 1 1 ko2iblnd, Live 0x0\nib_umad 1 0 - Live 0x0\n"
                         "ib_ipoib 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\n",
        "/proc/self/limits": limits("65536"), "/proc/self/status": status("0")})
    found = forest.verdicts(forest.judge(tree, tmp_path, "--for", role))
    assert PROGRAMS & set(found) == (PROGRAMS if judged else set())
    assert found["KMOD"] == ("fail" if judged else "ok")
    assert {"DEV-RDMA", "PORT-STATE", "GID-TABLE", "CNT-LINK", "PCIE-LINK", "NUMA"} <= set(found)


def stands_on():
    """The table of docs/doctor.md: {check: roles}."""
    with open(f"{forest.TOP}/docs/doctor.md", encoding="utf-8") as file:
        text = file.read()
    rows, found = re.search(r"\| role \| stands on \|\n\|[-|]+\|\n((?:\|.*\n)+)", text)[1], {}
    for row in rows.splitlines():
        roles, checks = row.strip("|").split("|")
        for check in checks.split(","):
            found.setdefault(check.strip(), set()).update(r.strip(" `") for r in roles.split(","))
    return found


def test_what_roles_stand_on_is_documented():
    """As `doctor explain` tells it of every check."""
    listed = [x.split()[0] for x in forest.run("doctor", "--list").stdout.splitlines() if x.startswith("  ")]
    assert len(listed) > 100
    told = {}
    for check in listed:
        said = re.search(r"^Not well where it cannot be judged: ([^;.]*)(; and where no role is named)?\.$",
                         forest.run("doctor", "explain", check).stdout, re.M)
        if said:
            told[check] = {x.strip() for x in said[1].split(",")}
            if said[2] and said[1] != "every role":
                told[check].add("none named")
    documented = stands_on()
    assert told == documented and len(told) > 10, (told, documented)


# ---- Commands that do what they say ----

def remedy(tmp_path, machine, check, changes, *options):
    found = forest.worst(judge_machine(tmp_path, machine, changes, *options), check)
    assert found["verdict"] in ("warn", "fail"), found
    return found["remedy"]


@pytest.mark.parametrize("release, words", [
    ("rhel", "nmcli connection modify bond0 bond.options mode=802.3ad,miimon=100,xmit_hash_policy=layer3+4 && nmcli "
             "connection down bond0 && nmcli connection up bond0"),
    ("debian", "bond-mode 802.3ad for bond0 in /etc/network/interfaces")])
def test_a_bond_with_ports_keeps_its_mode(tmp_path, release, words):
    """Writing to bonding/mode is refused while it has any."""
    told = remedy(tmp_path, "cx-lag", "DEV-BOND", ["/sys/class/net/bond0/bonding/mode = balance-rr 0",
                                                   f"/etc/os-release = ID={release}"])
    assert words in told and "bonding/mode" not in told, told


def test_a_card_without_rdma_device(tmp_path):
    told = remedy(tmp_path, "e810", "DEV-PCI", [
        f"{PCI}/0000:5e:00.0/{x}" for x in ("vendor = 0x15b3", "device = 0x101d", "class = 0x020000",
                                           "driver -> /sys/bus/pci/drivers/mlx5_core")])
    assert "name enable_rdma value true cmode driverinit" in told and "enable_roce" not in told, told


def test_what_brings_a_gid(tmp_path):
    """An address brings none where there is no table, or no RoCE v2, or no Ethernet."""
    told = remedy(tmp_path, "cx-roce", "GID-TABLE", ["/sys/class/infiniband/mlx5_0/ports/1/gids/%d = " % i + ":".join(["0000"] * 8) for i in range(4)])
    assert "name enable_roce value true cmode driverinit" in told and "ip address add" in told, told
    told = remedy(tmp_path, "cx-ib", "GID-TABLE", ["/sys/class/infiniband/mlx5_0/ports/1/gids/0 = " + ":".join(["0000"] * 8)])
    assert "dmesg" in told and "ip address" not in told and "enable_roce" not in told, told
    told = remedy(tmp_path, "e810", "GID-TABLE", ["/sys/class/infiniband/rocep59s0f1/ports/1/gid_attrs/types/%d = IB/RoCE v1"
                                                  % i for i in (1, 3)])
    assert "ip address add" not in told and "v1 only" in told, told


@pytest.mark.parametrize("limit, mended", [(1024, 16384), (8192, 16384), (8193, 16386), (40000, 80000)])
def test_a_crowded_neighbour_table_gets_more_room(tmp_path, limit, mended):
    """One that was made larger than usual, too."""
    told = remedy(tmp_path, "cx-roce", "NEIGH", [f"/proc/sys/net/ipv4/neigh/default/gc_thresh3 = {limit}",
                                                 f"/proc/net/stat/arp_cache = entries table_fulls\\n{limit - 1:08x} 00000000"])
    for number, value in (1, mended // 4), (2, mended // 2), (3, mended):
        assert f"gc_thresh{number} = {value}\\n" in told, told


def test_a_neighbour_table_that_is_hidden_has_no_number_of_entries(tmp_path):
    found = forest.findings(judge_machine(tmp_path, "cx-roce", ["/proc/sys/net/ipv4/neigh/default/gc_thresh3 = 4096",
                                                                "/proc/net/stat/arp_cache !EACCES"]), "NEIGH")
    assert [(f["verdict"], f["value"]) for f in found] == [("ok", "gc_thresh3 4096, entries not known")], found


def test_a_port_without_an_interface(tmp_path):
    port = "/sys/class/infiniband/rocep59s0f1/ports/1"
    told = remedy(tmp_path, "e810", "PORT-STATE", [f"{port}/state = 1: DOWN", f"{port}/phys_state = 3: Disabled",
                                                   "/sys/class/net/ens2f1 -", f"{port}/gids -"])
    assert "ethtool -m INTERFACE " in told, told


@pytest.mark.parametrize("role, release, words", [
    ("lustre-server", "rhel", "dnf install kmod-lustre "), ("lustre-client", "rhel", "dnf install kmod-lustre-client "),
    ("lustre-server", "debian", "lustre-server-modules-dkms"), ("lustre-client", "debian", "lustre-client-modules-dkms")])
def test_servers_have_packages_of_their_own(tmp_path, role, release, words):
    told = remedy(tmp_path, "lustre-installed", "KMOD-LUSTRE", [
        "/lib/modules/5.14.0-427.13.1.el9_4.x86_64/modules.dep = kernel/fs/ext4/ext4.ko.xz:",
        f"/etc/os-release = ID={release}"], "--for", role)
    assert words in told, told


# ---- Counters that have no room to rise ----

@pytest.mark.parametrize("name, check, full", [
    ("symbol_error", "CNT-SYMBOL", 65535), ("link_error_recovery", "CNT-RECOVERY", 255), ("link_downed", "CNT-LINK", 255),
    ("port_rcv_errors", "CNT-RCV", 65535), ("port_xmit_discards", "CNT-DISCARD", 65535),
    ("local_link_integrity_errors", "CNT-INTEGRITY", 15), ("excessive_buffer_overrun_errors", "CNT-INTEGRITY", 15),
    ("VL15_dropped", "CNT-VL15", 65535), ("port_xmit_wait", "CNT-WAIT", 4294967295)])
def test_a_full_counter_proves_nothing(tmp_path, name, check, full):
    counter = f"/sys/class/infiniband/mlx5_0/ports/1/counters/{name}"
    report = judge_machine(tmp_path, "cx-ib", [f"{counter} = {full}"])
    found = [f for f in forest.findings(report, check) if f.get("subject") == "mlx5_0/1"]
    assert found and found[0]["verdict"] == "skip" and "full" in found[0]["summary"], found
    assert found[0]["remedy"].startswith("perfquery -C mlx5_0 -P 1 -R") and found[0]["where"] == counter, found
    assert forest.verdicts(report)[check] == "ok"  # of the other port
    report = judge_machine(tmp_path, "cx-ib", [f"{counter} = {full - 1}"])
    assert [f["verdict"] for f in forest.findings(report, check)] == ["ok"]


def test_a_full_counter_of_a_port_that_perfquery_cannot_ask(tmp_path):
    report = judge_machine(tmp_path, "cx-roce", ["/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed = 255"])
    found = [f for f in forest.findings(report, "CNT-LINK") if f.get("subject") == "mlx5_0/1"]
    assert found and found[0]["verdict"] == "skip" and "perfquery" not in json.dumps(found), found


def test_where_all_are_full(tmp_path):
    report = judge_machine(tmp_path, "cx-ib", [f"/sys/class/infiniband/mlx5_{i}/ports/1/counters/link_downed = 255"
                                               for i in (0, 1)])
    assert forest.verdicts(report)["CNT-LINK"] == "skip"
