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
DIAGNOSTICS = 1
# Numbers that an exporter computed are rounded to float32; one parameter in two places, or a trained table, is off by
# RATE in its first step.
ALIKE = 2e-4
RANDOM_CHAINS = 20
IN_STEAD = "trained in their stead"


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


SUFFIXES = {"dynamo": ".onnx", "legacy": ".onnx", "pt": ".pt", "pt2": ".pt2"}
FLAGS = {"pt": ["--input", f"x=f32[batch,{WIDTH}]", "--output-name", "y"], "pt2": ["--output-name", "y"]}


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


class TrainedSet(programs.ProgramTest):
    in_process = programs.Resident.PROGRAMS

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
        run = self.succeed("rannc-run", bundle, "-o", folder / "run", "--data", data, "--steps", STEPS, "--optimizer", "adam",
                           "--learning-rate", RATE, "--export-weights", weights)
        self.compare(chain(names, seed), x, labels, safetensors.torch.load_file(weights), done.stderr + run.stderr)

    def refused(self, done, names):
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stderr)
        self.assertTrue(any(name.startswith("raw") or name.endswith("whole") for name in names), f"no part of {names} needs an error: {done.stderr}")
        self.assertRegex(done.stderr, "parts\\.\\d", "the error names a parameter")

    def compare(self, module, x, labels, found, said):
        trained, before = trained_by_torch(module, x, labels)
        # Another parameter in the stead of one goes another way, and all others with it.
        follows = IN_STEAD not in said
        for name, expected in trained.items():
            if name in found and not (follows and (found[name].double() - expected).abs().max().item() > ALIKE):
                continue
            self.assertTrue(says(said, name), f"{name} is {'off' if name in found else 'lost'} and nobody says so: {said}")
        for name, tensor in found.items():
            if name in trained or (name in before and torch.equal(tensor.double(), before[name])):
                continue
            self.assertNotIn(name, before, f"{name} is a buffer and was trained: {said}")
            self.assertTrue(says(said, name), f"{name} is no parameter of the program and nobody says that it is trained: {said}")

    def judge_form(self, form):
        for name in PARTS:
            with self.subTest(form=form, part=name):
                self.judge(form, [name], 1)
        for seed in range(RANDOM_CHAINS):
            names = random.Random(seed).sample(sorted(PARTS), 3)
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
