"""A plan that was saved as text, and perhaps edited by hand, is the plan of a bundle."""
import json
import re

import profiles
import programs

LOSSES = {"small_gpt": "cross_entropy(output=logits,labels=targets)", "small_conv": "cross_entropy(output=logits,labels=y)",
          "small_mlp": "cross_entropy(output=logits,labels=y)"}
# Plans of all kinds: flags beside those of `flags`.
PLANS = {
    "one": ["--cluster", "local:1"],
    "cut": ["--stages", 2, "--micro-batches", 4],
    "gpipe": ["--stages", 2, "--micro-batches", 4, "--schedule", "gpipe", "--recompute", "always"],
    "split backward": ["--stages", 2, "--micro-batches", 4, "--schedule", "zb-h1"],
    "found": ["--stages", 2, "--micro-batches", 4, "--schedule", "found"],
    "warm-up": ["--stages", 2, "--micro-batches", 4, "--schedule", "warmup", "--warm-up", "2,1"],
    "shared devices": ["--stages-per-device", 2, "--stages", 4, "--micro-batches", 4, "--schedule", "interleaved"],
    "replicas": ["--cluster", "local:3", "--stages", 2, "--replicas", "2,1", "--micro-batches", 2],
    "sharded": ["--cluster", "local:3", "--stages", 2, "--replicas", "2,1", "--micro-batches", 2, "--shard-optimizer", "on"],
    "by hand": ["--stages", 2, "--micro-batches", 2, "--schedule", "table", "--schedule-file", "rows.txt"],
    "in part": ["--stages", 2, "--micro-batches", 4, "--recompute", "selective"],
}
# Of their flags, those that a saved plan does not decide.
KEPT = {"one": ["--cluster", "local:1"], "replicas": ["--cluster", "local:3"], "sharded": ["--cluster", "local:3"],
        "in part": ["--recompute", "selective"]}


def lines(text, word):
    return re.findall(f"^{word} .*$", text, re.MULTILINE)


def tasks_of(line):
    """The numbers of `tasks [#0-#4,#7]`."""
    ranges = re.findall(r"#(\d+)(?:-#(\d+))?", line)
    return [number for first, last in ranges for number in range(int(first), int(last or first) + 1)]


def with_tasks(line, numbers):
    return re.sub(r"tasks \[.*?\]", f"tasks [{','.join(f'#{number}' for number in sorted(numbers))}]", line)


def rows(text):
    return text[text.index("\nschedule "):]


def without_reasons(text):
    """A plan's text without the comments that state why its search cut there."""
    return re.sub(r"^// @s.*\n", "", text, flags=re.MULTILINE)


class SavedPlanTest(programs.ProgramTest):
    def flags(self, name="small_gpt"):
        return [programs.DATA / name / "model.onnx", "--loss", LOSSES[name], "--costs", "analytic", "--memory", "1GiB", "--optimizer", "sgd"]

    def saved(self, name, *flags):
        rows = self.scratch / "rows.txt"
        rows.write_text("0: F0.0 F0.1 B0.1 B0.0\n1: F1.0 F1.1 B1.1 B1.0\n")
        flags = [rows if flag == "rows.txt" else flag for flag in flags]
        return self.succeed("rannc-compile", *self.flags(name), "--mini-batch", 8, "--emit", "plan", *flags).stdout

    def again(self, *flags, name="small_gpt"):
        """Flags that take a saved plan."""
        return [*self.flags(name)[:-2], *flags]

    def file(self, text):
        path = self.scratch / "plan.rir"
        path.write_text(text)
        return path

    def losses(self, bundle):
        log = bundle.with_suffix(".log")
        self.succeed("rannc-run", bundle, "-o", bundle.with_suffix(".run"), "--steps", 3, "--loss-log", log, "--data",
                     programs.DATA / "small_gpt" / "batch.safetensors")
        return [line.split()[1] for line in log.read_text().splitlines()]


