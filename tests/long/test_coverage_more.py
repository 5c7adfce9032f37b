# SPDX-License-Identifier: MIT
"""Coverage to the instruction, and on aarch64: what takes long of test_coverage*.py."""
import unittest

import test_coverage
import test_coverage_bare
import test_flow_script


class X86(test_coverage_bare.Precise, unittest.TestCase):
    arch = "x86_64"
    objdump = "objdump"


class Aarch64(test_coverage_bare.Precise, unittest.TestCase):
    arch = "aarch64"
    objdump = "aarch64-linux-gnu-objdump"


class Aarch64Boot(test_coverage.Boot, test_coverage.Files):
    arch = "aarch64"


class Aarch64Script(test_flow_script.Script, unittest.TestCase):
    arch = "aarch64"
