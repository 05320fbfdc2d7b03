"""Authentication over TCP: who gets in, who does not, and that nothing secret is left lying about."""
# also on PostgreSQL
import contextlib
import http.client
import json
import os
import pty
import socket
import stat
import subprocess
import urllib.parse

from harness import KAGED, Daemon, FlowTest, main, memory_kb, wait_for

FREE_PORT = {"daemon.bind": "127.0.0.1:0"}
NONCE = "0123456789abcdef0123456789abcdef"


class Web:
    """A client over TCP; `headers` go with each of its requests."""

    def __init__(self, daemon, headers=None):
        self.address = daemon.api("GET", "/status")[1]["tcp"]
        self.headers = headers or {}

    def with_headers(self, **headers):
        other = object.__new__(Web)
        other.address = self.address
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        other.headers = {**self.headers, **named}
        return other

    def ask(self, method, path, body=None):
        """(status, headers, body as bytes)"""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, self.headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def api(self, method, path, body=None):
        """(status, JSON)"""
        status, _, answer = self.ask(method, "/api/v1" + path, body)
        return status, json.loads(answer) if answer else None

    def status(self, method="GET", path="/api/v1/plugins", body=None):
        return self.ask(method, path, body)[0]


def launch_url(daemon):
    code, out, err = daemon.cli("auth", "open", "--print")
    assert code == 0, err
    return out.strip()


def path_of(url):
    parts = urllib.parse.urlsplit(url)
    return parts.path + "?" + parts.query


def log_in(daemon):
    """A browser with a session: (client, its cookie, its CSRF token)"""
    web = Web(daemon)
    status, headers, _ = web.ask("GET", path_of(launch_url(daemon)))
    assert status == 303, status
    cookie = headers["Set-Cookie"].partition(";")[0]
    browser = web.with_headers(Cookie=cookie)
    return browser, cookie, browser.api("GET", "/session")[1]["csrf"]


def make_token(daemon, name, *options):
    code, out, err = daemon.cli("auth", "token", "create", "--name", name, *options)
    assert code == 0, err
    return out.strip()


def bearer(daemon, token):
    return Web(daemon, {"Authorization": "Bearer " + token})


