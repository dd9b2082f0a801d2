"""--profile says where a step's time goes, and its parts add up."""
import json

import programs


class StepProfile(programs.ProgramTest):
    in_process = programs.PREPARING

    def bundle(self, stages):
        model, path = self.scratch / "gpt.onnx", self.scratch / f"{stages}.rannc"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 2, "--width", 32, "--heads", 2, "--context", 16)
        self.succeed("rannc-compile", model, "-o", path, "--cluster", f"local:{stages}", "--stages", stages, "--loss",
                     "cross_entropy(output=logits,labels=targets)", "--costs", "analytic", "--schedule", "1f1b",
                     "--micro-batches", 2, "--mini-batch", 4)
        return path

    def run_profile(self, stages, transport):
        folder = self.scratch / f"{stages}-{transport}"
        self.succeed("rannc-run", self.bundle(stages), "-o", folder, "--transport", transport, "--steps", 6, "--profile",
                     "--text", programs.SOURCE / "tests" / "requirements.md")
        parts = json.loads((folder / "profile.json").read_text())
        devices = [device for part in parts for device in part["devices"]]
        self.assertEqual([device["device"] for device in devices], list(range(stages)))
        for device in devices:
            names = ["heavy", "other", "tape", "optimizer", "waiting", "messages", "unaccounted"]
            self.assertAlmostEqual(sum(device[name] for name in names) / device["wall"], 1, delta=1e-6)
            # Clocks of two places are read one after the other: a part may be short of 0 by microseconds.
            for name in names:
                self.assertGreater(device[name], -0.02 * device["wall"], name)
            for name in ["heavy", "other", "tape", "optimizer"]:
                self.assertGreater(device[name], 0, name)

    def test_one_device(self):
        self.run_profile(1, "local")

    def test_two_workers(self):
        self.run_profile(2, "gloo")


if __name__ == "__main__":
    programs.main()
