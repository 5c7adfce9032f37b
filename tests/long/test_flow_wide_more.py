# SPDX-License-Identifier: MIT
"""Registers of more than 64 bits by breakpoints, and those of aarch64."""
import unittest

import qemu_machine
import test_agent_engine
from test_flow_wide import X86, Aarch64


class Stub(X86, unittest.TestCase):
    @staticmethod
    def start_guest():
        guest = qemu_machine.BareGuest("wide", accel="tcg")
        return guest, ("--allow-stop", "-p", guest.pid)


class Aarch64Agent(Aarch64, unittest.TestCase):
    """The processor has wider vectors (SVE), whose first bytes these are."""
    @staticmethod
    def start_guest():
        guest = test_agent_engine.BareGuest("wide", arch="aarch64", cpu="max")
        return guest, guest.target


class Aarch64Stub(Aarch64, unittest.TestCase):
    @staticmethod
    def start_guest():
        guest = qemu_machine.BareGuest("wide", accel="tcg", arch="aarch64", cpu="cortex-a57")
        return guest, ("--allow-stop", "-p", guest.pid)
