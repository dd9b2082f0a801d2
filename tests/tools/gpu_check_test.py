"""tools/gpu-check prepares a folder of at most 48 MiB, whose parts pass on the test device and fail where a number is wrong."""
import argparse
import functools
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import programs

SCRIPT = programs.SOURCE / "tools" / "gpu-check"
sys.path.insert(0, str(SCRIPT.parent))
sys.dont_write_bytecode = True
from gpu_check import correct, models, report, sides  # noqa: E402

MOST_BYTES = 48 << 20
GPT = next(group for group in models.GROUPS if group.name == "gpt-bf16")

# Stands for PyTorch's side: it takes a while for a step, has the losses of a file, and hangs in the modes that another file lists.
FAKE_RIVAL = """import json, pathlib, sys, time
mode = sys.argv[sys.argv.index("--mode") + 1]
here = pathlib.Path(__file__).parent
if mode in (here / "hanging").read_text():
    time.sleep(1000)
losses = iter(json.loads((here / "losses").read_text()) + [1.0] * 1000)
print("ready contiguous_format", flush=True)
for line in sys.stdin:
    if line == "profile\\n":
        print(json.dumps({"seconds": 0.01, "kernels": {"gemm": [0.006, 4], "copy": [0.001, 2]}}), flush=True)
    elif line == "peak\\n":
        print(json.dumps({"allocated": 100, "reserved": 200}), flush=True)
    else:
        time.sleep(0.002)
        print(f"0.002 0.002 {next(losses)}", flush=True)
"""
# Stands for raw_bundle.py: the bundle of the test has its weights.
FAKE_FILL = """import pathlib, shutil, sys
shutil.copy(pathlib.Path(__file__).parent / "tokens", sys.argv[sys.argv.index("--data") + 1])
"""


