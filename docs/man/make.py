#!/usr/bin/env python3
"""Writes the manual pages: make.py RAILGATE [--check].

Section 3 comes from pages.txt, the public header and the example programs, section 1 from
`RAILGATE help COMMAND`. With --check nothing is written; exit status 1 says that a page is not what
it should be.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
COMMANDS = ["bench", "cat", "config", "cp", "diagnose", "doctor", "ls", "mb", "presign", "rb", "rm", "serve",
            "stat", "sync", "token"]
# Those that talk to a gateway.
CLIENTS = {"bench", "cat", "cp", "ls", "mb", "presign", "rb", "rm", "stat", "sync"}


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def code(text):
    return ".nf\n.ft CW\n" + escape(text.rstrip("\n")) + "\n.ft R\n.fi\n"


def declaration(header, name):
    """The prototype of a function, without its comment."""
    found = re.search(r"^RG_CLIENT_API ([^;]*\b%s\([^;]*;)" % name, header, re.M)
    assert found, name
    lines = found[1].split("\n")
    indent = len("RG_CLIENT_API ")
    return "\n".join([lines[0]] + [line[indent:] if line.startswith(" " * indent) else line for line in lines[1:]])


def structure(header, name):
    found = re.search(r"^(?:struct|enum) %s \{.*?^\};" % name, header, re.M | re.S)
    found = found or re.search(r"^(?:struct|enum) %s \{.*?\};" % name, header, re.M)
    found = found or re.search(r"^typedef [^;]*\b%s\([^;]*;" % name, header, re.M)
    assert found, name
    return found[0]


def pages(text):
    for chunk in re.split(r"^= ", text, flags=re.M)[1:]:
        name, _, rest = chunk.partition("\n")
        fields, _, words = rest.partition("\n\n")
        fields = dict(line.split(": ", 1) for line in fields.split("\n"))
        words, _, errors = words.partition("\nerrors:\n")
        yield name, fields, words.strip(), [line.split("  ", 1) for line in errors.strip().split("\n") if line]


def section_3(header, name, fields, words, errors):
    functions = fields["functions"].split()
    out = '.TH %s 3 "" "Railgate" "librailgate"\n' % name.upper()
    out += ".SH NAME\n%s \\- %s\n" % (", ".join(functions), fields["summary"])
    out += ".SH SYNOPSIS\n" + code("#include <railgate/railgate.h>\n\n" +
                                   "\n\n".join(declaration(header, one) for one in functions))
    out += ".PP\nLink with \\fI\\-lrailgate\\fR (pkg\\-config railgate).\n"
    out += ".SH DESCRIPTION\n" + "\n.PP\n".join(escape(part) for part in words.split("\n\n")) + "\n"
    for one in fields.get("structs", "").split():
        out += ".PP\n" + code(structure(header, one))
    if errors:
        if errors[0][0] != "NULL":
            out += (".SH RETURN VALUE\n0, or the negative of one of these, with *ret_failure filled (see\n"
                    ".BR rg_status_name (3)):\n" if name != "rg_status_name" else "")
        else:
            out += ".SH RETURN VALUE\nThe text, or:\n"
        for status, meaning in errors:
            out += ".TP\n\\fB%s\\fR\n%s\n" % (escape(status), escape(meaning))
    out += ".SH EXAMPLE\n" + code(read("examples", fields["example"] + ".c"))
    out += ".SH SEE ALSO\n" + ",\n".join(".BR %s (3)" % one for one in fields["see"].split()).replace(",\n.BR", " ,\n.BR")
    return out + "\n"


def options(lines):
    """Of a command's help: an option and its meaning on one line, or the meaning indented below it."""
    for line in lines:
        group = re.fullmatch(r"([A-Z][\w -]*):", line)
        option = re.match(r"  (\S.*?)(?:  +|$)(.*)", line)
        if group:
            yield ".SS %s\n" % escape(group[1])
        elif option:
            yield ".TP\n\\fB%s\\fR\n%s\n" % (escape(option[1]), escape(option[2])) if option[2] else \
                ".TP\n\\fB%s\\fR\n" % escape(option[1])
        elif line.startswith("    "):
            yield escape(line.strip()) + "\n"


