"""The SDK for TypeScript: its own tests, and what npm packs of it."""
import os

from harness import ROOT, FlowTest, main
from test_plugin_new import run, share


class Package(FlowTest):
    @classmethod
    def setUpClass(cls):
        share("ts")

    def test_sdk_passes_its_own_tests(self):
        done = run("npm", "test", "--silent", cwd=os.path.join(ROOT, "build/sdk-ts/sdk/ts"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_package_has_code_types_and_nothing_else(self):
        package = os.path.join(ROOT, "build/share/kaged/sdk/ts/node_modules/@kaged/plugin-sdk")
        self.assertEqual(sorted(os.listdir(package)),
                         ["LICENSE", "README.md", "dist", "package.json"])
        files = os.listdir(os.path.join(package, "dist"))
        self.assertNotIn("test", files)
        for file in ("index.js", "index.d.ts", "testing.js", "testing.d.ts"):
            self.assertIn(file, files)

    def test_npm_installs_what_was_packed(self):
        """Without a network: package.json names the packed file."""
        listed = run("tar", "tzf", "build/share/kaged/sdk/ts/vendor/kaged-plugin-sdk.tgz")
        self.assertIn("package/dist/index.js", listed.stdout.splitlines())


if __name__ == "__main__":
    main()
