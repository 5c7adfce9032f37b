# SPDX-License-Identifier: MIT
"""vmscope trace on kernels that call the functions of system calls in another way."""
import test_again
import test_trace
import testbed


class Linux612(test_trace.X86):
    series = "6.12"


class Linux612Arm(test_again.TraceAarch64):
    series = "6.12"


@testbed.needs_newest
class Newest(test_trace.X86):
    series = testbed.NEWEST
