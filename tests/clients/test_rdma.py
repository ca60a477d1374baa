"""Object bytes by RDMA, over libfabric's tcp and shm providers: our own client against the gateway.
What is compared is always the file in the tree, the client's copy, and the gateway's own count."""
import concurrent.futures
import os
import subprocess
import time

import pytest

import data
import gateway as gateways
import raw

SLOT = 1 << 20
DC_TOKEN = "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"
# A peer that nothing listens at: 127.0.0.1 port 9 (discard), as libfabric's tcp provider names it.
DEAD_PEER = "7f3a5c400000:1000:ofi1:tcp;ofi_rxm:020000097f0000010000000000000000:1f"


def railgate(gateway, *words, check=True, **how):
    environment = gateways.clean_environment(
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_ENDPOINT_URL=gateway.endpoint)
    done = subprocess.run([gateways.BINARY, *map(str, words)], env=environment, capture_output=True,
                          timeout=300, **how)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return done


def samples(gateway, name):
    """The samples of a metric: {labels: value}."""
    status, text = gateway.admin("/-/metrics")
    assert status == 200
    found = {}
    for line in (text.decode() if isinstance(text, bytes) else text).splitlines():
        if line.startswith(name + "{"):
            labels, value = line[len(name):].rsplit(" ", 1)
            found[labels] = float(value)
    return found


def total(gateway, name, *parts):
    return sum(v for k, v in samples(gateway, name).items() if all(p in k for p in parts))


def nothing_left(gateway):
    """Every lane, slot and session is back."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if (total(gateway, "railgate_rdma_lanes", 'state="leased"') == 0
                and total(gateway, "railgate_rdma_slots", 'state="in-use"') == 0):
            return
        time.sleep(0.05)
    raise AssertionError((samples(gateway, "railgate_rdma_lanes"), samples(gateway, "railgate_rdma_slots")))


@pytest.fixture(scope="module")
def rdma(tmp_path_factory):
    one = gateways.Gateway(tmp_path_factory.mktemp("tree"), name="rdma").start()
    railgate(one, "mb", "s3://rdma")
    yield one
    nothing_left(one)
    one.stop()


@pytest.mark.parametrize("provider", ["tcp", "shm"])
@pytest.mark.parametrize("size", [1, 4095, 4096, SLOT - 1, SLOT, SLOT + 1, 4 * SLOT, 4 * SLOT + 17, 20 * SLOT + 3])
def test_sizes(rdma, tmp_path, provider, size):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data.content(size, size))
    key = f"sizes/{provider}-{size}"
    moved = total(rdma, "railgate_rdma_bytes_total", f'path="ofi:{provider}"')
    words = ("cp", "--path", "rdma", "--transports", "ofi", "--device", provider, "-v")
    up = railgate(rdma, *words, source, f"s3://rdma/{key}")
    assert f"rdma:ofi:{provider}" in (up.stdout + up.stderr).decode()
    with open(os.path.join(rdma.tree, "rdma", key), "rb") as file:
        assert data.md5(file.read()) == data.md5(source.read_bytes())
    down = railgate(rdma, *words, f"s3://rdma/{key}", back)
    assert f"rdma:ofi:{provider}" in (down.stdout + down.stderr).decode()
    assert back.read_bytes() == source.read_bytes()
    assert total(rdma, "railgate_rdma_bytes_total", f'path="ofi:{provider}"') - moved == 2 * size


def test_empty_object_goes_by_http(rdma, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    railgate(rdma, "cp", tmp_path / "empty", "s3://rdma/empty")
    railgate(rdma, "cp", "s3://rdma/empty", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b""


def test_multipart_by_rdma(rdma, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data.content("multipart", 37 * SLOT + 5))
    before = total(rdma, "railgate_rdma_bytes_total", 'operation="UploadPart"')
    railgate(rdma, "cp", "--path", "rdma", "--part-size", "8M", "--parallel", "3", source, "s3://rdma/multipart")
    assert total(rdma, "railgate_rdma_bytes_total", 'operation="UploadPart"') - before == source.stat().st_size
    railgate(rdma, "cp", "--path", "rdma", "--part-size", "8M", "s3://rdma/multipart", back)
    assert back.read_bytes() == source.read_bytes()
    etag = data.boto3_client(rdma).head_object(Bucket="rdma", Key="multipart")["ETag"]
    assert etag.endswith('-5"')


def test_what_rdma_wrote_http_reads_and_the_other_way(rdma, tmp_path):
    s3 = data.boto3_client(rdma)
    body = data.content("mixed", 3 * SLOT + 11)
    (tmp_path / "source").write_bytes(body)
    railgate(rdma, "cp", "--path", "rdma", tmp_path / "source", "s3://rdma/by-rdma")
    answer = s3.get_object(Bucket="rdma", Key="by-rdma")
    assert answer["Body"].read() == body
    assert answer["ETag"] == f'"{data.md5(body)}"'
    s3.put_object(Bucket="rdma", Key="by-http", Body=body)
    railgate(rdma, "cp", "--path", "rdma", "s3://rdma/by-http", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body


def forget(path):
    """Out of the page cache; false where that does nothing."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def knows_direct(gateway):
    return any("O_DIRECT" in line["message"].partition("off:")[0] for line in gateway.events("store.open"))


