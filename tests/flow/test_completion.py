"""Completion in real shells: what is on the command line after Tab was pressed."""
import contextlib
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from harness import KAGED, PATIENCE, Daemon, FlowTest, main

PATH = f"{os.path.dirname(KAGED)}:{os.environ['PATH']}"
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             """bind -x '"\\C-xp": echo "<<$READLINE_LINE>>"'; eval "$(kaged completion bash)"; """
             "echo re'ady'\n"),
    "zsh": (["zsh", "-f", "-i"],
            "autoload -U compinit; compinit -D -u; show() { print -r -- \"<<$BUFFER>>\" }; "
            "zle -N show; bindkey '^Xp' show; eval \"$(kaged completion zsh)\"; echo re'ady'\n"),
}


def environment(folder):
    return {"PATH": PATH, "HOME": folder, "LANG": "C.UTF-8",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}


class Terminal:
    """A shell that believes somebody types."""

    def __init__(self, shell, folder):
        command, setup = START[shell]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, {**environment(folder), "TERM": "dumb", "PS1": "$ "})
        self.seen = ""
        os.write(self.fd, setup.encode())
        self.wait("ready\r")

    def wait(self, pattern):
        """The first match in what was printed, which is forgotten then."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def complete(self, line):
        """The command line after Tab; Ctrl-U empties it for the next."""
        os.write(self.fd, f"{line}\t\x18p".encode())
        found = self.wait("<<(.*?)>>").group(1)
        os.write(self.fd, b"\x15")
        return found

    def close(self):
        os.close(self.fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


class Fish:
    """fish says itself what it would complete to."""

    def __init__(self, folder):
        self.folder = folder

    def complete(self, line):
        script = "kaged completion fish | source; complete -C $argv[1]"
        done = subprocess.run(["fish", "--no-config", "-c", script, line], cwd=self.folder,
                              env=environment(self.folder), capture_output=True, text=True,
                              timeout=PATIENCE)
        words = [candidate.split("\t")[0] for candidate in done.stdout.splitlines()]
        return line if len(words) != 1 else line.rpartition(" ")[0] + " " + words[0] + " "

    def close(self):
        pass


class Completion(FlowTest):
    plugins = ["good-c", "echo"]

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        os.mkdir(os.path.join(self.folder, "my-plugin"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def check(self, shell):
        kaged = f"kaged --home {self.daemon.home} "
        for typed, added in (("kaged plugin sta", "tus"),
                             ("kaged help plugin kn", "obs"),
                             ("kaged audit --fol", "low"),
                             ("kaged config set logging.format j", "son"),
                             ("kaged plugin validate my", "-plugin/"),
                             (kaged + "plugin why go", "od-c"),
                             (kaged + "plugin call good-c good.ec", "ho"),
                             ("kaged --home /nowhere plugin why go", "")):
            # Whether a blank follows is the shell's own affair.
            self.assertEqual(shell.complete(typed).rstrip(), typed + added)
        shell.close()

    @unittest.skipUnless(shutil.which("bash"), "bash is not installed")
    def test_bash(self):
        self.check(Terminal("bash", self.folder))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.check(Terminal("zsh", self.folder))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        self.check(Fish(self.folder))

    def test_names_are_of_plugins_and_methods(self):
        def typed(*words):
            lines = "\n".join(["--home", self.daemon.home, *words, ""])
            return self.daemon.cli("completion", "words", input=lines)

        self.assertEqual(typed("plugin", "logs", ""), (0, "echo\tplugin\ngood-c\tplugin\n", ""))
        self.assertIn("echo.say\tmethod\n", typed("plugin", "call", "echo", "")[1])
        self.assertEqual(typed("plugin", "call", "no-such", ""), (0, "", ""))

    def test_socket_without_a_daemon_is_not_asked(self):
        # It may be a service manager's, who would start one.
        daemon = Daemon()
        self.addCleanup(daemon.discard)
        os.makedirs(os.path.dirname(daemon.socket))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(daemon.socket)
            listener.listen()
            lines = f"--home\n{daemon.home}\nplugin\nwhy\n\n"
            self.assertEqual(daemon.cli("completion", "words", input=lines), (0, "", ""))
            self.assertFalse(select.select([listener], [], [], 0)[0])


if __name__ == "__main__":
    main()
