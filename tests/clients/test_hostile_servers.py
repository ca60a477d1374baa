"""railgate's client commands against servers that are broken or mean harm: never a crash, never a
success that is none, never a byte outside of the target, and an end to everything."""
import itertools
import os
import time

import data
import hostile
import pytest
from hostile import RESET, Server, answer
from test_own_client import Client, read, tree_of, write

SIZE = 4096
CONTENT = data.content("hostile", SIZE)
PART = 5 << 20
# Without rails, which take longer to open than all that is tested, but where a test asks for them.
REFUSED = ("--timeout", "20", "--no-retries", "--path", "http")


def head(size=SIZE, **more):
    return answer(200, {"Content-Length": size, "ETag": '"e"', **more})


def server_of(get, size=SIZE, **more):
    """HEAD is answered as it should be, GET by `get(request)`."""
    return Server(lambda request: head(size, **more) if request.method == "HEAD" else get(request))


def fails(client, *words, **how):
    """Runs a command that must fail, and has to end by itself; returns what it printed to stderr."""
    done = client.run(*words, status=1, timeout=300, **how)
    message = done.stderr.decode()
    assert message.startswith("railgate: ") and len(message) < 5000, message
    assert not any(ord(c) < 0x20 and c != "\n" for c in message), message
    return message


# ---- One object ----

def good(request):
    return answer(200, {"ETag": '"e"'}, CONTENT)


def endless(first, line):
    def reply(request):
        return itertools.chain([first], itertools.repeat(line * 100))
    return reply


