"""Two doctors: over loopback, between two network namespaces with different MTUs, and with a peer that
sends nonsense."""

import json
import os
import random
import resource
import socket
import struct
import subprocess
import time

import pytest

import forest

NAMESPACES = ["rgdoc-a", "rgdoc-b"]


def start_serve(prefix, address, *words):
    process = subprocess.Popen([*prefix, forest.BINARY, "doctor", "serve", "--listen", address,
                                "--port", "0", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert "listening on" in line, process.stderr.read()
    return process, line.split(" port ")[1].split()[0]


def visit(prefix, host, port, *words):
    done = subprocess.run([*prefix, forest.BINARY, "doctor", "peer", host, "--port", port, "--json",
                           "--memory", "4M", *words], capture_output=True, text=True, timeout=180)
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return done, json.loads(done.stdout) if done.stdout else None


def end(process):
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert "Sanitizer" not in err and "runtime error" not in err, err
    assert process.returncode == 0, (process.returncode, out, err)


def verdict_of(report, check):
    order = ["skip", "ok", "warn", "fail"]
    found = [f for f in report["findings"] if f["id"] == check]
    return max((f["verdict"] for f in found), key=order.index) if found else None


def path_of(report, name):
    return next(p for p in report["paths"] if p["path"] == name)


def test_loopback_moves_bytes_both_ways():
    process, port = start_serve([], "127.0.0.1")
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp,ofi:shm")
        assert done.returncode in (0, 1), done.stdout
        for name in ("ofi:tcp", "ofi:shm"):
            path = path_of(report, name)
            assert path["well"] and not path["hardware"]
            assert path["largest_write"] == path["largest_read"] == 4 << 20
            assert path["latency_us"] > 0 and path["write_mbits"] > 0 and path["read_mbits"] > 0
        assert verdict_of(report, "PEER-MTU") == "ok"
        assert verdict_of(report, "PEER-PATH-MTU") == "ok"
        assert verdict_of(report, "PEER-CLOCK") == "ok"
        # Another visit is served after the first.
        assert visit([], "127.0.0.1", port, "--transports", "ofi:tcp")[1]["paths"][0]["well"]
    finally:
        end(process)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespaces():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    tag = str(os.getpid() % 10000)
    names = [f"{n}-{tag}" for n in NAMESPACES]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", f"va{tag}", "netns", names[0], "type", "veth", "peer", "name", f"vb{tag}",
           "netns", names[1])
        for name, device, address in zip(names, (f"va{tag}", f"vb{tag}"),
                                         ("10.77.0.1/24", "10.77.0.2/24")):
            ip("-n", name, "addr", "add", address, "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (subprocess.CalledProcessError, FileNotFoundError) as problem:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        pytest.skip(f"no network namespaces: {problem}")
    yield names, (f"va{tag}", f"vb{tag}")
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.parametrize("mine, theirs, same", [(9000, 1500, False), (9000, 9000, True)])
def test_two_hosts_with_their_mtus(namespaces, mine, theirs, same):
    names, devices = namespaces
    prefixes = [["ip", "netns", "exec", name] for name in names]
    ip("-n", names[0], "link", "set", devices[0], "mtu", str(mine))
    ip("-n", names[1], "link", "set", devices[1], "mtu", str(theirs))
    process, port = start_serve(prefixes[1], "10.77.0.2")
    try:
        done, report = visit(prefixes[0], "10.77.0.2", port, "--transports", "ofi:tcp")
        assert report["own"]["netdev_mtu"] == mine and report["other"]["netdev_mtu"] == theirs
        assert path_of(report, "ofi:tcp")["well"]
        assert verdict_of(report, "PEER-MTU") == ("ok" if same else "fail")
        path = next(f for f in report["findings"] if f["id"] == "PEER-PATH-MTU")
        assert path["verdict"] == ("ok" if same else "fail")
        # Interfaces of this kind let the four bytes of a VLAN tag through besides.
        arrived = int(path["value"].split()[0])
        assert min(mine, theirs) <= arrived <= min(mine, theirs) + (0 if same else 4)
        assert done.returncode == (0 if same else 2), report
        if not same:
            mend = next(f for f in report["findings"] if f["id"] == "PEER-MTU")["remedy"]
            assert f"ip link set {devices[1]} mtu 9000" in mend
    finally:
        end(process)


def message(body):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return struct.pack(">I", len(body)) + body


def talk(port, content):
    """Sends, and reads until the other side has had enough; it may hang up in the middle."""
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    except (ConnectionError, OSError) as problem:
        assert not isinstance(problem, TimeoutError), content


HOSTILE = [
    b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", struct.pack(">I", 0xFFFFFFFF), struct.pack(">I", 0),
    struct.pack(">I", 100) + b"{", message(b"[]"), message(b"\xff\xfe"), message(b"{" * 5000),
    message(b'{"a":' * 3000 + b"1" + b"}" * 3000), message({"type": 7}), message({"type": "nothing"}),
    message({"type": "hello"}), message({"type": "hello", "protocol": 99}),
    message({"type": "window"}), message({"type": "revoke"}), message({"type": "close"}),
    message({"type": "open"}), message({"type": "open", "transport": 99}),
    message({"type": "open", "transport": 1, "lane": {"qpn": -1}}),
    message({"type": "open", "transport": 2, "provider": "x" * 5000}),
    message({"type": "open", "transport": 2, "provider": "tcp", "bytes": 1 << 60})
    + message({"type": "window", "write": True, "bytes": 1 << 60}) * 3
    + message({"type": "revoke", "written": 1 << 60}) * 2,
]


def test_only_doctors_count_as_visits():
    process, port = start_serve([], "127.0.0.1", "--visits", "2")
    for content in (b"", b"GET / HTTP/1.1\r\n\r\n", message({"type": "hello", "protocol": 99}),
                    message({"type": "clock"})):
        talk(port, content)
    assert visit([], "127.0.0.1", port, "--transports", "ofi:tcp")[1]["paths"][0]["well"]
    talk(port, b"\0")
    assert process.poll() is None
    assert visit([], "127.0.0.1", port, "--transports", "ofi:tcp")[1]["paths"][0]["well"]
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)


def seconds_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_descriptors_it_waits_and_says_so():
    """Visitors stay in the queue; it neither spins nor ends, and lets them in afterwards."""
    process, port = start_serve([], "127.0.0.1")
    try:
        in_use = len(os.listdir(f"/proc/{process.pid}/fd"))
        usual = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (in_use, usual[1]))
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as waiting:
            before = seconds_of(process.pid)
            time.sleep(3)
            assert seconds_of(process.pid) - before < 0.5
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, usual)
            waiting.settimeout(30)
            waiting.sendall(message({"type": "clock"}))
            assert waiting.recv(4)
        assert visit([], "127.0.0.1", port, "--transports", "ofi:tcp")[1]["paths"][0]["well"]
    finally:
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err.count("doctor.serve.shortage") == 1, err
    assert err.count("doctor.serve.open") == 1, err


