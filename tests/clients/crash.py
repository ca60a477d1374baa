"""A whole gateway is killed at each named point of a change to its tree (src/store/posix/crash.h), for
each kind of request, over HTTP and by RDMA.

    crash.py [--cases LIST]      (./dev crash)

The gateway that dies is the one with the points in it, railgate-crash, told to kill itself at its n-th.
Then another is started on the tree, as an operator would, and asked what is there: the old object or
the new one, whole, with its own metadata, tags and ETag; never the old one if the request was answered
with success. The same request made of it works. In the end a sweep finds all that the dead ones left.

What each case passes is found out first, by a gateway that kills itself nowhere. In the tree `bare` the
mount lacks what makes some of the points needless.
"""
import argparse
import glob
import http.client
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data  # noqa: E402
import faults  # noqa: E402
import gateway as gateways  # noqa: E402
import raw  # noqa: E402
import soak  # noqa: E402
from faults import BUCKET, OLD, Case, Problem, Version, expect  # noqa: E402

BINARY = os.path.join(os.path.dirname(gateways.BINARY), "tests/unit/store/railgate-crash")
OPTIONS = ["--part-size-min", "1", "--sweep-interval", "0", "--rdma", "off"]
RDMA = ["--rdma", "on"]
BARE = "o-tmpfile,rename-flags,dir-fsync,fine-times,fallocate,reflink,copy-range,big-xattr,direct-io"
DEATH_SECONDS = 30
PROBLEMS_MAX = 10


def points_of_the_code():
    names = set()
    for path in glob.glob(os.path.join(gateways.TOP, "src/store/posix/*.c")):
        with open(path) as source:
            names.update(re.findall(r'RG_CRASH_POINT\("([^"]+)"\)', source.read()))
    return names


