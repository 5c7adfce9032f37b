# SPDX-License-Identifier: MIT
"""Ends of call traces that take long: QEMU is killed beside the client, a vCPU comes and goes."""
import os
import signal
import unittest

import calls
import linux_guest
import uftrace_data
from test_calls import wrong
from test_calls_running import AGENT


class Ends(unittest.TestCase):
    def guest(self, **options):
        guest = linux_guest.LinuxGuest("6.1", launcher=AGENT, **options)
        self.addCleanup(guest.stop)
        return guest

    def test_qemu_killed(self):
        """What QEMU had written is complete up to then."""
        path = calls.directory(self)
        guest = self.guest()
        tracer = calls.Tracer(guest, path, "--by", "task", *calls.symbols())
        self.addCleanup(tracer.kill)
        counted = calls.counts(guest.run("calls"))[0]
        os.kill(guest.pid, signal.SIGKILL)
        self.assertRegex(tracer.wait(expected=1), f"warning: .*{guest.pid}.* has ended")
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(wrong(trace, "calls", counted), {})
        calls.uftrace("report", path)

    def test_hotplug(self):
        """A vCPU comes and goes. QEMU itself does not survive that it comes again."""
        path = calls.directory(self)
        guest = self.guest(**linux_guest.PLUGGABLE)
        free = [cpu for cpu in guest.qmp.command("query-hotpluggable-cpus")
                if "qom-path" not in cpu][-1]  # the first: they are listed backwards
        online = "/sys/devices/system/cpu/cpu2/online"
        with calls.tracing(guest, path, "--by", "vcpu", *calls.symbols()):
            guest.qmp.command("device_add", driver=free["type"], id="third",
                              **{key.replace("-", "_"): value
                                 for key, value in free["props"].items()})
            guest.run(f"while ! [ -e {online} ]; do sleep 0.1; done; echo 1 >{online}")
            self.assertIn("DONE", guest.run("taskset 4 calls"))
            guest.qmp.command("device_del", id="third")
            guest.wait_unplugged(2)
            guest.run("taskset 1 calls")
        trace = uftrace_data.Trace(path)
        self.assertEqual(trace.check(), [])
        self.assertEqual(trace.ids, [100, 200, 300])
        for tid in (100, 300):
            self.assertGreaterEqual(trace.calls([tid], "calls")["system_calls"], 1, tid)


if __name__ == "__main__":
    unittest.main()
