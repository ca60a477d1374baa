"""Files stay files: what is on disk, what other programs put there, and file systems with holes in
what they can do."""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import data
import gateway as gateways
import pytest
import raw


def on_disk(gateway, bucket, key=""):
    return os.path.join(gateway.tree, bucket, key)


def open_files(gateway):
    """Files in its tree that it has open, by inode."""
    place = f"/proc/{gateway.process.pid}"
    for number in os.listdir(f"{place}/fd"):
        with contextlib.suppress(FileNotFoundError):
            name, found = os.readlink(f"{place}/fd/{number}"), os.stat(f"{place}/fd/{number}")
            if name.startswith(f"{gateway.tree}/") and stat.S_ISREG(found.st_mode):
                yield found.st_ino


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.store
def test_objects_are_normal_files(gateway, s3, bucket):
    body = data.content("file", 70000)
    s3.put_object(Bucket=bucket, Key="dir/file.bin", Body=body, Metadata={"a": "1"})
    path = on_disk(gateway, bucket, "dir/file.bin")
    with open(path, "rb") as file:
        assert file.read() == body
    status = os.stat(path)
    assert status.st_nlink == 1 and status.st_mode & 0o7777 == 0o640
    assert os.stat(os.path.dirname(path)).st_mode & 0o7777 == 0o750
    assert "user.railgate" in os.listxattr(path)
    s3.delete_object(Bucket=bucket, Key="dir/file.bin")
    assert os.listdir(on_disk(gateway, bucket)) == [] or all(
        name.startswith(".") for name in os.listdir(on_disk(gateway, bucket)))


@pytest.mark.store
def test_foreign_files_are_objects(gateway, s3, bucket):
    os.makedirs(on_disk(gateway, bucket, "made/outside"))
    path = on_disk(gateway, bucket, "made/outside/file.txt")
    with open(path, "wb") as out:
        out.write(b"from outside")
    head = s3.head_object(Bucket=bucket, Key="made/outside/file.txt")
    again = s3.head_object(Bucket=bucket, Key="made/outside/file.txt")
    assert head["ContentLength"] == 12 and head["ETag"] == again["ETag"] and len(head["ETag"]) > 2
    assert s3.get_object(Bucket=bucket, Key="made/outside/file.txt")["Body"].read() == b"from outside"
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [(item["Key"], item["Size"], item["ETag"]) for item in listed] == [
        ("made/outside/file.txt", 12, head["ETag"])]
    answer = raw.request(gateway, "PUT", f"/{bucket}/made/outside/file.txt", headers={"if-match": head["ETag"]}, body=b"v2")
    assert answer.status == 200, answer
    # Changed from outside under an S3 object: the recorded ETag no longer holds.
    with open(path, "ab") as out:
        out.write(b" and more")
    head = s3.head_object(Bucket=bucket, Key="made/outside/file.txt")
    assert head["ETag"] != answer.headers["etag"] and head["ContentLength"] == 11
    assert s3.get_object(Bucket=bucket, Key="made/outside/file.txt")["Body"].read() == b"v2 and more"
    os.unlink(path)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    # A directory made outside is a bucket.
    name = data.new_bucket_name("outside")
    os.mkdir(on_disk(gateway, name))
    assert name in [item["Name"] for item in s3.list_buckets()["Buckets"]]
    s3.put_object(Bucket=name, Key="k", Body=b"x")


def test_links_and_special_files(gateway, s3, bucket, tmp_path):
    (tmp_path / "secret").write_text("outside the tree")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("outside the tree")
    s3.put_object(Bucket=bucket, Key="real", Body=b"x")
    os.symlink(tmp_path / "secret", on_disk(gateway, bucket, "absolute"))
    os.symlink("../../../" + str(tmp_path / "secret"), on_disk(gateway, bucket, "relative"))
    os.symlink(tmp_path / "outside", on_disk(gateway, bucket, "directory"))
    os.symlink("/", on_disk(gateway, bucket, "top"))
    os.symlink("loop", on_disk(gateway, bucket, "loop"))
    os.mkfifo(on_disk(gateway, bucket, "fifo"))
    with socket.socket(socket.AF_UNIX) as one:
        before = os.getcwd()
        os.chdir(on_disk(gateway, bucket))  # the path must be short
        one.bind("socket")
        os.chdir(before)
    for key in ("absolute", "relative", "directory/file", "top/etc/passwd", "loop", "fifo", "socket", "directory/"):
        for method in ("GET", "HEAD"):
            answer = raw.request(gateway, method, f"/{bucket}/{key}")
            assert answer.status in (403, 404), (key, answer)
        answer = raw.request(gateway, "PUT", f"/{bucket}/new", headers={"x-amz-copy-source": f"/{bucket}/{key}"})
        assert answer.status in (403, 404), (key, answer)
    for key in ("directory/new", "top/tmp/new"):
        assert raw.request(gateway, "PUT", f"/{bucket}/{key}", body=b"x").status in (400, 403, 404, 409)
    assert not (tmp_path / "outside" / "new").exists()
    assert raw.request(gateway, "DELETE", f"/{bucket}/directory/file").status in (204, 403, 409)
    assert (tmp_path / "outside" / "file").exists()
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["real"]


