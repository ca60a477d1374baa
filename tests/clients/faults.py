"""Calls that fail under a gateway, one after the other: every n-th allocation, call on a file,
transfer and resource, for each kind of request, over HTTP.

    faults.py [--kinds LIST] [--cases LIST] [--errors LIST] [--step N] [--options "..."]
                                                                           (./dev faults)

The gateway runs with tests/fault/failing.c preloaded, which counts its calls down to the one that
fails. Beside it a clean gateway, the witness, serves the same tree: it prepares what a request needs,
and says afterwards what is there. For each n: the answer is an S3 error of the kind the fault is (or
the connection closes before there is a success), or a success that is true; what was there before is
there whole, or what was to come; the same request to the witness works; and the gateway has as many
descriptors as before. In the end its exit tells of leaks where a sanitizer is built in, and nothing is
left that a sweep does not remove.
"""
import argparse
import errno
import http.client
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data  # noqa: E402
import gateway as gateways  # noqa: E402
import raw  # noqa: E402
import soak  # noqa: E402

# As in tests/fault/failing.c.
ALLOCATION, FILES, SHORT_FILES, SOCKETS, SHORT_SOCKETS, RESOURCES = 1, 2, 4, 8, 16, 32
KINDS = {"allocation": ALLOCATION, "files": FILES, "short-files": SHORT_FILES, "sockets": SOCKETS,
         "short-sockets": SHORT_SOCKETS, "resources": RESOURCES}
SHORT = ("short-files", "short-sockets")
TRACE = 24

BUCKET = "faults"
OPTIONS = ["--part-size-min", "1", "--sweep-interval", "0", "--rdma", "off"]
CALLS_MAX = 3000
PROBLEMS_MAX = 5  # of one case and kind
SETTLE_SECONDS = 10


class Problem(Exception):
    pass


class Control:
    """What failing.c does, through the file that both map."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(4096)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)

    def arm(self, kinds, number, error, lasting=False):
        self.map[32:64 + 8 * TRACE] = bytes(32 + 8 * TRACE)
        self.map[4:32] = struct.pack("<Iqqq", lasting, error, number, 0)
        self.map[0:4] = struct.pack("<I", kinds)

    def disarm(self):
        """Returns the call that failed, '' if none did."""
        self.map[0:4] = bytes(4)
        failed, = struct.unpack("<q", self.map[24:32])
        return self.map[32:64].rstrip(b"\0").decode() if failed else ""

    def trace(self, pid):
        """Who called the one that failed, in words where the binary has them."""
        frames = [frame for frame in struct.unpack(f"<{TRACE}Q", self.map[64:64 + 8 * TRACE]) if frame]
        ranges = []
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                words = line.split()
                if len(words) > 5:
                    start, end = (int(word, 16) for word in words[0].split("-"))
                    ranges.append((start, end, int(words[2], 16), words[5]))
        text = []
        for frame in frames[2:]:
            for start, end, offset, path in ranges:
                if start <= frame < end:
                    if path == os.path.realpath(gateways.BINARY):
                        done = subprocess.run(["addr2line", "-f", "-s", "-e", path, hex(frame - 1 - start + offset)],
                                              capture_output=True, text=True)
                        text.append(" ".join(done.stdout.split()))
                    else:
                        text.append(os.path.basename(path))
        return " < ".join(text)


def build(directory):
    """failing.c as a library; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        return None
    library = os.path.join(directory, "failing.so")
    subprocess.run([compiler, "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Werror", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-shared", "-fPIC",
                    "-o", library, os.path.join(gateways.TOP, "tests/fault/failing.c")], check=True)
    return library


# ---- Objects and what to expect of them ----

class Version:
    """An object as it is put: body, metadata and tags."""

    def __init__(self, seed, size, long=0):
        self.body = data.content(seed, size)
        self.headers = {"content-type": "text/" + seed, "x-amz-meta-seed": seed}
        if long:
            self.headers["x-amz-meta-long"] = "v" * 1900
            self.headers["x-amz-tagging"] = "&".join(f"{i}{'k' * 100}={'v' * 250}" for i in range(long))

    def is_in(self, answer):
        return (answer.status == 200 and answer.body == self.body
                and answer.headers["etag"] == f'"{data.md5(self.body)}"'
                and all(answer.headers[name] == value for name, value in self.headers.items()
                        if name != "x-amz-tagging"))


