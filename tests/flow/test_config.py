"""Configuration: local.toml on its way to plugins, schemas of methods, and their commands."""
import json
import os
import re
import subprocess
import threading
import time
from unittest import mock

from harness import KAGED, PLUGINS, ROOT, Daemon, FlowTest, main, wait_for

TOKEN = "tok-5ecret-value"
LOCAL = f'[plugins.takes-config]\napi_token = "{TOKEN}"\n'
WHOLE = {"url": "https://api.example.com", "budget": "mid", "api_token": TOKEN, "region": "eu"}


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def local_file(daemon):
    return os.path.join(daemon.home, "local.toml")


def write_local(daemon, text):
    """Over all that was there, so the operator has to say yes to the plugins again."""
    daemon.write_local(text)
    if daemon.process is not None:
        daemon.approve()


def manifest_file(daemon, plugin):
    return os.path.join(daemon.home, "plugins", plugin, "kaged-plugin.yaml")


def change_manifest(daemon, plugin, pattern, replacement):
    path = manifest_file(daemon, plugin)
    text, count = re.subn(pattern, replacement, read(path))
    assert count == 1, f"{pattern} is {count} times in {path}"
    write(path, text)
    if daemon.process is not None:
        daemon.approve(plugin)


def with_config(local=LOCAL, mode=None, plugins=("takes-config",), **options):
    """A daemon that is not started yet."""
    daemon = Daemon(list(plugins), **options)
    if local is not None:
        write_local(daemon, local)
    if mode is not None:
        change_manifest(daemon, "takes-config", "MODE: accept", f'MODE: "{mode}"')
    return daemon


def configs(daemon):
    """What the plugin was told, one config after the other."""
    return [params["config"] for params in daemon.call("takes-config", "config.get")]


def reload(daemon):
    status, answer = daemon.api("POST", "/reload")
    assert status == 200, answer
    return answer


class Handshake(FlowTest):
    def test_config_arrives_between_initialize_and_initialized(self):
        with with_config() as daemon:
            self.assertEqual(daemon.call("takes-config", "messages.seen")[:3],
                             ["initialize", "config.update", "initialized"])
            self.assertEqual(daemon.call("takes-config", "config.get"), [{"config": WHOLE}])

    def test_both_sides_are_one_object_over_the_defaults(self):
        local = LOCAL + ('region = "us"\npin = 5\n[plugins.takes-config.config]\n'
                         'budget = "high"\ntags = ["a", "b"]\n')
        with with_config(local) as daemon:
            self.assertEqual(configs(daemon), [{**WHOLE, "region": "us", "pin": 5,
                                                "budget": "high", "tags": ["a", "b"]}])

    def test_variables_are_those_of_the_daemon(self):
        with mock.patch.dict(os.environ, KG_TEST_TOKEN="tok-from-outside"):
            with with_config('[plugins.takes-config]\napi_token = "${KG_TEST_TOKEN}"\n') as daemon:
                self.assertEqual(configs(daemon)[0]["api_token"], "tok-from-outside")

    def test_package_is_the_key_of_the_table(self):
        daemon = with_config(LOCAL.replace("takes-config", '"@kaged/takes-config"'))
        change_manifest(daemon, "takes-config", "version:",
                        'package: "@kaged/takes-config"\nversion:')
        with daemon:
            self.assertEqual(configs(daemon), [WHOLE])

    def test_plugin_without_schemas_is_told_nothing(self):
        with with_config(plugins=["context-echo"]) as daemon:
            seen = daemon.call("context-echo", "messages.seen")
            self.assertEqual([message["method"] for message in seen][:2],
                             ["initialize", "initialized"])

    def test_plugin_without_schemas_takes_what_the_operator_gives(self):
        local = '[plugins.context-echo]\na = 1\nconfig = { b = 2 }\n'
        with with_config(local, plugins=["context-echo"]) as daemon:
            seen = daemon.call("context-echo", "messages.seen")
            self.assertEqual((seen[1]["method"], seen[1]["params"]),
                             ("config.update", {"config": {"a": 1, "b": 2}}))


class Shown(FlowTest):
    def test_value_cannot_steer_the_terminal(self):
        daemon = Daemon()
        try:
            daemon.write_config(sandbox__root_writable=["/a\u202e\u200bb"])
            for command in (["config", "get"], ["config", "get", "sandbox.root_writable"]):
                _, out, err = daemon.cli(*command)
                self.assertIn("/a\\u202e\\u200bb", out + err)
        finally:
            daemon.discard()


