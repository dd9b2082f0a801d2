"""Steps of raw exports beside those of the same module in PyTorch, one after the other:

    python tests/bench/raw_speed.py BIN FOLDER [--only gpt2,bert] [--batches 16] [--beside '--no-fuse all']

with torch, torchvision, transformers, onnx, onnxscript and safetensors. BIN has rannc-compile and bench-steps; FOLDER gets exports and
bundles, and keeps them for the next time. Exit status 1 where an export is slower than the module.

On a GPU: --device cuda. `--device FILE.so` trains ours on the device of another plug-in, and PyTorch's side on the processor.
"""
import argparse
import contextlib
import json
import math
import pathlib
import shlex
import shutil
import subprocess
import sys

import torch
from safetensors.torch import save_file

import raw_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from gpu_check.sides import Side, compared, interval  # noqa: E402

FASTER, LOWER_END = 1.0, 0.98  # of the median of the ratios; of its interval
# Of compiled stages: (up to 4 samples, more). Of other models as FASTER.
COMPILED_FASTER = {name: (1.12, 1.08) for name in ("gpt2", "bert", "vit", "llama")}
# Of the first step, before any update, and of the second; from then on rounding grows: by batch norm over a few places hundredfold a step.
# A loss near 5 has neighbours 0.6 % apart in bfloat16.
LOSSES_APART = {"float32": (1e-5, 1e-3), "bfloat16": (1e-2, 2e-2)}
# Our sides: flags of rannc-compile.
FORMS = {"": lambda _: [], "native": lambda _: ["--form", "native"], "beside": lambda flags: shlex.split(flags.beside)}
# What rannc-run sets for itself (runtime/train/process.h).
KEEPS_MEMORY = "glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=1000000000000"
HERE = pathlib.Path(__file__).resolve().parent


def kernel_seconds(profile):
    return sum(seconds for name, (seconds, _) in profile["kernels"].items() if name.startswith("aten::"))


def without_shapes(profile):
    kernels = {}
    for name, (seconds, calls) in profile["kernels"].items():
        entry = kernels.setdefault(name.split(" ")[0], [0, 0])
        entry[0] += seconds
        entry[1] += calls
    return kernels


