"""Measured costs are kept in a file: nothing is measured twice, and nothing is taken from what was measured otherwise. [R7]"""
import json

import programs

MODEL = programs.DATA / "small_mlp" / "model.onnx"
LOSS = "cross_entropy(output=logits,labels=y)"


class KeptCosts(programs.ProgramTest):
    def compile(self, *flags):
        """The remarks of a compilation, and its plan."""
        bundle = self.scratch / "model.rannc"
        done = self.succeed("rannc-compile", MODEL, "--loss", LOSS, "--cluster", "local:2", "--costs", f"measured:{self.costs}",
                            "-o", bundle, "--replace", *flags)
        return done.stdout + done.stderr, (bundle / "plan.rir").read_text()

    def setUp(self):
        super().setUp()
        self.costs = self.scratch / "costs.json"

    def expect_measured(self, printed, tasks, runs):
        (self.assertRegex if tasks else self.assertNotRegex)(printed, r"[1-9]\d* tasks were measured")
        (self.assertNotIn if tasks else self.assertIn)("none was measured", printed)
        (self.assertRegex if runs else self.assertNotRegex)(printed, r"[1-9]\d* plans were run")
        (self.assertNotIn if runs else self.assertIn)("none was run", printed)

    def test_nothing_is_measured_twice(self):
        self.expect_measured(self.compile()[0], tasks=True, runs=True)
        written = self.costs.read_bytes()
        printed, plan = self.compile()
        self.expect_measured(printed, tasks=False, runs=False)
        self.assertEqual(self.compile()[1], plan)
        self.assertEqual(self.costs.read_bytes(), written)

    def test_other_plans_and_types_are_measured(self):
        self.compile()
        self.expect_measured(self.compile("--micro-batches", 8, "--stages", 2)[0], tasks=False, runs=True)
        self.expect_measured(self.compile("--optimizer", "sgd")[0], tasks=False, runs=True)
        self.expect_measured(self.compile("--dtype", "float64")[0], tasks=True, runs=True)

    def test_times_of_another_processor_are_not_used(self):
        self.compile()
        database = json.loads(self.costs.read_text())
        for section in ("tasks", "runs"):
            database[section] = {"another processor": entries for entries in database[section].values()}
        self.costs.write_text(json.dumps(database))
        self.expect_measured(self.compile()[0], tasks=True, runs=True)

    def test_times_that_do_not_belong_to_the_plan_are_not_used(self):
        self.compile()
        database = json.loads(self.costs.read_text())
        for runs in database["runs"].values():
            for lists in runs.values():
                lists["backward"].pop()
        self.costs.write_text(json.dumps(database))
        self.expect_measured(self.compile()[0], tasks=False, runs=True)
        self.expect_measured(self.compile()[0], tasks=False, runs=False)

    def test_a_damaged_file_is_an_error(self):
        self.costs.write_text('{"rannc_profile": 2')
        self.refuse(1, ["costs.json"], "rannc-compile", MODEL, "--loss", LOSS, "--cluster", "local:2", "--costs", f"measured:{self.costs}",
                    "--emit", "plan")
        self.assertEqual(self.costs.read_text(), '{"rannc_profile": 2')

    def test_without_a_file_nothing_is_kept(self):
        self.costs = ""
        self.refuse(2, ["--costs"], "rannc-compile", MODEL, "--loss", LOSS, "--cluster", "local:2", "--costs", "measured:", "--emit", "plan")


if __name__ == "__main__":
    programs.main()
