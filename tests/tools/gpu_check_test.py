"""tools/gpu-check prepares a folder of at most 48 MiB, whose parts pass on the test device and fail where a number is wrong."""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import programs

SCRIPT = programs.SOURCE / "tools" / "gpu-check"
MOST_BYTES = 48 << 20


def prepare(folder, models, *flags):
    done = subprocess.run([sys.executable, "-B", SCRIPT, "--prepare", folder, "--build", programs.bin_folder.parent, "--models", models, *flags],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def prepared_folder(case, models, *flags):
    """A folder that lives as long as a class of tests."""
    scratch = tempfile.TemporaryDirectory(prefix="rannc-test-")
    case.addClassCleanup(scratch.cleanup)
    folder = pathlib.Path(scratch.name) / "prepared"
    prepare(folder, models, *flags)
    return folder


def run_part(folder, part, *flags):
    """Exit status, the report and what was printed."""
    report = folder / f"{part}.json"
    report.unlink(missing_ok=True)
    device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
    done = subprocess.run([sys.executable, "-B", "-W", "ignore", folder / "gpu-check", "--part", part, "--device", device, "--json", report,
                           *map(str, flags)], capture_output=True, text=True)
    return done.returncode, json.loads(report.read_text()), done.stdout + done.stderr


def imported():
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class PreparedFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = prepared_folder(cls, programs.DATA, "--compression", "0")

    def passes(self, part, *flags, not_judged=()):
        status, report, text = run_part(self.folder, part, *flags)
        self.assertEqual((status, report["passed"]), (0, True), text)
        self.assertEqual([row["name"] for row in report["rows"] if row["passed"] is None], list(not_judged))
        self.assertTrue(all(row["goal"] for row in report["rows"]))
        return [row["name"] for row in report["rows"] if row["passed"]]

    def fails(self, part, *flags):
        status, report, text = run_part(self.folder, part, *flags)
        self.assertEqual((status, report["passed"]), (1, False), text)
        return {row["name"]: row for row in report["rows"] if row["passed"] is False}

    def test_size(self):
        self.assertLessEqual(sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file()), MOST_BYTES)

    def test_equality(self):
        self.assertEqual(len(self.passes("equality", "--share", "1/10", "--jobs", 1)), 5)

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
        rows = self.fails("equality", "--share", "7/10", "--limit", "0")
        self.assertEqual(len(rows), 5)
        self.assertTrue(all("not run" in row["why"] for row in rows.values()))

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
            prepare(self.folder.parent / "empty", self.folder, "--compression", "0")

    def test_masks(self):
        self.assertEqual(self.passes("masks"), ["random numbers", "losses with --deterministic, twice", "losses with dropout", "losses without dropout"])

    def test_faults(self):
        self.assertEqual(len(self.passes("faults")), 3)

    def test_memory(self):
        self.assertEqual(self.passes("memory", not_judged=["gpt", "gpt, four micro-batches"]),
                         ["gpt, without CUDA graphs", "gpt: losses with CUDA graphs", "gpt, four micro-batches, without CUDA graphs",
                          "gpt, four micro-batches: losses with CUDA graphs"])

    def test_time(self):
        self.assertEqual(self.passes("time", not_judged=["1 stage on one GPU: step ms", "1 stage on one GPU: bytes",
                                                         "step of two stages by that of one"]),
                         ["1 stages on one GPU: loss", "2 stages on one GPU: loss"])

    def test_rows_beside_pytorch_that_take_too_long(self):
        rows = self.fails("time-gpt-bf16", "--limit", "0.5")
        self.assertEqual(list(rows), ["gpt2-tiny in bfloat16: losses"])
        self.assertTrue(rows["gpt2-tiny in bfloat16: losses"]["why"])


