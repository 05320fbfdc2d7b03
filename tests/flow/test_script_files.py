"""Programs, files and hosts that scripts reach, each by a cage of its own."""
import http.server
import json
import os
import subprocess
import threading

from harness import FlowTest, main
from test_scripts import Scripted

CALLS = """
kage.request_capabilities({ "exec", "fs_write", "net" })
local function try(name, call)
  kage.register_command{ name = name, description = "", handler = function(raw)
    local result = table.pack(pcall(call, raw ~= "" and kage.json.decode(raw) or {}))
    if not result[1] then return { text = tostring(result[2]), is_error = true } end
    return kage.json.encode({ value = result[2] })
  end }
end
try("exec", function(spec) return kage.exec(spec) end)
try("read", function(spec) return kage.fs.read(spec.path) end)
try("write", function(spec) return kage.fs.write(spec.path, spec.content) end)
try("get", function(spec) return kage.http.get(spec.url, spec.options) end)
try("post", function(spec) return kage.http.post(spec.url, spec.options) end)
try("size", function(spec) return #kage.http.get(spec.url).body end)
try("bytes", function() return #kage.exec({ cmd = "head", args = { "-c", "70000", "/dev/zero" } }).stdout end)
"""


class Reaching(Scripted):
    def __init__(self, grants, scripts=None):
        config = {"sandbox.root_writable": ["/tmp"], "plugins.capabilities.a": grants}
        super().__init__(scripts or {"a": CALLS}, config=config)

    def ask(self, command, **spec):
        """The value, or of an error its words."""
        result = self.command(command, json.dumps(spec))[-1]
        return result["text"] if result["is_error"] else json.loads(result["text"]).get("value")

    def path(self, name):
        return os.path.join(self.root, name)

    def put(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)


