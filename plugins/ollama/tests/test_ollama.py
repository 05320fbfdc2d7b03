"""The plugin in a host in memory, against real servers on loopback."""
import concurrent.futures
import os
import socket
import sys
import unittest
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from api import AT_ONCE_MAX  # noqa: E402
from kaged_sdk import PluginError  # noqa: E402
from kaged_sdk.errors import INVALID_PARAMS, RESOURCE_BUSY  # noqa: E402
from kaged_sdk.testing import Host  # noqa: E402
from plugin import plugin, pulls  # noqa: E402
from pulls import Layers, Pace  # noqa: E402
from server import HEAD, HOSTILE, PATIENCE, SIZE, Hostile, Ollama, drip, endless, once  # noqa: E402


def place_of(ollama):
    return SimpleNamespace(host="127.0.0.1", port=ollama.port)


class OllamaTest(unittest.TestCase):
    def host(self, port, **config):
        return self.enter(Host(plugin, config={"host": "127.0.0.1", "port": port, **config}))

    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def failure(self, host, method, **params):
        with self.assertRaises(PluginError) as caught:
            host.call(method, params)
        return caught.exception

    def hostile(self, method, params, servers, **config):
        """{name: what a call came to}, of a few servers at a time."""
        host = self.host(0)

        def ask(row):
            with Hostile(row[0]) as server:
                try:
                    return host.call(method, params,
                                     config={**plugin.config, **config, "port": server.port})
                except PluginError as error:
                    return error
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE_MAX) as pool:
            return dict(zip(servers, pool.map(ask, servers.values())))


class Models(OllamaTest):
    def test_list_names_the_models(self):
        host = self.host(self.enter(Ollama()).port)
        self.assertEqual(host.call("models.list"), {"models": [{
            "name": "llama3.2:1b", "size": 1321098329, "digest": "baf6a787fdff",
            "modified_at": "2025-01-01T10:00:00Z", "format": "gguf", "family": "llama",
            "parameter_size": "1.2B", "quantization_level": "Q8_0"}]})
        self.assertEqual(host.tool("list"), host.call("models.list"))

    def test_show_has_what_fits_and_leaves_out_the_rest(self):
        host = self.host(self.enter(Ollama()).port)
        shown = host.tool("show", {"model": "llama3.2:1b"})
        self.assertEqual(shown["capabilities"], ["completion", "tools"])
        self.assertEqual(shown["info"], {"general.architecture": "llama",
                                         "llama.context_length": 131072})
        self.assertEqual(len(shown["license"]), 503)
        self.assertNotIn("modelfile", shown)

    def test_unknown_model_is_told_with_what_to_do(self):
        host = self.host(self.enter(Ollama()).port)
        error = self.failure(host, "models.show", model="none")
        self.assertEqual(error.message, "show none: Ollama says \"model 'none' not found\"; "
                         "models.list shows the models that are there, models.pull gets others")
        self.assertEqual(error.data["status"], 404)

    def test_names_that_cannot_be_are_not_sent(self):
        host = self.host(1)
        for model in (None, 5, "", "-x", "a b", "a\n", "x" * 300):
            self.assertEqual(self.failure(host, "models.show", model=model).code, INVALID_PARAMS)

    def test_server_that_is_down(self):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        message = self.failure(self.host(port), "models.list").message
        for words in ("list the models: Ollama does not answer at 127.0.0.1", "ollama serve",
                      f"net:127.0.0.1:{port}"):
            self.assertIn(words, message)

    def test_hostile_servers_end_in_words_and_in_time(self):
        told = self.hostile("models.list", {}, HOSTILE, request_timeout_sec=1)
        for name, (_, words) in HOSTILE.items():
            with self.subTest(name):
                if words is None:
                    self.assertEqual(len(told[name]["models"]), 1)
                else:
                    self.assertIn(words, told[name].message)


