"""What no client of good will sends: framing that two servers would read differently, bodies without
end, XML that grows, paths that lead elsewhere, connections that break. Each is refused, or is exactly
what it says, and the gateway goes on.

Beside this: slow and silent clients in test_server.py, thousands of idle ones in test_idle.py, links
that are swapped in test_links.py, signatures in test_signatures.py; each byte of heads in
tests/unit/gate/test_http.c.
"""
import os
import socket
import struct
import threading
import time

import pytest

import data
import raw
import soak

SECRET = b"what lies beside the tree"


def head_of(gateway, method, path, query=(), payload=raw.UNSIGNED, more=b"", **headers):
    """A signed head, as bytes; `path` as it is to be sent. `more` are lines that nobody signs."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    raw.sign(method, gateway.host, path, list(query), headers, payload)
    target = path + ("?" + raw.canonical_query(query) if query else "")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}".encode("latin-1") + more + b"\r\n"


def read_all(connection, timeout=20):
    """What comes until the other side closes, and whether it does."""
    connection.settimeout(timeout)
    got = b""
    while True:
        try:
            piece = connection.recv(65536)
        except socket.timeout:
            return got, False
        except ConnectionResetError:
            return got, True
        if not piece:
            return got, True
        got += piece


def exists(gateway, path):
    return raw.request(gateway, "HEAD", path).status == 200


# ---- Framing ----

FRAMINGS = {
    "length and chunked": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "chunked and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 0\r\n",
    "one length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "a list of lengths": b"Content-Length: 5, 5\r\n",
    "a length with a sign": b"Content-Length: +5\r\n",
    "a negative length": b"Content-Length: -5\r\n",
    "a hexadecimal length": b"Content-Length: 0x5\r\n",
    "a length with a blank": b"Content-Length: 5 5\r\n",
    "an enormous length": b"Content-Length: 18446744073709551621\r\n",
    "a folded length": b"Content-Length:\r\n 5\r\n",
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n",
    "a folded field": b"X-A: b\r\n Transfer-Encoding: chunked\r\n",
    "a bare line feed": b"X-A: b\nTransfer-Encoding: chunked\r\n",
    "a bare carriage return": b"X-A: b\rTransfer-Encoding: chunked\r\n",
    "a NUL": b"X-A: b\0\r\nTransfer-Encoding: chunked\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n",
    "a blank before the length's colon": b"Content-Length : 5\r\n",
    "a coding with a control byte": b"Transfer-Encoding: \x0bchunked\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
    "chunked first": b"Transfer-Encoding: chunked, identity\r\n",
    "chunked last": b"Transfer-Encoding: identity, chunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "chunked, twice in one": b"Transfer-Encoding: chunked, chunked\r\n",
    "a quoted coding": b'Transfer-Encoding: "chunked"\r\n',
}


def test_a_request_behind_another_is_one(gateway, bucket):
    """What the tests below must not see: without tricks, the second request is served."""
    inner = head_of(gateway, "PUT", f"/{bucket}/smuggled", more=b"Content-Length: 0\r\nConnection: close\r\n")
    answer = raw.talk(gateway, head_of(gateway, "PUT", f"/{bucket}/k", more=b"Content-Length: 5\r\n") + b"0\r\n\r\n" + inner)
    assert answer.count(b"HTTP/1.1 200") == 2, answer
    assert exists(gateway, f"/{bucket}/smuggled")


@pytest.mark.parametrize("lines", FRAMINGS.values(), ids=FRAMINGS)
def test_ambiguous_framing(gateway, bucket, lines):
    """The body is what ends a chunked one and has five bytes: whoever ends it at another place takes the
    rest for a request."""
    inner = head_of(gateway, "PUT", f"/{bucket}/smuggled", more=b"Content-Length: 0\r\nConnection: close\r\n")
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        connection.sendall(head_of(gateway, "PUT", f"/{bucket}/k", more=lines) + b"0\r\n\r\n" + inner)
        answer, closed = read_all(connection)
    assert closed, "the connection is still there"
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 501")), answer[:300]
    assert b"HTTP/1.1 200" not in answer
    assert not exists(gateway, f"/{bucket}/k") and not exists(gateway, f"/{bucket}/smuggled")


BAD_CHUNKS = {
    "no line behind the bytes": b"5\r\nhello0\r\n\r\n",
    "more bytes than said": b"3\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a blank in front": b" 5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "no size but an extension": b";a=b\r\nhello\r\n0\r\n\r\n",
    "no number": b"zz\r\nhello\r\n0\r\n\r\n",
    "a size that wraps": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a size of many digits": b"0" * 100000 + b"5\r\nhello\r\n0\r\n\r\n",
    "a line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a NUL for a size": b"\0\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_bad_chunks(gateway, bucket, body):
    inner = head_of(gateway, "PUT", f"/{bucket}/smuggled", more=b"Content-Length: 0\r\nConnection: close\r\n")
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        connection.sendall(head_of(gateway, "PUT", f"/{bucket}/k", more=b"Transfer-Encoding: chunked\r\n") + body + inner)
        answer, closed = read_all(connection)
    assert closed, "the connection is still there"
    # What is longer than its memory the HTTP library calls an error of the server.
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 500" if len(body) > 65536 else b"HTTP/1.1 4")), answer[:300]
    assert b"HTTP/1.1 200" not in answer
    assert not exists(gateway, f"/{bucket}/k") and not exists(gateway, f"/{bucket}/smuggled")


@pytest.mark.parametrize("body", [
    b"5\nhello\n0\n\n",  # RFC 9112, 2.2 allows it, and the HTTP library takes it
    b"5\r\nhello\n0\r\n\r\n",
    b"5;name=value\r\nhello\r\n0\r\n\r\n",
    b'5;name="quoted; 7"\r\nhello\r\n0;last\r\n\r\n',
    b"5\r\nhello\r\n0\r\nX-Trailer: Content-Length: 3\r\n\r\n",
    b"0005\r\nhello\r\n000\r\n\r\n",
])
def test_chunks_of_other_forms(gateway, bucket, body):
    """Extensions and trailers mean nothing, and end where their line ends."""
    second = head_of(gateway, "PUT", f"/{bucket}/second", more=b"Content-Length: 0\r\nConnection: close\r\n")
    answer = raw.talk(gateway, head_of(gateway, "PUT", f"/{bucket}/k", more=b"Transfer-Encoding: chunked\r\n") + body + second)
    assert answer.count(b"HTTP/1.1 200") == 2, answer
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == b"hello"
    assert raw.request(gateway, "GET", f"/{bucket}/second").body == b""


def test_absolute_targets(gateway, bucket):
    raw.request(gateway, "PUT", f"/{bucket}/k", body=b"hello")

    def ask(target):
        lines = head_of(gateway, "GET", f"/{bucket}/k", more=b"Connection: close\r\n").split(b"\r\n", 1)
        return raw.talk(gateway, f"GET {target} HTTP/1.1\r\n".encode() + lines[1])

    answer = ask(f"http://{gateway.host}/{bucket}/k")
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"hello"), answer
    for target in (f"http://elsewhere/{bucket}/k", f"http://{gateway.host}.evil/{bucket}/k", f"http:///{bucket}/k",
                   f"http://me@{gateway.host}/{bucket}/k", f"ftp://{gateway.host}/{bucket}/k", f"{bucket}/k",
                   f"http:/{bucket}/k"):
        answer = ask(target)
        assert answer.startswith(b"HTTP/1.1 4") and b"hello" not in answer, (target, answer)


# ---- Without end ----

def flood(gateway, head, first, piece, most=256 << 20):
    """Sends `piece` again and again. Returns what was answered, and how many bytes were taken."""
    answered, over = [], threading.Event()
    with socket.create_connection(("127.0.0.1", gateway.port), 60) as connection:
        def listen():
            answered.append(read_all(connection, 60)[0])
            over.set()

        listener = threading.Thread(target=listen)
        listener.start()
        sent = 0
        try:
            connection.sendall(head + first)
            while sent < most and not over.is_set():
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass  # as it should be
        if sent >= most:
            connection.close()
        listener.join()
    assert sent < most, "it takes all there is"
    return answered[0], sent


CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def test_bodies_without_end(start):
    gateway = start("--put-size-max", "4M")
    assert raw.request(gateway, "PUT", "/endless").status == 200
    upload = raw.request(gateway, "POST", "/endless/m", query={"uploads": ""}).xml().findtext("UploadId")
    streaming = {"x_amz_trailer": "x-amz-checksum-crc32", "content_encoding": "aws-chunked"}
    aws = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    framed = b"%x\r\n%s\r\n" % (len(aws), aws)
    cases = {
        "an object": (head_of(gateway, "PUT", "/endless/k", more=CHUNKED), b"", CHUNK, b"EntityTooLarge"),
        "a part": (head_of(gateway, "PUT", "/endless/m", [("partNumber", "1"), ("uploadId", upload)], more=CHUNKED),
                   b"", CHUNK, b"EntityTooLarge"),
        "an aws-chunked object": (head_of(gateway, "PUT", "/endless/k", payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                                          more=CHUNKED, **streaming), b"", framed, b"EntityTooLarge"),
        "keys to delete": (head_of(gateway, "POST", "/endless", [("delete", "")], more=CHUNKED, content_md5=raw.content_md5(b"")),
                           b"8\r\n<Delete>\r\n", b"1000\r\n" + b" " * 0x1000 + b"\r\n", b"MaxMessageLengthExceeded"),
        "parts to complete": (head_of(gateway, "POST", "/endless/m", [("uploadId", upload)], more=CHUNKED),
                              b"19\r\n<CompleteMultipartUpload>\r\n", b"1000\r\n" + b" " * 0x1000 + b"\r\n", b"MaxMessageLengthExceeded"),
        "without a signature": (f"PUT /endless/k HTTP/1.1\r\nHost: {gateway.host}\r\n".encode() + CHUNKED + b"\r\n",
                                b"", CHUNK, b"AccessDenied"),
        "with nothing to read it": (head_of(gateway, "GET", "/endless/k", more=CHUNKED), b"", CHUNK, b""),
        "an extension": (head_of(gateway, "PUT", "/endless/k", more=CHUNKED), b"5;", b"a" * 65536, b""),
        "trailers": (head_of(gateway, "PUT", "/endless/k", more=CHUNKED), b"0\r\n", b"X-Trailer: a\r\n" * 4000, b""),
        "a size": (head_of(gateway, "PUT", "/endless/k", more=CHUNKED), b"", b"0" * 65536, b""),
        "a target": (b"GET /", b"", b"a" * 65536, b""),
        "fields": (f"GET / HTTP/1.1\r\nHost: {gateway.host}\r\n".encode(), b"", b"X-A: b\r\n" * 4000, b""),
        "empty lines": (b"", b"", b"\r\n" * 30000, b""),
    }
    before = soak.Usage(gateway)
    for name, (head, first, piece, code) in cases.items():
        answer, sent = flood(gateway, head, first, piece)
        # To what is longer than its memory the HTTP library itself says 500.
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 500" if name in ("an extension", "a size")
                                                else b"HTTP/1.1 4")), (name, answer[:300])
        assert code in answer, (name, sent, answer[-900:])
        assert not exists(gateway, "/endless/k"), name
    usage = soak.Usage(gateway)
    assert usage["memory"] < before["memory"] + (64 << 20) or soak.is_sanitized(), (before.show(), usage.show())
    parts = raw.request(gateway, "GET", "/endless/m", query={"uploadId": upload})
    assert parts.status == 200 and not list(parts.xml().iter("Part")), parts


# ---- XML ----

LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 10))
BOMBS = {
    "a billion laughs": (b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">' + LAUGHS + b"]>", b"&l9;"),
    "quadratic": (b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 50000 + b'">]>', b"&a;" * 5000),
    "a file": (b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>', b"&f;"),
    "a URL": (b'<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">', b"k"),
    "a parameter entity": (b'<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>', b"k"),
    "depth": (b"", b"<a>" * 100000),
    "attributes": (b"", b"<a " + b"".join(b'a%d="" ' % i for i in range(20000)) + b"/><a "),
    "one long name": (b"", b"<" + b"a" * 500000 + b">"),
    "one long text": (b"", b"k" * 900000),
    "a comment": (b"", b"<!--" + b"-" * 100000),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_xml_bombs(gateway, bucket, bomb):
    prologue, inside = bomb
    upload = raw.request(gateway, "POST", f"/{bucket}/m", query={"uploads": ""}).xml().findtext("UploadId")
    raw.request(gateway, "PUT", f"/{bucket}/k", body=b"x")
    before = soak.Usage(gateway)
    name = data.new_bucket_name()
    for method, path, query, shape in (
            ("POST", f"/{bucket}", {"delete": ""}, b"<Delete><Object><Key>%s</Key></Object></Delete>"),
            ("POST", f"/{bucket}/m", {"uploadId": upload},
             b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>"),
            ("PUT", f"/{bucket}/k", {"tagging": ""},
             b"<Tagging><TagSet><Tag><Key>%s</Key><Value>v</Value></Tag></TagSet></Tagging>"),
            ("PUT", f"/{bucket}", {"tagging": ""},
             b"<Tagging><TagSet><Tag><Key>k</Key><Value>%s</Value></Tag></TagSet></Tagging>"),
            ("PUT", f"/{name}", {}, b"<CreateBucketConfiguration><LocationConstraint>%s</LocationConstraint>"
                                    b"</CreateBucketConfiguration>")):
        body = prologue + shape.replace(b"%s", inside)
        began = time.monotonic()
        answer = raw.request(gateway, method, path, query, {"content-md5": raw.content_md5(body)}, body)
        assert answer.status == 400, (method, query, answer)
        assert answer.code in ("MalformedXML", "EntityTooLarge", "MaxMessageLengthExceeded", "KeyTooLongError", "InvalidTag"), answer
        assert b"root:" not in answer.body
        assert time.monotonic() - began < 10
    usage = soak.Usage(gateway)
    assert usage["memory"] < before["memory"] + (64 << 20) or soak.is_sanitized(), (before.show(), usage.show())
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == b"x"


# ---- Paths ----

# As they are sent, below the bucket.
BAD_KEYS = [
    "..", "../x", "a/../../x", "a/..", "./x", "a/./x", "/x", "a//x",
    "%2e%2e", "%2e%2e/x", "%2E%2E%2Fx", "a/%2e%2e/%2e%2e/x", "..%2f..%2fx", "..%2f..%2f..%2fetc%2fpasswd", "%2fx", "%2f%2fx",
    "a%00", "a%00b", "%00", "..%00/x",
    "%c0%ae%c0%ae/x", "%c0%ae%c0%ae%c0%afx", "a%c0%afx", "%e0%80%ae%e0%80%ae/x", "a%e0%80%afx", "a%f0%80%80%afx", "%c1%9c",
    "a%c0%80",                                  # overlong
    "%ed%a0%80", "%ed%bf%bf", "%f4%90%80%80", "%fe", "%ff", "%80", "%c3", "a%e2%82", "\xff", "\xc0\xaf",
    "%", "%2", "%zz", "%-1", "%u002e",
    ".railgate", ".railgate/tmp/x", ".railgate/locks", "%2erailgate/tmp/x", ".railgate-tmp-x",
]


@pytest.fixture
def beside(gateway):
    """A file next to the tree, which nothing may read, change or hide."""
    path = os.path.join(os.path.dirname(gateway.tree), "x")
    with open(path, "wb") as file:
        file.write(SECRET)
    yield path
    with open(path, "rb") as file:
        assert file.read() == SECRET
    os.unlink(path)


def names_around(gateway, bucket):
    """All names of the bucket but our own, those of the tree, and those beside it."""
    found = set()
    inside = os.path.join(gateway.tree, bucket)
    for top in (os.path.dirname(gateway.tree), gateway.tree, inside):
        for directory, directories, files in os.walk(os.fsencode(top)):
            directories[:] = [name for name in directories if name != b".railgate"]
            found |= {os.path.join(directory, name) for name in (*directories, *files)}
            if top != inside:
                break
    return found


@pytest.mark.parametrize("key", BAD_KEYS)
def test_paths_that_lead_elsewhere(gateway, bucket, beside, key):
    raw.request(gateway, "PUT", f"/{bucket}/a/inside", body=b"inside")
    before = names_around(gateway, bucket)
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        more = b"Connection: close\r\n" + (b"Content-Length: 1\r\n" if method == "PUT" else b"")
        answer = raw.talk(gateway, head_of(gateway, method, f"/{bucket}/{key}", more=more) + (b"x" if method == "PUT" else b""))
        # To delete what cannot be there is a success, as S3 says.
        allowed = (b"HTTP/1.1 4", b"HTTP/1.1 204") if method == "DELETE" else (b"HTTP/1.1 4",)
        assert answer.startswith(allowed), (method, key, answer[:600])
        assert SECRET not in answer and b"root:" not in answer
    answer = raw.request(gateway, "PUT", f"/{bucket}/copied", headers={"x-amz-copy-source": f"/{bucket}/{key}"})
    assert 400 <= answer.status < 500, (key, answer)
    assert names_around(gateway, bucket) == before
    assert raw.request(gateway, "GET", f"/{bucket}/a/inside").body == b"inside"


@pytest.mark.parametrize("path", ["/..", "/../x", "/%2e%2e/x", "/%2e%2e%2fx", "/.", "/./x", "//x", "//etc/passwd", "/.railgate/x",
                                  "/%00/x", "/%c0%ae%c0%ae/x", "/a%2f..%2f..%2fx", "/BUCKET/x"])
def test_buckets_that_lead_elsewhere(gateway, bucket, beside, path):
    before = names_around(gateway, bucket)
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        more = b"Connection: close\r\n" + (b"Content-Length: 0\r\n" if method == "PUT" else b"")
        answer = raw.talk(gateway, head_of(gateway, method, path, more=more))
        assert answer.startswith(b"HTTP/1.1 4"), (method, path, answer[:600])
        assert SECRET not in answer and b"root:" not in answer
    assert names_around(gateway, bucket) == before


def test_names_elsewhere_than_in_the_path(gateway, bucket, beside):
    """In XML and in queries they are held to the same."""
    raw.request(gateway, "PUT", f"/{bucket}/a/inside", body=b"inside")
    before = names_around(gateway, bucket)
    keys = ["../x", "../../x", "a/../../x", "/x", ".railgate/locks", "..", "a/.."]
    body = ("<Delete>" + "".join(f"<Object><Key>{key}</Key></Object>" for key in keys) + "</Delete>").encode()
    answer = raw.request(gateway, "POST", f"/{bucket}", {"delete": ""}, {"content-md5": raw.content_md5(body)}, body)
    assert answer.status == 200, answer
    for key in (b"\xc0\xae\xc0\xae/x", b"a&#0;", b"\xed\xa0\x80", b"a\0b"):
        body = b"<Delete><Object><Key>" + key + b"</Key></Object></Delete>"
        answer = raw.request(gateway, "POST", f"/{bucket}", {"delete": ""}, {"content-md5": raw.content_md5(body)}, body)
        assert (answer.status, answer.code) == (400, "MalformedXML"), answer
    for prefix in ("../", "..", "/", "a/../../", ".railgate/", "./", "a//"):
        for query in ({"list-type": "2", "prefix": prefix}, {"prefix": prefix, "delimiter": "/"},
                      {"list-type": "2", "start-after": prefix, "prefix": prefix}, {"uploads": "", "prefix": prefix}):
            answer = raw.request(gateway, "GET", f"/{bucket}", query)
            assert answer.status == 200 and not list(answer.xml().iter("Contents")), (prefix, query, answer)
            assert not list(answer.xml().iter("CommonPrefixes")), (prefix, query, answer)
    for name in ("prefix", "marker", "delimiter", "start-after", "key-marker"):
        for value in ("%c0%ae", "%ed%a0%80", "%ff", "a%00"):
            headers = {}
            raw.sign("GET", gateway.host, f"/{bucket}", [], headers, raw.EMPTY_SHA256)
            answer = raw.send(gateway, "GET", f"/{bucket}?{name}={value}", headers)
            assert 400 <= answer.status < 500, (name, value, answer)
    for upload in ("../../x", "..", "%2e%2e", "a" * 32, "0" * 10000, "/"):
        answer = raw.request(gateway, "GET", f"/{bucket}/m", {"uploadId": upload})
        assert (answer.status, answer.code) == (404, "NoSuchUpload"), (upload, answer)
        answer = raw.request(gateway, "DELETE", f"/{bucket}/m", {"uploadId": upload})
        assert (answer.status, answer.code) == (404, "NoSuchUpload"), (upload, answer)
    assert names_around(gateway, bucket) == before


# ---- Connections that break ----

def settled(gateway, before):
    """Waits until no more is in use than before."""
    deadline = time.monotonic() + 30
    while True:
        now = soak.Usage(gateway)
        more = [name for name in ("connections", "requests", "stuck", "slots", "lanes") if now[name] > before[name]]
        more += [name for name in ("descriptors", "threads") if now[name] > before[name] + 4]
        if not more:
            return
        assert time.monotonic() < deadline, (more, before.show(), now.show())
        time.sleep(0.2)


def test_half_closed(gateway, bucket):
    body = data.content("half", 3 << 20)
    raw.request(gateway, "PUT", f"/{bucket}/k", body=body)
    before = soak.Usage(gateway)
    # All was said: the answer still comes, and then the end.
    for method, path, more, sent in (("GET", f"/{bucket}/k", b"", b""), ("PUT", f"/{bucket}/new", b"Content-Length: 5\r\n", b"hello")):
        with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
            connection.sendall(head_of(gateway, method, path, more=more) + sent)
            connection.shutdown(socket.SHUT_WR)
            answer, closed = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200") and closed, answer[:300]
        if method == "GET":
            assert answer.endswith(body[-1000:]) and len(answer) > len(body)
    assert raw.request(gateway, "GET", f"/{bucket}/new").body == b"hello"
    # It stops half-way: nobody waits for the rest.
    for half in (b"", b"GET", head_of(gateway, "GET", f"/{bucket}/k")[:-2],
                 head_of(gateway, "PUT", f"/{bucket}/half", more=b"Content-Length: 1000\r\n") + b"x" * 500,
                 head_of(gateway, "PUT", f"/{bucket}/half", more=CHUNKED) + b"1000\r\n" + b"x" * 500,
                 head_of(gateway, "PUT", f"/{bucket}/half", more=CHUNKED) + b"3\r\nabc\r\n",
                 head_of(gateway, "PUT", f"/{bucket}/half", more=CHUNKED) + b"3\r\nabc\r\n0\r\n",
                 head_of(gateway, "PUT", f"/{bucket}/half", more=b"Expect: 100-continue\r\nContent-Length: 1000\r\n")):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
            connection.sendall(half)
            connection.shutdown(socket.SHUT_WR)
            answer, closed = read_all(connection)
        assert closed and time.monotonic() - began < 15, half
        assert b"HTTP/1.1 200" not in answer, (half, answer)
        assert not exists(gateway, f"/{bucket}/half"), half
    settled(gateway, before)


def test_reset(gateway, bucket):
    """In the middle of heads, of bodies and of answers."""
    raw.request(gateway, "PUT", f"/{bucket}/k", body=data.content("reset", 8 << 20))
    listing = head_of(gateway, "GET", f"/{bucket}", [("list-type", "2")])
    before = soak.Usage(gateway)
    cases = [
        (b"GET / HT", 0), (listing, 0), (head_of(gateway, "GET", f"/{bucket}/k"), 0),
        (head_of(gateway, "GET", f"/{bucket}/k"), 100000),
        (head_of(gateway, "PUT", f"/{bucket}/broken", more=b"Content-Length: 4000000\r\n") + b"x" * 300000, 0),
        (head_of(gateway, "PUT", f"/{bucket}/broken", more=CHUNKED) + CHUNK, 0),
        (head_of(gateway, "POST", f"/{bucket}", [("delete", "")], more=b"Content-Length: 1000\r\n") + b"<Delete>", 0),
    ]
    for number in range(10 * len(cases)):
        sent, read = cases[number % len(cases)]
        connection = socket.create_connection(("127.0.0.1", gateway.port), 20)
        connection.sendall(sent)
        left = read
        while left > 0:
            piece = connection.recv(min(left, 65536))
            assert piece
            left -= len(piece)
        if number % 3 == 0:
            time.sleep(0.02)  # it is in the middle of it
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    settled(gateway, before)
    assert not exists(gateway, f"/{bucket}/broken")
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == data.content("reset", 8 << 20)


def test_readers_that_stop(start):
    """One that takes nothing more is left behind after the idle timeout; one that is slow is served."""
    gateway = start("--idle-timeout", "3s")
    body = data.content("slow", 24 << 20)
    raw.request(gateway, "PUT", "/slow")
    raw.request(gateway, "PUT", "/slow/k", body=body)
    before = soak.Usage(gateway)
    stopped = []
    for _ in range(8):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", gateway.port))
        one.sendall(head_of(gateway, "GET", "/slow/k"))
        assert one.recv(100)
        stopped.append(one)
    assert raw.request(gateway, "GET", "/slow/k").body == body
    settled(gateway, before)
    for one in stopped:
        one.close()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", gateway.port))
        slow.sendall(head_of(gateway, "GET", "/slow/k", more=b"Connection: close\r\n"))
        ends, got = time.monotonic() + 6, b""
        while time.monotonic() < ends:
            piece = slow.recv(4096)
            assert piece, "cut off although it reads"
            got += piece
            time.sleep(0.01)
        got += read_all(slow)[0]
    assert got.endswith(body), len(got)
