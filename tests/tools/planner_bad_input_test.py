"""Profiles, placement graphs, clusters and demands that cannot be planned: one error each, which names the cause. [N2 N7 P1 P2]"""
import json
import random

import profiles
import programs

DIAGNOSTICS, USAGE = 1, 2
INTERNAL = 70

CLUSTER = """
[kind.v100]
memory_bytes = 17179869184
flops = 1e13
bandwidth = 7e11
[between]
bandwidth = 3e9
latency_ns = 30000
[[node]]
devices = [{ kind = "v100", count = 1 }]
[[node]]
devices = [{ kind = "v100", count = 1 }]
"""

# What the profile says of its third layer, and what the error must name.
COSTS = [
    ({"forward": "nan"}, ["node4", "forward_compute_time", "nan", "E2"]),
    ({"forward": "inf"}, ["node4", "forward_compute_time", "inf"]),
    ({"forward": -1}, ["node4", "forward_compute_time is -1"]),
    ({"backward": -0.5}, ["node4", "backward_compute_time is -0.5"]),
    ({"forward": "1e308"}, ["node4", "forward_compute_time", "1e+308"]),
    ({"forward": "1e999"}, ["profile.txt:4", "1e999"]),
    ({"forward": "3ms"}, ["profile.txt:4", "'3ms'"]),
    ({"forward": ""}, ["profile.txt:4", "forward_compute_time"]),
    ({"activation": -4}, ["node4", "activation_size is -4"]),
    ({"activation": "[1; 2"}, ["profile.txt:4", "activation_size"]),
    ({"activation": "1e30"}, ["there is no plan", "misses the memory limit by"]),
    ({"parameters": "1e12"}, ["there is no plan", "misses the memory limit by", "node4 Layer_4", "more than any device offers"]),
    ({"parameters": "1e30"}, ["there is no plan", "node4 Layer_4", "more than any device offers"]),
    ({"parameters": -1}, ["node4", "parameter_size is -1"]),
]

# Texts of whole profiles.
PROFILES = [
    ("", ["no blocks"]),
    ("hello\n", ["profile.txt:1"]),
    (profiles.node(1, "Input", 0, 0, 1, 0), ["no blocks"]),
    (profiles.chain(3) + "\tnode4 -- node2\n", ["a cycle", "node4 -> node2 -> node3 -> node4", "E1"]),
    (profiles.chain(3) + "\tnode3 -- node3\n", ["a cycle", "node3 -> node3"]),
    (profiles.chain(3) + "\tnode3 -- node9\n", ["profile.txt:8", "node9"]),
    (profiles.chain(3) + profiles.node(3), ["profile.txt:8", "'node3' is defined twice"]),
]

