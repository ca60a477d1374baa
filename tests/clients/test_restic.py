"""restic: a backup, a full check of it, a restore, and pruning."""
import data
import pytest

pytestmark = pytest.mark.client


def test_backup_check_restore_prune(run, gateway, bucket, tmp_path):
    def restic(*words, **how):
        return run("restic", "-r", f"s3:{gateway.endpoint}/{bucket}/repository", "-q", *words,
                   RESTIC_PASSWORD="test", RESTIC_CACHE_DIR=str(tmp_path / "cache"), **how)

    files = data.write_tree(tmp_path / "from")
    data.write_big(tmp_path / "from" / "big", 40 << 20, step=5 << 20)
    restic("init")
    restic("backup", "from", cwd=tmp_path)
    restic("check", "--read-data")
    restic("restore", "latest", "--target", tmp_path / "back")
    want = data.read_tree(tmp_path / "from")
    data.assert_same_files(data.read_tree(tmp_path / "back" / "from"), want)

    (tmp_path / "from" / "big").unlink()
    (tmp_path / "from" / "plain").write_bytes(b"second state")
    restic("backup", "from", cwd=tmp_path)
    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    restic("restore", "latest", "--target", tmp_path / "again")
    files["plain"] = b"second state"
    data.assert_same_files(data.read_tree(tmp_path / "again" / "from"), files)
