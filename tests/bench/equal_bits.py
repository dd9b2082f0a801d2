"""What products of LibTorch depend on, in bits, and what it costs to keep them equal, on one thread:

    python tests/bench/equal_bits.py [--products 500] [--seconds 1] [--modes "AUTO AUTO,STRICT"]

with torch. A mode is a value of MKL_CBWR; `default` leaves it unset. Each runs in a process of its own. Per mode: of random float32 products,
the share whose bits differ (a) with an operand at another address, (b) with other rows beside the same rows, (c) with a transposed
operand; and the time of a product relative to the default mode. Then what the runtime does, in the default mode: the time of a product after
a copy of its operand to an aligned address, relative to the product alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SHAPES = [(1, 768, 768), (4, 768, 768), (64, 768, 768), (64, 128, 128), (32, 64, 64), (512, 768, 3072)]  # rows, in, out
ROUNDS = 5  # of processes per mode, in turns


def median_times(sides, seconds):
    """Medians of several functions, called in turns."""
    took, start = [[] for _ in sides], time.perf_counter()
    while time.perf_counter() - start < seconds or len(took[0]) < 5:
        for side, times in zip(sides, took):
            before = time.perf_counter()
            side()
            times.append(time.perf_counter() - before)
    return [statistics.median(times) for times in took]


def at_address(x, offset):
    """A copy `offset` bytes behind a multiple of 64."""
    import torch

    room = torch.empty(x.numel() + 32, dtype=x.dtype)
    start = (-room.data_ptr() % 64 + offset) // x.element_size()
    copy = room[start:start + x.numel()].view(x.shape)
    copy.copy_(x)
    return copy


def differences(products):
    import torch

    counts = {"address": 0, "rows": 0, "transposed": 0}
    draw = lambda least, most: int(torch.randint(least, most + 1, ()))
    for _ in range(products):
        rows, inside, outside = draw(1, 64), draw(2, 768), draw(1, 768)
        x, w = at_address(torch.randn(rows, inside), 0), at_address(torch.randn(outside, inside), 0)
        whole, part = x @ w.t(), draw(1, rows)
        counts["address"] += any(not torch.equal(whole, at_address(x, offset) @ w.t()) for offset in (4, 16, 36))
        counts["rows"] += not torch.equal(whole[:part], at_address(x[:part], 0) @ w.t())
        counts["transposed"] += not torch.equal(whole, x @ w.t().contiguous())
    return {name: count / products for name, count in counts.items()}


def own_mode(products, seconds):
    """Measures in this process and prints JSON."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {"differ": differences(products) if products else {}, "times": [], "copies": []}
    for rows, inside, outside in SHAPES:
        x, w = at_address(torch.randn(rows, inside), 0), torch.randn(outside, inside)
        odd, room = at_address(x, 4), torch.empty(rows, inside)
        alone, copied = median_times([lambda: x @ w.t(), lambda: room.copy_(odd) @ w.t()], seconds)
        found["times"].append(alone)
        found["copies"].append(copied / alone)
    print(json.dumps(found))


def measure(mode, products, seconds):
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    environment["OMP_NUM_THREADS"] = "1"
    if mode != "default": environment["MKL_CBWR"] = mode
    command = [sys.executable, __file__, "--own", "--products", str(products), "--seconds", str(seconds)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1, help="for each shape and process")
    parser.add_argument("--modes", default="default AUTO AUTO,STRICT", help="separated by spaces")
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.own: return own_mode(given.products, given.seconds)
    modes = ["default", *(mode for mode in given.modes.split() if mode != "default")]
    runs = {mode: [] for mode in modes}
    for number in range(ROUNDS):
        for mode in modes if number % 2 == 0 else reversed(modes):
            runs[mode].append(measure(mode, given.products if number == 0 else 0, given.seconds / ROUNDS))
    middle = lambda mode, key, shape: statistics.median(run[key][shape] for run in runs[mode])
    print(f"{'MKL_CBWR':<14} {'address':>8} {'rows':>8} {'transposed':>10}   time / default: " +
          ", ".join("x".join(map(str, shape)) for shape in SHAPES))
    for mode in modes:
        differ = next(run["differ"] for run in runs[mode] if run["differ"])
        ratios = [middle(mode, "times", i) / middle("default", "times", i) for i in range(len(SHAPES))]
        print(f"{mode:<14} {differ['address']:>8.1%} {differ['rows']:>8.1%} {differ['transposed']:>10.1%}   " +
              ", ".join(f"{ratio:.2f}" for ratio in ratios))
    print("with a copy to an aligned address, by default: " +
          ", ".join(f"{middle('default', 'copies', i):.2f}" for i in range(len(SHAPES))))


if __name__ == "__main__":
    main()
