"""rannc-check takes rannc-compile's flags about sizes and stored tensors, and prints why a file stays whole."""
import json
import struct

import programs
import small_onnx as onnx

MLP = programs.DATA / "small_mlp"


class Flags(programs.ProgramTest):
    def test_what_is_trained(self):
        names = json.loads((MLP / "card.json").read_text())["parameter_of_initializer"]
        name = sorted(names)[0] if isinstance(names, dict) and names else next(
            key.partition("/")[2] for key in programs.read_safetensors(MLP / "reference.safetensors") if key.startswith("grad.file64/"))
        self.succeed("rannc-check", MLP)
        for flag in ("--buffer", "--freeze"):
            done = self.run_program("rannc-check", MLP, flag, name)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"gradient of {name}: we have none", done.stdout)
            self.succeed("rannc-check", MLP, flag, name, "--train", name)

    def folder(self, inputs, nodes, stored, tensors, output):
        folder = self.scratch / "folder"
        folder.mkdir()
        onnx.write(folder / "model.onnx", nodes, stored, inputs, [onnx.value("y", onnx.FLOAT, ["n", "m"])])
        programs.write_safetensors(folder / "batch.safetensors", tensors)
        shape, values = output
        programs.write_safetensors(folder / "reference.safetensors", {"out.file64/y": ("F64", shape, struct.pack(f"<{len(values)}d", *values))})
        (folder / "card.json").write_text("{}")
        return folder

    def test_why_a_file_stays_whole(self):
        folder = self.folder([onnx.value("x", onnx.FLOAT, [2, 2])], [onnx.node("Add", ["x", "table"], ["y"], "sum")],
                             [onnx.tensor("table", [2, 2], range(4))], {"x/x": ("F32", [2, 2], struct.pack("<4f", 1, 2, 3, 4))},
                             ([2, 2], [1, 3, 5, 7]))
        said = self.succeed("rannc-check", folder, "--stages", 1).stderr
        self.assertIn("model.onnx: not done: the static batch size of the file is kept: ", said)
        self.refuse(1, ["has different numbers for each of the 2 samples", "so its mini-batches cannot be divided", "P15"], "rannc-check", folder, "--stages", 1, "--micro-batches", 2)

    def test_symbols(self):
        floats = lambda *values: struct.pack(f"<{len(values)}f", *values)
        folder = self.folder([onnx.value("a", onnx.FLOAT, ["p", "n"]), onnx.value("b", onnx.FLOAT, ["q", "n"])],
                             [onnx.node("Add", ["a", "b"], ["y"], "sum")], [],
                             {"x/a": ("F32", [2, 3], floats(1, 2, 3, 4, 5, 6)), "x/b": ("F32", [2, 3], floats(0, 1, 0, 1, 0, 1))},
                             ([2, 3], [1, 3, 3, 5, 5, 7]))
        self.succeed("rannc-check", folder, "--batch-symbol", "n", "--same-symbol", "q=p", "--stages", 1, "--micro-batches", 3)


class Spelling(programs.ProgramTest):
    """Each program as a process: what it prints for --help."""

    def test_flags_that_both_programs_have(self):
        shared = ["--train", "--buffer", "--freeze", "--kind", "--tie", "--untie", "--same-symbol", "--size", "--batch-symbol", "--batch-size-in-file"]
        for program in ("rannc-compile", "rannc-check"):
            said = self.succeed(program, "--help").stdout
            for flag in shared:
                self.assertIn(flag + " ", said, program)


if __name__ == "__main__":
    programs.main()
