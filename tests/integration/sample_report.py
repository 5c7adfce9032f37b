# SPDX-License-Identifier: MIT
"""What `vmscope sample` prints, read by what the specification says of it."""
import collections
import re

from vmscope_command import vmscope

TREE_LINE = re.compile(r"( *)(\d+) (\d+\.\d+)% (.*)")
FRAME = re.compile(r"(?:(\S+?)(?:\+(0x[0-9a-f]+))? \((\S+)\) )?\[(0x[0-9a-f]+)\]")
HEADING = re.compile(r"vCPU (\d+): (\d+) samples, one every (\d+) us for ([\d.]+) (us|ms|s), "
                     r"(\d+) missed, (\d+) failed")
UNITS = {"us": 1, "ms": 1e3, "s": 1e6}
Node = collections.namedtuple("Node", "depth count percent label children")


class Report:
    """A text report, read by what the specification says of it."""

    def __init__(self, text):
        self.text = text
        self.trees = {}  # by vCPU: its roots
        self.samples = {}
        self.missed = {}
        self.failed = {}
        self.ticks = {}  # of the time that the run took
        self.nodes = []
        stack = None
        for line in text.splitlines():
            heading = HEADING.match(line)
            node = TREE_LINE.fullmatch(line)
            if heading:
                vcpu = int(heading[1])
                self.samples[vcpu] = int(heading[2])
                self.ticks[vcpu] = 1 + float(heading[4]) * UNITS[heading[5]] / int(heading[3])
                self.missed[vcpu] = int(heading[6])
                self.failed[vcpu] = int(heading[7])
                self.trees[vcpu] = []
                stack = [Node(-1, None, None, None, self.trees[vcpu])]
            elif node and stack:
                depth, rest = divmod(len(node[1]), 4)
                assert rest == 0, f"indentation: {line!r}"
                made = Node(depth, int(node[2]), float(node[3]), node[4], [])
                while stack[-1].depth >= depth:
                    stack.pop()
                assert stack[-1].depth == depth - 1, f"indentation: {line!r}"
                stack[-1].children.append(made)
                stack.append(made)
                self.nodes.append(made)
            elif line.startswith("Functions"):
                stack = None

    def check_ticks(self, case):
        """Each tick of the time that the run took is a sample, a failure, or was missed."""
        for vcpu, ticks in self.ticks.items():
            told = self.samples[vcpu] + self.missed[vcpu] + self.failed[vcpu]
            case.assertAlmostEqual(told, ticks, delta=2)  # the time is rounded

    def processes(self):
        """Samples by the name of a root, "md5sum (12)" as md5sum."""
        counts = collections.Counter()
        for roots in self.trees.values():
            for root in roots:
                counts[root.label.split(" (")[0]] += root.count
        return counts


def sample(guest, *arguments, seconds=3):
    return Report(vmscope("sample", "-t", seconds, *arguments, *guest.target, timeout=120).out)


def folded(guest, *arguments, seconds=3):
    """Folded stacks as a list of (frames, count)."""
    return read_folded(vmscope("sample", "-t", seconds, "--format", "folded", *arguments,
                               *guest.target, timeout=120).out)


def read_folded(text):
    """The same of what was written to a file."""
    stacks = []
    for line in text.splitlines():
        frames, count = line.rsplit(" ", 1)
        stacks.append((frames.split(";"), int(count)))
    return stacks