OLD, NEW = Version("old", 3000), Version("new", 5000)
LARGE_OLD, LARGE_NEW = Version("large-old", 300000), Version("large-new", (2 << 20) + 77)
SPILLED_OLD, SPILLED_NEW = Version("spilled-old", 2000, 8), Version("spilled-new", 2500, 10)


class Case:
    """A kind of request. `ready` brings the tree to where it starts from, by the witness; `act` makes
    the request of a gateway; `check` sees what the tree holds after it, `done` or not."""

    def __init__(self, witness):
        self.witness = witness
        self.wire = raw.connect(witness)

    def ask(self, method, path, **how):
        """Of the witness, on a connection that is kept."""
        try:
            return raw.request(self.witness, method, path, connection=self.wire, **how)
        except (http.client.HTTPException, OSError):
            self.wire = raw.connect(self.witness)
            return raw.request(self.witness, method, path, connection=self.wire, **how)

    def must(self, method, path, **how):
        answer = self.ask(method, path, **how)
        if answer.status == 503 and "retry-after" in answer.headers:  # what it knew of the bucket is old
            answer = self.ask(method, path, **how)
        if answer.status >= 300:
            raise Problem(f"the witness answers {method} {path} with {answer!r}"[:500])
        return answer

    def put(self, key, version):
        self.must("PUT", f"/{BUCKET}/{key}", headers=version.headers, body=version.body)

    descriptors = 0  # more than before that may stay open

    def ready(self):
        pass

    def check(self, answer, done):
        pass

    def is_done(self, answer):
        return answer.status < 300

    def one_of(self, key, *versions):
        """Which of the versions is there; None stands for none."""
        answer = self.ask("GET", f"/{BUCKET}/{key}")
        if answer.status == 404 and None in versions:
            return None
        for version in versions:
            if version and version.is_in(answer):
                self.check_tags(key, version)
                return version
        raise Problem(f"{key} is {answer!r}"[:600])

    def check_tags(self, key, version):
        if "x-amz-tagging" in version.headers:
            found = self.must("GET", f"/{BUCKET}/{key}", query={"tagging": ""}).xml()
            tags = "&".join(f"{tag.findtext('Key')}={tag.findtext('Value')}" for tag in found.iter("Tag"))
            if tags != version.headers["x-amz-tagging"]:
                raise Problem(f"{key} has tags {tags[:200]}")


def expect(condition, text):
    if not condition:
        raise Problem(text[:600])


class Put(Case):
    key, old, new, headers = "k", OLD, NEW, {}

    def ready(self):
        if self.old:
            self.put(self.key, self.old)
        else:
            self.must("DELETE", f"/{BUCKET}/{self.key}")

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}/{self.key}", headers={**self.new.headers, **self.headers},
                           body=self.new.body)

    def check(self, answer, done):
        found = self.one_of(self.key, self.new, *(() if done else (self.old,)))
        if done:
            expect(answer.headers["etag"] == f'"{data.md5(self.new.body)}"', f"{answer!r}")
        return found


class PutNew(Put):
    old = None


class PutDeep(Put):
    key, old = "deep/er/still/k", None


class PutDirectory(Put):
    key, old, new = "directory/", None, Version("directory", 0)


class PutIfNone(Put):
    old, headers = None, {"if-none-match": "*"}

    def repeat(self, gateway):
        """A condition does not hold twice."""
        answer = self.act(gateway)
        return None if answer.status == 412 else answer


class PutIfMatch(Put):
    headers = {"if-match": f'"{data.md5(OLD.body)}"'}
    repeat = PutIfNone.repeat


class PutLarge(Put):
    old, new = LARGE_OLD, LARGE_NEW


class PutSpilled(Put):
    key, old, new = "spilled", SPILLED_OLD, SPILLED_NEW


class PutOverSpilled(Put):
    key, old, new = "spilled", SPILLED_OLD, OLD


class PutTrailer(Put):
    chunked = False

    def act(self, gateway):
        trailers = [("x-amz-checksum-crc32", raw.checksum("crc32", self.new.body))]
        return raw.put_unsigned_trailer(gateway, f"/{BUCKET}/{self.key}", self.new.body, trailers, 2000,
                                        self.chunked, headers=self.new.headers)


class PutTrailerChunked(PutTrailer):
    chunked = True


class PutSigned(Put):
    def act(self, gateway):
        return raw.put_signed_chunks(gateway, f"/{BUCKET}/{self.key}", self.new.body, 2000, headers=self.new.headers)


