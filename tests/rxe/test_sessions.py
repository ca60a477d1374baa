"""Our gateway over soft-RoCE: rc: sessions and hipobj-rc-v2, by our client and by hand (rxe-endpoint).
What is compared is the file in the tree, the bytes in the client's memory, and the gateway's counts; at
the end nothing is left over. For the guest: see tests/rxe/list."""
import concurrent.futures
import mmap
import os
import re
import subprocess
import sys
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/clients"))
import data  # noqa: E402
import gateway as gateways  # noqa: E402
import raw  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SLOT = MIB
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
SCRATCH = os.environ.get("SCRATCH", "/data")
DEVICE = "rxe0"
MEMORY = 80 * MIB
PROTOCOL = {"x-amz-rdma-protocol": "hipobj-rc-v2"}

# The guest is slow: budgets are for it, not for what is tested.
OPTIONS = ("--rdma", "on", "--rdma-transports", "rc", "--rdma-budget", "120s", "--rdma-push-budget", "120s",
           "--rdma-queue-wait", "60s", "--requests-max", "512")


# ---- The gateway ----

def start(tmp_path_factory, name, *options):
    one = gateways.Gateway(os.path.join(SCRATCH, f"tree-{name}"), [*OPTIONS, *options], name=name).start(180)
    raw.request(one, "PUT", "/rdma")
    return one


def total(gateway, name, *parts):
    """The sum of a metric's samples whose labels contain `parts`."""
    status, text = gateway.admin("/-/metrics")
    assert status == 200
    found = 0.0
    for line in text.decode().splitlines():
        if re.match(name + r"[ {]", line):
            labels, value = line[len(name):].rsplit(" ", 1)
            if all(part in labels for part in parts):
                found += float(value)
    return found


def left_over(gateway):
    return {name: count for name, count in {
        "lanes": total(gateway, "railgate_rdma_lanes", 'state="leased"'),
        "slots": total(gateway, "railgate_rdma_slots", 'state="in-use"'),
        "sessions": total(gateway, "railgate_rdma_sessions", 'state="open"'),
        "staging": total(gateway, "railgate_rdma_staging_bytes"),
    }.items() if count}


def nothing_left(gateway, seconds=30):
    deadline = time.monotonic() + seconds
    while left_over(gateway):
        assert time.monotonic() < deadline, left_over(gateway)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def rc(tmp_path_factory):
    one = start(tmp_path_factory, "rc", "--rdma-session-idle", "30s")
    yield one
    nothing_left(one)
    one.stop()


@pytest.fixture(autouse=True)
def check_leftovers(request):
    yield
    if "rc" in request.fixturenames:
        nothing_left(request.getfixturevalue("rc"))


def stored(gateway, key):
    with open(os.path.join(gateway.tree, "rdma", key), "rb") as file:
        return file.read()


def is_there(gateway, key):
    return os.path.exists(os.path.join(gateway.tree, "rdma", key))


# ---- Our client ----

def railgate(gateway, *words, check=True, **how):
    environment = gateways.clean_environment(
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_ENDPOINT_URL=gateway.endpoint)
    done = subprocess.run([gateways.BINARY, *map(str, words)], env=environment, capture_output=True,
                          timeout=300, **how)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return (done.stdout + done.stderr).decode()


def cp(transports="rc"):
    return ("cp", "--path", "rdma", "--transports", transports, "-v")


CP = cp()

# What our client calls each dialect, and the gateway.
DIALECTS = pytest.mark.parametrize("transports,dialect", [("rc", "rc-session"), ("hipobj-rc-v2", "hipobj-rc-v2")])


@DIALECTS
@pytest.mark.parametrize("size", [1, 4095, 4096, SLOT - 1, SLOT, SLOT + 1, 4 * SLOT + 17, 64 * MIB])
def test_our_client(rc, tmp_path, size, transports, dialect):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data.content(size, size))
    key = f"ours-{dialect}-{size}"
    moved = total(rc, "railgate_rdma_bytes_total", f'dialect="{dialect}"')
    assert "rdma:rc" in railgate(rc, *cp(transports), source, f"s3://rdma/{key}")
    assert stored(rc, key) == source.read_bytes()
    assert "rdma:rc" in railgate(rc, *cp(transports), f"s3://rdma/{key}", back)
    assert back.read_bytes() == source.read_bytes()
    assert total(rc, "railgate_rdma_bytes_total", f'dialect="{dialect}"') - moved == 2 * size


