"""Unmodified clients in cages of a whole daemon, on a little internet of our own; see internet.py."""
import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import internet as net
from harness import KAGED, PATIENCE, FlowTest, install, main, memory_kb, wait_for
from terminal import Terminal
from test_cage import CONNECT, NAME, Told

ORDINARY_UID = 1234
MIB = 1024 * 1024
BULK = 32 * MIB
LONG_MS = 120_000

internet = net.Internet()


def setUpModule():
    internet.enter_or_skip()


def tearDownModule():
    internet.leave()


def has(program):
    """Whether it is where plugins may run it from."""
    return shutil.which(program, path="/usr/bin:/usr/local/bin") is not None


class Reaching(Told):
    """A daemon whose plugin trusts the authority of our servers, and may work in `work`."""

    def __init__(self, *capabilities, config=None, programs=(), plugins=(), **options):
        self.work = tempfile.mkdtemp(prefix="kaged-network-")
        os.chmod(self.work, 0o755)
        runs = [f"exec:{program}:{self.work}" for program in programs if has(program)]
        writes = [f"write:fs:{self.work}"] if programs else []
        super().__init__(*capabilities, *writes, *runs,
                         config={"limits.call_timeout_ms": LONG_MS, **(config or {})}, **options)
        self.enabled += [install(self.home, plugin) for plugin in plugins]
        self.write_config(plugins__enabled=self.enabled)
        self.authority = os.path.join(os.path.dirname(self.manifest), "ca.pem")
        shutil.copy(internet.authority, self.authority)

    def discard(self):
        super().discard()
        shutil.rmtree(self.work, ignore_errors=True)

    def tell(self, code):
        status, answer = self.try_call(NAME, "told.run", {"code": code}, timeout=LONG_MS / 1000)
        assert status == 200, answer
        return answer.get("result", answer.get("error"))

    def run(self, *command, **environment):
        """(exit code, stdout, stderr) of a program in the cage."""
        if not has(command[0]) and os.environ.get("CI") != "true":
            raise unittest.SkipTest(f"{command[0]} is not installed")
        code = (f"import os, subprocess; done = subprocess.run({list(command)!r}, "
                f"env={{**os.environ, **{environment!r}}}, cwd={self.work!r}, text=True, "
                "capture_output=True); result = [done.returncode, done.stdout, done.stderr]")
        return tuple(self.tell(code))

    def curl(self, url, *options):
        return self.run("curl", "-sS", "--cacert", self.authority, *options, url)

    def fetch(self, url):
        """The body, or the name of the error."""
        return self.tell("import ssl, urllib.request; "
                         f"trust = ssl.create_default_context(cafile={self.authority!r}); "
                         f"result = urllib.request.urlopen({url!r}, context=trust, timeout=60)"
                         ".read().decode()")

    def refused(self, count=1):
        """{(host, port): reason} of the refusals, once there are that many."""
        events = wait_for(lambda: (lambda e: len(e) >= count and e)(
            self.audit("plugin.net_denied", NAME)), f"{count} refusals")
        return {(event["host"], event["port"]): event["reason"] for event in events}

    def allowed(self, count=1):
        return wait_for(lambda: (lambda e: len(e) >= count and e)(
            self.audit("plugin.net_allowed", NAME)), f"{count} connections that are over")

    def why(self):
        """{what: the capability that would allow it}"""
        status, answer = self.api("GET", f"/plugins/{NAME}/why")
        assert status == 200, answer
        return {entry["what"]: entry["capability"] for entry in answer["refusals"]}


class OrdinaryReaching(Reaching):
    """The same of an ordinary user, where we are root."""

    def popen(self, *arguments, **options):
        if os.geteuid() != 0:
            return super().popen(*arguments, **options)
        for path in (self.base, self.work):
            subprocess.run(["chown", "-R", f"{ORDINARY_UID}:{ORDINARY_UID}", path], check=True)
        return super().popen(*arguments, user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[],
                             **options)


