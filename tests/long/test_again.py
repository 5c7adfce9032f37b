# SPDX-License-Identifier: MIT
"""What `make check` states of one kernel, QEMU or way to reach it, of others."""
import unittest

import linux_guest
import testbed
import test_aarch64
import test_agent
import test_agent_engine
import test_flow_stacks
import test_modules
import test_pages
import test_probes
import test_sample
import test_stacks
import test_symbols


class Symbols612(test_symbols.Stock, unittest.TestCase):
    series = "6.12"


class SymbolsOfAarch64(test_aarch64.New, test_symbols.Stock, unittest.TestCase):
    link_text = test_aarch64.Symbols.link_text
    test_another_kernels_file = None  # says nothing of the guest's architecture


class FourLevels(test_pages.Pages, unittest.TestCase):
    """Page tables of 4 levels that are not isolated."""
    options = {"cpu": "max,la57=off"}
    levels = 4


class FlowStacks612(test_flow_stacks.Traced, unittest.TestCase):
    @staticmethod
    def start_guest():
        return test_flow_stacks.LinuxGuest("6.12")


class Stacks61(test_stacks.Stacks, unittest.TestCase):
    series = "6.1"


class Stacks612(test_stacks.Stacks, unittest.TestCase):
    series = "6.12"


class Ordered612(test_sample.Ordered, unittest.TestCase):
    series = "6.12"


class Modules612(test_modules.Modules, unittest.TestCase):
    series = "6.12"


class ProbesOfAarch64(test_probes.Aarch64):
    test_halts_are_refused = test_probes.Agent.test_halts_are_refused
    test_killed_client = test_probes.Agent.test_killed_client
    test_too_many_sets = test_probes.Agent.test_too_many_sets
    test_client_that_does_not_read = test_probes.Agent.test_client_that_does_not_read


class SampledByAgent(test_sample.Bare):
    guest_class = test_agent_engine.BareGuest
    test_kvm = None


@unittest.skipUnless(testbed.QEMU_NEW.exists(), "scripts/setup could not get QEMU 11.1 or newer")
class NewFlags(test_agent.Flags):
    """A QEMU of the newer plugin interface that exports nothing else."""
    qemu = (str(testbed.QEMU_NEW),)
    options = {"qemu": qemu}
