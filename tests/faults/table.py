# SPDX-License-Identifier: MIT
"""The result of a matrix as a table: a line per fault, a column per command."""
import collections
import datetime
import os
import platform
import subprocess
import sys

import commands
import faults
import testbed


class Cell:
    def __init__(self):
        self.rounds = self.wrong = self.undetectable = self.skipped = 0

    def add(self, outcome):
        self.rounds += 1
        if outcome != "right":
            setattr(self, outcome, getattr(self, outcome) + 1)

    def __str__(self):
        """Rounds, then what was wrong (!) or undetectable (?)."""
        if not self.rounds:
            return ""
        if self.skipped == self.rounds:
            return "skipped"
        return (f"{self.rounds}" + (f" **{self.wrong}!**" if self.wrong else "")
                + (f" {self.undetectable}?" if self.undetectable else ""))


def cells(results):
    found = collections.defaultdict(Cell)
    for result in results:
        for key in ((result.task.fault.name, result.task.command.name),
                    (result.task.fault.name, None), (None, None)):
            found[key].add(result.outcome)
    return found


def rows(results):
    """The head, then a row for every fault that was tried."""
    found = cells(results)
    used = [name for name in commands.COMMANDS
            if any(result.task.command.name == name for result in results)]
    yield ["fault", "all", *used]
    for name in faults.FAULTS:
        if (name, None) in found:
            yield [name, *(str(found[name, column]) if (name, column) in found else ""
                           for column in (None, *used))]


def as_text(results):
    lines = [[cell.replace("*", "") for cell in row] for row in rows(results)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in lines)


def describe(results, name):
    own = [result for result in results if result.task.fault.name == name]
    slowest = max(own, key=lambda result: result.longest)
    return (f"| {name} | {faults.FAULTS[name].what} | "
            f"{slowest.longest:.1f} s ({slowest.task.command.name}) | "
            f"{sum(result.refused for result in own)} |")


def undetectable(results):
    """How many stops of the owner's came in a hold, by command; of those that come at any moment."""
    stops = collections.defaultdict(lambda: [0, 0])
    for result in results:
        if result.task.fault.name == "owner-keeps-on":
            stops[result.task.command.name][0] += result.stops
            stops[result.task.command.name][1] += result.in_hold
    return {name: counts for name, counts in stops.items() if counts[0]}


def version_of(*words):
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.stdout.splitlines()[0] if run.returncode == 0 and run.stdout else "unknown"


def words_of_run():
    """The options of this run, without the places of its files."""
    words, rest = [], iter(sys.argv[1:])
    for word in rest:
        if word in ("--keep", "--markdown", "--json"):
            next(rest)
        else:
            words.append(word)
    return " ".join(words)


def as_page(results, began):
    """A page in Markdown: what was run where and when, the table, and what the words mean."""
    date = datetime.datetime.fromtimestamp(began).strftime("%Y-%m-%d %H:%M")
    head, *body = rows(results)
    total = cells(results)[None, None]
    commit = version_of("git", "-C", str(testbed.ROOT), "rev-parse", "--short", "HEAD")
    lines = [
        "# The fault matrix: last result", "",
        f"{date}, commit {commit}, {version_of(str(testbed.VMSCOPE), '--version')}, "
        f"{version_of('qemu-system-x86_64', '--version')}, Linux {platform.release()}, "
        f"{os.cpu_count()} processors.", "",
        f"    tests/faults/matrix.py {words_of_run()}", "",
        f"**{total.rounds} rounds, {total.wrong} wrong, {total.undetectable} undetectable**, "
        f"{total.skipped} skipped.", "",
        "A cell has the number of rounds, with `!` those after which a guest was not as it would "
        "have been without vmscope, with `?` those whose only deviation was a `stop` of the "
        "owner's in the very moment of a hold.", "",
        "| " + " | ".join(head) + " |", "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in body), "",
        "## The faults", "",
        "With the longest time for which a guest that was to run did not, and how many rounds "
        "vmscope ended with an error, as it may.", "",
        "| fault | | waited for | errors |", "|---|---|---|---|",
        *(describe(results, row[0]) for row in body), ""]
    if stops := undetectable(results):
        lines += ["## Stops that nobody can notice", "",
                  "Commands `stop` of the owner's at any moment (`owner-keeps-on`), and those that "
                  "found the machine stopped already, as QEMU's own log tells.", "",
                  "| command | stops | in a hold | share |", "|---|---|---|---|",
                  *(f"| {name} | {n} | {held} | {held / n:.1%} |"
                    for name, (n, held) in sorted(stops.items())), ""]
    if wrong := [result for result in results if result.outcome == "wrong"]:
        lines += ["## What was wrong", ""]
        for (fault, reason), n in collections.Counter(
                (result.task.fault.name, result.reason) for result in wrong).most_common():
            lines.append(f"- {fault}: {reason} ({n})")
        lines.append("")
    return "\n".join(lines)
