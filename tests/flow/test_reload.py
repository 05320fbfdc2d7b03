"""Reading again: each key of config.toml applies when its row says, and one plugin by itself."""
import json
import os
import re
import signal
import socket

from harness import ROOT, Daemon, FlowTest, at_once, main, wait_for

# Keys that apply at once and are not tried here, each with where it is.
ELSEWHERE = {
    "sessions.steps_max": "tests/flow/test_turns.py",
    "limits.ws_connections": "tests/flow/test_events.py",
    "limits.ws_ping_ms": "the same",
    "limits.ws_queue_bytes": "read where ws_connections is",
    "mcp.activity": "each call is held against it; tests/flow/test_gateway.py",
    "mcp.activity_mb": "the same",
    "mcp.activity_days": "the same",
    "limits.mcp_sessions": "each request of an MCP client takes them anew; tests/flow/test_gateway.py",
    "limits.mcp_idle_ms": "the same",
    "limits.mcp_streams": "the same",
    "limits.mcp_queue_bytes": "the same",
    "limits.mcp_calls": "the same",
    "limits.question_ms": "read at each question; tests/flow/test_questions.py",
    "limits.sample_tokens": "the same",
    "limits.samples_per_call": "the same",
    "auth.hosts": "tests/flow/test_auth.py",
    "auth.session_hours": "the same",
    "auth.failures_per_min": "the same",
    "audit.rotate_mb": "a megabyte of events; tests/unit/audit.c changes the rotation of an open log",
    "audit.keep": "the same",
    "audit.payloads": "test_audit shows what is kept",
    "audit.stderr": "the same",
    "scripts.enabled": "tests/flow/test_scripts.py",
    "scripts.processes_max": "read at each start of one; tests/flow/test_script_points.py",
    "sessions.rewind": "read at each turn; tests/flow/test_rewind.py",
    "sessions.delegate_depth": "read at each turn; tests/flow/test_delegation.py",
    "sessions.delegate_steps": "the same",
    "limits.discover_ms": "each look at a package takes it anew; tests/flow/test_package_discover.py",
    "catalog.upload_max_bytes": "each upload takes it anew; tests/flow/test_catalog_packages.py",
    "catalog.loaded_max": "each load takes it anew; tests/flow/test_orchestrators.py",
    "catalog.demand_idle_sec": "the same",
    "cluster.cache_mb": "tests/flow/test_objects.py",
    "limits.snapshots": "read at each snapshot; the same",
    "limits.snapshot_files": "the same",
    "limits.snapshot_file_mb": "the same",
    "limits.snapshot_mb": "the same",
    "limits.stop_timeout_ms": "test_storage shows that a stop has a bound",
    "sandbox.private_networks": "needs networks; tests/unit/gate.c changes limits of a running gate",
    "limits.net_connections": "the same",
    "limits.net_connections_per_sec": "the same",
    "limits.net_events_per_sec": "the same",
    "limits.net_connect_timeout_ms": "the same",
    "limits.net_idle_timeout_ms": "the same",
    "limits.install_bytes": "each fetch takes them anew; tests/flow/test_unpack.py has the bounds",
    "limits.install_file_bytes": "the same",
    "limits.install_files": "the same",
    "limits.install_depth": "the same",
    "limits.install_source_bytes": "the same",
    "limits.install_timeout_ms": "the same; tests/flow/test_fetch.py",
    "limits.projects": "tests/flow/test_projects.py loads one more than it allows",
    "limits.consents": "tests/flow/test_plugin_install.py fills the queue, and raises its limit",
    "limits.consent_offer_ms": "tests/flow/test_plugin_install.py waits for an offer to expire",
    "limits.hook_timeout_ms": "each hook takes it anew; tests/cage/hooks.c",
    "limits.tool_result_bytes": "each result is held against it; tests/cage/tools.c",
    "sessions.idle_after_sec": "tests/flow/test_sessions.py",
    "sessions.context_window": "the same",
    "limits.sessions_live": "the same",
    "limits.trace_readers": "each trace that begins takes it anew; tests/flow/test_trace.py",
    "limits.trace_queue_bytes": "the same",
    "limits.trace_line_bytes": "each line is held against it; the same",
    "limits.trace_records": "tests/unit/trace.c changes the limits of a ring",
    "limits.trace_bytes": "the same",
    "limits.watchdog_interval_ms": "only where there are no cgroups; tests/flow/test_limits.py",
}


