"""A little internet of our own, for tests of what a daemon lets its plugins reach.

enter() moves this process, and so every daemon that it starts, into a network of its own with one
cable to a second network, where servers are. Both have addresses of documentation and private
ranges and a few names; nothing leads to any real network, and all is gone with the process.

    test, kaged, cages   203.0.113.1  ==cable==  203.0.113.10, .11   servers
                            10.99.0.1               10.99.0.2
"""
import contextlib
import ctypes
import hashlib
import http.server
import os
import shutil
import socket
import socketserver
import ssl
import subprocess
import tempfile
import threading
import unittest

NEW_MOUNTS, NEW_USER, NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000

API, OTHER, PRIVATE, RESOLVER, SILENT = ("203.0.113.10", "203.0.113.11", "10.99.0.2",
                                         "203.0.113.53", "203.0.113.66")
API_6, METADATA, OWN = "2001:db8:99::10", "169.254.169.254", "203.0.113.1"
HOSTS = {
    "localhost": "127.0.0.1",
    "api.kaged.test": API,
    "six.kaged.test": API_6,
    "other.kaged.test": OTHER,
    "private.kaged.test": PRIVATE,
    "silent.kaged.test": SILENT,
    "loop.kaged.test": "127.0.0.1",
    "meta.kaged.test": METADATA,
    "own.kaged.test": OWN,
}
# Where servers are: encrypted on 443 and 8443, plain elsewhere.
THERE = [(API, 443), (API, 8443), (API, 80), (API_6, 443), (OTHER, 443), (OTHER, 7777),
         (PRIVATE, 443), (METADATA, 80)]
HERE = [("127.0.0.1", 443), (OWN, 443)]
DATAGRAMS_THERE = [(RESOLVER, 53), (API, 53), (API, 7777)]

libc = ctypes.CDLL(None, use_errno=True)


class Impossible(Exception):
    """This machine has no namespaces for us; the text says which."""


def check(result, what):
    if result != 0:
        raise Impossible(f"{what}: {os.strerror(ctypes.get_errno())}")


