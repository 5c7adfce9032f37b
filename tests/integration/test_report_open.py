# SPDX-License-Identifier: MIT
"""report --open: what the browser gets, and what anybody else does not."""
import http.client
import json
import os
import pathlib
import signal
import socket
import tempfile
import unittest
import urllib.parse

import testbed
from test_record import MAY
from vmscope_command import start_vmscope, vmscope


@unittest.skipUnless(MAY, "the sysctl kernel.perf_event_paranoid forbids perf events")
class Open(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.file, cls.opened = cls.folder / "recording", cls.folder / "opened"
        cls.browser = cls.folder / "browser"
        cls.browser.write_text(f'#!/bin/sh\necho "$1" >{cls.opened}.new; mv {cls.opened}.new {cls.opened}\n')
        cls.browser.chmod(0o755)
        vmscope("record", "-F", "499", "-o", cls.file, "--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")

    def open(self, *options, browser=None):
        """Starts it; the address that the browser was given."""
        self.opened.unlink(missing_ok=True)
        process = start_vmscope("report", "--open", *options, self.file,
                                env={**os.environ, "BROWSER": str(browser or self.browser)})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        testbed.wait_for(self.opened.exists, "the browser")
        return process, self.opened.read_text().strip()

    def ask(self, address, method="GET", path=None, **headers):
        """(status, headers, body) of a request."""
        parts = urllib.parse.urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=testbed.ANSWER_SECONDS)
        try:
            connection.request(method, path or parts.path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def end(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(testbed.ANSWER_SECONDS), 0)

    def test_firefox(self):
        process, opened = self.open()
        self.assertTrue(opened.startswith("https://profiler.firefox.com/from-url/"))
        address = urllib.parse.unquote(opened.rsplit("/", 1)[1])
        self.assertRegex(address, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/profile\S+$")
        status, headers, body = self.ask(address)
        self.assertEqual(status, 200)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://profiler.firefox.com")
        same = vmscope("report", "--format", "firefox", self.file).out
        self.assertEqual(json.loads(body)["threads"], json.loads(same)["threads"])
        status, headers, body = self.ask(address, "OPTIONS")
        self.assertEqual((status, body), (204, b""))
        self.assertEqual(headers["Access-Control-Allow-Private-Network"], "true")
        self.assertEqual(self.ask(address, "HEAD")[0], 200)
        self.end(process)

    def test_picture(self):
        """The browser itself shows it: no other host is asked."""
        process, address = self.open("--format", "svg")
        status, headers, body = self.ask(address)
        self.assertEqual((status, headers["Content-Type"]), (200, "image/svg+xml"))
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        self.assertIn(b"<svg", body)
        self.end(process)

    def test_others(self):
        """Who does not know the path, or comes by another name, gets nothing; nobody is in the way."""
        process, address = self.open("--format", "svg")
        parts = urllib.parse.urlsplit(address)
        for path in ("/", "/profile.svg", parts.path + "x", f"/{'0' * 32}/profile.svg"):
            status, headers, body = self.ask(address, path=path)
            self.assertEqual((status, body), (404, b""))
        self.assertEqual(self.ask(address, Host=f"evil.example:{parts.port}")[0], 403)
        self.assertEqual(self.ask(address, "POST")[0], 405)
        slow = socket.create_connection((parts.hostname, parts.port))
        self.addCleanup(slow.close)
        slow.sendall(b"GET")
        for request in (b"\0" * 9000, b"GET / HTTP/1.1\r\nno field\r\n\r\n"):
            with socket.create_connection((parts.hostname, parts.port)) as rude:
                rude.sendall(request)
                self.assertIn(b"400 Bad Request", rude.recv(4096))
        self.assertEqual(self.ask(address)[0], 200)
        # Of all interfaces only the loopback one.
        listening = [line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()
                     if line.split()[3] == "0A" and line.split()[1].endswith(f":{parts.port:04X}")]
        self.assertEqual(listening, [f"0100007F:{parts.port:04X}"])
        self.end(process)

    def test_silent(self):
        """Connections that say nothing are in nobody's way until the time is over."""
        process, address = self.open("--format", "svg", "--open-for", "9")
        parts = urllib.parse.urlsplit(address)
        for _ in range(20):
            silent = socket.create_connection((parts.hostname, parts.port))
            self.addCleanup(silent.close)
        self.assertEqual(self.ask(address)[0], 200)
        self.end(process)

    def test_end(self):
        """It ends by itself when nobody asks; without a browser the address is printed."""
        process = start_vmscope("report", "--open", "--open-for", "0.5", self.file,
                                env={**os.environ, "BROWSER": "/no/such/browser"})
        _, said = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(said, r"until Ctrl-C: https://profiler\.firefox\.com/from-url/http%3A%2F%2F127")
        self.assertIn("no browser was opened", said)

    def test_errors(self):
        for arguments, status, message in (
                (("--open", "--format", "pprof", self.file), 1, "no viewer in a browser is known"),
                (("--open", "-o", self.folder / "x", self.file), 2, "takes the place of"),
                (("--open", "--open-for", "0", self.file), 2, "--open-for"),
                (("--open-for", "5", self.file), 2, "--open-for needs --open"),
                (("--stats", "--by", "address", self.file), 2, "--stats has no other options"),
                (("--json", self.file), 2, "--json needs --stats")):
            run = vmscope("report", *arguments, check=False)
            self.assertEqual(run.status, status, run.err)
            self.assertIn(message, run.err)


if __name__ == "__main__":
    unittest.main()
