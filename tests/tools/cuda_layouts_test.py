"""Images run channels last on CUDA devices by the structure of a model, with the numbers of the processor to the last bit."""
import array
import json
import re

import kernels_test
import memory_runs
import programs

GPUS = """name = "gpus"
[kind.gpu]
memory_bytes = 1e10
flops = {{ f32 = 1e12, tf32 = 8e12, bf16 = 1.6e13, f16 = 1.6e13, f64 = 1e12 }}
bandwidth = 1e11
device = "{}"
[[node]]
inside = {{ bandwidth = 1e11, latency_ns = 5000 }}
devices = [{{ kind = "gpu", count = {} }}]
"""
REMARK = re.compile(r"kernels by bytes moved: (\d+) of (\d+) tasks compute channels last, (\d+) copies between layouts(?:, (\d+) copied weights)?")
BF16, TF32, FLOAT64 = ("--precision", "bf16"), ("--matmul-precision", "high"), ("--dtype", "float64")


def counts_of(done):
    """(tasks that run channels last, those that could, copies of images, copies of weights); nothing if none was moved."""
    remark = REMARK.search(done.stderr)
    return tuple(int(count or 0) for count in remark.groups()) if remark else None


@programs.unittest.skipIf(programs.shared_models() is None, "no folder of published models; RANNC_SHARED_DIR names it")
class PublishedModels(programs.ProgramTest):
    def compiled(self, name, *flags, cluster="h100-1"):
        folder = programs.shared_models() / name
        card = json.loads((folder / "card.json").read_text())
        plan = self.scratch / f"{name}.rir"
        done = self.succeed("rannc-compile", folder / "model.onnx", "--cluster", cluster, "--loss", memory_runs.loss_of(card), "--mini-batch", 8,
                            "--emit=plan", "-o", plan, "--replace", *flags)
        return counts_of(done), plan.read_text()

    def convolutions(self, plan, grouped):
        """Those with or without groups of channels, each with whether it computes channels last."""
        found = [line for line in plan.split("functions @s0")[0].splitlines() if "= core.conv(" in line]
        return ["channels_last = true" in line for line in found if ("groups = 1," not in line) == grouped]

    def test_regions(self):
        """Residual networks as a whole, with one copy of the image and one of what is pooled by a mean; patches of a ViT not at all."""
        resnet, unet, vgg = (47, 47, 2, 7), (23, 23, 6, 10), (8, 8, 2, 5)
        for name, expected in [("resnet_train_legacy", {(): resnet, BF16: resnet, TF32: resnet}), ("unet_train_legacy", {(): unet, BF16: unet, TF32: unet}),
                               ("vgg_legacy_dyn", {(): None, BF16: vgg, TF32: vgg}), ("vit_dynamo_dyn", {(): None, BF16: None, TF32: None})]:
            for flags, counts in {**expected, FLOAT64: None}.items():
                with self.subTest(name=name, flags=flags):
                    found, plan = self.compiled(name, *flags)
                    self.assertEqual(found, counts)
                    self.assertEqual(all(self.convolutions(plan, False)), counts is not None)

    def test_depthwise_convolutions(self):
        for flags, counts in {(): (22, 32, 13, 1), BF16: (32, 32, 8, 1), TF32: (28, 32, 16, 1), FLOAT64: None}.items():
            with self.subTest(flags=flags):
                found, plan = self.compiled("mobilenet_v3_train_legacy", *flags)
                self.assertEqual(found, counts)
                self.assertEqual(self.convolutions(plan, True), 4 * [flags == BF16])

    def test_clusters(self):
        """All devices have to be of CUDA; a flag switches the rule off."""
        self.assertEqual(self.compiled("resnet_train_legacy", cluster="h200-1")[0], (47, 47, 2, 7))
        self.assertEqual(self.compiled("resnet_train_legacy", "--stages", 2, cluster="v100-2")[0], (47, 47, 2, 7))
        self.assertIsNone(self.compiled("vgg_legacy_dyn", *TF32, cluster="v100-2")[0], "it has no TF32")
        for cluster, flags in [("flat:2", ()), ("local:2", ("--costs", "analytic")), ("h100-1", ("--kernels", "default"))]:
            found, plan = self.compiled("resnet_train_legacy", *flags, cluster=cluster)
            self.assertIsNone(found)
            self.assertNotIn("channels_last", plan)
            self.assertNotIn("core.contiguous", plan)


    def test_checks_compare_the_formats_of_plans(self):
        """rannc-check sums in another order on devices than on the processor, but for float64."""
        device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
        for dtype, differs in (("float32", True), ("float64", False)):
            found = []
            for on in ("cpu", device):
                done = self.succeed("rannc-check", programs.shared_models() / "resnet_train_legacy", "--stages", 2, "--micro-batches", 4, "--dtype", dtype,
                                    "--device", on, "--summary=json")
                found.append(json.loads(done.stdout)["gradients"]["relative"])
            self.assertEqual(found[0] != found[1], differs, (dtype, found))


