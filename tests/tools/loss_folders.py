"""Check folders of losses that are expressions of PyTorch, each exported in four forms, and what rannc-check makes of them.

An expression reads these values of a mini-batch, of which axis 0 counts samples:
  z [B,3,4], p [B,3]   predictions
  y [B,3]              labels from 0 to 3, or -100
  t [B,3]              targets; some are not finite
  b [B,3]              binary targets
  m [B,3], k [B,3]     masks: float and boolean
  w [B]                weights
  self.first, self.s   parameters: the weight of the first layer, and a learned number
Some samples have no label, no target, nothing positive and nothing that a mask keeps, so that these counts are 0 in some micro-batches.
"""
import collections
import functools
import json
import re

import onnxruntime
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

import programs

SAMPLES, WIDTH, HIDDEN, TOKENS, CLASSES = 7, 5, 6, 3, 4
MODELS = {"legacy": "legacy.onnx", "trace": "model.pt", "export": "model.pt2", "dynamo": "model.onnx"}
TYPES = {torch.float32: "FLOAT", torch.float64: "DOUBLE", torch.int64: "INT64", torch.bool: "BOOL"}
DIAGNOSTICS = 1
FLOAT32 = 1e-4  # of a loss: sums of float32 in another order

# Parameters by name: their shape, and what the expression reads if it needs them.
PARAMETERS = {"first": ((WIDTH, HIDDEN), "x"), "tokens": ((HIDDEN, TOKENS * CLASSES), "z"), "values": ((HIDDEN, TOKENS), "p"), "s": ((), "self.s")}
LAYERS = {
    "z": "z = (torch.tanh(x @ self.first) @ self.tokens).view(-1, 3, 4)",
    "p": "p = torch.tanh(x @ self.first) @ self.values",
}
# What only the module itself computes in float32: the reference reads it as float64.
WIDENED = {".float()": ".double()", "torch.float32": "torch.float64"}


def reads(text, name):
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


class Loss(nn.Module):
    """Its forward is `text`, an expression or lines that end in one; its inputs are those that `text` reads."""

    def __init__(self, text, seed):
        super().__init__()
        self.text = text
        generator = torch.Generator().manual_seed(seed)
        for name, (shape, read) in PARAMETERS.items():
            if read == "x" or reads(text, read):
                setattr(self, name, nn.Parameter(0.5 * torch.randn(shape, generator=generator)))
        self.names = ["x", *(name for name in "ytbmkw" if reads(text, name))]
        self.forward = self.compiled(text)

    def compiled(self, text):
        *lines, last = text.strip().splitlines()
        body = [*(LAYERS[name] for name in LAYERS if reads(text, name)), *lines, f"return {last.strip()}"]
        source = f"def forward(self, {', '.join(self.names)}):\n" + "".join(f"    {line.strip()}\n" for line in body)
        scope = {"torch": torch, "F": F, "nn": nn}
        exec(source, scope)  # noqa: S102: the text is of the tests beside this file
        return scope["forward"].__get__(self)

    def widened(self):
        """The module in float64, casts to float32 inside it too."""
        text = self.text
        for narrow, wide in WIDENED.items():
            text = text.replace(narrow, wide)
        module = Loss(text, 0)
        module.load_state_dict(self.state_dict())
        return module.double()


def mini_batch(seed):
    """By name. Samples 2 and 6 have nothing that counts, sample 4 little."""
    generator = torch.Generator().manual_seed(seed)
    shape, rows = (SAMPLES, TOKENS), torch.arange(SAMPLES)[:, None]
    kept = (torch.rand(shape, generator=generator) < 0.7) & (rows != 2) & (rows != 6)
    kept[0, 0], kept[3] = True, True
    labels = torch.randint(0, CLASSES, shape, generator=generator)
    targets = torch.randn(shape, generator=generator)
    positive = kept & (torch.rand(shape, generator=generator) < 0.6)
    positive[0, 0] = True
    return {
        "x": torch.randn(SAMPLES, WIDTH, generator=generator),
        "y": labels.where(kept, torch.tensor(-100)),
        "t": targets.where(kept, torch.tensor(float("nan"))),
        "b": positive.float(),
        "m": kept.float() * 0.5 * torch.randint(1, 4, shape, generator=generator),
        "k": kept,
        "w": torch.rand(SAMPLES, generator=generator) + 0.25,
    }