# Flags beside a good profile on four devices, the exit code and what the error must name.
DEMANDS = [
    (["--pin", "absent=0", "--stages", 2], DIAGNOSTICS, ["--pin absent=0", "no task or module is called 'absent'"]),
    (["--pin", "nothing*=0", "--stages", 2], DIAGNOSTICS, ["nothing*"]),
    (["--pin", "node3=2", "--stages", 2], DIAGNOSTICS, ["--pin node3=2", "stage 2 does not exist"]),
    (["--pin", "node3=0", "--pin", "node3=1", "--stages", 2], DIAGNOSTICS, ["--pin node3=1", "already pinned to stage 0"]),
    (["--pin", "node3=1", "--pin", "node8=0", "--stages", 2], DIAGNOSTICS, ["node3", "stage 1", "node8", "stage 0", "C5"]),
    (["--pin", "node3=0"], USAGE, ["--pin", "--stages"]),
    (["--pin", "node3", "--stages", 2], USAGE, ["--pin: expected TASK=STAGE with a whole number", "found 'node3'"]),
    (["--pin", "node3=-1", "--stages", 2], USAGE, ["--pin: expected TASK=STAGE with a whole number", "found 'node3=-1'"]),
    (["--pin", "node3=99999999999", "--stages", 2], USAGE, ["--pin: expected TASK=STAGE with a whole number", "found 'node3=99999999999'"]),
    (["--pin", "node3=0", "--pin", "node8=1", "--together", "node3,node8", "--stages", 2], DIAGNOSTICS, ["there is no plan"]),
    (["--together", "node2,node11", "--stages", 2], DIAGNOSTICS, ["there is no plan"]),
    (["--together", "node2"], USAGE, ["--together node2", "TASK,TASK"]),
    (["--together", "node2,absent"], DIAGNOSTICS, ["no task or module is called 'absent'"]),
    (["--stages", 11], DIAGNOSTICS, ["11 stages", "10 blocks"]),
    (["--stages", 5], DIAGNOSTICS, ["5 stages", "4 devices"]),
    (["--stages", 0], USAGE, ["--stages", "0"]),
    (["--stages", "-1"], USAGE, ["--stages", "-1"]),
    (["--stages", "two"], USAGE, ["--stages", "two"]),
    (["--stages", 99999999999], USAGE, ["--stages", "99999999999"]),
    (["--stages", 3, "--max-stages", 2], USAGE, ["3 stages", "--max-stages 2"]),
    (["--replicas", "2,1,1", "--stages", 2], USAGE, ["--replicas", "3 counts", "2 stages"]),
    (["--replicas", "2,0"], USAGE, ["--replicas", "0"]),
    (["--replicas", "3,3"], DIAGNOSTICS, ["there is no plan"]),
    (["--devices", 17], DIAGNOSTICS, ["--devices 17", "16"]),
    (["--devices", 0], USAGE, ["--devices", "0"]),
    (["--mini-batch", 0], USAGE, ["--mini-batch", "0"]),
    (["--mini-batch", 99999999999], USAGE, ["--mini-batch"]),
    (["--micro-batches", "4,64"], USAGE, ["--micro-batches 64", "32 samples"]),
    (["--micro-batches", "4,x"], USAGE, ["--micro-batches", "x"]),
    (["--micro-batches", "0"], USAGE, ["--micro-batches", "0"]),
    (["--memory", "0"], USAGE, ["--memory", "'0'"]),
    (["--memory", "-1GiB"], USAGE, ["--memory", "-1GiB"]),
    (["--memory", "16parsecs"], USAGE, ["--memory", "16parsecs"]),
    (["--memory", "99999999TiB"], USAGE, ["--memory", "99999999TiB"]),
    (["--memory", "1KiB"], DIAGNOSTICS, ["there is no plan", "misses the memory limit by", "offers"]),
    (["--step-limit", "5"], USAGE, ["--step-limit", "'5'"]),
    (["--step-limit", "0ms"], USAGE, ["--step-limit", "0ms"]),
    (["--step-limit", "nan"], USAGE, ["--step-limit", "nan"]),
    (["--step-limit", "1ns"], DIAGNOSTICS, ["there is no plan", "the fastest plan found takes", "--step-limit"]),
    (["--step-limit", "1s", "--planner", "gpipe"], USAGE, ["--step-limit", "gpipe"]),
    (["--time-limit", "2"], USAGE, ["--time-limit", "'2'"]),
    (["--time-limit", "-2s"], USAGE, ["--time-limit", "-2s"]),
    (["--time-limit", "2 parsecs"], USAGE, ["--time-limit", "parsecs"]),
    (["--objective", "beauty"], USAGE, ["--objective", "beauty"]),
    (["--objective", "load", "--planner", "pipedream"], USAGE, ["--objective load", "pipedream"]),
    (["--search-budget", 0], USAGE, ["--search-budget", "0"]),
    (["--schedule", "waltz"], USAGE, ["'waltz'", "1f1b, dapple-b"]),
    (["--schedule", "gpipe,waltz"], USAGE, ["'waltz'"]),
    (["--schedule", "1f1b", "--stages-per-device", 2], USAGE, ["--stages-per-device 2", "zb-v"]),
    (["--schedule", "zb-v", "--stages-per-device", 3], USAGE, ["--stages-per-device 3", "interleaved"]),
    (["--schedule", "zb-v", "--stages", 3], DIAGNOSTICS, ["2 stages per device"]),
    (["--schedule", "1f1b", "--periods", 2], USAGE, ["--periods", "k-periodic"]),
    (["--schedule", "1f1b", "--period", "2ms"], USAGE, ["--period", "1f1b-star"]),
    (["--schedule", "periodic", "--period", "1ns"], DIAGNOSTICS, ["a period of"]),
    (["--schedule", "gpipe", "--warm-up", "2,1"], USAGE, ["--warm-up", "warmup"]),
    (["--schedule", "warmup", "--warm-up", "1,2"], USAGE, ["--warm-up 1,2", "deeper"]),
    (["--schedule", "gpipe,1f1b", "--planner", "gpipe"], USAGE, ["planner gpipe", "name one"]),
    (["--schedule", "table"], USAGE, ["--schedule-file"]),
    (["--schedule-file", "x"], USAGE, ["--schedule table"]),
    (["--recompute", "sometimes"], USAGE, ["--recompute", "sometimes", "except-last", "selective"]),
    (["--recompute-budget", 7], USAGE, ["--recompute-budget", "--recompute selective"]),
    (["--recompute", "selective", "--recompute-budget", 101], USAGE, ["--recompute-budget", "101"]),
    (["--recompute", "selective"], USAGE, ["--recompute selective", "no tasks"]),
    (["--planner", "oracle"], USAGE, ["--planner", "oracle"]),
    (["--profile-batch", 0], USAGE, ["--profile-batch", "0"]),
    (["--loss", "mse"], USAGE, ["--loss", "a profile"]),
    (["--costs", "analytic"], USAGE, ["--costs", "a profile"]),
    (["--kernels", "default"], USAGE, ["--kernels", "a profile"]),
    (["--no-fuse", "all"], USAGE, ["--no-fuse", "a profile"]),
    (["--train-dropout"], USAGE, ["--train-dropout", "a profile"]),
    (["--batch-size-in-file", 1], USAGE, ["--batch-size-in-file", "a profile"]),
    (["--emit", "bundle"], USAGE, ["--emit", "no bundle"]),
    (["--emit", "graph"], USAGE, ["--emit graph"]),
    (["-o", "plan.rannc"], USAGE, ["plan.rannc", ".json"]),
    (["--exact"], USAGE, ["--exact", "placement"]),
    (["--cluster", "nowhere"], DIAGNOSTICS, ["nowhere", "dapple-a"]),
    (["--cluster", "absent.toml"], DIAGNOSTICS, ["absent.toml"]),
]

