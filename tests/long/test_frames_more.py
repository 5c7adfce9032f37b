# SPDX-License-Identifier: MIT
"""User stacks of programs without frame pointers, on another processor, and in samples."""
import collections
import re
import unittest

import test_frames

# Of the time in `spin` of tests/guests/frames.c, in percent: three rounds of four. Some hundred samples are
# that exact.
OFTEN, TOLERANCE = 75, 12
SAMPLES = 250


class Samples:
    """Shares of time in functions that are three levels deep; for test_frames.Frames."""

    def shares(self, program, mode, beyond):
        """Samples of `burn`: beyond main, `beyond` (a regular expression), then one of two functions."""
        pid = self.start(program, mode)
        shares = collections.Counter()
        while sum(shares.values()) < SAMPLES:
            folded = self.vmscope("sample", "-t", "2", "--format", "folded")
            for line in folded.splitlines():
                frames, count = line.rsplit(" ", 1)
                found = re.search(rf";_start;.*;main;{beyond}spin;(often|seldom);burn(;|$)",
                                  re.sub(r" \([^)]*\)| \[[^]]*\]", "", frames))
                if found:
                    shares[found[1]] += int(count)
                elif f"({pid})" in frames and "burn" in frames:
                    shares["broken"] += int(count)
        self.guest.run(f"kill -9 {pid}")
        return shares

    def test_shares_of_samples(self):
        for program in test_frames.PROGRAMS[:2]:
            with self.subTest(program):
                shares = self.shares(program, "spin", "")
                total = sum(shares.values())
                self.assertAlmostEqual(100 * shares["often"] / total, OFTEN, delta=TOLERANCE, msg=shares)
                self.assertLess(shares["broken"], total / 50, shares)

    def test_samples_of_a_handler_on_another_stack(self):
        shares = self.shares("frames", "signal-spin", "raise_signal;[^;]*kill;[^;]*;on_signal;")
        self.assertLess(shares["broken"], sum(shares.values()) / 50, shares)


class X86(Samples, test_frames.Frames, unittest.TestCase):
    arch = "x86_64"
    # As in make check.
    test_core_file = test_groups = test_signal_on_another_stack = test_sleeping = test_threads = None


class Aarch64(Samples, test_frames.Frames, unittest.TestCase):
    arch = "aarch64"


if __name__ == "__main__":
    unittest.main()