class Browser(FlowTest):
    plugins = ["good-c"]
    config = {**FREE_PORT, "auth.failures_per_min": 100_000}

    def test_launch_url_is_private_and_works_once(self):
        path = os.path.join(self.daemon.home, "run/launch-url")
        url = launch_url(self.daemon)
        with open(path) as file:
            self.assertEqual(file.read().strip(), url)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        web = Web(self.daemon)
        self.assertEqual(web.status("GET", path_of(url)), 303)
        self.assertFalse(os.path.exists(path))
        status, _, answer = web.ask("GET", path_of(url))
        self.assertEqual(status, 401)
        self.assertIn("kaged auth open", json.loads(answer)["error"]["hint"])
        self.assertNotEqual(launch_url(self.daemon), url)

    def test_launch_url_has_another_path_too(self):
        query = path_of(launch_url(self.daemon)).removeprefix("/?")
        status, headers, _ = Web(self.daemon).ask("GET", "/auth/launch?" + query)
        self.assertEqual((status, headers["Location"]), (303, "/"))

    def test_cookie_is_for_this_site_and_not_for_scripts(self):
        _, headers, _ = Web(self.daemon).ask("GET", path_of(launch_url(self.daemon)))
        cookie = headers["Set-Cookie"]
        self.assertRegex(cookie, r"^kaged_session=[\w-]{43}; ")
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
            self.assertIn(part, cookie)
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")

    def test_session_tells_who_it_is_and_what_it_may_do(self):
        browser, _, csrf = log_in(self.daemon)
        status, session = browser.api("GET", "/session")
        self.assertEqual(status, 200)
        self.assertEqual(session["operator"], self.daemon.api("GET", "/session")[1]["operator"])
        self.assertIn("admin", session["scopes"])
        self.assertRegex(csrf, r"^[\w-]{43}$")

    def test_calls_and_changes_need_the_csrf_token(self):
        browser, _, csrf = log_in(self.daemon)
        call = "/api/v1/plugins/good-c/call/good.echo"
        self.assertEqual(browser.status(), 200)
        for method, path, body in (("POST", call, {}), ("GET", call, None),
                                   ("POST", "/api/v1/plugins/good-c/restart", None)):
            self.assertEqual(browser.status(method, path, body), 403, path)
            wrong = browser.with_headers(X_Kaged_CSRF=csrf[::-1])
            self.assertEqual(wrong.status(method, path, body), 403, path)
        status, _, answer = browser.with_headers(X_Kaged_CSRF=csrf).ask("POST", call, {"n": 7})
        self.assertEqual((status, json.loads(answer)["n"]), (200, 7))

    def test_csrf_token_of_another_session_is_refused(self):
        browser = log_in(self.daemon)[0]
        csrf = log_in(self.daemon)[2]
        self.assertEqual(browser.with_headers(X_Kaged_CSRF=csrf).status("DELETE", "/api/v1/session"),
                         403)

    def test_log_out_ends_the_session(self):
        browser, _, csrf = log_in(self.daemon)
        status, headers, _ = browser.with_headers(X_Kaged_CSRF=csrf).ask("DELETE", "/api/v1/session")
        self.assertEqual(status, 204)
        self.assertIn("Max-Age=0", headers["Set-Cookie"])
        self.assertEqual(browser.status(), 401)

    def test_cookie_of_another_daemon_is_refused(self):
        with Daemon(config=FREE_PORT) as other:
            cookie = log_in(other)[1]
        self.assertEqual(Web(self.daemon).with_headers(Cookie=cookie).status(), 401)

    def test_stranger_learns_nothing(self):
        web = Web(self.daemon)
        for path in ("/api/v1/plugins", "/api/v1/nothing", "/api/v1/plugins?x=y", "/api/v1/session"):
            status, headers, _ = web.ask("GET", path)
            self.assertEqual(status, 401, path)
            self.assertIn("Bearer", headers["WWW-Authenticate"])
        self.assertEqual(web.status("GET", "/healthz"), 200)
        self.assertEqual(web.status("GET", "/"), 200)

    def test_page_under_another_name_is_refused(self):
        browser = log_in(self.daemon)[0]
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
            status, answer = browser.with_headers(Host=host).api("GET", "/plugins")
            self.assertEqual(status, 403, host)
            self.assertIn(host, answer["error"]["message"])

    def test_page_of_another_origin_is_refused(self):
        browser, _, csrf = log_in(self.daemon)
        browser = browser.with_headers(X_Kaged_CSRF=csrf)
        path = "/api/v1/plugins/good-c/call/good.echo"
        for origin in ("http://evil.example", "null", "http://localhost:3000"):
            self.assertEqual(browser.with_headers(Origin=origin).status("POST", path, {}), 403)
        same = browser.with_headers(Origin="http://" + browser.address)
        self.assertEqual(same.status("POST", path, {}), 200)

    def test_curl_with_a_cookie_jar_comes_in(self):
        jar = os.path.join(self.daemon.base, "jar")
        url = launch_url(self.daemon)
        base = url.partition("/?")[0]

        def curl(*arguments):
            return subprocess.run(["curl", "-sS", "-b", jar, "-c", jar, *arguments], check=True,
                                  capture_output=True, text=True).stdout

        curl("-L", url)
        csrf = json.loads(curl(base + "/api/v1/session"))["csrf"]
        answer = curl("-H", "X-Kaged-CSRF: " + csrf, "-d", '{"n":1}',
                      base + "/api/v1/plugins/good-c/call/good.echo")
        self.assertEqual(json.loads(answer)["n"], 1)

    def test_browser_is_opened_without_the_token_among_the_arguments(self):
        bin_dir, seen = os.path.join(self.daemon.base, "bin"), os.path.join(self.daemon.base, "seen")
        os.makedirs(bin_dir)
        with open(os.path.join(bin_dir, "xdg-open"), "w") as file:
            file.write(f'#!/bin/sh\ncp "$1" "{seen}.page"\necho "$@" >"{seen}.new"\n'
                       f'mv "{seen}.new" "{seen}"\n')
            os.fchmod(file.fileno(), 0o755)
        ours, theirs = pty.openpty()
        environment = {**self.daemon.environment(), "DISPLAY": ":9",
                       "PATH": bin_dir + ":" + os.environ["PATH"]}
        subprocess.run([KAGED, "--home", self.daemon.home, "auth", "open"], env=environment,
                       stdin=theirs, stdout=theirs, check=True)
        url = os.read(ours, 1000).decode().strip()
        os.close(ours)
        os.close(theirs)
        wait_for(lambda: os.path.exists(seen), "the browser")
        with open(seen) as arguments, open(seen + ".page") as page:
            self.assertNotIn("token=", arguments.read())
            self.assertIn(url, page.read())
        page = os.path.join(self.daemon.home, "run/launch.html")
        self.assertEqual(stat.S_IMODE(os.stat(page).st_mode), 0o600)