class Armed(gateways.Gateway):
    """A gateway that is killed at the point; with "?" at none, and tells which it passed."""

    def __init__(self, tree, point, options):
        super().__init__(tree, options, {"CRASH_POINT": point, "CRASH_POINT_FD": "9"}, name="crash-armed")
        self.points_path = self.log_path + ".points"

    def command(self, words):
        return ["/bin/sh", "-c", 'exec "$@" 9>"$0"', self.points_path, BINARY, *words[1:]]

    def passed(self):
        with open(self.points_path, "rb") as points:
            return points.read().decode().split("\0")[:-1]

    def wait_for_death(self):
        try:
            status = self.process.wait(DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Problem(f"it was not killed, see {self.log_path}") from None
        expect(status == -signal.SIGKILL, f"it ended with {status}, see {self.log_path}")


# ---- Cases beside those of faults.py ----

class PutTagged(faults.Put):
    """Metadata and tags of either side differ, and neither has names of the other only."""
    key, old, new = "described", Version("described-old", 3000, 2), Version("described-new", 2900, 3)


class FirstTouch(faults.PutNew):
    """The first change of a process to its bucket."""
    key, is_warm = "touched", False


class CopyOntoItself(faults.Copy):
    """New metadata for the same bytes."""
    new = Version("old", 3000)
    new.headers = {"content-type": "text/other", "x-amz-meta-seed": "other"}

    def ready(self):
        self.put("copied", OLD)

    def act(self, gateway):
        return raw.request(gateway, "PUT", f"/{BUCKET}/copied",
                           headers={"x-amz-copy-source": f"/{BUCKET}/copied",
                                    "x-amz-metadata-directive": "REPLACE", **self.new.headers})

    def check(self, answer, done):
        self.one_of("copied", self.new, *(() if done else (OLD,)))


class PutOverDirectory(faults.PutNew):
    """A directory that is nobody's object, and empty, gives way."""
    key = "in-the-way"

    def ready(self):
        super().ready()
        os.makedirs(os.path.join(self.witness.tree, BUCKET, self.key), exist_ok=True)


class BucketTagsDelete(faults.BucketTags):
    def act(self, gateway):
        return raw.request(gateway, "DELETE", f"/{BUCKET}", query={"tagging": ""})

    def check(self, answer, done):
        found = self.ask("GET", f"/{BUCKET}", query={"tagging": ""})
        gone = found.status == 404 and found.code == "NoSuchTagSet"
        expect(gone or (not done and found.xml().findtext(".//Value") == "old"), f"{found!r}")


class UploadCompleteSingle(faults.UploadComplete):
    """The part becomes the object."""
    key, parts, made = "completed-single", (6000,), 1

    def check(self, answer, done):
        found = self.ask("GET", f"/{BUCKET}/{self.key}")
        is_new = (found.status == 200 and found.body == self.bodies[0] and found.headers["etag"].endswith('-1"')
                  and found.headers["x-amz-meta-seed"] == "new")
        expect(is_new or (not done and self.old.is_in(found)), f"{found!r}")


class Sweep(Case):
    """Leftovers of each kind, of which some are always left to the next sweep."""
    is_warm = False
    options = ("--temp-expiry", "1s", "--sweep-interval", "1s")
    by_name = ("sweep.temporary-removed", "sweep.sidecar-marked", "sweep.sidecar-removed", "upload.record-removed")

    def __init__(self, witness):
        super().__init__(witness)
        self.own = os.path.join(witness.tree, BUCKET, ".railgate")
        self.hex = random.Random(time.monotonic_ns()).randbytes(16).hex()

    def ready(self):
        self.put("swept-beside", OLD)
        answer = self.must("POST", f"/{BUCKET}/half", query={"uploads": ""})
        upload = answer.xml().findtext("UploadId")
        self.must("PUT", f"/{BUCKET}/half", query={"uploadId": upload, "partNumber": "1"}, body=b"part")
        record, = glob.glob(os.path.join(self.own, "uploads/*", upload, "record"))
        os.unlink(record)
        os.makedirs(os.path.join(self.own, "sidecar"), exist_ok=True)
        for name in (f"tmp/.railgate-tmp-{self.hex}", f"sidecar/{self.hex}"):
            with open(os.path.join(self.own, name), "wb") as file:
                file.write(b"half" if name.startswith("tmp") else b"")
        time.sleep(1.1)

    def act(self, gateway):
        """Nothing is asked: it dies, or has swept."""
        deadline = time.monotonic() + DEATH_SECONDS
        while gateway.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def repeat(self, gateway):
        pass

    def check(self, answer, done):
        self.one_of("swept-beside", OLD)


class Told:
    """What a client's exit status is, in terms of an answer."""

    def __init__(self, status, text):
        self.status, self.text = 200 if status == 0 else 500, text

    def __repr__(self):
        return f"{self.status} {self.text}"


class Rdma(Case):
    """Our own client puts a file, by RDMA and nothing else."""
    key, device, path, words = "by-rdma", "tcp", "rdma", ("--retries", "1", "--timeout", "60")
    seed, size, old_size = "rdma-new", (1 << 20) + 77, 70001
    options, also = RDMA, ()

    def __init__(self, witness):
        super().__init__(witness)
        self.old, self.new = Version("rdma-old", self.old_size), Version(self.seed, self.size)
        self.new.headers = {"content-type": "text/new"}
        self.directory = os.path.dirname(witness.tree)
        self.source = os.path.join(self.directory, "rdma-source")
        with open(self.source, "wb") as file:
            file.write(self.new.body)

    def ready(self):
        self.put(self.key, self.old)

    def begin(self, gateway):
        environment = gateways.clean_environment(
            AWS_ACCESS_KEY_ID=gateways.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=gateways.SECRET_KEY,
            AWS_ENDPOINT_URL=gateway.endpoint, HOME=self.directory)
        return subprocess.Popen(
            [gateways.BINARY, "cp", "-v", "--path", self.path, "--transports", "ofi", "--device", self.device,
             "--content-type", "text/new", *self.words, self.source, f"s3://{BUCKET}/{self.key}"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end(self, client):
        try:
            text, _ = client.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            client.kill()
            raise Problem(f"the client does not end: {client.communicate()[0]}") from None
        expect(not gateways.REPORT.search(text), f"the client says: {text}")
        told = Told(client.returncode, text)
        if told.status == 200 and self.path == "rdma":
            expect(any(way in text for way in (f"rdma:ofi:{self.device}", *self.also)), f"went by another way: {text}")
        return told

    def act(self, gateway):
        return self.end(self.begin(gateway))

    def check(self, answer, done):
        self.one_of(self.key, self.new, *(() if done else (self.old,)))


class RdmaNew(Rdma):
    key, device = "by-rdma-new", "shm"

    def ready(self):
        self.must("DELETE", f"/{BUCKET}/{self.key}")
        self.old = None


class RdmaUpload(Rdma):
    """Three parts, one after the other. A client that is started again goes on with what is there."""
    key, seed, size = "by-rdma-parts", "rdma-parts", (11 << 20) + 5
    words, also = (*Rdma.words, "--part-size", "5M", "--parallel", "1"), ("all parts were there",)

    def check(self, answer, done):
        found = self.ask("GET", f"/{BUCKET}/{self.key}")
        is_new = (found.status == 200 and found.body == self.new.body and found.headers["etag"].endswith('-3"')
                  and found.headers["content-type"] == "text/new")
        expect(is_new or (not done and self.old.is_in(found)), f"{self.key} is {found!r}")


class RdmaLeftAlone(Rdma):
    """Nobody starts the gateway again: there is no way, and no success."""
    key, path, words, planned_as = "left-alone", "auto", ("--retries", "2", "--timeout", "60"), Rdma

    def repeat(self, gateway):
        pass


class RdmaGoneOn(RdmaLeftAlone):
    """The gateway is back at its address at once: the client goes on, and what it tells is true."""
    key, words, back = "gone-on", ("--retries", "20", "--timeout", "60"), RDMA

    def __init__(self, witness):
        super().__init__(witness)
        self.port = ("--port", str(gateways.free_port()))
        self.options = (*RDMA, *self.port)

    def act(self, gateway):
        client = self.begin(gateway)
        try:
            while client.poll() is None and gateway.process.poll() is None:
                time.sleep(0.005)
            if gateway.process.poll() is None:
                return self.end(client)
            with gateways.Gateway(gateway.tree, [*OPTIONS, *self.port, *self.back], name="crash-back"):
                told = self.end(client)
        finally:
            client.kill()  # when it would go on alone
            client.wait()
        self.judge(told)
        return told

    def judge(self, told):
        expect(told.status == 200, f"the client gave up: {told!r}")


class RdmaToHttp(RdmaGoneOn):
    """It comes back without RDMA. HTTP takes over from a PUT only when nothing can have been stored, which
    nobody knows here: no success."""
    key, back = "to-http", ()

    def judge(self, told):
        expect(told.status != 200 and "may have taken effect" in told.text, f"the client says {told!r}")


HTTP_CASES = [
    faults.PutNew, faults.Put, faults.PutDeep, faults.PutDirectory, faults.PutIfNone, faults.PutIfMatch,
    faults.PutLarge, faults.PutSpilled, faults.PutOverSpilled, faults.PutTrailer, faults.PutTrailerChunked,
    faults.PutSigned, PutTagged, FirstTouch, PutOverDirectory, faults.Copy, faults.CopyOver, faults.CopyReplaced,
    CopyOntoItself, faults.Delete, faults.DeleteDeep, faults.DeleteSpilled, faults.DeleteDirectory, faults.DeleteMany,
    faults.BucketCreate, faults.BucketDelete, faults.BucketTags, BucketTagsDelete, faults.Tags, faults.TagsSpilled,
    faults.TagsDelete, faults.UploadCreate, faults.UploadPart, faults.UploadPartCopy, faults.UploadComplete,
    faults.UploadCompleteLarge, UploadCompleteSingle, faults.UploadAbort, Sweep]
RDMA_CASES = [Rdma, RdmaNew, RdmaUpload, RdmaLeftAlone, RdmaGoneOn, RdmaToHttp]
CASES = HTTP_CASES + RDMA_CASES


# ---- The runs ----

class Run:
    def __init__(self, directory, mask="", say=print):
        self.say = say
        self.tree = os.path.join(directory, "bare" if mask else "tree")
        self.options = [*OPTIONS, *(["--mask", mask] if mask else [])]
        self.plans = {}  # of a case: how many points a gateway passes before it, and which in it
        self.killed = {}  # point: how often
        self.trials, self.problems = 0, []
        self.clean, self.armed = None, []
        try:
            self.restart()
            for path in (f"/{BUCKET}", f"/{BUCKET}/warm"):
                expect(raw.request(self.clean, "PUT", path).status == 200, path)
        except BaseException:
            self.close()
            raise

    def restart(self, options=()):
        """A gateway as an operator would start it on what is there."""
        self.give_up(self.clean)
        self.clean = gateways.Gateway(self.tree, [*self.options, *options], name="crash-clean").start()

    def give_up(self, one):
        if one and one.process.poll() is None:
            one.kill()
        if one:
            report = gateways.REPORT.search(one.log())
            expect(not report, f"{report and report[0]} in {one.log_path}")

    def arm(self, case, point):
        """Unless the case wants one that did nothing yet, it has changed something in the bucket already."""
        one = Armed(self.tree, point, [*self.options, *getattr(case, "options", ())]).start()
        self.armed.append(one)
        if getattr(case, "is_warm", True):
            expect(raw.request(one, "PUT", f"/{BUCKET}/warm").status == 200, "the first request failed")
        return one

    def plan(self, cases):
        """Finds out what each case passes."""
        shared = {}  # by options: a gateway that is used again, and what it had passed before the first
        for case_class in cases:
            case = case_class(self.clean)
            if hasattr(case, "planned_as"):
                if case.planned_as not in self.plans:
                    self.plan([case.planned_as])
                self.plans[case_class] = self.plans[case_class.planned_as]
                continue
            if hasattr(case, "by_name"):
                self.plans[case_class] = 0, case.by_name
                continue
            is_warm, options = getattr(case, "is_warm", True), tuple(getattr(case, "options", ()))
            if not is_warm or options not in shared:
                one = self.arm(case, "?")
                shared[options if is_warm else case_class] = one, len(one.passed())
            one, before = shared[options if is_warm else case_class]
            for _ in range(2 if is_warm else 1):  # the first of its kind may make what stays
                case.ready()
                passed = len(one.passed())
                answer = case.act(one)
                expect(case.is_done(answer), f"{case_class.__name__} without a kill: {answer!r}")
                case.check(answer, True)
            names = one.passed()[passed:]
            expect(names, f"{case_class.__name__} passes no point")
            self.plans[case_class] = before, names
        for one, _ in shared.values():
            one.stop()

    def tidy(self):
        """What dead ones left in directories of objects, too young for the sweep, is taken away, so that the
        next one passes the same points."""
        top = os.path.join(self.tree, BUCKET)
        for directory, _, names in os.walk(top, topdown=False):
            if ".railgate" in os.path.relpath(directory, top).split("/"):
                continue
            for name in names:
                if name.startswith(".railgate-tmp-"):
                    os.unlink(os.path.join(directory, name))
            if directory != top and not os.listdir(directory):
                os.rmdir(directory)

    def trial(self, case_class, index):
        """Kills at the index-th point that the case passes."""
        before, names = self.plans[case_class]
        case = case_class(self.clean)
        case.ready()
        one = self.arm(case, names[index] if hasattr(case, "by_name") else f"#{before + index + 1}")
        answer = None
        try:
            answer = case.act(one)
        except (http.client.HTTPException, OSError):
            pass
        one.wait_for_death()
        expect(one.passed() == [names[index]], f"killed at {one.passed()}")
        self.give_up(one)
        self.restart(RDMA if isinstance(case, Rdma) and not hasattr(case, "planned_as") else ())
        case.witness, case.wire = self.clean, raw.connect(self.clean)
        done = self.is_done(case, answer)
        case.check(answer if done else None, done)
        if not done:
            repeated = getattr(case, "repeat", case.act)(self.clean)
            expect(repeated is None or case.is_done(repeated), f"repeated: {repeated!r}")
            case.check(repeated, repeated is not None)
        self.trials += 1
        self.killed[names[index]] = self.killed.get(names[index], 0) + 1

    @staticmethod
    def is_done(case, answer):
        try:
            return answer is not None and case.is_done(answer)
        except xml.etree.ElementTree.ParseError:
            return False  # kept alive while it was at work, and cut off

    def kill_at(self, pairs):
        for case_class, index in pairs:
            try:
                self.trial(case_class, index)
            except Problem as problem:
                self.problems.append(f"{case_class.__name__} in {os.path.basename(self.tree)}, killed at its "
                                     f"{index + 1}. point ({self.plans[case_class][1][index]}): {problem}")
                self.say(self.problems[-1])
                if len(self.problems) >= PROBLEMS_MAX:
                    return
                self.disarm()
                self.restart()

    def end(self):
        """All that the dead ones left is swept. Returns how many files that were."""
        self.clean.stop()
        left = [path for path in soak.leftovers(self.tree) if ".railgate" in path]
        keys = {case.key for case in CASES if issubclass(case, (faults.Upload, RdmaUpload))}
        self.problems += faults.swept(self.tree, self.options, keys)
        return len(left)

    def disarm(self):
        for one in self.armed:
            if one.process.poll() is None:
                one.kill()
        self.armed.clear()

    def close(self):
        self.disarm()
        if self.clean and self.clean.process.poll() is None:
            self.clean.kill()


# ---- Many at once ----

class Writer(threading.Thread):
    """Changes keys of its own, one after the other, until the gateway is gone. Knows what was
    acknowledged of each, and what was asked for last and not answered."""

    def __init__(self, gateway, name, seed):
        super().__init__(name=name)
        self.gateway, self.numbers = gateway, random.Random(f"{seed}/{name}")
        self.keys = [f"{name}/{number}" for number in range(4)]
        self.known, self.asked = dict.fromkeys(self.keys), {}
        self.acknowledged, self.problem = 0, None

    def run(self):
        version = 0
        while self.problem is None:
            version += 1
            key = self.numbers.choice(self.keys)
            wanted = None
            if self.known[key] is None or self.numbers.random() < 0.8:
                wanted = Version(f"{key}/{version}", self.numbers.choice((1, 3000, 200000)), self.numbers.randrange(2))
            self.asked = {key: wanted}
            try:
                if not self.ask(key, wanted):
                    return
            except (http.client.HTTPException, OSError):
                return
            except Problem as problem:
                self.problem = str(problem)
                return
            self.known[key], self.asked = wanted, {}
            self.acknowledged += 1

    def ask(self, key, wanted):
        if wanted:
            answer = raw.request(self.gateway, "PUT", f"/{BUCKET}/{key}", headers=wanted.headers, body=wanted.body)
        else:
            answer = raw.request(self.gateway, "DELETE", f"/{BUCKET}/{key}")
        if answer.status not in (200, 204):
            self.problem = f"{key}: {answer!r}"
        return self.problem is None

    def check(self, case):
        for key in self.keys:
            case.one_of(key, self.known[key], *([self.asked[key]] if key in self.asked else []))


class RdmaWriter(Writer):
    def ask(self, key, wanted):
        if not wanted:
            return super().ask(key, wanted)
        case = Rdma(self.gateway)
        case.key, case.source = key, f"{case.source}-{self.name}"
        wanted.headers = {"content-type": "text/new"}
        with open(case.source, "wb") as file:
            file.write(wanted.body)
        told = case.act(self.gateway)
        if told.status != 200:
            try:
                self.gateway.process.wait(DEATH_SECONDS)  # dead, or about to be
            except subprocess.TimeoutExpired:
                self.problem = f"{key}: {told!r}"
        return told.status == 200


def kill_in_traffic(run, numbers, most):
    """Returns how many changes were acknowledged before it died at its n-th point."""
    kinds = [Writer] * 4 + [RdmaWriter]
    seed = numbers.random()
    one = Armed(run.tree, f"#{numbers.randrange(most // 2, most)}", [*run.options, *RDMA]).start()
    run.armed.append(one)
    writers = [kind(one, f"{run.trials}-{number}", seed) for number, kind in enumerate(kinds)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for writer in writers:
        expect(writer.problem is None, writer.problem)
    one.wait_for_death()
    run.give_up(one)
    run.restart()
    case = Case(run.clean)
    for writer in writers:
        writer.check(case)
    run.trials += 1
    return sum(writer.acknowledged for writer in writers)


# ---- What is killed where ----

def everything(run):
    for case, (_, names) in run.plans.items():
        for index in range(len(names)):
            yield case, index


def each_point_once(run, numbers, but=()):
    """Each point in a case by chance."""
    ways = {}
    for case, index in everything(run):
        ways.setdefault(run.plans[case][1][index], []).append((case, index))
    for name in sorted(ways.keys() - set(but)):
        yield numbers.choice(ways[name])


def main():
    parser = argparse.ArgumentParser(prog="dev crash", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[case.__name__ for case in CASES])
    how = parser.parse_args()
    known = {case.__name__: case for case in CASES}
    if not set(how.cases) <= set(known):
        parser.error(f"--cases are {','.join(known)}")
    directory = tempfile.mkdtemp(prefix="railgate-crash-")
    killed, trials, problems = {}, 0, []
    try:
        for mask in ("", BARE):
            run = Run(directory, mask)
            try:
                run.plan([case for case in CASES if case.__name__ in how.cases and (not mask or case in HTTP_CASES)])
                for one in everything(run):
                    if one[1] == 0:
                        print(f"{one[0].__name__}: {' '.join(run.plans[one[0]][1])}", flush=True)
                    run.tidy()
                    run.kill_at([one])
                run.end()
            finally:
                run.close()
            trials, problems = trials + run.trials, problems + run.problems
            killed.update(run.killed)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if len(how.cases) == len(CASES):
        problems += [f"nothing was killed at {name}" for name in sorted(points_of_the_code() - killed.keys())]
    for problem in problems:
        print(f"failed: {problem}")
    print(f"{trials} passed, {len(problems)} failed, 0 skipped")
    return 1 if problems or not trials else 0


if __name__ == "__main__":
    sys.exit(main())
