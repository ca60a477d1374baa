"""PCI Express, memory, NUMA, interrupts, GPUs and containers: healthy machines, and one change for
every check, which turns that check and no other."""

import json
import shutil
import time

import pytest

import forest
from forest import GPU, NIC, PCI, SWITCH, config_space, interrupts, limits, meminfo, mutate, status
from unpack import unpack


CUFILE = """{{
    // NOTE : comments are allowed, "even" with quotation marks
    "logging": {{ "level": "ERROR" /* of two
                                      kinds */ }},
    "properties": {{
        "use_poll_mode": false, // "http://" is no comment in a string
        "note": "http://x/* y */",
        "allow_compat_mode": {compat},
        {more}
        "rdma_dev_addr_list": {addresses}
    }},
    "fs": {{ "lustre": {{ "mount_table": {{ }} }} }}
}}
"""


def cufile(compat="false", addresses='["172.16.44.41", "mlx5_0", "ib0"]', more=""):
    return CUFILE.format(compat=compat, addresses=addresses, more=more)


def gpu_host():
    tree = {**forest.system(), **forest.switch(), **forest.connectx()}
    gpu = forest.pci(GPU, 0x10DE, 0x2230, 0x030000, driver="nvidia", iommu="identity")
    tree.update(gpu)
    tree.update({
        f"{PCI}/{NIC}/iommu_group": forest.Link("../../../kernel/iommu_groups/7"),
        f"{PCI}/{GPU}/resource": bars(64 << 30),
        "/proc/driver/nvidia/version":
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n"
            "GCC version:  gcc version 11.4.1",
        f"/proc/driver/nvidia/gpus/{GPU}/information": "Model: \t\t NVIDIA RTX A6000\nIRQ: 16\n",
        "/proc/driver/nvidia-fs/version": "version: 2.19",
        "/.railgate/gpu/xid": "0",
        "/etc/cufile.json": cufile(),
        "/proc/modules": tree["/proc/modules"].replace("mlx5_ib, Live 0x0\nib_uverbs",
                                                       "mlx5_ib,nvidia_peermem, Live 0x0\nib_uverbs")
                         + "nvidia_peermem 16384 0 - Live 0x0\n",
    })
    return tree


def bars(window):
    rows = [(0xA0000000, 0xA0FFFFFF), (0x200000000000, 0x200000000000 + window - 1), (0, 0),
            (0xA1000000, 0xA1FFFFFF), (0, 0), (0, 0)]
    return "".join(f"0x{a:016x} 0x{b:016x} 0x{0x14220c if b else 0:016x}\n" for a, b in rows)


def service_files(unit, pid=4242, memlock="infinity", user="gateway", soft="unlimited"):
    group = f"/sys/fs/cgroup/system.slice/{unit}"
    return {
        f"/usr/lib/systemd/system/{unit}":
            f"[Unit]\nAfter=network-online.target\n[Service]\nUser={user}\nExecStart=/usr/bin/x\n"
            f"LimitMEMLOCK={memlock}\n",
        f"{group}/cgroup.procs": f"{pid}\n{pid + 1}\n",
        f"{group}/memory.max": "max",
        f"{group}/rdma.max": "mlx5_0 hca_handle=max hca_object=max",
        f"/proc/{pid}/limits": limits(soft),
        f"/proc/{pid}/status": status("0000000000000000"),
    }


def service_host():
    """A host whose service has a name of its own, so that no other group looks at it."""
    return {**forest.system(), **forest.switch(), **forest.connectx(), **service_files("app.service")}


def container():
    tree = {**forest.system(forest.DEBIAN), **forest.switch(), **forest.connectx()}
    tree.update(roce_port())
    tree.update({"/.dockerenv": "", "/run/secrets/kubernetes.io/serviceaccount/namespace": "ml"})
    return tree


def roce_port():
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    return {
        f"{port}/link_layer": "Ethernet",
        f"{port}/gids/0": "0000:0000:0000:0000:0000:ffff:ac10:2c29",
        f"{port}/gid_attrs/types/0": "RoCE v2",
        f"{port}/gid_attrs/ndevs/0": "ib0",
    }


MINE = ("PCIE", "IOMMU", "MEMLOCK", "MR-PROBE", "HUGE", "MEMCG", "RDMA-CG", "DEVRES", "NUMA", "IRQ",
        "GPU", "PEERMEM", "DMABUF", "BAR1", "TOPO", "GDS", "XID", "CTR")


def mine(report):
    return {i: v for i, v in forest.verdicts(report).items() if i.startswith(MINE)}


def test_gpu_host_is_well(tmp_path):
    found = mine(forest.judge(gpu_host(), tmp_path, "--for", "gpu-client"))
    assert {i for i, v in found.items() if v != "ok"} == {"CTR-DEV", "CTR-LOCK", "CTR-GID"}
    assert {i for i, v in found.items() if v == "skip"} == {"CTR-DEV", "CTR-LOCK", "CTR-GID"}


def test_service_host_is_well(tmp_path):
    report = forest.judge(service_host(), tmp_path, "--unit", "app.service", "--memory", "16G")
    assert set(mine(report).values()) == {"ok", "skip"}
    assert forest.worst(report, "MEMLOCK")["subject"] == "app.service"


def test_container_is_well(tmp_path):
    found = mine(forest.judge(container(), tmp_path))
    assert found["CTR-DEV"] == found["CTR-LOCK"] == found["CTR-GID"] == "ok"


NET = f"{PCI}/{NIC}"