class Checked(FlowTest):
    """What start refuses, config check and config set refuse in the same words, with its place."""

    BAD = [
        ("daemon", 'bind = "0.0.0.0:1"', "others than this machine can reach"),
        ("daemon", 'bind = "nonsense"', "not an address and a port"),
        ("auth", 'mode = "proxy"', "auth.nonce_file is not set"),
        ("auth", 'hosts = ["*"]', "takes a list of names of hosts"),
        ("plugins", 'dir = "plugins"', "must be an absolute folder"),
        ("plugins", 'dir = "/dev/null/x"', "Not a directory"),
        ("plugins", f'dir = "/{"x" * 300}"', "must be an absolute folder"),
        ("plugins", 'enabled = ["../../x"]', "takes a list of names of plugins"),
    ] + ([("daemon", 'user = "nobody-of-this-name"', "nobody-of-this-name")]
         if os.getuid() == 0 else [])
    BAD_LOCAL = [
        ('[plugins.x]\nhash = "none"\n', "2:8: hash takes"),
        ("[[projects]]\nname = 5\n", "2:8: name takes a string"),
    ]

    def setUp(self):
        self.daemon = Daemon()

    def tearDown(self):
        self.daemon.check_sanitizers()
        self.daemon.discard()

    def test_config_check_does_not_pass_what_start_refuses(self):
        for section, line, words in self.BAD:
            write(os.path.join(self.daemon.home, "config.toml"), f"[{section}]\n{line}\n")
            place = r"config\.toml:2:\d+: " if words != "auth.nonce_file is not set" else "config.toml: "
            for command in (["config", "check"], ["start"]):
                with self.subTest(line=line, command=command):
                    code, _, err = self.daemon.cli(*command)
                    self.assertEqual(code, 6, err)
                    self.assertRegex(err, place)
                    self.assertIn(words, err)

    def test_config_set_takes_a_value_that_is_empty(self):
        code, out, err = self.daemon.cli("config", "set", "daemon.bind", "")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.daemon.cli("config", "get", "daemon.bind")[1].strip(), '')
        code, _, err = self.daemon.cli("config", "set", "", "x")
        self.assertEqual(code, 2, err)

    def test_config_set_does_not_write_what_start_refuses(self):
        path = os.path.join(self.daemon.home, "config.toml")
        for section, line, words in self.BAD:
            with self.subTest(line=line):
                before = read(path)
                key, _, value = line.partition(" = ")
                code, _, err = self.daemon.cli("config", "set", f"{section}.{key}", value.strip('"'))
                self.assertEqual(code, 6, err)
                self.assertIn(words, err)
                self.assertEqual(read(path), before)

    def test_local_file_is_checked_alike(self):
        for text, words in self.BAD_LOCAL:
            write_local(self.daemon, text)
            for command in (["config", "check"], ["start"]):
                with self.subTest(text=text, command=command):
                    code, _, err = self.daemon.cli(*command)
                    self.assertEqual(code, 6, err)
                    self.assertIn("local.toml:" + words, err)


class Answers(FlowTest):
    """What follows from the plugin's answer to config.update."""

    def failed(self, daemon):
        status = daemon.wait_state("takes-config", "failed")
        return status, daemon.cli("plugin", "status", "takes-config")[1]

    def test_method_not_found_means_that_it_takes_none(self):
        with with_config(mode="-32601") as daemon:
            self.assertEqual(daemon.status("takes-config")["state"], "running")
            self.assertEqual(daemon.call("takes-config", "messages.seen")[1:3],
                             ["config.update", "initialized"])

    def test_not_initialized_means_once_more_after_initialized(self):
        with with_config(mode="-32002 ok") as daemon:
            wait_for(lambda: len(configs(daemon)) == 2, "a second config.update")
            self.assertEqual(daemon.call("takes-config", "messages.seen")[:4],
                             ["initialize", "config.update", "initialized", "config.update"])
            self.assertEqual(configs(daemon), [WHOLE, WHOLE])

    def test_config_invalid_fails_the_plugin_at_once_in_its_words(self):
        with with_config(mode="-32004") as daemon:
            status, shown = self.failed(daemon)
            self.assertEqual((status["starts"], status["last_exit"]["cause"]), (1, "handshake"))
            for text in (status["last_exit"]["words"], shown):
                self.assertIn("I do not like the field", text)
                self.assertIn('{"field": "x"}', text)
            self.assertTrue(daemon.audit("plugin.failed", "takes-config"))

    def test_config_invalid_after_initialized_fails_it_too(self):
        with with_config(mode="-32002 -32004") as daemon:
            status, shown = self.failed(daemon)
            self.assertEqual(status["starts"], 1)
            self.assertIn("I do not like the field", shown)

    def test_other_errors_follow_the_restart_policy(self):
        with with_config(mode="-32000", config={"limits.restart_failures": 2}) as daemon:
            status, shown = self.failed(daemon)
            self.assertEqual(status["starts"], 2)
            self.assertIn("it refused its configuration: I do not like the field", shown)

    def test_no_answer_ends_the_handshake(self):
        with with_config(mode="never", config={"limits.restart_failures": 1,
                                               "limits.initialize_timeout_ms": 1500}) as daemon:
            status, shown = self.failed(daemon)
            self.assertEqual(status["last_exit"]["cause"], "handshake")
            self.assertIn("config.update", shown)

    def test_refusal_of_a_running_plugin_leaves_it_running(self):
        with with_config(mode="ok -32004") as daemon:
            write_local(daemon, LOCAL + 'region = "us"\n')
            reload(daemon)
            wait_for(lambda: "it refused its new configuration" in daemon.log(), "its refusal")
            self.assertIn("I do not like the field", daemon.log())
            self.assertEqual(daemon.status("takes-config")["starts"], 1)

    def test_what_was_refused_too_early_counts_as_the_first_only_once(self):
        # The second try after initialized was remembered for ever: a later refusal, which a running
        # plugin may make, then failed the plugin.
        with with_config(mode="-32002 ok -32004") as daemon:
            wait_for(lambda: len(configs(daemon)) == 2, "a second config.update")
            write_local(daemon, LOCAL + 'region = "us"\n')
            reload(daemon)
            wait_for(lambda: "it refused its new configuration" in daemon.log(), "its refusal")
            self.assertEqual(daemon.status("takes-config")["state"], "running")