class FewFiles(Reaching):
    def popen(self, *arguments, **options):
        limit = (resource.RLIMIT_NOFILE, (300, 300))
        return super().popen(*arguments, preexec_fn=lambda: resource.setrlimit(*limit), **options)


@contextlib.contextmanager
def reaching(*capabilities, daemon_class=Reaching, **options):
    internet.forget()
    with daemon_class(*capabilities, **options) as daemon:
        yield daemon


# -- what works -----------------------------------------------------------------------------------


class Clients(FlowTest):
    daemon_class = Reaching

    @classmethod
    def setUpClass(cls):
        cls.share(cls.daemon_class("net:api.kaged.test:443", "net:six.kaged.test:443",
                                   programs=["curl", "node", "git", "wget"],
                                   config={"limits.net_connections_per_sec": 1000}))

    def setUp(self):
        internet.forget()

    def test_curl_sees_the_right_certificate_and_its_server_name_arrives(self):
        self.assertEqual(self.daemon.curl("https://api.kaged.test/hello"),
                         (0, f"hello from {net.API}", ""))
        self.assertEqual(internet.names, ["api.kaged.test"])

    def test_certificate_of_another_name_is_not_taken(self):
        code, _, err = self.daemon.curl("https://wrong.kaged.test/hello", "--connect-to",
                                        "::api.kaged.test:443")
        self.assertEqual(code, 60, err)

    def test_server_on_ipv6_is_reached_by_its_name(self):
        self.assertEqual(self.daemon.curl("https://six.kaged.test/hello"),
                         (0, f"hello from {net.API_6}", ""))

    def test_python_fetches(self):
        self.assertEqual(self.daemon.fetch("https://api.kaged.test/hello"),
                         f"hello from {net.API}")
        self.assertEqual(internet.names, ["api.kaged.test"])

    def test_python_sees_the_peer_by_its_own_name(self):
        code = (f"import socket, ssl; trust = ssl.create_default_context("
                f"cafile={self.daemon.authority!r})\n"
                "with socket.create_connection(('api.kaged.test', 443), timeout=60) as plain:\n"
                "    with trust.wrap_socket(plain, server_hostname='api.kaged.test') as secure:\n"
                "        result = [name for _, name in secure.getpeercert()['subjectAltName']]")
        self.assertIn("api.kaged.test", self.daemon.tell(code))

    def test_node_fetches(self):
        script = "fetch('https://api.kaged.test/hello').then(r => r.text()).then(console.log)"
        code, out, err = self.daemon.run("node", "-e", script,
                                         NODE_EXTRA_CA_CERTS=self.daemon.authority)
        self.assertEqual((code, out), (0, f"hello from {net.API}\n"), err)
        self.assertEqual(internet.names, ["api.kaged.test"])

    def test_wget_fetches(self):
        code, out, err = self.daemon.run("wget", "-qO-", f"--ca-certificate={self.daemon.authority}",
                                         "https://api.kaged.test/hello")
        self.assertEqual((code, out), (0, f"hello from {net.API}"), err)

    def test_git_clones(self):
        source = os.path.join(internet.files, "source")
        bare = os.path.join(internet.files, "repo.git")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@kaged.test"]
        if not os.path.isdir(bare):
            subprocess.run([*git, "init", "-q", "-b", "main", source], check=True)
            subprocess.run([*git, "-C", source, "commit", "-q", "--allow-empty", "-m", "a commit"],
                           check=True)
            subprocess.run([*git, "clone", "-q", "--bare", source, bare], check=True)
            subprocess.run([*git, "-C", bare, "update-server-info"], check=True)
        code, _, err = self.daemon.run("git", "clone", "-q",
                                       "https://api.kaged.test/files/repo.git", "clone",
                                       GIT_SSL_CAINFO=self.daemon.authority)
        self.assertEqual(code, 0, err)
        _, out, err = self.daemon.run("git", "-C", "clone", "log", "--format=%s")
        self.assertEqual(out, "a commit\n", err)

    def test_large_download_is_intact(self):
        code, _, err = self.daemon.curl(f"https://api.kaged.test/bulk/{BULK}", "-o", "bulk")
        self.assertEqual(code, 0, err)
        with open(os.path.join(self.daemon.work, "bulk"), "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(),
                             hashlib.sha256(net.bulk(BULK)).hexdigest())

    def test_large_upload_is_intact(self):
        with open(os.path.join(self.daemon.work, "bulk-up"), "wb") as file:
            file.write(net.bulk(BULK))
        code, out, err = self.daemon.curl("https://api.kaged.test/upload", "-T", "bulk-up")
        self.assertEqual((code, out), (0, hashlib.sha256(net.bulk(BULK)).hexdigest()), err)

    def test_fifty_requests_at_once(self):
        code = ("import concurrent.futures, ssl, urllib.request\n"
                f"trust = ssl.create_default_context(cafile={self.daemon.authority!r})\n"
                "def fetch(number):\n"
                "    url = f'https://api.kaged.test/bulk/{number * 1000}'\n"
                "    return len(urllib.request.urlopen(url, context=trust, timeout=60).read())\n"
                "with concurrent.futures.ThreadPoolExecutor(50) as pool:\n"
                "    result = list(pool.map(fetch, range(50)))")
        self.assertEqual(self.daemon.tell(code), [number * 1000 for number in range(50)])
        self.assertEqual(internet.names, ["api.kaged.test"] * 50)

    def test_connection_that_is_kept_serves_many_requests(self):
        code = ("import http.client, ssl\n"
                f"trust = ssl.create_default_context(cafile={self.daemon.authority!r})\n"
                "connection = http.client.HTTPSConnection('api.kaged.test', context=trust)\n"
                "result = []\n"
                "for _ in range(20):\n"
                "    connection.request('GET', '/hello')\n"
                "    result.append(connection.getresponse().read().decode())")
        self.assertEqual(self.daemon.tell(code), [f"hello from {net.API}"] * 20)
        self.assertEqual(internet.accepted, [(net.API, 443)])

    def test_audit_log_has_where_it_led_and_how_much_it_was(self):
        before = len(self.daemon.audit("plugin.net_allowed", NAME))
        self.daemon.curl("https://api.kaged.test/bulk/100000")
        event = self.daemon.allowed(before + 1)[-1]
        self.assertEqual((event["host"], event["port"], event["address"]),
                         ("api.kaged.test", 443, net.API))
        self.assertGreater(event["bytes_in"], 100_000)
        self.assertGreater(event["bytes_out"], 200)