# What is changed in a good cluster file.
CLUSTERS = [
    (("count = 1 }]\n[[node]]\ndevices = [{ kind = \"v100\", count = 1", "count = 0 }]\n[[node]]\ndevices = [{ kind = \"v100\", count = 0"), ["count"]),
    (("[[node]]\ndevices = [{ kind = \"v100\", count = 1 }]", ""), ["[[node]]"]),
    (("devices = [{ kind = \"v100\", count = 1 }]", "devices = []"), ["device"]),
    (("memory_bytes = 17179869184", "memory_bytes = \"16 GB\""), ["memory_bytes"]),
    (("memory_bytes = 17179869184", "memory_bytes = 16e9"), []),
    (("memory_bytes = 17179869184", "memory_gb = 16"), ["memory_gb", "memory_bytes"]),
    (("memory_bytes = 17179869184", "memory_bytes = 0"), ["memory_bytes"]),
    (("flops = 1e13", "flops = -1"), ["flops"]),
    (("flops = 1e13", "flops = nan"), ["flops"]),
    (("flops = 1e13", "flops = inf"), ["flops"]),
    (("bandwidth = 3e9", "bandwidth = \"25 Gbit/s\""), ["bandwidth"]),
    (("bandwidth = 3e9", "bandwidth = 0"), ["bandwidth"]),
    (("latency_ns = 30000", "latency_us = 30"), ["latency_us", "latency_ns"]),
    (("latency_ns = 30000", "latency_ns = -1"), ["latency_ns"]),
    (("kind = \"v100\"", "kind = \"a100\""), ["a100"]),
]

