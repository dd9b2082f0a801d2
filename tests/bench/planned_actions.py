"""Planned beside measured times of actions, for four plans of a GPT on two workers:

    python tests/bench/planned_actions.py BIN FOLDER [--steps 24] [--transport auto] [--limit 10]

Each plan is measured by rannc-compile and explained by rannc-run --explain-step. Exit status 1 where the median difference of an action
from its plan exceeds the limit, in percent. Nothing else should run on the machine.
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

    def explain(self, name, flags):
        bundle, run = self.folder / "gpt.rannc", self.folder / "run"
        self.run("rannc-compile", self.folder / "gpt.onnx", "--loss", "cross_entropy(output=logits,labels=targets)", "--cluster", "local:2",
                 "--mini-batch", SAMPLES, "-o", bundle, "--replace", *flags)
        self.run("rannc-run", bundle, "--text", pathlib.Path(__file__).parent, "--steps", self.flags.steps, "--explain-step", "--replace",
                 "-o", run, "--transport", self.flags.transport)
        differences = {"F": [], "B": [], "I": [], "W": [], "R": [], "S": []}
        for action in self.actions(run / "actions.tsv"):
            kind = re.match("[A-Z]+", action["action"])[0]
            planned, measured = float(action["planned_compute"]), float(action["measured_compute"])
            if kind in differences and planned > 0:
                differences[kind].append(measured / planned - 1)
        every = [abs(each) for kind in differences.values() for each in kind]
        kinds = "  ".join(f"{kind} {100 * statistics.median(each):+.1f}" for kind, each in differences.items() if each)
        median = 100 * statistics.median(every)
        print(f"{name:20} {median:6.1f} %  {'ok' if median <= self.flags.limit else 'MISSED':7} {kinds}", flush=True)
        return median

    def bench(self):
        self.run("rannc-zoo", "gpt", "-o", self.folder / "gpt.onnx", *MODEL)
        print(f"{'plan':20} {'median':>8}  {'':7} by kind of action: median measured / planned - 1, %")
        return [self.explain(name, flags) for name, flags in PLANS.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--limit", type=float, default=10)
    flags = parser.parse_args()
    sys.exit(any(median > flags.limit for median in Bench(flags).bench()))


if __name__ == "__main__":
    main()
