"""The operator's own lines over a manifest: what they open and close, where they are kept, who is told."""
import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading

from harness import PLUGINS, Daemon, FlowTest, main, wait_for

NAME = "reads-files"


@contextlib.contextmanager
def folder(**files):
    with tempfile.TemporaryDirectory(prefix="kaged-grants-") as path:
        os.chmod(path, 0o755)
        for name, text in files.items():
            with open(os.path.join(path, name), "w") as file:
                file.write(text)
        yield os.path.realpath(path)


def answer_all(server):
    """Answers each connection until the server is closed."""
    with contextlib.suppress(OSError):
        while True:
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                if connection.recv(1):
                    connection.sendall(b"y")


class Reader(Daemon):
    def __init__(self, *capabilities, **options):
        super().__init__([NAME], config={"sandbox.root_writable": ["/tmp"]}, **options)
        if capabilities:
            self.declare(NAME, *capabilities)

    def read(self, path):
        """The text, or None if it was refused."""
        status, answer = self.try_call(NAME, "read.file", {"path": path})
        return answer["text"] if status == 200 else None

    def list(self, path):
        return self.call(NAME, "read.list", {"path": path})["names"]

    def change(self, act, *capabilities, **more):
        starts = self.status(NAME)["starts"]
        status, answer = self.api("POST", f"/plugins/{NAME}/{act}",
                                  {"capabilities": list(capabilities), **more})
        assert status == 200, answer
        for name in answer["restarted"]:
            self.wait_status(name, lambda found: found["starts"] > starts and found["state"] == "running",
                             "the new cage")
        return answer

    def local(self):
        with open(os.path.join(self.home, "local.toml")) as file:
            return file.read()


class Walk(FlowTest):
    def test_new_user_sees_a_refusal_pastes_the_command_and_takes_it_back(self):
        with folder(note="hello") as path, Reader() as daemon:
            status, answer = daemon.try_call(NAME, "read.file", {"path": f"{path}/note"})
            self.assertNotEqual(status, 200)
            self.assertIn(f"kaged plugin grant {NAME} read:fs:{path}/note", answer["hint"])
            code, words, _ = daemon.cli("plugin", "why", NAME)
            self.assertEqual(code, 0, words)
            line = next(line for line in words.splitlines() if "to allow it: " in line)
            command = shlex.split(line.split("to allow it: ")[1])
            self.assertEqual(command[-4:], ["plugin", "grant", NAME, f"read:fs:{path}/note"])
            code, said, wrong = daemon.cli(*command[-4:])
            self.assertEqual(code, 0, wrong)
            self.assertIn("restarted", said)
            daemon.wait_state(NAME, "running")
            self.assertEqual(daemon.read(f"{path}/note"), "hello")
            self.assertIn("you granted", daemon.cli("plugin", "status", NAME)[1])
            self.assertIn("granted by the operator", daemon.cli("plugin", "status", NAME, "--cage")[1])
            code, _, wrong = daemon.cli("plugin", "revoke", NAME, f"read:fs:{path}/note")
            self.assertEqual(code, 0, wrong)
            daemon.wait_state(NAME, "running")
            self.assertIsNone(daemon.read(f"{path}/note"))
            for event in "plugin.granted", "plugin.revoked":
                found = daemon.audit(event, NAME)
                self.assertEqual([row["capabilities"] for row in found], [[f"read:fs:{path}/note"]])
                self.assertTrue(found[0]["operator_id"] and found[0]["request_id"])
            self.assertNotIn("grants", daemon.local())


