"""Our figures beside those that the papers print.

    python tests/bench/papers.py BIN FOLDER [--shared ../shared] [--only dapple_5] [--json]

Everything is planned for the papers' clusters with analytic costs (models of the zoo, written to FOLDER without weights) or with the
published profiles of SHARED. A row has our figure, the paper's, their ratio and, where the ratio is not explained by the figures
themselves, its cause. An em dash stands for a figure that the paper does not print, or a plan that does not exist.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics

import paper_plans

GIB = 2**30
BERT_LOSS = "cross_entropy(output=logits,labels=words)+cross_entropy(output=next_sentence,labels=next)"
ANALYTIC = "analytic rates of a device, not its kernels"
Row = collections.namedtuple("Row", "case figure ours paper cause", defaults=("",))


class Papers(paper_plans.Plans):
    # torchgpipe

    def unet(self, blocks, channels, devices, batch, *flags, cluster="torchgpipe-8"):
        model = self.model("unet", "--blocks", blocks, "--channels", channels)
        return self.plan(model, "--loss", "mse(output=mask,labels=target)", "--optimizer", "sgd", "--cluster", cluster, "--devices", devices,
                         "--stages", devices, "--mini-batch", batch, "--schedule", "gpipe", *flags)

    def torchgpipe_1(self):
        """Table 1: what portals are worth, in a U-Net (5, 64) of four stages; the paper does not print how many it used."""
        flags = ["--loss", "mse(output=mask,labels=target)", "--optimizer", "sgd", "--cluster", "torchgpipe-8", "--devices", 4, "--stages", 4, "--mini-batch",
                 512, "--micro-batches", 16, "--schedule", "gpipe", "--recompute", "except-last"]
        relayed, direct = (self.plan(self.model("unet", "--blocks", 5, "--channels", 64, *more), *flags) for more in (["--relay-skips"], []))
        yield Row("dependency", "speed-up", None, 1.347, "our rows of actions are an order; there is no run without it")
        yield Row("streams", "speed-up", None, 1.336, "our messages always overlap computation")
        yield Row("portals", "speed-up", direct.rate / relayed.rate, 58.477 / 55.191, "our model without portals also adds at each level")
        for name, plan, share, gib in (("without portals", relayed, 71, 30.0), ("with portals", direct, 75, 23.5)):
            cause = "the paper prints neither devices nor mini-batch of this table; ours are those of Pipeline-4"
            yield Row(name, "utilisation, %", 100 * sum(plan.busy) / (4 * plan.step), share, cause)
            yield Row(name, "memory of all devices, GiB", sum(plan.peaks) / GIB, gib, cause)

    def torchgpipe_2(self):
        """Table 2: AmoebaNet-D (18, 256), relative to two stages and one micro-batch; all are recomputed."""
        printed = {1: (1, 1.00, 0.93), 4: (1.54, 1.67, 2.62), 32: (1.77, 2.71, 4.95)}
        model = self.model("amoebanet", "--layers", 18, "--filters", 256)
        base = None
        for micro_batches, speeds in printed.items():
            for devices, paper in zip((2, 4, 8), speeds):
                best = 0
                for batch in (32, 64, 128, 256, 512):
                    plan = self.plan(model, "--loss", "cross_entropy(output=logits,labels=y)", "--optimizer", "sgd", "--cluster", "torchgpipe-8",
                                     "--devices", devices, "--stages", devices, "--replicas", ",".join(["1"] * devices), "--mini-batch", batch,
                                     "--micro-batches", micro_batches, "--schedule", "gpipe", "--recompute", "always", "--planner", "auto")
                    best = max(best, plan.rate if plan else 0)
                base = base or best
                yield Row(f"{devices} stages, {micro_batches} micro-batches", "speed-up", best and best / base, paper,
                          "" if 0.9 < best / base / paper < 1.1 else "each column is relative to its own base, whose cut differs")

    def torchgpipe_3(self):
        """Table 3: memory of U-Nets, mini-batch 32."""
        rows = [("Naive-1", 6, 72, 1, 0.3622, 20.3), ("Pipeline-1", 11, 128, 1, 2.21, 20.5), ("Pipeline-2", 24, 128, 2, 4.99, 43.4),
                ("Pipeline-4", 24, 160, 4, 7.80, 79.1), ("Pipeline-8", 48, 160, 8, 15.82, 154.1)]
        for name, blocks, channels, devices, billions, gib in rows:
            naive = name.startswith("Naive")
            flags = ["--micro-batches", 1, "--recompute", "never"] if naive else ["--recompute", "except-last"]
            plan, cause = self.unet(blocks, channels, devices, 32, *flags), "the paper fills each device; ours is what the fastest plan needs"
            if plan is None:
                plan = self.unet(blocks, channels, devices, 32, *flags, "--memory", "23GiB", cluster=f"flat:{devices}")
                cause = f"its fullest device needs {max(plan.peaks) / GIB:.2f} GiB, not 22"
            model = self.model("unet", "--blocks", blocks, "--channels", channels)
            yield Row(f"{name} ({blocks}, {channels})", "parameters, 1e9", self.parameters(model) / 1e9, billions)
            yield Row(f"{name} ({blocks}, {channels})", "memory of all devices, GiB", sum(plan.peaks) / GIB, gib, cause)

    def torchgpipe_4(self):
        """Table 4: throughput of U-Net (5, 64) relative to one device."""
        rows = [("Pipeline-1", 1, 80, 2, 0.858), ("Pipeline-2", 2, 512, 32, 1.246), ("Pipeline-4", 4, 512, 16, 2.352), ("Pipeline-8", 8, 640, 40, 3.105)]
        naive = self.unet(5, 64, 1, 40, "--micro-batches", 1, "--recompute", "never")
        yield Row("Naive-1", "images/s", naive and naive.rate, 28.5, ANALYTIC)
        for name, devices, batch, micro_batches, speed_up in rows:
            plan = self.unet(5, 64, devices, batch, "--micro-batches", micro_batches, "--recompute", "except-last")
            yield Row(name, "speed-up", plan and naive and plan.rate / naive.rate, speed_up,
                      "the paper's devices idle while Python issues kernels and small micro-batches run below their rate" if devices > 1 else "")

    # DAPPLE

    # By model the published profile or the model of the zoo, and the mini-batch of Table 4.
    DAPPLE = {"GNMT-16": ("gnmt-16-pbs-64", 1024), "BERT-48": ("bert-48-pbs-2", 64), "XLNet-36": ("xlnet-36-pbs-1", 128),
              "XLNet-36, our graph": (["xlnet"], 128), "VGG-19": ("vgg-19-pbs-32", 2048),
              "AmoebaNet-36": (["amoebanet", "--layers", 36, "--filters", 512], 128)}
    LOSSES = {"xlnet": "cross_entropy(output=start,labels=first)+cross_entropy(output=end,labels=last)",
              "amoebanet": "cross_entropy(output=logits,labels=y)"}

    def dapple(self, name, cluster, *flags, batch=None):
        source, own = self.DAPPLE[name]
        base = ["--cluster", cluster, "--mini-batch", batch or own, *flags]
        if isinstance(source, list):
            return self.plan(self.model(*source), *base, "--loss", self.LOSSES[source[0]], "--optimizer", "adam", "--recompute", "never")
        # As in the planner's own experiments no memory is short: the profiles' activations include what recompute drops.
        return self.plan(self.profile(f"dapple/{source}.txt"), *base, "--memory", "32TiB")

    def dapple_3(self):
        """Table 3: P_B over P_A on two servers of config A."""
        for name, paper in (("BERT-48", 1.0), ("XLNet-36", 1.02), ("XLNet-36, our graph", 1.02), ("VGG-19", 1.1), ("GNMT-16", 1.31)):
            policies = [self.dapple(name, "dapple-a", "--stages", 2, "--replicas", "8,8", "--schedule", schedule) for schedule in ("1f1b", "dapple-b")]
            yield Row(name, "throughput of P_B over P_A, 8:8", policies[0].step / policies[1].step, paper,
                      "our messages overlap computation under P_A too" if name == "GNMT-16" else "")

    def ratio_of_messages(self, name, cluster, plan):
        """ACR: both messages of a cut over the mean pass of a stage, of the samples of one device; mean over the cuts. The paper prints
        no formula; with the time of both passes, all ratios would be half."""
        file, _ = self.DAPPLE[name]
        rate = 1.25e9 if cluster == "dapple-c" else 3.125e9
        if isinstance(file, list):
            return plan.ratio_of_messages(rate)
        ends = [stage["blocks"][1] for stage in plan.stages[:-1]]
        nodes, edges = {}, []
        for line in self.profile(f"dapple/{file}.txt").read_text().splitlines():
            parts = [part.strip() for part in line.split(" -- ")]
            if line[:1].isspace() and len(parts) == 2:
                edges.append(parts)
            elif len(parts) > 2:
                numbers = dict(re.findall(r"(\w+)=(\[.*?\]|[^,]+)", parts[2]))
                nodes[parts[0]] = (sum(float(numbers[f"{way}_compute_time"]) for way in ("forward", "backward")) / 1e3,
                                   sum(map(float, re.findall(r"[\d.e+]+", numbers["activation_size"]))), parts[1])
        order = sorted((node for node in nodes if not nodes[node][2].startswith("Input")), key=lambda node: int(node[4:]))
        place = {node: i for i, node in enumerate(order)}
        stages = [sum(nodes[node][0] for node in order[first:end]) for first, end in zip([0, *ends], [*ends, len(order)])]
        cuts = [sum(nodes[node][1] for node in {left for left, right in edges if left in place and place[left] < end <= place.get(right, -1)})
                for end in ends]
        return 2 * statistics.mean(cuts) / rate / (statistics.mean(stages) / 2)

    def dapple_4(self):
        """Table 4: plans on 16 devices of each cluster, and their ratio of messages to computation (ACR)."""
        xlnet = (("8:8", 0.03), ("8:8", 0.03), ("straight", 0.67))
        printed = {"VGG-19": (("DP", None), ("DP", None), ("15:1", 0.40)), "GNMT-16": (("8:8", 0.10), ("8:8", 0.10), ("straight", 3.75)),
                   "BERT-48": (("8:8", 0.06), ("straight", 0.50), ("straight", 1.25)), "XLNet-36": xlnet, "XLNet-36, our graph": xlnet,
                   "AmoebaNet-36": (("8:8", 0.18), ("11:5", 0.14), ("11:5", 0.35))}
        for name, plans in printed.items():
            for config, (shape, acr) in zip("abc", plans):
                released = self.dapple(name, f"dapple-{config}", "--planner", "dapple-released")
                auto = self.dapple(name, f"dapple-{config}")
                case, own = f"{name} on {config.upper()}", isinstance(self.DAPPLE[name][0], list)
                yield Row(case, "plan of dapple-released; of auto", f"{released.shape}; {auto.shape} {auto.schedule}", shape,
                          f"auto takes {auto.step / released.step:.3f} of its time" + ("; analytic rates, not the authors' times" if own else ""))
                if not released.shape.startswith(shape):
                    continue
                if own:
                    before = released.layers_before_cut
                    yield Row(case, "split of dapple-released", f"{before}:{36 - before}", "24:12" if "Amoeba" in name else "18:18",
                              "analytic times of cells grow less towards the end" if "Amoeba" in name else "")
                if acr:
                    found = self.ratio_of_messages(name, f"dapple-{config}", released)
                    yield Row(case, "ACR of dapple-released", found, acr, "" if 0.9 < found / acr < 1.1 else
                              "the published profile of 18 cells counts an output twice where it crosses, as one of a pair and as a skip; ours once"
                              if "Amoeba" in name else "analytic rates, not the authors' times" if own else
                              "not explained: the paper does not print its cuts' bytes or its average")

    def dapple_5(self):
        """Table 5: BERT-48 in two stages on config B, micro-batches of 2."""
        printed = [("GPipe", "gpipe", "never", {2: (5.10, 12.1), 3: (None, None)}),
                   ("GPipe + RC", "gpipe", "always", {2: (4.00, 9.9), 5: (5.53, 13.2), 8: (None, None)}),
                   ("DAPPLE", "1f1b", "never", {2: (5.10, 10.6), 8: (7.60, 10.6), 16: (8.18, 10.6)}),
                   ("DAPPLE + RC", "1f1b", "always", {2: (4.24, 8.5), 8: (6.23, 8.5), 16: (6.77, 8.5)})]
        model = self.model("bert", "--layers", 48, "--width", 1024, "--sequence", 384)
        found = {}
        for name, schedule, recompute, cells in printed:
            for micro_batches, (rate, memory) in cells.items():
                plan = self.plan(model, "--loss", BERT_LOSS, "--optimizer", "adam", "--cluster", "dapple-b", "--devices", 2, "--stages", 2, "--mini-batch",
                                 2 * micro_batches, "--micro-batches", micro_batches, "--schedule", schedule, "--recompute", recompute)
                case = f"{name}, M = {micro_batches}"
                found[case] = plan.rate if plan else None, statistics.mean(plan.peaks) / 1e9 if plan else None
                fits_more = "" if rate else "out of memory in the paper; " + ("ours needs less" if plan else "here too")
                yield Row(case, "samples/s", found[case][0], rate, fits_more or ANALYTIC)
                yield Row(case, "mean peak, GB", found[case][1], memory, "" if not rate else "TensorFlow's pools and copies are not in our count")
        base = found["GPipe, M = 2"]
        for case, speed, memory in (("DAPPLE, M = 16", 1.6, 0.88), ("DAPPLE + RC, M = 16", None, 0.70)):
            yield Row(f"text of 6.5: {case} over GPipe, M = 2", "throughput", found[case][0] / base[0] if speed else None, speed)
            yield Row(f"text of 6.5: {case} over GPipe, M = 2", "mean peak", found[case][1] / base[1], memory,
                      "two micro-batches are in flight under either schedule; the paper's GPipe holds more")

    def bert(self, layers, width=1024, *flags):
        return self.model("bert", "--layers", layers, "--width", width, *flags)

    def dapple_7(self):
        """Table 7: the deepest BERT of width 1024 on V100 of 16 GB, everything recomputed."""
        for name, devices, paper in (("Native-1", 1, 48), ("Pipeline-2", 2, 106), ("Pipeline-4", 4, 215), ("Pipeline-8", 8, 428)):
            def fits(layers):
                return self.plan(self.bert(layers), "--loss", BERT_LOSS, "--optimizer", "adam", "--cluster", "dapple-a", "--devices", devices,
                                 "--stages", devices, "--mini-batch", 8 * devices, "--micro-batches", 4 * devices, "--recompute", "always",
                                 "--schedule", "1f1b", "--planner", "rannc")
            low, high = 1, 2 * paper
            while high - low > max(1, paper // 50):
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
            plan = fits(low)
            yield Row(name, "layers", low, paper, "16 bytes a parameter fill 16 GiB; a fiftieth of the paper's depth is not resolved")
            yield Row(name, "utilisation, %", 100 * sum(plan.busy) / (devices * plan.step), {1: 93, 2: 89, 4: 89, 8: 87}[devices],
                      "GPU utilisation counts kernels, ours the computation of 4 micro-batches a stage")

    def dapple_text(self):
        """6.3: hybrid over data parallelism with overlap; 6.6: over PipeDream's plans."""
        for config, paper in zip("abc", (1.71, 1.37, 1.79)):
            for batch in (128, None):
                ratios = {}
                for name, (source, _) in self.DAPPLE.items():
                    if isinstance(source, list):
                        continue
                    best = self.dapple(name, f"dapple-{config}", batch=batch)
                    parallel = self.dapple(name, f"dapple-{config}", "--stages", 1, "--replicas", 16, batch=batch)
                    ratios[name] = parallel.step / best.step
                yield Row(f"6.3, config {config.upper()}, {'mini-batches of 128' if batch else 'those of Table 4'}", "mean speed-up over DP",
                          statistics.mean(ratios.values()), paper, ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()) +
                          ("; below the profile's batch our times shrink in proportion, a GPU's do not" if batch else ""))
                if config == "c":
                    yield Row(f"6.3, config C, {'mini-batches of 128' if batch else 'that of Table 4'}", "speed-up over DP, GNMT-16", ratios["GNMT-16"], 2.32)
        parallel = self.dapple("AmoebaNet-36", "dapple-a", "--stages", 1, "--replicas", 16)
        yield Row("6.2, AmoebaNet-36", "data parallelism trains it", "yes" if parallel else "no", "no",
                  f"we count {max(parallel.peaks) / GIB:.1f} GiB for {parallel.micro_batches} micro-batches, the paper 20 GB for one sample" if parallel else "")
        worst = {}
        for cluster in ("dapple-a", "dapple-a-4x8"):
            for name, batch in (("VGG-19", 1024), ("AmoebaNet-36", 128), ("BERT-48", 128), ("XLNet-36", 128), ("XLNet-36, our graph", 128)):
                best, rival = self.dapple(name, cluster, batch=batch), self.dapple(name, cluster, "--planner", "pipedream", batch=batch)
                if best and rival:
                    worst[f"{name} on {cluster}"] = rival.step / best.step
        yield Row("6.6", "largest speed-up over PipeDream's plan", max(worst.values()), 3.23,
                  "both run under our schedule: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items()))

    # RaNNC

    BERTS = [(width, layers) for width in (1024, 1536, 2048) for layers in (24, 48, 96, 144, 192, 256)]

    def rannc_berts(self):
        """IV.B: which framework trains which BERT on 32 V100-32GB, mini-batch 256, and RaNNC beside GPipe-Hybrid."""
        reach = collections.defaultdict(lambda: 0)
        ratios, streamed = [], []
        for width, layers in self.BERTS:
            model = self.bert(layers, width)
            parameters = 12 * layers * width**2 + 30522 * width + 512 * width
            base = ["--loss", BERT_LOSS, "--optimizer", "adam", "--cluster", "rannc-4x8", "--mini-batch", 256]
            plans = {"RaNNC": self.plan(model, *base, "--planner", "rannc"),
                     "data parallelism": self.plan(model, *base, "--planner", "rannc", "--stages", 1, "--replicas", 32, "--recompute", "never")}
            hybrids = self.equal_stages(model, layers, *base, "--schedule", "gpipe")
            plans["GPipe-Hybrid"] = min(hybrids, key=lambda plan: plan.step, default=None)
            # A parameter of two stages would drift apart.
            streams = [plan.step / plan.two_versions[0] for plan in self.equal_stages(
                self.bert(layers, width, "--untied"), layers, *base, "--schedule", "1f1b", "--compare", "asynchronous")
                if plan.two_versions and plan.two_versions[1] < 32 * GIB]
            for name, plan in plans.items():
                if plan:
                    reach[name] = max(reach[name], parameters)
            if self.megatron_fits(width, layers):
                reach["Megatron-LM"] = max(reach["Megatron-LM"], parameters)
            if plans["RaNNC"] and plans["GPipe-Hybrid"]:
                ratios.append(plans["GPipe-Hybrid"].step / plans["RaNNC"].step)
            if streams:
                reach["PipeDream-2BW"] = max(reach["PipeDream-2BW"], parameters)
                streamed.append(min(streams) / plans["RaNNC"].step)
        for name, paper in (("RaNNC", 12.9), ("GPipe-Hybrid", 12.9), ("PipeDream-2BW", 12.9), ("Megatron-LM", 12.9 / 5), ("data parallelism", None)):
            yield Row(name, "largest BERT, 1e9 parameters", reach[name] / 1e9, paper,
                      "cost model: state divided by 32, activations recomputed, no accumulation" if name == "Megatron-LM" else "")
        yield Row("RaNNC over GPipe-Hybrid", "least, median and largest speed-up", f"{min(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.2f}",
                  "above 1", "our GPipe-Hybrid has our balanced cuts; it differs by equal replicas, fill and drain, and recompute")
        yield Row("RaNNC over PipeDream-2BW", "least, median and largest speed-up", f"{min(streamed):.2f}, {statistics.median(streamed):.2f}, {max(streamed):.2f}",
                  "comparable", "simulated (--compare asynchronous) with an untied head: no fill and drain, but equal replicas and recompute everywhere; "
                  f"RaNNC behind in {sum(ratio < 1 for ratio in streamed)} of {len(streamed)}")

    def equal_stages(self, model, layers, *flags):
        """Plans with 2, 4, 8 and 16 stages of equal replicas on 32 devices, everything recomputed."""
        plans = [self.plan(model, *flags, "--planner", "auto", "--stages", stages, "--replicas", ",".join([str(32 // stages)] * stages),
                           "--recompute", "always") for stages in (2, 4, 8, 16) if layers % stages == 0]
        return list(filter(None, plans))

    @staticmethod
    def megatron_fits(width, layers):
        """Tensor groups of 2^n devices, without accumulation, with checkpoints at layers; buffers of results are not divided (IV.B)."""
        parameters, sequence, heads = 12 * layers * width**2 + 31034 * width, 512, width // 64
        for group in (1, 2, 4, 8, 16, 32):
            samples = 256 // (32 // group)
            inside = samples * 4 * (sequence * width * 16 / group + 2 * heads / group * sequence**2 + 8 * sequence * width)
            if 16 * parameters / group + samples * 4 * sequence * width * layers + inside + samples * 4 * sequence * 30522 < 30 * GIB:
                return True
        return False

    def rannc_resnets(self):
        """IV.B: RaNNC beside GPipe-Model (eight stages, 64 micro-batches) on one node, mini-batch 128."""
        for depth in (50, 101, 152):
            model = self.model("resnet", "--depth", depth, "--width", 8)
            base = ["--loss", "cross_entropy(output=logits,labels=y)", "--optimizer", "sgd", "--momentum", 0.9, "--cluster", "rannc-1x8", "--mini-batch", 128]
            plan = self.plan(model, *base, "--planner", "rannc")
            rival = self.plan(model, *base, "--planner", "gpipe", "--stages", 8, "--micro-batches", 64, "--schedule", "gpipe", "--recompute", "always")
            parallel = self.plan(model, *base, "--planner", "rannc", "--stages", 1, "--replicas", 8, "--recompute", "never")
            yield Row(f"ResNet{depth}x8", "speed-up of RaNNC over GPipe-Model", plan and rival and rival.step / plan.step, "large margin",
                      "GPipe-Model does not fit" if not rival else f"{plan.shape}, {plan.micro_batches} micro-batches")
            yield Row(f"ResNet{depth}x8", "data parallelism trains it", "yes" if parallel else "no", "yes" if depth == 50 else "no")

    def rannc_coarsening(self):
        """IV.C: the search over atoms, width 1024, 32 devices."""
        for layers in (24, 48, 96):
            base = [self.bert(layers), "--loss", BERT_LOSS, "--optimizer", "adam", "--cluster", "rannc-4x8", "--mini-batch", 256, "--planner", "rannc"]
            blocks, atoms = self.plan(*base), self.plan(*base, "--blocks", 1000000)
            yield Row(f"{layers} layers", "throughput of atoms over blocks", atoms and blocks.step / atoms.step, 0.67 if layers == 48 else None,
                      "our sums of atoms are the prices of blocks too" if layers == 48 else "no result in 24 hours in the paper" if layers > 48 else "")
            yield Row(f"{layers} layers", "seconds of the search: blocks, atoms", f"{blocks.seconds:.2f}, {atoms.seconds:.2f}" if atoms else None, None)

    # Beaumont, Eyraud-Dubois, Shilova: bench-schedules recomputes the figures of its theorems, and tests check their proofs.

    def beaumont(self):
        """Periods of theorems 4 to 6, the curve of section 5.2, and plans beside exact solutions of the formal problem (3.2)."""
        for line in self.schedules():
            case, _, figure = line["file"].partition(": ")
            if case.startswith(("theorem", "chain", "5.2")) and line.get("published"):
                yield Row(case, "period", line["objective"], line["published"], line.get("note", ""))
            if case.startswith("formal"):
                yield Row(case, figure, line["objective"], None, line["note"])


    # Qi et al., whose times are published

    def zero_bubble(self):
        """Zero Bubble Pipeline Parallelism, Table 5 by the times of Table 9, 3p micro-batches, and the memory of V schedules."""
        for line in self.schedules():
            name = re.match(r"zero bubble (\S+) m=(\d+): (.*)", line["file"])
            if name and int(name.group(2)) == 3 * line["devices"]:
                yield Row(f"{name.group(1)}, p = {line['devices']}, m = {name.group(2)}", name.group(3), line["objective"], line["published"],
                          "no step waits for others in the paper; " + line["note"] if name.group(3).endswith("2p") else "")
            name = re.match(r"(v-half|v-min) m=24 F/I/W 1/1/1 ", line["file"])
            if name:
                p, peak = line["devices"], float(re.match(r"peak (\S+)", line["note"]).group(1))
                yield Row(f"{name.group(1)}, p = {p}", "peak, micro-batches", peak, (p + 2) // 2 if name.group(1) == "v-half" else (p + 4) // 3)

    def schedules(self):
        return map(json.loads, self.run("bench-schedules", "--json", "--seconds", 0, "--devices", 8).splitlines())


TABLES = [name for name, method in vars(Papers).items() if callable(method) and
          name.startswith(("torchgpipe_", "dapple_", "rannc_", "beaumont", "zero_bubble"))]


def cell(value):
    return "—" if value is None else f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def ratio(row):
    numbers = [isinstance(value, (int, float)) for value in (row.ours, row.paper)]
    return row.ours / row.paper if all(numbers) and row.paper else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--shared", default=pathlib.Path(__file__).resolve().parents[3] / "shared")
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--json", action="store_true", help="an object per row")
    flags = parser.parse_args()
    papers = Papers(flags)
    for name in [flags.only] if flags.only else TABLES:
        if not flags.json:
            title = getattr(Papers, name).__doc__ or ""
            print(f"\n### {name}\n{title}\n\n| case | figure | ours | paper | ratio | cause |\n|---|---|---|---|---|---|")
        for row in getattr(papers, name)():
            if flags.json:
                print(json.dumps({"table": name, **row._asdict(), "ratio": ratio(row)}), flush=True)
            else:
                print(f"| {row.case} | {row.figure} | {cell(row.ours)} | {cell(row.paper)} | {cell(ratio(row))} | {row.cause} |", flush=True)


if __name__ == "__main__":
    main()
