"""Who is let in: SigV4 in the header, in the URL and in chunks, right and wrong in every part."""
import datetime
import hashlib
import http.client

import data
import pytest
import raw


def refused(answer, status, *codes):
    assert (answer.status, answer.code) in {(status, code) for code in codes}, answer
    document = answer.xml()
    assert document.tag == "Error"
    assert document.findtext("Message")
    assert document.findtext("RequestId") == answer.headers["x-amz-request-id"]


def stored(gateway, path):
    return raw.request(gateway, "HEAD", path).status == 200


# ---- Header ----

def test_signed_header(gateway, bucket):
    body = b"signed"
    assert raw.request(gateway, "PUT", f"/{bucket}/k", body=body).status == 200
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == body
    assert raw.request(gateway, "PUT", f"/{bucket}/k2", body=body, payload=raw.UNSIGNED).status == 200
    assert raw.request(gateway, "GET", f"/{bucket}/k2").body == body


def test_no_signature(gateway, bucket):
    refused(raw.send(gateway, "GET", f"/{bucket}", {"host": gateway.host}), 403, "AccessDenied")
    refused(raw.send(gateway, "PUT", f"/{bucket}/k", {"host": gateway.host}, b"x"), 403, "AccessDenied")
    refused(raw.send(gateway, "GET", "/", {"host": gateway.host}), 403, "AccessDenied")


def test_wrong_secret_and_unknown_key(gateway, bucket):
    refused(raw.request(gateway, "GET", f"/{bucket}", secret="x" * 40), 403, "SignatureDoesNotMatch")
    refused(raw.request(gateway, "GET", f"/{bucket}", access="NOSUCHKEY00000000001"), 403, "InvalidAccessKeyId")
    answer = raw.request(gateway, "PUT", f"/{bucket}/k", body=b"x" * 200000, secret="x" * 40)
    refused(answer, 403, "SignatureDoesNotMatch")
    assert not stored(gateway, f"/{bucket}/k")


def test_signature_of_something_else(gateway, bucket):
    """Each signed part changed after signing."""
    def changed(method="GET", path=f"/{bucket}", query="", **headers):
        signed = {"x-amz-meta-a": "1"}
        raw.sign("GET", gateway.host, f"/{bucket}", [], signed, raw.EMPTY_SHA256)
        signed.update({name.replace("_", "-"): value for name, value in headers.items()})
        return raw.send(gateway, method, path + query, signed)

    assert changed().status == 200
    refused(changed(method="PUT"), 403, "SignatureDoesNotMatch")
    refused(changed(path=f"/{bucket}/other"), 403, "SignatureDoesNotMatch")
    refused(changed(query="?list-type=2"), 403, "SignatureDoesNotMatch")
    refused(changed(host="elsewhere"), 403, "SignatureDoesNotMatch")
    refused(changed(x_amz_meta_a="2"), 403, "SignatureDoesNotMatch")
    refused(changed(x_amz_content_sha256=raw.UNSIGNED), 403, "SignatureDoesNotMatch")


def test_every_amz_header_must_be_signed(gateway, bucket):
    headers = {}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, raw.UNSIGNED)
    headers["x-amz-meta-smuggled"] = "1"
    refused(raw.send(gateway, "PUT", f"/{bucket}/k", headers, b"x"), 403, "AccessDenied")
    target = raw.presign(gateway, "PUT", f"/{bucket}/k")
    refused(raw.send(gateway, "PUT", target, {"host": gateway.host, "x-amz-tagging": "a=b"}, b"x"),
            403, "AccessDenied")
    assert not stored(gateway, f"/{bucket}/k")


def test_clock_skew(gateway, bucket):
    now = datetime.datetime.utcnow()
    for minutes in (-20, 20):
        date = raw.amz_date(now + datetime.timedelta(minutes=minutes))
        refused(raw.request(gateway, "GET", f"/{bucket}", date=date), 403, "RequestTimeTooSkewed")
    for minutes in (-10, 10):
        date = raw.amz_date(now + datetime.timedelta(minutes=minutes))
        assert raw.request(gateway, "GET", f"/{bucket}", date=date).status == 200


def test_region_and_scope(gateway, bucket):
    answer = raw.request(gateway, "GET", f"/{bucket}", region="eu-west-1")
    refused(answer, 400, "AuthorizationHeaderMalformed")
    assert answer.xml().findtext("Region") == "us-east-1"


