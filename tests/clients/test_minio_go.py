"""minio-go's own functional suite, built from Debian's package of its source.

EXPECTED holds the tests that cannot pass, each with why and with the outcome it must have: a test
that fails otherwise, or passes unexpectedly, is an error here.
"""
import json
import os
import re
import subprocess

import gateway as gateways
import pytest

pytestmark = pytest.mark.client

SOURCE = "/usr/share/gocode/src/github.com/minio/minio-go/v7/functional_tests.go"

# Test -> what its failure, or its NotImplemented note, must say.
SIGNATURE_V2 = "Signature Version 2 is not supported"
EXPECTED = {}


@pytest.fixture(scope="session")
def program():
    """The suite as a program; built once, kept in tests/out."""
    if not os.path.exists(SOURCE):
        pytest.skip("golang-github-minio-minio-go-v7-dev is not installed")
    top = os.path.join(gateways.TOP, "tests/out/minio-go")
    program = os.path.join(top, "minio-go-tests")
    if os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(SOURCE):
        return program
    os.makedirs(os.path.join(top, "src/suite"), exist_ok=True)
    with open(SOURCE) as source, open(os.path.join(top, "src/suite/main.go"), "w") as out:
        out.writelines(line for line in source if not re.match(r"//go:build mint|// \+build mint", line))
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{top}:/usr/share/gocode", "GOFLAGS": ""}
    done = subprocess.run(["/usr/bin/go", "build", "-o", program, "./src/suite"], cwd=top, env=environment,
                          capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stderr[-4000:]
    return program


def outcomes(said):
    """{test: [(status, what it said), ...]} from the suite's JSON lines."""
    found = {}
    for line in said.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        name = record.get("name", "").replace("minio-go: ", "")
        text = " ".join(json.dumps(record.get(part, "")) for part in ("function", "alert", "message", "error"))
        found.setdefault(name, []).append((record.get("status"), text))
    return found


def test_suite(program, gateway):
    environment = gateways.clean_environment(
        SERVER_ENDPOINT=gateway.host, ACCESS_KEY=gateways.ACCESS_KEY, SECRET_KEY=gateways.SECRET_KEY,
        ENABLE_HTTPS="0", ENABLE_KMS="0", MINT_MODE="full", RUN_ON_FAIL="1",
    )
    log = os.path.join(gateways.OUT, "minio-go.log")
    with open(log, "w") as out:
        done = subprocess.run([program], env=environment, stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=590)
    with open(log, errors="replace") as lines:
        said = lines.read()
    assert done.returncode == 0, said[-4000:]
    found = outcomes(said)
    wrong = []
    for name, results in sorted(found.items()):
        bad = [text for status, text in results if status != "PASS"]
        if name in EXPECTED:
            if not bad:
                wrong.append(f"{name}: passes now; take it out of EXPECTED")
            elif not all(re.search(EXPECTED[name], text) for text in bad):
                wrong.append(f"{name}: fails otherwise than expected: {bad}")
        elif bad:
            wrong.append(f"{name}: {bad}")
    wrong += [f"{name}: did not run" for name in EXPECTED if name not in found]
    assert not wrong, "\n".join(wrong)
    passed = [name for name, results in found.items() if all(status == "PASS" for status, _ in results)]
    print(f"{len(passed)} of {len(found)} minio-go tests pass")
    assert len(passed) >= 40
