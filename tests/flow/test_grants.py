"""The operator's own lines over a manifest: what they open and close, where they are kept, who is told."""
import contextlib
import os
import shlex
import socket
import subprocess
import tempfile
import threading

from harness import Daemon, FlowTest, main, wait_for

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


class Hosts(FlowTest):
    def test_port_that_is_closed_below_a_declared_host_is_refused_and_the_next_one_is_not(self):
        told = "does-as-told"
        with socket.create_server(("127.0.0.1", 0)) as shut, socket.create_server(("127.0.0.1", 0)) as open_one:
            ports = [server.getsockname()[1] for server in (shut, open_one)]
            daemon = Daemon([told])
            daemon.declare(told, "net:localhost:*")
            with daemon:
                def reaches(port):
                    code = (f"import socket; s = socket.create_connection(('127.0.0.1', {port}), timeout=5); "
                            "s.settimeout(5); s.sendall(b'x'); result = s.recv(1) == b'y'")
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
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/link"], 403, "there is a link")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}/link"], 403, "there is a link")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/missing"], 403, "it is not there")
            self.refused(daemon, "grant", NAME, ["read:fs:/proc"], 400, "/proc")
            self.refused(daemon, "grant", NAME, ["fly:high"], 400, "there is no such kind")
            self.refused(daemon, "grant", NAME, ["net:[]"], 400, "it gives nothing")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}"] * 2, 400, "named twice")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}"], 409, "it may not do that")
            self.assertEqual(daemon.local(), before)
            daemon.change("grant", f"read:fs:{path}")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}"], 409, "it may do that already")
            self.refused(daemon, "grant", NAME, [f"read:fs:{path}/note"], 409, "it may do that already")
            daemon.change("revoke", f"read:fs:{path}/note")
            self.refused(daemon, "revoke", NAME, [f"read:fs:{path}/note"], 409, "it is closed already")

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
