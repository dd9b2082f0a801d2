"""Published models of torchvision and transformers, traced and exported as they come: each compiles, and its gradients are the module's; a table
says which operators the dispatcher runs. Skipped without PyTorch.

    python tests/tools/torchscript_published_test.py build/release/bin
"""
import contextlib
import inspect
import json
import sys
import warnings

import programs

try:
    import safetensors.torch
    import torch
    import torchvision
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
SAMPLES, WORDS, PLACES = 2, 50, 12
SIZES = {"inception_v3": 96, "vit_b_32": 64, "maxvit_t": 224}
VISION = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v2",
          "mobilenet_v3_small", "regnet_y_400mf", "resnet18", "resnet50", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11",
          "vit_b_32"]
SEGMENTATION = ["fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large"]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": WORDS}


class First(torch.nn.Module):
    """Of several results, or of a dictionary, the first."""

    def __init__(self, module, names=()):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs):
        made = self.module(**dict(zip(self.names, inputs))) if self.names else self.module(*inputs)
        return next(iter(made.values())) if isinstance(made, dict) else made[0]


class AsDoubles(torch.overrides.TorchFunctionMode):
    """What a module says of float32 is said of float64: its normalisations would be single in a module of doubles."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        wide = lambda each: torch.float64 if each is torch.float32 else each
        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


def takes_any(module):
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in inspect.signature(module.forward).parameters.values())


def images(size):
    return torch.randn(SAMPLES, 3, size, size, generator=torch.Generator().manual_seed(2))


def words(seed):
    return torch.randint(WORDS, (SAMPLES, PLACES), generator=torch.Generator().manual_seed(seed))


def vision(name):
    build, size = getattr(torchvision.models, name), SIZES.get(name, 64)
    options = {key: value for key, value in {"init_weights": False, "image_size": 64}.items()
               if (key == "init_weights" and key in inspect.signature(build).parameters) or (key == "image_size" and name.startswith("vit"))}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    return build(weights=None, **options), {"x": images(size)}


def segmentation(name):
    return First(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)), {"x": images(64)}


def pyramid(build, **options):
    backbone = getattr(torchvision.models.detection.backbone_utils, build)(weights=None, **options)
    return First(backbone), {"x": images(64)}


def of_words(module, *names):
    return First(module, names), {name: words(3 + i) for i, name in enumerate(names)}


def published():
    """Name -> what makes (module, inputs)."""
    t = transformers
    made = {**{name: lambda name=name: vision(name) for name in VISION}, **{name: lambda name=name: segmentation(name) for name in SEGMENTATION}}
    made["resnet18_fpn"] = lambda: pyramid("resnet_fpn_backbone", backbone_name="resnet18")
    made["mobilenet_v3_large_fpn"] = lambda: pyramid("mobilenet_backbone", backbone_name="mobilenet_v3_large", fpn=True)
    made["BERT"] = lambda: of_words(t.BertModel(t.BertConfig(**SMALL)), "input_ids")
    made["GPT-2"] = lambda: of_words(t.GPT2LMHeadModel(t.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=WORDS, use_cache=False)), "input_ids")
    made["Llama"] = lambda: of_words(t.LlamaForCausalLM(t.LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False)), "input_ids")
    made["T5"] = lambda: of_words(t.T5ForConditionalGeneration(t.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=WORDS,
                                                                           use_cache=False, decoder_start_token_id=0)), "input_ids", "decoder_input_ids")
    made["ViT"] = lambda: (First(t.ViTModel(t.ViTConfig(**{**SMALL, "image_size": 64, "patch_size": 8})), ("pixel_values",)), {"pixel_values": images(64)})
    return made


def reference(module, inputs, target, dtype):
    """Loss, output and gradients of the mean square by names of state_dict."""
    module = module.to(dtype)
    module.zero_grad()
    given = [each.to(dtype) if each.is_floating_point() else each for each in inputs.values()]
    with AsDoubles() if dtype == torch.float64 else contextlib.nullcontext():
        output = module(*given)
    loss = torch.nn.functional.mse_loss(output, target.to(dtype))
    loss.backward()
    tag = "f64" if dtype == torch.float64 else "f32"
    gradients = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    found = {f"loss.{tag}": loss.detach().reshape(1), f"out.{tag}/y": output.detach(), **{f"state.{tag}/{name}": grad for name, grad in gradients.items()}}
    return {key: value.contiguous().clone() for key, value in found.items()}, list(gradients)


class Published(programs.ProgramTest):
    def folder(self, name, module, inputs):
        path = self.scratch / name
        path.mkdir()
        torch.jit.save(torch.jit.trace(module, tuple(inputs.values()), check_trace=False, strict=False), path / "model.pt")
        axes = ({0: torch.export.Dim.AUTO},) * len(inputs)
        torch.export.save(torch.export.export(module, tuple(inputs.values()), dynamic_shapes=(axes,) if takes_any(module) else axes),
                          path / "model.pt2")
        with torch.no_grad():
            target = torch.randn(module(*inputs.values()).shape, generator=torch.Generator().manual_seed(5))
        single, _ = reference(module, inputs, target, torch.float32)
        double, names = reference(module, inputs, target, torch.float64)
        safetensors.torch.save_file({**{f"x/{key}": value for key, value in inputs.items()}, "labels/t": target}, path / "batch.safetensors")
        safetensors.torch.save_file({**single, **double}, path / "reference.safetensors")
        types = {torch.float32: "FLOAT", torch.int64: "INT64"}
        card = {"inputs": {key: [types[value.dtype], "batch", *value.shape[1:]] for key, value in inputs.items()}, "outputs": {"y": ["FLOAT"]},
                "loss": [{"kind": "mse", "output": "y", "labels": "t"}], "gradients_by_state_dict": names}
        (path / "card.json").write_text(json.dumps(card))
        return path, names

    def test_each(self):
        """In doubles, to the limits of rannc-check."""
        print("\n| model | tasks | by the dispatcher | gradients, worst |\n|---|---|---|---|")
        for name, make in published().items():
            with self.subTest(model=name):
                torch.manual_seed(0)
                module, inputs = make()
                path, names = self.folder(name, module.eval(), inputs)
                for file in ("model.pt", "model.pt2"):
                    self.judge(name, path, file, inputs, names)

    def judge(self, name, path, file, inputs, names):
        signature = [part for key, value in inputs.items() for part in
                     ("--input", f"{key}={'i64' if value.dtype == torch.int64 else 'f32'}[{','.join(['batch', *map(str, value.shape[1:])])}]")]
        compiled = self.succeed("rannc-compile", path / file, *signature, "--emit", "graph")
        calls = [line.removeprefix("calls").strip() for line in compiled.stderr.splitlines() if line.startswith("calls")]
        tasks = sum(line.startswith("#") for line in compiled.stdout.splitlines())
        done = self.run_program("rannc-check", path, "--model", file, "--stages", "1,2", "--micro-batches", "1,2", "--summary=json")
        runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        worst = max((run["gradients"]["relative"] for run in runs if run["gradients"]["relative"] is not None), default=float("nan"))
        print(f"| {name} {file} | {tasks} | {calls[0] if calls else '–'} | {worst:.1e} |", flush=True)
        with self.subTest(file=file):
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
            self.assertEqual([run["compared_gradients"] for run in runs], [len(names)] * 4)


if __name__ == "__main__":
    programs.main()