class Get(Case):
    key, version, method, headers, query = "got", OLD, "GET", {}, {}
    first, last = 0, None

    def ready(self):
        if self.ask("HEAD", f"/{BUCKET}/{self.key}").headers["etag"] != f'"{data.md5(self.version.body)}"':
            self.put(self.key, self.version)

    def act(self, gateway):
        return raw.request(gateway, self.method, f"/{BUCKET}/{self.key}", query=self.query, headers=self.headers)

    def check(self, answer, done):
        self.one_of(self.key, self.version)
        if done:
            body = self.version.body[self.first:self.last]
            expect(answer.headers["content-length"] == str(len(body)), f"{answer!r}")
            expect(self.method == "HEAD" or answer.body == body, f"other bytes: {answer!r}")
            for name, value in self.version.headers.items():
                if name != "x-amz-tagging":
                    expect(answer.headers[name] == value, f"{name}: {answer!r}")


class GetLarge(Get):
    key, version = "got-large", LARGE_NEW


class GetSpilled(Get):
    key, version = "got-spilled", SPILLED_OLD


class GetRange(Get):
    headers, first, last = {"range": "bytes=100-1099"}, 100, 1100


class Head(Get):
    method = "HEAD"


class HeadSpilled(Head):
    key, version = "got-spilled", SPILLED_OLD


class GetIfNone(Get):
    headers = {"if-none-match": f'"{data.md5(OLD.body)}"'}

    def is_done(self, answer):
        return answer.status == 304

    def check(self, answer, done):
        self.one_of(self.key, self.version)


class Missing(Case):
    """That there is nothing is told only when it is known."""

    def act(self, gateway):
        return raw.request(gateway, "GET", f"/{BUCKET}/nothing/here")

    def is_done(self, answer):
        return answer.status == 404 and answer.code == "NoSuchKey"


class Copy(Case):
    source, old, headers = OLD, None, {}

    def ready(self):
        if self.ask("HEAD", f"/{BUCKET}/source").headers["etag"] != f'"{data.md5(self.source.body)}"':
            self.put("source", self.source)
        self.must("DELETE", f"/{BUCKET}/copied")
        if self.old:
            self.put("copied", self.old)

    def expected(self):
        return self.source

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}/copied",
                           headers={"x-amz-copy-source": f"/{BUCKET}/source", **self.headers})

    def check(self, answer, done):
        self.one_of("source", self.source)
        self.one_of("copied", self.expected(), *(() if done else (self.old,)))


class CopyOver(Copy):
    source, old = SPILLED_OLD, LARGE_OLD


class CopyReplaced(Copy):
    headers = {"x-amz-metadata-directive": "REPLACE", "content-type": "text/other", "x-amz-meta-seed": "other"}

    def expected(self):
        version = Version("old", 3000)
        version.headers = {"content-type": "text/other", "x-amz-meta-seed": "other"}
        return version

    def is_done(self, answer):
        return answer.status < 300 and answer.xml().tag != "Error"


class Delete(Case):
    key, version = "deleted", OLD

    def ready(self):
        self.put(self.key, self.version)

    def act(self, gateway):
        return raw.request(gateway, "DELETE", f"/{BUCKET}/{self.key}")

    def check(self, answer, done):
        self.one_of(self.key, *((None,) if done else (None, self.version)))


class DeleteDeep(Delete):
    key = "gone/deep/down"


class DeleteSpilled(Delete):
    key, version = "deleted-spilled", SPILLED_OLD


class DeleteDirectory(Delete):
    key, version = "marked/", Version("directory", 0)


class DeleteMany(Case):
    keys = ["many/1", "many/2", "many-3"]

    def ready(self):
        for key in self.keys:
            self.put(key, OLD)

    def act(self, gateway):
        text = "".join(f"<Object><Key>{key}</Key></Object>" for key in [*self.keys, "many/never"])
        body = f"<Delete>{text}</Delete>".encode()
        return raw.request(gateway, "POST", f"/{BUCKET}", query={"delete": ""},
                           headers={"content-md5": raw.content_md5(body)}, body=body)

    def is_done(self, answer):
        return answer.status == 200 and answer.xml().find("Error") is None

    def check(self, answer, done):
        told = {}
        if answer and answer.status == 200:
            for kind in ("Deleted", "Error"):
                for one in answer.xml().iter(kind):
                    told[one.findtext("Key")] = kind
            expect(set(told) == {*self.keys, "many/never"}, f"{answer!r}")
        for key in self.keys:
            self.one_of(key, *((None,) if told.get(key) == "Deleted" else (None, OLD)))


