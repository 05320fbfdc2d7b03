"""The cage of a plugin in a whole daemon: what its capabilities give, and that nothing else is there."""
import contextlib
import http.server
import os
import socket
import subprocess
import tempfile
import threading

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for

NAME = "does-as-told"
FETCH = "import urllib.request; result = urllib.request.urlopen({!r}, timeout=25).read().decode()"
CONNECT = "import socket; socket.create_connection(({!r}, {}), timeout=25); result = 'connected'"


def read_file(path):
    return f"result = open({path!r}).read()"


def write_file(path, text="x"):
    return f"open({path!r}, 'w').write({text!r})"


class Told(Daemon):
    """A daemon with one plugin that has the given capabilities and does what it is told."""

    def __init__(self, *capabilities, manifest="", config=None, **options):
        config = {"sandbox.root_writable": ["/tmp"], **(config or {})}
        super().__init__([NAME], config=config, **options)
        self.declare(NAME, *capabilities)
        with open(self.manifest, "a") as file:
            file.write(manifest)

    @property
    def manifest(self):
        return os.path.join(self.home, "plugins", NAME, "kaged-plugin.yaml")

    @property
    def data(self):
        return os.path.join(self.home, "plugin-data", NAME)

    def redeclare(self, *capabilities):
        self.declare(NAME, *capabilities)
        if self.process is not None:
            self.approve()

    def tell(self, code):
        """What the code left in `result`, or the name of its error."""
        answer = self.call(NAME, "told.run", {"code": code})
        return answer["result"] if "result" in answer else answer["error"]

    def refusal(self):
        """Why its cage could not be built."""
        return self.wait_exit(NAME, "cage")["words"]

    def cage(self):
        status, answer = self.api("GET", f"/plugins/{NAME}?cage=true")
        assert status == 200, answer
        return answer["cage"]


@contextlib.contextmanager
def folder(**files):
    with tempfile.TemporaryDirectory(prefix="kaged-cage-") as path:
        os.chmod(path, 0o755)
        for name, text in files.items():
            with open(os.path.join(path, name), "w") as file:
                file.write(text)
        yield path


class Files(FlowTest):
    def test_plugin_with_a_read_capability_reads_that_and_not_etc_passwd(self):
        with folder(note="hello") as path, Told(f"read:fs:{path}") as daemon:
            self.assertEqual(daemon.tell(read_file(f"{path}/note")), "hello")
            self.assertEqual(daemon.tell(write_file(f"{path}/note")), "EROFS")
            self.assertEqual(daemon.tell(read_file("/etc/passwd")), "ENOENT")

    def test_plugin_may_open_its_own_stderr_by_name(self):
        """A root daemon's pipes were root's: `echo ... >/dev/stderr` failed in every shell script."""
        with Told() as daemon:
            self.assertIsNone(daemon.tell(write_file("/dev/stderr", "by name\n")))
            wait_for(lambda: "by name" in daemon.cli("plugin", "logs", NAME)[1], "the line in its log")

    def test_plugin_with_a_write_capability_writes_there(self):
        with folder() as path, Told(f"write:fs:{path}") as daemon:
            self.assertIsNone(daemon.tell(write_file(f"{path}/note", "kept")))
            with open(f"{path}/note") as file:
                self.assertEqual(file.read(), "kept")
            self.assertEqual(os.stat(f"{path}/note").st_uid, os.geteuid())

    def test_folder_below_config_is_made_private_and_named_in_the_environment(self):
        with Told("write:fs:config:/memory/notes") as daemon:
            root = daemon.tell("import os; result = os.environ['KAGED_CONFIG_ROOT']")
            self.assertEqual(root, os.path.realpath(daemon.data))
            self.assertIsNone(daemon.tell(write_file(f"{root}/memory/notes/a", "kept")))
            self.assertEqual(os.stat(f"{root}/memory").st_mode & 0o777, 0o700)
            with open(f"{root}/memory/notes/a") as file:
                self.assertEqual(file.read(), "kept")

    def test_link_planted_below_config_does_not_lead_the_daemon_elsewhere(self):
        """A plugin that may write config:/a puts a link where its next version has a folder."""
        with folder() as outside, Told("write:fs:config:/a") as daemon:
            planted = f"import os; os.symlink({outside!r}, {daemon.data!r} + '/a/b')"
            self.assertIsNone(daemon.tell(planted))
            daemon.redeclare("write:fs:config:/a", "write:fs:config:/a/b/c")
            daemon.act(NAME, "restart")
            self.assertIn("make folder", daemon.refusal())
            self.assertEqual(os.listdir(outside), [])

    def test_path_that_is_not_there_is_a_clear_refusal(self):
        with folder() as path, Told(f"read:fs:{path}/missing", wait_running=False) as daemon:
            self.assertIn(f"{path}/missing", daemon.refusal())
            self.assertEqual(daemon.status(NAME)["last_exit"]["cause"], "cage")

    def test_program_that_is_not_executable_is_told_with_what_to_do(self):
        daemon = Told(wait_running=False)
        program = os.path.join(daemon.home, "plugins", NAME, "plugin.py")
        os.chmod(program, 0o644)
        with daemon:
            self.assertRegex(daemon.refusal(), f"is not executable; chmod [+]x .*{NAME}/")

    def test_folders_of_kaged_itself_are_refused(self):
        for part in ("", "/state", "/run/kaged.sock", "/config.toml", "/plugins", "/plugin-data"):
            with self.subTest(part=part):
                daemon = Told(wait_running=False)
                daemon.redeclare(f"read:fs:{os.path.realpath(daemon.home)}{part}")
                with daemon:
                    self.assertIn("kaged", daemon.refusal())

    def test_plugin_that_works_in_a_project_needs_one(self):
        with Told("read:fs:project:/", wait_running=False) as daemon:
            status, error = daemon.try_call(NAME, "told.run", {"code": ""})
            self.assertEqual(status, 502)
            self.assertIn("works in a project", error["message"])
            self.assertEqual(daemon.status(NAME)["state"], "idle")

    def test_other_plugins_folders_are_not_there(self):
        with Told() as daemon:
            home = os.path.realpath(daemon.home)
            listing = f"import os; result = os.listdir({home!r} + '/plugins')"
            self.assertEqual(daemon.tell(listing), [NAME])
            self.assertEqual(daemon.tell(f"import os; result = os.listdir({home!r})"), ["plugins"])