def keys(applies):
    """{key: a number that is not its default, or None} of the keys of keys.def that apply so."""
    with open(os.path.join(ROOT, "src/config/keys.def")) as file:
        rows = [line for line in file if line.startswith("CONFIG_") and f", {applies}, \"" in line]
    found = {}
    for row in rows:
        kind, *parts = [part.strip() for part in re.split(r"[(,]", row.removeprefix("CONFIG_"))]
        if kind not in ("INTS", "LISTS", "TABLES"):
            number = int(parts[2]) + (1 if parts[2] != parts[4] else -1) if kind == "INT" else None
            found[".".join(parts[:4 if kind == "DEEP" else 2])] = number
    return found


def reload(daemon, **changes):
    daemon.write_config(**changes)
    status, answer = daemon.api("POST", "/reload")
    assert status == 200, answer
    return {row["key"]: row["applies"] for row in answer["changed"]}


def run(daemon, code):
    answer = daemon.call("does-as-told", "told.run", {"code": code})
    assert "error" not in answer, answer


def crash(daemon):
    daemon.try_call("crash-at-call", "crash.exit", {"code": 3})


class Live(FlowTest):
    """A test for each key that applies at once; its name has the key."""

    def test_every_key_has_a_test_or_a_reason(self):
        tried = {name.removeprefix("test_").replace("__", ".")
                 for name in dir(self) if "__" in name and name.startswith("test_")}
        self.assertEqual(tried & set(ELSEWHERE), set())
        self.assertEqual(tried | set(ELSEWHERE), set(keys("LIVE")))

    def test_logging__level(self):
        with Daemon() as daemon:
            reload(daemon, logging__level="error")
            self.assertNotIn("configuration reloaded", daemon.log())
            reload(daemon, logging__level="info")
            self.assertIn("configuration reloaded", daemon.log())

    def test_logging__format(self):
        with Daemon() as daemon:
            reload(daemon, logging__format="json")
            last = daemon.log().splitlines()[-1]
            self.assertIn("configuration reloaded", json.dumps(json.loads(last)))

    def test_logging__rotate_bytes(self):
        with Daemon(["does-as-told"]) as daemon:
            old = os.path.join(daemon.home, "state/logs/does-as-told.log.1")
            write = "import sys\nfor _ in range(100): print('x' * 100, file=sys.stderr, flush=True)"
            run(daemon, write)
            self.assertFalse(os.path.exists(old))
            reload(daemon, logging__rotate_bytes=4096)
            run(daemon, write)
            wait_for(lambda: os.path.exists(old), "a new log file")

    def test_plugins__enabled(self):
        with Daemon(["good-c"]) as daemon:
            reload(daemon, plugins__enabled=[])
            daemon.wait_state("good-c", "disabled")
            reload(daemon, plugins__enabled=["good-c"])
            daemon.wait_state("good-c", "running")

    def test_limits__call_timeout_ms(self):
        with Daemon(["silent-call"]) as daemon:
            reload(daemon, limits__call_timeout_ms=100)
            self.assert_error(daemon.try_call("silent-call", "work.do"), 504, "plugin_timeout")

    def test_limits__ping_timeout_ms(self):
        # A ping that is under way keeps its time: the first one comes after the reload.
        with Daemon(["ignores-ping"], {"limits.health_interval_ms": 15_000,
                                       "limits.ping_timeout_ms": 600_000}) as daemon:
            reload(daemon, limits__ping_timeout_ms=20)
            daemon.wait_audit("plugin.health_fail", "ignores-ping")

    def test_limits__health_failures(self):
        with Daemon(["ignores-ping"], {"limits.health_interval_ms": 50,
                                       "limits.ping_timeout_ms": 20,
                                       "limits.health_failures": 1000}) as daemon:
            reload(daemon, limits__health_failures=2)
            daemon.wait_exit("ignores-ping", "health")

    def test_limits__restart_delay_ms(self):
        with Daemon(["crash-at-call"], {"limits.restart_delay_ms": 600_000,
                                        "limits.restart_delay_max_ms": 600_000}) as daemon:
            reload(daemon, limits__restart_delay_ms=20)
            crash(daemon)
            daemon.wait_restarted("crash-at-call", 1)

    def test_limits__restart_delay_max_ms(self):
        with Daemon(["crash-at-call"], {"limits.restart_delay_ms": 600_000,
                                        "limits.restart_delay_max_ms": 600_000}) as daemon:
            reload(daemon, limits__restart_delay_max_ms=20)
            crash(daemon)
            daemon.wait_restarted("crash-at-call", 1)

    def test_limits__restart_failures(self):
        with Daemon(["crash-at-call"]) as daemon:
            reload(daemon, limits__restart_failures=1)
            crash(daemon)
            daemon.wait_state("crash-at-call", "failed")

    def test_limits__restart_window_ms(self):
        with Daemon(["crash-at-call"], {"limits.restart_failures": 2}) as daemon:
            crash(daemon)
            daemon.wait_restarted("crash-at-call", 1)
            reload(daemon, limits__restart_window_ms=1)  # so the second is not in a row with it
            crash(daemon)
            daemon.wait_restarted("crash-at-call", 2)

    def test_limits__term_timeout_ms(self):
        with Daemon(["ignores-sigterm"], {"limits.term_timeout_ms": 3_600_000,
                                          "limits.shutdown_timeout_ms": 100}) as daemon:
            reload(daemon, limits__term_timeout_ms=100)
            daemon.act("ignores-sigterm", "disable")
            daemon.wait_state("ignores-sigterm", "disabled")

    def test_limits__noise_events_per_sec(self):
        with Daemon(["noise"], {"limits.noise_events_per_sec": 1}) as daemon:
            reload(daemon, limits__noise_events_per_sec=1000)
            for _ in range(5):
                daemon.call("noise", "work.do")
            wait_for(lambda: [event["line"] for event in daemon.audit("plugin.stdout_noise")
                              if "working" in event["line"]] == ["working: 100%"] * 5, "five events")

    def test_limits__stderr_lines_per_sec(self):
        with Daemon(["does-as-told"], {"limits.stderr_lines_per_sec": 1}) as daemon:
            reload(daemon, limits__stderr_lines_per_sec=1000)
            run(daemon, "import sys\nfor i in range(50): print(f'line {i}', file=sys.stderr)")
            wait_for(lambda: len([line for line in daemon.api(
                "GET", "/plugins/does-as-told/logs")[1]["lines"] if "line " in line]) == 50,
                "all lines")

    def test_limits__storage_requests(self):
        slow = ("/plugins/declares-all/storage?sql=WITH+RECURSIVE+c(x)+AS+(VALUES(1)+UNION+ALL+"
                "SELECT+x%2B1+FROM+c+WHERE+x<200000)+SELECT+count(*)+FROM+c").replace("<", "%3C")
        with Daemon(["declares-all"], {"limits.storage_requests": 1,
                                       "limits.storage_statement_ms": 20_000}) as daemon:
            ask = lambda: daemon.api("GET", slow)[0]
            self.assertEqual(ask(), 200)  # its process is there, and was told of one
            reload(daemon, limits__storage_requests=100)
            self.assertEqual(at_once([ask] * 6), [200] * 6)
            reload(daemon, limits__storage_requests=1)
            self.assertIn(429, at_once([ask] * 6))

    def test_limits__storage_idle_ms(self):
        with Daemon(["declares-all"], {"limits.storage_idle_ms": 3_600_000}) as daemon:
            reload(daemon, limits__storage_idle_ms=50)
            daemon.call("declares-all", "all.store", {"text": "x"})
            # Asking the daemon for the tables would start it again.
            wait_for(lambda: not storage_processes(daemon), "the end of its process")

    def test_limits__idle_after_ms(self):
        daemon = Daemon(["keeps-notes"], {"limits.idle_after_ms": 3_600_000})
        with daemon:
            daemon.call("keeps-notes", "notes.add", {"text": "x"})
            reload(daemon, limits__idle_after_ms=50)
            daemon.wait_state("keeps-notes", "idle")

    def test_limits__http_body_bytes(self):
        with Daemon(["good-c"]) as daemon:
            reload(daemon, limits__http_body_bytes=1024)
            answer = daemon.try_call("good-c", "good.echo", {"text": "x" * 2000})
            self.assert_error(answer, 413, "too_large")

    def test_limits__http_bodies_bytes(self):
        head = b"POST /api/v1/plugins/good-c/call/good.echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{"
        with Daemon(["good-c"]) as daemon:
            reload(daemon, limits__http_bodies_bytes=5000)
            with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
                for client in (first, second):
                    client.settimeout(60)
                    client.connect(daemon.socket)
                first.sendall(head)
                daemon.api("GET", "/status")  # it has been read by then
                second.sendall(head)
                self.assertRegex(second.recv(65536), rb"(?s) 503 .*Retry-After: 1\r\n")

    def test_limits__http_header_bytes(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.api("GET", "/status", headers={"A": "x" * 3000})[0], 200)
            reload(daemon, limits__http_header_bytes=1024)
            self.assertEqual(daemon.api("GET", "/status", headers={"A": "x" * 3000})[0], 431)

    def test_limits__http_connections(self):
        with Daemon() as daemon:
            reload(daemon, limits__http_connections=1)
            with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
                for client in (first, second):
                    client.settimeout(60)
                    client.connect(daemon.socket)
                self.assertIn(b" 503 ", second.recv(65536))  # told before it asks

    def test_limits__http_idle_ms(self):
        with Daemon() as daemon:
            reload(daemon, limits__http_idle_ms=50)
            with socket.socket(socket.AF_UNIX) as idle:
                idle.settimeout(60)
                idle.connect(daemon.socket)
                self.assertEqual(idle.recv(1), b"")


