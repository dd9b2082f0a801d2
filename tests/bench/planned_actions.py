"""Planned beside measured times of actions, for four plans of a GPT on two workers:

    python tests/bench/planned_actions.py BIN FOLDER [--rounds 5] [--steps 24] [--transport auto] [--limit 10]

In each round, each plan is measured by rannc-compile and explained by rannc-run --explain-step. The speed of a shared machine changes
between the two, so the ratio of an action is its median over rounds. Exit status 1 where the median difference of an action from its
plan exceeds the limit, in percent. Nothing else should run on the machine.
"""
import argparse
import pathlib
import re
import statistics
import sys

import own_programs

MODEL = ["--layers", 6, "--width", 256, "--heads", 4, "--context", 64]
SAMPLES = 16
PLANS = {
    "two replicas": ["--replicas", "2", "--micro-batches", 2],
    "1f1b": ["--stages", 2, "--replicas", "1,1", "--micro-batches", 4, "--schedule", "1f1b"],
    "zb-h1": ["--stages", 2, "--replicas", "1,1", "--micro-batches", 4, "--schedule", "zb-h1"],
    "gpipe, recompute": ["--stages", 2, "--replicas", "1,1", "--micro-batches", 4, "--schedule", "gpipe", "--recompute", "always"],
}


class Bench(own_programs.OwnPrograms):
    def actions(self, path):
        head, *lines = [line.split("\t") for line in path.read_text().splitlines()]
        return [dict(zip(head, line, strict=True)) for line in lines]

    def ratios(self, flags):
        """Measured / planned time of each computation, by device and action."""
        bundle, run = self.folder / "gpt.rannc", self.folder / "run"
        self.run("rannc-compile", self.folder / "gpt.onnx", "--loss", "cross_entropy(output=logits,labels=targets)", "--cluster", "local:2",
                 "--mini-batch", SAMPLES, "-o", bundle, "--replace", *flags)
        self.run("rannc-run", bundle, "--text", pathlib.Path(__file__).parent, "--steps", self.flags.steps, "--explain-step", "--replace",
                 "-o", run, "--transport", self.flags.transport)
        found = {}
        for action in self.actions(run / "actions.tsv"):
            planned, measured = float(action["planned_compute"]), float(action["measured_compute"])
            if re.match("[FBIWRS]", action["action"]) and planned > 0:
                found[action["device"], action["action"]] = measured / planned
        return found

    def judge(self, name, rounds):
        """The median over actions, each of which is the median over rounds."""
        differences = {"F": [], "B": [], "I": [], "W": [], "R": [], "S": []}
        for device, action in rounds[0]:
            ratio = statistics.median(each[device, action] for each in rounds)
            differences[re.match("[A-Z]+", action)[0]].append(ratio - 1)
        median = 100 * statistics.median(abs(each) for kind in differences.values() for each in kind)
        kinds = "  ".join(f"{kind} {100 * statistics.median(each):+.1f}" for kind, each in differences.items() if each)
        print(f"{name:20} {median:6.1f} %  {'ok' if median <= self.flags.limit else 'MISSED':7} {kinds}", flush=True)
        return median

    def bench(self):
        self.run("rannc-zoo", "gpt", "-o", self.folder / "gpt.onnx", *MODEL)
        rounds = {name: [] for name in PLANS}
        for _ in range(self.flags.rounds):
            for name, flags in PLANS.items():
                rounds[name].append(self.ratios(flags))
        print(f"{'plan':20} {'median':>8}  {'':7} by kind of action: median measured / planned - 1, %")
        return [self.judge(name, each) for name, each in rounds.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--limit", type=float, default=10)
    flags = parser.parse_args()
    sys.exit(any(median > flags.limit for median in Bench(flags).bench()))


if __name__ == "__main__":
    main()
