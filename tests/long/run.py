#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests like those of tests/integration that take too long for every run.

Usage: run.py [MODULE…]. The last line is `N passed, N failed`, with `, N skipped`.
"""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]


def main():
    names = sys.argv[1:] or [path.stem for path in sorted(HERE.glob("test_*.py"))]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    passed = max(result.testsRun - failed - skipped, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