class OrdinaryClients(Clients):
    daemon_class = OrdinaryReaching


# -- what is refused ------------------------------------------------------------------------------


class Refusals(FlowTest):
    """Each with the error that the client sees, the audit event, and what would allow it."""

    DECLARED = ["net:api.kaged.test:443", "net:loop.kaged.test:443", "net:meta.kaged.test:80",
                "net:own.kaged.test:443", "net:private.kaged.test:443"]

    @classmethod
    def setUpClass(cls):
        cls.share(Reaching(*cls.DECLARED, programs=["curl"]))

    def setUp(self):
        internet.forget()

    # What curl says to an error. A reset may come before or after it thinks that it is connected.
    CURL = {"gaierror": (6,), "ECONNREFUSED": (7,), "ECONNRESET": (7, 35, 56)}

    def check(self, host, port, error, reason, capability):
        url_host = f"[{host}]" if ":" in host else host
        url = f"{'http' if port == 80 else 'https'}://{url_host}:{port}/"
        self.assertEqual(self.daemon.fetch(url), error)
        code, _, err = self.daemon.curl(url)
        self.assertIn(code, self.CURL[error], err)
        asked = (host, None if error == "gaierror" else port)
        told = wait_for(lambda: self.daemon.refused().get(asked), f"the refusal of {asked}")
        self.assertIn(reason, told)
        what = (f"to look up the host {host}" if error == "gaierror" else
                f"to connect to {host}, port {port}")
        self.assertEqual(self.daemon.why()[what], capability)
        _, out, _ = self.daemon.cli("plugin", "why", NAME)
        self.assertRegex(out, rf"{re.escape(what)}\n.*{re.escape(told)}\n"
                              rf" *would be allowed by: {re.escape(capability)}\n"
                              " *known from the gatekeeper of its network, which refused it\n")
        self.assertEqual(internet.accepted, [])

    def test_port_that_is_not_declared(self):
        self.check("api.kaged.test", 8443, "ECONNREFUSED", "the port is not declared",
                   "net:api.kaged.test:8443")

    def test_host_that_is_not_declared(self):
        self.check("other.kaged.test", 443, "gaierror", "the name is not declared",
                   "net:other.kaged.test:443")
        self.assertEqual(internet.datagrams, [])

    def test_address_that_is_not_declared(self):
        self.check(net.API, 443, "ECONNREFUSED", "the address is not declared",
                   f"net:{net.API}:443")

    def test_ipv6_address_that_is_not_declared(self):
        self.check(net.API_6, 443, "ECONNREFUSED", "the address is not declared",
                   f"net:[{net.API_6}]:443")

    def test_name_that_leads_to_loopback(self):
        self.check("loop.kaged.test", 443, "ECONNRESET", "leads to the loopback",
                   "net:localhost:443")

    def test_name_that_leads_to_the_metadata_of_a_cloud(self):
        self.check("meta.kaged.test", 80, "ECONNRESET", "leads to a link-local address",
                   f"net:{net.METADATA}:80")

    def test_name_that_leads_to_the_host_itself(self):
        self.check("own.kaged.test", 443, "ECONNRESET", "an address of this host",
                   f"net:{net.OWN}:443")

    def test_name_in_a_private_network_unless_the_operator_forbids_it(self):
        self.assertEqual(self.daemon.fetch("https://private.kaged.test/"),
                         f"hello from {net.PRIVATE}")
        internet.forget()
        self.daemon.write_config(sandbox__private_networks=False)
        self.daemon.api("POST", "/reload")
        try:
            self.check("private.kaged.test", 443, "ECONNRESET",
                       "sandbox.private_networks forbids", f"net:{net.PRIVATE}:443")
        finally:
            self.daemon.write_config(sandbox__private_networks=True)
            self.daemon.api("POST", "/reload")