class List(Case):
    """Something changes before each, so that names are read again."""
    query, keys = {"list-type": "2"}, [f"l/{name}" for name in ("a", "b/1", "b/2", "c", "d/e/f", "g")]
    extra = "l/b/extra"

    def __init__(self, witness):
        super().__init__(witness)
        self.more = False
        for key in self.keys:
            self.put(key, OLD)

    def ready(self):
        self.more = not self.more
        if self.more:
            self.put(self.extra, OLD)
        else:
            self.must("DELETE", f"/{BUCKET}/{self.extra}")

    def act(self, gateway):
        return raw.request(gateway, "GET", f"/{BUCKET}", query={**self.query, "prefix": "l/"})

    def wanted(self):
        return sorted(self.keys + [self.extra] * self.more)

    def check(self, answer, done):
        if done:
            found = [key.text for key in answer.xml().iter("Key")]
            expect(found == self.wanted(), f"listed {found}")
            expect(answer.xml().findtext("IsTruncated") == "false", f"{answer!r}")
            for entry in answer.xml().iter("Contents"):
                expect(entry.findtext("ETag") == f'"{data.md5(OLD.body)}"', f"{answer!r}")


class ListFirst(List):
    query = {}


class ListDelimited(List):
    query = {"list-type": "2", "delimiter": "/", "max-keys": "3"}

    def check(self, answer, done):
        if done:
            found = [one.text for one in answer.xml().iter("Key")]
            prefixes = [one.findtext("Prefix") for one in answer.xml().iter("CommonPrefixes")]
            expect((found, prefixes) == (["l/a", "l/c"], ["l/b/"]), f"listed {found} and {prefixes}")
            expect(answer.xml().findtext("IsTruncated") == "true", f"{answer!r}")
            expect(answer.xml().findtext("NextContinuationToken"), f"{answer!r}")


class BucketCreate(Case):
    name = "faults-made"
    descriptors = 4  # of the bucket, which a failure may leave in the cache

    def repeat(self, gateway):
        """It may be there."""
        answer = self.act(gateway)
        return None if answer.code == "BucketAlreadyOwnedByYou" else answer

    def ready(self):
        if self.ask("HEAD", f"/{self.name}").status == 200:
            self.must("DELETE", f"/{self.name}")

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{self.name}")

    def check(self, answer, done):
        found = self.ask("HEAD", f"/{self.name}").status
        expect(found in ((200,) if done else (200, 404)), f"the bucket answers {found}")


class BucketDelete(BucketCreate):
    def ready(self):
        if self.ask("HEAD", f"/{self.name}").status != 200:
            self.must("PUT", f"/{self.name}")

    def act(self, gateway):
        return raw.request(gateway, "DELETE", f"/{self.name}")

    def check(self, answer, done):
        found = self.ask("HEAD", f"/{self.name}").status
        expect(found in ((404,) if done else (200, 404)), f"the bucket answers {found}")
        if found == 200:
            self.must("PUT", f"/{self.name}/works", body=b"x")
            self.must("DELETE", f"/{self.name}/works")

    def repeat(self, gateway):
        answer = self.act(gateway)
        return None if answer.status == 404 else answer


class BucketDeleteFull(Case):
    """One that is not empty stays, with what it holds."""

    def ready(self):
        self.put("kept", OLD)

    def act(self, gateway):
        return raw.request(gateway, "DELETE", f"/{BUCKET}")

    def is_done(self, answer):
        return answer.code == "BucketNotEmpty"

    def check(self, answer, done):
        self.one_of("kept", OLD)


class BucketList(Case):
    def act(self, gateway):
        return raw.request(gateway, "GET", "/")

    def check(self, answer, done):
        if done:
            names = {one.findtext("Name") for one in answer.xml().iter("Bucket")}
            expect({BUCKET, "faults-other"} <= names, f"listed {names}")


class BucketTags(Case):
    text = "<Tagging><TagSet><Tag><Key>a</Key><Value>%s</Value></Tag></TagSet></Tagging>"

    def ready(self):
        self.must("PUT", f"/{BUCKET}", query={"tagging": ""}, body=(self.text % "old").encode())

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}", query={"tagging": ""}, body=(self.text % "new").encode())

    def check(self, answer, done):
        found = self.must("GET", f"/{BUCKET}", query={"tagging": ""}).xml().findtext(".//Value")
        expect(found in (("new",) if done else ("old", "new")), f"the tag is {found}")


