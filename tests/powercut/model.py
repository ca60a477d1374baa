"""What was asked of a gateway and what it acknowledged: the truth that a power cut is held against.

Every name (a key or a bucket) has one writer, and after a cut must have one of its `allowed` states:
the last one acknowledged, then those of requests sent since. There is one but for the last moment,
when requests are under way, and answers may come that no longer count.
"""
import collections
import hashlib

import data
import raw

# An object as a client sees it. etag "" is one that only the gateway knows.
State = collections.namedtuple("State", "sha256 size etag type meta tags")
BUCKET = "is there"
UNCHANGED = object()


class Failed(Exception):
    """A request that got no success: what it was to do may have happened or not."""


def show(state):
    if not isinstance(state, State):
        return "absent" if state is None else str(state)
    return (f"{state.size} bytes, sha256 {state.sha256[:8]}, etag {state.etag or '?'}, {state.type}, "
            f"{len(state.meta)} metadata, {len(state.tags)} tags {hash_of(state)}")


def hash_of(state):
    return hashlib.sha256(repr((state.meta, state.tags)).encode()).hexdigest()[:8]


class Name:
    """A key ("bucket/key") or, without a slash, a bucket."""

    def __init__(self, path):
        self.path = path
        self.is_bucket = "/" not in path
        self.history = []  # (acknowledgements before it was sent, its own number, state)
        self.sent = 0
        self.settle(None)

    def settle(self, state):
        self.current = state  # as it was last answered
        self.allowed = [state]

    def allows(self, seen):
        return any(same(seen, one) for one in self.allowed)

    def in_doubt(self):
        return any(not same(one, self.allowed[0]) for one in self.allowed)

    def story(self, seen):
        doubt = "".join(f" or {show(one)} (not acknowledged)" for one in self.allowed[1:])
        return f"{self.path}: is {show(seen)}, not {show(self.allowed[0])}{doubt}"


def same(seen, wanted):
    if isinstance(seen, State) and isinstance(wanted, State) and not wanted.etag:
        wanted = wanted._replace(etag=seen.etag)
    return seen == wanted


def name_at(name, number):
    """The name as it may be when acknowledgement `number` was out, and the next one was not."""
    then = Name(name.path)
    known = [state for _, own, state in name.history if own <= number]
    then.settle(known[-1] if known else None)
    then.allowed += [state for sent, own, state in name.history if sent <= number < own]
    if name.sent <= number:
        then.allowed += name.allowed[1:]
    return then


class Upload:
    """A multipart upload that was answered, and acknowledged if `certain`. `ending` is the state that a
    sent complete makes, None when abort was sent, UNCHANGED when neither was."""

    def __init__(self, name, ident, looks, certain):
        self.name, self.ident, self.looks, self.certain = name, ident, looks, certain
        self.parts = {}  # number: (etag, bytes)
        self.acknowledged = set()  # numbers
        self.sent = 0  # the largest number sent
        self.ending = UNCHANGED


