# SPDX-License-Identifier: MIT
"""How often blocks of a function are executed. The truth is what the guests' programs are told to do."""
import contextlib
import json
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import agent_client
import qemu_machine
import testbed
from test_agent_engine import LinuxGuest
from vmscope_command import Run, start_vmscope, vmscope

CALLS = 60
# `probed` asks for a file that is not open: each call goes the same way through both functions.
FUNCTIONS = "ksys_lseek", "__fdget_pos"
ONLY_PROBED = "--if", 'comm == "probed"'
STEPS = 2000  # of the inner loop of tests/guests/counter.c


@contextlib.contextmanager
def counting(*arguments):
    """A run of `vmscope cfg --counts`, once it counts."""
    process = start_vmscope("cfg", "-v", "--counts", *arguments)
    try:
        next(line for line in process.stderr if "armed" in line)
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
    return Run(process.returncode, out, err)


class Kernel:
    """Functions of a kernel of one architecture."""

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1", arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)
        names = {symbol.name for symbol in cls.guest.kallsyms()}
        cls.function = next(name for name in FUNCTIONS if name in names)

    def count(self, *arguments, run=f"probed calls {CALLS}"):
        with counting("-p", self.guest.pid, self.function, *ONLY_PROBED, *arguments) as process:
            self.guest.run(run)
            counted = end(process)
        self.assertEqual(counted.status, 0, counted.err)
        return counted.out

    def test_every_call(self):
        """All calls go one way, from the entry to an exit, and nothing else is reached."""
        graph, = json.loads(self.count("--json"))
        blocks = graph["blocks"]
        self.assertEqual({block["count"] for block in blocks}, {0, CALLS})
        self.assertEqual(sum(block["left"] for block in blocks), CALLS)
        self.assertEqual(graph["lost"], 0)
        way, at = [], graph["entry"]
        while at is not None:
            way.append(at)
            taken = [edge["block"] for edge in blocks[at]["edges"] if edge["count"]]
            self.assertTrue(all(edge["count"] in (0, CALLS) for edge in blocks[at]["edges"]))
            self.assertLessEqual(len(taken), 1)
            at = taken[0] if taken else None
        self.assertEqual((blocks[way[-1]]["end"], blocks[way[-1]]["left"]), ("exit", CALLS))
        self.assertEqual(sorted(way), [i for i, block in enumerate(blocks) if block["count"]])

    def test_condition(self):
        """By an argument: all calls have 77."""
        graph, = json.loads(self.count("--json", "--if", 'comm == "probed" && arg0 == 77'))
        self.assertEqual(graph["blocks"][graph["entry"]]["count"], CALLS)
        graph, = json.loads(self.count("--json", "--if", "arg0 == 78", "--if", 'comm == "probed"'))
        self.assertEqual({block["count"] for block in graph["blocks"]}, {0})
        self.assertTrue(all(edge["count"] == 0 for block in graph["blocks"] for edge in block["edges"]))

    def test_text(self):
        first, *lines = self.count().splitlines()
        headings = [line for line in lines if "  block " in line]
        reached = [line for line in headings if line.startswith("########## ")]
        never = [line for line in headings if line.split()[0] == "never"]
        self.assertEqual(len(reached) + len(never), len(headings))
        self.assertIn(f"{len(headings)} blocks, ", first)
        self.assertTrue(first.endswith(f", {len(never)} blocks never reached"))
        self.assertRegex(reached[0], rf"^#+ +{CALLS}  block \d+ \(entry\): conditional -> .*\({CALLS}\)")
        self.assertRegex(reached[-1] + reached[1], f"exit, left {CALLS}")
        self.assertRegex(never[0], r"\(never\)|exit$")

    def test_picture(self):
        """Blocks and edges have their counts, and those that were never reached are grey."""
        space = "{http://www.w3.org/2000/svg}"
        picture = xml.etree.ElementTree.fromstring(self.count("--format", "svg"))
        texts = ["".join(text.itertext()) for text in picture.iter(f"{space}text")]
        reached = sum(text.endswith(f", {CALLS} times") for text in texts)
        never = sum(text.endswith(", 0 times") for text in texts)
        self.assertGreater(reached, 1)
        self.assertEqual(texts.count(str(CALLS)), reached - 1)  # the edges of one way
        fills = [path.get("fill") for path in picture.iter() if path.tag in (f"{space}polygon", f"{space}path")]
        self.assertEqual(fills.count("#eeeeee"), never)
        self.assertIn("never", texts)

    def test_time(self):
        """It ends by itself, and the guest goes on."""
        run = vmscope("cfg", "-p", self.guest.pid, self.function, "--counts", "-t", "0.2", "--json")
        self.assertTrue(json.loads(run.out))
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")

    def test_wrong_words(self):
        for arguments, message in (
                (["--counts", self.function, "vfs_read"], "one function"),
                (["--counts", "vfs_*"], "one function"),
                (["-t", "1", self.function], "--counts"),
                (["--counts", "-t", "soon", self.function], "seconds"),
                (["--counts", "--if", "arg0 ==", self.function], "character 8")):
            with self.subTest(arguments=arguments):
                run = vmscope("cfg", "-p", self.guest.pid, *arguments, check=False)
                self.assertEqual((run.status, run.out), (2, ""))
                self.assertIn(message, run.err)


class X86(Kernel, unittest.TestCase):
    arch = "x86_64"


class Loops(unittest.TestCase):
    """A bare guest that calls a function after every 2,000 rounds of a loop."""

    def test_loop(self):
        with tempfile.TemporaryDirectory() as directory:
            agent = f"{directory}/agent"
            guest = qemu_machine.BareGuest("counter", extra=agent_client.options(agent))
            self.addCleanup(guest.stop)
            listing = subprocess.run(["nm", guest.elf], check=True, text=True, stdout=subprocess.PIPE).stdout
            counts = next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" counts"))

            def number():
                text = guest.qmp.command("human-monitor-command", command_line=f"xp /1gx {counts + 8:#x}")
                return int(text.split(":")[1], 16)
            before = number()
            with counting("--agent", agent, "--symbols", guest.elf, "guest_main", "--json") as process:
                while number() < before + 3:
                    pass
                graph, = json.loads(end(process).out)
            passed = number() - before
        blocks = graph["blocks"]
        inner = max(range(len(blocks)), key=lambda i: blocks[i]["count"])
        outer = next(block for block in blocks if block["count"] and
                     any("counts" in insn["text"] or "call" in insn["text"] for insn in block["instructions"]))
        self.assertTrue(1 <= outer["count"] <= passed)
        # The loop's condition is looked at once more than its body is executed.
        self.assertLessEqual(abs(blocks[inner]["count"] - (STEPS + 1) * outer["count"]), STEPS + 1)
        self.assertEqual(graph["lost"], 0)
        body = max((edge for edge in blocks[inner]["edges"]), key=lambda edge: edge["count"])
        self.assertLessEqual(abs(body["count"] - STEPS * outer["count"]), STEPS + 1)
