# SPDX-License-Identifier: MIT
"""The short form of the fault matrix: a few rounds of every fault, at the same moments each time.

`make check-long` has the long one; tests/faults/matrix.py repeats single rounds.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import testbed

DIRECTORY = testbed.ROOT / "tests" / "faults"
MATRIX = DIRECTORY / "matrix.py"
SECONDS = 900  # for all of it; a guest that is lost is waited for
WORDS = dict(line.split(None, 1) for line in subprocess.run(
    [MATRIX, "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines())


def run_matrix(*options, build=testbed.BUILD, **environment):
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
        wrong = [f"{result['command']}: {result['reason']}\n{result['report']}"
                 for result in results if result["outcome"] == "wrong"]
        if wrong:
            self.fail("\n".join(wrong))
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
                (build / name).symlink_to(testbed.BUILD / name)
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


class History(unittest.TestCase):
    """Whose stop it was, as QEMU's log tells."""
    STOPPED = "runstate_set current_run_state 9 (running) new_state 4 (paused)"
    RESUMED = "runstate_set current_run_state 4 (paused) new_state 9 (running)"
    STOP = ("qmp_enter_stop {}", "qmp_exit_stop {} 1")

    def setUp(self):
        place = importlib.util.spec_from_file_location("history", DIRECTORY / "history.py")
        self.history = importlib.util.module_from_spec(place)
        place.loader.exec_module(self.history)

    def steps(self, *lines):
        """Read from a log whose lines are a tenth of a second apart."""
        with tempfile.NamedTemporaryFile("w", prefix="vmscope-trace-") as file:
            file.write("".join(f"12@{i / 10:.6f}:{line}\n" for i, line in enumerate(lines)))
            file.flush()
            return self.history.read(pathlib.Path(file.name))

    def test_stop_that_stops(self):
        steps = self.steps(self.STOP[0], self.STOPPED, self.STOP[1], self.RESUMED)
        self.assertTrue(self.history.last_stop_had_effect(steps))
        self.assertEqual(self.history.stops_without_effect(steps), (0, 1))

    def test_stop_in_a_hold(self):
        steps = self.steps(self.STOPPED, *self.STOP, self.RESUMED)
        self.assertFalse(self.history.last_stop_had_effect(steps))
        self.assertEqual(self.history.stops_without_effect(steps), (1, 1))

    def test_stop_just_before_a_hold(self):
        steps = self.steps(self.STOPPED, self.RESUMED, self.STOP[0], self.STOPPED, self.STOP[1])
        self.assertTrue(self.history.last_stop_had_effect(steps))

    def test_holds_beside_a_migration(self):
        migrate = 'handle_qmp_command mon 0x1 req: {"execute": "migrate", "arguments": {}}'
        finish = "runstate_set current_run_state 9 (running) new_state 7 (finish-migrate)"
        hold = (self.STOPPED, self.RESUMED)
        query = 'handle_qmp_command mon 0x1 req: {"execute": "query-migrate"}'
        for holds, lines in ((0, (*hold, migrate, *hold, finish)),
                             (1, (migrate, *5 * [query], *hold, finish)),
                             (0, (*6 * [query], *hold)),
                             (0, (migrate, *5 * [query], finish, *hold))):
            self.assertEqual(self.history.holds_beside_migration(self.steps(*lines)), holds, lines)


if __name__ == "__main__":
    unittest.main()
