"""Optimizer state that replicas divide: the losses of whole state in one and in several processes, and across a resume."""
import json
import shutil

import programs

LOSS = "cross_entropy(output=logits,labels=targets)"
STEPS = 4


class Sharding(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.scratch / "gpt.onnx"
        self.succeed("rannc-zoo", "gpt", "-o", self.model, "--layers", 2, "--width", 64, "--heads", 2, "--context", 8, "--tied")

    @property
    def text(self):
        return ["--text", programs.SOURCE / "tests" / "requirements.md"]

    def bundle(self, replicas, sharding, *flags):
        path = self.scratch / f"{'-'.join(map(str, replicas))}-{sharding}.rannc"
        done = self.succeed("rannc-compile", self.model, "-o", path, "--cluster", f"local:{sum(replicas)}", "--stages",
                            len(replicas), "--replicas", ",".join(map(str, replicas)), "--mini-batch", 7, "--micro-batches", 2,
                            "--schedule", "1f1b", "--costs", "analytic", "--loss", LOSS, "--shard-optimizer", sharding, *flags)
        return path, done.stdout

    def losses(self, bundle, name, *flags):
        log = self.scratch / f"{name}.log"
        self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--loss-log", log, *self.text, *flags)
        return dict(line.split() for line in log.read_text().splitlines())

    def test_losses_are_those_of_whole_state(self):
        for replicas in programs.part([[2, 1], [3], [2]], 2):
            whole, said = self.bundle(replicas, "off")
            self.assertNotIn("sharded", said)
            shares, said = self.bundle(replicas, "on")
            self.assertEqual(said.count("optimizer state sharded"), sum(count > 1 for count in replicas), said)
            name = "-".join(map(str, replicas))
            expected = self.losses(whole, f"{name}-whole", "--steps", STEPS)
            self.assertEqual(len(expected), STEPS)
            for transport in ("local", "gloo"):
                found = self.losses(shares, f"{name}-{transport}", "--steps", STEPS, "--transport", transport)
                self.assertEqual(found, expected, f"{replicas} over {transport}")

    def test_replicas_skip_steps_together(self):
        """The first loss scales overflow."""
        runs = {}
        for sharding in ("off", "on"):
            bundle, _ = self.bundle([2], sharding, "--precision", "fp16")
            runs[sharding] = self.losses(bundle, f"scaled-{sharding}", "--steps", 30, "--loss-scale", 2**36)
        self.assertEqual(runs["on"], runs["off"])
        self.assertGreater(len(set(runs["on"].values())), 2, "some steps are not skipped")

    def test_a_run_resumes_under_another_sharding(self):
        """Under the same replicas with whole state, the losses are those of the uninterrupted run."""
        whole, _ = self.bundle([2, 1], "off")
        shares, _ = self.bundle([2, 1], "on")
        other, _ = self.bundle([3], "on")
        expected = self.losses(whole, "uninterrupted", "--steps", STEPS)
        self.losses(shares, "first", "--steps", 2, "--transport", "gloo")
        manifest = self.scratch / "first" / "checkpoints" / "step-2" / "manifest.json"
        self.assertEqual(json.loads(manifest.read_text())["version"], 5)
        for name, bundle in (("whole", whole), ("shares", shares), ("other", other)):
            folder = self.scratch / name
            shutil.copytree(self.scratch / "first", folder)
            self.succeed("rannc-run", bundle, "-o", folder, "--steps", STEPS, "--resume", *self.text)
            found = dict(line.split() for line in (folder / "losses.txt").read_text().splitlines())
            self.assertEqual(sorted(found), sorted(expected), name)
            for step in ("2", "3"):
                if bundle != other:
                    self.assertEqual(found[step], expected[step], name)
                self.assertAlmostEqual(float.fromhex(found[step]), float.fromhex(expected[step]), delta=1e-4)

    def test_auto_shards_where_memory_requires_it(self):
        def fullest(folder):
            lines = (folder / "plan.rir").read_text().splitlines()
            return max(int(line.split()[-1]) for line in lines if line.startswith("predict "))

        flags = ["--recompute", "never"]
        whole, shares = self.bundle([2], "off", *flags)[0], self.bundle([2], "on", *flags)[0]
        between = (fullest(whole) + fullest(shares)) // 2
        _, said = self.bundle([2], "auto", *flags, "--memory", 2 * fullest(whole))
        self.assertNotIn("sharded", said)
        _, said = self.bundle([2], "auto", *flags, "--memory", between, "--replace")
        self.assertIn("optimizer state sharded", said)
        refused = self.run_program("rannc-compile", self.model, "-o", self.scratch / "no.rannc", "--cluster", "local:2", "--stages", 1,
                                   "--replicas", 2, "--mini-batch", 7, "--micro-batches", 2, "--schedule", "1f1b", "--costs",
                                   "analytic", "--loss", LOSS, "--recompute", "never", "--shard-optimizer", "off", "--memory", between)
        self.assertEqual(refused.returncode, 1, refused.stderr)


if __name__ == "__main__":
    programs.main()
