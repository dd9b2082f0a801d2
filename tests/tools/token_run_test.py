"""A run over a large file of tokens is killed, goes on with fewer workers, and has the losses of an uninterrupted run."""
import array
import itertools
import json
import os
import random
import signal

import programs

MEGABYTES = 100 if programs.WHOLE else 4
STEPS, KILLED_STEP, CHECKPOINT_EVERY, VALIDATE_EVERY = (240, 130, 40, 50) if programs.WHOLE else (60, 35, 20, 20)
VOCABULARY = 64
# Sums of float32 in another order.
LIMIT = 1e-5


def write_tokens(path, count, seed):
    """A Markov chain: each token has four successors of equal probability, so that the loss can fall to log 4."""
    noise = random.Random(seed).randbytes(count)
    chain = itertools.accumulate(noise, lambda token, byte: (5 * token + 1 + (byte & 3)) % VOCABULARY, initial=seed % VOCABULARY)
    path.write_bytes(array.array("H", chain).tobytes())


class TokenRun(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.train_file, self.held_out = self.scratch / "train.bin", self.scratch / "held-out.bin"
        write_tokens(self.train_file, MEGABYTES * 500_000, 1)
        write_tokens(self.held_out, 1_000, 2)
        model = self.scratch / "gpt.onnx"
        self.two, self.one = self.scratch / "two.rannc", self.scratch / "one.rannc"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 2, "--width", 32, "--heads", 2, "--context", 16, "--vocabulary", VOCABULARY)
        self.succeed("rannc-compile", model, "-o", self.two, "--cluster", "local:2", "--stages", 2, "--mini-batch", 16, "--micro-batches", 4,
                     "--costs", "analytic", "--optimizer", "adam", "--loss", "cross_entropy(output=logits,labels=targets)")
        self.succeed("rannc-compile", self.two, "-o", self.one, "--devices", 1, "--costs", "analytic")
        model.unlink()

    def arguments(self, bundle, name, *more):
        return [bundle, "-o", self.scratch / name, "--tokens", self.train_file, "--validate", self.held_out, "--validate-every", VALIDATE_EVERY,
                "--steps", STEPS, "--checkpoint-every", CHECKPOINT_EVERY, "--log", self.log(name), "--learning-rate", "1e-2",
                "--warmup-steps", 10, "--clip-norm", 1, *more]

    def log(self, name):
        return self.scratch / f"{name}.jsonl"

    def curves(self, name):
        """Losses by step, and validation losses by step."""
        lines = [json.loads(line) for line in self.log(name).read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], list(range(1, STEPS + 1)))
        return ({line["step"]: line["loss"] for line in lines},
                {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line})

    def run_until_killed(self, name):
        signals = self.scratch / "signals"
        signals.mkdir()
        entry = signals / f"1 {KILLED_STEP} S1"
        entry.write_text(str(int(signal.SIGKILL)))
        program = programs.bin_folder.parent / "tests" / "tools_signalled_run"
        self.refuse(1, ["worker 1 was killed by signal 9"], program, *self.arguments(self.two, name, "--transport", "gloo"),
                    env={**os.environ, "RANNC_TEST_SIGNALS": str(signals)})
        self.assertFalse(entry.exists())

    def test_killed_and_resumed_with_one_worker(self):
        self.succeed("rannc-run", *self.arguments(self.two, "whole", "--transport", "gloo" if programs.WHOLE else "local"))
        self.run_until_killed("parts")
        done = self.succeed("rannc-run", *self.arguments(self.one, "parts", "--resume"))
        self.assertIn(f"resuming after step {KILLED_STEP // CHECKPOINT_EVERY * CHECKPOINT_EVERY} ", done.stdout)
        for found, expected in zip(self.curves("parts"), self.curves("whole"), strict=True):
            self.assertEqual(found.keys(), expected.keys())
            for step, loss in expected.items():
                self.assertAlmostEqual(found[step], loss, delta=LIMIT * loss, msg=f"step {step}")
        losses, validated = self.curves("whole")
        self.assertEqual(list(validated), [*range(VALIDATE_EVERY, STEPS, VALIDATE_EVERY), STEPS])
        self.assertLess(losses[STEPS], losses[1] - 1)
        self.assertLess(validated[STEPS], validated[VALIDATE_EVERY])


if __name__ == "__main__":
    programs.main()
