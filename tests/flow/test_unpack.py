"""kaged-unpack by itself, without its cage: what it makes of a source, and what it refuses.

The cage is left out so that the sanitizers see all of it, leaks too; tests/flow/test_fetch.py has
the same with the cage and the daemon's part.
"""
import gzip
import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

import archives
from archives import HONEST, MANIFEST, make_folder, make_tar, make_zip, tar_entry, zip_entry
from harness import BUILD, main

UNPACK = os.path.join(BUILD, "src/kaged-unpack")


def contents(folder):
    """{path: (mode, content or target or None)} of a tree."""
    found = {}
    for where, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            value = None
            if stat.S_ISLNK(mode):
                value = os.readlink(path)
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    value = file.read()
            found[os.path.relpath(path, folder)] = (stat.S_IMODE(mode), value)
    return found


class UnpackTest(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kaged-unpack-")
        self.addCleanup(shutil.rmtree, self.base)
        self.folder = os.path.join(self.base, "out")

    def path(self, name):
        return os.path.join(self.base, name)

    def run_unpack(self, kind, source, **options):
        """(exit code, the last line)"""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        words = [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run([UNPACK, kind, source, self.folder, *words], capture_output=True,
                              timeout=60)
        self.assertEqual(done.stderr, b"")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines[:-1]:
            self.assertEqual(line["type"], "progress")
        return done.returncode, lines[-1]

    def unpack(self, kind, source, **options):
        """The tree that it becomes."""
        code, line = self.run_unpack(kind, source, **options)
        self.assertEqual((code, line["type"]), (0, "done"), line)
        return contents(os.path.join(self.folder, "tree"))

    def assert_refused(self, kind, source, code, words, **options):
        exit_code, line = self.run_unpack(kind, source, **options)
        self.assertEqual((exit_code, line["type"], line.get("code")), (1, "failed", code), line)
        self.assertIn(words, line["message"])
        self.assertFalse(os.path.lexists(os.path.join(self.folder, "tree")))
        self.assertEqual(sorted(set(os.listdir(self.base)) - {"a.zip", "a.tar.gz", "in"}), ["out"])


HONEST_TREE = {
    "bin": (0o755, None),
    "bin/run": (0o755, HONEST["bin/run"]),
    "data": (0o755, None),
    "data/a": (0o644, HONEST["data/a"]),
    MANIFEST: (0o644, HONEST[MANIFEST]),
}


class Sources(UnpackTest):
    def test_folder_archives_and_repository_become_the_same_tree(self):
        folder = make_folder(self.path("in"))
        os.mkdir(self.path("in/.git"))
        os.chmod(self.path("in/data/a"), 0o600)
        self.assertEqual(self.unpack("folder", folder), HONEST_TREE)
        self.assertEqual(self.unpack("zip", make_zip(self.path("a.zip"))), HONEST_TREE)
        self.assertEqual(self.unpack("tar", make_tar(self.path("a.tar.gz"))), HONEST_TREE)
        self.assertEqual(self.unpack("tar", make_tar(self.path("a.tar"), compress="")), HONEST_TREE)
        repository = archives.make_repository(self.path("repository"))
        tree = self.unpack("git", "file://" + repository)
        self.assertEqual(tree.pop("version"), (0o644, b"newest"))
        self.assertEqual(tree, HONEST_TREE)

    def test_single_top_folder_of_an_archive_is_taken_away(self):
        self.assertEqual(self.unpack("zip", make_zip(self.path("a.zip"), prefix="x-1.0/")),
                         HONEST_TREE)
        self.assertEqual(self.unpack("tar", make_tar(self.path("a.tar.gz"), prefix="./x-1.0/")),
                         HONEST_TREE)
        link = tar_entry("x/link", tarfile.SYMTYPE, "bin/run")
        tree = self.unpack("tar", make_tar(self.path("a.tar.gz"), [link], prefix="x/"))
        self.assertEqual(tree["link"], (0o777, "bin/run"))

    def test_source_without_a_manifest_at_its_top_is_refused(self):
        words = "no file kaged-plugin.yaml at its top"
        self.assert_refused("zip", make_zip(self.path("a.zip"), prefix="x/y/"), "invalid_source",
                            words)
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("y")], prefix="x/"),
                            "invalid_source", words)
        self.assert_refused("folder", os.path.dirname(make_folder(self.path("in/x"))),
                            "invalid_source", words)
        link = tar_entry(MANIFEST, tarfile.SYMTYPE, "data/a")
        only = {"data/a": b"name: x\n"}
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [link], honest=only),
                            "invalid_source", words)

    def test_links_inside_and_hard_links_to_files_are_kept(self):
        tree = self.unpack("tar", make_tar(self.path("a.tar.gz"), [
            tar_entry("bin/again", tarfile.LNKTYPE, "bin/run"),
            tar_entry("deep/er/link", tarfile.SYMTYPE, "../../bin/run"),
            tar_entry("dangling", tarfile.SYMTYPE, "not/there")]))
        self.assertEqual(tree["bin/again"], (0o755, HONEST["bin/run"]))
        self.assertEqual(tree["deep/er/link"], (0o777, "../../bin/run"))
        self.assertEqual(tree["dangling"], (0o777, "not/there"))
        entry = zip_entry("link", stat.S_IFLNK | 0o777)
        tree = self.unpack("zip", make_zip(self.path("a.zip"), [(entry, "bin/run")]))
        self.assertEqual(tree["link"], (0o777, "bin/run"))

    def test_folder_may_be_listed_before_and_after_what_is_in_it(self):
        entries = [tar_entry("data", tarfile.DIRTYPE, mode=0o700),
                   tar_entry("empty/", tarfile.DIRTYPE)]
        tree = self.unpack("tar", make_tar(self.path("a.tar.gz"), entries))
        self.assertEqual(tree["data"], (0o755, None))
        self.assertEqual(tree["empty"], (0o755, None))
        tree = self.unpack("zip", make_zip(self.path("a.zip"), [("empty/", "")]))
        self.assertEqual(tree["empty"], (0o755, None))


