# SPDX-License-Identifier: MIT
"""What happens to vmscope itself: signals, terminals and disks, and another vmscope."""
import contextlib
import os
import pty
import resource
import signal
import subprocess
import termios
import threading

import commands
from faults import TCG, Skipped, fault
from oracle import must_tick

TRIALS = 3  # looks at a guest beside a terminal that stays blocked
BLOCKED_SECONDS = 0.7  # between two of them
CORE_BYTES = 17 << 20  # about as large as the core file of our guests
DISK_MIB = 48


def writes_file(command):
    return command.makes is not None


@fault(short=6, long=1200)
def kill(round_):
    """kill -9."""
    round_.start()
    round_.wait_moment()
    round_.kill()
    must_tick(round_, why="after kill -9")


@fault(short=1)
def kill_and_next(round_):
    """kill -9, and the next vmscope comes at once."""
    round_.start()
    round_.wait_moment()
    round_.kill()
    round_.sleep(0.3)
    round_.start()
    must_tick(round_, why="beside the next vmscope")
    round_.finish()


@fault(engines=(*TCG, "kvm-stub"), short=1)
def kill_with_watchdog(round_):
    """kill -9 of vmscope and its watchdog; the next vmscope puts right what is left."""
    round_.start()
    round_.wait_moment()
    first_the_tool = round_.rng.random() < 0.5
    pids = sorted(round_.living(), reverse=first_the_tool)
    round_.tell(f"SIGKILL to {pids}")
    round_.signals[round_.process].add(signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    round_.process.wait()
    round_.start(command=commands.COMMANDS[{"stub": "regs", "kvm-stub": "regs", "agent": "stack-agent",
                                            "gdb": "regs-gdb"}[round_.command.engine]])


@fault(short=1)
def stop_tool(round_):
    """SIGSTOP, as Ctrl-Z does, and SIGCONT."""
    round_.start()
    round_.wait_moment()
    round_.signal(signal.SIGSTOP)
    must_tick(round_, why="while vmscope is stopped")
    round_.signal(signal.SIGCONT)
    round_.finish()


@fault(short=1)
def stop_and_kill_tool(round_):
    """SIGSTOP and kill -9."""
    round_.start()
    round_.wait_moment()
    round_.signal(signal.SIGSTOP)
    round_.sleep(0.6)
    round_.kill()
    must_tick(round_, why="after kill -9")


def drain(master):
    """Reads what a terminal has, until nobody is there any more."""
    def read():
        with contextlib.suppress(OSError):
            while os.read(master, 1 << 16):
                pass
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


@fault(short=1)
def blocked_terminal(round_):
    """Ctrl-S: nothing that is written to the terminal arrives."""
    master, slave = pty.openpty()
    round_.cleanups.callback(os.close, master)
    at_once = round_.rng.random() < 0.4
    if at_once:
        termios.tcflow(slave, termios.TCOOFF)
    round_.start(stdout=slave, stderr=slave)
    if not at_once:
        round_.wait_moment()
        round_.tell("Ctrl-S")
        termios.tcflow(slave, termios.TCOOFF)
    look_on(round_, "beside a blocked terminal")
    if round_.rng.random() < 0.5:
        round_.kill()
    else:
        round_.tell("Ctrl-Q")
        termios.tcflow(slave, termios.TCOON)
    reader = drain(master)
    round_.cleanups.callback(reader.join)
    os.close(slave)
    round_.finish()


@fault(short=1)
def full_pipe(round_):
    """A pipe that nobody reads: `vmscope | less`."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(theirs, b" " * 4096):
            pass
    os.set_blocking(theirs, True)
    round_.start(stdout=theirs, stderr=theirs)
    os.close(theirs)
    look_on(round_, "beside a full pipe")
    if round_.rng.random() < 0.5:
        round_.kill()
        os.close(ours)
    else:
        reader = drain(ours)
        round_.cleanups.callback(os.close, ours)
        round_.cleanups.callback(reader.join)
    round_.finish()


def look_on(round_, why):
    """The guest ticks again and again, whatever waits."""
    for _ in range(TRIALS):
        round_.sleep(BLOCKED_SECONDS)
        must_tick(round_, why=why)


@fault(only=writes_file, short=1)
def file_limit(round_):
    """A limit on a file's size that is met in the middle."""
    limit = round_.rng.randrange(CORE_BYTES) if round_.command.makes == "core" else 100

    def set_limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    round_.tell(f"files: at most {limit} bytes")
    round_.start(preexec_fn=set_limit)
    round_.finish()


def mount(round_, *arguments):
    """A file system of its own for what the command writes."""
    run = subprocess.run(["mount", *map(str, arguments), str(round_.out)], stderr=subprocess.PIPE,
                         text=True)
    if run.returncode:
        raise Skipped(f"no file system can be mounted here: {run.stderr.strip()}")
    round_.cleanups.callback(subprocess.run, ["umount", "--lazy", round_.out])


@fault(only=writes_file, short=1)
def full_disk(round_):
    """A disk that is full in the middle."""
    size = round_.rng.randrange(4096, CORE_BYTES) if round_.command.makes == "core" else 4096
    round_.tell(f"disk: {size} bytes")
    mount(round_, "-t", "tmpfs", "-o", f"size={size}", "none")
    round_.start()
    round_.finish()


@fault(only=writes_file, short=0)
def hung_disk(round_):
    """A disk that does not answer any more, and later does."""
    image = round_.directory / "disk"
    with open(image, "wb") as file:
        file.truncate(DISK_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image], check=True)
    mount(round_, "-o", "loop", image)
    (round_.out / "lost+found").rmdir()
    round_.start()
    round_.wait_moment()
    round_.tell("the disk hangs")
    if subprocess.run(["fsfreeze", "--freeze", round_.out]).returncode:
        raise Skipped("this kernel cannot freeze a file system")
    try:
        look_on(round_, "beside a hung disk")
        if round_.rng.random() < 0.4:
            round_.kill()
            must_tick(round_, why="after kill -9 beside a hung disk")
    finally:
        round_.tell("the disk answers")
        subprocess.run(["fsfreeze", "--unfreeze", round_.out], check=True)
    round_.finish()


@fault(short=1)
def second_vmscope(round_):
    """A second vmscope, on the same guest."""
    others = [command for command in commands.of_engine(round_.command.engine)
              if not command.makes and command != round_.command] or [round_.command]
    round_.start()
    round_.wait_moment()
    round_.start(command=round_.rng.choice(others))
    if round_.rng.random() < 0.3:
        round_.sleep(0.3)
        round_.kill(round_.processes[0])
    must_tick(round_, why="beside two of vmscope")
    round_.finish()
