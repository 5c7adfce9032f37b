#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a hit of a probe costs, with three registers and 16 bytes of memory, under TCG.

A bare guest comes to the same instruction again and again, after a loop of 2,000 steps. It is timed
as it is, then with a probe by the agent, by the gdb stub, and with a breakpoint of gdb whose commands
print the same, in turns, in one run. What a hit costs is the time between two visits, less that
without probe. The limits: QEMU's own stop and start of a machine (`stop` and `cont` by QMP), for what
stops; for the agent, a visit that is rejected by its condition.

Hits that are added up are too cheap for that: they are counted at every step of the loop, in processor
time of QEMU, less that of the loop without a probe.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration"))
import agent_client  # noqa: E402
import qemu_machine  # noqa: E402
import testbed  # noqa: E402

import samplers  # noqa: E402

ENTRIES = "rdi,rsi,rsp,mem(rsi,16)"


def symbol(guest, name):
    text = subprocess.run(["nm", guest.elf], check=True, text=True, stdout=subprocess.PIPE).stdout
    return next(int(line.split()[0], 16) for line in text.splitlines() if line.endswith(f" {name}"))


def visit_us(guest, seconds=1):
    """Between two visits, as the guest counts them."""
    address = symbol(guest, "counts") + 8

    def number():
        return int(guest.qmp.hmp(f"xp /1gx {address:#x}").split(":")[1], 16)
    began, before = time.monotonic(), number()
    time.sleep(seconds)
    after = number()
    return (time.monotonic() - began) / (after - before) * 1e6


def flow_us(guest, how, hits, entries=ENTRIES):
    """Between two hits, by the times of the last 20,000: nothing is printed meanwhile."""
    place = f"{symbol(guest, 'counted_nop'):#x}={entries}"
    out = subprocess.run([testbed.VMSCOPE, "flow", *how, place, "--no-tasks", "--json", "--hits",
                          str(hits), "--records", "20000"], check=True, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout
    records = [json.loads(line) for line in out.splitlines()[:-1]]
    return (records[-1]["time_ns"] - records[0]["time_ns"]) / (len(records) - 1) / 1e3


def rejected_us(guest, how):
    """Between two visits whose condition does not hold."""
    process = subprocess.Popen([testbed.VMSCOPE, "flow", *how, f"{symbol(guest, 'counted_nop'):#x}",
                                "--no-tasks", "--if", "rdi == 0"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(1)
    found = visit_us(guest)
    process.terminate()
    process.wait()
    return found


STEPS = 2000  # between two visits
TABLES = {"counted": ("--count",), "counted by a register": ("--count-by", "rsi"),
          "histogram of a register": ("--hist", "rcx"),
          "counted by 8 bytes of memory": ("--count-by", "u64(rsi)")}


def cpu_ns(pid):
    return sum(int((task / "schedstat").read_text().split()[0])
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def step_us(guest, seconds=2):
    """Processor time of a step. QEMU has little else to do."""
    began = cpu_ns(guest.pid)
    visits = seconds * 1e6 / visit_us(guest, seconds)
    return (cpu_ns(guest.pid) - began) / 1e3 / (visits * STEPS)


def table_us(guest, how, what):
    process = subprocess.Popen([testbed.VMSCOPE, "flow", "-v", *how,
                                f"{symbol(guest, 'counted_step'):#x}", *what],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while "armed" not in process.stderr.readline():
        pass
    found = step_us(guest)
    process.terminate()
    process.communicate()
    return found


def gdb_us(guest, hits):
    script = f"""
set pagination off
break *{symbol(guest, 'counted_nop'):#x}
commands
silent
set $n = $n + 1
printf "%d %d %d\\n", $rdi, $rsi, $rsp
x/2gx $rsi
if $n < {hits}
continue
end
end
set $n = 0
python import time
python began = time.time()
continue
python print("took", time.time() - began)
delete
detach
"""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file, samplers.gdb_stub(guest) as path:
        file.write(f"target remote {path}\n{script}")
        file.flush()
        out = subprocess.run(["gdb", "-batch", "-nx", "-x", file.name, guest.elf], text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, timeout=120).stdout
    took = next(line for line in out.splitlines() if line.startswith("took"))
    return float(took.split()[1]) * 1e6 / hits


def stop_us(guest, times=50):
    began = time.monotonic()
    for _ in range(times):
        guest.qmp.command("stop")
        guest.qmp.command("cont")
    return (time.monotonic() - began) / times * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    directory = tempfile.mkdtemp()
    agent = f"{directory}/agent"
    plain = qemu_machine.BareGuest("counter", accel="tcg,thread=multi")
    inside = qemu_machine.BareGuest("counter", accel="tcg,thread=multi",
                                    extra=agent_client.options(agent))
    found = {name: [] for name in ("agent", "agent, with a stack of 32 KiB", "agent, rejected",
                                   "stub", "gdb", "stop and cont")}
    added = {}
    for _ in range(options.rounds):
        free = visit_us(inside)
        found["agent"].append(flow_us(inside, ("--agent", agent), 100000) - free)
        found["agent, with a stack of 32 KiB"].append(
            flow_us(inside, ("--agent", agent), 5000, "stack") - free)
        found["agent, rejected"].append(rejected_us(inside, ("--agent", agent)) - free)
        free = visit_us(plain)
        found["stub"].append(flow_us(plain, ("--allow-stop", "-p", str(plain.pid)), 2000) - free)
        found["gdb"].append(gdb_us(plain, 300) - free)
        found["stop and cont"].append(stop_us(plain))
        step = step_us(inside)
        for name, what in TABLES.items():
            added.setdefault(name, []).append(table_us(inside, ("--agent", agent), what) - step)
    for name, values in found.items():
        print(f"{name}: {statistics.median(values):.1f} us a hit (median of {len(values)}; "
              f"{min(values):.1f} to {max(values):.1f})")
    gdb = statistics.median(found["gdb"])
    for name in "agent", "stub":
        print(f"gdb costs {gdb / statistics.median(found[name]):.1f} times what the {name} does")
    for name, values in added.items():
        print(f"added up, {name}: {statistics.median(values):.3f} us of processor time a hit "
              f"(median of {len(values)}; {min(values):.3f} to {max(values):.3f})")
    plain.stop()
    inside.stop()


if __name__ == "__main__":
    main()