GPU_MUTATIONS = [
    ("PCIE-LINK", "fail", {f"{NET}/current_link_width": "4"}),
    ("PCIE-LINK", "warn", {f"{NET}/max_link_speed": "32.0 GT/s PCIe"}),
    ("PCIE-LINK", "fail", {f"{PCI}/{SWITCH[1]}/current_link_speed": "2.5 GT/s PCIe"}),
    ("PCIE-LINK", "skip", {f"{NET}/current_link_speed": "Unknown"}),
    ("PCIE-MRRS", "warn", {f"{NET}/config": config_space(read=256)}),
    ("PCIE-MRRS", "warn", {f"{NET}/config": config_space(payload=128)}),
    ("PCIE-RO", "warn", {f"{NET}/config": config_space(relaxed=False)}),
    ("PCIE-ACS", "warn", {f"{PCI}/{SWITCH[2]}/config": config_space(6, acs=0x1D)}),
    ("PCIE-ACS", "skip", {"/proc/cpuinfo": "vendor_id\t: GenuineIntel\nflags\t: fpu hypervisor\n"}),
    ("IOMMU", "warn", {"/sys/kernel/iommu_groups/7/type": "DMA-FQ"}),
    ("MEMLOCK", "fail", {"/proc/self/limits": limits("8388608"),
                         "/proc/self/status": status("0000000000000000")}),
    ("MEMLOCK", "warn", {"/proc/self/limits": limits("68719476736"),
                         "/proc/self/status": status("0000000000000000")}),
    ("MEMLOCK", "skip", {"/proc/self/limits": "nothing of the kind"}),
    ("MR-PROBE", "fail", {"/.railgate/verbs/registration": "mr mlx5_0 0 9 1048576 0 67108864 12"}),
    ("MR-PROBE", "skip", {"/.railgate/verbs/registration": "mr mlx5_0 0 9 1048576 zero"}),
    ("MEMCG", "ok", {}),
    ("RDMA-CG", "fail", {"/sys/fs/cgroup/user.slice/user-0.slice/rdma.max":
                         "mlx5_0 hca_handle=2 hca_object=20"}),
    ("RDMA-CG", "warn", {"/sys/fs/cgroup/user.slice/user-0.slice/rdma.max":
                         "mlx5_0 hca_handle=2 hca_object=500"}),
    ("DEVRES", "warn", {"/.railgate/netlink/rdma-resources": "dev mlx5_0 qp 120000"}),
    ("NUMA", "warn", {f"{NET}/numa_node": "-1"}),
    ("IRQ", "warn", {"/proc/interrupts": interrupts(NIC, [5, 5, 5, 5, 5, 5])}),
    ("IRQ", "skip", {"/proc/interrupts": interrupts("0000:99:00.0", [0, 1])}),
    ("GPU-DRV", "fail", {"/proc/driver/nvidia/version": "NVRM version: gone"}),
    ("PEERMEM", "fail", {"/proc/modules": gpu_host()["/proc/modules"].replace(",nvidia_peermem,",
                                                                              ","),
                         "/.railgate/verbs/registration":
                             "mr mlx5_0 0 95 1048576 0 67108864 0 134217728 0"}),
    ("DMABUF", "warn", {"/.railgate/verbs/registration":
                        "mr mlx5_0 0 95 1048576 0 67108864 0 134217728 0"}),
    ("BAR1", "warn", {f"{PCI}/{GPU}/resource": bars(256 << 20)}),
    ("BAR1", "skip", {f"{PCI}/{GPU}/resource": "0xzz"}),
    ("TOPO", "warn", {f"{PCI}/{GPU}/numa_node": "1"}),
    ("GDS", "skip", {"/proc/driver/nvidia-fs/version": None}),
    ("CUFILE", "warn", {"/etc/cufile.json": cufile(compat="true")}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(more='"force_compat_mode": true,')}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(addresses='["172.16.44.99"]')}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(addresses='["172.16.44.41", "mlx5_7"]')}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(addresses='["fe80::1%ib0"]')}),
    ("CUFILE", "warn", {"/etc/cufile.json": cufile(addresses="[]")}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(addresses='"172.16.44.41"')}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile().replace('"logging"', "logging")}),
    ("CUFILE", "fail", {"/etc/cufile.json": cufile(more='"rdma_peer_type": "peer",')}),
    ("CUFILE", "skip", {"/etc/cufile.json": None}),
    ("CUFILE", "skip", {"/etc/cufile.json": None, "/.railgate/errors": "13 /etc/cufile.json\n"}),
    ("CUFILE", "fail", {"/.railgate/gpu/cufile-path": "/opt/c.json", "/opt/c.json": "[]"}),
    ("XID", "fail", {"/.railgate/gpu/xid": "3 NVRM: Xid (PCI:0000:3e:00): 79, GPU has fallen off"}),
    ("XID", "warn", {"/.railgate/gpu/xid": "3 NVRM: Xid (PCI:0000:3e:00): 31, pid=7, MMU Fault"}),
    ("XID", "warn", {"/.railgate/gpu/xid": "1 NVRM: Xid without a number"}),
    ("XID", "skip", {"/.railgate/gpu/xid": None}),
]


@pytest.mark.parametrize("check, verdict, changes",
                         [m for m in GPU_MUTATIONS if m[2]],
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(GPU_MUTATIONS) if m[2]])
def test_gpu_mutation(tmp_path, check, verdict, changes):
    also = {"PEERMEM": ["DMABUF", "CUFILE"], "MR-PROBE": ["DMABUF"]}.get(check, [])
    forest.assert_turns(gpu_host(), tmp_path, ["--for", "gpu-client"], check, verdict, changes, also)


