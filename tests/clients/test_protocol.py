"""The finer points of the protocol: what newer SDKs send, what must be refused before anything is
stored, what stands in answers beside status and code."""
import base64
import datetime
import re

import data
import pytest
import raw

pytestmark = pytest.mark.store

PART = 5 << 20
DC_TOKEN = "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"
TOKENS = [
    {"x-amz-rdma-token": DC_TOKEN},
    {"x-amz-rdma-token": DC_TOKEN + ":00007f3a5c500000:0000000000100000"},
    {"x-amz-rdma-token": base64.b64encode(DC_TOKEN.encode()).decode()},
    {"x-amz-rdma-token": "rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00400000:00182ac7"},
    {"x-amz-rdma-token": "7f3a5c400000:400000:ofi1:tcp;ofi_rxm:02004e20c00002110000000000000000:1f"},
    {"x-rdma-info": DC_TOKEN},
    {"x-cuobj-rdma-descr": DC_TOKEN, "x-cuobj-content-length": "4096",
     "x-cuobj-remote-buf-start": str(0x7F3A5C400000)},
    {"x-amz-meta-rdma-token": DC_TOKEN},
]


@pytest.fixture
def call(gateway):
    """call(method, path, status, code, ...): a signed request and what it must answer."""

    def call_one(method, path, status=200, code=None, **how):
        answer = raw.request(gateway, method, path, **how)
        assert answer.status == status, answer
        if code:
            assert answer.code == code, answer
        return answer

    return call_one


def complete(parts, extra=lambda number: ""):
    items = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag>{extra(n)}</Part>" for n, e in parts)
    return f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode()


def start_upload(call, bucket, key="m", **headers):
    answer = call("POST", f"/{bucket}/{key}", query={"uploads": ""},
                  headers={name.replace("_", "-"): value for name, value in headers.items()})
    return answer.xml().findtext("UploadId")


# ---- RDMA: a token is served, declined or refused, and never ignored ----

@pytest.mark.parametrize("token", TOKENS, ids=lambda token: "+".join(token))
def test_a_put_with_a_token_is_never_an_object(call, bucket, token):
    for payload in (raw.UNSIGNED, raw.EMPTY_SHA256):
        answer = call("PUT", f"/{bucket}/k", 501, "RDMANotSupported", headers=token, payload=payload)
        assert answer.headers["x-amz-rdma-reply"] == "501" and answer.headers["etag"] is None
        call("HEAD", f"/{bucket}/k", 404)
    upload = start_upload(call, bucket)
    answer = call("PUT", f"/{bucket}/m", 501, "RDMANotSupported", headers=token,
                  query={"partNumber": "1", "uploadId": upload})
    assert answer.headers["x-amz-rdma-reply"] == "501" and answer.headers["etag"] is None
    assert not list(call("GET", f"/{bucket}/m", query={"uploadId": upload}).xml().iter("Part"))
    # An object that is there stays as it is.
    call("PUT", f"/{bucket}/k", body=b"kept")
    call("PUT", f"/{bucket}/k", 501, "RDMANotSupported", headers=token)
    call("PUT", f"/{bucket}/k", 501, "RDMANotSupported", headers={**token, "x-amz-copy-source": f"/{bucket}/k"})
    assert call("GET", f"/{bucket}/k").body == b"kept"


@pytest.mark.parametrize("name", ["x-amz-rdma-token", "X-Amz-Rdma-Token", "x-rdma-info", "X-CuObj-Rdma-Descr",
                                  "X-Amz-Rdma-Protocol", "x-amz-meta-rdma-token"])
def test_a_token_in_the_query_is_refused(gateway, call, bucket, name):
    """Signers of URLs lift fields into the query: no reason to store an empty object."""
    call("PUT", f"/{bucket}/k", 400, "InvalidRDMAToken", query={name: DC_TOKEN})
    target = raw.presign(gateway, "PUT", f"/{bucket}/k", [(name, DC_TOKEN)])
    answer = raw.send(gateway, "PUT", target, {"host": gateway.host})
    assert (answer.status, answer.code) == (400, "InvalidRDMAToken"), answer
    call("HEAD", f"/{bucket}/k", 404)


@pytest.mark.parametrize("token", TOKENS[:6], ids=lambda token: "+".join(token))
def test_a_get_with_a_token_brings_the_object(call, bucket, token):
    """Nobody is at these addresses, or no NIC is here: the object comes by HTTP, and the answer says so."""
    call("PUT", f"/{bucket}/k", body=b"0123456789")
    got = call("GET", f"/{bucket}/k", headers=token)
    assert got.body == b"0123456789" and got.headers["x-amz-rdma-reply"] == "501"
    assert re.fullmatch("http:(no-transport|unreachable|rdma-off)", got.headers["x-railgate-path"])
    got = call("GET", f"/{bucket}/k", 206, headers={**token, "range": "bytes=2-3"})
    assert got.body == b"23" and got.headers["x-amz-rdma-reply"] == "501"
    for status, headers in ((304, {"if-none-match": "*"}), (412, {"if-match": '"o"'})):
        assert call("GET", f"/{bucket}/k", status, headers={**token, **headers}).headers["x-amz-rdma-reply"] is None
    assert call("HEAD", f"/{bucket}/k", headers=token).headers["x-amz-rdma-reply"] is None


