"""What the Python package requires is what tools/setup-versions pins."""
import re
import tomllib

import programs


class Pins(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        text = (programs.SOURCE / "tools" / "setup-versions").read_text()
        self.pinned = dict(re.findall(r"^RANNC_(\w+)_VERSION=(\S+)$", text, re.MULTILINE))
        self.package = tomllib.loads((programs.SOURCE / "pyproject.toml").read_text())

    def test_TheBuildRequiresWhatIsPinned(self):
        expected = {f"scikit-build-core=={self.pinned['SCIKIT_BUILD_CORE']}", f"nanobind=={self.pinned['NANOBIND']}"}
        self.assertEqual(set(self.package["build-system"]["requires"]), expected)

    def test_ThePackageRequiresTheLibTorchThatItLinks(self):
        self.assertEqual(self.package["project"]["dependencies"], [f"torch=={self.pinned['TORCH']}"])

    def test_TheVersionIsThatOfTheBuild(self):
        [provider] = self.package["tool"]["dynamic-metadata"]
        found = re.search(provider["regex"], (programs.SOURCE / provider["input"]).read_text())
        self.assertRegex(found["value"], r"^\d+\.\d+\.\d+$")

    def test_EveryProgramHasAConsoleScript(self):
        listed = re.search(r"set\(programs ([^)]*)\)", (programs.SOURCE / "tools" / "python" / "wheel.cmake").read_text())[1].split()
        scripts = self.package["project"]["scripts"]
        self.assertEqual(set(scripts), set(listed))
        starters = (programs.SOURCE / "tools" / "python" / "rannc_programs.py").read_text()
        for name, starter in scripts.items():
            function = name.removeprefix("rannc-")
            self.assertEqual(starter, f"rannc_programs:{function}")
            self.assertIn(f'def {function}() -> NoReturn:\n    _execute("{name}")\n', starters)


if __name__ == "__main__":
    programs.main()
