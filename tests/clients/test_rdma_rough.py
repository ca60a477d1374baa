"""Rough handling of the RDMA path: tokens that are nearly right, clients that stop or die, a gateway
that is killed. No client may be told of success that is none, and nothing may be left over."""
import os
import random
import signal
import socket
import subprocess
import time

import pytest

import data
import gateway as gateways
import raw
from test_rdma import DC_TOKEN, nothing_left, railgate, samples, total

MIB = 1 << 20
OFI_TOKEN = "7f3a5c400000:1000:ofi1:tcp;ofi_rxm:020000097f0000010000000000000000:1f"
TOKENS = [
    DC_TOKEN,
    DC_TOKEN + ":00007f3a5c500000:0000000000100000",
    "rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00400000:00182ac7",
    "01a2010000" + 20 * "0" + "ffffc0000211" + "c72a1800" + "0000405c3a7f0000" + "0000400000000000" + "010000",
    OFI_TOKEN,
]
HEADERS = ["x-amz-rdma-token", "x-rdma-info", "X-CuObj-RDMA-Descr", "x-amz-meta-rdma-token"]
LETTERS = "0123456789abcdefABCDEF:;,. \trcofi/+=\xe9%\"'"


def spoil(token, chance):
    """One to three changes of a token."""
    text = list(token)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        what = chance.randrange(5)
        if what == 0:
            text[at] = chance.choice(LETTERS)
        elif what == 1:
            del text[at]
        elif what == 2:
            text.insert(at, chance.choice(LETTERS))
        elif what == 3:
            del text[at:]
        else:
            text += chance.choices(LETTERS, k=chance.choice((1, 2, 34, 300)))
        if not text:
            break
    return "".join(text).strip()


@pytest.mark.parametrize("options", [(), ("--rdma", "off"), ("--rdma-decline-put", "200", "--rdma-decline-get", "error")])
def test_tokens_that_are_nearly_right(start, options):
    one = start("--rdma-queue-wait", "0s", "--rdma-budget", "200ms", *options)
    railgate(one, "mb", "s3://rdma")
    data.boto3_client(one).put_object(Bucket="rdma", Key="there", Body=b"bytes")
    chance = random.Random(7)
    connection = raw.connect(one)
    seen = {}
    for i in range(1200):
        name = chance.choice(HEADERS)
        headers = {name: spoil(chance.choice(TOKENS), chance) or "x"}
        if name == "X-CuObj-RDMA-Descr":
            headers["X-CuObj-Content-Length"] = chance.choice(("4096", "0", "-1", "99999999999999999999", "x"))
            headers["X-CuObj-Remote-Buf-Start"] = chance.choice(("0", str(2**64), "7", ""))
        is_put = i % 2 == 0
        try:
            answer = raw.request(one, "PUT" if is_put else "GET", f"/rdma/{'new' if is_put else 'there'}",
                                 headers=headers, connection=connection)
        except (OSError, raw.http.client.HTTPException):
            connection = raw.connect(one)
            answer = raw.request(one, "PUT" if is_put else "GET", f"/rdma/{'new' if is_put else 'there'}",
                                 headers=headers, connection=connection)
        seen[answer.status] = seen.get(answer.status, 0) + 1
        if answer.headers.get("connection", "").lower() == "close":
            connection = raw.connect(one)
        if name == "x-amz-meta-rdma-token" and answer.status == 200 and answer.headers.get("x-amz-rdma-reply") is None:
            # Metadata of that name that is no token at all is metadata.
            if is_put:
                data.boto3_client(one).delete_object(Bucket="rdma", Key="new")
            continue
        if is_put:
            assert answer.headers.get("etag") is None, (headers, answer)
            assert answer.status in (400, 403, 501) or answer.headers.get("x-amz-rdma-reply") == "501", (headers, answer)
            assert not os.path.exists(os.path.join(one.tree, "rdma", "new")), headers
        elif answer.status == 200:
            assert answer.body == b"bytes", (headers, answer)
        else:
            assert answer.status in (400, 403, 501), (headers, answer)
    assert seen.get(400, 0) > 100 and len(seen) > 1, seen
    nothing_left(one)


def fabric_ports(gateway):
    """Where the gateway listens beside its own two ports."""
    own = set()
    for fd in os.listdir(f"/proc/{gateway.process.pid}/fd"):
        try:
            own.add(os.readlink(f"/proc/{gateway.process.pid}/fd/{fd}"))
        except OSError:
            pass
    ports = set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for fields in map(str.split, list(table)[1:]):
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                ports.add(int(fields[1].partition(":")[2], 16))
    return ports - {gateway.port, gateway.admin_port}