def test_hostile_visitors_are_answered_and_survived():
    process, port = start_serve([], "127.0.0.1")
    try:
        for content in HOSTILE:
            talk(port, content)
        chance = random.Random(11)
        for _ in range(20):
            good = bytearray(message({"type": "open", "transport": 2, "provider": "tcp",
                                      "bytes": 1 << 20}) + message({"type": "window", "write": True}))
            for _ in range(chance.randrange(1, 4)):
                good[chance.randrange(len(good))] = chance.randrange(256)
            talk(port, bytes(good))
        # Datagrams are answered only when they begin right, and never with more than was sent.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(1)
            for content in (b"", b"x" * 2000, b"railgate mtu"):
                udp.sendto(content, ("127.0.0.1", int(port)))
            with pytest.raises(TimeoutError):
                udp.recv(100)
            udp.sendto(b"railgate mtu" + b"\0" * 100, ("127.0.0.1", int(port)))
            assert len(udp.recv(1000)) == 16
        assert visit([], "127.0.0.1", port, "--transports", "ofi:tcp")[1]["paths"][0]["well"]
    finally:
        end(process)


FACTS = {"type": "facts", "protocol": 1, "host": "evil\x1b[31m", "version": "x", "kernel": "k",
         "boot_id": "b", "address": "127.0.0.1", "netdev": "lo", "netdev_mtu": 1500, "ports": []}


