"""Tests whose cases were all skipped report skipped to CTest. Arguments: skip_probe and the build folder."""
import pathlib
import re
import subprocess
import sys
import unittest


class SkipStatus(unittest.TestCase):
    def status(self, cases):
        return subprocess.run([PROBE, f"--gtest_filter={cases}"], capture_output=True).returncode

    def test_only_skipped(self):
        self.assertEqual(self.status("*.Skips"), 77)
        self.assertEqual(self.status("*.Skips*"), 77)

    def test_something_passed(self):
        self.assertEqual(self.status("*.Passes"), 0)
        self.assertEqual(self.status("*.Passes:*.Skips*"), 0)

    def test_a_failure_is_never_hidden(self):
        self.assertEqual(self.status("*.Fails"), 1)
        self.assertEqual(self.status("*.Fails:*.Skips*"), 1)
        self.assertEqual(self.status("*"), 1)

    def test_every_program_of_tests_says_so(self):
        text = "".join(path.read_text() for path in sorted(pathlib.Path(BUILD, "tests").rglob("CTestTestfile.cmake")))
        names = re.findall(rf'^add_test\(\[=\[(?!fuzz_)(\w+)\]=\] "{re.escape(BUILD)}/tests/\w+"', text, re.MULTILINE)
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertRegex(text, rf'set_tests_properties\(\[=\[{name}\]=\] PROPERTIES .*SKIP_RETURN_CODE "77"')


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} SKIP-PROBE BUILD-FOLDER [unittest arguments]")
    PROBE, BUILD = (sys.argv.pop(1) for _ in range(2))
    unittest.main()
