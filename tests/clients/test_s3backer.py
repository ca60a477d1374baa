"""s3backer: a block device whose blocks are objects. It knows virtual-host addressing only, so this
is also the test of BUCKET.localhost."""
import os
import shutil
import subprocess
import time

import data
import gateway as gateways
import pytest

pytestmark = pytest.mark.client


def test_file_system_on_a_bucket(start, tmp_path):
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse here")
    gateway = start("--domain", "localhost")
    bucket = data.new_bucket_name("blocks")
    s3 = data.boto3_client(gateway)
    s3.create_bucket(Bucket=bucket)

    def s3backer(point):
        return ["s3backer", f"--baseURL=http://localhost:{gateway.port}/", f"--region={gateways.REGION}",
                f"--accessId={gateways.ACCESS_KEY}", f"--accessKey={gateways.SECRET_KEY}",
                "--blockSize=64k", "--size=24m", "--authVersion=aws4", "--md5CacheSize=0", "--md5CacheTime=0", "--minWriteDelay=0",
                "--blockCacheSize=0", "-f", bucket, str(point)]

    def with_device(action):
        point = tmp_path / "device"
        point.mkdir(exist_ok=True)
        log = tmp_path / "s3backer.log"
        with open(log, "ab") as out:
            process = subprocess.Popen(s3backer(point), env=gateways.clean_environment(), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out)
        try:
            for _ in range(300):
                if os.path.exists(point / "file"):
                    break
                if process.poll() is not None:
                    said = log.read_text(errors="replace")
                    if "Operation not permitted" in said:
                        pytest.skip(f"mounting is not permitted here: {said[-300:]}")
                    raise AssertionError(f"s3backer exited with {process.returncode}:\n{said}")
                time.sleep(0.1)
            action(point / "file")
        finally:
            tool = shutil.which("fusermount") or shutil.which("fusermount3")
            for _ in range(100):
                if not os.path.ismount(point) or subprocess.run([tool, "-u", point], capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def tool(*words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def fill(device):
        tool("/sbin/mkfs.ext4", "-q", "-F", "-E", "nodiscard", device)
        (tmp_path / "payload").write_bytes(data.content("payload", 700001))
        tool("/sbin/debugfs", "-w", "-R", f"write {tmp_path}/payload payload", device)
        tool("/sbin/fsck.ext4", "-f", "-n", device)

    def look(device):
        tool("/sbin/fsck.ext4", "-f", "-n", device)
        tool("/sbin/debugfs", "-R", f"dump payload {tmp_path}/back", device)
        assert (tmp_path / "back").read_bytes() == data.content("payload", 700001)

    with_device(fill)
    assert len(data.all_objects(s3, bucket)) > 10
    with_device(look)
