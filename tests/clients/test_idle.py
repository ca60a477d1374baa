"""Thousands of idle connections: they cost little, and what else is asked is answered as before."""
import http.client
import os
import resource
import socket
import time

import pytest

import raw
import soak

MEMORY_EACH = 40 << 10  # resident, of a connection that has sent nothing or a part of a head
SPARE = 1500  # of the descriptors, for everything else


def raise_limit(count):
    """Both ends are ours: the limit is for each process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + SPARE:
        pytest.skip(f"the hard limit on open files is {hard}")
    for path in ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max", "/proc/sys/vm/max_map_count",
                 "/sys/fs/cgroup/pids.max"):
        if os.path.exists(path):
            with open(path) as file:
                limit = file.read().strip()
            # A thread's stack and its guard are two mappings.
            need = (2 if "map" in path else 1) * count + SPARE
            if limit.isdigit() and int(limit) < need:
                pytest.skip(f"{path} is {limit}, and {need} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + SPARE if hard == resource.RLIM_INFINITY else hard, hard))


def wait_for(gateway, count):
    deadline = time.monotonic() + 60
    while gateway.metric("railgate_connections") != count:
        assert time.monotonic() < deadline, gateway.metric("railgate_connections")
        time.sleep(0.1)


@pytest.mark.parametrize("count", [1000, 10000])
def test_many_idle_connections(start, count):
    if count > 1000 and soak.is_sanitized():
        pytest.skip("with a sanitizer a thread's stack is eight times as large")
    raise_limit(count)
    gateway = start("--connections-max", count, "--idle-timeout", "10m", "--rdma", "off")
    kept = raw.connect(gateway)  # one that is served all the time
    assert raw.request(gateway, "PUT", "/idle", connection=kept).status == 200
    assert raw.request(gateway, "PUT", "/idle/k", body=b"hello", connection=kept).status == 200
    before, idle = soak.Usage(gateway), []
    try:
        for number in range(count - 1):
            # Most have said nothing yet; some stop within a head, some after an answer.
            one = socket.create_connection(("127.0.0.1", gateway.port), 30)
            if number % 10 == 1:
                one.sendall(b"GET /idle/k HTTP/1.1\r\nHost:")
            idle.append(one)
        wait_for(gateway, count)
        usage = soak.Usage(gateway)
        each = (usage["memory"] - before["memory"]) / count
        print(f"{count} connections: {each / 1024:.1f} KiB each, {usage['threads']} threads")
        assert each < MEMORY_EACH or soak.is_sanitized()
        for _ in range(20):
            assert raw.request(gateway, "GET", "/idle/k", connection=kept).body == b"hello"
            assert gateway.admin("/-/ready")[0] == 200
        assert raw.request(gateway, "PUT", "/idle/k2", body=b"x" * 300000, connection=kept).status == 200

        # One more than are served is told so.
        answer = raw.request(gateway, "GET", "/idle/k")
        assert (answer.status, answer.code) == (503, "SlowDown"), answer
        assert raw.request(gateway, "GET", "/idle/k", connection=kept).status == 200
    finally:
        for one in idle:
            one.close()
    wait_for(gateway, 1)
    kept.close()
    for _ in range(100):
        try:
            assert raw.request(gateway, "GET", "/idle/k").body == b"hello"
            break
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    else:
        raise AssertionError("it does not answer after they left")
    deadline = time.monotonic() + 30
    while (found := soak.more_than({**soak.Usage(gateway), "memory": 0}, before)) and time.monotonic() < deadline:
        time.sleep(0.5)
    found = [one for one in found if "leftovers" not in one]  # the two objects
    assert not found, found
