# SPDX-License-Identifier: MIT
"""Control flow graphs of a newer kernel, as test_cfg.py has them of others."""
import unittest

import test_cfg


class Kernel612(test_cfg.Graphs, unittest.TestCase):
    series = "6.12"
