# SPDX-License-Identifier: MIT
"""What a real browser makes of `report --open`: the flame graph with names that try to be markup, and which
pages may read the profile."""
import http.client
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

import testbed
from browser import Browser, have_browser
from test_record import MAY
from test_record_guest import folded
from vmscope_command import start_vmscope, vmscope

PROFILER = "profiler.firefox.com"
ESCAPE = "\ue00c"
NAMES = ("<script>window.hacked=1</script>", "]]></script><script>window.hacked=1</script>",
         "--><svg onload=\"window.hacked=1\">", "a\"onload='window.hacked=1'&amp;b c", "esc\x1b[31m", "back\\u003cslash</g>")
SOURCE = """
#include <time.h>
static volatile unsigned long sum;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
""" + "".join(f"void f{i}(void) {{ for (double end = now() + .3; now() < end;) for (int i = 0; i < 99999; i++) sum += i; }}\n"
              for i in range(len(NAMES))) + "int main(void) { %s return 0; }" % "".join(f"f{i}(); " for i in range(len(NAMES)))


class Pages(http.server.BaseHTTPRequestHandler):
    """An empty page, of whatever host it is asked for."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@unittest.skipUnless(MAY and have_browser(), "needs perf events, chromium and chromium-driver")
class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.file, cls.opened, cls.opener = cls.folder / "recording", cls.folder / "opened", cls.folder / "opener"
        cls.opener.write_text(f'#!/bin/sh\necho "$1" >{cls.opened}.new; mv {cls.opened}.new {cls.opened}\n')
        cls.opener.chmod(0o755)
        (cls.folder / "program.c").write_text(SOURCE)
        code, renamed, program = (cls.folder / name for name in ("program.o", "renamed.o", "program"))
        subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fno-inline", "-c", "-o", code,
                        cls.folder / "program.c"], check=True)
        subprocess.run(["objcopy", *(f"--redefine-sym=f{i}={name}" for i, name in enumerate(NAMES)), code, renamed],
                       check=True)
        subprocess.run(["gcc", "-o", program, renamed], check=True)
        vmscope("record", "-F", 499, "-o", cls.file, "--", program)
        pages = cls.serve_pages()
        cls.pages = pages.server_port
        cls.browser = Browser(f"--host-resolver-rules=MAP {PROFILER}:443 127.0.0.1:{cls.pages}, "
                              f"MAP evil.example:443 127.0.0.1:{cls.pages}")
        cls.addClassCleanup(cls.browser.stop)

    @classmethod
    def serve_pages(cls):
        """A server that says that it is any site."""
        key, certificate = cls.folder / "key", cls.folder / "certificate"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=any", "-days", "1",
                        "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        return server

    def serve(self, *options):
        """Starts `report --open`; the address that the browser is to open."""
        self.opened.unlink(missing_ok=True)
        process = start_vmscope("report", "--open", *options, self.file,
                                env={**os.environ, "BROWSER": str(self.opener)})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        testbed.wait_for(self.opened.exists, "the browser")
        return self.opened.read_text().strip()

    def lead(self, once):
        """Where the address for one use leads to."""
        parts = urllib.parse.urlsplit(once)
        connection = http.client.HTTPConnection(parts.netloc, timeout=testbed.ANSWER_SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", parts.path)
        return connection.getresponse().headers["Location"]

    def frame(self, name):
        """The number of the frame with that name."""
        return self.browser.run("""
            const data = JSON.parse(document.getElementById('data').textContent);
            for (let i = 0; i < data.nodes.length / 3; i++)
                if (data.labels[data.nodes[3 * i + 1]][0] === arguments[0])
                    return i;""", name)

    def state(self, frame):
        return self.browser.run("""
            const text = id => document.getElementById(id).textContent;
            const rect = document.querySelector(`#frames g[data-i="${arguments[0]}"] rect`);
            return {width: rect ? Number(rect.getAttribute('width')) : 0, found: text('found'),
                    details: text('details'), hacked: window.hacked ?? null,
                    scripts: document.querySelectorAll('script').length,
                    matches: document.querySelectorAll('#frames .match').length};""", frame)

    def test_flame_graph(self):
        """Search and zoom, with numbers of the folded stacks; no name is more than text."""
        self.browser.open(self.serve("--format", "svg"))
        stacks = folded(self.file)
        whole = sum(n for _, n in stacks)
        for name in NAMES:
            shown = name.replace("\x1b", "?")
            frame = self.frame(shown)
            self.assertIsNotNone(frame, name)
            own = sum(n for stack, n in stacks if f";{shown}".replace("&amp;", "&amp:") in stack)
            before = self.state(frame)
            self.assertAlmostEqual(before["width"] / 1280, own / whole, delta=0.02, msg=before)
            self.browser.click(f'#frames g[data-i="{frame}"] rect')
            zoomed = self.state(frame)
            self.assertGreater(zoomed["width"], 1250)
            self.assertIn(f"{own} samples", zoomed["details"])
            self.browser.type(ESCAPE)
            self.assertEqual(self.state(frame)["width"], before["width"])
            self.assertIsNone(zoomed["hacked"])
            self.assertEqual(zoomed["scripts"], before["scripts"])
        self.browser.type("/</?script>")
        self.assertGreaterEqual(self.state(0)["matches"], 2)
        self.browser.type("(")
        self.assertEqual(self.state(0)["found"], "not a regular expression")
        self.browser.type(ESCAPE)
        self.assertEqual((self.state(0)["matches"], self.state(0)["found"]), (0, ""))

    def fetch(self, site, address):
        """The length of what a page of a site is given for the address, or the browser's refusal."""
        self.browser.open(f"https://{site}/")
        return self.browser.run("return fetch(arguments[0]).then(answer => answer.arrayBuffer())"
                                ".then(bytes => bytes.byteLength, error => String(error));", address)

    def test_origins(self):
        """The viewer's page reads the profile, and as often as it likes; one of another site does not."""
        address = urllib.parse.unquote(self.lead(self.serve()).rsplit("/", 1)[1])
        self.assertIn("TypeError", str(self.fetch("evil.example", address)))
        run = vmscope("report", "--format", "firefox", self.file)
        for _ in range(3):
            self.assertEqual(self.fetch(PROFILER, address), len(run.out.encode()))
        self.assertTrue(json.loads(run.out)["threads"])
        parts = urllib.parse.urlsplit(address)
        self.assertIn("TypeError", str(self.fetch(PROFILER, address.replace(parts.path, "/profile.json"))))


if __name__ == "__main__":
    unittest.main()
