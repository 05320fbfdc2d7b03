"""A registry of npm on loopback. It has the packages that set-up installed for the tests, and those
that a test writes; what it answers can be spoiled, by package."""
import base64
import hashlib
import http.server
import io
import json
import os
import tarfile
import threading
import urllib.parse

from harness import ROOT

MODULES = os.path.join(ROOT, "build/npm/tests/node_modules")


def pack(files):
    """The tarball of {path: text or bytes}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for path, content in sorted(files.items()):
            content = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo("package/" + path)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def pack_folder(folder):
    files = {}
    for top, folders, names in os.walk(folder):
        if "node_modules" in folders:
            folders.remove("node_modules")  # packages of their own
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, folder)] = file.read()
    return pack(files)


def installed():
    """{name: {version: folder}} of all that set-up has installed, wherever it lies."""
    found = {}
    for top, folders, names in os.walk(MODULES):
        parent = os.path.dirname(top)
        if os.path.basename(parent).startswith("@"):
            parent = os.path.dirname(parent)
        if "package.json" not in names or os.path.basename(parent) != "node_modules":
            continue
        with open(os.path.join(top, "package.json")) as file:
            manifest = json.load(file)
        if "name" in manifest and "version" in manifest:
            found.setdefault(manifest["name"], {})[manifest["version"]] = top
    return found


class Registry:
    """with Registry() as registry: registry.url is where it is.

    packages: {name: {version: files}}, each with a package.json of at least its name and version.
    spoil: {name: function}, called with the handler and the tarball instead of sending that.
    """

    def __init__(self, packages=None, with_installed=False):
        self.folders = installed() if with_installed else {}
        self.tarballs, self.manifests, self.spoil, self.asked = {}, {}, {}, []
        for name, versions in (packages or {}).items():
            for version, files in versions.items():
                self.add(name, version, files)

    def add(self, name, version, files):
        manifest = {"name": name, "version": version, **json.loads(files.get("package.json", "{}"))}
        self.manifests.setdefault(name, {})[version] = manifest
        self.tarballs[name, version] = pack({**files, "package.json": json.dumps(manifest)})

    def load(self, name):
        """What set-up installed is packed when it is first asked for."""
        for version, folder in self.folders.pop(name, {}).items():
            with open(os.path.join(folder, "package.json")) as file:
                self.manifests.setdefault(name, {})[version] = json.load(file)
            self.tarballs[name, version] = pack_folder(folder)

    def describe(self, name):
        self.load(name)
        if name not in self.manifests:
            return None
        versions = {}
        for version, manifest in self.manifests[name].items():
            tarball = self.tarballs[name, version]
            digest = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
            place = f"{self.url}{urllib.parse.quote(name)}/-/{version}.tgz"
            scripts = manifest.get("scripts", {})
            built = any(key in scripts for key in ("install", "preinstall", "postinstall"))
            versions[version] = {**manifest, "dist": {"tarball": place,
                                                      "integrity": "sha512-" + digest},
                                 **({"hasInstallScript": True} if built else {})}
        newest = max(versions, key=lambda text: [int(part) for part in text.split("-")[0].split(".")])
        return {"name": name, "dist-tags": {"latest": newest}, "versions": versions}

    def answer(self, handler):
        path = urllib.parse.unquote(handler.path.lstrip("/"))
        self.asked.append(path)
        name, _, file = path.partition("/-/")
        if not file:
            found = self.describe(name)
            body = json.dumps(found or {"error": "Not found"}).encode()
            self.send(handler, 200 if found else 404, body, "application/json")
            return
        tarball = self.tarballs[name, file.removesuffix(".tgz")]
        if name in self.spoil:
            self.spoil[name](handler, tarball)
        else:
            self.send(handler, 200, tarball)

    @staticmethod
    def send(handler, status, body, kind="application/octet-stream"):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self):
        registry, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    if registry.spoil:
                        registry.answer(self)
                        return
                    with lock:
                        registry.answer(self)
                except OSError:
                    self.close_connection = True  # who asked has left

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
