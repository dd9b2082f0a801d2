"""The installed package does the same where its libraries are shared ones: a build of its own, below the one under test."""
import os
import pathlib
import subprocess

import install_test
import programs


class InstalledShared(install_test.Installed):
    @classmethod
    def setUpClass(cls):
        build = programs.bin_folder.parent / "shared"
        subprocess.run([install_test.CMAKE, "-G", "Ninja", "-S", programs.SOURCE, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                        "-DBUILD_SHARED_LIBS=ON", "-DRANNC_TESTS=OFF"], check=True)
        subprocess.run([install_test.CMAKE, "--build", build, "--parallel", str(os.cpu_count())], check=True)
        programs.bin_folder = build / "bin"

    def install(self):
        prefix = super().install()
        libraries = {path.name for path in pathlib.Path(prefix).rglob("librannc_*")}
        self.assertLessEqual({"librannc_compiler.so", "librannc_runtime.so"}, libraries)
        self.assertEqual([name for name in libraries if name.endswith(".a")], [])
        return prefix


if __name__ == "__main__":
    programs.main()
