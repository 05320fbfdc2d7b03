"""Which packages scripts/setup asks apt for: of each entry what this release has, and no service."""
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import ROOT, main

# Stand-ins for apt, which would change this machine: they read what they know from files.
COMMANDS = {
    "dpkg-query": 'for package; do :; done; grep -qx "$package" "$STATE/installed" && echo "ok installed"',
    "apt-cache": 'echo "$2:"; grep -qx "$2" "$STATE/known" && echo "  Candidate: 1" '
                 '|| echo "  Candidate: (none)"',
    "apt-get": 'echo "$@" >>"$STATE/asked"',
    "sudo": '"$@"',
}


class Setup(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        for folder in ("bin", "scripts", "packaging"):
            os.mkdir(os.path.join(self.base, folder))
        shutil.copy(os.path.join(ROOT, "scripts/setup"), os.path.join(self.base, "scripts"))
        for name, text in COMMANDS.items():
            self.write("bin/" + name, "#!/bin/sh\n" + text + "\n")
            os.chmod(os.path.join(self.base, "bin", name), 0o755)

    def write(self, name, text):
        with open(os.path.join(self.base, name), "w") as file:
            file.write(text)

    def asked(self, entries, known=(), installed=()):
        """What apt-get was asked for, command by command."""
        for name, lines in (("packaging/packages.txt", ["[some]", *entries]), ("known", known),
                            ("installed", installed), ("asked", ())):
            self.write(name, "".join(line + "\n" for line in lines))
        done = subprocess.run([os.path.join(self.base, "scripts/setup"), "some"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": f"{self.base}/bin:/usr/bin:/bin", "STATE": self.base})
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.base, "asked")) as file:
            return file.read().splitlines()

    def installs(self, *arguments):
        update, install = self.asked(*arguments)
        self.assertTrue(update.startswith("update"))
        return install.split("--no-install-recommends ")[1].split()

    def test_the_first_that_the_release_has_is_installed(self):
        self.assertEqual(self.installs(["kg-new|kg-old"], ["kg-old"]), ["kg-old"])
        self.assertEqual(self.installs(["kg-new|kg-old"], ["kg-old", "kg-new"]), ["kg-new"])
        self.assertEqual(self.installs(["kg-new|kg-old", "kg-a"], ["kg-a"]), ["kg-new", "kg-a"])

    def test_apt_is_not_asked_for_what_is_there(self):
        self.assertEqual(self.asked(["kg-new|kg-old", "kg-a"], [], ["kg-old", "kg-a"]), [])

    def test_what_the_release_does_not_have_can_be_done_without(self):
        self.assertEqual(self.asked(["kg-a?"]), [])
        self.assertEqual(self.installs(["kg-a?", "kg-b"], ["kg-b"]), ["kg-b"])
        self.assertEqual(self.installs(["kg-a?"], ["kg-a"]), ["kg-a"])

    def test_llhttp_without_its_sources_does_not_serve(self):
        asked = self.asked(["libllhttp-dev|node-llhttp"], ["libllhttp-dev"], ["node-llhttp"])
        self.assertEqual(asked == [], os.path.exists("/usr/share/llhttp/api.c"))

    def test_nothing_that_the_tests_need_starts_a_service(self):
        with open(os.path.join(ROOT, "packaging/packages.txt")) as file:
            wanted = file.read().partition("[test]\n")[2].partition("\n[")[0].split()
        self.assertIn("promtool?", wanted)
        self.assertNotIn("prometheus", "|".join(wanted).split("|"))


if __name__ == "__main__":
    main()
