"""What a package depends on comes from the operator's index, becomes part of the package, and is all that its cage
has of it."""
import http.client
import io
import os
import zipfile

import packages
from harness import main
from test_catalog_packages import archive
from test_orchestrators import OrchestratorTest
from test_reload import reload
from test_turns import calls, says
from wheel_index import WheelIndex

USES = """
def get_tools(self):
    @uvtool
    def fly() -> str:
        import kestrel, socket
        try:
            socket.create_connection(("127.0.0.1", %d), 5)
            return "it reached the index"
        except OSError as error:
            return kestrel.fly() + ", and nowhere else"
    return [fly]
"""


class WheelTest(OrchestratorTest):
    as_json = False

    @classmethod
    def setUpClass(cls):
        cls.index = cls.enterClassContext(WheelIndex(cls.as_json))
        cls.more_config = {"catalog.runtimes.python.index": cls.index.url}
        super().setUpClass()
        cls.number = 0

    def package(self, needs, before="", **parts):
        """One that names these; its pid and its content."""
        type(self).number += 1
        pid = f"example.acme.bird{self.number}"
        names = ", ".join(f'"{each}"' for each in needs)
        folder = packages.write(os.path.join(self.daemon.home, pid), before=before,
                                metadata=f", dependencies=[{names}]", **parts)
        with open(os.path.join(folder, "plugin.py")) as file:
            return pid, archive({"plugin.py": file.read().replace("com.example.say", pid)}, "bird/")

    def refused(self, *needs, words, **parts):
        answer = self.upload(self.package(needs, **parts)[1])
        self.assert_refused(answer, 400, "PL-0003", words)
        self.assertEqual(self.left_over(), [])


class Html(WheelTest):
    def test_what_is_missing_is_taken_with_what_that_needs_and_used_in_a_chat(self):
        self.index.add("osprey", "2.1", "def dive():\n    return 'it dives'\n")
        self.index.add("osprey", "3.0", "")
        self.index.add("kestrel", "1.0", "")
        self.index.add("kestrel", "1.4", "import osprey\ndef fly():\n    return 'it hovers, ' + osprey.dive()\n",
                       needs=["osprey>=2,<3", "falcon; extra == 'fast'", "vulture; python_version < '3'"])
        self.index.add("kestrel", "2.0a1", "")
        pid, content = self.package(["kestrel>=1.1"], before="import kestrel", agent=USES % self.index.port)
        status, made = self.upload(content)
        self.assertEqual(status, 201, made)
        self.assertIn("kestrel 1.4 was taken from the index", made["warnings"])
        self.assertIn("osprey 2.1 was taken from the index", made["warnings"])
        stored = self.download(self.world.clients["acme-admin"], made["id"])
        self.assertEqual({name for name in zipfile.ZipFile(io.BytesIO(stored)).namelist() if name.endswith(".whl")},
                         {"bird/wheels/kestrel-1.4-py3-none-any.whl", "bird/wheels/osprey-2.1-py3-none-any.whl"})
        told = self.daemon.audit("store.fetch_connection")
        self.assertTrue(told)
        self.assertEqual({(event["host"], event["port"]) for event in told}, {("127.0.0.1", self.index.port)})
        instance = self.created(pid)
        self.loaded(instance)
        shown = pid.rpartition(".")[2]
        self.said(instance, calls({}, name=f"{shown}__fly"), says("Good."))
        self.assertIn("it hovers, it dives, and nowhere else", self.asked(1)["messages"][-1]["content"])
        self.assertEqual(self.left_over(), [])

    def download(self, client, plugin_id):
        connection = http.client.HTTPConnection(client.address, timeout=60)
        try:
            connection.request("GET", f"/api/orgs/acme/plugins/{plugin_id}/download", headers=client.headers)
            return connection.getresponse().read()
        finally:
            connection.close()

    def test_what_the_index_does_not_have_or_cannot_be_used_is_named(self):
        self.index.add("heron", "1.0", tag="cp313-cp313-manylinux_2_17_x86_64")
        self.index.add("stork", "1.0")
        self.index.more["stork-1.0-py3-none-any.whl"] = {"requires-python": "&lt;3"}
        self.index.add("crane", "1.0")
        self.index.more["crane-1.0-py3-none-any.whl"] = {"yanked": "it was bad"}
        self.index.add("ibis", "1.0", needs=["nothing-of-that-name>=4"])
        self.index.add("swan", "1.0", needs=["goose>=2"])
        self.index.add("goose", "1.0")
        self.index.add("goose", "2.0")
        for needs, words in ((["dodo"], "the index has no wheel of dodo"), (["heron"], "no wheel of heron without compiled code"),
                             (["stork"], "no wheel of stork"), (["crane"], "no wheel of crane"),
                             (["ibis"], "no wheel of nothing-of-that-name>=4"), (["goose>=3"], "no wheel of goose>=3"),
                             (["goose<2", "swan"], "swan 1.0 needs goose>=2, and 1.0 was chosen")):
            with self.subTest(needs):
                self.refused(*needs, words=words)
        self.refused(before="import dodo", words="imports dodo")

    def test_what_is_not_what_the_index_says_is_refused(self):
        for name in ("finch", "robin", "wren", "lark", "rook"):
            self.index.add(name, "1.0")
        def file(name):
            return f"{name}-1.0-py3-none-any.whl"
        self.index.hashes[file("finch")] = "0" * 64
        self.index.hashes[file("robin")] = ""
        self.index.instead[file("wren")] = (302, {"Location": "http://127.0.0.1:1/wren.whl"}, b"")
        self.index.instead[file("lark")] = (500, {}, b"")
        self.index.instead[file("rook")] = (302, {"Location": f"/files/{file('rook')}"}, b"")
        for name, words in (("finch", "its sha256 is another one"), ("robin", "names no sha256"),
                            ("wren", "cannot be asked"), ("lark", "answered 500"), ("rook", "leads in a circle")):
            with self.subTest(name):
                self.refused(name, words=words)

    def test_a_package_does_not_grow_past_what_may_be_uploaded(self):
        self.index.add("albatross", "1.0", f"WING = {os.urandom(200_000).hex()!r}")
        reload(self.daemon, catalog__upload_max_bytes=100_000)
        self.refused("albatross", words="is larger than 100000 bytes")
        reload(self.daemon, catalog__upload_max_bytes=52_428_800)

    def test_what_is_here_is_not_asked_for(self):
        asked = len(self.index.asked)
        pid, content = self.package(["pydantic>=2"])
        self.assertEqual(self.upload(content)[0], 201)
        self.assertEqual(len(self.index.asked), asked)


class Json(WheelTest):
    as_json = True

    def test_the_same_of_an_index_in_json(self):
        self.index.add("kestrel", "1.4")
        self.index.add("kestrel", "1.5")
        self.index.more["kestrel-1.5-py3-none-any.whl"] = {"yanked": True}
        status, made = self.upload(self.package(["kestrel"], before="import kestrel")[1])
        self.assertEqual(status, 201, made)
        self.assertIn("kestrel 1.4 was taken from the index", made["warnings"])


if __name__ == "__main__":
    main()
