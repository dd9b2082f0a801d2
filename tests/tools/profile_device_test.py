"""rannc-profile measures a device as it does the processor, and rannc-compile plans for it by these times."""
import json
import pathlib

import programs

LOSS = "--loss=cross_entropy(output=logits,labels=y)"
MODEL = programs.DATA / "small_conv" / "model.onnx"
QUICK = ["--sizes", "1,8", "--repeat", "1", "--blocks", "2"]
KIND = "test-device-0"  # names the model of the device by its words


class ProfileDevice(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.device = programs.bin_folder.parent / "tests" / "librannc_test_device.so"
        self.database = self.scratch / "p.json"

    def profile(self, device):
        return self.succeed("rannc-profile", MODEL, LOSS, *QUICK, "--database", self.database, "--device", device)

    def read(self):
        return json.loads(self.database.read_text())

    def environment(self, word):
        (found,) = [name for name in self.read()["environments"] if word in name]
        return found

    def cluster_file(self):
        path = self.scratch / "cluster.toml"
        path.write_text(f'name = "devices"\n[kind.{KIND}]\nmemory_bytes = 1e9\nflops = 1e12\nbandwidth = 1e11\n[[node]]\n'
                        f'inside = {{ bandwidth = 1e11, latency_ns = 5000 }}\ndevices = [{{ kind = "{KIND}", count = 2 }}]\n')
        return path

    def compile(self, cluster):
        done = self.succeed("rannc-compile", MODEL, LOSS, "--mini-batch", 8, "--micro-batches", 1, "--stages", 1, "--cluster", cluster,
                            "--costs", self.database, "--emit=plan", "-o", self.scratch / "plan.rir", "--replace", "--summary=json")
        return json.loads(done.stdout), done.stderr

    def test_entries_are_those_of_the_device(self):
        first = self.profile(self.device)
        self.assertRegex(first.stdout, r"for 'test device 0, libtorch [^']*' at up to 1000 MHz")
        environment = self.environment("test device 0")
        self.assertEqual(self.read()["environments"][environment]["clock_khz"], "1000000")
        of_device = self.read()["tasks"][environment]
        for key, curve in of_device.items():
            self.assertEqual(list(curve), ["1", "8"], key)
            for cost in curve.values():
                self.assertGreater(cost["forward_ns"], 0, key)
        self.assertTrue(self.read()["blocks"][environment])

        before = self.database.read_bytes()
        self.assertIn(" 0 entries measured", self.profile(self.device).stdout)
        self.assertEqual(self.database.read_bytes(), before)

        self.assertNotIn(" 0 entries measured", self.profile("cpu").stdout)
        self.assertEqual(self.read()["tasks"][environment], of_device)
        of_processor = self.read()["tasks"][self.environment("thread")]
        self.assertLess(of_device.keys(), of_processor.keys(), "kernels of the processor are measured there alone")

    def test_plans_have_the_times_of_the_device(self):
        self.profile(self.device)
        found, messages = self.compile(self.cluster_file())
        self.assertEqual(found["prices"], f"prices of {self.database}")
        self.assertNotIn("estimated", messages)
        elsewhere, messages = self.compile("local:2")
        self.assertEqual(elsewhere["prices"], "prices estimated from the cluster's rates")
        self.assertIn("the file has measurements for 'test device 0", messages)

        database = self.read()
        for curve in database["tasks"][self.environment("test device 0")].values():
            for cost in curve.values():
                cost.update({part: 1000 * cost[part] for part in cost if part.endswith("_ns")})
        self.database.write_text(json.dumps(database))
        slower, _ = self.compile(self.cluster_file())
        self.assertGreater(slower["step_ns"], 100 * found["step_ns"])

    def test_messages(self):
        command = ["rannc-profile", MODEL, LOSS, *QUICK, "--database", self.database]
        self.refuse(2, ["expected cpu, cuda, cuda:N or the file of a plug-in, found tpu"], *command, "--device", "tpu")
        self.refuse(1, ["--device /nowhere.so", "cannot be loaded"], *command, "--device", "/nowhere.so")
        for flags in (["--links"], ["--collectives"], ["--cluster", self.scratch / "c.toml"]):
            self.refuse(1, [flags[0], "workers on the processor", "--device cpu"], *command, *flags, "--device", self.device)
        if not pathlib.Path("/proc/driver/nvidia/gpus").exists():
            self.refuse(1, ["--device cuda: "], *command, "--device", "cuda")
        self.assertFalse(self.database.exists())


if __name__ == "__main__":
    programs.main()
