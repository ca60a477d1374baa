"""aws-cli v2, as Debian packages it."""
import json
import os

import data
import pytest

pytestmark = pytest.mark.client


@pytest.fixture
def aws(run, gateway):
    def aws_one(*words, **how):
        return run("/usr/bin/aws", "--endpoint-url", gateway.endpoint, *words, **how)

    return aws_one


def test_recursive_copy_sync_and_remove(aws, s3, bucket, tmp_path):
    files = data.write_tree(tmp_path / "from")
    aws("s3", "cp", "--recursive", tmp_path / "from", f"s3://{bucket}/a")
    data.assert_same_files(
        data.all_objects(s3, bucket), {f"a/{name}": body for name, body in files.items()}
    )
    aws("s3", "cp", "--recursive", f"s3://{bucket}/a", tmp_path / "back")
    data.assert_same_files(data.read_tree(tmp_path / "back"), files)

    # Nothing changed: a sync moves nothing. Then one file changes, one goes, one comes.
    assert aws("s3", "sync", tmp_path / "from", f"s3://{bucket}/a") == ""
    (tmp_path / "from" / "plain").write_bytes(b"changed and longer than it was")
    os.unlink(tmp_path / "from" / "null")
    (tmp_path / "from" / "new").write_bytes(b"new")
    said = aws("s3", "sync", "--delete", tmp_path / "from", f"s3://{bucket}/a")
    assert len(said.strip().splitlines()) >= 3
    want = data.read_tree(tmp_path / "from")
    data.assert_same_files(
        data.all_objects(s3, bucket), {f"a/{name}": body for name, body in want.items()}
    )
    aws("s3", "sync", f"s3://{bucket}/a", f"s3://{bucket}/b")
    aws("s3", "mv", f"s3://{bucket}/b/plain", f"s3://{bucket}/b/moved")
    want["moved"] = want.pop("plain")
    data.assert_same_files(
        data.all_objects(s3, bucket, Prefix="b/"), {f"b/{name}": body for name, body in want.items()}
    )
    aws("s3", "rm", "--recursive", f"s3://{bucket}")
    assert data.all_objects(s3, bucket) == {}
    aws("s3", "rb", f"s3://{bucket}")


def test_large_file_in_parts(aws, s3, bucket, tmp_path):
    digest = data.write_big(tmp_path / "big", 100 << 20)
    aws("s3", "cp", tmp_path / "big", f"s3://{bucket}/big")
    head = s3.head_object(Bucket=bucket, Key="big")
    assert head["ContentLength"] == 100 << 20
    assert head["ETag"].endswith('-13"')  # 8 MiB parts
    aws("s3", "cp", f"s3://{bucket}/big", f"s3://{bucket}/copy")
    aws("s3", "cp", f"s3://{bucket}/copy", tmp_path / "back")
    assert data.file_sha256(tmp_path / "back") == digest
    # A file in the tree is that file.
    uploads = json.loads(aws("s3api", "list-multipart-uploads", "--bucket", bucket) or "{}")
    assert not uploads.get("Uploads")


def test_pipe(aws, s3, bucket):
    aws("s3", "cp", "-", f"s3://{bucket}/piped", input="some text\n")
    assert s3.get_object(Bucket=bucket, Key="piped")["Body"].read() == b"some text\n"
    assert aws("s3", "cp", f"s3://{bucket}/piped", "-") == "some text\n"


def test_presigned_url_with_curl(aws, run, bucket, tmp_path):
    body = data.content("presign", 123457)
    (tmp_path / "up").write_bytes(body)
    aws("s3", "cp", tmp_path / "up", f"s3://{bucket}/dir with space/ü+%.bin")
    url = aws("s3", "presign", f"s3://{bucket}/dir with space/ü+%.bin").strip()
    run("curl", "-sSf", "-o", tmp_path / "down", url)
    assert (tmp_path / "down").read_bytes() == body
    run("curl", "-sSf", "-r", "1000-1999", "-o", tmp_path / "part", url)
    assert (tmp_path / "part").read_bytes() == body[1000:2000]
    spoilt = url[:-1] + ("0" if url[-1] != "0" else "1")
    said = run("curl", "-sS", "-w", "%{http_code}", spoilt)
    assert said.endswith("403") and "SignatureDoesNotMatch" in said


