#!/usr/bin/env python3
"""public.py HEADER LIBRARY: what the installed header declares, and nothing else, is exported; every
function of it has a manual page that is installed and says how it is called, is called by an example
program that is built, and every type of it is described in a page."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\]|\\.)*"', " ", text, flags=re.S)


def declared(header):
    return set(re.findall(r"RG_CLIENT_API\s[^;(]*?\b(rg_\w+)\s*\(", without_comments(header)))


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    words = [line.split() for line in lines.splitlines()]
    names = {name.partition("@")[0] for *_, kind, name in words if kind != "A"}
    return {name for name in names if not name.startswith(("__asan", "__odr_asan"))}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        header = file.read()
    functions = declared(header)
    wrong = []
    if functions != exported(sys.argv[2]):
        wrong.append(f"declared and exported differ: {sorted(functions ^ exported(sys.argv[2]))}")
    dynamic = subprocess.run(["readelf", "-d", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    if not re.search(r"SONAME.*\[librailgate\.so\.0\]", dynamic):
        wrong.append("the library's name is not librailgate.so.0")
    installed = read("docs", "man", "meson.build")
    built = read("examples", "meson.build")
    programs = {}
    for name in sorted(os.listdir(os.path.join(TOP, "examples"))):
        if name.endswith(".c"):
            programs[name] = without_comments(read("examples", name))
            if f"'{name[:-2]}'" not in built:
                wrong.append(f"examples/{name} is not built")
    pages = ""
    for function in sorted(functions):
        try:
            page = read("docs", "man", function + ".3")
        except FileNotFoundError:
            wrong.append(f"{function} has no manual page")
            continue
        if page.startswith(".so man3/"):
            page = read("docs", "man", page.split("/")[1].strip())
        pages += page
        if not re.search(r"^\.SH SYNOPSIS\n(?:(?!^\.SH).)*\b%s\(" % function, page, re.M | re.S):
            wrong.append(f"{function}.3 does not say how it is called")
        if len(page.split()) < 100:
            wrong.append(f"{function}.3 says hardly anything")
        if f"'{function.removeprefix('rg_')}'" not in installed:
            wrong.append(f"{function}.3 is not installed")
        if not any(re.search(r"\b%s\s*\(" % function, text) for text in programs.values()):
            wrong.append(f"{function} is called by no example")
    types = set(re.findall(r"^(?:struct|enum) (rg_\w+) \{", header, re.M))
    types |= set(re.findall(r"^typedef \w+ (rg_\w+)\(", header, re.M))
    for name in sorted(types):
        if not re.search(r"\b%s\b" % name, pages):
            wrong.append(f"{name} stands in no manual page")
    for line in wrong:
        print(line)
    print(f"{len(functions)} functions, {len(types)} types, {len(programs)} examples")
    return 1 if wrong or len(functions) < 10 else 0


sys.exit(main())
