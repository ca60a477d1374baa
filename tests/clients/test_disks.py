"""Quotas that refuse, and disks that fail: real file systems on loop devices.

The device of a failing disk is a file in the FUSE file system of tests/fault/troubled.c, so that it
answers with errors, or not at all, on command. Where the kernel lacks something the test is skipped
with the reason; the guest of tests/rxe/run has all of it, and there nothing is skipped."""
import contextlib
import ctypes
import errno
import fcntl
import http.client
import os
import shutil
import struct
import subprocess
import threading
import time

import pytest

import data
import gateway as gateways
import raw
import soak
from test_trouble import health, seconds_of, settle, until, wait_for_event
from trouble import troubled_mount

MIB = 1 << 20
LIMIT = 8 * MIB
OLD, NEW = data.content("old", 100_000), data.content("new", 5000)
TOO_LARGE = data.content("large", 12 * MIB)
NOBODY, PROJECT = 65534, 42


def lacks(reason):
    """This machine cannot; the guest must."""
    if os.environ.get("RG_RXE"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(*tools):
    if os.geteuid() != 0:
        lacks("mounting a file system of one's own needs root")
    for tool in tools:
        if not shutil.which(tool, path="/sbin:/usr/sbin:/bin:/usr/bin"):
            lacks(f"{tool} is not installed")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def leftovers(tree):
    """What is neither an object nor kept by a bucket."""
    return [path for path in soak.leftovers(tree) if ".railgate" in os.path.relpath(path, tree)]


def objects(tree):
    return sorted(name for name in data.read_tree(tree) if ".railgate" not in name)


# ---- Quotas ----

Q_SETQUOTA = 0x800008
USRQUOTA, PRJQUOTA = 0, 2
QIF_BLIMITS, QIF_ILIMITS = 1, 4
FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR = 0x801c581f, 0x401c5820
FS_XFLAG_PROJINHERIT = 0x200

MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-I", "256", "-O", "quota,project", "-E", "quotatype=usrquota:prjquota"],
        "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
SIZE = {"ext4": 64 * MIB, "xfs": 320 * MIB, "btrfs": 128 * MIB}
OPTIONS = {"user": "loop,usrquota", "project": "loop,prjquota", "qgroup": "loop"}


def quotactl(device, kind, who, block_bytes=0, inodes=0):
    """Sets hard limits (0: none), by quotactl(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    fields = QIF_BLIMITS | QIF_ILIMITS
    limits = ctypes.create_string_buffer(struct.pack("<8QI4x", block_bytes // 1024, 0, 0, inodes, 0, 0, 0, 0, fields))
    command = Q_SETQUOTA << 8 | {"user": USRQUOTA, "project": PRJQUOTA}[kind]
    if libc.quotactl(command, device.encode(), who, limits) != 0:
        raise OSError(ctypes.get_errno(), "quotactl")


def set_project(directory):
    """What is made in the directory from now on belongs to the project."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        attributes = bytearray(fcntl.ioctl(fd, FS_IOC_FSGETXATTR, bytes(28)))
        flags, = struct.unpack_from("<I", attributes)
        struct.pack_into("<I", attributes, 0, flags | FS_XFLAG_PROJINHERIT)
        struct.pack_into("<I", attributes, 12, PROJECT)
        fcntl.ioctl(fd, FS_IOC_FSSETXATTR, bytes(attributes))
    finally:
        os.close(fd)


class Limited(gateways.Gateway):
    """One that quotas apply to: they do not to CAP_SYS_RESOURCE, nor to root itself."""
    user = None

    def command(self, words):
        how = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        return ["setpriv", *how, "--bounding-set=-sys_resource", "--inh-caps=-all", *words]


class Volume:
    def __init__(self, point, device, kind):
        self.point, self.device, self.kind = point, device, kind
        self.tree = os.path.join(point, "tree")

    def limit(self, block_bytes=0, inodes=0):
        if self.kind == "qgroup":
            run("btrfs", "qgroup", "limit", block_bytes or "none", self.tree)
        else:
            quotactl(self.device, self.kind, NOBODY if self.kind == "user" else PROJECT, block_bytes, inodes)

    def inodes(self):
        return sum(len(directories) + len(files) for _, directories, files in os.walk(self.tree)) + 1


@contextlib.contextmanager
def volume(tmp_path, filesystem, kind):
    """A file system with a directory under a quota."""
    need("setpriv", MAKE[filesystem][0], *(["btrfs"] if filesystem == "btrfs" else []))
    point, image = str(tmp_path / "mnt"), tmp_path / "disk.img"
    os.mkdir(point)
    with open(image, "wb") as out:
        out.truncate(SIZE[filesystem])
    run(*MAKE[filesystem], image)
    done = subprocess.run(["mount", "-t", filesystem, "-o", OPTIONS[kind], image, point], capture_output=True, text=True)
    if done.returncode:
        lacks(f"this kernel has no {filesystem} with {kind} quotas: {done.stderr.strip().splitlines()[0]}")
    try:
        device = run("findmnt", "-n", "-o", "SOURCE", point)
        one = Volume(point, device, kind)
        if kind == "qgroup":
            run("btrfs", "subvolume", "create", one.tree)
            run("btrfs", "quota", "enable", point)
        else:
            os.mkdir(one.tree)
        if kind == "user":
            for directory in (tmp_path, *tmp_path.parents):
                if directory.stat().st_mode & 0o001 == 0 and str(directory).startswith(("/tmp", "/data")):
                    directory.chmod(directory.stat().st_mode | 0o011)
            os.chown(one.tree, NOBODY, NOBODY)
        elif kind == "project":
            set_project(one.tree)
        yield one
    finally:
        subprocess.run(["umount", "-l", point], check=True)
        os.unlink(image)  # the guest's disk is small


QUOTAS = [("ext4", "user"), ("ext4", "project"), ("xfs", "user"), ("xfs", "project"), ("btrfs", "qgroup")]


def refusal(filesystem, kind):
    """XFS says of a project's quota what it says of a full disk."""
    return (507, "InsufficientStorage" if (filesystem, kind) == ("xfs", "project") else "QuotaExceeded")


@pytest.fixture(params=QUOTAS, ids="-".join)
def limited(request, tmp_path):
    """A gateway below a quota that it has not reached, the volume, and what a refusal is."""
    filesystem, kind = request.param
    with volume(tmp_path, filesystem, kind) as one:
        gateway = Limited(one.tree, ["--part-size-min", "1"], name="quota")
        gateway.user = NOBODY if kind == "user" else None
        if gateway.user and subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                                            "test", "-x", gateways.BINARY]).returncode:
            lacks("the binary stands where an unprivileged user cannot reach it")
        with gateway:
            assert raw.request(gateway, "PUT", "/quota").status == 200
            assert raw.request(gateway, "PUT", "/quota/kept", body=OLD).status == 200
            yield gateway, one, refusal(filesystem, kind)


