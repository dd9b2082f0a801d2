"""The benchmark that puts our figures beside those of the papers: figures that cannot have changed by chance."""
import json
import os
import subprocess
import sys

import programs

BENCH = programs.SOURCE / "tests" / "bench" / "papers.py"
SHARED = os.environ.get("RANNC_SHARED_DIR", programs.SOURCE.parent / "shared")


class PapersTest(programs.ProgramTest):
    def rows(self, table):
        """Rows by case and figure."""
        done = subprocess.run([sys.executable, "-B", BENCH, programs.bin_folder, self.scratch, "--shared", SHARED, "--only", table, "--json"],
                              capture_output=True, text=True, timeout=programs.HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:  # a ratio far from one has its cause
            if row["ratio"] and not 0.9 < row["ratio"] < 1.1:
                self.assertTrue(row["cause"], row)
        return {(row["case"].split(" (")[0], row["figure"]): row for row in rows}

    def test_memory_of_torchgpipes_unets(self):
        rows = self.rows("torchgpipe_3")
        self.assertEqual(len(rows), 10)
        for (case, figure), row in rows.items():
            near = (0.995, 1.005) if figure.startswith("parameters") else (0.8, 1.05)
            self.assertTrue(near[0] < row["ratio"] < near[1], (case, row))

    @programs.whole
    def test_largest_bert_of_dapple(self):
        for (case, figure), row in self.rows("dapple_7").items():
            self.assertTrue(0.9 < row["ratio"] < 1.15, (case, figure, row))

    def test_policies_of_dapple(self):
        if programs.shared_models() is None:
            self.skipTest("no shared data at hand")
        rows = self.rows("dapple_3")
        for name in ("BERT-48", "XLNet-36", "VGG-19"):
            self.assertTrue(0.95 < rows[name, "throughput of P_B over P_A, 8:8"]["ratio"] < 1.05, rows)


if __name__ == "__main__":
    programs.main()
