# SPDX-License-Identifier: MIT
"""vmscope flow in an aarch64 guest, as far as tests/integration has it of x86-64 alone."""
import unittest

import test_flow
import test_flow_programs
from test_agent_engine import LinuxGuest


class Aarch64(unittest.TestCase):
    arch = "aarch64"

    @classmethod
    def start_guest(cls):
        return LinuxGuest("6.1", arch="aarch64")


class Words(test_flow.Words, Aarch64):
    pass


class Programs(test_flow_programs.Programs, Aarch64):
    pass