def test_hidden_names_are_not_reachable(gateway, s3, bucket):
    """Whatever the store keeps beside the objects cannot be named by a request, nor listed."""
    s3.create_multipart_upload(Bucket=bucket, Key="m")
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "v" * 2000}, Tagging="&".join(
        f"{i}{'k' * 100}={'v' * 250}" for i in range(10)))
    own = [os.path.relpath(os.path.join(directory, name), on_disk(gateway, bucket))
           for directory, _, names in os.walk(on_disk(gateway, bucket)) for name in names]
    hidden = [name for name in own if name != "k"]
    top = [name for name in os.listdir(gateway.tree) if name.startswith(".")]
    for key in {*hidden, *(name.split("/")[0] + "/" for name in hidden if "/" in name)}:
        for method, body in (("GET", b""), ("PUT", b"spoilt"), ("DELETE", b"")):
            answer = raw.request(gateway, method, f"/{bucket}/{key}", body=body)
            assert answer.status >= 400 or method == "DELETE", (method, key, answer)
    assert {os.path.relpath(os.path.join(d, n), on_disk(gateway, bucket))
            for d, _, ns in os.walk(on_disk(gateway, bucket)) for n in ns} == set(own)
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["k"]
    for name in top:
        assert raw.request(gateway, "GET", f"/{name}").status in (400, 404)


def test_reads_trees_of_versitygw(gateway, s3, bucket):
    """Its attributes are user.etag, user.content-type, user.metadata, user.X-Amz-Tagging."""
    path = on_disk(gateway, bucket, "theirs")
    with open(path, "wb") as out:
        out.write(b"written by another gateway")
    etag = data.md5(b"written by another gateway")
    os.setxattr(path, "user.etag", f'"{etag}"'.encode())
    os.setxattr(path, "user.content-type", b"text/theirs")
    os.setxattr(path, "user.metadata", b'{"colour":"blue"}')
    os.setxattr(path, "user.X-Amz-Tagging", b'{"t":"1"}')
    head = s3.head_object(Bucket=bucket, Key="theirs")
    assert head["ETag"] == f'"{etag}"' and head["ContentType"] == "text/theirs"
    assert head["Metadata"] == {"colour": "blue"}
    assert s3.get_object_tagging(Bucket=bucket, Key="theirs")["TagSet"] == [{"Key": "t", "Value": "1"}]


def test_leftovers_are_swept(start, tmp_path):
    gateway = start("--temp-expiry", "1s", "--upload-expiry", "60s", "--sweep-interval", "1s", tree=tmp_path / "tree")
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket="swept")
    upload = s3.create_multipart_upload(Bucket="swept", Key="m")["UploadId"]
    s3.upload_part(Bucket="swept", Key="m", UploadId=upload, PartNumber=1, Body=b"x")
    time.sleep(3)
    assert s3.list_parts(Bucket="swept", Key="m", UploadId=upload)["Parts"], "a young upload was swept"


# ---- File systems that lack something ----

FEATURES = ["o-tmpfile", "rename-flags", "dir-fsync", "fine-times", "fallocate", "reflink", "copy-range", "big-xattr",
            "direct-io"]


