"""How long a transfer may take, and what is said when it took longer: the budget counts from the request's
arrival, and nothing moves between the answer and the end of the client's patience."""
import os
import shutil
import threading
import time

import pytest

import data
import raw
from test_rdma import DEAD_PEER, nothing_left, samples, total
from test_rdma_rough import stop_in_the_middle
from trouble import troubled_mount

MIB = 1 << 20
TOKEN = DEAD_PEER.replace(":1000:", ":400000:")  # as large as what is asked for


@pytest.fixture
def mounted(start, tmp_path):
    """What starts a gateway with a bucket on a mount that hangs on command, and what commands it."""
    (tmp_path / "tree").mkdir()
    data.write_big(tmp_path / "source", 3 * MIB + 5)
    with troubled_mount(str(tmp_path), str(tmp_path / "tree" / "mounted")) as trouble:
        gateways = []

        def begin(*options):
            shutil.copy(tmp_path / "source", tmp_path / "tree" / "mounted" / "there")
            gateways.append(start(*options, tree=tmp_path / "tree"))
            deadline = time.monotonic() + 60
            while raw.request(gateways[0], "PUT", "/mounted/first").status != 200:  # the mount is being looked at
                assert time.monotonic() < deadline
            return gateways[0]

        yield begin, trouble
        trouble.end()
        for gateway in gateways:
            gateway.stop()


def settle(gateway):
    deadline = time.monotonic() + 30
    while gateway.metric("railgate_workers_stuck") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert gateway.metric("railgate_workers_stuck") == 0
    nothing_left(gateway)


def counts(gateway):
    """All that says that the client's memory was asked for."""
    return [samples(gateway, name) for name in ("railgate_rdma_transfers_total", "railgate_rdma_declines_total",
                                                "railgate_rdma_failures_total")]


HANGS = pytest.mark.parametrize("operation, method, key", [("open", "GET", "there"), ("create", "PUT", "new")])


@HANGS
def test_nothing_moves_after_the_answer(mounted, operation, method, key):
    """The mount hangs before the transfer, the request is answered 503, and then the mount goes on: the
    client's memory is not its window any more."""
    begin, trouble = mounted
    one = begin("--storage-timeout", "1s")
    before = counts(one)
    trouble.begin(operation)
    answer = raw.request(one, method, f"/mounted/{key}", headers={"x-amz-rdma-token": TOKEN})
    assert (answer.status, answer.code) == (503, "ServiceUnavailable")
    trouble.end()
    settle(one)
    assert counts(one) == before


@HANGS
def test_the_budget_counts_from_the_arrival(mounted, tmp_path, operation, method, key):
    """What the mount took before the transfer is not given to it once more: the client has waited for it."""
    begin, trouble = mounted
    one = begin("--rdma-budget", "1s")
    trouble.begin(operation)
    end = threading.Timer(2.5, trouble.end)
    end.start()
    answer = raw.request(one, method, f"/mounted/{key}", headers={"x-amz-rdma-token": TOKEN})
    end.join()
    assert answer.headers.get("x-amz-rdma-reply") == "501"
    assert answer.headers.get("x-railgate-path") == ("http:too-slow" if method == "GET" else "declined:too-slow")
    assert samples(one, "railgate_rdma_declines_total") == {'{reason="too-slow"}': 1.0}
    if method == "GET":
        assert (answer.status, answer.body) == (200, (tmp_path / "source").read_bytes())
    else:
        assert answer.status == 501 and not os.path.exists(os.path.join(one.tree, "mounted", "new"))
    settle(one)


@pytest.mark.parametrize("way", ["PUT", "GET"])
def test_a_slow_client_is_no_hanging_mount(start, tmp_path, way):
    """The client stands still for longer than storage-timeout, within the budget: nobody answers the request
    meanwhile."""
    source, back = tmp_path / "source", tmp_path / "back"
    data.write_big(source, 192 * MIB)
    (tmp_path / "tree" / "rdma").mkdir(parents=True)
    shutil.copy(source, tmp_path / "tree" / "rdma" / "there")
    one = start("--storage-timeout", "2s", "--rdma-budget", "60s", "--rdma-queue-wait", "10s", tree=tmp_path / "tree")
    ends = (source, "s3://rdma/new") if way == "PUT" else ("s3://rdma/there", back)
    client = stop_in_the_middle(one, *ends)
    assert one.metric("railgate_workers_stuck") == 0
    assert client.poll() is None
    client.kill()
    client.wait()
    nothing_left(one)
