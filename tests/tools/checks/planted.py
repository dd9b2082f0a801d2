"""Support for the self-tests of tools/repository: a small repository in a temporary folder, spoiled on purpose."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[3] / "tools"
CHECKS = TOOLS / "repository"


class PlantedTest(unittest.TestCase):
    """Runs one check on a clean repository plus planted files; subclasses set CHECK and CLEAN (path -> content)."""

    CHECK = ""
    CLEAN = {}

    def run_on(self, planted):
        """Exit status and output of the check; a planted content of None removes the file."""
        with tempfile.TemporaryDirectory() as folder:
            for path, content in {**self.CLEAN, **planted}.items():
                if content is None:
                    continue
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            done = subprocess.run([sys.executable, CHECKS / self.CHECK, folder], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def expect_green(self, planted):
        status, output = self.run_on(planted)
        self.assertEqual(status, 0, output)

    def expect_red(self, planted, rule, *names):
        """The check fails with exactly one line, which carries the rule and names what was planted."""
        status, output = self.run_on(planted)
        self.assertEqual(status, 1, output)
        lines = output.strip().splitlines()
        self.assertEqual(len(lines), 1, output)
        for name in (f"[{rule}]", *names):
            self.assertIn(name, lines[0])
