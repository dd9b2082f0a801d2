"""Opens a page in headless Chromium and asks it questions, by the DevTools protocol over a pair of pipes."""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 120


def find():
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise unittest.SkipTest("no Chromium in the PATH (tools/setup --browser installs it on Debian)")
    return path


class Browser:
    """A page of a given width. Everything that it logs, and every exception, is in `complaints`."""

    def __init__(self):
        program = find()
        self.folder = tempfile.TemporaryDirectory(prefix="rannc-browser-", ignore_cleanup_errors=True)
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def pipes():  # those that --remote-debugging-pipe means
            high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.text, self.complaints, self.events = 0, b"", [], []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its own processes write to the folder
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.text:
            if not select.select([self.answers], [], [], max(0, until - time.monotonic()))[0]:
                raise AssertionError("Chromium does not answer")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise AssertionError(f"Chromium ended with {self.process.wait()}")
            self.text += more
        message, self.text = self.text.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(message["params"])
        return message

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message.get("method"))

    def open(self, path, width, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.receive().get("method"))

    def ask(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))