class Tokens(FlowTest):
    plugins = ["good-c"]
    config = {**FREE_PORT, "auth.failures_per_min": 100_000}

    def test_token_does_what_its_scopes_say_and_nothing_else(self):
        web = bearer(self.daemon, make_token(self.daemon, "caller", "--scope", "plugins:call"))
        path = "/api/v1/plugins/good-c/call/good.echo"
        self.assertEqual(web.status("POST", path, {"n": 1}), 200)
        status, answer = web.api("POST", "/plugins/good-c/restart")
        self.assertEqual(status, 403)
        self.assertIn("plugins:write", answer["error"]["message"])
        self.assertEqual(web.status("GET", "/api/v1/audit"), 403)
        self.assertEqual(web.status("GET", "/api/v1/tokens"), 403)

    def test_admin_may_do_everything(self):
        web = bearer(self.daemon, make_token(self.daemon, "boss", "--scope", "admin"))
        self.assertEqual(web.status("GET", "/api/v1/audit"), 200)
        status, made = web.api("POST", "/tokens", {"name": "child", "scopes": ["plugins:read"]})
        self.assertEqual(status, 201)
        self.assertEqual(bearer(self.daemon, made["token"]).status(), 200)

    def test_token_without_scopes_reads_and_calls(self):
        web = bearer(self.daemon, make_token(self.daemon, "plain"))
        self.assertEqual(web.api("GET", "/session")[1]["scopes"], ["plugins:read", "plugins:call"])

    def test_revoked_token_is_refused(self):
        token = make_token(self.daemon, "short-lived")
        web = bearer(self.daemon, token)
        self.assertEqual(web.status(), 200)
        self.assertEqual(self.daemon.cli("auth", "token", "revoke", "short-lived")[0], 0)
        self.assertEqual(web.status(), 401)
        self.assertEqual(self.daemon.cli("auth", "token", "revoke", "short-lived")[0], 4)

    def test_expired_token_is_refused(self):
        web = bearer(self.daemon, make_token(self.daemon, "expiring", "--expires", "1s"))
        wait_for(lambda: web.status() == 401, "the end of the token")
        self.assertIn("expired", web.api("GET", "/plugins")[1]["error"]["message"])
        self.assertIn("expired", self.daemon.cli("auth", "token", "list")[1])

    def test_list_shows_all_but_the_token(self):
        token = make_token(self.daemon, "listed", "--scope", "audit:read,plugins:read",
                           "--expires", "30d")
        code, out, _ = self.daemon.cli("auth", "token", "list")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"tok_\w+ +listed +plugins:read,audit:read")
        code, text, _ = self.daemon.cli("--json", "auth", "token", "list")
        listed, = [item for item in json.loads(text)["tokens"] if item["name"] == "listed"]
        self.assertEqual(listed["scopes"], ["plugins:read", "audit:read"])
        self.assertFalse(listed["expired"])
        self.assertNotIn(token[4:], out + text)

    def test_wrong_wishes_are_explained(self):
        for options, word in ((("--scope", "plugin:read"), "plugins:read"), (("--scope", ""), "scopes"),
                              (("--expires", "yesterday"), "30d"), (("--expires", "2001-01-01"), "come"),
                              (("--expires", "9223372036854775807d"), "expires"),
                              (("--name", "two words"), "letters"), (("--name", "tok_1"), "tok_")):
            code, out, err = self.daemon.cli("auth", "token", "create", "--name", "x", *options)
            self.assertEqual((code, out), (2, ""), options)
            self.assertIn(word, err)
        self.assertEqual(self.daemon.cli("auth", "token", "create")[0], 2)

    def test_second_token_of_a_name_is_refused(self):
        make_token(self.daemon, "twice")
        code, _, err = self.daemon.cli("auth", "token", "create", "--name", "twice")
        self.assertEqual(code, 1)
        self.assertIn("twice", err)

    def test_tokens_of_all_kinds_of_junk_are_refused(self):
        for header in ("Bearer", "Bearer ", "Basic a2dkOng=", "Bearer kgd_", "Bearer " + "x" * 9000,
                       "kgd_x", "Bearer kgd_" + "A" * 43):
            self.assertEqual(Web(self.daemon, {"Authorization": header}).status(), 401, header)