def numbers_of(module, inputs):
    """Loss and gradients in float64; zeros for a parameter that the loss does not reach."""
    wide = module.widened()
    torch.set_default_dtype(torch.float64)  # of quotients of integers
    loss = wide(*(inputs[name].double() if inputs[name].is_floating_point() else inputs[name] for name in module.names))
    torch.set_default_dtype(torch.float32)
    leaves = dict(wide.named_parameters())
    found = torch.autograd.grad(loss.double(), list(leaves.values()), allow_unused=True)
    gradients = {name: torch.zeros_like(leaf) if gradient is None else gradient for (name, leaf), gradient in zip(leaves.items(), found)}
    return loss.detach().double(), gradients


class Exports:
    """Writes a module in each form, with any number of samples."""

    def __init__(self, module, inputs):
        self.module, self.names, self.examples = module, module.names, tuple(inputs[name] for name in module.names)
        batch = torch.export.Dim("batch", min=1)
        self.shapes = tuple({0: batch} for _ in self.names)

    @functools.cached_property
    def program(self):
        return torch.export.export(self.module, self.examples, dynamic_shapes=self.shapes)

    def legacy(self, path):
        axes = {name: {0: "batch"} for name in self.names}
        torch.onnx.export(self.module, self.examples, str(path), dynamo=False, input_names=self.names, output_names=["loss"], opset_version=17,
                          do_constant_folding=False, dynamic_axes=axes)

    def trace(self, path):
        torch.jit.trace(self.module, self.examples, check_trace=False).save(path)

    def export(self, path):
        torch.export.save(self.program, path)

    def dynamo(self, path):
        # The exporter's optimizer makes constants of what is computed of parameters alone, and drops a summand of 1e-8.
        optimize = "self." not in self.module.text and "1e-8" not in self.module.text
        torch.onnx.export(self.program, (), str(path), dynamo=True, dynamic_shapes=self.shapes, input_names=self.names, output_names=["loss"],
                          verbose=False, external_data=False, optimize=optimize)


def is_another_loss(path, module, inputs):
    """Whether an exporter wrote another loss than the module's, as ONNX Runtime finds."""
    with torch.no_grad():
        loss = float(module(*(inputs[name] for name in module.names)))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = float(session.run(["loss"], {name: inputs[name].numpy() for name in module.names})[0])
    return not abs(found - loss) <= FLOAT32 * abs(loss)


def write_models(folder, module, inputs):
    """Returns, by form, why there is no file: the exporter refuses the module, or the file is of another loss."""
    refused, exports = {}, Exports(module, inputs)
    for form, name in MODELS.items():
        try:
            getattr(exports, form)(folder / name)
            if name.endswith(".onnx") and is_another_loss(folder / name, module, inputs):
                refused[form] = "the exporter wrote another loss"
        except Exception as refusal:  # noqa: BLE001: it may be any of PyTorch's own
            refused[form] = f"{type(refusal).__name__}: {(str(refusal).strip() or '?').splitlines()[0]}"
    return refused