def test_with_rdma_off(start):
    gateway = start("--rdma", "off")
    raw.request(gateway, "PUT", "/plain")
    raw.request(gateway, "PUT", "/plain/k", body=b"0123456789")
    for token in TOKENS:
        got = raw.request(gateway, "GET", "/plain/k", headers=token)
        assert got.body == b"0123456789" and got.headers["x-railgate-path"] == "http:rdma-off", got
        put = raw.request(gateway, "PUT", "/plain/new", headers=token)
        assert (put.status, put.code) == (501, "RDMANotSupported"), put
        assert put.headers["x-railgate-path"] == "declined:rdma-off" and put.headers["x-amz-rdma-reply"] == "501"
        assert raw.request(gateway, "HEAD", "/plain/new").status == 404
    for path in ("prepare", "ready", "cancel"):
        answer = raw.request(gateway, "POST", f"/.hipobj-rc/{path}")
        assert answer.status == 501 and answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
        assert answer.headers["x-amz-rdma-reply"] is None
    answer = raw.request(gateway, "POST", "/.s3rdma-rc/connect")
    assert answer.status == 501 and answer.headers["x-amz-rdma-reply"] == "501"


def test_bad_tokens(call, gateway, bucket):
    for token in ("", "nonsense", DC_TOKEN[:-1], DC_TOKEN.replace("01a2b3", "000000"), DC_TOKEN + ":1:2"):
        answer = call("PUT", f"/{bucket}/k", 400, "InvalidRDMAToken", headers={"x-amz-rdma-token": token})
        assert answer.headers["x-amz-rdma-reply"] is None
    call("PUT", f"/{bucket}/k", 400, "InvalidRequest", headers={"x-amz-rdma-token": DC_TOKEN}, body=b"both")
    for name in ("x-amz-rdma-token", "x-rdma-info", "x-cuobj-rdma-descr"):
        call("PUT", f"/{bucket}/k", 403, "AccessDenied", headers={name: DC_TOKEN}, unsigned=(name,))
        target = raw.presign(gateway, "PUT", f"/{bucket}/k")
        answer = raw.send(gateway, "PUT", target, {"host": gateway.host, name: DC_TOKEN})
        assert (answer.status, answer.code) == (403, "AccessDenied"), answer
    call("HEAD", f"/{bucket}/k", 404)


def test_the_path_is_always_said(call, bucket):
    assert call("PUT", f"/{bucket}/k", body=b"x").headers["x-railgate-path"] == "http:no-token"
    assert call("GET", f"/{bucket}/k").headers["x-railgate-path"] == "http:no-token"


# ---- Answers ----

def test_every_answer_is_labelled(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    for method, path, status in (("GET", f"/{bucket}/k", 200), ("GET", f"/{bucket}/n", 404), ("HEAD", f"/{bucket}/n", 404),
                                 ("DELETE", f"/{bucket}/n", 204), ("GET", "/", 200)):
        answer = call(method, path, status)
        assert re.fullmatch("[0-9A-F]{16}", answer.headers["x-amz-request-id"])
        assert answer.headers["x-amz-id-2"] and answer.headers["server"] == "Railgate" and answer.headers["date"]


def test_errors_name_their_subject(call, bucket):
    assert call("GET", f"/{bucket}/n n", 404, "NoSuchKey").xml().findtext("Key") == "n n"
    assert call("GET", "/absent-bucket", 404, "NoSuchBucket").xml().findtext("BucketName") == "absent-bucket"
    assert call("GET", f"/{bucket}/n", 404).xml().findtext("Resource") == f"/{bucket}/n"
    call("PUT", f"/{bucket}/k", body=b"0123456789")
    document = call("GET", f"/{bucket}/k", 416, "InvalidRange", headers={"range": "bytes=10-"}).xml()
    assert document.findtext("ActualObjectSize") == "10" and document.findtext("RangeRequested") == "bytes=10-"
    document = call("GET", f"/{bucket}/k", 412, "PreconditionFailed", headers={"if-match": '"o"'}).xml()
    assert document.findtext("Condition") == "If-Match"
    document = call("GET", f"/{bucket}", 400, "InvalidArgument", query={"max-keys": "x"}).xml()
    assert (document.findtext("ArgumentName"), document.findtext("ArgumentValue")) == ("max-keys", "x")
    assert call("POST", f"/{bucket}/k", 405, "MethodNotAllowed").headers["allow"]


def test_wrong_signatures_are_explained(gateway, bucket):
    answer = raw.request(gateway, "GET", f"/{bucket}", secret="x" * 40)
    document = answer.xml()
    assert document.findtext("AWSAccessKeyId") == raw.ACCESS_KEY
    assert document.findtext("StringToSign").startswith("AWS4-HMAC-SHA256\n")
    assert document.findtext("CanonicalRequest").startswith(f"GET\n/{bucket}\n")
    assert document.findtext("SignatureProvided")
    date = raw.amz_date(datetime.datetime.utcnow() - datetime.timedelta(hours=1))
    document = raw.request(gateway, "GET", f"/{bucket}", date=date).xml()
    assert document.findtext("Code") == "RequestTimeTooSkewed" and document.findtext("MaxAllowedSkewMilliseconds") == "900000"


def test_head_has_no_body(gateway, bucket):
    for path in (f"/{bucket}/nothing", "/absent-bucket"):
        headers = {"connection": "close"}
        raw.sign("HEAD", gateway.host, path, [], headers, raw.EMPTY_SHA256)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        answer = raw.talk(gateway, f"HEAD {path} HTTP/1.1\r\n{lines}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 404") and answer.endswith(b"\r\n\r\n") and b"<" not in answer


# ---- Who is let in ----

def test_session_tokens_are_not_ignored(call, gateway, bucket):
    answer = raw.request(gateway, "GET", f"/{bucket}", headers={"x-amz-security-token": "t"})
    assert answer.status in (400, 403, 501) and answer.code, answer
    target = raw.presign(gateway, "GET", f"/{bucket}/k", [("X-Amz-Security-Token", "t")])
    answer = raw.send(gateway, "GET", target, {"host": gateway.host})
    assert answer.status in (400, 403, 501) and answer.code, answer


def test_expected_bucket_owner(call, bucket):
    owner = call("GET", "/").xml().findtext("Owner/ID")
    assert re.fullmatch("[0-9a-f]{64}", owner)
    call("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-expected-bucket-owner": owner})
    for name in ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"):
        call("PUT", f"/{bucket}/c", 403, "AccessDenied", headers={name: "111122223333", "x-amz-copy-source": f"/{bucket}/k"})
    call("GET", f"/{bucket}/k", 403, "AccessDenied", headers={"x-amz-expected-bucket-owner": "111122223333"})
    call("HEAD", f"/{bucket}/c", 404)


