"""Inputs as users give them: every way in leads to the same verdict; what cannot be read is said."""
import gzip
import io
import json
import lzma
import os
import select
import subprocess
import tarfile
import time

import pytest

from diagnosis import BINARY, LUSTRE, diagnose, run

EPOCH = 1795962611  # 2026-11-29 14:30:11 UTC
LOST = ("Lustre: scratch-OST0012-osc-ffff8881: Connection to scratch-OST0012 (at 192.0.2.73@o2ib) was "
        "lost; in progress operations using this service will wait for recovery to complete")
EXPIRED = ("Lustre: 70:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has timed out for "
           "slow reply: [sent 1795962604/real 1795962604]  req@00000000f178e0a7 x1828787560993280/t0(0) "
           "o4->scratch-OST0012-osc-ffff8881@192.0.2.73@o2ib:6/4 lens 488/448 e 0 to 1 dl 1795962611 ref "
           "1 fl Rpc:XQr/0/ffffffff rc 0/-1 job:''")

# The same two lines, said at 14:30:11 UTC, as each source writes them.
SHAPES = {
    "dmesg": "[  533.840297] {}",
    "dmesg -T": "[Sun Nov 29 14:30:11 2026] {}",
    "dmesg iso": "2026-11-29T14:30:11,123456+00:00 {}",
    "kmsg": "4,1234,533840297,-;{}",
    "syslog": "Nov 29 14:30:11 gpu01 kernel: {}",
    "syslog in Seoul": "Nov 29 23:30:11 gpu01 kernel: [  533.840297] {}",
    "short-iso": "2026-11-29T23:30:11+0900 gpu01 kernel: {}",
    "rfc5424": "<4>1 2026-11-29T14:30:11.003Z gpu01 kernel - - - {}",
    "pdsh": "gpu01: [  533.840297] {}",
    "markdown": "> [  533.840297] {}",
    "json": '{{"_HOSTNAME":"gpu01","__REALTIME_TIMESTAMP":"1795962611000000","MESSAGE":"{}"}}',
    "export": "__REALTIME_TIMESTAMP=1795962611000000\n_HOSTNAME=gpu01\nMESSAGE={}\n",
}


def text_of(shape):
    return "".join(SHAPES[shape].format(line) + "\n" for line in (EXPIRED, LOST))


def essence(found):
    """What must not depend on the way in."""
    return [(one["scope"], one["cause"]["row"], one["targets"], one["nids"])
            for one in found["incidents"]]


def seconds(when):
    return when["time"] if "time" in when else when


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_verdict(shape):
    found = diagnose("--node", "gpu01", "-", stdin=text_of(shape).encode())
    plain = diagnose("--node", "gpu01", "-", stdin=text_of("dmesg").encode())
    assert essence(found) == essence(plain) and found["incidents"]
    assert [node["name"] for node in found["nodes"]] == ["gpu01"]
    # The deadline in the first line dates all of them, whatever their own clock says.
    assert "2026-11-29" in json.dumps(found) and "14:30:11" in json.dumps(found)


def test_all_shapes_of_one_node_count_once_where_clocks_say_so(tmp_path):
    """Ring, journal and messages of the same host hold the same lines."""
    lines = [LOST.replace("OST0012", f"OST{i:04x}") for i in range(5)]
    ring = "".join(f"[  53{i}.840297] {line}\n" for i, line in enumerate(lines))
    both = "".join(f"Nov 29 14:30:1{i} gpu01 kernel: [  53{i}.840297] {line}\n"
                   for i, line in enumerate(lines))
    journal = "".join(json.dumps({"_HOSTNAME": "gpu01", "_BOOT_ID": "aa", "MESSAGE": line,
                                  "__REALTIME_TIMESTAMP": str(1795962610000000 + i * 1000000),
                                  "_SOURCE_MONOTONIC_TIMESTAMP": str(530840297 + i * 1000000)}) + "\n"
                      for i, line in enumerate(lines))
    (tmp_path / "gpu01.dmesg").write_text(ring)
    (tmp_path / "messages").write_text(both)
    (tmp_path / "journal.json").write_text(journal)
    done = run("-v", "--json", tmp_path)
    assert b"5 known messages, 10 collected twice" in done.stderr


