"""Steps of bundles beside PyTorch's: alone and in turns, kernel by kernel, with peaks and predictions.

Bundles come without weights (tests/bench/raw_bundle.py). Both sides copy the mini-batch from pinned host memory in every step.
"""
import json
import shutil
import statistics
import subprocess
import sys
import time

from . import models
from .lanes import LANE_ENVIRONMENT, WARM_UP, Job, Lanes, run_process
from .report import NOT_REACHED, OUT_OF_TIME, REPORTED, Item, last_lines
from .sides import Ended, Side, compared

SECONDS = 480  # of the part
MOST_ROUNDS, LEAST_ROUNDS = 20, 5
OF_WINDOW = 0.3  # for the rounds in turns, as much for the sides alone, the rest for profiles
KERNELS_LISTED, NAME_LENGTH = 80, 160
LOSSES_APART = {"float32": (1e-5, 1e-3), "tf32": (1e-3, 1e-2), "bfloat16": (1e-2, 2e-2)}  # of the first step, of the second
CONTEXT_BYTES, OF_OURS, OF_RIVALS = 2 << 30, 1.1, 1.3  # of a process, beside and over the predicted bytes


def bytes_of_gpu():
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                               check=True).stdout
        return int(found.splitlines()[0]) << 20
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError):
        return 64 << 30