def test_quota_of_bytes(limited):
    gateway, one, refused = limited
    one.limit(block_bytes=LIMIT)
    before = objects(one.tree)

    def refuse(answer):
        assert (answer.status, answer.code) == refused, answer

    refuse(raw.request(gateway, "PUT", "/quota/large", body=TOO_LARGE))
    refuse(raw.request(gateway, "PUT", "/quota/kept", body=TOO_LARGE))
    trailers = [("x-amz-checksum-crc32", raw.checksum("crc32", TOO_LARGE))]
    refuse(raw.put_unsigned_trailer(gateway, "/quota/chunked", TOO_LARGE, trailers, MIB, True))
    begun = raw.request(gateway, "POST", "/quota/parts", query={"uploads": ""})
    upload = {"uploadId": begun.xml().findtext("UploadId")}
    refuse(raw.request(gateway, "PUT", "/quota/parts", query={**upload, "partNumber": "1"}, body=TOO_LARGE))
    assert raw.request(gateway, "DELETE", "/quota/parts", query=upload).status == 204
    # What was there is there, whole, and nothing else is; what fits is taken.
    assert raw.request(gateway, "GET", "/quota/kept").body == OLD
    for key in ("large", "chunked", "parts"):
        assert raw.request(gateway, "GET", f"/quota/{key}").status == 404
    assert objects(one.tree) == before == ["quota/kept"] and leftovers(one.tree) == []
    fits = TOO_LARGE[:5 * MIB]
    assert raw.request(gateway, "PUT", "/quota/fits", body=fits).status == 200
    refuse(raw.request(gateway, "PUT", "/quota/more", body=fits))
    assert raw.request(gateway, "DELETE", "/quota/fits").status == 204
    if one.kind == "qgroup":
        run("btrfs", "filesystem", "sync", one.point)  # there space comes back with the commit
    assert raw.request(gateway, "PUT", "/quota/more", body=fits).status == 200
    assert raw.request(gateway, "GET", "/quota/more").body == fits
    # That a quota is used up says nothing against the mount.
    assert health(gateway)[0] == 200
    cause = "STORAGE_FULL" if refused[1] == "InsufficientStorage" else "QUOTA_EXCEEDED"
    assert gateway.metric_at_rest("railgate_errors_total", cause=cause) >= 5