def prepare(folder, models_folder, *flags):
    done = subprocess.run([sys.executable, "-B", SCRIPT, "--prepare", folder, "--build", programs.bin_folder.parent, "--models", models_folder,
                           *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def prepared_folder(case, models_folder, *flags):
    """A folder that lives as long as a class, or a module, of tests."""
    scratch = tempfile.TemporaryDirectory(prefix="rannc-test-")
    (case.addModuleCleanup if case is unittest else case.addClassCleanup)(scratch.cleanup)
    folder = pathlib.Path(scratch.name) / "prepared"
    prepare(folder, models_folder, *flags)
    return folder


@functools.cache
def small_folder():
    """Of all tests here, without bundles."""
    return prepared_folder(unittest, programs.DATA, "--compression", "0", "--no-bundles")


def command_of(folder, part, *flags):
    device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
    return [sys.executable, "-B", "-W", "ignore", folder / "gpu-check", "--part", part, "--device", device, "--json", folder / f"{part}.json",
            *map(str, flags)]


def run_part(folder, part, *flags):
    """Exit status, the report and what was printed."""
    (folder / f"{part}.json").unlink(missing_ok=True)
    done = subprocess.run(command_of(folder, part, *flags), capture_output=True, text=True)
    return done.returncode, json.loads((folder / f"{part}.json").read_text()), done.stdout + done.stderr


def flags_for(device="cuda"):
    return argparse.Namespace(device=device, share=(1, 1), jobs=1, no_torch_compile=False, json=None)


class PartTest(unittest.TestCase):
    def passes(self, part, *flags):
        """Rows by name."""
        status, found, text = run_part(self.folder, part, *flags)
        self.assertEqual((status, found["passed"], found["complete"]), (0, True, True), text)
        self.assertTrue(all(row["goal"] and row["budget_s"] > 0 for row in found["rows"]))
        return {row["name"]: row for row in found["rows"]}

    def fails(self, part, *flags):
        status, found, text = run_part(self.folder, part, *flags)
        self.assertEqual((status, found["passed"]), (1, False), text)
        return {row["name"]: row for row in found["rows"] if row["passed"] is False}


class Correct(PartTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = small_folder()

    def test_size(self):
        self.assertLessEqual(sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file() and "payload/" not in str(file)), MOST_BYTES)

    def test_all_parts(self):
        rows = self.passes("correct", "--share", "1/10", "--jobs", 1)
        expected = [name for item in correct.ITEMS[1:] for name, _ in item.rows(report.Run(self.folder, flags_for("test.so"), 1))]
        self.assertEqual(list(rows)[5:], expected)
        self.assertEqual([name for name, row in rows.items() if row["passed"] is None],
                         ["gpt", "gpt: reserved bytes", "gpt, four micro-batches", "gpt, four micro-batches: reserved bytes",
                          "1 stage on one GPU: step ms", "1 stage on one GPU: bytes", "step of two stages by that of one"])
        reserved = rows["gpt: reserved bytes"]
        self.assertGreaterEqual(reserved["value"], reserved["allocated"])
        self.assertGreater(reserved["allocated"], 0)

    def test_wrong_number(self):
        self.passes("equality", "--share", "7/10", "--jobs", 1)  # unpacks
        path = self.folder / "payload" / "models" / "small_mlp" / "reference.safetensors"
        right = path.read_bytes()
        self.addCleanup(path.write_bytes, right)
        tensors = programs.read_safetensors(path)
        kind, shape, data = tensors["grad.file64/0.weight"]
        tensors["grad.file64/0.weight"] = (kind, shape, struct.pack("<d", 1) + data[8:])
        programs.write_safetensors(path, tensors)
        rows = self.fails("equality", "--share", "7/10", "--jobs", 1)
        self.assertEqual(len(rows), 4)  # all but float32, which has a reference of its own
        for row in rows.values():
            self.assertIn("gradient of 0.weight", row["why"])

    def test_end_of_the_time(self):
        rows = self.fails("correct", "--share", "7/10", "--limit", "0")
        self.assertEqual(len(rows), sum(len(item.rows(report.Run(self.folder, flags_for("test.so"), 1))) for item in correct.ITEMS[1:]) - 2 + 5)
        self.assertEqual({row["why"] for row in rows.values()}, {report.OUT_OF_TIME})

    @programs.whole
    def test_programs_of_another_archive(self):
        flags = ["equality", "--share", "7/10", "--limit", "0"]
        self.fails(*flags)
        left = self.folder / "payload" / "left"
        left.write_text("")
        self.fails(*flags)
        self.assertTrue(left.exists())
        (self.folder / "payload" / "digest").write_text("of an older archive")
        self.fails(*flags)
        self.assertFalse(left.exists())

    def test_no_models(self):
        with self.assertRaisesRegex(AssertionError, "has no model with reference.safetensors"):
            prepare(self.folder.parent / "empty", self.folder, "--compression", "0", "--no-bundles")


class Speed(PartTest):
    """Our side is a bundle on the test device, PyTorch's a script that takes turns as PyTorch would."""

    @classmethod
    def setUpClass(cls):
        cls.folder = small_folder()
        subprocess.run(command_of(cls.folder, "faults", "--limit", 0), capture_output=True)  # unpacks
        payload = cls.folder / "payload"
        bench = payload / "bench"
        cls.hanging, cls.losses, tokens = bench / "hanging", bench / "losses", bench / "tokens"
        (bench / "raw_eager.py").write_text(FAKE_RIVAL)
        (bench / "raw_bundle.py").write_text(FAKE_FILL)
        cls.hanging.write_text("")
        model, bundle = cls.folder / "model.onnx", payload / "bundles/gpt-bf16"
        cluster = cls.folder / "one.toml"
        cluster.write_text('name = "one"\n[kind.gpu]\nmemory_bytes = 6e10\nflops = 4e13\nbandwidth = 2e12\ndevice = "cuda"\n'
                           '[[node]]\ndevices = [{ kind = "gpu" }]\n')
        made = [programs.run("rannc-zoo", "gpt", "--layers", 1, "--width", 32, "--context", 8, "-o", model),
                programs.run("rannc-compile", model, "-o", bundle, "--loss", correct.LOSS, "--mini-batch", 4, "--cluster", cluster, "--costs",
                             "analytic", "--stages", 1, "--micro-batches", 1)]
        assert all(done.returncode == 0 for done in made), made
        correct.write_tokens(tokens, 4, 8, 7)
        (bundle / "stage0").unlink()
        facts = {"model": "none", "float_type": "float32", "precision": "highest", "layout": "first", "samples": 4, "optimizer": "adam",
                 "learning_rate": 1e-4, "predicted_ms": 1.0, "predicted_bytes": 1000000, "parameters": 1000}
        (bundle / "bench.json").write_text(json.dumps(facts))
        shutil.copytree(bundle, payload / "bundles/gpt-bf16-unfused")
        # The manifest lists an executable that is gone, as after raw_bundle.py.
        copy = cls.folder / "own.rannc"
        shutil.copytree(bundle, copy)
        subprocess.run([payload / "bin/bench-steps", copy, "--renew-manifest"], check=True)
        side = sides.Side("ours", [payload / "bin/bench-steps", copy, "--data", tokens, "--learning-rate", 1e-4, "--device",
                                   programs.bin_folder.parent / "tests" / "librannc_test_device.so"])
        for _ in range(2):
            side.step()
        side.end()
        cls.own_losses = side.losses

    def setUp(self):
        self.losses.write_text(json.dumps(self.own_losses))
        self.addCleanup(self.hanging.write_text, "")

    def test_group(self):
        rows = self.passes("speed", "--only", "gpt-bf16")
        self.assertEqual(sorted(rows), sorted(name for name, _ in GPT.rows()))
        passed = [name for name, row in rows.items() if row["passed"]]
        self.assertEqual(passed, ["gpt-bf16: losses", "gpt-bf16: recorded"])  # times are not judged here
        for name in ("PyTorch's kernels / ours", "in turns with eager", "in turns with default", "in turns with reduce-overhead",
                     "in turns with the best of torch.compile", "our peak / PyTorch's", "predicted step", "predicted bytes"):
            self.assertGreater(rows[f"gpt-bf16: {name}"]["value"], 0, name)
        self.assertEqual(rows["gpt-bf16: in turns with default"]["rival_ms"], 2)
        self.assertEqual(rows["gpt-bf16: PyTorch's kernels / ours"]["eager_ms"], 7)
        self.assertEqual(rows["gpt-bf16: reserved bytes"]["eager"], 200)
        tables = json.loads((self.folder / "speed.json").read_text())["kernels"]["gpt-bf16"]
        self.assertEqual(tables["eager"]["kernels"], [["gemm", 6.0, 4], ["copy", 1.0, 2]])
        self.assertEqual(sorted(tables), ["default", "eager", "ours", "reduce-overhead"])
        self.assertGreater(len(tables["ours"]["kernels"]), 3)

    @programs.whole
    def test_mends(self):
        rows = self.passes("speed", "--only", "gpt-bf16,gpt-bf16 mends")
        found = {name: rows[f"gpt-bf16 mends: {name} alone"] for name in models.MENDS}
        self.assertTrue(all(row["value"] > 0 and row["kernel_ms"] > 0 for row in found.values()))

    def test_other_losses(self):
        self.losses.write_text(json.dumps([self.own_losses[0], 1.01 * self.own_losses[1]]))
        self.assertEqual(list(self.fails("speed", "--only", "gpt-bf16")), ["gpt-bf16: losses"])

    def test_a_side_that_takes_too_long(self):
        self.hanging.write_text("reduce-overhead")
        rows = self.passes("speed", "--only", "gpt-bf16", "--limit", 15)
        self.assertEqual(rows["gpt-bf16: in turns with reduce-overhead"]["why"], report.OUT_OF_TIME)
        self.assertEqual(rows["gpt-bf16: in turns with the best of torch.compile"]["best"], "default")

    def test_end_of_the_time(self):
        self.hanging.write_text("eager")
        begin = time.monotonic()
        rows = self.fails("speed", "--only", "gpt-bf16,bert-bf16", "--limit", 3)
        self.assertLess(time.monotonic() - begin, 10)
        judged = [name for name, goal in GPT.rows() if goal != report.REPORTED]
        self.assertEqual([name for name in rows if name.startswith("gpt")], judged)
        self.assertEqual({rows[name]["why"] for name in judged}, {report.OUT_OF_TIME})
        self.assertIn("not carried", rows["bert-bf16: losses"]["why"])

    @programs.whole
    def test_a_killed_run_leaves_its_rows(self):
        self.hanging.write_text("eager")
        path = self.folder / "speed.json"
        path.unlink(missing_ok=True)
        process = subprocess.Popen(command_of(self.folder, "speed", "--only", "gpt-bf16,gpt-bf16 mends", "--limit", 100), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            while not path.exists() or len(json.loads(path.read_text())["rows"]) < len(models.MENDS):
                self.assertIsNone(process.poll())
                time.sleep(0.05)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        found = json.loads(path.read_text())
        self.assertEqual((found["complete"], found["passed"]), (False, False))
        self.assertGreaterEqual(len(found["rows"]), len(models.MENDS))


if __name__ == "__main__":
    programs.main()