class Names(UnpackTest):
    """Every name that may not be, in both kinds of archives."""

    BAD = {
        "/absolute": "absolute",
        "../out": ". or ..",
        "a/../../out": ". or ..",
        "a/./b": ". or ..",
        "a//b": "empty",
        "a\nb": "control character",
        "a\x1b[31m": "control character",
        "a\u00e4\n": "control character",
        "a\\b": "backslash",
        "..\\..\\out": "backslash",
        "\\\\server\\share\\x": "backslash",
        "C:x": "drive letter",
        "c:/x": "drive letter",
        "a\u202etxt.exe": "changes the direction of writing",
        "a\u200bb": "invisible",
        "a\U000e0041": "invisible",
        "x" * 256: "too long",
        "/".join(["x" * 200] * 6): "too long",
        "/".join("x" * 33): "nested too deep",
    }

    def test_bad_names_are_refused(self):
        for name, words in self.BAD.items():
            with self.subTest(name=name):
                self.assert_refused("zip", make_zip(self.path("a.zip"), [(name, "x")]), "refused",
                                    words)
                self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry(name)]),
                                    "refused", words)

    def test_names_that_are_not_utf8_are_refused(self):
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("a\udcff")]),
                            "refused", "not UTF-8")
        for name in ("aXX", "aXX\u00e4"):  # the second is marked as UTF-8
            path = make_zip(self.path("a.zip"), [(name, "x")])
            patch(path, b"aXX", b"a\xff\xfe")
            self.assert_refused("zip", path, "refused", "not UTF-8")

    def test_empty_names_and_names_with_nul_are_refused(self):
        path = make_zip(self.path("a.zip"), [("aXb", "x")])
        patch(path, b"aXb", b"a\0b")
        self.assert_refused("zip", path, "invalid_source", "its name contains a NUL")
        self.assert_refused("zip", make_zip(self.path("a.zip"), [("", "x")]), "invalid_source",
                            "its name is empty")
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("")]), "refused",
                            "its name is empty")

    def test_second_entry_of_a_name_is_refused(self):
        words = "second entry of this name"
        for name in (MANIFEST, "bin/run"):
            self.assert_refused("zip", make_zip(self.path("a.zip"), [(name, "x")]), "refused",
                                words)
            self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry(name)]),
                                "refused", words)
        self.assert_refused("zip", make_zip(self.path("a.zip"), [(MANIFEST + "/", "")]), "refused",
                            words)
        twice = [tar_entry("d", tarfile.DIRTYPE), tar_entry("d/", tarfile.DIRTYPE)]
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), twice), "refused", words)
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("bin")]), "refused",
                            "there is a folder of this name")

    def test_entries_beneath_files_and_links_are_refused(self):
        self.assert_refused("zip", make_zip(self.path("a.zip"), [(MANIFEST + "/x", "x")]),
                            "refused", "below a file")
        entries = [tar_entry("link", tarfile.SYMTYPE, "bin"), tar_entry("link/x")]
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), entries), "refused",
                            'entry "link/x": it is below a link')


