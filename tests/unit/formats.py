#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What readers that are not ours make of exported profiles: formats.py MAKE_FORMATS.

Each reader here is written from the format's own description, and decodes protobuf by itself. The truth
is what make_formats.c wrote down of each sample that it made up.
"""
import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SAMPLES = 3000
Sample = collections.namedtuple("Sample", "time_ns vcpu pid tid frames")


def clean(data):
    """Names of guests as all reports show them: no bytes that are not text, no control characters."""
    text = data.decode(errors="surrogateescape")
    return "".join("?" if ord(char) < 0x20 or 0xdc80 <= ord(char) <= 0xdcff else char for char in text)


def read_truth(path):
    for line in path.read_text().splitlines():
        time_ns, vcpu, pid, tid, _, *frames = line.split(" ")
        yield Sample(int(time_ns), int(vcpu), int(pid), int(tid),
                     tuple(clean(bytes.fromhex(frame)) for frame in frames))


# ---- protobuf (https://protobuf.dev/programming-guides/encoding)

def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """The fields of a message: number and value, in their order."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, value


def message(data):
    found = collections.defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def numbers(values):
    """A repeated number: packed, or one by one."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = read_varint(value, at)
            yield number


# ---- readers: (vCPU, pid, tid, frames with the outermost first) of each sample

def read_pprof(path):
    """https://github.com/google/pprof/blob/main/proto/profile.proto"""
    profile = message(gzip.decompress(path.read_bytes()))
    strings = [text.decode() for text in profile[6]]
    assert strings[0] == "" and len(profile[1]) > 0
    functions = {function[1][0]: strings[function[2][0]] for function in map(message, profile[5])}
    locations = {location[1][0]: [functions[message(line)[1][0]] for line in location[4]]
                 for location in map(message, profile[4])}
    assert 0 not in functions and 0 not in locations
    for sample in map(message, profile[2]):
        values = list(numbers(sample[2]))
        assert len(values) == len(profile[1])
        labels = {strings[label[1][0]]: label[3][0] if label[3] else strings[label[2][0]] if label[2] else 0
                  for label in map(message, sample[3])}
        frames = [name for location in numbers(sample[1]) for name in locations[location]]
        for _ in range(values[0]):
            yield labels, tuple(reversed(frames))


def read_firefox(path):
    """https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.js"""
    profile = json.loads(path.read_text())
    shared = profile["shared"]
    strings = shared["stringArray"]
    names = [strings[name] for name in shared["funcTable"]["name"]]
    frames = [names[function] for function in shared["frameTable"]["func"]]
    stacks = shared["stackTable"]

    def frames_of(stack):
        found = []
        while stack is not None:
            found.append(frames[stacks["frame"][stack]])
            stack = stacks["prefix"][stack]
        return tuple(reversed(found))
    assert stacks["length"] == len(stacks["frame"]) == len(stacks["prefix"])
    for thread in profile["threads"]:
        samples = thread["samples"]
        assert samples["length"] == len(samples["stack"]) == len(samples["time"])
        assert samples["time"] == sorted(samples["time"])
        yield thread["name"], [frames_of(stack) for stack in samples["stack"]]


def read_speedscope(path):
    """https://www.speedscope.app/file-format-schema.json"""
    file = json.loads(path.read_text())
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    for profile in file["profiles"]:
        assert profile["type"] == "sampled" and len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) <= profile["endValue"] - profile["startValue"]
        yield profile["name"], [(weight, tuple(frames[frame] for frame in sample))
                                for weight, sample in zip(profile["weights"], profile["samples"])]


HEAD = re.compile(r"(\S+) +(\d+)/(\d+) +\[(\d+)\] +(\d+)\.(\d+): +(\d+) (\S+): $")
FRAME = re.compile(r"\t *([0-9a-f]+) (.+) \((\S+)\)$")  # as FlameGraph's stackcollapse-perf.pl splits it


def read_perf(path):
    """The text of `perf script`."""
    for block in path.read_text().split("\n\n")[:-1]:
        head, *lines = block.split("\n")
        _, pid, tid, vcpu, seconds, micros, _, _ = HEAD.match(head).groups()
        frames = [FRAME.match(line)[2] for line in lines]
        yield Sample(int(seconds) * 10**9 + int(micros) * 1000, int(vcpu), int(pid), int(tid),
                     tuple(reversed(frames)))


