# SPDX-License-Identifier: MIT
"""Call traces of Linux guests from their first instruction, against a program that counts itself."""
import re
import unittest

import calls
import linux_guest
import qemu_machine
import testbed
import test_modules
import uftrace_data

KERNEL = 1 << 47  # of 48 bits of an address: the upper half
FUNCTION_TYPES = "tTwW"

# A return leads to it, no call: only symbols tell that it is a function.
NOT_CALLED = "coroutine"
# calls_user.c's coroutines lie on stacks of their own, and a thread's file has one. See
# test_calls_bare.py: the second coroutine is come back to with 1 to 21 calls of step() open.
RESUMED = {"step": sum(range(1, 22))}


def wrong(trace, program, counted):
    """Of the functions that a program has counted: what the trace has and what it should have,
    where that differs."""
    in_trace = trace.calls(image=program)
    expected = {name: n + RESUMED.get(name, 0) for name, n in counted.items()
                if name != NOT_CALLED}
    return {name: (in_trace[name], n) for name, n in expected.items() if in_trace[name] != n}


class Symbols:
    """A guest's own /proc/kallsyms, by addresses as records have them."""

    def __init__(self, guest):
        self.functions = {}
        for symbol in guest.kallsyms():
            if symbol.type in FUNCTION_TYPES:
                self.functions.setdefault(symbol.va & uftrace_data.ADDRESS_MASK, []).append(symbol)
        self.addresses = {symbol.name: symbol.va & uftrace_data.ADDRESS_MASK
                          for symbol in guest.kallsyms() if symbol.type in FUNCTION_TYPES}

    def first_instructions(self, entries):
        """Of entries of the kernel, how many are at the first instruction of a function; and how
        many there are, and the addresses of others."""
        kernel = {address: n for address, n in entries.items() if address & KERNEL}
        others = {f"{address:#x}": n for address, n in kernel.items()
                  if address not in self.functions}
        total = sum(kernel.values())
        return total - sum(others.values()), total, others


