# SPDX-License-Identifier: MIT
"""Ten thousand samples of a machine under KVM: every stack is one that the guest's code can have.

A walk by frame pointers, all that this guest has, lacks the caller of a function that has not made its
frame yet. Nothing else may be missing, and that seldom.
"""
import collections
import pathlib
import tempfile
import unittest

from kvm_case import Case
from kvm_monitor import CALLS, ELF
from test_kvm import PATHS, TREE

SAMPLES = 10000
SECONDS = 10
ENTRIES = 0.02  # of all samples, at most, are at the first instructions of a function
RUNS = 30  # at most: a busy host gives fewer samples a second


def read_folded(path):
    """How often each stack was seen, outermost function first; vCPUs and binaries left out."""
    found = collections.Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        names = [frame.split(" (")[0] for frame in stack.split(";")]
        found[tuple(names[names.index("start"):] if "start" in names else names)] += int(count)
    return found


class Samples(Case):
    def test_stacks_are_exact(self):
        monitor = self.start(CALLS, CALLS)
        found = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "samples.folded")
            for _ in range(RUNS):
                self.vmscope("sample", monitor, "-F", 999, "-t", SECONDS, "--symbols", ELF, "-o",
                             path, timeout=10 * SECONDS)
                found += read_folded(path)
                if found.total() >= SAMPLES:
                    break
        self.assertGreaterEqual(found.total(), SAMPLES)
        whole = {("start",), *(("start", *path) for path in PATHS)}
        entries = {(*path[:-2], path[-1]) for path in whole if len(path) > 2} - whole
        self.assertLessEqual(set(found), whole | entries)
        self.assertLess(sum(found[path] for path in entries), ENTRIES * found.total())
        major, minor = (found["start", *path] for path in TREE)
        self.assertAlmostEqual(major / (major + minor), 0.75, delta=0.03)


if __name__ == "__main__":
    unittest.main()
