"""Where each verdict begins: the last value that is well and the first that is not, and of every
condition that a check has, one host that needs it. Rows were found by changing the checks' own
conditions and looking which change no test saw."""

import json

import pytest

import forest
import test_machine
import test_storage
from forest import GPU, NIC, PCI, SWITCH, config_space, interrupts, limits, listening, meminfo, mutate, status
from test_machine import SERVICE, judge_machine
from test_storage import OSC, TREE, import_text, lnet, net_show

# ---- Machines that are text ----

IB, ROCE = "/sys/class/infiniband/mlx5_{}/ports/1/", "/sys/class/infiniband/rocep59s0f{}/ports/1/"
SAME_SUBNET = ('/.railgate/netlink/addresses.json = [{"netdev": "ib0", "address": "10.20.0.5", "prefix": 24}, '
               '{"netdev": "ib1", "address": "10.20.0.6", "prefix": 24}]')
DOWN = [ROCE.format(0) + "state = 1: DOWN", ROCE.format(0) + "phys_state = 3: Disabled",
        ROCE.format(1) + "state = 1: DOWN", ROCE.format(1) + "phys_state = 3: Disabled"]
OFF = ["/sys/class/net/ens2f0/flags = 0x1002", "/sys/class/net/ens2f1/flags = 0x1002"]


def arp(ignore, announce, rp_filter):
    base = "/proc/sys/net/ipv4/conf/all/"
    return [SAME_SUBNET, f"{base}arp_ignore = {ignore}", f"{base}arp_announce = {announce}", f"{base}rp_filter = {rp_filter}"]


def dcb(netdev, **more):
    facts = {"known": True, "pfc": 8, "dscp": {"26": 3, "48": 6}, "class_of_priority": [0, 0, 0, 1, 0, 0, 2, 0],
             "bandwidth": [50, 50, 0, 0, 0, 0, 0, 0], "algorithm": [2, 2, 0, 0, 0, 0, 0, 0], **more}
    return f"/.railgate/netlink/dcb/{netdev}.json = " + json.dumps({k: v for k, v in facts.items() if v is not None})


def ethtool(netdev, rx, tx, **flags):
    return f"/.railgate/ioctl/ethtool/{netdev}.json = " + json.dumps({"pause": {"rx": rx, "tx": tx}, "flags": flags})


def both(function, *names, **more):
    return [function(name, **more) for name in names]


MODE = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"
STATS = "/.railgate/again/.railgate/ioctl/ethtool-stats/ens1f0np0.json = "
LOST = "/.railgate/again/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence = 5"
EMPTY_TABLE = ":".join(["0000"] * 8)