class Tags(Case):
    version, path, method = OLD, f"/{BUCKET}/tagged", "PUT"

    def ready(self):
        if self.ask("HEAD", self.path).headers["etag"] != f'"{data.md5(self.version.body)}"':
            self.must("PUT", self.path, headers=self.version.headers, body=self.version.body)
        self.must("PUT", self.path, query={"tagging": ""}, body=(BucketTags.text % "old").encode())

    def act(self, gateway):
        return raw.request(gateway, "PUT", self.path, query={"tagging": ""}, body=(BucketTags.text % "new").encode())

    after = "new"

    def check(self, answer, done):
        found = self.must("GET", self.path, query={"tagging": ""}).xml().findtext(".//Value")
        expect(found in ((self.after,) if done else ("old", self.after)), f"the tag is {found}")
        expect(self.version.is_in(self.ask("GET", self.path)), "the object changed")


class TagsSpilled(Tags):
    """The tags no longer fit into the attribute."""
    version, path, long = Version("tagged", 2000, 9), f"/{BUCKET}/tagged-spilled", "v" * 250

    def act(self, gateway):
        tags = "".join(f"<Tag><Key>{i}{'k' * 100}</Key><Value>{self.long}</Value></Tag>" for i in range(10))
        return raw.request(gateway, "PUT", self.path, query={"tagging": ""},
                           body=f"<Tagging><TagSet>{tags}</TagSet></Tagging>".encode())

    after = long


class TagsDelete(Tags):
    after = None

    def act(self, gateway):
        return raw.request(gateway, "DELETE", self.path, query={"tagging": ""})


class TagsGet(Tags):
    def act(self, gateway):
        return raw.request(gateway, "GET", self.path, query={"tagging": ""})

    def check(self, answer, done):
        if done:
            expect(answer.xml().findtext(".//Value") == "old", f"{answer!r}")


class Upload(Case):
    """One upload of two parts; what is left of it is aborted before the next."""
    key, old, parts, made = "uploaded", OLD, (6000, 1000), 2
    again = True  # a new upload for each n

    def __init__(self, witness):
        super().__init__(witness)
        self.id, self.etags = None, []
        self.bodies = [data.content(f"part{number}", size) for number, size in enumerate(self.parts)]

    def uploads(self):
        found = self.must("GET", f"/{BUCKET}", query={"uploads": "", "prefix": self.key}).xml()
        return [one.findtext("UploadId") for one in found.iter("Upload") if one.findtext("Key") == self.key]

    def begin(self):
        answer = self.must("POST", f"/{BUCKET}/{self.key}", query={"uploads": ""}, headers=NEW.headers)
        self.id = answer.xml().findtext("UploadId")
        self.etags = []
        for number in range(self.made):
            self.etags.append(self.must("PUT", f"/{BUCKET}/{self.key}", body=self.bodies[number],
                                        query={"uploadId": self.id, "partNumber": str(number + 1)}).headers["etag"])

    def drop(self):
        for one in self.uploads():
            self.must("DELETE", f"/{BUCKET}/{self.key}", query={"uploadId": one})

    def ready(self):
        if self.id is None or self.again or self.uploads() != [self.id]:
            self.drop()
            self.begin()


class UploadCreate(Upload):
    key, made, again = "begun", 0, False

    def ready(self):
        self.drop()

    def act(self, gateway):
        return raw.request(gateway, "POST", f"/{BUCKET}/{self.key}", query={"uploads": ""}, headers=NEW.headers)

    def check(self, answer, done):
        found = self.uploads()
        if done:
            expect(answer.xml().findtext("UploadId") in found, f"{found}: {answer!r}")
        for one in found:
            self.must("PUT", f"/{BUCKET}/{self.key}", query={"uploadId": one, "partNumber": "1"}, body=b"x")


class UploadPart(Upload):
    key, number, again = "parted", 1, False

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}/{self.key}", body=NEW.body,
                           query={"uploadId": self.id, "partNumber": str(self.number)})

    def ready(self):
        super().ready()
        self.must("PUT", f"/{BUCKET}/{self.key}", query={"uploadId": self.id, "partNumber": "1"}, body=OLD.body)

    def check(self, answer, done):
        found = self.must("GET", f"/{BUCKET}/{self.key}", query={"uploadId": self.id}).xml()
        etags = {part.findtext("PartNumber"): (part.findtext("ETag"), part.findtext("Size"))
                 for part in found.iter("Part")}
        old, new = ((f'"{data.md5(version.body)}"', str(len(version.body))) for version in (OLD, NEW))
        expect(etags.get("1") in ((new,) if done else (old, new)), f"parts {etags}")
        expect("2" in etags and len(etags) == 2, f"parts {etags}")


