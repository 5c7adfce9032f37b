# SPDX-License-Identifier: MIT
"""Stacks of a program in Go whose runtime collects garbage: how each ends. The truth is what its runtime
does: it ends at few functions of its own, and some of them have callers on the stack of a goroutine."""
import collections
import subprocess
import tarfile
import unittest

import linux_guest
from test_go_names import Compiled
from vmscope_command import vmscope

PROGRAM = """package main

type node struct {
	left, right *node
	room        [8]int
}

//go:noinline
func grow(n int) *node {
	if n == 0 {
		return &node{}
	}
	return &node{left: grow(n - 1), right: grow(n - 1)}
}

func main() {
	for grow(12) != nil {
		rooms := map[int][]byte{}
		for i := 0; i < 2000; i++ {
			rooms[i] = make([]byte, 1000+i)
		}
	}
}
"""
COMPLETE = {"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go"}
ON_A_GOROUTINE = {"runtime.systemstack", "runtime.morestack"}
MARKER = "[callers on a goroutine's stack]"
WANTED_PERCENT = 97  # where a function is at its first instruction, its frame is not there yet


class GoStacks(Compiled, unittest.TestCase):
    source = PROGRAM

    def test_ends(self):
        program, archive = self.folder / "grows", self.folder / "grows.tar"
        self.link("exe", program)
        subprocess.run(["strip", program], check=True)
        with tarfile.open(archive, "w") as files:
            files.add(program, "grows")
        drive = ("-drive", f"if=none,id=files,format=raw,readonly=on,file={archive}",
                 "-device", "virtio-blk-pci,drive=files")
        guest = linux_guest.LinuxGuest("6.12", extra=drive)
        self.addCleanup(guest.stop)
        guest.run("tar x -f /dev/vda -C /tmp && { /tmp/grows >/dev/null 2>&1 & }; sleep 1")
        folded = vmscope("sample", "-t", "8", "-F", "199", "--format", "folded", *guest.target).out
        ends = collections.Counter()
        for line in folded.splitlines():
            stack, count = line.rsplit(" ", 1)
            _, task, *frames = (frame.split(" (")[0].removesuffix(".abi0") for frame in stack.split(";"))
            if task.startswith("grows"):
                marker = frames.pop(0) if frames[0].startswith("[") else None
                ends[marker, frames[0]] += int(count)
        known = {(None, name) for name in COMPLETE} | {(MARKER, name) for name in ON_A_GOROUTINE}
        self.assertGreater(ends[None, "runtime.goexit"], 100, ends)
        self.assertGreater(ends[MARKER, "runtime.systemstack"], 20, ends)
        total = sum(ends.values())
        self.assertGreaterEqual(100 * sum(n for end, n in ends.items() if end in known), WANTED_PERCENT * total, ends)


if __name__ == "__main__":
    unittest.main()
