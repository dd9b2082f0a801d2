"""Mixed precision trains like float32, under any plan, with parameters that stay float32."""
import json
import random
import re
import statistics

import programs
import small_onnx as onnx

GPT = programs.DATA / "small_gpt"
LOSS = "cross_entropy(output=logits,labels=targets)"
# Rounding to bfloat16 is 2^-9, to float16 2^-12.
NEAR = {"bf16": 2e-2, "fp16": 5e-3}


class MixedPrecisionTest(programs.ProgramTest):
    def compiled(self, name, *flags):
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", GPT / "model.onnx", "--loss", LOSS, "--costs", "analytic", "--mini-batch", 8, "--cluster", "local:2",
                     "--optimizer", "adam", "--replace", "-o", bundle, *flags)
        return bundle

    def run_bundle(self, bundle, folder, steps, *flags):
        """The finished program, and the losses of this and earlier parts of the run."""
        done = self.succeed("rannc-run", bundle, "-o", self.scratch / folder, "--steps", steps, "--learning-rate", 0.01, "--data",
                            GPT / "batch.safetensors", *flags)
        return done, self.losses_of(folder)

    def losses_of(self, folder):
        lines = (self.scratch / folder / "losses.txt").read_text().splitlines()
        return [float.fromhex(line.split()[1]) for line in lines]

    def losses(self, bundle, folder, steps, *flags):
        return self.run_bundle(bundle, folder, steps, *flags)[1]

    def assert_near(self, found, expected, tolerance):
        for step, (a, b) in enumerate(zip(found, expected, strict=True)):
            self.assertLess(abs(a - b), tolerance * abs(b), f"step {step}: {a} and {b}")


CUT = ["--stages", 2, "--micro-batches", 4]


class Curves(MixedPrecisionTest):
    def curves(self, steps, farthest):
        """Each loss lies near the one in float32, and half of them nearer: single steps of Adam with small second moments differ more."""
        expected = self.losses(self.compiled("f32", *CUT), "f32", steps)
        self.assertLess(expected[-1], 0.9 * expected[0])
        for precision, near in NEAR.items():
            found = self.losses(self.compiled(precision, *CUT, "--precision", precision), precision, steps)
            self.assertNotEqual(found, expected)
            self.assert_near(found[:1], expected[:1], near / 2)
            self.assert_near(found, expected, farthest or near / 2)
            self.assertLess(statistics.median(abs(a - b) / b for a, b in zip(found, expected)), near / 4, precision)

    def test_losses_fall_as_in_float32(self):
        self.curves(20, None)

    @programs.whole
    def test_losses_fall_as_in_float32_over_200_steps(self):
        self.curves(200, 0.03)


class Plans(MixedPrecisionTest):
    def test_all_plans_give_near_losses(self):
        for precision, tolerance in NEAR.items():
            flags = ["--precision", precision]
            expected = self.losses(self.compiled("one", "--stages", 1, *flags), "one", 4, "--replace")
            for name, plan in {"cut": CUT, "recompute": [*CUT, "--recompute", "always"], "split": [*CUT, "--schedule", "zb-h1"],
                               "replicas": ["--stages", 1, "--replicas", 2, "--micro-batches", 2]}.items():
                with self.subTest(precision=precision, plan=name):
                    found = self.losses(self.compiled(name, *plan, *flags), name, 4, "--replace")
                    self.assert_near(found, expected, tolerance)

    def test_parameters_stay_float32(self):
        text = (self.compiled("bf16", *CUT, "--precision", "bf16") / "plan.rir").read_text()
        parameters = re.findall(r"^parameter %\S+: (\w+)", text, re.MULTILINE)
        self.assertEqual(set(parameters), {"f32"})
        found = {op: set() for op in ("core.linear", "core.layer_norm", "core.cross_entropy_sum")}
        for dtype, op in re.findall(r"^#\d+ %\S+?: (\w+)\[.*? = (core\.\w+)\(", text, re.MULTILINE):
            if op in found:
                found[op].add(dtype)
        self.assertEqual(found, {"core.linear": {"bf16"}, "core.layer_norm": {"f32"}, "core.cross_entropy_sum": {"f32"}})