class Nowhere(FlowTest):
    def test_datagrams_go_nowhere(self):
        code = ("import socket; s = socket.socket(type=socket.SOCK_DGRAM)\n"
                f"for target in {[(net.API, 7777), (net.API, 53), (net.RESOLVER, 53)]!r}:\n"
                "    try:\n        s.sendto(b'out', target)\n"
                "    except OSError:\n        pass\n"
                "s.settimeout(0.2)\n"
                "try:\n    result = s.recv(9).decode()\n"
                "except OSError as error:\n    result = type(error).__name__")
        for capability in ("net:api.kaged.test:443", "net:*"):
            with self.subTest(capability=capability), reaching(capability) as daemon:
                self.assertIn(daemon.tell(code), ("ConnectionRefusedError", "TimeoutError"))
                self.assertEqual(internet.datagrams, [])

    def test_questions_for_names_that_are_not_declared_stay_on_the_host(self):
        code = ("import socket\nfor i in range(20):\n    try:\n"
                "        socket.getaddrinfo(f'secret-{i}.kaged.test', 443)\n"
                "    except socket.gaierror:\n        pass")
        with reaching("net:api.kaged.test:443") as daemon:
            daemon.tell(code)
            self.assertIn(("secret-0.kaged.test", None), daemon.refused())
        self.assertEqual(internet.datagrams, [])

    def test_names_are_looked_up_only_to_connect_even_under_net_any(self):
        look = "import socket; result = socket.gethostbyname('secret.kaged.test')"
        with reaching("net:*") as daemon:
            self.assertRegex(daemon.tell(look), r"^198\.1[89]\.")
            self.assertEqual(internet.datagrams, [])
            self.assertEqual(daemon.fetch("http://secret.kaged.test/"), "ECONNRESET")
            failed = daemon.wait_audit("plugin.net_failed", NAME)[0]
            self.assertEqual(failed["host"], "secret.kaged.test")
            self.assertIn("not found", failed["reason"])
            self.assertIn(b"secret", internet.datagrams[0][1])

    def test_plugin_that_declares_no_network_has_none(self):
        for capabilities in ((), ("net:[]",)):
            with self.subTest(capabilities=capabilities), reaching(*capabilities) as daemon:
                self.assertEqual(daemon.tell(CONNECT.format(net.API, 443)), "ENETUNREACH")
                self.assertEqual(daemon.tell(CONNECT.format("api.kaged.test", 443)), "gaierror")
                _, out, _ = daemon.cli("plugin", "status", NAME, "--cage")
                self.assertIn("may not use the network", out)
        self.assertEqual(internet.accepted, [])


