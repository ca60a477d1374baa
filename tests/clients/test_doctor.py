"""railgate doctor on machines that are text (tests/host), and what the gateway says of this one."""
import json
import os
import subprocess
import sys
import time

import gateway as gateways
import pytest

TREES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "host")
sys.path.insert(0, TREES)

from unpack import unpack  # noqa: E402


def doctor(*words, **environment):
    return subprocess.run([gateways.BINARY, "doctor", *map(str, words)], env=gateways.clean_environment(**environment),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


@pytest.fixture
def tree(tmp_path):
    def make(name, *changes):
        directory = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
        unpack(f"{name}.tree", str(directory), changes)
        return directory
    return make


def report(*words):
    done = doctor("--json", *words)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert done.returncode == {"ok": 0, "warn": 1, "fail": 2}[document["verdict"]], done.stderr
    return document


def verdicts(document):
    return {check["id"]: check["verdict"] for check in document["checks"]}


def test_exit_status_and_one_line_a_check(tree):
    bad = doctor("--sysroot", tree("e810-bond"))
    assert bad.returncode == 2 and bad.stderr == ""
    line = next(line for line in bad.stdout.splitlines() if "DEV-BOND" in line)
    assert line.split()[0] == "FAIL" and "bond1" in line
    assert "\033[" not in bad.stdout
    assert "nomaster" not in bad.stdout and "nomaster" in doctor("-v", "--sysroot", tree("e810-bond")).stdout
    slow = doctor("--sysroot", tree("cx-roce", "/proc/sys/net/ipv4/neigh/default/gc_thresh3 = 1024"), "--for", "client")
    assert slow.returncode >= 1 and "NEIGH" in slow.stdout


def test_roles_choose_what_must_hold(tree):
    one = tree("e810-bond")
    everything = verdicts(report("--sysroot", one))
    client = verdicts(report("--sysroot", one, "--for", "client"))
    assert set(client) < set(everything)
    assert client["DEV-BOND"] == "fail"
    assert not [check for check in client if check.startswith("LN-")]
    assert [check for check in verdicts(report("--sysroot", one, "--for", "lustre-client")) if check.startswith("LN-")]


def test_json_is_as_documented(tree):
    document = report("--sysroot", tree("e810-bond"))
    assert document["railgate_doctor"] == 1 and document["live"] is False and document["root"] is True
    assert document["host"] == "node1" and document["os"].startswith("Debian")
    assert sum(document["counts"].values()) == len(document["checks"])
    listed = doctor("--list").stdout
    for check in document["checks"]:
        assert f"  {check['id']} " in listed
        assert {"id", "group", "title", "verdict", "findings"} == set(check)
        for finding in check["findings"]:
            assert set(finding) <= {"verdict", "subject", "summary", "value", "where", "remedy"}
            if finding["verdict"] in ("warn", "fail"):
                assert finding["remedy"] and finding["where"], check["id"]


def test_remedies_fit_driver_and_distribution(tree):
    pfc = "{\"known\": true, \"pfc\": 0, \"dscp\": {\"26\": 3}}"
    intel = doctor("-v", "--sysroot", tree("e810", f"/.railgate/netlink/dcb/ens2f0.json = {pfc}")).stdout
    nvidia = doctor("-v", "--sysroot", tree("cx-roce", f"/.railgate/netlink/dcb/ens1f0np0.json = {pfc}")).stdout
    assert "dcb pfc set dev ens2f0 prio-pfc all:off 3:on" in intel
    assert "ethtool --set-priv-flags ens2f0 fw-lldp-agent off" in intel
    assert "mlnx_qos" not in intel and "NetworkManager" not in intel
    assert "mlnx_qos -i ens1f0np0 --pfc 0,0,0,1,0,0,0,0" in nvidia
    assert "fw-lldp-agent off" not in nvidia and "NetworkManager" in nvidia


def test_a_card_whose_driver_has_no_dcb(tree):
    """Pensando: judged by what nicctl tells, mended with it; skipped, and said why, where it does not."""
    one = tree("pensando")
    assert {verdicts(report("--sysroot", one))[check] for check in ("PFC-ON", "DSCP-MAP", "ETS", "CNP")} == {"ok"}
    mend = doctor("-v", "--sysroot", one, "--priority", "4", "--dscp", "32").stdout
    for line in ("nicctl update port --all --pause-type pfc --rx-pause enable --tx-pause enable",
                 "nicctl update qos pfc --priority 3 --no-drop disable",
                 "nicctl update qos pfc --priority 4 --no-drop enable",
                 "nicctl update qos --classification-type dscp",
                 "nicctl update qos dscp-to-priority --dscp 32 --priority 4"):
        assert line in mend, line
    assert "dcb pfc" not in mend and "mlnx_qos" not in mend and "fw-lldp" not in mend
    silent = tree("pensando", "/.railgate/cmd/nicctl-show-qos !EACCES")
    apart = tree("pensando", "/.railgate/cmd/nicctl-show-qos = NIC : a (0000:06:00.0)\\nPort : p\\nPFC priority bitmap : "
                 "0x8\\nNIC : b (0000:0a:00.0)\\nPort : q\\nPFC priority bitmap : 0x0")
    for directory, word in ((silent, "Permission denied"), (apart, "set differently")):
        document = report("--sysroot", directory)
        finding = next(check for check in document["checks"] if check["id"] == "PFC-ON")["findings"][0]
        assert finding["verdict"] == "skip" and word in finding["summary"], finding
        assert "nicctl show qos" in finding["remedy"]


def test_planned_priority(tree):
    one = tree("e810")
    assert verdicts(report("--sysroot", one))["PFC-ON"] == "ok"
    assert verdicts(report("--sysroot", one, "--priority", "5"))["PFC-ON"] == "fail"
    assert verdicts(report("--sysroot", one, "--dscp", "34"))["DSCP-MAP"] == "fail"


def test_page_stands_alone(tree, tmp_path):
    page = tmp_path / "page.html"
    assert doctor("--sysroot", tree("e810-bond"), "--html", page).returncode == 2
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "DEV-BOND" in text and "nomaster" in text
    for word in ("<script", "http:", "https:", "src=", "@import"):
        assert word not in text


def test_explain_and_list():
    done = doctor("explain", "pfc-on")
    assert done.returncode == 0 and done.stdout.startswith("PFC-ON: ")
    assert len(doctor("--list").stdout.splitlines()) > 50


def test_wrong_words(tree, tmp_path):
    for words in (["explain", "nothing"], ["nonsense"], ["--for", "nobody"], ["--sysroot", "/no/such/tree"],
                  ["--baseline", "/no/such/file"], ["--priority", "8"], ["--dscp", "64"], ["--no-such-option"],
                  ["capture"], ["capture", "/dev/null/x"], ["explain"]):
        done = doctor(*words)
        assert done.returncode == 2, (words, done.stdout)
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1, (words, done.stderr)
    for word in ("capture DIR", "explain CHECK", "serve", "peer HOST"):
        assert word in doctor("nonsense").stderr
    done = doctor("serve", "--listen", "localhost")
    assert done.returncode == 2 and "no numeric address" in done.stderr, done.stderr
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("x")
    assert doctor("capture", full).returncode == 2
    empty, link = tmp_path / "empty", tmp_path / "link"
    empty.mkdir()
    link.symlink_to(empty)
    for name in (link, f"{link}/", f"{link}//"):
        done = doctor("capture", name)
        assert done.returncode == 2 and "symbolic link" in done.stderr, done.stderr
    assert not list(empty.iterdir())


def test_nothing_read_is_not_well(tmp_path):
    """A tree in which nothing is, and one in which nothing may be read."""
    empty, shut = tmp_path / "empty", tmp_path / "shut"
    empty.mkdir()
    (shut / ".railgate").mkdir(parents=True)
    paths = ["/sys/class/infiniband", "/sys/bus/pci/devices", "/sys/class/net", "/proc/modules", "/proc/mounts",
             "/proc/self/limits", "/proc/meminfo"]
    (shut / ".railgate/errors").write_text("".join(f"13 {path}\n" for path in paths))
    for one in (empty, shut):
        document = report("--sysroot", one)
        assert document["verdict"] == "warn" and document["nothing_judged"] is True
        assert document["counts"]["skip"] == len(document["checks"])
        done = doctor("--sysroot", one, "--html", tmp_path / "page.html")
        assert done.returncode == 1 and "nothing was judged" in done.stdout.splitlines()[-1], done.stdout
        assert "Nothing was judged" in (tmp_path / "page.html").read_text()


def test_this_machine_is_quick_and_its_copy_agrees(tmp_path):
    begun = time.monotonic()
    live = report()
    # 3 seconds on a machine that does nothing else, and without sanitizers.
    assert time.monotonic() - begun < 15
    assert doctor("capture", tmp_path / "copy").returncode == 0
    copied = report("--sysroot", tmp_path / "copy")
    assert verdicts(live) == verdicts(copied)
    assert "hung" not in live


def test_copy_holds_no_secrets(tmp_path):
    config = tmp_path / "railgate.conf"
    config.write_text("root-secret-key = not-for-strangers\nrdma-gid-index = 7\n")
    assert doctor("capture", tmp_path / "copy", "--config", config).returncode == 0
    kept = [path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [content for content in kept if b"not-for-strangers" in content]
    assert [content for content in kept if b"rdma-gid-index = 7" in content]


def test_gateway_tells(gateway):
    status, text = gateway.admin("/-/ready")
    assert status == 200
    host = json.loads(text)["rdma"]["host"]
    assert host["verdict"] in ("ok", "warn", "fail", "skip")
    report_now = report("--for", "gateway", "--interval", "0")
    groups = [check["verdict"] for check in report_now["checks"] if check["group"] in ("devices", "ports", "lossless")]
    worst = next(v for v in ("fail", "warn", "ok", "skip") if v in groups)
    assert host["verdict"] == worst
    assert all(finding["check"] for finding in host["findings"])
    logged = [event for event in ("doctor.no_rdma", "doctor.warn", "doctor.fail") if gateway.events(event)]
    assert bool(logged) == (worst in ("warn", "fail"))


def test_settings_that_are_no_file(tmp_path):
    """A pipe without a writer reads like an empty file, and is none."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    document = report("--for", "gateway", "--config", pipe, "--interval", "0")
    verdicts = {check["id"]: check["verdict"] for check in document["checks"]}
    assert verdicts["GW-SETTINGS"] == "skip" and "GW-SETTINGS" in document["unjudged"]["checks"]
    assert "sudo" in document["unjudged"]["remedy"] or "doctor --for gateway" in document["unjudged"]["remedy"]


def test_this_machine_without_sysfs_is_not_well():
    """What a container sees that was given nothing of /sys."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"]).returncode:
        pytest.skip("mounts cannot be changed here")
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /sys && exec {gateways.BINARY} doctor"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout
    assert "could not be judged: DEV-RDMA, UVERBS, PORT-STATE, GID-TABLE" in done.stdout
    assert "/sys/class/net is not there" in done.stdout and "to see" in done.stdout