@pytest.mark.parametrize("value", [
    "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=", "Basic dXNlcjpwYXNz", "AWS4-HMAC-SHA512 x",
    "AWS4-HMAC-SHA256 Credential=a/b/c/d/e/f/g, SignedHeaders=host, Signature=" + "0" * 64,
    "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=, Signature=" + "0" * 64,
    "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=zz",
    "AWS4-HMAC-SHA256 " + "Credential=x, " * 400,
])
def test_malformed_header(gateway, bucket, value):
    headers = {"host": gateway.host, "x-amz-date": raw.amz_date(), "x-amz-content-sha256": raw.UNSIGNED,
               "authorization": value}
    answer = raw.send(gateway, "GET", f"/{bucket}", headers)
    assert answer.status in (400, 403), answer
    assert answer.code and answer.xml().findtext("Message")


def test_signature_version_2(gateway, bucket):
    headers = {"host": gateway.host, "date": "Mon, 01 Jan 2026 00:00:00 GMT",
               "authorization": "AWS RGTESTACCESSKEY00001:frJIUN8DYpKDtOLCwo//yllqDzg="}
    answer = raw.send(gateway, "GET", f"/{bucket}", headers)
    refused(answer, 400, "InvalidRequest")
    assert "Version 2" in answer.xml().findtext("Message")
    answer = raw.send(gateway, "GET", f"/{bucket}?AWSAccessKeyId=X&Signature=abc&Expires=2000000000",
                      {"host": gateway.host})
    refused(answer, 400, "InvalidRequest")


def test_payload_hash(gateway, bucket):
    path = f"/{bucket}/k"
    wrong = hashlib.sha256(b"other").hexdigest()
    refused(raw.request(gateway, "PUT", path, body=b"body", payload=wrong), 400, "XAmzContentSHA256Mismatch")
    refused(raw.request(gateway, "PUT", path, body=b"body", payload="nonsense"), 400, "InvalidArgument", "InvalidRequest")
    headers = {}
    raw.sign("PUT", gateway.host, path, [], headers, None)
    refused(raw.send(gateway, "PUT", path, headers, b"body"), 400, "InvalidRequest", "MissingSecurityHeader")
    assert not stored(gateway, path)


def test_path_is_signed_as_sent(gateway, bucket):
    for key in (*data.AWKWARD, *data.CONTROL):
        path = f"/{bucket}/{key}"
        put = raw.request(gateway, "PUT", path, body=key.encode())
        assert put.status == 200, (key, put)
        assert raw.request(gateway, "GET", path).body == key.encode()


# ---- URL ----

def test_presigned(gateway, bucket):
    target = raw.presign(gateway, "PUT", f"/{bucket}/a b+ü")
    assert raw.send(gateway, "PUT", target, {"host": gateway.host}, b"presigned").status == 200
    target = raw.presign(gateway, "GET", f"/{bucket}/a b+ü", [("response-content-type", "text/x; a=b")])
    answer = raw.send(gateway, "GET", target, {"host": gateway.host})
    assert answer.body == b"presigned" and answer.headers["content-type"] == "text/x; a=b"
    refused(raw.send(gateway, "PUT", target, {"host": gateway.host}, b"x"), 403, "SignatureDoesNotMatch")
    refused(raw.send(gateway, "GET", target.replace("a%3Db", "a%3Dc"), {"host": gateway.host}), 403,
            "SignatureDoesNotMatch")


def test_presigned_expiry(gateway, bucket):
    raw.request(gateway, "PUT", f"/{bucket}/k", body=b"x")
    ago = datetime.datetime.utcnow() - datetime.timedelta(hours=2)
    host = {"host": gateway.host}
    late = raw.presign(gateway, "GET", f"/{bucket}/k", expires=3600, date=raw.amz_date(ago))
    answer = raw.send(gateway, "GET", late, host)
    refused(answer, 403, "AccessDenied")
    assert "expired" in answer.xml().findtext("Message")
    in_time = raw.presign(gateway, "GET", f"/{bucket}/k", expires=3 * 3600, date=raw.amz_date(ago))
    assert raw.send(gateway, "GET", in_time, host).status == 200
    for expires in (604801, -1, 0, "x"):
        target = raw.presign(gateway, "GET", f"/{bucket}/k", expires=expires)
        refused(raw.send(gateway, "GET", target, host), 400, "AuthorizationQueryParametersError")
    future = raw.amz_date(datetime.datetime.utcnow() + datetime.timedelta(hours=1))
    target = raw.presign(gateway, "GET", f"/{bucket}/k", date=future)
    assert raw.send(gateway, "GET", target, host).status == 403


