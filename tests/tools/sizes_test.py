"""Free sizes: fixed for good, replaced by expressions, or guessed for planning; what contradicts is one clear error."""
import struct

import programs
import small_onnx as onnx

DIAGNOSTICS, USAGE = 1, 2
WIDTH, ROWS = 3, 40
TABLE = [0.25 * (i % 7) - 0.5 for i in range(ROWS * WIDTH)]


def pooled(path, height="height", width="width"):
    """Two convolutions that halve height and width."""
    def convolution(source, target, name):
        return onnx.node("Conv", [source, "kernel"], [target], name, onnx.numbers_attribute("strides", [2, 2]))

    return onnx.write(path, [convolution("x", "h", "first"), convolution("h", "y", "second")],
                      [onnx.tensor("kernel", [1, 1, 2, 2], [1, 2, 3, 4])], [onnx.value("x", onnx.FLOAT, ["n", 1, height, width])],
                      [onnx.value("y", onnx.FLOAT, ["n", 1, "h", "w"])])


def summed(path):
    """Two axes that must be equal, in one input each."""
    return onnx.write(path, [onnx.node("Add", ["a", "b"], ["y"], "sum")], [],
                      [onnx.value("a", onnx.FLOAT, ["n", "p", 2]), onnx.value("b", onnx.FLOAT, ["n", "q", 2])],
                      [onnx.value("y", onnx.FLOAT, ["n", "p", 2])])


def positions(path):
    """Rows of a table at 0, 1, … as many as there are tokens."""
    return onnx.write(path, [onnx.node("Gather", ["words", "ids"], ["word"], "look_up"), onnx.node("Shape", ["ids"], ["shape"], "shape"),
                             onnx.node("Gather", ["shape", "one"], ["length"], "length"),
                             onnx.node("Range", ["zero", "length", "step"], ["places"], "places"),
                             onnx.node("Gather", ["table", "places"], ["place"], "look_up_places"),
                             onnx.node("Add", ["word", "place"], ["y"], "add")],
                      [onnx.tensor("words", [5, WIDTH], TABLE[:5 * WIDTH]), onnx.tensor("table", [ROWS, WIDTH], TABLE),
                       onnx.tensor("zero", [], [0], onnx.INT64), onnx.tensor("one", [], [1], onnx.INT64),
                       onnx.tensor("step", [], [1], onnx.INT64)],
                      [onnx.value("ids", onnx.INT64, ["n", "s"])], [onnx.value("y", onnx.FLOAT, ["n", "s", WIDTH])])


def floats(count):
    return [((7 * i) % 11) / 4 - 1 for i in range(count)]


