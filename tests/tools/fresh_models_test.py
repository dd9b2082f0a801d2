"""Models with their initial values train as PyTorch trains them, whatever the exporters made of equal parameters; skipped without PyTorch."""
import contextlib
import copy
import io
import logging
import re
import sys
import warnings

import programs

try:
    import onnx
    import onnxscript  # the newer exporter needs it
    import torch
    from safetensors.torch import load_file, save_file

    import fresh_families
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

STEPS, MINI_BATCH = 20, 8
EXPORTERS = ("dynamo", "legacy")
# Of the loss. A file's constants are rounded to float32, which leaves up to 1e-9 after so many steps.
LIMITS = {"float32": 1e-4, "float64": 1e-9}
# Of a tensor's norm, or of what Adam may have moved a tensor of zeros: it makes steps of gradients that rounding alone is in.
WEIGHT_LIMIT = 1e-6
PLANS = ((1, 1), (2, 2))  # stages, micro-batches
# No file of the newer exporter has BatchNormalization in training mode.
FOLDED = ("resnet", "dynamo")


def batches(tensors, step):
    """As rannc-run takes them from a file: one mini-batch behind the other, from the start again at the end."""
    first = step % (fresh_families.SAMPLES // MINI_BATCH) * MINI_BATCH
    return [tensor[first:first + MINI_BATCH] for tensor in tensors.values()]


def loss_of(module, inputs, labels):
    logits = module(*inputs)
    return torch.nn.functional.cross_entropy(logits.movedim(-1, 1), labels)


def train(case, dtype, micro_batches):
    """PyTorch's own losses, and the state after the last step. Normalisation over samples alone depends on the micro-batches."""
    module = copy.deepcopy(case["module"]).to(dtype)
    optimizer = torch.optim.Adam(module.parameters(), lr=case["learning_rate"])
    parts = micro_batches if case["training"] else 1
    torch.set_default_dtype(dtype)  # of tensors that the module makes itself
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in batches(case["inputs"], step)]
        (labels,) = batches(case["labels"], step)
        shares = []
        for rows in torch.arange(MINI_BATCH).chunk(parts):
            share = loss_of(module, [tensor[rows] for tensor in inputs], labels[rows]) / parts
            share.backward()
            shares.append(share.item())
        optimizer.step()
        losses.append(sum(shares))
    torch.set_default_dtype(torch.float32)
    return losses, module.state_dict()


NAME = r'%(?:"([^"]*)"|([^\s:,]+))'


def trained(plan):
    """Of a plan as text: names under which the program knows what is trained, and its elements."""
    sizes = {}
    for kind, quoted, plain, shape in re.findall(rf"^(\w+) {NAME}: \w+\[([\d,]*)\]", plan, re.M):
        if kind == "parameter":
            sizes[quoted or plain] = int(torch.tensor([int(size) for size in shape.split(",") if size]).prod())
    names, known = set(), set()
    for name, parts in re.findall(r'^state "([^"]*)" \[[\d,]*\] = (.*)$', plan, re.M):
        values = {quoted or plain for quoted, plain in re.findall(NAME, parts)}
        known |= values
        if values & set(sizes):
            names.add(name)
    return names | (set(sizes) - known), sum(sizes.values())


# By file, tensors that stand in for parameters: rows that are looked up. The file does not say that they are the whole table.
ROWS = {"bert-dynamo": {"embedding_2": "model.bert.embeddings.position_embeddings.weight"}}


