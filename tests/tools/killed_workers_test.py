"""What becomes of a run when one of its workers is killed, or asked to end, after any action of a step."""
import json
import os
import random
import re
import shutil
import signal

import programs
from workers_test import WorkersTest

STEPS, SIGNALLED_STEP = 6, 3
MODEL = ["gpt", "--layers", 1, "--width", 16, "--heads", 2, "--context", 8, "--tied"]
COMMON = ["--mini-batch", 8, "--micro-batches", 2, "--costs", "analytic", "--optimizer", "adam", "--loss",
          "cross_entropy(output=logits,labels=targets)"]
# Together they have every kind of action.
TWO_WORKERS = {
    "two stages": ["--cluster", "local:2", "--stages", 2, "--schedule", "zb-h1", "--recompute", "always"],
    "two replicas": ["--cluster", "local:2", "--replicas", 2, "--schedule", "gpipe"],
}
FOUR_WORKERS = {"two stages of two replicas": ["--cluster", "local:4", "--replicas", "2,2", "--schedule", "1f1b", "--recompute", "always"]}
KINDS = {"F", "B", "I", "W", "R", "SA", "RA", "SG", "RG", "AR", "RS", "S"}
# Sums of float32 in another order.
OTHER_PLAN = 1e-5


def kind(action):
    return re.match("[A-Z]+", action)[0]


def schedule_rows(bundle):
    """The actions of each device."""
    lines = (bundle / "plan.rir").read_text().split("\nschedule ")[1].splitlines()[1:]
    found = [re.fullmatch(r"d(\d+): (.*)", line) for line in lines]
    return [row[2].split() for row in found if row]


def read_losses(path):
    return [float.fromhex(line.split()[1]) for line in path.read_text().splitlines()]


class SignalledRun(WorkersTest):
    executed = ()

    def setUp(self):
        super().setUp()
        self.model, self.signals = self.scratch / "gpt.onnx", self.scratch / "signals"
        self.signals.mkdir()
        zoo, *flags = MODEL
        self.succeed("rannc-zoo", zoo, "-o", self.model, *flags)
        self.table = []

    def compiled(self, name, flags):
        """The bundle of a plan, the same model planned for one device, and what an uninterrupted run gives."""
        self.bundle, self.alone = (self.scratch / f"{name}{suffix}.rannc" for suffix in ("", " alone"))
        self.succeed("rannc-compile", self.model, "-o", self.bundle, *COMMON, *flags)
        self.succeed("rannc-compile", self.bundle, "-o", self.alone, "--devices", 1, "--costs", "analytic")
        self.whole = self.scratch / f"{name} whole"
        self.succeed(*self.arguments(self.bundle, self.whole), "--export-weights", self.whole.with_suffix(".safetensors"))
        return schedule_rows(self.bundle)

    def arguments(self, bundle, folder, *more):
        return ["rannc-run", bundle, "-o", folder, "--steps", STEPS, "--checkpoint-every", 1, "--clip-norm", 1, "--text",
                programs.SOURCE / "tests" / "requirements.md", "--timeout", 20, *more]

    def run_signalled(self, number, worker, action, devices):
        """Workers as torchrun starts them; one of them gets the signal. Nobody else ends the others."""
        entry = self.signals / f"{worker} {SIGNALLED_STEP} {action}"
        entry.write_text(str(int(number)))
        folder, port = self.scratch / "run", programs.free_port()
        shutil.rmtree(folder, ignore_errors=True)
        _, *arguments = self.arguments(self.bundle, folder, "--transport", "gloo")
        program = programs.bin_folder.parent / "tests" / "tools_signalled_run"
        workers = [self.popen([program, *arguments], {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(devices),
                                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                                                      "RANNC_TEST_SIGNALS": str(self.signals)}) for rank in range(devices)]
        return folder, workers, entry

    def ended_with(self, running, code):
        output, errors = running.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(running.returncode, code, output + errors)
        return output + errors

    def complete_checkpoints(self, folder):
        """The steps of the run's checkpoints, all of which can be read."""
        steps = []
        for checkpoint in (folder / "checkpoints").iterdir():
            if checkpoint.suffix == ".partial":
                continue
            manifest = json.loads((checkpoint / "manifest.json").read_text())
            for file in manifest["files"]:
                self.assertTrue(programs.read_safetensors(checkpoint / file))
            self.assertEqual(checkpoint.name, f"step-{manifest['step']}")
            steps.append(manifest["step"])
        return sorted(steps)

    def resumed(self, bundle, folder):
        """The losses, and the exported weights, of a copy of the run that is resumed with the bundle."""
        copy = self.scratch / "resumed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        weights = self.scratch / "resumed.safetensors"
        self.succeed(*self.arguments(bundle, copy, "--resume", "--export-weights", weights))
        return copy / "losses.txt", weights.read_bytes()

    def goes_on(self, folder):
        losses, weights = self.resumed(self.bundle, folder)
        self.assertEqual(losses.read_text(), (self.whole / "losses.txt").read_text())
        self.assertEqual(weights, self.whole.with_suffix(".safetensors").read_bytes())
        other, _ = self.resumed(self.alone, folder)
        for found, expected in zip(read_losses(other), read_losses(self.whole / "losses.txt"), strict=True):
            self.assertAlmostEqual(found, expected, delta=OTHER_PLAN * expected)

    def report(self, *cells):
        self.table.append(cells)

    def tearDown(self):
        if programs.WHOLE:
            for row in self.table:
                print("| " + " | ".join(map(str, row)) + " |")
        super().tearDown()


