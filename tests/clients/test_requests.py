"""S3 request by request: what each answers, and exactly how each mistake is refused."""
import datetime
import email.utils

import botocore.exceptions
import data
import pytest
import raw

pytestmark = pytest.mark.store

NO_BUCKET = "no-such-bucket-here"


def check(answer, status, code=None):
    assert answer.status == status, answer
    if code:
        assert answer.code == code, answer
        document = answer.xml()
        assert document.tag == "Error" and document.findtext("Message")
        assert document.findtext("RequestId") == answer.headers["x-amz-request-id"]
    return answer


@pytest.fixture
def call(gateway):
    def call_one(method, path, status=200, code=None, **how):
        return check(raw.request(gateway, method, path, **how), status, code)

    return call_one


# The gateway, for requests of which more than status and code matters.
GATEWAY = []


@pytest.fixture(autouse=True)
def remember(gateway):
    GATEWAY[:] = [gateway]


# ---- Buckets ----

def test_bucket_life(call):
    name = data.new_bucket_name()
    call("HEAD", f"/{name}", 404)
    answer = call("PUT", f"/{name}")
    assert answer.headers["location"] == f"/{name}"
    call("HEAD", f"/{name}")
    names = [item.findtext("Name") for item in call("GET", "/").xml().iter("Bucket")]
    assert name in names and names == sorted(names)
    call("PUT", f"/{name}/k", body=b"x")
    call("DELETE", f"/{name}", 409, "BucketNotEmpty")
    call("DELETE", f"/{name}/k", 204)
    call("DELETE", f"/{name}", 204)
    call("DELETE", f"/{name}", 404, "NoSuchBucket")
    call("GET", f"/{name}", 404, "NoSuchBucket")


@pytest.mark.parametrize("name", ["ab", "UPPER", "under_score", "x" * 64, "-dash", "dash-", "a..b", "192.168.1.1",
                                  "xn--a", "a.-b", "a-.b", ".hidden", "a b", "%2e%2e", "ü" * 3])
def test_invalid_bucket_names(call, name):
    call("PUT", f"/{name}", 400, "InvalidBucketName")


def test_location(call, gateway):
    name = data.new_bucket_name()
    body = (b'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>'
            b"eu-west-1</LocationConstraint></CreateBucketConfiguration>")
    call("PUT", f"/{name}", 400, "IllegalLocationConstraintException", body=body)
    call("PUT", f"/{name}", body=body.replace(b"eu-west-1", b"us-east-1"))
    call("PUT", f"/{data.new_bucket_name()}", 400, "MalformedXML", body=b"<nonsense")
    assert call("GET", f"/{name}", query={"location": ""}).xml().tag == "LocationConstraint"


def test_operations_on_missing_bucket(call):
    call("PUT", f"/{NO_BUCKET}/k", 404, "NoSuchBucket", body=b"x")
    call("GET", f"/{NO_BUCKET}/k", 404, "NoSuchBucket")
    call("DELETE", f"/{NO_BUCKET}/k", 404, "NoSuchBucket")
    call("GET", f"/{NO_BUCKET}", 404, "NoSuchBucket", query={"list-type": "2"})
    call("POST", f"/{NO_BUCKET}/k", 404, "NoSuchBucket", query={"uploads": ""})
    call("POST", f"/{NO_BUCKET}", 404, "NoSuchBucket", query={"delete": ""},
         body=b"<Delete><Object><Key>k</Key></Object></Delete>")
    call("GET", f"/{NO_BUCKET}", 404, "NoSuchBucket", query={"uploads": ""})
    call("HEAD", f"/{NO_BUCKET}/k", 404)


