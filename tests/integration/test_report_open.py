# SPDX-License-Identifier: MIT
"""report --open: what the browser gets, and what anybody else does not."""
import http.client
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import testbed
from test_record import MAY
from vmscope_command import start_vmscope, vmscope

NOBODY = 65534
needs_root = unittest.skipUnless(os.getuid() == 0, "only root can be another user")
# Becomes the user that is the first argument, which it removes.
BECOME = """
import contextlib, encodings.idna, http.client, os, random, resource, socket, sys, time, urllib.parse
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
user = int(sys.argv.pop(1))
if user != os.getuid():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
"""
# Prints the status of a request, or 0 if not a byte comes.
ASK = """
parts = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(parts.netloc, timeout=60)
try:
    connection.request("GET", parts.path)
    print(connection.getresponse().status)
except OSError:
    print(0)
"""
# Opens so many connections, says so, and keeps them.
CROWD = """
kept = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print(len(kept), flush=True)
time.sleep(1000)
"""
# For so many seconds, has up to 100 connections at once, each of which sends a byte and leaves; says how many.
SWING = """
port, end, count = int(sys.argv[1]), time.monotonic() + int(sys.argv[2]), 0
while time.monotonic() < end:
    crowd = []
    for _ in range(random.randrange(1, 100)):
        client = socket.socket()
        client.settimeout(1)
        with contextlib.suppress(OSError):
            client.connect(("127.0.0.1", port))
            client.send(b"G")
        crowd.append(client)
    count += len(crowd)
    for client in crowd:
        client.close()
print(count)
"""


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

    def start(self, *options, browser=None, **environment):
        """Starts it; the address for one use that the browser was given."""
        self.opened.unlink(missing_ok=True)
        process = start_vmscope("report", "--open", *options, self.file,
                                env={**os.environ, "BROWSER": str(browser or self.browser), **environment})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        testbed.wait_for(self.opened.exists, "the browser")
        once = self.opened.read_text().strip()
        self.assertRegex(once, r"^http://127\.0\.0\.1:\d+/open/[0-9a-f]{32}$")
        return process, once

    def open(self, *options):
        """Starts it, and goes where the browser is led to."""
        process, once = self.start(*options)
        status, headers, _ = self.ask(once)
        self.assertEqual(status, 303)
        return process, headers["Location"]

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

    def test_one_use(self):
        """Who comes second gets nothing, and the user is told: one of the two was not the browser."""
        process, once = self.start("--format", "svg")
        self.assertEqual(self.ask(once, "HEAD")[0], 405)  # does not count
        status, headers, _ = self.ask(once)
        self.assertEqual(status, 303)
        address = headers["Location"]
        for _ in range(2):  # the printed address, as often as one likes
            self.assertEqual(self.ask(address)[0], 200)
        status, headers, body = self.ask(once)
        self.assertEqual(status, 410)
        self.assertNotIn(urllib.parse.urlsplit(address).path.encode(), body)
        _, said = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"until Ctrl-C: {address}\n", said)
        self.assertRegex(said, "was used twice: another program of user .* may have read the profile")

    def run_as(self, user, script, *arguments):
        """Starts a Python script as another user, who need not be able to read our Python."""
        command = [sys.executable, "-c", BECOME + script, *map(str, (user, *arguments))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ask_as(self, user, address):
        """The status that a user gets, or 0: nothing."""
        asked = self.run_as(user, ASK, address)
        return int(asked.communicate(timeout=testbed.ANSWER_SECONDS)[0])

    @needs_root
    def test_another_user(self):
        """One who has the address, as the browser's arguments tell it, gets no byte, and does not use it up."""
        process, once = self.start("--format", "svg")
        self.assertEqual(self.ask_as(NOBODY, once), 0)
        status, headers, _ = self.ask(once)
        self.assertEqual(status, 303)
        self.assertEqual(self.ask_as(NOBODY, headers["Location"]), 0)
        self.assertEqual(self.ask(headers["Location"])[0], 200)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(said.count(f"refused a connection of user {NOBODY}"), 1)

    @needs_root
    def test_crowd(self):
        """A thousand connections of another user are in nobody's way."""
        process, address = self.open("--format", "svg")
        port = urllib.parse.urlsplit(address).port
        crowd = self.run_as(NOBODY, CROWD, port, 1000)
        self.assertEqual(crowd.stdout.readline(), "1000\n")
        self.assertEqual(self.ask(address)[0], 200)
        self.end(process)

    def test_swing(self):
        """Clients, also such as may connect, that send a byte and leave, so that connections swing about the limit."""
        process, address = self.open("--format", "svg")
        port = urllib.parse.urlsplit(address).port
        users = (NOBODY, os.getuid()) if os.getuid() == 0 else (os.getuid(),)
        crowd = [self.run_as(user, SWING, port, 3) for user in users]
        asked = 0
        while any(client.poll() is None for client in crowd):
            self.assertEqual(self.ask(address)[0], 200)
            asked += 1
        self.assertGreater(asked, 3)
        for client in crowd:
            self.assertGreater(int(client.stdout.read()), 100)
        self.assertEqual(self.ask(address)[0], 200)
        threads = pathlib.Path(f"/proc/{process.pid}/task")
        self.assertLess(len(list(threads.iterdir())), 8)
        self.end(process)

    @needs_root
    def test_sudo(self):
        """Behind sudo the profile is for the user who called it, and so is the browser."""
        self.folder.chmod(0o711)
        world, said = self.folder / "user", self.folder / "user" / "said"
        world.mkdir(exist_ok=True)
        os.chown(world, NOBODY, NOBODY)
        browser = self.folder / "sudo-browser"
        browser.write_text(f'#!/bin/sh\n(id -u; id -G; pwd; env) >{said}\n'
                           f'echo "$1" >{world}/new; mv {world}/new {world}/opened\n')
        browser.chmod(0o755)
        opened, self.opened = self.opened, world / "opened"
        self.addCleanup(setattr, self, "opened", opened)
        process, once = self.start("--format", "svg", browser=browser, SUDO_UID=str(NOBODY), SECRET="root's",
                                   XDG_RUNTIME_DIR="/run/user/0")
        uid, groups, place, *variables = said.read_text().splitlines()
        entry = pwd.getpwuid(NOBODY)
        self.assertEqual((uid, place), (str(NOBODY), "/"))
        self.assertNotIn("0", groups.split())
        self.assertIn(f"HOME={entry.pw_dir}", variables)
        self.assertIn(f"USER={entry.pw_name}", variables)
        self.assertFalse([line for line in variables if line.startswith(("SECRET=", "SUDO_", "XDG_RUNTIME_DIR=/run/user/0"))])
        self.assertEqual(self.ask_as(1, once), 0)
        self.assertEqual(self.ask_as(NOBODY, once), 303)
        self.end(process)

    @needs_root
    def test_sudo_uid(self):
        for wrong in ("", "-1", "4294967295", "1x"):
            run = vmscope("report", "--open", self.file, env={**os.environ, "SUDO_UID": wrong}, check=False)
            self.assertEqual(run.status, 2)
            self.assertIn("SUDO_UID is not the number of a user", run.err)
        run = vmscope("report", "--open", "--open-for", "0.1", self.file, check=False,
                      env={**os.environ, "SUDO_UID": "123456789"})
        self.assertEqual(run.status, 0)
        self.assertIn("does not know user 123456789", run.err)

    def test_no_browser(self):
        """Without a browser, or with one that fails, a line says what to do; it has the address with --quiet."""
        for browser, why in (("/no/such/browser", "No such file"), ("false", "code 1"), (None, "xdg-open")):
            environment = {**os.environ, "BROWSER": browser or ""}
            if not browser:
                environment["PATH"] = str(self.folder)
            run = vmscope("report", "--open", "--open-for", "0.5", self.file, env=environment)
            self.assertRegex(run.err, r"until Ctrl-C: https://profiler\.firefox\.com/from-url/http%3A%2F%2F127")
            self.assertRegex(run.err, f"no browser was opened: .*{why}.*: open the address above")
        run = vmscope("report", "--quiet", "--open", "--open-for", "0.5", self.file,
                      env={**os.environ, "BROWSER": "false"})
        self.assertRegex(run.err, r"no browser was opened: .*: open https://profiler\.firefox\.com/from-url/http")
        self.assertNotIn("until Ctrl-C", run.err)

    def test_end(self):
        """It ends by itself when nobody asks."""
        process = start_vmscope("report", "--open", "--open-for", "0.5", self.file,
                                env={**os.environ, "BROWSER": "/no/such/browser"})
        _, said = process.communicate(timeout=testbed.ANSWER_SECONDS)
        self.assertEqual(process.returncode, 0)
        self.assertNotIn("refused", said)

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
