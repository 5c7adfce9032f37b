#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the manual page, with the formats that the program itself knows: add_formats.py VMSCOPE
TEMPLATE OUTPUT."""
import re
import subprocess
import sys

program, template, output = sys.argv[1:]
text = subprocess.run([program, "sample", "--help"], check=True, text=True, errors="replace",
                      stdout=subprocess.PIPE).stdout
formats = re.findall(r"^  (\w+) +(\.[\w.]+) +(\S.*)$", text.partition("\nFormats")[2], re.MULTILINE)
if not formats:
    sys.exit(f"{program} sample --help lists no formats")
names = " | ".join(name for name, _, _ in formats)
entries = "\n".join(f".It Ar {name} Pq {suffix}\n{what[0].upper()}{what[1:]}."
                    for name, suffix, what in formats)
with open(template, encoding="utf-8") as file:
    page = file.read()
for place, part in (("@FORMAT_NAMES@", names), ("@FORMATS@", entries)):
    if place not in page:
        sys.exit(f"{template} lacks {place}")
    page = page.replace(place, part)
with open(output, "w", encoding="utf-8") as file:
    file.write(page)
