#!/usr/bin/python3
"""Measures the gateway beside nginx serving the same files, interleaved in one run.

Prints one table and writes bench.json and bench.svg into --out. Only ratios within the run mean
anything: the machine is shared and noisy.
"""
import argparse
import functools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import paths
import rows as more

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("RG_BUILD", ROOT / "build"))
ACCESS_KEY, SECRET_KEY = "benchaccess", "benchsecret0123"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PARTS = ("http", "rdma", "direct", "put", "listing", "complete", "idle", "startup")
PROGRAMS = ("bench-load", "bench-rdma", "bench-listing", "bench-signature")


# Of what is bounded by a count of requests, on a disk however slow.
ENOUGH_SECONDS = 3600


def size_name(size):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


class Gateway:
    def __init__(self, tree, arguments=()):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAILGATE_")}
        environment |= {"RAILGATE_ROOT_ACCESS_KEY": ACCESS_KEY, "RAILGATE_ROOT_SECRET_KEY": SECRET_KEY}
        started = time.monotonic()
        self.process = subprocess.Popen(
            [BUILD / "railgate", "serve", "--address", "127.0.0.1", "--port", "0",
             "--admin-port", "0", "--log-format", "json", *arguments, "posix", tree],
            env=environment, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line)
            if event["event"] == "gateway.ready":
                self.port, self.admin_port = event["port"], event["admin_port"]
                break
        else:
            sys.exit("the gateway did not start")
        self.start_seconds = time.monotonic() - started
        # Nothing reads the log from here on, and it must not block the gateway.
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    pid = property(lambda self: self.process.pid)

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            sys.exit("the gateway did not stop cleanly")
        self.drain.wait(10)


