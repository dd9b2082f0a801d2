"""A small GPT trained as GPTs are (Muon and AdamW by groups, averages, warm-up-stable-decay, clipping), on two stages of two sharded
replicas, killed and resumed on another plan, beside one process of PyTorch; skipped without PyTorch."""
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import programs

try:
    import safetensors.torch
    import torch
    from torch import nn
    from torch.optim import swa_utils
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

WORDS, WIDTH, HEADS, LAYERS, TIME, SAMPLES, BATCH = 32, 32, 2, 2, 12, 64, 8
STEPS, WARMUP, AVERAGE, CLIP, RATE, DECAY = 200, 10, 0.95, 0.5, 0.01, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TIME, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def made(dtype):
    torch.manual_seed(3)
    return GPT().to(dtype)


def samples():
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(WORDS, (SAMPLES, TIME + 1), generator=generator)
    tokens[:, 1::2] = (tokens[:, :-1:2] * 5 + 1) % WORDS  # half of the words follow from others
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def factor(update):
    if update < WARMUP:
        return (update + 1) / WARMUP
    begin = STEPS - STEPS // 5
    return 1 if update < begin else 1 - 0.9 * min(1, (update - begin) / (STEPS - begin))


def loss_of(net, tokens, targets):
    return nn.functional.cross_entropy(net(tokens).flatten(0, 1), targets.flatten())


def reference(dtype):
    """Losses by step, and that of the averages over all samples."""
    net = made(dtype)
    named = dict(net.named_parameters())
    matrices = [p for name, p in named.items() if p.ndim == 2 and name.startswith("blocks.")]
    vectors = [p for p in named.values() if p.ndim == 1]
    slow = [named["words.weight"], named["places.weight"]]
    optimizers = [torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW([{"params": [named["head.weight"]], "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0},
                                     {"params": slow, "weight_decay": 0.0, "lr": RATE / 2}], lr=RATE, betas=(0.9, 0.95))]
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, factor) for each in optimizers]
    averages = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(AVERAGE))
    tokens, targets = samples()
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
        net.zero_grad()
        loss = loss_of(net, tokens[part], targets[part])
        loss.backward()
        losses.append(loss.item())
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        for each in optimizers + schedules:
            each.step()
        averages.update_parameters(net)
    with torch.no_grad():
        return losses, loss_of(averages.module, tokens, targets).item(), averages.module.state_dict()


