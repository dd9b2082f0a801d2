"""Linear layers by a weight as files have it, and by one that is transposed once a step, in turns on one thread:

    python tests/bench/transposed_weights.py [--seconds 3]

with torch. A step is both passes of one or four micro-batches, the transposition and its gradient's way back among it. Prints plain time over
transposed time: above 1 it pays.
"""
import argparse
import os
import statistics
import time

os.environ["OMP_NUM_THREADS"] = "1"
import torch

torch.set_num_threads(1)
SHAPES = [(2048, 256, 1024), (2048, 1024, 256), (512, 256, 1024), (256, 768, 3072), (256, 3072, 768), (256, 768, 50257), (64, 768, 3072),
          (16, 2048, 1000), (4, 2048, 1000), (1024, 256, 256), (128, 256, 256)]
FEWEST, WARM_UP = 8, 2


def plain(batches, weight):
    """Sums the weight's gradient over (x, gradient of the result) pairs."""
    total = None
    for x, gradient in batches:
        torch.nn.functional.linear(x, weight)
        gradient @ weight
        own = gradient.t() @ x
        total = own if total is None else total.add_(own)
    return total


def transposed(batches, weight):
    turned, total = weight.t().contiguous(), None
    for x, gradient in batches:
        x @ turned
        gradient @ turned.t()
        own = x.t() @ gradient
        total = own if total is None else total.add_(own)
    return total.t().contiguous()


def ratio(rows, inside, outside, micro_batches, seconds):
    batches = [(torch.randn(rows, inside), torch.randn(rows, outside)) for _ in range(micro_batches)]
    weight = torch.randn(outside, inside)
    took, start = {plain: [], transposed: []}, time.perf_counter()
    sides = [plain, transposed]
    while len(took[plain]) < FEWEST or time.perf_counter() - start < seconds:
        for side in sides:
            before = time.perf_counter()
            side(batches, weight)
            took[side].append(time.perf_counter() - before)
        sides.reverse()
    return statistics.median(took[plain][WARM_UP:]) / statistics.median(took[transposed][WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3, help="for each shape at least")
    seconds = parser.parse_args().seconds
    print("| rows, in, out | 1 micro-batch | 4 micro-batches |\n|---|---|---|")
    for rows, inside, outside in SHAPES:
        once, four = (ratio(rows, inside, outside, count, seconds) for count in (1, 4))
        print(f"| {rows}, {inside}, {outside} | {once:.3f} | {four:.3f} |", flush=True)


if __name__ == "__main__":
    main()
