"""The two ways of object bytes, measured through the gateway: RDMA (libfabric's shm provider, which is
software) beside HTTP, in one run. Clients are processes of their own; every row is the gateway's and
the clients' CPU together, so that what one end saves and the other pays shows."""
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request
from urllib.parse import urlsplit

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
OPTIONS = ("--rdma", "on", "--rdma-transports", "ofi", "--rdma-providers", "shm")
PROCESSES = (1, 4, 16, 64)


def environment(gateway, keys):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RAILGATE_"))}
    return clean | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{gateway.port}",
                    "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]}


def bench(build, gateway, keys, *words):
    """A running `railgate bench`."""
    return subprocess.Popen(
        [build / "railgate", "bench", "--json", "--transports", "ofi", "--device", "shm",
         "--server-pid", str(gateway.pid), *map(str, words)],
        env=environment(gateway, keys), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"railgate bench failed: {errors or out}")
    return json.loads(out)["cells"]


def server_cpu(gateway):
    words = pathlib.Path(f"/proc/{gateway.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def metric(gateway, name, label=""):
    """The sum of a metric's samples that have the label."""
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.admin_port}/-/metrics") as answer:
        text = answer.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if re.match(name + r"[ {]", line) and label in line)


def by_size(build, gateway, keys, sizes, seconds):
    """A row a size and operation: both paths, interleaved by `railgate bench` itself."""
    rows = []
    print("\n                    GB/s            GB per CPU-second, both ends")
    print("verb      size      rdma    http        rdma    http   ratio   witness")
    for size in sizes:
        cells = finish(bench(build, gateway, keys, "--paths", "rdma,http", "--sizes", size, "-c", 1,
                             "-d", seconds, "--strict", "--admin",
                             f"http://127.0.0.1:{gateway.admin_port}", "s3://bench/paths"))
        for operation in ("put", "get"):
            pair = {c["path_asked"]: c for c in cells if c["operation"] == operation}
            row = {"operation": operation, "size": size}
            for path, cell in pair.items():
                cpu = cell["client_cpu_s"] + cell["server_cpu_s"]
                row[path] = {"bytes_per_second": cell["bytes"] / cell["seconds"],
                             "bytes_per_cpu_second": cell["bytes"] / cpu if cpu else 0,
                             "p50_ms": cell["p50_ms"], "path": cell["path"]}
            row["witness_ratio"] = pair["rdma"]["witness_ratio"]
            http = row["http"]["bytes_per_cpu_second"]
            row["cpu_ratio"] = row["rdma"]["bytes_per_cpu_second"] / http if http else 0
            rows.append(row)
            print(f"{operation.upper():<5} {size // KIB:>8} KiB "
                  f"{row['rdma']['bytes_per_second'] / 1e9:>6.2f}  {row['http']['bytes_per_second'] / 1e9:>6.2f}"
                  f"      {row['rdma']['bytes_per_cpu_second'] / 1e9:>6.2f}  {http / 1e9:>6.2f}  "
                  f"{row['cpu_ratio']:>6.2f}    {row['witness_ratio']:.3f}", flush=True)
    return rows


def by_processes(build, gateway, keys, counts, seconds):
    """GET of 1 MiB by so many client processes at once; 1.00 is the rate of one."""
    rows = []
    print("\nGET of 1 MiB     processes    GB/s   of one    GB per CPU-second, both ends")
    for path in ("rdma", "http"):
        first = None
        for count in counts:
            before, children = server_cpu(gateway), resource.getrusage(resource.RUSAGE_CHILDREN)
            running = [bench(build, gateway, keys, "--paths", path, "--op", "get", "--sizes", MIB, "-c", 1,
                             "-d", seconds, f"s3://bench/process-{i}") for i in range(count)]
            cells = [finish(process)[0] for process in running]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            rate = sum(cell["bytes"] / cell["seconds"] for cell in cells)
            first = first or rate
            cpu = (server_cpu(gateway) - before + after.ru_utime - children.ru_utime
                   + after.ru_stime - children.ru_stime)
            row = {"path": path, "processes": count, "bytes_per_second": rate, "of_one": rate / first,
                   "bytes_per_cpu_second": sum(cell["bytes"] for cell in cells) / cpu}
            rows.append(row)
            print(f"{path:<16} {count:>9}  {rate / 1e9:>6.2f}   {row['of_one']:>6.2f}    "
                  f"{row['bytes_per_cpu_second'] / 1e9:>6.2f}", flush=True)
    return rows


