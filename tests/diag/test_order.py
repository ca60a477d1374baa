"""What is said depends on what was when, and not on which file was named first."""
import itertools
import re

import pytest

import cluster
from diagnosis import CASES, diagnose, diagnose_text, english
from test_verdicts import inputs, line

A = "192.0.2.15@o2ib"
B = "192.0.2.16@o2ib"
DAY = 86400


def cases():
    for name, paths in inputs():
        if len(paths) > 1:
            yield pytest.param(name, [path.read_text(errors="replace") for path in paths],
                               [path.name for path in paths], id=name)
    # Logs of several nodes in one file, one file a node.
    for path in sorted([*(CASES / "public").glob("*.log"), *(CASES / "orderly").glob("*.log"), *(CASES / "healthy").glob("*.log")]):
        nodes = {}
        for one in path.read_text(errors="replace").splitlines(keepends=True):
            host = re.match(r"(?:\d{4}-\S+|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d) ([a-z][\w.-]*) \S+: ", one)
            nodes.setdefault(host[1] if host else None, []).append(one)
        if 2 <= len(nodes) <= 4 and None not in nodes:
            yield pytest.param(path.stem, ["".join(lines) for lines in nodes.values()],
                               [f"{node}.log" for node in nodes], id=path.stem)


def told(name, files):
    found = diagnose(*files)
    return ([line(name, one) for one in found["incidents"]], [(one["row"], one["count"]) for one in found["findings"]],
            [step["command"] for one in found["incidents"] for step in one["next"]])


@pytest.mark.parametrize("name, texts, names", list(cases()))
def test_the_order_in_which_files_are_named_decides_nothing(tmp_path, name, texts, names):
    files = [tmp_path / one for one in names]
    for file, text in zip(files, texts):
        file.write_text(text)
    first = told(name, files)
    for order in itertools.permutations(files):
        assert told(name, order) == first, order


def test_there_are_such_cases():
    names = [case.values[0] for case in cases()]
    assert len(names) > 30 and any(not name.startswith("lustre/") for name in names)


# ---- A target that was at one server, and later at another. ----

def moved(at):
    """From A to B."""
    return cluster.gone("gpu01", at, "scr-OST0000", A) + cluster.line(
        "gpu01", at + 60, f"Lustre: {cluster.client_device('scr-OST0000')}: Connection restored to {B} (at {B})")


def there(at, nid):
    return cluster.lost("gpu01", at, "scr-OST0000", nid) + cluster.restored("gpu01", at + 1, "scr-OST0000", nid)


def evicted(at, nid):
    """Names no NID."""
    return cluster.evicted("gpu01", at, "scr-OST0000") + cluster.restored("gpu01", at + 9, "scr-OST0000", nid)


def answered(found):
    """Day and evidence of the incidents."""
    return [(one["first"]["text"][8:10], re.findall(r"(\S+)@o2ib answered", english(one["evidence"])))
            for one in found["incidents"]]


EARLY = there(-3 * DAY, A) + evicted(-DAY, A)
LATE = moved(DAY) + evicted(3 * DAY, B)


@pytest.mark.parametrize("text", [EARLY + LATE, LATE + EARLY], ids=["in order", "later first"])
def test_a_target_was_where_it_was_at_that_time(text):
    """An eviction names no NID."""
    assert answered(diagnose_text(text)) == [("19", ["192.0.2.15"]), ("21", ["192.0.2.15"]), ("23", []), ("25", ["192.0.2.16"])]


def test_a_loss_lasts_until_the_first_that_says_it_is_over():
    """Whichever stands first in the log."""
    back = [cluster.restored("gpu01", at, "scr-OST0000", nid) for at, nid in ((40, A), (9000, B))]
    lost = cluster.lost("gpu01", 0, "scr-OST0000", A)
    for restored in back, back[::-1]:
        incident = diagnose_text(lost + "".join(restored))["incidents"][0]
        assert not incident["open"] and incident["duration_usec"] == 40e6