class Runs(kernels_test.KernelRuns):
    """On an asynchronous device with memory of its own, as on a GPU."""

    def setUp(self):
        super().setUp()
        self.device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"

    def bundle(self, name, *flags, count=3, device="cuda"):
        cluster = self.scratch / f"{device}{count}.toml"
        cluster.write_text(GPUS.format(device, count))
        return self.compiled(name, "--cluster", cluster, "--costs", "analytic", "--micro-batches", 2, *flags)

    def test_losses_are_those_of_the_processor_in_every_cut(self):
        first, done = self.bundle("first", "--devices", 1, "--kernels", "default")
        self.assertIsNone(counts_of(done))
        in_order = self.losses(first)
        bundle, done = self.bundle("last", "--devices", 1)
        self.assertEqual(counts_of(done), (6, 6, 2, 2))
        expected = self.losses(bundle)
        self.close(expected, in_order)
        self.assertNotEqual(expected, in_order, "sums in another order")
        for name, flags in {"two": ("--stages", 2), "three": ("--stages", 3), "again": ("--recompute", "always", "--devices", 1)}.items():
            cut, done = self.bundle(name, *flags)
            self.assertEqual(counts_of(done), (6, 6, 2, 2))
            for device in ("cpu", self.device):
                self.assertEqual(self.losses(cut, "local", "--device", device, "--replace"), expected, (name, device))
        for flags in ((), ("--no-cuda-graphs",), ("--deterministic",), ("--transport", "gloo")):
            done = self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", self.data, "--steps", kernels_test.STEPS, "--loss-log",
                                self.scratch / "log", "--learning-rate", "0.1", "--device", self.device, "--replace", *flags)
            self.assertEqual([line.split()[1] for line in (self.scratch / "log").read_text().splitlines()], expected, flags)
            self.assertNotIn("without CUDA graphs", done.stdout + done.stderr)

    def test_replicas_normalize_together(self):
        flags = ("--stages", 1, "--replicas", 2, "--devices", 2, "--sync-batch-norm")
        self.assertIsNone(counts_of(self.bundle("plain", *flags)[1]), "LibTorch does not compute these normalizations")
        bundle, done = self.bundle("replicas", *flags, *TF32)
        self.assertEqual(counts_of(done), (5, 6, 2, 2), "the last normalization reads the copy")
        expected = self.losses(bundle)
        for transport in ("local", "gloo"):
            self.assertEqual(self.losses(bundle, transport, "--device", self.device, "--replace"), expected)

    def test_memory_has_the_copies_of_weights(self):
        """Peaks on the processor are those of the plan, whose kernels it is predicted for, within 2 %."""
        model, side, samples = self.scratch / "resnet.onnx", 64, 16
        self.succeed("rannc-zoo", "resnet", "--depth", 50, "--image", side, "--classes", 10, "-o", model)
        data = self.scratch / "images.safetensors"
        images = [samples, 3, side, side]
        programs.write_safetensors(data, {"x/image": ("F32", images, array.array("f", self.draw(*images)).tobytes()),
                                          "labels/t": ("I64", [samples], array.array("q", [n % 10 for n in range(samples)]).tobytes())})
        cluster = self.scratch / "one.toml"
        cluster.write_text(GPUS.format("cuda", 1))
        predicted = {}
        for kernels in ("measured", "default"):
            for count in (1, 4):
                bundle = self.scratch / f"resnet-{kernels}-{count}.rannc"
                self.succeed("rannc-compile", model, "-o", bundle, "--cluster", cluster, "--loss", "cross_entropy(output=logits,labels=t,axis=1)",
                             "--mini-batch", samples, "--micro-batches", count, "--optimizer", "sgd", "--kernels", kernels)
                done = self.succeed("rannc-run", bundle, "-o", self.scratch / "resnet.run", "--data", data, "--steps", 2, "--device", "cpu", "--replace")
                held, predicted[kernels, count] = map(int, re.search(r"held (\d+) bytes at most, (\d+) were predicted", done.stdout).groups())
                self.assertLessEqual(abs(held / predicted[kernels, count] - 1), memory_runs.LIMIT, (kernels, count))
        weights = 4 * 9 * (3 * 64**2 + 4 * 128**2 + 6 * 256**2 + 3 * 512**2)  # of 16 convolutions; the first one reads three channels
        for count in (1, 4):
            self.assertGreater(predicted["measured", count] - predicted["default", count], weights)

    def test_profiles_have_the_tasks_of_plans(self):
        """Those of images in both memory formats: plans with and without the choice are priced by measured times alone."""
        database, cluster, kind = self.scratch / "device.json", self.scratch / "kind.toml", "test-device-0"
        self.succeed("rannc-profile", self.model, "--loss", kernels_test.LOSS, "--sizes", 8, "--repeat", 1, "--database", database, "--device",
                     self.device)
        cluster.write_text(GPUS.format("cuda", 1).replace("kind.gpu", f"kind.{kind}").replace('"gpu"', f'"{kind}"'))
        for flags, counts in (((), (6, 6, 2, 2)), (("--kernels", "default"), None)):
            _, done = self.compiled("priced", "--cluster", cluster, "--costs", database, "--micro-batches", 1, "--replace", *flags)
            self.assertEqual(counts_of(done), counts)
            self.assertNotIn("have no measurement", done.stderr)

    def test_plans_are_used_again(self):
        bundle, _ = self.bundle("saved", "--devices", 1)
        plan = bundle / "plan.rir"
        again = self.scratch / "again.rannc"
        done = self.succeed("rannc-compile", self.model, "-o", again, "--loss", kernels_test.LOSS, "--plan", plan, "--cluster", self.scratch / "cuda3.toml",
                            "--devices", 1)
        self.assertIsNone(counts_of(done))
        of = lambda text: text.split("functions @s0")[0].partition("plan ")[0]
        self.assertEqual(of((again / "plan.rir").read_text()), of(plan.read_text()))
        self.assertEqual(self.losses(again), self.losses(bundle))

    def test_pinned_tasks(self):
        """Copies of images and of weights before them count."""
        bundle, _ = self.bundle("pinned", "--stages", 2, "--pin", "add1=0", "--pin", "relu1=1")
        self.assertEqual(*self.ends_of_first_stage(bundle, "a1"))


if __name__ == "__main__":
    programs.main()
