"""A bucket mounted with s3fs (FUSE)."""
import contextlib
import os
import random
import shutil
import subprocess
import time

import data
import gateway as gateways
import pytest

pytestmark = pytest.mark.client


@contextlib.contextmanager
def mounted(gateway, bucket, tmp_path, *options):
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse here")
    point, passwd = tmp_path / "mount", tmp_path / "passwd-s3fs"
    point.mkdir(exist_ok=True)
    passwd.write_text(f"{gateways.ACCESS_KEY}:{gateways.SECRET_KEY}\n")
    passwd.chmod(0o600)
    log = tmp_path / "s3fs.log"
    words = ["s3fs", bucket, str(point), "-f", "-o", f"url={gateway.endpoint}", "-o", "use_path_request_style",
             "-o", f"passwd_file={passwd}", "-o", f"endpoint={gateways.REGION}", "-o", "sigv4",
             "-o", "retries=1", "-o", "multipart_size=10", "-o", "dbglevel=warn"]
    with open(log, "wb") as out:
        process = subprocess.Popen([*words, *options], env=gateways.clean_environment(), stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out)
    try:
        for _ in range(300):
            if os.path.ismount(point):
                break
            if process.poll() is not None:
                said = log.read_text(errors="replace")
                if "Operation not permitted" in said or "fusermount" in said:
                    pytest.skip(f"mounting is not permitted here: {said[-300:]}")
                raise AssertionError(f"s3fs exited with {process.returncode}:\n{said}")
            time.sleep(0.1)
        assert os.path.ismount(point), log.read_text(errors="replace")
        yield point
    finally:
        tool = shutil.which("fusermount") or shutil.which("fusermount3")
        for _ in range(50):
            if not os.path.ismount(point) or subprocess.run([tool, "-u", point], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_files_in_a_mounted_bucket(gateway, s3, bucket, tmp_path):
    names = [name for name in data.AWKWARD if len(name) < 150]
    with mounted(gateway, bucket, tmp_path) as point:
        files = data.write_tree(point, names)
        data.assert_same_files(data.read_tree(point), files)

        os.rename(point / "plain", point / "renamed")
        files["renamed"] = files.pop("plain")
        os.unlink(point / "null")
        del files["null"]
        with open(point / "0", "ab") as out:
            out.write(b"appended")
        files["0"] += b"appended"
        with open(point / "~", "r+b") as out:  # truncate(2) by path gives zeros in s3fs 1.90
            out.truncate(3)
        files["~"] = files["~"][:3].ljust(3, b"\0")
        os.mkdir(point / "empty-dir")
        os.symlink("renamed", point / "link")
        assert os.readlink(point / "link") == "renamed"
        os.unlink(point / "link")
        os.rename(point / "deep", point / "deeper")
        files = {("deeper" + name[4:] if name.startswith("deep/") else name): body for name, body in files.items()}
        os.chmod(point / "renamed", 0o600)
        assert os.stat(point / "renamed").st_mode & 0o777 == 0o600
        digest = data.write_big(tmp_path / "big", 45 << 20, step=4 << 20)
        shutil.copy(tmp_path / "big", point / "big")
        assert data.file_sha256(point / "big") == digest
        os.unlink(point / "big")
    found = {key: body for key, body in data.all_objects(s3, bucket).items() if not key.endswith("/")}
    data.assert_same_files(found, files)

    # Mounted again, without anything cached.
    with mounted(gateway, bucket, tmp_path) as point:
        data.assert_same_files(data.read_tree(point), files)
        assert (point / "empty-dir").is_dir()
        shutil.rmtree(point / "deeper")
        for name in os.listdir(point):
            path = point / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert os.listdir(point) == []
    assert data.all_objects(s3, bucket) == {}


def test_random_reads_and_writes(gateway, s3, bucket, tmp_path):
    """Random writes, truncations and reads in one file, against the same on a copy in memory."""
    numbers = random.Random(7)
    model = bytearray()
    with mounted(gateway, bucket, tmp_path) as point:
        path = point / "file"
        path.write_bytes(b"")
        for _ in range(60):
            offset, length = numbers.randrange(300000), numbers.randrange(1, 50000)
            what = numbers.random()
            with open(path, "r+b") as file:
                if what < 0.5:
                    body = numbers.randbytes(length)
                    model.extend(bytes(max(0, offset - len(model))))
                    model[offset:offset + length] = body
                    file.seek(offset)
                    file.write(body)
                elif what < 0.65:
                    file.truncate(offset)
                    del model[offset:]
                    model.extend(bytes(offset - len(model)))
                else:
                    file.seek(offset)
                    assert file.read(length) == bytes(model[offset:offset + length])
        assert path.read_bytes() == bytes(model)
    assert s3.get_object(Bucket=bucket, Key="file")["Body"].read() == bytes(model)