@pytest.mark.parametrize("limited", QUOTAS[:-1], ids="-".join, indirect=True)  # btrfs counts no files
def test_quota_of_files(limited):
    gateway, one, refused = limited
    one.limit(inodes=one.inodes() + 4)
    taken, denied = [], []
    for i in range(12):
        answer = raw.request(gateway, "PUT", f"/quota/deep{i}/k", body=NEW)
        assert answer.status == 200 or (answer.status, answer.code) == refused, answer
        (taken if answer.status == 200 else denied).append(f"/quota/deep{i}/k")
    assert taken and denied
    answer = raw.request(gateway, "PUT", "/quota/kept", body=NEW)
    assert answer.status == 200 or (answer.status, answer.code) == refused, answer
    assert raw.request(gateway, "GET", "/quota/kept").body in ((NEW,) if answer.status == 200 else (OLD,))
    for path in taken:
        assert raw.request(gateway, "GET", path).body == NEW
    for path in denied:
        assert raw.request(gateway, "GET", path).status == 404
    assert leftovers(one.tree) == []
    for path in taken:
        assert raw.request(gateway, "DELETE", path).status == 204
    assert raw.request(gateway, "PUT", denied[-1], body=NEW).status == 200
    assert health(gateway)[0] == 200


# ---- Disks that fail ----

class Disk:
    """A file system on a device that does as `trouble` says."""

    def __init__(self, tmp_path, filesystem, trouble):
        self.filesystem, self.trouble = filesystem, trouble
        self.image, self.point = str(tmp_path / "device" / "disk.img"), str(tmp_path / "mnt")
        self.tree = os.path.join(self.point, "tree")
        self.device = None
        os.mkdir(self.point)

    def mount(self):
        self.device = run("losetup", "-f", "--show", self.image)
        run("mount", "-t", self.filesystem, *(["-o", "errors=remount-ro"] if self.filesystem == "ext4" else []),
            self.device, self.point)

    def unmount(self):
        run("umount", self.point)
        run("losetup", "-d", self.device)
        self.device = None

    def forget(self):
        """What is remembered of the device goes with the file system, but for what its file's pages hold."""
        fd = os.open(self.image, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)

    def close(self):
        self.trouble.end()
        if os.path.ismount(self.point):
            subprocess.run(["umount", "-l", self.point], check=True)
        if self.device:
            subprocess.run(["losetup", "-d", self.device], check=False)