def print_kernels(own, rival, count):
    """Where ours loses most, by milliseconds of a step."""
    own, rival = without_shapes(own), without_shapes(rival)
    rows = [(own.get(name, [0, 0]), rival.get(name, [0, 0]), name) for name in {*own, *rival}]
    rows.sort(key=lambda row: row[1][0] - row[0][0])
    print("\n| kernel | ours ms (calls) | PyTorch ms (calls) | lost ms |\n|---|---|---|---|")
    for ours, theirs, name in rows[:count] + [row for row in rows[count:] if row[1][0] - row[0][0] > 5e-4][-count // 2:]:
        print(f"| {name} | {1e3 * ours[0]:.2f} ({ours[1]:.0f}) | {1e3 * theirs[0]:.2f} ({theirs[1]:.0f}) | {1e3 * (ours[0] - theirs[0]):+.2f} |")
    print(flush=True)


class Bench:
    def __init__(self, flags):
        self.flags, self.rows = flags, []

    def folder(self, name):
        return self.flags.folder / (name if self.flags.float_type == "float32" else f"{name}-{self.flags.float_type}")

    def model_file(self, name, exporter):
        folder = self.folder(name) / exporter
        path = folder / "model.onnx"
        if not path.exists():
            part = folder.with_suffix(".part")  # an export that was broken off is none
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            with contextlib.redirect_stdout(sys.stderr):  # ours has the rows alone
                raw_models.export(name, exporter, part / "model.onnx", self.flags.float_type)
            part.rename(folder)
        return path

    def data_file(self, name, samples):
        path = self.folder(name) / f"batch{samples}.safetensors"
        if not path.exists():
            model = raw_models.MODELS[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            inputs, labels = raw_models.seeded(model.inputs, samples, seed=2), raw_models.seeded(model.labels, samples, seed=3)
            inputs = raw_models.with_floats(inputs, self.flags.float_type)
            save_file({**{f"x/{key}": tensor for key, tensor in inputs.items()}, "labels/y": labels}, path)
        return path

    def bundle_path(self, name, exporter, samples, form=""):
        return self.model_file(name, exporter).with_name(f"batch{samples}{form and '-' + form}.rannc")

    def bundle(self, name, exporter, samples, form):
        """Always compiled anew: compiler and flags may be others."""
        model, file = raw_models.MODELS[name], self.model_file(name, exporter)
        path = self.bundle_path(name, exporter, samples, form)
        self.compile(file, path, "--cluster", *self.cluster(), "--stages", "1", "--micro-batches", "1", "--mini-batch", samples, "--no-refine",
                     "--optimizer", model.optimizer, *(["--train-batch-norm"] if model.training and exporter == "dynamo" else []),
                     *shlex.split(self.flags.compile_flags), *FORMS[form](self.flags))
        return path

    def cluster(self):
        """One device, whose costs do not change the plan."""
        if self.flags.device == "cpu":
            return ["local:1"]
        if self.flags.device.startswith("cuda"):
            return ["local:cuda", "--devices", "1"]
        path = self.flags.folder / "one_gpu.toml"
        path.write_text('name = "one"\n[kind.gpu]\nmemory_bytes = 6e10\nflops = 4e13\nbandwidth = 2e12\ndevice = "cuda"\n'
                        '[[node]]\ndevices = [{ kind = "gpu" }]\n')
        return [path]

    def compile(self, file, path, *flags):
        """What rannc-compile prints."""
        done = subprocess.run(list(map(str, [self.flags.bin / "rannc-compile", file, "-o", path, "--replace", "--loss",
                                             "cross_entropy(output=logits,labels=y,axis=-1)", *(["--memory", "64GiB"] if self.flags.device == "cpu" else ["--costs", "analytic"]),
                                             *flags])),
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{file} does not compile:\n{done.stderr}")
        return done.stdout

    def ours(self, name, exporter, samples, form=""):
        model = raw_models.MODELS[name]
        return Side(f"{exporter}{form and ' ' + form}",
                    [self.flags.bin / "bench-steps", self.bundle(name, exporter, samples, form), "--data", self.data_file(name, samples),
                     "--optimizer", model.optimizer, "--learning-rate", model.learning_rate, "--device", self.flags.device,
                     *shlex.split(self.flags.step_flags)])

    def rival(self, name, samples):
        keeping = {"GLIBC_TUNABLES": KEEPS_MEMORY} if self.flags.rival_keeps_memory else {}
        device = "cpu" if self.flags.device.endswith(".so") else self.flags.device
        return Side("PyTorch", [sys.executable, "-B", HERE / "raw_eager.py", name, self.data_file(name, samples), device, "--float-type",
                                self.flags.float_type], keeping)

    def run(self, name, samples):
        """All sides of a model by turns; every second round the other way round."""
        rival = self.rival(name, samples)
        forms = ["", *(["native"] if self.flags.native else []), *(["beside"] if self.flags.beside else [])]
        own = [self.ours(name, exporter, samples, form) for form in forms for exporter in self.flags.exporters]
        if name == self.flags.tolerance:
            own.append(self.rival(name, samples))
        sides = [rival, *own]
        for _ in range(self.flags.warm_up + self.flags.steps):
            for side in sides:
                side.step()
            sides.reverse()
        rivals_profile = rival.profile() if self.flags.device == "cpu" else None
        profiles = [side.profile() if rivals_profile else None for side in own]
        for side in sides:
            side.end()
        for side, profile in zip(own, profiles):
            self.report(name, samples, rival, side, (profile, rivals_profile))

    def report(self, name, samples, rival, side, profiles):
        profile, rivals_profile = profiles
        row = {"model": name, "batch": samples, "float_type": self.flags.float_type, "side": side.name, "rival": rival.name,
               **compared(rival, side, self.flags.clock, self.flags.warm_up)}
        row["other_clock"] = compared(rival, side, "ran" if self.flags.clock == "times" else "times", self.flags.warm_up)["ratio"]
        if profile:  # kernels of a GPU run beside the calls
            row["ceiling"] = row["ratio"] * profile["seconds"] / kernel_seconds(profile)
            row["rival_in_kernels_ms"], row["in_kernels_ms"] = 1e3 * kernel_seconds(rivals_profile), 1e3 * kernel_seconds(profile)
        limits = LOSSES_APART[self.flags.float_type]
        row["losses_apart"] = [abs(a - b) / abs(a) for a, b in zip(rival.losses, side.losses)][:len(limits)]
        row["layout"] = rival.ready.removeprefix("ready ")
        row["same"] = all(apart <= limit for apart, limit in zip(row["losses_apart"], limits))
        row["ok"] = row["same"] and (side.name.endswith((" beside", "PyTorch")) or self.fast(row))
        self.rows.append(row)
        self.print(row)
        if not profile:
            return
        if self.flags.kernels and side.name != "PyTorch":
            print_kernels(profile, rivals_profile, self.flags.kernels)
        out = self.folder(name) / f"profile-{samples}-{side.name.replace(' ', '-')}.json"
        out.write_text(json.dumps({"ours": profile, "rival": rivals_profile}))

    @staticmethod
    def fast(row):
        if row["side"].endswith(" native") and row["model"] in COMPILED_FASTER:
            return row["ratio"] >= COMPILED_FASTER[row["model"]][row["batch"] > 4]
        return row["ratio"] >= FASTER and row["low"] >= LOWER_END

    def print(self, row):
        if self.flags.json:
            print(json.dumps(row), flush=True)
            return
        if len(self.rows) == 1 or self.flags.kernels:
            print("| model | batch | side | rival | PyTorch ms | ours ms | ratio | 95 % | other clock | ceiling | |\n|---|---|---|---|---|---|---|---|---|---|---|")
        verdict = "" if row["ok"] else "losses differ" if not row["same"] else "slower"
        print(f"| {row['model']} | {row['batch']} | {row['side']} | {row['rival']} | {row['rival_ms']:.1f} | {row['ours_ms']:.1f} | {row['ratio']:.3f} "
              f"| {row['low']:.3f}–{row['high']:.3f} | {row['other_clock']:.3f} | {row.get('ceiling', math.nan):.3f} | {verdict} |", flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    names = lambda text: text.split(",")
    parser.add_argument("--only", type=names, default=list(raw_models.SMALL), help="models by commas: " + ", ".join(raw_models.MODELS))
    parser.add_argument("--exporters", type=names, default=["dynamo", "legacy"])
    parser.add_argument("--batches", type=lambda text: [int(part) for part in text.split(",")], help="instead of each model's own")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=4, help="rounds that are not counted")
    parser.add_argument("--compile-flags", default="", help="of rannc-compile, for all of our sides")
    parser.add_argument("--beside", default="", help="flags of rannc-compile of a further side for each exporter, which is not judged")
    parser.add_argument("--native", action="store_true", help="also compiled stages, which are to be faster")
    parser.add_argument("--tolerance", default="bert", help="the model of which a second process of PyTorch is a side: '' is none")
    parser.add_argument("--rival-keeps-memory", action="store_true",
                        help="PyTorch's allocator keeps freed memory, as ours does, instead of what its C library does by itself")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall",
                        help="processor: time that a process ran, which leaves out what other programs took meanwhile")
    parser.add_argument("--step-flags", default="", help="of bench-steps, for all of our sides")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of both sides; or the file of a plug-in, of ours")
    parser.add_argument("--float-type", choices=raw_models.FLOAT_TYPES, default="float32", help="of weights and images, in the export too")
    parser.add_argument("--kernels", type=int, default=0, help="print so many kernels where ours takes longer, and half as many where not")
    parser.add_argument("--json", action="store_true", help="an object a line")
    flags = parser.parse_args()
    flags.clock = {"wall": "times", "processor": "ran"}[flags.clock]
    return flags


def main():
    flags = parse_flags()
    torch.set_num_threads(1)
    bench = Bench(flags)
    for name in flags.only:
        for samples in flags.batches or raw_models.MODELS[name].batches:
            bench.run(name, samples)
    sys.exit(0 if all(row["ok"] for row in bench.rows) else 1)


if __name__ == "__main__":
    main()
