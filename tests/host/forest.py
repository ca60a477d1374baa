"""Trees of files that `railgate doctor --sysroot` judges: made by hand, changed in one place, judged.

A tree is a dictionary from paths to contents: text, bytes, or a Link. A mutation is a dictionary of
the same kind, in which None removes a path and everything below it.
"""

import json
import os
import shutil
import struct
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(TOP, os.environ.get("RG_BINARY", "build/railgate"))


class Link(str):
    """A symbolic link to this."""


def mutate(tree, changes):
    result = dict(tree)
    for path, content in changes.items():
        if content is None:
            for old in [p for p in result if p == path or p.startswith(path + "/")]:
                del result[old]
        else:
            result[path] = content
    return result


def write(tree, directory):
    for path, content in tree.items():
        full = os.path.join(directory, path.lstrip("/"))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if path.endswith("/"):
            os.makedirs(full, exist_ok=True)
        elif isinstance(content, Link):
            os.symlink(content, full)
        elif isinstance(content, bytes):
            with open(full, "wb") as file:
                file.write(content)
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(content if content.endswith("\n") or not content else content + "\n")


def run(*words, **more):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, **more)


def judge(tree, tmp_path, *options):
    """The report on a tree."""
    directory = str(tmp_path / "tree")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    write(tree, directory)
    done = run("doctor", "--sysroot", directory, "--json", *options)
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    expected = {"fail": 2, "warn": 1}.get(report["verdict"], 0)
    assert done.returncode == expected, (done.returncode, report["verdict"])
    return report


def verdicts(report):
    return {check["id"]: check["verdict"] for check in report["checks"]}


def findings(report, check):
    return [f for c in report["checks"] if c["id"] == check for f in c["findings"]]


def worst(report, check):
    order = ["skip", "ok", "warn", "fail"]
    return max(findings(report, check), key=lambda f: order.index(f["verdict"]))


def bad(report):
    return {i: v for i, v in verdicts(report).items() if v in ("warn", "fail")}


def assert_turns(base, tmp_path, options, check, verdict, changes, also=()):
    """The mutation gives exactly this check that verdict, and changes no other's."""
    before = verdicts(judge(base, tmp_path, *options))
    report = judge(mutate(base, changes), tmp_path, *options)
    after = verdicts(report)
    changed = {i: after[i] for i in after if after[i] != before[i]}
    assert changed.pop(check, None) == verdict, (check, before[check], after[check], changed)
    for name in also:
        changed.pop(name, None)
    assert changed == {}, changed
    finding = worst(report, check)
    assert finding.get("summary")
    if verdict in ("warn", "fail"):
        assert finding.get("where"), finding
        assert finding.get("remedy"), finding
        assert finding.get("value"), finding
    return report


# ---- Pieces of machines ----

RHEL = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nPRETTY_NAME="Rocky Linux 9.4"\n'
DEBIAN = 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
ALL_CAPABILITIES = "000001ffffffffff"


def limits(soft, hard=None):
    return ("Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max open files            1024                 524288               files     \n"
            f"Max locked memory         {soft:<20} {hard or soft:<20} bytes     \n")


def status(capabilities=ALL_CAPABILITIES, cpus="0-63"):
    return (f"Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t{capabilities}\n"
            f"Cpus_allowed_list:\t{cpus}\n")


def meminfo(total_kib=263000000, huge=0, free=0):
    return (f"MemTotal:       {total_kib} kB\nMemFree:        200000000 kB\n"
            f"MemAvailable:   240000000 kB\nHugePages_Total: {huge}\nHugePages_Free: {free}\n"
            "Hugepagesize:       2048 kB\n")


def interrupts(address, counts, cpus=8):
    lines = ["".join(f"       CPU{i}" for i in range(cpus))]
    for number, cpu in enumerate(counts):
        row = ["0"] * cpus
        row[cpu] = "50000"
        lines.append(f" {100 + number}: " + " ".join(row) +
                     f"  PCI-MSI {number}-edge      mlx5_comp{number}@pci:{address}")
    lines.append(" NMI: " + " ".join(["1"] * cpus) + "   Non-maskable interrupts")
    return "\n".join(lines) + "\n"


def system(release=RHEL):
    return {
        "/proc/sys/kernel/hostname": "gw1",
        "/proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64",
        "/proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
        "/etc/os-release": release,
        "/proc/self/status": status(),
        "/proc/self/limits": limits("unlimited"),
        "/proc/self/cgroup": "0::/user.slice/user-0.slice",
        "/proc/meminfo": meminfo(),
        "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme sse2\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/devices/system/node/online": "0-1",
        "/sys/class/net/lo/type": "772",
        "/proc/mounts": "/dev/sda1 / xfs rw,relatime 0 0",
        "/proc/net/tcp": SOCKETS_HEAD,
        "/proc/modules": "ib_core 499712 4 ib_uverbs,rdma_cm,mlx5_ib, Live 0x0\n"
                         "ib_uverbs 188416 1 mlx5_ib, Live 0x0\nrdma_ucm 32768 0 - Live 0x0\n"
                         "rdma_cm 131072 1 rdma_ucm, Live 0x0\nib_umad 40960 0 - Live 0x0\n"
                         "ib_ipoib 1000 0 - Live 0x0\nmlx5_ib 4000 0 - Live 0x0\n",
    }


SOCKETS_HEAD = ("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
                "timeout inode\n")


def listening(*ports):
    return SOCKETS_HEAD + "".join(
        f"   {i}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 1\n"
        for i, port in enumerate(ports))


