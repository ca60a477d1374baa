"""The AWS SDK for JavaScript v3. Its streams send chunked, aws-chunked bodies without a length."""
import os
import shutil

import data
import pytest

pytestmark = pytest.mark.client

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "js")


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A copy with the packages of package-lock.json installed."""
    import subprocess

    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    top = tmp_path_factory.mktemp("js")
    for name in ("package.json", "package-lock.json", "test.mjs"):
        shutil.copy(os.path.join(HERE, name), top)
    for _ in range(2):
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=top, capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return top
    pytest.skip(f"npm ci failed, perhaps no registry is reachable: {done.stderr[-500:]}")


def test_sdk(installed, run, gateway):
    bucket = data.new_bucket_name("js")
    said = run("node", installed / "test.mjs", ENDPOINT=gateway.endpoint, BUCKET=bucket)
    assert said.rstrip().endswith("all steps passed"), said
