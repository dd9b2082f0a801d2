"""How a run is started, ended and gone on with: launchers' environments, folders, signals, settings."""
import json
import os
import re
import signal
import time

import programs
import run_folder
from workers_test import MLP, WorkersTest

DIAGNOSTICS, USAGE = 1, 2
STEPS = 12


def losses(path):
    return [line.split()[1] for line in path.read_text().splitlines()]


class RunControl(WorkersTest):
    executed = ()  # but for runs that are given an environment or a signal

    def arguments(self, bundle, name="run", steps=STEPS, *more):
        return ["rannc-run", bundle, "-o", self.scratch / name, "--data", MLP / "batch.safetensors", "--steps", steps, "--loss-log",
                self.scratch / f"{name}.log", *more]

    def train(self, bundle, name, *more, steps=STEPS, **options):
        return self.succeed(*self.arguments(bundle, name, steps, *more), **options)


class Environments(RunControl):
    def torchrun(self, rank, workers, port):
        return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}

    def mpirun(self, rank, workers, port):
        return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(workers), "OMPI_COMM_WORLD_LOCAL_SIZE": str(workers),
                "PMIX_NAMESPACE": f"prterun-test-{os.getpid()}@1"}

    def test_a_launched_worker_needs_not_be_told(self):
        bundle = self.bundle()
        self.train(bundle, "alone")
        for launcher in (self.torchrun, self.mpirun):
            with self.subTest(launcher=launcher.__name__):
                port, name = programs.free_port(), launcher.__name__
                workers = [self.popen(self.arguments(bundle, name), launcher(rank, 2, port)) for rank in range(2)]
                for worker in workers:
                    output, errors = worker.communicate(timeout=programs.HANG_SECONDS)
                    self.assertEqual(worker.returncode, 0, output + errors)
                self.assertEqual(losses(self.scratch / f"{name}.log"), losses(self.scratch / "alone.log"))

    def test_the_shell_of_an_allocation_is_no_worker(self):
        self.train(self.bundle(), "run", env={**os.environ, "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"})
        self.assertEqual(len(losses(self.scratch / "run.log")), STEPS)

    def test_another_number_of_workers_than_devices(self):
        done = self.refuse(DIAGNOSTICS, ["2 devices", "3 workers", "[worker 1]"], *self.arguments(self.bundle()),
                           env={**os.environ, **self.torchrun(1, 3, programs.free_port())}, timeout=30)
        self.assertNotIn("could not join", done.stderr)


class Folders(RunControl):
    def test_a_run_is_not_overwritten_unasked(self):
        bundle = self.bundle()
        self.train(bundle, "run", steps=3)
        for transport in ("local", "gloo"):
            self.refuse(DIAGNOSTICS, ["run", "--resume", "--replace"], *self.arguments(bundle, "run", 5, "--transport", transport))
        self.assertEqual([path.name for path in (self.scratch / "run" / "checkpoints").iterdir()], ["step-3"])
        self.train(bundle, "run", "--resume", steps=5)
        self.assertEqual(len(losses(self.scratch / "run.log")), 5)
        self.train(bundle, "run", "--replace", "--transport", "gloo", steps=2)
        self.assertEqual([path.name for path in (self.scratch / "run" / "checkpoints").iterdir()], ["step-2"])
        self.refuse(USAGE, ["--replace"], *self.arguments(bundle, "run", 5, "--replace", "--resume"))