@pytest.fixture(params=["ext4", "xfs"])
def disk(request, tmp_path):
    filesystem = request.param
    need(f"mkfs.{filesystem}", "losetup")
    if not os.path.exists("/dev/fuse"):
        lacks("/dev/fuse is not there")
    with troubled_mount(str(tmp_path), str(tmp_path / "device")) as trouble:
        below = tmp_path / "below" / "disk.img"
        with open(below, "wb") as out:
            out.truncate(320 * MIB if filesystem == "xfs" else 64 * MIB)
        run(f"mkfs.{filesystem}", "-q", *(["-F"] if filesystem == "ext4" else []), below)
        one = Disk(tmp_path, filesystem, trouble)
        try:
            one.mount()
            yield one
        finally:
            one.close()
    os.unlink(below)


def check_again(start, disk, expected):
    """After the disk was repaired: each object is one of those it may be, and everything works."""
    gateway = start("--temp-expiry", "1s", "--sweep-interval", "1s", tree=disk.tree)
    for path, bodies in expected.items():
        answer = raw.request(gateway, "GET", path)
        assert (answer.status == 200 and answer.body in bodies) or (answer.status == 404 and None in bodies), answer
    for path in expected:
        assert raw.request(gateway, "PUT", path, body=NEW).status == 200
        assert raw.request(gateway, "GET", path).body == NEW
    assert health(gateway)[0] == 200
    deadline = time.monotonic() + 20
    while leftovers(disk.tree) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert leftovers(disk.tree) == []
    gateway.stop()


def test_writes_fail(start, disk):
    """The disk refuses every write, and the file system gives up: no success that is none, and health
    says so."""
    gateway = start("--rdma", "off", tree=disk.tree)
    assert raw.request(gateway, "PUT", "/disk").status == 200
    for key in ("k", "d/k", "e/k"):
        assert raw.request(gateway, "PUT", f"/disk/{key}", body=OLD).status == 200
    assert health(gateway)[0] == 200

    def refuse(method, key, body=b""):
        """By the error itself, or because the file system takes no more writes after it."""
        answer = raw.request(gateway, method, f"/disk/{key}", body=body)
        assert answer.status in (500, 503) or (answer.status, answer.code) == (403, "AccessDenied"), answer
        return answer.status

    disk.trouble.begin("write", "fsync", error=errno.EIO)
    assert refuse("PUT", "k", NEW) in (500, 503)
    # It gives up when it cannot write what it knows of files, not for the bytes in them.
    deadline = time.monotonic() + 60
    while health(gateway)[2][gateway.tree]["state"] != "fails":
        assert time.monotonic() < deadline, health(gateway)
        refuse("PUT", "empty")
        time.sleep(0.2)
    status, document, mounts = health(gateway)
    assert (status, document["status"]) == (503, "not ready")
    assert mounts[gateway.tree]["error"]
    assert gateway.admin("/-/live")[0] == 200
    assert gateway.metric("railgate_mount_well", mount=gateway.tree) == 0
    assert [event["mount"] for event in gateway.events("mount.fails")] == [gateway.tree]
    for key in ("k", "new", "e/k", "deep/er/k"):
        refuse("PUT", key, NEW)
    for key in ("k", "d/k", "e/k"):
        refuse("DELETE", key)
        answer = raw.request(gateway, "GET", f"/disk/{key}")
        assert answer.status in (500, 503) or answer.body == OLD, answer
    gateway.stop()

    disk.trouble.end()
    disk.unmount()
    disk.mount()
    check_again(start, disk, {"/disk/k": (OLD,), "/disk/d/k": (OLD,), "/disk/e/k": (OLD,), "/disk/new": (None,),
                              "/disk/empty": (None,)})


