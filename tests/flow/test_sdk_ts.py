"""The SDK for TypeScript: its own tests, and what npm packs of it."""
import os
import shutil
import tempfile

from harness import ROOT, FlowTest, main
from test_plugin_new import run, share

SHARED = os.path.join(ROOT, "build/share/kaged/sdk/ts")
PACKAGE = "node_modules/@kaged/plugin-sdk"


class Package(FlowTest):
    @classmethod
    def setUpClass(cls):
        share("ts")

    def test_sdk_passes_its_own_tests(self):
        done = run("npm", "test", "--silent", cwd=os.path.join(ROOT, "build/sdk-ts/sdk/ts"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_package_has_code_types_and_nothing_else(self):
        package = os.path.join(SHARED, PACKAGE)
        self.assertEqual(sorted(os.listdir(package)),
                         ["LICENSE", "README.md", "dist", "package.json"])
        files = os.listdir(os.path.join(package, "dist"))
        self.assertNotIn("test", files)
        for file in ("index.js", "index.d.ts", "testing.js", "testing.d.ts"):
            self.assertIn(file, files)

    def test_npm_installs_what_was_packed_without_a_network(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(SHARED, "vendor"), os.path.join(folder, "vendor"))
            done = run("npm", "install", "--offline", "--no-audit", "--no-fund",
                       "./vendor/kaged-plugin-sdk.tgz", cwd=folder,
                       npm_config_cache=os.path.join(folder, "cache"))
            self.assertEqual(done.returncode, 0, done.stdout)
            compared = run("diff", "-r", os.path.join(SHARED, PACKAGE), os.path.join(folder, PACKAGE))
            self.assertEqual(compared.stdout, "")


if __name__ == "__main__":
    main()