def test_bucket_tags(call, s3, bucket):
    call("GET", f"/{bucket}", 404, "NoSuchTagSet", query={"tagging": ""})
    tags = [{"Key": "a b", "Value": "ü"}, {"Key": "c", "Value": ""}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    s3.delete_bucket_tagging(Bucket=bucket)
    call("GET", f"/{bucket}", 404, "NoSuchTagSet", query={"tagging": ""})


# ---- Objects ----

def test_object_life(call, bucket):
    body = data.content("life", 100000)
    put = call("PUT", f"/{bucket}/dir/k", body=body, headers={"content-type": "text/x"})
    assert put.headers["etag"] == f'"{data.md5(body)}"'
    got = call("GET", f"/{bucket}/dir/k")
    assert got.body == body and got.headers["content-length"] == "100000"
    assert got.headers["etag"] == put.headers["etag"] and got.headers["content-type"] == "text/x"
    assert got.headers["accept-ranges"] == "bytes"
    email.utils.parsedate_to_datetime(got.headers["last-modified"])
    head = call("HEAD", f"/{bucket}/dir/k")
    assert head.headers["content-length"] == "100000" and head.headers["etag"] == put.headers["etag"]
    call("DELETE", f"/{bucket}/dir/k", 204)
    call("GET", f"/{bucket}/dir/k", 404, "NoSuchKey")
    call("DELETE", f"/{bucket}/dir/k", 204)
    call("HEAD", f"/{bucket}/dir/k", 404)


def test_sizes(call, bucket):
    for size in (0, 1, 4095, 4096, 4097, 65536, 1 << 20, (5 << 20) + 1):
        body = data.content(size, size)
        call("PUT", f"/{bucket}/k{size}", body=body)
        assert call("GET", f"/{bucket}/k{size}").body == body


def test_headers_and_metadata_round_trip(call, bucket):
    headers = {
        "content-type": "text/plain; charset=utf-8", "content-language": "de, en", "content-encoding": "deflate,  gzip",
        "content-disposition": 'attachment; filename="a b.txt"', "cache-control": "max-age=60, public",
        "expires": "Thu, 01 Dec 2027 16:00:00 GMT", "x-amz-meta-one": "1", "x-amz-meta-two-words": "a  b",
        "x-amz-meta-empty": "",
        "x-amz-meta-utf8": "gr\u00fc\u00dfe".encode().decode("latin-1"), "x-amz-storage-class": "STANDARD",
    }
    call("PUT", f"/{bucket}/k", body=b"x", headers=headers)
    for method in ("GET", "HEAD"):
        got = call(method, f"/{bucket}/k")
        for name, value in headers.items():
            if name != "x-amz-storage-class":
                assert got.headers[name] == value, (method, name)


def test_metadata_ceiling(call, bucket):
    call("PUT", f"/{bucket}/fits", body=b"x", headers={"x-amz-meta-a": "v" * 2000})
    assert call("HEAD", f"/{bucket}/fits").headers["x-amz-meta-a"] == "v" * 2000
    call("PUT", f"/{bucket}/k", 400, "MetadataTooLarge", body=b"x", headers={"x-amz-meta-a": "v" * 2049})
    long = "x-amz-meta-" + "n" * 1000  # the name counts too, and has no ceiling of its own
    call("PUT", f"/{bucket}/fits", body=b"x", headers={long: "v" * 1048})
    assert call("HEAD", f"/{bucket}/fits").headers[long] == "v" * 1048
    call("PUT", f"/{bucket}/fits", 400, "MetadataTooLarge", body=b"x", headers={long: "v" * 1049})
    call("PUT", f"/{bucket}/fits", 400, "MetadataTooLarge", body=b"x", headers={"x-amz-meta-" + "n" * 3000: "v"})
    assert call("HEAD", f"/{bucket}/fits").headers[long] == "v" * 1048
    call("HEAD", f"/{bucket}/k", 404)


def test_much_metadata_and_tags_together(call, bucket):
    """More than an ext4 inode's xattrs hold: headers, 2 KiB of metadata, ten long tags, a checksum."""
    tags = "&".join(f"key{i}{'k' * 100}={'v' * 250}" for i in range(10))
    headers = {"x-amz-meta-a": "v" * 2000, "content-disposition": "d" * 900, "cache-control": "c" * 900,
               "x-amz-tagging": tags, "x-amz-checksum-sha256": raw.checksum("sha256", b"body")}
    call("PUT", f"/{bucket}/k", body=b"body", headers=headers)
    got = call("GET", f"/{bucket}/k")
    assert got.body == b"body" and got.headers["x-amz-meta-a"] == "v" * 2000
    assert got.headers["content-disposition"] == "d" * 900 and got.headers["x-amz-tagging-count"] == "10"
    tagged = call("GET", f"/{bucket}/k", query={"tagging": ""}).xml()
    assert len(list(tagged.iter("Tag"))) == 10
    call("PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": f"/{bucket}/k"})
    assert call("HEAD", f"/{bucket}/copy").headers["cache-control"] == "c" * 900
    call("PUT", f"/{bucket}/k", body=b"small again")
    assert "x-amz-meta-a" not in call("HEAD", f"/{bucket}/k").headers
    call("DELETE", f"/{bucket}/k", 204)
    call("DELETE", f"/{bucket}/copy", 204)
    call("DELETE", f"/{bucket}", 204)


def test_response_overrides(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x", headers={"content-type": "text/a"})
    query = {"response-content-type": "text/b", "response-content-disposition": "attachment",
             "response-cache-control": "no-store", "response-content-language": "fr",
             "response-content-encoding": "x-enc", "response-expires": "Thu, 01 Dec 2027 16:00:00 GMT"}
    got = call("GET", f"/{bucket}/k", query=query)
    for name, value in query.items():
        assert got.headers[name[len("response-"):]] == value


def test_keys_that_cannot_be(call, bucket):
    call("PUT", f"/{bucket}/{'k' * 1025}", 400, "KeyTooLongError", body=b"x")
    for key in ("a/../b", "../x", "a/./b", "a//b", "/a", ".", ".."):
        answer = call("PUT", f"/{bucket}/{key}", 400, body=b"x")
        assert answer.code in ("InvalidObjectName", "InvalidURI"), answer
    call("PUT", f"/{bucket}/{'s' * 256}/x", 400, body=b"x")
    long_key = "/".join(["d" * 200] * 5)
    call("PUT", f"/{bucket}/{long_key}", body=b"long")
    assert call("GET", f"/{bucket}/{long_key}").body == b"long"


def test_file_and_directory_conflict(call, bucket):
    call("PUT", f"/{bucket}/a", body=b"file")
    answer = call("PUT", f"/{bucket}/a/b", 409, body=b"below")
    assert answer.code == "ObjectNameConflict"
    call("PUT", f"/{bucket}/d/e", body=b"below")
    call("PUT", f"/{bucket}/d", 409, "ObjectNameConflict", body=b"file")
    assert call("GET", f"/{bucket}/a").body == b"file"
    assert call("GET", f"/{bucket}/d/e").body == b"below"
    call("GET", f"/{bucket}/d", 404, "NoSuchKey")
    call("GET", f"/{bucket}/a/b", 404, "NoSuchKey")
    call("DELETE", f"/{bucket}/a/b", 204)
    call("DELETE", f"/{bucket}/d", 204)
    assert call("GET", f"/{bucket}/d/e").body == b"below"


def test_directory_objects(call, s3, bucket):
    call("PUT", f"/{bucket}/folder/", headers={"x-amz-meta-a": "1", "content-type": "application/x-directory"})
    head = call("HEAD", f"/{bucket}/folder/")
    assert head.headers["content-length"] == "0" and head.headers["x-amz-meta-a"] == "1"
    assert call("GET", f"/{bucket}/folder/").body == b""
    call("PUT", f"/{bucket}/folder/file", body=b"x")
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["folder/", "folder/file"]
    call("DELETE", f"/{bucket}/folder/file", 204)
    call("HEAD", f"/{bucket}/folder/")
    call("DELETE", f"/{bucket}/folder/", 204)
    call("HEAD", f"/{bucket}/folder/", 404)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    # A directory that is there only because something is in it is no object.
    call("PUT", f"/{bucket}/implicit/file", body=b"x")
    call("HEAD", f"/{bucket}/implicit/", 404)
    call("DELETE", f"/{bucket}/implicit/file", 204)
    call("DELETE", f"/{bucket}", 204)


# ---- Ranges ----

@pytest.mark.parametrize("value, first, last", [
    ("bytes=0-0", 0, 0), ("bytes=0-", 0, 999), ("bytes=10-19", 10, 19), ("bytes=990-2000", 990, 999),
    ("bytes=-1", 999, 999), ("bytes=-5000", 0, 999), ("bytes=999-999", 999, 999),
])
def test_ranges(call, bucket, value, first, last):
    body = data.content("range", 1000)
    call("PUT", f"/{bucket}/k", body=body)
    got = call("GET", f"/{bucket}/k", 206, headers={"range": value})
    assert got.body == body[first:last + 1]
    assert got.headers["content-range"] == f"bytes {first}-{last}/1000"
    assert got.headers["content-length"] == str(last - first + 1)
    head = call("HEAD", f"/{bucket}/k", 206, headers={"range": value})
    assert head.headers["content-range"] == f"bytes {first}-{last}/1000"


@pytest.mark.parametrize("value", ["bytes=1000-", "bytes=1000-1001", "bytes=-0"])
def test_ranges_beyond_the_end(call, bucket, value):
    call("PUT", f"/{bucket}/k", body=b"x" * 1000)
    answer = call("GET", f"/{bucket}/k", 416, "InvalidRange", headers={"range": value})
    assert answer.headers["content-range"] == "bytes */1000"


@pytest.mark.parametrize("value", ["bytes=a-b", "bytes=5-4", "lines=1-2", "bytes=", "bytes=0-1,5-6", "bytes=--1"])
def test_ranges_that_are_ignored(call, bucket, value):
    """Malformed and multiple ranges give the whole object, as S3 does."""
    call("PUT", f"/{bucket}/k", body=b"x" * 1000)
    assert len(call("GET", f"/{bucket}/k", headers={"range": value}).body) == 1000


def test_range_of_empty_object(call, bucket):
    call("PUT", f"/{bucket}/k")
    call("GET", f"/{bucket}/k", 416, "InvalidRange", headers={"range": "bytes=0-0"})


# ---- Conditions ----

def http_date(seconds):
    return email.utils.format_datetime(
        datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds), usegmt=True)


