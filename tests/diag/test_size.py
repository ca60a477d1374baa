"""Memory stays bounded whatever the input: made-up logs through a pipe, the peak measured.

RG_DIAG_MEBIBYTES sets how much (200). The ceiling is 64 MiB; a build with sanitizers, whose memory
is mostly the sanitizers', gets more.
"""
import os
import pathlib

import subprocess
import sys

import pytest

from diagnosis import BINARY

GENERATOR = pathlib.Path(BINARY).parent / "tests" / "diag" / "diagnose-log"
MEBIBYTES = int(os.environ.get("RG_DIAG_MEBIBYTES", "200"))
CEILING = 64

# A process of its own, so that the peak is of this run alone.
MEASURE = """
import resource, subprocess, sys
generator, binary, size, kind = sys.argv[1:]
log = subprocess.Popen([generator, size, kind], stdout=subprocess.PIPE)
done = subprocess.run([binary, "diagnose", "--node", "gpu01", "-"], stdin=log.stdout,
                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
log.stdout.close()
log.wait()
sys.stderr.write(done.stderr.decode(errors="replace")[-2000:])
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def is_sanitized():
    with open(BINARY, "rb") as file:
        return b"__asan_init" in file.read()


@pytest.mark.parametrize("kind", ["ordinary", "storm", "hostile"])
def test_memory(kind):
    if not GENERATOR.exists():
        pytest.skip(f"{GENERATOR} is not built")
    size = MEBIBYTES // 10 if is_sanitized() else MEBIBYTES
    environment = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1:detect_leaks=1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, GENERATOR, BINARY, str(size), kind],
        capture_output=True, text=True, timeout=900 + MEBIBYTES, env=environment,
    )
    status, peak = map(int, done.stdout.split())
    assert status == 1, done.stderr
    ceiling = CEILING * (6 if is_sanitized() else 1)
    assert peak / 1024 < ceiling, f"{kind}: {peak / 1024:.0f} MiB"
    print(f"{kind}: {size} MiB read, peak {peak / 1024:.0f} MiB")
