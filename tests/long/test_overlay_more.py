# SPDX-License-Identifier: MIT
"""Programs in an overlay, on kernels that keep its files' paths in other ways."""
import unittest

import test_overlay
import testbed


class Overlay61(test_overlay.Overlay, unittest.TestCase):
    series = "6.1"


@testbed.needs_newest
class OverlayNewest(test_overlay.Overlay, unittest.TestCase):
    series = testbed.NEWEST


if __name__ == "__main__":
    unittest.main()
