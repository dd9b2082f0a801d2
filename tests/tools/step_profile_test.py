"""--profile says where a step's time goes: its parts add up to it, and every task of the model has its own."""
import collections
import json
import re
import statistics

import programs

CONTEXT, WIDTH = 16, 32
LAYERS, SAMPLES = 2, 4
TIMES = ["products", "operators", "tape_forward", "tape_backward", "allocation", "optimizer", "around", "profiling"]
MESSAGES = ["messages", "waiting"]
# Clocks of one thread are read one after the other: what is between two readings is in no part.
APART = 0.02
# A plan of measured costs is for this machine, of which others take a part that changes, also between its measurement and the run.
# A wrong unit, kind of action or number of samples is further off, and in every try.
FACTOR = 2
TRIES = 3


class ExplainedStep(programs.ProgramTest):
    """--explain-step: what the plan expects beside what a step took."""
    STEPS = 6

    def explain(self, *flags, transport="local", costs="analytic"):
        bundle, run = self.scratch / "gpt.rannc", self.scratch / "run"
        self.succeed("rannc-compile", programs.DATA / "small_gpt" / "model.onnx", "--loss", "cross_entropy(output=logits,labels=targets)",
                     "--costs", costs, "--mini-batch", 8, "--micro-batches", 4, "-o", bundle, "--replace", *flags)
        done = self.succeed("rannc-run", bundle, "--data", programs.DATA / "small_gpt" / "batch.safetensors", "-o", run, "--steps", self.STEPS,
                            "--explain-step", "--replace", "--transport", transport)
        head, *lines = [line.split("\t") for line in (run / "actions.tsv").read_text().splitlines()]
        return done.stdout, [dict(zip(head, line, strict=True)) for line in lines], bundle

    def judge(self, said, actions, devices):
        rows = re.findall(r"^device (\d+) +(.* / .*)$", said, re.MULTILINE)
        self.assertEqual([int(device) for device, _ in rows], list(range(devices)))
        for _, cells in rows:
            numbers = [float(number) for number in re.findall(r"[\d.]+", cells)]
            self.assertEqual(len(numbers), 2 * 6)
            for which in (0, 1):  # planned, measured: the parts add up to the step, to the last digit that is shown
                self.assertAlmostEqual(sum(numbers[which:10:2]), numbers[10 + which], delta=0.003)
        steps = {tuple(re.findall(r"[\d.]+", cells)[10:]) for _, cells in rows}
        self.assertEqual(len(steps), 1, "a step is as long on every device")
        self.assertIn(f"mean of {self.STEPS - 1} steps", said)
        self.assertGreaterEqual(self.difference(said), 0)
        work = collections.Counter(action["action"] for action in actions if float(action["measured_compute"]) > 0)
        kinds = {name[0] for name in work}
        self.assertTrue({"F", "S"} <= kinds and kinds & {"B", "I"}, kinds)
        for action in actions:
            if action["action"][0] in "FBIW":
                self.assertGreater(float(action["planned_compute"]), 0, action)

    def difference(self, said):
        """Median difference of an action from the plan."""
        return float(re.search(r"(?m)^median difference of an action from the plan: ([\d.]+) %$", said)[1]) / 100

    def near(self):
        """Whether a step is as long as measured costs made its plan, with the ratios of its actions."""
        said, actions, _ = self.explain("--stages", 2, "--schedule", "1f1b", costs="measured")
        ratios = collections.defaultdict(list)
        for action in actions:
            if float(action["planned_compute"]) > 0:
                kind = (action["device"], action["action"][0])
                ratios[kind].append(float(action["measured_compute"]) / float(action["planned_compute"]))
        self.assertEqual(set(ratios), {(device, kind) for device in "01" for kind in "FBS"})
        middle = statistics.median(statistics.median(each) for each in ratios.values())
        return 1 / FACTOR < middle < FACTOR and self.difference(said) < FACTOR - 1, ratios

    def test_a_measured_plan_is_near(self):
        tries = [self.near()]
        while not tries[-1][0] and len(tries) < TRIES:
            tries.append(self.near())
        self.assertTrue(tries[-1][0], tries)

    def test_cuts_and_replicas(self):
        for devices, flags in ((2, ["--stages", 2, "--schedule", "1f1b"]), (3, ["--cluster", "local:3", "--replicas", "2,1", "--schedule", "zb-h1"])):
            for transport in ("local", "gloo"):
                with self.subTest(devices=devices, transport=transport):
                    said, actions, _ = self.explain(*flags, transport=transport)
                    self.judge(said, actions, devices)
                    self.assertEqual(sum(name["action"].startswith("F") for name in actions), 4 * devices)

    def test_nothing_is_explained_where_nothing_is_trained(self):
        *_, bundle = self.explain("--cluster", "local:1")
        self.refuse(1, ["--explain-step: nothing is trained"], "rannc-run", bundle, "--data", programs.DATA / "small_gpt" / "batch.safetensors",
                    "--evaluate", "--explain-step")


