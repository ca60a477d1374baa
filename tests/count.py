#!/usr/bin/python3
"""Prints "PASSED FAILED SKIPPED" of one test run: count.py meson|junit FILE.

The names of the tests that failed go to standard error, a line each, with the end of what they said
below it. A missing or unreadable file counts as one failure: a run that left no record did not pass.
"""
import json
import sys
import xml.etree.ElementTree


SAID_LINES = 40


def name_failed(path, name, said):
    print(f"failed: {name} ({path})", file=sys.stderr)
    for line in said.splitlines()[-SAID_LINES:]:
        print(f"    {line}", file=sys.stderr)


def count_meson(path):
    passed = failed = skipped = 0
    with open(path) as lines:
        for line in lines:
            test = json.loads(line)
            result = test["result"]
            if result in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif result == "SKIP":
                skipped += 1
            else:
                failed += 1
                name_failed(path, test["name"], test.get("stdout", "") + test.get("stderr", ""))
    return passed, failed, skipped


def count_junit(path):
    passed = failed = skipped = 0
    for suite in xml.etree.ElementTree.parse(path).iter("testsuite"):
        bad = int(suite.get("failures")) + int(suite.get("errors"))
        skip = int(suite.get("skipped"))
        passed += max(int(suite.get("tests")) - bad - skip, 0)
        failed += bad
        skipped += skip
        for case in suite.iter("testcase"):
            troubles = case.findall("failure") + case.findall("error")
            if troubles:
                name_failed(path, f"{case.get('classname')}::{case.get('name')}",
                            "\n".join(trouble.text or "" for trouble in troubles))
    return passed, failed, skipped


def main():
    kind, path = sys.argv[1:]
    try:
        counts = {"meson": count_meson, "junit": count_junit}[kind](path)
    except (OSError, ValueError, KeyError, xml.etree.ElementTree.ParseError) as problem:
        print(f"failed: no record of a run ({path}: {problem})", file=sys.stderr)
        counts = (0, 1, 0)
    print(*counts)


if __name__ == "__main__":
    main()