def test_reads_fail(start, disk):
    """An object that cannot be read is not passed off as one that can."""
    body = data.content("large", 3 * MIB + 17)
    gateway = start("--rdma", "off", tree=disk.tree)
    assert raw.request(gateway, "PUT", "/disk").status == 200
    for key in ("small", "large"):
        assert raw.request(gateway, "PUT", f"/disk/{key}", body=OLD if key == "small" else body).status == 200
    gateway.stop()
    disk.unmount()
    disk.forget()
    disk.mount()
    gateway = start("--rdma", "off", tree=disk.tree)
    assert raw.request(gateway, "HEAD", "/disk/large").headers["content-length"] == str(len(body))

    disk.trouble.begin("read", error=errno.EIO)
    for key in ("small", "large"):
        try:
            answer = raw.request(gateway, "GET", f"/disk/{key}")
            assert answer.status in (500, 503), answer
        except (http.client.HTTPException, OSError):
            pass  # broken off
    assert disk.trouble.met()
    disk.trouble.end()
    assert raw.request(gateway, "GET", "/disk/large").body == body
    assert raw.request(gateway, "GET", "/disk/small").body == OLD
    gateway.stop()


def test_a_disk_stops_answering(start, disk):
    """Writes wait for it: they are told so at their deadline, and go on when the disk does."""
    gateway = start("--rdma", "off", "--storage-timeout", "10s", tree=disk.tree)
    assert raw.request(gateway, "PUT", "/disk").status == 200
    assert raw.request(gateway, "PUT", "/disk/k", body=OLD).status == 200
    disk.trouble.begin("write", "fsync")
    answer = raw.request(gateway, "PUT", "/disk/k", body=NEW)
    assert (answer.status, answer.code) == (503, "ServiceUnavailable"), answer
    assert disk.trouble.met()
    until(gateway, lambda mounts: mounts[gateway.tree]["workers_stuck"] == 1)
    assert gateway.admin("/-/live")[0] == 200
    disk.trouble.end()
    settle(gateway)
    until(gateway, lambda mounts: mounts[gateway.tree]["workers_stuck"] == 0)
    assert raw.request(gateway, "GET", "/disk/k").body in (OLD, NEW)
    assert raw.request(gateway, "PUT", "/disk/k", body=NEW).status == 200
    assert raw.request(gateway, "GET", "/disk/k").body == NEW
    gateway.stop()


# ---- File systems that are frozen, as for a snapshot of the disk ----

@contextlib.contextmanager
def mounted_at(point, image, filesystem):
    need(f"mkfs.{filesystem}", "fsfreeze")
    with open(image, "wb") as out:
        out.truncate(SIZE.get(filesystem, 320 * MIB))
    run(f"mkfs.{filesystem}", "-q", *(["-F"] if filesystem == "ext4" else []), image)
    os.makedirs(point, exist_ok=True)
    done = subprocess.run(["mount", "-t", filesystem, "-o", "loop", image, point], capture_output=True, text=True)
    if done.returncode:
        lacks(f"this kernel mounts no {filesystem}: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", point], check=True)
        os.unlink(image)


@contextlib.contextmanager
def frozen(point):
    run("fsfreeze", "-f", point)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", point], check=True)


FREEZABLE = ["ext4", "xfs", "btrfs"]


def sizes_written(gateway):
    """Of the files without a name that it has open."""
    place = f"/proc/{gateway.process.pid}/fd"
    for number in os.listdir(place):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(os.path.join(place, number))
            if found.st_nlink == 0 and os.readlink(os.path.join(place, number)).startswith(f"{gateway.tree}/"):
                yield found.st_size


