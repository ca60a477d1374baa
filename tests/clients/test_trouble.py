"""A mount that hangs in one operation, or answers with an error of disks, quotas and servers: what
touches it is told so, everything else goes on, and what was there stays whole."""
import calendar
import contextlib
import errno
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import data
import raw
from trouble import troubled_mount

OLD, NEW = data.content("old", 3000), data.content("new", 5000)
TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


def requests(gateway):
    """Together they ask a file system for everything that a gateway ever does."""
    def ask(method, path, **how):
        return lambda: raw.request(gateway, method, path, **how)

    return [ask("GET", "/mounted", query={"list-type": "2"}), ask("GET", "/mounted/k"), ask("PUT", "/mounted/k", body=NEW),
            ask("PUT", "/mounted/new/deep/k", body=NEW), ask("PUT", "/mounted/k", query={"tagging": ""}, body=TAGS),
            ask("DELETE", "/mounted/new/deep/k")]


def prepare(gateway):
    assert raw.request(gateway, "DELETE", "/mounted/new/deep/k").status == 204
    assert raw.request(gateway, "PUT", "/mounted/k", body=OLD).status == 200


def settle(gateway):
    """Until nothing of the trouble is left: a request that was given up still looks at the mount for a while."""
    deadline = time.monotonic() + 20
    while gateway.metric("railgate_workers_stuck") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert gateway.metric("railgate_workers_stuck") == 0


def check(gateway):
    """Whole, old or new; and everything works again."""
    assert raw.request(gateway, "GET", "/mounted/k").body in (OLD, NEW)
    for request in requests(gateway):
        answer = request()
        assert answer.status < 300, answer
    assert raw.request(gateway, "GET", "/mounted/k").body == NEW


@contextlib.contextmanager
def serving(start, tmp_path, timeout):
    """A gateway, a bucket on the mount and one beside it, and what commands the mount."""
    (tmp_path / "tree").mkdir()
    with troubled_mount(str(tmp_path), str(tmp_path / "tree" / "mounted")) as trouble:
        gateway = start("--storage-timeout", timeout, "--drain-timeout", "2s", tree=tmp_path / "tree")
        assert raw.request(gateway, "PUT", "/beside").status == 200
        assert raw.request(gateway, "PUT", "/beside/k", body=OLD).status == 200
        prepare(gateway)
        check(gateway)
        yield gateway, trouble
        trouble.end()
        gateway.stop()


@pytest.fixture
def mounted(start, tmp_path):
    with serving(start, tmp_path, "2s") as both:
        yield both


@pytest.fixture
def patient(start, tmp_path):
    """Waits longer than it takes to see that a mount hangs, and to begin a slow answer."""
    with serving(start, tmp_path, "12s") as both:
        yield both


@pytest.mark.parametrize("operation", ["getattr", "open", "create", "read", "write", "fsync", "fsyncdir", "mkdir",
                                       "unlink", "setxattr", "getxattr", "opendir", "readdir"])
def test_hangs_in(mounted, operation):
    gateway, trouble = mounted
    prepare(gateway)
    hung = 0
    trouble.begin(operation)
    for request in requests(gateway):
        began = time.monotonic()
        answer = request()
        assert time.monotonic() - began < 20
        if answer.status >= 300:
            assert (answer.status, answer.code) in ((503, "ServiceUnavailable"), (503, "SlowDown")), answer
            hung += answer.code == "ServiceUnavailable"
        if trouble.met() and hung:
            break
    assert trouble.met() and hung, "nothing hung"
    # It is counted when the answer is on its way.
    until(gateway, lambda mounts: any(mount["workers_stuck"] for mount in mounts.values()))
    assert gateway.metric("railgate_workers_stuck") >= 1
    # The bucket beside it, health and metrics do not wait.
    began = time.monotonic()
    assert raw.request(gateway, "GET", "/beside/k").body == OLD
    assert raw.request(gateway, "PUT", "/beside/new", body=NEW).status == 200
    assert gateway.admin("/-/live")[0] == 200
    assert time.monotonic() - began < 20
    trouble.end()
    settle(gateway)
    check(gateway)


WRITING = ["create", "write", "fsync", "mkdir", "setxattr", "rename", "unlink", "utimens"]
READING = ["open", "read", "getattr", "getxattr", "opendir", "readdir"]