class Twice(UnpackTest):
    def test_gzip_within_gzip_is_refused(self):
        path = make_tar(self.path("a.tar.gz"))
        with open(path, "rb") as file:
            once = file.read()
        with gzip.open(path, "wb") as file:
            file.write(once)
        self.assert_refused("tar", path, "refused", "compressed more than once")


class Kinds(UnpackTest):
    def test_links_that_lead_out_are_refused(self):
        out = "leads out of the plugin's folder"
        cases = [("a", "/etc/passwd", "absolute"), ("a", "..", out), ("bin/a", "../../x", out),
                 ("a", "bin/../../x", out), ("a", "a", "circular"), ("a", "", "empty")]
        for name, target, words in cases:
            with self.subTest(target=target):
                entry = zip_entry(name, stat.S_IFLNK | 0o777)
                self.assert_refused("zip", make_zip(self.path("a.zip"), [(entry, target)]),
                                    "refused", words)
        chain = [tar_entry("bin/up", tarfile.SYMTYPE, ".."),
                 tar_entry("x", tarfile.SYMTYPE, "bin/up/..")]
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), chain), "refused", '"x": the')
        long = zip_entry("a", stat.S_IFLNK | 0o777)
        self.assert_refused("zip", make_zip(self.path("a.zip"), [(long, "x/" * 4000)]), "refused",
                            "too long")

    def test_link_out_of_the_single_top_folder_is_refused(self):
        entry = tar_entry("x/a", tarfile.SYMTYPE, "../x/bin/run")
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [entry], prefix="x/"),
                            "refused", "leads out")

    def test_hard_links_to_anything_but_files_of_the_archive_are_refused(self):
        for target in ("/etc/passwd", "../../etc/passwd", "bin", "not-there", "a"):
            with self.subTest(target=target):
                entry = tar_entry("a", tarfile.LNKTYPE, target)
                self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [entry]), "refused",
                                    "hard link to something that is not a file of the plugin")

    def test_devices_pipes_and_sockets_are_refused(self):
        for kind, words in ((tarfile.CHRTYPE, "device"), (tarfile.BLKTYPE, "device"),
                            (tarfile.FIFOTYPE, "pipe")):
            self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("a", kind)]),
                                "refused", f'"a": it is a {words}')
        for kind, words in ((stat.S_IFCHR, "device"), (stat.S_IFIFO, "pipe"),
                            (stat.S_IFSOCK, "socket")):
            entry = zip_entry("a", kind | 0o644)
            self.assert_refused("zip", make_zip(self.path("a.zip"), [(entry, "")]), "refused",
                                f'"a": it is a {words}')

    def test_special_bits_are_refused(self):
        for bits, words in ((0o4755, "set-id"), (0o2755, "set-id"), (0o1755, "sticky")):
            self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [tar_entry("a", mode=bits)]),
                                "refused", words)
            entry = zip_entry("a", stat.S_IFREG | bits)
            self.assert_refused("zip", make_zip(self.path("a.zip"), [(entry, "")]), "refused",
                                words)
        folder = tar_entry("d", tarfile.DIRTYPE, mode=0o2755)
        self.assert_refused("tar", make_tar(self.path("a.tar.gz"), [folder]), "refused", "set-id")

    def test_folder_is_refused_for_the_same_reasons(self):
        folder = make_folder(self.path("in"))
        odd = os.path.join(folder, "bin/odd")
        os.mkfifo(odd)
        self.assert_refused("folder", folder, "refused", '"bin/odd": it is a pipe')
        os.unlink(odd)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(odd)
            self.assert_refused("folder", folder, "refused", '"bin/odd": it is a socket')
        os.unlink(odd)
        os.symlink("/etc/passwd", odd)
        self.assert_refused("folder", folder, "refused", '"bin/odd": the link is absolute')
        os.unlink(odd)
        os.chmod(os.path.join(folder, "bin/run"), 0o4755)
        self.assert_refused("folder", folder, "refused", '"bin/run": it would run as its owner')
        os.chmod(os.path.join(folder, "bin/run"), 0o755)
        with open(os.fsencode(folder) + b"/\xff", "w"):
            self.assert_refused("folder", folder, "refused", '"\\xff": its name is not UTF-8')


