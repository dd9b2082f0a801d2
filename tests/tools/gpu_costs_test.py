"""Times of this machine's processor never price a plan for other devices."""
import json

import programs

LOSS = "--loss=cross_entropy(output=logits,labels=y)"
MODEL = programs.DATA / "small_conv" / "model.onnx"  # LibTorch has several kernels for its convolutions
ESTIMATED = "prices estimated from the cluster's rates"
MEASURED = "times of tasks measured one by one"
GPUS = ("h100-8", "2x-h100-8", "v100-4")
ELSEWHERE = (*GPUS, "flat:2", "rannc-1x8", "dapple-b")


class GpuCosts(programs.ProgramTest):
    def cluster_file(self, kind="gpu", device="cuda"):
        path = self.scratch / f"{kind}.toml"
        path.write_text(f'name = "local:2"\n[kind."{kind}"]\nmemory_bytes = 1e9\nflops = 1e12\nbandwidth = 1e11\ndevice = "{device}"\n'
                        f'[[node]]\ninside = {{ bandwidth = 1e11, latency_ns = 5000 }}\ndevices = [{{ kind = "{kind}", count = 2 }}]\n')
        return path

    def plan(self, cluster, *flags):
        """The plan's text, the origin of its prices, and the messages."""
        command = ["rannc-compile", MODEL, LOSS, "--mini-batch", 8, "--cluster", cluster, "--devices", 2, *flags]
        plan = self.scratch / "plan.rir"
        done = self.succeed(*command, "--emit=plan", "-o", plan, "--replace", "--summary=json")
        return plan.read_text(), json.loads(done.stdout)["prices"], done.stderr

    def profile(self):
        database = self.scratch / "cpu.json"
        self.succeed("rannc-profile", MODEL, LOSS, "--sizes", "1,8", "--repeat", "1", "--database", database)
        return database

    def test_default_estimates_other_devices(self):
        for cluster in (*ELSEWHERE, self.cluster_file()):
            with self.subTest(cluster=cluster):
                found, prices, _ = self.plan(cluster)
                expected, _, _ = self.plan(cluster, "--costs", "analytic")
                self.assertEqual(found, expected)
                self.assertEqual(prices, ESTIMATED)

    def test_default_measures_this_processor(self):
        for cluster in ("local:2", self.cluster_file("cpu", "cpu")):
            with self.subTest(cluster=cluster):
                self.assertEqual(self.plan(cluster)[1], MEASURED)

    def test_measuring_other_devices_is_refused(self):
        for cluster, kind in (("h100-8", "h100"), ("rannc-1x8", "v100"), (self.cluster_file(), "gpu")):
            with self.subTest(cluster=cluster):
                self.refuse(1, ["--costs measured", f"has {kind}", "--costs analytic"], "rannc-compile", MODEL, LOSS,
                            "--cluster", cluster, "--costs", "measured", "--emit=plan")

    def test_database_of_a_processor(self):
        database = self.profile()
        self.assertEqual(self.plan("local:2", "--costs", database)[1], f"prices of {database}")
        for cluster in (*ELSEWHERE, self.cluster_file()):
            with self.subTest(cluster=cluster):
                found, prices, messages = self.plan(cluster, "--costs", database)
                expected, _, _ = self.plan(cluster, "--costs", "analytic")
                self.assertEqual(found, expected)
                self.assertEqual(prices, ESTIMATED)
                self.assertIn("there are no measurements of ", messages)

    def test_finished_stages_are_not_measured(self):
        """Not even for GPUs of a cluster that has the name of this machine's workers."""
        done = self.succeed("rannc-compile", MODEL, LOSS, "--mini-batch", 8, "--cluster", self.cluster_file(), "--summary=json",
                            "-o", self.scratch / "x.rannc")
        self.assertFalse(json.loads(done.stdout)["measured"])


if __name__ == "__main__":
    programs.main()
