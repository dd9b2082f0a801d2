"""A bundle is planned again without the model's file."""
import re
import shutil

import programs

MODELS = {"small_gpt": "cross_entropy(output=logits,labels=targets)", "small_conv": "cross_entropy(output=logits,labels=y)",
          "small_mlp": "cross_entropy(output=logits,labels=y)"}
COSTS = ["--costs", "analytic", "--memory", "1GiB"]
TRAINING = ["--optimizer", "sgd", "--momentum", 0.9, "--mini-batch", 8]
# Plans of the bundle: flags that apply to models and bundles alike.
PLANS = {
    "one": ["--cluster", "local:1"],
    "three stages": ["--cluster", "local:3", "--stages", 3, "--micro-batches", 2],
    "replicas": ["--cluster", "local:3", "--replicas", "2,1", "--micro-batches", 2, "--schedule", "gpipe"],
    "elsewhere": ["--cluster", "h100-4", "--stages", 2, "--micro-batches", 4, "--recompute", "always"],
}


def computation(plan):
    """The plan without the bytes of stored tensors and the path of the model's file."""
    return re.sub(r'(?m) = (file|hex) .*$| at ".*?model.onnx"', "", plan)


class BundleAgainTest(programs.ProgramTest):
    def bundle(self, name, *flags):
        """Planned for two workers. Its model's file is gone."""
        bundle, model = self.scratch / f"{name}.rannc", self.scratch / "model.onnx"
        shutil.copy(programs.DATA / name / "model.onnx", model)
        self.succeed("rannc-compile", model, "--loss", MODELS[name], *COSTS, *TRAINING, "--stages", 2, "-o", bundle, *flags)
        model.unlink()
        return bundle

    def again(self, bundle, *flags):
        other = self.scratch / "other.rannc"
        self.succeed("rannc-compile", bundle, *COSTS, "-o", other, "--replace", *flags)
        return other

    def emitted(self, what, *flags):
        return self.succeed("rannc-compile", *COSTS, *flags, "--emit", what).stdout

    def train(self, bundle, run, steps, *flags, name="small_gpt"):
        log = self.scratch / "log.txt"
        self.succeed("rannc-run", bundle, "-o", run, "--steps", steps, "--loss-log", log, "--data",
                     programs.DATA / name / "batch.safetensors", *flags)
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

    def exported(self, bundle):
        file = self.scratch / "exported.safetensors"
        self.succeed("rannc-run", bundle, "--export-weights", file)
        return file.read_bytes()


class SameModel(BundleAgainTest):
    def test_its_plans_are_those_of_the_model(self):
        for name, loss in MODELS.items():
            bundle = self.bundle(name)
            for what, flags in PLANS.items():
                with self.subTest(model=name, plan=what):
                    own = self.emitted("plan", bundle, *flags)
                    direct = self.emitted("plan", programs.DATA / name / "model.onnx", "--loss", loss, *TRAINING, *flags)
                    self.assertEqual(computation(own), computation(direct))

    def test_its_compiled_stages_are_those_of_the_model(self):
        bundle = self.bundle("small_gpt")
        direct = self.emitted("source", programs.DATA / "small_gpt" / "model.onnx", "--loss", MODELS["small_gpt"], *TRAINING, *PLANS["one"])
        self.assertEqual(self.emitted("source", bundle, *PLANS["one"]), direct)

    def test_weights_stay(self):
        for name in MODELS:
            with self.subTest(model=name):
                bundle = self.bundle(name)
                self.assertEqual(self.exported(self.again(bundle, "--devices", 1)), self.exported(bundle))

    def test_fewer_and_more_devices_are_of_this_machine(self):
        bundle = self.bundle("small_gpt")
        for devices in (1, 3):
            plan = (self.again(bundle, "--devices", devices, "--stages", devices) / "plan.rir").read_text()
            self.assertEqual(plan.count("\ndevice "), devices)

    def test_other_mini_batches(self):
        plan = (self.again(self.bundle("small_gpt"), "--mini-batch", 4) / "plan.rir").read_text()
        self.assertRegex(plan, r"(?m)^training mini_batch 4\b")

    def test_evaluation(self):
        bundle = self.scratch / "evaluates.rannc"
        self.succeed("rannc-compile", programs.DATA / "small_conv" / "model.onnx", *COSTS, "-o", bundle)
        outputs = []
        for each in (bundle, self.again(bundle, "--devices", 1)):
            run = each.with_suffix(".run")
            self.succeed("rannc-run", each, "-o", run, "--data", programs.DATA / "small_conv" / "batch.safetensors")
            outputs.append((run / "outputs.safetensors").read_bytes())
        self.assertEqual(*outputs)

    def test_mixed_precision_stays(self):
        bundle = self.bundle("small_gpt", "--precision", "bf16")
        graphs = [self.emitted("graph", each, *flags) for each, *flags in
                  ([bundle], [programs.DATA / "small_gpt" / "model.onnx", "--loss", MODELS["small_gpt"], "--precision", "bf16"])]
        self.assertIn("bf16", graphs[0])
        self.assertEqual(*map(computation, graphs))


