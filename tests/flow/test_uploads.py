"""Files that the operator hands over with his browser: archives in pieces, and scripts."""
import base64
import os
import time

from archives import make_zip
from harness import PLUGINS, Daemon, FlowTest, main, wait_for

SCRIPT = 'kage.register_command{ name = "hello", description = "Says hello.", handler = function() return "hi" end }\n'


def encoded(data):
    return base64.b64encode(data).decode()


class Uploads(FlowTest):
    def setUp(self):
        self.daemon = self.enterContext(Daemon([]))

    def send(self, name, data, upload=None):
        body = {"name": name, "content": encoded(data), **({"id": upload} if upload else {})}
        return self.daemon.api("POST", "/uploads", body)

    def archive(self):
        with open(os.path.join(PLUGINS, "good-python/kaged-plugin.yaml"), "rb") as file:
            manifest = file.read()
        path = make_zip(os.path.join(self.daemon.base, "good.zip"), honest={"kaged-plugin.yaml": manifest})
        with open(path, "rb") as file:
            return file.read()

    def test_an_archive_in_pieces_is_offered_as_any_other(self):
        data = self.archive()
        status, first = self.send("good-python.mcpb", data[:100])
        self.assertEqual((status, first["bytes"]), (201, 100), first)
        status, last = self.send("good-python.mcpb", data[100:], first["id"])
        self.assertEqual((status, last["path"], last["bytes"]), (201, first["path"], len(data)), last)
        self.assertEqual(os.stat(last["path"]).st_mode & 0o777, 0o600)
        status, consent = self.daemon.api("POST", "/plugins", {"source": last["path"]})
        self.assertEqual(status, 202, consent)
        offered = wait_for(lambda: (lambda it: it["state"] != "fetching" and it)(
            self.daemon.api("GET", f"/consents/{consent['id']}")[1]), "the offer")
        self.assertEqual((offered["state"], offered["offer"]["name"]), ("offered", "good-python"), offered)

    def test_names_ids_and_contents_that_are_none_are_refused(self):
        for name in ("", "x", "x.exe", "../x.zip", ".hidden.zip", "a/b.zip", "x\u202e.zip", "x" * 200 + ".zip", "x.zip\n"):
            status, answer = self.send(name, b"x")
            self.assertEqual(status, 422, (name, answer))
        for upload in ("upl_none", "../..", "upl_../../x", "x", "upl_" + "a" * 200):
            status, answer = self.send("x.zip", b"x", upload)
            self.assertEqual(status, 404, (upload, answer))
        status, answer = self.daemon.api("POST", "/uploads", {"name": "x.zip", "content": "no base64!"})
        self.assertEqual(status, 422, answer)
        self.assertFalse(os.path.exists(os.path.join(self.daemon.home, "x.zip")))

    def test_how_large_and_how_many_is_bounded_and_old_ones_go(self):
        self.daemon.write_config(**{"limits__install_source_bytes": 65536})
        self.daemon.cli("reload")
        status, first = self.send("x.zip", b"x" * 40000)
        self.assertEqual(status, 201, first)
        status, answer = self.send("x.zip", b"x" * 40000, first["id"])
        self.assertEqual(status, 413, answer)
        self.assertFalse(os.path.exists(first["path"]))
        made = [self.send("x.zip", b"x") for _ in range(8)]
        self.assertEqual([status for status, _ in made], [201] * 8)
        status, answer = self.send("x.zip", b"x")
        self.assertEqual(status, 429, answer)
        old = os.path.dirname(made[0][1]["path"])
        os.utime(old, (time.time() - 4000,) * 2)
        self.assertEqual(self.send("x.zip", b"x")[0], 201)
        self.assertFalse(os.path.exists(old))

    def test_a_script_is_added_and_never_over_another(self):
        status, answer = self.daemon.api("PUT", "/scripts/hello", {"source": SCRIPT})
        self.assertEqual(status, 201, answer)
        with open(answer["file"]) as file:
            self.assertEqual(file.read(), SCRIPT)
        self.daemon.api("GET", "/plugins/hello")
        wait_for(lambda: self.daemon.api("GET", "/plugins/hello")[0] == 200, "the script as a plugin")
        status, again = self.daemon.api("PUT", "/scripts/hello", {"source": "-- other"})
        self.assertEqual(status, 409, again)
        with open(answer["file"]) as file:
            self.assertEqual(file.read(), SCRIPT)
        for name in ("..", "a.b", "%2e%2e%2fx", "x" * 65, "a b"):
            status, answer = self.daemon.api("PUT", f"/scripts/{name.replace(' ', '%20')}", {"source": SCRIPT})
            self.assertIn(status, (400, 404, 422), (name, answer))


if __name__ == "__main__":
    main()