def test_which_way_cufile_registers(tmp_path):
    """A way that is there is of no use when the other one is set."""
    no_peermem = gpu_host()["/proc/modules"].replace(",nvidia_peermem,", ",")
    no_dmabuf = "mr mlx5_0 0 95 1048576 0 67108864 0 134217728 0"
    dmabuf = {"/etc/cufile.json": cufile(more='"rdma_peer_type": "dmabuf",')}
    for changes, verdict, remedy in (
            ({}, "ok", ""), (dmabuf, "ok", ""),
            ({"/proc/modules": no_peermem}, "fail", '"rdma_peer_type": "dmabuf"'),
            ({"/.railgate/verbs/registration": no_dmabuf, **dmabuf}, "fail", '"rdma_peer_type": "nvidia_peermem"'),
            ({"/.railgate/verbs/registration": None, **dmabuf}, "skip", "")):
        report = forest.judge(mutate(gpu_host(), changes), tmp_path, "--for", "gpu-client")
        finding = next(f for f in forest.findings(report, "CUFILE") if f["subject"] == "rdma_peer_type")
        assert finding["verdict"] == verdict and remedy in finding.get("remedy", ""), finding


def test_cufile_names_the_line(tmp_path):
    tree = mutate(gpu_host(), {"/etc/cufile.json": cufile().replace('"fs": {', '"fs" {')})
    finding = forest.worst(forest.judge(tree, tmp_path, "--for", "gpu-client"), "CUFILE")
    assert finding["verdict"] == "fail" and "line 12" in finding["summary"], finding


def test_cufile_names_a_device_behind_another(tmp_path):
    """An address of an interface without RDMA, and a port that is down."""
    addresses = json.dumps([{"netdev": "ib0", "address": "172.16.44.41", "prefix": 24},
                            {"netdev": "eth9", "address": "10.1.1.1", "prefix": 24},
                            {"netdev": "ib0", "address": "fd00::10", "prefix": 64}])
    tree = mutate(gpu_host(), {"/.railgate/netlink/addresses.json": addresses, "/etc/cufile.json":
                               cufile(addresses='["10.1.1.1", "fd00:0:0::10", "172.16.44.41"]')})
    found = {f["subject"]: f for f in forest.findings(forest.judge(tree, tmp_path, "--for", "gpu-client"),
                                                      "CUFILE")}
    assert found["10.1.1.1"]["verdict"] == "fail" and "no RDMA device" in found["10.1.1.1"]["summary"]
    assert found["fd00:0:0::10"]["verdict"] == "ok" and "mlx5_0/1" in found["fd00:0:0::10"]["summary"]
    down = mutate(tree, {"/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN"})
    found = {f["subject"]: f for f in forest.findings(forest.judge(down, tmp_path, "--for", "gpu-client"),
                                                      "CUFILE")}
    assert found["172.16.44.41"]["verdict"] == "warn"


def test_small_window_is_a_failure_when_more_is_planned(tmp_path):
    tree = mutate(gpu_host(), {f"{PCI}/{GPU}/resource": bars(256 << 20)})
    for size, verdict in (("192M", "ok"), ("224M", "fail")):
        report = forest.judge(tree, tmp_path, "--for", "gpu-client", "--memory", size)
        assert forest.verdicts(report)["BAR1"] == verdict


def test_topology(tmp_path):
    """Behind one switch, behind two root ports, and across sockets."""
    near = forest.worst(forest.judge(gpu_host(), tmp_path, "--for", "gpu-client"), "TOPO")
    assert near["value"].startswith("PIX")
    own_root = mutate(gpu_host(), {f"{PCI}/{SWITCH[3]}/secondary_bus_number": "99",
                                   f"{PCI}/{SWITCH[3]}/subordinate_bus_number": "99"})
    own_root.update(forest.pci("0000:3a:01.0", 0x8086, 1, 0x060400, buses=(0x3E, 0x3E),
                               config=config_space(4, acs=0)))
    far = forest.worst(forest.judge(own_root, tmp_path, "--for", "gpu-client"), "TOPO")
    assert far["verdict"] == "warn" and far["value"].startswith("PHB")


def test_registers_need_root(tmp_path):
    """64 bytes of configuration space are what others get: skipped, and said why."""
    tree = gpu_host()
    for address in [NIC, *SWITCH]:
        tree[f"{PCI}/{address}/config"] = config_space(length=64)
    report = forest.judge(tree, tmp_path, "--for", "gpu-client")
    for check in ("PCIE-MRRS", "PCIE-RO", "PCIE-ACS"):
        finding = forest.worst(report, check)
        assert finding["verdict"] == "skip" and "root" in finding["summary"]


SERVICE = "/sys/fs/cgroup/system.slice/app.service"

MODES = "/.railgate/dev/infiniband-modes"
USER = "/.railgate/users/gateway"

