# SPDX-License-Identifier: MIT
"""What the benchmarks compare: vmscope, a gdb script, and the least that a stub can do."""
import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))
import testbed  # noqa: E402


def cpu_seconds(guest):
    """What the vCPUs' threads have run: what others do on the host matters less to that."""
    threads = [vcpu["thread-id"] for vcpu in guest.qmp.command("query-cpus-fast")]
    return sum(int(pathlib.Path(f"/proc/{guest.pid}/task/{thread}/schedstat").read_text().split()[0])
               for thread in threads) / 1e9


@contextlib.contextmanager
def gdb_stub(guest):
    """A gdb stub added to a running guest; its address."""
    path = guest.directory / "bench-gdb"
    guest.qmp.command("chardev-add", id="bench-gdb", backend={
        "type": "socket", "data": {"addr": {"type": "unix", "data": {"path": str(path)}},
                                   "server": True, "wait": False}})
    guest.qmp.hmp("gdbserver chardev:bench-gdb")
    try:
        yield path
    finally:
        guest.qmp.hmp("gdbserver none")
        guest.qmp.command("cont")
        path.unlink(missing_ok=True)


class Ticker:
    """Calls a function at a steady rate in a thread of its own; late ticks are dropped."""

    def __init__(self, hertz, tick):
        self._period = 1 / hertz
        self._tick = tick
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        due = time.monotonic()
        while not self._stop.wait(max(0, due - time.monotonic())):
            self._tick()
            due = max(due + self._period, time.monotonic())

    def stop(self):
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def nothing(_guest, _hertz):
    yield


@contextlib.contextmanager
def vmscope(guest, hertz):
    """vmscope sample, writing its report to a file."""
    with subprocess.Popen([testbed.VMSCOPE, "sample", "--allow-stop", "-p", str(guest.pid), "-F",
                           str(hertz), "-q", "-o", guest.directory / "report"]) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@contextlib.contextmanager
def gdb_script(guest, hertz):
    """gdb: interrupt, print the registers of all vCPUs, continue."""
    with gdb_stub(guest) as path:
        gdb = subprocess.Popen(["gdb", "-nx", "-q", "-i=mi3"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def send(line, until):
            gdb.stdin.write(line + "\n")
            gdb.stdin.flush()
            for answer in gdb.stdout:
                if answer.startswith("^error"):
                    raise RuntimeError(f"gdb: {line}: {answer.strip()}")
                if answer.startswith(until):
                    return
            raise EOFError("gdb has gone")

        def tick():
            send("-exec-interrupt", "*stopped")
            send('-interpreter-exec console "thread apply all info registers"', "^done")
            send("-exec-continue", "*running")

        for line in ("-gdb-set mi-async on", "-gdb-set pagination off",
                     "-gdb-set architecture i386:x86-64"):
            send(line, "^done")
        send(f"-target-select remote {path}", "^connected")
        send("-exec-continue", "*running")
        ticker = Ticker(hertz, tick)
        try:
            yield
        finally:
            ticker.stop()
            gdb.kill()
            gdb.wait()


class Stub:
    """A gdb stub's client that can do nothing but stop the machine and let it run."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._buffer = b""
        self.ask(b"?")

    def _packet(self):
        while True:
            start = self._buffer.find(b"$")
            end = self._buffer.find(b"#", start)
            if start >= 0 and 0 <= end <= len(self._buffer) - 3:
                payload = self._buffer[start + 1:end]
                self._buffer = self._buffer[end + 3:]
                self._socket.sendall(b"+")
                return payload
            data = self._socket.recv(65536)
            if not data:
                raise EOFError("the stub has closed")
            self._buffer += data

    def send(self, payload):
        self._socket.sendall(b"$%s#%02x" % (payload, sum(payload) % 256))

    def ask(self, payload):
        self.send(payload)
        return self._packet()

    def run(self):
        self.send(b"vCont;c")

    def stop(self, requests=()):
        """Stops the machine. The requests are sent with the interrupt; returns when all are answered."""
        row = b"".join(b"$%s#%02x" % (payload, sum(payload) % 256) for payload in requests)
        self._socket.sendall(b"\x03" + row)
        for _ in range(1 + len(requests)):
            self._packet()

    def close(self):
        self._socket.close()


@contextlib.contextmanager
def bare_stops(guest, hertz, requests=()):
    """The limit: stop and continue through QEMU's stub, asking nothing."""
    with gdb_stub(guest) as path:
        stub = Stub(path)

        def tick():
            stub.stop(requests)
            stub.run()

        stub.run()
        ticker = Ticker(hertz, tick)
        try:
            yield
        finally:
            ticker.stop()
            stub.close()


def bare_registers(guest, hertz):
    """The limit of any sampler by the stub: stop, the registers of all vCPUs by one row of requests, continue."""
    vcpus = len(guest.qmp.command("query-cpus-fast"))
    requests = [request for vcpu in range(1, vcpus + 1) for request in (b"Hg%x" % vcpu, b"g")]
    return bare_stops(guest, hertz, requests)


def stops_us(events):
    """How long the machine stood still each time, in us, by QEMU's own event times."""
    durations = []
    stopped = None
    for event in events:
        at = event["timestamp"]["seconds"] * 1000000 + event["timestamp"]["microseconds"]
        if event["event"] == "STOP":
            stopped = at
        elif event["event"] == "RESUME" and stopped is not None:
            durations.append(at - stopped)
            stopped = None
    return durations
