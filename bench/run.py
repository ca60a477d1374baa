#!/usr/bin/python3
"""Measures the gateway beside nginx serving the same files, interleaved in one run.

Prints one table and writes bench.json and bench.svg into --out. Only ratios within the run mean
anything: the machine is shared and noisy.
"""
import argparse
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("RG_BUILD", ROOT / "build"))
ACCESS_KEY, SECRET_KEY = "benchaccess", "benchsecret0123"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


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
    row = {"method": method, "size": size, "connections": connections,
           "gateway": {f: middle(ours, f) for f in ours[0] if f != "method"},
           "nginx": {f: middle(theirs, f) for f in theirs[0] if f != "method"}}
    row["rate_ratio"] = row["gateway"]["requests_per_second"] / row["nginx"]["requests_per_second"]
    ours_cpu, theirs_cpu = (row[s]["server_cpu_us_per_request"] for s in ("gateway", "nginx"))
    row["cpu_ratio"] = ours_cpu / theirs_cpu if theirs_cpu else 0
    return row


def print_row(row):
    gateway, nginx = row["gateway"], row["nginx"]
    print(f"{row['method']:<5} {size_name(row['size']):>8} {row['connections']:>4}  "
          f"{gateway['requests_per_second']:>10.0f} {nginx['requests_per_second']:>10.0f} "
          f"{row['rate_ratio']:>6.2f}  {gateway['server_cpu_us_per_request']:>9.1f} "
          f"{nginx['server_cpu_us_per_request']:>9.1f} {row['cpu_ratio']:>6.2f}  "
          f"{gateway['p50_us']:>9.0f} {gateway['p99_us']:>9.0f}", flush=True)


def svg(rows):
    """Bars: gateway's rate over nginx's, one a row; the line is 1.0."""
    bar, gap, left = 18, 6, 220
    height = len(rows) * (bar + gap) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" '
             'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="16">requests per second: gateway / nginx in the same run</text>']
    scale = 400
    for i, row in enumerate(rows):
        y = 28 + i * (bar + gap)
        width = min(row["rate_ratio"], 1.25) * scale
        label = f"{row['method']} {size_name(row['size'])}, {row['connections']} connections"
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{label}</text>'
                     f'<rect x="{left}" y="{y}" width="{width:.0f}" height="{bar}" fill="#3b6ea5"/>'
                     f'<text x="{left + width + 6:.0f}" y="{y + 13}">{row["rate_ratio"]:.2f}</text>')
    parts.append(f'<line x1="{left + scale}" y1="24" x2="{left + scale}" y2="{height - 8}" '
                 'stroke="#a33" stroke-dasharray="4 3"/></svg>')
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=BUILD / "bench")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each pair, interleaved")
    parser.add_argument("--only", choices=("http", "rdma"), help="this part alone")
    parser.add_argument("--quick", action="store_true", help="a few rows only")
    parser.add_argument("--tree", type=pathlib.Path, help="where the files lie (default: a new directory)")
    arguments = parser.parse_args()
    subprocess.run(["ninja", "-C", BUILD, "bench/bench-load", "bench/bench-rdma"], check=True,
                   stdout=subprocess.DEVNULL)
    arguments.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="railgate-bench-"))
    work.chmod(0o755)
    tree = arguments.tree or work / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "bench").mkdir(exist_ok=True)
    (tree / "nginx").mkdir(exist_ok=True)
    sizes = [4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 256 * MIB]
    if arguments.quick:
        sizes = [4 * KIB, 1 * MIB]
    gateway = Gateway(tree, paths.OPTIONS if arguments.only != "http" else ())
    nginx = Nginx(tree, work)
    rows, rdma = [], None
    try:
        idle = gateway.resident_bytes()
        for size in sizes:
            load(gateway, "PUT", size, 1, 60, 4, False, f"/bench/data-{size}-", requests=4)
            for key in range(4):
                (tree / "bench" / f"data-{size}-{key}").chmod(0o644)
        if arguments.only != "http":
            rdma = paths.measure(BUILD, gateway, nginx, (ACCESS_KEY, SECRET_KEY), f"data-{sizes[-1]}-0",
                                 arguments.quick, arguments.seconds)
        print("\n                         requests/s                     CPU us/request            latency us")
        print("verb      size conn     gateway      nginx  ratio    gateway     nginx  ratio        p50       p99")
        plan = [("GET", s, c) for s in sizes for c in ((1, 16) if arguments.quick else (1, 8, 64))]
        plan += [("HEAD", 4 * KIB, c) for c in (1, 16)]
        plan += [("PUT", s, c) for s in sizes[:3] for c in (1, 16)]
        if arguments.only == "rdma":
            plan = []
        for method, size, connections in plan:
            row = compare(gateway, nginx, method, size, connections, arguments.seconds,
                          arguments.rounds, 4 if method in ("GET", "HEAD") else 64)
            rows.append(row)
            print_row(row)
        print(f"\nstart-up {gateway.start_seconds * 1000:.0f} ms; resident when idle "
              f"{idle / MIB:.1f} MiB, after the run {gateway.resident_bytes() / MIB:.1f} MiB")
        print("PUT: the gateway writes durably (data, metadata and name are synced); nginx does not.")
        result = {"rdma": rdma, "rows": rows, "idle_resident_bytes": idle, "start_seconds": gateway.start_seconds}
    finally:
        nginx.stop()
        gateway.stop()
        shutil.rmtree(work)
    (arguments.out / "bench.json").write_text(json.dumps(result, indent=1))
    (arguments.out / "bench.svg").write_text(svg(rows))
    print(f"written: {arguments.out}/bench.json, {arguments.out}/bench.svg")


if __name__ == "__main__":
    main()
