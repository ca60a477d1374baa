"""In the guest: the doctor of this machine visits itself over soft-RoCE and moves bytes by rc."""

import json
import os
import subprocess

BINARY = os.environ.get("RG_BINARY", "build/railgate")


def visit(port):
    done = subprocess.run([BINARY, "doctor", "peer", "10.9.0.1", "--port", port, "--transports", "rc",
                           "--memory", "4M", "--json"], capture_output=True, text=True, timeout=300,
                          check=False)
    assert "Sanitizer" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def test_bytes_move_by_rc():
    serve = subprocess.Popen([BINARY, "doctor", "serve", "--listen", "10.9.0.1", "--port", "0"],
                             stdout=subprocess.PIPE, text=True)
    try:
        port = serve.stdout.readline().split(" port ")[1].split()[0]
        report = visit(port)
        path = report["paths"][0]
        assert path["path"] == "rc" and path["well"], path
        assert path["device"] == "rxe0" and path["mtu"] == 4096 and not path["hardware"]
        assert path["largest_write"] == path["largest_read"] == 4 << 20
        ports = report["own"]["ports"]
        assert ports[0]["device"] == "rxe0" and ports[0]["gid_type"] == "RoCE v2"
        found = {f["id"]: f["verdict"] for f in report["findings"]}
        assert found["PEER-GID"] == found["PEER-LAYER"] == found["PEER-MTU"] == "ok"
    finally:
        serve.terminate()
        assert serve.wait(60) == 0
