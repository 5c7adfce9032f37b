# SPDX-License-Identifier: MIT
"""What src/machine/agent/protocol.h says, for clients and agents that are written in Python: its
#defines and enums by their names without VMS_AGENT_ (VERSION, HOLD, CAN_HOLD, PIN)."""
import pathlib
import re
import struct

HEADER = pathlib.Path(__file__).resolve().parents[2] / "src" / "machine" / "agent" / "protocol.h"


def _constants(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
    found = {}

    def value_of(words):
        return eval(re.sub(r"UINT(32|64)_C", "", words).strip(), {}, found)  # the header is ours
    for name, value, enum in re.findall(
            r"^#define (\w+)[ \t]+(\S[^\n]*)$|\benum \w+ \{([^}]*)\}", text, re.M):
        if name:
            found[name] = value_of(value)
        following = 0
        for name, value in re.findall(r"(\w+)\s*(?:=\s*([^,]+))?,", enum):
            found[name] = following = value_of(value) if value else following
            following += 1
    return found


globals().update({name.removeprefix("VMS_AGENT_"): value
                  for name, value in _constants(HEADER.read_text()).items()})

GREETING = struct.Struct("=II Q")  # magic, kind, features
# magic, kind, version, api, pid, max_vcpus, n_regs, one_thread, shared_size, arch
OLD_HELLO = struct.Struct("=8I Q 16s")
SLOT = 35008  # sizeof(struct vms_agent_vcpu)
SLOTS = MAX_REGS * REG_NAME  # noqa: F821


def hello_of(pid, vcpus=1, n_regs=0):
    """The hello of an agent in an x86-64 QEMU of this pid."""
    return OLD_HELLO.pack(MAGIC, HELLO, VERSION, 4, pid, vcpus, n_regs, 0,  # noqa: F821
                          SLOTS + vcpus * SLOT, b"x86_64") + struct.pack(
                              "=Q", FEATURES)  # noqa: F821
