"""A model that mixes its samples trains with whole mini-batches; what would divide them is refused, and the task named."""
import math
import struct

import programs
import small_onnx as onnx

DIAGNOSTICS = 1
SAMPLES, FEATURES = 4, 3
TABLE = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125, 0.25, 1.5, -1.0]
NUMBERS = [math.sin(7 * i) for i in range(2 * SAMPLES * FEATURES)]  # two mini-batches


def similarity(path, batch="batch"):
    """The mean of squared products of any two samples."""
    shape = [batch, FEATURES]
    return onnx.write(path, [onnx.node("MatMul", ["x", "table"], ["h"], "embed"),
                             onnx.node("Transpose", ["h"], ["t"], "turn", onnx.numbers_attribute("perm", [1, 0])),
                             onnx.node("MatMul", ["h", "t"], ["pairs"], "similarity"),
                             onnx.node("Mul", ["pairs", "pairs"], ["squares"], "square"),
                             onnx.node("ReduceMean", ["squares"], ["loss"], "mean", onnx.number_attribute("keepdims", 0))],
                      [onnx.tensor("table", [FEATURES, FEATURES], TABLE)], [onnx.value("x", onnx.FLOAT, shape)],
                      [onnx.value("loss", onnx.FLOAT, [])])


def pairs_of(path):
    """The products of any two samples."""
    return onnx.write(path, [onnx.node("MatMul", ["x", "table"], ["h"], "embed"),
                             onnx.node("Transpose", ["h"], ["t"], "turn", onnx.numbers_attribute("perm", [1, 0])),
                             onnx.node("MatMul", ["h", "t"], ["pairs"], "similarity")],
                      [onnx.tensor("table", [FEATURES, FEATURES], TABLE)], [onnx.value("x", onnx.FLOAT, ["batch", FEATURES])],
                      [onnx.value("pairs", onnx.FLOAT, ["batch", "batch"])])


def products(rows):
    embedded = [[sum(row[k] * TABLE[k * FEATURES + j] for k in range(FEATURES)) for j in range(FEATURES)] for row in rows]
    return [sum(a * b for a, b in zip(one, other)) for one in embedded for other in embedded]


def loss_of(rows):
    pairs = products(rows)
    return sum(pair * pair for pair in pairs) / len(pairs)


def similarity_of_a_file(folder):
    """The same, by a model that gives out what it embeds, and a loss in a file of its own."""
    model = onnx.write(folder / "embed.onnx", [onnx.node("MatMul", ["x", "table"], ["h"], "embed")],
                       [onnx.tensor("table", [FEATURES, FEATURES], TABLE)], [onnx.value("x", onnx.FLOAT, ["batch", FEATURES])],
                       [onnx.value("h", onnx.FLOAT, ["batch", FEATURES])])
    loss = onnx.write(folder / "loss.onnx", [onnx.node("Transpose", ["h"], ["t"], "turn", onnx.numbers_attribute("perm", [1, 0])),
                                             onnx.node("MatMul", ["h", "t"], ["pairs"], "similarity"),
                                             onnx.node("Mul", ["pairs", "pairs"], ["squares"], "square"),
                                             onnx.node("ReduceMean", ["squares"], ["loss"], "mean", onnx.number_attribute("keepdims", 0))],
                      [], [onnx.value("h", onnx.FLOAT, ["batch", FEATURES])], [onnx.value("loss", onnx.FLOAT, [])])
    return [model, "--loss-graph", loss]


def messages(path):
    """A graph network: the mean of squares of what nodes send along edges."""
    return onnx.write(path, [onnx.node("Gather", ["x", "sources"], ["sent"], "send", onnx.number_attribute("axis", 0)),
                             onnx.node("MatMul", ["sent", "table"], ["h"], "embed"), onnx.node("Mul", ["h", "h"], ["squares"], "square"),
                             onnx.node("ReduceMean", ["squares"], ["loss"], "mean", onnx.number_attribute("keepdims", 0))],
                      [onnx.tensor("table", [FEATURES, FEATURES], TABLE)],
                      [onnx.value("x", onnx.FLOAT, ["nodes", FEATURES]), onnx.value("sources", onnx.INT64, ["edges"])],
                      [onnx.value("loss", onnx.FLOAT, [])])