def test_conditional_reads(call, bucket):
    etag = call("PUT", f"/{bucket}/k", body=b"x").headers["etag"]
    same = call("HEAD", f"/{bucket}/k").headers["last-modified"]
    past, future = http_date(-3600), http_date(3600)
    for method in ("GET", "HEAD"):
        for status, headers in [
            (200, {"if-match": etag}), (200, {"if-match": "*"}), (200, {"if-match": f'"other", {etag}'}),
            (412, {"if-match": '"other"'}), (304, {"if-none-match": etag}), (304, {"if-none-match": "*"}),
            (200, {"if-none-match": '"other"'}), (200, {"if-modified-since": past}), (304, {"if-modified-since": same}),
            (200, {"if-modified-since": future}),  # S3 ignores dates that are still to come
            (200, {"if-unmodified-since": same}),
            (200, {"if-unmodified-since": future}), (412, {"if-unmodified-since": past}),
            (200, {"if-match": etag, "if-unmodified-since": past}),
            (304, {"if-none-match": etag, "if-modified-since": past}),
            (200, {"if-none-match": '"other"', "if-modified-since": same}),
            (200, {"if-modified-since": "nonsense"}),
        ]:
            answer = raw.request(GATEWAY[0], method, f"/{bucket}/k", headers=headers)
            assert answer.status == status, (method, headers, answer)
            if status == 304:
                assert answer.body == b"" and answer.headers["etag"] == etag


def test_conditional_writes(call, bucket):
    path = f"/{bucket}/k"
    call("PUT", path, 404, "NoSuchKey", body=b"x", headers={"if-match": '"0"'})
    etag = call("PUT", path, body=b"1", headers={"if-none-match": "*"}).headers["etag"]
    call("PUT", path, 412, "PreconditionFailed", body=b"2", headers={"if-none-match": "*"})
    call("PUT", path, 412, "PreconditionFailed", body=b"2", headers={"if-match": '"other"'})
    assert call("GET", path).body == b"1"
    call("PUT", path, body=b"3", headers={"if-match": etag})
    assert call("GET", path).body == b"3"
    call("PUT", path, 501, "NotImplemented", body=b"4", headers={"if-none-match": etag})


# ---- Digests ----

def test_content_md5(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"body", headers={"content-md5": raw.content_md5(b"body")})
    call("PUT", f"/{bucket}/bad", 400, "BadDigest", body=b"body", headers={"content-md5": raw.content_md5(b"other")})
    call("PUT", f"/{bucket}/bad", 400, "InvalidDigest", body=b"body", headers={"content-md5": "nonsense"})
    call("HEAD", f"/{bucket}/bad", 404)


@pytest.mark.parametrize("algorithm", raw.ALGORITHMS)
def test_checksum_headers(call, bucket, algorithm):
    body = data.content(algorithm, 20000)
    name = f"x-amz-checksum-{algorithm}"
    good = raw.checksum(algorithm, body)
    put = call("PUT", f"/{bucket}/k", body=body, headers={name: good})
    assert put.headers[name] == good and put.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    for method in ("GET", "HEAD"):
        got = call(method, f"/{bucket}/k", headers={"x-amz-checksum-mode": "ENABLED"})
        assert got.headers[name] == good and got.headers["x-amz-checksum-type"] == "FULL_OBJECT"
        assert name not in call(method, f"/{bucket}/k").headers
    ranged = call("GET", f"/{bucket}/k", 206, headers={"x-amz-checksum-mode": "ENABLED", "range": "bytes=0-9"})
    assert name not in ranged.headers
    call("PUT", f"/{bucket}/bad", 400, "BadDigest", body=body, headers={name: raw.checksum(algorithm, b"other")})
    call("PUT", f"/{bucket}/bad", 400, "InvalidRequest", body=body, headers={name: "nonsense"})
    call("PUT", f"/{bucket}/bad", 400, "InvalidRequest", body=body, headers={
        name: good, "x-amz-checksum-" + ("sha1" if algorithm != "sha1" else "crc32"): "AAAAAA=="})
    call("HEAD", f"/{bucket}/bad", 404)
    attributes = call("GET", f"/{bucket}/k", query={"attributes": ""},
                      headers={"x-amz-object-attributes": "Checksum,ETag,ObjectSize"}).xml()
    assert attributes.findtext(f"Checksum/Checksum{algorithm.upper()}") == good
    assert attributes.findtext("ObjectSize") == "20000"


