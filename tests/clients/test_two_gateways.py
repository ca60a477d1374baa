"""Two gateways on one local tree, one of which is killed: what is there stays, the other goes on with
it, and neither sweeps away what the other is at. On GlusterFS: test_gluster.py."""
import http.client
import threading
import time

import pytest

import data
import gateway as gateways
import raw
import soak
from test_server import slow_put, wait_for_bodies

SWEEPING = ("--temp-expiry", "1s", "--sweep-interval", "1s", "--part-size-min", "1")


@pytest.fixture(params=["", "o-tmpfile,rename-flags"])
def pair(request, start, tmp_path):
    mask = ("--mask", request.param) if request.param else ()
    return [start(*SWEEPING, *mask, tree=tmp_path / "tree") for _ in range(2)]


def complete(gateway, path, upload, etags):
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
                    for number, etag in enumerate(etags, 1))
    return raw.request(gateway, "POST", path, query={"uploadId": upload},
                       body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())


def test_killed_while_it_writes(pair):
    one, two = pair
    assert raw.request(one, "PUT", "/shared").status == 200
    old = raw.request(one, "PUT", "/shared/k", body=b"before").headers["etag"]
    upload = raw.request(one, "POST", "/shared/m", query={"uploads": ""}).xml().findtext("UploadId")
    part = {"uploadId": upload, "partNumber": "1"}
    first = raw.request(one, "PUT", "/shared/m", query=part, body=b"first part").headers["etag"]
    rests = [slow_put(one, "/shared/k", 4 << 20), slow_put(one, "/shared/new", 4 << 20)]
    wait_for_bodies(one, 2)
    one.kill()
    for rest in rests:
        with pytest.raises((OSError, http.client.HTTPException)):
            rest()
    # The other goes on with the key at once: nothing of the dead one holds it.
    began = time.monotonic()
    assert raw.request(two, "GET", "/shared/k").body == b"before"
    answer = raw.request(two, "PUT", "/shared/k", headers={"if-match": old}, body=b"after")
    assert answer.status == 200, answer
    assert time.monotonic() - began < 20
    assert raw.request(two, "GET", "/shared/new").status == 404
    # And with the upload.
    second = raw.request(two, "PUT", "/shared/m", query={"uploadId": upload, "partNumber": "2"}, body=b" and second")
    answer = complete(two, "/shared/m", upload, [first, second.headers["etag"]])
    assert answer.status == 200 and answer.xml().tag != "Error", answer
    assert raw.request(two, "GET", "/shared/m").body == b"first part and second"
    for key in ("k", "m"):
        assert raw.request(two, "DELETE", f"/shared/{key}").status == 204
    deadline = time.monotonic() + 30
    while (left := soak.leftovers(two.tree)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, "what the dead one had begun was not swept"


def test_a_token_outlives_its_gateway(pair):
    one, two = pair
    raw.request(one, "PUT", "/shared")
    for number in range(7):
        raw.request(one, "PUT", f"/shared/{number}", body=b"x")
    page = raw.request(one, "GET", "/shared", query={"list-type": "2", "max-keys": "3"}).xml()
    token = page.findtext("NextContinuationToken")
    one.kill()
    again = gateways.Gateway(two.tree, SWEEPING).start()
    for gateway in (two, again):
        rest = raw.request(gateway, "GET", "/shared", query={"list-type": "2", "continuation-token": token})
        assert [key.text for key in rest.xml().iter("Key")] == ["3", "4", "5", "6"], rest
    again.stop()


def test_sweepers_leave_what_is_in_use(pair):
    """Both sweep each second, all that is older than one; bodies and uploads take longer than that."""
    one, two = pair
    raw.request(one, "PUT", "/shared")
    over, problems = threading.Event(), []

    def churn(gateway, name):
        number = 0
        while not over.is_set():
            key, body = f"/shared/{name}/{number % 5}", data.content(f"{name}{number}", 3000)
            put = raw.request(gateway, "PUT", key, body=body, headers={"x-amz-meta-a": "v" * 1900})
            got = raw.request((one, two)[number % 2], "GET", key)
            if put.status != 200 or got.body != body or got.headers["x-amz-meta-a"] != "v" * 1900:
                problems.append((put, got))
            if number % 3 == 0 and raw.request(gateway, "DELETE", key).status != 204:
                problems.append("not deleted")
            number += 1

    churners = [threading.Thread(target=churn, args=(gateway, f"c{i}")) for i, gateway in enumerate(pair)]
    for churner in churners:
        churner.start()
    uploads = []
    for gateway in pair:
        upload = raw.request(gateway, "POST", "/shared/m", query={"uploads": ""}).xml().findtext("UploadId")
        etag = raw.request(gateway, "PUT", "/shared/m", query={"uploadId": upload, "partNumber": "1"},
                           body=b"part").headers["etag"]
        uploads.append((upload, etag))
    rests = [slow_put(gateway, f"/shared/slow{i}") for i, gateway in enumerate(pair)]
    time.sleep(5)
    assert [rest().status for rest in rests] == [200, 200]
    for (upload, etag), gateway in zip(uploads, reversed(pair)):
        answer = complete(gateway, "/shared/m", upload, [etag])
        assert answer.status == 200 and answer.xml().tag != "Error", answer
    over.set()
    for churner in churners:
        churner.join()
    assert not problems, problems[:3]
    for i in range(2):
        assert raw.request(one, "GET", f"/shared/slow{i}").body == b"x" * 100000
    for gateway in pair:
        assert gateway.metric("railgate_sweeps_total") >= 2
        assert gateway.metric("railgate_sweep_failures_total") == 0