class Wildcards(FlowTest):
    def test_every_port_of_a_host(self):
        with reaching("net:api.kaged.test:*", "net:other.kaged.test:443") as daemon:
            self.assertEqual(daemon.fetch("https://api.kaged.test/"), f"hello from {net.API}")
            self.assertEqual(daemon.fetch("https://api.kaged.test:8443/"), f"hello from {net.API}")
            self.assertEqual(daemon.fetch("http://api.kaged.test/"), f"hello from {net.API}")
            self.assertEqual(daemon.fetch("http://other.kaged.test:7777/"), "ECONNREFUSED")
            self.assertEqual({event["port"] for event in daemon.allowed(3)}, {443, 8443, 80})
            self.assertEqual(daemon.refused(),
                             {("other.kaged.test", 7777): "the port is not declared"})
            self.assertIn("may connect to api.kaged.test, every port", daemon.cage()["words"])

    def test_any_host_and_port_with_names_in_the_audit_log(self):
        with reaching("net:*") as daemon:
            self.assertEqual(daemon.fetch("https://api.kaged.test/"), f"hello from {net.API}")
            self.assertEqual(daemon.fetch("http://other.kaged.test:7777/"),
                             f"hello from {net.OTHER}")
            self.assertEqual(daemon.fetch(f"http://{net.API}/"), f"hello from {net.API}")
            self.assertEqual({(event["host"], event["port"]) for event in daemon.allowed(3)},
                             {("api.kaged.test", 443), ("other.kaged.test", 7777), (net.API, 80)})
            self.assertIn("may connect to every host, every port", daemon.cage()["words"])

    def test_any_host_is_none_that_is_private_or_this_one(self):
        refused = {"private.kaged.test": ("private network", "net:private.kaged.test:443"),
                   net.PRIVATE: ("private network", f"net:{net.PRIVATE}:443"),
                   "own.kaged.test": ("address of this host", f"net:{net.OWN}:443"),
                   net.OWN: ("address of this host", f"net:{net.OWN}:443"),
                   "loop.kaged.test": ("loopback", "net:localhost:443"),
                   net.METADATA: ("link-local", f"net:{net.METADATA}:443")}
        with reaching("net:*") as daemon:
            for host in refused:
                self.assertEqual(daemon.fetch(f"https://{host}/"), "ECONNRESET", host)
            told, why = daemon.refused(len(refused)), daemon.why()
            for host, (reason, capability) in refused.items():
                self.assertIn(reason, told[host, 443])
                self.assertEqual(why[f"to connect to {host}, port 443"], capability)
        self.assertEqual(internet.accepted, [])

    def test_what_why_names_is_allowed_once_it_is_declared(self):
        with reaching("net:*", f"net:{net.OWN}:443", "net:private.kaged.test:443") as daemon:
            for url, server in ((f"https://{net.OWN}/", net.OWN),
                                ("https://private.kaged.test/", net.PRIVATE)):
                code, out, err = tuple(daemon.tell(
                    "import ssl, urllib.request; trust = ssl.create_default_context(); "
                    "trust.check_hostname = False; trust.verify_mode = ssl.CERT_NONE; "
                    f"result = [0, urllib.request.urlopen({url!r}, context=trust, timeout=60)"
                    ".read().decode(), '']"))
                self.assertEqual((code, out), (0, f"hello from {server}"), err)


# -- limits and ends ------------------------------------------------------------------------------

