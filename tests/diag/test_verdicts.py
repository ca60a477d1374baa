"""The whole verdict on every real log, one line an incident, as it was last looked at and found right
(cases/verdicts.txt). Other tests say what must be so; this one shows whatever a change moves:

    python3 tests/diag/test_verdicts.py >tests/diag/cases/verdicts.txt; git diff tests/diag/cases
"""
import pathlib
import re

import pytest

from diagnosis import CASES, LUSTRE, diagnose

TABLE = CASES / "verdicts.txt"


def inputs():
    """Name of a case, and its files: what a client and a server say alone, and both."""
    for folder in ("orderly", "public"):
        for path in sorted((CASES / folder).glob("*.log")):
            yield f"{folder}/{path.stem}", [path]
    for path in sorted(LUSTRE.glob("*.log")):
        yield f"lustre/{path.stem}", [path]
        client, side, rest = path.name.partition(".client.")
        server = pathlib.Path(f"{path.parent}/{client}.server.{rest}")
        if side and server.exists():
            yield f"lustre/{client}.both{'.ctime' if 'ctime' in rest else ''}", [path, server]


def line(name, incident):
    flags = [flag for flag in ("planned", "open", "self_healed") if incident[flag]]
    # Not the year: syslog has none, and the file's own time tells it.
    times = [re.sub(r"^\d{4}-", "", when["text"]) if when else "?" for when in (incident["first"], incident["last"])]
    rows = sorted({part["row"] for part in incident["consequences"]})
    return (f"{name}: {incident['cause']['row']}: {incident['scope']} {incident['element'] or '-'}, {incident['nature']}; "
            f"data {incident['data']}; {incident['urgency']}, {incident['confidence']}; {' '.join(flags) or '-'}; "
            f"{' to '.join(times)}; on {' '.join(incident['nodes'])}; of {' '.join(incident['targets'] + incident['nids']) or '-'}; "
            f"or {' '.join(other['row'] for other in incident['other_causes']) or '-'}; with {' '.join(rows) or '-'}")


def verdicts(name, paths):
    return [line(name, incident) for incident in diagnose(*paths)["incidents"]] or [f"{name}: nothing"]


@pytest.mark.parametrize("name, paths", [pytest.param(*case, id=case[0]) for case in inputs()])
def test_verdict(name, paths):
    known = [one for one in TABLE.read_text().splitlines() if one.startswith(f"{name}: ")]
    assert verdicts(name, paths) == known


def test_the_table_holds_no_more():
    assert {one.split(": ", 1)[0] for one in TABLE.read_text().splitlines()} == {name for name, _ in inputs()}


if __name__ == "__main__":
    for case in inputs():
        print("\n".join(verdicts(*case)))
