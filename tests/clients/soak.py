"""A long run of mixed work against one gateway: what it uses ends where it began.

    soak.py [--seconds N] [--seed N]        (./dev soak)

First a short round of the work, so that threads, buffers and caches are there; then all objects are
deleted, everything settles, and that is the beginning. After the long round the same is done, and
memory, descriptors, threads, connections, RDMA lanes and slots, and what lies in the tree are held
against the beginning. On the way every answer is checked.
"""
import argparse
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data  # noqa: E402
import gateway as gateways  # noqa: E402
import raw  # noqa: E402

BUCKET = "soak"
HTTP_WORKERS = 4
KEYS = 12  # of each worker, so that the tree stays small
SIZES = [0, 1, 1000, 4096, 65536, 300000, 1 << 20, 3 << 20]
PROBLEMS_MAX = 20
SETTLE_SECONDS = 60
OPTIONS = ["--part-size-min", "1", "--idle-timeout", "10s", "--temp-expiry", "20s", "--sweep-interval", "1s",
           "--rdma-lanes", "2", "--rdma-memory", "4M"]  # ceilings that are reached while warming up

# What may be more at the end than at the beginning. Resident memory: holes between
# what is in use, in as many arenas of malloc as there happened to be threads.
MEMORY_RATIO, MEMORY_BYTES = 1.25, 16 << 20
# A lane that a killed client broke is opened again when one is needed: some ten descriptors.
DESCRIPTORS, THREADS = 12, 2


def is_sanitized():
    with open(gateways.BINARY, "rb") as binary:
        return b"__asan_init" in binary.read()


class Problem(Exception):
    pass


class Crashed(Exception):
    """A client of ours died in a library of others. What it was to do is done or not."""


def expect(answer, *statuses):
    if answer.status not in statuses:
        raise Problem(f"{answer.status} instead of {statuses}: {answer!r}"[:400])
    return answer


class Worker(threading.Thread):
    """Works until `over`; what it does is chosen by `numbers`."""

    def __init__(self, gateway, name, seed, over):
        super().__init__(name=name)
        self.gateway, self.over = gateway, over
        self.numbers = random.Random(f"{seed}/{name}")
        self.done, self.problems = {}, []

    def run(self):
        while not self.over.is_set() and len(self.problems) < PROBLEMS_MAX:
            kind = self.choose()
            try:
                getattr(self, "do_" + kind)()
            except Crashed:
                pass
            except Exception as problem:  # whatever it is, it is told, and the work goes on
                self.problems.append(f"{self.name}, {kind}: {problem!r}"[:600])
                self.recover()
            self.done[kind] = self.done.get(kind, 0) + 1
        try:
            self.clean()
        except Exception as problem:
            self.problems.append(f"{self.name}, cleaning up: {problem!r}"[:600])

    def recover(self):
        pass


