"""PyTorch's side of a comparison: trains a module a step at a time, each when a line of standard input asks for it.

    python raw_eager.py MODEL DATA [DEVICE] [--float-type bfloat16] [--mode eager|default|reduce-overhead|max-autotune]
        [--weights FILE] [--layout first|last] [--precision highest|high|autocast] [--pageable] [--lock FILE]

DATA is the mini-batch, which every step copies from pinned host memory, as a data loader provides it. Answers are those of bench-steps:
`profile` prints the time of a step's kernels, `peak` the most bytes that PyTorch's allocator held since the first step, `null` on a
processor. `--mode` other than eager is torch.compile's. `--lock` keeps several processes from timing kernels at once.
"""
import argparse
import contextlib
import fcntl
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
LAYOUTS = {"first": torch.contiguous_format, "last": torch.channels_last}


def with_weights(model, flags):
    """The module with the weights of a file. Each parameter must be in it, tied ones under one name at least."""
    with torch.device(flags.device):
        module = model.rival().to(raw_models.FLOAT_TYPES[flags.float_type])
    state, written = module.state_dict(), set()
    for name, tensor in load_file(flags.weights).items():
        if name in state:
            state[name].copy_(tensor)
            written.add(state[name].data_ptr())
    missing = [name for name, parameter in module.named_parameters() if parameter.data_ptr() not in written]
    if missing:
        raise SystemExit(f"raw_eager: {flags.weights} lacks {', '.join(missing)}")
    return module


class Training:
    def __init__(self, flags, layout):
        model = raw_models.MODELS[flags.model]
        module = with_weights(model, flags) if flags.weights else raw_models.seeded(model.rival)
        self.module = module.train().to(flags.device, raw_models.FLOAT_TYPES[flags.float_type], memory_format=layout)
        self.device, self.autocasts = torch.device(flags.device), flags.precision == "autocast"
        tensors = {key: tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor for key, tensor in load_file(flags.data).items()}
        if self.device.type != "cpu" and not flags.pageable:
            tensors = {key: tensor.pin_memory() for key, tensor in tensors.items()}
        self.host = [*(tensors[f"x/{key}"] for key in model.inputs(1)), tensors["labels/y"]]  # in the order in which the module takes them
        self.loss = self.eager_loss if flags.mode == "eager" else torch.compile(self.eager_loss, dynamic=False, mode=flags.mode)
        kind, more = OPTIMIZERS[model.optimizer]
        self.optimizer = kind(self.module.parameters(), lr=model.learning_rate, fused=True, **more)

    def eager_loss(self, inputs, labels):
        with torch.autocast(self.device.type, torch.bfloat16) if self.autocasts else contextlib.nullcontext():
            return F.cross_entropy(self.module(*inputs).flatten(0, -2), labels.flatten())

    def step(self):
        *inputs, labels = [tensor.to(self.device, non_blocking=True) for tensor in self.host]
        loss = self.loss(inputs, labels)
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
    layouts = list(LAYOUTS.values())
    if flags.layout:
        return LAYOUTS[flags.layout]
    if not any(tensor.dim() == 4 for tensor in load_file(flags.data).values()):
        return layouts[0]
    trainings = [Training(flags, layout) for layout in layouts]
    clock = 1 if flags.device == "cpu" else 0
    rounds = [[timed(training)[clock] for training in trainings] for _ in range(TRIED_STEPS)]
    taken = [min(times[1:]) for times in zip(*rounds)]
    return layouts[taken.index(min(taken))]


def profile_on_gpu(training):
    """As `profile`, of the GPU's kernels, copies and fills of memory."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        start = time.perf_counter()
        for _ in range(PROFILED_STEPS):
            training.step()
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - start) / PROFILED_STEPS
    kernels = {}
    for event in found.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and not event.is_user_annotation():
            kernel = kernels.setdefault(event.name(), [0, 0])
            kernel[0] += 1e-9 * event.duration_ns() / PROFILED_STEPS
            kernel[1] += 1 / PROFILED_STEPS
    return {"seconds": seconds, "kernels": kernels}


def profile(training):
    """Seconds of a step, and of it those of every kernel by name and shapes, as bench-steps says them."""
    if training.device.type == "cuda":
        return profile_on_gpu(training)
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
    on_gpu = device.startswith("cuda")
    return {"allocated": torch.cuda.max_memory_allocated(device) if on_gpu else None,
            "reserved": torch.cuda.max_memory_reserved(device) if on_gpu else None}


def time_kernels_alone(lock):
    """Makes torch.compile hold a file's lock while it times kernels, so that processes that compile beside each other choose well."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    held = False

    def alone(times):
        def run(*arguments, **more):
            nonlocal held
            if held:  # one may call the other
                return times(*arguments, **more)
            with open(lock, "a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                held = True
                try:
                    return times(*arguments, **more)
                finally:
                    held = False
        return run
    CachingAutotuner.benchmark_all_configs = alone(CachingAutotuner.benchmark_all_configs)
    AlgorithmSelectorCache.benchmark_choices = staticmethod(alone(AlgorithmSelectorCache.benchmark_choices))


def main(flags):
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = flags.precision == "high"  # as in ours
    torch.backends.cuda.matmul.allow_tf32 = flags.precision == "high"
    if flags.lock and flags.mode != "eager":
        time_kernels_alone(flags.lock)
    layout = better_layout(flags)
    restart_peak(flags.device)
    training = Training(flags, layout)
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
    parser.add_argument("--mode", choices=["eager", "default", "reduce-overhead", "max-autotune"], default="eager")
    parser.add_argument("--weights", help=".safetensors file with the module's tensors, in place of a seed")
    parser.add_argument("--layout", choices=LAYOUTS, help="of images: channels first or last; without it the faster one")
    parser.add_argument("--precision", choices=["highest", "high", "autocast"], default="highest",
                        help="of products of float32: IEEE, TF32, or bfloat16 by torch.autocast")
    parser.add_argument("--pageable", action="store_true", help="copy the mini-batch from memory that is not pinned")
    parser.add_argument("--lock", help="file that other processes lock too, to time kernels alone")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse_flags())