class FreshModels(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.set_num_threads(1)

    def exported(self, family, exporter):
        """The case, whose module the older exporter ran, and its file."""
        case = family()
        path = self.scratch / f"{family.__name__}-{exporter}.onnx"
        with contextlib.redirect_stdout(io.StringIO()):
            fresh_families.export(case, exporter, path)
        return case, path

    def samples(self, case, dtype):
        """A file of them; numbers have the type of the model's."""
        path = self.scratch / f"samples-{dtype}.safetensors"
        data = {f"x/{name}": tensor.to(getattr(torch, dtype)) if tensor.is_floating_point() else tensor
                for name, tensor in case["inputs"].items()}
        save_file({**data, "labels/y": case["labels"]["y"]}, path)
        return path

    def compile_arguments(self, model, bundle, plan, dtype, *more):
        stages, micro_batches = plan
        return ["rannc-compile", model, "-o", bundle, "--cluster", f"local:{stages}", "--stages", stages, "--micro-batches", micro_batches,
                "--mini-batch", MINI_BATCH, "--dtype", dtype, "--loss", "cross_entropy(output=logits,labels=y,axis=-1)",
                "--costs", "analytic", "--schedule", "1f1b", *more]

    def run_of(self, case, model, plan, dtype):
        """The plan's text, rannc's losses and the file of its weights."""
        run = model.with_name(f"{model.stem}-{plan[0]}-{dtype}")
        bundle, weights = run.with_suffix(".rannc"), run.with_suffix(".weights.safetensors")
        self.succeed(*self.compile_arguments(model, bundle, plan, dtype))
        self.succeed("rannc-run", bundle, "-o", run, "--data", self.samples(case, dtype), "--steps", STEPS, "--optimizer", "adam",
                     "--learning-rate", case["learning_rate"], "--loss-log", run.with_suffix(".log"), "--export-weights", weights)
        losses = [float.fromhex(line.split()[1]) for line in run.with_suffix(".log").read_text().splitlines()]
        return (bundle / "plan.rir").read_text(), losses, weights

    def judge_trained(self, plan, module, rows):
        names, elements = trained(plan)
        names = {rows.get(name, name) for name in names}
        parameters = dict(module.named_parameters())
        self.assertEqual(set(parameters) - names, set(), "not trained")
        self.assertEqual(names - {name for name, _ in module.named_parameters(remove_duplicate=False)}, set(), "trained, and no parameter")
        self.assertEqual(elements, sum(parameter.numel() for parameter in parameters.values()))

    def judge_losses(self, found, expected, limit, learns=True):
        self.assertEqual(len(found), len(expected))
        for step, (own, theirs) in enumerate(zip(found, expected)):
            self.assertLessEqual(abs(own - theirs), limit * abs(theirs), f"step {step}: {own} against PyTorch's {theirs}")
        if learns:
            self.assertLess(expected[-1], expected[0], "it learns")

    def judge_weights(self, weights, case, dtype, expected, rows):
        """They load into a module that has other numbers, and are PyTorch's."""
        module = case["fresh"](seed=7).to(dtype)
        state = module.state_dict()
        found = {rows.get(name, name): tensor for name, tensor in load_file(weights).items()}
        for name in rows.values():
            found[name] = found[name].reshape(state[name].shape)
        module.load_state_dict(found, strict=True)
        if dtype != torch.float64:
            return  # in float32 Adam makes whole steps of the rounding of gradients that are zero
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            moved = case["learning_rate"] * STEPS * tensor.numel() ** 0.5
            off = float((tensor - expected[name]).norm())
            self.assertLessEqual(off, WEIGHT_LIMIT * max(float(expected[name].norm()), moved), name)

    def follow(self, case, model, plan, dtype):
        losses, state = train(case, getattr(torch, dtype), plan[1])
        text, found, weights = self.run_of(case, model, plan, dtype)
        self.judge_losses(found, losses, LIMITS[dtype])
        rows = ROWS.get(model.stem, {})
        self.judge_trained(text, case["module"], rows)
        if plan[1] == 1 or not case["training"]:
            self.judge_weights(weights, case, getattr(torch, dtype), state, rows)

    def test_they_follow_pytorch(self):
        for family in fresh_families.FAMILIES:
            for exporter in EXPORTERS:
                if (family.__name__, exporter) == FOLDED:
                    continue
                case, model = self.exported(family, exporter)
                for plan in PLANS:
                    for dtype in LIMITS:
                        with self.subTest(family=family.__name__, exporter=exporter, plan=plan, dtype=dtype):
                            self.follow(case, model, plan, dtype)

    def test_they_run_replicated_and_are_evaluated(self):
        """Three steps as replicas of micro-batches; batch normalisation over the same samples as one worker's micro-batches."""
        for family in fresh_families.FAMILIES:
            for exporter in EXPORTERS:
                with self.subTest(family=family.__name__, exporter=exporter):
                    case, model = self.exported(family, exporter)
                    losses = {}
                    # Stages of as many devices each where they normalise over samples.
                    replicas = ("2,2", "local:4") if case["training"] else ("2,1", "local:3")
                    for name, plan in (("one", (1, 4 if case["training"] else 2)), ("cut", (2, 2))):
                        bundle, run = model.with_suffix(f".{name}.rannc"), model.with_suffix(f".{name}.run")
                        arguments = self.compile_arguments(model, bundle, plan, "float32")
                        if name == "cut":
                            arguments[arguments.index("--cluster") + 1] = replicas[1]
                            arguments += ["--replicas", replicas[0]]
                        self.succeed(*arguments)
                        data = self.samples(case, "float32")
                        self.succeed("rannc-run", bundle, "-o", run, "--data", data, "--steps", 3, "--optimizer", "sgd", "--learning-rate",
                                     case["learning_rate"], "--loss-log", run.with_suffix(".log"))
                        losses[name] = [float.fromhex(line.split()[1]) for line in run.with_suffix(".log").read_text().splitlines()]
                        self.assertIn("loss", self.succeed("rannc-run", bundle, "-o", run, "--data", data, "--evaluate", "--resume").stdout)
                    self.assertEqual(len(losses["one"]), 3)
                    self.judge_losses(losses["cut"][:2], losses["one"][:2], LIMITS["float32"], learns=False)

    def test_gpt2_small_follows_pytorch(self):
        for exporter in EXPORTERS:
            with self.subTest(exporter=exporter):
                case, model = self.exported(fresh_families.gpt2_small, exporter)
                self.follow(case, model, (2, 2), "float32")

    def without_metadata(self, path):
        """As tools that rewrite files leave them: nothing says which module a node is of."""
        model = onnx.load(path)
        for part in (model, model.graph, *model.graph.node, *model.graph.initializer, *model.graph.value_info):
            del part.metadata_props[:]
        stripped = path.with_name(f"stripped-{path.name}")
        onnx.save(model, stripped)
        return stripped

    def test_what_nothing_tells_apart_is_refused(self):
        case, model = self.exported(fresh_families.encoder, "dynamo")
        model = self.without_metadata(model)
        bundle = model.with_suffix(".rannc")
        arguments = self.compile_arguments(model, bundle, (1, 1), "float32")
        for merged in ("layers.layers.0.norm1.weight", "layers.layers.0.norm1.bias", "layers.layers.0.self_attn.out_proj.weight"):
            self.refuse(1, [f"'{merged}'", "--allow-merged"], *arguments)
        self.assertFalse(bundle.exists())
        done = self.succeed(*arguments, "--allow-merged")
        self.assertIn("trained as one", done.stderr)
        _, elements = trained((bundle / "plan.rir").read_text())
        self.assertLess(elements, sum(parameter.numel() for parameter in case["module"].parameters()))

    def test_a_folded_normalisation_is_said(self):
        """Scales and biases are in no tensor of the file by themselves, so that as many parameters cannot be trained."""
        case, model = self.exported(fresh_families.resnet, "dynamo")
        done = self.succeed(*self.compile_arguments(model, model.with_suffix(".rannc"), (1, 1), "float32"))
        folded = sum(isinstance(module, torch.nn.BatchNorm2d) for module in case["module"].modules())
        self.assertRegex(done.stderr, f"{folded} normalizations .*folded")


if __name__ == "__main__":
    programs.main()
