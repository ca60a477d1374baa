"""Many clients at once: conditional writes have exactly one winner, and readers never see a mixture.

Runs against a build with ThreadSanitizer too.
"""
import hashlib
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor

import data
import pytest
import raw

pytestmark = pytest.mark.store

CLIENTS = 24


def at_once(count, action):
    """Runs action(0..count-1) on threads that start together; returns the results in order."""
    barrier = threading.Barrier(count)

    def one(number):
        barrier.wait()
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_create_only_has_one_winner(gateway, s3, bucket):
    for turn in range(8):
        key = f"/{bucket}/dir{turn % 3}/once-{turn}"
        bodies = [data.content(f"{turn}/{i}", 1000 + i) for i in range(CLIENTS)]
        answers = at_once(CLIENTS, lambda i: raw.request(
            gateway, "PUT", key, headers={"if-none-match": "*"}, body=bodies[i]))
        winners = [i for i, answer in enumerate(answers) if answer.status == 200]
        assert len(winners) == 1, [answer.status for answer in answers]
        losers = {(answer.status, answer.code) for i, answer in enumerate(answers) if i not in winners}
        assert losers <= {(412, "PreconditionFailed"), (409, "ConditionalRequestConflict")}
        got = raw.request(gateway, "GET", key)
        assert got.body == bodies[winners[0]]
        assert got.headers["etag"] == answers[winners[0]].headers["etag"]


def test_replace_of_one_version_has_one_winner(gateway, bucket):
    """A chain of If-Match writes: in each turn all clients try to replace the same version."""
    path = f"/{bucket}/chain"
    etag = raw.request(gateway, "PUT", path, body=b"start").headers["etag"]
    for turn in range(8):
        bodies = [f"turn {turn} client {i}".encode() for i in range(CLIENTS)]
        answers = at_once(CLIENTS, lambda i: raw.request(
            gateway, "PUT", path, headers={"if-match": etag}, body=bodies[i]))
        winners = [i for i, answer in enumerate(answers) if answer.status == 200]
        assert len(winners) == 1, [answer.status for answer in answers]
        assert {answer.status for i, answer in enumerate(answers) if i not in winners} <= {412, 409}
        etag = answers[winners[0]].headers["etag"]
        assert etag == f'"{data.md5(bodies[winners[0]])}"'
        assert raw.request(gateway, "GET", path).body == bodies[winners[0]]


def test_counter_loses_no_increment(gateway, bucket):
    """Clients add to a number with read, then If-Match write, again until it works."""
    path = f"/{bucket}/counter"
    assert raw.request(gateway, "PUT", path, body=b"0").status == 200

    def add(_):
        for _ in range(3):
            for _ in range(1000):
                now = raw.request(gateway, "GET", path)
                assert now.status == 200
                put = raw.request(gateway, "PUT", path, headers={"if-match": now.headers["etag"]},
                                  body=str(int(now.body) + 1).encode())
                assert put.status in (200, 412, 409), put
                if put.status == 200:
                    break
            else:
                raise AssertionError("never won")

    at_once(8, add)
    assert raw.request(gateway, "GET", path).body == b"24"


def test_complete_with_condition_has_one_winner(gateway, s3, bucket):
    uploads = []
    for i in range(6):
        upload = s3.create_multipart_upload(Bucket=bucket, Key="m/once")["UploadId"]
        body = data.content(f"part {i}", 6000)
        etag = s3.upload_part(Bucket=bucket, Key="m/once", UploadId=upload, PartNumber=1, Body=body)["ETag"]
        uploads.append((upload, etag, body))

    def complete(i):
        xml = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{uploads[i][1]}</ETag></Part>"
               "</CompleteMultipartUpload>").encode()
        answer = raw.request(gateway, "POST", f"/{bucket}/m/once", query={"uploadId": uploads[i][0]},
                             headers={"if-none-match": "*"}, body=xml)
        failed = answer.status != 200 or answer.xml().tag == "Error"
        return answer.code if failed else ""

    codes = at_once(len(uploads), complete)
    assert codes.count("") == 1, codes
    assert set(codes) <= {"", "PreconditionFailed", "ConditionalRequestConflict"}
    assert s3.get_object(Bucket=bucket, Key="m/once")["Body"].read() == uploads[codes.index("")][2]