def serve_script(answers):
    """A peer that gives these bytes, one for every message; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    child = os.fork()
    if child == 0:
        try:
            connection, _ = listener.accept()
            for answer in answers:
                head = connection.recv(4, socket.MSG_WAITALL)
                if len(head) < 4:
                    break
                connection.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL)
                connection.sendall(answer)
            connection.close()
        finally:
            os._exit(0)
    listener.close()
    return child, str(port)


@pytest.mark.parametrize("answers", [
    [b""], [struct.pack(">I", 0xFFFFFF)], [message(b"[]")], [message({"type": "error"})],
    [message({"type": "facts"})], [message({**FACTS, "ports": "x"})],
    [message(FACTS)], [message(FACTS)] + [message({"type": "clock", "us": "late"})] * 8,
    [message({**FACTS, "ports": [{"device": "x" * 9999, "number": -5, "gid": 7}] * 4000})],
    [message(FACTS)] + [message({"type": "clock", "us": 1 << 62})] * 8 + [message({})] * 20,
], ids=range(10))
def test_hostile_hosts_are_survived(answers):
    child, port = serve_script(answers)
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        # Whatever it says, or does not: there is a report of what was learned.
        assert done.returncode == {"ok": 0, "warn": 1, "fail": 2}[report["verdict"]]
        assert report["own"]["host"] and isinstance(report["findings"], list), report
        if report["other"] is None:
            assert report["verdict"] == "fail" and report["error"], report
    finally:
        os.waitpid(child, 0)


def prelude():
    return ([message(FACTS)] + [message({"type": "clock", "us": int(time.time() * 1e6)})] * 8
            + [message({"type": "counters"})])


def proof_of(report):
    return [f for f in report["findings"] if f["id"] == "PEER-PROOF"]


def test_a_host_that_vanishes_leaves_a_report():
    child, port = serve_script(prelude())
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        assert done.returncode == 2 and report["verdict"] == "fail", done.stderr
        assert any("broke off" in f["summary"] for f in proof_of(report)), report
        assert verdict_of(report, "PEER-MTU") == "fail"
        assert path_of(report, "ofi:tcp")["well"] is False
    finally:
        os.waitpid(child, 0)


@pytest.mark.parametrize("answers, knows", [([], False), (prelude()[:1], True), (prelude()[:5], True)],
                         ids=["at once", "before the clock", "within the clock"])
def test_a_host_that_vanishes_before_the_proof(answers, knows):
    child, port = serve_script(answers)
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        assert done.returncode == 2 and report["verdict"] == "fail" and report["error"], done.stderr
        assert any("broke off" in f["summary"] for f in proof_of(report)), report
        assert bool(report["other"]) == knows and report["paths"] == []
        assert verdict_of(report, "PEER-MTU") == ("fail" if knows else None), report
    finally:
        os.waitpid(child, 0)
    child, port = serve_script(answers)
    try:
        text = subprocess.run([forest.BINARY, "doctor", "peer", "127.0.0.1", "--port", port],
                              capture_output=True, text=True, timeout=60)
        assert text.returncode == 2 and "broke off" in text.stdout, (text.stdout, text.stderr)
    finally:
        os.waitpid(child, 0)


def test_a_host_that_lends_nothing_proves_nothing():
    child, port = serve_script(prelude() + [message({"type": "done", "bytes": 0})]
                               + [message({"type": "done", "same": True})] * 9)
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        assert done.returncode == 2 and not path_of(report, "ofi:tcp")["well"]
        assert any("lends no memory" in f["summary"] for f in proof_of(report)), report
    finally:
        os.waitpid(child, 0)


def test_what_was_asked_for_by_name_is_not_passed_over():
    process, port = start_serve([], "127.0.0.1")
    try:
        for words in ("tcp", "ofi:tcp,roce", ","):
            done, report = visit([], "127.0.0.1", port, "--transports", words)
            assert done.returncode == 2 and report is None and "no transport" in done.stderr, words
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp,ofi:cxi")
        assert path_of(report, "ofi:tcp")["well"]
        if not path_of(report, "ofi:cxi")["tried"]:
            assert done.returncode == 2 and verdict_of(report, "PEER-PROOF") == "fail", report
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi")
        assert done.returncode in (0, 1) and path_of(report, "ofi:tcp")["well"], report
    finally:
        end(process)


def test_memory_of_a_gpu_is_moved_only_where_one_is_named():
    process, port = start_serve([], "127.0.0.1")
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        assert verdict_of(report, "PEER-GPU") == "skip" and done.returncode in (0, 1), report
        # What was named is not passed over: no transport here reaches it.
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp", "--gpu", "cuda:0")
        assert verdict_of(report, "PEER-GPU") == "fail" and done.returncode == 2, report
        assert report["own"]["gpu"] == "cuda:0"
        done, report = visit([], "127.0.0.1", port, "--gpu", "rocm:0")
        assert done.returncode == 2 and report is None and "names no GPU" in done.stderr
    finally:
        end(process)
    process, port = start_serve([], "127.0.0.1", "--gpu", "hip:2")
    try:
        done, report = visit([], "127.0.0.1", port, "--transports", "ofi:tcp")
        assert report["other"]["gpu"] == "hip:2" and verdict_of(report, "PEER-GPU") == "fail", report
    finally:
        end(process)
    done = subprocess.run([forest.BINARY, "doctor", "serve", "--listen", "127.0.0.1", "--gpu", "cuda"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "names no GPU" in done.stderr, (done.returncode, done.stderr)


def test_a_silent_visitor_does_not_delay_the_end():
    process, port = start_serve([], "127.0.0.1")
    with socket.create_connection(("127.0.0.1", int(port))):
        time.sleep(0.5)
        start = time.monotonic()
        end(process)
        assert time.monotonic() - start < 10


def test_what_a_host_says_colours_no_terminal():
    answers = (prelude() + [message({"type": "error", "message": "no \x1b[2J"})] * 4
               + [message({"type": "counters"})])
    child, port = serve_script(answers)
    try:
        done = subprocess.run([forest.BINARY, "doctor", "peer", "127.0.0.1", "--port", port, "-v",
                               "--transports", "ofi:tcp"], capture_output=True, text=True, timeout=60)
        assert "\x1b" not in done.stdout + done.stderr
        assert "PEER-MTU" in done.stdout, (done.stdout, done.stderr)
    finally:
        os.waitpid(child, 0)


def test_nobody_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    done, _ = visit([], "127.0.0.1", port)
    assert done.returncode == 2 and "doctor serve" in done.stderr
