"""railgate doctor where there is a verbs device: soft-RoCE, in the guest of tests/rxe/run."""
import json
import os
import pwd
import subprocess
import time

import pytest

RAILGATE = os.path.join(os.environ.get("BUILD", "build"), "railgate")

pytestmark = pytest.mark.skipif("RG_RXE" not in os.environ, reason="only in the guest")


def run(*words, **more):
    return subprocess.run([RAILGATE, "doctor", *words], capture_output=True, text=True, timeout=60, **more)


def examine(*words):
    done = run("--json", *words)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == {"ok": 0, "warn": 1, "fail": 2}[report["verdict"]]
    return report


def check(report, name):
    return next(item for item in report["checks"] if item["id"] == name)


def finding(report, name, subject):
    return next(item for item in check(report, name)["findings"] if item.get("subject", "") == subject)


def test_finds_the_device():
    report = examine()
    assert finding(report, "DEV-RDMA", "rxe0")["verdict"] == "ok"
    assert finding(report, "DEV-PROTO", "rxe0")["value"].startswith("1: CA")
    assert finding(report, "UVERBS", "rxe0")["verdict"] == "ok"
    assert finding(report, "PORT-STATE", "rxe0/1")["verdict"] == "ok"
    assert check(report, "LIBDEP")["verdict"] == "ok"


def test_the_commands_that_mend_do():
    """The guest has not loaded rdma_ucm: the first line of the remedy is run as it stands."""
    subprocess.run(["modprobe", "-r", "rdma_ucm"], check=False)
    found = finding(examine("--interval", "0"), "KMOD", "rdma_ucm")
    assert found["verdict"] == "fail"
    subprocess.run(found["remedy"].splitlines()[0], shell=True, check=True)
    assert check(examine("--interval", "0"), "KMOD")["verdict"] == "ok"


def test_picks_the_gid_that_is_the_address():
    found = finding(examine(), "GID-TABLE", "rxe0/1")
    assert found["verdict"] == "ok"
    assert "10.9.0.1, RoCE v2, roce0" in found["summary"], found
    index = int(found["summary"].split("Use index ")[1].split(":")[0])
    base = "/sys/class/infiniband/rxe0/ports/1"
    with open(f"{base}/gids/{index}", encoding="ascii") as file:
        assert file.read().strip() == "0000:0000:0000:0000:0000:ffff:0a09:0001"
    with open(f"{base}/gid_attrs/types/{index}", encoding="ascii") as file:
        assert file.read().strip() == "RoCE v2"


def test_reads_the_mtu_and_the_counters():
    report = examine()
    assert "active_mtu 4096" in finding(report, "PORT-MTU", "rxe0/1")["value"]
    assert check(report, "CNT-DUP")["verdict"] == "ok"
    assert "rxe0/1 duplicate_request" in report["counters"]


def test_is_quick():
    begun = time.monotonic()
    run()
    # Of which one second lies between the two readings; the guest may be interpreted.
    assert time.monotonic() - begun < 20


def test_sees_the_link_go_down():
    subprocess.run(["ip", "link", "set", "roce0", "down"], check=True)
    try:
        report = examine("--interval", "0")
        found = finding(report, "PORT-STATE", "rxe0/1")
        assert found["verdict"] == "fail", found
        assert "ip link set roce0 up" in found["remedy"]
    finally:
        subprocess.run(["ip", "link", "set", "roce0", "up"], check=True)
        for address in ("10.9.0.1/24", "10.9.0.2/24"):
            subprocess.run(["ip", "addr", "replace", address, "dev", "roce0"], check=True)
    deadline = time.monotonic() + 20
    while finding(examine("--interval", "0"), "PORT-STATE", "rxe0/1")["verdict"] != "ok":
        assert time.monotonic() < deadline, "the port does not come up again"
        time.sleep(0.5)


def test_sees_the_address_go(tmp_path):
    subprocess.run(["ip", "addr", "flush", "dev", "roce0", "scope", "global"], check=True)
    try:
        found = finding(examine("--interval", "0"), "GID-TABLE", "rxe0/1")
        assert found["verdict"] in ("warn", "fail"), found
        assert "ip address add" in found["remedy"]
    finally:
        for address in ("10.9.0.1/24", "10.9.0.2/24"):
            subprocess.run(["ip", "addr", "replace", address, "dev", "roce0"], check=True)


def test_baseline(tmp_path):
    tree = tmp_path / "tree"
    earlier = tmp_path / "earlier.json"
    assert run("capture", str(tree)).returncode == 0
    earlier.write_text(json.dumps(examine("--sysroot", str(tree), "--interval", "0")))
    counter = next(tree.glob("sys/**/rxe0/ports/1/hw_counters/duplicate_request"))
    counter.write_text(f"{int(counter.read_text()) + 5}\n")
    later = examine("--sysroot", str(tree), "--baseline", str(earlier))
    assert "rose by 5" in finding(later, "CNT-DUP", "rxe0/1")["summary"]


def test_captured_tree_gives_the_same_verdicts(tmp_path):
    # Probes have deadlines, which a guest misses now and then on a busy machine: live or copied.
    for attempt in range(4):
        tree = tmp_path / f"tree{attempt}"
        done = run("capture", str(tree))
        assert done.returncode == 0, done.stderr
        live = examine()
        copied = examine("--sysroot", str(tree))
        there, here = ({c["id"]: c["verdict"] for c in one["checks"] if c["id"] != "MR-PROBE"} for one in (live, copied))
        if there == here:
            break
    assert there == here
    assert copied["live"] is False


def test_user_without_the_device(tmp_path):
    os.chmod("/dev/infiniband/uverbs0", 0o600)
    nobody = pwd.getpwnam("nobody")
    try:
        done = run("--json", "--interval", "0", user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        report = json.loads(done.stdout)
        found = finding(report, "UVERBS", "uverbs0")
        assert found["verdict"] == "fail" and "chmod" in found["remedy"]
        assert report["root"] is False
    finally:
        os.chmod("/dev/infiniband/uverbs0", 0o666)