def first_byte_us(port, target, count=40):
    """Median time from sending a GET to the first byte of its body."""
    times = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.perf_counter()
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            got = b""
            while b"\r\n\r\n" not in got or got.endswith(b"\r\n\r\n"):
                got += connection.recv(65536)
            times.append(time.perf_counter() - begun)
            head, body = got.split(b"\r\n\r\n", 1)
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise SystemExit(f"GET {target}: {head.decode()}")
            left = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
            while left:
                left -= len(connection.recv(min(left, MIB)))
    return statistics.median(times) * 1e6


def first_byte(build, gateway, nginx, keys, name):
    """`name`: an object of bucket "bench" that both serve."""
    signed = subprocess.run([build / "railgate", "presign", f"s3://bench/{name}"], check=True,
                            capture_output=True, text=True, env=environment(gateway, keys)).stdout.strip()
    url = urlsplit(signed)
    row = {"gateway_us": first_byte_us(gateway.port, f"{url.path}?{url.query}"),
           "nginx_us": first_byte_us(nginx.port, url.path)}
    print(f"\ntime to the first byte by HTTP: gateway {row['gateway_us']:.0f} us, "
          f"nginx {row['nginx_us']:.0f} us (a GET by RDMA has none: all of it is there with the answer)")
    return row


def memory(gateway):
    """What the gateway held for RDMA when all transfers were over: slots keep what they have used."""
    status = pathlib.Path(f"/proc/{gateway.pid}/status").read_text()
    row = {"slab_mapped_bytes": metric(gateway, "railgate_rdma_slab_bytes", 'state="mapped"'),
           "slab_resident_bytes": metric(gateway, "railgate_rdma_slab_bytes", 'state="resident"'),
           "pinned_bytes": metric(gateway, "railgate_rdma_pinned_bytes"),
           "peak_rss_bytes": int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * KIB}
    print(f"\nmemory of the gateway after that: staging slots {row['slab_resident_bytes'] / MIB:.0f} of "
          f"{row['slab_mapped_bytes'] / MIB:.0f} MiB (aim: 512 at most), of which pinned "
          f"{row['pinned_bytes'] / MIB:.0f} (software providers pin nothing, a NIC all); the whole process "
          f"{row['peak_rss_bytes'] / MIB:.0f} MiB at most")
    return row


def measure(build, gateway, nginx, keys, large, quick, seconds):
    """All of it; returns what goes into bench.json. `gateway` was started with OPTIONS."""
    seconds = max(1, round(seconds))
    sizes = [64 * KIB, MIB, 16 * MIB] if quick else [64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB]
    print("\nRDMA over ofi:shm (software) beside HTTP")
    result = {"by_size": by_size(build, gateway, keys, sizes, seconds),
              "by_processes": by_processes(build, gateway, keys, PROCESSES[:2] if quick else PROCESSES,
                                           seconds),
              "first_byte": first_byte(build, gateway, nginx, keys, large)}
    result["memory"] = memory(gateway)
    print("\nthe data plane alone: wall time over the larger of file and wire (1.00: perfect overlap)", flush=True)
    result["overlap"] = overlap(build, quick) + overlap(build, quick, "--direct")
    return result