def test_no_checksum_without_asking(call, bucket):
    """S3 computes CRC64NVME when the client gives none; docs/s3-compatibility.md says that we do not."""
    call("PUT", f"/{bucket}/k", body=b"body")
    got = call("HEAD", f"/{bucket}/k", headers={"x-amz-checksum-mode": "ENABLED"})
    assert not [name for name in got.headers if name.lower().startswith("x-amz-checksum-")]
    put = call("PUT", f"/{bucket}/k", body=b"body", headers={"x-amz-checksum-algorithm": "XXHASH3"})
    assert put.headers["x-amz-checksum-xxhash3"] == raw.checksum("xxhash3", b"body")


def test_length_is_needed(call, gateway, bucket):
    headers = {}
    raw.sign("PUT", gateway.host, f"/{bucket}/k", [], headers, raw.UNSIGNED)
    connection = raw.connect(gateway)
    connection.putrequest("PUT", f"/{bucket}/k", skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    check(raw.Answer(connection.getresponse(), False), 411, "MissingContentLength")
    connection.close()


# ---- Copy ----

def test_copy(call, s3, bucket):
    body = data.content("copy", 70000)
    call("PUT", f"/{bucket}/a b/ü", body=body, headers={
        "content-type": "text/a", "x-amz-meta-m": "1", "x-amz-tagging": "t=1"})
    source = f"/{bucket}/{raw.quote('a b/ü', '/')}"
    answer = call("PUT", f"/{bucket}/copy", headers={"x-amz-copy-source": source}).xml()
    assert answer.tag == "CopyObjectResult" and answer.findtext("ETag") == f'"{data.md5(body)}"'
    got = call("GET", f"/{bucket}/copy")
    assert got.body == body and got.headers["content-type"] == "text/a" and got.headers["x-amz-meta-m"] == "1"
    assert s3.get_object_tagging(Bucket=bucket, Key="copy")["TagSet"] == [{"Key": "t", "Value": "1"}]
    call("PUT", f"/{bucket}/copy2", headers={
        "x-amz-copy-source": source[1:], "x-amz-metadata-directive": "REPLACE", "content-type": "text/b",
        "x-amz-meta-n": "2", "x-amz-tagging-directive": "REPLACE", "x-amz-tagging": "u=2"})
    got = call("HEAD", f"/{bucket}/copy2")
    assert got.headers["content-type"] == "text/b" and got.headers["x-amz-meta-n"] == "2"
    assert "x-amz-meta-m" not in got.headers
    assert s3.get_object_tagging(Bucket=bucket, Key="copy2")["TagSet"] == [{"Key": "u", "Value": "2"}]
    # Onto itself only with a change.
    call("PUT", f"/{bucket}/copy", 400, "InvalidRequest", headers={"x-amz-copy-source": f"/{bucket}/copy"})
    call("PUT", f"/{bucket}/copy", headers={
        "x-amz-copy-source": f"/{bucket}/copy", "x-amz-metadata-directive": "REPLACE", "x-amz-meta-z": "9"})
    got = call("GET", f"/{bucket}/copy")
    assert got.body == body and got.headers["x-amz-meta-z"] == "9"


def test_copy_refusals(call, bucket):
    etag = call("PUT", f"/{bucket}/k", body=b"x").headers["etag"]
    source = {"x-amz-copy-source": f"/{bucket}/k"}
    call("PUT", f"/{bucket}/c", 404, "NoSuchKey", headers={"x-amz-copy-source": f"/{bucket}/nothing"})
    call("PUT", f"/{bucket}/c", 404, "NoSuchBucket", headers={"x-amz-copy-source": f"/{NO_BUCKET}/k"})
    call("PUT", f"/{NO_BUCKET}/c", 404, "NoSuchBucket", headers=source)
    call("PUT", f"/{bucket}/c", 400, "InvalidArgument", headers={"x-amz-copy-source": "nonsense"})
    call("PUT", f"/{bucket}/c", 400, "InvalidArgument", headers={**source, "x-amz-metadata-directive": "MERGE"})
    same = call("HEAD", f"/{bucket}/k").headers["last-modified"]
    past, future = http_date(-3600), http_date(3600)
    for status, headers in [
        (200, {"x-amz-copy-source-if-match": etag}), (412, {"x-amz-copy-source-if-match": '"o"'}),
        (200, {"x-amz-copy-source-if-none-match": '"o"'}), (412, {"x-amz-copy-source-if-none-match": etag}),
        (200, {"x-amz-copy-source-if-modified-since": past}), (412, {"x-amz-copy-source-if-modified-since": same}),
        (200, {"x-amz-copy-source-if-unmodified-since": future}),
        (412, {"x-amz-copy-source-if-unmodified-since": past}),
    ]:
        call("PUT", f"/{bucket}/c", status, headers={**source, **headers})


# ---- Tags ----

def test_object_tags(call, s3, bucket):
    call("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-tagging": "a=1&b%20c=%C3%BC"})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [
        {"Key": "a", "Value": "1"}, {"Key": "b c", "Value": "ü"}]
    assert call("HEAD", f"/{bucket}/k").headers["x-amz-tagging-count"] in (None, "2")
    modified = call("HEAD", f"/{bucket}/k").headers["last-modified"]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "z", "Value": "y"}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "z", "Value": "y"}]
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    got = call("GET", f"/{bucket}/k")
    assert got.body == b"x" and got.headers["last-modified"] == modified
    call("GET", f"/{bucket}/nothing", 404, "NoSuchKey", query={"tagging": ""})
    many = "".join(f"<Tag><Key>{i}</Key><Value>v</Value></Tag>" for i in range(11))
    call("PUT", f"/{bucket}/k", 400, query={"tagging": ""}, body=f"<Tagging><TagSet>{many}</TagSet></Tagging>".encode())
    twice = "<Tag><Key>a</Key><Value>v</Value></Tag>" * 2
    call("PUT", f"/{bucket}/k", 400, "InvalidTag", query={"tagging": ""},
         body=f"<Tagging><TagSet>{twice}</TagSet></Tagging>".encode())
    call("PUT", f"/{bucket}/k", 400, "MalformedXML", query={"tagging": ""}, body=b"<Tagging>")
    call("PUT", f"/{bucket}/k2", 400, body=b"x", headers={"x-amz-tagging": "&".join(f"{i}=1" for i in range(11))})


