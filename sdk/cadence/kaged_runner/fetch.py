"""Wheels that a package depends on, from the operator's index, added to a copy of the package's file.

This runs in a cage that reaches the index alone, and it runs nobody's code: wheels are held against the
sha256 that the index names, and only their metadata is read. What one needs in turn is taken, too. The
daemon unpacks what is written here as it does whatever is uploaded.
"""
import email.parser
import hashlib
import html.parser
import http.client
import io
import json
import os
import shutil
import ssl
import sys
import urllib.parse
import zipfile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from .dependencies import version_of
from .package import Refused, words_of

WHEELS_MAX = 50
PAGE_MAX = 16 << 20
METADATA_MAX = 1 << 20
REDIRECTS_MAX = 3
WAIT_SECONDS = 30
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"


def fetch(index, file, folder, most, wanted):
    """The document for the daemon; the new file is package.zip in the folder."""
    try:
        found = Wheels(index, most).all_of(wanted)
        _write(file, os.path.join(folder, "package.zip"), found, most)
        document = {"wheels": [f"{wheel.name} {wheel.version}" for wheel in found]}
    except Refused as error:
        document = {"error": {"stage": error.stage, "message": error.message[:2000]}}
    except BaseException as error:  # of our own making; said in words all the same
        document = {"error": {"stage": "index", "message": words_of(error)}}
    return json.dumps(document).encode("ascii")


def _refuse(words):
    return Refused("index", words)


# -- what the index has -----------------------------------------------------------------------------


class Wheel:
    def __init__(self, name, version, filename, url, sha256):
        self.name, self.version, self.filename, self.url, self.sha256 = name, version, filename, url, sha256
        self.data = b""


class _Links(html.parser.HTMLParser):
    """The links of a page, as the JSON form has them."""

    def __init__(self):
        super().__init__()
        self.files = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag != "a" or not given.get("href"):
            return
        url, _, fragment = given["href"].partition("#")
        name, _, value = fragment.partition("=")
        self.files.append({"filename": urllib.parse.unquote(url.split("?")[0].rsplit("/", 1)[-1]), "url": url,
                           "hashes": {name: value}, "requires-python": given.get("data-requires-python"),
                           "yanked": "data-yanked" in given})


def _open(url):
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.netloc, timeout=WAIT_SECONDS, context=ssl.create_default_context())
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.netloc, timeout=WAIT_SECONDS)
    raise _refuse(f"the index leads to {url[:200]!r}, which is no http:// or https:// address")


def _get(url, most, accept="*/*"):
    """(the bytes, their type, where they were in the end)"""
    for _ in range(REDIRECTS_MAX + 1):
        parts = urllib.parse.urlsplit(url)
        connection = _open(url)
        try:
            target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
            connection.request("GET", target, headers={"Accept": accept, "User-Agent": "kaged"})
            answer = connection.getresponse()
            if answer.status in (301, 302, 303, 307, 308) and answer.headers["Location"]:
                url = urllib.parse.urljoin(url, answer.headers["Location"])
                continue
            if answer.status == 404:
                return None, "", url
            if answer.status != 200:
                raise _refuse(f"the index answered {answer.status} for {url[:300]}")
            data = answer.read(most + 1)
            if len(data) > most:
                raise _refuse(f"{url[:300]} is larger than {most} bytes")
            return data, answer.headers.get_content_type(), url
        except (OSError, http.client.HTTPException) as error:
            raise _refuse(f"{parts.netloc[:200]} cannot be asked: {words_of(error)}") from None
        finally:
            connection.close()
    raise _refuse(f"{url[:300]} leads in a circle")


def _files(index, name):
    page, kind, where = _get(f"{index.rstrip('/')}/{name}/", PAGE_MAX, f"{SIMPLE_JSON}, text/html;q=0.5")
    if page is None:
        return []
    try:
        if kind == SIMPLE_JSON:
            files = json.loads(page).get("files", [])
        else:
            links = _Links()
            links.feed(page.decode("utf-8", "replace"))
            files = links.files
    except (ValueError, AttributeError):
        raise _refuse(f"what the index says of {name} cannot be read") from None
    return [{**each, "url": urllib.parse.urljoin(where, each["url"])} for each in files
            if isinstance(each, dict) and isinstance(each.get("url"), str)]


def _runs_here(text):
    if not isinstance(text, str) or not text.strip():
        return True
    try:
        return SpecifierSet(text).contains(".".join(map(str, sys.version_info[:3])), prereleases=True)
    except InvalidSpecifier:
        return False


