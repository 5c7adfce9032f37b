# SPDX-License-Identifier: MIT
"""Probes that the agent runs in Linux guests: the truth is what the guest's program says it does."""
import unittest

from long_tests import takes_long
import testbed
from machine_tool import BUSY, CLOSED, UNSUPPORTED
from probes_tool import Probes, numbers, symbols
from test_agent_engine import LinuxGuest


class Agent:
    """In one architecture. `arguments`: the registers of the program's first arguments."""
    arch, arguments, number, result, sp = None, None, None, None, None
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1", arch=cls.arch, **cls.options)
        cls.addClassCleanup(cls.guest.stop)
        cls.symbols = symbols(cls.arch)

    def at(self, symbol, moment, *items):
        return ":".join([hex(self.symbols[symbol]), moment, *items])

    def probe(self, *sets, run):
        """Arms, runs `probed` with these arguments, disarms: hits and counts."""
        with Probes(self.guest.pid, *sets) as probes:
            self.assertEqual(probes.armed, [{"armed": i} for i in range(len(sets))])
            self.output = self.guest.run(f"probed {run}")
            hits, counts = probes.end()
        for i, count in enumerate(counts):
            mine = [hit["number"] for hit in hits if hit["set"] == i]
            self.assertEqual(mine, list(range(1, len(mine) + 1)))
            self.assertEqual((count["hits"], count["lost"]), (len(mine), 0))
            self.assertFalse(count["armed"])
        return hits, counts

    def test_system_calls(self):
        """Exactly so many, with these arguments, of this program alone."""
        one, two, three = self.arguments
        hits, counts = self.probe([self.at("the_call", "before", one, two, three)], run="calls 500")
        self.assertEqual([numbers(hit) for hit in hits],
                         [[77, 1000 + i, 2000 + i] for i in range(500)])
        times = [hit["time"] for hit in hits]
        self.assertEqual(times, sorted(times))
        self.assertFalse(any(hit["held"] for hit in hits))

    def test_kernel_function(self):
        """A place in the kernel, with a condition: only this program's calls."""
        entry = next(s.va for s in self.guest.kallsyms() if s.name == "__fdget_pos")
        one = self.arguments[0]
        hits, counts = self.probe([f"{entry:#x}:before:{one}=77:{one}:{self.pc}"], run="calls 300")
        self.assertEqual([numbers(hit) for hit in hits], [[77, entry]] * 300)
        self.assertEqual(counts[0]["unknown"], 0)

    def test_before_and_after(self):
        one, two, _ = self.arguments
        hits, _ = self.probe([self.at("the_step", "before", "u64(%s)" % one, two, self.pc),
                              self.at("the_step", "after", "u64(%s)" % one, two, self.pc)],
                             run="steps 200")
        self.assertIn("sum 600 returned 200", self.output)
        step, after = self.symbols["the_step"], self.symbols["after_step"]
        expected = []
        for i in range(200):
            expected += [(0, [3 * i, i, step]), (1, [3 * i + 3, i, after])]
        self.assertEqual([(hit["place"], numbers(hit)) for hit in hits], expected)

    def test_after_branches(self):
        """After a call, a return and a system call, the vCPU is where they lead."""
        hits, _ = self.probe([self.at("the_branch", "after", self.pc),
                              self.at("the_return", "after", self.pc, self.result)],
                             run="steps 200")
        leaf, back = self.symbols["leaf"], self.symbols["after_branch"]
        expected = []
        for i in range(200):
            expected += [(0, [leaf]), (1, [back, i + 7])]
        self.assertEqual([(hit["place"], numbers(hit)) for hit in hits], expected)
        hits, _ = self.probe([self.at("the_call", "after", self.pc)], run="calls 100")
        entries = {numbers(hit)[0] for hit in hits}
        self.assertEqual(len(hits), 100)
        self.assertTrue(all(entry >> 63 for entry in entries), entries)
        hits, _ = self.probe([self.at("after_call", "before", self.result)], run="calls 100")
        self.assertEqual([numbers(hit) for hit in hits], [[2 ** 64 - 9]] * 100)  # EBADF

    def test_fault_is_no_after(self):
        """What faults was not executed, although control comes to the next instruction."""
        hits, _ = self.probe([self.at("the_load", "before"), self.at("the_load", "after")],
                             run="loads 300")
        self.assertIn("found 200", self.output)
        self.assertEqual([hit["place"] for hit in hits].count(1), 200)
        self.assertGreaterEqual([hit["place"] for hit in hits].count(0), 300)

    def test_limit_is_exact(self):
        """All vCPUs come there at once."""
        threads = 2 * self.vcpus
        for limit in (1, 777):
            hits, counts = self.probe([f"max={limit}", self.at("the_step", "before")],
                                      run=f"threads 5000 {threads}")
            self.assertEqual(len(hits), limit)
        self.assertEqual({hit["vcpu"] for hit in hits} - set(range(self.vcpus)), set())

    def test_all_vcpus_in_order(self):
        hits, _ = self.probe([self.at("the_step", "before")],
                             run=f"threads 3000 {2 * self.vcpus}")
        self.assertEqual(len(hits), 3000 * 2 * self.vcpus)
        self.assertGreater(len({hit["vcpu"] for hit in hits}), 1)

    def test_one_vcpu(self):
        hits, _ = self.probe(["vcpu=1", self.at("the_step", "before")],
                             ["vcpu=0", self.at("the_step", "before")],
                             run=f"threads 3000 {2 * self.vcpus}")
        self.assertTrue(all(hit["vcpu"] == 1 - hit["set"] for hit in hits))
        self.assertGreater(len(hits), 0)

    def test_two_sets_at_one_place(self):
        """Each has its own numbers, values and limit."""
        one, two, _ = self.arguments
        hits, _ = self.probe([self.at("the_step", "before", two)],
                             ["max=10", self.at("the_step", "before", one),
                              self.at("the_return", "before")], run="steps 50")
        self.assertEqual([numbers(hit) for hit in hits if hit["set"] == 0], [[i] for i in range(50)])
        self.assertEqual([hit["place"] for hit in hits if hit["set"] == 1], [0, 1] * 5)

    def test_unreadable(self):
        """Memory that is not there is no zeros, and a condition on it is unknown."""
        one, two, _ = self.arguments
        hits, counts = self.probe(
            [self.at("the_step", "before", f"[{two}]16", f'"{two}"16', f"[{one}]8")],
            [self.at("the_step", "before", f"u64({two})")], run="steps 20")
        for i, hit in enumerate(hit for hit in hits if hit["set"] == 0):
            self.assertEqual(hit["values"][:2], [["unreadable", ""]] * 2)
            self.assertEqual(numbers(hit)[2], 3 * i)
        self.assertEqual({tuple(hit["values"][0]) for hit in hits if hit["set"] == 1},
                         {("unreadable", "")})

    def test_condition(self):
        _, two, _ = self.arguments
        hits, counts = self.probe([self.at("the_step", "before", f"{two}=33", two)], run="steps 50")
        self.assertEqual([numbers(hit) for hit in hits], [[33]])
        self.assertEqual(counts[0]["rejected"], 49)

    def test_code_at_several_addresses(self):
        """Processes that share a program's memory, but have it mapped elsewhere, do not hit."""
        pids = [int(self.guest.run("probed-pie stopped steps 30 >/dev/null 2>&1 & echo $!"))
                for _ in range(3)]
        bases = []
        for pid in pids:
            testbed.wait_for(lambda pid=pid: "State:\tT" in self.guest.run(
                f"cat /proc/{pid}/status"), "the program to stop")
            bases.append(int(self.guest.run(f"grep probed-pie /proc/{pid}/maps").split("-")[0], 16))
        self.assertEqual(len(set(bases)), 3)
        offset = symbols(self.arch, "probed-pie")["the_step"]
        place = f"{bases[1] + offset:#x}:before:{self.pc}:{self.arguments[1]}"
        with Probes(self.guest.pid, [place]) as probes:
            for pid in pids:
                self.guest.run(f"kill -CONT {pid}; "
                               f"while grep -q 'State:.[RSDT]' /proc/{pid}/status; do sleep 0.1; done")
            hits, _ = probes.end()
        self.assertEqual([numbers(hit) for hit in hits],
                         [[bases[1] + offset, i] for i in range(30)])

    def test_halts_are_refused(self):
        with Probes(self.guest.pid, [self.at("the_step", "halt")]) as probes:
            self.assertEqual(probes.armed[0]["error"], UNSUPPORTED)
            self.assertIn("gdb stub", probes.armed[0]["message"])

    def test_killed_client(self):
        """The guest goes on, and the next one can arm."""
        probes = Probes(self.guest.pid, *[[self.at("the_step", "before")]] * 8)
        self.guest.run("probed steps 1000000 >/dev/null 2>&1 &")
        probes.process.stdout.readline()
        probes.kill()
        self.guest.run("true")
        self.guest.run("killall probed", check=False)
        hits, _ = self.probe([self.at("the_step", "before")], run="steps 10")
        self.assertGreaterEqual(len(hits), 10)

    def test_too_many_sets(self):
        with Probes(self.guest.pid, *[[self.at("the_step", "before")]] * 9) as probes:
            self.assertEqual(probes.armed[8].get("error"), BUSY)
        hits, _ = self.probe([self.at("the_step", "before")], run="steps 10")
        self.assertEqual(len(hits), 10)

    def test_client_that_does_not_read(self):
        """Nothing is lost silently: what found no room has had its number."""
        with Probes(self.guest.pid, [self.at("the_step", "before", *self.arguments * 40)]) as probes:
            self.guest.run("probed steps 3000")  # more than the pipe and the ring take
            hits, counts = probes.end()
        self.assertEqual(len(hits) + counts[0]["lost"], 3000)
        self.assertEqual(counts[0]["hits"], 3000)


