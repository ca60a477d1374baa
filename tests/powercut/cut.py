"""Power cuts, in the guest of tests/rxe/run: what a gateway acknowledged must outlive them.

A round: a gateway serves a tree on ext4 or xfs on a dm-flakey device; writers change it and remember
what was acknowledged; at a point the device begins to lose every write (or to fail it); the gateway
is killed, the file system unmounted, the device repaired, everything started again. Then each name
has its acknowledged state, or that of the one request that was not answered. `./dev powercut` runs it.

Rounds alternate. In a quiet one a single writer is cut off at the acknowledgement of a request of each
kind in turn: any other fsync commits the journal of the whole file system, so only there is a missing
one sure to be missed. It has bytes to lose there, and the gateway copies bytes (BY_BYTES). In a busy one
several writers are cut off in the middle of what they do, and copies may share blocks. Nothing but fsync
writes in time: the kernel's own writing back is turned off.

Then a log of all writes (dm-log-writes), made while several writers were busy, is cut at random places
and right after acknowledgements; what a disk held there is mounted, served and checked.

Then journals die: while a request waits before one of its fsyncs, writes fail, another's fsync is told
so, and the device is well again. The request's own fsync may say that all is done, which is not true.

The controls run gateways that break the promise, and cut each kind of request off once. Where nothing
acknowledged is found missing, the test cannot see what it is for: that fails too. So does a loss of what
the file system is said to keep.
"""
import argparse
import os
import random
import resource
import subprocess
import sys
import threading
import time
import typing

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/clients")]

import gateway as gateways  # noqa: E402
import model  # noqa: E402
import raw  # noqa: E402
import writelog  # noqa: E402

MOUNT = "/mnt/powercut"
TREE = MOUNT + "/tree"
BACKING = "/run/powercut.img"
SIZE = 400 << 20  # xfs wants 300 MiB
NAME = "powercut"
DEVICE = "/dev/mapper/" + NAME
SECTORS = SIZE // 512
LOG, STATE, REPLAYED = "/run/powercut.log", "/run/powercut.state", "/run/powercut.replayed"
LOG_SIZE = 2 << 30
MODULES = ["dm-mod", "dm-flakey", "dm-log-writes", "ext4", "xfs", "loop"]
# ext4 is not to write a file back for being renamed over another.
MOUNT_OPTIONS = {"ext4": "commit=300,noauto_da_alloc", "xfs": "defaults"}
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f", "-K"]}
LATE = {  # no writing back but what is asked for
    "/proc/sys/vm/dirty_writeback_centisecs": "0",
    "/proc/sys/vm/dirty_expire_centisecs": "360000",
    "/proc/sys/fs/xfs/xfssyncd_centisecs": "720000",
}
SERVE = ["--part-size-min", "1", "--rdma", "off"]
# Copies write bytes of their own. One that shares blocks (reflink, and what copy_file_range makes of it)
# has none that a missing fsync of the file could lose: XFS writes the blocks before it shares them, and
# that they are shared is metadata, which fsync of the directory commits.
BY_BYTES = ["--mask", "reflink,copy-range"]
WRITERS = 3
SWEEP_SECONDS = 180


def say(text):
    print(f"[{time.monotonic():7.1f}] {text}", flush=True)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


# ---- The disk ----

