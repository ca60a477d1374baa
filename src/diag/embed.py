#!/usr/bin/env python3
"""Writes a file as a C array: embed.py INPUT OUTPUT NAME."""
import sys

source, target, name = sys.argv[1:]
with open(source, "rb") as file:
    data = file.read()
with open(target, "w", encoding="ascii") as out:
    out.write(f"#include <stddef.h>\nextern const char {name}[];\nextern const size_t {name}_len;\n")
    out.write(f"const size_t {name}_len = {len(data)};\nconst char {name}[] = {{\n")
    for at in range(0, len(data), 20):
        signed = (byte - 256 if byte > 127 else byte for byte in data[at:at + 20])
        out.write(",".join(map(str, signed)) + ",\n")
    out.write("0};\n")
