#!/usr/bin/python3
"""Times `railgate doctor` on a made-up host that is as large as hosts are: 16 NICs, 8 GPUs, 512 CPUs.

The host is a tree (--sysroot): what a real one's kernel takes to answer, above all the probes and
the second between two readings of the counters, is not in the figures; the reading and judging is.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("RG_BUILD", ROOT / "build"))
sys.path.insert(0, str(ROOT / "tests/host"))
import unpack  # noqa: E402  (it stands beside the trees)

NIC = "0000:3b:00.0"
GIDS = 256
VECTORS = 64
OTHER_INTERRUPTS = 600
FUNCTIONS = 400


def nic_entries(entries, index, name, netdev):
    """The first card of the RoCE host again, under names and addresses of its own."""
    address = f"{0x10 + index:04x}:01:00.0"
    words = [(NIC, address), ("mlx5_0", name), ("ens1f0np0", netdev), ("0a0a:0005", f"0a{index:02x}:0005"),
             ("94:6d:ae:00:00:02", f"94:6d:ae:00:{index:02x}:02"),
             ("946d:ae03:0000:0004", f"946d:ae03:00{index:02x}:0004")]
    made = {}
    for path, rest in entries.items():
        if NIC not in path + rest and "mlx5_0" not in path and "ens1f0np0" not in path:
            continue
        for old, new in words:
            path, rest = path.replace(old, new), rest.replace(old, new)
        made[path] = f"= {10 + index}" if path.endswith("/ifindex") else rest
    base = f"/sys/class/infiniband/{name}/ports/1"
    for slot in range(5, GIDS):
        made[f"{base}/gids/{slot}"] = "= 0000:0000:0000:0000:0000:0000:0000:0000"
    return address, made


def gpu_entries(address, index):
    where = f"/sys/bus/pci/devices/{address}"
    return {f"{where}/vendor": "= 0x10de", f"{where}/device": "= 0x2330",
            f"{where}/class": "= 0x030200", f"{where}/numa_node": f"= {index % 2}",
            f"{where}/driver": "-> /sys/bus/pci/drivers/nvidia",
            f"/proc/driver/nvidia/gpus/{address}/information": "= Model: \t\t NVIDIA H100"}


def documents(base, names):
    """What no file tells, of all cards at once."""
    survey = json.loads(base["/.railgate/verbs/survey.json"][2:])
    device = survey["devices"][0]
    survey["devices"] = [{**device, "name": name} for name, _ in names]
    addresses = [{"netdev": netdev, "address": f"10.{index}.0.5", "prefix": 24}
                 for index, (_, netdev) in enumerate(names)]
    nodes = {"rdma_cm": 0, **{f"uverbs{index}": 0 for index in range(len(names))}}
    return {"/.railgate/verbs/survey.json": "= " + json.dumps(survey),
            "/.railgate/netlink/addresses.json": "= " + json.dumps(addresses),
            "/.railgate/dev/infiniband.json": "= " + json.dumps(nodes)}


def interrupt_lines(addresses, cpus):
    yield "           " + "".join(f"{'CPU' + str(i):>11}" for i in range(cpus))
    number = 0
    for nic, address in enumerate(addresses):
        for vector in range(VECTORS):
            cpu = (nic * VECTORS + vector) % cpus
            counts = ["         0"] * cpus
            counts[cpu] = f"{123456 + vector:>10}"
            yield (f"{number:>4}: " + " ".join(counts) +
                   f"  IR-PCI-MSIX-{address} {vector}-edge  mlx5_comp{vector}@pci:{address}")
            number += 1
    for _ in range(OTHER_INTERRUPTS):
        yield (f"{number:>4}: " + " ".join(["         7"] * cpus) + f"  IR-PCI-MSI {number}-edge  nvme{number}q1")
        number += 1


def make_host(root, nics, gpus, cpus):
    base, entries = {}, {}
    unpack.read_file("cx-roce.tree", base)
    entries.update({path: rest for path, rest in base.items()
                    if not any(word in path for word in (NIC, "mlx5_0", "mlx5_1", "ens1f", "0000:3b:00.1"))})
    names = [(f"mlx5_{index}", f"ens{index}np0") for index in range(nics)]
    addresses = []
    for index, (name, netdev) in enumerate(names):
        address, made = nic_entries(base, index, name, netdev)
        entries.update(made)
        addresses.append(address)
    entries.update(documents(base, names))
    for index in range(gpus):
        entries.update(gpu_entries(f"{0x10 + index:04x}:02:00.0", index))
    for index in range(FUNCTIONS):
        where = f"/sys/bus/pci/devices/{0x40 + index // 32:04x}:00:{index % 32:02x}.0"
        entries.update({f"{where}/vendor": "= 0x8086", f"{where}/device": "= 0x0b60",
                        f"{where}/class": "= 0x088000"})
    processor = "processor\\t: %d\\nvendor_id\\t: GenuineIntel\\nflags\\t\\t: " + "flag " * 250
    entries["/proc/cpuinfo"] = "= " + "\\n\\n".join(processor % i for i in range(cpus))
    entries["/proc/modules"] = base["/proc/modules"] + "".join(
        f"\\nmodule{i} 4096 0 - Live 0x0" for i in range(300))
    unpack_entries(root, entries)
    with open(f"{root}/proc/interrupts", "w", encoding="ascii") as file:
        file.writelines(line + "\n" for line in interrupt_lines(addresses, cpus))


def unpack_entries(root, entries):
    for path in [p for p in entries if unpack.COUNTER.search(p) and not p.startswith(unpack.AGAIN)]:
        entries.setdefault(unpack.AGAIN + path, entries[path])
    for path in sorted(entries, key=lambda p: entries[p].startswith("->")):
        unpack.write(root, path, entries[path])


def run_once(root, *options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    done = subprocess.run([BUILD / "railgate", "doctor", "--sysroot", root, "--json", *options],
                          capture_output=True, text=True, check=False)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nics", type=int, default=16)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--cpus", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", metavar="DIR", help="make the tree here, and leave it")
    parser.add_argument("--out", type=pathlib.Path, help="write the figures here, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.keep or scratch
        make_host(root, arguments.nics, arguments.gpus, arguments.cpus)
        interrupts = os.path.getsize(f"{root}/proc/interrupts")
        runs = [run_once(root) for _ in range(arguments.rounds)]
    report = runs[-1][2]
    found = [c for c in report["checks"] if c["verdict"] in ("warn", "fail")]
    figures = {"nics": arguments.nics, "gpus": arguments.gpus, "cpus": arguments.cpus,
               "interrupts_bytes": interrupts, "wall_s": statistics.median(r[0] for r in runs),
               "cpu_s": statistics.median(r[1] for r in runs), "counts": report["counts"],
               "not_well": [c["id"] for c in found]}
    print(json.dumps(figures, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