class Refusals(FlowTest):
    """Whoever is told of a refusal is told the command that takes it back."""

    def test_tool_that_fails_for_a_path_says_in_its_session_how_to_grant_it(self):
        agent = "agents-as-told"
        with folder(note="hello") as path, Daemon([agent]) as daemon:
            daemon.write_project("site", f"version: 1\nname: site\nprimary:\n"
                                 f"  plugins: {{ {agent}: {{ package: {agent} }} }}\n")
            self.assertEqual(daemon.api("POST", "/projects", {"path": daemon.project_root("site")})[0], 200)
            session = daemon.api("POST", "/projects/site/sessions", {})[1]["id"]
            error = {"code": -32000, "message": f"cannot read '{path}/note'"}
            status, answer = daemon.api("POST", f"/sessions/{session}/tools/{agent}.act",
                                        {"acts": {"error": error}})
            self.assertEqual(status, 200, answer)
            self.assertIn(f"kaged plugin grant {agent} read:fs:{path}/note", json.dumps(answer))

    def test_connection_that_is_refused_is_told_with_the_command_in_call_log_and_why(self):
        with Reader("net:localhost:1") as daemon:
            command = f"kaged plugin grant {NAME} net:nowhere.example:443"
            wait_for(lambda: command in daemon.try_call(NAME, "read.greet", {"path": "nowhere.example:443"})[1]
                     .get("hint", ""), "the command in the call's error")
            self.assertIn(f"to allow it: {command}", daemon.log())
            self.assertIn(f"grant {NAME} net:nowhere.example:443", daemon.cli("plugin", "why", NAME)[1])

    def test_path_that_the_operator_closed_is_told_with_the_line_that_opens_it(self):
        with folder(note="hello") as path, Reader(f"read:fs:{path}") as daemon:
            daemon.change("revoke", f"read:fs:{path}")
            answer = daemon.try_call(NAME, "read.file", {"path": f"{path}/note"})[1]
            self.assertIn("you closed it", answer["hint"])
            self.assertTrue(answer["hint"].endswith(f"kaged plugin grant {NAME} read:fs:{path}"), answer)


class Lines(FlowTest):
    def test_declared_line_that_is_revoked_is_closed_and_stays_so_after_a_restart(self):
        with folder(note="hello") as path, Reader(f"read:fs:{path}") as daemon:
            self.assertEqual(daemon.read(f"{path}/note"), "hello")
            answer = daemon.change("revoke", f"read:fs:{path}")
            self.assertEqual(answer["capabilities"], [])
            self.assertEqual(answer["closed"], [f"read:fs:{path}"])
            self.assertIsNone(daemon.read(f"{path}/note"))
            code, words, _ = daemon.cli("plugin", "why", NAME)
            self.assertIn(f"you closed it: read:fs:{path}", words, code)
            daemon.stop()
            daemon.start()
            daemon.wait_state(NAME, "running")
            self.assertIsNone(daemon.read(f"{path}/note"))
            daemon.change("grant", f"read:fs:{path}")
            self.assertEqual(daemon.read(f"{path}/note"), "hello")

    def test_folder_and_file_below_a_declared_one_are_empty_once_they_are_closed(self):
        for kind in "read", "write":
            with self.subTest(kind), folder(note="hello", key="secret") as path:
                os.mkdir(f"{path}/inner")
                with open(f"{path}/inner/key", "w") as file:
                    file.write("secret")
                with Reader(f"{kind}:fs:{path}") as daemon:
                    self.assertEqual(daemon.read(f"{path}/inner/key"), "secret")
                    daemon.change("revoke", f"read:fs:{path}/inner", f"read:fs:{path}/key")
                    self.assertEqual(daemon.read(f"{path}/note"), "hello")
                    self.assertIsNone(daemon.read(f"{path}/key"))
                    self.assertEqual(daemon.list(f"{path}/inner"), [])
                    words = daemon.cli("plugin", "status", NAME, "--cage")[1]
                    self.assertIn(f"may not see {path}/inner (closed by the operator)", words)
                    daemon.change("grant", f"read:fs:{path}/inner")
                    self.assertEqual(daemon.read(f"{path}/inner/key"), "secret")

    def test_what_is_closed_for_writing_alone_can_still_be_read(self):
        for kind in "read", "write":
            with self.subTest(kind), folder(note="hello") as path:
                os.mkdir(f"{path}/inner")
                with open(f"{path}/inner/key", "w") as file:
                    file.write("words")
                with Reader(f"{kind}:fs:{path}", f"write:fs:{path}/inner") as daemon:
                    daemon.change("revoke", f"write:fs:{path}/inner")
                    self.assertEqual(daemon.read(f"{path}/inner/key"), "words")
                    words = daemon.cli("plugin", "status", NAME, "--cage")[1]
                    self.assertNotIn(f"may not see {path}/inner", words)
                    self.assertNotIn(f"may change {path}/inner", words)

    def test_grants_are_kept_by_an_upgrade_and_gone_after_an_uninstall(self):
        with folder(note="hello") as path, Reader() as daemon:
            daemon.change("grant", f"read:fs:{path}")
            self.assertIn(f"[grants.{NAME}]", daemon.local())
            daemon.declare(NAME, "kaged:storage:read")
            daemon.approve()
            daemon.act(NAME, "restart")
            daemon.wait_state(NAME, "running")
            self.assertEqual(daemon.status(NAME)["granted"], [f"read:fs:{path}"])
            self.assertEqual(daemon.read(f"{path}/note"), "hello")
            code, _, wrong = daemon.cli("plugin", "uninstall", NAME)
            self.assertEqual(code, 0, wrong)
            self.assertNotIn("grants", daemon.local())

    def test_line_by_hand_that_is_none_keeps_the_plugin_from_starting_and_is_named(self):
        with Reader() as daemon:
            daemon.stop()
            with open(os.path.join(daemon.home, "local.toml"), "a") as file:
                file.write(f'\n[grants.{NAME}]\nallow = ["read:fs:relative"]\n')
            daemon.wait_running = False
            daemon.start()
            self.assertIn("[grants.reads-files] in local.toml", daemon.status(NAME)["problem"])


