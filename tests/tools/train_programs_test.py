"""The programs themselves train models of usual kinds: as one worker, as two stages and as two replicas, by both transports."""
import array
import random
import struct

import programs

STEPS, SAMPLES = 3, 8
RELATIVE = 1e-5  # of float32


def numbers(rng, *shape):
    size = SAMPLES
    for extent in shape:
        size *= extent
    return "F32", [SAMPLES, *shape], array.array("f", [rng.gauss(0, 1) for _ in range(size)]).tobytes()


def integers(rng, below, *shape):
    size = SAMPLES
    for extent in shape:
        size *= extent
    return "I64", [SAMPLES, *shape], array.array("q", [rng.randrange(below) for _ in range(size)]).tobytes()


class TrainPrograms(programs.ProgramTest):
    def losses(self, model, loss, data, name, transport, *flags):
        bundle, log = self.scratch / f"{name}.rannc", self.scratch / f"{name}-{transport}.log"
        if not bundle.exists():
            self.succeed("rannc-compile", model, "-o", bundle, "--loss", loss, "--costs", "analytic", "--mini-batch", SAMPLES,
                         "--optimizer", "sgd", *flags)
        done = self.succeed("rannc-run", bundle, "-o", self.scratch / f"{name}-{transport}", "--data", data, "--steps", STEPS,
                            "--transport", transport, "--loss-log", log, "--learning-rate", self.learning_rate)
        self.assertIn("held", done.stdout)
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

    def train(self, zoo, loss, tensors, learning_rate="0.001"):
        """Each cut passes the slices that one worker passes: statistics of batches are over the same samples."""
        self.learning_rate = learning_rate
        model, data = self.scratch / "model.onnx", self.scratch / "data.safetensors"
        self.succeed("rannc-zoo", *zoo, "-o", model)
        programs.write_safetensors(data, tensors)
        one = {count: self.losses(model, loss, data, f"one-{count}", "local", "--cluster", "local:1", "--micro-batches", count)
               for count in (2, 4)}
        for losses in one.values():
            self.assertEqual(len(losses), STEPS)
            self.assertGreater(abs(losses[-1] - losses[0]), 10 * RELATIVE * abs(losses[0]), "steps change what is compared")
        for name, slices, flags in (("stages", 2, ["--stages", 2]), ("replicas", 4, ["--replicas", "2"])):
            for transport in ("local", "gloo"):
                with self.subTest(cut=name, transport=transport):
                    found = self.losses(model, loss, data, name, transport, "--cluster", "local:2", "--micro-batches", 2, *flags)
                    self.assertEqual(len(found), STEPS)
                    for own, expected in zip(found, one[slices]):
                        self.assertLessEqual(abs(own - expected), RELATIVE * abs(expected), (found, one[slices]))

    def test_resnet(self):
        rng = random.Random(1)
        self.train(["resnet", "--image", 64, "--classes", 10, "--base", 16], "cross_entropy(output=logits,labels=y)",
                   {"x/image": numbers(rng, 3, 64, 64), "labels/y": integers(rng, 10)},
                   learning_rate="1e-5")  # statistics of two samples magnify what rounding does to larger steps

    def test_bert(self):
        rng = random.Random(2)
        ones = "I64", [SAMPLES, 64], struct.pack("<q", 1) * (SAMPLES * 64)
        self.train(["bert", "--layers", 2, "--width", 128, "--sequence", 64, "--vocabulary", 200],
                   "cross_entropy(output=logits,labels=y)+cross_entropy(output=next_sentence,labels=z)",
                   {"x/input_ids": integers(rng, 200, 64), "x/token_type_ids": integers(rng, 2, 64), "x/attention_mask": ones,
                    "labels/y": integers(rng, 200, 64), "labels/z": integers(rng, 2)})

    def test_unet(self):
        rng = random.Random(3)
        self.train(["unet", "--blocks", 1, "--channels", 16, "--image", 64], "mse(output=mask,labels=y)",
                   {"x/image": numbers(rng, 3, 64, 64), "labels/y": numbers(rng, 1, 64, 64)})


if __name__ == "__main__":
    programs.main()
