"""Whatever a user hands over, he gets one clear error and an exit code: no crash, no hang, nothing half-written."""
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import programs
import small_onnx as onnx

PROGRAMS = ["rannc-zoo", "rannc-compile", "rannc-run", "rannc-check", "rannc-opt"]
DIAGNOSTICS, USAGE = 1, 2
MLP = programs.DATA / "small_mlp"
MLP_LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
# The launcher gives workers 5 s to end by themselves; the rest is for a loaded machine.
SECONDS_TO_END = 60
ALL_TRANSPORTS = ("local", "gloo")


class BadInputTest(programs.ProgramTest):
    def compile_flags(self, stages=2):
        return ["--cluster", f"local:{stages}", "--stages", stages, "--mini-batch", 8, "--micro-batches", 2, "--loss", MLP_LOSS,
                "--costs", "analytic", "--schedule", "1f1b"]

    def bundle(self):
        path = self.scratch / "mlp.rannc"
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", path, *self.compile_flags())
        return path

    def nothing_half_written(self, *known):
        self.assertEqual(sorted(entry.name for entry in self.scratch.iterdir()), sorted(known))


class Usage(BadInputTest):
    """Each program as a process: its exit code."""
    executed = programs.Resident.PROGRAMS

    def test_help(self):
        for name in PROGRAMS:
            self.assertIn("--help", self.succeed(name, "--help").stdout)

    def test_unknown_flag(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.refuse(USAGE, ["--no-such-flag"], name, *(["gpt", "-o", "x"] if name == "rannc-zoo" else ["x"]), "--no-such-flag")

    def test_values_that_are_not_allowed(self):
        self.refuse(USAGE, ["--emit", "nonsense"], "rannc-compile", "x", "--emit", "nonsense")
        self.refuse(USAGE, ["--stages", "-1"], "rannc-compile", "x", "--stages", "-1")
        self.refuse(USAGE, ["--transport", "pigeon"], "rannc-run", "x", "--transport", "pigeon")
        self.refuse(USAGE, ["--dtype", "float7"], "rannc-check", "x", "--dtype", "float7")

    def test_nothing_given(self):
        for name in PROGRAMS[:-1]:
            self.refuse(USAGE, [], name)


class Models(BadInputTest):
    def test_missing(self):
        path = self.scratch / "absent.onnx"
        self.refuse(DIAGNOSTICS, [str(path)], "rannc-compile", path)
        self.assertEqual(programs.run("rannc-compile", path).returncode, DIAGNOSTICS, "of the process too")
        self.nothing_half_written()

    def test_no_model_at_all(self):
        path = self.scratch / "text.onnx"
        path.write_text("this is no model\n")
        self.refuse(DIAGNOSTICS, [str(path)], "rannc-compile", path)
        self.nothing_half_written("text.onnx")

    def test_truncated(self):
        data = (MLP / "model.onnx").read_bytes()
        for part in (0.0, 0.1, 0.5, 0.9, 0.999):
            with self.subTest(part=part):
                self.survives(data[:int(len(data) * part)])

    def test_mutated(self):
        data = (MLP / "model.onnx").read_bytes()
        for seed in range(24):
            generator = random.Random(seed)
            spoiled = bytearray(data)
            for _ in range(generator.choice([1, 4, 16])):
                spoiled[generator.randrange(len(spoiled))] = generator.randrange(256)
            with self.subTest(seed=seed):
                self.survives(bytes(spoiled))

    def survives(self, data):
        """A diagnostic that names the file, or a graph that verifies."""
        path = self.scratch / "spoiled.onnx"
        path.write_bytes(data)
        done = self.run_program("rannc-compile", path, "--emit", "graph")
        self.assertIn(done.returncode, (0, DIAGNOSTICS), done.stderr)
        if done.returncode == DIAGNOSTICS:
            self.assertIn("spoiled.onnx", done.stderr)
            self.assertIn("error: ", done.stderr)
            return
        text = self.scratch / "graph.rir"
        text.write_text(done.stdout)
        self.succeed("rannc-opt", text)

    def test_names_do_not_act_on_a_terminal(self):
        """A name can neither clear the screen nor forge a line, in a report or in an error."""
        evil = "n\x1b[2J\nwrote m.rannc\r\u202e"
        tensors = [onnx.tensor(evil + "w", [2, 2], [1, 2, 3, 4]), onnx.tensor(evil + "unread", [2], [0, 0])]
        ends = [onnx.value("x", onnx.FLOAT, ["batch", evil])], [onnx.value("y", onnx.FLOAT, ["batch", 2])]
        for op, code in (("Gemm", 0), (evil, DIAGNOSTICS)):
            model = onnx.write(self.scratch / "m.onnx", [onnx.node(op, ["x", evil + "w"], ["y"], evil)], tensors, *ends)
            for flags in (["--emit=graph"], ["--loss", "mse(output=y)", "--costs", "analytic", "--explain", "--emit=plan"]):
                done = self.run_program("rannc-compile", model, *flags)
                said = done.stdout + done.stderr
                self.assertEqual(done.returncode, code, said)
                self.assertIn("\\x1b", said)
                self.assertEqual([character for character in said if character != "\n" and not character.isprintable()], [], repr(said))
                self.assertNotIn("wrote m.rannc", said.splitlines())

    def test_loss_that_the_model_has_not(self):
        for loss, part in [("cross_entropy(output=absent,labels=y)", "absent"), ("nonsense(output=logits)", "nonsense")]:
            self.refuse(DIAGNOSTICS, [part], "rannc-compile", MLP / "model.onnx", "-o", self.scratch / "x", "--loss", loss)
        self.nothing_half_written()

    def test_more_stages_than_work(self):
        self.refuse(DIAGNOSTICS, ["model.onnx", "no loss", "--loss"], "rannc-compile", MLP / "model.onnx", "--emit", "backward")
        self.refuse(DIAGNOSTICS, ["60"], "rannc-compile", MLP / "model.onnx", "-o", self.scratch / "x", *self.compile_flags(60))
        self.nothing_half_written()

    def test_too_little_memory_says_by_how_much(self):
        # One weight is too large for a device; then each fits, but no stage does.
        for limit in ("1KB", "10KB"):
            done = self.refuse(DIAGNOSTICS, ["there is no plan", "what would help"], "rannc-compile", MLP / "model.onnx", "-o",
                               self.scratch / "x", *self.compile_flags(), "--memory", limit)
            self.assertRegex(done.stderr, r"needs \d+ bytes of \d+|misses the memory limit by [0-9.]+ [KM]?i?B")
        self.nothing_half_written()

    def test_cluster_file_that_is_none(self):
        path = self.scratch / "cluster.toml"
        path.write_text("devices = [nonsense\n")
        self.refuse(DIAGNOSTICS, ["cluster.toml"], "rannc-compile", MLP / "model.onnx", "--cluster", path, "--loss", MLP_LOSS)
        self.refuse(DIAGNOSTICS, ["absent.toml"], "rannc-compile", MLP / "model.onnx", "--cluster", "absent.toml", "--loss", MLP_LOSS)


class Output(BadInputTest):
    def test_below_a_file(self):
        blocker = self.scratch / "file"
        blocker.write_text("in the way")
        bundle = self.bundle()
        self.refuse(DIAGNOSTICS, [str(blocker)], "rannc-compile", MLP / "model.onnx", "-o", blocker / "x.rannc", *self.compile_flags())
        self.refuse(DIAGNOSTICS, [str(blocker)], "rannc-run", bundle, "-o", blocker / "run", "--data", MLP / "batch.safetensors")
        self.refuse(DIAGNOSTICS, [str(blocker)], "rannc-run", bundle, "-o", self.scratch / "run", "--data", MLP / "batch.safetensors",
                    "--loss-log", blocker / "log")
        self.refuse(DIAGNOSTICS, [str(blocker)], "rannc-zoo", "gpt", "--layers", 1, "--width", 8, "--heads", 1, "-o", blocker / "x.onnx")
        self.assertEqual(blocker.read_text(), "in the way")

    def test_bundle_that_is_there_is_not_overwritten(self):
        bundle = self.bundle()
        before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
        self.refuse(DIAGNOSTICS, [str(bundle), "exists already"], "rannc-compile", MLP / "model.onnx", "-o", bundle, *self.compile_flags())
        self.assertEqual(before, {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()})
        self.nothing_half_written("mlp.rannc")
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", bundle, "--replace", *self.compile_flags())
        self.nothing_half_written("mlp.rannc")


class Batches(BadInputTest):
    def refuse_batch(self, change, *parts, transports=("local",)):
        tensors = programs.read_safetensors(MLP / "batch.safetensors")
        change(tensors)
        path = self.scratch / "batch.safetensors"
        programs.write_safetensors(path, tensors)
        for transport in transports:
            done = self.run_program("rannc-run", self.bundle_path, "-o", self.scratch / "run", "--data", path, "--steps", 2,
                                    "--transport", transport)
            self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)
            self.assertNotIn("error: error: ", done.stderr)
            self.assertFalse((self.scratch / "run" / "report.html").exists())

    def setUp(self):
        super().setUp()
        self.bundle_path = self.bundle()

    def test_wrong_type(self):
        def change(tensors):
            tensors["x/x"] = ("I64", [8, 12], struct.pack("<96q", *range(96)))

        self.refuse_batch(change, "'x'", "i64", "f32")

    def test_wrong_width(self):
        def change(tensors):
            tensors["x/x"] = ("F32", [8, 13], bytes(4 * 8 * 13))

        self.refuse_batch(change, "'x'", "13", "12", transports=ALL_TRANSPORTS)

    def test_missing_input(self):
        self.refuse_batch(lambda tensors: tensors.pop("x/x"), "x")

    def test_missing_labels(self):
        self.refuse_batch(lambda tensors: tensors.pop("labels/y"), "labels/y")

    def test_class_that_does_not_exist(self):
        def change(tensors):
            tensors["labels/y"] = ("I64", [8], struct.pack("<8q", 0, 1, 2, 7, 4, 5, 6, 0))

        self.refuse_batch(change, "'labels/y'", "holds 7 in sample 3, but the classes are 0 to 6, and -100 is ignored",
                          transports=ALL_TRANSPORTS)

    def test_negative_class_that_is_not_the_ignored_one(self):
        def change(tensors):
            tensors["labels/y"] = ("I64", [8], struct.pack("<8q", 0, 1, 2, -3, 4, 5, 6, 0))

        self.refuse_batch(change, "'labels/y'", "holds -3 in sample 3, but the classes are 0 to 6, and -100 is ignored")

    def test_label_that_is_ignored(self):
        tensors = programs.read_safetensors(MLP / "batch.safetensors")
        tensors["labels/y"] = ("I64", [8], struct.pack("<8q", 0, 1, 2, -100, 4, 5, 6, 0))
        path = self.scratch / "batch.safetensors"
        programs.write_safetensors(path, tensors)
        self.succeed("rannc-run", self.bundle_path, "-o", self.scratch / "run", "--data", path, "--steps", 2)

    def test_fewer_samples_than_a_mini_batch(self):
        def change(tensors):
            for name, width in (("x/x", 48), ("labels/y", 8)):
                dtype, shape, data = tensors[name]
                tensors[name] = (dtype, [5, *shape[1:]], data[:5 * width])

        self.refuse_batch(change, "5", "8", transports=ALL_TRANSPORTS)

    def test_truncated_file(self):
        path = self.scratch / "batch.safetensors"
        data = (MLP / "batch.safetensors").read_bytes()
        for part in (0.0, 0.05, 0.5, 0.99):
            path.write_bytes(data[:int(part * len(data))])
            self.refuse(DIAGNOSTICS, ["batch.safetensors"], "rannc-run", self.bundle_path, "-o", self.scratch / "run", "--data", path)

    def test_neither_text_nor_data(self):
        self.refuse(DIAGNOSTICS, ["--text", "--data"], "rannc-run", self.bundle_path)
        self.refuse(DIAGNOSTICS, ["absent.txt"], "rannc-run", self.bundle_path, "--data", "absent.txt")