# Connects and waits until the other side has spoken or hung up, so that the outcome is known.
OPEN = """
import socket
kept, result = [], []
for _ in range({count}):
    try:
        kept.append(socket.create_connection(({host!r}, {port}), timeout=60))
        kept[-1].sendall(b'GET /half/10 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')
        result.append('open' if kept[-1].recv(1) else 'closed')
    except OSError as error:
        result.append(type(error).__name__)
"""

FLOOD = """
import contextlib, socket
kept = []
for _ in range(1000):
    with contextlib.suppress(OSError):
        kept.append(socket.create_connection(('api.kaged.test', 80), timeout=60))
"""


class Limits(FlowTest):
    def test_one_connection_too_many_is_refused(self):
        with reaching("net:api.kaged.test:80", config={"limits.net_connections": 3}) as daemon:
            told = daemon.tell(OPEN.format(count=4, host="api.kaged.test", port=80))
            self.assertEqual(told, ["open"] * 3 + ["ConnectionResetError"])
            self.assertIn("too many connections", daemon.refused()["api.kaged.test", 80])
            self.assertEqual(daemon.why(), {"to connect to api.kaged.test, port 80": None})
            self.assertEqual(len(internet.accepted), 3)

    def test_thousand_connections_hurt_nobody_else_and_are_all_accounted_for(self):
        with reaching("net:api.kaged.test:80", plugins=["good-c"]) as daemon:
            before = memory_kb(daemon.pid)
            flood = threading.Thread(target=daemon.tell, args=(FLOOD,))
            flood.start()
            calls = 0
            while flood.is_alive():
                daemon.call("good-c", "good.echo")
                calls += 1
            flood.join()
            self.assertGreater(calls, 0)
            self.assertLess(memory_kb(daemon.pid) - before, 64 * 1024)
            daemon.act(NAME, "restart")

            def counted():
                denied = daemon.audit("plugin.net_denied", NAME)
                failed = daemon.audit("plugin.net_failed", NAME)
                allowed = daemon.audit("plugin.net_allowed", NAME)
                return sum(1 + event["suppressed"] for event in allowed + denied + failed)

            wait_for(lambda: counted() >= 1000, "an account of each connection")
            self.assertEqual(counted(), 1000)
            self.assertLess(len(daemon.audit("plugin.net_denied", NAME)), 500)
            self.assertLessEqual(len(internet.accepted), 1000)

    def test_daemon_with_few_file_descriptors_still_answers_its_operator(self):
        with reaching("net:api.kaged.test:80", daemon_class=FewFiles,
                      config={"limits.net_connections_per_sec": 1000}) as daemon:
            told = daemon.tell(OPEN.format(count=250, host="api.kaged.test", port=80))
            self.assertIn("open", told)
            self.assertEqual(daemon.status(NAME)["state"], "running")
            self.assertIn("too many connections of all plugins",
                          daemon.refused()["api.kaged.test", 80])

    def test_server_that_never_answers_fails_within_the_time(self):
        with reaching("net:silent.kaged.test:443",
                      config={"limits.net_connect_timeout_ms": 300}) as daemon:
            self.assertEqual(daemon.fetch("https://silent.kaged.test/"), "ECONNRESET")
            event = daemon.wait_audit("plugin.net_failed", NAME)[0]
            self.assertEqual((event["host"], event["address"]), ("silent.kaged.test", net.SILENT))
            self.assertIn("no answer within the time", event["reason"])
            self.assertEqual(daemon.audit("plugin.net_denied", NAME), [])

    def test_port_where_nobody_listens_is_a_failure_and_no_refusal(self):
        with reaching("net:api.kaged.test:81") as daemon:
            self.assertEqual(daemon.fetch("http://api.kaged.test:81/"), "ECONNRESET")
            event = daemon.wait_audit("plugin.net_failed", NAME)[0]
            self.assertIn("refused", event["reason"])

    def test_idle_connection_is_closed(self):
        with reaching("net:api.kaged.test:80",
                      config={"limits.net_idle_timeout_ms": 200}) as daemon:
            self.assertEqual(daemon.fetch("http://api.kaged.test/silence"), "ECONNRESET")
            event = daemon.allowed()[0]
            self.assertGreater(event["duration_ms"], 150)  # clocks of whole milliseconds differ
            self.assertEqual(event["bytes_in"], 0)


