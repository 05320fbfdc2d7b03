"""All SDKs against one transcript of good, odd and hostile messages; sdk/conformance tells more."""
import os
import subprocess

from harness import BUILD, ROOT, FlowTest, main


class Conformance(FlowTest):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([os.path.join(ROOT, "sdk/conformance/run")], text=True, timeout=280,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              env={**os.environ, "KAGED_BUILD": BUILD})
        cls.code, cls.lines = done.returncode, done.stdout.splitlines()

    def check(self, language):
        failures = [line for line in self.lines if line.startswith(f"not ok {language}: ")]
        self.assertEqual(failures, [])
        if not any(line.startswith(f"ok {language}: ") for line in self.lines):
            reason = next((line for line in self.lines if line.startswith(f"skip {language}: ")),
                          f"{language} was not played")
            if os.environ.get("CI") == "true":
                self.fail(reason)
            self.skipTest(reason)

    def test_python_does_what_the_transcript_says(self):
        self.check("python")

    def test_shell_does_what_the_transcript_says(self):
        self.check("shell")

    def test_typescript_does_what_the_transcript_says(self):
        self.check("ts")

    def test_c_does_what_the_transcript_says(self):
        self.check("c")

    def test_all_of_them_do_the_same(self):
        self.assertEqual([line for line in self.lines if " differ: " in line], [])
        self.assertEqual(self.code, 0, self.lines[-1:])


if __name__ == "__main__":
    main()
