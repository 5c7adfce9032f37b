# SPDX-License-Identifier: MIT
"""What make check leaves to make check-long is found there."""
import os
import subprocess
import sys
import unittest

import long_tests
import testbed

LONG = testbed.ROOT / "tests" / "long"
RUN = """
import run
def tests(suite):
    for test in suite:
        yield from tests(test) if hasattr(test, "__iter__") else [test.id()]
print(*tests(run.load(run.modules(run.HERE) + run.modules(run.INTEGRATION))), sep="\\n")
"""


class Marked(unittest.TestCase):
    """A test of a class of which one is marked, and of one that is marked whole."""

    class Some(unittest.TestCase):
        def test_core(self):
            pass

        @long_tests.takes_long
        def test_variation(self):
            pass

    @long_tests.takes_long
    class Whole(Some):
        pass

    class Heir(Whole):
        pass

    def test_loader(self):
        for kind, core, marked in ((self.Some, ["test_core"], ["test_variation"]),
                                   (self.Whole, [], ["test_core", "test_variation"]),
                                   (self.Heir, ["test_core"], ["test_variation"])):
            with self.subTest(kind=kind):
                self.assertEqual(long_tests.Loader(marked=False).getTestCaseNames(kind), core)
                self.assertEqual(long_tests.Loader(marked=True).getTestCaseNames(kind), marked)


class Loads(unittest.TestCase):
    def test_all(self):
        """Each module of tests/long has tests, and the marked ones of tests/integration are there."""
        found = subprocess.run([sys.executable, "-c", RUN], cwd=LONG, env={**os.environ, "PYTHONPATH": str(LONG)},
                               check=True, text=True, stdout=subprocess.PIPE).stdout.split()
        modules = {name.split(".")[0] for name in found}
        self.assertLessEqual({path.stem for path in LONG.glob("test_*.py")}, modules)
        self.assertIn("test_probes.Ends.test_reset", found)
        self.assertNotIn("test_probes.Ends.test_killed_machine", found)


if __name__ == "__main__":
    unittest.main()
