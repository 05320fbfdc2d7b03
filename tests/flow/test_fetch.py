"""Sources that become trees in the quarantine, by kaged-unpack in its cage, as the daemon does it.

The program `fetcher` of tests/cage is that part of the daemon alone.
"""
import glob
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import unittest

import archives
from archives import make_folder, make_tar, make_zip, tar_entry, zip_entry
from harness import BUILD, main, suite_skip

ORDINARY = 1234 if os.geteuid() == 0 else None  # who that is, where we are root
REGRESS = os.path.join(os.environ.get("KAGED_SUITES", ""), "libzip-regress")
HELPERS = ["tests/cage/fetcher", "src/kaged-spawner", "src/kaged-cage-init"]


class Fetcher:
    """A process that fetches; a context manager. helper: what it is to take for kaged-unpack."""

    def __init__(self, base, user=None, helper=None, **limits):
        self.home = tempfile.mkdtemp(prefix="home-", dir=base)
        self.base, self.user, self.limits = base, user, limits
        self.program = os.path.join(BUILD, HELPERS[0])
        if helper is not None:
            self.program = self.install(helper)

    def install(self, helper):
        folder = tempfile.mkdtemp(prefix="programs-", dir=self.base)
        os.chmod(folder, 0o755)
        for name in HELPERS:
            shutil.copy(os.path.join(BUILD, name), folder)
        with open(os.path.join(folder, "kaged-unpack"), "w") as file:
            file.write(helper)
        os.chmod(file.name, 0o755)
        return os.path.join(folder, "fetcher")

    def __enter__(self):
        words = [f"{name}={value}" for name, value in self.limits.items()]
        options = {}
        if self.limits.get("owner") is not None:
            os.chown(self.home, self.limits["owner"], self.limits["owner"])
        if self.user is not None:
            os.chown(self.home, self.user, self.user)
            options = {"user": self.user, "group": self.user, "extra_groups": []}
        self.process = subprocess.Popen([self.program, self.home, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        return self

    def __exit__(self, kind, error, trace):
        out, err = self.process.communicate(timeout=60)
        if kind is None and self.process.returncode != -signal.SIGKILL:
            assert self.process.returncode == 0 and b"Sanitizer" not in err, err.decode()

    def send(self, source, **more):
        self.process.stdin.write(json.dumps({"source": source, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def fetch(self, source, **more):
        self.send(source, **more)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        return json.loads(line)

    def left(self):
        """Names in the quarantine."""
        folder = os.path.join(self.home, "plugins/.store/quarantine")
        return os.listdir(folder) if os.path.isdir(folder) else []

    def wait_progress(self):
        assert self.process.stderr.readline().startswith(b"progress")


def tree_hash(folder):
    """The hash of a tree, as the manual says how to make it."""
    lines = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                kind, content, size = b"l", os.readlink(path), 0
            elif stat.S_ISDIR(mode):
                kind, content, size = b"d", None, 0
            else:
                with open(path, "rb") as file:
                    content = file.read()
                kind, size = b"x" if mode & 0o100 else b"f", len(content)
            digest = b"-" if content is None else hashlib.sha256(content).hexdigest().encode()
            name = os.path.relpath(path, os.fsencode(folder))
            lines[name] = b"%s %s %d %s\n" % (kind, digest, size, name)
    text = b"kaged tree 1\n" + b"".join(lines[name] for name in sorted(lines))
    return "sha256:" + hashlib.sha256(text).hexdigest()


class FetchTest(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kaged-fetch-")
        os.chmod(self.base, 0o755)
        self.addCleanup(shutil.rmtree, self.base)

    def path(self, name):
        return os.path.join(self.base, name)

    def assert_failed(self, answer, code, words):
        self.assertEqual(answer.get("code"), code, answer)
        self.assertIn(words, answer["message"])
        self.assertEqual(answer["left"], 0)


class Sources(FetchTest):
    def make_all(self):
        folder = make_folder(self.path("in"))
        os.symlink("bin/run", os.path.join(folder, "link"))
        return folder, [
            make_tar(self.path("a.tar.gz"), [tar_entry("link", tarfile.SYMTYPE, "bin/run")]),
            make_zip(self.path("a.zip"), [(zip_entry("link", stat.S_IFLNK | 0o777), "bin/run")]),
            "file://" + self.make_bare(folder)]

    def make_bare(self, folder):
        work = self.path("work")
        shutil.copytree(folder, work, symlinks=True)
        archives.git(work, "init", "--quiet")
        archives.git(work, "add", "--all")
        archives.git(work, "commit", "--quiet", "--message", "x")
        archives.git(work, "clone", "--quiet", "--bare", ".", self.path("bare"))
        return self.path("bare")

    def check_all(self, **options):
        folder, others = self.make_all()
        with Fetcher(self.base, **options) as fetcher:
            for source in [folder, *others]:
                answer = fetcher.fetch(source)
                self.assertEqual(answer.get("hash"), tree_hash(folder), answer)
                self.assertEqual(answer["progress"][-1], "checking")
                self.assertEqual(answer["network"], [])
                self.assertEqual(answer["left"], 0)

    def test_every_kind_of_source_has_the_hash_that_the_manual_describes(self):
        self.check_all()

    def test_it_is_the_same_for_an_ordinary_user(self):
        self.check_all(user=ORDINARY)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_it_is_the_same_for_a_daemon_that_gave_root_up(self):
        os.chmod(self.base, 0o755)
        with Fetcher(self.base, owner=ORDINARY) as fetcher:
            folder = make_folder(self.path("in"))
            self.assertEqual(fetcher.fetch(folder).get("hash"), tree_hash(folder))
            os.chmod(folder, 0o700)  # root may look, but the daemon's user may not
            self.assertEqual(fetcher.fetch(folder)["code"], "cage_failed")

    def test_source_that_only_its_owner_may_read_is_fetched(self):
        folder = make_folder(self.path("in"))
        for where, folders, files in os.walk(folder):
            for name in folders + files:
                path = os.path.join(where, name)
                os.chmod(path, os.stat(path).st_mode & 0o700)
        os.chmod(folder, 0o700)
        with Fetcher(self.base) as fetcher:
            self.assertIn("hash", fetcher.fetch(folder))

    def test_folder_that_holds_the_store_itself_is_refused(self):
        make_folder(self.path("."))
        with Fetcher(self.base) as fetcher:
            self.assert_failed(fetcher.fetch(self.base), "refused", "kaged's own plugin store")


class Refusals(FetchTest):
    def test_refused_archive_leaves_nothing_and_names_its_entry(self):
        entry = tar_entry("bin/out", tarfile.SYMTYPE, "../../../etc/passwd")
        with Fetcher(self.base, bytes_max=100_000) as fetcher:
            answer = fetcher.fetch(make_tar(self.path("a.tar.gz"), [entry]))
            self.assert_failed(answer, "refused", 'entry "bin/out": the link leads out')
            self.assertTrue(answer["message"].startswith(self.path("a.tar.gz")), answer)
            bomb = tar_entry("bomb", content=b"\0" * 10_000_000)
            answer = fetcher.fetch(make_tar(self.path("a.tar.gz"), [bomb]))
            self.assert_failed(answer, "too_large", "larger than the bound")
            self.assert_failed(fetcher.fetch(self.path("gone.zip")), "not_found", "gone.zip")

    @unittest.skipUnless(os.path.isdir(REGRESS) or os.environ.get("CI") == "true",
                         suite_skip("libzip-regress"))
    def test_every_archive_of_libzip_regress_is_refused_with_its_reason(self):
        """None of them is a plugin; those that are inconsistent must be told apart from others."""
        reasons = {}
        before = sorted(os.listdir(self.base))
        with Fetcher(self.base) as fetcher:
            for path in sorted(glob.glob(os.path.join(REGRESS, "*.zip"))):
                answer = fetcher.fetch(path)
                self.assertIn(answer.get("code"), ("refused", "invalid_source", "too_large"), path)
                self.assertNotIn("signal", answer["message"])
                self.assertEqual(answer["left"], 0)
                reasons[os.path.basename(path)] = answer["message"]
            home = os.path.basename(fetcher.home)
        missing = [name for name, reason in reasons.items() if "no file kaged-plugin" in reason]
        # Another field of times in one of its two headers; no reader takes these for anything else.
        harmless = ["incons-ef-local-id.zip"]
        self.assertEqual([name for name in missing if name.startswith("incons")], harmless)
        self.assertGreater(len(reasons), 150)
        self.assertEqual(sorted(os.listdir(self.base)), sorted(before + [home]))
        print(f"# libzip-regress: {len(reasons)} archives, none crashed or escaped: "
              f"{len(reasons) - len(missing)} refused for what they are, {len(missing)} whole, "
              "but no plugin")


if __name__ == "__main__":
    main()
