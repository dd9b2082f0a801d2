"""Two networks that take turns: the commands of tools/manual/alternating.md as they stand, beside a loop in double precision."""
import math
import os
import random
import re
import struct
import subprocess

import programs
import small_onnx
from small_onnx import DOUBLE

SAMPLES, NOISE, WIDE = 8, 3, 2
RATE = 0.25


def numbers(count, seed):
    generator = random.Random(seed)
    return [generator.uniform(-1, 1) for _ in range(count)]


WEIGHTS = {"generator.weight": (NOISE, WIDE), "discriminator.weight": (WIDE, 1)}
BEGIN = {name: numbers(math.prod(shape), seed) for seed, (name, shape) in enumerate(WEIGHTS.items())}
NOISE_OF, SAMPLES_OF = numbers(SAMPLES * NOISE, 10), numbers(SAMPLES * WIDE, 11)


def network(path, scores):
    """`scores`: `real` of samples, `fake` of noise, or both."""
    nodes, inputs, outputs = [], [], []
    if "real" in scores:
        nodes.append(small_onnx.node("MatMul", ["x", "discriminator.weight"], ["real"], "judge"))
        inputs.append(small_onnx.value("x", DOUBLE, ["batch", WIDE]))
    nodes += [small_onnx.node("MatMul", ["z", "generator.weight"], ["made"], "make"),
              small_onnx.node("MatMul", ["made", "discriminator.weight"], ["fake"], "judge_made")]
    inputs.append(small_onnx.value("z", DOUBLE, ["batch", NOISE]))
    outputs = [small_onnx.value(name, DOUBLE, ["batch", 1]) for name in scores]
    tensors = [small_onnx.tensor(name, shape, BEGIN[name], DOUBLE) for name, shape in WEIGHTS.items()]
    return small_onnx.write(path, nodes, tensors, inputs, outputs)


def doubles(shape, values):
    return "F64", list(shape), struct.pack(f"<{len(values)}d", *values)


class Loop:
    """The same losses and updates, element by element."""

    def __init__(self):
        self.g, self.d = list(BEGIN["generator.weight"]), list(BEGIN["discriminator.weight"])

    def made(self):
        return [[sum(NOISE_OF[i * NOISE + k] * self.g[k * WIDE + j] for k in range(NOISE)) for j in range(WIDE)] for i in range(SAMPLES)]

    def score(self, row):
        return sum(a * b for a, b in zip(row, self.d, strict=True))

    @staticmethod
    def bce(score, label):
        return math.log1p(math.exp(-score if label else score))

    @staticmethod
    def slope(score, label):
        return (1 / (1 + math.exp(-score)) - label) / SAMPLES

    def step_d(self):
        rows = [(SAMPLES_OF[i * WIDE:(i + 1) * WIDE], 1) for i in range(SAMPLES)] + [(row, 0) for row in self.made()]
        loss = sum(self.bce(self.score(row), label) for row, label in rows) / SAMPLES
        gradient = [sum(self.slope(self.score(row), label) * row[j] for row, label in rows) for j in range(WIDE)]
        self.d = [w - RATE * g for w, g in zip(self.d, gradient, strict=True)]
        return loss

    def step_g(self):
        scores = [self.score(row) for row in self.made()]
        gradient = [sum(self.slope(scores[i], 1) * NOISE_OF[i * NOISE + k] for i in range(SAMPLES)) * self.d[j]
                    for k in range(NOISE) for j in range(WIDE)]
        self.g = [w - RATE * g for w, g in zip(self.g, gradient, strict=True)]
        return sum(self.bce(score, 1) for score in scores) / SAMPLES