class Signals(RunControl):
    def endless(self, bundle, name, *more, environment=None):
        self.log = self.scratch / f"{name}.log"
        return self.popen(self.arguments(bundle, name, 10**9, *more), environment)

    def ended(self, running, code):
        output, errors = running.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(running.returncode, code, output + errors)
        self.assertNotIn("error: ", errors)
        return output + errors

    def goes_on(self, bundle, name):
        """The checkpoint is that of the last step in the log, and what follows is what an uninterrupted run gives."""
        done = len(losses(self.log))
        self.assertEqual([path.name for path in (self.scratch / name / "checkpoints").iterdir()], [f"step-{done}"])
        self.train(bundle, name, "--resume", steps=done + 3)
        self.train(bundle, name + "-whole", steps=done + 3)
        self.assertEqual(losses(self.log), losses(self.scratch / f"{name}-whole.log"))

    def test_one_process(self):
        bundle = self.bundle()
        running = self.endless(bundle, "local")
        self.await_step(running)
        running.send_signal(signal.SIGINT)
        said = self.ended(running, 128 + signal.SIGINT)
        self.assertIn("--resume", said)
        self.goes_on(bundle, "local")

    def test_our_launcher(self):
        bundle = self.bundle()
        running = self.endless(bundle, "ours", "--transport", "gloo")
        self.await_step(running)
        # To the whole group, as a terminal does, would come twice to no worker: they are told by the launcher too.
        for process in [running.pid, *programs.children(running.pid)]:
            os.kill(process, signal.SIGTERM)
        said = self.ended(running, 128 + signal.SIGTERM)
        self.assertEqual(said.count("--resume"), 1, said)
        self.goes_on(bundle, "ours")

    def test_one_worker_of_another_launcher(self):
        bundle, port = self.bundle(), programs.free_port()
        workers = [self.endless(bundle, "theirs", environment=Environments.torchrun(self, rank, 2, port)) for rank in range(2)]
        self.await_step(workers[0])
        workers[1].send_signal(signal.SIGINT)
        said = [self.ended(workers[0], 128 + signal.SIGTERM), self.ended(workers[1], 128 + signal.SIGINT)]
        self.assertIn("--resume", said[0])
        self.goes_on(bundle, "theirs")

    def test_a_second_signal_ends_at_once(self):
        running = self.endless(self.bundle(), "ours", "--transport", "gloo")
        self.await_step(running)
        workers = programs.children(running.pid)
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)  # now it never ends in order
        running.send_signal(signal.SIGINT)
        time.sleep(0.5)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)
        self.assertEqual(running.returncode, 128 + signal.SIGTERM)
        limit = time.monotonic() + 30
        while any(map(programs.alive, workers)) and time.monotonic() < limit:
            time.sleep(0.01)
        self.assertEqual([worker for worker in workers if programs.alive(worker)], [])


class Restarts(RunControl):
    def kill_worker(self, running, workers, victim, step):
        """Kills one of the workers, all of which differ from `workers`, once the step is done."""
        limit = time.monotonic() + programs.HANG_SECONDS
        while not set(workers).isdisjoint(programs.children(running.pid)):
            self.assertLess(time.monotonic(), limit, "no worker is replaced")
            time.sleep(0.01)
        self.await_step(running, step)
        workers = sorted(programs.children(running.pid))
        os.kill(workers[victim], signal.SIGKILL)
        return workers

    def test_lost_workers_change_no_bit(self):
        """Before the first checkpoint, and after several."""
        bundle, steps = self.bundle(), 400
        self.train(bundle, "whole", steps=steps)
        self.log = self.scratch / "lost.log"
        running = self.popen(self.arguments(bundle, "lost", steps, "--transport", "gloo", "--checkpoint-every", 50, "--keep", 2,
                                            "--max-restarts", 3))
        first = self.kill_worker(running, [], 1, 5)
        self.kill_worker(running, first, 0, 150)
        output, errors = running.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(running.returncode, 0, output + errors)
        self.assertIn("worker 1 was killed by signal 9 (Killed); the others were stopped; restart 1 of 3 from the beginning", errors)
        self.assertRegex(errors, r"worker 0 was killed by signal 9 .* restart 2 of 3 from .*/step-\d+\n")
        self.assertEqual(errors.count("restart "), 2, errors)
        whole, lost = (self.scratch / name for name in ("whole", "lost"))
        self.assertEqual(self.log.read_text(), (self.scratch / "whole.log").read_text())
        self.assertEqual((lost / "losses.txt").read_text(), self.log.read_text())
        self.assertEqual({path.name for path in (lost / "checkpoints").iterdir()}, {"step-350", f"step-{steps}"})
        for path in (whole / "checkpoints" / f"step-{steps}").glob("*.safetensors"):
            self.assertEqual(path.read_bytes(), (lost / "checkpoints" / path.parent.name / path.name).read_bytes(), path.name)

    def test_the_last_restart_is_followed_by_one_error(self):
        self.log = self.scratch / "run.log"
        running = self.popen(self.arguments(self.bundle(), "run", 10**9, "--transport", "gloo", "--max-restarts", 1))
        first = self.kill_worker(running, [], 0, 5)
        self.log.unlink()
        second = self.kill_worker(running, first, 1, 5)
        errors = self.ends(running)
        self.assertIn("worker 1 was killed by signal 9", errors)
        self.assertIn("restarts used up: 1", errors)
        self.assertIn("note: the run has no checkpoint and has to begin again", errors)
        self.assertEqual((errors.count("note: "), errors.count("error: ")), (2, 1), errors)
        self.assertEqual([worker for worker in first + second if programs.alive(worker)], [])

    def test_what_would_fail_again_is_not_repeated(self):
        bundle = self.bundle()
        command = ["rannc-run", bundle, "-o", self.scratch / "run", "--max-restarts", 2, "--data", self.scratch / "nowhere.safetensors"]
        done = self.refuse(DIAGNOSTICS, ["nowhere.safetensors"], *command, "--transport", "gloo")
        self.assertNotIn("restart", done.stderr)
        self.refuse(DIAGNOSTICS, ["--max-restarts: transport local"], *command)
        self.refuse(DIAGNOSTICS, ["--max-restarts: nothing is trained"], *command, "--transport", "gloo", "--evaluate")


