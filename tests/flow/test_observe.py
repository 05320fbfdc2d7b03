"""kaged plugin observe and sandbox.explain: what a program would have to be given is learned by watching it in
a cage that holds; the manifest that comes of it is enough, and each of its lines is needed."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from registry import MODULES, Registry
from terminal import Terminal

# Each is an MCP server whose one resource is the work that it does: it reads a file, lists a folder, writes into
# another, runs a program and connects to a port; its answer says what came of each.
PYTHON = '''#!/usr/bin/env python3
import json, os, socket, subprocess, sys
base, port = sys.argv[1], int(sys.argv[2])

def attempt(act):
    try:
        act()
        return "ok"
    except OSError as error:
        return error.strerror

def work():
    return [attempt(lambda: open(base + "/data/a.txt").read()),
            attempt(lambda: os.listdir(base + "/listed")),
            attempt(lambda: open(base + "/out/new.txt", "w").write("new")),
            attempt(lambda: subprocess.run(["/usr/bin/date"], stdout=subprocess.DEVNULL, check=True)),
            attempt(lambda: socket.create_connection(("localhost", port), 20).close())]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"initialize": lambda: {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}},
                                     "serverInfo": {"name": "tool", "version": "1"}},
              "resources/read": lambda: {"contents": [{"uri": "test:work", "text": json.dumps(work())}]},
              }.get(message["method"], dict)()
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
'''
NODE = '''#!/usr/bin/env node
const fs = require("fs"), net = require("net"), { execFileSync } = require("child_process");
const [base, port] = process.argv.slice(2);
const attempt = (act) => { try { act(); return "ok"; } catch (error) { return String(error.code); } };
const connect = () => new Promise((done) => {
  const socket = net.connect({ host: "localhost", port: Number(port), family: 4 });
  socket.on("connect", () => { socket.destroy(); done("ok"); });
  socket.on("error", (error) => done(String(error.code)));
});
const work = async () => [
  attempt(() => fs.readFileSync(base + "/data/a.txt")),
  attempt(() => fs.readdirSync(base + "/listed")),
  attempt(() => fs.writeFileSync(base + "/out/new.txt", "new")),
  attempt(() => execFileSync("/usr/bin/date")),
  await connect(),
];
const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { resources: {} },
                       serverInfo: { name: "tool", version: "1" } }),
  "resources/read": async () => ({ contents: [{ uri: "test:work", text: JSON.stringify(await work()) }] }),
};
require("readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const result = await (answers[method] || (() => ({})))();
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
});
'''
C = r'''
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static char path[4096];
static const char *in(const char *base, const char *rest) { snprintf(path, sizeof(path), "%s%s", base, rest); return path; }
static const char *said(int worked) { return worked ? "ok" : "no"; }
static int runs(void) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) { if (freopen("/dev/null", "w", stdout)) execl("/usr/bin/date", "date", (char *)NULL); _exit(127); }
    waitpid(pid, &status, 0);
    return status == 0;
}
static int connects(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int result = connect(fd, (struct sockaddr *)&to, sizeof(to));
    close(fd);
    return result == 0;
}
int main(int argc, char **argv) {
    static char line[65536];
    const char *base = argv[argc - 2];
    while (fgets(line, sizeof(line), stdin)) {
        char *id = strstr(line, "\"id\":");
        if (id == NULL) continue;
        id += 5;
        id[strcspn(id, ",}")] = '\0';
        char *rest = id + strlen(id) + 1;
        if (strstr(line, "\"initialize\"") || strstr(rest, "\"initialize\"")) {
            printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":{}},\"serverInfo\":{\"name\":\"tool\",\"version\":\"1\"}}}\n", id);
        } else if (strstr(line, "resources/read") || strstr(rest, "resources/read")) {
            int fd = open(in(base, "/data/a.txt"), O_RDONLY);
            DIR *dir = opendir(in(base, "/listed"));
            int out = open(in(base, "/out/new.txt"), O_WRONLY | O_CREAT, 0644);
            printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"contents\":[{\"uri\":\"test:work\",\"text\":\"[\\\"%s\\\",\\\"%s\\\",\\\"%s\\\",\\\"%s\\\",\\\"%s\\\"]\"}]}}\n",
                   id, said(fd >= 0), said(dir != NULL), said(out >= 0), said(runs()), said(connects(atoi(argv[argc - 1]))));
            if (fd >= 0) close(fd);
            if (dir != NULL) closedir(dir);
            if (out >= 0) close(out);
        } else {
            printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n", id);
        }
        fflush(stdout);
    }
}
'''
LANGUAGES = {"python": PYTHON, "node": NODE, "c": C}

GREETING = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize",
     "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
WORK = [*GREETING, {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "test:work"}}]


def lines(messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


def accept_all(server):
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


class Place(contextlib.ExitStack):
    """A folder with what the tools work on, which ordinary users and root's cages may use."""

    def __enter__(self):
        super().__enter__()
        self.base = os.path.realpath(self.enter_context(tempfile.TemporaryDirectory(prefix="kaged-observe-")))
        os.chmod(self.base, 0o755)
        for folder in "data", "listed", "out", "home":
            os.mkdir(os.path.join(self.base, folder))
            os.chmod(os.path.join(self.base, folder), 0o755)
        if os.geteuid() == 0:
            for folder in "out", "listed":  # what is root's is not written by plugins
                os.chown(os.path.join(self.base, folder), 65534, 65534)
        for name in "data/a.txt", "data/other.txt":
            with open(os.path.join(self.base, name), "w") as file:
                file.write("words\n")
        server = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.callback(server.shutdown, socket.SHUT_RDWR)
        self.port = server.getsockname()[1]
        threading.Thread(target=accept_all, args=(server,), daemon=True).start()
        return self

    def write(self, name, text, mode=0o755):
        path = os.path.join(self.base, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def tool(self, language):
        if language != "c":
            return self.write("tool-" + language, LANGUAGES[language])
        source = self.write("tool.c", C, 0o644)
        subprocess.run(["cc", "-o", os.path.join(self.base, "tool-c"), source], check=True)
        return os.path.join(self.base, "tool-c")

    def run(self, *words, text="", timeout=PATIENCE * 4, env=None, home=None):
        return subprocess.run([KAGED, "--home", home or os.path.join(self.base, "home"), "plugin", "observe", *words],
                              input=text, text=True, capture_output=True, timeout=timeout, cwd=self.base,
                              env={**os.environ, **(env or {})}, errors="replace")

    def learn(self, *words, text, rounds=6):
        """Observes until nothing is new; the last report."""
        for _ in range(rounds):
            done = self.run("--json", "--write", *words, text=text)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            if not any(line["new"] for line in report["lines"]):
                return report
        raise AssertionError(f"there is always something new: {report}")


class Tools(FlowTest):
    """A small tool of each language."""

    def install(self, place, daemon, folder):
        code, out, err = daemon.cli("plugin", "install", os.path.join(place.base, folder), "--yes", timeout=300)
        self.assertEqual(code, 0, out + err)

    def work(self, daemon, name):
        def answer():
            status, said = daemon.try_call(name, "resources%2Fread", {"uri": "test:work"})
            return said if status == 200 else None
        return json.loads(wait_for(answer, f"an answer of {name}")["contents"][0]["text"])

    def refusals(self, daemon, name):
        code, out, err = daemon.cli("--json", "plugin", "why", name)
        self.assertEqual(code, 0, err)
        return json.loads(out)["refusals"]

    def check_line_is_named(self, daemon, name, line, wanted):
        known = len(self.refusals(daemon, name))
        starts = daemon.status(name)["starts"]
        code, out, err = daemon.cli("plugin", "revoke", name, line)
        self.assertEqual(code, 0, out + err)
        wait_for(lambda: daemon.status(name)["starts"] > starts, "its new cage")
        self.assertNotEqual(self.work(daemon, name), ["ok"] * 5, line)
        found = wait_for(lambda: [one for one in self.refusals(daemon, name) if wanted in one["what"]],
                         f"{wanted} in why ({known} before)")
        self.assertTrue(any(one["command"] for one in found), found)
        code, out, err = daemon.cli("plugin", "grant", name, line)
        self.assertEqual(code, 0, out + err)

    def check(self, language):
        config = {"sandbox.explain": True}
        with Place() as place, Daemon(config=config) as daemon:
            tool = place.tool(language)
            name = "tool-" + language
            report = place.learn(tool, "--", place.base, str(place.port), text=lines(WORK))
            texts = [line["capability"] for line in report["lines"]]
            wanted = {f"read:fs:{place.base}/data/a.txt": place.base + "/data/a.txt",
                      f"read:fs:{place.base}/listed": place.base + "/listed",
                      f"write:fs:{place.base}/out": place.base + "/out",
                      "exec:/usr/bin/date:config:/": "/usr/bin/date",
                      f"net:localhost:{place.port}": str(place.port)}
            for line in wanted:
                self.assertIn(line, texts)
            for line in report["lines"]:
                if line["capability"] in wanted:
                    self.assertGreater(line["count"], 0, line)
                    self.assertTrue(line["calls"], line)
            self.install(place, daemon, "kaged-" + name)
            self.assertEqual(self.work(daemon, name), ["ok"] * 5)
            self.assertEqual(self.refusals(daemon, name), [])
            for line, what in wanted.items():
                with self.subTest(line):
                    self.check_line_is_named(daemon, name, line, what)

    def test_manifest_of_a_tool_in_c_is_enough_and_why_names_each_line_that_is_missing(self):
        self.check("c")

    def test_manifest_of_a_tool_in_python_is_enough_and_why_names_each_line_that_is_missing(self):
        self.check("python")

    @unittest.skipUnless(shutil.which("node"), "node is not here")
    def test_manifest_of_a_tool_in_node_is_enough_and_why_names_each_line_that_is_missing(self):
        self.check("node")

    def test_without_explain_why_knows_nothing_of_files_and_says_how_to(self):
        with Place() as place, Daemon() as daemon:
            tool = place.tool("python")
            self.assertEqual(place.run("--write", tool, "--", place.base, "1").returncode, 0)
            self.install(place, daemon, "kaged-tool-python")
            self.assertNotEqual(self.work(daemon, "tool-python")[0], "ok")
            self.assertEqual([one for one in self.refusals(daemon, "tool-python") if "a.txt" in one["what"]], [])
            self.assertIn("sandbox.explain", daemon.cli("plugin", "why", "tool-python")[1])

    def test_grants_of_an_installed_one_add_up_and_what_was_taken_back_is_new(self):
        with Place() as place, Daemon() as daemon:
            tool = place.tool("python")
            self.assertEqual(place.run("--write", tool, "--", place.base, str(place.port)).returncode, 0)
            self.install(place, daemon, "kaged-tool-python")

            def learn():
                done = place.run("--json", "--grant", "tool-python", text=lines(WORK), home=daemon.home)
                self.assertEqual(done.returncode, 0, done.stderr)
                return [line["capability"] for line in json.loads(done.stdout.splitlines()[0])["lines"] if line["new"]]
            self.assertIn(f"read:fs:{place.base}/data/a.txt", learn())
            while learn():
                pass
            self.assertEqual(self.work(daemon, "tool-python"), ["ok"] * 5)
            code, out, err = daemon.cli("plugin", "revoke", "tool-python", f"read:fs:{place.base}/listed")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(learn(), [f"read:fs:{place.base}/listed"])

    def test_one_plugin_alone_is_explained(self):
        with Place() as place, Daemon(config={"sandbox.explain_plugins": ["tool-python"]}) as daemon:
            tool = place.tool("python")
            self.assertEqual(place.run("--write", tool, "--", place.base, "1").returncode, 0)
            self.install(place, daemon, "kaged-tool-python")
            self.work(daemon, "tool-python")
            wait_for(lambda: [one for one in self.refusals(daemon, "tool-python") if "data/a.txt" in one["what"]],
                     "what it tried")


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
@unittest.skipUnless(os.path.isdir(MODULES + "/@modelcontextprotocol"),
                     "the packages of tests/package.json are not here: scripts/npm tests")
class Package(FlowTest):
    def test_server_of_npm_is_observed_where_it_is_installed_and_gets_grants(self):
        with Registry(with_installed=True) as registry, Place() as place, Daemon() as daemon:
            user = os.path.join(place.base, "user")
            os.mkdir(user)
            place.write("user/.npmrc", f"registry={registry.url}\n", 0o644)
            source = "npm:@modelcontextprotocol/server-filesystem"
            daemon.environment = lambda: {**Daemon.environment(daemon), "HOME": user}
            listed = os.path.join(place.base, "listed")
            code, out, err = daemon.cli("plugin", "install", source, "--yes", "--", listed, timeout=300)
            self.assertEqual(code, 0, out + err)
            data = os.path.join(place.base, "data")
            session = [*GREETING, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "read_text_file", "arguments": {"path": data + "/a.txt"}}}]
            done = place.run("--json", "--for", "20", "--grant", source, "--", data, text=lines(session),
                             home=daemon.home)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout.splitlines()[0])
            self.assertIn(f"read:fs:{data}", [line["capability"] for line in report["lines"] if line["new"]])
            status = daemon.cli("plugin", "status", "server-filesystem")[1]
            self.assertIn(f"read:fs:{data}", status)

    def test_what_a_server_of_npm_was_seen_to_need_is_enough_and_why_names_it_when_it_is_missing(self):
        with Registry(with_installed=True) as registry, Place() as place, \
                Daemon(config={"sandbox.explain": True}) as daemon:
            user, data = os.path.join(place.base, "user"), os.path.join(place.base, "data")
            os.mkdir(user)
            place.write("user/.npmrc", f"registry={registry.url}\n", 0o644)
            if os.geteuid() == 0:
                os.chown(data, 65534, 65534)
            daemon.environment = lambda: {**Daemon.environment(daemon), "HOME": user}
            name, source = "server-filesystem", "npm:@modelcontextprotocol/server-filesystem"
            for words in (("install", source, "--yes", "--", data), ("revoke", name, f"write:fs:{data}")):
                code, out, err = daemon.cli("plugin", *words, timeout=300)
                self.assertEqual(code, 0, out + err)
            reads = [*GREETING, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "read_text_file", "arguments": {"path": data + "/a.txt"}}}]
            for _ in range(3):
                done = place.run("--json", "--for", "20", "--grant", source, text=lines(reads), home=daemon.home)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = [line for line in json.loads(done.stdout.splitlines()[0])["lines"] if line["new"]]
                if not found:
                    break
            self.assertEqual(found, [], "there is always something new")
            root = daemon.write_project("shop", f"version: 1\nname: shop\nprimary:\n  model: m0\n  prompt: x\n  plugins:\n"
                                        f"    files: {{ package: {name} }}\n")
            self.assertIn(daemon.api("POST", "/projects", {"path": root})[0], (200, 201))
            session = daemon.api("POST", "/projects/shop/sessions", {})[1]["id"]

            def work():
                return daemon.api("POST", f"/sessions/{session}/tools/{name}.read_text_file", {"path": data + "/a.txt"})

            def refusals():
                return json.loads(daemon.cli("--json", "plugin", "why", name)[1])["refusals"]
            wait_for(lambda: "words" in json.dumps(work()[1]), "what the file has")
            before = refusals()  # of when it did not have all of it yet, and was being started anew
            code, out, err = daemon.cli("plugin", "restart", name)
            self.assertEqual(code, 0, out + err)
            wait_for(lambda: "words" in json.dumps(work()[1]), "what the file has, with all that was granted")
            self.assertEqual(refusals(), before)
            code, out, err = daemon.cli("plugin", "revoke", name, f"read:fs:{data}")
            self.assertEqual(code, 0, out + err)

            def is_named():
                work()
                now = refusals()
                return now != before and [one for one in now if data in one["what"] and one["command"]]
            wait_for(is_named, "what is missing, in why")


