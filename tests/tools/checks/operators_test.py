"""No operator is known by name outside its entry, and the table that people read is the registry's."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from planted import CHECKS, TOOLS

RANNC_OPT = sys.argv.pop()
PAGE = TOOLS.parent / "ir" / "operators.md"
BEGIN, END = "<!-- rannc-opt --list-operators -->\n", "<!-- end -->\n"


def listed():
    return subprocess.run([RANNC_OPT, "--list-operators"], check=True, capture_output=True, text=True).stdout


def parts():
    """The page before, in and after its table."""
    before, rest = PAGE.read_text().split(BEGIN)
    table, after = rest.split(END)
    return before, table, after


class OperatorsTest(unittest.TestCase):
    def names(self, source, folder="passes"):
        """Status and lines of the check on one planted file."""
        with tempfile.TemporaryDirectory() as root:
            path = Path(root) / folder / "planted.cc"
            path.parent.mkdir(parents=True)
            path.write_text(source)
            done = subprocess.run([sys.executable, CHECKS / "check-operator-names", RANNC_OPT, root], capture_output=True, text=True)
            return done.returncode, done.stdout

    def test_the_table_is_the_registrys(self):
        self.assertEqual(parts()[1], listed(), "run tests/tools/checks/operators_test.py --regenerate RANNC_OPT")

    def test_no_name_is_known_elsewhere(self):
        done = subprocess.run([sys.executable, CHECKS / "check-operator-names", RANNC_OPT], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(done.stdout.startswith("0 names of "), done.stdout)

    def test_planted_names_are_found(self):
        for source in ('if (op == "core.add") return;', 'if ("add" == name) return;', 'if (short_name(op) != "softmax") return;',
                       'if (&graph.op(task) == &ir::core("add")) return;', 'const char* kAll[] = {"core.add", "core.sub"};',
                       'Rule kRules[] = {{"add", f}, {"sub", f}, {"mul", g}};', 'switch_on(op.name.starts_with("core.add"));'):
            with self.subTest(source):
                status, output = self.names(source + "\n")
                self.assertEqual(status, 1, output)
                self.assertIn("passes/planted.cc:1:", output)

    def test_builders_patterns_and_words_are_not(self):
        for source in ('graph.add(ir::core("add"), {a, b});', 'op("mean", through({"cast", "reshape"}, any(x)))', '// core.add',
                       'graph.add_task(ir::core(rows ? "sum" : "mean"), parts);', 'json["shape"] = size;', 'label("sum")'):
            with self.subTest(source):
                self.assertEqual(self.names(source + "\n")[0], 0)
        self.assertEqual(self.names('if (op == "core.add") return;\n', "ir/op/entries")[0], 0)


if __name__ == "__main__":
    if "--regenerate" in sys.argv:
        before, _, after = parts()
        PAGE.write_text(before + BEGIN + listed() + END + after)
    else:
        unittest.main()