def test_canned_acls(call, bucket):
    for acl in ("private", "bucket-owner-full-control"):
        call("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-acl": acl})
        call("PUT", f"/{bucket}", query={"acl": ""}, headers={"x-amz-acl": acl})
        call("PUT", f"/{bucket}/k", query={"acl": ""}, headers={"x-amz-acl": acl})
    call("PUT", f"/{bucket}/k", 400, "InvalidArgument", body=b"x", headers={"x-amz-acl": "nonsense"})
    call("PUT", f"/{bucket}/n", 404, "NoSuchKey", query={"acl": ""}, headers={"x-amz-acl": "private"})


def test_presigned_with_signed_headers(gateway, bucket):
    headers = {"x-amz-meta-a": "1", "content-type": "text/x"}
    target = raw.presign(gateway, "PUT", f"/{bucket}/k", headers=headers)
    answer = raw.send(gateway, "PUT", target, {"host": gateway.host, **headers}, b"x")
    assert answer.status == 200, answer
    answer = raw.send(gateway, "PUT", target, {"host": gateway.host, **headers, "x-amz-meta-a": "2"}, b"x")
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
    assert raw.request(gateway, "HEAD", f"/{bucket}/k").headers["x-amz-meta-a"] == "1"


# ---- Bodies ----

def test_chunked_transfer_coding_alone(call, bucket):
    """A stream of unknown length that is not aws-chunked."""
    body = data.content("stream", 300000)
    pieces = [body[i:i + 7001] for i in range(0, len(body), 7001)]
    assert call("PUT", f"/{bucket}/k", body=pieces).headers["etag"] == f'"{data.md5(body)}"'
    assert call("GET", f"/{bucket}/k").body == body


def test_stream_of_unknown_length(gateway, bucket):
    """aws-chunked in chunked transfer coding, and nobody says how long it is."""
    body = data.content("stream", 200001)
    trailer = ("x-amz-checksum-crc32", raw.checksum("crc32", body))
    headers = {"content-encoding": "aws-chunked", "x-amz-trailer": trailer[0], "x-amz-sdk-checksum-algorithm": "CRC32"}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    wire = raw.chunked_unsigned(body, trailers=[trailer])
    answer = raw.send(gateway, "PUT", f"/{bucket}/k", headers, [wire[i:i + 50001] for i in range(0, len(wire), 50001)])
    assert answer.status == 200 and answer.headers[trailer[0]] == trailer[1], answer
    assert raw.request(gateway, "GET", f"/{bucket}/k").body == body
    assert raw.request(gateway, "HEAD", f"/{bucket}/k").headers["content-encoding"] is None


def test_encoded_length_without_the_decoded_one(gateway, bucket):
    headers = {"content-encoding": "aws-chunked"}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    answer = raw.send(gateway, "PUT", f"/{bucket}/k", headers, raw.chunked_unsigned(b"x"))
    assert (answer.status, answer.code) == (411, "MissingContentLength"), answer


@pytest.mark.parametrize("wire", [b"5\r\nhello\r\n", b"3\r\nhello\r\n0\r\n\r\n", b"x\r\nhello\r\n0\r\n\r\n",
                                  b"5\r\nhello0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n\r\nX"])
def test_broken_framing(gateway, call, bucket, wire):
    """To S3 all of it is a body that ended too early."""
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "5"}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    answer = raw.send(gateway, "PUT", f"/{bucket}/k", headers, wire)
    assert (answer.status, answer.code) == (400, "IncompleteBody"), answer
    call("HEAD", f"/{bucket}/k", 404)