class Writer:
    """Makes requests on names of its own, one after the other. `count` tells that something was
    acknowledged, and answers with its number, or 0 if it does not count: after a cut it may be false.
    `before` is called before each request, and answers how many acknowledgements there were.

    While `filled`, what it writes can be lost: an object without bytes has none that a missing fsync
    could lose, nor has a copy of one, and a single part becomes the object as it is."""

    def __init__(self, number, numbers, count, before):
        self.number, self.numbers, self.count, self.before = number, numbers, count, before
        self.filled = False
        self.gateway = None
        top = f"tree/w{number}"
        keys = [f"{top}-{i}" for i in range(3)] + [f"{top}/dir{i}/deep/er/k" for i in range(3)]
        self.keys = [Name(key) for key in keys]
        self.folders = [Name(f"{top}-folder{i}/") for i in range(2)]
        self.buckets = [Name(f"made-by-w{number}-{i}") for i in range(2)]
        self.upload = None
        self.aborted = []  # uploads whose end was acknowledged
        self.versions = 0

    @property
    def names(self):
        return self.keys + self.folders + self.buckets

    # ---- Requests ----

    def send(self, method, path, query=(), headers=None, body=b"", fine=(200, 204)):
        try:
            answer = raw.request(self.gateway, method, "/" + path, query, headers, body)
        except (OSError, raw.http.client.HTTPException) as problem:
            raise Failed(f"{method} {path}: {problem}") from problem
        if answer.status not in fine:
            raise Failed(f"{method} {path}: {answer.status} {answer.code}")
        return answer

    def change(self, name, state, method, query=(), headers=None, body=b"", complete=None):
        """A request that turns `name` into `state`, unless it fails."""
        name.allowed.append(state)
        name.sent = self.before()
        answer = self.send(method, name.path, query, headers, body)
        if complete:
            state = complete(answer)
        name.current = state
        number = self.count()
        if number:
            name.settle(state)
            name.history.append((name.sent, number, state))

    # ---- What objects look like ----

    def next_version(self):
        self.versions += 1
        return f"w{self.number}-v{self.versions}-{self.numbers.random()}"

    def looks(self, version):
        """(content type, metadata, tags); some too large for an xattr of ext4."""
        kind = self.numbers.choice(["none", "some", "some", "much"])
        meta, tags = {"version": version}, {}
        if kind != "none":
            tags = {"version": version, "colour": self.numbers.choice(["red", "green", "blue"])}
        if kind == "much":
            meta["long"] = "m" * 1700
            tags |= {f"tag{i}": "t" * 250 for i in range(8)} | {"other": "u" * 250}
            tags.pop("colour")
        return f"text/{version}", tuple(sorted(meta.items())), tuple(sorted(tags.items()))

    def body(self, version):
        sizes = [0, 1, 1000, 4096, 20000, 150000, 1200000]
        return data.content(version, self.numbers.choice(sizes[1:] if self.filled else sizes))

    @staticmethod
    def headers(looks):
        kind, meta, tags = looks
        headers = {f"x-amz-meta-{name}": value for name, value in meta}
        headers["content-type"] = kind
        if tags:
            headers["x-amz-tagging"] = raw.canonical_query(tags)
        return headers

    @staticmethod
    def state(body, looks, etag=None):
        return State(hashlib.sha256(body).hexdigest(), len(body), data.md5(body) if etag is None else etag, *looks)

    def pick(self, exists):
        names = [name for name in self.keys if (name.current is not None) == exists
                 and not (exists and self.filled and name.current.size == 0)]
        return self.numbers.choice(names) if names else None

    # ---- What a writer does; each returns after its last request was acknowledged ----

    def put(self, name):
        version = self.next_version()
        looks, body = self.looks(version), self.body(version)
        self.change(name, self.state(body, looks), "PUT", headers=self.headers(looks), body=body)

    def an_object(self):
        name = self.pick(True)
        if not name:
            name = self.numbers.choice(self.keys)
            self.put(name)
        return name

    def do_create(self):
        name = self.pick(False)
        if not name:
            name = self.numbers.choice(self.keys)
            self.change(name, None, "DELETE")
        self.put(name)

    def do_overwrite(self):
        self.put(self.an_object())

    def do_delete(self):
        self.change(self.an_object(), None, "DELETE")

    def do_copy(self):
        source = self.an_object()
        target = self.numbers.choice([name for name in self.keys if name is not source])
        headers = {"x-amz-copy-source": raw.quote("/" + source.path, "/")}

        def complete(answer):
            return source.current._replace(etag=answer.xml().findtext("ETag").strip('"'))

        self.change(target, source.current._replace(etag=""), "PUT", headers=headers, complete=complete)

    def do_tag(self):
        self.tag(self.an_object())

    def tag(self, name):
        tags = self.looks(self.next_version())[2] or (("only", "one"),)
        items = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in tags)
        body = f"<Tagging><TagSet>{items}</TagSet></Tagging>".encode()
        self.change(name, name.current._replace(tags=tags), "PUT", [("tagging", "")], body=body)

    def do_untag(self):
        name = self.an_object()
        if not name.current.tags:
            self.tag(name)
        self.change(name, name.current._replace(tags=()), "DELETE", [("tagging", "")])

    def do_folder(self):
        name = self.numbers.choice(self.folders)
        if name.current is not None and self.numbers.random() < 0.5:
            self.change(name, None, "DELETE")
            return
        looks = self.looks(self.next_version())
        self.change(name, self.state(b"", looks), "PUT", headers=self.headers(looks))

    def do_bucket(self):
        name = self.numbers.choice(self.buckets)
        self.change(name, None if name.current else BUCKET, "DELETE" if name.current else "PUT")

    def do_begin(self):
        if self.upload:
            self.do_abort()
        looks = self.looks(self.next_version())
        name = self.numbers.choice(self.keys)
        self.before()
        answer = self.send("POST", name.path, [("uploads", "")], self.headers(looks))
        self.upload = Upload(name, answer.xml().findtext("UploadId"), looks, self.count())

    def do_part(self):
        if not self.upload:
            self.do_begin()
        upload = self.upload
        upload.sent += 1
        body = data.content(self.next_version(), self.numbers.choice([1, 5000, 300000]))
        query = [("partNumber", str(upload.sent)), ("uploadId", upload.ident)]
        self.before()
        answer = self.send("PUT", upload.name.path, query, body=body)
        upload.parts[upload.sent] = (answer.headers["ETag"], body)
        if self.count():
            upload.acknowledged.add(upload.sent)

    def do_abort(self):
        if not self.upload:
            self.do_begin()
        self.upload.ending = None
        self.before()
        self.send("DELETE", self.upload.name.path, [("uploadId", self.upload.ident)])
        if self.count():
            self.aborted.append(self.upload)
        self.upload = None

    def do_complete(self):
        least = self.numbers.choice([2, 3] if self.filled else [1, 2, 2, 3])
        while not self.upload or len(self.upload.parts) < least:
            self.do_part()
        upload = self.upload
        parts = sorted(upload.parts.items())
        body = b"".join(part for _, (_, part) in parts)
        digests = b"".join(hashlib.md5(part).digest() for _, (_, part) in parts)
        state = self.state(body, upload.looks, f"{data.md5(digests)}-{len(parts)}")
        listed = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
                         for number, (etag, _) in parts)
        text = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        upload.ending = state

        def complete(answer):
            if answer.xml().tag != "CompleteMultipartUploadResult":
                raise Failed(f"complete: {answer.code}")
            return state

        self.change(upload.name, state, "POST", [("uploadId", upload.ident)], body=text, complete=complete)
        self.upload = None


KINDS = ["create", "overwrite", "complete", "copy", "delete", "tag", "untag", "folder", "bucket", "part",
         "begin", "abort"]
