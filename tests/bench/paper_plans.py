"""Plans of the papers' models and profiles, for the benchmarks that compare them with what the papers print."""
import json
import pathlib
import re
import statistics
import subprocess
import sys

import own_programs


class Plan:
    """What rannc-compile --summary json reports, and the predictions of devices if there is an ir plan."""

    def __init__(self, summary, text="", report=""):
        self.step = summary["step_ns"] / 1e9
        self.stages, self.micro_batches, self.schedule = summary["stages"], summary["micro_batches"], summary["schedule"]
        self.mini_batch, self.seconds = summary["mini_batch"], summary["seconds"]
        devices = re.findall(r"^predict d\d+ busy_ns (\d+) peak_bytes (\d+)$", text, re.MULTILINE)
        self.busy = [int(busy) / 1e9 for busy, _ in devices]
        self.peaks = [int(peak) for _, peak in devices] or [stage["peak_bytes"] for stage in self.stages for _ in stage["devices"]]
        # (value, sending stage, receiving stage, bytes of a sample in both directions)
        self.routes = [(name, int(source), int(reader), int(size) * (2 if gradient else 1)) for name, source, reader, size, gradient in
                       re.findall(r"^route \d+ %(\S+) @s(\d+) -> @s(\d+) bytes \[(\d+)\*batch\](?: .*?)?(gradient)?$", text, re.MULTILINE)]
        # Of --compare asynchronous: the speed-up of PipeDream-2BW over this plan, and the bytes of its fullest device.
        buffered = re.search(r"^ *PipeDream-2BW +[\d.]+ \w+ +([\d.]+) +\d+ +\d+ +([\d.]+) ([KMG]iB)", report, re.MULTILINE)
        self.two_versions = buffered and (float(buffered.group(1)), float(buffered.group(2)) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[buffered.group(3)])

    @property
    def rate(self):
        return self.mini_batch / self.step

    @property
    def shape(self):
        counts = [len(stage["devices"]) for stage in self.stages]
        if len(counts) > 8 and set(counts) == {1}:
            return f"straight {len(counts)}"
        ends = [stage["blocks"][1] for stage in self.stages[:-1]] if "blocks" in self.stages[0] else []
        return ":".join(map(str, counts)) + (" at " + ",".join(map(str, ends)) if ends else "")


    @property
    def layers_before_cut(self):
        """Layers that send over the first cut or lie before it. Reduction cells of AmoebaNet-36 are no layers (DAPPLE, Table 4)."""
        sent = [re.match(r"(layer|cell)\.(\d+)\.(?!attention)", name) for name, source, _, _ in self.routes if source == 0]
        last = max(int(name.group(2)) for name in sent if name)
        cells = any(name and name.group(1) == "cell" for name in sent)
        return last + 1 - (sum(last >= reduction for reduction in (0, 1, 14, 27)) if cells else 0)

    def ratio_of_messages(self, rate):
        """ACR as in Papers.ratio_of_messages, of one device's share of a micro-batch."""
        samples = self.mini_batch / self.micro_batches / len(self.stages[0]["devices"])
        cuts = [samples * sum(size for _, source, reader, size in self.routes if source <= cut < reader) for cut in range(len(self.stages) - 1)]
        return statistics.mean(cuts) / rate / (statistics.mean(stage["forward_ns"] + stage["backward_ns"] for stage in self.stages) / 2e9)


class Plans(own_programs.OwnPrograms):
    """Plans of the zoo's models, written to `flags.folder` without weights, and of the profiles in `flags.shared`."""

    def model(self, *arguments):
        path = self.folder / f"{'-'.join(map(str, arguments)).replace('--', '')}.onnx"
        if not path.exists():
            self.run("rannc-zoo", *arguments[:1], "-o", path, *arguments[1:], "--without-weights")
        return path

    def plan(self, file, *flags):
        """The plan; nothing where none exists."""
        is_model = pathlib.Path(file).suffix == ".onnx"
        out = self.folder / "plan.rir"
        command = [pathlib.Path(self.flags.bin) / "rannc-compile", file, "--summary", "json", *flags]
        if is_model:
            # None of the papers' frameworks shards the state of optimizers.
            command += ["--without-weights", "--costs", "analytic", "--shard-optimizer", "off", "--emit", "plan", "-o", out, "--replace"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode == 1 and re.search("there is no plan|no plan", done.stderr):
            return None
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return Plan(json.loads(done.stdout.splitlines()[-1]), out.read_text() if is_model else "", done.stdout + done.stderr)

    def profile(self, name):
        return pathlib.Path(self.flags.shared) / "data" / name

    def parameters(self, model):
        said = self.run("rannc-compile", model, "--without-weights", "--emit", "graph")
        total = 0
        for sizes in re.findall(r"^parameter %\S+: f32\[([\d,]*)\]", said, re.MULTILINE):
            count = 1
            for size in filter(None, sizes.split(",")):
                count *= int(size)
            total += count
        return total
