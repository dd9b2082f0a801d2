"""What becomes of a run when one of its workers is stopped or gone, whoever started the workers."""
import os
import signal
import subprocess
import time

import programs

MLP = programs.DATA / "small_mlp"
TIMEOUT = 3
# Beyond the time-out: the launcher's grace, leaving, and a loaded machine.
SECONDS_TO_END = TIMEOUT + 20
# What LibTorch writes of its own accord.
FOREIGN = ["frame #", "Exception raised from", "[W", "[E", "third_party"]


class WorkersTest(programs.ProgramTest):
    executed = ("rannc-run",)

    def bundle(self, stages=2, *more):
        path = self.scratch / f"mlp-{'-'.join(map(str, [stages, *more]))}.rannc"
        if path.exists():
            return path
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", path, "--cluster", f"local:{stages}", "--stages", stages, "--mini-batch", 8,
                     "--micro-batches", 2, "--loss", "cross_entropy(output=logits,labels=y,ignore_index=-100)", "--costs", "analytic",
                     "--schedule", "1f1b", *more)
        return path

    def start(self, bundle, *more, environment=None):
        """rannc-run that goes on until somebody ends it."""
        self.log = self.scratch / "steps.log"
        return self.popen(["rannc-run", bundle, "-o", self.scratch / "run", "--data", MLP / "batch.safetensors", "--steps", 10**9,
                           "--timeout", TIMEOUT, *more], environment)

    def popen(self, command, environment=None):
        running = subprocess.Popen([programs.program(command[0]), *map(str, command[1:])], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, **(environment or {})})
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        return running

    def await_step(self, running, step=5):
        limit = time.monotonic() + programs.HANG_SECONDS
        while not (self.log.exists() and self.log.read_text().count("\n") >= step):
            self.assertIsNone(running.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), limit, "nothing happens")
            time.sleep(0.01)

    def ends(self, running):
        """Its standard error, once it has ended by itself with a diagnostic."""
        try:
            _, errors = running.communicate(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.fail("it hangs")
        self.assertEqual(running.returncode, 1, errors)
        for foreign in FOREIGN:
            self.assertNotIn(foreign, errors)
        return errors


class OfOurLauncher(WorkersTest):
    def end_by(self, transport, signal_number, victim, *words):
        launcher = self.start(self.bundle(), "--transport", transport, "--loss-log", self.scratch / "steps.log")
        self.await_step(launcher)
        workers = sorted(programs.children(launcher.pid))
        os.kill(workers[victim], signal_number)
        errors = self.ends(launcher)
        self.assertEqual(errors.count("error: "), 1, errors)
        for word in [f"worker {victim} ", *words]:
            self.assertIn(word, errors)
        self.assertEqual([worker for worker in workers if programs.alive(worker)], [])

    def test_stopped_worker(self):
        for transport, victim in (("gloo", 0), ("shm", 0), ("shm", 1)):
            with self.subTest(transport=transport, victim=victim):
                self.end_by(transport, signal.SIGSTOP, victim, "was stopped by signal 19")
                self.log.unlink()

    def test_killed_worker(self):
        """Of the one that serves the store; bad_input_test.py kills at any moment."""
        for transport in ("gloo", "shm"):
            with self.subTest(transport=transport):
                self.end_by(transport, signal.SIGKILL, 0, "was killed by signal 9", "the run has no checkpoint and has to begin again")
                self.log.unlink()

    def test_failure_names_the_command_that_continues(self):
        more = ["--transport", "gloo", "--checkpoint-every", 1, "--loss-log", self.scratch / "steps.log"]
        launcher = self.start(self.bundle(), *more)
        self.await_step(launcher)
        os.kill(programs.children(launcher.pid)[1], signal.SIGKILL)
        self.assertRegex(self.ends(launcher), r"note: continue from .*/checkpoints/step-\d+ with: rannc-run .* --transport gloo .* --resume\n")


class OfAnotherLauncher(WorkersTest):
    """Workers with torchrun's environment, that nobody watches."""

    def start_workers(self, bundle, workers=2, transport=(), of_last=()):
        port = programs.free_port()
        return [self.start(bundle, *transport, *(["--loss-log", self.scratch / "steps.log"] if rank == 0 else []),
                           *(of_last if rank == workers - 1 else []),
                           environment={"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1",
                                        "MASTER_PORT": str(port)}) for rank in range(workers)]

    def survivors_end(self, signal_number, victim, word, transport=()):
        workers = self.start_workers(self.bundle(3), 3, transport)
        self.await_step(workers[0])
        workers[victim].send_signal(signal_number)
        for rank, worker in enumerate(workers):
            if rank == victim:
                continue
            errors = self.ends(worker)
            self.assertIn(f"worker {victim} {word}", errors)
            self.assertEqual(errors.count("error: "), 1, errors)
        workers[victim].kill()
        self.log.unlink()

    def test_workers_with_different_flags_end(self):
        for flags, difference in [(["--seed", 1], "has seed 0, worker 1 has 1"), (["--shuffle"], "has --shuffle off, worker 1 has on"),
                                  (["--threads", 2], "has LibTorch's threads per operator 1, worker 1 has 2"),
                                  (["--deterministic"], "has LibTorch's deterministic algorithms off, worker 1 has on")]:
            for worker in self.start_workers(self.bundle(), of_last=flags):
                self.assertIn(f"worker 0 {difference}; all workers of a run need the same bundle and options", self.ends(worker))
        self.assertFalse((self.scratch / "run").exists())

    def test_survivors_of_a_stopped_worker_end(self):
        self.survivors_end(signal.SIGSTOP, 0, "has not answered")
        self.survivors_end(signal.SIGSTOP, 1, "has not been heard from")
        self.survivors_end(signal.SIGSTOP, 1, "has not been heard from", ("--transport", "gloo"))

    def test_survivors_of_a_killed_worker_end(self):
        self.survivors_end(signal.SIGKILL, 0, "is gone")
        self.survivors_end(signal.SIGKILL, 0, "is gone", ("--transport", "gloo"))
        self.survivors_end(signal.SIGKILL, 2, "")

    def test_survivors_of_sums_in_the_backward_pass_end(self):
        """Buckets are small and gradients large, so that sums are in flight for most of a step."""
        model, bundle = self.scratch / "gpt.onnx", self.scratch / "gpt.rannc"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 2, "--width", 256, "--heads", 4, "--context", 8)
        self.succeed("rannc-compile", model, "-o", bundle, "--cluster", "local:2", "--replicas", 2, "--mini-batch", 4, "--micro-batches", 1,
                     "--bucket", "64KiB", "--costs", "analytic", "--loss", "cross_entropy(output=logits,labels=targets)")
        row = (bundle / "plan.rir").read_text().split("\nschedule ")[1].split("\n")[1]
        self.assertGreater(row.count(" AR0"), 10, row)
        text = programs.SOURCE / "tests" / "requirements.md"
        for transport, signal_number, victim in (("gloo", signal.SIGKILL, 1), ("shm", signal.SIGKILL, 1), ("gloo", signal.SIGSTOP, 1),
                                                 ("shm", signal.SIGSTOP, 0)):
            with self.subTest(transport=transport, signal=signal_number):
                folder = self.scratch / f"{transport}-{int(signal_number)}"
                self.log = folder.with_suffix(".log")
                command = ["rannc-run", bundle, "-o", folder, "--text", text, "--timeout", TIMEOUT, "--transport", transport]
                going = [*command, "--steps", 10**9, "--checkpoint-every", 3]
                port = programs.free_port()
                workers = [self.popen([*going, *(["--loss-log", self.log] if rank == 0 else [])],
                                      {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                       "MASTER_PORT": str(port)}) for rank in range(2)]
                self.await_step(workers[0])
                while not list(folder.glob("checkpoints/*/manifest.json")):
                    self.await_step(workers[0], self.log.read_text().count("\n") + 1)
                workers[victim].send_signal(signal_number)
                errors = self.ends(workers[1 - victim])
                self.assertEqual(errors.count("error: "), 1, errors)
                self.assertIn(f"worker {victim} ", errors)
                workers[victim].kill()
                workers[victim].communicate()
                # What was written is whole: the run goes on from it.
                steps = self.log.read_text().count("\n")
                self.succeed(*command, "--steps", steps + 2, "--resume")


if __name__ == "__main__":
    programs.main()
