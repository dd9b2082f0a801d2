"""What each mechanism is worth: it is switched off, and everything else stays.

    python tests/bench/ablation.py BIN FOLDER [--rounds 5] [--steps 12] [--only fusion]

Measured rows run both sides in turns on this machine, on which nothing else should run: two workers for pipelines, else one. Planned rows
compare the compiler's predictions for a described cluster. Each row has one or more figures, off / on; above 1 the mechanism pays.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import sys

import own_programs

LOSS = "cross_entropy(output=logits,labels=targets)"
TEXT = "--text", pathlib.Path(__file__).parent
# Two nodes whose link takes about as long for an activation as a stage computes.
SLOW_LINK = """name = "slow"
[kind.v100]
memory_bytes = 34359738368
flops = 1.05e13
bandwidth = 7.2e11
launch_ns = 6000
[between]
bandwidth = {bandwidth}
latency_ns = 10000
[[node]]
count = {nodes}
inside = {{ bandwidth = 25e9, latency_ns = 5000 }}
devices = [{{ kind = "v100" }}]
"""


def median_ratio(off, on):
    """With the range over rounds."""
    ratios = sorted(a / b for a, b in zip(off, on, strict=True))
    return f"{statistics.median(off) / statistics.median(on):.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}]"


class Bench(own_programs.OwnPrograms):
    def model(self, *arguments):
        path = self.folder / f"{'-'.join(map(str, arguments)).replace('--', '')}.onnx"
        if not path.exists():
            self.run("rannc-zoo", *arguments[:1], "-o", path, *arguments[1:])
        return path

    def gpt(self):
        return self.model("gpt", "--layers", 6, "--width", 256, "--heads", 4, "--context", 64), "--loss", LOSS, "--mini-batch", 16

    def bundle(self, name, *flags):
        path = self.folder / f"{name}.rannc"
        self.run("rannc-compile", *flags, "-o", path, "--replace")
        return path

    def step(self, bundle, *flags):
        """Measured step, ms; predicted step, ms; the largest peak of a process, bytes."""
        text = self.run("rannc-run", bundle, *flags, "--steps", self.flags.steps, "--replace", "-o", self.folder / "run")
        measured, predicted = re.search(r"step measured ([\d.]+) ms, predicted ([\d.]+) ms", text).groups()
        return float(measured), float(predicted), max(int(held) for held in re.findall(r" held (\d+) bytes", text))

    def all_reduce(self, bundle, *flags):
        """Measured time of all sums of gradients once all replicas are there, ms."""
        self.step(bundle, *flags, "--late-sums", "--explain-step")
        head, *lines = [line.split("\t") for line in (self.folder / "run/actions.tsv").read_text().splitlines()]
        times = collections.Counter()
        for line in lines:
            if line[head.index("action")].startswith("AR"):
                times[line[head.index("device")]] += float(line[head.index("measured_messages")])
        return (min(times.values()) / 1e6,)

    def sides(self, off, on, *flags, step=None):
        """Results of both runs, each a bundle with flags of its own, in turns."""
        step = step or self.step
        results = [[], []]
        for turn in range(self.flags.rounds):
            for side in ((0, 1) if turn % 2 else (1, 0)):
                results[side].append(step(*(off, on)[side], *flags))
        return [list(zip(*side)) for side in results]

    def planned(self, *flags):
        """The plan's step, ms."""
        summary = json.loads(self.run("rannc-compile", *flags, "--costs", "analytic", "--emit", "plan", "--summary", "json",
                                      "-o", self.folder / "plan.rir", "--replace"))
        return summary["step_ns"] / 1e6

    def pipeline(self, schedule, *flags, micro_batches=8):
        return [*self.gpt(), "--cluster", "local:2", "--stages", 2, "--replicas", "1,1", "--micro-batches", micro_batches, "--schedule", schedule, *flags]

    def replicas(self):
        return [*self.gpt(), "--cluster", "local:2", "--replicas", 2, "--micro-batches", 1]

    # One method per mechanism; each yields (figure, value).

    def early_backward(self):
        off, on = (self.bundle(name, *self.pipeline(name, "--recompute", "never")) for name in ("gpipe", "1f1b"))
        (off_ms, _, off_held), (on_ms, _, on_held) = self.sides([off], [on], *TEXT)
        yield "peak memory, measured", median_ratio(off_held, on_held)
        yield "step, measured", median_ratio(off_ms, on_ms)

    def warm_up_depth(self):
        cluster = self.folder / "slow.toml"
        for bandwidth in (8e9, 4e9, 2e9):
            cluster.write_text(SLOW_LINK.format(nodes=4, bandwidth=bandwidth))
            flags = [*self.gpt()[:-1], 64, "--cluster", cluster, "--stages", 4, "--replicas", "1,1,1,1", "--micro-batches", 16]
            off, on = (self.planned(*flags, "--schedule", schedule) for schedule in ("1f1b", "latency"))
            yield f"step, planned, links of {bandwidth / 1e9:g} GB/s", f"{off / on:.3f}"

    def overlap_of_recompute(self):
        # Few micro-batches: a balanced pipeline waits for the first gradients only.
        bundle = self.bundle("recompute", *self.pipeline("gpipe", "--recompute", "always", micro_batches=2))
        (off_ms, *_), (on_ms, *_) = self.sides([bundle, "--late-recompute"], [bundle], *TEXT)
        yield "step, measured", median_ratio(off_ms, on_ms)

    def direct_skips(self):
        """Off: a model that hands its skips from level to level, with two adds at each, as models without portals do."""
        found = []
        for relayed in (["--relay-skips"], []):
            unet = self.model("unet", "--channels", 16, *relayed)
            step = self.planned(unet, "--loss", "bce_with_logits(output=mask,labels=target)", "--cluster", "torchgpipe-8", "--devices", 4, "--stages", 4,
                                "--replicas", "1,1,1,1", "--mini-batch", 16, "--micro-batches", 4)
            routes = re.findall(r"^route .*? bytes \[(\d+)\*batch\]", (self.folder / "plan.rir").read_text(), re.MULTILINE)
            found.append((sum(map(int, routes)), step))
        (off_bytes, off_ms), (on_bytes, on_ms) = found
        yield "bytes on links, planned, U-Net of 4 stages", f"{off_bytes / on_bytes:.3f}"
        yield "step, planned, U-Net of 4 stages", f"{off_ms / on_ms:.3f}"

    def bucketed_reduction(self):
        off, on = (self.bundle(f"replicas-{size}", *self.replicas(), "--bucket", size) for size in ("0", "4MiB"))
        for transport in ("shm", "gloo"):
            (off_ms, *_), (on_ms, *_) = self.sides([off], [on], *TEXT, "--transport", transport)
            yield f"step, measured, {transport}", median_ratio(off_ms, on_ms)
            (off_ms,), (on_ms,) = self.sides([off], [on], *TEXT, "--transport", transport, step=self.all_reduce)
            yield f"all-reduce, measured, {transport}", median_ratio(off_ms, on_ms)

    def overlap_of_sums(self):
        bundle = self.bundle("replicas", *self.replicas())
        for transport in ("shm", "gloo"):
            (off_ms, *_), (on_ms, *_) = self.sides([bundle, "--late-sums"], [bundle], *TEXT, "--transport", transport)
            yield f"step, measured, {transport}", median_ratio(off_ms, on_ms)

    def fusion(self):
        one = [*self.gpt(), "--cluster", "local:1", "--micro-batches", 1]
        for form in ("interpreted", "native"):
            off, on = (self.bundle(f"{form}-{name}", *one, "--form", form, *flags) for name, flags in (("plain", ["--no-fuse", "all"]), ("fused", [])))
            (off_ms, *_), (on_ms, *_) = self.sides([off], [on], *TEXT, "--transport", "local")
            yield f"step, measured, {form}", median_ratio(off_ms, on_ms)

    def kernel_choice(self):
        model = self.model("resnet", "--depth", 50, "--image", 64)
        flags = [model, "--loss", "cross_entropy(output=logits,labels=y)", "--cluster", "local:1", "--mini-batch", 8, "--micro-batches", 1]
        sides = [[], []]
        for turn in range(self.flags.rounds):
            for side in ((0, 1) if turn % 2 else (1, 0)):
                summary = json.loads(self.run("rannc-compile", *flags, "--kernels", ("default", "measured")[side], "--summary", "json",
                                              "-o", self.folder / "resnet.rannc", "--replace"))
                sides[side].append(summary["step_ns"])
        yield "step, measured by the compiler, ResNet-50", median_ratio(*sides)

    def side_by_side_measuring(self):
        off, on = (self.bundle(name, *self.pipeline("1f1b"), flag) for name, flag in (("unrefined", "--no-refine"), ("refined", "--refine")))
        (off_ms, off_plan, _), (on_ms, on_plan, _) = self.sides([off], [on], *TEXT)
        errors = [abs(plan[0] / statistics.median(ms) - 1) for ms, plan in ((off_ms, off_plan), (on_ms, on_plan))]
        yield "error of the predicted step, %", f"{100 * errors[0]:.1f} / {100 * errors[1]:.1f}"


MECHANISMS = ["early_backward", "warm_up_depth", "overlap_of_recompute", "direct_skips", "bucketed_reduction", "overlap_of_sums", "fusion", "kernel_choice", "side_by_side_measuring"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", choices=MECHANISMS)
    flags = parser.parse_args()
    bench = Bench(flags)
    print(f"{'mechanism':24} {'figure':44} off / on")
    for name in [flags.only] if flags.only else MECHANISMS:
        for figure, value in getattr(bench, name)():
            print(f"{name.replace('_', ' '):24} {figure:44} {value}", flush=True)


if __name__ == "__main__":
    main()
