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

# Test -> what every failure of it, or its note that a call is not implemented, must say.
SIGNATURE_V2 = "Signature Version 2 is not supported"
VERSIONING = r"(Make|MakeBucket) is NotImplemented"  # it makes a bucket and turns versioning on
ONE_REGION = "The region 'eu-central-1' is wrong"
ONE_STORAGE_CLASS = "The storage class you specified is not valid"
EXPECTED = {
    **{name: SIGNATURE_V2 for name in (
        "testComposeMultipleSources", "testComposeObjectErrorCasesWrapper", "testCopyObjectV2",
        "testFGetObjectContextV2", "testFPutObjectContextV2", "testFPutObjectV2", "testFunctionalV2",
        "testGetObjectClosedTwiceV2", "testGetObjectContextV2", "testGetObjectReadAtFunctionalV2",
        "testGetObjectReadSeekFunctionalV2", "testMakeBucketErrorV2", "testMakeBucketRegionsV2",
        "testPutObject0ByteV2", "testPutObjectContextV2", "testPutObjectNoLengthV2", "testPutObjectsUnknownV2",
        "testUserMetadataCopyingWrapper",
    )},
    **{name: VERSIONING for name in (
        "testComposeObjectWithVersioning", "testConcurrentCopyObjectWithVersioning", "testCopyObjectWithVersioning",
        "testGetObjectWithVersioning", "testListObjectVersions", "testObjectTaggingWithVersioning",
        "testPutObjectWithVersioning", "testRemoveMultipleObjectsWithResult", "testRemoveObjectWithVersioning",
        "testRemoveObjects", "testRemoveObjectsWithVersioning", "testStatObjectWithVersioning",
    )},
    **{name: ONE_STORAGE_CLASS for name in (
        "testListObjects", "testStorageClassMetadataCopyObject", "testStorageClassMetadataPutObject",
    )},
    "testMakeBucketError": ONE_REGION,
    "testMakeBucketRegions": ONE_REGION,
    "testBucketNotification": "is NotImplemented",
    "testFunctional": "SetBucketPolicy is NotImplemented",
    "testGetObjectACLContext": "PutObject is NotImplemented",  # it puts with a canned ACL
    "testGetObjectS3Zip": "s3zip is NotImplemented",
    "testPresignedPostPolicy": "403 Forbidden",  # a form is a request without a signature
}

# Tests that pass twice under one name: the V4 run of a shared body, whose V2 run fails.
SHARED = {"testComposeMultipleSources", "testComposeObjectErrorCasesWrapper", "testUserMetadataCopyingWrapper"}


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
            elif name in SHARED and len(bad) != 1:
                wrong.append(f"{name}: fails with Signature Version 4 too: {bad}")
            elif not all(re.search(EXPECTED[name], text) for text in bad):
                wrong.append(f"{name}: fails otherwise than expected: {bad}")
        elif bad:
            wrong.append(f"{name}: {bad}")
    wrong += [f"{name}: did not run" for name in EXPECTED if name not in found]
    assert not wrong, "\n".join(wrong)
    passed = [name for name, results in found.items() if all(status == "PASS" for status, _ in results)]
    print(f"{len(passed)} of {len(found)} minio-go tests pass")
    assert len(passed) >= 20 and len(found) >= 60, said[-2000:]