PROJECT = """version: 1
name: {name}
primary:
  plugins: {{ r: {{ package: reads-files }} }}
"""


class OfProject(FlowTest):
    def test_line_for_a_project_is_open_there_and_closed_everywhere_else(self):
        with folder(note="hello") as path, Reader() as daemon:
            for name in "site", "other":
                daemon.write_project(name, PROJECT.format(name=name))
                code, _, wrong = daemon.cli("project", "load", daemon.project_root(name))
                self.assertEqual(code, 0, wrong)
            code, said, wrong = daemon.cli("plugin", "grant", NAME, f"read:fs:{path}", "--project", "site")
            self.assertEqual(code, 0, wrong)
            self.assertIn(f"[grants.{NAME}.projects.site]", daemon.local())
            self.assertEqual(daemon.audit("plugin.granted", NAME)[-1]["project_id"], "site")
            for name in "site", "other":
                self.assertEqual(daemon.api("POST", f"/projects/{name}/sessions", {})[0], 201)

            def reads(name):
                status, answer = daemon.try_call(name, "read.file", {"path": f"{path}/note"})
                return answer["text"] if status == 200 else None

            wait_for(lambda: reads(f"{NAME}@site") == "hello", "the file in the project's cage")
            self.assertIsNone(reads(NAME))
            self.assertIsNone(reads(f"{NAME}@other"))
            self.assertEqual(daemon.status(NAME)["granted"], [])
            self.assertEqual(daemon.status(f"{NAME}@site")["granted"], [f"read:fs:{path}"])
            code, _, wrong = daemon.cli("plugin", "revoke", NAME, f"read:fs:{path}", "--project", "site")
            self.assertEqual(code, 0, wrong)
            wait_for(lambda: reads(f"{NAME}@site") is None, "the cage without it")
            self.assertNotIn("grants", daemon.local())