def loss_of_messages(rows, sources):
    squares = [sum(rows[source][k] * TABLE[k * FEATURES + j] for k in range(FEATURES))**2 for source in sources for j in range(FEATURES)]
    return sum(squares) / len(squares)


def one_state(path):
    """A recurrent layer whose state comes as an input of one sample."""
    return onnx.write(path, [onnx.node("Transpose", ["x"], ["t"], "turn", onnx.numbers_attribute("perm", [1, 0, 2])),
                             onnx.node("RNN", ["t", "w", "r", "", "", "h"], ["all"], "rnn", onnx.number_attribute("hidden_size", 2)),
                             onnx.node("Transpose", ["all"], ["y"], "turn_back", onnx.numbers_attribute("perm", [2, 0, 1, 3]))],
                      [onnx.tensor("w", [1, 2, FEATURES], TABLE[:2 * FEATURES]), onnx.tensor("r", [1, 2, 2], TABLE[:4])],
                      [onnx.value("x", onnx.FLOAT, ["batch", 4, FEATURES]), onnx.value("h", onnx.FLOAT, [1, 1, 2])],
                      [onnx.value("y", onnx.FLOAT, ["batch", 4, 1, 2])])


class Undivided(programs.ProgramTest):
    def compiled(self, path, bundle, *flags):
        return self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic", "--optimizer", "sgd",
                            "--loss", "in_graph(output=loss)", *flags)

    def test_samples_that_nothing_counts(self):
        path = onnx.write(self.scratch / "pairs.onnx", [onnx.node("MatMul", ["x", "table"], ["h"], "embed"),
                                                        onnx.node("Transpose", ["h"], ["t"], "turn", onnx.numbers_attribute("perm", [1, 0])),
                                                        onnx.node("MatMul", ["h", "t"], ["pairs"], "similarity")],
                          [onnx.tensor("table", [FEATURES, FEATURES], TABLE)], [onnx.value("x", onnx.FLOAT, [SAMPLES, FEATURES])],
                          [onnx.value("pairs", onnx.FLOAT, [SAMPLES, SAMPLES])])
        for reduction, warned in (("samples", True), ("sum", False)):
            done = self.succeed("rannc-compile", path, "--emit=plan", "--costs", "analytic", "--loss",
                                f"mse(output=pairs,labels=y,reduction={reduction})")
            self.assertEqual("warning: reduction=samples divides the loss by 4" in done.stderr, warned, done.stderr)

    def test_each_step_takes_a_whole_mini_batch(self):
        data, log = self.scratch / "data.safetensors", self.scratch / "log"
        rows = 2 * SAMPLES
        programs.write_safetensors(data, {"x/x": ("F32", [rows, FEATURES], struct.pack(f"<{len(NUMBERS)}f", *NUMBERS))})
        batches = [[NUMBERS[r * FEATURES:(r + 1) * FEATURES] for r in range(first, first + SAMPLES)] for first in (0, SAMPLES)]
        for stages in (1, 2):
            bundle = self.scratch / f"bundle{stages}"
            done = self.compiled(similarity(self.scratch / "pairs.onnx"), bundle, "--mini-batch", SAMPLES, "--stages", stages,
                                 "--cluster", f"local:{stages}")
            self.assertIn("a mini-batch of 4 samples is not divided, but runs as one micro-batch without replicas", done.stderr)
            self.assertIn("similarity", done.stderr)
            self.succeed("rannc-run", bundle, "-o", self.scratch / f"run{stages}", "--data", data, "--steps", 2,
                         "--loss-log", log, "--learning-rate", 1e-12)
            losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
            for loss, batch in zip(losses, batches, strict=True):
                self.assertAlmostEqual(loss, loss_of(batch), delta=1e-5)

    def test_any_number_of_samples_is_evaluated(self):
        """All samples of a file are computed together, whatever the mini-batch of the plan."""
        trained, whole = self.scratch / "trained", self.scratch / "whole"
        path = similarity(self.scratch / "pairs.onnx")
        self.compiled(path, trained, "--mini-batch", SAMPLES, "--cluster", "local:2", "--stages", 2)
        self.succeed("rannc-compile", pairs_of(self.scratch / "outputs.onnx"), "-o", whole, "--costs", "analytic")
        rows = [NUMBERS[r * FEATURES:(r + 1) * FEATURES] for r in range(2 * SAMPLES)]
        for count in (1, 2, SAMPLES, SAMPLES + 1, 2 * SAMPLES):
            data, folder = self.scratch / f"{count}.safetensors", self.scratch / f"run{count}"
            programs.write_safetensors(data, {"x/x": ("F32", [count, FEATURES], struct.pack(f"<{count * FEATURES}f",
                                                                                           *sum(rows[:count], [])))})
            self.succeed("rannc-run", whole, "-o", self.scratch / f"whole{count}", "--data", data)
            outputs = programs.read_safetensors(self.scratch / f"whole{count}" / "outputs.safetensors")
            self.assertEqual(outputs["pairs"][1], [count, count])
            found = struct.unpack(f"<{count * count}f", outputs["pairs"][2])
            for ours, theirs in zip(found, products(rows[:count]), strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5)
            done = self.succeed("rannc-run", trained, "-o", folder, "--data", data, "--evaluate")
            self.assertEqual(f"batch = {count} (planned {SAMPLES})" in done.stderr, count > SAMPLES, done.stderr)
            loss = float.fromhex(programs.read_metadata(folder / "outputs.safetensors")["loss"])
            self.assertAlmostEqual(loss, loss_of(rows[:count]), delta=1e-5)

    def test_outputs_that_count_samples_are_those_of_all(self):
        path = onnx.write(self.scratch / "count.onnx", [onnx.node("Neg", ["x"], ["y"], "negate"),
                                                        onnx.node("Shape", ["x"], ["sizes"], "measure")],
                          [], [onnx.value("x", onnx.FLOAT, ["batch", FEATURES])],
                          [onnx.value("y", onnx.FLOAT, ["batch", FEATURES]), onnx.value("sizes", onnx.INT64, [2])])
        bundle, data = self.scratch / "bundle", self.scratch / "data.safetensors"
        done = self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic", "--mini-batch", 2)
        self.assertIn("output 'sizes' depends on the number of samples", done.stderr)
        programs.write_safetensors(data, {"x/x": ("F32", [SAMPLES, FEATURES], struct.pack(f"<{SAMPLES * FEATURES}f",
                                                                                       *NUMBERS[:SAMPLES * FEATURES]))})
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", data)
        sizes = programs.read_safetensors(self.scratch / "run" / "outputs.safetensors")["sizes"]
        self.assertEqual(struct.unpack("<2q", sizes[2]), (SAMPLES, FEATURES))

    def test_a_model_of_one_sample_at_a_time(self):
        bundle, path = self.scratch / "bundle", one_state(self.scratch / "state.onnx")
        done = self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic")
        self.assertIn("the model accepts one sample at a time: initial_h 'h' of RNN", done.stderr)
        count, numbers = 4 * FEATURES, [math.cos(3 * i) for i in range(2 * 4 * FEATURES)]
        state = ("F32", [1, 1, 2], struct.pack("<2f", 0.5, -0.25))
        found = []
        for name, values in (("first", numbers[:count]), ("second", numbers[count:]), ("both", numbers)):
            data = self.scratch / f"{name}.safetensors"
            programs.write_safetensors(data, {"x/x": ("F32", [len(values) // count, 4, FEATURES], struct.pack(f"<{len(values)}f", *values)),
                                              "x/h": state})
            self.succeed("rannc-run", bundle, "-o", self.scratch / name, "--data", data)
            found.append(programs.read_safetensors(self.scratch / name / "outputs.safetensors")["y"])
        self.assertEqual([shape for _, shape, _ in found], [[1, 4, 1, 2], [1, 4, 1, 2], [2, 4, 1, 2]])
        self.assertEqual(found[0][2] + found[1][2], found[2][2])
        self.refuse(DIAGNOSTICS, ["initial_h 'h' of RNN"], "rannc-compile", path, "-o", self.scratch / "none", "--loss",
                    "mse(output=y,labels=t)")

    def test_any_number_of_samples_validates(self):
        """The loss of each mini-batch counts once; the last one is smaller."""
        bundle, data, validation = self.scratch / "bundle", self.scratch / "data.safetensors", self.scratch / "validation.safetensors"
        self.compiled(similarity(self.scratch / "pairs.onnx"), bundle, "--mini-batch", SAMPLES, "--cluster", "local:1")
        rows = [NUMBERS[r * FEATURES:(r + 1) * FEATURES] for r in range(SAMPLES + 2)]
        for path, count in ((data, SAMPLES), (validation, SAMPLES + 2)):
            programs.write_safetensors(path, {"x/x": ("F32", [count, FEATURES], struct.pack(f"<{count * FEATURES}f",
                                                                                           *sum(rows[:count], [])))})
        done = self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", data, "--steps", 1, "--learning-rate", 1e-12,
                            "--validate", validation)
        self.assertIn(f"({SAMPLES + 2} samples", done.stdout)

    def test_a_graph_is_one_mini_batch_of_its_own_sizes(self):
        bundle, data, log = self.scratch / "bundle", self.scratch / "data.safetensors", self.scratch / "log"
        done = self.compiled(messages(self.scratch / "graph.onnx"), bundle, "--mini-batch", SAMPLES, "--assume", "edges=5", "--stages", 2,
                             "--cluster", "local:2")
        self.assertIn("the mini-batch of all inputs together is not divided, but runs as one micro-batch without replicas: 'send'", done.stderr)
        for nodes, sources in ((6, [5, 0, 0, 3, 2, 4, 1]), (3, [2, 2])):
            rows = [NUMBERS[r * FEATURES:(r + 1) * FEATURES] for r in range(nodes)]
            programs.write_safetensors(data, {"x/x": ("F32", [nodes, FEATURES], struct.pack(f"<{nodes * FEATURES}f", *sum(rows, []))),
                                              "x/sources": ("I64", [len(sources)], struct.pack(f"<{len(sources)}q", *sources))})
            self.succeed("rannc-run", bundle, "-o", self.scratch / f"run{nodes}", "--data", data, "--steps", 2, "--loss-log", log,
                         "--learning-rate", 1e-12)
            for line in log.read_text().splitlines():
                self.assertAlmostEqual(float.fromhex(line.split()[1]), loss_of_messages(rows, sources), delta=1e-5)

    def test_a_loss_of_another_file(self):
        flags = ["--costs", "analytic", "--mini-batch", SAMPLES, "--cluster", "local:2"]
        command = similarity_of_a_file(self.scratch)
        done = self.succeed("rannc-compile", *command, "-o", self.scratch / "bundle", *flags)
        self.assertIn("is not divided, but runs as one micro-batch without replicas: 'similarity'", done.stderr)
        self.refuse(DIAGNOSTICS, ["'similarity'", "2 micro-batches are requested", "P15"], "rannc-compile", *command, "-o",
                    self.scratch / "none", *flags, "--micro-batches", 2)

    def test_what_would_divide_it_is_refused(self):
        for samples in ("batch", SAMPLES):
            path = similarity(self.scratch / "pairs.onnx", samples)
            for flags, demand in ((["--micro-batches", 2], "2 micro-batches"), (["--replicas", "2,1"], "2, 1 replicas")):
                self.refuse(DIAGNOSTICS, ["'similarity'", "so its mini-batches cannot be divided", demand + " are requested", "P15"],
                            "rannc-compile", path, "-o", self.scratch / "none", "--loss", "in_graph(output=loss)", "--mini-batch",
                            SAMPLES, "--cluster", "local:3", "--costs", "analytic", *flags)


if __name__ == "__main__":
    programs.main()