class Life(FlowTest):
    def test_sessions_and_tokens_survive_a_restart(self):
        with Daemon(config=FREE_PORT) as daemon:
            cookie = log_in(daemon)[1]
            token = make_token(daemon, "kept")
            daemon.stop()
            daemon.start()
            self.assertEqual(Web(daemon).with_headers(Cookie=cookie).status(), 200)
            self.assertEqual(bearer(daemon, token).status(), 200)
            accepted = daemon.audit("auth.accepted")
            self.assertEqual(sorted(event["via"] for event in accepted), ["session", "token"])

    def test_nothing_secret_is_in_logs_audit_or_database(self):
        with Daemon(["good-c"], FREE_PORT) as daemon:
            url = launch_url(daemon)
            _, cookie, csrf = log_in(daemon)
            token = make_token(daemon, "spy", "--scope", "admin")
            secrets = [url.partition("token=")[2], cookie.partition("=")[2], csrf, token[4:]]
            web = Web(daemon)
            for secret in secrets:  # wherever a client may put them by mistake
                quoted = urllib.parse.quote(secret)
                for path in (f"/?token={quoted}", f"/{quoted}", f"/api/v1/audit?{quoted}=1"):
                    web.status("GET", path)
                for name in ("Cookie", "Authorization", "X-Kaged-CSRF", "X-Kaged-Auth-Nonce"):
                    web.with_headers(**{name: secret}).status()
            bearer(daemon, token).status("POST", "/api/v1/plugins/good-c/call/good.echo", {})
            daemon.stop()
            files = [os.path.join(daemon.base, "log")]
            for folder, _, names in os.walk(daemon.home):
                files += [os.path.join(folder, name) for name in names]
            for path in files:
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        text = file.read()
                    for secret in secrets:
                        self.assertNotIn(secret.encode(), text, path)

    def test_all_that_happens_is_audited(self):
        with Daemon(config=FREE_PORT) as daemon:
            browser, _, csrf = log_in(daemon)
            token = make_token(daemon, "seen", "--scope", "audit:read", "--expires", "1h")
            reader = bearer(daemon, token)
            for _ in range(3):
                reader.status("GET", "/api/v1/audit")
            reader.status()
            daemon.cli("auth", "token", "revoke", "seen")
            reader.status()
            browser.with_headers(X_Kaged_CSRF=csrf).status("DELETE", "/api/v1/session")
            opened, = daemon.audit("auth.session_opened")
            closed, = daemon.audit("auth.session_closed")
            created, = daemon.audit("auth.token_created")
            revoked, = daemon.audit("auth.token_revoked")
            accepted, = daemon.audit("auth.accepted")
            self.assertEqual(opened["session"], closed["session"])
            self.assertEqual((created["token_name"], created["scopes"]), ("seen", "audit:read"))
            self.assertEqual(revoked["token_id"], created["token_id"])
            self.assertEqual((accepted["via"], accepted["credential"]), ("token", created["token_id"]))
            failed = daemon.audit("auth.failed")
            self.assertEqual([(event["via"], event["source"]) for event in failed],
                             [("token", "127.0.0.1")] * 2)
            self.assertIn("plugins:read", failed[0]["reason"])

    def test_client_that_leaves_gives_up_its_call(self):
        with Daemon(["silent-call"], FREE_PORT) as daemon:
            token = make_token(daemon, "leaver")
            host, _, port = Web(daemon).address.partition(":")
            name, = daemon.names
            method = daemon.status(name)["methods"][0]["name"]
            with socket.create_connection((host, int(port))) as client:
                client.sendall(f"POST /api/v1/plugins/{name}/call/{method} HTTP/1.1\r\n"
                               f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
                               "Content-Length: 2\r\n\r\n{}".encode())
                daemon.wait_status(name, lambda s: s["in_flight"] > 0, "the call")
            returned = daemon.wait_audit("plugin.method_returned", name)
            self.assertIn("cancelled", json.dumps(returned[0]))


