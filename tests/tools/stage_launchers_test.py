"""Executables of stages under torchrun and mpirun; skipped where neither is found."""
import importlib.util
import json
import shutil
import sys

import programs
import stage_runs


def torchrun():
    """Its command, or nothing where PyTorch is not installed."""
    program = shutil.which("torchrun")
    if program is not None:
        return [program]
    return [sys.executable, "-m", "torch.distributed.run"] if importlib.util.find_spec("torch") else None


def mpirun():
    program = shutil.which("mpirun")
    return None if program is None else [program, "--allow-run-as-root", "--oversubscribe"]


class Launchers(stage_runs.StageTest):
    def launch(self, launcher, *flags):
        if launcher is None:
            self.skipTest("the launcher is not installed")
        reference, _ = self.reference(3)
        found, log = self.scratch / "run", self.scratch / "run.jsonl"
        self.finish(self.popen([*launcher, *flags, self.whole / "stage0", "-o", found, "--log", log, *self.training(3)]))
        self.assertEqual([json.loads(line)["step"] for line in log.read_text().splitlines()], [1, 2, 3], "one worker writes it")
        self.same_run(found, reference, 3)
        self.same_part(found, reference, 3, 1)

    def test_torchrun(self):
        """Which reads `--log` as an abbreviation of its own flags, unless `--` comes first."""
        self.launch(torchrun(), "--no-python", "--nproc-per-node", 2, "--master-port", programs.free_port(), "--")

    def test_mpirun(self):
        self.launch(mpirun(), "-n", 2)


if __name__ == "__main__":
    programs.main()