class Boot:
    arch = "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.path = calls.directory(cls)
        guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch, boot=True,
                                   launcher=calls.launcher(cls.path, "--by", "task",
                                                           *calls.symbols(cls.arch)))
        cls.addClassCleanup(guest.stop)
        cls.outputs = {program: guest.run(f"{program} && true") for program in calls.PROGRAMS}
        cls.symbols = Symbols(guest)
        cls.modules = {symbol.name for symbol in guest.kallsyms() if symbol.module}
        guest.qmp.quit()
        cls.status = guest.process.wait(testbed.BOOT_SECONDS)
        cls.log = guest.log()
        cls.trace = uftrace_data.Trace(cls.path)
        cls.errors = cls.trace.check()
        cls.counted = {program: calls.counts(output)[0] for program, output in cls.outputs.items()}
        cls.pids = {program: int(re.search(r"^PID (\d+)", output, re.MULTILINE)[1])
                    for program, output in cls.outputs.items()}

    def test_records(self):
        self.assertEqual(self.status, 0, self.log)
        self.assertEqual(self.errors, [])
        self.assertEqual(self.trace.open, {})
        self.assertEqual(self.trace.lost, 0)

    def test_first_instructions(self):
        right, total, others = self.symbols.first_instructions(self.trace.entries())
        self.assertGreater(total, 1000000)
        self.assertGreaterEqual(right / total, 0.995, others)

    def test_guest_counts(self):
        """The truth itself: what is known from the program's text."""
        for counted in self.counted.values():
            for name, n in (("recurse", 3001 + 9 * 101), ("climb", 20 * 51), ("handle", 200),
                            ("handle_fault", 20), ("in_thread", 9), ("hand_over", 400),
                            ("forks", 70), ("after_exec", 20), ("tail_end", 202)):
                self.assertEqual(counted[name], n, name)

    def test_user_counts(self):
        for program, counted in self.counted.items():
            self.assertEqual(wrong(self.trace, program, counted), {}, program)

    def test_system_calls(self):
        prefix = {"x86_64": "__x64", "aarch64": "__arm64"}[self.arch]
        for program, counted in self.counted.items():
            entries = self.trace.entries(self.trace.tids_of({self.pids[program]}))
            for name, n in ((f"{prefix}_sys_getppid", 1000 + 1 + 9),
                            (f"{prefix}_sys_rt_sigreturn",
                             sum(counted[name] for name in ("handle", "handle_elsewhere",
                                                            "handle_fault", "handle_alarm"))),
                            ("kernel_clone", 10 + 30),
                            ("do_exit", 1 + 10)):
                self.assertEqual(entries[self.symbols.addresses[name]], n, (program, name))

    def test_tasks(self):
        for program, pid in self.pids.items():
            tids = self.trace.tids_of({pid})
            self.assertEqual(len(tids), 1 + 4 + 5 + 1)
            self.assertEqual(self.trace.name_of_task(pid), program)
            by_thread = [self.trace.calls([tid], program)["in_thread"] for tid in tids]
            self.assertEqual(sorted(by_thread), [0, 0] + [1] * 9)

    def test_callers(self):
        for program, counted in self.counted.items():
            edges = {}
            for tid in self.trace.tids_of({self.pids[program]}):
                for (caller, callee), n in self.trace.stream(tid).edges().items():
                    places = [address and self.trace.place(tid, address)
                              for address in (caller, callee)]
                    key = tuple(place and place.name for place in places)
                    edges[key] = edges.get(key, 0) + n
            for caller, callee, n in (("in_thread", "outer", 9 * 100),
                                      ("tail_begin", "leaf", 200),
                                      ("recurse", "recurse", 3000 + 9 * 100),
                                      ("climb", "climb", 20 * 50),
                                      ("handle_fault", "below_handler", 20)):
                self.assertEqual(edges.get((caller, callee)), n, f"{program}: {caller} > {callee}")

    def init_functions(self):
        """By image: what a module's file calls the code that is freed once it is loaded."""
        kernel = self.series if self.arch == "x86_64" else f"{self.series}-arm64"
        modules = {match[1] for maps in self.trace.maps.values() for mapping in maps
                   if (match := re.fullmatch(r"guest:/(\w+)\.init", mapping.image))}
        names = test_modules.functions(kernel, qemu_machine.ARCHS[self.arch].nm, modules)
        return {f"guest:/{module}.init": names[module] for module in modules}

    def test_kernel_names(self):
        """Every function that was called has a name that the guest's kernel has for it; or that its
        module's file had for it, where other code lies now."""
        wrong = []
        init = self.init_functions()
        for tid in self.trace.ids:
            for address in self.trace.entries_of(tid):
                symbols = self.symbols.functions.get(address)
                if not symbols:
                    continue
                place = self.trace.place(tid, address)
                names = {symbol.name for symbol in symbols}
                if not place or place.offset or \
                        place.name not in init.get(place.image, names):
                    wrong.append((f"{address:#x}", symbols, place))
        images = {mapping.image for maps in self.trace.maps.values() for mapping in maps
                  if mapping.image.startswith("guest:")}
        self.assertEqual(wrong[:5], [], f"{len(wrong)} of {sorted(images)}; vmscope: {self.log}")

    def test_module_names(self):
        self.assertTrue(self.modules & set(self.trace.calls()))

    def test_uftrace(self):
        """The real one shows names of the kernel and of the program, and the right numbers."""
        for program, counted in self.counted.items():
            report = calls.uftrace("report", self.path, f"--tid={self.pids[program]}")
            for name in ("compare", "climb", "tail_end", "handle_alarm"):
                self.assertRegex(report, rf"\s{counted[name]}\s+{name}\n")
            # That from the ground of recurse() is deeper than uftrace looks.
            self.assertRegex(report, r"\s1000\s+__\w+_sys_getppid\n")


class Boot61(Boot, unittest.TestCase):
    series = "6.1"


if __name__ == "__main__":
    unittest.main()
