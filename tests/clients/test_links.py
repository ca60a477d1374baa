"""Symbolic links that take the place of directories while requests run: nothing outside is read,
written, listed or deleted."""
import contextlib
import ctypes
import http.client
import os
import threading
import time

import pytest

import data
import raw

SECONDS = 4
OUTSIDE = b"outside the tree"
EXCHANGE = 2
AT_FDCWD = -100


def exchange(one, other):
    """Two names change places, at once: there is never none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


def picture(top):
    """All that a request could change of a tree."""
    found = {}
    for directory, _, names in os.walk(top):
        for path in [directory, *(os.path.join(directory, name) for name in names)]:
            status = os.lstat(path)
            body = open(path, "rb").read() if os.path.isfile(path) else None
            found[path] = (status.st_mode, status.st_nlink, status.st_mtime_ns, tuple(os.listxattr(path)), body)
    return found


def make_outside(tmp_path):
    outside = tmp_path / "outside"
    for directory in ("", "sub", "uploads", "tmp", "uploads/sub"):
        (outside / directory).mkdir(exist_ok=True)
        for name in ("k", "gone", "m", "only-outside", "locks"):
            (outside / directory / name).write_bytes(OUTSIDE)
    return outside


class Requests:
    """Each kind of request on keys below a directory that is swapped, again and again."""

    def __init__(self, gateway, bucket):
        self.gateway, self.bucket = gateway, bucket
        self.over, self.problems, self.done = threading.Event(), [], {}

    def ask(self, method, key, **how):
        answer = raw.request(self.gateway, method, f"/{self.bucket}/{key}" if key else f"/{self.bucket}", **how)
        # Error documents repeat the key that was asked for.
        if OUTSIDE in answer.body or (answer.status == 200 and method == "GET" and b"only-outside" in answer.body):
            raise AssertionError(f"{method} {key} {how}: {answer!r}")
        self.done[method, answer.status] = self.done.get((method, answer.status), 0) + 1
        return answer

    def objects(self):
        self.ask("PUT", "d/sub/k", body=b"inside")
        answer = self.ask("GET", "d/sub/k")
        assert answer.status != 200 or answer.body == b"inside", answer
        self.ask("GET", "d/sub/only-outside")
        self.ask("HEAD", "d/sub/k")
        self.ask("GET", "d/sub/k", headers={"range": "bytes=0-3"})

    def deletes(self):
        self.ask("DELETE", "d/sub/gone")
        self.ask("DELETE", "d/sub/only-outside")
        body = b"<Delete><Object><Key>d/sub/k</Key></Object><Object><Key>d/gone</Key></Object></Delete>"
        self.ask("POST", "", query={"delete": ""}, body=body, headers={"content-md5": raw.content_md5(body)})
        self.ask("PUT", "d/new/deep/k", body=b"inside")
        self.ask("DELETE", "d/new/deep/k")

    def lists(self):
        self.ask("GET", "", query={"list-type": "2", "prefix": "d/"})
        self.ask("GET", "", query={"list-type": "2", "prefix": "d/sub/", "delimiter": "/"})
        self.ask("GET", "", query={"uploads": ""})

    def copies(self):
        answer = self.ask("PUT", "copied", headers={"x-amz-copy-source": f"/{self.bucket}/d/sub/k"})
        if answer.status == 200 and answer.xml().tag != "Error":
            copied = self.ask("GET", "copied")
            assert copied.status != 200 or copied.body == b"inside", copied
        self.ask("PUT", "copied", headers={"x-amz-copy-source": f"/{self.bucket}/d/sub/only-outside"})
        self.ask("PUT", "d/sub/copied", headers={"x-amz-copy-source": f"/{self.bucket}/source"})

    def tags(self):
        body = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
        self.ask("PUT", "d/sub/k", query={"tagging": ""}, body=body)
        self.ask("DELETE", "d/sub/only-outside", query={"tagging": ""})

    def uploads(self):
        answer = self.ask("POST", "d/sub/m", query={"uploads": ""})
        if answer.status != 200:
            return
        upload = answer.xml().findtext("UploadId")
        part = self.ask("PUT", "d/sub/m", query={"uploadId": upload, "partNumber": "1"}, body=b"inside")
        if part.status == 200:
            etag = part.headers["etag"]
            self.ask("POST", "d/sub/m", query={"uploadId": upload},
                     body=(f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
                           "</CompleteMultipartUpload>").encode())
        self.ask("DELETE", "d/sub/m", query={"uploadId": upload})

    def repeat(self, work):
        while not self.over.is_set():
            try:
                work()
            except (http.client.HTTPException, OSError, AssertionError) as problem:
                self.problems.append(f"{work.__name__}: {problem!r}")
                return

    def run(self, seconds, meanwhile):
        threads = [threading.Thread(target=self.repeat, args=(work,))
                   for work in (self.objects, self.deletes, self.lists, self.copies, self.tags, self.uploads)]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            meanwhile()
        self.over.set()
        for thread in threads:
            thread.join()
        assert not self.problems, self.problems


@pytest.mark.parametrize("what", ["d", "d/sub", "", ".railgate/uploads", ".railgate/tmp", ".railgate"])
def test_swapped_during_requests(start, tmp_path, what):
    gateway = start()
    outside = make_outside(tmp_path)
    bucket = "swapped"
    assert raw.request(gateway, "PUT", f"/{bucket}").status == 200
    for key in ("source", "d/sub/k", "d/k"):
        assert raw.request(gateway, "PUT", f"/{bucket}/{key}", body=b"inside").status == 200
    upload = raw.request(gateway, "POST", f"/{bucket}/first", query={"uploads": ""})
    assert upload.status == 200
    place = os.path.join(gateway.tree, bucket, what).rstrip("/")
    os.makedirs(place, exist_ok=True)
    link = os.path.join(gateway.tree, "link") if what == "" else os.path.join(gateway.tree, bucket, "link")
    os.symlink(outside, link)
    before = picture(outside)
    naive = set()

    def swap():
        try:
            exchange(place, link)
        except FileNotFoundError:  # the last key of a directory was deleted, and the directory with it
            os.makedirs(place, exist_ok=True)
        with contextlib.suppress(OSError):
            naive.add(open(os.path.join(place, "k"), "rb").read() == OUTSIDE)
        time.sleep(0.0005)

    requests = Requests(gateway, bucket)
    requests.run(SECONDS, swap)
    assert True in naive, "the link was never there"
    assert picture(outside) == before
    assert sum(number for (_, status), number in requests.done.items() if status < 300) > 20, requests.done
    if os.path.islink(place):
        exchange(place, link)
    os.unlink(link)
    assert raw.request(gateway, "PUT", f"/{bucket}/after", body=b"x").status in (200, 503)
    assert raw.request(gateway, "PUT", f"/{bucket}/after", body=b"x").status == 200
    assert raw.request(gateway, "GET", f"/{bucket}/after").body == b"x"
