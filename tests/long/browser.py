# SPDX-License-Identifier: MIT
"""A headless Chromium, by the WebDriver protocol of its own driver."""
import http.client
import json
import re
import shutil
import subprocess

import testbed

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id


def have_browser():
    return bool(shutil.which("chromedriver") and shutil.which("chromium"))


class Browser:
    def __init__(self, *arguments):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, preexec_fn=testbed.die_with_parent)
        self.session = None
        for line in self.driver.stdout:
            started = re.search(r"on port (\d+)", line)
            if started and int(started[1]):
                break
        self.port = int(started[1])
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,900",
                            *arguments]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "acceptInsecureCerts": True}}}
        self.session = self.ask("POST", "/session", wanted)["sessionId"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=testbed.ANSWER_SECONDS)
        connection.request(method, path, json.dumps(body or {}) if method == "POST" else None)
        answer = json.load(connection.getresponse())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["message"])
        return answer

    def command(self, path, body=None, method="POST"):
        return self.ask(method, f"/session/{self.session}{path}", body)

    def open(self, address):
        self.command("/url", {"url": address})

    def run(self, script, *arguments):
        """What the script of a page returns, or its promise is fulfilled with."""
        return self.command("/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector):
        found = self.command("/element", {"using": "css selector", "value": selector})
        self.command(f"/element/{found[ELEMENT]}/click")

    def type(self, text):
        """Presses keys; "\\ue00c" is Escape, "\\ue007" is Enter."""
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.command("/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    def stop(self):
        if self.session:
            self.command("", method="DELETE")
        self.driver.kill()
        self.driver.communicate()
