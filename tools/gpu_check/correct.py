"""Whether numbers on a GPU are right: equality with references, optimizer steps, random numbers, memory, two stages on one GPU, messages."""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import struct

from .report import REPORTED, Item, last_lines, prediction_goal
from .sides import Ended, Side

CUDA_PLUGIN = "librannc_cuda.so"
LOSS = "cross_entropy(output=logits,labels=targets)"
SECONDS = 300  # of the part

# Goals.
TWO_STAGES_BY_ONE = 1.05
STEP_OFF, MEMORY_OFF = 0.05, 0.02  # of predictions
LOSSES_APART = (1e-5, 1e-3)  # from the processor's: of the first step, of later ones

REPLICAS = ["--replicas", "2,1", "--recompute", "always", "--sync-batch-norm"]
FLOAT32 = ["--dtype", "float32", "--stages", "2"]
CUTS = [["--stages", "1"], ["--stages", "2"], ["--stages", "4"], REPLICAS, FLOAT32]
# Models with rows that failed on the first GPU, by batch normalization without a scale: checked before the others.
FAILED_BEFORE = ["resnet_unfolded_dynamo", "resnet_unfolded_legacy_script", "mobilenet_v3_train_legacy", "resnet_train_legacy",
                 "resnet_train_legacy_b8", "unet_train_legacy"]
# What LibTorch's kernels for CUDA compute less exactly: models, whether of float32, the relative error of gradients that was measured with
# a rounding of its last digit, cause. A row with such an error is not counted; a larger error fails.
LIBTORCHS = [(["mobilenet_v3_folded_dynamo"], False, 6.25e-8, "the kernel of hardswish multiplies by 1/6 rounded to float32"),
             (["lstm_dynamo_dyn", "lstm_legacy_dyn", "lstm_legacy_b8"], True, 6.65e-6, "cuDNN")]


# --- equality

def models_of(run):
    first, count = run.share
    names = sorted(path.name for path in (run.root / "models").iterdir())
    names.sort(key=lambda name: name not in {*FAILED_BEFORE, *(name for row in LIBTORCHS for name in row[0])})
    return names[first - 1::count]


def equality_rows(run):
    return [(f"{name} {' '.join(cut)}", "its reference, by rannc-check") for name in models_of(run) for cut in CUTS]


def libtorchs_error(name, cut, results):
    """The cause, if all that is wrong is a gradient with an error that LibTorch's kernels are known to make."""
    wrong = [result for result in results if not result["ok"]]
    for models, of_float32, most, cause in LIBTORCHS:
        if name in models and of_float32 == (cut is FLOAT32) and wrong and all(
                result["gradients"]["relative"] <= most and all(text.startswith("gradient of ") and ": off by " in text
                                                                for text in result["failures"]) for result in wrong):
            return f"LibTorch's: {cause}; at most {most:g} is known"
    return None


def equality_row(run, name, cut, status, text, seconds):
    results = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    numbers = {"worst": max(result["gradients"]["relative"] for result in results)} if results else {}
    row = functools.partial(run.row, f"{name} {' '.join(cut)}", **numbers, seconds=round(seconds, 1))
    why = "\n".join(text for result in results for text in result["failures"]) or last_lines(text)
    if status == 0:
        row(True, "its reference, by rannc-check")
    elif "there is no plan" in text and "stages were requested" in text:
        row(None, "enough tasks for so many stages", why=why)
    elif run.on_gpu and (cause := libtorchs_error(name, cut, results)):
        row(None, "its reference, by rannc-check", why=cause)
    else:
        row(False, "its reference, by rannc-check", why=why)


def equality(run):
    """Carried models by several cuts, against their references."""
    cases = [(name, cut) for name in models_of(run) for cut in CUTS]
    check = lambda case: run.command("rannc-check", run.root / "models" / case[0], "--device", run.device, "--summary", "json", *case[1])
    with concurrent.futures.ThreadPoolExecutor(run.jobs) as pool:
        for (name, cut), result in zip(cases, pool.map(check, cases)):
            equality_row(run, name, cut, *result)


# --- models of rannc-zoo

def make(run, file, *arguments):
    status, text, _ = run.command("rannc-zoo", *arguments, "-o", file)
    if status != 0:
        run.row(f"rannc-zoo {arguments[0]} {file}", False, "is written", why=last_lines(text))
    return status == 0


