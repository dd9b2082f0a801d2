"""The models whose training is timed, and the comparisons in which they stand, by importance."""
import dataclasses

from .report import REPORTED, Item, prediction_goal

# Goals. Ratios of times are PyTorch's / ours.
KERNELS, BY_EAGER, BY_COMPILED = 1.0, 1.0, 0.97
STEP_OFF, MEMORY_OFF = 0.05, 0.02  # of predictions
SIDES_APART = 0.02  # losses of sides of ours in bfloat16
FIRST_STEPS = 2  # of sides whose kernels round otherwise, which soon train apart
HALF = 0.5  # of the GPU's memory: the large model takes more
POOL_ENDS = 44 << 20  # bytes of a prediction that LibTorch reserves, but does not allocate: ir/program/allocator_blocks.h

LANES = 6  # processes that get ready at a time
# Seconds until a process has made its first steps, and the most that it gets.
READY = {"fill": (10, 90), "ours": (12, 90), "eager": (14, 90), "default": (60, 170), "reduce-overhead": (60, 170),
         "max-autotune": (120, 240)}


@dataclasses.dataclass(frozen=True)
class Bundle:
    """What `--prepare` compiles. `model`: of raw_models.py, and its stand-in for tests."""

    model: str
    tiny: str
    float_type: str = "bfloat16"
    precision: str = "highest"  # of products of float32: also `high` for TF32, `autocast` for mixed precision
    layout: str = "first"  # of PyTorch's images
    compile: tuple = ()
    export: str = "pt2"  # else onnx, by the newer exporter
    samples: int = 0  # of a mini-batch; 0: the model's
    of_memory: float = 0  # the predicted peak as a share of the GPU's memory, which sets the samples; 0: it sets nothing


BUNDLES = {}
for short, model, tiny, layout in [("gpt", "gpt2-medium", "gpt2-tiny", "first"), ("bert", "bert-large", "bert-tiny", "first"),
                                   ("resnet", "resnet50-224", "resnet-tiny", "last"), ("vit", "vit-b", "vit-tiny", "first")]:
    BUNDLES[f"{short}-bf16"] = Bundle(model, tiny, layout=layout)
    BUNDLES[f"{short}-tf32"] = Bundle(model, tiny, "float32", "high", layout)
BUNDLES |= {"resnet-bf16-first": Bundle("resnet50-224", "resnet-tiny", layout="last", compile=("--kernels", "default")),
            "gpt-bf16-unfused": Bundle("gpt2-medium", "gpt2-tiny", compile=("--no-fuse", "all")),
            "bert-bf16-onnx": Bundle("bert-large", "bert-tiny", export="onnx"),
            "gpt-autocast": Bundle("gpt2-medium", "gpt2-tiny", "float32", "autocast"),
            "gpt-dropout": Bundle("gpt2-medium-dropout", "gpt2-tiny-dropout"),
            "gpt-large": Bundle("gpt2-medium", "gpt2-tiny", of_memory=0.6)}