class Limits(FlowTest):
    def test_too_many_failures_are_answered_429_and_the_socket_stays_open(self):
        with Daemon(config={**FREE_PORT, "auth.failures_per_min": 5}) as daemon:
            token = make_token(daemon, "right")
            web = Web(daemon, {"Authorization": "Bearer kgd_wrong"})
            answers = [web.ask("GET", "/api/v1/plugins") for _ in range(30)]
            self.assertEqual([answer[0] for answer in answers], [401] * 5 + [429] * 25)
            self.assertIn(int(answers[-1][1]["Retry-After"]), range(1, 61))
            self.assertEqual(daemon.api("GET", "/plugins")[0], 200)
            self.assertEqual(bearer(daemon, token).status(), 200)
            failed = wait_for(lambda: [event for event in daemon.audit("auth.failed")
                                       if event["suppressed"]] and daemon.audit("auth.failed"),
                              "the count of those that were suppressed")
            wait_for(lambda: sum(1 + event["suppressed"] for event in daemon.audit("auth.failed")) == 30,
                     "all thirty in the audit log")
            self.assertLess(len(failed), 15)

    def test_reload_changes_the_limit_and_the_length_of_sessions(self):
        with Daemon(config=FREE_PORT) as daemon:
            daemon.write_config(auth__failures_per_min=2, auth__session_hours=1)
            self.assertEqual(daemon.cli("reload")[0], 0)
            status, headers, _ = Web(daemon).ask("GET", path_of(launch_url(daemon)))
            self.assertEqual((status, "Max-Age=3600" in headers["Set-Cookie"]), (303, True))
            stranger = Web(daemon)
            self.assertEqual([stranger.status() for _ in range(3)], [401, 401, 429])

    def test_connections_over_tcp_cannot_use_up_those_of_the_socket(self):
        with Daemon(config={**FREE_PORT, "limits.http_connections": 4}) as daemon, \
                contextlib.ExitStack() as stack:
            host, _, port = Web(daemon).address.partition(":")
            for _ in range(20):
                stack.enter_context(socket.create_connection((host, int(port))))
            for _ in range(3):
                self.assertEqual(daemon.api("GET", "/plugins")[0], 200)
            self.assertEqual(daemon.cli("status")[0], 0)

    def test_many_failures_take_no_memory(self):
        with Daemon(config=FREE_PORT) as daemon:
            connection = http.client.HTTPConnection(Web(daemon).address, timeout=60)

            def fail(count):
                for index in range(count):
                    connection.request("GET", f"/api/v1/x{index}", headers={
                        "Authorization": f"Bearer kgd_{index}", "Cookie": f"kaged_session={index}"})
                    response = connection.getresponse()
                    response.read()
                    self.assertIn(response.status, (401, 429))

            fail(5000)
            before = memory_kb(daemon.pid)
            fail(3000)
            connection.close()
            self.assertLess(memory_kb(daemon.pid) - before, 4096)


