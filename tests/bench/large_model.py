"""A model of 6 GB of weights from file to bundle within 2 GiB of anonymous memory: weights stay on disk until they are written.

usage: python tests/bench/large_model.py PROGRAMS FOLDER [--gigabytes 6] [--most-bytes 2147483648]

Writes a decoder with that many bytes of float32 weights into FOLDER, unless it is there, and compiles it for two devices with analytic
costs. FOLDER needs room for two copies of them. Prints the anonymous memory that the compiler held at most (sampled every ten milliseconds) and its
largest resident set, which counts pages of files too. Exit status 1 where the first exceeds the limit or the compiler fails.
"""
import argparse
import array
import os
import pathlib
import random
import re
import subprocess
import sys
import time

WIDTH = 2048
LAYER_BYTES = 4 * 12 * WIDTH * WIDTH
BLOCK = 262147  # numbers that repeat; a prime, so that no two tensors begin and end alike


def anonymous_bytes(process):
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0


def watched(command):
    """Runs it; its exit status, most anonymous bytes and largest resident set."""
    process = subprocess.Popen(command)
    most = 0
    while True:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), most, used.ru_maxrss * 1024
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.01)


def write_model(zoo, model, layers):
    told = subprocess.run([zoo, "gpt", "--without-weights", "--layers", str(layers), "--width", str(WIDTH), "--heads", "16", "-o", model],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    size = 4 * int(re.search(r"(\d+) parameters", told)[1])
    numbers = random.Random(0)
    block = array.array("f", (numbers.uniform(-0.02, 0.02) for _ in range(BLOCK))).tobytes()
    with open(f"{model}.weights", "wb") as weights:
        while weights.tell() < size:
            weights.write(block[:size - weights.tell()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=6)
    parser.add_argument("--most-bytes", type=int, default=2 << 30)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    layers = -int(-given.gigabytes * 1e9 // LAYER_BYTES)
    model = given.folder / f"decoder-{layers}.onnx"
    if not model.exists():
        write_model(given.programs / "rannc-zoo", model, layers)
    started = time.monotonic()
    status, anonymous, resident = watched(
        [given.programs / "rannc-compile", model, "-o", given.folder / "bundle.rannc", "--replace", "--cluster", "local:2", "--stages", "2",
         "--memory", "64GiB", "--mini-batch", "8", "--loss", "cross_entropy(output=logits,labels=targets)", "--costs", "analytic"])
    weights = os.stat(f"{model}.weights").st_size
    print(f"{weights / 1e9:.2f} GB of weights: {anonymous / 2**20:.0f} MiB of anonymous memory at most, resident set {resident / 2**20:.0f} MiB, "
          f"{time.monotonic() - started:.0f} s")
    if status:
        sys.exit(f"rannc-compile ended with status {status}")
    if anonymous > given.most_bytes:
        sys.exit(f"{anonymous} bytes of anonymous memory, {given.most_bytes} are allowed")


if __name__ == "__main__":
    main()