def test_nobody_connects_to_the_fabric(start, tmp_path):
    """The gateway connects to clients; that libfabric listens, too, is of no use to anybody."""
    one = start("--rdma-providers", "tcp")
    railgate(one, "mb", "s3://rdma")
    (tmp_path / "source").write_bytes(data.content(3, 3 * MIB))
    railgate(one, *RDMA, tmp_path / "source", "s3://rdma/there")
    ports = fabric_ports(one)
    assert ports
    for port in ports:
        with pytest.raises(TimeoutError):
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
    railgate(one, *RDMA, "s3://rdma/there", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()
    nothing_left(one)


def start_client(gateway, *words):
    environment = gateways.clean_environment(
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_ENDPOINT_URL=gateway.endpoint)
    return subprocess.Popen([gateways.BINARY, *map(str, words)], env=environment, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


RDMA = ("cp", "--path", "rdma", "--transports", "ofi", "--device", "tcp", "--no-resume")


def wait_for_lane(gateway, client, is_leased=True, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and client.poll() is None:
        if (total(gateway, "railgate_rdma_lanes", 'state="leased"') > 0) == is_leased:
            return True
        time.sleep(0.002)
    return False


def stop_in_the_middle(gateway, *ends):
    """A client that stands still with bytes of both directions behind it and before it. One that stood still
    before the first has not connected, and is given up after three seconds."""
    for attempt in range(8):
        client = start_client(gateway, *RDMA, "--part-size", "1G", "--no-retries", "--timeout", "600", *ends)
        if wait_for_lane(gateway, client):
            time.sleep(0.03 * attempt)
            client.send_signal(signal.SIGSTOP)
            time.sleep(4.5)
            if total(gateway, "railgate_rdma_lanes", 'state="leased"'):
                return client
        client.kill()
        client.wait()
    raise AssertionError("no transfer was caught in its middle")


@pytest.mark.parametrize("way", ["PUT", "GET"])
@pytest.mark.parametrize("then", ["dies", "goes on"])
def test_a_client_that_stands_still(start, tmp_path, way, then):
    """Stopped in the middle of a transfer: the gateway gives up within its budget, and says so."""
    one = start("--rdma-budget", "3s", "--rdma-queue-wait", "3s")
    railgate(one, "mb", "s3://rdma")
    data.write_big(tmp_path / "source", 192 * MIB)
    railgate(one, "cp", tmp_path / "source", "s3://rdma/there")
    ends = (tmp_path / "source", "s3://rdma/new") if way == "PUT" else ("s3://rdma/there", tmp_path / "back")
    caught = False
    for _ in range(5):
        client = start_client(one, *RDMA, "--part-size", "1G", "--no-retries", *ends)
        caught = wait_for_lane(one, client)
        if caught:
            client.send_signal(signal.SIGSTOP)
            break
        client.wait()
    assert caught
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and total(one, "railgate_rdma_lanes", 'state="leased"'):
        time.sleep(0.05)
    nothing_left(one)
    client.send_signal(signal.SIGCONT if then == "goes on" else signal.SIGKILL)
    status = client.wait(60)
    if status == 0:
        assert then == "goes on"
        got = one.tree + "/rdma/new" if way == "PUT" else tmp_path / "back"
        assert data.file_sha256(got) == data.file_sha256(tmp_path / "source")
    elif way == "PUT":
        assert not os.path.exists(os.path.join(one.tree, "rdma", "new"))
    (tmp_path / "after").write_bytes(b"still well")
    railgate(one, *RDMA, tmp_path / "after", "s3://rdma/after")
    nothing_left(one)


@pytest.mark.parametrize("way", ["PUT", "GET"])
def test_a_client_that_goes_on_in_time(start, tmp_path, way):
    """Stopped in the middle of a transfer for longer than any connection may take, but not for longer than the
    budget: all bytes arrive, and nothing is tried twice."""
    one = start("--rdma-providers", "tcp", "--rdma-budget", "200s", "--rdma-queue-wait", "10s")
    railgate(one, "mb", "s3://rdma")
    data.write_big(tmp_path / "source", 192 * MIB)
    railgate(one, "cp", "--path", "http", tmp_path / "source", "s3://rdma/there")
    ends = (tmp_path / "source", "s3://rdma/new") if way == "PUT" else ("s3://rdma/there", tmp_path / "back")
    client = stop_in_the_middle(one, *ends)
    before = total(one, "railgate_rdma_bytes_total")
    client.send_signal(signal.SIGCONT)
    assert client.wait(240) == 0, client.stderr.read()
    got = one.tree + "/rdma/new" if way == "PUT" else tmp_path / "back"
    assert data.file_sha256(got) == data.file_sha256(tmp_path / "source")
    assert total(one, "railgate_rdma_bytes_total") == before + 192 * MIB
    nothing_left(one)


def test_a_gateway_that_is_killed(tmp_path):
    """Who was told of success finds the object; who was not finds the old one, the new one or none."""
    tree = tmp_path / "tree"
    source, old = tmp_path / "source", tmp_path / "old"
    data.write_big(source, 24 * MIB + 7, seed="new")
    data.write_big(old, 1 * MIB + 1, seed="old")
    want, before = data.file_sha256(source), data.file_sha256(old)
    chance = random.Random(11)
    told = refused = 0
    for i in range(30):
        one = gateways.Gateway(tree, name="killed").start()
        if i == 0:
            railgate(one, "mb", "s3://rdma")
        for key in range(4):
            railgate(one, *RDMA, old, f"s3://rdma/{key}")
        clients = [start_client(one, *RDMA, "--retries", "1", "--timeout", "5",
                                *(("--part-size", "5M") if key % 2 else ("--part-size", "1G")),
                                source, f"s3://rdma/{key}") for key in range(4)]
        wait_for_lane(one, clients[i % 4])
        time.sleep(chance.uniform(0, 0.3))
        one.kill()
        statuses = [client.wait(120) for client in clients]
        again = gateways.Gateway(tree, name="killed").start()
        for key, status in enumerate(statuses):
            back = tmp_path / "back"
            railgate(again, *RDMA, f"s3://rdma/{key}", back)
            found = data.file_sha256(back)
            assert found in ((want,) if status == 0 else (want, before)), (i, key, status)
            told += status == 0
            refused += status != 0
        railgate(again, *RDMA, source, "s3://rdma/after")
        nothing_left(again)
        assert not any(samples(again, "railgate_rdma_sessions").values())
        again.stop()
        if i >= 5 and refused:
            break
    assert refused, told  # else nothing was interrupted
