"""tools/demo builds the programs that it runs, and no test. Argument: the build folder, made by Ninja."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools"
STUB = "#!/bin/sh\necho $(basename $0) $*\n"


def inputs(*targets):
    """Every file and step that these targets are made from."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", *targets], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


class DemoTargets(unittest.TestCase):
    """Works on copies of the scripts beside stubs of what they call, in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rannc-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.tools = self.root / "tools"
        self.tools.mkdir()
        for name in ("setup-paths", "setup-versions"):
            shutil.copy(TOOLS / name, self.tools / name)

    def stub(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB)
        path.chmod(0o755)

    def run_copy(self, name, *arguments):
        """What a script prints in a cache of its own, in lines of words."""
        shutil.copy(TOOLS / name, self.tools / name)
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.root / "cache")}
        done = subprocess.run([self.tools / name, *arguments], capture_output=True, text=True, check=True, env=environment)
        return [line.split() for line in done.stdout.splitlines()]

    def calls(self):
        """What tools/demo calls, in order."""
        self.stub(self.tools / "build")
        self.stub(self.tools / "train-gpt")
        return self.run_copy("demo", "--steps=3")

    def test_build_takes_targets(self):
        paths = dict(line[0].split("=") for line in self.run_copy("setup-paths"))
        self.stub(pathlib.Path(paths["cmake"]))
        self.stub(self.tools / "setup")
        self.assertIn("--target a b", " ".join(self.run_copy("build", "release", "a", "b")[-2]))
        self.assertNotIn("--target", " ".join(self.run_copy("build")[-2]))

    def test_builds_what_it_runs(self):
        build, train = self.calls()
        self.assertEqual(train, ["train-gpt", "--steps=3"])
        self.assertEqual(build[:2], ["build", "release"])
        run = re.findall(r"\$bin/([\w-]+)", (TOOLS / "train-gpt").read_text())
        self.assertEqual(sorted(build[2:]), sorted(set(run)))

    def test_builds_no_test(self):
        needed = inputs(*self.calls()[0][2:])
        sources = re.compile(r"runtime/train/trainer\.cc$|rannc_runtime\.dir/Unity/")
        self.assertTrue(any(sources.search(name) for name in needed), "the listing knows sources")
        tests = [name for name in needed if re.search(r"(^|/)tests/", name) or "gtest" in name]
        self.assertEqual(tests, [])
        self.assertTrue(any(re.search(r"(^|/)tests/", name) for name in inputs("all")), "the listing knows tests")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} BUILD-FOLDER [unittest arguments]")
    BUILD = sys.argv.pop(1)
    unittest.main()
