#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""In vmscope's place: leaves a guest as nobody may. The matrix must notice (test_faults.py).

What it does says the variable VILLAIN_DEED.
"""
import os
import pathlib
import signal
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from qmp_client import Qmp  # noqa: E402


def stop(qmp):
    qmp.command("stop")


def resume(qmp):
    time.sleep(1)
    qmp.command("cont")


def leave_chardev(qmp):
    qmp.command("chardev-add", id="left", backend={"type": "null", "data": {}})


def leave_process(_qmp):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)


def leave_file(_qmp):
    output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
    output.write_bytes(b"\x7fELF and no more")


def crash(_qmp):
    os.kill(os.getpid(), signal.SIGSEGV)


def kill_qemu(qmp):
    qmp.quit()


DEEDS = {deed.__name__: deed for deed in (
    stop, resume, leave_chardev, leave_process, leave_file, crash, kill_qemu)}

if __name__ == "__main__":
    if "--qmp" in sys.argv:
        DEEDS[os.environ["VILLAIN_DEED"]](Qmp.connect(sys.argv[sys.argv.index("--qmp") + 1]))