class Hosts(FlowTest):
    def test_port_that_is_closed_below_a_declared_host_is_refused_and_the_next_one_is_not(self):
        told = "does-as-told"
        with socket.create_server(("127.0.0.1", 0)) as shut, socket.create_server(("127.0.0.1", 0)) as open_one:
            ports = [server.getsockname()[1] for server in (shut, open_one)]
            daemon = Daemon([told])
            daemon.declare(told, "net:localhost:*")
            with daemon:
                def reaches(port):
                    code = (f"import socket; s = socket.create_connection(('127.0.0.1', {port}), timeout=25); "
                            "s.settimeout(25); s.sendall(b'x'); result = s.recv(1) == b'y'")
                    return daemon.call(told, "told.run", {"code": code}).get("result", False)

                for server in (shut, open_one):
                    threading.Thread(target=answer_all, args=(server,), daemon=True).start()
                self.assertEqual([reaches(port) for port in ports], [True, True])
                code, _, wrong = daemon.cli("plugin", "revoke", told, f"net:localhost:{ports[0]}")
                self.assertEqual(code, 0, wrong)
                daemon.wait_state(told, "running")
                self.assertEqual([reaches(port) for port in ports], [False, True])
                found = daemon.wait_audit("plugin.net_denied", told)
                self.assertIn("the operator closed it", str(found))
                self.assertIn(f"you closed it: net:localhost:{ports[0]}", daemon.cli("plugin", "why", told)[1])


TOLD = "does-as-told"
SECRET = "sk-planted-0123456789"


