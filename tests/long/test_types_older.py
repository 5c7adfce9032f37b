# SPDX-License-Identifier: MIT
"""Values by types of an older kernel, as test_types.py has them of others."""
import unittest

import test_types
from test_agent_engine import LinuxGuest


class X86Of61(test_types.X86, test_types.ModuleTypes, unittest.TestCase):
    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")


class Aarch64Of61(test_types.Aarch64, unittest.TestCase):
    """Its modules have no types: the kernel has no symbols of data."""

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1", arch="aarch64")
