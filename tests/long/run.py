#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests like those of tests/integration that take too long for every run, and those in there that are
marked as such.

Usage: run.py [MODULE…]. The last line is `N passed, N failed`, with `, N skipped`.
"""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
INTEGRATION = HERE.parent / "integration"
sys.path[:0] = [str(HERE), str(INTEGRATION)]


def modules(directory):
    return [path.stem for path in sorted(directory.glob("test_*.py"))]


def load(names):
    """All tests of modules of this folder, and the marked ones of the other's."""
    import long_tests
    own = set(modules(HERE))
    return unittest.TestSuite([
        unittest.defaultTestLoader.loadTestsFromNames([name for name in names if name in own]),
        long_tests.Loader(marked=True).loadTestsFromNames([name for name in names if name not in own])])


def main():
    names = sys.argv[1:] or modules(HERE) + modules(INTEGRATION)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(load(names))
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    passed = max(result.testsRun - failed - skipped, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
