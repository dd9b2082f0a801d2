"""The benchmark that switches mechanisms off, one by one."""
import re
import subprocess
import sys

import programs

BENCH = programs.SOURCE / "tests" / "bench" / "ablation.py"
# Figures that do not depend on the machine: the compiler plans them for a described cluster.
PLANNED = {"direct_skips": 2, "warm_up_depth": 3}


class AblationTest(programs.ProgramTest):
    def figures(self, *flags):
        """Off / on by mechanism."""
        done = subprocess.run([sys.executable, "-B", BENCH, programs.bin_folder, self.scratch, *map(str, flags)], capture_output=True, text=True,
                              timeout=programs.HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {}
        for line in done.stdout.splitlines()[1:]:
            mechanism, _, value = re.match(r"(.{24}) (.{44}) (.+)", line).groups()
            found.setdefault(mechanism.strip(), []).append(value)
        return found

    def test_planned_mechanisms_pay(self):
        for mechanism, count in programs.part(list(PLANNED.items()), 1):
            (values,) = self.figures("--only", mechanism).values()
            self.assertEqual(len(values), count)
            for value in values:
                self.assertGreater(float(value), 1, mechanism)

    @programs.whole
    def test_each_mechanism_has_a_row(self):
        self.assertEqual(list(self.figures("--rounds", 1, "--steps", 3)), [
            "early backward", "warm up depth", "overlap of recompute", "direct skips", "bucketed reduction", "overlap of sums", "fusion", "kernel choice",
            "side by side measuring"])


if __name__ == "__main__":
    programs.main()