class KilledWorkers(SignalledRun):
    def check(self, name, worker, action, devices):
        with self.subTest(plan=name, worker=worker, action=action):
            folder, workers, entry = self.run_signalled(signal.SIGKILL, worker, action, devices)
            self.ended_with(workers[worker], -signal.SIGKILL)
            for rank, survivor in enumerate(workers):
                if rank != worker:
                    errors = self.ends(survivor)
                    self.assertEqual(errors.count("error: "), 1, errors)
                    self.assertIn(f"worker {worker} ", errors)
            self.assertFalse(entry.exists(), "the signal was sent")
            self.assertFalse((folder / "report.html").exists())
            steps = self.complete_checkpoints(folder)
            # That of the signalled step was being written.
            self.assertIn(steps[-1], (SIGNALLED_STEP - 1, SIGNALLED_STEP))
            self.goes_on(folder)
            self.report(name, f"worker {worker}", action, f"checkpoint of step {steps[-1]}", "others ended, resumed")

    def test_after_every_kind_of_action(self):
        seen = set()
        for name, flags in TWO_WORKERS.items():
            rows = self.compiled(name, flags)
            for worker, row in reversed(list(enumerate(rows))):
                for action in row:
                    if kind(action) not in seen:
                        seen.add(kind(action))
                        self.check(name, worker, action, len(rows))
        self.assertEqual(seen, KINDS)

    @programs.whole
    def test_after_every_action(self):
        for name, flags in (TWO_WORKERS | FOUR_WORKERS).items():
            rows = self.compiled(name, flags)
            for worker, row in enumerate(rows):
                for action in row:
                    self.check(name, worker, action, len(rows))


class EndedWorkers(SignalledRun):
    """SIGTERM to one worker ends all after the same step."""

    def check(self, name, worker, action, devices):
        with self.subTest(plan=name, worker=worker, action=action):
            folder, workers, entry = self.run_signalled(signal.SIGTERM, worker, action, devices)
            for running in workers:
                self.assertNotIn("error: ", self.ended_with(running, 128 + signal.SIGTERM))
            self.assertFalse(entry.exists(), "the signal was sent")
            self.assertEqual(self.complete_checkpoints(folder)[-1], len(read_losses(folder / "losses.txt")))
            self.assertEqual(len(read_losses(folder / "losses.txt")), SIGNALLED_STEP + 1)
            self.goes_on(folder)
            self.report(name, f"worker {worker}", action, "SIGTERM", f"ended after step {SIGNALLED_STEP + 1}, resumed")

    def test_at_a_random_action(self):
        seed = os.environ.get("RANNC_SEED", random.SystemRandom().randrange(2**32))
        print(f"RANNC_SEED={seed}")
        generator = random.Random(int(seed))
        for name, flags in programs.part(list((TWO_WORKERS | FOUR_WORKERS).items()), 1):
            rows = self.compiled(name, flags)
            for _ in range(10 if programs.WHOLE else 1):
                worker = generator.randrange(len(rows))
                self.check(name, worker, generator.choice(rows[worker]), len(rows))


if __name__ == "__main__":
    programs.main()
