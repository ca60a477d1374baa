"""The server as its operator sees it: health, metrics, logs, limits, TLS, starting and stopping."""
import datetime
import http.client
import os
import re
import signal
import socket
import subprocess
import threading
import time

import data
import pytest
import raw


def slow_put(gateway, path, size=100000):
    """A PUT whose head and first half are sent; returns a function that sends the rest."""
    headers = {"content-length": str(size)}
    raw.sign("PUT", gateway.host, path, [], headers, raw.UNSIGNED)
    connection = raw.connect(gateway)
    connection.putrequest("PUT", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"x" * (size // 2))

    def finish():
        connection.send(b"x" * (size - size // 2))
        answer = raw.Answer(connection.getresponse(), False)
        connection.close()
        return answer

    return finish


def bodies_begun(gateway):
    """How many objects the gateway is writing: it holds a file without a name, or with one of its own."""
    count = 0
    with os.scandir(f"/proc/{gateway.process.pid}/fd") as descriptors:
        for descriptor in descriptors:
            try:
                target = os.readlink(descriptor.path)
            except FileNotFoundError:  # closed meanwhile
                continue
            if target.startswith(gateway.tree):
                count += target.endswith(" (deleted)") or "/.railgate-tmp-" in target
    return count


def wait_for_bodies(gateway, count, seconds=30):
    """Returns when that many slow PUTs are past everything that may refuse them."""
    deadline = time.monotonic() + seconds
    while bodies_begun(gateway) < count:
        assert time.monotonic() < deadline, f"{bodies_begun(gateway)} bodies instead of {count}"
        time.sleep(0.02)


# ---- Health and metrics ----

def test_health(gateway):
    assert gateway.admin("/-/live")[0] == 200
    assert gateway.admin("/-/ready")[0] == 200
    assert gateway.admin("/-/nonsense")[0] == 404
    assert gateway.admin("/")[0] == 404
    # Not on the S3 listener, and no S3 on the admin listener.
    assert raw.send(gateway, "GET", "/-/metrics", {"host": gateway.host}).status in (400, 403, 404)


SAMPLE = re.compile(r'([a-z_]+)(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? (\+Inf|[0-9.e+-]+)')


def test_metrics_are_well_formed(gateway, bucket):
    raw.request(gateway, "PUT", f"/{bucket}/k", body=b"x")
    raw.request(gateway, "GET", f"/{bucket}/nothing")
    status, text = gateway.admin("/-/metrics")
    assert status == 200
    kinds, helps, samples = {}, set(), []
    for line in text.decode().splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in kinds
            kinds[name] = kind
        elif line.startswith("# HELP "):
            helps.add(line.split()[2])
        elif line:
            match = SAMPLE.fullmatch(line)
            assert match, line
            samples.append(match[1])
    for name in samples:
        base = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
        assert base in kinds and base in helps, name
        assert base.startswith(("railgate_", "process_"))
    assert samples


def test_access_log(start, tmp_path):
    log = tmp_path / "access.log"
    gateway = start("--access-log", log)
    raw.request(gateway, "PUT", "/logged")
    raw.request(gateway, "PUT", "/logged/a b\"ü", body=b"12345")
    raw.request(gateway, "GET", "/logged/nothing")
    raw.send(gateway, "GET", "/logged/x", {"host": gateway.host})
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and len(log.read_text().splitlines()) < 4:
        time.sleep(0.05)
    lines = log.read_text().splitlines()
    assert len(lines) == 4, lines
    # The line follows the answer: answers to several connections may be logged in any order.
    (put,) = (line for line in lines if " REST.PUT.OBJECT " in line)
    (anonymous,) = (line for line in lines if " 403 " in line)
    (miss,) = (line for line in lines if " REST.GET.OBJECT nothing " in line)
    # owner bucket [time] ip requester id operation key "request" status error sent size ...
    match = re.match(r'(\S+) logged \[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000)\] 127\.0\.0\.1 (\S+) (\S+) '
                     r'REST\.PUT\.OBJECT (\S+) "PUT (\S+) HTTP/1\.1" 200 - \S+ 5 ', put)
    assert match, put
    assert '"' not in match[5] and " " not in match[5]
    datetime.datetime.strptime(match[2], "%d/%b/%Y:%H:%M:%S +0000")
    assert " 404 NoSuchKey " in miss
    assert " 403 AccessDenied " in anonymous
    # Renamed away and SIGHUP: a new file is begun.
    os.rename(log, tmp_path / "old")
    gateway.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    raw.request(gateway, "HEAD", "/logged")
    deadline = time.monotonic() + 10
    while "REST.HEAD.BUCKET" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "REST.HEAD.BUCKET" in log.read_text()
    assert len((tmp_path / "old").read_text().splitlines()) == 4


def test_secrets_are_not_logged(start, tmp_path):
    gateway = start("--log-level", "debug", "--access-log", tmp_path / "access.log")
    raw.request(gateway, "PUT", "/secretive")
    raw.send(gateway, "GET", raw.presign(gateway, "GET", "/secretive/k"), {"host": gateway.host})
    gateway.stop()
    assert raw.SECRET_KEY not in gateway.log()
    assert raw.SECRET_KEY not in (tmp_path / "access.log").read_text()


def test_human_log(start):
    gateway = start("--log-level", "debug")
    assert gateway.events("gateway.ready")
    assert len(gateway.log_lines()) == len(gateway.log().splitlines()), "a line that is not JSON"


# ---- Limits ----

def test_too_many_requests(start):
    gateway = start("--requests-max", 2)
    raw.request(gateway, "PUT", "/busy")
    finishers = [slow_put(gateway, f"/busy/{i}") for i in range(2)]
    wait_for_bodies(gateway, 2)  # a GET that came between would have the place of one
    answer = raw.request(gateway, "GET", "/busy")
    assert (answer.status, answer.code) == (503, "SlowDown")
    assert gateway.admin("/-/ready")[0] == 200
    assert [finish().status for finish in finishers] == [200, 200]
    assert raw.request(gateway, "GET", "/busy").status == 200


def test_one_bucket_leaves_places_for_others(start):
    """Slow clients of one bucket, or a mount in it that hangs, do not take every place."""
    gateway = start("--requests-max", 8)
    raw.request(gateway, "PUT", "/one")
    raw.request(gateway, "PUT", "/two")
    finishers = [slow_put(gateway, f"/one/{i}") for i in range(6)]
    wait_for_bodies(gateway, 6)
    answer = raw.request(gateway, "GET", "/one")
    assert (answer.status, answer.code) == (503, "SlowDown"), answer
    assert raw.request(gateway, "PUT", "/two/k", body=b"x").status == 200
    assert raw.request(gateway, "GET", "/two/k").body == b"x"
    assert [finish().status for finish in finishers] == [200] * 6
    assert raw.request(gateway, "GET", "/one").status == 200


def test_too_many_connections(start):
    gateway = start("--connections-max", 8)
    raw.request(gateway, "PUT", "/busy")
    kept = [socket.create_connection(("127.0.0.1", gateway.port), 5) for _ in range(8)]
    time.sleep(0.3)
    answer = raw.request(gateway, "PUT", "/busy/k", body=b"x" * 1000)
    assert (answer.status, answer.code) == (503, "SlowDown"), answer
    assert answer.headers["connection"].lower() == "close"
    assert gateway.metric("railgate_connections_refused_total") >= 1
    for one in kept:
        one.close()
    held = []
    for _ in range(40):
        try:
            held.append(socket.create_connection(("127.0.0.1", gateway.port), 5))
        except OSError:
            break
    closed = 0
    for one in held:
        one.settimeout(0.2)
        try:
            closed += one.recv(1) == b""
        except (socket.timeout, ConnectionResetError) as problem:
            closed += isinstance(problem, ConnectionResetError)
    assert closed >= 40 - 8 - 16 - 2, closed
    for one in held:
        one.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if raw.request(gateway, "GET", "/busy").status == 200:
                return
        except (http.client.HTTPException, OSError):
            time.sleep(0.05)
    raise AssertionError("no connection is accepted after the others left")


def test_slow_clients(start):
    gateway = start("--idle-timeout", "1s")
    raw.request(gateway, "PUT", "/slow")
    began = time.monotonic()
    assert raw.talk(gateway, b"", timeout=15) == b""                       # says nothing
    raw.talk(gateway, b"GET / HTTP/1.1\r\nHost:", timeout=15)              # stops in the head
    finish = slow_put(gateway, "/slow/k")                                   # stops in the body
    time.sleep(3)
    with pytest.raises((OSError, http.client.HTTPException, AssertionError)):
        answer = finish()
        assert answer.status == 200
    assert time.monotonic() - began < 25
    assert raw.request(gateway, "GET", "/slow/k").status == 404


def test_large_header_section(gateway, bucket):
    answer = raw.talk(gateway, f"GET /{bucket} HTTP/1.1\r\nHost: x\r\n".encode() + b"X-A: " + b"b" * 300000 + b"\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]


def test_body_larger_than_allowed(start):
    gateway = start("--put-size-max", "1M")
    raw.request(gateway, "PUT", "/limited")
    answer = raw.request(gateway, "PUT", "/limited/k", body=b"x" * ((1 << 20) + 1))
    assert (answer.status, answer.code) == (400, "EntityTooLarge")
    assert raw.request(gateway, "PUT", "/limited/k", body=b"x" * (1 << 20)).status == 200
    big = b"<Delete>" + b" " * (5 << 20) + b"</Delete>"
    answer = raw.request(gateway, "POST", "/limited", query={"delete": ""}, body=big)
    assert answer.status == 400 and answer.code in ("MalformedXML", "MaxMessageLengthExceeded", "EntityTooLarge")


# ---- TLS ----

def make_certificate(directory, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-keyout", directory / "key.pem", "-out", directory / "cert.pem"],
                   check=True, capture_output=True)


def subject(gateway):
    done = subprocess.run(["openssl", "s_client", "-connect", gateway.host], input=b"", capture_output=True)
    return done.stdout.decode(errors="replace")


def test_tls_and_reload(start, tmp_path):
    make_certificate(tmp_path, "first.test")
    gateway = start("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem", scheme="https")
    assert raw.request(gateway, "PUT", "/secure").status == 200
    body = data.content("tls", 3 << 20)
    assert raw.request(gateway, "PUT", "/secure/k", body=body).status == 200
    assert raw.request(gateway, "GET", "/secure/k").body == body
    assert raw.request(gateway, "GET", "/secure/k", headers={"range": "bytes=5-9"}).body == body[5:10]
    assert "first.test" in subject(gateway)
    kept = raw.connect(gateway)
    assert raw.request(gateway, "HEAD", "/secure/k", connection=kept).status == 200
    make_certificate(tmp_path, "second.test")
    gateway.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while "second.test" not in subject(gateway) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "second.test" in subject(gateway)
    assert raw.request(gateway, "HEAD", "/secure/k", connection=kept).status == 200
    # A broken pair is not taken.
    (tmp_path / "cert.pem").write_text("nonsense")
    gateway.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert "second.test" in subject(gateway)
    assert raw.request(gateway, "GET", "/secure/k").status == 200
    # Plain HTTP on the TLS port is not served.
    assert b"200 OK" not in raw.talk(gateway, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", timeout=3)


# ---- Stopping ----

def test_stop_drains(start):
    gateway = start()
    raw.request(gateway, "PUT", "/draining")
    finish = slow_put(gateway, "/draining/k")
    wait_for_bodies(gateway, 1)
    gateway.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", gateway.port), 1).close()
            time.sleep(0.05)
        except ConnectionResetError:  # in the backlog when the socket was closed
            continue
        except ConnectionRefusedError:
            break
    else:
        raise AssertionError("still accepting after SIGTERM")
    assert gateway.process.poll() is None
    answer = finish()
    assert answer.status == 200, answer
    gateway.stop()
    with open(os.path.join(gateway.tree, "draining/k"), "rb") as file:
        assert file.read() == b"x" * 100000


def test_stop_does_not_wait_for_ever(start):
    gateway = start("--drain-timeout", "1s")
    raw.request(gateway, "PUT", "/draining")
    finish = slow_put(gateway, "/draining/k")
    wait_for_bodies(gateway, 1)
    began = time.monotonic()
    gateway.stop(timeout=20)
    assert time.monotonic() - began < 15
    assert not os.path.exists(os.path.join(gateway.tree, "draining/k"))
    with pytest.raises((OSError, http.client.HTTPException)):
        finish()


def test_stop_by_interrupt_with_idle_connections(start):
    gateway = start()
    idle = raw.connect(gateway)
    raw.request(gateway, "PUT", "/idle", connection=idle)
    gateway.stop(sent=signal.SIGINT, timeout=20)
    idle.close()


def test_state_survives_a_restart(start, tmp_path):
    gateway = start(tree=tmp_path / "tree")
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket="kept")
    put = s3.put_object(Bucket="kept", Key="a/b", Body=b"body", Metadata={"m": "1"}, Tagging="t=1")
    upload = s3.create_multipart_upload(Bucket="kept", Key="m")["UploadId"]
    part = s3.upload_part(Bucket="kept", Key="m", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    token = None
    for i in range(4):
        s3.put_object(Bucket="kept", Key=f"l/{i}", Body=b"")
    token = s3.list_objects_v2(Bucket="kept", MaxKeys=2, Prefix="l/")["NextContinuationToken"]
    gateway.stop()
    gateway = start(tree=tmp_path / "tree")
    s3 = data.boto3_client(gateway)
    got = s3.get_object(Bucket="kept", Key="a/b")
    assert got["Body"].read() == b"body" and got["ETag"] == put["ETag"] and got["Metadata"] == {"m": "1"}
    assert s3.get_object_tagging(Bucket="kept", Key="a/b")["TagSet"] == [{"Key": "t", "Value": "1"}]
    s3.complete_multipart_upload(Bucket="kept", Key="m", UploadId=upload,
                                 MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert s3.get_object(Bucket="kept", Key="m")["Body"].read() == b"part"
    rest = s3.list_objects_v2(Bucket="kept", Prefix="l/", ContinuationToken=token)["Contents"]
    assert [item["Key"] for item in rest] == ["l/2", "l/3"]


def test_killed_while_writing(start, tmp_path):
    """SIGKILL in the middle of PUTs: what was acknowledged is there, nothing half-written is."""
    gateway = start(tree=tmp_path / "tree")
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket="killed")
    acknowledged, stop = [], threading.Event()

    def write(thread):
        number = 0
        while not stop.is_set():
            key = f"{thread}/{number}"
            try:
                s3.put_object(Bucket="killed", Key=key, Body=data.content(key, 50000), Metadata={"k": key})
                acknowledged.append(key)
            except Exception:
                return
            number += 1

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 20:
        time.sleep(0.01)
    gateway.kill()
    stop.set()
    for thread in threads:
        thread.join()
    gateway = start(tree=tmp_path / "tree")
    s3 = data.boto3_client(gateway)
    found = data.all_objects(s3, "killed")
    assert set(acknowledged) <= set(found)
    for key, body in found.items():
        assert body == data.content(key, 50000)
        assert s3.head_object(Bucket="killed", Key=key)["Metadata"] == {"k": key}


def test_a_second_gateway_on_the_same_tree(start, tmp_path):
    one, two = start(tree=tmp_path / "tree"), start(tree=tmp_path / "tree")
    first, second = data.boto3_client(one), data.boto3_client(two)
    first.create_bucket(Bucket="shared")
    first.put_object(Bucket="shared", Key="a/b", Body=b"1")
    assert second.get_object(Bucket="shared", Key="a/b")["Body"].read() == b"1"
    for i in range(20):
        first.put_object(Bucket="shared", Key=f"d/{i:02}", Body=b"")
        listed = second.list_objects_v2(Bucket="shared", Prefix="d/")["Contents"]
        assert [item["Key"] for item in listed] == [f"d/{j:02}" for j in range(i + 1)]
    upload = first.create_multipart_upload(Bucket="shared", Key="m")["UploadId"]
    etag = second.upload_part(Bucket="shared", Key="m", UploadId=upload, PartNumber=1, Body=b"p")["ETag"]
    first.complete_multipart_upload(Bucket="shared", Key="m", UploadId=upload,
                                    MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    page = first.list_objects_v2(Bucket="shared", MaxKeys=3)
    rest = second.list_objects_v2(Bucket="shared", ContinuationToken=page["NextContinuationToken"])
    assert len(page["Contents"]) + len(rest["Contents"]) == 22

    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(16) as pool:
        for turn in range(6):
            answers = list(pool.map(lambda i: raw.request(
                (one, two)[i % 2], "PUT", f"/shared/once{turn}", headers={"if-none-match": "*"},
                body=str(i).encode()), range(16)))
            winners = [i for i, answer in enumerate(answers) if answer.status == 200]
            assert len(winners) == 1, [answer.status for answer in answers]
            etag = answers[winners[0]].headers["etag"]
            answers = list(pool.map(lambda i: raw.request(
                (one, two)[i % 2], "PUT", f"/shared/once{turn}", headers={"if-match": etag},
                body=f"again {i}".encode()), range(16)))
            assert [answer.status for answer in answers].count(200) == 1
