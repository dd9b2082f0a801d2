"""The main job: the commands of tools/train-gpt over a smaller model learn, and leave a trace and a report."""
import math
import os
import re
import shlex
import shutil
import subprocess
from collections import Counter

import programs
import run_folder

TEXT = programs.SOURCE / "LICENSE"
STEPS = 80
# Beside the demo's own flags; a model so small takes a higher rate.
SMALLER = {
    "rannc-zoo": ["--layers", "2", "--width", "64", "--heads", "2", "--context", "32"],
    "rannc-run": ["--loss-log"],
}
CHANGED = {"--text": str(TEXT), "--steps": str(STEPS), "--learning-rate": "1e-2", "--warmup-steps": "5"}
STUB = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@" "" >>"$CALLS"\n'


def entropy(data):
    """Nats a byte that one needs who knows how frequent each byte is, and nothing of what stood before."""
    return -sum(count / len(data) * math.log(count / len(data)) for count in Counter(data).values())


class MainJob(programs.ProgramTest):
    def commands(self, *flags):
        """What tools/train-gpt calls, as lists of words: its programs are stubs here that write down their arguments."""
        tools, stubs = self.scratch / "tree" / "tools", self.scratch / "tree" / "build" / "release" / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        stubs.mkdir(parents=True, exist_ok=True)
        for name in ("train-gpt", "setup-paths", "setup-versions"):
            shutil.copy(programs.SOURCE / "tools" / name, tools / name)
        for name in re.findall(r"\$bin/([\w-]+)", (tools / "train-gpt").read_text()):
            (stubs / name).write_text(STUB)
            (stubs / name).chmod(0o755)
        calls = self.scratch / "calls"
        calls.write_text("")
        subprocess.run([tools / "train-gpt", f"--output={self.scratch / 'out'}", *flags], check=True, capture_output=True,
                       env={**os.environ, "CALLS": str(calls)})
        return [call.split("\n") for call in calls.read_text().split("\n\n") if call]

    def smaller(self, command):
        """The same command over a smaller model."""
        for flag, value in CHANGED.items():
            if flag in command:
                command[command.index(flag) + 1] = value
        return command + SMALLER.get(command[0], [])

    def train(self, transport):
        """Runs the demo's commands; the lines that the run printed, and its losses."""
        log = self.scratch / f"{transport}.log"
        for command in self.commands(f"--transport={transport}"):
            command = self.smaller(command)
            if command[-1] == "--loss-log":
                command.append(str(log))
            done = self.succeed(command[0], *command[1:], cwd=programs.SOURCE)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        return done.stdout + done.stderr, losses

    def judge(self, transport):
        printed, losses = self.train(transport)
        self.assertEqual(len(losses), STEPS)
        last = sum(losses[-10:]) / 10
        self.assertLess(last, 3)
        self.assertLess(last, entropy(TEXT.read_bytes()), "it learned what follows what, not only how frequent bytes are")
        self.assertGreater(losses[0], math.log(256) - 0.5, "and had not been trained before")
        self.assertRegex(printed, rf"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {STEPS} steps")
        folder = self.scratch / "out" / "gpt.run"
        run_folder.judge_trace(self, folder / "trace.json", STEPS, devices=2)
        run_folder.judge_report(self, folder / "report.html", STEPS, stages=2, devices=2)
        self.assertIn(f"transport {transport}", (folder / "report.html").read_text())
        return losses

    def test_threads(self):
        self.judge("local")

    def test_processes(self):
        self.judge("gloo")

    def test_what_the_demo_calls(self):
        zoo, compiled, run = self.commands("--steps=7", "--transport=gloo")
        self.assertEqual([zoo[0], compiled[0], run[0]], ["rannc-zoo", "rannc-compile", "rannc-run"])
        self.assertIn("--stages 2", shlex.join(compiled))
        self.assertIn("--steps 7", shlex.join(run))
        self.assertIn("--transport gloo", shlex.join(run))


if __name__ == "__main__":
    programs.main()