class Programs(FlowTest):
    def test_a_program_runs_in_the_sessions_folder_and_its_output_comes_back(self):
        with Reaching(["exec"]) as shop:
            ran = shop.ask("exec", cmd="sh", args=["-c", "pwd; echo err >&2; echo $HOME; echo x > made; exit 3"])
            self.assertEqual((ran["code"], ran["stdout"], ran["stderr"]), (3, shop.root + "\n/tmp\n", "err\n"))
            self.assertEqual((ran["timed_out"], ran["truncated"]), (False, False))
            with open(shop.path("made")) as file:
                self.assertEqual(file.read(), "x\n")

    def test_there_is_no_shell_and_words_stay_words(self):
        with Reaching(["exec"]) as shop:
            ran = shop.ask("exec", cmd="printf", args=["%s|", "a b", "$HOME", ";", "*", ""])
            self.assertEqual(ran["stdout"], "a b|$HOME|;|*||")

    def test_a_narrowed_grant_leaves_the_rest_out(self):
        with Reaching(["exec:printf"]) as shop:
            self.assertEqual(shop.ask("exec", cmd="printf", args=["x"])["stdout"], "x")
            self.assertIn('a = ["exec:sh"] in config.toml', shop.ask("exec", cmd="sh", args=["-c", "true"]))
            self.assertIn('a = ["exec:/usr/bin/printf"]', shop.ask("exec", cmd="/usr/bin/printf"))

    def test_without_a_grant_it_raises_and_names_the_line(self):
        with Reaching([]) as shop:
            self.assertIn('[plugins.capabilities] a = ["exec"] in config.toml', shop.ask("exec", cmd="true"))

    def test_it_has_no_network_and_sees_no_home(self):
        with Reaching(["exec"]) as shop:
            for wish in (f"cat {shop.daemon.home}/config.toml", "cat /etc/shadow"):
                self.assertNotEqual(shop.ask("exec", cmd="sh", args=["-c", wish])["code"], 0, wish)
            devices = shop.ask("exec", cmd="sh", args=["-c", "sed -n 's/: .*//p' /proc/net/dev"])
            self.assertLessEqual(set(devices["stdout"].split()), {"lo"})

    def test_what_takes_too_long_ends_with_all_that_it_started(self):
        with Reaching(["exec"]) as shop:
            ran = shop.ask("exec", cmd="sh", args=["-c", "echo begun; sleep 1000 & sleep 1000"], timeout_secs=1)
            self.assertEqual((ran["timed_out"], ran["code"], ran["stdout"]), (True, -1, "begun\n"))

    def test_more_output_than_is_kept_is_cut_and_bytes_stay_what_they_are(self):
        with Reaching(["exec"]) as shop:
            ran = shop.ask("exec", cmd="sh", args=["-c", "yes | head -c 3000000"])
            self.assertEqual((len(ran["stdout"]), ran["truncated"]), (1 << 20, True))
            self.assertEqual(shop.ask("bytes"), 70000)

    def test_output_that_grows_when_it_is_escaped_comes_back_whole(self):
        script = CALLS + """
try("control", function()
  local line = "head -c 1048576 /dev/zero | tr '\\\\0' '\\\\1'"
  local ran = kage.exec({ cmd = "sh", args = { "-c", line .. "; " .. line .. " >&2" } })
  return #ran.stdout + #ran.stderr
end)
"""
        with Reaching(["exec"], {"a": script}) as shop:
            self.assertEqual(shop.ask("control"), 2 << 20)
            shop.put("control", "\x01" * (1 << 20))
            self.assertIn("larger than", shop.ask("read", path="control"))

    def test_bad_specs_raise(self):
        with Reaching(["exec"]) as shop:
            for spec, words in (({"cmd": ""}, "cmd is empty"), ({"cmd": 1}, "cmd is a number"),
                                ({"cmd": "no-such-program"}, "no-such-program"),
                                ({"cmd": "A=1"}, "the name of a program"), ({"cmd": "-i"}, "the name of a program"),
                                ({"cmd": "true", "cwd": "/tmp"}, "cwd"), ({"cmd": "true", "cwd": "a/../.."}, "cwd"),
                                ({"cmd": "true", "cwd": "gone"}, "gone is not a folder"),
                                ({"cmd": "true", "timeout_secs": 0}, "timeout_secs"),
                                ({"cmd": "true", "args": [1]}, "an argument is a number")):
                with self.subTest(spec):
                    self.assertIn(words, shop.ask("exec", **spec))

    def test_git_works_there_and_its_hooks_are_guarded(self):
        with Reaching(["exec"]) as shop:
            subprocess.run(["git", "init", "-q", shop.root], check=True)
            shop.put("a.txt", "1\n")
            self.assertEqual(shop.ask("exec", cmd="git", args=["rev-parse", "--is-inside-work-tree"])["stdout"], "true\n")
            self.assertEqual(shop.ask("exec", cmd="git", args=["add", "a.txt"])["code"], 0)
            ran = shop.ask("exec", cmd="sh", args=["-c", "echo bad > .git/hooks/pre-commit"])
            self.assertNotEqual(ran["code"], 0)
            self.assertFalse(os.path.exists(shop.path(".git/hooks/pre-commit")))


