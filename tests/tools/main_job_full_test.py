"""The main job at its own size: tools/train-gpt as tools/demo runs it, by threads and by processes."""
import re
import subprocess

import programs
import run_folder

STEPS = 120


class Demo(programs.ProgramTest):
    def judge(self, transport):
        preset = programs.bin_folder.parent
        self.assertEqual(preset.parent, programs.SOURCE / "build", "the demo runs a preset's programs")
        done = subprocess.run([programs.SOURCE / "tools" / "train-gpt", f"--transport={transport}", f"--steps={STEPS}",
                               f"--preset={preset.name}", f"--output={self.scratch}"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = re.search(rf"loss ([\d.]+) -> ([\d.]+) in {STEPS} steps", done.stdout + done.stderr)
        self.assertLess(float(losses[2]), 3)
        self.assertGreater(float(losses[1]), 5)
        run_folder.judge_trace(self, self.scratch / "gpt.run" / "trace.json", STEPS, devices=2)
        run_folder.judge_report(self, self.scratch / "gpt.run" / "report.html", STEPS, stages=2, devices=2)

    def test_threads(self):
        self.judge("local")

    def test_processes(self):
        self.judge("gloo")


if __name__ == "__main__":
    programs.main()