def everyday(gateway):
    """A bit of everything that depends on what the file system can do."""
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket="daily")
    tags = "&".join(f"{i}{'k' * 100}={'v' * 250}" for i in range(10))
    for key, size in (("a", 0), ("b/c", 100000), ("b/d", (9 << 20) + 5)):
        body = data.content(key, size)
        for _ in range(2):  # create, then overwrite
            s3.put_object(Bucket="daily", Key=key, Body=body, Metadata={"m": "v" * 1900}, Tagging=tags)
        got = s3.get_object(Bucket="daily", Key=key)
        assert got["Body"].read() == body and got["Metadata"]["m"] == "v" * 1900
        assert len(s3.get_object_tagging(Bucket="daily", Key=key)["TagSet"]) == 10
        s3.copy_object(Bucket="daily", Key=f"copy/{key}", CopySource={"Bucket": "daily", "Key": key})
        assert s3.get_object(Bucket="daily", Key=f"copy/{key}")["Body"].read() == body
    once = [raw.request(gateway, "PUT", "/daily/once", headers={"if-none-match": "*"}, body=b"x").status for _ in range(2)]
    assert once == [200, 412]
    etag = s3.head_object(Bucket="daily", Key="once")["ETag"]
    twice = [raw.request(gateway, "PUT", "/daily/once", headers={"if-match": etag}, body=b"yy").status for _ in range(2)]
    assert twice == [200, 412]
    parts, upload = [], s3.create_multipart_upload(Bucket="daily", Key="multi")["UploadId"]
    bodies = [data.content(f"part{i}", 5 << 20) for i in range(2)] + [b"tail"]
    for number, body in enumerate(bodies, 1):
        etag = s3.upload_part(Bucket="daily", Key="multi", UploadId=upload, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    s3.complete_multipart_upload(Bucket="daily", Key="multi", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="daily", Key="multi")["Body"].read() == b"".join(bodies)
    want = ["a", "b/c", "b/d", "copy/a", "copy/b/c", "copy/b/d", "multi", "once"]
    assert [item["Key"] for item in s3.list_objects_v2(Bucket="daily")["Contents"]] == want
    os.unlink(on_disk(gateway, "daily", "copy/a"))
    with open(on_disk(gateway, "daily", "copy/z"), "w") as out:
        out.write("from outside")
    want = sorted({*want, "copy/z"} - {"copy/a"})
    assert [item["Key"] for item in s3.list_objects_v2(Bucket="daily")["Contents"]] == want
    for key in want:
        s3.delete_object(Bucket="daily", Key=key)
    s3.delete_bucket(Bucket="daily")
    left = [os.path.join(d, n) for d, _, ns in os.walk(gateway.tree) for n in ns if "multi" in n or "once" in n]
    assert left == []


@pytest.mark.parametrize("feature", FEATURES)
def test_without(start, feature):
    everyday(start("--mask", feature))


def test_without_anything(start):
    everyday(start("--mask", ",".join(FEATURES)))


@pytest.mark.parametrize("durability", ["full", "data", "none"])
@pytest.mark.parametrize("etag", ["md5", "fast"])
def test_durability_and_etag(start, durability, etag):
    gateway = start("--durability", durability, "--etag", etag)
    everyday(gateway)
    put = raw.request(gateway, "PUT", "/shape")
    put = raw.request(gateway, "PUT", "/shape/k", body=b"body").headers["etag"]
    assert (put == f'"{data.md5(b"body")}"') == (etag == "md5")
    assert len(put) >= 34


def test_direct_io(start):
    gateway = start("--direct-io-min", "64K")
    everyday(gateway)


@pytest.mark.parametrize("method", ["copy-range", "copy"])
def test_copy_methods(start, method):
    everyday(start("--copy-method", method))


def need_root():
    if os.geteuid() != 0:
        pytest.skip("mounting a file system of one's own needs root")


@contextlib.contextmanager
def loop_mount(tmp_path, kind, size_mib):
    """A file system in a file, mounted."""
    need_root()
    maker = shutil.which(f"mkfs.{kind}", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if not maker:
        pytest.skip(f"mkfs.{kind} is not installed")
    image, point = tmp_path / f"{kind}.img", tmp_path / kind
    point.mkdir()
    with open(image, "wb") as out:
        out.truncate(size_mib << 20)
    subprocess.run([maker, "-q", *(["-F"] if kind == "ext4" else []), image], check=True, capture_output=True)
    done = subprocess.run(["mount", "-o", "loop", image, point], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"loop mounts do not work here: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def test_reflinks_on_xfs(start, tmp_path):
    with loop_mount(tmp_path, "xfs", 400) as point:
        gateway = start(tree=point / "tree")
        everyday(gateway)
        assert gateway.metric("railgate_copies_total", method="reflink") >= 3
        gateway.stop()


def test_full_disk(start, tmp_path):
    with loop_mount(tmp_path, "ext4", 24) as point:
        gateway = start(tree=point / "tree")
        assert raw.request(gateway, "PUT", "/full").status == 200
        assert raw.request(gateway, "PUT", "/full/fits", body=b"x" * 100000).status == 200
        before = data.read_tree(gateway.tree)
        answer = raw.request(gateway, "PUT", "/full/large", body=b"x" * (30 << 20))
        assert (answer.status, answer.code) == (507, "InsufficientStorage"), answer
        # Overwriting keeps the old object when the new one does not fit.
        answer = raw.request(gateway, "PUT", "/full/fits", body=b"y" * (30 << 20))
        assert answer.status == 507
        assert raw.request(gateway, "GET", "/full/fits").body == b"x" * 100000
        assert raw.request(gateway, "GET", "/full/large").status == 404
        assert data.read_tree(gateway.tree).keys() == before.keys()
        assert raw.request(gateway, "DELETE", "/full/fits").status == 204
        assert raw.request(gateway, "PUT", "/full/again", body=b"z" * 100000).status == 200
        gateway.stop()


def test_full_disk_while_bytes_come(start, tmp_path):
    """Without space reserved ahead it is a write in the middle of the body that fails."""
    large = data.content("large", 30 << 20)
    with loop_mount(tmp_path, "ext4", 24) as point:
        gateway = start("--mask", "fallocate", "--rdma", "off", "--sweep-interval", "0", tree=point / "tree")
        assert raw.request(gateway, "PUT", "/full").status == 200
        assert raw.request(gateway, "PUT", "/full/k", body=b"x" * 100000).status == 200
        begun = raw.request(gateway, "POST", "/full/parts", query={"uploads": ""})
        upload = begun.xml().findtext("UploadId")
        before = data.read_tree(gateway.tree)
        for path, query in (("/full/k", ()), ("/full/new", ()),
                            ("/full/parts", {"partNumber": "1", "uploadId": upload})):
            answer = raw.request(gateway, "PUT", path, query=query, body=large)
            assert (answer.status, answer.code) == (507, "InsufficientStorage"), answer
        assert data.read_tree(gateway.tree) == before
        # The space is there again.
        body = large[:8 << 20]
        for path in ("/full/k", "/full/new"):
            answer = raw.request(gateway, "PUT", path, body=body)
            assert answer.status == 200 and answer.headers["etag"] == f'"{data.md5(body)}"', answer
            assert raw.request(gateway, "GET", path).body == body
            assert raw.request(gateway, "DELETE", path).status == 204
        gateway.stop()


@pytest.mark.parametrize("sent", [100_000, (1 << 20) + 1, 4 << 20])
def test_a_client_leaves_in_the_middle(start, sent):
    """Nothing of a large object is left: no name, no file, no descriptor, no request."""
    gateway = start("--rdma", "off", "--sweep-interval", "0")
    assert raw.request(gateway, "PUT", "/cut").status == 200
    assert raw.request(gateway, "PUT", "/cut/k", body=b"x" * 1000).status == 200
    before, files = data.read_tree(gateway.tree), set(open_files(gateway))
    for key in ("k", "new"):
        connection = raw.begin(gateway, "PUT", f"/cut/{key}", 6 << 20)
        connection.send(bytes(sent))
        assert wait_until(lambda: set(open_files(gateway)) - files), "the request did not begin"
        connection.close()
        assert wait_until(lambda: not set(open_files(gateway)) - files), open_files(gateway)
    assert wait_until(lambda: gateway.metric("railgate_requests_in_progress") == 0)
    assert data.read_tree(gateway.tree) == before
    gateway.stop()


def test_read_only_disk(start, tmp_path):
    with loop_mount(tmp_path, "ext4", 24) as point:
        gateway = start(tree=point / "tree")
        raw.request(gateway, "PUT", "/fixed")
        raw.request(gateway, "PUT", "/fixed/k", body=b"x")
        subprocess.run(["mount", "-o", "remount,abort", point], check=True)  # as after a disk error
        assert raw.request(gateway, "GET", "/fixed/k").body == b"x"
        answer = raw.request(gateway, "PUT", "/fixed/k", body=b"y")
        assert (answer.status, answer.code) == (403, "AccessDenied"), answer
        answer = raw.request(gateway, "DELETE", "/fixed/k")
        assert answer.status == 403, answer
        assert raw.request(gateway, "GET", "/fixed/k").body == b"x"
        # Health says so, and that only the writes are gone.
        deadline = time.monotonic() + 20
        while gateway.admin("/-/ready")[0] == 200:
            assert time.monotonic() < deadline, "the health page finds nothing wrong"
            time.sleep(0.1)
        mount, = json.loads(gateway.admin("/-/ready")[1])["mounts"]
        assert mount["state"] == "fails" and "read-only" in mount["error"], mount
        gateway.stop()


def test_mount_without_user_xattrs(tmp_path):
    """Refused at the start, with the remedy: an object without its metadata is no object."""
    need_root()
    point = tmp_path / "ramfs"
    point.mkdir()
    if subprocess.run(["mount", "-t", "ramfs", "none", point], capture_output=True).returncode != 0:
        pytest.skip("ramfs cannot be mounted here")
    try:
        with pytest.raises(AssertionError) as refused:
            gateways.Gateway(point / "tree").start()
        assert "exited with 1" in str(refused.value) and "xattr" in str(refused.value)
    finally:
        subprocess.run(["umount", point], check=True)


def test_runs_unprivileged(tmp_path_factory):
    need_root()
    tree = tmp_path_factory.mktemp("unprivileged")
    for directory in (tree, *tree.parents):
        if directory.stat().st_mode & 0o001 == 0 and str(directory).startswith("/tmp"):
            directory.chmod(directory.stat().st_mode | 0o011)
    os.chown(tree, 65534, 65534)

    class Nobody(gateways.Gateway):
        def command(self, words):
            return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", *words]

    if subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", gateways.BINARY]).returncode:
        pytest.skip("the binary stands where an unprivileged user cannot reach it")
    gateway = Nobody(tree).start()
    everyday(gateway)
    gateway.stop()


def bind(tmp_path):
    """A FUSE file system at point that shows below, and its process."""
    need_root()
    if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
        pytest.skip("bindfs or /dev/fuse is not there")
    (tmp_path / "below").mkdir()
    point = tmp_path / "point"
    point.mkdir()
    daemon = subprocess.Popen(["bindfs", "-f", tmp_path / "below", point], stdin=subprocess.DEVNULL)
    for _ in range(100):
        if os.path.ismount(point):
            break
        time.sleep(0.1)
    return point, daemon


def test_mount_that_shows_an_older_time(start, tmp_path):
    """A client of a network file system may show a new file as it was before it was finished."""
    point, daemon = bind(tmp_path)
    try:
        gateway = start(tree=point / "tree")
        file = tmp_path / "below" / "tree" / "lag" / "k"
        assert raw.request(gateway, "PUT", "/lag").status == 200

        def put():
            etag = raw.request(gateway, "PUT", "/lag/k", body=b"x" * 5000).headers["etag"]
            return etag, file.stat().st_mtime_ns

        etag, mtime = put()
        os.utime(file, ns=(mtime, mtime - 48_000_000))
        timer = threading.Timer(0.3, os.utime, [file], {"ns": (mtime, mtime)})
        timer.start()
        answer = raw.request(gateway, "GET", "/lag/k")
        timer.join()
        assert answer.headers["etag"] == etag and len(answer.body) == 5000

        # Where the time stays older, somebody set it: that takes a while and is told.
        etag, mtime = put()
        os.utime(file, ns=(mtime, mtime - 48_000_000))
        began = time.monotonic()
        answer = raw.request(gateway, "HEAD", "/lag/k")
        assert answer.headers["etag"].endswith('-1"') and time.monotonic() - began > 1

        # A newer one is another program's for certain.
        etag, mtime = put()
        os.utime(file, ns=(mtime, mtime + 48_000_000))
        assert raw.request(gateway, "HEAD", "/lag/k").headers["etag"].endswith('-1"')
    finally:
        subprocess.run(["umount", "-l", point], capture_output=True)
        daemon.terminate()
        daemon.wait()


def test_hung_mount(start, tmp_path):
    """A mount that stops answering costs its own requests a 503 and nobody else anything."""
    point, daemon = bind(tmp_path)
    try:
        gateway = start("--storage-timeout", "2s", "--drain-timeout", "2s", tree=point / "tree")
        everyday(gateway)
        raw.request(gateway, "PUT", "/hang")
        raw.request(gateway, "PUT", "/hang/k", body=b"x" * 1000)
        daemon.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        answer = raw.request(gateway, "PUT", "/hang/k2", body=b"x")
        assert answer.status == 503 and answer.code == "ServiceUnavailable", answer
        assert time.monotonic() - began < 15
        assert gateway.admin("/-/live")[0] == 200
        deadline = time.monotonic() + 20
        while gateway.admin("/-/ready")[0] == 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        status, text = gateway.admin("/-/ready")
        assert status == 503 and str(point).encode() in text, text
        daemon.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 20
        while gateway.admin("/-/ready")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert gateway.admin("/-/ready")[0] == 200
        assert raw.request(gateway, "GET", "/hang/k").body == b"x" * 1000
        # And a stop while it hangs comes to an end.
        daemon.send_signal(signal.SIGSTOP)
        assert raw.request(gateway, "PUT", "/hang/k3", body=b"x").status == 503
        gateway.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while not gateway.events("gateway.stop"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        daemon.send_signal(signal.SIGCONT)  # the kernel ends no process for which the daemon has begun something
        assert gateway.process.wait(30) == 0
    finally:
        daemon.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "-l", point], capture_output=True)
        daemon.terminate()
        daemon.wait()
