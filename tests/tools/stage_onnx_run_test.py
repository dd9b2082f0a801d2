"""Stages of published exports, run by onnxruntime one after another, compute what the whole file computes; skipped without onnxruntime."""
import json
import sys

import programs

try:
    import numpy
    import onnx
    import onnxruntime
    import safetensors.numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

import memory_runs

# Onnxruntime refuses these as whole files.
REFUSED = {"gpt2_half_legacy", "llama_dynamo_dynseq_op23"}
# Their Dropout is in training mode: outputs are random.
RANDOM = {"bert_dropout_dynamo", "bert_dropout_legacy", "vgg_dropout_legacy"}
# The others are only cut, chained and compared.
TRAINED = ["bert_external_dynamo", "gpt2_dynamo_dyn", "gpt2_legacy_dyn", "llama_legacy_dyn", "lstm_dynamo_dyn", "mlp_external_files",
           "mlp_legacy_dyn", "resnet_folded_dynamo", "two_task_dynamo", "vit_legacy_dyn"]
# Float32 by kernels of two libraries.
ALIKE = 1e-4
# Onnxruntime computes float16 in float32 and rounds where a file ends: a few units in the last place of 11 bits.
ALIKE_IN_HALF = 2 ** -9


class StagesRun(programs.ProgramTest):
    def run_file(self, path, known):
        """Outputs by name. Without graph optimizations, which see more of a whole file than of a stage."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {entry.name: known[entry.name] for entry in session.get_inputs()})
        return dict(zip([entry.name for entry in session.get_outputs()], found))

    def chained(self, folder, inputs, stages):
        files = sorted(folder.glob("stage*.onnx"))
        self.assertLessEqual(len(files), stages)
        self.assertGreater(len(files), 1)
        known = dict(inputs)
        for path in files:
            onnx.checker.check_model(str(path), full_check=True)
            known.update(self.run_file(path, known))
        return known

    def equal(self, found, expected):
        for name, numbers in expected.items():
            if numbers.dtype == numpy.float16:
                exact = numbers.astype(numpy.float64)
                self.assertLess(numpy.linalg.norm(found[name] - exact), ALIKE_IN_HALF * numpy.linalg.norm(exact), name)
                continue
            numpy.testing.assert_array_equal(found[name], numbers, name)

    def inputs(self, folder):
        """One mini-batch in the types of the file."""
        numbers = safetensors.numpy.load_file(folder / "batch.safetensors")
        wanted = onnx.load(folder / "model.onnx", load_external_data=False).graph.input
        types = {entry.name: onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type) for entry in wanted}
        return {name[2:]: numbers[name].astype(types[name[2:]]) for name in numbers if name.startswith("x/")}

    def compile(self, folder, stages, *more):
        card = json.loads((folder / "card.json").read_text())
        bundle = self.scratch / f"{folder.name}-{stages}.rannc"
        batch = programs.read_safetensors(folder / "batch.safetensors")
        samples = next(iter(batch.values()))[1][0]
        if [term for term in card["loss"] or [] if term["kind"] == "in_graph"] and not more:
            more = ["--loss", memory_runs.loss_of(card)]
        self.succeed("rannc-compile", folder / "model.onnx", "-o", bundle, "--cluster", f"local:{stages}", "--stages", stages, "--mini-batch", samples,
                     "--costs", "analytic", "--allow-merged", "--stage-onnx", *memory_runs.assumed(card, batch), *more)
        return bundle

    def test_every_export(self):
        folders = sorted(card.parent for card in programs.shared_models().glob("*/card.json"))
        self.assertGreater(len(folders), 50)
        for folder in folders:
            if folder.name in REFUSED | RANDOM:
                continue
            with self.subTest(folder=folder.name):
                inputs = self.inputs(folder)
                self.equal(self.chained(self.compile(folder, 3), inputs, 3), self.run_file(folder / "model.onnx", inputs))

    def test_trained(self):
        for name in TRAINED:
            folder = programs.shared_models() / name
            with self.subTest(folder=name):
                self.check_trained(folder)

    def check_trained(self, folder):
        card = json.loads((folder / "card.json").read_text())
        inputs = self.inputs(folder)
        bundle = self.compile(folder, 2, "--loss", memory_runs.loss_of(card), "--optimizer", "adam")
        before = self.chained(bundle, inputs, 2)
        run, weights, stages = (self.scratch / f"{folder.name}.{kind}" for kind in ("run", "safetensors", "stages"))
        data = folder / "batch.safetensors"
        self.succeed("rannc-run", bundle, "-o", run, "--data", data, "--steps", 2, "--optimizer", "adam", "--export-weights", weights)
        self.succeed("rannc-compile", folder / "model.onnx", "--emit", "stage-onnx", "--bundle", bundle, "--weights", weights, "--allow-merged",
                     "-o", stages)
        whole = self.scratch / f"{folder.name}.onnx"
        self.succeed("rannc-compile", folder / "model.onnx", "--emit", "onnx", "--weights", weights, "--allow-merged", "-o", whole)
        after = self.chained(stages, inputs, 2)
        self.equal(after, self.run_file(whole, inputs))
        self.succeed("rannc-run", bundle, "-o", run, "--resume", "--data", data, "--evaluate")
        for output, numbers in safetensors.numpy.load_file(run / "outputs.safetensors").items():
            self.assertLess(numpy.linalg.norm(after[output] - numbers), ALIKE * numpy.linalg.norm(numbers), output)
            self.assertFalse(numpy.array_equal(after[output], before[output]), "training changes the outputs")


if __name__ == "__main__":
    if programs.shared_models() is None:
        print("skipped: no published exports")
        sys.exit(programs.SKIPPED)
    programs.main()