def _wheel_of(each, name):
    """None: it is not one that can be imported as it is."""
    try:
        found, version, _, tags = parse_wheel_filename(str(each.get("filename")))
    except (InvalidWheelFilename, ValueError):
        return None
    fits = any(tag.abi == "none" and tag.platform == "any" and tag.interpreter.startswith("py3") for tag in tags)
    hashes = each.get("hashes")
    if found != name or not fits or each.get("yanked") or not _runs_here(each.get("requires-python")):
        return None
    sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
    return Wheel(name, version, each["filename"], each["url"], sha256)


# -- which of it ------------------------------------------------------------------------------------


class Wheels:
    def __init__(self, index, most):
        self._index, self._left, self._chosen = index, most, {}

    def all_of(self, wanted):
        waiting = [(Requirement(text), "the package") for text in wanted]
        while waiting:
            requirement, whose = waiting.pop(0)
            if requirement.url:
                raise _refuse(f"{whose} names an address for {requirement.name}")
            if requirement.marker is not None and not self._applies(requirement):
                continue
            waiting += self._need(requirement, whose)
        return list(self._chosen.values())

    @staticmethod
    def _applies(requirement):
        return requirement.marker.evaluate({"extra": ""})

    def _need(self, requirement, whose):
        """Takes what fits; what that needs in turn."""
        name = canonicalize_name(requirement.name)
        here = self._chosen[name].version if name in self._chosen else version_of(name)
        if here is not None and requirement.specifier.contains(here, prereleases=True):
            return []
        if name in self._chosen:
            raise _refuse(f"{whose} needs {requirement}, and {here} was chosen for another one")
        wheel = self._best(name, requirement)
        if wheel is None:
            raise _refuse(f"the index has no wheel of {requirement} without compiled code that runs here")
        if len(self._chosen) == WHEELS_MAX:
            raise _refuse(f"it would need more than {WHEELS_MAX} wheels")
        self._take(wheel)
        self._chosen[name] = wheel
        return [(each, f"{wheel.name} {wheel.version}") for each in _needs_of(wheel)]

    def _best(self, name, requirement):
        wheels = [wheel for wheel in (_wheel_of(each, name) for each in _files(self._index, name)) if wheel]
        fitting = set(requirement.specifier.filter([wheel.version for wheel in wheels]))
        return max((wheel for wheel in wheels if wheel.version in fitting), key=lambda wheel: wheel.version, default=None)

    def _take(self, wheel):
        if not isinstance(wheel.sha256, str) or len(wheel.sha256) != 64:
            raise _refuse(f"the index names no sha256 of {wheel.filename}")
        data, _, _ = _get(wheel.url, self._left)
        if data is None:
            raise _refuse(f"the index does not have its own {wheel.filename}")
        if hashlib.sha256(data).hexdigest() != wheel.sha256.lower():
            raise _refuse(f"{wheel.filename} is not what the index says: its sha256 is another one")
        self._left -= len(data)
        wheel.data = data


def _needs_of(wheel):
    try:
        with zipfile.ZipFile(io.BytesIO(wheel.data)) as zipped:
            name = next(each for each in zipped.namelist()
                        if each.count("/") == 1 and each.endswith(".dist-info/METADATA"))
            with zipped.open(name) as file:
                text = file.read(METADATA_MAX).decode("utf-8", "replace")
        told = email.parser.HeaderParser().parsestr(text)
        return [Requirement(each) for each in told.get_all("Requires-Dist") or []]
    except (zipfile.BadZipFile, StopIteration, OSError, ValueError, InvalidRequirement) as error:
        raise _refuse(f"{wheel.filename} is not a wheel: {words_of(error)}") from None


# -- the new file -----------------------------------------------------------------------------------


def _write(file, target, wheels, most):
    with zipfile.ZipFile(file) as zipped:
        places = [each[:-len("plugin.py")] for each in zipped.namelist()
                  if each == "plugin.py" or each.endswith("/plugin.py")]
    if not places:
        raise _refuse("there is no plugin.py in it")
    shutil.copyfile(file, target)
    with zipfile.ZipFile(target, "a") as zipped:
        for wheel in wheels:
            entry = zipfile.ZipInfo(f"{min(places, key=len)}wheels/{wheel.filename}")
            entry.external_attr = 0o100644 << 16
            zipped.writestr(entry, wheel.data)
    if os.path.getsize(target) > most:
        raise _refuse(f"with its wheels it has more than {most} bytes")
