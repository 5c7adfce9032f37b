# SPDX-License-Identifier: MIT
"""What is told of a guest's processes, against its own /proc; and reports in which they are merged."""
import json
import tempfile
import unittest

import linux_guest
from vmscope_command import vmscope

ID = "0123456789abcdef" * 4
GROUPS = {f"/system.slice/docker-{ID}.scope": "docker-0123456789ab", "/a/lxc.payload.web": "lxc-web",
          "/system.slice/nginx.service": "nginx.service", "/a/b c": "/a/b c"}


class Processes:
    """Sleeping programs, each in a group; subclasses say which kernel."""
    series, arch = "", "x86_64"

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest(cls.series, arch=cls.arch)
        cls.addClassCleanup(cls.guest.stop)
        cls.guest.run("mkdir -p /cg && mount -t cgroup2 none /cg")
        cls.pids = {}
        for number, group in enumerate(GROUPS):
            # The loop before the sleep takes some time of a processor.
            pid = cls.guest.run(
                f"(i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; exec sh -c 'sleep 100000; :' 'a  {number}' ) "
                ">/dev/null 2>&1 & echo $!").strip()
            cls.guest.run(f"mkdir -p '/cg{group}' && echo {pid} >'/cg{group}/cgroup.procs'")
            cls.pids[group] = int(pid)
        cls.titled = int(cls.guest.run(f"ROOM={'x' * 64} workload title >/dev/null 2>&1 & echo $!"))
        cls.guest.run("sleep 1")

    def ps(self, *columns):
        rows = json.loads(vmscope("ps", "--with", ",".join(columns), "--json", *self.guest.target).out)
        return {row["tid"]: row for row in rows}

    def test_groups(self):
        rows = self.ps("cgroup", "container")
        for group, pid in self.pids.items():
            own = self.guest.run(f"cat /proc/{pid}/cgroup").strip()
            self.assertEqual(own, f"0::{rows[pid]['cgroup']}")
            self.assertEqual(rows[pid]["container"], GROUPS[group])
        self.assertEqual((rows[1]["cgroup"], rows[1]["container"]), ("/", None))

    def test_commands(self):
        rows = self.ps("command")
        text = self.guest.run("cd /proc; for p in [0-9]*; do echo =$p; cat $p/cmdline; echo; done 2>/dev/null")
        own = dict(part.split("\n", 1) for part in text.split("=")[1:] if "\n" in part)
        lasting = own.keys() & set(map(str, rows))
        self.assertGreater(len(lasting), 30)
        for pid in lasting:
            if "/cmdline" not in own[pid]:  # our shell itself
                command = own[pid].strip("\n").rstrip("\0").replace("\0", " ")
                self.assertEqual(rows[int(pid)]["command"], command or None)
        self.assertIsNone(rows[2]["command"])
        # Written over the arguments, and longer.
        self.assertEqual(rows[self.titled]["command"], "workload: a title longer than the arguments")

    def test_times(self):
        """The kernel shows the time of a thread in ns, too; one that sleeps takes none."""
        rows = self.ps("time")
        for pid in self.pids.values():
            own = int(self.guest.run(f"cat /proc/{pid}/schedstat").split()[0])
            self.assertGreater(own, 0)
            self.assertEqual(rows[pid]["cpu_ns"], own)
            self.assertEqual(rows[pid]["process_cpu_ns"], own)

    def test_wrong_column(self):
        self.assertIn("--with nothing: it must be", vmscope("ps", "--with", "nothing", *self.guest.target,
                                                           check=False).err)

    def test_merged(self):
        """Processes in containers (other ways to merge them: tests/unit/profile.c)."""
        pids = [self.guest.run(f"sh -c 'echo $$ >/cg{group}/cgroup.procs; exec md5sum /dev/zero' >/dev/null 2>&1 "
                               "& echo $!").strip() for group in list(GROUPS)[:2]]
        self.addCleanup(self.guest.stop_workload)
        text = vmscope("sample", "-t", "1", "--merge", "--processes", "container", "--facts", "none",
                       *self.guest.target).out
        with tempfile.TemporaryDirectory() as folder:
            vmscope("record", "-t", "0.5", "-o", f"{folder}/file", *self.guest.target)
            recorded = vmscope("report", "--processes", "container", f"{folder}/file").out
        for container in ("docker-0123456789ab", "lxc-web"):
            for shown in text, recorded:
                self.assertRegex(shown, rf"(?m)^\d+ +[\d.]+% {container}$")
        for pid in pids:
            self.assertNotIn(f"({pid})", text + recorded)
        top = json.loads(vmscope("top", "--once", "--json", "-d", "0.5", "--by", "container,process",
                                 *self.guest.target).out)
        found = {row["process"]: row["container"] for row in top["rows"]}
        for pid, container in zip(pids, GROUPS.values()):
            self.assertEqual(found[f"md5sum ({pid})"], container)


class Processes612(Processes, unittest.TestCase):
    series = "6.12"


if __name__ == "__main__":
    unittest.main()