def archive(members, compress):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, text in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(text)
            facts.mtime = int(time.time())
            tar.addfile(facts, io.BytesIO(text))
    return compress(raw.getvalue())


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress], ids=["tar", "gz", "xz"])
def test_archives(tmp_path, compress):
    members = {f"logs/gpu0{i}/dmesg": text_of("dmesg").encode() for i in range(1, 4)}
    path = tmp_path / "bundle"
    path.write_bytes(archive(members, compress))
    for found in diagnose(path), diagnose("-", stdin=path.read_bytes()):
        assert {node["name"] for node in found["nodes"]} == {"gpu01", "gpu02", "gpu03"}
        assert found["incidents"]


def test_what_cannot_be_read_is_said_and_the_rest_is_judged(tmp_path):
    good = tmp_path / "gpu01.log"
    good.write_text(text_of("dmesg"))
    binary = tmp_path / "core"
    binary.write_bytes(bytes(range(32)) * 100)
    for bad in tmp_path / "missing.log", binary:
        done = run("--json", bad, good, expect=(2,))
        assert bad.name.encode() in done.stderr
        assert json.loads(done.stdout)["incidents"]
    # Found on the way, it is mentioned and no fault.
    done = run("--json", tmp_path)
    assert done.returncode == 1 and b"core" in done.stderr
    cut = tmp_path / "cut.tar.gz"
    whole = archive({"gpu01.log": text_of("dmesg").encode(), "z": bytes(200000)}, gzip.compress)
    cut.write_bytes(whole[:-20])
    done = run("--json", cut)
    assert b"truncated" in done.stderr


def test_words_that_are_wrong():
    for words in ([], ["--lang", "xx", "-"], ["--tz", "gpu01=Mars/Olympus", "-"], ["--bogus", "-"],
                  ["--rules"], ["--json", "--markdown", "-"], ["explain", "NO-SUCH-ROW"]):
        done = run(*words, stdin=b"", expect=(2,))
        assert done.stderr.startswith(b"railgate")
        assert done.stdout == b""


def test_nothing_found_is_status_0():
    assert run("-", stdin=b"").returncode == 0
    assert run("-", stdin=b"[    1.000000] usb 1-1: new high-speed USB device\n").returncode == 0
    assert run(LUSTRE / "01-healthy-mount.client.log").returncode == 0


def test_zones_are_stated_or_not_made_up():
    line = f"Nov 29 23:30:11 gpu01 kernel: {LOST}\n".encode()
    unstated = json.dumps(diagnose("-", stdin=line))
    assert "23:30:11" in unstated
    for word in "gpu01=Asia/Seoul", "gpu01=+09:00", "Asia/Seoul":
        stated = json.dumps(diagnose("--tz", word, "-", stdin=line))
        assert "14:30:11" in stated, word


def test_a_page_is_written_beside_the_report(tmp_path):
    page = tmp_path / "report.html"
    done = run("--html", page, "--markdown", "-", stdin=text_of("dmesg").encode())
    assert done.stdout and page.read_text().lstrip().lower().startswith("<!doctype html")
    run("--html", "/not/there/report.html", "-", stdin=text_of("dmesg").encode(), expect=(2,))


def test_no_progress_where_there_is_no_terminal(tmp_path):
    done = run("-", stdin=text_of("dmesg").encode() * 1000)
    assert done.stderr == b""


