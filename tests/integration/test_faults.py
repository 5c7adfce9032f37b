# SPDX-License-Identifier: MIT
"""The short form of the fault matrix: a few rounds of every fault, at the same moments each time.

`make check-long` has the long one; tests/faults/matrix.py repeats single rounds.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import harness

MATRIX = harness.ROOT / "tests" / "faults" / "matrix.py"
SECONDS = 900  # for all of it; a guest that is lost is waited for
WORDS = dict(line.split(None, 1) for line in subprocess.run(
    [MATRIX, "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines())


class Short(unittest.TestCase):
    """A test for every fault, added below."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="vmscope-faults-") as directory:
            path = pathlib.Path(directory) / "results"
            run = subprocess.run([MATRIX, "--jobs", "1", "--json", path], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
                                 env={**os.environ, "VMSCOPE_BUILD": str(harness.BUILD)})
            cls.output = run.stdout
            cls.results = json.loads(path.read_text()) if path.exists() else []

    def check(self, fault):
        results = [result for result in self.results if result["fault"] == fault]
        self.assertGreater(len(results), 0, self.output)
        self.assertEqual([result for result in results if result["outcome"] == "wrong"], [])
        if all(result["outcome"] == "skipped" for result in results):
            self.skipTest(results[0]["reason"])


def _add_test(fault, words):
    def test(self):
        self.check(fault)
    test.__doc__ = words
    setattr(Short, "test_" + fault.replace("-", "_"), test)


for _fault, _words in WORDS.items():
    _add_test(_fault, _words)


if __name__ == "__main__":
    unittest.main()