class Alternating(programs.ProgramTest):
    executed = ("rannc-compile", "rannc-run")

    def setUp(self):
        super().setUp()
        network(self.scratch / "discriminator.onnx", ["real", "fake"])
        network(self.scratch / "generator.onnx", ["fake"])
        column = (SAMPLES, 1)
        shared = {"x/z": doubles((SAMPLES, NOISE), NOISE_OF), "labels/ones": doubles(column, [1.0] * SAMPLES)}
        programs.write_safetensors(self.scratch / "g.safetensors", shared)
        programs.write_safetensors(self.scratch / "d.safetensors", {
            **shared, "x/x": doubles((SAMPLES, WIDE), SAMPLES_OF), "labels/zeros": doubles(column, [0.0] * SAMPLES)})

    def shell(self, text, environment=()):
        done = subprocess.run(["bash", "-e", "-c", text], cwd=self.scratch, capture_output=True, text=True, timeout=programs.HANG_SECONDS,
                              env={**os.environ, "PATH": f"{programs.bin_folder}:{os.environ['PATH']}", **dict(environment)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_manuals_commands_are_the_loop(self):
        manual = (programs.SOURCE / "tools" / "manual" / "alternating.md").read_text()
        commands = re.search(r"```\n(.*?)```", manual, re.DOTALL)[1]
        settings = f"--mini-batch {SAMPLES} --costs analytic"
        commands = commands.replace("rannc-compile ", f"rannc-compile {settings} --optimizer sgd ")
        commands = commands.replace("--steps", f"--learning-rate {RATE} --steps")
        said = self.shell(commands.replace("-o d.rannc", "-o d.rannc --cluster local:2 --stages 2").replace(
            "-o g.rannc", "-o g.rannc --cluster local:1"))
        self.assertEqual(said.count("2 tensors are those of "), 9)
        loop, expected = Loop(), {"d": [], "g": []}
        for _ in range(5):
            expected["d"] += [loop.step_d(), loop.step_d()]
            expected["g"].append(loop.step_g())
        for name, losses in expected.items():
            found = [float.fromhex(line.split()[1]) for line in (self.scratch / f"{name}.run" / "losses.txt").read_text().splitlines()]
            self.assertEqual(len(found), len(losses))
            for loss, wanted in zip(found, losses, strict=True):
                self.assertAlmostEqual(loss / wanted, 1, delta=1e-12)

    def test_tensors_that_do_not_match_are_named(self):
        loss = ["--loss", "bce_with_logits(output=fake,labels=ones)", "--mini-batch", SAMPLES, "--costs", "analytic"]
        model = self.scratch / "generator.onnx"
        self.succeed("rannc-compile", model, "-o", self.scratch / "g.rannc", *loss, "--buffer", "discriminator.*")
        self.succeed("rannc-compile", model, "-o", self.scratch / "frozen.rannc", *loss, "--kind",
                     "discriminator.weight=constant")
        self.succeed("rannc-compile", model, "-o", self.scratch / "narrow.rannc", *loss, "--dtype", "float32")
        run = ["--data", self.scratch / "g.safetensors", "--steps", 1]
        self.succeed("rannc-run", self.scratch / "g.rannc", "-o", self.scratch / "g.run", *run)
        for bundle, expected in {"frozen": ["tensor 'discriminator.weight' is a constant", "--buffer 'discriminator.weight'"],
                                 "narrow": ["is f64[3,2], that of", "f32[3,2]"]}.items():
            self.refuse(1, expected, "rannc-run", self.scratch / f"{bundle}.rannc", "-o", self.scratch / "other.run", *run,
                        "--resume-shared", self.scratch / "g.run")
        self.refuse(1, ["--resume-shared: nothing is trained"], "rannc-run", self.scratch / "g.rannc", "-o", self.scratch / "other.run",
                    "--export-weights", self.scratch / "w.safetensors", "--resume-shared", self.scratch / "g.run")
        self.refuse(1, ["nowhere", "--resume-shared: is no folder of a run"], "rannc-run", self.scratch / "g.rannc", "-o", self.scratch / "other.run", *run, "--resume-shared",
                    self.scratch / "nowhere")


if __name__ == "__main__":
    programs.main()