def read_perfetto(path):
    """https://github.com/google/perfetto/tree/main/protos/perfetto/trace"""
    names, frames, stacks = {}, {}, {}
    for packet in map(message, message(path.read_bytes())[1]):
        for interned in map(message, packet[12]):
            for text in map(message, interned[5]):
                names[text[1][0]] = text[2][0].decode()
            for frame in map(message, interned[6]):
                frames[frame[1][0]] = names[frame[2][0]]
            for stack in map(message, interned[7]):
                stacks[stack[1][0]] = tuple(frames[frame] for frame in numbers(stack[2]))
        for sample in map(message, packet[66]):
            yield Sample(packet[8][0], sample[1][0] if sample[1] else 0, sample[2][0], sample[3][0],
                         stacks[sample[4][0]] if sample[4] else ())


# ---- tests

def plain(frames):
    """Letters and digits alone: what `perf script` cannot say is left out."""
    return tuple("".join(re.findall(r"[A-Za-z0-9]", frame)) for frame in frames)


def last(frames, sample):
    """The frames without what stands for a process or a vCPU before them."""
    return frames[len(frames) - len(sample):] if sample else ()


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([cls.program, "truth", str(SAMPLES), folder.name], check=True)
        cls.truth = list(read_truth(cls.folder / "truth"))

    def path(self, suffix):
        return self.folder / f"r{suffix}"

    def assert_stacks(self, found, expected):
        """The same stacks as often; those found may have a process before them."""
        without = collections.Counter()
        wanted = collections.Counter(expected)
        for frames in found:
            for skipped in range(3):  # a process, a vCPU
                if frames[skipped:] in wanted:
                    without[frames[skipped:]] += 1
                    break
            else:
                self.fail(f"{frames} was not sampled")
        self.assertEqual(without, wanted)

    def test_pprof(self):
        samples = list(read_pprof(self.path(".pb.gz")))
        self.assert_stacks([frames for _, frames in samples], [sample.frames for sample in self.truth])
        self.assertEqual(collections.Counter(labels.get("tid", 0) for labels, _ in samples),
                         collections.Counter(sample.tid for sample in self.truth))

    def test_firefox(self):
        threads = list(read_firefox(self.path(".json")))
        found = [frames for name, samples in threads if name.startswith("vCPU ") for frames in samples]
        self.assert_stacks(found, [sample.frames for sample in self.truth])
        others = sum(len(samples) for name, samples in threads if not name.startswith("vCPU "))
        self.assertEqual(others, sum(sample.pid != 0 for sample in self.truth))

    def test_speedscope(self):
        profiles = list(read_speedscope(self.path(".speedscope.json")))
        weights = collections.Counter()
        for name, samples in profiles:
            if name.startswith("vCPU "):
                for weight, frames in samples:
                    weights[frames] += weight
        interval = 1000000
        found = [frames for frames, weight in weights.items() for _ in range(round(weight / interval))]
        self.assert_stacks(found, [sample.frames for sample in self.truth])

    def test_perf(self):
        samples = list(read_perf(self.path(".perf")))
        self.assertEqual(len(samples), SAMPLES)
        for sample, truth in zip(samples, sorted(self.truth)):
            self.assertEqual(sample.time_ns, truth.time_ns // 1000 * 1000)
            self.assertEqual((sample.vcpu, sample.pid, sample.tid), (truth.vcpu, truth.pid, truth.tid))
            self.assertEqual(plain(last(sample.frames, truth.frames)), plain(truth.frames))

    def test_perfetto(self):
        samples = list(read_perfetto(self.path(".pftrace")))
        tasks = [sample for sample in sorted(self.truth) if sample.pid != 0]
        found = [sample for sample in samples if sample.pid < 4194305]
        self.assertEqual(len(found), len(tasks))
        for sample, truth in zip(found, tasks):
            self.assertEqual(sample[:4], truth[:4])
            self.assertEqual(last(sample.frames, truth.frames), truth.frames)

    def test_gzip(self):
        """Any format, where the file's name says so."""
        path = self.folder / "x.perf.gz"
        subprocess.run([self.program, "time", "100", str(path)], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(gzip.decompress(path.read_bytes()).count(b"cpu-clock"), 100)


if __name__ == "__main__":
    Formats.program = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