KNOB = """
config_schema:
  type: object
  properties:
    store: {type: string, default: "config:/memory"}
knobs:
  store: {type: path, binds_to: config.store, default: "config:/memory", label: Store, prefixes: ["config:"]}
"""


class Settings(FlowTest):
    def test_plugin_may_write_where_its_path_setting_points(self):
        with Told(manifest=KNOB) as daemon:
            self.assertIsNone(daemon.tell(write_file(f"{daemon.data}/memory/a")))
            self.assertTrue(any("store" in line and "config:/memory" in line
                                for line in daemon.cage()["words"]), daemon.cage())

    def test_change_of_a_path_setting_restarts_the_plugin_in_a_new_cage(self):
        with Told(manifest=KNOB) as daemon:
            starts = daemon.status(NAME)["starts"]
            daemon.write_local(f'[plugins.{NAME}.config]\nstore = "config:/other"\n')
            daemon.approve()
            daemon.api("POST", "/reload")
            daemon.wait_restarted(NAME, starts)
            self.assertIsNone(daemon.tell(write_file(f"{daemon.data}/other/a")))
            self.assertEqual(daemon.tell(write_file(f"{daemon.data}/memory/a")), "ENOENT")


    def test_validate_shows_where_a_path_setting_points_also_in_a_project(self):
        daemon = Told(manifest=KNOB.replace("config:/memory", "project:/notes")
                      .replace('"config:"', '"project:"'))
        self.addCleanup(daemon.discard)
        project = os.path.join(os.path.realpath(daemon.base), "project")
        os.makedirs(os.path.join(project, "notes"))
        done = subprocess.run([KAGED, "--home", daemon.home, "plugin", "validate", "--cage",
                               os.path.join(daemon.home, "plugins", NAME)], cwd=project,
                              env=daemon.environment(), text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("where its setting store points, now project:/notes", done.stdout)
        self.assertIn(project + "/notes", done.stdout)

    def test_no_value_outside_of_its_prefixes_is_taken(self):
        with Told(manifest=KNOB) as daemon:
            daemon.write_local(f'[plugins.{NAME}.config]\nstore = "project:/"\n')
            daemon.approve()
            daemon.act(NAME, "disable")
            daemon.wait_state(NAME, "disabled")
            daemon.api("POST", "/reload")
            status, answer = daemon.api("POST", f"/plugins/{NAME}/enable")
            self.assertEqual(status, 422, answer)
            self.assertIn("setting store points to a path with none of its prefixes",
                          answer["error"]["message"])


class Programs(FlowTest):
    def test_declared_program_runs_and_another_is_not_there(self):
        run = "import subprocess; result = subprocess.run({}, capture_output=True, text=True).stdout"
        with folder() as path, Told(f"exec:bash:{path}") as daemon:
            self.assertEqual(daemon.tell(run.format(["bash", "-c", "echo $((1 + 1))"])), "2\n")
            self.assertEqual(daemon.tell(run.format(["id"])), "ENOENT")

    def test_program_that_the_plugin_wrote_itself_does_not_run(self):
        code = ("import shutil, subprocess, sys; shutil.copy(sys.executable, '/tmp/python'); "
                "result = subprocess.run(['/tmp/python', '-c', 'exit(7)']).returncode")
        with Told() as daemon:
            self.assertEqual(daemon.tell(code), "EACCES")


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the host")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def server():
    """An HTTP server on loopback; its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield listening.server_port
        finally:
            listening.shutdown()
            thread.join()


class Network(FlowTest):
    def test_plugin_without_net_cannot_connect(self):
        with server() as port, Told("net:[]") as daemon:
            self.assertEqual(daemon.tell(CONNECT.format("127.0.0.1", port)), "ECONNREFUSED")
            self.assertEqual(daemon.tell(CONNECT.format("192.0.2.1", 80)), "ENETUNREACH")

    def test_plugin_with_net_localhost_fetches_from_that_port_alone(self):
        with server() as port, server() as other, Told(f"net:localhost:{port}") as daemon:
            fetched = daemon.tell(FETCH.format(f"http://localhost:{port}/"))
            self.assertEqual(fetched, "from the host")
            self.assertEqual(daemon.tell(CONNECT.format("127.0.0.1", other)), "ECONNREFUSED")
            self.assertEqual(daemon.tell(CONNECT.format("192.0.2.7", 443)), "ECONNREFUSED")
            self.assertEqual(daemon.tell(CONNECT.format("api.example.com", 443)), "gaierror")
            allowed = daemon.wait_audit("plugin.net_allowed", NAME)[0]
            self.assertEqual((allowed["host"], allowed["port"]), ("localhost", port))
            self.assertGreater(allowed["bytes_out"], 0)
            self.assertGreaterEqual(allowed["bytes_in"], len("from the host"))
            denied = wait_for(lambda: (lambda e: len(e) >= 3 and e)(
                daemon.audit("plugin.net_denied", NAME)), "three refusals")
            self.assertEqual({(event["host"], event["port"]) for event in denied},
                             {("localhost", other), ("192.0.2.7", 443), ("api.example.com", None)})

    def test_listener_of_the_daemon_itself_is_out_of_reach(self):
        """The unix socket has no address, and its folder cannot be declared."""
        with Told() as daemon:
            code = f"import socket; socket.socket(socket.AF_UNIX).connect({daemon.socket!r})"
            self.assertEqual(daemon.tell(code), "EAFNOSUPPORT")

    def test_why_says_which_capability_would_have_allowed_it(self):
        with server() as port, Told("net:localhost:1") as daemon:
            daemon.tell(CONNECT.format("127.0.0.1", port))
            daemon.wait_audit("plugin.net_denied", NAME)
            code, out, _ = daemon.cli("plugin", "why", NAME)
            self.assertEqual(code, 0)
            self.assertIn(f"net:localhost:{port}", out)
            status, answer = daemon.api("GET", f"/plugins/{NAME}/why")
            self.assertEqual(status, 200)
            self.assertEqual(answer["refusals"][0]["capability"], f"net:localhost:{port}")

    def test_why_right_after_a_refused_call_knows_of_it(self):
        with Told("net:localhost:1") as daemon:
            for port in range(5000, 5030):  # "no refusal is on record", in eight of thirty
                daemon.tell(CONNECT.format("192.0.2.7", port))
                refusals = daemon.api("GET", f"/plugins/{NAME}/why")[1]["refusals"]
                self.assertIn(f"net:192.0.2.7:{port}",
                              [refusal["capability"] for refusal in refusals])

    def test_a_loop_of_connections_does_not_fill_the_audit_log(self):
        loop = """
import socket
for _ in range(300):
    with socket.create_connection(("localhost", {0}), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        while connection.recv(4096):
            pass
for _ in range(300):
    try:
        socket.create_connection(("192.0.2.7", 80), timeout=20)
    except OSError:
        pass
result = "done"
"""
        with server() as port, Told(f"net:localhost:{port}",
                                    config={"limits.net_events_per_sec": 1000,
                                            "limits.net_connections_per_sec": 1000}) as daemon:
            daemon.try_call(NAME, "told.run", {"code": loop.format(port)},
                            timeout=120)
            daemon.act(NAME, "restart")  # what was only counted is told with its end
            daemon.wait_state(NAME, "running")
            for event, count in (("plugin.net_connected", 300), ("plugin.net_allowed", 300),
                                 ("plugin.net_denied", 300)):
                events = wait_for(lambda: (lambda all: sum(1 + e["suppressed"] for e in all) >= count
                                           and all)(daemon.audit(event, NAME)), event)
                self.assertLess(len(events), 250)
            code, _, _ = daemon.cli("audit", "verify")
            self.assertEqual(code, 0)

    def test_why_answers_about_a_plugin_whose_manifest_is_broken_by_now(self):
        with Told("net:localhost:1") as daemon:
            daemon.tell(CONNECT.format("192.0.2.7", 443))
            daemon.wait_audit("plugin.net_denied", NAME)
            daemon.stop()
            with open(daemon.manifest, "a") as file:
                file.write("nonsense: true\n")
            daemon.start()
            refusal = daemon.api("GET", f"/plugins/{NAME}/why")[1]["refusals"][0]
            self.assertEqual(refusal["capability"], "net:192.0.2.7:443")

    def test_daemon_that_stops_while_it_is_asked_why_leaves_cleanly(self):
        """No plugin runs, so nothing holds up the end; some questions are still with the reader."""
        question = f"GET /api/v1/plugins/{NAME}/why HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        with Told("net:localhost:1") as daemon:
            daemon.tell(CONNECT.format("192.0.2.7", 443))
            daemon.wait_audit("plugin.net_denied", NAME)
            daemon.act(NAME, "disable")
            daemon.wait_state(NAME, "disabled")
            with contextlib.ExitStack() as clients:
                for _ in range(50):
                    client = clients.enter_context(socket.socket(socket.AF_UNIX))
                    client.connect(daemon.socket)
                    client.sendall(question)
                daemon.stop()


class Words(FlowTest):
    def test_no_sandbox_does_not_apply_to_plugins(self):
        with Told(arguments=["--no-sandbox"]) as daemon:
            self.assertEqual(daemon.tell(read_file("/etc/passwd")), "ENOENT")

    def test_status_tells_the_cage_in_words(self):
        with folder() as path, Told(f"read:fs:{path}", "net:api.example.com:443") as daemon:
            code, out, _ = daemon.cli("plugin", "status", NAME, "--cage")
            self.assertEqual(code, 0)
            self.assertIn(f"may read {path}", out)
            self.assertIn("api.example.com", out)
            self.assertIn("nothing else", out)

    def test_validate_tells_the_cage_without_a_daemon(self):
        with folder() as path:
            daemon = Told(f"write:fs:{path}", "write:fs:config:/x")
            try:
                code, out, _ = daemon.cli("plugin", "validate", "--cage",
                                          os.path.dirname(daemon.manifest))
                self.assertEqual(code, 0)
                self.assertIn(f"may read and write {path}", out)
                self.assertIn("config:/x", out)
                self.assertFalse(os.path.exists(daemon.data))
                daemon.redeclare("read:fs:/nowhere/at/all")
                code, _, err = daemon.cli("plugin", "validate", "--cage",
                                          os.path.dirname(daemon.manifest))
                self.assertNotEqual(code, 0)
                self.assertIn("/nowhere/at/all", err)
            finally:
                daemon.discard()

    def test_validate_refuses_what_the_cage_would(self):
        daemon = Told()
        try:
            for capability, says in (("read:fs:/home", "/home cannot be given as a whole"),
                                     ("write:fs:/var", "/var cannot be given as a whole"),
                                     ("exec:git:/proc/1", "/proc and what is in it cannot")):
                daemon.redeclare(capability)
                code, out, _ = daemon.cli("plugin", "validate", os.path.dirname(daemon.manifest))
                self.assertEqual(code, 6, out)
                self.assertIn(f'capability "{capability}": {says}', out)
        finally:
            daemon.discard()

    def test_manifest_without_a_folder_has_no_cage(self):
        daemon = Told()
        try:
            with tempfile.TemporaryFile() as nameless, open(daemon.manifest, "rb") as manifest:
                nameless.write(manifest.read())
                nameless.flush()
                done = subprocess.run([KAGED, "plugin", "validate", "--cage", "/dev/stdin"],
                                      stdin=nameless, capture_output=True, text=True,
                                      env=daemon.environment(), timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("/dev/stdin", done.stderr)
            daemon.check_sanitizers()
        finally:
            daemon.discard()


if __name__ == "__main__":
    main()
