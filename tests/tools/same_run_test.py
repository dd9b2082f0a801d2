"""A training run is the same run however it is cut, carried or interrupted."""
import os
import random
import signal
import struct
import subprocess
import time

import programs

STEPS = 30
# A run is killed after KILLED steps. Its first checkpoint, of step EVERY, is complete then.
EVERY = 5
KILLED = 2 * EVERY + 1
STAGES = [1, 2, 4]
# Where a tied parameter's readers lie in several stages, its gradient is summed in another order.
TIED_LIMIT = 1e-9


def read_losses(path):
    """{step: loss}; the last line of a killed run may be torn. A step that was run again must give the same loss."""
    losses = {}
    for line in path.read_text().split("\n")[:-1]:
        step, value = line.split()
        loss = float.fromhex(value)
        if losses.setdefault(int(step), loss) != loss:
            raise AssertionError(f"step {step} gave {losses[int(step)].hex()} first and {value} after")
    return losses


class SameRun(programs.ProgramTest):
    def model(self, tied, layers=4, width=32):
        path = self.scratch / f"{'tied' if tied else 'free'}.onnx"
        self.succeed("rannc-zoo", "gpt", "-o", path, "--layers", layers, "--width", width, "--heads", 2, "--context", 16,
                     *(["--tied"] if tied else []))
        return path

    def bundle(self, model, stages, loss, **flags):
        path = self.scratch / f"{model.stem}-{stages}.rannc"
        options = {"micro-batches": 3, "mini-batch": 8, "dtype": "float64", **flags}
        self.succeed("rannc-compile", model, "-o", path, "--cluster", f"local:{stages}", "--stages", stages, "--loss", loss,
                     "--costs", "analytic", "--schedule", "1f1b", *[word for name, value in options.items() for word in (f"--{name}", value)])
        return path

    def gpt_bundle(self, model, stages, **flags):
        return self.bundle(model, stages, "cross_entropy(output=logits,labels=targets)", **flags)

    def arguments(self, bundle, name, *more):
        return ["rannc-run", bundle, "-o", self.scratch / name, "--loss-log", self.scratch / f"{name}.log", "--clip-norm", 1,
                "--learning-rate", "3e-3", *more]

    def train(self, bundle, name, *more, steps=STEPS):
        self.succeed(*self.arguments(bundle, name, "--steps", steps, *more))
        losses = read_losses(self.scratch / f"{name}.log")
        self.assertEqual(sorted(losses), list(range(steps)))
        return losses

    @property
    def text(self):
        return ["--text", programs.SOURCE / "tests" / "requirements.md"]

    def test_cuts_of_a_model_without_ties_are_bit_equal(self):
        model = self.model(tied=False)
        runs = {stages: self.train(self.gpt_bundle(model, stages), f"run-{stages}", *self.text) for stages in STAGES}
        for stages in STAGES[1:]:
            self.assertEqual(runs[1], runs[stages], f"{stages} stages")
        self.assertLess(runs[1][STEPS - 1], runs[1][0], "training lowers the loss")

    def test_cuts_of_a_tied_model_agree(self):
        model = self.model(tied=True)
        runs = {stages: self.train(self.gpt_bundle(model, stages), f"run-{stages}", *self.text) for stages in STAGES}
        for stages in STAGES[1:]:
            for step, loss in runs[1].items():
                self.assertLessEqual(abs(runs[stages][step] - loss), TIED_LIMIT * abs(loss), f"step {step}, {stages} stages")
        self.assertLess(runs[1][STEPS - 1], runs[1][0])

    def test_samples_of_a_file_are_bit_equal_over_cuts(self):
        data = self.samples()
        runs = {}
        for stages in STAGES:
            bundle = self.bundle(programs.DATA / "small_regression" / "model.onnx", stages,
                                 "mse(output=coarse,labels=c)+mse(output=fine,labels=f,weight=2)", dtype="float32")
            runs[stages] = self.train(bundle, f"run-{stages}", "--data", data, "--optimizer", "sgd", "--momentum", 0.9)
        for stages in STAGES[1:]:
            self.assertEqual(runs[1], runs[stages], f"{stages} stages")
        self.assertNotEqual(runs[1][0], runs[1][1], "mini-batches differ")

    def samples(self):
        """Five mini-batches of 8."""
        generator = random.Random(5)
        path = self.scratch / "samples.safetensors"

        def tensor(width):
            return "F32", [40, width], struct.pack(f"<{40 * width}f", *(generator.gauss(0, 1) for _ in range(40 * width)))

        programs.write_safetensors(path, {"x/left": tensor(6), "x/right": tensor(4), "labels/c": tensor(3), "labels/f": tensor(2)})
        return path

    def test_processes_are_bit_equal_to_threads(self):
        bundle = self.gpt_bundle(self.model(tied=True), 2)
        threads = self.train(bundle, "threads", *self.text)
        processes = self.train(bundle, "processes", *self.text, "--transport", "gloo")
        self.assertEqual(threads, processes)

    uninterrupted = {}

    def killed_and_resumed(self, transport):
        # Wide enough that a step takes longer than to notice it.
        bundle = self.gpt_bundle(self.model(tied=True, width=96), 2)
        if not self.uninterrupted:  # the same for all transports
            self.uninterrupted.update(self.train(bundle, "whole", *self.text))
        more = [*self.text, "--steps", STEPS, "--checkpoint-every", EVERY, "--transport", transport]
        self.kill_after(KILLED, self.arguments(bundle, "parts", *more))
        before = read_losses(self.scratch / "parts.log")
        self.assertGreaterEqual(len(before), KILLED)
        self.assertLess(len(before), STEPS, "it was killed before its end")
        self.succeed(*self.arguments(bundle, "parts", *more, "--resume"))
        resumed = read_losses(self.scratch / "parts.log")
        self.assertEqual(resumed, self.uninterrupted)
        lines = (self.scratch / "parts.log").read_text().count("\n")
        # The second checkpoint may not have been complete. It was begun when the first one was.
        self.assertLessEqual(lines - len(before), STEPS - EVERY, "it went on from the first checkpoint or a later one")

    def kill_after(self, steps, command, worker=False):
        """Kills the program itself by SIGKILL, or one of the processes that it started; all the others have to end with it."""
        log = self.scratch / "parts.log"
        running = subprocess.Popen([programs.program(command[0]), *map(str, command[1:])], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        started = set()
        while running.poll() is None and not (log.exists() and log.read_text().count("\n") >= steps):
            started.update(programs.children(running.pid))
            time.sleep(0.001)
        self.assertIsNone(running.poll(), "it ended before it could be killed")
        os.kill(max(programs.children(running.pid)) if worker else running.pid, signal.SIGKILL)
        self.assertNotEqual(running.wait(timeout=programs.HANG_SECONDS), 0)
        limit = time.monotonic() + programs.HANG_SECONDS
        while any(map(programs.alive, started)) and time.monotonic() < limit:
            time.sleep(0.01)
        self.assertFalse([child for child in started if programs.alive(child)], "processes were left behind")

    def test_killed_and_resumed_with_threads(self):
        self.killed_and_resumed("local")

    def test_killed_and_resumed_with_processes(self):
        self.killed_and_resumed("gloo")

    def test_resumed_under_another_plan_after_a_killed_worker(self):
        model = self.model(tied=False, width=96)
        two, four = self.gpt_bundle(model, 2), self.gpt_bundle(model, 4)
        whole = self.train(two, "whole", *self.text)
        more = [*self.text, "--steps", STEPS, "--checkpoint-every", EVERY]
        self.kill_after(KILLED, self.arguments(two, "parts", *more, "--transport", "gloo"), worker=True)
        self.assertLess(len(read_losses(self.scratch / "parts.log")), STEPS, "it was killed before its end")
        self.succeed(*self.arguments(four, "parts", *more, "--resume"))
        self.assertEqual(read_losses(self.scratch / "parts.log"), whole)

    def test_a_resumed_run_goes_on_with_its_seed(self):
        bundle = self.gpt_bundle(self.model(tied=False), 2)
        whole = self.train(bundle, "whole", *self.text, "--seed", 7, steps=12)
        self.succeed(*self.arguments(bundle, "parts", *self.text, "--steps", 6, "--seed", 7))
        self.succeed(*self.arguments(bundle, "parts", *self.text, "--steps", 12, "--resume"))
        self.assertEqual(read_losses(self.scratch / "parts.log"), whole)

    def test_another_seed_is_another_run(self):
        bundle = self.gpt_bundle(self.model(tied=False), 2)
        first = self.train(bundle, "first", *self.text, steps=3)
        other = self.train(bundle, "other", *self.text, "--seed", 1, steps=3)
        self.assertNotEqual(first[0], other[0])


if __name__ == "__main__":
    programs.main()