class StepProfile(programs.ProgramTest):
    def bundle(self, stages, *flags):
        model, path = self.scratch / "gpt.onnx", self.scratch / "gpt.rannc"
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", LAYERS, "--width", WIDTH, "--heads", 2, "--context", CONTEXT)
        self.succeed("rannc-compile", model, "-o", path, "--replace", "--stages", stages, "--loss",
                     "cross_entropy(output=logits,labels=targets)", "--costs", "analytic", "--schedule", "1f1b", "--micro-batches", 2,
                     "--mini-batch", SAMPLES, *flags)
        return path

    def run_profile(self, bundle, *flags):
        """What the run says, and profile.json; `parts` of each device add up to the wall time that is measured beside them."""
        folder = self.scratch / "run"
        done = self.succeed("rannc-run", bundle, "-o", folder, "--replace", "--steps", 8, "--profile", "--text",
                            programs.SOURCE / "tests" / "requirements.md", *flags)
        processes = json.loads((folder / "profile.json").read_text())
        for process in processes:
            self.assertEqual(process["steps"], 3, "of eight two are warm-up, and every second one is followed")
            self.assertGreater(process["step_without_profile_ns"], 0)
            for device in process["devices"]:
                parts, wall = device["parts"], device["wall_ns"]
                self.assertAlmostEqual(sum(parts.values()) / wall, 1, delta=APART, msg=f"{parts} of {wall}")
                for name, ns in parts.items():
                    self.assertIn(name, TIMES + MESSAGES)
                    self.assertGreater(ns, -APART * wall, name)
                for name in TIMES:
                    self.assertGreater(parts[name], 0, name)
                self.assertGreater(device["allocations"], 0)
                self.assertGreater(device["products_at_full_rate_ns"], 0)
                self.assertLess(device["products_at_full_rate_ns"], parts["products"], "no product is faster than the machine")
                self.assertLess(parts["profiling"], 0.5 * wall, "what is measured is the step")
        self.assertEqual(sorted(device["device"] for process in processes for device in process["devices"]),
                         list(range(done.stdout.count(" a step, mean of 3;"))))
        return done.stdout, processes, (folder / "report.html").read_text()

    def expect_all_tasks(self, processes, passes):
        """Each linear layer has times both ways, and of each the work of so many products as large as its forward pass."""
        tasks = [task for process in processes for task in process["tasks"]]
        names = sorted({task["name"] for task in tasks if task["operator"] == "core.linear"})
        self.assertEqual(len(names), 4 * LAYERS + 1, names)
        widths = {"qkv": (WIDTH, 3 * WIDTH), "attention.output": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
        found = set()
        for name in names:
            own = [task for task in tasks if task["name"] == name]
            self.assertGreater(sum(task["forward_ns"] for task in own), 0, name)
            self.assertGreater(sum(task["backward_ns"] for task in own), 0, name)
            ends = [sizes for word, sizes in widths.items() if word in name]
            if ends:
                ((rows, columns),) = ends
                found.add(sum(task["flops"] for task in own) / (2 * SAMPLES * CONTEXT * rows * columns))
        self.assertEqual(found, passes)
        in_operators = sum(device["parts"][name] for process in processes for device in process["devices"]
                           for name in ("products", "operators"))
        in_tasks = sum(task["forward_ns"] + task["backward_ns"] for task in tasks)
        without = sum(process["without_task_ns"] for process in processes)
        self.assertAlmostEqual((in_tasks + without) / in_operators, 1, delta=1e-6)
        calls, calls_without = (sum(process[name] for process in processes) for name in ("operators", "operators_without_task"))
        self.assertLess(calls_without, 0.15 * calls, f"operators of no task, of {calls}")

    def test_one_device(self):
        text, processes, page = self.run_profile(self.bundle(1, "--cluster", "local:1"))
        self.expect_all_tasks(processes, passes={3})
        for name in MESSAGES:
            self.assertEqual(processes[0]["devices"][0]["parts"].get(name, 0), 0, name)
        for words in ["products", "tape, backward", "GFLOP/s", "core.linear", "with this profile"]:
            self.assertIn(words, text)
        for words in ["Where a step's time goes", "core.linear"]:
            self.assertIn(words, page)

    def test_two_workers(self):
        _, processes, _ = self.run_profile(self.bundle(2, "--cluster", "local:2"), "--transport", "gloo")
        self.assertEqual(len(processes), 2)
        self.expect_all_tasks(processes, passes={3})
        for process in processes:
            for name in MESSAGES:
                self.assertGreater(process["devices"][0]["parts"][name], 0, name)

    def test_replicas_and_recompute(self):
        _, processes, _ = self.run_profile(self.bundle(2, "--cluster", "local:3", "--replicas", "2,1", "--recompute", "always"),
                                           "--clip-norm", 0.1)
        self.expect_all_tasks(processes, passes={3, 4})  # R repeats only what the backward pass reads

    def test_numbers_stay_what_they_are(self):
        bundle = self.bundle(1, "--cluster", "local:1")
        self.run_profile(bundle)
        losses = (self.scratch / "run" / "losses.txt").read_bytes()
        self.succeed("rannc-run", bundle, "-o", self.scratch / "plain", "--steps", 8, "--text", programs.SOURCE / "tests" / "requirements.md")
        self.assertEqual((self.scratch / "plain" / "losses.txt").read_bytes(), losses)
        self.assertFalse((self.scratch / "plain" / "profile.json").exists())


if __name__ == "__main__":
    programs.main()