class Reports(FlowTest):
    """What is proposed and what is not, of programs that do as they please."""

    def program(self, place, text, name="tool"):
        return place.write(name, "#!/usr/bin/env python3\n" + text)

    def report(self, place, text, *words, **options):
        done = place.run("--json", self.program(place, text), *words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_files_of_one_folder_become_the_folder_and_a_home_never_does(self):
        with Place() as place:
            home = os.path.join(place.base, "user")
            for folder in home, home + "/notes":
                os.mkdir(folder)
                for i in range(5):
                    place.write(f"{folder}/{i}.txt", "words")
            text = (f"import os\nfor f in {home!r}, {home + '/notes'!r}:\n  for i in range(5):\n"
                    "    try: open(f'{f}/{i}.txt').read()\n    except OSError: pass\n"
                    f"try: os.listdir({home!r})\nexcept OSError: pass\n")
            report = self.report(place, text, env={"HOME": home})
            texts = [line["capability"] for line in report["lines"]]
            self.assertIn(f"read:fs:{home}/notes", texts, report)
            self.assertNotIn(f"read:fs:{home}", texts)
            self.assertIn(f"read:fs:{home}/3.txt", texts)
            self.assertIn(home, [left["what"] for left in report["left_out"]])

    def test_kageds_own_and_places_of_the_system_are_left_out_with_the_reason(self):
        with Place() as place:
            home = os.path.join(place.base, "home")
            place.run(self.program(place, "pass"))
            with open(os.path.join(home, "local.toml"), "w") as file:
                file.write("")
            text = (f"import os\nfor p in {home + '/local.toml'!r}, '/etc/passwd', '/etc/shadow', '/sys/kernel/uevent_seqnum':\n"
                    "  try: open(p)\n  except OSError: pass\n"
                    "try: os.listdir('/home')\nexcept OSError: pass\n")
            report = self.report(place, text)
            texts = " ".join(line["capability"] for line in report["lines"])
            left = {one["what"]: one["why"] for one in report["left_out"]}
            self.assertNotIn("local.toml", texts)
            self.assertIn(os.path.join(home, "local.toml"), left)
            self.assertNotIn("passwd", texts)
            self.assertIn("names of users", left["/etc/passwd"])
            self.assertNotIn("read:fs:/home", texts)
            self.assertIn("/home", left)

    def test_a_folder_on_the_way_to_another_is_not_asked_for(self):
        with Place() as place, Place() as other:
            data = other.base + "/data"
            text = "import os\n" + "".join(f"try: os.stat({path!r})\nexcept OSError: pass\n"
                                           for path in (other.base, data, data + "/a.txt"))
            report = self.report(place, text)
            texts = [line["capability"] for line in report["lines"] if line["new"]]
            left = {one["what"]: one["why"] for one in report["left_out"]}
            self.assertEqual(texts, [f"read:fs:{data}/a.txt"])
            self.assertIn("on the way", left[other.base])
            self.assertIn("on the way", left[data])

    def test_a_million_opens_end_and_are_told_in_a_bounded_report(self):
        with Place() as place:
            text = ("import os\nfor i in range(100000):\n  os.access('/no/%d' % (i % 9000), 0)\n"
                    "print('done')\n")
            done = place.run("--json", self.program(place, text))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("done", done.stderr)
            report = json.loads(done.stdout)
            self.assertGreater(report["others"], 1000)
            self.assertLess(len(done.stdout), 200000)

    def test_names_that_are_not_utf_8_are_left_out(self):
        with Place() as place:
            odd = os.fsencode(place.base) + b"/data/\xff.txt"
            with open(odd, "w") as file:
                file.write("x")
            report = self.report(place, f"try: open({odd!r})\nexcept OSError: pass\n")
            self.assertTrue(any("not UTF-8" in one["why"] for one in report["left_out"]), report)
            self.assertEqual([line for line in report["lines"] if line["new"]], [])

    def test_program_that_never_ends_is_ended_after_its_time(self):
        with Place() as place:
            text = "import os\nwhile True:\n  os.access('/x', 0)\n  if os.fork() == 0: os._exit(0)\n  os.wait()\n"
            before = time.monotonic()
            report = self.report(place, text, "--for", "2")
            self.assertGreaterEqual(time.monotonic() - before, 2)
            self.assertTrue(report["duration_ms"] >= 2000)

    def test_stdio_is_the_callers(self):
        with Place() as place:
            program = self.program(place, "import sys\nprint('out', sys.stdin.read())\nprint('err', file=sys.stderr)\n")
            done = place.run(program, text="words")
            self.assertEqual(done.stdout, "out words\n")
            self.assertIn("err\n", done.stderr)
            self.assertIn("was observed for", done.stderr)

    def test_wrong_use_is_said(self):
        with Place() as place:
            for words, said in ((["./nothing"], "nothing"), (["nothing"], "there is no plugin nothing"),
                                (["npm:nothing"], "not installed"), (["./data/a.txt"], "neither a folder nor a program"),
                                (["./data"], "package.json"),
                                (["--grant", self.program(place, "pass")], "--write"),
                                (["--for", "0", self.program(place, "pass")], "for")):
                with self.subTest(words):
                    done = place.run(*words)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(said, done.stderr)


class Asked(FlowTest):
    """--ask: somebody at the terminal says what it is given, while it runs."""

    PROGRAM = """#!/usr/bin/env python3
import os, socket, sys
said = sys.stdin.read()
def attempt(name, act):
    try:
        act()
        print(name, "ok", flush=True)
    except OSError as error:
        print(name, error.strerror, flush=True)
base, port = sys.argv[1], int(sys.argv[2])
attempt("read", lambda: open(base + "/data/a.txt").read())
attempt("again", lambda: open(base + "/data/other.txt").read())
attempt("list", lambda: os.listdir(base + "/listed"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 20).close())
print("told", len(said), flush=True)
"""

    def asked(self, place, *options, text="words"):
        tool = place.write("tool", self.PROGRAM)
        said = place.write("said", text, 0o644)
        command = [KAGED, "--home", os.path.join(place.base, "home"), "plugin", "observe", "--ask", *options, tool, "--",
                   place.base, str(place.port)]
        return Terminal(["sh", "-c", 'cd "$1" && shift && in="$1" && shift && exec "$@" < "$in"', "sh", place.base, said,
                         *command], dict(os.environ))

    def answer(self, terminal, answers):
        """Each question by what it is about, in whichever order they come; what was asked."""
        asked = []
        while len(asked) < len(answers):
            terminal.read_until(". Give it? [y/N] ", PATIENCE * 4)
            question = terminal.raw[:terminal.read_to].rsplit(" asks for ", 1)[1]
            about = next(part for part in answers if part in question)
            asked.append(about)
            terminal.type(answers[about] + "\n")
        return asked

    def test_what_is_given_is_there_in_the_next_cage_and_is_told_what_the_first_was(self):
        with Place() as place, self.asked(place, "--write") as terminal:
            answers = {"/data": "y", "/listed": "n", f"localhost:{place.port}": "y"}
            asked = self.answer(terminal, answers)
            self.assertEqual(sorted(asked), sorted(answers), "each is asked about once")
            code, shown = terminal.end(PATIENCE * 4)
            self.assertEqual(code, 0, shown)
            last = shown[shown.rindex("\nread "):]
            for line in "read ok", "again ok", "list No such file", "connect ok", "told 5":
                self.assertIn(line, last)
            self.assertIn(f"+ read:fs:{place.base}/data\n", last)
            self.assertIn(f"+ net:localhost:{place.port}\n", last)
            self.assertIn("you were asked, and declined", last)
            with open(os.path.join(place.base, "kaged-tool/kaged-plugin.yaml")) as file:
                written = file.read()
            self.assertIn(f"read:fs:{place.base}/data", written)
            self.assertIn(f"net:localhost:{place.port}", written)
            self.assertNotIn("/listed", written)

    def test_a_folder_that_is_only_looked_at_is_asked_about_and_one_on_the_way_is_not(self):
        with Place() as place, Place() as other:
            program = place.write("looks", "#!/usr/bin/env python3\nimport os, sys, time\n"
                                  "try:\n  for path in sys.argv[1], sys.argv[1] + '/data': os.lstat(path)\n"
                                  "  print('there')\nexcept OSError:\n  os.path.isdir(sys.argv[1] + '/data')\n"
                                  "  time.sleep(600)\n")
            command = [KAGED, "--home", os.path.join(place.base, "home"), "plugin", "observe", "--ask", program, "--",
                       other.base]
            with Terminal(command, dict(os.environ)) as terminal:
                terminal.read_until(f"asks for read:fs:{other.base}/data:", PATIENCE * 4)
                terminal.type("y\n")
                code, shown = terminal.end(PATIENCE * 4)
            self.assertEqual((code, shown.count("[y/N]")), (0, 1), shown)
            self.assertIn("there", shown)

    def test_a_no_to_all_changes_nothing_and_one_run_is_enough(self):
        with Place() as place, self.asked(place) as terminal:
            self.answer(terminal, {"/data": "", "/listed": "n", "localhost": "what"})
            code, shown = terminal.end(PATIENCE * 4)
            self.assertEqual((code, shown.count("told 5")), (0, 1), shown)
            self.assertIn("it needs nothing", shown)

    def test_ctrl_c_at_a_question_ends_the_program_and_leaves_a_report(self):
        with Place() as place, self.asked(place) as terminal:
            terminal.read_until("[y/N] ", PATIENCE * 4)
            terminal.type("\x03")
            code, shown = terminal.end(PATIENCE * 4)
            self.assertEqual((code, shown.count("[y/N]")), (0, 1), shown)
            self.assertIn("was observed for", shown)

    def test_without_a_terminal_it_is_said(self):
        with Place() as place:
            done = subprocess.run([KAGED, "--home", os.path.join(place.base, "home"), "plugin", "observe", "--ask",
                                   place.write("tool", self.PROGRAM)], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=PATIENCE, start_new_session=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--ask needs a terminal", done.stderr)


if __name__ == "__main__":
    main()
