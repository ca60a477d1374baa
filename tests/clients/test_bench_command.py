"""railgate bench: its figures beside an independent count, several runs at once, and its end."""
import json
import os
import resource
import signal
import time

from hostile import Server, answer
from test_own_client import Client, tree_of, wait_for


def objects_of(one):
    return tree_of(os.path.join(one.tree, "bucket"))


def test_figures_beside_the_gateways(start, tmp_path):
    one = start("--rdma", "on")
    client = Client(one.endpoint, tmp_path)
    client.run("mb", "s3://bucket")
    count = {"bytes": lambda: one.metric("railgate_rdma_bytes_total"),
             "puts": lambda: one.metric("railgate_requests_total", operation="PutObject"),
             "gets": lambda: one.metric("railgate_requests_total", operation="GetObject"),
             "cpu": lambda: one.metric("process_cpu_seconds_total"),
             "own": lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])}
    for path in ("rdma", "http"):
        before = {name: read() for name, read in count.items()}
        began = time.monotonic()
        text = client.text("bench", "--json", "--paths", path, "--transports", "ofi", "--device", "tcp", "--sizes",
                           "100000,1M", "-c", "3", "--count", "20", "-d", "60", "--admin",
                           f"http://127.0.0.1:{one.admin_port}", "s3://bucket")
        wall = time.monotonic() - began
        spent = {name: read() - before[name] for name, read in count.items()}
        cells = json.loads(text)["cells"]
        put, get = ([cell for cell in cells if cell["operation"] == op] for op in ("put", "get"))
        assert len(put) == len(get) == 2
        # By the gateway: what was put to be read (3 objects a GET cell) goes by the default path, RDMA.
        assert spent["puts"] == 2 * 20 + 2 * 3 and spent["gets"] == 2 * 20
        prepared = 3 * (100000 + (1 << 20))
        moved = sum(cell["bytes"] for cell in cells)
        assert moved == 2 * 20 * (100000 + (1 << 20))
        assert spent["bytes"] == (moved if path == "rdma" else 0) + prepared
        for cell in cells:
            assert cell["operations"] == 20 and cell["failures"] == 0
            assert cell["witness_bytes"] == (cell["bytes"] if path == "rdma" else 0)
            assert cell["rdma_bytes"] == cell["witness_bytes"] and cell["path"].startswith(path)
            assert 0 < cell["seconds"] < wall
            # Both are rounded: to microseconds, and to thousandths of a MiB/s.
            rate = cell["bytes"] / (1 << 20) / cell["seconds"]
            assert abs(cell["mib_per_s"] - rate) < 0.001 + rate * 1e-6 / cell["seconds"]
            # No operation takes longer than the cell, and all together no longer than its threads had.
            assert cell["p50_ms"] <= cell["p90_ms"] <= cell["p99_ms"] <= cell["max_ms"] <= cell["seconds"] * 1000
            assert cell["p50_ms"] * 10 <= 3 * cell["seconds"] * 1000
        # Both processes' own clocks: no more than they spent in all that time.
        assert 0 < sum(cell["client_cpu_s"] for cell in cells) <= spent["own"] + 0.05
        assert 0 <= sum(cell["server_cpu_s"] for cell in cells) <= spent["cpu"] + 0.05
    assert objects_of(one) == {}


def test_latencies_that_are_known(tmp_path):
    """Eighteen operations of 20 ms and more, two of 400 ms and more."""
    delays = [0.02] * 9 + [0.4] + [0.02] * 9 + [0.4]
    left = list(delays)

    def reply(request):
        if request.method == "PUT":
            time.sleep(left.pop())
            return answer(200, {"ETag": '"e"'})
        return answer(200, (), b"<ListBucketResult/>")

    with Server(reply) as server:
        text = Client(server.endpoint, tmp_path).text("bench", "--json", "--op", "put", "--path", "http", "--sizes", "1K",
                                                      "-c", "1", "--count", "20", "-d", "60", "s3://b")
    cell, = json.loads(text)["cells"]
    assert cell["operations"] == 20
    assert 20 <= cell["p50_ms"] < 400 <= cell["p99_ms"] <= cell["max_ms"]
    assert 20 <= cell["p90_ms"] <= cell["p99_ms"]  # the 18th of 20
    assert cell["seconds"] >= sum(delays)
    assert "witness_ratio" not in cell and "server_cpu_s" not in cell


