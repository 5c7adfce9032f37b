# SPDX-License-Identifier: MIT
"""vmscope flow without the agent: all that it does with it, by breakpoints."""
import unittest

import test_flow
from linux_guest import LinuxGuest


class StubX86(test_flow.Flow, unittest.TestCase):
    pc, first_size = "rip", 5

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1")