def compiled(run, file, bundle, *flags):
    """A bundle for GPUs, or for what `flags` names."""
    cluster = [] if "--cluster" in flags else ["--cluster", cluster_file(run, 1)]
    status, text, _ = run.command("rannc-compile", file, "-o", bundle, "--replace", "--costs", "analytic", "--loss", LOSS, *cluster, *flags)
    if status != 0:
        run.row(f"compile {bundle}", False, "a bundle", why=last_lines(text))
    return status == 0


def cluster_file(run, devices):
    path = run.scratch / f"gpus{devices}.toml"
    path.write_text('name = "gpus"\n[kind.gpu]\nmemory_bytes = 6e10\nflops = 4e13\nbandwidth = 2e12\nlaunch_ns = 3000\ndevice = "cuda"\n'
                    f'[[node]]\ninside = {{ bandwidth = 1e11, latency_ns = 5000 }}\ndevices = [{{ kind = "gpu", count = {devices} }}]\n')
    return path


def trained(run, bundle, name, *flags, device=None, steps=6):
    """Losses of a run, and what it printed. Restarts the folder."""
    folder = run.scratch / f"{name}.run"
    shutil.rmtree(folder, ignore_errors=True)
    text_file = run.scratch / "text.txt"
    text_file.write_bytes(bytes(32 + (i * i * 31 + i // 7) % 90 for i in range(1 << 16)))
    status, text, _ = run.command("rannc-run", bundle, "-o", folder, "--text", text_file, "--steps", steps, "--device",
                                  device or run.device, *flags, timeout=200)
    losses = (folder / "losses.txt").read_text().split()[1::2] if status == 0 else []
    return [float.fromhex(each) for each in losses], text


def judge_losses(run, name, found, expected, of):
    """Losses of some steps beside those of others."""
    apart = [abs(a - b) / abs(a) for a, b in zip(expected, found, strict=True)]
    run.row(name, apart[0] <= LOSSES_APART[0] and max(apart) <= LOSSES_APART[1], losses_goal(of), first=apart[0], worst=max(apart))


def losses_goal(of):
    return f"{of}, within {LOSSES_APART[0]} and later {LOSSES_APART[1]}"


# --- masks

DROPPED = [("random numbers", "the bits of the processor"), ("losses with --deterministic, twice", "the same bits"),
           ("losses with dropout", losses_goal("the processor's")), ("losses without dropout", "others than with it")]


def masks(run):
    """Random numbers bit by bit, and the losses of a model with dropout."""
    os.environ["RANNC_TEST_PLUGIN"] = str(run.root / "lib" / CUDA_PLUGIN) if run.on_gpu else run.device
    status, text, _ = run.command("device-numbers")
    run.row(*[DROPPED[0][0], status == 0 and "PASSED" in text and "SKIPPED" not in text, DROPPED[0][1]],
            **({} if status == 0 else {"why": last_lines(text, 600)}))
    if not make(run, "dropped.onnx", "gpt", "--layers", 2, "--width", 64, "--context", 32):
        return
    losses = {}
    for name, flags in [("dropout", ["--dropout", "*mlp.down.Add*=0.5"]), ("none", [])]:
        if not compiled(run, "dropped.onnx", f"{name}.rannc", "--mini-batch", 8, *flags):
            return
        for device in ["cpu", run.device]:
            losses[name, device], text = trained(run, f"{name}.rannc", name, device=device, steps=4)
            if len(losses[name, device]) != 4:
                run.row(f"losses with {name} on {device}", False, "four steps", why=last_lines(text))
                return
    again = [trained(run, "dropout.rannc", "dropout", "--deterministic", steps=4)[0] for _ in range(2)]
    run.row("losses with --deterministic, twice", len(again[0]) == 4 and again[0] == again[1], "the same bits")
    judge_losses(run, "losses with dropout", losses["dropout", run.device], losses["dropout", "cpu"], "the processor's")
    with_it, without = losses["dropout", run.device][0], losses["none", run.device][0]
    first = abs(with_it - without) / abs(with_it)
    run.row("losses without dropout", first > 10 * LOSSES_APART[0], "others than with it", first=first)


# --- messages

def write_tokens(path, samples, places, token):
    """A mini-batch of one token as .safetensors."""
    body = struct.pack("<q", token) * (samples * places)
    entry = lambda begin: {"dtype": "I64", "shape": [samples, places], "data_offsets": [begin, begin + len(body)]}
    header = json.dumps({"x/tokens": entry(0), "labels/targets": entry(len(body))}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + body + body)


FAULTS = [("a GPU that does not exist", "cuda:99 does not exist"), ("a device of no kind", "expected cpu, cuda"),
          ("a bundle that does not exist", "no such bundle"), ("a token beyond the vocabulary", "the valid indices are 0 to 255")]


def fault_rows(run):
    return [(name, f"one error that says: {expected}") for name, expected in FAULTS[0 if run.on_gpu else 1:]]


def faults(run):
    """One clear error and a status that is not 0."""
    if not make(run, "small.onnx", "gpt", "--layers", 2, "--width", 64, "--context", 32):
        return
    if not compiled(run, "small.onnx", "small.rannc", "--mini-batch", 8):
        return
    text, tokens = run.scratch / "text.txt", run.scratch / "tokens.safetensors"
    text.write_text("text " * 100000)
    write_tokens(tokens, 8, 32, 300)  # of 256
    arguments = {"a GPU that does not exist": ["small.rannc", "--text", text, "--device", "cuda:99"],
                 "a device of no kind": ["small.rannc", "--text", text, "--device", "tpu"],
                 "a bundle that does not exist": ["absent.rannc", "--text", text, "--device", run.device],
                 "a token beyond the vocabulary": ["small.rannc", "--data", tokens, "--device", run.device]}
    for (name, expected), (_, goal) in zip(FAULTS[0 if run.on_gpu else 1:], fault_rows(run)):
        status, output, _ = run.command("rannc-run", *arguments[name], "--steps", 2, "-o", "fault.run")
        good = status in (1, 2) and expected in output and "Exception raised" not in output and output.count("error: ") == 1
        run.row(name, good, goal, status=status, **({} if good else {"why": last_lines(output)}))


# --- optimizer steps

OPTIMIZERS = {"sgd": ["--momentum", 0.9], "adam": [], "adamw": []}
UPDATES_APART = {"float32": 1e-4, "float64": 1e-9}  # of losses; sums of embeddings have no fixed order


def update_rows(_):
    return [(f"{optimizer} in {float_type}", f"losses without the update kernel, within {most:g}")
            for float_type, most in UPDATES_APART.items() for optimizer in OPTIMIZERS]


def losses_of_steps(run, *arguments, steps=6):
    """Of bench-steps. Raises Ended."""
    side = Side("bench-steps", [run.root / "bin/bench-steps", *arguments, "--device", run.device])
    for _ in range(steps):
        side.step()
    side.end()
    return side.losses


def updates(run):
    """The plug-in's kernel for optimizer steps beside LibTorch's operators."""
    if not make(run, "updated.onnx", "gpt", "--layers", 2, "--width", 64, "--context", 32):
        return
    tokens = run.scratch / "updated.safetensors"
    write_tokens(tokens, 8, 32, 7)
    rows = iter(update_rows(run))
    for float_type, most in UPDATES_APART.items():
        bundle = run.scratch / f"{float_type}.rannc"
        if not compiled(run, "updated.onnx", bundle, "--mini-batch", 8, "--dtype", float_type):
            return
        for optimizer, more in OPTIMIZERS.items():
            name, goal = next(rows)
            try:
                given = [bundle, "--data", tokens, "--optimizer", optimizer, "--learning-rate", 1e-3, *more]
                found, expected = losses_of_steps(run, *given), losses_of_steps(run, *given, "--no-update-kernel")
            except Ended as failure:
                run.row(name, False, goal, why=last_lines(str(failure)))
                continue
            apart = max(abs(a - b) / abs(a) for a, b in zip(expected, found, strict=True))
            fell = (found[0] - found[-1]) / found[0]
            run.row(name, apart <= most and fell > 10 * most, goal, worst=apart, fell=fell)


# --- memory and two stages

def held_bytes(text):
    found = re.search(r"held (\d+) bytes at most, (\d+) were predicted", text)
    return (int(found[1]), int(found[2])) if found else (None, None)


def step_ms(text):
    found = re.search(r"step measured ([0-9.]+) ms, predicted ([0-9.]+) ms", text)
    return (float(found[1]), float(found[2])) if found else (None, None)


PLANS = [("gpt", ["--mini-batch", 16]), ("gpt, four micro-batches", ["--mini-batch", 16, "--micro-batches", 4])]


def memory_rows(_):
    return [row for name, _ in PLANS for row in [
        (name, prediction_goal(MEMORY_OFF)), (f"{name}, without CUDA graphs", prediction_goal(MEMORY_OFF)),
        (f"{name}: losses with CUDA graphs", losses_goal("those without")), (f"{name}: reserved bytes", REPORTED)]]


def reserved(run, name, context):
    """Bytes that the allocator took from the device, beside those that tensors have."""
    tokens = run.scratch / "memory.safetensors"
    write_tokens(tokens, 16, context, 7)
    try:
        side = Side("bench-steps", [run.root / "bin/bench-steps", run.scratch / "memory.rannc", "--data", tokens, "--device", run.device])
        for _ in range(4):
            side.step()
        found = side.peak()
        side.end()
        run.row(f"{name}: reserved bytes", None, REPORTED, allocated=found["allocated"], value=found["reserved"])
    except Ended as failure:
        run.row(f"{name}: reserved bytes", None, REPORTED, why=last_lines(str(failure)))


def memory(run):
    """Peak of the device's allocator beside the prediction."""
    width, context = (512, 256) if run.on_gpu else (64, 32)
    if not make(run, "memory.onnx", "gpt", "--layers", 8 if run.on_gpu else 2, "--width", width, "--context", context):
        return
    for name, flags in PLANS:
        if not compiled(run, "memory.onnx", "memory.rannc", "--optimizer", "adam", *flags):
            continue
        losses = []
        for graphs in [[], ["--no-cuda-graphs"]]:
            found, text = trained(run, "memory.rannc", "memory", "--optimizer", "adam", *graphs)
            held, predicted = held_bytes(text) if len(found) == 6 else (None, None)
            # The recordings of a device for tests share no memory.
            run.judge_prediction(f"{name}{', without CUDA graphs' if graphs else ''}", held, predicted, MEMORY_OFF,
                                 run.on_gpu or bool(graphs) or held is None, **({} if held else {"why": last_lines(text)}))
            losses.append(found)
        if all(losses):
            judge_losses(run, f"{name}: losses with CUDA graphs", *losses, "those without")
        reserved(run, name, context)


def stage_rows(_):
    return [("1 stages on one GPU: loss", "falls"), ("1 stage on one GPU: step ms", prediction_goal(STEP_OFF)),
            ("1 stage on one GPU: bytes", prediction_goal(MEMORY_OFF)), ("2 stages on one GPU: loss", "falls"),
            ("step of two stages by that of one", f"≤ {TWO_STAGES_BY_ONE}")]


def stages(run):
    """Two stages on one GPU beside one, and what was predicted of that."""
    width, context = (1024, 512) if run.on_gpu else (64, 32)
    if not make(run, "timed.onnx", "gpt", "--layers", 8 if run.on_gpu else 2, "--width", width, "--heads", width // 64, "--context", context):
        return
    taken = {}
    for count in [1, 2]:
        # The rates of this machine's GPU, for the prediction; that of two devices on one GPU is none.
        cluster = ["local:cuda", "--devices", 1] if run.on_gpu and count == 1 else [cluster_file(run, count)]
        if not compiled(run, "timed.onnx", f"timed{count}.rannc", "--optimizer", "adam", "--mini-batch", 16, "--micro-batches", 4, "--stages",
                        count, "--cluster", *cluster):
            continue
        losses, text = trained(run, f"timed{count}.rannc", f"timed{count}", "--optimizer", "adam", device="cuda:0" if run.on_gpu else None,
                               steps=12 if run.on_gpu else 4)
        why = {} if losses else {"why": last_lines(text)}
        taken[count], predicted = step_ms(text)
        run.judge(f"{count} stages on one GPU: loss", "falls", losses[-1] if losses else None, lambda last: last < losses[0], **why)
        if count == 1:
            run.judge_prediction("1 stage on one GPU: step ms", taken[1], predicted, STEP_OFF, run.on_gpu)
            run.judge_prediction("1 stage on one GPU: bytes", *held_bytes(text), MEMORY_OFF, run.on_gpu)
    both = taken.get(1) and taken.get(2)
    run.judge("step of two stages by that of one", f"≤ {TWO_STAGES_BY_ONE}", taken[2] / taken[1] if both else None,
              lambda ratio: ratio <= TWO_STAGES_BY_ONE, run.on_gpu)


# Seconds on one H200 with 16 cores (tests/bench/gpu.md), and some more.
ITEMS = [Item("equality", 140, equality, equality_rows), Item("updates", 25, updates, update_rows),
         Item("masks", 25, masks, lambda _: DROPPED), Item("memory", 45, memory, memory_rows), Item("faults", 10, faults, fault_rows), Item("stages", 35, stages, stage_rows)]
