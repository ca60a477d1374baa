"""Fixtures shared by all tests: a gateway for the session, buckets, a boto3 client, commands."""
import os
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data  # noqa: E402
import gateway as gateways  # noqa: E402


def pytest_configure(config):
    # ./dev ends its parts with SIGTERM: what is mounted or frozen is put right before they go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.addinivalue_line("markers", "client: drives a program that somebody else wrote")
    config.addinivalue_line("markers", "store: worth repeating with each kind of file system")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    one = gateways.Gateway(tmp_path_factory.mktemp("tree")).start()
    yield one
    one.stop()


@pytest.fixture(autouse=True)
def alive(request):
    """A gateway that died under one test is not blamed on all that follow."""
    yield
    if "gateway" in request.fixturenames:
        one = request.getfixturevalue("gateway")
        if one.process.poll() is not None:
            request.session.shouldstop = f"the gateway ended with {one.process.returncode}"


@pytest.fixture
def start(tmp_path_factory):
    """start(option, ..., tree=DIR): a gateway of the test's own, stopped and examined at its end. With
    ready=False nothing is waited for."""
    started = []

    def start_one(*options, tree=None, ready=True, **how):
        one = gateways.Gateway(tree or tmp_path_factory.mktemp("tree"), options, **how)
        (one.start if ready else one.begin)()
        started.append(one)
        return one

    yield start_one
    for one in started:
        if one.process.returncode is None:
            one.stop()


@pytest.fixture(scope="session")
def s3(gateway):
    return data.boto3_client(gateway)


@pytest.fixture
def bucket(s3):
    """The name of a new bucket."""
    name = data.new_bucket_name()
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def run(gateway, tmp_path):
    """run(word, ..., input=None, check=True): a command with credentials in its environment and a
    home directory of its own. Returns its standard output as text."""
    home = tmp_path / "home"
    home.mkdir()
    environment = gateways.clean_environment(
        HOME=str(home),
        AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY,
        AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
        AWS_DEFAULT_REGION=gateways.REGION,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_MAX_ATTEMPTS="1",
        AWS_PAGER="",
        NO_PROXY="*",
    )

    def run_one(*words, check=True, input=None, timeout=300, cwd=None, **extra):
        done = subprocess.run(
            [str(word) for word in words], env={**environment, **extra}, input=input, cwd=cwd or tmp_path,
            capture_output=True, text=True, errors="replace", timeout=timeout,
            stdin=subprocess.DEVNULL if input is None else None,
        )
        if check:
            assert done.returncode == 0, (
                f"{' '.join(map(str, words))}: exit status {done.returncode}\n"
                f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            )
            return done.stdout
        return done

    return run_one
