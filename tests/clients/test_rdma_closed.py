"""A request that carries a token is never taken for one without a body: whatever the build has, whatever
is installed, whatever is set. `./dev test` runs these with builds that lack transports, too."""
import base64
import os

import pytest

import data
import gateway as gateways
import raw
from test_rdma import nothing_left, samples

DC = "00007f3a5c400000:00400000:00182ac7:0000:01a2b3:1:00000000000000000000ffffc0000211"
HIPOBJ = "01a2010000" + 20 * "0" + "ffffc0000211" + "c72a1800" + "0000405c3a7f0000" + "0000400000000000" + "010000"
REQUESTS = {
    "cuObject": {"x-amz-rdma-token": DC},
    "cuObject with a suffix": {"x-amz-rdma-token": DC + ":00007f3a5c500000:0000000000100000"},
    "cuObject in three fields": {"X-CuObj-RDMA-Descr": DC, "X-CuObj-Content-Length": "4096",
                                 "X-CuObj-Remote-Buf-Start": str(0x7f3a5c400000)},
    "cuObject as x-rdma-info": {"x-rdma-info": DC},
    "cuObject among the metadata": {"x-amz-meta-rdma-token": DC},
    "cuObject in base64": {"x-amz-rdma-token": base64.b64encode(DC.encode()).decode()},
    "rc session": {"x-amz-rdma-token": "rc:00112233445566778899aabbccddeeff:00007f3a5c400000:00400000:00182ac7"},
    "hipObject": {"x-amz-rdma-token": HIPOBJ},
    "libfabric, of another provider": {
        "x-amz-rdma-token": "7f3a5c400000:1000:ofi1:efa:020000097f0000010000000000000000:1f"},
    "libfabric, of nobody": {
        "x-amz-rdma-token": "7f3a5c400000:1000:ofi1:tcp;ofi_rxm:020000007f0000010000000000000000:1f"},
    "a field of the family alone": {"x-amz-rdma-agent": "cuobj"},
}


def put(gateway, key, headers, **query):
    return raw.request(gateway, "PUT", f"/closed/{key}", headers=headers, query=query)


def check(one, status=501):
    """Nothing is stored, and it is said in the way that these clients read."""
    s3 = data.boto3_client(one)
    s3.create_bucket(Bucket="closed")
    s3.put_object(Bucket="closed", Key="there", Body=b"bytes")
    upload = s3.create_multipart_upload(Bucket="closed", Key="parts")["UploadId"]
    for name, headers in REQUESTS.items():
        for key in ("new", "there"):
            answer = put(one, key, headers)
            assert (answer.status, answer.headers.get("x-amz-rdma-reply")) == (status, "501"), (name, answer)
            assert answer.headers.get("x-railgate-path", "").startswith("declined:"), (name, answer)
            assert answer.headers.get("etag") is None, (name, answer)
        answer = put(one, "parts", headers, partNumber="1", uploadId=upload)
        assert (answer.status, answer.headers.get("x-amz-rdma-reply")) == (status, "501"), (name, answer)
        assert answer.headers.get("etag") is None, (name, answer)
        answer = raw.request(one, "GET", "/closed/there", headers=headers)
        assert (answer.status, answer.body) == (200, b"bytes"), (name, answer)
        assert answer.headers.get("x-amz-rdma-reply") == "501", (name, answer)
    assert not os.path.exists(os.path.join(one.tree, "closed", "new"))
    assert s3.get_object(Bucket="closed", Key="there")["Body"].read() == b"bytes"
    assert "Parts" not in s3.list_parts(Bucket="closed", Key="parts", UploadId=upload)
    assert sum(samples(one, "railgate_rdma_declines_total").values()) >= 4 * len(REQUESTS)
    assert not samples(one, "railgate_rdma_transfers_total")
    nothing_left(one)


@pytest.mark.parametrize("options, status", [
    ((), 501),
    (("--rdma", "off"), 501),
    (("--rdma-transports", "dc"), 501),
    (("--rdma-decline-put", "200"), 200),
])
def test_by_settings(start, options, status):
    check(start(*options), status)


def without(directory, *libraries):
    """An environment in which these cannot be loaded."""
    for library in libraries:
        (directory / library).write_text("no library")
    return {"LD_LIBRARY_PATH": str(directory)}


@pytest.mark.parametrize("missing", [("libfabric.so.1",), ("libibverbs.so.1",), ("libmlx5.so.1",),
                                     ("libfabric.so.1", "libibverbs.so.1", "libmlx5.so.1")])
def test_without_libraries(start, tmp_path, missing):
    """It starts, serves HTTP, says what it lacks, and declines what it cannot carry."""
    environment = without(tmp_path, *missing)
    one = start(environment=environment)
    check(one)
    if "libfabric.so.1" in missing:
        assert not samples(one, "railgate_rdma_rail_up")
        assert "ofi" in one.log()


def test_rdma_on_needs_a_transport(tmp_path):
    """With none of the libraries, or none built in, `--rdma on` does not start."""
    one = gateways.Gateway(tmp_path / "tree", ("--rdma", "on"),
                           without(tmp_path, "libfabric.so.1", "libibverbs.so.1", "libmlx5.so.1"), name="closed")
    with pytest.raises(AssertionError, match="exited with 2"):
        one.start()
    assert "setting rdma is on" in one.log()
