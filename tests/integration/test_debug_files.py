# SPDX-License-Identifier: MIT
"""Names of a guest's program that has no symbols, from files of the host: only of the same build."""
import base64
import contextlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

import linux_guest
from test_names import read_functions
from testbed import GUESTS
from vmscope_command import vmscope

PROGRAM = GUESTS / "sorts"
FUNCTION = "compare_numbers"


def build_id_of(path):
    notes = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


@contextlib.contextmanager
def serve(answer):
    """A debuginfod server: `answer` gives the bytes for a path, or None. Its URL, and the paths asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = answer(self.path)
            with contextlib.suppress(ConnectionError):  # it was given up
                self.send_response(200 if content else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


class Stripped:
    """A guest in which a program runs whose symbols are on the host."""

    @classmethod
    def setUpClass(cls):
        cls.guest = linux_guest.LinuxGuest("6.12")
        cls.addClassCleanup(cls.guest.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        stripped = cls.folder / "stripped"
        subprocess.run(["strip", "-o", stripped, PROGRAM], check=True)
        cls.build_id = build_id_of(PROGRAM)
        cls.by_id = f".build-id/{cls.build_id[:2]}/{cls.build_id[2:]}.debug"
        cls.empty, cls.debug = cls.folder / "empty", cls.folder / "debug"
        cls.empty.mkdir()
        (cls.debug / cls.by_id).parent.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", PROGRAM, cls.debug / cls.by_id], check=True)
        content = base64.b64encode(stripped.read_bytes()).decode()
        cls.guest.run(f"echo {content} | base64 -d >/tmp/stripped && chmod +x /tmp/stripped")
        cls.pid = cls.guest.run("/tmp/stripped >/dev/null 2>&1 & echo $!").strip()
        maps = [line.split() for line in cls.guest.run(f"cat /proc/{cls.pid}/maps").splitlines()]
        first = next(words for words in maps if words[-1] == "/tmp/stripped")
        place, = (place for place, names in read_functions(PROGRAM).items() if FUNCTION in names)
        cls.right = f"{int(first[0].split('-')[0], 16) + place:016x} T {FUNCTION}\t[/tmp/stripped]\n"

    def symbol(self, *options, environment=None):
        return vmscope("symbol", "--task", self.pid, FUNCTION, *options, *self.guest.target, check=False,
                       env={**os.environ, "DEBUGINFOD_URLS": "", **(environment or {})})

    def ask_server(self, url, **environment):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        return self.symbol("--debug-dir", self.empty,
                           environment={"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": cache.name,
                                        **environment})

    def check_missing(self, run):
        self.assertEqual((run.status, run.out), (1, ""))
        self.assertIn(f'no function "{FUNCTION}" is known', run.err)

    def make_sysroot(self, file):
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (root / "tmp").mkdir()
        shutil.copy(file, root / "tmp/stripped")
        return root


class DebugFiles(Stripped, unittest.TestCase):
    def test_without(self):
        self.check_missing(self.symbol("--debug-dir", self.empty))

    def test_by_build_id(self):
        for folder in (self.debug, self.debug / ".build-id"):
            self.assertEqual(self.symbol("--debug-dir", self.empty, "--debug-dir", folder).out, self.right)

    def test_sysroot(self):
        root = self.make_sysroot(PROGRAM)
        self.assertEqual(self.symbol("--debug-dir", self.empty, "--sysroot", root).out, self.right)
        # A stripped copy beside its symbols, as packages install them.
        root = self.make_sysroot(self.folder / "stripped")
        shutil.copytree(self.debug, root / "usr/lib/debug")
        self.assertEqual(self.symbol("--debug-dir", self.empty, "--sysroot", root).out, self.right)

    def test_link_that_leads_out(self):
        root = self.make_sysroot(PROGRAM)
        (root / "tmp/stripped").unlink()
        (root / "tmp/stripped").symlink_to(PROGRAM)
        self.check_missing(self.symbol("--debug-dir", self.empty, "--sysroot", root))

    def test_another_build(self):
        other = GUESTS / "libc.so.6"
        root = self.make_sysroot(other)
        run = self.symbol("--debug-dir", self.empty, "--sysroot", root)
        self.check_missing(run)
        said = [line for line in run.err.splitlines() if str(root / "tmp/stripped") in line]
        self.assertEqual(len(said), 1, run.err)
        self.assertIn(build_id_of(other), said[0])
        self.assertIn(self.build_id, said[0])

    def test_missing_directory(self):
        self.assertIn("--debug-dir /nowhere: it must be a directory",
                      self.symbol("--debug-dir", "/nowhere").err)

    def test_sample(self):
        text = vmscope("sample", "-t", "1", "--debug-dir", self.debug, *self.guest.target).out
        self.assertRegex(text, rf"{FUNCTION}(\+0x[0-9a-f]+)? \(/tmp/stripped\)")

    @unittest.skipUnless(shutil.which("debuginfod-find"), "there is no debuginfod-find")
    def test_server(self):
        content = (self.debug / self.by_id).read_bytes()
        path = f"/buildid/{self.build_id}/debuginfo"
        with serve({path: content}.get) as (url, asked):
            self.assertEqual(self.ask_server(url).out, self.right)
            self.assertIn(path, asked)

    @unittest.skipUnless(shutil.which("debuginfod-find"), "there is no debuginfod-find")
    def test_server_that_lies(self):
        other = (GUESTS / "libc.so.6").read_bytes()
        with serve(lambda _path: other) as (url, asked):
            run = self.ask_server(url)
            self.check_missing(run)
            self.assertTrue(asked)
        self.assertIn(f"{build_id_of(GUESTS / 'libc.so.6')}, not {self.build_id}", run.err)


if __name__ == "__main__":
    unittest.main()
