"""The operator's page: what the daemon serves of it, and that a browser shows a daemon with it."""
import gzip
import http.client
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from browser import Browser, skip_reason
from harness import ROOT, FlowTest, main

LAST_EXIT = "exited with code 3"
NPM = os.path.isdir(os.path.join(ROOT, "build/web/files"))


class Page(FlowTest):
    plugins = ["good-c", "crash-at-start", "names-with-escapes"]
    config = {"daemon.bind": "127.0.0.1:0", "limits.restart_failures": 2}

    def get(self, path, **headers):
        """(status, headers, body), as a browser that nobody let in asks."""
        connection = http.client.HTTPConnection(self.daemon.api("GET", "/status")[1]["tcp"], timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def files(self):
        return re.findall(r'"(/page/[^"]+)"', self.get("/")[2].decode())

    def test_it_says_that_nothing_but_itself_may_run_in_it_or_around_it(self):
        status, headers, body = self.get("/")
        self.assertEqual((status, headers["content-type"]), (200, "text/html; charset=utf-8"))
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual({policy[kind] for kind in ("script-src", "style-src", "connect-src")}, {"'self'"})
        self.assertEqual(policy["frame-ancestors"], "'none'")
        self.assertEqual((policy["require-trusted-types-for"], policy["trusted-types"]), ("'script'", "'none'"))
        self.assertEqual(headers["x-frame-options"], "DENY")
        self.assertNotRegex(body.decode(), r"<script>|<style|style=|\son\w+=|https?:")

    @unittest.skipUnless(NPM, "the page was built without npm")
    def test_it_is_light_and_is_sent_once(self):
        status, headers, body = self.get("/")
        sent = len(body)
        self.assertEqual(self.get("/", If_None_Match=headers["etag"])[0], 304)
        self.assertEqual(headers["cache-control"], "no-cache")
        self.assertGreaterEqual(len(self.files()), 3)
        for path in self.files():
            status, headers, body = self.get(path)
            self.assertEqual((status, headers["content-encoding"]), (200, "gzip"), path)
            self.assertIn("immutable", headers["cache-control"])
            self.assertTrue(gzip.decompress(body))
            status, _, empty = self.get(path, If_None_Match=f'"other", W/{headers["etag"]}')
            self.assertEqual((status, empty), (304, b""), path)
            self.assertEqual(self.get(path, If_None_Match='"other"')[0], 200)
            sent += len(body)
        self.assertLessEqual(sent, 150 * 1024)

    def test_a_build_without_npm_says_so_and_serves_a_page_that_says_so(self):
        with tempfile.TemporaryDirectory() as tree:
            for name in ("web", "scripts"):
                shutil.copytree(os.path.join(ROOT, name), os.path.join(tree, name))
            os.mkdir(os.path.join(tree, "bin"))
            with open(os.path.join(tree, "bin/npm"), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as npm:
                npm.write("#!/bin/sh\nexit 1\n")
            done = subprocess.run([os.path.join(tree, "scripts/web"), "rows.h", "rows.d"], cwd=tree, text=True,
                                  capture_output=True, env={**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the operator's page is left out", done.stderr)
            with open(os.path.join(tree, "rows.h")) as file:
                rows = file.read()
        self.assertEqual(rows.count("PAGE_FILE("), 1)
        served = bytes(int(byte, 16) for byte in re.findall(r"\\x([0-9a-f]{2})", rows))
        self.assertIn(b"built without npm", served)

    def test_it_has_no_other_file(self):
        for path in ("/page/other.js", "/page/..", "/page/%2e%2e%2fkaged.db", "/page/"):
            self.assertIn(self.get(path)[0], (400, 401, 404), path)

    @unittest.skipUnless(NPM, "the page was built without npm")
    def test_its_typescript_fits_the_api_that_the_daemon_serves(self):
        document = os.path.join(self.daemon.base, "openapi.json")
        with open(document, "wb") as file:
            file.write(self.daemon.raw("GET", "/api/v1/openapi.json")[1])
        done = subprocess.run([os.path.join(ROOT, "scripts/web"), "--check", document], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(NPM and not skip_reason(), skip_reason() or "the page was built without npm")
    def test_a_browser_that_is_let_in_sees_what_runs_and_what_failed(self):
        with Browser() as browser:
            browser.enter(self.daemon)
            browser.wait_text(".waiting", LAST_EXIT)
            browser.wait_text("a.plugin", "good-c")
            browser.click("a.plugin:has-text('good-c')")
            browser.wait("h1:has-text('good-c')")
            browser.click("nav.tabs >> text=Cage")
            browser.wait_text("pre", "may not use the network")
            self.assertEqual(browser.axe(), [])
            origin = self.daemon.api("GET", "/status")[1]["tcp"]
            self.assertEqual([url for url in browser.requests() if origin not in url], [])

    @unittest.skipUnless(NPM and not skip_reason(), skip_reason() or "the page was built without npm")
    def test_a_browser_that_is_not_let_in_is_told_how(self):
        with Browser() as browser:
            browser.open(f"http://{self.daemon.api('GET', '/status')[1]['tcp']}/")
            browser.wait("code:has-text('kaged auth open')")


if __name__ == "__main__":
    main()