def test_progress_on_a_terminal_when_it_takes_longer_than_a_second():
    ours, theirs = os.openpty()
    process = subprocess.Popen([BINARY, "diagnose", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    ordinary = b"[    1.000000] usb 1-1: new high-speed USB device\n" * 20000
    shown, deadline = b"", time.monotonic() + 60
    while b"MiB/s" not in shown:
        assert time.monotonic() < deadline, shown
        process.stdin.write(ordinary)
        if select.select([ours], [], [], 0.05)[0]:
            shown += os.read(ours, 65536)
    process.stdin.close()
    while not shown.endswith(b"\r\x1b[K"):
        assert select.select([ours], [], [], 60)[0], shown
        shown += os.read(ours, 65536)
    assert process.wait(60) == 0
    os.close(ours)


def test_live_reads_this_host_or_says_why_not():
    done = subprocess.run([BINARY, "diagnose", "--live", "-v"], capture_output=True, timeout=120)
    assert done.returncode in (0, 1, 2)
    assert done.returncode != 2 or b"kernel ring" in done.stderr


@pytest.mark.parametrize("trap", ["", "trap '' TERM PIPE HUP\n"], ids=["hangs", "hangs and ignores signals"])
def test_live_with_a_journal_that_hangs(tmp_path, trap):
    """What journalctl said before it hung counts, the ring is read, and the report says what is missing."""
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\n{trap}cat <<'E'\n{text_of('export')}E\nexec sleep 600\n")
    journalctl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for words in ["--json"], ["--markdown"]:
        started = time.monotonic()
        done = subprocess.run([BINARY, "diagnose", "--live", "--timeout", "1", "-v", *words], env=environment,
                              capture_output=True, timeout=60)
        assert 0.9 < time.monotonic() - started < 20
        assert b"journalctl did not finish in time" in done.stderr
        assert b"journalctl did not finish in time" in done.stdout
        assert b"scratch-OST0012" in done.stdout
        ring = b"kernel ring" in done.stderr
        assert done.returncode == (2 if ring else 1)
        assert ring or b"read 2 sources" in done.stderr


def test_live_with_a_journal_that_fails(tmp_path):
    journalctl = tmp_path / "journalctl"
    journalctl.write_text("#!/bin/sh\nexit 3\n")
    journalctl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([BINARY, "diagnose", "--live", "-v"], env=environment, capture_output=True, timeout=60)
    assert b"journalctl ended with status 3" in done.stderr


ENCODINGS = {"utf-16 little": lambda t: b"\xff\xfe" + t.encode("utf-16-le"),
             "utf-16 big": lambda t: b"\xfe\xff" + t.encode("utf-16-be"),
             "utf-16 without mark": lambda t: t.encode("utf-16-le"),
             "utf-8 with mark": lambda t: b"\xef\xbb\xbf" + t.encode()}


@pytest.mark.parametrize("name", ENCODINGS)
def test_text_saved_on_windows(tmp_path, name):
    text = text_of("dmesg").replace("\n", "\r\n") * 3000  # longer than any buffer, with what is no ASCII
    text += "[  599.000000] LustreError: unheard of failure on \uc11c\ubc84 \U0001f600\r\n"
    path = tmp_path / "gpu01.log"
    path.write_bytes(ENCODINGS[name](text))
    plain = diagnose("--node", "gpu01", "-", stdin=text.encode())
    packed = tmp_path / "bundle.tar.gz"
    packed.write_bytes(archive({"gpu01.log": path.read_bytes()}, gzip.compress))
    for found in diagnose(path), diagnose("--node", "gpu01", "-", stdin=path.read_bytes()), diagnose(packed):
        assert essence(found) == essence(plain) and found["incidents"]
        assert found["coverage"] == plain["coverage"]
        assert "\uc11c\ubc84 \U0001f600" in json.dumps(found["noise"], ensure_ascii=False)


HOSTILE = {
    "megabytes in a line": b"Lustre: " + b"x" * (3 << 20) + b"\n",
    "NUL": b"[    1.000000] Lustre: \0\0\0\n" + LOST.encode().replace(b" ", b"\0") + b"\n",
    "no UTF-8": b"[    1.000000] LustreError: \xff\xfe\xc0\xaf\xed\xa0\x80 failed\n",
    "deep JSON": b'{"MESSAGE":' + b"[" * 50000 + b"\n" + b'{"a":' * 20000 + b"\n",
    "braces": b'{"MESSAGE":"LustreError: x","y":{' + b'"z":{' * 10000 + b"\n",
    "header of nothing": b"==> <==\n==>  <==\n",
    "export": b"__CURSOR=x\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\x7fLustre\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines(name):
    text = HOSTILE[name] + b"\n" + text_of("dmesg").encode()
    for words in ["--json"], ["--markdown"], []:
        done = run(*words, "--node", "gpu01", "-", stdin=text)
        if name != "export":
            assert done.returncode == 1
        done.stdout.decode()


# ---- When a sos report was taken. ----

def sos_tree(root, date, uptime, lines, more=None):
    """Taken at 14:40:11 UTC; `lines` are the kernel's ring."""
    files = {"sos_commands/kernel/dmesg": lines, "sos_commands/host/hostname": "oss1\n",
             "sos_commands/host/date": date, "sos_commands/host/uptime": uptime, **(more or {})}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return files


UPTIMES = {" 23:40:11 up 3 min,  1 user,  load average: 0.00, 0.00, 0.00\n": 180,
           " 23:41:11 up 12 days,  3:44,  2 users,  load average: 0.00, 0.00, 0.00\n": 12 * 86400 + 3 * 3600 + 44 * 60 - 60,
           " 23:40:11 up 1 day, 5 min,  0 users,  load average: 0.00, 0.00, 0.00\n": 86400 + 300,
           " 23:40:11 up  1:02,  0 users,  load average: 0.00, 0.00, 0.00\n": 3720}
TAKEN = 1795963211  # 2026-11-29 14:40:11 UTC


@pytest.mark.parametrize("uptime", UPTIMES)
@pytest.mark.parametrize("packed", [False, True], ids=["tree", "tar"])
def test_date_and_uptime_of_a_sos_report_date_its_ring(tmp_path, uptime, packed):
    root = tmp_path / "sosreport-oss1-2026-11-29-abcdef"
    ring = f"[  120.000000] {LOST}\n[  150.000000] {LOST.replace('OST0012', 'OST0013')}\n"
    files = sos_tree(root, "Sun Nov 29 23:40:11 KST 2026\n", uptime, ring)
    if packed:
        bundle = tmp_path / "sos.tar.gz"
        bundle.write_bytes(archive({f"{root.name}/{name}": text.encode() for name, text in files.items()},
                                   gzip.compress))
    first = diagnose(bundle if packed else root)["incidents"][0]["first"]
    assert first["clock"] == "utc"
    assert abs(first["usec"] / 1e6 - (TAKEN - UPTIMES[uptime] + 120)) <= 60
    assert 30e6 <= first["uncertain_usec"] <= 90e6


@pytest.mark.parametrize("date, zone", [("Sun Nov 29 23:40:11 KST 2026", "UTC+09:00"),
                                        ("Sun 29 Nov 2026 11:40:11 PM KST", "UTC+09:00"),
                                        ("Sun Nov 29 22:40:11 +08 2026", "UTC+08:00")])
def test_date_of_a_sos_report_tells_the_zone_of_its_syslog(tmp_path, date, zone):
    root = tmp_path / "sosreport-oss1-2026-11-29-abcdef"
    hour = int(zone[4:6]) + 14
    sos_tree(root, date + "\n", "x\n", "[    1.000000] x\n",
             {"var/log/messages": f"Nov 29 {hour}:30:11 oss1 kernel: {LOST}\n"})
    found = diagnose(root)
    assert found["incidents"][0]["first"]["text"] == "2026-11-29 14:30:11 UTC"
    assert any(zone in note["en"] and "sos report" in note["en"] for note in found["clocks"])


def test_a_date_that_says_nothing_is_nothing(tmp_path):
    for i, (date, uptime) in enumerate((("Sun Nov 29 23:40:11 CST 2026", " 23:40:11 up 3 min,  1 user"),
                                        ("not a date", "up"), ("Sun Nov 99 23:40:11 KST 2026", "99:99:99 up 3 min"))):
        root = tmp_path / str(i) / "sosreport-oss1-2026-11-29-abcdef"
        sos_tree(root, date + "\n", uptime + "\n", f"[  120.000000] {LOST}\n")
        assert diagnose(root)["incidents"][0]["first"]["clock"] == "boot"


def test_years_by_the_kernel_and_by_the_journal(tmp_path):
    """Files that were unpacked without their times."""
    version = ("Dec 30 14:30:00 oss1 kernel: Linux version 5.14.0-503.el9.x86_64 (mockbuild@x86) (gcc) #1 SMP "
               "PREEMPT_DYNAMIC Thu Nov 20 12:00:00 UTC 2025\n")
    log = tmp_path / "messages"
    log.write_text(version + f"Dec 30 14:30:11 oss1 kernel: {LOST}\n")
    os.utime(log, (946684800 + 86400 * 200,) * 2)  # July 2000
    assert diagnose(log)["incidents"][0]["first"]["text"].startswith("2025-12-30 14:30:11")
    log.write_text("-- Logs begin at Tue 2019-11-26 00:38:02 UTC, end at Fri 2020-01-03 23:45:24 UTC. --\n"
                   f"Dec 30 14:30:11 oss1 kernel: {LOST}\nJan 02 14:30:11 oss1 kernel: x\n")
    assert diagnose(log)["incidents"][0]["first"]["text"].startswith("2019-12-30 14:30:11")


def test_a_node_is_told_from_its_first_line_to_its_last_whichever_file_comes_first(tmp_path):
    def log(name, *stamps):
        (tmp_path / name).write_text("".join(f"{stamp} gpu01 kernel: usb 1-1: at {stamp}\n" for stamp in stamps))
        return tmp_path / name

    early = log("a", "2026-05-20T04:00:00+00:00", "2026-05-20T05:00:00+00:00")
    late = log("b", "2026-05-22T04:00:00+00:00", "2026-05-22T07:00:00+00:00")
    within = log("c", "2026-05-21T01:00:00+00:00")
    for files in (early, late, within), (late, within, early), (within, early, late):
        found = diagnose(*files)
        for told in found, found["nodes"][0]:
            assert (told["first"]["text"], told["last"]["text"]) == ("2026-05-20 04:00:00 UTC", "2026-05-22 07:00:00 UTC")
    # Of two clocks, when one's zone is known.
    here = log("d", "2026-05-20T03:00:00", "2026-05-22T08:00:00")
    node = diagnose("--tz", "UTC", here, early, late)["nodes"][0]
    assert (node["first"]["text"], node["last"]["text"]) == ("2026-05-20 03:00:00 UTC", "2026-05-22 08:00:00 UTC")
    here = log("d", "2026-05-20T04:30:00", "2026-05-22T06:00:00")
    node = diagnose("--tz", "UTC", here, early, late)["nodes"][0]
    assert (node["first"]["text"], node["last"]["text"]) == ("2026-05-20 04:00:00 UTC", "2026-05-22 07:00:00 UTC")
    # A wall clock tells more than seconds since an unknown boot, before or after it.
    ring = tmp_path / "gpu01.dmesg"
    ring.write_text("[  100.000000] usb 1-1: x\n[  900.000000] usb 1-1: y\n")
    for files in (ring, early), (early, ring):
        node = diagnose("--node", "gpu01", *files)["nodes"][0]
        assert (node["first"]["text"], node["last"]["text"]) == ("2026-05-20 04:00:00 UTC", "2026-05-20 05:00:00 UTC")


def test_a_wall_clock_without_a_zone_counts_beside_one_line_with_one(tmp_path):
    """A node's syslog of a week, and one line of its debug log."""
    log = tmp_path / "gpu01.messages"
    log.write_text("".join(f"Nov {day} 10:00:00 gpu01 kernel: {LOST}\n" for day in (22, 25, 29)))
    os.utime(log, (EPOCH,) * 2)
    for at, end in (EPOCH - 6600, "2026-11-29 12:40:11 UTC"), (EPOCH - 86400, "2026-11-29 10:00:00 (zone not stated)"):
        debug = tmp_path / "gpu01.dk"
        debug.write_text(f"00000100:00020000:3.0F:{at}.123456:0:2449:0:(client.c:2141:f()) x\n")
        for files in (log, debug), (debug, log):
            found = diagnose("--node", "gpu01", *files)
            for told in found, found["nodes"][0]:
                assert (told["first"]["text"], told["last"]["text"]) == ("2026-11-22 10:00:00 (zone not stated)", end)


def test_a_node_is_told_by_the_years_its_files_turn_out_to_be_of(tmp_path):
    """A year is chosen at a file's first line, and known at its last."""
    def log(name, *stamps):
        (tmp_path / name).write_text("".join(f"{stamp} gpu01 kernel: usb 1-1: at {stamp}\n" for stamp in stamps))
        os.utime(tmp_path / name, (EPOCH - 86400,) * 2)
        return tmp_path / name

    years = log("a", "Nov 20 10:00:00", "Feb 10 10:00:00", "Nov 25 10:00:00")
    within = log("b", "2026-10-01T10:00:00")
    behind = log("c", "2026-11-26T10:00:00")
    before = log("d", "2025-10-01T10:00:00")
    for files, first, last in (((years,), "2025-11-20", "2026-11-25"), ((years, within), "2025-11-20", "2026-11-25"),
                               ((years, behind), "2025-11-20", "2026-11-26"), ((years, before), "2025-10-01", "2026-11-25"),
                               ((behind, years, before), "2025-10-01", "2026-11-26")):
        for order in files, files[::-1]:
            found = diagnose(*order)
            for told in found, found["nodes"][0]:
                assert (told["first"]["text"][:10], told["last"]["text"][:10]) == (first, last), order
    # Lines with the time of a request tell the year, too.
    proven = tmp_path / "e"
    proven.write_text(f"Nov 29 14:30:11 gpu01 kernel: {EXPIRED}\n")
    os.utime(proven, (EPOCH + 5 * 365 * 86400,) * 2)
    for files in (proven, log("f", "2027-01-01T10:00:00")), (log("f", "2027-01-01T10:00:00"), proven):
        node = diagnose(*files)["nodes"][0]
        assert (node["first"]["text"][:10], node["last"]["text"][:10]) == ("2026-11-29", "2027-01-01")


def test_each_boot_counts_once_whatever_files_show_it(tmp_path):
    """The first of them begins later after its start, and the last ends sooner."""
    for name in "one", "two":
        (tmp_path / name).write_text("".join(f"[  {100 + i * 10 - boot}.000000] usb 1-1: {i if i else 'begins'} {name if i else ''}\n"
                                             for boot in range(3) for i in range(5 - boot)))
    found = diagnose("--node", "gpu01", tmp_path / "one", tmp_path / "two")
    assert [(node["boots"], node["lines"]) for node in found["nodes"]] == [(3, 24)]
    assert [node["first"]["text"] for node in found["nodes"]] == ["+100.000 s after boot"]
    assert [node["last"]["text"] for node in found["nodes"]] == ["+118.000 s after boot"]


STARTED = ((1.0, "Linux version 6.1.0-26-amd64"), (5.25, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"),
           (70.5, "Lustre: Lustre: Build Version: 2.15.5"), (1191.123456, LOST))


def ring(lines=STARTED):
    return "".join(f"[{at:12.6f}] {text}\n" for at, text in lines)


def journal(boot, booted, lines=STARTED):
    return "".join(json.dumps({
        "_HOSTNAME": "gpu01", "_BOOT_ID": boot, "_TRANSPORT": "kernel", "MESSAGE": text,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(round(at * 1e6)), "__REALTIME_TIMESTAMP": str(round((booted + at) * 1e6))}) + "\n"
        for at, text in lines)


def test_a_boot_that_ring_and_journal_show_from_its_start_is_one(tmp_path):
    """The first minute tells nothing: every boot has the same lines then."""
    def log(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    before = [(at + 0.3, text.replace("OST0012", "OST0013")) for at, text in STARTED]
    files = {"ring": log("ring", ring()), "copy": log("copy", ring()), "now": log("now", journal("now", EPOCH)),
             "both": log("both", journal("old", EPOCH - 9999, before) + journal("now", EPOCH))}
    for names, boots in (("ring now", 1), ("now ring", 1), ("ring copy", 1), ("ring copy now", 1), ("ring both", 2),
                         ("both ring", 2), ("ring now both", 2), ("both ring copy", 2), ("copy both ring now", 2)):
        found = diagnose("--node", "gpu01", *(files[name] for name in names.split()))
        assert [node["boots"] for node in found["nodes"]] == [boots], names
        assert len({finding["boot"] for finding in found["findings"]}) == boots, names
        assert {finding["first"]["clock"] for finding in found["findings"]} == {"boot" if names == "ring copy" else "utc"}, names
        last = found["nodes"][0]["last"]["text"]
        assert last == ("+1191.123 s after boot" if names == "ring copy" else "2026-11-29 14:50:02 UTC"), names
        # A port without link in the minute of its start is no incident.
        assert [incident["cause"]["row"] for incident in found["incidents"]] == ["IM-LOST-WAIT"] * boots, names


def test_what_dates_a_boots_first_minute_dates_all_of_it(tmp_path):
    """A ring whose beginning was overwritten, and a longer one."""
    short, long = tmp_path / "short", tmp_path / "long"
    short.write_text(ring(STARTED[2:]))
    clock = (1.5, f"rtc_cmos 00:00: setting system clock to 2026-11-29T14:30:12 UTC ({EPOCH + 1})")
    long.write_text(ring((STARTED[0], clock, STARTED[2])))
    for files in (short, long), (long, short):
        found = diagnose("--node", "gpu01", *files)
        assert [node["boots"] for node in found["nodes"]] == [1]
        assert found["incidents"][0]["first"]["text"] == "2026-11-29 14:50:01 UTC"
