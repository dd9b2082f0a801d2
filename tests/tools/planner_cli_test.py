"""What a user may demand of a plan is what he gets: of published profiles, of placement graphs, and of models."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import profiles
import programs
import small_onnx as onnx

KEYS = {"planner", "objective_name", "objective", "lower_bound", "bound", "gap", "seconds", "exact", "stages", "micro_batches", "schedule",
        "runners_up", "warnings"}
STAGE_KEYS = {"blocks", "devices", "forward_ns", "backward_ns", "all_reduce_ns", "peak_bytes", "recompute"}
INTERRUPTED = 130
MLP = programs.DATA / "small_mlp" / "model.onnx"
MLP_LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"
SPLIT_TOLERANCE = 1e-6  # of the published optima, which are rounded


class PlannerTest(programs.ProgramTest):
    def write(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def setUp(self):
        super().setUp()
        self.profile = self.write("chain-pbs-4.txt", profiles.chain(10))

    BASE = ("--cluster", "dapple-b", "--devices", 4, "--mini-batch", 32)

    def compile(self, *flags, file=None, base=BASE):
        return self.succeed("rannc-compile", file or self.profile, *base, *flags)

    def summary(self, *flags, **options):
        done = self.compile("--summary=json", *flags, **options)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, done.stdout)
        return json.loads(lines[0])

    def stages(self, *flags, **options):
        return [tuple(stage["blocks"]) for stage in self.summary(*flags, **options)["stages"]]


class Profiles(PlannerTest):
    def test_summary(self):
        found = self.summary()
        self.assertLessEqual(KEYS, set(found))
        for stage in found["stages"]:
            self.assertLessEqual(STAGE_KEYS, set(stage))
        self.assertGreater(found["lower_bound"], 0)
        self.assertLessEqual(found["lower_bound"], found["objective"] * (1 + 1e-9))
        self.assertAlmostEqual(found["gap"], found["objective"] / found["lower_bound"] - 1)
        self.assertEqual(found["exact"], found["gap"] < 1e-9)
        self.assertEqual(found["exact"], not any("not proved optimal" in warning for warning in found["warnings"]))
        self.assertEqual([stage["blocks"][0] for stage in found["stages"][1:]], [stage["blocks"][1] for stage in found["stages"][:-1]])
        self.assertEqual((found["stages"][0]["blocks"][0], found["stages"][-1]["blocks"][1]), (0, 10))
        for other in found["runners_up"]:
            self.assertLessEqual({"what", "objective", "why"}, set(other))

    def test_samples_of_a_profile_are_named_or_assumed_aloud(self):
        unnamed = self.write("chain.txt", profiles.chain(10))
        assumed, told = self.summary(file=unnamed), self.summary("--profile-batch", 4, file=unnamed)
        self.assertTrue(any("--profile-batch" in warning for warning in assumed["warnings"]), assumed["warnings"])
        for found in (told, self.summary(), self.summary("--mini-batch", 1, file=unnamed, base=("--cluster", "dapple-b")),
                      self.summary("--objective", "load", file=unnamed)):
            self.assertFalse(any("--profile-batch" in warning for warning in found["warnings"]), found["warnings"])
        self.assertEqual(told["objective"], self.summary()["objective"])
        self.assertGreater(assumed["objective"], 2 * told["objective"])

    def test_warns_of_lost_exactness_alone(self):
        """What only describes the plan is in --explain."""
        done = self.compile("--planner", "dapple-released", "--explain")
        self.assertNotIn("estimate", done.stderr)
        self.assertRegex(done.stdout, r"note: speedup [0-9.]+ by the released program's estimate")
        split = self.succeed("rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--cluster", "local:2", "--costs", "analytic", "--blocks", 4,
                             "--stages", 2, "--emit=plan", "--explain")
        self.assertIn("note: splitting the blocks beside the cuts, ", split.stderr)
        self.assertNotIn("warning: splitting", split.stderr)

    def test_text_says_bound_and_gap(self):
        self.assertRegex(self.compile().stdout, r"no plan is below [0-9.]+ ms \(.+\): gap [0-9.]+ %")

    def test_every_planner(self):
        for planner in ("auto", "rannc", "dapple", "pipedream", "gpipe", "gpipe-exact"):
            with self.subTest(planner=planner):
                found = self.summary("--planner", planner)
                self.assertEqual(found["planner"], planner)
                self.assertGreater(found["step_ns"], 0)

    def test_same_bytes(self):
        runs = []
        for run in range(2):
            path = self.scratch / f"plan{run}.json"
            done = programs.run("rannc-compile", self.profile, *self.BASE, "-o", path, "--summary=json")
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append((path.read_bytes(), re.sub(r'"seconds":[^,]+', "", done.stdout)))
        self.assertEqual(runs[0], runs[1])
        self.assertNotIn(b"seconds", runs[0][0])

    def test_plan_file_is_what_emit_prints(self):
        path = self.scratch / "plan.json"
        self.compile("-o", path)
        self.assertEqual(path.read_text(), self.compile("--emit=plan").stdout)
        self.refuse(1, ["exists already", "--replace"], "rannc-compile", self.profile, "-o", path)
        self.compile("-o", path, "--replace")

    def test_staged_profile_is_read_again(self):
        staged = self.scratch / "staged-pbs-4.txt"
        stages = self.stages("-o", staged, "--stages", 3)
        numbers = [int(number) for number in re.findall(r"^node\d+ -- .* -- stage_id=(\d+)$", staged.read_text(), re.MULTILINE)]
        expected = [0] + [number for number, (first, end) in enumerate(stages) for _ in range(first, end)]
        self.assertEqual(numbers, expected, "the input and every layer")
        self.assertEqual(self.stages("--stages", 3, file=staged), stages)

    def test_blocks_and_schedule(self):
        blocks = self.compile("--emit=blocks").stdout
        self.assertEqual(blocks.count("\nblock @b"), 10)
        self.assertIn("Layer_5", blocks)
        rows = self.compile("--emit=schedule", "--stages", 2, "--micro-batches", 4, "--schedule", "1f1b").stdout
        self.assertIn("schedule 1f1b", rows)
        self.assertRegex(rows, r"d1: F1\.0 B1\.0 F1\.1 B1\.1")
        rows = self.compile("--emit=schedule", "--stages", 4, "--micro-batches", 4, "--schedule", "zb-v").stdout
        self.assertIn("// row d0: stages 0 and 3 on ", rows)
        self.assertRegex(rows, r"d1: F1\.0 .*F2\.0")

    def test_profile_batch(self):
        step = self.summary()["step_ns"]
        other = self.write("chain.txt", self.profile.read_text())
        self.assertAlmostEqual(self.summary("--profile-batch", 4, file=other)["step_ns"], step)
        self.assertGreater(self.summary(file=other)["step_ns"], step, "measured at 1, it is four times as slow")

    def test_disconnected_graph_is_told(self):
        text = profiles.chain(6) + profiles.node(20, "Lonely")
        found = self.compile("--summary=json", file=self.write("parts.txt", text))
        self.assertIn("the graph has 2 unconnected parts", found.stderr)
        self.assertIn("node20", json.loads(found.stdout)["warnings"][0])

    def test_explain(self):
        text = self.compile("--explain").stdout
        for part in ("bottleneck: stage", "lower bound", "gap", "lost: ", "what would help:", "twice the memory: ", "links twice as fast: ",
                     "one more device: ", "Layer_"):
            self.assertIn(part, text)
        self.assertRegex(text, r"one more device: [0-9.]+ ms \([+-][0-9.]+ %\)")


class Demands(PlannerTest):
    def test_stages_replicas_and_devices(self):
        self.assertEqual(len(self.stages("--stages", 3)), 3)
        self.assertLessEqual(len(self.stages("--max-stages", 2)), 2)
        found = self.summary("--replicas", "2,1,1")
        self.assertEqual([len(stage["devices"]) for stage in found["stages"]], [2, 1, 1])
        used = {device for stage in self.summary("--devices", 2, base=("--cluster", "dapple-b"))["stages"] for device in stage["devices"]}
        self.assertLessEqual(len(used), 2)

    def test_pins(self):
        first, second = self.stages("--stages", 2, "--pin", "node9=0")
        self.assertGreater(first[1], 7, "node9 is block 7")
        first, second = self.stages("--stages", 2, "--pin", "Layer_3=1")
        self.assertLessEqual(second[0], 1)
        first, second, third = self.stages("--stages", 3, "--pin", "Layer_1?=2")
        self.assertLessEqual(third[0], 8, "Layer_10 is block 8")

    def test_together(self):
        for stages in (2, 3):
            for first, end in self.stages("--stages", stages, "--together", "node4,node8")[:-1]:
                self.assertFalse(2 < end <= 6, f"a cut after block {end - 1} parts node4 and node8")

    def test_micro_batches_and_schedule(self):
        self.assertIn(self.summary("--micro-batches", "2,4")["micro_batches"], (2, 4))
        for schedule in ("gpipe", "1f1b", "dapple-b"):
            self.assertEqual(self.summary("--stages", 2, "--schedule", schedule)["schedule"], schedule)
        self.assertIn(self.summary("--stages", 2, "--schedule", "gpipe,1f1b")["schedule"], ("gpipe", "1f1b"))

    def test_memory_and_recompute(self):
        free = max(stage["peak_bytes"] for stage in self.summary()["stages"])
        limit = int(free * 0.8)
        self.assertLessEqual(max(stage["peak_bytes"] for stage in self.summary("--memory", limit)["stages"]), limit)
        self.assertTrue(all(stage["recompute"] for stage in self.summary("--recompute", "always")["stages"]))
        self.assertFalse(any(stage["recompute"] for stage in self.summary("--recompute", "never")["stages"]))

    def test_objectives(self):
        plans = {objective: self.summary("--objective", objective) for objective in ("step", "period", "load", "memory")}
        self.assertEqual(len({plan["objective_name"] for plan in plans.values()}), 4)
        peaks = {objective: max(stage["peak_bytes"] for stage in plan["stages"]) for objective, plan in plans.items()}
        self.assertEqual(plans["memory"]["objective"], peaks["memory"])
        for objective, plan in plans.items():
            self.assertLessEqual(plan["lower_bound"], plan["objective"] * (1 + 1e-9))
            self.assertGreaterEqual(plan["step_ns"], plans["step"]["step_ns"] * (1 - 1e-9), objective)
            self.assertGreaterEqual(peaks[objective], peaks["memory"] * (1 - 1e-9), objective)

    def test_memory_under_a_step_limit(self):
        fastest = self.summary()["step_ns"]
        limit = fastest * 1.3
        found = self.summary("--objective", "memory", "--step-limit", f"{limit:.0f}ns")
        self.assertLessEqual(found["step_ns"], limit)
        self.refuse(1, ["there is no plan", "the fastest plan"], "rannc-compile", self.profile, "--cluster", "dapple-b", "--devices", 4,
                    "--mini-batch", 32, "--step-limit", f"{fastest / 100:.0f}ns")

    def test_budget_that_ends_is_told(self):
        large = self.write("large-pbs-4.txt", profiles.chain(60))
        base = ("--cluster", "dapple-b", "--devices", 8, "--mini-batch", 32, "--search-budget", 50)
        done = self.compile("--summary=json", file=large, base=base)
        self.assertTrue(json.loads(done.stdout)["warnings"])
        self.assertIn("warning: ", done.stderr)

    def test_time_limit_is_told(self):
        # With this budget the search would go on for hours.
        large = self.write("large-pbs-4.txt", profiles.chain(120))
        base = ("--cluster", "dapple-a", "--mini-batch", 1024, "--search-budget", 10**12)
        done = self.compile("--summary=json", "--time-limit", "50ms", file=large, base=base)
        self.assertIn("warning: ", done.stderr)
        self.assertTrue(any("--time-limit" in warning for warning in json.loads(done.stdout)["warnings"]))


class Interrupts(PlannerTest):
    """Ctrl-C while the search runs, which it would for hours."""

    def start(self, output):
        large = self.write("large-pbs-4.txt", profiles.chain(120))
        command = [programs.program("rannc-compile"), large, "--cluster", "dapple-a", "--mini-batch", "1024", "--search-budget", str(10**12),
                   "-o", output, "--summary=json"]
        running = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + programs.HANG_SECONDS
        # Once it handles the signal the search has begun.
        while running.poll() is None and time.monotonic() < limit and not self.status(running.pid, "SigCgt"):
            time.sleep(0.001)
        return running

    @staticmethod
    def status(pid, field):
        """Whether SIGINT is in that set of the process's signals."""
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return bool(int(re.search(rf"{field}:\s*(\w+)", text).group(1), 16) >> (signal.SIGINT - 1) & 1)

    def finish(self, running):
        try:
            return running.communicate(timeout=programs.HANG_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            self.fail("the search does not stop")

    def test_once_goes_on_with_the_best_plan_so_far(self):
        output = self.scratch / "plan.json"
        running = self.start(output)
        running.send_signal(signal.SIGINT)
        text, errors = self.finish(running)
        self.assertEqual(running.returncode, 0, errors)
        found = json.loads(text)
        self.assertLessEqual(found["lower_bound"], found["objective"] * (1 + 1e-9))
        self.assertIsNotNone(found["gap"])
        self.assertTrue(any("interrupted" in warning for warning in found["warnings"]), found["warnings"])
        self.assertIn("interrupted", errors)
        self.assertTrue(json.loads(output.read_text())["stages"])

    def test_twice_gives_up(self):
        codes = set()
        for attempt in range(20):
            output = self.scratch / f"plan{attempt}.json"
            running = self.start(output)
            running.send_signal(signal.SIGINT)
            while running.poll() is None and self.status(running.pid, "ShdPnd"):
                pass  # a second one beside one that waits would be lost
            running.send_signal(signal.SIGINT)
            self.finish(running)
            codes.add(running.returncode)
            # The search may have ended between the two; then the second ends the program while it writes, or not at all.
            self.assertIn(running.returncode, (0, INTERRUPTED, -signal.SIGINT))
            if output.exists():
                self.assertTrue(json.loads(output.read_text())["stages"], "whole or absent")
            self.assertTrue(output.exists() or running.returncode != 0)
            self.assertFalse(list(self.scratch.glob("*.partial-*")))
            if INTERRUPTED in codes:
                return
        self.fail(f"never ended with {INTERRUPTED}: {codes}")


class Placements(PlannerTest):
    def split(self, file, *flags):
        return json.loads(self.succeed("rannc-compile", file, "--summary=json", *flags).stdout)

    def test_chain(self):
        file = self.write("graph.json", profiles.placement([4, 3, 2, 1]))
        found = self.split(file)
        self.assertLessEqual(KEYS - {"micro_batches", "schedule"}, set(found))
        self.assertAlmostEqual(found["objective"], 6.5, msg="4 | 3 2 1 with one message of 0.5")
        self.assertTrue(found["exact"])
        self.assertAlmostEqual(self.split(file, "--devices", 1)["objective"], 10)
        self.assertAlmostEqual(self.split(file, "--devices", 4)["objective"], 4.5)

    def test_file_of_the_split(self):
        file = self.write("graph.json", profiles.placement([4, 3, 2, 1]))
        self.split(file, "-o", self.scratch / "split.json")
        split = json.loads((self.scratch / "split.json").read_text())
        self.assertEqual([(entry["id"], entry["device"]) for entry in split["nodes"]], [(0, 0), (1, 1), (2, 1), (3, 1)])
        self.assertEqual(self.succeed("rannc-compile", file, "--emit=plan").stdout, (self.scratch / "split.json").read_text())

    def test_explain(self):
        text = self.succeed("rannc-compile", self.write("graph.json", profiles.placement([4, 3, 2, 1])), "--explain").stdout
        for part in ("bottleneck: device 1", "one more device: ", "links twice as fast: ", "twice the memory: ", "gap"):
            self.assertIn(part, text)

    def test_published_optima(self):
        models = programs.shared_models()
        if models is None:
            self.skipTest("the shared folder is absent")
        folder = models.parent / "placement"
        for name, optimum in [("layer/bert24_training", 41.7458125), ("layer/resnet50_inference", 34.2228516), ("operator/resnet50_training", 263.0352886)]:
            found = self.split(folder / f"{name}.json")
            self.assertAlmostEqual(found["objective"], optimum, delta=SPLIT_TOLERANCE * optimum)
            self.assertTrue(found["exact"], name)


class Models(PlannerTest):
    FLAGS = ("--cluster", "local:2", "--mini-batch", 8, "--micro-batches", 2, "--loss", MLP_LOSS, "--costs", "analytic")

    def model(self, *flags):
        return self.succeed("rannc-compile", MLP, *self.FLAGS, *flags)

    def test_summary(self):
        found = json.loads(self.model("--emit=plan", "--summary=json", "--stages", 2).stdout.splitlines()[-1])
        self.assertLessEqual(KEYS, set(found))
        self.assertEqual(found["micro_batches"], 2)
        self.assertGreater(found["stages"][0]["tasks"], 0)
        self.assertEqual(found["unused_devices"], [])
        self.assertGreaterEqual(found["step_ns"], found["step_lower_bound_ns"])

    def test_schedule_by_hand(self):
        table = self.write("table.txt", "# a fill and a drain\nd0: F0.0 F0.1 B0.0 B0.1\nd1: F1.0 F1.1 B1.0 B1.1\n")
        flags = ("--stages", 2, "--emit=schedule", "--schedule", "table", "--schedule-file", table)
        rows = self.model(*flags).stdout
        self.assertLess(rows.index("F1.1"), rows.index("B1.0"))
        table.write_text("".join(f"d{d}: " + " ".join(f"F{s}.{j}" for j in (0, 1) for s in (d, 3 - d)) + " " +
                                 " ".join(f"B{s}.{j}" for j in (0, 1) for s in (3 - d, d)) + "\n" for d in (0, 1)))
        found = self.model(*flags[2:], "--stages-per-device", 2, "--stages", 4).stdout
        self.assertRegex(found, r"d0: F0\.0 .*F3\.0 .*B3\.0 .*B0\.0")
        table.write_text("d0: F0.0 F0.1 B0.0 B0.1\nd1: F1.0 Q1.1 B1.0 B1.1\n")
        self.refuse(1, ["table.txt:2", "Q1.1"], "rannc-compile", MLP, *self.FLAGS, *flags)
        table.write_text("d0: F0.0 F0.1 B0.0 B0.1\nd1: F1.0 B1.0 F1.1\n")
        self.refuse(1, ["table.txt", "S6", "B0.1"], "rannc-compile", MLP, *self.FLAGS, *flags)
        table.write_text("F0 [F0 B0]* B0  # a pattern\n[F1 B1]*\n")
        lowered = self.model(*flags).stdout
        self.assertRegex(lowered, r"d0: F0\.0 .*F0\.1 .*B0\.0 .*B0\.1")
        table.write_text(lowered)
        self.assertEqual(self.model(*flags).stdout, lowered)
        table.write_text("# lowered\n" + lowered.replace(" S0", ""))
        self.refuse(1, ["table.txt:3", "S10"], "rannc-compile", MLP, *self.FLAGS, *flags)
        table.write_text("F0 [F0 B0]* B0\n[F1 B1\n")
        self.refuse(1, ["table.txt:2:1", "has no end"], "rannc-compile", MLP, *self.FLAGS, *flags)

    def test_plans_state_why_each_cut_is_where_it_is(self):
        """In comments before all stages but the first, in the text and in the bundle; without them the plan is the same."""
        bundle = self.scratch / "reasons.rannc"
        flags = ["--loss", MLP_LOSS, "--cluster", "local:3", "--stages", 3, "--costs", "analytic"]
        text = self.succeed("rannc-compile", MLP, *flags, "--emit=plan").stdout
        self.succeed("rannc-compile", MLP, *flags, "-o", bundle)
        reason = r"^// (@s\d) receives \d+ values?, \S+ bytes a micro-batch; cut after block \d+: one block earlier .+, one block later .+\nstage (@s\d) "
        for plan in (text, (bundle / "plan.rir").read_text()):
            self.assertEqual(re.findall(reason, plan, re.MULTILINE), [("@s1", "@s1"), ("@s2", "@s2")])
        plain = self.write("plain.rir", re.sub(r"^// @s.*\n", "", text, flags=re.MULTILINE))
        again = self.succeed("rannc-opt", plain).stdout
        self.assertEqual(again, self.succeed("rannc-opt", self.write("commented.rir", text)).stdout)

    def test_pin_and_together_by_name(self):
        flags = ("--emit=plan", "--summary=json", "--stages", 2, "--blocks", 64)
        tasks = [stage["tasks"] for stage in json.loads(self.model(*flags, "--pin", "node_relu=1").stdout.splitlines()[-1])["stages"]]
        self.assertEqual(tasks[0], 1, "only the first layer's product comes before its relu")
        self.refuse(1, ["no task or module is called 'absent'"], "rannc-compile", MLP, *self.FLAGS, "--stages", 2, "--pin", "absent=0")
        tasks = [stage["tasks"] for stage in json.loads(self.model(*flags, "--together", "node_relu,node_*_3").stdout.splitlines()[-1])["stages"]]
        self.assertIn(1, tasks, "what is left is the first task or the last")

    def test_pin_together_and_explain_by_module(self):
        model, names = self.scratch / "modules.onnx", ["x", "a", "b", "c", "z"]
        paths = ["/enc/layers.0/Relu", "/enc/layers.1/Tanh", "/dec/layers.0/Relu", "/dec/layers.1/Tanh"]
        onnx.write(model, [onnx.node(path.split("/")[-1], [names[i]], [names[i + 1]], path) for i, path in enumerate(paths)], [],
                   [onnx.value("x", onnx.FLOAT, ["batch", 4])], [onnx.value("z", onnx.FLOAT, ["batch", 4])])
        flags = ("--cluster", "local:2", "--costs", "analytic", "--emit=plan", "--summary=json", "--explain", "--stages", 2)
        for more, tasks, shown in ((["--pin", "enc.layers.1=1"], [1, 3], "(enc.layers.1 … dec.layers.1)"),
                                   (["--pin", "dec=1", "--pin", "enc.layers.?=0"], [2, 2], "(dec.layers.0 … dec.layers.1)"),
                                   (["--together", "enc.layers.0,dec.layers.0"], [3, 1], "(dec.layers.1)")):
            done = self.succeed("rannc-compile", model, *flags, *more)
            self.assertEqual([stage["tasks"] for stage in json.loads(done.stdout.splitlines()[-1])["stages"]], tasks, more)
            self.assertIn(f"{shown} on device 1", done.stderr)

    def test_objective_and_limit(self):
        for objective in ("period", "load", "memory"):
            found = json.loads(self.model("--emit=plan", "--summary=json", "--objective", objective).stdout.splitlines()[-1])
            self.assertLessEqual(found["lower_bound"], found["objective"] * (1 + 1e-9), objective)

    def test_what_is_emitted_goes_to_the_file_of_output(self):
        for kind in ("graph", "atoms", "blocks", "plan", "schedule"):
            path = self.scratch / f"{kind}.txt"
            self.assertEqual(self.model(f"--emit={kind}", "-o", path).stdout, "")
            self.assertEqual(path.read_text(), self.model(f"--emit={kind}").stdout)
        self.refuse(1, ["exists already", "--replace"], "rannc-compile", MLP, "--emit=plan", "-o", path)

    def test_names_and_version_need_no_model(self):
        self.assertIn("dapple-released", self.succeed("rannc-compile", "--list", "planner").stdout)
        for name in ("rannc-compile", "rannc-run", "rannc-zoo", "rannc-opt", "rannc-check", "rannc-profile"):
            self.assertRegex(self.succeed(name, "--version").stdout, rf"^{name} \d+\.\d+\.\d+\n$")
        self.refuse(2, ["--list", "cluster"], "rannc-compile", "--list", "stage")

    def test_explain(self):
        text = self.model("--emit=plan", "--explain", "--stages", 2).stderr
        for part in ("bottleneck: stage", "what would help:", "one more device: "):
            self.assertIn(part, text)

    def measured(self, *flags):
        bundle = self.scratch / "model.rannc"
        done = self.succeed("rannc-compile", MLP, "--cluster", "local:2", "--memory", "1GiB", "--mini-batch", 8, "--loss", MLP_LOSS, "-o", bundle,
                            "--replace", *flags)
        return done.stdout, (bundle / "plan.rir").read_text()

    def test_only_what_has_one_price_is_compared(self):
        """A bound, the plan and other ways to run stand at the planner's prices; the prediction is of measured stages, and alone."""
        text, plan = self.measured("--explain")
        self.assertRegex(text, r"predicted step [0-9.]+ [mu]?s \(bubble \d+ %\), stages and optimizers measured side by side\n")
        stages = re.findall(r"  stage \d: \d+ tasks .*", text)
        self.assertTrue(stages and all(" a micro-batch (measured side by side)" in stage for stage in stages), text)
        self.assertIn("\nat times of tasks measured one by one, unlike the predicted step and the times of stages above:\nplan by auto", text)
        estimated, _ = self.measured("--costs", "analytic")
        self.assertRegex(estimated, r"predicted step .* %\), at prices estimated from the cluster's rates\n")
        self.assertNotIn("side by side", estimated)
        self.assertEqual(len(set(re.findall(r"gap [0-9.]+ %", text))), 1, f"one plan has one gap:\n{text}")
        compared = re.search(r"at times of tasks measured one by one: simulated time of a mini-batch ([0-9.]+) ms; .* is below ([0-9.]+) ms", text)
        self.assertIsNotNone(compared, text)
        objective, bound = map(float, compared.groups())
        others = [float(time) for time in re.findall(r"without constraints, .*: time of a step ([0-9.]+) ms", text)]
        self.assertEqual(len(others), 2, text)
        for time in (objective, *others):
            self.assertGreaterEqual(time, bound, f"the bound is none:\n{text}")
        pairs = re.search(r"\nstep_ns (\d+) searched_ns (\d+) lower_bound_ns (\d+)\n", plan)
        self.assertIsNotNone(pairs, "a measured plan has its step, and step and bound at the prices of the search")
        step, searched, least = map(int, pairs.groups())
        self.assertGreater(step, 0)
        self.assertGreaterEqual(searched, least)
        self.assertGreater(least, 0)
        self.assertAlmostEqual(searched / 1e6, objective, delta=0.05 * objective, msg="the finished plan is what was searched for")

    def test_devices_without_a_stage_are_named(self):
        text, _ = self.measured("--costs", "analytic", "--stages", 2)
        self.assertNotIn("unused", text)
        command = ["rannc-compile", MLP, "--cluster", "local:8", "--mini-batch", 8, "--costs", "analytic", "--stages", 2, "--replicas", "1,1", "-o",
                   self.scratch / "two.rannc", "--replace"]
        text = self.succeed(*command).stdout
        self.assertEqual((self.scratch / "two.rannc" / "plan.rir").read_text().count("\ndevice "), 2)
        self.assertIn("\n  unused: 6 of 8 devices (node0/cpu:2, node0/cpu:3, node0/cpu:4, node0/cpu:5, …)\npredicted step ", text)
        found = json.loads(self.succeed(*command, "--summary=json").stdout)
        self.assertEqual(found["unused_devices"], [f"node0/cpu:{device}" for device in range(2, 8)])

    def test_summary_says_whether_the_prediction_is_measured(self):
        for flags, measured in (((), True), (("--no-refine",), False), (("--costs", "analytic"), False)):
            text, plan = self.measured("--summary=json", *flags)
            found = json.loads(text)
            self.assertEqual(found["measured"], measured, flags)
            self.assertEqual(str(found["step_ns"]), re.search(r"\nstep_ns (\d+)", plan)[1])
            self.assertGreaterEqual(found["objective"], found["lower_bound"] * (1 - 1e-9))
        self.assertEqual(found["prices"], "prices estimated from the cluster's rates")

    def test_workers_of_this_machine_share_its_memory(self):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limits = {}
        for cluster, flags in (("local:1", ()), ("local:2", ()), ("local:2", ("--memory", "3GiB"))):
            plan = self.succeed("rannc-compile", MLP, *self.FLAGS[2:], "--cluster", cluster, "--stages", 1, "--emit=plan", *flags).stdout
            limits[cluster, flags] = int(re.search(r"device d0 .* memory_bytes (\d+)", plan)[1])
        one, two, told = limits.values()
        self.assertLessEqual(one, total * 3 / 4)
        self.assertGreater(one, 256 << 20, "a part of this machine")
        self.assertAlmostEqual(two / one, 0.5, places=6)
        self.assertEqual(told, 3 << 30, "said by hand, it is the same on every machine")

    def test_more_workers_than_cores_are_told(self):
        cores = len(os.sched_getaffinity(0))
        for workers, told in ((1, False), (2 * cores, True)):
            done = self.succeed("rannc-compile", MLP, *self.FLAGS[2:], "--cluster", f"local:{workers}", "--stages", 1, "--emit=plan")
            self.assertEqual(f"{workers} workers share the {cores} cores" in done.stderr, told, done.stderr)


class Asynchronous(PlannerTest):
    """What pipelines without a flush would buy, beside a plan."""
    FLAGS = ("--loss", MLP_LOSS, "--costs", "analytic", "--mini-batch", 8, "--memory", "1GiB", "--compare", "asynchronous")

    def table(self, *flags):
        done = self.succeed("rannc-compile", MLP, *self.FLAGS, "-o", self.scratch / "model.rannc", "--replace", *flags)
        rows = re.findall(r"^  (\S+) +([\d.]+) (\w+) +([\d.]+) +(\d+) +(\d+) +([\d.]+ \w+)  ([\d ]+)$", done.stdout, re.MULTILINE)
        return done.stdout, {name: {"time": float(time), "unit": unit, "speed-up": float(ratio), "updates": int(updates),
                                    "staleness": int(staleness), "versions": versions.split()}
                             for name, time, unit, ratio, updates, staleness, _, versions in rows}

    def test_pipelines_beside_a_plan(self):
        text, rows = self.table("--cluster", "local:2", "--stages", 2, "--micro-batches", 4, "--schedule", "1f1b")
        self.assertEqual(list(rows), ["1f1b", "PipeDream", "PipeDream-2BW"], text)
        plan, stashing, buffered = rows.values()
        self.assertEqual((plan["speed-up"], plan["updates"], plan["staleness"], plan["versions"]), (1, 1, 0, ["1", "1"]))
        self.assertEqual((stashing["updates"], stashing["staleness"], stashing["versions"]), (4, 1, ["2", "1"]))
        self.assertEqual((buffered["updates"], buffered["staleness"], buffered["versions"]), (1, 1, ["2", "2"]))
        # No bubble, and an update for each mini-batch.
        predicted = (self.scratch / "model.rannc" / "plan.rir").read_text()
        busy = max(int(ns) for ns in re.findall(r"busy_ns (\d+)", predicted))
        step = int(re.search(r"^step_ns (\d+)", predicted, re.MULTILINE)[1])
        self.assertLess(busy, step)
        self.assertGreater(buffered["speed-up"], 1)
        self.assertLessEqual(buffered["speed-up"], step / busy * 1.001)

    def test_two_versions_need_enough_micro_batches(self):
        text, rows = self.table("--cluster", "local:3", "--stages", 3, "--micro-batches", 2)
        self.assertEqual(list(rows)[1:], ["PipeDream"])
        self.assertIn("PipeDream-2BW needs at least as many micro-batches as stages: 2 < 3", text)

    def test_what_has_no_such_pipeline_is_refused(self):
        path = self.scratch / "none.rannc"
        self.refuse(1, ["a plan of one stage has no bubble"], "rannc-compile", MLP, *self.FLAGS, "--cluster", "local:1", "-o", path)
        self.assertFalse(path.exists())
        self.refuse(1, ["trains nothing"], "rannc-compile", MLP, *self.FLAGS[2:], "--cluster", "local:2", "--stages", 2, "-o",
                    self.scratch / "other.rannc")
        self.refuse(2, ["--compare", "a profile, not a model"], "rannc-compile", self.profile, "--compare", "asynchronous")


if __name__ == "__main__":
    programs.main()
