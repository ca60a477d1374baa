"""The Debian packages, installed as a person does it: in a copy of this system's root (overlayfs),
which is gone afterwards. RG_BINARY names the directory with the packages.
"""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import pytest

PACKAGES = os.path.abspath(os.environ["RG_BINARY"])
SECONDS = 600
ACCESS, SECRET = "EXAMPLEKEY0000000001", "notasecretatall0000000000000000000000000"


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, **options)


def package(name):
    found = glob.glob(os.path.join(PACKAGES, name + "_*.deb"))
    assert len(found) == 1, found
    return found[0]


class Root:
    """A mount namespace in which `path` is a root of its own: what is written there is only there."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="rg-root-")
        script = (
            'mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" && '
            'mount -t overlay none -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" && '
            'mount -t proc none "$1/root/proc" && mount --rbind /dev "$1/root/dev" && '
            'mount -t tmpfs none "$1/root/srv" && mount -t tmpfs none "$1/root/run" && echo ready && exec sleep infinity')
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, "sh", self.path],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = self.holder.stdout.readline() == "ready\n"
        self.why = "" if self.ready else self.holder.stderr.read().strip()

    def words(self, *words):
        return ["nsenter", f"--target={self.holder.pid}", "--mount", "chroot", self.path + "/root", *words]

    def run(self, *words, **options):
        return run(self.words(*words), **options)

    def sh(self, script, **options):
        done = self.run("sh", "-ec", script, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def close(self):
        self.holder.kill()
        self.holder.wait()
        shutil.rmtree(self.path)


@pytest.fixture(scope="module")
def root():
    if os.geteuid() != 0:
        pytest.skip("installing a package needs root")
    made = Root()
    if not made.ready:
        made.close()
        pytest.skip("no overlay of the root file system: " + made.why)
    debs = [package(name) for name in ("railgate", "librailgate0", "librailgate-dev")]
    made.sh("mkdir /debs")
    for deb in debs:
        with open(deb, "rb") as file:
            done = subprocess.run(made.words("sh", "-ec", 'cat >"/debs/$1"', "sh", os.path.basename(deb)), stdin=file)
            assert done.returncode == 0
    made.sh("DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "
            "-o DPkg::Lock::Timeout=300 install /debs/*.deb")
    yield made
    made.close()


class Service:
    """The command of the unit, run as its user, with a service manager's socket."""

    def __init__(self, root):
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.settimeout(60)
        self.name = f"@rg-package-{os.getpid()}-{id(self)}"  # abstract: no root hides it
        self.told.bind("\0" + self.name[1:])
        unit = root.sh("cat /lib/systemd/system/railgate.service")
        lines = dict(line.split("=", 1) for line in unit.split("\n") if "=" in line and not line.startswith("#"))
        assert (lines["User"], lines["Type"]) == ("railgate", "notify")
        environment = root.sh(". /etc/default/railgate; echo $TREE").strip()
        command = lines["ExecStart"].replace("${TREE}", environment)
        self.process = subprocess.Popen(
            root.words("setpriv", "--reuid=railgate", "--regid=railgate", "--clear-groups", "--no-new-privs",
                       "env", f"NOTIFY_SOCKET={self.name}", *command.split()),
            stderr=subprocess.PIPE, text=True)

    def state(self):
        """What it says next but that it still waits, as it does where others have much to do."""
        try:
            while (said := self.told.recv(4096).decode()).startswith("STATUS="):
                pass
            return said
        except TimeoutError:
            self.process.kill()
            raise AssertionError("nothing was said; the log: " + self.process.stderr.read())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.told.close()


def settings(root, *lines):
    root.sh('cat >/etc/railgate/railgate.conf', input="".join(line + "\n" for line in lines))


CREDENTIALS = [f"root-access-key = {ACCESS}", f"root-secret-key = {SECRET}"]


def test_what_is_installed(root):
    assert root.sh("stat -c '%a %U %G' /etc/railgate/railgate.conf") == "640 root railgate\n"
    assert "railgate 0." in root.sh("railgate --version")
    account = root.sh("getent passwd railgate").split(":")
    assert int(account[2]) != 0 and account[6].strip().endswith("nologin")
    # It is not started, and not at boot either, before somebody has said what to serve.
    assert root.run("sh", "-c", "find /etc/systemd -name 'railgate*'").stdout == ""
    pages = root.sh("ls /usr/share/man/man1/railgate*.1.gz /usr/share/man/man3/rg_*.3.gz").split()
    for name in ("railgate.1", "railgate-serve.1", "railgate-doctor.1", "rg_client_open.3"):
        assert any(page.endswith(f"/{name}.gz") for page in pages), name