def test_readers_see_whole_versions(gateway, bucket):
    """Writers overwrite one key with bodies of different lengths, a remover deletes it now and then;
    readers must see one of the bodies with its own ETag, or nothing."""
    path = f"/{bucket}/contended"
    bodies = [data.content(f"version {i}", 3000 + 70000 * (i % 3)) for i in range(6)]
    known = {hashlib.md5(body).hexdigest(): body for body in bodies}
    assert raw.request(gateway, "PUT", path, body=bodies[0]).status == 200
    stop = threading.Event()
    seen = set()

    def write(number):
        connection = raw.connect(gateway)
        for turn in range(12):
            answer = raw.request(gateway, "PUT", path, body=bodies[(number + turn) % len(bodies)],
                                 connection=connection)
            assert answer.status == 200, answer
        connection.close()

    def remove():
        for _ in range(6):
            assert raw.request(gateway, "DELETE", path).status == 204

    def read():
        connection = raw.connect(gateway)
        while not stop.is_set():
            try:
                answer = raw.request(gateway, "GET", path, connection=connection)
            except http.client.HTTPException as problem:
                raise AssertionError(f"broken answer: {problem!r}") from problem
            if answer.status == 404:
                assert answer.code == "NoSuchKey"
                continue
            assert answer.status == 200
            etag = answer.headers["etag"].strip('"')
            assert answer.body == known[etag]
            seen.add(etag)
        connection.close()

    with ThreadPoolExecutor(16) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        others = [pool.submit(write, i) for i in range(6)] + [pool.submit(remove)]
        for other in others:
            other.result()
        stop.set()
        for reader in readers:
            reader.result()
    assert seen


def test_mixed_work(gateway, s3, bucket):
    """Puts, copies, lists, multi-deletes and small multiparts side by side; the end state is exact."""

    def work(number):
        mine = f"w{number}/"
        for i in range(6):
            s3.put_object(Bucket=bucket, Key=f"{mine}{i}", Body=data.content(f"{number}/{i}", 100 * i + number))
        s3.copy_object(Bucket=bucket, Key=f"{mine}copy", CopySource={"Bucket": bucket, "Key": f"{mine}5"})
        upload = s3.create_multipart_upload(Bucket=bucket, Key=f"{mine}multi")["UploadId"]
        etag = s3.upload_part(Bucket=bucket, Key=f"{mine}multi", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
        s3.complete_multipart_upload(Bucket=bucket, Key=f"{mine}multi", UploadId=upload,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=mine)["Contents"]
        assert len(listed) == 8
        gone = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"{mine}{i}"} for i in range(5)]})
        assert len(gone["Deleted"]) == 5
        assert s3.get_object(Bucket=bucket, Key=f"{mine}5")["Body"].read() == data.content(f"{number}/5", 500 + number)

    at_once(12, work)
    want = {}
    for number in range(12):
        body = data.content(f"{number}/5", 500 + number)
        want.update({f"w{number}/5": body, f"w{number}/copy": body, f"w{number}/multi": b"part"})
    data.assert_same_files(data.all_objects(s3, bucket), want)


def test_bucket_created_once(gateway):
    name = data.new_bucket_name("race")
    answers = at_once(8, lambda _: raw.request(gateway, "PUT", f"/{name}"))
    # us-east-1 answers 200 to the owner's repetition, elsewhere it is BucketAlreadyOwnedByYou.
    assert {answer.status for answer in answers} <= {200, 409}
    assert 200 in {answer.status for answer in answers}
    assert raw.request(gateway, "HEAD", f"/{name}").status == 200