class Invalid(FlowTest):
    """A configuration that does not fit the schemas: the plugin does not start, and says why."""

    def check_refused(self, local, side, *words):
        with with_config(local) as daemon:
            status = daemon.status("takes-config")
            self.assertEqual((status["state"], status["starts"], status["problem_code"]),
                             ("disabled", 0, "invalid_config"))
            event, = daemon.wait_audit("plugin.config_validation_failed")
            self.assertEqual((event["name"], event["side"]), ("takes-config", side))
            for word in words:
                self.assertIn(word, status["problem"])
                self.assertIn(word, json.dumps(event["errors"]))
            self.assertIn("disabled (invalid config)", daemon.cli("plugin", "list")[1])
            shown = daemon.cli("plugin", "status", "takes-config")[1]
            for word in words:
                self.assertIn(word, shown)
            code, _, err = daemon.cli("plugin", "enable", "takes-config")
            self.assertEqual(code, 6)
            self.assertIn(words[0], err)

    def test_missing_secret(self):
        self.check_refused(None, "system", "api_token")
        self.check_refused("[plugins.takes-config]\n", "system", "api_token")

    def test_wrong_values_of_the_project_side(self):
        self.check_refused(LOCAL + "config = { retries = 10 }\n", "project", "/retries",
                           "at most 9")
        self.check_refused(LOCAL + 'config = { budgt = "low" }\n', "project", "budgt", "budget")

    def test_secret_in_the_project_side_is_refused_by_name(self):
        local = f'[plugins.takes-config.config]\napi_token = "{TOKEN}"\n'
        self.check_refused(local, "project", "api_token")

    def test_unknown_key_of_the_system_side(self):
        self.check_refused(LOCAL + 'api_tokn = "x"\n', "system", "api_tokn")

    def test_problem_has_its_place_and_what_to_do(self):
        with with_config(LOCAL + "pin = true\n") as daemon:
            status = daemon.status("takes-config")
            self.assertIn("3:7: /pin must be an integer", status["problem"])
            self.assertIn(local_file(daemon), status["problem_hint"])

    def test_field_on_both_sides_is_refused_where_no_schema_keeps_them_apart(self):
        local = '[plugins.context-echo]\na = 1\nconfig = { a = 2 }\n'
        with with_config(local, plugins=["context-echo"]) as daemon:
            status = daemon.status("context-echo")
            self.assertEqual(status["problem_code"], "invalid_config")
            self.assertIn('"a"', status["problem"])

    def test_enable_brings_up_what_was_mended(self):
        with with_config(None) as daemon:
            write_local(daemon, LOCAL)
            code, _, err = daemon.cli("plugin", "enable", "takes-config")
            self.assertEqual(code, 0, err)
            self.assertEqual(daemon.wait_state("takes-config", "running")["problem"], None)
            self.assertEqual(configs(daemon), [WHOLE])

    def test_enable_after_the_plugins_own_refusal_tells_it_what_was_mended(self):
        with with_config(mode="-32004") as daemon:
            daemon.wait_state("takes-config", "failed")
            change_manifest(daemon, "takes-config", 'MODE: "-32004"', "MODE: accept")
            write_local(daemon, LOCAL + 'region = "us"\n')
            daemon.act("takes-config", "enable")
            daemon.wait_state("takes-config", "running")
            self.assertEqual(configs(daemon), [{**WHOLE, "region": "us"}])

    def test_enable_refuses_a_file_that_is_broken(self):
        with with_config(None) as daemon:
            write_local(daemon, LOCAL + "local = 5\n")
            code, _, err = daemon.cli("plugin", "enable", "takes-config")
            self.assertEqual(code, 6)
            self.assertIn("local.toml:3:9: local takes true or false", err)

    def test_reload_brings_up_what_was_mended(self):
        with with_config(None) as daemon:
            write_local(daemon, LOCAL)
            reload(daemon)
            daemon.wait_state("takes-config", "running")


