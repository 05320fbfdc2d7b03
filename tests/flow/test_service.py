"""The daemon under a service manager: what it tells one, and sockets that it is given. Units of systemd."""
import os
import shutil
import socket
import subprocess
import tempfile

from harness import KAGED, Daemon, FlowTest, main, wait_for


class Manager:
    """A service manager as the daemon sees it: a socket for states, and one that listens already."""

    def __init__(self, name=None):
        self.folder = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.name = name or os.path.join(self.folder, "notify")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.name.replace("@", "\0"))
        self.notify.settimeout(0)
        self.told = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.notify.close()
        shutil.rmtree(self.folder)

    def states(self):
        """Everything that was told so far, a dictionary for each datagram."""
        try:
            while True:
                lines = self.notify.recv(65536).decode().split("\n")
                self.told.append(dict(line.split("=", 1) for line in lines))
        except BlockingIOError:
            return self.told

    def wait(self, **state):
        return wait_for(lambda: [told for told in self.states() if told.items() >= state.items()],
                        f"the state {state}, among {self.told}")


class Managed(Daemon):
    """Started as a unit's process is: by a shell that knows its own number. Sockets are 3, 4, ..."""

    def __init__(self, manager, sockets=(), watchdog_ms=None, **options):
        super().__init__(**options)
        self.manager, self.sockets, self.watchdog_ms = manager, sockets, watchdog_ms

    def popen(self, *arguments, pass_fds=(), **options):
        # What --ready-fd names moves out of the way of what systemd counts from 3 on.
        ready, = pass_fds
        moves = "".join(f" {3 + index}<&{fd.fileno()}" for index, fd in enumerate(self.sockets))
        script = f'exec 20>&{ready}{moves}; LISTEN_PID=$$ exec "$@"'
        words = [word if word != str(ready) else "20" for word in arguments]
        environment = {**self.environment(), "NOTIFY_SOCKET": self.manager.name}
        if self.sockets:
            environment["LISTEN_FDS"] = str(len(self.sockets))
        if self.watchdog_ms:
            environment["WATCHDOG_USEC"] = str(self.watchdog_ms * 1000)
        return subprocess.Popen(["bash", "-c", script, "bash", KAGED, "--home", self.home, *words],
                                env=environment, stdin=subprocess.DEVNULL,
                                pass_fds=[ready, *(fd.fileno() for fd in self.sockets)], **options)


class Notify(FlowTest):
    def test_states_are_told_from_start_to_stop(self):
        with Manager() as manager, Managed(manager, plugins=["good-c"]) as daemon:
            ready, = manager.wait(READY="1")
            self.assertRegex(ready["STATUS"], r"^\d of 1 plugins running; cages: \w+")
            self.assertEqual(daemon.cli("reload")[0], 0)
            reloading, = manager.wait(RELOADING="1")
            self.assertGreater(int(reloading["MONOTONIC_USEC"]), 0)
            wait_for(lambda: [told.get("READY") for told in manager.states()] == ["1", None, "1"],
                     "ready, reloading, ready")
            daemon.stop()
            stopping, = manager.wait(STOPPING="1")
            self.assertIn("asked to terminate", stopping["STATUS"])

    def test_reload_that_fails_ends_with_ready_too(self):
        with Manager() as manager, Managed(manager) as daemon:
            with open(os.path.join(daemon.home, "config.toml"), "a") as file:
                file.write("nonsense\n")
            self.assertEqual(daemon.cli("reload")[0], 6)
            self.assertEqual([told.get("READY") for told in manager.states()], ["1", None, "1"])

    def test_manager_may_have_an_abstract_name(self):
        with Manager(f"@kaged-test-{os.getpid()}") as manager, Managed(manager):
            manager.wait(READY="1")

    def test_watchdog_hears_signs_of_life(self):
        with Manager() as manager, Managed(manager, watchdog_ms=100):
            wait_for(lambda: manager.states().count({"WATCHDOG": "1"}) > 2, "signs of life")

    def test_start_that_fails_says_why(self):
        with Manager() as manager:
            daemon = Managed(manager)
            os.makedirs(os.path.join(daemon.home, "run/kaged.sock"))  # no place for a socket
            with self.assertRaises(AssertionError):
                daemon.__enter__()
            told, = manager.states()
            self.assertEqual(list(told), ["STATUS"])
            self.assertIn("kaged.sock", told["STATUS"])

    def test_plugins_hear_nothing_of_the_manager(self):
        with Manager() as manager, Managed(manager, plugins=["good-c"]) as daemon:
            daemon.remember()
            for pid in daemon.seen:
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    self.assertNotRegex(environment.read(), rb"NOTIFY_SOCKET|LISTEN_FDS")


class Activation(FlowTest):
    """A daemon that finds its socket made."""

    def setUp(self):
        self.manager = Manager()
        self.addCleanup(self.manager.__exit__)

    def listener(self, path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        return listener

    def test_client_that_came_before_the_daemon_is_answered(self):
        daemon = Managed(self.manager)
        daemon.sockets = [self.listener(daemon.socket)]
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(daemon.socket)
            early.sendall(b"GET /healthz HTTP/1.1\r\nHost: kaged\r\n\r\n")
            with daemon:
                early.settimeout(60)
                self.assertIn(b"200 OK", early.recv(100))
                self.assertEqual(daemon.api("GET", "/status")[0], 200)

    def test_socket_stays_when_the_daemon_leaves(self):
        daemon = Managed(self.manager)
        daemon.sockets = [self.listener(daemon.socket)]
        with daemon:
            daemon.stop()
            self.assertTrue(os.path.exists(daemon.socket))
            daemon.start()
            self.assertEqual(daemon.api("GET", "/status")[0], 200)

    def test_socket_elsewhere_is_refused(self):
        # No command would find that daemon.
        daemon = Managed(self.manager)
        daemon.sockets = [self.listener(os.path.join(daemon.base, "other"))]
        with self.assertRaisesRegex(AssertionError, "ListenStream=.*kaged.sock"):
            daemon.__enter__()

    def test_what_does_not_listen_is_refused(self):
        daemon = Managed(self.manager)
        daemon.sockets = [self.manager.notify]
        with self.assertRaisesRegex(AssertionError, "descriptor 3.*not a listening stream socket"):
            daemon.__enter__()

    def test_socket_that_nobody_uses_is_closed(self):
        other = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(other.close)
        daemon = Managed(self.manager)
        daemon.sockets = [self.listener(daemon.socket), other]
        with daemon:
            self.assertIn("descriptor 4, which nobody uses", daemon.log())

    def test_sockets_for_another_process_are_left_alone(self):
        listener = self.listener(os.path.join(self.manager.folder, "other"))
        daemon = Daemon()
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
        try:
            with daemon:
                self.assertEqual(daemon.api("GET", "/status")[0], 200)
        finally:
            del os.environ["LISTEN_FDS"], os.environ["LISTEN_PID"]
            listener.close()


if __name__ == "__main__":
    main()