class AtInstall(FlowTest):
    """Lines of the operator's that come with the yes to an install."""

    def setUp(self):
        self.daemon = Daemon([])
        self.addCleanup(self.daemon.discard)
        self.source = os.path.join(self.daemon.base, TOLD)
        shutil.copytree(os.path.join(PLUGINS, TOLD), self.source)

    def declare(self, version, *capabilities):
        path = os.path.join(self.source, "kaged-plugin.yaml")
        with open(path) as file:
            lines = file.read().splitlines()
        with open(path, "w") as file:
            for line in lines:
                key = line.split(":")[0]
                line = {"version": f"version: {version}",
                        "capabilities": f"capabilities: {json.dumps(capabilities)}"}.get(key, line)
                file.write(line + "\n")

    def install(self, *options, code=0):
        got, out, wrong = self.daemon.cli("plugin", "install", self.source, "--yes", *options)
        self.assertEqual(got, code, out + wrong)
        return out + wrong

    def local(self):
        with open(os.path.join(self.daemon.home, "local.toml")) as file:
            return file.read()

    def start(self):
        self.daemon.start()
        self.addCleanup(self.daemon.stop)

    def run_code(self, code):
        return self.daemon.call(TOLD, "told.run", {"code": code}).get("result")

    def show(self, path):
        options = ("--grant", f"read:fs:{path}", "--env", "LEVEL=high", "--secret", "API_KEY")
        shown = self.install(*options)
        for part in f"+ read:fs:{path}", "LEVEL=high", "the secret API_KEY", "granted with this yes":
            self.assertIn(part, shown)
        self.assertIn("capabilities: none", shown)
        for part in f"[grants.{TOLD}]", f"read:fs:{path}", "${secret:API_KEY}":
            self.assertIn(part, self.local())

    def test_lines_that_come_with_an_install_are_shown_written_told_and_in_the_cage(self):
        with folder(note="hello") as path:
            self.start()
            code, _, wrong = self.daemon.cli("secret", "set", "API_KEY", input=SECRET)
            self.assertEqual(code, 0, wrong)
            self.show(path)
            self.assertEqual(self.daemon.cli("plugin", "enable", TOLD)[0], 0)
            self.daemon.wait_state(TOLD, "running")
            self.assertEqual(self.run_code(f"result = open('{path}/note').read()"), "hello")
            self.assertEqual(self.run_code("import os; result = os.environ['LEVEL']"), "high")
            self.assertTrue(self.run_code(f"import os; result = os.environ['API_KEY'] == '{SECRET}'"))
            told = self.daemon.audit("plugin.granted", TOLD)
            self.assertEqual([row["capabilities"] for row in told],
                             [[f"read:fs:{path}", "env:LEVEL", "env:API_KEY"]])
            yes = self.daemon.audit("consent.approved", TOLD)
            self.assertEqual(yes[-1]["granted"], told[0]["capabilities"])
            self.assertNotIn(SECRET, self.local())
            self.assertEqual(self.daemon.status(TOLD)["granted"], [f"read:fs:{path}"])

    def test_lines_that_come_with_an_install_hold_without_a_daemon_too(self):
        with folder(note="hello") as path:
            self.show(path)
            self.daemon.wait_running = False
            self.start()
            self.assertIn("there is no secret API_KEY", self.daemon.status(TOLD)["problem"])
            code, _, wrong = self.daemon.cli("secret", "set", "API_KEY", input=SECRET)
            self.assertEqual(code, 0, wrong)
            self.assertEqual(self.daemon.cli("plugin", "enable", TOLD)[0], 0)
            self.daemon.wait_state(TOLD, "running")
            self.assertEqual(self.run_code(f"result = open('{path}/note').read()"), "hello")

    def test_upgrade_that_asks_for_more_shows_what_the_operator_said_before(self):
        with folder() as path:
            for name in "granted", "closed", "new":
                os.mkdir(f"{path}/{name}")
            self.start()
            self.declare("1.0.0", f"read:fs:{path}/closed")
            self.install("--grant", f"read:fs:{path}/granted", "--env", "LEVEL=high")
            code, _, wrong = self.daemon.cli("plugin", "revoke", TOLD, f"read:fs:{path}/closed")
            self.assertEqual(code, 0, wrong)
            self.declare("1.1.0", *(f"read:fs:{path}/{name}" for name in ("granted", "closed", "new")))
            shown = self.install(code=5)
            self.assertIn("you already granted it yourself", shown)
            self.assertIn("you closed it, and it stays closed", shown)
            self.assertIn(f"= read:fs:{path}/granted", shown)
            self.assertIn(f"- read:fs:{path}/closed  (closed)", shown)
            code, out, _ = self.daemon.cli("--json", "plugin", "install", self.source, "--yes",
                                           "--allow-new-capabilities")
            self.assertEqual(code, 0, out)
            offer = json.loads(out)["offer"]
            self.assertEqual([(row["capability"].rpartition("/")[2], row["operator"])
                              for row in offer["capabilities"]],
                             [("granted", "granted"), ("closed", "closed"), ("new", None)])
            self.assertEqual([(row["kind"], row["difference"]) for row in offer["own"]],
                             [("granted", "same"), ("closed", "same"), ("environment", "same")])
            status = self.daemon.status(TOLD)
            self.assertEqual(status["closed"], [f"read:fs:{path}/closed"])
            self.assertNotIn(f"read:fs:{path}/closed", status["capabilities"])

    def test_what_cannot_be_a_line_of_the_operators_installs_nothing(self):
        with folder() as path:
            os.symlink(path, f"{path}/link")
            for with_daemon in False, True:
                if with_daemon:
                    self.start()
                home = os.path.realpath(self.daemon.home)
                for code, part, *options in (
                        (2, "there is no such kind", "--grant", "fly:high"),
                        (2, "it grants nothing", "--grant", "net:[]"),
                        (2, "named twice", "--grant", f"read:fs:{path}", "--grant", f"read:fs:{path}"),
                        (2, "named twice", "--env", "A=1", "--secret", "A"),
                        (2, "is not the name of a variable", "--env", "A-B=1"),
                        (2, "is not the name of a variable", "--env", "KAGED_HOME=1"),
                        (2, "is not the name of a variable", "--env", "=1"),
                        (2, "the name of a secret alone", "--env", "A=${file:/etc/passwd}"),
                        (2, "the name of a secret alone", "--env", "A=x${secret:B}"),
                        (2, "the name of a secret alone", "--secret", "A=../x"),
                        (5, "contains a symbolic link", "--grant", f"read:fs:{path}/link"),
                        (5, "it does not exist", "--grant", f"read:fs:{path}/missing"),
                        (5, "belongs to kaged itself", "--grant", f"read:fs:{home}")):
                    with self.subTest(options=options, with_daemon=with_daemon):
                        self.assertIn(part, self.install(*options, code=code))
                self.assertNotIn(TOLD, self.daemon.cli("plugin", "list")[1] if with_daemon else "")

    def test_environment_by_the_api_names_secrets_and_nothing_else_of_the_daemons(self):
        self.start()
        for env in {"A": "${HOME}"}, {"A": "${file:/etc/passwd}"}, {"KAGED_X": "1"}, {"A": "a\0b"}:
            status, answer = self.daemon.api("POST", "/plugins", {"source": self.source, "env": env})
            self.assertEqual(status, 400, answer)
        status, answer = self.daemon.api("POST", "/plugins", {"source": self.source, "grants": ["x"] * 65})
        self.assertEqual(status, 400, answer)


