"""Predicted and measured step of layers whose weights are computed once per step:

    python tests/bench/once_per_step.py BIN FOLDER [--width 1024] [--samples 64] [--steps 60]

Each weight is tanh(v * g). `predicted` adds up measured tasks, `measured stages` is the prediction after the finished stages were measured.
"""
import argparse
import array
import json
import pathlib
import random
import re
import struct
import subprocess

LAYERS = 3


def model(width):
    lines = ["rannc.graph 1", "batch batch", f"input %a0: f32[batch,{width}] samples 0"]
    lines += [line for i in range(LAYERS) for line in (f"parameter %v{i}: f32[{width},{width}]", f"parameter %g{i}: f32[{width},1]")]
    for i in range(LAYERS):
        weight, rows = f"f32[{width},{width}]", f"f32[batch,{width}] samples 0"
        lines += [f"#{4 * i} %s{i}: {weight} = core.mul(%v{i}, %g{i})", f"#{4 * i + 1} %q{i}: {weight} = core.tanh(%s{i})",
                  f"#{4 * i + 2} %h{i}: {rows} = core.linear(%a{i}, %q{i})", f"#{4 * i + 3} %a{i + 1}: {rows} = core.tanh(%h{i})"]
    return "\n".join(lines + ["inputs [%a0]", f"outputs [%a{LAYERS}]", ""])


def save(path, shapes):
    """Random tensors as a .safetensors file."""
    head, data = {}, b""
    for name, (rows, columns) in shapes.items():
        values = array.array("f", (random.uniform(-0.05, 0.05) for _ in range(rows * columns))).tobytes()
        head[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def milliseconds(pattern, text):
    number, unit = re.search(pattern + r" ([\d.]+) (us|ms|s)\b", text).groups()
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    graph, weights, data, bundle = (flags.folder / name for name in ("model.rir", "w.safetensors", "d.safetensors", "model.rannc"))
    graph.write_text(model(flags.width))
    shapes = {f"v{i}": (flags.width, flags.width) for i in range(LAYERS)} | {f"g{i}": (flags.width, 1) for i in range(LAYERS)}
    save(weights, shapes)
    save(data, {"x/a0": (flags.samples, flags.width), f"labels/a{LAYERS}": (flags.samples, flags.width)})
    print("| micro-batches | predicted ms | measured stages ms | measured ms |\n|---|---|---|---|")
    for micro_batches in (1, 8):
        compile_it = [flags.bin / "rannc-compile", graph, "--weights", weights, "--loss", "mse", "--cluster", "local:1", "--mini-batch",
                      flags.samples, "--micro-batches", micro_batches, "--schedule", "gpipe", "--recompute", "never", "--replace", "-o", bundle]
        said = [subprocess.run([*map(str, compile_it), *more], check=True, capture_output=True, text=True) for more in (["--no-refine"], [])]
        predicted = [milliseconds("predicted step", done.stdout + done.stderr) for done in said]
        run = [flags.bin / "rannc-run", bundle, "--data", data, "--steps", flags.steps, "--replace", "-o", flags.folder / "run"]
        done = subprocess.run(list(map(str, run)), check=True, capture_output=True, text=True)
        measured = milliseconds("step measured", done.stdout + done.stderr)
        print(f"| {micro_batches} | {predicted[0]:.1f} | {predicted[1]:.1f} | {measured:.1f} |", flush=True)


if __name__ == "__main__":
    main()
