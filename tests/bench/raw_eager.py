"""PyTorch's side of tests/bench/raw_speed.py: trains a module a step at a time, each when a line of standard input asks for it.

    python raw_eager.py MODEL DATA [DEVICE] [--float-type bfloat16] [--compile]

DATA is the mini-batch. Answers are those of bench-steps. `peak` prints the bytes of the most that PyTorch's allocator held since the
first step, or `null` on a processor, where it does not count.
"""
import argparse
import gc
import json
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import raw_models

PROFILED_STEPS, TRIED_STEPS = 3, 4
# Weights do not decay, as in bench-steps.
OPTIMIZERS = {"adam": (torch.optim.Adam, {}), "adamw": (torch.optim.AdamW, {"weight_decay": 0}), "sgd": (torch.optim.SGD, {})}


class Training:
    def __init__(self, flags, layout, compiled=False):
        model = raw_models.MODELS[flags.model]
        self.module = raw_models.seeded(model.rival).train().to(flags.device, raw_models.FLOAT_TYPES[flags.float_type], memory_format=layout)
        tensors = load_file(flags.data, device=flags.device)
        inputs = [tensors[f"x/{key}"] for key in model.inputs(1)]  # in the order in which the module takes them
        self.inputs = [each.contiguous(memory_format=layout) if each.dim() == 4 else each for each in inputs]
        self.labels = tensors["labels/y"]
        self.loss = torch.compile(self.eager_loss, dynamic=False) if compiled else self.eager_loss
        kind, more = OPTIMIZERS[model.optimizer]
        self.optimizer = kind(self.module.parameters(), lr=model.learning_rate, fused=True, **more)

    def eager_loss(self):
        return F.cross_entropy(self.module(*self.inputs).flatten(0, -2), self.labels.flatten())

    def step(self):
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def timed(training):
    start, ran = time.perf_counter(), time.process_time()
    loss = training.step()
    ran = time.process_time() - ran
    return time.perf_counter() - start, ran, loss


def better_layout(flags):
    """Channels last or first: the one in which a model of images takes less time here, tried for a few steps by turns."""
    layouts = [torch.contiguous_format, torch.channels_last]
    if not any(key.startswith("x/images") for key in load_file(flags.data)):
        return layouts[0]
    trainings = [Training(flags, layout) for layout in layouts]
    clock = 1 if flags.device == "cpu" else 0
    rounds = [[timed(training)[clock] for training in trainings] for _ in range(TRIED_STEPS)]
    taken = [min(times[1:]) for times in zip(*rounds)]
    return layouts[taken.index(min(taken))]


def profile(training):
    """Seconds of a step, and of it those of every kernel by name and shapes, as bench-steps says them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, acc_events=True) as found:
        start = time.perf_counter()
        for _ in range(PROFILED_STEPS):
            training.step()
        seconds = (time.perf_counter() - start) / PROFILED_STEPS
    kernels = {f"{event.key} {event.input_shapes}".replace(" ", "").replace("[", " [", 1):
               [1e-6 * event.self_cpu_time_total / PROFILED_STEPS, event.count / PROFILED_STEPS]
               for event in found.key_averages(group_by_input_shape=True)}
    return {"seconds": seconds, "kernels": kernels}


def restart_peak(device):
    """Frees what the trial of layouts left, which is no part of a training."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device):
    return torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else None


def main(flags):
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as in ours
    layout = better_layout(flags)
    restart_peak(flags.device)
    training = Training(flags, layout, flags.compile)
    print(f"ready {str(layout).removeprefix('torch.')}", flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            print(json.dumps(profile(training)), flush=True)
        elif line.strip() == "peak":
            print(json.dumps(peak_bytes(flags.device)), flush=True)
        else:
            print("{:.9f} {:.9f} {:.9g}".format(*timed(training)), flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=raw_models.MODELS)
    parser.add_argument("data")
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--float-type", choices=raw_models.FLOAT_TYPES, default="float32")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse_flags())
