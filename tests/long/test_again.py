# SPDX-License-Identifier: MIT
"""What `make check` states of one kernel, QEMU or way to reach it, of others."""
import re
import unittest

import testbed
import test_aarch64
import test_agent
import test_agent_engine
import test_calls_running
import test_cfg_counts
import test_coverage
import test_flow
import test_flow_report
import test_flow_stacks
import test_flow_tables
import test_guest
import test_modules
import test_names
import test_pages
import test_probes
import test_sample
import test_stacks
import test_symbols
import test_trace
import test_types


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


class Names612(test_names.Names, unittest.TestCase):
    series = "6.12"


class Stacks61(test_stacks.Stacks, unittest.TestCase):
    series = "6.1"


class Stacks612(test_stacks.Stacks, unittest.TestCase):
    series = "6.12"


class Ordered612(test_sample.Ordered, unittest.TestCase):
    series = "6.12"


class ModulesOfAarch64(test_aarch64.New, test_modules.Modules, unittest.TestCase):
    @classmethod
    def kernel(cls):
        return cls.series + "-arm64"


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


class CommandsOfAarch64(test_agent_engine.Same, unittest.TestCase):
    arch, series = "aarch64", "6.12"


class AgentOfAarch64(test_agent.Holding, test_agent.Guest):
    arch = "aarch64"
    series = "6.12"
    test_reset_while_held = None  # takes long, and is nothing of the processor's

    @staticmethod
    def registers_printed(text):
        qemu = {f"x{int(number)}": int(value, 16) for number, value in
                re.findall(r"\bX(\d\d)=([0-9a-f]{16})\b", text)}
        qemu["pc"] = int(re.search(r"\bPC=([0-9a-f]+)", text)[1], 16)
        qemu["sp"] = int(re.search(r"\bSP=([0-9a-f]+)", text)[1], 16)
        qemu["cpsr"] = int(re.search(r"\bPSTATE=([0-9a-f]+)", text)[1], 16)
        return qemu


class CallsOfAarch64(test_calls_running.Running, unittest.TestCase):
    series = "6.12"
    arch = "aarch64"


class TablesOfAarch64(test_flow_tables.Linux, unittest.TestCase):
    arch, second = "aarch64", "x1"


class SavedOfAarch64(test_flow_report.Saved, unittest.TestCase):
    kernel = ("6.1",), {"arch": "aarch64"}


class CoverageOfAarch64(test_coverage.Running, test_coverage.Files):
    arch = "aarch64"
    kernel, nm = "6.1-arm64", "aarch64-linux-gnu-nm"


class TypesOfAarch64(test_types.Aarch64, test_types.ModuleTypes, unittest.TestCase):
    @classmethod
    def start_guest(cls):
        return test_agent_engine.LinuxGuest("6.12", arch="aarch64")


class Guest612(test_guest.Guest, unittest.TestCase):
    series = "6.12"


class Busy612(test_sample.Busy, unittest.TestCase):
    series = "6.12"


@unittest.skipUnless(testbed.QEMU_NEW.exists(), "scripts/setup could not get QEMU 11.1 or newer")
class NewFlags(test_agent.Flags):
    """A QEMU of the newer plugin interface that exports nothing else."""
    qemu = (str(testbed.QEMU_NEW),)
    options = {"qemu": qemu}


class TraceAarch64(test_trace.Trace, unittest.TestCase):
    """A kernel that does not describe its system calls: vmscope knows their arguments."""
    options, loader = {"arch": "aarch64"}, "ld-linux-aarch64.so.1"


class CfgCountsAarch64(test_cfg_counts.Kernel, unittest.TestCase):
    arch = "aarch64"


class FlowOfAarch64(test_flow.Flow, test_flow.Calls, unittest.TestCase):
    data_places = ()  # this kernel has no symbols of data (CONFIG_KALLSYMS_ALL)
    pc, first_size = "pc", 4
    lseek = "__arm64_sys_lseek", "u64(arg0)", "u64(arg0+8)"  # of the registers of a program
    test_lost_beside_a_file = None  # nothing of the architecture's

    @classmethod
    def start_guest(cls):
        return test_flow.LinuxGuest("6.1", arch="aarch64")