SERVICE_MUTATIONS = [
    ("UVERBS", "fail", {MODES: "uverbs0 660 0 44\nrdma_cm 666 0 0", USER: "991 991 100"}),
    ("UVERBS", "fail", {MODES: "uverbs0 666 0 0\nrdma_cm 600 0 0", USER: "991 991"}),
    ("UVERBS", "fail", {MODES: "uverbs0 606 0 44", USER: "991 991 44"}),
    ("FORK", "warn", {"/.railgate/netlink/rdma-system": "copy_on_fork 0"}),
    ("FORK", "skip", {"/.railgate/netlink/rdma-system": "copy_on_write 1"}),
    ("MEMLOCK", "fail", {"/proc/4242/limits": limits("8388608")}),
    ("MEMLOCK", "fail", {"/proc/4242/limits": limits("1073741824")}),
    ("MEMLOCK", "warn", {"/proc/4242/limits": limits("68719476736")}),
    ("MEMLOCK", "skip", {"/proc/4242/limits": None}),
    ("MEMCG", "warn", {f"{SERVICE}/memory.max": "8589934592"}),
    ("MEMCG", "warn", {f"{SERVICE}/memory.max": "17179869184"}),
    ("RDMA-CG", "fail", {f"{SERVICE}/rdma.max": "mlx5_0 hca_handle=0 hca_object=max"}),
    ("HUGE", "warn", {"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}),
    ("HUGE", "skip", {"/proc/meminfo": None}),
    ("NUMA", "warn", {"/proc/4242/status": status("0000000000000000", "32-63")}),
]


@pytest.mark.parametrize("check, verdict, changes", SERVICE_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(SERVICE_MUTATIONS)])
def test_service_mutation(tmp_path, check, verdict, changes):
    also = {"HUGE": ["GW-PIN"]}.get(check, [])
    forest.assert_turns(service_host(), tmp_path, ["--unit", "app", "--memory", "16G"], check,
                        verdict, changes, also)


def test_a_service_in_the_group_of_the_nodes(tmp_path):
    tree = mutate(service_host(), {MODES: "uverbs0 660 0 44\nrdma_cm 600 991 0", USER: "991 991 44"})
    found = forest.findings(forest.judge(tree, tmp_path, "--unit", "app"), "UVERBS")
    assert [f["verdict"] for f in found if f.get("subject") == "app.service"] == ["ok"]


APP = "/usr/lib/systemd/system/app.service"
UNIT = "[Service]\nUser=gateway\nExecStart=/usr/bin/app\nLimitMEMLOCK=infinity\n"
SHUT = {MODES: "uverbs0 660 0 44\nrdma_cm 666 0 0", USER: "991 991"}


def running_as(uid, gid, groups, capabilities="0000000000000000"):
    return status(capabilities, "0-31") + f"Uid:\t0\t{uid}\t{uid}\t{uid}\nGid:\t0\t{gid}\t{gid}\t{gid}\nGroups:\t{groups} \n"


ACCESS = [
    ("fail", "group 44", {}),
    # The access list: by name, by group, cut by the mask, and before the mode's group.
    ("ok", "", {MODES: "uverbs0 660 0 44 user:991:6 group::6 mask::6"}),
    ("fail", "access list", {MODES: "uverbs0 660 0 44 user:991:6 group::6 mask::4"}),
    ("fail", "access list", {MODES: "uverbs0 666 0 44 user:991:4 group::6 mask::6"}),
    ("ok", "", {MODES: "uverbs0 660 0 44 group:991:6 group::0 mask::6"}),
    ("fail", "access list", {MODES: "uverbs0 666 0 991 group::0 mask::6"}),
    ("skip", "does not hold", {MODES: "uverbs0 660 0 44 user:x:6"}),
    # Groups and capabilities that the unit adds.
    ("ok", "", {APP: UNIT + "SupplementaryGroups=video rdma\n", "/.railgate/groups/rdma": "44",
                "/.railgate/groups/video": "39"}),
    ("fail", "groups 991 39", {APP: UNIT + "SupplementaryGroups=video\n", "/.railgate/groups/video": "39"}),
    ("ok", "", {APP: UNIT + "Group=44\n"}),
    ("skip", "not there", {APP: UNIT + "SupplementaryGroups=rdma\n"}),
    ("ok", "CAP_DAC_OVERRIDE", {APP: UNIT + "AmbientCapabilities=CAP_NET_RAW CAP_DAC_OVERRIDE\n"}),
    ("ok", "CAP_DAC_OVERRIDE", {APP: UNIT + "AmbientCapabilities=~CAP_NET_RAW\n"}),
    ("fail", "", {APP: UNIT + "AmbientCapabilities=CAP_DAC_OVERRIDE\nAmbientCapabilities=\n"}),
    ("fail", "dynamic", {APP: UNIT + "DynamicUser=yes\n"}),
    ("ok", "", {APP: UNIT + "DynamicUser=yes\nSupplementaryGroups=44\n"}),
    # Who it is cannot be known, or what the nodes let in.
    ("skip", "not there", {USER: None}),
    ("skip", "does not hold", {APP: UNIT.replace("gateway", "%i")}),
    ("skip", "not there", {MODES: None}),
    ("skip", "Permission denied", {MODES: None, "/.railgate/errors": f"13 {MODES}\n"}),
    # The process itself is the truth.
    ("ok", "", {"/proc/4242/status": running_as(991, 991, "44 7")}),
    ("fail", "groups 991 7", {"/proc/4242/status": running_as(991, 991, "7")}),
    ("ok", "CAP_DAC_OVERRIDE", {"/proc/4242/status": running_as(991, 991, "7", "0000000000000002")}),
]


@pytest.mark.parametrize("verdict, word, changes", ACCESS, ids=range(len(ACCESS)))
def test_who_may_open_the_nodes(tmp_path, verdict, word, changes):
    tree = mutate(mutate(service_host(), {APP: UNIT, **SHUT}), changes)
    found = [f for f in forest.findings(forest.judge(tree, tmp_path, "--unit", "app"), "UVERBS")
             if f.get("subject") == "app.service"]
    assert [f["verdict"] for f in found] == [verdict], found
    assert word in found[0]["summary"] + found[0].get("value", ""), found


NODES = {MODES: "uverbs0 666 0 0 major::231\nrdma_cm 666 0 0 major::10", USER: "991 991",
         "/proc/devices": "Character devices:\n  1 mem\n 10 misc\n231 infiniband_verbs\n231 infiniband_mad\n"
                          "\nBlock devices:\n  7 loop\n"}
ROOT = "[Service]\nExecStart=/usr/bin/app\nLimitMEMLOCK=infinity\n"
CM = "DeviceAllow=/dev/infiniband/rdma_cm rw\n"

DEVICES = [
    # What a unit forbids, it forbids root too.
    (["fail", "fail"], "hides", ROOT + "PrivateDevices=yes\n" + CM, {}),
    (["fail", "fail"], "forbids", ROOT + "DevicePolicy=closed\n", {}),
    (["fail", "fail"], "forbids", UNIT + "DeviceAllow=/dev/null\n", {}),
    ([], "", ROOT + "DevicePolicy=auto\n", {}),
    (["fail"], "uverbs0", ROOT + "DevicePolicy=strict\n" + CM, {}),
    ([], "", ROOT + CM + "DeviceAllow=char-infiniband_verbs rw\n", {}),
    ([], "", ROOT + CM + "DeviceAllow=char-infiniband*\n", {}),
    ([], "", ROOT + "DeviceAllow=char-misc rw\nDeviceAllow=/dev/infiniband/uverbs0 rwm\n", {}),
    (["ok"], "may open", UNIT + CM + "DeviceAllow=char-infiniband_verbs\n", {}),
    # No group is called so, whatever is often written.
    (["fail"], "uverbs0", ROOT + CM + "DeviceAllow=char-infiniband rw\n", {}),
    (["fail"], "uverbs0", ROOT + CM + "DeviceAllow=char-infiniband_verbs r\n", {}),
    (["fail"], "uverbs0", ROOT + CM + "DeviceAllow=block-infiniband_verbs rw\n", {}),
    # An empty one takes the earlier ones back.
    ([], "", ROOT + "DeviceAllow=/dev/null\nDeviceAllow=\n", {}),
    (["skip"], "cannot be told", ROOT + CM + "DeviceAllow=char-infiniband_verbs rw\n", {"/proc/devices": None}),
    (["skip"], "cannot be told", ROOT + CM + "DeviceAllow=/dev/infiniband/%i rw\n", {}),
]


@pytest.mark.parametrize("verdicts, word, unit, changes", DEVICES, ids=range(len(DEVICES)))
def test_what_the_unit_lets_a_service_open(tmp_path, verdicts, word, unit, changes):
    tree = mutate(mutate(service_host(), {APP: unit, **NODES}), changes)
    found = [f for f in forest.findings(forest.judge(tree, tmp_path, "--unit", "app"), "UVERBS")
             if f.get("subject") == "app.service"]
    assert [f["verdict"] for f in found] == verdicts, found
    assert word in "".join(f["summary"] for f in found), found
    if "fail" in verdicts:
        assert "DeviceAllow=char-infiniband_verbs rw" in found[0]["remedy"]


def test_limit_of_a_service_that_does_not_run(tmp_path):
    tree = mutate(service_host(), {f"{SERVICE}/cgroup.procs": None})
    options = ["--unit", "app", "--memory", "16G"]
    unit = "/usr/lib/systemd/system/app.service"
    assert forest.verdicts(forest.judge(tree, tmp_path, *options))["MEMLOCK"] == "ok"
    for text, verdict in (("LimitMEMLOCK=64M", "fail"), ("LimitMEMLOCK=32G", "warn"),
                          ("LimitMEMLOCK=8M:infinity", "fail"), ("", "fail")):
        changed = mutate(tree, {unit: "[Service]\nUser=app\n" + text})
        assert forest.verdicts(forest.judge(changed, tmp_path, *options))["MEMLOCK"] == verdict
    # A drop-in wins, the last one, and only in its section.
    drop_in = mutate(tree, {unit: "[Service]\nUser=app\n",
                            "/etc/systemd/system/app.service.d/10.conf":
                                "[Service]\nLimitMEMLOCK=1M\n",
                            "/etc/systemd/system/app.service.d/20.conf":
                                "[Service]\nLimitMEMLOCK=infinity\n[Unit]\nLimitMEMLOCK=1M\n"})
    assert forest.verdicts(forest.judge(drop_in, tmp_path, *options))["MEMLOCK"] == "ok"
    default = mutate(tree, {unit: "[Service]\nUser=app\n",
                            "/etc/systemd/system.conf":
                                "[Manager]\nDefaultLimitMEMLOCK=infinity\n"})
    assert forest.verdicts(forest.judge(default, tmp_path, *options))["MEMLOCK"] == "ok"


def test_unit_that_was_not_restarted(tmp_path):
    tree = mutate(service_host(), {"/proc/4242/limits": limits("8388608")})
    report = forest.judge(tree, tmp_path, "--unit", "app", "--memory", "16G")
    finding = forest.worst(report, "MEMLOCK")
    assert "restart" in finding["summary"] and "systemctl restart app.service" in finding["remedy"]


CONTAINER_MUTATIONS = [
    ("CTR-DEV", "fail", {"/dev/infiniband/uverbs0": None}),
    ("CTR-DEV", "warn", {"/dev/infiniband/rdma_cm": None}),
    ("CTR-LOCK", "fail", {"/proc/self/limits": limits("65536"),
                          "/proc/self/status": status("00000000a80425fb")}),
    ("CTR-GID", "fail", {"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0": "ens9"}),
]


@pytest.mark.parametrize("check, verdict, changes", CONTAINER_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}" for m in CONTAINER_MUTATIONS])
def test_container_mutation(tmp_path, check, verdict, changes):
    also = {"CTR-LOCK": ["MEMLOCK"],
            # What reaches an address that is gone is judged with the ports.
            "CTR-GID": ["GID-TABLE", "GID-MAC", "PORT-MTU", "ADDR", "PFC-ON", "LLDP-OWNER"]}.get(check, [])
    report = forest.assert_turns(container(), tmp_path, [], check, verdict, changes, also)
    assert "in the pod" in forest.worst(report, check)["remedy"]


def test_container_without_its_devices(tmp_path):
    """sysfs shows the host's card; nothing was passed in."""
    tree = mutate(container(), {"/dev/infiniband": None,
                                "/.railgate/dev/infiniband.json": None})
    report = forest.judge(tree, tmp_path)
    assert forest.verdicts(report)["CTR-DEV"] == "fail"


def test_remedies_follow_the_distribution(tmp_path):
    for release, word in ((forest.RHEL, "grubby"), (forest.DEBIAN, "update-grub")):
        tree = mutate(gpu_host(), {"/etc/os-release": release,
                                   "/sys/kernel/iommu_groups/7/type": "DMA"})
        report = forest.judge(tree, tmp_path, "--for", "gpu-client")
        assert word in forest.worst(report, "IOMMU")["remedy"]


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff" * 5000, b"a" * 70000, b"\n" * 999,
                                     b"-9223372036854775809", b"0x", b"%s%n\x1b[31m"])