def section_1(binary, command):
    text = subprocess.run([binary, "help", command], check=True, capture_output=True, text=True).stdout
    lines = text.split("\n")
    usage, summary, rest = lines[0].removeprefix("usage: "), lines[2], lines[3:]
    words = [line for line in rest if not line.startswith("  ")]
    paragraphs = re.split(r"\n\n+", "\n".join(words).strip())
    # Above a list of settings each group has its name, which is no paragraph.
    paragraphs = [one for one in paragraphs if not re.fullmatch(r"[\w -]+:", one)]
    out = '.TH RAILGATE\\-%s 1 "" "Railgate" "Railgate"\n' % command.upper()
    out += ".SH NAME\nrailgate\\-%s \\- %s\n" % (command, escape(summary[0].lower() + summary[1:].rstrip(".")))
    out += ".SH SYNOPSIS\n.B %s\n" % escape(usage)
    out += ".SH DESCRIPTION\n" + escape(summary) + "\n"
    out += "".join(".PP\n" + escape(one) + "\n" for one in paragraphs if one)
    if any(line.startswith("  ") for line in rest):
        out += ".SH OPTIONS\n" + "".join(options(rest))
    if command in CLIENTS:  # the others' help tells their exit status
        out += (".SH ENVIRONMENT\nEndpoint, region, credentials and CA certificates come from the variables and files\n"
                "that other AWS tools use; see\n.BR rg_client_open (3).\n")
        out += (".SH EXIT STATUS\n0: done. 1: it was asked rightly and could not be done. 2: a word, option, setting\n"
                "or the credentials are not valid.\n")
    others = [one for one in COMMANDS if one != command]
    out += ".SH SEE ALSO\n" + " ,\n".join(".BR railgate\\-%s (1)" % one for one in others) + "\n"
    return out


def overview(binary):
    """railgate(1), from the list of commands."""
    text = subprocess.run([binary, "--help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  (\w+) +(\S.*)$", text, re.M)
    missing = set(COMMANDS) - {name for name, _ in commands}
    assert not missing, f"not in the help: {missing}"
    out = '.TH RAILGATE 1 "" "Railgate" "Railgate"\n'
    out += ".SH NAME\nrailgate \\- S3 over a directory tree, with object bytes by RDMA\n"
    out += ".SH SYNOPSIS\n.B railgate\n.I COMMAND\n[words]\n.br\n.B railgate help\n.I COMMAND\n.br\n"
    out += ".B railgate \\-\\-version\n.SH COMMANDS\n"
    for name, summary in commands:
        out += ".TP\n%s\n%s\n" % (f".BR railgate\\-{name} (1)" if name in COMMANDS else f".B {name}", escape(summary))
    return out + ".SH SEE ALSO\n.BR rg_client_open (3)\n"


def main():
    binary, check = sys.argv[1], "--check" in sys.argv[2:]
    header = read("include", "railgate", "railgate.h")
    made = {}
    for name, fields, words, errors in pages(read("docs", "man", "pages.txt")):
        made[name + ".3"] = section_3(header, name, fields, words, errors)
        for other in fields["functions"].split():
            if other != name:
                made[other + ".3"] = ".so man3/%s.3\n" % name
    declared = set(re.findall(r"^RG_CLIENT_API [^;(]*?\b(rg_\w+)\(", header, re.M))
    missing = declared - {name.removesuffix(".3") for name in made}
    assert not missing, f"no page for {missing}"
    made["railgate.1"] = overview(binary)
    for command in COMMANDS:
        made[f"railgate-{command}.1"] = section_1(binary, command)
    stale = []
    for name, text in made.items():
        path = os.path.join(HERE, name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if old != text:
            stale.append(name)
            if not check:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    extra = {name for name in os.listdir(HERE) if re.search(r"\.[13]$", name)} - set(made)
    for name in extra:
        stale.append(name)
        if not check:
            os.remove(os.path.join(HERE, name))
    if check and stale:
        sys.exit(f"not up to date (docs/man/make.py writes them): {' '.join(sorted(stale))}")


main()