def storage_processes(daemon):
    daemon.seen = {}
    daemon.remember()
    return [pid for pid in daemon.seen if is_storage(pid)]


def is_storage(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().startswith("kaged-storage")
    except OSError:
        return False


class Later(FlowTest):
    def test_key_for_the_start_of_a_plugin_applies_after_a_crash_too(self):
        # The plugin that runs keeps the old interval; its next process has the new one, whoever
        # started that.
        with Daemon(["context-echo"], {"limits.health_interval_ms": 3_600_000}) as daemon:
            pid = daemon.status("context-echo")["pid"]
            changed = reload(daemon, limits__health_interval_ms=50)
            self.assertEqual(changed, {"limits.health_interval_ms": "at the plugin's next start"})
            os.kill(pid, signal.SIGKILL)
            daemon.wait_restarted("context-echo", 1)
            wait_for(lambda: "ping" in [message["method"] for message in
                                        daemon.call("context-echo", "messages.seen")], "a ping")

    def test_key_for_the_start_of_a_plugin_does_not_apply_before(self):
        with Daemon(["good-c"]) as daemon:
            reload(daemon, limits__line_max_bytes=1024)
            self.assertEqual(daemon.try_call("good-c", "good.echo", {"t": "x" * 5000})[0], 200)
            daemon.act("good-c", "restart")
            daemon.wait_restarted("good-c", 1)
            self.assertEqual(daemon.try_call("good-c", "good.echo", {"t": "x" * 5000})[0], 413)

    def test_every_other_key_is_reported_as_what_it_is(self):
        values = {"daemon.user": "nobody", "storage.sync": "full", "plugins.dir": "/nowhere",
                  "scripts.dir": "/nowhere",
                  "sandbox.root_writable": ["/srv"], "sandbox.explain": True, "sandbox.explain_plugins": ["x"],
                  "catalog.runtimes.python.root": "/nowhere", "catalog.runtimes.python.wheels": "/nowhere",
                  "daemon.bind": "127.0.0.1:0",
                  "auth.mode": "proxy", "auth.nonce_file": "/nowhere", "audit.forward": "syslog",
                  "cluster.database": "postgres://nobody@localhost/none", "cluster.node": "other",
                  "cluster.bucket": "s3://bucket", "cluster.endpoint": "http://127.0.0.1:1",
                  "cluster.region": "eu-central-1", "cluster.style": "host",
                  "cluster.listen": "127.0.0.1:0", "cluster.address": "node.example.org:7800"}
        words = {"START": "at the plugin's next start", "DAEMON": "at the daemon's next start"}
        for applies in words:
            wanted = {key: number or values[key] for key, number in keys(applies).items()}
            with Daemon() as daemon:
                changed = reload(daemon, **wanted)
                self.assertEqual(changed, {key: words[applies] for key in wanted})


def local(daemon, text):
    """Over all that was there, so the operator has to say yes to the plugins again."""
    daemon.write_local(text)
    if daemon.process is not None:
        daemon.approve()


def edit_manifest(daemon, plugin, old, new):
    path = os.path.join(daemon.home, "plugins", plugin, "kaged-plugin.yaml")
    with open(path) as file:
        text = file.read()
    assert old in text, text
    with open(path, "w") as file:
        file.write(text.replace(old, new))
    if daemon.process is not None:
        daemon.approve(plugin)


class Plugin(FlowTest):
    """kaged plugin reload"""

    def reloaded(self, daemon, plugin="declares-all"):
        answer = daemon.act(plugin, "reload")
        return answer["action"], answer["reasons"]

    def test_without_a_change_nothing_happens(self):
        with Daemon(["declares-all"]) as daemon:
            before = daemon.status("declares-all")
            self.assertEqual(self.reloaded(daemon), ("nothing", []))
            after = daemon.status("declares-all")
            self.assertEqual((after["pid"], after["starts"]), (before["pid"], 1))
            event, = daemon.audit("plugin.reloaded")
            self.assertEqual((event["name"], event["action"]), ("declares-all", "nothing"))

    def test_changed_configuration_is_told(self):
        with Daemon(["declares-all"]) as daemon:
            before = daemon.status("declares-all")
            local(daemon, '[plugins.declares-all.config]\nbudget = "high"\n')
            self.assertEqual(self.reloaded(daemon), ("told", []))
            self.assertEqual([config["budget"] for config in
                              daemon.call("declares-all", "all.config")], ["mid", "high"])
            self.assertEqual(daemon.status("declares-all")["pid"], before["pid"])

    def test_changed_manifest_restarts(self):
        with Daemon(["declares-all"]) as daemon:
            edit_manifest(daemon, "declares-all", "default: mid", "default: low")
            self.assertEqual(self.reloaded(daemon), ("restarted", ["manifest"]))
            daemon.wait_restarted("declares-all", 1)
            self.assertEqual(daemon.call("declares-all", "all.config")[0]["budget"], "low")

    def test_changed_limits_restart_only_their_plugin(self):
        with Daemon(["declares-all", "good-c"]) as daemon:
            with open(os.path.join(daemon.home, "config.toml"), "a") as file:
                file.write("[sandbox.plugins.good-c]\nprocesses_max = 50\n")
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(self.reloaded(daemon), ("nothing", []))
            self.assertEqual(self.reloaded(daemon, "good-c"), ("restarted", ["limits"]))
            daemon.wait_restarted("good-c", 1)
            self.assertEqual(daemon.status("good-c")["limits"]["processes_max"], 50)
            self.assertEqual(self.reloaded(daemon, "good-c"), ("nothing", []))

    def test_changed_setting_for_the_start_restarts(self):
        with Daemon(["good-c"]) as daemon:
            reload(daemon, limits__calls_in_flight=77)
            self.assertEqual(self.reloaded(daemon, "good-c"), ("restarted", ["settings"]))
            daemon.wait_restarted("good-c", 1)
            self.assertEqual(self.reloaded(daemon, "good-c"), ("nothing", []))

    def test_a_manifest_that_nobody_approved_is_not_read(self):
        with Daemon(["declares-all"]) as daemon:
            local(daemon, '[plugins.declares-all.config]\nbudget = "high"\n')
            edit_manifest(daemon, "declares-all", "version: 1.0.0", "version: one")
            status, answer = daemon.api("POST", "/plugins/declares-all/reload")
            self.assertEqual((status, answer["error"]["code"]), (409, "not_approved"))
            self.assertEqual(daemon.status("declares-all")["starts"], 1)
            self.assertEqual(len(daemon.call("declares-all", "all.config")), 1)
            code, _, err = daemon.cli("plugin", "reload", "declares-all")
            self.assertEqual(code, 5)
            self.assertIn("plugin approve declares-all", err)

    def test_broken_configuration_changes_nothing(self):
        with Daemon(["declares-all"]) as daemon:
            local(daemon, '[plugins.declares-all.config]\nbudget = "huge"\n')
            edit_manifest(daemon, "declares-all", "default: 5\n    binds", "default: 6\n    binds")
            status, answer = daemon.api("POST", "/plugins/declares-all/reload")
            self.assertEqual((status, answer["error"]["code"]), (422, "invalid_config"))
            self.assertEqual(daemon.status("declares-all")["starts"], 1)
            knobs = daemon.api("GET", "/plugins/declares-all/knobs")[1]["knobs"]
            self.assertEqual([knob["default"] for knob in knobs], ["mid", 5])

    def test_disabled_plugin_is_only_read(self):
        with Daemon(["declares-all"], enabled=[]) as daemon:
            edit_manifest(daemon, "declares-all", "default: 5\n    binds", "default: 6\n    binds")
            self.assertEqual(self.reloaded(daemon), ("read", []))
            self.assertEqual(daemon.status("declares-all")["state"], "disabled")
            knobs = daemon.api("GET", "/plugins/declares-all/knobs")[1]["knobs"]
            self.assertEqual([knob["default"] for knob in knobs], ["mid", 6])

    def test_plugin_whose_manifest_was_mended_starts(self):
        daemon = Daemon(["declares-all"])
        edit_manifest(daemon, "declares-all", "version: 1.0.0", "version: one")
        with daemon:
            edit_manifest(daemon, "declares-all", "version: one", "version: 1.0.0")
            self.assertEqual(self.reloaded(daemon), ("restarted", ["not running"]))
            daemon.wait_state("declares-all", "running")

    def test_command_says_what_it_did(self):
        with Daemon(["declares-all"]) as daemon:
            self.assertIn("nothing changed", daemon.cli("plugin", "reload", "declares-all")[1])
            local(daemon, '[plugins.declares-all.config]\nbudget = "high"\n')
            self.assertIn("told its new", daemon.cli("plugin", "reload", "declares-all")[1])
            edit_manifest(daemon, "declares-all", "default: mid", "default: low")
            code, out, err = daemon.cli("plugin", "reload", "declares-all")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("restarted, because of: manifest", out)
            self.assertEqual(daemon.status("declares-all")["state"], "running")

    def test_change_that_the_plugin_does_not_survive_is_told(self):
        with Daemon(["declares-all"], {"limits.restart_failures": 1}) as daemon:
            edit_manifest(daemon, "declares-all", "version: 1.0.0", "version: 2.0.0")
            code, _, err = daemon.cli("plugin", "reload", "declares-all")
            self.assertEqual(code, 1)
            self.assertIn("failed", err)


if __name__ == "__main__":
    main()