class Bundles(BadInputTest):
    def test_every_file_missing_or_truncated(self):
        bundle = self.bundle()
        whole = self.scratch / "whole"
        shutil.copytree(bundle, whole)
        files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
        self.assertGreaterEqual(len(files), 5, "plan, programs and weights of two stages")
        for file in files:
            for what in ("missing", "empty", "half", "flipped"):
                with self.subTest(file=str(file), what=what):
                    shutil.rmtree(bundle)
                    shutil.copytree(whole, bundle)
                    self.spoil(bundle / file, what)
                    self.judge(bundle, file, what)

    @staticmethod
    def spoil(path, what):
        data = path.read_bytes()
        if what == "missing":
            path.unlink()
        elif what == "flipped":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 0x41]) + data[middle + 1:])
        else:
            path.write_bytes(data[:len(data) // 2] if what == "half" else b"")

    def judge(self, bundle, file, what):
        # A picture for viewers is no part of what is run.
        needed = file.suffix not in (".onnx", ".html", ".txt", ".md")
        done = self.run_program("rannc-run", bundle, "-o", self.scratch / "run", "--replace", "--data", MLP / "batch.safetensors",
                                "--steps", 1)
        if not needed:
            self.assertEqual(done.returncode, 0, done.stderr)
            return
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stdout + done.stderr)
        self.assertIn(file.name, done.stderr)

    def test_no_bundle(self):
        for name in ("absent.rannc", "file"):
            (self.scratch / "file").write_text("no bundle")
            for transport in ALL_TRANSPORTS:
                self.refuse(DIAGNOSTICS, [name], "rannc-run", self.scratch / name, "--text", MLP, "--transport", transport)

    def test_numbers_out_of_range(self):
        for flags, found in ((["--learning-rate", 0], "expected a positive number, found '0'"), (["--timeout", -1], "expected a whole number from 1 to 1000000, found '-1'"),
                             (["--learning-rate", "inf"], "expected a positive number, found 'inf'"), (["--learning-rate", "x"], "found 'x'"),
                             (["--weight-decay", -0.5], "expected 0 or a positive number, found '-0.5'")):
            self.refuse(USAGE, [flags[0], found], "rannc-run", self.scratch / "none.rannc", *flags)

    def test_profiles_of_nothing(self):
        bundle, evaluated = self.bundle(), self.scratch / "evaluated.rannc"
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", evaluated, "--cluster", "local:1", "--costs", "analytic")
        data, output = ["--data", MLP / "batch.safetensors"], ["-o", self.scratch / "run", "--profile"]
        for transport in ALL_TRANSPORTS:
            for path, flags in ((evaluated, []), (bundle, ["--evaluate"])):
                self.refuse(DIAGNOSTICS, ["--profile: nothing is trained"], "rannc-run", path, *data, *output, *flags, "--transport", transport)
            self.refuse(DIAGNOSTICS, ["--profile requires --steps 4 or more, found 3"], "rannc-run", bundle, *data, *output, "--steps", 3,
                        "--transport", transport)
        self.refuse(DIAGNOSTICS, ["--profile: give --data, --tokens or --text"], "rannc-run", bundle, *output, "--export-weights", self.scratch / "w")
        self.assertFalse((self.scratch / "run").exists())
        self.succeed("rannc-run", bundle, *data, "-o", self.scratch / "run", "--steps", 3)
        self.refuse(DIAGNOSTICS, ["--profile requires --steps 7 or more, found 6, 3 of which are done"], "rannc-run", bundle, *data, *output,
                    "--steps", 6, "--resume")

    def test_resume_without_or_with_a_spoiled_checkpoint(self):
        bundle = self.bundle()
        arguments = ["rannc-run", bundle, "-o", self.scratch / "run", "--data", MLP / "batch.safetensors"]
        self.refuse(DIAGNOSTICS, ["--resume"], *arguments, "--resume")
        self.succeed(*arguments, "--steps", 3)
        checkpoint = self.scratch / "run" / "checkpoints" / "step-3"
        files = [path for path in checkpoint.iterdir() if path.suffix == ".safetensors"]
        self.assertGreaterEqual(len(files), 1)
        data = files[0].read_bytes()
        files[0].write_bytes(data[:len(data) // 2])
        self.refuse(DIAGNOSTICS, [files[0].name], *arguments, "--steps", 5, "--resume")
        files[0].write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        self.refuse(DIAGNOSTICS, [files[0].name, "is damaged: tensor '"], *arguments, "--steps", 5, "--resume")
        files[0].write_bytes(data)
        manifest = checkpoint / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
        self.refuse(DIAGNOSTICS, [manifest.name, "is damaged"], *arguments, "--steps", 5, "--resume")


class Folders(BadInputTest):
    """rannc-check with folders that are none."""

    def test_files_missing(self):
        for name in ("model.onnx", "batch.safetensors", "reference.safetensors", "card.json"):
            folder = self.scratch / "folder"
            shutil.copytree(MLP, folder)
            (folder / name).unlink()
            self.refuse(DIAGNOSTICS, [name], "rannc-check", folder)
            shutil.rmtree(folder)

    def test_card_that_is_none(self):
        folder = self.scratch / "folder"
        shutil.copytree(MLP, folder)
        term = '{"loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y", %s}]}'
        for text, *parts in [
                ("{", "card.json:1:", "not valid JSON"), ('{"loss": [],\n  "tied" = 1}', "card.json:2:", "not valid JSON"), ("[]", "expected an object, found array"),
                ('{"loss": [{"kind": "nonsense"}]}', "nonsense", "'loss[0]'"), ('{"loss": [7]}', "'loss[0]'", "expected an object, found number"),
                ('{"loss": [{"output": "logits"}]}', "'loss[0]'", "'kind' is missing"), ('{"loss": 7}', "'loss'", "expected a list, found number"),
                (term % '"weight": "1"', "'loss[0].weight'", "expected a number, found string"),
                (term % '"ignore_index": 0.5', "'loss[0].ignore_index'", "expected an integer"),
                (term % '"ignore_index": 18446744073709551615', "'loss[0].ignore_index'", "expected an integer below 2^63"),
                (term % '"class_weights": [1, "x"]', "'loss[0].class_weights[1]'", "expected a number, found string"),
                ('{"loss_weights": {"loss": null}}', "'loss_weights.loss'", "expected a number, found null"),
                ('{"tied": {"w": 3}}', "'tied.w'", "expected a list, found number"),
                ('{"parameters_without_initializer": [1]}', "'parameters_without_initializer[0]'", "expected a string, found number"),
                ('{"file_vs_reference_f64": {"loss": "x"}}', "'file_vs_reference_f64.loss'", "expected a number, found string")]:
            with self.subTest(text=text):
                (folder / "card.json").write_text(text)
                done = self.refuse(DIAGNOSTICS, ["card.json", *parts], "rannc-check", folder)
                self.assertNotIn("json.exception", done.stderr)


class MakeCheckFolder(unittest.TestCase):
    def test_missing_packages_are_named(self):
        """-S and -E: no package but Python's own, whatever this machine has."""
        script = programs.SOURCE / "tools" / "make-check-folder"
        done = subprocess.run([sys.executable, "-S", "-E", script, "model.py:factory", "folder"], capture_output=True, text=True)
        self.assertEqual(done.returncode, DIAGNOSTICS)
        self.assertIn("onnx", done.stderr)
        self.assertIn("pip install torch onnx", done.stderr)


class Scripts(unittest.TestCase):
    def test_numbers_have_ranges(self):
        for script, flag, values in (("gpu-check", "--jobs", ["-1", "", "1e3"]), ("gpu-check", "--limit", ["nan", "1e400"]),
                                     ("train-gpt", "--steps", ["-1", "5x"])):
            for value in values:
                part = ["--part", "equality"] if script == "gpu-check" else []
                done = subprocess.run([programs.SOURCE / "tools" / script, *part, f"{flag}={value}"], capture_output=True, text=True)
                self.assertEqual(done.returncode, USAGE, f"{script} {flag}={value}: {done.stderr}")
                self.assertIn(flag, done.stderr)


class KilledWorkers(BadInputTest):
    """A worker that is gone ends the run: the launcher names it, and nothing stays behind."""

    def test_at_any_moment(self):
        bundle = self.bundle()
        runs = [self.begin_and_kill_one(bundle, random.Random(seed)) for seed in range(6 if programs.WHOLE else 3)]
        for seed, run in enumerate(runs):
            with self.subTest(seed=seed):
                self.judge(*run)

    def begin_and_kill_one(self, bundle, generator):
        output = self.scratch / f"run-{generator.random()}"
        log = output.with_suffix(".log")
        launcher = subprocess.Popen([programs.program("rannc-run"), str(bundle), "-o", str(output), "--data", str(MLP / "batch.safetensors"),
                                     "--steps", "1000000000", "--checkpoint-every", "20", "--transport", "gloo", "--loss-log", str(log)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(launcher.kill)
        victim = generator.randrange(2)
        self.wait_for(launcher, lambda: len(programs.children(launcher.pid)) == 2)
        workers = sorted(programs.children(launcher.pid))
        # From the first instruction of a worker to the middle of training.
        steps = generator.choice([0, 0, 1, 50, 200])
        self.wait_for(launcher, lambda: steps == 0 or log.exists() and log.read_text().count("\n") >= steps)
        os.kill(workers[victim], signal.SIGKILL)
        return launcher, workers, victim, output

    def judge(self, launcher, workers, victim, output):
        try:
            _, errors = launcher.communicate(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.fail("the launcher hangs")
        self.assertEqual(launcher.returncode, DIAGNOSTICS, errors)
        self.assertIn("killed by signal 9", errors)
        self.assertIn(f"worker {victim} ", errors)
        self.assertEqual([worker for worker in workers if programs.alive(worker)], [])
        self.complete_checkpoints_only(output)

    def wait_for(self, launcher, condition):
        limit = time.monotonic() + programs.HANG_SECONDS
        while not condition():
            self.assertIsNone(launcher.poll(), "the launcher ended by itself")
            self.assertLess(time.monotonic(), limit, "nothing happens")
            time.sleep(0.002)

    def complete_checkpoints_only(self, output):
        """What is there under a checkpoint's name can be resumed from, and there is no report of a run that failed."""
        self.assertFalse((output / "report.html").exists())
        for checkpoint in pathlib.Path(output).glob("checkpoints/step-*"):
            if checkpoint.suffix != ".partial":
                self.assertTrue(any(path.suffix == ".json" for path in checkpoint.iterdir()), list(checkpoint.iterdir()))


if __name__ == "__main__":
    programs.main()
