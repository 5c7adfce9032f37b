# SPDX-License-Identifier: MIT
"""Reads and checks a data directory of uftrace, as its own readers see it.

Written from the format, not from the writer that is tested: `info`, `task.txt`, `sid-*.map`,
`*.sym` and the records of `*.dat`.
"""
import array
import bisect
import collections
import operator
import pathlib
import re
import struct

ENTRY, EXIT, LOST, EVENT = range(4)
MAGIC = 5
MAX_DEPTH = 1023
ADDRESS_MASK = (1 << 48) - 1
ERRORS_SHOWN = 10

Task = collections.namedtuple("Task", "tid pid time")
Session = collections.namedtuple("Session", "sid pid time exename")
Map = collections.namedtuple("Map", "start end protection image")


class Place(collections.namedtuple("Place", "image name offset")):
    """Where an address lies: `offset` bytes from the symbol's begin."""

    @property
    def file(self):
        return re.sub(r"~\d+$", "", self.image.rsplit("/", 1)[-1])



class Symbols:
    """A .sym file: addresses are relative to the image's mapping."""

    def __init__(self, path):
        self.names = {}  # address: name
        self.types = {}
        previous = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#"):
                continue
            match = re.fullmatch(r"([0-9a-f]{12,16}) (?:([0-9a-f]{8,16}) )?([A-Za-z?]) (\S.*)", line)
            if not match:
                raise ValueError(f"{path.name}:{number}: not a symbol: {line!r}")
            address = int(match[1], 16)
            if previous is not None and address < previous:
                raise ValueError(f"{path.name}:{number}: not sorted: {line!r}")
            previous = address
            if match[3] != "?":  # an end mark
                self.names.setdefault(address, match[4])
            self.types.setdefault(address, match[3])
        self.sorted = sorted(self.types)

    def find(self, address):
        """Name and distance of the symbol at or before an address, or None."""
        i = bisect.bisect_right(self.sorted, address) - 1
        if i < 0 or self.types[self.sorted[i]] == "?":
            return None
        return self.names[self.sorted[i]], address - self.sorted[i]


class Stream:
    """The records of a task: `<tid>.dat`."""

    def __init__(self, path):
        self.tid = int(path.stem)
        data = path.read_bytes()
        self.cut = len(data) % 16  # bytes of a record that was not written to its end
        values = array.array("Q", data[:len(data) - self.cut])
        self.times, self.words = values[0::2], values[1::2]

    def __len__(self):
        return len(self.words)

    def count_lost(self):
        """What LOST records say."""
        return sum(word >> 16 for word in self.words if word & 3 == LOST)

    def check(self, excused=False):
        """Everything that is wrong with the records, as a list of words on it.

        Sets `open`, the addresses of the calls without an exit, outermost first, and `lost`: after
        records of that kind, or where some are missing as is known (`excused`), exits and entries
        need not meet.
        """
        errors = []
        stack = []
        self.lost = 0
        if self.cut:
            errors.append(f"{self.tid}: {self.cut} bytes after the last whole record")
        if not all(map(operator.le, self.times, self.times[1:])):
            i = next(i for i in range(1, len(self)) if self.times[i] < self.times[i - 1])
            errors.append(f"{self.tid}: record {i} is {self.times[i - 1] - self.times[i]} ns before "
                          "the one before it")
        entry, leave = MAGIC << 3 | ENTRY, MAGIC << 3 | EXIT
        push, pop = stack.append, stack.pop
        depth = 0
        for i, word in enumerate(self.words):
            low = word & 0x3f
            if low == entry:
                if word >> 6 & 1023 != depth and (depth < MAX_DEPTH or
                                                  word >> 6 & 1023 != MAX_DEPTH) and not excused:
                    errors.append(f"{self.tid}: record {i}: entry of {word >> 16:#x} at depth "
                                  f"{word >> 6 & 1023}, {depth} calls are open")
                push(word)
                depth += 1
                continue
            if low == leave:
                if stack and stack[-1] == word - 1:
                    pop()
                    depth -= 1
                    continue
                if excused and stack:
                    while word - 1 in stack and pop() != word - 1:
                        pass
                elif stack:
                    errors.append(f"{self.tid}: record {i}: exit of {word >> 16:#x} at depth "
                                  f"{word >> 6 & 1023}, open is {stack[-1] >> 16:#x} at "
                                  f"{stack[-1] >> 6 & 1023}")
                    pop()
                elif not excused:
                    errors.append(f"{self.tid}: record {i}: exit of {word >> 16:#x}, no call is "
                                  "open")
                depth = len(stack)
            elif low == MAGIC << 3 | LOST:
                self.lost += word >> 16
                excused = True
            else:
                errors.append(f"{self.tid}: record {i}: {word:#x} is no record")
            if len(errors) > ERRORS_SHOWN:
                errors.append("…")
                break
        self.open = [word >> 16 for word in stack]
        return errors

    def entries(self):
        """Calls by address of the function."""
        counts = collections.Counter()
        for word, n in collections.Counter(self.words).items():
            if word & 3 == ENTRY:
                counts[word >> 16] += n
        return counts

    def edges(self):
        """Calls by (caller, callee); the caller of an outermost call is None."""
        counts = collections.defaultdict(int)
        stack = [None]
        for word in self.words:
            if word & 3 == ENTRY:
                address = word >> 16
                counts[stack[-1], address] += 1
                stack.append(address)
            elif word & 3 == EXIT and len(stack) > 1:
                stack.pop()
        return counts


