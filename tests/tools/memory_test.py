"""What a plan predicts of memory is what the tensors of its workers take, within 2 %: counted, not timed."""
import math
import random
import struct
import unittest

import memory_runs
import programs
import small_onnx as onnx

LOSSES = {"gpt": "cross_entropy(output=logits,labels=targets)"}


class MemoryTest(memory_runs.MemoryRuns):
    @property
    def text(self):
        return ["--text", programs.SOURCE / "tests" / "requirements.md"]

    def expect_gpt(self, stages, micro_batches, schedule, recompute, *model, mini_batch=12, **options):
        self.expect(self.model("gpt", "--layers", 4, "--width", 64, "--heads", 4, "--context", 64, *model), LOSSES["gpt"],
                    self.text, stages, "--stages", stages, "--mini-batch", mini_batch, "--micro-batches", micro_batches,
                    "--schedule", schedule, "--recompute", recompute, **options)

    def expect_replicas(self, replicas, *flags, schedules=("1f1b", "gpipe"), layers=4, width=64, context=64, mini_batch=16,
                        **options):
        """One process per device, and all in one."""
        devices = sum(replicas)
        model = self.model("gpt", "--layers", layers, "--width", width, "--heads", 4, "--context", context)
        for schedule in schedules:
            self.expect(model, LOSSES["gpt"], self.text, devices, "--stages", len(replicas), "--replicas",
                        ",".join(map(str, replicas)), "--mini-batch", mini_batch, "--micro-batches", 4, "--schedule",
                        schedule, *flags, transports=("gloo", "local"), **options)

    def test_one_stage(self):
        self.expect_gpt(1, 1, "gpipe", "never", transports=("local", "gloo"))
        self.expect_gpt(1, 4, "1f1b", "never")

    def test_compiled_stages(self):
        model = self.model("gpt", "--layers", 2, "--width", 64, "--heads", 4, "--context", 64)
        self.expect(model, LOSSES["gpt"], self.text, 1, "--mini-batch", 8, "--micro-batches", 2, "--form", "native")

    @programs.whole
    def test_recompute_and_its_last_micro_batch(self):
        self.expect_gpt(1, 4, "gpipe", "always")

    def test_recompute_modes(self):
        for recompute in ("always", "except-last"):
            self.expect_gpt(1, 4, "1f1b", recompute)
        self.expect_replicas([1, 1], "--recompute", "except-last", schedules=["1f1b"])

    def test_selective_recompute(self):
        self.expect_gpt(1, 4, "gpipe", "selective")
        self.expect_replicas([1, 1], "--recompute", "selective")
        budget = ["--recompute", "selective", "--recompute-budget", 15]
        self.expect_replicas([1, 1], *budget, schedules=["1f1b", "zb-h1"])

    def test_tied_parameters_are_held_once(self):
        self.expect_gpt(1, 4, "1f1b", "never", "--tied", "--vocabulary", 512)

    def test_logits_that_outweigh_weights(self):
        # The step's first backward pass begins the sums of gradients while all that the tape keeps is there; looked-up
        # rows of a table of 2 MiB come last.
        for tied in programs.part([[], ["--tied"]], 1):
            self.expect_gpt(1, 1, "gpipe", "never", "--vocabulary", 8192, *tied, mini_batch=8)
            self.expect_gpt(1, 3, "1f1b", "never", "--vocabulary", 8192, *tied, mini_batch=8)

    def test_optimizer_without_state(self):
        self.expect_gpt(1, 3, "1f1b", "never", optimizer="sgd")

    def test_two_stages(self):
        for recompute in ("never", "always"):
            self.expect_replicas([1, 1], "--recompute", recompute)

    def test_more_micro_batches_need_no_more_memory(self):
        """D8: 4 to 16 micro-batches of two samples, to 64 in tier "full". Each worker is counted what it reads of a mini-batch: x or
        labels, 64 numbers of 8 bytes a sample."""
        model = self.model("gpt", "--layers", 4, "--width", 64, "--heads", 4, "--context", 64)
        for schedule in programs.part(["1f1b", "zb-h1"], 1):
            peaks = []
            for micro_batches in programs.part([4, 16, 64], 2):
                folder = self.scratch / f"{schedule}-{micro_batches}"
                folder.mkdir()
                bundle = self.bundle(folder, model, LOSSES["gpt"], 2, "--stages", 2, "--mini-batch", 2 * micro_batches, "--micro-batches",
                                     micro_batches, "--schedule", schedule, "--recompute", "never")
                given = 2 * micro_batches * 64 * 8
                peaks.append([measured - given for _, measured, _ in self.peaks(bundle, self.text, "gloo")])
            for least, most in ((min(device), max(device)) for device in zip(*peaks)):
                self.assertLess(most / least - 1, 0.01, f"{schedule}: {peaks}")

    @programs.whole
    def test_two_replicas(self):
        self.expect_replicas([2], "--recompute", "never")

    def test_two_replicas_of_the_first_stage(self):
        self.expect_replicas([2, 1], "--recompute", "never")

    def test_shares_of_the_optimizer_state(self):
        """R18, D8: one process per replica, and all in one. Each device is predicted to hold the largest share of Adam's state."""
        gpt = ["--layers", 4, "--width", 64, "--heads", 4, "--context", 64]
        for replicas in programs.part([3, 2], 1):
            self.expect(self.model("gpt", *gpt), LOSSES["gpt"], self.text, replicas, *self.sharded(replicas), transports=("shm", "local"))
        model, data = self.bert("--layers", 2, "--width", 128), self.scratch / "data.safetensors"
        for replicas in programs.part([2, 3], 1):
            self.expect(model, "cross_entropy(output=logits,labels=y)", ["--data", data], replicas, *self.sharded(replicas),
                        transports=("shm",))

    @staticmethod
    def sharded(replicas):
        return ["--stages", 1, "--replicas", replicas, "--mini-batch", 12, "--micro-batches", 2, "--shard-optimizer", "on"]

    def test_sums_of_gradients_that_outweigh_activations(self):
        for replicas in programs.part([[2, 1], [2], [3]], 1):
            self.expect_replicas(replicas, "--recompute", "never", schedules=["1f1b"], layers=2, width=128, context=8,
                                 mini_batch=12)

    def test_sums_of_sixteen_bits_are_float32(self):
        width, samples, kind, rng = 512, 32, onnx.BFLOAT16, random.Random(1)

        def drawn(*shape):
            return [rng.gauss(0, 0.05) for _ in range(math.prod(shape))]

        nodes, initializers, value = [], [], "x"
        for i in range(4):
            initializers.append(onnx.tensor(f"layer{i}.weight", [width, width], drawn(width, width), kind))
            nodes += [onnx.node("MatMul", [value, f"layer{i}.weight"], [f"m{i}"], f"linear{i}"),
                      onnx.node("Relu", [f"m{i}"], [f"y{i}"], f"relu{i}")]
            value = f"y{i}"
        model = onnx.write(self.scratch / "narrow.onnx", nodes, initializers, [onnx.value("x", kind, ["batch", width])],
                           [onnx.value(value, kind, ["batch", width])])
        data = self.scratch / "narrow.safetensors"
        programs.write_safetensors(data, {"x/x": ("BF16", [samples, width], onnx.raw(kind, drawn(samples, width))),
                                          "labels/y": ("F32", [samples, width], onnx.raw(onnx.FLOAT, drawn(samples, width)))})
        for cut in (["--stages", 2], ["--replicas", 2]):
            with self.subTest(cut=cut):
                self.expect(model, "mse(labels=y)", ["--data", data], 2, "--mini-batch", samples, "--micro-batches", 4, *cut)
        # Few samples: the optimizer's wide copies outweigh what the passes hold.
        for optimizer in ("sgd", "adam"):
            self.expect(model, "mse(labels=y)", ["--data", data], 1, "--mini-batch", 2, "--micro-batches", 1, optimizer=optimizer)

    def convolutions(self, side=32, samples=8):
        """Odd channels, a stride, a group a channel, a transposed convolution, large filters over few places; with its data."""
        rng = random.Random(2)
        nodes, initializers, value = [], [], "x"

        def add(op, name, weight, window, strides, pads, groups=1):
            nonlocal value
            numbers = [rng.gauss(0, 0.05) for _ in range(math.prod(weight))]
            initializers.append(onnx.tensor(f"{name}.weight", weight, numbers))
            nodes.extend([onnx.node(op, [value, f"{name}.weight"], [f"{name}.made"], name,
                                    onnx.numbers_attribute("kernel_shape", [window] * 2), onnx.numbers_attribute("strides", [strides] * 2),
                                    onnx.numbers_attribute("pads", [pads] * 4), onnx.number_attribute("group", groups)),
                          onnx.node("Relu", [f"{name}.made"], [f"{name}.result"], f"{name}.relu")])
            value = f"{name}.result"

        add("Conv", "stem", [17, 3, 3, 3], 3, 1, 1)
        add("Conv", "odd", [33, 17, 3, 3], 3, 2, 1)
        add("Conv", "apart", [33, 1, 3, 3], 3, 1, 1, 33)
        add("Conv", "deep", [256, 33, 3, 3], 3, 4, 1)
        add("Conv", "filters", [256, 256, 3, 3], 3, 1, 1)
        add("ConvTranspose", "up", [256, 20, 2, 2], 2, 2, 0)
        images, labels = [samples, 3, side, side], [samples, 20, side // 4, side // 4]
        model = onnx.write(self.scratch / "convolutions.onnx", nodes, initializers, [onnx.value("x", onnx.FLOAT, ["batch", *images[1:]])],
                           [onnx.value(value, onnx.FLOAT, ["batch", *labels[1:]])])
        data = self.scratch / "convolutions.safetensors"
        programs.write_safetensors(data, {name: ("F32", shape, onnx.raw(onnx.FLOAT, [rng.gauss(0, 1) for _ in range(math.prod(shape))]))
                                          for name, shape in (("x/x", images), ("labels/y", labels))})
        return model, ["--data", data]

    def expect_convolutions(self, devices, *flags, **options):
        model, data = self.convolutions()
        self.expect(model, "mse(labels=y)", data, devices, "--mini-batch", 8, *flags, optimizer="sgd", **options)

    def test_copies_that_convolutions_compute_on(self):
        for micro_batches in (1, 2):
            self.expect_convolutions(1, "--micro-batches", micro_batches)
        self.expect_convolutions(2, "--stages", 2, "--micro-batches", 4, "--schedule", "gpipe")
        # The last stage holds 0.4 MB: its loss must not keep the memory of what it was reduced from.
        self.expect_convolutions(3, "--stages", 3, "--micro-batches", 8, "--schedule", "1f1b")
        self.expect_convolutions(2, "--stages", 2, "--micro-batches", 4, "--schedule", "gpipe", "--recompute", "always")
        self.expect_convolutions(2, "--replicas", 2, "--micro-batches", 2, transports=("gloo", "local"))

    @programs.whole
    def test_copies_for_less_vector_instructions(self):
        """oneDNN has other kernels for processors without AVX2, whose gradients multiply unfolded images."""
        for self.instructions in programs.part(["SSE41", "AVX2", "AVX"], 1):
            self.expect_convolutions(1, "--micro-batches", 1)
            self.expect_convolutions(2, "--stages", 2, "--micro-batches", 4, "--schedule", "1f1b")

    @programs.whole
    def test_gradients_that_wait_for_a_peer(self):
        """A peer that computes on takes a gradient late: it is held until its send is awaited."""
        self.expect_convolutions(2, "--stages", 2, "--micro-batches", 4, "--schedule", "dapple-b")
        self.expect_convolutions(3, "--stages", 3, "--micro-batches", 8, "--schedule", "dapple-b")

    def test_convolutions_with_chosen_kernels(self):
        """Which lie channels last where that is faster: the large filters are then copied four times."""
        self.expect_convolutions(1, "--micro-batches", 1, costs="measured")
        self.expect_convolutions(2, "--stages", 2, "--micro-batches", 2, "--schedule", "gpipe", costs="measured")

    def expect_folder(self, folder, devices, micro_batches):
        """Activations outweigh its weights."""
        self.expect_export(folder, devices, "--stages", devices, "--mini-batch", 8, "--micro-batches", micro_batches, "--schedule", "gpipe",
                           "--recompute", "never")

    def bert(self, *flags):
        """The model; its samples are in `data.safetensors`."""
        ones = struct.pack("<q", 1) * (16 * 64)
        tensors = {f"x/{name}": ("I64", [16, 64], ones) for name in ("input_ids", "token_type_ids", "attention_mask")}
        programs.write_safetensors(self.scratch / "data.safetensors", {**tensors, "labels/y": ("I64", [16, 64], ones)})
        return self.model("bert", "--sequence", 64, "--vocabulary", 100, *flags)

    def test_draws_are_kept_where_they_are_factors(self):
        """What is dropped outweighs the weights: 3 factors a layer, beside those after the embeddings."""
        model, data = self.bert("--layers", 2, "--width", 64, "--dropout", 0.1), self.scratch / "data.safetensors"
        for recompute in ("never", "always"):
            for replicas in (1, 2):
                self.expect(model, "cross_entropy(output=logits,labels=y)", ["--data", data], replicas, "--replicas", replicas,
                            "--mini-batch", 16, "--micro-batches", 2, "--recompute", recompute, optimizer="sgd")

    def test_small_exports(self):
        for name in ("small_gpt", "small_mlp"):
            self.expect_folder(programs.DATA / name, 1, 2)

    @unittest.skipUnless(programs.shared_models(), "no published models")
    def test_published_exports(self):
        for name in programs.part(["gpt2_dynamo_dyn", "lstm_legacy_dyn", "resnet_folded_dynamo", "bert_legacy_dyn", "vit_dynamo_dyn",
                                   "llama_dynamo_dyn"], 3):
            self.expect_folder(programs.shared_models() / name, 1, 2)
        for name in programs.part(["bert_dynamo_dyn", "t5_dynamo_dyn"], 1):
            self.expect_folder(programs.shared_models() / name, 2, 4)

    @unittest.skipUnless(programs.shared_models(), "no published models")
    def test_what_waits_for_w(self):
        """Images, gradients and activations that I leaves to W; a symbolic length."""
        for name in programs.part(["unet_folded_dynamo", "gpt2_dynamo_auto", "vit_dynamo_dyn", "llama_unoptimized_dynamo_b8"], 2):
            with self.subTest(name=name):
                self.expect_export(programs.shared_models() / name, 2, "--stages", 2, "--mini-batch", 8, "--micro-batches", 4, "--schedule",
                                   "zb-h1", "--recompute", "selective", "--recompute-budget", 15)


if __name__ == "__main__":
    programs.main()