def test_calls_of_s3api(aws, bucket, tmp_path):
    body = data.content("s3api", 5000)
    (tmp_path / "body").write_bytes(body)
    put = json.loads(aws(
        "s3api", "put-object", "--bucket", bucket, "--key", "k", "--body", tmp_path / "body",
        "--content-type", "text/x-test", "--cache-control", "no-cache", "--metadata", "One=1,two=zwei",
        "--tagging", "a=1&b=2", "--checksum-algorithm", "SHA256",
    ))
    assert put["ETag"] == f'"{data.md5(body)}"'
    head = json.loads(aws("s3api", "head-object", "--bucket", bucket, "--key", "k",
                          "--checksum-mode", "ENABLED"))
    assert head["ContentType"] == "text/x-test" and head["CacheControl"] == "no-cache"
    assert head["Metadata"] == {"one": "1", "two": "zwei"}
    assert head["ChecksumSHA256"] == put["ChecksumSHA256"]
    tags = json.loads(aws("s3api", "get-object-tagging", "--bucket", bucket, "--key", "k"))
    assert tags["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    aws("s3api", "get-object", "--bucket", bucket, "--key", "k", "--range", "bytes=100-199",
        tmp_path / "range")
    assert (tmp_path / "range").read_bytes() == body[100:200]
    attributes = json.loads(aws("s3api", "get-object-attributes", "--bucket", bucket, "--key", "k",
                                "--object-attributes", "ETag", "ObjectSize", "Checksum", "StorageClass"))
    assert attributes["ObjectSize"] == 5000 and attributes["ETag"] == data.md5(body)
    assert attributes["Checksum"]["ChecksumSHA256"] == put["ChecksumSHA256"]
    assert bucket in [b["Name"] for b in json.loads(aws("s3api", "list-buckets"))["Buckets"]]
    aws("s3api", "head-bucket", "--bucket", bucket)
    location = json.loads(aws("s3api", "get-bucket-location", "--bucket", bucket))
    assert location["LocationConstraint"] is None  # us-east-1
    assert json.loads(aws("s3api", "get-bucket-acl", "--bucket", bucket))["Grants"]
    assert aws("s3api", "get-bucket-versioning", "--bucket", bucket).strip() in ("", "{}")
    refused = aws("s3api", "put-bucket-versioning", "--bucket", bucket,
                  "--versioning-configuration", "Status=Enabled", check=False)
    assert refused.returncode != 0 and "NotImplemented" in refused.stderr
    gone = aws("s3api", "head-object", "--bucket", bucket, "--key", "nothing", check=False)
    assert gone.returncode != 0 and "404" in gone.stderr


def test_listing_thousands_of_awkward_keys(aws, s3, bucket):
    """2 500 keys over several pages, as V1 and V2, flat and by folder."""
    keys = [f"{data.AWKWARD[i % 20]}/{i % 7}/{data.AWKWARD[(i * 7) % 20]} {i:05}" for i in range(2500)]
    keys = sorted(set(keys), key=lambda key: key.encode())
    put_all(s3, bucket, keys)
    listed = json.loads(aws("s3api", "list-objects-v2", "--bucket", bucket))
    assert [item["Key"] for item in listed["Contents"]] == keys
    listed = json.loads(aws("s3api", "list-objects", "--bucket", bucket, "--page-size", "333"))
    assert [item["Key"] for item in listed["Contents"]] == keys
    listed = json.loads(aws("s3api", "list-objects-v2", "--bucket", bucket, "--delimiter", "/",
                            "--page-size", "3"))
    prefixes = sorted({key.split("/")[0] + "/" for key in keys}, key=lambda key: key.encode())
    assert [item["Prefix"] for item in listed["CommonPrefixes"]] == prefixes
    assert not listed.get("Contents")
    said = aws("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}")
    assert f"Total Objects: {len(keys)}" in said
    aws("s3", "rm", "--quiet", "--recursive", f"s3://{bucket}/{keys[0].split('/')[0]}/")
    left = [key for key in keys if not key.startswith(keys[0].split("/")[0] + "/")]
    listed = json.loads(aws("s3api", "list-objects-v2", "--bucket", bucket))
    assert [item["Key"] for item in listed["Contents"]] == left


def put_all(s3, bucket, keys):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=key.encode()), keys))