# Changes of a good placement graph.
PLACEMENTS = [
    ({"nodes": [{"id": 0, "fpgaLatency": -1, "size": 1}], "edges": []}, ["X1"]),
    ({"nodes": [{"id": 0, "fpgaLatency": "1ms", "size": 1}], "edges": []}, ["fpgaLatency"]),
    ({"nodes": [{"id": 0, "fpgaLatency": 1, "size": -1}], "edges": []}, ["'0'", "size"]),
    ({"nodes": [{"id": 0, "fpgaLatency": 1, "size": 1}, {"id": 0, "fpgaLatency": 1, "size": 1}], "edges": []}, ["twice"]),
    ({"nodes": [{"id": 0, "fpgaLatency": 1e308, "size": 1}, {"id": 1, "fpgaLatency": 1e308, "size": 1}], "edges": []}, ["X1"]),
    ({"edges": [{"sourceId": 0, "destId": 9, "cost": 1}]}, ["'9'", "names no node"]),
    ({"edges": [{"sourceId": 0, "destId": 1, "cost": -1}]}, ["X1"]),
    ({"edges": [{"sourceId": 0, "destId": 1, "cost": 1}, {"sourceId": 0, "destId": 2, "cost": 2}]}, ["differs"]),
    ({"maxFPGAs": 0}, ["maxFPGAs"]),
    ({"maxFPGAs": 1e9}, ["maxFPGAs"]),
    ({"maxSizePerFPGA": 5}, ["there is no split", "10 bytes of 5"]),
    ({"maxSizePerFPGA": 15}, ["there is no split", "40 bytes", "2 devices"]),
    ({"maxSizePerFPGA": "much"}, ["maxSizePerFPGA"]),
    ({"nodes": 7}, ["nodes"]),
]

SPLIT_FLAGS = [
    (["--devices", 0], USAGE, ["--devices", "0"]),
    (["--memory", "5"], DIAGNOSTICS, ["there is no split", "10 bytes of 5"]),
    (["--stages", 2], USAGE, ["--stages", "a placement graph"]),
    (["--cluster", "dapple-a"], USAGE, ["--cluster", "a placement graph"]),
    (["--planner", "gpipe"], USAGE, ["--planner", "a placement graph"]),
    (["-o", "split.txt"], USAGE, ["split.txt", ".json"]),
    (["--emit", "blocks"], USAGE, ["--emit blocks"]),
]

# A text or a number that parsers are prone to take badly.
PIECES = ["0", "-1", "18446744073709551616", "1e308", "1e30", "nan", "inf", "\"", "{", "]", "=", "\n", "--", " -- ", "\t", "[", ";", ",", "\x00", "\u00ff"]


