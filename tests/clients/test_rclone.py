"""rclone: sync, check, listings and names."""
import json
import re

import data
import gateway as gateways
import pytest

pytestmark = pytest.mark.client


@pytest.fixture
def rclone(run, gateway, tmp_path):
    config = tmp_path / "rclone.conf"
    config.write_text(
        f"[r]\ntype = s3\nprovider = Other\nenv_auth = false\naccess_key_id = {gateways.ACCESS_KEY}\n"
        f"secret_access_key = {gateways.SECRET_KEY}\nregion = {gateways.REGION}\n"
        f"endpoint = {gateway.endpoint}\nforce_path_style = true\nupload_cutoff = 8M\nchunk_size = 5M\n"
    )

    def rclone_one(*words, **how):
        return run("rclone", "--config", config, "--retries", "1", "--low-level-retries", "1", *words, **how)

    return rclone_one


def test_sync_check_and_list(rclone, s3, bucket, tmp_path):
    files = data.write_tree(tmp_path / "from")
    data.write_big(tmp_path / "from" / "big", 23 << 20, step=3 << 20)
    files["big"] = (tmp_path / "from" / "big").read_bytes()
    rclone("sync", tmp_path / "from", f"r:{bucket}/t")
    rclone("check", "--download", tmp_path / "from", f"r:{bucket}/t")
    rclone("check", tmp_path / "from", f"r:{bucket}/t")
    data.assert_same_files(
        data.all_objects(s3, bucket), {f"t/{name}": body for name, body in files.items()}
    )
    listed = json.loads(rclone("lsjson", "-R", "--hash", f"r:{bucket}/t"))
    assert {item["Path"]: item["Size"] for item in listed if not item["IsDir"]} == {
        name.replace("\t", "␉"): len(body) for name, body in files.items()  # as rclone shows a tab
    }
    (tmp_path / "from" / "plain").write_bytes(b"other")
    (tmp_path / "from" / "0").unlink()
    rclone("sync", tmp_path / "from", f"r:{bucket}/t")
    rclone("copy", f"r:{bucket}/t", tmp_path / "back")
    data.assert_same_files(data.read_tree(tmp_path / "back"), data.read_tree(tmp_path / "from"))
    # Modification times travel as metadata: a second sync has nothing to do.
    again = rclone("sync", "-v", "--stats-one-line", tmp_path / "from", f"r:{bucket}/t", check=False)
    assert again.returncode == 0 and "Copied" not in again.stderr


def test_server_side_copy_move_and_purge(rclone, s3, bucket, tmp_path):
    files = data.write_tree(tmp_path / "from")
    rclone("copy", tmp_path / "from", f"r:{bucket}/a")
    rclone("copy", f"r:{bucket}/a", f"r:{bucket}/b")
    rclone("check", f"r:{bucket}/a", f"r:{bucket}/b")
    rclone("moveto", f"r:{bucket}/b", f"r:{bucket}/c")
    data.assert_same_files(
        data.all_objects(s3, bucket, Prefix="c/"), {f"c/{name}": body for name, body in files.items()}
    )
    assert data.all_objects(s3, bucket, Prefix="b/") == {}
    said = rclone("cat", f"r:{bucket}/a/plain")
    assert len(said) == len(files["plain"].decode(errors="replace"))
    assert rclone("size", "--json", f"r:{bucket}/a") and json.loads(
        rclone("size", "--json", f"r:{bucket}/a"))["count"] == len(files)
    rclone("rcat", f"r:{bucket}/streamed", input="x" * 100000)
    assert s3.get_object(Bucket=bucket, Key="streamed")["Body"].read() == b"x" * 100000
    rclone("purge", f"r:{bucket}")
    assert bucket not in [item["Name"] for item in s3.list_buckets()["Buckets"]]


def test_names_that_rclone_probes(rclone, bucket):
    """rclone's own probe of which characters survive in names, each at start, middle and end."""
    out = rclone("test", "info", "--check-normalization", "--check-control=false", "--check-streaming",
                 f"r:{bucket}/probe", check=False, timeout=500)
    assert out.returncode == 0, out.stderr[-3000:]
    said = out.stdout + out.stderr
    for fact in ("canWriteUnnormalized", "canReadUnnormalized", "canStream"):
        assert re.search(fact + r"\s*= true", said), said[-2000:]
