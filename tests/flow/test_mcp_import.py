"""kaged mcp import: the servers of other clients on one screen, a yes for each, and keys in the store
of secrets. Also the sources that it makes of them: programs and servers somewhere else."""
import json
import os
import shutil
import stat
import unittest

from harness import KAGED, Daemon, FlowTest, main, wait_for
from mcp_http import McpHttp, legacy
from mcp_servers import TELLS, told
from registry import Registry
from terminal import PROMPT, Terminal
from test_npm import package

TOKEN = "ghp_0123456789abcdefghij"


class Home(Daemon):
    """With a home of its operator's, in which clients keep files."""

    def __init__(self, registry=None):
        super().__init__([])
        self.user = os.path.join(self.base, "user")
        os.mkdir(self.user)
        if registry:
            self.write(".npmrc", f"registry={registry.url}\n")

    def write(self, path, text, mode=0o644):
        whole = os.path.join(self.user, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        os.chmod(whole, mode)
        return whole

    def environment(self):
        return {**super().environment(), "HOME": self.user, "PATH": os.environ["PATH"]}

    def imports(self, *words, timeout=300):
        return self.cli("mcp", "import", *words, timeout=timeout)


def tools_of(daemon, plugin):
    status, answer = daemon.api("GET", f"/plugins/{plugin}/tools")
    assert status == 200, answer
    return {tool["name"]: tool["state"] for tool in answer["tools"]}


class Import(FlowTest):
    def eight(self, home, url, docs):
        program = home.write("tools/tells/server.py", TELLS, 0o755)
        home.write("tools/tells/pyproject.toml", "[project]\nname = 'tells'\n")
        return home.write(".cursor/mcp.json", {"mcpServers": {
            "Tiny Server": {"command": "npx", "args": ["-y", "@acme/tiny", docs],
                            "env": {"TINY_API_KEY": "k3y-of-tiny-1", "LOG_LEVEL": "debug"}},
            "tells": {"command": program, "args": ["--api-key", "hunter2-is-secret", docs],
                      "env": {"GITHUB_TOKEN": TOKEN}},
            "there": {"url": url, "headers": {"Authorization": "Bearer s3cret-header"}},
            "asks": {"command": program, "env": {"ASKED": "${input:asked}"}},
            "github": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "X", "mcp/github"]},
            "fetch": {"command": "uvx", "args": ["mcp-server-fetch"]},
            "gone": {"command": "/nowhere/server"},
            "off": {"command": "npx", "args": ["@acme/tiny"], "disabled": True}}})

    @unittest.skipUnless(shutil.which("npm"), "npm is not here")
    def test_eight_servers_of_a_file_are_shown_and_imported(self):
        with Registry({"@acme/tiny": {"1.2.0": package()}}) as registry, McpHttp(legacy) as there, \
                Home(registry) as home:
            docs = os.path.join(home.user, "docs")
            os.mkdir(docs)
            self.eight(home, there.url, docs)
            code, out, err = home.imports()
            self.assertEqual(code, 5, out + err)  # nobody can be asked, and nobody said yes
            self.check_screen(out)
            self.assertEqual(home.api("GET", "/plugins")[1]["plugins"], [])
            code, out, err = home.imports("--yes")
            self.assertEqual(code, 0, out + err)
            self.assertIn("imported 4 of 8", out)
            self.assertIn("secret set asks.ASKED", err)
            self.check_servers(home, there)
            code, out, err = home.imports("--yes", "--only", "tells")
            self.assertIn("already installed like this", out)
            self.assertNotIn("tiny-server", out)
            code, out, err = home.cli("--json", "mcp", "import", "--yes", timeout=300)
            states = {server["name"]: server["state"] for server in json.loads(out)["servers"]}
            self.assertEqual(states["fetch"], "skipped")
            self.assertEqual(states["there"], "installed-before")

    def test_a_page_takes_one_over_and_never_sees_its_keys(self):
        with Home() as home:
            program = home.write("one/server.py", TELLS, 0o755)
            home.write(".cursor/mcp.json", {"mcpServers": {
                "one": {"command": program, "env": {"GITHUB_TOKEN": TOKEN, "ASKED_TOKEN": "${input:asked}"}},
                "boxed": {"command": "docker", "args": ["run", "x"]}}})
            status, text = home.raw("GET", "/api/v1/mcp/found")
            self.assertEqual(status, 200, text)
            self.assertNotIn(TOKEN, str(text))
            one, boxed = sorted(json.loads(text)["servers"], key=lambda server: server["name"], reverse=True)
            self.assertEqual((one["plugin"], one["client"], one["installed"]), ("one", "Cursor", False))
            self.assertEqual({secret["name"]: secret["has_value"] for secret in one["secrets"]},
                             {"one.GITHUB_TOKEN": True, "one.ASKED_TOKEN": False})
            self.assertEqual(home.api("POST", f"/mcp/found/{boxed['plugin']}")[0], 403, boxed)
            self.assertEqual(home.api("POST", "/mcp/found/nobody")[0], 404)
            status, consent = home.api("POST", "/mcp/found/one")
            self.assertEqual(status, 202, consent)
            place = f"/consents/{consent['id']}"
            offered = wait_for(lambda: (lambda it: it["state"] != "fetching" and it)(home.api("GET", place)[1]), "it")
            self.assertEqual(offered["state"], "offered", offered)
            home.api("POST", f"{place}/approve", {"hash": offered["offer"]["hash"]})
            wait_for(lambda: home.api("GET", place)[1]["state"] == "done", "its installation")
            self.assertEqual(home.api("GET", "/secrets/one.GITHUB_TOKEN")[1]["source"], "sealed")
            self.assertTrue(home.api("GET", "/mcp/found")[1]["servers"][0]["installed"])

    def check_screen(self, out):
        self.assertIn("8 servers in 1 file\n", out)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 80 if "/tmp/" not in line else 200, line)
        for words in ("tiny-server (Tiny Server) 1.2.0\n", "npm:@acme/tiny", "may read ",
                      "Cursor, ~/.cursor/mcp.json", "tiny-server.TINY_API_KEY",
                      "! DANGER", "list of processes", "may reach 127.0.0.1",
                      "asks.ASKED (must be set)", "github  NOT IMPORTED",
                      "kaged does not start what uvx fetches: mcp-server-fetch",
                      "npm:@modelcontextprotocol/server-github",
                      "the program /nowhere/server is not installed", "switched off"):
            self.assertIn(words, " ".join(out.split()) if words not in out else out)
        for secret in (TOKEN, "hunter2", "k3y-of-tiny-1", "s3cret-header"):
            self.assertNotIn(secret, out)

    def check_servers(self, home, there):
        answer = told(home, "tells")
        self.assertEqual(answer["argv"][:2], ["--api-key", "hunter2-is-secret"])
        self.assertEqual(answer["env"]["GITHUB_TOKEN"], TOKEN)
        self.assertEqual(tools_of(home, "tells"), {"tell": "approved"})
        self.assertEqual(tools_of(home, "there"), {"echo": "approved"})
        self.assertEqual(tools_of(home, "tiny-server"), {"words": "approved"})
        self.assertEqual(there.seen()[-1][0]["Authorization"], "Bearer s3cret-header")
        secret = home.write("private.txt", "private")
        self.assertNotEqual(told(home, "tells", secret)["found"], "private")
        for folder, _, names in os.walk(home.home):
            for name in names:
                path = os.path.join(folder, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "rb") as file:
                        self.assertNotIn(TOKEN.encode(), file.read(), path)

    def test_each_has_a_yes_of_its_own(self):
        with Home() as home:
            program = home.write("one/server.py", TELLS, 0o755)
            file = home.write(".mcp.json", {"mcpServers": {"one": {"command": program},
                                                           "two": {"command": program}}})
            with Terminal([KAGED, "--home", home.home, "mcp", "import", file], home.environment(),
                          columns=80) as terminal:
                terminal.read_until("Import one? " + PROMPT)
                terminal.type("n\n")
                terminal.read_until("Import two? " + PROMPT)
                terminal.type("y\n")
                terminal.read_until("Approve these tools? " + PROMPT)
                terminal.type("y\n")
                code, screen = terminal.end()
            self.assertEqual(code, 0, screen)
            self.assertIn("imported 1 of 2", screen)
            self.assertEqual([plugin["name"] for plugin in home.api("GET", "/plugins")[1]["plugins"]],
                             ["two"])
            self.assertEqual(tools_of(home, "two"), {"tell": "approved"})

    def test_a_file_that_cannot_be_read_is_named(self):
        with Home() as home:
            code, _, err = home.imports("/nowhere.json")
            self.assertEqual(code, 4, err)
            file = home.write("bad.json", "{\n  \"mcpServers\": {")
            code, _, err = home.imports(file)
            self.assertEqual((code, "bad.json:2:" in err), (6, True), err)
            code, _, err = home.imports(home.write("none.json", "{}"))
            self.assertEqual(code, 4, err)