class TrainingInTorch(programs.ProgramTest):
    executed = ("rannc-run",)

    def compile(self, name, precision, *more):
        model = self.scratch / "gpt.pt2"
        if not model.exists():
            batch = torch.export.Dim("batch", min=2, max=64)
            tokens = samples()[0][:BATCH]
            exported = torch.export.export(made(torch.float32), (tokens,), dynamic_shapes=({0: batch},), strict=False)
            torch.export.save(exported, model)
            tokens, targets = samples()
            safetensors.torch.save_file({"x/tokens": tokens, "labels/targets": targets}, self.scratch / "data.safetensors")
            safetensors.torch.save_file(made(torch.float64).state_dict(), self.scratch / "weights64.safetensors")
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", model, "-o", bundle, "--output-name", "logits", "--mini-batch", BATCH, "--costs", "analytic", "--loss",
                     "cross_entropy(output=logits,labels=targets)", "--optimizer", "muon", "--ema", AVERAGE, "--dtype", precision,
                     "--group", "head.weight: optimizer=adamw, beta2=0.95", "--group", "words.weight: rate=0.5x", "--group",
                     "places.weight: rate=0.5x", *more)
        return bundle

    def command(self, bundle, *more):
        return [programs.program("rannc-run"), str(bundle), "-o", str(self.scratch / "run"), "--data", str(self.scratch / "data.safetensors"),
                "--steps", str(STEPS), *map(str, more)]

    def losses(self):
        path = self.scratch / "run" / "losses.txt"
        return [float.fromhex(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def train(self, precision):
        wide = self.compile("wide", precision, "--cluster", "local:4", "--stages", 2, "--replicas", "2,2", "--shard-optimizer", "on",
                            "--micro-batches", 2)
        deep = self.compile("deep", precision, "--cluster", "local:3", "--stages", 3, "--micro-batches", 4)
        settings = ["--learning-rate", RATE, "--weight-decay", DECAY, "--no-decay", "--no-decay-embeddings", "--betas", "0.9,0.95",
                    "--clip-norm", CLIP, "--warmup-steps", WARMUP, "--decay", "wsd", "--decay-steps", STEPS, "--checkpoint-every", 20]
        running = self.popen(self.command(wide, *settings, "--transport", "shm"))
        deadline = time.monotonic() + programs.HANG_SECONDS
        while len(self.losses()) < 90 and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.02)
        self.assertIsNone(running.poll(), "it is killed before its end")
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        said = self.succeed("rannc-run", *self.command(deep, "--resume", "--validate", self.scratch / "data.safetensors", "--export-weights",
                                                       self.scratch / "averaged.safetensors", "--averaged")[1:]).stdout
        self.assertRegex(said, r"resuming after step (80|100|120|140)")
        validated = float(re.search(r"validation after step 200: loss ([0-9.]+)", said)[1])
        return self.losses(), validated, safetensors.torch.load_file(self.scratch / "averaged.safetensors")

    def popen(self, command):
        running = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: running.poll() is None and os.killpg(running.pid, signal.SIGKILL))
        return running

    def relative(self, found, expected):
        found, expected = (torch.tensor(each, dtype=torch.float64) for each in (found, expected))
        return ((found - expected).norm() / expected.norm()).item()

    def test_float64_is_pytorchs(self):
        torch.set_num_threads(1)
        losses, validated, averages = self.train("float64")
        expected, of_averages, state = reference(torch.float64)
        self.assertLess(expected[-1], 0.1 * expected[0], "it learns")
        self.assertLess(self.relative(losses, expected), 1e-10)
        self.assertAlmostEqual(validated / of_averages, 1, delta=1e-3, msg="as many digits as are printed")
        self.assertEqual(set(averages), set(state))
        for name, tensor in state.items():
            self.assertLess(((averages[name] - tensor).norm() / tensor.norm()).item(), 1e-10, name)

    def test_float32_is_as_exact_as_pytorchs_own(self):
        """Muon rounds to bfloat16: what float32 rounds becomes a percent of the losses of 200 steps, in PyTorch as here."""
        torch.set_num_threads(1)
        losses = self.train("float32")[0]
        exact, narrow = reference(torch.float64)[0], reference(torch.float32)[0]
        self.assertLess(self.relative(losses[:20], exact[:20]), 2 * self.relative(narrow[:20], exact[:20]))
        self.assertLess(self.relative(losses, exact), 2 * self.relative(narrow, exact))


class Fresh(nn.Module):
    """Its biases begin equal, which the exporter's optimizer would merge, and its dropout is on."""

    def __init__(self):
        super().__init__()
        self.words, self.drop = nn.Embedding(WORDS, WIDTH), nn.Dropout(0.1)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)
        for layer in (*self.layers, self.head):
            nn.init.zeros_(layer.bias)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = self.drop(torch.relu(layer(x)))
        return self.head(x)


@unittest.skipUnless(importlib.util.find_spec("onnxscript"), "no onnxscript, which torch.onnx.export needs")
class ExportsOfTheManual(programs.ProgramTest):
    def test_they_keep_parameters_modules_and_dropout(self):
        page = (programs.SOURCE / "tools" / "manual" / "rannc-compile.md").read_text()
        code = page.split("## Exporting from PyTorch\n```python\n")[1].split("```")[0]
        model = Fresh()
        before = os.getcwd()
        os.chdir(self.scratch)
        try:
            exec(code, {"model": model, "torch": torch})
        finally:
            os.chdir(before)
        for name, flags in (("model.pt2", ["--output-name", "logits"]), ("model.onnx", [])):
            command = ["rannc-compile", self.scratch / name, "--loss", "cross_entropy(output=logits,labels=y)", "--costs", "analytic", *flags]
            graph = self.succeed(*command, "--emit", "graph").stdout
            self.assertEqual(set(re.findall(r"^parameter %(\S+):", graph, re.MULTILINE)), set(dict(model.named_parameters())), name)
            self.assertEqual(len(re.findall(r"^random .* = bernoulli drop", graph, re.MULTILINE)), 3, name)
            self.assertRegex(graph, r"(?m)^batch \w+$", name)
            self.succeed(*command, "--emit", "plan", "--stages", 2, "--pin", "layers.0=0", "--pin", "layers.1=1")


if __name__ == "__main__":
    programs.main()