class Secrets(FlowTest):
    """The value of a secret reaches its plugin, and nothing else."""

    def everything(self, daemon):
        """All that anybody can read of the daemon, but for local.toml itself."""
        texts = {}
        for path in ("/status", "/plugins", "/plugins/takes-config", "/plugins/takes-config/logs",
                     "/audit?limit=10000"):
            texts[path] = json.dumps(daemon.api("GET", path)[1])
        for arguments in (["plugin", "list", "--verbose"], ["plugin", "status", "takes-config"],
                          ["audit"], ["config", "check"], ["config", "get"],
                          ["config", "get", "plugins.takes-config"],
                          ["config", "get", "plugins.takes-config.api_token"],
                          ["--json", "config", "get", "plugins"],
                          ["--json", "config", "get", "plugins.takes-config"],
                          ["--json", "config", "get", "plugins.takes-config.api_token"],
                          ["plugin", "enable", "takes-config"], ["reload"]):
            texts[" ".join(arguments)] = "".join(map(str, daemon.cli(*arguments)))
        for folder, _, files in os.walk(daemon.home):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and name != "local.toml":
                    with open(path, "rb") as file:
                        texts[name] = file.read().decode(errors="replace")
        return {**texts, "log": daemon.log()}

    def check_nowhere(self, daemon, *secrets):
        for where, text in self.everything(daemon).items():
            for secret in secrets:
                self.assertNotIn(secret, text, where)

    def test_value_is_nowhere_while_all_is_well(self):
        with with_config(config={"logging.level": "debug"}) as daemon:
            write_local(daemon, LOCAL.replace(TOKEN, TOKEN + "-2"))
            reload(daemon)
            wait_for(lambda: len(configs(daemon)) == 2, "its new config")
            self.check_nowhere(daemon, TOKEN)

    def test_value_is_nowhere_if_it_does_not_fit(self):
        for value in ('"5ecret"', '"5ecret-value-without-prefix"', "55555.5", '["5ecret", 1]',
                      '{ "5" = "5ecret" }', "true"):
            with self.subTest(value):
                local = f"[plugins.takes-config]\napi_token = {value}\npin = 55555.5\n"
                with with_config(local, config={"logging.level": "debug"}) as daemon:
                    status = daemon.status("takes-config")
                    self.assertEqual(status["problem_code"], "invalid_config")
                    self.check_nowhere(daemon, "5ecret", "55555")

    def test_value_is_nowhere_if_it_stands_in_the_wrong_place(self):
        local = f'[plugins.takes-config.config]\napi_token = "{TOKEN}"\n'
        with with_config(local) as daemon:
            status = daemon.status("takes-config")
            self.assertEqual(status["problem_code"], "invalid_config")
            for where, text in (("log", daemon.log()), ("status", json.dumps(status)),
                                ("audit", json.dumps(daemon.audit()))):
                self.assertNotIn(TOKEN, text, where)

    def test_value_that_was_not_quoted_is_not_shown(self):
        with with_config() as daemon:
            write_local(daemon, "[plugins.takes-config]\napi_token = 5ecret\n")
            code, out, err = daemon.cli("reload")
            self.assertEqual(code, 6)
            self.assertIn("local.toml:2:13:", err)
            self.assertNotIn("5ecret", out + err + daemon.log())

    def test_config_get_prints_that_it_is_secret(self):
        daemon = with_config(LOCAL + 'config = { budget = "low" }\ninstalled = "1.0.0"\n'
                             f'[providers.p]\nkind = "openai"\napi_key = "{TOKEN}"\n'
                             '[models.fast]\nprovider = "p"\nmodel = "m"\n')
        try:
            rows = [("plugins.takes-config.api_token", "[secret]\n"),
                    ("plugins.takes-config.installed", "1.0.0\n"),
                    ("plugins.takes-config.config.budget", "low\n"),
                    ("providers.p.api_key", "[secret]\n"), ("models.fast.model", "m\n")]
            for key, expected in rows:
                self.assertEqual(daemon.cli("config", "get", key), (0, expected, ""))
            for key in ("providers.p", "providers"):
                code, out, err = daemon.cli("--json", "config", "get", key)
                self.assertEqual((code, err), (0, ""))
                self.assertIn("[secret]", out)
                self.assertNotIn(TOKEN, out)
        finally:
            daemon.discard()


class Reload(FlowTest):
    def setUp(self):
        self.daemon = with_config()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def test_changed_local_is_told_to_the_running_plugin(self):
        write_local(self.daemon, LOCAL + 'config = { budget = "high" }\n')
        reload(self.daemon)
        wait_for(lambda: len(configs(self.daemon)) == 2, "its new config")
        self.assertEqual(configs(self.daemon)[1], {**WHOLE, "budget": "high"})
        self.assertEqual(self.daemon.status("takes-config")["starts"], 1)

    def test_same_config_is_not_told_again(self):
        write_local(self.daemon, "# another comment\n" + LOCAL)
        reload(self.daemon)
        self.assertEqual(configs(self.daemon), [WHOLE])

    def test_config_that_does_not_fit_is_kept_away_from_the_plugin(self):
        write_local(self.daemon, LOCAL + 'config = { budget = "much" }\n')
        reload(self.daemon)
        self.assertEqual(configs(self.daemon), [WHOLE])
        self.assertIn("keeps its configuration", self.daemon.log())
        event, = self.daemon.audit("plugin.config_validation_failed")
        self.assertEqual(event["side"], "project")
        self.assertEqual(self.daemon.status("takes-config")["state"], "running")

    def test_broken_local_is_not_taken_at_all(self):
        write_local(self.daemon, "[plugins.takes-config\n")
        code, _, err = self.daemon.cli("reload")
        self.assertEqual(code, 6)
        self.assertIn("local.toml:1:22", err)
        self.assertEqual(configs(self.daemon), [WHOLE])

    def test_reload_in_the_middle_of_the_handshake_is_not_missed(self):
        with with_config(mode="slow", wait_running=False) as daemon:
            write_local(daemon, LOCAL + 'region = "us"\n')
            reload(daemon)
            daemon.wait_state("takes-config", "running")
            wait_for(lambda: configs(daemon)[-1]["region"] == "us", "its new config")

    def test_config_that_was_taken_away_is_an_empty_one(self):
        # It was sent as no value at all, which is no JSON.
        with with_config("[plugins.context-echo]\na = 1\n", plugins=["context-echo"]) as daemon:
            write_local(daemon, "")
            reload(daemon)
            told = lambda: [message["params"] for message in daemon.call(
                "context-echo", "messages.seen") if message["method"] == "config.update"]
            wait_for(lambda: len(told()) == 2, "its new config")
            self.assertEqual(told()[1], {"config": {}})

    def test_restarted_plugin_gets_the_new_config(self):
        write_local(self.daemon, LOCAL + 'region = "us"\n')
        reload(self.daemon)
        self.daemon.act("takes-config", "restart")
        self.daemon.wait_restarted("takes-config", 1)
        self.assertEqual(configs(self.daemon), [{**WHOLE, "region": "us"}])