class Speed:
    def __init__(self, run, groups):
        self.run, self.groups = run, groups
        self.bench, self.filled = run.root / "bench", run.root.parent / "filled"
        self.gpu_bytes = bytes_of_gpu()
        self.lanes, self.fills = Lanes(models.LANES, 0.95 * self.gpu_bytes), {}
        self.rivals_device = run.device if run.on_gpu else "cpu"

    # --- sides

    def facts(self, bundle):
        """What `--prepare` wrote of a bundle."""
        return json.loads((self.run.root / "bundles" / bundle / "bench.json").read_text())

    def files(self, bundle):
        return self.filled / f"{bundle}.rannc", self.filled / f"{bundle}.safetensors"

    def filled_bundle(self, bundle):
        """The job that gives a bundle its weights; they are kept for other parts."""
        if bundle not in self.fills:
            facts, (path, data) = self.facts(bundle), self.files(bundle)

            def start(started):
                if path.exists():
                    return
                part = path.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                shutil.copytree(self.run.root / "bundles" / bundle, part)
                run_process(f"weights of {bundle}", [sys.executable, "-B", self.bench / "raw_bundle.py", "fill", facts["model"], part,
                                                     "--float-type", facts["float_type"], "--data", data, "--samples", facts["samples"],
                                                     "--device", self.rivals_device], started)
                run_process(f"manifest of {bundle}", [self.run.root / "bin/bench-steps", part, "--renew-manifest"], started)
                part.rename(path)
            self.fills[bundle] = self.lanes.add(Job(f"weights of {bundle}", CONTEXT_BYTES, models.READY["fill"][1], start))
        return self.fills[bundle]

    def ours(self, bundle, more):
        facts, (path, data) = self.facts(bundle), self.files(bundle)
        precision = ["--matmul-precision", "high"] if facts["precision"] == "high" else []
        return [self.run.root / "bin/bench-steps", path, "--data", data, "--optimizer", facts["optimizer"], "--learning-rate",
                facts["learning_rate"], "--device", self.run.device, *precision, *more]

    def rival(self, bundle, mode):
        facts, (path, data) = self.facts(bundle), self.files(bundle)
        return [sys.executable, "-B", self.bench / "raw_eager.py", facts["model"], data, self.rivals_device, "--float-type", facts["float_type"],
                "--mode", mode, "--weights", path / "stage0.safetensors", "--layout", facts["layout"], "--precision", facts["precision"],
                "--lock", self.filled / "timing.lock"]

    def jobs_of(self, group):
        """{side: job}, ours first."""
        found = {}
        bytes_of = lambda bundle, over: self.facts(bundle)["predicted_bytes"] * over + CONTEXT_BYTES
        for side, (bundle, more) in group.ours.items():
            start = lambda started, side=side, bundle=bundle, more=more: Side(side, self.ours(bundle, more), started=started)
            found[side] = Job(f"{group.name}: {side}", bytes_of(bundle, OF_OURS), models.READY["ours"][1], start, [self.filled_bundle(bundle)])
        for mode in group.rivals if self.run.compiles else [rival for rival in group.rivals if rival == "eager"]:
            start = lambda started, mode=mode: Side(mode, self.rival(group.bundle(), mode), LANE_ENVIRONMENT, started=started)
            found[mode] = Job(f"{group.name}: {mode}", bytes_of(group.bundle(), OF_RIVALS), models.READY[mode][1], start,
                              [self.filled_bundle(group.bundle())])
        for job in found.values():
            self.lanes.add(job)
        return found

    # --- the part

    def measure_all(self):
        """Groups as they get ready, earlier ones first. At the end of the time, those of which something is ready."""
        self.filled.mkdir(exist_ok=True)
        waiting = {}
        for group in self.groups:
            try:
                waiting[group] = self.jobs_of(group)
            except OSError as failure:
                self.give_up(group, f"not carried: {failure}")
        try:
            while waiting and self.run.left() > 0:
                self.lanes.dispatch()
                ready = [group for group, jobs in waiting.items() if self.is_ready(group, jobs)]
                if not ready:
                    time.sleep(0.02)
                    continue
                jobs = waiting.pop(ready[0])
                self.measure(ready[0], jobs)
                self.lanes.end(jobs.values())
        finally:
            self.lanes.end(self.lanes.jobs)
        for group in waiting:
            self.give_up(group, OUT_OF_TIME)
        self.print_summary()

    def print_summary(self):
        """One line per group: ms of kernels of each side."""
        for name, sides in self.run.tables.items():
            print(f"{name}: kernels " + ", ".join(f"{side} {table['kernel_ms']:.2f} ms" for side, table in sides.items()), flush=True)

    def is_ready(self, group, jobs):
        """Whether all sides are ready or failed. When just the measurement fits into the time, torch.compile's need not be."""
        late = self.run.left() < group.window
        return all(job.is_done() for side, job in jobs.items() if not late or side in group.ours or side == "eager")

    def give_up(self, group, why):
        self.run.item = Item(group.name, group.seconds())
        self.run.list_missing(group.rows(), why)

    def measure(self, group, jobs):
        ready = {side: job for side, job in jobs.items() if job.state == "ready"}
        lost = {side: job.why or OUT_OF_TIME for side, job in jobs.items() if side not in ready}
        own = next(iter(group.ours))
        if own not in ready:
            return self.give_up(group, f"{own}: {lost[own]}")
        begin = time.monotonic()
        try:
            with self.lanes.alone(list(ready.values())):
                taken = self.numbers(group, {side: job.side for side, job in ready.items()})
        except Ended as failure:
            return self.give_up(group, last_lines(str(failure)))
        self.run.item = Item(group.name, group.seconds())
        self.run.tables[group.name] = {side: listed(found["profile"]) for side, found in taken.items() if found["profile"]}
        Verdicts(self, group, taken, lost).write()
        print(f"   {group.name}: {time.monotonic() - begin:.1f} s of measurement, {self.run.left():.0f} s left", flush=True)
        self.give_up(group, NOT_REACHED)

    def numbers(self, group, sides):
        """{side: numbers}. Rounds are as many as the window has time for."""
        round_seconds = sum(side.times[-1] for side in sides.values())
        rounds = int(min(MOST_ROUNDS, max(LEAST_ROUNDS, OF_WINDOW * min(group.window, self.run.left()) / round_seconds)))
        alone = {}
        for name, side in sides.items():
            for _ in range(rounds):
                side.step()
            alone[name] = statistics.median(side.times[-rounds:])
        order = list(sides.values())
        for _ in range(rounds if group.rivals else 0):
            for side in order:
                side.step()
            order.reverse()
        found = {}
        for name, side in sides.items():
            found[name] = {"side": side, "alone": alone[name], "rounds": rounds, "peak": side.peak()}
        for name, side in sides.items():
            found[name]["profile"] = side.profile() if self.run.left() > 0 else None
        return found