@pytest.mark.parametrize("headers", [
    {"x-amz-sdk-checksum-algorithm": "CRC32"},
    {"x-amz-sdk-checksum-algorithm": "MD4"},
    {"x-amz-sdk-checksum-algorithm": "SHA1", "x-amz-checksum-crc32": raw.checksum("crc32", b"body")},
    {"x-amz-trailer": "x-amz-checksum-crc32"},
    {"x-amz-checksum-crc32": raw.checksum("crc32", b"body") + "-1"},
    {"x-amz-checksum-crc32": ""},
    {"x-amz-checksum-algorithm": "MD4"},
    {"x-amz-checksum-algorithm": "SHA1", "x-amz-checksum-crc32": raw.checksum("crc32", b"body")},
])
def test_checksums_that_contradict_themselves(call, bucket, headers):
    call("PUT", f"/{bucket}/k", 400, "InvalidRequest", body=b"body", headers=headers)
    call("HEAD", f"/{bucket}/k", 404)


def test_a_checksum_on_demand(call, bucket):
    """Clients that cannot compute one name the algorithm and take ours."""
    put = call("PUT", f"/{bucket}/k", body=b"body", headers={"x-amz-checksum-algorithm": "CRC64NVME"})
    assert put.headers["x-amz-checksum-crc64nvme"] == raw.checksum("crc64nvme", b"body")


def test_header_and_trailer_at_once(gateway, bucket):
    headers = {"x-amz-checksum-crc32": raw.checksum("crc32", b"body")}
    answer = raw.put_unsigned_trailer(gateway, f"/{bucket}/k", b"body", [("x-amz-checksum-sha1", raw.checksum("sha1", b"body"))],
                                      headers=headers)
    assert (answer.status, answer.code) == (400, "InvalidRequest"), answer


def test_bad_digests_show_both(call, bucket):
    document = call("PUT", f"/{bucket}/k", 400, "BadDigest", body=b"body",
                    headers={"content-md5": raw.content_md5(b"other")}).xml()
    assert document.findtext("CalculatedDigest") == raw.content_md5(b"body")
    assert document.findtext("ExpectedDigest") == raw.content_md5(b"other")


