"""A person at a terminal, for tests of dialogues: what is on the screen, and what is typed."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from harness import PATIENCE

PROMPT = "[y/N] "
CTRL_C = "\x03"


def screen(text):
    """What one reads in the end: lines that were written over are gone."""
    lines = [re.split(r"\r\x1b\[K", line)[-1] for line in text.replace("\r\n", "\n").split("\n")]
    return "\n".join(lines)


class Terminal:
    """Runs a command on a terminal of its own. read_until waits for text, type answers it."""

    def __init__(self, command, env, columns=100, **identity):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={"TERM": "xterm", **env},
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **identity)
        os.close(slave)
        self.raw = ""
        self.read_to = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)

    def take(self, timeout):
        """Reads once; False at the end."""
        if not select.select([self.master], [], [], timeout)[0]:
            return True
        try:
            piece = os.read(self.master, 65536)
        except OSError:
            return False  # the last one on the terminal has left
        self.raw += piece.decode(errors="replace")
        return bool(piece)

    def read_until(self, text, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        while text not in self.raw[self.read_to:]:
            if time.monotonic() > deadline or not self.take(0.1):
                raise AssertionError(f"{text!r} did not come; the screen has:\n{self.raw}")
        self.read_to = self.raw.index(text, self.read_to) + len(text)

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self, timeout=PATIENCE):
        """(exit code, the screen)"""
        deadline = time.monotonic() + timeout
        while self.take(0.1):
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end; the screen has:\n{self.raw}")
        return self.process.wait(timeout), screen(self.raw)

    def talk(self, *answers, timeout=PATIENCE):
        """Each question gets the next answer; then its end."""
        for answer in answers:
            self.read_until(PROMPT, timeout)
            self.type(answer)
        return self.end(timeout)
