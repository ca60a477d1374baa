"""Two gateways on one GlusterFS volume, each through a mount of its own: what they promise together.
The volume (three bricks in one directory) is started here; where that cannot be done, e.g. where
nothing may be mounted, the tests are skipped with the reason."""
import concurrent.futures
import contextlib
import fcntl
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

import data
import gateway as gateways
import raw
from test_server import slow_put, wait_for_bodies

ADDRESS = "127.0.0.2"  # as a host of bricks, glusterd refuses localhost and 127.0.0.1
GLUSTERD_PORT = 24007


def port_is_free():
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", GLUSTERD_PORT))
        except OSError:
            return False
    return True


class Volume:
    """A glusterd of its own, a replicated volume, and mounts of it."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="rg-gluster-")
        self.socket = os.path.join(self.base, "glusterd.socket")
        self.run_directory = os.path.join(self.base, "run")
        self.mounts = []
        self.daemon = None

    def gluster(self, *words, check=True):
        done = subprocess.run(["gluster", "--mode=script", f"--glusterd-sock={self.socket}", *words],
                              capture_output=True, text=True, timeout=120)
        if check and done.returncode:
            raise RuntimeError(f"gluster {' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def start(self):
        for name in ("run", "work", "log", "b1", "b2", "b3"):
            os.mkdir(os.path.join(self.base, name))
        self.daemon = subprocess.Popen(
            ["glusterd", "--no-daemon", "--log-file", f"{self.base}/log/glusterd.log",
             "--xlator-option", f"*.working-directory={self.base}/work",
             "--xlator-option", f"*.run-directory={self.run_directory}",
             "--xlator-option", f"*.glusterd-sockfile={self.socket}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while self.gluster("volume", "list", check=False).returncode:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("glusterd does not answer")
            time.sleep(0.2)
        bricks = [f"{ADDRESS}:{self.base}/{name}" for name in ("b1", "b2", "b3")]
        self.gluster("volume", "create", "rg", "replica", "3", *bricks, "force")
        self.gluster("volume", "start", "rg")

    def mount(self):
        where = os.path.join(self.base, f"mount{len(self.mounts)}")
        os.mkdir(where)
        log = f"log-file={self.base}/log/mount{len(self.mounts)}.log"
        done = subprocess.run(["mount", "-t", "glusterfs", "-o", log, f"{ADDRESS}:/rg", where],
                              capture_output=True, text=True, timeout=120)
        if done.returncode or not os.path.ismount(where):
            raise RuntimeError(f"mounting the volume: {done.stdout}{done.stderr}")
        self.mounts.append(where)
        return where

    def stop(self):
        for where in self.mounts:
            subprocess.run(["umount", where], timeout=60, check=False)
        if self.daemon and self.daemon.poll() is None:
            self.gluster("volume", "stop", "rg", "force", check=False)
            self.daemon.terminate()
            self.daemon.wait(30)
        for path in glob.glob(f"{self.run_directory}/**/*.pid", recursive=True):
            try:
                with open(path, encoding="ascii") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
            except (OSError, ValueError):
                pass
        shutil.rmtree(self.base, ignore_errors=True)


@contextlib.contextmanager
def turn():
    """Its port is fixed: one run after the other."""
    lock = os.open(os.path.join(tempfile.gettempdir(), "rg-gluster.lock"), os.O_RDONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.fixture(scope="module")
def volume():
    if not shutil.which("glusterd"):
        pytest.skip("glusterfs-server is not installed")
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("FUSE file systems cannot be mounted here")
    with turn():
        if not port_is_free():
            pytest.skip(f"port {GLUSTERD_PORT} is taken: another glusterd runs here")
        one = Volume()
        try:
            one.start()
            one.mount()
            one.mount()
        except RuntimeError as error:
            one.stop()
            pytest.skip(f"no GlusterFS volume can be had here: {error}")
        yield one
        one.stop()


@pytest.fixture(scope="module")
def pair(volume):
    """Two gateways, each on its own mount of the same tree."""
    started = [gateways.Gateway(os.path.join(where, "tree"), ("--temp-expiry", "2s"), name="gluster")
               for where in volume.mounts]
    for one in started:
        one.start()
    yield started
    for one in started:
        one.stop()


@pytest.fixture
def shared(pair):
    name = data.new_bucket_name()
    assert raw.request(pair[0], "PUT", f"/{name}").status == 200
    assert raw.request(pair[1], "HEAD", f"/{name}").status == 200
    return name


def put(gateway, path, body, **headers):
    return raw.request(gateway, "PUT", path, body=body,
                       headers={name.replace("_", "-"): value for name, value in headers.items()})


def at_once(work, count):
    """work(i) on a thread each, begun together; their results."""
    start = threading.Barrier(count)

    def one(i):
        start.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_create_has_one_winner(pair, shared):
    for number in range(10):
        path = f"/{shared}/dir/{number}"
        answers = at_once(lambda i: put(pair[i % 2], path, b"%d" % i, if_none_match="*"), 6)
        statuses = [answer.status for answer in answers]
        assert statuses.count(200) == 1, statuses
        assert set(statuses) <= {200, 409, 412}, statuses
        for gateway in pair:
            assert raw.request(gateway, "GET", path).body == b"%d" % statuses.index(200)


def test_no_update_is_lost(pair, shared):
    path = f"/{shared}/counter"
    put(pair[0], path, b"0")

    def count_up(i):
        done = 0
        deadline = time.monotonic() + 120
        while done < 5:
            assert time.monotonic() < deadline
            seen = raw.request(pair[i % 2], "GET", path)
            assert seen.status == 200, seen
            written = put(pair[i % 2], path, b"%d" % (int(seen.body) + 1), if_match=seen.headers["etag"])
            assert written.status in (200, 409, 412), written
            done += written.status == 200

    at_once(count_up, 4)
    assert raw.request(pair[0], "GET", path).body == b"20"
    assert raw.request(pair[1], "GET", path).body == b"20"


def test_reads_meet_overwrites(pair, shared):
    """Each read is of one version, whole; the key is never gone, and nothing is unavailable."""
    path = f"/{shared}/busy"
    bodies = [data.content(f"version {i}", 3000 + 100 * i) for i in range(4)]
    digests = {f'"{data.md5(body)}"': body for body in bodies}
    put(pair[0], path, bodies[0])
    ended = threading.Event()

    def overwrite():
        for i in range(60):
            assert put(pair[0], path, bodies[i % 4]).status == 200
        ended.set()

    def read(_):
        seen = 0
        while not ended.is_set():
            answer = raw.request(pair[1], "GET", path)
            assert answer.status == 200, answer
            assert answer.body == digests[answer.headers["etag"]]
            seen += 1
        return seen

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        writer = pool.submit(overwrite)
        readers = [pool.submit(read, i) for i in range(3)]
        try:
            writer.result()
        finally:
            ended.set()
        assert all(reader.result() for reader in readers)


def test_upload_moves_between_gateways(pair, shared):
    first, second = (data.boto3_client(gateway) for gateway in pair)
    parts = [data.content(f"part {i}", size) for i, size in enumerate((5 << 20, 5 << 20, 1234))]
    upload = first.create_multipart_upload(Bucket=shared, Key="a/long", Metadata={"colour": "blue"})["UploadId"]
    done = []
    for i, part in enumerate(parts):
        client = (second, first)[i % 2]
        answer = client.upload_part(Bucket=shared, Key="a/long", UploadId=upload, PartNumber=i + 1, Body=part)
        done.append({"PartNumber": i + 1, "ETag": answer["ETag"]})
    listed = first.list_parts(Bucket=shared, Key="a/long", UploadId=upload)["Parts"]
    assert [part["Size"] for part in listed] == [len(part) for part in parts]
    second.complete_multipart_upload(Bucket=shared, Key="a/long", UploadId=upload,
                                     MultipartUpload={"Parts": done})
    found = first.get_object(Bucket=shared, Key="a/long")
    assert found["Body"].read() == b"".join(parts)
    assert found["Metadata"] == {"colour": "blue"}
    assert first.list_multipart_uploads(Bucket=shared).get("Uploads", []) == []


def test_a_gateway_killed_while_it_writes(volume, pair, shared):
    """The object that was there stays, the other gateway goes on with the key at once, and what the
    dead one had begun is never seen."""
    path = f"/{shared}/k"
    put(pair[1], path, b"before")
    victim = gateways.Gateway(os.path.join(volume.mounts[0], "tree"), name="gluster-victim").start()
    rest = slow_put(victim, path, 8 << 20)
    wait_for_bodies(victim, 1)
    victim.kill()
    with pytest.raises(Exception):
        rest()
    assert raw.request(pair[1], "GET", path).body == b"before"
    assert put(pair[1], path, b"after", if_match=f'"{data.md5(b"before")}"').status == 200
    assert raw.request(pair[0], "GET", path).body == b"after"
    listed = data.boto3_client(pair[1]).list_objects_v2(Bucket=shared)["Contents"]
    assert [entry["Key"] for entry in listed] == ["k"]
    with gateways.Gateway(victim.tree, name="gluster-victim") as again:
        assert raw.request(again, "GET", path).body == b"after"
        assert put(again, path, b"again").status == 200
    assert raw.request(pair[1], "GET", path).body == b"again"


def test_a_bucket_that_the_other_deleted(pair, shared):
    put(pair[0], f"/{shared}/k", b"x")
    rest = slow_put(pair[0], f"/{shared}/late")
    wait_for_bodies(pair[0], 1)
    assert raw.request(pair[1], "DELETE", f"/{shared}/k").status == 204
    assert raw.request(pair[1], "DELETE", f"/{shared}").status == 204
    late = rest()
    assert (late.status, late.code) == (404, "NoSuchBucket"), late
    answer = put(pair[0], f"/{shared}/again", b"x")
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), answer
    assert raw.request(pair[0], "GET", f"/{shared}/k").status == 404