class BadInput(FlowTest):
    def refused(self, daemon, act, name, capabilities, status, part):
        code, answer = daemon.api("POST", f"/plugins/{name}/{act}", {"capabilities": capabilities})
        self.assertEqual(code, status, answer)
        self.assertIn(part, answer["error"]["message"])

    def test_what_cannot_be_granted_or_revoked_is_refused_with_the_reason(self):
        with folder(note="hello") as path, Reader() as daemon:
            os.symlink(path, f"{path}/link")
            before = daemon.local()
            self.refused(daemon, "grant", "nobody", [f"read:fs:{path}"], 404, "there is no plugin")
            self.refused(daemon, "grant", NAME, [f"read:fs:{os.path.realpath(daemon.home)}"], 403,
                         "belongs to kaged itself")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/link"], 403, "contains a symbolic link")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}/link"], 403, "contains a symbolic link")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/missing"], 403, "it does not exist")
            self.refused(daemon, "grant", NAME, ["read:fs:/proc"], 400, "/proc")
            self.refused(daemon, "grant", NAME, ["fly:high"], 400, "there is no such kind")
            self.refused(daemon, "grant", NAME, ["net:[]"], 400, "it grants nothing")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}"] * 2, 400, "named twice")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}"], 409, "it may not do that")
            self.assertEqual(daemon.local(), before)
            daemon.change("grant", f"read:fs:{path}")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}"], 409, "it may already do that")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/note"], 409, "it may already do that")
            daemon.change("revoke", f"read:fs:{path}/note")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}/note"], 409, "it is already closed")

    def test_grant_while_the_plugin_starts_holds_for_what_starts(self):
        with folder(note="hello") as path, Reader() as daemon:
            daemon.act(NAME, "restart")
            status, answer = daemon.api("POST", f"/plugins/{NAME}/grant",
                                        {"capabilities": [f"read:fs:{path}"]})
            self.assertEqual(status, 200, answer)
            wait_for(lambda: daemon.read(f"{path}/note") == "hello", "the file in its cage")

    def test_grants_by_many_at_once_are_all_kept(self):
        with folder() as path, Reader() as daemon:
            names = [f"{path}/{i}" for i in range(8)]
            for name in names:
                os.mkdir(name)
            asked = [daemon.popen("plugin", "grant", NAME, f"read:fs:{name}",
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                     for name in names]
            self.assertEqual([process.wait() for process in asked], [0] * len(names))
            self.assertEqual(sorted(daemon.status(NAME)["granted"]), [f"read:fs:{name}" for name in names])


if __name__ == "__main__":
    main()