class Ends(FlowTest):
    HALF = MIB

    def begin_transfer(self, daemon):
        """Half of a download has come, and the other half never will."""
        told = daemon.tell(
            "import socket, sys\n"
            "sys.kept = kept = socket.create_connection(('api.kaged.test', 80), timeout=60)\n"
            f"kept.sendall(b'GET /half/{self.HALF} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
            "result = 0\n"
            f"while result < {self.HALF}:\n    result += len(kept.recv(65536))")
        self.assertGreaterEqual(told, self.HALF)

    def check_event(self, event):
        self.assertEqual((event["host"], event["port"]), ("api.kaged.test", 80))
        self.assertGreaterEqual(event["bytes_in"], self.HALF)
        self.assertGreater(event["bytes_out"], 0)

    def test_plugin_killed_in_a_transfer_leaves_the_bytes_so_far(self):
        with reaching("net:api.kaged.test:80") as daemon:
            self.begin_transfer(daemon)
            self.assertEqual(daemon.audit("plugin.net_allowed", NAME), [])
            os.kill(daemon.status(NAME)["pid"], signal.SIGKILL)
            self.check_event(daemon.allowed()[0])

    def test_daemon_stops_with_open_connections_and_accounts_for_them(self):
        with reaching("net:api.kaged.test:80") as daemon:
            self.begin_transfer(daemon)
            daemon.stop()
            daemon.start()
            self.check_event(daemon.allowed()[0])


ASKS = """#!/usr/bin/env python3
import http.client, sys
for host in "api.kaged.test", "api.kaged.test", "203.0.113.11":
    try:
        server = http.client.HTTPConnection(host, 80 if host[0] == "a" else 7777, timeout=600)
        server.request("GET", "/")
        print(host, server.getresponse().status, flush=True)
    except (OSError, http.client.HTTPException) as error:
        print(host, type(error).__name__, flush=True)
try:
    print(open(sys.argv[1]).read(), flush=True)
except OSError:
    pass
"""


class Observed(FlowTest):
    """kaged plugin observe --ask, of hosts: the connection waits for the answer."""

    def test_a_host_is_given_while_its_connection_waits_and_another_is_not(self):
        with tempfile.TemporaryDirectory(prefix="kaged-observe-") as folder:
            os.chmod(folder, 0o755)
            program = os.path.join(folder, "tool")
            with open(program, "w") as file:
                file.write(ASKS)
            os.chmod(program, 0o755)
            os.mkdir(os.path.join(folder, "data"), 0o755)
            path = os.path.join(folder, "data/note")
            with open(path, "w") as file:
                file.write("words")
            command = [KAGED, "--home", os.path.join(folder, "home"), "plugin", "observe", "--ask", program, "--", path]
            with Terminal(command, dict(os.environ)) as terminal:
                terminal.read_until("tool asks for net:api.kaged.test:80", PATIENCE * 4)
                terminal.type("y\n")
                terminal.read_until("api.kaged.test 200", PATIENCE * 4)
                terminal.read_until("tool asks for net:203.0.113.11:7777", PATIENCE * 4)
                terminal.type("n\n")
                terminal.read_until(f"tool asks for read:fs:{folder}/data", PATIENCE * 4)
                terminal.type("y\n")
                code, shown = terminal.end(PATIENCE * 4)
            self.assertEqual((code, shown.count("[y/N]")), (0, 3), shown)
            self.assertEqual(shown.count("api.kaged.test 200"), 4, "twice in each of two runs")
            self.assertIn("words", shown)
            self.assertNotIn("203.0.113.11 200", shown)
            self.assertIn("+ net:api.kaged.test:80\n", shown)
            self.assertNotIn("+ net:203.0.113.11", shown)
            self.assertIn("you were asked, and declined", shown)


if __name__ == "__main__":
    main()