def run(*command):
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        subprocess.run(command, check=True, capture_output=True, text=True,
                       env={**os.environ, "PATH": path})
    except FileNotFoundError as error:
        raise Impossible(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise Impossible(f"{' '.join(command)}: {error.stderr.strip()}") from error


def become(user, group, outer_user, outer_group):
    """A user namespace in which the user outside is another one inside."""
    check(libc.unshare(NEW_USER), "a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {outer_user} 1"),
                       ("gid_map", f"{group} {outer_group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def drop_rights():
    """All that a user namespace gave, as if we had executed something: daemons look at us."""
    version_3, set_dumpable = 0x20080522, 4
    check(libc.capset((ctypes.c_uint32 * 2)(version_3, 0), (ctypes.c_uint32 * 6)()), "capset")
    check(libc.prctl(set_dumpable, 1, 0, 0, 0), "prctl")


def bulk(size):
    """Bytes that are easy to make and that no mistake reproduces."""
    block = hashlib.sha256(b"kaged").digest() * 2048
    return (block * (size // len(block) + 1))[:size]


# -- servers --------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        internet = self.server.internet
        internet.requests.append((self.server.server_address[:2], self.path, self.client_address))
        kind, _, number = self.path[1:].partition("?")[0].partition("/")
        if kind == "bulk":
            self.answer(bulk(int(number)))
        elif kind == "half":  # of what was promised; the rest never comes
            self.send_response(200)
            self.send_header("Content-Length", str(2 * int(number)))
            self.end_headers()
            self.wfile.write(bulk(int(number)))
            internet.over.wait()
        elif kind == "silence":
            internet.over.wait()
        elif kind == "files":
            self.answer_file(os.path.join(internet.files, number))
        elif kind == "git":
            self.answer_git()
        elif kind == "moved":  # to the host that comes next in the path
            self.send_response(302)
            self.send_header("Location", "https:/" + self.path.removeprefix("/moved"))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.answer(b"hello from " + self.server.server_address[0].encode())

    def answer_file(self, path):
        try:
            with open(path, "rb") as file:
                self.answer(file.read())
        except OSError:
            self.answer(b"", 404)

    def answer_git(self, body=b""):
        """As git's own server does, for the repositories in files/."""
        path, _, query = self.path.removeprefix("/git").partition("?")
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env={
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.server.internet.files,
            "GIT_HTTP_EXPORT_ALL": "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "-",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")})
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        if self.path.startswith("/git/"):
            self.answer_git(self.rfile.read(int(self.headers["Content-Length"])))
            return
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0:
            block = self.rfile.read(min(left, 65536))
            if not block:
                return
            digest.update(block)
            left -= len(block)
        self.answer(digest.hexdigest().encode())

    do_PUT = do_POST

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, internet, listener, context):
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.server_address = listener.getsockname()
        self.internet = internet
        # Else one slow client would hold up the others at the door.
        self.socket = listener if context is None else context.wrap_socket(
            listener, server_side=True, do_handshake_on_connect=False)

    def get_request(self):
        connection, address = super().get_request()
        self.internet.accepted.append(self.server_address[:2])
        return connection, address

    def handle_error(self, request, client_address):
        pass  # clients that leave are part of the tests


class Datagrams(socketserver.UDPServer):
    """Takes note of what comes and says nothing."""

    def __init__(self, internet, bound):
        super().__init__(bound.getsockname(), None, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.internet = internet

    def finish_request(self, request, client_address):
        self.internet.datagrams.append((self.socket.getsockname(), request[0]))


def open_listener(address, backlog=1024):
    listener = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(backlog)
    return listener


def open_datagrams(address):
    bound = socket.socket(type=socket.SOCK_DGRAM)
    bound.bind(address)
    return bound


# -- certificates ---------------------------------------------------------------------------------


def make_certificates(folder, names):
    """ca.pem, and server.pem with its key for the names; valid for a day."""
    def path(name):
        return os.path.join(folder, name)

    with open(path("extensions"), "w") as file:
        file.write("subjectAltName=" + ",".join("DNS:" + name for name in names) +
                   "\nauthorityKeyIdentifier=keyid\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    run("openssl", "req", "-x509", *key, "-days", "1", "-subj", "/CN=kaged test authority",
        "-addext", "keyUsage=critical,keyCertSign", "-keyout", path("ca.key"), "-out", path("ca.pem"))
    run("openssl", "req", *key, "-subj", "/CN=kaged test", "-keyout", path("server.key"), "-out",
        path("server.csr"))
    run("openssl", "x509", "-req", "-in", path("server.csr"), "-CA", path("ca.pem"), "-CAkey",
        path("ca.key"), "-CAcreateserial", "-days", "1", "-extfile", path("extensions"), "-out",
        path("server.pem"))


# -- the whole ------------------------------------------------------------------------------------


class Internet:
    """What the servers saw is in its lists. trusted: every program believes our authority alone."""

    def __init__(self, trusted=False):
        self.trusted = trusted
        self.folder = tempfile.mkdtemp(prefix="kaged-internet-")
        os.chmod(self.folder, 0o755)
        self.files = os.path.join(self.folder, "files")  # served under /files/
        os.mkdir(self.files)
        self.over = threading.Event()  # lets those go who wait for an answer
        self.servers, self.threads = [], []
        self.forget()

    def forget(self):
        self.names = []      # that clients named when they began to encrypt
        self.requests = []   # (server, path, client)
        self.accepted = []   # servers that were connected to
        self.datagrams = []  # (server, bytes)

    def enter_or_skip(self):
        """For setUpModule: where there can be no such network, its tests are skipped; not in CI."""
        try:
            self.enter()
        except Impossible as reason:
            self.leave()
            if os.environ.get("CI") == "true":
                raise
            raise unittest.SkipTest(str(reason)) from reason

    def enter(self):
        """Raises Impossible. Before any thread."""
        user, group = os.geteuid(), os.getegid()
        make_certificates(self.folder, [name for name in HOSTS if name.endswith(".test")])
        if user != 0:
            become(0, 0, user, group)
        check(libc.unshare(NEW_NETWORK | NEW_MOUNTS), "namespaces for a network and for mounts")
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        check(libc.unshare(NEW_NETWORK), "a second network namespace")
        self.set_up_there(here)
        listeners = [open_listener(address) for address in THERE]
        datagrams = [open_datagrams(address) for address in DATAGRAMS_THERE]
        check(libc.setns(here, NEW_NETWORK), "going back into a network namespace")
        os.close(here)
        self.set_up_here()
        listeners += [open_listener(address) for address in HERE]
        if user != 0:
            become(user, group, 0, 0)  # a daemon that thinks it is root would want more
            drop_rights()
        self.serve(listeners, datagrams)

    def set_up_there(self, here):
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
            f"/proc/{os.getpid()}/fd/{here}")
        run("ip", "link", "set", "cable", "up")
        for address in (API, OTHER, RESOLVER, PRIVATE, METADATA):
            run("ip", "addr", "add", f"{address}/24", "dev", "cable")
        run("ip", "addr", "add", f"{API_6}/64", "dev", "cable", "nodad")

    def set_up_here(self):
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "set", "cable", "up")
        run("ip", "addr", "add", f"{OWN}/24", "dev", "cable")
        run("ip", "addr", "add", "10.99.0.1/24", "dev", "cable")
        run("ip", "addr", "add", "2001:db8:99::1/64", "dev", "cable", "nodad")
        run("ip", "route", "add", METADATA, "dev", "cable")
        # Somebody who takes everything and never answers.
        run("ip", "neigh", "add", SILENT, "lladdr", "02:00:00:00:00:66", "dev", "cable")
        run("mount", "--make-rprivate", "/")
        self.replace("hosts", "".join(f"{address} {name}\n" for name, address in HOSTS.items()))
        self.replace("nsswitch.conf", "hosts: files dns\n")
        self.replace("resolv.conf", f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")
        if self.trusted:
            with open(self.authority) as file:
                self.replace("ssl/certs/ca-certificates.crt", file.read())

    def replace(self, name, text):
        """Puts a text in place of a file of /etc, for us alone."""
        path = os.path.join(self.folder, os.path.basename(name))
        with open(path, "w") as file:
            file.write(text)
        run("mount", "--bind", path, os.path.realpath(f"/etc/{name}"))

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.folder, "server.pem"),
                                os.path.join(self.folder, "server.key"))
        context.sni_callback = lambda _, name, __: self.names.append(name)
        return context

    def serve(self, listeners, datagrams):
        context = self.context()
        for listener in listeners:
            encrypted = listener.getsockname()[1] in (443, 8443)
            self.servers.append(Server(self, listener, context if encrypted else None))
        self.servers += [Datagrams(self, bound) for bound in datagrams]
        for server in self.servers:
            self.threads.append(threading.Thread(target=server.serve_forever, args=(0.05,)))
            self.threads[-1].start()

    @property
    def authority(self):
        """The file that clients must trust."""
        return os.path.join(self.folder, "ca.pem")

    def leave(self):
        """The namespaces themselves go with the process."""
        self.over.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()
        for thread in self.threads:
            thread.join()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)