@pytest.mark.parametrize("parameter", ["X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders",
                                       "X-Amz-Signature"])
def test_presigned_without_a_part(gateway, bucket, parameter):
    path, _, query = raw.presign(gateway, "GET", f"/{bucket}/k").partition("?")
    query = "&".join(pair for pair in query.split("&") if not pair.startswith(parameter + "="))
    answer = raw.send(gateway, "GET", f"{path}?{query}", {"host": gateway.host})
    refused(answer, 400, "AuthorizationQueryParametersError")


def test_both_kinds_at_once(gateway, bucket):
    target = raw.presign(gateway, "GET", f"/{bucket}")
    headers = {}
    raw.sign("GET", gateway.host, f"/{bucket}", [], headers, raw.UNSIGNED)
    answer = raw.send(gateway, "GET", target, headers)
    assert answer.status in (400, 403), answer


# ---- Chunks ----

@pytest.mark.parametrize("size", [1, 65536, 70001])
def test_signed_chunks(gateway, bucket, size):
    body = data.content("chunks", 140001 if size > 1 else 300)
    answer = raw.put_signed_chunks(gateway, f"/{bucket}/k", body, size)
    assert answer.status == 200, answer
    assert answer.headers["etag"] == f'"{data.md5(body)}"'
    got = raw.request(gateway, "GET", f"/{bucket}/k")
    assert got.body == body
    assert "aws-chunked" not in (got.headers["content-encoding"] or "")


@pytest.mark.parametrize("sent, kept", [("aws-chunked,gzip", "gzip"), ("deflate,aws-chunked, gzip", "deflate, gzip"),
                                        ("aws-chunked, AWS-chunked", None)])
def test_signed_chunks_keep_the_other_encoding(gateway, bucket, sent, kept):
    answer = raw.put_signed_chunks(gateway, f"/{bucket}/k", b"zzz", headers={"content-encoding": sent})
    assert answer.status == 200, answer
    assert raw.request(gateway, "HEAD", f"/{bucket}/k").headers["content-encoding"] == kept


def test_signed_chunks_empty_body(gateway, bucket):
    assert raw.put_signed_chunks(gateway, f"/{bucket}/k", b"").status == 200
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == b""


@pytest.mark.parametrize("spoil", [0, 1, 2])
def test_one_chunk_signed_wrongly(gateway, bucket, spoil):
    body = data.content("chunks", 100000)
    answer = raw.put_signed_chunks(gateway, f"/{bucket}/k", body, 65536, spoil=spoil)
    refused(answer, 403, "SignatureDoesNotMatch")
    assert not stored(gateway, f"/{bucket}/k")


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_signed_chunks_with_trailer(gateway, bucket, algorithm):
    body = data.content("trailer", 70001)
    name = f"x-amz-checksum-{algorithm}"
    good = raw.checksum(algorithm, body)
    answer = raw.put_signed_chunks(gateway, f"/{bucket}/k", body, trailers=[(name, good)])
    assert answer.status == 200, answer
    assert answer.headers[name] == good
    wrong = raw.checksum(algorithm, b"other")
    refused(raw.put_signed_chunks(gateway, f"/{bucket}/bad", body, trailers=[(name, wrong)]), 400, "BadDigest")
    refused(raw.put_signed_chunks(gateway, f"/{bucket}/bad", body, trailers=[(name, good)], spoil=-1), 403,
            "SignatureDoesNotMatch")
    assert not stored(gateway, f"/{bucket}/bad")


