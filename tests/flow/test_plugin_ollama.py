"""plugins/ollama: its own tests, and in its cage against servers of this machine."""
import os
import sys

from harness import PATIENCE, ROOT, FlowTest, main, wait_for
from models import Aimock
from staged import StagedDaemon, run_python_tests

sys.path.append(os.path.join(ROOT, "plugins/ollama/tests"))
from server import HOSTILE, SIZE, Hostile, Ollama  # noqa: E402

NAME = "ollama"
PROJECT = """\
version: 1
name: local
primary:
  plugins:
    models: { package: ollama, config: { port: %d } }
"""


class OllamaDaemon(StagedDaemon):
    """The plugin may reach `port` of localhost, and looks for Ollama at `asked`."""

    def __init__(self, port, asked=None, **config):
        super().__init__(NAME, changes=[("net:localhost:11434", f"net:localhost:{port}")])
        lines = [f"{key} = {value}\n" for key, value in {"port": asked or port, **config}.items()]
        self.write_local("[plugins.ollama.config]\n" + "".join(lines))

    def ask(self, method, **params):
        return self.call(NAME, method, params)

    def refusal(self, method, **params):
        """The words of an error."""
        status, answer = self.try_call(NAME, method, params)
        assert status != 200, answer
        return answer["message"]


class OwnTests(FlowTest):
    def test_unit_tests_pass(self):
        code, output = run_python_tests(NAME)
        self.assertEqual(code, 0, output)


class InItsCage(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.ollama = cls.enterClassContext(Ollama())
        cls.share(OllamaDaemon(cls.ollama.port))

    def test_it_lists_and_shows(self):
        self.assertEqual(self.daemon.ask("models.list")["models"][0]["name"], "llama3.2:1b")
        shown = self.daemon.ask("models.show", model="llama3.2:1b")
        self.assertEqual(shown["info"]["llama.context_length"], 131072)
        self.assertIn("model 'x' not found", self.daemon.refusal("models.show", model="x"))

    def test_agents_have_it_as_tools(self):
        d = self.daemon
        root = d.write_project("local", PROJECT % self.ollama.port)
        self.assertEqual(d.api("POST", "/projects", {"path": root})[0], 200)
        session = d.api("POST", "/projects/local/sessions", {})[1]["id"]
        done = d.api("POST", f"/sessions/{session}/tools/ollama.list", {})[1]
        self.assertEqual(done["result"]["models"][0]["name"], "llama3.2:1b", done)
        self.assertEqual(d.api("POST", f"/sessions/{session}/tools/ollama.pull", {})[1]["is_error"],
                         True)

    def test_pull_tells_its_progress(self):
        done = self.daemon.ask("models.pull", model="new")
        self.assertEqual((done["state"], done["completed"]), ("done", SIZE))
        told = wait_for(lambda: self.daemon.audit("plugin.notification", NAME), "a notification")
        self.assertEqual({event["notification_type"] for event in told}, {"models.progress"})

    def test_pull_is_cancelled_and_the_server_sees_it(self):
        self.ollama.began.clear()
        self.ollama.go.clear()
        self.addCleanup(self.ollama.go.set)
        self.assertEqual(self.daemon.ask("models.pull", model="long", wait=False)["state"],
                         "running")
        self.assertTrue(self.ollama.began.wait(PATIENCE))
        self.assertEqual(self.daemon.ask("models.cancel", model="long")["state"], "cancelled")
        self.assertTrue(self.ollama.left.wait(PATIENCE))

    def test_params_are_checked_before_they_get_there(self):
        self.assert_error(self.daemon.try_call(NAME, "models.pull", {"model": "a", "wait": 1}), 422,
                          "invalid_params")


class OtherServers(FlowTest):
    def test_aimock_lists_its_models(self):
        aimock = Aimock([{"match": {"model": "m-smart"}, "response": {"content": "hi"}}])
        self.addCleanup(aimock.stop)
        with OllamaDaemon(aimock.port) as daemon:
            self.assertEqual([model["name"] for model in daemon.ask("models.list")["models"]],
                             ["m-smart"])
            self.assertIn("show m-smart: ", daemon.refusal("models.show", model="m-smart"))

    def test_hostile_servers_end_in_words_and_the_plugin_lives_on(self):
        with Hostile(None) as server, OllamaDaemon(server.port, request_timeout_sec=1) as daemon:
            for name, (serve, words) in HOSTILE.items():
                with self.subTest(name):
                    server.serve = serve
                    if words is None:
                        self.assertEqual(len(daemon.ask("models.list")["models"]), 1)
                    else:
                        self.assertIn(words, daemon.refusal("models.list"))
            self.assertEqual(daemon.status(NAME)["starts"], 1)

    def test_server_that_is_down_and_port_that_is_not_declared(self):
        with Hostile(None) as server:
            down = server.port
        with OllamaDaemon(down) as daemon:
            words = daemon.refusal("models.list")
            self.assertIn(f"Ollama does not answer at localhost:{down}", words)
            self.assertIn("ollama serve", words)
            self.assertIn("does not answer", daemon.refusal("models.pull", model="m"))
        with Ollama() as ollama, OllamaDaemon(down, asked=ollama.port) as daemon:
            self.assertIn(f"the manifest has to declare net:localhost:{ollama.port}",
                          daemon.refusal("models.list"))
            daemon.wait_audit("plugin.net_denied", NAME)


if __name__ == "__main__":
    main()