@pytest.mark.parametrize("error", ["EIO", "ESTALE", "ENOSPC", "EDQUOT", "EROFS"])
def test_answers_with(mounted, error):
    gateway, trouble = mounted
    expected = {"EIO": {500, 503}, "ESTALE": {404, 500, 503}, "ENOSPC": {507, 500}, "EDQUOT": {507, 403, 500},
                "EROFS": {403, 500}}[error]
    for operation in WRITING + (READING if error in ("EIO", "ESTALE") else []):
        prepare(gateway)
        refused = []
        trouble.begin(operation, error=getattr(errno, error))
        for request in requests(gateway):
            answer = request()
            if answer.status >= 300:
                refused.append(answer.status)
                assert answer.status in expected and answer.code, (operation, answer)
            assert raw.request(gateway, "GET", "/beside/k").body == OLD
        met = trouble.met()
        trouble.end()
        assert met, operation
        assert refused or operation in ("unlink", "utimens", "opendir", "readdir", "rename"), operation
        settle(gateway)
        check(gateway)


def health(gateway):
    """The status of /-/ready, its document, and of that each mount by its directory."""
    status, text = gateway.admin("/-/ready")
    document = json.loads(text)
    return status, document, {mount["mount"]: mount for mount in document["mounts"]}


def seconds_of(when):
    return calendar.timegm(time.strptime(when, "%Y-%m-%dT%H:%M:%SZ"))


def until(gateway, condition, seconds=20):
    """The health page, once the condition holds for its mounts."""
    deadline = time.monotonic() + seconds
    while not condition(health(gateway)[2]):
        assert time.monotonic() < deadline, health(gateway)
        time.sleep(0.1)
    return health(gateway)


def wait_for_event(gateway, name, seconds=60):
    deadline = time.monotonic() + seconds
    while not gateway.events(name):
        assert gateway.process.poll() is None or gateway.events(name), gateway.log()
        assert time.monotonic() < deadline, gateway.log()
        time.sleep(0.05)
    return gateway.events(name)[0]


def test_the_health_page_names_what_hangs(patient):
    """The mount, since when, and how many requests wait for it; the rest is ready."""
    gateway, trouble = patient
    place = os.path.join(gateway.tree, "mounted")
    well = until(gateway, lambda mounts: place in mounts and mounts[place]["state"] == "well")[2]
    assert set(well) == {gateway.tree, place}
    assert well[place]["requests_waiting"] == well[place]["workers_stuck"] == 0

    began = time.time()
    trouble.begin("getattr")
    answers = []
    waiting = [threading.Thread(target=lambda: answers.append(raw.request(gateway, "GET", "/mounted/k")))
               for _ in range(3)]
    for one in waiting:
        one.start()
    mounts = until(gateway, lambda mounts: mounts[place]["requests_waiting"] == 3)[2]
    assert mounts[gateway.tree]["requests_waiting"] == 0
    for one in waiting:
        one.join()
    assert [answer.status for answer in answers] == [503] * 3
    status, document, mounts = until(gateway, lambda mounts: mounts[place]["state"] == "hangs"
                                     and mounts[place]["workers_stuck"] == 3)
    hanging = mounts[place]
    assert (status, document["status"], mounts[gateway.tree]["state"]) == (200, "ready", "well")
    assert (hanging["requests_waiting"], hanging["workers_stuck"]) == (0, 3), hanging
    for when in (hanging["since"], hanging["stuck_since"]):
        assert began - 2 < seconds_of(when) < time.time(), (when, began)
    assert hanging["seconds"] > 2
    assert mounts[gateway.tree]["workers_stuck"] == 0
    assert gateway.metric("railgate_mount_well", mount=place) == 0
    assert gateway.metric("railgate_mount_well", mount=gateway.tree) == 1
    assert gateway.metric("railgate_mount_hang_seconds", mount=place) > 2
    assert gateway.metric("railgate_mount_requests", mount=place, state="given_up") == 3
    assert [event["mount"] for event in gateway.events("mount.hangs")] == [place]

    trouble.end()
    mounts = until(gateway, lambda mounts: mounts[place]["state"] == "well" and not mounts[place]["workers_stuck"])[2]
    assert "stuck_since" not in mounts[place]
    assert gateway.metric("railgate_mount_hang_seconds", mount=place) == 0
    assert [event["mount"] for event in gateway.events("mount.well")] == [place]
    settle(gateway)
    check(gateway)


def test_the_health_page_names_what_hangs_in_part(mounted):
    """A mount that answers all but writes is named for the requests that are stuck on it."""
    gateway, trouble = mounted
    place = os.path.join(gateway.tree, "mounted")
    trouble.begin("fsync")
    assert raw.request(gateway, "PUT", "/mounted/k", body=NEW).status == 503
    mounts = until(gateway, lambda mounts: mounts[place]["workers_stuck"] == 1)[2]
    assert mounts[place]["state"] == "well" and mounts[place]["stuck_since"]
    trouble.end()
    settle(gateway)
    until(gateway, lambda mounts: mounts[place]["workers_stuck"] == 0)
    check(gateway)