MACHINES = [
    ("e810", "PORT-STATE", "fail", DOWN + OFF),
    ("e810", "PORT-STATE", "fail", DOWN[2:]),
    ("e810", "PORT-STATE", "warn", DOWN[2:] + OFF[1:]),
    ("cx-roce", "PORT-RATE", "ok", [IB.format(1) + "rate = 400 Gb/sec (4X NDR)", IB.format(1) + "state = 1: DOWN"]),
    ("cx-roce", "PORT-RATE", "ok", [IB.format(1) + "rate = 400 Gb/sec (4X NDR)", "/sys/class/infiniband/mlx5_1/board_id = MT_1"]),
    ("cx-roce", "PORT-RATE", "fail", [IB.format(1) + "rate = 49 Gb/sec (2X EDR)"]),
    ("cx-ib", "PORT-RATE", "fail", [IB.format(i) + "rate = 50 Gb/sec (1X HDR)" for i in (0, 1)]),
    ("cx-roce", "PORT-RATE", "ok", [IB.format(i) + "rate = 25 Gb/sec (1X EDR)" for i in (0, 1)]),
    ("cx-lag", "GID-MAC", "ok", ["/sys/class/net/ens1f1np1/address = 94:6d:ae:00:00:02"]),
    ("cx-roce", "CMA-MODE", "skip", [MODE + " !EACCES"]),
    ("cx-roce", "CMA-MODE", "ok", ["/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos = 104"]),
    ("cx-roce", "CMA-MODE", "ok", ["/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos = 107"]),
    ("cx-roce", "CMA-MODE", "warn", ["/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos = 108"]),
    ("cx-ib", "ADDR", "ok", arp(1, 2, 2)), ("cx-ib", "ADDR", "ok", arp(2, 2, 0)),
    ("cx-ib", "ADDR", "warn", arp(0, 2, 2)), ("cx-ib", "ADDR", "warn", arp(1, 1, 2)), ("cx-ib", "ADDR", "warn", arp(1, 2, 1)),
    ("cx-ib", "ADDR", "ok", [SAME_SUBNET.replace('"10.20.0.6", "prefix": 24', '"10.20.0.6", "prefix": 25')]),
    ("cx-ib", "ADDR", "ok", [SAME_SUBNET.replace('"ib1"', '"eth7"')]),
    ("cx-ib", "IPOIB", "skip", ["/sys/class/net/ib0/flags !EACCES", "/sys/class/net/ib1/flags !EACCES"]),
    ("cx-ib", "IPOIB", "skip", ["/sys/class/net/ib0/pkey !EACCES", "/sys/class/net/ib1/pkey !EACCES"]),
    ("cx-ib", "IPOIB", "warn", ["/sys/class/net/ib0.8001/type = 32", "/sys/class/net/ib0.8001/flags = 0x1002",
                                "/sys/class/net/ib0.8001/pkey = 0x8001", "/sys/class/net/ib0.8001/parent = ib0",
                                "/sys/class/net/ib0/flags = 0x1002"]),
    ("cx-ib", "SM", "fail", [IB.format(0) + "lid = 0x0"]),
    ("cx-ib", "SM", "ok", [IB.format(0) + "sm_lid = 0x0", IB.format(0) + "phys_state = 2: Polling"]),
    ("cx-ib", "SM", "skip", [IB.format(i) + "lid !EIO" for i in (0, 1)]),
    ("cx-roce", "NETNS", "ok", ["/sys/module/ib_core/parameters/netns_mode = 1"]),
    ("cx-roce", "DEV-RDMA", "skip", ["/sys/class/infiniband -", "/sys/class/infiniband !EACCES"]),
    ("cx-roce", "DEV-RDMA", "warn", ["/sys/class/infiniband/mlx5_1/fw_ver = 22.41.1002"]),
    ("cx-roce", "DEV-RDMA", "ok", ["/sys/class/infiniband/mlx5_1/fw_ver = 22.41.1002", "/sys/class/infiniband/mlx5_1/board_id = MT_1"]),
    ("cx-lag", "DEV-BOND", "ok", ["/sys/class/net/bond0/bonding/mode = balance-xor 2"]),
    ("cx-lag", "DEV-BOND", "ok", ["/sys/class/net/bond0/bonding/mode = active-backup 1",
                                  "/sys/class/net/bond0/bonding/xmit_hash_policy = layer2 0",
                                  "/sys/class/net/bond0/bonding/ad_partner_mac = 00:00:00:00:00:00"]),
    ("cx-ib", "DEV-IBBOND", "ok", ["/sys/class/net/bond0/type = 1", "/sys/class/net/bond0/bonding/mode = active-backup 1",
                                   "/sys/class/net/ib0/master -> /sys/class/net/bond0"]),
    ("cx-roce", "KMOD", "skip", ["/proc/modules -"]),
    ("cx-roce", "KMOD-SRC", "skip", ["/proc/modules -"]),
    ("e810", "LLDP-OWNER", "fail", ["/run/lldpd.socket =", ethtool("ens2f0", False, False, **{"fw-lldp-agent": True})]),
    ("e810", "LLDP-OWNER", "ok", [ethtool("ens2f0", False, False, **{"fw-lldp-agent": True})]),
    ("e810", "LLDP-OWNER", "skip", ["/.railgate/ioctl/ethtool/ens2f0.json !EIO", "/.railgate/ioctl/ethtool/ens2f1.json !EIO"]),
    ("e810", "ICE-TC", "warn", [dcb("ens2f0", dscp={})]),
    ("e810", "ICE-TC", "ok", [dcb("ens2f0", dscp={}, class_of_priority=[0] * 8)]),
    ("broadcom", "GPAUSE", "warn", [ethtool("enp59s0f0np0", False, True)]),
    ("broadcom", "GPAUSE", "ok", [ethtool("enp59s0f0np0", True, True), dcb("enp59s0f0np0", pfc=0)]),
    ("broadcom", "ETS", "skip", both(dcb, "enp59s0f0np0", "enp59s0f1np1", class_of_priority=None)),
    ("broadcom", "ETS", "ok", both(dcb, "enp59s0f0np0", "enp59s0f1np1", bandwidth=[100, 0] + [0] * 6, algorithm=[2, 0] + [0] * 6)),
    ("broadcom", "CNP", "warn", [dcb("enp59s0f0np0", dscp={"26": 3}, pfc=0x48)]),
    ("broadcom", "CNP", "ok", [dcb("enp59s0f0np0", dscp={"26": 3})]),
    ("broadcom", "PFC-ON", "fail", [dcb("enp59s0f0np0", pfc=16)]),
    ("cx-roce", "ECN", "warn", ["/sys/class/net/ens1f0np0/ecn/roce_np/enable/3 = 0"]),
    ("cx-roce", "PAUSE", "warn", [LOST]),
    ("cx-roce", "PAUSE", "ok", [LOST, STATS + '{"rx_prio0_pause": 0, "rx_prio3_pause": 7}']),
    ("cx-roce", "PAUSE", "fail", [STATS + '{"rx_prio0_pause": 0, "rx_prio3_buf_discard": 1}']),
    ("cx-roce", "PAUSE", "ok", [STATS + '{"rx_prio0_pause": 0, "rx_prio4_buf_discard": 1}']),
    ("cx-roce", "GID-TABLE", "fail", [IB.format(0) + f"gids/{i} = {EMPTY_TABLE}" for i in range(4)]),
]


