"""What both exporters write of PyTorch's random functions draws the same numbers under every cut, of files made for 1 and 3 samples
too; skipped without PyTorch."""
import logging
import math
import struct
import sys
import warnings

import programs

try:
    import onnxscript  # the newer exporter needs it
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

SAMPLES, WIDTH = 8, 4
CUTS = [(1, 1), (2, 3)]  # stages, micro-batches
FORMATS = {"F64": "d", "I64": "q"}


class Drawing(nn.Module):
    """Nothing but elementwise arithmetic beside the draws: no kernel's sums depend on the number of samples."""

    def __init__(self, draw):
        super().__init__()
        self.first = nn.Parameter(torch.tensor([0.5, 1.0, 1.5, 2.0]))
        self.last = nn.Parameter(torch.tensor([1.0, 0.25, 0.75, 0.5]))
        self.draw = draw if isinstance(draw, nn.Module) else None
        self.function = draw

    def forward(self, x):
        return self.function(x * self.first) * self.last


def planes(dropout):
    return lambda h: dropout(h.reshape(-1, 2, 2)).reshape(-1, 4)


def categorical(h):
    return h * torch.distributions.Categorical(logits=h, validate_args=False).sample()[:, None]


# By name; those that the older exporter has no words for.
NEWER = {"alpha_dropout", "dropout_1d", "dropout_2d", "exponential", "gumbel_softmax", "gumbel_softmax_hard", "log_normal", "geometric",
         "multinomial_of_two"}
FUNCTIONS = {
    "randn_like": lambda h: h + torch.randn_like(h),
    "rand_like": lambda h: h + torch.rand_like(h),
    "randn_of_shape": lambda h: h + torch.randn(h.shape),
    "rand_of_size": lambda h: h * torch.rand(h.size(0), WIDTH),
    "randn_of_a_row": lambda h: h + torch.randn(WIDTH),
    "randn_of_a_column": lambda h: h * torch.randn(h.size(0), 1),
    "bernoulli": lambda h: h * torch.bernoulli(torch.sigmoid(h)),
    "bernoulli_of_a_share": lambda h: h * torch.empty_like(h).bernoulli_(0.3),
    "dropout": lambda h: F.dropout(h, 0.3, training=True),
    "dropout_module": nn.Dropout(0.2),
    "dropout_1d": planes(lambda h: F.dropout1d(h, 0.4, training=True)),
    "dropout_2d": planes(lambda h: F.dropout2d(h[..., None], 0.4, training=True)[..., 0]),
    "alpha_dropout": nn.AlphaDropout(0.2),
    "gumbel_softmax": lambda h: F.gumbel_softmax(h, tau=0.7),
    "gumbel_softmax_hard": lambda h: F.gumbel_softmax(h, tau=0.7, hard=True),
    "multinomial": lambda h: h * torch.multinomial(torch.softmax(h, -1), 1),
    "multinomial_of_several": lambda h: h * torch.multinomial(torch.softmax(h, -1), 4, replacement=True),
    "multinomial_of_two": lambda h: h * torch.multinomial(torch.softmax(h, -1), 2).sum(-1, keepdim=True),
    "categorical": categorical,
    "normal": lambda h: torch.normal(h, 0.5),
    "normal_of_size": lambda h: h + torch.normal(0.0, 1.0, size=(h.size(0), WIDTH)),
    "normal_in_place": lambda h: h + torch.empty_like(h).normal_(1, 2),
    "rsample": lambda h: torch.distributions.Normal(h, F.softplus(h), validate_args=False).rsample(),
    "log_normal": lambda h: h + torch.empty_like(h).log_normal_(),
    "exponential": lambda h: h + torch.empty_like(h).exponential_(2.0),
    "geometric": lambda h: h + torch.empty_like(h).geometric_(0.3),
    "randint": lambda h: h * torch.randint(3, 10, (h.size(0), WIDTH)),
    "randint_like": lambda h: h * torch.randint_like(h, 0, 10),
    "randint_of_a_column": lambda h: h * torch.randint(0, 10, (h.size(0),))[:, None],
    "drop_path": lambda h: h * h.new_empty((h.shape[0], 1)).bernoulli_(0.8) / 0.8,
    "drop_path_by_rand": lambda h: h * (torch.rand((h.shape[0], 1)) + 0.8).floor(),
}