# ---- Multi-delete ----

def test_multi_delete(call, s3, bucket):
    keys = [key for key in data.AWKWARD + data.CONTROL[:2]]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in [*keys, "nothing"]]})
    assert {item["Key"] for item in answer["Deleted"]} == {*keys, "nothing"} and "Errors" not in answer
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="q", Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Quiet": True, "Objects": [{"Key": "q"}]})
    assert "Deleted" not in answer
    call("HEAD", f"/{bucket}/q", 404)


def test_multi_delete_refusals(call, bucket):
    def delete(body, status, code, **headers):
        call("POST", f"/{bucket}", status, code, query={"delete": ""}, body=body, headers=headers)

    delete(b"", 400, "MissingRequestBodyError")
    delete(b"<Delete>", 400, "MalformedXML")
    delete(b"<Other/>", 400, "MalformedXML")
    delete(b"<Delete></Delete>", 400, "MalformedXML")
    delete(b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>", 400, "MalformedXML")
    delete(b"<Delete>" + b"<a>" * 10000 + b"</Delete>", 400, "MalformedXML")
    delete(b'<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>',
           400, "MalformedXML")
    delete(b"<Delete><Object><Key>k</Key></Object></Delete>", 400, "BadDigest", **{"content-md5": raw.content_md5(b"o")})


# ---- Listing: what the parameters answer ----

def test_list_parameters(call, s3, bucket):
    for key in ("a", "b/1", "b/2", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    answer = call("GET", f"/{bucket}", query={"list-type": "2", "max-keys": "0"}).xml()
    assert answer.findtext("KeyCount") == "0" and answer.findtext("IsTruncated") == "false"
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "2", "max-keys": "-1"})
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "2", "max-keys": "x"})
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "2", "encoding-type": "base64"})
    call("GET", f"/{bucket}", 400, "InvalidArgument", query={"list-type": "2", "continuation-token": "nonsense"})
    answer = call("GET", f"/{bucket}", query={"list-type": "2", "max-keys": "5000"}).xml()
    assert answer.findtext("MaxKeys") == "1000"
    owners = call("GET", f"/{bucket}", query={"list-type": "2", "fetch-owner": "true"}).xml()
    assert all(item.findtext("Owner/ID") for item in owners.iter("Contents"))
    assert not list(call("GET", f"/{bucket}", query={"list-type": "2"}).xml().iter("Owner"))
    item = next(owners.iter("Contents"))
    assert item.findtext("Size") == "1" and item.findtext("ETag") == f'"{data.md5(b"a")}"'
    assert item.findtext("StorageClass") == "STANDARD"
    datetime.datetime.strptime(item.findtext("LastModified"), "%Y-%m-%dT%H:%M:%S.%fZ")


def test_list_encoding(call, s3, bucket):
    key = "a b+ü/<&>\"'"
    s3.put_object(Bucket=bucket, Key=key, Body=b"")
    answer = call("GET", f"/{bucket}", query={"list-type": "2", "encoding-type": "url", "prefix": "a b"}).xml()
    assert answer.findtext("EncodingType") == "url"
    shown = answer.findtext("Contents/Key")
    assert shown == "a%20b%2B%C3%BC/%3C%26%3E%22%27" or shown == "a+b%2B%C3%BC/%3C%26%3E%22%27", shown
    assert call("GET", f"/{bucket}", query={"list-type": "2"}).xml().findtext("Contents/Key") == key


def test_foreign_token_is_refused(call, s3):
    """A continuation token of one bucket is worth nothing in another."""
    names = [data.new_bucket_name() for _ in range(2)]
    for name in names:
        s3.create_bucket(Bucket=name)
        for i in range(3):
            s3.put_object(Bucket=name, Key=str(i), Body=b"")
    token = s3.list_objects_v2(Bucket=names[0], MaxKeys=1)["NextContinuationToken"]
    call("GET", f"/{names[1]}", 400, "InvalidArgument", query={"list-type": "2", "continuation-token": token})
    spoilt = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    call("GET", f"/{names[0]}", 400, "InvalidArgument", query={"list-type": "2", "continuation-token": spoilt})


# ---- Multipart ----

PART = 5 << 20


def start_upload(s3, bucket, key="m", **how):
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **how)["UploadId"]


def complete_xml(parts):
    items = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>" for n, e in parts)
    return f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode()


def test_multipart(call, s3, bucket):
    bodies = [data.content("p1", PART), data.content("p2", PART), data.content("p3", 1234)]
    upload = start_upload(s3, bucket, ContentType="text/m", Metadata={"a": "b"}, Tagging="t=1")
    etags = [s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=i + 1, Body=body)["ETag"]
             for i, body in enumerate(bodies)]
    assert etags == [f'"{data.md5(body)}"' for body in bodies]
    call("GET", f"/{bucket}/m", 404, "NoSuchKey")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    listed = s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in listed["Parts"]] == [
        (i + 1, len(body), etags[i]) for i, body in enumerate(bodies)]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
    xml = complete_xml(enumerate(etags, 1))
    answer = call("POST", f"/{bucket}/m", query={"uploadId": upload}, body=xml).xml()
    assert answer.tag == "CompleteMultipartUploadResult" and answer.findtext("ETag").endswith('-3"')
    # Repeated: the same answer, as S3 gives.
    again = call("POST", f"/{bucket}/m", query={"uploadId": upload}, body=xml).xml()
    assert again.findtext("ETag") == answer.findtext("ETag")
    got = call("GET", f"/{bucket}/m")
    assert got.body == b"".join(bodies)
    assert got.headers["content-type"] == "text/m" and got.headers["x-amz-meta-a"] == "b"
    assert s3.get_object_tagging(Bucket=bucket, Key="m")["TagSet"] == [{"Key": "t", "Value": "1"}]
    for number, body in enumerate(bodies, 1):
        part = call("GET", f"/{bucket}/m", 206, query={"partNumber": str(number)})
        assert part.body == body and part.headers["x-amz-mp-parts-count"] == "3"
        head = call("HEAD", f"/{bucket}/m", 206, query={"partNumber": str(number)})
        assert head.headers["content-length"] == str(len(body))
    call("GET", f"/{bucket}/m", 416, "InvalidPartNumber", query={"partNumber": "4"})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    call("DELETE", f"/{bucket}/m", 204)
    call("DELETE", f"/{bucket}", 204)


