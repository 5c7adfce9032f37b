#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every command beside every fault, at random moments, many times: no guest may suffer.

What was wrong is shown with the words that repeat it. The last line is `N passed, N failed`, with
`, N skipped` where this host could not do what was to go wrong.
"""
import argparse
import collections
import fnmatch
import json
import multiprocessing
import pathlib
import random
import sys
import time
import traceback

DIRECTORY = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(DIRECTORY), str(DIRECTORY.parent / "integration")]

import faults  # noqa: E402
import guest  # noqa: E402
import linux_guest  # noqa: E402
import qemu_machine  # noqa: E402
import testbed  # noqa: E402
import on_agent  # noqa: E402, F401
import on_data  # noqa: E402, F401
import on_kvm  # noqa: E402, F401
import on_owner  # noqa: E402, F401
import on_qemu  # noqa: E402, F401
import on_state  # noqa: E402, F401
import on_vmscope  # noqa: E402, F401
import oracle  # noqa: E402
import table  # noqa: E402
from history import stops_without_effect  # noqa: E402
from rounds import Round, Wrong  # noqa: E402

IDLE_JOBS = 8  # rounds that mostly wait, beside each other, for each job

Task = collections.namedtuple("Task", "fault command number")
# `refused`: vmscope ended by itself and with an error. `stops`: of the owner's, `in_hold`: those of
# them that came when the machine was stopped already. `longest`: seconds that a tick was waited for.
Result = collections.namedtuple("Result",
                                "task outcome reason refused stops in_hold longest report")


def plan(options):
    """Every round that is to be run."""
    tasks = []
    for fault in faults.FAULTS.values():
        commands = [command for command in faults.commands_of(fault) if any(
            fnmatch.fnmatch(f"{command.name}/{fault.name}", pattern) for pattern in options.only)
            and (command.engine not in guest.SLOW or options.long or options.rounds)]
        if not commands:
            continue
        deck = [command for command in commands
                for _ in range(1 if fault.evenly else command.weight)]
        random.Random(f"{options.seed}/{fault.name}").shuffle(deck)
        rounds = options.rounds or (fault.long if options.long else fault.short)
        tasks += [Task(fault, deck[i % len(deck)], i)
                  for i in range(options.first, options.first + rounds)]
    return tasks


class Player:
    """Plays rounds, one after the other; guests are used again where that is possible."""

    def __init__(self, options):
        self._options = options
        self._guest = self._kind = None

    def _take_guest(self, task):
        if task.command.engine in faults.BY_KVM and not testbed.have_kvm():
            raise faults.Skipped("there is no /dev/kvm")
        kind = (task.fault.linux, task.command.engine)
        if self._guest and (task.fault.fresh or self._kind != kind):
            self.close()
        if not self._guest:
            try:
                self._guest, self._kind = guest.start(task.command.engine, task.fault.linux), kind
            except TimeoutError:
                if task.command.engine not in guest.SLOW:
                    raise
                raise faults.Skipped("its guest takes too long to boot here") from None
        return self._guest

    def close(self):
        if self._guest:
            self._guest.stop()
            self._guest = None

    def play(self, task):
        try:
            machine = self._take_guest(task)
        except faults.Skipped as skipped:
            return Result(task, "skipped", str(skipped), False, 0, 0, 0, "")
        except Exception as error:
            return Result(task, "wrong", f"its guest did not start: {error}", False, 0, 0, 0, "")
        round_ = Round(task.command, task.fault, f"{self._options.seed}/{task.number}", machine)
        outcome, reason = "right", ""
        try:
            task.fault.act(round_)
            oracle.judge(round_)
            if round_.undetectable:
                outcome = "undetectable"
        except faults.Skipped as skipped:
            outcome, reason = "skipped", str(skipped)
        except Wrong as wrong:
            outcome, reason = "wrong", str(wrong)
        except Exception as error:
            outcome = "wrong"
            reason = oracle.explain_end(round_) or f"{type(error).__name__}: {error}"
            round_.tell(traceback.format_exc())
        is_spoilt = outcome == "wrong"
        if is_spoilt and (oracle.is_abort_of_loading(task, reason) or
                          oracle.is_abort_of_sleeping(task, reason)):
            outcome, reason = "undetectable", ""
        in_hold, stops = stops_without_effect(round_.history())
        refused = any((process.returncode or 0) > 0 for process in round_.processes)
        report = self._describe(round_) if outcome != "right" or self._options.verbose else ""
        round_.close()
        if is_spoilt or task.fault.fresh:
            self.close()
        return Result(task, outcome, reason, refused, stops, in_hold, round_.longest,
                      report)

    @staticmethod
    def _describe(round_):
        parts = ["\n".join(round_.story), round_.output()]
        for machine in (round_.guest, *round_.others):
            steps = [step for step in round_.history(machine)
                     if not oracle.QUESTION.search(step.text)]
            parts.append(f"QEMU {machine.process.pid}, status {machine.process.poll()}: "
                         f"{machine.log()[-1000:]}")
            parts += [f"{step.time:.6f} {step.event} {step.text}" for step in steps[-200:]]
        return "\n".join(parts)


def work(options, tasks, results):
    """A process: plays what it gets until there is nothing more."""
    player = Player(options)
    try:
        while task := tasks.get():
            fault, command, number = task
            results.put(player.play(Task(faults.FAULTS[fault], command, number)))
    except BaseException:
        results.put(traceback.format_exc())
        raise
    finally:
        player.close()
        qemu_machine.Machine.stop_all()
        results.put(None)


def run(options, tasks, jobs, collect):
    """All tasks, with so many processes; `collect` gets every result."""
    context = multiprocessing.get_context("fork")
    queue, results = context.Queue(), context.Queue()
    # One engine after the other: guests are used again.
    for task in sorted(tasks, key=lambda task: (task.fault.linux, task.fault.fresh,
                                              task.command.engine)):
        queue.put((task.fault.name, task.command, task.number))
    workers = [context.Process(target=work, args=(options, queue, results))
               for _ in range(min(jobs, len(tasks)))]
    for worker in workers:
        queue.put(None)
        worker.start()
    left = len(workers)
    while left:
        result = results.get()
        if result is None:
            left -= 1
        else:
            collect(result)
    for worker in workers:
        worker.join()


class Collector:
    """Counts what comes in, shows and keeps what is wrong."""

    def __init__(self, options):
        self.options = options
        self.results = []

    def __call__(self, result):
        if isinstance(result, str):
            print(result, file=sys.stderr, flush=True)
            return
        self.results.append(result)
        task = result.task
        cell = f"{task.command.name}/{task.fault.name}"
        if result.outcome == "wrong":
            print(f"WRONG {cell}: {result.reason}\n    again: {sys.argv[0]} --seed "
                  f"{self.options.seed} --only {cell} --first {task.number} --rounds 1", flush=True)
        elif self.options.verbose:
            print(f"{result.outcome} {cell} {task.number} {result.reason}", flush=True)
        if result.report and self.options.keep:
            self.options.keep.mkdir(parents=True, exist_ok=True)
            path = self.options.keep / f"{task.command.name}-{task.fault.name}-{task.number}.txt"
            path.write_text(f"{result.outcome}: {result.reason}\n{result.report}\n")

    def count(self, outcome):
        return sum(result.outcome == outcome for result in self.results)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", action="store_true",
                        help="the long form: 1,200 kills, 100 rounds of every other fault")
    parser.add_argument("--rounds", type=int, help="so many of every fault")
    parser.add_argument("--only", action="append", metavar="COMMAND/FAULT",
                        help="only these, with * and ?; may be repeated")
    parser.add_argument("--seed", default="1", help="of all random moments")
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--jobs", type=int, default=2, help="guests at a time")
    parser.add_argument("--keep", type=pathlib.Path, help="where to keep what was wrong")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the result as a page")
    parser.add_argument("--json", type=pathlib.Path, help="write the outcome of every round")
    parser.add_argument("--list", action="store_true", help="show the faults of this form")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every round")
    options = parser.parse_args()
    options.only = options.only or ["*"]
    return options


def main():
    options = arguments()
    if options.list:
        for fault in faults.FAULTS.values():
            if fault.long if options.long else fault.short:
                print(f"{fault.name:24} {fault.what}")
        return 0
    tasks = plan(options)
    if not tasks:
        print("matrix: no such cell; --list and --long --list show the faults", file=sys.stderr)
        return 2
    testbed.build_guests()
    guest.disk_template()
    if any(task.fault.linux for task in tasks):
        linux_guest.booted("6.1")  # here, for all processes
    began = time.time()
    collector = Collector(options)
    for idle, jobs in ((False, options.jobs), (True, options.jobs * IDLE_JOBS)):
        part = [task for task in tasks if task.fault.idle == idle]
        if part:
            run(options, part, jobs, collector)
    print(table.as_text(collector.results))
    if options.markdown:
        options.markdown.write_text(table.as_page(collector.results, began))
    if options.json:
        options.json.write_text(json.dumps([
            {"fault": result.task.fault.name, "command": result.task.command.name,
             "round": result.task.number, "outcome": result.outcome, "reason": result.reason,
             "report": result.report} for result in collector.results]))
    failed = collector.count("wrong") + len(tasks) - len(collector.results)
    skipped = collector.count("skipped")
    print(f"undetectable: {collector.count('undetectable')}")
    print(f"{len(tasks) - failed - skipped} passed, {failed} failed"
          + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
