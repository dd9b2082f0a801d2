"""Weights of every published export: a copy of its file with them is the file, and with others it has these; skipped without the exports."""
import json
import struct
import sys

import programs

FORMATS = {"F16": "e", "F32": "f", "F64": "d"}
# What is planned for a second dimension that the file leaves open.
ASSUMED = {"gpt2_dynamo_auto": ["--assume", "s70=16"]}


def others(tensors, apart):
    """Other numbers in every tensor; where tensors may be tied, equal ones stay equal."""
    found = {}
    for number, (name, (dtype, shape, data)) in enumerate(sorted(tensors.items())):
        if dtype not in FORMATS:
            found[name] = dtype, shape, data
            continue
        form = f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}"
        shift = number + 1 if apart else 1
        found[name] = dtype, shape, struct.pack(form, *(value / 2 + shift for value in struct.unpack(form, data)))
    return found


class WeightsOfModels(programs.ProgramTest):
    def weights(self, model, name, folder, loss):
        bundle, path = self.scratch / f"{name}.rannc", self.scratch / f"{name}.safetensors"
        assumed = ASSUMED.get(folder.name, ["--assume", "sequence=16"] if "dynseq" in folder.name else [])
        self.succeed("rannc-compile", model, "-o", bundle, "--cluster", "local:1", "--costs", "analytic", "--allow-merged", *assumed, *loss)
        self.succeed("rannc-run", bundle, "--export-weights", path)
        return path

    def copied(self, folder, weights, name):
        path = self.scratch / f"{name}.onnx"
        self.succeed("rannc-compile", folder / "model.onnx", "--weights", weights, "--emit", "onnx", "-o", path, "--allow-merged")
        return path

    def check(self, folder, loss):
        name = folder.name
        own = self.weights(folder / "model.onnx", name, folder, loss)
        same = self.copied(folder, own, f"{name}-same")
        if "external" not in name:
            self.assertEqual(same.read_bytes(), (folder / "model.onnx").read_bytes())
        changed = self.scratch / f"{name}-changed.safetensors"
        # Copied layers of a fresh model are merged in the file: there each tensor gets numbers of its own.
        programs.write_safetensors(changed, others(programs.read_safetensors(own), "fresh" in name))
        copy = self.copied(folder, changed, f"{name}-copy")
        again = self.weights(copy, f"{name}-again", folder, loss)
        self.assertEqual(programs.read_safetensors(again), programs.read_safetensors(changed))

    def test_every_export(self):
        folders = sorted(card.parent for card in programs.shared_models().glob("*/card.json"))
        self.assertGreater(len(folders), 50)
        for folder in folders:
            if folder.name == "gpt2_half_legacy":
                continue  # of two float types, which ONNX forbids too
            card = json.loads((folder / "card.json").read_text())
            inside = [term["output"] for term in card.get("loss") or [] if term["kind"] == "in_graph"]
            with self.subTest(folder=folder.name):
                self.check(folder, ["--loss", f"in_graph(output={inside[0]})"] if inside else [])


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no published exports")
        sys.exit(programs.SKIPPED)
    programs.main()
