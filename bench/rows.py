"""Measurements beside the table of GET and PUT: pages of listings, Complete by each copy method, idle
connections, start-up. Each returns rows for bench.json and prints its own part of the table.
"""
import http.client
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/clients"))

MIB, GIB = 1 << 20, 1 << 30
BUCKET = "rows"


def median(values):
    return sorted(values)[len(values) // 2]


# ---- Listing ----

def listing(build, work, quick):
    """bench-listing's table, as rows. Quick: without the directory of a million."""
    tree = work / "listing"
    tree.mkdir()
    print("\nA page of 1,000 keys by the size of the directory; ratios to the smallest, in time and in CPU.")
    done = subprocess.run([build / "bench/bench-listing", tree, "100000" if quick else "1000000"], check=True,
                          stdout=subprocess.PIPE, text=True)
    shutil.rmtree(tree)
    print(done.stdout, end="", flush=True)
    rows = []
    for line in done.stdout.splitlines()[1:]:
        words = line.split()
        first, following, ratio, cpu, cpu_ratio = map(float, words[-5:])
        rows.append({"entries": int(words[0]), "what": " ".join(words[1:-5]), "first_ms": first,
                     "next_ms": following, "next_ratio": ratio, "next_cpu_ms": cpu, "next_cpu_ratio": cpu_ratio})
    return rows


# ---- Requests, signed ----

class Client:
    """Just enough of S3 for what is measured here."""

    def __init__(self, gateway, keys):
        self.gateway, (self.access, self.secret) = gateway, keys

    def ask(self, method, path, query=(), body=b"", connection=None):
        import raw
        headers = {}
        host = f"127.0.0.1:{self.gateway.port}"
        path = urllib.parse.quote(path, "/")
        raw.sign(method, host, path, list(query), headers, "UNSIGNED-PAYLOAD", access=self.access,
                 secret=self.secret)
        target = path + ("?" + raw.canonical_query(query) if query else "")
        own = connection or http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=3600)
        try:
            own.request(method, target, body if method in ("PUT", "POST") else None, headers)
            answer = own.getresponse()
            data = answer.read()
        finally:
            if not connection:
                own.close()
        if answer.status not in (200, 204):
            sys.exit(f"{method} {target}: {answer.status} {data[:500]}")
        return answer, data


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- What bounds a PUT ----