class Start(FlowTest):
    def refused(self, local):
        daemon = with_config(local)
        try:
            code, _, err = daemon.cli("start", "--foreground")
            daemon.check_sanitizers()
            self.assertEqual(code, 6, err)
            return err
        finally:
            daemon.discard()

    def test_broken_local_stops_the_start_with_its_place(self):
        self.assertIn("local.toml:2:9: local takes true or false",
                      self.refused("[plugins.a]\nlocal = 1\n"))
        self.assertIn("local.toml:1:", self.refused("plugins = \0"))
        self.assertIn("did you mean plugins?", self.refused("[plugin.a]\n"))

    def test_missing_variable_is_named_with_its_key(self):
        err = self.refused('[plugins.a]\ntoken = "${KG_TEST_UNSET}"\n')
        self.assertIn("2:9: token needs the environment variable KG_TEST_UNSET", err)


class Methods(FlowTest):
    """Schemas and timeouts of methods, as the manifest has them."""

    plugins = ["with-schemas"]

    def add(self, **params):
        return self.daemon.try_call("with-schemas", "sum.add", params)

    def test_what_fits_goes_through(self):
        self.assertEqual(self.add(numbers=[1, 2.5]), (200, {"sum": 3.5}))

    def test_wrong_params_are_refused_with_their_path(self):
        calls = self.daemon.status("with-schemas")["calls"]
        answer = self.add(numbers=[1, "2"])
        self.assert_error(answer, 422, "invalid_params")
        self.assertIn("with-schemas: sum.add: the params: /numbers/1 must be a number",
                      answer[1]["message"])
        self.assert_error(self.add(), 422, "invalid_params")
        self.assert_error(self.add(numbers=[], more=1), 422, "invalid_params")
        self.assertEqual(self.daemon.status("with-schemas")["calls"], calls)
        code, _, err = self.daemon.cli("plugin", "call", "with-schemas", "sum.add", "{}")
        self.assertEqual(code, 6)
        self.assertIn("numbers", err)

    def test_wrong_result_is_the_plugins_fault(self):
        answer = self.add(numbers=[], answer={"sum": "3"})
        self.assert_error(answer, 502, "invalid_result")
        self.assertIn("the result: /sum must be a number", answer[1]["message"])
        self.assert_error(self.add(numbers=[], answer=None), 502, "invalid_result")
        event = self.daemon.audit("plugin.method_returned", "with-schemas")[-1]
        self.assertEqual((event["success"], event["error"]), (False, "invalid_result"))

    def test_method_without_schemas_takes_and_gives_anything(self):
        self.assertEqual(self.daemon.call("with-schemas", "sum.free", {"answer": ["x"]}), ["x"])

    def test_timeout_of_the_method_rules(self):
        starts = self.daemon.wait_state("with-schemas", "running")["starts"]
        answer = self.daemon.try_call("with-schemas", "sum.slow")
        self.assert_error(answer, 504, "plugin_timeout")
        self.assertIn("within 1000 ms", answer[1]["message"])
        self.daemon.wait_restarted("with-schemas", starts)


class LongerTimeout(FlowTest):
    plugins = ["with-schemas"]
    config = {"limits.call_timeout_ms": 200}

    def test_timeout_of_the_method_may_be_longer_than_the_daemons(self):
        began = time.monotonic()
        answer = self.daemon.try_call("with-schemas", "sum.slow")
        self.assert_error(answer, 504, "plugin_timeout")
        self.assertGreaterEqual(time.monotonic() - began, 0.8)