class UploadPartCopy(UploadPart):
    key = "parted-copy"

    def ready(self):
        super().ready()
        if self.ask("HEAD", f"/{BUCKET}/part-source").headers["etag"] != f'"{data.md5(NEW.body)}"':
            self.put("part-source", NEW)

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}/{self.key}",
                           headers={"x-amz-copy-source": f"/{BUCKET}/part-source"},
                           query={"uploadId": self.id, "partNumber": "1"})

    def is_done(self, answer):
        return answer.status == 200 and answer.xml().tag != "Error"


class UploadComplete(Upload):
    key = "completed"

    def ready(self):
        super().ready()
        self.put(self.key, self.old)

    def act(self, gateway):
        parts = "".join(f"<Part><PartNumber>{number + 1}</PartNumber><ETag>{etag}</ETag></Part>"
                        for number, etag in enumerate(self.etags))
        return raw.request(gateway, "POST", f"/{BUCKET}/{self.key}", query={"uploadId": self.id},
                           body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())

    def is_done(self, answer):
        return answer.status == 200 and answer.xml().tag != "Error"

    def check(self, answer, done):
        found = self.ask("GET", f"/{BUCKET}/{self.key}")
        body = b"".join(self.bodies)
        is_new = (found.status == 200 and found.body == body and found.headers["etag"].endswith('-2"')
                  and found.headers["x-amz-meta-seed"] == "new")
        expect(is_new or (not done and self.old.is_in(found)), f"{found!r}")


class UploadCompleteLarge(UploadComplete):
    key, parts = "completed-large", (300000, 70001)


class UploadAbort(Upload):
    key = "aborted"

    def act(self, gateway):
        return raw.request(gateway, "DELETE", f"/{BUCKET}/{self.key}", query={"uploadId": self.id})

    def check(self, answer, done):
        found = self.uploads()
        expect(found == [] or not done and found == [self.id], f"uploads {found}")

    def repeat(self, gateway):
        answer = self.act(gateway)
        return None if answer.status == 404 else answer


class UploadParts(Upload):
    key, again = "parts-listed", False

    def act(self, gateway):
        return raw.request(gateway, "GET", f"/{BUCKET}/{self.key}", query={"uploadId": self.id})

    def check(self, answer, done):
        if done:
            found = [part.findtext("ETag") for part in answer.xml().iter("Part")]
            expect(found == self.etags, f"listed {found}")


class UploadList(UploadParts):
    key = "uploads-listed"

    def act(self, gateway):
        return raw.request(gateway, "GET", f"/{BUCKET}", query={"uploads": "", "prefix": self.key})

    def check(self, answer, done):
        if done:
            found = [one.findtext("UploadId") for one in answer.xml().iter("Upload")]
            expect(found == [self.id], f"listed {found}")


CASES = [PutNew, Put, PutDeep, PutDirectory, PutIfNone, PutIfMatch, PutLarge, PutSpilled, PutOverSpilled, PutTrailer,
         PutTrailerChunked, PutSigned, Get, GetLarge, GetSpilled, GetRange, GetIfNone, Head, HeadSpilled, Missing,
         Copy, CopyOver, CopyReplaced, Delete, DeleteDeep, DeleteSpilled, DeleteDirectory, DeleteMany, List, ListFirst,
         ListDelimited, BucketCreate, BucketDelete, BucketDeleteFull, BucketList, BucketTags, Tags, TagsSpilled,
         TagsDelete, TagsGet, UploadCreate, UploadPart, UploadPartCopy, UploadComplete, UploadCompleteLarge,
         UploadAbort, UploadParts, UploadList]

# What a fault may be answered with: it is nobody's mistake but ours, or the disk's.
STATUSES = {500, 503, 507}
REFUSED = {errno.EROFS: {403}, errno.EACCES: {403}, errno.ENAMETOOLONG: {400}}
# When all is stale for good so is the bucket's own directory: it was removed by another client.
REFUSED_LASTING = {errno.ESTALE: {404}}


# ---- The runs ----

