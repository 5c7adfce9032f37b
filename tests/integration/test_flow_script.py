# SPDX-License-Identifier: MIT
"""Scripts in Lua for the hits of flows. The truth is what the guest's programs did, and what it says."""
import json
import pathlib
import re
import signal
import tempfile
import time
import unittest

from long_tests import takes_long
import testbed
from test_agent_engine import LinuxGuest
from vmscope_command import Run, start_vmscope, vmscope

CALLS = 60
SPEC = "__fdget_pos=arg0,s64(0)"


class Script:
    """On a guest of one architecture."""

    @classmethod
    def setUpClass(cls):
        cls.guest = LinuxGuest("6.1", arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def write(self, text):
        path = self.folder / "script.lua"
        path.write_text(text)
        return path

    def trace(self, script, *arguments, ends=False, if_="comm == \"probed\""):
        """Runs the script while `probed` runs. `ends`: it ends the trace itself."""
        process = start_vmscope("flow", "-v", "-p", self.guest.pid, "--script", self.write(script), SPEC,
                                "--if", if_, *arguments)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if "armed" in line:
                break
        self.guest.run(f"probed calls {CALLS}")
        if not ends:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=testbed.ANSWER_SECONDS)
        return Run(process.returncode, out, err)

    def fails(self, script, *arguments):
        """A script that fails at a hit: the message. The guest goes on."""
        run = self.trace(script, *arguments, ends=True)
        self.assertEqual(run.status, 1, run.out)
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")
        return [line for line in run.err.splitlines() if "script" in line][-1]

    def test_hits(self):
        """It has what was collected, and the task; its own numbers go from hit to hit."""
        run = self.trace("""
            local n, of, last = 0, {}, -1
            function hit(h)
                n = n + 1
                assert(h.sequence == n and h.time_ns > last and h.where == "__fdget_pos" and not h.after)
                assert(h.values["s64(0)"] == nil and h.address == symbol("__fdget_pos"))
                last = h.time_ns
                of[h.values.arg0] = (of[h.values.arg0] or 0) + (h.comm == "probed" and h.pid == h.tid and 1 or 0)
            end
            function finish() print("all", n, of[77], _VERSION) end
        """)
        self.assertEqual((run.status, run.out.splitlines()),
                         (0, [f"all {CALLS} {CALLS} Lua 5.4", run.out.splitlines()[-1]]), run.err)
        self.assertRegex(run.out.splitlines()[-1], f"^{CALLS} hits")

    def test_memory(self):
        """Code of the kernel, as QEMU's monitor shows it."""
        function = next(symbol for symbol in self.guest.kallsyms() if symbol.name == "__fdget_pos")
        run = self.trace("""
            function hit(h)
                local f = symbol("__fdget_pos")
                print(string.format("%#x %#x %#x %#x", f, u64(f), u32(f + 4), u8(f + 1)))
                print(mem(f, 8) == string.pack("<I8", u64(f)), s64(f) == u64(f), s32(f) == (u32(f) << 32) // (1 << 32))
                print(u64(8), mem(8, 8), str(8))
                print(name(f), name(f + 3), name(16), symbol("no such symbol"))
            end
        """, "--hits", "1", ends=True)
        numbers, same, unreadable, names, summary = run.out.splitlines()
        shown = self.guest.qmp.hmp(f"x /1gx {function.va:#x}")
        code = int(shown.split(":")[1], 16)
        self.assertEqual([int(word, 16) for word in numbers.split()],
                         [function.va, code, code >> 32, code >> 8 & 0xff])
        self.assertEqual((same, unreadable), ("true true true", "nil nil nil"))
        self.assertEqual(names.split(), ["__fdget_pos", "__fdget_pos+0x3", "nil"])
        self.assertEqual((run.status, summary.split(",")[0]), (0, "1 hit"), run.err)

    def test_string_in_memory(self):
        """A string that a register leads to, of a call that sleeps meanwhile: it is there still."""
        process = start_vmscope("flow", "-v", "-p", self.guest.pid, "--script", self.write("""
            function hit(h)
                local path = str(h.values["u64(arg1)"], 100)
                print(path == h.values["str(u64(arg1))"], str(h.values["u64(arg1)"], 5))
            end
        """), "do_filp_open=u64(arg1),str(u64(arg1))", "--if", 'str(u64(arg1)) == "/waits"')
        self.addCleanup(process.kill)
        next(line for line in process.stderr if "armed" in line)
        self.guest.run("mkfifo /waits; (cat /waits >/dev/null &); sleep 1; echo >/waits; rm /waits")
        process.send_signal(signal.SIGINT)
        lines = process.communicate(timeout=testbed.ANSWER_SECONDS)[0].splitlines()
        self.assertEqual(lines[0], "true /wait")

    def test_show(self):
        """As without a script, for the hits that it wants."""
        run = self.trace('function hit(h) if h.sequence % 20 == 0 then show() end end')
        *lines, summary = run.out.splitlines()
        self.assertEqual(len(lines), CALLS // 20)
        self.assertRegex(lines[0], r"probed \d+/\d+  __fdget_pos  arg0=77  s64\(0\)=\(unreadable\)$")

    def test_json(self):
        run = self.trace('function hit(h) if h.sequence < 3 then print(h.sequence, "\\27x\\0y") show() end end', "--json")
        lines = [json.loads(line) for line in run.out.splitlines()]
        self.assertEqual([line.get("print") for line in lines], ["1 ?x?y", None, "2 ?x?y", None, None])
        self.assertEqual([lines[i]["sequence"] for i in (1, 3)], [1, 2])

    def test_saved(self):
        """What the script gets is saved, too, also what comes before it fails."""
        path = self.folder / "saved"
        run = self.trace("function hit(h) print(h.sequence) end", "-o", path)
        self.assertEqual(run.out.split(), [str(i + 1) for i in range(CALLS)])
        self.assertIn(f"{CALLS} of {CALLS} records", vmscope("flow", "report", path).out)
        said = self.fails("function hit(h)\nif h.sequence == 30 then error('enough') end\nend", "-o", path)
        self.assertIn("script.lua:2: enough", said)
        *lines, _, _ = vmscope("flow", "report", path).out.splitlines()
        self.assertGreaterEqual(len(lines), 30)

    def check_failures(self, *cases):
        """Of each, (script, what is said): it ends the flow, says where, and harms nobody."""
        for script, said in cases:
            with self.subTest(script=script):
                self.assertRegex(self.fails(script), said)

    def test_failures(self):
        self.check_failures(
                ("function hit(h)\n\n  local x = h.nothing.more\nend", r"script.lua:3: attempt to index a nil value"),
                ("function hit(h)\n  while true do end\nend", r"script.lua:2: more than 10000000 steps"),
                ("local all = {}\nfunction hit(h) while true do all[#all + 1] = ('x'):rep(1 << 20) .. #all end end",
                 "not enough memory"))

    @takes_long
    def test_failure_at_the_end(self):
        run = self.trace("function hit() end\nfunction finish() os.exit(0) end")
        self.assertEqual(run.status, 1)
        self.assertRegex(run.err, "script.lua:2: attempt to index a nil value")

    @takes_long
    def test_more_failures(self):
        self.check_failures(
                ("function hit(h)\nwhile true do pcall(function()\nwhile true do end end) end\nend",
                 r"script.lua:\d: more than"),
                ("function hit(h) return ('x'):rep(1 << 40) end", "not enough memory|too large"),
                ("function hit(h) return hit(h) + 1 end", "stack overflow"),
                ("local x = ('x'):rep(1 << 20)\nfunction hit(h)\nwhile true do print(x) end end",
                 "script.lua:3: more is printed"),
                ("function hit(h) setmetatable({}, {__gc = function() while true do end end}) end",
                 "script.lua:1: a table of a script cannot have __gc"),
                ("function hit(h) error({}) end", "an error that is not a text"),
                ("function hit(h) mem(0, 1 << 40) end", "1 to 1048576 bytes"),
                ("function hit(h) str({}) end", "script.lua:1: bad argument #1 to 'str'"))

    def test_does_not_end(self):
        """A call into Lua's own functions cannot be ended: the third Ctrl-C ends the process."""
        script = self.write('function hit(h) print("in") string.find(("a"):rep(10000), (".-"):rep(20) .. "b") end')
        process = start_vmscope("flow", "-v", "-p", self.guest.pid, "--script", script, SPEC)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if "armed" in line:
                break
        self.guest.run("probed calls 1")
        time.sleep(1)  # for the script to begin, and to stay there
        for _ in range(3):
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)  # signals that wait are one
        process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(self.guest.run("echo lives").strip(), "lives")

    def test_behind(self):
        """A script that is slower than the hits: another Ctrl-C ends it, and what is left is counted."""
        process = start_vmscope("flow", "-v", "-p", self.guest.pid, SPEC, "--if", 'comm == "probed"', "--script",
                                self.write("function hit(h) for i = 1, 5000000 do end print('hit') end"))
        self.addCleanup(process.kill)
        next(line for line in process.stderr if "armed" in line)
        self.guest.run(f"probed calls {CALLS}")
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if len(lines) in (1, CALLS // 3):  # the first ends the trace
                process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(testbed.ANSWER_SECONDS), 0)
        numbers = re.match(r"(\d+) hits, (?:\d+ whose condition did not hold, )?(\d+) lost$", lines.pop())
        self.assertEqual(set(lines), {"hit"})
        self.assertEqual((int(numbers[1]), len(lines) + int(numbers[2])), (CALLS, CALLS))
        self.assertIn("the script was not fast enough", process.stderr.read())

    def test_no_way_out(self):
        """Neither files nor processes nor code that is no text."""
        run = self.trace("""
            for _, name in ipairs({"os", "io", "load", "loadfile", "dofile", "require", "package", "debug",
                                   "coroutine", "collectgarbage"}) do
                assert(_G[name] == nil, name)
            end
            assert(string.dump == nil)
            function hit() end
        """)
        self.assertEqual(run.status, 0, run.err)

    def test_not_loaded(self):
        for text, said in (("function hit(", "script.lua:1: .* expected near"),
                           ("x = 1", 'no function "hit"'),
                           ("error('no')", "script.lua:1: no"),
                           ("while true do end", "script.lua:1: more than"),
                           ("\x1bLua", "text chunk|binary chunk")):
            with self.subTest(text=text):
                run = vmscope("flow", "-p", self.guest.pid, SPEC, "--script", self.write(text), check=False)
                self.assertEqual((run.status, run.out, len(run.err.splitlines())), (1, "", 1), run.err)
                self.assertRegex(run.err, said)
        run = vmscope("flow", "-p", self.guest.pid, SPEC, "--script", self.folder / "none.lua", check=False)
        self.assertEqual(run.status, 1)
        self.assertIn("No such file", run.err)


class X86(Script, unittest.TestCase):
    arch = "x86_64"