@DIALECTS
def test_our_client_in_parts(rc, tmp_path, transports, dialect):
    """Up by multipart, down by parallel ranges."""
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data.content("parts", 18 * MIB + 5))
    labels = ('operation="UploadPart"', f'dialect="{dialect}"')
    before = total(rc, "railgate_rdma_bytes_total", *labels)
    railgate(rc, *cp(transports), "--part-size", "8M", "--parallel", "3", source, "s3://rdma/parts")
    assert total(rc, "railgate_rdma_bytes_total", *labels) - before == source.stat().st_size
    assert stored(rc, "parts") == source.read_bytes()
    railgate(rc, *cp(transports), "--part-size", "8M", "s3://rdma/parts", back)
    assert back.read_bytes() == source.read_bytes()


def test_our_client_by_push_falls_back(rc, tmp_path):
    """What cannot be pushed is declined at PREPARE, and goes by HTTP unless only RDMA will do."""
    source = tmp_path / "source"
    with open(source, "wb") as file:
        file.truncate(2 * MIB)
    gateway = gateways.Gateway(os.path.join(SCRATCH, "tree-small"),
                               [*OPTIONS, "--rdma-staging-max", "1M"], name="small").start(180)
    try:
        raw.request(gateway, "PUT", "/rdma")
        assert "http:push-too-large" in railgate(
            gateway, "cp", "--transports", "hipobj-rc-v2", "-v", source, "s3://rdma/large")
        assert stored(gateway, "large") == source.read_bytes()
        assert "push-too-large" in railgate(gateway, *cp("hipobj-rc-v2"), source, "s3://rdma/only", check=False)
        assert not is_there(gateway, "only")
        nothing_left(gateway)
    finally:
        gateway.stop()


def test_our_client_dies(rc, tmp_path):
    source = tmp_path / "source"
    with open(source, "wb") as file:
        file.truncate(64 * MIB)
    environment = gateways.clean_environment(
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_ENDPOINT_URL=rc.endpoint)
    for _ in range(5):
        client = subprocess.Popen([gateways.BINARY, *CP, "--part-size", "1G", source, "s3://rdma/dies"],
                                  env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while client.poll() is None and not total(rc, "railgate_rdma_sessions", 'state="in-use"'):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        client.kill()
        client.wait()
        nothing_left(rc, 120)
        if not is_there(rc, "dies"):
            return
        # The transfer was over before the client was: its session has gone for being idle.
        assert stored(rc, "dies") == bytes(64 * MIB)
        assert raw.request(rc, "DELETE", "/rdma/dies").status == 204
    raise AssertionError("no transfer was cut off in five")


# ---- A client in pieces ----

class Endpoint:
    """Queue pairs and memory; the HTTP is the test's."""

    def __init__(self, name="memory", size=MEMORY):
        self.path = os.path.join("/dev/shm", name)
        with open(self.path, "wb") as file:
            file.truncate(size)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), size)
        self.lock = threading.Lock()
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/rxe/rxe-endpoint"), self.path, DEVICE],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ok\n"

    def ask(self, *words):
        with self.lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().split()

    def must(self, *words):
        answer = self.ask(*words)
        assert answer and answer[0] == "ok", answer
        return answer[1:]

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.memory.close()
        os.unlink(self.path)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def endpoint():
    one = Endpoint()
    yield one
    if one.process.poll() is None:
        one.stop()


def place(endpoint, at, body):
    endpoint.memory[at:at + len(body)] = body


def taken(endpoint, at, length):
    return bytes(endpoint.memory[at:at + length])


class Session:
    """An rc: session."""

    def __init__(self, gateway, endpoint):
        self.gateway, self.endpoint = gateway, endpoint
        self.lane, _, psn, token = endpoint.must("lane")
        answer = raw.request(gateway, "POST", "/.s3rdma-rc/connect", headers={
            "x-amz-rdma-token": token, "x-amz-rdma-psn": psn})
        assert answer.status == 200, answer
        self.id = answer.headers["x-amz-rdma-session"]
        endpoint.must("pair", self.lane, answer.headers["x-amz-rdma-reply"][4:], answer.headers["x-amz-rdma-psn"])

    def end(self, status=204):
        answer = raw.request(self.gateway, "POST", "/.s3rdma-rc/disconnect",
                             headers={"x-amz-rdma-session": self.id})
        assert answer.status == status, answer
        self.endpoint.must("close", self.lane)

    def ask(self, method, key, at, length, headers=None, query=(), spoil=0):
        target, address, rkey = self.endpoint.must("mint", self.lane, f"{at:x}", f"{length:x}", method.lower())
        rkey = f"{int(rkey, 16) ^ spoil:08x}"
        token = f"rc:{self.id}:{address}:{length:08x}:{rkey}"
        answer = raw.request(self.gateway, method, f"/rdma/{key}", query=query,
                             headers={"x-amz-rdma-token": token, **(headers or {})})
        self.endpoint.must("revoke", target)
        return answer


