# SPDX-License-Identifier: MIT
"""The vmscope command as the tests start it."""
import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess

from testbed import ANSWER_SECONDS, VMSCOPE


# Tests send these to what they start; who started us may have had them ignored.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


Run = collections.namedtuple("Run", "status out err")


def allow_stop(arguments):
    """The tests are connected to a monitor of each machine: stops have to be allowed."""
    named = {"--qmp", "-p", "--agent"} & set(map(str, arguments))
    return (*arguments, "--allow-stop") if named and "--" not in arguments else arguments


def vmscope(*arguments, timeout=ANSWER_SECONDS, check=True, program=VMSCOPE, **options):
    """Runs the vmscope command. `check`: a failure raises with what it wrote."""
    run = subprocess.run([str(program), *map(str, allow_stop(arguments))],
                         stdin=subprocess.DEVNULL, text=True, errors="replace",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **options)
    if check and run.returncode:
        raise RuntimeError(f"vmscope {' '.join(map(str, arguments))}: status {run.returncode}: "
                           f"{run.stderr.strip()}")
    return Run(run.returncode, run.stdout, run.stderr)


def start_vmscope(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options):
    """The command as a running process, for tests that kill it."""
    command = [str(VMSCOPE), *map(str, allow_stop(arguments))]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, stdout=stdout, stderr=stderr,
                            **options)


def full_pipe(case):
    """The end of a pipe that takes nothing as long as the test runs: for what is printed."""
    ours, theirs = os.pipe()
    case.addCleanup(os.close, ours)
    case.addCleanup(os.close, theirs)
    os.set_blocking(theirs, False)
    try:
        while os.write(theirs, bytes(1 << 12)):
            pass
    except BlockingIOError:
        os.set_blocking(theirs, True)
    return theirs


def is_blocked(process, where):
    """Does one of its threads wait in one of these functions of the kernel, a regular expression?"""
    for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/wchan"):
        with contextlib.suppress(OSError):  # the thread has ended
            if re.search(where, path.read_text()):
                return True
    return False