class Nginx:
    """Static files with sendfile, PUT and DELETE by WebDAV: the bound, without a signature."""

    def __init__(self, tree, work):
        self.port = free_port()
        config = work / "nginx.conf"
        config.write_text(f"""
            daemon off; master_process off; worker_processes 1; pid {work}/nginx.pid;
            error_log {work}/nginx.log warn;
            events {{ worker_connections 4096; }}
            http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000;
                    client_body_temp_path {work}/body; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f;
                    uwsgi_temp_path {work}/u; scgi_temp_path {work}/s; client_max_body_size 0;
                    server {{ listen 127.0.0.1:{self.port}; root {tree};
                              location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }} }}
            """)
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-c", config, "-p", work])
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/")
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("nginx did not start")

    pid = property(lambda self: self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def load(server, method, size, connections, seconds, keys, plain, prefix, requests=None):
    command = [BUILD / "bench/bench-load", "--port", str(server.port), "--prefix", prefix,
               "--method", method, "--size", str(size), "--connections", str(connections),
               "--keys", str(keys), "--seconds", str(seconds), "--server-pid", str(server.pid)]
    if requests:
        command += ["--requests", str(requests)]
    if plain:
        command.append("--plain")
    environment = os.environ | {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{method} of {size_name(size)} failed: {done.stderr}")
    return json.loads(done.stdout)


def keys_read(size):
    """How many objects are read in turn; large ones are the same bytes in any case."""
    return 4 if size < 256 * MIB else 1


def middle(runs, field):
    return statistics.median(run[field] for run in runs)


def compare(gateway, nginx, method, size, connections, seconds, rounds, keys):
    """Runs both servers in turn; the medians, and the ratios of CPU and of rate."""
    ours, theirs = [], []
    prefix = f"/bench/{method.lower()}-{size}-"
    reading = method in ("GET", "HEAD")
    if reading:
        prefix = f"/bench/data-{size}-"
    for _ in range(rounds):
        ours.append(load(gateway, method, size, connections, seconds, keys, False, prefix))
        theirs.append(load(nginx, method, size, connections, seconds, keys, True,
                           prefix if reading else prefix.replace("/bench/", "/nginx/")))
    return row_of(method, size, connections, ours, theirs)


@functools.cache
def signature_us():
    """What one signature costs, on this machine, now."""
    done = subprocess.run([BUILD / "bench/bench-signature"], check=True, capture_output=True, text=True)
    return float(done.stdout)


def row_of(method, size, connections, ours, theirs):
    row = {"method": method, "size": size, "connections": connections,
           "gateway": {f: middle(ours, f) for f in ours[0] if f != "method"},
           "nginx": {f: middle(theirs, f) for f in theirs[0] if f != "method"}}
    row["rate_ratio"] = row["gateway"]["requests_per_second"] / row["nginx"]["requests_per_second"]
    ours_cpu, theirs_cpu = (row[s]["server_cpu_us_per_request"] for s in ("gateway", "nginx"))
    row["cpu_ratio"] = ours_cpu / theirs_cpu if theirs_cpu else 0
    row["cpu_ratio_beyond_signature"] = (ours_cpu - signature_us()) / theirs_cpu if theirs_cpu else 0
    if method in ("GET", "PUT"):
        for server in ("gateway", "nginx"):
            row[server]["cpu_seconds_per_gib"] = row[server]["server_cpu_us_per_request"] / 1e6 * GIB / size
    return row


def print_row(row):
    gateway, nginx = row["gateway"], row["nginx"]
    print(f"{row['method']:<5} {size_name(row['size']):>8} {row['connections']:>4}  "
          f"{gateway['requests_per_second']:>10.0f} {nginx['requests_per_second']:>10.0f} "
          f"{row['rate_ratio']:>6.2f}  {gateway['server_cpu_us_per_request']:>9.1f} "
          f"{nginx['server_cpu_us_per_request']:>9.1f} {row['cpu_ratio']:>6.2f} "
          f"{row['cpu_ratio_beyond_signature']:>6.2f}  "
          f"{gateway['p50_us']:>9.0f} {gateway['p99_us']:>9.0f}", flush=True)


def system_calls(server, method, size, plain, prefix, keys):
    """System calls a request, by the count of strace, on one connection; None where it cannot be had."""
    if not shutil.which("strace"):
        return None
    tracer = subprocess.Popen(["strace", "-f", "-c", "-q", "-p", str(server.pid)], stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    done = load(server, method, size, 1, ENOUGH_SECONDS, keys, plain, prefix, requests=keys)
    tracer.send_signal(signal.SIGINT)
    said = tracer.communicate(timeout=60)[1]
    for line in said.splitlines():
        words = line.split()
        if len(words) >= 4 and words[-1] == "total":
            return int(words[3]) / done["requests"]
    return None


def count_calls(gateway, nginx):
    """Rows of system calls for the four verbs at 4 KiB; PUT comes before what reads and deletes it."""
    rows, keys = [], 300
    print("\nSystem calls a request of 4 KiB, one connection: gateway, nginx")
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        calls = [system_calls(gateway, method, 4 * KIB, False, "/bench/calls-", keys),
                 system_calls(nginx, method, 4 * KIB, True, "/nginx/calls-", keys)]
        if None in calls:
            print("skipped: strace cannot count here")
            break
        rows.append({"method": method, "gateway": calls[0], "nginx": calls[1]})
        print(f"{method:<6} {calls[0]:>6.1f} {calls[1]:>6.1f}", flush=True)
    return rows


def delete(gateway, nginx, connections, rounds):
    """DELETE of 4 KiB, of keys made for it in each round."""
    keys, ours, theirs = 1000, [], []
    for _ in range(rounds):
        for server, plain, prefix, runs in ((gateway, False, "/bench/gone-", ours), (nginx, True, "/nginx/gone-", theirs)):
            load(server, "PUT", 4 * KIB, 8, ENOUGH_SECONDS, keys, plain, prefix, requests=keys)
            runs.append(load(server, "DELETE", 4 * KIB, connections, ENOUGH_SECONDS, keys, plain, prefix, requests=keys))
    return row_of("DELETE", 4 * KIB, connections, ours, theirs)


def groups(result):
    """What the picture shows: (title, scale's end, [(label, value)])."""
    rows = result["rows"]

    def label(row):
        return f"{row['method']} {size_name(row['size'])}, {row['connections']} conn."

    found = [("requests per second: gateway / nginx in the same run", 1.25, [(label(r), r["rate_ratio"]) for r in rows]),
             ("CPU per request: gateway / nginx in the same run", 4, [(label(r), r["cpu_ratio"]) for r in rows])]
    found.append(("next page of 1,000 keys: CPU relative to a directory of 10,000", 4,
                  [(f"{r['entries']} entries, {r['what']}", r["next_cpu_ratio"]) for r in result["listing"] or []]))
    found.append(("durable PUT: time relative to the larger of MD5 and disk", 4,
                  [(f"{size_name(r['size'])}: {r['bound']}", r["to_bound"]) for r in result["put"] or []]))
    complete = result["complete"] or []
    found.append(("Complete: GiB/s by copy method", max([1.0] + [r["gib_per_second"] for r in complete]),
                  [(f"{r['method']} {size_name(r['bytes'])}", r["gib_per_second"]) for r in complete]))
    found.append(("resident MiB by idle connections", 800,
                  [(f"{r['connections']} connections", r["resident_bytes"] / MIB) for r in result["idle"] or []]))
    return [group for group in found if group[2]]


def svg(result):
    """A block of bars for each group; the dashed line is 1.0 where the group shows ratios."""
    bar, gap, left, width = 18, 6, 300, 400
    y, parts = 8, []
    for title, end, bars in groups(result):
        y += 24
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{title}</text>')
        y += 8
        top = y
        for label, value in bars:
            length = min(value / end, 1.0) * width
            parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{label}</text>'
                         f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{bar}" fill="#3b6ea5"/>'
                         f'<text x="{left + length + 6:.0f}" y="{y + 13}">{value:.2f}</text>')
            y += bar + gap
        if "/ nginx" in title or "relative" in title:
            x = left + width / end
            parts.append(f'<line x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{y}" stroke="#a33" stroke-dasharray="4 3"/>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="{y + 16}" '
                      'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
                      *parts, "</svg>"])


def plan_of(sizes, quick):
    """(method, size, connections) of each row beside nginx."""
    many = (1, 16) if quick else (1, 8, 64)
    plan = [("GET", size, connections) for size in sizes for connections in many]
    plan += [("HEAD", 4 * KIB, connections) for connections in many]
    # What is put stays until the end: few of the large ones.
    plan += [("PUT", size, connections) for size in sizes for connections in (many if size <= MIB else (1, 4))]
    return plan


def beside_nginx(arguments, work, tree, sizes, result):
    """The gateway and nginx in turn; fills in `result`."""
    gateway = Gateway(tree, paths.OPTIONS if arguments.only != "http" else ())
    nginx = Nginx(tree, work)
    rows = result["rows"]
    try:
        idle = gateway.resident_bytes()
        for size in sizes:
            keys = keys_read(size)
            load(gateway, "PUT", size, 1, ENOUGH_SECONDS, keys, False, f"/bench/data-{size}-", requests=keys)
            for key in range(keys):
                (tree / "bench" / f"data-{size}-{key}").chmod(0o644)
        if arguments.only != "http":
            largest = max(size for size in sizes if size <= 256 * MIB)
            result["rdma"] = paths.measure(BUILD, gateway, nginx, (ACCESS_KEY, SECRET_KEY), f"data-{largest}-0",
                                           arguments.quick, arguments.seconds)
        if arguments.only != "rdma":
            result["signature_us"] = signature_us()
            print(f"\nThe signature of a request costs {signature_us():.1f} us of CPU; 'beyond' is the ratio without it.")
            print("\n                         requests/s                        CPU us/request               latency us")
            print("verb      size conn     gateway      nginx  ratio    gateway     nginx  ratio beyond        p50       p99")
            for method, size, connections in plan_of(sizes, arguments.quick):
                reading = method in ("GET", "HEAD")
                keys = keys_read(size) if reading else 4 if size > MIB else 64
                row = compare(gateway, nginx, method, size, connections, arguments.seconds, arguments.rounds, keys)
                rows.append(row)
                print_row(row)
            for connections in (1, 16):
                rows.append(delete(gateway, nginx, connections, arguments.rounds))
                print_row(rows[-1])
            result["calls"] = count_calls(gateway, nginx)
        print(f"\nstart-up {gateway.start_seconds * 1000:.0f} ms; resident when idle "
              f"{idle / MIB:.1f} MiB, after the run {gateway.resident_bytes() / MIB:.1f} MiB")
        print("PUT and DELETE: the gateway's are durable (data, metadata and name are synced); nginx's are not.")
        result |= {"idle_resident_bytes": idle, "start_seconds": gateway.start_seconds}
    finally:
        nginx.stop()
        gateway.stop()


def around_the_cache(keys, work, quick):
    xfs = more.mounted_xfs(work, 4 * GIB)
    try:
        return paths.direct(BUILD, Gateway, keys, work, xfs, 1 if quick else 5)
    finally:
        more.unmount_xfs(xfs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=BUILD / "bench")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each pair, interleaved")
    parser.add_argument("--only", choices=PARTS, help="this part alone")
    parser.add_argument("--quick", action="store_true", help="a few rows only")
    parser.add_argument("--tree", type=pathlib.Path, help="where the files lie (default: a new directory)")
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", BUILD, *(f"bench/{program}" for program in PROGRAMS)], check=True,
                   stdout=subprocess.DEVNULL)
    arguments.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="railgate-bench-"))
    work.chmod(0o755)
    tree = arguments.tree or work / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "bench").mkdir(exist_ok=True)
    (tree / "nginx").mkdir(exist_ok=True)
    sizes = [4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 256 * MIB, GIB]
    if arguments.quick:
        sizes = [4 * KIB, 1 * MIB]
    keys, quick = (ACCESS_KEY, SECRET_KEY), arguments.quick
    result = {"rdma": None, "rows": [], "calls": None} | dict.fromkeys(PARTS[2:])
    measures = {
        "direct": lambda: around_the_cache(keys, work, quick),
        "put": lambda: more.put_bound(Gateway, load, work, quick),
        "listing": lambda: more.listing(BUILD, work, quick),
        "complete": lambda: more.complete(Gateway, keys, work, quick),
        "idle": lambda: more.idle(Gateway, keys, work, quick),
        "startup": lambda: more.startup(Gateway, work),
    }
    took, started = {}, time.monotonic()
    try:
        if arguments.only in (None, "http", "rdma"):
            beside_nginx(arguments, work, tree, sizes, result)
            shutil.rmtree(work / "tree", ignore_errors=True)  # Complete needs the room
            took["beside nginx"] = time.monotonic() - started
        for part, measure in measures.items():
            if arguments.only in (None, part):
                begun = time.monotonic()
                result[part] = measure()
                took[part] = time.monotonic() - begun
    finally:
        shutil.rmtree(work)
    result["took_seconds"] = took
    print(f"\nit took {sum(took.values()) / 60:.1f} minutes: "
          + ", ".join(f"{part} {seconds:.0f} s" for part, seconds in took.items()))
    (arguments.out / "bench.json").write_text(json.dumps(result, indent=1))
    (arguments.out / "bench.svg").write_text(svg(result))
    print(f"written: {arguments.out}/bench.json, {arguments.out}/bench.svg")


if __name__ == "__main__":
    main()