def test_attributes_in_fields_of_their_own(gateway, call, bucket):
    """As the AWS SDK for Go sends them."""
    call("PUT", f"/{bucket}/k", body=b"abc")

    def ask(*names):
        headers = {"x-amz-object-attributes": ",".join(names)}
        raw.sign("GET", gateway.host, f"/{bucket}/k", [("attributes", "")], headers, raw.UNSIGNED)
        headers["x-amz-object-attributes"] = list(names)
        return raw.send(gateway, "GET", f"/{bucket}/k?attributes=", headers)

    document = check(ask("ETag", "ObjectSize"), 200).xml()
    assert document.findtext("ETag") and document.findtext("ObjectSize") == "3"
    check(ask("ETag", "Nonsense"), 400, "InvalidArgument")


def test_composite_checksums_are_stated_part_by_part(call, s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm="SHA256")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x", ChecksumAlgorithm="SHA256")
    answer = call("POST", f"/{bucket}/m", 400, "InvalidRequest", query={"uploadId": upload},
                  body=complete_xml([(1, part["ETag"])]))
    assert b"It was missing for part 1" in answer.body
    call("HEAD", f"/{bucket}/m", 404)
    done = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [
        {"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}]})
    assert done["ChecksumSHA256"].endswith("=-1")


def test_checksums_nobody_can_verify_are_refused(call, bucket):
    call("PUT", f"/{bucket}/k", 400, "InvalidRequest", body=b"x", headers={"x-amz-checksum-sha512": "AAAA"})
    call("PUT", f"/{bucket}/k", 400, "InvalidRequest", body=b"x", headers={"x-amz-checksum-xxhash64": "AAAA"})
    call("GET", f"/{bucket}/k", 404, "NoSuchKey")


def test_part_numbers_are_judged_before_the_object(call, bucket):
    call("GET", f"/{bucket}/none", 400, "InvalidArgument", query={"partNumber": "0"})
    call("GET", f"/{bucket}/none", 404, "NoSuchKey", query={"partNumber": "1"})


def test_multipart_refusals(call, s3, bucket):
    upload = start_upload(s3, bucket)
    one, two, three = (s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=b"x" * n)["ETag"]
                       for n in (1, 2, 3))

    def complete(parts, status, code, upload=upload, key="m"):
        answer = call("POST", f"/{bucket}/{key}", query={"uploadId": upload}, body=complete_xml(parts), status=status)
        assert answer.code == code, answer

    call("POST", f"/{bucket}/m", 400, "MalformedXML", query={"uploadId": upload})
    complete([(2, two), (1, one)], 400, "InvalidPartOrder")
    complete([(1, one), (1, one)], 400, "InvalidPartOrder")
    complete([(1, two)], 400, "InvalidPart")
    complete([(7, one)], 400, "InvalidPart")
    complete([(1, one), (2, two)], 400, "EntityTooSmall")
    complete([], 400, "MalformedXML")
    complete([(1, one)], 404, "NoSuchUpload", upload="0" * 32)
    complete([(1, one)], 404, "NoSuchUpload", upload="../../etc")
    complete([(1, one)], 404, "NoSuchUpload", key="other")
    call("POST", f"/{bucket}/m", 400, "MalformedXML", query={"uploadId": upload}, body=b"<CompleteMultipartUpload>")
    for number in ("0", "10001", "x", "-1"):
        call("PUT", f"/{bucket}/m", 400, "InvalidArgument", body=b"x", query={"partNumber": number, "uploadId": upload})
    call("PUT", f"/{bucket}/m", 404, "NoSuchUpload", body=b"x", query={"partNumber": "1", "uploadId": "0" * 32})
    call("PUT", f"/{bucket}/m", 400, "BadDigest", body=b"x", query={"partNumber": "4", "uploadId": upload},
         headers={"content-md5": raw.content_md5(b"o")})
    assert len(s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]) == 3
    complete([(3, three)], 200, "")
    assert call("GET", f"/{bucket}/m").body == b"xxx"


def test_multipart_abort(call, s3, bucket):
    upload = start_upload(s3, bucket)
    s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x")
    call("DELETE", f"/{bucket}/m", 204, query={"uploadId": upload})
    call("DELETE", f"/{bucket}/m", 404, "NoSuchUpload", query={"uploadId": upload})
    call("GET", f"/{bucket}/m", 404, "NoSuchUpload", query={"uploadId": upload})
    call("PUT", f"/{bucket}/m", 404, "NoSuchUpload", body=b"x", query={"partNumber": "1", "uploadId": upload})
    call("GET", f"/{bucket}/m", 404, "NoSuchKey")
    call("DELETE", f"/{bucket}", 204)


def test_multipart_part_replaced(call, s3, bucket):
    upload = start_upload(s3, bucket)
    first = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"first")["ETag"]
    second = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"second")["ETag"]
    call("POST", f"/{bucket}/m", 400, "InvalidPart", query={"uploadId": upload}, body=complete_xml([(1, first)]))
    call("POST", f"/{bucket}/m", query={"uploadId": upload}, body=complete_xml([(1, second)]))
    assert call("GET", f"/{bucket}/m").body == b"second"


def test_multipart_copied_parts(call, s3, bucket):
    source = data.content("source", 2 * PART)
    s3.put_object(Bucket=bucket, Key="s", Body=source)
    upload = start_upload(s3, bucket)

    def part(number, status=200, code=None, **headers):
        headers = {"x-amz-copy-source": f"/{bucket}/s",
                   **{name.replace("_", "-"): value for name, value in headers.items()}}
        return call("PUT", f"/{bucket}/m", status, code, query={"partNumber": str(number), "uploadId": upload},
                    headers=headers)

    one = part(1, x_amz_copy_source_range=f"bytes=100-{100 + PART - 1}").xml()
    assert one.tag == "CopyPartResult"
    assert one.findtext("ETag") == f'"{data.md5(source[100:100 + PART])}"'
    two = part(2).xml().findtext("ETag")
    part(3, 400, "InvalidArgument", x_amz_copy_source_range=f"bytes=0-{2 * PART}")
    part(3, 400, "InvalidArgument", x_amz_copy_source_range="bytes=5-")
    part(3, 412, "PreconditionFailed", x_amz_copy_source_if_match='"o"')
    call("POST", f"/{bucket}/m", query={"uploadId": upload},
         body=complete_xml([(1, one.findtext("ETag")), (2, two)]))
    assert call("GET", f"/{bucket}/m").body == source[100:100 + PART] + source