@pytest.mark.parametrize("machine, check, verdict, changes", MACHINES, ids=[f"{m[1]}-{i}" for i, m in enumerate(MACHINES)])
def test_machines(tmp_path, machine, check, verdict, changes):
    report = judge_machine(tmp_path, machine, changes)
    assert forest.verdicts(report)[check] == verdict, forest.findings(report, check)


# ---- Trees that are made here ----

NET = f"{PCI}/{NIC}"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
IOMMU = "/sys/kernel/iommu_groups/7/type"
AMD = {"/proc/cpuinfo": "vendor_id\t: AuthenticAMD\nflags\t\t: fpu\n"}
CTRL = "/.railgate/verbs/registration"
MODULES = test_machine.gpu_host()["/proc/modules"]
NO_PEER = MODULES.replace(",nvidia_peermem,", ",").replace("nvidia_peermem 16384 0 - Live 0x0\n", "")
CLOSED_SOURCE = {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Release Build\n"}
RESOURCES = "/.railgate/netlink/rdma-resources"
OSS = "/.railgate/lustre/space"
MDC = "/proc/fs/lustre/mdc/lmcfs-MDT0000-mdc-ffff8f/import"
ROUTE = lnet()["/.railgate/lnet/route"]
GIB = 1 << 30


def mount_says(lines):
    return {"/.railgate/lustre/mount-0": TREE.format(get=61, replace=61).replace("open 0\n", lines)}


def space(free):
    return {OSS: f"lmcfs-OST0000 1000000 {free}\nlmcfs-OST0001 1000000 800000\n"}


def locked(number, capabilities="0000000000000000"):
    return {"/proc/self/limits": limits(str(number)), "/proc/self/status": status(capabilities)}


def rail(tcp):
    return {"/.railgate/lnet/net": net_show(sent=0) + test_storage.TCP_NET.format(address="172.16.44.41").replace("50000", str(tcp))}


def hiw(number):
    return {"/.railgate/lnet/net": net_show().replace("peercredits_hiw: 4", f"peercredits_hiw: {number}")}


def objects(number):
    return {f"{SERVICE}/rdma.max": f"mlx5_0 hca_handle=2 hca_object={number}"}


def huge(pages):
    return {THP: "always madvise [never]", "/proc/meminfo": meminfo(huge=pages, free=pages)}

HOSTS = [
    # PCI Express
    ("gpu", "PCIE-LINK", "warn", {f"{NET}/current_link_width": "8"}),
    ("gpu", "PCIE-LINK", "ok", {f"{PCI}/{SWITCH[1]}/max_link_speed": "32.0 GT/s PCIe"}),
    ("gpu", "PCIE-LINK", "skip", {f"{NET}/current_link_width": "0"}),
    ("gpu", "PCIE-MRRS", "warn", {f"{NET}/config": config_space(payload=512)}),
    ("gpu", "PCIE-MRRS", "ok", {f"{NET}/config": config_space(read=512)}),
    ("gpu", "PCIE-MRRS", "warn", {f"{NET}/config": config_space(payload=128),
                                  f"{PCI}/{SWITCH[2]}/config": config_space(6, payload=128, acs=0)}),
    ("gpu", "PCIE-MRRS", "ok", {f"{NET}/config": config_space(payload=128, payload_able=128),
                                f"{PCI}/{SWITCH[2]}/config": config_space(6, payload=128, acs=0)}),
    ("service", "PCIE-RO", "ok", {f"{NET}/config": config_space(relaxed=False)}),
    ("service", "PCIE-RO", "warn", {f"{NET}/config": config_space(relaxed=False), **AMD}),
    ("gpu", "PCIE-ACS", "ok", {f"{PCI}/{SWITCH[2]}/config": config_space(6, acs=0x02)}),
    ("service", "IOMMU", "ok", {f"{NET}/iommu_group": forest.Link("../../../kernel/iommu_groups/7"), IOMMU: "DMA"}),
    ("service", "IOMMU", "warn", {f"{NET}/iommu_group": forest.Link("../../../kernel/iommu_groups/7"), IOMMU: "DMA", **AMD}),
    ("service", "IOMMU", "skip", {f"{NET}/iommu_group": forest.Link("../../../kernel/iommu_groups/7")}),
    # Memory
    ("client-role", "MEMLOCK", "fail", locked(8 << 20)), ("client-role", "MEMLOCK", "warn", locked((8 << 20) + 1)),
    ("client-role", "MEMLOCK", "ok", locked("unlimited")),
    ("any-role", "MEMLOCK", "warn", locked(8 << 20)),
    ("service", "MEMLOCK", "fail", {"/proc/4242/limits": limits(str(16 * GIB - 1))}),
    ("service", "MEMLOCK", "warn", {"/proc/4242/limits": limits(str(16 * GIB))}),
    # What is off pins nothing.
    ("gateway", "MEMLOCK", "warn", {"/etc/railgate/railgate.conf": "rdma = off\n", "/proc/900/limits": limits(str(64 << 20))}),
    ("gateway", "MEMLOCK", "fail", {"/proc/900/limits": limits(str(64 << 20))}),
    ("service", "HUGE", "ok", huge(8192)), ("service", "HUGE", "warn", huge(8191)),
    ("service", "MEMCG", "ok", {f"{SERVICE}/memory.max": str(20 * GIB)}),
    ("service", "MEMCG", "warn", {f"{SERVICE}/memory.max": str(20 * GIB - 5)}),
    ("service", "RDMA-CG", "fail", objects(63)), ("service", "RDMA-CG", "warn", objects(64)),
    ("service", "RDMA-CG", "warn", objects(1023)), ("service", "RDMA-CG", "ok", objects(1024)),
    ("service", "DEVRES", "ok", {RESOURCES: "dev mlx5_0 qp 104856"}),
    ("service", "DEVRES", "warn", {RESOURCES: "dev mlx5_0 qp 104857"}),
    ("service", "MR-PROBE", "skip", {CTRL: "mr mlx5_0 13 -1"}),
    ("service", "NUMA", "ok", {f"{NET}/numa_node": "-1", "/sys/devices/system/node/online": "0"}),
    ("service", "IRQ", "ok", {"/proc/interrupts": interrupts(NIC, [5, 5, 5])}),
    ("service", "IRQ", "warn", {"/proc/interrupts": interrupts(NIC, [5, 5, 5, 5])}),
    ("service", "IRQ", "ok", {"/proc/interrupts": interrupts(NIC, [5, 5, 5, 6])}),
    ("service", "IRQ", "ok", {"/proc/interrupts": interrupts(NIC, [1, 1, 1, 1], cpus=3)}),
    ("service", "IRQ", "warn", {"/proc/interrupts": interrupts(NIC, [1, 1, 1, 1], cpus=4)}),
    # GPUs
    ("gpu", "PEERMEM", "ok", {"/proc/modules": NO_PEER, "/sys/kernel/mm/memory_peers/nv_mem/version": "1", **CLOSED_SOURCE}),
    ("gpu", "PEERMEM", "ok", {"/proc/modules": MODULES.replace("nvidia_peermem", "nv_peer_mem"), **CLOSED_SOURCE}),
    ("gpu", "PEERMEM", "ok", {"/proc/modules": NO_PEER, "/sys/kernel/mm/memory_peers/amdkfd/version": "1", **CLOSED_SOURCE}),
    ("gpu", "PEERMEM", "fail", {"/proc/modules": NO_PEER, "/sys/kernel/mm/memory_peers/other/version": "1", **CLOSED_SOURCE}),
    ("gpu", "PEERMEM", "ok", {"/proc/modules": NO_PEER}),
    ("gpu", "PEERMEM", "skip", {"/proc/modules": NO_PEER, CTRL: None}),
    ("gpu", "DMABUF", "warn", {"/proc/modules": NO_PEER, **CLOSED_SOURCE}),
    ("gpu", "DMABUF", "ok", CLOSED_SOURCE),
    ("gpu", "DMABUF", "skip", {CTRL: "mr mlx5_0 0 22 1048576 0"}),
    ("gpu", "GPU-DRV", "fail", {f"{PCI}/{GPU}/driver": forest.Link("../../../bus/pci/drivers/nouveau")}),
    ("gpu", "GPU-DRV", "ok", {f"{PCI}/{GPU}/driver": forest.Link("../../../bus/pci/drivers/vfio-pci")}),
    ("gpu", "BAR1", "ok", {f"{PCI}/{GPU}/resource": test_machine.bars(GIB)}),
    ("gpu", "BAR1", "warn", {f"{PCI}/{GPU}/resource": test_machine.bars(GIB // 2)}),
    # Containers
    ("container", "CTR-LOCK", "fail", locked(8 << 20)), ("container", "CTR-LOCK", "warn", locked((8 << 20) + 1)),
    ("container", "CTR-LOCK", "ok", locked(65536, "0000000000004000")),
    # Lustre
    ("client", "MNT", "ok", {"/etc/fstab": test_storage.FSTAB + "172.16.44.40@o2ib:/lmcfs /s lustre noauto 0 0\n"}),
    ("client", "MNT", "ok", {"/etc/fstab": test_storage.FSTAB + "lustre-ost9/ost9 /mnt/ost9 lustre defaults 0 0\n"}),
    ("client", "MNT", "fail", {"/proc/mounts": "/dev/sda1 / xfs rw 0 0\n", "/etc/fstab": "UUID=1 / xfs defaults 0 0\n"}),
    ("client", "RESP", "ok", mount_says("open 13\n")), ("client", "RESP", "fail", mount_says("open 5\n")),
    ("client", "VERSION", "warn", {"/sys/fs/lustre/version": "2.13.0", OSC: import_text("lmcfs-OST0000", version="2.15.50.0"),
                                   MDC: import_text("lmcfs-MDT0000", version="2.13.0.0")}),
    ("client", "VERSION", "ok", {"/sys/fs/lustre/version": "2.13.0", OSC: import_text("lmcfs-OST0000", version="2.15.49.0"),
                                 MDC: import_text("lmcfs-MDT0000", version="2.13.0.0")}),
    ("client", "SPACE", "fail", space(999)), ("client", "SPACE", "warn", space(1000)),
    ("client", "SPACE", "warn", space(99999)), ("client", "SPACE", "ok", space(100000)),
    ("server", "RECOVERY", "warn", {"/proc/fs/lustre/mdt/lmcfs-MDT0000/recovery_status":
                                    "status: RECOVERING\nconnected_clients: 1/4\n"}),
    ("client", "FSTAB", "warn", {"/etc/fstab": test_storage.FSTAB.replace(",x-systemd.requires=lnet.service", "")}),
    ("client", "LN-NI", "fail", {"/.railgate/lnet/net": net_show().replace("fatal_error: 0", "fatal_error: 1")}),
    ("client", "LN-NI", "warn", {"/.railgate/lnet/net": net_show(health=999)}),
    ("client", "LN-ROUTE", "ok", {"/.railgate/lnet/route": ROUTE.replace("up", "down") +
                                  "    - net: o2ib5\n      gateway: 172.16.44.8@o2ib\n      state: up\n"}),
    ("client", "LN-TUN", "ok", hiw(7)), ("client", "LN-TUN", "warn", hiw(8)),
    ("client", "LN-RAIL", "ok", rail(9999)), ("client", "LN-RAIL", "warn", rail(10000)),
    ("client", "LN-SVC", "warn", {"/usr/lib/systemd/system/lnet.service": None,
                                  "/etc/systemd/system/multi-user.target.wants/lnet.service": None}),
    ("client", "LN-CFG", "warn", {"/etc/lnet.conf": None, "/etc/modprobe.d/l.conf": "options lnet networks=tcp(ib0)\n"}),
    ("client", "LN-CFG", "ok", {"/etc/lnet.conf": None, "/etc/modprobe.d/l.conf": "options lnet networks=o2ib(ib0)\n"}),
    ("client", "LN-CFG", "ok", {"/etc/lnet.conf": None}),
    ("client", "LN-MOD", "fail", {"/etc/lnet.conf": None, "/etc/fstab": "", "/sys/module/ko2iblnd": None,
                                  "/etc/modprobe.d/l.conf": "options lnet networks=o2ib(ib0)\n"}),
    ("client", "LN-CONF-IF", "fail", {"/.railgate/netlink/addresses.json": '[{"netdev": "ib0", "address": "fd00::1", "prefix": 64}]'}),
    ("client", "LN-IP", "fail", {"/.railgate/lnet/net": net_show(address="172.16.44.1").replace("@o2ib", "@efa")
                                 .replace("type: o2ib", "type: efa")}),
    # The gateway and AIStor
    ("gateway", "GW-TREE", "ok", {"/.railgate/gateway/tree": TREE.format(get=61, replace=61).replace("900000", "50000")}),
    ("gateway", "GW-TREE", "warn", {"/.railgate/gateway/tree": TREE.format(get=61, replace=61).replace("900000", "49999")}),
    ("gateway", "GW-TREE", "skip", {"/.railgate/gateway/tree": TREE.format(get=5, replace=5)}),
    ("gateway", "GW-TREE", "fail", {"/.railgate/gateway/tree": TREE.format(get=61, replace=61) + "file 95\n"}),
    ("gateway", "GW-TREE", "ok", {"/.railgate/gateway/tree": TREE.format(get=61, replace=13)}),
    ("gateway", "GW-PIN", "ok", {"/proc/900/limits": limits(str(GIB))}),
    ("gateway", "GW-PIN", "fail", {"/proc/900/limits": limits(str(GIB - 1))}),
    ("gateway", "GW-PIN", "ok", {"/proc/meminfo": meminfo(2 << 20)}),
    ("gateway", "GW-PIN", "warn", {"/proc/meminfo": meminfo((2 << 20) - 1)}),
    ("gateway", "GW-PORT", "fail", {"/proc/net/tcp": listening(9000)}),
    ("aistor", "AI-POOL", "ok", {"/proc/700/limits": limits(str(16 * GIB))}),
    ("aistor", "AI-POOL", "fail", {"/proc/700/limits": limits(str(16 * GIB - 1))}),
    ("aistor", "AI-POOL", "ok", {"/proc/meminfo": meminfo(32 << 20)}),
    ("aistor", "AI-POOL", "warn", {"/proc/meminfo": meminfo((32 << 20) - 1)}),
    ("aistor", "AI-INTERNODE", "fail", {"/etc/default/minio": "MINIO_RDMA_INTERNODE=off\n"}),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    plain = {**forest.system(), **forest.switch(), **forest.connectx()}
    return {"client": (test_storage.lustre_client(), test_storage.CLIENT),
            "server": (test_storage.lustre_server(), test_storage.SERVER),
            "gateway": (test_storage.gateway(), test_storage.GATEWAY),
            "service": (test_machine.service_host(), ["--unit", "app", "--memory", "16G"]),
            "client-role": (plain, ["--for", "client"]), "any-role": (plain, []),
            "gpu": (test_machine.gpu_host(), ["--for", "gpu-client"]),
            "container": (test_machine.container(), []),
            "aistor": (test_storage.aistor_node(tmp_path_factory), test_storage.AISTOR)}


@pytest.mark.parametrize("host, check, verdict, changes", HOSTS, ids=[f"{h[1]}-{i}" for i, h in enumerate(HOSTS)])
def test_hosts(tmp_path, hosts, host, check, verdict, changes):
    tree, options = hosts[host]
    report = forest.judge(mutate(tree, changes), tmp_path, *options)
    assert forest.verdicts(report)[check] == verdict, forest.findings(report, check)
