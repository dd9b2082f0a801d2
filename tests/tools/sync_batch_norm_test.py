"""Batch normalisation over replicas, through the programs: what replicas train equals what one worker trains."""
import array
import math
import os
import random
import signal

import programs
import small_onnx as onnx
import workers_test
from products import ProductTest

STEPS, SAMPLES, RELATIVE = 3, 8, 1e-5  # of float32
LOSS = "mse(output=y,labels=t)"


class SmallModel(programs.ProgramTest):
    """Conv, BatchNormalization in training mode, Relu, twice."""


    def setUp(self):
        super().setUp()
        rng = random.Random(5)
        draw = lambda *shape: [rng.gauss(0, 0.5) for _ in range(math.prod(shape))]
        nodes, tensors, x = [], [], "x"
        for i, (inward, outward) in enumerate(((2, 4), (4, 3))):
            tensors += [onnx.tensor(f"w{i}", [outward, inward, 1, 1], draw(outward, inward)), onnx.tensor(f"s{i}", [outward], [1] * outward),
                        onnx.tensor(f"b{i}", [outward], draw(outward)), onnx.tensor(f"mean{i}", [outward], draw(outward)),
                        onnx.tensor(f"variance{i}", [outward], [1] * outward)]
            y = "y" if i else f"r{i}"
            nodes += [onnx.node("Conv", [x, f"w{i}"], [f"c{i}"], f"conv{i}"),
                      onnx.node("BatchNormalization", [f"c{i}", f"s{i}", f"b{i}", f"mean{i}", f"variance{i}"], [f"n{i}", f"m{i}", f"v{i}"],
                                f"norm{i}", onnx.number_attribute("training_mode", 1)),
                      onnx.node("Relu", [f"n{i}"], [y], f"relu{i}")]
            x = y
        self.model = onnx.write(self.scratch / "model.onnx", nodes, tensors, [onnx.value("x", onnx.FLOAT, ["N", 2, 3, 3])],
                                [onnx.value("y", onnx.FLOAT, ["N", 3, 3, 3])])
        self.data = self.scratch / "data.safetensors"
        # Samples of different size: parts of them have other moments than all.
        x = [rng.gauss(0.3 * i, 0.2 + i) for i in range(SAMPLES) for _ in range(18)]
        programs.write_safetensors(self.data, {"x/x": ("F32", [SAMPLES, 2, 3, 3], array.array("f", x).tobytes()),
                                               "labels/t": ("F32", [SAMPLES, 3, 3, 3], array.array("f", draw(SAMPLES, 27)).tobytes())})

    def compiled(self, name, *flags):
        bundle = self.scratch / f"{name}.rannc"
        done = self.succeed("rannc-compile", self.model, "-o", bundle, "--loss", LOSS, "--costs", "analytic", "--mini-batch", SAMPLES,
                            "--optimizer", "sgd", *flags)
        return bundle, done


