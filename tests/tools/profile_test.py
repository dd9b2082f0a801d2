"""rannc-profile makes a database in which equal tasks and blocks share an entry, and rannc-compile plans with it."""
import json
import os
import re

import programs

LOSS = "--loss=cross_entropy(output=logits,labels=targets)"
TINY = ["--heads", "2", "--vocabulary", "64", "--context", "16"]
QUICK = ["--sizes", "1,2", "--repeat", "1"]


class ProfileTest(programs.ProgramTest):
    def gpt(self, layers, width=32):
        path = self.scratch / f"gpt{layers}x{width}.onnx"
        if not path.exists():
            self.succeed("rannc-zoo", "gpt", "--layers", layers, "--width", width, *TINY, "-o", path)
        return path

    def profile(self, database, *arguments):
        return self.succeed("rannc-profile", *arguments, "--database", self.scratch / database)

    def read(self, database):
        return json.loads((self.scratch / database).read_text())

    def the_environment(self, database):
        (environment,) = self.read(database)["environments"]
        return environment

    def test_depth_adds_no_entries(self):
        """R7: a model of 96 layers measures exactly the entries of one of 8, which has first, inner and last blocks as well."""
        self.profile("8.json", self.gpt(8), LOSS, *QUICK)
        self.profile("96.json", self.gpt(96), LOSS, *QUICK)
        few, many = self.read("8.json"), self.read("96.json")
        environment = self.the_environment("8.json")
        for section in ("tasks", "blocks"):
            self.assertEqual(list(few[section][environment]), list(many[section][environment]), section)
        again = self.profile("8.json", self.gpt(96), LOSS, *QUICK)
        self.assertIn(" 0 entries measured", again.stdout)
        self.profile("8.json", self.gpt(8, width=64), LOSS, *QUICK)
        self.assertGreater(len(self.read("8.json")["tasks"][environment]), len(few["tasks"][environment]))

    def test_second_run_measures_nothing_and_leaves_the_file(self):
        self.profile("p.json", self.gpt(2), LOSS, *QUICK)
        before = (self.scratch / "p.json").read_bytes()
        stamp = os.stat(self.scratch / "p.json").st_mtime_ns
        again = self.profile("p.json", self.gpt(2), LOSS, *QUICK)
        self.assertIn(" 0 entries measured", again.stdout)
        self.assertEqual((self.scratch / "p.json").read_bytes(), before)
        self.assertEqual(os.stat(self.scratch / "p.json").st_mtime_ns, stamp)
        more = self.profile("p.json", self.gpt(2), LOSS, "--sizes", "1,2,4", "--repeat", "1")
        self.assertNotIn(" 0 entries measured", more.stdout)
        old, new = json.loads(before), self.read("p.json")
        environment = self.the_environment("p.json")
        for key, curve in old["tasks"][environment].items():
            self.assertEqual(list(new["tasks"][environment][key]), ["1", "2", "4"])
            self.assertLessEqual(curve.keys(), new["tasks"][environment][key].keys())

    def test_gradients_are_measured_apart_and_times_do_not_fall(self):
        self.profile("p.json", self.gpt(4), LOSS, "--sizes", "1,2,8", "--repeat", "3", "--blocks", "2")
        database = self.read("p.json")
        environment = self.the_environment("p.json")
        products = [curve for key, curve in database["tasks"][environment].items()
                    if key.startswith("core.linear") and " g:" in key and " p:" in key]
        self.assertTrue(products)
        for curve in products:
            for cost in curve.values():
                for part in ("forward_ns", "input_gradient_ns", "weight_gradient_ns", "together_ns"):
                    self.assertGreater(cost[part], 0)
        for curve in database["tasks"][environment].values():
            for part in ("forward_ns", "input_gradient_ns", "weight_gradient_ns", "together_ns"):
                times = [curve[size].get(part, 0) for size in ("1", "2", "8")]
                self.assertEqual(times, sorted(times))
        self.assertEqual(len(database["blocks"][environment]), 2)
        for curve in database["blocks"][environment].values():
            for cost in curve.values():
                for side in ("measured", "summed"):
                    self.assertGreater(cost[side]["forward_ns"], 0)
                    self.assertGreater(cost[side]["saved_bytes"], 0)

    def test_compile_plans_with_it_and_says_what_it_lacks(self):
        cluster = self.scratch / "this.toml"
        self.profile("p.json", self.gpt(2), LOSS, "--mini-batch", "4", "--repeat", "1", "--links", "--collectives",
                     "--cluster", cluster)
        plan = [self.gpt(2), LOSS, "--mini-batch", "4", "--stages", "2", "--emit=plan", "--costs",
                self.scratch / "p.json"]
        first = self.succeed("rannc-compile", *plan)
        self.assertEqual(first.stdout, self.succeed("rannc-compile", *plan).stdout)
        self.assertNotIn("not measured", first.stderr)
        self.succeed("rannc-compile", *plan, "--cluster", cluster)
        # Both describe two workers of this machine.
        memory = re.search(r"memory_bytes = (\d+)", cluster.read_text())[1]
        local = self.succeed("rannc-compile", *plan, "--cluster", "local:2").stdout
        self.assertIn(f"memory_bytes {memory}", local)
        names = self.read("p.json")["exchanges"][self.the_environment("p.json")]
        self.assertEqual(sorted(names), [f"{transport}.{what}" for transport in ("gloo", "local", "shm")
                                         for what in ("all-gather", "all-reduce", "message")])
        self.assertEqual(list(names["gloo.all-reduce"]), ["2", "4"])
        lacking = self.succeed("rannc-compile", self.gpt(2, width=64), *plan[1:])
        self.assertRegex(lacking.stderr, r"of \d+ distinct tasks, \d+ have no measurement")
        elsewhere = self.scratch / "elsewhere.json"
        elsewhere.write_text((self.scratch / "p.json").read_text().replace(
            json.dumps(self.the_environment("p.json")), '"another machine"'))
        foreign = self.succeed("rannc-compile", *plan[:-1], elsewhere)
        self.assertIn("the file has measurements for 'another machine'", foreign.stderr)

    def test_damaged_databases_are_refused_and_left(self):
        self.profile("p.json", self.gpt(2), LOSS, *QUICK)
        whole = (self.scratch / "p.json").read_text()
        cases = {"truncated": (whole[:len(whole) // 2], "ends in the middle"),
                 "foreign": ("{}", "not a profile database"),
                 "old": ('{"rannc_profile": 1, "entries": {}}', "version 1"),
                 "negative": (whole.replace('"forward_ns": ', '"forward_ns": -', 1), "expected a number from 0"),
                 "nan": (whole.replace('"forward_ns": ', '"forward_ns": NaN', 1), "not JSON"),
                 "twice": (whole.replace('"tasks": {', '"tasks": {}, "tasks": {', 1), "occurs twice")}
        for name, (text, message) in cases.items():
            path = self.scratch / name
            path.write_text(text)
            for command in (["rannc-profile", self.gpt(2), LOSS, "--database", path],
                            ["rannc-compile", self.gpt(2), LOSS, "--costs", path, "--emit=plan"]):
                with self.subTest(name, program=command[0]):
                    self.refuse(1, [str(path), message], *command)
                    self.assertEqual(path.read_text(), text)

    def test_needs_something_to_measure_and_a_place_for_it(self):
        self.refuse(2, ["--database"], "rannc-profile", self.gpt(2))
        self.refuse(1, ["nothing to measure"], "rannc-profile", "--database", self.scratch / "p.json")
        self.refuse(1, ["none.onnx"], "rannc-profile", "none.onnx", "--database", self.scratch / "p.json")
        self.refuse(2, ["--sizes"], "rannc-profile", self.gpt(2), "--sizes", "0", "--database", "p.json")
        self.refuse(1, ["cannot write"], "rannc-profile", self.gpt(2), *QUICK, "--database",
                    self.scratch / "absent" / "p.json")
        self.assertFalse((self.scratch / "p.json").exists())


if __name__ == "__main__":
    programs.main()