class RoundTrips(SavedPlanTest):
    def test_a_plan_that_is_not_edited_stays(self):
        for name in LOSSES:
            for what, flags in PLANS.items():
                with self.subTest(model=name, plan=what):
                    text = self.saved(name, *flags)
                    again = self.succeed("rannc-compile", *self.again(name=name), *KEPT.get(what, []), "--plan", self.file(text),
                                         "--emit", "plan").stdout
                    self.assertEqual(again, without_reasons(text))

    def test_it_is_explained(self):
        path = self.file(self.saved("small_gpt", *PLANS["cut"]))
        done = self.succeed("rannc-compile", *self.again(), "--plan", path, "-o", self.scratch / "told.rannc", "--explain")
        self.assertRegex(done.stdout, r"(?m)^bottleneck: stage \d")
        self.assertRegex(done.stdout, r"(?m)^lower bound for these blocks [\d.]+ ms")

    def test_its_bundle_trains_to_the_bit(self):
        flags = PLANS["cut"]
        own, saved = self.scratch / "own.rannc", self.scratch / "saved.rannc"
        self.succeed("rannc-compile", *self.flags(), "--mini-batch", 8, *flags, "-o", own)
        text = self.saved("small_gpt", *flags)
        self.succeed("rannc-compile", *self.again(), "--plan", self.file(text), "-o", saved)
        self.assertEqual((saved / "plan.rir").read_text(), without_reasons((own / "plan.rir").read_text()))
        self.assertEqual(self.losses(saved), self.losses(own))

    def test_measured_kernels_are_those_of_the_plan(self):
        model = [*self.flags("small_conv")[:3], "--memory", "1GiB"]
        text = self.succeed("rannc-compile", *model, "--emit", "plan", "--mini-batch", 8).stdout
        again = self.succeed("rannc-compile", *model, "--plan", self.file(text), "--emit", "plan").stdout
        tasks = [re.findall(r"^#.*$", each, re.MULTILINE) for each in (text, again)]
        self.assertEqual(*tasks)