class Sources(FlowTest):
    def test_a_program_sees_its_own_project_and_what_is_among_its_arguments(self):
        with Home() as home:
            program = home.write("srv/app/server.py", TELLS, 0o755)
            home.write("srv/package.json", "{}")
            beside = home.write("srv/lib/beside.txt", "beside")
            data, other = home.write("data.txt", "data"), home.write("other.txt", "other")
            code, out, err = home.cli("plugin", "install", "--yes", "--name", "mine",
                                      "program:" + program, "--", data)
            self.assertEqual(code, 0, out + err)
            self.assertIn("is run in place", out)
            self.assertEqual(told(home, "mine", beside)["found"], "beside")
            self.assertEqual(told(home, "mine", data)["found"], "data")
            self.assertNotEqual(told(home, "mine", other)["found"], "other")

    def test_a_folder_without_a_manifest_of_ours_is_a_server_by_its_own_files(self):
        with Home() as home:
            home.write("py/src/tells/__init__.py", "")
            home.write("py/src/tells/app.py", "def main():\n" + "".join(
                "    " + line + "\n" for line in TELLS.splitlines()[2:]))
            home.write("py/pyproject.toml", "[project]\nname = 'py-tells'\nversion = '1.0.0'\n"
                       "dependencies = ['x']\n[project.scripts]\npy-tells = 'tells.app:main'\n")
            code, out, err = home.cli("plugin", "install", "--yes", home.user + "/py")
            self.assertEqual(code, 0, out + err)
            self.assertIn("has 1 dependencies, which are not fetched", out)
            self.assertEqual(told(home, "py-tells")["argv"], [])
            for files, words in (({"package.json": '{"name": "x"}'}, "names no program"),
                                 ({"package.json": '{"name": "x", "bin": "/bin/sh"}'}, "no program"),
                                 ({"pyproject.toml": "[project]\nname='x'\n[project.scripts]\n"
                                   "x = 'os:system(1)'\n"}, "names no program"),
                                 ({"package.json": "{"}, "package.json: 1:2"),
                                 ({"readme.md": ""}, "no file kaged-plugin.yaml")):
                shutil.rmtree(home.user + "/bad", ignore_errors=True)
                for name, text in files.items():
                    home.write("bad/" + name, text)
                code, out, err = home.cli("plugin", "install", "--yes", home.user + "/bad")
                self.assertEqual(code, 6, out + err)
                self.assertIn(words, out + err)

    def test_what_is_no_program_or_server_is_refused(self):
        with Home() as home:
            plain = home.write("plain.txt", "x")
            for source, words in (("program:" + plain, "not a program"),
                                  ("program:relative", "absolute path"),
                                  ("program:/nowhere", "No such file"),
                                  ("mcp+https://", "not the URL"),
                                  ("mcp+https://u:p@example.org/", "not the URL"),
                                  ("mcp+http://example.org/", "without TLS")):
                code, out, err = home.cli("plugin", "install", "--yes", source)
                self.assertNotEqual(code, 0, source)
                self.assertIn(words, out + err)

    def test_a_server_somewhere_else_is_installed_by_its_url(self):
        with McpHttp(legacy) as there, Home() as home:
            code, out, err = home.cli("plugin", "install", "--yes", "--name", "far", "mcp+" + there.url)
            self.assertEqual(code, 0, out + err)
            self.assertIn("net:127.0.0.1:", out)
            self.assertEqual(tools_of(home, "far"), {"echo": "approved"})


if __name__ == "__main__":
    main()