def test_runs_at_once(start, tmp_path):
    """Two runs below one URL: neither touches the other's objects, and the gateway counts both."""
    one = start("--rdma", "on")
    client = Client(one.endpoint, tmp_path)
    client.run("mb", "s3://bucket")
    common = ("bench", "--json", "--path", "rdma", "--transports", "ofi", "--device", "tcp", "--sizes", "64K", "-c", "2",
              "--admin", f"http://127.0.0.1:{one.admin_port}", "s3://bucket")
    before = one.metric("railgate_rdma_bytes_total")
    long = client.start(*common, "--op", "get", "-d", "600")
    wait_for(lambda: one.metric("railgate_requests_total", operation="GetObject") > 0, "the first GET")
    done = client.run(*common, "--op", "put,get", "--count", "10", "-d", "60")  # ends, and cleans, before
    assert long.poll() is None
    long.send_signal(signal.SIGINT)
    out, err = long.communicate(timeout=60)
    assert long.returncode == 1 and b"interrupted" in err, err
    cells = json.loads(out)["cells"] + json.loads(done.stdout)["cells"]
    assert len(cells) == 3 and all(cell["failures"] == 0 and cell["operations"] > 0 for cell in cells)
    prepared = 2 * 2 * 65536
    assert one.metric_at_rest("railgate_rdma_bytes_total") - before == sum(cell["bytes"] for cell in cells) + prepared
    # While both ran the gateway's count was larger than either's.
    assert cells[0]["witness_bytes"] > cells[0]["bytes"] == cells[0]["rdma_bytes"]
    assert objects_of(one) == {}


def test_interrupted(start, tmp_path):
    """What was measured is shown, and its objects are taken away."""
    one = start()
    client = Client(one.endpoint, tmp_path)
    client.run("mb", "s3://bucket")
    process = client.start("bench", "--path", "http", "--sizes", "64K", "-c", "2", "-d", "100", "s3://bucket")
    wait_for(lambda: len(objects_of(one)) == 2, "objects")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and b"interrupted" in err, err
    assert len(out.splitlines()) == 2 and int(out.splitlines()[1].split()[5]) > 0
    assert objects_of(one) == {}


def test_interrupted_while_it_prepares(tmp_path):
    """No further object is put, nothing is run, no row is shown, and what is there is deleted."""
    keys, seen = [], []

    def reply(request):
        seen.append(request.method)
        path = request.path.split("?")[0]
        if request.method == "PUT":
            keys.append(path.removeprefix("/b/"))
            time.sleep(0.2)
            return answer(200, {"ETag": '"e"'})
        if request.method == "DELETE":
            keys.remove(path.removeprefix("/b/"))
            return answer(204)
        listed = "".join(f"<Contents><Key>{key}</Key><Size>1024</Size><ETag>e</ETag>"
                         "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" for key in keys)
        return answer(200, (), f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode())

    with Server(reply) as server:
        process = Client(server.endpoint, tmp_path).start("bench", "--op", "get", "--path", "http", "--sizes", "1K",
                                                          "-c", "100,200", "-d", "60", "s3://b")
        wait_for(lambda: len(keys) >= 2, "objects")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)  # all of them would take 20 s
    assert process.returncode == 1 and b"interrupted" in err and b"of a part" not in err, err
    assert len(out.splitlines()) == 1, out
    assert keys == [] and seen.count("PUT") < 20 and seen.count("PUT") == seen.count("DELETE")
    assert seen.count("GET") == 1  # the listing