class Ends(unittest.TestCase):
    """What becomes of probes whose machine is reset, or ends."""

    def setUp(self):
        self.guest = LinuxGuest("6.1")
        self.addCleanup(self.guest.stop)
        self.place = f"{symbols('x86_64')['the_step']:#x}:before:rsi"

    @takes_long
    def test_reset(self):
        """They stay where they are, and hit in the next kernel's programs."""
        after = f"{symbols('x86_64')['the_return']:#x}:after:rsi"
        with Probes(self.guest.pid, [self.place, after]) as probes:
            self.guest.run("probed steps 10")
            self.guest.send("probed steps 1000000000")
            self.guest.qmp.command("system_reset")
            self.guest.wait_ready()
            self.guest.connect_again()
            self.guest.run("probed steps 20")
            hits, counts = probes.end()
        self.assertEqual([(hit["place"], *numbers(hit)) for hit in hits[-40:]],
                         [(place, i) for i in range(20) for place in range(2)])
        self.assertEqual(counts[0]["hits"], len(hits) + counts[0]["lost"])

    def test_killed_machine(self):
        """What was hit is handed out before the error."""
        with Probes(self.guest.pid, [self.place]) as probes:
            self.guest.run("probed steps 100")
            self.guest.process.kill()
            self.guest.process.wait()
            probes.process.wait(testbed.ANSWER_SECONDS)
            hits, _ = probes.end()
        self.assertEqual([numbers(hit) for hit in hits], [[i] for i in range(100)])
        self.assertEqual(probes.lines[-1]["error"], CLOSED)


class X86(Agent, unittest.TestCase):
    arch, arguments, result, pc, vcpus = "x86_64", ("rdi", "rsi", "rdx"), "rax", "rip", 4
    options = {"smp": 4}


class Aarch64(Agent, unittest.TestCase):
    arch, arguments, result, pc, vcpus = "aarch64", ("x0", "x1", "x2"), "x0", "pc", 2
    # Nothing of the processor's: tests/long/test_again.py has them.
    test_halts_are_refused = test_killed_client = test_too_many_sets = None
    test_client_that_does_not_read = None


if __name__ == "__main__":
    unittest.main()