class Pulling(OllamaTest):
    def test_pull_tells_its_progress_and_its_end(self):
        host = self.host(self.enter(Ollama()).port)
        done = host.call("models.pull", {"model": "new"})
        self.assertEqual(done, {"model": "new", "state": "done", "status": "success",
                                "completed": SIZE, "total": SIZE, "percent": 100})
        self.assertEqual([name for name, _ in host.notifications], ["models.progress"] * 2)
        self.assertEqual(host.notifications[0][1]["status"], "pulling manifest")
        self.assertEqual(host.notifications[-1][1], done)

    def test_many_lines_make_few_notifications(self):
        host = self.host(self.enter(Ollama(steps=20_000)).port, progress_interval_ms=60_000)
        host.call("models.pull", {"model": "new"})
        self.assertEqual(len(host.notifications), 2)

    def test_pull_goes_on_behind_the_call_and_can_be_cancelled(self):
        ollama = self.enter(Ollama())
        ollama.go.clear()
        host = self.host(ollama.port)
        begun = host.call("models.pull", {"model": "new", "wait": False})
        self.assertEqual(begun["state"], "running")
        self.assertEqual(host.call("models.pulls")["pulls"][0]["model"], "new")
        self.assertTrue(ollama.began.wait(PATIENCE))
        self.assertEqual(host.call("models.cancel", {"model": "new"})["state"], "cancelled")
        self.assertTrue(ollama.left.wait(PATIENCE), "the server was not told")
        self.assertIn("no pull", self.failure(host, "models.cancel", model="new").message)
        self.assertEqual(host.notifications[-1][1]["state"], "cancelled")

    def test_call_waits_no_longer_than_it_may(self):
        ollama = self.enter(Ollama())
        ollama.go.clear()
        host = self.host(ollama.port)
        hasty = {**plugin.config, "pull_wait_sec": 0.1}
        self.assertEqual(host.call("models.pull", {"model": "new"}, config=hasty)["state"],
                         "running")
        ollama.go.set()
        self.assertEqual(host.call("models.pull", {"model": "new"})["state"], "done")

    def test_one_model_is_pulled_once_and_few_at_a_time(self):
        ollama = self.enter(Ollama())
        ollama.go.clear()
        host = self.host(ollama.port)
        for model in ("a", "b", "a"):
            host.call("models.pull", {"model": model, "wait": False})
        refused = self.failure(host, "models.pull", model="c")
        self.assertEqual(refused.code, RESOURCE_BUSY)
        self.assertIn("(a, b)", refused.message)
        running = [pulls.find(place_of(ollama), model) for model in ("a", "b")]
        ollama.go.set()
        for pull in running:
            pull.ended.result(PATIENCE)
        self.assertEqual([pull.state for pull in running], ["done", "done"])
        self.assertEqual(sorted(ollama.pulled), ["a", "b"])

    def test_error_in_the_stream_is_the_answer(self):
        host = self.host(self.enter(Ollama()).port)
        error = self.failure(host, "models.pull", model="nobody/knows")
        self.assertIn("pull nobody/knows: Ollama says 'pull model manifest: file does not exist'",
                      error.message)
        self.assertEqual(host.call("models.pulls")["pulls"][0]["error"], error.message)

    def test_hostile_streams_end_in_words_and_in_time(self):
        start = HEAD + b"Connection: close\r\n\r\n"
        streams = {"empty": (once(start), "before it was whole"),
                   "cut off": (once(start + b'{"status": "pulling"}\n'), "before it was whole"),
                   "odd": (once(start + b'{"status": 5, "digest": 1, "total": -1}\n[]\n'),
                           "not JSON"),
                   "endless line": (endless(start), "more than 65536 bytes"),
                   "chunk of size -1": (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"),
                                        "more than 65536 bytes"),
                   "drip": (drip(start, b" "), "nothing came"),
                   "silence": (drip(start + b'{"status": "x"}\n', b""), "nothing came")}
        told = self.hostile("models.pull", {"model": "m"}, streams, pull_silence_sec=1,
                            pulls_max=AT_ONCE_MAX)
        for name, (_, words) in streams.items():
            with self.subTest(name):
                self.assertIn(words, told[name].message)

    def test_shutdown_ends_the_pulls(self):
        ollama = self.enter(Ollama())
        ollama.go.clear()
        with Host(plugin, config={"host": "127.0.0.1", "port": ollama.port}) as host:
            host.call("models.pull", {"model": "last", "wait": False})
            pull = pulls.find(place_of(ollama), "last")
        pull.ended.result(PATIENCE)
        self.assertEqual(pull.state, "cancelled")


class Parts(unittest.TestCase):
    def test_layers_add_up_and_are_bounded(self):
        layers = Layers()
        for number in range(2000):
            layers.take({"digest": f"d{number}", "total": 10, "completed": 50})
        layers.take({"digest": "d0", "total": 10, "completed": 4})
        self.assertEqual(layers.sums, (9994, 10000))

    def test_pace_is_at_most_one_in_an_interval(self):
        pace = Pace(60_000)
        self.assertEqual([pace.is_due() for _ in range(3)], [True, False, False])


if __name__ == "__main__":
    unittest.main()