class Sizes(programs.ProgramTest):
    def compiled(self, path, *flags, code=0):
        bundle = self.scratch / f"{len(list(self.scratch.iterdir()))}.rannc"
        done = self.succeed("rannc-compile", path, "-o", bundle, "--costs", "analytic", "--cluster", "local:1", *flags)
        return bundle, done

    def image(self, samples, height, width):
        path = self.scratch / f"data-{samples}-{height}-{width}.safetensors"
        numbers = floats(samples * height * width)
        programs.write_safetensors(path, {"x/x": ("F32", [samples, 1, height, width], struct.pack(f"<{len(numbers)}f", *numbers))})
        return path

    def outputs(self, bundle, data):
        folder = self.scratch / f"run-{len(list(self.scratch.iterdir()))}"
        done = self.succeed("rannc-run", bundle, "-o", folder, "--data", data)
        dtype, shape, data = programs.read_safetensors(folder / "outputs.safetensors")["y"]
        return shape, struct.unpack(f"<{len(data) // 4}f", data), done

    def test_the_plain_command_guesses(self):
        bundle, done = self.compiled(pooled(self.scratch / "model.onnx"))
        self.assertIn("note: ", done.stderr)
        self.assertIn("height = 224, width = 224", done.stderr)
        self.assertIn("--assume height=224 --assume width=224", done.stderr)
        self.assertIn("--size height=N", done.stderr)
        for samples, height, width in ((1, 8, 12), (2, 224, 4)):
            shape, _, done = self.outputs(bundle, self.image(samples, height, width))
            self.assertEqual(shape, [samples, 1, height // 4, width // 4])
            self.assertNotIn("warning", done.stderr)
        _, _, done = self.outputs(bundle, self.image(1, 228, 4))
        self.assertIn("warning: sizes exceed those of the plan", done.stderr)
        self.assertIn("height = 228 (planned 224)", done.stderr)

    def test_given_sizes_are_not_guessed(self):
        _, done = self.compiled(pooled(self.scratch / "model.onnx"), "--assume", "height=8", "--assume", "width=8")
        self.assertNotIn("guessed", done.stderr)
        plan = self.succeed("rannc-compile", self.scratch / "model.onnx", "--emit=plan", "--costs", "analytic", "--assume", "height=8").stdout
        self.assertIn("size height 8", plan)
        self.assertIn("size width 224", plan)

    def test_a_table_of_positions_bounds_a_sequence(self):
        bundle, done = self.compiled(positions(self.scratch / "model.onnx"))
        self.assertIn("s = 40", done.stderr)
        data = self.scratch / "data.safetensors"
        programs.write_safetensors(data, {"x/ids": ("I64", [2, ROWS], struct.pack(f"<{2 * ROWS}q", *([1] * (2 * ROWS))))})
        self.assertEqual(self.outputs(bundle, data)[0], [2, ROWS, WIDTH])

    def test_a_fixed_size(self):
        bundle, done = self.compiled(pooled(self.scratch / "model.onnx"), "--size", "height=8", "--size", "width=12")
        self.assertNotIn("guessed", done.stderr)
        self.assertEqual(self.outputs(bundle, self.image(2, 8, 12))[0], [2, 1, 2, 3])
        self.refuse(DIAGNOSTICS, ["'x'", "[2,1,8,8]", "[n,1,8,12]"], "rannc-run", bundle, "-o", self.scratch / "none", "--data",
                    self.image(2, 8, 8))

    def test_a_replaced_size(self):
        free, _ = self.compiled(pooled(self.scratch / "model.onnx"))
        bundle, done = self.compiled(self.scratch / "model.onnx", "--size", "height=32*k", "--size", "width=4*j + 4")
        self.assertIn("j = 55, k = 7", done.stderr)
        data = self.image(2, 224, 12)
        self.assertEqual(self.outputs(bundle, data)[:2], self.outputs(free, data)[:2])
        self.refuse(DIAGNOSTICS, ["'x'", "axis 2 has 225, but 32*k is 225 for no size"], "rannc-run", bundle, "-o", self.scratch / "none",
                    "--data", self.image(2, 225, 12))
        self.refuse(DIAGNOSTICS, ["axis 3 has 4, but 4*j + 4 is 4"], "rannc-run", bundle, "-o", self.scratch / "none", "--data",
                    self.image(1, 32, 4))

    def test_one_name_for_two_axes(self):
        bundle, _ = self.compiled(pooled(self.scratch / "model.onnx"), "--size", "height=4*k", "--size", "width=4*k")
        self.assertEqual(self.outputs(bundle, self.image(1, 8, 8))[0], [1, 1, 2, 2])
        self.refuse(DIAGNOSTICS, ["'x'", "[1,1,8,12]", "[n,1,4*k,4*k]"], "rannc-run", bundle, "-o", self.scratch / "none", "--data",
                    self.image(1, 8, 12))

    def test_a_size_in_terms_of_another(self):
        bundle, _ = self.compiled(pooled(self.scratch / "model.onnx"), "--size", "height=2*width")
        self.assertEqual(self.outputs(bundle, self.image(1, 16, 8))[0], [1, 1, 4, 2])

    def test_symbols_of_equal_sizes(self):
        bundle, _ = self.compiled(summed(self.scratch / "sum.onnx"), "--same-symbol", "q=p", "--size", "q=3")
        data = self.scratch / "data.safetensors"
        tensor = ("F32", [2, 3, 2], struct.pack("<12f", *range(12)))
        programs.write_safetensors(data, {"x/a": tensor, "x/b": tensor})
        self.assertEqual(self.outputs(bundle, data)[:2], ([2, 3, 2], tuple(2.0 * i for i in range(12))))

    def test_contradictions_are_named(self):
        pooled(self.scratch / "model.onnx")
        for flags, parts in (
            (["depth=4"], ["--size depth=4", "no input has a dimension named 'depth'", "height", "width"]),
            (["height=3", "height=4"], ["--size height=4", "'height' is 3 by another --size"]),
            (["height=k*k"], ["--size height=k*k", "expected a positive integer"]),
            (["height=0"], ["--size height=0", "expected a positive integer"]),
            (["height=a + b"], ["--size height=a + b", "expected a positive integer"]),
            (["n=4"], ["--size n=4", "'n' counts samples", "--mini-batch", "--batch-symbol"]),
            (["height=2*n"], ["--size height=2*n", "'n' counts samples"]),
            (["height=2*width", "width=3*k"], ["--size height=2*width", "'width' is itself replaced by 3*k"]),
        ):
            with self.subTest(flags=flags):
                given = [part for flag in flags for part in ("--size", flag)]
                code = USAGE if "another --size" in parts[-1] else DIAGNOSTICS  # flags alone, or the model
                self.refuse(code, parts, "rannc-compile", self.scratch / "model.onnx", "-o", self.scratch / "none", *given)
        self.refuse(USAGE, ["--assume height=5", "--size height=4 fixes it"], "rannc-compile", self.scratch / "model.onnx", "-o",
                    self.scratch / "none", "--size", "height=4", "--assume", "height=5")
        self.refuse(DIAGNOSTICS, ["q=4", "p", "3"], "rannc-compile", summed(self.scratch / "sum.onnx"), "-o", self.scratch / "none",
                    "--same-symbol", "q=p", "--size", "p=3", "--size", "q=4")

    def test_a_size_that_no_operator_accepts(self):
        """Fixed sizes are judged where they are used."""
        self.refuse(DIAGNOSTICS, ["'sum'", "3", "4"], "rannc-compile", summed(self.scratch / "sum.onnx"), "-o", self.scratch / "none",
                    "--size", "p=3", "--size", "q=4")


if __name__ == "__main__":
    programs.main()
