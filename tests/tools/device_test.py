"""Runs on an asynchronous device, as on a GPU, have the numbers of runs on the processor."""
import json

import programs

LOSSES = {"small_mlp": "cross_entropy(output=logits,labels=y,ignore_index=-100)", "small_conv": "cross_entropy(output=logits,labels=y)"}


class DeviceTest(programs.ProgramTest):
    @property
    def device(self):
        return programs.bin_folder.parent / "tests" / "librannc_test_device.so"


class CheckedModels(DeviceTest):
    folders = [programs.DATA / name for name in programs.SMALL]

    def judge(self, **flags):
        done, entries = programs.check(self.folders, device=self.device, **flags)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(len(entries), len(self.folders))

    def test_cuts(self):
        self.judge(stages=[1, 2, 4], micro_batches=[1, 3])

    def test_replicas_and_recompute(self):
        self.judge(replicas=["2", "2,1", "1,3"], micro_batches=[1, 3], recompute=["always"])

    def test_processes(self):
        self.judge(stages=[2], transport="gloo")
        self.judge(replicas=["2,1"], transport="gloo")

    def test_float32(self):
        self.judge(stages=[2], dtype="float32")


class Runs(DeviceTest):
    def bundle(self, name, *flags, cluster="local:2"):
        path = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", programs.DATA / name / "model.onnx", "-o", path, "--replace", "--loss", LOSSES[name], "--costs", "analytic",
                     "--cluster", cluster, "--stages", 2, "--mini-batch", 8, "--micro-batches", 2, "--optimizer", "adam", *flags)
        return path

    def run_on(self, device, bundle, name, *flags):
        """Losses and messages of six steps, or as many as `flags` say."""
        folder = self.scratch / f"{device.name if hasattr(device, 'name') else device}.run"
        flags = flags if "--steps" in flags else (*flags, "--steps", 6)
        done = self.succeed("rannc-run", bundle, "-o", folder, "--data", programs.DATA / name / "batch.safetensors", "--optimizer", "adam",
                            "--learning-rate", "1e-2", "--device", device, *flags)
        return folder, (folder / "losses.txt").read_text() if (folder / "losses.txt").exists() else "", done

    def compare(self, name, compile_flags=(), run_flags=()):
        bundle = self.bundle(name, *compile_flags)
        _, expected, _ = self.run_on("cpu", bundle, name, *run_flags)
        _, found, done = self.run_on(self.device, bundle, name, *run_flags)
        self.assertEqual(found, expected)
        self.assertEqual(expected.count("\n"), 6)
        return done

    def test_losses_are_those_of_the_processor(self):
        for name in LOSSES:
            for flags in ([], ["--no-cuda-graphs"], ["--clip-norm", "0.1"], ["--deterministic"], ["--transport", "gloo"]):
                with self.subTest(name=name, flags=flags):
                    self.compare(name, run_flags=["--replace", *flags])

    def test_peak_is_that_of_the_device(self):
        done = self.compare("small_mlp", run_flags=["--no-cuda-graphs"])
        self.assertRegex(done.stdout, r"held \d+ bytes at most, \d+ were predicted")

    def test_resumes(self):
        bundle = self.bundle("small_conv")
        _, expected, _ = self.run_on("cpu", bundle, "small_conv")
        self.run_on(self.device, bundle, "small_conv", "--steps", 3)
        _, found, _ = self.run_on(self.device, bundle, "small_conv", "--steps", 6, "--resume")
        self.assertEqual(found, expected)

    def test_losses_are_complete(self):
        """Whatever ends a run, whose losses are read after the next step has begun."""
        bundle = self.bundle("small_mlp")
        data = ["--data", programs.DATA / "small_mlp/batch.safetensors", "--optimizer", "sgd", "--replace"]
        outcomes = {}
        for device in ["cpu", self.device]:
            folder = self.scratch / "ends.run"
            done = programs.run("rannc-run", bundle, "-o", folder, *data, "--device", device, "--learning-rate", "1e30", "--steps", 9)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, "step [1-7]: the loss is")
            outcomes[device] = (folder / "losses.txt").read_text(), done.stderr.splitlines()[0]
            log = self.scratch / "log.jsonl"
            self.succeed("rannc-run", bundle, "-o", folder, *data, "--device", device, "--learning-rate", "0.1", "--steps", 7,
                         "--checkpoint-every", 3, "--validate", programs.DATA / "small_mlp/batch.safetensors", "--validate-every", 2, "--log", log)
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertEqual([row["step"] for row in rows], list(range(1, 8)))
            self.assertEqual([row["step"] for row in rows if "validation_loss" in row], [2, 4, 6, 7])
            self.assertTrue((folder / "checkpoints/step-3").exists() and (folder / "checkpoints/step-7").exists())
            outcomes[device] += (folder / "losses.txt").read_text(), [(row["loss"], row.get("validation_loss")) for row in rows]
        self.assertEqual(*outcomes.values())
        self.assertLess(outcomes["cpu"][0].count("\n"), 8)

    def test_evaluates(self):
        bundle = self.bundle("small_conv")
        outputs = []
        for device in ["cpu", self.device]:
            folder, _, done = self.run_on(device, bundle, "small_conv", "--evaluate")
            written = [path for path in folder.iterdir() if path.suffix == ".safetensors"]
            self.assertTrue(written, done.stdout)
            outputs.append([programs.read_safetensors(path) for path in sorted(written)])
        self.assertEqual(*outputs)

    def test_plan_for_gpus_without_one(self):
        cluster = self.scratch / "gpu.toml"
        cluster.write_text('name = "one"\n[kind.gpu]\nmemory_bytes = 1e9\nflops = 1e12\nbandwidth = 1e11\ndevice = "cuda"\n'
                           '[[node]]\ninside = { bandwidth = 1e11, latency_ns = 5000 }\ndevices = [{ kind = "gpu", count = 2 }]\n')
        bundle = self.bundle("small_mlp", cluster=cluster)
        self.assertIn("type cuda", (bundle / "plan.rir").read_text())
        _, expected, _ = self.run_on("cpu", bundle, "small_mlp")
        done = programs.run("rannc-run", bundle, "-o", self.scratch / "default.run", "--data", programs.DATA / "small_mlp/batch.safetensors",
                            "--optimizer", "adam", "--learning-rate", "1e-2", "--steps", 6)
        self.assertEqual(done.returncode, 0, done.stderr)
        if "uses the processor" in done.stderr:  # no GPU here
            self.assertEqual((self.scratch / "default.run/losses.txt").read_text(), expected)

    def test_messages(self):
        bundle = self.bundle("small_mlp")
        data = ["--data", programs.DATA / "small_mlp/batch.safetensors", "-o", self.scratch / "x.run"]
        self.refuse(2, ["expected cpu, cuda, cuda:N or the file of a plug-in, found tpu"], "rannc-run", bundle, *data, "--device", "tpu")
        self.refuse(1, ["--device /nowhere.so", "cannot be loaded"], "rannc-run", bundle, *data, "--device", "/nowhere.so")
        self.assertFalse((self.scratch / "x.run").exists())


if __name__ == "__main__":
    programs.main()
