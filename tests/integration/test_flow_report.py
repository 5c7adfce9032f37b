# SPDX-License-Identifier: MIT
"""Saved flow reports: made on a guest, read when it has gone. The truth is what the guest's program did,
and a second decoder (flow_report_file.py)."""
import datetime
import decimal
import json
import pathlib
import resource
import signal
import tempfile
import unittest

import flow_report_file
import testbed
from test_agent_engine import LinuxGuest
from vmscope_command import start_vmscope, vmscope

CALLS = 60  # of the syscall of `probed`: its first argument is 77
STRING, BYTES = 4, (1, 3)  # kinds of entries


class Saved:
    """Of one architecture: a trace of `probed` beside other programs, and nothing else of a guest."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name) / "trace"
        guest = LinuxGuest(*cls.kernel[0], **cls.kernel[1])
        try:
            cls.trace(guest)
        finally:
            guest.stop()
        cls.truth = flow_report_file.Report(cls.path.read_bytes())

    @classmethod
    def trace(cls, guest):
        """The same records are shown and saved."""
        cls.began = datetime.datetime.now(datetime.timezone.utc)
        with start_vmscope("flow", "-v", "-p", guest.pid, "--json", "-o", "-", "-o", cls.path,
                           "--common", "cpu", "__fdget_pos=arg0,s64(0)",
                           "do_filp_open=str(u64(arg1),64),mem(arg1,8)",
                           "__fdget_pos:call=arg0;retval,duration") as process:
            next(line for line in process.stderr if "armed" in line)
            guest.run(f"sh -c 'cat /proc/uptime; exec probed calls {CALLS}'")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=testbed.ANSWER_SECONDS)
        *cls.shown, cls.summary = map(json.loads, out.splitlines())

    def report(self, *arguments, path=None, status=0):
        """The records, the counts of what is shown and saved, the summary of the trace, the warnings."""
        run = vmscope("flow", "report", path or self.path, "--json", *arguments, check=False)
        self.assertEqual(run.status, status, run.err)
        lines = [json.loads(line) for line in run.out.splitlines()]
        records = [line for line in lines if "sequence" in line]
        return records, lines[len(records):], run.err

    def sequences(self, *arguments, **options):
        return [record["sequence"] for record in self.report(*arguments, **options)[0]]

    def matching(self, condition):
        return [record["sequence"] for record in self.truth.records if condition(record)]

    def value(self, record, name):
        """The number of a known value, or None."""
        for found, kind, status, data in record["values"] + (record["returned"] or []):
            if found == name and status == "known" and kind != STRING:
                return int.from_bytes(data, "little")
        return None

    def test_all(self):
        """The file has what was shown, and so has the report when the guest has gone."""
        records, (counts, summary), warnings = self.report()
        self.assertEqual(records, self.shown)
        self.assertEqual(warnings, "")
        self.assertEqual(summary, self.summary)
        self.assertEqual((counts["shown"], counts["saved"], counts["missing"], counts["complete"]),
                         (len(records), len(records), 0, True))
        began = datetime.datetime.fromisoformat(counts["began"])
        self.assertLess(abs((began - self.began).total_seconds()), 600)
        self.assertEqual(len([record for record in records if record["comm"] == "probed" and
                              record["values"][0]["value"] == "0x4d"]), 2 * CALLS)  # and as calls

    def test_second_decoder(self):
        self.assertEqual(len(self.truth.records), len(self.shown))
        self.assertEqual(self.truth.count, len(self.shown))
        self.assertEqual(self.truth.progress, self.summary)
        for decoded, shown in zip(self.truth.records, self.shown):
            for key in ("sequence", "time_ns", "where", "moment", "cpu", "pid", "tid", "comm"):
                self.assertEqual(decoded[key], shown[key])
            self.assertEqual(decoded["address"], int(shown["address"], 16))
            self.assert_values(decoded["values"], shown["values"])
            self.assertEqual(decoded["duration_ns"], shown.get("duration_ns"))
            self.assert_values(decoded["returned"] or [], shown.get("returned", []))
        self.assertIn("call", {record["moment"] for record in self.truth.records})

    def assert_values(self, decoded, shown):
        self.assertEqual(len(decoded), len(shown))
        for (name, kind, status, data), value in zip(decoded, shown):
            self.assertEqual((name, status), (value["name"], value["status"]))
            if status == "unreadable":
                self.assertIsNone(value["value"])
            elif kind == STRING:
                self.assertEqual(data.decode(), value["value"])
            elif kind in BYTES:
                self.assertEqual(data.hex(), value["value"])
            else:
                self.assertEqual(int.from_bytes(data, "little"), int(value["value"], 16))

    def test_filters(self):
        probed = next(record for record in self.truth.records if record["comm"] == "probed")
        times = sorted(record["time_ns"] for record in self.truth.records)
        middle = times[len(times) // 2]
        for filters, condition in (
                (["comm=probed"], lambda r: r["comm"] == "probed"),
                (["comm=prob*", "arg0=77"],
                 lambda r: r["comm"] == "probed" and self.value(r, "arg0") == 77),
                (["arg0=70..80"], lambda r: self.value(r, "arg0") in range(70, 81)),
                (["value=77"], lambda r: any(self.value(r, value[0]) == 77 for value in r["values"] + (r["returned"] or []))),
                (['str(u64(arg1),64)="/proc/uptime"'],
                 lambda r: any(value[3] == b"/proc/uptime" for value in r["values"])),
                ([f"pid={probed['pid']}"], lambda r: r["pid"] == probed["pid"]),
                ([f"tid=..{probed['tid']}"], lambda r: r["tid"] <= probed["tid"]),
                (["sequence=5..9"], lambda r: 5 <= r["sequence"] <= 9),
                (["cpu=0"], lambda r: r["cpu"] == 0),
                (["where=do_*"], lambda r: r["where"] == "do_filp_open"),
                ([f"address={probed['address']:#x}"], lambda r: r["address"] == probed["address"]),
                ([f"time={middle / 1e9:.9f}.."], lambda r: r["time_ns"] >= middle - 500)):
            arguments = [word for text in filters for word in ("--filter", text)]
            with self.subTest(filters=filters):
                expected = self.matching(condition)
                self.assertTrue(0 < len(expected) < len(self.truth.records) or filters == ["cpu=0"])
                self.assertEqual(self.sequences(*arguments), expected)
                self.assertEqual(self.sequences(*arguments, "--reverse"),
                                 self.matching(lambda r: not condition(r)))

    def test_any(self):
        either = ["--any", "--filter", "sequence=1..3", "--filter", "arg0=77", "--filter", "sequence=2..5"]
        expected = self.matching(lambda r: r["sequence"] <= 5 or self.value(r, "arg0") == 77)
        self.assertEqual(self.sequences(*either), expected)
        others = self.matching(lambda r: r["sequence"] not in expected)
        self.assertEqual(self.sequences(*either, "--reverse"), others)

    def test_again(self):
        """What was filtered is saved, and filtered again; the counts of the trace stay."""
        once = pathlib.Path(self.folder.name) / "once"
        run = vmscope("flow", "report", self.path, "--filter", "comm=probed", "-o", once)
        self.assertEqual(run.out, "")
        records, (counts, summary), _ = self.report("--filter", "arg0=77", path=once)
        self.assertEqual(len(records), 2 * CALLS)
        self.assertEqual(summary, self.summary)
        self.assertEqual(counts["saved"], len(self.matching(lambda r: r["comm"] == "probed")))
        self.assertEqual({record["where"] for record in records}, {"__fdget_pos"})

    def test_text(self):
        out = vmscope("flow", "report", self.path, "--filter", "retval=0", "--filter", "comm=probed").out
        *lines, counts, summary = out.splitlines()
        self.assertEqual(len(lines), CALLS)
        for line in lines:
            self.assertRegex(line, r"^ +\d+\.\d{6}  cpu \d  probed \d+/\d+  __fdget_pos  arg0=77  cpu=\d  "
                                   r"->  retval=0  duration=\d+  \d+\.\d us$")
        self.assertRegex(counts, rf"^{CALLS} of {len(self.shown)} records of a trace of \d+-\d\d-\d\d ")
        self.assertRegex(summary, rf"^{len(self.shown)} hits")

    def test_damaged(self):
        """Whole records stay, and the damage is named."""
        data = self.path.read_bytes()
        offsets = [at for at, kind, _ in flow_report_file.pieces(data) if kind == flow_report_file.RECORD]
        broken = pathlib.Path(self.folder.name) / "broken"
        broken.write_bytes(data[:offsets[7]] + b"?" * 40 + data[offsets[7] + 40:])
        records, (counts, _), warnings = self.report(path=broken, status=1)
        self.assertEqual(records, self.shown[:7] + self.shown[8:])
        self.assertEqual((counts["missing"], counts["damaged_at"]), (1, offsets[7]))
        self.assertIn(f"damaged at byte {offsets[7]}:", warnings)
        self.assertIn("lacks 1 of its records", warnings)
        broken.write_bytes(data[:offsets[-1] + 3])
        records, (counts,), warnings = self.report("-q", path=broken, status=1)
        self.assertEqual((records, counts["complete"]), (self.shown[:-1], False))
        self.assertRegex(warnings, rf"^vmscope: {broken} is damaged at byte {offsets[-1]}: .* lacks its end: .*\n$")

    def test_unknown_begin(self):
        """Without the piece that tells when the trace began there is no date."""
        data = self.path.read_bytes()
        broken = pathlib.Path(self.folder.name) / "no-begin"
        for kept in data[30:], data[:20] + b"?" + data[21:]:
            broken.write_bytes(kept)
            run = vmscope("flow", "report", broken, check=False)
            self.assertEqual((run.status, len(run.err.splitlines())), (1, 1))
            self.assertIn("lacks its begin: times are those of the host's clock", run.err)
            count = len(self.shown)
            self.assertIn(f"\n{count} of {count} records of a trace of an unknown time\n", run.out)
            records, (counts, _), _ = self.report(path=broken, status=1)
            self.assertEqual((len(records), counts["began"]), (count, None))

    def timeline(self, *arguments):
        """The events of a timeline: hits and calls, and the names of tracks. Read by Python's decoder."""
        path = pathlib.Path(self.folder.name) / "timeline.json"
        run = vmscope("flow", "report", self.path, "--timeline", path, *arguments)
        self.assertIn(" records of a trace of ", run.out)
        events = json.loads(path.read_text(), parse_float=decimal.Decimal)["traceEvents"]
        names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"]
                 for event in events if event["ph"] == "M"}
        return [event for event in events if event["ph"] != "M"], names

    def test_timeline(self):
        """Times to the nanosecond, each event on a track that has a name."""
        events, names = self.timeline()
        comms = {}  # the last of each track: a shell becomes another program
        self.assertEqual(len(events), len(self.truth.records))
        for event, record in zip(events, self.truth.records):
            duration = record["duration_ns"] or 0
            self.assertEqual(event["ph"], "X" if record["moment"] == "call" else "i")
            self.assertEqual(event["ts"] * 1000, record["time_ns"] - duration)
            self.assertEqual(event.get("dur", 0) * 1000, duration)
            self.assertEqual((event["name"], event["args"]["cpu"], event["args"]["sequence"]),
                             (record["where"], record["cpu"], record["sequence"]))
            self.assertEqual((event["pid"], event["tid"]), (record["pid"], record["tid"]))
            comms[record["pid"], record["tid"]] = record["comm"]
            self.assertGreaterEqual(set(event["args"]), {value[0] for value in record["values"]})
        for kind in "process_name", "thread_name":
            self.assertEqual({(pid, tid): name for (key, pid, tid), name in names.items() if key == kind}, comms)

    def test_timeline_nests(self):
        """Viewers draw slices of a track that overlap without being in each other wrongly."""
        events, _ = self.timeline("--filter", "comm=probed")
        slices = sorted((event["ts"], -event["dur"]) for event in events if event["ph"] == "X")
        self.assertGreater(len(slices), CALLS - 1)
        open_ends = []
        for begin, duration in slices:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(begin - duration, open_ends[-1])
            open_ends.append(begin - duration)

    def test_timeline_without_room(self):
        run = vmscope("flow", "report", self.path, "--timeline", "/dev/full", check=False)
        self.assertEqual((run.status, len(run.err.splitlines())), (1, 1))
        self.assertIn("/dev/full", run.err)

    def test_wrong_words(self):
        letter = pathlib.Path(self.folder.name) / "letter"
        letter.write_text("Dear report, I am none. Sincerely yours")
        for arguments, status, message in (
                ([self.path, "--filter", "pid"], 2, "KEY=VALUE"),
                ([self.path, "--filter", "pid=me"], 2, "a number"),
                ([self.path, "--filter", "pid=9..3"], 2, "a number"),
                ([self.path, "--filter", "time=late"], 2, "seconds"),
                ([self.path, "--filter", "arg0=text"], 2, "in quotes"),
                ([self.path, "--filter", "arg0=hex:123"], 2, "bytes"),
                ([self.path, "--filter", "rdxx=1"], 2, "no record has a value with this name, but arg0, "),
                ([letter], 1, "is not a saved report"),
                ([f"{self.path}.none"], 1, "No such file"),
                ([self.path, "-o", letter, "-o", f"{letter}2"], 2, "one file"),
                ([], 2, "an argument is missing")):
            with self.subTest(arguments=arguments):
                run = vmscope("flow", "report", *arguments, check=False)
                self.assertEqual((run.status, run.out), (status, ""), run.err)
                self.assertEqual(len(run.err.splitlines()), 1)
                self.assertIn(message, run.err)

    def test_full_disk(self):
        """The error says what is there, and it is."""
        small = pathlib.Path(self.folder.name) / "small"
        many = pathlib.Path(self.folder.name) / "many"
        data = self.path.read_bytes()
        listed = list(flow_report_file.pieces(data))
        first = next(at for at, kind, _ in listed if kind == flow_report_file.RECORD)
        last = next(at for at, kind, _ in listed if kind == flow_report_file.END)
        times = (300 << 10) // (last - first) + 1
        many.write_bytes(data[:last] + data[first:last] * times)
        limit = 200 << 10
        run = vmscope("flow", "report", many, "-o", small, check=False,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(run.status, 1)
        said = run.err.splitlines()[-1]
        self.assertRegex(said, "only the first [0-9]+ of [0-9]+ records could be saved: .*File too large")
        number = int(said.split("first ")[1].split()[0])
        records, counts, _ = self.report(path=small, status=1)
        self.assertEqual((len(records), counts[0]["complete"]), (number, False))
        self.assertGreater(number, 100)


class Typed(unittest.TestCase):
    """Values that follow types are shown as they were when the guest was there."""
    NAME = "file->f_path.dentry->d_name.name"
    SPECS = ("rw_verify_area", f"vfs_write={NAME},count,file->f_path,file->f_inode,*file,"
             "((struct file *)8)->f_mode,((struct file *)file->f_pos)->f_path.dentry->d_name.name,"
             "current->comm", "vfs_write:call=(int)count,arg1;retval")

    def trace(self, guest, path, *arguments):
        with start_vmscope("flow", "-v", "-p", guest.pid, *arguments, "-o", "-", "-o", path, "--common",
                           "current->tgid", "--if", f'{self.NAME} == "typed"', *self.SPECS) as process:
            next(line for line in process.stderr if "armed" in line)
            guest.run("dd if=/dev/zero of=/tmp/typed bs=777 count=3 2>/dev/null")
            process.send_signal(signal.SIGINT)
            return process.communicate(timeout=testbed.ANSWER_SECONDS)[0].splitlines()

    def test_typed(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        as_text, as_json = (pathlib.Path(folder.name) / name for name in ("text", "json"))
        guest = LinuxGuest("6.1")
        try:
            *lines, _ = self.trace(guest, as_text)
            *objects, _ = self.trace(guest, as_json, "--json")
        finally:
            guest.stop()
        self.assertEqual(len(lines), 9)
        self.assertTrue(any("count=777" in line and "(unreadable)" in line and '"typed"' in line
                            for line in lines))
        self.assertEqual(vmscope("flow", "report", as_text).out.splitlines()[:-2], lines)
        out = vmscope("flow", "report", "--json", as_json).out.splitlines()
        self.assertEqual(out[:-2], objects)
        shown = [[value["text"] for value in record["values"] + record.get("returned", [])
                  if "text" in value] for record in map(json.loads, objects)]
        self.assertEqual(flow_report_file.Report(as_json.read_bytes()).texts, shown)
        self.assertEqual(sum(map(len, shown)), 3 * (5 + 9 + 4))
        self.filter(as_json, folder)

    def filter(self, path, folder):
        """By numbers and texts; what was saved again has the same text."""
        again = pathlib.Path(folder.name) / "again"
        vmscope("flow", "report", path, "-o", again)
        for filters, count in ((["count=777"], 6), (["retval=777"], 3), (["current->comm=\"dd\""], 3),
                               ([f'{self.NAME}="typed"'], 3), ([f'{self.NAME}="type"'], 0),
                               (["current->tgid=1.."], 9)):
            arguments = [word for text in filters for word in ("--filter", text)]
            for file in path, again:
                with self.subTest(filters=filters, file=file.name):
                    out = vmscope("flow", "report", *arguments, file).out.splitlines()
                    self.assertEqual(len(out) - 2, count)
        self.assertEqual(vmscope("flow", "report", again).out, vmscope("flow", "report", path).out)


class X86(Saved, unittest.TestCase):
    kernel = ("6.1",), {}