class Run:
    def __init__(self, directory, library, options=(), say=print):
        self.say = say
        self.tree = os.path.join(directory, "tree")
        self.control = Control(os.path.join(directory, "control"))
        # What the dynamic linker keeps, LeakSanitizer knows by who called malloc: here it is failing.c.
        excused = os.path.join(directory, "excused")
        with open(excused, "w") as file:
            file.write("leak:ld-linux\n")
        self.environment = {
            "LD_PRELOAD": library, "FAULT_CONTROL": self.control.path,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=1") + ":verify_asan_link_order=0",
            "LSAN_OPTIONS": f"suppressions={excused}:print_suppressions=0"}
        self.options = [*OPTIONS, *options]
        self.witness = gateways.Gateway(self.tree, self.options, name="faults-witness").start()
        self.gateway = None
        self.trials, self.problems, self.seen = 0, [], set()
        self.begin()
        for name in (BUCKET, "faults-other"):
            assert raw.request(self.witness, "PUT", f"/{name}").status == 200

    def begin(self):
        self.gateway = gateways.Gateway(self.tree, self.options, self.environment, name="faults").start()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.gateway.process.pid}/fd"))

    def settle(self, most):
        """Waits until the gateway has no more descriptors than that."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (now := self.descriptors()) > most:
            if time.monotonic() > deadline:
                return now
            time.sleep(0.002)
        return now

    def trial(self, case, kind, number, error, lasting):
        """False when there is no n-th call."""
        case.ready()
        self.control.arm(KINDS[kind], number, error, lasting)
        answer = None
        try:
            answer = case.act(self.gateway)
        except TimeoutError as problem:
            raise Problem("no answer") from problem
        except (http.client.HTTPException, OSError):
            pass
        finally:
            call = self.control.disarm()
        self.trials += 1
        self.seen.add(call)
        self.judge(case, kind, error, lasting, answer, call)
        return bool(call)

    def judge(self, case, kind, error, lasting, answer, call):
        if self.gateway.process.poll() is not None:
            raise Problem("the gateway is gone")
        done = answer is not None and case.is_done(answer)
        if not call or (kind in SHORT and answer is None):
            expect(done, f"without a fault: {answer!r}")
        if answer is not None and not done and not (isinstance(case, DeleteMany) and answer.status == 200):
            status = answer.status
            if status == 200:  # of what is kept alive: the error comes in the body
                expect(answer.xml().tag == "Error", f"{answer!r}")
            else:
                refused = REFUSED.get(error, set()) | (REFUSED_LASTING.get(error, set()) if lasting else set())
                expect(status in STATUSES | refused, f"{answer!r}")
            expect(isinstance(case, Head) or answer.code, f"no S3 error: {answer!r}")
            expect(kind not in SHORT, f"{answer!r}")
        case.check(answer if answer is None or answer.status < 400 or done else None, done)
        if not done:
            repeat = getattr(case, "repeat", case.act)
            repeated = repeat(self.witness)
            if repeated is not None and repeated.status == 503 and "retry-after" in repeated.headers:
                repeated = repeat(self.witness)
            expect(repeated is None or case.is_done(repeated), f"repeated: {repeated!r}")
            case.check(repeated, repeated is not None)

    def case(self, kind, case_class, error, lasting=False, step=1, offset=0, most=CALLS_MAX):
        """Each n-th call, or every `step`-th of them from `offset` on."""
        case = case_class(self.witness)
        for _ in range(2):  # caches are there
            case.ready()
            answer = case.act(self.gateway)
            expect(case.is_done(answer), f"{case_class.__name__} without a fault: {answer!r}")
        before = self.settle(self.descriptors())
        time.sleep(0.01)
        before = min(before, self.descriptors()) + case.descriptors
        number, found_here = 1 + offset, 0
        while number < most:
            problem = None
            try:
                more = self.trial(case, kind, number, error, lasting)
                now = self.settle(before)
                if now > before:
                    problem = f"{now} descriptors instead of {before}"
                    before = now
            except Problem as found:
                problem, more = str(found), True
            if problem:
                self.report(case_class, kind, number, error, problem)
                self.revive()
                found_here += 1
                if found_here >= PROBLEMS_MAX:
                    return
            if not more:
                return
            number += step

    def report(self, case_class, kind, number, error, problem):
        call = self.control.map[32:64].rstrip(b"\0").decode()
        where = self.control.trace(self.gateway.process.pid) if self.gateway.process.poll() is None else ""
        self.problems.append(f"{case_class.__name__}, {kind} {number} ({call}, {errno.errorcode[error]}): {problem}"
                             f"\n      at {where}")
        self.say(self.problems[-1])

    def revive(self):
        """A gateway that died is started again, so that one find does not hide others."""
        if self.gateway.process.poll() is not None:
            self.problems.append(f"ended with {self.gateway.process.returncode}, see {self.gateway.log_path}")
            self.begin()

    def end(self):
        """What the gateway says of itself, and what the sweep leaves."""
        for name in ("railgate_requests_in_progress", "railgate_workers_stuck"):
            deadline = time.monotonic() + SETTLE_SECONDS
            while (left := self.gateway.metric(name)) and time.monotonic() < deadline:
                time.sleep(0.05)
            if left:
                self.problems.append(f"{name} is {left}")
        for one in (self.gateway, self.witness):
            try:
                one.stop()
            except AssertionError as problem:
                self.problems.append(str(problem))
        keys = {case_class.key for case_class in CASES if issubclass(case_class, Upload)}
        self.problems += swept(self.tree, self.options, keys)


def swept(tree, options, keys):
    """What is wrong after the uploads of these keys and all objects are gone, and a sweep is over."""
    with gateways.Gateway(tree, [*options, "--temp-expiry", "1s", "--sweep-interval", "1s"],
                          name="faults-sweeper") as one:
        case = Upload(one)
        for case.key in keys:
            case.drop()
        s3 = data.boto3_client(one)
        for entry in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET).search("Contents[].Key"):
            if entry:
                s3.delete_object(Bucket=BUCKET, Key=entry)
        deadline = time.monotonic() + 20
        while (left := soak.leftovers(tree)) and time.monotonic() < deadline:
            time.sleep(0.2)
    return [f"left after a sweep: {left[:20]}"] if left else []


def run_all(directory, plan, options=(), say=print):
    """`plan` yields (kind, case, error, lasting, step, offset). Returns the run; None without a compiler."""
    library = build(directory)
    if not library:
        return None
    run = Run(directory, library, options, say)
    try:
        for kind, case, error, lasting, step, offset in plan:
            run.case(kind, case, error, lasting, step, offset)
        run.end()
    finally:
        for one in (run.gateway, run.witness):
            if one and one.process.poll() is None:
                one.kill()
    return run


ERRORS = {"allocation": ["ENOMEM"], "files": ["EIO", "ENOSPC", "EDQUOT", "EROFS", "ESTALE", "ENOMEM", "EINTR"],
          "sockets": ["ECONNRESET", "EINTR", "ENOMEM", "EAGAIN"], "resources": ["EMFILE"],
          "short-files": ["EIO"], "short-sockets": ["EIO"]}


# Calls that are repeated until they work, or without which no connection is accepted.
NEVER_LASTING = {"EINTR", "EAGAIN", "EMFILE"}


def may_last(kind, error):
    return error not in NEVER_LASTING and kind in ("allocation", "files", *SHORT)


def everything(kinds, cases, errors, lastings, step=1):
    for case in cases:
        for kind in kinds:
            for error in ERRORS[kind]:
                if not errors or error in errors:
                    for lasting in (lastings if may_last(kind, error) else (False,)):
                        yield kind, case, getattr(errno, error), lasting, step, random.randrange(step)


def main():
    parser = argparse.ArgumentParser(prog="dev faults", description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[case.__name__ for case in CASES])
    parser.add_argument("--errors", type=lambda text: text.split(","), default=[])
    parser.add_argument("--once", action="store_true", help="not also that all calls after the n-th fail")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="every N-th call, from a random one on")
    parser.add_argument("--options", default="", help="of the gateway")
    how = parser.parse_args()
    known = {case.__name__: case for case in CASES}
    if not set(how.kinds) <= set(KINDS) or not set(how.cases) <= set(known):
        parser.error(f"--kinds are {','.join(KINDS)}; --cases are {','.join(known)}")
    directory = tempfile.mkdtemp(prefix="railgate-faults-")

    def say(text):
        print(text, flush=True)

    def told():
        last = None
        for one in everything(how.kinds, [known[name] for name in how.cases], how.errors,
                              (False,) if how.once else (False, True), how.step):
            if one[1] is not last:
                say(f"{one[1].__name__}")
                last = one[1]
            yield one

    try:
        run = run_all(directory, told(), how.options.split(), say)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if not run:
        print("0 passed, 0 failed, 1 skipped")
        return 1
    for problem in run.problems:
        print(f"failed: {problem}")
    print(f"failed calls were of: {', '.join(sorted(run.seen - {''}))}")
    print(f"{run.trials} passed, {len(run.problems)} failed, 0 skipped")
    return 1 if run.problems or not run.trials else 0


if __name__ == "__main__":
    sys.exit(main())
