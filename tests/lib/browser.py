"""A browser for the tests of the operator's page: Debian's Chromium, through playwright-core.

A Browser is a context manager; what it can do are the commands of browser.mjs, by their names:
browser.click("text=Restart"). At its end it checks that the page complained about nothing: no exception, and
nothing that its Content-Security-Policy had to stop.
"""
import json
import os
import shutil
import subprocess
import tempfile

from harness import PATIENCE, ROOT, wait_for

PACKAGES = os.path.join(ROOT, "build/npm/tests")


def chromium():
    return next((path for path in map(shutil.which, ("chromium-headless-shell", "chromium")) if path), None)


def is_debian():
    with open("/etc/os-release") as file:
        return "ID=debian\n" in file.read()


def skip_reason():
    """Why there is no browser; None: there is, or CI was to see to it."""
    if os.environ.get("CI") == "true" and is_debian():
        return None
    if chromium() is None:
        return "it needs Chromium: chromium-headless-shell or chromium of Debian"
    if shutil.which("node") is None:
        return "it needs node"
    if not os.path.isdir(os.path.join(PACKAGES, "node_modules/playwright-core")):
        return "it needs playwright-core: scripts/npm tests"
    return None


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kg-browser-", dir="/tmp")

    def __enter__(self):
        self.process = subprocess.Popen(
            ["node", os.path.join(ROOT, "tests/lib/browser.mjs"), chromium() or "", PACKAGES, self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "HOME": self.folder, "ASAN_OPTIONS": "", "UBSAN_OPTIONS": ""})
        self.read()
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                told = self.complaints()
                assert told == [], told
        finally:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the browser is gone")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["value"]

    def __getattr__(self, command):
        def run(*words):
            self.process.stdin.write(json.dumps([command, *words]) + "\n")
            self.process.stdin.flush()
            return self.read()
        return run

    def enter(self, daemon, place=""):
        """Lets the browser in, as the operator would by the launch URL, and goes to a place of the page."""
        status, launch = daemon.api("POST", "/launch")
        assert status == 201, launch
        self.open(launch["url"])
        self.wait("header.bar")
        self.wait("text=live")
        if place:
            self.go(place)

    def go(self, place):
        self.evaluate(f"void (location.hash = {json.dumps('#/' + place)})")

    def wait_text(self, selector, part):
        """Until a text has this in it, which it returns."""
        def look():
            texts = self.texts(selector)
            return next((text for text in texts if part in text), None)
        try:
            return wait_for(look, f"{selector} with {part!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.texts(selector)!r}\n{self.complaints()}") from None
