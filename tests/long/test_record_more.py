# SPDX-License-Identifier: MIT
"""More recordings of guests: by the gdb stub, of aarch64, and of a guest that is killed meanwhile."""
import pathlib
import signal
import tempfile
import time
import unittest

import linux_guest
import test_agent_engine
import testbed
import test_record_guest
import test_record_instructions
from test_record_guest import HERTZ, count_of, folded, start_recording
from vmscope_command import vmscope


class ByStub(test_record_guest.RecordGuest):
    """Each sample stops the machine: there are too few to find each thread, or to fill a buffer."""
    make = linux_guest.LinuxGuest
    hertz = 99
    seconds = 5
    test_births = test_name = test_overflow = None


class Aarch64(test_record_guest.RecordGuest):
    @staticmethod
    def make():
        return test_agent_engine.LinuxGuest(arch="aarch64")


class InstructionsAarch64(test_record_instructions.RecordInstructions):
    """Of a program without firmware."""
    arch = "aarch64"
    program = testbed.GUESTS / "arm64" / "wide.elf"


class Gone(unittest.TestCase):
    def test_killed(self):
        """QEMU is killed meanwhile: what was sampled until then is shown, with all names."""
        guest = test_agent_engine.LinuxGuest()
        self.addCleanup(guest.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "gone"
        guest.start_workload("deep")
        process = start_recording(*guest.target, "-F", HERTZ, "-o", file)
        time.sleep(1)
        guest.process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, "recording ended early: ")
        stacks = folded(file)
        self.assertGreater(count_of(stacks, "deep_8") / sum(count for _, count in stacks), 0.3)
        self.assertIn("Linux 6.1", vmscope("report", file).out)


if __name__ == "__main__":
    unittest.main()
