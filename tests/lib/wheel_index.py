"""A simple index of wheels on loopback, in HTML or JSON; what it says can be spoiled."""
import hashlib
import http.server
import json
import os
import tempfile
import threading
import urllib.parse

import packages

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"


class WheelIndex:
    """with WheelIndex() as index: index.url is where it is; add() puts a wheel into it."""

    def __init__(self, as_json=False):
        self.as_json, self.asked = as_json, []
        self.hashes, self.more, self.instead = {}, {}, {}  # by file: another sha256, attributes, (status, headers, body)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kaged-index-")
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                index.asked.append(self.path)
                status, headers, body = index.answer(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.folder.cleanup()

    @property
    def port(self):
        return self.server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/simple"

    def add(self, name, version, module="", **more):
        packages.wheel(self.folder.name, name, version, module, **more)

    def files(self, name):
        return sorted(each for each in os.listdir(self.folder.name) if each.startswith(f"{name}-"))

    def content(self, file):
        with open(os.path.join(self.folder.name, file), "rb") as opened:
            return opened.read()

    def answer(self, path):
        parts = [urllib.parse.unquote(part) for part in path.split("/") if part]
        if len(parts) == 2 and parts[0] == "simple" and self.files(parts[1]):
            return self.page(self.files(parts[1]))
        if len(parts) == 2 and parts[0] == "files" and parts[1] in os.listdir(self.folder.name):
            return self.instead.get(parts[1]) or (200, {"Content-Type": "application/octet-stream"}, self.content(parts[1]))
        return 404, {}, b"nothing here"

    def page(self, files):
        rows = [(file, self.hashes.get(file, hashlib.sha256(self.content(file)).hexdigest()), self.more.get(file, {}))
                for file in files]
        if self.as_json:
            body = {"meta": {"api-version": "1.1"}, "files": [
                {"filename": file, "url": f"../../files/{file}", "hashes": {"sha256": sha256}, **more}
                for file, sha256, more in rows]}
            return 200, {"Content-Type": SIMPLE_JSON}, json.dumps(body).encode()
        links = "".join(f'<a href="../../files/{file}#sha256={sha256}"'
                        + "".join(f' data-{key}="{value}"' for key, value in more.items()) + f">{file}</a>\n"
                        for file, sha256, more in rows)
        return 200, {"Content-Type": "text/html"}, f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