class Trained(SmallModel):
    def losses(self, bundle, transport="local"):
        """As text, bit for bit."""
        folder, log = self.scratch / f"{bundle.stem}-{transport}", self.scratch / f"{bundle.stem}-{transport}.log"
        self.succeed("rannc-run", bundle, "-o", folder, "--data", self.data, "--steps", STEPS, "--transport", transport, "--loss-log", log,
                     "--learning-rate", "0.05")
        return [line.split()[1] for line in log.read_text().splitlines()]

    def close(self, found, expected):
        pairs = [(float.fromhex(own), float.fromhex(other)) for own, other in zip(found, expected, strict=True)]
        return all(abs(own - other) <= RELATIVE * abs(other) for own, other in pairs)

    def test_replicas_train_as_one_worker(self):
        for count in (1, 2):
            one = self.losses(self.compiled(f"one{count}", "--cluster", "local:1", "--micro-batches", count)[0])
            self.assertFalse(self.close(one[:1], one[-1:]), "steps change what is compared")
            for replicas in ("2", "3", "2,1"):
                with self.subTest(micro_batches=count, replicas=replicas):
                    flags = ["--cluster", "local:3", "--micro-batches", count, "--stages", replicas.count(",") + 1, "--replicas", replicas,
                             "--schedule", "1f1b"]  # whose cut leaves a norm on the stage with replicas
                    bundle, _ = self.compiled(f"joint{count}-{replicas}", *flags, "--sync-batch-norm")
                    found = self.losses(bundle)
                    self.assertTrue(self.close(found, one), (found, one))
                    self.assertEqual(self.losses(bundle, "gloo"), found)
                    apart = self.losses(self.compiled(f"apart{count}-{replicas}", *flags)[0])
                    self.assertFalse(self.close(apart, one), "else nothing is shown")

    def test_one_replica_is_what_it_was(self):
        flags = ["--cluster", "local:2", "--micro-batches", 2, "--stages", 2, "--replicas", "1,1"]
        self.assertEqual(self.losses(self.compiled("joint", *flags, "--sync-batch-norm")[0]), self.losses(self.compiled("plain", *flags)[0]))

    def test_plan_and_bundle_say_so(self):
        bundle, _ = self.compiled("joint", "--cluster", "local:2", "--replicas", "2", "--stages", 1, "--sync-batch-norm")
        self.assertEqual((bundle / "plan.rir").read_text().split("functions @s0")[0].count("synchronised = true"), 2)
        self.succeed("rannc-opt", bundle / "plan.rir", "-o", self.scratch / "plan.rir")
        self.assertEqual((self.scratch / "plan.rir").read_text().split("functions @s0")[0].count("synchronised = true"), 2)
        again = self.succeed("rannc-opt", self.scratch / "plan.rir").stdout
        self.assertEqual(again, (self.scratch / "plan.rir").read_text())
        plain, _ = self.compiled("plain", "--cluster", "local:2", "--replicas", "2", "--stages", 1)
        self.assertNotIn("synchronised", (plain / "plan.rir").read_text())

    def test_the_report_says_by_what_batches_are_normalised(self):
        _, joint = self.compiled("joint", "--cluster", "local:2", "--sync-batch-norm")
        self.assertIn("trains   2 batch normalisations over the samples of a micro-batch on all replicas: losses depend on the number of "
                      "micro-batches\n", joint.stderr)
        _, plain = self.compiled("plain", "--cluster", "local:2")
        self.assertIn("trains   2 batch normalisations over the samples of a micro-batch on one replica: losses depend on the numbers of "
                      "micro-batches and replicas", plain.stderr)

    def test_a_replica_without_samples_is_refused(self):
        common = ["--loss", LOSS, "--costs", "analytic", "--mini-batch", 5, "--cluster", "local:3", "--stages", 1, "--replicas", "3",
                  "--micro-batches", 2, "-o", self.scratch / "none.rannc"]
        self.refuse(1, ["P18", "norm0", "all 3 replicas of stage @s0", "has 2"], "rannc-compile", self.model, *common, "--sync-batch-norm")
        self.succeed("rannc-compile", self.model, *common)

    def test_nothing_to_synchronise(self):
        model = programs.DATA / "small_mlp" / "model.onnx"
        done = self.succeed("rannc-compile", model, "-o", self.scratch / "mlp.rannc", "--costs", "analytic", "--cluster", "local:1",
                            "--sync-batch-norm")
        self.assertIn("warning: sync-batch-norm: no batch normalisation is in training mode", done.stderr)


class Interrupted(SmallModel, workers_test.WorkersTest):
    """Nobody waits for ever for a replica that has gone, though it is in the middle of a pass."""

    def test_a_worker_that_goes_ends_all(self):
        bundle, _ = self.compiled("joint", "--cluster", "local:3", "--stages", 1, "--replicas", "3", "--sync-batch-norm")
        self.log = self.scratch / "steps.log"
        for number, victim in ((signal.SIGKILL, 1), (signal.SIGSTOP, 2), (signal.SIGKILL, 0)):
            with self.subTest(signal=number.name, victim=victim):
                launcher = self.popen(["rannc-run", bundle, "-o", self.scratch / f"run-{victim}", "--data", self.data, "--steps", 10**9,
                                       "--timeout", workers_test.TIMEOUT, "--transport", "gloo", "--learning-rate", "0.01", "--loss-log",
                                       self.log])
                self.await_step(launcher)
                workers = sorted(programs.children(launcher.pid))
                os.kill(workers[victim], number)
                self.assertIn(f"worker {victim} ", self.ends(launcher))
                self.assertEqual([worker for worker in workers if programs.alive(worker)], [])
                self.log.unlink()


class PublishedModels(ProductTest):
    """Replicas of one micro-batch give the reference of the whole mini-batch."""

    product = {"replicas": ["2", "2,2"], "micro_batches": [1], "schedule": ["1f1b"], "recompute": ["never", "always"]}

    def setUp(self):
        super().setUp()
        models = programs.shared_models()
        if models is None:
            self.skipTest("no published models here")
        self.folder = models / "resnet_train_legacy"

    def test_whole_mini_batch(self):
        self.judge([self.folder], ["local", "gloo"], product=self.product, sync_batch_norm=True)

    def test_without_the_flag_it_is_another_model(self):
        done, entries = programs.check([self.folder], replicas="2", micro_batches=1)
        self.assertEqual((done.returncode, [entry["ok"] for entry in entries]), (1, [False]), done.stderr)


if __name__ == "__main__":
    programs.main()
