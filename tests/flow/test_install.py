"""What make install puts where, and that it works from there."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

from harness import BUILD, ROOT, FlowTest, main

SYSTEMD = ["lib/systemd/system/kaged.service", "lib/systemd/system/kaged.socket",
           "lib/systemd/user/kaged.service", "lib/systemd/user/kaged.socket"]
FILES = ["bin/kaged", "libexec/kaged/kaged-spawner", "libexec/kaged/kaged-cage-init",
         "libexec/kaged/kaged-storage", "libexec/kaged/kaged-unpack",
         "libexec/kaged/kaged-model", "libexec/kaged/kaged-lua", "libexec/kaged/kaged-remote",
         "libexec/kaged/kaged-fetch", "libexec/kaged/kaged-snapshot", "libexec/kaged/kaged-link",
         "lib/kaged/system-plugins/webhook-notify.so", "include/kaged/system-plugin.h",
         "share/kaged/apparmor/kaged-spawner", "lib/sysusers.d/kaged.conf", "lib/tmpfiles.d/kaged.conf",
         "include/kaged-plugin.h", "share/kaged/schema/plugin-manifest-v1.json",
         "share/kaged/sdk/python/kaged_sdk/plugin.py", "share/kaged/scripts/rewind.lua",
         "share/kaged/scripts/todo.lua", "share/kaged/templates/shell/plugin.sh", "share/doc/kaged/config.toml",
         "share/man/man1/kaged.1", "share/man/man8/kaged.8",
         "share/bash-completion/completions/kaged", "share/zsh/site-functions/_kaged",
         "share/fish/vendor_completions.d/kaged.fish", *SYSTEMD]


@unittest.skipUnless(os.access(os.path.join(BUILD, "meson-logs"), os.W_OK),
                     "meson notes what it installs in the build folder, which is another user's")
class Install(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet",
                               "--destdir", cls.base], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.prefix = os.path.join(cls.base, "usr/local")
        cls.kaged = os.path.join(cls.prefix, "bin/kaged")
        os.chmod(cls.base, 0o755)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base)

    def test_everything_is_there(self):
        for file in FILES:
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, file)), file)

    def test_make_build_has_the_programs_that_are_installed(self):
        with open(os.path.join(ROOT, "Makefile")) as file:
            line = next(line for line in file if line.startswith("PROGRAMS = "))
        helpers = os.listdir(os.path.join(self.prefix, "libexec/kaged"))
        self.assertEqual(sorted(line.split()[2:]), sorted(["kaged", *helpers]))

    def test_apparmor_takes_the_profile_which_is_for_the_spawner_alone(self):
        profile = os.path.join(self.prefix, "share/kaged/apparmor/kaged-spawner")
        with open(profile) as file:
            rules = [line for line in file if not line.startswith("#")]
        self.assertEqual([line.split()[1:3] for line in rules if line.startswith("profile")],
                         [["kaged-spawner", "/usr/local/libexec/kaged/kaged-spawner"]])
        self.assertNotIn("bwrap", "".join(rules))
        parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin")
        if parser is None or not os.path.exists("/etc/apparmor.d/abi/4.0"):
            self.skipTest("AppArmor 4 or newer is not installed (package apparmor)")
        done = subprocess.run([parser, "--skip-kernel-load", "--skip-cache", profile],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nothing_is_writable_by_others(self):
        for folder, _, files in os.walk(self.prefix):
            for name in files:
                mode = os.lstat(os.path.join(folder, name)).st_mode
                self.assertEqual(stat.S_IMODE(mode) & 0o7022, 0, name)

    def test_installed_program_runs_a_plugin(self):
        home = os.path.join(self.base, "h")
        os.mkdir(home, mode=0o700)

        def kaged(*arguments):
            done = subprocess.run([self.kaged, "--home", home, *arguments], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        kaged("start")
        try:
            kaged("plugin", "install", "--yes", "echo")
            kaged("plugin", "enable", "echo")
            self.assertIn("hi", kaged("plugin", "call", "echo", "echo.say", '{"text":"hi"}'))
        finally:
            kaged("stop")

    def test_plugins_that_come_along_are_found_by_their_name(self):
        home = os.path.join(self.base, "h2")
        os.mkdir(home, mode=0o700)
        staged = os.listdir(os.path.join(ROOT, "build/share/kaged/plugins"))
        self.assertLessEqual({"echo", "notes", "ollama", "presets", "smart-compactor"}, set(staged))
        for name in sorted(staged):  # memory-markdown where npm had a compiler for it
            done = subprocess.run([self.kaged, "--home", home, "plugin", "install", "--yes", name],
                                  cwd=self.base, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(os.path.join(self.prefix, "share/kaged/plugins", name), done.stdout)
        done = subprocess.run([self.kaged, "--home", home, "plugin", "install", "--yes", "weather"],
                              cwd=self.base, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("hint: with kaged came echo, ", done.stderr)

    def test_installed_program_writes_a_plugin(self):
        folder = os.path.join(self.base, "greeter")
        for words in (["new", "greeter", "--lang", "shell", "--dir", folder], ["validate", folder]):
            done = subprocess.run([self.kaged, "plugin", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_units_are_as_systemd_wants_them(self):
        for kind in ("system", "user"):
            folder = os.path.join(self.base, kind)
            os.mkdir(folder)
            units = [unit for unit in SYSTEMD if f"/{kind}/" in unit]
            for unit in units:
                with open(os.path.join(self.prefix, unit)) as file:
                    text = file.read().replace("/usr/local/bin/kaged", self.kaged)
                with open(os.path.join(folder, os.path.basename(unit)), "w") as file:
                    file.write(text)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--{kind}",
                                   *map(os.path.basename, units)], capture_output=True, text=True,
                                  env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":",
                                       "XDG_RUNTIME_DIR": self.base}, timeout=60)
            ours = [line for line in done.stderr.splitlines() if "kaged" in line]
            self.assertEqual(ours, [], kind)


if __name__ == "__main__":
    main()
