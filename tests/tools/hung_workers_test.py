"""A worker that hangs is named, ended and replaced, wherever it hangs."""
import os
import signal
import subprocess

import killed_workers_test
import programs
from workers_test import MLP

TIMEOUT = 2
HANG_STEP = 3
# What the watch says about a worker.
HANGS = r"worker {} hangs: no progress for [0-9.]+ s in {}"


class HungWorkers(killed_workers_test.SignalledRun):
    def arguments(self, bundle, folder, *more):
        return ["rannc-run", bundle, "-o", folder, "--steps", killed_workers_test.STEPS, "--checkpoint-every", 1, "--clip-norm", 1,
                "--data", self.samples, "--timeout", TIMEOUT, *more]

    def compiled(self, name, flags):
        self.samples = MLP / "batch.safetensors"
        self.bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", self.bundle, "--mini-batch", 8, "--micro-batches", 2, "--loss",
                     "cross_entropy(output=logits,labels=y,ignore_index=-100)", "--costs", "analytic", *flags)
        self.whole = self.scratch / f"{name} whole"
        self.succeed(*self.arguments(self.bundle, self.whole), "--export-weights", self.whole.with_suffix(".safetensors"))
        return killed_workers_test.schedule_rows(self.bundle)

    def two_stages(self):
        return self.compiled("two stages", ["--cluster", "local:2", "--stages", 2, "--schedule", "1f1b"])

    def four_workers(self):
        return self.compiled("two stages of two replicas", ["--cluster", "local:4", "--replicas", "2,2", "--schedule", "1f1b"])

    def event(self, name, what):
        (self.signals / name).write_text(what)

    def launch(self, *more):
        """A run of our launcher, whose workers have the events."""
        program = programs.bin_folder.parent / "tests" / "tools_signalled_run"
        self.folder = self.scratch / "run"
        _, *arguments = self.arguments(self.bundle, self.folder, "--replace", *([] if "--transport" in more else ["--transport", "auto"]), *more)
        return self.popen([program, *arguments], {"RANNC_TEST_SIGNALS": str(self.signals)})

    def workers_of(self, launcher):
        found = []
        while launcher.poll() is None and not found:
            found = programs.children(launcher.pid)
        return found

    def goes_on_by_itself(self, why, *more, restarts=1):
        """A run that replaces lost workers has the results of an uninterrupted one. Returns what it said."""
        weights = self.scratch / "exported.safetensors"
        launcher = self.launch("--max-restarts", 2, "--export-weights", weights, *more)
        output, errors = launcher.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(launcher.returncode, 0, output + errors)
        self.assertRegex(errors, why)
        self.assertEqual(errors.count("note: worker"), restarts, errors)
        self.assertEqual(list(self.signals.iterdir()), [], "all happened")
        self.assertEqual((self.folder / "losses.txt").read_text(), (self.whole / "losses.txt").read_text())
        self.assertEqual(weights.read_bytes(), self.whole.with_suffix(".safetensors").read_bytes())
        return errors

    def ends_with_one_error(self, why, *more):
        launcher = self.launch(*more)
        workers = self.workers_of(launcher)
        output, errors = launcher.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(launcher.returncode, 1, output + errors)
        self.assertRegex(errors, why)
        self.assertEqual(errors.count("error: "), 1, errors)
        self.assertNotIn("restart", errors)
        self.assertEqual([worker for worker in workers if programs.alive(worker)], [])

    def check_computing(self, rows, worker, transport):
        action = next(action for action in rows[worker] if killed_workers_test.kind(action) in ("F", "B"))
        self.event(f"{worker} {HANG_STEP} {action}", "hang")
        why = HANGS.format(worker, rf"\w+ \({action}\) of step {HANG_STEP}, stage \d+, micro-batch \d+")
        errors = self.goes_on_by_itself(why, "--transport", transport)
        self.assertRegex(errors, rf"restart 1 of 2 from .*/step-[23]\n")
        self.event(f"{worker} {HANG_STEP} {action}", "hang")
        self.ends_with_one_error(why, "--transport", transport)
        self.assertIn(self.complete_checkpoints(self.folder)[-1], (HANG_STEP - 1, HANG_STEP))
        losses, weights = self.resumed(self.bundle, self.folder)
        self.assertEqual(losses.read_text(), (self.whole / "losses.txt").read_text())
        self.assertEqual(weights, self.whole.with_suffix(".safetensors").read_bytes())

    def test_computing(self):
        self.check_computing(self.two_stages(), 1, "auto")

    @programs.whole
    def test_computing_elsewhere(self):
        """Workers 0, which serves the store, and others; over all transports."""
        for plan in (self.two_stages, self.four_workers):
            rows = plan()
            for worker in range(len(rows)):
                for transport in ("auto", "gloo"):
                    with self.subTest(workers=len(rows), worker=worker, transport=transport):
                        self.check_computing(rows, worker, transport)

    @programs.whole
    def test_all_at_once(self):
        for plan in (self.two_stages, self.four_workers):
            rows = plan()
            for worker, row in enumerate(rows):
                self.event(f"{worker} {HANG_STEP} {row[-1]}", "hang")
            # Which of them reports first is open.
            self.goes_on_by_itself(HANGS.format(r"\d", ""))

    @programs.whole
    def test_reading(self):
        for plan in (self.two_stages, self.four_workers):
            rows = plan()
            for transport in ("auto", "gloo"):
                self.event(f"0 {HANG_STEP} {rows[0][0]}", f"hang reading {self.samples.name}")
                self.goes_on_by_itself(r"worker 0 hangs: no progress for [0-9.]+ s in ", "--transport", transport)

    @programs.whole
    def test_writing(self):
        """The others go on meanwhile, up to the next checkpoint."""
        for plan in (self.two_stages, self.four_workers):
            rows = plan()
            for transport in ("auto", "gloo"):
                self.event(f"1 {HANG_STEP} {rows[1][-1]}", "hang writing .partial")
                self.goes_on_by_itself(HANGS.format(1, ".* checkpoint"), "--transport", transport)

    @programs.whole
    def test_before_it_joins(self):
        for plan in (self.two_stages, self.four_workers):
            devices = len(plan())
            self.event(f"start {devices - 1}", "hang")
            self.goes_on_by_itself(rf"worker {devices - 1} hangs: its process \d+ has shown no life for [0-9.]+ s since its start")

    @programs.whole
    def test_stopped(self):
        self.two_stages()
        self.event(f"1 {HANG_STEP} F1.0", str(int(signal.SIGSTOP)))
        self.goes_on_by_itself("worker 1 was stopped by signal 19")

    @programs.whole
    def test_a_slow_worker_does_not_hang(self):
        """Two actions together exceed what the other waits, so the run fails. It would fail again, so it is not restarted."""
        self.two_stages()
        self.event(f"1 {HANG_STEP} F1.0", f"slow {TIMEOUT * 700}")
        self.ends_with_one_error(r"waited \d+ ms for device 1 to .*; worker 1 is busy with \w+ \(.* of step \d", "--max-restarts", 1)
        self.assertFalse(list(self.signals.iterdir()))

    @programs.whole
    def test_twice(self):
        self.two_stages()
        for step in (HANG_STEP, HANG_STEP + 1):
            self.event(f"1 {step} F1.0", "hang")
        self.goes_on_by_itself(HANGS.format(1, f"forward .* of step {HANG_STEP + 1}"), restarts=2)

    @programs.whole
    def test_workers_of_another_launcher(self):
        self.two_stages()
        program, port = programs.bin_folder.parent / "tests" / "tools_signalled_run", programs.free_port()
        self.event(f"1 {HANG_STEP} F1.0", "hang")
        _, *arguments = self.arguments(self.bundle, self.scratch / "run")
        workers = [self.popen([program, *arguments], {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                                                      "RANNC_TEST_SIGNALS": str(self.signals)}) for rank in range(2)]
        for worker in workers:
            errors = self.ends(worker)
            self.assertRegex(errors, HANGS.format(1, "forward"))
            self.assertEqual(errors.count("error: "), 1, errors)

    @programs.whole
    def test_a_suspended_run_does_not_hang(self):
        """A pause of all processes, as of a machine that sleeps, while worker 0 waits for worker 1."""
        self.two_stages()
        event = self.signals / f"1 {HANG_STEP} F1.0"
        event.write_text(str(int(signal.SIGSTOP)))
        launcher = self.launch()
        while event.exists():
            self.assertIsNone(launcher.poll(), "it ended by itself")
        processes = [launcher.pid, *programs.children(launcher.pid)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        with self.assertRaises(subprocess.TimeoutExpired):
            launcher.communicate(timeout=2 * TIMEOUT)
        for process in processes:
            os.kill(process, signal.SIGCONT)
        output, errors = launcher.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(launcher.returncode, 0, output + errors)


if __name__ == "__main__":
    programs.main()