@pytest.mark.parametrize("transfer_chunked", [False, True])
@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_unsigned_trailer(gateway, bucket, algorithm, transfer_chunked):
    """What newer SDKs send for streams, with a length and without."""
    body = data.content("trailer", 70001)
    name = f"x-amz-checksum-{algorithm}"
    good = raw.checksum(algorithm, body)
    answer = raw.put_unsigned_trailer(gateway, f"/{bucket}/k", body, [(name, good)], transfer_chunked=transfer_chunked)
    assert answer.status == 200, answer
    got = raw.request(gateway, "GET", f"/{bucket}/k", headers={"x-amz-checksum-mode": "ENABLED"})
    assert got.body == body and got.headers[name] == good
    wrong = raw.checksum(algorithm, b"other")
    refused(raw.put_unsigned_trailer(gateway, f"/{bucket}/bad", body, [(name, wrong)],
                                     transfer_chunked=transfer_chunked), 400, "BadDigest")
    refused(raw.put_unsigned_trailer(gateway, f"/{bucket}/bad", body, [(name, "!")],
                                     transfer_chunked=transfer_chunked), 400, "InvalidRequest", "MalformedTrailerError",
            "InvalidArgument", "InvalidDigest")
    assert not stored(gateway, f"/{bucket}/bad")


def broken_chunks(gateway, path, body, decoded, trailer="x-amz-checksum-crc32"):
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(decoded)}
    if trailer:
        headers["x-amz-trailer"] = trailer
    raw.sign("PUT", gateway.host, path, [], headers, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    return raw.send(gateway, "PUT", path, headers, body)


@pytest.mark.parametrize("body, decoded", [
    (b"5\r\nhello\r\n0\r\n\r\n", 5),                                          # announced trailer missing
    (b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", 6),         # fewer bytes than announced
    (b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", 4),         # more
    (b"5\r\nhelloX\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", 5),        # no end of line after a chunk
    (b"zz\r\nhello\r\n0\r\n\r\n", 5),
    (b"fffffffffffffffffff\r\nhello", 5),
    (b"-5\r\nhello\r\n0\r\n\r\n", 5),
    (b"5" * 100000, 5),                                                       # a line without end
    (b"5\r\nhel", 5),                                                         # cut off
    (b"", 5),
    (b"5\r\nhello\r\n0\r\nx-amz-checksum-sha1:qvTGHdzF6KLavt4PO0gs2a6pQ00=\r\n\r\n", 5),  # another trailer
])
def test_broken_chunks(gateway, bucket, body, decoded):
    answer = broken_chunks(gateway, f"/{bucket}/k", body, decoded)
    assert 400 <= answer.status < 500, answer
    assert answer.code and answer.xml().findtext("Message")
    assert not stored(gateway, f"/{bucket}/k")


def test_connection_survives_refusals(gateway, bucket):
    """Small refused bodies are drained: the same connection serves the next request."""
    connection = raw.connect(gateway)
    for _ in range(3):
        answer = raw.request(gateway, "PUT", f"/{bucket}/k", body=b"x" * 100000, secret="wrong" * 8, connection=connection)
        refused(answer, 403, "SignatureDoesNotMatch")
        if answer.headers["connection"] == "close":
            connection = raw.connect(gateway)
        assert raw.request(gateway, "GET", f"/{bucket}", connection=connection).status == 200
    connection.close()


def test_body_cut_off(gateway, bucket):
    """A client that breaks off in the middle leaves nothing."""
    headers = {"content-length": "100000"}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, raw.UNSIGNED)
    connection = raw.connect(gateway)
    connection.putrequest("PUT", f"/{bucket}/k", skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"x" * 50000)
    connection.close()
    assert not stored(gateway, f"/{bucket}/k")


def test_expect_continue(gateway, bucket):
    """100-continue is sent before the body is wanted, and not at all when the request is refused."""
    def head(secret):
        headers = {"content-length": "5", "expect": "100-continue"}
        raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, raw.UNSIGNED, secret=secret, unsigned=("expect",))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"PUT /{bucket}/k HTTP/1.1\r\n{lines}\r\n".encode()

    import socket
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        connection.sendall(head(raw.SECRET_KEY))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100")
        connection.sendall(b"hello")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", gateway.port), 20) as connection:
        connection.sendall(head("x" * 40))
        assert connection.recv(65536).startswith(b"HTTP/1.1 403")


def test_http_errors_are_survived(gateway):
    for junk in (b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET\x00 / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
                 b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                 b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                 b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n"):
        answer = raw.talk(gateway, junk, timeout=3)
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 505", b"HTTP/1.1 501")), answer[:300]
    status, _ = gateway.admin("/-/ready")
    assert status == 200
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection = raw.connect(gateway)
        connection.sock = None
        connection.request("GET", "/", headers={"X-Long": "x" * 200000})
        answer = connection.getresponse()
        if answer.status >= 400:
            raise ConnectionError("refused, as it should be")
