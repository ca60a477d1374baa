"""s3cmd: it compares every ETag with the MD5 and is strict about what it reads back."""
import data
import gateway as gateways
import pytest

pytestmark = pytest.mark.client


@pytest.fixture
def s3cmd(run, gateway, tmp_path):
    config = tmp_path / "s3cfg"
    config.write_text(
        f"[default]\naccess_key = {gateways.ACCESS_KEY}\nsecret_key = {gateways.SECRET_KEY}\n"
        f"host_base = {gateway.host}\nhost_bucket = {gateway.host}\nuse_https = False\n"
        f"bucket_location = {gateways.REGION}\nmultipart_chunk_size_mb = 5\nprogress_meter = False\n"
        "signature_v2 = False\n"
    )

    def s3cmd_one(*words, **how):
        return run("s3cmd", "-c", config, *words, **how)

    return s3cmd_one


def test_everyday_work(s3cmd, s3, tmp_path):
    bucket = data.new_bucket_name()
    s3cmd("mb", f"s3://{bucket}")
    body = data.content("s3cmd", 70000)
    (tmp_path / "up.bin").write_bytes(body)
    s3cmd("put", "--add-header", "x-amz-meta-colour: blue", tmp_path / "up.bin", f"s3://{bucket}/ä b+c.bin")
    assert f"s3://{bucket}/ä b+c.bin" in s3cmd("ls", f"s3://{bucket}")
    said = s3cmd("info", f"s3://{bucket}/ä b+c.bin")
    assert data.md5(body) in said and "colour" in said.lower()
    s3cmd("get", f"s3://{bucket}/ä b+c.bin", tmp_path / "down.bin")
    assert (tmp_path / "down.bin").read_bytes() == body
    s3cmd("cp", f"s3://{bucket}/ä b+c.bin", f"s3://{bucket}/copy")
    s3cmd("mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    assert s3.get_object(Bucket=bucket, Key="moved")["Body"].read() == body
    s3cmd("modify", "--add-header", "x-amz-meta-colour: red", f"s3://{bucket}/moved")
    assert s3.head_object(Bucket=bucket, Key="moved")["Metadata"]["colour"] == "red"
    assert f"s3://{bucket}/moved" in s3cmd("la")
    said = s3cmd("du", f"s3://{bucket}")
    assert said.split()[0] == str(2 * len(body))
    refused = s3cmd("setacl", "--acl-public", f"s3://{bucket}/moved", check=False)
    assert refused.returncode != 0 and "NotImplemented" in refused.stdout + refused.stderr
    s3cmd("del", f"s3://{bucket}/moved")
    s3cmd("del", "--recursive", "--force", f"s3://{bucket}/")
    s3cmd("rb", f"s3://{bucket}")


def test_sync_both_ways(s3cmd, s3, bucket, tmp_path):
    # s3cmd writes control characters in names as ^I and the like.
    files = data.write_tree(tmp_path / "from", [name for name in data.AWKWARD if "\t" not in name])
    s3cmd("sync", f"{tmp_path}/from/", f"s3://{bucket}/t/")
    data.assert_same_files(
        data.all_objects(s3, bucket), {f"t/{name}": body for name, body in files.items()}
    )
    (tmp_path / "from" / "plain").write_bytes(b"other")
    (tmp_path / "from" / "0").unlink()
    s3cmd("sync", "--delete-removed", f"{tmp_path}/from/", f"s3://{bucket}/t/")
    (tmp_path / "back").mkdir()
    s3cmd("sync", f"s3://{bucket}/t/", f"{tmp_path}/back/")
    data.assert_same_files(data.read_tree(tmp_path / "back"), data.read_tree(tmp_path / "from"))


def test_parts(s3cmd, s3, bucket, tmp_path):
    digest = data.write_big(tmp_path / "big", 23 << 20, step=3 << 20)
    s3cmd("put", tmp_path / "big", f"s3://{bucket}/big")
    assert s3.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-5"')
    assert "big" not in s3cmd("multipart", f"s3://{bucket}").partition("Path")[2]
    s3cmd("get", f"s3://{bucket}/big", tmp_path / "back")
    assert data.file_sha256(tmp_path / "back") == digest
