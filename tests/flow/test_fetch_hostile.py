"""Fetches that go wrong on purpose: a kaged-unpack that lies, and ends in the middle of work."""
import json
import os
import shutil
import signal
import tempfile

import archives
from archives import make_folder
from harness import main, process_name, processes, wait_for
from test_fetch import Fetcher, FetchTest

LIAR = """#!/usr/bin/python3 -S
import os, sys, time
work = sys.argv[3]
os.umask(0)
def say(text): print(text, flush=True)
def tree(name="kaged-plugin.yaml", mode=0o644):
    os.mkdir(work + "/tree", 0o755)
    os.close(os.open(work + "/tree/" + name, os.O_CREAT | os.O_WRONLY, mode))
DONE = '{"type":"done"}'
with open(sys.argv[2] + "/lie") as file: exec(file.read())
"""


class Lies(FetchTest):
    """A kaged-unpack that was taken over: its word is not believed, and nothing of it stays."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kaged-lies-")
        os.chmod(cls.folder, 0o755)
        cls.fetcher = Fetcher(cls.folder, helper=LIAR).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fetcher.__exit__(None, None, None)
        shutil.rmtree(cls.folder)

    def lie(self, code):
        """What comes of a source whose kaged-unpack does this."""
        return self.fetcher.fetch(make_folder(self.path("in"), {"lie": code.encode()}))

    def test_honest_words_and_tree_are_taken(self):
        self.assertIn("hash", self.lie("tree(); say(DONE)"))

    def test_tree_that_breaks_the_rules_is_refused(self):
        cases = {
            "tree(mode=0o666)": "its mode is not a plain one",
            "tree(); os.symlink('/etc/passwd', work + '/tree/a')": "the link is absolute",
            "tree(); os.symlink('../../x', work + '/tree/a')": "leads out",
            "tree(); os.mkfifo(work + '/tree/a')": "it is a pipe",
            "tree(); os.link(work + '/tree/kaged-plugin.yaml', work + '/tree/a')": "second name",
            "tree('a\\nb')": "control character",
            "tree(); open(work + '/tree/kaged-plugin.yaml', 'w').truncate(1 << 40)": "larger than",
            "os.symlink('/etc', work + '/tree')": "what kaged-unpack made",
            "pass": "what kaged-unpack made",
        }
        for code, words in cases.items():
            with self.subTest(code=code):
                answer = self.lie(code + "\nsay(DONE)")
                self.assertIn(words, answer.get("message", answer))
                self.assertEqual(answer["left"], 0)

    def test_words_that_it_should_not_say_end_it(self):
        for code in ("while True: sys.stdout.write('x' * 65536)", "say('no JSON')", "say('{}')",
                     "while True: say('{\"type\":\"progress\",\"phase\":\"copying\"}')",
                     "tree(); say(DONE); say(DONE)", "say('[' * 4000)"):
            with self.subTest(code=code):
                self.assert_failed(self.lie(code), "invalid_source",
                                   "kaged-unpack broke its protocol")

    def test_reason_cannot_move_the_cursor(self):
        answer = self.lie(r"""say('{"type":"failed","code":"daemon_stopping",'
                              '"message":"a\\u001b[2Jb\\u202e"}'); sys.exit(1)""")
        self.assert_failed(answer, "invalid_source", "a\\x1b[2Jb\\u202e")

    def test_end_without_a_word_is_explained(self):
        self.assert_failed(self.lie("sys.exit('oh dear')"), "internal_error", "oh dear")
        self.assert_failed(self.lie("os.kill(os.getpid(), 11)"), "invalid_source", "signal 11")
        self.assert_failed(self.lie("tree(); say(DONE); sys.exit(3)"), "internal_error", "code 3")

    def test_time_is_bounded(self):
        with Fetcher(self.base, helper=LIAR, timeout_ms=500) as fetcher:
            answer = fetcher.fetch(make_folder(self.path("in"), {"lie": b"time.sleep(600)"}))
        self.assert_failed(answer, "too_large", "it was not done after 1 s")
        self.assertIn("install_timeout_ms", answer["hint"])

    def test_folders_without_end_are_removed(self):
        code = """os.chdir(work)
for i in range(1500):
    os.mkdir('d', 0o300 if i % 2 else 0o700)
    os.chdir('d')
sys.exit('enough')"""
        self.assert_failed(self.lie(code), "internal_error", "enough")


class Interruptions(FetchTest):
    """Wherever it ends, nothing stays but what the next start removes."""

    def many_files(self):
        files = {**archives.HONEST, **{f"many/{i}": b"x" for i in range(800)}}
        return make_folder(self.path("in"), files)

    def test_cancelled_fetch_leaves_nothing_and_others_go_on(self):
        source = self.many_files()
        with Fetcher(self.base) as fetcher:
            self.assert_failed(fetcher.fetch(source, cancel=True), "cancelled", "cancelled")
            self.assertIn("hash", fetcher.fetch(source))
            self.assertEqual(fetcher.left(), [])

    def test_killed_helper_leaves_nothing(self):
        source = self.many_files()
        for _ in range(10):  # on a slow machine it may be done before it is found
            with Fetcher(self.base) as fetcher:
                fetcher.send(source)
                fetcher.wait_progress()
                for pid in processes():
                    if process_name(pid) == "kaged-unpack" and self.is_ours(pid, fetcher):
                        os.kill(pid, signal.SIGKILL)
                answer = json.loads(fetcher.process.stdout.readline())
            if "hash" not in answer:
                break
        self.assert_failed(answer, "invalid_source", "signal 9")

    @staticmethod
    def is_ours(pid, fetcher):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return fetcher.home.encode() in file.read()
        except OSError:
            return False

    def test_next_start_removes_what_a_killed_daemon_left(self):
        source = self.many_files()
        with Fetcher(self.base) as fetcher:
            fetcher.send(source)
            fetcher.wait_progress()
            fetcher.process.kill()
            fetcher.process.wait()
            self.assertEqual(len(fetcher.left()), 1)
            wait_for(lambda: not any(self.is_ours(pid, fetcher) for pid in processes()),
                     "the end of its cage")
        with fetcher:
            self.assertIn("hash", fetcher.fetch(source))
            self.assertEqual(fetcher.left(), [])


if __name__ == "__main__":
    main()
