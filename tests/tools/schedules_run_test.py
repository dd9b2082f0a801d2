"""Every listed schedule is compiled for two and four devices, several stages per device included, and trains alike."""
import programs

STEPS = 3
ONE_PER_DEVICE = ("1f1b", "dapple-b", "gpipe", "warmup", "zb-h1", "zb-h2", "latency", "1f1b-star", "k-periodic")
SHARED = ("interleaved", "zb-v", "v-half", "v-min", "periodic")


class Schedules(programs.ProgramTest):
    in_process = programs.PREPARING

    def setUp(self):
        super().setUp()
        self.path = self.scratch / "gpt.onnx"
        self.succeed("rannc-zoo", "gpt", "-o", self.path, "--layers", 3, "--width", 16, "--heads", 2, "--context", 8)

    def losses(self, devices, schedule, *flags):
        name = f"{schedule}-{devices}"
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", self.path, "-o", bundle, "--cluster", f"local:{devices}", "--mini-batch", 8,
                     "--micro-batches", 4, "--costs", "analytic", "--loss", "cross_entropy(output=logits,labels=targets)",
                     "--dtype", "float64", "--schedule", schedule, *flags)
        self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--steps", STEPS, "--loss-log",
                     self.scratch / f"{name}.log", "--text", programs.SOURCE / "tests" / "requirements.md")
        return [float.fromhex(line.split()[1]) for line in (self.scratch / f"{name}.log").read_text().splitlines()]

    def test_all_train_alike(self):
        listed = self.succeed("rannc-compile", "--list", "schedule").stdout
        self.assertEqual(sorted(line.split()[0] for line in listed.splitlines()),
                         sorted((*ONE_PER_DEVICE, *SHARED, "table")))
        one = self.losses(1, "1f1b")
        for devices in (2, 4):
            for schedule in ONE_PER_DEVICE:
                with self.subTest(schedule=schedule, devices=devices):
                    self.agree(one, self.losses(devices, schedule, "--stages", devices))
            for schedule in SHARED:
                with self.subTest(schedule=schedule, devices=devices):
                    self.agree(one, self.losses(devices, schedule, "--stages-per-device", 2, "--stages", 2 * devices))

    def agree(self, one, other):
        """Micro-batches may be summed in another order."""
        self.assertEqual(len(other), STEPS)
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-9 * abs(a))


if __name__ == "__main__":
    programs.main()
