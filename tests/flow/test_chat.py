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
from models import STREAM, Provider, delta

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

    def __init__(self, daemon, *options):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(daemon.environment(), TERM="vt100", LANG="C.UTF-8")
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