@pytest.fixture
def session(rc, endpoint):
    one = Session(rc, endpoint)
    yield one
    if one.id:
        one.end()


@pytest.mark.parametrize("size", [1, 4097, SLOT - 1, SLOT, SLOT + 1, 3 * SLOT + 5])
def test_session(rc, endpoint, session, size):
    body = data.content("session", size)
    key = f"session-{size}"
    place(endpoint, 100, body)
    put = session.ask("PUT", key, 100, size)
    assert put.status == 200 and put.headers["x-amz-rdma-reply"] == "200", put
    assert put.headers["x-railgate-path"] == "rdma:rc"
    assert put.headers["etag"] == f'"{data.md5(body)}"'
    assert int(put.headers["x-amz-rdma-bytes-transferred"]) == size
    assert stored(rc, key) == body
    get = session.ask("GET", key, 8 * MIB + 1, size)
    assert get.status == 200 and get.headers["x-amz-rdma-reply"] == "200" and not get.body, get
    assert taken(endpoint, 8 * MIB + 1, size) == body
    for first, last in {(0, 0), (size - 1, size - 1), (size // 3, size // 2), (0, size - 1)}:
        place(endpoint, 0, bytes(size + 1))
        part = session.ask("GET", key, 0, size, headers={"range": f"bytes={first}-{last}"})
        assert part.status == 206 and part.headers["x-amz-rdma-reply"] == "206", part
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
        assert taken(endpoint, 0, last - first + 1) == body[first:last + 1]
        assert not any(taken(endpoint, last - first + 1, size - (last - first)))


def test_window_too_small(rc, endpoint, session):
    body = data.content("small", 100000)
    raw.request(rc, "PUT", "/rdma/small", body=body)
    place(endpoint, 0, bytes(100000))
    answer = session.ask("GET", "small", 0, 99999)
    assert answer.status == 200 and answer.headers["x-amz-rdma-reply"] == "501" and answer.body == body
    assert answer.headers["x-railgate-path"] == "http:window-too-small"
    assert not any(taken(endpoint, 0, 100000))
    assert session.ask("GET", "small", 0, 100000).headers["x-amz-rdma-reply"] == "200"


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_wrong_key(rc, endpoint, method):
    body = data.content("key", 3 * SLOT)
    raw.request(rc, "PUT", "/rdma/key", body=body)
    place(endpoint, 0, bytes(3 * SLOT))
    session = Session(rc, endpoint)
    failures = total(rc, "railgate_rdma_failures_total", 'cause="remote-access"')
    answer = session.ask(method, "key", 0, 3 * SLOT, spoil=0x0f00)
    assert (answer.status, answer.code) == (500, "RDMATransferFailed"), answer
    assert answer.headers["x-amz-rdma-reply"] is None
    assert stored(rc, "key") == body
    assert not any(taken(endpoint, 0, 3 * SLOT))
    assert total(rc, "railgate_rdma_failures_total", 'cause="remote-access"') == failures + 1
    session.end(404)  # it is gone
    again = Session(rc, endpoint)
    assert again.ask("GET", "key", 0, 3 * SLOT).status == 200
    assert taken(endpoint, 0, 3 * SLOT) == body
    again.end()


def test_session_of_nobody(rc, endpoint, session):
    known, session.id = session.id, "0" * 32
    answer = session.ask("PUT", "nobody", 0, 100)
    assert answer.status == 501 and answer.headers["x-railgate-path"] == "declined:no-session", answer
    assert not is_there(rc, "nobody")
    session.id = known


def test_peer_is_dead(rc, endpoint):
    session = Session(rc, endpoint)
    _, address, rkey = endpoint.must("mint", session.lane, "0", "100000", "put")
    endpoint.kill()
    answer = raw.request(rc, "PUT", "/rdma/dead", headers={
        "x-amz-rdma-token": f"rc:{session.id}:{address}:00100000:{rkey}"})
    assert (answer.status, answer.code) == (500, "RDMATransferFailed"), answer
    assert not is_there(rc, "dead")
    nothing_left(rc)


# ---- hipobj-rc-v2 by hand ----

COOKIE = "5eed1234"


class Push:
    def __init__(self, gateway, endpoint, op, key, size, headers=None, query="", status=200):
        self.gateway, self.endpoint, self.size = gateway, endpoint, size
        self.lane, self.qpn, psn, token = endpoint.must("lane")
        self.prepared = raw.request(gateway, "POST", "/.hipobj-rc/prepare", headers={
            **PROTOCOL, "x-amz-rdma-token": token, "x-amz-rdma-psn": psn, "x-amz-rdma-cookie": COOKIE,
            "x-amz-rdma-op": op, "x-amz-rdma-target": f"/rdma/{key}{query}", "x-amz-rdma-size": str(size),
            "x-amz-rdma-offset": "0", **(headers or {})})
        assert self.prepared.status == status, self.prepared
        self.window = {}

    def pair(self):
        self.endpoint.must("pair", self.lane, self.prepared.headers["x-amz-rdma-reply"][4:],
                           self.prepared.headers["x-amz-rdma-psn"])

    def ready(self, headers=None):
        return raw.request(self.gateway, "POST", "/.hipobj-rc/ready", headers={
            **PROTOCOL, "x-amz-rdma-session": self.prepared.headers["x-amz-rdma-session"],
            "x-amz-rdma-cookie": COOKIE, "x-amz-rdma-qpn": self.qpn, **self.window, **(headers or {})})

    def cancel(self):
        answer = raw.request(self.gateway, "POST", "/.hipobj-rc/cancel", headers={
            **PROTOCOL, "x-amz-rdma-session": self.prepared.headers["x-amz-rdma-session"]})
        assert answer.status == 204, answer

    def mint(self, at, spoil=0):
        self.target, address, rkey = self.endpoint.must("mint", self.lane, f"{at:x}", f"{self.size:x}", "get")
        self.window = {"x-amz-rdma-mr-addr": address, "x-amz-rdma-mr-rkey": f"{int(rkey, 16) ^ spoil:x}"}

    def get(self, at, headers=None):
        self.pair()
        self.endpoint.must("receive", self.lane)
        self.mint(at)
        answer = self.ready(headers)
        if answer.status == 200:
            assert self.endpoint.must("wait", self.lane, 20000)[0] == COOKIE
        self.endpoint.must("revoke", self.target)
        self.endpoint.must("close", self.lane)
        return answer

    def write(self, at, length=None, immediate=COOKIE):
        headers = self.prepared.headers
        return self.endpoint.ask("push", self.lane, headers["x-amz-rdma-mr-addr"], headers["x-amz-rdma-mr-rkey"],
                                 f"{at:x}", f"{self.size if length is None else length:x}", immediate, 60000)

    def put(self, at, headers=None, **how):
        self.pair()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.ready, headers)
            time.sleep(0.2)
            self.write(at, **how)
            answer = answer.result()
        self.endpoint.must("close", self.lane)
        return answer


@pytest.mark.parametrize("size", [1, 4095, SLOT - 1, SLOT, SLOT + 1, 5 * SLOT + 7, 64 * MIB])
def test_push(rc, endpoint, size):
    body = data.content("push", size)
    key = f"push-{size}"
    moved = total(rc, "railgate_rdma_bytes_total", 'dialect="hipobj-rc-v2"')
    place(endpoint, 64, body)
    put = Push(rc, endpoint, "PUT", key, size, headers={"x-amz-meta-colour": "red"}).put(
        64, {"x-amz-rdma-checksum-algorithm": "CRC64NVME"})
    assert put.status == 200, put
    assert put.headers["x-amz-rdma-cookie"] == COOKIE
    assert int(put.headers["x-amz-rdma-bytes-transferred"]) == size
    assert put.headers["x-amz-rdma-etag"] == f'"{data.md5(body)}"'
    assert stored(rc, key) == body
    head = raw.request(rc, "HEAD", f"/rdma/{key}")
    assert head.headers["x-amz-meta-colour"] == "red"
    endpoint.memory[0:size + 128] = bytes(size + 128)
    get = Push(rc, endpoint, "GET", key, size).get(32, {"x-amz-rdma-checksum-algorithm": "CRC64NVME"})
    assert get.status == 200 and not get.body, get
    assert get.headers["x-amz-rdma-checksum"] == put.headers["x-amz-rdma-checksum"]
    assert taken(endpoint, 32, size) == body and not any(taken(endpoint, size + 32, 96))
    length = max(1, size // 2)
    get = Push(rc, endpoint, "GET", key, length, headers={"x-amz-rdma-offset": str(size - length)}).get(0)
    assert get.status == 200, get
    assert taken(endpoint, 0, length) == body[size - length:]
    assert total(rc, "railgate_rdma_bytes_total", 'dialect="hipobj-rc-v2"') - moved == 2 * size + length


def test_push_in_parts(rc, endpoint):
    import xml.etree.ElementTree
    bodies = [data.content(f"part-{i}", size) for i, size in enumerate((5 * MIB, 5 * MIB + 3, 77))]
    created = raw.request(rc, "POST", "/rdma/pushed-parts", query={"uploads": ""})
    upload = created.xml().findtext("UploadId")
    document = "<CompleteMultipartUpload>"
    for i, body in enumerate(bodies, 1):
        place(endpoint, 0, body)
        put = Push(rc, endpoint, "PUT", "pushed-parts", len(body), query=f"?partNumber={i}&uploadId={upload}").put(0)
        assert put.status == 200, put
        document += f"<Part><PartNumber>{i}</PartNumber><ETag>{put.headers['x-amz-rdma-etag']}</ETag></Part>"
    done = raw.request(rc, "POST", "/rdma/pushed-parts", query={"uploadId": upload},
                       body=(document + "</CompleteMultipartUpload>").encode())
    assert done.status == 200 and xml.etree.ElementTree.fromstring(done.body) is not None, done
    assert stored(rc, "pushed-parts") == b"".join(bodies)
    get = Push(rc, endpoint, "GET", "pushed-parts", len(bodies[1]), query="?partNumber=2").get(0)
    assert get.status == 200 and taken(endpoint, 0, len(bodies[1])) == bodies[1], get


def test_push_refused(rc, endpoint):
    raw.request(rc, "PUT", "/rdma/ten", body=b"0123456789")
    Push(rc, endpoint, "GET", "ten", 11, status=416)
    Push(rc, endpoint, "GET", "none", 1, status=404)
    Push(rc, endpoint, "PUT", "ten", 5, headers={"if-none-match": "*"}, status=412)
    Push(rc, endpoint, "PUT", "large", (1 << 31) - 1, status=413)
    # Another cookie, and another length than was announced.
    for how in ({"immediate": "5eed1235"}, {"length": 4}):
        put = Push(rc, endpoint, "PUT", "wrong", 5).put(0, **how)
        assert (put.status, put.code) == (400, "InvalidRequest"), put
        assert not is_there(rc, "wrong")
    put = Push(rc, endpoint, "PUT", "sum", 5, headers={"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}).put(0)
    assert (put.status, put.code) == (400, "BadDigest") and not is_there(rc, "sum"), put


def test_push_wrong_key(rc, endpoint):
    raw.request(rc, "PUT", "/rdma/ten", body=b"0123456789")
    place(endpoint, 0, bytes(100))
    push = Push(rc, endpoint, "GET", "ten", 10)
    push.pair()
    endpoint.must("receive", push.lane)
    push.mint(0, spoil=0x0f00)
    answer = push.ready()
    assert (answer.status, answer.code) == (500, "RDMATransferFailed"), answer
    assert not any(taken(endpoint, 0, 100))
    # The client's own key for the gateway's memory is good for this session alone, and once.
    push = Push(rc, endpoint, "PUT", "late", 1000)
    assert push.put(0).status == 200
    late = Push(rc, endpoint, "PUT", "later", 1000)
    late.pair()
    late.prepared.headers.replace_header("X-Amz-Rdma-Mr-Rkey", push.prepared.headers["x-amz-rdma-mr-rkey"])
    late.prepared.headers.replace_header("X-Amz-Rdma-Mr-Addr", push.prepared.headers["x-amz-rdma-mr-addr"])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(late.ready)
        time.sleep(0.2)
        assert late.write(0)[1:] in (["remote-access"], ["other"])
        late.cancel()
        assert answer.result().status == 500
    assert not is_there(rc, "later")


def test_push_peer_comes_late(rc, endpoint):
    body = data.content("late", 2 * SLOT)
    raw.request(rc, "PUT", "/rdma/comes-late", body=body)
    push = Push(rc, endpoint, "GET", "comes-late", len(body))
    push.mint(0)
    answer = push.ready()  # its queue pair is not paired yet
    assert (answer.status, answer.code) == (409, "RdmaPeerBusy"), answer
    push.endpoint.must("revoke", push.target)
    answer = push.get(0)
    assert answer.status == 200 and taken(endpoint, 0, len(body)) == body, answer


def test_push_cancelled(rc, endpoint):
    push = Push(rc, endpoint, "PUT", "cancelled", 1000)
    assert total(rc, "railgate_rdma_staging_bytes") == 1000
    push.cancel()
    push.cancel()
    assert (push.ready().status) == 404
    push = Push(rc, endpoint, "PUT", "cancelled", 1000)
    push.pair()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(push.ready)
        time.sleep(0.5)
        assert push.ready().status == 409
        push.cancel()
        assert answer.result().status == 500
    assert not is_there(rc, "cancelled")


def test_push_peer_dies(rc, endpoint):
    raw.request(rc, "PUT", "/rdma/dies-get", body=data.content("dies", 4 * SLOT))
    push = Push(rc, endpoint, "GET", "dies-get", 4 * SLOT)
    push.pair()
    push.mint(0)
    endpoint.kill()
    assert push.ready().status in (409, 500)
    push.cancel()
    nothing_left(rc)


# ---- Ceilings ----

def test_ceilings(tmp_path_factory, endpoint):
    gateway = start(tmp_path_factory, "ceilings", "--rdma-sessions-max", "3", "--rdma-session-idle", "4s",
                    "--rdma-prepare-timeout", "10s", "--rdma-push-budget", "2s", "--rdma-staging-max", "2M")
    try:
        pushes = [Push(gateway, endpoint, "PUT", "waits", MIB // 2) for _ in range(3)]
        Push(gateway, endpoint, "PUT", "refused", 1, status=503)
        lane, _, psn, token = endpoint.must("lane")
        refused = raw.request(gateway, "POST", "/.s3rdma-rc/connect", headers={
            "x-amz-rdma-token": token, "x-amz-rdma-psn": psn})
        assert refused.status == 503 and refused.headers["x-railgate-path"] == "declined:session-limit", refused
        pushes[0].pair()
        answer = pushes[0].ready()  # and never pushes
        assert (answer.status, answer.code) == (408, "RdmaTransferTimeout"), answer
        Push(gateway, endpoint, "PUT", "no-room", MIB + 1, status=503)  # two of half a MiB are out
        session = Session(gateway, endpoint)
        nothing_left(gateway, 30)  # all of them reaped
        assert pushes[1].ready().status == 404
        events = "railgate_rdma_session_events_total"
        assert total(gateway, events, 'event="reaped"') == 3
        assert total(gateway, events, 'event="refused"') == 3
        assert session.ask("PUT", "late", 0, 10).headers["x-railgate-path"] == "declined:no-session"
    finally:
        gateway.stop()


def test_full_slab(tmp_path_factory, endpoint):
    """One slot, held by a transfer to a peer that does not answer."""
    gateway = start(tmp_path_factory, "slab", "--rdma-memory", "1M", "--rdma-slot-size", "1M",
                    "--rdma-queue-wait", "100ms")
    try:
        raw.request(gateway, "PUT", "/rdma/one", body=b"1" * 1000)
        dead = Endpoint("dead", MIB)
        stuck, good = Session(gateway, dead), Session(gateway, endpoint)
        _, address, rkey = dead.must("mint", stuck.lane, "0", "1000", "get")
        dead.kill()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(raw.request, gateway, "GET", "/rdma/one", headers={
                "x-amz-rdma-token": f"rc:{stuck.id}:{address}:00001000:{rkey}"})
            while not total(gateway, "railgate_rdma_slots", 'state="in-use"'):
                time.sleep(0.02)
            full = good.ask("PUT", "full", 0, 1000)
            assert full.status == 501 and full.headers["x-railgate-path"] == "declined:no-slot", full
            assert not is_there(gateway, "full")
            assert answer.result().status == 500
        assert good.ask("PUT", "full", 0, 1000).status == 200
        good.end()
        nothing_left(gateway)
    finally:
        gateway.stop()


def test_two_hundred_at_once(rc, endpoint):
    """Each a session of its own; every second one puts, the others get."""
    count, size = 200, 60 * KIB + 1
    body = data.content("many", size)
    raw.request(rc, "PUT", "/rdma/many", body=body)
    sessions = [Session(rc, endpoint) for _ in range(count)]
    assert total(rc, "railgate_rdma_sessions", 'state="open"') == count

    def one(i):
        at = i * 2 * 64 * KIB
        if i % 2:
            return sessions[i].ask("GET", "many", at, size)
        place(endpoint, at, body)
        return sessions[i].ask("PUT", f"many-{i}", at, size)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(one, range(count)))
    for i, answer in enumerate(answers):
        assert answer.status == 200 and answer.headers["x-railgate-path"] == "rdma:rc", (i, answer)
        if i % 2:
            assert taken(endpoint, i * 2 * 64 * KIB, size) == body
        else:
            assert stored(rc, f"many-{i}") == body
    for session in sessions:
        session.end()


# ---- The link; last, for it takes the rail away ----

def rail_is_up(gateway):
    return total(gateway, "railgate_rdma_rail_up") == 1


def wait_for_rail(gateway, up, seconds=60):
    deadline = time.monotonic() + seconds
    while rail_is_up(gateway) != up:
        assert time.monotonic() < deadline, "the rail is still " + ("down" if up else "up")
        time.sleep(0.2)


class LongClient:
    """One client of the library over all of it (rxe-client): puts an object, says by which path."""

    def __init__(self, gateway, transports):
        environment = gateways.clean_environment(
            AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
            AWS_ENDPOINT_URL=gateway.endpoint)
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/rxe/rxe-client"), transports], text=True,
                                        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def put(self, key):
        self.process.stdin.write(key + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def put_until(self, key, path, seconds=60):
        deadline = time.monotonic() + seconds
        while (said := self.put(key)) != path:
            assert time.monotonic() < deadline, said
            time.sleep(0.2)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def test_link_down_under_clients(rc):
    """Clients that were open before go on by HTTP, and by RDMA again when the link is back."""
    clients = [LongClient(rc, transports) for transports in ("rc", "hipobj-rc-v2")]
    for one in clients:
        assert one.put("under") == "rdma:rc"
    subprocess.run(["ip", "link", "set", "roce0", "down"], check=True)
    try:
        for one in clients:
            assert one.put("under-down").startswith("http:")
        wait_for_rail(rc, False)
        for one in clients:
            assert one.put("under-down").startswith("http:")
    finally:
        subprocess.run(["ip", "link", "set", "roce0", "up"], check=True)
    wait_for_rail(rc, True, 90)
    for one in clients:
        one.put_until("under-up", "rdma:rc")
        one.end()
    assert stored(rc, "under") == stored(rc, "under-down") == stored(rc, "under-up")


def test_link_down(rc, endpoint, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(data.content("link", 3 * SLOT))
    session = Session(rc, endpoint)
    place(endpoint, 0, source.read_bytes())
    assert session.ask("PUT", "link", 0, 3 * SLOT).status == 200
    subprocess.run(["ip", "link", "set", "roce0", "down"], check=True)
    try:
        wait_for_rail(rc, False)
        status, text = rc.admin("/-/ready")
        assert status == 200 and b'"up": false' in text and b'"reason"' in text, text
        answer = session.ask("PUT", "link-down", 0, 3 * SLOT)
        assert answer.status == 501 and not is_there(rc, "link-down"), answer
        assert re.fullmatch("declined:(no-session|rail-down)", answer.headers["x-railgate-path"]), answer
        assert "http:" in railgate(rc, "cp", "--transports", "rc", "-v", source, "s3://rdma/link-down")
        assert stored(rc, "link-down") == source.read_bytes()
        nothing_left(rc)
    finally:
        subprocess.run(["ip", "link", "set", "roce0", "up"], check=True)
    wait_for_rail(rc, True, 90)
    assert "rdma:rc" in railgate(rc, *CP, source, "s3://rdma/link-up")
    assert stored(rc, "link-up") == source.read_bytes()