def write_folder(folder, module, inputs):
    """A check folder; returns, by form, why there is no file."""
    folder.mkdir(parents=True)
    loss, gradients = numbers_of(module, inputs)
    safetensors.torch.save_file({f"x/{name}": inputs[name].contiguous() for name in module.names}, folder / "batch.safetensors")
    tensors = {"loss.f64": loss, "loss.file64": loss, "out.f64/loss": loss, "out.file64/loss": loss}
    for name, gradient in gradients.items():
        tensors |= {f"state.f64/{name}": gradient, f"grad.file64/{name}": gradient}
    safetensors.torch.save_file({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, folder / "reference.safetensors")
    with torch.no_grad():
        kind = TYPES[module(*(inputs[name] for name in module.names)).dtype]
    card = {
        "inputs": {name: [TYPES[inputs[name].dtype], "batch", *inputs[name].shape[1:]] for name in module.names},
        "outputs": {"loss": [kind]},
        "gradients_by_state_dict": list(gradients),
        "parameter_of_initializer": {name: {"state_dict": name, "transform": "none"} for name in gradients},
        "loss": [{"kind": "in_graph", "output": "loss"}],
        "expression": module.text,
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1))
    return write_models(folder, module, inputs)


# kind: right, undivided (right with one micro-batch, refused with more), refused, wrong or crash; text: failed comparisons, or what
# the program prints.
Outcome = collections.namedtuple("Outcome", "kind text")


def checked(test, folder, form, cuts, micro_batches):
    """Runs rannc-check once; `cuts` are those of --replicas."""
    flags = [part for cut in cuts for part in ("--replicas", cut)]
    done = test.run_program("rannc-check", folder, "--model", MODELS[form], *flags, "--micro-batches", ",".join(map(str, micro_batches)),
                            "--summary=json")
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode not in (0, DIAGNOSTICS):
        return Outcome("crash", f"exit {done.returncode}: {done.stdout}{done.stderr}")
    failures = [f"{run['replicas']} devices, {run['micro_batches']} micro-batches: {failure}" for run in runs for failure in run["failures"]]
    if failures:
        return Outcome("wrong", "\n".join(failures))
    if done.returncode == DIAGNOSTICS:
        return Outcome("refused", done.stderr)
    compared = len(json.loads((folder / "card.json").read_text())["gradients_by_state_dict"])
    complete = len(runs) == len(cuts) * len(micro_batches) and all(run["compared_gradients"] == compared for run in runs)
    return Outcome("right", "") if complete else Outcome("wrong", f"not everything was compared: {done.stdout}")


def outcome(test, folder, form, cuts, micro_batches):
    """Of all micro-batches, or of the whole mini-batch if others are refused; `text` is then the error that refuses them."""
    found = checked(test, folder, form, cuts, micro_batches)
    if found.kind != "refused":
        return found
    whole = checked(test, folder, form, cuts, [1])
    return Outcome("undivided", found.text) if whole.kind == "right" else whole


def half_gradients(test, folder, form, micro_batches, loss_scale):
    """Loss and gradients of one step in float16 with two stages."""
    card, bundle, run = json.loads((folder / "card.json").read_text()), folder / f"{form}.rannc", folder / f"{form}.run"
    types = {"FLOAT": "f32", "INT64": "i64", "BOOL": "bool"}
    signature = [f"{name}={types[kind]}[{','.join(map(str, sizes))}]" for name, (kind, *sizes) in card["inputs"].items()]
    flags = [part for each in signature for part in ("--input", each)] if form == "trace" else []
    flags += ["--output-name", "loss"] if form in ("trace", "export") else []
    test.succeed("rannc-compile", folder / MODELS[form], "-o", bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", SAMPLES,
                 "--micro-batches", micro_batches, "--precision", "fp16", "--loss", "in_graph(output=loss)", "--costs", "analytic",
                 "--optimizer", "sgd", *flags)
    weights, log = folder / f"{form}.after.safetensors", folder / f"{form}.log"
    steps = []
    for rate in (1e-30, 1):  # the first changes no number
        test.succeed("rannc-run", bundle, "-o", run, "--replace", "--data", folder / "batch.safetensors", "--steps", 1, "--optimizer", "sgd",
                     "--learning-rate", rate, "--loss-scale", loss_scale, "--loss-log", log, "--export-weights", weights)
        steps.append(safetensors.torch.load_file(weights))
    before, after = steps
    return float.fromhex(log.read_text().split()[1]), {name: before[name].double() - after[name].double() for name in before}
