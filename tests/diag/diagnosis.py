"""Runs `railgate diagnose` and asks its JSON simple questions."""
import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
PUBLIC = CASES / "public"
LUSTRE = CASES / "lustre"
BINARY = os.path.abspath(os.environ.get("RG_BINARY", HERE.parent.parent / "build" / "railgate"))


def run(*words, stdin=None, expect=(0, 1)):
    """The finished process; any other exit status than expected fails the test."""
    done = subprocess.run(
        [BINARY, "diagnose", *map(str, words)], input=stdin, capture_output=True, timeout=120
    )
    assert done.returncode in expect, (done.returncode, done.stderr.decode(errors="replace"))
    return done


def diagnose(*words, stdin=None):
    done = run("--json", *words, stdin=stdin)
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["incidents"] else 0)
    return found


def diagnose_text(text, *words):
    return diagnose(*words, "-", stdin=text.encode())


def rows(found):
    return {finding["row"] for finding in found["findings"]} | {
        noise["row"] for noise in found["noise"]
    }


def commands(incident):
    return " ; ".join(step["command"] for step in incident["next"])


def english(phrases):
    return " ".join(phrase["en"] for phrase in phrases)


def is_bounded(command):
    return command.startswith(("timeout ", "systemctl status", "lctl list_nids"))


def first_line(incident):
    return incident["cause"]["lines"][0] if incident["cause"]["lines"] else ""


def check(incident, **expected):
    """Compares what is named; sets are alternatives, `..._has` are parts of a text."""
    for name, value in expected.items():
        if name == "cause":
            allowed = {value} if isinstance(value, str) else value
            assert incident["cause"]["row"] in allowed, incident["cause"]
        elif name == "layer":
            allowed = {value} if isinstance(value, str) else value
            assert incident["cause"]["layer"] in allowed, incident["cause"]
        elif name == "element_has":
            assert value in (incident["element"] or ""), incident["element"]
        elif name == "next_has":
            for part in [value] if isinstance(value, str) else value:
                assert part in commands(incident), commands(incident)
        elif name == "undecided_has":
            assert value in english(incident["undecided"]), incident["undecided"]
        elif name == "evidence_has":
            assert value in english(incident["evidence"]), incident["evidence"]
        elif name == "headline_has":
            assert value in incident["headline"]["en"], incident["headline"]["en"]
        elif name == "avoid_has":
            assert value in english(incident["avoid"]), incident["avoid"]
        elif name == "users_has":
            assert value in english(incident["users"]), incident["users"]
        elif name == "consequences_have":
            assert value in [part["row"] for part in incident["consequences"]]
        elif name == "others_have":
            assert value in [other["row"] for other in incident["other_causes"]]
        else:
            allowed = value if isinstance(value, (set, frozenset)) else {value}
            assert incident[name] in allowed, (name, incident[name], allowed)