def test_multipart_conditions(call, s3, bucket):
    def upload_one(body):
        upload = start_upload(s3, bucket)
        etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=body)["ETag"]
        return {"query": {"uploadId": upload}, "body": complete_xml([(1, etag)])}

    first, second, third = upload_one(b"1"), upload_one(b"2"), upload_one(b"3")
    etag = call("POST", f"/{bucket}/m", headers={"if-none-match": "*"}, **first).xml().findtext("ETag")
    answer = raw.request(GATEWAY[0], "POST", f"/{bucket}/m", headers={"if-none-match": "*"}, **second)
    assert answer.code == "PreconditionFailed", answer
    answer = raw.request(GATEWAY[0], "POST", f"/{bucket}/m", headers={"if-match": '"o"'}, **second)
    assert answer.code == "PreconditionFailed", answer
    assert call("GET", f"/{bucket}/m").body == b"1"
    call("POST", f"/{bucket}/m", headers={"if-match": etag}, **third)
    assert call("GET", f"/{bucket}/m").body == b"3"


@pytest.mark.parametrize("algorithm, kind", [
    ("CRC32", "COMPOSITE"), ("CRC32C", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("SHA256", "COMPOSITE"),
    ("CRC32", "FULL_OBJECT"), ("CRC32C", "FULL_OBJECT"), ("CRC64NVME", "FULL_OBJECT"),
])
def test_multipart_checksums(call, bucket, algorithm, kind):
    import base64
    bodies = [b"a" * PART, b"tail of the object"]
    lower = algorithm.lower()
    slow = {"CRC32C": "crc32c", "CRC64NVME": "crc64nvme"}.get(algorithm)
    name = f"x-amz-checksum-{lower}"
    created = call("POST", f"/{bucket}/m", query={"uploads": ""}, headers={
        "x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": kind})
    assert created.headers["x-amz-checksum-algorithm"] == algorithm
    assert created.headers["x-amz-checksum-type"] == kind
    upload = created.xml().findtext("UploadId")
    sums = [raw.checksum(lower, body) for body in bodies]
    items = ""
    for number, body in enumerate(bodies, 1):
        put = call("PUT", f"/{bucket}/m", query={"partNumber": str(number), "uploadId": upload}, body=body,
                   headers={name: sums[number - 1]})
        assert put.headers[name] == sums[number - 1]
        items += (f"<Part><PartNumber>{number}</PartNumber><ETag>{put.headers['etag']}</ETag>"
                  f"<Checksum{algorithm}>{sums[number - 1]}</Checksum{algorithm}></Part>")
    if kind == "COMPOSITE":
        want = raw.checksum(lower, b"".join(base64.b64decode(s) for s in sums)) + "-2"
    else:
        want = raw.checksum(lower, b"".join(bodies))
    assert slow is None or want
    wrong = items.replace(sums[0], raw.checksum(lower, b"other"))
    answer = call("POST", f"/{bucket}/m", 400, query={"uploadId": upload},
                  body=f"<CompleteMultipartUpload>{wrong}</CompleteMultipartUpload>".encode())
    assert answer.code in ("InvalidPart", "BadDigest"), answer
    if kind == "FULL_OBJECT":
        answer = raw.request(GATEWAY[0], "POST", f"/{bucket}/m", query={"uploadId": upload}, headers={
            name: raw.checksum(lower, b"other"), "x-amz-checksum-type": kind},
            body=f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode())
        assert answer.code == "BadDigest", answer
    done = call("POST", f"/{bucket}/m", query={"uploadId": upload},
                body=f"<CompleteMultipartUpload>{items}</CompleteMultipartUpload>".encode()).xml()
    assert done.findtext(f"Checksum{algorithm}") == want
    assert done.findtext("ChecksumType") == kind
    head = call("HEAD", f"/{bucket}/m", headers={"x-amz-checksum-mode": "ENABLED"})
    assert head.headers[name] == want and head.headers["x-amz-checksum-type"] == kind
    attributes = call("GET", f"/{bucket}/m", query={"attributes": ""},
                      headers={"x-amz-object-attributes": "Checksum,ObjectParts"}).xml()
    shown = attributes.findtext(f"Checksum/Checksum{algorithm}")
    assert shown in (want, want.removesuffix("-2"))


def test_list_uploads_and_parts_by_pages(s3, bucket):
    made = []
    for key in ("a", "b/1", "b/1", "b/2", "c"):
        made.append((key, start_upload(s3, bucket, key)))
    seen, marker = [], {}
    while True:
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=2, **marker)
        seen += [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    assert sorted(seen) == sorted(made) and len(seen) == len(made)
    assert [key for key, _ in seen] == sorted(key for key, _ in made)
    page = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [u["Key"] for u in page["Uploads"]] == ["a", "c"]
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"]
    page = s3.list_multipart_uploads(Bucket=bucket, Prefix="b/2")
    assert [u["Key"] for u in page["Uploads"]] == ["b/2"]
    upload = made[0][1]
    for number in (1, 2, 5, 9, 10000):
        s3.upload_part(Bucket=bucket, Key="a", UploadId=upload, PartNumber=number, Body=b"x" * number)
    seen, marker = [], 0
    while True:
        page = s3.list_parts(Bucket=bucket, Key="a", UploadId=upload, MaxParts=2, PartNumberMarker=marker)
        seen += [p["PartNumber"] for p in page["Parts"]]
        if not page["IsTruncated"]:
            break
        marker = page["NextPartNumberMarker"]
    assert seen == [1, 2, 5, 9, 10000]
    for key, upload in made:
        s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)


# ---- What is not there, or has a fixed answer ----