class Http(Worker):
    """Requests by hand on keys of its own, some of them over a connection that is kept."""

    KINDS = {"put": 20, "get": 25, "range": 6, "head": 10, "delete": 8, "list": 8, "multipart": 6, "abort": 3,
             "copy": 6, "tags": 4, "refused": 4, "cut_put": 5, "cut_part": 2, "cut_get": 5, "cut_head": 3}

    def __init__(self, gateway, name, seed, over):
        super().__init__(gateway, name, seed, over)
        self.known = {}  # key: bytes
        self.connection = None
        self.versions = 0

    def choose(self):
        return self.numbers.choices(list(self.KINDS), self.KINDS.values())[0]

    def ask(self, method, key, query=(), headers=None, body=b""):
        """Every now and then over a new connection."""
        if self.connection and self.numbers.random() < 0.05:
            self.forget()
        self.connection = self.connection or raw.connect(self.gateway)
        path = f"/{BUCKET}/{key}" if key else f"/{BUCKET}"
        try:
            return raw.request(self.gateway, method, path, query, headers, body, connection=self.connection)
        except (OSError, http.client.HTTPException):
            # Idle for too long, perhaps: that is no problem, twice in a row is.
            self.forget()
            return raw.request(self.gateway, method, path, query, headers, body)

    def forget(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def recover(self):
        """After a problem nobody knows what is there."""
        self.forget()
        try:
            self.clean()
        except Exception:
            self.over.wait(0.5)

    def key(self):
        return f"{self.name}/{self.numbers.choice(['', 'a/', 'b/c/'])}k{self.numbers.randrange(KEYS)}"

    def a_known(self):
        if not self.known:
            self.do_put()
        return self.numbers.choice(list(self.known))

    def body(self):
        self.versions += 1
        return data.content(f"{self.name}/{self.versions}", self.numbers.choice(SIZES))

    def do_put(self):
        key, body = self.key(), self.body()
        long = {"x-amz-meta-long": "m" * 1900, "x-amz-tagging": "a=" + "t" * 250} if self.numbers.random() < 0.1 else {}
        expect(self.ask("PUT", key, headers=long, body=body), 200)
        self.known[key] = body

    def do_get(self):
        key = self.a_known()
        if expect(self.ask("GET", key), 200).body != self.known[key]:
            raise Problem(f"GET {key} brought other bytes")

    def do_range(self):
        key = self.a_known()
        body = self.known[key]
        if not body:
            return
        first = self.numbers.randrange(len(body))
        last = self.numbers.randrange(first, len(body))
        answer = expect(self.ask("GET", key, headers={"range": f"bytes={first}-{last}"}), 206)
        if answer.body != body[first:last + 1]:
            raise Problem(f"GET {key} {first}-{last} brought other bytes")

    def do_head(self):
        key = self.a_known()
        if int(expect(self.ask("HEAD", key), 200).headers["content-length"]) != len(self.known[key]):
            raise Problem(f"HEAD {key}: another length")

    def do_delete(self):
        key = self.a_known()
        expect(self.ask("DELETE", key), 204)
        del self.known[key]
        expect(self.ask("GET", key), 404)

    def listed(self):
        keys, query = set(), []
        while True:
            page = expect(self.ask("GET", "", [("list-type", "2"), ("prefix", self.name + "/"), ("max-keys", "5"),
                                              *query]), 200).xml()
            keys |= {item.findtext("Key") for item in page.iter("Contents")}
            if page.findtext("IsTruncated") != "true":
                return keys
            query = [("continuation-token", page.findtext("NextContinuationToken"))]

    def do_list(self):
        found = self.listed()
        if found != set(self.known):
            raise Problem(f"listed {sorted(found ^ set(self.known))}")

    def begin(self, key):
        return expect(self.ask("POST", key, [("uploads", "")]), 200).xml().findtext("UploadId")

    def part(self, key, ident, number, body):
        answer = self.ask("PUT", key, [("partNumber", str(number)), ("uploadId", ident)], body=body)
        return expect(answer, 200).headers["etag"]

    def do_multipart(self):
        key, bodies = self.key(), [self.body() for _ in range(self.numbers.randrange(1, 4))]
        bodies = [body or b"1" for body in bodies]
        ident = self.begin(key)
        etags = [self.part(key, ident, i + 1, body) for i, body in enumerate(bodies)]
        items = "".join(f"<Part><PartNumber>{i + 1}</PartNumber><ETag>{etag}</ETag></Part>"
                        for i, etag in enumerate(etags))
        text = f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode()
        answer = expect(self.ask("POST", key, [("uploadId", ident)], body=text), 200)
        if answer.xml().tag != "CompleteMultipartUploadResult":
            raise Problem(f"complete: {answer!r}"[:400])
        self.known[key] = b"".join(bodies)

    def do_abort(self):
        key = self.key()
        ident = self.begin(key)
        self.part(key, ident, 1, self.body())
        expect(self.ask("DELETE", key, [("uploadId", ident)]), 204)
        expect(self.ask("GET", key, [("uploadId", ident)]), 404)

    def do_copy(self):
        source, target = self.a_known(), self.key()
        if source != target:
            expect(self.ask("PUT", target, headers={"x-amz-copy-source": f"/{BUCKET}/{source}"}), 200)
            self.known[target] = self.known[source]

    def do_tags(self):
        key = self.a_known()
        body = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
        expect(self.ask("PUT", key, [("tagging", "")], body=body), 200)
        if expect(self.ask("GET", key, [("tagging", "")]), 200).xml().findtext(".//Value") != "v":
            raise Problem(f"tags of {key} are others")

    def do_refused(self):
        key = self.a_known()
        how = self.numbers.choice(["secret", "condition", "digest", "missing"])
        if how == "secret":
            answer = raw.request(self.gateway, "GET", f"/{BUCKET}/{key}", secret="wrong")
            expect(answer, 403)
        elif how == "condition":
            expect(self.ask("PUT", key, headers={"if-none-match": "*"}, body=b"not this"), 412)
        elif how == "digest":
            expect(self.ask("PUT", key, headers={"content-md5": raw.content_md5(b"else")}, body=b"not this"), 400)
        else:
            expect(self.ask("GET", key + "-missing"), 404)

    # ---- Clients that go away ----

    def leave_early(self, method, key, query, size, sent, read):
        """Sends `sent` bytes of a body of `size`, reads `read` bytes of the answer, and is gone."""
        path, headers = raw.quote(f"/{BUCKET}/{key}", "/"), {}
        raw.sign(method, self.gateway.host, path, list(query), headers, raw.UNSIGNED)
        target = path + ("?" + raw.canonical_query(query) if query else "")
        lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
        if size is not None:
            lines.append(f"content-length: {size}")
        with socket.create_connection(("127.0.0.1", self.gateway.port), 20) as connection:
            try:
                connection.sendall("\r\n".join(lines + ["", ""]).encode() + bytes(sent))
                left = read
                while left > 0:
                    piece = connection.recv(left)
                    if not piece:
                        break
                    left -= len(piece)
            except (ConnectionResetError, BrokenPipeError):
                pass
            if self.numbers.random() < 0.5:  # by RST
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def do_cut_put(self):
        key = self.a_known()
        size = self.numbers.choice([1000, 1 << 20])
        self.leave_early("PUT", key, (), size, self.numbers.randrange(size), 0)
        self.do_get()

    def do_cut_part(self):
        key = self.key()
        ident = self.begin(key)
        self.leave_early("PUT", key, [("partNumber", "1"), ("uploadId", ident)], 1 << 20, 300000, 0)
        expect(self.ask("DELETE", key, [("uploadId", ident)]), 204)

    def do_cut_get(self):
        self.leave_early("GET", self.a_known(), (), None, 0, self.numbers.choice([0, 1, 5000, 200000]))

    def do_cut_head(self):
        """In the middle of the request line, the fields, or after them."""
        with socket.create_connection(("127.0.0.1", self.gateway.port), 20) as connection:
            connection.sendall(self.numbers.choice([b"", b"GE", b"GET / HTTP/1.1\r\nho", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"]))

    def clean(self):
        for key in self.listed():
            expect(self.ask("DELETE", key), 204)
        page = expect(self.ask("GET", "", [("uploads", ""), ("prefix", self.name + "/")]), 200).xml()
        for item in page.iter("Upload"):
            expect(self.ask("DELETE", item.findtext("Key"), [("uploadId", item.findtext("UploadId"))]), 204)
        self.known = {}
        self.forget()


class Rdma(Worker):
    """Our own client over libfabric, each time a new peer; some are killed."""

    KINDS = {"round_trip": 8, "killed": 2}

    def __init__(self, gateway, name, seed, over, provider):
        super().__init__(gateway, name, seed, over)
        self.provider, self.crashed = provider, 0
        self.home = tempfile.mkdtemp(prefix="railgate-soak-")
        self.environment = gateways.clean_environment(
            AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
            AWS_ENDPOINT_URL=gateway.endpoint, HOME=self.home)
        self.url = f"s3://{BUCKET}/{name}/object"

    def choose(self):
        return self.numbers.choices(list(self.KINDS), self.KINDS.values())[0]

    def start_cp(self, *words):
        return subprocess.Popen([gateways.BINARY, "cp", "--path", "rdma", "--transports", "ofi", "--device",
                                 self.provider, *words], env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def cp(self, *words):
        process = self.start_cp(*words)
        said, _ = process.communicate(timeout=120)
        if process.returncode == -signal.SIGSEGV and self.provider == "shm" and not said:
            # libfabric 1.17's shm provider does that now and then in a client, near one that was killed.
            self.crashed += 1
            raise Crashed()
        if process.returncode:
            raise Problem(f"railgate cp {words}: {process.returncode}, {said.decode()}"[:500])

    def write(self, size):
        source = os.path.join(self.home, "source")
        with open(source, "wb") as file:
            file.write(data.content(self.numbers.random(), size))
        return source

    def do_round_trip(self):
        source, back = self.write(self.numbers.choice(SIZES[1:])), os.path.join(self.home, "back")
        self.cp(source, self.url)
        self.cp(self.url, back)
        with open(source, "rb") as one, open(back, "rb") as other:
            if one.read() != other.read():
                raise Problem("other bytes came back")

    def do_killed(self):
        process = self.start_cp(self.write(3 << 20), self.url)
        time.sleep(self.numbers.random() * 0.1)
        process.kill()
        process.communicate()

    def clean(self):
        raw.request(self.gateway, "DELETE", f"/{BUCKET}/{self.name}/object")
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home, exist_ok=True)


# ---- What is used ----

def leftovers(tree):
    """Files that no object needs: everything but what a bucket keeps."""
    found = []
    for directory, _, files in os.walk(tree):
        inside = os.path.relpath(directory, tree).split("/")
        own = ".railgate" in inside
        for file in files:
            if not own or file.startswith(".railgate-") or set(inside) & {"tmp", "uploads", "sidecar"}:
                found.append(os.path.join(directory, file))
    return found


class Usage(dict):
    """What the gateway uses now, by the kernel's count where it has one."""

    def __init__(self, gateway):
        super().__init__()
        pid = gateway.process.pid
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        self["memory"] = int(fields["VmRSS"].split()[0]) * 1024
        self["threads"] = int(fields["Threads"])
        self["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        status, text = gateway.admin("/-/metrics")
        assert status == 200, status
        totals = {}
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                totals[name] = float(value)

        def total(name, *parts):
            return sum(value for key, value in totals.items()
                       if key.partition("{")[0] == name and all(part in key for part in parts))

        self["connections"] = total("railgate_connections")
        self["requests"] = total("railgate_requests_in_progress")
        self["stuck"] = total("railgate_workers_stuck")
        self["workers"] = total("railgate_workers")
        self["lanes"] = total("railgate_rdma_lanes", 'state="leased"')
        self["slots"] = total("railgate_rdma_slots", 'state="in-use"')
        self["slots lost"] = total("railgate_rdma_slots", 'state="lost"')
        self["sessions"] = total("railgate_rdma_sessions")
        self["leftovers"] = len(leftovers(gateway.tree))

    def show(self):
        return f"{self['memory'] / (1 << 20):.1f} MiB, " + ", ".join(
            f"{value:.0f} {name}" for name, value in self.items() if name != "memory")


NOTHING = ["connections", "requests", "stuck", "lanes", "slots", "slots lost", "sessions", "leftovers"]


def more_than(now, before):
    """What the gateway uses that it did not."""
    found = [f"{now[name]:.0f} {name}" for name in NOTHING if now[name]]
    if before:
        for name, allowed in (("descriptors", DESCRIPTORS), ("threads", THREADS)):
            if now[name] > before[name] + allowed:
                found.append(f"{now[name]:.0f} {name} instead of {before[name]:.0f}")
        most = before["memory"] * MEMORY_RATIO + MEMORY_BYTES
        if now["memory"] > most and not is_sanitized():
            found.append(f"{now['memory'] / (1 << 20):.1f} MiB, and {most / (1 << 20):.1f} MiB are allowed")
    return found


def settle(gateway, before):
    """Waits until nothing is used that was not before; returns the last look and what is left."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        usage = Usage(gateway)
        found = more_than(usage, before)
        if not found or time.monotonic() > deadline:
            return usage, found
        time.sleep(0.5)


def all_lanes_are_open(workers):
    """A new peer takes a new lane as long as there is one."""
    return all(worker.done.get("round_trip", 0) > 2 for worker in workers if isinstance(worker, Rdma))


def work(gateway, seconds, seed, say, every, enough=lambda workers: True):
    """Returns (requests made, problems, looks); `done` has the clients that crashed, too."""
    over, looks = threading.Event(), []
    workers = [Http(gateway, f"h{i}", seed, over) for i in range(HTTP_WORKERS)]
    workers += [Rdma(gateway, provider, seed, over, provider) for provider in ("tcp", "shm")]
    for worker in workers:
        worker.start()
    started = time.monotonic()
    try:
        while gateway.process.poll() is None:
            left = started + seconds - time.monotonic()
            if left <= 0 and (enough(workers) or left < -SETTLE_SECONDS):
                break
            time.sleep(max(1.0, min(every, left)))
            if gateway.process.poll() is None:
                usage = Usage(gateway)
                looks.append({"seconds": time.monotonic() - started, **usage})
                say(f"  {time.monotonic() - started:6.0f} s: {usage.show()}")
    finally:
        over.set()
        for worker in workers:
            worker.join()
            if isinstance(worker, Rdma):
                shutil.rmtree(worker.home, ignore_errors=True)
    problems = [problem for worker in workers for problem in worker.problems]
    done = {}
    for worker in workers:
        for kind, number in worker.done.items():
            done[kind] = done.get(kind, 0) + number
        if getattr(worker, "crashed", 0):
            done["crashed clients"] = done.get("crashed clients", 0) + worker.crashed
    if gateway.process.poll() is not None:
        problems.append(f"the gateway ended with {gateway.process.returncode}: {gateway.log()[-2000:]}")
    return done, problems, looks


def soak(tree, seconds, seed, say=print, every=30.0):
    """Returns (checks that held, problems, clients that crashed)."""
    environment = {}
    if is_sanitized():  # what is freed is kept for a while, which is no leak
        environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"
    gateway = gateways.Gateway(tree, OPTIONS, environment, name="soak").start()
    held, crashed, problems = 0, 0, []
    try:
        made = raw.request(gateway, "PUT", f"/{BUCKET}")
        assert made.status == 200, made
        warm = max(5.0, min(60.0, seconds / 4))
        say(f"seed {seed}; {warm:.0f} s to warm up")
        done, problems, _ = work(gateway, warm, f"{seed}/warm", say, every, all_lanes_are_open)
        before, found = settle(gateway, None)
        problems += [f"after warming up: {one}" for one in found]
        say(f"the beginning: {before.show()}")
        done, found, looks = work(gateway, seconds, seed, say, every)
        problems += found
        after, found = settle(gateway, before)
        problems += [f"at the end: {one}" for one in found]
        say(f"the end: {after.show()}")
        say("done: " + ", ".join(f"{number} {kind}" for kind, number in sorted(done.items())))
        crashed = done.pop("crashed clients", 0)
        held = len(done) + len(after) - len(found)
        os.makedirs(gateways.OUT, exist_ok=True)
        with open(os.path.join(gateways.OUT, "soak.json"), "w") as file:
            json.dump({"seed": seed, "seconds": seconds, "before": before, "after": after, "done": done,
                       "looks": looks, "problems": problems}, file, indent=1)
        gateway.stop()
    except AssertionError as problem:
        problems.append(str(problem))
    finally:
        if gateway.process.poll() is None:
            gateway.kill()
    return held, problems, crashed


def main():
    parser = argparse.ArgumentParser(prog="dev soak", description=__doc__.splitlines()[0])
    parser.add_argument("seconds", nargs="?", type=int, default=3600)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10 ** 6)))
    how = parser.parse_args()
    if not 10 <= how.seconds <= 86400:
        parser.error("10 to 86400 seconds")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tree = tempfile.mkdtemp(prefix="railgate-soak-tree-")
    try:
        held, problems, crashed = soak(tree, how.seconds, how.seed, lambda text: print(text, flush=True))
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    for problem in problems:
        print(f"failed: {problem}")
    if crashed:
        print(f"skipped: {crashed} transfers whose client died in libfabric's shm provider")
    print(f"{held} passed, {len(problems)} failed, {crashed} skipped")
    return 1 if problems or not held else 0


if __name__ == "__main__":
    sys.exit(main())
