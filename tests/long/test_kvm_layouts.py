# SPDX-License-Identifier: MIT
"""Machines of the tests' own KVM monitor: every way in which it maps memory, and many exact samples."""
import re
import unittest

import test_kvm
from kvm_case import Case
from kvm_monitor import CALLS, ELF, SPINS
from vmscope_command import vmscope


class Reading(test_kvm.TestReading):
    variants = ({}, {"memfd": True}, {"one": True}, {"reversed": True, "memfd": True})


class Map(test_kvm.TestMap):
    layouts = ({}, {"high": 0}, {"memfd": True}, {"one": True, "low": 2048, "high": 64},
               {"reversed": True, "low": 3072, "high": 64},
               {"one": True, "memfd": True, "low": 3328, "high": 64})

    def test_refused(self):
        """A vCPU whose registers are not known proves nothing."""
        monitor = self.start(SPINS)
        monitor.do("pause")
        run = vmscope("regs", "--pid", monitor.pid, check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("no vCPU has page tables, or all are paused", run.err)
        self.assertIn("--memory PA:SIZE@VA", run.err)


if __name__ == "__main__":
    unittest.main()