def patch(path, old, new, count=-1):
    """Replaces bytes in a file by as many others."""
    with open(path, "r+b") as file:
        content = file.read()
        assert old in content and len(old) == len(new)
        file.seek(0)
        file.write(content.replace(old, new, count))


class Zips(UnpackTest):
    """What only a ZIP file can do."""

    def refused(self, words, code="invalid_source"):
        self.assert_refused("zip", self.path("a.zip"), code, words)

    def test_two_names_for_one_entry_are_refused(self):
        make_zip(self.path("a.zip"), [("good", "x")])
        patch(self.path("a.zip"), b"good", b"evil", 1)
        self.refused("its two headers differ")
        entry = zip_entry("good")
        entry.extra = struct.pack("<HHBI", 0x7075, 5 + 4, 1, 0) + b"evil"
        make_zip(self.path("a.zip"), [(entry, "x")])
        self.refused("second name in an extra field")

    def test_encrypted_entries_are_refused(self):
        make_zip(self.path("a.zip"), [("secret", "x")])
        with open(self.path("a.zip"), "r+b") as file:
            content = bytearray(file.read())
            local, central = content.rindex(b"PK\3\4"), content.rindex(b"PK\1\2")
            content[local + 6] |= 1
            content[central + 8] |= 1
            file.seek(0)
            file.write(content)
        self.refused('"secret": it is encrypted', "refused")

    def test_aes_is_called_encryption(self):
        entry = zip_entry("secret")
        entry.extra = struct.pack("<HHHHBH", 0x9901, 7, 2, 0x4541, 3, 8)
        make_zip(self.path("a.zip"), [(entry, "x")])
        with open(self.path("a.zip"), "r+b") as file:
            content = bytearray(file.read())
            for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
                at = content.rindex(mark)
                content[at + flags] |= 1
                content[at + flags + 2] = 99
            file.seek(0)
            file.write(content)
        self.refused('"secret": it is encrypted', "refused")

    def test_other_compressions_are_refused(self):
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            make_zip(self.path("a.zip"), [(zip_entry("a", method=method), "x" * 1000)])
            self.refused('"a": it is neither stored nor deflated', "refused")

    def test_what_is_around_and_between_entries_is_refused(self):
        make_zip(self.path("a.zip"))
        with open(self.path("a.zip"), "rb") as file:
            honest = file.read()
        for content, words in ((b"MZ" + honest, "does not end at its end record"),
                               (honest + b"x", "something follows it"), (honest[:-1], "no end"),
                               (b"", "too short"), (b"PK\5\6", "too short")):
            with open(self.path("a.zip"), "wb") as file:
                file.write(content)
            self.refused(words)

    def test_zip_in_the_comment_of_another_is_refused(self):
        make_zip(self.path("inner.zip"), [("evil", "x")])
        with open(self.path("inner.zip"), "rb") as file:
            inner = file.read()
        os.unlink(self.path("inner.zip"))
        make_zip(self.path("a.zip"))
        with zipfile.ZipFile(self.path("a.zip"), "a") as file:
            file.comment = inner
        self.refused("two ends")

    def test_overlapping_entries_are_refused(self):
        """As in a bomb whose entries all share the same data."""
        make_zip(self.path("a.zip"), [("one", "x" * 100), ("two", "x" * 100)])
        with open(self.path("a.zip"), "r+b") as file:
            content = bytearray(file.read())
            rows = [at for at in range(len(content)) if content[at:at + 4] == b"PK\1\2"]
            one, two = rows[-2:]
            content[two + 42:two + 46] = content[one + 42:one + 46]
            file.seek(0)
            file.write(content)
        self.refused("inconsistent")

    def test_streamed_entries_are_taken(self):
        class Pipe:
            """A file that cannot seek: sizes come behind the data."""

            def __init__(self, file):
                self.write, self.flush = file.write, file.flush

        with open(self.path("a.zip"), "wb") as file, zipfile.ZipFile(Pipe(file), "w") as archive:
            for name, content in HONEST.items():
                archive.writestr(zip_entry(name), content)
        self.assertEqual(self.unpack("zip", self.path("a.zip")), HONEST_TREE)