class BadInput(programs.ProgramTest):
    def write(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def refuse_profile(self, text, code, parts, *flags):
        path = self.write("profile.txt", text)
        self.refuse(code, parts, "rannc-compile", path, "--cluster", "dapple-b", "--devices", 4, "--mini-batch", 32, *flags)
        self.assertEqual([entry.name for entry in self.scratch.iterdir()], ["profile.txt"], "nothing is written")

    def test_costs(self):
        for change, parts in COSTS:
            with self.subTest(change=change):
                self.refuse_profile(profiles.chain(5, node4=change), DIAGNOSTICS, parts)

    def test_profiles(self):
        for text, parts in PROFILES:
            with self.subTest(parts=parts):
                self.refuse_profile(text, DIAGNOSTICS, parts)

    def test_demands(self):
        for flags, code, parts in DEMANDS:
            with self.subTest(flags=flags):
                path = self.write("profile.txt", profiles.chain(10))
                base = {"--cluster": "dapple-b", "--devices": 4, "--mini-batch": 32}
                words = [word for name, value in base.items() if name not in flags for word in (name, value)]
                if "--cluster" in flags:
                    words = [word for word in words if word not in ("--devices", 4)]
                self.refuse(code, parts, "rannc-compile", path, *words, *flags)
                self.assertEqual([entry.name for entry in self.scratch.iterdir()], ["profile.txt"])

    def test_costs_of_nothing_and_of_far_too_much_have_plans(self):
        for change in ({"forward": 0, "backward": 0, "activation": 0, "parameters": 0}, {"forward": "1e30"}, {"backward": "1e30"}):
            path = self.write("profile.txt", profiles.chain(5, node4=change))
            done = self.succeed("rannc-compile", path, "--cluster", "dapple-b", "--devices", 3, "--summary=json")
            found = json.loads(done.stdout)
            self.assertLessEqual(found["lower_bound"], found["objective"] * (1 + 1e-9))

    def test_clusters(self):
        for (old, new), parts in CLUSTERS:
            with self.subTest(new=new):
                self.assertIn(old, CLUSTER)
                path = self.write("cluster.toml", CLUSTER.replace(old, new, 1) if new else CLUSTER.replace(old, ""))
                profile = self.write("profile.txt", profiles.chain(5))
                done = self.run_program("rannc-compile", profile, "--cluster", path)
                if not parts:  # a number is a number
                    self.assertEqual(done.returncode, 0, done.stderr)
                    continue
                self.assertEqual(done.returncode, DIAGNOSTICS, done.stdout + done.stderr)
                self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
                for part in ["cluster.toml", *parts]:
                    self.assertIn(part, done.stderr)

    def test_placements(self):
        for change, parts in PLACEMENTS:
            with self.subTest(change=change):
                path = self.write("graph.json", profiles.placement([4, 3, 2, 1], **change))
                self.refuse(DIAGNOSTICS, [*parts, "graph.json"], "rannc-compile", path)
        self.refuse(DIAGNOSTICS, ["not JSON", "graph.json"], "rannc-compile", self.write("graph.json", "{"))
        cycle = [{"sourceId": 0, "destId": 1, "cost": 1}, {"sourceId": 1, "destId": 0, "cost": 1}]
        done = self.run_program("rannc-compile", self.write("graph.json", profiles.placement([1, 2], edges=cycle)), "--summary=json")
        self.assertEqual(done.returncode, 0, "what waits for each other shares a device")
        self.assertAlmostEqual(json.loads(done.stdout)["objective"], 3)

    def test_flags_of_placements(self):
        for flags, code, parts in SPLIT_FLAGS:
            with self.subTest(flags=flags):
                path = self.write("graph.json", profiles.placement([4, 3, 2, 1]))
                self.refuse(code, parts, "rannc-compile", path, *flags)

    def test_files_that_are_none(self):
        for name in ("absent.txt", "absent.json"):
            self.refuse(DIAGNOSTICS, [name], "rannc-compile", self.scratch / name)
        (self.scratch / "folder.txt").mkdir()
        self.refuse(DIAGNOSTICS, ["folder.txt"], "rannc-compile", self.scratch / "folder.txt")
        profile = self.write("profile.txt", profiles.chain(3))
        self.refuse(DIAGNOSTICS, ["plan.json"], "rannc-compile", profile, "-o", self.scratch / "absent" / "plan.json")

    def test_infeasible_with_remedies(self):
        path = self.write("profile.txt", profiles.chain(5, node4={"parameters": 5e9}))
        done = self.refuse(DIAGNOSTICS, ["there is no plan", "twice the memory: a plan of", "links twice as fast: still no plan"], "rannc-compile",
                           path, "--cluster", "dapple-b", "--devices", 3, "--explain", "--recompute", "never")
        self.assertRegex(done.stderr, r"misses the memory limit by [0-9.]+ GiB")

    def test_mutated(self):
        """The programs themselves, on few files; fuzz_profile_plan and fuzz_cluster_plan take thousands."""
        good = {"profile.txt": profiles.chain(6), "cluster.toml": CLUSTER, "graph.json": profiles.placement([4, 3, 2, 1])}
        for seed in range(60):
            generator = random.Random(seed)
            name = list(good)[seed % 3]
            text = good[name]
            for _ in range(generator.choice([1, 1, 3])):
                at = generator.randrange(len(text))
                text = text[:at] + generator.choice(PIECES) + text[at + generator.randrange(8):]
            with self.subTest(seed=seed):
                files = {other: self.write(other, text if other == name else good[other]) for other in good}
                subject = [files["graph.json"]] if name == "graph.json" else [files["profile.txt"], "--cluster", files["cluster.toml"]]
                done = self.run_program("rannc-compile", *subject, "--summary=json")
                self.assertIn(done.returncode, (0, DIAGNOSTICS), f"{done.stderr}\n{text}")
                self.assertEqual(done.stderr.count("error: "), done.returncode, done.stderr)


if __name__ == "__main__":
    programs.main()
