"""railgate's client commands and the machine they run on: words, terminals, signals, pipes, disks, and
files of every kind. What the network does to them is in test_own_client.py and test_hostile_servers.py."""
import os
import pty
import re
import signal
import socket
import subprocess

import data
import gateway as gateways
import pytest
from hostile import Server, answer
from test_own_client import MIB, PART, Client, own, part_count, read, tree_of, wait_for, write  # noqa: F401


# ---- Words, by somebody who has read nothing ----

def say(*words, **environment):
    """Runs railgate without credentials or configuration."""
    done = subprocess.run([gateways.BINARY, *map(str, words)], capture_output=True, text=True, timeout=60,
                          env=gateways.clean_environment(HOME="/nonexistent", NO_PROXY="*", **environment),
                          stdin=subprocess.DEVNULL)
    assert not gateways.REPORT.search(done.stderr), done.stderr
    return done


KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def test_the_way_in():
    """From nothing to a command line that works, by what is printed alone."""
    done = say()
    assert done.returncode == 2 and "railgate help COMMAND" in done.stderr and not done.stdout
    overview = say("--help")
    assert overview.returncode == 0 and "s3://BUCKET/KEY" in overview.stdout
    assert "--endpoint" in overview.stdout and "AWS_ACCESS_KEY_ID" in overview.stdout
    commands = re.findall(r"^  (\w+) +\S", overview.stdout, re.M)
    assert {"cp", "sync", "ls", "cat", "stat", "rm", "mb", "rb", "presign", "bench"} < set(commands)
    for command in commands:
        done = say(command, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: railgate {command}"), command
        assert not done.stderr and len(done.stdout.splitlines()) > 3, command
    done = say("ls")
    assert done.returncode == 2 and "AWS_ACCESS_KEY_ID" in done.stderr and ".aws/credentials" in done.stderr


@pytest.mark.parametrize("words, said", [
    (["hlep"], "railgate --help"),
    (["-v"], "railgate --help"),
    (["ls", "--hepl"], "--hepl"),
    (["cp"], "expects SRC and DST"),
    (["cp", "a"], "expects SRC and DST"),
    (["cp", "a", "b"], "s3://BUCKET/KEY"),
    (["cp", "a", "b", "s3://c"], "expects SRC and DST"),
    (["cp", "/etc/hostname", "s3:/b/k"], "two slashes"),
    (["cp", "S3://b/k", "/tmp/x"], "small letters"),
    (["cp", "-r", "s3://b/k", "s3:/tmp/x"], "two slashes"),
    (["cp", "http://127.0.0.1:9000/b/k", "/tmp/x"], "--endpoint"),
    (["cp", "-", "s3://b/k"], "standard input"),
    (["cp", "s3://b/k", "-"], "railgate cat"),
    (["cp", "-r", "/etc/hostname", "s3://b"], "without -r"),
    (["cp", "/etc", "s3://b"], "-r"),
    (["cp", "-recursive", "/etc", "s3://b"], "--recursive"),
    (["cp", "-vx", "/etc", "s3://b"], "-x"),
    (["cp", "--jobs", "0", "-r", "/etc", "s3://b"], "--jobs"),
    (["cp", "--timeout", "0", "/etc/hostname", "s3://b"], "--timeout"),
    (["cp", "--part-size", "64MB", "/etc/hostname", "s3://b"], "--part-size"),
    (["cp", "--path", "RDMA", "/etc/hostname", "s3://b"], "--path"),
    (["cp", "s3://b", "/tmp/x"], "no single object"),
    (["sync", "a", "b"], "s3://"),
    (["sync", "a", "s3:/b"], "two slashes"),
    (["ls", "bucket"], "s3://BUCKET"),
    (["ls", "s3:bucket"], "two slashes"),
    (["ls", "s3:///key"], "names no bucket"),
    (["ls", "s3://a", "s3://b"], "expects"),
    (["mb", "bucket"], "s3://BUCKET"),
    (["mb", "s3://bucket/key"], "s3://BUCKET"),
    (["rb", "s3://"], "s3://BUCKET"),
    (["rm", "key"], "s3://BUCKET/KEY"),
    (["rm", "s3://bucket"], "-r"),
    (["rm", "-r", "s3://"], "s3://BUCKET/PREFIX"),
    (["rm", "-r", "key"], "s3://BUCKET/PREFIX"),
    (["cat"], "s3://BUCKET/KEY"),
    (["cat", "s3://b/k", "file"], "s3://BUCKET/KEY"),
    (["stat", "s3://b"], "s3://BUCKET/KEY"),
    (["presign", "-X", "FETCH", "s3://b/k"], "--method"),
    (["presign", "--expires", "999999", "s3://b/k"], "604800"),
    (["bench"], "s3://BUCKET"),
    (["bench", "bucket"], "s3://BUCKET"),
    (["bench", "--strict", "s3://b"], "--admin"),
    (["bench", "--op", "delete", "s3://b"], "--op"),
    (["bench", "-c", "9999", "s3://b"], "--concurrency"),
    (["ls", "--endpoint", "localhost:9000"], "http://"),
    (["ls", "--endpoint", "http://host:9000/bucket"], "path"),
    (["ls", "--endpoint", "http://host:port"], "port"),
    (["ls", "--endpoint", "http://me:secret@host"], "host"),
    (["ls", "--parallel", "1000"], "parallel"),
])
def test_wrong_words(words, said):
    """Each is told what is wrong on one line and gets exit status 2; nothing is sent anywhere."""
    with Server(lambda request: answer(200)) as server:
        done = say(*words, AWS_ENDPOINT_URL=server.endpoint, **KEYS)
        assert done.returncode == 2 and done.stdout == "", done
        assert len(done.stderr.splitlines()) == 1 and said in done.stderr, done.stderr
        assert server.requests == []


def test_a_gateway_that_is_not_there(tmp_path):
    write(tmp_path / "in/a", b"x")
    write(tmp_path / "in/b", b"x")
    port = gateways.free_port()
    for endpoint, said in [(f"http://127.0.0.1:{port}", str(port)), ("http://no-such-host.invalid:9000", "no-such-host"),
                           ("http://127.0.0.1", "port 80"), (f"https://127.0.0.1:{port}", str(port))]:
        done = say("ls", "--endpoint", endpoint, "--retries", "0", **KEYS)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
        assert said in done.stderr and "cannot be reached" in done.stderr and "--endpoint" in done.stderr
    done = say("cp", "-r", tmp_path / "in", "s3://b", "--endpoint", f"http://127.0.0.1:{port}", "--retries", "0", **KEYS)
    assert done.returncode == 1 and "2 FAILED" in done.stdout
    assert len(done.stderr.splitlines()) == 2 and done.stderr.count("--endpoint") == 1


def test_what_is_no_s3_gateway(gateway, tmp_path):
    """The admin listener, and a gateway that does not know the domain of which buckets are hosts."""
    done = say("ls", "--endpoint", f"http://127.0.0.1:{gateway.admin_port}", **KEYS)
    assert done.returncode == 1 and "404" in done.stderr and "--endpoint" in done.stderr, done.stderr
    assert "NoSuchBucket" not in done.stderr
    done = say("ls", "--virtual-host", "--endpoint", f"http://localhost:{gateway.port}", "s3://bucket",
               AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY)
    assert done.returncode == 1 and "ListAllMyBucketsResult" in done.stderr, done.stderr


def test_http_and_https_mixed_up(gateway, start, tmp_path):
    done = say("ls", "--endpoint", f"https://{gateway.host}", "--no-retries", **KEYS)
    assert done.returncode == 1 and "http://" in done.stderr, done.stderr
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    one = start("--tls-cert", certificate, "--tls-key", key, scheme="https")
    done = say("ls", "--endpoint", f"http://{one.host}", "--no-retries", **KEYS)
    assert done.returncode == 1 and "https://" in done.stderr, done.stderr
    done = say("ls", "--endpoint", one.endpoint, "--no-retries", **KEYS)
    assert done.returncode == 1 and "not trusted" in done.stderr and "AWS_CA_BUNDLE" in done.stderr
    done = say("ls", "--endpoint", f"https://localhost:{one.port}", "--ca-file", certificate, "--no-retries", **KEYS)
    assert done.returncode == 1 and "not trusted" in done.stderr  # the certificate is another name's


def test_refusals_say_what_to_look_at(own, bucket, tmp_path):  # noqa: F811
    for environment in ({"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "NOBODY"}):
        message = own.run("ls", status=1, **environment).stderr.decode()
        assert "AWS_ACCESS_KEY_ID" in message and len(message.splitlines()) == 1
    late = answer(403, (), b"<Error><Code>RequestTimeTooSkewed</Code><Message>too far</Message></Error>")
    with Server(lambda request: late) as server:
        message = Client(server.endpoint, tmp_path).run("ls", status=1).stderr.decode()
    assert "RequestTimeTooSkewed" in message and "clock" in message
    message = own.run("ls", "s3://no-such-bucket-anywhere", status=1).stderr.decode()
    assert "NoSuchBucket" in message and "no-such-bucket-anywhere" in message


# ---- Terminals, pipes, signals ----

def run_on_terminal(client, *words):
    """Its standard error is a terminal, its standard output a pipe; what came by each."""
    master, slave = pty.openpty()
    process = subprocess.Popen(client.words(words), env=client.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break  # the other end is closed
        if not more:
            break
        shown += more
    os.close(master)
    out = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0, shown
    return out, shown


def test_progress_on_a_terminal_only(own, bucket, tmp_path):  # noqa: F811
    write(tmp_path / "in/a", data.content("bar", 8 * MIB))
    write(tmp_path / "in/b", data.content("bar", 3 * MIB))
    copies = [("cp", "-r", tmp_path / "in", f"s3://{bucket}/p"), ("cp", "-r", f"s3://{bucket}/p", tmp_path / "out"),
              ("sync", f"s3://{bucket}/p", tmp_path / "synced")]
    for words in copies:
        out, shown = run_on_terminal(own, *words)
        assert re.search(rb"\r\x1b\[K\[[#.]{20}\] +\d+% [\d.]+ \S+, \d done, [\d.]+ \S+/s", shown), shown
        assert shown.endswith(b"\r\x1b[K")  # the line is taken away at the end
        assert out.startswith(b"copied 2 objects, 11.0 MiB") and b"\x1b" not in out
    shares = [int(word) for word in re.findall(rb"\] +(\d+)%", shown)]
    assert shares == sorted(shares) and shares[-1] <= 100
    assert tree_of(tmp_path / "out") == tree_of(tmp_path / "in")
    done = own.run("cp", "-r", tmp_path / "in", f"s3://{bucket}/q")
    assert done.stderr == b"" and b"\x1b" not in done.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(own, gateway, bucket, tmp_path, sent):  # noqa: F811
    """Ends at once by the signal; nothing stands under the final name, and the copy goes on later."""
    content = data.content("interrupted", 60 * MIB)
    write(os.path.join(gateway.tree, bucket, "k"), content)
    words = ("cp", "--part-size", "5M", "--parallel", "1", f"s3://{bucket}/k", tmp_path / "out")
    process = own.start(*words)
    record = tmp_path / ".out.railgate-done"
    wait_for(lambda: record.exists() and "done " in record.read_text(), "a part")
    process.send_signal(sent)
    process.communicate(timeout=20)
    assert process.returncode == -sent
    assert not (tmp_path / "out").exists() and not os.path.exists(os.path.join(gateway.tree, bucket, "out"))
    own.run(*words)
    assert read(tmp_path / "out") == content and sorted(os.listdir(tmp_path)) == ["home", "out"]


def piped(client, *words, ignore=False):
    """Nobody reads its standard output."""
    reader, writer = os.pipe()
    os.close(reader)
    how = {"preexec_fn": lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)} if ignore else {}
    done = subprocess.run(client.words(words), env=client.environment, stdin=subprocess.DEVNULL, stdout=writer,
                          stderr=subprocess.PIPE, timeout=60, restore_signals=not ignore, **how)
    os.close(writer)
    assert not gateways.REPORT.search(done.stderr.decode()), done.stderr
    return done


def test_output_that_cannot_be_written(own, gateway, bucket, tmp_path):  # noqa: F811
    write(os.path.join(gateway.tree, bucket, "k"), data.content("pipe", 3 * MIB))
    write(tmp_path / "in", b"x")
    for words in (["ls", "-r", f"s3://{bucket}"], ["cat", f"s3://{bucket}/k"], ["stat", f"s3://{bucket}/k"],
                  ["cp", "-v", tmp_path / "in", f"s3://{bucket}/in"], ["--help"]):
        # As any filter does: ended by SIGPIPE, or where that is ignored with a sentence.
        assert piped(own, *words).returncode == -signal.SIGPIPE, words
        done = piped(own, *words, ignore=True)
        assert done.returncode == 1 and b"standard output" in done.stderr, (words, done)
        with open("/dev/full", "wb") as full:
            done = subprocess.run(own.words(words), env=own.environment, stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1 and b"No space left" in done.stderr, (words, done)


# ---- Disks and files ----

def can_mount():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no mount namespaces here")
def test_full_disk(own, gateway, bucket, tmp_path):  # noqa: F811
    """A download that finds no room says so, leaves nothing under the final name, and goes on when there
    is some."""
    content = data.content("full", 24 * MIB)
    write(os.path.join(gateway.tree, bucket, "k"), content)
    write(os.path.join(gateway.tree, bucket, "tree/k"), content)
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=12m none {disk} || exit 99
        railgate() {{ {gateways.BINARY} cp --part-size 5M "$@"; echo "status $?"; ls -A {disk}; }}
        railgate s3://{bucket}/k {disk}/out
        railgate --no-resume s3://{bucket}/k {disk}/out2
        railgate -r s3://{bucket}/tree {disk}
        mount -o remount,size=64m {disk}
        railgate s3://{bucket}/k {disk}/out
        cmp {disk}/out {gateway.tree}/{bucket}/k && echo same
    """
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=own.environment, capture_output=True, text=True,
                          timeout=120)
    assert not gateways.REPORT.search(done.stderr), done.stderr
    lines = done.stdout.splitlines()
    statuses = [line for line in lines if line.startswith("status")]
    assert statuses == ["status 1", "status 1", "status 1", "status 0"], done
    assert done.stderr.count("No space left on device") == 3 and "/proc/self" not in done.stderr
    assert str(disk) in done.stderr
    before, after = done.stdout.split("status 0")
    assert not re.search(r"^(out|out2|k)$", before, re.M)
    assert "same" in after and ".out.railgate-part" not in after


def test_files_of_every_kind(own, gateway, bucket, tmp_path):  # noqa: F811
    top = tmp_path / "in"
    write(top / "fine", b"fine")
    write(top / "secret", b"secret")
    write(top / "closed/inside", b"inside")
    os.chmod(top / "secret", 0)
    os.chmod(top / "closed", 0)
    (top / "empty/deeper").mkdir(parents=True)
    os.mkfifo(top / "fifo")
    os.symlink("fine", top / "link")
    os.symlink("nowhere", top / "broken")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(top / "socket"))
    # Without the rights that root has to read everything.
    plain = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []

    def copy(*words):
        done = subprocess.run([*plain, *own.words(("cp", "-r", *words, top, f"s3://{bucket}/t"))], env=own.environment,
                              capture_output=True, text=True, timeout=60)
        assert not gateways.REPORT.search(done.stderr), done.stderr
        return done

    try:
        done = copy()
        assert done.returncode == 1 and "2 FAILED" in done.stdout and "4 left out" in done.stdout, done
        for name, why in (("secret", "Permission denied"), ("closed", "Permission denied"), ("fifo", "not a regular file"),
                          ("socket", "not a regular file"), ("link", "symbolic link"), ("broken", "symbolic link")):
            assert re.search(rf"^railgate: .*{name}.*{why}", done.stderr, re.M), (name, done.stderr)
        assert tree_of(os.path.join(gateway.tree, bucket)) == {"t/fine": b"fine"}  # S3 has no empty directories
        done = copy("-L")
        assert done.returncode == 1 and re.search(r"broken.*No such file", done.stderr), done.stderr
        assert tree_of(os.path.join(gateway.tree, bucket)) == {"t/fine": b"fine", "t/link": b"fine"}
        # What could not be read is not taken for gone.
        assert own.run("sync", "--delete", top / "empty", f"s3://{bucket}/t", status=1)
        assert os.path.exists(os.path.join(gateway.tree, bucket, "t/fine"))
    finally:
        os.chmod(top / "closed", 0o700)


def test_names_that_look_like_words(own, gateway, bucket, tmp_path):  # noqa: F811
    """Files called as options, "-", or as URLs, and how they are meant."""
    for name in ("-r", "--help", "-", "s3:", "a b"):
        write(tmp_path / "in" / name, name.encode())
    for word in ("./-r", "./--help", "./-", "./s3:", "a b"):
        own.run("cp", word, f"s3://{bucket}/x/", cwd=tmp_path / "in")
    own.run("cp", "--", "-r", f"s3://{bucket}/y/", cwd=tmp_path / "in")
    assert tree_of(os.path.join(gateway.tree, bucket, "x")) == tree_of(tmp_path / "in")
    own.run("cp", "--", f"s3://{bucket}/x/-r", "--help", cwd=tmp_path)
    assert read(tmp_path / "--help") == b"-r"


def test_targets_that_cannot_be_written(own, gateway, bucket, tmp_path):  # noqa: F811
    write(os.path.join(gateway.tree, bucket, "k"), b"content")
    (tmp_path / "directory/.k.railgate-part").mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo")
    write(tmp_path / "file", b"kept")
    for target, said in [("fifo", "not a regular file"), ("file/below", "Not a directory"), ("none/below", "No such file"),
                         ("directory/", "Is a directory"), ("n" * 300, "longer than 255")]:
        done = own.run("cp", f"s3://{bucket}/k", f"{tmp_path}/{target}", status=1)
        assert said in done.stderr.decode(), (target, done.stderr)
        assert "/proc/self" not in done.stderr.decode()
    assert read(tmp_path / "file") == b"kept" and os.listdir(tmp_path / "directory") == [".k.railgate-part"]


# ---- Cut off at the other end ----

def restarted(tree, port):
    return gateways.Gateway(tree, ["--port", port]).start()


def test_gateway_killed_then_gone_on_with(tmp_path):
    """The gateway dies, the client gives up; later both begin anew, and only what is missing is sent."""
    content = data.content("both", 100 * MIB + 5)
    parts = 21
    write(tmp_path / "in", content)
    tree = tmp_path / "tree"
    os.makedirs(tree / "bucket")
    port = gateways.free_port()
    one = restarted(tree, port)
    client = Client(f"http://127.0.0.1:{port}", tmp_path)
    put = ("cp", "--part-size", "5M", "--parallel", "2", "--no-retries", tmp_path / "in", "s3://bucket/k")
    get = ("cp", "--part-size", "5M", "--parallel", "2", "--no-retries", "s3://bucket/k", tmp_path / "out")
    process = client.start(*put)
    s3 = data.boto3_client(one)
    wait_for(lambda: part_count(s3, "bucket") >= 3, "three parts")
    one.kill()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b"1 FAILED" in out and b"gateway" in err, err
    one = restarted(tree, port)
    s3 = data.boto3_client(one)
    kept = part_count(s3, "bucket")
    assert 3 <= kept < parts and not (tree / "bucket/k").exists()
    client.run(*put)
    assert one.metric_at_rest("railgate_requests_total", operation="UploadPart", status="200") == parts - kept
    assert read(tree / "bucket/k") == content and "Uploads" not in s3.list_multipart_uploads(Bucket="bucket")

    process = client.start(*get)
    record = tmp_path / ".out.railgate-done"
    wait_for(lambda: record.exists() and record.read_text().count("done ") >= 3, "three parts")
    one.kill()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and not (tmp_path / "out").exists(), err
    kept = record.read_text().count("done ")
    one = restarted(tree, port)
    client.run(*get)
    assert one.metric_at_rest("railgate_requests_total", operation="GetObject") == parts - kept
    assert read(tmp_path / "out") == content
    assert not [name for name in os.listdir(tmp_path) if "railgate" in name]
    one.stop()


def test_two_copies_to_one_file(own, gateway, bucket, tmp_path):  # noqa: F811
    """Of several downloads to one name at a time, each is whole or says that another is under way."""
    contents = [data.content(f"race/{n}", 6 * MIB) for n in range(4)]
    for n, content in enumerate(contents):
        write(os.path.join(gateway.tree, bucket, f"k{n}"), content)
    for _ in range(3):
        processes = [own.start("cp", "--part-size", "5M", f"s3://{bucket}/k{n}", tmp_path / "out") for n in range(4)]
        won = 0
        for process in processes:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0 or b"Another download" in err, err
            won += process.returncode == 0
        assert won and read(tmp_path / "out") in contents
        assert sorted(os.listdir(tmp_path)) == ["home", "out"]
