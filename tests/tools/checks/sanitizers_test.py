"""A small part of the tests under the sanitizers' presets, and the proof that these find what is planted.

Arguments: cmake, and a build folder, below which the presets get theirs. Without LibTorch, whose threads and allocations are not
instrumented; whole presets are built by tools/build asan-ubsan and tools/build tsan.
"""
import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
# What runs in threads, or counts on what another process does.
THREADS = ["runtime_executor_test", "ir_send_completion_test", "runtime_store_test", "partition_schedule_simulate_test",
           "tools_launcher_test"]
# What reads a user's files, and what counts bytes by hand.
MEMORY = ["ir_text_test", "ir_dim_bounds_test", "runtime_safetensors_test", "partition_formats_test", "partition_contiguous_split_test",
          *THREADS]
MUTATIONS = 20000  # of each target; the suite makes 2,000 without sanitizers
FOUND = {"race": "ThreadSanitizer: data race", "address": "AddressSanitizer: heap-buffer-overflow",
         "overflow": "signed integer overflow"}


class Sanitizers(unittest.TestCase):
    def build(self, preset, targets):
        folder = BUILD / "sanitized" / preset
        subprocess.run([CMAKE, "--preset", preset, "-S", SOURCE, "-B", folder, "-DRANNC_TORCH=OFF"], cwd=SOURCE, check=True)
        subprocess.run([CMAKE, "--build", folder, "--parallel", str(os.cpu_count()), "--target", "sanitizer_probe", *targets],
                       check=True)
        return folder / "tests"

    def check(self, preset, targets, planted):
        programs = self.build(preset, targets)
        for mistake in planted:
            done = subprocess.run([programs / "sanitizer_probe", mistake], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, f"{preset} does not find: {mistake}")
            self.assertIn(FOUND[mistake], done.stderr)
        for target in targets:
            with self.subTest(preset=preset, program=target):
                done = subprocess.run([programs / target], capture_output=True, text=True, cwd=programs)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-8000:])

    def test_threads(self):
        self.check("tsan", THREADS, ["race"])

    def test_mutated_models(self):
        """Each ends in a diagnostic or in a graph that verifies, within its memory; fuzz_onnx ends the process otherwise."""
        programs = self.build("asan-ubsan", ["fuzz_onnx", "fuzz_external_data", "fuzz_graph", "fuzz_store"])
        made, own = programs / "frontend/fuzz/seeds", SOURCE / "tests/frontend/fuzz/seeds"
        models = [*made.glob("onnx/*.onnx"), *own.glob("*.onnx"), *SOURCE.glob("tests/data/*/model.onnx")]
        frames = SOURCE / "tests/runtime/transport/fuzz/seeds"
        for target, seeds in {"fuzz_onnx": models, "fuzz_external_data": own.glob("*.external"), "fuzz_graph": made.glob("graph/*.rir"),
                              "fuzz_store": frames.glob("*.frames")}.items():
            with self.subTest(program=target):
                done = subprocess.run([programs / target, str(MUTATIONS), *sorted(seeds)], capture_output=True, text=True, cwd=programs)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-8000:])
                self.assertIn(f"of {MUTATIONS} mutations", done.stdout)

    def test_memory(self):
        self.check("asan-ubsan", MEMORY, ["address", "overflow"])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} CMAKE BUILD-FOLDER [unittest arguments]")
    CMAKE, BUILD = (pathlib.Path(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
