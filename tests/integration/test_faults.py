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

DIRECTORY = harness.ROOT / "tests" / "faults"
MATRIX = DIRECTORY / "matrix.py"
SECONDS = 900  # for all of it; a guest that is lost is waited for
WORDS = dict(line.split(None, 1) for line in subprocess.run(
    [MATRIX, "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines())


def run_matrix(*options, build=harness.BUILD, **environment):
    """What the matrix writes, and the outcomes of its rounds."""
    with tempfile.TemporaryDirectory(prefix="vmscope-faults-") as directory:
        path = pathlib.Path(directory) / "results"
        run = subprocess.run([MATRIX, "--json", path, *options], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=SECONDS,
                             env={**os.environ, **environment, "VMSCOPE_BUILD": str(build)})
        return run.stdout, json.loads(path.read_text()) if path.exists() else []


class Short(unittest.TestCase):
    """A test for every fault, added below."""

    @classmethod
    def setUpClass(cls):
        cls.output, cls.results = run_matrix()

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


class Notices(unittest.TestCase):
    """A vmscope that does harm is told from one that does not."""

    def outcomes(self, deed, cell):
        with tempfile.TemporaryDirectory(prefix="vmscope-villain-") as directory:
            build = pathlib.Path(directory)
            (build / "cli").mkdir()
            (build / "cli" / "vmscope").symlink_to(DIRECTORY / "villain.py")
            for name in ("guests", "agent"):
                (build / name).symlink_to(harness.BUILD / name)
            output, results = run_matrix("--only", cell, "--rounds", "1", "--jobs", "1",
                                         build=build, VILLAIN_DEED=deed, FAULTS_SECONDS="3")
        self.assertEqual(len(results), 1, output)
        return results[0]["outcome"], results[0]["reason"]

    def check(self, deed, cell, says):
        outcome, reason = self.outcomes(deed, cell)
        self.assertEqual(outcome, "wrong")
        self.assertRegex(reason, says)

    def test_guest_left_paused(self):
        self.check("stop", "regs/nothing", "paused in place of running")

    def test_stop_undone(self):
        self.check("resume", "regs/owner-paused", "running in place of paused")

    def test_chardev_left(self):
        self.check("leave_chardev", "regs/nothing", "chardevs")

    def test_process_left(self):
        self.check("leave_process", "regs/nothing", "all processes of vmscope to end")

    def test_half_a_file_left(self):
        self.check("leave_file", "core/nothing", "core is not complete")

    def test_crash(self):
        self.check("crash", "regs/owner-stop-cont", "SIGSEGV")

    def test_qemu_ended(self):
        self.check("kill_qemu", "regs/nothing", "QEMU has gone")


if __name__ == "__main__":
    unittest.main()