class Mended(FlowTest):
    """A manifest that was broken while its plugin ran, and mended again."""

    plugins = ["answers-late"]

    def late(self, after_ms):
        return self.daemon.call("answers-late", "late.answer", {"after_ms": after_ms, "value": 5})

    def test_running_plugin_keeps_the_manifest_that_it_started_with(self):
        # Enabling it read the new manifest at once, and freed the old one under a call that still
        # pointed into it; a method that only the old one had was then looked up in vain.
        change_manifest(self.daemon, "answers-late", "late.answer", "late.other")
        caller = threading.Thread(target=self.late, args=[8000])
        caller.start()
        self.daemon.wait_status("answers-late", lambda status: status["in_flight"] == 1, "a call")
        self.daemon.act("answers-late", "enable")
        caller.join()
        self.assertEqual(self.daemon.status("answers-late")["problem"], None)
        self.assertEqual(self.late(0), 5)
        self.daemon.act("answers-late", "restart")
        self.daemon.wait_restarted("answers-late", 1)
        names = [method["name"] for method in self.daemon.status("answers-late")["methods"]]
        self.assertEqual(names, ["late.other"])


class Offline(FlowTest):
    """Commands that need no daemon."""

    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.discard)

    def tearDown(self):
        self.daemon.check_sanitizers()

    def file(self, name, text):
        path = os.path.join(self.daemon.base, name)
        write(path, text)
        return path


TEN_MISTAKES = """name: Ten
version: 1.0
kaged_api: 7
command: []
capabilities: [read:fs:x]
hooks: [on_sesion_start]
methods: [kaged.get, a.b]
timeouts: {a.c: 5}
licence: MIT
"""


class Validate(Offline):
    def test_plugins_of_the_repository_are_valid(self):
        folders = [os.path.join(parent, name)
                   for parent in (PLUGINS, os.path.join(ROOT, "plugins"))
                   for name in sorted(os.listdir(parent))]
        folders = [folder for folder in folders if os.path.exists(folder + "/kaged-plugin.yaml")]
        self.assertGreater(len(folders), 40)
        for folder in folders:
            with self.subTest(os.path.basename(folder)):
                code, out, err = self.daemon.cli("plugin", "validate", folder)
                self.assertEqual((code, err), (0, ""), out)
                self.assertTrue(out.endswith("is valid\n"))

    def test_ten_mistakes_are_listed_with_place_and_code(self):
        path = self.file("kaged-plugin.yaml", TEN_MISTAKES)
        code, out, err = self.daemon.cli("plugin", "validate", path)
        self.assertEqual((code, err), (6, ""))
        found = re.findall(r"^(.*?):(\d+):(\d+): error: .+ \[([a-z_]+)\]$", out, re.MULTILINE)
        self.assertEqual(len(found), 10, out)
        self.assertEqual({row[0] for row in found}, {path})
        self.assertEqual(len({row[3] for row in found}), 10)
        places = [(int(row[1]), int(row[2])) for row in found]
        self.assertEqual(places, sorted(places))
        self.assertTrue(out.endswith(": 10 errors\n"))

    def test_folder_and_file_are_the_same(self):
        self.file("kaged-plugin.yaml", TEN_MISTAKES)
        code, out, _ = self.daemon.cli("plugin", "validate", self.daemon.base)
        self.assertEqual((code, out.count("error: ")), (6, 10))

    def test_json_has_every_problem(self):
        path = self.file("kaged-plugin.yaml", TEN_MISTAKES)
        code, out, _ = self.daemon.cli("--json", "plugin", "validate", path)
        answer = json.loads(out)
        self.assertEqual((code, answer["valid"], len(answer["problems"])), (6, False, 10))
        self.assertEqual(set(answer["problems"][0]),
                         {"code", "severity", "line", "column", "message", "hint"})
        hooks, = [row for row in answer["problems"] if row["code"] == "unknown_hook"]
        self.assertEqual((hooks["line"], hooks["column"], hooks["hint"]),
                         (6, 9, "did you mean on_session_start?"))

    def test_warnings_are_shown_and_do_not_fail(self):
        text = read(os.path.join(PLUGINS, "good-python/kaged-plugin.yaml"))
        path = self.file("kaged-plugin.yaml", text.replace("name: good-python", "name: shell"))
        code, out, _ = self.daemon.cli("plugin", "validate", path)
        self.assertEqual(code, 0)
        self.assertIn(":1:7: warning: ", out)
        self.assertIn("[name_is_builtin]", out)
        code, out, _ = self.daemon.cli("--json", "plugin", "validate", path)
        self.assertEqual((code, json.loads(out)["valid"]), (0, True))

    def test_text_of_a_manifest_cannot_steer_the_terminal(self):
        path = self.file("kaged-plugin.yaml", 'name: "\\e[2J"\n"\\e[31m": 1\nhooks: ["\\u202e"]\n')
        code, out, err = self.daemon.cli("plugin", "validate", path)
        self.assertEqual(code, 6)
        for bad in ("\x1b", "\u202e"):
            self.assertNotIn(bad, out + err)

    def test_missing_and_huge_files(self):
        code, _, err = self.daemon.cli("plugin", "validate", self.daemon.base)
        self.assertEqual(code, 4, err)
        path = self.file("huge.yaml", "")
        os.truncate(path, 100 * 1024 * 1024)
        code, _, err = self.daemon.cli("plugin", "validate", path)
        self.assertEqual(code, 6, err)
        self.assertIn("larger than", err)

    def test_billion_laughs_end_soon(self):
        text = "a0: &a0 [x, x]\n"
        for i in range(1, 40):
            text += f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n"
        code, out, _ = self.daemon.cli("plugin", "validate", self.file("kaged-plugin.yaml", text))
        self.assertEqual(code, 6)
        self.assertIn("[yaml_invalid]", out)


