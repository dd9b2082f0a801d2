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


LIMIT = 1e-5  # of a loss in float32
LOSS = "cross_entropy(output=logits,labels=y,axis=-1)"


def train_and_evaluate(test, folder, name, *flags):
    """Losses of three steps by rannc-run over the folder's mini-batch, which the checkpoint is evaluated on."""
    bundle, run, log, data = folder / f"{name}.rannc", folder / name, folder / f"{name}.log", folder / "batch.safetensors"
    test.succeed("rannc-compile", folder / "model.onnx", "-o", bundle, "--loss", LOSS, "--costs", "analytic", "--mini-batch",
                 baked_families.SAMPLES, "--optimizer", "sgd", *flags)
    test.succeed("rannc-run", bundle, "-o", run, "--data", data, "--steps", 3, "--loss-log", log, "--learning-rate", 0.01)
    losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
    test.assertEqual(len(losses), 3)
    test.assertNotEqual(losses[0], losses[2])
    evaluated = test.succeed("rannc-run", bundle, "-o", run, "--data", data, "--evaluate", "--resume")
    test.assertIn("loss", evaluated.stdout)
    return losses


class BakedExports(programs.ProgramTest):
    def folder(self, family, exporter, samples):
        path = self.scratch / f"{family}-{exporter}-{samples}"
        made = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder",
                               f"{baked_families.__file__}:{family}", path, "--exporter", exporter, "--batch-in-file", str(samples)],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def test_they_train_and_are_evaluated(self):
        """Three steps as replicas of micro-batches follow those of one worker; all samples are evaluated."""
        for family in (each.__name__ for each in baked_families.FAMILIES):
            for exporter in ("dynamo", "legacy"):
                for samples in (1, 2, baked_families.SAMPLES):
                    with self.subTest(family=family, exporter=exporter, samples=samples):
                        path = self.folder(family, exporter, samples)
                        one = train_and_evaluate(self, path, "one", "--cluster", "local:1", "--micro-batches", 1)
                        cut = train_and_evaluate(self, path, "cut", "--cluster", "local:3", "--replicas", "2,1", "--micro-batches", 2)
                        for own, expected in zip(cut, one, strict=True):
                            self.assertLessEqual(abs(own - expected), LIMIT * abs(expected), (cut, one))

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