def config_space(kind=0, payload=256, payload_able=512, read=4096, relaxed=True, acs=None,
                 length=4096):
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, 0x15B3, 0x101B)
    struct.pack_into("<H", space, 6, 0x10)
    space[0x34] = 0x60
    code = {128: 0, 256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
    control = code[payload] << 5 | code[read] << 12 | (0x10 if relaxed else 0)
    struct.pack_into("<BBHIH", space, 0x60, 0x10, 0, kind << 4 | 2, code[payload_able], control)
    if acs is not None:
        struct.pack_into("<IHH", space, 0x100, 0x0001000D, 0x5F, acs)
    return bytes(space[:length])


PCI = "/sys/bus/pci/devices"


def pci(address, vendor, device, pci_class, node=0, driver=None, speed="16.0 GT/s PCIe", width=16,
        config=None, buses=None, iommu=None):
    base = f"{PCI}/{address}"
    tree = {
        f"{base}/vendor": f"0x{vendor:04x}",
        f"{base}/device": f"0x{device:04x}",
        f"{base}/class": f"0x{pci_class:06x}",
        f"{base}/numa_node": str(node),
        f"{base}/local_cpulist": "0-31",
        f"{base}/current_link_speed": speed,
        f"{base}/max_link_speed": speed,
        f"{base}/current_link_width": str(width),
        f"{base}/max_link_width": str(width),
        f"{base}/config": config if config is not None else config_space(),
    }
    if driver:
        tree[f"{base}/driver"] = Link(f"../../../bus/pci/drivers/{driver}")
    if buses:
        tree[f"{base}/secondary_bus_number"] = str(buses[0])
        tree[f"{base}/subordinate_bus_number"] = str(buses[1])
    if iommu:
        tree[f"{base}/iommu_group"] = Link("../../../kernel/iommu_groups/7")
        tree["/sys/kernel/iommu_groups/7/type"] = iommu
    return tree


NIC = "0000:3d:00.0"
GPU = "0000:3e:00.0"
SWITCH = ["0000:3a:00.0", "0000:3b:00.0", "0000:3c:00.0", "0000:3c:01.0"]


def switch():
    """A root port and a PCI Express switch with two ports below it."""
    tree = {}
    for address, kind, buses in zip(SWITCH, (4, 5, 6, 6), ((0x3B, 0x3E), (0x3C, 0x3E), (0x3D, 0x3D),
                                                           (0x3E, 0x3E))):
        tree.update(pci(address, 0x1000, 0xC030, 0x060400, driver="pcieport", buses=buses,
                        config=config_space(kind, acs=0)))
    return tree


def connectx(name="mlx5_0", address=NIC, netdev="ib0", ip="172.16.44.41"):
    """A ConnectX-6 on InfiniBand."""
    base = f"/sys/class/infiniband/{name}"
    port = f"{base}/ports/1"
    net = f"/sys/class/net/{netdev}"
    gid = "fe80:0000:0000:0000:b859:9f03:00aa:bb01"
    tree = pci(address, 0x15B3, 0x101B, 0x020700, driver="mlx5_core")
    tree.update({
        f"{base}/device": Link(f"../../../{address}"),
        f"{base}/node_type": "1: CA",
        f"{base}/fw_ver": "20.39.2048",
        f"{base}/board_id": "MT_0000000223",
        f"{base}/node_guid": "b859:9f03:00aa:bb01",
        f"{port}/state": "4: ACTIVE",
        f"{port}/phys_state": "5: LinkUp",
        f"{port}/rate": "200 Gb/sec (4X HDR)",
        f"{port}/link_layer": "InfiniBand",
        f"{port}/lid": "0x12",
        f"{port}/sm_lid": "0x1",
        f"{port}/gids/0": gid,
        f"{port}/gid_attrs/types/0": "IB/RoCE v1",
        f"{net}/type": "32",
        f"{net}/device": Link(f"../../../{address}"),
        f"{net}/ifindex": "4",
        f"{net}/mtu": "2044",
        f"{net}/speed": "200000",
        f"{net}/carrier": "1",
        f"{net}/flags": "0x1043",
        f"{net}/dev_port": "0",
        f"{net}/carrier_changes": "2",
        f"{net}/operstate": "up",
        f"{net}/address": "00:00:10:49:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:aa:bb:01",
        f"{net}/mode": "datagram",
        f"{net}/pkey": "0xffff",
        "/proc/interrupts": interrupts(address, [0, 1, 2, 3, 4, 5]),
        "/dev/infiniband/uverbs0": "",
        "/dev/infiniband/rdma_cm": "",
        "/.railgate/dev/infiniband.json": '{"uverbs0": 0, "rdma_cm": 0}',
        "/.railgate/netlink/addresses.json": json.dumps(
            [{"netdev": netdev, "address": ip, "prefix": 24}]),
        "/.railgate/verbs/survey.json": json.dumps({
            "libraries": {"libibverbs.so.1": "", "librdmacm.so.1": ""},
            "devices": [{"name": name, "errno": 0, "max_qp": 131072, "max_mr_size": 1 << 40,
                         "ports": [{"number": 1, "state": 4, "link_layer": 1, "lid": 18,
                                    "sm_lid": 1, "max_mtu": 4096, "active_mtu": 4096}]}]}),
        "/.railgate/verbs/registration": f"mr {name} 0 9 1048576 0 67108864 0 134217728 0",
        "/.railgate/netlink/rdma-system": "copy_on_fork 1",
        "/.railgate/netlink/rdma-resources":
            f"dev {name} pd 4 cq 10 qp 40 mr 12\nqp {name} 100 2 3 0",
        "/sys/fs/cgroup/user.slice/user-0.slice/memory.max": "max",
        "/sys/fs/cgroup/user.slice/user-0.slice/rdma.max":
            f"{name} hca_handle=max hca_object=max",
    })
    return tree