def test_strange_files_never_break_it(tmp_path, content):
    """Every file of the tree in turn... all at once: it still answers, and colours nothing."""
    base = {**gpu_host(), **service_files("app.service"), **container()}
    tree = {p: c if isinstance(c, forest.Link) else content for p, c in base.items()}
    report = forest.judge(tree, tmp_path, "--unit", "app")
    assert "\x1b" not in json.dumps(report)


def test_interrupts_of_hundreds_of_cpus(tmp_path):
    """The table has many megabytes; the card's lines stand at its end."""
    others = "\n".join(f" {i}: " + " ".join(["         7"] * 512) + f"  PCI-MSI {i}-edge  nvme0q{i}"
                       for i in range(400))
    for cpu, verdict in (([0, 1, 2, 3, 4, 5], "ok"), ([5] * 6, "warn")):
        head, rows = interrupts(NIC, cpu, cpus=512).split("\n", 1)
        tree = mutate(gpu_host(), {"/proc/interrupts": f"{head}\n{others}\n{rows}"})
        assert len(tree["/proc/interrupts"]) > 2 << 20
        found = forest.worst(forest.judge(tree, tmp_path), "IRQ")
        assert found["verdict"] == verdict and "of 512" in found["value"], found


def test_what_is_left_out_is_told(tmp_path):
    many = {}
    for number in range(600):
        base = f"{PCI}/{0x100 + number // 32:04x}:00:{number % 32:02x}.0"
        many.update({f"{base}/vendor": "0x1af4", f"{base}/device": "0x1000", f"{base}/class": "0x020000"})
    report = forest.judge(mutate(gpu_host(), many), tmp_path)
    assert len(report["cut"]) == 1 and "PCI" in report["cut"][0]
    assert report["verdict"] in ("warn", "fail")
    for options, word in (((), "some were left out"), (("--html", str(tmp_path / "page")), "")):
        done = forest.run("doctor", "--sysroot", str(tmp_path / "tree"), *options)
        assert word in done.stdout
    assert "some were left out" in (tmp_path / "page").read_text(encoding="utf-8")
    assert "cut" not in forest.judge(gpu_host(), tmp_path)


