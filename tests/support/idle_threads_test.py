"""Threads of LibTorch sleep while they wait, in every test that runs them. Argument: the build folder."""
import pathlib
import re
import sys
import unittest

# Programs without LibTorch.
WITHOUT = r"check_|fuzz_|passes_golden|support_\w+_threads_test|support_skip_status_test|codegen_native_variants_"


class IdleThreads(unittest.TestCase):
    def test_every_other_test_sets_the_wait_policy(self):
        text = "".join(path.read_text() for path in sorted(pathlib.Path(BUILD, "tests").rglob("CTestTestfile.cmake")))
        names = [name for name in re.findall(r"^add_test\(\[=\[(\w+)\]=\]", text, re.MULTILINE) if not re.match(WITHOUT, name)]
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertRegex(text, rf'set_tests_properties\(\[=\[{name}\]=\] PROPERTIES .*ENVIRONMENT_MODIFICATION "OMP_WAIT_POLICY=set:passive"')


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} BUILD-FOLDER [unittest arguments]")
    BUILD = sys.argv.pop(1)
    unittest.main()