def test_each_page_is_valid(root):
    """groff has nothing to say of any manual page."""
    if root.run("sh", "-c", "command -v groff").returncode != 0:
        pytest.skip("no groff")
    said = root.sh("for page in /usr/share/man/man1/railgate*.gz /usr/share/man/man3/rg_*.gz; do "
                   "  zcat $page | grep -q '^\\.so ' || zcat $page | groff -man -Tutf8 -ww -z 2>&1; done")
    assert said == ""


def test_unit_is_valid(root):
    if root.run("sh", "-c", "command -v systemd-analyze").returncode != 0:
        pytest.skip("no systemd-analyze")
    done = root.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                    "/lib/systemd/system/railgate.service")
    assert done.returncode == 0, done.stderr
    assert "railgate" not in done.stderr, done.stderr


def test_no_credentials_no_start(root):
    settings(root, "port = 0", "admin-port = 0")
    root.sh("install -d -o railgate -g railgate /srv/railgate")
    service = Service(root)
    try:
        said = service.process.communicate(timeout=60)[1]
        assert service.process.returncode == 2, said
        assert "root-access-key" in said
        service.told.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.state()
    finally:
        service.close()


@pytest.fixture
def service(root):
    """A gateway of the installed package that has said that it is ready."""
    settings(root, "port = 0", "admin-port = 0", "address = 127.0.0.1", "log-format = json", *CREDENTIALS)
    root.sh("install -d -o railgate -g railgate /srv/railgate")
    one = Service(root)
    try:
        assert one.state() == "READY=1"
        for line in one.process.stderr:
            event = json.loads(line)
            if event["event"] == "gateway.ready":
                break
        one.port, one.admin_port = event["port"], event["admin_port"]
        yield one
    finally:
        one.close()


def client(service):
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{service.port}", "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET, "PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "HOME": "/nonexistent"}


def test_serves_and_says_when(root, service):
    with urllib.request.urlopen(f"http://127.0.0.1:{service.admin_port}/-/ready", timeout=60) as answer:
        assert answer.status == 200
    environment = client(service)
    said = root.sh("railgate mb s3://bucket && railgate cp /usr/bin/railgate s3://bucket/a/b && "
                   "railgate cp s3://bucket/a/b /tmp/back && cmp /usr/bin/railgate /tmp/back && "
                   "cmp /usr/bin/railgate /srv/railgate/bucket/a/b && stat -c %U /srv/railgate/bucket/a/b",
                   env=environment)
    assert said.endswith("railgate\n")
    service.process.send_signal(signal.SIGTERM)
    assert service.state() == "STOPPING=1"
    assert service.process.wait(60) == 0


def test_reloads(root, service):
    service.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    for line in service.process.stderr:
        if json.loads(line)["event"] == "gateway.reload" or time.monotonic() > deadline:
            break
    assert json.loads(line)["event"] == "gateway.reload"
    assert service.process.poll() is None


def test_programs_build_with_the_library(root, service):
    root.sh("gcc -Wall -Werror -o /tmp/put /usr/share/doc/librailgate-dev/examples/put.c "
            "$(pkg-config --cflags --libs railgate)")
    linked = root.sh("ldd /tmp/put")
    assert "librailgate.so.0 => /lib" in linked or "librailgate.so.0 => /usr/lib" in linked
    environment = client(service)
    root.sh("railgate mb s3://programs", env=environment)
    done = root.run("/tmp/put", "programs", "key", "some text", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "key" in root.sh("railgate ls -r s3://programs", env=environment)


def test_the_libraries_of_rdma_are_not_needed(root):
    """They are loaded where they are, never linked."""
    needed = root.sh("readelf -d /usr/bin/railgate /usr/lib/*/librailgate.so.0")
    for name in ("libibverbs", "libfabric", "libmlx5", "libcuda"):
        assert name not in needed


def test_remove_and_purge(root):
    """What was served stays; settings go only with purge."""
    settings(root, *CREDENTIALS)
    root.sh("mkdir -p /srv/railgate/kept && echo data >/srv/railgate/kept/object")
    root.sh("dpkg -r railgate librailgate-dev librailgate0")
    assert root.run("sh", "-c", "command -v railgate").returncode != 0
    assert SECRET in root.sh("cat /etc/railgate/railgate.conf")
    root.sh("dpkg -P railgate")
    assert root.run("test", "-e", "/etc/railgate/railgate.conf").returncode == 1
    assert root.sh("cat /srv/railgate/kept/object") == "data\n"