def test_a_registration_that_was_not_tried_is_told(tmp_path):
    tree = mutate(gpu_host(), {"/.railgate/verbs/registration":
                               "mr mlx5_0 0 9 1048576 0 67108864 0 134217728 -1"})
    found = forest.worst(forest.judge(tree, tmp_path, "--memory", "128M"), "MR-PROBE")
    assert found["verdict"] == "ok" and "64" in found["summary"] and "not tried" in found["summary"], found


# ---- What the role stands on, and nobody could judge ----

HIDDEN = {"/sys/class": None, "/sys/bus": None, "/sys/kernel": None, "/.railgate/verbs": None,
          "/dev/infiniband": None, "/.railgate/dev": None}


@pytest.mark.parametrize("role, checks", [
    ("", ["DEV-RDMA", "UVERBS", "PORT-STATE", "GID-TABLE"]),
    ("gateway", ["DEV-RDMA", "UVERBS", "PORT-STATE", "GID-TABLE"]),
    ("client", ["DEV-RDMA", "UVERBS", "PORT-STATE", "GID-TABLE"]),
    ("gpu-client", ["DEV-RDMA", "UVERBS", "PORT-STATE", "GID-TABLE", "GPU-DRV", "PEERMEM"]),
    ("aistor", ["DEV-RDMA", "UVERBS", "PORT-STATE", "GID-TABLE"]),
])
def test_a_container_that_hides_sysfs_is_not_well(tmp_path, role, checks):
    """What else is well does not make it well."""
    tree = mutate(container(), {**HIDDEN, "/run/secrets/kubernetes.io": None})
    report = forest.judge(tree, tmp_path, *(["--for", role] if role else []))
    assert report["verdict"] in ("warn", "fail") and "nothing_judged" not in report
    if role != "aistor":
        assert "ok" in forest.verdicts(report).values()
    assert report["unjudged"]["checks"] == checks
    assert any("/sys/class/net is not there" in why for why in report["unjudged"]["hidden"])
    for word in ("docker run", "-v /sys:/sys:ro", "--device=/dev/infiniband", "--network=host"):
        assert word in report["unjudged"]["remedy"], report["unjudged"]
    page = tmp_path / "page.html"
    done = forest.run("doctor", "--sysroot", str(tmp_path / "tree"), "--html", str(page),
                      *(["--for", role] if role else []))
    assert done.returncode >= 1 and "could not be judged: DEV-RDMA" in done.stdout
    assert "docker run" in done.stdout and "docker run" in page.read_text(encoding="utf-8")


def test_where_more_would_be_seen(tmp_path):
    """In a pod, in podman, on the host itself."""
    for sign, word in (({}, "hostNetwork: true"),
                       ({"/run/secrets": None}, "docker run"),
                       ({"/run/secrets": None, "/.dockerenv": None, "/run/.containerenv": ""}, "podman run"),
                       ({"/run/secrets": None, "/.dockerenv": None}, "as root, into a new directory")):
        report = forest.judge(mutate(container(), {**HIDDEN, **sign}), tmp_path)
        assert word in report["unjudged"]["remedy"] and "capture DIR" in report["unjudged"]["remedy"]


def test_one_thing_that_the_role_stands_on(tmp_path):
    """Each of them alone is enough, and only for the roles that need it."""
    limits_gone = {"/proc/self/limits": None}
    report = forest.judge(mutate(gpu_host(), limits_gone), tmp_path, "--for", "gpu-client")
    assert report["unjudged"]["checks"] == ["MEMLOCK"]
    assert "unjudged" not in forest.judge(mutate(gpu_host(), limits_gone), tmp_path, "--for", "lustre-server")
    ports = {"/.railgate/errors": "13 /sys/class/infiniband/mlx5_0/ports\n"}
    report = forest.judge(mutate(gpu_host(), ports), tmp_path)
    assert report["unjudged"]["checks"] == ["PORT-STATE", "GID-TABLE"]
    assert "unjudged" not in forest.judge(gpu_host(), tmp_path, "--for", "gpu-client")


