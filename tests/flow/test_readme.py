"""README.md, then docs/first-steps.md: their blocks are taken out and run, in a fresh home and in a user's
default places.

The line that opens a block says what it is, as in test_guide.py. Of `console` blocks those called "run"
and "doctor" are not compared: the first is what make run prints, the second differs on each machine;
"model" is answered by a provider of this test, and "client" is what a client of MCP asks for. Blocks called sh are for people to run as they are.
"""
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import unittest

from harness import KAGED, PATIENCE, ROOT, FlowTest, main, wait_for
from login import Login
from models import END, STREAM, Provider, delta
from registry import MODULES, Registry
from terminal import Terminal
from test_guide import BLOCK, Block, Shell, fits
from test_plugin_new import share
from test_turns import calls

HERE = "/home/ann/kaged"


def shows(wanted, printed):
    """Columns are as wide as the paths in them, which differ here, and with them where lines end."""
    wanted, printed = (re.sub(" +", " ", re.sub(r"\n +(?=may )", " ", text))
                       for text in (wanted, printed))
    return fits(wanted, printed)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
@unittest.skipUnless(os.path.isdir(MODULES + "/@modelcontextprotocol"),
                     "the packages of tests/package.json are not here: scripts/npm tests")
class Readme(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.registry = cls.enterClassContext(Registry(with_installed=True))

    def play(self, login, self_words):
        share("python")
        folder = os.path.join(login.home, "kaged")
        os.mkdir(folder)
        with open(os.path.join(login.home, ".npmrc"), "w") as file:
            file.write(f"registry={self.registry.url}\n")
        login.own()
        answers = [calls({}, name="hello__note"), STREAM + delta("Milk.") + END]
        with Provider(*answers) as provider:
            names = {HERE: folder, "/home/ann": login.home, "8000": free_port(), "8001": free_port(), "11434":
                     str(provider.port), f"kaged --home {HERE}/.kaged-run": self_words,
                     "/tmp/notes": os.path.join(login.base, "notes")}
            self.run_blocks(login, folder, names)

    def blocks(self, names):
        text = ""
        for name in ("README.md", "docs/first-steps.md"):
            with open(os.path.join(ROOT, name)) as file:
                text += file.read()
        pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        text = re.sub(pattern, lambda found: names[found.group()], text)
        return [Block(*found) for found in BLOCK.findall(text)]

    def run_blocks(self, login, folder, names):
        words = names[f"kaged --home {HERE}/.kaged-run"].replace("kaged", KAGED, 1)
        shell = Shell(folder, login.environment, **login.identity())
        self.addCleanup(shell.close)
        self.addCleanup(shell.run, "kill $(jobs -p)")
        shell.run(f"k() {{ {words} \"$@\"; }}")
        self.assertIn("running", shell.run("k start"))
        self.assertIn("Installed", shell.run("k plugin install --yes echo && k plugin enable echo"))
        for block in self.blocks(names):
            if block.name == "client":
                self.play_client(login, words, block)
            elif block.kind == "console" and block.name not in ("run", "doctor"):
                self.play_block(login, shell, words, block)
            elif block.name == "local.toml":
                shell.run(f"cat >>$(k config path | tail -n 1) <<'END'\n{block.text}\nEND")
                self.assertIn("read again", shell.run("k reload"))
            elif block.kind in ("yaml", "bash"):
                path = os.path.join(folder, block.name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(block.text)
                login.own()

    def play_client(self, login, words, block):
        """Its lines are "> TOOL ARGUMENTS", each with what the client is answered below it."""
        asked = re.findall(r"^> (\S+) (.*)\n((?:[^>].*\n)*)", block.text, re.MULTILINE)
        messages = [{"method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "claude", "version": "1"}}}]
        messages += [{"method": "tools/call", "params": {"name": "server-filesystem__" + tool,
                                                         "arguments": json.loads(arguments)}}
                     for tool, arguments, _ in asked]
        bridge = subprocess.Popen([*shlex.split(words), "mcp", "serve"], env=login.environment,
                                  cwd=login.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, **login.identity())
        self.addCleanup(bridge.communicate)
        answers = []
        for number, message in enumerate(messages):
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **message}) + "\n")
            bridge.stdin.flush()
            answers.append(json.loads(bridge.stdout.readline()))
        for (_, _, wanted), answer in zip(asked, answers[1:]):
            self.assertEqual(answer["result"]["content"][0]["text"].strip(), wanted.strip())

    def play_block(self, login, shell, words, block):
        for command, wanted in block.commands():
            if "[y/N] y" in wanted:
                line = re.sub("^k ", words + " ", command)
                with Terminal(["bash", "-c", f"cd {shell.run('pwd')} && {line}"],
                              login.environment, **login.identity()) as terminal:
                    printed = terminal.talk(*["y\n"] * wanted.count("[y/N] y"),
                                            timeout=10 * PATIENCE)[1].strip()
            else:
                printed = shell.run(command)
            if "hello.knock" in command:  # the server of the line before may still be starting
                wait_for(lambda: shows(wanted, shell.run(command)), f"{command}: {wanted}")
            else:
                self.assertTrue(shows(wanted, printed), f"$ {command}\n{printed}\n-- is not\n{wanted}")

    def test_its_blocks_print_what_it_shows_in_a_fresh_home(self):
        with Login() as login:
            home = os.path.join(login.home, "kaged/.kaged-run")
            try:
                self.play(login, f"kaged --home {home}")
            finally:
                login.run(KAGED, "--home", home, "stop")

    def test_its_blocks_print_what_it_shows_in_the_default_places_of_a_user(self):
        with Login() as login:
            self.play(login, "kaged")


if __name__ == "__main__":
    main()
