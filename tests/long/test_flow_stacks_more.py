# SPDX-License-Identifier: MIT
"""Stacks at hits, on aarch64 and by breakpoints."""
import unittest

import linux_guest
import test_agent_engine
from test_flow_stacks import Programs, Stacks


class ProgramsAarch64(Programs, unittest.TestCase):
    @staticmethod
    def start_guest():
        return test_agent_engine.LinuxGuest("6.1", arch="aarch64")


class ProgramsStub(Programs, unittest.TestCase):
    programs = ("frames",)

    @staticmethod
    def start_guest():
        return linux_guest.LinuxGuest("6.1")


class Aarch64(Stacks, unittest.TestCase):
    @staticmethod
    def start_guest():
        return test_agent_engine.LinuxGuest("6.1", arch="aarch64")
