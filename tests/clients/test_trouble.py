"""A mount that hangs in one operation, or answers with an error of disks, quotas and servers: what
touches it is told so, everything else goes on, and what was there stays whole."""
import errno
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


@pytest.fixture
def mounted(start, tmp_path):
    """A gateway, a bucket on the mount and one beside it, and what commands the mount."""
    (tmp_path / "tree").mkdir()
    with troubled_mount(str(tmp_path), str(tmp_path / "tree" / "mounted")) as trouble:
        gateway = start("--storage-timeout", "1s", "--drain-timeout", "2s", tree=tmp_path / "tree")
        assert raw.request(gateway, "PUT", "/beside").status == 200
        assert raw.request(gateway, "PUT", "/beside/k", body=OLD).status == 200
        prepare(gateway)
        check(gateway)
        yield gateway, trouble
        trouble.end()
        gateway.stop()


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
    assert gateway.metric("railgate_workers_stuck") >= 1
    # The bucket beside it, health and metrics do not wait.
    began = time.monotonic()
    assert raw.request(gateway, "GET", "/beside/k").body == OLD
    assert raw.request(gateway, "PUT", "/beside/new", body=NEW).status == 200
    assert gateway.admin("/-/live")[0] == 200
    assert time.monotonic() - began < 5
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