class Files(FlowTest):
    def test_every_script_reads_in_the_sessions_folder(self):
        with Reaching([]) as shop:
            shop.put("sub/a.txt", "héllo\n")
            self.assertEqual(shop.ask("read", path="sub/../sub/./a.txt"), "héllo\n")
            self.assertEqual(shop.ask("read", path=shop.path("sub/a.txt")), "héllo\n")

    def test_what_is_elsewhere_is_not_read(self):
        with Reaching([]) as shop:
            os.symlink("/etc/passwd", shop.path("out"))
            os.symlink("/etc", shop.path("etc"))
            os.mkfifo(shop.path("fifo"))
            with open(shop.path("bytes"), "wb") as file:
                file.write(b"\xff\xfe")
            shop.put("large", "x" * ((1 << 20) + 1))
            for path, words in (("out", "not in the session's folder"), ("etc/passwd", "not in the session's folder"),
                                ("../x", "not in the session's folder"), ("/etc/passwd", "not in the session's folder"),
                                ("gone", "No such file"), ("fifo", "is not a file"), (".", "is not a file"),
                                ("bytes", "is not UTF-8"), ("large", "has more than 1048576 bytes"), ("", "is empty")):
                with self.subTest(path):
                    self.assertIn(words, shop.ask("read", path=path))

    def test_writing_takes_a_grant(self):
        with Reaching([]) as shop:
            self.assertIn('a = ["fs_write"] in config.toml', shop.ask("write", path="x", content="x"))
            self.assertFalse(os.path.exists(shop.path("x")))

    def test_a_file_is_written_with_the_folders_above_it(self):
        with Reaching(["fs_write"]) as shop:
            self.assertIsNone(shop.ask("write", path="new/sub/a.txt", content="1\n"))
            self.assertIsNone(shop.ask("write", path="new/sub/a.txt", content="2\n"))
            with open(shop.path("new/sub/a.txt")) as file:
                self.assertEqual(file.read(), "2\n")

    def test_what_is_elsewhere_or_guarded_is_not_written(self):
        with Reaching(["fs_write"]) as shop:
            subprocess.run(["git", "init", "-q", shop.root], check=True)
            outside = os.path.join(shop.daemon.base, "outside")
            os.symlink(outside, shop.path("out"))
            for path in ("out", "../outside", outside, ".git/hooks/pre-commit", ".kaged/project.yaml"):
                with self.subTest(path):
                    self.assertIsInstance(shop.ask("write", path=path, content="bad"), str)
            self.assertFalse(os.path.exists(outside))
            self.assertFalse(os.path.exists(shop.path(".git/hooks/pre-commit")))


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"\x00\xff" if self.path == "/bytes" else b"x" * 5000 if self.path == "/long" else b"hello"
        self.send_response(302 if self.path == "/away" else 404 if self.path == "/gone" else 200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers["Content-Type"], self.headers.get("X-Own"), body))
        self.do_GET()

    def log_message(self, *_):
        pass


class Hosts(FlowTest):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.seen = []
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def test_a_host_that_the_grant_names_is_asked(self):
        with Reaching(["net:127.0.0.1"]) as shop:
            answer = shop.ask("get", url=self.url + "/")
            self.assertEqual((answer["status"], answer["body"], answer["content_type"], answer["truncated"]),
                             (200, "hello", "text/plain", False))
            self.assertEqual(shop.ask("get", url=self.url + "/gone")["status"], 404)
            self.assertEqual(shop.ask("get", url=self.url + "/away")["status"], 302)
            cut = shop.ask("get", url=self.url + "/long", options={"max_bytes": 100})
            self.assertEqual((len(cut["body"]), cut["truncated"]), (100, True))
            self.assertEqual(shop.ask("size", url=self.url + "/bytes"), 2)
            shop.ask("post", url=self.url + "/", options={"json": {"a": [1]}, "headers": {"X-Own": "y"}})
            self.assertEqual(self.server.seen, [("application/json", "y", b'{"a":[1]}')])

    def test_another_host_and_a_private_address_are_refused(self):
        with Reaching(["net:example.com"]) as shop:
            self.assertIn('a = ["net:127.0.0.1"] in config.toml', shop.ask("get", url=self.url))
        with Reaching(["net"]) as shop:
            self.assertIn("the address is not declared", shop.ask("get", url=self.url))
        with Reaching([]) as shop:
            self.assertIn('a = ["net"] in config.toml', shop.ask("get", url=self.url))

    def test_bad_requests_raise(self):
        with Reaching(["net"]) as shop:
            for spec, words in (({"url": "file:///etc/passwd"}, "https:// or http://"), ({"url": ""}, "the url is empty"),
                                ({"url": self.url, "options": {"body": "x", "json": {}}}, "either body or json"),
                                ({"url": self.url, "options": {"timeout_secs": 0}}, "timeout_secs")):
                with self.subTest(spec):
                    self.assertIn(words, shop.ask("post", **spec))


if __name__ == "__main__":
    main()
