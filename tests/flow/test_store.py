"""Changes of the plugin store in a whole daemon and beside it, and what is left of those that are cut
short."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import PLUGINS, Daemon, FlowTest, at_once, main, wait_for

YES = ("--yes", "--replace-source")  # each version has a folder of its own here


@contextlib.contextmanager
def sources():
    """make(version, ...) writes a good plugin of that version, and returns its folder."""
    base = tempfile.mkdtemp(prefix="kg-src-", dir="/tmp")

    def make(version, says=None, name="good-bash", capabilities="[]"):
        folder = tempfile.mktemp(dir=base)
        shutil.copytree(os.path.join(PLUGINS, "good-bash"), folder)
        for file, before, after in (
                ("kaged-plugin.yaml", "version: 1.0.0", f"version: {version}"),
                ("kaged-plugin.yaml", "capabilities: []", f"capabilities: {capabilities}"),
                ("kaged-plugin.yaml", "name: good-bash", f"name: {name}"),
                ("plugin.sh", '"1.0.0"', f'"{says or version}"')):
            path = os.path.join(folder, file)
            with open(path) as old:
                text = old.read().replace(before, after)
            with open(path, "w") as new:
                new.write(text)
        return folder

    try:
        yield make
    finally:
        shutil.rmtree(base)


class World(Daemon):
    """A daemon, or only its home, with nothing in it."""

    def __init__(self, **options):
        super().__init__(approved=False, **options)
        self.fault = None

    def environment(self):
        return {**super().environment(), **({"KAGED_STORE_FAULT": self.fault} if self.fault else {})}

    def install(self, folder, *options):
        code, out, err = self.cli("plugin", "install", *YES, *options, folder, timeout=60)
        assert code == 0, err
        return out

    def version(self, name="good-bash"):
        """What local.toml says; None: nothing."""
        try:
            with open(os.path.join(self.home, "local.toml")) as file:
                found = re.search(rf'\[plugins\.{name}\]\ninstalled = "(.*)"', file.read())
        except FileNotFoundError:
            found = None
        return found and found.group(1)

    def assert_whole(self, test, name="good-bash"):
        """Files, local.toml and the approved hash agree, and nothing is left over."""
        versions = os.path.join(self.home, "plugins/.store/versions")
        kept = [entry for entry in (os.listdir(versions) if os.path.isdir(versions) else [])
                if entry.startswith(name + "-")]
        test.assertEqual(len(kept), 1 if self.version(name) else 0, kept)
        if self.version(name):
            with open(os.path.join(versions, kept[0], "kaged-plugin.yaml")) as file:
                test.assertIn(f"version: {self.version(name)}\n", file.read())
        own = os.path.join(self.home, "plugins/.store")
        test.assertNotIn("journal", os.listdir(own))
        test.assertEqual(os.listdir(os.path.join(own, "quarantine")), [])


class Running(FlowTest):
    """A daemon that runs."""

    def test_an_installed_plugin_is_there_at_once_and_disabled(self):
        with sources() as make, World() as daemon:
            daemon.install(make("1.0.0"))
            self.assertEqual(daemon.status("good-bash")["state"], "disabled")
            self.assertEqual(daemon.cli("plugin", "enable", "good-bash")[0], 0)
            self.assertEqual(daemon.call("good-bash", "good.echo", {"n": 1})["n"], 1)
            event, = daemon.audit("plugin.installed")
            self.assertEqual((event["version"], event["local"]), ("1.0.0", True))
            daemon.assert_whole(self)

    def test_an_upgrade_restarts_what_runs(self):
        with sources() as make, World() as daemon:
            daemon.install(make("1.0.0"))
            daemon.act("good-bash", "enable")
            before = daemon.wait_state("good-bash", "running")
            out = daemon.install(make("2.0.0"))
            self.assertIn("2.0.0", out)
            after = daemon.status("good-bash")
            self.assertEqual((after["state"], after["version"]), ("running", "2.0.0"))
            self.assertNotEqual(after["pid"], before["pid"])
            event, = daemon.audit("plugin.upgraded")
            self.assertEqual((event["old_version"], event["new_version"]), ("1.0.0", "2.0.0"))
            self.assertEqual(event["capability_diff"], {"added": [], "removed": []})
            daemon.assert_whole(self)

    def test_an_upgrade_that_does_not_start_is_taken_back(self):
        with sources() as make, World(config={"limits.restart_failures": 1}) as daemon:
            daemon.install(make("1.0.0"))
            daemon.act("good-bash", "enable")
            daemon.wait_state("good-bash", "running")
            code, _, err = daemon.cli("plugin", "install", *YES, make("2.0.0", says="1.9.9"))
            self.assertNotEqual(code, 0)
            self.assertIn("1.0.0", err)
            status = daemon.wait_state("good-bash", "running")
            self.assertEqual(status["version"], "1.0.0")
            self.assertEqual(daemon.version(), "1.0.0")
            event, = daemon.audit("plugin.upgrade_reverted")
            self.assertEqual((event["old_version"], event["new_version"]), ("1.0.0", "2.0.0"))
            self.assertIn("1.9.9", event["reason"])
            self.assertEqual(daemon.audit("plugin.upgraded"), [])
            daemon.assert_whole(self)

    def test_an_upgrade_of_what_does_not_run_leaves_it_so(self):
        with sources() as make, World() as daemon:
            daemon.install(make("1.0.0"))
            daemon.install(make("2.0.0", says="1.9.9"))
            status = daemon.status("good-bash")
            self.assertEqual((status["state"], status["version"]), ("disabled", "2.0.0"))
            daemon.assert_whole(self)

    def test_uninstalling_stops_it_and_forgets_it(self):
        with sources() as make, World() as daemon:
            daemon.install(make("1.0.0"))
            daemon.act("good-bash", "enable")
            pid = daemon.wait_state("good-bash", "running")["pid"]
            code, _, err = daemon.cli("plugin", "uninstall", "good-bash")
            self.assertEqual(code, 0, err)
            self.assertFalse(os.path.exists(f"/proc/{pid}"))
            self.assertEqual(daemon.api("GET", "/plugins/good-bash")[0], 404)
            self.assertEqual(daemon.audit("plugin.uninstalled")[0]["version"], "1.0.0")
            daemon.assert_whole(self)
            daemon.install(make("1.0.0"))
            self.assertEqual(daemon.status("good-bash")["state"], "disabled")

    def test_uninstalling_keeps_storage_only_if_asked_to(self):
        with World() as daemon:
            for keeps in (["--keep-storage"], []):
                daemon.install(os.path.join(PLUGINS, "stores"))
                daemon.act("stores", "enable")
                daemon.wait_state("stores", "running")
                daemon.call("stores", "store.ask", {"request": {
                    "method": "exec", "params": {"sql": "CREATE TABLE t (a)"}}})
                code, out, err = daemon.cli("--json", "plugin", "uninstall", "stores", *keeps)
                self.assertEqual(code, 0, err)
                kept = re.findall(r"[^\"]*stores\.export-[^\"]*\.db", out)
                self.assertEqual(len(kept), len(keeps), out)
                left = os.listdir(os.path.join(daemon.home, "state/storage"))
                self.assertEqual([name for name in left if ".export-" not in name], [])
            self.assertEqual(len(left), 1)

    def test_a_plugin_that_is_being_changed_is_left_alone_by_others(self):
        with sources() as make, World() as daemon:
            daemon.install(make("1.0.0"))
            daemon.act("good-bash", "enable")
            daemon.wait_state("good-bash", "running")
            at_once([lambda: daemon.cli("plugin", "install", *YES, make("2.0.0"), timeout=60)] +
                    [lambda: daemon.api("POST", "/plugins/good-bash/restart")] * 4 +
                    [lambda: daemon.api("POST", "/reload")] * 2)
            wait_for(lambda: daemon.status("good-bash")["state"] == "running", "a running plugin")
            daemon.assert_whole(self)


class CutShort(FlowTest):
    """A process that is killed at each step, as far as there are steps."""

    STEPS = 20

    def kill_at_each_step(self, world, run, prepare):
        """run() is cut short at step after step; *prepare* makes what was there before."""
        for step in range(1, self.STEPS):
            with self.subTest(step=step):
                prepare()
                world.fault = f"kill:{step}"
                lived = run()
                world.fault = None
                code, _, err = world.cli("plugin", "promote", "good-bash")  # any command recovers
                self.assertIn(code, (1, 4), err)
                world.assert_whole(self)
                if lived:
                    self.assertGreater(step, 4)
                    return
        self.fail("there is no end of steps")

    def test_install_without_a_daemon(self):
        world = World()
        with sources() as make, contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(world.discard)
            source = make("1.0.0")
            self.kill_at_each_step(
                world, lambda: world.cli("plugin", "install", *YES, source)[0] == 0,
                lambda: world.version() and world.cli("plugin", "uninstall", "good-bash"))

    def test_uninstall_without_a_daemon(self):
        world = World()
        with sources() as make, contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(world.discard)
            source = make("1.0.0")
            self.kill_at_each_step(
                world, lambda: world.cli("plugin", "uninstall", "good-bash")[0] == 0,
                lambda: world.version() or world.install(source))

    def test_upgrade_in_a_daemon(self):
        world = World()
        with sources() as make, contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(world.discard)
            old, new = make("1.0.0"), make("2.0.0")
            world.install(old)
            for step in range(1, self.STEPS):
                with self.subTest(step=step):
                    world.fault = f"kill:{step}"
                    world.start()
                    world.fault = None
                    world.act("good-bash", "enable")
                    world.wait_state("good-bash", "running")
                    code = world.cli("plugin", "install", *YES, new, timeout=60)[0]
                    lived = world.process.poll() is None
                    if not lived:
                        world.process.wait()
                        world.process = None
                        world.start()
                    world.assert_whole(self)
                    status = world.wait_status("good-bash", lambda s: s["state"] == "running", "up")
                    self.assertEqual(status["version"], world.version())
                    self.assertEqual(world.audit("plugin.drifted"), [])
                    if lived:
                        self.assertEqual(code, 0)
                        self.assertGreater(step, 4)
                        world.stop()
                        return
                    world.install(old)  # the next command works
                    world.stop()
            self.fail("there is no end of steps")


class AtOnce(FlowTest):
    def test_two_installs_are_one_after_the_other(self):
        world = World()
        with sources() as make, contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(world.discard)
            one, other = make("1.0.0"), make("1.0.0", name="other")
            results = at_once([lambda: world.cli("plugin", "install", *YES, one, timeout=60),
                               lambda: world.cli("plugin", "install", *YES, other, timeout=60),
                               lambda: world.cli("plugin", "install", *YES, one, timeout=60)])
            codes = [result[0] for result in results]
            self.assertEqual(codes[1], 0, results)
            self.assertIn(0, (codes[0], codes[2]), results)
            for name in ("good-bash", "other"):
                world.assert_whole(self, name)
            self.assertEqual((world.version(), world.version("other")), ("1.0.0", "1.0.0"))


class FullDisk(FlowTest):
    @unittest.skipUnless(os.getuid() == 0, "only root mounts a small file system")
    def test_a_full_disk_leaves_the_store_whole_and_the_next_command_works(self):
        world = World()
        with sources() as make, contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(world.discard)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", world.home],
                           check=True)
            stack.callback(subprocess.run, ["umount", "-l", world.home], check=True)
            os.mkdir(os.path.join(world.home, "plugins"))
            world.write_config()
            world.install(make("1.0.0"))
            filler = os.path.join(world.home, "filler")
            for room in range(0, 120, 8):  # so many kilobytes are left
                with self.subTest(room=room):
                    self.fill(world.home, filler, room * 1024)
                    world.cli("plugin", "install", *YES, make(f"2.0.{room}"), timeout=60)
                    os.unlink(filler)
                    self.assertEqual(world.cli("plugin", "promote", "good-bash")[0], 1)
                    world.assert_whole(self)

    def fill(self, home, filler, room):
        left = os.statvfs(home)
        with open(filler, "wb") as file:
            file.write(b"x" * max(left.f_bavail * left.f_bsize - room, 0))


if __name__ == "__main__":
    main()
