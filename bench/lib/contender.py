"""Programs that take turns: each waits for a command on stdin and answers it with its figures."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile

from lib.process import family, run_us, threads


class Failed(Exception):
    """A contender that ended, or never began; the message says what it said last."""


def cores():
    """(the one for loop and plugin, the one for all else); the same where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def pin_thread(pid, name, core):
    """Moves the threads of that name to another core."""
    for task in threads(pid, name):
        os.sched_setaffinity(int(os.path.basename(task)), {core})


class Contender:
    """core: it, and all that it starts, stay on that one."""

    def __init__(self, command, core=None, environment=None, folder=None):
        self.name = os.path.basename(command[-1 if command[0] in ("node", sys.executable) else 0])
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            cwd=folder, env={**os.environ, **(environment or {})},
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}))
        self.pids, self.spared = [], []  # whose processor time counts, but for these threads of them

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    @property
    def pid(self):
        return self.process.pid

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise Failed(self.last_words())
        return json.loads(line)

    def last_words(self):
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        said = next((line for line in lines if "Error" in line), lines[-1] if lines else "it said nothing")
        return f"{self.name}: {said.strip()}"


def start_peers(stack, commands, warm, core=None):
    """({name: contender}, {name: why it is not there}); each has answered the command `warm`."""
    running, missing = {}, {}
    for name, command in commands.items():
        try:
            peer = stack.enter_context(Contender(command(), core))
            peer.ask(*warm)
            peer.pids = family(peer.pid)
            running[name] = peer
        except Failed as why:
            missing[name] = str(why)
    return running, missing


def each(figures, key):
    """One figure of those that the contenders gave: {who: one a round}."""
    return {who: [one[key] for one in rounds] for who, rounds in figures.items()}


def call(one, *words, command="calls"):
    """The figures of calls and their latencies; with one.pids also what they cost, in `run_us`."""
    before = run_us(one.pids, one.spared)
    figures = one.ask(command, *words)
    figures["run_us"] = (run_us(one.pids, one.spared) - before) / figures["calls"]
    return figures | one.ask("latencies")


def take_turns(acts, rounds, what):
    """Runs the acts one after the other, so many rounds: {name: [what it gave in each round]}."""
    figures = {name: [] for name in acts}
    for number in range(rounds):
        say(f"{what}, round {number + 1} of {rounds}")
        for name, act in acts.items():
            figures[name].append(act())
    return figures


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)