class Proxy(FlowTest):
    def daemon_with(self, nonce=NONCE, mode=0o600, **config):
        daemon = Daemon(["good-c"], {**FREE_PORT, "auth.mode": "proxy", **config})
        path = os.path.join(daemon.base, "nonce")
        with open(path, "w") as file:
            file.write(nonce + "\n")
        os.chmod(path, mode)
        daemon.write_config(auth__nonce_file=path)
        return daemon

    def test_proxy_says_who_it_is(self):
        with self.daemon_with() as daemon:
            web = Web(daemon, {"X-Kaged-User-Id": "bob@example.org", "X-Kaged-Auth-Nonce": NONCE})
            self.assertEqual(web.api("GET", "/session")[1]["operator"], "bob@example.org")
            path = "/plugins/good-c/call/good.echo"
            self.assertEqual(web.api("POST", path, {})[0], 200)
            called = daemon.wait_audit("plugin.method_called", "good-c")
            self.assertEqual(called[0]["operator_id"], "bob@example.org")
            self.assertEqual([event["operator_id"] for event in daemon.audit("auth.accepted")],
                             ["bob@example.org"])
            for headers in ({}, {"X-Kaged-User-Id": "bob"}, {"X-Kaged-Auth-Nonce": NONCE},
                            {"X-Kaged-User-Id": "bob", "X-Kaged-Auth-Nonce": NONCE[:-1] + "0"}):
                self.assertEqual(Web(daemon, headers).status(), 401, headers)

    def test_only_the_proxys_word_counts(self):
        with self.daemon_with() as daemon:
            token = make_token(daemon, "direct", "--scope", "admin")
            self.assertEqual(bearer(daemon, token).status(), 401)
            code, _, err = daemon.cli("auth", "open")
            self.assertEqual(code, 1)
            self.assertIn("proxy", err)
            self.assertFalse(os.path.exists(os.path.join(daemon.home, "run/launch-url")))

    def test_name_of_the_site_must_be_listed(self):
        with self.daemon_with(**{"auth.hosts": ["kaged.example"]}) as daemon:
            web = Web(daemon, {"X-Kaged-User-Id": "bob", "X-Kaged-Auth-Nonce": NONCE})
            self.assertEqual(web.with_headers(Host="kaged.example").status(), 200)
            self.assertEqual(web.with_headers(Host="other.example").status(), 403)
            daemon.write_config(auth__hosts=["other.example"])
            self.assertEqual(daemon.cli("reload")[0], 0)
            self.assertEqual(web.with_headers(Host="other.example").status(), 200)

    def fails_to_start(self, daemon, *words):
        try:
            code, _, err = daemon.cli("start", "--foreground")
            self.assertEqual(code, 6, err)
            for word in words:
                self.assertIn(word, err)
            self.assertNotIn(NONCE[:6], err)
        finally:
            daemon.discard()

    def test_secret_that_is_missing_short_or_open_to_all_is_refused(self):
        self.fails_to_start(Daemon(config={**FREE_PORT, "auth.mode": "proxy"}), "auth.nonce_file")
        self.fails_to_start(self.daemon_with(nonce=NONCE[:8]), "32")
        self.fails_to_start(self.daemon_with(mode=0o644), "chmod")
        for nonce in ("ab\0" + NONCE, NONCE + "\r", NONCE + " ", "\u00e9" + NONCE):
            self.fails_to_start(self.daemon_with(nonce=nonce), "letters")
        empty = self.daemon_with()
        os.truncate(empty.config["auth.nonce_file"], 0)
        self.fails_to_start(empty, "32")

    def test_proxy_may_be_on_another_machine(self):
        with self.daemon_with(**{"daemon.bind": "0.0.0.0:0"}) as daemon:
            self.assertRegex(daemon.api("GET", "/status")[1]["tcp"], r"^0\.0\.0\.0:\d+$")


