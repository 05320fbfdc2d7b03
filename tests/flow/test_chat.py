"""kaged chat: a conversation on a terminal that believes somebody types."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from models import END, STREAM, Provider, delta, plain

PROJECT = """\
version: 1
name: talk
primary:
  model: smart
  prompt: Be kind.
  subagents:
    reader: { model: smart }
"""
DEMO = """\
[providers.demo]
kind = "demo"
[models.smart]
provider = "demo"
model = "demo"
"""


class Chat:
    """A kaged chat, and the keys of whoever talks there."""

    def __init__(self, daemon, *options, env=()):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({**daemon.environment(), "TERM": "vt100", "LANG": "C.UTF-8", **dict(env)})
            os.execv(KAGED, [KAGED, "--home", daemon.home, "chat", *options])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended without {pattern!r}: {self.seen!r}") from None
        self.seen = self.seen[found.end():]
        return found

    def say(self, text, pattern):
        """After the prompt; waits for what comes of it."""
        self.wait("> ")
        self.type(text + "\n")
        return self.wait(pattern)

    def end(self):
        """Its exit code."""
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


class Talk(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.share(Daemon([]))
        cls.daemon.write_local(DEMO)
        cls.daemon.cli("reload")
        root = cls.daemon.write_project("talk", PROJECT)
        cls.daemon.api("POST", "/projects", {"path": root})

    def sessions(self):
        return self.daemon.api("GET", "/sessions")[1]["sessions"]

    def test_lines_are_said_and_slash_commands_are_about_the_session(self):
        with Chat(self.daemon, "--project", "talk") as chat:
            session = chat.wait(r"(ses_\w+) in project talk").group(1)
            chat.say("hello", "I am not a model")
            chat.say("/help", "/context +what the model is sent")
            chat.say("/context", "prompt\r\n +Be kind")
            chat.say("/tools", "primary.subagents.reader")
            chat.say("/agent primary.subagents.reader", "seat primary.subagents.reader")
            chat.say("/agent", "usage: /agent AGENT")
            chat.say("first \\", r"\. ")
            chat.type("second\n")
            chat.wait("I am not a model")
            forked = chat.say("/fork", r"now in (ses_\w+)").group(1)
            self.assertNotEqual(forked, session)
            chat.say("/quit", f"go on later with: kaged chat --resume {forked}")
            self.assertEqual(chat.end(), 0)
        entries = self.daemon.api("GET", f"/sessions/{session}/entries")[1]["entries"]
        self.assertEqual([e["content"] for e in entries if e["role"] == "user"],
                         ["hello", "first \nsecond"])

    def test_what_was_said_is_undone_and_redone_after_a_yes(self):
        def said():
            entries = self.daemon.api("GET", f"/sessions/{session}/entries")[1]["entries"]
            return [entry["content"] for entry in entries if entry["role"] == "user"]

        def answer(line, shown, answered, end):
            chat.say(line, shown)
            chat.wait(r"Do it\? \[y/N\] ")
            chat.type(answered + "\n")
            chat.wait(end)

        with Chat(self.daemon, "--project", "talk") as chat:
            session = chat.wait(r"(ses_\w+) in project talk").group(1)
            chat.say("the first", "I am not a model")
            chat.say("the second", "I am not a model")
            answer("/undo", "from here on: the second", "n", "nothing was changed")
            self.assertEqual(said(), ["the first", "the second"])
            answer("/undo", "from here on: the second", "y", "takes it back")
            self.assertEqual(said(), ["the first"])
            answer("/redo", "instead of", "y", "done")
            self.assertEqual(said(), ["the first", "the second"])
            chat.say("/redo", "there is nothing to redo")
            chat.say("/quit", "go on later")
            self.assertEqual(chat.end(), 0)

    def test_a_session_is_gone_on_with_and_lines_are_remembered(self):
        with Chat(self.daemon, "--project", "talk") as chat:
            session = chat.wait(r"(ses_\w+) in project").group(1)
            chat.say("remembered words", "I am not a model")
            chat.wait("> ")
            chat.type("\x04")
            chat.wait("go on later")
            self.assertEqual(chat.end(), 0)
        with Chat(self.daemon, "--resume", session) as chat:
            chat.wait(session)
            chat.wait("> ")
            chat.type("\x1b[A\n")
            chat.wait("I am not a model")
            chat.wait("> ")
            chat.type("a line that is not sent")
            chat.wait("not sent")
            chat.type("\x03")
            chat.wait(r"\^C\r\n")
            chat.wait("> ")
            chat.type("\x03")  # on an empty line it leaves
            chat.wait("go on later")
            self.assertEqual(chat.end(), 0)
        entries = self.daemon.api("GET", f"/sessions/{session}/entries")[1]["entries"]
        self.assertEqual([e["content"] for e in entries if e["role"] == "user"],
                         ["remembered words"] * 2)

    def test_without_a_terminal_it_says_what_to_use(self):
        code, _, err = self.daemon.cli("chat", "--project", "talk")
        self.assertEqual(code, 2)
        self.assertIn("session send", err)


class Model(FlowTest):
    """Without a model that local.toml knows."""

    TAGS = plain(200, b'{"models": [{"name": "tiny:1b"}, {"name": "large"}]}')
    NO_KEYS = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""}

    def setUp(self):
        self.daemon = self.enterContext(Daemon([]))

    def load(self, project):
        root = self.daemon.write_project("talk", project)
        status, answer = self.daemon.api("POST", "/projects", {"path": root})
        self.assertEqual(status, 200, answer)
        return os.path.join(root, ".kaged/project.yaml")

    def local(self):
        path = os.path.join(self.daemon.home, "local.toml")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def test_an_ollama_on_this_machine_is_offered_and_used_after_a_yes(self):
        said = STREAM + delta("Hello from here.") + END
        for project, alias in ((PROJECT, "smart"), (PROJECT.replace("  model: smart\n  prompt", "  prompt"), "chat")):
            with self.subTest(alias), Provider(self.TAGS, said) as provider:
                file = self.load(project)
                address = provider.url.split("//")[1].split("/")[0]
                with Chat(self.daemon, "--project", "talk", env={**self.NO_KEYS, "OLLAMA_HOST": address}) as chat:
                    chat.wait(r"has tiny:1b\. Use it\? \[y/N\] ")
                    chat.type("y\n")
                    chat.wait(r"Which model\? \(empty: tiny:1b\) ")
                    chat.type("\n")
                    chat.wait(rf"wrote \[providers.ollama\] and \[models.{alias}\]")
                    chat.say("hi", "Hello from here")
                    chat.say("/quit", "go on later")
                    self.assertEqual(chat.end(), 0)
                self.assertIn(f"[models.{alias}]", self.local())
                self.assertIn('model = "tiny:1b"', self.local())
                with open(file) as text:
                    self.assertIn(f"model: {alias}", text.read())
                os.unlink(os.path.join(self.daemon.home, "local.toml"))
                self.daemon.cli("reload")

    def test_a_key_of_the_environment_becomes_a_secret_after_a_yes_and_nothing_without(self):
        with Provider() as nobody:
            port = nobody.url.split("//")[1].split("/")[0].split(":")[1]
        self.load(PROJECT)
        env = {**self.NO_KEYS, "ANTHROPIC_API_KEY": "k3y-of-the-environment", "OLLAMA_HOST": f"127.0.0.1:{port}"}
        with Chat(self.daemon, "--project", "talk", env=env) as chat:
            chat.wait(r"ANTHROPIC_API_KEY is in the environment")
            chat.wait(r"\[y/N\] ")
            chat.type("n\n")
            chat.wait("without a model there are no answers")
            chat.say("/quit", "go on later")
            self.assertEqual(chat.end(), 0)
        self.assertEqual(self.local(), "")
        self.assertEqual(self.daemon.api("GET", "/secrets")[1]["secrets"], [])
        with Chat(self.daemon, "--project", "talk", env=env) as chat:
            chat.wait(r"\[y/N\] ")
            chat.type("y\n")
            chat.wait(r"Which model\? ")
            chat.type("claude-of-tests\n")
            chat.wait("wrote ")
            chat.say("/quit", "go on later")
            self.assertEqual(chat.end(), 0)
        self.assertIn('api_key = "${secret:ANTHROPIC_API_KEY}"', self.local())
        self.assertIn('model = "claude-of-tests"', self.local())
        self.assertNotIn("k3y-of-the-environment", self.local())
        self.assertEqual(self.daemon.api("GET", "/secrets/ANTHROPIC_API_KEY")[1]["source"], "sealed")


class Interrupted(FlowTest):
    def test_an_interrupt_ends_the_turn_and_not_the_conversation(self):
        left = threading.Event()

        def hangs(connection):
            connection.sendall(STREAM + delta("Let me think"))
            while connection.recv(65536):
                pass
            left.set()

        with Provider(hangs) as provider, Daemon([]) as daemon:
            daemon.write_local(DEMO.replace('kind = "demo"', f'kind = "openai"\nretries = 0\n'
                                            f'base_url = "{provider.url}"'))
            daemon.cli("reload")
            daemon.api("POST", "/projects", {"path": daemon.write_project("talk", PROJECT)})
            with Chat(daemon, "--project", "talk") as chat:
                chat.say("what is the answer", "Let me think")
                chat.type("\x03")
                chat.wait("the turn was cancelled")
                wait_for(left.is_set, "the end of the request")
                chat.say("/show", "what is the answer")
                chat.say("/quit", "go on later")
                self.assertEqual(chat.end(), 0)


if __name__ == "__main__":
    main()
