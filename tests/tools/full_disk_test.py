"""What becomes of a run whose disk is full, or whose files may not grow."""
import contextlib
import pathlib
import resource
import subprocess
import tempfile

import programs

STEPS, EVERY = 8, 2
PAGE = 4096
LOCK = PAGE  # of the file that names the run
TEXT = programs.SOURCE / "tests" / "requirements.md"
FULL = "No space left on device"


def occupied(*paths):
    """Bytes of the pages that files fill."""
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return sum(-(-file.stat().st_size // PAGE) * PAGE for file in files)


class FullDisk(programs.ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rannc-disk-")
        cls.addClassCleanup(folder.cleanup)
        made = pathlib.Path(folder.name)
        model, cls.bundle, cls.whole = made / "gpt.onnx", made / "gpt.rannc", made / "whole"
        for command in (["rannc-zoo", "gpt", "-o", model, "--layers", 1, "--width", 32, "--heads", 2, "--context", 8],
                        ["rannc-compile", model, "-o", cls.bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 8,
                         "--micro-batches", 2, "--costs", "analytic", "--optimizer", "adam", "--loss",
                         "cross_entropy(output=logits,labels=targets)"],
                        cls.arguments(cls.whole)):
            done = programs.resident.call(*command)
            assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        self.disk = self.scratch / "disk"
        self.disk.mkdir()

    @classmethod
    def arguments(cls, folder, *more, steps=STEPS):
        return ["rannc-run", cls.bundle, "-o", folder, "--text", TEXT, "--steps", steps, *more]

    @contextlib.contextmanager
    def mounted(self, size):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.disk], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        try:
            yield self.disk / "run"
        finally:
            subprocess.run(["umount", self.disk], check=True)

    def enlarge(self):
        subprocess.run(["mount", "-o", "remount,size=64m", self.disk], check=True)

    def goes_on(self, folder, *more):
        """The rest of the run, once there is space."""
        self.succeed(*self.arguments(folder, *more, "--resume"))
        self.assertEqual((folder / "losses.txt").read_text(), (self.whole / "losses.txt").read_text())
        self.assertTrue((folder / "report.html").exists())
        checkpoint = f"checkpoints/step-{STEPS}"
        for file in (self.whole / checkpoint).glob("*.safetensors"):
            self.assertEqual(file.read_bytes(), (folder / checkpoint / file.name).read_bytes())

    @property
    def checkpoint_bytes(self):
        return occupied(self.whole / "checkpoints" / f"step-{STEPS}")

    def test_a_checkpoint_in_the_middle_of_a_run(self):
        """It is written while later steps run."""
        for transport in ("local", "gloo"):
            more = ["--checkpoint-every", EVERY, "--transport", transport]
            with self.subTest(transport=transport), self.mounted(self.checkpoint_bytes * 5 // 2) as folder:
                self.refuse(1, [f"step-{3 * EVERY}.partial/device", FULL], *self.arguments(folder, *more))
                self.assertEqual({path.name for path in (folder / "checkpoints").iterdir()}, {f"step-{EVERY}", f"step-{2 * EVERY}"})
                self.enlarge()
                self.goes_on(folder, *more)

    def test_the_last_checkpoint(self):
        for transport in ("local", "gloo"):
            with self.subTest(transport=transport), self.mounted(self.checkpoint_bytes // 2) as folder:
                self.refuse(1, [f"step-{STEPS}.partial/device", FULL], *self.arguments(folder, "--transport", transport))
                self.assertEqual(list((folder / "checkpoints").iterdir()), [])

    def test_results(self):
        """The last checkpoint is complete before they are written."""
        kept, trace = self.checkpoint_bytes + occupied(self.whole / "losses.txt"), occupied(self.whole / "trace.json")
        for file, space in (("trace.json", PAGE), ("report.html", trace + PAGE)):
            with self.subTest(file=file), self.mounted(kept + LOCK + space) as folder:
                self.refuse(1, [f"{folder}/{file}", FULL], *self.arguments(folder))
                self.assertEqual([path.name for path in folder.glob(f"{file}*")], [])
                self.enlarge()
                self.goes_on(folder)

    def test_logs(self):
        size = 3 * PAGE + LOCK  # flags.json, also as each worker writes it, and losses
        steps = size // len("100 0x1.6p+2\n")  # more lines than fit
        with self.mounted(size) as folder:
            for flag, name in {"--log": "run.jsonl", "--loss-log": "losses.log"}.items():
                with self.subTest(flag=flag):
                    file = self.disk / name
                    self.refuse(1, [f"{file}: ", FULL], *self.arguments(self.scratch / name, flag, file, steps=steps))
                    file.unlink()
            for transport in ("local", "gloo"):
                with self.subTest(transport=transport):
                    self.refuse(1, ["losses.txt: ", FULL], *self.arguments(folder, "--transport", transport, steps=steps))
                    (folder / "losses.txt").unlink()

    def test_exported_weights(self):
        with self.mounted(2 * PAGE):
            file, run = self.disk / "weights.safetensors", self.scratch / "run"
            self.refuse(1, [str(file), FULL], *self.arguments(run, "--export-weights", file))
            self.assertEqual(list(self.disk.iterdir()), [])
            self.enlarge()
            self.succeed("rannc-run", self.bundle, "-o", run, "--resume", "--export-weights", file)

    def test_outputs_of_an_evaluation(self):
        """Worker 1 has them."""
        bundle, mlp = self.scratch / "mlp.rannc", programs.DATA / "small_mlp"
        self.succeed("rannc-compile", mlp / "model.onnx", "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 8,
                     "--costs", "analytic")
        with self.mounted(PAGE + LOCK):
            (self.disk / "ballast").write_bytes(bytes(PAGE))
            for transport, file in (("local", "outputs"), ("gloo", ".outputs-1")):
                with self.subTest(transport=transport):
                    self.refuse(1, [f"{self.disk}/{file}.safetensors", FULL], "rannc-run", bundle, "-o", self.disk, "--data",
                                mlp / "batch.safetensors", "--transport", transport)
            self.assertEqual([path.name for path in self.disk.iterdir()], ["ballast"])

    def test_a_limit_on_the_size_of_files(self):
        """The same where no file system can be mounted."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, PAGE))

        folder = self.scratch / "run"
        self.refuse(1, [f"step-{STEPS}.partial/device", "File too large"], *self.arguments(folder), preexec_fn=limit)
        self.assertEqual(list((folder / "checkpoints").iterdir()), [])


if __name__ == "__main__":
    programs.main()
