"""Models of orgs: one of the operator's, or a provider that the org brings, whose key nobody sees again."""
# also on PostgreSQL
import glob
import os

from harness import FlowTest, main
from test_catalog import FREE_PORT, World

KEY = "sk-barracuda-and-other-fish"
LOCAL = """
[providers.here]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
[models.fast]
provider = "here"
model = "small"
"""


class Models(FlowTest):
    plugins = []
    config = {**FREE_PORT, "catalog.org_may.acme": ["net:models.example.com:443", "net:127.0.0.1:1"]}
    path = "/api/orgs/acme/llm-configs"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(cls.daemon.home, "local.toml"), "a") as file:
            file.write(LOCAL)
        assert cls.daemon.cli("reload")[0] == 0
        cls.world = World(cls.daemon)

    def ask(self, who, *request):
        return self.world.clients[who].ask(*request)

    def make(self, who="acme-admin", **body):
        body = {"provider": "openai", "model": "big", "base_url": "https://models.example.com/v1", **body}
        return self.ask(who, "POST", self.path, {key: value for key, value in body.items() if value is not None})

    def refused(self, answer, status, code, words):
        self.assertEqual((answer[0], answer[1]["code"]), (status, code), answer)
        self.assertIn(words, answer[1]["message"])

    def test_one_of_the_operators_is_named_by_its_alias(self):
        status, made = self.make(name="theirs", provider="local", model="fast", base_url=None)
        self.assertEqual((status, made["provider"], made["model"], made["api_key"]), (201, "local", "fast", None), made)
        self.refused(self.make(name="none", provider="local", model="none", base_url=None), 422, "VA-9001", '"none"')
        self.refused(self.make(name="keyed", provider="local", model="fast", base_url=None, api_key=KEY), 422,
                     "VA-9001", "his address and key")
        self.assertEqual(self.ask("acme-admin", "GET", f"{self.path}/{made['id']}")[1], made)

    def test_a_key_is_sealed_masked_changed_and_removed(self):
        status, made = self.make(name="own", api_key=KEY, temperature=0.5)
        self.assertEqual((status, made["api_key"], made["temperature"]), (201, "***MASKED***", 0.5), made)
        one = f"{self.path}/{made['id']}"
        for path in glob.glob(os.path.join(self.daemon.home, "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(KEY.encode(), file.read(), path)
        changed = self.ask("acme-admin", "PATCH", one, {"name": "mine", "api_key": "***MASKED***", "temperature": None})
        self.assertEqual((changed[0], changed[1]["name"], changed[1]["api_key"], changed[1]["temperature"]),
                         (200, "mine", "***MASKED***", None), changed)
        self.assertEqual(self.ask("root", "POST", "/api/admin/catalog/rotate")[0], 200)
        self.assertEqual(self.ask("acme-admin", "PATCH", one, {"max_tokens": 5})[1]["max_tokens"], 5)
        moved = {"provider": "openai", "model": "big", "base_url": "http://127.0.0.1:1/v1"}
        self.refused(self.ask("acme-admin", "PATCH", one, moved), 422, "VA-9001", "api_key to be given again")
        self.assertEqual(self.ask("acme-admin", "PATCH", one, {**moved, "api_key": KEY})[0], 200)
        theirs = self.ask("acme-admin", "PATCH", one, {"provider": "local", "model": "fast"})[1]
        self.assertEqual((theirs["api_key"], theirs["base_url"]), (None, None), theirs)
        self.assertEqual(self.ask("acme-admin", "PATCH", one, {**moved, "api_key": KEY})[1]["api_key"], "***MASKED***")
        self.assertEqual(self.ask("acme-admin", "PATCH", one, {"api_key": None})[1]["api_key"], None)
        told = self.daemon.audit("catalog.llm_changed")[-1]
        self.assertEqual((told["org"], told["name"], told["operator_id"]), (self.world.orgs["acme"], "mine", "acme-admin"))
        self.assertEqual(self.ask("acme-admin", "DELETE", one)[0], 200)
        self.assertEqual(self.ask("acme-admin", "GET", one)[0], 404)

    def test_a_provider_is_within_what_the_org_may_reach(self):
        for url in ("https://elsewhere.example/v1", "http://127.0.0.1:7777", "https://models.example.com:8443", None):
            self.refused(self.make(name="far", base_url=url), 403, "AZ-0001", "may not reach")
        self.refused(self.make("root", name="far", base_url="http://models.example.com:443", api_key="k"), 422,
                     "VA-9001", "http:// would show")

    def test_what_does_not_fit_is_refused(self):
        for body in ({"name": "x", "provider": "demo"}, {"name": ""}, {"name": "x", "more": 1},
                     {"name": "x", "base_url": "https://${HOME}.example.com"}, {"name": "x", "base_url": "ftp://x"},
                     {"name": "x", "temperature": "hot"}, {"name": "x", "max_tokens": 0}, {"name": "x", "model": ""}):
            answer = self.make(**body)
            self.assertEqual((answer[0], answer[1]["code"]), (422, "VA-9001"), (body, answer))
        made = self.make(name="whole")[1]
        for body in ({"model": "other"}, {"base_url": "https://models.example.com"}, {"provider": "openai"}):
            self.refused(self.ask("acme-admin", "PATCH", f"{self.path}/{made['id']}", body), 422, "VA-9001",
                         "come together")
        self.refused(self.make(name="whole"), 409, "RE-0002", "already")

    def test_another_orgs_are_not_there(self):
        made = self.make(name="walled")[1]
        for method, body in (("GET", None), ("PATCH", {"name": "taken"}), ("DELETE", None)):
            answer = self.ask("other-admin", method, f"/api/orgs/other/llm-configs/{made['id']}", body)
            self.refused(answer, 404, "RE-0001", "there is no model")
        self.assertEqual(self.ask("other-admin", "GET", "/api/orgs/other/llm-configs")[1], {"llm_configs": []})
        self.assertEqual(self.ask("acme-admin", "GET", f"{self.path}/{made['id']}")[1]["name"], "walled")

    def test_models_by_the_commands(self):
        def run(*words, text=None):
            code, out, err = self.daemon.cli("org", *words, **({"input": text} if text is not None else {}))
            self.assertEqual((code, err), (0, ""), out)
            return out
        self.assertIn("added model quick", run("add-model", "acme", "quick", "fast"))
        made = run("add-model", "acme", "paid", "big", "--provider", "openai", "--base-url",
                   "https://models.example.com/v1", "--key", text=KEY + "\n")
        listed = run("models", "acme")
        self.assertIn("***MASKED***", listed)
        self.assertNotIn(KEY, listed)
        which = made.split()[-1]
        self.assertIn("model better is changed", run("change-model", "acme", which, "--name", "better"))
        self.assertIn("model better is removed", run("remove-model", "acme", which))
        self.assertEqual(self.daemon.cli("org", "remove-model", "acme", which)[0], 4)


if __name__ == "__main__":
    main()
