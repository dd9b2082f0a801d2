"""What is trained is what the program calls its parameters, of random modules in several forms: 20 steps of Adam end at
PyTorch's numbers, or a message names what cannot be. Skipped without PyTorch.

Forms are parameters of the same test: `export` writes them."""
import logging
import random
import re
import sys
import warnings

import programs

try:
    import onnxscript  # the newer exporter needs it
    import safetensors.torch
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

import trained_parts
from trained_parts import PARTS, WIDTH

SAMPLES, STEPS, RATE = 8, 20, 1e-2
NO_RATE = 1e-30  # changes no number
DIAGNOSTICS = 1
# Numbers that an exporter computed are rounded to float32; one parameter in two places, or a trained table, is off by
# RATE in its first step.
ALIKE = 2e-4
RANDOM_CHAINS = 20
IN_STEAD = re.compile("trained in (their place|place of)")
# A buffer that the older exporter transposed has a name of its own, by which a message says that it is trained.
MADE_UP = re.compile("trained because of (its|their) use.*onnx::")

# What the older exporter made of a weight and the turned weight have names of its own, as two weights of a module have.
APART = re.compile("weights of one module.*trained separately")
# PyTorch's exporter merges a detached value with an equal one that is not: gradients of all before them may be wrong.
MERGED = re.compile("the exporter merged values of the program that are equal .*gradients are wrong")


def export(form, module, x, path):
    """Writes the module in a form; for TorchScript the input has no type in the file."""
    names = {"input_names": ["x"], "output_names": ["y"]}
    if form == "dynamo":
        shapes = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(module, (x,), str(path), dynamo=True, dynamic_shapes=shapes, verbose=False, external_data=False, **names)
    elif form == "legacy":
        torch.onnx.export(module, (x,), str(path), dynamo=False, opset_version=17, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
    elif form == "pt":
        torch.jit.trace(module, (x,)).save(str(path))
    elif form == "script":
        torch.jit.script(module).save(str(path))
    elif form == "pt2":
        torch.export.save(torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)), str(path))


SUFFIXES = {"dynamo": ".onnx", "legacy": ".onnx", "pt": ".pt", "script": ".pt", "pt2": ".pt2"}
TORCHSCRIPT = ["--input", f"x=f32[batch,{WIDTH}]", "--output-name", "y"]
FLAGS = {"pt": TORCHSCRIPT, "script": TORCHSCRIPT, "pt2": ["--output-name", "y"]}


def chain(names, seed):
    torch.manual_seed(seed)
    return trained_parts.Chain(names).eval()


def trained_by_torch(module, x, labels):
    """The module's parameters after the steps, by all of their names, and all of its state before, in double precision."""
    module = module.double()
    before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x.double()), labels.double()).backward()
        optimizer.step()
    return {name: tensor.detach() for name, tensor in module.named_parameters(remove_duplicate=False)}, before


def says(text, name):
    """Whether a message names a tensor, as a word."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]*\w)", text) is not None


def is_turned(tensor, other):
    return tensor.ndim == 2 and tensor.shape == other.t().shape and torch.equal(tensor.double(), other.t())


def called(name, held, trained, before):
    """The program's name of a tensor that held what a parameter, or its transpose, did before."""
    if name in before or name not in held:
        return name
    state = [*trained, *(own for own in before if own not in trained)]
    same = [own for own in state if torch.equal(held[name].double(), before[own]) or is_turned(held[name], before[own])]
    return same[0] if same else name


def turned(tensor, held, before):
    """A tensor as the program has it, of one whose transpose the file stores."""
    if held is None or any(torch.equal(held.double(), own) for own in before.values()):
        return tensor
    return tensor.t() if any(own.ndim == 2 and is_turned(held, own) for own in before.values()) else tensor