class Trace:
    """A data directory. Streams are read when asked for."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.info = self._read_info()
        self.tasks, self.sessions = self._read_tasks()
        self.maps = {session.sid: self._read_map(session.sid) for session in self.sessions}
        self._symbols = {}
        self._places = {}
        self._entries = {}
        self.ids = sorted(int(path.stem) for path in self.directory.glob("[0-9]*.dat"))

    def _read_info(self):
        data = (self.directory / "info").read_bytes()
        magic, version, size, endian, size_class, features, self.info_mask, self.max_stack = \
            struct.unpack_from("<8sIHBBQQH", data)
        if magic != b"Ftrace!\0" or version not in (3, 4) or size != 40 or endian != 1 or \
                size_class != 2:
            raise ValueError(f"info: bad header: {data[:40]!r}")
        self.features = features
        info = {}
        for line in data[size:].decode().splitlines():
            key, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"info: not a line of it: {line!r}")
            info.setdefault(key, []).append(value)
        return info

    def _read_tasks(self):
        tasks, sessions = {}, []
        for line in (self.directory / "task.txt").read_text().splitlines():
            kind, _, rest = line.partition(" ")
            fields = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', rest))
            time = sum(int(part) * unit for part, unit in
                       zip(fields["timestamp"].split("."), (10**9, 1)))
            if kind == "SESS":
                sessions.append(Session(fields["sid"], int(fields["pid"]), time,
                                        fields["exename"].strip('"')))
            elif kind == "TASK":
                tasks[int(fields["tid"])] = Task(int(fields["tid"]), int(fields["pid"]), time)
            elif kind == "FORK":
                tasks[int(fields["pid"])] = Task(int(fields["pid"]), int(fields["pid"]), time)
            else:
                raise ValueError(f"task.txt: not a line of it: {line!r}")
        return tasks, sessions

    def _read_map(self, sid):
        """As uftrace does: [stack] is not an image; neighbours of one path are one mapping."""
        maps = []
        for line in (self.directory / f"sid-{sid}.map").read_text().splitlines():
            match = re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) [0-9a-f]+ \S+ \d+\s+(\S+).*",
                                 line)
            if not match:
                raise ValueError(f"sid-{sid}.map: not a line of it: {line!r}")
            start, end = int(match[1], 16), int(match[2], 16)
            if match[4].startswith("["):
                continue
            if maps and maps[-1].image == match[4]:
                maps[-1] = maps[-1]._replace(end=end)
            else:
                maps.append(Map(start, end, match[3], match[4]))
        return maps

    def streams(self):
        """One after another, so that the memory of one is enough."""
        for tid in self.ids:
            yield self.stream(tid)

    def stream(self, tid):
        return Stream(self.directory / f"{tid}.dat")

    def name_of_task(self, tid):
        """By the taskinfo of `info` or the session of its own."""
        for session in self.sessions:
            if session.pid == tid:
                return session.exename.rsplit("/")[-1]
        return None

    def check(self, lost_some=False):
        """What is wrong, in words; every data file has its task and all records are in order.

        A ring holds records of several tasks; which of them it lost is told of one.
        """
        errors = []
        self.lost = sum(self.stream(tid).count_lost() for tid in self.ids) if lost_some else 0
        self.open = {}
        for stream in self.streams():
            if stream.tid not in self.tasks:
                errors.append(f"{stream.tid}.dat: task.txt does not know this task")
            errors += stream.check(excused=self.lost > 0)
            self.lost += 0 if lost_some else stream.lost
            if stream.open:
                self.open[stream.tid] = stream.open
        return errors

    def symbols(self, image):
        """Of the image's .sym file, or None."""
        name = image.rsplit("/", 1)[-1]
        if name not in self._symbols:
            path = self.directory / f"{name}.sym"
            self._symbols[name] = Symbols(path) if path.exists() else None
        return self._symbols[name]

    def place(self, tid, address):
        """Where an address of a task's record lies, or None when no mapping has it."""
        pid = self.tasks[tid].pid if tid in self.tasks else tid
        own = [session for session in self.sessions if session.pid == pid] or self.sessions
        session = own[-1]
        key = session.sid, address
        if key not in self._places:
            self._places[key] = self._find_place(self.maps[session.sid], address)
        return self._places[key]

    def _find_place(self, maps, address):
        for mapping in maps:
            if mapping.start <= address < mapping.end:
                symbols = self.symbols(mapping.image)
                found = symbols.find(address - mapping.start) if symbols else None
                name, offset = found or (None, address - mapping.start)
                return Place(mapping.image, name, offset)
        return None

    def entries_of(self, tid):
        """Calls by address, in one stream. Its file does not change any more."""
        if tid not in self._entries:
            self._entries[tid] = self.stream(tid).entries()
        return self._entries[tid]

    def entries(self, tids=None):
        """Calls by address, over these tasks (all)."""
        counts = collections.Counter()
        for tid in self.ids if tids is None else tids:
            counts.update(self.entries_of(tid))
        return counts

    def calls(self, tids=None, image=None):
        """Calls by name, over these tasks (all), in images of this name (all).

        An image's name ends in ~2 and so on where several are called alike.
        """
        counts = collections.Counter()
        for tid in self.ids if tids is None else tids:
            for address, n in self.entries_of(tid).items():
                place = self.place(tid, address)
                if place and place.name and image in (None, place.file):
                    counts[place.name if place.offset == 0 else
                           f"{place.name}+{place.offset:#x}"] += n
        return counts

    def tids_of(self, pids):
        return [tid for tid in self.ids if tid in self.tasks and self.tasks[tid].pid in pids]
