"""PyTorch's side of tests/bench/raw_speed.py: trains a module a step at a time, each when a line of standard input asks for it.

    python raw_eager.py MODEL DATA [DEVICE]

DATA is the mini-batch. Answers are those of bench-steps.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import raw_models

PROFILED_STEPS, TRIED_STEPS = 3, 4


class Training:
    def __init__(self, name, data, layout, device):
        model = raw_models.MODELS[name]
        self.module = raw_models.seeded(model.rival).train().to(device, memory_format=layout)
        tensors = load_file(data, device=device)
        inputs = [tensors[f"x/{key}"] for key in model.inputs(1)]  # in the order in which the module takes them
        self.inputs = [each.contiguous(memory_format=layout) if each.dim() == 4 else each for each in inputs]
        self.labels = tensors["labels/y"]
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[model.optimizer]
        self.optimizer = kind(self.module.parameters(), lr=model.learning_rate, fused=True)

    def step(self):
        logits = self.module(*self.inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), self.labels.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def timed(training):
    start, ran = time.perf_counter(), time.process_time()
    loss = training.step()
    ran = time.process_time() - ran
    return time.perf_counter() - start, ran, loss


def better_layout(name, data, device):
    """Channels last or first: the one in which a model of images takes less time here, tried for a few steps by turns."""
    layouts = [torch.contiguous_format, torch.channels_last]
    if not any(key.startswith("x/images") for key in load_file(data)):
        return layouts[0]
    trainings = [Training(name, data, layout, device) for layout in layouts]
    clock = 1 if device == "cpu" else 0
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


def main(name, data, device="cpu"):
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as in ours
    layout = better_layout(name, data, device)
    training = Training(name, data, layout, device)
    print(f"ready {str(layout).removeprefix('torch.')}", flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            print(json.dumps(profile(training)), flush=True)
        else:
            print("{:.9f} {:.9f} {:.9g}".format(*timed(training)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