def test_unprotected_multi_delete(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    body = b"<Delete><Object><Key>k</Key></Object></Delete>"
    answer = call("POST", f"/{bucket}", 400, "InvalidRequest", query={"delete": ""}, body=body, payload=raw.UNSIGNED)
    assert "Content-MD5" in answer.xml().findtext("Message")
    call("HEAD", f"/{bucket}/k")
    for headers in ({"content-md5": raw.content_md5(body)}, {"x-amz-checksum-crc32": raw.checksum("crc32", body)}):
        call("POST", f"/{bucket}", query={"delete": ""}, body=body, payload=raw.UNSIGNED, headers=headers)
    call("HEAD", f"/{bucket}/k", 404)
    call("POST", f"/{bucket}", 400, "BadDigest", query={"delete": ""}, body=body, payload=raw.UNSIGNED,
         headers={"x-amz-checksum-crc32": raw.checksum("crc32", b"other")})


# ---- Objects ----

def test_if_range(call, bucket):
    etag = call("PUT", f"/{bucket}/k", body=b"0123456789").headers["etag"]
    modified = call("HEAD", f"/{bucket}/k").headers["last-modified"]
    for value, status in ((etag, 206), (modified, 206), ('"other"', 200), ("Mon, 01 Jan 2001 00:00:00 GMT", 200)):
        got = call("GET", f"/{bucket}/k", status, headers={"range": "bytes=0-1", "if-range": value})
        assert len(got.body) == (2 if status == 206 else 10)


def test_part_number_of_a_plain_object(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"0123456789")
    got = call("GET", f"/{bucket}/k", 206, query={"partNumber": "1"})
    assert got.body == b"0123456789" and got.headers["content-range"] == "bytes 0-9/10"
    call("GET", f"/{bucket}/k", 416, "InvalidPartNumber", query={"partNumber": "2"})
    call("GET", f"/{bucket}/k", 400, "InvalidRequest", query={"partNumber": "1"}, headers={"range": "bytes=0-1"})
    call("GET", f"/{bucket}/k", 400, "InvalidArgument", query={"partNumber": "0"})


def test_overrides_that_no_field_can_carry(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    call("GET", f"/{bucket}/k", 400, "InvalidArgument", query={"response-content-type": "a\r\nSet-Cookie: b"})


def test_conditional_delete(call, bucket):
    etag = call("PUT", f"/{bucket}/k", body=b"x").headers["etag"]
    call("DELETE", f"/{bucket}/k", 412, "PreconditionFailed", headers={"if-match": '"other"'})
    call("HEAD", f"/{bucket}/k")
    for name, value in (("if-none-match", "*"), ("if-none-match", etag), ("x-amz-if-match-size", "1"),
                        ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT"),
                        ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT"),
                        ("x-amz-if-match-last-modified-time", "Thu, 01 Jan 1970 00:00:00 GMT")):
        call("DELETE", f"/{bucket}/k", 501, "NotImplemented", headers={name: value})
    call("HEAD", f"/{bucket}/k")
    for condition in ("<Size>1</Size>", "<LastModifiedTime>Thu, 01 Jan 1970 00:00:00 GMT</LastModifiedTime>"):
        body = f"<Delete><Object><Key>k</Key>{condition}</Object></Delete>".encode()
        result = call("POST", f"/{bucket}", query={"delete": ""}, body=body).xml()
        assert (result.findtext("Error/Key"), result.findtext("Error/Code")) == ("k", "NotImplemented")
    call("DELETE", f"/{bucket}/k", 204, headers={"if-match": etag})
    call("HEAD", f"/{bucket}/k", 404)


def test_writes_without_conditions_refuse_them(call, bucket):
    """A precondition that nobody would look at is not taken."""
    upload = start_upload(call, bucket)
    part = {"partNumber": "1", "uploadId": upload}
    for name, value in (("if-match", '"e"'), ("if-none-match", "*"), ("x-amz-if-match-initiated-time", "x"),
                        ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT")):
        for method, path, query in (("DELETE", f"/{bucket}/m", {"uploadId": upload}), ("PUT", f"/{bucket}/m", part),
                                    ("POST", f"/{bucket}/m", {"uploads": ""}), ("DELETE", f"/{bucket}", {}),
                                    ("PUT", f"/{bucket}/k", {"tagging": ""})):
            call(method, path, 501, "NotImplemented", query=query, headers={name: value})
    assert not list(call("GET", f"/{bucket}/m", query={"uploadId": upload}).xml().iter("Part"))
    call("DELETE", f"/{bucket}/m", 204, query={"uploadId": upload})


def test_versions_are_not_there(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    call("GET", f"/{bucket}/k", 404, "NoSuchVersion", query={"versionId": "abc"})
    call("DELETE", f"/{bucket}/k", 404, "NoSuchVersion", query={"versionId": "abc"})
    call("GET", f"/{bucket}/k", 400, "InvalidArgument", query={"versionId": ""})
    call("PUT", f"/{bucket}/c", 404, "NoSuchVersion", headers={"x-amz-copy-source": f"/{bucket}/k?versionId=abc"})
    call("PUT", f"/{bucket}/c", headers={"x-amz-copy-source": f"/{bucket}/k?versionId=null"})
    body = b"<Delete><Object><Key>k</Key><VersionId>abc</VersionId></Object><Object><Key>c</Key><VersionId>null</VersionId></Object></Delete>"
    result = call("POST", f"/{bucket}", query={"delete": ""}, body=body).xml()
    assert (result.findtext("Error/Key"), result.findtext("Error/Code")) == ("k", "NoSuchVersion")
    assert result.findtext("Deleted/Key") == "c"
    versions = call("GET", f"/{bucket}", query={"versions": ""}).xml()
    assert [(v.findtext("Key"), v.findtext("VersionId"), v.findtext("IsLatest")) for v in versions.iter("Version")] == [
        ("k", "null", "true")]
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"versions": "", "version-id-marker": "x"})


def test_copies_and_checksums(call, bucket):
    body = data.content("copied", 50000)
    call("PUT", f"/{bucket}/k", body=body, headers={"x-amz-checksum-sha256": raw.checksum("sha256", body)})
    same = call("PUT", f"/{bucket}/same", headers={"x-amz-copy-source": f"/{bucket}/k"}).xml()
    assert same.findtext("ChecksumSHA256") == raw.checksum("sha256", body)
    other = call("PUT", f"/{bucket}/other", headers={
        "x-amz-copy-source": f"/{bucket}/k", "x-amz-checksum-algorithm": "CRC32"}).xml()
    assert other.findtext("ChecksumCRC32") == raw.checksum("crc32", body)
    head = call("HEAD", f"/{bucket}/other", headers={"x-amz-checksum-mode": "ENABLED"})
    assert head.headers["x-amz-checksum-crc32"] == raw.checksum("crc32", body)
    # Onto itself with another algorithm: the bytes stay, the checksum comes.
    call("PUT", f"/{bucket}/k", headers={"x-amz-copy-source": f"/{bucket}/k", "x-amz-checksum-algorithm": "CRC32C"})
    got = call("GET", f"/{bucket}/k", headers={"x-amz-checksum-mode": "ENABLED"})
    assert got.body == body and got.headers["x-amz-checksum-crc32c"] == raw.checksum("crc32c", body)


def test_copy_conditions_on_the_target(call, bucket):
    etag = call("PUT", f"/{bucket}/k", body=b"x").headers["etag"]
    source = {"x-amz-copy-source": f"/{bucket}/k"}
    call("PUT", f"/{bucket}/c", headers={**source, "if-none-match": "*"})
    call("PUT", f"/{bucket}/c", 412, "PreconditionFailed", headers={**source, "if-none-match": "*"})
    call("PUT", f"/{bucket}/c", headers={**source, "if-match": etag})
    call("PUT", f"/{bucket}/c", 412, "PreconditionFailed", headers={**source, "if-match": '"o"'})
    call("PUT", f"/{bucket}/n", 404, "NoSuchKey", headers={**source, "if-match": etag})


def test_copy_sources(call, bucket):
    key = "a+b c/%/?versionId=x"
    call("PUT", f"/{bucket}/{key}", body=b"odd")
    call("PUT", f"/{bucket}/c", headers={"x-amz-copy-source": f"{bucket}/{raw.quote(key)}"})
    assert call("GET", f"/{bucket}/c").body == b"odd"
    for source in ("", "/", bucket, f"/{bucket}/", f"{bucket}/%zz"):
        call("PUT", f"/{bucket}/d", 400, "InvalidArgument", headers={"x-amz-copy-source": source})
    for source in (f"{bucket}/../other/k", f"{bucket}/a/../../x", f"{bucket}/%2e%2e/x"):
        call("PUT", f"/{bucket}/d", 404, "NoSuchKey", headers={"x-amz-copy-source": source})


def test_object_attributes(call, bucket):
    upload = start_upload(call, bucket, x_amz_checksum_algorithm="CRC32")
    bodies = [b"a" * PART, b"b" * PART, b"tail"]
    etags = []
    for number, body in enumerate(bodies, 1):
        headers = {"x-amz-checksum-crc32": raw.checksum("crc32", body)}
        etags.append(call("PUT", f"/{bucket}/m", query={"partNumber": str(number), "uploadId": upload}, body=body,
                          headers=headers).headers["etag"])
    call("POST", f"/{bucket}/m", query={"uploadId": upload}, body=complete(
        enumerate(etags, 1), lambda n: f"<ChecksumCRC32>{raw.checksum('crc32', bodies[n - 1])}</ChecksumCRC32>"))

    def attributes(**headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return call("GET", f"/{bucket}/m", query={"attributes": ""}, headers={
            "x-amz-object-attributes": "ETag,ObjectParts,ObjectSize,StorageClass", **headers})

    answer = attributes()
    document = answer.xml()
    assert answer.headers["last-modified"]
    assert document.findtext("ETag").endswith("-3") and document.findtext("StorageClass") == "STANDARD"
    assert document.findtext("ObjectSize") == str(2 * PART + 4)
    assert document.findtext("ObjectParts/PartsCount") == "3" or document.findtext("ObjectParts/TotalPartsCount") == "3"
    sizes = [part.findtext("Size") for part in document.iter("Part")]
    assert sizes == [str(PART), str(PART), "4"]
    document = attributes(x_amz_max_parts="1", x_amz_part_number_marker="1").xml()
    assert [part.findtext("PartNumber") for part in document.iter("Part")] == ["2"]
    assert document.findtext("ObjectParts/IsTruncated") == "true"
    assert document.findtext("ObjectParts/NextPartNumberMarker") == "2"
    call("GET", f"/{bucket}/m", 400, "InvalidArgument", query={"attributes": ""})
    call("GET", f"/{bucket}/m", 400, "InvalidArgument", query={"attributes": ""},
         headers={"x-amz-object-attributes": "Nonsense"})


# ---- Multipart ----

def test_checksum_choices(call, bucket):
    for headers in ({"x-amz-checksum-algorithm": "MD4"}, {"x-amz-checksum-type": "COMPOSITE"},
                    {"x-amz-checksum-algorithm": "SHA1", "x-amz-checksum-type": "FULL_OBJECT"},
                    {"x-amz-checksum-algorithm": "CRC64NVME", "x-amz-checksum-type": "COMPOSITE"},
                    {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "OTHER"}):
        call("POST", f"/{bucket}/m", 400, "InvalidRequest", query={"uploads": ""}, headers=headers)
    assert not list(call("GET", f"/{bucket}", query={"uploads": ""}).xml().iter("Upload"))


@pytest.mark.parametrize("algorithm", [a for a in raw.ALGORITHMS if not a.startswith("crc")])
def test_checksums_that_cannot_be_combined(gateway, call, bucket, algorithm):
    """They are COMPOSITE over parts; by a header, by a trailer, by a copy, and read back everywhere."""
    name, tag = f"x-amz-checksum-{algorithm}", f"Checksum{algorithm.upper()}"
    call("POST", f"/{bucket}/m", 400, "InvalidRequest", query={"uploads": ""}, headers={
        "x-amz-checksum-algorithm": algorithm.upper(), "x-amz-checksum-type": "FULL_OBJECT"})
    upload = start_upload(call, bucket, x_amz_checksum_algorithm=algorithm.upper())
    pieces = [data.content(algorithm, PART), data.content(algorithm + "2", 1000), b"tail"]
    sums = [raw.checksum(algorithm, piece) for piece in pieces]
    query = {"uploadId": upload}
    call("PUT", f"/{bucket}/m", 400, "InvalidRequest", query={**query, "partNumber": "1"}, body=pieces[0])
    call("PUT", f"/{bucket}/m", 400, "BadDigest", query={**query, "partNumber": "1"}, body=pieces[0], headers={name: sums[1]})
    etags = [call("PUT", f"/{bucket}/m", query={**query, "partNumber": "1"}, body=pieces[0], headers={name: sums[0]}).headers["etag"]]
    call("PUT", f"/{bucket}/s", body=pieces[1] * 6000)
    copied = call("PUT", f"/{bucket}/m", query={**query, "partNumber": "2"}, headers={"x-amz-copy-source": f"/{bucket}/s"}).xml()
    sums[1] = raw.checksum(algorithm, pieces[1] * 6000)
    assert copied.findtext(tag) == sums[1]
    etags.append(copied.findtext("ETag"))
    etags.append(call("PUT", f"/{bucket}/m", query={**query, "partNumber": "3"}, body=pieces[2], headers={name: sums[2]}).headers["etag"])
    done = call("POST", f"/{bucket}/m", query=query, body=complete(
        enumerate(etags, 1), lambda n: f"<{tag}>{sums[n - 1]}</{tag}>")).xml()
    whole = raw.checksum(algorithm, b"".join(base64.b64decode(one) for one in sums)) + "-3"
    assert done.findtext(tag) == whole
    head = call("HEAD", f"/{bucket}/m", headers={"x-amz-checksum-mode": "ENABLED"})
    assert head.headers[name] == whole and head.headers["x-amz-checksum-type"] == "COMPOSITE"
    attributes = call("GET", f"/{bucket}/m", query={"attributes": ""}, headers={
        "x-amz-object-attributes": "Checksum,ObjectParts"}).xml()
    assert attributes.findtext(f"Checksum/{tag}") == whole.removesuffix("-3")
    assert [part.findtext(tag) for part in attributes.iter("Part")] == sums
    answer = raw.put_unsigned_trailer(gateway, f"/{bucket}/t", pieces[1], [(name, raw.checksum(algorithm, pieces[1]))])
    assert answer.status == 200 and answer.headers[name] == raw.checksum(algorithm, pieces[1]), answer
    answer = raw.put_unsigned_trailer(gateway, f"/{bucket}/t2", pieces[1], [(name, sums[0])])
    assert (answer.status, answer.code) == (400, "BadDigest"), answer
    copy = call("PUT", f"/{bucket}/c", headers={"x-amz-copy-source": f"/{bucket}/m", "x-amz-checksum-algorithm": algorithm.upper()}).xml()
    assert copy.findtext(tag) == raw.checksum(algorithm, pieces[0] + pieces[1] * 6000 + pieces[2])


def test_parts_and_the_upload_s_algorithm(call, bucket):
    upload = start_upload(call, bucket, x_amz_checksum_algorithm="SHA256")

    def part(status, code, **headers):
        return call("PUT", f"/{bucket}/m", status, code, query={"partNumber": "1", "uploadId": upload}, body=b"part",
                    headers={name.replace("_", "-"): value for name, value in headers.items()})

    part(400, "InvalidRequest")
    part(400, "InvalidRequest", x_amz_checksum_crc32=raw.checksum("crc32", b"part"))
    part(200, None, x_amz_checksum_sha256=raw.checksum("sha256", b"part"))
    # Of a full-object upload the gateway computes the parts' checksums when the client cannot.
    upload = start_upload(call, bucket, x_amz_checksum_algorithm="CRC64NVME")
    answer = part(200, None)
    assert answer.headers["x-amz-checksum-crc64nvme"] == raw.checksum("crc64nvme", b"part")
    done = call("POST", f"/{bucket}/m", query={"uploadId": upload}, headers={
        "x-amz-checksum-crc64nvme": raw.checksum("crc64nvme", b"part"), "x-amz-checksum-type": "FULL_OBJECT"},
        body=complete([(1, answer.headers["etag"])])).xml()
    assert done.findtext("ChecksumCRC64NVME") == raw.checksum("crc64nvme", b"part")


def test_what_complete_is_told(call, bucket):
    upload = start_upload(call, bucket, x_amz_checksum_algorithm="CRC32", x_amz_checksum_type="FULL_OBJECT")
    etag = call("PUT", f"/{bucket}/m", query={"partNumber": "7", "uploadId": upload}, body=b"part").headers["etag"]

    def finish(status, code, **headers):
        return call("POST", f"/{bucket}/m", status, code, query={"uploadId": upload}, body=complete([(7, etag)]),
                    headers={name.replace("_", "-"): value for name, value in headers.items()})

    finish(400, "InvalidRequest", x_amz_mp_object_size="5")
    finish(400, "InvalidArgument", x_amz_mp_object_size="x")
    finish(400, "InvalidRequest", x_amz_checksum_type="COMPOSITE")
    finish(400, "InvalidRequest", x_amz_checksum_sha1=raw.checksum("sha1", b"part"))
    finish(400, "BadDigest", x_amz_checksum_crc32=raw.checksum("crc32", b"other"))
    call("HEAD", f"/{bucket}/m", 404)
    answer = finish(200, None, x_amz_mp_object_size="4", x_amz_checksum_crc32=raw.checksum("crc32", b"part"))
    assert answer.xml().findtext("Location").endswith(f"/{bucket}/m")
    # Again, as a client does whose answer was lost.
    assert finish(200, None, x_amz_mp_object_size="4").body == answer.body


def test_copied_parts_of_checked_uploads(call, bucket):
    body = data.content("source", PART + 100)
    call("PUT", f"/{bucket}/s", body=body)
    upload = start_upload(call, bucket, x_amz_checksum_algorithm="CRC32C")
    headers = {"x-amz-copy-source": f"/{bucket}/s", "x-amz-copy-source-range": "bytes=10-109"}
    part = call("PUT", f"/{bucket}/m", query={"partNumber": "1", "uploadId": upload}, headers=headers).xml()
    assert part.findtext("ChecksumCRC32C") == raw.checksum("crc32c", body[10:110])
    assert part.findtext("ETag") == f'"{data.md5(body[10:110])}"'
    call("PUT", f"/{bucket}/m", 404, "NoSuchUpload", query={"partNumber": "1", "uploadId": "0" * 32}, headers=headers)
    call("PUT", f"/{bucket}/m", 404, "NoSuchKey", query={"partNumber": "1", "uploadId": upload},
         headers={"x-amz-copy-source": f"/{bucket}/nothing"})


def test_parts_without_their_other_half(call, bucket):
    call("PUT", f"/{bucket}/k", 400, "InvalidArgument", query={"partNumber": "1"}, body=b"x")
    call("PUT", f"/{bucket}/k", 400, "InvalidArgument", query={"uploadId": "0" * 32}, body=b"x")
    call("HEAD", f"/{bucket}/k", 404)


# ---- Listing ----

def test_list_buckets_by_pages(call):
    prefix = data.new_bucket_name()[:20]
    names = [f"{prefix}-{i}" for i in range(5)]
    for name in names:
        call("PUT", f"/{name}")
    seen, query = [], {"prefix": prefix, "max-buckets": "2"}
    while True:
        page = call("GET", "/", query=query).xml()
        seen += [item.findtext("Name") for item in page.iter("Bucket")]
        token = page.findtext("ContinuationToken")
        if not token:
            break
        query["continuation-token"] = token
    assert seen == names
    call("GET", "/", 400, "InvalidArgument", query={"max-buckets": "0"})
    call("GET", "/", 400, "InvalidArgument", query={"continuation-token": "nonsense"})
    for name in names:
        call("DELETE", f"/{name}", 204)


def test_markers_of_version_1(call, bucket):
    for key in ("a", "b/1", "b/2", "c"):
        call("PUT", f"/{bucket}/{key}", body=b"x")

    def page(**query):
        document = call("GET", f"/{bucket}", query={name.replace("_", "-"): value for name, value in query.items()}).xml()
        shown = [item.findtext("Key") for item in document.iter("Contents")]
        shown += [item.findtext("Prefix") for item in document.iter("CommonPrefixes")]
        return shown, document.findtext("NextMarker"), document.findtext("IsTruncated")

    assert page(max_keys="2") == (["a", "b/1"], None, "true")
    assert page(max_keys="2", delimiter="/") == (["a", "b/"], "b/", "true")
    assert page(delimiter="/", marker="b/") == (["c"], None, "false")
    assert page(marker="b/1") == (["b/2", "c"], None, "false")
    assert page(max_keys="0") == ([], None, "false")
    owners = call("GET", f"/{bucket}").xml()
    assert all(item.findtext("Owner/ID") for item in owners.iter("Contents"))


def test_start_after_and_tokens(call, bucket):
    for key in ("a", "b", "c", "d"):
        call("PUT", f"/{bucket}/{key}", body=b"x")
    page = call("GET", f"/{bucket}", query={"list-type": "2", "max-keys": "1", "start-after": "a"}).xml()
    assert page.findtext("Contents/Key") == "b" and page.findtext("StartAfter") == "a"
    token = page.findtext("NextContinuationToken")
    page = call("GET", f"/{bucket}", query={"list-type": "2", "start-after": "a", "continuation-token": token}).xml()
    assert [item.findtext("Key") for item in page.iter("Contents")] == ["c", "d"]
    assert page.findtext("ContinuationToken") == token
    # A token belongs to its prefix and delimiter.
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "2", "prefix": "x", "continuation-token": token})
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "3"})