class RandomExports(programs.ProgramTest):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)

    def export(self, name, exporter, samples):
        """The file; `samples` of 0: for any number of them."""
        path = self.scratch / f"{name}-{exporter}-{samples}.onnx"
        x = torch.linspace(0.5, 2.0, (samples or 3) * WIDTH).reshape(-1, WIDTH)
        module = Drawing(FUNCTIONS[name]).train()
        names = {"input_names": ["x"], "output_names": ["y"]}
        if exporter == "dynamo":
            shapes = None if samples else ({0: torch.export.Dim("batch")},)
            torch.onnx.export(module, (x,), str(path), dynamo=True, dynamic_shapes=shapes, verbose=False, external_data=False, **names)
        else:
            torch.onnx.export(module, (x,), str(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING, opset_version=17,
                              do_constant_folding=False, dynamic_axes=None if samples else {"x": {0: "batch"}}, **names)
        return path

    def data(self):
        path = self.scratch / "data.safetensors"
        generator = torch.Generator().manual_seed(3)
        numbers = torch.rand(SAMPLES * WIDTH, generator=generator).tolist()
        body = struct.pack(f"<{SAMPLES * WIDTH}d", *numbers)
        zeros = struct.pack(f"<{SAMPLES * WIDTH}d", *[0.0] * (SAMPLES * WIDTH))
        programs.write_safetensors(path, {"x/x": ("F64", [SAMPLES, WIDTH], body), "labels/t": ("F64", [SAMPLES, WIDTH], zeros)})
        return path

    def bundle(self, model, stages, micro_batches, *flags):
        path = self.scratch / f"{model.stem}-{stages}-{micro_batches}-{len(flags)}.rannc"
        done = self.succeed("rannc-compile", model, "-o", path, "--costs", "analytic", "--cluster", f"local:{stages}", "--stages", stages,
                            "--micro-batches", micro_batches, "--mini-batch", SAMPLES, "--dtype", "float64", *flags)
        self.assertNotIn("static batch size of the file is kept", done.stderr, "it takes any number of samples")
        # Of what is 0 or 1 throughout a few samples may be alike by chance.
        self.assertNotIn("were not compared", done.stderr.replace("were not compared numerically: its outputs are equal for all", ""))
        return path

    def outputs(self, bundle):
        folder = bundle.with_suffix(".run")
        self.succeed("rannc-run", bundle, "-o", folder, "--data", self.data())
        dtype, _, data = programs.read_safetensors(folder / "outputs.safetensors")["y"]
        return struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data)

    def losses(self, bundle):
        folder, log = bundle.with_suffix(".run"), bundle.with_suffix(".log")
        self.succeed("rannc-run", bundle, "-o", folder, "--data", self.data(), "--steps", 2, "--loss-log", log, "--optimizer", "sgd")
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

    def compare(self, one, parts):
        """Sums of doubles in another order; other numbers drawn differ in their first digit."""
        self.assertLess(math.dist(one, parts), 1e-12 * math.hypot(*one))

    def test_every_function(self):
        for name in FUNCTIONS:
            for exporter in ("dynamo", "legacy"):
                if exporter == "legacy" and name in NEWER:
                    continue
                for samples in (0, 1, 3):
                    with self.subTest(function=name, exporter=exporter, samples=samples):
                        model = self.export(name, exporter, samples)
                        self.compare(*(self.outputs(self.bundle(model, *cut)) for cut in CUTS))
                        loss = ["--loss", "mse(output=y,labels=t)"]
                        self.compare(*(self.losses(self.bundle(model, *cut, *loss)) for cut in CUTS))


if __name__ == "__main__":
    programs.main()