def digest_seconds(size):
    """MD5 of so many bytes on this machine, by openssl itself."""
    done = subprocess.run(["openssl", "speed", "-mr", "-evp", "md5", "-bytes", str(size), "-seconds", "1"],
                          check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("+F:"):
            return size / float(line.split(":")[3])
    sys.exit("openssl speed said nothing of MD5")


def plain_write_seconds(place, body, count, synced):
    """The least a program does for the same: a file beside its name, then the name. The means of `count`: of
    the time that passed, and of CPU."""
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    started, worked = time.monotonic(), time.process_time()
    for i in range(count):
        file = os.open(place / "new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        left = memoryview(body)
        while left:
            left = left[os.write(file, left[:MIB]):]
        if synced:
            os.fsync(file)
        os.close(file)
        os.rename(place / "new", place / f"plain-{i % 4}")
        if synced:
            os.fsync(directory)
    took, cpu = (time.monotonic() - started) / count, (time.process_time() - worked) / count
    os.close(directory)
    return took, cpu


def put_bound(start, load, work, quick):
    """A durable PUT beside the digest and the disk, all in turn. 1.00 of the larger: it is the bound; 1.00 of
    the sum: nothing overlaps and nothing is added. Its CPU stands beside that of the digest and the plain
    program: what is more is HTTP's, and ours."""
    sizes = {4096: 200, 64 << 10: 100, MIB: 30, 16 * MIB: 6, 256 * MIB: 2}
    tree = work / "put"
    (tree / BUCKET).mkdir(parents=True)
    (work / "plain").mkdir()
    print("\nWhat bounds a PUT on one connection: ms of a PUT (durable; not synced), of MD5 by openssl, of write, fsync"
          "\nand rename by a plain program (and without fsync); the durable PUT to the larger of the two, and to their sum;"
          "\nCPU ms of a durable PUT, and of the digest and the plain program together")
    rows = []
    durable = start(tree, ["--rdma", "off"])
    relaxed = start(tree, ["--rdma", "off", "--durability", "none"])
    try:
        for size in list(sizes)[:3] if quick else sizes:
            count, body = sizes[size], os.urandom(size)
            runs = {name: [] for name in ("durable", "relaxed", "digest", "disk", "page_cache")}
            cpu = {"durable": [], "plain": []}
            for _ in range(1 if quick else 3):
                for name, gateway in (("durable", durable), ("relaxed", relaxed)):
                    done = load(gateway, "PUT", size, 1, 3600, 4, False, f"/{BUCKET}/{name}-", requests=count)
                    runs[name].append(done["seconds"] / done["requests"])
                    if name == "durable":
                        cpu[name].append(done["server_cpu_us_per_request"] / 1e6)
                plain, plain_cpu = plain_write_seconds(work / "plain", body, count, True)
                runs["disk"].append(plain)
                cpu["plain"].append(plain_cpu)
                runs["page_cache"].append(plain_write_seconds(work / "plain", body, count, False)[0])
                runs["digest"].append(digest_seconds(size))
            row = {"size": size} | {name + "_seconds": median(times) for name, times in runs.items()}
            row["cpu_seconds"] = median(cpu["durable"])
            row["floor_cpu_seconds"] = median(cpu["plain"]) + row["digest_seconds"]
            larger, digest, disk = max(row["digest_seconds"], row["disk_seconds"]), row["digest_seconds"], row["disk_seconds"]
            row["bound"] = "disk" if disk >= digest else "digest"
            row["to_bound"], row["to_sum"] = row["durable_seconds"] / larger, row["durable_seconds"] / (disk + digest)
            rows.append(row)
            print(f"{size // 1024:>7} KiB  " + " ".join(f"{row[name + '_seconds'] * 1e3:>9.3f}" for name in runs)
                  + f"  {row['bound']:<6} {row['to_bound']:>6.2f} {row['to_sum']:>6.2f}"
                  + f"  {row['cpu_seconds'] * 1e3:>8.2f} {row['floor_cpu_seconds'] * 1e3:>8.2f}", flush=True)
    finally:
        durable.stop()
        relaxed.stop()
    shutil.rmtree(tree)
    shutil.rmtree(work / "plain")
    return rows


# ---- Complete ----

def mounted_xfs(work, size):
    """A directory on XFS in a sparse loop file, where copies can be reflinks; None when it cannot be."""
    image, place = work / "xfs.image", work / "xfs"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(size)
    for words in (["mkfs.xfs", "-q", str(image)], ["mount", "-o", "loop", str(image), str(place)]):
        if subprocess.run(words, capture_output=True).returncode:
            image.unlink()
            place.rmdir()
            return None
    return place


def unmount_xfs(place):
    """What mounted_xfs made; None is nothing."""
    if place:
        subprocess.run(["umount", str(place)], check=True)
        place.with_suffix(".image").unlink()
        place.rmdir()


def complete_once(start, keys, tree, method, total, parts):
    tree.mkdir(exist_ok=True)
    gateway = start(tree, ["--copy-method", method, "--etag", "fast", "--rdma", "off"])
    try:
        client = Client(gateway, keys)
        client.ask("PUT", f"/{BUCKET}")
        upload = client.ask("POST", f"/{BUCKET}/whole", [("uploads", "")])[1].decode()
        ident = upload.partition("<UploadId>")[2].partition("<")[0]
        body = os.urandom(MIB) * (total // parts // MIB)
        etags = [client.ask("PUT", f"/{BUCKET}/whole", [("partNumber", str(i + 1)), ("uploadId", ident)],
                            body)[0].headers["ETag"] for i in range(parts)]
        del body
        os.sync()
        text = "".join(f"<Part><PartNumber>{i + 1}</PartNumber><ETag>{etag}</ETag></Part>"
                       for i, etag in enumerate(etags))
        before, started = cpu_seconds(gateway.pid), time.monotonic()
        data = client.ask("POST", f"/{BUCKET}/whole", [("uploadId", ident)],
                          f"<CompleteMultipartUpload>{text}</CompleteMultipartUpload>".encode())[1]
        took, cpu = time.monotonic() - started, cpu_seconds(gateway.pid) - before
        if b"CompleteMultipartUploadResult" not in data:
            sys.exit(f"complete by {method}: {data[:500]}")
        size = os.stat(tree / BUCKET / "whole").st_size
        if size != total:
            sys.exit(f"complete by {method} made {size} bytes")
        client.ask("DELETE", f"/{BUCKET}/whole")
        return {"method": method, "bytes": total, "parts": parts, "seconds": took, "cpu_seconds": cpu,
                "gib_per_second": total / GIB / took}
    finally:
        gateway.stop()


def complete(start, keys, work, quick):
    """10 GiB in ten parts (quick: 1 GiB); twice that is needed on the disk, and given back."""
    total, parts = (GIB, 8) if quick else (10 * GIB, 10)
    print(f"\nComplete of {total // GIB} GiB in {parts} parts, by copy method: seconds, CPU seconds of the gateway, GiB/s")
    rows = []
    if shutil.disk_usage(work).free < 2 * total + 8 * GIB:
        print("skipped: not enough room on the disk")
        return rows
    xfs = mounted_xfs(work, total + total // 4 + GIB)
    try:
        for method, tree in (("copy-range", work / "complete-1"), ("copy", work / "complete-2"),
                             ("reflink", xfs and xfs / "tree")):
            if not tree:
                print(f"{method:<12} skipped: no XFS in a loop file here")
                continue
            row = complete_once(start, keys, tree, method, total, parts)
            row["file_system"] = "xfs" if method == "reflink" else "of --tree"
            rows.append(row)
            print(f"{method:<12} {row['seconds']:>8.2f} {row['cpu_seconds']:>8.2f} {row['gib_per_second']:>8.2f}", flush=True)
    finally:
        unmount_xfs(xfs)
    return rows


# ---- Idle connections ----

def idle(start, keys, work, quick):
    """Memory and the latency of a small GET under so many idle connections."""
    rows = []
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("\nIdle connections: resident MiB, KiB each, threads, median us of a small GET on one of them")
    tree = work / "idle"
    tree.mkdir()
    for count in (0, 1000) if quick else (0, 1000, 10000):
        if hard != resource.RLIM_INFINITY and hard < count + 1500:
            print(f"{count:>6} skipped: the hard limit on open files is {hard}")
            continue
        gateway = start(tree, ["--connections-max", str(count + 100), "--rdma", "off"])
        held = []
        try:
            client = Client(gateway, keys)
            kept = http.client.HTTPConnection("127.0.0.1", gateway.port)
            if not rows:
                client.ask("PUT", f"/{BUCKET}")
                client.ask("PUT", f"/{BUCKET}/small", body=b"x" * 4096)
            client.ask("GET", f"/{BUCKET}/small", connection=kept)
            before = gateway.resident_bytes()
            held = [socket.create_connection(("127.0.0.1", gateway.port), 30) for _ in range(count)]
            while len(os.listdir(f"/proc/{gateway.pid}/task")) < count:
                time.sleep(0.1)
            time.sleep(2)
            resident, times = gateway.resident_bytes(), []
            threads = len(os.listdir(f"/proc/{gateway.pid}/task"))
            for _ in range(201):
                started = time.monotonic()
                client.ask("GET", f"/{BUCKET}/small", connection=kept)
                times.append(time.monotonic() - started)
            kept.close()
            row = {"connections": count, "resident_bytes": resident, "threads": threads,
                   "bytes_each": (resident - before) / count if count else 0, "get_us": median(times) * 1e6}
            rows.append(row)
            print(f"{count:>6} {resident / MIB:>8.1f} {row['bytes_each'] / 1024:>8.1f} {threads:>7} {row['get_us']:>8.0f}",
                  flush=True)
        finally:
            for one in held:
                one.close()
            gateway.stop()
    return rows


# ---- Start-up ----

def startup(start, work):
    """From exec to readiness, and resident memory then; with RDMA off and as it comes."""
    tree = work / "startup"
    tree.mkdir()
    rows = []
    print("\nStart-up: ms to ready (median of 5), resident MiB when idle")
    for what, options in (("rdma off", ["--rdma", "off"]), ("default", [])):
        seconds, resident = [], []
        for _ in range(5):
            gateway = start(tree, options)
            seconds.append(gateway.start_seconds)
            time.sleep(0.5)
            resident.append(gateway.resident_bytes())
            gateway.stop()
        rows.append({"what": what, "seconds": median(seconds), "resident_bytes": median(resident)})
        print(f"{what:<10} {median(seconds) * 1000:>6.0f} {median(resident) / MIB:>8.1f}", flush=True)
    return rows