class Insecure(FlowTest):
    def test_everybody_gets_in_and_each_answer_warns(self):
        with Daemon(["good-c"], FREE_PORT, arguments=["--insecure"]) as daemon:
            web = Web(daemon)
            for path, expected in (("/api/v1/plugins", 200), ("/healthz", 200), ("/nowhere", 404)):
                status, headers, _ = web.ask("GET", path)
                self.assertEqual(status, expected)
                self.assertIn("insecure", headers["X-Kaged-Warning"])
            self.assertEqual(web.api("POST", "/plugins/good-c/call/good.echo", {})[0], 200)
            self.assertIsNone(daemon.wait_audit("plugin.method_called")[0]["operator_id"])
            self.assertEqual(web.api("GET", "/session")[1]["operator"], None)
            self.assertIn("insecure", daemon.log())
            accepted = [(event["via"], event["operator_id"]) for event in
                        daemon.audit("auth.accepted")]
            self.assertEqual(accepted, [("insecure", None)])
            self.assertNotIn("token", launch_url(daemon))

    def test_other_web_pages_stay_out(self):
        with Daemon(config=FREE_PORT, arguments=["--insecure"]) as daemon:
            web = Web(daemon)
            self.assertEqual(web.with_headers(Host="evil.example").status(), 403)
            self.assertEqual(web.with_headers(Origin="http://evil.example").status(), 403)
            self.assertEqual(web.with_headers(Sec_Fetch_Site="cross-site").status(), 403)

    def test_it_needs_a_loopback_address(self):
        for config, code in (({"daemon.bind": ""}, 2), ({"daemon.bind": "0.0.0.0:0"}, 6)):
            daemon = Daemon(config=config)
            try:
                done = daemon.cli("start", "--foreground", "--insecure")
                self.assertEqual(done[0], code, done)
            finally:
                daemon.discard()


class Bind(FlowTest):
    def test_without_an_address_there_is_no_tcp(self):
        with Daemon() as daemon:
            self.assertIsNone(daemon.api("GET", "/status")[1]["tcp"])
            self.assertFalse(os.path.exists(os.path.join(daemon.home, "run/launch-url")))
            code, _, err = daemon.cli("auth", "open")
            self.assertEqual(code, 1)
            self.assertIn("daemon.bind", err)

    def test_status_has_the_port_that_was_chosen(self):
        with Daemon(config=FREE_PORT) as daemon:
            self.assertRegex(daemon.cli("status")[1], r"tcp +127\.0\.0\.1:[1-9]\d+")

    def test_ipv6_is_listened_on_as_well(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        with Daemon(config={"daemon.bind": "[::1]:0"}) as daemon:
            self.assertRegex(launch_url(daemon), r"^http://\[::1\]:\d+/\?token=")
            self.assertEqual(log_in(daemon)[0].status(), 200)

    def test_address_of_other_machines_is_refused(self):
        for bind in ("0.0.0.0:7777", "[::]:7777", "192.0.2.1:7777"):
            daemon = Daemon(config={"daemon.bind": bind})
            try:
                code, _, err = daemon.cli("start", "--foreground")
                self.assertEqual(code, 6, err)
                self.assertIn(bind, err)
                self.assertIn("proxy", err)
            finally:
                daemon.discard()

    def test_port_that_is_taken_is_an_error_if_it_was_asked_for(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            bind = "127.0.0.1:%d" % taken.getsockname()[1]
            daemon = Daemon(config={"daemon.bind": bind})
            try:
                code, _, err = daemon.cli("start")
                self.assertNotEqual(code, 0)
                self.assertIn(bind, err)
                self.assertIn("daemon.bind", err)
            finally:
                daemon.discard()

    def test_default_port_that_is_taken_is_only_a_warning(self):
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # somebody else has it: just as well
                stack.enter_context(socket.create_server(("127.0.0.1", 7777)))
            daemon = Daemon()
            del daemon.config["daemon.bind"]
            daemon.write_config()
            with daemon:
                self.assertIsNone(daemon.api("GET", "/status")[1]["tcp"])
                self.assertRegex(daemon.log(), r"warn.*127\.0\.0\.1:7777")


if __name__ == "__main__":
    main()
