"""Secrets: sealed, named in local.toml, told to whom they belong, and shown to nobody."""
import base64
import collections
import json
import os
import stat
import subprocess
import urllib.parse

from harness import KAGED, Daemon, FlowTest, main, wait_for
from models import Provider
from terminal import Terminal
from test_events import Reader
from test_turns import calls, says

VALUE = "tok-a-secret-of-the-operator"
OTHER = "tok-another-secret-value"
USES = '[plugins.takes-config]\napi_token = "${secret:weather}"\n'


class Done(collections.namedtuple("Done", "returncode stdout stderr")):
    """What a command left."""


def run(daemon, *arguments, value=None):
    return Done(*daemon.cli(*arguments, input=value))


def secret(daemon, *arguments, value=None):
    return run(daemon, "secret", *arguments, value=value)


def told(daemon):
    """The token in each configuration that the plugin was told."""
    return [params["config"]["api_token"] for params in daemon.call("takes-config", "config.get")]


def daemon_with(local=USES, values=(("weather", VALUE),), **options):
    daemon = Daemon(["takes-config"], **options)
    daemon.write_local(local)
    for name, value in values:
        done = secret(daemon, "set", name, value=value + "\n")
        assert done.returncode == 0, done.stderr
    return daemon


class Commands(FlowTest):
    def test_without_a_daemon_secrets_are_set_listed_rotated_and_removed(self):
        daemon = Daemon([])
        try:
            done = secret(daemon, "set", "weather", value=VALUE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("${secret:weather}", done.stdout)
            key = os.path.join(daemon.home, "state", "secrets.key")
            self.assertEqual(stat.S_IMODE(os.stat(key).st_mode), 0o600)
            listed = json.loads(run(daemon, "--json", "secret", "list").stdout)["secrets"]
            self.assertEqual([(one["name"], one["source"]) for one in listed],
                             [("weather", "sealed")])
            self.assertEqual(secret(daemon, "rotate").stdout,
                             "1 secret is sealed with the new key\n")
            self.assertEqual(secret(daemon, "rm", "weather").returncode, 0)
            self.assertEqual(secret(daemon, "rm", "weather").returncode, 4)
            self.assertEqual(secret(daemon, "list").stdout, "there are no secrets\n")
            self.assertEqual(run(daemon, "audit", "verify").returncode, 0)
        finally:
            daemon.discard()

    def test_a_value_is_no_argument_and_bad_ones_are_refused(self):
        with Daemon([]) as daemon:
            for arguments, value, code in [
                    (("set", "weather", VALUE), None, 2), (("set", "weather"), "", 2),
                    (("set", "weather"), "x" * 1048576, 6), (("set", "weather"), "a\0b", 2),
                    (("set", "we ather"), VALUE, 2), (("rm", "weather"), None, 4),
                    (("rotate",), None, 4)]:
                done = secret(daemon, *arguments, value=value)
                self.assertEqual(done.returncode, code, (arguments, done.stderr))
                self.assertNotIn(VALUE, done.stdout)
            self.assertEqual(daemon.api("PUT", "/secrets/weather", {"value": "a\0b"})[0], 400)
            self.assertEqual(daemon.api("PUT", "/secrets/weather", {"value": "x" * 40000})[0], 413)
            self.assertEqual(daemon.api("PUT", "/secrets/weather", {"value": "x" * 1048576})[0], 413)
            self.assertEqual(daemon.api("PUT", "/secrets/weather", {"value": 5})[0], 400)
            self.assertEqual(daemon.api("GET", "/secrets/weather")[0], 404)
            self.assertEqual(daemon.api("GET", "/secrets")[1], {"secrets": []})

    def test_short_values_are_stored_and_said_not_to_be_redacted(self):
        with Daemon([]) as daemon:
            done = secret(daemon, "set", "pin", value="1234567")
            self.assertIn("not redacted", done.stdout)
            self.assertFalse(daemon.api("GET", "/secrets/pin")[1]["redacted"])
            self.assertNotIn("not redacted", secret(daemon, "set", "pin", value="12345678").stdout)

    def test_a_terminal_does_not_show_what_is_typed(self):
        with Daemon([]) as daemon:
            with Terminal([KAGED, "--home", daemon.home, "secret", "set", "typed"],
                          daemon.environment()) as terminal:
                terminal.read_until("(not shown): ")
                terminal.type(VALUE + "\n")
                code, screen = terminal.end()
                self.assertEqual(code, 0, screen)
                self.assertNotIn(VALUE, screen)
            self.assertEqual(daemon.api("GET", "/secrets/typed")[1]["source"], "sealed")


class Plugins(FlowTest):
    def test_a_plugin_gets_what_its_table_names_and_a_new_value_at_once(self):
        with daemon_with() as daemon:
            self.assertEqual(told(daemon), [VALUE])
            done = secret(daemon, "set", "weather", value=OTHER)
            self.assertEqual(done.stdout, "secret weather is set; used by plugins.takes-config\n")
            wait_for(lambda: told(daemon) == [VALUE, OTHER], "the plugin is told")
            self.assertEqual(run(daemon, "secret", "rotate").returncode, 0)
            self.assertEqual(told(daemon)[-1], OTHER)
            events = [event["event"] for event in daemon.audit() if "secret" in event["event"]]
            self.assertEqual(events, ["secret.set", "secret.set", "secret.rotated"])
            self.assertIn("secret weather is used by plugins.takes-config", daemon.log())

    def test_files_and_variables_stand_beside_secrets(self):
        daemon = Daemon(["takes-config"], wait_running=False)
        path = os.path.join(daemon.home, "token")
        with open(path, "w") as file:
            file.write(VALUE + "\n")
        daemon.write_local(f'[plugins.takes-config]\napi_token = "${{file:{path}}}"\n')
        with daemon:
            daemon.wait_state("takes-config", "running")
            self.assertEqual(told(daemon), [VALUE])
            with open(path, "w") as file:
                file.write(OTHER)
            self.assertEqual(run(daemon, "reload").returncode, 0)
            wait_for(lambda: told(daemon) == [VALUE, OTHER], "the plugin is told")

    def test_a_missing_secret_keeps_its_plugin_alone_from_starting(self):
        daemon = Daemon(["takes-config", "good-python"], wait_running=False)
        daemon.write_local(USES)
        daemon.approve()
        with daemon:
            daemon.wait_state("good-python", "running")
            status = daemon.status("takes-config")
            self.assertNotEqual(status["state"], "running")
            self.assertIn("there is no secret weather", json.dumps(status))
            checked = run(daemon, "config", "check")
            self.assertEqual(checked.returncode, 6)
            self.assertIn("secret set weather", checked.stderr)
            self.assertEqual(secret(daemon, "set", "weather", value=VALUE).returncode, 0)
            daemon.wait_state("takes-config", "running")
            self.assertEqual(told(daemon), [VALUE])

    def test_a_secret_in_use_is_removed_by_force_only_and_what_runs_goes_on(self):
        with daemon_with() as daemon:
            refused = secret(daemon, "rm", "weather")
            self.assertEqual(refused.returncode, 5)
            self.assertIn("plugins.takes-config", refused.stderr)
            self.assertEqual(secret(daemon, "rm", "weather", "--force").returncode, 0)
            self.assertEqual(told(daemon), [VALUE])
            self.assertEqual(daemon.api("GET", "/secrets/weather")[1]["source"], "missing")
            self.assertEqual(run(daemon, "status").returncode, 0)

    def test_a_password_program_is_asked_and_one_that_hangs_holds_nobody_up(self):
        daemon = Daemon(["takes-config", "good-python"], wait_running=False)
        marker = os.path.join(daemon.home, "asked")
        program = os.path.join(daemon.home, "pass")
        with open(program, "w") as file:
            file.write(f'#!/bin/sh\ntouch {marker}\n[ -e {marker}.hang ] && exec sleep 1000\n'
                       f'env > {marker}.env\necho "tok-of-$2"\n')
        os.chmod(program, 0o700)
        os.chmod(daemon.home, 0o700)
        daemon.write_local(f'[secrets]\ncommand = ["{program}", "show"]\ntimeout_ms = 2000\n'
                           f'environment = ["PATH"]\n' + USES)
        os.chmod(os.path.join(daemon.home, "local.toml"), 0o600)
        with daemon:
            daemon.wait_state("takes-config", "running")
            self.assertEqual(told(daemon), ["tok-of-weather"])
            with open(marker + ".env") as file:
                names = {line.split("=")[0] for line in file}
            self.assertLessEqual(names, {"PATH", "PWD", "_", "SHLVL", "OLDPWD"})
            open(marker + ".hang", "w").close()
            reloading = subprocess.Popen([KAGED, "--home", daemon.home, "reload"],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual(daemon.api("GET", "/status")[0], 200)
            daemon.wait_state("good-python", "running")
            reloading.wait(60)
            self.assertEqual(told(daemon), ["tok-of-weather"])


def forms(value):
    """How a value may be written."""
    data = value.encode()
    return [data, base64.b64encode(data).rstrip(b"="), base64.urlsafe_b64encode(data).rstrip(b"="),
            urllib.parse.quote(value, safe="").encode(), json.dumps(value)[1:-1].encode()]


class Strings(FlowTest):
    """What kaged keeps and says, searched for secrets that were planted in every place."""

    SECRETS = {"sealed": "s3cret/sealed+and\"quoted\" value", "filed": "a-value-of-a-file-0815",
               "asked": "what-the-program-knows-4711", "late": "set-while-it-runs-2342"}

    def search(self, where, content):
        for name, value in self.SECRETS.items():
            for form in forms(value):
                self.assertNotIn(form, content, f"{name} is in {where}")

    def search_files(self, daemon):
        for folder, _, names in os.walk(daemon.home):
            for name in names:
                path = os.path.join(folder, name)
                inside = os.path.relpath(path, daemon.home)
                if inside in ("filed", "pass") or inside.startswith(("plugins", "state/storage")):
                    continue  # what the test planted, and plugins' own
                if stat.S_ISREG(os.stat(path).st_mode):
                    with open(path, "rb") as file:
                        self.search(inside, file.read())

    def plant(self, daemon):
        """Has a plugin say all of them, in every way that it has."""
        for value in self.SECRETS.values():
            said = json.dumps(value)
            coded = json.dumps(base64.b64encode(value.encode()).decode())
            code = f"import sys; print({said}, {coded}, file=sys.stderr, flush=True)\n" \
                   f"print('noise', {said}, flush=True)\nresult = {said}"
            got = daemon.call("does-as-told", "told.run", {"code": code})
            self.assertEqual(got["result"], value)  # a caller's own answer is not changed
            daemon.try_call("does-as-told", "told.run", {"code": f"raise OSError(5, {said})"})
            status, entry = daemon.api("POST", f"/sessions/{self.session}/messages",
                                       {"messages": [{"role": "user", "content": f"my key is {value}"}]})
            self.assertEqual(status, 200, entry)

    def answers(self, daemon):
        paths = ["/status", "/plugins", "/plugins/does-as-told", "/plugins/does-as-told/logs",
                 "/plugins/takes-config", "/secrets", "/audit?limit=1000", "/projects",
                 "/projects/music", "/sessions", f"/sessions/{self.session}/entries",
                 f"/sessions/{self.session}/context", "/plugins/does-as-told/trace?of=recorded"]
        for path in paths:
            yield path, daemon.raw("GET", "/api/v1" + path)

    def test_no_secret_is_in_what_kaged_keeps_or_answers(self):
        daemon = Daemon(["takes-config", "does-as-told"], wait_running=False)
        filed, program = (os.path.join(daemon.home, name) for name in ("filed", "pass"))
        with open(filed, "w") as file:
            file.write(self.SECRETS["filed"])
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\necho '{self.SECRETS['asked']}'\n")
        os.chmod(program, 0o700)
        os.chmod(daemon.home, 0o700)
        daemon.write_local(
            f'[secrets]\ncommand = ["{program}"]\n[plugins.takes-config]\n'
            f'api_token = "tok-${{secret:sealed}}${{file:{filed}}}${{secret:asked}}"\n')
        os.chmod(os.path.join(daemon.home, "local.toml"), 0o600)
        self.assertEqual(secret(daemon, "set", "sealed", value=self.SECRETS["sealed"]).returncode, 0)
        with daemon:
            self.assertEqual(secret(daemon, "set", "late", value=self.SECRETS["late"]).returncode, 0)
            root = daemon.write_project("music", "version: 1\nname: music\nprimary: { prompt: Hi. }\n")
            self.assertEqual(daemon.cli("project", "load", root)[0], 0)
            self.session = daemon.api("POST", "/projects/music/sessions", {})[1]["id"]
            self.assertEqual(daemon.cli("plugin", "trace", "does-as-told", "--on")[0], 0)
            daemon.wait_state("does-as-told", "running")
            self.plant(daemon)
            for path, answer in self.answers(daemon):
                self.search(path, answer[1])
            self.search_files(daemon)
            self.search("the log", daemon.log().encode())
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)


AGENT = "agents-as-told"
SPOKEN = """version: 1
name: shop
primary:
  model: m
  prompt: "The key is {value}."
  plugins: {{ told: {{ package: agents-as-told }} }}
  compaction: {{ strategy: summarize }}
"""


class Said(FlowTest):
    """A secret in all that goes through a conversation: models, those who watch, and kaged.db see none."""

    def open(self, provider):
        daemon = Daemon([AGENT, "does-as-told", "refuses-initialize"], enabled=[AGENT, "does-as-told"],
                        wait_running=False)
        self.addCleanup(daemon.discard)
        daemon.write_local(
            f'[plugins.{AGENT}]\n[grants.{AGENT}.env]\nTOKEN = "${{secret:weather}}"\n'
            f'[providers.p]\nkind = "openai"\nbase_url = "{provider.url}"\n'
            f'api_key = "${{secret:weather}}"\nretries = 0\n'
            f'[models.m]\nprovider = "p"\nmodel = "gpt"\ncontext_window = 4000\n')
        self.assertEqual(secret(daemon, "set", "weather", value=VALUE).returncode, 0)
        daemon.approve()
        daemon.start()
        self.addCleanup(daemon.stop)
        daemon.wait_state("does-as-told", "running")
        root = daemon.write_project("shop", SPOKEN.format(value=VALUE))
        self.assertEqual(daemon.cli("project", "load", root)[0], 0)
        return daemon

    def assert_clean(self, where, content):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        for form in forms(VALUE):
            self.assertNotIn(form, content, where)

    def test_no_request_to_a_model_and_no_line_of_a_run_has_a_secret(self):
        acts = {"acts": {"result": f"it is {VALUE}"}}
        with Provider(calls(acts, text=f"I say {VALUE}"), says("done"), says(f"{VALUE} again")) as provider:
            daemon = self.open(provider)
            status, session = daemon.api("POST", "/projects/shop/sessions", {"title": f"about {VALUE}"})
            self.assertEqual(status, 201, session)
            session = session["id"]
            with Reader(daemon) as events:
                for text in f"my key is {VALUE}", "and again":
                    status, lines = daemon.raw("POST", f"/api/v1/sessions/{session}/runs", json.dumps({"text": text}))
                    self.assertEqual(status, 200, lines)
                    self.assertIn(b"[redacted]", lines)
                    self.assert_clean("a run", lines)
                note = json.dumps({"jsonrpc": "2.0", "method": "told.news", "params": {"key": VALUE}})
                daemon.call("does-as-told", "told.run", {"code": f"print({note!r}, flush=True)"})
                _, said = events.until(method="told.news")
                self.assertEqual(said["params"], {"key": "[redacted]"})
            self.assertEqual(len(provider.requests), 3)
            for head, body in provider.requests:
                self.assert_clean("a request to a model", body)
                self.assertIn(f"Bearer {VALUE}", head)  # the provider's own, which it is for
            self.assertIn("[redacted]", json.dumps(provider.requests[-1][1]))
            for path in f"/sessions/{session}/entries", f"/sessions/{session}", "/sessions":
                self.assert_clean(path, daemon.raw("GET", "/api/v1" + path)[1])
            daemon.stop()
            with open(os.path.join(daemon.home, "state/kaged.db"), "rb") as file:
                self.assert_clean("kaged.db", file.read())

    def test_what_a_plugin_makes_of_a_conversation_and_its_last_words_keep_no_secret(self):
        with Provider(says(f"summary with {VALUE}")) as provider:
            daemon = self.open(provider)
            session = daemon.api("POST", "/projects/shop/sessions", {})[1]["id"]
            messages = [{"role": "user", "content": f"tea {i}"} for i in range(30)]
            status, answer = daemon.api("POST", f"/sessions/{session}/messages", {"messages": messages})
            self.assertEqual(status, 200, answer)
            status, answer = daemon.api("POST", f"/sessions/{session}/compact", {})
            self.assertEqual(status, 200, answer)
            self.assertIn("summary with [redacted]",
                          json.dumps(daemon.api("GET", f"/sessions/{session}/context")[1]))
            words = f"import os, sys; print({VALUE!r}, file=sys.stderr, flush=True); os._exit(3)"
            daemon.try_call("does-as-told", "told.run", {"code": words})
            wait_for(lambda: daemon.status("does-as-told").get("last_exit"), "the exit report")
            self.assertIn("[redacted]", json.dumps(daemon.status("does-as-told")["last_exit"]))
            self.assert_clean("an exit report", daemon.status("does-as-told"))
            daemon.stop()
            for folder, _, names in os.walk(os.path.join(daemon.home, "state")):
                for name in names:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assert_clean(name, file.read())


if __name__ == "__main__":
    main()
