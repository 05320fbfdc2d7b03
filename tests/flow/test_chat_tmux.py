"""kaged chat in a real terminal, as tmux is one: what stands on the screen while a turn runs."""
import os
import shutil
import subprocess
import threading
import unittest

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from models import END, STREAM, Provider, delta, event

PROJECT = """\
version: 1
name: talk
primary:
  model: smart
  plugins:
    asks: { package: asks }
"""
MODEL = '[providers.p]\nkind = "openai"\nbase_url = "{url}"\nretries = 0\n[models.smart]\nprovider = "p"\nmodel = "m"\n'


class Screen:
    """A terminal of 80 columns with a kaged chat in it."""

    def __init__(self, daemon, *options, env=()):
        self.tmux = ["tmux", "-f", "/dev/null", "-S", os.path.join(daemon.base, "tmux")]
        environment = {**daemon.environment(), "LANG": "C.UTF-8", "TERM": "screen-256color", **dict(env)}
        words = [KAGED, "--home", daemon.home, "chat", *options]
        self.environment = environment
        self.run("new-session", "-d", "-x", "80", "-y", "40", *words)

    def run(self, *words):
        done = subprocess.run([*self.tmux, *words], env=self.environment, text=True, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        subprocess.run([*self.tmux, "kill-server"], env=self.environment, capture_output=True)

    def type(self, text):
        self.run("send-keys", "-l", text)

    def key(self, *names):
        self.run("send-keys", *names)

    def say(self, text):
        self.type(text)
        self.key("Enter")

    def text(self, *options):
        return self.run("capture-pane", "-p", "-J", *options)

    def wait(self, words):
        try:
            return wait_for(lambda: (lambda text: words in text and text)(self.text()), words)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is:\n{self.text()}") from None

    def wait_prompt(self):
        """Until the last line is an empty prompt."""
        wait_for(lambda: self.text().rstrip().split("\n")[-1].rstrip() == ">", "a prompt")

    def is_over(self):
        return subprocess.run([*self.tmux, "has-session"], env=self.environment, capture_output=True).returncode != 0


def calls(name):
    return STREAM + event({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "c0", "function": {"name": name, "arguments": "{}"}}]}}]}) + \
        event({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"


@unittest.skipUnless(shutil.which("tmux"), "it needs tmux")
class Tmux(FlowTest):
    def talk(self, *answers, env=()):
        provider = self.enterContext(Provider(*answers))
        daemon = Daemon(["asks"])
        daemon.write_local(MODEL.format(url=provider.url))
        root = daemon.write_project("talk", PROJECT)
        self.enterContext(daemon)
        status, answer = daemon.api("POST", "/projects", {"path": root})
        self.assertEqual((status, answer["state"]), (200, "active"), answer)
        screen = self.enterContext(Screen(daemon, "--project", "talk", env=env))
        screen.wait_prompt()
        return screen

    def test_words_appear_as_they_come(self):
        go_on = threading.Event()

        def answer(connection):
            connection.sendall(STREAM + delta("The first"))
            go_on.wait(PATIENCE)
            connection.sendall(delta(" and **the last** words.") + END)

        screen = self.talk(answer)
        screen.say("tell me")
        screen.wait("The first")
        self.assertNotIn("words.", screen.text())
        go_on.set()
        screen.wait("The first and the last words.")
        self.assertRegex(screen.text("-e"), r"\x1b\[1m ?the last")
        screen.wait_prompt()

    def test_a_tool_asks_in_place_and_its_answer_is_gone_on_with(self):
        screen = self.talk(calls("asks__color"), STREAM + delta("Blue it is.") + END)
        screen.say("which color?")
        screen.wait("-> asks.color")
        screen.wait("plugin asks asks: Which color?")
        screen.wait("Answer it? [y/N]")
        screen.say("y")
        screen.wait("(one of red, blue)")
        screen.say("blue")
        screen.wait("shade")
        screen.say("")
        screen.wait("Blue it is.")
        self.assertRegex(screen.text(), r"<- asks\.color .*ms|<- asks\.color .* s")
        screen.wait_prompt()

    def test_ctrl_c_ends_the_turn_and_a_second_one_leaves(self):
        left = threading.Event()

        def hangs(connection):
            connection.sendall(STREAM + delta("Let me think"))
            while connection.recv(65536):
                pass
            left.set()

        screen = self.talk(hangs)
        screen.say("what is the answer")
        screen.wait("Let me think")
        screen.key("C-c")
        screen.wait("the turn was cancelled")
        wait_for(left.is_set, "the end of the request")
        screen.wait_prompt()
        screen.key("C-c")
        wait_for(screen.is_over, "its end")

    def test_another_size_and_no_colour_are_borne(self):
        screen = self.talk(STREAM + delta("# Head\n**bold** `code`\n") + END, env={"NO_COLOR": "1"})
        screen.run("resize-window", "-x", "50", "-y", "20")
        screen.say("a line that is a good deal longer than the fifty columns of this terminal")
        screen.wait("**bold** `code`")
        self.assertNotIn("\x1b[1m", screen.text("-e"))
        screen.wait_prompt()
        screen.say("/help")
        screen.wait("/context")
        screen.wait_prompt()


if __name__ == "__main__":
    main()