ERROR = b"<Error><Code>\x1b[31mRed</Code><Message>%s</Message></Error>"
BAD_GETS = {
    "nothing": lambda request: b"",
    "reset": lambda request: RESET,
    "short": lambda request: answer(200, {"ETag": '"e"', "Content-Length": SIZE}, CONTENT[:100]),
    "larger": lambda request: answer(200, {"ETag": '"e"'}, CONTENT + b"x"),
    "smaller": lambda request: answer(200, {"ETag": '"e"'}, CONTENT[:-1]),
    "empty": lambda request: answer(200, {"ETag": '"e"'}),
    "no length, cut": lambda request: b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\n\r\n" + CONTENT[:100],
    "two lengths": lambda request: answer(200, [("Content-Length", 100), ("Content-Length", SIZE)], CONTENT),
    "negative length": lambda request: answer(200, {"Content-Length": -1}, CONTENT),
    "length of words": lambda request: answer(200, {"Content-Length": "many"}, CONTENT),
    "chunk cut": lambda request: answer(200, {"Transfer-Encoding": "chunked"}, b"1000\r\n" + CONTENT[:100]),
    "chunk of nonsense": lambda request: answer(200, {"Transfer-Encoding": "chunked"}, b"zz\r\n" + CONTENT),
    "chunks end early": lambda request: answer(200, {"Transfer-Encoding": "chunked"}, b"1\r\nx\r\n0\r\n\r\n"),
    "204": lambda request: answer(204, {"ETag": '"e"'}),
    "206": lambda request: answer(206, {"Content-Range": f"bytes 0-{SIZE - 1}/{SIZE}"}, CONTENT),
    "304": lambda request: answer(304),
    "status of nonsense": lambda request: b"HTTP/1.1 abc OK\r\n\r\n" + CONTENT,
    "status 999": lambda request: answer(999),
    "no HTTP": lambda request: b"hello, this is not HTTP\r\n" + CONTENT,
    "zeros": lambda request: bytes(SIZE),
    "another version": lambda request: answer(200, {"ETag": '"f"'}, CONTENT),
    "wrong checksum": lambda request: answer(200, {"ETag": '"e"', "x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}, CONTENT),
    "endless head": endless(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n"),
    "endless line": endless(b"HTTP/1.1 200 OK\r\nx-a: ", b"b" * 100),
    "endless 100": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless error": endless(b"HTTP/1.1 500 X\r\n\r\n", b"<Error>" * 100),
    "error that harms a terminal": lambda request: answer(403, (), ERROR % (b"a\x1b]0;b\x07\xff" * 999)),
    "error that is no XML": lambda request: answer(400, (), b"\x00\x1b[2J" * 100),
    "error that expands": lambda request: answer(400, (), b'<!DOCTYPE a [<!ENTITY b "bbbb">]><Error><Code>&b;</Code></Error>'),
    "upgrade": lambda request: answer(101, {"Upgrade": "h2c"}),
}


@pytest.mark.parametrize("name", BAD_GETS)
def test_object_that_does_not_come(tmp_path, name):
    (tmp_path / "into").mkdir()
    with server_of(BAD_GETS[name]) as server:
        client = Client(server.endpoint, tmp_path)
        fails(client, "cp", *REFUSED, "s3://b/k", tmp_path / "into/out")
        assert server.asked("GET")
        assert not (tmp_path / "into/out").exists()
        # What stays is what a later copy may go on with, never more.
        assert {*os.listdir(tmp_path / "into")} <= {".out.railgate-part", ".out.railgate-done"}
        # After an honest answer nothing of all that is left.
        server.reply = lambda request: head() if request.method == "HEAD" else good(request)
        client.run("cp", *REFUSED, "s3://b/k", tmp_path / "into/out")
        assert tree_of(tmp_path / "into") == {"out": CONTENT}
        # The same to standard output, as a range: nothing is printed that was not whole.
        server.reply = lambda request: head() if request.method == "HEAD" else BAD_GETS[name](request)
        if name != "206":
            done = client.run("cat", *REFUSED, "s3://b/k", status=1)
            assert done.stdout == b""


def test_chunked_and_slow_is_fine(tmp_path):
    """Longer than the time that may pass without a byte; bytes move all the while."""
    def reply(request):
        yield answer(200, {"Transfer-Encoding": "chunked", "ETag": '"e"'})
        for at in range(0, SIZE, 512):
            yield b"200\r\n" + CONTENT[at:at + 512] + b"\r\n"
            time.sleep(0.6)
        yield b"0\r\n\r\n"

    with server_of(reply) as server:
        Client(server.endpoint, tmp_path).run("cp", *REFUSED, "--timeout", "4", "s3://b/k", tmp_path / "out")
    assert read(tmp_path / "out") == CONTENT


@pytest.mark.parametrize("what", ["at once", "in the head", "in the body"])
def test_silence(tmp_path, what):
    whole = answer(200, {"ETag": '"e"'}, CONTENT)

    def reply(request):
        yield {"at once": b"", "in the head": whole[:20], "in the body": whole[:-100]}[what]
        server.stopped.wait(300)

    with server_of(reply) as server:
        message = fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, "--timeout", "1", "s3://b/k",
                        tmp_path / "out")
    assert "Nothing came from the gateway for 1000 ms" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirections_are_not_followed(tmp_path, status):
    """Signed requests, and bytes, go to the endpoint that was named and nowhere else."""
    with Server(good) as elsewhere:
        def away(request):
            return answer(status, {"Location": f"{elsewhere.endpoint}{request.target}"})

        write(tmp_path / "in", CONTENT)
        with Server(away) as server:
            client = Client(server.endpoint, tmp_path)
            for words in (["cp", "s3://b/k", tmp_path / "out"], ["cp", tmp_path / "in", "s3://b/k"], ["ls"],
                          ["ls", "s3://b"], ["rm", "s3://b/k"], ["mb", "s3://b"], ["stat", "s3://b/k"]):
                message = fails(client, words[0], *REFUSED, *words[1:])
                assert str(status) in message and elsewhere.endpoint in message and "no redirection" in message
        assert elsewhere.requests == []
    assert not (tmp_path / "out").exists()


def test_versions_are_not_mixed(tmp_path):
    """A server that takes no notice of If-Match changes the object between two parts."""
    content = data.content("versions", 2 * PART)
    other = bytes(PART)

    def get(request):
        first, last = request.range(len(content))
        field = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        if first:
            return answer(206, {**field, "ETag": '"f"'}, other)
        return answer(206, {**field, "ETag": '"e"'}, content[first:last + 1])

    with server_of(get, size=len(content)) as server:
        client = Client(server.endpoint, tmp_path)
        for words in (["cp", "--parallel", "1", "s3://b/k", tmp_path / "out"], ["cat", "s3://b/k"]):
            message = fails(client, words[0], *REFUSED, "--part-size", "5M", *words[1:])
            assert "another version" in message
    assert not (tmp_path / "out").exists()


def test_ranges_that_were_not_asked_for(tmp_path):
    content = data.content("ranges", 2 * PART)
    said = [f"bytes 1-{PART}/{2 * PART}", f"bytes 0-{PART - 1}/{PART}", f"bytes 0-{PART - 1}/*", "bytes */7", "", "x",
            f"bytes 0-{2 * PART - 1}/{2 * PART}", f"bytes 0-{PART - 1}/{2 ** 64}", f"bytes -1-{PART}/{2 * PART}"]
    for field in said:
        with server_of(lambda request: answer(206, {"Content-Range": field, "ETag": '"e"'}, content[:PART]),
                       size=len(content)) as server:
            fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, "--part-size", "5M", "--parallel", "1",
                  "s3://b/k", tmp_path / "out")
    with server_of(lambda request: answer(200, {"ETag": '"e"'}, content), size=len(content)) as server:
        fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, "--part-size", "5M", "s3://b/k", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", ["-1", "18446744073709551615", "18446744073709551616", "99999999999999", "x", ""])
def test_sizes_that_cannot_be(tmp_path, size):
    with server_of(lambda request: answer(206, {"ETag": '"e"'}, b"x"), size=size) as server:
        client = Client(server.endpoint, tmp_path)
        fails(client, "cp", *REFUSED, "s3://b/k", tmp_path / "out")
        fails(client, "cat", *REFUSED, "s3://b/k")
    assert not (tmp_path / "out").exists()


# ---- Listings ----

def listing(keys, more=b"", encode=True):
    import urllib.parse

    body = "".join(f"<Contents><Key>{urllib.parse.quote(key) if encode else key}</Key><Size>{SIZE}</Size></Contents>"
                   for key in keys)
    return answer(200, (), f"<ListBucketResult><EncodingType>url</EncodingType>{body}".encode() + more +
                  b"</ListBucketResult>")


def store(listed):
    """A server that lists by `listed(request)`, and has every object that is asked for."""
    def reply(request):
        if request.method == "GET" and "list-type" in request.query:
            return listed(request)
        if request.method == "HEAD":
            return head()
        return good(request) if request.method == "GET" else answer(204)
    return Server(reply)


def test_keys_outside_of_the_prefix(tmp_path):
    """A server that takes no notice of `prefix` lists other people's objects: none is read as if it
    were below the prefix, and above all none is deleted."""
    (tmp_path / "into").mkdir()
    write(tmp_path / "into/keep", b"x")
    with store(lambda request: listing(["p/a", "other/important"])) as server:
        client = Client(server.endpoint, tmp_path)
        for words in (["cp", "-r", "s3://b/p", tmp_path / "into"], ["sync", "--delete", "s3://b/p", tmp_path / "into"],
                      ["cp", "-r", "s3://b/p", "s3://b/q"], ["rm", "-r", "s3://b/p"], ["ls", "-r", "s3://b/p/"],
                      ["sync", "--delete", tmp_path / "into", "s3://b/p"]):
            message = fails(client, words[0], *REFUSED, *words[1:])
            assert '"other/important"' in message and '"p/"' in message
        assert server.asked("DELETE") == [] and server.asked("PUT") == []
    assert tree_of(tmp_path / "into") == {"keep": b"x"}


def test_bench_deletes_its_own_only(tmp_path):
    def reply(request):
        if request.method == "GET" and "list-type" in request.query:
            return listing(["somebody/elses"])
        return answer(200, {"ETag": '"e"'})

    with Server(reply) as server:
        done = Client(server.endpoint, tmp_path).run(
            "bench", *REFUSED, "--op", "put", "--path", "http", "--sizes", "1K", "-c", "1", "--count", "1", "s3://b")
        assert server.asked("DELETE") == [] and b"somebody/elses" in done.stderr


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_listing_in_circles(tmp_path, length):
    def listed(request):
        at = int(request.query.get("continuation-token", ["0"])[0])
        return listing([f"k{at}"], b"<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"
                       % (at % length + 1))

    with store(listed) as server:
        assert "circles" in fails(Client(server.endpoint, tmp_path), "ls", *REFUSED, "-r", "s3://b")
        assert len(server.requests) < 8 * length + 8


def test_listing_of_empty_pages(tmp_path):
    numbers = itertools.count(1)

    def listed(request):
        return listing([], b"<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>"
                       % next(numbers))

    with store(listed) as server:
        assert "circles" in fails(Client(server.endpoint, tmp_path), "ls", *REFUSED, "-r", "s3://b")


PAGE = b"<ListBucketResult>%s</ListBucketResult>"
BAD_LISTINGS = {
    "huge": lambda request: answer(200, (), PAGE % (b" " * (9 << 20))),
    "endless": endless(b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>", b"<Contents><Key>k</Key></Contents>"),
    "many": lambda request: answer(200, (), PAGE % (b"<Contents><Key>k</Key></Contents>" * 100001)),
    "deep": lambda request: answer(200, (), b"<ListBucketResult>" + b"<a>" * 100000),
    "bomb": lambda request: answer(200, (), b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' +
                                   PAGE % b"<Contents><Key>&b;</Key></Contents>"),
    "file": lambda request: answer(200, (), b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' +
                                   PAGE % b"<Contents><Key>&a;</Key></Contents>"),
    "cut": lambda request: answer(200, (), b"<ListBucketResult><Contents><Key>k</Key></Contents>"),
    "no XML": lambda request: answer(200, (), b'{"keys": []}'),
    "empty": lambda request: answer(200),
    "another document": lambda request: answer(200, (), b"<html><body>Sign in</body></html>"),
    "no UTF-8": lambda request: answer(200, (), PAGE % b"<Contents><Key>\xff\xfe</Key></Contents>"),
    "no key": lambda request: answer(200, (), PAGE % b"<Contents><Size>1</Size></Contents>"),
    "NUL in a key": lambda request: listing(["a%00b"], encode=False),
    "half an escape": lambda request: listing(["a%2"], encode=False),
    "size of nonsense": lambda request: answer(200, (), PAGE % b"<Contents><Key>k</Key><Size>-1</Size></Contents>"),
    "no next": lambda request: listing(["k"], b"<IsTruncated>true</IsTruncated>"),
}


@pytest.mark.parametrize("name", BAD_LISTINGS)
def test_bad_listings(tmp_path, name):
    with store(BAD_LISTINGS[name]) as server:
        client = Client(server.endpoint, tmp_path)
        fails(client, "ls", *REFUSED, "-r", "s3://b")
        fails(client, "cp", *REFUSED, "-r", "s3://b", tmp_path / "into")
        fails(client, "rm", *REFUSED, "-r", "s3://b/")
        assert server.asked("DELETE") == []
    assert tree_of(tmp_path / "into") == {}


def test_names_that_harm_a_terminal(tmp_path):
    names = ["\x1b]0;title\x07", "a\nFAKE LINE", "\u202e\u0085x", "é"]
    with store(lambda request: listing(names)) as server:
        out = Client(server.endpoint, tmp_path).run("ls", *REFUSED, "-r", "s3://b").stdout
    assert len(out.splitlines()) == len(names) and b"\x1b" not in out and b"\x07" not in out
    assert b"\xc2\x85" not in out and "é".encode() in out


def test_keys_that_meet_our_own_files(tmp_path):
    """What downloads keep beside their files is no name for a download: the one would become the
    other's content."""
    keys = ["x", ".x.railgate-part", ".x.railgate-done", "deep/.y.railgate-part", "deep/y"]
    with store(lambda request: listing(keys)) as server:
        done = Client(server.endpoint, tmp_path).run("cp", *REFUSED, "-r", "-j", "4", "s3://b", tmp_path / "into", status=1)
    assert tree_of(tmp_path / "into") == {"x": CONTENT, "deep/y": CONTENT}
    assert b"3 FAILED" in done.stdout and b"unfinished downloads" in done.stderr
    assert b"/proc/self" not in done.stderr and str(tmp_path / "into/deep/").encode() in done.stderr


@pytest.mark.parametrize("keys", [["d", "d/f"], ["d/f", "d"], ["d/", "d"]])
def test_keys_that_are_file_and_directory(tmp_path, keys):
    """Both cannot be on a disk: one is copied, the other is said to have failed."""
    with store(lambda request: listing(keys)) as server:
        done = Client(server.endpoint, tmp_path).run("cp", *REFUSED, "-r", "-j", "1", "s3://b", tmp_path / "into", status=1)
    assert b" FAILED" in done.stdout
    copied = tree_of(tmp_path / "into")
    assert copied in ({"d": CONTENT}, {"d/f": CONTENT})


def test_directory_marker_with_bytes(tmp_path):
    """An object of 4096 bytes that is called "d/" has no place on a disk: its bytes are not dropped
    without a word."""
    with store(lambda request: listing(["d/"])) as server:
        done = Client(server.endpoint, tmp_path).run("cp", *REFUSED, "-r", "s3://b", tmp_path / "into", status=1)
    assert b"1 FAILED" in done.stdout and b"has bytes" in done.stderr


# ---- Uploads ----

def test_answer_before_the_body(tmp_path):
    """200 and an ETag while most of the bytes are still here: they cannot be stored."""
    write(tmp_path / "in", bytes(32 << 20))
    with Server(lambda request: answer(200, {"ETag": '"e"'}), read_body=False) as server:
        fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, tmp_path / "in", "s3://b/k")


@pytest.mark.parametrize("name, reply", {
    "no ETag": answer(200),
    "wrong checksum": answer(200, {"ETag": '"e"', "x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}),
    "hang-up": b"",
    "cut": b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Len",
    "body that is cut": answer(200, {"ETag": '"e"', "Content-Length": 10}),
    "304": answer(304),
    "500": answer(500),
}.items())
def test_put_that_is_no_success(tmp_path, name, reply):
    write(tmp_path / "in", CONTENT)
    with Server(lambda request: reply) as server:
        message = fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, tmp_path / "in", "s3://b/k")
    assert ("may have taken effect" in message) == (name != "304")


UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
DONE = b"<CompleteMultipartUploadResult><ETag>&quot;e-2&quot;</ETag>%s</CompleteMultipartUploadResult>"


def upload_server(**replies):
    """Multipart uploads as they should be, but for `replies`."""
    def reply(request):
        if request.method == "GET" and "uploads" in request.query:
            return replies.get("uploads", answer(200, (), b"<ListMultipartUploadsResult/>"))
        if request.method == "GET" and "uploadId" in request.query:
            said = replies["parts"]
            return said(request) if callable(said) else said
        if request.method == "POST" and "uploads" in request.query:
            return replies.get("create", answer(200, (), UPLOAD))
        if request.method == "PUT":
            return replies.get("part", answer(200, {"ETag": '"e"'}))
        if request.method == "POST":
            return replies.get("complete", answer(200, (), DONE % b""))
        return answer(204) if request.method == "DELETE" else answer(404)
    return Server(reply)


LONG_ID = UPLOAD.replace(b">u<", b">" + b"u" * 20000 + b"<")


@pytest.mark.parametrize("replies", [
    {"create": answer(200)},
    {"create": answer(200, (), UPLOAD.replace(b">u<", b"><"))},
    {"create": answer(200, (), LONG_ID)},
    {"part": answer(200)},
    {"part": answer(500)},
    {"complete": answer(200)},
    {"complete": answer(200, (), b"<Error><Code>InternalError</Code></Error>")},
    {"complete": answer(200, (), (DONE % b"")[:-5])},
    {"complete": answer(200, (), b"<CompleteMultipartUploadResult/>")},
    {"complete": answer(200, (), DONE % b"<ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME>")},
    {"complete": answer(404, (), b"<Error><Code>NoSuchUpload</Code></Error>")},
    {"complete": b""},
], ids=lambda replies: " ".join(f"{name}-{len(said)}" for name, said in replies.items()))
def test_upload_that_is_no_success(tmp_path, replies):
    write(tmp_path / "in", bytes(2 * PART))
    with upload_server(**replies) as server:
        fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, "--part-size", "5M", tmp_path / "in", "s3://b/k")


def uploads(count, next_id):
    one = b"<Upload><Key>k</Key><UploadId>u</UploadId><Initiated>2024-01-01T00:00:00Z</Initiated></Upload>"
    return answer(200, (), b"<ListMultipartUploadsResult>" + one * count + b"<IsTruncated>true</IsTruncated>"
                  b"<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>%s</NextUploadIdMarker>" % next_id +
                  b"</ListMultipartUploadsResult>")


def endless_parts(request):
    at = int(request.query["part-number-marker"][0])
    return answer(200, (), b"<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>%d"
                  b"</NextPartNumberMarker></ListPartsResult>" % (at + 1))


def test_resuming_has_an_end(tmp_path):
    """Lists of uploads and parts without an end: the upload is begun anew."""
    write(tmp_path / "in", bytes(2 * PART))
    with upload_server(uploads=uploads(1, b"u"), parts=endless_parts) as server:
        Client(server.endpoint, tmp_path).run("cp", *REFUSED, "--part-size", "5M", tmp_path / "in", "s3://b/k")
        assert len(server.asked("PUT")) == 2 and len(server.asked("POST")) == 2
        assert len(server.asked("GET")) < 2000


def test_parts_that_lie(tmp_path):
    """Parts that the server says are there already, of the right size: believed by digest only."""
    write(tmp_path / "in", data.content("parts", 2 * PART))
    part = b"<Part><PartNumber>%d</PartNumber><Size>5242880</Size><ETag>&quot;e&quot;</ETag></Part>"
    parts = answer(200, (), b"<ListPartsResult>" + part % 1 + part % 2 + part % 0 * 0 + part % 99 + b"</ListPartsResult>")
    with upload_server(uploads=uploads(1, b"u").replace(b"true", b"no  "), parts=parts) as server:
        Client(server.endpoint, tmp_path).run("cp", *REFUSED, "--part-size", "5M", tmp_path / "in", "s3://b/k")
        assert len(server.asked("PUT")) == 2


# ---- RDMA ----

RDMA = ("--transports", "ofi", "--device", "tcp")


def replies(reply, count, status=200, **more):
    fields = {"ETag": '"e"', "x-amz-rdma-reply": reply}
    if count is not None:
        fields["x-amz-rdma-bytes-transferred"] = count
    return answer(status, {**fields, **more})


BAD_REPLIES = {
    "no count": replies("200", None),
    "count of 0": replies("200", 0),
    "count too large": replies("200", SIZE + 1),
    "count of 2^64": replies("200", 2 ** 64),
    "count of nonsense": replies("200", "4096 bytes"),
    "negative count": replies("200", -SIZE),
    "count too small": replies("200", SIZE - 1),
    "206 for a whole object": replies("206", SIZE, 206, **{"Content-Range": f"bytes 0-{SIZE - 1}/{SIZE}"}),
    "reply and status differ": replies("206", SIZE),
    "reply of nonsense": replies("2OO", SIZE),
    "long reply": replies("2" * 5000, SIZE),
    "no reply, no bytes": answer(200, {"ETag": '"e"'}),
    "bytes by both ways": answer(200, {"ETag": '"e"', "x-amz-rdma-reply": 200, "x-amz-rdma-bytes-transferred": SIZE},
                                 CONTENT),
    "another version": replies("200", SIZE, ETag='"f"'),
    "another path": replies("200", SIZE, **{"x-railgate-path": "http:declined"}),
    "bytes that never came": replies("200", SIZE, **{"x-amz-checksum-crc64nvme": "AQEBAQEBAQE="}),
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_rdma_replies_that_lie(tmp_path, name):
    asked = []

    def get(request):
        if "x-amz-rdma-token" not in request.headers:
            return good(request)
        asked.append(request)
        return BAD_REPLIES[name]

    with server_of(get) as server:
        client = Client(server.endpoint, tmp_path)
        fails(client, "cp", *REFUSED, *RDMA, "--path", "rdma", "s3://b/k", tmp_path / "out")
        assert asked and not (tmp_path / "out").exists()
        # Where HTTP may take over, what comes by it counts, and it is whole; else it is a failure.
        done = client.run("cp", *REFUSED, *RDMA, "--path", "auto", "s3://b/k", tmp_path / "out",
                          status=1 if name in ("another path", "bytes that never came") else 0)
        assert (tmp_path / "out").exists() == (done.returncode == 0)
        assert not (tmp_path / "out").exists() or read(tmp_path / "out") == CONTENT


@pytest.mark.parametrize("name, reply", {
    "another count": replies("200", SIZE - 1),
    "no ETag": answer(200, {"x-amz-rdma-reply": 200, "x-amz-rdma-bytes-transferred": SIZE}),
    "reply of nonsense": replies("xyz", SIZE),
    "no reply, nothing there": answer(200, {"ETag": '"e"'}),
    "another path": replies("200", SIZE, **{"x-railgate-path": "http:declined"}),
    "declined and stored": replies("501", 0),
    "hang-up": b"",
}.items())
def test_rdma_put_replies_that_lie(tmp_path, name, reply):
    write(tmp_path / "in", CONTENT)
    with Server(lambda request: answer(404) if request.method == "HEAD" else reply) as server:
        fails(Client(server.endpoint, tmp_path), "cp", *REFUSED, *RDMA, "--path", "rdma", tmp_path / "in", "s3://b/k")
        assert any("x-amz-rdma-token" in one.headers for one in server.asked("PUT"))