CONFIG = """# The operator's own words.

[limits]   # bounds
  call_timeout_ms = 5_000    # five seconds

[logging]
level = 'warn'
"""


class Config(Offline):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.daemon.home, "config.toml")
        write(self.path, CONFIG)

    def config(self, *arguments):
        return self.daemon.cli("config", *arguments)

    def test_path(self):
        local = local_file(self.daemon)
        self.assertEqual(self.config("path"), (0, f"{self.path}\n{local}\n", ""))
        self.assertEqual(json.loads(self.daemon.cli("--json", "config", "path")[1]),
                         {"config": self.path, "local": local})

    def test_get(self):
        self.assertEqual(self.config("get", "limits.call_timeout_ms"), (0, "5000\n", ""))
        self.assertEqual(self.config("get", "logging.level"), (0, "warn\n", ""))
        self.assertEqual(self.config("get", "limits.ping_timeout_ms"), (0, "5000\n", ""))
        code, out, _ = self.daemon.cli("--json", "config", "get")
        self.assertEqual((code, json.loads(out)["logging.level"]), (0, "warn"))
        self.assertIn("\nlimits.call_timeout_ms = 5000\n", self.config("get")[1])

    def test_unknown_keys_suggest_the_nearest(self):
        for arguments in (["get", "limits.call_timeout"], ["set", "limits.call_timeout", "5"]):
            code, out, err = self.config(*arguments)
            self.assertEqual((code, out), (4, ""))
            self.assertIn("did you mean limits.call_timeout_ms?", err)
        self.assertEqual(read(self.path), CONFIG)

    def test_keys_that_are_none_are_usage(self):
        for key in ("", ".", "limits.", ".x", 'limits."x', '"a"b', '"".x', "a.b.c.d.e.f.g.h.i"):
            self.assertEqual(self.config("get", key)[0], 2, key)

    def test_set_changes_one_value_and_no_other_byte(self):
        code, out, err = self.config("set", "limits.call_timeout_ms", "7000")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("limits.call_timeout_ms is set", out)
        self.assertEqual(read(self.path), CONFIG.replace("5_000", "7000"))
        self.assertEqual(self.config("get", "limits.call_timeout_ms")[1], "7000\n")

    def test_set_adds_a_key_to_its_section(self):
        self.assertEqual(self.config("set", "logging.format", "json")[0], 0)
        text = read(self.path)
        self.assertTrue(text.startswith(CONFIG))
        self.assertIn('format = "json"', text[len(CONFIG):])

    def test_set_of_a_list(self):
        self.assertEqual(self.config("set", "plugins.enabled", '["a", "b"]')[0], 0)
        self.assertEqual(self.config("get", "plugins.enabled")[1], '["a","b"]\n')

    def test_set_makes_the_file(self):
        os.unlink(self.path)
        self.assertEqual(self.config("set", "logging.level", "debug")[0], 0)
        self.assertEqual(self.config("get", "logging.level")[1], "debug\n")

    def test_value_that_the_daemon_would_not_take_leaves_the_file_alone(self):
        for key, value, words in (("limits.call_timeout_ms", "0", "from 1"),
                                  ("limits.call_timeout_ms", "soon", "call_timeout_ms"),
                                  ("logging.level", "loud", "level"),
                                  ("plugins.enabled", "5", "enabled")):
            code, out, err = self.config("set", key, value)
            self.assertEqual((code, out), (6, ""), err)
            self.assertIn(words, err)
            self.assertEqual(read(self.path), CONFIG)

    def test_set_of_a_local_key(self):
        before = "# mine\n[plugins.a]\ninstalled = '1.0.0' # keep\n"
        write_local(self.daemon, before)
        code, out, err = self.config("set", "plugins.a.api_token", "${KG_TEST_UNSET}")
        self.assertEqual((code, err), (0, ""))
        text = read(local_file(self.daemon))
        self.assertTrue(text.startswith(before))
        self.assertIn('api_token = "${KG_TEST_UNSET}"', text)
        self.assertEqual(self.config("get", "plugins.a.api_token")[1], "[secret]\n")
        self.assertEqual(self.config("set", 'plugins."@x/b.c".config.n', "5")[0], 0)
        self.assertEqual(self.config("get", 'plugins."@x/b.c".config.n')[1], "5\n")
        self.assertEqual(read(self.path), CONFIG)

    def test_set_of_a_secret_does_not_repeat_it(self):
        for key, value in (("plugins.a.api_token", TOKEN), ("plugins.a.local", TOKEN),
                           ("plugins.a.api_token", f'"{TOKEN}'), ("plugins.a.config", TOKEN)):
            code, out, err = self.config("set", key, value)
            self.assertNotIn(TOKEN, out + err)

    def test_new_local_file_is_for_its_owner_only(self):
        self.assertEqual(self.config("set", "plugins.a.api_token", TOKEN)[0], 0)
        self.assertEqual(os.stat(local_file(self.daemon)).st_mode & 0o777, 0o600)

    def test_wrong_local_value_leaves_the_file_alone(self):
        code, _, err = self.config("set", "plugins.a.local", "maybe")
        self.assertEqual(code, 6)
        self.assertIn("local takes true or false", err)
        self.assertFalse(os.path.exists(local_file(self.daemon)))

    def test_check(self):
        code, out, err = self.config("check")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(self.path, out)
        write(self.path, CONFIG + "levl = 1\n")
        code, out, err = self.config("check")
        self.assertEqual((code, out), (6, ""))
        self.assertIn("config.toml:8:1", err)
        self.assertIn("level", err)

    def test_check_of_local(self):
        write_local(self.daemon, '[plugins.a]\nt = "${KG_TEST_UNSET}"\n')
        code, _, err = self.config("check")
        self.assertEqual(code, 6)
        self.assertIn("KG_TEST_UNSET", err)
        with mock.patch.dict(os.environ, KG_TEST_UNSET="x"):
            self.assertEqual(self.config("check")[0], 0)


