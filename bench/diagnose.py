#!/usr/bin/python3
"""Measures `railgate diagnose` on a made-up kernel log beside `grep -E` with the same patterns.

Both read one file from the page cache on one processor, interleaved; only the ratio within the run
means anything. The patterns are those of the message catalogue, as far as they can be said as
extended regular expressions.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("RG_BUILD", ROOT / "build"))
MIB = 1 << 20


def to_extended(pattern):
    """A pattern of the catalogue (PCRE) as an ERE, or None where that cannot be said."""
    pattern = re.sub(r"\(\?<\w+>", "(", pattern)
    pattern = pattern.replace("(?:", "(")
    if "(?" in pattern or re.search(r"[*+?}]\?|[*+?}]\+", pattern):
        return None
    # Within brackets backslashes mean themselves.
    out, inside, i = [], False, 0
    while i < len(pattern):
        two = pattern[i:i + 2]
        if two in (r"\d", r"\w", r"\s", r"\S"):
            if two == r"\S" and inside:
                return None
            name = {r"\d": "0-9", r"\w": "A-Za-z0-9_", r"\s": " "}.get(two)
            out.append(name if inside else f"[{name}]" if name else "[^ ]")
            i += 2
            continue
        if two == r"\b":
            return None
        if pattern[i] == "\\" and inside:
            if pattern[i + 1] in "]^-":
                return None
            out.append(pattern[i + 1])
            i += 2
            continue
        if pattern[i] == "\\":
            out.append(two)
            i += 2
            continue
        if pattern[i] == "[" and not inside:
            inside = True
            out.append("[")
            i += 1
            if pattern[i] == "^":
                out.append("^")
                i += 1
            continue
        if pattern[i] == "]" and inside:
            inside = False
        out.append(pattern[i])
        i += 1
    return "".join(out)


def patterns():
    found = re.findall(r"^re: (.*)$", (ROOT / "src/diag/messages.tbl").read_text(), re.M)
    said = [p for p in map(to_extended, found) if p and works(p)]
    return said, len(found)


def works(pattern):
    return subprocess.run(["grep", "-E", "-e", pattern], input=b"", capture_output=True).returncode == 1


def run(words, **options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, used, time.monotonic() - started


def pin():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", default="ordinary", choices=["ordinary", "storm", "hostile"])
    parser.add_argument("--no-grep", action="store_true", help="grep takes minutes for a gigabyte")
    parser.add_argument("--out", type=pathlib.Path, help="directory for bench-diagnose.json")
    arguments = parser.parse_args()
    said, known = patterns()
    with tempfile.TemporaryDirectory() as work:
        log, list_ = pathlib.Path(work, "kernel.log"), pathlib.Path(work, "patterns")
        list_.write_text("\n".join(said) + "\n")
        with log.open("wb") as file:
            subprocess.run([BUILD / "tests/diag/diagnose-log", str(arguments.mebibytes),
                            arguments.kind], stdout=file, check=True)
        size = log.stat().st_size
        contestants = {"railgate diagnose": [BUILD / "railgate", "diagnose", log]}
        if not arguments.no_grep:
            contestants["grep -E -c -f patterns"] = ["grep", "-E", "-c", "-f", list_, log]
        rates = {name: [] for name in contestants}
        log.read_bytes()  # into the page cache
        for _ in range(arguments.rounds):
            for name, words in contestants.items():
                environment = {**os.environ, "LC_ALL": "C"}
                status, used, _ = run(words, preexec_fn=pin, env=environment)
                if status not in (0, 1):
                    sys.exit(f"{name} failed with status {status}")
                rates[name].append(size / MIB / used)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{size // MIB} MiB of {arguments.kind} kernel log; {len(said)} of {known} patterns as ERE")
    middle = {name: statistics.median(values) for name, values in rates.items()}
    for name, rate in middle.items():
        print(f"  {name:24} {rate:8.0f} MiB/s of processor time")
    print(f"  peak memory of any of them: {peak:.0f} MiB")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "bench-diagnose.json").write_text(
            json.dumps({"bytes": size, "kind": arguments.kind, "mib_per_s": rates}, indent=1))


if __name__ == "__main__":
    main()