@pytest.mark.parametrize("filesystem", FREEZABLE)
def test_the_tree_is_frozen(start, tmp_path, filesystem):
    """Not ready, and said so at once; what only reads is served; afterwards all goes on."""
    point = str(tmp_path / "mnt")
    with mounted_at(point, tmp_path / "disk.img", filesystem):
        gateway = start("--storage-timeout", "15s", tree=os.path.join(point, "tree"))
        assert raw.request(gateway, "PUT", "/cold").status == 200
        assert raw.request(gateway, "PUT", "/cold/k", body=OLD).status == 200
        began = time.time()
        with frozen(point):
            status, document, mounts = until(gateway, lambda mounts: mounts[gateway.tree]["state"] == "hangs")
            assert (status, document["status"]) == (503, "not ready")
            assert began - 1 < seconds_of(mounts[gateway.tree]["since"]) < time.time()
            asked = time.monotonic()
            assert health(gateway)[0] == 503 and gateway.admin("/-/live")[0] == 200
            assert gateway.metric("railgate_mount_well", mount=gateway.tree) == 0
            assert time.monotonic() - asked < 15
            assert raw.request(gateway, "GET", "/cold/k").body == OLD
            answer = raw.request(gateway, "PUT", "/cold/k", body=NEW)
            assert (answer.status, answer.code) == (503, "ServiceUnavailable"), answer
            until(gateway, lambda mounts: mounts[gateway.tree]["workers_stuck"] == 1)
        until(gateway, lambda mounts: mounts[gateway.tree]["state"] == "well")
        settle(gateway)
        assert health(gateway)[0] == 200
        assert raw.request(gateway, "PUT", "/cold/k", body=NEW).status == 200
        assert raw.request(gateway, "GET", "/cold/k").body == NEW
        gateway.stop()


@pytest.mark.parametrize("filesystem", FREEZABLE)
def test_a_tree_freezes_under_a_body(start, tmp_path, filesystem):
    """A large object, half of which is written, gets its 503 at the deadline and leaves nothing behind."""
    point = str(tmp_path / "mnt")
    with mounted_at(point, tmp_path / "disk.img", filesystem):
        gateway = start("--rdma", "off", "--storage-timeout", "4s", tree=os.path.join(point, "tree"))
        assert raw.request(gateway, "PUT", "/cold").status == 200
        assert raw.request(gateway, "PUT", "/cold/k", body=OLD).status == 200
        before = objects(gateway.tree)
        connection = raw.begin(gateway, "PUT", "/cold/k", len(TOO_LARGE))
        connection.send(TOO_LARGE[:5 * MIB])
        deadline = time.monotonic() + 60
        while max(sizes_written(gateway), default=0) < 4 * MIB:
            assert time.monotonic() < deadline, list(sizes_written(gateway))
            time.sleep(0.05)
        with frozen(point):
            connection.send(TOO_LARGE[5 * MIB:])
            answer = raw.Answer(connection.getresponse(), False)
            assert (answer.status, answer.code) == (503, "ServiceUnavailable"), answer
            until(gateway, lambda mounts: mounts[gateway.tree]["workers_stuck"] == 1)
        connection.close()
        settle(gateway)
        until(gateway, lambda mounts: mounts[gateway.tree]["state"] == "well")
        assert raw.request(gateway, "GET", "/cold/k").body == OLD
        assert objects(gateway.tree) == before and not list(sizes_written(gateway))
        assert raw.request(gateway, "PUT", "/cold/k", body=TOO_LARGE).status == 200
        assert raw.request(gateway, "GET", "/cold/k").body == TOO_LARGE
        gateway.stop()