# ---- Other ----

def test_create_bucket_twice_and_its_headers(call, bucket):
    call("PUT", f"/{bucket}", 409, "BucketAlreadyOwnedByYou")
    name = data.new_bucket_name()
    for headers in ({"x-amz-bucket-object-lock-enabled": "true"}, {"x-amz-object-ownership": "ObjectWriter"}):
        call("PUT", f"/{name}", 501, "NotImplemented", headers=headers)
    call("HEAD", f"/{name}", 404)
    call("PUT", f"/{name}", headers={"x-amz-object-ownership": "BucketOwnerEnforced",
                                     "x-amz-bucket-object-lock-enabled": "false"})
    assert call("HEAD", f"/{name}").headers["x-amz-bucket-region"] == "us-east-1"


def test_fast_etags(start):
    gateway = start("--etag", "fast")
    raw.request(gateway, "PUT", "/fast")
    put = raw.request(gateway, "PUT", "/fast/k", body=b"body")
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', put.headers["etag"]), put
    got = raw.request(gateway, "GET", "/fast/k")
    assert got.body == b"body" and got.headers["etag"] == put.headers["etag"]
    again = raw.request(gateway, "PUT", "/fast/k", body=b"body")
    assert again.headers["etag"] != put.headers["etag"]
    bad = raw.request(gateway, "PUT", "/fast/k", body=b"body", headers={"content-md5": raw.content_md5(b"other")})
    assert (bad.status, bad.code) == (400, "BadDigest")
    upload = raw.request(gateway, "POST", "/fast/m", query={"uploads": ""}).xml().findtext("UploadId")
    part = raw.request(gateway, "PUT", "/fast/m", query={"partNumber": "1", "uploadId": upload}, body=b"part")
    copied = raw.request(gateway, "PUT", "/fast/m", query={"partNumber": "2", "uploadId": upload},
                         headers={"x-amz-copy-source": "/fast/k"})
    assert copied.status == 200, copied
    done = raw.request(gateway, "POST", "/fast/m", query={"uploadId": upload}, body=complete([(1, part.headers["etag"])]))
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', done.xml().findtext("ETag")), done
    assert raw.request(gateway, "GET", "/fast/m").body == b"part"


def test_foreign_files_are_marked(gateway, call, bucket):
    with open(f"{gateway.tree}/{bucket}/foreign", "wb") as file:
        file.write(b"from elsewhere")
    got = call("GET", f"/{bucket}/foreign")
    assert got.body == b"from elsewhere" and got.headers["x-railgate-etag"] == "synthetic"
    assert "-" in got.headers["etag"] and got.headers["content-type"] == "binary/octet-stream"
    assert call("HEAD", f"/{bucket}/foreign").headers["etag"] == got.headers["etag"]
    call("PUT", f"/{bucket}/ours", body=b"x")
    assert call("GET", f"/{bucket}/ours").headers["x-railgate-etag"] is None
