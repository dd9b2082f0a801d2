"""Every listed schedule is compiled for two and four devices, several stages per device included, and trains alike."""
import random
import re
import struct

import programs

STEPS = 3
ONE_PER_DEVICE = ("1f1b", "dapple-b", "gpipe", "warmup", "zb-h1", "zb-h2", "latency", "1f1b-star", "k-periodic", "serial", "found")
SHARED = ("interleaved", "zb-v", "v-half", "v-min", "periodic", "serial", "found")


class Schedules(programs.ProgramTest):
    def expect_alike(self, model, loss, data, counts, skips=False):
        """Trains `model` in one process, then under every schedule on as many devices as each of `counts`."""
        one = self.losses(model, loss, data, 1, "1f1b")
        for devices in (2, 4) if programs.WHOLE else counts:
            for schedule in ONE_PER_DEVICE:
                with self.subTest(schedule=schedule, devices=devices):
                    self.agree(one, self.losses(model, loss, data, devices, schedule, "--stages", devices))
                    if skips and devices > 2:
                        self.assertTrue(any(abs(source - target) > 1 for source, target in self.links), "skips pass no stage between")
            for schedule in SHARED:
                with self.subTest(schedule=schedule, devices=devices):
                    self.agree(one, self.losses(model, loss, data, devices, schedule, "--stages-per-device", 2,
                                                "--stages", 2 * devices))

    def losses(self, model, loss, data, devices, schedule, *flags):
        name = f"{schedule}-{devices}" + ("-shared" if "--stages-per-device" in flags else "")
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--cluster", f"local:{devices}", "--mini-batch", 8,
                     "--micro-batches", 4, "--costs", "analytic", "--loss", loss, "--dtype", "float64",
                     "--schedule", schedule, *flags)
        self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--steps", STEPS, "--loss-log",
                     self.scratch / f"{name}.log", *data)
        self.links = self.expect_planned_bytes(self.scratch / name / "report.html")
        return [float.fromhex(line.split()[1]) for line in (self.scratch / f"{name}.log").read_text().splitlines()]

    def expect_planned_bytes(self, report):
        """The bytes of a step that the report names by link, measured as planned."""
        rows = re.findall(r"<tr><td>device (\d+) to (\d+)</td><td>(\d+)</td><td>(\d+)</td><td>\d+</td></tr>", report.read_text())
        for source, target, planned, measured in rows:
            self.assertEqual(planned, measured, f"device {source} to {target}")
        return {(int(source), int(target)): int(planned) for source, target, planned, _ in rows}

    def agree(self, one, other):
        self.assertEqual(len(other), STEPS)
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-10 * abs(a))

    def test_all_are_tried(self):
        listed = self.succeed("rannc-compile", "--list", "schedule").stdout
        self.assertEqual(sorted(line.split()[0] for line in listed.splitlines()),
                         sorted({*ONE_PER_DEVICE, *SHARED, "table"}))

    def test_found_rows_run_and_resume_to_the_bit(self):
        model, loss = programs.DATA / "small_gpt" / "model.onnx", "cross_entropy(output=logits,labels=targets)"
        data = ["--data", programs.DATA / "small_gpt" / "batch.safetensors"]
        flags = ["--cluster", "local:2", "--stages", 2, "--mini-batch", 8, "--micro-batches", 4, "--costs", "analytic", "--loss", loss]

        def losses(bundle, out, *more):
            log = self.scratch / "losses.log"
            log.unlink(missing_ok=True)
            self.succeed("rannc-run", bundle, "-o", self.scratch / out, "--loss-log", log, *data, *more)
            return log.read_text().splitlines()

        bundles = {name: self.scratch / f"{name}.rannc" for name in ("1f1b", "found")}
        for name, bundle in bundles.items():
            self.succeed("rannc-compile", model, "-o", bundle, "--schedule", name, *flags)
        self.assertRegex((bundles["found"] / "plan.rir").read_text(), r"(?m)^schedule found lowered$")
        one, found = (losses(bundle, name, "--steps", 4) for name, bundle in bundles.items())
        self.assertEqual(len(one), 4)
        self.assertEqual(found, one)
        self.assertEqual(losses(bundles["found"], "half", "--steps", 2), one[:2])
        self.assertEqual(losses(bundles["found"], "half", "--steps", 4, "--resume")[-2:], one[2:])

    def test_gpt_with_tied_embeddings(self):
        model = self.scratch / "gpt.onnx"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 3, "--width", 16, "--heads", 2, "--context", 8, "--tied")
        self.expect_alike(model, "cross_entropy(output=logits,labels=targets)",
                          ["--text", programs.SOURCE / "tests" / "requirements.md"], counts=[2])

    def test_unet_with_skips(self):
        model, side, samples = self.scratch / "unet.onnx", 64, 8
        self.succeed("rannc-zoo", "unet", "-o", model, "--blocks", 1, "--channels", 2, "--image", side)
        rng = random.Random(5)

        def numbers(channels):
            count = samples * channels * side * side
            return "F64", [samples, channels, side, side], struct.pack(f"<{count}d", *(rng.gauss(0, 1) for _ in range(count)))

        data = self.scratch / "images.safetensors"
        programs.write_safetensors(data, {"x/image": numbers(3), "labels/t": numbers(1)})
        self.expect_alike(model, "mse(output=mask,labels=t)", ["--data", data], counts=[4], skips=True)


if __name__ == "__main__":
    programs.main()
