#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a text file as a C string: embed.py NAME FILE OUTPUT."""
import json
import sys

name, source, output = sys.argv[1:]
with open(source, encoding="ascii") as file:
    lines = file.readlines()
with open(output, "w", encoding="ascii") as file:
    file.write('#include "export/flamegraph.h"\n')
    file.write(f"const char {name}[] =\n")
    # A JSON string of ASCII is a C string too: GNU C has no trigraphs.
    file.writelines(f"\t{json.dumps(line)}\n" for line in lines)
    file.write("\t;\n")