def test_a_failure_is_not_told_twice(tmp_path):
    """No device: that its ports were not judged needs no words."""
    report = forest.judge(mutate(gpu_host(), {"/sys/class/infiniband": None}), tmp_path, "--for", "client")
    assert forest.verdicts(report)["DEV-RDMA"] == "fail" and "unjudged" not in report


# ---- Others ----

def test_flaps_since_a_baseline(tmp_path):
    """An hour does not make twenty flaps well."""
    old = {"railgate_doctor": 1, "seconds": int(time.time()) - 3600, "boot_id": None, "counters": {}}
    for before, verdict in ((0, "ok"), (-20, "warn")):
        old["counters"] = {"ib0 carrier_changes": 20 + before}
        (tmp_path / "base").write_text(json.dumps(old))
        tree = mutate(gpu_host(), {"/sys/class/net/ib0/carrier_changes": "20"})
        report = forest.judge(tree, tmp_path, "--baseline", str(tmp_path / "base"))
        assert forest.verdicts(report)["CNT-CARRIER"] == verdict


def test_other_objects_run_out_too(tmp_path):
    survey = json.loads(gpu_host()["/.railgate/verbs/survey.json"])
    survey["devices"][0].update({"max_cq": 1000, "max_mr": 5000})
    for used, verdict, words in (("qp 9 cq 9 mr 9", "ok", ""), ("qp 9 cq 900 mr 9", "warn", "cq dev mlx5_0"),
                                 ("qp 9 cq 9 mr 4001", "warn", "mr dev mlx5_0"),
                                 ("qp 130000 cq 9 mr 9", "warn", "qp link mlx5_0")):
        tree = mutate(gpu_host(), {"/.railgate/verbs/survey.json": json.dumps(survey),
                                   "/.railgate/netlink/rdma-resources": "dev mlx5_0 " + used})
        found = forest.worst(forest.judge(tree, tmp_path), "DEVRES")
        assert found["verdict"] == verdict and words in found.get("remedy", ""), found


def test_amd_gpus_are_mended_by_amd(tmp_path):
    """Nothing of NVIDIA's is told to whoever has none of it."""
    tree = mutate(gpu_host(), {f"{PCI}/{GPU}/vendor": "0x1002", f"{PCI}/{GPU}/device": "0x740f",
                               f"{PCI}/{GPU}/driver": forest.Link("../../../bus/pci/drivers/amdgpu"),
                               f"{PCI}/{GPU}/numa_node": "1", f"{PCI}/{GPU}/resource": bars(256 << 20),
                               "/proc/modules": "ib_core 1 1 ib_uverbs, Live 0x0\namdgpu 1 0 - Live 0x0\n",
                               "/.railgate/verbs/registration":
                                   "mr mlx5_0 0 95 1048576 0 67108864 0 134217728 0"})
    report = forest.judge(tree, tmp_path, "--for", "gpu-client")
    for check in ("PEERMEM", "DMABUF", "BAR1", "TOPO"):
        found = forest.worst(report, check)
        assert found["verdict"] in ("warn", "fail"), found
        assert "nvidia" not in found["remedy"].lower(), found
    assert "rocm-smi" in forest.worst(report, "TOPO")["remedy"]


def test_remedies_of_one_unit_do_not_undo_each_other(tmp_path):
    tree = mutate(service_host(), {"/proc/4242/limits": limits("8388608"), APP: "[Service]\nUser=app\n",
                                   f"{SERVICE}/memory.max": "8589934592"})
    report = forest.judge(tree, tmp_path, "--unit", "app", "--memory", "16G")
    files = [line.split(">")[1] for check in ("MEMLOCK", "MEMCG")
             for line in forest.worst(report, check)["remedy"].splitlines() if ">" in line]
    assert len(files) == 2 and len(set(files)) == 2, files


# ---- What remedies must not break ----

def judge_machine(tmp_path, name, changes, *options):
    """The report on one of the machines that are text (README), changed."""
    directory = tmp_path / "machine"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    unpack(f"{name}.tree", str(directory), changes)
    done = forest.run("doctor", "--sysroot", str(directory), "--json", *options)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def dcb(netdev, **more):
    facts = {"known": True, "pfc": 8, "dscp": {"26": 3, "48": 6}, "class_of_priority": [0, 0, 0, 1, 0, 0, 2, 0],
             "bandwidth": [50, 50, 0, 0, 0, 0, 0, 0], "algorithm": [2, 2, 0, 0, 0, 0, 0, 0], **more}
    return f"/.railgate/netlink/dcb/{netdev}.json = " + json.dumps(facts)


@pytest.mark.parametrize("release", ["debian", "rocky", "other"])
def test_no_link_up_unloads_irdma(tmp_path, release):
    """What is to be kept over a reboot does not hold the lines that end RDMA."""
    changes = [dcb("ens2f0", class_of_priority=[0] * 8), f"/etc/os-release = ID={release}"]
    lines = forest.worst(judge_machine(tmp_path, "e810", changes), "ETS")["remedy"].splitlines()
    assert any(line.startswith("modprobe -r irdma") for line in lines) and "modprobe irdma" in lines
    kept = "\n".join(line for line in lines if line.startswith("#"))
    for word in ("same lines", "dispatcher", "post-up", "/etc/network/interfaces", "modprobe -r"):
        assert word not in kept, kept
    for word in ("the ethtool and dcb lines only", "once at boot", "before irdma loads", "blacklist irdma",
                 "sys-subsystem-net-devices-ens2f0.device"):
        assert word in kept, kept


