"""kaged mcp connect: entries for the clients that people have, in the files that they read."""
import json
import os
import subprocess
import tempfile

from harness import KAGED, Daemon, FlowTest, main
from terminal import Terminal

FILES = {"claude": (".claude.json", "mcpServers"), "cursor": (".cursor/mcp.json", "mcpServers"),
         "vscode": (".config/Code/User/mcp.json", "servers"),
         "opencode": (".config/opencode/opencode.json", "mcp"),
         "gemini": (".gemini/settings.json", "mcpServers"),
         "codex": (".codex/config.toml", "mcp_servers")}


class Connect(FlowTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kg-")
        self.addCleanup(self.folder.cleanup)
        self.home = self.folder.name

    def run_kaged(self, *arguments, kaged_home=None):
        done = subprocess.run([KAGED, "--home", kaged_home or self.home + "/k", "mcp", *arguments],
                              env={**os.environ, "HOME": self.home}, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def path(self, client):
        return os.path.join(self.home, FILES[client][0])

    def read(self, client):
        with open(self.path(client)) as file:
            return file.read()

    def write(self, client, text):
        os.makedirs(os.path.dirname(self.path(client)), exist_ok=True)
        with open(self.path(client), "w") as file:
            file.write(text)

    def test_an_entry_is_shown_and_nothing_is_written(self):
        for client, (_, key) in FILES.items():
            code, text, words = self.run_kaged("connect", client)
            self.assertEqual(code, 0, words)
            self.assertIn("serve", text)
            self.assertIn(key, text)
            self.assertFalse(os.path.exists(self.path(client)))

    def connect_at_terminal(self, answer):
        command = [KAGED, "--home", self.home + "/k", "mcp", "connect", "cursor", "--write"]
        with Terminal(command, {**os.environ, "HOME": self.home}) as terminal:
            terminal.read_until("secrets hidden, for kaged mcp log?")
            terminal.type(answer + "\n")
            terminal.read_until("mcp.activity")
            self.assertEqual(terminal.end()[0], 0)

    def test_who_connects_a_client_is_offered_to_keep_all_of_its_calls(self):
        config = os.path.join(self.home, "k/config.toml")
        self.connect_at_terminal("n")
        self.assertFalse(os.path.exists(config))
        self.connect_at_terminal("y")
        with open(config) as file:
            self.assertIn('activity = "full"', file.read())
        code, out, err = self.run_kaged("connect", "cursor", "--write")
        self.assertEqual((code, "mcp.activity" in out + err), (0, False))  # it is set

    def test_an_entry_is_written_and_taken_out_and_every_other_byte_stays(self):
        before = '{\n\t"theme": "dark",   "mcpServers": {"other": {"command": "x"}},\n"n": 1e3}\n'
        for client in ("claude", "cursor", "gemini"):
            self.write(client, before)
            code, _, words = self.run_kaged("connect", client, "--write")
            self.assertEqual(code, 0, words)
            entry = json.loads(self.read(client))["mcpServers"]["kaged"]
            self.assertEqual(entry["args"][-2:], ["mcp", "serve"])
            self.assertTrue(os.access(entry["command"], os.X_OK), entry)
            self.assertTrue(self.read(client).startswith('{\n\t"theme": "dark",   "mcpServers"'))
            code, _, words = self.run_kaged("connect", client, "--write", "--read-only")
            self.assertEqual(code, 0, words)
            self.assertIn("--read-only", self.read(client))
            self.assertEqual(self.run_kaged("disconnect", client)[0], 0)
            self.assertEqual(json.loads(self.read(client)), json.loads(before))
            self.assertEqual(self.run_kaged("disconnect", client)[0], 4)

    def test_files_that_are_not_there_are_made(self):
        for client, (_, key) in FILES.items():
            code, _, words = self.run_kaged("connect", client, "--write")
            self.assertEqual(code, 0, words)
            self.assertIn("kaged", self.read(client))
            self.assertEqual(self.run_kaged("disconnect", client)[0], 0)
            self.assertNotIn("kaged", self.read(client))

    def test_a_file_that_is_not_plain_json_is_left_alone(self):
        for text in ('{ // a comment\n}', "[]", '{"servers": []}', "{"):
            self.write("vscode", text)
            code, _, words = self.run_kaged("connect", "vscode", "--write")
            self.assertEqual(code, 6, words)
            self.assertEqual(self.read("vscode"), text)

    def test_a_machine_is_reached_by_ssh(self):
        _, text, _ = self.run_kaged("connect", "cursor", "--ssh", "workstation")
        entry = json.loads(text)["mcpServers"]["kaged"]
        self.assertEqual([entry["command"], *entry["args"]],
                         ["ssh", "-T", "workstation", "kaged", "mcp", "serve"])

    def test_an_unknown_client_is_refused_with_the_nearest(self):
        code, _, words = self.run_kaged("connect", "curser")
        self.assertEqual(code, 2)
        self.assertIn("cursor", words)

    def test_servers_that_run_in_cages_leave_the_file_and_come_back(self):
        with Daemon(["mcp-reference"]) as daemon:
            self.write("cursor", json.dumps({"mcpServers": {
                "mcp-reference": {"command": "npx", "args": ["-y", "x"]}, "own": {"url": "u"}}}))
            before = json.loads(self.read("cursor"))
            code, text, words = self.run_kaged("connect", "cursor", "--write",
                                               kaged_home=daemon.home)
            self.assertEqual(code, 0, words)
            self.assertIn("mcp-reference", text)
            self.assertEqual(set(json.loads(self.read("cursor"))["mcpServers"]), {"own", "kaged"})
            code, text, words = self.run_kaged("disconnect", "cursor", kaged_home=daemon.home)
            self.assertEqual(code, 0, words)
            self.assertEqual(json.loads(self.read("cursor")), before)
            self.assertEqual(os.listdir(os.path.dirname(self.path("cursor"))), ["mcp.json"])


if __name__ == "__main__":
    main()