class Edited(SavedPlanTest):
    """The small GPT in two stages."""

    def setUp(self):
        super().setUp()
        self.text = without_reasons(self.saved("small_gpt", *PLANS["cut"]))

    def compiled(self, text, name):
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", *self.again(), "--plan", self.file(text), "-o", bundle)
        return bundle

    def moved(self, count):
        """The text with the last tasks of the first stage in the second."""
        first, second = lines(self.text, "stage")
        constant = tasks_of(lines(self.text, "constant_tasks")[0])
        going = [task for task in tasks_of(first) if task not in constant][-count:]
        text = self.text.replace(first, with_tasks(first, set(tasks_of(first)) - set(going)))
        return text.replace(second, with_tasks(second, {*tasks_of(second), *going}))

    def test_tasks_move(self):
        whole = self.losses(self.compiled(self.text, "whole"))
        text = self.moved(3)
        bundle = self.compiled(text, "moved")
        plan = (bundle / "plan.rir").read_text()
        self.assertEqual(*([tasks_of(line) for line in lines(each, "stage")] for each in (plan, text)))
        self.assertNotEqual(lines(plan, "stage"), lines(self.text, "stage"))
        self.assertNotEqual(lines(plan, "route"), lines(self.text, "route"))
        for own, other in zip(self.losses(bundle), whole, strict=True):
            self.assertAlmostEqual(float.fromhex(own), float.fromhex(other), delta=1e-5)

    def test_what_follows_may_be_deleted(self):
        derived = r"^(route|share|time|begin|finish|predict|block|step_ns) .*\n"
        text = re.sub(derived, "", self.text, flags=re.MULTILINE)
        self.assertNotEqual(text, self.text)
        again = self.succeed("rannc-compile", *self.again(), "--plan", self.file(text), "--emit", "plan").stdout
        blocks = r"^block .*\n"
        self.assertEqual(re.sub(blocks, "", again, flags=re.MULTILINE), re.sub(blocks, "", self.text, flags=re.MULTILINE))

    def test_rows_change(self):
        other = self.saved("small_gpt", "--stages", 2, "--micro-batches", 4, "--schedule", "gpipe")
        text = self.text.replace(rows(self.text), rows(other).replace("schedule gpipe", "schedule mine"))
        plan = (self.compiled(text, "rows") / "plan.rir").read_text()
        computed = lambda text: [re.findall(r"\b[FBIWR]\d\S*", row) for row in rows(text).splitlines()[2:]]
        self.assertEqual(computed(plan), computed(other))
        self.assertNotEqual(computed(plan), computed(self.text))
        self.assertIn("\nschedule mine", plan)

    def test_devices_change(self):
        text = self.text.replace("devices [d0]", "devices [dx]").replace("devices [d1]", "devices [d0]").replace("devices [dx]", "devices [d1]")
        swapped = rows(text).replace("d0:", "dx:").replace("d1:", "d0:").replace("dx:", "d1:")
        plan = (self.compiled(text.replace(rows(text), swapped), "swapped") / "plan.rir").read_text()
        self.assertEqual([re.search(r"devices \[.*?\]", line)[0] for line in lines(plan, "stage")], ["devices [d1]", "devices [d0]"])

    def refused(self, parts, text, *flags, code=1):
        self.refuse(code, parts, "rannc-compile", *self.again(), "--plan", self.file(text), "-o", self.scratch / "none.rannc", *flags)
        self.assertFalse((self.scratch / "none.rannc").exists())

    def test_wrong_cuts(self):
        first, second = lines(self.text, "stage")
        self.refused(["plan.rir", "P2"], self.text.replace(first, with_tasks(first, [0])))
        swapped = self.text.replace(first, with_tasks(first, tasks_of(second))).replace(second, with_tasks(second, tasks_of(first)))
        self.refused(["plan.rir", "P4"], swapped)
        self.refused(["plan.rir", 'no device "node0/gpu:7"'], self.text.replace('"node0/cpu:1"', '"node0/gpu:7"'))
        self.refused(["plan.rir", "is a plan for inference: the model has a loss"],
                     re.sub(r"^optimizer .*\n", "", self.text.replace("\ntraining ", "\ninference "), flags=re.MULTILINE))
        self.refused(["plan.rir", "P8"], re.sub(r"micro_batches \[.*?\]", "micro_batches [8,8]", self.text))

    def test_stages_that_share_some_devices(self):
        text = self.saved("small_gpt", *PLANS["replicas"])
        second = lines(text, "stage")[1]
        self.refused(["plan.rir", "@s0 and @s1 share some of their devices"], text.replace(second, second.replace("[d2]", "[d1-d2]")),
                     "--cluster", "local:3")

    def test_wrong_rows(self):
        self.refused(["plan.rir", "S"], self.text.replace("F1.0 ", "", 1))
        self.refused(["plan.rir", "P13"], self.text[:self.text.index("\nschedule ") + 1])

    def test_text_that_is_cut_off(self):
        for share in (0.1, 0.5, 0.9):
            self.refused(["plan.rir"], self.text[:int(share * self.text.index("\nschedule "))])
        self.refused(["plan.rir:1", "rannc.plan"], "rannc.graph 1\n")
        self.refused(["plan.rir:1"], self.text.replace("rannc.plan 1", "rannc.plan 99"))

    def test_another_model(self):
        path = self.file(self.text)
        self.refuse(1, ["plan.rir", "another model"], "rannc-compile", *self.again(name="small_mlp"), "--plan", path)
        self.refused(["plan.rir", "other flags", "core."], self.text, "--no-fuse", "gelu,layer-norm")
        other = [word if word != LOSSES["small_gpt"] else "cross_entropy(output=logits,labels=targets,weight=2)" for word in self.again()]
        self.refuse(1, ["plan.rir", "other flags", "losses"], "rannc-compile", *other, "--plan", path)

    def test_other_random_numbers(self):
        flags = ["--dropout", "*=0.1"]
        text = self.saved("small_gpt", *PLANS["cut"], *flags)
        self.assertIn("drop ", text)
        again = self.succeed("rannc-compile", *self.again(), *flags, "--plan", self.file(text), "--emit", "plan").stdout
        self.assertEqual(again, without_reasons(text))
        self.refused(["plan.rir", "other random numbers"], text, "--dropout", "*=0.2")

    def test_another_cluster(self):
        self.refused(["plan.rir", "another cluster", "--memory"], self.text, "--cluster", "local:3")

    def test_demands_beside_the_plan(self):
        for flags in (["--stages", 2], ["--mini-batch", 8], ["--schedule", "gpipe"], ["--optimizer", "adam"], ["--planner", "auto"],
                      ["--blocks", 32], ["--kernels", "measured"], ["--seed", 0]):
            with self.subTest(flags=flags):
                self.refused([f"{flags[0]}: the plan of --plan decides"], self.text, *flags, code=2)
        self.refused(["--recompute: the plan of --plan decides"], self.text, "--recompute", "always", code=2)

    def test_too_little_memory(self):
        """A cut whose second stage holds more than its device does, where the first cut fits."""
        limit = str(max(int(line.split()[-1]) for line in lines(self.text, "predict")) * 21 // 20)
        sized = lambda flags: [limit if word == "1GiB" else word for word in flags]
        self.text = self.succeed("rannc-compile", *sized(self.flags()), "--mini-batch", 8, "--emit", "plan", *PLANS["cut"]).stdout
        path = self.file(self.text)
        self.assertEqual(self.succeed("rannc-compile", *sized(self.again()), "--plan", path, "--emit", "plan").stdout,
                         without_reasons(self.text))
        self.refuse(1, ["plan.rir", "bytes on a device that holds " + limit], "rannc-compile", *sized(self.again()), "--plan",
                    self.file(self.moved(12)))


class OfProfiles(programs.ProgramTest):
    """Stage plans of published profiles."""
    FLAGS = ["--cluster", "dapple-b", "--devices", 4, "--mini-batch", 64]
    # What a plan decides. All else is computed.
    STAGE = ("first", "end", "devices", "recompute")

    def setUp(self):
        super().setUp()
        self.profile = self.scratch / "chain-pbs-4.txt"
        self.profile.write_text(profiles.chain(10))
        self.plan = self.scratch / "plan.json"

    def compiled(self, *flags):
        return json.loads(self.succeed("rannc-compile", self.profile, *self.FLAGS, "--emit", "plan", *flags).stdout)

    def given(self, plan, *flags):
        self.plan.write_text(json.dumps(plan))
        return self.compiled("--plan", self.plan, *flags)

    def decided(self, plan):
        return [{key: stage[key] for key in self.STAGE} for stage in plan["stages"]], plan["micro_batches"], plan["schedule"]

    def test_decisions_stay_and_numbers_are_computed(self):
        late = ["--late-sums"]  # as the paper's formula counts sums
        for flags, beside in (([], []), (["--planner", "gpipe"], []), (["--stages", 2, "--schedule", "gpipe"], []), (["--planner", "dapple"], late)):
            with self.subTest(flags=flags):
                own = self.compiled(*flags)
                found = self.given(own, *beside)
                self.assertEqual(self.decided(found), self.decided(own))
                self.assertEqual(found["planner"], own["planner"])
                self.assertAlmostEqual(found["step_ns"] / own["step_ns"], 1, 14)
                self.assertEqual(self.given(found, *beside), found, "a second time changes nothing")

    def test_numbers_in_the_file_do_not_count(self):
        own = self.given(self.compiled("--stages", 2))
        claims = {**own, "objective": 1, "step_ns": 1, "lower_bound": 1, "bound": "exact"}
        claims["stages"] = [{**stage, "forward_ns": 1, "peak_bytes": 1} for stage in own["stages"]]
        self.assertEqual(self.given(claims), own)

    def test_a_stage_moves(self):
        own = self.compiled("--stages", 2)
        edited = json.loads(json.dumps(own))
        edited["stages"][0]["end"] -= 1
        edited["stages"][1]["first"] -= 1
        found = self.given(edited)
        self.assertEqual(self.decided(found), self.decided(edited))
        self.assertLess(found["stages"][0]["forward_ns"], own["stages"][0]["forward_ns"])
        self.assertGreaterEqual(found["objective"], found["lower_bound"])

    def test_what_does_not_fit_is_refused(self):
        own = self.compiled("--stages", 2)
        gap = {**own, "stages": [{**own["stages"][0], "end": own["stages"][0]["end"] - 1}, own["stages"][1]]}
        for plan, named in [(gap, "V1"), ({**own, "schedule": "mine"}, "unknown schedule 'mine'"), ({**own, "micro_batches": 65}, "V3"),
                            ({**own, "profile_digest": "0" * 16}, "another profile"),
                            ({**own, "cluster_digest": "0" * 16}, "another cluster"),
                            ({**own, "warm_up": [1, 1, 1]}, "3 warm-up depths for 2 stages"), ({}, "format")]:
            with self.subTest(named):
                self.plan.write_text(json.dumps(plan))
                done = self.run_program("rannc-compile", self.profile, *self.FLAGS, "--plan", self.plan)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("plan.json", done.stderr)
                self.assertIn(named, done.stderr)

    def test_what_the_plan_decides_is_no_flag(self):
        self.plan.write_text(json.dumps(self.compiled()))
        done = self.run_program("rannc-compile", self.profile, *self.FLAGS, "--plan", self.plan, "--stages", 2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--stages: the plan of --plan decides", done.stderr)


if __name__ == "__main__":
    programs.main()