def test_an_unmounted_file_system_is_forgotten(mounted):
    """Unmounted while it hangs: the page names it no more, and a later mount is a new one."""
    gateway, trouble = mounted
    place = os.path.join(gateway.tree, "mounted")
    trouble.begin("getattr")
    until(gateway, lambda mounts: place in mounts and mounts[place]["state"] == "hangs")
    subprocess.run(["umount", "-l", place], check=True)
    until(gateway, lambda mounts: place not in mounts)
    assert [event["mount"] for event in gateway.events("mount.gone")] == [place]
    assert health(gateway)[0] == 200
    trouble.end()


def buckets(gateway):
    """Names and dates, as a list of all buckets has them."""
    began = time.monotonic()
    answer = raw.request(gateway, "GET", "/")
    assert answer.status == 200, answer
    assert time.monotonic() - began < 10
    return {bucket.findtext("Name"): bucket.findtext("CreationDate") for bucket in answer.xml().iter("Bucket")}


@pytest.mark.parametrize("operation", ["getattr", "getxattr", "opendir"])
def test_a_list_of_buckets_does_not_wait(patient, start, operation):
    """What hangs is listed with what is known of it, within the deadline; its date, too, once it was seen."""
    gateway, trouble = patient
    before = buckets(gateway)
    assert set(before) == {"beside", "mounted"}
    trouble.begin(operation)
    for _ in range(3):
        assert buckets(gateway) == before
    assert trouble.met()
    assert gateway.events("buckets.hang")[0]["bucket"] == "mounted"
    # One thread looks, however often it is listed, and what is made meanwhile is there.
    assert raw.request(gateway, "PUT", "/another").status == 200
    now = buckets(gateway)
    assert {name: date for name, date in now.items() if name != "another"} == before and "another" in now
    assert trouble.waiting() <= 2  # a probe's, and a look's
    # One that never saw it says so by a date that none has.
    second = start("--storage-timeout", "12s", tree=gateway.tree)
    listed = buckets(second)
    trouble.end()
    second.stop()
    assert listed == {**now, "mounted": "1970-01-01T00:00:00.000Z"}
    deadline = time.monotonic() + 20
    lines = len(gateway.events("buckets.hang"))
    while buckets(gateway) != now or len(gateway.events("buckets.hang")) != lines:
        assert time.monotonic() < deadline
        lines = len(gateway.events("buckets.hang"))
        time.sleep(0.1)
    settle(gateway)