def test_around_the_page_cache(start, tmp_path):
    """rdma-direct on: whole pages of everything, both ways; the tails and HTTP's readers see the same."""
    one = start("--rdma-direct", "on", "--rdma-direct-min", "1")
    if not knows_direct(one):
        pytest.skip("no O_DIRECT here")
    s3 = data.boto3_client(one)
    s3.create_bucket(Bucket="rdma")
    words = ("cp", "--path", "rdma", "--transports", "ofi", "--device", "shm")
    for size in (1, 4095, 4096, 4097, SLOT + 512, 4 * SLOT + 17, 9 * SLOT):
        body = data.content(f"direct/{size}", size)
        (tmp_path / "source").write_bytes(body)
        before = total(one, "railgate_rdma_direct_bytes_total", 'operation="PutObject"')
        railgate(one, *words, tmp_path / "source", f"s3://rdma/{size}")
        moved = total(one, "railgate_rdma_direct_bytes_total", 'operation="PutObject"') - before
        assert moved == size // 4096 * 4096
        answer = s3.get_object(Bucket="rdma", Key=str(size))
        assert answer["Body"].read() == body and answer["ETag"] == f'"{data.md5(body)}"'
        before = total(one, "railgate_rdma_direct_bytes_total", 'operation="GetObject"')
        railgate(one, *words, f"s3://rdma/{size}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == body
        assert total(one, "railgate_rdma_direct_bytes_total", 'operation="GetObject"') - before == size
    body = data.content("direct parts", 17 * SLOT + 33)
    (tmp_path / "source").write_bytes(body)
    railgate(one, *words, "--part-size", "5M", tmp_path / "source", "s3://rdma/parts")
    assert s3.get_object(Bucket="rdma", Key="parts")["Body"].read() == body
    assert total(one, "railgate_rdma_direct_bytes_total", 'operation="UploadPart"') == len(body) // 4096 * 4096
    # Ranges that begin and end nowhere in particular.
    railgate(one, *words, "--part-size", "5242883", "s3://rdma/parts", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body
    # A file that another program writes, in dirty pages, and then cuts.
    with open(os.path.join(one.tree, "rdma", "parts"), "r+b") as file:
        file.write(b"another")
        file.flush()
        railgate(one, *words, "s3://rdma/parts", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b"another" + body[7:]
    nothing_left(one)


@pytest.mark.parametrize("options, cold, hot, put", [
    ((), True, False, False),
    (("--rdma-direct", "off"), False, False, False),
    (("--rdma-direct-min", "5M"), False, False, False),
    (("--mask", "direct-io", "--rdma-direct", "on"), False, False, False),
    (("--rdma-direct", "on"), True, True, True),
])
def test_when_the_page_cache_is_left_aside(start, tmp_path, options, cold, hot, put):
    one = start("--rdma-direct-min", "4M", *options)
    if not knows_direct(one) and "--mask" not in options:
        pytest.skip("no O_DIRECT here")
    railgate(one, "mb", "s3://rdma")
    words = ("cp", "--path", "rdma", "--transports", "ofi", "--device", "shm")
    size = 4 * SLOT
    (tmp_path / "source").write_bytes(data.content("cold", size))

    def direct(*end):
        before = total(one, "railgate_rdma_direct_bytes_total")
        railgate(one, *words, *end)
        return total(one, "railgate_rdma_direct_bytes_total") - before

    assert direct(tmp_path / "source", "s3://rdma/key") == (size if put else 0)
    forget(os.path.join(one.tree, "rdma", "key"))
    assert direct("s3://rdma/key", tmp_path / "back") == (size if cold else 0)
    with open(os.path.join(one.tree, "rdma", "key"), "rb") as file:
        file.read()
    assert direct("s3://rdma/key", tmp_path / "back") == (size if hot else 0)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()


def test_many_at_once(rdma, tmp_path):
    """More transfers than there are cores or comfort; each ends, rightly, by whichever path."""
    body = data.content("many", 2 * SLOT + 1)
    (tmp_path / "source").write_bytes(body)

    def one(i):
        railgate(rdma, "cp", tmp_path / "source", f"s3://rdma/many/{i}")
        railgate(rdma, "cp", f"s3://rdma/many/{i}", tmp_path / f"back-{i}")
        assert (tmp_path / f"back-{i}").read_bytes() == body

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        list(pool.map(one, range(24)))
    nothing_left(rdma)


def test_a_client_that_dies_leaves_nothing(rdma, tmp_path):
    source = tmp_path / "source"
    with open(source, "wb") as file:
        file.truncate(256 * SLOT)
    environment = gateways.clean_environment(
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_ENDPOINT_URL=rdma.endpoint)
    for wait in (0.15, 0.3, 0.6):
        client = subprocess.Popen([gateways.BINARY, "cp", "--path", "rdma", "--part-size", "1G", source,
                                   "s3://rdma/dies"], env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        time.sleep(wait)
        client.kill()
        client.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and total(rdma, "railgate_rdma_lanes", 'state="leased"'):
        time.sleep(0.1)
    nothing_left(rdma)
    path = os.path.join(rdma.tree, "rdma", "dies")
    assert not os.path.exists(path) or os.path.getsize(path) == 256 * SLOT
    (tmp_path / "after").write_bytes(b"still well")
    railgate(rdma, "cp", "--path", "rdma", tmp_path / "after", "s3://rdma/after")


def put_with_token(gateway, key, token, **fields):
    return raw.request(gateway, "PUT", f"/rdma/{key}", headers={"x-amz-rdma-token": token, **fields})


@pytest.mark.parametrize("options, reason", [
    (("--rdma", "off"), "rdma-off"),
    (("--rdma-transports", "ofi", "--rdma-providers", "shm"), "no-transport"),
    (("--rdma-size-min", "64M"), "below-minimum"),
])
def test_declines(start, tmp_path, options, reason):
    """Declined is declined: nothing stored by RDMA-only, and by HTTP when that is allowed."""
    one = start(*options)
    railgate(one, "mb", "s3://rdma")
    (tmp_path / "source").write_bytes(data.content("decline", 100_000))
    words = ("--transports", "ofi", "--device", "tcp", tmp_path / "source", "s3://rdma/key")
    refused = railgate(one, "cp", "--path", "rdma", *words, check=False)
    assert refused.returncode == 1
    assert not os.path.exists(os.path.join(one.tree, "rdma", "key"))
    assert total(one, "railgate_rdma_declines_total", f'reason="{reason}"') > 0
    railgate(one, "cp", *words)
    railgate(one, "cp", "--device", "tcp", "s3://rdma/key", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_dead_peer_is_declined_and_nothing_stored(rdma):
    answer = put_with_token(rdma, "dead", DEAD_PEER)
    assert answer.status in (500, 501), answer
    assert not os.path.exists(os.path.join(rdma.tree, "rdma", "dead"))
    nothing_left(rdma)


@pytest.mark.parametrize("address, reason", [
    ("0200000900000000" + 8 * "00", "unreachable"),         # 0.0.0.0 port 9
    ("020000007f000001" + 8 * "00", "unreachable"),         # port 0
    ("02000009e0000001" + 8 * "00", "unreachable"),         # multicast
    ("0a00000900000000" + 15 * "00" + "01" + 4 * "00", "no-transport"),  # ::1, on an IPv4 rail
    ("0a00000900000000" + 20 * "00", "no-transport"),       # ::
])
def test_addresses_of_no_use_are_declined(rdma, address, reason):
    answer = put_with_token(rdma, "nobody", f"7f3a5c400000:1000:ofi1:tcp;ofi_rxm:{address}:1f")
    assert answer.status == 501, answer
    assert answer.headers.get("x-amz-rdma-reply") == "501"
    assert answer.headers.get("x-railgate-path") == f"declined:{reason}"
    assert not os.path.exists(os.path.join(rdma.tree, "rdma", "nobody"))
    nothing_left(rdma)


def test_both_styles_of_declining(start):
    strict = start("--rdma-decline-get", "error", "--rdma-decline-put", "200")
    railgate(strict, "mb", "s3://rdma")
    data.boto3_client(strict).put_object(Bucket="rdma", Key="there", Body=b"bytes")
    answer = put_with_token(strict, "declined", DC_TOKEN)
    assert answer.status == 200
    assert answer.headers.get("x-amz-rdma-reply") == "501"
    assert answer.headers.get("etag") is None
    assert not os.path.exists(os.path.join(strict.tree, "rdma", "declined"))
    answer = raw.request(strict, "GET", "/rdma/there", headers={"x-amz-rdma-token": DC_TOKEN})
    assert answer.status == 501
    assert answer.headers.get("x-amz-rdma-reply") == "501"
    assert b"<Code>RDMANotSupported</Code>" in answer.body


@pytest.mark.parametrize("options, named", [
    (("--rdma", "on", "--rdma-transports", "rc", "--rdma-devices", "nosuch0"), "rdma"),
    (("--rdma-transports", "ofi,tcp"), "rdma-transports"),
    (("--rdma-transports", "OFI"), "rdma-transports"),
    (("--rdma-slot-size", "100000"), "rdma-slot-size"),
    (("--rdma-gid-index", "first"), "rdma-gid-index"),
    (("--rdma-traffic-class", "256"), "rdma-traffic-class"),
    (("--rdma-dc-key-file", "/nonexistent"), "rdma-dc-key-file"),
    (("--rdma-devices", "a,,b", "--rdma-transports", "rc"), "rdma-devices"),
])
def test_bad_settings_stop_the_start(tmp_path, options, named):
    environment = gateways.clean_environment(RAILGATE_ROOT_ACCESS_KEY=gateways.ACCESS_KEY,
                                             RAILGATE_ROOT_SECRET_KEY=gateways.SECRET_KEY)
    done = subprocess.run([gateways.BINARY, "serve", "--port", "0", "--admin-port", "0", "--address",
                           "127.0.0.1", *options, "posix", str(tmp_path)], env=environment,
                          capture_output=True, timeout=60)
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("railgate:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1 and named in lines[0]