def overlap(build, quick, *words):
    """Files in the page cache are copied by the processors that move the bytes; with --direct there is
    a disk to wait for."""
    done = subprocess.run([build / "bench/bench-rdma", "--overlap", *(["--quick"] if quick else []), *words],
                          capture_output=True, text=True, check=True)
    print(done.stdout.rstrip())
    return [{"line": line.strip(), "direct": "--direct" in words}
            for line in done.stdout.splitlines() if "overlap" in line]


# ---- Around the page cache ----

DIRECT_BYTES = 512 * MIB
STREAMS = (("one stream", ("--parallel", "1", "--part-size", "1G")),
           ("8 at once", ("--parallel", "8", "--part-size", "64M")))


def move(build, gateway, keys, *words):
    """The seconds that a transfer by our own client took, and the gateway's CPU for it."""
    started, before = time.monotonic(), server_cpu(gateway)
    subprocess.run([build / "railgate", words[0], "--path", "rdma", "--transports", "ofi", "--device", "shm", *words[1:]],
                   check=True, env=environment(gateway, keys), stdout=subprocess.DEVNULL)
    return time.monotonic() - started, server_cpu(gateway) - before


def forget(path):
    """Nothing of the file is in the page cache afterwards."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def direct_once(build, gateway, keys, tree, source, streams):
    """Seconds and CPU of: a PUT, a GET of what is not in the page cache, and one of what is."""
    path = tree / "bench" / "large"
    put = move(build, gateway, keys, "cp", *streams, str(source), "s3://bench/large")
    forget(path)
    cold = move(build, gateway, keys, "cat", *streams, "s3://bench/large")
    path.read_bytes()
    return {"PUT": put, "GET, cold": cold, "GET, cached": move(build, gateway, keys, "cat", *streams, "s3://bench/large")}


def direct(build, start, keys, work, xfs, rounds):
    """rdma-direct off beside on, in turn, for each file system. `xfs` is a mounted directory, or None."""
    source, rows = work / "source", []
    source.write_bytes(os.urandom(MIB) * (DIRECT_BYTES // MIB))
    print(f"\nRDMA (ofi:shm) of {DIRECT_BYTES // MIB} MiB through the page cache and around it (rdma-direct off, on): "
          "medians of seconds and\nof the gateway's CPU seconds; the share of bytes that went around it when on")
    for system, place in (("of --tree", work / "direct"), ("xfs", xfs and xfs / "direct")):
        if not place:
            print("xfs        skipped: no XFS in a loop file here")
            continue
        (place / "bench").mkdir(parents=True)
        options = (*OPTIONS, "--rdma-budget", "5m")
        both = {choice: start(place, [*options, "--rdma-direct", choice]) for choice in ("off", "on")}
        try:
            for name, streams in STREAMS:
                runs = {choice: [] for choice in both}
                counted = metric(both["on"], "railgate_rdma_direct_bytes_total")
                for _ in range(rounds):
                    for choice, gateway in both.items():
                        runs[choice].append(direct_once(build, gateway, keys, place, source, streams))
                around = metric(both["on"], "railgate_rdma_direct_bytes_total") - counted
                for what in runs["off"][0]:
                    row = {"file_system": system, "what": what, "streams": name, "bytes": DIRECT_BYTES,
                           "around": around / (3 * rounds * DIRECT_BYTES)}
                    for choice, done in runs.items():
                        row[choice] = {"seconds": statistics.median(one[what][0] for one in done),
                                       "server_cpu_seconds": statistics.median(one[what][1] for one in done)}
                    rows.append(row)
                    print(f"{system:<10} {what:<12} {name:<11} {row['off']['seconds']:>7.2f} {row['on']['seconds']:>7.2f} s  "
                          f"CPU {row['off']['server_cpu_seconds']:>6.2f} {row['on']['server_cpu_seconds']:>6.2f} s  "
                          f"{row['around']:>5.2f}", flush=True)
        finally:
            for gateway in both.values():
                gateway.stop()
            shutil.rmtree(place)
    source.unlink()
    return rows
