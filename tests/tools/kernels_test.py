"""Kernels and orders in memory by a profile database: the same numbers, in every cut to the last bit."""
import array
import json
import math
import random
import re

import programs
import small_onnx as onnx

STEPS, SAMPLES, RELATIVE = 3, 8, 1e-5  # of float32
LOSS = "mse(output=y,labels=t)"


class KernelRuns(programs.ProgramTest):
    """Runs of a small network of convolutions, normalizations in training and a residual."""

    def setUp(self):
        super().setUp()
        rng = random.Random(11)
        self.draw = lambda *shape: [rng.gauss(0, 0.3) for _ in range(math.prod(shape))]
        self.tensors = []
        nodes = [self.conv("c0", "x", 3, 8, 3), *self.norm("n0", "c0", 8), onnx.node("Relu", ["n0"], ["r0"], "relu0"),
                 self.conv("c1", "r0", 8, 8, 1), *self.norm("n1", "c1", 8), onnx.node("Add", ["n1", "r0"], ["a1"], "add1"),
                 onnx.node("Relu", ["a1"], ["r1"], "relu1"), self.conv("c2", "r1", 8, 6, 3), *self.norm("n2", "c2", 6),
                 onnx.node("Relu", ["n2"], ["r2"], "relu2"), onnx.node("GlobalAveragePool", ["r2"], ["p"], "pool"),
                 onnx.node("Flatten", ["p"], ["f"], "flat"), onnx.node("MatMul", ["f", "w"], ["y"], "head")]
        self.tensors.append(onnx.tensor("w", [6, 4], self.draw(6, 4)))
        self.model = onnx.write(self.scratch / "model.onnx", nodes, self.tensors, [onnx.value("x", onnx.FLOAT, ["N", 3, 6, 6])],
                                [onnx.value("y", onnx.FLOAT, ["N", 4])])
        self.data = self.scratch / "data.safetensors"
        programs.write_safetensors(self.data, {"x/x": ("F32", [SAMPLES, 3, 6, 6], array.array("f", self.draw(SAMPLES, 108)).tobytes()),
                                               "labels/t": ("F32", [SAMPLES, 4], array.array("f", self.draw(SAMPLES, 4)).tobytes())})

    def conv(self, name, read, inward, outward, window):
        self.tensors.append(onnx.tensor(f"{name}.weight", [outward, inward, window, window], self.draw(outward, inward, window, window)))
        pads = onnx.numbers_attribute("pads", [window // 2] * 4)
        return onnx.node("Conv", [read, f"{name}.weight"], [name], name, pads)

    def norm(self, name, read, channels):
        self.tensors += [onnx.tensor(f"{name}.{part}", [channels], values) for part, values in
                         (("scale", [1] * channels), ("bias", self.draw(channels)), ("mean", self.draw(channels)), ("variance", [1] * channels))]
        yield onnx.node("BatchNormalization", [read, *(f"{name}.{part}" for part in ("scale", "bias", "mean", "variance"))],
                        [name, f"{name}.m", f"{name}.v"], name, onnx.number_attribute("training_mode", 1))

    def compiled(self, name, *flags):
        bundle = self.scratch / f"{name}.rannc"
        done = self.succeed("rannc-compile", self.model, "-o", bundle, "--loss", LOSS, "--mini-batch", SAMPLES, "--optimizer", "sgd",
                            "--no-refine", *flags)
        return bundle, done

    def losses(self, bundle, transport="local", *flags):
        """As text, bit for bit."""
        folder, log = self.scratch / f"{bundle.stem}-{transport}", self.scratch / f"{bundle.stem}-{transport}.log"
        self.succeed("rannc-run", bundle, "-o", folder, "--data", self.data, "--steps", STEPS, "--transport", transport, "--loss-log", log,
                     "--learning-rate", "0.1", *flags)
        return [line.split()[1] for line in log.read_text().splitlines()]

    @staticmethod
    def ends_of_first_stage(bundle, value):
        """The numbers of the last task of the first stage, which has all before it, and of the task that makes a value."""
        text = (bundle / "plan.rir").read_text().split("functions @s0")[0]
        return re.search(r"^stage @s0 tasks \[#0-#(\d+)\]", text, re.M)[1], re.search(rf"^#(\d+) %{value}:", text, re.M)[1]

    def close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            a, b = float.fromhex(a), float.fromhex(b)
            self.assertLessEqual(abs(a - b), RELATIVE * abs(b))


class KernelsTest(KernelRuns):
    def database(self, favoured):
        """A profile of this machine in which tasks are a hundred times as fast where `favoured(key)`."""
        path = self.scratch / "profile.json"
        if not path.exists():
            self.succeed("rannc-profile", self.model, "--loss", LOSS, "--sizes", SAMPLES, "--repeat", "1", "--database", path)
        profile = json.loads(path.read_text())
        for tasks in profile["tasks"].values():
            for key, curve in tasks.items():
                for cost in curve.values():
                    for part in list(cost):
                        if part.endswith("_ns"):
                            cost[part] = 1000.0 if favoured(key) else 100000.0
        made = self.scratch / "made_up.json"
        made.write_text(json.dumps(profile))
        return made

    def test_channels_last_is_the_same_run_in_every_cut(self):
        """N9: what is received, and gradients that come back, lie in memory as they do in one stage."""
        last = self.database(lambda key: "channels_last=true" in key or key.startswith("core.contiguous"))
        plain, _ = self.compiled("plain", "--cluster", "local:1", "--kernels", "default", "--micro-batches", 2)
        expected = self.losses(plain)
        self.assertNotIn("channels_last = true", (plain / "plan.rir").read_text())
        runs = {}
        for stages in (1, 2, 3):
            bundle, done = self.compiled(f"last{stages}", "--cluster", f"local:{stages}", "--stages", stages, "--micro-batches", 2, "--planner",
                                         "gpipe", "--costs", last)
            self.assertIn("6 of 6 tasks compute channels last", done.stderr)
            plan = (bundle / "plan.rir").read_text().split("functions @s0")[0]
            self.assertEqual(plan.count("core.contiguous"), 2, "the image, and what is flattened at the end")
            for transport in ("local", "gloo")[:stages]:
                runs[stages, transport] = self.losses(bundle, transport)
        for cut, losses in runs.items():
            self.assertEqual(losses, runs[1, "local"], cut)
        self.close(runs[1, "local"], expected)

    def test_mixed_orders_train_and_evaluate_as_replicas(self):
        """Every second kind of task the other way round, so that both directions of copies are there."""
        def favoured(key):
            other_way = "p:f32[8,8,1,1]" in key or "f32[6]" in key
            return key.startswith("core.contiguous") or ("channels_last=true" in key) == other_way

        mixed = self.database(favoured)
        plain, _ = self.compiled("plain", "--cluster", "local:1", "--kernels", "default", "--sync-batch-norm", "--micro-batches", 1)
        expected = self.losses(plain)
        bundle, _ = self.compiled("mixed", "--cluster", "local:2", "--stages", 1, "--replicas", 2, "--micro-batches", 1, "--costs", mixed,
                                  "--sync-batch-norm")
        plan = (bundle / "plan.rir").read_text()
        self.assertGreaterEqual(plan.count("core.contiguous"), 2)
        for transport in ("local", "gloo"):
            self.close(self.losses(bundle, transport), expected)

    def test_pinned_tasks(self):
        """Names are those of the tasks that the plan has, whose numbers follow from the copies."""
        last = self.database(lambda key: "channels_last=true" in key or key.startswith("core.contiguous"))
        bundle, _ = self.compiled("pinned", "--cluster", "local:2", "--stages", 2, "--pin", "add1=0", "--pin", "relu1=1", "--costs", last)
        self.assertEqual(*self.ends_of_first_stage(bundle, "a1"))

    def test_measured_here_and_now(self):
        bundle, _ = self.compiled("here", "--cluster", "local:1", "--micro-batches", 2)
        plain, _ = self.compiled("plain", "--cluster", "local:1", "--kernels", "default", "--micro-batches", 2)
        self.close(self.losses(bundle), self.losses(plain))


if __name__ == "__main__":
    programs.main()
