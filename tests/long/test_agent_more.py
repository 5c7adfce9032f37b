# SPDX-License-Identifier: MIT
"""Clients of the agent that take minutes to try."""
import fcntl
import mmap
import os
import struct

import agent_client
import test_agent
import testbed
from agent_client import Agent


class Clients(test_agent.Booting):
    def test_client_that_will_not_wake_up(self):
        """It makes what wakes it wait for ever, as far as it can, and takes nothing."""
        self.boot(test_agent.Loops.BOOTS["call and return"], smp=1)
        with Agent(self.path) as agent, Agent(self.path) as other:
            memory, wake = agent.trace()
            fcntl.fcntl(wake, fcntl.F_SETFL, fcntl.fcntl(wake, fcntl.F_GETFL) & ~os.O_NONBLOCK)
            if "eventfd" in os.readlink(f"/proc/self/fd/{wake}"):
                os.eventfd_write(wake, 2**64 - 2)
            with mmap.mmap(memory, mmap.PAGESIZE) as shared:
                testbed.wait_for(lambda: struct.unpack_from("=Q", shared, agent_client.RING_LOST)[0],
                                 "calls that find no room")
            for _ in range(3):
                other.hold_briefly(0)
            os.close(memory)
            os.close(wake)