SMALL = {"gpt2": 8, "bert": 16, "vit": 16, "resnet50": 16, "lstm": 16}
for model, samples in SMALL.items():
    tiny = {"gpt2": "gpt2-tiny", "resnet50": "resnet-tiny"}.get(model, f"{model}-tiny")
    BUNDLES[model] = Bundle(model, tiny, "float32", samples=samples, layout="last" if model == "resnet50" else "first")


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Sides that are timed in turns. `ours`: {side: (bundle, flags of bench-steps)}; the first one is compared with the rivals."""

    name: str
    ours: dict
    rivals: tuple = ()  # `eager` and modes of torch.compile
    window: float = 8  # seconds of measurement
    judged: bool = True  # else all numbers are reported
    by_eager: float = BY_EAGER

    def bundle(self):
        return next(iter(self.ours.values()))[0]

    def seconds(self):
        """Others get ready meanwhile, so that a share of the lanes is what counts."""
        fills = len({bundle for bundle, _ in self.ours.values()})
        ready = fills * READY["fill"][0] + len(self.ours) * READY["ours"][0] + sum(READY[rival][0] for rival in self.rivals)
        return ready / LANES + self.window

    def rows(self):
        """(name, goal) of all rows, in their order."""
        name, found = self.name, []
        goal = lambda text: text if self.judged else REPORTED
        has_eager, modes = "eager" in self.rivals, [rival for rival in self.rivals if rival != "eager"]
        if has_eager:
            found += [(f"{name}: losses", goal("PyTorch's, in the first two steps")),
                      (f"{name}: PyTorch's kernels / ours", goal(f"≥ {KERNELS:g}"))]
        if len(self.ours) > 1:
            steps = f"the first {FIRST_STEPS}" if self.rivals else "all"
            found.append((f"{name}: losses of all sides", f"within {SIDES_APART:g} of the first, in {steps} steps"))
        found += [(f"{name}: {side} alone", REPORTED) for side in self.ours]
        if has_eager:
            found.append((f"{name}: in turns with eager", goal(f"≥ {self.by_eager:g}")))
        found += [(f"{name}: in turns with {mode}", REPORTED) for mode in modes]
        if modes and self.judged:
            found.append((f"{name}: in turns with the best of torch.compile", goal(f"≥ {BY_COMPILED:g}")))
        if has_eager:
            found.append((f"{name}: our peak / PyTorch's", goal("≤ 1")))
        if has_eager or not self.rivals and len(self.ours) == 1:
            found += [(f"{name}: update kernel", REPORTED), (f"{name}: reserved bytes", REPORTED), (f"{name}: recorded", "all stages" if self.judged else REPORTED),
                      (f"{name}: predicted step", goal(prediction_goal(STEP_OFF))),
                      (f"{name}: predicted bytes", goal(prediction_goal(MEMORY_OFF)))]
        if BUNDLES[self.bundle()].of_memory:
            found.append((f"{name}: peak / the GPU's memory", f"> {HALF}"))
        return found


MODES = ("default", "reduce-overhead")
ONE = lambda bundle: {"ours": (bundle, ())}
# Each mechanism of a step that a flag switches off, beside the step with all of them.
MENDS = {"ours": ("gpt-bf16", ()), "without recordings": ("gpt-bf16", ("--no-cuda-graphs",)),
         "without the update kernel": ("gpt-bf16", ("--no-update-kernel",)), "with pageable inputs": ("gpt-bf16", ("--pageable",)),
         "without fusions": ("gpt-bf16-unfused", ()),
         "without all of them": ("gpt-bf16-unfused", ("--no-cuda-graphs", "--no-update-kernel", "--pageable"))}
# The mend that concerns images alone: beside their rivals, who have channels last.
OURS = {"resnet-bf16": {**ONE("resnet-bf16"), "channels first": ("resnet-bf16-first", ())}}
SHORT = ["gpt", "bert", "resnet", "vit"]
# The large model is the first, since the GPU is empty then.
GROUPS = [Group("gpt-large", ONE("gpt-large"), window=10),
          *(Group(name, OURS.get(name, ONE(name)), ("eager", *MODES), 12) for name in (f"{short}-bf16" for short in SHORT)),
          Group("gpt-bf16 mends", MENDS, window=12, judged=False),
          Group("bert-bf16 from ONNX", {**ONE("bert-bf16"), "from ONNX": ("bert-bf16-onnx", ())}, window=4, judged=False),
          *(Group(f"{short}-tf32", ONE(f"{short}-tf32"), ("eager", "default"), 12) for short in SHORT),
          Group("gpt-autocast", ONE("gpt-autocast"), ("eager", "default"), 8),
          Group("gpt-dropout", ONE("gpt-dropout"), ("eager", "default"), 8, judged=False),
          *(Group(f"{short}-bf16 max-autotune", ONE(f"{short}-bf16"), ("max-autotune",), 4) for short in SHORT)]
# Measured if time is left, after all others.
EXTRA = [*(Group(f"{short}-tf32 {mode}", ONE(f"{short}-tf32"), (mode,), 6, judged=False)
           for mode in ("reduce-overhead", "max-autotune") for short in SHORT)]
SMALL_GROUPS = [Group(model, ONE(model), ("eager",), 6, by_eager=2.0 if model == "gpt2" else BY_EAGER) for model in SMALL]


def items(groups):
    """Their rows and seconds, to print and to add up."""
    return [Item(group.name, group.seconds(), rows=lambda _, group=group: group.rows()) for group in groups]
