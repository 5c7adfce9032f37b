# SPDX-License-Identifier: MIT
"""Reads a saved flow report: a decoder of its own, after docs/flow-report.md alone."""
import struct
import zlib

NONE = 0xffffffff
BEGIN, PROBE, PLACE, RECORD, END = range(1, 6)
CALLBACK, HALT, TYPED = 5, 6, 7
STRING = 4
POINTER, TEXT = 1, 2  # flags of an entry with a type
STATUSES = ["known", "unreadable", "cut"]


class Body:
    """Takes fields one after another."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text(self):
        size = self.take("I")
        if size == NONE:
            return None
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self):
        status, size = self.take("HH")
        self.at += size
        return STATUSES[status], self.data[self.at - size:self.at]


def pieces(data):
    """(offset, kind, body) of every piece. The file must be whole."""
    magic, version, check = struct.unpack_from("<8sII", data)
    assert (magic, version, check) == (b"VMSFLOW\n", 1, zlib.crc32(data[:12]))
    at = 16
    while at < len(data):
        check, kind, size = struct.unpack_from("<III", data, at)
        assert check == zlib.crc32(data[at + 4:at + 12 + size]), f"piece at {at}"
        yield at, kind, Body(data[at + 12:at + 12 + size])
        at += 12 + size


class Report:
    """The records of a file as dictionaries, in the words of `vmscope flow --json`."""

    def __init__(self, data):
        self.records, self.probes, self.places = [], {}, {}
        self.texts = []  # of the values with types, for each record
        for _, kind, body in pieces(data):
            if kind == BEGIN:
                self.begin_ns, self.begin_real_ns = body.take("QQ")
            elif kind == PROBE:
                self._add_probe(body)
            elif kind == PLACE:
                self._add_place(body)
            elif kind == RECORD:
                self.records.append(self._record(body))
            elif kind == END:
                self.count, *counts = body.take("QQQQQQ")
                self.progress = dict(zip(("records", "dropped", "rejected", "unknown", "lost"), counts))

    def _add_probe(self, body):
        number, _, n = body.take("I"), body.text(), body.take("I")
        self.probes[number] = [self._entry(body) for _ in range(n)]

    @staticmethod
    def _entry(body):
        """Name, kind, flags, type."""
        kind, name = body.take("I"), body.text()
        flags, type_ = (body.take("I"), body.text()) if kind == TYPED else (0, None)
        return name, kind, flags, type_

    def _add_place(self, body):
        number, flags, probe, common, returned, va = body.take("IIIIIQ")
        entries = self.probes[probe] + (self.probes[common] if common != NONE else [])
        self.places[number] = flags, entries, self.probes.get(returned), va, body.text()

    def _record(self, body):
        sequence, time_ns, place, vcpu, *_ = body.take("QQIIIII")
        flags, entries, returned, va, where = self.places[place]
        task = [body.value()[1] for _ in range(3)] if flags & 2 else None
        values = self._values(body, entries)
        duration = None if returned is None else int.from_bytes(body.value()[1], "little")
        at_return = None if returned is None else self._values(body, returned)
        self.texts.append([body.text() for entry in entries + (returned or []) if entry[3] is not None])
        assert body.at == len(body.data)
        tid, pid = (int.from_bytes(part, "little") for part in task[:2]) if task else (None, None)
        return {"sequence": sequence, "time_ns": time_ns - self.begin_ns, "address": va, "where": where,
                "moment": "after" if flags & 1 else "before" if returned is None else "call",
                "duration_ns": duration, "returned": at_return, "cpu": vcpu, "tid": tid, "pid": pid,
                "comm": task and task[2].rstrip(b"\0").decode(), "values": values}

    @staticmethod
    def _values(body, entries):
        """(name, kind, status, bytes) of each; the kind of what is text is that of strings."""
        values = []
        for name, kind, flags, _ in entries:
            if kind in (CALLBACK, HALT):
                continue
            status, data = body.value()
            if flags & POINTER:
                body.value()
            if flags & TEXT:
                kind, data = STRING, data.split(b"\0")[0]
            values.append((name, kind, status, data))
        return values