class Resumed(BundleAgainTest):
    def test_a_run_goes_on_with_fewer_devices(self):
        bundle, run = self.bundle("small_gpt"), self.scratch / "run"
        whole = self.train(bundle, self.scratch / "whole", 8)
        self.train(bundle, run, 4)
        rest = self.train(self.again(bundle, "--devices", 1), run, 8, "--resume")
        self.assertEqual(len(rest), 8)
        for own, other in zip(rest, whole, strict=True):
            self.assertAlmostEqual(own, other, delta=1e-5 * abs(other))
        self.assertEqual(rest[:4], whole[:4])


class Lost(BundleAgainTest):
    def devices(self, bundle):
        return re.findall(r'(?m)^device \S+ "([^"]+)"', (bundle / "plan.rir").read_text())

    def test_a_run_goes_on_without_the_lost_device(self):
        bundle, run = self.bundle("small_gpt", "--cluster", "local:3"), self.scratch / "run"
        names = self.devices(bundle)
        self.assertEqual(len(names), 3)
        whole = self.train(bundle, self.scratch / "whole", 8)
        self.train(bundle, run, 4)
        other = self.again(bundle, "--cluster", "local:3", "--lost", names[0])
        self.assertNotIn(names[0], self.devices(other))
        rest = self.train(other, run, 8, "--resume")
        for own, wanted in zip(rest, whole, strict=True):
            self.assertAlmostEqual(own, wanted, delta=1e-5 * abs(wanted))

    def test_the_workers_of_this_machine_are_the_default(self):
        bundle = self.bundle("small_gpt")
        names = self.devices(bundle)
        other = self.again(bundle, "--lost", names[0])
        self.assertEqual(self.devices(other), names[1:])

    def test_unknown_devices_and_other_inputs_are_refused(self):
        bundle = self.bundle("small_gpt")
        self.refuse(1, ["--lost nobody: cluster 'local:2' has no such device"], "rannc-compile", bundle, *COSTS, "-o", self.scratch / "x",
                    "--lost", "nobody")
        self.refuse(1, ["no device of cluster 'local:2' is left"], "rannc-compile", bundle, *COSTS, "-o", self.scratch / "x", "--lost",
                    ",".join(self.devices(bundle)))
        self.refuse(2, ["--lost", "is not a bundle"], "rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--lost", "x")
        self.refuse(2, ["--lost: planner rannc"], "rannc-compile", bundle, "-o", self.scratch / "x", "--lost", "x", "--planner", "rannc")


class Native(BundleAgainTest):
    def test_the_form_stays(self):
        bundle = self.bundle("small_mlp", "--form", "native")
        other = self.again(bundle, "--devices", 1)
        self.assertTrue((other / "stage0.so").exists())
        self.assertFalse((other / "stage1.so").exists())
        interpreted = self.again(bundle, "--form", "interpreted")
        self.assertFalse((interpreted / "stage0.so").exists())


class Refused(BundleAgainTest):
    def refused(self, code, parts, bundle, *flags):
        before = {file.name: file.read_bytes() for file in bundle.iterdir()}
        self.refuse(code, parts, "rannc-compile", bundle, *flags)
        self.assertEqual({file.name: file.read_bytes() for file in bundle.iterdir()}, before)

    def test_flags_that_the_bundle_decides(self):
        bundle, other = self.bundle("small_mlp"), self.scratch / "none.rannc"
        for flags in (["--loss", MODELS["small_mlp"]], ["--optimizer", "adam"], ["--precision", "bf16"], ["--weights", "w.safetensors"],
                      ["--seed", 1], ["--no-fuse", "all"], ["--stage-onnx"]):
            self.refused(2, [flags[0], "is a bundle"], bundle, "-o", other, *flags)
        self.refused(2, ["--emit onnx"], bundle, "--emit", "onnx", "-o", other)
        self.refused(2, ["--output is missing"], bundle)
        self.assertFalse(other.exists())

    def test_another_machine_needs_a_cluster(self):
        bundle = self.bundle("small_mlp", "--cluster", "h100-4")
        self.refused(1, ["was planned for", "h100", "--cluster"], bundle, "-o", self.scratch / "none.rannc", "--devices", 1)
        self.again(bundle, "--cluster", "local:1")

    def test_a_damaged_bundle(self):
        bundle = self.bundle("small_mlp")
        weights = bundle / "stage1.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        self.refused(1, ["stage1.safetensors"], bundle, "-o", self.scratch / "none.rannc")
        (bundle / "manifest.json").unlink()
        self.refused(1, ["manifest.json"], bundle, "-o", self.scratch / "none.rannc")


if __name__ == "__main__":
    programs.main()
