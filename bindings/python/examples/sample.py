#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Where does a guest spend its time? As examples/sample.c: sample.py PID SECONDS"""
import sys

import vmscope

INTERVAL_US = 10000
FUNCTIONS = 20


def main(pid, seconds):
    with vmscope.Machine.open_pid(pid) as machine, \
            vmscope.SampleReport(machine, interval_us=INTERVAL_US) as report:
        report.start(seconds * 10**9)
        report.wait()
        with report.profile() as profile:
            functions = profile.functions()
    samples = sum(function.self for function in functions)
    for function in functions[:FUNCTIONS]:
        module = f" ({function.module})" if function.module else ""
        print(f"{100 * function.self / samples:6.2f} %  {function.name or '?'}{module}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except vmscope.Error as error:
        sys.exit(str(error))