class Bounds(UnpackTest):
    def test_files_all_files_entries_and_depth_are_bounded(self):
        large = [("large", b"x" * 20000)]
        path = make_zip(self.path("a.zip"), large)
        words = "the file is larger than the bound"
        self.assert_refused("zip", path, "too_large", words, file_bytes_max=19999)
        together = "all files together are larger than the bound"
        self.assert_refused("zip", path, "too_large", together, bytes_max=25000)
        self.assert_refused("zip", path, "too_large", "the bound is 3", files_max=3)
        path = make_tar(self.path("a.tar.gz"), [tar_entry("large", content=b"x" * 20000)])
        self.assert_refused("tar", path, "too_large", words, file_bytes_max=19999)
        self.assert_refused("tar", path, "too_large", together, bytes_max=25000)
        self.assert_refused("tar", path, "too_large", "more entries than the bound", files_max=5)
        self.assert_refused("tar", path, "refused", "nested too deep", depth_max=1)
        self.assert_refused("tar", path, "too_large", "the bound is 100", source_bytes=100)
        folder = make_folder(self.path("in"))
        self.assert_refused("folder", folder, "too_large", together, bytes_max=5000)
        self.assert_refused("folder", folder, "too_large", "more entries than the bound",
                            files_max=4)

    def test_bomb_is_stopped_at_the_bound(self):
        """A thousand times larger unpacked: no more than the bound is ever written."""
        content = b"\0" * (64 << 20)
        make_zip(self.path("a.zip"), [("bomb", content)])
        make_tar(self.path("a.tar.gz"), [tar_entry("bomb", content=content)])
        for kind, name in (("zip", "a.zip"), ("tar", "a.tar.gz")):
            self.assertLess(os.path.getsize(self.path(name)), 200_000)
            self.assert_refused(kind, self.path(name), "too_large", '"bomb"', bytes_max=1 << 20)
            written = sum(os.path.getsize(os.path.join(where, name))
                          for where, _, files in os.walk(self.folder) for name in files)
            self.assertLessEqual(written, 1 << 20)

    def test_lying_sizes_are_refused(self):
        make_zip(self.path("a.zip"), [("lies", b"x" * 1000)])
        patch(self.path("a.zip"), struct.pack("<I", 1000), struct.pack("<I", 10))
        self.assert_refused("zip", self.path("a.zip"), "invalid_source", "lies")
        make_tar(self.path("a.tar.gz"), compress="")
        with open(self.path("a.tar.gz"), "r+b") as file:
            file.truncate(2048 + 100)
        self.assert_refused("tar", self.path("a.tar.gz"), "invalid_source", "cannot be read")

    def test_tar_of_a_format_that_is_not_opened_is_refused(self):
        for compress in ("bz2", "xz"):
            make_tar(self.path("a.tar.gz"), compress=compress)
            self.assert_refused("tar", self.path("a.tar.gz"), "invalid_source", "cannot be read")
        make_zip(self.path("a.tar.gz"))
        self.assert_refused("tar", self.path("a.tar.gz"), "invalid_source", "cannot be read")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Repositories(UnpackTest):
    def repository(self, **options):
        return "file://" + archives.make_repository(self.path("in"), **options)

    def test_version_is_a_tag_with_or_without_a_v(self):
        url = self.repository(tags=["v1.0.0", "2.0.0"])
        for version, tag in (("1.0.0", b"v1.0.0"), ("2.0.0", b"2.0.0")):
            self.assertEqual(self.unpack("git", url, version=version)["version"][1], tag)
        self.assertEqual(self.unpack("git", url)["version"][1], b"newest")
        self.assert_refused("git", url, "not_found", "neither a tag v3.0.0 nor 3.0.0",
                            version="3.0.0")

    def test_of_a_range_the_newest_tag_is_taken_and_no_other(self):
        url = self.repository(tags=["v1.0.0", "1.2.0", "v1.10.0", "v2.0.0-beta", "2.0.0", "latest"])
        for version, tag in (("^1.0", b"v1.10.0"), ("~1.2.0", b"1.2.0"), ("*", b"2.0.0"),
                             (">=1 <1.10", b"1.2.0"), ("3 || 1.x", b"v1.10.0"),
                             ("^2.0.0-beta", b"2.0.0")):
            self.assertEqual(self.unpack("git", url, version=version)["version"][1], tag)
        self.assert_refused("git", url, "not_found", "no tag of a version in ^4", version="^4")

    def test_annotated_tag_and_bare_repository_are_fetched(self):
        url = self.repository()
        archives.git(self.path("in"), "tag", "--annotate", "--message", "x", "v1.0.0")
        archives.git(self.path("in"), "clone", "--quiet", "--bare", ".", self.path("in/bare"))
        self.assertIn(MANIFEST, self.unpack("git", url, version="1.0.0"))
        self.assertIn(MANIFEST, self.unpack("git", url + "/bare", version="1.0.0"))

    def test_nothing_of_the_repository_runs_or_changes_files(self):
        """Hooks, filters, attributes: none has a say."""
        self.repository()
        folder = self.path("in")
        with open(os.path.join(folder, ".gitattributes"), "w") as file:
            file.write("* filter=evil text eol=crlf ident\nversion export-ignore\n")
        with open(os.path.join(folder, "data/a"), "wb") as file:
            file.write(b"$Id$\n$Format:%H$\n")
        archives.git(folder, "add", "--all")
        archives.git(folder, "commit", "--quiet", "--message", "attributes")
        touch = f"touch {self.path('in/ran')}"
        archives.git(folder, "config", "filter.evil.smudge", touch)
        archives.git(folder, "config", "uploadpack.packObjectsHook", touch)
        for hook in ("post-checkout", "post-upload-pack", "pre-auto-gc"):
            path = os.path.join(folder, ".git/hooks", hook)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\n{touch}\n")
            os.chmod(path, 0o755)
        tree = self.unpack("git", "file://" + folder)
        self.assertEqual(tree["data/a"][1], b"$Id$\n$Format:%H$\n")
        self.assertIn("version", tree)
        self.assertFalse(os.path.exists(self.path("in/ran")))

    def test_links_and_submodules_are_judged(self):
        self.repository()
        os.symlink("/etc/passwd", self.path("in/out"))
        archives.git(self.path("in"), "add", "--all")
        archives.git(self.path("in"), "commit", "--quiet", "--message", "link")
        self.assert_refused("git", "file://" + self.path("in"), "refused", '"out": the link is')
        archives.git(self.path("in"), "rm", "--quiet", "out")
        archives.git(self.path("in"), "update-index", "--add", "--cacheinfo",
                     "160000,1234567890123456789012345678901234567890,sub")
        archives.git(self.path("in"), "commit", "--quiet", "--message", "submodule")
        self.assert_refused("git", "file://" + self.path("in"), "refused", '"sub": it is a submod')

    def test_bounds_hold_for_repositories(self):
        url = self.repository(honest={**HONEST, "large": os.urandom(300_000)})
        self.assert_refused("git", url, "too_large", "larger than the bound",
                            file_bytes_max=299_999)
        self.assert_refused("git", url, "too_large", "files together", bytes_max=250_000,
                            file_bytes_max=400_000)
        self.assert_refused("git", url, "too_large", "more entries", files_max=4)
        self.assert_refused("git", url, "too_large", "more to fetch", source_bytes=100_000,
                            file_bytes_max=100_000)

    def test_tree_that_repeats_itself_is_stopped_at_the_bound(self):
        """Ten levels of ten names for the same tree: a few hundred bytes, ten billion files."""
        self.repository()
        folder = self.path("in")

        def store(kind, content):
            return subprocess.run(["git", "-C", folder, "hash-object", "-t", kind, "-w", "--stdin"],
                                  input=content, capture_output=True, check=True).stdout.strip()

        below = bytes.fromhex(store("blob", b"x").decode())
        kind = b"100644 "
        for _ in range(10):
            content = b"".join(kind + b"%d\0" % i + below for i in range(10))
            below, kind = bytes.fromhex(store("tree", content).decode()), b"40000 "
        manifest = bytes.fromhex(store("blob", b"name: x\n").decode())
        top = store("tree", b"40000 bomb\0" + below + b"100644 kaged-plugin.yaml\0" + manifest)
        commit = subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t",
                                 "commit-tree", top, "-m", "x"], capture_output=True, check=True)
        archives.git(folder, "update-ref", "HEAD", commit.stdout.strip().decode())
        self.assert_refused("git", "file://" + folder, "too_large", "more entries", files_max=1000)

    def test_folder_that_is_no_repository_is_told_so(self):
        make_folder(self.path("in"))
        self.assert_refused("git", "file://" + self.path("in"), "invalid_source",
                            "does not appear to be a git repository")


if __name__ == "__main__":
    main()
