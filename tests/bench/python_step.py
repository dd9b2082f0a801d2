"""A step of `rannc.Trainer` beside the step of the same bundle in C++, in turns, and the time of imports:

    python tests/bench/python_step.py BIN FOLDER [--steps 40] [--workers 1]

`BIN` is the folder of the programs, whose neighbour has the package. `FOLDER` keeps the model. Exit status 1 if the median ratio is
above 1.02 on a quiet machine, or the import above 0.3 s.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

MOST_RATIO, MOST_IMPORT = 1.02, 0.3
MINI_BATCH = 16


def compiled(bins, folder, workers):
    model, bundle = folder / "gpt.onnx", folder / f"gpt-{workers}.rannc"
    if not model.exists():
        subprocess.run([bins / "rannc-zoo", "gpt", "-o", model, "--layers", "4"], check=True, capture_output=True)
    if not bundle.exists():
        subprocess.run([bins / "rannc-compile", model, "-o", bundle, "--cluster", f"local:{workers}", "--stages", str(workers),
                        "--mini-batch", str(MINI_BATCH), "--loss", "cross_entropy(output=logits,labels=targets)", "--optimizer",
                        "adam", "--costs", "analytic"], check=True, capture_output=True)
    return bundle


def import_seconds(package):
    """What the package takes beside torch, the median of five fresh processes."""
    code = "import time, torch\nbegin = time.perf_counter()\nimport rannc\nprint(time.perf_counter() - begin)"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return statistics.median(float(subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True,
                                                  text=True).stdout) for _ in range(5))


class Native:
    """The step of C++, one for each line."""

    def __init__(self, bins, bundle, data):
        self.process = subprocess.Popen([bins / "bench-steps", bundle, "--data", data], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        assert self.process.stdout.readline() == "ready\n"

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bins", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    package = options.bins.parent / "python"
    sys.path.insert(0, str(package))
    import torch

    import rannc

    options.folder.mkdir(parents=True, exist_ok=True)
    bundle = compiled(options.bins, options.folder, options.workers)
    tokens = torch.randint(256, (MINI_BATCH, 129), generator=torch.Generator().manual_seed(1))
    with rannc.Trainer(str(bundle), optimizer="adam", learning_rate=1e-4) as trainer:
        names = trainer.facts["inputs"]
        batch = {name: tokens[:, 1:] if name.startswith("labels/") else tokens[:, :-1] for name in names}
        batch = {name: tensor.contiguous() for name, tensor in batch.items()}
        data = options.folder / "data.safetensors"
        rannc.weights.write_weights(str(data), {name if name.startswith("labels/") else f"x/{name}": tensor
                                                for name, tensor in batch.items()})
        native = Native(options.bins, bundle, data)
        own, other = [], []
        for number in range(options.steps + 3):
            other.append(native.step())
            begin = time.perf_counter()
            float(trainer.step(batch))
            own.append(time.perf_counter() - begin)
            if number == 2:
                own, other = [], []
    ratio = statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True))
    imported = import_seconds(package)
    print(f"{options.workers} workers: step {statistics.median(own) * 1e3:.2f} ms in Python, {statistics.median(other) * 1e3:.2f} ms "
          f"in C++; median ratio {ratio:.3f} (at most {MOST_RATIO}); import beside torch {imported:.3f} s (at most {MOST_IMPORT})")
    return ratio > MOST_RATIO or imported > MOST_IMPORT


if __name__ == "__main__":
    sys.exit(main())