class SetThenReload(FlowTest):
    plugins = ["silent-call"]

    def test_set_then_reload_is_in_force(self):
        self.assertEqual(self.daemon.cli("config", "set", "limits.call_timeout_ms", "100")[0], 0)
        changed = reload(self.daemon)["changed"]
        self.assertIn("limits.call_timeout_ms", json.dumps(changed))
        answer = self.daemon.try_call("silent-call", "work.do")
        self.assert_error(answer, 504, "plugin_timeout")
        self.assertIn("within 100 ms", answer[1]["message"])


class Schema(Offline):
    SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'

    def check(self, schema, instance, suffix=".json"):
        return self.daemon.cli("schema", "check", self.file("schema.json", schema),
                               self.file("instance" + suffix, instance))

    def test_what_fits(self):
        for suffix, text in ((".json", '{"n": 1}'), (".yaml", "n: 1\n"), (".toml", "n = 1\n")):
            code, out, err = self.check(self.SCHEMA, text, suffix)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("fits", out)

    def test_what_does_not_fit_is_listed_with_its_place(self):
        code, out, err = self.check('{"items": {"type": "integer"}}', '[1,\n "a",\n 2.5]')
        self.assertEqual((code, err), (6, ""))
        self.assertIn("instance.json:2:2: /1 must be an integer, not string (#/items/type)\n", out)
        self.assertIn("instance.json:3:2: /2 must be an integer", out)

    def test_both_drafts(self):
        tuple_of_7 = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#",
                                 "items": [True, False]})
        self.assertEqual(self.check(tuple_of_7, "[1]")[0], 0)
        self.assertEqual(self.check(tuple_of_7, "[1, 2]")[0], 6)
        self.assertEqual(self.check('{"prefixItems": [true, false]}', "[1, 2]")[0], 6)

    def test_schema_that_is_none_names_its_file(self):
        for schema in ('{"type": "strin"}', '{"$ref": "https://example.org/x"}', "{", "5"):
            code, out, err = self.check(schema, "1")
            self.assertEqual((code, out), (6, ""))
            self.assertIn("schema.json", err)

    def test_missing_files(self):
        path = self.file("schema.json", "{}")
        code, _, err = self.daemon.cli("schema", "check", path, path + ".none")
        self.assertEqual(code, 4)
        self.assertIn("schema.json.none", err)
        self.assertEqual(self.daemon.cli("schema", "check", path)[0], 2)
        self.assertEqual(self.daemon.cli("schema", "check")[0], 2)

    def test_check_that_takes_too_long_says_so(self):
        deeper = {"items": {"$ref": "#"}, "minItems": 1}
        code, out, _ = self.check(json.dumps({"anyOf": [deeper] * 8}), "[" * 60 + "]" * 60)
        self.assertEqual(code, 6)
        self.assertIn("more work to check than is allowed", out)

    def test_lines(self):
        rows = [({"type": "integer"}, 1, True), ({"type": "integer"}, "1", False), (True, {}, True),
                (False, {}, False), ({"type": "strin"}, 1, False)]
        lines = [json.dumps({"schema": schema, "instance": instance})
                 for schema, instance, _ in rows] + ["{", "5", '{"schema": true}', ""]
        code, out, err = self.daemon.cli("schema", "check", "--lines",
                                         input="".join(line + "\n" for line in lines))
        expected = [str(fits).lower() for _, _, fits in rows] + ["false"] * 4
        self.assertEqual((code, out.split(), err), (0, expected, ""))

    def test_lines_are_answered_one_by_one(self):
        with subprocess.Popen([KAGED, "schema", "check", "--lines"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True,
                              env=self.daemon.environment()) as process:
            for instance, fits in ((1, "true\n"), ("x", "false\n")):
                line = {"schema": {"type": "integer"}, "instance": instance}
                process.stdin.write(json.dumps(line) + "\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), fits)
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)


if __name__ == "__main__":
    main()