class Settings(RunControl):
    def settings(self, name, step):
        return json.loads((self.scratch / name / "checkpoints" / f"step-{step}" / "manifest.json").read_text())["settings"]

    def test_a_resumed_run_keeps_its_settings(self):
        bundle = self.bundle()
        flags = ["--optimizer", "adamw", "--learning-rate", "0.03", "--weight-decay", "0.1", "--warmup-steps", 4, "--decay-steps", 40,
                 "--clip-norm", "0.5", "--seed", 7]
        self.train(bundle, "whole", *flags, steps=8)
        self.train(bundle, "parts", *flags, steps=4)
        done = self.train(bundle, "parts", "--resume", steps=8)
        self.assertEqual(losses(self.scratch / "parts.log"), losses(self.scratch / "whole.log"))
        self.assertIn("adamw, learning rate 0.03", done.stdout)
        self.assertEqual(re.findall("changed by a flag: (.*)", done.stdout), ["--steps 8 instead of 4"])
        self.assertEqual(self.settings("parts", 8), self.settings("whole", 8))

    def test_the_report_of_a_resumed_run_has_its_whole_curve(self):
        bundle = self.bundle()
        self.train(bundle, "run", steps=4)
        self.train(bundle, "run", "--resume", steps=7)
        folder = self.scratch / "run"
        self.assertEqual(losses(folder / "losses.txt"), losses(self.scratch / "run.log"))
        self.assertEqual(len(losses(folder / "losses.txt")), 7)
        report = run_folder.Report(folder / "report.html")
        self.assertEqual(report.problems, [])
        curve = report.sections["Loss"].drawings[0]
        self.assertEqual(len(curve.points), 7)
        self.assertIn("resumed before step 5", curve.labels)
        self.assertIn("3 steps in", report.sections[""].text)

    def test_a_damaged_checkpoint_is_named(self):
        """The latest that is whole continues, and all damaged ones together are an error: never a fresh start, and no loss is dropped."""
        bundle, folder = self.bundle(), self.scratch / "run" / "checkpoints"
        self.train(bundle, "run", "--checkpoint-every", 2, steps=5)
        before = losses(self.scratch / "run" / "losses.txt")
        newest = folder / "step-5" / "manifest.json"
        newest.unlink()
        done = self.train(bundle, "run", "--resume", steps=6)
        self.assertEqual(done.stderr.count(f"warning: {newest}: is missing: the checkpoint is damaged; continuing from {folder / 'step-4'}\n"), 1,
                         done.stderr)
        self.assertEqual(losses(self.scratch / "run" / "losses.txt")[:5], before)
        for manifest in folder.glob("*/manifest.json"):
            manifest.unlink()
        self.refuse(DIAGNOSTICS, ["no finished checkpoint found", f"{folder / 'step-6' / 'manifest.json'}: note: is missing"],
                    *self.arguments(bundle, "run", 7, "--resume"))
        self.refuse(DIAGNOSTICS, ["contains a run already"], *self.arguments(bundle, "run", 7))

    def test_a_run_in_the_folder_names_the_command_that_continues_it(self):
        bundle = self.bundle()
        self.train(bundle, "run", steps=2)
        again = self.arguments(bundle, "run", 3)
        done = self.refuse(DIAGNOSTICS, ["contains a run already"], *again)
        latest = self.scratch / "run" / "checkpoints" / "step-2"
        self.assertIn(f"note: continue from {latest} with: {' '.join(map(str, again))} --resume\n", done.stderr)
        self.succeed(*again, "--resume")

    def test_pipes_in_a_folder_are_not_waited_for(self):
        bundle, folder = self.bundle(), self.scratch / "run"
        self.train(bundle, "run", steps=2)
        for name in ("flags.json", "checkpoints/step-2/manifest.json", "checkpoints/step-2/device0.safetensors"):
            kept = (folder / name).rename(self.scratch / "kept")
            os.mkfifo(folder / name)
            self.refuse(DIAGNOSTICS, [str(folder / name)], *self.arguments(bundle, "run", 3, "--resume"))
            kept.rename(folder / name)
        self.train(bundle, "run", "--resume", steps=3)

    def test_the_newest_checkpoints_are_kept(self):
        bundle = self.bundle()
        folder = self.scratch / "run" / "checkpoints"
        self.train(bundle, "run", "--checkpoint-every", 2, "--keep", 2, steps=7)
        self.assertEqual({path.name for path in folder.iterdir()}, {"step-6", "step-7"})
        stale = folder / "step-9.partial"  # of a run that was killed while it wrote a checkpoint
        stale.mkdir()
        (stale / "left").touch()
        done = self.train(bundle, "run", "--resume", "--checkpoint-every", 1, steps=9)
        self.assertEqual(re.findall("changed by a flag: (.*)", done.stdout), ["--checkpoint-every 1 instead of 2", "--steps 9 instead of 7"])
        self.assertEqual({path.name for path in folder.iterdir()}, {"step-8", "step-9"})
        self.assertFalse((folder / "step-9" / "left").exists())
        self.assertEqual(self.settings("run", 9)["kept_checkpoints"], 2)

    def test_flags_win_and_are_printed(self):
        bundle = self.bundle()
        self.train(bundle, "run", steps=4)
        done = self.train(bundle, "run", "--resume", "--learning-rate", "0.5", "--clip-norm", 0, steps=6)
        self.assertIn("changed by a flag: learning rate 0.5 instead of 0.001", done.stdout)
        self.assertIn("changed by a flag: --steps 6 instead of 4", done.stdout)
        self.assertEqual(done.stdout.count("changed by a flag"), 2)
        self.assertEqual(self.settings("run", 6)["learning_rate"], 0.5)

    def test_a_decay_is_in_the_log_and_in_checkpoints(self):
        bundle, log = self.bundle(), self.scratch / "log"
        done = self.train(bundle, "run", "--log", log, "--learning-rate", 0.5, "--warmup-steps", 1, "--decay", "wsd", "--decay-from", 2,
                          "--decay-steps", 4, "--final-rate", 0.25, "--betas", "0.8,0.95", steps=3)
        self.assertIn("betas 0.8 and 0.95", done.stdout)
        self.assertIn("wsd decay from step 2 until step 4 to 0.25 of the rate", done.stdout)
        self.train(bundle, "run", "--resume", "--log", log, steps=6)
        rates = [json.loads(line)["learning_rate"] for line in log.read_text().splitlines()]
        self.assertEqual(rates, [0.5, 0.5, 0.5, 0.3125, 0.125, 0.125])
        self.refuse(DIAGNOSTICS, ["--decay linear needs --decay-steps"], *self.arguments(bundle, "other", 3, "--decay", "linear"))

    def test_another_optimizer(self):
        bundle = self.bundle()
        self.train(bundle, "run", steps=4)
        self.train(bundle, "run", "--resume", "--optimizer", "sgd", "--momentum", 0.9, steps=6)
        self.assertEqual(self.settings("run", 6)["optimizer"], "sgd")
        self.train(bundle, "plain", "--optimizer", "sgd", steps=4)
        self.refuse(DIAGNOSTICS, ["sgd", "adam"], *self.arguments(bundle, "plain", 6, "--resume", "--optimizer", "adam"))

    def test_the_bundle_knows_its_optimizer(self):
        done = self.train(self.bundle(2, "--optimizer", "sgd", "--momentum", 0.5), "run", steps=3)
        self.assertIn("sgd, learning rate 0.001, momentum 0.5", done.stdout)
        self.assertRegex(done.stdout, r"in 3 steps, [0-9.]+ s, [0-9.]+k? (tokens|samples)/s, step measured")
        self.assertNotIn(" 0 tokens/s", done.stdout)
        done = self.train(self.bundle(2, "--optimizer", "sgd"), "other", "--optimizer", "adamw", steps=3)
        self.assertIn("adamw", done.stdout)
        self.assertIn("warning: the optimizer keeps 3374 numbers beside the parameters, but the plan reserves memory for 0", done.stderr)


if __name__ == "__main__":
    programs.main()
