# SPDX-License-Identifier: MIT
"""Reads files in callgrind's format, as KCachegrind does. Written from the format."""
import collections
import re


def add(sums, key, pair):
    """Functions of one name are one."""
    sums[key] = tuple(map(sum, zip(sums.get(key, (0, 0)), pair)))


class Callgrind:
    """costs: (ns, calls) by function; edges: (calls, ns) by (caller, callee)."""

    def __init__(self, text):
        self.costs, self.edges, self.totals = {}, {}, None
        self.objects = {}  # by function
        names = collections.defaultdict(dict)  # kind: number: name
        current = {}
        pending = None  # the number of calls whose costs are in the next line
        lines = text.splitlines()
        assert lines[0] == "# callgrind format" and "events: ns Calls" in lines, lines[:6]
        for line in lines[lines.index("events: ns Calls") + 1:]:
            if match := re.fullmatch(r"(c?)(ob|fl|fi|fn)=(?:\((\d+)\))?(?: ?(.+))?", line):
                called, kind, number, name = match.groups()
                kind = "fl" if kind == "fi" else kind
                if number and name:
                    assert number not in names[kind], line
                    names[kind][number] = name
                current[called + kind] = names[kind][number] if number else name
            elif match := re.fullmatch(r"calls=(\d+) 0", line):
                pending = int(match[1])
            elif match := re.fullmatch(r"0 (\d+) (\d+)", line):
                costs = tuple(map(int, match.groups()))
                if pending is None:
                    add(self.costs, current["fn"], costs)
                    self.objects[current["fn"]] = current["ob"]
                else:
                    add(self.edges, (current["fn"], current["cfn"]), (pending, costs[0]))
                    pending = None
            elif match := re.fullmatch(r"totals: (\d+) (\d+)", line):
                self.totals = tuple(map(int, match.groups()))
            else:
                assert not line, line
