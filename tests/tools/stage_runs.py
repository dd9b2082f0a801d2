"""Bundles with executables, and runs of them by one process per device."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import programs
import run_folder

MLP = programs.DATA / "small_mlp"
TIMEOUT = 30
# Of every launcher, so that the surroundings of the tests do not count.
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")


def environment(variables):
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)} | variables


class StageTest(programs.ProgramTest):
    """A bundle of two stages, `whole`, and the hosts' folders of it, each with the files of one stage."""

    form = "interpreted"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rannc-stages-")
        cls.addClassCleanup(folder.cleanup)
        cls.whole = pathlib.Path(folder.name) / "mlp.rannc"
        cls.call(*cls.compilation(cls.whole), "--form", cls.form)

    @staticmethod
    def call(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    @staticmethod
    def compilation(bundle):
        return [programs.program("rannc-compile"), MLP / "model.onnx", "-o", bundle, "--cluster", "local:2", "--stages", "2", "--mini-batch",
                "8", "--micro-batches", "2", "--loss", "cross_entropy(output=logits,labels=y,ignore_index=-100)", "--costs", "analytic",
                "--schedule", "1f1b"]

    def setUp(self):
        super().setUp()
        self.hosts = [self.host(rank) for rank in range(2)]

    def host(self, rank):
        folder = self.scratch / f"host{rank}" / "mlp.rannc"
        folder.mkdir(parents=True)
        for name in ["plan.rir", "manifest.json", *self.files_of(rank)]:
            shutil.copy2(self.whole / name, folder / name)
        return folder

    def files_of(self, stage):
        kinds = ["", ".cc", ".so", ".safetensors"] if self.form == "native" else ["", ".safetensors"]
        return [f"stage{stage}{kind}" for kind in kinds]

    def popen(self, command, **variables):
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment(variables), cwd=self.scratch)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        return running

    def finish(self, running, code=0):
        output, errors = running.communicate(timeout=programs.HANG_SECONDS)
        self.assertEqual(running.returncode, code, f"{running.args}\n{output}{errors}")
        if code:
            self.assertEqual(errors.count("error: "), 1, f"one clear error: {running.args}\n{errors}")
        return output, errors

    @staticmethod
    def training(steps, *more, timeout=TIMEOUT):
        return ["--data", MLP / "batch.safetensors", "--steps", steps, "--optimizer", "adam", "--timeout", timeout, *more]

    @staticmethod
    def by_hand(rank, port):
        return ["--rank", rank, "--world", 2, "--master", f"127.0.0.1:{port}"]

    def run_by_hand(self, *arguments, code=0):
        """Outputs of the two hosts, each of which has its own stage alone."""
        port = programs.free_port()
        workers = [self.popen([host / f"stage{rank}", *self.by_hand(rank, port), *arguments])
                   for rank, host in enumerate(self.hosts)]
        return [self.finish(worker, code) for worker in workers]

    def reference(self, steps, *more):
        folder = self.scratch / "reference"
        done = self.succeed("rannc-run", self.whole, "-o", folder, "--transport", "gloo", *self.training(steps, *more))
        return folder, done

    def same_run(self, found, reference, steps):
        """Losses, checkpoint and trace, the latter without times."""
        self.assertEqual((found / "losses.txt").read_text(), (reference / "losses.txt").read_text())
        self.same_part(found, reference, steps, 0)
        for process in (run_folder.ACTUAL, run_folder.PLANNED):
            rows = [{key: sorted(names) for key, names in run_folder.Trace(folder / "trace.json").rows(process).items()}
                    for folder in (found, reference)]
            self.assertEqual(rows[0], rows[1])
            self.assertEqual({device for _, device in rows[0]}, {0, 1})

    def same_part(self, found, reference, steps, rank):
        for name in ["manifest.json", f"device{rank}.safetensors"]:
            files = [folder / "checkpoints" / f"step-{steps}" / name for folder in (found, reference)]
            self.assertEqual(files[0].read_bytes(), files[1].read_bytes(), name)

    def manifest(self):
        return json.loads((self.whole / "manifest.json").read_text())
