# SPDX-License-Identifier: MIT
"""Which tests of these modules `make check` leaves to `make check-long`."""
import unittest


def takes_long(tests):
    """Marks a test, or all of a class, not those of classes that inherit from it: what is slow, and
    varies what another test shows."""
    tests.takes_long = True
    return tests


class Loader(unittest.TestLoader):
    """Loads the tests that are marked, or those that are not. Unittest's own loads all."""

    def __init__(self, marked):
        super().__init__()
        self._marked = marked

    def getTestCaseNames(self, testCaseClass):
        whole = "takes_long" in vars(testCaseClass)
        return [name for name in super().getTestCaseNames(testCaseClass)
                if self._marked == (whole or hasattr(getattr(testCaseClass, name), "takes_long"))]
