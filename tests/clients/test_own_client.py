"""railgate's own client commands against the gateway: everything byte for byte, also when cut off."""
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.parse
import xml.dom.minidom

import data
import gateway as gateways
import pytest

MIB = 1 << 20
PART = 5 * MIB


class Client:
    """Runs `railgate WORD ...` with credentials for one gateway."""

    def __init__(self, endpoint, home, **environment):
        self.environment = gateways.clean_environment(
            HOME=str(home), AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, NO_PROXY="*",
            AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY, AWS_ENDPOINT_URL=endpoint, **environment)

    def words(self, words):
        return [gateways.BINARY, *map(str, words)]

    def run(self, *words, status=0, cwd=None, timeout=300, **environment):
        done = subprocess.run(self.words(words), env={**self.environment, **environment}, cwd=cwd,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
        err = done.stderr.decode(errors="replace")
        assert not gateways.REPORT.search(err), err[-8000:]
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-2000:]}\n{err[-4000:]}"
        return done

    def text(self, *words, **how):
        return self.run(*words, **how).stdout.decode()

    def start(self, *words):
        return subprocess.Popen(self.words(words), env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_signals)


def heed_signals():
    """Also where the tests run in the background of a shell, or by nohup."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)


@pytest.fixture
def own(gateway, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Client(gateway.endpoint, home)


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(content)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree_of(top):
    found = {}
    for directory, below, names in os.walk(top):
        if ".railgate" in below:
            below.remove(".railgate")  # the gateway's own
        for name in names:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, top)] = read(path)
    return found


# ---- One object ----

@pytest.mark.parametrize("size", [0, 1, 4095, MIB, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 1, 64 * MIB])
def test_cp_sizes(own, gateway, bucket, tmp_path, size):
    content = data.content(f"own/{size}", size)
    write(tmp_path / "in", content)
    out = own.text("cp", "-v", "--part-size", "5M", tmp_path / "in", f"s3://{bucket}/dir/key")
    assert f"{size} bytes" in out and "verified" in out
    assert re.search(r"copied 1 object, .* 1 by (http|rdma):", out)
    assert read(os.path.join(gateway.tree, bucket, "dir", "key")) == content
    own.run("cp", "--part-size", "5M", f"s3://{bucket}/dir/key", tmp_path / "out")
    assert read(tmp_path / "out") == content
    assert own.run("cat", "--part-size", "5M", f"s3://{bucket}/dir/key").stdout == content
    assert sorted(os.listdir(tmp_path)) == ["home", "in", "out"]


def test_cp_names(own, bucket, tmp_path):
    write(tmp_path / "file", b"hello")
    own.run("cp", "file", f"s3://{bucket}", cwd=tmp_path)
    own.run("cp", tmp_path / "file", f"s3://{bucket}/a/")
    own.run("cp", f"s3://{bucket}/a/file", f"s3://{bucket}/b/")
    own.run("cp", f"s3://{bucket}/b/file", f"s3://{bucket}/c")
    assert own.text("ls", "-r", f"s3://{bucket}").split("\n")[0].endswith("a/file")
    os.mkdir(tmp_path / "into")
    own.run("cp", f"s3://{bucket}/c", tmp_path / "into")
    own.run("cp", f"s3://{bucket}/c", f"{tmp_path}/made/")
    own.run("cp", f"s3://{bucket}/c", "plain", cwd=tmp_path)
    for name in ("into/c", "made/c", "plain"):
        assert read(tmp_path / name) == b"hello"


def test_awkward_keys(own, gateway, bucket, tmp_path):
    names = [*data.AWKWARD, *data.CONTROL]
    files = data.write_tree(tmp_path / "in", names)
    own.run("cp", "-r", tmp_path / "in", f"s3://{bucket}/below")
    assert tree_of(os.path.join(gateway.tree, bucket, "below")) == files
    own.run("cp", "-r", f"s3://{bucket}/below", tmp_path / "out")
    assert tree_of(tmp_path / "out") == files
    listed = own.run("ls", "-r", f"s3://{bucket}").stdout
    assert len(listed.splitlines()) == len(files)
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", listed)
    assert rb"below/escape\x1b[0m" in listed
    for name in ("escape\x1b[0m", "with space", "percent%41%2F%25"):
        assert own.run("cat", f"s3://{bucket}/below/{name}").stdout == files[name]
    own.run("cp", "-r", f"s3://{bucket}/below", f"s3://{bucket}/copied/deep")
    own.run("rm", "-r", f"s3://{bucket}/below")
    assert tree_of(os.path.join(gateway.tree, bucket, "copied", "deep")) == files
    assert not os.path.exists(os.path.join(gateway.tree, bucket, "below"))


def test_rm_r_keeps_neighbours(own, gateway, bucket):
    for key in ("dir/a", "dir/b/c", "dir2/a", "di"):
        write(os.path.join(gateway.tree, bucket, key), b"x")
    assert "deleted 2 objects" in own.text("rm", "-r", f"s3://{bucket}/dir")
    assert sorted(tree_of(os.path.join(gateway.tree, bucket))) == ["di", "dir2/a"]
    own.run("rm", f"s3://{bucket}/di", f"s3://{bucket}/not-there")
    assert sorted(tree_of(os.path.join(gateway.tree, bucket))) == ["dir2/a"]


def test_buckets(own, tmp_path):
    name = data.new_bucket_name()
    own.run("mb", f"s3://{name}")
    assert f"s3://{name}\n" in own.text("ls")
    again = own.run("mb", f"s3://{name}", status=1).stderr.decode()
    assert "BucketAlreadyOwnedByYou" in again
    write(tmp_path / "f", b"x")
    own.run("cp", tmp_path / "f", f"s3://{name}")
    assert "BucketNotEmpty" in own.run("rb", f"s3://{name}", status=1).stderr.decode()
    own.run("rb", "--force", f"s3://{name}")
    assert f"s3://{name}\n" not in own.text("ls")


def test_ls_and_stat(own, gateway, bucket):
    write(os.path.join(gateway.tree, bucket, "dir/a"), b"12345")
    write(os.path.join(gateway.tree, bucket, "top"), b"1")
    lines = own.text("ls", f"s3://{bucket}").splitlines()
    assert re.fullmatch(r" +PREFIX dir/", lines[0])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +1 top", lines[1])
    assert own.text("ls", f"s3://{bucket}/dir/").splitlines()[0].endswith(" 5 dir/a")
    stat = own.text("stat", f"s3://{bucket}/dir/a")
    assert re.search(r"^size +5$", stat, re.M) and re.search(r"^etag +\S+", stat, re.M)
    assert "NoSuchKey" in own.run("stat", f"s3://{bucket}/none", status=1).stderr.decode()


def test_many_pages(own, gateway, bucket):
    top = os.path.join(gateway.tree, bucket)
    for number in range(2345):
        write(os.path.join(top, f"{number % 7}", f"k{number:05}"), b"")
    assert len(own.text("ls", "-r", f"s3://{bucket}").splitlines()) == 2345
    assert len(own.text("ls", f"s3://{bucket}").splitlines()) == 7
    assert "deleted 2345 objects" in own.text("rm", "-r", f"s3://{bucket}")


def test_presign(own, bucket, s3):
    import urllib.request

    s3.put_object(Bucket=bucket, Key="a b", Body=b"signed")
    url = own.text("presign", f"s3://{bucket}/a b").strip()
    assert urllib.request.urlopen(url).read() == b"signed"
    url = own.text("presign", "-X", "PUT", f"s3://{bucket}/put").strip()
    urllib.request.urlopen(urllib.request.Request(url, data=b"body", method="PUT"))
    assert s3.get_object(Bucket=bucket, Key="put")["Body"].read() == b"body"


def test_others_read_what_it_writes(own, s3, bucket, tmp_path):
    content = data.content("interop", 3 * PART + 7)
    write(tmp_path / "in", content)
    own.run("cp", "--part-size", "5M", "--content-type", "text/x-test", tmp_path / "in", f"s3://{bucket}/k")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ContentType"] == "text/x-test"
    assert head["ETag"].endswith('-4"')
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == content
    s3.put_object(Bucket=bucket, Key="theirs", Body=content)
    own.run("cp", f"s3://{bucket}/theirs", tmp_path / "out")
    assert read(tmp_path / "out") == content


# ---- sync ----

def test_sync(own, gateway, bucket, tmp_path):
    here = tmp_path / "here"
    files = data.write_tree(here, ["a", "dir/b", "dir/c", "e"])
    there = os.path.join(gateway.tree, bucket, "p")
    assert "copied 4 objects" in own.text("sync", here, f"s3://{bucket}/p")
    assert tree_of(there) == files
    assert "copied 0 objects" in own.text("sync", here, f"s3://{bucket}/p")
    write(here / "dir/b", b"longer than before, by far, whatever it was" * 9)
    os.remove(here / "e")
    planned = own.text("sync", "--dry-run", "--delete", here, f"s3://{bucket}/p")
    assert f"would copy to s3://{bucket}/p/dir/b" in planned and f"would delete s3://{bucket}/p/e" in planned
    assert tree_of(there) == files
    assert "copied 1 object," in own.text("sync", here, f"s3://{bucket}/p")
    assert os.path.exists(os.path.join(there, "e"))
    assert "1 deleted" in own.text("sync", "--delete", here, f"s3://{bucket}/p")
    assert tree_of(there) == tree_of(here)
    future = time.time() + 100
    os.utime(here / "a", (future, future))
    assert "copied 1 object," in own.text("sync", here, f"s3://{bucket}/p")
    assert "copied 0 objects" in own.text("sync", "--size-only", here, f"s3://{bucket}/p")

    back = tmp_path / "back"
    assert "copied 3 objects" in own.text("sync", f"s3://{bucket}/p", back)
    assert tree_of(back) == tree_of(here)
    assert "copied 0 objects" in own.text("sync", f"s3://{bucket}/p", back)
    write(back / "extra", b"x")
    own.run("sync", "--delete", f"s3://{bucket}/p", back)
    assert tree_of(back) == tree_of(here)
    assert "copied 3 objects" in own.text("sync", f"s3://{bucket}/p", f"s3://{bucket}/q")
    assert "copied 0 objects" in own.text("sync", f"s3://{bucket}/p", f"s3://{bucket}/q")


def test_sync_of_nothing_deletes_nothing(own, gateway, bucket, tmp_path):
    write(os.path.join(gateway.tree, bucket, "p/keep"), b"x")
    (tmp_path / "empty").mkdir()
    assert b"SRC is empty" in own.run("sync", "--delete", tmp_path / "empty", f"s3://{bucket}/p", status=1).stderr
    assert os.path.exists(os.path.join(gateway.tree, bucket, "p/keep"))


def test_links_are_left_out(own, gateway, bucket, tmp_path):
    write(tmp_path / "in/file", b"x")
    write(tmp_path / "outside/secret", b"secret")
    os.symlink(tmp_path / "outside/secret", tmp_path / "in/link")
    os.symlink(tmp_path / "outside", tmp_path / "in/dirlink")
    os.symlink("..", tmp_path / "in/loop")
    os.mkfifo(tmp_path / "in/fifo")
    done = own.run("cp", "-r", tmp_path / "in", f"s3://{bucket}/x", status=1)
    assert b"4 left out" in done.stdout and b"fifo" in done.stderr
    assert tree_of(os.path.join(gateway.tree, bucket, "x")) == {"file": b"x"}
    own.run("cp", "-r", "-L", tmp_path / "in", f"s3://{bucket}/y", status=1)
    followed = tree_of(os.path.join(gateway.tree, bucket, "y"))
    assert followed["link"] == b"secret" and followed["dirlink/secret"] == b"secret"


# ---- Downloads stay where they belong ----

class Evil(http.server.BaseHTTPRequestHandler):
    """A server that lists names chosen to get out of the directory."""
    keys = []

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.answer(b"evil", head=True)

    def do_GET(self):
        if "list-type" in self.path:
            body = "".join(f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>4</Size></Contents>"
                           for key in self.keys)
            self.answer(f"<ListBucketResult><EncodingType>url</EncodingType>{body}</ListBucketResult>".encode())
        else:
            self.answer(b"evil")

    def answer(self, body, head=False):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        if not head:
            self.wfile.write(body)


def test_keys_that_would_get_out(tmp_path):
    Evil.keys = ["good", "../out", "a/../../out", "/abs", "a//b", "./c", "x/.", "..", "sub/link/file", "n" * 300]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    into = tmp_path / "into"
    (into / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", into / "sub/link")
    client = Client(f"http://127.0.0.1:{server.server_address[1]}", tmp_path)
    done = client.run("cp", "-r", "s3://b/", into, status=1)
    server.shutdown()
    assert tree_of(into) == {"good": b"evil"}
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "into"]
    assert os.listdir(tmp_path / "elsewhere") == []
    assert b"9 FAILED" in done.stdout


# ---- Cut off and gone on with ----

def wait_for(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.01)


def part_count(s3, bucket):
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return sum(len(s3.list_parts(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"]).get("Parts", []))
               for one in uploads)


def test_upload_killed_and_resumed(own, gateway, s3, bucket, tmp_path):
    content = data.content("killed", 60 * MIB + 5)
    write(tmp_path / "in", content)
    words = ("cp", "--part-size", "5M", "--parallel", "1", tmp_path / "in", f"s3://{bucket}/k")
    process = own.start(*words)
    wait_for(lambda: part_count(s3, bucket) >= 3, "three parts")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: gateway.metric("railgate_requests_in_progress") == 0, "the end of what was cut off")
    kept = part_count(s3, bucket)
    assert 3 <= kept <= 13 and not os.path.exists(os.path.join(gateway.tree, bucket, "k"))
    before = gateway.metric("railgate_requests_total", operation="UploadPart", status="200")
    own.run(*words)
    sent = gateway.metric_at_rest("railgate_requests_total", operation="UploadPart", status="200") - before
    assert sent == 13 - kept
    assert read(os.path.join(gateway.tree, bucket, "k")) == content
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_download_killed_and_resumed(own, gateway, bucket, tmp_path):
    content = data.content("killed download", 60 * MIB + 5)
    write(os.path.join(gateway.tree, bucket, "k"), content)
    words = ("cp", "--part-size", "5M", "--parallel", "1", f"s3://{bucket}/k", tmp_path / "out")
    process = own.start(*words)
    record = tmp_path / ".out.railgate-done"
    wait_for(lambda: record.exists() and record.read_text().count("done ") >= 3, "three parts")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "out").exists()
    kept = record.read_text().count("done ")
    before = gateway.metric_at_rest("railgate_requests_total", operation="GetObject")
    own.run(*words)
    assert gateway.metric_at_rest("railgate_requests_total", operation="GetObject") - before <= 13 - kept
    assert read(tmp_path / "out") == content
    assert sorted(os.listdir(tmp_path)) == ["home", "out"]


def test_server_restarted_under_way(tmp_path):
    content = data.content("restart", 100 * MIB + 5)
    write(tmp_path / "in", content)
    tree = tmp_path / "tree"
    os.makedirs(tree / "bucket")
    port = gateways.free_port()
    one = gateways.Gateway(tree, ["--port", port]).start()
    client = Client(f"http://127.0.0.1:{port}", tmp_path)
    process = client.start("cp", "--part-size", "5M", "--parallel", "2", "--retries", "20", tmp_path / "in",
                           "s3://bucket/k")
    s3 = data.boto3_client(one)
    wait_for(lambda: part_count(s3, "bucket") >= 2, "two parts")
    one.kill()
    two = gateways.Gateway(tree, ["--port", port]).start()
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err.decode()
    assert read(tree / "bucket/k") == content
    process = client.start("cp", "--part-size", "5M", "--parallel", "2", "--retries", "20", "s3://bucket/k",
                           tmp_path / "out")
    record = tmp_path / ".out.railgate-done"
    wait_for(lambda: process.poll() is not None or (record.exists() and "done 1 " in record.read_text()), "a part")
    two.kill()
    three = gateways.Gateway(tree, ["--port", port]).start()
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err.decode()
    assert read(tmp_path / "out") == content
    three.stop()


# ---- Refusals ----

def test_wrong_credentials(own, bucket, tmp_path):
    write(tmp_path / "f", b"x")
    done = own.run("cp", tmp_path / "f", f"s3://{bucket}/k", status=1, AWS_SECRET_ACCESS_KEY="wrong")
    assert b"SignatureDoesNotMatch" in done.stderr
    done = own.run("ls", status=1, AWS_ACCESS_KEY_ID="NOBODY")
    assert b"InvalidAccessKeyId" in done.stderr and b"AWS_ACCESS_KEY_ID" in done.stderr
    done = own.run("ls", "--region", "eu-west-1", status=1)
    assert b"us-east-1" in done.stderr and b"--region" in done.stderr and b"_KEY" not in done.stderr, done.stderr
    done = own.run("ls", status=2, AWS_SECRET_ACCESS_KEY="")
    assert b"secret key is missing" in done.stderr
    done = own.run("ls", status=2, AWS_SESSION_TOKEN="x")
    assert b"AWS_SESSION_TOKEN" in done.stderr


def test_mistakes(own, bucket, tmp_path):
    for words, said in [
        (["cp"], "expects SRC and DST"),
        (["cp", "a", "b"], "s3://"),
        (["cp", "--nonsense", "a", "s3://b"], "--nonsense"),
        (["cp", "--part-size", "5X", "a", "s3://b"], "--part-size"),
        (["cp", "--part-size", "1M", "a", f"s3://{bucket}"], "part_size"),
        (["cp", "--part-size", "x", "a", "s3://b"], "such as 64M"),
        (["cp", "--path", "fast", "a", "s3://b"], "auto, rdma or http"),
        (["cp", "--retries", "x", "a", "s3://b"], "whole number"),
        (["bench", "--duration", "0.5", "s3://b"], "whole number above 0"),
        (["cp", "--parallel"], "lacks its value"),
        (["cp", tmp_path, f"s3://{bucket}"], "-r"),
        (["ls", "bucket"], "s3://BUCKET"),
        (["mb", "s3://"], "s3://BUCKET"),
        (["rm"], "expects"),
        (["cat", f"s3://{bucket}"], "s3://BUCKET/KEY"),
        (["ls", "--endpoint", "localhost:9000"], "http://"),
        (["ls", "--transports", "smoke"], "smoke"),
        (["ls", "--profile", "nobody"], "nobody"),
    ]:
        done = own.run(*words, status=2)
        assert said in done.stderr.decode(), (words, done.stderr)
        assert len(done.stderr.decode().splitlines()) == 1 and not done.stdout
    for words, said in [
        (["cp", tmp_path / "none", f"s3://{bucket}/k"], "No such file"),
        (["cp", f"s3://{bucket}/none", tmp_path / "x"], "NoSuchKey"),
        (["cp", f"s3://{bucket}/none", "/nonexistent/x"], "/nonexistent"),
        (["ls", "s3://no-such-bucket-here"], "NoSuchBucket"),
        (["cat", f"s3://{bucket}/none"], "NoSuchKey"),
        (["ls", "--endpoint", "http://127.0.0.1:1", "--no-retries"], "cannot be reached"),
    ]:
        assert said in own.run(*words, status=1).stderr.decode(), words
    assert not (tmp_path / "x").exists()


def test_config_files(gateway, bucket, tmp_path):
    write(tmp_path / ".aws/credentials",
          f"[work]\naws_access_key_id = {gateways.ACCESS_KEY}\naws_secret_access_key = {gateways.SECRET_KEY}\n".encode())
    write(tmp_path / ".aws/config", f"[profile work]\nregion = us-east-1\nendpoint_url = {gateway.endpoint}\n".encode())
    environment = gateways.clean_environment(HOME=str(tmp_path), NO_PROXY="*")
    for extra, words in [({"AWS_PROFILE": "work"}, []), ({}, ["--profile", "work"])]:
        done = subprocess.run([gateways.BINARY, "ls", *words], env={**environment, **extra}, capture_output=True)
        assert done.returncode == 0 and bucket.encode() in done.stdout, done.stderr
    done = subprocess.run([gateways.BINARY, "ls"], env=environment, capture_output=True)
    assert done.returncode == 2 and b"No credentials" in done.stderr


def test_https(start, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    one = start("--tls-cert", certificate, "--tls-key", key, scheme="https")
    client = Client(one.endpoint, tmp_path)
    done = client.run("ls", status=1)
    assert b"certificate" in done.stderr.lower()
    content = data.content("tls", 2 * PART + 3)
    write(tmp_path / "in", content)
    client.run("mb", "s3://bucket", "--ca-file", certificate)
    client.run("cp", "--part-size", "5M", tmp_path / "in", "s3://bucket/k", AWS_CA_BUNDLE=str(certificate))
    assert client.run("cat", "s3://bucket/k", AWS_CA_BUNDLE=str(certificate)).stdout == content
    assert b"CA" in client.run("ls", "--ca-file", "/nonexistent", status=2).stderr


# ---- The way the bytes went ----

def test_rdma_off(start, tmp_path):
    one = start("--rdma", "off")
    client = Client(one.endpoint, tmp_path)
    content = data.content("rdma off", 2 * PART + 3)
    write(tmp_path / "in", content)
    client.run("mb", "s3://bucket")
    for size in (10, len(content)):
        write(tmp_path / "in", content[:size])
        done = client.run("cp", "--path", "rdma", "--part-size", "5M", tmp_path / "in", "s3://bucket/k", status=1)
        assert b"cannot be made by RDMA" in done.stderr and b"1 FAILED" in done.stdout
        assert os.listdir(os.path.join(one.tree, "bucket")) in ([], [".railgate"])
    out = client.text("cp", "-v", "--part-size", "5M", tmp_path / "in", "s3://bucket/k")
    assert "1 by http:rdma-off" in out
    assert read(os.path.join(one.tree, "bucket/k")) == content
    done = client.run("cp", "--path", "rdma", "s3://bucket/k", tmp_path / "out", status=1)
    assert b"cannot be made by RDMA" in done.stderr
    assert not (tmp_path / "out").exists()
    assert "1 by http:rdma-off" in client.text("cp", "s3://bucket/k", tmp_path / "out")
    assert "1 by http:http-only" in client.text("cp", "--path", "http", "s3://bucket/k", tmp_path / "out")
    assert read(tmp_path / "out") == content


def test_no_transport(own, bucket, tmp_path):
    write(tmp_path / "in", b"x")
    done = own.run("cp", "--path", "rdma", "--transports", "ofi", "--device", "nonsense", tmp_path / "in",
                   f"s3://{bucket}/k", status=1)
    assert b"nonsense" in done.stderr
    assert "by http:no-transport" in own.text("cp", "--transports", "ofi", "--device", "nonsense", tmp_path / "in",
                                              f"s3://{bucket}/k")


@pytest.mark.parametrize("device", ["tcp", "shm"])
def test_rdma(start, tmp_path, device):
    one = start("--rdma", "on")
    client = Client(one.endpoint, tmp_path)
    rdma = ("--path", "rdma", "--transports", "ofi", "--device", device, "--part-size", "5M")
    client.run("mb", "s3://bucket")
    for size in (1, 4095, MIB, MIB + 1, PART, PART + 1, 40 * MIB + 3):
        content = data.content(f"rdma/{size}", size)
        write(tmp_path / "in", content)
        before = one.metric_at_rest("railgate_transfer_bytes_total")
        assert f"1 by rdma:ofi:{device}" in client.text("cp", "-v", *rdma, tmp_path / "in", "s3://bucket/k")
        assert read(os.path.join(one.tree, "bucket/k")) == content
        assert f"1 by rdma:ofi:{device}" in client.text("cp", *rdma, "s3://bucket/k", tmp_path / "out")
        assert read(tmp_path / "out") == content
        assert one.metric_at_rest("railgate_transfer_bytes_total") - before == 2 * size
    files = data.write_tree(tmp_path / "tree", sizes=(1, 17, 4096, 70000))
    client.run("cp", "-r", *rdma, tmp_path / "tree", "s3://bucket/tree")
    assert tree_of(os.path.join(one.tree, "bucket/tree")) == files
    client.run("cp", "-r", *rdma, "s3://bucket/tree", tmp_path / "back")
    assert tree_of(tmp_path / "back") == files


def test_rdma_client_killed(start, tmp_path):
    """A client that dies in the middle leaves nothing behind, and the next one is served."""
    one = start("--rdma", "on")
    client = Client(one.endpoint, tmp_path)
    rdma = ("--path", "rdma", "--transports", "ofi", "--device", "tcp", "--part-size", "64M", "--parallel", "1")
    client.run("mb", "s3://bucket")
    content = data.content("rdma killed", 64 * MIB)
    write(tmp_path / "in", content)
    client.run("cp", *rdma, tmp_path / "in", "s3://bucket/k")
    for delay in (0.05, 0.1, 0.2, 0.3, 0.4):
        process = client.start("cp", *rdma, tmp_path / "in", "s3://bucket/other")
        time.sleep(delay)
        process.kill()
        process.communicate()
    client.run("cp", *rdma, "s3://bucket/k", tmp_path / "out")
    assert read(tmp_path / "out") == content


# ---- bench, and the example programs ----

def test_bench(start, tmp_path):
    one = start("--rdma", "on")
    client = Client(one.endpoint, tmp_path)
    client.run("mb", "s3://bucket")
    admin = f"http://127.0.0.1:{one.admin_port}"
    common = ("bench", "--sizes", "64K,1M", "-c", "1,3", "--count", "12", "-d", "60", "--admin", admin,
              "--server-pid", one.process.pid, "--svg", tmp_path / "chart.svg", "s3://bucket/under")
    table = client.text(*common, "--paths", "rdma,http")
    rows = [line.split() for line in table.splitlines()[1:]]
    assert len(rows) == 2 * 2 * 2 * 2
    for row in rows:
        assert row[5] == "12", row  # size is two words
        assert row[-2] == ("1.000" if row[1] == "rdma" else "0.000"), row
        assert row[-1].startswith(row[1]), row
    cells = json.loads(client.text(*common, "--paths", "rdma", "--json", "--strict", "--no-checksum"))["cells"]
    assert len(cells) == 8
    for cell in cells:
        assert cell["operations"] == 12 and cell["failures"] == 0 and cell["witness_ratio"] == 1
        assert cell["bytes"] == 12 * cell["size"] == cell["rdma_bytes"]
        assert 0 < cell["p50_ms"] <= cell["p99_ms"] <= cell["max_ms"] and "server_cpu_s" in cell
    assert xml.dom.minidom.parse(str(tmp_path / "chart.svg")).getElementsByTagName("polyline")
    assert not tree_of(os.path.join(one.tree, "bucket"))
    assert b"--sizes" in client.run("bench", "--sizes", "0", "s3://bucket", status=2).stderr


def test_bench_sees_what_did_not_go_by_rdma(start, tmp_path):
    one = start("--rdma", "off")
    client = Client(one.endpoint, tmp_path)
    client.run("mb", "s3://bucket")
    common = ("bench", "--op", "put", "--sizes", "64K", "-c", "2", "--count", "4", "--admin",
              f"http://127.0.0.1:{one.admin_port}", "s3://bucket")
    row = client.text(*common, "--path", "auto").splitlines()[1].split()
    assert row[-2:] == ["0.000", "http:rdma-off"]
    done = client.run(*common, "--path", "rdma", status=1)
    assert b"4 FAILED" in done.stdout and b"rdma-off" in done.stdout


EXAMPLES = os.path.join(os.path.dirname(gateways.BINARY), "examples")


@pytest.mark.skipif(not os.path.exists(os.path.join(EXAMPLES, "example-open")), reason="the examples are not built")
def test_examples(own, gateway, tmp_path):
    def example(name, *words, status=0):
        done = subprocess.run([os.path.join(EXAMPLES, f"example-{name}"), *map(str, words)], env=own.environment,
                              capture_output=True, cwd=tmp_path, timeout=120)
        err = done.stderr.decode(errors="replace")
        assert not gateways.REPORT.search(err), err
        assert done.returncode == status, (name, done.stdout, err)
        return done.stdout.decode()

    bucket = data.new_bucket_name("x")
    assert gateway.endpoint in example("open")
    example("make_bucket", bucket)
    assert bucket in example("buckets").splitlines()
    assert "5 bytes by" in example("put", bucket, "dir/k", "hello")
    example("put", bucket, "dir/k", "again", status=1)
    assert example("get", bucket, "dir/k") == "hello"
    assert example("get_range", bucket, "dir/k", 1, 3) == "ell"
    assert "5 bytes, text/plain" in example("stat", bucket, "dir/k")
    assert "5 bytes" in example("copy", bucket, "dir/k", bucket, "copy")
    write(tmp_path / "in", data.content("example", 9 * MIB))
    example("put_file", bucket, "file", tmp_path / "in")
    example("get_file", bucket, "file", tmp_path / "out")
    assert read(tmp_path / "out") == read(tmp_path / "in")
    assert "dir/ (more below)" in example("list", bucket, "")
    example("memory", bucket)
    assert read(os.path.join(gateway.tree, bucket, "slot-3")) == b"d" * 4096
    for key in ("dir/k", "copy", "file", *(f"slot-{n}" for n in range(8))):
        example("delete", bucket, key)
    example("device", bucket, "k", "1000", 16, status=1)  # no GPU: says so
    example("remove_bucket", bucket)
    example("stat", bucket, "k", status=1)
    example("stat", status=2)
