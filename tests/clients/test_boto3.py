"""boto3 as Debian packages it: transfers by parts, streams, conditions, presigned URLs, resources."""
import hashlib
import io
import threading
import urllib.request

import boto3
import botocore.exceptions
import data
import gateway as gateways
import pytest
from boto3.s3.transfer import TransferConfig

pytestmark = pytest.mark.client


def test_transfer_manager(s3, bucket, tmp_path):
    digest = data.write_big(tmp_path / "big", 60 << 20, step=7 << 20)
    config = TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
    seen, lock = [], threading.Lock()

    def progress(count):
        with lock:
            seen.append(count)

    s3.upload_file(str(tmp_path / "big"), bucket, "big", Config=config, Callback=progress,
                   ExtraArgs={"Metadata": {"m": "1"}, "ContentType": "x/y"})
    assert sum(seen) == 60 << 20
    head = s3.head_object(Bucket=bucket, Key="big")
    assert head["ETag"].endswith('-12"') and head["Metadata"] == {"m": "1"} and head["ContentType"] == "x/y"
    s3.copy({"Bucket": bucket, "Key": "big"}, bucket, "copy", Config=config)
    s3.download_file(bucket, "copy", str(tmp_path / "back"), Config=config)
    assert data.file_sha256(tmp_path / "back") == digest
    s3.upload_fileobj(io.BytesIO(b"small"), bucket, "small")
    out = io.BytesIO()
    s3.download_fileobj(bucket, "small", out)
    assert out.getvalue() == b"small"


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums(s3, bucket, algorithm):
    body = data.content(algorithm, 300000)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body  # the SDK compares the checksum as it reads
    assert got[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ChecksumAlgorithm=algorithm)["UploadId"]
    parts = []
    for number, piece in enumerate((b"a" * (5 << 20), b"b"), 1):
        part = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=number, Body=piece,
                              ChecksumAlgorithm=algorithm)
        parts.append({"PartNumber": number, "ETag": part["ETag"],
                      f"Checksum{algorithm}": part[f"Checksum{algorithm}"]})
    done = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": parts})
    assert done[f"Checksum{algorithm}"].endswith("-2")
    assert s3.get_object(Bucket=bucket, Key="m")["Body"].read() == b"a" * (5 << 20) + b"b"


def test_conditional_write(gateway, bucket):
    """The parameter is younger than this boto3: the header is added on its way out."""
    s3 = data.boto3_client(gateway)
    s3.meta.events.register("before-call.s3.PutObject",
                            lambda params, **_: params["headers"].update({"If-None-Match": "*"}))
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="k", Body=b"2")
    assert refused.value.response["Error"]["Code"] == "PreconditionFailed"
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"


def test_unsigned_payload_and_presigned(gateway, bucket):
    s3 = data.boto3_client(gateway, signature_version="s3v4",
                           s3={"addressing_style": "path", "payload_signing_enabled": False})
    s3.put_object(Bucket=bucket, Key="a b/ü", Body=b"body")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"body"
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "new", "ContentType": "t/x"})
    request = urllib.request.Request(url, data=b"put", method="PUT", headers={"Content-Type": "t/x"})
    urllib.request.urlopen(request).close()
    head = s3.head_object(Bucket=bucket, Key="new")
    assert head["ContentType"] == "t/x" and head["ContentLength"] == 3


def test_resources(gateway, bucket):
    s3 = boto3.resource("s3", endpoint_url=gateway.endpoint, aws_access_key_id=gateways.ACCESS_KEY,
                        aws_secret_access_key=gateways.SECRET_KEY, region_name=gateways.REGION)
    mine = s3.Bucket(bucket)
    for i in range(1234):
        mine.put_object(Key=f"k/{i:04}", Body=b"")
    assert [item.key for item in mine.objects.filter(Prefix="k/")] == [f"k/{i:04}" for i in range(1234)]
    assert mine.creation_date
    mine.objects.all().delete()
    assert list(mine.objects.all()) == []
    mine.delete()
    assert bucket not in [item.name for item in s3.buckets.all()]


def test_stream_read_in_pieces(s3, bucket):
    body = data.content("pieces", 3 << 20)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    digest = hashlib.sha256()
    for piece in s3.get_object(Bucket=bucket, Key="k")["Body"].iter_chunks(10007):
        digest.update(piece)
    assert digest.hexdigest() == hashlib.sha256(body).hexdigest()
    # Left half-read: the gateway must cope with the broken connection.
    for _ in range(5):
        s3.get_object(Bucket=bucket, Key="k")["Body"].close()
    assert s3.get_object(Bucket=bucket, Key="k", Range="bytes=1000000-1000009")["Body"].read() == body[1000000:1000010]