class Disk:
    """One file system on a device that can be cut off. `cut` says how: "" when it works."""

    def __init__(self, kind):
        self.kind = kind
        self.cut = ""
        with open(BACKING, "wb") as backing:
            backing.truncate(SIZE)
        self.loop = run("losetup", "-f", "--show", BACKING)
        run("dmsetup", "create", NAME, "--table", self.table(""))
        run("dmsetup", "mknodes")
        run(*MAKE[kind], DEVICE)
        os.makedirs(MOUNT, exist_ok=True)
        self.mount()

    def table(self, cut):
        how = f"0 180 1 {cut}" if cut else "180 0"
        return f"0 {SECTORS} flakey {self.loop} 0 {how}"

    def mark(self, number):
        pass

    def prepare(self, cut):
        run("dmsetup", "load", NAME, "--table", self.table(cut))

    def switch(self, cut):
        """At once to what was prepared, with nothing written for the occasion."""
        self.cut = cut
        run("dmsetup", "resume", "--noflush", "--nolockfs", NAME)

    def mount(self):
        run("mount", "-t", self.kind, "-o", MOUNT_OPTIONS[self.kind], DEVICE, MOUNT)

    def unmount(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                return run("umount", MOUNT)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def restore(self):
        """After a cut: what was not on the disk by then is gone."""
        self.unmount()
        run("blockdev", "--flushbufs", DEVICE)  # lost, too
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("3")
        self.prepare("")
        self.switch("")
        self.mount()

    def close(self):
        if os.path.ismount(MOUNT):
            self.unmount()
        run("dmsetup", "remove", "--retry", NAME)
        run("losetup", "-d", self.loop)
        os.unlink(BACKING)


class Recorder(Disk):
    """One that is never cut off, but keeps a log of all writes."""

    def table(self, cut):
        return f"0 {SECTORS} log-writes {self.loop} {self.log}"

    def __init__(self, kind):
        with open(LOG, "wb") as log:
            log.truncate(LOG_SIZE)
        self.log = run("losetup", "-f", "--show", LOG)
        super().__init__(kind)

    def mark(self, number):
        run("dmsetup", "message", NAME, "0", "mark", str(number))

    def close(self):
        super().close()
        run("losetup", "-d", self.log)


# ---- Looking ----

class Reader:
    """Reads back through the gateway. Only answers count: 404, or all of an object."""

    def __init__(self, gateway):
        self.gateway = gateway

    def ask(self, method, path, query=(), fine=(200,)):
        answer = raw.request(self.gateway, method, "/" + path, query)
        if answer.status not in (*fine, 404):
            raise AssertionError(f"{method} {path}: {answer!r}")
        return answer

    def look(self, name):
        """The state of a name, or a text that is no state."""
        try:
            if name.is_bucket:
                return model.BUCKET if self.ask("HEAD", name.path).status == 200 else None
            answer = self.ask("GET", name.path)
            if answer.status == 404:
                return None
            tags = self.ask("GET", name.path, [("tagging", "")]).xml()
        except (AssertionError, OSError, raw.http.client.HTTPException) as problem:
            return f"unreadable: {str(problem)[:300]}"
        found = {tag.findtext("Key"): tag.findtext("Value") for tag in tags.iter("Tag")}
        meta = {key.lower()[11:]: value for key, value in answer.headers.items()
                if key.lower().startswith("x-amz-meta-")}
        looks = answer.headers["Content-Type"], tuple(sorted(meta.items())), tuple(sorted(found.items()))
        return model.Writer.state(answer.body, looks, answer.headers["ETag"].strip('"'))

    def listed(self):
        keys, query = set(), []
        while True:
            page = self.ask("GET", "tree", [("list-type", "2"), *query]).xml()
            keys |= {item.findtext("Key") for item in page.iter("Contents")}
            if page.findtext("IsTruncated") != "true":
                return keys
            query = [("continuation-token", page.findtext("NextContinuationToken"))]

    def parts(self, upload):
        """{number: ETag}; None when there is no such upload."""
        answer = self.ask("GET", upload.name.path, [("uploadId", upload.ident)])
        if answer.status == 404:
            return None
        return {int(part.findtext("PartNumber")): part.findtext("ETag") for part in answer.xml().iter("Part")}

    def uploads(self):
        page = self.ask("GET", "tree", [("uploads", "")]).xml()
        return [(item.findtext("Key"), item.findtext("UploadId")) for item in page.iter("Upload")]


def check_upload(reader, writer, observed):
    """What became of the writer's upload. Returns complaints; keeps writer.upload if it goes on."""
    upload, writer.upload = writer.upload, None
    if not upload:
        return []
    found = reader.parts(upload)
    is_object = upload.ending not in (model.UNCHANGED, None) and model.same(
        observed[upload.name.path], upload.ending)
    if upload.ending is None or is_object:
        return []  # over, or to be: what is still there is ended as one that nobody knows
    if found is None:
        return [f"upload {upload.ident} of {upload.name.path} is gone"] if upload.certain else []
    missing = [number for number in upload.acknowledged if found.get(number) != upload.parts[number][0]]
    if missing:
        return [f"upload {upload.ident} of {upload.name.path} lacks the parts {missing}"]
    upload.certain, upload.ending = True, model.UNCHANGED
    upload.parts = {number: part for number, part in upload.parts.items() if found.get(number) == part[0]}
    upload.acknowledged = set(upload.parts)
    writer.upload = upload
    return []


class Tally:
    """`lost` tells of what was acknowledged and is not there, `wrong` of everything else."""

    def __init__(self):
        self.lost, self.wrong, self.doubtful, self.made, self.names = [], [], 0, 0, 0

    @property
    def bad(self):
        return self.lost + self.wrong

    def add(self, other):
        self.lost += other.lost
        self.wrong += other.wrong
        self.doubtful += other.doubtful
        self.made += other.made
        self.names += other.names


def check(reader, writers):
    """Compares everything with what was acknowledged, and takes what is there for the truth."""
    tally, observed = Tally(), {}
    for writer in writers:
        for name in writer.names:
            seen = observed[name.path] = reader.look(name)
            tally.names += 1
            if not name.allows(seen):
                (tally.wrong if name.in_doubt() else tally.lost).append(name.story(seen))
            if name.in_doubt():
                tally.doubtful += 1
                tally.made += not model.same(seen, name.allowed[0])
            name.settle(None if isinstance(seen, str) and seen != model.BUCKET else seen)
    try:
        for writer in writers:
            tally.lost += check_upload(reader, writer, observed)
            tally.lost += [f"upload {upload.ident} of {upload.name.path} is there again, its end was acknowledged"
                           for upload in writer.aborted if reader.parts(upload) is not None]
            writer.aborted = []
        known = {writer.upload.ident for writer in writers if writer.upload}
        for key, ident in reader.uploads():
            if ident not in known:  # begun, not acknowledged
                reader.ask("DELETE", f"tree/{key}", [("uploadId", ident)], (204,))
        wanted = {path[len("tree/"):] for path, seen in observed.items() if "/" in path and seen is not None}
        listed = reader.listed()
        if listed != wanted:
            tally.wrong.append(f"the listing lacks {sorted(wanted - listed)}, invents {sorted(listed - wanted)}")
    except AssertionError as problem:
        tally.wrong.append(str(problem)[:300])
    return tally


# ---- Rounds ----

class Session:
    """Rounds on one file system. With `settle` everything is made durable before each request, so that
    only the last one can be lost, whatever the gateway does. `by_bytes`: how gateways copy that are
    started from now on."""

    def __init__(self, kind, seed, options=(), environment=None, label="", settle=False, by_bytes=False,
                 disk=None):
        self.kind, self.seed, self.label = kind, seed, label or kind
        self.disk = (disk or Disk)(kind)
        self.options, self.environment = list(options), environment
        self.gateway = None
        self.stopped = threading.Event()  # acknowledgements no longer count
        self.acknowledged = 0
        self.lock = threading.Condition()
        numbers = random.Random(f"{seed}/{kind}")
        self.settle, self.by_bytes = settle, by_bytes
        self.writers = [model.Writer(i, random.Random(numbers.random()), self.count, self.before)
                        for i in range(WRITERS)]

    def __enter__(self):
        try:
            self.start()
            made = raw.request(self.gateway, "PUT", "/tree")
            assert made.status == 200, made
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, *options):
        copies = BY_BYTES if self.by_bytes else []
        self.gateway = gateways.Gateway(TREE, [*SERVE, *copies, *self.options, *options], self.environment,
                                        name=f"powercut-{self.label}")
        self.gateway.start(timeout=600)
        for writer in self.writers:
            writer.gateway = self.gateway

    def before(self):
        if self.settle:
            os.sync()
        with self.lock:
            return self.acknowledged

    def count(self):
        with self.lock:
            if self.stopped.is_set():
                return 0
            self.acknowledged += 1
            self.disk.mark(self.acknowledged)
            self.lock.notify_all()
            return self.acknowledged

    def cut(self, how):
        # A device that fails writes lets nobody acknowledge what is not there: all still count.
        if how == "drop_writes":
            with self.lock:
                self.stopped.set()
        self.disk.switch(how)

    def quiet(self, numbers, kind, how):
        writer = numbers.choice(self.writers)
        writer.filled = True
        for step in numbers.choices(model.KINDS, k=numbers.randrange(3)):
            getattr(writer, "do_" + step)()
        self.disk.prepare(how)
        getattr(writer, "do_" + kind)()
        self.cut(how)
        writer.filled = False

    def work(self, numbers, enough):
        """All writers at once, until so many more requests were acknowledged."""
        goal = self.acknowledged + enough
        kinds = [numbers.choices(model.KINDS, k=20 + enough) for _ in self.writers]
        self.problems, self.over = [], threading.Event()

        def write(writer, steps):
            try:
                for step in steps:
                    if self.over.is_set():
                        return
                    getattr(writer, "do_" + step)()
            except model.Failed as problem:
                if not self.over.is_set() and not self.disk.cut:
                    self.problems.append(str(problem))
            except Exception as problem:  # a thread of its own must not die silently
                self.problems.append(repr(problem))

        self.threads = [threading.Thread(target=write, args=pair) for pair in zip(self.writers, kinds)]
        for thread in self.threads:
            thread.start()
        with self.lock:
            self.lock.wait_for(lambda: self.acknowledged >= goal or self.problems, 600)

    def join(self):
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems

    def busy(self, numbers, how):
        self.disk.prepare(how)
        self.work(numbers, numbers.randrange(1, 15))
        time.sleep(numbers.random() * 0.3)
        self.cut(how)
        if how == "error_writes":
            time.sleep(numbers.random() * 2)  # let it meet the errors
        self.over.set()
        self.gateway.kill()
        self.join()

    def round(self, number, kinds=model.KINDS):
        numbers = random.Random(f"{self.seed}/{self.kind}/{number}")
        how = numbers.choice(["drop_writes", "drop_writes", "error_writes"])
        kind = kinds[number // 2 % len(kinds)] if number % 2 == 0 else ""
        self.by_bytes = not kind  # the gateway that is started when this one is dead
        return self.one(numbers, kind, how, f"round {number}")

    def one(self, numbers, kind, how, label):
        before = self.acknowledged
        self.stopped.clear()
        if kind:
            self.quiet(numbers, kind, how)
        else:
            self.busy(numbers, how)
        self.gateway.kill()
        self.disk.restore()
        self.start()
        tally = check(Reader(self.gateway), self.writers)
        say(f"{self.label} seed {self.seed} {label}: {how} after {kind or 'whatever came'}; "
            f"{self.acknowledged - before} acknowledged, {tally.doubtful} in doubt of which {tally.made} happened, "
            f"{tally.names} names checked, {len(tally.bad)} wrong")
        for story in tally.bad:
            say(f"  {story}")
        return tally

    # ---- Sweeping ----

    def leftovers(self):
        """What no object and no upload needs; what is young does not count as one yet."""
        found, pointers = [], b""
        for directory, directories, files in os.walk(TREE):
            for entry in directories + files:
                path = os.path.join(directory, entry)
                try:
                    pointers += os.getxattr(path, "user.railgate")
                except OSError:
                    pass
        for directory, directories, files in os.walk(TREE):
            inside = os.path.relpath(directory, TREE).split("/")
            state = inside.index(".railgate") if ".railgate" in inside else None
            place = inside[state + 1] if state is not None and len(inside) > state + 1 else ""
            for entry in directories + files:
                path = os.path.join(directory, entry)
                if entry.startswith(".railgate-") or place in ("tmp", "uploads"):
                    found.append(path)
                elif place == "sidecar" and bytes.fromhex(entry) not in pointers:
                    found.append(path)
        return found

    def sweep(self):
        """A gateway left alone clears up, and nothing else is touched."""
        for writer in self.writers:
            if writer.upload:
                self.stopped.clear()
                writer.do_abort()
        before = len(self.leftovers())
        self.gateway.stop()
        self.start("--temp-expiry", "1s", "--sweep-interval", "1s")
        deadline = time.monotonic() + SWEEP_SECONDS
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(1)
        tally = check(Reader(self.gateway), self.writers)
        tally.wrong += [f"not swept: {path}" for path in left]
        say(f"{self.label} seed {self.seed}: {before} leftovers of all rounds, {len(left)} after sweeping, "
            f"{tally.names} names checked, {len(tally.bad)} wrong")
        for story in tally.bad:
            say(f"  {story}")
        self.gateway.stop()
        return tally

    def close(self):
        if self.gateway.process and self.gateway.process.poll() is None:
            self.gateway.kill()
        if self.disk.cut:
            self.disk.prepare("")
            self.disk.switch("")
        self.disk.close()


def promise(kind, seed, rounds, kinds=model.KINDS):
    """True when nothing acknowledged was lost."""
    total = Tally()
    with Session(kind, seed, by_bytes=True) as session:
        for number in range(rounds):
            total.add(session.round(number, kinds))
        swept = session.sweep()
    say(f"{kind}: {rounds} rounds, {session.acknowledged} acknowledged, {total.doubtful} in doubt of which "
        f"{total.made} happened, {len(total.bad) + len(swept.bad)} wrong")
    return not total.bad and not swept.bad


# ---- Replaying ----

class Past:
    """A writer's names as they may have been at a moment of the log."""

    def __init__(self, writer, number):
        self.names = [model.name_at(name, number) for name in writer.names]
        self.upload, self.aborted = None, []


def record(kind, seed, requests, options):
    """Busy writers on a disk that keeps a log. Returns the writers."""
    numbers = random.Random(f"{seed}/{kind}/record")
    with Session(kind, seed, options, label=f"{kind}-recorded", disk=Recorder) as session:
        session.work(numbers, requests)
        session.over.set()
        session.gateway.kill()
        session.join()
        return session.writers


def replay_to(kind, seed, writers, number, label):
    """Starts a gateway on what is in REPLAYED, and checks."""
    past = [Past(writer, number) for writer in writers]
    loop = run("losetup", "-f", "--show", REPLAYED)
    try:
        run("mount", "-t", kind, loop, MOUNT)
        gateway = gateways.Gateway(TREE, SERVE, name=f"powercut-{kind}-replayed")
        try:
            gateway.start(timeout=600)
            tally = check(Reader(gateway), past)
        finally:
            gateway.kill()
            run("umount", MOUNT)
    finally:
        run("losetup", "-d", loop)
    say(f"{kind} seed {seed} {label}: {tally.doubtful} in doubt of which {tally.made} happened, "
        f"{tally.names} names checked, {len(tally.bad)} wrong")
    for story in tally.bad:
        say(f"  {story}")
    return tally


def replay(kind, seed, points, options=()):
    """Cuts the log of a gateway's writes at so many points."""
    writers, total = record(kind, seed, 8 * points, options), Tally()
    log = writelog.Log(LOG)
    try:
        marks = [at for at, entry in enumerate(log.entries) if entry.mark]
        numbers = random.Random(f"{seed}/{kind}/replay")
        # Before the first acknowledgement there need not be a file system. Right after one is worst.
        ends = [numbers.choice(marks) + 1 if i % 3 == 0 else numbers.randrange(marks[0] + 1, len(log.entries))
                for i in range(points)]
        done = 0
        with open(STATE, "wb") as image:
            image.truncate(SIZE)
            for end in sorted(set(ends)):
                log.play(image, done, end)
                image.flush()
                done = end
                last = max(int(log.entries[at].mark) for at in marks if at < end)
                run("cp", "--sparse=always", STATE, REPLAYED)
                total.add(replay_to(kind, seed, writers, last,
                                    f"cut after write {end} of {len(log.entries)}, acknowledgement {last} of "
                                    f"{len(marks)}"))
    finally:
        log.close()
        for path in (LOG, STATE, REPLAYED):
            if os.path.exists(path):
                os.unlink(path)
    say(f"{kind}, replayed: {len(set(ends))} cuts, {total.doubtful} in doubt of which {total.made} happened, "
        f"{len(total.bad)} wrong")
    return total


def promise_replayed(kind, seed, points):
    """True when, wherever the log is cut, what was acknowledged by then is there."""
    return not replay(kind, seed, points).bad


def control_replayed(kind, seed):
    """True when cuts of the log show that nothing is synced."""
    lost = replay(kind, seed, 3, ["--durability", "none"]).lost
    say(f"{kind}, control, replayed, nothing is synced: " +
        (f"{len(lost)} lost, as must be" if lost else "NOTHING was lost, so the test proves nothing"))
    return bool(lost)


# The fsync of an upload's record, a file made under its own name, carries the names above it on both
# file systems: begin does not show that those of the directories are missing.
NAMED = {"create", "overwrite", "complete", "copy", "delete", "folder", "bucket", "part", "abort"}
FILLED = {"create", "overwrite", "complete", "copy", "tag", "untag", "part", "begin"}


class Control(typing.NamedTuple):
    """What is missing, and which of the kinds of request that are cut off are lost then: no more and no
    fewer."""
    what: str
    options: list
    environment: dict
    kinds: set
    lost: set
    by_bytes: bool = True
    systems: tuple = ("ext4", "xfs")


CONTROLS = [
    Control("nothing is synced", ["--durability", "none"], {}, set(model.KINDS), set(model.KINDS)),
    Control("no directory is synced", [], {"SKIP_SYNC": "directory"}, NAMED, NAMED),
    Control("no file is synced", [], {"SKIP_SYNC": "file"}, FILLED, FILLED),
    # See BY_BYTES.
    Control("no file is synced, copies share blocks", [], {"SKIP_SYNC": "file"}, {"create", "copy"}, {"create"},
            False, ("xfs",)),
]


# ---- Journals that die ----

HOLD = "/run/powercut.hold"
TAKEN = HOLD + ".taken"
# Those that make one request once everything for it is there.
DEATHS = ["create", "overwrite", "complete", "copy", "delete", "tag", "folder", "bucket", "part", "begin", "abort"]
SYNCS_MAX = 12


def touch(path):
    with open(path, "w"):
        pass


def get_ready(writer, request):
    """What a request of that kind needs, so that it is the only one to come."""
    if request == "create" and not writer.pick(False):
        writer.change(writer.an_object(), None, "DELETE")
    elif request in ("overwrite", "copy", "delete", "tag"):
        writer.an_object()
    elif request == "complete":
        while not writer.upload or len(writer.upload.parts) < 3:
            writer.do_part()
    elif request in ("part", "abort") and not writer.upload:
        writer.do_begin()
    elif request == "begin" and writer.upload:
        writer.do_abort()


def kill_journal(disk, other):
    """Writes fail once, and `other`, which waits for them, is told."""
    disk.prepare("error_writes")
    disk.switch("error_writes")
    try:
        os.fsync(other)
    except OSError:
        pass
    else:
        raise AssertionError("fsync of another file was not told that the journal died")
    finally:
        disk.prepare("")
        disk.switch("")


def die_before(session, request, number):
    """The journal dies before the fsync of that number; None when the request makes fewer."""
    writer = session.writers[0]
    get_ready(writer, request)
    os.sync()
    before, failed = session.acknowledged, []

    def send():
        try:
            getattr(writer, "do_" + request)()
        except model.Failed:
            pass
        except Exception as problem:  # a thread of its own must not die silently
            failed.append(repr(problem))

    touch(HOLD)
    thread = threading.Thread(target=send)
    thread.start()
    met = 0
    while thread.is_alive() and met < number:
        if not os.path.exists(TAKEN):
            time.sleep(0.02)
            continue
        met += 1
        if met < number:
            touch(HOLD)
            os.unlink(TAKEN)
    if met < number:
        os.unlink(HOLD)
        thread.join()
        assert not failed, failed
        return None
    other = os.open(MOUNT + "/other", os.O_RDWR | os.O_CREAT)
    try:
        kill_journal(session.disk, other)
    finally:
        os.close(other)
        os.unlink(TAKEN)
        thread.join()
    assert not failed, failed
    acknowledged = session.acknowledged - before
    session.gateway.kill()
    session.disk.restore()
    session.start()
    tally = check(Reader(session.gateway), session.writers)
    say(f"{session.label} seed {session.seed}: the journal died before fsync {number} of {request}: "
        f"{'acknowledged' if acknowledged else 'refused'}, {len(tally.bad)} wrong")
    for story in tally.bad:
        say(f"  {story}")
    return tally


def deaths(kind, seed, shim, kinds, blind):
    """True when nothing is acknowledged that died with a journal; if `blind`, when something is."""
    environment = {"LD_PRELOAD": shim, "HOLD_SYNC": HOLD} | ({"BLIND": "1"} if blind else {})
    label = f"{kind}-{'blind-' if blind else ''}deaths"
    total, lost = Tally(), set()
    with Session(kind, seed, [], environment, label) as session:
        for request in [request for request in DEATHS if request in kinds]:
            if blind and request not in ("overwrite", "delete"):
                continue
            for number in range(1, SYNCS_MAX):
                tally = die_before(session, request, number)
                if not tally:
                    break
                total.add(tally)
                if tally.lost:
                    lost.add(request)
            else:
                total.wrong.append(f"{request}: no end of fsyncs")
    if blind:
        say(f"{kind}, control, nobody asks whether fsync told the truth: "
            f"lost as it must be: {', '.join(sorted(lost)) or 'NOTHING, so the test proves nothing'}")
        return bool(lost)
    say(f"{kind}, journals that die: {len(total.bad)} wrong")
    return not total.bad


def control(kind, seed, test, shim, kinds):
    """True when the cuts show that what the control says is missing, and nothing else."""
    wanted, kept = test.lost & set(kinds), (test.kinds - test.lost) & set(kinds)
    environment = {**test.environment, "LD_PRELOAD": shim} if test.environment else None
    label = f"{kind}-control-{test.what.replace(',', '').replace(' ', '-')}"
    seen = set()
    with Session(kind, seed, test.options, environment, label, settle=True, by_bytes=test.by_bytes) as session:
        for number, request in enumerate(model.KINDS):
            if request in wanted | kept:
                numbers = random.Random(f"{seed}/{kind}/{test.what}/{number}")
                if session.one(numbers, request, "drop_writes", "control").lost:
                    seen.add(request)
    say(f"{kind}, control, {test.what}: lost as it must be: {', '.join(sorted(seen & wanted)) or 'nothing'}"
        + (f"; kept as it must be: {', '.join(sorted(kept - seen))}" if kept - seen else ""))
    if wanted - seen:
        say(f"{kind}, control, {test.what}: NOT SEEN, so the test proves nothing there: "
            f"{', '.join(sorted(wanted - seen))}")
    if seen & kept:
        say(f"{kind}, control, {test.what}: LOST, though the file system is said to keep it: "
            f"{', '.join(sorted(seen & kept))}")
    return seen == wanted


def main():
    parser = argparse.ArgumentParser(prog="dev powercut", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10 ** 6)))
    parser.add_argument("--rounds", type=int, default=2 * len(model.KINDS), help="on each file system")
    parser.add_argument("--replays", type=int, default=len(model.KINDS), help="cuts of one log of writes")
    parser.add_argument("--deaths", type=int, default=1, help="0: no journals that die")
    parser.add_argument("--fs", choices=list(MAKE), action="append", help="default: both")
    parser.add_argument("--controls", type=int, default=len(CONTROLS), help="how many of the controls to run")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=model.KINDS,
                        help="of requests to cut off in quiet rounds and controls, separated by commas")
    parser.add_argument("--shim", required=True, help="built skipsync.c")
    how = parser.parse_args()
    if not set(how.kinds) <= set(model.KINDS):
        parser.error(f"--kinds are {','.join(model.KINDS)}")

    resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
    run("modprobe", "-a", *MODULES)
    for path, value in LATE.items():
        with open(path, "w") as setting:
            setting.write(value)
    passed, failed = 0, 0
    say(f"seed {how.seed}; kernel {os.uname().release}")
    for kind in how.fs or MAKE:
        tests = [lambda test=test: control(kind, how.seed, test, how.shim, how.kinds)
                 for test in CONTROLS[:how.controls] if kind in test.systems and test.kinds & set(how.kinds)]
        if how.rounds:
            tests.append(lambda: promise(kind, how.seed, how.rounds, how.kinds))
        if how.deaths:
            tests += [lambda blind=blind: deaths(kind, how.seed, how.shim, how.kinds, blind)
                      for blind in ([True, False] if how.controls else [False])]
        if how.replays and how.controls:
            tests.append(lambda: control_replayed(kind, how.seed))
        if how.replays:
            tests.append(lambda: promise_replayed(kind, how.seed, how.replays))
        for test in tests:
            try:
                good = test()
            except Exception as problem:
                say(f"{kind}: {problem!r}")
                good = False
            passed += good
            failed += not good
    print(f"{passed} passed, {failed} failed, 0 skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