class LossScales(MixedPrecisionTest):
    """float16 with a scale at which gradients overflow in the first steps."""

    LARGE = ["--loss-scale", 2**40]

    def setUp(self):
        super().setUp()
        self.bundle = self.compiled("fp16", *CUT, "--precision", "fp16")

    def manifest(self, folder, step):
        return json.loads((self.scratch / folder / "checkpoints" / f"step-{step}" / "manifest.json").read_text())

    def test_steps_that_overflow_are_skipped(self):
        done, losses = self.run_bundle(self.bundle, "large", 40, *self.LARGE)
        skipped = int(re.search(r"^(\d+) of 40 steps updated nothing", done.stdout, re.MULTILINE)[1])
        first = losses.count(losses[0]) - 1  # as long as nothing is updated, the loss stays
        self.assertTrue(5 < first <= skipped < 40, (first, skipped))
        manifest = self.manifest("large", 40)
        self.assertEqual((manifest["step"], manifest["updates"]), (40, 40 - skipped))
        self.assertEqual(manifest["loss_scale"]["scale"], 2.0**(40 - skipped))
        # What comes then is a run that begins with the scale that fits.
        fitting = self.losses(self.bundle, "fitting", 40 - first, "--loss-scale", 2**(40 - first))
        self.assertEqual(losses[first:], fitting)
        end = self.manifest("fitting", 40 - first)
        self.assertEqual((end["updates"], end["loss_scale"]), (manifest["updates"], manifest["loss_scale"]))

    def test_a_resumed_run_goes_on_to_the_bit(self):
        whole = self.losses(self.bundle, "whole", 40, *self.LARGE)
        for steps in (10, 33, 40):
            self.losses(self.bundle, "parts", steps, *(["--resume"] if steps > 10 else self.LARGE))
        self.assertEqual(self.losses_of("parts"), whole)

    def test_skipped_steps_are_no_fault(self):
        expected = self.losses(self.bundle, "plain", 30, *self.LARGE)
        self.assertEqual(self.losses(self.bundle, "searched", 30, *self.LARGE, "--find-nonfinite"), expected)

    def test_workers_skip_together(self):
        expected = self.losses(self.bundle, "threads", 34, *self.LARGE, "--clip-norm", 1)
        self.assertEqual(self.losses(self.bundle, "workers", 34, *self.LARGE, "--clip-norm", 1, "--transport", "gloo"), expected)

    def test_scales_do_not_change_what_fits(self):
        small = self.losses(self.bundle, "small", 5, "--loss-scale", 2**6)
        self.assert_near(self.losses(self.bundle, "other", 5, "--loss-scale", 2**9), small, NEAR["fp16"])


class OwnCasts(programs.ProgramTest):
    """A model that casts its float32 parameter to float16 itself."""
    SAMPLES, WIDTH = 64, 8

    def diverging(self):
        """A command without steps and learning rate."""
        rng = random.Random(5)
        shape, size = [self.SAMPLES, self.WIDTH], self.SAMPLES * self.WIDTH
        nodes = [onnx.node("Cast", ["w"], ["w16"], "narrow", onnx.number_attribute("to", onnx.FLOAT16)),
                 onnx.node("MatMul", ["x", "w16"], ["y16"], "product"),
                 onnx.node("Cast", ["y16"], ["y"], "wide", onnx.number_attribute("to", onnx.FLOAT))]
        weight = onnx.tensor("w", [self.WIDTH] * 2, [rng.gauss(0, 0.3) for _ in range(self.WIDTH**2)])
        model = onnx.write(self.scratch / "cast.onnx", nodes, [weight], [onnx.value("x", onnx.FLOAT16, ["batch", self.WIDTH])],
                           [onnx.value("y", onnx.FLOAT, ["batch", self.WIDTH])])
        data = self.scratch / "cast.safetensors"
        programs.write_safetensors(data, {
            name: (spelling, shape, onnx.raw(kind, [rng.gauss(0, 1) for _ in range(size)]))
            for name, spelling, kind in (("x/x", "F16", onnx.FLOAT16), ("labels/t", "F32", onnx.FLOAT))})
        bundle = self.scratch / "cast.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--loss", "mse(output=y,labels=t,reduction=sum)", "--costs", "analytic",
                     "--mini-batch", self.SAMPLES, "--micro-batches", 1, "--optimizer", "sgd", "--cluster", "local:1")
        return ["rannc-run", bundle, "-o", self.scratch / "run", "--replace", "--data", data, "--optimizer", "sgd"]

    def test_a_step_that_overflows_at_the_smallest_scale_is_an_error(self):
        command = self.diverging()
        self.refuse(1, ["the gradient's norm ", " at a loss scale of 1, the smallest"], *command, "--steps", 40, "--learning-rate", 4)
        self.refuse(1, ["--find-nonfinite: in step ", "first infinite number: task #", " core.matmul (product), stage 0"], *command,
                    "--steps", 40, "--learning-rate", 4, "--find-nonfinite")

    def test_a_run_that_ends_with_skipped_steps_warns(self):
        command = self.diverging()
        done = self.succeed(*command, "--steps", 12, "--learning-rate", 4)
        skipped = int(re.search(r"warning: the last (\d+) of 12 steps updated nothing", done.stderr)[1])
        self.assertIn("--find-nonfinite", done.stderr)
        self.assertLess(1, skipped)
        self.assertLess(skipped, 12)
        self.assertNotIn("warning", self.succeed(*command, "--steps", 12, "--learning-rate", 1e-3).stderr)


class Refusals(MixedPrecisionTest):
    def test_flags(self):
        done = self.run_program("rannc-compile", GPT / "model.onnx", "--loss", LOSS, "--precision", "fp8")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--precision", done.stderr)
        done = self.run_program("rannc-compile", GPT / "model.onnx", "--loss", LOSS, "--precision", "bf16", "--dtype", "float64", "-o",
                                self.scratch / "f64.rannc")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "mixed-precision: parameter '.*' is f64; parameters must be f32")
        self.assertFalse((self.scratch / "f64.rannc").exists())
        for scale in ("3", "0.5", "much"):
            done = self.run_program("rannc-run", self.scratch / "none", "--loss-scale", scale)
            self.assertEqual(done.returncode, 2)
            self.assertIn("power of two", done.stderr)


if __name__ == "__main__":
    programs.main()