def connectx_port(number, address, layer, *more):
    """Another port of the board that cx-roce has."""
    base, pci = f"/sys/class/infiniband/mlx5_{number}", f"{PCI}/{address}"
    return [f"{base}/device -> {pci}", f"{base}/node_type = 1: CA", f"{base}/board_id = MT_0000000359",
            f"{base}/ports/1/link_layer = {layer}", f"{base}/ports/1/state = 4: ACTIVE",
            f"{pci}/vendor = 0x15b3", f"{pci}/device = 0x101d", f"{pci}/class = 0x020000", *more]


def layers(tmp_path, *changes):
    found = forest.findings(judge_machine(tmp_path, "cx-roce", changes), "PORT-LAYER")
    return {f["subject"]: f for f in found}


SECOND = "/sys/class/infiniband/mlx5_1/ports/1/link_layer = "


def test_two_ports_of_different_types_may_be_meant(tmp_path):
    """Two commands, each with the other's type, would swap them."""
    found = layers(tmp_path, SECOND + "InfiniBand")
    assert [f["verdict"] for f in found.values()] == ["warn"] and "mlx5_0/1" in found, found
    remedy = found["mlx5_0/1"]["remedy"]
    assert remedy.startswith("# ") and "\n" not in remedy and "the operator's" in remedy, remedy
    # Two and two are no majority either.
    four = layers(tmp_path, SECOND + "InfiniBand", *connectx_port(2, "0000:5e:00.0", "InfiniBand"),
                  *connectx_port(3, "0000:5e:00.1", "Ethernet"))
    assert [f["verdict"] for f in four.values()] == ["warn"] and "mstconfig -d" not in json.dumps(four), four


def test_the_one_port_that_differs_gets_the_command(tmp_path):
    found = layers(tmp_path, SECOND + "InfiniBand", *connectx_port(2, "0000:5e:00.0", "Ethernet"))
    assert {s: f["verdict"] for s, f in found.items()} == {"mlx5_0/1": "ok", "mlx5_1/1": "warn", "mlx5_2/1": "ok"}
    assert "mstconfig -d 0000:3b:00.1 set LINK_TYPE_P2=2 " in found["mlx5_1/1"]["remedy"]


def test_virtual_functions_have_no_type_to_set(tmp_path):
    """Nor are they counted: two physical ports stay two."""
    virtual = [f"{PCI}/0000:3b:00.2/physfn -> {PCI}/0000:3b:00.0"]
    same = layers(tmp_path, *connectx_port(2, "0000:3b:00.2", "InfiniBand", *virtual))
    assert {f["verdict"] for f in same.values()} == {"ok"} and len(same) == 3, same
    found = layers(tmp_path, SECOND + "InfiniBand", *connectx_port(2, "0000:3b:00.2", "Ethernet", *virtual))
    assert found["mlx5_2/1"]["verdict"] == "ok" and "mstconfig -d" not in json.dumps(found), found


@pytest.mark.parametrize("devices, verdict", [(("mlx5_0", "mlx5_1"), "ok"), (("mlx5_0", "mlx5_7"), "warn"),
                                              (("mlx5_1", None), "skip")])
def test_a_node_of_a_device_in_another_namespace(tmp_path, devices, verdict):
    """As many nodes as devices says nothing: their names do."""
    changes = ["/sys/module/ib_core/parameters/netns_mode = N"]
    changes += [f"/sys/class/infiniband_verbs/uverbs{i}/ibdev = {name}" for i, name in enumerate(devices) if name]
    found = forest.worst(judge_machine(tmp_path, "cx-roce", changes), "NETNS")
    assert found["verdict"] == verdict, found
    if verdict == "warn":
        assert "uverbs1" in found["summary"] and "rdma dev set mlx5_7 netns" in found["remedy"], found


@pytest.mark.parametrize("options, words", [
    ("rw,seclabel,flock,lazystatfs,nouser_xattr", "rw,flock,lazystatfs,user_xattr"),
    ("rw,flock", "rw,flock,user_xattr"), (None, "flock,user_xattr")])
def test_a_new_mount_keeps_its_options(tmp_path, options, words):
    """Locks across clients need flock, which a mount has only when it is said again."""
    mounts = f"10.0.0.1@o2ib:/fs /srv/s3 lustre {options} 0 0" if options else "/dev/sda1 / xfs rw 0 0"
    tree = mutate(gpu_host(), {"/proc/mounts": mounts, "/.railgate/gateway/tree":
                               f"type {0x0bd00bd0}\nget 95\nreplace 95\nopen 0\nwrite 0\n"})
    found = forest.worst(forest.judge(tree, tmp_path, "--for", "gateway", "--root", "/srv/s3"), "GW-TREE")
    assert found["verdict"] == "fail" and f" -o {words} " in found["remedy"], found


@pytest.mark.parametrize("when, words", [("@1790000000 ", "2026-09-21T14:13:20Z"), ("", ""), ("@x ", "")])
@pytest.mark.parametrize("number, verdict", [(79, "fail"), (31, "warn")])
def test_when_the_gpu_failed(tmp_path, when, words, number, verdict):
    """And what makes it well again; the log of a machine that does not tell the time is read too."""
    line = f"NVRM: Xid (PCI:0000:3e:00): {number}, pid=7"
    report = forest.judge(mutate(gpu_host(), {"/.railgate/gpu/xid": f"3 {when}{line}"}), tmp_path, "--for", "gpu-client")
    found = forest.worst(report, "XID")
    assert found["verdict"] == verdict and words in found["summary"] and found["value"] == line, found
    assert bool(words) == ("Z" in found["summary"].split("Xid lines")[1]), found
    assert "a reset of the GPU" in found["remedy"] and "reboot clears it" in found["remedy"], found