@pytest.mark.parametrize("where", ["cold", "bucket/cold"])
@pytest.mark.parametrize("filesystem", FREEZABLE)
def test_a_mount_in_the_tree_is_frozen(start, tmp_path, filesystem, where):
    """Only what writes there waits; the page says where, since when, and how many wait."""
    tree = tmp_path / "tree"
    place = str(tree / where)
    with mounted_at(place, tmp_path / "disk.img", filesystem):
        gateway = start("--storage-timeout", "15s", tree=tree)
        assert raw.request(gateway, "PUT", "/beside").status == 200
        assert raw.request(gateway, "PUT", f"/{where}/k", body=OLD).status == 200
        began, answers = time.time(), []
        with frozen(place):
            waiting = [threading.Thread(target=lambda key=key: answers.append(
                raw.request(gateway, "PUT", f"/{where}/{key}", body=NEW))) for key in ("k", "new")]
            for one in waiting:
                one.start()
            status, document, mounts = until(gateway, lambda mounts: mounts[place]["state"] == "hangs"
                                             and mounts[place]["requests_waiting"] == 2)
            assert (status, document["status"], mounts[gateway.tree]["state"]) == (200, "ready", "well")
            assert mounts[gateway.tree]["requests_waiting"] == 0
            assert began - 1 < seconds_of(mounts[place]["since"]) < time.time()
            asked = time.monotonic()
            assert raw.request(gateway, "PUT", "/beside/k", body=NEW).status == 200
            assert raw.request(gateway, "GET", "/beside/k").body == NEW
            assert raw.request(gateway, "GET", f"/{where}/k").body == OLD
            assert time.monotonic() - asked < 15
            for one in waiting:
                one.join()
            assert [answer.status for answer in answers] == [503, 503]
            until(gateway, lambda mounts: mounts[place]["workers_stuck"] == 2)
        until(gateway, lambda mounts: mounts[place]["state"] == "well")
        settle(gateway)
        assert raw.request(gateway, "PUT", f"/{where}/k", body=NEW).status == 200
        gateway.stop()


@pytest.mark.parametrize("filesystem", FREEZABLE)
def test_a_start_on_a_frozen_tree(start, tmp_path, filesystem):
    """The kernel lets go of nobody who waits there, yet the gateway ends when it is asked to."""
    point = str(tmp_path / "mnt")
    with mounted_at(point, tmp_path / "disk.img", filesystem):
        with frozen(point):
            gateway = start(tree=point, ready=False)
            assert gateway.tree in wait_for_event(gateway, "start.waits")["message"]
            gateway.stop()
            assert not gateway.events("gateway.ready")
            again = start(tree=point, ready=False)
            wait_for_event(again, "start.waits")
        again.wait_until_ready()
        assert raw.request(again, "PUT", "/bucket").status == 200
        again.stop()


@pytest.mark.parametrize("filesystem", FREEZABLE)
def test_the_gateway_ends_while_a_mount_is_frozen(start, tmp_path, filesystem):
    """It says what it leaves behind, and its ports are another's, though the kernel keeps the process."""
    tree = tmp_path / "tree"
    place = str(tree / "cold")
    ports = [gateways.free_port()]
    while len(set(ports)) < 2:
        ports.append(gateways.free_port())
    ports = sorted(set(ports))
    with mounted_at(place, tmp_path / "disk.img", filesystem):
        gateway = start("--storage-timeout", "2s", "--drain-timeout", "1s", "--port", ports[0], "--admin-port", ports[1],
                        tree=tree)
        assert raw.request(gateway, "PUT", "/cold/k", body=OLD).status == 200
        with frozen(place):
            answer = raw.request(gateway, "PUT", "/cold/k", body=NEW)
            assert (answer.status, answer.code) == (503, "ServiceUnavailable"), answer
            until(gateway, lambda mounts: mounts[place]["workers_stuck"] == 1)
            gateway.process.terminate()
            wait_for_event(gateway, "gateway.stop")
            assert (place, 1) in [(event["mount"], event["requests"]) for event in gateway.events("gateway.left")]
            other = start("--port", ports[0], "--admin-port", ports[1], tree=tmp_path / "other")
            assert raw.request(other, "PUT", "/bucket").status == 200
            assert gateway.process.poll() is None
            other.stop()
        gateway.stop()
        # Nothing that was begun was left half done.
        again = start(tree=tree)
        assert raw.request(again, "GET", "/cold/k").body in (OLD, NEW)
        again.stop()
