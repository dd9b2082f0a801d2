#!/usr/bin/env python3
"""Checks that code of one instruction set stays apart from code of another.

usage: separate_variants_test.py COMPILER ROOT symbols|instructions
symbols       Without optimization every inline function becomes a weak symbol, which the linker merges by name: variants share
              none.
instructions  With optimization, no instruction joins a product and a sum, since a baseline has none that does.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VARIANTS = {"baseline": [], "avx2": ["-mavx2"], "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"]}
FLAGS = ["-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def build(compiler, root, folder, variant, level):
    """The object of kernels.cc, or None where the compiler lacks the instruction set."""
    target = Path(folder) / f"{variant}{level}.o"
    source = Path(root) / "tests/codegen/native/kernels.cc"
    command = [compiler, *FLAGS, level, *VARIANTS[variant], f"-DRANNC_KERNELS={variant}_kernels", f"-I{root}", "-c", source, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 or variant != "baseline", done.stderr
    return target if done.returncode == 0 else None


def weak_symbols(path):
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if re.search(r" [WVu] ", line)}


def check_symbols(objects):
    weak = {variant: weak_symbols(path) for variant, path in objects.items()}
    for one, symbols in weak.items():
        print(f"{one}: {len(symbols)} weak symbols")
        assert symbols, f"{one} has no weak symbol: this test cannot fail"
        for other in weak:
            shared = symbols & weak[other]
            assert one == other or not shared, f"{one} and {other} share {sorted(shared)[:3]}"


def check_instructions(objects):
    for variant, path in objects.items():
        text = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
        products = len(re.findall(r"\bv?mulps\b", text))
        print(f"{variant}: {products} products of floats")
        assert products, f"{variant} multiplies nothing: this test cannot fail"
        joined = re.findall(r"\bvf(?:n?m(?:add|sub)|maddsub|msubadd)\w*", text)
        assert not joined, f"{variant} joins products and sums: {joined[:3]}"


def main():
    compiler, root, what = sys.argv[1:4]
    if not (shutil.which("nm") and shutil.which("objdump")):
        print("skipped: no nm or objdump")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        level = "-O0" if what == "symbols" else "-O3"
        objects = {variant: build(compiler, root, folder, variant, level) for variant in VARIANTS}
        built = {variant: path for variant, path in objects.items() if path}
        (check_symbols if what == "symbols" else check_instructions)(built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