class Verdicts(unittest.TestCase):
    """On a GPU, whose programs and numbers are made up here."""

    GOOD = {"rival": "PyTorch", "ratio": 1.01, "same": True, "losses_apart": [0.0, 0.0], "ours_peak_bytes": 100, "rival_peak_bytes": 100,
            "predicted_bytes": 101, "run_ms": 10.0, "predicted_ms": 10.2}
    COMPILED = {**GOOD, "rival": "torch.compile", "ratio": 0.8}

    def setUp(self):
        self.module = imported()
        self.run_of_part = self.module.Run(pathlib.Path("nowhere"), argparse.Namespace(
            device="cuda", share=(1, 1), jobs=1, limit=60, no_torch_compile=False))
        self.addCleanup(shutil.rmtree, self.run_of_part.scratch, True)

    def verdicts(self, part):
        with contextlib.redirect_stdout(None):
            part(self.run_of_part)
        rows, self.run_of_part.rows = self.run_of_part.rows, []
        self.assertNotIn(None, [row["passed"] for row in rows if "torch.compile's" not in row["name"]])
        return [row["name"] for row in rows if row["passed"] is False]

    def beside(self, eager, compiled, part="time-gpt"):
        rows = {row["rival"]: row for row in (eager, compiled) if row}
        self.module.raw_rows = lambda *_: (rows, {} if rows else {"why": "raw_speed.py ended"})
        return self.verdicts(self.module.PARTS[part])

    def test_beside_pytorch(self):
        name = "gpt2-medium in float32"
        self.assertEqual(self.beside(self.GOOD, self.COMPILED), [])
        for change, row in [({"same": False}, "losses"), ({"ratio": 0.99}, "PyTorch's step / ours"), ({"rival_peak_bytes": 99}, "our peak / PyTorch's"),
                            ({"rival_peak_bytes": None}, "our peak / PyTorch's"), ({"predicted_ms": 10.6}, "step ms"),
                            ({"predicted_ms": 9.4}, "step ms"), ({"predicted_bytes": 104}, "bytes")]:
            self.assertEqual(self.beside({**self.GOOD, **change}, self.COMPILED), [f"{name}: {row}"], change)
        slow = f"{name}: torch.compile's step / ours"
        self.assertEqual(self.beside(self.GOOD, {**self.COMPILED, "ratio": 0.76}), [slow])
        self.assertEqual(self.beside(self.GOOD, {"rival": "torch.compile", "unmeasured": "no compiler"}), [slow])
        self.assertEqual(len(self.beside(None, None)), 6)

    def test_small_models(self):
        slow = {**self.GOOD, "ratio": 1.99}  # of the small GPT, half of the time is asked
        self.assertEqual(self.beside(slow, None, "time-small"), ["gpt2 in float32: PyTorch's step / ours"])

    def ran(self, one_ms, two_ms, held=100, first_loss=9.0):
        """`first_loss`: without CUDA graphs."""
        def command(program, bundle, *flags, **__):
            if program != "rannc-run":
                return 0, "", 0
            (self.run_of_part.scratch / f"{pathlib.Path(bundle).stem}.run").mkdir()
            (self.run_of_part.scratch / f"{pathlib.Path(bundle).stem}.run/losses.txt").write_text(
                "".join(f"{step} {float.hex((first_loss if '--no-cuda-graphs' in flags else 9.0) - step)}\n" for step in range(6)))
            taken = two_ms if "2" in bundle else one_ms
            return 0, f"step measured {taken} ms, predicted 100.0 ms\ndevice 0 held {held} bytes at most, 100 were predicted", 0
        self.run_of_part.command = command

    def test_two_stages(self):
        for one, two, failing in [(100.0, 105.0, []), (100.0, 106.0, ["step of two stages by that of one"]),
                                  (106.0, 106.0, ["1 stage on one GPU: step ms"]), (94.0, 94.0, ["1 stage on one GPU: step ms"])]:
            self.ran(one, two)
            self.assertEqual(self.verdicts(self.module.times), failing, (one, two))

    def test_memory(self):
        self.ran(1.0, 1.0, held=102)
        self.assertEqual(self.verdicts(self.module.memory), [])
        self.ran(1.0, 1.0, held=104)
        self.assertEqual(len(self.verdicts(self.module.memory)), 4)
        self.ran(1.0, 1.0, held=102, first_loss=9.0001)
        self.assertEqual(self.verdicts(self.module.memory),
                         ["gpt: losses with CUDA graphs", "gpt, four micro-batches: losses with CUDA graphs"])


if __name__ == "__main__":
    programs.main()
