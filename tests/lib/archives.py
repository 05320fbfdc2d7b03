"""Archives and folders for tests, honest and hostile: what comes out is what was asked for."""
import io
import os
import stat
import subprocess
import tarfile
import zipfile

MANIFEST = "kaged-plugin.yaml"
HONEST = {MANIFEST: b"name: x\n", "bin/run": b"#!/bin/sh\n", "data/a": b"a" * 5000}
EXECUTABLE = "bin/run"


def mode_of(name):
    return 0o755 if name == EXECUTABLE else 0o644


def zip_entry(name, mode=None, method=zipfile.ZIP_DEFLATED):
    """An entry that the library does not look at: any name, any mode."""
    entry = zipfile.ZipInfo("x")
    entry.filename, entry.compress_type, entry.create_system = name, method, 3
    if mode is None:
        mode = stat.S_IFDIR | 0o755 if name.endswith("/") else stat.S_IFREG | mode_of(name)
    entry.external_attr = mode << 16
    return entry


def make_zip(path, entries=(), honest=HONEST, prefix=""):
    """entries: (ZipInfo or name, content); they come behind the honest ones."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in honest.items():
            entry = zip_entry(prefix + name)
            entry.external_attr = (stat.S_IFREG | mode_of(name)) << 16
            file.writestr(entry, content)
        for entry, content in entries:
            file.writestr(entry if not isinstance(entry, str) else zip_entry(entry), content)
    return path


def tar_entry(name, kind=tarfile.REGTYPE, link="", mode=0o644, content=b""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode, entry.size = kind, link, mode, len(content)
    return entry, content


def make_tar(path, entries=(), honest=HONEST, prefix="", compress="gz"):
    with tarfile.open(path, "w:" + compress, format=tarfile.GNU_FORMAT) as file:
        for name, content in honest.items():
            entry, _ = tar_entry(prefix + name, mode=mode_of(name), content=content)
            file.addfile(entry, io.BytesIO(content))
        for entry, content in entries:
            file.addfile(entry, io.BytesIO(content))
    return path


def make_folder(path, honest=HONEST):
    for name, content in honest.items():
        whole = os.path.join(path, name)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(content)
        os.chmod(whole, mode_of(name))
    return path


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t.test", *words],
                   check=True, capture_output=True,
                   env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"})


def make_repository(path, honest=HONEST, tags=()):
    """A commit for each tag, which a file `version` names, and one more."""
    make_folder(path, honest)
    git(path, "init", "--quiet", "--initial-branch=trunk")
    for tag in [*tags, "newest"]:
        with open(os.path.join(path, "version"), "w") as file:
            file.write(tag)
        git(path, "add", "--all")
        git(path, "commit", "--quiet", "--message", tag)
        if tag != "newest":
            git(path, "tag", tag)
    return path