class TrainedSet(programs.ProgramTest):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)

    def judge(self, form, names, seed):
        module = chain(names, seed)
        x, labels = torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH)
        folder = self.scratch / f"{form}-{'-'.join(names)}-{seed}"
        folder.mkdir()
        model, data = folder / f"model{SUFFIXES[form]}", folder / "data.safetensors"
        export(form, module, x, model)
        safetensors.torch.save_file({"x/x": x.double(), "labels/t": labels.double()}, data)
        bundle, weights = folder / "model.rannc", folder / "weights.safetensors"
        done = self.run_program("rannc-compile", model, "-o", bundle, "--cluster", "local:1", "--costs", "analytic", "--mini-batch", SAMPLES,
                                "--dtype", "float64", "--loss", "mse(output=y,labels=t)", *FLAGS.get(form, []))
        if done.returncode != 0:
            self.refused(done, names)
            return
        found, said = self.trained(bundle, folder, STEPS, RATE)
        # Of a file without the program's names, each tensor is told by what it holds before the first step.
        held = self.trained(bundle, folder, 1, NO_RATE)[0] if form == "legacy" else {}
        self.compare(chain(names, seed), (x, labels), found, held, done.stderr + said)

    def trained(self, bundle, folder, steps, rate):
        """What rannc-run exports after the steps, by its names, and what it says."""
        weights = folder / f"weights-{steps}.safetensors"
        run = self.succeed("rannc-run", bundle, "-o", folder / f"run-{steps}", "--data", folder / "data.safetensors", "--steps", steps,
                           "--optimizer", "adam", "--learning-rate", rate, "--export-weights", weights)
        return safetensors.torch.load_file(weights), run.stderr

    def refused(self, done, names):
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
        self.assertTrue(any(name.startswith("raw") or name.endswith("whole") for name in names), f"no part of {names} needs an error: {done.stderr}")
        self.assertRegex(done.stderr, "parts\\.\\d", "the error names a parameter")

    def compare(self, module, batch, found, held, said):
        trained, before = trained_by_torch(module, *batch)
        found = {called(name, held, trained, before): turned(tensor, held.get(name), before) for name, tensor in found.items()}
        foreign = {name for name, tensor in found.items()
                   if name not in trained and not (name in before and torch.equal(tensor.double(), before[name]))}
        for name in foreign:
            message = (MADE_UP.search(said) if name in before else IN_STEAD.search(said) or APART.search(said)) if held else None
            self.assertTrue(message or (says(said, name) and not name.startswith("onnx::")),
                            f"{name} is no parameter of the program and nobody says that it is trained: {said}")
            self.assertTrue(held or name not in before, f"{name} is a buffer and was trained: {said}")
        # Another parameter in the stead of one goes another way, and all others with it.
        follows = not (IN_STEAD.search(said) or APART.search(said) or MERGED.search(said)) and not (held and (foreign or "are not trained because of their use" in said))
        for name, expected in trained.items():
            if name in found and not (follows and (found[name].double() - expected).abs().max().item() > ALIKE):
                continue
            stands_in = held and name not in found and IN_STEAD.search(said)
            self.assertTrue(stands_in or says(said, name), f"{name} is {'off' if name in found else 'lost'} and nobody says so: {said}")

    def judge_form(self, form):
        parts = [name for name in PARTS if form != "script" or name not in trained_parts.HOOKED]
        for name in parts:
            with self.subTest(form=form, part=name):
                self.judge(form, [name], 1)
        for seed in range(RANDOM_CHAINS):
            names = random.Random(seed).sample(sorted(parts), 3)
            with self.subTest(form=form, parts=names, seed=seed):
                self.judge(form, names, seed)

    def test_dynamo(self):
        self.judge_form("dynamo")

    def test_legacy(self):
        self.judge_form("legacy")

    def test_pt(self):
        self.judge_form("pt")

    def test_pt2(self):
        self.judge_form("pt2")

    def test_script(self):
        self.judge_form("script")


if __name__ == "__main__":
    programs.main()
