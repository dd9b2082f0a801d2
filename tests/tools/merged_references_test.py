"""References of models with their initial values say which parameters each initializer of the export holds; skipped without PyTorch."""
import json
import re
import subprocess
import sys

import programs

try:
    import onnxscript  # the newer exporter needs it
    import torch
    from safetensors.torch import load_file

    import fresh_families
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

# The newer exporter drops zero biases of Gemm.
DROPPED = ["parts.0.bias", "parts.2.bias", "parts.5.bias"]
MERGED = ["parts.0.bias", "parts.2.bias", "parts.3.bias"]
NORMS = [f"encoder.layers.encoder_layer_{layer}.ln_{norm}.weight" for layer in range(fresh_families.LAYERS) for norm in (1, 2)]


class MergedReferences(programs.ProgramTest):
    def folder(self, family, exporter, *more):
        path = self.scratch / f"{family.__name__}-{exporter}{''.join(more)}"
        done = subprocess.run([sys.executable, "-W", "ignore", programs.SOURCE / "tools" / "make-check-folder",
                               f"{fresh_families.__file__}:{family.__name__}", path, "--exporter", exporter, *more],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def made(self, family, exporter, *more):
        path = self.folder(family, exporter, *more)
        return json.loads((path / "card.json").read_text()), load_file(path / "reference.safetensors")

    def judge_sums(self, card, reference):
        """What file64 has of a merged initializer is the sum of what the module has of its parameters, on the entries that are kept."""
        for initializer, names in card["merged"].items():
            key = next(key for key in ("grad.file64", "grad.file64.at64") if f"{key}/{initializer}" in reference)
            found = reference[f"{key}/{initializer}"].flatten()
            shares = [reference[f"{key.replace('grad.file64', 'state.f64')}/{name}"].flatten() for name in names]
            self.assertLess(float((sum(shares) - found).norm()), 1e-6 * max(float(found.norm()), 1e-6), initializer)

    def test_dropped_parameters_are_not_merged_ones(self):
        card, _ = self.made(fresh_families.plain, "dynamo")
        self.assertEqual(card["merged"], {})
        self.assertEqual(card["parameters_without_initializer"], DROPPED)
        self.assertEqual(card["parameter_of_initializer"]["parts.3.bias"], {"state_dict": "parts.3.bias", "transform": "none"})

    def test_merged_parameters_are_listed(self):
        for more in ([], ["--batch-in-file", "2"]):
            card, reference = self.made(fresh_families.plain, "legacy", *more)
            self.assertEqual(card["merged"], {"parts.0.bias": MERGED})
            self.assertEqual(card["parameters_without_initializer"], MERGED[1:])
            self.assertLess(card["file_vs_reference_f64"]["gradient_relative_worst"], 1e-9)
            self.judge_sums(card, reference)

    def test_copied_layers_are_told_apart(self):
        """Equal initializers that are one parameter each, and one initializer that is three parameters."""
        card, reference = self.made(fresh_families.encoder, "dynamo")
        held = [part["state_dict"] for part in card["parameter_of_initializer"].values()]
        layers = [f"layers.layers.{layer}" for layer in range(fresh_families.LAYERS)]
        for layer in layers:
            self.assertEqual(held.count(f"{layer}.linear1.weight"), 1)
        projections = [f"{layer}.self_attn.out_proj.weight" for layer in layers]
        self.assertEqual(card["merged"][projections[0]], projections)
        self.assertEqual(len(held) + sum(map(len, card["merged"].values())) + fresh_families.LAYERS, len(card["gradients_by_state_dict"]))
        self.judge_sums(card, reference)

    def test_where_no_gradient_comes_through(self):
        """The last layer is zero, so that the others have no gradient yet."""
        card, _ = self.made(fresh_families.vit, "dynamo")
        first = NORMS[0]
        self.assertEqual(card["merged"][first], sorted([*NORMS, "encoder.ln.weight"]))

    def test_every_parameter_is_known_by_its_own_name(self):
        for exporter in ("dynamo", "legacy"):
            card, reference = self.made(fresh_families.gpt2, exporter)
            names = list(dict(fresh_families.gpt2()["module"].named_parameters()))
            self.assertEqual(card["gradients_by_state_dict"], names)
            kinds = [{key.partition("/")[2] for key in reference if key.startswith(f"state.{tag}")} for tag in ("f64", "f32")]
            self.assertEqual(kinds, [set(names)] * 2)
            self.assertEqual(card["merged"]["model.transformer.h.0.ln_1.weight"][-1], "model.transformer.ln_f.weight")
            self.assertEqual(len(card["tied"]["model.transformer.wte.weight"]), 2)
            self.judge_sums(card, reference)

    def test_rannc_checks_sums_and_each_by_its_name(self):
        for family in fresh_families.FAMILIES:
            parameters = len(list(family()["module"].parameters()))
            if family()["training"]:
                continue  # references are those of modules in evaluation mode
            for exporter in ("dynamo", "legacy"):
                with self.subTest(family=family.__name__, exporter=exporter):
                    path = self.folder(family, exporter)
                    flags = ["--stages", "1,2", "--micro-batches", "1,3"]
                    self.assertIn("4 passed, 0 failed", self.succeed("rannc-check", path, *flags).stdout)
                    done = self.succeed("rannc-check", path, *flags, "--dtype", "float32")
                    self.assertEqual(re.findall(r"(\d+) gradients", done.stdout), [str(parameters)] * 4)


if __name__ == "__main__":
    programs.main()
