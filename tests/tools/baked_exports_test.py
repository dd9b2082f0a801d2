"""Exports made for 1, 2 and 7 samples by both exporters give the numbers of their dynamic twins at any; skipped without PyTorch."""
import subprocess
import sys

import programs

try:
    import onnxscript  # the newer exporter needs it
    import torch
    import safetensors

    import baked_families
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)


class BakedExports(programs.ProgramTest):
    in_process = programs.Resident.PROGRAMS

    def folder(self, family, exporter, samples):
        path = self.scratch / f"{family}-{exporter}-{samples}"
        made = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder",
                               f"{baked_families.__file__}:{family}", path, "--exporter", exporter, "--batch-in-file", str(samples)],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def test_families(self):
        for family in (each.__name__ for each in baked_families.FAMILIES):
            for exporter in ("dynamo", "legacy"):
                for samples in (1, 2, baked_families.SAMPLES):
                    with self.subTest(family=family, exporter=exporter, samples=samples):
                        path = self.folder(family, exporter, samples)
                        done = self.succeed("rannc-check", path, "--stages", "1,2", "--micro-batches", f"1,3,{baked_families.SAMPLES}")
                        self.assertIn("6 passed, 0 failed", done.stdout)


if __name__ == "__main__":
    programs.main()
