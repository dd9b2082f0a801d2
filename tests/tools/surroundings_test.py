"""Runs beside others, with closed or full standard streams, and on data files that shrink."""
import fcntl
import os
import shutil
import signal
import subprocess
import time

import programs
from workers_test import MLP

DIAGNOSTICS = 1
LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
MANY = 1_000_000


def wait_for(condition, process):
    for _ in range(programs.HANG_SECONDS * 50):
        if condition():
            return
        if process.poll() is not None:
            raise AssertionError(f"ended too early: {process.communicate()}")
        time.sleep(0.02)
    raise AssertionError("nothing happens")


class Surroundings(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.bundle, self.folder, self.data = self.scratch / "m.rannc", self.scratch / "run", self.scratch / "batch.safetensors"
        shutil.copy(MLP / "batch.safetensors", self.data)
        self.compile("-o", self.bundle)

    def compile(self, *more):
        return self.succeed("rannc-compile", MLP / "model.onnx", "--cluster", "local:2", "--stages", 2, "--mini-batch", 8, "--loss", LOSS,
                            "--costs", "analytic", *more)

    def arguments(self, *more, steps=2):
        return ["rannc-run", self.bundle, "-o", self.folder, "--data", self.data, "--steps", steps, *more]

    def start(self, *more, steps=MANY):
        """A run that has done some steps."""
        name, *arguments = map(str, self.arguments(*more, steps=steps))
        process = subprocess.Popen([programs.program(name), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        wait_for(lambda: self.losses() > 2, process)
        return process

    def losses(self):
        file = self.folder / "losses.txt"
        return file.read_text().count("\n") if file.exists() else 0

    def in_shell(self, redirections, *command):
        name, *arguments = map(str, command)
        return subprocess.run(["bash", "-c", f'exec "$0" "$@" {redirections}', programs.program(name), *arguments], capture_output=True,
                              text=True, timeout=programs.HANG_SECONDS)


class Locks(Surroundings):
    def test_a_run_beside_another(self):
        for transport in ("local", "gloo"):
            first = self.start("--transport", transport)
            for more in ([], ["--resume"], ["--replace"]):
                done = self.refuse(DIAGNOSTICS, [f"{self.folder}: error: another run writes to it: rannc-run of user ",
                                                 f"process {first.pid} on host "], *self.arguments("--transport", transport, *more))
                self.assertEqual(done.stdout, "")
            first.kill()
            first.wait()
            self.succeed(*self.arguments("--replace"))
            self.assertEqual(self.losses(), 2)
            self.assertEqual([path.name for path in self.folder.glob("*.lock")], [])
            shutil.rmtree(self.folder)

    def test_an_evaluation_beside_a_run(self):
        first = self.start()
        self.succeed(*self.arguments("--evaluate", steps=1))
        first.send_signal(signal.SIGTERM)
        first.wait()
        with open(self.folder / "evaluation.lock", "w") as held:
            held.write("something else\n")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            self.refuse(DIAGNOSTICS, [f"{self.folder}: error: another run writes to it: something else ("],
                        *self.arguments("--evaluate", steps=1))

    def test_a_compilation_beside_another(self):
        link = self.scratch / "link"
        link.symlink_to(self.bundle)
        before = self.bundle.stat().st_mtime_ns
        with open(f"{self.bundle}.lock", "w") as held:
            held.write("\x1b[2Jsomething else\n")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            for command in (["rannc-compile", MLP / "model.onnx", "-o", self.bundle, "--replace"],
                            ["rannc-compile", MLP / "model.onnx", "-o", link, "--replace"], ["rannc-compile", "--rebuild", self.bundle]):
                self.refuse(DIAGNOSTICS, ["error: another run writes to it: \\x1b[2Jsomething else ("], *command)
        self.assertEqual(self.bundle.stat().st_mtime_ns, before)
        self.compile("-o", self.bundle, "--replace")
        self.assertFalse(os.path.exists(f"{self.bundle}.lock"))

    def test_nothing_stays_of_what_did_not_start(self):
        folder = self.scratch / "a" / "b"
        self.refuse(DIAGNOSTICS, ["none.safetensors"], "rannc-run", self.bundle, "-o", folder, "--data", self.scratch / "none.safetensors")
        self.assertFalse((self.scratch / "a").exists())


class Streams(Surroundings):
    executed = ("rannc-run", "rannc-opt", "rannc-zoo", "rannc-check", "rannc-compile")

    def test_closed_streams(self):
        """What is printed goes into no file that is opened later."""
        for transport, closed, code, printed in (("gloo", ">&- 2>&-", DIAGNOSTICS, []), ("local", "<&- 2>&-", 0, []),
                                                 ("gloo", ">&-", DIAGNOSTICS, ["standard output: ", "Bad file descriptor"])):
            done = self.in_shell(closed, *self.arguments("--replace", "--transport", transport))
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(self.losses(), 2)
            self.assertEqual(done.stderr.count("error: "), min(1, len(printed)), done.stderr)
            for part in printed:
                self.assertIn(part, done.stderr)

    def test_a_full_standard_output(self):
        """The work is done whatever becomes of the text."""
        graph = programs.SOURCE / "tests" / "data" / "small_mlp"
        for command in (self.arguments(steps=200), ["rannc-run", "--help"], ["rannc-run", "--version"], ["rannc-opt", "--list-operators"],
                        ["rannc-zoo", "--help"], ["rannc-compile", graph / "model.onnx", "--emit", "graph"],
                        ["rannc-compile", graph / "model.onnx", "-o", self.scratch / "new.rannc", "--costs", "analytic"]):
            done = self.in_shell(">/dev/full", *command)
            self.assertEqual(done.returncode, DIAGNOSTICS, command)
            self.assertIn("standard output: ", done.stderr)
            self.assertIn("cannot be written: No space left on device", done.stderr)
            self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertEqual(self.losses(), 200)
        self.assertTrue((self.folder / "checkpoints" / "step-200" / "manifest.json").exists())
        self.assertTrue((self.scratch / "new.rannc" / "plan.rir").exists())

    def test_a_full_standard_error(self):
        done = self.in_shell("2>/dev/full", *self.arguments())
        self.assertEqual(done.returncode, 0, done.stdout)


class ShrinkingFiles(Surroundings):
    def test_during_a_run(self):
        for transport in ("local", "gloo"):
            shutil.copy(MLP / "batch.safetensors", self.data)
            run = self.start("--transport", transport)
            os.truncate(self.data, self.data.stat().st_size // 2)
            _, errors = run.communicate(timeout=programs.HANG_SECONDS)
            self.assertEqual(run.returncode, DIAGNOSTICS, errors)
            self.assertEqual(errors.count("error: "), 1, errors)
            self.assertIn(f"{self.data}: ", errors)
            self.assertIn("was truncated while it ", errors)
            shutil.rmtree(self.folder)


if __name__ == "__main__":
    programs.main()
