#!/usr/bin/env python3
"""unpack.py NAME.tree DIR [CHANGE ...]: makes a directory of a machine that is text (README)."""
import errno
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
AGAIN = "/.railgate/again"
COUNTER = re.compile(r"/counters/|/hw_counters/|/carrier_changes$|/ioctl/ethtool-stats/")


def unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)


def read_lines(lines, entries):
    prefix = "/"
    for line in lines:
        line = line.rstrip("\n")
        if not line or line[0] in "#@":
            continue
        if line.startswith("include "):
            read_file(line[8:], entries)
        elif line.startswith("["):
            prefix = line[1:-1]
        else:
            path, rest = line.split(" ", 1)
            path = path if path.startswith("/") else os.path.join(prefix, path)
            if rest == "-":
                for known in [k for k in entries if k == path or k.startswith(path + "/")]:
                    del entries[known]
            else:
                entries[path] = rest


def read_file(name, entries):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        read_lines(file, entries)


def write(root, path, rest):
    whole = root + path
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    if rest.startswith("->"):
        os.symlink(rest[3:], whole)
    elif rest.startswith("="):
        with open(whole, "w", encoding="utf-8") as file:
            file.write(unescape(rest[2:]) + "\n")
    elif rest == "/":
        os.makedirs(whole, exist_ok=True)
    else:
        if "/.railgate/" not in path:
            open(whole, "w", encoding="utf-8").close()
        os.makedirs(root + "/.railgate", exist_ok=True)
        with open(root + "/.railgate/errors", "a", encoding="utf-8") as file:
            file.write(f"{getattr(errno, rest[1:])} {path}\n")


def unpack(name, root, changes=()):
    entries = {}
    read_file(name, entries)
    read_lines(changes, entries)
    for path in [p for p in entries if COUNTER.search(p) and not p.startswith(AGAIN)]:
        entries.setdefault(AGAIN + path, entries[path])
    # Links last: nothing is written through them.
    for path in sorted(entries, key=lambda p: entries[p].startswith("->")):
        write(root, path, entries[path])


if __name__ == "__main__":
    unpack(sys.argv[1], sys.argv[2], sys.argv[3:])