@pytest.mark.parametrize("query, code", [
    ("cors", "NoSuchCORSConfiguration"), ("lifecycle", "NoSuchLifecycleConfiguration"),
    ("policy", "NoSuchBucketPolicy"), ("website", "NoSuchWebsiteConfiguration"),
    ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    ("replication", "ReplicationConfigurationNotFoundError"),
    ("object-lock", "ObjectLockConfigurationNotFoundError"),
    ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
    ("ownershipControls", "OwnershipControlsNotFoundError"),
])
def test_configuration_that_is_never_there(call, bucket, query, code):
    call("GET", f"/{bucket}", 404, code, query={query: ""})


@pytest.mark.parametrize("method, query, body", [
    ("PUT", "versioning", b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
    ("PUT", "lifecycle", b"<LifecycleConfiguration/>"), ("PUT", "cors", b"<CORSConfiguration/>"),
    ("PUT", "policy", b"{}"), ("PUT", "website", b"<WebsiteConfiguration/>"),
    ("PUT", "replication", b"<ReplicationConfiguration/>"), ("PUT", "encryption", b"<x/>"),
    ("PUT", "notification", b"<NotificationConfiguration><QueueConfiguration/></NotificationConfiguration>"),
    ("PUT", "object-lock", b"<ObjectLockConfiguration/>"), ("PUT", "logging", b"<x/>"),
    ("GET", "inventory", b""), ("GET", "metrics", b""), ("GET", "analytics", b""), ("GET", "intelligent-tiering", b""),
])
def test_what_is_not_implemented_says_so(call, bucket, method, query, body):
    call(method, f"/{bucket}", 501, "NotImplemented", query={query: ""}, body=body)


@pytest.mark.parametrize("method, query", [
    ("POST", {"select": "", "select-type": "2"}), ("POST", {"restore": ""}), ("GET", {"torrent": ""}),
    ("PUT", {"retention": ""}), ("PUT", {"legal-hold": ""}),
])
def test_object_calls_that_are_not_implemented(call, bucket, method, query):
    call("PUT", f"/{bucket}/k", body=b"x")
    call(method, f"/{bucket}/k", 501, "NotImplemented", query=query, body=b"<x/>" if method != "GET" else b"")
    assert call("GET", f"/{bucket}/k").body == b"x"


@pytest.mark.parametrize("headers", [
    {"x-amz-server-side-encryption": "aws:kms"}, {"x-amz-server-side-encryption-customer-algorithm": "AES256"},
    {"x-amz-object-lock-mode": "GOVERNANCE"}, {"x-amz-website-redirect-location": "/x"},
    {"x-amz-acl": "public-read"}, {"x-amz-grant-read": "id=x"}, {"x-amz-object-lock-legal-hold": "ON"},
])
def test_headers_that_are_not_implemented(call, bucket, headers):
    """Nothing is stored without what the client asked for."""
    call("PUT", f"/{bucket}/k", 501, "NotImplemented", body=b"x", headers=headers)
    call("HEAD", f"/{bucket}/k", 404)


def test_default_answers(call, bucket):
    assert call("GET", f"/{bucket}", query={"versioning": ""}).xml().tag == "VersioningConfiguration"
    acl = call("GET", f"/{bucket}", query={"acl": ""}).xml()
    assert acl.findtext("AccessControlList/Grant/Permission") == "FULL_CONTROL"
    assert call("GET", f"/{bucket}", query={"requestPayment": ""}).xml().findtext("Payer") == "BucketOwner"
    call("GET", f"/{bucket}", query={"notification": ""})
    call("GET", f"/{bucket}", query={"logging": ""})
    call("GET", f"/{bucket}", query={"accelerate": ""})
    call("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-acl": "private"})
    assert call("GET", f"/{bucket}/k", query={"acl": ""}).xml().tag == "AccessControlPolicy"


def test_versions_of_an_unversioned_bucket(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    call("GET", f"/{bucket}/k", query={"versionId": "null"})
    answer = raw.request(GATEWAY[0], "GET", f"/{bucket}/k", query={"versionId": "abc"})
    assert (answer.status, answer.code) in {(400, "InvalidArgument"), (404, "NoSuchVersion"), (501, "NotImplemented")}


def test_wrong_methods(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x")
    call("POST", f"/{bucket}/k", 405, "MethodNotAllowed")
    for method in ("PATCH", "TRACE", "NONSENSE"):
        answer = raw.request(GATEWAY[0], method, f"/{bucket}/k")
        assert answer.status in (400, 405, 501), answer


def test_storage_classes(call, bucket):
    call("PUT", f"/{bucket}/k", body=b"x", headers={"x-amz-storage-class": "STANDARD"})
    call("PUT", f"/{bucket}/k", 400, "InvalidStorageClass", body=b"x", headers={"x-amz-storage-class": "NONSENSE"})


def test_boto3_paginator_and_waiter(s3, bucket):
    for i in range(25):
        s3.put_object(Bucket=bucket, Key=f"k{i:02}", Body=b"x" * i)
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 10}))
    assert [len(page["Contents"]) for page in pages] == [10, 10, 5]
    s3.get_waiter("object_exists").wait(Bucket=bucket, Key="k00")
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.get_object(Bucket=bucket, Key="nothing")
    assert refused.value.response["Error"]["Code"] == "NoSuchKey"
    assert refused.value.response["ResponseMetadata"]["RequestId"]


def test_virtual_host(start):
    gateway = start("--domain", "s3.example.test")
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket="hosted")
    host = f"hosted.s3.example.test:{gateway.port}"

    def hosted(method, path, status=200, **how):
        return check(raw.request(gateway, method, path, host=host, **how), status)

    hosted("PUT", "/dir/ä b", body=b"x")
    assert hosted("GET", "/dir/ä b").body == b"x"
    assert s3.get_object(Bucket="hosted", Key="dir/ä b")["Body"].read() == b"x"
    assert hosted("GET", "/", query={"list-type": "2"}).xml().findtext("Contents/Key") == "dir/ä b"
    hosted("HEAD", "/")
    answer = raw.request(gateway, "GET", "/hosted/dir/ä b", host=f"s3.example.test:{gateway.port}")
    assert answer.body == b"x"
    answer = raw.request(gateway, "GET", "/", host=f"absent.s3.example.test:{gateway.port}")
    check(answer, 404, "NoSuchBucket")
