"""Plans for two workers beside two independent copies of the model, and beside what the compiler predicted of them:

    python tests/bench/two_workers.py BIN FOLDER [--only gpt2] [--steps 30]

with the packages of raw_speed.py. The ceiling is what two processes do that each train the whole model on a core of their own at the
same time: a plan's share of it is the samples that it trains a second, over those that both copies do. Rounds of plan and copies take
turns. Exit status 1 where a share is below its limit.
"""
import argparse
import json
import pathlib
import re
import shlex
import statistics
import sys

import raw_models
import raw_speed

# model, mini-batch, what is said of the plan, flags, the least share
ROWS = [
    ("gpt2", 16, "auto", "", 0.92),
    ("gpt2", 16, "1F1B", "--stages 2 --replicas 1,1 --schedule 1f1b", 0.80),
    ("resnet50", 16, "auto", "", 0.68),
    ("gpt2-small", 16, "1F1B", "--stages 2 --replicas 1,1 --schedule 1f1b", 0.75),
]
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class Bench(raw_speed.Bench):
    """Bundles and data of `raw_speed`; of one exporter."""

    COLUMNS = ["model", "mini-batch", "plan", "", "step ms", "share of two copies", "95 %", "limit", "predicted", "one worker ms", "predicted", ""]

    def compiled(self, name, samples, workers, flags):
        """A bundle, the step that its plan predicts in seconds, and a line about the plan."""
        model = raw_models.MODELS[name]
        exporter = self.flags.exporters[0]
        path = self.model_file(name, exporter).with_name(f"workers{workers}{re.sub('[^a-z0-9]', '', flags)}.rannc")
        more = ["--train-batch-norm"] if model.training and exporter == "dynamo" else []
        printed = self.compile(self.model_file(name, exporter), path, "--cluster", f"local:{workers}", "--mini-batch", samples, "--optimizer",
                               model.optimizer, *more, *shlex.split(flags))
        number, unit = re.search(r"predicted step ([\d.]+) (ns|us|ms|s)\b", printed).groups()
        return path, float(number) * UNITS[unit], plan_in_words(path)

    def side(self, name, bundle, samples):
        model = raw_models.MODELS[name]
        return raw_speed.Side(bundle.name, [self.flags.bin / "bench-steps", bundle, "--data", self.data_file(name, samples), "--optimizer",
                                            model.optimizer, "--learning-rate", model.learning_rate])

    def run(self, name, samples, plan, flags, least):
        whole, predicted_alone, _ = self.compiled(name, samples, 1, "--stages 1 --micro-batches 1")
        bundle, predicted, words = self.compiled(name, samples, 2, flags)
        pair, copies = self.side(name, bundle, samples), [self.side(name, whole, samples) for _ in range(2)]
        for _ in range(self.flags.warm_up + self.flags.steps):
            pair.step()
            for copy in copies:  # both at once
                copy.begin_step()
            for copy in copies:
                copy.end_step()
        alone = [copies[0]]
        for _ in range(self.flags.steps // 3):
            alone[0].step()
        for side in (pair, *copies):
            side.end()
        first = self.flags.warm_up
        steps = slice(first, first + self.flags.steps)
        shares = [0.5 * statistics.mean(copy) / own for own, *copy in zip(pair.times[steps], *(copy.times[steps] for copy in copies))]
        low, high = raw_speed.interval(shares)
        step, single = statistics.median(pair.times[steps]), statistics.median(copies[0].times[first + self.flags.steps:])
        row = {"model": name, "mini_batch": samples, "plan": plan, "is": words, "step_ms": 1e3 * step, "share": statistics.median(shares),
               "low": low, "high": high, "least": least, "predicted": predicted / step - 1, "single_ms": 1e3 * single,
               "single_predicted": predicted_alone / single - 1, "ok": statistics.median(shares) >= least}
        self.rows.append(row)
        self.print(row)

    def print(self, row):
        if self.flags.json:
            print(json.dumps(row), flush=True)
            return
        if len(self.rows) == 1:
            print(f"| {' | '.join(self.COLUMNS)} |\n|{'---|' * len(self.COLUMNS)}")
        print(f"| {' | '.join(self.cells(row))} |", flush=True)

    def cells(self, row):
        return [row["model"], str(row["mini_batch"]), row["plan"], row["is"], f"{row['step_ms']:.1f}", f"{row['share']:.3f}",
                f"{row['low']:.3f}–{row['high']:.3f}", f"{row['least']:.2f}", f"{100 * row['predicted']:+.1f} %", f"{row['single_ms']:.1f}",
                f"{100 * row['single_predicted']:+.1f} %", "" if row["ok"] else "below"]


def plan_in_words(bundle):
    """Stages, replicas and micro-batches, from the plan's text."""
    text = (bundle / "plan.rir").read_text()
    stages = re.findall(r"^stage .*?devices \[([^\]]*)\]", text, re.MULTILINE)
    micro = re.search(r"^training .*micro_batches \[([^\]]*)\]", text, re.MULTILINE).group(1)
    replicas = ":".join(str(sum(map(ordinals, each.split(",")))) for each in stages)
    return f"{replicas} at {len(micro.split(','))}"


def ordinals(text):
    """`d3` is one, `d0-d1` are two."""
    first, *last = re.findall(r"\d+", text)
    return int(last[0]) - int(first) + 1 if last else 1


def arguments(text, exporter):
    """A parser of what the scripts of several plans take; `exporter` is the default."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(raw_models.SMALL))
    parser.add_argument("--exporters", type=lambda text: text.split(",")[:1], default=[exporter], help="one")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=4, help="rounds that are not counted")
    parser.add_argument("--json", action="store_true", help="an object a line")
    parser.set_defaults(device="cpu", float_type="float32")  # of raw_speed's bench
    return parser


def main():
    flags = arguments(__doc__, "legacy").parse_args()
    bench = Bench(flags)
    for name, samples, plan, more, least in ROWS:
        if name in flags.only:
            bench.run(name, samples, plan, more, least)
    errors = [abs(row["predicted"]) for row in bench.rows] + [abs(row["single_predicted"]) for row in bench.rows]
    print(f"predicted steps: {100 * statistics.mean(errors):.1f} % off in the mean, {100 * max(errors):.1f} % at worst")
    sys.exit(0 if all(row["ok"] for row in bench.rows) else 1)


if __name__ == "__main__":
    main()