def listed(profile):
    """A table of kernels for the report: milliseconds and calls of a step, largest first."""
    by_name = {}
    for name, (seconds, calls) in profile["kernels"].items():
        entry = by_name.setdefault(name.split(" [")[0][:NAME_LENGTH], [0, 0])
        entry[0] += 1e3 * seconds
        entry[1] += calls
    order = sorted(by_name.items(), key=lambda entry: -entry[1][0])
    rest = order[KERNELS_LISTED:]
    rows = [[name, round(ms, 4), round(calls, 2)] for name, (ms, calls) in order[:KERNELS_LISTED]]
    if rest:
        rows.append(["others", round(sum(ms for _, (ms, _) in rest), 4), round(sum(calls for _, (_, calls) in rest), 2)])
    return {"step_ms": 1e3 * profile["seconds"], "kernel_ms": 1e3 * kernel_seconds(profile), "kernels": rows}


def kernel_seconds(profile):
    return sum(seconds for seconds, _ in profile["kernels"].values())


class Verdicts:
    """The rows of a group whose sides were measured."""

    def __init__(self, speed, group, taken, lost):
        self.run, self.group, self.taken, self.lost = speed.run, group, taken, lost
        self.gpu_bytes, self.facts = speed.gpu_bytes, speed.facts(group.bundle())
        self.own = taken[next(iter(group.ours))]
        self.eager = taken.get("eager")
        self.goals = dict(group.rows())

    def row(self, name, value, good=None, judged=True, **numbers):
        """`good`: None where the number is only reported."""
        name, judged = f"{self.group.name}: {name}", judged and self.run.on_gpu
        goal = self.goals.get(name)
        if goal is None:
            return
        if goal == REPORTED or good is None:
            self.run.row(name, None, goal, **({"value": value} if value is not None else {}), **numbers)
        else:
            self.run.judge(name, goal, value, good, judged, **numbers)

    def write(self):
        self.losses()
        self.losses_of_sides()
        self.kernels()
        for side in self.group.ours:
            self.alone(side)
        self.in_turns()
        self.bytes()
        self.predictions()

    def losses(self):
        name = f"{self.group.name}: losses"
        if not self.eager:
            return self.row("losses", None, bool, why=self.lost.get("eager", NOT_REACHED))
        kind = "tf32" if self.facts["precision"] == "high" else "bfloat16" if self.facts["precision"] == "autocast" else self.facts["float_type"]
        limits = LOSSES_APART[kind]
        apart = [abs(a - b) / abs(a) for a, b in zip(self.eager["side"].losses, self.own["side"].losses)][:len(limits)]
        if not self.group.judged:
            return self.run.row(name, None, REPORTED, apart=apart)
        self.run.row(name, all(off <= limit for off, limit in zip(apart, limits)), self.goals[name], apart=apart, limits=limits)

    def losses_of_sides(self):
        name = f"{self.group.name}: losses of all sides"
        if name in self.goals:
            steps = models.FIRST_STEPS if self.group.rivals else None
            apart = {side: max(abs(a - b) / abs(a) for a, b in zip(self.own["side"].losses[:steps], self.taken[side]["side"].losses))
                     for side in self.group.ours if side in self.taken}
            self.run.row(name, len(apart) == len(self.group.ours) and max(apart.values()) <= models.SIDES_APART, self.goals[name], **apart)

    def kernels(self):
        own = self.own["profile"] and kernel_seconds(self.own["profile"])
        theirs = self.eager and self.eager["profile"] and kernel_seconds(self.eager["profile"])
        self.row("PyTorch's kernels / ours", theirs / own if own and theirs else None, lambda ratio: ratio >= models.KERNELS,
                 **{key: 1e3 * value for key, value in [("ours_ms", own), ("eager_ms", theirs)] if value})
        updates = [entry for name, entry in (self.own["profile"] or {"kernels": {}})["kernels"].items() if "update_chunks" in name]
        if seconds := sum(taken for taken, _ in updates):
            moved = self.facts["parameters"] * (16 if self.facts["float_type"] == "bfloat16" else 28)
            self.row("update kernel", None, ms=1e3 * seconds, gigabytes_per_second=1e-9 * moved / seconds)
        else:
            self.row("update kernel", None, why="the profile has none")

    def alone(self, side):
        found = self.taken.get(side)
        if not found:
            return self.row(f"{side} alone", None, why=self.lost[side])
        kernels = {"kernel_ms": 1e3 * kernel_seconds(found["profile"])} if found["profile"] else {}
        others = {f"{other}_ms": 1e3 * self.taken[other]["alone"] for other in self.group.rivals if other in self.taken}
        self.row(f"{side} alone", 1e3 * found["alone"], None, **kernels, **(others if found is self.own else {}))

    def in_turns(self):
        ratios = {}
        for rival in self.group.rivals:
            found = {"why": self.lost.get(rival, "--no-torch-compile")}
            if rival in self.taken:
                found = compared(self.taken[rival]["side"], self.own["side"], "times", WARM_UP + self.own["rounds"])
                ratios[rival] = found.pop("ratio")
            self.row(f"in turns with {rival}", ratios.get(rival), lambda ratio: ratio >= self.group.by_eager, **found)
        modes = {mode: ratio for mode, ratio in ratios.items() if mode != "eager"}
        best = min(modes, key=modes.get, default=None)
        self.row("in turns with the best of torch.compile", modes.get(best), lambda ratio: ratio >= models.BY_COMPILED,
                 **({"best": best} if best else {"why": "; ".join(f"{mode}: {self.lost.get(mode, '--no-torch-compile')}"
                                                                  for mode in self.group.rivals if mode != "eager")}))

    def bytes(self):
        peak, theirs = self.own["peak"], self.eager and self.eager["peak"]
        both = theirs and theirs["allocated"] and peak["allocated"]
        self.row("our peak / PyTorch's", peak["allocated"] / theirs["allocated"] if both else None, lambda ratio: ratio <= 1,
                 **({"ours": peak["allocated"], "eager": theirs["allocated"]} if both else {}))
        reserved = {side: found["peak"]["reserved"] for side, found in self.taken.items() if found["peak"]["reserved"]}
        allocated = {f"{side}_allocated": found["peak"]["allocated"] for side, found in self.taken.items() if found["peak"]["allocated"]}
        self.row("reserved bytes", None, **reserved, **allocated)
        why = peak.get("unrecorded")
        name = f"{self.group.name}: recorded"
        if name in self.goals:
            self.run.row(name, None if self.goals[name] == REPORTED else not why, self.goals[name], **({"why": "; ".join(why)} if why else {}))

    def predictions(self):
        peak, facts = self.own["peak"]["allocated"], self.facts
        within = lambda most: (lambda ratio: abs(ratio - 1) <= most)
        self.row("predicted step", 1e3 * self.own["alone"] / facts["predicted_ms"], within(models.STEP_OFF),
                 measured=1e3 * self.own["alone"], predicted=facts["predicted_ms"])
        self.row("predicted bytes", peak / facts["predicted_bytes"] if peak else None, within(models.MEMORY_OFF),
                 measured=peak, predicted=facts["predicted_bytes"])
        self.row("peak / the GPU's memory", peak / self.gpu_bytes if peak else None, lambda share: share > models.HALF)


def speed(run, groups):
    Speed(run, groups).measure_all()