def test_the_gateway_ends_while_a_look_at_a_bucket_hangs(patient):
    gateway, trouble = patient
    trouble.begin("getxattr")
    assert set(buckets(gateway)) == {"beside", "mounted"}
    assert trouble.waiting() in (1, 2)  # the look, and perhaps a probe
    gateway.process.terminate()
    deadline = time.monotonic() + 20
    while not gateway.events("gateway.stop"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert gateway.events("gateway.stop")[0]["cut_off"] == 0
    trouble.end()  # the kernel ends no process with a thread in there
    gateway.stop()


@pytest.mark.parametrize("source, operation", [("/mounted/k", "read"), ("/beside/k", "write")])
def test_a_slow_answer_is_not_kept_alive_for_a_hung_mount(patient, source, operation):
    """A copy that a mount holds up, whichever side hangs, ends at the deadline instead of being fed
    white space: refused, or broken off where its head was out before the hang was seen."""
    gateway, trouble = patient
    place = os.path.join(gateway.tree, "mounted")
    target = "/beside/copy" if source.startswith("/mounted") else "/mounted/copy"
    outcome = []

    def copy():
        try:
            outcome.append(raw.request(gateway, "PUT", target, headers={"x-amz-copy-source": source}))
        except (http.client.HTTPException, OSError) as broken:
            outcome.append(broken)

    trouble.begin(operation)
    copying = threading.Thread(target=copy, daemon=True)
    copying.start()
    deadline = time.monotonic() + 20
    while not trouble.met():
        assert time.monotonic() < deadline, "the copy did not reach the mount"
        time.sleep(0.02)
    trouble.begin(operation, "getattr")
    until(gateway, lambda mounts: place in mounts and mounts[place]["state"] == "hangs")
    copying.join(25)
    assert not copying.is_alive(), "still kept alive"
    answer, = outcome
    assert isinstance(answer, Exception) or (answer.status, answer.code) == (503, "ServiceUnavailable"), answer
    trouble.end()
    settle(gateway)
    answer = raw.request(gateway, "GET", target)
    assert answer.status == 404 or answer.body in (OLD, NEW), answer
    check(gateway)


def test_a_bucket_that_takes_no_writes_is_left_by_the_sweeper(start, tmp_path):
    """The other buckets are swept meanwhile; it is, too, when it can be."""
    (tmp_path / "tree").mkdir()
    with troubled_mount(str(tmp_path), str(tmp_path / "tree" / "mounted")) as trouble:
        first = start(tree=tmp_path / "tree")
        assert raw.request(first, "PUT", "/other").status == 200
        for bucket in ("mounted", "other"):
            assert raw.request(first, "PUT", f"/{bucket}/k", body=OLD).status == 200
        first.stop()
        left = [tmp_path / "tree" / bucket / ".railgate" / "tmp" / f".railgate-tmp-{'0' * 32}"
                for bucket in ("mounted", "other")]
        for path in left:
            path.write_bytes(b"by a crash")
        trouble.begin("unlink")
        gateway = start("--storage-timeout", "1s", "--temp-expiry", "1s", "--sweep-interval", "1s",
                        tree=tmp_path / "tree")
        deadline = time.monotonic() + 60
        while left[1].exists():
            assert time.monotonic() < deadline, gateway.log()
            time.sleep(0.1)
        said = wait_for_event(gateway, "sweep.left")
        assert said["bucket"] == "mounted"
        assert trouble.waiting() == 1 and gateway.metric("railgate_sweeps_left") >= 1
        left[1].write_bytes(b"by another")
        while left[1].exists():
            assert time.monotonic() < deadline + 60, gateway.log()
            time.sleep(0.1)
        trouble.end()
        assert wait_for_event(gateway, "sweep.back")["bucket"] == "mounted"
        assert not left[0].exists()
        gateway.stop()


# ---- Starts ----

class Manager:
    """A service manager's end of the socket that a gateway tells its state."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(60)
        self.name = f"@rg-trouble-{os.getpid()}-{id(self)}"
        self.socket.bind("\0" + self.name[1:])

    def told(self, begins):
        """The first message from here on that begins so."""
        while True:
            message = self.socket.recv(65536).decode()
            if message.startswith(begins):
                return message


@pytest.fixture
def manager():
    one = Manager()
    yield one
    one.socket.close()


@pytest.mark.parametrize("operation", ["getattr", "mkdir", "setxattr"])
def test_a_start_waits_for_a_tree_that_hangs(start, tmp_path, manager, operation):
    """It says so, also to a service manager, which is asked for time, and goes on when the tree does."""
    with troubled_mount(str(tmp_path), str(tmp_path / "tree")) as trouble:
        trouble.begin(operation)
        gateway = start(tree=tmp_path / "tree", ready=False, environment={"NOTIFY_SOCKET": manager.name})
        said = wait_for_event(gateway, "start.waits")
        assert said["level"] == "warn" and said["root"] == gateway.tree and said["seconds"] >= 5
        assert f"{gateway.tree} has not answered for" in said["message"]
        state = manager.told("STATUS=")
        assert gateway.tree in state and "EXTEND_TIMEOUT_USEC=" in state
        assert trouble.met() and not gateway.events("gateway.ready")
        trouble.end()
        gateway.wait_until_ready()
        while manager.told("STATUS=") != "STATUS=":
            pass  # it was told more than once
        assert manager.told("READY=1")
        assert raw.request(gateway, "PUT", "/bucket").status == 200
        gateway.stop()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_start_on_a_tree_that_hangs_is_stopped(start, tmp_path, manager, sent):
    with troubled_mount(str(tmp_path), str(tmp_path / "tree")) as trouble:
        trouble.begin("getattr")
        gateway = start(tree=tmp_path / "tree", ready=False, environment={"NOTIFY_SOCKET": manager.name})
        wait_for_event(gateway, "start.waits")
        gateway.stop(sent)
        assert "before it served" in gateway.events("gateway.stop")[0]["message"]
        assert manager.told("STOPPING=1")
        assert trouble.met() and not gateway.events("gateway.ready")


def test_a_start_on_a_tree_that_hangs_is_given_up(start, tmp_path, manager):
    """With an error that names it; a limit of less than half a minute is none."""
    with troubled_mount(str(tmp_path), str(tmp_path / "tree")) as trouble:
        trouble.begin("mkdir")
        gateway = start("--storage-timeout", "1s", tree=tmp_path / "tree", ready=False,
                        environment={"NOTIFY_SOCKET": manager.name})
        assert gateway.process.wait(120) == 1
        said = re.search(rf"The start is given up: {re.escape(gateway.tree)} has not answered for (\d+) s", gateway.log())
        assert said and int(said[1]) >= 30, gateway.log()
        assert gateway.events("start.waits")[0]["limit_seconds"] == 30
        assert gateway.tree in manager.told("STATUS=Not started")
