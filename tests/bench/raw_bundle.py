"""Bundles of the models of raw_models.py that travel without weights: both ends make the weights from a seed.

    python raw_bundle.py export MODEL FILE.pt2|FILE.onnx [--float-type bfloat16]
    python raw_bundle.py strip MODEL BUNDLE [--float-type bfloat16]
    python raw_bundle.py fill MODEL BUNDLE --data FILE --samples N [--float-type bfloat16] [--device cuda]

`strip` removes the tensors of the module from the bundle, and its executables. Other tensors stay, such as constants that the compiler
computed. `fill` makes the module on the device, adds its tensors to the bundle, and writes the mini-batch. The bundle then needs a new
manifest (`bench-steps --renew-manifest`). PyTorch's side reads its weights from the filled bundle (`raw_eager.py --weights`), so the
numbers of the seed need not be the same on all devices.
"""
import argparse
import json
import pathlib
import warnings

import torch
from safetensors.torch import load_file, save_file

import raw_models

MOST_KEPT_BYTES = 4 << 20  # masks of attention are that large
WEIGHTS, NAMES = "stage0.safetensors", "of_module.json"


def module_on(device, name, float_type):
    torch.manual_seed(0)
    with torch.device(device):
        return raw_models.MODELS[name].module("dynamo").to(raw_models.FLOAT_TYPES[float_type])


def export(flags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if flags.path.endswith(".onnx"):
            raw_models.export(flags.model, "dynamo", flags.path, flags.float_type, optimize=False)
        else:
            raw_models.export_program(flags.model, flags.path, flags.float_type)


def strip(flags):
    path = pathlib.Path(flags.path)
    tensors, module = load_file(path / WEIGHTS), module_on("meta", flags.model, flags.float_type)
    state = module.state_dict()
    names = [name for name, tensor in tensors.items()
             if name in state and state[name].shape == tensor.shape and state[name].dtype == tensor.dtype]
    kept = {name: tensor for name, tensor in tensors.items() if name not in names}
    kept_bytes = sum(tensor.nbytes for tensor in kept.values())
    if kept_bytes > MOST_KEPT_BYTES:
        raise SystemExit(f"raw_bundle: {path} has {kept_bytes} bytes that are not the module's: {', '.join(kept)}")
    save_file(kept, path / WEIGHTS)
    (path / NAMES).write_text(json.dumps({"names": names, "parameters": sum(each.numel() for each in module.parameters())}))
    (path / "stage0").unlink(missing_ok=True)


def fill(flags):
    path, model = pathlib.Path(flags.path), raw_models.MODELS[flags.model]
    state = module_on(flags.device, flags.model, flags.float_type).state_dict()
    tensors = load_file(path / WEIGHTS)
    for name in json.loads((path / NAMES).read_text())["names"]:
        tensors[name] = state[name].contiguous().cpu()
    save_file(tensors, path / WEIGHTS)
    inputs = raw_models.with_floats(raw_models.seeded(model.inputs, flags.samples, seed=2), flags.float_type)
    labels = raw_models.seeded(model.labels, flags.samples, seed=3)
    save_file({**{f"x/{key}": tensor for key, tensor in inputs.items()}, "labels/y": labels}, flags.data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["export", "strip", "fill"])
    parser.add_argument("model", choices=raw_models.MODELS)
    parser.add_argument("path")
    parser.add_argument("--float-type", choices=raw_models.FLOAT_TYPES, default="float32")
    parser.add_argument("--data")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--device", default="cpu")
    flags = parser.parse_args()
    {"export": export, "strip": strip, "fill": fill}[flags.command](flags)


if __name__ == "__main__":
    main()
